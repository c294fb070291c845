"""torchtitan's models: token embedding, blocks, norm and head, and a loss outside the model.

Source: torchtitan/models. Until 2025 (9dec370) Llama's keys and values were copied for every query head, and
`nn.RMSNorm` was composed from elementwise operations (PyTorch 2.6); a model says so with `"gqa": "repeat"` and
`"norm": "composite"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.layers.losses import causal_lm_loss
from memcore.layers.tensor_parallel import embedded, headed, prepared
from memcore.layers.torchtitan.attention import attention, latent_attention
from memcore.layers.torchtitan.chunked import chunked_loss
from memcore.layers.torchtitan.experts import can_share, mixture
from memcore.layers.torchtitan.network import FUSED
from memcore.layers.torchtitan.parts import dense, norm
from memcore.layers.transformers import support
from memcore.layers.transformers.context import Weights, project
from memcore.messages import joined
from memcore.networks.network import EmbeddingAndHead, Layer, Network
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention
from memcore.networks.separate_experts import experts_of
from memcore.networks.weights import Norm
from memcore.tensors.basics import to
from memcore.tensors.operations import add
from memcore.tensors.tensor import Tensor
from memcore.trace.code import LayerCode
from memcore.trace.recipe import Buffer
from memcore.trace.step import Batch, Slot, Step

_SEQUENTIAL = frozenset({"sequential", "sequential-unpacked"})
"""How layers may be connected: transformers' code of gpt-oss names results that torchtitan's does not."""


def check(network: Network) -> None:
    """Refuse networks that torchtitan's models cannot express."""
    missing = [name for name, has in _wanted(network).items() if not has]
    if missing:
        raise UnsupportedError(
            Training.implementation,
            "torchtitan's models need {}, which {} lacks; use 'transformers'",
            joined(" and ", missing),
            network.family,
        )


def expresses(network: Network) -> bool:
    """Return whether torchtitan's models are as a network is."""
    return all(_wanted(network).values())


def _wanted(network: Network) -> dict[str, bool]:
    layers = network.kinds
    mixers = [layer.mixer for layer in layers]
    heads = [part for part in mixers if isinstance(part, Attention)]
    latent = [part for part in mixers if isinstance(part, LatentAttention)]
    ffns = [layer.feed_forward for layer in layers if isinstance(layer.feed_forward, FeedForward)]
    sparse = list(experts_of(network))
    return {
        "layers one after the other": all(layer.residual in _SEQUENTIAL for layer in layers),
        "attention in every layer": len(heads) + len(latent) == len(layers),
        "a feed-forward layer in every layer": len(ffns) + sum(isinstance(x.feed_forward, Experts) for x in layers)
        == len(layers),
        "RMSNorm": all(each.kind in ("rms", "rms-after") for layer in layers for each in layer.norms),
        "separate query, key and value matrices": all(len(part.inputs) == 3 or part.fused == FUSED for part in heads),
        "norms over heads or none": all(_normed_by_head(part) for part in heads),
        "rotary embeddings over whole heads": all(part.rotary in ("full", "chunked") for part in heads),
        "attention to all tokens": all(
            each.mask == "full" or (isinstance(each, Attention) and each.sinks is not None)
            for each in mixers
            if each is not None
        ),
        "latent attention without an indexer": not any(part.indexer for part in latent),
        "a gated feed-forward layer": all(part.gate is not None for part in ffns),
        "the experts of DeepSeek, Qwen3 or gpt-oss": all(_expressible(part) for part in sparse),
        "a final norm": network.embedding_and_head.final_norm is not None,
        "no towers": not network.towers,
    }


def _normed_by_head(part: Attention) -> bool:
    norms = (part.query_norm, part.key_norm)
    return norms == (None, None) or (part.norm_place == "head" and all(each and each.kind == "rms" for each in norms))


def _expressible(part: Experts) -> bool:
    return can_share(part) and part.shared_gate is None and part.gated and not part.latent


def buffers(network: Network) -> Sequence[Buffer]:
    """One rotation for each position and pair of elements of a head; what experts were given, and a bias for each."""
    return list(_buffers(network))


def _buffers(network: Network) -> Iterator[Buffer]:
    mixer = network.kinds[0].mixer
    if isinstance(mixer, LatentAttention):
        yield Buffer(rule="rotary_table", module="freqs_cis", shape=("s", "r"), dtype="fp32")
    elif isinstance(mixer, Attention) and (mixer.query_norm is not None or mixer.sinks is not None):
        yield Buffer(rule="rotary_table", module="rope_cache", shape=("s", 2, "d"), dtype="fp32")
    else:
        yield Buffer(rule="rotary_table", module="freqs_cis", shape=("s", "d"), dtype="fp32")
    for layer in network.kinds:
        for part in layer.ffns:
            for name in ("expert_bias", "tokens_per_expert") if isinstance(part, Experts) else ():
                module = f"{network.path}.*.{part.module}.{name}"
                yield Buffer(rule="routing_buffer", module=module, shape=("E",), dtype="fp32", layer=layer)


