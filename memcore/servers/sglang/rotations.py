"""Which tables of cosines and sines SGLang's own Gemma 3 has.

Source: sglang 0.4.6, 0.4.9, 0.4.10, 0.5.6, 0.5.9, 0.5.12 and 0.5.23, srt/models/gemma3_causal.py:
`Gemma3RotaryEmbedding` computes them in each step; the attention of later releases has `get_rope`, too, without the
scaling of the config.
"""

from __future__ import annotations

from collections.abc import Iterable

from memcore.memory.ledger import Entry
from memcore.serving.job import Basics

_GEMMA, _SINCE = "gemma3", (0, 5, 12)
"""The first release read that has tables."""


def stretches(basics: Basics) -> bool:
    """Return whether scaled positions make tables longer."""
    return not basics.model.network.family.startswith(_GEMMA)


def turned(basics: Basics, weights: Iterable[Entry], number: tuple[int, ...]) -> list[Entry]:
    """Return weights without tables that a release does not have."""
    if stretches(basics) or number >= _SINCE:
        return list(weights)
    return [each for each in weights if not str(each.module).startswith("rotary_emb")]
