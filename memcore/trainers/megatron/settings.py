"""Settings of Megatron-Core, named as its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Kind, Names
from memcore.config.needs import ANY, IN_FP8, ROUTED, SEVERAL, STAGED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, ValueT, setting
from memcore.config.training import Training
from memcore.dtypes import FLOATING
from memcore.limits import MICRO_BATCHES

MEGATRON = ("megatron", "megatron-fsdp")
"""Engines that run Megatron-Core."""

_STATE = Choice(("fp32", "bf16", "fp16", "fp8"))


def _flag(label: str, text: str, name: str, default: str = "false", *, shown: bool = False) -> Setting[bool]:
    """Return a switch of Megatron-Core."""
    return setting(Flag(), label, text, flag=name, default=default, advanced=not shown)


def _choice(
    label: str, text: str, name: str, kind: Kind[ValueT], default: str, *, shown: bool = False
) -> Setting[ValueT]:
    """Return a value of Megatron-Core."""
    return setting(kind, label, text, flag=name, default=default, advanced=not shown)


class MegatronSettings(Section, path="engine", engines=MEGATRON):
    """What Megatron-Core can be told besides the job itself."""

    data_parallel_sharding_strategy = setting(
        Choice(
            ("no_shard", "optim", "optim_grads", "optim_grads_params"),
            {
                "no_shard": "no sharding",
                "optim": "shard master weights and optimizer states",
                "optim_grads": "also shard gradients",
                "optim_grads_params": "also shard parameters, gathered layer by layer",
            },
        ),
        "Sharding strategy",
        "Megatron-FSDP: what is sharded over data-parallel ranks.",
        flag="sharding-strategy",
        engines=("megatron-fsdp",),
        default="no_shard, as in Megatron-LM",
    )
    outer_dp_sharding_strategy = setting(
        Choice(
            ("no_shard", "optim"),
            {"no_shard": "replicas, no sharding", "optim": "also shard master weights and optimizer states"},
        ),
        "Outer sharding",
        "Megatron-FSDP with several optimizer instances (HSDP): what is sharded across them.",
        flag="outer-sharding-strategy",
        engines=("megatron-fsdp",),
        default="no_shard",
        advanced=True,
    )
    distributed_optimizer = _flag(
        "Distributed optimizer",
        "Shard master weights and optimizer states over data-parallel ranks (ZeRO-1); gradients stay unsharded.",
        "distributed-optimizer",
        shown=True,
    )
    num_distributed_optimizer_instances = _choice(
        "Optimizer instances",
        "Replicas of the distributed optimizer; each is sharded over fewer ranks.",
        "optimizer-instances",
        Integer(),
        "1",
    )
    precision_aware_optimizer = _flag(
        "Precision-aware optimizer",
        "Use TransformerEngine's precision-aware optimizer, which reads gradients in their own dtype and "
        "supports lower-precision states.",
        "precision-aware-optimizer",
    )
    grad_reduce_in_bf16 = _flag(
        "Gradients in bf16",
        "Keep and reduce gradients in bf16; the optimizer then makes an fp32 copy of its shard.",
        "grad-reduce-bf16",
    )
    main_grads_dtype = _choice(
        "Main gradients",
        "Gradient dtype of the precision-aware optimizer.",
        "main-grads",
        Choice(FLOATING),
        "fp32",
    )
    main_params_dtype = _choice(
        "Main parameters", "Master-weight dtype of the precision-aware optimizer.", "main-params",
        Choice(("fp32", "fp16")), "fp32",
    )  # fmt: skip
    exp_avg_dtype = _choice(
        "First moment", "First-moment dtype of the precision-aware optimizer.", "exp-avg-dtype", _STATE, "fp32"
    )
    exp_avg_sq_dtype = _choice(
        "Second moment", "Second-moment dtype of the precision-aware optimizer.", "exp-avg-sq-dtype", _STATE, "fp32"
    )
    overlap_grad_reduce = _flag(
        "Overlap gradient reduction",
        "Reduce gradient buckets during the backward pass; no effect on memory.",
        "overlap-grad-reduce",
    )
    overlap_param_gather = _flag(
        "Overlap parameter gather",
        "All-gather parameters in place during the forward pass.",
        "overlap-param-gather",
    )
    gradient_accumulation_fusion = _flag(
        "Gradient accumulation fusion",
        "Accumulate weight gradients inside the matrix product; autograd gets one dummy gradient per shape.",
        "grad-accum-fusion",
        "true",
    )
    transformer_impl = _choice(
        "Transformer implementation",
        "Implementation of the layers; the same as training.implementation.",
        "transformer-impl",
        Choice(("transformer_engine", "local")),
        "transformer_engine",
    )
    deterministic_mode = _flag(
        "Deterministic mode",
        "Use deterministic kernels; requires CUBLAS_WORKSPACE_CONFIG=:4096:8 (32 MiB workspaces).",
        "deterministic",
    )
    reference_model = _flag(
        "Frozen reference",
        "Keep a frozen copy of the model that answers are compared with (ms-swift's DPO, and GRPO with beta above 0).",
        "keep-reference",
    )
    account_for_embedding_in_pipeline_split = _flag(
        "Account for embedding in split",
        "Give the first stage one layer fewer, to make up for the embedding.",
        "account-embedding",
    )
    account_for_loss_in_pipeline_split = _flag(
        "Account for loss in split", "Give the last stage one layer fewer, to make up for the head.", "account-loss"
    )
    microbatch_group_size_per_virtual_pipeline_stage = _choice(
        "Micro-batch group",
        "Micro-batches that run through one virtual stage before the next one starts.",
        "microbatch-group",
        Integer(maximum=MICRO_BATCHES),
        "the pipeline-parallel size",
    )
    cp_comm_type = _choice(
        "Context-parallel communication",
        "How context-parallel ranks exchange keys and values.",
        "cp-comm",
        Choice(("p2p", "a2a", "allgather", "a2a+p2p")),
        "p2p",
    )
    cross_entropy_loss_fusion = _flag(
        "Fused cross-entropy", "Run the vocabulary-parallel loss as one kernel.", "ce-fusion"
    )
    cross_entropy_fusion_impl = _choice(
        "Fused cross-entropy implementation",
        "Implementation of the fused cross-entropy.",
        "ce-impl",
        Choice(("native", "te")),
        "native",
    )
    attention_softmax_in_fp32 = _flag(
        "Softmax in fp32", "Compute the softmax of unfused attention in fp32.", "softmax-fp32"
    )
    apply_query_key_layer_scaling = _flag(
        "Scale by layer number",
        "Scale attention scores by the layer number, with the softmax in fp32.",
        "qk-layer-scaling",
    )
    no_masked_softmax_fusion = _flag("No fused softmax", "Do not fuse scale, mask and softmax.", "no-softmax-fusion")
    no_bias_gelu_fusion = _flag("No fused bias GELU", "Do not fuse bias and GELU.", "no-gelu-fusion")
    no_bias_swiglu_fusion = _flag(
        "No fused SwiGLU", "Do not fuse bias and SwiGLU.",
        "no-swiglu-fusion",
    )  # fmt: skip
    no_rope_fusion = _flag("No fused rotation", "Do not fuse rotary embeddings.", "no-rope-fusion")
    no_persist_layer_norm = _flag("No persistent norm kernel", "No effect on memory.", "no-persist-norm")
    no_create_attention_mask_in_dataloader = _flag(
        "No attention mask in data loader", "Attention builds its own causal mask.", "no-mask"
    )
    calculate_per_token_loss = _flag("Per-token loss", "No effect on memory.", "per-token-loss")
    defer_embedding_wgrad_compute = _flag(
        "Deferred embedding gradient",
        "Compute the head's weight gradient after the pipeline's last backward pass.",
        "defer-embedding-wgrad",
    )
    wgrad_deferral_limit = _choice(
        "Deferral limit",
        "Micro-batches whose embedding weight gradient is deferred; 0 means all.",
        "wgrad-deferral",
        Integer(0),
        "0",
    )
    tp_comm_overlap = _flag(
        "Overlapped tensor parallelism",
        "Overlap tensor-parallel communication with GEMMs through TransformerEngine's user buffers.",
        "tp-comm-overlap",
    )
    overlap_moe_expert_parallel_comm = _flag(
        "Overlapped expert parallelism",
        "Overlap expert-parallel communication by running the forward and backward passes of two "
        "micro-batches together.",
        "overlap-ep",
    )
    overlap_p2p_communication_warmup_flush = _flag(
        "Overlapped warm-up", "Overlap communication between stages in the warm-up and flush phases.", "overlap-warmup"
    )
    overlap_param_gather_with_optimizer_step = _flag(
        "Gather during the step", "No effect on memory.", "overlap-gather-step"
    )
    distribute_saved_activations = _flag(
        "Distributed saved activations",
        "With full recomputation, split each saved layer input over tensor-parallel ranks and gather it to recompute.",
        "distribute-saved",
    )
    no_use_layer_wise_param_layout = _flag(
        "No layer-wise layout",
        "Muon's distributed optimizer: assign whole parameters to ranks by size, in unpadded buffers.",
        "no-layer-wise",
    )
    fp8_format = _choice(
        "FP8 format", "FP8 format of matrix products.", "fp8-format", Choice(("e4m3", "hybrid")), "none"
    )
    fp8_param_gather = _flag("FP8 parameters", "Parameters are kept and gathered in FP8.", "fp8-param-gather")
    first_last_layers_bf16 = _flag(
        "First and last layers in bf16", "Run the first and last layers in bf16 instead of FP8.", "first-last-bf16"
    )
    num_layers_at_start_in_bf16 = _choice(
        "First layers in bf16", "How many of the first layers run in bf16.", "start-bf16", Integer(0), "1"
    )
    num_layers_at_end_in_bf16 = _choice(
        "Last layers in bf16", "How many of the last layers run in bf16.", "end-bf16", Integer(0), "1"
    )
    moe_flex_dispatcher_backend = _choice(
        "Flex dispatcher",
        "Communication backend of the flex dispatcher.",
        "moe-flex",
        Choice(("deepep", "hybridep")),
        "deepep",
    )
    moe_pad_expert_input_to_capacity = _flag("Pad to capacity", "Pad every expert's input to its capacity.", "moe-pad")
    moe_grouped_gemm = _flag(
        "Grouped GEMM", "Compute a rank's experts in one grouped GEMM, on several streams.", "moe-grouped"
    )
    moe_permute_fusion = _flag("Fused permutation", "Permute tokens with one fused kernel.", "moe-permute")
    moe_router_fusion = _flag("Fused router", "Run the router as one kernel.", "moe-router-fusion")
    moe_router_load_balancing_type = _choice(
        "Load balancing",
        "Method that balances load over experts.",
        "moe-balancing",
        Choice(("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none", "quantile")),
        "aux_loss",
    )
    moe_router_pre_softmax = _flag(
        "Softmax before top-k", "Apply the router's softmax before the top-k choice.", "moe-pre-softmax"
    )
    moe_shared_expert_overlap = _flag(
        "Overlapped shared expert", "Overlap the shared expert with token communication.", "moe-shared-overlap"
    )
    use_fused_weighted_squared_relu = _flag(
        "Fused squared ReLU", "Fuse squared ReLU with the router's weights into one kernel.", "fused-relu2"
    )
    use_transformer_engine_op_fuser = _flag(
        "TransformerEngine op fuser",
        "Build feed-forward layers from TransformerEngine's fusible operations; the saved tensors are the same.",
        "te-op-fuser",
    )
    fine_grained_activation_offloading = _flag(
        "Activation offloading",
        "Offload the saved tensors of chosen modules to the host until the backward pass.",
        "offload-fine",
    )
    offload_modules = setting(
        Names(), "Offloaded modules",
        "Modules to offload: attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act.",
        flag="offload-modules", default="none", advanced=True,
    )  # fmt: skip
    min_offloaded_tensor_size = _choice(
        "Smallest offloaded tensor", "Smallest tensor to offload, in elements.", "offload-least", Integer(0), "1048576"
    )
    cuda_graph_impl = _choice(
        "CUDA graphs",
        "CUDA Graph implementation: Megatron-Core's per layer (local), TransformerEngine's, or one graph "
"for a full iteration.",
        "cuda-graph-impl", Choice(("none", "local", "transformer_engine", "full_iteration")), "none",
    )  # fmt: skip
    cuda_graph_scope = setting(
        Names(), "Scope of CUDA graphs", "Modules captured in CUDA Graphs (older name of cuda_graph_modules).",
        flag="cuda-graph-scope",
        default="none", advanced=True,
    )  # fmt: skip
    cuda_graph_modules = setting(
        Names(), "Modules of CUDA graphs",
        "Modules captured in CUDA Graphs: attn, mlp, moe, moe_router, moe_preprocess, mamba.",
        flag="cuda-graph-modules", default="whole layers", advanced=True,
    )  # fmt: skip
    cuda_graph_warmup_steps = _choice(
        "Warm-up steps", "Steps before graphs are captured.", "cuda-graph-warmup",
        Integer(0), "3",
    )  # fmt: skip


SECTIONS = (MegatronSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    MegatronSettings.data_parallel_sharding_strategy: (
        "Megatron-FSDP：在数据并行的 rank 间切分什么。",
        "分片策略",
        "no_shard，与 Megatron-LM 相同",
        "不切分",
        "切分主权重与优化器状态",
        "还切分梯度",
        "还切分参数，逐层 all-gather",
    ),
    MegatronSettings.outer_dp_sharding_strategy: (
        "Megatron-FSDP 有多个优化器实例（HSDP）时，在实例之间切分什么。",
        "外层分片",
        "",
        "互为副本，不切分",
        "还切分主权重与优化器状态",
    ),
    MegatronSettings.distributed_optimizer: (
        "在数据并行的 rank 间切分主权重与优化器状态（ZeRO-1）；梯度不切分。",
        "分布式优化器",
    ),
    MegatronSettings.num_distributed_optimizer_instances: (
        "分布式优化器的副本数；每个副本切分到更少的 rank。",
        "优化器实例数",
    ),
    MegatronSettings.precision_aware_optimizer: (
        "使用 TransformerEngine 的精度感知优化器：按梯度自身的 dtype 读取，并支持低精度状态。",
        "精度感知优化器",
    ),
    MegatronSettings.grad_reduce_in_bf16: ("以 bf16 保存并归约梯度；优化器再为自己的分片创建 fp32 副本。", "bf16 梯度"),
    MegatronSettings.main_grads_dtype: ("精度感知优化器的梯度 dtype。", "主梯度"),
    MegatronSettings.main_params_dtype: ("精度感知优化器的主权重 dtype。", "主参数"),
    MegatronSettings.exp_avg_dtype: ("精度感知优化器的一阶矩 dtype。", "一阶矩"),
    MegatronSettings.exp_avg_sq_dtype: ("精度感知优化器的二阶矩 dtype。", "二阶矩"),
    MegatronSettings.overlap_grad_reduce: ("在反向传播期间归约梯度 bucket；不影响显存。", "重叠梯度归约"),
    MegatronSettings.overlap_param_gather: ("在前向传播期间原地 all-gather 参数。", "重叠参数 all-gather"),
    MegatronSettings.gradient_accumulation_fusion: (
        "在矩阵乘中直接累加权重梯度；autograd 每种形状只得到一个占位梯度。",
        "梯度累积融合",
    ),
    MegatronSettings.transformer_impl: ("层的实现；与 training.implementation 相同。", "Transformer 实现"),
    MegatronSettings.deterministic_mode: (
        "使用确定性 kernel；需要 CUBLAS_WORKSPACE_CONFIG=:4096:8（32 MiB 工作区）。",
        "确定性模式",
    ),
    MegatronSettings.reference_model: (
        "保留一份冻结的模型副本，用于与回答对比（ms-swift 的 DPO，以及 beta 大于 0 的 GRPO）。",
        "冻结的参考模型",
    ),
    MegatronSettings.account_for_embedding_in_pipeline_split: (
        "第一级少放一层，以平衡嵌入层。",
        "切分流水线时计入嵌入",
    ),
    MegatronSettings.account_for_loss_in_pipeline_split: ("最后一级少放一层，以平衡输出头。", "切分流水线时计入损失"),
    MegatronSettings.microbatch_group_size_per_virtual_pipeline_stage: (
        "切换到下一个虚拟级之前，通过当前虚拟级的微批次数。",
        "微批次组",
        "流水线级数",
    ),
    MegatronSettings.cp_comm_type: ("上下文并行的各 rank 如何交换键和值。", "上下文并行通信"),
    MegatronSettings.cross_entropy_loss_fusion: ("把词表并行的损失作为一个 kernel 运行。", "融合交叉熵"),
    MegatronSettings.cross_entropy_fusion_impl: ("融合交叉熵的实现。", "融合交叉熵的实现"),
    MegatronSettings.attention_softmax_in_fp32: ("未融合的注意力以 fp32 计算 softmax。", "fp32 softmax"),
    MegatronSettings.apply_query_key_layer_scaling: ("按层号缩放注意力分数，softmax 用 fp32。", "按层号缩放"),
    MegatronSettings.no_masked_softmax_fusion: ("不融合缩放、掩码与 softmax。", "不用融合 softmax"),
    MegatronSettings.no_bias_gelu_fusion: ("不融合偏置与 GELU。", "不用融合激活函数"),
    MegatronSettings.no_bias_swiglu_fusion: ("不融合偏置与 SwiGLU。", "不用融合 SwiGLU"),
    MegatronSettings.no_rope_fusion: ("不融合旋转位置编码。", "不用融合旋转"),
    MegatronSettings.no_persist_layer_norm: ("不影响显存。", "不用常驻归一化 kernel"),
    MegatronSettings.no_create_attention_mask_in_dataloader: ("注意力自行构造因果掩码。", "数据加载器不建掩码"),
    MegatronSettings.calculate_per_token_loss: ("不影响显存。", "逐 token 损失"),
    MegatronSettings.defer_embedding_wgrad_compute: (
        "输出头的权重梯度在流水线最后一次反向传播之后计算。",
        "推迟的嵌入梯度",
    ),
    MegatronSettings.wgrad_deferral_limit: ("推迟计算嵌入权重梯度的微批次数；0 表示全部。", "推迟上限"),
    MegatronSettings.tp_comm_overlap: ("通过 TransformerEngine 的 user buffer 让张量并行的通信与 GEMM 重叠。",),
    MegatronSettings.overlap_moe_expert_parallel_comm: (
        "同时运行两个微批次的前向与反向传播，使专家并行的通信与计算重叠。",
        "专家并行与通信重叠",
    ),
    MegatronSettings.overlap_p2p_communication_warmup_flush: ("在预热和收尾阶段让级间通信与计算重叠。", "预热阶段重叠"),
    MegatronSettings.overlap_param_gather_with_optimizer_step: ("不影响显存。", "更新时 all-gather"),
    MegatronSettings.distribute_saved_activations: (
        "完全重计算时，把每层保存的输入切分到张量并行的各 rank，重计算前再 all-gather。",
        "切分保存的激活值",
    ),
    MegatronSettings.no_use_layer_wise_param_layout: (
        "Muon 的分布式优化器：按大小把整个参数分配给各 rank，缓冲区不填充。",
        "不用逐层布局",
    ),
    MegatronSettings.fp8_format: ("矩阵乘的 FP8 格式。", "FP8 格式"),
    MegatronSettings.fp8_param_gather: ("参数以 FP8 保存并 all-gather。", "FP8 参数"),
    MegatronSettings.first_last_layers_bf16: ("首尾各层用 bf16 而不用 FP8。", "首尾层用 bf16"),
    MegatronSettings.num_layers_at_start_in_bf16: ("开头有多少层用 bf16。", "用 bf16 的首层数"),
    MegatronSettings.num_layers_at_end_in_bf16: ("末尾有多少层用 bf16。", "用 bf16 的末层数"),
    MegatronSettings.moe_flex_dispatcher_backend: ("flex 分发器的通信后端。", "flex 分发器"),
    MegatronSettings.moe_pad_expert_input_to_capacity: ("把每个专家的输入填充到专家容量。", "填充到容量"),
    MegatronSettings.moe_grouped_gemm: ("用一个 grouped GEMM 在多个流上计算一个 rank 的专家。", "Grouped GEMM"),
    MegatronSettings.moe_permute_fusion: ("用一个融合 kernel 重排 token。", "融合 token 重排"),
    MegatronSettings.moe_router_fusion: ("用一个 kernel 运行路由器。", "融合路由"),
    MegatronSettings.moe_router_load_balancing_type: ("专家负载均衡的方法。", "负载均衡"),
    MegatronSettings.moe_router_pre_softmax: ("路由器先做 softmax，再选 top-k。", "softmax 先于 top-k"),
    MegatronSettings.moe_shared_expert_overlap: ("共享专家的计算与 token 通信重叠。", "共享专家与通信重叠"),
    MegatronSettings.use_fused_weighted_squared_relu: ("把平方 ReLU 与路由器权重融合为一个 kernel。", "融合平方 ReLU"),
    MegatronSettings.use_transformer_engine_op_fuser: (
        "前馈层由 TransformerEngine 可融合的算子组成；保存的张量相同。",
        "TransformerEngine 算子融合",
    ),
    MegatronSettings.fine_grained_activation_offloading: ("把所选模块保存的张量移到主机，直到反向传播。", "激活值卸载"),
    MegatronSettings.offload_modules: (
        "要移到主机的模块：attn_norm、qkv_linear、core_attn、attn_proj、mlp_norm、expert_fc1、moe_act。",
        "卸载的模块",
    ),
    MegatronSettings.min_offloaded_tensor_size: ("移到主机的最小张量，以元素数计。", "最小卸载张量"),
    MegatronSettings.cuda_graph_impl: (
        "CUDA Graph 的实现：Megatron-Core 逐层（local）、TransformerEngine，或整个迭代一个。",
        "CUDA Graph",
    ),
    MegatronSettings.cuda_graph_scope: (
        "捕获为 CUDA Graph 的模块（cuda_graph_modules 的旧名称）。",
        "CUDA Graph 的范围",
    ),
    MegatronSettings.cuda_graph_modules: (
        "捕获为 CUDA Graph 的模块：attn、mlp、moe、moe_router、moe_preprocess、mamba。",
        "CUDA Graph 的模块",
        "整层",
    ),
    MegatronSettings.cuda_graph_warmup_steps: ("捕获 CUDA Graph 之前的步数。", "捕获前的步数"),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = dict.fromkeys(
    MEGATRON,
    (
        EngineSettings.moe_load_imbalance,
        EngineSettings.version,
        Training.offload.optimizer,
        Training.offload.optimizer_fraction,
        Training.activation_checkpointing.method,
        Training.activation_checkpointing.num_layers,
        Training.activation_checkpointing.modules,
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.virtual_pipeline_parallel_size,
        Parallelism.pipeline_layout,
        Parallelism.pipeline_schedule,
        Parallelism.expert_parallel_size,
        Parallelism.expert_tensor_parallel_size,
    ),
)
"""What of the settings that engines have in common each of these takes."""
_PRECISE = Need(MegatronSettings.first_last_layers_bf16, ("true",))
_GRAPHED = Need(MegatronSettings.cuda_graph_impl, (ANY,))
_OFFLOADED = Need(MegatronSettings.fine_grained_activation_offloading, ("true",))
NEEDS: Mapping[str, Need] = {
    MegatronSettings.moe_flex_dispatcher_backend: ROUTED,
    EngineSettings.moe_expert_capacity_factor: ROUTED,
    MegatronSettings.moe_pad_expert_input_to_capacity: ROUTED,
    MegatronSettings.moe_grouped_gemm: ROUTED,
    MegatronSettings.moe_permute_fusion: ROUTED,
    MegatronSettings.moe_router_fusion: ROUTED,
    MegatronSettings.moe_router_load_balancing_type: ROUTED,
    MegatronSettings.moe_router_pre_softmax: ROUTED,
    MegatronSettings.moe_shared_expert_overlap: ROUTED,
    MegatronSettings.overlap_moe_expert_parallel_comm: ROUTED,
    MegatronSettings.account_for_embedding_in_pipeline_split: STAGED,
    MegatronSettings.account_for_loss_in_pipeline_split: STAGED,
    MegatronSettings.microbatch_group_size_per_virtual_pipeline_stage: STAGED,
    MegatronSettings.overlap_p2p_communication_warmup_flush: STAGED,
    MegatronSettings.cp_comm_type: Need(Parallelism.context_parallel_size, (SEVERAL,)),
    MegatronSettings.num_distributed_optimizer_instances: Need(MegatronSettings.distributed_optimizer, ("true",)),
    MegatronSettings.wgrad_deferral_limit: Need(MegatronSettings.defer_embedding_wgrad_compute, ("true",)),
    MegatronSettings.fp8_format: IN_FP8,
    EngineSettings.fp8_recipe: IN_FP8,
    MegatronSettings.fp8_param_gather: IN_FP8,
    MegatronSettings.first_last_layers_bf16: IN_FP8,
    MegatronSettings.num_layers_at_start_in_bf16: _PRECISE,
    MegatronSettings.num_layers_at_end_in_bf16: _PRECISE,
    MegatronSettings.offload_modules: _OFFLOADED,
    MegatronSettings.min_offloaded_tensor_size: _OFFLOADED,
    MegatronSettings.cuda_graph_scope: _GRAPHED,
    MegatronSettings.cuda_graph_modules: _GRAPHED,
    MegatronSettings.cuda_graph_warmup_steps: _GRAPHED,
}
"""The one other setting that each of these waits for."""
REFUSED: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    MEGATRON,
    (
        Training.activation_checkpointing.mode, Training.activation_checkpointing.every,
        Training.activation_checkpointing.early_stop, Training.activation_checkpointing.use_reentrant,
        Training.activation_checkpointing.entry, Training.activation_memory_budget, Training.liger_kernels,
        Training.tiled_mlp, Training.adapter.rank_pattern, Training.adapter.layers_to_transform,
    ),
)  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value."""
