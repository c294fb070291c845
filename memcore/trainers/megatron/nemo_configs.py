"""NeMo 1's configs, whose keys become Megatron-LM's arguments.

Source: NeMo 2.5, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and tuning/conf/
megatron_gpt_finetuning_config.yaml, nemo/collections/nlp/models/language_modeling/{megatron_base_model,
megatron_gpt_model}.py, nemo/core/optim/optimizer_with_main_params.py, nemo/collections/nlp/parts/peft_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key
from memcore.messages import Message, joined
from memcore.tools.launchers import is_set
from memcore.trainers.megatron.files import MEGATRON, arguments

_SAME = (
    "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size "
    "sequence_parallel micro_batch_size global_batch_size num_layers hidden_size ffn_hidden_size num_attention_heads "
    "num_query_groups kv_channels max_position_embeddings position_embedding_type normalization hidden_dropout "
    "attention_dropout make_vocab_size_divisible_by qk_layernorm moe_router_topk moe_grouped_gemm "
    "moe_token_dispatcher_type moe_router_load_balancing_type moe_shared_expert_intermediate_size"
)
_RENAMED: Mapping[str, str] = {
    **{name: name for name in _SAME.split()},
    "encoder_seq_length": "seq_length", "rotary_percentage": "rotary_percent", "num_moe_experts": "num_experts",
    "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method", "activations_checkpoint_num_layers": "recompute_num_layers",
    "fp8_params": "fp8_param_gather", "ub_tp_comm_overlap": "tp_comm_overlap", "use_flash_attention": "use_flash_attn",
    "expert_tensor_parallel_size": "expert_tensor_parallel_size", "override_vocab_size": "vocab_size",
    "qkv_bias": "add_qkv_bias",
}  # fmt: skip
"""Keys below `model`, and Megatron-LM's arguments."""
_UNLESS: Mapping[str, str] = {
    "bias": "--disable-bias-linear", "share_embeddings_and_output_weights": "--untie-embeddings-and-output-weights",
    "masked_softmax_fusion": "--no-masked-softmax-fusion", "apply_rope_fusion": "--no-rope-fusion",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "persist_layer_norm": "--no-persist-layer-norm", "bias_activation_fusion": "--no-bias-swiglu-fusion",
}  # fmt: skip
"""Switches, and the flags that say that they are off."""
_USUAL: Mapping[str, object] = {
    "apply_rope_fusion": False, "gradient_accumulation_fusion": False, "hidden_dropout": 0.1, "attention_dropout": 0.1,
    "position_embedding_type": "learned_absolute", "normalization": "layernorm",
}  # fmt: skip
"""What absent keys mean where the network is described."""
_ACTIVATIONS: Mapping[str, str | None] = {
    "gelu": None, "swiglu": "--swiglu", "fast-swiglu": "--swiglu", "squared-relu": "--squared-relu",
}  # fmt: skip
_NORMS: Mapping[str, str] = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "layernorm1p": "LayerNorm"}
_OPTIMIZERS: Mapping[str, bool] = {
    "fused_adam": False, "adamw": False, "adam": False, "distributed_fused_adam": True, "mcore_distributed_optim": True,
    "megatron_fused_adam": False,
}  # fmt: skip
"""NeMo's names of Adam, and whether data-parallel ranks split its states."""
_TARGETS: Mapping[str, tuple[str, ...]] = {
    "attention_qkv": ("linear_qkv",), "attention_dense": ("linear_proj",), "mlp_fc1": ("linear_fc1",),
    "mlp_fc2": ("linear_fc2",), "attention": ("linear_qkv", "linear_proj"), "mlp": ("linear_fc1", "linear_fc2"),
    "all": ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"),
}  # fmt: skip
_PRECISIONS: Mapping[str, str] = {"bf16": "--bf16", "bf16-mixed": "--bf16", "16": "--fp16", "16-mixed": "--fp16"}
_UNMAIN = (
    "megatron_amp_O2 is off: parameters in fp32 with autocast's copies in 16 bits are counted as parameters in 16 bits "
    "with a copy in fp32, which are as many bytes"
)
"""4 bytes of parameters, 4 of gradients, 8 of states and 2 of the copy that each layer keeps for its backward pass
(megatron/core/tensor_parallel/layers.py, `LinearWithGradAccumulationAndAsyncCommunication`: `custom_fwd`)."""
_LORA, _PLACES = "model.peft.lora_tuning.", "*targets"
_OFF = (None, False, "", "null")
_HARMLESS = (
    "seed restore_from resume save_nemo skip_train init_method use_scaled_init layernorm_epsilon do_layer_norm "
    "pre_process post_process openai_gelu normalize_attention overlap_p2p batch_p2p seq_len_interpolation "
    "scale_positional reset_lr native_amp hysteresis grad_allreduce grad_div bias_dropout get_attention_mask "
    "use_cpu_init onnx apex gradient_as_bucket sync_batch nccl validation dist_ckpt reduce_amax ub_tp sharp "
    "enable_megatron megatron_timer nsys gc_interval precision answer_only apply_query rotary_base moe_aux moe_z "
    "target inference data optim rampup fsdp_ cpu_offloading_"
)
"""How keys below `model` begin that no tensor depends on: data, checkpoints, learning rates, logs and schedules."""
_READ = (
    "trainer.devices", "trainer.num_nodes", "trainer.precision", "model.optim.name", "model.tokenizer.*", "model.fp8*",
    "model.peft.*", "model.data.seq_length", "model.data.train_ds.m*", "model.data.train_ds.global_batch_size",
    "model.megatron_amp_O2", "model.mcore_gpt",
)  # fmt: skip
"""Keys that are read together with others."""
_ONLY: Mapping[str, object] = {
    "fsdp": False, "transformer_block_type": "pre_ln", "headscale": False, "attention_type": "multihead",
    "cpu_offloading": False, "mcore_customization_config.parallel_attention": False,
}  # fmt: skip
"""Keys below `model` with one supported value."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return the file's keys as Megatron-LM's flags, and notes."""
    notes: list[Message | str] = []
    model = {key.partition(".")[2]: value for key, value in found.items() if key.startswith("model.")}
    described = "num_layers" in model
    flags: dict[str, Any] = {"": "pretrain_gpt.py"}
    _refuse_others(model)
    known = {**(_USUAL if described else {}), **model}
    for name, value in known.items():
        if name in _UNLESS:
            flags |= {_UNLESS[name]: True} if value is False else {}
        elif name in _RENAMED and (value not in _OFF or name.endswith("dropout")):
            flags[f"--{_RENAMED[name].replace('_', '-')}"] = value
    flags |= _network(known) if described else {}
    flags |= _steps(found, model, notes)
    flags |= _adapter(model)
    own = {f"model.{name}" for name in (*_RENAMED, *_UNLESS, *_ONLY, "activation", "transformer_engine")}
    unread = {
        key: value
        for key, value in found.items()
        if key not in own and value not in _OFF and not any(fnmatchcase(key, each) for each in _READ)
    }
    told, said = arguments({**flags, **unread})
    return told, (*notes, *said)


