"""SGLang: a fraction of the memory that was free before loading is static, for weights and pools of tokens.

Source: sglang 0.5.23, srt/arg_groups/memory_hook.py (the fraction, if it is not given) and cuda_graph_hook.py,
srt/mem_cache/kv_cache_configurator.py (_profile_available_bytes), srt/model_executor/pool_configurator.py.
Before: srt/server_args.py, __post_init__ before 0.5.3, then _handle_gpu_memory_settings, which was read in 0.5.3 to
0.5.11, 0.5.13 to 0.5.15 and 0.5.17; memory_hook.py in 0.5.19 to 0.5.21 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.config.parallelism import Parallelism
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.parts import LatentAttention
from memcore.records import dataclass
from memcore.servers.sglang import supported
from memcore.servers.sglang.attention import gathers_logits, groups, lays_out, reserved
from memcore.servers.sglang.compressed import FAMILY, PAGE, SEQUENCES, WINDOW_RATIO, Compressed, compressed
from memcore.servers.sglang.experts import DISPATCHED, kept_scales, left_behind, physical, received, redundant
from memcore.servers.sglang.graphs import GRAPHS, fused_sums, graphs, prompt_sizes
from memcore.servers.sglang.indexers import spare_keys
from memcore.servers.sglang.phases import captures_decoding, captures_prompts, reserving, role
from memcore.servers.sglang.positions import too_long
from memcore.servers.sglang.requests import asked, places, running, tables
from memcore.servers.sglang.settings import DECODE, PREFILL, SglangSettings
from memcore.servers.sglang.states import Division, divide, slots_each
from memcore.servers.sglang.towers import fraction_left, kept_for_pictures
from memcore.serving.all_to_all import deep_ep, far_bytes, flashinfer, low_latency_bytes, near_bytes, one_sided_bytes
from memcore.serving.budget import Budget, Pool, RankBudget, of_stages
from memcore.serving.cache import CacheSpec
from memcore.serving.changes import AS_USERS, PAGED, Share, fewer_tokens, larger_share
from memcore.serving.checkpoint import MODEL_OPT
from memcore.serving.devices import desktop, integrated
from memcore.serving.entries import ledger, observed, spread, tensor
from memcore.serving.inference import Inference
from memcore.serving.job import Basics, Kernels, Pace, Server, ServingJob, most_sequences
from memcore.serving.outside_allocator import context_and_nccl, uncertainty
from memcore.serving.profile import Step, expert_workspace, sampling, widest
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.settings import ServerSettings
from memcore.serving.stages import Stage, merged_stages
from memcore.symbols import product, round_up
from memcore.units import GiB, MiB

NEWEST = "0.5.23"
"""The newest release that was read; what is not given is taken for it."""
_HOOK = "sglang, srt/arg_groups/memory_hook.py"
_POOLS = "sglang, srt/model_executor/pool_configurator.py"


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
_PHASES = (0, 5, 14)
"""The first release whose --disable-cuda-graph turns off graphs of prompts, too (CudaGraphConfig)."""
_NO_ROOM, _SENDING = (0, 5, 15), 2 * 1024
"""The first release that leaves no room for graphs of decoding where none are captured, and MiB for DeepEP."""
_AS_MANY = (0, 5, 22)
"""The first release that leaves room for graphs of no more sequences than may run; it captures no more in any."""
_DRAFTING = (((0, 5, 10), 2), ((0, 5, 14), 4))
"""Releases before which these GiB are not static where drafts are made; later ones count what drafting needs."""
_DRAFT_MODELS = 6
"""GiB for a draft model of its own, in all of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """SGLang's own settings."""

    fraction: float | None
    chunk: int
    graphs: int
    page: int
    most: int | None
    """Tokens of the pool, if it is to have no more."""
    window_ratio: float
    state_ratio: float
    states: int | None
    """Slots of the pool of recurrent states, if they are not a part of what is left (`_handle_max_mamba_cache`)."""
    prefill_graphs: bool
    """Graphs of prompts are captured, too."""
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
    dispatched: int = DISPATCHED
    """Tokens of a rank for which DeepEP's kernels for decoding have room."""


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that SGLang does not have.
    """
    supported.check(basics.model)
    memory = (basics.capacity or 80 * 1024 * MiB) // MiB
    number = release(read.given(EngineSettings.version) or NEWEST)
    derives = number >= _DERIVING
    tier = _tier(memory, number)
    chunk = read.take(SglangSettings.chunked_prefill_size, tier.chunk)
    wide = basics.layout.tensor * groups(basics.layout) >= 4
    given = most_sequences(read)
    usual = tier.graphs_wide if wide else tier.graphs
    if given is not None and number >= _AS_MANY:
        usual = min(usual, given)
    graphs = read.take(SglangSettings.cuda_graph_max_bs, usual)
    apart = groups(basics.layout)
    requests = asked(given, basics)
    requests = requests if requests is None else max(requests // apart, 1)
    fraction = read.given(SglangSettings.mem_fraction_static)
    if fraction is None and basics.capacity is not None:
        derived = (
            round(1 - _reserved(read, basics, chunk, graphs, number) / memory, 3)
            if derives
            else _former(basics, number)
        )
        if derives:
            derived = round(derived * fraction_left(basics), 3)
        fraction = read.take(
            SglangSettings.mem_fraction_static, derived, "SGLang's rule, by GPU, chunk size and CUDA graphs"
        )
    kept = fraction is not None and _gives_to_aiter(basics, number)
    compresses = basics.model.network.family == FAMILY
    page = read.given(Inference.block_size) or read.given(ServerSettings.block_size) or 1
    return Options(
        fraction=_AITER_SHARE * fraction if kept and fraction is not None else fraction,
        chunk=_at_once(read, basics, max(chunk // apart, 1), requests or graphs),
        graphs=graphs if requests is None else min(graphs, requests),
        page=PAGE if compresses else page,
        most=read.given(SglangSettings.max_total_tokens),
        window_ratio=read.take(SglangSettings.swa_full_tokens_ratio, WINDOW_RATIO if compresses else 0.8),
        state_ratio=read.take(SglangSettings.mamba_full_memory_ratio, 0.9),
        states=_states(read, requests),
        prefill_graphs=captures_prompts(read, basics, number)
        and (number < _PHASES or not read.given(SglangSettings.disable_cuda_graph)),
        captures=captures_decoding(read),
        deepep=read.take(SglangSettings.deepep_mode, "auto") if _sends(read, basics) == "deepep" else None,
        slots=_sends(read, basics) == "flashinfer",
        aiter=kept,
        requests=requests,
        slots_each=_slots_each(read, basics, number),
        sequences=requests or SEQUENCES,
        number=number,
        expert_kernels=read.given(SglangSettings.moe_runner_backend) or "auto",
        dispatched=read.given(SglangSettings.deepep_dispatch_tokens) or DISPATCHED,
    )


def _at_once(read: Defaults, basics: Basics, chunk: int, requests: int) -> int:
    """Return tokens of a step: a server that only decodes has those of its requests."""
    drafted = basics.speculation.tokens if basics.speculation is not None else 0
    return requests * (drafted + 1) if role(read) == DECODE else chunk


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


_CACHES = (0, 5, 3)
"""The first release that reads `kv_cache_quant_algo`, which ModelOpt's formats have."""


