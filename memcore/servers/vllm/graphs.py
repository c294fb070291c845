"""What vLLM's compiled and captured graphs hold: which batches are captured, and what the driver keeps of each graph.

Sources: vllm, config/vllm.py (_set_cudagraph_sizes), config/compilation.py (adjust_cudagraph_sizes_for_spec_decode,
resolve_cudagraph_mode_and_sizes), v1/cudagraph_dispatcher.py (initialize_cudagraph_keys) and
model_executor/models/config.py (MambaModelConfig, GptOssForCausalLMConfig).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil

from memcore.config.hardware import Hardware
from memcore.hardware import BLACKWELL, HOPPER, matmul_workspaces
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, LatentAttention, SpecialMixer
from memcore.records import dataclass
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.sparse import captured_scores
from memcore.servers.vllm.stacks import stack_of
from memcore.serving.captures import (
    FORMER,
    LOADED,
    PRESENT,
    Count,
    Driver,
    count,
    driver_of,
    kept,
    pool,
    summed_by_nccl,
)
from memcore.serving.devices import integrated
from memcore.serving.entries import observed, tensor
from memcore.serving.formats import BYTES, Format
from memcore.serving.job import ServingJob
from memcore.serving.profile import TOKENS, WORKSPACES, Step, gates
from memcore.serving.slots import TENSOR, sharded
from memcore.serving.stages import Stage
from memcore.symbols import Quotient, Shape, product, round_up
from memcore.units import GiB, MiB

_TITLE, _CATEGORY = "captured graphs", "CUDA graphs"
_GRANULE = 2 * MiB
"""In which drivers take a GPU's memory."""
_NETWORK = 0.76
"""MiB of each layer whose result NCCL sums over a network where GPUs share the host's memory, in which NCCL's proxies
keep their part of each captured sum: 5.07 GiB are estimated for 102 graphs of 62 layers on two GB10
(eugr/spark-vllm-docker, issue 396: 0.8 counts as 0.758). Other GPUs are taken to keep what they keep of sums inside a
machine; no log of theirs is known."""
_SPLITS = 32
"""Parts of a sequence that FlashAttention 3 reads at the same time while graphs are captured
(`flash_attn_max_num_splits_for_cuda_graph`)."""
_LATENT_SPLITS = (0, 19)
"""Releases that read latent vectors with it on Hopper (platforms/cuda.py, _get_backend_priorities, of 0.19)."""
_ADAPTED = 4 * 2
"""Kernels that add an adapter's result: two for each product of attention and the dense layer (lora/punica_wrapper)."""
_FUSES = (0, 11, 1)
"""The release since which inductor fuses what quantizes the input of a product in blocks (fp8_utils.py:
per_token_group_quant_fp8 in 0.10.2 and 0.11.0, a QuantFP8 that is compiled in 0.11.2)."""
_UNPACKED: Mapping[str, int] = {"nf4": 3, "nf4-double": 5}
"""Kernels of a product with a matrix of bitsandbytes: it is unpacked, after its scales where these are quantized (two
kernels), multiplied, and the result copied to its place (quantization/bitsandbytes.py, _apply_4bit_weight)."""
_ATTENTION, _FUSED = 4, 2
"""Matrices of attention, and products that they are merged to where nothing is unpacked; a dense layer has as many."""
_BLOCKS, _INPUTS = "fp8-block", 2
"""The format with scales of blocks, and inputs of attention, of a dense layer or of experts that are quantized."""
_SPECIALIZED = (0, 11, 1)
"""The release that captures graphs without adapters, too (config/compilation.py, cudagraph_specialize_lora)."""
_FORMER_MOST = 256
"""Sequences that the former engine captures."""
_ESTIMATED = int(0.15 * GiB)
"""What the estimate of 0.26 and later has more for each whole graph of networks with recurrent states and 1,024
sequences: 0.11 to 0.2 GiB in three starts of Qwen's 27B (vllm-project/recipes, 831); none in logs with 256 sequences.
Which tensors of the profiled step it counts is not known."""
_USUAL_SEQUENCES = 256
_HOSTED = int(1.2 * GiB)
"""What else takes the memory that a GPU shares with the host while graphs are profiled: 0.09 to 1.13 GiB in four starts
on GB10. As much may become free: 0.04 GiB are said to be taken by 7 and by 86 graphs (torch.accelerator.get_memory_info
counts neither the kernel's file cache nor other processes apart)."""
_NODE = 8
"""GPUs of a machine, where nothing else is said."""
_FLASHINFER, _ELEMENT = 394 * MiB, 16
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE (vllm, envs.py) and FLASHINFER_PREFILL_WORKSPACE_BYTES_PER_ELEM."""
_XQA = (0, 28)
"""The release whose FlashInfer answers single tokens with XQA on consumer Blackwell, too (read in 0.27.1 and 0.28)."""
_WARMS = (0, 10, 2)
"""The release that warms up FlashInfer's attention first."""
_CUDA_13 = (0, 20)
"""The release whose wheels are for CUDA 13, so that drivers begin with 580 (torch 2.11 requires cuda-toolkit 13.0);
those before, for CUDA 12, run with any since 525, as 0.15.1 does with 535.86 on H100."""
_PREFIXES = frozenset({"gemma3", "gemma4", "paligemma"})
_SINGLE_TOKENS = frozenset({8, 12})
"""Those where a cache in fp8 is read by FlashInfer's own kernels, whose decoding is captured for single tokens alone
(vllm, v1/attention/backends/flashinfer.py, get_cudagraph_support)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """What graphs take when they are captured, and what vLLM estimates before."""

    entries: tuple[Entry, ...] = ()
    estimated: Range | None = None
    """What the log calls the estimated memory of graphs; None where nothing is estimated."""


def graphs(job: ServingJob, chosen: Options, stage: Stage, step: Step) -> Graphs:
    """Captured graphs: their pool, and what the driver keeps of each graph and of its kernels; `step`: the widest."""
    pieces, whole = captured(job, chosen)
    if not pieces and not whole:
        return Graphs()
    told = stack_of(job.basics).graphs
    if told is not None:
        source = "vllm-ascend, worker/worker.py (pull request 8289)"
        return Graphs(
            entries=(
                observed(_TITLE, _CATEGORY, told, source, "few measured starts on this kind of accelerator are known"),
            )
        )
    pooled = _pool(job, step, stage, max(pieces + whole))
    split = _split(job, chosen, stage, max(whole, default=0))
    inside = [each for each in (split, _unpacked(job, max(pieces + whole))) if each is not None]
    inside += captured_scores(job, chosen, stage, max(whole, default=0))
    attends = job.basics.sizes.keys() >= {"a", "d"}
    workspaces = []
    if whole and attends and _flashinfer(job) and chosen.facts.server_batches:
        workspaces.append(_workspace(job, chosen))
    inside += workspaces
    entries = (*_driver(job, chosen, stage, (len(pieces), len(whole))), pooled, *inside)
    if integrated(job.accelerator):
        entries = tuple(replace(each, range=Range(0, each.bytes, each.high)) for each in entries)
    if not chosen.facts.profiles_graphs:
        return Graphs(entries=entries)
    if chosen.runner is not None:
        return Graphs(entries=entries, estimated=_captured_once(job, chosen, stage, step, entries))
    # Graphs are profiled before anything else runs FlashInfer's attention.
    first = [_sum([pooled]), _sum(each for each in inside if each.category == _CATEGORY or each in workspaces)]
    sampled = _sampled(job, chosen, stage, first)
    if integrated(job.accelerator):
        sampled = Range(0, sampled.expected, sampled.high + _HOSTED)
    return Graphs(entries=entries, estimated=sampled)


def _sum(entries: Iterable[Entry]) -> Range:
    found = list(entries)
    return Range(sum(each.low for each in found), sum(each.bytes for each in found), sum(each.high for each in found))


def _sampled(job: ServingJob, chosen: Options, stage: Stage, first: Sequence[Range]) -> Range:
    """What the first runner estimates: the larger first capture, and what the second takes for each further graph.

    Source: vllm, v1/worker/gpu_model_runner.py, profile_cudagraph_memory. The first capture also loads kernels. Drivers
    take memory in granules, so that what the second graph is seen to take is a multiple of them, and 1 MiB at least: 4,
    6 or 8 MiB where graphs take 5 to 7.6 each, in debug lines of 56 starts of 0.19. Which one it is depends on how much
    of a granule the graphs before have left. In three further starts the pool grew by a segment of 20 MiB with the
    second graph, which then counts for 50 graphs.
    """
    pieces, whole = (len(each) for each in captured(job, chosen))
    low, expected, high = (max(getattr(each, side) for each in first) for side in ("low", "expected", "high"))
    for counts in ((pieces, 0), (0, whole)):
        if not sum(counts):
            continue
        every = _of_driver(job, chosen, stage, counts)
        number = sum(counts) * _variants(chosen)
        further = _estimated(job, chosen) * counts[1]
        low += (number - 1) * _granules(int((every.low / number) // _GRANULE))
        expected += (number - 1) * _seen(every.bytes // number) + further
        high += (number - 1) * _granules(ceil((every.high - LOADED) / number / _GRANULE)) + further
    return Range(low, expected, high + LOADED)


def _seen(graph: int) -> int:
    """Return the bytes that a graph is seen to take on average, where it may begin anywhere in a granule.

    >>> [_seen(size * MiB) / MiB for size in (1, 5)]
    [1.5, 5.0]
    """
    return max(graph, (_GRANULE + graph) // 2)


def _granules(number: int) -> int:
    """Return bytes that vLLM estimates for a graph that takes this many granules."""
    return max(number * _GRANULE, MiB)


def _variants(chosen: Options) -> int:
    """Graphs of each size: those with adapters and those without."""
    return 2 if chosen.loras and chosen.facts.since >= _SPECIALIZED else 1


def _captured_once(
    job: ServingJob, chosen: Options, stage: Stage, step: Step, entries: Sequence[Entry]
) -> Range | None:
    """Return what the second model runner estimates: what it captures once, whole graphs by the second largest one.

    It multiplies what that one adds by their number (vllm 0.30, v1/worker/gpu/cudagraph_utils.py,
    _extrapolate_full_graph_memory). In starts of 0.29 and 0.30 that is gate and up of its step: 2.2 GiB for 51 graphs
    of Qwen3-32B on an H100, 0.6 GiB for 35 of Qwen3.6-27B on an RTX PRO 6000, 0.1 GiB for 35 of Qwen3-0.6B. Starts of
    releases since 0.31 show none of that (Runner.grows).
    """
    if chosen.runner is None or not chosen.runner.graphs:
        return None
    whole, once = captured(job, chosen)[1], _sum(entries)
    added = 0
    if len(whole) > 1:
        added = (len(whole) - 1) * gates(replace(step, sizes={**step.sizes, TOKENS: whole[-2]}), stage)
    return Range(once.low, once.expected + (added if chosen.runner.grows else 0), once.high + added)


def _driver(job: ServingJob, chosen: Options, stage: Stage, counts: tuple[int, int]) -> list[Entry]:
    """Return what the driver keeps of graphs, which is all outside PyTorch's allocator.

    Where the second model runner estimates graphs, it has captured all pieces and two whole ones before, and the driver
    keeps their memory when they are gone: what is said to be taken afterwards is that of whole graphs (0.23 GiB for
    Llama-3.1-8B on 79.25 GiB in 0.31). A build that prints it has 0.72 of 1.08 GiB "retained and counted as non-torch".
    """
    pieces, whole = counts
    every = _of_driver(job, chosen, stage, (pieces, whole))
    if chosen.runner is None or not chosen.runner.graphs or not whole or not pieces:
        return [every]
    own, first = (_of_driver(job, chosen, stage, each) for each in ((0, whole), (pieces, 0)))
    kept = replace(
        first,
        title="graphs of the profiled step, kept by the driver",
        category="outside the allocator",
        range=Range(first.low, first.bytes, first.bytes),
    )
    return [replace(own, range=Range(own.low, own.bytes, every.high - first.bytes)), kept]


def _of_driver(job: ServingJob, chosen: Options, stage: Stage, counts: tuple[int, int]) -> Entry:
    """That of graphs captured piece by piece, and whole."""
    usual = _usual_driver(job, chosen)
    driver = driver_of(job, usual)
    found, further = _counted(job, chosen, stage, counts)
    text = Message("{} captured sizes: {:,} graphs × {:g} KiB + {:,} kernels × {:g} KiB", sum(counts), found.graphs,
                   driver.graph, found.kernels, driver.kernel)  # fmt: skip
    return observed(
        _TITLE,
        _CATEGORY,
        kept(job, usual, found, further, earlier=chosen.facts.since < _CUDA_13),
        driver.source,
        text,
        "drivers differ, and kernels are loaded during the capture",
    )


def _counted(job: ServingJob, chosen: Options, stage: Stage, counts: tuple[int, int]) -> tuple[Count, int]:
    """Graphs with their kernels, and bytes beyond these."""
    pieces, whole = counts
    ranks, plain = job.basics.layout.tensor, _variants(chosen) > 1
    networked = _networked(job)
    hosted = networked and integrated(job.accelerator)
    sums = (networked or summed_by_nccl(job)) and not hosted
    quantizing = partial(_quantizing, job, chosen)
    adapted = _ADAPTED * bool(chosen.loras)
    found = count(
        stage, ranks, pieces=pieces, whole=whole, further=lambda layer: adapted + quantizing(layer), sums=sums
    )
    if plain:
        other = count(stage, ranks, pieces=pieces, whole=whole, further=quantizing)
        found = replace(found, graphs=found.graphs + other.graphs, kernels=found.kernels + other.kernels)
    summed = _NETWORK * (pieces + whole) * len(stage.layers) if hosted else 0
    return found, int(summed * MiB)


def _quantizing(job: ServingJob, chosen: Options, layer: Layer) -> int:
    """Kernels that quantize what products of a layer read, or unpack what they multiply with.

    Inputs are quantized by kernels of their own in experts, before 0.11.1 in other layers, too.

    Source: vllm, layers/fused_moe/fused_moe.py, moe_kernel_quantize_input (read in 0.11.0 and 0.28).
    """
    experts = [_INPUTS * isinstance(ffn, Experts) for ffn in layer.ffns]
    found = sum(experts) if _quantized(job, "routed-expert") is not None else 0
    stored = job.basics.stored.format.name if job.basics.stored is not None else ""
    if stored in _UNPACKED:
        dense = [
            sum(len(each.axes) > 1 for each in ffn.weights()) for ffn in layer.ffns if not isinstance(ffn, Experts)
        ]
        attention = [_ATTENTION for mixer in layer.mixers if isinstance(mixer, Attention)]
        found += sum(_UNPACKED[stored] * each - _FUSED for each in (*attention, *dense))
    blocks = _quantized(job, "attention")
    if blocks is not None and blocks.name == _BLOCKS and chosen.facts.since < _FUSES:
        found += _INPUTS * (len(layer.mixers) + experts.count(0))
    return found


def _quantized(job: ServingJob, kind: str) -> Format | None:
    """Return the format of a kind of matrices whose inputs the GPU quantizes, too."""
    capability = job.accelerator.version if job.accelerator else None
    form = job.basics.stored.format_of(kind, ()) if job.basics.stored is not None else None
    if form is None or form.activations is None:
        return None
    return form if capability is None or capability >= form.multiplied else None


def _usual_driver(job: ServingJob, chosen: Options) -> Driver:
    """Return the driver that logs of such a GPU and release agree with; few logs say which one a machine has.

    Six logs of GB10, whose driver is that of CUDA 13, have what former ones keep.
    """
    if job.accelerator is None or integrated(job.accelerator):
        return FORMER
    major = job.accelerator.major
    since = chosen.facts.since
    between = major == HOPPER and (0, 11) <= since < (0, 19)
    return PRESENT if between or major is None or (major >= BLACKWELL and since >= (0, 19)) else FORMER


def _pool(job: ServingJob, step: Step, stage: Stage, largest: int) -> Entry:
    """Tensors of the largest size, whose blocks all smaller ones use again, and cuBLAS's workspaces of the stream.

    As if products had two of them on Hopper, where they are large: 84 to 212 MiB for the first size of unquantized
    models in the debug lines, and 32 less where kernels of vLLM multiply.
    """
    quantized = step.format is not None and step.format.activations is not None
    workspace = dict(matmul_workspaces(job.accelerator))["cublas_workspace"] * (1 if quantized else 2)
    size = pool(step, stage, largest) + workspace
    return observed(
        "private pool of captured graphs",
        _CATEGORY,
        Range(int(0.6 * size), size, int(1.4 * size)),
        "vllm, compilation/cuda_graph.py; pytorch, c10/cuda/CUDACachingAllocator.h",
        Message("tensors of {} tokens in segments, and workspaces of cuBLAS", largest),
        "inductor's order decides which tensors are alive at the same time",
    )


def _split(job: ServingJob, chosen: Options, stage: Stage, tokens: int) -> Entry | None:
    """FlashAttention 3's partial results of whole graphs, in fp32: [splits, heads, tokens, width of a value].

    262 MiB for the first whole graph of 32 heads of 128 in logs of 0.19, 522 for 16 latent heads of 512. Not with
    sinks, and not where Triton's kernels attend: in fp32, beyond 256 elements, where images see themselves whole.
    """
    basics = job.basics
    hopper = job.accelerator is not None and job.accelerator.major == HOPPER
    if not tokens or not hopper or basics.dtype == "fp32" or not chosen.facts.server_batches:
        return None
    shapes: list[Shape] = []
    for layer in stage.kinds:
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention) and chosen.facts.since >= _LATENT_SPLITS and not mixer.indexer:
                shapes.append((_SPLITS, TOKENS, Quotient((mixer.heads.query,), TENSOR), "lk"))
            elif isinstance(mixer, Attention) and mixer.sinks is None and not mixer.heads.wide and not _whole(job):
                shapes.append((_SPLITS, TOKENS, *sharded((mixer.heads.query, mixer.heads.value), TENSOR)))
    if not shapes:
        return None
    sizes = {**basics.sizes, TOKENS: tokens}
    source = "vllm, v1/attention/backends/flash_attn.py (max_num_splits)"
    shape = max(shapes, key=lambda each: product(each, sizes))
    return tensor("partial results of attention in whole graphs", _CATEGORY, shape, 4, sizes, source)


def _unpacked(job: ServingJob, tokens: int) -> Entry | None:
    """Return the widest matrix of bitsandbytes in the model's dtype: a single token multiplies without unpacking."""
    stored, sizes = job.basics.stored, job.basics.sizes
    if stored is None or stored.format.name not in _UNPACKED or tokens < 2 or not {"f", "h"} <= sizes.keys():
        return None
    shape: Shape = (Quotient(("f",), TENSOR), "h")
    source = "bitsandbytes, autograd/_functions.py, MatMul4Bit"
    return tensor("unpacked weights in graphs", _CATEGORY, shape, BYTES[job.basics.dtype], sizes, source)


