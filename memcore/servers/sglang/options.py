"""SGLang's own settings, and what a release takes where one is absent."""

from __future__ import annotations

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.records import dataclass
from memcore.servers.sglang import supported
from memcore.servers.sglang.attention import groups
from memcore.servers.sglang.backends import AUTO, attends, page_of
from memcore.servers.sglang.compressed import FAMILY, SEQUENCES, WINDOW_RATIO
from memcore.servers.sglang.exchange import checked_sender
from memcore.servers.sglang.experts import DISPATCHED
from memcore.servers.sglang.fraction import AITER_SHARE, gives_to_aiter, tier, usual
from memcore.servers.sglang.phases import (
    captured_prompt,
    captures_decoding,
    captures_prompts,
    finds_attention,
    role,
    tokens_at_once,
)
from memcore.servers.sglang.requests import asked
from memcore.servers.sglang.settings import DECODE, SglangSettings
from memcore.servers.sglang.states import slots_each
from memcore.servers.sglang.towers import ASKED_OR_NOT, fraction_left
from memcore.serving.inference import Inference
from memcore.serving.job import Basics, most_sequences
from memcore.serving.settings import ServerSettings
from memcore.units import GiB, MiB

NEWEST = "0.5.23"
"""The newest release that was read; what is not given is taken for it."""
_AS_MANY = (0, 5, 22)
"""The first release that leaves room for graphs of no more sequences than may run; it captures no more in any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """SGLang's own settings."""

    fraction: float | None
    chunk: int
    graphs: int
    sizes: int | None
    """Batches that are captured, if they are listed."""
    page: int
    attention: str | None
    """The kind of kernels, as SGLang calls them; None where no layer attends."""
    most: int | None
    """Tokens of the pool, if it is to have no more."""
    window_ratio: float
    state_ratio: float
    states: int | None
    """Slots of the pool of recurrent states, if they are not a part of what is left (`_handle_max_mamba_cache`)."""
    prompts: int
    """Tokens of the longest prompt that is captured; 0 if none is."""
    captures: bool = True
    """Graphs of decoding are captured; room for them is left in either case (srt/server_args.py)."""
    deepep: str | None = None
    """The mode of DeepEP, where it sends tokens to experts."""
    slots: bool = False
    """FlashInfer sends them."""
    aiter: bool = False
    """AITER's attention takes its part of the static fraction."""
    requests: int | None = None
    """Requests at once, where somebody says how many."""
    slots_each: int = 1
    """Slots of recurrent states that a request takes: one where no finished prompts are kept."""
    sequences: int = SEQUENCES
    """Requests at once, as compressors' states have room for them."""
    number: tuple[int, ...] = ()
    """Of the release."""
    expert_kernels: str = "auto"
    loras: int = 0
    """Slots of adapters."""
    lora_rank: int = 0
    targets: tuple[str, ...] = ()
    """Modules that slots of adapters have room for."""
    symmetric: bool = False
    """What ranks sum is in memory of NCCL."""
    ahead: int = 0
    """Bytes of such memory that are allocated after the capture."""
    prompt_attention: str | None = None
    """The kind of kernels that attend to prompts, where it is another one."""
    dispatched: int = DISPATCHED
    """Tokens of a rank for which DeepEP's kernels for decoding have room."""


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that SGLang does not have.
    """
    supported.check(basics.model)
    memory = (basics.capacity or 80 * 1024 * MiB) // MiB
    number = release(read.given(EngineSettings.version) or NEWEST)
    usual_tier = tier(memory, number)
    chunk = read.take(SglangSettings.chunked_prefill_size, usual_tier.chunk)
    apart = groups(basics.layout)
    wide = basics.layout.tensor * apart >= 4
    given = most_sequences(read)
    most = usual_tier.graphs_wide if wide else usual_tier.graphs
    if given is not None and number >= _AS_MANY:
        most = min(most, given)
    graphs = read.take(SglangSettings.cuda_graph_max_bs, most)
    requests = asked(given, basics)
    requests = requests if requests is None else max(requests // apart, 1)
    fraction = read.given(SglangSettings.mem_fraction_static)
    if fraction is None and basics.capacity is not None:
        derived = usual(read, basics, chunk, graphs, number)
        fraction = read.take(
            SglangSettings.mem_fraction_static, derived, "SGLang's rule, by GPU, chunk size and CUDA graphs"
        )
    compresses = basics.model.network.family == FAMILY
    page = read.given(Inference.block_size) or read.given(ServerSettings.block_size) or 1
    told = read.take(SglangSettings.attention_backend, AUTO)
    kernels = attends(basics.model, basics, told, number)
    prompts = attends(basics.model, basics, read.given(SglangSettings.prefill_attention_backend) or told, number)
    sender = checked_sender(read, basics)
    return Options(
        fraction=None if fraction is None else _left(fraction, basics, number),
        chunk=tokens_at_once(read, basics, max(chunk // apart, 1), requests or graphs),
        graphs=graphs if requests is None else min(graphs, requests),
        sizes=read.given(SglangSettings.cuda_graph_sizes),
        page=page_of(prompts, page_of(kernels, page)),
        attention=kernels,
        most=read.given(SglangSettings.max_total_tokens),
        window_ratio=read.take(SglangSettings.swa_full_tokens_ratio, WINDOW_RATIO if compresses else 0.8),
        state_ratio=read.take(SglangSettings.mamba_full_memory_ratio, 0.9),
        states=_states(read, requests),
        prompts=_captured(read, basics, max(chunk // apart, 1), number),
        captures=captures_decoding(read),
        deepep=read.take(SglangSettings.deepep_mode, "auto") if sender == "deepep" else None,
        slots=sender == "flashinfer",
        aiter=fraction is not None and gives_to_aiter(basics, number),
        requests=requests,
        slots_each=_slots_each(read, basics, number),
        sequences=requests or SEQUENCES,
        number=number,
        expert_kernels=read.given(SglangSettings.moe_runner_backend) or "auto",
        dispatched=read.given(SglangSettings.deepep_dispatch_tokens) or DISPATCHED,
        loras=read.given(Inference.max_loras) or 0,
        lora_rank=_lora_rank(read),
        targets=_targets(read),
        symmetric=bool(read.given(SglangSettings.enable_symm_mem)),
        ahead=_ahead(read, number),
        prompt_attention=prompts if prompts != kernels else None,
    )


def _left(fraction: float, basics: Basics, number: tuple[int, ...]) -> float:
    """Return what a tower and AITER's attention leave of a fraction, whoever gave it."""
    of_tower = fraction_left(basics, number) if number < ASKED_OR_NOT else 1.0
    return fraction * of_tower * (AITER_SHARE if gives_to_aiter(basics, number) else 1.0)


