"""Which fraction of the GPU SGLang takes for weights and pools where nobody says it: all but what a step needs.

Source: sglang 0.5.23, srt/arg_groups/memory_hook.py and cuda_graph_hook.py. Before: srt/server_args.py, __post_init__
before 0.5.3, then _handle_gpu_memory_settings, which was read in 0.5.3 to 0.5.11, 0.5.13 to 0.5.15 and 0.5.17;
memory_hook.py in 0.5.19 to 0.5.21 and 0.5.23.
"""

from __future__ import annotations

from memcore.config.defaults import Defaults
from memcore.networks.parts import LatentAttention
from memcore.records import dataclass
from memcore.servers.sglang.attention import groups, reserved
from memcore.servers.sglang.exchange import sends
from memcore.servers.sglang.graphs import prompt_sizes
from memcore.servers.sglang.phases import (
    WIDER,
    captured_prompt,
    captures_decoding,
    captures_prompts,
    reserving,
    tokens_at_once,
)
from memcore.servers.sglang.settings import DECODE, PREFILL
from memcore.servers.sglang.towers import ASKED_OR_NOT, fraction_left
from memcore.serving.job import Basics, most_sequences
from memcore.symbols import product
from memcore.units import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Defaults of a class of GPUs."""

    below: int
    """MiB of memory."""
    chunk: int
    graphs: int
    graphs_wide: int
    """The largest graph from four tensor-parallel ranks on."""


_TIERS = (
    Tier(below=20 * 1024, chunk=2048, graphs=8, graphs_wide=8),
    Tier(below=35 * 1024, chunk=4096, graphs=48, graphs_wide=160),
    Tier(below=60 * 1024, chunk=4096, graphs=32, graphs_wide=160),
    Tier(below=90 * 1024, chunk=8192, graphs=256, graphs_wide=512),
    Tier(below=160 * 1024, chunk=8192, graphs=256, graphs_wide=512),
    Tier(below=2**40, chunk=16384, graphs=512, graphs_wide=512),
)


_FORMER_TIERS = (
    Tier(below=35 * 1024, chunk=2048, graphs=8, graphs_wide=80),
    Tier(below=90 * 1024, chunk=8192, graphs=160, graphs_wide=160),
    Tier(below=160 * 1024, chunk=8192, graphs=256, graphs_wide=256),
    Tier(below=2**40, chunk=16384, graphs=512, graphs_wide=512),
)
"""Before 0.5.3."""
_FORMER_RESERVES = ((35 * 1024, 2.8, 0.1), (90 * 1024, 9.5, 0.5), (160 * 1024, 12, 0.5), (2**40, 32, 0))
"""MiB of memory below which these GiB are not static, and how many more for each rank: 0.4.7 to 0.5.2."""
_FIRST_FRACTIONS = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))
"""The fraction from a number of tensor-parallel ranks on, before 0.4.7."""
_WIDE = (0, 4, 6)
"""The first release that leaves 13 GiB of GPUs beyond 80, however many there are."""
_RESERVING, _DERIVING = (0, 4, 7), (0, 5, 3)
_SMALLER = (
    ((0, 5, 5), Tier(below=35 * 1024, chunk=2048, graphs=16, graphs_wide=80)),
    ((0, 5, 20), Tier(below=35 * 1024, chunk=2048, graphs=24, graphs_wide=80)),
)
"""Releases before which GPUs of 24 and 32 GB had shorter chunks and fewer graphs than now."""
_NO_ROOM, _SENDING = (0, 5, 15), 2 * 1024
"""The first release that leaves no room for graphs of decoding where none are captured, and MiB for DeepEP."""
_SENDING_PROMPTS = 1024
"""MiB for DeepEP where prompts are captured, too."""
COUNTS_DRAFTS = (0, 5, 14)
"""The first release that counts what drafting needs."""
_DRAFTING = (((0, 5, 10), 2), (COUNTS_DRAFTS, 4))
"""Releases before which these GiB are not static where drafts are made."""
_DRAFT_MODELS = 6
"""GiB for a draft model of its own, in all of these."""


def tier(memory: int, number: tuple[int, ...]) -> Tier:
    """Return a release's defaults for a GPU with this memory, in MiB."""
    found = next(row for row in (_TIERS if number >= _DERIVING else _FORMER_TIERS) if memory < row.below)
    if number < _DERIVING:
        return found
    return next((row for before, row in _SMALLER if number < before and row.below == found.below), found)


