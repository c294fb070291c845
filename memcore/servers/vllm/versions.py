"""How vLLM budgets memory, release by release.

Read in the wheels of 0.2.6, 0.5.3, 0.6.3, 0.6.5, 0.6.6, 0.7.0, 0.7.1, 0.7.3, 0.8.0, 0.8.2, 0.8.3, 0.8.5, 0.9.1, 0.9.2,
0.10.1, 0.10.2, 0.11 to 0.14, 0.16 to 0.20, 0.20.2 and 0.22 to 0.33: v1/worker/gpu_worker.py,
v1/core/kv_cache_utils.py, config/cache.py, envs.py, v1/sample/ops, engine/arg_utils.py; of the second model runner
config/vllm.py (use_v2_model_runner) and v1/worker/gpu/.
"""

from __future__ import annotations

from dataclasses import replace

from memcore.config.engine import release
from memcore.records import dataclass
from memcore.units import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What holds from a release on."""

    since: tuple[int, ...]
    utilization: float = 0.90
    """The default of `gpu_memory_utilization`."""
    sampler: int = 32
    """Bytes for each logit beyond the logits and their fp32 copy: sorting needs values, indices and three buffers (32),
    masking in place only probabilities and random numbers (8)."""
    masks_with_triton: bool = False
    """A buffer of one row of logits for each multiprocessor."""
    graphs_inside: bool = False
    """What is estimated for CUDA graphs is taken from the cache."""
    buffers_inside: bool = False
    """Whatever the process has taken since its start is subtracted, the runner's own buffers too."""
    tokens_by_concurrency: bool = False
    """The reported number of tokens is concurrency times the longest sequence; before, that of one group of layers."""
    tokens_by_blocks: bool = False
    """Concurrency counts blocks of all groups alike; before, all bytes in blocks of the first group."""
    keeps_expert_workspace: bool = True
    """The experts' workspace stays allocated after profiling."""
    chunk: int = 0
    """Tokens of each chunk of a prompt where more than 32,768 may come; 0 if they are not
    (config.py and engine/arg_utils.py of 0.6.3, 0.6.6 and 0.7.3: not with LoRA, speculation, windows or towers)."""
    server_batches: bool = True
    """Defaults depend on the GPU: 8192 tokens and 1024 sequences from 70 GiB on."""
    shortest_steps: bool = False
    """Where nothing is asked for, a step has no more tokens than all sequences together."""
    whole_items: bool = False
    """It refuses steps that do not hold the largest image or video of Gemma 4, which sees itself whole
    (transformers_utils/model_arch_config_convertor.py, is_mm_prefix_lm; v1/core/encoder_cache_manager.py)."""
    steps_for_items: bool = False
    """Steps hold it where nothing else is asked for (engine/arg_utils.py, _get_min_mm_batched_tokens)."""
    checks_free: bool = False
    """It refuses to start where less is free than the share it is to have (v1/worker/utils.py, request_memory)."""
    two_modes: bool = False
    """Graphs are captured piece by piece for all sizes, and whole for decoding (FULL_AND_PIECEWISE)."""
    skips_towers: bool = False
    """Towers are not loaded where no image is allowed (vllm, pull requests 22299 and 32605)."""
    copies_images: bool = False
    """Profiling copies what images become into as many rows as a step may encode, and counts the words between frames
    of Qwen3-VL's videos by their other tokens (0.11.0 to 0.12: v1/worker/gpu_model_runner.py, profile_run)."""
    masks_images: bool = False
    """It is installed without xformers, so that Pixtral's tower has a dense mask of all patches of a step."""
    wide_steps: bool = False
    """Sizes from 256 on are captured in steps of 16, not 8."""
    opens_more: bool = False
    """Several ranks on NVLink switches open more than NCCL while profiling: 2.07 to 2.21 GiB in logs of 0.19, 0.55 to
    1.5 GiB in those of 0.9.2 to 0.11. Which release began is not known."""
    flashinfer_samples: bool = False
    """FlashInfer's sampler runs where it is installed, as in vLLM's images, and sorts nothing; since 0.11.1 only where
    VLLM_USE_FLASHINFER_SAMPLER asks for it (v1/sample/ops/topk_topp_sampler.py)."""
    profiles_graphs: bool = False
    """Graphs are captured once before the cache is sized, with a small cache: a block for each captured sequence."""
    times_kernels: bool = False
    """Combined kernels are timed when they are compiled (`benchmark_combo_kernel`)."""
    checks_states: bool = False
    """It refuses to start with fewer blocks than `max_num_seqs`, where layers have recurrent states."""
    profiles_few: bool = False
    """That cache has no more blocks than `max_num_seqs`."""
    hybrids_reuse_prefixes: bool = False
    """Prefix caching is on without being asked for, also for networks with recurrent states (config/model.py,
    is_prefix_caching_supported, of 0.25.1 and 0.26.0)."""
    directions: int = 1
    """How many times more positions rotations in three directions have than the model (rotary_embedding/mrope.py)."""
    wide_tier: bool = False
    """16384 tokens from 160 GiB on."""
    asks_cuda: bool = False
    """Where NVML does not tell a GPU's memory, CUDA does (platforms/cuda.py, NvmlCudaPlatform.get_device_total_memory,
    read in 0.28 to 0.33): steps on a GB10 are those of a small GPU before."""
    settles_late: bool = False
    """Blocks leave a window once the results of a step are there, so that a sequence may hold those of every step under
    way: two, where the next step is scheduled meanwhile (`max_in_flight_tokens`, not in 0.25.1; vllm, issue 49878)."""
    shows_loading: bool = False
    """What loading is said to take is what the device shows, where `Stack.seen_loading` says so."""
    whole_device: bool = False
    """The budget holds everything that is used on the GPU, the CUDA context and other processes too. Not in the former
    engine from 0.6.5 on (worker/worker.py, `baseline_memory_in_bytes`), nor in the present one from 0.9.1 on
    (v1/worker/gpu_worker.py, determine_available_memory)."""
    rounded_weights: bool = True
    """What loading is said to take is what the allocator has handed out, in blocks."""
    unsplit: int | None = None
    """Bytes from which blocks of weights are not split (v1/worker/gpu_worker.py, _scoped_allocator_max_split); with
    expandable segments they are: three logs of Qwen's 27B in 4 bits have 0.09 to 0.13 GiB less."""
    late_adapters: bool = False
    """Slots of adapters come after what loading is said to take, and no budget has them (worker/model_runner.py,
    load_model, and utils.py, memory_profiling, of 0.7.1 and 0.7.3; in 0.8.0 they are loaded with the weights)."""
    absorbs: bool = False
    """Latent attention decodes with products of its matrices, which are kept in addition to them."""


