"""For which models SGLang has a pool of its own for layers with sliding windows; elsewhere these keep whole contexts.

Source: sglang 0.4.6, 0.4.9, 0.4.10, 0.5.6, 0.5.9, 0.5.12, 0.5.15, 0.5.18 and 0.5.23, srt/configs/model_config.py
(`is_hybrid_swa_model`), srt/model_executor/model_runner.py ("Check if the model is using hybrid SWA") and what sets
`disable_hybrid_swa_memory` in srt/server_args.py, then srt/arg_groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memcore.serving.cache import CacheSpec
from memcore.serving.job import Basics

_EVER = (10**3,)
_LISTED, _LATER, _LAST, _NEWER = ((since, _EVER) for since in ((0, 5, 9), (0, 5, 12), (0, 5, 15), (0, 5, 18)))
_POOLED: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    **dict.fromkeys(("gemma3", "gemma3_text", "gemma3n", "gemma3n_text"), ((0, 4, 10), (0, 5))),
    **dict.fromkeys(("llama4", "gpt_oss", "mimo_v2", "mimo_v2_flash", "step3p5"), _LISTED),
    **dict.fromkeys(("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"), _LATER),
    **dict.fromkeys(("deepseek_v4", "laguna"), _LATER),
    "step3p7": _LAST,
    **dict.fromkeys(("mellum", "muse_glimmer", "inkling", "inkling_mm"), _NEWER),
}
"""Types with such a pool, from and before which of the releases read; a log of 0.5.12 has one for gemma4_unified."""


def pooled(basics: Basics, parts: Sequence[CacheSpec], number: tuple[int, ...]) -> tuple[CacheSpec, ...]:
    """Return what layers cache, those with windows as long as others where they share one pool with these.

    Chunks of Llama 4 are windows of the pool (`attention_chunk_size`), which otherwise stay whole.
    """
    if _has_pool(str(basics.raw.get("model_type")), number):
        return tuple(replace(part, kind="sliding") if part.kind == "chunked" else part for part in parts)
    return tuple(replace(part, kind="full", window=0) if part.kind == "sliding" else part for part in parts)


def _has_pool(family: str, number: tuple[int, ...]) -> bool:
    since, before = _POOLED.get(family, (_EVER, _EVER))
    return since <= number < before
