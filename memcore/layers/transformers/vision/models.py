"""Models with images by family: what they are given, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from memcore.layers.transformers.masks import mask_of
from memcore.layers.transformers.vision import gemma, llama4, mllama, nearest, qwen
from memcore.layers.transformers.vision.decoder_inputs import DecoderInputs, Embed
from memcore.layers.transformers.vision.internvl import internvl
from memcore.layers.transformers.vision.llava import llava
from memcore.layers.transformers.vision.mistral3 import mistral3
from memcore.layers.transformers.vision.towers import TOWERS
from memcore.networks.network import Network
from memcore.symbols import Shape
from memcore.tensors.basics import new
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

SEES: Mapping[str, Callable[[Step, Batch, Embed], DecoderInputs]] = {
    "gemma3": gemma.gemma3,
    "internvl": internvl,
    "llama4": llama4.llama4,
    "llava": llava,
    "mistral3": mistral3,
    "mllama": mllama.mllama,
    "paligemma": gemma.paligemma,
    "qwen2_vl": qwen.qwen2_vl,
    "qwen2_5_vl": qwen.qwen2_vl,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), qwen.qwen3_vl),
}
"""By `Network.family`."""
_TOWERS_OF: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("gemma3", "paligemma"), ("siglip",)),
    "llava": TOWERS,
    "mistral3": ("pixtral",),
}
"""Towers, as `Tower.variant`, where a family has others than that of its name."""
_MASKS_OF: Mapping[str, Collection[str]] = {"gemma3": ("full", "sliding"), "paligemma": ("full",)}
"""Kinds of masks that are made around images, where a family makes its own: PaliGemma 2 has layers with windows too."""
_QWENS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


def sees(network: Network) -> bool:
    """Return whether the network's handling of images is supported, with the tower that it has."""
    own = _QWENS if network.family.startswith("qwen") else (network.family,)
    masks = {mask_of(layer) for layer in network.kinds}
    made = bool(network.towers) and masks <= set(_MASKS_OF.get(network.family, masks))
    return made and network.family in SEES and network.towers[0].variant in _TOWERS_OF.get(network.family, own)


def see(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """Embed tokens, and put what the towers see of images among them."""
    family = step.recipe.network.family
    if (not step.recipe.pictures and family not in _AROUND) or not sees(step.recipe.network):
        return DecoderInputs(embed())
    return SEES[family](step, batch, embed)


def given(step: Step) -> Mapping[str, Tensor]:
    """Return what transformers' models are given of images, whether their towers are written line by line or not."""
    return inputs(step) if sees(step.recipe.network) else nearest.inputs(step)


def inputs(step: Step) -> Mapping[str, Tensor]:
    """Return what the processor makes of images: pixels in fp32, and what else a family wants to know."""
    tape, network = step.tape, step.recipe.network
    patches = "qwen" in network.towers[0].variant
    shape: Shape = ("nq", "ct", "tt", "pt", "pt") if patches else ("bt", "ct", "px", "px")
    dtype = step.recipe.precision.parameter if network.family in _CAST else "fp32"
    found = {"pixel_values": new(tape, shape, dtype, "pixels")}
    sized = network.towers[0].variant == "pixtral"
    for name, each in _FURTHER.get("qwen" if patches else "pixtral" if sized else network.family, {}).items():
        found[name] = new(tape, each, "int64", "inputs")
    return found


_AROUND = frozenset({"llama4"})
"""Families that embed tokens outside the model of text."""
_CAST = frozenset({"llama4"})
"""Families that do not cast pixels themselves, so that the trainer has to."""
_TOKENS: Shape = ("b", "s")
_FURTHER: Mapping[str, Mapping[str, Shape]] = {
    "qwen": {"image_grid_thw": ("bt", 3), "mm_token_type_ids": _TOKENS},
    "gemma3": {"token_type_ids": _TOKENS},
    "pixtral": {"image_sizes": ("bt", 2)},
    "mllama": {
        "aspect_ratio_ids": ("bi", 1),
        "aspect_ratio_mask": ("bi", "zt"),
        "cross_attention_mask": ("b", "s", "ni", "zt"),
    },
    "paligemma": {"token_type_ids": _TOKENS},
}
"""Integers by family, or tower."""
