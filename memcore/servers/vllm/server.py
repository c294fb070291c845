"""vLLM: a share of the GPU is asked for, weights and the widest step are measured, and the cache gets what is left.

Source: vllm, v1/worker/gpu_worker.py (determine_available_memory), utils/mem_utils.py (memory_profiling),
v1/core/kv_cache_utils.py; worker/worker.py before 0.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.hardware import HOPPER, matmul_workspaces
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.records import dataclass
from memcore.servers.vllm.adapters import adapters
from memcore.servers.vllm.compressed import compressed, kernel_heads
from memcore.servers.vllm.defaults import keeps, loads, options
from memcore.servers.vllm.experts import (
    PLAIN_BLACKWELL,
    TRTLLM,
    flashinfer_experts,
    major,
    mxfp4_tile,
    own_kernels,
    padded_experts,
    ranks_seen,
    shares_experts,
    sorting_experts,
    taken_at_once,
)
from memcore.servers.vllm.graphs import FIRST_START, Graphs, captured, first_start, graphs, recurrent
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.paging import Pages, Paging, grain, page
from memcore.servers.vllm.platforms import (
    UNSEEN,
    VIEWS,
    connecting,
    copied,
    elsewhere,
    exchanged,
    loaded_besides,
    offloaded,
    projections,
    scaled_by_row,
    shown_loading,
    unseen_tower,
)
from memcore.servers.vllm.settings import VllmSettings
from memcore.servers.vllm.sparse import gathered, profiled_scores, step_buffers, without_kernels
from memcore.servers.vllm.speed import SPEED
from memcore.servers.vllm.stacks import STACKS, notes_of, spread_over, stack_of
from memcore.servers.vllm.startup import Start, fails, refusals, too_long
from memcore.servers.vllm.versions import NEWEST
from memcore.serving import counted_towers
from memcore.serving.adapters import ADAPTERS
from memcore.serving.budget import Budget, Pool, RankBudget, of_stages
from memcore.serving.changes import AS_USERS, PAGED, Becomes, ServerChange, fewer_tokens, shares
from memcore.serving.checkpoint import MODEL_OPT, text_config
from memcore.serving.devices import device_of, integrated, switched
from memcore.serving.encoder import encoding, kept_images, limited, shown
from memcore.serving.entries import ledger, observed, spread, tensor
from memcore.serving.formats import BYTES
from memcore.serving.inference import Inference
from memcore.serving.job import Server, ServingJob
from memcore.serving.outside_allocator import context_and_nccl, uncertainty
from memcore.serving.profile import (
    ACTIVATIONS,
    FLUSHED,
    HEADS,
    WORKSPACES,
    Step,
    compresses,
    expert_workspace,
    passing,
    pooling,
    sampling,
    widest,
)
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.stages import Stage, merged_stages
from memcore.serving.weights import unsplit
from memcore.symbols import round_up
from memcore.units import GiB, format_bytes

_TOWER = "hidden states of the tower"
_LOGS = "start-up logs of vLLM 0.19.0 on H100 (jgchn/llm-d-planner)"


def budget(job: ServingJob) -> Budget:
    """Return what each rank holds."""
    chosen, basics = job.chosen(Options), job.basics
    groups = merged_stages(basics.model, basics.layout.pipeline, basics.stored)
    found = [_rank(job, chosen, stage) for stage, *_ in groups]
    blocks = _blocks(found)
    ranks = of_stages(groups, [_with_cache(rank, blocks) for rank in found])
    line = ceil(basics.capacity * chosen.utilization) if basics.capacity is not None else None
    return Budget(
        ranks=ranks,
        pool=_pool(job, chosen, found),
        line=None if chosen.cache_bytes else line,
        line_title=f"gpu_memory_utilization {chosen.utilization:g}",
        notes=_notes(job, chosen, found),
    )


@dataclass(frozen=True, kw_only=True)
class _Rank:
    """A rank before the cache is shared out."""

    entries: tuple[Entry, ...]
    paging: Paging
    available: int | None
    uncertain: tuple[int, int]
    """How much less and how much more that can be."""
    spread: tuple[int, int]
    count: int
    printed: Range
    """What the server prints as its peak activation memory."""
    estimated: Range | None
    """What it estimates graphs to take."""


def _rank(job: ServingJob, chosen: Options, stage: Stage) -> _Rank:
    basics = job.basics
    weights, moved = _weights(job, chosen, stage)
    stack = stack_of(basics)
    profiled = [*_kept(job, chosen, stage), *_states(job, chosen, stage), *_peak(job, chosen, stage)]
    profiled = profiled if stack.profiles else []
    if moved and chosen.facts.since < VIEWS:
        profiled.append(copied(job, stage))
    libraries = _libraries(job, chosen)
    sent = exchanged(job, chosen)
    capture = Graphs() if not (chosen.captures and stack.captures) else graphs(job, chosen, stage, _step(job, chosen))
    recorded = [*capture.entries]
    outside = context_and_nccl(job.accelerator, job.num_gpus)
    counts = _counts(job, chosen, stage)
    if chosen.facts.buffers_inside:
        profiled += counts
    else:
        outside += counts
    outside += connecting(job, chosen, stage)
    if chosen.facts.late_adapters:
        outside += [replace(each, category=WORKSPACES) for each in weights if each.category == ADAPTERS]
        weights = [each for each in weights if each.category != ADAPTERS]
    estimated = []
    if capture.estimated is not None and chosen.graphs_inside:
        estimated.append(observed("captured graphs", "CUDA graphs", capture.estimated, "", ""))
    within = [*weights, *profiled, libraries, *sent, *estimated]
    if chosen.facts.whole_device:
        within += outside
    available = None
    if chosen.cache_bytes is not None:
        available = chosen.cache_bytes
    elif basics.capacity is not None:
        available = ceil(basics.capacity * chosen.utilization) - sum(entry.bytes for entry in within)
    unplanned = [entry for entry in (*recorded, *outside) if entry not in within]
    pages = Pages(
        block_size=chosen.block_size,
        max_model_len=basics.max_model_len,
        in_flight=chosen.tokens * _steps_under_way(job, chosen),
        hybrid=chosen.hybrid,
        states=chosen.states,
        alignment=stack.alignment or grain(chosen.facts.since, chosen.block_size, latent="lk" in basics.sizes),
        keys_alone=stack.alignment is not None,
    )
    return _Rank(
        entries=(*weights, *profiled, libraries, *sent, *recorded, *outside),
        paging=_paging(job, chosen, stage, pages),
        available=available,
        uncertain=_uncertain(job, chosen, stage, profiled, within),
        spread=spread(unplanned),
        count=basics.layout.tensor * basics.layout.data,
        printed=_printed(chosen, profiled, estimated),
        estimated=capture.estimated,
    )


def _weights(job: ServingJob, chosen: Options, stage: Stage) -> tuple[list[Entry], int]:
    """Return a rank's weights and slots of adapters that stay on the GPU, and the bytes that stay on the host."""
    weights = rank_weights(
        job,
        stage,
        blocks=chosen.facts.rounded_weights,
        whole=chosen.facts.unsplit,
        directions=chosen.facts.directions,
        deep=chosen.tokens,
        tile=mxfp4_tile(job, chosen),
        towers=chosen.images or not chosen.facts.skips_towers,
        products=chosen.facts.absorbs,
    )
    slots = list(adapters(job, chosen, stage))
    if slots and chosen.facts.rounded_weights and not job.config[EngineSettings.expandable_segments]:
        slots.append(unsplit(slots, ADAPTERS, chosen.facts.unsplit))
    weights += [*loaded_besides(job, chosen, stage), *step_buffers(job, chosen, stage)]
    weights = scaled_by_row(job.basics, spread_over(job.basics, [*weights, *slots]))
    held, moved = offloaded(job, chosen, stage, weights)
    return [*held, *padded_experts(job, chosen, held), *shown_loading(job, chosen, stage)], moved


