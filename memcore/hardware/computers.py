"""Computers whose processor and GPU share one memory: Apple's, AMD's Strix Halo, NVIDIA's DGX Spark and Jetson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.hardware.accelerators import (
    BANDWIDTHS,
    BANNER,
    LLAMA_CPP,
    UNCONFIRMED,
    WORKING_SET,
    Accelerator,
    Speed,
    card,
    placed,
)

_WORKING_SETS: Mapping[int, tuple[float, float]] = {
    8: (5.333, 5.334), 16: (10.666, 11.84), 18: (12.0, 13.321), 24: (16.0, 17.761), 32: (21.333, 24.961),
    36: (27.0, 28.08), 48: (36.0, 37.441), 64: (48.0, 51.841), 96: (72.0, 72.001), 128: (96.0, 107.521),
    192: (144.0, 144.001), 512: (464.0, 464.001),
}  # fmt: skip
"""GiB that Metal recommends to keep in use, by the computer's gigabytes: two thirds of them up to 32 and three quarters
of more, and 0.74 to 0.84 of them on later versions of macOS (`recommendedMaxWorkingSetSize` in logs of llama.cpp; of
192 raullenchai/Rapid-MLX, pull request 183). The limit can be raised (`sysctl iogpu.wired_limit_mb`)."""
_CHIPS: Mapping[str, tuple[str, float, float, Sequence[int]]] = {
    "Apple M1": ("apple7", 2.6, 68, (8, 16)),
    "Apple M1 Pro": ("apple7", 5.2, 200, (16, 32)),
    "Apple M1 Max": ("apple7", 10.4, 400, (32, 64)),
    "Apple M1 Ultra": ("apple7", 20.8, 800, (64, 128)),
    "Apple M2": ("apple8", 3.6, 100, (8, 16, 24)),
    "Apple M2 Pro": ("apple8", 6.8, 200, (16, 32)),
    "Apple M2 Max": ("apple8", 13.6, 400, (32, 64, 96)),
    "Apple M2 Ultra": ("apple8", 27.2, 800, (64, 128, 192)),
    "Apple M3": ("apple9", 3.5, 100, (8, 16, 24)),
    "Apple M3 Pro": ("apple9", 6.3, 150, (18, 36)),
    "Apple M3 Max": ("apple9", 14.1, 400, (36, 48, 64, 96, 128)),
    "Apple M3 Ultra": ("apple9", 28.2, 800, (96, 512)),
    "Apple M4": ("apple9", 4.3, 120, (16, 24, 32)),
    "Apple M4 Pro": ("apple9", 8.6, 273, (24, 48, 64)),
    "Apple M4 Max": ("apple9", 17.2, 546, (36, 48, 64, 128)),
    "Apple M5": ("apple10", 4.3, 153, (16, 24, 32)),
    "Apple M5 Pro": ("apple10", 8.6, 307, (24, 48, 64)),
    "Apple M5 Max": ("apple10", 17.2, 614, (36, 48, 64, 128)),
}
"""The GPU family, 10¹² operations per second in fp32 (of 16 bits no vendor's figure is known; these count as they do),
GB/s of its memory with the most GPU cores, and the gigabytes with which it was sold and whose working set is known."""


def _apple(chip: str, gigabytes: int) -> Accelerator:
    family, operations, bandwidth, _ = _CHIPS[chip]
    name = f"{chip} {gigabytes}GB"
    speed = Speed(operations, bandwidth, 1, 0, BANDWIDTHS, UNCONFIRMED)
    id_, size = name.lower().replace(" ", "-").removeprefix("apple-"), _WORKING_SETS[gigabytes]
    return Accelerator(id_, name, gigabytes, size, family, WORKING_SET, speed)


COMPUTERS: Sequence[Accelerator] = placed(
    "computer",
    card("gb10", "NVIDIA GB10 (DGX Spark)", 128, (119.698, 121.693), "12.1", BANNER, (125, 273)),
    card("jetson-orin-nano-8gb", "NVIDIA Jetson Orin Nano 8GB", 8, (7.428, 7.43), "8.7", LLAMA_CPP, (17, 102)),
    card("jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin 64GB", 64, (61.35, 61.36), "8.7", LLAMA_CPP, (42.5, 205)),
    card("jetson-agx-thor", "NVIDIA Jetson AGX Thor", 128, (122.8, 122.81), "11.0", LLAMA_CPP, (258, 273)),
    card("strix-halo-128gb", "AMD Ryzen AI Max+ 395 128GB", 128, (58.0, 128.0), "gfx1151", LLAMA_CPP, (59.4, 256)),
    *(_apple(chip, gigabytes) for chip, (_, _, _, sizes) in _CHIPS.items() for gigabytes in sizes),
)
"""What the GPU of a Strix Halo has is what the firmware and the driver give it: 58 to 128 of 128 GiB."""
