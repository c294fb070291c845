"""Adapters: low-rank matrices next to frozen ones, as PEFT adds them.

Source: peft/tuners/lora/layer.py and peft/tuners/tuners_utils.py (`_maybe_include_all_linear_layers`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

from memcore.networks.adapter_shapes import SHAPES, Numbers, bases, frozen_tensors, tensors
from memcore.networks.network import Layer, Model, Network, Tower, with_layers
from memcore.networks.parts import Attention, Experts
from memcore.networks.regrouping import changed_by_number
from memcore.networks.weights import Linear, Weight
from memcore.records import dataclass
from memcore.symbols import Shape, product

ALL = "all-linear"
"""Every linear layer but the output head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What is added to linear layers."""

    kind: str = "lora"
    """A kind of `memcore.networks.weights.Linear.adapter_kind`."""
    rank: int
    targets: Collection[str]
    """Last parts of the names of linear layers, or `all-linear`."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Other ranks, by the ends of the full names of linear layers: the first that fits."""
    layers: Collection[int] | None = None
    """The numbers of the layers that have one; None: all."""
    within: str = ""
    """Where the linear layers are that get it (`model.layers.3`)."""
    dtype: str
    """Of the added matrices; PEFT makes them fp32 next to half-precision weights."""
    dropout: float = 0.0
    frozen: bool = False
    """The first matrix of each does not learn (LoRA-FA)."""
    factor: int = -1
    """LoKr's `decompose_factor`."""
    block: int = 0
    """The side of OFT's and BOFT's blocks; 0: by the rank."""
    projections: int = 0
    """TinyLoRA's `u`."""
    frequencies: int = 0
    """FourierFT's `n_frequency`."""
    parameters: tuple[str, ...] = ()
    """Last parts of the names of stacked experts' matrices (PEFT's `target_parameters`), and of a router's."""
    doubled: tuple[str, ...] = ()
    """Those of them that stand for two matrices, whose rank is twice as large."""
    divided: bool = False
    """Tensor-parallel ranks share the rank of each, too."""
    outside: tuple[str, ...] = ()
    """Of `SEEING`: parts next to the language model whose linear layers are adapted too."""

    @property
    def by_layer(self) -> bool:
        """Return whether layers of one kind may differ in it."""
        return self.layers is not None or any(re.search(r"(^|\.)\d+\.", end) for end in self.ranks)

    def rank_at(self, part: Linear) -> int:
        """Return its rank next to a linear layer (peft/utils/other.py, `get_pattern_key`)."""
        name = f".{self.within}.{part.name}"
        return next((rank for end, rank in self.ranks.items() if name.endswith(f".{end}")), self.rank)

    def numbers(self, part: Linear, sizes: Mapping[str, int]) -> Numbers:
        """Return what decides the shapes next to a linear layer."""
        return Numbers(
            inner=product(part.inner, sizes),
            outer=product(part.outer, sizes),
            rank=self.rank_at(part),
            factor=self.factor,
            block=self.block,
            projections=self.projections,
            frequencies=self.frequencies,
        )


_SHARED = ("vera", "pvera", "randlora", "randlora-output")
"""Kinds whose frozen matrices all layers share."""
_PAIRED: Mapping[str, int] = {"vera": 1, "pvera": 2}
"""Those with a matrix before the vectors and one after, and how many times the rank the first has: PVeRA's yields a
mean and the logarithm of a variance."""
TRAINED_ROWS = "trainable_tokens_delta.default"
"""The rows of the embedding that learn, in its module (peft/tuners/trainable_tokens)."""
_FFNS = ("down_proj", "fc2", "dense_4h_to_h", "w2")
"""Linear layers whose input IA3 scales (peft/utils/constants.py, `TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD…`)."""


