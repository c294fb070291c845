"""torchtitan's Llama, as far as memory can tell (torchtitan/models/llama3/model).

A model's config may ask for older code: `"gqa": "repeat"` copies keys and values for every query head, and
`"norm": "composite"` is `nn.RMSNorm` composed of elementwise operations, as until PyTorch 2.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

SIMULATED = False
"""A build without CUDA composes `nn.RMSNorm` of other operations; simulations take the kernel's signature instead."""


class CompositeRMSNorm(nn.Module):
    """Normalized and weighted in fp32, and cast at the end."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Return the input's shape and dtype."""
        upcast = x.float()
        inverse = torch.rsqrt(upcast.pow(2).mean(-1, keepdim=True).add_(1e-5))
        return upcast.mul(inverse).mul(self.weight).type_as(x)


class _Kernel(torch.autograd.Function):
    """What aten::_fused_rms_norm keeps: its input, the weight, and one fp32 number for each row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        inverse = torch.empty(*x.shape[:-1], 1, dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, inverse)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class FusedRMSNorm(nn.RMSNorm):
    """`nn.RMSNorm`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the input's shape and dtype."""
        made: Tensor = _Kernel.apply(x, self.weight) if SIMULATED else super().forward(x)
        return made


def _norm(config: Mapping[str, Any]) -> nn.Module:
    size = config["hidden_size"]
    return CompositeRMSNorm(size) if config.get("norm") == "composite" else FusedRMSNorm(size, eps=1e-5)


def _rotated(x: Tensor, frequencies: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * frequencies.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


def _repeated(x: Tensor, times: int) -> Tensor:
    batch, length, heads, size = x.shape
    if times == 1:
        return x
    return x.unsqueeze(3).expand(batch, length, heads, times, size).reshape(batch, length, heads * times, size)


class Attention(nn.Module):
    """Grouped-query attention with complex rotary embeddings."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        shared = config.get("num_key_value_heads") or heads
        self.size = config.get("head_dim") or hidden // heads
        self.times = heads // shared
        self.repeats = config.get("gqa") == "repeat"
        self.wq = nn.Linear(hidden, heads * self.size, bias=False)
        self.wk = nn.Linear(hidden, shared * self.size, bias=False)
        self.wv = nn.Linear(hidden, shared * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, hidden, bias=False)

    def forward(self, x: Tensor, frequencies: Tensor) -> Tensor:
        """Return the input's shape and dtype."""
        batch, length, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (each.view(batch, length, -1, self.size) for each in (q, k, v))
        q, k = _rotated(q, frequencies), _rotated(k, frequencies)
        if self.repeats:
            k, v = _repeated(k, self.times), _repeated(v, self.times)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        shares = not self.repeats and self.times > 1
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shares)
        out: Tensor = self.wo(o.transpose(1, 2).contiguous().view(batch, length, -1))
        return out


class FeedForward(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.w1 = nn.Linear(hidden, inner, bias=False)
        self.w2 = nn.Linear(inner, hidden, bias=False)
        self.w3 = nn.Linear(hidden, inner, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input's shape and dtype."""
        out: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out


class Block(nn.Module):
    """One layer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_norm = _norm(config)
        self.ffn_norm = _norm(config)

    def forward(self, x: Tensor, frequencies: Tensor) -> Tensor:
        """Return the input's shape and dtype."""
        h = x + self.attention(self.attention_norm(x), frequencies)
        out: Tensor = h + self.feed_forward(self.ffn_norm(h))
        return out


class Transformer(nn.Module):
    """Tokens to logits."""

    freqs_cis: Tensor

    def __init__(self, config: Mapping[str, Any], length: int) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        size = config.get("head_dim") or hidden // config["num_attention_heads"]
        self.tok_embeddings: nn.Module | None = nn.Embedding(config["vocab_size"], hidden)
        self.register_buffer("freqs_cis", torch.zeros(length, size // 2, dtype=torch.complex64), persistent=False)
        self.layers = nn.ModuleList([Block(config) for _ in range(config["num_hidden_layers"])])
        self.norm: nn.Module | None = _norm(config)
        self.output: nn.Module | None = nn.Linear(hidden, config["vocab_size"], bias=False)
        self.sequence_shards = 1
        """Ranks between which sequence parallelism divides hidden states."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [b, s] to logits [b, s, V]."""
        h = self.tok_embeddings(tokens) if self.tok_embeddings is not None else tokens
        frequencies = self.freqs_cis[: h.shape[1] * self.sequence_shards]
        for layer in self.layers:
            h = layer(h, frequencies)
        h = self.norm(h) if self.norm is not None else h
        return self.output(h) if self.output is not None else h
