"""What SGLang refuses of long sequences when it starts, in its own words.

Source: sglang, srt/configs/model_config.py (`_derive_context_length`; before 0.5.1 in `ModelConfig.__init__`) and
srt/utils/hf_transformers_utils.py (`get_context_length`), read in the wheels of 0.3.2 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.messages import Message

_LENGTHS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
"""Keys of a config.json of which the first that is there is the model's longest sequence."""
_CHECKED, _ALLOWED, _AGAIN = (0, 3, 5), (0, 4, 4), (0, 5, 1)
"""Releases since which a longer sequence is refused, allowed where nobody says otherwise, and refused again."""


def too_long(config: Mapping[str, Any], length: int, version: tuple[int, ...] | None = None) -> Message | None:
    """Return what SGLang says of a longer sequence than its model's own, which ends it; None for one that it takes."""
    if version is not None and (version < _CHECKED or _ALLOWED <= version < _AGAIN):
        return None
    said = next((config[name] for name in _LENGTHS if isinstance(config.get(name), int)), None)
    if said is None:
        return None
    most = int(said * _factor(config.get("rope_scaling")))
    if length <= most:
        return None
    return Message(
        'SGLang refuses: "User-specified context_length ({}) is greater than the derived context_length ({})"; it '
        "starts with context_length {}, or with SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        length,
        most,
        most,
    )


def _factor(rope: object) -> float:
    """How far scaled rotary positions reach; what names its original length says the scaled one already."""
    if not isinstance(rope, Mapping) or "original_max_position_embeddings" in rope or rope.get("rope_type") == "llama3":
        return 1.0
    return float(rope.get("factor") or 1)