def _whole(job: ServingJob) -> bool:
    """Return whether images see themselves whole, as FlashAttention cannot (transformers_utils, is_mm_prefix_lm)."""
    return str(job.basics.raw.get("model_type")) in _PREFIXES


def _estimated(job: ServingJob, chosen: Options) -> int:
    """Return what the estimate of 0.26 and later has for each whole graph of recurrent layers and many sequences."""
    if chosen.facts.since < (0, 26) or not recurrent(job):
        return 0
    return _ESTIMATED if min(chosen.sequences, chosen.tokens) > _USUAL_SEQUENCES else 0


def _workspace(job: ServingJob, chosen: Options) -> Entry:
    """FlashInfer's, which is allocated when metadata of attention is first built: while graphs are captured.

    Since 0.26 it grows with tokens of a step, query heads and their width (read in 0.27.1): 0.52 GiB of graphs with
    2,048 to 4,096 tokens and 0.89 with 8,192 in logs of Qwen3.8-27B; 128 KiB for each token of 32 heads of 256 in
    vllm, issue 50780.
    """
    sizes = {**job.basics.sizes, TOKENS: chosen.tokens}
    shape: Shape = (TOKENS, *sharded(("a", "d"), TENSOR))
    source = "vllm, v1/attention/backends/flashinfer.py, _get_workspace_buffer"
    title = "workspace of FlashInfer's attention"
    shared = _shared(job, chosen)
    category = WORKSPACES if shared or _warmed(job, chosen) else _CATEGORY
    if not shared and chosen.facts.since >= (0, 26) and _ELEMENT * product(shape, sizes) > _FLASHINFER:
        return tensor(title, category, shape, _ELEMENT, sizes, source)
    text = "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"
    return Entry(title=title, category=category, each=_FLASHINFER, text=text, source=source)


