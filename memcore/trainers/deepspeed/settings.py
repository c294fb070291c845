"""Settings of DeepSpeed, as its JSON files name them; numbers of elements, not bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.kinds import Choice, Flag, Integer
from memcore.config.needs import Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training
from memcore.trainers.nanotron.settings import NANOTRON

DEEPSPEED = ("deepspeed", "megatron-deepspeed")
"""Engines that run ZeRO."""

_DEVICE = Choice(
    ("none", "cpu", "nvme"),
    {"none": "on the GPU", "cpu": "in host memory", "nvme": "on NVMe, staged through host memory"},
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
        "ZeRO stage: 1 shards optimizer states, 2 also gradients, 3 also parameters.",
        flag="zero-stage",
        common=True,
        engines=(*NANOTRON, *DEEPSPEED),
        default="0",
    )
    offload_optimizer = setting(
        _DEVICE,
        "Optimizer offload",
        "Where ZeRO keeps fp32 parameters, gradients and optimizer states and runs the optimizer step.",
        flag="zero-offload-optimizer",
        engines=DEEPSPEED,
        default="none",
    )
    offload_param = setting(
        _DEVICE,
        "Parameter offload",
        "Where ZeRO-3 keeps the model's parameters.",
        flag="zero-offload-param",
        engines=DEEPSPEED,
        default="none",
    )
    zero_init = setting(
        Flag(),
        "Sharded initialization",
        "Build the model under deepspeed.zero.Init; affects loading only, not the step.",
        flag="zero-init",
        engines=DEEPSPEED,
        default="true",
        advanced=True,
    )
    overlap_comm = setting(
        Flag(),
        "Overlapped reduction",
        "Reduce one bucket while the next is filled (stages 1 and 2).",
        flag="overlap-comm",
        engines=DEEPSPEED,
        default="true for stage 3, else false",
        advanced=True,
    )
    contiguous_gradients = setting(
        Flag(),
        "Contiguous gradients",
        "Copy gradients into a contiguous bucket as they are produced.",
        flag="contiguous-gradients",
        engines=DEEPSPEED,
        default="true",
        advanced=True,
    )
    reduce_bucket_size = _elements("Reduce bucket", "Gradient elements reduced at once.", "reduce-bucket", "500000000")
    allgather_bucket_size = _elements(
        "All-gather bucket", "Elements gathered at once after the step; in place.", "allgather-bucket", "500000000"
    )
    sub_group_size = _elements("Sub-group", "Elements updated at once by stage 3.", "sub-group", "1000000000")
    stage3_prefetch_bucket_size = _elements(
        "Prefetch bucket", "Elements prefetched by stage 3.", "prefetch-bucket", "50000000"
    )
    stage3_max_live_parameters = _elements(
        "Live parameters",
        "Max elements that stage 3 keeps gathered, including prefetched ones.",
        "max-live",
        "1000000000",
    )
    stage3_max_reuse_distance = _elements(
        "Reuse distance",
        "Stage 3 keeps a parameter gathered if it is used again within this number of elements.",
        "max-reuse",
        "1000000000",
    )
    stage3_param_persistence_threshold = _elements(
        "Persistence threshold",
        "Stage 3 keeps parameters smaller than this gathered.",
        "persistence-threshold",
        "100000",
    )
    hidden_size_buckets = setting(
        Flag(),
        "Buckets by hidden size",
        "transformers' Trainer resolves `auto` from the hidden size h: buckets of h² and 0.9 h² elements, "
        "persistence threshold 10 h.",
        flag="hidden-size-buckets",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    zero_hpz_partition_size = setting(
        Integer(),
        "hpZ group",
        "ZeRO++ (hpZ): ranks over which a secondary copy of the parameters is sharded.",
        flag="hpz",
        engines=DEEPSPEED,
        default="1, no secondary copy",
        advanced=True,
    )
    mics_shard_size = setting(
        Integer(),
        "MiCS group",
        "MiCS: ranks per sharding group; groups are replicas of each other.",
        flag="mics",
        engines=DEEPSPEED,
        default="all ranks",
        advanced=True,
    )
    zero_quantized_weights = setting(
        Flag(),
        "Quantized gathers",
        "ZeRO++ (qwZ): gather parameters in 8 bits (stage 3).",
        flag="qwz",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    zero_quantized_gradients = setting(
        Flag(),
        "Quantized reduction",
        "ZeRO++ (qgZ): reduce gradients in 4 bits between nodes (stage 3).",
        flag="qgz",
        engines=DEEPSPEED,
        default="false",
        advanced=True,
    )
    partition_activations = setting(
        Flag(),
        "Partitioned checkpoints",
        "Split checkpointed activations over tensor-parallel ranks (deepspeed.checkpointing).",
        flag="partition-activations",
        engines=("megatron-deepspeed",),
        default="false",
        advanced=True,
    )
    cpu_checkpointing = setting(
        Flag(),
        "Checkpoints on the host",
        "Keep checkpointed activations in host memory (deepspeed.checkpointing).",
        flag="cpu-checkpointing",
        engines=("megatron-deepspeed",),
        default="false",
        advanced=True,
    )
    contiguous_memory_optimization = setting(
        Flag(),
        "Buffers for checkpoints",
        "Allocate one buffer for all layers' checkpoints up front (deepspeed.checkpointing); same size, earlier.",
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
        Training.offload.activations,
        Parallelism.data_parallel_size,
        Parallelism.ulysses_parallel_size,
    ),
}
"""What of the settings that engines have in common each of these takes."""
_ZERO_3 = Need(DeepSpeedSettings.zero_stage, ("3",))
NEEDS: Mapping[str, Need] = {
    DeepSpeedSettings.offload_optimizer: Need(DeepSpeedSettings.zero_stage, ("1", "2", "3")),
    DeepSpeedSettings.offload_param: _ZERO_3,
    DeepSpeedSettings.sub_group_size: _ZERO_3,
    DeepSpeedSettings.stage3_prefetch_bucket_size: _ZERO_3,
    DeepSpeedSettings.stage3_max_live_parameters: _ZERO_3,
    DeepSpeedSettings.stage3_max_reuse_distance: _ZERO_3,
    DeepSpeedSettings.stage3_param_persistence_threshold: _ZERO_3,
    DeepSpeedSettings.zero_hpz_partition_size: _ZERO_3,
    DeepSpeedSettings.mics_shard_size: _ZERO_3,
    DeepSpeedSettings.zero_quantized_weights: _ZERO_3,
    DeepSpeedSettings.zero_quantized_gradients: _ZERO_3,
}
"""The one other setting that each of these waits for."""
OWN_OFFLOADING = (
    Training.zero_grad, Training.offload.optimizer, Training.offload.parameters,
    Parallelism.context_parallel_size,
)  # fmt: skip
"""What ZeRO refuses; its offloading has keys of its own."""
REFUSED: Mapping[str, tuple[str, ...]] = {"deepspeed": (*OWN_OFFLOADING, Parallelism.tensor_parallel_size)}
"""Settings that every engine could have, but this one refuses whatever their value."""
