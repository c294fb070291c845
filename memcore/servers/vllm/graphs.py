"""What vLLM's CUDA graphs hold: which batches are captured, and what the driver keeps of each graph.

Sources: vllm, config/vllm.py (_set_cudagraph_sizes), config/compilation.py (adjust_cudagraph_sizes_for_spec_decode,
resolve_cudagraph_mode_and_sizes), v1/cudagraph_dispatcher.py (initialize_cudagraph_keys) and
model_executor/models/config.py (MambaModelConfig, GptOssForCausalLMConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memcore.config.hardware import Hardware
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.parts import SpecialMixer
from memcore.servers.vllm.options import Options
from memcore.serving.devices import direct, integrated, switched
from memcore.serving.entries import observed
from memcore.serving.job import ServingJob
from memcore.serving.stages import Stage
from memcore.units import GiB, MiB

_TITLE, _CATEGORY = "captured graphs and their pool", "CUDA graphs"
_LOGS = "start-up logs of vLLM 0.19.0 on H100 (jgchn/llm-d-planner); not documented by any source"
_PUBLIC = "public start-up logs of vLLM 0.10.1 to 0.29 (tests/truth/logs.json); not documented by any source"


@dataclass(frozen=True, slots=True)
class _Cost:
    """What graphs take, in MiB."""

    once: float
    """Kernels that are loaded when they are first captured."""
    graph: float
    layer: float
    """Of each layer in a graph."""
    routed: float
    """More where the layer has experts."""
    source: str


_HOPPER = _Cost(0, 4.54, 0.146, 0.091, _LOGS)
"""Least squares over the logs' `cuda_graphs`."""
_HOPPER_BEFORE = _Cost(0, 1.5, 0.04, 0.025, _PUBLIC)
"""From 0.11 to 0.18: 0.66 GiB for 48 layers with experts, 0.51 for 61, 0.08 for 40 without and 0 for 80."""
_COSTS: Mapping[int, _Cost] = {
    7: _Cost(60, 0, 0.17, 0.05, _PUBLIC),
    8: _Cost(60, 0, 0.17, 0.05, _PUBLIC),
    12: _Cost(60, 1.3, 0.03, 0.03, _PUBLIC),
}
"""By compute capability; others cost what Hopper's do."""
_REDUCED = 0.2
"""More for each layer whose result NCCL sums: its all-reduce has several kernels (31.2 instead of 15 MiB for 80 layers
on four L40S; 26.6 for 64 on two RTX 3090)."""
_NETWORK = 0.76
"""More for each layer whose result NCCL sums over a network: 5.07 GiB are estimated for 102 graphs of 62 layers on two
GB10 (eugr/spark-vllm-docker, issue 396: 0.8 counts as 0.758)."""
_LOADED = int(0.3 * GiB)
"""What kernels take that run for the first time when graphs are captured: 0.07 to 0.26 GiB in logs of five graphs."""
_ESTIMATED = int(0.15 * GiB)
"""What the estimate of 0.26 and later has more for each whole graph of networks with recurrent states and 1,024
sequences: 0.11 to 0.2 GiB in three starts of Qwen's 27B (vllm-project/recipes, 831); none in logs with 256 sequences.
Which tensors of the profiled step it counts is not known."""
_USUAL_SEQUENCES = 256
_KEPT = int(0.38 * GiB)
"""What profiling leaves free in the allocator."""
_NODE = 8
"""GPUs of a machine, where nothing else is said."""
_FLASHINFER = 394 * MiB
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE (vllm, envs.py), allocated when metadata of attention is first built."""
_DATA_CENTER = 10
"""Compute capability of Blackwell's data-center GPUs, which capture up to 1,024 tokens since 0.28."""
_SINGLE_TOKENS = frozenset({8, 12})
"""Those where a cache in fp8 is read by FlashInfer's own kernels, whose decoding is captured for single tokens alone
(vllm, v1/attention/backends/flashinfer.py, get_cudagraph_support)."""


