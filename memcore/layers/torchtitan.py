"""torchtitan's Llama: complex rotary embeddings, PyTorch's RMSNorm, and a loss outside the model.

Source: torchtitan/models/llama3/model. Until 2025 (9dec370) keys and values were copied for every query head, and
`nn.RMSNorm` was composed from elementwise operations (PyTorch 2.6); a model says so with `"gqa": "repeat"` and
`"norm": "composite"`.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.eager.attention import choose_kernel, repeat_kv, sdpa
from memcore.eager.autograd import Gradient, attach, tracked
from memcore.eager.basics import contiguous, like, new, only, permute, to
from memcore.eager.operations import ACTIVATIONS, add, mean, mul, power, rms_norm, rsqrt
from memcore.eager.ring import ring_attention
from memcore.eager.tensor import Parameter, Tensor
from memcore.errors import UnsupportedError
from memcore.layers.losses import causal_lm_loss
from memcore.layers.tensor_parallel import embedded, headed, normalized, prepared
from memcore.layers.transformers.attention import heads_of
from memcore.layers.transformers.context import Weights, leaf, project
from memcore.model.network import Ends, Layer, Network
from memcore.model.parts import Attention, FeedForward
from memcore.model.weights import Norm
from memcore.step.recipe import Buffer
from memcore.step.step import Batch, Slot, Step


def check(network: Network) -> None:
    """Refuse networks that torchtitan's Llama cannot express."""
    layers = network.kinds
    attention = [layer.mixer for layer in layers if isinstance(layer.mixer, Attention)]
    feeds = [layer.feed_forward for layer in layers if isinstance(layer.feed_forward, FeedForward)]
    wanted = {
        "layers one after the other": all(layer.residual == "sequential" for layer in layers),
        "attention in every layer": len(attention) == len(layers),
        "a dense feed-forward layer in every layer": len(feeds) == len(layers),
        "RMSNorm": all(norm.kind == "rms" for layer in layers for norm in layer.norms),
        "separate query, key and value matrices": all(len(part.inputs) == 3 for part in attention),
        "no norm on queries and keys": all(part.query_norm is None for part in attention),
        "rotary embeddings over whole heads": all(part.rotary == "full" for part in attention),
        "attention to all tokens": all(part.mask == "full" for part in attention),
        "a gated feed-forward layer": all(part.gate is not None for part in feeds),
        "a head of its own": not network.ends.tied,
        "a final norm": network.ends.final_norm is not None,
        "no towers": not network.towers,
    }
    missing = [name for name, has in wanted.items() if not has]
    if missing:
        message = f"torchtitan's Llama needs {' and '.join(missing)}, which {network.family} lacks; use 'transformers'"
        raise UnsupportedError("training.implementation", message)


def buffers(network: Network) -> Sequence[Buffer]:
    """One complex rotation for each position and pair of elements of a head."""
    return [Buffer(rule="rotary_table", module="freqs_cis", shape=("s", "d"), dtype="fp32")]


def forward(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The loss of one micro-batch; the trainer's `pred` lives until the loss is known."""
    pred = _transformer(step, batch.tokens)
    if not step.recipe.network.ends.predicts:
        return pred, None
    return causal_lm_loss(pred, batch.labels, step.recipe.loss), pred


def _transformer(step: Step, tokens: Tensor) -> Tensor:
    ends = step.recipe.network.ends
    h = step.enter("root", tokens)
    if ends.reads_tokens:
        h = _embed(step, h, ends)

    def run_block(slot: Slot, x: Tensor) -> Tensor:
        return _block(x, slot.weights, slot.layer, step)

    for slot in step.slots:
        h = step.layer(slot, run_block, h)
    step.after_layers()
    if not ends.predicts:
        return step.leave("root", h)
    h = step.enter("head", h)
    h = _norm(h, step.weights, _final(ends))
    step.loss_begins(h)
    logits = step.leave("head", headed(lambda x: project(x, step.weights, ends.head), h))
    return step.leave("root", logits)


def _final(ends: Ends) -> Norm:
    if ends.final_norm is None:
        raise TypeError(ends)
    return ends.final_norm


def _embed(step: Step, tokens: Tensor, ends: Ends) -> Tensor:
    with tokens.tape.at(ends.embedding.name.removesuffix(".weight")):
        tokens = step.enter("embedding", tokens)
        h = step.leave("embedding", embedded(tokens, step.weights[ends.embedding.name]))
        step.embedded(h)
        return h


def _block(x: Tensor, weights: Weights, layer: Layer, step: Step) -> Tensor:
    if not (isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, FeedForward)):
        raise TypeError(layer)
    h = add(x, _attention(_norm(x, weights, layer.norms[0]), weights, layer.mixer, step))
    return add(h, _feed_forward(_norm(h, weights, layer.norms[1]), weights, layer.feed_forward))


def _norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """`nn.RMSNorm`: one kernel, or composed: normalized and weighted in fp32, and cast at the end."""
    with x.tape.module(leaf(part.name)):
        return normalized(_rms_norm, x, weights, part)


def _rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    weight: Parameter = weights[f"{part.name}.weight"]
    if part.fused:
        return rms_norm(x, weight)
    upcast = to(x, "fp32")
    inverse = rsqrt(mean(power(upcast)))
    return to(mul(mul(upcast, inverse), weight), x.dtype)


def _attention(x: Tensor, weights: Weights, part: Attention, step: Step) -> Tensor:
    heads = heads_of(part)
    with x.tape.module(part.module):
        given = prepared(x)
        xq, xk, xv = (project(given, weights, each) for each in part.inputs)
        xq, xk = _rotate(xq), _rotate(xk)
        if part.repeats_heads:
            xk, xv = repeat_kv(xk, heads, axis=2), repeat_kv(xv, heads, axis=2)
            heads = heads.repeated()
        xq, xk, xv = (permute(each, 0, 2, 1, 3) for each in (xq, xk, xv))
        kernel = step.recipe.attention
        kernel = choose_kernel(xq, xv, heads, masked=False) if kernel == "sdpa" else kernel
        turns = step.recipe.ring_turns
        attended = ring_attention(xq, xk, xv, heads.shared, turns) if turns else sdpa(xq, xk, xv, heads, kernel, None)
        output = contiguous(permute(attended, 0, 2, 1, 3))
        return project(output, weights, part.output)


def _feed_forward(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    with x.tape.module(part.module):
        act = ACTIVATIONS[part.activation]
        gate = part.gate or part.up
        given = prepared(x)
        return project(mul(act(project(given, weights, gate)), project(given, weights, part.up)), weights, part.down)


def _rotate(x: Tensor) -> Tensor:
    """`apply_rotary_emb` for one tensor: in fp32, as complex numbers."""
    upcast = to(x, "fp32")
    return to(_complex_product(upcast), x.dtype)


def _complex_product(x: Tensor) -> Tensor:
    """The input as complex numbers times the rotations; the backward pass conjugates the rotations first."""
    tape = x.tape
    out = like(x, "rotary")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        conjugated = new(tape, ("s", "d"), "fp32", "rotary")
        result = like(only(gradients), "rotary_backward")
        del conjugated
        return [result]

    if tracked(x):
        attach([out], [x], [], apply)
    return out