_V0 = Facts(
    since=(0, 0),
    keeps_expert_workspace=False,
    server_batches=False,
    whole_device=True,
    rounded_weights=False,
    late_adapters=True,
)
_V0_CHUNKS = replace(_V0, since=(0, 6), chunk=512)
_V0_WIDER = replace(_V0_CHUNKS, since=(0, 6, 5), chunk=2048, whole_device=False, rounded_weights=True)
_V0_ABSORBS = replace(_V0_WIDER, since=(0, 7, 1), absorbs=True)
_V0_LONGER = replace(_V0_ABSORBS, since=(0, 7, 2), directions=4)
_V1_OPTIONAL = replace(
    _V0,
    since=(0, 8),
    server_batches=True,
    flashinfer_samples=True,
    rounded_weights=True,
    directions=4,
    late_adapters=False,
)
_V1 = replace(_V1_OPTIONAL, since=(0, 8, 3))
_APART = replace(_V1, since=(0, 9, 1), whole_device=False, checks_free=True)
_FEWER_SIZES = replace(_APART, since=(0, 10))
_STATES = replace(_FEWER_SIZES, since=(0, 10, 2))
_TWO_MODES = replace(_STATES, since=(0, 11), skips_towers=True, two_modes=True, copies_images=True)
_SORTING = replace(_TWO_MODES, since=(0, 11, 1), flashinfer_samples=False)
_WIDE_STEPS = replace(_SORTING, since=(0, 12), wide_steps=True, opens_more=True, masks_images=True)
_WORKSPACE = replace(_WIDE_STEPS, since=(0, 13), keeps_expert_workspace=True, shortest_steps=True, copies_images=False)
_TRITON = replace(_WORKSPACE, since=(0, 17), sampler=8, masks_with_triton=True)
_PROFILED = replace(_TRITON, since=(0, 19), profiles_graphs=True, times_kernels=True)
_GRAPHS = replace(_PROFILED, since=(0, 20), utilization=0.92, graphs_inside=True, checks_states=True, whole_items=True)
_CONCURRENCY = replace(_GRAPHS, since=(0, 20, 2), tokens_by_concurrency=True)
_FLASHINFER = replace(_CONCURRENCY, since=(0, 21), masks_with_triton=False, unsplit=20 * MiB)
_RAISED = replace(_FLASHINFER, since=(0, 22), steps_for_items=True)
_FEW = replace(_RAISED, since=(0, 26), profiles_few=True, settles_late=True, hybrids_reuse_prefixes=True)
_CONSUMED = replace(_FEW, since=(0, 27), buffers_inside=True)
_WIDE = replace(_CONSUMED, since=(0, 28), wide_tier=True)
_ALIKE = replace(_WIDE, since=(0, 30), tokens_by_blocks=True)
_ASKED = replace(_ALIKE, since=(0, 33), asks_cuda=True)

