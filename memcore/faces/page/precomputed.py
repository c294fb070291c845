"""What a build works out ahead, so that first edits need not: the steps that they ask for, recorded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress

from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice, Flag
from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import from_texts, to_texts
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.goals.tasks import TASKS, with_task
from memcore.faces.page.presets import presets
from memcore.faces.render.page import example
from memcore.memory.estimate import Estimate

COUNTS = (
    Training.micro_batch_size, Training.gradient_accumulation_steps,
)  # fmt: skip
"""Settings for which only 1 and 2 are recorded apart: any larger number is like 2."""
MODELS = ("llama-3.2-1b", "llama-3.1-70b", "qwen2.5-7b", "qwen3-8b", "mistral-7b-v0.3")
"""What is most often put in the example's place."""


def record_ahead() -> None:
    """Record the steps of every preset, and of the example after one edit."""
    for texts in (*(to_texts(Config.from_dict(each.config)) for each in presets().values()), *_edited()):
        with suppress(MemcoreError):  # an edit that is refused
            found = estimate(from_texts(texts))
            if isinstance(found, Estimate):
                _ = found.peak  # of all ranks
        gc.collect()  # what a recording leaves behind would make the memory that is kept larger
        gc.freeze()  # what it keeps need not be looked at again after the next one
    gc.unfreeze()


def _edited() -> Iterator[dict[str, str]]:
    """Yield the example with one setting that is not rare changed, or another task chosen."""
    texts = to_texts(example())
    for path, setting in SETTINGS.items():
        if not setting.advanced and isinstance(setting.kind, Choice | Flag):
            options = setting.kind.options if isinstance(setting.kind, Choice) else ("true", "false")
            yield from ({**texts, path: option} for option in options)
    yield from ({**texts, path: "2"} for path in COUNTS)
    yield from ({**texts, "model": model} for model in MODELS)
    yield from ({**with_task(texts, task), Hardware.num_gpus: "8"} for task in ("full", "lora"))
    yield from (with_task(texts, task) for task in TASKS)
