"""DeepSpeed's mixture of experts: every expert takes as many tokens as its capacity, padded or dropped.

Source: deepspeed 0.19.6, moe/sharded_moe.py (TopKGate, top1gating, top2gating, topkgating, MOELayer), moe/experts.py.
Tokens are (s, b), those of a rank's experts `er` rows: its experts times the ranks they come from times their capacity.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.networks.parts import Experts
from memcore.networks.separate_experts import ROWS
from memcore.symbols import Axis, Quotient, Shape
from memcore.tensors.arithmetic import total
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, to, view
from memcore.tensors.operations import linear, softmax
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.experts import scaled
from memcore.trainers.megatron.layers.linear import Weights, clear
from memcore.trainers.megatron.step_plan import Experts as Plan

OWN = Quotient(("E",), "ep")
"""Experts of a rank."""
_ONE: Axis = Quotient((ROWS,), OWN)
"""Rows of one expert."""


def experts(x: Tensor, part: Experts, weights: Weights, plan: Plan) -> Tensor:
    """`MOELayer.forward`."""
    with x.tape.module(part.module):
        gates = _gates(x, part, weights, plan.chosen)
        rows = _encoded(x)
        if plan.parallel:
            rows = _exchanged(rows)
        rows = _run(rows, part, weights)
        if plan.parallel:
            rows = _exchanged(rows)
        return _decoded(rows, gates, x.shape, x.dtype)


def _gates(x: Tensor, part: Experts, weights: Weights, chosen: int) -> Tensor:
    """The weights of the chosen experts, (e, s, b); the router's input and its matrix are upcast, and kept so."""
    with x.tape.module("gate"):
        wide, matrix = to(x, "fp32"), to(weights[f"{part.router.name}.weight"], "fp32")
        logits = linear(wide, matrix)
        del wide, matrix
        gates = softmax(logits)
        return _chosen(gates, part, chosen)


def _chosen(gates: Tensor, part: Experts, chosen: int) -> Tensor:
    """`top1gating`, `top2gating` or `topkgating`: masks of all experts come and go, and what products saved stays.

    That is a mask as int64 for one expert; each one's in fp32, what it is chosen without, and sums for two; for more
    the masked weights before and after they are divided, the mask, and indices of experts and of rows.
    """
    tape, pairs = gates.tape, gates.shape
    tokens = pairs[:-1]
    passing = [like(gates, "one_hot", "int64") for _ in range(min(chosen, 2) + 1)]
    passing += [like(gates, "cumsum", "int64") for _ in range(min(chosen, 2))]
    masks = [like(gates, "mul", dtype) for dtype in ("int64",) * (chosen == 1) or ("fp32", "fp32", "bool")]
    masks += [new(tape, tokens, "fp32", "sum") for _ in range((0, 0, 4, 2)[chosen])]
    if chosen > 2:
        masks += [new(tape, (*tokens, part.routed), "int64", "topk"), new(tape, (ROWS,), "int64", "topk")]
    out = new(tape, (part.routed, *tokens), "fp32", "topk")
    del passing
    if tracked(gates):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            found = [like(saved[0], "mul_backward", "fp32") for _ in range(min(chosen, 2))]
            return [found[0]]

        attach([out], [gates], save(tape, *masks), apply)
    return out


def _encoded(x: Tensor) -> Tensor:
    """`_sparse_encode`: rows of an input with one more row for what is empty; kept is where each comes from."""
    tape, shape, width = x.tape, x.shape, x.shape[-1]
    padded = like(x, "cat")
    source = new(tape, (ROWS,), "int64", "scatter")
    out = new(tape, (ROWS, width), x.dtype, "index")
    del padded
    if tracked(x):
        attach([out], [x], save(tape, source), lambda g, s: [new(tape, shape, only(g).dtype, "index_backward")])
    return out


def _exchanged(x: Tensor) -> Tensor:
    """`_AllToAll`."""
    out = like(x, "expert_all_to_all")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), "expert_all_to_all")])
    return out


def _decoded(rows: Tensor, gates: Tensor, shape: Shape, dtype: str) -> Tensor:
    """`_sparse_decode`: each token's results are picked, multiplied in fp32, and summed."""
    tape, full = rows.tape, rows.shape
    padded = like(rows, "cat")
    slots = like(gates, "where", "int64")
    routed = new(tape, (*gates.shape, shape[-1]), dtype, "index")
    del padded
    if tracked(rows):
        attach([routed], [rows], save(tape, slots), lambda g, s: [new(tape, full, only(g).dtype, "index_backward")])
    del slots
    weighted = scaled(routed, gates)
    del routed
    combined = total(weighted, 0)
    del weighted
    return to(combined, dtype)


def _run(rows: Tensor, part: Experts, weights: Weights) -> Tensor:
    """`Experts.forward`: one after the other; their results are put together, and their inputs' gradients are, too."""
    with rows.tape.module("deepspeed_experts"):
        shape = rows.shape
        chunks = view(rows, shape)
        if tracked(rows):
            attach([chunks], [rows], [], lambda g, s: [like(only(g), "cat")])
        outputs = _products(chunks, part, weights)
        joined = like(outputs, "cat")
        if tracked(outputs):
            attach([joined], [outputs], [], lambda g, s: [view(only(g), shape)])
        return joined


def _products(x: Tensor, part: Experts, weights: Weights) -> Tensor:
    """`ParallelMLP` of every expert: keeps its input, what the first product and the activation make, and its result.

    The backward pass begins with the last expert, while all others still have theirs, and ends with the first one.
    """
    tape, dtype, rows = x.tape, x.dtype, (ROWS,)
    matrices = [weights[each.name] for each in part.experts]
    up, down = (one for one in matrices if len(one.shape) > len(one.inner or ()) and one.name.endswith("weight"))
    wide, narrow = up.shape[1:-1], down.shape[-1:]
    kept = [new(tape, (*rows, *wide), dtype, "linear")]
    if part.gated:
        kept.append(new(tape, (*rows, *narrow), dtype, part.activation))
    kept.append(new(tape, (*rows, *narrow), dtype, "mul" if part.gated else "fused_activation"))
    out = like(x, "linear")
    if tracked(x, *matrices):
        shape = x.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            _one_expert(saved[0], wide, narrow, gated=part.gated)
            for each in saved:
                clear(each)
            made = [_gradient(each, dtype) for each in matrices]
            return [new(tape, shape, dtype, "input_gradient"), *made]

        attach([out], [x, *matrices], save(tape, x, *kept), apply)
    return out


def _one_expert(like_rows: Tensor, wide: Shape, narrow: Shape, *, gated: bool) -> None:
    """Allocate what the last expert's backward pass holds for a moment: gradients of activation and input."""
    tape, dtype = like_rows.tape, like_rows.dtype

    def make(shape: Shape, rule: str) -> Tensor:
        return new(tape, (_ONE, *shape), dtype, rule)

    result = make(narrow, "input_gradient")
    halves = [make(narrow, "mul_backward") for _ in range(2)] if gated else []
    before = make(wide, "cat" if gated else "fused_activation_backward")
    del result, halves
    after = make(like_rows.shape[1:], "input_gradient")
    del before, after


def _gradient(weight: Parameter, dtype: str) -> Gradient:
    """Of all experts, or where buckets take them in, of one at a time."""
    if not weight.requires_grad:
        return None
    own: Callable[[Shape], Tensor] = lambda shape: new(weight.tape, shape, dtype, "weight_gradient")  # noqa: E731
    if not weight.bucketed:
        return own(weight.shape)
    one = own(weight.shape[1:])
    return Tensor(weight.tape, one.storage, weight.shape, dtype)
