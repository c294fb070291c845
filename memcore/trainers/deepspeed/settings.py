"""Settings of DeepSpeed, as its JSON files name them; numbers of elements, not bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer
from memcore.config.needs import Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training

DEEPSPEED = ("deepspeed", "megatron-deepspeed")
"""Engines that run ZeRO."""

_DEVICE = Choice(
    ("none", "cpu", "nvme"),
    {"none": "on the GPU", "cpu": "in host memory", "nvme": "on NVMe, staged through host memory"},
)


def _elements(label: str, text: str, name: str, default: str) -> Setting[int]:
    return setting(Integer(0, unit="elements"), label, text, flag=name, default=default, advanced=True)


class DeepSpeedSettings(Section, path="engine", engines=DEEPSPEED):
    """What DeepSpeed can be told besides the job itself."""

    offload_optimizer = setting(
        _DEVICE,
        "Optimizer offload",
        "Where ZeRO keeps fp32 parameters, gradients and optimizer states and runs the optimizer step.",
        flag="zero-offload-optimizer",
        default="none",
    )
    offload_param = setting(
        _DEVICE,
        "Parameter offload",
        "Where ZeRO-3 keeps the model's parameters.",
        flag="zero-offload-param",
        default="none",
    )
    zero_init = setting(
        Flag(),
        "Sharded initialization",
        "Build the model under deepspeed.zero.Init; affects loading only, not the step.",
        flag="zero-init",
        default="true",
        advanced=True,
    )
    overlap_comm = setting(
        Flag(),
        "Overlapped reduction",
        "Reduce one bucket while the next is filled (stages 1 and 2).",
        flag="overlap-comm",
        default="true for stage 3, else false",
        advanced=True,
    )
    contiguous_gradients = setting(
        Flag(),
        "Contiguous gradients",
        "Copy gradients into a contiguous bucket as they are produced.",
        flag="contiguous-gradients",
        default="true",
        advanced=True,
    )
    reduce_bucket_size = _elements("Reduce bucket", "Gradient elements reduced at once.", "reduce-bucket", "500000000")
    allgather_bucket_size = _elements(
        "All-gather bucket",
        "Elements gathered at once, in place, after the optimizer step.",
        "allgather-bucket",
        "500000000",
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
        advanced=True,
    )
    zero_hpz_partition_size = setting(
        Integer(),
        "hpZ group",
        "ZeRO++ (hpZ): ranks over which a secondary copy of the parameters is sharded.",
        flag="hpz",
        default="1, no secondary copy",
        advanced=True,
    )
    mics_shard_size = setting(
        Integer(),
        "MiCS group",
        "MiCS: ranks per sharding group; groups are replicas of each other.",
        flag="mics",
        default="all ranks",
        advanced=True,
    )
    zero_quantized_weights = setting(
        Flag(),
        "Quantized gathers",
        "ZeRO++ (qwZ): gather parameters in 8 bits (stage 3).",
        flag="qwz",
        advanced=True,
    )
    zero_quantized_gradients = setting(
        Flag(),
        "Quantized reduction",
        "ZeRO++ (qgZ): reduce gradients in 4 bits between nodes (stage 3).",
        flag="qgz",
        advanced=True,
    )
    bf16_master_weights_and_grads = setting(
        Flag(),
        "Copy in bf16",
        "Stage 3 keeps its copy of the parameters, and with bf16_optimizer_states the optimizer's states, in bf16 "
        "(DeepSpeed 0.18.3 or later).",
        flag="bf16-master",
        advanced=True,
    )
    partition_activations = setting(
        Flag(),
        "Partitioned checkpoints",
        "Split checkpointed activations over tensor-parallel ranks (deepspeed.checkpointing).",
        flag="partition-activations",
        engines=("megatron-deepspeed",),
        advanced=True,
    )
    cpu_checkpointing = setting(
        Flag(),
        "Checkpoints on the host",
        "Keep checkpointed activations in host memory (deepspeed.checkpointing; ArcticTraining's "
        "activation_checkpoint_cpu_offload).",
        flag="cpu-checkpointing",
        advanced=True,
    )
    seq_parallel_communication_data_type = setting(
        Choice(("fp32", "bf16", "fp16")),
        "Reduction dtype of Ulysses",
        "Dtype in which gradients are reduced where ranks share sequences (DeepSpeed-Ulysses).",
        flag="seq-parallel-dtype",
        default="fp32",
        advanced=True,
    )
    contiguous_memory_optimization = setting(
        Flag(),
        "Buffers for checkpoints",
        "Allocate one buffer for all layers' checkpoints up front (deepspeed.checkpointing); same size, earlier.",
        flag="contiguous-checkpointing",
        engines=("megatron-deepspeed",),
        advanced=True,
    )


SECTIONS = (DeepSpeedSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    DeepSpeedSettings.offload_optimizer: (
        "ZeRO 把 fp32 参数、梯度和优化器状态放在哪里，并在那里更新。",
        "优化器卸载",
        "",
        "在 GPU 上",
        "在主机内存中",
        "在 NVMe 上，经主机内存中转",
    ),
    DeepSpeedSettings.offload_param: ("ZeRO-3 把模型参数放在哪里。", "参数卸载"),
    DeepSpeedSettings.zero_init: ("在 deepspeed.zero.Init 下初始化模型；只影响加载，不影响训练步。", "分片初始化"),
    DeepSpeedSettings.overlap_comm: (
        "填充下一个 bucket 的同时归约上一个（ZeRO-1 和 ZeRO-2）。",
        "重叠归约",
        "ZeRO-3 为 true，否则为 false",
    ),
    DeepSpeedSettings.contiguous_gradients: ("梯度一产生就复制到连续的 bucket 中。", "连续梯度"),
    DeepSpeedSettings.reduce_bucket_size: ("一次归约的梯度元素数。", "归约 bucket"),
    DeepSpeedSettings.allgather_bucket_size: ("优化器更新之后一次原地 all-gather 的元素数。", "all-gather bucket"),
    DeepSpeedSettings.sub_group_size: ("ZeRO-3 一次更新的元素数。", "子组"),
    DeepSpeedSettings.stage3_prefetch_bucket_size: ("ZeRO-3 预取的元素数。", "预取 bucket"),
    DeepSpeedSettings.stage3_max_live_parameters: ("ZeRO-3 保持完整（未切分）的最大元素数，含预取的部分。", "存活参数"),
    DeepSpeedSettings.stage3_max_reuse_distance: (
        "参数若在这一元素数之内再次使用，ZeRO-3 就让它保持完整（未切分）。",
        "复用距离",
    ),
    DeepSpeedSettings.stage3_param_persistence_threshold: (
        "小于此值的参数在 ZeRO-3 中保持完整（未切分）。",
        "常驻阈值",
    ),
    DeepSpeedSettings.hidden_size_buckets: (
        "transformers 的 Trainer 按隐藏维度 h 填入 `auto`：bucket 为 h² 与 0.9 h² 个元素，常驻阈值为 10 h。",
        "按隐藏维度定 bucket",
    ),
    DeepSpeedSettings.zero_hpz_partition_size: (
        "ZeRO++（hpZ）：切分参数第二份副本的 rank 数。",
        "hpZ 组",
        "1，即没有第二份副本",
    ),
    DeepSpeedSettings.mics_shard_size: ("MiCS：每个分片组的 rank 数；各组互为副本。", "MiCS 组", "所有 rank"),
    DeepSpeedSettings.zero_quantized_weights: ("ZeRO++（qwZ）：以 8 位 all-gather 参数（ZeRO-3）。", "量化 all-gather"),
    DeepSpeedSettings.zero_quantized_gradients: ("ZeRO++（qgZ）：节点间以 4 位归约梯度（ZeRO-3）。", "量化归约"),
    DeepSpeedSettings.bf16_master_weights_and_grads: (
        "ZeRO-3 的参数副本保持 bf16；若同时设置 bf16_optimizer_states，优化器状态也是（DeepSpeed 0.18.3 起）。",
        "bf16 副本",
    ),
    DeepSpeedSettings.partition_activations: (
        "把激活检查点保存的内容切分到张量并行的各 rank（deepspeed.checkpointing）。",
        "切分激活检查点",
    ),
    DeepSpeedSettings.cpu_checkpointing: (
        (
            "把激活检查点保存的内容放在主机内存（deepspeed.checkpointing；"
            "ArcticTraining 的 activation_checkpoint_cpu_offload）。"
        ),
        "激活检查点放在主机上",
    ),
    DeepSpeedSettings.seq_parallel_communication_data_type: (
        "多个 rank 共享序列（DeepSpeed-Ulysses）时归约梯度所用的数据类型。",
        "Ulysses 的归约精度",
    ),
    DeepSpeedSettings.contiguous_memory_optimization: (
        "为所有层的激活检查点预先分配一整块缓冲区（deepspeed.checkpointing）；大小不变，只是提前。",
        "激活检查点缓冲区",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
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
_ZERO_3 = Need(EngineSettings.zero_stage, ("3",))
NEEDS: Mapping[str, Need] = {
    DeepSpeedSettings.offload_optimizer: Need(EngineSettings.zero_stage, ("1", "2", "3")),
    DeepSpeedSettings.offload_param: _ZERO_3,
    DeepSpeedSettings.cpu_checkpointing: Need(Training.activation_checkpointing.policy, ("full", "selective")),
    DeepSpeedSettings.sub_group_size: _ZERO_3,
    DeepSpeedSettings.stage3_prefetch_bucket_size: _ZERO_3,
    DeepSpeedSettings.stage3_max_live_parameters: _ZERO_3,
    DeepSpeedSettings.stage3_max_reuse_distance: _ZERO_3,
    DeepSpeedSettings.stage3_param_persistence_threshold: _ZERO_3,
    DeepSpeedSettings.zero_hpz_partition_size: _ZERO_3,
    DeepSpeedSettings.mics_shard_size: _ZERO_3,
    DeepSpeedSettings.zero_quantized_weights: _ZERO_3,
    DeepSpeedSettings.zero_quantized_gradients: _ZERO_3,
    DeepSpeedSettings.bf16_master_weights_and_grads: _ZERO_3,
}
"""The one other setting that each of these waits for."""
OWN_OFFLOADING = (
    Training.zero_grad, Training.offload.optimizer, Training.offload.parameters,
    Parallelism.context_parallel_size,
)  # fmt: skip
"""What ZeRO refuses; its offloading has keys of its own."""
REFUSED: Mapping[str, tuple[str, ...]] = {"deepspeed": (*OWN_OFFLOADING, Parallelism.tensor_parallel_size)}
"""Settings that every engine could have, but this one refuses whatever their value."""
