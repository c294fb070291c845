"""TensorRT-LLM: the cache gets a fraction of what is free after weights and activations.

Source: TensorRT-LLM, docs/source/reference/memory.md (5a211b9) and llm_args.py. Activations are planned when the engine
is built or warmed up, for `max_num_tokens`; pipeline stages do not make them smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.hardware import BLACKWELL
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.records import dataclass
from memcore.servers.tensorrt_llm import supported
from memcore.servers.tensorrt_llm.experts import PACKS, deep_gemm_buffers, kernels
from memcore.servers.tensorrt_llm.settings import AUTO, PYTORCH, TENSORRT, TensorRtSettings
from memcore.servers.vllm.paging import Pages, Paging, page
from memcore.serving.all_to_all import one_sided_bytes
from memcore.serving.budget import Budget, Pool, RankBudget, of_stages
from memcore.serving.captures import FORMER, count, kept, summed_by_nccl
from memcore.serving.changes import PAGED, Share, fewer_tokens, larger_share
from memcore.serving.devices import integrated
from memcore.serving.entries import ledger, observed, spread, tensor
from memcore.serving.formats import BYTES
from memcore.serving.inference import METHODS, Inference
from memcore.serving.job import Basics, Server, ServingJob, most_sequences
from memcore.serving.outside_allocator import CATEGORY, context_and_nccl
from memcore.serving.profile import Step, expert_workspace, sampling, widest
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.settings import ServerSettings
from memcore.serving.stages import Layout, Stage, merged_stages
from memcore.serving.weights import CATEGORY as WEIGHTS
from memcore.units import GiB

_SOURCE = "TensorRT-LLM, docs/source/reference/memory.md"
_RUNNER = "TensorRT-LLM, _torch/pyexecutor/cuda_graph_runner.py"
_GRAPHS = 34
"""Graphs where nothing is said of them: batches of 1 to 32, 64 and 128 (llmapi/llm_args.py, `CudaGraphConfig`)."""
_LARGEST = 128
"""Sequences of the largest batch that is captured where nothing is said of it (llmapi/llm_args.py)."""
_PYTORCH = (1, 0)
"""The first release that runs models in PyTorch without being asked."""
_WHOLE = frozenset({"deepseek_v3", "kimi_vl"})
_DEEPSEEK = "TensorRT-LLM, _torch/models/modeling_deepseekv3.py, DeepseekV3Model"
_PROFILE = "TensorRT-LLM, _torch/pyexecutor/_util.py, configure_kv_cache_capacity"
_OUTSIDE: tuple[Range, ...] = (
    Range(int(1.8 * GiB), int(2 * GiB), int(2.2 * GiB)),
    Range(int(3.5 * GiB), int(4.6 * GiB), int(7.5 * GiB)),
    Range(int(6.5 * GiB), int(7.2 * GiB), int(12.4 * GiB)),
)
"""Outside PyTorch on one, two, and more GPUs. Observed in 13 starts of 1.2 and 1.3 on B200 and B300, without the cache
that is there while the step is measured: 1.9 and 2.0, 4.6, 6.8 to 7.8; 10.2 with many graphs, 12.4 with experts whole
on each of eight."""
_OF_HOST = 50 * GiB
"""What the host's programs and cached files may hold where a GPU shares its memory. Fitted to one log of a GB10: 49.8
GiB are outside PyTorch, the cache of files among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """TensorRT-LLM's own settings."""

    fraction: float
    tokens: int
    sequences: int
    block_size: int
    graphs: int
    experts: str
    """The kernels that run them."""
    largest: int
    """Sequences of the largest captured batch."""
    former: bool
    """An engine that is built, for as many sequences as it may have at once."""


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that the server does not have.
    """
    supported.check(basics.model.network.family)
    tokens = read.take(TensorRtSettings.max_num_tokens, 8192)
    sequences = most_sequences(read)
    version = read.given(EngineSettings.version)
    before = isinstance(version, str) and release(version) < _PYTORCH
    backend = read.take(TensorRtSettings.trtllm_backend, TENSORRT if before else PYTORCH)
    return Options(
        fraction=read.take(TensorRtSettings.free_gpu_memory_fraction, 0.9),
        tokens=tokens,
        sequences=sequences or read.take(Inference.max_num_seqs, min(2048, tokens)),
        block_size=read.given(Inference.block_size) or read.given(ServerSettings.block_size) or 32,
        graphs=_GRAPHS if (given := read.given(TensorRtSettings.cuda_graphs)) is None else given,
        experts=kernels(read.given(TensorRtSettings.moe_kernels) or AUTO, basics),
        largest=min(read.given(TensorRtSettings.largest_graph) or _LARGEST, sequences or _LARGEST),
        former=backend == TENSORRT,
    )


def _laid_out(read: Defaults, layout: Layout, _: Model) -> Layout:
    """With data-parallel attention ranks hold everything whole, dense layers and head too, but for their experts.

    Whole experts or a slice of each take the same bytes. Source: TensorRT-LLM, _torch/models/modeling_deepseekv3.py
    (`_compute_mlp_tp_size`: "If using attention DP, the MLP also uses DP instead of TP") and modeling_utils.py.
    """
    if not read.take(TensorRtSettings.enable_attention_dp, False):
        return layout
    return replace(layout, tensor=1, data=layout.tensor, expert_parallel=True)


def _sent(job: ServingJob, step: Step, stage: Stage) -> int:
    """Return what ranks with requests of their own may need more: tokens of all ranks, or slots for them.

    Where GPUs are linked, tokens are sent to the experts' ranks; elsewhere all ranks gather all of them. Source:
    TensorRT-LLM 1.3, _torch/modules/fused_moe/communication.
    """
    ranks, sizes = job.basics.layout.data, step.sizes
    if ranks == 1 or "E" not in sizes:
        return 0
    gathered = expert_workspace(replace(step, sizes={**sizes, "T": ranks * sizes["T"]}), stage)
    more = sum(each.bytes for each in gathered) - sum(each.bytes for each in expert_workspace(step, stage))
    return max(more, one_sided_bytes(sizes["T"], sizes["h"], sizes["e"], ranks, sent=2 * sizes["h"]))


def budget(job: ServingJob) -> Budget:
    """Return what each rank holds."""
    chosen = job.chosen(Options)
    groups = merged_stages(job.model, job.basics.layout.pipeline, job.basics.stored)
    found = [_rank(job, chosen, stage) for stage, *_ in groups]
    blocks = min((rank.paging.count(rank.available) for rank in found if rank.available is not None), default=None)
    return Budget(
        ranks=of_stages(groups, [_with_cache(job, rank, blocks) for rank in found]),
        pool=_pool(job, found, blocks),
        line_title=Message("free_gpu_memory_fraction {:g} of what is free after loading", chosen.fraction),
        notes=("the engine builder chooses activation kernels and their workspaces; the range allows for them",),
    )


@dataclass(frozen=True, kw_only=True)
class _Rank:
    entries: tuple[Entry, ...]
    replayed: tuple[Entry, ...]
    """What comes after the cache."""
    paging: Paging
    available: int | None
    uncertain: tuple[int, int]


def _rank(job: ServingJob, chosen: Options, stage: Stage) -> _Rank:
    # The cache is sized by a step of dummy prompts, as long as they may be, each with one token (_torch/pyexecutor/
    # _util.py, `_create_dummy_context_requests`).
    prompts = chosen.sequences if chosen.former else ceil(chosen.tokens / job.basics.max_model_len)
    sizes = {**job.basics.sizes, "T": chosen.tokens, "R": prompts, "C": chosen.tokens}
    stored = job.basics.stored
    step = Step(
        model=job.model, dtype=job.basics.dtype, sizes=sizes, sampler=8, format=stored.format if stored else None
    )
    peak = max(
        [widest(step, stage), sampling(step) if stage.samples else []], key=lambda each: sum(e.bytes for e in each)
    )
    routed = [*expert_workspace(step, stage), *deep_gemm_buffers(job, chosen.experts, chosen.tokens, stage)]
    bounds = Range(-sum(each.bytes for each in peak), GiB // 2, 2 * GiB + _sent(job, step, stage))
    kernels = observed(
        "kernel workspaces",
        "workspaces",
        bounds,
        _SOURCE,
        "chosen when the engine is built",
        "no source states their size",
    )
    entries = [
        *rank_weights(job, stage, packs=PACKS.get(chosen.experts)),
        *_whole_embedding(job, stage),
        *routed,
        *peak,
        kernels,
        *_captured(job, chosen, stage),
        *_outside(job),
    ]
    room = None
    if job.capacity is not None:
        room = int(chosen.fraction * (job.capacity - sum(entry.bytes for entry in entries)))
    # Without max_attention_window every layer has room for all tokens (_torch/pyexecutor/resource_manager.py): 72 KiB
    # for each one of gpt-oss-120b in a log of 1.1, though every other layer has a window.
    pages = Pages(
        block_size=chosen.block_size, max_model_len=job.basics.max_model_len, in_flight=chosen.tokens, hybrid=False
    )
    less, more = spread(entries)
    return _Rank(
        entries=tuple(entries),
        replayed=tuple(_replayed(job, chosen, stage)),
        paging=page(cached_layers(job, stage), pages),
        available=room,
        uncertain=(more + (_OF_HOST if integrated(job.accelerator) else 0), less),
    )


def _whole_embedding(job: ServingJob, stage: Stage) -> Iterator[Entry]:
    """Yield the rest of the embedding, which every rank of DeepSeek's models has whole."""
    ranks, sizes = job.basics.layout.tensor, job.basics.sizes
    if stage.embeds and ranks > 1 and job.model.network.family in _WHOLE:
        rows = {"V": sizes["V"] - sizes["V"] // ranks, "h": sizes["h"]}
        yield tensor("rest of the embedding", WEIGHTS, ("V", "h"), BYTES[job.basics.dtype], rows, _DEEPSEEK)


def _outside(job: ServingJob) -> list[Entry]:
    """Return what lies outside PyTorch: on Blackwell more than the context and NCCL; no source says what."""
    usual = context_and_nccl(job.accelerator, job.num_gpus)
    if job.accelerator is None or job.accelerator.major != BLACKWELL:
        return usual
    known = sum(each.bytes for each in usual)
    bounds = _OUTSIDE[min(job.num_gpus, len(_OUTSIDE)) - 1]
    bounds = Range(bounds.low - known, bounds.expected - known, bounds.high - known)
    text = "outside PyTorch 2 GiB on one GPU, 4.6 on two, 6.8 to 12.4 on more"
    return [*usual, observed("libraries and their kernels", CATEGORY, bounds, _PROFILE, text)]


def _captured(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return what the driver keeps of more graphs than usual, which is measured before the cache is sized.

    Each batch of decoding is captured whole, all in one pool. Starts with the usual graphs are among those by which
    the workspaces' range was found. Sources: TensorRT-LLM 1.3, _torch/pyexecutor/cuda_graph_runner.py and _util.py
    (`configure_kv_cache_capacity`: "Memory used outside torch (e.g., NCCL and CUDA graphs)").
    """
    further = chosen.graphs - _GRAPHS
    if further <= 0:
        return []
    counted = count(stage, job.basics.layout.tensor, pieces=0, whole=further, sums=summed_by_nccl(job))
    bounds = kept(job, FORMER, counted, 0, earlier=False)
    return [observed("captured graphs", "CUDA graphs", bounds, _RUNNER, Message("{} more than usual", further))]


def _replayed(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield logits of captured batches, which come once the cache has its memory, in the model's dtype and in fp32.

    Before each batch is captured a step runs without a graph; the next one has half as many sequences or more.
    CUDA is out of memory there in a start of 0.20 with batches of 4,096 and 2,048, which runs without the larger one.
    """
    if chosen.former or not chosen.graphs or not stage.samples:
        return
    sizes = {"sequences": chosen.largest + chosen.largest // 2, "V": job.basics.sizes["V"]}
    each = BYTES[job.basics.dtype] + 4
    yield tensor("logits of captured batches", "CUDA graphs", ("sequences", "V"), each, sizes, _RUNNER)


def _with_cache(job: ServingJob, rank: _Rank, blocks: int | None) -> RankBudget:
    entries = [*rank.entries, *rank.replayed]
    if blocks:
        sizes = {"blocks": blocks, "block bytes": rank.paging.block}
        entries.append(tensor("pool of blocks", "KV cache", ("blocks", "block bytes"), 1, sizes, _SOURCE))
    return RankBudget(
        name="",
        count=job.basics.layout.tensor * job.basics.layout.data,
        ledger=ledger(entries),
        available=rank.available,
        uncertain=rank.uncertain,
        spread=spread(_outside(job)),
    )


def _pool(job: ServingJob, found: list[_Rank], blocks: int | None) -> Pool | None:
    paging = max((rank.paging for rank in found), key=lambda each: each.block)
    if not paging.groups:
        return None
    # Its log counts what the blocks have room for, not how many of the longest sequences.
    tokens = None if blocks is None else blocks * job.chosen(Options).block_size
    tightest = min(found, key=lambda rank: rank.available or 0)
    less, more = (side / tightest.available if tightest.available else 0 for side in tightest.uncertain)
    return Pool(
        capacity=blocks,
        needed=paging.needed,
        unit="blocks",
        tokens=tokens,
        bytes_each=paging.block,
        replicas=job.basics.layout.data,
        capacity_low=int((blocks or 0) * max(1 - less, 0)),
        capacity_high=int((blocks or 0) * (1 + more)),
    )


SERVER = Server(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    stacks=frozenset({"cuda"}),
    options=options,
    budget=budget,
    oldest=(8, 0),  # docs/source/reference/support-matrix.md: Ampere and later
    parallel=frozenset({"tensor", "pipeline"}),
    seems=lambda _: Range(
        0, 0, GiB
    ),  # its log counts all that PyTorch has allocated, buffers of graphs and of sampling too
    lays_out=_laid_out,
    proposes=frozenset(METHODS) - {"dflash"},
    unpacks=False,  # docs, reference/support-matrix: fp8 from Ada on, fp4 on Blackwell
    changes=(
        larger_share(Share(TensorRtSettings.free_gpu_memory_fraction)),
        fewer_tokens(TensorRtSettings.max_num_tokens),
        *PAGED,
    ),
)
