"""Scaled dot-product attention: what each kernel of PyTorch keeps and needs.

Queries are (b, a, s, d); keys and values (b, k, s, d) in logical order.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from memcore.records import dataclass
from memcore.symbols import Axis, Rounded, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, elementwise, like, narrow, new, only, permute, to
from memcore.tensors.operations import matmul, scale, softmax, softmax_gradient
from memcore.tensors.selection import selectable
from memcore.tensors.tensor import Tensor

_HALF = ("bf16", "fp16")
_TOKENS_FIRST = (0, 2, 1, 3)
"""The order of axes in memory that the memory-efficient kernel gives its results; others follow their inputs."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The symbols of an attention layer's sizes."""

    query: Axis
    key: Axis
    groups: Axis
    """Query heads for each key head; 1 when there are as many."""
    width: Axis
    padded: Axis
    """The head width rounded up to what flash attention's kernels take (a multiple of 8)."""
    wide: bool = False
    """It is above 256, the most that they take."""
    ragged: bool = False
    """Rows of the mask are no multiple of 16 elements."""

    @property
    def shared(self) -> bool:
        """Return whether several query heads share a key head (GQA, MQA)."""
        return self.groups != 1

    def repeated(self) -> Heads:
        """Return the heads once keys and values have been copied for every query head."""
        return replace(self, key=self.query, groups=1)


def repeat_kv(x: Tensor, heads: Heads, axis: int = 1, *, copies: bool = False) -> Tensor:
    """Repeat each key or value head for each query head of its group; the gradient is summed back.

    `axis` is where the heads are. `expand(...).reshape(...)` copies them, unless there is a single head to repeat;
    `repeat_interleave` always copies.
    """
    if not heads.shared:
        return x
    shape = (*x.shape[:axis], heads.query, *x.shape[axis + 1 :])
    if heads.key in x.tape.units and not copies:
        # A copy of what has no extent along an axis puts that axis after the one before it (infer_dense_strides).
        order = [each for each in x.order if each != axis]
        order.insert(order.index(axis - 1) + 1, axis)
        out = Tensor(x.tape, x.storage, shape, x.dtype, order=tuple(order), spread=axis)
    else:
        out = new(x.tape, shape, x.dtype, "repeat_kv")
    if tracked(x):
        tape, before = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "repeat_kv_backward")])
    return out


def choose_kernel(query: Tensor, value: Tensor, heads: Heads, *, masked: bool) -> str:
    """Return the kernel that SDPA takes on a GPU of compute capability 8: flash, else memory-efficient, else math.

    Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: flash takes half precision without a mask, and values
    as wide as keys; the memory-efficient kernel takes as many key heads as query heads, and in half precision widths
    that are a multiple of 8. Before compute capability 8 there is no flash kernel, and no other one for bf16.
    """
    even, early = value.shape[3] == query.shape[3], query.tape.before_ampere
    return kernel_for(_dtype(query), heads, masked=masked, even=even, early=early)


def kernel_for(dtype: str, heads: Heads, *, masked: bool, even: bool, early: bool = False) -> str:
    """Return the same from a dtype; `even`: values are as wide as keys; `early`: the GPU is older than Ampere."""
    half = dtype in _HALF
    if half and not (masked or heads.wide or early) and even:
        return "flash"
    if early and dtype == "bf16":
        return "math"
    return "math" if heads.shared or (half and heads.padded != heads.width) else "efficient"


def _dtype(x: Tensor) -> str:
    return x.tape.autocast if x.tape.autocast and x.dtype == "fp32" else x.dtype


