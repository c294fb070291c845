"""torchao's linear layers of quantization-aware training, transcribed (0.8: quantization/qat/{linear,utils}.py)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

GROUP = 32


class Rounded(torch.autograd.Function):
    """`_GenericFakeQuantize`, with `fake_quantize_affine_cachemask` of quantization/quant_primitives.py."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: int, scale: Tensor, zero: Tensor, least: int, most: int) -> Tensor:
        blocks = x.view(*x.shape[:-1], -1, block)
        scale, zero = scale.view(*blocks.shape[:-1], 1), zero.view(*blocks.shape[:-1], 1)
        q = torch.clamp(torch.round(blocks * (1.0 / scale)) + zero, least, most).view(x.shape)
        dequant = q.view(blocks.shape).to(torch.int32, copy=True)
        dequant = dequant - zero.to(torch.int32)
        dequant = dequant.to(x.dtype)
        dequant = dequant * scale
        dq = dequant.view(x.shape).to(x.dtype)
        del dequant
        ctx.save_for_backward(torch.logical_and(q >= least, q <= most))
        return dq

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return gradients[0] * mask, None, None, None, None, None


class RoundedLinear(nn.Linear):
    """`FakeQuantizedLinear`: int8 for each token, int4 in groups."""

    def forward(self, x: Tensor) -> Tensor:
        """The product of both rounded."""
        tokens = torch.ones(x.shape[:-1], dtype=torch.float32, device=x.device)
        given = Rounded.apply(x.to(torch.float32), x.shape[-1], tokens, tokens, -128, 127)
        given = given.reshape_as(x).to(x.dtype)
        groups = torch.ones((self.weight.shape[0], self.weight.shape[1] // GROUP), device=x.device)
        return F.linear(given, Rounded.apply(self.weight, GROUP, groups, groups, -8, 7))


def swap(model: nn.Module, tied: Any) -> None:
    """Every linear layer but adapters and a tied head becomes one of these."""
    for name, module in model.named_modules():
        if type(module) is nn.Linear and module is not tied and "lora" not in name:
            module.__class__ = RoundedLinear
