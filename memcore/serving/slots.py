"""Which matrices and vectors a server holds of a model, and the part of each that one rank has.

Servers merge what reads the same input (queries, keys and values; gate and up) into one tensor. Sources: the layers
of vLLM (model_executor/layers/linear.py, model_executor/models/*), SGLang and TensorRT-LLM, which shard alike:
columns of the first matrix of a pair, rows of the second, vocabulary tables by rows padded to 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from memcore.networks.network import EmbeddingAndHead, Layer
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention, SpecialMixer
from memcore.networks.weights import Linear, Norm, Weight
from memcore.records import dataclass
from memcore.symbols import Axis, Quotient, Rounded, Shape

TENSOR, EXPERT, EXPERT_TENSOR = "TP", "EP", "ETP"
"""Symbols of the ranks over which tensors are sharded, experts are shared out, and each expert is sharded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One tensor of a server, already the part of a rank."""

    name: str
    """Relative to the layer; the checkpoint's name with the merged parts' in place of the last word."""
    kind: str
    rows: tuple[Shape, ...]
    """The outputs of each merged part; for a vector its axes."""
    columns: Shape = ()
    """The inputs; none for a vector."""
    leading: Shape = ()
    """Axes for each of which there is such a matrix: experts."""
    members: tuple[str, ...] = ()
    """The checkpoint's modules that it is made of."""

    @property
    def is_matrix(self) -> bool:
        """Return whether it can be quantized."""
        return bool(self.columns)


def sharded(shape: Shape, ranks: Axis) -> Shape:
    """Return a product of sizes divided over ranks: of `(a, d)` each rank has `⌈a/TP⌉` heads of `d`."""
    for number, axis in enumerate(shape):
        if not isinstance(axis, int):
            return (*shape[:number], Quotient((axis,), ranks), *shape[number + 1 :])
    return shape


def layer_slots(layer: Layer, *, merged: bool = True) -> Iterator[Slot]:
    """Everything that a layer holds; `merged`: what reads the same input is one tensor."""
    for slot in _layer_slots(layer):
        yield from (slot,) if merged else _apart(slot)


def _apart(slot: Slot) -> Iterator[Slot]:
    """Yield the parts of a merged tensor, as the checkpoint has them."""
    if len(slot.rows) != len(slot.members) or len(slot.rows) < 2:
        yield slot
        return
    last = slot.name.rpartition(".")[2]
    for rows, member in zip(slot.rows, slot.members, strict=True):
        yield replace(slot, name=f"{member}.{last}", rows=(rows,), members=(member,))


def _layer_slots(layer: Layer) -> Iterator[Slot]:
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            found = _attention(mixer)
        elif isinstance(mixer, LatentAttention):
            found = _latent(mixer)
        else:
            found = _special(mixer)
        yield from _of_kind(found, layer.kind)
    for ffn in layer.ffns:
        yield from _of_kind(_experts(ffn) if isinstance(ffn, Experts) else _feed_forward(ffn), layer.kind)
    yield from _of_kind((each for norm in layer.norms for each in _norm(norm)), layer.kind)
    if layer.extra is not None:
        yield from _of_kind((_plain(weight) for weight in layer.extra.weights()), layer.kind)


def _of_kind(slots: Iterable[Slot], kind: str | None) -> Iterator[Slot]:
    return (replace(slot, kind=kind) if kind else slot for slot in slots)


def _merged(parts: Sequence[Linear], name: str, kind: str, rows: Sequence[Shape], columns: Shape) -> Iterator[Slot]:
    members = tuple(part.name for part in parts)
    yield Slot(name=f"{name}.weight", kind=kind, rows=tuple(rows), columns=columns, members=members)
    biased = tuple(row for row, part in zip(rows, parts, strict=False) if part.bias)
    if len(parts) == 1 and parts[0].bias:
        biased = tuple(rows)
    if biased:
        yield Slot(name=f"{name}.bias", kind=kind, rows=biased, members=members)


