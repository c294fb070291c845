"""Language models with a vision tower: which tower, what leads from it into the decoder, and what an image becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memcore.limits import INTEGER
from memcore.messages import joined
from memcore.networks.families.family import Composite
from memcore.networks.families.moonvit import kimi_projector
from memcore.networks.families.stacks import Stack, Tensors, affine, linear, side_of, tensor
from memcore.networks.families.towers import TOWERS, reaching
from memcore.networks.images import Images
from memcore.networks.reader import Reader
from memcore.networks.rows import activation_of
from memcore.symbols import Shape
from memcore.units import shown

_PROJECTOR = "model.multi_modal_projector."
Projector = Callable[[Reader, Reader], Tensors]


def _towers(
    default: str, prefix: str, projector: Projector | None = None, *units: str
) -> Callable[[Reader, Reader], tuple[Stack, ...]]:
    """Return a tower of the kind that the file names, and a projector; `units` of it are sharded on their own."""

    def read(whole: Reader, text: Reader) -> tuple[Stack, ...]:
        vision = _vision(whole, default)
        kind = str(vision.config.get("model_type") or default)
        if kind not in TOWERS:
            vision.refuse("model_type", "found {!r}; known towers: {}", kind, joined(", ", TOWERS))
            kind = default
        *before, (tower, repeats) = TOWERS[kind](vision, prefix, _taps(whole))
        outer_weights = projector(whole, vision) if projector else []
        activation = activation_of(whole, "projector_hidden_act") if whole.has("projector_hidden_act") else None
        last = replace(
            tower,
            outer_weights=(*tower.outer_weights, *outer_weights),
            units=(*tower.units, *units),
            options=tower.options | _strategy(whole),
            activation=activation or tower.activation,
        )
        return (*before, (last, repeats))

    return read


def _vision(whole: Reader, default: str) -> Reader:
    return whole.sub("vision_config", default)


def _strategy(whole: Reader) -> frozenset[str]:
    """Return whether the class token goes on to the decoder."""
    return frozenset({"whole"} if whole.value("vision_feature_select_strategy") == "full" else ())


def _taps(whole: Reader) -> Sequence[int]:
    """The layers whose results the projector reads; a file counts the tower's input as the result of a layer before."""
    named = whole.listed("vision_feature_layer") or [whole.value("vision_feature_layer")]
    found = [-1 if each is None else each for each in named]
    if not all(isinstance(each, int) and each != 0 for each in found):
        whole.refuse("vision_feature_layer", "expected layer numbers, found {!r}", found)
        return (-1,)
    return [each - 1 if each > 0 else each for each in found if isinstance(each, int)]


def _tapped(whole: Reader) -> Shape:
    """Return the width of what the projector reads."""
    taps = len(_taps(whole))
    return ("ht",) if taps == 1 else (taps, "ht")


def _llava(whole: Reader, vision: Reader) -> Tensors:
    bias = whole.flag("multimodal_projector_bias", default=True)
    return [
        *linear(f"{_PROJECTOR}linear_1", "h", _tapped(whole), "projector", bias=bias),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector", bias=bias),
    ]


def _llava_next(whole: Reader, vision: Reader) -> Tensors:
    return [tensor("model.image_newline", "h", kind="projector"), *_llava(whole, vision)]


def _mistral3(whole: Reader, vision: Reader) -> Tensors:
    bias, merged = whole.flag("multimodal_projector_bias"), whole.integer("spatial_merge_size") ** 2
    vision.symbol("mt", merged * vision.sizes["ht"])
    return [
        *affine(f"{_PROJECTOR}norm", "ht", "projector", bias=False),
        *linear(f"{_PROJECTOR}patch_merger.merging_layer", "ht", "mt", "projector", bias=False),
        *linear(f"{_PROJECTOR}linear_1", "h", _tapped(whole), "projector", bias=bias),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector", bias=bias),
    ]


def _gemma3(whole: Reader, vision: Reader) -> Tensors:
    return [
        replace(tensor(f"{_PROJECTOR}mm_input_projection_weight", "ht", "h", kind="projector"), transposed=True),
        tensor(f"{_PROJECTOR}mm_soft_emb_norm.weight", "ht", kind="projector"),
    ]