_PREALLOCATES, _AHEAD = (0, 5, 9), 4.0
"""The first release read that allocates symmetric memory ahead, and GiB of it where nobody says how much.

Source: srt/server_args.py of 0.5.9 to 0.5.18, then srt/arg_groups/memory_hook.py; srt/distributed/device_communicators/
pynccl_allocator.py (`prealloc_symmetric_memory_pool`).
"""


def _ahead(read: Defaults, number: tuple[int, ...]) -> int:
    if number < _PREALLOCATES or not read.given(SglangSettings.enable_symm_mem):
        return 0
    return int(read.take(SglangSettings.symm_mem_prealloc, _AHEAD) * GiB)


_RANK, ALL_LINEAR = 16, "all-linear"
"""The rank of adapters where nobody says it, and the word for all linear layers."""


def _lora_rank(read: Defaults) -> int:
    return read.take(Inference.max_lora_rank, _RANK) if read.given(Inference.max_loras) else 0


def _targets(read: Defaults) -> tuple[str, ...]:
    """Return the modules that adapters have, which SGLang reads off them where nobody says it."""
    if not read.given(Inference.max_loras):
        return ()
    found = read.take(SglangSettings.lora_target_modules, ALL_LINEAR, "adapters are not read: all linear layers")
    return (found,) if isinstance(found, str) else tuple(found)


def _captured(read: Defaults, basics: Basics, chunk: int, number: tuple[int, ...]) -> int:
    captures = captures_prompts(read, basics, number) and finds_attention(basics, number)
    return captured_prompt(read, basics, chunk, number) if captures else 0


def _slots_each(read: Defaults, basics: Basics, number: tuple[int, ...]) -> int:
    if _forgets(read):
        return 1
    strategy = read.take(SglangSettings.mamba_radix_cache_strategy, "auto")
    return slots_each(strategy, basics.model.network.family, number)


def _states(read: Defaults, requests: int | None) -> int | None:
    """Slots of recurrent states that are asked for, or one of each request where no prompts are kept."""
    found = read.given(SglangSettings.max_mamba_cache_size)
    return found or (requests if _forgets(read) else None)


def _forgets(read: Defaults) -> bool:
    """Return whether finished prompts are not kept, as in a server that only decodes."""
    return bool(read.given(SglangSettings.disable_radix_cache)) or role(read) == DECODE
