"""Settings of PyTorch's own engines, as PyTorch, torchtitan, LitGPT and PEFT name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, FlagOrCount, Integer, Number
from memcore.config.needs import IN_FP8, ROUTED, STAGED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training

_FSDP = ("fsdp",)


class TorchSettings(Section, path="engine", engines=_FSDP):
    """What PyTorch's engines can be told besides the job itself."""

    reshard_after_forward = setting(
        FlagOrCount(),
        "Reshard after forward",
        "Free gathered parameters between forward and backward pass; a number reshards to groups of that size.",
        flag="reshard",
        default="true",
    )
    root_reshard_after_forward = setting(
        Flag(),
        "Reshard the root",
        "Free the root's parameters (embedding, final norm, head) after the forward pass too.",
        flag="root-reshard",
        default="false, as fully_shard does for the root",
        advanced=True,
    )
    wrap = setting(
        Choice(
            ("layer", "torchtitan", "torchtitan-2024"),
            {
                "layer": "one unit per layer; the root holds the rest",
                "torchtitan": "units: embedding, each layer, norm with head",
                "torchtitan-2024": "one unit per layer, the last one not resharded; the root holds the rest",
            },
        ),
        "Wrapping",
        "FSDP unit: which parameters are gathered together.",
        flag="wrap",
        default="layer; torchtitan with torchtitan's layers",
        advanced=True,
    )
    cpu_offload = setting(
        Flag(),
        "CPU offload",
        "Keep FSDP's shards, gradients and optimizer states on the host.",
        flag="cpu-offload",
    )
    no_sync = setting(
        Flag(),
        "Accumulate without communication",
        "Reduce gradients only after the last micro-batch; until then FSDP keeps them unsharded on every GPU.",
        flag="no-sync",
        engines=("ddp", "fsdp"),
        advanced=True,
    )
    autocast = setting(
        Flag(),
        "Autocast",
        "Run the forward pass under torch.autocast; with FSDP, in addition to its mixed-precision policy, "
        "as accelerate does.",
        flag="autocast",
        engines=("none", "ddp", "fsdp"),
        default="by the precision preset",
        advanced=True,
    )
    gradient_as_bucket_view = setting(
        Flag(),
        "Gradients as bucket views",
        "Make DDP's gradients views of its communication buckets.",
        flag="bucket-view",
        engines=("ddp",),
        default="false, as in DistributedDataParallel",
    )
    pipeline_runtime = setting(
        Choice(
            ("torch", "ideal"),
            {
                "torch": "torch.distributed.pipelining, with receive buffers for all micro-batches",
                "ideal": "schedule that keeps only the micro-batches in flight",
            },
        ),
        "Pipeline runtime",
        "Runtime of the pipeline schedule.",
        flag="pipeline-runtime",
        engines=("none", "fsdp"),
        default="torch",
        advanced=True,
    )
    return_outputs = setting(
        Flag(),
        "Return outputs",
        "Keep the logits of all micro-batches on the last pipeline stage until the next step.",
        flag="return-outputs",
        engines=("none", "fsdp"),
        default="true, as in torch.distributed.pipelining; false with torchtitan's layers",
        advanced=True,
    )
    bucket_cap_mb = setting(
        Integer(unit="MiB"),
        "Bucket size",
        "Size of each DDP communication bucket; all buckets together hold all gradients.",
        flag="bucket-cap",
        engines=("ddp",),
        default="25",
        advanced=True,
    )
    static_graph = setting(
        Flag(),
        "Static graph",
        "DDP's static_graph; no effect on memory.",
        flag="static-graph",
        engines=("ddp",),
        advanced=True,
    )
    moe_token_dispatcher = setting(
        Choice(
            ("alltoall", "allgather", "flex", "deepep", "hybridep"),
            {
                "alltoall": "all-to-all with one row per token and expert",
                "allgather": "all-gather: every rank gets all tokens (Megatron)",
                "flex": "DeepEP or HybridEP kernels (Megatron)",
                "deepep": "DeepEP: each token is sent once per rank (torchtitan)",
                "hybridep": "HybridEP: also sorts rows (torchtitan)",
            },
        ),
        "Token dispatcher",
        "How tokens are sent to their experts' ranks and back.",
        flag="moe-token-dispatcher",
        engines=(*_FSDP, "megatron", "megatron-fsdp"),
        default="alltoall; allgather with Megatron",
        advanced=True,
    )
    non_blocking_capacity_factor = setting(
        Number(0, 1),
        "Room for rows",
        "Rows that HybridEP makes room for without waiting for their number, as a fraction of the most that can arrive "
        "(torchtitan).",
        flag="moe-room",
        engines=_FSDP,
        default="none: as many rows as arrive",
        advanced=True,
    )
    enable_fsdp_float8_all_gather = setting(
        Flag(),
        "Float8 all-gather",
        "Cast weights to float8 before FSDP's all-gather, so gathered weights take one byte each.",
        flag="float8-all-gather",
        advanced=True,
    )
    enable_async_tensor_parallel = setting(
        Flag(),
        "Asynchronous tensor parallel",
        "Overlap tensor-parallel communication with matrix products; its symmetric-memory workspace is "
        "outside the allocator.",
        flag="async-tp",
        advanced=True,
    )
    use_orig_params = setting(
        Flag(),
        "Original parameters",
        "FSDP1: allow frozen and trainable parameters in one unit; the frozen ones then need gradient memory too.",
        flag="use-orig-params",
        default="false, as in FullyShardedDataParallel; true with LitGPT",
        advanced=True,
    )
    limit_all_gathers = setting(
        Flag(),
        "Limit all-gathers",
        "FSDP1: gather at most two units ahead. If false, the host runs ahead of the GPU by a full "
        "driver queue, and freed units stay reserved until the GPU has read them.",
        flag="limit-all-gathers",
        default="true",
        advanced=True,
    )
    backward_prefetch = setting(
        Choice(
            ("pre", "none"),
            {
                "pre": "gather the next unit before the current one runs",
                "none": "gather each unit when it runs",
            },
        ),
        "Backward prefetch",
        "FSDP1: when the backward pass gathers the next unit.",
        flag="backward-prefetch",
        default="pre",
        advanced=True,
    )
    lm_head_chunk_size = setting(
        Integer(unit="tokens"),
        "Logits chunk",
        "LitGPT: tokens that the output head processes at a time.",
        flag="lm-head-chunk",
        engines=("none", "ddp", "fsdp"),
        default="by training.loss",
        advanced=True,
    )
    prepare_model_for_kbit_training = setting(
        Flag(),
        "Prepare for k-bit training",
        "Call PEFT's prepare_model_for_kbit_training, which casts everything that is not quantized to fp32.",
        flag="prepare-kbit",
        engines=("none", "ddp", "fsdp"),
        advanced=True,
    )
    bnb_4bit_quant_storage = setting(
        Choice(
            ("float", "uint8"),
            {
                "float": "in the dtype of the other parameters, with which FSDP shards them",
                "uint8": "in bytes, bitsandbytes' default, of which FSDP2 leaves all on every GPU",
            },
        ),
        "Storage of 4-bit weights",
        "How bitsandbytes packs weights in 4 bits.",
        flag="quant-storage",
        engines=("fsdp",),
        default="float, as FSDP needs it to shard them",
        advanced=True,
    )
    quantize_moe_experts = setting(
        Flag(),
        "Quantized experts",
        "Quantize the stacked matrices of routed experts too when they are loaded, as axolotl does; a layer's are "
        "dequantized together.",
        flag="quantize-experts",
        engines=("none", "ddp"),
        advanced=True,
    )
    optimizer_in_bwd = setting(
        Flag(),
        "Optimizer in backward",
        "Run the optimizer step for each gradient as soon as it is computed, and free the gradient.",
        flag="optimizer-in-backward",
        engines=("none", "fsdp"),
        advanced=True,
    )


