"""Towers of which a model's description has the weights alone: what their largest image needs, from their code.

dots.ocr's rotates queries and keys together in fp32, and the joint tensor, contiguous copies and the stacked ones live
until attention has returned: 3.4 GiB with the largest image. A start of 0.9.1 has 0.05 GiB more, one of 0.12 1.1 GiB.

Gemma 4's are shown videos, an item of which has more tokens than an image: 32 frames of 70 tokens, each of nine patches
of 16 pixels along a side, for every 2,496 tokens of a step. Before 0.22 frames run one by one, since then together; its
model without towers projects the same pixels.

DeepSeek-OCR's encodes one image after the other, four crops of 640 pixels and the whole of 1,024 pixels, whose first
layers add positions to the scores of all pairs of patches.

Sources: vllm, model_executor/models/dots_ocr.py (DotsVisionAttention.forward, DotsVisionBlock.forward) and qwen2_vl.py
(apply_rotary_pos_emb_vision); preprocessor_config.json of rednote-hilab/dots.ocr; gemma4_mm.py of 0.19, 0.22, 0.24 and
0.26 (_VIDEO_MAX_FRAMES, _VIDEO_MAX_SOFT_TOKENS, _process_video_input, _encoder_chunk); transformers, models/gemma4
(Gemma4VisionMLP); deepseek_ocr.py and deepencoder.py of 0.26 (get_num_image_tokens, add_decomposed_rel_pos).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from memcore.memory.ledger import Entry
from memcore.networks.families.counted import clips
from memcore.records import dataclass
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.profile import ACTIVATIONS
from memcore.symbols import Quotient, Shape

_SOURCE = "vllm, model_executor/models/dots_ocr.py"


@dataclass(frozen=True, slots=True)
class Tower:
    """Patches of the largest image, and how wide they are."""

    pixels: int
    """Of the largest image (`max_pixels`)."""
    patch: int
    merge: int
    """Patches along one side of a token."""
    width: int
    """The tower's, where its description does not say (`embed_dim`)."""


TOWERS: Mapping[str, Tower] = {"dots_ocr": Tower(11_289_600, 14, 2, 1536)}
"""By `model_type`."""
_FILMED = frozenset({"gemma4", "gemma4_unified"})
_FRAMES, _TOKENS, _POOLED, _PIXELS = 32, 70, 9, 768
"""Frames of a video, tokens of a frame, patches of a token, and numbers of a patch."""
_ITEM = _FRAMES * (_TOKENS + 8)
"""Tokens of a video, with those around each frame."""
_PLACES = 10_240
"""Positions along a side of an image that the tower has (`position_embedding_size`)."""
_GEMMA = "vllm, model_executor/models/gemma4_mm.py"
_CROP, _CROPS, _PAGE, _READ = 640, 4, 1024, 16 * 17 + 20 * 21 + 1
"""Pixels along a side of DeepSeek-OCR's crops, how many there are, pixels of the whole image, and tokens of all."""
_OCR = "vllm, model_executor/models/deepseek_ocr.py and deepencoder.py"


def known(raw: Mapping[str, object]) -> bool:
    """Return whether it is known what such a tower needs."""
    return raw.get("model_type") in TOWERS or _films(raw) or clips(raw)


def _films(raw: Mapping[str, object]) -> bool:
    return raw.get("model_type") in _FILMED and isinstance(raw.get("vision_config"), Mapping)


