"""What a row of the catalog says of an accelerator, and where its figures come from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from memcore.records import dataclass
from memcore.units import GiB

BANNER = "'Max memory' banners of public logs"
OUT_OF_MEMORY = "capacity in public out-of-memory messages"
LLAMA_CPP = "devices that public logs of llama.cpp and Ollama list"
TOTAL = "PyTorch's total in public logs"
RECALLED = "recalled, unconfirmed"
NPU = "vllm-ascend, worker/worker.py (pull request 8289)"
HBM = "tpu-inference, worker/tpu_worker.py, in public logs"

ML = "stas00/ml-engineering, tables of accelerators"
TITAN = "torchtitan/tools/utils.py, get_peak_flops"
DLCALC = "jfc4050/dlcalc, utils/hardware.py"
LIGHTNING = "lightning-fabric, utilities/throughput.py"
GPU_CATALOG = "a public catalog of GPUs"
UNCONFIRMED = "vendor's figure, unconfirmed"
ALIKE = "nvidia-smi's total, less what the driver keeps of cards alike"
WORKING_SET = "recommendedMaxWorkingSetSize in public logs of llama.cpp"
BANDWIDTHS = "ggml-org/llama.cpp, discussion 4167"

Place = Literal["datacentre", "workstation", "home", "laptop", "computer"]
"""Where an accelerator is found; a computer's memory is its own and the GPU's at once."""


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
    compute/accelerator, table of maximum achievable matmul FLOPS (MAMF). An MI350X's
    is that of an MI355X. None: counted as an H100's."""


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
    place: Place = "datacentre"

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
        """Its software: `cuda`, `rocm`, `xpu`, `cann`, `tpu` or `metal`; `cuda` for a vendor without a row."""
        return STACKS.get(self.vendor, "cuda")

    @property
    def major(self) -> int | None:
        """The major compute capability of an NVIDIA GPU."""
        return None if self.version is None else self.version[0]

    @property
    def version(self) -> tuple[int, int] | None:
        """The compute capability of an NVIDIA GPU."""
        head, _, tail = self.capability.partition(".")
        return (int(head), int(tail)) if head.isdigit() else None

    @property
    def line(self) -> str:
        """What it is called in every size of its memory."""
        return re.sub(r"[- ]\d+ ?GB$", "", self.name)

    @property
    def generation(self) -> int:
        """A number that is higher for later architectures of NVIDIA and of Apple; 0 for others, which have two lines.

        NVIDIA calls 8.9 Ada and 9.0 Hopper, both of 2022, and 10.0 to 12.1 Blackwell.
        """
        if self.version is not None:
            return bisect_right(_GENERATIONS, self.version)
        return int(self.capability.removeprefix("apple")) if self.stack == "metal" else 0

    @property
    def alone(self) -> bool:
        """Whether its computer has no second one."""
        return self.place == "laptop" or self.stack == "metal"

    @property
    def has_bf16(self) -> bool:
        """Whether it multiplies in bf16: NVIDIA's do from Ampere on, as do all others of the table."""
        return self.major is None or self.major >= AMPERE


_GENERATIONS = ((7, 0), (7, 5), (8, 0), (8, 9), (10, 0))
"""The first compute capability of Volta, Turing, Ampere, Ada with Hopper, and Blackwell."""
AMPERE = 8
"""The compute capability from which on NVIDIA's GPUs have bf16, and PyTorch has flash attention for them."""
HOPPER, BLACKWELL = 9, 10
"""Compute capabilities of Hopper, and of the Blackwell of data centers."""
STACKS: Mapping[str, str] = {
    "NVIDIA": "cuda", "AMD": "rocm", "Intel": "xpu", "Huawei": "cann", "Google": "tpu",
    "Apple": "metal",
}  # fmt: skip
MONITORS: Mapping[str, str] = {
    "cuda": "nvidia-smi",
    "rocm": "amd-smi",
    "xpu": "xpu-smi",
    "cann": "npu-smi",
    "tpu": "tpu-info",
    "metal": "Activity Monitor",
}
"""What shows the memory in use of a GPU, by its software."""


def card(
    name: str,
    title: str,
    size: int,
    observed: tuple[float, float],
    capability: str,
    source: str,
    rates: tuple[float, float],
) -> Accelerator:
    """A card without fast links; its `rates` are those of 16-bit products and of its memory."""
    return Accelerator(name, title, size, observed, capability, source, Speed(*rates, 1, 0, UNCONFIRMED, UNCONFIRMED))


def placed(place: Place, *rows: Accelerator) -> Sequence[Accelerator]:
    """Rows, with where they are found."""
    return tuple(replace(row, place=place) for row in rows)