def _paligemma(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("ot", whole.integer("projection_dim", 2048))
    return linear(f"{_PROJECTOR}linear", out, "ht", "projector")


def _internvl(whole: Reader, vision: Reader) -> Tensors:
    vision.symbol("mt", _shrunk(whole) ** 2 * vision.sizes["ht"])
    return [
        *affine(f"{_PROJECTOR}layer_norm", "mt", "projector"),
        *linear(f"{_PROJECTOR}linear_1", "h", "mt", "projector"),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector"),
    ]


def _phi3(whole: Reader, vision: Reader) -> Tensors:
    """Four patches side by side become one (`image_embedding_phi3_v.py`)."""
    vision.symbol("mt", 4 * vision.sizes["ht"])
    p = "model.vision_embed_tokens."
    return [
        tensor(f"{p}glb_GN", 1, 1, "mt", kind="projector"),
        tensor(f"{p}sub_GN", 1, 1, 1, "mt", kind="projector"),
        *linear(f"{p}img_projection.0", "h", "mt", "projector"),
        *linear(f"{p}img_projection.2", "h", "h", "projector"),
    ]


def _resampler(whole: Reader, vision: Reader) -> Tensors:
    """Learned queries attend to patches (`resampler.py` of openbmb/MiniCPM-V-2_6)."""
    queries, p = vision.symbol("mt", whole.integer("query_num", 64)), "resampler."
    return [
        tensor(f"{p}query", queries, "h", kind="projector"),
        *linear(f"{p}kv_proj", "h", "ht", "projector", bias=False),
        tensor(f"{p}attn.in_proj_weight", (3, "h"), "h", kind="projector"),
        tensor(f"{p}attn.in_proj_bias", (3, "h"), kind="projector"),
        *linear(f"{p}attn.out_proj", "h", "h", "projector"),
        *(each for name in ("ln_q", "ln_kv", "ln_post") for each in affine(f"{p}{name}", "h", "projector")),
        tensor(f"{p}proj", "h", "h", kind="projector"),
    ]


def _locating(whole: Reader, vision: Reader) -> Tensors:
    """A norm over four patches side by side, and matrices (nvidia/LocateAnything-3B, `modeling_locateanything.py`)."""
    vision.symbol("mt", 4 * vision.sizes["ht"])
    return [
        *affine("mlp1.0", "mt", "projector"),
        *linear("mlp1.1", "h", "mt", "projector"),
        *linear("mlp1.3", "h", "h", "projector"),
    ]


def _shrunk(reader: Reader, name: str = "downsample_ratio") -> int:
    """Return how many patches along one side become one."""
    ratio = reader.number(name)
    if not 1 / INTEGER <= ratio <= 1:
        reader.refuse(name, "expected a number above 0 and up to 1, found {:g}", ratio)
        return 1
    return int(1 / ratio)


def _llama4(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("vt", vision.integer("vision_output_dim"))
    return linear("multi_modal_projector.linear_1", "h", out, "projector", bias=False)


def _mllama(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("vt", vision.integer("vision_output_dim"))
    return linear("model.multi_modal_projector", "h", out, "projector")


def _one_size(whole: Reader, text: Reader) -> Images:
    """LLaVA's and PaliGemma's images are resized; LLaVA's Pixtral takes any up to its largest."""
    vision = _vision(whole, "siglip_vision_model" if whole.has("projection_dim") else "clip_vision_model")
    side, patch = side_of(vision)
    if vision.config.get("model_type") == "pixtral":
        return Images(side=side, patch=patch, resizes="up")
    return Images(side=side, patch=patch, extra=int("whole" in _strategy(whole)))


def _gemma3_images(whole: Reader, text: Reader) -> Images:
    side, patch = side_of(_vision(whole, "siglip_vision_model"))
    return Images(side=side, patch=patch, tokens=whole.integer("mm_tokens_per_image"))


def _llava_next_images(whole: Reader, text: Reader) -> Images:
    """An image is cut into as many tiles as the largest of the allowed shapes has."""
    side, patch = side_of(_vision(whole, "clip_vision_model"))
    tiles: list[int] = []
    for each in whole.listed("image_grid_pinpoints") or ():
        given = each if isinstance(each, list) else []
        sizes = [size for size in given if type(size) is int and size > 0]
        if not sizes or len(sizes) != len(given):
            whole.refuse("image_grid_pinpoints", "expected a list of heights and widths, found {}", shown(each))
            return Images(side=side, patch=patch, resizes="to tiles", most=1)
        tiles.append(max(sizes) // side)
    return Images(side=side, patch=patch, resizes="to tiles", most=max(min(tiles, default=2), 1))


def _kimi_images(whole: Reader, text: Reader) -> Images:
    """At most 4096 patches (`in_token_limit` of the processor), of which four become a token."""
    patch = _vision(whole, "moonvit").integer("patch_size")
    return Images(side=64 * patch, patch=patch, merge=2, resizes="up")


def _mistral3_images(whole: Reader, text: Reader) -> Images:
    side, patch = side_of(_vision(whole, "pixtral"))
    return Images(side=side, patch=patch, merge=whole.integer("spatial_merge_size"), resizes="up")


def _internvl_images(whole: Reader, text: Reader) -> Images:
    side, patch = side_of(_vision(whole, "internvl_vision"))
    return Images(side=side, patch=patch, merge=_shrunk(whole), resizes="to tiles", most=3)


def _llama4_images(whole: Reader, text: Reader) -> Images:
    vision = _vision(whole, "llama4_vision_model")
    side, patch = side_of(vision)
    return Images(side=side, patch=patch, merge=_shrunk(vision, "pixel_shuffle_ratio"), resizes="to tiles", most=4)


def _mllama_images(whole: Reader, text: Reader) -> Images:
    """All tiles of an image are computed, also those that it does not fill; the text has one token for it."""
    side, patch = side_of(_vision(whole, "mllama_vision_model"))
    return Images(side=side, patch=patch, tokens=1)


_WINDOWED = ("qwen2_5_vl_vision",)
"""Towers with attention in windows (`get_window_index`)."""


def _qwen_images(default: str) -> Callable[[Reader, Reader], Images]:
    def read(whole: Reader, text: Reader) -> Images:
        vision = _vision(whole, default)
        patch, merge = vision.integer("patch_size"), vision.integer("spatial_merge_size")
        window = vision.integer("window_size") if default in _WINDOWED else 0
        if default in _WINDOWED and window < patch * merge:
            vision.refuse(
                "window_size", "found {}; expected at least {} pixels, the size of one token", window, patch * merge
            )
        return Images(side=1024, patch=patch, merge=merge, resizes="near", window=window // patch)

    return read


def _no_towers(whole: Reader, text: Reader) -> tuple[Stack, ...]:
    return ()


_TOWER = "model.vision_tower."
_TEXT_ONLY = "only the language model is counted: this family's vision and audio towers are not supported yet"


def _qwen(kind: str) -> Composite:
    vision = f"{kind}_vision"

    def early(whole: Reader) -> int:
        return reaching(_vision(whole, vision))

    return Composite(
        text=f"{kind}_text",
        towers=_towers(vision, "model.visual."),
        images=_qwen_images(vision),
        early=early,
        tied_by="either" if kind in ("qwen2_vl", "qwen2_5_vl") else "whole",
    )


COMPOSITES: Mapping[str, Composite] = {
    "llava": Composite(
        text="llama", towers=_towers("clip_vision_model", _TOWER, _llava), images=_one_size, tied_by="either"
    ),
    "llava_next": Composite(
        text="llama", towers=_towers("clip_vision_model", _TOWER, _llava_next), images=_llava_next_images
    ),
    "kimi_vl": Composite(
        text="deepseek_v3",
        towers=_towers("moonvit", "vision_tower.", kimi_projector),
        images=_kimi_images,
        moved=("model.", "language_model.model."),
        head="language_model.lm_head",
    ),
    "locateanything": Composite(
        text="qwen2",
        towers=_towers("moonvit", "vision_model.", _locating),
        images=_kimi_images,
        moved=("model.", "language_model.model."),
        head="language_model.lm_head",
        tied_by="text",
    ),
    "phi3_v": Composite(
        text="phi3",
        towers=_towers("clip_vision_model", "model.vision_embed_tokens.img_processor.vision_model.", _phi3),
        moved=("model.", "model."),
        tied_by="either",
    ),
    "minicpmv": Composite(
        text="qwen2",
        towers=_towers("siglip_vision_model", "vpm.", _resampler),
        moved=("model.", "llm.model."),
        head="llm.lm_head",
        tied_by="either",
    ),
    "mistral3": Composite(text="mistral", towers=_towers("pixtral", _TOWER, _mistral3), images=_mistral3_images),
    "gemma3": Composite(
        text="gemma3_text", towers=_towers("siglip_vision_model", _TOWER, _gemma3), images=_gemma3_images
    ),
    "paligemma": Composite(
        text="gemma",
        towers=_towers("siglip_vision_model", _TOWER, _paligemma, "model.multi_modal_projector"),
        images=_one_size,
    ),
    "internvl": Composite(text="qwen2", towers=_towers("internvl_vision", _TOWER, _internvl), images=_internvl_images),
    "llama4": Composite(
        text="llama4_text",
        towers=_towers("llama4_vision_model", "vision_model.", _llama4),
        images=_llama4_images,
        tied_by="text",
        moved=("model.", "language_model.model."),
        head="language_model.lm_head",
    ),
    "mllama": Composite(
        text="mllama_text_model",
        towers=_towers("mllama_vision_model", "model.vision_model.", _mllama),
        images=_mllama_images,
    ),
    **{kind: _qwen(kind) for kind in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl_moe")},
    "gemma3n": Composite(text="gemma3n_text", towers=_no_towers, warning=_TEXT_ONLY),
    "gemma4": Composite(text="gemma4_text", towers=_no_towers),
}
"""Rows by `model_type`."""
