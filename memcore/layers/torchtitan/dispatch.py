"""Dispatchers: how rows go to the ranks of their experts in torchtitan's layers, and how results come back.

Source: torchtitan/models/common/token_dispatcher.py and torchtitan/distributed/deepep/{deepep,hybridep}.py (August
2026); DeepEP 2, deep_ep/buffers/elastic.py and csrc/elastic/buffer.hpp. Local variables live as long here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from memcore.networks.separate_experts import ARRIVED, ROWS
from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only, to
from memcore.tensors.indexing import sort, take
from memcore.tensors.operations import mul
from memcore.tensors.selection import selectable
from memcore.tensors.slices import unsqueeze
from memcore.tensors.tensor import Tensor

Run = Callable[[Tensor, Tensor | None], Tensor]
"""The experts: rows in the order of experts and, where their activation takes these, the rows' scores, to results."""


class Experts(NamedTuple):
    """How rows become results."""

    run: Run
    compiled: bool
    weighs: bool = False
    """Scores are factors within the activation, so that results are summed as they are."""


Dispatcher = Callable[[Tensor, Tensor, Tensor, Experts], Tensor]
"""Tokens, scores and numbers of their experts, and the experts, to results."""


def local(x: Tensor, top_scores: Tensor, expert_ids: Tensor, experts: Experts) -> Tensor:
    """`LocalTokenDispatcher`: this rank has all experts."""
    rows, scores, indices = _reordered(x, top_scores, expert_ids)
    out = experts.run(rows, None)
    total = like(x, "zeros")
    with x.tape.module("token_dispatcher"):
        weighted = _times(out, scores, compiled=experts.compiled)
        return _scattered(total, weighted, indices)


def alltoall(x: Tensor, top_scores: Tensor, expert_ids: Tensor, experts: Experts) -> Tensor:
    """`AllToAllTokenDispatcher`: a row for each token and expert is sent."""
    rows, scores, indices = _reordered(x, top_scores, expert_ids)
    sent = rows.shape
    rows, permuted_indices = _dispatched(rows)
    out = experts.run(rows, None)
    combined = _combined(out, permuted_indices, sent)
    total = like(x, "zeros")
    with x.tape.module("token_dispatcher"):
        weighted = _times(combined, scores, compiled=experts.compiled)
        del combined
        return _scattered(total, weighted, indices)


def deepep(x: Tensor, top_scores: Tensor, expert_ids: Tensor, experts: Experts) -> Tensor:
    """`DeepEPTokenDispatcher`: a token is sent once to each rank, and has a row for each of its experts there."""
    rows, scores, indices = _by_expert(*_received(x, top_scores, expert_ids))
    out = experts.run(rows, scores if experts.weighs else None)
    with x.tape.module("token_dispatcher"):
        weighted = _weighted_once(out, scores, experts)
        arrived = _summed(weighted, indices)
        del weighted
        return _returned(arrived, x.shape)


def hybridep(x: Tensor, top_scores: Tensor, expert_ids: Tensor, experts: Experts) -> Tensor:
    """`HybridEPTokenDispatcher`: its kernels also put rows in the order of experts, and add them up."""
    tape, many = x.tape, (*x.shape[:-1], "E")
    routed = [new(tape, many, dtype, "routing_map") for dtype in ("bool", "fp32")]
    rows, scores = _sent(x, top_scores, (ROWS,), [expert_ids])
    del routed
    out = experts.run(rows, scores if experts.weighs else None)
    with tape.module("token_dispatcher"):
        weighted = _weighted_once(out, scores, experts)
        return _returned(weighted, x.shape)


DISPATCHERS: Mapping[str, Dispatcher] = {
    "local": local,
    "alltoall": alltoall,
    "deepep": deepep,
    "hybridep": hybridep,
}
"""By `Recipe.dispatcher`."""


