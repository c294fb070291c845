"""What SGLang keeps for each request that may run, next to the pool: where its tokens are, and the tables of graphs.

One 32-bit number for every position of a context, for 2,048 to 4,096 requests where nobody says how many: 8.6 GiB of a
model that reaches a million tokens. Sources: sglang, srt/mem_cache/memory_pool.py (`ReqToTokenPool`) and
kv_cache_configurator.py (`resolve_max_num_reqs`), before 0.5.16 in srt/model_executor/model_runner.py and
model_runner_kv_cache_mixin.py; srt/layers/attention/*_backend.py (`init_cuda_graph_state`); read in 0.4.6, 0.4.9,
0.4.10, 0.5.4, 0.5.9, 0.5.13 to 0.5.16, 0.5.19 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.memory.ledger import Entry
from memcore.networks.parts import Attention, LatentAttention
from memcore.records import dataclass
from memcore.servers.sglang.compressed import FAMILY, SEQUENCES
from memcore.servers.sglang.splits import HOPPER
from memcore.serving.entries import tensor
from memcore.serving.job import Basics, ServingJob
from memcore.serving.profile import WORKSPACES
from memcore.serving.stages import Stage
from memcore.symbols import product

DRAFTING = 48
"""Requests at once where tokens are drafted and nobody says how many (srt/arg_groups/speculative_hook.py)."""
_LEAST, _MOST, _CONTEXTS = 2048, 4096, 512
_HALF = (0, 5, 13)
"""The first release read with no more requests than half the pool's tokens, and one table for each group of ranks."""
_SPARE, _WORD = 4, 4
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
    return tensor("where requests' tokens are cached", WORKSPACES, ("rows", "context"), _WORD, sizes, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Bytes for each position of a captured request's context."""

    entry: int
    mask: int = 0
    """For each token that is checked."""
    checked: bool = False
    """Each token that is checked has numbers of its own."""
    paged: bool = False
    """There is a number for each page."""


_TABLES: Mapping[str, _Table] = {
    "flash-attention": _Table(entry=4, paged=True),
    "flashinfer": _Table(entry=4, mask=1, checked=True),
    "flashinfer-latent": _Table(entry=4),
    "triton": _Table(entry=8, mask=1, checked=True),
    "aiter": _Table(entry=4, mask=1),
    "sparse": _Table(entry=4, checked=True),
}
_BLACKWELL = 10
_ONE = (0, 5)
"""The first release whose FlashAttention has a second table only where tokens are drafted."""
_OF_STEP = 4
"""FlashAttention's tables where tokens are drafted: for decoding, drafting, checking and extending."""
_NARROW = (0, 5, 15)
"""The first release read in which sparse attention on NVIDIA's GPUs does without where no tokens are drafted."""
_QUICK = 4
"""Tokens of DeepSeek-V4 that become one key of its indexer, which scores each in fp32 (dsv4/indexer.py)."""
_SPLITS = 8
"""Parts of a context in Triton's kernels (--triton-attention-num-kv-splits), whose results are in fp32."""


def tables(job: ServingJob, stage: Stage, requests: int, page: int, number: tuple[int, ...]) -> int:
    """Return bytes of the tables that captured graphs of attention read; `requests`: those of the largest graph."""
    basics = job.basics
    mixers = [each for layer in stage.kinds for each in layer.mixers if isinstance(each, (Attention, LatentAttention))]
    kind = _attends(basics, mixers)
    if kind is None:
        return 0
    drafted = basics.speculation.tokens if basics.speculation is not None else 0
    checked = requests * (drafted + 1)
    scores = checked * basics.max_model_len * _WORD
    if kind == "compressed":
        return scores // _QUICK
    if kind == "sparse" and number >= _NARROW and not drafted and _major(basics):
        return scores
    table, steps = _TABLES[kind], _steps(basics)
    length = -(-basics.max_model_len // (page if table.paged else 1))
    rows = (checked if table.checked else requests) * _copies(kind, mixers, drafted, number)
    rows += steps * requests * (_OF_STEP if table.paged else 1)
    found = rows * length * table.entry + checked * length * table.mask
    found += scores if kind == "sparse" else 0
    return found + (_parts(job, mixers, checked) if kind == "triton" else 0)


def _steps(basics: Basics) -> int:
    """Return how often a draft is run for what is proposed at once, each time with tables of its own."""
    found = basics.speculation
    if found is None or found.method == "ngram":
        return 0
    return 1 if found.method == "dflash" else found.tokens


def _attends(basics: Basics, mixers: list[Attention | LatentAttention]) -> str | None:
    """Return which attention runs unasked (srt/arg_groups/model_override_base.py, get_default_attn_backend).

    None for TensorRT-LLM's small tables of pages of 64 tokens.
    """
    latent = [mixer for mixer in mixers if isinstance(mixer, LatentAttention)]
    if basics.accelerator is None:
        return None
    if basics.model.network.family == FAMILY:
        return "compressed"
    if not mixers:
        return None
    if any(mixer.indexer for mixer in latent):
        return "sparse"
    major = _major(basics)
    if major == HOPPER:
        return "flash-attention"
    if major == _BLACKWELL:
        return "flashinfer-latent" if latent else None
    if basics.accelerator.stack == "rocm":
        return "aiter"
    return "triton" if latent or any(getattr(mixer, "sinks", None) is not None for mixer in mixers) else "flashinfer"


def _major(basics: Basics) -> int | None:
    return basics.accelerator.major if basics.accelerator else None


def _copies(kind: str, mixers: list[Attention | LatentAttention], drafted: int, number: tuple[int, ...]) -> int:
    """Return tables of the target: of FlashAttention four where tokens are drafted, of FlashInfer two with windows."""
    masks = {mixer.mask for mixer in mixers}
    if kind == "flash-attention":
        return (_OF_STEP if drafted else 1 + (number < _ONE)) + ("sliding" in masks) + ("chunked" in masks)
    return 1 + ("sliding" in masks if kind == "flashinfer" else 0)


def _parts(job: ServingJob, mixers: list[Attention | LatentAttention], tokens: int) -> int:
    """Return bytes of the results of a context's parts and their logarithms, of the widest layer."""
    sizes, ranks = job.basics.sizes, job.basics.layout.tensor
    found = 0
    for mixer in mixers:
        width = sizes["lk"] if isinstance(mixer, LatentAttention) else product((mixer.heads.value,), sizes)
        found = max(found, -(-product((mixer.heads.query,), sizes) // ranks) * (width + 1))
    return found * tokens * _SPLITS * _WORD
