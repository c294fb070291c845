"""What is different where vLLM does not run on CUDA: AMD's, Intel's, Huawei's and Google's accelerators.

AMD's and Intel's run vLLM's own worker; Huawei's that of vllm-ascend, Google's that of tpu-inference.

Sources: vllm 0.19 to 0.33, v1/worker/gpu_worker.py and xpu_worker.py, platforms/xpu.py, v1/sample/ops/
topk_topp_sampler.py; vllm-project/vllm-ascend at 182b75e, worker/worker.py, platform.py, utils.py, sample/sampler.py;
vllm-project/tpu-inference at b8692ff, worker/tpu_worker.py, platforms/tpu_platform.py, layers/vllm/backends/
flash_attn.py and runner/kv_cache_manager.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.hardware import Hardware
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.servers.vllm.settings import VllmSettings
from memcore.servers.vllm.versions import Facts, sampled
from memcore.serving.entries import observed
from memcore.serving.formats import BYTES
from memcore.serving.inference import Inference
from memcore.serving.job import Basics
from memcore.units import GiB, MiB

NEVER = (99,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A row."""

    title: str
    estimates: tuple[int, ...] = (0, 20)
    """Since when the estimate of graphs is taken from the cache."""
    sorts: bool = True
    """PyTorch samples; FlashInfer's kernels are NVIDIA's alone."""
    inductor: bool = True
    """Steps are compiled, and kernels timed for it."""
    profiles: bool = True
    """A step is run before the cache is sized; without, what compiled programs need must fit into the rest."""
    samples: bool = True
    """The profiled step is sampled; without, its logits are computed and no more."""
    second_runner: bool = True
    captures: bool = True
    formats: frozenset[str] | None = None
    """Of weights; None: all."""
    while_profiling: Range | None = None
    """What profiling takes outside the allocator, where nothing of NVIDIA's is known to hold."""
    spreads: bool = False
    """JAX spreads every parameter over the ranks, and keeps no table of rotations."""
    windows: bool = True
    """Layers with a window free what is out of sight."""
    alignment: int | None = None
    """The tokens that a block next to recurrent states is a multiple of, where its keys alone hold a state."""
    seen_loading: tuple[int, ...] = ()
    """The first release that does not take what the device shows for what loading takes."""
    hosted: bool = True
    """What is free of an integrated GPU is what the host has free (platforms/cuda.py, is_integrated_gpu)."""
    graphs: Range | None = None
    """What captured graphs take, where drivers are not NVIDIA's or AMD's."""


_SIXTEEN_AND_EIGHT = frozenset({"fp8", "fp8-channel", "fp8-block", "int8"})
STACKS: Mapping[str, Stack] = {
    "cuda": Stack(title="NVIDIA", sorts=False),
    "rocm": Stack(title="AMD", estimates=(0, 26), seen_loading=(0, 24), hosted=False),
    "xpu": Stack(
        title="Intel",
        estimates=(0, 31),
        formats=frozenset({*_SIXTEEN_AND_EIGHT, "awq", "gptq", "int4", "mxfp4", "mxfp8"}),
        while_profiling=Range(0, int(0.3 * GiB), GiB),
    ),
    "cann": Stack(
        title="Huawei",
        estimates=NEVER,
        sorts=False,
        inductor=False,
        samples=False,
        second_runner=False,
        formats=frozenset({*_SIXTEEN_AND_EIGHT, "int4", "mxfp8"}),
        while_profiling=Range(0, int(0.13 * GiB), int(1.2 * GiB)),
        alignment=128,
        graphs=Range(0, 100 * MiB, GiB),
    ),
    "tpu": Stack(
        title="Google",
        estimates=NEVER,
        sorts=False,
        inductor=False,
        profiles=False,
        second_runner=False,
        captures=False,
        formats=frozenset({"fp8", "fp8-channel", "fp8-block", "int8", "int4", "awq", "mxfp4", "nvfp4"}),
        while_profiling=Range(0, 0, int(0.1 * GiB)),
        spreads=True,
        windows=False,
    ),
}
"""By `Accelerator.stack`.

Estimates of graphs: `is_cuda()` until 0.25, `is_cuda_alike()` from 0.26, and XPU from 0.31. Ascend: 0.13 GiB outside
the allocator and 0.04 of graphs of a model of 0.6 billion parameters in vllm-ascend, pull request 8289; HCCL's buffers
of several ranks are within the range; `_dummy_sampler_run` computes logits alone (worker/model_runner_v1.py). TPUs:
`sliding_window = None` for every layer (kv_cache_manager.py)."""


