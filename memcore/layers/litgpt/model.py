"""LitGPT's decoder: fused queries, keys and values, norms in fp32, fp32 tables, a head in chunks.

Source: lit_gpt/model.py, lit_gpt/lora.py, lit_gpt/rmsnorm.py and finetune/lora.py (6178c7c, October 2023), and
Fabric's half-precision plugin, which casts the model's outputs to fp32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.layers.losses import cross_entropy
from memcore.layers.transformers import support
from memcore.layers.transformers.attention import heads_of
from memcore.layers.transformers.context import Weights, leaf, project, scaled
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotations import parted, rotated
from memcore.messages import joined
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Axis, Quotient, Rounded, Shape
from memcore.tensors.attention import choose_kernel, sdpa
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import cat, clone, contiguous, like, new, only, permute, split, to, view
from memcore.tensors.operations import (
    ACTIVATIONS,
    add,
    add_scalar,
    dropout,
    embedding,
    linear,
    matmul,
    mean,
    mul,
    rsqrt,
    scale,
    softmax,
)
from memcore.tensors.slices import expand, split_sizes
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.code import LayerCode
from memcore.trace.recipe import Buffer
from memcore.trace.step import Batch, Slot, Step

_NORMS = ("rms", "rms-offset", "layer")
_RESIDUALS = ("sequential", "parallel", "parallel-shared", "falcon-parallel")
"""In parallel, a layer with one norm gives its result to both parts (`shared_attention_norm`)."""


def check(network: Network) -> None:
    """Refuse networks that LitGPT of that time cannot express."""
    layers = network.kinds
    attention = [layer.mixer for layer in layers if isinstance(layer.mixer, Attention)]
    wanted = {
        "layers one after the other or in parallel": all(layer.residual in _RESIDUALS for layer in layers),
        "attention in every layer": len(attention) == len(layers),
        "a dense feed-forward layer in every layer": all(isinstance(each.feed_forward, FeedForward) for each in layers),
        "two matrices for gate and up": not any(
            isinstance(each.feed_forward, FeedForward) and each.feed_forward.fused for each in layers
        ),
        "LayerNorm or RMSNorm": all(norm.kind in _NORMS for layer in layers for norm in layer.norms),
        "no norm on queries and keys": all(part.query_norm is None for part in attention),
        "rotary embeddings": all(part.rotary in ("full", "partial", "partial-kept") for part in attention),
        "attention to all tokens": all(part.mask == "full" for part in attention),
        "one matrix for queries, keys and values": all(part.fused == "litgpt" for part in attention),
        "no towers": not network.towers,
    }
    missing = [name for name, has in wanted.items() if not has]
    if missing:
        raise UnsupportedError(
            Training.implementation,
            "LitGPT's layers need {}, which {} lacks; use 'transformers'",
            joined(" and ", missing),
            network.family,
        )


def buffers(network: Network) -> Sequence[Buffer]:
    """Cosines and sines of the longest sequence, in fp32 once the trainer has set its length."""
    part = next(layer.mixer for layer in network.kinds if isinstance(layer.mixer, Attention))
    shape = ("s", part.heads.rotated)
    return [Buffer(rule="rotary_table", module=name, shape=shape, dtype="fp32") for name in ("cos", "sin")]


def forward(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Return the loss of one micro-batch; the loop's `logits` live until the next forward pass has returned."""
    network, tape = step.recipe.network, batch.tokens.tape
    tokens = step.enter("root", batch.tokens)
    with tape.at(network.embedding_and_head.embedding.name.removesuffix(".weight")):
        x = embedding(tokens, step.weights[network.embedding_and_head.embedding.name])
        x = scale(x) if network.embedding_and_head.embedding_scaled else x
    step.embedded(x)
    tables = _tables(step)

    def run(slot: Slot, x: Tensor) -> Tensor:
        return _block(x, slot.weights, slot.layer, step, tables)

    for slot in step.slots:
        x = step.layer(slot, run, x)
    step.after_layers()
    x = step.enter("head", x)
    if network.embedding_and_head.final_norm is not None:
        x = _norm(x, step.weights, network.embedding_and_head.final_norm)
    step.loss_begins(x)
    outputs = _head(step, x)
    del x
    with tape.at("loss"):
        logits = [to(each, "fp32") for each in outputs]
        del outputs
        loss = _loss(logits, batch.labels)
    return step.leave("root", loss), logits


def _tables(step: Step) -> tuple[Tensor, Tensor]:
    """Buffers: cosines and sines."""
    part = next(layer.mixer for layer in step.recipe.network.kinds if isinstance(layer.mixer, Attention))
    cos, sin = (Tensor(step.tape, None, ("s", part.heads.rotated), "fp32") for _ in range(2))
    return cos, sin


