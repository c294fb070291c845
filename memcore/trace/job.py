"""A job of training: a config with nothing left open. Trainers make it, and everything after them reads it."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.defaults import Assumption
from memcore.config.settings import Config
from memcore.hardware import Accelerator, Overhead
from memcore.networks.network import Model
from memcore.networks.stages import Partition, stage_of
from memcore.optimizers.states import Implementation, Optimizer
from memcore.records import dataclass
from memcore.trace.engine import Engine
from memcore.trace.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A config with nothing left open."""

    config: Config
    model: Model
    share: Model
    """What a tensor-parallel rank has of it."""
    engine: Engine
    recipe: Recipe
    sizes: Mapping[str, int]
    """The value of every symbol, the numbers of repeated layers included."""
    optimizer: Optimizer
    implementation: Implementation
    micro_batches: int
    stages: int
    """Ranks of the pipeline; 1 without one."""
    schedule: str
    """Of the pipeline: 1f1b, gpipe, or a row of `LOOPED`."""
    stages_each: int = 1
    """Stages on each rank of the pipeline."""
    partition: Partition | None = None
    """How layers are shared among stages, where that is not the engine's to say."""
    clips: bool
    worst_imbalance: float | None = None
    """Of the experts' load, where a job leaves it open: all tokens choose the experts of one rank."""
    num_gpus: int
    nccl: Overhead
    """What communicators take outside of the allocator."""
    accelerator: Accelerator | None
    capacity: int | None
    """Bytes of one GPU that a job can use."""
    assumptions: tuple[Assumption, ...]

    @property
    def compared(self) -> int:
        """Return how many sequences each unit of `training.micro_batch_size` has: both of a pair that is compared."""
        objective = self.recipe.objective
        return 2 if objective is not None and objective.pairs else 1

    @property
    def micro_batch(self) -> int:
        """Return what `training.micro_batch_size` counts: sequences, or pairs of them."""
        return self.sizes["b"] // self.compared

    def staged(self, model: Model, number: int, stages: int) -> Model:
        """Return the part of a model that a stage has."""
        if self.partition is None:
            return self.engine.stage(model, number, stages)
        return stage_of(model, number, stages, self.partition)
