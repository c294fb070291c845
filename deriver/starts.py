"""Keys without which a type's configuration class describes no network that transformers can build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTS: Mapping[str, Mapping[str, Any]] = {
    "chameleon": {"vocabulary_map": {"<image>": 4}},
    "emu3": {"vocabulary_map": {"<image>": 4}},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "hunyuan_vl": {"text_config.head_dim": 128},
    "moonshine_streaming": {},
    "qwen4_exp_text": {"token_budget": 2048, "compress_ratio": 4},
    "granite4_vision": {"deepstack_layer_map": [[0, 0], [1, 1]]},
}
"""As keys with dots."""
