"""What vLLM refuses when it starts, in its own words, and the smallest change that starts.

Sources: vllm, v1/core/kv_cache_utils.py (_check_enough_kv_cache_memory), v1/core/encoder_cache_manager.py,
config/compilation.py (resolve_cudagraph_mode_and_sizes), v1/worker/utils.py (request_memory) and
v1/worker/gpu_model_runner.py (_init_minimal_kv_cache_for_profiling).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from memcore.messages import Message
from memcore.records import dataclass
from memcore.units import GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the checks look at; bytes are of one GPU."""

    release: tuple[int, ...]
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


_NAMING_DEVICES, _SPELLED = (0, 14), (0, 22)
"""The first releases whose words name the device, and have "model's" (read in 0.9.1 to 0.26)."""


def refusals(start: Start) -> Iterator[str]:
    """Everything that vLLM would refuse, the first first."""
    asked, free = _asked(start), start.capacity - start.before
    if free < asked:
        most = int(1000 * free / start.capacity) / 1000
        yield (
            Message(
                'vLLM refuses: "Free memory on device{} ({}/{} GiB) on startup is less than desired GPU '
                'memory utilization ({:g}, {} GiB)"; it starts with gpu_memory_utilization {:g}',
                " cuda:0" if start.release >= _NAMING_DEVICES else "",
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


_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
            "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")  # fmt: skip
"""Keys of a config.json of which the smallest is the model's longest sequence."""
_SCALED = ("su", "longrope", "llama3", "default", "mrope")
"""Kinds of rotary positions whose longest sequence already is what the config says."""


def too_long(config: Mapping[str, Any], length: int, _version: tuple[int, ...] | None = None) -> Message | None:
    """Return what vLLM says of a longer sequence than its model's own, which ends it; None for one that it takes.

    Every release refuses it alike. Source: vllm 0.8 to 0.20, config.py and config/model.py (`_get_and_verify_max_len`).
    """
    said = {name: config[name] for name in _LENGTHS if isinstance(config.get(name), int)}
    key = min(said, key=lambda name: said[name], default=None)
    if config.get("model_max_length"):
        key = "model_max_length"
    if key is None:
        return None
    most = _scaled(config, said[key])
    if length <= max(most, said.get("model_max_length", 0)):
        return None
    return Message(
        'vLLM refuses: "User-specified max_model_len ({}) is greater than the derived max_model_len ({}={}"; it '
        "starts with max_model_len {}, with scaled rotary positions (--hf-overrides), or with "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
        length,
        key,
        most,
        most,
    )


def _scaled(config: Mapping[str, Any], most: int) -> int:
    """Return the longest sequence with scaled rotary positions; Gemma 3's config says it already."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(rope, Mapping) or "gemma3" in str(config.get("model_type", "")):
        return most
    several = rope.values() if all(isinstance(each, Mapping) for each in rope.values()) else [rope]
    factor = 1.0
    for each in several:
        kind = each.get("rope_type", each.get("type", "default"))
        if kind in _SCALED:
            continue
        factor = float(each.get("factor") or factor)
        if kind == "yarn":
            most = int(each.get("original_max_position_embeddings") or most)
    return int(most * factor)


def _short_of_blocks(start: Start) -> Iterator[str]:
    """Yield what is refused once the cache is known."""
    if start.available <= 0:
        yield (
            'vLLM refuses: "No available memory for the cache blocks. Try increasing '
            '`gpu_memory_utilization` when initializing the engine"; it starts with a smaller weight format '
            "or more GPUs"
        )
    elif start.needed > start.blocks:
        yield (
            Message(
                'vLLM refuses: "To serve at least one request with the {} max seq len ({}), ({} GiB KV '
                'cache is needed, which is larger than the available KV cache memory ({} GiB)"; it starts with '
                "max_model_len {}",
                "model's" if start.release >= _SPELLED else "models's",
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