def _reordered(x: Tensor, top_scores: Tensor, expert_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`_local_reorder`: a row for each token and expert, in the order of experts; scores and tokens of rows."""
    permutation = sort(expert_ids)[1]
    sorted_scores = take(top_scores, permutation, 0)
    token_indices = like(permutation, "floor_divide")
    del permutation
    return take(x, token_indices, 1), sorted_scores, token_indices


def _weighted_once(out: Tensor, scores: Tensor, experts: Experts) -> Tensor:
    """Results times their scores, unless these are factors of theirs already."""
    return out if experts.weighs else _times(out, to(scores, out.dtype), compiled=experts.compiled)


def _times(x: Tensor, scores: Tensor, *, compiled: bool) -> Tensor:
    """Rows times their scores, in the dtype of the scores; compiled, rows are kept as they are."""
    factor = unsqueeze(scores, len(scores.shape))
    if compiled:
        return _weighted(x, factor)
    return to(mul(to(x, scores.dtype), factor), x.dtype)


def _dispatched(routed_input: Tensor) -> tuple[Tensor, Tensor]:
    """Rows go to the ranks of their experts, and are put in the order of experts there (`_permute`)."""
    tape, width = routed_input.tape, routed_input.shape[-1]
    received = all_to_all(routed_input, (ROWS, width))
    segments = new(tape, (ROWS,), "int64", "row_segments")
    starts = take(Tensor(tape, None, (ROWS,), "int64"), segments, 0)
    numbers = like(starts, "arange")
    starts = like(starts, "add")
    del numbers
    offsets = like(starts, "index")
    permuted_indices = like(starts, "sub")
    del offsets, starts, segments
    return take(received, permuted_indices, 1), permuted_indices


def _combined(routed_output: Tensor, permuted_indices: Tensor, sent: Shape) -> Tensor:
    """Rows are put back in the order in which they came, and return (`_unpermute`)."""
    return all_to_all(put(routed_output, permuted_indices), sent)


def put(values: Tensor, indices: Tensor) -> Tensor:
    """`out[indices] = values` in an empty tensor; it saves the indices, and takes the gradient's rows by them."""
    tape = values.tape
    saved = save(tape, indices) if tracked(values) else []
    out = new(tape, values.shape, values.dtype, "empty")
    if tracked(values):
        attach([out], [values], saved, lambda g, s: [like(only(g), "index")])
    return out


def all_to_all(x: Tensor, shape: Shape) -> Tensor:
    """Rows to other ranks, and rows from them; the gradients go back."""
    tape, before = x.tape, x.shape
    x = contiguous(x)
    (out,) = selectable(tape, "all_to_all", lambda: [new(tape, shape, x.dtype, "all_to_all")])
    if tracked(x):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [new(tape, before, only(gradients).dtype, "all_to_all")]

        attach([out], [x], [], apply)
    return out


def _received(x: Tensor, top_scores: Tensor, expert_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`deepep.dispatch`: tokens with any expert here, which of their experts are here, and the scores of these."""
    tape, each = x.tape, expert_ids.shape[-1]
    unscored = like(top_scores, "eq", "bool")
    expert_ids = like(expert_ids, "masked_fill")
    del unscored
    handle = [
        like(expert_ids, "dispatch_handle"),
        like(expert_ids, "dispatch_handle", "int32"),
        new(tape, (ARRIVED, each), "int32", "dispatch_handle"),
        new(tape, (ARRIVED, 2), "int32", "dispatch_handle"),
    ]
    received, scores = _sent(x, top_scores, (ARRIVED, each), handle)
    return received, new(tape, (ARRIVED, each), "int64", "received_indices"), scores


def _sent(x: Tensor, top_scores: Tensor, scored: Shape, handle: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Tokens and scores on the ranks of their experts. Its node keeps the handle, which is no saved tensor."""
    tape, before, shape = x.tape, x.shape, (scored[0], x.shape[-1])

    def make() -> list[Tensor]:
        return [new(tape, shape, x.dtype, "expert_dispatch"), new(tape, scored, "fp32", "expert_dispatch")]

    received, scores = selectable(tape, "all_to_all", make)
    if tracked(x, top_scores):
        kept, width = tuple(handle), top_scores.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            if gradients[0] is None or not kept:
                return [None, None]
            return [
                new(tape, before, gradients[0].dtype, "expert_combine"),
                new(tape, width, "fp32", "expert_combine"),
            ]

        attach([received, scores], [x, top_scores], [], apply)
    return received, scores


def _by_expert(received: Tensor, chosen: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`_permute_tokens`: a row for each token and expert here, in the order of experts; scores and tokens of rows."""
    tape = received.tape
    mask = like(chosen, "ne", "bool")
    places = new(tape, (2, ROWS), "int64", "nonzero")
    experts = new(tape, (ROWS,), "int64", "index")
    del places
    valid = _masked(scores)
    order = sort(experts)[1]
    numbers = new(tape, (ARRIVED,), "int64", "arange")
    counts = like(numbers, "sum")
    tokens = like(order, "repeat_interleave")
    del numbers, counts, mask
    indices = like(order, "index")
    del tokens, experts
    rows = _chosen(received, indices)
    return rows, take(valid, order, 0), indices


def _masked(scores: Tensor) -> Tensor:
    """`scores[mask]`: its node keeps the places of the mask, by which the gradient is written into zeros."""
    places = new(scores.tape, (2, ROWS), "int64", "nonzero")
    return _by_number(scores, places, (ROWS,), "index", "index_backward")


def _chosen(x: Tensor, indices: Tensor) -> Tensor:
    """`index_select`: rows by number; their gradients are added up in zeros."""
    return _by_number(x, indices, (*indices.shape, x.shape[-1]), "index", "index_backward")


def _summed(rows: Tensor, indices: Tensor) -> Tensor:
    """`_unpermute_tokens`: rows added up for each token that came, in place; gradients are rows by number."""
    return _by_number(rows, indices, (ARRIVED, rows.shape[-1]), "zeros", "gather")


def _by_number(x: Tensor, numbers: Tensor, shape: Shape, rule: str, backward: str) -> Tensor:
    """Elements or rows go where numbers say, in a new tensor; it saves the numbers, by which the gradient returns."""
    tape, full = x.tape, x.shape
    saved = save(tape, numbers) if tracked(x) else []
    out = new(tape, shape, x.dtype, rule)
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [new(tape, full, only(g).dtype, backward)])
    return out


def _returned(x: Tensor, shape: Shape) -> Tensor:
    """`combine`: results of all ranks added up for each token; the gradient is sent as tokens were."""
    tape, before = x.tape, x.shape
    (out,) = selectable(tape, "all_to_all", lambda: [new(tape, shape, x.dtype, "expert_combine")])
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "expert_dispatch")])
    return out


def _weighted(x: Tensor, factor: Tensor) -> Tensor:
    """Rows times their scores in one kernel, which keeps the rows as they are."""
    needs = tracked(x, factor)
    saved = save(x.tape, x, factor) if needs else []
    out = like(x, "fused_product")
    if needs:

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [like(only(gradients), "fused_product_backward"), like(saved[1], "fused_product_backward")]

        attach([out], [x, factor], saved, apply)
    return out


def _scattered(out: Tensor, source: Tensor, indices: Tensor) -> Tensor:
    """`deterministic_scatter_add`: a new tensor; it saves the indices, by which the gradient's rows are taken."""
    tape, shape = source.tape, source.shape
    saved = save(tape, indices) if tracked(source) else []
    result = like(out, "scatter_add")
    if tracked(source):
        attach([result], [source], saved, lambda g, s: [new(tape, shape, only(g).dtype, "gather")])
    return result
