"""Settings of what a job runs on."""

from __future__ import annotations

from memcore.config.kinds import Integer, Listed, Number, Text
from memcore.config.schema import Section, setting
from memcore.hardware import ACCELERATORS, SPELLINGS, usual_board
from memcore.limits import GPUS
from memcore.registry import TRAINERS


class Hardware(Section, path="hardware"):
    """What the job runs on."""

    accelerator = setting(
        Listed(
            "accelerators",
            {each.id: each.name for each in ACCELERATORS},
            SPELLINGS,
            usual_board,
            "; for another GPU, set GPU memory (--gpu-memory)",
        ),
        "Accelerator",
        "GPU model, by its id in the catalog.",
        flag="accelerator",
        aliases=("gpu",),
        common=True,
        default="none, so no verdict",
    )
    mig = setting(
        Text(),
        "MIG profile",
        "Slice of a partitioned NVIDIA GPU, such as 3g.40gb. The job gets only this slice's memory and "
        "multiprocessors.",
        flag="mig",
        default="the whole GPU",
        advanced=True,
    )
    num_gpus = setting(
        Integer(maximum=GPUS),
        "GPUs",
        "Total number of GPUs.",
        flag="gpus",
        common=True,
        default="the product of the parallel sizes",
    )
    gpus_per_node = setting(
        Integer(maximum=GPUS),
        "GPUs in a node",
        "GPUs connected directly, without a network; determines how many connections Megatron's ranks open.",
        flag="gpus-per-node",
        default="8",
        advanced=True,
    )
    gpu_memory_gb = setting(
        Number(0.1, 10000, unit="GiB"),
        "GPU memory",
        "Memory per GPU in GiB, as nvidia-smi counts it; overrides the catalog.",
        flag="gpu-memory",
        default="the catalog's",
        advanced=True,
    )
    outside_gb = setting(
        Number(0, 10000, unit="GiB"),
        "Memory outside",
        "GPU memory in GiB, as you measured it, that PyTorch's allocator does not count: CUDA context, "
        "NCCL, other processes, a display.",
        flag="outside-gb",
        engines=tuple(TRAINERS),
        default="estimated",
        advanced=True,
    )