def _reads_cache_format(read: Defaults, method: str) -> bool:
    """Return whether the cache is in fp8 where a checkpoint's description says so (srt/mem_cache/kv_cache_dtype.py)."""
    return method.startswith(MODEL_OPT) and release(read.given(EngineSettings.version) or NEWEST) >= _CACHES


_AITER, _AITER_SHARE, _AITER_LENGTH = (0, 4, 7), 0.85, 8192
"""The first release in which AITER's attention leaves this share of the static fraction, whoever gave it, and the
longest sequence that does without (sglang, srt/model_executor/model_runner.py, then srt/server_args.py and, since
0.5.20, srt/arg_groups/attention_hook.py; pull requests 6564 and 37242)."""
_OF_AITER = "beyond 8,192 tokens AITER's attention leaves 85 % of the static fraction"
_AITER_HEADS = (16, 128)
"""Heads of a rank that its latent attention has (srt/server_args.py, `_get_default_attn_backend`)."""


def _gives_to_aiter(basics: Basics, number: tuple[int, ...]) -> bool:
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


def _tier(memory: int, number: tuple[int, ...]) -> Tier:
    """Return a release's defaults for a GPU with this memory, in MiB."""
    found = next(row for row in (_TIERS if number >= _DERIVING else _FORMER_TIERS) if memory < row.below)
    if number < _DERIVING:
        return found
    return next((row for before, row in _SMALLER if number < before and row.below == found.below), found)


