"""Settings of Megatron-Core, named as its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Kind, Names, Number
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, ValueT, setting
from memcore.config.training import Training
from memcore.dtypes import FLOATING
from memcore.limits import MICRO_BATCHES

MEGATRON = ("megatron", "megatron-fsdp")
"""Engines that run Megatron-Core."""

_STATE = Choice(("fp32", "bf16", "fp16", "fp8"))


def _flag(label: str, text: str, name: str, default: str = "false", *, shown: bool = False) -> Setting[bool]:
    """A switch of Megatron-Core."""
    return setting(Flag(), label, text, flag=name, engines=MEGATRON, default=default, advanced=not shown)


def _choice(
    label: str, text: str, name: str, kind: Kind[ValueT], default: str, *, shown: bool = False
) -> Setting[ValueT]:
    """A value of Megatron-Core."""
    return setting(kind, label, text, flag=name, engines=MEGATRON, default=default, advanced=not shown)


class MegatronSettings(Section, path="engine"):
    """What Megatron-Core can be told besides the job itself."""

    data_parallel_sharding_strategy = setting(
        Choice(
            ("no_shard", "optim", "optim_grads", "optim_grads_params"),
            {
                "no_shard": "every rank has everything",
                "optim": "ranks share master weights and optimizer states",
                "optim_grads": "and gradients",
                "optim_grads_params": "and parameters, which are gathered layer by layer",
            },
        ),
        "Sharding strategy",
        "What data-parallel ranks share under Megatron-FSDP.",
        flag="sharding-strategy",
        engines=("megatron-fsdp",),
        default="no_shard, as in Megatron-LM",
    )
    outer_dp_sharding_strategy = setting(
        Choice(
            ("no_shard", "optim"),
            {"no_shard": "they are replicas", "optim": "they share master weights and optimizer states too"},
        ),
        "Outer sharding",
        "What the groups of Megatron-FSDP share among them, where there are several optimizer instances (HSDP).",
        flag="outer-sharding-strategy",
        engines=("megatron-fsdp",),
        default="no_shard",
        advanced=True,
    )
    distributed_optimizer = _flag(
        "Distributed optimizer",
        "Data-parallel ranks share master weights and optimizer states (ZeRO-1); each still has all gradients.",
        "distributed-optimizer",
        shown=True,
    )
    num_distributed_optimizer_instances = _choice(
        "Optimizer instances",
        "Copies of the distributed optimizer: each is shared by fewer ranks.",
        "optimizer-instances",
        Integer(),
        "1",
    )
    precision_aware_optimizer = _flag(
        "Precision-aware optimizer",
        "TransformerEngine's optimizer reads gradients in their own dtype and may keep states in fewer bits.",
        "precision-aware-optimizer",
    )
    grad_reduce_in_bf16 = _flag(
        "Gradients in bf16",
        "Gradients are kept and summed over ranks in bf16; the optimizer then makes an fp32 copy of its part.",
        "grad-reduce-bf16",
    )
    main_grads_dtype = _choice(
        "Main gradients",
        "Dtype in which the precision-aware optimizer reads gradients.",
        "main-grads",
        Choice(FLOATING),
        "fp32",
    )
    main_params_dtype = _choice(
        "Main parameters", "Dtype of the precision-aware optimizer's master weights.", "main-params",
        Choice(("fp32", "fp16")), "fp32",
    )  # fmt: skip
    exp_avg_dtype = _choice(
        "First moment", "Its dtype in the precision-aware optimizer.", "exp-avg-dtype", _STATE, "fp32"
    )
    exp_avg_sq_dtype = _choice(
        "Second moment", "Its dtype in the precision-aware optimizer.", "exp-avg-sq-dtype", _STATE, "fp32"
    )
    overlap_grad_reduce = _flag(
        "Overlap gradient reduction",
        "Gradients are summed in buckets while the backward pass runs; the buffers are the same.",
        "overlap-grad-reduce",
    )
    overlap_param_gather = _flag(
        "Overlap parameter gather",
        "Parameters are gathered in place while the forward pass runs.",
        "overlap-param-gather",
    )
    gradient_accumulation_fusion = _flag(
        "Gradient accumulation fusion",
        "Weight gradients are added to the gradient buffer by the matrix product itself; autograd is given a dummy of "
        "each shape.",
        "grad-accum-fusion",
        "true",
    )
    transformer_impl = _choice(
        "Transformer implementation",
        "Whose layers run; the same as training.implementation.",
        "transformer-impl",
        Choice(("transformer_engine", "local")),
        "transformer_engine",
    )
    deterministic_mode = _flag(
        "Deterministic mode",
        "Deterministic kernels; needs CUBLAS_WORKSPACE_CONFIG=:4096:8, workspaces of 32 MiB.",
        "deterministic",
    )
    account_for_embedding_in_pipeline_split = _flag(
        "Embedding counts as a layer", "The first stage has a layer less.", "account-embedding"
    )
    account_for_loss_in_pipeline_split = _flag(
        "Loss counts as a layer", "The last stage has a layer less.", "account-loss"
    )
    microbatch_group_size_per_virtual_pipeline_stage = _choice(
        "Micro-batch group",
        "Micro-batches that pass through a chunk before the next chunk's turn.",
        "microbatch-group",
        Integer(maximum=MICRO_BATCHES),
        "the pipeline's size",
    )
    cp_comm_type = _choice(
        "Context-parallel communication",
        "How ranks exchange keys and values.",
        "cp-comm",
        Choice(("p2p", "a2a", "allgather", "a2a+p2p")),
        "p2p",
    )
    cross_entropy_loss_fusion = _flag(
        "Fused cross-entropy", "The vocabulary-parallel loss runs as one kernel.", "ce-fusion"
    )
    cross_entropy_fusion_impl = _choice(
        "Fused cross-entropy's code", "Whose kernel that is.", "ce-impl", Choice(("native", "te")), "native"
    )
    attention_softmax_in_fp32 = _flag("Softmax in fp32", "Unfused attention takes its softmax in fp32.", "softmax-fp32")
    apply_query_key_layer_scaling = _flag(
        "Scaled by the layer", "Scores are scaled by the layer's number, with a softmax in fp32.", "qk-layer-scaling"
    )
    no_masked_softmax_fusion = _flag(
        "No fused softmax", "Scale, mask and softmax are operations of their own.", "no-softmax-fusion"
    )
    no_bias_gelu_fusion = _flag("No fused activation", "Bias and GELU are operations of their own.", "no-gelu-fusion")
    no_bias_swiglu_fusion = _flag(
        "No fused SwiGLU", "Gate and up projection are activated and multiplied by operations of their own.",
        "no-swiglu-fusion",
    )  # fmt: skip
    no_rope_fusion = _flag("No fused rotation", "Rotary embeddings are operations of their own.", "no-rope-fusion")
    no_persist_layer_norm = _flag("No persistent norm kernel", "Memory is the same.", "no-persist-norm")
    no_create_attention_mask_in_dataloader = _flag(
        "No mask from the data loader", "Attention makes its own causal mask.", "no-mask"
    )
    calculate_per_token_loss = _flag("Loss per token", "Memory is the same.", "per-token-loss")
    defer_embedding_wgrad_compute = _flag(
        "Deferred embedding gradient",
        "The head's weight gradient is computed after the pipeline's last backward pass.",
        "defer-embedding-wgrad",
    )
    wgrad_deferral_limit = _choice(
        "Deferral limit", "Micro-batches for which it is deferred; 0: all.", "wgrad-deferral", Integer(0), "0"
    )
    delay_wgrad_compute = setting(
        Flag(),
        "Delayed weight gradients",
        "Weight gradients are computed after all input gradients; with FSDP, those of routed experts.",
        flag="delay-wgrad",
        engines=("fsdp", *MEGATRON),
        default="false",
        advanced=True,
    )
    tp_comm_overlap = _flag(
        "Overlapped tensor parallelism",
        "TransformerEngine exchanges activations through user buffers while it computes.",
        "tp-comm-overlap",
    )
    overlap_moe_expert_parallel_comm = _flag(
        "Overlapped expert parallelism",
        "Forward and backward passes of two micro-batches run side by side.",
        "overlap-ep",
    )
    overlap_p2p_communication_warmup_flush = _flag(
        "Overlapped warm-up", "Stages exchange activations early in warm-up and flush.", "overlap-warmup"
    )
    overlap_param_gather_with_optimizer_step = _flag(
        "Gather during the step", "Memory is the same.", "overlap-gather-step"
    )
    distribute_saved_activations = _flag(
        "Divided checkpoints",
        "With full recomputation tensor-parallel ranks keep a part of each layer's input, and gather it to run again.",
        "distribute-saved",
    )
    no_use_layer_wise_param_layout = _flag(
        "No layer-wise layout",
        "Of Muon's distributed optimizer: ranks share whole parameters by size, in buffers without padding.",
        "no-layer-wise",
    )
    fp8_format = _choice("FP8 format", "Of matrix products.", "fp8-format", Choice(("e4m3", "hybrid")), "none")
    fp8_recipe = setting(
        Choice(("delayed", "tensorwise", "blockwise", "mxfp8", "rowwise")),
        "FP8 recipe",
        "How FP8 tensors are scaled.",
        flag="fp8-recipe",
        engines=("fsdp", *MEGATRON),
        default="with fp8-mixed: delayed with Megatron, tensorwise with FSDP",
        advanced=True,
    )
    fp8_param_gather = _flag("FP8 parameters", "Parameters are kept and gathered in FP8.", "fp8-param-gather")
    first_last_layers_bf16 = _flag("First and last layers in bf16", "They are left out of FP8.", "first-last-bf16")
    moe_flex_dispatcher_backend = _choice(
        "Flex dispatcher", "What carries the flexible dispatcher.", "moe-flex", Choice(("deepep", "hybridep")), "deepep"
    )
    moe_expert_capacity_factor = setting(
        Number(0, 1000),
        "Capacity factor",
        "The most tokens that an expert takes, over an even share; further ones are dropped.",
        flag="moe-capacity",
        engines=(*MEGATRON, "megatron-deepspeed"),
        default="none: no token is dropped; with Megatron-DeepSpeed 1",
        advanced=True,
    )
    moe_pad_expert_input_to_capacity = _flag(
        "Pad to capacity", "Every expert computes as many tokens as its capacity.", "moe-pad"
    )
    moe_grouped_gemm = _flag(
        "Grouped products", "The experts of a rank are computed together, on several streams.", "moe-grouped"
    )
    moe_permute_fusion = _flag("Fused permutation", "Tokens are permuted by one kernel.", "moe-permute")
    moe_router_fusion = _flag("Fused router", "The router runs as one kernel.", "moe-router-fusion")
    moe_router_load_balancing_type = _choice(
        "Load balancing",
        "What keeps experts evenly loaded.",
        "moe-balancing",
        Choice(("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none", "quantile")),
        "aux_loss",
    )
    moe_router_pre_softmax = _flag("Softmax before the choice", "Of experts.", "moe-pre-softmax")
    moe_shared_expert_overlap = _flag("Overlapped shared expert", "It runs while tokens travel.", "moe-shared-overlap")
    use_fused_weighted_squared_relu = _flag(
        "Fused squared ReLU", "With the router's weights in one kernel.", "fused-relu2"
    )
    use_transformer_engine_op_fuser = _flag(
        "TransformerEngine's fuser",
        "Feed-forward layers are operations that TransformerEngine fuses; they keep the same tensors.",
        "te-op-fuser",
    )
    fine_grained_activation_offloading = _flag(
        "Activation offloading",
        "What some modules keep for the backward pass is on the host until then.",
        "offload-fine",
    )
    offload_modules = setting(
        Names(), "Offloaded modules",
        "Whose: attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act.",
        flag="offload-modules", engines=MEGATRON, default="none", advanced=True,
    )  # fmt: skip
    min_offloaded_tensor_size = _choice(
        "Smallest offloaded tensor", "Elements; smaller ones stay on the GPU.", "offload-least", Integer(0), "1048576"
    )
    cuda_graph_impl = _choice(
        "CUDA graphs", "Whose: Megatron-Core's own of layers, TransformerEngine's, or one of a whole step.",
        "cuda-graph-impl", Choice(("none", "local", "transformer_engine", "full_iteration")), "none",
    )  # fmt: skip
    cuda_graph_scope = setting(
        Names(), "Scope of CUDA graphs", "Their modules, by the name of before.", flag="cuda-graph-scope",
        engines=MEGATRON, default="none", advanced=True,
    )  # fmt: skip
    cuda_graph_modules = setting(
        Names(), "Modules of CUDA graphs", "What they contain: attn, mlp, moe, moe_router, moe_preprocess, mamba.",
        flag="cuda-graph-modules", engines=MEGATRON, default="whole layers", advanced=True,
    )  # fmt: skip
    cuda_graph_warmup_steps = _choice(
        "Steps before graphs", "Steps that run without graphs before they are captured.", "cuda-graph-warmup",
        Integer(0), "3",
    )  # fmt: skip


SECTIONS = (MegatronSettings,)
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "megatron": (
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
    "megatron-fsdp": (
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
}
"""What of the settings that engines have in common each of these takes."""
