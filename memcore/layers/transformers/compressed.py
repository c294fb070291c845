"""DeepSeek-V4's attention: over a window, and over keys that are compressed from several tokens each.

Source: `models/deepseek_v4`; local variables live as long here as they do there. Keys are values. Sequences are taken
to be a multiple of the tokens that become one.
"""

from __future__ import annotations

from memcore.layers.transformers.compressors import COMPRESSORS, project_to, rotate_tail
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.norms import norm, unweighted_norm
from memcore.layers.transformers.sinks import attend_with_sinks
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Norm
from memcore.symbols import Shifted
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, cat, clone, in_order, like, new, only, permute, to, view
from memcore.tensors.slices import expand, unsqueeze
from memcore.tensors.tensor import Parameter, Tensor


def attend_compressed(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module."""
    if context.rotary is None or context.mask is None:
        raise TypeError(part)
    m, sliding = part.module, part.mask == "sliding"
    with hidden_states.tape.module(m):
        cos, sin = context.rotary[2:] if sliding else context.rotary[:2]
        q_residual = norm(
            project_to(hidden_states, weights, f"{m}.q_a_proj"), weights, Norm(f"{m}.q_a_norm", "rms-after")
        )
        q = permute(project_to(q_residual, weights, f"{m}.q_b_proj"), 0, 2, 1, 3)
        q = unweighted_norm(q, "q_b_norm")
        q = rotate_tail(q, cos, sin)
        kv = norm(project_to(hidden_states, weights, f"{m}.kv_proj"), weights, Norm(f"{m}.kv_norm", "rms-after"))
        kv = rotate_tail(unsqueeze(kv, 1), cos, sin)
        attention_mask = context.mask
        if not sliding:
            compressor = COMPRESSORS["sparse" in part.options]
            compressed_kv, block_bias = compressor(hidden_states, q_residual, weights, part, context)
            kv = cat([kv, compressed_kv], (*kv.shape[:2], Shifted(kv.shape[2], 1, compressed_kv.shape[2]), kv.shape[3]))
            block = to(block_bias, attention_mask.dtype)
            attention_mask = cat([attention_mask, block], (*attention_mask.shape[:3], kv.shape[2]))
            del block
        attn_output, attn_weights = _attend(q, kv, weights[f"{m}.sinks"], attention_mask, part.dropout)
        attn_output = _unrotated(attn_output, cos, sin)
        grouped = _by_group(attn_output, weights[f"{m}.o_a_proj.weight"])
        grouped = _grouped_linear(grouped, weights[f"{m}.o_a_proj.weight"])
        output = project_to(grouped, weights, f"{m}.o_b_proj")
        return output, attn_weights


def _attend(q: Tensor, kv: Tensor, sinks: Tensor, mask: Tensor, probability: float) -> tuple[Tensor, Tensor]:
    key_states, value_states = expand(kv, 1, "a"), expand(kv, 1, "a")
    return attend_with_sinks(q, key_states, value_states, sinks, mask, probability)


def _unrotated(attn_output: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Values were rotated with the keys that they are."""
    return permute(rotate_tail(permute(attn_output, 0, 2, 1, 3), cos, like(sin, "neg")), 0, 2, 1, 3)


def _by_group(x: Tensor, weight: Parameter) -> Tensor:
    """Heads as groups, in a copy."""
    out = new(x.tape, (*x.shape[:2], weight.outer[0], *weight.inner), x.dtype, "clone")
    if tracked(x):
        shape = x.shape
        attach([out], [x], [], lambda g, s: [view(in_order(g), shape)])
    return out


_GROUPS_FIRST = (2, 0, 1, 3)


def _grouped_linear(x: Tensor, weight: Parameter) -> Tensor:
    """`DeepseekV4GroupedLinear`: a product for each group, and its result in the order of tokens."""
    tape = x.tape
    with tape.module("o_a_proj"):
        w = _transposed(weight)
        w, x = autocast(w), autocast(x)
        x_needs, w_needs = tracked(x), tracked(w)
        saved = save(tape, x if w_needs else None, w if x_needs else None)
        y = new(tape, (*x.shape[:3], weight.outer[1]), x.dtype, "matmul", order=_GROUPS_FIRST)
        x_shape, w_shape = x.shape, w.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = only(gradients).dtype
            for_w = new(tape, w_shape, dtype, "matmul_backward") if w_needs else None
            for_x = new(tape, x_shape, dtype, "matmul_backward", order=_GROUPS_FIRST) if x_needs else None
            return [for_x, for_w]

        if x_needs or w_needs:
            attach([y], [x, w], saved, apply)
        return clone(y)


def _transposed(weight: Parameter) -> Tensor:
    """Each group's matrix transposed; the gradient is copied back."""
    group, out = weight.outer
    w = view(weight, (group, *weight.inner, out))
    if tracked(weight):
        tape, shape = weight.tape, weight.shape
        attach([w], [weight], [], lambda g, s: [new(tape, shape, only(g).dtype, "clone")])
    return w
