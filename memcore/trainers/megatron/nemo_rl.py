"""NeMo RL's configs: the update of the policy under FSDP2 or with Megatron-Core, in the words of its files.

Source: NeMo RL 0.6.0rc0, examples/configs/*.yaml; nemo_rl/models/automodel/setup.py (weights in fp32 under FSDP2, which
computes in `precision` and reduces in fp32; FlashAttention); nemo_rl/models/megatron/setup.py
(`_apply_performance_config`: full recomputation is uniform, one layer at a time); nemo_rl/algorithms/dpo.py (a pair is
two sequences; log-probabilities of the reference are there before the update); nemo_rl/distributed/virtual_cluster.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key, Tool
from memcore.messages import Message, joined
from memcore.tools.derived import gpus_of
from memcore.tools.vocabulary import MAPPED, class_of, vocabulary
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.swift import ADAPTED, ADAPTER, ARGUMENTS, DROPOUT, MEGATRON_SWIFT, RANK, TARGETS
from memcore.trainers.pytorch.settings import TorchSettings

_POLICY, _MEGATRON, _TENSOR = "policy.", "policy.megatron_cfg.", "policy.dtensor_cfg."
_DDP, _OPTIMIZER = f"{_MEGATRON}distributed_data_parallel_config.", f"{_MEGATRON}optimizer."
_ALGORITHMS: Mapping[str, str | None] = {
    "dpo": "dpo", "rm": "reward", "grpo": "grpo", "distillation": "grpo", "sft": None,
}  # fmt: skip
"""By the section that says the loop, the method; None for supervised training."""
_TABLE = ("nemo-rl",)
_OTHERS = ("ppo", "value")
_NOTES: Mapping[str, list[str]] = {
    "grpo": ["only the update is counted, not generation"],
    "distillation": [
        "only the update is counted, not generation",
        (
            "distillation: the teacher leaves the GPU before the update; "
            "probabilities of its likeliest tokens are counted like those of answers"
        ),
    ],
}
"""Sources: NeMo RL 0.6, algorithms/distillation.py (`teacher_policy.offload_after_refit`), loss_functions.py."""
_ENGINE, _VERSION, _FRAMEWORK, _PRECISION, _METHOD = (
    "*engine", "*version", "*framework", "*precision", "*method",
)  # fmt: skip
_BATCH, _STEPS, _LENGTH, _PACKED, _COMPLETION, _REFERENCE = (
    "*micro", "*steps", "*length", "*packed", "*completion", "*reference",
)  # fmt: skip
_ATTENTION, _RULE, _KERNEL = "*attention", "*rule", "*kernel"
_POLICY_OF, _REENTRANT, _TP, _CP, _OFFLOAD = "*policy", "*reentrant", "*tp", "*cp", "*offload"
_WORDS: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_BUCKET = "*half_gradients"
_FIELDS = {
    *(name for each in ARGUMENTS for name in each.names),
    *(name for each in MEGATRON_SWIFT.meanings for name in each.keys),
}
_NOT_READ = ("recompute_granularity", "recompute_modules", "lora_rank", "lora_dropout", "target_modules", "optimizer",
             "clip_grad", "use_custom_fsdp", "data_parallel_sharding_strategy")  # fmt: skip
"""Fields that are read together with others, or that others decide."""
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "optimizer_cpu_offload": ("optimizer_offload_fraction", "overlap_cpu_optimizer_d2h_h2d"),
    "cuda_graph_impl": ("cuda_graph_modules", "cuda_graph_warmup_steps", "cuda_graph_scope"),
    "mtp_num_layers": ("mtp_use_repeated_layer",),
}
"""Fields without which others say nothing."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run in plain words."""
    for name in ("defaults", "config"):
        if name in found and not _is_complete(found):
            raise UnsupportedError.of_value(name, found[name], "pass that file as well, and those that it names")
    other = next((name for name in _OTHERS if any(key.startswith(f"{name}.") for key in found)), None)
    if other is not None:
        raise UnsupportedError.of_value(other, other, "this method is not supported yet")
    algorithm = next((name for name in _ALGORITHMS if any(key.startswith(f"{name}.") for key in found)), "sft")
    megatron = found.get(f"{_MEGATRON}enabled") is True
    gpus = _gpus(found)
    normalized: dict[str, Any] = {name: value for name, value in found.items() if class_of(_TABLE, name) != MAPPED}
    normalized |= {f"{_POLICY}model_name": found.get(f"{_POLICY}model_name"), _FRAMEWORK: "nemo-rl", **gpus}
    notes = _NOTES.get(algorithm, [])[:]
    plain, ranks = (_with_megatron if megatron else _with_fsdp)(found)
    method = _ALGORITHMS[algorithm]
    splits = megatron or (method != "reward" and plain.get(_TP, 1) != 1)
    normalized |= plain | _sequences(found, method, gpus.get(GPUS), ranks, splits=splits)
    if megatron and method == "reward":
        raise UnsupportedError.of_value("rm", method, "other methods are not supported yet with Megatron-Core")
    if splits and method is not None:
        notes.append("log-probabilities of vocabulary shards are counted as a supervised loss")
    elif method is not None:
        normalized[_METHOD] = method
        normalized |= {_COMPLETION: normalized.get(_LENGTH)} if method == "grpo" else {}
        normalized |= {_REFERENCE: "precomputed"} if method == "dpo" else {}
    return {name: value for name, value in normalized.items() if value not in (None, [])}, tuple(notes)


