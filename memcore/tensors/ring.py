"""Ring attention: context parallelism as PyTorch runs it (torch/distributed/tensor/experimental/_context_parallel).

Each rank has two stretches of the sequence, an early and a late one, so that causal masks leave all ranks equal work.
Keys and values are gathered once (the default), and every other rank's part is met in turn. This is the first rank,
whose later turns only concern its second stretch. FlexAttention meets all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Axis, Shape, Total, half, spell
from memcore.tensors.attention import kernel_gradients, kernel_results
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, narrow, new, only, to, view
from memcore.tensors.selection import selectable
from memcore.tensors.tensor import Tensor

TURNS = 4
"""Turns recorded at most: the first, two that look the same, and the last, which sends nothing on."""


def ring_attention(query: Tensor, key: Tensor, value: Tensor, shared: bool, turns: int, kernel: str) -> Tensor:
    """Causal attention over all ranks' tokens; (b, a, s, d) with this rank's tokens (`_templated_ring_attention`)."""
    tape = query.tape
    needs = tracked(query, key, value)
    saved = save(tape, query, key, value) if needs else []
    detached = query.detach(), key.detach(), value.detach()
    with tape.no_grad():
        out, statistics, *kept = selectable(tape, "sdpa", lambda: _forward(*detached, turns, kernel))
    if needs:

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return _backward(only(gradients), saved, shared, turns, kernel)

        attach([out], [query, key, value], saved + save(tape, out, statistics, *kept), apply)
    return out


def gathered_keys(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values of all ranks, (b, k, s, d) before: `flex_cp_allgather` (_cp_custom_ops.py).

    PyTorch's collectives gather and scatter along the first axis, and copy for any other
    (torch/distributed/_functional_collectives.py).
    """
    tape = key.tape
    own = [contiguous(each.detach()) for each in (key, value)]
    whole = [_gathered(each) for each in own]
    shapes = [each.shape for each in own]
    del own
    if tracked(key, value):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [_scattered(only([each]), shape) for each, shape in zip(gradients, shapes, strict=True)]

        attach(whole, [key, value], save(tape), apply)
    first, second = whole
    return first, second


def _gathered(x: Tensor) -> Tensor:
    batch, heads, _, width = x.shape
    parts = new(x.tape, ("cp", *x.shape), x.dtype, "all_gather_output")
    out = new(x.tape, (batch, heads, "sq", width), x.dtype, "cat")
    del parts
    return out


def _scattered(gradient: Tensor, shape: Shape) -> Tensor:
    sent = like(gradient, "cat")
    out = new(gradient.tape, shape, gradient.dtype, "reduce_scatter_output")
    del sent
    return out


def _forward(query: Tensor, key: Tensor, value: Tensor, turns: int, kernel: str) -> list[Tensor]:
    key, value = contiguous(key), contiguous(value)
    gathered: Tensor | None = None
    merged: Tensor | None = None
    total: Tensor | None = None
    out: Tensor | None = None
    kept: list[Tensor] = []
    for turn in range(turns):
        if turn and gathered is not None:
            key, value = view(gathered, key.shape), view(gathered, value.shape)
        if turn < turns - 1:
            sent = _flat([key, value])
            gathered = gathered or new(query.tape, ("cp", *sent.shape), sent.dtype, "all_gather_output")
            del sent
        part = query if not turn else _late(query)
        out, statistics, *kept = kernel_results(kernel, part, value)
        upcast = to(out, "fp32")
        if merged is None or total is None:
            merged, total = upcast, statistics
        else:
            merged, total = _merge(merged, total, upcast, statistics)
        del upcast, statistics, part
    if merged is None or total is None:
        raise RuntimeError("a ring has at least one turn")
    result = to(merged, query.dtype)
    return [result, total, *kept]


def _late(x: Tensor) -> Tensor:
    """Return the second half of the tokens, a view."""
    return narrow(x, 2, half(x.shape[2]))


def _merge(out: Tensor, total: Tensor, block: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Weigh a turn's results by their statistics, in the place of the second half (`_SDPAMerger._merge_one`)."""
    weight = like(like(statistics, "ring_merge"), "ring_merge")
    difference = like(block, "ring_merge")
    change = like(difference, "ring_merge")
    del difference, weight
    late = like(change, "ring_merge")
    del change
    step = like(statistics, "ring_merge")
    step = like(step, "ring_merge")
    sums = like(step, "ring_merge")
    del step
    total = like(total, "cat")
    del sums, late
    # `_partial_update` concatenates along the tokens, which leaves axes in order, whatever attention's were.
    return new(out.tape, out.shape, out.dtype, "cat"), total


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """Return keys and values in one row; `flatten` copies those that do not lie in order."""
    parts = [contiguous(each) for each in parts]
    first, second = parts
    shape: Shape = (2, *first.shape)
    if first.shape != second.shape:
        shape = (Total(f"{spell(first.shape)} + {spell(second.shape)}", (first.shape, second.shape)),)
    return new(first.tape, shape, first.dtype, "cat")


def _backward(gradient: Tensor, saved: list[Tensor], shared: bool, turns: int, kernel: str) -> list[Gradient]:
    query, key, value, _out, statistics = saved[:5]
    tape = query.tape
    for_query, for_key, for_value = (like(each, "ring_gradient", "fp32") for each in (query, key, value))
    key, value = contiguous(key), contiguous(value)
    gathered: Tensor | None = None
    received: Tensor | None = None
    made: list[Gradient] = []
    for turn in range(turns):
        if turn and gathered is not None:
            key, value = view(gathered, key.shape), view(gathered, value.shape)
        if turn < turns - 1:
            sent = _flat([key, value])
            gathered = gathered or new(tape, ("cp", *sent.shape), sent.dtype, "all_gather_output")
        part, rows = (query, statistics) if not turn else (_late(query), _late_rows(statistics))
        made = kernel_gradients(kernel, part, key, value, shared)
        del rows
        if turn and received is not None:
            for_key, for_value = view(received, for_key.shape), view(received, for_value.shape)
        passed = _flat([for_key, for_value])
        received = like(passed, "all_to_all_output")
        if turn:
            for_query = like(for_query, "cat")
    result = to(for_query, query.dtype)
    if received is None:
        raise RuntimeError("a ring has at least one turn")
    both = to(received, key.dtype)
    del made
    return [result, view(both, key.shape), view(both, value.shape)]


def _late_rows(statistics: Tensor) -> Tensor:
    batch, heads, rows = statistics.shape
    late: Axis = half(rows)
    return new(statistics.tape, (batch, heads, late), statistics.dtype, "clone")
