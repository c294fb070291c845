"""DTensor's redistributions: what collectives between tensor-parallel ranks allocate on each of them.

Source: torch/distributed/tensor/placement_types.py, _redistribute.py; torch/distributed/_functional_collectives.py.
Collectives gather and scatter along the first axis, so that another axis takes a copy more.
"""

from __future__ import annotations

from memcore.symbols import split_over, whole
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import like, new, only, view
from memcore.tensors.selection import selectable
from memcore.tensors.tensor import Parameter, Tensor

# Collectives outside the graph.


def gathered(x: Tensor, axis: int) -> Tensor:
    """All ranks' parts of an axis: a copy puts them in order, unless all axes before it have a single element."""
    shape = (*x.shape[:axis], whole(x.shape[axis]), *x.shape[axis + 1 :])
    stacked = new(x.tape, ("tp", *x.shape), x.dtype, "tensor_all_gather")
    if all(each == 1 or each in x.tape.units for each in x.shape[:axis]):
        return view(stacked, shape)
    return new(x.tape, shape, x.dtype, "cat")


def scattered(x: Tensor, axis: int) -> Tensor:
    """This rank's part of an axis of the sum over all ranks."""
    tape = x.tape
    stacked = like(x, "cat")
    shape = (*x.shape[:axis], split_over(x.shape[axis]), *x.shape[axis + 1 :])
    (out,) = selectable(tape, "reduce_scatter", lambda: [new(tape, shape, x.dtype, "tensor_reduce_scatter")])
    del stacked
    return out


def reduced(x: Tensor) -> Tensor:
    """Return the sum over all ranks, not in place."""
    return new(x.tape, x.shape, x.dtype, "tensor_all_reduce")


def _part(x: Tensor, axis: int) -> Tensor:
    shape = (*x.shape[:axis], split_over(x.shape[axis]), *x.shape[axis + 1 :])
    return new(x.tape, shape, x.dtype, "clone")


# Redistributions of the graph.


def from_parts(x: Tensor, axis: int) -> Tensor:
    """Return what every rank computes with: all of it (Shard to Replicate).

    Each rank's gradient is one term of a sum.
    """
    out = gathered(x, axis)
    if tracked(x):
        with x.tape.wrapping():
            attach([out], [x], [], lambda g, s: [scattered(only(g), axis)])
    return out


def from_replica(x: Tensor) -> Tensor:
    """Shard what every rank already has: only the gradient is reduced."""
    out = view(x, x.shape, x.order)
    if tracked(x):
        with x.tape.wrapping():
            attach([out], [x], [], lambda g, s: [reduced(only(g))])
    return out


def sum_to_parts(x: Tensor, axis: int) -> Tensor:
    """Return each rank's part of a sum over ranks (Partial to Shard)."""
    out = scattered(x, axis)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [gathered(only(g), axis)])
    return out


def sum_to_replica(x: Tensor) -> Tensor:
    """Return a sum over ranks for all of them (Partial to Replicate)."""
    out = reduced(x)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def replica(x: Tensor, axis: int) -> Tensor:
    """All ranks' parts of an axis, for each of them to do the same with; of the gradient a rank copies its part."""
    out = gathered(x, axis)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_part(only(g), axis)])
    return out


def masked(indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return which indices are not in this rank's part of a table, and the indices within it (`_MaskPartial`)."""
    below, above = like(indices, "shard_mask", "bool"), like(indices, "shard_mask", "bool")
    mask = like(indices, "shard_mask", "bool")
    del below, above
    copied = like(indices, "clone")
    local = like(copied, "masked_indices")
    return mask, local


def embedding_of_part(tokens: Tensor, weight: Parameter) -> Tensor:
    """Return rows of a rank's part of a table, zeros for the other tokens.

    No strategy shards the gradient by rows (_ops/_embedding_ops.py): every rank computes that of the whole table.
    """
    tape = tokens.tape
    mask, local = masked(tokens)
    needs = tracked(weight)
    saved = save(tape, tokens) if needs else []
    out = new(tape, (*tokens.shape, *weight.inner), weight.dtype, "embedding")
    del local, mask
    if needs:
        full = (*(whole(axis) for axis in weight.outer), *weight.inner)
        attach([out], [weight], saved, lambda g, s: [new(tape, full, only(g).dtype, "embedding_backward")])
        if out.node is not None:
            out.node.inputs = [(full, weight.dtype)]
    return out
