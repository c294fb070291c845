"""Accelerators: what a job can use of each, and what it holds outside the allocator.

Capacities are `torch.cuda.get_device_properties().total_memory` as observed, lowest and highest over drivers; a job is
held against the lowest. An "80 GB" card has 79.1 GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from memcore.errors import ConfigError, Problem, meaning, nearest
from memcore.hardware.accelerators import AMPERE as AMPERE
from memcore.hardware.accelerators import BLACKWELL as BLACKWELL
from memcore.hardware.accelerators import DLCALC, ML, MONITORS, STACKS, Place
from memcore.hardware.accelerators import HOPPER as HOPPER
from memcore.hardware.accelerators import Accelerator as Accelerator
from memcore.hardware.accelerators import Speed as Speed
from memcore.hardware.cards import HOME, LAPTOP, WORKSTATION
from memcore.hardware.computers import COMPUTERS
from memcore.hardware.datacentre import DATACENTRE
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.units import MiB

TERA, GIGA = 10**12, 10**9
FLASH_SHARES: Mapping[str, float] = {"8.0": 0.51, "9.0": 0.33, "10.0": 0.35, "10.3": 0.35, "h20-96gb": 0.52}
"""Share of the peak that FlashAttention-2 reaches in long sequences with heads of 128, over a forward pass and a
backward pass of 2.5 times the operations, by compute capability. H100: 335 TFLOP/s
forward under a causal mask and 322 backward (arXiv 2407.08608, figures 5 and 6). A100: 0.57 and 0.49, half of what
MooreThreads/SimuMax, configs/system/a100_pcie.json, says in sdp_fwd and sdp_bwd, where operations ignore the mask.
Others count as an A100, in proportion to what their products reach where that is measured (MI300X: 0.51 of the peak
instead of 0.87); on Blackwell, what PyTorch chooses is assumed. An H20 has 0.15 of the H100's products with 0.59 of its
multiprocessors, so that products limit all kernels: 65.9 TFLOP/s forward with 2,048 tokens (issue 1310 of
Dao-AILab/flash-attention), that is 77 in long sequences; the backward pass, which is not in it, is taken to reach the
same share."""
PACKAGE_SHARES: Mapping[tuple[str, int], float] = {
    ("10.0", 2): 0.154, ("10.3", 2): 0.154, ("9.0", 3): 0.58, ("h20-96gb", 3): 0.85,
}  # fmt: skip
"""The same for releases of the flash-attn package, where they differ from it. FlashAttention-3 on an H100: 616 TFLOP/s
forward (arXiv 2407.08608, figure 5), and 1.75 times FlashAttention-2's 322 backward, the most that section 4.1 says; on
an H20: 107.8 forward with 2,048 tokens, that is 126. FlashAttention-2 on a B200: 346 forward and backward, heads of 64
(issue 1589 of the same repository): it has no kernel for Blackwell, and runs Ampere's instructions."""
CUDNN_SHARES: Mapping[str, float] = {"9.0": 0.53, "10.0": 0.44, "10.3": 0.44, "h20-96gb": 0.85}
"""The same for cuDNN's kernel: 539 and 516 TFLOP/s on an H100 (the same figures); 0.5 and 0.42 of a B200's peak with
128k tokens (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json); an H20's as FlashAttention-3's (the same
issue)."""


def attention_share(kernel: str, version: int, accelerator: Accelerator) -> float:
    """Return the share of an accelerator's peak that a kernel of attention reaches in long sequences.

    What PyTorch chooses counts as FlashAttention-2, `version` as that of the flash-attn package.
    """
    names = accelerator.id, accelerator.capability
    measured = BY_ID["a100-sxm-80gb"].speed.matmul or 1
    usual = FLASH_SHARES["8.0"] * (accelerator.speed.matmul or measured) / measured
    flash = next((FLASH_SHARES[name] for name in names if name in FLASH_SHARES), usual)
    if kernel == "cudnn":
        return next((CUDNN_SHARES[name] for name in names if name in CUDNN_SHARES), flash)
    packaged = [(name, version) for name in names] if kernel == "flash" else []
    return next((PACKAGE_SHARES[key] for key in packaged if key in PACKAGE_SHARES), flash)