FACTS = (
    _V0,
    _V0_CHUNKS,
    _V0_WIDER,
    _V0_ABSORBS,
    _V0_LONGER,
    _V1_OPTIONAL,
    _V1,
    _APART,
    _FEWER_SIZES,
    _STATES,
    _TWO_MODES,
    _SORTING,
    _WIDE_STEPS,
    _WORKSPACE,
    _TRITON,
    _PROFILED,
    _GRAPHS,
    _CONCURRENCY,
    _FLASHINFER,
    _RAISED,
    _FEW,
    _CONSUMED,
    _WIDE,
    _ALIKE,
    _ASKED,
)
"""Rows in order of release."""
NEWEST = "0.33.0"
"""The newest release that was read; what is not given is taken for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Which networks a release runs with its second model runner, and what that one profiles."""

    since: tuple[int, ...]
    families: frozenset[str] = frozenset()
    """Networks that are named (DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES)."""
    quantized: bool = True
    """Also where the checkpoint is quantized."""
    dense: bool = False
    """All others without experts and without recurrent states, too."""
    everything: bool = False
    copies_logits: bool = True
    """Profiling copies the logits to fp32, though no request of it asks for more (v1/worker/gpu/sample/sampler.py)."""
    sampler: int = 0
    """Bytes for each logit beyond these: 8 where profiling asks for top-k and top-p, whose kernels mask logits and take
    probabilities of them (SamplingParams.for_sampler_warmup; flashinfer, sampling.py)."""
    images: bool = False
    """Profiling encodes images."""
    graphs: bool = False
    """Graphs are estimated; before 0.29 `profile_cudagraph_memory` returns 0."""
    grows: bool = True
    """The second whole graph adds its gate and up, which then count for all that follow. Not in a log of 0.31: 1.44 GiB
    are called peak activation, of which the widest step of Llama-3.1-8B has 0.99; which change did it was not found."""
    methods: frozenset[str] = frozenset({"mtp", "eagle", "eagle3"})
    """Methods of speculation that it has (_get_v2_model_runner_unsupported_features)."""


_NAMED = ("llama", "mistral", "qwen3", "deepseek_v2", "qwen2_moe", "granitemoe")
_FIRST = Runner(since=(0, 22), families=frozenset({"qwen3"}), quantized=False)
_THREE = replace(_FIRST, since=(0, 23), families=frozenset(_NAMED[:3]))
_SIX = replace(_FIRST, since=(0, 24), quantized=True, families=frozenset(_NAMED), methods=_FIRST.methods | {"dflash"})
_DENSE = replace(_SIX, since=(0, 25), families=frozenset(_NAMED[3:]), dense=True)
_ENCODING = replace(_DENSE, since=(0, 27), images=True)
_DIRECT = replace(_ENCODING, since=(0, 28), families=frozenset((*_NAMED[3:], "deepseek_v4")), copies_logits=False)
_EVERY = replace(_DIRECT, since=(0, 29), everything=True, graphs=True)
_DRAFTS = replace(_EVERY, since=(0, 31), methods=_EVERY.methods | {"draft"}, grows=False)
_LOOKS_UP = replace(_DRAFTS, since=(0, 32), methods=_DRAFTS.methods | {"ngram"})
_WARMED = replace(_LOOKS_UP, since=(0, 33), copies_logits=True, sampler=8, methods=_LOOKS_UP.methods | {"medusa"})
RUNNERS = (_FIRST, _THREE, _SIX, _DENSE, _ENCODING, _DIRECT, _EVERY, _DRAFTS, _LOOKS_UP, _WARMED)
"""Rows in order of release."""


def second_runner(
    version: object, family: str, *, plain: bool, method: str | None, quantized: bool = False
) -> Runner | None:
    """The second model runner, if a release runs a network with it; `plain`: without experts and recurrent states.

    >>> second_runner("0.24", "qwen3", plain=True, method=None).graphs
    False
    >>> second_runner("0.24", "gemma3", plain=True, method=None) is None
    True
    >>> second_runner("0.33", "qwen3", plain=True, method="ngram") is None
    False
    """
    row = latest_runner(version)
    if row is None or (method is not None and method not in row.methods) or (quantized and not row.quantized):
        return None
    runs = row.everything or (row.dense and plain) or family in row.families
    return row if runs else None


def latest_runner(version: object) -> Runner | None:
    """Return the second model runner of a release, if it has one."""
    number = release(version)
    return max((row for row in RUNNERS if row.since <= number), key=lambda row: row.since, default=None)


_TWO_COPIES = 8
"""Bytes for each logit of FlashInfer's sampler: masked logits and probabilities (flashinfer, sampling.py)."""


def sampled(found: Facts, flashinfer: bool | None) -> Facts:
    """Return what holds of a release where it is told whether FlashInfer samples.

    >>> sampled(facts("0.11.0"), True).sampler, sampled(facts("0.11.0"), False).flashinfer_samples
    (8, False)
    """
    if flashinfer is None or not found.server_batches:
        return found
    if flashinfer:
        return replace(found, sampler=_TWO_COPIES, masks_with_triton=False, flashinfer_samples=False)
    return replace(found, flashinfer_samples=False, masks_with_triton=found.since >= _TRITON.since)


def former(found: Facts) -> Facts:
    """Return what holds where a release falls back to its former engine."""
    return replace(_V0_LONGER, since=found.since, absorbs=False, late_adapters=found.late_adapters)


def facts(version: object) -> Facts:
    """Return what holds for a release.

    >>> facts("0.19.0").utilization, facts("0.20").utilization, facts("0.2").whole_device
    (0.9, 0.92, True)
    """
    number = release(version)
    return max((row for row in FACTS if row.since <= number), key=lambda row: row.since, default=_V0)
