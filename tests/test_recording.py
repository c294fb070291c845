"""Recordings are the same whoever looks on: a profiler in another thread holds frames, and with them tensors."""

import sys
import threading
import time

import pytest

from memcore.config.settings import Config
from memcore.trace.record import program_of
from memcore.trainers.pytorch.resolve import resolve

pytestmark = pytest.mark.machine


def test_a_sampling_profiler_changes_no_tape():
    """As distributed's workers do, a thread takes the frames of all others again and again."""
    job = {
        "model": "qwen2.5-0.5b",
        "training": {"sequence_length": 2048, "activation_checkpointing": "selective"},
        "hardware": {"num_gpus": 4},
    }
    recipe = resolve(Config.from_dict(job)).recipe
    program_of.cache_clear()
    wanted = program_of(recipe).events
    over = threading.Event()

    def sample():
        held = []
        while not over.is_set():
            held[:] = sys._current_frames().values()
            time.sleep(0.0005)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        for _ in range(5):
            program_of.cache_clear()
            assert program_of(recipe).events == wanted
    finally:
        over.set()
        thread.join()
