"""DeepSpeed-Ulysses: attention over the whole sequence with some of the heads, between exchanges of all ranks with all.

Source: deepspeed, runtime/sequence_parallel/ulysses_sp.py (UlyssesSPAttentionHF) and sequence/layer.py
(_DimZeroAllToAll, DistributedAttention).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memcore.symbols import Axis, Shape, split_over
from memcore.tensors.attention import Heads
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import contiguous, like, new, only, permute, view
from memcore.tensors.tensor import Tensor
from memcore.trace.ulysses import Ulysses

RANKS, WHOLE = "cp", "sq"
"""Symbols: ranks that share a sequence, and its tokens."""

Attend = Callable[[Tensor, Tensor, Tensor, Heads], Tensor]
"""Attention over the whole sequence: (b, heads, s, d) each, and the result as (b, s, heads, d)."""


def local_heads(heads: Heads, how: Ulysses) -> Heads:
    """Return the heads of one rank."""
    query = split_over(heads.query, RANKS)
    key: Axis = 1 if how.replicated else split_over(heads.key, RANKS)
    return replace(heads, query=query, key=key, groups=heads.groups if how.shared else 1)


def exchanged(query: Tensor, key: Tensor, value: Tensor, heads: Heads, how: Ulysses, attend: Attend) -> Tensor:
    """`UlyssesSPAttentionHF.forward`: from (b, heads, s, d) of a rank's tokens to (b, s, heads, d) of them."""
    gathered = _positions(query)
    first, second, third = (permute(each, 2, 0, 1, 3) for each in (query, key, value))
    own = local_heads(heads, how)
    query_layer = _combined(first, own.query)
    key_layer = _combined(_repeated(second, how), own.key)
    value_layer = _combined(_repeated(third, how), own.key)
    query_layer = contiguous(permute(query_layer, 1, 2, 0, 3))
    key_layer = contiguous(permute(key_layer, 1, 2, 0, 3))
    value_layer = contiguous(permute(value_layer, 1, 2, 0, 3))
    context_layer = contiguous(attend(query_layer, key_layer, value_layer, own))
    output = _partitioned(permute(context_layer, 1, 0, 2, 3), first.shape[0], heads.query)
    output = permute(output, 1, 0, 2, 3)
    del gathered
    return output


def _positions(x: Tensor) -> list[Tensor]:
    """Position ids of all ranks, and concatenated."""
    shapes: tuple[Shape, ...] = ((RANKS, x.shape[0], x.shape[2]), (x.shape[0], WHOLE))
    return [new(x.tape, shape, "int64", "gathered_positions") for shape in shapes]


def _repeated(x: Tensor, how: Ulysses) -> Tensor:
    """Key heads for each rank one; the gradient is summed back."""
    if not how.replicated:
        return x
    out = new(x.tape, (*x.shape[:2], RANKS, x.shape[3]), x.dtype, "repeat_interleave")
    if tracked(x):
        tape, before = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "repeat_interleave_backward")])
    return out


def _combined(x: Tensor, local: Axis) -> Tensor:
    """`combine_sequence`: heads in the order of ranks, sent; (s, b, heads, d) becomes (whole sequence, b, local, d)."""
    tape, before = x.tape, x.shape
    tokens, batch, _, width = before
    sent = new(tape, (RANKS, tokens, batch, local, width), x.dtype, "clone")
    if tracked(x):
        one = local == 1 or local in tape.units

        def together(gradient: Tensor) -> Tensor:
            # Single heads of ranks lie side by side as they come; several are copied.
            return view(gradient, before, (2, 0, 1, 3)) if one else new(tape, before, gradient.dtype, "clone")

        attach([sent], [x], [], lambda g, s: [together(only(g))])
    del x
    return _all_to_all(sent)


def _all_to_all(x: Tensor) -> Tensor:
    """`_DimZeroAllToAll`, seen as one sequence."""
    before = x.shape
    out = view(like(x, "ulysses_all_to_all"), (WHOLE, *before[2:]))
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_sent_back(only(g), before, in_order=only(g).contiguous)])
    return out


def _sent_back(x: Tensor, shape: Shape, *, in_order: bool) -> Tensor:
    """The gradient of an exchange; one that does not lie in order is copied, and so is what it is received in."""
    out = view(like(x, "ulysses_all_to_all"), shape)
    if not in_order:
        out = new(x.tape, shape, x.dtype, "ulysses_all_to_all")
        given = new(x.tape, shape, x.dtype, "clone")
        del given
    return out


def _partitioned(x: Tensor, tokens: Axis, heads: Axis) -> Tensor:
    """`_partition_global_sequence`: (whole sequence, b, local heads, d) becomes (s, b, heads, d)."""
    x, before = contiguous(x), x.shape
    received = like(x, "ulysses_all_to_all")
    out = new(x.tape, (tokens, before[1], heads, before[3]), x.dtype, "clone")
    del received
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_sent_back(only(g), before, in_order=False)])
    return out


def to_heads(x: Tensor, local: Axis) -> Tensor:
    """`_SeqAllToAll` over (b, s, heads, d): the whole sequence with a rank's heads."""
    tokens, count = x.shape[1], x.shape[2]
    out = _heads_sent(x, local)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_tokens_sent(only(g), tokens, count)])
    return out


def to_tokens(x: Tensor, tokens: Axis, heads: Axis) -> Tensor:
    """Exchange back to a rank's own tokens with all heads."""
    local = x.shape[2]
    out = _tokens_sent(x, tokens, heads)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_heads_sent(only(g), local)])
    return out


def _heads_sent(x: Tensor, local: Axis) -> Tensor:
    """`single_all_to_all`: heads are put in the order of ranks, and what comes in that of sequences."""
    batch, tokens, _, width = x.shape
    x = contiguous(x)
    sent = new(x.tape, (RANKS, batch, tokens, local, width), x.dtype, "clone")
    received = like(sent, "ulysses_all_to_all")
    return view(contiguous(permute(received, 1, 0, 2, 3, 4)), (batch, WHOLE, local, width))


def _tokens_sent(x: Tensor, tokens: Axis, heads: Axis) -> Tensor:
    """Exchange tokens; received heads are concatenated."""
    batch, _, local, width = x.shape
    x = view(contiguous(x), (batch, RANKS, tokens, local, width))
    sent = contiguous(permute(x, 1, 0, 2, 3, 4))
    received = like(sent, "ulysses_all_to_all")
    out = new(x.tape, (batch, tokens, heads, width), x.dtype, "clone")
    del received, sent
    return out
