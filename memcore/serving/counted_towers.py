"""Towers of which a model's description has the weights alone: what their largest image needs, from their code.

dots.ocr's rotates queries and keys together in fp32, and the joint tensor, contiguous copies and the stacked ones live
until attention has returned: 3.4 GiB with the largest image. A start of 0.9.1 has 0.05 GiB more, one of 0.12 1.1 GiB.

Sources: vllm, model_executor/models/dots_ocr.py (DotsVisionAttention.forward, DotsVisionBlock.forward) and qwen2_vl.py
(apply_rotary_pos_emb_vision); preprocessor_config.json of rednote-hilab/dots.ocr.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from memcore.memory.ledger import Entry
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


def encoding(raw: Mapping[str, object], dtype: str, budget: int, ranks: int) -> list[Entry]:
    """The widest moment of such a tower, in attention; nothing for others."""
    tower = TOWERS.get(str(raw.get("model_type")))
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