_DISPATCHER = "sglang, srt/layers/moe/token_dispatcher/deepep.py; deepseek-ai/DeepEP, csrc/legacy/config.hpp"


_SLOTS = "sglang, srt/layers/moe/token_dispatcher/flashinfer.py; flashinfer, comm/trtllm_moe_alltoall.py"
_HELD = 1024
"""SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK; the dispatcher multiplies it by the ranks, as FlashInfer does."""
_UNQUANTIZED = ("mtp", "eagle", "eagle3")
"""Methods whose own layer sends its tokens in 16 bits (`is_eagle`)."""


def _sends(read: Defaults, basics: Basics) -> str | None:
    """Return what sends tokens to experts, which are then whole and shared out over all tensor-parallel ranks.

    Source: sglang, srt/server_args.py (`_handle_a2a_moe`).
    """
    found = read.given(SglangSettings.moe_a2a_backend)
    if found not in ("deepep", "flashinfer"):
        return None
    if not basics.layout.expert_parallel or basics.layout.data > groups(basics.layout):
        said = "found {!r}, which needs {} true and {} 1"
        data = Parallelism.data_parallel_size
        read.refuse(SglangSettings.moe_a2a_backend, said, found, ServerSettings.enable_expert_parallel, data)
    return found


def _exchanged(job: ServingJob, chosen: Options) -> list[Entry]:
    """Buffers of all-to-all outside the static share: DeepEP's of the first step, or FlashInfer's slots.

    DeepEP's normal and low-latency kernels share the second buffer, and the first step is that which warms up the first
    graph; FlashInfer gets tokens in NVFP4.
    Source: sglang, srt/layers/moe/token_dispatcher/deepep.py (`get_deepep_buffer`) and flashinfer.py.
    """
    sizes, basics = job.basics.sizes, job.basics
    if "E" not in sizes or sizes["EP"] == 1:
        return []
    if chosen.slots:
        drafts = basics.speculation is not None and basics.speculation.method in _UNQUANTIZED
        sent = 2 * sizes["h"] if drafts else sizes["h"] // 2 + sizes["h"] // 16
        size = one_sided_bytes(_HELD * sizes["EP"], sizes["h"], sizes["e"], sizes["EP"], sent=sent)
        return flashinfer(size, _SLOTS)
    if chosen.deepep is None:
        return []
    normal, late = chosen.deepep != "low_latency", chosen.deepep != "normal"
    near = near_bytes(sizes["h"], sizes["EP"]) if normal else 0
    far = far_bytes(sizes["h"], sizes["EP"]) if normal else 0
    quick = low_latency_bytes(chosen.dispatched, sizes["h"], physical(job)) if late else 0
    found = deep_ep(near, max(far, quick), _DISPATCHER)
    return [replace(each, category=GRAPHS) for each in found] if chosen.captures else found


def _former(basics: Basics, number: tuple[int, ...]) -> float:
    """Return the fraction before it followed from the chunk and the graphs."""
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
    tokens = _at_once(read, basics, chunk, given or graphs) if phase == DECODE else chunk
    found = 512 + 1.5 * max(tokens, 2048) + parallel / 8 * 1024
    found += 0 if phase == PREFILL else reserved(layout, graphs, number, derives=True)
    none = number >= _NO_ROOM and (read.given(SglangSettings.disable_cuda_graph) or phase == PREFILL)
    found += 0 if none else 2 * graphs
    if captures_prompts(read, basics, number):
        found += 1.5 * 1024 if "lk" in basics.sizes else 8 * prompt_sizes(chunk)
    memory = (basics.capacity or 0) // MiB
    found = max(found, 10 * 1024) if memory > 60 * 1024 else found
    found += _SENDING if number >= _NO_ROOM and not none and _sends(read, basics) == "deepep" else 0
    return found + 1024 * _drafting(basics, number)


