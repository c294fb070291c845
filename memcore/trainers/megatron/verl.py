"""verl with its Megatron backend: the update of the actor, in Megatron-LM's words.

Source: verl 0.8.0.dev (January 2026), workers/megatron_workers.py (`_build_model_optimizer`), workers/actor/
megatron_actor.py (log-probabilities of vocabulary shards, as in a supervised step), trainer/config/engine/
megatron.yaml, trainer/config/optim/megatron.yaml, utils/megatron/optimizer.py.
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
from memcore.messages import Message
from memcore.tools.derived import gpus_of
from memcore.trainers.megatron.bridge_files import section_of
from memcore.trainers.megatron.networks.adapted import USUAL
from memcore.trainers.megatron.networks.described import of_all
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.swift import ADAPTED, ADAPTER, ARGUMENTS, DROPOUT, MEGATRON_SWIFT, RANK, TARGETS
from memcore.trainers.pytorch.verl import CRITIC, DEFAULTS, ENTROPY, VERL, batch, critic, gpus, lengths, rollout

_ACTOR, _MODEL = "actor_rollout_ref.actor.", "actor_rollout_ref.model."
_MEGATRON = f"{_ACTOR}megatron."
_PLACES = (
    f"{_MEGATRON}override_transformer_config.", f"{_MEGATRON}override_ddp_config.", _MEGATRON,
    f"{_ACTOR}optim.override_optimizer_config.",
)  # fmt: skip
"""Where fields of Megatron-Core's configs stand."""
_DEFAULTS: Mapping[str, Any] = {
    "sequence_parallel": True, "use_distributed_optimizer": True, "attention_backend": "flash",
}  # fmt: skip
_FRAMEWORK, _PRECISION, _BATCH, _LENGTH, _PACKED, _STEPS = (
    "*framework", "*precision", "*micro", "*length", "*packed", "*steps",
)  # fmt: skip
_BETWEEN = ("param_offload", "grad_offload", "optimizer_offload")
"""What leaves the GPU between phases, and is back for the update."""
_RANKS = ("tensor", "pipeline", "context")


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run in Megatron-LM's arguments: the actor in bf16 with fp32 masters that data-parallel ranks share."""
    normalized: dict[str, Any] = {**found, **_DEFAULTS, _FRAMEWORK: "verl", _PRECISION: "bf16-mixed"}
    normalized.pop(f"{_ACTOR}strategy", None)  # what tells
    for name in found:
        place = next((each for each in _PLACES if name.startswith(each)), None)
        field = name.removeprefix(place or "")
        if place and field in _KNOWN and "." not in field:
            normalized[field] = normalized.pop(name)
    if not normalized.get("recompute_granularity"):
        for name in [name for name in normalized if name.startswith("recompute_")]:
            del normalized[name]
    notes = [
        "verl: only the actor's update is estimated; generation and scoring come before it",
        "log-probabilities of vocabulary shards are counted as a supervised loss",
    ]
    if normalized.pop(ENTROPY, 0) not in (0, None):
        notes.append(Message("{}: the softmax and the gradient of the entropies are not counted", ENTROPY))
    sizes = [
        normalized.get(f"{name}_model_parallel_size", normalized.get(f"{name}_parallel_size", 1)) for name in _RANKS
    ]
    context = sizes[2]
    if sizes[0] == 1:
        del normalized["sequence_parallel"]  # workers/megatron_workers.py
    ranks = sizes[0] * sizes[1] * context if all(isinstance(size, int) for size in sizes) else "$RANKS"
    normalized |= critic(found, notes, *(f"critic.megatron.{name}" for name in ("param_offload", "optimizer_offload")))
    gpus(normalized)
    rollout(normalized, notes)
    lengths(normalized, notes, context)
    batch(normalized, ranks)
    for name in ("*share", "*completion", *DEFAULTS):
        normalized.pop(name, None)
    if normalized.pop(f"{_MEGATRON}override_transformer_config.moe_enable_deepep", False) is True:
        normalized["moe_flex_dispatcher_backend"] = "deepep"
    if normalized.get("gradient_accumulation_fusion") is True:
        del normalized["gradient_accumulation_fusion"]
    _adapter(normalized)
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


def _adapter(normalized: dict[str, Any]) -> None:
    """Read the adapter where it has a rank; there is none otherwise.

    By default it is at the four matrices that Megatron Bridge names (config/model/hf_model.yaml).
    """
    start = f"{_MODEL}lora."
    given = {name.removeprefix(start): normalized.pop(name) for name in [*normalized] if name.startswith(start)}
    if not given.get("rank"):
        return
    targets = given.get("target_modules", USUAL)
    if sorted(targets) != sorted(USUAL):
        message = "adapters on all linear layers are supported"
        raise UnsupportedError.of_value(f"{start}target_modules", targets, message)
    places = of_all(normalized.get(f"{_MODEL}path"), USUAL)
    normalized |= {ADAPTER: given.get("type", "lora"), RANK: given["rank"], TARGETS: places,
                   DROPOUT: given.get("dropout", 0.0)}  # fmt: skip


