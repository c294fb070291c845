"""torchtitan's files, and what training loops and accelerate say of FSDP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import (
    AUTOCAST,
    GPUS,
    IN_BACKWARD,
    MODEL,
    OFFLOAD,
    PER_NODE,
    PREPARED,
    RANKS,
    RESHARD,
    Normalized,
)
from memcore.formats.tool import Key, Meaning, Share, Tool
from memcore.messages import Message, joined
from memcore.tools.own_keys import DISPATCHER
from memcore.tools.sharding import PACKED_AS
from memcore.trainers.pytorch.automodel import AUTOMODEL
from memcore.trainers.pytorch.easyr1 import EASYR1
from memcore.trainers.pytorch.flavors import FLAVORS
from memcore.trainers.pytorch.foundry import FOUNDRY
from memcore.trainers.pytorch.prime_rl import PRIME_RL
from memcore.trainers.pytorch.registered import LOSS, REFUSED, ROOM, TELLS, configs, of_launch
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.titan_module import launch, module_of
from memcore.trainers.pytorch.torchtune import TORCHTUNE
from memcore.trainers.pytorch.verl import VERL
from memcore.trainers.pytorch.verl_sft import FORMER, VERL_SFT

_CHECKPOINTS = Training.activation_checkpointing

_COMPONENTS = (["model"], ["loss"], ["model", "loss"], ["loss", "model"])
_COMPILED = tuple(
    Meaning(
        sets={Training.compile: "model" in names, Training.compile_loss: "loss" in names} if enabled
        else {Training.compile: False},
        keys={"compile.components": names, "compile.enable": enabled},
    )
    for enabled in (True, False)
    for names in _COMPONENTS
)  # fmt: skip
"""`compile.enable` is of all that `compile.components` lists; without that, both, where the version has it."""

_IMPLEMENTATION, _WEIGHTS = "*implementation", "*weights"
MODE, BUDGET, BY_BUDGET = "activation_checkpoint.mode", "activation_checkpoint.memory_budget", "memory_budget"
_SHARDS, _COPIES = "parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree"
_LOSS_WHOLE, _CONVERTERS, _FUSED = "parallelism.disable_loss_parallel", "model.converters", "optimizer.implementation"
_GROUPS = ("parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree",
           "parallelism.context_parallel_degree")  # fmt: skip
_FORMER: Mapping[str, str] = {
    "training.data_parallel_degree": _SHARDS,
    "training.data_parallel_shard_degree": _SHARDS,
    "training.data_parallel_replicate_degree": _COPIES,
    "training.tensor_parallel_degree": _GROUPS[0],
    "training.disable_loss_parallel": _LOSS_WHOLE,
    "experimental.pipeline_parallel_degree": _GROUPS[1],
    "experimental.pipeline_parallel_schedule": "parallelism.pipeline_parallel_schedule",
    "experimental.context_parallel_degree": _GROUPS[2],
}
"""Keys of torchtitan's releases before `[parallelism]` (config_manager.py until March 2025), and where they are now."""


_EAGER = "training.disable_cuda_graphs"
_BATCHES, _USUAL_BATCH = ("training.local_batch_size", "training.batch_size"), 8
"""The sequences of a rank, and how many where nothing is said."""
_EACH, _GLOBAL = "parallelism.pipeline_parallel_microbatch_size", "training.global_batch_size"
_COUNTED = ("parallelism.pipeline_parallel_microbatches", "experimental.pipeline_parallel_microbatches")
_MICRO, _STEPS, _BEFORE, _PIPELINE = "*micro", "*steps", "*before", 2