def _drafting(basics: Basics, number: tuple[int, ...]) -> int:
    """GiB that are left for drafts and their graphs."""
    kept = next((kept for before, kept in _DRAFTING if number < before), 0)
    if basics.speculation is None or basics.speculation.method == "ngram" or not kept:
        return 0
    return _DRAFT_MODELS if basics.draft is not None else kept


def budget(job: ServingJob) -> Budget:
    """Return what each rank holds."""
    chosen = job.chosen(Options)
    groups = merged_stages(job.model, job.basics.layout.pipeline, job.basics.stored)
    found = [_rank(job, chosen, stage) for stage, *_ in groups]
    least = min((rank.tokens for rank in found if rank.tokens is not None), default=None)
    line = None
    if chosen.fraction is not None and job.capacity is not None:
        line = int(chosen.fraction * _free(job))
    return Budget(
        ranks=of_stages(groups, [_with_pools(job, chosen, rank, least) for rank in found]),
        pool=_pool(job, chosen, found, least),
        line=line,
        line_title=f"mem_fraction_static {chosen.fraction:g}" if chosen.fraction else "",
        notes=(
            "activations and CUDA graphs are outside the static fraction",
            *((_OF_AITER,) if chosen.aiter else ()),
            *_startup(job, found, least),
        ),
    )


def _startup(job: ServingJob, found: list[_Rank], tokens: int | None) -> Iterator[str]:
    """Yield what SGLang refuses when it starts, and what it shortens.

    Source: sglang, srt/model_executor/pool_configurator.py and srt/managers/tp_worker.py (max_req_len).
    """
    if any(rank.available is not None and rank.available <= 0 for rank in found):
        yield (
            'SGLang refuses: "Not enough memory. Please try to increase --mem-fraction-static."; it starts '
            "with a smaller weight format or more GPUs"
        )
    elif tokens is not None and tokens < job.basics.max_model_len:
        yield Message("SGLang starts, but accepts requests of at most {:,} tokens", tokens)


def _free(job: ServingJob) -> int:
    """Free memory before loading."""
    return (job.capacity or 0) - sum(entry.bytes for entry in context_and_nccl(job.accelerator, job.num_gpus))


_UNEXPLAINED, _MORE = "deepseek_v4", int(9.5 * GiB)
"""Fitted to one log: 125.65 GiB are loaded of DeepSeek-V4-Pro on each of eight H200 (SemiAnalysisAI/InferenceX, issue
2128), 9 more than its checkpoint has; which tensors these are is not known."""


_DESKTOP = int(0.8 * GiB)
"""What a desktop has of a GeForce before anything is loaded; SGLang takes a share of the rest. Fitted to two logs:
22.39 and 22.76 GB of 24 were free."""


@dataclass(frozen=True, kw_only=True)
class _Rank:
    stage: Stage
    weights: tuple[Entry, ...]
    parts: tuple[CacheSpec, ...]
    available: int | None
    tokens: int | None
    """Of the pool for layers that attend to everything."""
    states: int
    """Slots of the pool of recurrent states."""
    checked: int
    """Bytes of states after each token that is checked."""
    compressed: Compressed | None
    uncertain: tuple[int, int] = (0, 0)
    """How much less and how much more is available."""


