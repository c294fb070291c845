"""What every layer of transformers is given, and the smallest pieces that all of them use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from memcore.layers.tensor_parallel import finished
from memcore.layers.transformers.adapters import ADAPTERS, PREPARES, Result
from memcore.networks.weights import Linear
from memcore.records import dataclass
from memcore.tensors.arithmetic import add_in_place
from memcore.tensors.basics import clone, to, unmerged
from memcore.tensors.fake_quantized import rounded_linear
from memcore.tensors.fused_lora import Adapted, products
from memcore.tensors.operations import add, dropout, linear, mul, scale
from memcore.tensors.sharded import from_parts, sum_to_parts
from memcore.tensors.tape import Held
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.recipe import AS_THEY_ARE, HeadsAs, Pictures, Recurrence
from memcore.trace.ulysses import Ulysses

Weights = Mapping[str, Parameter]
"""Parameters by name."""

_ARGUMENTS = ("own", "mask", "bias", "chosen", "seen", "seen_mask", "seen_rows")
"""Fields of the context that layers take as arguments."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every layer is given besides its input."""

    positions: Tensor | None
    """Position ids, of which every layer only keeps the reference."""
    kernel: str
    """The attention kernel that was asked for: sdpa (PyTorch chooses), flash, efficient, cudnn or math."""
    rotary: tuple[Tensor, ...] | None
    """Cosines and sines, or complex rotations."""
    mask: Tensor | None
    """The attention mask of this kind of layer."""
    cache: Held[list[Tensor]] | None
    """The KV cache that is filled but not used, if `use_cache` was left on."""
    caches_results: bool = False
    """As `Recipe.caches_results`."""
    padding: Tensor | None = None
    """The padding mask itself, as recurrent mixers see it."""
    recurrence: Recurrence = field(default_factory=Recurrence)
    """How recurrent mixers run."""
    pictures: Pictures | None = None
    """The images that a tower sees."""
    bias: Tensor | None = None
    """A bias of the scores by distance (ALiBi)."""
    own: Tensor | None = None
    """An input of this layer alone."""
    chosen: Tensor | None = None
    """The tokens that the layer before has chosen to attend to (GLM-5)."""
    seen: Tensor | None = None
    """Features of images that some layers attend to (Mllama)."""
    seen_mask: Tensor | None = None
    """Which of them each token sees."""
    seen_rows: Tensor | None = None
    """Which tokens see any of them."""
    ulysses: Ulysses | None = None
    """Ranks share the sequence, and heads in attention."""
    mixture: Callable[..., Tensor] | None = None
    """As `Recipe.mixture`."""
    ring_turns: int = 0
    """As `Recipe.ring_turns`."""
    buffers: str = ""
    """The dtype of the model's buffers."""
    shared: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Keys and values that layers leave for later ones, by which tokens they see (`KVSharingDict`)."""
    outputs: list[Tensor] = field(default_factory=list)
    """What the last layer returned in addition to its hidden states."""
    heads_as: HeadsAs = AS_THEY_ARE
    """As `Recipe.heads_as`."""
    ragged: bool = False
    """Learned prefixes and the sequence are together no multiple of 16."""
    returned: list[Tensor] = field(default_factory=list)
    """What the running layer will return in addition, and holds until it ends."""

    @property
    def arguments(self) -> dict[str, Tensor]:
        """Return the real tensors that layers take as arguments: engines may cast them, and checkpoints keep them."""
        names = ("cos", "sin") if self.rotary is not None and len(self.rotary) == 2 else ()
        found = dict(zip(names, self.rotary or (), strict=False))
        return {**found, **{name: each for name in _ARGUMENTS if (each := getattr(self, name)) is not None}}

    def given(self, arguments: Mapping[str, Tensor]) -> Context:
        """Return this context with other tensors as arguments."""
        rotary = self.rotary if "cos" not in arguments else (arguments["cos"], arguments["sin"])
        named: dict[str, Any] = {name: arguments.get(name) for name in _ARGUMENTS}
        return replace(self, rotary=rotary, **named)

    def given_too(self, arguments: Mapping[str, Tensor]) -> Context:
        """Return this context with further arguments."""
        named: dict[str, Any] = dict(arguments)
        return replace(self, **named)

    def without_arguments(self) -> Context:
        """Return what remains of it."""
        own = self.rotary if self.rotary is not None and len(self.rotary) != 2 else None
        nothing: dict[str, Any] = dict.fromkeys(_ARGUMENTS)
        return replace(self, rotary=own, **nothing)

    def leave(self, output: Tensor | None) -> None:
        """Return a tensor in addition to the hidden states: the model's loop holds it until the next layer is done."""
        if output is not None:
            self.returned.append(output)


