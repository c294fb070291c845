"""Architecture families: how a Hugging Face `config.json` describes a network, one row for each `model_type`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.families.classics import CLASSICS
from memcore.networks.families.decoders import DECODERS
from memcore.networks.families.family import Family
from memcore.networks.families.hybrids import HYBRIDS
from memcore.networks.families.remote_rows import REMOTE
from memcore.networks.families.sparse import SPARSE
from memcore.networks.families.special import SPECIAL

FAMILIES: Mapping[str, Family] = {
    **DECODERS,
    **CLASSICS,
    **SPARSE,
    **HYBRIDS,
    **SPECIAL,
    **REMOTE,
    "qwen2_5_vl_text": DECODERS["qwen2_vl_text"],
    "ministral3": DECODERS["mistral"],
}
"""Language models."""

ALIASES: Mapping[str, str] = {
    "deepseek_ref": "deepseek_v4",
    "kimi_k2": "deepseek_v3",
}
"""Names under which checkpoints were published before transformers, or without it, for networks that have a row."""