def _rank(job: ServingJob, chosen: Options, stage: Stage) -> _Rank:
    weights = rank_weights(job, stage, tables="fp32")
    weights += [*kept_scales(job, weights), *left_behind(job, chosen.expert_kernels, chosen.number, stage)]
    weights += redundant(job, weights)
    parts = tuple(part for layer in cached_layers(job, stage) for part in layer)
    parts += tuple(spare_keys(job, stage, chosen.number))
    available = tokens = None
    slots = checked = 0
    pools = compressed(job, stage, chosen.number, chosen.sequences)
    if chosen.fraction is not None and job.capacity is not None:
        available = int(chosen.fraction * _free(job)) - sum(entry.bytes for entry in [*weights, *_hosted(job)])
        available -= kept_for_pictures(job.basics, chosen.number) + _left_behind(job, chosen.number)
        rest, state = available, _state(parts)
        if state and pools is None:
            found = _divided(job, chosen, available, state)
            rest, slots, checked = found.rest, found.slots, found.checked
        cell = _cell(parts, windowed=False) + chosen.window_ratio * _cell(parts, windowed=True)
        if pools is not None:
            rest, cell = rest - pools.fixed, float(pools.each(chosen.window_ratio))
        tokens = _fitting(max(rest, 0), cell, chosen)
    before = [*weights, *_hosted(job), *context_and_nccl(job.accelerator, job.num_gpus)]
    lower, higher = uncertainty(before, job.capacity)
    if job.basics.model.network.family == _UNEXPLAINED:
        higher += _MORE
    if desktop(job.accelerator):
        higher += _DESKTOP
    return _Rank(
        stage=stage,
        weights=tuple(weights),
        parts=parts,
        available=available,
        tokens=tokens,
        states=slots,
        checked=checked,
        compressed=pools,
        uncertain=(higher, lower),
    )


def _divided(job: ServingJob, chosen: Options, room: int, state: int) -> Division:
    """Room for tokens and for states, of which drafts need some for each token that they propose and the one before."""
    tokens = job.basics.speculation.tokens if job.basics.speculation else 0
    return divide(
        room,
        state,
        ratio=chosen.state_ratio,
        given=chosen.states,
        requests=chosen.requests,
        drafted=tokens + 1 if tokens else 0,
        each=chosen.slots_each,
    )


_COLLECTS = (0, 5, 19)
"""The first release that frees what loading has left behind before it sees what is free (pull request 36583)."""


def _left_behind(job: ServingJob, number: tuple[int, ...]) -> int:
    """Return bytes of the embedding and head that drafting layers have until they get the target's.

    Since drafts are counted these are there when the pools are sized: `init_lm_head` follows in `alloc_memory_pool`
    (0.5.17 and 0.5.18, srt/speculative/eagle_worker_v2.py; srt/models/qwen3_5_mtp.py). EAGLE-3 keeps its own head.
    """
    found = job.basics.speculation
    if found is None or found.method not in _UNQUANTIZED or not _DRAFTING[-1][0] <= number < _COLLECTS:
        return 0
    sizes = job.basics.sizes
    alone = found.method == "eagle3" or job.model.network.embedding_and_head.tied
    return (1 if alone else 2) * sizes["V"] * sizes["h"] * 2 // job.basics.layout.tensor


_HOSTED = Range(int(-0.1 * GiB), int(7 * GiB), int(20.1 * GiB))
"""Fitted: 6 to 10 GiB in three starts, and at most what vLLM's have shown, which count the host's memory alike.

What is free is the host's available memory (get_available_gpu_memory), which other processes move. A later start that
was predicted blind was in the range, with 2.3 GiB more for its cache than expected.
"""


def _hosted(job: ServingJob) -> list[Entry]:
    """Return what the server's processes take of memory that the GPU shares with the host."""
    if not integrated(job.accelerator):
        return []
    source = "sglang, srt/utils/common.py, get_available_gpu_memory"
    return [observed("the server's processes in shared memory", "outside the allocator", _HOSTED, source, "observed")]


def _fitting(rest: int, cell: float, chosen: Options) -> int | None:
    """Return tokens of a pool in what is left, no more than are asked for (model_runner.py, `max_total_tokens`)."""
    if not cell:
        return None
    fits = int(rest / cell)
    return (fits if chosen.most is None else min(fits, chosen.most)) // chosen.page * chosen.page


def _state(parts: Sequence[CacheSpec]) -> int:
    return sum(part.bytes for part in parts if part.kind == "state")


def _cell(parts: Sequence[CacheSpec], *, windowed: bool) -> int:
    """Return bytes of a token in one of the two pools."""
    kinds = ("sliding",) if windowed else ("full", "latent", "chunked")
    found = sum(part.bytes for part in parts if part.kind in kinds)
    alone = not any(part.kind in ("full", "latent", "chunked") for part in parts)
    # Where all layers have windows there is one pool.
    return (0 if windowed else found or _windows(parts)) if alone else found