def sdpa(query: Tensor, key: Tensor, value: Tensor, heads: Heads, kernel: str, mask: Tensor | None) -> Tensor:
    """`F.scaled_dot_product_attention` with a given kernel; the result is (b, a, s, d)."""
    if kernel == "flash" and value.shape[3] != query.shape[3]:
        # integrations/flash_attention.py: values are padded to the keys' width, and the result is cropped.
        out = sdpa(query, key, _padded(value, query.shape[3], _TOKENS_FIRST), heads, kernel, mask)
        return narrow(out, 3, value.shape[3])
    query, key, value = autocast(query), autocast(key), autocast(value)
    mask = None if mask is None else autocast(mask)
    if mask is not None and mask.dtype == "bool" and not (kernel == "math" and query.tape.fake):
        mask = _additive(mask, query.dtype)
    if kernel == "math":
        with query.tape.autocasting(None) if query.tape.autocast else nullcontext():
            return _math(query, key, value, heads, mask)
    if kernel == "efficient" and heads.ragged and mask is not None:
        # attention.cpp, preprocess_mask: rows begin at multiples of 16 elements (`pad_bias`).
        given, mask = mask, new(query.tape, (*mask.shape[:-1], Rounded(mask.shape[-1], 16)), mask.dtype, "pad")
        out = _fused(query, key, value, heads, kernel, mask)
        del given
        return out
    if kernel == "flash" and heads.padded != heads.width:
        width = heads.padded
        out = _fused(_padded(query, width), _padded(key, width), _padded(value, width), heads, kernel, None)
        return narrow(out, 3, heads.width)
    return _fused(query, key, value, heads, kernel, mask)


def _additive(mask: Tensor, dtype: str) -> Tensor:
    """Return a boolean mask as a bias of the scores' dtype, new in each call (sdp_utils, convert_boolean_attn_mask)."""
    bias = like(mask, "attention_bias", dtype)
    like(mask, "logical_not")
    return bias


def _padded(x: Tensor, width: Axis, order: tuple[int, ...] | None = None) -> Tensor:
    out = new(x.tape, (*x.shape[:3], width), x.dtype, "pad", order=order)
    if tracked(x):
        tape, before = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "pad_backward", order=only(g).order)])
    return out


def _fused(query: Tensor, key: Tensor, value: Tensor, heads: Heads, kernel: str, mask: Tensor | None) -> Tensor:
    """Flash, memory-efficient or cuDNN attention: keeps q, k, v, the output and one fp32 number per query and head."""
    return with_statistics(query, key, value, heads, kernel, mask)[0]


