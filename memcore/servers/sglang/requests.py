"""How many requests SGLang runs at once, and what it keeps for each next to the pool: where its tokens are.

One 32-bit number for every position of a context, for 2,048 to 4,096 requests where nobody says how many: 8.6 GiB of a
model that reaches a million tokens. Sources: sglang, srt/mem_cache/memory_pool.py (`ReqToTokenPool`) and
kv_cache_configurator.py (`resolve_max_num_reqs`), before 0.5.16 in srt/model_executor/model_runner.py and
model_runner_kv_cache_mixin.py; read in 0.4.6, 0.4.9, 0.4.10, 0.5.4, 0.5.9, 0.5.13 to 0.5.16, 0.5.19 and 0.5.23.
"""

from __future__ import annotations

from memcore.memory.ledger import Entry
from memcore.servers.sglang.compressed import FAMILY, SEQUENCES
from memcore.serving.entries import tensor
from memcore.serving.job import Basics, ServingJob
from memcore.serving.profile import WORKSPACES

DRAFTING = 48
"""Requests at once where tokens are drafted and nobody says how many (srt/arg_groups/speculative_hook.py)."""
_LEAST, _MOST, _CONTEXTS = 2048, 4096, 512
_HALF = (0, 5, 13)
"""The first release read with no more requests than half the pool's tokens, and one table for each group of ranks."""
_SPARE, WORD = 4, 4
"""Positions beyond a context, and bytes of a number."""


def asked(given: int | None, basics: Basics) -> int | None:
    """Return how many requests run at once, where somebody or SGLang itself says it."""
    if given is not None:
        return given
    if basics.model.network.family == FAMILY:
        return SEQUENCES
    return DRAFTING if basics.speculation is not None else None


def running(tokens: int, length: int, most: int | None, number: tuple[int, ...], slots: int | None) -> int:
    """Return requests that run at once: as many as are asked for, or as the pool has contexts.

    `slots`: requests that have room for recurrent states, None without states.

    >>> running(480_406, 163_840, None, (0, 4, 6), None), running(2_000_000, 131_072, None, (0, 5, 23), 31)
    (2048, 31)
    """
    found = most or min(max(tokens * _CONTEXTS // length, _LEAST), _MOST)
    if number >= _HALF:
        found = min(found, tokens // 2)
    return max(found if slots is None else min(found, slots), 1)


def places(job: ServingJob, requests: int, apart: int, number: tuple[int, ...]) -> Entry:
    """Return the table that says where requests' tokens are; `apart`: groups of ranks with requests of their own."""
    basics = job.basics
    drafts = basics.speculation.tokens + 1 if basics.speculation else 0
    rows = requests * (1 if number >= _HALF else apart) + 1
    sizes = {"rows": rows, "context": basics.max_model_len + _SPARE + drafts}
    source = "sglang, srt/mem_cache/memory_pool.py, ReqToTokenPool"
    return tensor("where requests' tokens are cached", WORKSPACES, ("rows", "context"), WORD, sizes, source)
