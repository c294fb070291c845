"""Buffers outside the static fraction through which ranks reach each other: experts' tokens, and what is summed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.parallelism import Parallelism
from memcore.hardware import HOPPER
from memcore.memory.ledger import Entry, Range
from memcore.servers.sglang.attention import groups
from memcore.servers.sglang.experts import physical
from memcore.servers.sglang.graphs import GRAPHS
from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.all_to_all import deep_ep, far_bytes, flashinfer, low_latency_bytes, near_bytes, one_sided_bytes
from memcore.serving.devices import switched
from memcore.serving.entries import observed
from memcore.serving.job import Basics, ServingJob
from memcore.serving.profile import WORKSPACES
from memcore.serving.settings import ServerSettings
from memcore.symbols import round_up
from memcore.units import MiB

_DISPATCHER = "sglang, srt/layers/moe/token_dispatcher/deepep.py; deepseek-ai/DeepEP, csrc/legacy/config.hpp"
_SLOTS = "sglang, srt/layers/moe/token_dispatcher/flashinfer.py; flashinfer, comm/trtllm_moe_alltoall.py"
_HELD = 1024
"""SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK; the dispatcher multiplies it by the ranks, as FlashInfer does."""
UNQUANTIZED = ("mtp", "eagle", "eagle3")
"""Methods whose own layer sends its tokens in 16 bits (`is_eagle`)."""


def sends(read: Defaults) -> str | None:
    """Return what sends tokens to experts, which are then whole and shared out over all tensor-parallel ranks.

    Source: sglang, srt/server_args.py (`_handle_a2a_moe`).
    """
    found = read.given(SglangSettings.moe_a2a_backend)
    return found if found in ("deepep", "flashinfer") else None


def checked_sender(read: Defaults, basics: Basics) -> str | None:
    """Return what sends tokens to experts, and refuse it for experts that are not shared out."""
    found, layout = sends(read), basics.layout
    if found is not None and (not layout.expert_parallel or layout.data > groups(layout)):
        said = "found {!r}, which needs {} true and {} 1"
        data = Parallelism.data_parallel_size
        read.refuse(SglangSettings.moe_a2a_backend, said, found, ServerSettings.enable_expert_parallel, data)
    return found


def exchanged(job: ServingJob, *, mode: str | None, slots: bool, dispatched: int, captures: bool) -> list[Entry]:
    """Return buffers of all-to-all outside the static share: DeepEP's of the first step, or FlashInfer's slots.

    `mode`: DeepEP's, if it sends tokens; `slots`: FlashInfer does; `dispatched`: tokens of a rank that DeepEP's kernels
    for decoding have room for; `captures`: decoding is captured.

    DeepEP's normal and low-latency kernels share the second buffer, and the first step is that which warms up the first
    graph; FlashInfer gets tokens in NVFP4.
    Source: sglang, srt/layers/moe/token_dispatcher/deepep.py (`get_deepep_buffer`) and flashinfer.py.
    """
    sizes, basics = job.basics.sizes, job.basics
    if "E" not in sizes or sizes["EP"] == 1:
        return []
    if slots:
        drafts = basics.speculation is not None and basics.speculation.method in UNQUANTIZED
        sent = 2 * sizes["h"] if drafts else sizes["h"] // 2 + sizes["h"] // 16
        size = one_sided_bytes(_HELD * sizes["EP"], sizes["h"], sizes["e"], sizes["EP"], sent=sent)
        return flashinfer(size, _SLOTS)
    if mode is None:
        return []
    normal, late = mode != "low_latency", mode != "normal"
    near = near_bytes(sizes["h"], sizes["EP"]) if normal else 0
    far = far_bytes(sizes["h"], sizes["EP"]) if normal else 0
    quick = low_latency_bytes(dispatched, sizes["h"], physical(job)) if late else 0
    found = deep_ep(near, max(far, quick), _DISPATCHER)
    return [replace(each, category=GRAPHS) for each in found] if captures else found


_SUMMED = 2
"""Results of layers that are alive together: the one that is summed, and the one before it."""
_GRAIN = 512 * MiB
"""What NCCL rounds each segment up to where GPUs multicast: the recommended granularity of cuMulticastGetGranularity.
Graphs of DeepSeek-R1 on four and eight B200 take 0.75 to 1.04 GiB more, by two such segments: one for small results and
one for larger ones."""
_CAPTURED, _NEWER = 2, "newer releases of NCCL round up to 2 MiB"


def symmetric(job: ServingJob, tokens: int, *, ahead: int, captures: bool) -> Iterator[Entry]:
    """Yield results that ranks sum, which NCCL's symmetric memory holds apart from PyTorch's own.

    `ahead`: bytes of it that are allocated after the capture, of which later results are a part.

    Source: sglang, srt/distributed/device_communicators/pynccl_allocator.py (`SymmetricMemoryContext`),
    srt/layers/linear.py (`RowParallelLinear`); nccl, src/allocator.cc of releases before the newest (`ncclMemAlloc`:
    "only size needs to be aligned to mcGran").
    """
    if job.basics.layout.tensor == 1:
        return
    source = "sglang, srt/distributed/device_communicators/pynccl_allocator.py"
    title, size = "results in symmetric memory", 2 * tokens * job.basics.sizes["h"]
    multicast = switched(job.accelerator) and job.accelerator is not None and (job.accelerator.major or 0) >= HOPPER
    each = round_up(size, _GRAIN) if multicast else size
    bounds = Range(max(_SUMMED * size, ahead), max(_SUMMED * each, ahead), max(_SUMMED * each, ahead))
    yield observed(title, WORKSPACES, bounds, source, "two at a time, or what is allocated ahead", _NEWER)
    if captures and multicast:
        bounds = Range(0, _CAPTURED * _GRAIN, _CAPTURED * _GRAIN)
        yield observed(title, GRAPHS, bounds, source, "small and larger results", _NEWER)
