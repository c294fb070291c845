"""Implementations of layers: what each can do, and where its forward pass is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module

from memcore import registry
from memcore.networks.network import Network
from memcore.records import dataclass
from memcore.trace.recipe import Buffer
from memcore.trace.step import Forward, Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCode:
    """One implementation, and what it can do."""

    name: str
    """The value of `training.implementation`."""
    title: str
    forward: Forward
    check: Callable[[Network], None]
    """Raises UnsupportedError for a network that it cannot express."""
    has_sdpa: Callable[[Network], bool]
    kernels: Callable[[Network], Sequence[str]]
    """The values of `training.attention` that it offers for a network."""
    computes_loss: bool
    """The loss is part of the model's forward pass."""
    has_cache: bool
    default_wrap: str
    """How FSDP wraps it by default."""
    buffers: Callable[[Network], Sequence[Buffer]]
    """What the model holds besides parameters."""
    loss: str = "cross-entropy-fp32"
    """The loss that it takes by itself."""
    pads: bool = False
    """Its loop pads a batch to its longest sequence, unless they are packed: no two steps have the same size."""
    patched: Callable[[Network, frozenset[str]], frozenset[str]] = lambda network, kernels: frozenset()
    """Which of Liger's kernels run, of those asked for; raises UnsupportedError for layers that they do not fit."""
    inputs: Inputs = lambda step: {}
    """What it is given of images."""
    sees: Callable[[Network], bool] = lambda network: False
    """Whether it covers what a network's towers do with images."""
    approximates: bool = False
    """Other towers run from the nearest parts."""


@lru_cache(maxsize=64)
def code_of(implementation: str) -> LayerCode:
    """Return an implementation by the value of `training.implementation`."""
    found: LayerCode = import_module(registry.IMPLEMENTATIONS[implementation]).IMPLEMENTATIONS[implementation]
    return found