PRODUCT_SHARES: Mapping[str, float] = {"8.0": 0.79 / 0.811, "9.0": 1.0, "b200": 0.5 / 0.776}
"""Share of the best shape's rate (`Speed.matmul`) that the large products of transformers reach, by compute capability
or of one accelerator. A100 and B200: the rate that 183 and 514 products measured one by one tend to, over that of the
same card (MooreThreads/SimuMax, configs/system, matmul; stas00/ml-engineering); a GB200 may draw 1,200 W instead of
1,000, and a whole step of Llama 3 8B alone reaches 1,058 TFLOP/s on it (pytorch/torchtitan pull request 3914).
H100: 783 TFLOP/s with 4,096 cubed, as many as the best shape keeps up (openxla/xla,
service/gpu/model/matmul_interpolator_data.h)."""
USUAL_SHARE = sum(PRODUCT_SHARES.values()) / len(PRODUCT_SHARES)
"""The same of other accelerators: the mean of these."""
MEMORY_SHARES: Mapping[str, float] = {"8.0": 0.81, "10.0": 0.71, "10.3": 0.71}
"""Share of the memory's bandwidth that elementwise kernels reach, by compute capability: 0.91 of 1,600 GiB/s on an A100
of 1,935 GB/s, 0.666 of 8,000 GiB/s on a B200, as which a B300 counts (MooreThreads/SimuMax, configs/system,
bandwidth, default)."""
PERMUTING: Mapping[str, float] = {"8.0": 4.8, "10.0": 1.33, "10.3": 1.33}
"""How much longer kernels that sort tokens by their experts take for a byte than elementwise ones: 0.188 of an A100's
1,600 GiB/s, 0.50 of a B200's 8,000 (the same, permute_fwd and permute_bwd)."""
NARROW_SHARES: Mapping[str, float] = {"9.0": 0.709, "10.0": 0.763, "10.3": 0.745}
"""Share of twice the peak that the best shape of a product in 8 bits reaches (stas00/ml-engineering, table of MAMF)."""
_VECTORS: Mapping[Place, float] = {"home": 1 / 2, "laptop": 1 / 2, "workstation": 1 / 4}
"""Products in fp32 as a share of those in 16 bits on cards of Ampere, Ada and Blackwell: 35.6 of 71 on an RTX 3090,
82.6 of 165.2 on a 4090 and 104.8 of 209.5 on a 5090, 38.7 of 154.85 on an RTX A6000."""
VECTOR_TFLOPS: Mapping[str, float] = {
    **{
        each.id: each.speed.tflops * _VECTORS[each.place]
        for each in (*WORKSTATION, *HOME, *LAPTOP)
        if each.capability in ("8.6", "8.9", "12.0")
    },
    **dict.fromkeys(("v100-sxm2-16gb", "v100-sxm2-32gb"), 15.7),
    **dict.fromkeys(("a100-sxm-40gb", "a100-pcie-40gb", "a100-sxm-80gb", "a100-pcie-80gb", "a800-sxm-80gb"), 19.5),
    **dict.fromkeys(("h100-sxm-80gb", "h800", "h200-sxm-141gb", "gh200-96gb"), 67),
    "t4": 8.1,
    "rtx-6000d": 67.5,  # measured: its products in 16 bits are limited
    **dict.fromkeys(("a10", "a10g"), 31.2),
    "a30": 10.3,
    "a40": 37.4,
    "rtx-a6000": 38.7,
    "rtx-3090": 35.6,
    "rtx-4090": 82.6,
    "rtx-5090": 104.8,
    "l4": 30.3,
    "l40s": 91.6,
    "h100-pcie-80gb": 51,
    "b200": 75,
    "gb200": 80,
}
"""10¹² operations per second of products in fp32, which PyTorch computes without tensor cores unless it is told to
(`torch.backends.cuda.matmul.allow_tf32`, False since 1.12): vendors' figures."""
VECTOR_SHARE = 67 / 989
"""The same of other accelerators, as a share of their peak in 16 bits: an H100's."""
BOARD_WATTS: Mapping[str, int] = {
    "t4": 70, "a100-sxm-40gb": 400, "a100-sxm-80gb": 400, "a100-pcie-40gb": 250, "rtx-3090": 350, "rtx-a6000": 300,
    "h100-sxm-80gb": 700, "h100-pcie-80gb": 350, "h200-sxm-141gb": 700, "l4": 72, "l40": 300, "l40s": 350,
    "b200": 1000, "mi210": 300, "mi300x": 750, "mi325x": 750,
}  # fmt: skip
"""Watts that a board may draw at most, for the energy of a run.

mlco2/impact, data/gpus.csv (A100, T4, RTX 3090, RTX A6000); the model cards of Llama 3 (H100 SXM);
canncupiscent/dc-liquid-cooling-calculator, Hardware_spec.md (the others)."""

