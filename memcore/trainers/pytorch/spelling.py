"""Settings as PyTorch, transformers' Trainer, PEFT and torchtitan spell them.

Sources: torch, distributed/fsdp/_fully_shard, nn/parallel/distributed.py, distributed/run.py, utils/checkpoint.py;
transformers, training_args.py, modeling_utils.py; peft, utils/other.py; torchtitan, torchtitan/config/job_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trainers.pytorch.settings import TorchSettings

_OPTIMIZERS: Mapping[object, str] = {"adamw-8bit": "adamw_bnb_8bit", "adafactor": "adafactor", "sgd": "sgd"}

EVERYWHERE: Mapping[str, object] = {
    EngineSettings.expandable_segments: {
        True: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        False: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False",
    },
    Hardware.num_gpus: "GPUs in the launcher: {}",
    Training.outputs_kept: {False: "del outputs before loss.backward()"},
    Training.zero_grad: {"set-to-none": "optimizer.zero_grad(set_to_none=True)"},
}
"""What every trainer that is built on PyTorch shares."""
_PYTORCH: Mapping[str, object] = {
    Training.activation_memory_budget: "torch._functorch.config.activation_memory_budget = {}",
    **EVERYWHERE,
    EngineSettings.type: {"fsdp": "fully_shard(module) instead of DistributedDataParallel"},
    TorchSettings.reshard_after_forward: {
        True: "fully_shard(..., reshard_after_forward=True)",
        False: "fully_shard(..., reshard_after_forward=False)",
    },
    TorchSettings.root_reshard_after_forward: {True: "fully_shard(model, reshard_after_forward=True)"},
    TorchSettings.cpu_offload: {True: "fully_shard(..., offload_policy=CPUOffloadPolicy())"},
    TorchSettings.gradient_as_bucket_view: {True: "DistributedDataParallel(..., gradient_as_bucket_view=True)"},
    TorchSettings.no_sync: {False: "no model.no_sync() and no set_requires_gradient_sync(False)"},
    Parallelism.tensor_parallel_size: 'init_device_mesh(..., mesh_dim_names=("dp", "tp")) with {} ranks for "tp"',
    Parallelism.data_parallel_shard_size: 'init_device_mesh(..., mesh_dim_names=("replicate", "shard")), shard {}',
    Parallelism.pipeline_parallel_size: "torch.distributed.pipelining with {} stages",
    Training.reduce_dtype: {"bf16": "MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)"},
}
TRAINER: Mapping[str, object] = {
    **_PYTORCH,
    Training.activation_checkpointing.policy: {
        "full": "--gradient_checkpointing true",
        "selective": "checkpoint(..., context_fn=create_selective_checkpoint_contexts)",
    },
    Training.activation_checkpointing.every: "gradient_checkpointing on every layer whose index is a multiple of {}",
    Training.micro_batch_size: "--per_device_train_batch_size {}",
    Training.gradient_accumulation_steps: "--gradient_accumulation_steps {}",
    Training.optimizer.name: {key: f"--optim {value}" for key, value in _OPTIMIZERS.items()},
    Training.optimizer.implementation: {"fused": "--optim adamw_torch_fused"},
    Training.precision: {
        "bf16": 'model.to(torch.bfloat16), no --bf16: torch_dtype="bfloat16"',
        "bf16-mixed": "--bf16 true",
    },
    Training.loss: {
        "fused-linear": "--use_liger_kernel true",
        "cross-entropy": "F.cross_entropy(logits, labels) without logits.float()",
    },
    Training.attention: {
        "sdpa": 'attn_implementation="sdpa"',
        "flash": 'attn_implementation="flash_attention_2"',
    },
    Training.attention_mask: {"none": "pack sequences, pass no attention_mask"},
    Training.use_cache: {False: "model.config.use_cache = False"},
    Training.adapter.type: {"lora": "get_peft_model(model, LoraConfig(...))"},
    Training.quantization: {"nf4": 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")'},
    Training.adapter.rank: "LoraConfig(r={})",
    Training.adapter.target_modules: {"all-linear": 'LoraConfig(target_modules="all-linear")'},
    Training.sequence_length: "--max_length {}",
    Training.kernels: {"fused": "pip install mamba-ssm causal-conv1d flash-linear-attention"},
}
_TORCHTITAN: Mapping[str, object] = {
    **_PYTORCH,
    Training.activation_checkpointing.policy: {
        "full": "--activation_checkpoint.mode full",
        "selective": "--activation_checkpoint.mode selective",
        "none": "--activation_checkpoint.mode none",
    },
    Training.activation_memory_budget: (
        "--activation_checkpoint.mode memory_budget --activation_checkpoint.memory_budget {}"
    ),
    Training.activation_checkpointing.mode: {"op": "--activation_checkpoint.selective_ac_option op"},
    Training.activation_checkpointing.every: "--activation_checkpoint.selective_ac_option {}",
    Training.micro_batch_size: "--training.local_batch_size {}",
    Training.sequence_length: "--training.seq_len {}",
    Training.optimizer.implementation: "--optimizer.implementation {}",
    Training.precision: {
        "bf16": "--training.dtype bfloat16",
        "bf16-mixed": "--training.mixed_precision_param bfloat16",
    },
    Training.reduce_dtype: {"bf16": "--training.mixed_precision_reduce bfloat16"},
    TorchSettings.cpu_offload: {True: "--training.enable_cpu_offload"},
    TorchSettings.reshard_after_forward: {
        True: "--parallelism.fsdp_reshard_after_forward always",
        False: "--parallelism.fsdp_reshard_after_forward never",
    },
    Parallelism.tensor_parallel_size: "--parallelism.tensor_parallel_degree {}",
    Parallelism.context_parallel_size: "--parallelism.context_parallel_degree {}",
    Parallelism.pipeline_parallel_size: "--parallelism.pipeline_parallel_degree {}",
    Parallelism.expert_parallel_size: "--parallelism.expert_parallel_degree {}",
    Parallelism.pipeline_schedule: {
        "1f1b": "--parallelism.pipeline_parallel_schedule 1F1B",
        "gpipe": "--parallelism.pipeline_parallel_schedule GPipe",
        "interleaved-1f1b": "--parallelism.pipeline_parallel_schedule Interleaved1F1B",
        "zb-h1": "--parallelism.pipeline_parallel_schedule InterleavedZeroBubble",
        "zbv": "--parallelism.pipeline_parallel_schedule ZBVZeroBubble",
        "dualpipev": "--parallelism.pipeline_parallel_schedule DualPipeV",
    },
    Parallelism.data_parallel_shard_size: "--parallelism.data_parallel_shard_degree {}",
    Parallelism.loss_parallel: {True: "no --parallelism.disable_loss_parallel"},
}
SIZES: Mapping[str, Mapping[str, str]] = {
    "torchtitan": {
        "step": "--training.global_batch_size {}",
        "replicas": "--parallelism.data_parallel_replicate_degree {}",
        "micro_batch": "--parallelism.pipeline_parallel_microbatch_size {}",
    }
}
"""By dialect: sequences of a step, groups that hold all shards, and sequences of a pipeline's micro-batch."""
SPELLING: Mapping[str, Mapping[str, object]] = {"torchtitan": _TORCHTITAN, "transformers": TRAINER}
"""By dialect and path: a text with the value in it, or a text for each value."""
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
    Training.adapter.rank_pattern: "LoraConfig(rank_pattern=)",
    Training.adapter.layers_to_transform: "LoraConfig(layers_to_transform=)",
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
