"""verl's command lines and configs: the update of the actor, between generations on the same GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.tools.derived import gpus_of
from memcore.tools.towers import FREEZES, TRAINABLE, keys_of_towers, trained_parts
from memcore.trainers.pytorch.settings import TorchSettings

_ACTOR, _MODEL, _ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.model.", "actor_rollout_ref.rollout."
_FSDP, _REF = f"{_ACTOR}fsdp_config.", "actor_rollout_ref.ref.fsdp_config."
_GROUPS = ("grpo", "rloo", "remax", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gpg", "grpo_passk",
           "optimal_token_baseline", "grpo_vectorized", "opo")  # fmt: skip
"""Ways to advantages without a critic (trainer/ppo/core_algos.py, `AdvantageEstimator`)."""
_METHOD, _COMPLETION, _SHARE, CRITIC, KERNEL = "*method", "*completion", "*share", "*critic", "*kernel"
ENGINE, VERSION, PRECISION, REDUCED, BATCH, _LENGTH = (
    "*engine", "*version", "*precision", "*reduced", "*micro", "*length",
)  # fmt: skip
PACKED, STEPS, ADAPTER, FRAMEWORK, POLICY, RANK = (
    "*packed", "*steps", "*adapter", "*framework", "*policy", "*rank",
)  # fmt: skip
LOSS, REENTRANT, ATTENTION, _ENTROPY = "*loss", "*reentrant", "*attention", "*entropy"
ENTROPY = f"{_ACTOR}entropy_coeff"
"""The weight of the entropies in the loss; 0 where nothing is said."""
KERNELS: Mapping[str, str] = {"flash": "flash_attention_2", "sdpa": "sdpa", "math": "eager", "flex": "flex_attention"}
DEFAULTS: Mapping[str, Any] = {
    "data.max_prompt_length": 512, "data.max_response_length": 512, f"{_ROLLOUT}n": 1,
    f"{_ROLLOUT}gpu_memory_utilization": 0.5, f"{_ACTOR}ppo_mini_batch_size": 256,
    f"{_ACTOR}ppo_max_token_len_per_gpu": 16384,
}  # fmt: skip
"""trainer/config/_generated_ppo_trainer.yaml."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run of verl in plain words.

    The actor has fp32 weights under FSDP1, which computes in bf16 and reduces in fp32; its padding is removed, and
    checkpoints are on. References and whatever is offloaded between phases leave the GPU before the update or come back
    for it. Source: verl 0.8.0.dev (January 2026), workers/fsdp_workers.py (`_build_model_optimizer`), workers/actor/
    dp_actor.py, trainer/ppo/ray_trainer.py, trainer/config/*.yaml.
    """
    _refuse_others(found)
    normalized: dict[str, Any] = {**found, FRAMEWORK: "verl", _METHOD: "grpo", ENGINE: "fsdp"}
    notes: list[str] = ["verl: only the actor's update is estimated; generation and scoring come before it"]
    strategy = str(normalized.pop(f"{_FSDP}strategy", "fsdp"))
    strategy = str(normalized.pop(f"{_ACTOR}strategy", strategy))
    normalized[VERSION] = 2 if strategy == "fsdp2" else 1
    fp32 = str(normalized.pop(f"{_FSDP}model_dtype", "fp32")) in ("fp32", "float32")
    normalized[PRECISION] = _computed(normalized, fp32=fp32)
    reduced = str(normalized.pop(f"{_FSDP}mixed_precision.reduce_dtype", "fp32"))
    normalized[REDUCED] = {"float32": "fp32", "bfloat16": "bf16"}.get(reduced, reduced)
    normalized[ATTENTION] = str(normalized.pop(f"{_MODEL}override_config.attn_implementation", "flash_attention_2"))
    normalized |= critic(
        found, notes, *(f"critic.model.fsdp_config.{name}" for name in ("param_offload", "optimizer_offload"))
    )
    if normalized.get(_MODULE) == "torch.optim":
        del normalized[_MODULE]
    gpus(normalized)
    rollout(normalized, notes)
    shared = normalized.pop(f"{_FSDP}ulysses_sequence_parallel_size", 1)
    if shared not in (1, None):
        normalized.setdefault(f"{_ACTOR}ulysses_sequence_parallel_size", shared)
    ranks = normalized.get(f"{_ACTOR}ulysses_sequence_parallel_size", 1)
    lengths(normalized, notes, ranks)
    batch(normalized, ranks)
    weight = normalized.pop(ENTROPY, 0)
    if normalized.pop(f"{_MODEL}use_fused_kernels", False) is True:
        normalized[LOSS] = "fused-linear"
    elif weight not in (0, None):
        normalized[_ENTROPY] = True
    if normalized.pop(f"{_MODEL}enable_gradient_checkpointing", True) is not False:
        normalized |= {POLICY: "full", REENTRANT: False}
    else:
        normalized[POLICY] = "none"
    for name in DEFAULTS:
        normalized.pop(name, None)
    rank = normalized.pop(f"{_MODEL}lora_rank", 0)
    if isinstance(rank, int) and rank > 0:
        normalized |= {ADAPTER: "lora", RANK: rank}
        normalized.setdefault(f"{_MODEL}target_modules", "all-linear")
    else:
        normalized.pop(f"{_MODEL}target_modules", None)
        normalized |= trained_parts("verl", normalized, found.get(f"{_MODEL}path"))
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


def _computed(normalized: dict[str, Any], *, fp32: bool) -> str:
    """The precision of weights in fp32 or bf16 with the dtype that FSDP computes in (workers/config/engine.py)."""
    said = normalized.pop(f"{_FSDP}dtype", "bf16")
    said = str(normalized.pop(f"{_FSDP}mixed_precision.param_dtype", said))
    word = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(said, said)
    if word not in ("bf16", "fp16", "fp32") or (not fp32 and word != "bf16"):
        raise UnsupportedError.of_value(f"{_FSDP}dtype", said, "with bf16 weights, bf16 is supported")
    return "bf16" if not fp32 else "fp32" if word == "fp32" else f"{word}-mixed"


def _refuse_others(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for actors of Megatron, and for ways to advantages that are not known."""
    strategy = found.get(f"{_ACTOR}strategy", found.get(f"{_FSDP}strategy", "fsdp"))
    config = str(found.get("config-name", ""))
    megatron = next((name for name in found if name.startswith(f"{_ACTOR}megatron.")), None)
    if strategy == "megatron" or "megatron" in config or megatron is not None:
        raise UnsupportedError.of_value(megatron or f"{_ACTOR}strategy", found.get(megatron or "", "megatron"),
                      "a Megatron-Core actor is not supported yet; the closest is actor.strategy=fsdp2")  # fmt: skip
    if strategy not in ("fsdp", "fsdp2"):
        raise UnsupportedError.of_value(f"{_ACTOR}strategy", strategy, "supported: fsdp, fsdp2")
    learning = next((name for name in found if name.startswith("reward_model.prime_model.")), None)
    if learning is not None:
        raise UnsupportedError.of_value(
            learning, found[learning], "training a reward model on the same GPUs is not supported yet"
        )
    estimator = str(found.get("algorithm.adv_estimator", "gae"))
    if estimator.startswith("$"):
        return
    if estimator != "gae" and estimator not in _GROUPS:
        raise UnsupportedError.of_value(
            "algorithm.adv_estimator", estimator, Message("supported: {}", joined(", ", _GROUPS))
        )


def critic(found: Mapping[str, Any], notes: list[str], *places: str) -> dict[str, Any]:
    """Return whether a critic keeps its states on the GPU during the actor's update; it is counted as large as that.

    `places` are the keys that would move its parameters and its optimizer to the host.
    """
    if str(found.get("algorithm.adv_estimator", "gae")) != "gae" or all(found.get(key) is True for key in places):
        return {}
    notes.append("the critic stays on the GPU during the actor's update, and is counted as large as the actor")
    return {CRITIC: True}


def gpus(normalized: dict[str, Any]) -> None:
    """The GPUs, those over which FSDP shards, and those that share sequences."""
    each, nodes = normalized.pop("trainer.n_gpus_per_node", 8), normalized.pop("trainer.nnodes", 1)
    if isinstance(each, int) and isinstance(nodes, int):
        normalized |= {GPUS: each * nodes, **({PER_NODE: each} if nodes > 1 else {})}
    if normalized.get(f"{_FSDP}fsdp_size") == -1:
        del normalized[f"{_FSDP}fsdp_size"]


def rollout(normalized: dict[str, Any], notes: list[str]) -> None:
    """Log-probabilities of a reference or a teacher are there before the update, and its weights in host memory.

    Groups of GPUs generate together (workers/fsdp_workers.py, `_build_rollout`; trainer/distillation/losses.py).
    """
    ranks, world = normalized.get(f"{_ROLLOUT}tensor_model_parallel_size"), normalized.get(GPUS)
    if isinstance(ranks, int) and isinstance(world, int) and ranks > 0 and world % ranks:
        key = f"{_ROLLOUT}tensor_model_parallel_size"
        said = "{} is {}, which does not divide the number of GPUs, {}: verl stops"
        notes.append(Message(said, key, ranks, world))
    share = normalized.pop(f"{_ROLLOUT}gpu_memory_utilization", DEFAULTS[f"{_ROLLOUT}gpu_memory_utilization"])
    if normalized.pop("distillation.enabled", False) is True:
        notes.append(
            "distillation: the teacher answers from servers of its own; "
            "probabilities of its likeliest tokens are counted like those of answers"
        )
    if normalized.pop(f"{_ROLLOUT}free_cache_engine", True) is False:
        normalized[_SHARE] = share
        notes.append(Message("{} keeps {} of the GPU during the update", f"{_ROLLOUT}name", share))


def _number(normalized: Mapping[str, Any], key: str) -> Any:
    return normalized.get(key, DEFAULTS[key])


def lengths(normalized: dict[str, Any], notes: list[str], ranks: object) -> None:
    """Tokens of a micro-batch: prompts and answers in full, or as many as are packed; `ranks` share a sequence."""
    prompt, answer = _number(normalized, "data.max_prompt_length"), _number(normalized, "data.max_response_length")
    whole = prompt + answer if isinstance(prompt, int) and isinstance(answer, int) else "$LENGTH"
    normalized[PACKED] = normalized.pop(f"{_MODEL}use_remove_padding", True) is not False
    if normalized.pop(f"{_ACTOR}use_dynamic_bsz", False) is True:
        tokens = _number(normalized, f"{_ACTOR}ppo_max_token_len_per_gpu")
        normalized[BATCH] = 1
        if isinstance(tokens, int) and isinstance(ranks, int):
            normalized[_LENGTH] = tokens * ranks
            notes.append("sequences are packed up to ppo_max_token_len_per_gpu tokens: counted as one sequence")
    else:
        normalized[_LENGTH] = whole
        notes.append("each sequence is counted with max_prompt_length + max_response_length tokens")
    normalized[_COMPLETION] = normalized.get(_LENGTH)  # logits of prompts too (`_forward_micro_batch`)


def batch(normalized: dict[str, Any], ranks: object) -> None:
    """Micro-batches of a step: a mini-batch counts prompts, of which each has several answers (fsdp_workers.py).

    `ranks` work on the same sequences.
    """
    key = f"{_ACTOR}ppo_micro_batch_size_per_gpu"
    world = normalized.get(GPUS)
    former = normalized.pop(f"{_ACTOR}ppo_micro_batch_size", None)  # of all GPUs
    given = former * ranks // world if isinstance(former, int) and world and isinstance(ranks, int) else None
    each = normalized.setdefault(BATCH, normalized.pop(key, given))
    prompts, answers = _number(normalized, f"{_ACTOR}ppo_mini_batch_size"), _number(normalized, f"{_ROLLOUT}n")
    if each is None:
        raise UnsupportedError.of_value(key, None, "set the micro-batch size")
    if not (isinstance(world, int) and isinstance(ranks, int) and 0 < ranks <= world and world % ranks == 0):
        return
    if all(isinstance(size, int) and size > 0 for size in (each, prompts, answers)):
        mine = max(1, prompts * answers * ranks // world)
        normalized[STEPS] = max(1, -(-mine // each))


def usual_reduction(config: Config) -> str:
    """Return the dtype in which gradients are reduced by default: without master weights, that of products."""
    precision = str(config[Training.precision])
    if precision.endswith("-mixed"):
        return "fp32"
    computed = str(config[Training.compute_dtype] or config[Training.parameter_dtype] or precision)
    return computed if computed in ("bf16", "fp16") else "fp32"


def _written(config: Config) -> dict[str, Any]:
    """Return the GPUs, the sequences of a mini-batch and what else several settings of a run give together."""
    given = config.get
    gpus = gpus_of(config) or 1
    most = given(Hardware.gpus_per_node) or _NODE
    node = max(size for size in range(1, min(most, gpus) + 1) if gpus % size == 0)
    each, steps = given(Training.micro_batch_size) or 1, given(Training.gradient_accumulation_steps) or 1
    ranks = given(Parallelism.ulysses_parallel_size) or 1
    whole = given(Training.sequence_length)
    answer = max(whole // 2, 1) if whole else None
    reduced = given(Training.reduce_dtype) or usual_reduction(config)
    rank = given(Training.adapter.rank) or LORA if given(Training.adapter.type) == "lora" else 0
    keys = {
        "trainer.n_gpus_per_node": node, "trainer.nnodes": gpus // node,
        "algorithm.adv_estimator": "gae" if given(Training.method.critic) else "grpo",
        "data.max_prompt_length": whole - answer if whole and answer else None, "data.max_response_length": answer,
        f"{_ACTOR}strategy": "fsdp" if given(EngineSettings.version) == 1 else "fsdp2",
        f"{_ACTOR}ppo_micro_batch_size_per_gpu": each,
        f"{_ACTOR}ppo_mini_batch_size": max(steps * each * gpus // ranks, 1),
        f"{_FSDP}model_dtype": "bf16" if given(Training.precision) == "bf16" else "fp32",
        f"{_FSDP}mixed_precision.reduce_dtype": reduced,
        f"{_MODEL}override_config.attn_implementation": KERNELS.get(str(given(Training.attention))),
        f"{_MODEL}use_remove_padding": given(Training.packed_sequences) is True,
        f"{_MODEL}use_fused_kernels": given(Training.loss) == "fused-linear",
        f"{_MODEL}enable_gradient_checkpointing": given(Training.activation_checkpointing.policy) != "none",
        f"{_MODEL}lora_rank": rank,
        ENTROPY: _WEIGHT if given(Training.method.entropy) else None,
    }  # fmt: skip
    keys |= _FREEZES(config)
    return {name: value for name, value in keys.items() if value is not None}


_FREEZES = keys_of_towers("verl")
_WEIGHT = 0.001
_NODE, LORA = 8, 8
"""GPUs of a node, and the rank of adapters, where nothing is said."""
MADE_PLAIN = (
    Training.micro_batch_size, Training.gradient_accumulation_steps, Training.sequence_length,
    Training.packed_sequences, Training.attention, Training.activation_checkpointing.policy,
    Training.activation_checkpointing.use_reentrant, Training.method.completion_length, Training.reduce_dtype,
    Training.precision, Training.loss, EngineSettings.version, Training.adapter.rank, Training.adapter.target_modules,
    Training.adapter.dropout,
)  # fmt: skip
"""Settings whose defaults are others here."""

OPTIMIZERS: Mapping[str, str] = {
    "AdamW": "adamw", "Adam": "adam", "SGD": "sgd", "AdamW8bit": "adamw-8bit", "AdamW4bit": "adamw-4bit",
    "PagedAdamW": "paged-adamw", "PagedAdamW8bit": "paged-adamw-8bit",
}  # fmt: skip
_MODULE = f"{_ACTOR}optim.optimizer_impl"
MODULES: Mapping[str, str] = {"torchao": "torchao.optim", "bitsandbytes": "bitsandbytes.optim"}
"""The module whose class is the optimizer, where that is not PyTorch's (workers/config/optimizer.py)."""
VERL = Tool(
    name="verl",
    title="verl",
    syntax="yaml",
    engines=("fsdp",),
    implementations=("transformers", "liger"),
    tells=("actor_rollout_ref",),
    model=f"{_MODEL}path",
    keys=(
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.version, name=VERSION),
        Key(path=EngineSettings.framework, name=FRAMEWORK),
        Key(path=Training.precision, name=PRECISION),
        Key(path=Training.reduce_dtype, name=REDUCED),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.micro_batch_size, name=BATCH),
        Key(path=Training.gradient_accumulation_steps, name=STEPS),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.packed_sequences, name=PACKED),
        Key(path=Training.loss, name=LOSS),
        Key(path=Training.attention, name=ATTENTION, values=KERNELS),
        Key(path=Training.activation_checkpointing.policy, name=POLICY),
        Key(path=Training.activation_checkpointing.use_reentrant, name=REENTRANT),
        Key(path=Training.method.name, name=_METHOD),
        Key(path=Training.method.completion_length, name=_COMPLETION),
        Key(path=Training.method.rollout_share, name=_SHARE),
        Key(path=Training.method.critic, name=CRITIC),
        Key(path=Training.method.entropy, name=_ENTROPY),
        Key(path=Training.adapter.type, name=ADAPTER),
        Key(path=Training.adapter.rank, name=RANK),
        Key(path=Training.adapter.target_modules, name=f"{_MODEL}target_modules"),
        Key(path=Parallelism.ulysses_parallel_size, name=f"{_ACTOR}ulysses_sequence_parallel_size"),
        Key(path=Parallelism.data_parallel_shard_size, name=f"{_FSDP}fsdp_size"),
        Key(path=TorchSettings.reshard_after_forward, name=f"{_FSDP}reshard_after_forward"),
        Key(path=TorchSettings.cpu_offload, name=f"{_FSDP}offload_policy"),
        Key(path=TorchSettings.no_sync, name=f"{_FSDP}use_no_sync_for_gradient_accumulation"),
        Key(path=Training.optimizer.implementation, name=_MODULE, values=MODULES),
        Key(path=Training.optimizer.implementation, name=KERNEL),
    ),
    meanings=(
        Meaning(sets={Training.offload.activations: "cpu"}, keys={f"{_MODEL}enable_activation_offload": True}),
        Meaning(sets={Training.implementation: "liger"}, keys={f"{_MODEL}use_liger": True}),
        *(
            Meaning(sets={Training.optimizer.name: ours}, keys={f"{_ACTOR}optim.optimizer": theirs})
            for theirs, ours in OPTIMIZERS.items()
        ),
    ),
    normalized=_normalized,
    settles=(*FREEZES["verl"].keys, "algorithm.adv_estimator", "trainer.n_gpus_per_node", "trainer.nnodes",
             "data.max_prompt_length",
             "data.max_response_length", f"{_ACTOR}ppo_*", f"{_ACTOR}use_dynamic_bsz", f"{_ACTOR}strategy",
             ENTROPY, f"{_ROLLOUT}n", f"{_ROLLOUT}gpu_memory_utilization", f"{_ROLLOUT}free_cache_engine",
             f"{_MODEL}use_remove_padding", f"{_MODEL}enable_gradient_checkpointing", f"{_MODEL}lora_rank",
             f"{_MODEL}use_fused_kernels", f"{_FSDP}model_dtype", f"{_FSDP}mixed_precision*",
             f"{_FSDP}dtype", f"{_FSDP}strategy", f"{_FSDP}ulysses_sequence_parallel_size",
             "distillation.enabled", f"{_ACTOR}megatron*"),
    vocabulary=("verl",),
    ignored=("data.*", "trainer.*", "reward_model.*", "custom_reward_function.*", "algorithm.*", "critic.*", "ray_*",
             "actor_rollout_ref.agent.*",  # verl-tool, verl_tool/trainer/config
             "global_profiler*", "reward_manager*", f"{_ROLLOUT}*", "actor_rollout_ref.ref.*", f"{_ACTOR}optim.*",
             f"{_FSDP}param_offload", f"{_FSDP}optimizer_offload", f"{_FSDP}mixed_precision*",
             "config-path", "config-name", "hydra*", "transfer_queue*", "reward.*", "defaults"),
    always={"hydra.searchpath": ["pkg://verl.trainer.config"], "defaults": ["ppo_trainer", "_self_"]},
    launch="python3 -m verl.trainer.main_ppo --config-path=$PWD --config-name={file}",
    needs={EngineSettings.framework: "verl", Training.method.name: "grpo"},
    written=_written,
    adapters=("lora",),
    unsaid=dict.fromkeys(MADE_PLAIN),
    source="verl, trainer/config/",
)  # fmt: skip
