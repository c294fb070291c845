"""The files of George614/gpu-mem_calculator, which have the same sections with other words: one table of aliases.

Source: its src/gpu_mem_calculator/core/models.py and config/parser.py as of January 2026. What such a file says is kept
or said otherwise; what has no bearing on memory here is left out. Each such change is a note for the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from memcore.config.kinds import Flag
from memcore.errors import ConfigError
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.units import shown

ENGINES: Mapping[str, str] = {
    "pytorch": "ddp",
    "pytorch_ddp": "ddp",
    "megatron_lm": "megatron",
    "megatron-lm": "megatron",
    "megatron_deepspeed": "megatron-deepspeed",
}
"""Its words for `engine.type`."""
DTYPES: Mapping[str, str] = {
    "fp32": "fp32",
    "float32": "fp32",
    "fp16": "fp16-mixed",
    "float16": "fp16-mixed",
    "bf16": "bf16-mixed",
    "bfloat16": "bf16-mixed",
}
"""Its `training.dtype`: AdamW has 12 bytes for each parameter there, an fp32 copy and two states."""
OPTIMIZERS: Mapping[str, str] = {"adamw_8bit": "adamw-8bit"}
"""Its words for `training.optimizer`."""
CHECKPOINTING: Mapping[int, str] = {0: "none", 1: "selective", 2: "selective", 3: "full", 4: "full"}
"""Its levels: 1 and 2 recompute attention, 3 layers and attention, 4 everything."""
SHARDING: Mapping[str, bool] = {"full_shard": True, "shard_grad_op": False}
"""Its `engine.sharding_strategy`, as FSDP2's reshard_after_forward."""
ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    "zero_stage": ("deepspeed", "megatron-deepspeed"),
    "zero_init": ("deepspeed", "megatron-deepspeed"),
    "offload_optimizer": ("deepspeed", "megatron-deepspeed"),
    "offload_param": ("deepspeed", "megatron-deepspeed"),
    "sharding_strategy": ("fsdp",),
}
"""Keys of its `engine` that other engines ignore there."""
UNDIVIDED: Mapping[str, str] = {
    "ddp": "DistributedDataParallel does not split layers",
    "deepspeed": "ZeRO does not split layers",
    "fsdp": "layers with routed experts are not split when FSDP is used",
}
"""Engines that share states between all GPUs there, whatever the groups; FSDP divides layers without experts."""
DIVIDES_DENSE = frozenset({"fsdp"})
"""Engines of these that divide layers without experts."""
DIVIDED_AS: Mapping[str, str] = {"deepspeed": "megatron-deepspeed"}
"""Engines that a related one stands for where layers are divided."""
STAGES: Mapping[tuple[str, str], int] = {
    ("offload_optimizer", "cpu"): 1,
    ("offload_optimizer", "nvme"): 3,
    ("offload_param", "cpu"): 3,
    ("offload_param", "nvme"): 3,
}
"""The least stage of ZeRO that can offload so; below it that calculator leaves things on the GPU."""
EXPERTS: Mapping[str, str] = {
    "num_experts": "num_experts",
    "top_k": "num_experts_per_tok",
    "expert_intermediate_size": "moe_intermediate_size",
    "shared_expert_intermediate_size": "shared_expert_intermediate_size",
}
"""Its keys of mixtures of experts, as Qwen2-MoE's config.json calls them."""
SIZES: Mapping[str, str] = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "vocab_size": "vocab_size",
    "max_seq_len": "max_position_embeddings",
}
_SIGNS = {
    "model": ("largest_layer_params", "moe_enabled", "top_k", "expert_intermediate_size"),
    "training": ("dtype",),
    "engine": ("sharding_strategy",),
    "hardware": ("total_gpu_memory_gb",),
}
"""Keys that only its files have."""
_SECTIONS = ("training", "parallelism", "engine", "hardware")
_HEAD, _MOST = 128, 2**53
"""The width of heads that do not divide the hidden size, and the largest count that settings take."""


@dataclass(slots=True)
class Imported:
    """A config in this project's words, and what was said otherwise."""

    config: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def section(self, name: str) -> dict[str, Any]:
        """Return a section, for changes."""
        found: dict[str, Any] = self.config[name]
        return found


