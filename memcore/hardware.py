"""Accelerators: what a job can use of each, and what it holds outside the allocator.

Capacities are `torch.cuda.get_device_properties().total_memory` as observed, lowest and highest over drivers; a job is
held against the lowest. An "80 GB" card has 79.1 GiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.errors import ConfigError, Problem, meaning, nearest
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.units import GiB, MiB

TERA, GIGA = 10**12, 10**9
FLASH_SHARES: Mapping[str, float] = {"8.0": 0.51, "9.0": 0.33, "10.0": 0.35, "10.3": 0.35}
"""Share of the peak that FlashAttention-2 reaches in long sequences with heads of 128, over a forward pass and a
backward pass of 2.5 times the operations, by compute capability. H100: 335 TFLOP/s
forward under a causal mask and 322 backward (arXiv 2407.08608, figures 5 and 6). A100: 0.57 and 0.49, half of what
MooreThreads/SimuMax, configs/system/a100_pcie.json, says in sdp_fwd and sdp_bwd, where operations ignore the mask.
Others count as an A100; on Blackwell, assumed: no measurement is known."""
CUDNN_SHARES: Mapping[str, float] = {"9.0": 0.53, "10.0": 0.44, "10.3": 0.44}
"""The same for cuDNN's kernel: 539 and 516 TFLOP/s on an H100 (the same figures); 0.5 and 0.42 of a B200's peak with
128k tokens (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json)."""
PRODUCT_SHARES: Mapping[str, float] = {"8.0": 0.79 / 0.811, "9.0": 1.0, "b200": 0.5 / 0.776}
"""Share of the best shape's rate (`Speed.matmul`) that the large products of transformers reach, by compute capability
or of one accelerator. A100 and B200: the rate that 183 and 514 products measured one by one tend to, over that of the
same card (MooreThreads/SimuMax, configs/system, matmul; stas00/ml-engineering); a GB200 may draw 1,200 W instead of
1,000, and a whole step of Llama 3 8B alone reaches 1,058 TFLOP/s on it (pytorch/torchtitan pull request 3914).
H100: 783 TFLOP/s with 4,096 cubed, as many as the best shape keeps up (openxla/xla,
service/gpu/model/matmul_interpolator_data.h)."""
USUAL_SHARE = sum(PRODUCT_SHARES.values()) / len(PRODUCT_SHARES)
"""The same of other accelerators: the mean of these."""
NARROW_SHARES: Mapping[str, float] = {"9.0": 0.709, "10.0": 0.763, "10.3": 0.745}
"""Share of twice the peak that the best shape of a product in 8 bits reaches (stas00/ml-engineering, table of MAMF)."""
VECTOR_TFLOPS: Mapping[str, float] = {
    **dict.fromkeys(("v100-sxm2-16gb", "v100-sxm2-32gb"), 15.7),
    **dict.fromkeys(("a100-sxm-40gb", "a100-pcie-40gb", "a100-sxm-80gb", "a100-pcie-80gb", "a800-sxm-80gb"), 19.5),
    **dict.fromkeys(("h100-sxm-80gb", "h800", "h200-sxm-141gb", "gh200-96gb"), 67),
    "t4": 8.1,
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


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an accelerator is, by its vendor's peaks; the cost model takes shares of them."""

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
    matmul: float | None = None
    """Share of the peak that the best shape of a bf16 matrix product reaches, measured: stas00/ml-engineering,
    compute/accelerator, table of maximum achievable matmul FLOPS (MAMF). None: counted as an H100's."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A row of the catalog."""

    id: str
    name: str
    nominal_gb: int
    """The vendor's figure."""
    observed_gib: tuple[float, float]
    capability: str
    """CUDA compute capability, or the architecture of an AMD GPU."""
    source: str
    """Where the observed capacity comes from."""
    speed: Speed

    @property
    def usable(self) -> int:
        """Bytes that a job can use, context included."""
        return int(self.observed_gib[0] * GiB)

    @property
    def vendor(self) -> str:
        """Who makes it: the first word of its name."""
        return self.name.partition(" ")[0]

    @property
    def stack(self) -> str:
        """What PyTorch or JAX runs on: `cuda`, `rocm`, `xpu`, `cann` or `tpu`; `cuda` for a vendor without a row."""
        return _STACKS.get(self.vendor, "cuda")

    @property
    def major(self) -> int | None:
        """The major compute capability of an NVIDIA GPU."""
        head = self.capability.partition(".")[0]
        return int(head) if head.isdigit() else None

    @property
    def has_bf16(self) -> bool:
        """Whether it multiplies in bf16: NVIDIA's do from Ampere on, as do all others of the table."""
        return self.major is None or self.major >= AMPERE