def project(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Return a linear layer."""
    with x.tape.module(leaf(part.name)):
        if x.tape.fuses_lora and fusable(weights, part):
            return products(x, [adapted(weights, part)])[0]
        bias = weights.get(f"{part.name}.bias")
        has_adapter, dtype = part.adapter_dtype is not None and x.tape.adapting, x.dtype
        given = x  # the module is given it, and holds it until it returns
        if has_adapter and part.adapter_kind in PREPARES:
            x, *_held = PREPARES[part.adapter_kind](x, weights, part)
        weight = weights[f"{part.name}.weight"]
        if x.tape.rounds and bias is None and part.module == "linear":
            result = [rounded_linear(to(x, dtype), weight)]
        else:
            result = [linear(to(x, dtype), weight, bias, addmm=part.transposed)]
        if not has_adapter:
            return finished(result.pop(), part)
        result = [_viewed(_adapt(x, result, weights, part), part)]
        del given
        return finished(result.pop(), part)


def fusable(weights: Weights, part: Linear) -> bool:
    """Return whether Unsloth's functions take a layer: LoRA without dropout, a matrix without a bias (llama.py)."""
    lora = part.adapter_dtype is not None and part.adapter_kind == "lora" and not part.adapter_dropout
    return lora and f"{part.name}.bias" not in weights


def adapted(weights: Weights, part: Linear) -> Adapted:
    """Return a layer's matrices."""
    down, up = (weights[part.adapter_name(each)] for each in ("lora_A", "lora_B"))
    return Adapted(weights[f"{part.name}.weight"], down, up)


def _viewed(result: Tensor, part: Linear) -> Tensor:
    """The result of an adapter, whose axes are a view of one: its gradient is copied where they do not lie so."""
    return unmerged(result, len(result.shape) - len(part.outer)) if len(part.outer) > 1 else result


def _adapt(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """LoRA next to a linear layer (peft/tuners/lora/layer.py, `Linear.forward`).

    The product of the two small matrices, scaled, is added in their dtype and cast to the result's.
    """
    if part.adapter_kind == "scale":
        return scaled(result.pop(), weights, part)
    if part.adapter_kind in ADAPTERS:
        return ADAPTERS[part.adapter_kind](x, result, weights, part)
    how = weights[f"{part.name}.weight"].quantization
    if how is not None and not how.floating:
        return _adapt_quantized(x, result, weights, part)
    if x.tape.parallel is not None and part.adapter_divided and part.split is not None:
        return _divided(x, result, weights, part)
    dtype = result[0].dtype
    down, up = weights[part.adapter_name("lora_A")], weights[part.adapter_name("lora_B")]
    if x.tape.parallel is not None:
        # Every rank has the matrix on the other side of the layer's split, and its gradient's terms of a sum.
        (up if part.split == "inner" else down).partial = True
    x = _cast(x, down.dtype)
    return to(add(result.pop(), scale(linear(linear(dropout(x, part.adapter_dropout), down), up))), dtype)


def _divided(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """LoRA whose ranks of both matrices tensor-parallel ranks share: what is between them is gathered, or scattered.

    Source: nemo_automodel/components/distributed/parallel_styles.py (`ColwiseParallelLora`, `RowwiseParallelLora`),
    components/_peft/lora.py (`LinearLoRA.forward`: scaled between the matrices, dropped out after them).
    """
    down, up = weights[part.adapter_name("lora_A")], weights[part.adapter_name("lora_B")]
    small = linear(to(x, down.dtype), down)
    small = scale(from_parts(small, 2)) if part.split == "outer" else sum_to_parts(scale(small), 2)
    added = dropout(linear(small, up), part.adapter_dropout)
    del small
    return to(add(result.pop(), added), weights[f"{part.name}.weight"].dtype)


def _cast(x: Tensor, dtype: str) -> Tensor:
    """Cast an input; compiled blocks do so once for all their adapters (torch/_functorch, `fx_graph_cse`)."""
    if not x.tape.compiled or x.dtype == dtype:
        return to(x, dtype)
    if x.cast is None or x.cast.dtype != dtype:
        x.cast = to(x, dtype)
    return x.cast


def scaled(result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Return the result shifted and scaled (lit_gpt/adapter_v2.py, `AdapterV2Linear.forward`)."""
    return mul(weights[f"{part.name}.adapter_scale"], add(result, weights[f"{part.name}.adapter_bias"]))


def _adapt_quantized(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """LoRA next to a quantized layer (peft/tuners/lora/bnb.py): four bits clone the result, and the product is cast.

    Next to GPTQ's (tuners/lora/gptq.py) it is added to the result in place.
    """
    how = weights[f"{part.name}.weight"].quantization
    grouped = how is not None and how.grouped
    base = result.pop()
    if how is not None and how.bits == 4 and not grouped:
        base = clone(base)
    down, up = weights[part.adapter_name("lora_A")], weights[part.adapter_name("lora_B")]
    converts = x.tape.autocast is None
    x = to(x, down.dtype) if converts else x
    output = scale(linear(linear(dropout(x, part.adapter_dropout), down), up))
    output = to(output, base.dtype) if converts else output
    return add_in_place(base, output) if grouped else add(base, output)


def leaf(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]