def _shared(job: ServingJob, chosen: Options) -> bool:
    """Return whether decoding has a workspace of the whole process, which stays when profiled graphs are gone.

    XQA's kernels have, in which Blackwell's GPUs outside data centers decode since 0.28: 0.40 GiB are estimated and
    0.05 taken by captures of Qwen3.8-27B for one sequence on an RTX 5090.

    Source: vllm, v1/attention/backends/flashinfer.py, _get_trtllm_workspace_buffer (read in 0.27.1, 0.28 and 0.30).
    """
    major = job.accelerator.major if job.accelerator else None
    return major in _SINGLE_TOKENS and chosen.facts.since >= _XQA


def _warmed(job: ServingJob, chosen: Options) -> bool:
    """Return whether FlashInfer's attention runs once before graphs are captured, which then find its workspace.

    Since 0.10.2, where FlashInfer reads the cache of all layers, so not next to recurrent ones
    (model_executor/warmup/kernel_warmup.py).
    """
    return chosen.facts.since >= _WARMS and not recurrent(job)


def _networked(job: ServingJob) -> bool:
    """Return whether tensor-parallel ranks are on several machines; GPUs with the host's memory are alone."""
    together = job.config[Hardware.gpus_per_node] or (1 if integrated(job.accelerator) else _NODE)
    return job.basics.layout.tensor > together


