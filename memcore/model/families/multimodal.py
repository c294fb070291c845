"""Language models with a vision tower: which tower, and what leads from it into the decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from memcore.model.families.family import Composite
from memcore.model.families.towers import TOWERS, Tensors, affine, linear, tensor
from memcore.model.network import Tower
from memcore.model.reader import Reader

_PROJECTOR = "model.multi_modal_projector."
Projector = Callable[[Reader, Reader], Tensors]


def _tower(
    default: str, prefix: str, projector: Projector | None = None
) -> Callable[[Reader, Reader], tuple[Tower, ...]]:
    """A tower of the kind that the file names, and a projector."""

    def read(whole: Reader, text: Reader) -> tuple[Tower, ...]:
        vision = whole.sub("vision_config", default)
        named = vision.config.get("model_type")
        kind = named if named in TOWERS else default
        if named is not None and named not in TOWERS:
            vision.refuse("model_type", f"found {named!r}; known towers: {', '.join(TOWERS)}")
        found = TOWERS[str(kind)](vision, prefix)
        *before, last = found if isinstance(found, tuple) else (found,)
        return (*before, replace(last, ends=(*last.ends, *(projector(whole, vision) if projector else ()))))

    return read


def _taps(whole: Reader) -> int:
    """How many of the tower's layers the projector reads together."""
    return len(whole.listed("vision_feature_layer") or (0,))


def _llava(whole: Reader, vision: Reader) -> Tensors:
    bias = whole.flag("multimodal_projector_bias", default=True)
    return [
        *linear(f"{_PROJECTOR}linear_1", "h", (_taps(whole), "ht"), "projector", bias=bias),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector", bias=bias),
    ]


def _mistral3(whole: Reader, vision: Reader) -> Tensors:
    bias, merged = whole.flag("multimodal_projector_bias"), whole.integer("spatial_merge_size") ** 2
    return [
        *affine(f"{_PROJECTOR}norm", "ht", "projector", bias=False),
        *linear(f"{_PROJECTOR}patch_merger.merging_layer", "ht", (merged, "ht"), "projector", bias=False),
        *linear(f"{_PROJECTOR}linear_1", "h", (_taps(whole), "ht"), "projector", bias=bias),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector", bias=bias),
    ]


def _gemma3(whole: Reader, vision: Reader) -> Tensors:
    return [
        tensor(f"{_PROJECTOR}mm_input_projection_weight", "ht", "h", kind="projector"),
        tensor(f"{_PROJECTOR}mm_soft_emb_norm.weight", "ht", kind="projector"),
    ]


def _paligemma(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("ot", vision.integer("projection_dim", whole.integer("projection_dim", 2048)))
    return linear(f"{_PROJECTOR}linear", out, "ht", "projector")


def _internvl(whole: Reader, vision: Reader) -> Tensors:
    merged = int(1 / whole.number("downsample_ratio")) ** 2
    return [
        *affine(f"{_PROJECTOR}layer_norm", (merged, "ht"), "projector"),
        *linear(f"{_PROJECTOR}linear_1", "h", (merged, "ht"), "projector"),
        *linear(f"{_PROJECTOR}linear_2", "h", "h", "projector"),
    ]


def _llama4(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("vt", vision.integer("vision_output_dim"))
    return linear("multi_modal_projector.linear_1", "h", out, "projector", bias=False)


def _mllama(whole: Reader, vision: Reader) -> Tensors:
    out = vision.symbol("vt", vision.integer("vision_output_dim"))
    return linear("model.multi_modal_projector", "h", out, "projector")


def _no_towers(whole: Reader, text: Reader) -> tuple[Tower, ...]:
    return ()


_TOWER = "model.vision_tower."
_TEXT_ONLY = "only the language model is counted: the vision and audio towers of this family are not described"

COMPOSITES: Mapping[str, Composite] = {
    "llava": Composite(text="llama", towers=_tower("clip_vision_model", _TOWER, _llava)),
    "mistral3": Composite(text="mistral", towers=_tower("pixtral", _TOWER, _mistral3)),
    "gemma3": Composite(text="gemma3_text", towers=_tower("siglip_vision_model", _TOWER, _gemma3)),
    "paligemma": Composite(text="gemma", towers=_tower("siglip_vision_model", _TOWER, _paligemma)),
    "internvl": Composite(text="qwen2", towers=_tower("internvl_vision", _TOWER, _internvl)),
    "llama4": Composite(
        text="llama4_text",
        towers=_tower("llama4_vision_model", "vision_model.", _llama4),
        moved=("model.", "language_model.model."),
        head="language_model.lm_head",
    ),
    "mllama": Composite(text="mllama_text_model", towers=_tower("mllama_vision_model", "model.vision_model.", _mllama)),
    "qwen2_vl": Composite(text="qwen2_vl_text", towers=_tower("qwen2_vl_vision", "model.visual.")),
    "qwen2_5_vl": Composite(text="qwen2_5_vl_text", towers=_tower("qwen2_5_vl_vision", "model.visual.")),
    "qwen3_vl": Composite(text="qwen3_vl_text", towers=_tower("qwen3_vl_vision", "model.visual.")),
    "qwen3_5": Composite(text="qwen3_5_text", towers=_tower("qwen3_5_vision", "model.visual.")),
    "qwen3_5_moe": Composite(text="qwen3_5_moe_text", towers=_tower("qwen3_5_moe_vision", "model.visual.")),
    "gemma3n": Composite(text="gemma3n_text", towers=_no_towers, warning=_TEXT_ONLY),
    "gemma4": Composite(text="gemma4_text", towers=_no_towers, warning=_TEXT_ONLY),
    "qwen3_vl_moe": Composite(text="qwen3_vl_moe_text", towers=_tower("qwen3_vl_moe_vision", "model.visual.")),
}
"""Rows by `model_type`."""
