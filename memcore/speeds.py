"""How fast accelerators are: vendors' peaks, which the cost model of a search takes and anybody can replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERA, GIGA = 10**12, 10**9

_ML = "stas00/ml-engineering, tables of accelerators"
_TITAN = "torchtitan/tools/utils.py, get_peak_flops"
_DLCALC = "jfc4050/dlcalc, utils/hardware.py"
_LIGHTNING = "lightning-fabric, utilities/throughput.py"
_CATALOG = "a public catalog of GPUs"
_RECALLED = "vendor's figure, unconfirmed"


@dataclass(frozen=True, slots=True)
class Speed:
    """A row of the table."""

    tflops: float
    """Dense 16-bit matrix products, 10¹² operations per second."""
    memory: float
    """Bandwidth of its memory, GB/s."""
    domain: int
    """GPUs that its fast links join."""
    link: float
    """Bandwidth of these links for one GPU, both directions together, GB/s; 0: there are none."""
    source: str
    link_source: str


SPEEDS: Mapping[str, Speed] = {
    "v100-sxm2-16gb": Speed(125, 900, 8, 300, _CATALOG, _RECALLED),
    "v100-sxm2-32gb": Speed(125, 900, 8, 300, _CATALOG, _RECALLED),
    "t4": Speed(65, 320, 1, 0, _LIGHTNING, _RECALLED),
    "a10": Speed(125, 600, 1, 0, _LIGHTNING, _RECALLED),
    "a30": Speed(165, 933, 2, 200, _RECALLED, _RECALLED),
    "a40": Speed(149.7, 696, 2, 112.5, _RECALLED, _RECALLED),
    "rtx-a6000": Speed(154.85, 768, 2, 112.5, _TITAN, _RECALLED),
    "a100-sxm-40gb": Speed(312, 1555, 8, 600, _ML, _DLCALC),
    "a100-pcie-40gb": Speed(312, 1555, 2, 600, _ML, _RECALLED),
    "a100-sxm-80gb": Speed(312, 2039, 8, 600, _ML, _DLCALC),
    "a100-pcie-80gb": Speed(312, 1935, 2, 600, _ML, _RECALLED),
    "rtx-3090": Speed(71, 936, 2, 112.5, _RECALLED, _RECALLED),
    "rtx-4090": Speed(165.2, 1008, 1, 0, _RECALLED, _RECALLED),
    "rtx-5090": Speed(209.5, 1792, 1, 0, _RECALLED, _RECALLED),
    "rtx-6000-ada": Speed(364.2, 960, 1, 0, _RECALLED, _RECALLED),
    "rtx-pro-6000": Speed(503.8, 1792, 1, 0, _RECALLED, _RECALLED),
    "l4": Speed(121, 300, 1, 0, _LIGHTNING, _RECALLED),
    "l20": Speed(119.5, 864, 1, 0, _RECALLED, _RECALLED),
    "l40": Speed(181, 864, 1, 0, _LIGHTNING, _RECALLED),
    "l40s": Speed(362, 864, 1, 0, _ML, _RECALLED),
    "h100-sxm-80gb": Speed(989, 3350, 8, 900, _ML, _DLCALC),
    "h100-pcie-80gb": Speed(756, 2000, 2, 600, _ML, _RECALLED),
    "h100-nvl-94gb": Speed(835, 3938, 2, 600, _TITAN, _RECALLED),
    "h800-sxm-80gb": Speed(989, 3350, 8, 400, _RECALLED, _RECALLED),
    "h20-96gb": Speed(148, 4000, 8, 900, _TITAN, _RECALLED),
    "h200-sxm-141gb": Speed(989, 4800, 8, 900, _ML, _RECALLED),
    "h200-nvl-141gb": Speed(835, 4800, 4, 900, _RECALLED, _RECALLED),
    "gh200-96gb": Speed(989, 4000, 1, 900, _ML, _RECALLED),
    "b200": Speed(2250, 8000, 8, 1800, _ML, _DLCALC),
    "gb200": Speed(2500, 8000, 72, 1800, _ML, _RECALLED),
    "b300": Speed(2250, 8000, 8, 1800, _ML, _RECALLED),
    "gb300": Speed(2500, 8000, 72, 1800, _ML, _RECALLED),
    "gb10": Speed(125, 273, 1, 0, _RECALLED, _RECALLED),
    "mi210": Speed(181, 1638, 4, 300, _RECALLED, _RECALLED),
    "mi250x-gcd": Speed(191.5, 1638, 8, 400, _TITAN, _RECALLED),
    "mi300x": Speed(1307, 5300, 8, 896, _ML, _RECALLED),
    "mi325x": Speed(1300, 6000, 8, 896, _ML, _RECALLED),
    "mi350x": Speed(2300, 8000, 8, 1075, _RECALLED, _RECALLED),
    "mi355x": Speed(2500, 8000, 8, 1075, _ML, _RECALLED),
}
"""By the id of `memcore.hardware.ACCELERATORS`."""

MATMUL_SHARES: Mapping[str, float] = {
    "a100-sxm-80gb": 0.857,
    "h100-sxm-80gb": 0.803,
    "h200-sxm-141gb": 0.803,
    "gh200-96gb": 0.838,
    "b200": 0.776,
    "b300": 0.786,
    "gb200": 0.729,
}
"""Share of the peak that the best shape of a bf16 matrix product reaches, measured: stas00/ml-engineering,
compute/accelerator, table of maximum achievable matmul FLOPS (MAMF). Others count as an H100."""
FLASH_SHARES: Mapping[str, float] = {"9.0": 0.35}
"""Share of the peak that attention kernels reach, by compute capability: FlashAttention-2 reaches 35 % of an H100's
(arXiv 2407.08608, abstract) and 50 to 73 % of an A100's (arXiv 2307.08691, abstract); others count as the low end."""
