"""Settings as the tools behind a config spell them: flags of torchtitan, arguments of transformers' Trainer, PyTorch.

Sources: torchtitan, torchtitan/config/job_config.py; transformers, training_args.py; torch/distributed/fsdp and
torch/nn/parallel/distributed.py; Megatron-LM, megatron/training/arguments.py; DeepSpeed's config JSON;
vllm, engine/arg_utils.py; sglang, srt/server_args.py; tensorrt_llm, commands/serve.py; llama.cpp, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.messages import Message
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.servers.sglang.settings import SglangSettings
from memcore.servers.tensorrt_llm.settings import TensorRtSettings
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.inference import Inference
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.nanotron.settings import NanotronSettings
from memcore.trainers.pytorch.settings import TorchSettings

_AC = "training.activation_checkpointing"
_OPTIMIZERS: Mapping[object, str] = {"adamw-8bit": "adamw_bnb_8bit", "adafactor": "adafactor", "sgd": "sgd"}

_EVERYWHERE: Mapping[str, object] = {
    EngineSettings.expandable_segments: {
        True: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        False: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False",
    },
    Hardware.num_gpus: "{} GPUs in the launcher",
    Training.outputs_kept: {False: "del outputs before loss.backward()"},
    Training.zero_grad: {"set-to-none": "optimizer.zero_grad(set_to_none=True)"},
}
_PYTORCH: Mapping[str, object] = {
    Training.activation_memory_budget: "torch._functorch.config.activation_memory_budget = {}",
    **_EVERYWHERE,
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
_TRAINER: Mapping[str, object] = {
    **_PYTORCH,
    Training.activation_checkpointing.policy: {
        "full": "--gradient_checkpointing true",
        "selective": "checkpoint(..., context_fn=create_selective_checkpoint_contexts)",
    },
    Training.activation_checkpointing.every: "gradient_checkpointing on every layer whose number {} divides",
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
_MEGATRON: Mapping[str, object] = {
    **_EVERYWHERE,
    Training.activation_checkpointing.policy: {
        "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "selective": "--recompute-granularity selective",
    },
    Training.activation_checkpointing.modules: "--recompute-modules {}",
    Training.micro_batch_size: "--micro-batch-size {}",
    Training.sequence_length: "--seq-length {}",
    Training.loss: {"vocab-parallel": "--cross-entropy-loss-fusion"},
    MegatronSettings.distributed_optimizer: {True: "--use-distributed-optimizer"},
    MegatronSettings.precision_aware_optimizer: {True: "--use-precision-aware-optimizer"},
    MegatronSettings.grad_reduce_in_bf16: {True: "--grad-reduce-in-bf16"},
    Parallelism.tensor_parallel_size: "--tensor-model-parallel-size {}",
    Parallelism.sequence_parallel: {True: "--sequence-parallel"},
    Parallelism.context_parallel_size: "--context-parallel-size {}",
    Parallelism.pipeline_parallel_size: "--pipeline-model-parallel-size {}",
    Parallelism.virtual_pipeline_parallel_size: "--num-virtual-stages-per-pipeline-rank {}",
    Parallelism.expert_parallel_size: "--expert-model-parallel-size {}",
    Parallelism.expert_tensor_parallel_size: "--expert-tensor-parallel-size {}",
}
_DEEPSPEED: Mapping[str, object] = {
    **_TRAINER,
    DeepSpeedSettings.zero_stage: '"zero_optimization": {{"stage": {}}}',
    DeepSpeedSettings.offload_optimizer: {"cpu": '"zero_optimization": {"offload_optimizer": {"device": "cpu"}}'},
    DeepSpeedSettings.offload_param: {"cpu": '"zero_optimization": {"offload_param": {"device": "cpu"}}'},
    Training.micro_batch_size: '"train_micro_batch_size_per_gpu": {}',
    Training.gradient_accumulation_steps: '"gradient_accumulation_steps": {}',
}
_NANOTRON: Mapping[str, object] = {
    **_EVERYWHERE,
    Training.activation_checkpointing.policy: {
        "full": "parallelism.recompute_layer: true",
        "none": "parallelism.recompute_layer: false",
    },
    Training.micro_batch_size: "tokens.micro_batch_size: {}",
    Training.gradient_accumulation_steps: "tokens.batch_accumulation_per_replica: {}",
    Training.sequence_length: "tokens.sequence_length: {}",
    Hardware.num_gpus: "parallelism.dp for {} GPUs",
    DeepSpeedSettings.zero_stage: "optimizer.zero_stage: {}",
    NanotronSettings.tp_mode: "parallelism.tp_mode: {}",
    Parallelism.tensor_parallel_size: "parallelism.tp: {}",
    Parallelism.pipeline_parallel_size: "parallelism.pp: {}",
}
_VLLM: Mapping[str, object] = {
    Inference.max_model_len: "--max-model-len {}",
    Inference.max_num_seqs: "--max-num-seqs {}",
    Inference.kv_cache_dtype: "--kv-cache-dtype {}",
    Inference.quantization: {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no --speculative-config"},
    Parallelism.tensor_parallel_size: "--tensor-parallel-size {}",
    VllmSettings.enforce_eager: {True: "--enforce-eager"},
    VllmSettings.gpu_memory_utilization: "--gpu-memory-utilization {}",
    VllmSettings.max_num_batched_tokens: "--max-num-batched-tokens {}",
}
_SGLANG: Mapping[str, object] = {
    Inference.max_model_len: "--context-length {}",
    Inference.max_num_seqs: "--max-running-requests {}",
    Inference.kv_cache_dtype: {"fp8": "--kv-cache-dtype fp8_e5m2"},
    Inference.quantization: {"fp8": "--quantization fp8", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no --speculative-algorithm"},
    Parallelism.tensor_parallel_size: "--tp-size {}",
    SglangSettings.mem_fraction_static: "--mem-fraction-static {}",
    SglangSettings.chunked_prefill_size: "--chunked-prefill-size {}",
}
_TENSORRT: Mapping[str, object] = {
    Inference.max_model_len: "--max_seq_len {}",
    Inference.max_num_seqs: "--max_batch_size {}",
    Inference.kv_cache_dtype: {"fp8": "kv_cache_config: dtype: fp8"},
    Inference.quantization: {"fp8": "an FP8 checkpoint of the model", "awq": "an AWQ checkpoint of the model"},
    Inference.draft_model: {None: "no speculative_config"},
    Parallelism.tensor_parallel_size: "--tp_size {}",
    TensorRtSettings.free_gpu_memory_fraction: "--kv_cache_free_gpu_memory_fraction {}",
    TensorRtSettings.max_num_tokens: "--max_num_tokens {}",
}
_LLAMA_CPP: Mapping[str, object] = {
    Inference.max_model_len: "-c {} for each of the sequences (-np)",
    Inference.quantization: {
        "q8_0": Message("a GGUF file in {}", "Q8_0"),
        "q4_k_m": Message("a GGUF file in {}", "Q4_K_M"),
    },
    Inference.draft_model: {None: "no -md"},
    LlamaCppSettings.flash_attn: {True: "-fa on"},
    LlamaCppSettings.cache_type_k: "-ctk {}",
    LlamaCppSettings.cache_type_v: "-ctv {}",
    LlamaCppSettings.n_ubatch: "-ub {}",
}
_GENERATE: Mapping[str, object] = {
    Inference.quantization: {
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
            yield Message(found, value)
        elif isinstance(found, Mapping) and value in found:
            yield found[value]
