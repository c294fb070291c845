"""What CUDA kernels allocate for themselves: no operator returns it, so on fake tensors it is added by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

_ATEN = torch.ops.aten


def of(func: Any, args: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """Names and bytes of a kernel's own buffers."""
    rule = _RULES.get(func)
    if rule is not None:
        yield from rule(args)


def _flash_backward(args: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, mha_bwd: sums, fp32 queries, expanded keys."""
    query, key = args[1], args[2]
    batch, heads, length, size = query.shape
    width = _up(size, 32 if size <= 128 else 64)
    rows = _up(length, 128)
    yield "softmax_d", batch * heads * rows * 4
    yield "dq_accum", batch * heads * rows * width * 4
    if key.shape[1] != heads:
        for name in ("dk_expanded", "dv_expanded"):
            yield name, batch * key.shape[2] * heads * size * query.element_size()


def _efficient_backward(args: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """.../cuda/attention_backward.cu and kernel_backward.h: sums, and the queries' gradients in fp32."""
    query = args[1]
    batch, heads, length, size = query.shape
    yield "delta", batch * heads * length * 4
    if query.dtype in {torch.bfloat16, torch.float16}:
        yield "workspace", batch * heads * _up(length, 64) * _up(size, 32) * 4


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


_RULES: Mapping[Any, Callable[[Sequence[Any]], Iterator[tuple[str, int]]]] = {
    _ATEN._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    _ATEN._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
}
