"""FSDP and DeepSpeed in the words of the Hugging Face Trainer, of TRL and of accelerate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.formats.normalized import (
    CHECKPOINTS,
    ENGINE,
    GPUS,
    OFFLOAD,
    OPTIMIZER,
    PARAMETERS,
    RESHARD,
    STAGE,
    VERSION,
    Normalized,
)
from memcore.messages import Message, joined
from memcore.networks.catalog import find_model
from memcore.networks.usual_targets import targets_of_peft
from memcore.trace.engine import engine_of

_STRATEGIES: Mapping[object, bool] = {
    "FULL_SHARD": True, "1": True, "SHARD_GRAD_OP": False, "2": False, "HYBRID_SHARD": True, "4": True,
    "HYBRID_SHARD_ZERO2": False, "5": False,
}  # fmt: skip
"""FSDP's strategies by name and by number, and whether parameters are resharded after the forward pass."""
_REPLICATED, _HYBRID = ("NO_SHARD", "3"), ("HYBRID_SHARD", "4", "HYBRID_SHARD_ZERO2", "5")
_ZERO = re.compile(r"(?:z(?:ero)?|stage)_?([0-3])")
_OFFLOADS = re.compile(r"(?<!no_)(?<!no-)(?<!without_)offload")
_NO_MATTER = ("state_dict_type", "cpu_ram_efficient_loading", "sync_module_states", "transformer_layer_cls_to_wrap",
              "min_num_params", "use_orig_params", "limit_all_gathers", "forward_prefetch", "xla", "xla_fsdp_v2",
              "final_state_dict_type")  # fmt: skip
_BY_LAYER = "TRANSFORMER_BASED_WRAP"
_PER_PARAMETER = "2"
"""The version of FSDP that shards each parameter."""
_APART = (
    "fsdp_activation_checkpointing: treated as checkpoints around layers, as accelerate 1.15 has them with FSDP 2; "
    "for accelerate 1.8 to 1.14, which keeps four tensors of each layer, set training.activation_checkpointing to "
    "policy selective and mode part"
)
"""Source: accelerate, utils/fsdp_utils.py (`fsdp2_apply_ac`), in the wheels of 1.7, 1.8, 1.14 and 1.15."""


PACKED_AS = "bnb_4bit_quant_storage"


def packed_as(config: Config) -> Mapping[str, Any]:
    """Return the key that packs 4-bit weights in floats where ranks may shard them: integers stay whole on every rank.

    Source: accelerate 1.15, utils/fsdp_utils.py (`incompatible_params4bit`); peft, docs/source/accelerate/fsdp.md and
    deepspeed.md. It changes no bytes of a rank that has the whole matrix.
    """
    four_bits = str(config[Training.quantization]).startswith(("nf4", "fp4"))
    if not four_bits or (config[Hardware.num_gpus] or 1) == 1:
        return {}
    return {PACKED_AS: "float16" if str(config[Training.precision]).startswith("fp16") else "bfloat16"}


def unmixed(config: Config) -> Mapping[str, Any]:
    """Return the key without which accelerate trains weights that FSDP shards in fp32 (accelerator.py)."""
    engine, whole = config[EngineSettings.type], config[Training.adapter.type] is None
    shards = engine in registry.TRAINERS and engine_of(engine).shards
    return {"bf16": False} if shards and whole and config[Training.precision] == "bf16" else {}


def of_packing(normalized: dict[str, Any]) -> tuple[str, ...]:
    """Settle how 4-bit weights are packed where FSDP does not shard integers; return what is said of it.

    Sources: trl/trainer/utils.py since 0.26 (`get_quantization_config`) and transformers, utils/quantization_config.py
    (`uint8` where nothing is said); accelerate since 1.14, utils/fsdp_utils.py (`incompatible_params4bit`);
    torch/distributed/fsdp/_flat_param.py ("Cannot flatten integer dtype tensors").
    """
    packed = str(normalized.pop(PACKED_AS, None))
    if VERSION not in normalized or normalized.get("load_in_4bit") is not True or "float" in packed:
        return ()
    if str(normalized[VERSION]) != _PER_PARAMETER:
        return (_IN_INTEGERS,)
    normalized[PACKED_AS] = "uint8"
    return (_WHOLE,)