SECTIONS = (TorchSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    TorchSettings.reshard_after_forward: (
        "在前向与反向传播之间释放 all-gather 得到的参数；写数字则重新切分到该大小的组。",
    ),
    TorchSettings.root_reshard_after_forward: (
        "前向传播后也释放根单元的参数（嵌入、最后的归一化、输出头）。",
        "根单元重新分片",
        "false，与 fully_shard 对根模块相同",
    ),
    TorchSettings.wrap: (
        "FSDP 的单元：哪些参数一起 all-gather。",
        "包装单位",
        "layer；torchtitan 的层为 torchtitan",
        "每层一个单元；其余归入根单元",
        "单元：嵌入、每层、归一化与输出头",
        "每层一个单元，最后一层不重新切分；其余归入根单元",
    ),
    TorchSettings.cpu_offload: ("把 FSDP 的分片、梯度和优化器状态放在主机上。",),
    TorchSettings.no_sync: (
        "只在最后一个微批次之后归约梯度；此前 FSDP 在每块 GPU 上保存未切分的梯度。",
        "累积时不通信",
    ),
    TorchSettings.autocast: (
        "前向传播在 torch.autocast 下运行；使用 FSDP 时与其混合精度策略叠加，与 accelerate 相同。",
        "autocast",
        "由精度预设决定",
    ),
    TorchSettings.gradient_as_bucket_view: (
        "让 DDP 的梯度直接使用通信 bucket 的显存。",
        "梯度作为 bucket 视图",
        "false，与 DistributedDataParallel 相同",
    ),
    TorchSettings.pipeline_runtime: (
        "流水线调度的运行时。",
        "流水线运行时",
        "",
        "torch.distributed.pipelining，为所有微批次设接收缓冲区",
        "只保留在途微批次所需的调度",
    ),
    TorchSettings.return_outputs: (
        "最后一级流水线把所有微批次的 logits 保留到下一步。",
        "返回输出",
        "true，与 torch.distributed.pipelining 相同；torchtitan 的层为 false",
    ),
    TorchSettings.bucket_cap_mb: ("DDP 每个通信 bucket 的大小；全部 bucket 合起来容纳全部梯度。", "bucket 大小"),
    TorchSettings.static_graph: ("DDP 的 static_graph；不影响显存。", "静态图"),
    TorchSettings.moe_token_dispatcher: (
        "token 如何发送到专家所在的 rank 并返回。",
        "token 分发器",
        "alltoall；Megatron 为 allgather",
        "all-to-all，每个 token 与专家一行",
        "all-gather：每个 rank 得到所有 token（Megatron）",
        "DeepEP 或 HybridEP 的 kernel（Megatron）",
        "DeepEP：每个 token 对每个 rank 只发送一次（torchtitan）",
        "HybridEP：同时对行排序（torchtitan）",
    ),
    TorchSettings.non_blocking_capacity_factor: (
        "HybridEP 不等待实际行数而预留的行，占可能到达的最多行数的比例（torchtitan）。",
        "预留行数",
        "无：按实际到达的行数",
    ),
    TorchSettings.enable_fsdp_float8_all_gather: (
        "FSDP 在 all-gather 之前把权重转为 float8，all-gather 后的权重每个占一字节。",
        "float8 all-gather",
    ),
    TorchSettings.enable_async_tensor_parallel: (
        "张量并行的通信与矩阵乘重叠；其对称内存工作区在分配器之外。",
        "异步张量并行",
    ),
    TorchSettings.use_orig_params: (
        "FSDP1：允许冻结与可训练的参数在同一单元；冻结的参数也因此需要梯度显存。",
        "原始参数",
        "false，与 FullyShardedDataParallel 相同；LitGPT 为 true",
    ),
    TorchSettings.limit_all_gathers: (
        (
            "FSDP1：最多提前 all-gather 两个单元。为 false 时，主机领先 GPU 的程度由驱动队列决定，已释放的单"
            "元在 GPU 读完之前仍被保留。"
        ),
        "限制 all-gather",
    ),
    TorchSettings.backward_prefetch: (
        "FSDP1：反向传播何时 all-gather 下一个单元。",
        "反向预取",
        "",
        "当前单元运行前先 all-gather 下一个单元",
        "运行到每个单元时才 all-gather",
    ),
    TorchSettings.lm_head_chunk_size: ("LitGPT：输出头每次处理的 token 数。", "logits 分块", "由 training.loss 决定"),
    TorchSettings.bnb_4bit_quant_storage: (
        "bitsandbytes 以什么类型打包 4 位权重。",
        "4 位权重的存储",
        "float：FSDP 由此才能切分",
        "与其他参数相同的类型，FSDP 与它们一起切分",
        "字节，bitsandbytes 的默认，FSDP2 在每块 GPU 上保留全部",
    ),
    TorchSettings.prepare_model_for_kbit_training: (
        "调用 PEFT 的 prepare_model_for_kbit_training，把未量化的部分全部转为 fp32。",
        "为 k 位训练准备",
    ),
    TorchSettings.quantize_moe_experts: (
        "加载时把路由专家堆叠的矩阵也一起量化，与 axolotl 相同；同一层的专家会一起反量化。",
        "量化专家",
    ),
    TorchSettings.optimizer_in_bwd: ("每个梯度一算出就执行优化器更新，并释放该梯度。", "反向传播中更新"),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "fsdp": (
        EngineSettings.moe_load_imbalance,
        Training.reduce_dtype,
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.parameters,
        Training.offload.activations,
        Parallelism.data_parallel_size,
        Parallelism.data_parallel_shard_size,
        Parallelism.ulysses_parallel_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.virtual_pipeline_parallel_size,
        Parallelism.pipeline_layout,
        Parallelism.pipeline_schedule,
        Parallelism.expert_parallel_size,
        Parallelism.expert_tensor_parallel_size,
        EngineSettings.version,
    ),
    "none": (
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.activations,
        Parallelism.pipeline_parallel_size,
        Parallelism.virtual_pipeline_parallel_size,
        Parallelism.pipeline_layout,
        Parallelism.pipeline_schedule,
    ),
    "ddp": (
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.activations,
        Parallelism.data_parallel_size,
        Parallelism.ulysses_parallel_size,
    ),
}
"""What of the settings that engines have in common each of these takes."""
_FIRST_FSDP = Need(EngineSettings.version, ("1",))
NEEDS: Mapping[str, Need] = {
    TorchSettings.moe_token_dispatcher: ROUTED,
    TorchSettings.non_blocking_capacity_factor: Need(TorchSettings.moe_token_dispatcher, ("hybridep",)),
    TorchSettings.pipeline_runtime: STAGED,
    TorchSettings.return_outputs: STAGED,
    TorchSettings.enable_fsdp_float8_all_gather: IN_FP8,
    TorchSettings.bnb_4bit_quant_storage: Need(Training.quantization, ("nf4", "nf4-double", "fp4", "fp4-double")),
    TorchSettings.use_orig_params: _FIRST_FSDP,
    TorchSettings.limit_all_gathers: _FIRST_FSDP,
    TorchSettings.backward_prefetch: _FIRST_FSDP,
}
"""The one other setting that each of these waits for."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "none": (Parallelism.context_parallel_size,),
    "ddp": (Parallelism.tensor_parallel_size, Parallelism.context_parallel_size),
    "fsdp": (Parallelism.expert_tensor_parallel_size,),
}
"""Settings that every engine could have, but this one refuses whatever their value."""