def _of_former(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of earlier releases by their current names; where a file has both, the current one holds."""
    normalized = {**{_FORMER[key]: value for key, value in found.items() if key in _FORMER},
                  **{key: value for key, value in found.items() if key not in _FORMER}}  # fmt: skip
    if any(key.startswith("experimental.pipeline") for key in found):
        normalized[_BEFORE] = True
    shared = normalized.pop("training.enable_loss_parallel", None)
    if shared is not None:
        normalized.setdefault(_LOSS_WHOLE, not shared)
    eight = normalized.pop("float8.enable_float8_linear", normalized.pop("training.fp8_linear", None))
    if eight not in (None, False, "", "none"):
        normalized.setdefault(_CONVERTERS, ["float8"])
    fused = normalized.pop("optimizer.fused", None)
    if fused is not None:
        normalized.setdefault(_FUSED, "fused" if fused is True else "foreach")
    return normalized


def _of_copies(normalized: dict[str, Any]) -> tuple[str, ...]:
    """The ranks that shard the model within each copy, which are those left over where a file does not count them."""
    copies, shards = normalized.get(_COPIES), normalized.get(_SHARDS, -1)
    if copies is None or copies == 1:
        normalized.pop(_COPIES, None)
        return ()
    if not isinstance(copies, int) or not isinstance(shards, int) or copies < 1:
        return ()
    others = math.prod(size for size in (normalized.get(name, 1) for name in _GROUPS) if isinstance(size, int) and size)
    world = normalized.get(GPUS)
    if shards <= 0 and isinstance(world, int) and world % (copies * others) == 0:
        shards = normalized[_SHARDS] = world // (copies * others)
    if shards <= 0:
        return (Message("{} is {}: set the number of sharding ranks with --dp-shard", _COPIES, copies),)
    del normalized[_COPIES]
    normalized[RANKS] = copies * shards
    return ()


def _of_pipeline(normalized: dict[str, Any]) -> None:
    """The sequences of a stage's micro-batch, into which a rank's batch is split, and how many there are.

    Source: torchtitan, distributed/pipeline_parallel.py (`build_pipeline_schedule`: a micro-batch has one sequence
    where nothing else is said); until April 2025 as many micro-batches as there are stages (parallelisms/
    pipelining_utils.py).
    """
    stages = normalized.get(_GROUPS[1], 1)
    count = next((normalized.pop(name) for name in _COUNTED if normalized.get(name) is not None), None)
    each = normalized.pop(_EACH, None)
    batch = next((normalized[name] for name in _BATCHES if name in normalized), _USUAL_BATCH)
    if not isinstance(stages, int) or stages < _PIPELINE or not isinstance(batch, int):
        return
    if normalized.pop(_BEFORE, False) and count is None and each is None:
        count = stages
    size = batch // count if isinstance(count, int) and count > 0 else each or 1
    if not isinstance(size, int) or size < 1 or batch % size:
        raise ConfigError.at(_EACH, "found {}, which does not divide the {} sequences of a rank", size, batch)
    for name in _BATCHES:
        normalized.pop(name, None)
    normalized |= {_MICRO: size, _STEPS: batch // size}
    if isinstance(normalized.get(_GLOBAL), int):
        del normalized[_STEPS]  # what all ranks take in a step says it


def _pipelined(config: Config) -> dict[str, Any]:
    """Return what a rank takes in a step of a pipeline, and the sequences of its micro-batches."""
    stages = config.get(Parallelism.pipeline_parallel_size) or 1
    if stages < _PIPELINE:
        return {}
    each, steps = config.get(Training.micro_batch_size) or 1, config.get(Training.gradient_accumulation_steps)
    return {_BATCHES[0]: each * (steps or stages), _EACH: each}


def flavored(found: Mapping[str, Any]) -> Normalized:
    """torchtitan's flavor of a model, copies of the shards, and float8 products."""
    normalized = _of_former(found)
    found = dict(normalized)
    if REFUSED in found:
        raise UnsupportedError("model_spec", "found {}, which is not supported yet", found[REFUSED])
    flavor = {key: str(found.get(key)) for key in ("model.name", "model.flavor")}
    notes: tuple[str, ...] = ()
    if flavor["model.name"] == "llama4" and flavor["model.flavor"].endswith("_irope"):
        flavor["model.flavor"] = flavor["model.flavor"].removesuffix("_irope")
        notes = (Message("model.flavor {}: attention within blocks is counted as attention to all tokens",
                         found["model.flavor"]),)  # fmt: skip
    _of_hub(normalized)
    notes += _of_flavor(normalized, flavor)
    notes += _of_copies(normalized)
    _of_pipeline(normalized)
    converters = found.get(_CONVERTERS)
    listed = converters.split(",") if isinstance(converters, str) else converters
    if listed in ([], ["float8"]):
        normalized[_CONVERTERS] = ["quantize.linear.float8"] if listed else ""
    if found.get("training.dtype") == "bfloat16":
        normalized.setdefault("training.mixed_precision_reduce", "float32")  # config/job_config.py: Training
        if listed not in (None, []):
            normalized[_WEIGHTS] = "bf16"
            del normalized["training.dtype"]
    _of_mode(normalized)
    if normalized.get(_EAGER) is True:
        del normalized[_EAGER]  # graphs are not counted
    return normalized, notes


def _of_flavor(normalized: dict[str, Any], flavor: Mapping[str, str]) -> tuple[str, ...]:
    """Name the model of a flavor; a note on one of a fork's own."""
    name = next((full for full, keys in FLAVORS.items() if keys == flavor), None)
    if name is None and not (normalized.get("model.name") and normalized.get("model.flavor")):
        return ()
    for key in flavor:
        del normalized[key]
    if name is not None:
        normalized[MODEL] = name
        return ()
    known = [keys["model.flavor"] for keys in FLAVORS.values() if keys["model.name"] == flavor["model.name"]]
    if known:
        said = "model.flavor {} is not one of {}: name the model with --model"
        return (Message(said, flavor["model.flavor"], joined(", ", known)),)
    unknown = "model.flavor: the sizes of {!r} of {} are unknown; name the model with --model"
    return (Message(unknown, flavor["model.flavor"], flavor["model.name"]),)


def _of_hub(normalized: dict[str, Any]) -> None:
    """Name a model that transformers' own layers compute (experiments/transformers_modeling_backend)."""
    if normalized.get("model.name") == "transformers_modeling_backend" and "hf_transformers.model" in normalized:
        normalized |= {MODEL: normalized.pop("hf_transformers.model"), _IMPLEMENTATION: "transformers"}
        for name in ("model.name", "model.flavor"):
            normalized.pop(name, None)


def _of_mode(normalized: dict[str, Any]) -> None:
    """What torchtitan's mode of checkpoints reads: an option if it is selective, a budget if the compiler decides."""
    mode = normalized.get(MODE, "selective")
    if mode != "selective":
        normalized.pop("activation_checkpoint.selective_ac_option", None)
    if mode == BY_BUDGET:
        normalized[MODE] = "none"
        normalized.setdefault(BUDGET, 0.5)
    else:
        normalized.pop(BUDGET, None)


def _reduces(config: Config) -> dict[str, str]:
    """Return how gradients are reduced where weights are in bf16, which no key changes (`mixed_precision_reduce`)."""
    plain = config[Training.precision] == "bf16" and config[Training.reduce_dtype] is None
    return {Training.reduce_dtype: "torchtitan reduces gradients in fp32"} if plain else {}


TORCHTITAN = Tool(
    name="torchtitan",
    title="torchtitan",
    syntax="toml",
    engines=("fsdp",),
    implementations=("torchtitan",),
    called={EngineSettings.framework: "torchtitan"},
    tells=("parallelism.data_parallel_shard_degree", "activation_checkpoint.mode", "training.local_batch_size",
           "parallelism.tensor_parallel_degree", "model.flavor"),
    launch_of=launch,
    code=module_of,
    models=FLAVORS,
    copies="parallelism.data_parallel_replicate_degree",
    keys=(
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=Training.micro_batch_size, name=_BATCHES[0], also=(_BATCHES[1], _MICRO)),
        Key(path=Training.gradient_accumulation_steps, name=_STEPS),
        Key(path=Training.sequence_length, name="training.seq_len"),
        Key(path=Training.compile, name="compile.enable", also=(Training.compile,)),
        Key(
            path=Training.optimizer.implementation,
            name="optimizer.implementation",
            values={name: name for name in ("fused", "foreach", "for-loop")},
        ),
        Key(
            path=Training.optimizer.name,
            name="optimizer.name",
            values={"adamw": "AdamW", "adam": "Adam"},
        ),
        Key(path=Parallelism.data_parallel_shard_size, name="parallelism.data_parallel_shard_degree"),
        Key(path=Parallelism.tensor_parallel_size, name="parallelism.tensor_parallel_degree"),
        Key(path=Parallelism.pipeline_parallel_size, name="parallelism.pipeline_parallel_degree"),
        Key(path=Parallelism.context_parallel_size, name="parallelism.context_parallel_degree"),
        Key(path=Parallelism.expert_parallel_size, name="parallelism.expert_parallel_degree"),
        Key(path=Parallelism.expert_tensor_parallel_size, name="parallelism.expert_tensor_parallel_degree"),
        Key(
            path=TorchSettings.moe_token_dispatcher,
            name="parallelism.expert_parallel_comm_backend",
            values={"alltoall": "standard", "deepep": "deepep", "hybridep": "hybridep"},
        ),
        Key(path=TorchSettings.non_blocking_capacity_factor, name=ROOM),
        Key(
            path=Parallelism.pipeline_schedule,
            name="parallelism.pipeline_parallel_schedule",
            values={"1f1b": "1F1B", "gpipe": "GPipe", "interleaved-1f1b": "Interleaved1F1B", "zbv": "ZBVZeroBubble",
                    "dualpipev": "DualPipeV"},
        ),
        Key(
            path=TorchSettings.reshard_after_forward,
            name="parallelism.fsdp_reshard_after_forward",
            values={True: "always", False: "never"},
        ),
        Key(path=TorchSettings.cpu_offload, name="training.enable_cpu_offload"),
        Key(path=Parallelism.data_parallel_size, name=RANKS),
        Key(
            path=TorchSettings.enable_async_tensor_parallel,
            name="parallelism.enable_async_tensor_parallel",
            also=("experimental.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"),
        ),
        Key(
            path=TorchSettings.enable_fsdp_float8_all_gather,
            name="quantize.linear.float8.enable_fsdp_float8_all_gather",
            also=("float8.enable_fsdp_float8_all_gather",),
        ),
        Key(path=Training.parameter_dtype, name=_WEIGHTS),
        Key(path=Training.loss, name=LOSS),
        Key(path=Training.implementation, name=_IMPLEMENTATION),
        Key(
            path=Training.reduce_dtype,
            name="training.mixed_precision_reduce",
            values={"fp32": "float32", "bf16": "bfloat16"},
        ),
        Key(path=TorchSettings.optimizer_in_bwd, name="optimizer.early_step_in_backward"),
        Key(path=Training.activation_checkpointing.policy, name=MODE),
        Key(path=Training.activation_memory_budget, name=BUDGET),
    ),
    meanings=(
        Meaning(sets={Parallelism.loss_parallel: False}, keys={_LOSS_WHOLE: True}),
        Meaning(sets={_CHECKPOINTS.mode: "op"}, keys={"activation_checkpoint.selective_ac_option": "op"}
        ),
        Meaning(sets={_CHECKPOINTS.every: 2}, keys={"activation_checkpoint.selective_ac_option": "2"}),
        Meaning(sets={_CHECKPOINTS.every: 1}, keys={"activation_checkpoint.selective_ac_option": "1"}),
        *_COMPILED,
        Meaning(sets={Training.precision: "fp32"}, keys={"training.mixed_precision_param": "float32"}),
        Meaning(sets={Training.precision: "bf16"}, keys={"training.dtype": "bfloat16"}),
        Meaning(sets={Training.precision: "fp8-mixed"}, keys={"model.converters": ["quantize.linear.float8"]}),
    ),
    model=MODEL,
    normalized=flavored,
    alongside={BUDGET: (MODE, BY_BUDGET)},
    batch=_GLOBAL,
    written=_pipelined,
    defaults={Training.micro_batch_size: 8, Training.sequence_length: 2048,
              Training.implementation: "torchtitan", Training.activation_checkpointing.policy: "selective"},
    unsaid={Training.precision: "bf16-mixed"},
    wants=_reduces,
    ignored=("job.*", "profiling.*", "metrics.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "validation.*",
             "activation_checkpoint.visualize_memory_budget_pareto",
             "optimizer.lr", "optimizer.eps", "training.steps", "training.max_norm", "training.dataset",
             "training.dump_folder", "model.hf_assets_path", "model.tokenizer_path",
             "model.print_after_conversion", "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
             "quantize.linear.float8.filter_fqns", "training.gc_freq", "training.warmup_steps",
             "float8.filter_fqns",
             "float8.precompute_float8_dynamic_scale_for_fsdp"),
    settles=("model.name", "model.flavor", "model.converters", _COPIES, *_FORMER, _EACH, *_COUNTED, *_BATCHES,
             "training.enable_loss_parallel", "num_pp_microbatches", "num_tokens_per_*",
             "float8.enable_float8_linear", "training.fp8_linear", "optimizer.fused"),
    vocabulary=("torchtitan",),
    source="torchtitan, config/job_config.py",
)  # fmt: skip


