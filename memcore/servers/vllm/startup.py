"""What vLLM refuses when it starts, in its own words, and the smallest change that starts.

Sources: vllm, v1/core/kv_cache_utils.py (_check_enough_kv_cache_memory), v1/core/encoder_cache_manager.py,
config/compilation.py (resolve_cudagraph_mode_and_sizes), v1/worker/utils.py (request_memory) and
v1/worker/gpu_model_runner.py (_init_minimal_kv_cache_for_profiling).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from memcore.messages import Message
from memcore.records import dataclass
from memcore.units import GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the checks look at; bytes are of one GPU."""

    capacity: int
    item: int
    """Tokens that a step must hold."""
    tokens: int
    """Tokens that it holds."""
    utilization: float
    before: int
    """Taken before the first measurement: the context and NCCL."""
    held: int
    """Weights, and what profiling leaves."""
    graphs: int
    available: int
    block: int
    blocks: int
    longest: int
    """Tokens of the longest sequence."""
    needed: int
    """Blocks of it."""
    fits: int
    """Tokens of the longest sequence that its blocks hold."""
    least: int
    """Blocks that must be there for recurrent states."""
    profiled: int
    """Blocks of the small cache with which graphs are profiled; 0 if they are not."""


def refusals(start: Start) -> Iterator[str]:
    """Everything that vLLM would refuse, the first first."""
    asked, free = _asked(start), start.capacity - start.before
    if free < asked:
        most = int(1000 * free / start.capacity) / 1000
        yield (
            Message(
                'vLLM refuses: "Free memory on device cuda:0 ({}/{} GiB) on startup is less than desired GPU '
                'memory utilization ({:g}, {} GiB)"; it starts with gpu_memory_utilization {:g}',
                _gib(free),
                _gib(start.capacity),
                start.utilization,
                _gib(asked),
                most,
            )
        )
    if start.item > start.tokens:
        yield (
            Message(
                'vLLM refuses: "Chunked MM input disabled but max_tokens_per_mm_item ({}) is larger than '
                'max_num_batched_tokens ({})"; it starts with max_num_batched_tokens {}',
                start.item,
                start.tokens,
                start.item,
            )
        )
    if out_of_memory(start):
        yield (
            Message(
                'vLLM ends with "CUDA out of memory" while it profiles graphs with a cache of {} blocks of {} '
                "GiB; it starts with enforce_eager or a smaller max_num_seqs",
                start.profiled,
                _gib(start.block),
            )
        )
    yield from _short_of_blocks(start)


def _short_of_blocks(start: Start) -> Iterator[str]:
    """What is refused once the cache is known."""
    if start.available <= 0:
        yield (
            'vLLM refuses: "No available memory for the cache blocks. Try increasing '
            '`gpu_memory_utilization` when initializing the engine"; it starts with a smaller weight format '
            "or more GPUs"
        )
    elif start.needed > start.blocks:
        yield (
            Message(
                "vLLM refuses: \"To serve at least one request with the model's max seq len ({}), ({} GiB KV "
                'cache is needed, which is larger than the available KV cache memory ({} GiB)"; it starts with '
                "max_model_len {}",
                start.longest,
                _gib(start.needed * start.block),
                _gib(start.available),
                start.fits,
            )
        )
    elif start.least > start.blocks:
        yield (
            Message(
                'vLLM refuses: "max_num_seqs ({}) exceeds available Mamba cache blocks ({})"; it starts with '
                "max_num_seqs {}",
                start.least,
                start.blocks,
                start.blocks,
            )
        )


def fails(start: Start) -> bool:
    """Return whether the server ends before it has a cache, however large that would be."""
    return start.item > start.tokens or start.capacity - start.before < _asked(start) or out_of_memory(start)


def _asked(start: Start) -> int:
    return ceil(start.capacity * start.utilization)


def out_of_memory(start: Start) -> bool:
    """Return whether the small cache for profiling graphs does not fit on the GPU."""
    small = start.profiled * start.block
    return bool(small) and start.before + start.held + small + start.graphs > start.capacity


def _gib(size: int) -> str:
    return f"{size / GiB:.2f}"
