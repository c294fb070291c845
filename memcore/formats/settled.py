"""What several keys of a file mean together, for tools whose words a table alone cannot give.

A file's keys are replaced by plain ones that begin with `*`, which the tables name; what is not understood stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.errors import MemcoreError
from memcore.messages import Message, joined
from memcore.networks.catalog import find_model
from memcore.networks.usual_targets import targets_of_peft

GPUS = "*gpus"
"""The key of the processes that a launcher starts."""
PER_NODE = "*per_node"
"""The key of those on each of several nodes."""
Settled = tuple[Mapping[str, Any], tuple[str, ...]]
ENGINE, VERSION, RESHARD, OFFLOAD, CHECKPOINTS = "*engine", "*version", "*reshard", "*offload", "*checkpoints"
STAGE, OPTIMIZER, PARAMETERS, RANKS, MODEL = "*stage", "*optimizer", "*parameters", "*ranks", "*"
MODE, BUDGET, BY_BUDGET = "activation_checkpoint.mode", "activation_checkpoint.memory_budget", "memory_budget"
_STRATEGIES: Mapping[object, bool] = {
    "FULL_SHARD": True, "1": True, "SHARD_GRAD_OP": False, "2": False, "HYBRID_SHARD": True, "4": True,
    "HYBRID_SHARD_ZERO2": False, "5": False,
}  # fmt: skip
"""FSDP's strategies by name and by number, and whether parameters are resharded after the forward pass."""
_REPLICATED, _HYBRID = ("NO_SHARD", "3"), ("HYBRID_SHARD", "4", "HYBRID_SHARD_ZERO2", "5")
_ZERO = re.compile(r"z(?:ero)?_?([0-3])")
_NO_MATTER = ("state_dict_type", "cpu_ram_efficient_loading", "sync_module_states", "transformer_layer_cls_to_wrap",
              "min_num_params", "use_orig_params", "limit_all_gathers", "forward_prefetch", "xla", "xla_fsdp_v2",
              "final_state_dict_type")  # fmt: skip