def _refuse_others(model: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for other models than GPTs, FSDP, and other adapters than LoRA."""
    if not any(name in model for name in ("num_layers", "megatron_amp_O2", "tensor_model_parallel_size")):
        message = "NeMo 1 configs of other models than GPTs are not supported yet"
        raise UnsupportedError("exp_manager", message)
    for name, only in _ONLY.items():
        if model.get(name, only) not in (only, *_OFF):
            raise UnsupportedError.of_value(f"model.{name}", model[name], Message("supported: {!r}", only))
    scheme = str(model.get("peft.peft_scheme") or "none").lower()
    if scheme not in ("none", "null", "lora"):
        raise UnsupportedError.of_value("model.peft.peft_scheme", scheme, Message("supported: {}", "lora, none"))
    activation = model.get("activation", "gelu")
    if activation not in _ACTIVATIONS:
        raise UnsupportedError.of_value("model.activation", activation, joined(", ", _ACTIVATIONS))


def _network(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what describes the network besides its sizes: activation, norms, implementation, the vocabulary."""
    flags: dict[str, Any] = {"--normalization": _NORMS.get(str(known.get("normalization")).lower(), "LayerNorm")}
    activation = _ACTIVATIONS[str(known.get("activation", "gelu"))]
    flags |= {activation: True} if activation else {}
    flags |= {"--apply-layernorm-1p": True} if known.get("normalization") == "layernorm1p" else {}
    flags |= {} if is_set(known.get("transformer_engine")) else {"--transformer-impl": "local"}
    flags |= {"--group-query-attention": True} if known.get("num_query_groups") not in _OFF else {}
    library, name = known.get("tokenizer.library"), known.get("tokenizer.type")
    if library == "huggingface":
        flags |= {"--tokenizer-type": "HuggingFaceTokenizer", "--tokenizer-model": name}
    elif name is not None:
        flags["--tokenizer-type"] = name
    return flags


def _steps(found: Mapping[str, Any], model: Mapping[str, Any], notes: list[Message | str]) -> dict[str, Any]:
    """Return GPUs, precision, the optimizer, and the length and size of a micro-batch."""
    flags: dict[str, Any] = {}
    devices, nodes = found.get("trainer.devices", 1), found.get("trainer.num_nodes", 1)
    if isinstance(devices, int) and isinstance(nodes, int):
        flags |= {GPUS: devices * nodes, **({PER_NODE: devices} if nodes > 1 else {})}
    word = _PRECISIONS.get(str(found.get("trainer.precision")))
    name = str(model.get("optim.name", "fused_adam"))
    if name not in _OPTIMIZERS:
        raise UnsupportedError.of_value("model.optim.name", name, joined(", ", _OPTIMIZERS))
    split = _OPTIMIZERS[name]
    if word is not None and not (split or is_set(model.get("megatron_amp_O2"))):
        notes.append(_UNMAIN)
    flags |= {word: True} if word else {}
    flags |= {"--use-distributed-optimizer": True} if split else {"--accumulate-allreduce-grads-in-fp32": True}
    if name == "distributed_fused_adam":
        notes.append("distributed_fused_adam of Apex is counted as Megatron-Core's distributed optimizer")
    if is_set(model.get("fp8")):
        flags["--fp8-format"] = "e4m3" if is_set(model.get("fp8_e4m3")) else "hybrid"
    for name in ("micro_batch_size", "global_batch_size"):
        if f"data.train_ds.{name}" in model:
            flags[f"--{name.replace('_', '-')}"] = model[f"data.train_ds.{name}"]
    length = model.get("data.train_ds.max_seq_length", model.get("data.seq_length"))
    return {**flags, **({"--seq-length": length} if isinstance(length, int) else {})}


def _adapter(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return LoRA's rank and places (parts/peft_config.py, `LoraPEFTConfig`)."""
    if str(model.get("peft.peft_scheme") or "").lower() != "lora":
        return {}
    inner = _LORA.removeprefix("model.")
    said = model.get(f"{inner}target_modules", ["attention_qkv"])
    places = [place for each in said for place in _TARGETS.get(each, (each,))]
    return {
        "*adapter": "lora",
        f"{_LORA}adapter_dim": model.get(f"{inner}adapter_dim", 32),
        f"{_LORA}adapter_dropout": model.get(f"{inner}adapter_dropout", 0.0),
        _PLACES: list(dict.fromkeys(places)),
    }


NEMO_CONFIGS = replace(
    MEGATRON,
    name="nemo-configs",
    family="megatron",
    title="NeMo 1",
    syntax="yaml",
    program="",
    launch="",
    scripts={},
    prefixes=(),
    tells=("exp_manager", "model.megatron_amp_O2", "model.mcore_gpt"),
    normalized=_normalized,
    keys=(
        *(each for each in MEGATRON.keys if each.path != Hardware.gpus_per_node),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=Training.adapter.type, name="*adapter"),
        Key(path=Training.adapter.rank, name=f"{_LORA}adapter_dim"),
        Key(path=Training.adapter.dropout, name=f"{_LORA}adapter_dropout"),
        Key(path=Training.adapter.target_modules, name=_PLACES),
    ),
    world=(),
    alongside={},
    described=None,
    written=None,
    read_only=True,
    ignored=(
        *MEGATRON.ignored, "name", "restore_from_path", "defaults*", "run*", "cluster*", "exp_manager*", "trainer.*",
        "s3_checkpointing*", "hydra*", *(f"model.{each}*" for each in _HARMLESS.split()),
    ),
    source="NeMo 1, nemo/collections/nlp/models/language_modeling/megatron_gpt_model.py",
)  # fmt: skip

TOOLS = (NEMO_CONFIGS,)
