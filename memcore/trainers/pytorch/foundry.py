"""LLM Foundry's configs, which Composer trains: FSDP of PyTorch under autocast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, MODEL, Normalized, filled
from memcore.formats.tool import Key, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import content_of, full_name, known
from memcore.trainers.pytorch.settings import TorchSettings

_VERSION, _PRECISION, _REDUCED, _FRAMEWORK, _POLICY = "*version", "*precision", "*reduced", "*framework", "*policy"
_OPTIMIZER, _HOW, _LOSS, _BATCH, _OFFLOADED = "*optimizer_name", "*implementation", "*loss", "*micro", "*offloaded"
_ATTENTION, _ADAPTER, _CLIPS, _RESHARD, _REENTRANT = "*attention", "*adapter", "*clips", "*reshard", "*reentrant"
_FSDP = "fsdp_config."
_MPT: Mapping[str, str] = {
    "d_model": "n_embd", "n_heads": "n_head", "n_layers": "n_layer", "max_seq_len": "n_positions",
    "vocab_size": "vocab_size",
}  # fmt: skip
_UNLIKE: Mapping[str, Any] = {
    "activation_function": "gelu", "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
}  # fmt: skip
"""What MPT has otherwise than GPT-2: it too has learned positions, biases and tied embeddings by default
(models/mpt/configuration_mpt.py), unlike the MPT of transformers, which knows eager attention alone."""
_OPTIMIZERS: Mapping[str, tuple[str, str]] = {
    "decoupled_adamw": ("adamw", "for-loop"), "decoupled_lionw": ("lion", "for-loop"),
}  # fmt: skip
"""Composer's own, which update one parameter after the other (composer/optim/decoupled_weight_decay.py)."""
_PRECISIONS: Mapping[str, str] = {"amp_bf16": "bf16-mixed", "amp_fp16": "fp16-mixed", "fp32": "fp32"}
_REDUCES: Mapping[str, str | None] = {"PURE": "bf16", "DEFAULT": "fp32", "FULL": None}
"""FSDP's gradients by `mixed_precision` (composer/distributed/mosaic_parallelism.py, `get_mixed_precision`)."""
_STRATEGIES: Mapping[str, bool] = {"FULL_SHARD": True, "SHARD_GRAD_OP": False, "HYBRID_SHARD": True}
_KERNELS: Mapping[str, str] = {"flash": "flash", "torch": "math", "flex": "flex"}
_HUGGING: Mapping[str, str] = {
    "flash_attention_2": "flash", "sdpa": "sdpa", "eager": "math", "flex_attention": "flex",
}  # fmt: skip
"""Attention of models of Hugging Face, eager where nothing is said (models/hf/hf_base.py, `build_inner_model`)."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a config of LLM Foundry in plain words.

    Weights are in fp32, in shards, and gathered in 16 bits. Source: LLM Foundry 0.22, utils/config_utils.py
    (`TrainConfig`), command_utils/train.py, models/mpt/{configuration,modeling}_mpt.py; Composer 0.32.
    """
    normalized: dict[str, Any] = {name: _plain(found, value) for name, value in found.items()}
    normalized[_FRAMEWORK] = "llm-foundry"
    notes: list[str] = []
    _model(normalized, notes)
    word = str(normalized.pop("precision", "amp_bf16"))
    if word not in _PRECISIONS:
        raise UnsupportedError.of_value("precision", word, Message("supported: {}", joined(", ", _PRECISIONS)))
    normalized[_PRECISION] = _PRECISIONS[word]
    _sharding(normalized)
    name = normalized.pop("optimizer.name", "decoupled_adamw")
    if name not in _OPTIMIZERS:
        raise UnsupportedError.of_value("optimizer.name", name, Message("supported: {}", joined(", ", _OPTIMIZERS)))
    normalized[_OPTIMIZER], normalized[_HOW] = _OPTIMIZERS[str(name)]
    normalized[_CLIPS] = "algorithms.gradient_clipping.clipping_threshold" in normalized
    each = normalized.pop("device_train_microbatch_size", "auto")
    if isinstance(each, int):
        normalized[_BATCH] = each
    else:
        notes.append("device_train_microbatch_size is auto, the largest that fits: `memcore solve --for micro-batch` "
                     "finds it; 1 is assumed")  # fmt: skip
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


