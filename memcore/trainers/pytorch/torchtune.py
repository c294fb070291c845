"""torchtune's configs, whose model, optimizer and loss are components named by their builders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, MODEL, Normalized, filled
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.tools.methods import METHOD, TEACHER
from memcore.trainers.pytorch.settings import TorchSettings

RECIPE = "*recipe"
_NAME, _ADAPTER, _TARGETS, _BITS, _OPTIMIZER, _HOW, _LOSS, _FRAMEWORK = (
    "*version",
    "*adapter",
    "*targets",
    "*bits",
    "*optimizer_name",
    "*implementation",
    "*loss",
    "*framework",
)
_CLIPS, _POLICY, _EVERY, _ROUNDS = "*clips", "*policy", "*every", "*rounds"
_QUANTIZERS = ("Int8DynActInt4WeightQATQuantizer", "Int8DynActInt4WeightQATQuantizerModuleSwap")
_SIZES = {
    "llama2": ("meta-llama/Llama-2-{}-hf", "7b 13b 70b"),
    "code_llama2": ("codellama/CodeLlama-{}-hf", "7b 13b 34b"),
    "llama3": ("meta-llama/Meta-Llama-3-{}", "8B 70B"),
    "llama3_1": ("meta-llama/Llama-3.1-{}", "8B 70B 405B"),
    "llama3_2": ("meta-llama/Llama-3.2-{}", "1B 3B"),
    "llama3_2_vision": ("meta-llama/Llama-3.2-{}-Vision", "11B 90B"),
    "llama3_3": ("meta-llama/Llama-3.3-{}-Instruct", "70B"),
    "gemma": ("google/gemma-{}", "2b 7b"),
    "gemma2": ("google/gemma-2-{}", "2b 9b 27b"),
    "mistral": ("mistralai/Mistral-{}-v0.1", "7B"),
    "phi3_mini": ("microsoft/Phi-3-mini-4k-instruct", ""),
    "phi4": ("microsoft/phi-4", "14b"),
    "qwen2": ("Qwen/Qwen2-{}", "0.5B 1.5B 7B"),
    "qwen2_5": ("Qwen/Qwen2.5-{}", "0.5B 1.5B 3B 7B 14B 32B 72B"),
    "qwen3": ("Qwen/Qwen3-{}", "0.6B 1.7B 4B 8B 14B 32B"),
    "llama4_scout": ("meta-llama/Llama-4-Scout-17B-16E", "17b_16e"),
    "llama4_maverick": ("meta-llama/Llama-4-Maverick-17B-128E", "17b_128e"),
}
MODELS: Mapping[str, str] = {
    "_".join(filter(None, (name, size.lower().replace(".", "_")))): hub_id.format(size)
    for name, (hub_id, sizes) in _SIZES.items()
    for size in sizes.split() or [""]
}
"""Hub ids by the builder of torchtune that makes them (torchtune/models/*/_model_builders.py)."""
_BY_SIZES = ("llama2", "llama3", "llama3_1", "mistral")
"""Builders of Llamas that take the network's sizes (torchtune/models/*/_component_builders.py)."""
_DIMENSIONS: Mapping[str, str] = {
    "vocab_size": "vocab_size", "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads", "embed_dim": "hidden_size", "max_seq_len": "max_position_embeddings",
    "intermediate_dim": "intermediate_size",
}  # fmt: skip
_NO_SIZES = ("model.norm_eps", "model.attn_dropout", "model.rope_base", "model.scale_factor")
_PLACES: Mapping[str, str] = {"output_proj": "o_proj"}
_TOGETHER: Mapping[str, str] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
}  # fmt: skip
"""Matrices of Phi that transformers has as one."""
_OPTIMIZERS: Mapping[str, tuple[str, str | None]] = {
    "torch.optim.AdamW": ("adamw", None), "torch.optim.Adam": ("adam", None), "torch.optim.SGD": ("sgd", None),
    "bitsandbytes.optim.PagedAdamW8bit": ("paged-adamw-8bit", "bitsandbytes"),
    "bitsandbytes.optim.PagedAdamW": ("paged-adamw", "bitsandbytes"),
    "bitsandbytes.optim.AdamW8bit": ("adamw-8bit", "bitsandbytes"),
    **{f"torchao.{place}.AdamW{bits}bit": (f"adamw-{bits}bit", "torchao")
       for place in ("optim", "prototype.low_bit_optim") for bits in (8, 4)},
}  # fmt: skip
_LOSSES: Mapping[str, str] = {
    "LinearCrossEntropyLoss": "chunked:8", "CEWithChunkedOutputLoss": "chunked:8",
    "CrossEntropyLoss": "cross-entropy-fp32",
}  # fmt: skip
"""Both of torchtune's own work in 8 chunks (modules/loss/cross_entropy_loss.py, `num_output_chunks`)."""
_PREFERENCES: Mapping[str, str] = {"DPOLoss": "dpo", "RSOLoss": "dpo", "SimPOLoss": "simpo"}
"""Losses of pairs (rlhf/loss/dpo.py); what a model is compared with is itself without its adapter, or a copy."""
_TUNED = "torchtune is supported for full fine-tuning and LoRA"
_QUANTIZED = (
    "fake quantization is supported for Int8DynActInt4WeightQATQuantizer; without quantizer, the run is estimated "
    "without fake quantization"
)
_REFUSED: Mapping[str, str] = {
    "ref_policy": _TUNED, "reward_and_value_model": _TUNED, "enable_fp8_training": _TUNED, "generations": _TUNED,
}  # fmt: skip
"""Parts that no answer has, and what to do without them."""
_READ_BY: Mapping[str, str] = {"quantizer": "qat", "teacher_model": "knowledge_distillation", "kd_": "knowledge_dis"}
"""Keys that only recipes of such names read (recipes/*.py): the others run as if they were not there."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A config of torchtune in plain words.

    Weights, gradients and states have the recipe's dtype, adapters too; recipes for several GPUs shard with FSDP2.
    Sources: torchtune 0.6.1, recipes/*.py, torchtune/training/_distributed.py, models/*/_component_builders.py.
    """
    normalized: dict[str, Any] = {name: filled(found, value) for name, value in found.items()}
    recipe = str(normalized.pop(RECIPE, ""))
    kept = _without_unread(normalized, recipe)
    notes: list[str] = [
        Message("{}: not read by the recipe {}, so it has no effect", name, recipe)
        for name in sorted(normalized.keys() - kept.keys())
    ]
    normalized = kept
    _model(normalized, notes)
    optimizer = str(normalized.pop("optimizer._component_", None))
    if optimizer not in _OPTIMIZERS:
        raise UnsupportedError(
            "optimizer._component_", "found {!r}; supported here: {}", optimizer, joined(", ", _OPTIMIZERS)
        )
    normalized[_OPTIMIZER], how = _OPTIMIZERS[optimizer]
    if normalized.pop("optimizer.fused", False) is True or how:
        normalized[_HOW] = how or "fused"
    loss = str(normalized.get("loss._component_", "")).rpartition(".")[2]
    if loss not in (*_LOSSES, *_PREFERENCES):
        every = joined(", ", (*_LOSSES, *_PREFERENCES))
        raise UnsupportedError("loss._component_", "found {!r}; supported here: {}", loss, every)
    normalized |= {_LOSS: _LOSSES[loss]} if loss in _LOSSES else {METHOD: _PREFERENCES[loss]}
    _taught(normalized)
    _rounded(normalized)
    normalized[_CLIPS] = normalized.pop("clip_grad_norm", None) is not None
    _selective(normalized)
    several = "distributed" in recipe or any(key.endswith("_parallel_dim") or "fsdp" in key for key in found)
    if several or found.get(GPUS, 1) != 1:
        normalized |= {ENGINE: "fsdp", _NAME: 2}
    elif not recipe:
        notes.append("the recipe is not named: a single-device recipe is assumed")
    if normalized.get("data_parallel_shard_dim") == -1:
        del normalized["data_parallel_shard_dim"]
    if normalized.get("tokenizer.max_seq_len") is None:
        notes.append(
            "tokenizer.max_seq_len is not set, so the sequence length depends on the data; set the length with --seq"
        )
    return {_FRAMEWORK: "torchtune", **normalized}, tuple(notes)


