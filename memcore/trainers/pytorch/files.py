"""torchtitan's files, and what training loops and accelerate say of FSDP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, IN_BACKWARD, MODEL, OFFLOAD, PER_NODE, RANKS, RESHARD, Normalized
from memcore.formats.tool import Key, Meaning, Share, Tool
from memcore.messages import Message, joined
from memcore.tools.own_keys import DISPATCHER
from memcore.trainers.pytorch.automodel import AUTOMODEL
from memcore.trainers.pytorch.easyr1 import EASYR1
from memcore.trainers.pytorch.foundry import FOUNDRY
from memcore.trainers.pytorch.registered import LOSS, REFUSED, STEPS, TELLS, configs, of_launch
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
FLAVORS: Mapping[str, Mapping[str, str]] = {
    full: {"model.name": name, "model.flavor": size}
    for name, start, sizes in (
        ("llama3", "meta-llama/Llama-3.1", ("8B", "70B", "405B")),
        ("qwen3", "Qwen/Qwen3", ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V3", ("671B",)),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V2", ("236B",)),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V2-Lite", ("16B",)),
        ("llama4", "meta-llama/Llama-4-Scout-17B-16E", ("17bx16e",)),
        ("llama4", "meta-llama/Llama-4-Maverick-17B-128E", ("17bx128e",)),
    )
    for size in sizes
    for full in ([start] if name in ("deepseek_v3", "llama4") else [f"{start}-{size}"])
}
"""torchtitan's flavors (models/*/__init__.py) that are models of the catalog, or of the same sizes."""


def flavored(found: Mapping[str, Any]) -> Normalized:
    """torchtitan's flavor of a model, copies of the shards, and float8 products."""
    normalized = dict(found)
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
    copies, shards = (
        found.get("parallelism.data_parallel_replicate_degree"),
        found.get("parallelism.data_parallel_shard_degree", -1),
    )
    if copies == 1:
        del normalized["parallelism.data_parallel_replicate_degree"]
    elif isinstance(copies, int) and isinstance(shards, int) and shards > 0:
        del normalized["parallelism.data_parallel_replicate_degree"]
        normalized[RANKS] = copies * shards
    converters = found.get("model.converters")
    listed = converters.split(",") if isinstance(converters, str) else converters
    if listed in ([], ["float8"]):
        normalized["model.converters"] = ["quantize.linear.float8"] if listed else ""
    if found.get("training.dtype") == "bfloat16":
        normalized.setdefault("training.mixed_precision_reduce", "float32")  # config/job_config.py: Training
        if listed not in (None, []):
            normalized[_WEIGHTS] = "bf16"
            del normalized["training.dtype"]
    _of_mode(normalized)
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
    tells=("parallelism.data_parallel_shard_degree", "activation_checkpoint.mode", "training.local_batch_size",
           "parallelism.tensor_parallel_degree", "model.flavor"),
    launch_of=lambda config: launch(config, FLAVORS),
    code=module_of,
    models=FLAVORS,
    copies="parallelism.data_parallel_replicate_degree",
    keys=(
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=Training.micro_batch_size, name="training.local_batch_size", also=("training.batch_size",)),
        Key(path=Training.sequence_length, name="training.seq_len"),
        Key(path=Training.gradient_accumulation_steps, name=STEPS),
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
    batch="training.global_batch_size",
    defaults={Training.micro_batch_size: 8, Training.sequence_length: 2048,
              Training.implementation: "torchtitan", Training.activation_checkpointing.policy: "selective"},
    unsaid={Training.precision: "bf16-mixed"},
    wants=_reduces,
    ignored=("job.*", "profiling.*", "metrics.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "validation.*",
             "activation_checkpoint.visualize_memory_budget_pareto",
             "optimizer.lr", "optimizer.eps", "training.steps", "training.max_norm", "training.dataset",
             "training.dump_folder", "model.hf_assets_path", "model.tokenizer_path",
             "model.print_after_conversion", "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
             "quantize.linear.float8.filter_fqns"),
    settles=("model.name", "model.flavor", "model.converters", "parallelism.data_parallel_replicate_degree"),
    vocabulary=("torchtitan",),
    source="torchtitan, config/job_config.py",
)  # fmt: skip
TOOLS = (TORCHTITAN, TORCHTUNE, AUTOMODEL, FOUNDRY, VERL, VERL_SFT, FORMER, EASYR1)
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
            Meaning(sets={TorchSettings.reshard_after_forward: True}, keys={"fsdp_config.reshard_after_forward": True}),
            Meaning(
                sets={TorchSettings.reshard_after_forward: False}, keys={"fsdp_config.reshard_after_forward": False}
            ),
            Meaning(sets={TorchSettings.cpu_offload: True}, keys={"fsdp_config.offload_params": True}),
        ),
    ),
    "axolotl": Share(
        keys=(
            Key(path=TorchSettings.quantize_moe_experts, name="quantize_moe_experts"),
            Key(path=TorchSettings.moe_token_dispatcher, name=DISPATCHER),
        )
    ),
    "accelerate": Share(
        keys=(
            Key(path=TorchSettings.reshard_after_forward, name="fsdp_config.fsdp_reshard_after_forward"),
            Key(path=TorchSettings.cpu_offload, name="fsdp_config.fsdp_offload_params"),
        ),
    ),
}
"""What tools of several engines say of FSDP (`memcore.tools.fine_tuning`)."""