_ASYNC_METHODS = frozenset({"mtp", "eagle", "eagle3", "dflash"})
"""Methods of speculation with which the next step is scheduled while one runs (`EagleModelTypes`)."""


def _steps_under_way(job: ServingJob, chosen: Options) -> int:
    """Steps whose tokens hold blocks of a sequence (config/vllm.py, `max_concurrent_batches`)."""
    stages, speculation = job.basics.layout.pipeline, job.basics.speculation
    if not chosen.facts.settles_late:
        return 1
    ahead = speculation is None or speculation.method in _ASYNC_METHODS
    return stages + (ahead and (chosen.runner is not None or stages == 1))


_ENCODED = int(0.8 * GiB)
"""What logs of Qwen's towers have more while the largest image is encoded, 0.2 to 0.8 GiB, and what -0.12 GiB for the
cache of Qwen3.6-35B-A3B-NVFP4 on an RTX 5090 needs; which tensors these are is not known."""
_FEWER = int(0.6 * GiB)
"""What logs of Qwen's towers have less: 0.5 GiB on two and four RTX 3090, so far without a known reason."""
_FILMED_AT_ONCE = (0, 22)
"""Since then Gemma 4's tower encodes frames together (gemma4_mm.py, _encoder_chunk)."""
_SHARED = 0.5
"""Shares of a GPU below which something else is likely to run on it."""