_DIVERGENCES: Mapping[str, bool] = {"ForwardKLLoss": False, "ForwardKLWithChunkedOutputLoss": True}
"""Losses of a teacher's logits, and whether they are computed in chunks as the other loss is."""


def _taught(normalized: dict[str, Any]) -> None:
    """A frozen teacher and the loss of its logits (recipes/knowledge_distillation_*.py)."""
    found = {name: normalized.pop(name) for name in [*normalized] if name.startswith(("teacher_model.", "kd_"))}
    if "teacher_model._component_" not in found:
        return
    builder = str(found["teacher_model._component_"]).rpartition(".")[2]
    if builder not in MODELS:
        known = joined(", ", MODELS)
        raise UnsupportedError("teacher_model._component_", "found {!r}; known builders: {}", builder, known)
    chunked = str(normalized.get(_LOSS)).startswith("chunked")
    usual = next(name for name, parts in _DIVERGENCES.items() if parts is chunked)
    divergence = str(found.get("kd_loss._component_", usual)).rpartition(".")[2]
    if _DIVERGENCES.get(divergence) is not chunked:
        pairs = ("ForwardKLLoss", "CrossEntropyLoss", "ForwardKLWithChunkedOutputLoss", "CEWithChunkedOutputLoss")
        message = Message("supported: {} with loss {}, {} with loss {}", *pairs)
        raise UnsupportedError.of_value("kd_loss._component_", divergence, message)
    normalized |= {METHOD: "distill", TEACHER: MODELS[builder]}