NETWORKS: Mapping[str, float] = {
    **dict.fromkeys(("7.0", "7.5"), 12.5),
    **dict.fromkeys(("8.0", "8.6", "8.9"), 25),
    "10.3": 100,
}
"""GB/s of one GPU between nodes, in one direction: ports of 100, 200 and 800 Gb/s in a DGX-2, a DGX A100 and a DGX
B300; others have 400 Gb/s, as a DGX H100 and a DGX B200 (NVIDIA's data sheets of these systems)."""


USUAL_STACKS = frozenset({"cuda", "rocm"})
"""Those of GPUs that `torch.cuda` drives, which engines run on unless they say more."""


def vendors(stacks: frozenset[str]) -> list[str]:
    """Return who makes the accelerators of some stacks.

    >>> vendors(USUAL_STACKS)
    ['NVIDIA', 'AMD']
    """
    return [vendor for vendor, stack in STACKS.items() if stack in stacks]


_COMPARED: Mapping[Place, frozenset[Place]] = {
    place: frozenset({"datacentre", "workstation", "home", place})
    for place in ("datacentre", "workstation", "home", "laptop", "computer")
}
"""Where accelerators may be found that stand for one: nobody replaces a server or a card with a laptop."""
EXPORTED = frozenset({"a800-sxm-80gb", "h800-sxm-80gb", "h20-96gb", "h20-141gb", "l20", "rtx-6000d"})
"""Variants that NVIDIA makes for China under export rules, which are not sold elsewhere."""
AT_HOME = frozenset({"home", "laptop", "computer"})
"""Places of accelerators on which people run models with llama.cpp."""
_SEVERAL = 24
"""Gigabytes that a card of a home computer has, at least, for servers to be built with it."""
_OLDEST = 7
"""The compute capability below which PyTorch's binaries of CUDA 12.8 and later have no kernels (pytorch 2.8)."""


def monitor(accelerator: Accelerator | None) -> str:
    """Return what shows the memory in use of a GPU: nvidia-smi where none is named."""
    return MONITORS[accelerator.stack if accelerator else "cuda"]


