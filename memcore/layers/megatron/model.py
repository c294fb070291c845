"""Megatron-Core's GPT model: embeddings, layers, head and loss.

Sources: Megatron-LM, core/models/gpt/{gpt_model,gpt_layer_specs}.py, core/transformer/{transformer_layer,
transformer_block}.py, and pretrain_gpt.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memcore.eager.autograd import attach, tracked
from memcore.eager.basics import contiguous, like, new, only, permute
from memcore.eager.operations import mul
from memcore.eager.tensor import Parameter, Tensor
from memcore.errors import UnsupportedError
from memcore.layers.megatron.attention import Around, attention
from memcore.layers.megatron.ends import embedded
from memcore.layers.megatron.experts import experts
from memcore.layers.megatron.feed_forward import feed_forward
from memcore.layers.megatron.fused import bias_dropout_add, norm
from memcore.layers.megatron.latent import latent_attention
from memcore.layers.megatron.linear import Weights, local_linear
from memcore.layers.megatron.losses import vocab_parallel_cross_entropy
from memcore.layers.megatron.mamba import mamba
from memcore.layers.megatron.prediction import predicted, split, with_loss
from memcore.layers.megatron.recompute import discarded, recomputes, run_again
from memcore.model.network import Network
from memcore.model.parts import Attention, Feed, FeedForward, LatentAttention, Mixer, SpecialMixer
from memcore.model.weights import Norm
from memcore.step.megatron import MegatronPlan
from memcore.step.recipe import Buffer
from memcore.step.step import Batch, Slot, Step


def check(network: Network) -> None:
    """Refuse networks whose layers are not modelled yet."""
    for layer in network.kinds:
        missing = [] if layer.second_mixer is None else ["several mixers in a layer"]
        if isinstance(layer.mixer, SpecialMixer) and layer.mixer.variant != "megatron-mamba2":
            missing += [f"mixers of kind {layer.mixer.variant!r}"]
        missing += [] if layer.residual in ("megatron", "megatron-mtp") else [f"layers wired as {layer.residual!r}"]
        if missing:
            message = f"Megatron's activations are not modelled yet for {' and '.join(missing)}"
            raise UnsupportedError("training.implementation", message)
    if network.ends.start not in ("megatron-gpt", "megatron-hybrid"):
        raise UnsupportedError(
            "training.implementation", "Megatron's activations are modelled for GPT and hybrids only"
        )


def buffers(network: Network) -> Sequence[Buffer]:
    """The angles of all positions, which the rotary module caches."""
    turned = next((layer.mixer.heads.rotated for layer in network.kinds if isinstance(layer.mixer, Attention)), None)
    rotates = any(isinstance(layer.mixer, Attention) and layer.mixer.rotary != "none" for layer in network.kinds)
    if turned is None or not rotates:
        return []
    return [Buffer(rule="rotary_frequencies", module="rotary_pos_emb", shape=("s", turned), dtype="fp32")]


def forward(step: Step, batch: Batch, *, local: bool) -> tuple[Tensor, Tensor | None]:
    """The loss of one micro-batch, or on an earlier stage its hidden states."""
    ends, tape = step.recipe.network.ends, step.tape
    how = plan(step)
    rows = ("b", "s")
    loaded = [new(tape, rows, "fp32", "inputs"), new(tape, rows, "int64", "inputs")]
    mask = new(tape, ("b", 1, "s", "s"), "bool", "inputs") if how.masked else None
    around = Around(how, step.recipe.attention, local, mask)
    x = step.enter("root", batch.tokens)
    if ends.reads_tokens:
        x = step.enter("embedding", x)
        x = step.leave("embedding", embedded(x, loaded[1], ends, step.weights, how))
        step.embedded(x)

    def run(slot: Slot, x: Tensor) -> Tensor:
        return _layer(x, slot, around)

    slots, depths = split(step.slots)
    for slot in slots:
        x = step.layer(slot, run, x)
    step.after_layers()
    if not ends.predicts:
        return step.leave("root", x), None
    x = step.enter("head", x)
    if ends.final_norm is not None:
        with tape.at("decoder"):
            x = norm(x, ends.final_norm, step.weights)
    tokens = batch.tokens if ends.reads_tokens else loaded[1]
    states = predicted(step, x, tokens, depths, run, how)
    return _head(step, states, batch.labels, loaded[0], how)


def plan(step: Step) -> MegatronPlan:
    """The recipe's part for Megatron."""
    found = step.recipe.megatron
    if found is None:
        raise TypeError(step.recipe)
    return found


