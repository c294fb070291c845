"""A frozen teacher next to a model: what it keeps on a rank, and what its forward pass needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.config.defaults import Defaults
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.errors import ConfigError
from memcore.symbols import product
from memcore.trace.job import Job
from memcore.trace.program import aligned
from memcore.trace.record import evaluation_of

_SAME = ("sequence_length", "micro_batch_size", "precision", "attention", "packed_sequences")
"""What a teacher has in common with the model: the recipe makes both in one dtype, for the same tokens."""


def teacher_sizes(
    read: Defaults, config: Config, sizes: Mapping[str, int], resolve: Callable[[Config], Job]
) -> dict[str, int]:
    """Return bytes of a teacher's parameters on a rank, and of its forward pass without its logits; empty without one.

    Source: torchtune 0.6.1, recipes/knowledge_distillation_distributed.py (`_setup_teacher_model`: sharded as the
    model is, without checkpoints).
    """
    path = Training.method.teacher
    if config.get(path) is None or read.problems:
        return {}
    data: dict[str, Any] = config.to_dict()
    training = {name: value for name, value in data["training"].items() if name in _SAME}
    job = resolve(Config.from_dict({**data, "model": config[path], "training": training}))
    if job.sizes["V"] != sizes["V"]:
        raise ConfigError.at(
            path,
            "found {!r} with a vocabulary of {:,}; the model has {:,}, and both must be the same",
            config[path],
            job.sizes["V"],
            sizes["V"],
        )
    moments = evaluation_of(job.recipe).moments(job.sizes, 0)
    forward = max(moment.peak for moment in moments if moment.phase == "forward")
    return {"tw": sum(_stored(job)), "tf": forward}


def _stored(job: Job) -> list[int]:
    found = []
    for weight, _, count in job.share.tensors:
        shape = tuple(symbol for axis in job.engine.stored(weight) for symbol in axis)
        dtype = weight.dtype or job.recipe.precision.parameter
        found.append(count * aligned(product(shape, job.sizes) * ITEMSIZE[dtype]))
    return found
