"""OpenRLHF's command lines: its loops over DeepSpeed, and the actor's update where answers are generated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.readers import started
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import full_name
from memcore.tools.derived import gpus_of
from memcore.tools.towers import FREEZES, TRAINABLE, keys_of_towers, trained_parts
from memcore.trainers.deepspeed.settings import DeepSpeedSettings

_METHOD, _REFERENCE, _COMPLETION, _SHARE, _MODEL, _CRITIC = (
    "*method", "*reference", "*completion", "*share", "*", "*critic",
)  # fmt: skip
_PRECISION, _ADAPTER, _FRAMEWORK, _WIDTH, _BATCH = "*precision", "*adapter", "*framework", "*width", "*batch"
_CHECKPOINTED, _REENTRANT, _LEARNED, _REWARDS = "*checkpointed", "*reentrant", "*entropy", "*rewards"
_ENTROPY = "--actor.entropy_coef"
"""The weight of entropies in the loss; at 0 their graph is built too."""
_LOOPS: Mapping[str, str | None] = {"prm": None, "sft": None, "dpo": "dpo", "rm": "reward", "ppo_ray": "grpo",
                                    "kto": "kto", "ppo": "grpo", "kd": "distill"}  # fmt: skip
_NEAREST: Mapping[str, tuple[str, ...]] = {
    "prm": ("train_prm: the loss takes the logits of placeholders alone, and is counted as that of all tokens",),
    "kd": ("train_kd: the teacher is sharded like the model; the divergence is counted as torchtune computes it",),
}
"""Loops that are counted as what is nearest, and how that differs."""
_GROUPS = ("group_norm", "reinforce", "reinforce_baseline", "rloo", "dr_grpo")
_FORMER: Mapping[str, str] = {
    "--pretrain": "--model.model_name_or_path", "--model_name_or_path": "--model.model_name_or_path",
    "--micro_train_batch_size": "--train.micro_batch_size",
    "--train_batch_size": "--train.batch_size", "--max_len": "--data.max_len", "--zero_stage": "--ds.zero_stage",
    "--adam_offload": "--ds.adam_offload", "--zpg": "--ds.zpg", "--overlap_comm": "--ds.overlap_comm",
    "--gradient_checkpointing": "--model.gradient_checkpointing_enable",
    "--gradient_checkpointing_use_reentrant": "--model.gradient_checkpointing_reentrant",
    "--attn_implementation": "--ds.attn_implementation", "--grad_accum_dtype": "--ds.grad_accum_dtype",
    "--use_liger_kernel": "--ds.use_liger_kernel", "--packing_samples": "--ds.packing_samples",
    "--load_in_4bit": "--ds.load_in_4bit", "--lora_rank": "--ds.lora.rank", "--lora_dropout": "--ds.lora.dropout",
    "--target_modules": "--ds.lora.target_modules", "--ring_attn_size": "--ds.ring_attn_size",
    "--ds_tensor_parallel_size": "--ds.tensor_parallel_size", "--ref_offload": "--ref.offload",
    "--param_dtype": "--ds.param_dtype", "--advantage_estimator": "--algo.advantage.estimator",
    "--init_kl_coef": "--algo.kl.init_coef", "--entropy_loss_coef": _ENTROPY, "--actor_num_nodes": "--actor.num_nodes",
    "--actor_num_gpus_per_node": "--actor.num_gpus_per_node", "--colocate_all_models": "--train.colocate_all",
    "--colocate_actor_ref": "--train.colocate_actor_ref", "--vllm_enable_sleep": "--vllm.enable_sleep",
    "--vllm_gpu_memory_utilization": "--vllm.gpu_memory_utilization",
    "--async_train": "--train.async_enable",
    "--use_dynamic_batch": "--train.dynamic_batch_enable", "--train_max_tokens_per_gpu": "--train.max_tokens_per_gpu",
}  # fmt: skip
"""Flags of 0.9 and earlier by their names of today (openrlhf/cli/*.py)."""
_SHARED = ("model_name_or_path", "gradient_checkpointing_enable", "gradient_checkpointing_reentrant")
"""Flags of the model that are of the actor where answers are generated."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a command of OpenRLHF in plain words.

    DeepSpeed keeps bf16 weights with fp32 states; sizes of its buckets are the width's. References of DPO and of PPO
    are there unless they are offloaded. Source: OpenRLHF 0.11.0, cli/train_{sft,dpo,rm,ppo_ray}.py,
    utils/deepspeed/deepspeed_utils.py, models/actor.py, trainer/ray/ppo_actor.py.
    """
    normalized: dict[str, Any] = {_FORMER.get(name, name): value for name, value in found.items()}
    _of_model(normalized)
    loop = _loop(found, normalized)
    normalized |= {_FRAMEWORK: "openrlhf", _WIDTH: True}
    normalized[_MODEL] = normalized.pop("--model.model_name_or_path", None)
    notes: list[str] = []
    word = "bf16" if normalized.pop("--bf16", False) else str(normalized.pop("--ds.param_dtype", "bf16"))
    normalized[_PRECISION] = f"{word}-mixed"
    rank = normalized.get("--ds.lora.rank", 0)
    if rank in (0, "0"):
        for name in ("rank", "dropout", "target_modules", "alpha"):
            normalized.pop(f"--ds.lora.{name}", None)
        normalized |= trained_parts("openrlhf", normalized, normalized[_MODEL])
    else:
        normalized[_ADAPTER] = "lora"
        normalized.setdefault("--ds.lora.target_modules", "all-linear")
    normalized.setdefault("--ds.attn_implementation", "flash_attention_2")
    if normalized.pop("--flash_attn", False) or "flash" in str(normalized["--ds.attn_implementation"]):
        normalized["--ds.attn_implementation"] = "flash_attention_2"
    method = _LOOPS[loop]
    normalized[_METHOD] = method
    if method in ("dpo", "kto") and "--ref.offload" in normalized:
        normalized[_REFERENCE] = "precomputed"
        notes.append("--ref.offload: the reference model's share of the GPU is not counted")
    notes += _NEAREST.get(loop, ())
    if method == "grpo":
        _generating(normalized, notes, alone=loop == _ALONE)
    if (method != "grpo" or loop == _ALONE) and GPUS not in normalized:
        normalized |= started(found)
    if loop == _ALONE:
        normalized.setdefault("--train.micro_batch_size", 4)
    _batch(normalized, notes, generating=method == "grpo")
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


def _of_model(normalized: dict[str, Any]) -> None:
    """Flags of the model, which are of the actor where answers are generated."""
    for name in _SHARED:
        if f"--actor.{name}" in normalized:
            normalized[f"--model.{name}"] = normalized.pop(f"--actor.{name}")
    for name, ours in (("enable", _CHECKPOINTED), ("reentrant", _REENTRANT)):
        if f"--model.gradient_checkpointing_{name}" in normalized:
            normalized[ours] = normalized.pop(f"--model.gradient_checkpointing_{name}")


def _loop(found: Mapping[str, Any], normalized: Mapping[str, Any]) -> str:
    """Return which of its loops a command runs."""
    program = f"{found.get('', '')} {found.get('-m', '')} {found.get('--module', '')}"
    named = re.search(r"\btrain_(\w+)", program)
    loop = named[1] if named else "ppo_ray" if "--actor.num_gpus_per_node" in normalized else "sft"
    if loop not in _LOOPS:
        raise UnsupportedError.of_value("the command", f"train_{loop}", Message("supported: {}", joined(", ", _LOOPS)))
    return loop


def _critic(normalized: dict[str, Any], notes: list[str]) -> None:
    """The critic of PPO: on the actor's GPUs where all models share GPUs and DeepSpeed's states do not sleep."""
    if "--train.colocate_all" in normalized and "--ds.enable_sleep" not in normalized:
        normalized[_CRITIC] = True
        notes.append("the critic stays on the GPU during the actor's update, and is counted as large as the actor")
    else:
        notes.append("the critic is not on the actor's GPUs during its update")


_ALONE = "ppo"
"""The loop that has all models on each GPU, without Ray (0.6 and earlier, cli/train_ppo.py)."""


def _together(normalized: dict[str, Any], notes: list[str], estimator: str) -> None:
    """All models on each GPU: a critic where it estimates advantages, the reference and a reward model that is named.

    The last two leave where they are offloaded.
    """
    if estimator == "gae":
        normalized[_CRITIC] = True
        notes.append("the critic stays on the GPU during the actor's update, and is counted as large as the actor")
    if normalized.pop("--ref_reward_offload", False):
        normalized["--ref.offload"] = True
    elif "--reward_pretrain" in normalized and "--remote_rm_url" not in normalized:
        normalized[_REWARDS] = True
        notes.append("the reward model stays on the GPU, and is counted as large as the model")


def _generating(normalized: dict[str, Any], notes: list[str], *, alone: bool) -> None:
    """The update of the actor, between generations."""
    key = "--algo.advantage.estimator"
    estimator = str(normalized.pop(key, "gae"))
    if alone:
        _together(normalized, notes, estimator)
    elif estimator == "gae":
        _critic(normalized, notes)
    elif estimator not in _GROUPS and not estimator.startswith("$"):
        raise UnsupportedError.of_value(key, estimator, Message("supported: {}", joined(", ", _GROUPS)))
    each, nodes = normalized.pop("--actor.num_gpus_per_node", 8), normalized.pop("--actor.num_nodes", 1)
    if isinstance(each, int) and isinstance(nodes, int) and not alone:
        normalized |= {GPUS: each * nodes, **({PER_NODE: each} if nodes > 1 else {})}
    together = alone or "--train.colocate_all" in normalized or "--train.colocate_actor_ref" in normalized
    weight = normalized.pop("--algo.kl.init_coef", 0.01)
    if together and weight not in (0, 0.0) and "--ref.offload" not in normalized and _ADAPTER not in normalized:
        normalized[_REFERENCE] = "copy"
    if normalized.pop(_ENTROPY, None) is not None:
        normalized[_LEARNED] = True
    share = normalized.pop("--vllm.gpu_memory_utilization", 0.95)
    apart = "--train.async_enable" in normalized  # cli/train_ppo_ray.py: only DeepSpeed's models share GPUs then
    if "--train.colocate_all" in normalized and "--vllm.enable_sleep" not in normalized and not apart:
        normalized[_SHARE] = share
        notes.append(Message("vLLM keeps {} of the GPU during the update", share))
    notes.append("only the actor's update is estimated; generation and scoring come before it")


def _batch(normalized: dict[str, Any], notes: list[str], *, generating: bool) -> None:
    """Tokens and sequences of a micro-batch."""
    normalized.setdefault("--data.max_len", 2048)
    if generating and "--prompt_max_len" in normalized:
        prompt, answer = normalized.pop("--prompt_max_len"), normalized.pop("--generate_max_len", 1024)
        if isinstance(prompt, int) and isinstance(answer, int):
            normalized["--data.max_len"] = prompt + answer
    if normalized.pop("--train.dynamic_batch_enable", False):
        normalized |= {"--data.max_len": normalized.pop("--train.max_tokens_per_gpu", 16192), _BATCH: 1}
        notes.append("sequences are packed up to --train.max_tokens_per_gpu tokens: counted as one sequence")
    else:
        normalized[_BATCH] = normalized.pop("--train.micro_batch_size", 1 if generating else 8)
        normalized.setdefault("--train.batch_size", 128)
    if generating:
        normalized[_COMPLETION] = normalized["--data.max_len"]


_FREEZES = keys_of_towers("openrlhf")
_NODE = 8
"""GPUs of a node where nothing is said."""
_SCRIPTS: Mapping[str | None, str] = {
    method: f"openrlhf.cli.train_{loop}" for loop, method in _LOOPS.items() if loop != _ALONE
}

_LAUNCHER = ("deepspeed", "--num_nodes", "{nodes}", "--num_gpus", "{each}", "--module")


def _launch(config: Config) -> str:
    """Return what starts the loop: DeepSpeed's launcher, or Ray's own processes where answers are generated."""
    script = _SCRIPTS.get(config[Training.method.name], _SCRIPTS[None])
    launcher = ("python3", "-m") if script == _SCRIPTS["grpo"] else _LAUNCHER
    return " ".join((*launcher, script))


def _written(config: Config) -> dict[str, Any]:
    """Return the flags of a loop: its model, precision and batch, and what shares GPUs with the actor."""
    method, reference = config[Training.method.name], config[Training.method.reference]
    generates = method == "grpo"
    of = "actor" if generates else "model"
    keys: dict[str, Any] = {"--data.prompt_dataset" if generates else "--data.dataset": "data"}
    if isinstance(config.model, str):
        keys[f"--{of}.model_name_or_path"] = full_name(config.model)
    word, _, mixed = (config[Training.precision] or "").partition("-")
    checkpoints = config[Training.activation_checkpointing.policy] == "full"
    keys |= {f"--{of}.gradient_checkpointing_enable": True} if checkpoints else {}
    if checkpoints and config[Training.activation_checkpointing.use_reentrant]:
        keys[f"--{of}.gradient_checkpointing_reentrant"] = True
    keys |= {"--ds.param_dtype": word} if mixed == "mixed" and word in ("bf16", "fp16") else {}
    keys["--train.micro_batch_size"] = config[Training.micro_batch_size] or 1
    if method in ("dpo", "kto") and reference == "precomputed":
        keys["--ref.offload"] = True
    return {**keys, **_actor(config), **_FREEZES(config)} if generates else keys


def _actor(config: Config) -> dict[str, Any]:
    """Flags of the actor's GPUs, of how answers are weighed, and of what else is on these GPUs during its update."""
    gpus, node = gpus_of(config) or 1, config[Hardware.gpus_per_node] or _NODE
    each = max(size for size in range(1, min(node, gpus) + 1) if gpus % size == 0)
    critic, share = config[Training.method.critic] is True, config[Training.method.rollout_share]
    copied = config[Training.method.reference] == "copy"
    keys: dict[str, Any] = {
        "--actor.num_gpus_per_node": each, "--actor.num_nodes": gpus // each,
        "--algo.advantage.estimator": "gae" if critic else "group_norm",
    }  # fmt: skip
    if critic or share:
        keys |= {"--train.colocate_all": True, **({"--vllm.gpu_memory_utilization": share} if share else {})}
        keys |= {} if share else {"--vllm.enable_sleep": True}
    elif copied:
        keys["--train.colocate_actor_ref"] = True
    keys |= {_ENTROPY: 0.001} if config[Training.method.entropy] else {}
    return keys if copied else {**keys, "--algo.kl.init_coef": 0}


OPENRLHF = Tool(
    name="openrlhf",
    title="OpenRLHF",
    syntax="argv",
    engines=("deepspeed",),
    implementations=("transformers", "liger"),
    tells=("--train.micro_batch_size", "--actor.model_name_or_path", "--model.model_name_or_path",
           "--micro_train_batch_size"),
    prefixes=("openrlhf.cli.train_",),
    model=_MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name=_BATCH),
        Key(path=Training.sequence_length, name="--data.max_len"),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.packed_sequences, name="--ds.packing_samples", off=""),
        Key(path=Training.gradient_dtype, name="--ds.grad_accum_dtype"),
        Key(path=Training.activation_checkpointing.use_reentrant, name=_REENTRANT),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.rank, name="--ds.lora.rank"),
        Key(path=Training.adapter.dropout, name="--ds.lora.dropout"),
        Key(path=Training.adapter.target_modules, name="--ds.lora.target_modules"),
        Key(path=Training.method.name, name=_METHOD),
        Key(path=Training.method.reference, name=_REFERENCE),
        Key(path=Training.method.completion_length, name=_COMPLETION),
        Key(path=Training.method.rollout_share, name=_SHARE),
        Key(path=Training.method.critic, name=_CRITIC),
        Key(path=Training.method.entropy, name=_LEARNED),
        Key(path=Training.method.reward_model, name=_REWARDS),
        Key(path=Training.method.teacher, name="--teacher_model"),
        Key(path=EngineSettings.zero_stage, name="--ds.zero_stage"),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=DeepSpeedSettings.hidden_size_buckets, name=_WIDTH),
        Key(path=DeepSpeedSettings.overlap_comm, name="--ds.overlap_comm", off=""),
        Key(path=DeepSpeedSettings.zero_hpz_partition_size, name="--ds.zpg"),
        Key(path=Parallelism.tensor_parallel_size, name="--ds.tensor_parallel_size"),
        Key(path=Parallelism.context_parallel_size, name="--ds.ring_attn_size"),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    meanings=(
        Meaning(sets={Training.activation_checkpointing.policy: "full"},
                keys={_CHECKPOINTED: True}),
        Meaning(sets={Training.quantization: "nf4-double"}, keys={"--ds.load_in_4bit": True}),
        Meaning(sets={Training.implementation: "liger"}, keys={"--ds.use_liger_kernel": True}),
        Meaning(sets={DeepSpeedSettings.offload_optimizer: "cpu"}, keys={"--ds.adam_offload": True}),
        *(
            Meaning(sets={Training.attention: ours}, keys={"--ds.attn_implementation": theirs})
            for ours, theirs in (("flash", "flash_attention_2"), ("sdpa", "sdpa"), ("math", "eager"))
        ),
        *(Meaning(sets={Training.optimizer.name: ours}, keys={"--optim": theirs})
          for ours, theirs in (("adamw", "adam"), ("muon", "muon"))),
    ),
    normalized=_normalized,
    settles=(*_FORMER, *FREEZES["openrlhf"].keys, "--bf16", "--flash_attn", "--ds.param_dtype",
             "--actor.*", "--algo.*", "--train.*", "--vllm.*",
             "--model.*", "--ref.offload", "--ref_reward_offload", "--remote_rm_url",
             "--prompt_max_len", "--generate_max_len", "--ds.lora*"),
    batch="--train.batch_size",
    defaults={EngineSettings.zero_stage: 2},
    vocabulary=("openrlhf",),
    ignored=("--ckpt.*", "--logger.*", "--eval.*", "--data.*", "--adam.*", "--muon.*", "--rollout.*", "--reward*",
             "--vllm*", "--algo*", "--critic*", "--ref*", "--train.*", "--actor*", "--save_*", "--load_*",
             "--use_wandb", "--ds.enable_sleep", "-m", "--module", "--max_epochs", "--num_episodes", "--model.*",
             "--lora_alpha", "--ds.lora.alpha", "--ds.value_head_prefix", "--include", "--num_gpus", "--num_nodes",
             "--nproc_per_node", "--nnodes", "--node_rank",
             "--hostfile", "--master_port", "--master_addr", "--address", "--runtime-env-json"),
    program="deepspeed --module openrlhf.cli.train_sft",
    needs={EngineSettings.framework: "openrlhf"},
    adapters=("lora",),
    launch_of=_launch,
    written=_written,
    unsaid={
        **dict.fromkeys((
            Training.precision, Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps,
            Training.sequence_length, Training.adapter.rank, Training.adapter.target_modules,
            Training.method.completion_length, Training.optimizer.name,
        )),
        Training.activation_checkpointing.policy: "none",
        Training.packed_sequences: False,
        DeepSpeedSettings.hidden_size_buckets: True,
    },
    source="OpenRLHF, openrlhf/cli/",
)  # fmt: skip
