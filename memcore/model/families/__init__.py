"""Architecture families: how a Hugging Face `config.json` describes a network, one row for each `model_type`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.model.families.classics import CLASSICS
from memcore.model.families.decoders import DECODERS
from memcore.model.families.family import Composite, Family
from memcore.model.families.hybrids import HYBRIDS
from memcore.model.families.multimodal import COMPOSITES
from memcore.model.families.sparse import SPARSE
from memcore.model.families.special import SPECIAL

FAMILIES: Mapping[str, Family] = {
    **DECODERS,
    **CLASSICS,
    **SPARSE,
    **HYBRIDS,
    **SPECIAL,
    "qwen2_5_vl_text": DECODERS["qwen2_vl_text"],
}
"""Language models."""

__all__ = ["COMPOSITES", "FAMILIES", "Composite", "Family"]