_IN_INTEGERS = (
    "bnb_4bit_quant_storage: 4-bit weights are taken to be packed in floats, which FSDP shards; in integers, as where "
    "nothing is said, FSDP1 does not start"
)
_WHOLE = (
    "bnb_4bit_quant_storage: FSDP2 leaves all 4-bit weights on every GPU, as they are packed in integers; "
    "bfloat16 lets it shard them"
)
SEVERAL = "several processes without FSDP or DeepSpeed: treated as DDP"


def sharded(found: Mapping[str, Any]) -> Normalized:
    """`fsdp` and `deepspeed` of the Trainer and its relatives.

    Source: transformers, training_args.py (fsdp, fsdp_config: version 1 where none is given).
    """
    normalized = {key: value for key, value in found.items() if not key.startswith(("fsdp", "deepspeed"))}
    notes: list[str] = []
    words = found.get("fsdp") or ()
    words = words.split() if isinstance(words, str) else [str(each) for each in words] if words is not True else []
    given = _of_fsdp(found, "fsdp_config.", "fsdp_version")
    if words or given:
        strategy = next((each.upper() for each in words if each.upper() in (*_STRATEGIES, *_REPLICATED)), None)
        plain, more = _fsdp({**({"sharding_strategy": strategy} if strategy else {}), **given}, "offload" in words)
        normalized |= plain
        notes += more
    if isinstance(found.get("fsdp_config"), str) and (words or given):
        notes.append(Message("fsdp_config: {} is a separate file; its content is not read", found["fsdp_config"]))
    other = found.get("deepspeed")
    if isinstance(other, str):
        plain, more = _zero(other)
        normalized |= plain
        notes += more
    inside = {key: value for key, value in found.items() if key.startswith("deepspeed.")}
    normalized |= {**inside, ENGINE: "deepspeed"} if inside else {}
    if ENGINE not in normalized and found.get(GPUS, 1) != 1:
        normalized[ENGINE] = "ddp"
        notes.append(SEVERAL)
    return normalized, tuple(notes)


def of_trl(found: Mapping[str, Any]) -> Normalized:
    """The Trainer's words, and the layers that PEFT adapts where TRL's `lora_target_modules` is absent."""
    normalized, notes = sharded(found)
    name = found.get("model_name_or_path")
    if found.get("use_peft") is not True or found.get("lora_target_modules") or not isinstance(name, str):
        return normalized, notes
    try:
        family = find_model(name).network.family
    except MemcoreError:
        return normalized, notes
    targets = list(targets_of_peft(family))
    if not targets:
        return normalized, (
            *notes,
            Message("lora_target_modules: PEFT has no default for {}; treated as all-linear", family),
        )
    note = Message("lora_target_modules: not given; PEFT's defaults for {}: {}", family, joined(", ", targets))
    return {**normalized, "lora_target_modules": targets}, (*notes, note)


def accelerated(found: Mapping[str, Any]) -> Normalized:
    """accelerate's keys of FSDP, whose absent version is the first.

    Source: accelerate, utils/dataclasses.py, FullyShardedDataParallelPlugin.
    """
    if str(found.get("distributed_type")) == "DEEPSPEED":
        return _accelerated_zero(found)
    if str(found.get("distributed_type")) != "FSDP":
        return found, ()
    normalized = {key: value for key, value in found.items() if not key.startswith("fsdp_config.")}
    plain, notes = _fsdp(_of_fsdp(found, "fsdp_config."), False)
    return {**normalized, **plain}, tuple(notes)


def _accelerated_zero(found: Mapping[str, Any]) -> Normalized:
    """accelerate's keys of DeepSpeed: stage 2 where none is said, unless another file says it.

    Source: accelerate, utils/dataclasses.py, DeepSpeedPlugin (`zero_stage`, `hf_ds_config`).
    """
    found, said = _accelerated_ranks(found)
    name = found.get("deepspeed_config.deepspeed_config_file")
    if isinstance(name, str):
        plain, notes = _zero(name)
        return _whole({**found, **plain}), (*said, *notes)
    return _whole({"deepspeed_config.zero_stage": 2, **found}), said