def _plain(found: Mapping[str, Any], value: object) -> object:
    """Return a value that a variable of the file gives."""
    other = filled(found, value)
    return filled({f"variables.{name}": each for name, each in found.items()}, other) if other is value else other


def _model(normalized: dict[str, Any], notes: list[str]) -> None:
    """MPT by its sizes, or a model of Hugging Face by its name."""
    kind = normalized.pop("model.name", "hf_causal_lm")
    kernel = normalized.pop(
        "model.attn_config.attn_impl", normalized.pop("model.config_overrides.attn_config.attn_impl", None)
    )
    if normalized.pop("model.use_flash_attention_2", False) is True:
        kernel = "flash"
    normalized[_ATTENTION] = _KERNELS.get(str(kernel))
    if kind == "hf_causal_lm":
        said = normalized.pop("model.attn_implementation", None)
        normalized[_ATTENTION] = normalized[_ATTENTION] or _HUGGING.get(str(said or "eager"))
        normalized[MODEL] = _overridden(normalized, normalized.pop("model.pretrained_model_name_or_path", None))
        if any(name.startswith(_PEFT) for name in normalized):
            _adapted(normalized)
        return
    if kind != "mpt_causal_lm":
        raise UnsupportedError.of_value("model.name", kind, "supported: mpt_causal_lm, hf_causal_lm")
    sizes = {ours: normalized.pop(f"model.{name}") for name, ours in _MPT.items() if f"model.{name}" in normalized}
    wide, ratio = sizes.get("n_embd"), normalized.pop("model.expansion_ratio", 4)
    inner = {"n_inner": wide * ratio} if isinstance(wide, int) and isinstance(ratio, int) else {}
    normalized |= {MODEL: {"model_type": "gpt2", **_UNLIKE, **sizes, **inner}, _LOSS: "cross-entropy"}
    notes.append("MPT is counted as a GPT-2 of the same sizes, which has the same layers")


_POSITIONS = ("n_positions", "max_position_embeddings")


def _overridden(normalized: Mapping[str, Any], model: object) -> object:
    """Return a model of the catalog with the positions that a file gives it, if its config has another number."""
    config = content_of(model) if isinstance(model, str) and known(model) else {}
    said = {name: normalized.get(f"{_OVERRIDES}{name}") for name in _POSITIONS}
    other = {name: value for name, value in said.items() if value not in (None, config.get(name))}
    return {"_name_or_path": model, **config, **other} if other and config else model


_OVERRIDES, _PEFT = "model.config_overrides.", "model.peft_config."


def _adapted(normalized: dict[str, Any]) -> None:
    """An adapter of PEFT, by the keys of its config. Raises UnsupportedError for other adapters and other keys."""
    kind = str(normalized.pop(f"{_PEFT}peft_type", "LORA")).upper()
    if kind != "LORA":
        raise UnsupportedError.of_value(f"{_PEFT}peft_type", kind, "supported: LORA")
    normalized[_ADAPTER] = "dora" if normalized.pop(f"{_PEFT}use_dora", False) is True else "lora"
    bias = normalized.pop(f"{_PEFT}bias", "none")
    if bias != "none":
        raise UnsupportedError.of_value(f"{_PEFT}bias", bias, "supported: 'none'")


def _sharding(normalized: dict[str, Any]) -> None:
    """FSDP's words, which are Composer's for PyTorch's first version.

    Source: composer, utils/parallelism.py (`FSDPConfig`: checkpoints are reentrant where nothing is said).
    """
    given = any(name.startswith(_FSDP) for name in normalized)
    several = normalized.get(GPUS, 2) != 1
    normalized[ENGINE] = "fsdp" if given and several else "ddp" if normalized.get(GPUS, 1) != 1 else "none"
    strategy = str(normalized.pop(f"{_FSDP}sharding_strategy", "FULL_SHARD"))
    mixed = str(normalized.pop(f"{_FSDP}mixed_precision", "DEFAULT"))
    if given and several:
        if strategy not in _STRATEGIES or mixed not in _REDUCES:
            key = "sharding_strategy" if strategy not in _STRATEGIES else "mixed_precision"
            raise UnsupportedError.of_value(
                f"{_FSDP}{key}", strategy if key[0] == "s" else mixed, "this value is not supported yet"
            )
        normalized |= {_VERSION: 1, _REDUCED: _REDUCES[mixed]}
        normalized |= {} if _STRATEGIES[strategy] else {_RESHARD: False}
    kept = normalized.pop(f"{_FSDP}activation_checkpointing", False)
    reentrant = normalized.pop(f"{_FSDP}activation_checkpointing_reentrant", True)
    normalized |= {_POLICY: "full", _REENTRANT: reentrant} if kept is True else {}
    if normalized.pop(f"{_FSDP}activation_cpu_offload", False) is True:
        normalized[_OFFLOADED] = "cpu"


