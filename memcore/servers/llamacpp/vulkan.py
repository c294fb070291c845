"""What a Vulkan driver does not allocate at once, and what builds of llama.cpp make of that.

Sources: llama.cpp, ggml/src/ggml-vulkan/ggml-vulkan.cpp (`ggml_vk_create_buffer`, `ggml_backend_vk_device_supports_op`)
and ggml/src/ggml-alloc.c (`ggml_dyn_tallocr_new_chunk`); ggml-org/llama.cpp#15815, #16354 and #18646.
"""

from __future__ import annotations

from collections.abc import Iterable

from memcore.hardware import Accelerator
from memcore.messages import Message
from memcore.records import dataclass
from memcore.servers.llamacpp.buffers import Buffer, Plan
from memcore.servers.llamacpp.plan import HOST
from memcore.units import GiB, format_bytes

_SPLITS = 6560
"""About the build (of 24 September 2025) since which a graph's buffer is allocated in pieces, each of whole tensors."""
_BUFFERS = 6660
"""About the build (of 30 September 2025) since which a buffer may be as large as `maxBufferSize`: no limit on NVIDIA's
GPUs, while `maxMemoryAllocationSize` is 4 GiB."""
_REJECTS = 7660
"""About the build (of January 2026) since which the host computes with tensors that are too large."""
_MOST = 4 * GiB
"""What Mesa's, Intel's and NVIDIA's drivers allocate at once."""
_LEAST = 2 * GiB
"""What AMD's own driver does (#11598, #12728; GPUOpen-Drivers/AMDVLK#413)."""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What follows from the limit."""

    refused: Message | None = None
    """Why the build does not start."""
    doubt: Message | None = None
    """Why it may not start: the driver decides."""
    note: Message | None = None


def at_once(plan: Plan, compute: Iterable[Buffer], build: int | None, accelerator: Accelerator | None) -> AtOnce:
    """Compare the limit with what a build allocates at once; None is the newest one."""
    if plan.flags.backend != "vulkan":
        return AtOnce()
    former = plan.flags.release == "ik" or (build is not None and build < _SPLITS)
    nvidia = accelerator is not None and accelerator.vendor == "NVIDIA"
    if nvidia and not former and (build is None or build >= _BUFFERS):
        return AtOnce()
    least = _LEAST if accelerator is None or accelerator.vendor == "AMD" else _MOST
    on_gpus = [each for each in compute if each.device != HOST and each.kind == "compute"]
    graph = max((each.bytes if former else each.largest for each in on_gpus), default=0)
    weight = max((each.bytes for each, device in plan.placed() if device != HOST), default=0)
    size, what = max((graph, "a compute buffer" if former else "an intermediate result"), (weight, "a tensor"))
    if size <= least:
        return AtOnce()
    driver, limit = ("a Vulkan driver", _MOST) if size > _MOST else ("AMD's own Vulkan driver", _LEAST)
    over = Message(
        "{} takes {}; {} allocates at most {} at once", what, format_bytes(size), driver, format_bytes(limit)
    )
    if not former and (build is None or build >= _REJECTS):
        on_host = Message("{}; the host computes it, slowly, and the GPU holds less than this", over)
        return AtOnce(note=on_host) if size > _MOST else AtOnce()
    if size > _MOST:
        ends = 'llama.cpp ends with "ggml_vulkan: Requested buffer size exceeds device memory allocation limit"'
        fix = Message("use a smaller ubatch, flash attention, or a build from b{} on", _REJECTS)
        return AtOnce(refused=Message("{}; {}; {}", over, ends, fix))
    fix = Message("llama.cpp starts with Mesa's driver, or from build b{} on", _REJECTS)
    return AtOnce(doubt=Message("{}; {}", over, fix))
