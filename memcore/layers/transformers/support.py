"""Which networks the code of this package covers: everything that its tables have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memcore.errors import UnsupportedError
from memcore.layers.transformers.decoder_layer import DECODER_LAYERS
from memcore.layers.transformers.ffns import FFNS, ffn_kind
from memcore.layers.transformers.heads import LAYOUTS
from memcore.layers.transformers.mixers import MIXERS, mixer_kind
from memcore.layers.transformers.norms import NORMS
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.messages import Message, joined
from memcore.networks.derived_model import EAGER, FRAMES, PYRAMIDS
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, Extra, Mixer, SpecialMixer
from memcore.networks.recognized import REPEATED, RESIDUAL

KERNELS = ("sdpa", "flash", "efficient", "cudnn", "math")
_WITHOUT_FLASH = ("sdpa", "efficient", "cudnn", "math")
_OFFERED = {
    "crossing": _WITHOUT_FLASH,
    "deepseek_v32": _WITHOUT_FLASH,
    "deepseek_v4": ("math",),
    "glm_moe_dsa": _WITHOUT_FLASH,
    "gpt_oss": ("flash", "math"),
    "llama4": _WITHOUT_FLASH,
    "mimo": ("math",),
}
"""Kernels by the variant of a mixer, where transformers does not offer all (`_supports_sdpa` and others)."""


def kernels(network: Network) -> tuple[str, ...]:
    """Return the attention kernels that transformers offers for a network."""
    if network.family in EAGER:
        return ("math",)
    limits = [_OFFERED[kind] for layer in network.kinds for kind in map(mixer_kind, layer.mixers) if kind in _OFFERED]
    return tuple(kernel for kernel in KERNELS if all(kernel in limit for limit in limits))


def check(network: Network) -> None:
    """Refuse networks with parts whose activations are not supported."""
    lacking = list(dict.fromkeys(part for layer in network.kinds for part in missing(layer)))
    if network.family in PYRAMIDS:
        lacking.append("layers of several widths")
    elif network.family in FRAMES:
        lacking.append("frames of several codes")
    if lacking:
        raise UnsupportedError(
            "model.model_type", "training {} is not supported yet: {}", network.family, joined(", ", lacking)
        )


def _recurs(mixer: Mixer) -> bool:
    """Whether a mixer loops over tokens or chunks, which each family does in its own way; a convolution does not."""
    return isinstance(mixer, SpecialMixer) and mixer.variant != "short-conv"


def missing(layer: Layer) -> Iterator[str]:
    """Parts of a layer whose activations are not supported."""
    if layer.residual == REPEATED:
        yield "one set of weights that runs as several layers"
    elif layer.residual not in DECODER_LAYERS:
        yield Message("layers connected as {!r}", layer.residual)
    if layer.residual == RESIDUAL and layer.extra is not None:
        yield from _missing_in_rest(layer.extra)
    if layer.residual == RESIDUAL and any(map(_recurs, layer.mixers)):
        yield "recurrent layers that memcore does not know"
    for mixer in layer.mixers:
        if mixer_kind(mixer) not in MIXERS:
            yield Message("mixer {!r}", mixer_kind(mixer))
        if isinstance(mixer, Attention):
            yield from _missing_in_attention(mixer)
    for part in layer.ffns:
        if ffn_kind(part) not in FFNS:
            yield Message("experts {!r}", ffn_kind(part))
    yield from (Message("norm {!r}", norm.kind) for norm in layer.norms if norm.kind not in NORMS)


_RECURRENT = re.compile(r"A_log|dt_bias|ssm|time_decay|[if]gate_preact")
"""Parameters of mixers that carry a state from token to token."""
_RELATIVE = re.compile(r"r_kernel|rel_attn\.r$")
"""Parameters of Transformer-XL's attention, whose scores of positions and segments are tensors of their own."""


def _missing_in_rest(rest: Extra) -> Iterator[str]:
    """Yield what the nearest parts do not stand for: states of every token, and experts that nobody counts."""
    if any(_RECURRENT.search(weight.name) for weight in rest.weights()):
        yield "recurrent layers that memcore does not know"
    if any(_RELATIVE.search(weight.name) for weight in rest.weights()):
        yield "attention with scores for positions and segments"
    if rest.width and not rest.routed and any(weight.kind == "routed-expert" for weight in rest.weights()):
        yield "experts without a key for the number per token"


def _missing_in_attention(part: Attention) -> Iterator[str]:
    norms = (norm for norm in (part.query_norm, part.key_norm, part.value_norm) if norm is not None)
    yield from (Message("norm {!r}", norm.kind) for norm in norms if norm.kind not in NORMS)
    if part.variant != "attention":
        return
    if part.rotary not in (*ROTATIONS, "none"):
        yield Message("rotation {!r}", part.rotary)
    special = {
        "sinks": part.sinks is not None,
        "gated outputs": part.gated,
        "shared caches": part.shares_cache,
        "cross attention": part.crosses,
        Message("fused matrices laid out {}", part.fused): part.fused not in ("no", *LAYOUTS),
        "values with a different width": part.heads.value != part.heads.width,
        "values that reuse the keys": len(part.inputs) == 2,
    }
    yield from (name for name, has in special.items() if has)
