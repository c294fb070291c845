"""What captured CUDA graphs hold: how many kernels a step runs, what the driver keeps of them, what their pool takes.

Servers cut a step at attention and at what scans recurrent states: a graph captured piece by piece has what lies
between, one captured whole has everything. Norms, rotations, activations and quantization are one kernel each, which
inductor fuses with what is elementwise before and after them.

Sources: vllm, config/compilation.py (`splitting_ops`), model_executor/models and layers, v1/attention/backends,
layers/fused_moe/fused_moe.py; sglang, srt/compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from memcore.config.engine import release
from memcore.hardware import BLACKWELL, HOPPER
from memcore.memory.allocator import LARGE_SEGMENT, ROUNDING, SMALL
from memcore.memory.ledger import Range
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, Ffn, LatentAttention, Mixer
from memcore.records import dataclass
from memcore.serving.devices import direct, integrated, switched
from memcore.serving.job import ServingJob
from memcore.serving.profile import CHUNK, ROWS, TOKENS, WIDEST_CONTEXT, Step, widest
from memcore.serving.settings import ServerHardware, ServerSettings
from memcore.serving.stages import Stage
from memcore.symbols import round_up
from memcore.units import KiB, MiB

LOADED = 300 * MiB
"""What kernels take that run for the first time when graphs are captured: 0.07 to 0.26 GiB in logs of five graphs."""


@dataclass(frozen=True, slots=True)
class Driver:
    """KiB that a driver keeps of each graph and of each kernel in it, and MiB of a layer whose result NCCL sums."""

    graph: float
    kernel: float
    summed: float
    source: str

    def bytes(self, count: Count) -> int:
        """Return what it keeps of all."""
        return int((count.graphs * self.graph + count.kernels * self.kernel + count.sums * self.summed * KiB) * KiB)


_MORE = 3.46
"""How many times more drivers before that of CUDA 12.4 keep of NCCL's sums: 3.81 GiB instead of 1.14, of which the pool
has 0.05, for the same start on eight A10G, and on eight L4 (vllm, issue 5517)."""
FORMER = Driver(90, 12.8, 0.2, "start-up logs of vLLM 0.19.0 on H100 (jgchn/llm-d-planner)")
"""Debug lines of 40 starts with CUDA 12.9 have 2 to 6 MiB for a whole graph of 80 to 320 kernels, and 1 to 6 MiB for 9
to 33 pieces with 64 to 256. Logs of GPUs before Hopper agree with any later driver: 0.48 GiB on an RTX 4090 D with
580.76. NCCL's all-reduce has several kernels: 31.2 instead of 15 MiB for 80 layers on four L40S, 26.6 for 64 on two
RTX 3090."""
EARLIER = Driver(640, 38, _MORE * FORMER.summed, "https://github.com/romeramarc/Tfg-mn5-llm-serving")
"""Fitted: 2.78 GiB for 2,534 graphs with 36,384 kernels and 1.66 for 1,514 with 21,224 on H100 (0.15.1, 535.86), 2.17
for 2,479 with 19,296 on an A100 (0.9.2), 2.37 for 1,922 with 27,288 (0.19.1, 535.247)."""
PRESENT = Driver(106, 0.32, 0.2, "validation/graphs.py on an H100, driver 580.159, CUDA 13.0 and PyTorch 2.11")
"""12 MiB for 51 whole graphs of 416 kernels, 180 MiB for 1,683 pieces of them; copies and fills cost nothing."""
_SUMMED_MORE = 2
"""How many times more NCCL's part may be: 0.65 MiB of a layer in a log of four L4."""
_FEWER, _PRESENT = 550, 580
"""Branches of the drivers of CUDA 12.4 and of CUDA 13."""


def driver_of(job: ServingJob, usual: Driver) -> Driver:
    """Return the driver that is stated, if one is."""
    stated = job.config[ServerHardware.driver]
    if stated is None:
        return usual
    branch = release(stated)[0]
    if branch < _FEWER:
        return EARLIER
    present = branch >= _PRESENT and _major(job) >= HOPPER and not integrated(job.accelerator)
    return PRESENT if present else FORMER


def _runs(job: ServingJob, *, earlier: bool) -> Iterator[Driver]:
    yield FORMER
    if _major(job) >= HOPPER:
        yield PRESENT
    if earlier and _major(job) < BLACKWELL:
        yield EARLIER


def _major(job: ServingJob) -> int:
    return (job.accelerator.major if job.accelerator else None) or BLACKWELL


def kept(job: ServingJob, usual: Driver, count: Count, further: int, *, earlier: bool) -> Range:
    """Return what the driver keeps of graphs, with `further` bytes that it does not change.

    `earlier`: whether logs of the release show drivers before CUDA 12.4's. The bounds hold 89 of 100 readings in each
    half of 88, those by which they were chosen and the others, and 60 of 61 starts of one study.
    """
    expected = driver_of(job, usual)
    others = {usual, *_runs(job, earlier=earlier)} if job.config[ServerHardware.driver] is None else {expected}
    least, most = (pick(each.bytes(count) for each in others) + further for pick in (min, max))
    found = expected.bytes(count) + further
    # What is free of the host's memory may grow meanwhile: 0.04 GiB for 86 and for 102 graphs on GB10.
    least = 0 if integrated(job.accelerator) else least
    summed = int(count.sums * expected.summed * _SUMMED_MORE * MiB)
    return Range(int(0.7 * least), found, max(int(1.25 * found), int(1.1 * most)) + summed + LOADED)