def _frames(raw: Mapping[str, object], budget: int) -> Mapping[str, int]:
    vision = raw.get("vision_config")
    names = {"ht": "hidden_size", "ft": "intermediate_size", "places": "position_embedding_size"}
    found = {name: vision.get(key) for name, key in names.items()} if isinstance(vision, Mapping) else {}
    widths = {name: size for name, size in found.items() if isinstance(size, int) and size > 0}
    frames = {
        "places": _PLACES,
        "frames": _FRAMES * max(budget // _ITEM, 1),
        "tokens": _TOKENS,
        "np": _TOKENS * _POOLED,
        "px": _PIXELS,
    }
    return {**frames, **widths}


def kept(raw: Mapping[str, object], hidden: int, dtype: str, budget: int) -> list[Entry]:
    """Pixels of all frames and what the tower makes of them, until profiling ends; `hidden`: the decoder's width."""
    if clips(raw):
        read = {"images": max(budget // _READ, 1), "nm": _READ, "h": hidden}
        sizes = {**read, "crops": _CROPS, "px": _CROP, "whole": _PAGE}
        return [
            tensor("pixels", ACTIVATIONS, ("images", "crops", 3, "px", "px"), BYTES[dtype], sizes, _OCR),
            tensor("pixels of whole images", ACTIVATIONS, ("images", 3, "whole", "whole"), BYTES[dtype], sizes, _OCR),
            tensor("image tokens", ACTIVATIONS, ("images", "nm", "h"), BYTES[dtype], sizes, _OCR),
        ]
    if not _films(raw):
        return []
    sizes, size = {**_frames(raw, budget), "h": hidden}, BYTES[dtype]
    return [
        tensor("pixels", ACTIVATIONS, ("frames", "np", "px"), size, sizes, _GEMMA),
        tensor("image tokens", ACTIVATIONS, ("frames", "tokens", "h"), size, sizes, _GEMMA),
    ]


def filming(raw: Mapping[str, object], dtype: str, budget: int, capacity: int | None) -> list[Entry]:
    """Return the feed-forward layer of a tower that encodes many frames together; no rank shares it with another.

    As many as have room for one-hot positions in a tenth of the GPU, four times the int64 of each patch and position,
    though none are made. The results of other frames are kept meanwhile.
    """
    if not _films(raw):
        return []
    found, size = _frames(raw, budget), BYTES[dtype]
    if not found.keys() >= {"ht", "ft"}:
        return []
    cost = 4 * 8 * found["np"] * found["places"]
    sizes = {**found, "chunk": min(found["frames"], max((capacity or 0) // 10 // cost, 1))}
    patches: Shape = ("frames", "np")
    return [
        tensor("pixels", ACTIVATIONS, (*patches, "px"), size, sizes, _GEMMA),
        tensor("encoded frames", ACTIVATIONS, (*patches, "ht"), size, sizes, _GEMMA),
        tensor("hidden states of the tower", ACTIVATIONS, ("chunk", "np", "ht"), size, sizes, _GEMMA, copies=3),
        tensor("feed-forward of the tower", ACTIVATIONS, ("chunk", "np", "ft"), size, sizes, _GEMMA, copies=3),
    ]


def encoding(raw: Mapping[str, object], dtype: str, budget: int, ranks: int) -> list[Entry]:
    """Return the widest moment of such a tower, in attention; nothing for others."""
    tower = TOWERS.get(str(raw.get("model_type")))
    if clips(raw):
        sizes = {"np": (_PAGE // 16) ** 2, "at": 12}
        title = "relative positions that the tower adds to scores"
        return [*kept(raw, 1, dtype, budget), tensor(title, ACTIVATIONS, ("at", "np", "np"), BYTES[dtype], sizes, _OCR)]
    if tower is None:
        return []
    vision = raw.get("vision_config")
    width = vision.get("embed_dim") if isinstance(vision, Mapping) else None
    side = isqrt(tower.pixels) // (tower.patch * tower.merge) * tower.merge
    images = max(budget // (side // tower.merge) ** 2, 1)
    known = width if isinstance(width, int) and width > 0 else tower.width
    sizes = {"images": images, "np": side * side, "px": tower.patch, "ht": known, "TP": ranks}
    size = BYTES[dtype]
    patches: Shape = ("images", "np")
    own: Shape = (*patches, Quotient(("ht",), "TP"))
    return [
        tensor("pixels", ACTIVATIONS, (*patches, 3, "px", "px"), size, sizes, _SOURCE),
        tensor("hidden states of the tower", ACTIVATIONS, (*patches, "ht"), size, sizes, _SOURCE, copies=2),
        tensor("queries, keys and values of the tower", ACTIVATIONS, own, size, sizes, _SOURCE, copies=6),
        tensor("stacked and rotated queries and keys", ACTIVATIONS, own, size, sizes, _SOURCE, copies=4),
        tensor("the same in fp32, before and after rotation", ACTIVATIONS, own, 4, sizes, _SOURCE, copies=4),
    ]
