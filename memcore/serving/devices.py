"""What kernels' buffers depend on: multiprocessors and second-level cache of a GPU.

Sources: NVIDIA's architecture whitepapers (Volta to Blackwell), `torch.cuda.get_device_properties`; of cards for
homes, workstations and laptops the vendor's figures, unconfirmed.
"""

from __future__ import annotations

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


_ROWS: Mapping[str, tuple[int, float]] = {
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
    "rtx-2080-ti": (68, 5.5),
    "quadro-6000": (72, 6),
    "quadro-8000": (72, 6),
    "rtx-3060": (28, 3),
    "rtx-3060-ti": (38, 4),
    "rtx-3070": (46, 4),
    "rtx-3070-ti": (48, 4),
    "rtx-3080-10gb": (68, 5),
    "rtx-3080-12gb": (70, 6),
    "rtx-3080-ti": (80, 6),
    "rtx-3090-ti": (84, 6),
    "rtx-a2000": (26, 3),
    "rtx-a4000": (48, 4),
    "rtx-a4500": (56, 6),
    "rtx-a5000": (64, 6),
    "rtx-4060": (24, 24),
    "rtx-4060-ti": (34, 32),
    "rtx-4070": (46, 36),
    "rtx-4070-super": (56, 48),
    "rtx-4070-ti": (60, 48),
    "rtx-4070-ti-super": (66, 48),
    "rtx-4080": (76, 64),
    "rtx-4080-super": (80, 64),
    "rtx-4070-laptop": (36, 32),
    "rtx-4090-laptop": (76, 64),
    "rtx-2000-ada": (22, 12),
    "rtx-4000-ada": (48, 48),
    "rtx-4500-ada": (60, 48),
    "rtx-5000-ada": (100, 72),
    "rtx-5060": (30, 32),
    "rtx-5060-ti": (36, 32),
    "rtx-5070": (48, 48),
    "rtx-5070-ti": (70, 48),
    "rtx-5080": (84, 64),
    "rtx-5080-laptop": (60, 64),
    "rtx-5090-laptop": (82, 64),
    "rtx-pro-4000": (70, 48),
    "rtx-pro-4500": (82, 64),
    "rtx-pro-5000": (110, 96),
    "rtx-6000d": (156, 112),
    "a16": (10, 2),
    "p40": (30, 3),
    "p100": (56, 4),
    "gtx-1080-ti": (28, 2.75),
    "jetson-orin-nano": (8, 2),
    "jetson-agx-orin": (16, 4),
    "jetson-agx-thor": (20, 32),
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


def has(accelerator: Accelerator | None, least: tuple[int, int]) -> bool:
    """Return whether a GPU has a compute capability, which NVIDIA's have alone: others are taken to."""
    return accelerator is None or accelerator.version is None or accelerator.version >= least


def switched(accelerator: Accelerator | None) -> bool:
    """Return whether GPUs reach each other through an NVLink switch; assumed where none is named."""
    return accelerator is None or accelerator.id.startswith(_SWITCHED)


def direct(accelerator: Accelerator | None) -> bool:
    """Return whether GPUs read each other's memory; the driver denies it to GeForce."""
    return accelerator is None or not (desktop(accelerator) and accelerator.vendor == "NVIDIA")


def desktop(accelerator: Accelerator | None) -> bool:
    """Return whether a screen may be connected, whose windows take memory, too."""
    return accelerator is not None and accelerator.place in ("home", "laptop")


def integrated(accelerator: Accelerator | None) -> bool:
    """Return whether the GPU shares the host's memory with everything else that runs there."""
    return accelerator is not None and accelerator.place == "computer"


_USUAL = Device(132, 50 * MiB)


def device_of(accelerator: Accelerator | None) -> Device:
    """Return the row of an accelerator; the longest beginning counts, and H100's where there is none."""
    name = accelerator.id if accelerator else ""
    found = max((key for key in _ROWS if name.startswith(key)), key=len, default=None)
    if found is None:
        return _USUAL
    multiprocessors, cache = _ROWS[found]
    return Device(multiprocessors, int(cache * MiB))