def _renamed(name: str, last: str) -> str:
    return ".".join([*name.split(".")[:-1], last])


def _attention(mixer: Attention) -> Iterator[Slot]:
    if not mixer.borrowed:
        first, heads = mixer.inputs[0], mixer.heads
        if len(mixer.inputs) == 1 and mixer.fused != "no":
            outer: list[Shape] = [(heads.query, heads.width), (heads.key, heads.width), (heads.key, heads.value)]
        else:
            outer = [part.outer for part in mixer.inputs]
        rows = [sharded(shape, TENSOR) for shape in outer]
        name = first.name if len(mixer.inputs) == 1 else _renamed(first.name, "qkv_proj")
        yield from _merged(mixer.inputs, name, "attention", rows, first.inner)
        yield from _row_parallel(mixer.output, "attention")
        if mixer.sinks is not None:
            yield Slot(name=mixer.sinks.name, kind="attention", rows=(sharded(mixer.sinks.shape, TENSOR),))
        for norm in (mixer.query_norm, mixer.key_norm, mixer.value_norm):
            yield from _norm(norm)


def _row_parallel(part: Linear, kind: str) -> Iterator[Slot]:
    yield from _merged((part,), part.name, kind, (part.outer,), sharded(part.inner, TENSOR))


def _latent(mixer: LatentAttention) -> Iterator[Slot]:
    down = [*mixer.queries[:-1], mixer.compress]
    name = _renamed(down[0].name, "fused_qkv_a_proj") if len(down) == 2 else down[0].name
    yield from _merged(down, name, "attention", [part.outer for part in down], mixer.compress.inner)
    for part in (mixer.queries[-1], mixer.expand):
        yield from _merged((part,), part.name, "attention", (sharded(part.outer, TENSOR),), part.inner)
    yield from _row_parallel(mixer.output, "attention")
    for norm in (mixer.query_norm, mixer.latent_norm):
        yield from _norm(norm)
    yield from (_plain(weight) for weight in mixer.indexer)


def _special(mixer: SpecialMixer) -> Iterator[Slot]:
    yield from (_plain(weight) for weight in mixer.weights())


def _feed_forward(ffn: FeedForward) -> Iterator[Slot]:
    if not ffn.borrowed:
        parts = [part for part in (ffn.gate, ffn.up) if part is not None]
        name = _renamed(ffn.up.name, "gate_up_proj") if len(parts) == 2 else ffn.up.name
        rows = [sharded(part.outer, TENSOR) for part in parts]
        yield from _merged(parts, name, ffn.kind, rows, ffn.up.inner)
        yield from _row_parallel(ffn.down, ffn.kind)
        yield from (_plain(weight) for weight in ffn.activation_weights)


def _experts(ffn: Experts) -> Iterator[Slot]:
    yield from _merged((ffn.router,), ffn.router.name, "router", (ffn.router.outer,), ffn.router.inner)
    yield from (_plain(weight) for weight in ffn.routing)
    for part in ffn.latent:
        yield from _merged((part,), part.name, "shared-expert", (part.outer,), part.inner)
    yield from (_expert(weight) for weight in ffn.experts)
    if ffn.shared is not None:
        yield from _feed_forward(ffn.shared)
    if ffn.shared_gate is not None:
        gate = ffn.shared_gate
        yield from _merged((gate,), gate.name, "router", (gate.outer,), gate.inner)
    if ffn.correction is not None:
        yield Slot(name=f"{ffn.router.name}.e_score_correction_bias", kind="router", rows=(ffn.router.outer,))


def _expert(weight: Weight) -> Slot:
    """Experts are shared out over EP, and each expert's own width over the tensor-parallel ranks that remain."""
    symbols = weight.shape
    many = next(axis for axis in symbols if isinstance(axis, str) and axis.rstrip("′") == "E")
    members = (weight.name,)
    parts = [tuple(axis for axis in axes if axis != many) for axes in weight.axes]
    axes = [part for part in parts if part]
    leading: Shape = (Quotient((many,), EXPERT),)
    divided = [_own_width(axis) for axis in axes]
    if len(divided) == 1:
        return Slot(name=weight.name, kind=weight.kind, rows=(divided[0],), leading=leading, members=members)
    last = divided[-1] if _outer_is_last(weight) else divided[0]
    other = divided[0] if _outer_is_last(weight) else divided[-1]
    return Slot(name=weight.name, kind=weight.kind, rows=(last,), columns=other, leading=leading, members=members)