TOOLS = (TORCHTITAN, TORCHTUNE, AUTOMODEL, FOUNDRY, VERL, VERL_SFT, FORMER, EASYR1, PRIME_RL)
MODULES = {TELLS: configs}
"""Python modules that hold configs, by what tells them."""
LAUNCHES = (of_launch,)
"""Commands that name a config which the tool itself has."""
SHARES: Mapping[str, Share] = {
    "normalized": Share(
        keys=(
            Key(path=TorchSettings.reshard_after_forward, name=RESHARD),
            Key(path=TorchSettings.cpu_offload, name=OFFLOAD),
        ),
    ),
    "loops": Share(
        keys=(Key(path=TorchSettings.optimizer_in_bwd, name=IN_BACKWARD),),
        meanings=(
            *(
                Meaning(
                    sets={TorchSettings.reshard_after_forward: each, EngineSettings.version: 2},
                    keys={"fsdp_config.reshard_after_forward": each},
                )
                for each in (True, False)
            ),
            Meaning(sets={TorchSettings.cpu_offload: True}, keys={"fsdp_config.offload_params": True}),
        ),
    ),
    "scripts": Share(
        keys=(
            Key(path=TorchSettings.prepare_model_for_kbit_training, name=PREPARED),
            Key(path=TorchSettings.autocast, name=AUTOCAST),
            Key(
                path=TorchSettings.bnb_4bit_quant_storage,
                name=PACKED_AS,
                values={"float": "bfloat16", "uint8": "uint8"},
            ),
        )
    ),
    "axolotl": Share(
        keys=(
            Key(path=TorchSettings.quantize_moe_experts, name="quantize_moe_experts"),
            Key(path=TorchSettings.moe_token_dispatcher, name=DISPATCHER),
        )
    ),
    "accelerate": Share(
        keys=(Key(path=TorchSettings.cpu_offload, name="fsdp_config.fsdp_offload_params"),),
        meanings=tuple(
            Meaning(
                sets={TorchSettings.reshard_after_forward: each, EngineSettings.version: version},
                keys={f"fsdp_config.fsdp_{name}": word},
            )
            for version, name, words in (
                (2, "reshard_after_forward", {True: True, False: False}),
                (1, "sharding_strategy", {True: "FULL_SHARD", False: "SHARD_GRAD_OP"}),
            )
            for each, word in words.items()
        ),
    ),
}
"""What tools of several engines say of FSDP (`memcore.tools.fine_tuning`)."""