def _windows(parts: Sequence[CacheSpec]) -> int:
    return sum(part.bytes for part in parts if part.kind == "sliding")


def _with_pools(job: ServingJob, chosen: Options, rank: _Rank, tokens: int | None) -> RankBudget:
    slots = rank.states // chosen.slots_each if rank.states else None
    length, number, ranks = job.basics.max_model_len, chosen.number, groups(job.basics.layout)
    requests = running(tokens or 0, length, chosen.requests, number, slots) if tokens else chosen.requests or 1
    entries = [*rank.weights, *_running(job, replace(chosen, graphs=min(chosen.graphs, requests)), rank.stage)]
    entries += [places(job, requests, ranks, number), *_hosted(job)]
    entries += context_and_nccl(job.accelerator, job.num_gpus)
    if tokens:
        for title, windowed, share in (("token pool", False, 1.0), ("window pool", True, chosen.window_ratio)):
            cell = _cell(rank.parts, windowed=windowed)
            if cell and rank.compressed is None:
                sizes = {"tokens": int(tokens * share), "cell": cell}
                entries.append(tensor(title, "KV cache", ("tokens", "cell"), 1, sizes, _POOLS))
    if rank.states:
        sizes = {"slots": rank.states + 1, "state": _state(rank.parts)}
        entries.append(tensor("state pool", "recurrent states", ("slots", "state"), 1, sizes, _POOLS))
    if rank.checked:
        text = "a state for each token that is checked, of each request"
        entries.append(
            Entry(title="states of drafts", category="recurrent states", each=rank.checked, text=text, source=_POOLS)
        )
    if tokens and rank.compressed is not None:
        entries += rank.compressed.entries(tokens, chosen.window_ratio)
    count = job.basics.layout.tensor * job.basics.layout.data
    return RankBudget(
        name="",
        count=count,
        ledger=ledger(entries),
        available=rank.available,
        uncertain=rank.uncertain,
        spread=spread(entries),
    )