def graphs(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Captured graphs: what the driver keeps of each grows with the kernels in it, so with layers."""
    if not chosen.facts.server_batches:
        bounds = Range(int(0.4 * GiB), int(0.95 * GiB), int(1.85 * GiB))
        return [observed(_TITLE, _CATEGORY, bounds, _LOGS, "observed 0.40 to 1.85 GiB for up to 51 + 51 graphs")]
    pieces, whole = captured(job, chosen)
    count = len(pieces) + len(whole)
    if not count:
        return []
    major = job.accelerator.major if job.accelerator else None
    former = (0, 11) <= chosen.facts.since < (0, 19)
    cost = _COSTS.get(major or 9, _HOPPER_BEFORE if former else _HOPPER)
    routed = sum(layer.has_experts for layer in stage.layers)
    layer = cost.layer + (_NETWORK if _networked(job) else _REDUCED if _with_nccl(job) else 0)
    each = cost.graph + layer * len(stage.layers) + cost.routed * routed
    expected = int((cost.once + count * each) * MiB) + (_scanned(job, chosen, len(whole)) if whole else 0)
    text = Message("{} CUDA graphs × ({:.2f} + {:.2f} × layers) MiB, and more with experts", count, cost.graph, layer)
    high = int(1.55 * expected) + _LOADED
    if chosen.facts.graphs_inside and chosen.runner is None:
        # An estimate from two samples of each mode (profile_cudagraph_memory), which has more than is captured later.
        high = int(1.5 * expected) + _LOADED if expected > 4 * GiB else int(2 * expected) + _LOADED
    bounds = Range(int(0.25 * expected), expected, high)
    because = "logs of other GPUs and releases show 25 to 100 % of it"
    found = [observed(_TITLE, _CATEGORY, bounds, cost.source, text, because)]
    if whole and _flashinfer(job):
        found.append(
            Entry(
                title="workspace of FlashInfer's attention",
                category=_CATEGORY,
                each=_FLASHINFER,
                text="VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
                source="vllm, v1/attention/backends/flashinfer.py",
            )
        )
    return found


def _scanned(job: ServingJob, chosen: Options, whole: int) -> int:
    """What the estimate of 0.26 and later takes for the graphs': recurrent layers scan a whole step of prompts.

    The first sample runs with as many tokens for each sequence as a step has (vllm, issue 50780: 128 KiB for each token
    of 64 heads); what the allocator had kept free before, 0.38 GiB in vllm, issue 52872, is not counted. With more than
    256 sequences it counts as much for each graph.
    """
    if chosen.facts.since < (0, 26) or chosen.runner is not None or not _recurrent(job):
        return 0
    heads, size = job.basics.sizes.get("B", 0), job.basics.sizes.get("dv", 0)
    every = _ESTIMATED * whole if min(chosen.sequences, chosen.tokens) > _USUAL_SEQUENCES else 0
    return max(0, 16 * heads * size * chosen.tokens - _KEPT) + every


def _with_nccl(job: ServingJob) -> bool:
    """Whether NCCL sums the ranks' results: more than two GPUs without NVLink, or two that do not reach each other.

    Source: vllm, distributed/device_communicators/custom_all_reduce.py.
    """
    ranks = job.basics.layout.tensor
    return ranks > 1 and not switched(job.accelerator) and (ranks > 2 or not direct(job.accelerator))


def _networked(job: ServingJob) -> bool:
    """Whether ranks of tensor parallelism are in several machines; a GPU with the host's memory is alone in its own."""
    together = job.config[Hardware.gpus_per_node] or (1 if integrated(job.accelerator) else _NODE)
    return job.basics.layout.tensor > together


def _flashinfer(job: ServingJob) -> bool:
    """Whether FlashInfer reads the cache: in fp8 where FlashAttention 3 is missing, and on Blackwell's large GPUs.

    Not for latent attention, sinks, heads beyond 256 or of two sizes.

    Source: vllm, platforms/cuda.py, _get_backend_priorities.
    """
    basics = job.basics
    major = job.accelerator.major if job.accelerator else None
    mixers = [mixer for layer, _ in basics.model.layers for mixer in layer.mixers]
    heads = basics.sizes.get("d", 0)
    usual = "lk" not in basics.sizes and heads <= 256 and basics.sizes.get("d′", heads) == heads
    sinks = any(getattr(mixer, "sinks", None) is not None for mixer in mixers)
    reads = major == _DATA_CENTER or (major in _SINGLE_TOKENS and basics.cache_dtype.startswith("fp8"))
    return usual and not sinks and reads


def _recurrent(job: ServingJob) -> bool:
    """Whether some layers keep a state instead of tokens."""
    layers = job.basics.model.layers
    return any(isinstance(mixer, SpecialMixer) and mixer.state for layer, _ in layers for mixer in layer.mixers)


def captured(job: ServingJob, chosen: Options) -> tuple[list[int], list[int]]:
    """Sizes that are captured piece by piece, and those captured whole for decoding."""
    facts, each = chosen.facts, 1 + (job.basics.speculation.tokens if job.basics.speculation else 0)
    major = job.accelerator.major if job.accelerator else None
    family = job.basics.model.network.family
    widest = 1024 if facts.since >= (0, 28) and major == _DATA_CENTER else 512
    # Before 0.10 whatever max_num_seqs is (config.py of 0.8.5).
    usual = min(2 * chosen.sequences * each, widest) if facts.since >= (0, 10) else 512
    usual = 1024 if family == "gpt_oss" else usual
    most = min(chosen.largest_graph or usual, chosen.tokens)
    wide = facts.wide_steps or family == "gpt_oss"
    steps = [*range(8, min(most + 1, 256), 8), *range(256, most + 1, 16)] if wide else range(8, most + 1, 8)
    sizes = [size for size in (1, 2, 4, *steps) if size <= most]
    twice = facts.two_modes or (facts.since >= (0, 10) and _recurrent(job))
    if not twice or (each > 1 and major in _SINGLE_TOKENS and job.basics.cache_dtype == "fp8"):
        return sizes, []
    rounded = sorted({each * -(-size // each) for size in sizes})
    sizes = [size for size in rounded if size <= most] or [each]
    return sizes, [size for size in sizes if each <= size <= each * chosen.sequences]
