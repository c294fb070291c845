"""What mixes tokens in a layer of transformers: one function for each kind of mixer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.layers.tensor_parallel import prepared
from memcore.layers.transformers.alibi import attend_bloom, attend_mpt
from memcore.layers.transformers.attention import attend
from memcore.layers.transformers.chunked import attend_llama4
from memcore.layers.transformers.classic import attend_gpt_neo, attend_gptj
from memcore.layers.transformers.compressed import attend_compressed
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.falcon import attend_falcon
from memcore.layers.transformers.gated import attend_gated
from memcore.layers.transformers.griffin import attend_griffin
from memcore.layers.transformers.indexed import INDEXED, attend_indexed
from memcore.layers.transformers.latent import LATENT, attend_latent
from memcore.layers.transformers.packed import packed_attention
from memcore.layers.transformers.recurrent import RECURRENT
from memcore.layers.transformers.recurrent.zamba import attend_zamba2
from memcore.layers.transformers.sharing import attend_gemma
from memcore.layers.transformers.sinks import attend_gpt_oss, attend_mimo
from memcore.layers.transformers.vision_attention import attend_across, attend_llama4_vision
from memcore.networks.network import Layer
from memcore.networks.parts import Mixer
from memcore.tensors.tensor import Tensor

Mix = Callable[[Tensor, Weights, Any, Context, float], tuple[Tensor, Tensor | None]]
"""Hidden states, parameters, the part, the context and a dropout probability to hidden states, and to the scores that
eager attention returns and the layer holds until it ends."""

MIXERS: Mapping[str, Mix] = {
    "attention": attend,
    "bloom": attend_bloom,
    "falcon": attend_falcon,
    "gpt_neo": attend_gpt_neo,
    "gptj": attend_gptj,
    "mpt": attend_mpt,
    "crossing": attend_across,
    "derived": attend,
    "deepseek_v4": attend_compressed,
    "gated": attend_gated,
    "gemma": attend_gemma,
    "gpt_oss": attend_gpt_oss,
    "recurrent_gemma": attend_griffin,
    "llama4": attend_llama4,
    "llama4-vision": attend_llama4_vision,
    "mimo": attend_mimo,
    "packed": packed_attention,
    "zamba2": attend_zamba2,
    **dict.fromkeys(LATENT, attend_latent),
    **RECURRENT,
    **dict.fromkeys(INDEXED, attend_indexed),
}
"""By `mixer_kind`."""


def mixer_kind(part: Mixer) -> str:
    """A key of `MIXERS`."""
    return part.variant


def mix(
    hidden_states: Tensor, weights: Weights, layer: Layer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Run the layer's mixer."""
    if layer.mixer is None:
        raise TypeError(layer)
    return run_mixer(hidden_states, weights, layer.mixer, context, drop)


def run_mixer(
    hidden_states: Tensor, weights: Weights, part: Mixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Run one mixer; its scores live as long as its caller refers to them."""
    scores: list[Tensor | None] = [None]

    def run(hidden_states: Tensor) -> Tensor:
        mixed, found = MIXERS[mixer_kind(part)](prepared(hidden_states), weights, part, context, drop)
        if scores:  # a checkpoint that runs it again returns them to nobody
            scores[0] = found
        return mixed

    return hidden_states.tape.part(run, hidden_states), scores.pop()
