"""Which kernels run a mixture's experts in vLLM, and for how many tokens they allocate buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from memcore.hardware import BLACKWELL, HOPPER
from memcore.memory.ledger import Entry
from memcore.networks.parts import Experts
from memcore.servers.vllm.options import Options
from memcore.serving.job import ServingJob
from memcore.serving.profile import WORKSPACES
from memcore.serving.slots import EXPERT
from memcore.symbols import Quotient, measure

TRTLLM = "flashinfer_trtllm"
PLAIN_BLACKWELL = 12
"""The compute capability of Blackwell outside data centers, for which TensorRT-LLM has no kernels of experts."""


def major(job: ServingJob) -> int:
    """Compute capability, as far as kernels of experts ask for it."""
    return (job.accelerator.major if job.accelerator else None) or 9


def _blackwell_nvfp4(job: ServingJob) -> bool:
    """Return whether experts in NVFP4 run on Blackwell, which has kernels for them."""
    stored = job.basics.stored
    form = stored.format_of("routed-expert", ()) if stored is not None else None
    return major(job) >= BLACKWELL and form is not None and form.name == "nvfp4"


def _gelu(job: ServingJob) -> bool:
    layers = job.basics.model.layers
    names = {ffn.activation for layer, _ in layers for ffn in layer.ffns if isinstance(ffn, Experts)}
    return any(name.startswith("gelu") for name in names)


def flashinfer_experts(job: ServingJob, chosen: Options) -> bool:
    """Return whether FlashInfer's kernels run the experts, which allocate what they need while they run.

    Blackwell's run experts in NVFP4 since 0.19, GELU's since 0.22; older GPUs have other kernels
    (fused_moe/oracle/nvfp4.py and flashinfer_cutlass_moe.py; read in 0.19, 0.20.0, 0.20.2, 0.22, 0.24 and 0.27). Those
    without a format may run in them since 0.20, where nvcc is installed. In a start of 0.20.0 they did not, and what
    Triton's kernels keep is more: that is taken.
    """
    if chosen.experts != "auto":
        return chosen.experts.startswith("flashinfer")
    return _blackwell_nvfp4(job) and chosen.facts.since >= ((0, 22) if _gelu(job) else (0, 19))


def sorting_experts(job: ServingJob, chosen: Options) -> bool:
    """Return whether vLLM's CUTLASS kernels run the experts, which FlashInfer's do not take.

    Until 0.20 Gemma 4's activation is named "gelu", which they take; in 0.21 "gelu_tanh", which they do not (gemma4.py,
    fused_moe/experts/cutlass_moe.py; read in 0.20.2 and 0.21).
    """
    if chosen.experts != "auto":
        return chosen.experts == "cutlass" and _blackwell_nvfp4(job)
    return _blackwell_nvfp4(job) and _gelu(job) and (0, 19) <= chosen.facts.since < (0, 21)


def own_kernels(job: ServingJob, chosen: Options) -> bool:
    """Return whether MXFP4 experts run in kernels without a workspace: not in Marlin's, which bring one.

    On Hopper and on Blackwell's large GPUs they do unless Marlin is asked for.

    Source: vllm, model_executor/layers/fused_moe/experts/gpt_oss_triton_kernels_moe.py and marlin_moe.py.
    """
    stored = job.basics.stored
    found = job.accelerator.major if job.accelerator else 9
    if stored is None or stored.format.name != "mxfp4" or chosen.experts == "marlin":
        return False
    return found in (9, 10) or chosen.experts in ("triton", TRTLLM)


_BROUGHT, _WIDER = (0, 12), (0, 17)
"""The first release whose wheel brings triton_kernels (vllm/third_party), and the first with wider tiles of it."""


def mxfp4_tile(job: ServingJob, chosen: Options) -> int:
    """Return bytes in which Triton's kernels swizzle rows of MXFP4 on Hopper; 0 where Marlin runs.

    Before 0.12 Marlin runs unless triton_kernels was installed besides (quantization/mxfp4.py, get_mxfp4_backend of
    0.11.2): 66.0 GiB in a log of 0.10.1 that names it and in one of 0.11.2 from a wheel, 64.4 in one of 0.11.0.
    """
    if major(job) == HOPPER and chosen.facts.since < _BROUGHT and chosen.experts != "triton":
        return 0
    return 32 if chosen.facts.since < _WIDER else 64


_CHUNK, _FORMER_CHUNK, _SMALLER = 16 * 1024, 32 * 1024, (0, 12)
"""VLLM_FUSED_MOE_CHUNK_SIZE, what it was in 0.8.5, 0.10.2 and 0.11.0, and the first release read with the smaller one.
Marlin's kernels, for 4 bits, take all tokens."""
_GATHERING = frozenset({None, "naive", "allgather_reducescatter"})
"""Backends of all-to-all with which every rank has the tokens of all (distributed/device_communicators/all2all.py)."""


