"""scaled_dot_product_attention on fake CUDA tensors: the kernel that a GPU would choose, called by its name.

A build of PyTorch without CUDA cannot choose among CUDA's kernels, so the choice of
aten/src/ATen/native/transformers/cuda/sdp_utils.cpp for compute capability 8 is written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

_ATEN = torch.ops.aten


def choosing(wanted: str) -> Callable[..., Tensor]:
    """A replacement of `F.scaled_dot_product_attention` that runs the wanted kernel, or what `sdpa` chooses."""

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if torch.is_autocast_enabled(query.device.type):
            lower = torch.get_autocast_dtype(query.device.type)
            query, key, value = (_cast(each, lower) for each in (query, key, value))
            attn_mask = None if attn_mask is None else _cast(attn_mask, lower)
            with torch.autocast(query.device.type, enabled=False):
                return attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        chosen = _choice(wanted, query, key, value, masked=attn_mask is not None, shares=enable_gqa)
        if chosen != "math" and attn_mask is not None and attn_mask.dtype == torch.bool:
            bias = torch.zeros_like(attn_mask, dtype=query.dtype)  # convert_boolean_attn_mask: anew in every call
            attn_mask = bias.masked_fill_(attn_mask.logical_not(), float("-inf"))
        found: Tensor = _KERNELS[chosen](query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return found

    return attention


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _choice(wanted: str, query: Tensor, key: Tensor, value: Tensor, *, masked: bool, shares: bool) -> str:
    half = query.dtype in {torch.bfloat16, torch.float16}
    size, values = query.shape[-1], value.shape[-1]
    alike = query.shape[1] == key.shape[1] == value.shape[1]
    if wanted == "cudnn" and half and size <= 192 and values <= 128:
        return "cudnn"
    if half and not masked and size == values and size <= 256 and (shares or alike) and wanted != "efficient":
        return "flash"
    step = 8 if half else 4
    return "efficient" if alike and size % step == 0 and values % step == 0 else "math"


def _flash(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, causal: bool, scale: Any, shares: bool
) -> Tensor:
    """Heads of other sizes than multiples of eight are padded."""
    size = query.shape[-1]
    if size % 8:
        query, key, value = (F.pad(each, (0, 8 - size % 8)) for each in (query, key, value))
        scale = size**-0.5 if scale is None else scale
    out: Tensor = _ATEN._scaled_dot_product_flash_attention(query, key, value, dropout, causal, False, scale=scale)[0]
    return out[..., :size] if size % 8 else out


def _efficient(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, causal: bool, scale: Any, shares: bool
) -> Tensor:
    """A mask is padded to rows of sixteen, and seen by every head."""
    needs = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    if mask is not None:
        width = mask.shape[-1]
        if width % 16:
            mask = F.pad(mask, (0, 16 - width % 16))[..., :width]
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    run = _ATEN._scaled_dot_product_efficient_attention
    out: Tensor = run(query, key, value, mask, needs, dropout, causal, scale=scale)[0]
    return out


def _cudnn(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, causal: bool, scale: Any, shares: bool
) -> Tensor:
    needs = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    run = _ATEN._scaled_dot_product_cudnn_attention
    out: Tensor = run(query, key, value, mask, needs, dropout, causal, False, scale=scale)[0]
    return out


def _math(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, causal: bool, scale: Any, shares: bool
) -> Tensor:
    run = _ATEN._scaled_dot_product_attention_math
    out: Tensor = run(query, key, value, mask, dropout, causal, None, scale=scale, enable_gqa=shares)[0]
    return out


_KERNELS = {"flash": _flash, "efficient": _efficient, "cudnn": _cudnn, "math": _math}
