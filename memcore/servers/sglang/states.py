"""How SGLang shares out room between recurrent states and tokens.

Source: sglang 0.5.17 to 0.5.23, srt/mem_cache/kv_cache_configurator.py (_handle_max_mamba_cache,
_calculate_mamba_ratio).
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.records import dataclass

_EACH: Mapping[str, int] = {"no_buffer": 3, "extra_buffer": 5, "extra_buffer_lazy": 4}
"""Slots of a request whose prompt is kept, by `--mamba-radix-cache-strategy` (_calculate_mamba_ratio)."""
_BUFFERED, _BUFFERS = (0, 5, 17), frozenset((
    *("kimi_linear", "kimi_k3", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"),
    *("minicpmv4_6", "falcon_h1", "granitemoehybrid", "nemotron_h", "glm5_next"),
))  # fmt: skip
"""The first release whose choice was read, and the families that get an extra buffer where none is said: prefill and
decoding overlap unless that is disabled (0.5.18, srt/arg_groups/overrides.py, `_MAMBA_EXTRA_BUFFER_ARCHS`)."""


@dataclass(frozen=True, slots=True)
class Division:
    """Bytes for tokens, slots of states, and the bytes of the states after each token that is checked."""

    rest: int
    slots: int
    checked: int = 0


def slots_each(strategy: str, family: str, number: tuple[int, ...]) -> int:
    """Return the slots of a request whose prompt is kept.

    >>> slots_each("auto", "qwen3_5", (0, 5, 18)), slots_each("auto", "lfm2", (0, 5, 18))
    (5, 3)
    """
    buffers = number >= _BUFFERED and family in _BUFFERS
    return _EACH.get(strategy, _EACH["extra_buffer" if buffers else "no_buffer"])


def divide(
    room: int, state: int, *, ratio: float, given: int | None, requests: int | None, drafted: int, each: int
) -> Division:
    """Share out room; a pool has one more slot than it says.

    `drafted`: tokens that are checked at once, 0 without drafts; `each`: slots of a request.

    >>> divide(1000, 10, ratio=1.0, given=None, requests=None, drafted=0, each=3)
    Division(rest=500, slots=49, checked=0)
    >>> divide(1000, 10, ratio=1.0, given=20, requests=4, drafted=6, each=5)
    Division(rest=490, slots=20, checked=300)
    """
    if given is None:
        budget = int(room * ratio / (1 + ratio))
        slots = max(int((budget - state * (1 + drafted)) / (state * (1 + drafted / each))), 0)
    else:
        slots = given
    checked = state * (min(requests or slots, slots // each) + 1) * drafted
    return Division(room - checked - (slots + 1) * state, slots, checked)