def shared_matrices(model: Model) -> tuple[tuple[str, Shape, str], ...]:
    """VeRA's, PVeRA's and RandLoRA's two matrices, which all layers share: as large as the largest of them needs.

    Returns names, shapes and dtypes.
    """
    linears = [each for layer in model.network.kinds for each in _linears(layer) if each.adapter_kind in _SHARED]
    if not linears:
        return ()
    inner = max(model.size(each.inner) for each in linears)
    outer = max(model.size(each.outer) for each in linears)
    dtype = linears[0].adapter_dtype or "fp32"
    kind = linears[0].adapter_kind
    if kind not in _PAIRED:
        count = bases(inner, outer, model.sizes["ra"])
        frozen: Shape = (max(inner, outer), count, "ra")
        return ("randlora_A", ("ra", 1, min(inner, outer)), dtype), ("randlora_B", frozen, dtype)
    return (f"{kind}_A", (_PAIRED[kind] * model.sizes["ra"], inner), dtype), (f"{kind}_B", (outer, "ra"), dtype)


def with_trained_rows(model: Model, tokens: int, dtype: str) -> Model:
    """Return the model with `tokens` trainable rows of its embedding, and everything else frozen."""
    embedding_and_head = model.network.embedding_and_head
    axes: tuple[Shape, ...] = ((tokens,), embedding_and_head.embedding.inner)
    name = f"{embedding_and_head.embedding.name.removesuffix('.weight')}.{TRAINED_ROWS}"
    others = (*embedding_and_head.others, Weight(name, axes, "adapter", dtype=dtype))
    return replace(
        model,
        network=replace(model.network, embedding_and_head=replace(embedding_and_head, others=others), adapted=True),
    )


HEADS = {"embed_in": "embed_out"}
"""What a class of transformers calls its head, by its embedding (GPT-NeoX)."""


def around(network: Network) -> tuple[str, str]:
    """Return the embedding's and the head's modules, by the last parts of their names."""
    embedding, head = (
        network.embedding_and_head.embedding.name.removesuffix(".weight"),
        network.embedding_and_head.head.name,
    )
    return embedding.rpartition(".")[2], head.rpartition(".")[2]


def with_saved(model: Model, names: Collection[str], *, ties: bool = False) -> Model:
    """Return the model with trainable copies of its embedding or head next to their frozen originals.

    A copy of a tied matrix is tied no more, unless `ties`: Megatron's head asks the embedding for its matrix. The
    original is the other module's then; else no forward pass reads it.
    Source: peft/utils/other.py, `ModulesToSaveWrapper.update`.
    """
    network = model.network
    embedding_and_head, (embedding, head) = network.embedding_and_head, around(network)
    originals = [embedding_and_head.embedding] if embedding in names else []
    if head in names and not (embedding_and_head.tied and originals):
        originals += [weight for weight in embedding_and_head.head.weights("head") if weight.kind != "adapter"]
    tied = ties and embedding_and_head.tied
    if embedding_and_head.tied and len(set(names)) == 1 and not tied:
        originals = []
    kept = (replace(each, name=_original(each.name), trainable=False) for each in originals)
    embedding_and_head = replace(embedding_and_head, tied=tied, others=(*embedding_and_head.others, *kept))
    return replace(
        model, network=replace(network, embedding_and_head=embedding_and_head, trainable=("adapter", *names))
    )


def _original(name: str) -> str:
    module, _, leaf = name.rpartition(".")
    return f"{module}.original_module.{leaf}"


def prefixed(model: Model, tokens: int, dtype: str) -> Model:
    """Return the model with trainable keys and values of `tokens` virtual tokens before every layer's own."""

    def with_prefix(layer: Layer) -> Layer:
        mixer = layer.mixer
        if not isinstance(mixer, Attention):
            raise TypeError(mixer)
        axes: tuple[Shape, ...] = (("va",), (2, mixer.heads.key, mixer.heads.width))
        return replace(
            layer, mixer=replace(mixer, adapter_weights=(Weight(prefix_name(mixer), axes, "adapter", dtype=dtype),))
        )

    network = replace(with_layers(model.network, with_prefix), adapted=True)
    return replace(model, network=network, sizes={**model.sizes, "va": tokens})


def prefix_name(part: Attention) -> str:
    """Return the name of an attention layer's learned keys and values; PEFT keeps those of all layers in one tensor."""
    return f"{part.module}.prefix"


def has_prefix(part: object) -> bool:
    """Return whether learned keys and values stand before its own."""
    return isinstance(part, Attention) and any(each.name == prefix_name(part) for each in part.adapter_weights)