def alike(accelerator: Accelerator | None) -> tuple[Accelerator, ...]:
    """Return the accelerators that can stand for one: those of its stack, or of the usual ones.

    Smaller cards of home computers stand only for such cards; cards without kernels in today's binaries for none.
    """
    stack = accelerator.stack if accelerator else "cuda"
    stacks = USUAL_STACKS if stack in USUAL_STACKS else frozenset({stack})
    place: Place = accelerator.place if accelerator else "datacentre"
    served = place in ("datacentre", "workstation")
    return tuple(
        each
        for each in ACCELERATORS
        if each.stack in stacks
        and each.place in _COMPARED[place]
        and not (served and each.place == "home" and each.nominal_gb < _SEVERAL)
        and (each.major is None or each.major >= _OLDEST or each == accelerator)
    )


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes that nobody asked for by name: expected, and a range."""

    low: int
    expected: int
    high: int
    source: str


def context(accelerator: Accelerator | None) -> Overhead:
    """The CUDA context with the kernels that have been loaded; nvidia-smi shows it, PyTorch does not count it.

    Observed: 141 MiB (T4, with kernels), 256 MiB (RTX 3090), 426 MiB (RTX 6000 Ada), 471 MiB (RTX 4090), 520 MiB
    (H100), 612 MiB (H200), and 50 to 150 MiB more with kernels of cuBLAS and Triton. A V100 had 1343 MiB in 2022,
    when CUDA loaded all kernels at once. On an H100 with PyTorch 2.11 and CUDA 13: 523 MiB bare, 615 MiB after the
    first kernel, and 758 to 767 MiB in each of 66 training loops, 833 MiB with bitsandbytes' 8-bit products
    (validation/measured/, tests/truth/h100.json).
    """
    if accelerator and accelerator.capability in _CONTEXTS:
        low, expected, high = (each * MiB for each in _CONTEXTS[accelerator.capability])
    else:
        major = accelerator.major if accelerator else None
        expected = {8: 400, 9: 600, 10: 700, 12: 700}.get(major or 0, 600) * MiB
        low, high = expected * 7 // 10, expected * 14 // 10
    return Overhead(low, expected, high, "contexts observed in public logs")


_CONTEXTS = {
    "7.0": (245, 350, 1343),
    "7.5": (100, 141, 490),
    "9.0": (520, 765, 900),
    "ascend910": (200, 420, 900),
    "xe2": (0, 300, 900),
    "xe1": (0, 300, 900),
    "tpu": (0, 0, 200),
    **dict.fromkeys(("apple7", "apple8", "apple9", "apple10"), (0, 0, 500)),
}
"""MiB of accelerators of which more is known than of their generation: the least, what is expected, and the most.

Ascend: 60.86 of 61.27 GiB are free when a worker starts (vllm-project/vllm-ascend, pull request 8289). TPU:
`hbm=[(0.0, 15.75)]` before a model is loaded. Of Intel's no log tells it. Apple: 0 and
495 MiB are unaccounted for in two of llama.cpp's tables of an M5's memory."""


def communicators(count: int) -> Overhead:
    """NCCL's buffers: channels times connections; nobody's allocator counts them.

    nccl 2.30, init.cc and transport/p2p.cc: 9.2 MiB for each channel and peer, plus NVLink SHARP buffers. Reported:
    0.3 to 1.6 GiB for one communicator.
    """
    expected = 550 * MiB if count else 0
    more = max(count - 1, 0) * 200 * MiB
    return Overhead(
        150 * MiB * min(count, 1),
        expected + more,
        1600 * MiB * min(count, 1) + 2 * more,
        "NCCL 2.30 and public reports",
    )


def matmul_workspaces(accelerator: Accelerator | None) -> Sequence[tuple[str, int]]:
    """Workspaces of cuBLAS, which PyTorch allocates from its own pool: one for each thread that multiplies.

    aten/src/ATen/cuda/CublasHandlePool.cpp (`parseChosenWorkspaceSize`): 32 MiB on Hopper and, since February 2026, on
    Blackwell, 8 320 KiB on other GPUs of NVIDIA's; 128 MiB on AMD's gfx942 and gfx950, 32 MiB on others. cuBLASLt
    1 MiB. The forward pass and the backward pass run in threads of their own.
    """
    size = 8320 * 1024
    if accelerator is not None and (accelerator.major is None or accelerator.major >= 9):
        size = (128 if accelerator.capability in _WIDE_WORKSPACES else 32) * MiB
    return [("cublas_workspace", size), ("cublaslt_workspace", MiB)]


_WIDE_WORKSPACES = ("gfx942", "gfx950")

ACCELERATORS: Sequence[Accelerator] = (*DATACENTRE, *WORKSTATION, *HOME, *LAPTOP, *COMPUTERS)
"""The catalog."""

BY_ID: Mapping[str, Accelerator] = {each.id: each for each in ACCELERATORS}
_AS_DRIVERS: Mapping[str, Sequence[str]] = {
    "h100-sxm-80gb": ("NVIDIA H100 80GB HBM3",),
    "h200-sxm-141gb": ("NVIDIA H200", "NVIDIA H200 141GB"),
    "h20-141gb": ("NVIDIA H20-3e",),
    "a16": ("NVIDIA A16",),
    "gb10": ("NVIDIA GB10",),
    "rtx-6000-ada": ("RTX 6000",),
    "rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
    "pro-6000-server": ("NVIDIA RTX PRO 6000 Blackwell Server Edition",),
    "pro-6000-max-q": ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",),
    "jetson-agx-thor": ("NVIDIA Thor",),
    **dict.fromkeys(("jetson-agx-orin-64gb", "jetson-orin-nano-8gb"), ("Orin", "Jetson Orin")),
    "strix-halo-128gb": ("Strix Halo", "Radeon 8060S Graphics", "Ryzen AI Max+ 395"),
}
"""Names that `nvidia-smi -L` prints and that are unlike the row's; seen in public logs."""
_SIZE = re.compile(r" \d+GB$")
_BOARD = re.compile(r"^(.+)-([A-Z]+\d?)-(\d+GB)$", re.IGNORECASE)
_SERIES = re.compile(r"^\w+ (?:Radeon )?(?:[RG]TX|RX|Arc) ")