def stack_of(basics: Basics) -> Stack:
    """Return the row of a job's accelerator; NVIDIA's where none is named."""
    return STACKS[basics.accelerator.stack if basics.accelerator else "cuda"]


def on_stack(read: Defaults, basics: Basics, found: Facts, version: tuple[int, ...]) -> Facts:
    """Return what holds of a release there; what does not run there is refused."""
    stack = stack_of(basics)
    form = basics.stored.format.name if basics.stored is not None else None
    if stack.formats is not None and form is not None and form not in stack.formats:
        said = "found {}, which vLLM does not support on accelerators of {}; supported: {}"
        read.refuse(Inference.quantization, said, form, stack.title, joined(", ", sorted(stack.formats)))
    if not stack.profiles and "lk" in basics.model.sizes:
        said = (
            "found {!r}; latent attention is not supported yet on TPUs, where vLLM runs it with data parallelism alone"
        )
        read.refuse(Hardware.accelerator, said, basics.accelerator.id if basics.accelerator else "")
    if not found.server_batches:
        return found
    told = read.given(VllmSettings.flashinfer_sampler)
    found = sampled(found, False if stack.sorts else told)
    if not stack.inductor:
        found = replace(found, times_kernels=False, sampler=8, masks_with_triton=False, flashinfer_samples=False)
    unsplit = found.unsplit if stack is STACKS["cuda"] else None
    inside = _estimates(read, found, stack, version)
    return replace(found, unsplit=unsplit, graphs_inside=inside, shows_loading=version < stack.seen_loading)


def _estimates(read: Defaults, found: Facts, stack: Stack, version: tuple[int, ...]) -> bool:
    """Return whether the estimate of graphs is taken from the cache: as told, else by release and accelerator."""
    told, elsewhere = read.given(VllmSettings.estimate_cudagraphs), stack is not STACKS["cuda"]
    inside = found.graphs_inside if told is None else told and found.profiles_graphs
    return bool(inside) and (version >= stack.estimates or (told is True and not elsewhere))


_USUAL_BLOCK, _ASCEND_BLOCK = 16, 128
_SHORT = 8192
"""Tokens of a sequence beyond which blocks on TPUs are small."""


def block_of(basics: Basics, usual: int) -> int:
    """Return tokens of a block where the config does not say.

    Ascend has 128 (utils.py, refresh_block_size); TPUs a sixteenth of the longest sequence, from 16 to 256
    (PallasAttentionBackend.get_page_size).
    """
    name = basics.accelerator.stack if basics.accelerator else "cuda"
    if name == "cann":
        return _ASCEND_BLOCK
    if name != "tpu":
        return usual
    if basics.max_model_len > _SHORT:
        return _USUAL_BLOCK
    sixteenth = (1 << (basics.max_model_len - 1).bit_length()) // 16
    return min(max(sixteenth, _USUAL_BLOCK), 256)


_NOT_KEPT = frozenset({"cosines and sines", "unsplit segment ends (allocator rounding)"})
_SPREAD = "parameters, spread over the ranks"


def spread_over(basics: Basics, weights: Sequence[Entry]) -> list[Entry]:
    """What a rank holds of weights that JAX spreads: 14.6 GiB on each of four ranks for the 58.25 of Gemma 4 31B.

    Of Gemma 4 E2B one chip holds as much less as its audio tower has, which the range covers.
    """
    if not stack_of(basics).spreads:
        return [*weights]
    kept = [entry for entry in weights if entry.title not in _NOT_KEPT]
    towers = int(basics.model.parameters_by_kind.get("tower", 0) * BYTES[basics.dtype])
    if not towers:
        return kept
    most = sum(entry.bytes for entry in kept)
    bounds = Range(most - towers, most - towers + towers // basics.layout.tensor, most)
    text, source = "the ranks split the tower, or do not load it", "tpu-inference, worker/tpu_worker.py"
    return [observed(_SPREAD, "weights", bounds, source, text)]


def notes_of(basics: Basics) -> list[Message | str]:
    """Return what is not known there."""
    stack = stack_of(basics)
    if not stack.profiles:
        return ["vLLM profiles no step on TPUs: compiled programs must fit into the rest of the memory"]
    if stack.while_profiling is not None:
        return [
            Message(
                "few measured starts on accelerators of {} are known; "
                "kernels are assumed to take as much memory as on NVIDIA GPUs",
                stack.title,
            )
        ]
    return []
