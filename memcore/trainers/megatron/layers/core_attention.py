"""Attention's core: TransformerEngine's flash, cuDNN and unfused kernels, and Megatron-Core's own unfused one.

Sources: TransformerEngine, transformer_engine/pytorch/attention/dot_product_attention/{backends,utils,softmax}.py;
Megatron-LM, core/transformer/dot_product_attention.py and core/fusions/fused_softmax.py. Queries are (s, b, a, d), keys
and values (s, b, k, d).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.records import dataclass
from memcore.tensors.attention import Heads, kernel_gradients, kernel_results, repeat_kv
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only, permute, to, view
from memcore.tensors.operations import dropout, matmul, softmax
from memcore.tensors.tensor import Tensor
from memcore.trainers.megatron.step_plan import MegatronPlan


@dataclass(frozen=True, slots=True)
class Core:
    """What attention's core is given besides its tensors."""

    how: MegatronPlan
    heads: Heads
    dropout: float
    mask: Tensor | None
    """Of all pairs of tokens, from the data loader."""
    packed: bool
    """Queries, keys and values are parts of one tensor, side by side in every head."""


Kernel = Callable[[Tensor, Tensor, Tensor, Core], Tensor]


def flash(query: Tensor, key: Tensor, value: Tensor, core: Core) -> Tensor:
    """flash-attn: everything is copied to (b, s, …), and its result back."""
    query, key, value = (contiguous(permute(each, 1, 0, 2, 3)) for each in (query, key, value))
    query, key, value = (permute(each, 0, 2, 1, 3) for each in (query, key, value))
    out = flash_kernel(query, key, value, core)
    return contiguous(permute(out, 2, 0, 1, 3))


def flash_kernel(query: Tensor, key: Tensor, value: Tensor, core: Core) -> Tensor:
    """Return the kernel alone, for heads that come before tokens, however they lie."""
    tape = query.tape
    needs = tracked(query, key, value)
    saved = save(tape, query, key, value) if needs else []
    out, *kept = kernel_results("flash", query, value)
    if needs:
        shared = core.heads.shared

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return kernel_gradients("flash", saved[0], saved[1], saved[2], shared)

        attach([out], [query, key, value], saved + save(tape, out, *kept), apply)
    return out


def cudnn(query: Tensor, key: Tensor, value: Tensor, core: Core) -> Tensor:
    """`FusedAttnFunc`: takes and yields (s, b, …); gradients of what was one tensor are one again."""
    tape = query.tape
    needs = tracked(query, key, value)
    saved = save(tape, query, key, value) if needs else []
    length, batch, heads, _ = query.shape
    out = new(tape, (length, batch, heads, value.shape[3]), query.dtype, "cudnn_attention")
    kept = [
        new(tape, (batch, heads, length, 1), "fp32", "logsumexp"),
        new(tape, (2,), "int64", "random_state"),
    ]
    if needs:
        packed = core.packed  # the node keeps what it refers to, and the mask is none of it

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            first, second, third = saved[:3]
            if packed:
                whole = new(tape, (3, *first.shape), first.dtype, "attention_backward")
                found = [view(whole, each.shape) for each in (first, second, third)]
            else:
                found = [new(tape, each.shape, each.dtype, "attention_backward") for each in (first, second, third)]
            accumulated = new(tape, first.shape, "fp32", "flash_query_accumulator")
            del accumulated
            return list(found)

        attach([out], [query, key, value], saved + save(tape, out, *kept), apply)
    return out


def unfused(query: Tensor, key: Tensor, value: Tensor, core: Core) -> Tensor:
    """`UnfusedDotProductAttention`: all scores, their softmax, a mask of dropout and what it leaves."""
    mask = _full_mask(query, key, core)
    key, value = (repeat_kv(each, core.heads, axis=2, copies=True) for each in (key, value))
    scores = _scores(query, key, preallocated=True)
    out = _attended(scores, value, core)
    del mask
    return out


def local(query: Tensor, key: Tensor, value: Tensor, core: Core) -> Tensor:
    """Megatron-Core's `DotProductAttention`: the same, with the scores' first tensor in a buffer that stays."""
    key, value = (repeat_kv(each, core.heads, axis=2, copies=True) for each in (key, value))
    return _attended(_scores(query, key, preallocated=False), value, core)


def _full_mask(query: Tensor, key: Tensor, core: Core) -> Tensor:
    """`get_full_mask`: distances of all pairs of tokens, three times, and what is out of reach."""
    tape, square = query.tape, (query.shape[0], key.shape[0])
    distances = [new(tape, square, "int32", "causal_mask") for _ in range(3)]
    reach = [new(tape, square, "bool", "causal_mask") for _ in range(3)]
    inside = new(tape, square, "bool", "causal_mask")
    del reach
    outside = like(inside, "causal_mask")
    del inside
    if core.mask is not None:
        outside = new(tape, core.mask.shape, "bool", "causal_mask")
    del distances
    return outside


def _scores(query: Tensor, key: Tensor, *, preallocated: bool) -> Tensor:
    tape = query.tape
    x, y = permute(query, 1, 2, 0, 3), permute(key, 1, 2, 3, 0)
    buffer = new(tape, (*x.shape[:3], y.shape[3]), x.dtype, "matmul") if preallocated else None
    out = matmul(x, y)
    del buffer
    return out


def _attended(scores: Tensor, value: Tensor, core: Core) -> Tensor:
    """Probabilities times values; the scores live until the module returns."""
    probabilities = _fused_softmax(scores) if core.how.softmax_fusion else _softmax(scores, core.how)
    probabilities = dropout(probabilities, core.dropout)
    out = matmul(probabilities, permute(value, 1, 2, 0, 3))
    del probabilities
    out = contiguous(permute(out, 2, 0, 1, 3))
    del scores
    return out


def _fused_softmax(scores: Tensor) -> Tensor:
    """Scale, mask and softmax in one kernel: keeps its result; the gradient is written over the result's."""
    out = like(scores, "softmax")
    if tracked(scores):
        attach([out], [scores], save(scores.tape, out), lambda g, s: [g[0]])
    return out


def _softmax(scores: Tensor, how: MegatronPlan) -> Tensor:
    """Run softmax in PyTorch: in fp32 if asked for, with the mask written over the scores."""
    before = scores.dtype
    x = to(scores, "fp32") if how.softmax_fp32 else scores
    masked = _masked(x)
    return to(softmax(masked), before)


def _masked(x: Tensor) -> Tensor:
    """`masked_fill_`: in place, and so is the gradient's copy of zeros."""
    out = view(x, x.shape, x.order)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), "masked_fill_backward")])
    return out


def exchanged(out: Tensor) -> Tensor:
    """Heads for tokens (`flash_attn_a2a_communicate`): what is saved since TransformerEngine 2.8 is the result before.

    Source: dot_product_attention/context_parallel.py, AttnFuncWithCPAndQKVOA2A (`out_part`).
    """
    result = like(out, "ulysses_all_to_all")
    if tracked(out):
        attach([result], [out], [], lambda g, s: [like(only(g), "ulysses_all_to_all")])
    return result


KERNELS: Mapping[str, Kernel] = {"flash": flash, "cudnn": cudnn, "math": unfused}
"""TransformerEngine's, by the value of `training.attention`."""