def _plain(row: Accelerator) -> Iterator[str]:
    """Yield the name of a card or a chip without its memory, and without its series: drivers and people say no more.

    Of boards also the one with the memory before the board, as in A100 80GB PCIe.
    """
    if row.place == "datacentre":
        yield from (_BOARD.sub(r"\1 \3 \2", name) for name in (row.id, row.name) if _BOARD.match(name))
    else:
        name = _SIZE.sub("", row.name)
        yield name
        yield _SERIES.sub("", name)


SPELLINGS: Mapping[str, Sequence[str]] = {
    each.id: (
        *(f"{name}{size}" for name in (each.id, each.name) for size in ("", f" {each.nominal_gb}GB")),
        *_plain(each),
        *(("Mac" + each.name[each.name.rindex(" ") :],) if each.stack == "metal" else ()),
        *_AS_DRIVERS.get(each.id, ()),
    )
    for each in ACCELERATORS
}
"""How people write each accelerator's name."""
USUAL = BY_ID["h100-sxm-80gb"]
"""What an accelerator that is not named counts as where rates are asked for."""
SPEEDS_BY_MEMORY: Mapping[tuple[str, float | None], Speed] = {
    ("h100-sxm-80gb", 96): Speed(989, 2400, 8, 900, ML, DLCALC, matmul=0.803 * (500 / 700) ** 0.5),
}
"""Variants of a card that its memory tells apart. An H100 with 96 GB of HBM2e reads 2.4 TB/s and may draw 500 W instead
of 700 (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md); its clock is assumed to fall with the square
root of its power."""


def usual_board(meant: Sequence[str]) -> str | None:
    """Return which of several accelerators a short name usually means: the only SXM board of an H100, any 16 GB Mac.

    Boards of one chip with different memory, such as the A100's, have no usual one. Of computers
    with the same memory, which hold the same, the first stands for all.

    >>> usual_board(["h100-sxm-80gb", "h100-nvl-94gb"]), usual_board(["m1-max-64gb", "m4-pro-64gb"])
    ('h100-sxm-80gb', 'm1-max-64gb')
    """
    boards = [each for each in meant if "-sxm" in each]
    if len(boards) == 1 and len({each.partition("-")[0] for each in meant}) == 1:
        return boards[0]
    found = [BY_ID[each] for each in meant]
    alike = len({(each.nominal_gb, each.observed_gib) for each in found}) == 1
    if not alike or any(each.place != "computer" for each in found):
        return None
    return meant[0]


def find_accelerator(name: str) -> Accelerator:
    """A row by its id, or by a name that can mean no other or usually means it.

    Raises ConfigError with the nearest id.
    """
    given = name.strip().lower()
    meant = [given] if given in BY_ID else meaning(name, SPELLINGS)
    usual = usual_board(meant)
    if usual is not None:
        meant = [usual]
    if len(meant) != 1:
        several = Message("; it may be {}", joined(", ", meant)) if meant else ""
        message = Message("found {!r:.80}, which is not in the catalog of {} accelerators{}", name, len(BY_ID), several)
        raise ConfigError([Problem("hardware.accelerator", message, nearest(name, BY_ID))])
    return BY_ID[meant[0]]