AMPERE = 8
"""The compute capability from which on NVIDIA's GPUs have bf16, and PyTorch has flash attention for them."""
_STACKS: Mapping[str, str] = {"NVIDIA": "cuda", "AMD": "rocm", "Intel": "xpu", "Huawei": "cann", "Google": "tpu"}
USUAL_STACKS = frozenset({"cuda", "rocm"})
"""Those of GPUs that `torch.cuda` drives, which engines run on unless they say more."""


def vendors(stacks: frozenset[str]) -> list[str]:
    """Return who makes the accelerators of some stacks.

    >>> vendors(USUAL_STACKS)
    ['NVIDIA', 'AMD']
    """
    return [vendor for vendor, stack in _STACKS.items() if stack in stacks]


def alike(accelerator: Accelerator | None) -> tuple[Accelerator, ...]:
    """Return the accelerators that can stand for one: those of its stack, or of the usual ones."""
    stack = accelerator.stack if accelerator else "cuda"
    stacks = USUAL_STACKS if stack in USUAL_STACKS else frozenset({stack})
    return tuple(each for each in ACCELERATORS if each.stack in stacks)


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
    "tpu": (0, 0, 200),
}
"""MiB of accelerators of which more is known than of their generation: the least, what is expected, and the most.

Ascend: 60.86 of 61.27 GiB are free when a worker starts (vllm-project/vllm-ascend, pull request 8289). TPU:
`hbm=[(0.0, 15.75)]` before a model is loaded. Of Intel's no log tells it."""


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


_BANNER = "'Max memory' banners of public logs"
_OUT_OF_MEMORY = "capacity in public out-of-memory messages"
_LLAMA_CPP = "devices that public logs of llama.cpp and Ollama list"
_RECALLED = "recalled, unconfirmed"
_NPU = "vllm-ascend, worker/worker.py (pull request 8289)"
_HBM = "tpu-inference, worker/tpu_worker.py, in public logs"

_ML = "stas00/ml-engineering, tables of accelerators"
_TITAN = "torchtitan/tools/utils.py, get_peak_flops"
_DLCALC = "jfc4050/dlcalc, utils/hardware.py"
_LIGHTNING = "lightning-fabric, utilities/throughput.py"
_GPU_CATALOG = "a public catalog of GPUs"
_UNCONFIRMED = "vendor's figure, unconfirmed"


def _card(
    name: str,
    title: str,
    size: int,
    observed: tuple[float, float],
    capability: str,
    source: str,
    rates: tuple[float, float],
) -> Accelerator:
    """A card without fast links; its `rates` are those of 16-bit products and of its memory."""
    return Accelerator(name, title, size, observed, capability, source, Speed(*rates, 1, 0, _UNCONFIRMED, _UNCONFIRMED))