def _uncertain(
    job: ServingJob, chosen: Options, stage: Stage, profiled: Sequence[Entry], within: Sequence[Entry]
) -> tuple[int, int]:
    """How much less the cache may get, also for reasons that no source has (images, other processes), and more."""
    lower, higher = uncertainty((entry for entry in within if entry.title != FIRST_START), job.basics.capacity)
    raw = job.basics.raw
    higher += sum(entry.high - entry.bytes for entry in within if entry.title == FIRST_START)
    # A start is the first one or it is not: that does not even out with the rest.
    open_ones = [entry for entry in within if entry.title == FIRST_START and entry.low < entry.bytes]
    if open_ones:
        lower += sum(entry.bytes - entry.low for entry in open_ones)
        lower += sum(entry.bytes for entry in profiled if entry.title == FLUSHED)
    if chosen.facts.flashinfer_samples:
        facts = replace(chosen.facts, sampler=8)
        lower += _bytes(_peak(job, chosen, stage)) - _bytes(_peak(job, replace(chosen, facts=facts), stage))
    if any(entry.title == _TOWER for entry in profiled) or (_encodes(chosen, stage) and counted_towers.known(raw)):
        higher += _ENCODED
        lower += _FEWER
    if chosen.facts.whole_device and chosen.utilization < _SHARED:
        higher += int((job.capacity or 0) * (1 - chosen.utilization))
    return higher + (UNSEEN if unseen_tower(job, chosen) else 0), lower


def _printed(chosen: Options, profiled: Sequence[Entry], estimated: Sequence[Entry]) -> Range:
    """Return bytes that the log calls peak activation.

    Until 0.26 the most that PyTorch's allocator handed out beyond the weights; since 0.27 what of it is free again once
    profiling has ended, and the estimate of graphs (v1/worker/gpu_worker.py, determine_available_memory).
    """
    found = profiled
    if chosen.facts.buffers_inside:
        found = [*(entry for entry in profiled if entry.category == ACTIVATIONS), *estimated]
    return Range(sum(each.low for each in found), _bytes(found), sum(each.high for each in found))