def with_statistics(
    query: Tensor, key: Tensor, value: Tensor, heads: Heads, kernel: str, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return a kernel's result and the statistic of each row, whose gradient it takes as well."""
    tape = query.tape
    needs = tracked(query, key, value)
    inputs = [query, key, value]
    if kernel == "flex":
        inputs = list(selectable(tape, "flex_inputs", lambda: [query, key, value]))
    saved = save(tape, *inputs, mask) if needs else []
    out, *kept = selectable(tape, "sdpa", lambda: kernel_results(kernel, query, value))
    if needs:
        made, results = [out, kept[0]], save(tape, out, *kept)
        attach(made, [query, key, value], saved + results, partial(_BACKWARD[kernel], heads.shared))
    return out, kept[0]


def kernel_results(kernel: str, query: Tensor, value: Tensor) -> list[Tensor]:
    """Return what an attention kernel returns: its result, a statistic of each row, and the state of random numbers."""
    tape, (batch, heads, length, _) = query.tape, query.shape
    order = _TOKENS_FIRST if kernel == "efficient" else query.order
    out = new(tape, (batch, heads, length, value.shape[3]), query.dtype, f"{kernel}_attention", order=order)
    rows = Rounded(length, 32) if kernel == "efficient" else length
    statistics = new(tape, (batch, heads, rows), "fp32", "logsumexp")
    if kernel == "flex":
        return [out, statistics]
    return [out, statistics, *(new(tape, (), "int64", "random_state") for _ in range(2))]


def kernel_gradients(kernel: str, query: Tensor, key: Tensor, value: Tensor, shared: bool) -> list[Gradient]:
    """Return the backward pass of an attention kernel; `shared`: query heads share key heads."""
    return _BACKWARD[kernel](shared, [], [query, key, value])


def _flash_backward(shared: bool, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    """FlashAttention-2's backward pass (flash_attn/flash_api.cpp, mha_bwd).

    It fills fp32 workspaces for the gradient of the queries and a row statistic, both with rows rounded up to 128,
    and, when query heads share key heads, gradients of keys and values for every query head.
    """
    query, key, value = saved[:3]
    results: list[Gradient] = [like(each, "attention_backward") for each in (query, key, value)]
    batch, heads, length, width = query.shape
    rows = Rounded(length, 128)
    columns = Rounded(width, 32, limit=128, beyond=64)
    held = [
        new(query.tape, (batch, heads, rows), "fp32", "flash_softmax_sum"),
        new(query.tape, (batch, rows, heads, columns), "fp32", "flash_query_accumulator"),
    ]
    if shared:
        held += [new(query.tape, query.shape, query.dtype, "flash_expanded_gradient") for _ in range(2)]
    del held
    return results


def _efficient_backward(shared: bool, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    """Return the memory-efficient kernel's backward pass (attention_backward.cu).

    Workspaces: one fp32 number per query and head, and for half precision an fp32 accumulator of the queries.
    """
    query = saved[0]
    results: list[Gradient] = [
        new(each.tape, each.shape, each.dtype, "attention_backward", order=_TOKENS_FIRST) for each in saved[:3]
    ]
    batch, heads, length, width = query.shape
    held = [new(query.tape, (batch, heads, length), "fp32", "efficient_delta")]
    if query.dtype in _HALF:
        shape: Shape = (batch, heads, Rounded(length, 64), Rounded(width, 32))
        held.append(new(query.tape, shape, "fp32", "efficient_query_accumulator"))
    del held
    return results


def _cudnn_backward(shared: bool, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    """Return the backward pass of cuDNN; its workspace is its own and unknown."""
    return [like(each, "attention_backward") for each in saved[:3]]


def _flex_backward(shared: bool, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    """FlexAttention's compiled backward pass: one fp32 number per query and head besides the gradients.

    Source: torch/_inductor/kernel/flex/flex_attention.py, `flex_attention_backward` (delta).
    """
    results: list[Gradient] = [like(each, "attention_backward") for each in saved[:3]]
    batch, heads, length, _ = saved[0].shape
    delta = new(saved[0].tape, (batch, heads, length), "fp32", "flex_delta")
    del delta
    return results


_BACKWARD = {
    "flash": _flash_backward,
    "efficient": _efficient_backward,
    "cudnn": _cudnn_backward,
    "flex": _flex_backward,
}


def _math(query: Tensor, key: Tensor, value: Tensor, heads: Heads, mask: Tensor | None) -> Tensor:
    """The composite fallback of SDPA (attention.cpp, _scaled_dot_product_attention_math): all scores, in fp32."""
    tape, dtype = query.tape, query.dtype
    length = query.shape[2]
    query_acc, key_acc, value_acc = to(query, "fp32"), to(key, "fp32"), to(value, "fp32")
    scaled = scale(query_acc)
    if mask is None:
        allowed = new(tape, (length, length), "bool", "causal_mask")
        allowed = like(allowed, "causal_mask")
        mask = like(allowed, "attention_bias", scaled.dtype)
        del allowed
    key_expanded = repeat_kv(key_acc, heads, copies=True)
    value_expanded = repeat_kv(value_acc, heads, copies=True)
    scores = matmul(scaled, scale(permute(key_expanded, 0, 1, 3, 2)))
    scores = _add_mask(scores, mask)
    scores = _safe_softmax(scores)
    # The kernel also returns its scores, which are ready before its result is.
    returned = to(scores, dtype)
    out = to(matmul(scores, value_expanded), dtype)
    del returned
    return out


def _safe_softmax(x: Tensor) -> Tensor:
    """Softmax, with zeros in rows that are masked throughout; fake tensors do it at once."""
    if x.tape.fake:
        return softmax(x)
    with x.tape.no_grad():
        out = softmax(x)
        masked = like(x, "attention_mask", "bool")
        rows = new(x.tape, (*x.shape[:-1], 1), "bool", "attention_mask")
        result = like(out, "softmax")
        del masked, rows
    if tracked(x):
        attach([result], [x], save(x.tape, result), lambda g, s: [softmax_gradient(only(g), only(g).dtype)])
    return result


def _add_mask(scores: Tensor, mask: Tensor) -> Tensor:
    if not scores.tape.fake:
        return scores
    out = elementwise("add", scores, mask)
    if tracked(scores):
        attach([out], [scores], [], lambda g, s: [g[0]])
    return out
