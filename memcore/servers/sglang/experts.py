"""What kernels of experts leave allocated next to the weights in SGLang.

Source: sglang 0.5.1 to 0.5.23, srt/layers/quantization/modelopt_quant.py (`ModelOptNvFp4FusedMoEMethod`): room for
swizzled scales is made for every expert before loading; FlashInfer's kernels of TensorRT-LLM shuffle weights and scales
into tensors of their own, and until 0.5.12 the room stayed. Marlin repacks the scales as loaded, and the room stays to
this day. Which kernels run unasked: srt/server_args.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from memcore.hardware import BLACKWELL
from memcore.memory.ledger import Entry, Range
from memcore.networks.parts import Experts
from memcore.servers.sglang.compressed import FAMILY
from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.entries import observed, tensor
from memcore.serving.job import Basics, ServingJob
from memcore.serving.stages import Stage
from memcore.serving.weights import CATEGORY
from memcore.symbols import product, round_up

_TRTLLM, _REPACKED, _AUTO = "flashinfer_trtllm", "marlin", "auto"
_UNASKED = frozenset({"deepseek_v3", "qwen3_moe", "qwen3_next", "qwen3_5_moe"})
_MADE, _FREED = (0, 5, 1), (0, 5, 12)
"""The first release read that makes the room, and the first that frees it; 0.4.10 swizzles scales when it has them."""
_REPACKS = (0, 5, 15)
"""The first release read with Marlin for experts in NVFP4, which GPUs before Blackwell run unasked."""
_SOURCE = "sglang 0.5.9, srt/layers/quantization/modelopt_quant.py, ModelOptNvFp4FusedMoEMethod.create_weights"
_GROUP = 16
_MARLIN = 9
"""Compute capability of the GPUs on which Marlin multiplies experts in MXFP4."""
_OF_SCALES = 4, 17
"""Bytes of a scale in fp32, and of the 32 elements that it is for, in MXFP4 with a scale of their own."""


def kept_scales(job: ServingJob, weights: Sequence[Entry]) -> Iterator[Entry]:
    """Yield scales of DeepSeek-V4's experts in fp32, as they were loaded, next to those that Marlin reads.

    125.65 GiB of a log of DeepSeek-V4-Pro on eight H200 (image deepseek-v4-hopper; InferenceX, issue 2128) have them
    all; later releases load them as they are stored.
    """
    major = job.accelerator.major if job.accelerator else None
    if major != _MARLIN or job.model.network.family != FAMILY:
        return
    if size := sum(each.bytes for each in weights if "mxfp4" in each.title and ".experts." in each.module):
        kept = size * _OF_SCALES[0] // _OF_SCALES[1]
        title, text = "experts' scales in fp32", "one for 32 elements"
        source = "sglang, srt/layers/quantization/mxfp4_marlin_moe.py, Mxfp4MarlinMoEMethod.create_weights"
        yield observed(title, CATEGORY, Range(0, kept, kept), source, text, "later releases do not keep them")


def left_behind(job: ServingJob, backend: str, number: tuple[int, ...], stage: Stage) -> Iterator[Entry]:
    """Room for scales in NVFP4 that is never filled."""
    basics, sizes = job.basics, job.basics.sizes
    if basics.stored is None or basics.stored.format.name != "nvfp4" or not _leaves_room(basics, backend, number):
        return
    for layer, numbers in stage.kinds.items():
        for ffn in layer.ffns:
            if isinstance(ffn, Experts):
                many = product((sizes["E"],), sizes) // sizes["EP"]
                wide, hidden = -(-sizes["m"] // sizes["ETP"]), product((ffn.reads,), sizes)
                first = 2 * wide if ffn.gated else wide
                for title, rows, columns in (
                    ("unused swizzled scales of gate and up", first, hidden),
                    ("unused swizzled scales of down", hidden, wide),
                ):
                    shape = (many, round_up(rows, 128), round_up(columns // _GROUP, 4))
                    yield tensor(title, CATEGORY, shape, 1, sizes, _SOURCE, copies=len(numbers), module="experts")


def _leaves_room(basics: Basics, backend: str, number: tuple[int, ...]) -> bool:
    major = basics.accelerator.major if basics.accelerator else None
    if number >= _REPACKS and backend in (_REPACKED, _AUTO):
        return major is not None and (backend == _REPACKED or major < BLACKWELL)
    if major != BLACKWELL or not _MADE <= number < _FREED:
        return False
    return backend == _TRTLLM or (backend == _AUTO and basics.model.network.family in _UNASKED)


def physical(job: ServingJob) -> int:
    """Return how many experts all ranks hold: the model's own, and copies of those that are often chosen."""
    sizes = job.basics.sizes
    return product((sizes["E"],), sizes) + (job.config[SglangSettings.ep_num_redundant_experts] or 0)


def redundant(job: ServingJob, weights: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the copies that are shared out with the other experts (srt/eplb/expert_location.py)."""
    if not job.config[SglangSettings.ep_num_redundant_experts] or "E" not in job.basics.sizes:
        return
    sizes = {
        "bytes": sum(entry.bytes for entry in weights if "experts" in (entry.module or "").split(".")),
        "experts": product((job.basics.sizes["E"],), job.basics.sizes),
    }
    share = Fraction(physical(job), sizes["experts"]) - 1
    yield tensor("copies of experts, shared out over the ranks", CATEGORY, ("bytes",), share, sizes, _COPIES)


_COPIES = "sglang, srt/layers/moe/ep_moe/layer.py, num_physical_experts"
DISPATCHED = 128
"""SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK (sglang, srt/environ.py)."""


def received(sizes: Mapping[str, int], itemsize: int, tokens: int) -> int:
    """Return bytes of what experts receive while decoding, and make of it: room for each rank's `tokens` each.

    Source: sglang 0.5.9, srt/layers/moe/moe_runner/deep_gemm.py (`_run_masked_gemm`), which frees what was read.

    >>> received({"E": 256, "h": 7168, "m": 2048}, 1, 128) // 2**20
    512
    """
    rows, hidden, wide = tokens * sizes["E"], sizes["h"], sizes["m"]
    return rows * max(itemsize * hidden + 2 * 2 * wide, itemsize * wide + 2 * hidden)
