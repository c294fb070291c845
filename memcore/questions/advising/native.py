"""Settings as the tools behind a config spell them: flags of torchtitan, arguments of transformers' Trainer, PyTorch.

Sources: torchtitan, torchtitan/config/job_config.py; transformers, training_args.py; torch/distributed/fsdp and
torch/nn/parallel/distributed.py; Megatron-LM, megatron/training/arguments.py; DeepSpeed's config JSON;
vllm, engine/arg_utils.py; sglang, srt/server_args.py; tensorrt_llm, commands/serve.py; llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_AC = "training.activation_checkpointing"
_OPTIMIZERS: Mapping[object, str] = {"adamw-8bit": "adamw_bnb_8bit", "adafactor": "adafactor", "sgd": "sgd"}

_EVERYWHERE: Mapping[str, object] = {
    "engine.expandable_segments": {
        True: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        False: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False",
    },
    "hardware.num_gpus": "{} GPUs in the launcher",
    "training.outputs_kept": {False: "del outputs before loss.backward()"},
    "training.zero_grad": {"set-to-none": "optimizer.zero_grad(set_to_none=True)"},
}
_PYTORCH: Mapping[str, object] = {
    "training.activation_memory_budget": "torch._functorch.config.activation_memory_budget = {}",
    **_EVERYWHERE,
    "engine.type": {"fsdp": "fully_shard(module) instead of DistributedDataParallel"},
    "engine.reshard_after_forward": {
        True: "fully_shard(..., reshard_after_forward=True)",
        False: "fully_shard(..., reshard_after_forward=False)",
    },
    "engine.root_reshard_after_forward": {True: "fully_shard(model, reshard_after_forward=True)"},
    "engine.cpu_offload": {True: "fully_shard(..., offload_policy=CPUOffloadPolicy())"},
    "engine.gradient_as_bucket_view": {True: "DistributedDataParallel(..., gradient_as_bucket_view=True)"},
    "engine.no_sync": {False: "no model.no_sync() and no set_requires_gradient_sync(False)"},
    "parallelism.tensor_parallel_size": 'init_device_mesh(..., mesh_dim_names=("dp", "tp")) with {} ranks for "tp"',
    "parallelism.data_parallel_shard_size": 'init_device_mesh(..., mesh_dim_names=("replicate", "shard")), shard {}',
    "parallelism.pipeline_parallel_size": "torch.distributed.pipelining with {} stages",
    "training.reduce_dtype": {"bf16": "MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)"},
}
_TRAINER: Mapping[str, object] = {
    **_PYTORCH,
    f"{_AC}.policy": {
        "full": "--gradient_checkpointing true",
        "selective": "checkpoint(..., context_fn=create_selective_checkpoint_contexts)",
    },
    f"{_AC}.every": "gradient_checkpointing on every layer whose number {} divides",
    "training.micro_batch_size": "--per_device_train_batch_size {}",
    "training.gradient_accumulation_steps": "--gradient_accumulation_steps {}",
    "training.optimizer.name": {key: f"--optim {value}" for key, value in _OPTIMIZERS.items()},
    "training.optimizer.implementation": {"fused": "--optim adamw_torch_fused"},
    "training.precision": {
        "bf16": 'model.to(torch.bfloat16), no --bf16: torch_dtype="bfloat16"',
        "bf16-mixed": "--bf16 true",
    },
    "training.loss": {
        "fused-linear": "--use_liger_kernel true",
        "cross-entropy": "F.cross_entropy(logits, labels) without logits.float()",
    },
    "training.attention": {
        "sdpa": 'attn_implementation="sdpa"',
        "flash": 'attn_implementation="flash_attention_2"',
    },
    "training.attention_mask": {"none": "pack sequences, pass no attention_mask"},
    "training.use_cache": {False: "model.config.use_cache = False"},
    "training.adapter.type": {"lora": "get_peft_model(model, LoraConfig(...))"},
    "training.adapter.rank": "LoraConfig(r={})",
    "training.adapter.target_modules": {"all-linear": 'LoraConfig(target_modules="all-linear")'},
    "training.sequence_length": "--max_length {}",
    "training.kernels": {"fused": "pip install mamba-ssm causal-conv1d flash-linear-attention"},
}
_TORCHTITAN: Mapping[str, object] = {
    **_PYTORCH,
    f"{_AC}.policy": {
        "full": "--activation_checkpoint.mode full",
        "selective": "--activation_checkpoint.mode selective",
        "none": "--activation_checkpoint.mode none",
    },
    "training.activation_memory_budget": (
        "--activation_checkpoint.mode memory_budget --activation_checkpoint.memory_budget {}"
    ),
    f"{_AC}.mode": {"op": "--activation_checkpoint.selective_ac_option op"},
    f"{_AC}.every": "--activation_checkpoint.selective_ac_option {}",
    "training.micro_batch_size": "--training.local_batch_size {}",
    "training.sequence_length": "--training.seq_len {}",
    "training.optimizer.implementation": "--optimizer.implementation {}",
    "training.precision": {
        "bf16": "--training.dtype bfloat16",
        "bf16-mixed": "--training.mixed_precision_param bfloat16",
    },
    "training.reduce_dtype": {"bf16": "--training.mixed_precision_reduce bfloat16"},
    "engine.cpu_offload": {True: "--training.enable_cpu_offload"},
    "engine.reshard_after_forward": {
        True: "--parallelism.fsdp_reshard_after_forward always",
        False: "--parallelism.fsdp_reshard_after_forward never",
    },
    "parallelism.tensor_parallel_size": "--parallelism.tensor_parallel_degree {}",
    "parallelism.context_parallel_size": "--parallelism.context_parallel_degree {}",
    "parallelism.pipeline_parallel_size": "--parallelism.pipeline_parallel_degree {}",
    "parallelism.expert_parallel_size": "--parallelism.expert_parallel_degree {}",
    "parallelism.pipeline_schedule": {
        "1f1b": "--parallelism.pipeline_parallel_schedule 1F1B",
        "gpipe": "--parallelism.pipeline_parallel_schedule GPipe",
        "interleaved-1f1b": "--parallelism.pipeline_parallel_schedule Interleaved1F1B",
        "zb-h1": "--parallelism.pipeline_parallel_schedule InterleavedZeroBubble",
        "zbv": "--parallelism.pipeline_parallel_schedule ZBVZeroBubble",
        "dualpipev": "--parallelism.pipeline_parallel_schedule DualPipeV",
    },
    "parallelism.data_parallel_shard_size": "--parallelism.data_parallel_shard_degree {}",
    "parallelism.loss_parallel": {True: "no --parallelism.disable_loss_parallel"},
}
_MEGATRON: Mapping[str, object] = {
    **_EVERYWHERE,
    f"{_AC}.policy": {
        "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "selective": "--recompute-granularity selective",
    },
    f"{_AC}.modules": "--recompute-modules {}",
    "training.micro_batch_size": "--micro-batch-size {}",
    "training.sequence_length": "--seq-length {}",
    "training.loss": {"vocab-parallel": "--cross-entropy-loss-fusion"},
    "engine.distributed_optimizer": {True: "--use-distributed-optimizer"},
    "engine.precision_aware_optimizer": {True: "--use-precision-aware-optimizer"},
    "engine.grad_reduce_in_bf16": {True: "--grad-reduce-in-bf16"},
    "parallelism.tensor_parallel_size": "--tensor-model-parallel-size {}",
    "parallelism.sequence_parallel": {True: "--sequence-parallel"},
    "parallelism.context_parallel_size": "--context-parallel-size {}",
    "parallelism.pipeline_parallel_size": "--pipeline-model-parallel-size {}",
    "parallelism.virtual_pipeline_parallel_size": "--num-virtual-stages-per-pipeline-rank {}",
    "parallelism.expert_parallel_size": "--expert-model-parallel-size {}",
    "parallelism.expert_tensor_parallel_size": "--expert-tensor-parallel-size {}",
}
_DEEPSPEED: Mapping[str, object] = {
    **_TRAINER,
    "engine.zero_stage": '"zero_optimization": {{"stage": {}}}',
    "engine.offload_optimizer": {"cpu": '"zero_optimization": {"offload_optimizer": {"device": "cpu"}}'},
    "engine.offload_param": {"cpu": '"zero_optimization": {"offload_param": {"device": "cpu"}}'},
    "training.micro_batch_size": '"train_micro_batch_size_per_gpu": {}',
    "training.gradient_accumulation_steps": '"gradient_accumulation_steps": {}',
}
_NANOTRON: Mapping[str, object] = {
    **_EVERYWHERE,
    f"{_AC}.policy": {"full": "parallelism.recompute_layer: true", "none": "parallelism.recompute_layer: false"},
    "training.micro_batch_size": "tokens.micro_batch_size: {}",
    "training.gradient_accumulation_steps": "tokens.batch_accumulation_per_replica: {}",
    "training.sequence_length": "tokens.sequence_length: {}",
    "hardware.num_gpus": "parallelism.dp for {} GPUs",
    "engine.zero_stage": "optimizer.zero_stage: {}",
    "engine.tp_mode": "parallelism.tp_mode: {}",
    "parallelism.tensor_parallel_size": "parallelism.tp: {}",
    "parallelism.pipeline_parallel_size": "parallelism.pp: {}",
}
_VLLM: Mapping[str, object] = {
    "inference.max_model_len": "--max-model-len {}",
    "inference.max_num_seqs": "--max-num-seqs {}",
    "inference.kv_cache_dtype": "--kv-cache-dtype {}",
    "inference.quantization": {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    "inference.draft_model": {None: "no --speculative-config"},
    "parallelism.tensor_parallel_size": "--tensor-parallel-size {}",
    "engine.enforce_eager": {True: "--enforce-eager"},
    "engine.gpu_memory_utilization": "--gpu-memory-utilization {}",
    "engine.max_num_batched_tokens": "--max-num-batched-tokens {}",
}
_SGLANG: Mapping[str, object] = {
    "inference.max_model_len": "--context-length {}",
    "inference.max_num_seqs": "--max-running-requests {}",
    "inference.kv_cache_dtype": {"fp8": "--kv-cache-dtype fp8_e5m2"},
    "inference.quantization": {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    "inference.draft_model": {None: "no --speculative-algorithm"},
    "parallelism.tensor_parallel_size": "--tp-size {}",
    "engine.mem_fraction_static": "--mem-fraction-static {}",
    "engine.chunked_prefill_size": "--chunked-prefill-size {}",
}
_TENSORRT: Mapping[str, object] = {
    "inference.max_model_len": "--max_seq_len {}",
    "inference.max_num_seqs": "--max_batch_size {}",
    "inference.kv_cache_dtype": {"fp8": "kv_cache_config: dtype: fp8"},
    "inference.quantization": {"fp8": "an FP8 checkpoint of the model", "awq": "an AWQ checkpoint of the model"},
    "inference.draft_model": {None: "no speculative_config"},
    "parallelism.tensor_parallel_size": "--tp_size {}",
    "engine.free_gpu_memory_fraction": "--kv_cache_free_gpu_memory_fraction {}",
    "engine.max_num_tokens": "--max_num_tokens {}",
}
_LLAMA_CPP: Mapping[str, object] = {
    "inference.max_model_len": "-c {} for each of the sequences (-np)",
    "inference.quantization": {"q8_0": "a GGUF file in Q8_0", "q4_k_m": "a GGUF file in Q4_K_M"},
    "inference.draft_model": {None: "no -md"},
    "engine.flash_attn": {True: "-fa on"},
    "engine.cache_type_k": "-ctk {}",
    "engine.cache_type_v": "-ctv {}",
    "engine.n_ubatch": "-ub {}",
}
_GENERATE: Mapping[str, object] = {
    "inference.quantization": {
        "nf4": 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
        "int8": "BitsAndBytesConfig(load_in_8bit=True)",
    },
}

DIALECTS: Mapping[str, Mapping[str, object]] = {
    "torchtitan": _TORCHTITAN,
    "transformers": {**_TRAINER, **_GENERATE},
    "megatron": _MEGATRON,
    "deepspeed": _DEEPSPEED,
    "nanotron": _NANOTRON,
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "tensorrt-llm": _TENSORRT,
    "llama.cpp": _LLAMA_CPP,
}
"""By tool and path: a text with the value in it, or a text for each value."""


def dialect_of(engine: str, implementation: str | None) -> str:
    """The tool whose words a config's settings have."""
    if engine in DIALECTS and engine != "transformers":
        return engine
    return "torchtitan" if implementation == "torchtitan" else "transformers"


def native(dialect: str, changes: Mapping[str, object]) -> Iterator[str]:
    """Changed settings in a tool's own words; those without a word of their own are part of another's."""
    words = DIALECTS[dialect]
    for path, value in changes.items():
        found = words.get(path)
        if isinstance(found, str) and value is not None:
            yield found.format(value)
        elif isinstance(found, Mapping) and value in found:
            yield found[value]