_OWN_CHECKPOINTS = tuple(
    f"activation_checkpointing.{name}"
    for name in ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization")
)
_BY_LAYER = "TRANSFORMER_BASED_WRAP"
FLAVORS: Mapping[str, Mapping[str, str]] = {
    full: {"model.name": name, "model.flavor": size}
    for name, start, sizes in (
        ("llama3", "meta-llama/Llama-3.1", ("8B", "70B", "405B")),
        ("qwen3", "Qwen/Qwen3", ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V3", ("671B",)),
    )
    for size in sizes
    for full in ([start] if name == "deepseek_v3" else [f"{start}-{size}"])
}
"""torchtitan's flavors (models/*/__init__.py) that are models of the catalog."""


def sharded(found: Mapping[str, Any]) -> Settled:
    """`fsdp` and `deepspeed` of the Trainer and its relatives.

    Source: transformers, training_args.py (fsdp, fsdp_config: version 1 where none is given).
    """
    settled = {key: value for key, value in found.items() if not key.startswith(("fsdp", "deepspeed"))}
    notes: list[str] = []
    words = found.get("fsdp") or ()
    words = words.split() if isinstance(words, str) else [str(each) for each in words] if words is not True else []
    given = _of_fsdp(found, "fsdp_config.", "fsdp_version")
    if words or given:
        strategy = next((each.upper() for each in words if each.upper() in (*_STRATEGIES, *_REPLICATED)), None)
        plain, more = _fsdp({**({"sharding_strategy": strategy} if strategy else {}), **given}, "offload" in words)
        settled |= plain
        notes += more
    other = found.get("deepspeed")
    if isinstance(other, str):
        plain, more = _zero(other)
        settled |= plain
        notes += more
    inside = {key: value for key, value in found.items() if key.startswith("deepspeed.")}
    settled |= {**inside, ENGINE: "deepspeed"} if inside else {}
    if ENGINE not in settled and found.get(GPUS, 1) != 1:
        settled[ENGINE] = "ddp"
        notes.append("several processes without FSDP or DeepSpeed: taken as DDP")
    return settled, tuple(notes)


def of_trl(found: Mapping[str, Any]) -> Settled:
    """The Trainer's words, and the layers that PEFT adapts where TRL's `lora_target_modules` is absent."""
    settled, notes = sharded(found)
    name = found.get("model_name_or_path")
    if found.get("use_peft") is not True or found.get("lora_target_modules") or not isinstance(name, str):
        return settled, notes
    try:
        family = find_model(name).network.family
    except MemcoreError:
        return settled, notes
    targets = list(targets_of_peft(family))
    if not targets:
        return settled, (
            *notes,
            Message("lora_target_modules: PEFT has none of its own for {}; taken as all-linear", family),
        )
    note = Message("lora_target_modules: not given; PEFT's for {}: {}", family, joined(", ", targets))
    return {**settled, "lora_target_modules": targets}, (*notes, note)


def accelerated(found: Mapping[str, Any]) -> Settled:
    """accelerate's keys of FSDP, whose absent version is the first.

    Source: accelerate, utils/dataclasses.py, FullyShardedDataParallelPlugin.
    """
    if str(found.get("distributed_type")) == "DEEPSPEED":
        return _accelerated_zero(found)
    if str(found.get("distributed_type")) != "FSDP":
        return found, ()
    settled = {key: value for key, value in found.items() if not key.startswith("fsdp_config.")}
    plain, notes = _fsdp(_of_fsdp(found, "fsdp_config."), False)
    return {**settled, **plain}, tuple(notes)


def _accelerated_zero(found: Mapping[str, Any]) -> Settled:
    """accelerate's keys of DeepSpeed: stage 2 where none is said, unless another file says it.

    Source: accelerate, utils/dataclasses.py, DeepSpeedPlugin (`zero_stage`, `hf_ds_config`).
    """
    name = found.get("deepspeed_config.deepspeed_config_file")
    if isinstance(name, str):
        plain, notes = _zero(name)
        return {**found, **plain}, tuple(notes)
    return {"deepspeed_config.zero_stage": 2, **found}, ()


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
    """What the name of a DeepSpeed file says."""
    stage = _ZERO.search(path.rsplit("/", 1)[-1])
    if stage is None:
        return {ENGINE: "deepspeed"}, [
            Message("deepspeed: {} is another file; it was not imported, so its ZeRO stage is unknown", path)
        ]
    plain: dict[str, Any] = {ENGINE: "deepspeed", STAGE: int(stage[1])}
    if "offload" in path:
        plain |= {OPTIMIZER: "cpu"} | ({PARAMETERS: "cpu"} if stage[1] == "3" else {})
    return plain, [Message("deepspeed: {} is another file; its name suggests ZeRO stage {}", path, stage[1])]


_SECTION = "zero_optimization"
BY_WIDTH = "*by_width"
WIDTHS: Mapping[str, int] = {
    "reduce_bucket_size": 500_000_000,
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
}
"""Sizes that transformers' Trainer makes of the model's width where a file says `auto`, and DeepSpeed's own."""
_DEPRECATED: Mapping[str, tuple[str, object]] = {
    _SECTION: (f"{_SECTION}.stage", 1),
    f"{_SECTION}.cpu_offload": (f"{_SECTION}.offload_optimizer.device", "cpu"),
    f"{_SECTION}.cpu_offload_param": (f"{_SECTION}.offload_param.device", "cpu"),
}
"""DeepSpeed's older keys that are true or false, and what they are today (runtime/zero/config.py)."""


def automatic(found: Mapping[str, Any]) -> Settled:
    """DeepSpeed's files for the Trainer leave the precision to it, and nobody but Megatron calls its checkpoints."""
    settled = dict(found)
    notes: list[str] = []
    for name, (today, value) in _DEPRECATED.items():
        if settled.get(name) is not None and settled.pop(name) is True:
            settled.setdefault(today, value)
    left = [name for name in WIDTHS if found.get(f"{_SECTION}.{name}") == "auto"]
    if left:
        settled[BY_WIDTH] = True
        for name in WIDTHS:
            if name in left:
                del settled[f"{_SECTION}.{name}"]
            elif settled.get(f"{_SECTION}.stage") == 3 or not name.startswith("stage3"):
                settled.setdefault(f"{_SECTION}.{name}", WIDTHS[name])
        notes.append(Message("{}: auto, which the Trainer makes of the model's width", joined(", ", left)))
    if found.get("bf16.enabled") == "auto" and found.get("fp16.enabled") is not True:
        settled["bf16.enabled"] = True
        notes.append("bf16.enabled is 'auto': the trainer decides, bf16 is assumed")
    unused = [name for name in _OWN_CHECKPOINTS if settled.pop(name, False)]
    notes += [Message("{} is left out: only Megatron-DeepSpeed calls deepspeed.checkpointing", name) for name in unused]
    return settled, tuple(notes)


def flavored(found: Mapping[str, Any]) -> Settled:
    """torchtitan's flavor of a model, copies of the shards, and float8 products."""
    settled = dict(found)
    flavor = {key: str(found.get(key)) for key in ("model.name", "model.flavor")}
    name = next((full for full, keys in FLAVORS.items() if keys == flavor), None)
    if name is not None:
        settled |= {MODEL: name}
        del settled["model.name"], settled["model.flavor"]
    copies, shards = (
        found.get("parallelism.data_parallel_replicate_degree"),
        found.get("parallelism.data_parallel_shard_degree", -1),
    )
    if copies == 1:
        del settled["parallelism.data_parallel_replicate_degree"]
    elif isinstance(copies, int) and isinstance(shards, int) and shards > 0:
        del settled["parallelism.data_parallel_replicate_degree"]
        settled[RANKS] = copies * shards
    converters = found.get("model.converters")
    listed = converters.split(",") if isinstance(converters, str) else converters
    if listed in ([], ["float8"]):
        settled["model.converters"] = ["quantize.linear.float8"] if listed else ""
    _of_mode(settled)
    return settled, ()


def _of_mode(settled: dict[str, Any]) -> None:
    """What torchtitan's mode of checkpoints reads: an option if it is selective, a budget if the compiler decides."""
    mode = settled.get(MODE, "selective")
    if mode != "selective":
        settled.pop("activation_checkpoint.selective_ac_option", None)
    if mode == BY_BUDGET:
        settled[MODE] = "none"
        settled.setdefault(BUDGET, 0.5)
    else:
        settled.pop(BUDGET, None)
