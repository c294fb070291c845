"""What SGLang does otherwise for a model with a tower: a smaller fraction, room for pictures, graphs of prompts.

Source: sglang 0.5.15 to 0.5.23, srt/arg_groups/memory_hook.py (adjust_mem_fraction_for_vlm),
srt/configs/model_config.py (multimodal_breakable_cuda_graph_supported_model_archs) and
srt/mem_cache/kv_cache_configurator.py (mm_runtime_reservation_gb).
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.serving.job import Basics
from memcore.units import MiB

ASKED_OR_NOT, _LESS, _BY_SIZE = (0, 4, 9), (0, 4, 6), (0, 4, 10)
"""The first release read that leaves the fraction alone where it is given, the first that takes a tenth off it instead
of a twentieth, and the first that goes by the tower's size (before, srt/model_executor/model_runner.py)."""
_FIRST, _NEXT = 0.95, 0.90
_LAYERS, _WIDTH = 24, 1024
"""Of the tower that is the measure, and of any whose config has no key of these names: Qwen's has `depth`."""
_CLASSES: Mapping[str, tuple[int, int]] = {"kimi_k25": (27, 1152)}
"""Of SGLang's own class, where the config has keys of other names (srt/configs/kimi_k25.py)."""
_PICTURES = (0, 5, 18)
"""The first release that takes the cache of embedded pictures off the room for tokens."""
_CACHE = 100 * MiB
"""SGLANG_VLM_CACHE_SIZE_MB; pools for features on the GPU (`--mm-feature-transport`) are not usual on one node."""
_PROMPTS: Mapping[str, tuple[int, ...]] = {
    "qwen3_5": (0, 5, 17),
    "qwen3_5_moe": (0, 5, 17),
    "kimi_k25": (0, 5, 18),
    "kimi_k3": (0, 5, 18),
    "cohere2_vision": (0, 5, 19),
    "paddleocr_vl": (0, 5, 19),
    "minimax_m3_vl": (0, 5, 22),
}
"""Types of models with towers of which prompts are captured, and since which release."""


def has_tower(basics: Basics) -> bool:
    """Return whether the model is one with a tower."""
    return bool(basics.model.parameters_by_kind.get("tower"))


def captures_prompts(basics: Basics, number: tuple[int, ...]) -> bool:
    """Return whether a release captures graphs of prompts of a model, as far as its tower decides that."""
    since = _PROMPTS.get(str(basics.raw.get("model_type")))
    return not has_tower(basics) or (since is not None and number >= since)


def fraction_left(basics: Basics, number: tuple[int, ...]) -> float:
    """Return what a vision tower leaves of the static fraction, by the keys of its config that SGLang reads."""
    vision = basics.raw.get("vision_config")
    if not has_tower(basics) or not isinstance(vision, Mapping):
        return 1.0
    if number < _BY_SIZE:
        return _FIRST if number < _LESS else _NEXT
    usual = _CLASSES.get(str(basics.raw.get("model_type")), (_LAYERS, _WIDTH))
    layers, width = (
        value if isinstance(value := vision.get(key), int) else default
        for key, default in zip(("num_hidden_layers", "hidden_size"), usual, strict=True)
    )
    ratio = layers * width**2 / (_LAYERS * _WIDTH**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (ratio - 1.0)))


def kept_for_pictures(basics: Basics, number: tuple[int, ...]) -> int:
    """Return the bytes that are taken off the room for tokens and states."""
    return _CACHE if has_tower(basics) and number >= _PICTURES else 0