_SCHEDULE: Mapping[str, Any] = {
    "scheduler.name": "cosine_with_warmup", "scheduler.t_warmup": "100ba", "scheduler.alpha_f": 0.1,
    "max_duration": "1ep", "device_eval_batch_size": 1, "tokenizer.kwargs.padding_side": "right",
    "train_loader.name": "finetuning", "train_loader.dataset.hf_name": "mosaicml/dolly_hhrlhf",
    "train_loader.dataset.split": "train", "train_loader.dataset.shuffle": True,
    "train_loader.drop_last": True, "train_loader.num_workers": 8,
}  # fmt: skip
"""Sections that its configs do not start without (utils/config_utils.py, `TrainConfig`)."""
_RATES: Mapping[str, float] = {"decoupled_adamw": 1e-5, "decoupled_lionw": 1e-6}
_ADAPTED = ("lora", "dora")


def _written(config: Config) -> dict[str, Any]:
    """Return the model by its name, precision, the optimizer, clipping, and an adapter's method."""
    keys: dict[str, Any] = {**_SCHEDULE, "model.name": "hf_causal_lm"}
    length, attention = config[Training.sequence_length], config[Training.attention]
    if isinstance(config.model, str):
        name = full_name(config.model)
        keys |= {"model.pretrained_model_name_or_path": name, "model.pretrained": True, "tokenizer.name": name}
    if length:
        keys |= {"tokenizer.kwargs.model_max_length": length, "train_loader.dataset.max_seq_len": length}
    kernel = next((theirs for theirs, ours in _HUGGING.items() if ours == attention), None)
    keys |= {"model.attn_implementation": kernel} if kernel else {}
    precisions = {ours: theirs for theirs, ours in _PRECISIONS.items()}
    keys["precision"] = precisions.get(str(config[Training.precision]), "amp_bf16")
    wanted = config[Training.optimizer.name] or "adamw"
    chosen = next((theirs for theirs, (ours, _) in _OPTIMIZERS.items() if ours == wanted), None)
    keys |= {"optimizer.name": chosen, "optimizer.lr": _RATES[chosen]} if chosen else {}
    keys["device_train_microbatch_size"] = config[Training.micro_batch_size] or 1
    if config[Training.gradient_clipping] is not False:
        clips = "algorithms.gradient_clipping."
        keys |= {f"{clips}clipping_type": "norm", f"{clips}clipping_threshold": 1.0}
    kind = config[Training.adapter.type]
    if kind in _ADAPTED:
        keys |= {f"{_PEFT}peft_type": "LORA", f"{_PEFT}task_type": "CAUSAL_LM", f"{_PEFT}use_dora": kind == "dora"}
    return {**keys, **_sharded(config)}


def _sharded(config: Config) -> dict[str, Any]:
    """FSDP's section, which has checkpoints on one GPU too."""
    if config[EngineSettings.type] == "ddp":
        return {}
    keys: dict[str, Any] = {}
    if config[EngineSettings.type] == "fsdp":
        kept = config[TorchSettings.reshard_after_forward] is False
        mixed = next((name for name, ours in _REDUCES.items() if ours == config[Training.reduce_dtype]), "PURE")
        keys = {f"{_FSDP}sharding_strategy": "SHARD_GRAD_OP" if kept else "FULL_SHARD",
                f"{_FSDP}mixed_precision": mixed}  # fmt: skip
    if config[Training.activation_checkpointing.policy] == "full":
        reentrant = config[Training.activation_checkpointing.use_reentrant] is not False
        keys |= {f"{_FSDP}activation_checkpointing": True, f"{_FSDP}activation_checkpointing_reentrant": reentrant}
    if config[Training.offload.activations] == "cpu":
        keys[f"{_FSDP}activation_cpu_offload"] = True
    return keys


