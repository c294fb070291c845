"""Multi-head latent attention. Source: Megatron-LM, core/transformer/multi_latent_attention.py."""

from __future__ import annotations

from collections.abc import Callable

from memcore.networks.parts import LatentAttention
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Axis, Shape, half
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import cat, clone, contiguous, identity, new, only, view
from memcore.tensors.discarding import discard
from memcore.tensors.operations import add, mul
from memcore.tensors.slices import expand
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.attention import LayerContext, core, projected, rotated_half
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import Weights, linear, local_linear, norm_linear, parts_to_all
from memcore.trainers.megatron.layers.offloading import Group, opened
from memcore.trainers.megatron.layers.recompute import discarded, recomputes


def latent_attention(
    x: Tensor, part: LatentAttention, before: Norm, weights: Weights, around: LayerContext, group: Group
) -> tuple[Tensor, Parameter | None]:
    """The result before its bias is added, and the bias; the norm before it is a module of its own, with its group."""

    def attended(x: Tensor) -> Tensor:
        return _attention(x, part, weights, around)

    return behind_norm(x, before, attended, weights, around, group), weights.get(f"{part.output.name}.bias")


def behind_norm(
    x: Tensor, before: Norm, use: Callable[[Tensor], Tensor], weights: Weights, around: LayerContext, group: Group
) -> Tensor:
    """Return what follows a norm that is a module of its own; its result may be computed again."""

    def normed(x: Tensor) -> Tensor:
        return norm(x, before, weights)

    if recomputes(around.how, "layernorm"):
        return discarded(normed, use, x, within=group)
    with group:
        found = normed(x)
    return use(found)


def _attention(x: Tensor, part: LatentAttention, weights: Weights, around: LayerContext) -> Tensor:
    with x.tape.module(part.module):
        group = opened(around.offloads, "qkv_linear")
        x = group.start(x)
        with group:
            given = _latents(x, part, weights, around)

        def expanded(query: Tensor, latent: Tensor, turned: Tensor) -> list[Tensor]:
            return _heads(query, latent, turned, part, weights, around)

        def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            group.commit(x)
            return core(query, key, value, part, around, packed=False)

        if recomputes(around.how, "mla_up_proj"):
            out = discard(expanded, attended, *given, within=group)
            del given
        else:
            with group:
                heads = expanded(*given)
            del given
            out = attended(*heads)
            del heads
        return projected(out, part.output, weights, around)


def _latents(x: Tensor, part: LatentAttention, weights: Weights, around: LayerContext) -> list[Tensor]:
    """Queries in their latent space, keys and values in theirs, and the turned part that all heads share."""
    how, run = around.how, local_linear if around.local else linear
    query = run(x, part.queries[0], weights, how) if len(part.queries) > 1 else x
    latent, turned = _split(run(x, part.compress, weights, how), (part.expand.inner[0], part.heads.rotated))
    return [query, latent, parts_to_all(contiguous(turned)) if how.sequence else turned]


def _heads(
    query: Tensor, latent: Tensor, turned: Tensor, part: LatentAttention, weights: Weights, around: LayerContext
) -> list[Tensor]:
    """Queries, keys and values of all heads, each in order."""
    how = around.how
    query = _up(query, part.query_norm if len(part.queries) > 1 else None, part.queries[-1], weights, around)
    both = _up(contiguous(latent), part.latent_norm, part.expand, weights, around)
    heads, rows = part.heads, query.shape[:3]
    plain: Axis = "p"
    if how.rope_fusion:
        # One kernel turns queries where they are; another writes keys and values.
        key, value = _written(both, turned, (*rows, heads.width), (*rows, heads.value))
        return [identity(query), key, value]  # `fused_apply_mla_rope_for_q` is in place, and so is its gradient
    still, moving = _split(query, (plain, heads.rotated))
    del query
    keys, values = _split(both, (plain, heads.value))
    del both
    moving, shared = _rotated(moving), _rotated(view_with_heads(turned))
    query = cat([still, moving], (*rows, heads.width))
    del still, moving
    key = cat([keys, expand(shared, 2, heads.query)], (*rows, heads.width))
    return [query, key, clone(values)]


def _up(x: Tensor, before: Norm | None, part: Linear, weights: Weights, around: LayerContext) -> Tensor:
    """Return a projection out of a latent space, behind its norm if it has one."""
    how = around.how
    if before is None or before.kind.endswith("plain"):
        return (local_linear if around.local else linear)(x, part, weights, how)
    if around.local:
        return local_linear(norm(x, before, weights), part, weights, how)
    return norm_linear(x, before, part, weights, how)


def _split(x: Tensor, widths: tuple[Axis, Axis]) -> list[Tensor]:
    """Return two slices of the last axis; their gradients are concatenated."""
    last = len(x.shape) - 1
    outs = [view(x, (*x.shape[:-1], width), x.order, cut=last) for width in widths]
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach(outs, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return outs


def view_with_heads(x: Tensor) -> Tensor:
    """`torch.unsqueeze(x, -2)`."""
    out = view(x, (*x.shape[:-1], 1, x.shape[-1]))
    out.cut = None if x.cut is None else 3
    if tracked(x):
        shape = x.shape
        attach([out], [x], [], lambda g, s: [view(only(g), shape)])
    return out


def _rotated(x: Tensor) -> Tensor:
    """`_apply_rotary_pos_emb_bshd` with pairs apart: even and odd elements are put side by side first."""
    shape = (*x.shape[:-1], half(x.shape[-1]))
    outs = [view(x, shape, x.order, cut=len(shape)) for _ in range(2)]
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach(outs, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    x = cat(outs, x.shape)
    angles: Shape = (x.shape[0], 1, 1, x.shape[-1])
    cosines, sines = (new(x.tape, angles, x.dtype, "rotary") for _ in range(2))
    out = add(mul(x, cosines), mul(rotated_half(x), sines))
    return cat([out], out.shape)


def _written(both: Tensor, turned: Tensor, key: Shape, value: Shape) -> list[Tensor]:
    """`fused_apply_mla_rope_for_kv`."""
    tape, dtype = both.tape, both.dtype
    outs = [new(tape, key, dtype, "rotary"), new(tape, value, dtype, "rotary")]
    if tracked(both, turned):
        shapes = both.shape, turned.shape
        attach(outs, [both, turned], [], lambda g, s: [new(tape, each, dtype, "rotary_backward") for each in shapes])
    return outs
