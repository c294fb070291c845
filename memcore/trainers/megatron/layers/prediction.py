"""Layers that predict further tokens. Source: Megatron-LM, core/transformer/multi_token_prediction.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memcore.networks.network import EmbeddingAndHead
from memcore.networks.parts import Extra
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Shape, whole
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import like, new, only, view
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Slot, Step
from memcore.trainers.megatron.layers.dispatch import view_of
from memcore.trainers.megatron.layers.embedding import embedded
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import linear, part_of
from memcore.trainers.megatron.step_plan import MegatronPlan

_EMBEDDING = "mtp.embedding.word_embeddings.weight"
"""The copy of the embedding that a later stage has."""

Layer = Callable[[Slot, Tensor], Tensor]


def split(slots: Sequence[Slot]) -> tuple[list[Slot], list[list[Slot]]]:
    """Return the layers of the decoder, and those of each further token."""
    first = next((place for place, slot in enumerate(slots) if slot.layer.extra is not None), len(slots))
    depths: list[list[Slot]] = []
    for slot in slots[first:]:
        if slot.layer.extra is not None:
            depths.append([])
        depths[-1].append(slot)
    return list(slots[:first]), depths


def predicted(
    step: Step, x: Tensor, tokens: Tensor, depths: Sequence[Sequence[Slot]], run: Layer, how: MegatronPlan
) -> list[Tensor]:
    """Hidden states of the decoder and of each further token, as parts of one tensor."""
    found = [x]
    for slots in depths:
        for _ in range(_rounds(slots[0])):
            step.begin("embedding of an additional token")
            tokens = like(tokens, "clone")
            added = _embedded(step, tokens, how)
            x = _depth(step, slots, x, added, run, how)
            del added
            found.append(x)
    return _joined(found)


def _depth(step: Step, slots: Sequence[Slot], x: Tensor, added: Tensor, run: Layer, how: MegatronPlan) -> Tensor:
    """Predict one further token: the first layer is given its embedding."""
    for place, slot in enumerate(slots):
        is_last, given = place == len(slots) - 1, [] if place else [added]

        def layer(slot: Slot, x: Tensor, *more: Tensor, is_last: bool = is_last) -> Tensor:
            return _layer(slot, slots[0], x, more, run, how, is_last=is_last)

        x = step.layer(slot, layer, x, *given)
    return x


def _rounds(slot: Slot) -> int:
    return slot.layer.extra.rounds if slot.layer.extra is not None else 1


def _embedded(step: Step, tokens: Tensor, how: MegatronPlan) -> Tensor:
    embedding_and_head = step.recipe.network.embedding_and_head
    name = _EMBEDDING if _EMBEDDING in step.weights else embedding_and_head.embedding.name
    weights = {embedding_and_head.embedding.name: step.weights[name]}
    around = EmbeddingAndHead(
        embedding=embedding_and_head.embedding,
        final_norm=None,
        head=embedding_and_head.head,
        tied=False,
        embedding_dropout=embedding_and_head.embedding_dropout,
    )
    return embedded(tokens, None, around, weights, how)


def _layer(
    slot: Slot,
    first: Slot,
    x: Tensor,
    more: Sequence[Tensor],
    run: Layer,
    how: MegatronPlan,
    *,
    is_last: bool,
) -> Tensor:
    extra, weights, kind = first.layer.extra, first.weights, first.layer.norms[0]
    if extra is None:
        raise TypeError(first.layer)

    def part(name: str) -> Norm:
        return Norm(f"mtp.{name}", kind.kind, ("h",), bias=kind.bias)

    for added in more:
        token, state = norm(added, part("enorm"), weights), norm(x, part("hnorm"), weights)
        both = _stacked([token, state], (*x.shape[:2], 2, x.shape[2]))
        del token, state
        x = _whole(linear(both, _projection(extra), weights, how), how)
        del both
    x = run(slot, x)
    return norm(x, part("final_layernorm"), weights) if is_last else x


def _projection(extra: Extra) -> Linear:
    weight = next(each for each in extra.parameters if each.name.endswith("eh_proj.weight"))
    return Linear(weight.name.removesuffix(".weight"), weight.outer, weight.inner, split="outer")


def _whole(x: Tensor, how: MegatronPlan) -> Tensor:
    """Return all ranks' elements of each token, gathered and put side by side; a rank then views its own tokens."""
    shape = (*x.shape[:2], whole(x.shape[2]))
    if not how.tensor:
        return view_of(x, shape)
    stacked = new(x.tape, shape, x.dtype, "megatron_all_gather")
    out = new(x.tape, shape, x.dtype, "cat")
    del stacked
    if tracked(x):
        tape, own = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, own, only(g).dtype, "clone")])
    return part_of(out) if how.sequence else out


def _stacked(parts: Sequence[Tensor], shape: Shape) -> Tensor:
    """`torch.cat`, with an axis for the parts; their gradients are views."""
    out = new(parts[0].tape, shape, parts[0].dtype, "cat")
    if tracked(*parts):
        shapes = [part.shape for part in parts]
        attach([out], parts, [], lambda g, s: [view(only(g), each) for each in shapes])
    return out


def _joined(parts: Sequence[Tensor]) -> list[Tensor]:
    """`torch.cat` of all hidden states, and `torch.chunk`."""
    if len(parts) == 1:
        return list(parts)
    both = _stacked(parts, (len(parts), *parts[0].shape))
    outs = [view(both, parts[0].shape) for _ in parts]
    if tracked(both):
        tape, full, dtype = both.tape, both.shape, both.dtype
        attach(outs, [both], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return outs


def with_loss(x: Tensor, loss: Tensor) -> Tensor:
    """`MTPLossAutoScaler`: the same tensor, whose gradient brings that of a loss along."""
    out = view(x, x.shape, x.order)
    if tracked(x, loss):
        tape = x.tape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [gradients[0], new(tape, (), "fp32", "backward_seed")]

        attach([out], [x, loss], [], apply)
    return out