def _whole(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out that weights are in host memory where they are not sharded (deepspeed, runtime/zero/config.py)."""
    if plain.get("*stage", plain.get("deepspeed_config.zero_stage")) == _WEIGHTS:
        return plain
    return {name: value for name, value in plain.items() if name != "deepspeed_config.offload_param_device"}


_RANKS = "parallelism_config.parallelism_config_"


def _accelerated_ranks(found: Mapping[str, Any]) -> Normalized:
    """The groups of ranks next to ZeRO, which shards over all that have the same layers.

    Source: accelerate, parallelism_config.py (`sp_backend` "deepspeed": Ulysses; `dp_shard_size` only sizes its mesh).
    """
    if f"{_RANKS}dp_shard_size" not in found:
        return found, ()
    kept = {name: value for name, value in found.items() if name != f"{_RANKS}dp_shard_size"}
    if found[f"{_RANKS}dp_shard_size"] in (1, None):
        return kept, ()
    return kept, ("ZeRO shards over all data-parallel ranks, so parallelism_config_dp_shard_size has no effect",)


_WEIGHTS = 3
"""The stage that shards weights."""


def _of_fsdp(found: Mapping[str, Any], *prefixes: str) -> dict[str, Any]:
    """FSDP's keys by their names alone."""
    return {
        key.removeprefix("fsdp_config.").removeprefix("fsdp_"): value
        for key, value in found.items()
        if key.startswith(prefixes)
    }


def _fsdp(given: Mapping[str, Any], offload: bool) -> tuple[dict[str, Any], list[str]]:
    """Plain keys of FSDP, and notes; what is not understood keeps its name."""
    left, notes = dict(given), []
    version = left.pop("version", 1)
    plain: dict[str, Any] = {ENGINE: "fsdp", VERSION: version}
    strategy = str(left.pop("sharding_strategy", "")).upper()
    resharded = left.pop("reshard_after_forward", None)
    if not isinstance(resharded, bool | None):
        strategy, resharded = str(resharded).upper(), None
    if strategy in _REPLICATED:
        plain = {ENGINE: "ddp"}
    elif resharded is not None or strategy in _STRATEGIES:
        resharded = _STRATEGIES[strategy] if resharded is None else resharded
        plain |= {} if resharded and version == 1 else {RESHARD: resharded}
    elif strategy:
        left["sharding_strategy"] = strategy
    if strategy in _HYBRID:
        notes.append("hybrid sharding: parameters are sharded within a node; set the number of ranks with --dp-shard")
    if left.pop("offload_params", False) or offload:
        plain[OFFLOAD] = True
    if left.pop("activation_checkpointing", False):
        plain[CHECKPOINTS] = True
        notes += [_APART] if str(version) == _PER_PARAMETER and strategy not in _REPLICATED else []
    wrapped = str(left.pop("auto_wrap_policy", _BY_LAYER))
    if wrapped != _BY_LAYER:
        notes.append(
            Message(
                "fsdp_auto_wrap_policy is {}; each layer is assumed to be one unit, which needs less memory", wrapped
            )
        )
    if left.get("backward_prefetch") == "BACKWARD_PRE":
        left.pop("backward_prefetch")
    plain |= {f"fsdp_config.{key}": value for key, value in left.items() if key not in _NO_MATTER}
    return plain, notes


def _zero(path: str) -> tuple[dict[str, Any], list[str]]:
    """Return what the name of a DeepSpeed file says."""
    stage = _ZERO.search(path.rsplit("/", 1)[-1])
    if stage is None:
        return {ENGINE: "deepspeed"}, [
            Message("deepspeed: {} is a separate file; give it too, as its ZeRO stage is unknown", path)
        ]
    plain: dict[str, Any] = {ENGINE: "deepspeed", STAGE: int(stage[1])}
    if _OFFLOADS.search(path):
        plain |= {OPTIMIZER: "cpu"} | ({PARAMETERS: "cpu"} if stage[1] == "3" else {})
    return plain, [Message("deepspeed: {} is a separate file; its name suggests ZeRO stage {}", path, stage[1])]