FOUNDRY = Tool(
    name="llm-foundry",
    title="LLM Foundry",
    syntax="yaml",
    engines=("fsdp", "none", "ddp"),
    implementations=("transformers",),
    tells=("global_train_batch_size", "device_train_microbatch_size", "train_loader"),
    model=MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name=_BATCH),
        Key(path=Training.sequence_length, name="max_seq_len"),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.reduce_dtype, name=_REDUCED),
        Key(path=Training.optimizer.name, name=_OPTIMIZER),
        Key(path=Training.optimizer.implementation, name=_HOW),
        Key(path=Training.loss, name=_LOSS),
        Key(path=Training.attention, name=_ATTENTION),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY),
        Key(path=Training.activation_checkpointing.use_reentrant, name=_REENTRANT),
        Key(path=Training.offload.activations, name=_OFFLOADED),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.rank, name="model.peft_config.r"),
        Key(path=Training.adapter.dropout, name="model.peft_config.lora_dropout"),
        Key(path=Training.adapter.target_modules, name=f"{_PEFT}target_modules"),
        Key(path=Training.adapter.target_parameters, name=f"{_PEFT}target_parameters"),
        Key(path=Training.adapter.modules_to_save, name=f"{_PEFT}modules_to_save"),
        Key(path=Training.adapter.use_rslora, name=f"{_PEFT}use_rslora"),
        Key(path=TorchSettings.reshard_after_forward, name=_RESHARD),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.version, name=_VERSION),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
    ),
    normalized=_normalized,
    settles=("model.name", "model.d_model", "model.n_*", "model.expansion_ratio", "model.max_seq_len",
             "model.vocab_size", "model.attn_config*", "model.attn_implementation",
             "model.pretrained_model_name_or_path", "model.use_flash*",
             "model.config_overrides.*", "precision", "optimizer.name", "device_train_microbatch_size",
             "fsdp_config.*", "algorithms.gradient_clipping.*", "variables*", "model", "optimizer", "fsdp_config",
             "algorithms", "model.peft_config*", "algorithms.gradient_clipping"),
    batch="global_train_batch_size",
    cuts_batch=True,  # utils/config_utils.py, `calculate_batch_size_info`
    defaults={Training.micro_batch_size: 1},
    vocabulary=("llm-foundry",),
    ignored=("variables.*", "tokenizer.*", "train_loader.*", "eval_loader*", "scheduler.*", "optimizer.*",
             "callbacks.*", "loggers.*", "algorithms.*", "eval_*", "icl_*", "save_*", "load_*", "model.init_device",
             "model.config_overrides.*", f"{_PEFT}lora_alpha", f"{_PEFT}task_type", f"{_PEFT}inference_mode",
             f"{_PEFT}base_model_name_or_path", f"{_PEFT}fan_in_fan_out", "device_eval_batch_size",
             "console_log_interval",
             f"{_FSDP}limit_all_gathers", f"{_FSDP}verbose", f"{_FSDP}state_dict_type", f"{_FSDP}use_orig_params",
             "run_name", "seed", "max_duration", "global_seed", "data_*"),
    needs={EngineSettings.framework: "llm-foundry"},
    launch="composer --nproc {each} --world_size {all} train.py {file}",
    written=_written,
    adapters=_ADAPTED,
    unsaid={
        **dict.fromkeys((
            Training.precision, Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps,
            Training.sequence_length, Training.gradient_clipping, Training.optimizer.name,
            Training.optimizer.implementation, Training.reduce_dtype, Training.adapter.rank,
            Training.adapter.target_modules, EngineSettings.version,
            Training.activation_checkpointing.use_reentrant,
        )),
        Training.activation_checkpointing.policy: "none",
    },
    source="LLM Foundry, llmfoundry/utils/config_utils.py",
)  # fmt: skip