def _rounded(normalized: dict[str, Any]) -> None:
    """A quantizer of quantization-aware training, whose fake quantization is counted from the first step on."""
    found = {name: normalized.pop(name) for name in [*normalized] if name.startswith("quantizer")}
    component = str(found.get("quantizer._component_", "")).rpartition(".")[2]
    if not component:
        return
    if component not in _QUANTIZERS:
        raise UnsupportedError.of_value("quantizer._component_", component, _QUANTIZED)
    normalized[_ROUNDS] = "int8-int4"


def _selective(normalized: dict[str, Any]) -> None:
    """Checkpoints of some layers, which the recipe for full fine-tuning on several GPUs makes where not all have them.

    Source: torchtune 0.6.1, recipes/full_finetune_distributed.py (`ac_mode`, `ac_option`),
    training/activations.py (`apply_selective_activation_checkpointing`: every N-th layer).
    """
    mode, option = normalized.pop("ac_mode", None), normalized.pop("ac_option", None)
    if mode is None or normalized.get("enable_activation_checkpointing") is True:
        return
    if mode == "full":
        normalized["enable_activation_checkpointing"] = True
        return
    if mode != "selective" or not isinstance(option, int):
        raise UnsupportedError.of_value("ac_option", option, "supported: a whole number N, for every N-th layer")
    normalized |= {_POLICY: "selective", _EVERY: option}


