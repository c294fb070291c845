"""SGLang: a fraction of the memory that was free before loading is static, for weights and pools of tokens.

Source: sglang 0.5.23, srt/mem_cache/kv_cache_configurator.py (_profile_available_bytes) and
srt/model_executor/pool_configurator.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.records import dataclass
from memcore.servers.sglang.adapters import adapters
from memcore.servers.sglang.attention import gathers_logits, groups, lays_out
from memcore.servers.sglang.backends import tables, workspace
from memcore.servers.sglang.compressed import Compressed, compressed
from memcore.servers.sglang.exchange import UNQUANTIZED, exchanged, symmetric
from memcore.servers.sglang.experts import kept_scales, left_behind, received, redundant
from memcore.servers.sglang.fraction import COUNTS_DRAFTS, OF_AITER
from memcore.servers.sglang.graphs import fused_sums, graphs
from memcore.servers.sglang.options import NEWEST, Options, options
from memcore.servers.sglang.positions import too_long
from memcore.servers.sglang.requests import places, running
from memcore.servers.sglang.rotations import stretches, turned
from memcore.servers.sglang.scaled_rows import cached, uncounted
from memcore.servers.sglang.settings import SglangSettings
from memcore.servers.sglang.states import Division, divide
from memcore.servers.sglang.towers import kept_for_pictures
from memcore.servers.sglang.windows import pooled
from memcore.serving.budget import Budget, Pool, RankBudget, of_stages
from memcore.serving.cache import CacheSpec
from memcore.serving.changes import AS_USERS, PAGED, Share, fewer_tokens, larger_share
from memcore.serving.checkpoint import MODEL_OPT
from memcore.serving.devices import desktop, integrated
from memcore.serving.entries import ledger, observed, spread, tensor
from memcore.serving.job import Kernels, Pace, Server, ServingJob
from memcore.serving.outside_allocator import context_and_nccl, uncertainty
from memcore.serving.profile import Step, expert_workspace, sampling, widest
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.stages import Stage, merged_stages
from memcore.symbols import round_up
from memcore.units import GiB, MiB

_POOLS = "sglang, srt/model_executor/pool_configurator.py"

_CACHES = (0, 5, 3)
"""The first release that reads `kv_cache_quant_algo`, which ModelOpt's formats have."""


def _reads_cache_format(read: Defaults, method: str) -> bool:
    """Return whether the cache is in fp8 where a checkpoint's description says so (srt/mem_cache/kv_cache_dtype.py)."""
    return method.startswith(MODEL_OPT) and release(read.given(EngineSettings.version) or NEWEST) >= _CACHES


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
            *((OF_AITER,) if chosen.aiter else ()),
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
    weights = turned(
        job.basics, rank_weights(job, stage, tables="fp32", stretched=stretches(job.basics)), chosen.number
    )
    weights += [*kept_scales(job, weights), *left_behind(job, chosen.expert_kernels, chosen.number, stage)]
    weights += redundant(job, weights)
    parts = tuple(part for layer in cached_layers(job, stage) for part in layer)
    parts = (*pooled(job.basics, parts, chosen.number), *cached(job, stage, chosen.number))
    loras = list(adapters(job, chosen, stage))
    available = tokens = None
    slots = checked = 0
    pools = compressed(job, stage, chosen.number, chosen.sequences)
    if chosen.fraction is not None and job.capacity is not None:
        free = _free(job) - sum(entry.bytes for entry in _hosted(job))
        available = int(chosen.fraction * free) - sum(entry.bytes for entry in [*weights, *loras])
        available -= kept_for_pictures(job.basics, chosen.number) + _left_behind(job, chosen.number)
        rest, state = available, _state(parts)
        if state and pools is None:
            found = _divided(job, chosen, available, state)
            rest, slots, checked = found.rest, found.slots, found.checked
        cell = _cell(parts, windowed=False) + chosen.window_ratio * _cell(parts, windowed=True)
        if pools is not None:
            rest, cell = rest - pools.fixed, float(pools.each(chosen.window_ratio))
        tokens = _fitting(max(rest, 0), cell, chosen)
    before = [*weights, *loras, *_hosted(job), *context_and_nccl(job.accelerator, job.num_gpus)]
    lower, higher = uncertainty(before, job.capacity)
    if job.basics.model.network.family == _UNEXPLAINED:
        higher += _MORE
    if desktop(job.accelerator):
        higher += _DESKTOP
    return _Rank(
        stage=stage,
        weights=(*weights, *loras),
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
    if found is None or found.method not in UNQUANTIZED or not COUNTS_DRAFTS <= number < _COLLECTS:
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
    entries += [places(job, requests, ranks, number), *_attention(job, chosen, requests), *_hosted(job)]
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
    beyond = list(uncounted(job, rank.stage, number, tokens)) if tokens else []
    entries += beyond
    count = job.basics.layout.tensor * job.basics.layout.data
    return RankBudget(
        name="",
        count=count,
        ledger=ledger(entries),
        available=None if rank.available is None else rank.available + sum(each.bytes for each in beyond),
        uncertain=rank.uncertain,
        spread=spread(entries),
    )


def _attention(job: ServingJob, chosen: Options, requests: int) -> Iterator[Entry]:
    """Yield workspaces of attention, of prompts, too, where others attend to these (HybridAttnBackend)."""
    yield from workspace(job, chosen.attention, requests)
    if chosen.prompt_attention:
        yield from workspace(job, chosen.prompt_attention, requests)


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
    largest, prompts, number = chosen.graphs if chosen.captures else 0, chosen.prompts, chosen.number
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
            attention=chosen.attention,
            sizes=chosen.sizes if largest else 0,
            kept_for_requests=tables(job, stage, chosen.attention, largest, chosen.page, number) if largest else 0,
            received=received(sizes, 1 if stored else 2, chosen.dispatched) if late and largest else 0,
        )
    kept = [] if step.allocates_in_experts else expert_workspace(step, stage)
    sent = exchanged(
        job, mode=chosen.deepep, slots=chosen.slots, dispatched=chosen.dispatched, captures=chosen.captures
    )
    apart = symmetric(job, chosen.chunk, ahead=chosen.ahead, captures=largest > 0) if chosen.symmetric else ()
    fused = [] if chosen.deepep or chosen.slots else fused_sums(job, number)
    return [*kept, *peak, *captured, *fused, *sent, *apart]


_KERNELS, _SHARED = Range(0, 50 * MiB, 140 * MiB), Range(-int(2.5 * GiB), 0, int(3.4 * GiB))
"""Kernels that loading needs, fitted to 45 logs of weights in 16 bits and fp8 (-1 to 139 MiB more than the checkpoint,
53 in the middle, and as much of 0.5B as of 32B), and what the host's processes give back or take meanwhile where they
share the GPU's memory, fitted to eight: -1.6 to 0.9 GiB with weights in 16 bits, 1.4 to 3.3 with quantized ones."""


def _free_before_and_after(job: ServingJob) -> Range:
    """How many bytes more weights seem, which SGLang reads by what is free before and after."""
    if integrated(job.accelerator):
        return _SHARED
    more = _MORE if job.basics.model.network.family == _UNEXPLAINED else _KERNELS.high
    if desktop(job.accelerator):
        return Range(-_DESKTOP, _KERNELS.expected, max(_DESKTOP, more))
    return Range(_KERNELS.low, _KERNELS.expected, more)


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
    logs_apart=("draft model", "adapters"),
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
