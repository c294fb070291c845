"""What a layout is, and the config that it makes of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training

Settings = Mapping[str, object]


class Layout(NamedTuple):
    """How a job is divided; sizes are ranks."""

    tensor: int
    stages: int
    context: int
    experts: int
    shards: int
    """Ranks over which parameters are sharded, those of context parallelism among them."""
    replicas: int
    micro_batch: int
    micro_batches: int
    policy: int
    """The number of a policy of the space: everything else that varies."""

    @property
    def gpus(self) -> int:
        """Of the whole job."""
        return self.tensor * self.stages * self.shards * self.replicas

    @property
    def dimensions(self) -> int:
        """How many kinds of parallelism it combines besides data parallelism; of equals the simplest comes first."""
        return sum(size > 1 for size in (self.tensor, self.stages, self.context, self.experts))

    @property
    def data(self) -> int:
        """Ranks that work on different sequences."""
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
    """The settings of a layout, by path; None leaves one out."""
    sizes = {path: getattr(layout, name) for name, path in PATHS.items()}
    found: dict[str, object] = {path: size if size > 1 else None for path, size in sizes.items()}
    found.update(dict.fromkeys(SHARES))
    if layout.replicas > 1:
        found[Parallelism.data_parallel_shard_size] = layout.shards
    found[Training.micro_batch_size] = layout.micro_batch
    found[Training.gradient_accumulation_steps] = layout.micro_batches
    found[Hardware.num_gpus] = layout.gpus
    return {**found, **policy}


def config_of(base: Config, layout: Layout, policies: Sequence[Settings]) -> Config:
    """A config in a layout."""
    for path, value in changes_of(layout, policies[layout.policy]).items():
        if value != base.get(path):
            base = base.replaced(path, value)
    return base