def forward(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the loss of one micro-batch; the trainer's `pred` lives until the loss is known."""
    embedding_and_head, loss = step.recipe.network.embedding_and_head, step.recipe.loss
    h = _decoder(step, batch.tokens)
    if not embedding_and_head.predicts:
        return step.leave("root", h), None
    head = partial(headed, lambda x: project(x, step.weights, embedding_and_head.head))
    if loss.kind == "chunked":
        # Every tensor-parallel rank is given all hidden states, once for all parts.
        hidden_states = step.leave("root", step.leave("head", prepared(h)))
        del h
        part = partial(headed, lambda x: project(x, step.weights, embedding_and_head.head), given=True)
        return chunked_loss(step, hidden_states, batch.labels, part), None
    pred = step.leave("head", head(h))
    if loss.model_upcasts:
        pred = to(pred, "fp32")
    pred = step.leave("root", pred)
    del h
    return causal_lm_loss(pred, batch.labels, loss), pred


def _decoder(step: Step, tokens: Tensor) -> Tensor:
    """Up to the final norm."""
    embedding_and_head = step.recipe.network.embedding_and_head
    h = step.enter("root", tokens)
    if embedding_and_head.reads_tokens:
        h = _embed(step, h, embedding_and_head)

    def run_block(slot: Slot, x: Tensor) -> Tensor:
        return _block(x, slot, step)

    for slot in step.slots:
        h = step.layer(slot, run_block, h)
    step.after_layers()
    if not embedding_and_head.predicts:
        return h
    h = step.enter("head", h)
    h = norm(h, step.weights, _final(embedding_and_head))
    step.loss_begins(h)
    return h


def _final(embedding_and_head: EmbeddingAndHead) -> Norm:
    if embedding_and_head.final_norm is None:
        raise TypeError(embedding_and_head)
    return embedding_and_head.final_norm


def _embed(step: Step, tokens: Tensor, embedding_and_head: EmbeddingAndHead) -> Tensor:
    with tokens.tape.at(embedding_and_head.embedding.name.removesuffix(".weight")):
        tokens = step.enter("embedding", tokens)
        h = step.leave("embedding", embedded(tokens, step.weights[embedding_and_head.embedding.name]))
        step.embedded(h)
        return h


def _block(x: Tensor, slot: Slot, step: Step) -> Tensor:
    weights, layer, compiled, float8 = slot.weights, slot.layer, step.recipe.compiled, step.recipe.float8
    if float8 is not None and slot.checkpointed:
        float8 = replace(float8, keeps_weights=False)  # it is made of the weight again
    with step.tape.multiplying(float8):
        h = add(x, _mixed(norm(x, weights, layer.norms[0], compiled=compiled), weights, layer, step))
        return add(h, _fed(norm(h, weights, layer.norms[1], compiled=compiled), weights, layer, step))


def _fed(x: Tensor, weights: Weights, layer: Layer, step: Step) -> Tensor:
    if isinstance(layer.feed_forward, Experts):
        recipe = step.recipe
        return mixture(
            x,
            weights,
            layer.feed_forward,
            dispatcher=recipe.dispatcher,
            compiled=recipe.compiled,
            delays=recipe.sharding.delays_experts,
        )
    if not isinstance(layer.feed_forward, FeedForward):
        raise TypeError(layer)
    return dense(x, weights, layer.feed_forward, compiled=step.recipe.compiled)


def _mixed(x: Tensor, weights: Weights, layer: Layer, step: Step) -> Tensor:
    if isinstance(layer.mixer, LatentAttention):
        return latent_attention(x, weights, layer.mixer, step)
    if not isinstance(layer.mixer, Attention):
        raise TypeError(layer)
    return attention(x, weights, layer.mixer, step)


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "torchtitan": LayerCode(
        name="torchtitan",
        title="torchtitan",
        forward=forward,
        check=check,
        has_sdpa=lambda network: True,
        kernels=lambda network: (*support.KERNELS, "flex"),
        computes_loss=False,
        has_cache=False,
        default_wrap="torchtitan",
        buffers=buffers,
    ),
}
"""By the value of `training.implementation`."""