def imported(data: Mapping[str, object]) -> Imported:
    """Return a file of that calculator in this project's words; any other config as it is.

    >>> imported({"model": "gpt2", "training": {"dtype": "bf16"}, "engine": {"type": "pytorch_ddp"}}).config["engine"]
    {'type': 'ddp'}
    """
    if not _is_foreign(data):
        return Imported(dict(data))
    found = Imported({key: value if _is_config_json(value) else _given(value) for key, value in data.items()})
    wrong = {name: value for name in _SECTIONS if not isinstance(value := data.get(name, {}), Mapping | None)}
    for name in _SECTIONS:
        if not isinstance(found.config.get(name), dict):
            found.config[name] = {}
    _engine(found)
    _offload(found)
    _training(found)
    _groups(found)
    _world(found)
    if isinstance(found.config.get("model"), dict) and not _is_config_json(found.config["model"]):
        _model(found)
    found.config.update(wrong)  # refused by their types
    return found


def _is_config_json(value: object) -> bool:
    """Return whether a model is described in other words than its short ones."""
    return isinstance(value, Mapping) and "model_type" in value


def _given(value: object) -> object:
    """Return what an object gives: null means absent."""
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, Mapping) else value


def _ours(words: Mapping[str, Any], value: Any) -> Any:
    """Return a word of its tables as ours; whatever else stands there is refused where it is read."""
    return words.get(value, value) if isinstance(value, str) else value


def _count(section: Mapping[str, Any], key: str, default: int | None = 1) -> int | None:
    """Return a count of at least one; None for what is none, and refused where it is read."""
    found = section.get(key, default)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MOST else None


def _is_foreign(data: Mapping[str, object]) -> bool:
    sections = {
        name: value for name, value in data.items() if isinstance(value, Mapping) and not _is_config_json(value)
    }
    if any(key in sections.get(name, {}) for name, keys in _SIGNS.items() for key in keys):
        return True
    policy = sections.get("training", {}).get("activation_checkpointing")
    numbered = isinstance(policy, int) and not isinstance(policy, bool)
    engine = sections.get("engine", {}).get("type")
    return numbered or (isinstance(engine, str) and engine in ENGINES)


def _engine(found: Imported) -> None:
    engine = found.section("engine")
    name = engine["type"] = _ours(ENGINES, engine.get("type", "pytorch_ddp"))
    for key, engines in ONLY_FOR.items():
        if key in engine and name not in engines:
            value = engine.pop(key)
            if value != "none":
                found.notes.append(
                    Message("engine.{} {} does not apply to engine.type {!r}: ignored", key, shown(value), name)
                )
    strategy = engine.pop("sharding_strategy", None)
    if isinstance(strategy, str) and strategy in SHARDING:
        engine["reshard_after_forward"] = SHARDING[strategy]
    elif strategy == "no_shard":
        engine["type"] = "ddp"
        found.notes.append(
            "engine.sharding_strategy 'no_shard' keeps everything on every GPU: treated as engine.type 'ddp'"
        )
    elif strategy is not None:
        engine["sharding_strategy"] = strategy  # refused as unknown


def _offload(found: Imported) -> None:
    engine = found.section("engine")
    stage = engine.get("zero_stage", 0)
    for (key, value), least in STAGES.items():
        if engine.get(key) == value and isinstance(stage, int) and stage < least:
            del engine[key]
            found.notes.append(
                Message("engine.{} {!r} needs ZeRO-{}, found {}: ignored", key, value, least, shown(stage))
            )


def _groups(found: Imported) -> None:
    """Groups that divide layers, with engines that do not."""
    engine, parallelism, model = found.section("engine"), found.section("parallelism"), found.config.get("model")
    names = [f"parallelism.{name}_parallel_size" for name in ("tensor", "pipeline")]
    tensor, stages = sizes = [_count(parallelism, name.partition(".")[2]) for name in names]
    routed = isinstance(model, dict) and model.get("moe_enabled") is True
    reason = UNDIVIDED.get(engine["type"]) if isinstance(engine["type"], str) else None
    if reason is None or sizes == [1, 1] or (engine["type"] in DIVIDES_DENSE and not routed):
        return
    ranks = _count(parallelism, "data_parallel_size")
    if tensor is None or stages is None or ranks is None:
        return
    given = joined(" and ", (f"{name} {size}" for name, size in zip(names, sizes, strict=True) if size != 1))
    divides = DIVIDED_AS.get(engine["type"])
    if divides is not None and not routed and (stages == 1 or engine.get("zero_stage", 0) in (0, 1)):
        engine["type"] = divides
        found.notes.append(
            Message("found {}; {}; treated as engine.type 'megatron-deepspeed', which does", given, reason)
        )
        return
    for name in names:
        parallelism.pop(name.partition(".")[2], None)
    parallelism["data_parallel_size"] = tensor * stages * ranks
    found.notes.append(Message("found {}; {}; all of these GPUs are counted as data-parallel ranks", given, reason))