def _layer(x: Tensor, slot: Slot, around: Around) -> Tensor:
    """`TransformerLayer.forward`."""
    layer, weights = slot.layer, slot.weights
    mixer, feed = layer.mixer, layer.feed_forward
    norms = list(layer.norms)
    if mixer is not None:
        y, bias = _mixer(x, mixer, norms.pop(0), weights, around)
        x = bias_dropout_add(y, bias, x, layer.dropout)
        del y
    if feed is not None:
        y, bias = _feed(x, feed, norms.pop(0), weights, around)
        x = bias_dropout_add(y, bias, x, layer.dropout)
    return x


def _mixer(x: Tensor, mixer: Mixer, before: Norm, weights: Weights, around: Around) -> tuple[Tensor, Parameter | None]:
    if isinstance(mixer, Attention):
        return attention(x, mixer, before, weights, around)
    if isinstance(mixer, LatentAttention):
        return latent_attention(x, mixer, before, weights, around)
    return mamba(x, mixer, before, weights, around), None


def _feed(x: Tensor, feed: Feed, before: Norm, weights: Weights, around: Around) -> tuple[Tensor, Parameter | None]:
    """A feed-forward layer behind its norm; a dense one may be recomputed as a whole."""
    how = around.how
    if isinstance(feed, FeedForward):
        bias = weights.get(f"{feed.down.name}.bias")

        def dense(x: Tensor) -> Tensor:
            return feed_forward(x, feed, before, weights, around)[0]

        return (run_again(dense, x) if recomputes(how, "mlp") else dense(x)), bias

    def normed(x: Tensor) -> Tensor:
        return norm(x, before, weights)

    def routed(x: Tensor) -> Tensor:
        return experts(x, feed, weights, around)

    return (discarded(normed, routed, x) if recomputes(how, "layernorm") else routed(normed(x))), None


def _head(
    step: Step, states: list[Tensor], labels: Tensor, mask: Tensor, how: MegatronPlan
) -> tuple[Tensor, Tensor | None]:
    """The losses of further tokens, and of the next one."""
    x, *further = states
    del states
    for place, state in enumerate(further):
        if place == 0:
            step.loss_begins(state)
        labels, mask = like(labels, "clone"), like(mask, "clone")
        x = with_loss(x, _loss(step, state, labels, mask, how))
    if not further:
        step.loss_begins(x)
    loss = step.leave("head", _loss(step, x, labels, mask, how))
    return step.leave("root", loss), None


def _loss(step: Step, x: Tensor, labels: Tensor, mask: Tensor, how: MegatronPlan) -> Tensor:
    with x.tape.at("output_layer"):
        logits = local_linear(x, step.recipe.network.ends.head, step.weights, how)
    del x
    with logits.tape.at("loss"):
        targets = contiguous(permute(labels, 1, 0))
        loss = vocab_parallel_cross_entropy(logits, targets, how.loss)
        loss = contiguous(permute(loss, 1, 0))
        del logits
        return _mean(loss, mask)


def _mean(losses: Tensor, mask: Tensor) -> Tensor:
    """`loss_func`: the sum of what the mask leaves."""
    left = mul(losses, mask)
    out = new(left.tape, (), left.dtype, "sum")
    if tracked(left):
        tape, shape = left.tape, left.shape
        attach([out], [left], [], lambda g, s: [new(tape, shape, only(g).dtype, "expand_backward")])
    return out


transformer_engine = partial(forward, local=False)
megatron_local = partial(forward, local=True)