_REDUCED = 2
"""Sums over ranks: after attention and after the feed-forward layer."""
_NORMS = 2
"""Kernels of a layer's norms: after a product, inductor makes one of the norm of its result, the residual's sum and the
next norm, as in Gemma's layers of four."""
_ROUTING = 9
"""The router, its choice, counting and sorting tokens by expert (3), two products, the activation, the sum."""


@dataclass(frozen=True, slots=True)
class Count:
    """Graphs, and the kernels in all of them."""

    graphs: int
    kernels: int
    sums: int = 0
    """Layers whose results NCCL sums."""


def _none(_layer: Layer) -> int:
    return 0


def count(
    stage: Stage, ranks: int, *, pieces: int, whole: int, further: Callable[[Layer], int] = _none, sums: bool = False
) -> Count:
    """Return what is captured of a stage: sizes that are captured piece by piece, and sizes that are captured whole.

    `further`: kernels of a layer that its network does not tell; `sums`: whether NCCL sums its results.
    """
    each = [kernels(layer, ranks) for layer in stage.layers]
    between = sum(one + further(layer) for layer, (one, _) in zip(stage.layers, each, strict=True))
    inside = sum(other for _, other in each)
    sizes = pieces + whole
    return Count(
        pieces * (len(stage.layers) + 1) + whole, sizes * between + whole * inside, sums * sizes * len(stage.layers)
    )


def summed_by_nccl(job: ServingJob) -> bool:
    """Return whether NCCL sums the ranks' results: where it is told, and where GPUs do not reach each other.

    Those are more than two without NVLink, and two of some kinds.

    Source: vllm, distributed/device_communicators/custom_all_reduce.py, which SGLang has, too.
    """
    ranks = job.basics.layout.tensor
    told = job.config[ServerSettings.disable_custom_all_reduce]
    return ranks > 1 and (bool(told) or (not switched(job.accelerator) and (ranks > 2 or not direct(job.accelerator))))


def kernels(layer: Layer, ranks: int) -> tuple[int, int]:
    """Kernels of a layer in pieces, and those of its attention.

    >>> from memcore.networks.catalog import find_model
    >>> layer, _ = find_model("llama-3.1-8b").layers[0]
    >>> kernels(layer, 1)
    (8, 2)
    """
    between = sum(_around(mixer) for mixer in layer.mixers) + sum(_fed(ffn) for ffn in layer.ffns) + _further(layer)
    inside = sum(_inside(mixer) for mixer in layer.mixers)
    return between + min(_NORMS, len(layer.norms) or _NORMS) + (_REDUCED if ranks > 1 else 0), inside


def _further(layer: Layer) -> int:
    """Products of what belongs to no other part, as Gemma's embeddings of each layer, and what follows each."""
    extra = layer.extra
    return 2 * sum(len(weight.axes) > 1 for weight in extra.weights()) if extra is not None else 0


def _around(mixer: Mixer) -> int:
    """Return its products and its rotation, which takes norms of queries and keys along."""
    if isinstance(mixer, Attention):
        return 3
    if isinstance(mixer, LatentAttention):
        return len(mixer.queries) + 4
    return 4


def _inside(mixer: Mixer) -> int:
    """Writing the cache and reading it; latent attention also expands what it reads, states have a convolution."""
    return 2 if isinstance(mixer, Attention) else 5


def _fed(ffn: Ffn) -> int:
    return sum(_ffn(ffn))


def _ffn(ffn: Ffn) -> Iterator[int]:
    if not isinstance(ffn, Experts):
        yield 3
        return
    yield _ROUTING
    if ffn.shared is not None:
        yield 4
    if ffn.shared_gate is not None:
        yield 2


def pool(step: Step, stage: Stage, largest: int) -> int:
    """Return bytes of the tensors of the largest size, whose blocks all smaller ones use again."""
    sizes = {**step.sizes, TOKENS: largest, ROWS: largest, WIDEST_CONTEXT: largest, CHUNK: min(largest, step.chunk)}
    entries = widest(replace(step, sizes=sizes, benchmark=0, scores=0), stage)
    return segments(entry.bytes // entry.copies for entry in entries for _ in range(entry.copies))


def segments(tensors: Iterable[int]) -> int:
    """Return bytes that the allocator takes from the driver for tensors that are alive together.

    >>> segments([4 * MiB, 4 * MiB, 28 * MiB, 1024]) // MiB
    50
    """
    found, small, room = 0, 0, 0
    for size in tensors:
        if size < SMALL:
            small += size
        elif size >= LARGE_SEGMENT // 2:
            found += round_up(size, ROUNDING)
        else:
            if size > room:
                found, room = found + LARGE_SEGMENT, LARGE_SEGMENT
            room -= size
    return found + round_up(small, ROUNDING)