def usual(read: Defaults, basics: Basics, chunk: int, graphs: int, number: tuple[int, ...]) -> float:
    """Return the static fraction of a release; the chunk is that of all groups of ranks."""
    if number < _DERIVING:
        found = _former(basics, number)
    else:
        found = round(1 - _reserved(read, basics, chunk, graphs, number) / ((basics.capacity or 0) // MiB), 3)
    return found if number < ASKED_OR_NOT else round(found * fraction_left(basics, number), 3)


def _former(basics: Basics, number: tuple[int, ...]) -> float:
    """Return the fraction before it followed from the chunk and the graphs, three decimals at most."""
    layout, memory = basics.layout, (basics.capacity or 0) // MiB
    parallel = layout.tensor * groups(layout)
    if _WIDE <= number < _RESERVING and memory > 80 * 1024:
        return round(1 - 13 * 1024 / memory, 3)
    if number < _RESERVING:
        return next(fraction for ranks, fraction in _FIRST_FRACTIONS if parallel >= ranks)
    kept, each = next((kept, each) for below, kept, each in _FORMER_RESERVES if memory < below)
    found = 1024 * (kept + each * parallel * layout.pipeline + (2 if basics.speculation else 0))
    return round(1 - (found + reserved(layout, 0, number, derives=False)) / memory, 3)


def _reserved(read: Defaults, basics: Basics, chunk: int, graphs: int, number: tuple[int, ...]) -> float:
    """MiB that are not static (handle_gpu_memory_settings, reserve_for_graph_mb); the chunk is that of all groups."""
    layout = basics.layout
    parallel, phase = layout.tensor * groups(layout) * layout.pipeline, reserving(read, number)
    given = most_sequences(read)
    tokens = tokens_at_once(read, basics, chunk, given or graphs) if phase == DECODE else chunk
    found = 512 + 1.5 * max(tokens, 2048) + parallel / 8 * 1024
    found += 0 if phase == PREFILL else reserved(layout, graphs, number, derives=True)
    none = number >= _NO_ROOM and not captures_decoding(read)
    found += 0 if none else 2 * graphs
    deep = sends(read) == "deepep"
    if captures_prompts(read, basics, number):
        prompt = captured_prompt(read, basics, chunk, number)
        found += 1.5 * 1024 if "lk" in basics.sizes else 8 * prompt_sizes(prompt)
        found += _SENDING_PROMPTS if deep and number >= WIDER else 0
    memory = (basics.capacity or 0) // MiB
    found = max(found, 10 * 1024) if memory > 60 * 1024 else found
    found += _SENDING if number >= _NO_ROOM and not none and deep else 0
    return found + 1024 * _drafting(basics, number)


def _drafting(basics: Basics, number: tuple[int, ...]) -> int:
    """GiB that are left for drafts and their graphs."""
    kept = next((kept for before, kept in _DRAFTING if number < before), 0)
    if basics.speculation is None or basics.speculation.method == "ngram" or not kept:
        return 0
    return _DRAFT_MODELS if basics.draft is not None else kept


_AITER, AITER_SHARE, _AITER_LENGTH = (0, 4, 7), 0.85, 8192
"""The first release in which AITER's attention leaves this share of the static fraction, whoever gave it, and the
longest sequence that does without (sglang, srt/model_executor/model_runner.py, then srt/server_args.py and, since
0.5.20, srt/arg_groups/attention_hook.py; pull requests 6564 and 37242)."""
OF_AITER = "beyond 8,192 tokens AITER's attention leaves 85 % of the static fraction"
_AITER_HEADS = (16, 128)
"""Heads of a rank that its latent attention has (srt/server_args.py, `_get_default_attn_backend`)."""


def gives_to_aiter(basics: Basics, number: tuple[int, ...]) -> bool:
    """Return whether AMD's AITER attends to long sequences: not with sinks, indexers or other latent heads."""
    rocm = basics.accelerator is not None and basics.accelerator.stack == "rocm"
    if not rocm or number < _AITER or basics.max_model_len <= _AITER_LENGTH:
        return False
    mixers = [mixer for layer, _ in basics.model.layers for mixer in layer.mixers]
    latent = [each for each in mixers if isinstance(each, LatentAttention)]
    if any(each.indexer for each in latent) or any(getattr(each, "sinks", None) is not None for each in mixers):
        return False
    ranks = basics.layout.tensor
    return all(product((each.heads.query,), basics.sizes) // ranks in _AITER_HEADS for each in latent)