def shares_experts(job: ServingJob) -> bool:
    """Return whether tokens go to experts of other data-parallel ranks (`use_all2all_kernels`)."""
    layout = job.basics.layout
    return layout.expert_parallel and layout.data > 1 and job.basics.model.has_experts


def ranks_seen(job: ServingJob, chosen: Options) -> int:
    """Return how many ranks' tokens a rank's experts see.

    Source: vllm, model_executor/layers/fused_moe/layer.py (do_naive_dispatch_combine, read in 0.11.2).
    """
    return job.basics.layout.data if shares_experts(job) and chosen.backend in _GATHERING else 1


def taken_at_once(job: ServingJob, chosen: Options) -> int:
    """Return tokens for which experts allocate buffers at once, before they keep them.

    0.2 of the 0.36 GiB of activations that a start of 0.7.1 has with DeepSeek-Coder-V2-Lite are theirs.
    """
    if chosen.facts.keeps_expert_workspace:
        return 0
    stored, every = job.basics.stored, chosen.tokens * ranks_seen(job, chosen)
    form = stored.format_of("routed-expert", ()) if stored is not None else None
    if form is not None and form.name in ("awq", "gptq", "int4"):
        return every
    return min(every, _CHUNK if chosen.facts.since >= _SMALLER else _FORMER_CHUNK)


_PAD, _ALIGNED = 256, 512
"""Bytes that follow each row of experts in 16 bits, and those of which a row must be a multiple."""
_EXPERTS = frozenset({"E", Quotient(("E",), EXPERT)})
"""The first axis of the matrices of a rank's experts."""
_PADS = "vllm, model_executor/layers/fused_moe/unquantized_fused_moe_method.py"


def padded_experts(job: ServingJob, chosen: Options, weights: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what AMD's GPUs hold besides experts in 16 bits, whose rows lie apart for Triton's kernels.

    vLLM copies a layer's two matrices one after the other. The second copy takes the block that the first matrix had,
    and is in it when vLLM has free blocks returned, so that its rest stays reserved: 20.3 GiB for Qwen3-30B-A3B.

    Sources: `_maybe_pad_weight`, in fused_moe/layer.py before 0.11.1 (read in 0.10.2 to 0.33); pytorch,
    c10/cuda/CUDACachingAllocator.cpp, should_split.
    """
    basics = job.basics
    stack = basics.accelerator.stack if basics.accelerator else ""
    if stack != "rocm" or basics.stored is not None or chosen.experts not in ("auto", "triton"):
        return
    experts = [entry for entry in weights if len(entry.shape) > 2 and entry.shape[0] in _EXPERTS]
    for first, second in pairwise(experts):
        if first.copies == second.copies and first.each > second.each:
            apart = sum(_apart(entry) for entry in (first, second))
            rest = max(0, first.each - second.each - _apart(second))
            common = replace(first, shape=(), source=_PADS)
            yield replace(common, title="padding of experts' rows", text="256 B for each row", each=apart)
            text = "the first matrix of a layer less the copy of the second"
            title = "free rest of copied experts' blocks"
            yield replace(common, title=title, category=WORKSPACES, text=text, each=rest)


def _apart(entry: Entry) -> int:
    """Return the bytes between an expert matrix's rows."""
    row = measure(entry.shape[-1], entry.sizes) * int(entry.itemsize)
    return 0 if row % _ALIGNED else entry.each // row * _PAD
