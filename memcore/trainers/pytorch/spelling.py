"""Settings as PyTorch, transformers' Trainer and torchtitan spell them.

Sources: torchtitan, torchtitan/config/job_config.py; transformers, training_args.py; torch, distributed/fsdp and
nn/parallel/distributed.py.
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
SPELLING: Mapping[str, Mapping[str, object]] = {"torchtitan": _TORCHTITAN, "transformers": TRAINER}
"""By dialect and path: a text with the value in it, or a text for each value."""