def _of_sizes(normalized: dict[str, Any]) -> dict[str, Any]:
    """A Llama by its sizes; feed-forward layers of two thirds of four times the width, where nothing is said.

    Source: torchtune, modules/common_utils.py, `scale_hidden_dim_for_mlp` (a multiple of 256).
    """
    sizes = {
        ours: normalized.pop(f"model.{name}") for name, ours in _DIMENSIONS.items() if f"model.{name}" in normalized
    }
    for name in _NO_SIZES:
        normalized.pop(name, None)
    width = sizes.get("hidden_size")
    if "intermediate_size" not in sizes and isinstance(width, int):
        sizes["intermediate_size"] = -(-int(2 * 4 * width / 3) // 256) * 256
    return {"model_type": "llama", **sizes}


def _without_unread(normalized: dict[str, Any], recipe: str) -> dict[str, Any]:
    """The keys that a recipe of this name reads; all, if it is not named. Raises UnsupportedError for refused ones."""
    others = [begins for begins, part in _READ_BY.items() if recipe and part not in recipe]
    read = {name: value for name, value in normalized.items() if not name.startswith(tuple(others))}
    for name, value in read.items():
        lacking = _REFUSED.get(name.partition(".")[0])
        if lacking is not None and value is not False:
            raise UnsupportedError.of_value(name, value, lacking)
    return read


def _model(normalized: dict[str, Any], notes: list[str]) -> None:
    """The model, and the adapter that its builder adds."""
    builder = str(normalized.pop("model._component_", "")).rpartition(".")[2]
    bare = re.sub(r"^q?lora_", "", builder)
    frozen = next((name for name in normalized if name.startswith("model.") and name.endswith("_trainable")), None)
    if frozen is not None:
        raise UnsupportedError(frozen, "training only part of a model is not supported yet for torchtune; leave it out")
    hub_id = MODELS.get(bare) or MODELS.get(re.sub(r"_(base|instruct)$", "", bare))
    if hub_id is None and bare not in _BY_SIZES:
        every = joined(", ", (*MODELS, *_BY_SIZES))
        raise UnsupportedError("model._component_", "found {!r}; known builders: {}", builder, every)
    normalized[MODEL] = hub_id or _of_sizes(normalized)
    if bare == builder:
        return
    places = [_PLACES.get(each, each) for each in normalized.pop("model.lora_attn_modules", ["q_proj", "v_proj"])]
    if normalized.pop("model.apply_lora_to_mlp", False) is True:
        places += ["gate_proj", "down_proj", "up_proj"]
    if normalized.pop("model.apply_lora_to_output", False) is True:
        places.append("lm_head")
    if bare.startswith(("phi3", "phi4")):
        together = list(dict.fromkeys(_TOGETHER.get(each, each) for each in places))
        notes.append(Message("adapters of {} are counted as those of {}, one matrix in transformers",
                             joined(", ", places), joined(", ", together)))  # fmt: skip
        places = together
    normalized |= {_ADAPTER: "dora" if normalized.pop("model.use_dora", False) is True else "lora", _TARGETS: places}
    if builder.startswith("qlora_"):
        normalized[_BITS] = "nf4-double"
        notes.append("torchao's NF4 with 8-bit scales is counted as bitsandbytes' NF4 with double quantization")


TORCHTUNE = Tool(
    name="torchtune",
    title="torchtune",
    syntax="yaml",
    engines=("none", "fsdp"),
    tells=("model._component_", "checkpointer._component_"),
    model=MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name="batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.sequence_length, name="tokenizer.max_seq_len"),
        Key(path=Training.packed_sequences, name="dataset.packed"),
        Key(path=Training.compile, name="compile"),
        Key(path=Training.adapter.rank, name="model.lora_rank"),
        Key(path=Training.adapter.dropout, name="model.lora_dropout"),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.target_modules, name=_TARGETS),
        Key(path=Training.quantization, name=_BITS),
        Key(path=Training.fake_quantization, name=_ROUNDS),
        Key(path=Training.optimizer.name, name=_OPTIMIZER),
        Key(path=Training.optimizer.implementation, name=_HOW),
        Key(path=Training.loss, name=_LOSS),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY),
        Key(path=Training.activation_checkpointing.every, name=_EVERY),
        Key(path=Training.method.name, name=METHOD),
        Key(path=Training.method.teacher, name=TEACHER),
        Key(path=TorchSettings.optimizer_in_bwd, name="optimizer_in_bwd"),
        Key(path=TorchSettings.cpu_offload, name="fsdp_cpu_offload"),
        Key(path=TorchSettings.reshard_after_forward, name="fsdp_reshard_after_forward"),
        Key(path=Parallelism.tensor_parallel_size, name="tensor_parallel_dim"),
        Key(path=Parallelism.context_parallel_size, name="context_parallel_dim"),
        Key(path=Parallelism.data_parallel_shard_size, name="data_parallel_shard_dim"),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.version, name=_NAME),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
    ),
    meanings=(
        Meaning(sets={Training.precision: "bf16"}, keys={"dtype": "bf16"}),
        Meaning(sets={Training.precision: "fp32"}, keys={"dtype": "fp32"}),
        Meaning(
            sets={Training.activation_checkpointing.policy: "full"}, keys={"enable_activation_checkpointing": True}
        ),
        Meaning(sets={Training.offload.activations: "cpu"}, keys={"enable_activation_offloading": True}),
    ),
    normalized=_normalized,
    settles=("model._component_", "model.lora_*", "model.apply_lora_*", "model.use_dora", "model.*_trainable",
             "optimizer._component_", "optimizer.fused", "loss._component_", "clip_grad_norm", "ac_mode", "ac_option",
             "teacher_model.*", "ref_policy*", "quantizer.*", "kd_*"),
    vocabulary=("torchtune",),
    ignored=("checkpointer.*", "ref_checkpointer.*", "teacher_checkpointer.*",
             "metric_logger.*", "profiler.*", "tokenizer.*", "dataset.*",
             "dataset_val.*", "lr_scheduler.*", "optimizer.*", "loss.*", "device", "batch_size_val", "name",
             "data_parallel_replicate_dim", "model.lora_alpha", "output_dir", "*_dir"),
    copies="data_parallel_replicate_dim",
    read_only=True,
    source="torchtune, recipes/",
)  # fmt: skip
