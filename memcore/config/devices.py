"""What one rank of a job has: a whole GPU of the catalog, a slice of one, or as much memory as the config says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.hardware import USUAL_STACKS, Accelerator, find_accelerator, vendors
from memcore.messages import joined
from memcore.records import dataclass
from memcore.units import GiB


@dataclass(frozen=True, slots=True)
class Slice:
    """A profile of a multi-instance GPU."""

    eighths: int
    """Of the memory, and of its bandwidth."""
    sevenths: int
    """Of the multiprocessors."""
    gib: float | None = None
    """What the driver lists; None where no list is known."""


_SHAPES = ((1, 1), (2, 1), (2, 2), (4, 3), (4, 4), (8, 7))


def _slices(sizes: tuple[int, int, int, int], listed: Mapping[int, float]) -> Mapping[str, Slice]:
    """Profiles by name, from the gigabytes of an eighth, a quarter, a half and the whole of a GPU's memory."""
    named = dict(zip((1, 2, 4, 8), sizes, strict=True))
    return {f"{part}g.{named[eighths]}gb": Slice(eighths, part, listed.get(eighths)) for eighths, part in _SHAPES}


_A100_40 = _slices((5, 10, 20, 40), {1: 4.75, 2: 9.62, 4: 19.5, 8: 39.25})
_A100_80 = _slices((10, 20, 40, 80), {1: 9.5, 2: 19.5, 4: 39.25, 8: 78.75})
_H100 = _slices((10, 20, 40, 80), {1: 9.75, 2: 19.62, 4: 39.5, 8: 79.25})
_H200 = _slices((18, 35, 71, 141), {1: 16.0})
SLICES: Mapping[str, Mapping[str, Slice]] = {
    **dict.fromkeys(("a100-sxm-40gb", "a100-pcie-40gb"), _A100_40),
    **dict.fromkeys(("a100-sxm-80gb", "a100-pcie-80gb"), _A100_80),
    **dict.fromkeys(("h100-sxm-80gb", "h100-pcie-80gb"), _H100),
    "h100-nvl-94gb": _slices((12, 24, 47, 94), {}),
    "gh200-96gb": _slices((12, 24, 48, 96), {}),
    **dict.fromkeys(("h200-sxm-141gb", "h200-nvl-141gb"), _H200),
    "b200": _slices((23, 45, 90, 180), {}),
}
"""Profiles of the accelerators that can be divided.

Sources: NVIDIA's Multi-Instance GPU User Guide, "Supported MIG Profiles" (fractions of memory and of multiprocessors);
memory in GiB as `nvidia-smi mig -lgip` lists it, the lowest of public listings of each GPU.
"""
_UNLISTED = 0.91
"""Of its part of the memory what a slice has where no list is known: the least of those that are (H200, 1g.18gb)."""


def _refuse(read: Defaults, said: str, values: Sequence[object], elsewhere: Sequence[str]) -> None:
    """Refuse an accelerator, with the engines that run there."""
    if elsewhere:
        said, values = f"{said}; allowed: {{}}", (*values, joined(", ", elsewhere))
    read.refuse(Hardware.accelerator, said, *values)


def device_of(
    read: Defaults,
    stacks: frozenset[str] = USUAL_STACKS,
    oldest: tuple[int, int] = (0, 0),
    others: Callable[[Accelerator], Sequence[str]] = lambda _: (),
    amd: Sequence[str] = (),
) -> tuple[Accelerator | None, int | None]:
    """Return the accelerator, and the bytes of it that a rank can use; what is given about it but wrong is refused.

    `stacks`: those that the engine is supported on; `oldest`: the least compute capability that it has kernels for;
    `others`: which engines have kernels for one that is refused; `amd`: AMD's architectures that it has kernels for, if
    not for all.
    """
    given, memory = read.given(Hardware.accelerator), read.given(Hardware.gpu_memory_gb)
    profile = read.given(Hardware.mig)
    found = find_accelerator(given) if given is not None else None
    if found is not None and found.stack not in stacks:
        said = "found {!r}, on which this engine is not supported; supported: accelerators of {}"
        values: tuple[object, ...] = (given, joined(", ", vendors(stacks)))
        _refuse(read, said, values, others(found))
        found = None
    old = found is not None and found.version is not None and found.version < oldest
    foreign = found is not None and found.stack == "rocm" and bool(amd) and found.capability not in amd
    if found is not None and (old or foreign):
        said = "found {!r}, whose compute capability is {}; this engine has kernels from {} on"
        values = (given, found.capability, ".".join(map(str, oldest)))
        if foreign:
            said = "found {!r}, whose architecture is {}; this engine has kernels for {}"
            values = (given, found.capability, joined(", ", amd))
        _refuse(read, said, values, others(found))
    if found is not None and found.alone and (read.given(Hardware.num_gpus) or 1) > 1:
        read.refuse(Hardware.num_gpus, "found {}; a computer with this GPU has one", read.given(Hardware.num_gpus))
    if profile is not None:
        found = _sliced(read, found, profile)
    if memory is not None:
        return found, int(memory * GiB)
    return found, found.usable if found else None


def _sliced(read: Defaults, whole: Accelerator | None, profile: str) -> Accelerator | None:
    known = SLICES.get(whole.id, {}) if whole is not None else {}
    if profile not in known:
        allowed = joined(", ", known) if known else joined(", ", SLICES)
        said = "found {!r}; profiles of this accelerator: {}" if known else "found {!r}; accelerators with profiles: {}"
        read.refuse(Hardware.mig, said, profile, allowed)
        return whole
    if (read.given(Hardware.num_gpus) or 1) > 1:
        read.refuse(Hardware.num_gpus, "GPU slices cannot communicate with each other, so a job can use only one")
    assert whole is not None  # noqa: S101 - only known accelerators have profiles
    own = known[profile]
    size = own.gib or whole.observed_gib[0] * own.eighths / 8 * _UNLISTED
    return replace(whole, name=f"{whole.name} MIG {profile}", observed_gib=(size, size))


def whole(accelerator: str) -> dict[str, object]:
    """Return what a config must change to run on whole GPUs of a kind, with the memory that the catalog says."""
    return {Hardware.accelerator: accelerator, Hardware.gpu_memory_gb: None, Hardware.mig: None}


def node_of(config: Config) -> int:
    """Return how many GPUs a node has: eight unless a config says otherwise."""
    return config[Hardware.gpus_per_node] or 8


def share_of(config: Config) -> Slice:
    """Return how much of its GPU a config's rank has; all of it without a profile."""
    return SLICES.get(str(config[Hardware.accelerator]), {}).get(str(config[Hardware.mig]), Slice(8, 7))
