"""Megatron-Core's GPT model: embeddings, layers, head and loss.

Sources: Megatron-LM, core/models/gpt/{gpt_model,gpt_layer_specs}.py, core/transformer/{transformer_layer,
transformer_block}.py, and pretrain_gpt.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.layers.transformers.vision.buffers import tower_buffers
from memcore.messages import Message, joined
from memcore.networks.network import Network
from memcore.networks.parts import Attention, SpecialMixer
from memcore.tensors.basics import new
from memcore.tensors.tensor import Tensor
from memcore.trace.recipe import Buffer
from memcore.trace.step import Batch, Slot, Step
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.embedding import embedded
from memcore.trainers.megatron.layers.encoders import bert, t5
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.heads import head, plan
from memcore.trainers.megatron.layers.layer import RECURRENT, layer
from memcore.trainers.megatron.layers.offloading import Groups
from memcore.trainers.megatron.layers.prediction import predicted, split
from memcore.trainers.megatron.layers.towers import deepened, embedded_with_images, frequencies, rotates
from memcore.trainers.megatron.networks.parts import DEEP, ENCODER, GEMMA4, PREDICTION, RESIDUAL
from memcore.trainers.megatron.networks.towers import MULTIMODAL

_RESIDUALS = (RESIDUAL, PREDICTION, ENCODER, DEEP, GEMMA4)


def check(network: Network) -> None:
    """Refuse networks whose layers are not supported yet."""
    for one in network.kinds:
        missing = []
        if isinstance(one.mixer, SpecialMixer) and one.mixer.variant not in RECURRENT:
            missing += [Message("{!r} mixers", one.mixer.variant)]
        missing += [] if one.residual in _RESIDUALS else [Message("layers connected as {!r}", one.residual)]
        if missing:
            raise UnsupportedError(
                Training.implementation, "Megatron is not supported yet for {}", joined(" and ", missing)
            )


def buffers(network: Network) -> Sequence[Buffer]:
    """Return the angles of all positions, which the rotary module caches."""
    turned = next((one.mixer.heads.rotated for one in network.kinds if isinstance(one.mixer, Attention)), None)
    own = ("none", MULTIMODAL)
    turns = any(isinstance(one.mixer, Attention) and one.mixer.rotary not in own for one in network.kinds)
    found = list(tower_buffers(network))
    if turned is None or not turns:
        return found
    return [*found, Buffer(rule="rotary_frequencies", module="rotary_pos_emb", shape=("s", turned), dtype="fp32")]


def forward(step: Step, batch: Batch, *, local: bool) -> tuple[Tensor, Tensor | None]:
    """Return the loss of one micro-batch, or on an earlier stage its hidden states."""
    return _MODELS[step.recipe.network.embedding_and_head.start](step, batch, local=local)


def _gpt(step: Step, batch: Batch, *, local: bool) -> tuple[Tensor, Tensor | None]:
    how = plan(step)
    if how.offload is None:
        return _passed(step, batch, None, local=local)
    offloads = Groups(how.offload, [slot.layer for slot in step.slots], how)
    found, _ = _passed(step, batch, offloads, local=local)
    offloads.begin(found)
    return found, None


def _passed(step: Step, batch: Batch, offloads: Groups | None, *, local: bool) -> tuple[Tensor, Tensor | None]:
    embedding_and_head, tape, weights = step.recipe.network.embedding_and_head, step.tape, step.weights
    how = plan(step)
    rows = ("b", "s")
    loaded = [new(tape, rows, "fp32", "inputs"), new(tape, rows, "int64", "inputs")]
    mask = new(tape, ("b", 1, "s", "s"), "bool", "inputs") if how.masked else None
    around = LayerContext(how, step.recipe.attention, local, mask, offloads)
    x = step.enter("root", batch.tokens)
    seen: list[Tensor] = []
    if embedding_and_head.reads_tokens:
        x = step.enter("embedding", x)
        if how.images:
            x, seen = embedded_with_images(step, batch, how)
        else:
            x = embedded(x, loaded[1], embedding_and_head, weights, how)
        x = step.leave("embedding", x)
        step.embedded(x)
        if step.recipe.network.adapted and step.recipe.checkpoints is not None:
            x.requires_grad = True  # else nothing would run again (peft/recompute.py)

    given = [frequencies(step)] if rotates(step.recipe.network) else []
    slots, depths = split(step.slots)
    deep = [slot.unit for slot in slots if slot.layer.residual == DEEP] if seen else []

    def run(slot: Slot, x: Tensor, *given: Tensor) -> Tensor:
        x = layer(x, slot, around, None, *given[:1])
        if slot.unit not in deep:
            return x
        _, mask, *features = given
        return deepened(x, mask, features[deep.index(slot.unit)], how)

    x = step.layers(slots, run, x, *given, *seen)
    step.after_layers()
    if not embedding_and_head.predicts:
        return step.leave("root", x), None
    x = step.enter("head", x)
    if embedding_and_head.final_norm is not None:
        with tape.at("decoder"):
            x = norm(x, embedding_and_head.final_norm, weights)
    tokens = batch.tokens if embedding_and_head.reads_tokens else loaded[1]
    states = predicted(step, x, tokens, depths, run, how)
    return head(step, states, batch.labels, loaded[0], how)


_MODELS = {"megatron-gpt": _gpt, "megatron-hybrid": _gpt, "megatron-bert": bert, "megatron-t5": t5}
transformer_engine = partial(forward, local=False)
megatron_local = partial(forward, local=True)
