"""PyTorch's own engines: one GPU, DistributedDataParallel, FSDP2 and FSDP1."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.engine import AUTOCAST_PRESETS, Engine, Runtime
from memcore.trainers.pytorch import ddp, fsdp, fsdp1

ONE_GPU = Engine(
    name="none",
    title="one GPU",
    runtime=Runtime,
    presets=AUTOCAST_PRESETS,
    default_preset="bf16",
    stored=lambda weight: weight.stored_axes,
    native=True,
    composes=True,
    distributed=False,
)
ENGINES: Mapping[str, Engine] = {
    each.key or each.name: each for each in (ONE_GPU, ddp.ENGINE, fsdp.ENGINE, fsdp1.ENGINE)
}
"""By the value of `engine.type`, or the key of a version."""
VERSIONS: Mapping[str, Mapping[object, str]] = {"fsdp": {1: "fsdp1", 2: "fsdp"}}
"""By the value of `engine.type` and version, where there are several."""
