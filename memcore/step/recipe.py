"""The recipe of a step: everything that decides which tensors come and go, and no sizes.

Two jobs with the same recipe leave the same tape, whatever their width, depth, batch or sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

from memcore.model.network import Layer, Network
from memcore.symbols import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtypes of one job."""

    parameter: str
    """As the optimizer keeps them."""
    compute: str
    """As the layers see them; FSDP gathers in it."""
    reduce: str
    """In which gradients are summed over ranks."""
    autocast: str | None = None
    """The dtype of `torch.autocast`, if the forward pass runs under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How the loss is computed from the hidden states."""

    kind: str
    """cross-entropy-fp32, cross-entropy or chunked."""
    chunks: int = 1
    shifts_labels: bool = True
    """The model shifts labels itself, as transformers does."""
    keeps_outputs: bool = False
    """The model's output object, and with it the logits, lives through the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """What a data-parallel engine does with parameters and gradients."""

    engine: str
    """none, ddp or fsdp."""
    wrap: str = "layer"
    reshard_after_forward: bool | int = True
    root_reshards: bool = False
    replicated: bool = False
    """Hybrid sharding: gradients are also all-reduced over replicas."""
    offloaded: bool = False
    """FSDP keeps shards, gradients and optimizer on the host."""
    syncs_every_micro_batch: bool = True
    gathers: bool = True
    """There is more than one rank to gather from."""
    bucket_views: bool = False
    """DDP's gradients are views of its buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The structure of a training step on one rank."""

    network: Network
    repeats: tuple[int, ...]
    """How often each run's pattern repeats, capped at `HEAD + TAIL + 1`: more look the same."""
    implementation: str
    attention: str
    padded: bool
    windowed: bool
    """The sequence is at least as long as the sliding window."""
    precision: Precision
    loss: Loss
    sharding: Sharding
    checkpointed: bool
    early_stop: bool
    micro_batches: int
    """1, or 2 when gradients accumulate: from the second micro-batch on every one is the same."""
    keeps_gradients: bool
    """Gradients stay in memory between steps, so that the second step differs from the first."""
    units: frozenset[str]
    """Symbols of size 1."""
    use_cache: bool = False
    fake: bool = False
    """The step runs on fake tensors, as in a simulation, where PyTorch allocates a little more."""

    @property
    def last_unit(self) -> str:
        """The name of the last layer."""
        return f"{len(self.repeats) - 1}.{self.repeats[-1] - 1}.{len(self.network.runs[-1]) - 1}"

    def label(self, layer: Layer) -> str:
        """A name for a kind of layer: `layer`, numbered where there are several kinds."""
        kinds = list(dict.fromkeys(layer for run in self.network.runs for layer in run))
        return "layer" if len(kinds) == 1 else f"layer {kinds.index(layer)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that a model or an engine holds from the start to the end of the job."""

    rule: str
    """A key of `memcore.rules.RULES`."""
    module: str
    shape: Shape
    dtype: str


HEAD = 2
"""Repetitions of a layer pattern recorded one by one before those that all look the same."""
TAIL = 2
"""Repetitions recorded one by one after them."""
