"""What people who run an engine write to set a setting: a key of its tool's, else the argument or call of its API.

Sources: torch, distributed/fsdp/_fully_shard, nn/parallel/distributed.py, distributed/run.py, utils/checkpoint.py;
transformers, modeling_utils.py, training_args.py, generation/configuration_utils.py; peft, utils/other.py; deepspeed,
launcher/runner.py; Megatron-LM, megatron/training/arguments.py; nanotron, config/config.py; vllm, engine/arg_utils.py;
sglang, srt/server_args.py; tensorrt_llm, commands/serve.py; llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.formats.tool import Tool
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.inference import Inference
from memcore.serving.settings import ServerSettings
from memcore.tools.fine_tuning import TRAINER
from memcore.tools.table import TOOLS, tool_of
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.settings import TorchSettings

_AC, _LORA = "training.activation_checkpointing", "training.adapter"
_ALLOCATOR: Mapping[str, str] = {EngineSettings.expandable_segments: "PYTORCH_CUDA_ALLOC_CONF"}
_TORCHRUN: Mapping[str, str] = {
    Hardware.num_gpus: "torchrun --nnodes",
    Hardware.gpus_per_node: "torchrun --nproc-per-node",
}
_TORCH: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "model_name_or_path",
    Training.parameter_dtype: "from_pretrained(dtype=)",
    Training.precision: "bf16, fp16",
    Training.compute_dtype: "torch.autocast(dtype=)",
    Training.trainable: "requires_grad_()",
    Training.gradient_clipping: "max_grad_norm",
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
_DDP: Mapping[str, str] = {
    **_TORCH,
    EngineSettings.type: "DistributedDataParallel",
    TorchSettings.no_sync: "no_sync()",
    TorchSettings.gradient_as_bucket_view: "DistributedDataParallel(gradient_as_bucket_view=)",
    TorchSettings.bucket_cap_mb: "DistributedDataParallel(bucket_cap_mb=)",
    TorchSettings.static_graph: "DistributedDataParallel(static_graph=)",
}
_FSDP: Mapping[str, str] = {
    **_TORCH,
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
_DEEPSPEED: Mapping[str, str] = {
    **_TORCH,
    Hardware.num_gpus: "deepspeed --num_nodes",
    Hardware.gpus_per_node: "deepspeed --num_gpus",
    EngineSettings.type: "deepspeed.initialize",
    DeepSpeedSettings.zero_init: "deepspeed.zero.Init",
    Training.gradient_clipping: "gradient_clipping",
}
_MEGATRON: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "--num-layers, --hidden-size",
    EngineSettings.type: "pretrain_gpt.py",
    MegatronSettings.transformer_impl: "--transformer-impl",
    Training.gradient_accumulation_steps: "--global-batch-size",
    Training.precision: "--bf16, --fp16",
    Training.gradient_dtype: "--accumulate-allreduce-grads-in-fp32",
    Training.implementation: "--transformer-impl",
    Training.loss: "--cross-entropy-loss-fusion",
}
_MEGATRON_DEEPSPEED: Mapping[str, str] = {
    **_MEGATRON,
    DeepSpeedSettings.zero_init: "deepspeed.zero.Init",
    Training.sequence_length: "--seq-length",
    Training.gradient_clipping: "gradient_clipping",
    Training.dropout.hidden: "--hidden-dropout",
    Training.dropout.attention: "--attention-dropout",
    Parallelism.tensor_parallel_size: "--tensor-model-parallel-size",
    Parallelism.pipeline_parallel_size: "--pipeline-model-parallel-size",
    Training.activation_checkpointing.policy: "--recompute-granularity",
}
_NANOTRON: Mapping[str, str] = {
    **_ALLOCATOR,
    **_TORCHRUN,
    "model": "model.model_config",
    EngineSettings.type: "run_train.py",
    Training.precision: "model.dtype",
    Training.gradient_clipping: "optimizer.clip_grad",
}
_GENERATE: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "from_pretrained()",
    EngineSettings.type: "generate()",
    EngineSettings.version: "pip install transformers==",
    Inference.batch_size: "input_ids.shape[0]",
    Inference.prompt_length: "input_ids.shape[1]",
    Inference.output_length: "max_new_tokens",
    Inference.max_model_len: "max_length",
    Inference.weight_dtype: "from_pretrained(dtype=)",
    Inference.quantization: "quantization_config",
    Inference.kv_cache_dtype: "cache_config",
    Inference.use_cache: "use_cache",
    Inference.images_per_sequence: "pixel_values",
}
_VLLM: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "--model",
    EngineSettings.type: "vllm serve",
    EngineSettings.version: "pip install vllm==",
    Inference.draft_model: "--speculative-config",
    Inference.speculative_method: "--speculative-config",
    Inference.num_speculative_tokens: "--speculative-config",
    Inference.images_per_sequence: "--limit-mm-per-prompt",
    Inference.sleep_level: "sleep(level=)",
}
_SGLANG: Mapping[str, str] = {
    **_ALLOCATOR,
    "model": "--model-path",
    EngineSettings.type: "sglang.launch_server",
    EngineSettings.version: "pip install sglang==",
    ServerSettings.enable_expert_parallel: "--ep-size",
    Inference.draft_model: "--speculative-draft-model-path",
    Inference.speculative_method: "--speculative-algorithm",
    Inference.num_speculative_tokens: "--speculative-num-draft-tokens",
    Hardware.num_gpus: "--tp-size",
}
_TENSORRT: Mapping[str, str] = {
    "model": "trtllm-serve",
    EngineSettings.type: "trtllm-serve",
    EngineSettings.version: "pip install tensorrt-llm==",
    Inference.kv_cache_dtype: "kv_cache_config.dtype",
    Inference.block_size: "kv_cache_config.tokens_per_block",
    Hardware.gpus_per_node: "--gpus_per_node",
}
_LLAMA_CPP: Mapping[str, str] = {
    "model": "--model",
    EngineSettings.type: "llama-server",
    Inference.quantization: "llama-quantize",
    Inference.kv_cache_dtype: "--cache-type-k, --cache-type-v",
    Hardware.num_gpus: "CUDA_VISIBLE_DEVICES",
    LlamaCppSettings.mla: "-mla",
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


@lru_cache(maxsize=1)
def known_as() -> Mapping[str, str]:
    """Everything that any tool calls each setting, and memcore's own flag for it, as one text by path.

    >>> "--recompute-granularity" in known_as()["training.activation_checkpointing.policy"]
    True
    """
    found: dict[str, dict[str, None]] = {path: {f"--{each.flag}": None, path: None} for path, each in SETTINGS.items()}
    for tool in TOOLS.values():
        pairs = [(key.path, key.name) for key in tool.keys]
        pairs += [(path, name) for each in tool.meanings for path in each.sets for name in each.keys]
        for path, name in (*pairs, *tool.named.items()):
            if path in found and name:
                found[path][name] = None
    for names in CALLED.values():
        for path, name in names.items():
            if path in found:
                found[path][name] = None
    return {path: " ".join(names) for path, names in found.items()}


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
