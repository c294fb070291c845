"""The arguments and calls of PyTorch, transformers and PEFT.

Sources: torch, distributed/fsdp/_fully_shard, nn/parallel/distributed.py, distributed/run.py, utils/checkpoint.py;
transformers, training_args.py, modeling_utils.py; peft, utils/other.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trainers.pytorch.settings import TorchSettings

ALLOCATOR: Mapping[str, str] = dict.fromkeys(
    (
        EngineSettings.expandable_segments,
        EngineSettings.max_split_size_mb,
        EngineSettings.roundup_power2_divisions,
        EngineSettings.garbage_collection_threshold,
    ),
    "PYTORCH_CUDA_ALLOC_CONF",
)
TORCHRUN: Mapping[str, str] = {
    Hardware.num_gpus: "torchrun --nnodes",
    Hardware.gpus_per_node: "torchrun --nproc-per-node",
}
TORCH: Mapping[str, str] = {
    **ALLOCATOR,
    **TORCHRUN,
    "model": "model_name_or_path",
    Training.parameter_dtype: "from_pretrained(dtype=)",
    Training.precision: "bf16, fp16",
    Training.compute_dtype: "torch.autocast(dtype=)",
    Training.trainable: "requires_grad_()",
    Training.gradient_clipping: "max_grad_norm",
    EngineSettings.torch_empty_cache_steps: "torch_empty_cache_steps",
    Training.zero_grad: "zero_grad(set_to_none=)",
    Training.attention_mask: "attention_mask",
    Training.loss: "F.cross_entropy",
    Training.loss_shift: "labels",
    Training.outputs_kept: "del outputs",
    Training.compile_loss: "torch.compile(loss)",
    Training.use_cache: "config.use_cache",
    Training.dropout.hidden: "config.hidden_dropout",
    Training.dropout.attention: "config.attention_dropout",
    Training.activation_memory_budget: "torch._functorch.config.activation_memory_budget",
    Training.activation_checkpointing.mode: "create_selective_checkpoint_contexts",
    Training.activation_checkpointing.every: "checkpoint()",
    Training.activation_checkpointing.early_stop: "checkpoint(early_stop=)",
    Training.activation_checkpointing.use_reentrant: "checkpoint(use_reentrant=)",
    Training.activation_checkpointing.entry: "checkpoint_wrapper, gradient_checkpointing_enable",
    Training.images_per_sequence: "pixel_values",
    Training.image_size: "pixel_values",
    Training.liger_kernels: "apply_liger_kernel_to_llama(rope=, rms_norm=, swiglu=)",
    Training.tiled_mlp: "TiledMLP.apply(shards=)",
    Training.kernels: "pip install mamba-ssm causal-conv1d",
    Training.optimizer.rank: "optim_args: rank=",
    Training.optimizer.momentum: "optim_args: momentum=",
    Training.adapter.modules_to_save: "LoraConfig(modules_to_save=)",
    Training.adapter.use_rslora: "LoraConfig(use_rslora=)",
    Training.adapter.decompose_factor: "LoKrConfig(decompose_factor=)",
    Training.adapter.block_size: "OFTConfig(oft_block_size=)",
    Training.adapter.num_trainable_tokens: "TrainableTokensConfig(token_indices=)",
    Training.adapter.init_r: "AdaLoraConfig(init_r=)",
    Training.adapter.num_virtual_tokens: "num_virtual_tokens",
    Training.adapter.target_parameters: "LoraConfig(target_parameters=)",
    Training.adapter.dtype: "autocast_adapter_dtype",
    TorchSettings.prepare_model_for_kbit_training: "prepare_model_for_kbit_training",
    TorchSettings.quantize_moe_experts: "quantize_moe_experts",
    TorchSettings.optimizer_in_bwd: "register_post_accumulate_grad_hook",
    TorchSettings.autocast: "torch.autocast",
    Parallelism.tensor_parallel_size: "parallelize_module",
    Parallelism.sequence_parallel: "SequenceParallel",
    Parallelism.loss_parallel: "loss_parallel",
    Parallelism.pipeline_parallel_size: "torch.distributed.pipelining",
    Parallelism.pipeline_schedule: "Schedule1F1B, ScheduleGPipe",
    Parallelism.context_parallel_size: "context_parallel",
    Parallelism.data_parallel_size: "init_device_mesh",
}
_DDP_NAMES: Mapping[str, str] = {
    **TORCH,
    EngineSettings.type: "DistributedDataParallel",
    TorchSettings.no_sync: "no_sync()",
    TorchSettings.gradient_as_bucket_view: "DistributedDataParallel(gradient_as_bucket_view=)",
    TorchSettings.bucket_cap_mb: "DistributedDataParallel(bucket_cap_mb=)",
    TorchSettings.static_graph: "DistributedDataParallel(static_graph=)",
}
_FSDP_NAMES: Mapping[str, str] = {
    **TORCH,
    EngineSettings.type: "fully_shard",
    EngineSettings.version: "fsdp_config.version",
    Training.compute_dtype: "MixedPrecisionPolicy(param_dtype=)",
    Training.reduce_dtype: "MixedPrecisionPolicy(reduce_dtype=)",
    Training.offload.parameters: "CPUOffloadPolicy",
    TorchSettings.cpu_offload: "CPUOffloadPolicy",
    TorchSettings.reshard_after_forward: "fully_shard(reshard_after_forward=)",
    TorchSettings.root_reshard_after_forward: "fully_shard(model, reshard_after_forward=)",
    TorchSettings.wrap: "fsdp_transformer_layer_cls_to_wrap",
    TorchSettings.no_sync: "set_requires_gradient_sync",
    Parallelism.data_parallel_shard_size: "init_device_mesh",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"none": TORCH, "ddp": _DDP_NAMES, "fsdp": _FSDP_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
