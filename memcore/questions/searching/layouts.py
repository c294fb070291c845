"""Layouts, and the config that results from applying one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training

Settings = Mapping[str, object]


class Layout(NamedTuple):
    """The parallel sizes of a job, in ranks, and its micro-batches."""

    tensor: int
    """Tensor-parallel size."""
    stages: int
    """Pipeline stages."""
    context: int
    """Context-parallel size."""
    experts: int
    """Expert-parallel size."""
    shards: int
    """Ranks that shard the parameters, including those of context parallelism."""
    replicas: int
    """Copies of the sharded parameters."""
    micro_batch: int
    """Sequences of a micro-batch."""
    micro_batches: int
    """Micro-batches of a step."""
    policy: int
    """Index of the search's policy: all other settings that vary."""

    @property
    def gpus(self) -> int:
        """Return the GPUs of the whole job."""
        return self.tensor * self.stages * self.shards * self.replicas

    @property
    def dimensions(self) -> int:
        """Return the number of kinds of parallelism besides data parallelism; the simplest of equals comes first."""
        return sum(size > 1 for size in (self.tensor, self.stages, self.context, self.experts))

    @property
    def data(self) -> int:
        """Return the data-parallel size: ranks that work on different sequences."""
        return self.shards * self.replicas // self.context


PATHS: Mapping[str, str] = {
    "tensor": Parallelism.tensor_parallel_size,
    "stages": Parallelism.pipeline_parallel_size,
    "context": Parallelism.context_parallel_size,
    "experts": Parallelism.expert_parallel_size,
}
"""Settings that are left out where they are 1."""

SHARES = (Parallelism.data_parallel_size, Parallelism.data_parallel_shard_size)
"""Settings that say how data-parallel ranks share, which follow from a layout."""


def changes_of(layout: Layout, policy: Settings) -> dict[str, object]:
    """Return the settings of a layout, by path; None leaves one out."""
    sizes = {path: getattr(layout, name) for name, path in PATHS.items()}
    found: dict[str, object] = {path: size if size > 1 else None for path, size in sizes.items()}
    found.update(dict.fromkeys(SHARES))
    if layout.replicas > 1:
        found[Parallelism.data_parallel_shard_size] = layout.shards
    found[Training.micro_batch_size] = layout.micro_batch
    found[Training.gradient_accumulation_steps] = layout.micro_batches
    found[Hardware.num_gpus] = layout.gpus
    return {**found, **policy}


def config_of(
    base: Config, layout: Layout, policies: Sequence[Settings], divided: Settings = MappingProxyType({})
) -> Config:
    """Return a config in a layout; `divided`: how its stages share layers."""
    for path, value in {**changes_of(layout, policies[layout.policy]), **divided}.items():
        if value != base.get(path):
            base = base.replaced(path, value)
    return base
