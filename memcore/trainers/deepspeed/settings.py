"""Settings of DeepSpeed, as its JSON files name them; numbers of elements, not bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.kinds import Choice, Flag, Integer
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training
from memcore.trainers.nanotron.settings import NANOTRON

DEEPSPEED = ("deepspeed", "megatron-deepspeed")
"""Engines that run ZeRO."""

_DEVICE = Choice(
    ("none", "cpu", "nvme"),
    {"none": "on the GPU", "cpu": "in host memory", "nvme": "on a disk, in parts through host memory"},
)


def _elements(label: str, text: str, name: str, default: str) -> Setting[int]:
    return setting(
        Integer(0, unit="elements"), label, text, flag=name, engines=DEEPSPEED, default=default, advanced=True
    )


class DeepSpeedSettings(Section, path="engine"):
    """What DeepSpeed can be told besides the job itself."""

    zero_stage = setting(
        Integer(0, 3),
        "ZeRO stage",
        "What data-parallel ranks share: 1 the optimizer's states, 2 gradients too, 3 parameters too.",
        flag="zero-stage",
        common=True,
        engines=(*NANOTRON, *DEEPSPEED),
        default="0",
    )
    offload_optimizer = setting(
        _DEVICE,
        "Optimizer offload",
        "Where ZeRO keeps fp32 parameters, gradients and optimizer states, and runs the step.",
        flag="zero-offload-optimizer",
        engines=DEEPSPEED,
        default="none",
    )
    offload_param = setting(
        _DEVICE,
        "Parameter offload",
        "Where ZeRO-3 keeps the parameters of the model.",
        flag="zero-offload-param",
        engines=DEEPSPEED,
        default="none",
    )
    zero_init = setting(
        Flag(),
        "Sharded initialization",
        "The model is made under deepspeed.zero.Init; how it is loaded changes no step.",
        flag="zero-init",
        engines=DEEPSPEED,
        default="true",
        advanced=True,
    )
    overlap_comm = setting(
        Flag(),
        "Overlapped reduction",
        "Stages 1 and 2 reduce one bucket while another is filled.",
        flag="overlap-comm",
        engines=DEEPSPEED,
        default="true for stage 3, else false",
        advanced=True,
    )
    contiguous_gradients = setting(
        Flag(),
        "Contiguous gradients",
        "Gradients are copied into a bucket as they come.",
        flag="contiguous-gradients",
        engines=DEEPSPEED,
        default="true",
        advanced=True,
    )
    reduce_bucket_size = _elements(
        "Reduce bucket", "Elements of gradients that are reduced at once.", "reduce-bucket", "500000000"
    )
    allgather_bucket_size = _elements(
        "All-gather bucket", "Elements gathered at once after the step, in place.", "allgather-bucket", "500000000"
    )
    sub_group_size = _elements("Sub-group", "Elements that stage 3 updates at once.", "sub-group", "1000000000")
    stage3_prefetch_bucket_size = _elements(
        "Prefetch bucket", "Elements that stage 3 fetches ahead.", "prefetch-bucket", "50000000"
    )
    stage3_max_live_parameters = _elements(
        "Live parameters",
        "Most elements that stage 3 keeps gathered, counting those it fetches ahead.",
        "max-live",
        "1000000000",
    )
    stage3_max_reuse_distance = _elements(
        "Reuse distance",
        "Stage 3 keeps a gathered parameter that is used again within this number of elements.",
        "max-reuse",
        "1000000000",
    )
    stage3_param_persistence_threshold = _elements(
        "Persistence threshold", "Smaller parameters stay gathered.", "persistence-threshold", "100000"
    )
    hidden_size_buckets = setting(
        Flag(),
        "Buckets by width",
        "transformers' Trainer fills in `auto`: buckets of h² and 0.9 h² elements, a threshold of 10 h.",
        flag="hidden-size-buckets",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    zero_hpz_partition_size = setting(
        Integer(),
        "hpZ group",
        "ZeRO++: ranks that share a secondary copy of the parameters.",
        flag="hpz",
        engines=DEEPSPEED,
        default="1: none",
        advanced=True,
    )
    mics_shard_size = setting(
        Integer(),
        "MiCS group",
        "Ranks among which everything is sharded; the groups are replicas.",
        flag="mics",
        engines=DEEPSPEED,
        default="all ranks",
        advanced=True,
    )
    zero_quantized_weights = setting(
        Flag(),
        "Quantized gathers",
        "ZeRO++ (qwZ): stage 3 gathers parameters in 8 bits.",
        flag="qwz",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    zero_quantized_gradients = setting(
        Flag(),
        "Quantized reduction",
        "ZeRO++ (qgZ): between nodes, stage 3 reduces gradients in 4 bits.",
        flag="qgz",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    partition_activations = setting(
        Flag(),
        "Partitioned checkpoints",
        "deepspeed.checkpointing divides what checkpoints keep among tensor-parallel ranks.",
        flag="partition-activations",
        engines=("megatron-deepspeed",),
        default="false",
        advanced=True,
    )
    cpu_checkpointing = setting(
        Flag(),
        "Checkpoints on the host",
        "deepspeed.checkpointing keeps what checkpoints keep in host memory.",
        flag="cpu-checkpointing",
        engines=("megatron-deepspeed",),
        default="false",
        advanced=True,
    )
    contiguous_memory_optimization = setting(
        Flag(),
        "Buffers for checkpoints",
        "deepspeed.checkpointing makes room for the parts of all layers when the first is kept: earlier, not more.",
        flag="contiguous-checkpointing",
        engines=("megatron-deepspeed",),
        default="false",
        advanced=True,
    )


SECTIONS = (DeepSpeedSettings,)
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "deepspeed": (
        Training.offload.optimizer,
        Training.offload.parameters,
        Parallelism.data_parallel_size,
        Parallelism.ulysses_parallel_size,
    ),
}
"""What of the settings that engines have in common each of these takes."""