def _flashinfer(job: ServingJob) -> bool:
    """Return whether FlashInfer reads the cache: fp8 without FlashAttention 3, and on Blackwell's large GPUs.

    Not for latent attention, sinks, heads beyond 256 or of two sizes.

    Source: vllm, platforms/cuda.py, _get_backend_priorities.
    """
    basics = job.basics
    major = job.accelerator.major if job.accelerator else None
    mixers = [mixer for layer, _ in basics.model.layers for mixer in layer.mixers]
    heads = basics.sizes.get("d", 0)
    usual = "lk" not in basics.sizes and heads <= 256 and basics.sizes.get("d′", heads) == heads
    sinks = any(getattr(mixer, "sinks", None) is not None for mixer in mixers)
    reads = major == BLACKWELL or (major in _SINGLE_TOKENS and basics.cache_dtype.startswith("fp8"))
    return usual and not sinks and reads


def recurrent(job: ServingJob) -> bool:
    """Return whether some layers keep a state instead of tokens."""
    layers = job.basics.model.layers
    return any(isinstance(mixer, SpecialMixer) and mixer.state for layer, _ in layers for mixer in layer.mixers)


def captured(job: ServingJob, chosen: Options) -> tuple[list[int], list[int]]:
    """Sizes that are captured piece by piece, and those captured whole for decoding."""
    if not chosen.facts.server_batches:
        # The former engine captures decoding alone, and all of it (worker/model_runner.py, _get_graph_batch_size).
        asked = min(chosen.sequences, _FORMER_MOST)
        most = next(size for size in (1, 2, 4, round_up(asked, 8)) if size >= asked)
        return [], [size for size in (1, 2, 4, *range(8, most + 1, 8)) if size <= most]
    facts, each = chosen.facts, 1 + (job.basics.speculation.tokens if job.basics.speculation else 0)
    major = job.accelerator.major if job.accelerator else None
    family = job.basics.model.network.family
    widest = 1024 if facts.since >= (0, 28) and major == BLACKWELL else 512
    # Before 0.10 whatever max_num_seqs is (config.py of 0.8.5).
    usual = min(2 * chosen.sequences * each, widest) if facts.since >= (0, 10) else 512
    usual = 1024 if family == "gpt_oss" else usual
    most = min(chosen.largest_graph or usual, chosen.tokens)
    wide = facts.wide_steps or family == "gpt_oss"
    steps = [*range(8, min(most + 1, 256), 8), *range(256, most + 1, 16)] if wide else range(8, most + 1, 8)
    sizes = [size for size in (1, 2, 4, *steps) if size <= most]
    twice = facts.two_modes or (facts.since >= (0, 10) and recurrent(job))
    # Chunked attention supports no whole graphs (model_executor/layers/attention/chunked_local_attention.py).
    chunked = any(mixer.mask == "chunked" for layer, _ in job.basics.model.layers for mixer in layer.mixers)
    mode = chosen.graph_mode or ("full_and_piecewise" if twice else "piecewise")
    single = each > 1 and major in _SINGLE_TOKENS and job.basics.cache_dtype == "fp8"
    if mode == "piecewise" or chunked or single:
        return sizes, []
    rounded = sorted({each * -(-size // each) for size in sizes})
    sizes = [size for size in rounded if size <= most] or [each]
    if mode == "full" and major == HOPPER:  # FlashAttention 3, as other kernels do not capture prompts whole
        return [], sizes
    return [] if mode == "full_decode_only" else sizes, [
        size for size in sizes if each <= size <= each * chosen.sequences
    ]


FIRST_START = "first start: embedding table for kernel autotuning"


def first_start(job: ServingJob, chosen: Options, stage: Stage, usual: int) -> list[Entry]:
    """What the widest moment has more where no compiled graphs are cached, as in a new container: if nothing is said.

    Inductor times its kernels on inputs that it makes, as large as the real ones: for the first one, which looks tokens
    up, a table of embeddings. Models with a tower look them up before the graph. Qwen3-8B has 6,896 tokens less in
    first starts of 0.24 on an RTX 4090 and an RTX 5090; dense models in 4 bits on an A10G, 3090 and 4090 as much. Peaks
    of 1.18 and 1.04 GiB in logs are this table with its result.

    Qwen2.5 in 16 bits has the table once more in first starts of 0.24 to 0.28, and not in 8 or 4 bits; nor do models
    without biases. No source is known, so it is in the range.
    """
    basics = job.basics
    towers = basics.model.parameters_by_kind.get("tower") and (chosen.images or not chosen.facts.skips_towers)
    if chosen.eager or chosen.compiled or towers or not stage.embeds or not chosen.facts.times_kernels:
        return []
    rows = basics.sizes["V"] // basics.layout.tensor + chosen.tokens
    table = int(rows * basics.sizes["h"] * BYTES[basics.dtype])
    more = max(0, table - usual)
    inputs = (each for layer, _ in basics.model.layers for part in layer.mixers if isinstance(part, Attention)
              for each in part.inputs)  # fmt: skip
    twice = basics.stored is None and any(each.bias for each in inputs)
    bounds = Range(0 if chosen.compiled is None else more, more, max(more, 2 * table - usual) if twice else more)
    text = "an embedding table and what is looked up in it, as far as they exceed the profiled peak"
    source = "pytorch, torch/_inductor/codegen/triton.py, codegen_kernel_benchmark"
    return [
        observed(
            FIRST_START,
            "activations",
            bounds,
            source,
            text,
            "not needed if vLLM's compile cache already has the graph",
        )
    ]
