"""What libraries that build on PyTorch's step do in ways of their own: DeepSpeed, nanotron, Megatron-DeepSpeed.

Each has an `EXTENSION` in its `resolve` module. Resolving a job asks that one, and compares no engine by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from memcore import registry
from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.errors import Problem
from memcore.hardware import Overhead
from memcore.memory.communicators import Communicator, Extent, groups_of_mesh, opened
from memcore.networks.network import Model
from memcore.records import dataclass
from memcore.trace.engine import Engine
from memcore.trace.recipe import Checkpoints, Recipe

OwnJob = Callable[[Defaults, Model, Engine, Mapping[str, int], int, Checkpoints | None], tuple[Model, Recipe]]
"""What one rank has of a model, and the recipe of its step, given sizes, micro-batches and checkpoints."""


def _of_mesh(recipe: Recipe, sizes: Mapping[str, int], extent: Extent) -> Sequence[Communicator]:
    return groups_of_mesh(sizes, extent)


def _unchanged(
    read: Defaults, engine: Engine, model: Model, recipe: Recipe, sizes: Mapping[str, int]
) -> tuple[Recipe, dict[str, int]]:
    return recipe, dict(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The answers of one library; by default those of PyTorch itself."""

    variant: Callable[[Defaults], str] | None = None
    """The key of the engine, where what is kept of a parameter depends on settings."""
    convert: Callable[[Model], Model] = lambda model: model
    """The model as the library builds it. Raises UnsupportedError for what it has no counterpart of."""
    problems: Callable[[Config], Iterable[Problem]] = lambda config: ()
    """What contradicts how the library works, whatever the model is."""
    restated: Callable[[Config, list[Problem]], Mapping[str, object]] = lambda config, problems: {}
    """Values by setting, where the library has settings of its own for what the format says in one place for all."""
    disk: bool = False
    """It can keep parameters and states on a disk."""
    job: OwnJob | None = None
    """For a library with layers of its own, which also divides them among stages and checkpoints them itself."""
    partition: Callable[[Defaults, Engine, Model, Recipe, Mapping[str, int]], tuple[Recipe, dict[str, int]]] = (
        _unchanged
    )
    """The recipe and the sizes once parameters, gradients or states are partitioned."""
    partitions: bool = False
    """The optimizer is given pieces of one flat vector (ZeRO), which the library also frees and casts itself."""
    groups: Callable[[Recipe, Mapping[str, int], Extent], Sequence[Communicator]] = _of_mesh
    """The process groups that exchange something."""
    offers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of settings that PyTorch itself has no counterpart of."""
    capacity: bool = False
    """Every expert takes a fixed number of tokens."""
    start: str = "decoder"
    """How a network begins whose stages it runs."""
    ties_stages: bool = False
    """A head that is tied to the embedding may stand on another stage."""

    def nccl(self, recipe: Recipe, sizes: Mapping[str, int], extent: Extent) -> Overhead:
        """Return what communicators take outside of the allocator."""
        return opened(self.groups(recipe, sizes, extent), extent)


def extension_of(read: Defaults) -> Extension:
    """Return the extension of the engine that is given; PyTorch's where none is."""
    found: Extension = registry.engine_module(read.given(EngineSettings.type) or "none", "resolve").EXTENSION
    return found