def _running(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return what a step needs in addition to the static part; graphs as SGLang itself reserves for them."""
    sizes = {**job.basics.sizes, "T": chosen.chunk, "R": min(chosen.graphs, chosen.chunk), "C": chosen.chunk}
    stored = job.basics.stored
    step = Step(
        model=job.model,
        dtype=job.basics.dtype,
        sizes=sizes,
        sampler=8,
        format=stored.format if stored else None,
        allocates_in_experts=chosen.expert_kernels.startswith("flashinfer"),
        gathered=1 if chosen.deepep or chosen.slots else groups(job.basics.layout),
    )
    sampled = replace(
        step, sizes={**sizes, "R": sizes["R"] * (step.gathered if gathers_logits(job.basics.layout) else 1)}
    )
    peak = max(
        [widest(step, stage), sampling(sampled) if stage.samples else []], key=lambda each: sum(e.bytes for e in each)
    )
    prompts = chosen.chunk if chosen.prefill_graphs else 0
    largest, number = chosen.graphs if chosen.captures else 0, chosen.number
    late = chosen.deepep in ("auto", "low_latency") and "E" in sizes
    captured = []
    if prompts or largest:
        captured = graphs(
            job,
            stage,
            step,
            largest=largest,
            prompts=prompts,
            number=number,
            kept_for_requests=tables(job, stage, largest, chosen.page, number),
            received=received(sizes, 1 if stored else 2, chosen.dispatched) if late else 0,
        )
    kept = [] if step.allocates_in_experts else expert_workspace(step, stage)
    fused = [] if chosen.deepep or chosen.slots else fused_sums(job, number)
    return [*kept, *peak, *captured, *fused, *_exchanged(job, chosen)]


_KERNELS, _SHARED = 140 * MiB, int(2.5 * GiB)
"""Kernels that loading needs, fitted to 21 logs (19 have at most 126 MiB more than the checkpoint), and what the host's
processes take or give back meanwhile where they share the GPU's memory, fitted to three (-2.4 to 0.3 GiB)."""


def _free_before_and_after(job: ServingJob) -> tuple[int, int]:
    """How much less and how much more weights can seem, which SGLang reads by what is free before and after."""
    if integrated(job.accelerator):
        return _SHARED, _SHARED
    more = _MORE if job.basics.model.network.family == _UNEXPLAINED else _KERNELS
    return (_DESKTOP, max(_DESKTOP, more)) if desktop(job.accelerator) else (0, more)


def _pool(job: ServingJob, chosen: Options, found: list[_Rank], tokens: int | None) -> Pool | None:
    parts = max((rank.parts for rank in found), key=lambda each: sum(part.bytes for part in each))
    windows = [part.window for part in parts if part.kind == "sliding"]
    both = bool(windows) and any(part.kind in ("full", "latent") for part in parts)
    slots = min((rank.states for rank in found if rank.states), default=0)

    def needed(length: int) -> int:
        whole = round_up(length, chosen.page)
        need = max(whole, -int(-min(whole, max(windows)) // chosen.window_ratio)) if both else whole
        return max(need, -(-(tokens or 0) // slots)) if slots else need

    if not any(part.kind != "state" for part in parts):
        return None
    cell = _cell(parts, windowed=False) + int(chosen.window_ratio * _cell(parts, windowed=True))
    if found[0].compressed is not None:
        cell = max(int(rank.compressed.each(chosen.window_ratio)) for rank in found if rank.compressed is not None)
    tightest = min(found, key=lambda rank: rank.available or 0)
    room = tightest.available or 0
    if chosen.states is not None:  # slots that are asked for are there whatever else takes
        room -= (tightest.states + 1) * _state(tightest.parts)
    less, more = (side / room if room > 0 else 0 for side in tightest.uncertain)
    return Pool(
        capacity=tokens,
        needed=needed,
        unit="tokens",
        tokens=tokens,
        bytes_each=cell,
        replicas=job.basics.layout.data,
        capacity_low=int((tokens or 0) * max(1 - less, 0)),
        capacity_high=int((tokens or 0) * (1 + more)),
    )


_SPEED = Pace(
    late=Kernels(share=0.85, layer=75e-6),
    former=Kernels(share=0.85, layer=110e-6, unpacking=30e-6),
    rows=True,
    prompts=True,
    latent=9,
)
"""As published rates have it.

Qwen3's models on an H20 (QwenLM/Qwen3, docs/source/getting_started/speed_benchmark.md). DeepSeek-R1 on H200s, B200s and
B300s takes as long as the same formula says (SemiAnalysisAI/InferenceX, pull requests 3173, 3175, 3183 and 3363).
"""
SERVER = Server(
    name="sglang",
    title="SGLang",
    options=options,
    budget=budget,
    oldest=(7, 5),  # srt/model_executor/model_runner_components/load_model_utils.py: "only supports sm75 and above"
    amd=("gfx942", "gfx950", "gfx1250"),  # python/sglang/kernels/aot/setup_rocm.py refuses others
    parallel=frozenset({"tensor", "pipeline", "data"}),
    lays_out=lays_out,
    data_within=SglangSettings.enable_dp_attention,
    too_long=too_long,
    shortens=True,  # sglang, srt/managers/tp_worker.py, max_req_len
    logs_draft_apart=True,
    described=(Fraction(6, 1000), Fraction(2, 100)),  # what is free before and after, with kernels that loading needs
    seems=_free_before_and_after,
    reads_cache_format=_reads_cache_format,
    state_dtype="fp32",  # sglang, srt/configs/mamba_utils.py, mamba2_state_dtype
    states_in=SglangSettings.mamba_ssm_dtype,
    extends_states=False,  # sglang, srt/mem_cache/memory_pool.py: states after each token are kept apart
    pools_every_layer=True,  # sglang, srt/mem_cache/memory_pool.py: `layer_num` buffers
    speed=_SPEED,
    changes=(
        AS_USERS,
        larger_share(Share(SglangSettings.mem_fraction_static)),
        fewer_tokens(SglangSettings.chunked_prefill_size),
        *PAGED,
    ),
)