def _gpus(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the GPUs of the policy: those of the cluster without those that only generate."""
    each, nodes = found.get("cluster.gpus_per_node", 8), found.get("cluster.num_nodes", 1)
    start = f"{_POLICY}generation.colocated."
    if not isinstance(each, int) or not isinstance(nodes, int):
        return {}
    if found.get(f"{start}enabled", True) is False:
        theirs, whole = found.get(f"{start}resources.gpus_per_node"), found.get(f"{start}resources.num_nodes")
        if nodes > 1 and isinstance(whole, int):
            nodes -= whole
        elif isinstance(theirs, int):
            each -= theirs
    return {GPUS: each * nodes, **({PER_NODE: each} if nodes > 1 else {})}


def _sequences(
    found: Mapping[str, Any], method: str | None, gpus: object, ranks: object, *, splits: bool
) -> dict[str, Any]:
    """Return tokens and sequences of a micro-batch, and how many of them make a step.

    Where ranks split the vocabulary, pairs are counted as sequences of their own.
    """
    each, length = found.get(f"{_POLICY}train_micro_batch_size", 1), found.get(f"{_POLICY}max_total_sequence_length")
    pairs = 2 if method in ("dpo", "reward") else 1
    told: dict[str, Any] = {_BATCH: each, _LENGTH: length, _PACKED: False}
    if found.get(f"{_POLICY}sequence_packing.enabled") is True and isinstance(each, int) and isinstance(length, int):
        tokens = found.get(f"{_POLICY}sequence_packing.train_mb_tokens")
        told |= {_PACKED: True, _BATCH: 1, _LENGTH: tokens if isinstance(tokens, int) else each * length * pairs}
    elif pairs > 1 and splits and isinstance(each, int):
        told[_BATCH] = each * pairs
    whole = found.get(f"{_POLICY}train_global_batch_size")
    if all(isinstance(size, int) and size > 0 for size in (whole, each, gpus, ranks)):
        told[_STEPS] = max(1, whole * ranks // gpus // each)  # type: ignore[operator]
    return told


def _with_fsdp(found: Mapping[str, Any]) -> tuple[dict[str, Any], object]:
    """Return the policy under FSDP2, and the ranks that share a sequence."""
    said = {name.removeprefix(_TENSOR): value for name, value in found.items() if name.startswith(_TENSOR)}
    if said.get("expert_parallel_size", 1) != 1:
        raise UnsupportedError.of_value(f"{_TENSOR}expert_parallel_size", said["expert_parallel_size"], "supported: 1")
    tensor, context = said.get("tensor_parallel_size", 1), said.get("context_parallel_size", 1)
    kept = said.get("activation_checkpointing") is not True
    plain: dict[str, Any] = {
        _ENGINE: "fsdp", _VERSION: 2, _PRECISION: _precision(found),
        _ATTENTION: "flash", _TP: tensor, _CP: context if context != 1 else None,
        _POLICY_OF: "none" if kept else "full", _REENTRANT: None if kept else False,
        _OFFLOAD: said.get("cpu_offload") is True,
    }  # fmt: skip
    plain |= {**_adapted(said, "lora_cfg"), **_optimizer(found)}
    return plain, tensor * context if isinstance(tensor, int) and isinstance(context, int) else None


def _precision(found: Mapping[str, Any]) -> str:
    word = _WORDS.get(str(found.get(f"{_POLICY}precision")), "bf16")
    return word if word == "fp32" else f"{word}-mixed"


def _adapted(said: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the adapter, where it is on."""
    if said.get(f"{section}.enabled") is not True:
        return {}
    matches = section == "lora_cfg" and said.get(f"{section}.match_all_linear", True) is True
    everything = matches or not said.get(f"{section}.target_modules")
    return {
        ADAPTER: "lora", RANK: said.get(f"{section}.dim", 8), DROPOUT: said.get(f"{section}.dropout", 0.0),
        TARGETS: "all-linear" if everything else said[f"{section}.target_modules"],
    }  # fmt: skip


_STEP = f"{_POLICY}optimizer."
_OPTIMIZERS: Mapping[str, str] = {"torch.optim.AdamW": "adamw", "torch.optim.Adam": "adam", "torch.optim.SGD": "sgd"}
_IMPLEMENTED: Mapping[str, Mapping[str, bool]] = {
    "fused": {"foreach": False, "fused": True}, "foreach": {"foreach": True, "fused": False},
    "for-loop": {"foreach": False, "fused": False},
}  # fmt: skip


def _optimizer(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optimizer by its class (nemo_rl/models/automodel/setup.py: `get_class(config["optimizer"]["name"])`).

    Where neither kernel is named, PyTorch takes the one of several tensors (torch/optim/optimizer.py,
    `_default_to_fused_or_foreach`).
    """
    name = found.get(f"{_STEP}name")
    if name is None:
        return {}
    if name not in _OPTIMIZERS:
        supported = Message("supported: {}", joined(", ", _OPTIMIZERS))
        raise UnsupportedError.of_value(f"{_STEP}name", name, supported)
    fused, foreach = (found.get(f"{_STEP}kwargs.{each}") for each in ("fused", "foreach"))
    kind = "fused" if fused is True else "for-loop" if foreach is False else "foreach"
    return {_RULE: _OPTIMIZERS[name], _KERNEL: kind}


_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")


def _with_megatron(found: Mapping[str, Any]) -> tuple[dict[str, Any], object]:
    """Return the policy in Megatron-LM's words, and the ranks that share a sequence."""
    said = {name.removeprefix(_MEGATRON): value for name, value in found.items() if name.startswith(_MEGATRON)}
    plain = {name: value for name, value in said.items() if name in _FIELDS and name not in _NOT_READ}
    for start in (_DDP, _OPTIMIZER):
        short = start.removeprefix(_MEGATRON)
        plain |= {
            name.removeprefix(short): value for name, value in said.items()
            if name.startswith(short) and name.removeprefix(short) in _FIELDS.difference(_NOT_READ)
        }  # fmt: skip
    for name, others in _NEEDS.items():
        if plain.get(name) in (None, False, 0, "none"):
            plain = {key: value for key, value in plain.items() if key not in (name, *others)}
    if said.get("distributed_data_parallel_config.use_custom_fsdp") is True:
        raise UnsupportedError.of_value(
            f"{_DDP}use_custom_fsdp", True, "Megatron-FSDP is not supported yet with this tool"
        )
    if said.get("fp8_cfg.enabled") is True:
        plain |= {_PRECISION: "fp8-mixed", "fp8_recipe": said.get("fp8_cfg.fp8_recipe")}
    else:
        plain[_PRECISION] = _precision(found)
    plain.setdefault("attention_backend", "flash")
    if plain["attention_backend"] == "auto":
        del plain["attention_backend"]
    plain |= {_ENGINE: "megatron", "optimizer": said.get("optimizer.optimizer", "adam"),
              _BUCKET: said.get("distributed_data_parallel_config.grad_reduce_in_fp32") is False}  # fmt: skip
    if said.get("activation_checkpointing") is True:
        granularity = said.get("recompute_granularity", "full")
        uniform = {"recompute_method": "uniform", "recompute_num_layers": 1} if granularity == "full" else {}
        plain |= {"recompute_granularity": granularity, "recompute_modules": said.get("recompute_modules"), **uniform}
    else:
        plain[_POLICY_OF] = "none"
    sizes = [said.get(name, 1) for name in _SIZES]
    if sizes[0] == 1:
        plain.pop("sequence_parallel", None)
    plain |= _adapted(said, "peft")
    whole = sizes[0] * sizes[1] * sizes[2] if all(isinstance(size, int) for size in sizes) else None
    return plain, whole


_BASES: Mapping[str | None, tuple[str, str]] = {
    None: ("sft", "sft.yaml"), "dpo": ("dpo", "dpo.yaml"), "reward": ("rm", "rm.yaml"),
    "grpo": ("grpo", "grpo_math_1B.yaml"),
}  # fmt: skip
"""By method, the section of the loop, and the complete config whose other keys hold (examples/configs/)."""
_TOLD = (
    "train_global_batch_size", "train_micro_batch_size", "precision", "sequence_packing.enabled", "dtensor_cfg.enabled",
    "megatron_cfg.enabled",
)  # fmt: skip
"""Keys of a policy that decide memory; without its model or its length, those are asked for."""
_TOLD_OF_FSDP = (
    "dtensor_cfg.cpu_offload", "dtensor_cfg.activation_checkpointing", "dtensor_cfg.tensor_parallel_size",
    "dtensor_cfg.context_parallel_size", "dtensor_cfg.lora_cfg.enabled", "optimizer.name", "optimizer.kwargs.fused",
    "optimizer.kwargs.foreach",
)  # fmt: skip
_OF_BASE: Mapping[str, Any] = {
    "activation_checkpointing": False, "tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1, "expert_model_parallel_size": 1, "expert_tensor_parallel_size": 1,
    "sequence_parallel": False, "apply_rope_fusion": True, "bias_activation_fusion": True, "moe_permute_fusion": False,
    "moe_token_dispatcher_type": "alltoall", "moe_shared_expert_overlap": False, "moe_enable_deepep": False,
    "moe_router_load_balancing_type": "aux_loss", "gradient_accumulation_fusion": False,
    "use_fused_weighted_squared_relu": False, "peft.enabled": False,
    "fp8_cfg.enabled": False, "optimizer.optimizer": "adam", "optimizer.use_distributed_optimizer": False,
    "optimizer.use_precision_aware_optimizer": False, "optimizer.optimizer_cpu_offload": False,
    "distributed_data_parallel_config.grad_reduce_in_fp32": True,
    "distributed_data_parallel_config.overlap_grad_reduce": False,
    "distributed_data_parallel_config.overlap_param_gather": False,
}  # fmt: skip
"""Fields of `megatron_cfg` that complete configs of all releases give, and what is written for a job that says nothing
of them; CUDA graphs and fine-grained offloading, which 0.7.0 does not list, are off where nothing is said."""


def _is_complete(found: Mapping[str, Any]) -> bool:
    """Return whether a file gives every key that decides memory, whatever config it builds on."""
    engine = [f"{_MEGATRON}{each}" for each in _OF_BASE] if found.get(f"{_MEGATRON}enabled") is True else [
        f"{_POLICY}{each}" for each in _TOLD_OF_FSDP]  # fmt: skip
    return all(each in found for each in (*(f"{_POLICY}{name}" for name in _TOLD), *engine))


def _placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron-LM's arguments in the sections of `megatron_cfg` that have them; none of a job under FSDP2."""
    keys = {name: value for name, value in words.items() if name.startswith(_POLICY)}
    if not keys.get(f"{_MEGATRON}enabled"):
        return keys
    known = vocabulary(_TABLE)
    for name, value in words.items():
        places = () if name in _NOT_READ else (f"{start}{name}" for start in (_MEGATRON, _DDP, _OPTIMIZER))
        keys |= {place: value for place in places if place in known}
    return keys


def _otherwise(config: Config) -> dict[str, Any]:
    """Return what complete configs set for Megatron-Core, as it is where a job says nothing of it."""
    megatron = config[EngineSettings.type] == "megatron"
    return {f"{_MEGATRON}{name}": value for name, value in _OF_BASE.items()} if megatron else {}


def _written(config: Config) -> dict[str, Any]:
    """Return what the complete config leaves to a job: the loop's section, sizes, and the backend's."""
    given, gpus = config.get, gpus_of(config) or 1
    megatron = given(EngineSettings.type) == "megatron"
    section, base = _loop(config)
    most = given(Hardware.gpus_per_node) or _NODE
    node = max(size for size in range(1, min(most, gpus) + 1) if gpus % size == 0)
    ranks = prod(given(path) or 1 for path in _RANKS if megatron or path != Parallelism.pipeline_parallel_size)
    each, steps = given(Training.micro_batch_size) or 1, given(Training.gradient_accumulation_steps) or 1
    word = next((theirs for theirs, ours in _WORDS.items() if str(given(Training.precision)).startswith(ours)), None)
    packed, length = given(Training.packed_sequences) is True, given(Training.sequence_length)
    keys: dict[str, Any] = {
        "defaults": base, f"{section}.seed": 42, "cluster.gpus_per_node": node, "cluster.num_nodes": gpus // node,
        f"{_POLICY}train_micro_batch_size": each,
        f"{_POLICY}train_global_batch_size": max(steps * each * gpus // ranks, 1),
        f"{_POLICY}max_total_sequence_length": length, f"{_POLICY}precision": word or "bfloat16",
        f"{_POLICY}sequence_packing.enabled": packed, f"{_POLICY}dynamic_batching.enabled": False,
        f"{_TENSOR}enabled": not megatron, f"{_MEGATRON}enabled": megatron,
    }  # fmt: skip
    keys |= {f"{_POLICY}sequence_packing.train_mb_tokens": length} if packed and length else {}
    return {name: value for name, value in {**keys, **(_for_megatron if megatron else _for_fsdp)(config)}.items()
            if value is not None}  # fmt: skip


def _launch(config: Config) -> str:
    return f"uv run examples/run_{_loop(config)[0]}.py --config examples/configs/{{file}}"


def _loop(config: Config) -> tuple[str, str]:
    """Return the loop's section and its complete config; Megatron's losses are counted as a supervised one's."""
    method = None if config[EngineSettings.type] == "megatron" else config[Training.method.name]
    return _BASES.get(method, _BASES[None])


def _for_fsdp(config: Config) -> dict[str, Any]:
    given = config.get
    rule, kernel = given(Training.optimizer.name) or "adamw", given(Training.optimizer.implementation) or "foreach"
    keys = {
        f"{_TENSOR}cpu_offload": given(TorchSettings.cpu_offload) is True,
        f"{_TENSOR}activation_checkpointing": given(Training.activation_checkpointing.policy) == "full",
        f"{_TENSOR}tensor_parallel_size": given(Parallelism.tensor_parallel_size) or 1,
        f"{_TENSOR}context_parallel_size": given(Parallelism.context_parallel_size) or 1,
        f"{_STEP}name": next((theirs for theirs, ours in _OPTIMIZERS.items() if ours == rule), "torch.optim.AdamW"),
        **{f"{_STEP}kwargs.{name}": value for name, value in _IMPLEMENTED.get(kernel, _IMPLEMENTED["foreach"]).items()},
        **_lora(config, f"{_TENSOR}lora_cfg."),
    }
    everything = not isinstance(given(Training.adapter.target_modules), list)
    return keys | ({f"{_TENSOR}lora_cfg.match_all_linear": everything} if keys[f"{_TENSOR}lora_cfg.enabled"] else {})


def _for_megatron(config: Config) -> dict[str, Any]:
    given, policy = config.get, config[Training.activation_checkpointing.policy]
    fp8 = given(Training.precision) == "fp8-mixed"
    keys: dict[str, Any] = {
        "activation_checkpointing": policy not in (None, "none"),
        "recompute_granularity": policy if policy in ("full", "selective") else None,
        "recompute_modules": given(Training.activation_checkpointing.modules) if policy == "selective" else None,
        "fp8_cfg.enabled": fp8,
        "fp8_cfg.fp8": (given(MegatronSettings.fp8_format) or "hybrid") if fp8 else None,
        "fp8_cfg.fp8_recipe": (given(EngineSettings.fp8_recipe) or "delayed") if fp8 else None,
        "optimizer.optimizer": {"sgd": "sgd"}.get(given(Training.optimizer.name) or "", "adam"),
        "distributed_data_parallel_config.grad_reduce_in_fp32": given(MegatronSettings.grad_reduce_in_bf16) is not True,
    }
    return {f"{_MEGATRON}{name}": value for name, value in keys.items()} | _lora(config, f"{_MEGATRON}peft.")


def _lora(config: Config, section: str) -> dict[str, Any]:
    if config[Training.adapter.type] not in _ADAPTED:
        return {f"{section}enabled": False}
    targets = config[Training.adapter.target_modules]
    return {
        f"{section}enabled": True, f"{section}dim": config[Training.adapter.rank] or _RANK,
        f"{section}dropout": config[Training.adapter.dropout] or 0.0,
        f"{section}target_modules": targets if isinstance(targets, list) else [],
    }  # fmt: skip


_TAKEN = (
    "fp8_recipe distributed_optimizer precision_aware_optimizer grad_reduce_in_bf16 overlap_grad_reduce "
    "overlap_param_gather "
    "gradient_accumulation_fusion moe_permute_fusion moe_token_dispatcher moe_shared_expert_overlap "
    "moe_router_load_balancing_type cuda_graph_impl fine_grained_activation_offloading no_rope_fusion "
    "no_bias_swiglu_fusion use_fused_weighted_squared_relu"
)
"""Settings of the engine that complete configs have otherwise than an estimate takes them."""
_NODE, _RANK = 8, 8
_ADAPTED = ("lora",)
_RANKS = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
)  # fmt: skip
NEMO_RL = Tool(
    name="nemo-rl",
    title="NeMo RL",
    syntax="yaml",
    engines=("fsdp", "megatron"),
    tells=("policy.dtensor_cfg", "policy.megatron_cfg", "policy.train_micro_batch_size"),
    model=f"{_POLICY}model_name",
    normalized=_normalized,
    placed=_placed,
    written=_written,
    otherwise=_otherwise,
    adapters=_ADAPTED,
    needs={EngineSettings.framework: "nemo-rl"},
    implementations=("transformers", "transformer-engine"),
    launch_of=_launch,
    keys=(
        *ARGUMENTS,
        Key(path=EngineSettings.type, name=f"{_MEGATRON}enabled", values={"megatron": True, "fsdp": False}),
        Key(path=EngineSettings.type, name=_ENGINE),
        Key(path=EngineSettings.version, name=_VERSION),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.attention, name=_ATTENTION),
        Key(path=Training.optimizer.name, name=_RULE),
        Key(path=Training.optimizer.implementation, name=_KERNEL),
        Key(path=Training.method.name, name=_METHOD),
        Key(path=Training.method.completion_length, name=_COMPLETION),
        Key(path=Training.method.reference, name=_REFERENCE),
        Key(path=Training.micro_batch_size, name=_BATCH),
        Key(path=Training.gradient_accumulation_steps, name=_STEPS),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY_OF),
        Key(path=Training.activation_checkpointing.use_reentrant, name=_REENTRANT),
        *ADAPTED,
        Key(path=Parallelism.tensor_parallel_size, name=_TP),
        Key(path=Parallelism.context_parallel_size, name=_CP),
        Key(path=TorchSettings.cpu_offload, name=_OFFLOAD),
        Key(path=MegatronSettings.grad_reduce_in_bf16, name=_BUCKET),
        Key(path=MegatronSettings.gradient_accumulation_fusion, name="gradient_accumulation_fusion"),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    meanings=MEGATRON_SWIFT.meanings,
    vocabulary=_TABLE,
    settles=(f"{_POLICY}*", "cluster.*"),
    ignored=("grpo.*", "sft.*", "dpo.*", "rm.*", "loss_fn.*", "checkpointing.*", "data.*", "env.*", "logger.*",
             "cluster.*", "config", "defaults", "reward_penalties.*", "teacher.*", "async_grpo.*"),
    unsaid=dict.fromkeys((
        Training.precision, Training.attention, Training.micro_batch_size,
        Training.gradient_accumulation_steps, Training.sequence_length, Training.packed_sequences,
        Training.activation_checkpointing.policy, Training.activation_checkpointing.use_reentrant,
        Training.optimizer.name, Training.optimizer.implementation, Training.method.reference,
        Training.method.completion_length, Training.adapter.rank, Training.adapter.dropout,
        Training.adapter.target_modules, TorchSettings.cpu_offload,
        Parallelism.sequence_parallel, Parallelism.expert_tensor_parallel_size,
        *(f"engine.{name}" for name in _TAKEN.split()),
    )),
    source="NeMo RL, examples/configs/",
)  # fmt: skip
TOOLS = (NEMO_RL,)
