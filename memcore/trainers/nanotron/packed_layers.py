"""nanotron's Qwen2, of which SmolLM3 is one: rows of tokens, and queries, keys and values that stay parts of a product.

Tokens of all sequences are rows there, `(b*s, h)`; here they have axes of their own, in the same order everywhere.
Source: huggingface/nanotron (April 2026), models/qwen.py: `Qwen2DecoderLayer` (the norm in front of attention is always
PyTorch's own, the other one Triton's), `Qwen2Attention._forward_packed`; flash-attn, flash_attn_interface.py
(FlashAttnVarlenKVPackedFunc).
"""

from __future__ import annotations

from memcore.layers.transformers.context import Weights, leaf
from memcore.networks.parts import Attention
from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save
from memcore.tensors.basics import new, view
from memcore.tensors.tensor import Tensor
from memcore.trainers.nanotron.parallel import column_linear, row_linear
from memcore.trainers.nanotron.shared_layers import rotated, workspaces
from memcore.trainers.nanotron.step_plan import NanotronPlan


def packed_attention(x: Tensor, weights: Weights, part: Attention, plan: NanotronPlan) -> Tensor:
    """`Qwen2Attention.forward`."""
    with x.tape.module(part.module):
        name = part.inputs[0].name
        with x.tape.module(leaf(name)):
            qkv = column_linear(x, weights[f"{name}.weight"], plan, weights.get(f"{name}.bias"))
        attention_output = _forward_packed(qkv, part)
        del qkv
        with x.tape.module(leaf(part.output.name)):
            return row_linear(attention_output, weights[f"{part.output.name}.weight"], plan)


def _forward_packed(qkv: Tensor, part: Attention) -> Tensor:
    heads, (tokens, batch) = part.heads, qkv.shape[:2]
    q = _sliced(qkv, (batch, tokens, heads.query, heads.width))
    kv = _sliced(qkv, (batch, tokens, 2, heads.key, heads.width))
    if part.rotary != "none":
        q, kv = rotated(q), rotated(kv)
    out = _attended(q, kv)
    rows = view(out, (tokens, batch, heads.query, heads.width))
    attach([rows], [out], [], lambda g, s: [g[0]])
    return rows


def _sliced(qkv: Tensor, shape: Shape) -> Tensor:
    """`qkv[..., :n]` under other axes; its gradient is written into zeros of the whole (`slice_backward`)."""
    tape, full, dtype = qkv.tape, qkv.shape, qkv.dtype
    out = view(qkv, shape, cut=2)
    attach([out], [qkv], [], lambda g, s: [new(tape, full, dtype, "slice_backward")])
    return out


def _attended(q: Tensor, kv: Tensor) -> Tensor:
    """`FlashAttnVarlenKVPackedFunc`: keeps parts of the product, its result and a number for each row."""
    tape = q.tape
    saved = save(tape, q, kv)
    out = new(tape, q.shape, q.dtype, "flash_attention")
    logsumexp = new(tape, q.shape[:3], "fp32", "logsumexp")
    state = new(tape, (2,), "int64", "random_state")
    saved += save(tape, out, logsumexp, state)
    del logsumexp, state
    shared = kv.shape[3] != q.shape[2]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found: list[Gradient] = [new(tape, each.shape, each.dtype, "attention_backward") for each in saved[:2]]
        workspaces(saved[0], shared=shared)
        return found

    attach([out], [q, kv], saved, apply)
    return out
