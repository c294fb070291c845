"""What kernels' buffers depend on: multiprocessors and second-level cache of a GPU.

Sources: NVIDIA's architecture whitepapers (Volta to Blackwell), `torch.cuda.get_device_properties`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memcore.hardware import Accelerator
from memcore.records import dataclass
from memcore.units import MiB


@dataclass(frozen=True, slots=True)
class Device:
    """A row."""

    multiprocessors: int
    cache: int
    """Bytes of the second-level cache."""


_ROWS: Mapping[str, tuple[int, int]] = {
    "v100": (80, 6),
    "t4": (40, 4),
    "a10": (72, 6),
    "a10g": (72, 6),
    "a30": (56, 24),
    "a40": (84, 6),
    "rtx-a6000": (84, 6),
    "a100": (108, 40),
    "rtx-3090": (82, 6),
    "rtx-4090": (128, 72),
    "rtx-5090": (170, 96),
    "rtx-6000-ada": (142, 96),
    "rtx-pro-6000": (188, 128),
    "l4": (58, 48),
    "l20": (92, 96),
    "l40": (142, 96),
    "h100-pcie": (114, 50),
    "h100": (132, 50),
    "h800": (132, 50),
    "h20-": (78, 60),
    "h200": (132, 50),
    "gh200": (132, 50),
    "b200": (148, 126),
    "gb200": (148, 126),
    "b300": (148, 126),
    "gb300": (148, 126),
}
"""Multiprocessors and MiB of cache, by how an accelerator's id begins."""
_SWITCHED = ("h100-sxm", "h200-sxm", "h800", "h20-", "gh200", "b200", "b300", "gb200", "gb300")
"""GPUs that an NVLink switch connects, by how their id begins."""
_INTEGRATED = ("gb10", "jetson", "thor")
"""GPUs that have the host's memory."""


_GEFORCE = re.compile(r"rtx-[2-5]0\d0")


def has(accelerator: Accelerator | None, least: tuple[int, int]) -> bool:
    """Return whether a GPU has a compute capability, which NVIDIA's have alone: others are taken to."""
    if accelerator is None or accelerator.major is None:
        return True
    major, _, minor = accelerator.capability.partition(".")
    return (int(major), int(minor)) >= least


def switched(accelerator: Accelerator | None) -> bool:
    """Return whether GPUs reach each other through an NVLink switch; assumed where none is named."""
    return accelerator is None or accelerator.id.startswith(_SWITCHED)


def direct(accelerator: Accelerator | None) -> bool:
    """Return whether GPUs read each other's memory; the driver denies it to GeForce."""
    return accelerator is None or not _GEFORCE.match(accelerator.id)


def desktop(accelerator: Accelerator | None) -> bool:
    """Return whether a screen may be connected, whose windows take memory, too."""
    return accelerator is not None and _GEFORCE.match(accelerator.id) is not None


def integrated(accelerator: Accelerator | None) -> bool:
    """Return whether the GPU shares the host's memory with everything else that runs there."""
    return accelerator is not None and accelerator.id.startswith(_INTEGRATED)


_USUAL = Device(132, 50 * MiB)


def device_of(accelerator: Accelerator | None) -> Device:
    """The row of an accelerator; the longest beginning counts, and H100's where there is none."""
    name = accelerator.id if accelerator else ""
    found = max((key for key in _ROWS if name.startswith(key)), key=len, default=None)
    if found is None:
        return _USUAL
    multiprocessors, cache = _ROWS[found]
    return Device(multiprocessors, cache * MiB)