def adapted(model: Model, adapter: Adapter) -> Model:
    """Freeze a model and add its adapters."""
    if adapter.by_layer:
        path = model.network.path
        changed = changed_by_number(model, lambda number, layer: _at(layer, number, path, adapter, model.sizes))
    else:
        changed = replace(
            model, network=with_layers(model.network, lambda layer: _adapted(layer, adapter, model.sizes))
        )
    embedding_and_head = model.network.embedding_and_head
    if around(model.network)[1] in adapter.targets and adapter.layers is None:
        head = _adapted(embedding_and_head.head, adapter, model.sizes)
        embedding_and_head = replace(embedding_and_head, head=head)
    network = replace(
        changed.network,
        embedding_and_head=embedding_and_head,
        adapted=True,
        towers=tuple(_adapted_tower(tower, adapter, model.sizes) for tower in model.network.towers),
    )
    return replace(changed, network=network, sizes={**model.sizes, "ra": adapter.rank})


def _at(layer: Layer, number: int, path: str, adapter: Adapter, sizes: Mapping[str, int]) -> Layer:
    """Return a layer with its adapters, if its number is among theirs."""
    if adapter.layers is not None and number not in adapter.layers:
        return layer
    found: Layer = _adapted(layer, replace(adapter, within=f"{path}.{number}"), sizes)
    return found


def _adapted_tower(tower: Tower, adapter: Adapter, sizes: Mapping[str, int]) -> Tower:
    """Return a tower and its projector with the adapters that `adapter.outside` asks for."""
    if "tower" in adapter.outside:
        inside = replace(adapter, within=tower.path)
        tower = with_layers(tower, lambda layer: _adapted(layer, inside, sizes))
    outer = [
        _adapted(Linear(each.name.removesuffix(".weight"), each.outer, each.inner), adapter, sizes)
        for each in tower.outer_weights
        if each.linear and each.kind in adapter.outside
    ]
    found = tuple(each for each in outer if each.adapter_dtype is not None)
    added = {each.name: [weight for weight in each.weights("") if weight.kind == "adapter"] for each in found}
    idle = (each.name for name, weights in added.items() if f"{name}.weight" in tower.idle for each in weights)
    return replace(
        tower,
        outer_weights=(*tower.outer_weights, *(each for weights in added.values() for each in weights)),
        outer_adapted=found,
        idle=tower.idle | {*idle},
    )


def outside_names(network: Network, parts: Collection[str]) -> list[str]:
    """Return the last parts of the names of linear layers in towers (`tower`) and projectors (`projector`)."""
    found: dict[str, None] = {}
    for tower in network.towers:
        runs = tower.runs if "tower" in parts else ()
        names = [each.name for run in runs for layer in run for each in _linears(layer)]
        outer = [each for each in tower.outer_weights if each.linear and each.kind in parts]
        names += [each.name.removesuffix(".weight") for each in outer]
        found |= dict.fromkeys(name.rpartition(".")[2] for name in names)
    return list(found)


def linear_names(network: Network) -> list[str]:
    """Return the last parts of the names of all linear layers: those of the decoder's layers, and the output head."""
    found: dict[str, None] = {}
    for layer in network.kinds:
        for each in _linears(layer):
            found[each.name.rpartition(".")[2]] = None
    return [*found, around(network)[1]]


def mixer_names(network: Network) -> list[str]:
    """Return the last parts of the names of linear layers of attention, or of what stands in its place."""
    found = dict.fromkeys(
        each.name.rpartition(".")[2] for layer in network.kinds for mixer in layer.mixers for each in _linears(mixer)
    )
    return list(found)


def targeted(network: Network, targets: Collection[str]) -> list[Linear]:
    """Linear layers of these names, or all of them."""
    every = [each for layer in network.kinds for each in _linears(layer)]
    if around(network)[1] in targets:
        every.append(network.embedding_and_head.head)
    return [each for each in every if ALL in targets or each.name.rpartition(".")[2] in targets]


def _linears(part: Any) -> list[Linear]:
    if isinstance(part, Linear):
        return [part] if part.module != "own" or part.adapter_dtype is not None else []
    if isinstance(part, tuple):
        return [each for item in part for each in _linears(item)]
    if is_dataclass(part) and not isinstance(part, Weight):
        return [each for item in fields(part) for each in _linears(getattr(part, item.name))]
    return []