def _outer_is_last(weight: Weight) -> bool:
    """Return whether the tensor is stored as (experts, in, out)."""
    wide = any("m" in str(axis) for axis in weight.axes[-1])
    return wide == (weight.split == "outer") and len(weight.axes) == 3


def _own_width(shape: Shape) -> Shape:
    if any(isinstance(axis, str) and axis.rstrip("′") == "m" for axis in shape):
        return sharded(shape, EXPERT_TENSOR)
    return shape


def _norm(norm: Norm | None) -> Iterator[Slot]:
    if norm is not None:
        yield from (_plain(weight) for weight in norm.weights())


def _plain(weight: Weight) -> Slot:
    """Return a parameter as the model describes it, sharded if it says how."""
    if len(weight.axes) < 2 or weight.split is None:
        rows = sharded(weight.shape, TENSOR) if weight.split else weight.shape
        matrix = len(weight.axes) == 2
        return Slot(
            name=weight.name,
            kind=weight.kind,
            rows=(weight.axes[0] if matrix else rows,),
            columns=weight.axes[1] if matrix else (),
            members=(weight.name.rpartition(".")[0],),
        )
    outer = sharded(weight.outer, TENSOR) if weight.split == "outer" else weight.outer
    inner = sharded(weight.inner, TENSOR) if weight.split == "inner" else weight.inner
    return Slot(
        name=weight.name, kind=weight.kind, rows=(outer,), columns=inner, members=(weight.name.rpartition(".")[0],)
    )


def vocabulary(weight: Weight | Linear, *, padded: bool) -> Slot:
    """An embedding or a head: rows of the vocabulary, which servers pad to 64 (vllm, vocab_parallel_embedding.py)."""
    if isinstance(weight, Linear):
        name, rows, columns, kind = f"{weight.name}.weight", weight.outer, weight.inner, "head"
    else:
        name, rows, columns, kind = weight.name, weight.axes[0], weight.axes[1], weight.kind
    return Slot(
        name=name,
        kind=kind,
        rows=(sharded(_padded(rows) if padded else rows, TENSOR),),
        columns=columns,
        members=(name.rpartition(".")[0],),
    )


def _padded(rows: Shape) -> Shape:
    return tuple(Rounded(axis, 64) for axis in rows)


def first_slots(embedding_and_head: EmbeddingAndHead, *, padded: bool) -> Iterator[Slot]:
    """Yield what the first stage holds besides its layers."""
    yield vocabulary(embedding_and_head.embedding, padded=padded)
    if embedding_and_head.positions is not None:
        yield _plain(embedding_and_head.positions)
    yield from _norm(embedding_and_head.embedding_norm)
    yield from (_plain(weight) for weight in embedding_and_head.others)


def last_slots(embedding_and_head: EmbeddingAndHead, *, shares_embedding: bool, padded: bool) -> Iterator[Slot]:
    """Yield what the last stage holds besides its layers; a tied head is there once on a rank that also embeds."""
    yield from _norm(embedding_and_head.final_norm)
    if not embedding_and_head.predicts:
        return
    if not (embedding_and_head.tied and shares_embedding):
        yield vocabulary(
            embedding_and_head.embedding if embedding_and_head.tied else embedding_and_head.head, padded=padded
        )
    if embedding_and_head.head.bias:
        rows = _padded(embedding_and_head.head.outer) if padded else embedding_and_head.head.outer
        yield Slot(name=f"{embedding_and_head.head.name}.bias", kind="head", rows=(sharded(rows, TENSOR),))
