"""What people who run an engine write to set a setting: a key of its tool's, else the argument or call of its API.

Sources: torch, distributed/fsdp/_fully_shard, nn/parallel/distributed.py, distributed/run.py, utils/checkpoint.py;
transformers, modeling_utils.py, training_args.py, generation/configuration_utils.py; peft, utils/other.py; deepspeed,
launcher/runner.py; Megatron-LM, megatron/training/arguments.py; nanotron, config/config.py; vllm, engine/arg_utils.py;
sglang, srt/server_args.py; tensorrt_llm, commands/serve.py; llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memcore.config.settings import SETTINGS, Config
from memcore.formats.tool import Tool
from memcore.formats.tools import TOOLS, tool_of
from memcore.formats.trainers import TRAINER

_AC, _LORA = "training.activation_checkpointing", "training.adapter"
_ALLOCATOR = {"engine.expandable_segments": "PYTORCH_CUDA_ALLOC_CONF"}
_TORCHRUN = {"hardware.num_gpus": "torchrun --nnodes", "hardware.gpus_per_node": "torchrun --nproc-per-node"}
_TORCH: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "model_name_or_path",
    "training.parameter_dtype": "from_pretrained(dtype=)",
    "training.precision": "bf16, fp16",
    "training.compute_dtype": "torch.autocast(dtype=)",
    "training.trainable": "requires_grad_()",
    "training.gradient_clipping": "max_grad_norm",
    "training.zero_grad": "zero_grad(set_to_none=)",
    "training.attention_mask": "attention_mask",
    "training.loss": "F.cross_entropy",
    "training.loss_shift": "labels",
    "training.outputs_kept": "del outputs",
    "training.compile_loss": "torch.compile(loss)",
    "training.use_cache": "config.use_cache",
    "training.dropout.hidden": "config.hidden_dropout",
    "training.dropout.attention": "config.attention_dropout",
    "training.activation_memory_budget": "torch._functorch.config.activation_memory_budget",
    f"{_AC}.mode": "create_selective_checkpoint_contexts",
    f"{_AC}.every": "checkpoint()",
    f"{_AC}.early_stop": "checkpoint(early_stop=)",
    f"{_AC}.use_reentrant": "checkpoint(use_reentrant=)",
    f"{_AC}.entry": "checkpoint_wrapper, gradient_checkpointing_enable",
    "training.images_per_sequence": "pixel_values",
    "training.image_size": "pixel_values",
    "training.kernels": "pip install mamba-ssm causal-conv1d",
    "training.optimizer.rank": "optim_args: rank=",
    "training.optimizer.momentum": "optim_args: momentum=",
    f"{_LORA}.modules_to_save": "LoraConfig(modules_to_save=)",
    f"{_LORA}.use_rslora": "LoraConfig(use_rslora=)",
    f"{_LORA}.decompose_factor": "LoKrConfig(decompose_factor=)",
    f"{_LORA}.block_size": "OFTConfig(oft_block_size=)",
    f"{_LORA}.num_trainable_tokens": "TrainableTokensConfig(token_indices=)",
    f"{_LORA}.init_r": "AdaLoraConfig(init_r=)",
    f"{_LORA}.num_virtual_tokens": "num_virtual_tokens",
    f"{_LORA}.target_parameters": "LoraConfig(target_parameters=)",
    f"{_LORA}.dtype": "autocast_adapter_dtype",
    "engine.prepare_model_for_kbit_training": "prepare_model_for_kbit_training",
    "engine.optimizer_in_bwd": "register_post_accumulate_grad_hook",
    "engine.autocast": "torch.autocast",
    "parallelism.tensor_parallel_size": "parallelize_module",
    "parallelism.sequence_parallel": "SequenceParallel",
    "parallelism.loss_parallel": "loss_parallel",
    "parallelism.pipeline_parallel_size": "torch.distributed.pipelining",
    "parallelism.pipeline_schedule": "Schedule1F1B, ScheduleGPipe",
    "parallelism.context_parallel_size": "context_parallel",
    "parallelism.data_parallel_size": "init_device_mesh",
}
_DDP: Mapping[str, str] = {
    **_TORCH,
    "engine.type": "DistributedDataParallel",
    "engine.no_sync": "no_sync()",
    "engine.gradient_as_bucket_view": "DistributedDataParallel(gradient_as_bucket_view=)",
    "engine.bucket_cap_mb": "DistributedDataParallel(bucket_cap_mb=)",
    "engine.static_graph": "DistributedDataParallel(static_graph=)",
}
_FSDP: Mapping[str, str] = {
    **_TORCH,
    "engine.type": "fully_shard",
    "engine.version": "fsdp_config.version",
    "training.compute_dtype": "MixedPrecisionPolicy(param_dtype=)",
    "training.reduce_dtype": "MixedPrecisionPolicy(reduce_dtype=)",
    "training.offload.parameters": "CPUOffloadPolicy",
    "engine.cpu_offload": "CPUOffloadPolicy",
    "engine.reshard_after_forward": "fully_shard(reshard_after_forward=)",
    "engine.root_reshard_after_forward": "fully_shard(model, reshard_after_forward=)",
    "engine.wrap": "fsdp_transformer_layer_cls_to_wrap",
    "engine.no_sync": "set_requires_gradient_sync",
    "parallelism.data_parallel_shard_size": "init_device_mesh",
}
_DEEPSPEED: Mapping[str, str] = {
    **_TORCH,
    "hardware.num_gpus": "deepspeed --num_nodes",
    "hardware.gpus_per_node": "deepspeed --num_gpus",
    "engine.type": "deepspeed.initialize",
    "engine.zero_init": "deepspeed.zero.Init",
    "training.gradient_clipping": "gradient_clipping",
}
_MEGATRON: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "--num-layers, --hidden-size",
    "engine.type": "pretrain_gpt.py",
    "engine.transformer_impl": "--transformer-impl",
    "training.gradient_accumulation_steps": "--global-batch-size",
    "training.precision": "--bf16, --fp16",
    "training.gradient_dtype": "--accumulate-allreduce-grads-in-fp32",
    "training.implementation": "--transformer-impl",
    "training.loss": "--cross-entropy-loss-fusion",
}
_MEGATRON_DEEPSPEED: Mapping[str, str] = {
    **_MEGATRON,
    "engine.zero_init": "deepspeed.zero.Init",
    "training.sequence_length": "--seq-length",
    "training.gradient_clipping": "gradient_clipping",
    "training.dropout.hidden": "--hidden-dropout",
    "training.dropout.attention": "--attention-dropout",
    "parallelism.tensor_parallel_size": "--tensor-model-parallel-size",
    "parallelism.pipeline_parallel_size": "--pipeline-model-parallel-size",
    f"{_AC}.policy": "--recompute-granularity",
}
_NANOTRON: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "model.model_config",
    "engine.type": "run_train.py",
    "training.precision": "model.dtype",
    "training.gradient_clipping": "optimizer.clip_grad",
}
_GENERATE: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "from_pretrained()",
    "engine.type": "generate()",
    "engine.version": "pip install transformers==",
    "inference.batch_size": "input_ids.shape[0]",
    "inference.prompt_length": "input_ids.shape[1]",
    "inference.output_length": "max_new_tokens",
    "inference.max_model_len": "max_length",
    "inference.weight_dtype": "from_pretrained(dtype=)",
    "inference.quantization": "quantization_config",
    "inference.kv_cache_dtype": "cache_config",
    "inference.use_cache": "use_cache",
    "inference.images_per_sequence": "pixel_values",
}
_VLLM: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "--model",
    "engine.type": "vllm serve",
    "engine.version": "pip install vllm==",
    "inference.draft_model": "--speculative-config",
    "inference.num_speculative_tokens": "--speculative-config",
    "inference.images_per_sequence": "--limit-mm-per-prompt",
    "inference.sleep_level": "sleep(level=)",
}
_SGLANG: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "--model-path",
    "engine.type": "sglang.launch_server",
    "engine.version": "pip install sglang==",
    "engine.enable_expert_parallel": "--ep-size",
    "inference.draft_model": "--speculative-draft-model-path",
    "inference.num_speculative_tokens": "--speculative-num-draft-tokens",
    "hardware.num_gpus": "--tp-size",
}
_TENSORRT: Mapping[str, str] = {
    "model": "trtllm-serve",
    "engine.type": "trtllm-serve",
    "engine.version": "pip install tensorrt-llm==",
    "inference.kv_cache_dtype": "kv_cache_config.dtype",
    "inference.block_size": "kv_cache_config.tokens_per_block",
    "hardware.gpus_per_node": "--gpus_per_node",
}
_LLAMA_CPP: Mapping[str, str] = {
    "model": "--model",
    "engine.type": "llama-server",
    "inference.quantization": "llama-quantize",
    "inference.kv_cache_dtype": "--cache-type-k, --cache-type-v",
    "hardware.num_gpus": "CUDA_VISIBLE_DEVICES",
    "engine.mla": "-mla",
}
CALLED: Mapping[str, Mapping[str, str]] = {
    "none": _TORCH,
    "ddp": _DDP,
    "fsdp": _FSDP,
    "deepspeed": _DEEPSPEED,
    "megatron": _MEGATRON,
    "megatron-fsdp": _MEGATRON,
    "megatron-deepspeed": _MEGATRON_DEEPSPEED,
    "nanotron": _NANOTRON,
    "transformers": _GENERATE,
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "tensorrt-llm": _TENSORRT,
    "llama.cpp": _LLAMA_CPP,
}
"""By engine and path, for settings that its tool has no key of its own for."""


def shown_names(config: Config, engine: str) -> Mapping[str, str]:
    """The same of every setting for a form: where the engine has no word for it, what memcore calls it."""
    return _shown(tool_of(config).name, engine)


@lru_cache(maxsize=64)
def _shown(tool: str, engine: str) -> Mapping[str, str]:
    return {path: _called(TOOLS[tool], engine, path) or f"memcore --{each.flag}" for path, each in SETTINGS.items()}


def name_of(config: Config, engine: str, path: str) -> str:
    """What a setting is called where a job runs; empty for what only a plan knows, such as the size of the GPU.

    >>> name_of(Config.from_dict({"model": "gpt2"}), "fsdp", "training.reduce_dtype")
    'MixedPrecisionPolicy(reduce_dtype=)'
    """
    return _called(tool_of(config), engine, path)


def _called(tool: Tool, engine: str, path: str) -> str:
    trained = TRAINER.named if engine == "deepspeed" else {}
    for names in (tool.named, CALLED.get(engine, {}), trained):
        found = names.get(path, "")
        if found and not found.startswith("*"):
            return found
    return ""
