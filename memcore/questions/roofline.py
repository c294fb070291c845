"""The rates that the cost model assumes for one GPU, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from memcore.config.devices import share_of
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.errors import ConfigError, Problem, nearest
from memcore.hardware import (
    BY_ID,
    GIGA,
    MEMORY_SHARES,
    NARROW_SHARES,
    NETWORKS,
    PRODUCT_SHARES,
    SPEEDS_BY_MEMORY,
    TERA,
    USUAL,
    USUAL_SHARE,
    attention_share,
)
from memcore.messages import Message, joined
from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The rates that the cost model assumes for one GPU, in bytes and operations per second; defaults: an H100.

    [The cost model](costs.md) has the formulas and the source of each value.
    """

    flops: float = 989e12
    """Dense matrix products in 16 bits, operations per second."""
    flops_efficiency: float = 0.803
    """Fraction of `flops` that large products reach."""
    narrow_efficiency: float = 0.709
    """Fraction of twice `flops` that large products in 8 bits reach."""
    attention_efficiency: float = 0.33
    """Fraction of `flops` that FlashAttention-2 reaches in long sequences, forward and backward passes together."""
    memory: float = 3350e9
    """Bandwidth of the GPU's memory, bytes per second."""
    memory_efficiency: float = 0.7
    """Fraction of `memory` that kernels reach (of an H100: with it 114 of its steps are 3 % too fast in the median)."""
    scan_efficiency: float = 0.39
    """Fraction of `memory` that chunked scans reach (`memcore.questions.scans`), forward and backward passes together.

    0.34 to 0.39 forward of Mamba 2 on an H100, 8,192 to 262,144 tokens with 128 heads of 64 (pull request 27299 of
    vllm-project/vllm); 0.38 and 0.40 of the gated delta rule on a GB200, 96 and 64 heads of 128, and 0.34 with 256
    (fla-org/flash-linear-attention, README, 0a484709)."""
    link: float = 450e9
    """Bandwidth of the fast links between the GPUs of a node, bytes per second in one direction."""
    domain: int = 8
    """GPUs that the fast links connect."""
    network: float = 50e9
    """Bandwidth between nodes, bytes per second in one direction: one port per GPU."""
    communication_efficiency: float = 0.7
    """Fraction of a link's bandwidth that collectives reach (assumed)."""
    communication_units: float = 0.4
    """Fraction of the GPU's multiprocessors that a collective takes while it overlaps with computing."""
    collective_latency: float = 24e-6
    """Seconds that a collective takes whatever its size, and `rank_latency` for each further rank."""
    rank_latency: float = 8.5e-6
    """Seconds that each further rank adds to a collective."""
    hop_latency: float = 0.0
    """Further seconds of each step of a ring over nodes, which waits for the network."""
    kernel_latency: float = 30e-6
    """Seconds that a memory-bound kernel takes whatever its size."""
    host: float = 25e9
    """Bandwidth to the host, bytes per second in one direction (assumed: PCIe 4.0 × 16)."""
    host_memory: float = 40e9
    """Bandwidth of host memory per GPU, bytes per second (assumed: eight DDR5 channels for four GPUs)."""
    host_room: float = 4e12
    """Memory of a node's host, bytes: the most that one is sold with (NVIDIA, DGX B200 datasheet: up to 4 TB)."""

    def adjusted(self, **given: float) -> Roofline:
        """Return a copy with other rates.

        Raises:
            ConfigError: If a name is unknown or a value is not above 0.
        """
        known = [each.name for each in fields(self)]
        problems = [
            Problem(
                name,
                Message("found {!r}; inputs: {}; must be above 0", value, joined(", ", known)),
                nearest(name, known),
            )
            for name, value in given.items()
            if name not in known or not value > 0
        ]
        if problems:
            raise ConfigError(problems)
        return replace(self, **given)  # type: ignore[arg-type]


def roofline_for(config: Config) -> Roofline:
    """Return the rates of the hardware that a config names."""
    row = BY_ID.get(str(config[Hardware.accelerator] or "").strip().lower())
    whole = roofline_of(row.id if row else None, config[Hardware.gpus_per_node], config[Hardware.gpu_memory_gb])
    own = share_of(config)
    return replace(whole, flops=whole.flops * own.sevenths / 7, memory=whole.memory * own.eighths / 8)


def roofline_of(accelerator: str | None, gpus_per_node: int | None = None, memory_gb: float | None = None) -> Roofline:
    """Return the rates of an accelerator in the catalog, those of an H100 if none is named.

    `memory_gb` tells variants of a card apart.
    """
    row = BY_ID.get(accelerator) if accelerator else USUAL
    if row is None:
        return Roofline()
    speed, usual = SPEEDS_BY_MEMORY.get((row.id, memory_gb), row.speed), USUAL.speed.matmul
    share = PRODUCT_SHARES.get(row.id, PRODUCT_SHARES.get(row.capability, USUAL_SHARE))
    slowed = (speed.matmul or 1) / (row.speed.matmul or 1)
    domain = min(speed.domain, gpus_per_node) if gpus_per_node else speed.domain
    link = speed.link / 2 * GIGA if speed.link else Roofline().host
    return Roofline(
        flops=speed.tflops * TERA,
        flops_efficiency=share * (speed.matmul or usual or 1),
        narrow_efficiency=NARROW_SHARES.get(row.capability, speed.matmul or usual or 1)
        * max(share, USUAL_SHARE)
        * slowed,
        attention_efficiency=attention_share("sdpa", 2, row) * slowed,
        memory=speed.memory * GIGA,
        memory_efficiency=MEMORY_SHARES.get(row.capability, Roofline().memory_efficiency),
        link=link,
        network=NETWORKS.get(row.capability, 50) * GIGA,
        domain=max(domain, 1),
        host_room=_HOST_ROOMS.get(row.place, Roofline().host_room),
    )


_HOST_ROOMS: Mapping[str, float] = {"workstation": 512e9, "home": 128e9, "laptop": 64e9, "computer": 0}
"""Bytes of a host's memory by where its GPU is found: a Ryzen 9 7950X takes 128 GB (AMD, product specifications), eight
channels of a Threadripper PRO take 512 with modules of 64 GB, and two slots of a laptop 64 (assumed: modules that are
commonly sold). With unified memory the GPU already has all of it."""