def _training(found: Imported) -> None:
    training = found.section("training")
    training.setdefault("precision", _ours(DTYPES, training.pop("dtype", "bf16")))
    if "optimizer" in training:
        training["optimizer"] = _ours(OPTIMIZERS, training["optimizer"])
    level = training.get("activation_checkpointing")
    if isinstance(level, int) and not isinstance(level, bool) and level in CHECKPOINTING:
        training["activation_checkpointing"] = CHECKPOINTING[level]
        if 0 < level < 4:
            message = Message(
                "training.activation_checkpointing {}: treated as policy {!r}", level, CHECKPOINTING[level]
            )
            found.notes.append(Message("{}, the closest option that frameworks offer", message))


def _world(found: Imported) -> None:
    """The sizes of groups need not agree with the GPUs there; launchers derive data parallelism from the GPUs."""
    hardware, parallelism = found.section("hardware"), found.section("parallelism")
    if hardware.pop("total_gpu_memory_gb", None) is not None:
        found.notes.append("hardware.total_gpu_memory_gb: ignored, because memory is counted per GPU")
    tensor, stages = (_count(parallelism, f"{name}_parallel_size") for name in ("tensor", "pipeline"))
    if parallelism.get("sequence_parallel") is True and tensor == 1:
        del parallelism["sequence_parallel"]
        found.notes.append("parallelism.sequence_parallel has no effect without tensor parallelism: ignored")
    if "num_gpus" not in hardware or "data_parallel_size" not in parallelism:
        return
    gpus, data = _count(hardware, "num_gpus"), _count(parallelism, "data_parallel_size")
    if gpus is None or data is None or tensor is None or stages is None:
        return
    if gpus != data * tensor * stages:
        del parallelism["data_parallel_size"]
        product = f"{tensor} × {stages} × {data}"
        found.notes.append(
            Message(
                "hardware.num_gpus {} is not the product of the parallel sizes {}: the data-parallel size is "
                "derived from the number of GPUs, as launchers do",
                gpus,
                product,
            )
        )


def _model(found: Imported) -> None:
    model = found.section("model")
    if model.pop("largest_layer_params", None) is not None:
        found.notes.append("model.largest_layer_params: ignored, memcore computes it from the model's sizes")
    if "max_seq_len" in model:
        found.section("training").setdefault("sequence_length", model["max_seq_len"])
    experts = {key: model.pop(key, None) for key in EXPERTS}
    hidden, heads = (_count(model, key, None) for key in ("hidden_size", "num_attention_heads"))
    if hidden and heads and hidden % heads:
        model["head_dim"] = _HEAD
        found.notes.append(
            Message("model.hidden_size {} is not divisible by {} heads: assumed heads of {}", hidden, heads, _HEAD)
        )
    if _routes(model.pop("moe_enabled", False)):
        found.config["model"] = _mixture(model, experts, found.notes)


def _routes(value: object) -> object:
    """Return whether experts are routed to."""
    try:
        return Flag().check(value)
    except ValueError as error:
        raise ConfigError.at("model.moe_enabled", str(error)) from None


def _mixture(model: Mapping[str, Any], experts: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return a mixture of experts in the words of Qwen2-MoE, or without a shared expert of Mixtral."""
    missing = [name for name in list(SIZES)[:3] if name not in model]
    if missing:
        raise ConfigError.at("model", "a mixture of experts needs {}", joined(", ", missing))
    sizes = {SIZES.get(key, key): value for key, value in model.items() if key not in ("name", "num_parameters")}
    wide = experts["expert_intermediate_size"] or 4 * (_count(sizes, "hidden_size") or 1)
    count, chosen = experts["num_experts"] or 8, experts["top_k"] or 2
    shared = experts["shared_expert_intermediate_size"]
    counted = shown(model.get("num_parameters")).strip("'")
    stated = Message("; the file states {}", counted) if "num_parameters" in model else ""
    notes.append(
        Message("model: mixture of experts with equal numbers of key and query heads, counted from its sizes{}", stated)
    )
    named = {"_name": model["name"]} if "name" in model else {}
    if not shared:
        family = {"model_type": "mixtral", "num_local_experts": count, "num_experts_per_tok": chosen}
        kv_heads = {"num_key_value_heads": sizes.get("num_attention_heads")}
        return {**named, **family, **kv_heads, "intermediate_size": wide, **sizes}
    values = {"num_experts": count, "top_k": chosen, "expert_intermediate_size": wide}
    values["shared_expert_intermediate_size"] = shared
    renamed = {EXPERTS[key]: value for key, value in values.items()}
    return {
        **named,
        "model_type": "qwen2_moe",
        "num_key_value_heads": sizes.get("num_attention_heads"),
        **renamed,
        **sizes,
    }
