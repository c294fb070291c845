"""How SGLang shares out room between recurrent states and tokens.

Source: sglang 0.5.17 to 0.5.23, srt/mem_cache/kv_cache_configurator.py (_handle_max_mamba_cache,
_calculate_mamba_ratio).
"""

from __future__ import annotations

from memcore.records import dataclass

_REQUESTS = 48
"""Requests at once where tokens are drafted and nobody says how many (`max_running_requests`)."""
_EACH = 3
"""Slots of a request whose prompt is kept; five with `--mamba-radix-cache-strategy extra_buffer`."""


@dataclass(frozen=True, slots=True)
class Division:
    """Bytes for tokens, slots of states, and the bytes of the states after each token that is checked."""

    rest: int
    slots: int
    checked: int = 0


def divide(
    room: int, state: int, *, ratio: float, given: int | None, requests: int | None, drafted: int, keeps: bool
) -> Division:
    """Share out room; a pool has one more slot than it says.

    `drafted`: tokens that are checked at once, 0 without drafts; `keeps`: finished prompts are kept.

    >>> divide(1000, 10, ratio=1.0, given=None, requests=None, drafted=0, keeps=True)
    Division(rest=500, slots=49, checked=0)
    >>> divide(1000, 10, ratio=1.0, given=20, requests=4, drafted=6, keeps=True)
    Division(rest=490, slots=20, checked=300)
    """
    each = _EACH if keeps else 1
    if given is None:
        budget = int(room * ratio / (1 + ratio))
        slots = max(int((budget - state * (1 + drafted)) / (state * (1 + drafted / each))), 0)
    else:
        slots = given
    checked = state * (min(requests or _REQUESTS, slots // each) + 1) * drafted
    return Division(room - checked - (slots + 1) * state, slots, checked)