def _states(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """What the former engine keeps of recurrent layers for all sequences, not in its blocks; padded like its graphs."""
    each = sum(part.bytes for layer in cached_layers(job, stage) for part in layer if part.kind == "state")
    if chosen.facts.server_batches or not each:
        return []
    sizes = {"seqs": chosen.sequences if chosen.eager else round_up(chosen.sequences, 8), "state": each}
    source = "vllm, model_executor/models/mamba_cache.py, MambaCacheManager (0.10.1)"
    return [tensor("recurrent states of all sequences", WORKSPACES, ("seqs", "state"), 1, sizes, source)]


def _paging(job: ServingJob, chosen: Options, stage: Stage, pages: Pages) -> Paging:
    """Blocks of a stage's layers."""
    text = text_config(job.basics.raw)
    ratios, window = text.get("compress_ratios"), text.get("sliding_window")
    head, index = text.get("head_dim"), text.get("index_head_dim")
    if not isinstance(ratios, Sequence) or not isinstance(window, int):
        layers = cached_layers(job, stage)
        if not chosen.facts.server_batches:
            layers = [tuple(part for part in layer if part.kind != "state") for layer in layers]
        return page([layer for layer in layers if layer], pages)
    own = [each for each in stage.part_of(ratios) if isinstance(each, int)]
    proposing = job.basics.speculation
    if stage.samples and proposing is not None and proposing.layer is not None:
        own += [0] * proposing.layers  # a window alone: `compress_ratios` of a layer behind the others
    sizes = {"head": head or job.basics.sizes["d"], "index": index or 128, "window": window}
    # Packed unless 16 bits are asked for (vllm 0.27, models/deepseek_v4/attention.py, _resolve_dsv4_kv_cache_dtype).
    packed = (job.config[Inference.kv_cache_dtype] or "auto").startswith(("auto", "fp8"))
    return compressed(own, sizes, pages, packed=packed)


def _step(job: ServingJob, chosen: Options) -> Step:
    basics = job.basics
    sequences = min(chosen.sequences, chosen.tokens)
    inside = chosen.facts.keeps_expert_workspace and flashinfer_experts(job, chosen)
    widest_context = min(max(8 * basics.max_model_len, 4 * chosen.sequences * chosen.block_size), 65536)
    sizes = {
        **basics.sizes,
        "T": chosen.tokens,
        "R": sequences * (2 if basics.speculation else 1),
        "C": max(widest_context, chosen.sequences * chosen.block_size),
        "Tc": taken_at_once(job, chosen),
        HEADS: kernel_heads(basics.sizes["a"] // basics.layout.tensor, major(job)) if "a" in basics.sizes else 0,
    }
    sampled = stack_of(basics).samples
    sampler = chosen.facts.sampler if chosen.runner is None else chosen.runner.sampler
    return Step(
        model=basics.model,
        dtype=basics.dtype,
        sizes=sizes,
        sampler=sampler if sampled else 0,
        copies_logits=sampled and (chosen.runner is None or chosen.runner.copies_logits),
        format=basics.stored.format if basics.stored else None,
        allocates_in_experts=inside,
        sorts_in_experts=chosen.facts.keeps_expert_workspace and sorting_experts(job, chosen),
        benchmark=device_of(basics.accelerator).cache if _times(chosen) else 0,
        scores=profiled_scores(chosen),
        chunk=taken_at_once(job, chosen),
        gathered=ranks_seen(job, chosen),
    )


def _times(chosen: Options) -> bool:
    """Return whether inductor times kernels in the profiling run, and clears the second-level cache for it."""
    return not chosen.eager and chosen.facts.server_batches and chosen.compiled is not True


def _counts(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return what the second model runner keeps for penalties, whether a request has any or not.

    How often each token was generated, and a bit for each token of the prompt. Before 0.27 profiling does not see it.
    """
    if chosen.runner is None or not stage.samples or chosen.pooling:
        return []
    source, sizes = "vllm, v1/worker/gpu/sample/penalties.py", {**job.basics.sizes, "seqs": chosen.sequences}
    return [
        tensor("counts of generated tokens", WORKSPACES, ("seqs", "V"), 4, sizes, source),
        tensor("mask of prompt tokens", WORKSPACES, ("seqs", "V"), Fraction(1, 8), sizes, source),
    ]


def _kept(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return what profiling allocates and does not free."""
    basics, step = job.basics, _step(job, chosen)
    found = [
        Entry(
            title=name.replace("_", " "),
            category=WORKSPACES,
            each=size,
            text="by compute capability",
            source="pytorch, aten/src/ATen/cuda/CUDABlas.cpp",
        )
        for name, size in matmul_workspaces(basics.accelerator)
    ]
    if chosen.facts.masks_with_triton and stage.samples and not chosen.pooling:
        sizes = {**step.sizes, "SM": device_of(basics.accelerator).multiprocessors}
        source = "vllm, v1/sample/ops/topk_topp_triton.py"
        found.append(tensor("logits rows for the top-k kernel", WORKSPACES, ("SM", "V"), 4, sizes, source))
    if stage.samples and basics.speculation is not None and basics.speculation.method == "dflash":
        found += projections(basics)
    if not stage.embeds:
        source = "vllm, v1/worker/gpu_model_runner.py, intermediate_tensors"
        found.append(
            tensor(
                "received hidden states and residual",
                WORKSPACES,
                ("T", "h"),
                BYTES[basics.dtype],
                step.sizes,
                source,
                copies=2,
            )
        )
    if chosen.facts.keeps_expert_workspace and not own_kernels(job, chosen):
        brought = expert_workspace(step, stage)
        if brought and flashinfer_experts(job, chosen):
            # TensorRT-LLM's kernels need no tensor of vLLM, CUTLASS's one for the result (workspace_shapes).
            title, result = "experts' result", ("T", "h")
            source = "vllm, model_executor/layers/fused_moe/experts/flashinfer_cutlass_moe.py, workspace_shapes"
            brought = [tensor(title, WORKSPACES, result, BYTES[basics.dtype], step.sizes, source)]
            keeps = major(job) == PLAIN_BLACKWELL if chosen.experts == "auto" else chosen.experts != TRTLLM
            brought = brought if keeps else []
        found += max(brought, gathered(job, chosen, stage), key=_bytes)
    if chosen.facts.buffers_inside:
        rows = -(-basics.max_model_len // chosen.block_size)
        source = "vllm, v1/worker/block_table.py"
        sizes = {"seqs": chosen.sequences, "blocks": rows}
        found.append(tensor("block tables", WORKSPACES, ("seqs", "blocks"), 4, sizes, source))
    return found


def _peak(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return the widest moment of profiling."""
    basics, step = job.basics, _step(job, chosen)
    copied, encodes = chosen.facts.copies_images, _encodes(chosen, stage)
    seen, longest = None, basics.max_model_len
    if encodes:
        seen = shown(basics.model, basics.raw, longest, stamped=copied and chosen.videos, pixels=chosen.pixels)
        seen = limited(seen, longest, chosen.sequences, chosen.most_images)
    images = kept_images(basics.model, basics.dtype, chosen.tokens, seen, copied=copied)
    if _encodes(chosen, stage):
        images += counted_towers.kept(basics.raw, basics.sizes["h"], basics.dtype, chosen.tokens)
    last = pooling(step) if chosen.pooling else sampling(step)
    moments = [widest(step, stage), last if stage.samples else passing(step)]
    moments = [[*images, *moment] for moment in moments]
    if seen is not None:
        masks, ranks = chosen.facts.masks_images, basics.layout.tensor
        moments.append(encoding(basics.model, basics.dtype, chosen.tokens, ranks, seen, masks=masks))
    if _encodes(chosen, stage):
        moments.append(counted_towers.encoding(basics.raw, basics.dtype, chosen.tokens, basics.layout.tensor))
        if chosen.facts.since >= _FILMED_AT_ONCE:
            moments.append(counted_towers.filming(basics.raw, basics.dtype, chosen.tokens, basics.capacity))
    found = max(moments, key=_bytes)
    return [*found, *first_start(job, chosen, stage, _bytes(found))]


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _encodes(chosen: Options, stage: Stage) -> bool:
    """Return whether profiling encodes images."""
    return chosen.encodes and stage.embeds and (chosen.runner is None or chosen.runner.images)


_HOSTED, _PLAIN = Range(0, int(4.9 * GiB), int(20.1 * GiB)), Range(-GiB, int(0.95 * GiB), 3 * GiB)
"""What the processes and compilers of such a start take of the host's memory while profiling runs, and what those of
one GPU without recurrent layers do, whose kernels Triton need not tune: 0.4 to 12 GiB in 19 of 20 starts on GB10 since
0.19, and 0.9 to 1.5 in 12 of 15 others. File cache counts as free there (vllm, utils/mem_utils.py,
MemorySnapshot.measure: `psutil.virtual_memory().available` where the GPU is integrated)."""


def _libraries(job: ServingJob, chosen: Options) -> Entry:
    """Return what profiling takes outside the allocator: kernels that are loaded, communicators that are opened.

    Where the GPU shares the host's memory, what the compilers' processes take while profiling runs counts as well
    (eugr/spark-vllm-docker, pull request 286); eager starts have none.
    """
    several = job.basics.layout.tensor > 1 or shares_experts(job)
    told, hosted = stack_of(job.basics).while_profiling, stack_of(job.basics).hosted and integrated(job.accelerator)
    if told is not None:
        bounds, text = told, "few measured starts on this kind of accelerator are known"
    elif hosted and not chosen.eager and not several and not recurrent(job):
        bounds, text = _PLAIN, "observed 0.9 to 1.5 GiB in 12 of 15 starts of networks without recurrent layers"
    elif hosted and chosen.facts.profiles_graphs and not chosen.eager:
        bounds = _HOSTED
        text = "observed 0.4 to 12 GiB in 19 of 20 starts (median 4.9), including the processes that compile and serve"
    elif hosted:
        bounds = Range(int(-4.8 * GiB), int(0.25 * GiB), int(20.1 * GiB))
        text = "observed -4.8 to +20.1 GiB: other programs on the host and its file cache count too"
    elif several and not switched(job.accelerator):
        bounds = Range(int(0.02 * GiB), int(0.2 * GiB), int(0.75 * GiB))
        text = "observed 0.02 to 0.75 GiB without an NVLink switch; NCCL is initialized before the first measurement"
    elif several and not chosen.facts.opens_more:
        bounds = Range(int(0.4 * GiB), int(GiB), int(2.3 * GiB))
        text = "observed 0.55 to 2.1 GiB with 2 to 8 ranks before 0.12"
    elif several and (
        chosen.eager or any(compresses(mixer) for layer, _ in job.model.layers for mixer in layer.mixers)
    ):
        # The pass that fuses all-reduce with norms, and its buffers, belong to what is compiled: not DeepSeek-V4.
        bounds = Range(int(-0.1 * GiB), int(0.85 * GiB), int(2.4 * GiB))
        text = "observed 0.8 to 0.9 GiB in three eager starts with 8 ranks, and less with 2"
    elif several:
        bounds = Range(int(1.8 * GiB), int(2.1 * GiB), int(2.4 * GiB))
        text = "observed 2.07 to 2.21 GiB with 2 and 4 ranks"
    else:
        bounds, text = _alone(job, chosen)
    title = "kernels and communicators loaded while profiling"
    return observed(title, "outside the allocator", bounds, _LOGS, text, "vLLM calls it non-torch memory")


def _alone(job: ServingJob, chosen: Options) -> tuple[Range, str]:
    """What a single GPU takes: FlashAttention 3's kernels are Hopper's alone, and later ones sample with more."""
    if chosen.facts.whole_device:
        return (
            Range(int(-0.1 * GiB), 0, int(0.4 * GiB)),
            "observed nothing beyond the CUDA context, which is already counted",
        )
    former, hopper = chosen.facts.since < (0, 20), major(job) == HOPPER
    if former and hopper:
        return Range(int(-0.1 * GiB), int(0.15 * GiB), int(0.4 * GiB)), "observed -0.1 to 0.37 GiB, 0.16 on most H100"
    if former:
        text = "observed -0.04 to 0.18 GiB on GPUs other than Hopper"
        return Range(int(-0.1 * GiB), int(0.03 * GiB), int(0.4 * GiB)), text
    usual = 0.25 if hopper else 0.13
    return Range(int(0.06 * GiB), int(usual * GiB), int(0.46 * GiB)), "observed 0.07 to 0.46 GiB"


def _blocks(found: list[_Rank]) -> int | None:
    """Blocks of every rank: as many as the one with the least room has."""
    counts = [rank.paging.count(rank.available) for rank in found if rank.available is not None and rank.paging.block]
    return min(counts, default=None)


def _with_cache(rank: _Rank, blocks: int | None) -> RankBudget:
    entries = list(rank.entries)
    if blocks:
        states = any(group.spec.kind == "state" for group in rank.paging.groups)
        entries.append(
            tensor(
                "pool of blocks for tokens and states" if states else "pool of blocks",
                "KV cache",
                ("blocks", "block bytes"),
                1,
                {"blocks": blocks, "block bytes": rank.paging.block},
                "vllm, v1/core/kv_cache_utils.py",
                because=Message("blocks of {} tokens, in the rest of the budget", rank.paging.block_size),
            )
        )
    return RankBudget(
        name="",
        count=rank.count,
        ledger=ledger(entries),
        available=rank.available,
        uncertain=rank.uncertain,
        spread=rank.spread,
        printed=rank.printed,
        graphs_estimated=rank.estimated,
    )


def _pool(job: ServingJob, chosen: Options, found: list[_Rank]) -> Pool | None:
    paging = max((rank.paging for rank in found), key=lambda each: each.block)
    if not paging.groups:
        return None
    blocks, shared = _blocks(found), job.basics.layout.context

    def needed(length: int) -> int:
        return paging.needed(-(-length // shared))

    states = any(group.spec.kind == "state" for group in paging.groups)
    least = _least(chosen) if states else 0
    low, high = blocks or 0, blocks or 0
    if blocks is not None and chosen.cache_bytes is None:
        sides = [(r.available or 0, *r.uncertain, r.paging) for r in found if r.paging.block]
        low = min(each.count(room - less) for room, less, _, each in sides)
        high = min(each.count(room + more) for room, _, more, each in sides)
    start = _start(job, chosen, found)
    if start is not None and blocks is not None and fails(start):
        least = high + max(start.profiled, 1)
    other = None
    if blocks is not None and job.config[EngineSettings.version] is None:
        older = replace(
            chosen, facts=replace(chosen.facts, tokens_by_concurrency=not chosen.facts.tokens_by_concurrency)
        )
        other = _tokens(job, older, paging, blocks)
    return Pool(
        capacity=blocks,
        tokens_otherwise=other,
        needed=needed,
        unit="blocks",
        tokens=None if blocks is None else _tokens(job, chosen, paging, blocks),
        bytes_each=paging.block,
        least=least,
        replicas=job.basics.layout.data,
        capacity_low=low,
        capacity_high=high,
    )


def _tokens(job: ServingJob, chosen: Options, paging: Paging, blocks: int) -> int:
    """`GPU KV cache size` in the log."""
    if chosen.facts.tokens_by_concurrency:
        length = -(-job.basics.max_model_len // job.basics.layout.context)
        longest = paging.needed(length) if chosen.facts.tokens_by_blocks else paging.logged(length)
        return int(blocks / max(longest, 1) * job.basics.max_model_len)
    return blocks // len(paging.groups) * paging.block_size * job.basics.layout.context


def _start(job: ServingJob, chosen: Options, found: list[_Rank]) -> Start | None:
    """Return what vLLM checks when it starts, on the rank with the least room."""
    rank = min(found, key=lambda each: each.paging.count(each.available or 0))
    if job.capacity is None or rank.available is None or not rank.paging.block:
        return None
    states = any(group.spec.kind == "state" for group in rank.paging.groups)
    paging, blocks, longest = rank.paging, _blocks(found) or 0, job.basics.max_model_len
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if paging.needed(middle) <= blocks else (low, middle - 1)
    outside = sum(entry.bytes for entry in context_and_nccl(job.accelerator, job.num_gpus))
    return Start(
        release=release(job.config[EngineSettings.version] or NEWEST),
        capacity=job.capacity,
        item=chosen.item,
        tokens=chosen.tokens,
        utilization=chosen.utilization if chosen.cache_bytes is None and chosen.facts.checks_free else 0,
        before=outside,
        held=sum(entry.bytes for entry in rank.entries if entry.category in _STAYING),
        graphs=sum(entry.low for entry in rank.entries if entry.category == "CUDA graphs"),
        available=rank.available,
        block=paging.block,
        blocks=blocks,
        longest=longest,
        needed=paging.needed(-(-longest // job.basics.layout.context)),
        fits=low,
        least=_least(chosen) if states else 0,
        profiled=_profiled(job, chosen) if states and chosen.cache_bytes is None else 0,
    )


_STAYING = frozenset({"weights", "draft model", "adapters", "workspaces"})
"""Categories of what is there when graphs are profiled."""


def _least(chosen: Options) -> int:
    """Blocks without which graphs of recurrent layers are not captured."""
    return min(chosen.sequences, chosen.tokens) if chosen.facts.checks_states and chosen.captures else 0


def _profiled(job: ServingJob, chosen: Options) -> int:
    """Blocks of the cache with which graphs are profiled (_init_minimal_kv_cache_for_profiling)."""
    if not chosen.captures or not chosen.facts.profiles_graphs:
        return 0
    largest = max([size for sizes in captured(job, chosen) for size in sizes], default=1)
    return min(largest, chosen.sequences) if chosen.facts.profiles_few else largest


def _notes(job: ServingJob, chosen: Options, found: list[_Rank]) -> tuple[str, ...]:
    notes = []
    if not chosen.graphs_inside and chosen.captures:
        second = "before vLLM 0.29, its second model runner does not count CUDA graphs in the budget"
        first = "before vLLM 0.20, CUDA graphs are not counted in the budget"
        told = "with VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, CUDA graphs are not counted in the budget"
        left_out = job.config[VllmSettings.estimate_cudagraphs] is False
        notes.append(told if left_out else second if chosen.facts.graphs_inside else first)
    estimates = [rank.estimated.expected for rank in found if rank.estimated is not None and chosen.graphs_inside]
    if estimates:
        said = "vLLM estimates CUDA graphs at {} before it captures them; the KV cache gets none of that"
        notes.append(Message(said, format_bytes(max(estimates))))
    if job.num_gpus > 1 and switched(job.accelerator) and chosen.facts.opens_more and not chosen.eager:
        notes.append("with several ranks, 2 GiB of communicators (observed, not derived)")
    if chosen.facts.whole_device:
        notes.append("this release counts what other processes hold on the GPU against gpu_memory_utilization")
    starts = [entry for rank in found for entry in rank.entries if entry.title == FIRST_START]
    more = max((entry.bytes - entry.low for entry in starts), default=0)
    if more:
        said = (
            "a later start, with compiled graphs in vLLM's cache, leaves up to {} more for the KV cache; "
            "to narrow the range, set engine.compile_cache: false for first starts, true for later ones"
        )
        notes.append(Message(said, format_bytes(more)))
    stored, version = job.basics.stored, release(job.config[EngineSettings.version] or NEWEST)
    if stored is not None and stored.format.name in ("nf4", "nf4-double") and version >= _WITHOUT_BNB:
        notes.append("since vLLM 0.28, bitsandbytes is a plugin; install vllm-bnb-plugin")
    notes += [*elsewhere(job, chosen), *without_kernels(job), *notes_of(job.basics)]
    start = _start(job, chosen, found)
    notes += refusals(start) if start is not None else ()
    return tuple(notes)


_WITHOUT_BNB = (0, 28)
"""The first release without `bitsandbytes.py` among its layers/quantization."""
_CACHES = (0, 14)
"""The first release that reads what ModelOpt's checkpoints say of it (utils/torch_utils.py)."""


def _reads_cache_format(read: Defaults, method: str) -> bool:
    """Return whether the cache is in fp8 where the checkpoint has scales for it (layers/attention/attention.py)."""
    version = read.given(EngineSettings.version)
    return not method.startswith(MODEL_OPT) or version is None or release(version) >= _CACHES


SERVER = Server(
    name="vllm",
    title="vLLM",
    options=options,
    loads=loads,
    budget=budget,
    parallel=frozenset({"tensor", "pipeline", "data", "context"}),
    wide_experts=True,  # vllm, docs/serving/data_parallel_deployment.md
    sleeps=True,
    reads_cache_format=_reads_cache_format,
    keeps=keeps,
    asks_for_a_share=True,
    too_long=too_long,
    stacks=frozenset(STACKS),
    oldest=(7, 0),  # vllm, docs/getting_started/installation: "compute capability 7.0 or higher"
    speed=SPEED,
    changes=(
        AS_USERS,
        *shares(VllmSettings.gpu_memory_utilization),
        ServerChange(
            title="No CUDA graphs",
            kind="latency",
            note="kernels launch one by one, which slows small batches most",
            how=Becomes({VllmSettings.enforce_eager: True}),
        ),
        fewer_tokens(VllmSettings.max_num_batched_tokens),
        *PAGED,
    ),
)