def frozen_rows(model: Model) -> tuple[tuple[str, Shape, str], ...]:
    """Return the rows as they were before (`trainable_tokens_original`): names, shapes and dtypes."""
    found = [each for each in model.network.embedding_and_head.weights() if each.name.endswith(TRAINED_ROWS)]
    return tuple((each.name.replace("delta", "original"), each.shape, each.dtype or "fp32") for each in found)


def frozen_beside(layer: Layer, sizes: Mapping[str, int]) -> list[tuple[str, Shape, str]]:
    """Return the frozen tensors that a layer's adapters keep: names, shapes and dtypes."""
    return [each for part in _linears(layer) for each in frozen_tensors(part, sizes)]


def _adapted(part: Any, adapter: Adapter, sizes: Mapping[str, int]) -> Any:
    """Return the part with every targeted linear layer replaced."""
    if isinstance(part, Linear):
        name = part.name.rpartition(".")[2]
        if not _is_adapted(part, adapter):
            return part
        kind = "ia3-input" if adapter.kind == "ia3" and name in _FFNS else adapter.kind
        if kind == "randlora" and product(part.outer, sizes) < product(part.inner, sizes):
            kind = "randlora-output"
        part = replace(part, adapter_dtype=adapter.dtype, adapter_dropout=adapter.dropout)
        rank = adapter.rank_at(part)
        if rank != adapter.rank:
            part = replace(part, adapter_ranks=rank, adapter_taken=rank)
        if kind in SHAPES:
            part = replace(part, adapter_axes=tensors(kind, adapter.numbers(part, sizes)))
        return replace(part, adapter_kind=kind, adapter_frozen=adapter.frozen, adapter_divided=adapter.divided)
    if isinstance(part, tuple):
        return tuple(_adapted(item, adapter, sizes) for item in part)
    if is_dataclass(part) and not isinstance(part, (Weight, type)):
        changed: Mapping[str, Any] = {
            item.name: _adapted(getattr(part, item.name), adapter, sizes) for item in fields(part) if item.init
        }
        if isinstance(part, Experts) and adapter.parameters:
            changed = {**changed, "adapters": tuple(_of_experts(part, adapter))}
        return replace(part, **changed)
    return part


def _is_adapted(part: Linear, adapter: Adapter) -> bool:
    if part.module == "own":
        return any(f".{part.name}.weight".endswith(f".{each}") for each in adapter.parameters)
    return ALL in adapter.targets or part.name.rpartition(".")[2] in adapter.targets


def _of_experts(part: Experts, adapter: Adapter) -> Iterator[Weight]:
    """Return both matrices of all experts, each in one tensor (peft/tuners/lora/layer.py, `ParamWrapper`)."""
    wanted = [name for name in part.stacked if name.rpartition(".")[2] in adapter.parameters]
    for weight in [each for each in part.experts if each.name in wanted]:
        many, *sides = weight.axes
        outer, inner = reversed(sides) if part.transposes else sides
        rank: Shape = (2, "ra") if weight.name.rpartition(".")[2] in adapter.doubled else ("ra",)
        for matrix, axes in (("lora_A", ((*many, *rank), inner)), ("lora_B", (outer, (*rank, *many)))):
            learns = not (adapter.frozen and matrix == "lora_A")
            name = f"{weight.name}.{matrix}.default.weight"
            yield Weight(name, axes, "adapter", dtype=adapter.dtype, trainable=learns)


def trainable(model: Model) -> int:
    """Count the parameters that the optimizer sees."""
    every = model.tensors
    return sum(model.size(weight.shape) * count for weight, _, count in every if learns(weight, model.network))


def learns(weight: Weight, network: Network) -> bool:
    """Return whether a parameter gets a gradient."""
    if weight.kind in network.frozen:
        return False
    if network.trainable is not None:
        return weight.trainable and bool({weight.kind, *weight.name.split(".")} & set(network.trainable))
    return weight.trainable and (weight.kind == "adapter" or not network.adapted)
