"""Recordings are the same whoever looks on: a profiler in another thread holds frames, and with them tensors."""

import sys
import threading
import time

import pytest

from memcore import estimate
from memcore.config.settings import Config
from memcore.trace.engine import engine_of
from memcore.trace.record import first_micro_batch, program_of, recorded
from memcore.trainers.pytorch.resolve import resolve

pytestmark = pytest.mark.machine


def forget():
    """Clear what was recorded, so that each test records again."""
    program_of.cache_clear()
    first_micro_batch.cache_clear()


def test_a_sampling_profiler_changes_no_tape():
    """As distributed's workers do, a thread takes the frames of all others again and again."""
    job = {
        "model": "qwen2.5-0.5b",
        "training": {"sequence_length": 2048, "activation_checkpointing": "selective"},
        "hardware": {"num_gpus": 4},
    }
    recipe = resolve(Config.from_dict(job)).recipe
    forget()
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
            forget()
            assert program_of(recipe).events == wanted
    finally:
        over.set()
        thread.join()


LORA = {"type": "lora", "rank": 8}
TRAININGS = {
    "full": {},
    "adapters": {"adapter": LORA, "activation_checkpointing": "full"},
    "reentrant": {"activation_checkpointing": {"policy": "full", "use_reentrant": True}},
    "few bits": {"adapter": LORA, "quantization": "nf4"},
    "autocast": {"precision": "bf16-mixed"},
}


@pytest.mark.parametrize("model", ["gpt2", "qwen3-30b-a3b"])
@pytest.mark.parametrize("kind", TRAININGS)
@pytest.mark.parametrize(
    "engine",
    [{"type": "none"}, {"type": "ddp"}, *({"type": "deepspeed", "zero_stage": stage} for stage in (1, 3))],
    ids=lambda engine: engine["type"] + str(engine.get("zero_stage", "")),
)
def test_later_micro_batches_follow_from_the_first(model, kind, engine):
    """A step's second micro-batch is the one that is recorded after the first, event by event."""
    job = {
        "model": model,
        "engine": engine,
        "training": {"sequence_length": 1024, "gradient_accumulation_steps": 2, **TRAININGS[kind]},
        "hardware": {"num_gpus": 1 if engine["type"] == "none" else 4},
    }
    recipe = estimate(job).job.recipe
    assert recipe.micro_batches == 2
    derived, wanted = program_of(recipe), recorded(recipe)
    for name in ("blocks", "segments", "events", "gradients", "savers", "communicated"):
        assert getattr(derived, name) == getattr(wanted, name)


def test_most_second_micro_batches_are_not_recorded():
    """Without sharded gradients; ZeRO-2 keeps a partition that the first micro-batch allocates."""
    for stage, derived in ((0, True), (1, None), (2, False), (3, True)):
        engine = {"type": "deepspeed", "zero_stage": stage}
        job = {"model": "gpt2", "engine": engine, "training": {"sequence_length": 1024}, "hardware": {"num_gpus": 4}}
        recipe = estimate(job).job.recipe
        assert engine_of(recipe.sharding.engine).runtime.uniform(recipe) is (derived is not None)
        if derived is not None:
            assert (first_micro_batch(recipe).freed is not None) is derived