_KNOWN = {
    *(name for each in ARGUMENTS for name in each.names),
    *(name for each in MEGATRON_SWIFT.meanings for name in each.keys),
    "pipeline_model_parallel_layout",
}  # fmt: skip
_OWN = frozenset(
    f"{name}_size" for name in ("tensor_model_parallel", "pipeline_model_parallel", "virtual_pipeline_model_parallel",
                                "context_parallel", "expert_model_parallel", "expert_tensor_parallel")
) | {"sequence_parallel", "use_distributed_optimizer"}  # fmt: skip
"""Fields that stand above the overrides (trainer/config/engine/megatron.yaml)."""
_OVERRIDES: Mapping[str, str] = {"model": _PLACES[0], "ddp": _PLACES[1], "optimizer": _PLACES[3]}
_APART = ("lora_rank", "lora_dropout", "target_modules", "torch_dtype", "packing", "tuner_type", "freeze_vit",
          "freeze_aligner", "accumulate_allreduce_grads_in_fp32", "optimizer")  # fmt: skip
_MODEL_RANKS = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
)  # fmt: skip
_NODE = 8
"""GPUs of a node where nothing is said."""


def _placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron-LM's arguments in the actor's section, above its overrides or in them."""
    keys: dict[str, Any] = {}
    for name, value in words.items():
        if name in _APART or name.startswith("*"):
            continue
        place = _MEGATRON if name in _OWN else _OVERRIDES.get(section_of(name), _PLACES[0])
        place = "" if "." in name or name in VERL_MEGATRON.always else place
        keys[f"{place}{name}"] = value
    return keys


def _written(config: Config) -> dict[str, Any]:
    """Return the GPUs, the sequences of a mini-batch, and the adapter."""
    given, gpus = config.get, gpus_of(config) or 1
    most = given(Hardware.gpus_per_node) or _NODE
    node = max(size for size in range(1, min(most, gpus) + 1) if gpus % size == 0)
    each, steps = given(Training.micro_batch_size) or 1, given(Training.gradient_accumulation_steps) or 1
    ranks = prod(given(path) or 1 for path in _MODEL_RANKS)
    whole = given(Training.sequence_length)
    answer = max(whole // 2, 1) if whole else None
    kind = given(Training.adapter.type)
    keys: dict[str, Any] = {
        "trainer.n_gpus_per_node": node, "trainer.nnodes": gpus // node,
        "algorithm.adv_estimator": "gae" if given(Training.method.critic) else "grpo",
        "data.max_prompt_length": whole - answer if whole and answer else None, "data.max_response_length": answer,
        f"{_ACTOR}strategy": "megatron",
        f"{_ACTOR}ppo_micro_batch_size_per_gpu": each,
        f"{_ACTOR}ppo_mini_batch_size": max(steps * each * gpus // ranks, 1),
        f"{_MODEL}use_remove_padding": given(Training.packed_sequences) is True,
    }  # fmt: skip
    if kind in _ADAPTED:
        keys |= {f"{_MODEL}lora.type": kind, f"{_MODEL}lora.rank": given(Training.adapter.rank) or _RANK,
                 f"{_MODEL}lora.dropout": given(Training.adapter.dropout) or 0.0}  # fmt: skip
    return {name: value for name, value in keys.items() if value is not None}


_ADAPTED, _RANK = ("lora", "dora"), 8
VERL_MEGATRON = Tool(
    name="verl-megatron",
    title="verl with Megatron",
    syntax="yaml",
    engines=("megatron",),
    tells=(f"{_ACTOR}megatron", "actor_rollout_ref.ref.megatron", f"{_ACTOR}strategy=megatron",
           "config-name=ppo_megatron_trainer|ppo_megatron_trainer.yaml"),
    model=f"{_MODEL}path",
    normalized=_normalized,
    keys=(
        *ARGUMENTS,
        Key(path=Training.optimizer.name, name=f"{_ACTOR}optim.optimizer",
            values={name: name for name in ("adam", "sgd", "muon")}),
        Key(path=Training.micro_batch_size, name=_BATCH),
        Key(path=Training.gradient_accumulation_steps, name=_STEPS),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.method.critic, name=CRITIC),
        *ADAPTED,
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    meanings=MEGATRON_SWIFT.meanings,
    settles=(*VERL.settles, f"{_MEGATRON}*", f"{_ACTOR}optim.override_optimizer_config*"),
    vocabulary=("verl", "megatron"),
    ignored=(*VERL.ignored, *(f"{_MEGATRON}{name}" for name in _BETWEEN), f"{_MEGATRON}use_*", f"{_MEGATRON}dist_*",
             f"{_MEGATRON}vanilla_mbridge", f"{_MEGATRON}seed"),
    always={"hydra.searchpath": ["pkg://verl.trainer.config"], "defaults": ["ppo_megatron_trainer", "_self_"]},
    launch="python3 -m verl.trainer.main_ppo --config-path=$PWD --config-name={file}",
    needs={EngineSettings.framework: "verl"},
    placed=_placed,
    written=_written,
    adapters=_ADAPTED,
    unsaid=dict.fromkeys((
        Training.precision, Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps,
        Training.sequence_length, Training.packed_sequences, Training.adapter.rank, Training.adapter.dropout,
        Training.adapter.target_modules, Parallelism.sequence_parallel, MegatronSettings.distributed_optimizer,
    )),
    source="verl, trainer/config/engine/megatron.yaml",
)  # fmt: skip
TOOLS = (VERL_MEGATRON,)
