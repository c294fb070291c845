"""Dispatchers: how tokens reach the ranks of their experts, and their results come back.

Source: Megatron-LM, core/transformer/moe/{token_dispatcher,moe_utils}.py; TransformerEngine,
transformer_engine/pytorch/permutation.py. Rows of a rank's experts are counted by the symbol `nr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.parts import Experts
from memcore.symbols import Axis, Shape, split_over
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import new, only, view
from memcore.tensors.tensor import Tensor
from memcore.trainers.megatron.step_plan import Experts as Plan

ROWS = "nr"
_ARRIVED = split_over(ROWS, "etp")
"""Rows before the ranks that share an expert's matrices gather theirs."""
Run = Callable[[Tensor, Tensor], Tensor]
"""The experts: rows and their weights to results."""


def _node(
    x: Tensor, shape: Shape, rule: str, back: str, kept: Tensor | None = None, dtype: str | None = None
) -> Tensor:
    """Return a tensor of another shape, whose gradient is one of the input's."""
    tape, before, full = x.tape, x.dtype, x.shape
    out = new(tape, shape, dtype or x.dtype, rule)
    if tracked(x):
        attach([out], [x], save(tape, kept), lambda g, s: [new(tape, full, before, back)])
    return out


def allgather(x: Tensor, weights: Tensor, routed: Tensor, part: Experts, plan: Plan, run: Run) -> Tensor:
    """Every rank gets all tokens, in a buffer that stays, and picks those of its experts."""
    tape, local = x.tape, x.shape
    everyone: Shape = ("etp", "ep", *local) if plan.parallel or plan.tensor else local
    many = routed.shape[-1]
    if plan.parallel or plan.tensor:
        x = _from_all(x, everyone)
        routed = new(tape, (*everyone[:-1], many), "bool", "expert_all_gather")
        weights = _node(weights, (*everyone[:-1], many), "expert_all_gather", "megatron_reduce_scatter")
    rows = everyone[:-1]
    own = part.experts[0].axes[0]
    chosen = new(tape, (*rows, *own), "bool", "clone")
    weights = _node(weights, (*rows, *own), "clone", "slice_backward")
    indices = _indices(chosen, rows, own, plan)
    hidden = _permuted(x, indices)
    mask = new(tape, (*own, *rows), "bool", "clone")
    weights = _node(_node(weights, (*own, *rows), "clone", "clone"), (ROWS,), "masked_select", "zeros", mask)
    del mask, x, routed
    out = run(hidden, weights)
    del hidden
    out = _unpermuted(out, everyone, indices)
    if plan.parallel or plan.tensor:
        out = _node(out, local, "megatron_reduce_scatter", "expert_all_gather")
    return view_of(out, local)


def alltoall(x: Tensor, weights: Tensor, routed: Tensor, part: Experts, plan: Plan, run: Run) -> Tensor:
    """Rows are sorted by expert, sent, and sorted again where a rank has several experts."""
    local, sent = x.shape, (*x.shape[:2], part.routed)
    own = (routed.shape[-1],)
    indices = _indices(routed, local[:2], own, plan)
    rows = _permuted(x, indices, sent)
    weights = _picked(weights, sent, indices)
    if plan.parallel:
        rows = _node(rows, (_ARRIVED, local[-1]), "expert_all_to_all", "expert_all_to_all")
        weights = _node(weights, (_ARRIVED,), "expert_all_to_all", "expert_all_to_all")
    if plan.tensor:
        rows = _node(rows, (ROWS, local[-1]), "expert_all_gather", "megatron_reduce_scatter")
        weights = _node(weights, (ROWS,), "expert_all_gather", "megatron_reduce_scatter")
    rows = _node(rows, (ROWS, local[-1]), "sort_chunks", "sort_chunks")
    weights = _node(weights, (ROWS,), "sort_chunks", "sort_chunks")
    out = run(rows, weights)
    del rows, weights
    out = _node(out, (ROWS, local[-1]), "sort_chunks", "sort_chunks")
    if plan.tensor:
        out = _node(out, (_ARRIVED, local[-1]), "megatron_reduce_scatter", "expert_all_gather")
    if plan.parallel:
        out = _node(out, (*sent, local[-1]), "expert_all_to_all", "expert_all_to_all")
    return _unpermuted(out, local, indices)


def fused(x: Tensor, weights: Tensor, routed: Tensor, part: Experts, plan: Plan, run: Run) -> Tensor:
    """DeepEP and HybridEP: rows arrive sorted, out of buffers that are no part of PyTorch's memory."""
    local = x.shape
    indices = _indices(routed, local[:2], (routed.shape[-1],), plan)
    rows = _node(x, (ROWS, local[-1]), "expert_all_to_all", "expert_all_to_all", indices)
    weights = _node(weights, (ROWS,), "expert_all_to_all", "expert_all_to_all", dtype="fp32")
    if plan.dispatcher == "deepep":
        rows = _node(rows, (ROWS, local[-1]), "sort_chunks", "sort_chunks")
    out = run(rows, weights)
    del rows, weights
    if plan.dispatcher == "deepep":
        out = _node(out, (ROWS, local[-1]), "sort_chunks", "sort_chunks")
    return _node(out, local, "expert_all_to_all", "expert_all_to_all")


DISPATCHERS: Mapping[str, Callable[[Tensor, Tensor, Tensor, Experts, Plan, Run], Tensor]] = {
    "allgather": allgather,
    "alltoall": alltoall,
    "deepep": fused,
    "hybridep": fused,
}
"""By name."""


def view_of(x: Tensor, shape: Shape) -> Tensor:
    """Return the same memory with other axes; its gradient too."""
    if x.shape == shape:
        return x
    out, full = view(x, shape), x.shape
    if tracked(x):
        attach([out], [x], [], lambda g, s: [view(only(g), full)])
    return out


def _from_all(x: Tensor, shape: Shape) -> Tensor:
    """`gather_from_sequence_parallel_region(use_global_buffer=True)`."""
    out = Tensor(x.tape, None, shape, x.dtype)
    if tracked(x):
        tape, local = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, local, only(g).dtype, "megatron_reduce_scatter")])
    return out


def _indices(chosen: Tensor, tokens: Shape, own: Shape, plan: Plan) -> Tensor:
    """Return where each row comes from: a map of int32 for each token and expert, or sorted indices.

    The unfused sort is one of all pairs, of which a slice is kept.
    """
    tape = chosen.tape
    if plan.permute_fusion:
        width: Axis = 2
        return new(tape, (*tokens, width, *own), "int32", "row_map")
    turned = new(tape, (*own, *tokens), "bool", "clone")
    ordered = new(tape, (*own, *tokens), "int64", "sort")
    del turned
    return ordered


def _permuted(x: Tensor, indices: Tensor, rows: Shape = (ROWS,)) -> Tensor:
    """Rows of tokens; of the gradients of a token's rows the sum."""
    return _node(x, (*rows, x.shape[-1]), "permute_rows", "permute_rows_backward", indices)


def _picked(weights: Tensor, rows: Shape, indices: Tensor) -> Tensor:
    """Return the weight of each row."""
    return _node(weights, rows, "gather", "gather_backward", indices)


def _unpermuted(x: Tensor, shape: Shape, indices: Tensor) -> Tensor:
    """Sums of each token's rows."""
    return _node(x, shape, "unpermute_rows", "unpermute_rows_backward", indices)