def _head(step: Step, x: Tensor) -> list[Tensor]:
    """Return the logits, in chunks of the sequence if there are several."""
    head, count = step.recipe.network.embedding_and_head.head, step.recipe.loss.chunks
    batch, length, *rest = x.shape
    parts = split(x, (batch, Quotient((length,), count), *rest), count, cut=1) if count > 1 else [x]
    return [project(part, step.weights, head) for part in parts]


def _loss(logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """`chunked_cross_entropy`: a loss for each token, and their mean."""
    batch, length = labels.shape
    shape: Shape = (batch, Quotient((length,), len(logits)))
    total: Tensor | None = None
    for part in logits:
        targets = clone(view(labels, shape, cut=1))
        each = cross_entropy(part, targets)
        total = each if total is None else add(total, each)
    if total is None:
        raise ValueError("no logits")
    return scale(total, "div")


def _block(x: Tensor, weights: Weights, layer: Layer, step: Step, tables: tuple[Tensor, Tensor]) -> Tensor:
    part, ffn = layer.mixer, layer.feed_forward
    if not (isinstance(part, Attention) and isinstance(ffn, FeedForward)):
        raise TypeError(layer)
    n_1 = _norm(x, weights, layer.norms[0])
    h = _attention(n_1, weights, part, step, tables)
    if layer.residual != "sequential":
        n_2 = n_1 if len(layer.norms) == 1 else _norm(x, weights, layer.norms[1])
        return add(add(x, h), _feed_forward(n_2, weights, ffn))
    x = add(x, h)
    return add(x, _feed_forward(_norm(x, weights, layer.norms[1]), weights, ffn))


def _norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """LayerNorm, or an RMSNorm in fp32, whose weight may be one more than what is stored (`add_unit_offset`)."""
    if part.kind == "layer":
        return norm(x, weights, part)
    with x.tape.module(leaf(part.name)):
        weight: Tensor = weights[f"{part.name}.weight"]
        weight = add_scalar(weight) if part.kind == "rms-offset" else weight
        dtype = x.dtype
        x = to(x, "fp32")
        norm_x = mean(mul(x, x))
        x_normed = mul(x, rsqrt(add_scalar(norm_x)))
        return to(mul(weight, x_normed), dtype)


def _attention(x: Tensor, weights: Weights, part: Attention, step: Step, tables: tuple[Tensor, Tensor]) -> Tensor:
    heads = heads_of(part)
    with x.tape.module(part.module):
        qkv = permute(_qkv(x, weights, part.inputs[0]), 0, 2, 1, 3)
        q, k, v = split_sizes(qkv, 1, (heads.query, heads.key, heads.key))
        if heads.shared:
            # Groups lie one after another, each with its queries, key and value: merged heads are copies.
            q, k, v = (_spread(each, heads.query) for each in (q, k, v))
            heads = heads.repeated()
        q_roped, k_roped = (_rope(each, tables) for each in (q, k))
        q, k = cat([q_roped], q.shape), cat([k_roped], k.shape)
        kernel = step.recipe.attention
        kernel = choose_kernel(q, v, heads, masked=False) if kernel == "sdpa" else kernel
        y = permute(sdpa(q, k, v, heads, kernel, None), 0, 2, 1, 3)
        if part.adapter_weights:
            y = _attend_to_prompt(y, q, weights, part)
        y = contiguous(y)
        return project(y, weights, part.output)


def _attend_to_prompt(y: Tensor, q: Tensor, weights: Weights, part: Attention) -> Tensor:
    """Return what the learned tokens add, times its gate (lit_gpt/adapter.py, `CausalSelfAttention`).

    They are one sequence: with several, no fused kernel takes them, and SDPA falls back to matrix products.
    """
    tape, heads = q.tape, part.heads.query
    table = weights[f"{part.module}.adapter_wte.weight"]
    prefix = view(table, (1, "va", *table.inner))
    prefix.requires_grad, prefix.node = True, None
    attach([prefix], [table], [], lambda g, s: [view(only(g), table.shape)])
    aqkv = permute(_qkv(prefix, weights, part.inputs[0]), 0, 2, 1, 3)
    own = heads_of(part)
    _, ak, av = split_sizes(aqkv, 1, (own.query, own.key, own.key))
    if own.shared:
        ak, av = _spread(ak, heads), _spread(av, heads)
    amask = new(tape, (q.shape[2], "va"), "bool", "attention_mask")
    bias = like(amask, "attention_bias", q.dtype)
    if q.shape[0] in (1, *tape.units):
        padded = new(tape, (q.shape[2], Rounded("va", 8)), q.dtype, "pad")
        ay = sdpa(q, ak, av, own.repeated(), "efficient", padded)
    else:
        scores = matmul(scale(q), scale(permute(_shared_keys(ak, q.shape[0]), 0, 1, 3, 2)))
        ay = matmul(softmax(scores), _shared_keys(av, q.shape[0]))
    del bias, amask
    return add(y, mul(weights[f"{part.module}.gating_factor"], permute(ay, 0, 2, 1, 3)))


def _shared_keys(x: Tensor, batch: Axis) -> Tensor:
    """Keys or values of one sequence for all."""
    return expand(x, 0, batch)


def _spread(x: Tensor, count: Axis) -> Tensor:
    """Heads of all groups in a copy, keys and values once for each query head."""
    shape: Shape = (x.shape[0], count, *x.shape[2:])
    out = new(x.tape, shape, x.dtype, "repeat_kv")
    if tracked(x):
        before = x.shape
        attach([out], [x], [], lambda g, s: [new(x.tape, before, only(g).dtype, "repeat_kv_backward")])
    return out


def _rope(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """`apply_rope`, in fp32 because of the tables, over the first elements of a head; the rest is concatenated."""
    cos, sin = tables
    turned, rest = parted(x, cos.shape[-1])
    roped = to(rotated(turned, cos, sin), x.dtype)
    return roped if cos.shape[-1] == x.shape[3] else cat([roped, rest], x.shape)


def _feed_forward(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    activation = ACTIVATIONS["gelu" if part.activation.startswith("gelu") else part.activation]
    with x.tape.module(part.module):
        if part.gate is None:
            x = project(x, weights, part.up)
            x = activation(x)
            return project(x, weights, part.down)
        x_fc_1 = project(x, weights, part.gate)
        x_fc_2 = project(x, weights, part.up)
        x = mul(activation(x_fc_1), x_fc_2)
        return project(x, weights, part.down)


def _qkv(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """`LoRAQKVLinear`: what the adapters add is padded with zeros where a part has none."""
    tape = x.tape
    with tape.module(leaf(part.name)):
        pretrained = linear(x, weights[f"{part.name}.weight"], weights.get(f"{part.name}.bias"))
        if part.adapter_dtype is None:
            return pretrained
        if part.adapter_kind == "scale":
            return scaled(pretrained, weights, part)
        down, up = weights[part.adapter_name("lora_A")], weights[part.adapter_name("lora_B")]
        after_a = linear(dropout(x, part.adapter_dropout), down)
        after_b = _grouped_convolution(after_a, up)
        padded = after_b if part.adapter_outer is None else _zero_pad(after_b, pretrained.shape)
        lora = scale(padded)
        return add(pretrained, lora)


def _grouped_convolution(x: Tensor, weight: Parameter) -> Tensor:
    """`F.conv1d` over tokens with a group for each part: (b, s, ranks) to (b, s, outer), tokens last in memory."""
    tape = x.tape
    saved = save(tape, x, weight)
    batch, length, *ranks = x.shape
    out = new(tape, (batch, *weight.outer, length), x.dtype, "conv1d")
    logical = view(out, (batch, length, *weight.outer), (0, *range(2, 2 + len(weight.outer)), 1))

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        rows = new(tape, (batch, *weight.outer, length), dtype, "clone")
        for_x = new(tape, (batch, *ranks, length), dtype, "conv1d_backward")
        for_weight = new(tape, weight.shape, dtype, "conv1d_backward")
        del rows
        return [view(for_x, x_shape, (0, 2, 1)), for_weight]

    x_shape = x.shape
    attach([logical], [x, weight], saved, apply)
    return logical


def _zero_pad(x: Tensor, shape: Shape) -> Tensor:
    """Zeros, the rows in a copy, and a copy of the zeros with the rows put in (`index_copy`), which keeps them."""
    tape, before = x.tape, x.shape
    index = new(tape, x.shape[2:], "int64", "index")
    result = new(tape, shape, x.dtype, "zeros")
    rows = like(x, "clone")
    saved = save(tape, index, rows)
    out = new(tape, shape, x.dtype, "index_copy")
    del result, rows
    attach([out], [x], saved, lambda g, s: [new(tape, before, only(g).dtype, "index_select")])
    return out


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "lit-gpt": LayerCode(
        name="lit-gpt",
        title="LitGPT",
        forward=forward,
        check=check,
        has_sdpa=lambda network: True,
        kernels=lambda network: support.KERNELS,
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=buffers,
    ),
}
"""By the value of `training.implementation`."""