ACCELERATORS: Sequence[Accelerator] = (
    Accelerator(
        "v100-sxm2-16gb",
        "NVIDIA V100-SXM2-16GB",
        16,
        (15.77, 15.78),
        "7.0",
        _RECALLED,
        Speed(125, 900, 8, 300, _GPU_CATALOG, _UNCONFIRMED),
    ),
    Accelerator(
        "v100-sxm2-32gb",
        "NVIDIA V100-SXM2-32GB",
        32,
        (31.73, 31.75),
        "7.0",
        _OUT_OF_MEMORY,
        Speed(125, 900, 8, 300, _GPU_CATALOG, _UNCONFIRMED),
    ),
    Accelerator("t4", "NVIDIA T4", 16, (14.56, 14.741), "7.5", _BANNER, Speed(65, 320, 1, 0, _LIGHTNING, _UNCONFIRMED)),
    Accelerator(
        "a10", "NVIDIA A10", 24, (22.03, 22.15), "8.6", _OUT_OF_MEMORY, Speed(125, 600, 1, 0, _LIGHTNING, _UNCONFIRMED)
    ),
    Accelerator(
        "a10g", "NVIDIA A10G", 24, (21.988, 22.19), "8.6", _BANNER, Speed(70, 600, 1, 0, _UNCONFIRMED, _UNCONFIRMED)
    ),
    Accelerator(
        "a30", "NVIDIA A30", 24, (23.5, 23.6), "8.0", _RECALLED, Speed(165, 933, 2, 200, _UNCONFIRMED, _UNCONFIRMED)
    ),
    Accelerator(
        "a40", "NVIDIA A40", 48, (44.3, 44.5), "8.6", _RECALLED, Speed(149.7, 696, 2, 112.5, _UNCONFIRMED, _UNCONFIRMED)
    ),
    Accelerator(
        "rtx-a6000",
        "NVIDIA RTX A6000",
        48,
        (47.431, 47.54),
        "8.6",
        _BANNER,
        Speed(154.85, 768, 2, 112.5, _TITAN, _UNCONFIRMED),
    ),
    Accelerator(
        "a100-sxm-40gb",
        "NVIDIA A100-SXM4-40GB",
        40,
        (39.494, 39.557),
        "8.0",
        _BANNER,
        Speed(312, 1555, 8, 600, _ML, _DLCALC),
    ),
    Accelerator(
        "a100-pcie-40gb",
        "NVIDIA A100-PCIe-40GB",
        40,
        (39.38, 39.56),
        "8.0",
        _RECALLED,
        Speed(312, 1555, 2, 600, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "a100-sxm-80gb",
        "NVIDIA A100-SXM4-80GB",
        80,
        (79.151, 79.33),
        "8.0",
        _BANNER,
        Speed(312, 2039, 8, 600, _ML, _DLCALC, matmul=0.869),
    ),
    Accelerator(
        "a800-sxm-80gb",
        "NVIDIA A800-SXM4-80GB",
        80,
        (79.151, 79.33),
        "8.0",
        _RECALLED,
        Speed(312, 2039, 8, 400, _UNCONFIRMED, _UNCONFIRMED, matmul=0.869),
    ),
    Accelerator(
        "a100-pcie-80gb",
        "NVIDIA A100-PCIe-80GB",
        80,
        (79.15, 79.25),
        "8.0",
        _OUT_OF_MEMORY,
        Speed(312, 1935, 2, 600, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "rtx-3090",
        "NVIDIA RTX 3090",
        24,
        (23.59, 23.69),
        "8.6",
        _OUT_OF_MEMORY,
        Speed(71, 936, 2, 112.5, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "rtx-4090",
        "NVIDIA RTX 4090",
        24,
        (23.51, 23.647),
        "8.9",
        _BANNER,
        Speed(165.2, 1008, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "rtx-5090",
        "NVIDIA RTX 5090",
        32,
        (31.342, 31.37),
        "12.0",
        _BANNER,
        Speed(209.5, 1792, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    _card("rtx-3060-12gb", "NVIDIA RTX 3060 12GB", 12, (11.6, 12.0), "8.6", _LLAMA_CPP, (25.5, 360)),
    _card("rtx-3070", "NVIDIA RTX 3070", 8, (7.635, 8.0), "8.6", _LLAMA_CPP, (40.6, 448)),
    _card("rtx-4060-ti-16gb", "NVIDIA RTX 4060 Ti 16GB", 16, (15.57, 16.0), "8.9", _LLAMA_CPP, (44.1, 288)),
    _card("rtx-4070", "NVIDIA RTX 4070", 12, (11.587, 11.625), "8.9", _LLAMA_CPP, (58.3, 504)),
    _card("rtx-4080-super", "NVIDIA RTX 4080 SUPER", 16, (15.695, 15.992), "8.9", _BANNER, (104.4, 736)),
    _card("rtx-5060-ti-16gb", "NVIDIA RTX 5060 Ti 16GB", 16, (15.478, 15.929), "12.0", _LLAMA_CPP, (47.4, 448)),
    _card("rtx-5070-ti", "NVIDIA RTX 5070 Ti", 16, (15.437, 15.921), "12.0", _LLAMA_CPP, (87.9, 896)),
    _card("rtx-5080", "NVIDIA RTX 5080", 16, (15.468, 15.921), "12.0", _LLAMA_CPP, (112.6, 960)),
    Accelerator(
        "rtx-6000-ada",
        "NVIDIA RTX 6000 Ada",
        48,
        (47.37, 47.53),
        "8.9",
        _OUT_OF_MEMORY,
        Speed(364.2, 960, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "rtx-pro-6000",
        "NVIDIA RTX PRO 6000 Blackwell",
        96,
        (94.971, 95.59),
        "12.0",
        _BANNER,
        Speed(503.8, 1792, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "l4", "NVIDIA L4", 24, (22.03, 22.161), "8.9", _BANNER, Speed(121, 300, 1, 0, _LIGHTNING, _UNCONFIRMED)
    ),
    Accelerator(
        "l20", "NVIDIA L20", 48, (44.4, 44.5), "8.9", _RECALLED, Speed(119.5, 864, 1, 0, _UNCONFIRMED, _UNCONFIRMED)
    ),
    Accelerator(
        "l40", "NVIDIA L40", 48, (44.39, 44.52), "8.9", _RECALLED, Speed(181, 864, 1, 0, _LIGHTNING, _UNCONFIRMED)
    ),
    Accelerator("l40s", "NVIDIA L40S", 48, (44.392, 44.402), "8.9", _BANNER, Speed(362, 864, 1, 0, _ML, _UNCONFIRMED)),
    Accelerator(
        "h100-sxm-80gb",
        "NVIDIA H100-SXM5-80GB",
        80,
        (79.097, 79.179),
        "9.0",
        _BANNER,
        Speed(989, 3350, 8, 900, _ML, _DLCALC, matmul=0.803),
    ),
    Accelerator(
        "h100-pcie-80gb",
        "NVIDIA H100-PCIe-80GB",
        80,
        (79.1, 79.2),
        "9.0",
        _RECALLED,
        Speed(756, 2000, 2, 600, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "h100-nvl-94gb",
        "NVIDIA H100-NVL-94GB",
        94,
        (93.016, 93.11),
        "9.0",
        _BANNER,
        Speed(835, 3938, 2, 600, _TITAN, _UNCONFIRMED),
    ),
    Accelerator(
        "h800-sxm-80gb",
        "NVIDIA H800-SXM",
        80,
        (79.1, 79.2),
        "9.0",
        _RECALLED,
        Speed(989, 3350, 8, 400, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "h20-96gb",
        "NVIDIA H20-96GB",
        96,
        (95.0, 95.22),
        "9.0",
        _OUT_OF_MEMORY,
        Speed(148, 4000, 8, 900, _TITAN, _UNCONFIRMED),
    ),
    Accelerator(
        "h200-sxm-141gb",
        "NVIDIA H200-SXM-141GB",
        141,
        (139.7, 139.801),
        "9.0",
        _BANNER,
        Speed(989, 4800, 8, 900, _ML, _UNCONFIRMED, matmul=0.803),
    ),
    Accelerator(
        "h200-nvl-141gb",
        "NVIDIA H200-NVL-141GB",
        141,
        (139.7, 139.8),
        "9.0",
        _RECALLED,
        Speed(835, 4800, 4, 900, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "gh200-96gb",
        "NVIDIA GH200-96GB",
        96,
        (94.5, 95.0),
        "9.0",
        _RECALLED,
        Speed(989, 4000, 1, 900, _ML, _UNCONFIRMED, matmul=0.838),
    ),
    Accelerator(
        "b200",
        "NVIDIA B200-SXM-180GB",
        180,
        (178.35, 178.36),
        "10.0",
        _OUT_OF_MEMORY,
        Speed(2250, 8000, 8, 1800, _ML, _DLCALC, matmul=0.776),
    ),
    Accelerator(
        "gb200",
        "NVIDIA GB200-NVL72",
        186,
        (184.31, 184.31),
        "10.0",
        _OUT_OF_MEMORY,
        Speed(2500, 8000, 72, 1800, _ML, _UNCONFIRMED, matmul=0.729),
    ),
    Accelerator(
        "b300",
        "NVIDIA B300-SXM",
        288,
        (267.69, 267.69),
        "10.3",
        _OUT_OF_MEMORY,
        Speed(2250, 8000, 8, 1800, _ML, _UNCONFIRMED, matmul=0.786),
    ),
    Accelerator(
        "gb300",
        "NVIDIA GB300-NVL72",
        288,
        (276.5, 276.5),
        "10.3",
        _OUT_OF_MEMORY,
        Speed(2500, 8000, 72, 1800, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "gb10",
        "NVIDIA GB10 (DGX Spark)",
        128,
        (119.698, 121.693),
        "12.1",
        _BANNER,
        Speed(125, 273, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "mi210",
        "AMD MI210",
        64,
        (63.98, 63.98),
        "gfx90a",
        _OUT_OF_MEMORY,
        Speed(181, 1638, 4, 300, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "mi250x-gcd",
        "AMD MI250X (per GCD)",
        64,
        (63.59, 63.98),
        "gfx90a",
        _OUT_OF_MEMORY,
        Speed(191.5, 1638, 8, 400, _TITAN, _UNCONFIRMED),
    ),
    Accelerator(
        "mi300x",
        "AMD MI300X",
        192,
        (191.69, 191.98),
        "gfx942",
        _OUT_OF_MEMORY,
        Speed(1307, 5300, 8, 896, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "mi325x",
        "AMD MI325X",
        256,
        (255.69, 255.98),
        "gfx942",
        _OUT_OF_MEMORY,
        Speed(1300, 6000, 8, 896, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "mi350x",
        "AMD MI350X",
        288,
        (287.98, 287.98),
        "gfx950",
        _OUT_OF_MEMORY,
        Speed(2300, 8000, 8, 1075, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "mi355x",
        "AMD MI355X",
        288,
        (287.98, 287.98),
        "gfx950",
        _OUT_OF_MEMORY,
        Speed(2500, 8000, 8, 1075, _ML, _UNCONFIRMED),
    ),
    Accelerator(
        "arc-pro-b70",
        "Intel Arc Pro B70",
        32,
        (30.3, 31.89),
        "xe2",
        _OUT_OF_MEMORY,
        Speed(183, 608, 1, 0, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "ascend-910b-64gb",
        "Huawei Ascend 910B-64GB",
        64,
        (61.27, 61.27),
        "ascend910",
        _NPU,
        Speed(313, 1600, 8, 392, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "ascend-910c-64gb",
        "Huawei Ascend 910C-64GB",
        64,
        (61.27, 61.27),
        "ascend910",
        _NPU,
        Speed(376, 1600, 16, 392, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "tpu-v5e",
        "Google TPU v5e",
        16,
        (15.75, 15.75),
        "tpu",
        _HBM,
        Speed(197, 819, 8, 400, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "tpu-v5p",
        "Google TPU v5p",
        95,
        (95.74, 95.74),
        "tpu",
        _HBM,
        Speed(459, 2765, 8, 1200, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "tpu-v6e",
        "Google TPU v6e",
        32,
        (31.24, 31.25),
        "tpu",
        _HBM,
        Speed(918, 1640, 8, 800, _UNCONFIRMED, _UNCONFIRMED),
    ),
    Accelerator(
        "tpu-v7x",
        "Google TPU7x-96GB",
        96,
        (94.75, 94.75),
        "tpu",
        _HBM,
        Speed(1153, 3690, 8, 600, _UNCONFIRMED, _UNCONFIRMED),
    ),
)
"""The catalog."""

BY_ID: Mapping[str, Accelerator] = {each.id: each for each in ACCELERATORS}
_AS_DRIVERS: Mapping[str, Sequence[str]] = {
    "h100-sxm-80gb": ("NVIDIA H100 80GB HBM3",),
    "h200-sxm-141gb": ("NVIDIA H200", "NVIDIA H200 141GB"),
}
"""Names that `nvidia-smi -L` prints and that are unlike the row's; seen in public logs."""
SPELLINGS: Mapping[str, Sequence[str]] = {
    each.id: (
        *(f"{name}{size}" for name in (each.id, each.name) for size in ("", f" {each.nominal_gb}GB")),
        *_AS_DRIVERS.get(each.id, ()),
    )
    for each in ACCELERATORS
}
"""How people write each accelerator's name."""
USUAL = BY_ID["h100-sxm-80gb"]
"""What an accelerator that is not named counts as where rates are asked for."""
SPEEDS_BY_MEMORY: Mapping[tuple[str, float | None], Speed] = {
    ("h100-sxm-80gb", 96): Speed(989, 2400, 8, 900, _ML, _DLCALC, matmul=0.803 * (500 / 700) ** 0.5),
}
"""Variants of a card that its memory tells apart. An H100 with 96 GB of HBM2e reads 2.4 TB/s and may draw 500 W instead
of 700 (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md); its clock is assumed to fall with the square
root of its power."""


def usual_board(meant: Sequence[str]) -> str | None:
    """Return which of several accelerators a short name such as H100 usually means: the only SXM board among them.

    Boards of one chip with different memory, such as the A100's, have no usual one.
    """
    boards = [each for each in meant if "-sxm" in each]
    return boards[0] if len(boards) == 1 and len({each.partition("-")[0] for each in meant}) == 1 else None


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
