"""SGLang's pools of DeepSeek-V4: compressed tokens, a window that every layer has, and compressors' states.

Sources: sglang 0.5.11 to 0.5.23, srt/model_executor/pool_configurator.py (DSV4PoolConfigurator),
srt/mem_cache/deepseek_v4_memory_pool.py (get_compress_state_ring_size) and srt/arg_groups/deepseek_v4_hook.py.
All ranks of tensor parallelism hold the same. Logs state what is computed here: 32,781 bytes a token for
DeepSeek-V4-Pro in 0.5.13 at a ratio of 0.15, 13,735 in 0.5.15, and 7,705 for DeepSeek-V4-Flash in August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from memcore.memory.ledger import Entry
from memcore.records import dataclass
from memcore.serving.checkpoint import text_config
from memcore.serving.entries import tensor
from memcore.serving.job import ServingJob
from memcore.serving.stages import Stage
from memcore.symbols import round_up

FAMILY = "deepseek_v4"
SEQUENCES, WINDOW_RATIO = 256, 0.1
"""Requests at once, and tokens of the window pool for each of the others, if they are not given."""
PAGE = 256
"""Tokens of a page."""
_BY_REQUEST = (0, 5, 15)
"""The release that keeps states of layers which compress 128 tokens for requests, not for pages of the window."""
_PACKED, _STATE = 584, 4
"""Bytes of a vector in fp8 (448 in fp8, 64 in 16 bits, 8 of scales), and of a number of a state."""
_RINGS = {4: 8, 128: 128}
"""States that are kept by how many tokens become one; twice as many where tokens are proposed."""
_POOLS = "sglang, srt/model_executor/pool_configurator.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """What the layers of a stage keep."""

    page: int
    """Bytes of the compressed tokens of a page."""
    window: int
    """Of a token in the window pool."""
    states: int
    """Of the states of a page of the window pool."""
    window_page: int
    fixed: int
    """Bytes that requests have, however many tokens fit."""

    def each(self, ratio: float) -> Fraction:
        """Return bytes of a token with its part of the window pool."""
        return Fraction(self.page, PAGE) + Fraction(ratio) * (self.window + Fraction(self.states, self.window_page))

    def entries(self, tokens: int, ratio: float) -> Iterator[Entry]:
        """Yield the pools of this many tokens."""
        inside = int(tokens * ratio) // PAGE * PAGE
        sizes = {
            "pages": tokens // PAGE,
            "page": self.page,
            "tokens": inside,
            "cell": self.window,
            "windows": inside // self.window_page,
            "states": self.states,
        }
        for title, shape in (
            ("token pool", ("pages", "page")),
            ("window pool", ("tokens", "cell")),
            ("compressors' states", ("windows", "states")),
        ):
            yield tensor(title, "KV cache", shape, 1, sizes, _POOLS)
        if self.fixed:
            yield tensor("compressors' states of requests", "KV cache", ("fixed",), 1, {"fixed": self.fixed}, _POOLS)


def compressed(job: ServingJob, stage: Stage, number: tuple[int, ...], sequences: int) -> Compressed | None:
    """Pools of a stage; None for a model that does not compress its tokens."""
    text = text_config(job.basics.raw)
    ratios = text.get("compress_ratios")
    if job.basics.model.network.family != FAMILY or not isinstance(ratios, Sequence):
        return None
    own = [each for each in stage.part_of(ratios) if isinstance(each, int)]
    head, index = (text.get(key) or size for key, size in (("head_dim", 512), ("index_head_dim", 128)))
    window = text.get("sliding_window") or 128
    drafts = job.basics.speculation is not None
    four, many = own.count(4), own.count(128)
    rings = {ratio: ring * (1 + drafts) for ratio, ring in _RINGS.items()}
    # Two halves that overlap where four tokens become one; each state has its numbers and their scores.
    quick = rings[4] * 2 * 2 * (head + index) * _STATE * four
    slow = 2 * head * _STATE * many
    by_request = number >= _BY_REQUEST
    # A layer that drafts is counted like the others on average.
    layers = Fraction(len(own) + drafts, len(own))
    kept = round_up((sequences + 2) * rings[128] + 1, 128)
    return Compressed(
        page=int(layers * (PAGE // 4 * (_PACKED + index + 4) * four + PAGE // 128 * _PACKED * many)),
        window=int(layers * _PACKED * len(own)),
        states=int(layers * (quick + (0 if by_request else rings[128] * slow))),
        window_page=window,
        fixed=kept * slow if by_request else 0,
    )
