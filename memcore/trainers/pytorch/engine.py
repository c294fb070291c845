"""PyTorch's own engines: one GPU, DistributedDataParallel, FSDP2 and FSDP1."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.engine import Engine
from memcore.trainers.pytorch import ddp, fsdp, fsdp1, single

ENGINES: Mapping[str, Engine] = {
    each.key or each.name: each for each in (single.ENGINE, ddp.ENGINE, fsdp.ENGINE, fsdp1.ENGINE)
}
"""By the value of `engine.type`, or the key of a version."""
VERSIONS: Mapping[str, Mapping[object, str]] = {"fsdp": {1: "fsdp1", 2: "fsdp"}}
"""By the value of `engine.type` and version, where there are several."""
