"""Preference and reinforcement learning in the words of TRL, LLaMA-Factory, ms-swift and axolotl.

What they say together becomes plain keys: the method, its reference model, the tokens of a completion, and the share of
the GPU that an inference engine on it keeps while the model is updated.

Sources: trl 1.10, trainer/*_config.py; LLaMA-Factory 0.9.6, hparams/finetuning_args.py (`pref_loss`, `use_ref_model`);
ms-swift 4.5, arguments/rlhf_args.py (`rlhf_type`, `beta`, `sleep_level`); axolotl 0.18, utils/schemas/enums.py
(`RLType`), utils/schemas/trl.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.expressions import is_open
from memcore.formats.normalized import ADAPTED, FRAMEWORK
from memcore.messages import Message
from memcore.records import dataclass
from memcore.tools.launchers import is_set
from memcore.tools.towers import keys_of_towers, keys_within

METHOD, REFERENCE, COMPLETION, SHARE, REWARDS = "*method", "*reference", "*completion", "*share", "*rewards"
CLASSIFIES = "classify"
TEACHER = "teacher_model_name_or_path"
Told = tuple[dict[str, Any], tuple[str, ...]]
"""Plain keys, and notes on what was taken."""

_PROMPT = 512
"""Tokens of a prompt where nothing says how many there may be (TRL before 0.26: `max_prompt_length`)."""


def _refuse(key: str, value: object, allowed: Iterable[str]) -> UnsupportedError:
    return UnsupportedError(key, "found {!r:.80}; supported: {}", value, ", ".join(allowed))


def _number(value: object, default: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _tokens(value: object, default: int) -> Any:
    """Return a number of tokens, or what nobody knows as it is, which the job then asks for."""
    return value if is_open(value) else int(_number(value, default))


_OF_METHODS: Mapping[str, tuple[str, ...]] = {
    "grpo": ("num_generations", "max_completion_length", "reward_funcs", "reward_weights", "num_iterations",
             "scale_rewards", "vllm_mode", "use_vllm"),
    "kto": ("desirable_weight", "undesirable_weight"),
    "reward": ("center_rewards_coefficient", "num_padding_at_beginning"),
    "simpo": ("simpo_gamma", "gamma_beta_ratio"),
    "cpo": ("cpo_alpha",),
    "dpo": ("precompute_ref_log_probs", "ref_model_init_kwargs", "rpo_alpha", "loss_weights", "reference_free",
            "sync_ref_model", "use_weighting", "beta", "max_prompt_length", "max_completion_length"),
}  # fmt: skip
"""Keys that only the configs of other methods than SFT have; `beta` alone is most often DPO's."""
_REFUSED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("PPO", "--method ppo"): (
        "reward_model_path", "num_ppo_epochs", "kl_coef", "whiten_rewards", "response_length", "rloo_k"),
}  # fmt: skip
"""Methods whose steps are not known, the closest that is, and keys that only they have."""
_SCRIPT = re.compile(
    r"(?:\b|/|_)(dpo|kto|orpo|cpo|grpo|rloo|ppo|reward(?:_modeling)?|gkd|bco|xpo)(?:_\w+)?(?:\.py\b|\s|$)"
)
_RLOO, _RLOO_BETA = "rloo", 0.05
"""RLOO takes the same log-probabilities of completions as GRPO, and has a reference unless `beta` is 0 (trl 1.16,
trainer/rloo_trainer.py, `_compute_loss`; rloo_config.py)."""
_OF_TEACHERS = (TEACHER, "lmbda", "seq_kd")
_SCRIPTS: Mapping[str, str] = {
    "gkd": "distill", "dpo": "dpo", "kto": "kto", "orpo": "orpo", "cpo": "cpo", "grpo": "grpo", "rloo": "rloo",
    "reward": "reward", "reward_modeling": "reward",
}  # fmt: skip
_CONSUMED = ("beta", "precompute_ref_log_probs", "max_prompt_length", "max_completion_length", "num_generations",
             "use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode", "reward_funcs",
             "steps_per_generation", "generation_batch_size", "loss_type", "gamma_beta_ratio",
             "teacher_model_name_or_path")  # fmt: skip
"""Keys that are read here, or say what does not last through the update."""
TRL_KEYS = _CONSUMED


def adapts(found: Mapping[str, Any]) -> bool:
    """Return whether the Trainer's words have an adapter, of whatever method."""
    return is_set(found.get("use_peft")) or ADAPTED in found


def of_trl_method(found: Mapping[str, Any]) -> Told:
    """The method of TRL's script or config; nothing for supervised ones.

    Raises UnsupportedError for methods whose steps are not known.
    """
    program = str(found.get("", "")).lower()
    for (title, closest), keys in _REFUSED.items():
        told = next((name for name in keys if found.get(name) not in (None, False)), None)
        if told is not None:
            message = Message("a key of TRL's {}, which is not supported yet; the closest is {}", title, closest)
            raise UnsupportedError.of_value(told, found[told], message)
    named = _SCRIPT.search(program)
    if named is not None and named[1] not in _SCRIPTS:
        message = Message("{} is not supported yet", named[1])
        raise UnsupportedError.of_value("the command", program[:60], message)
    taught = "distill" if any(found.get(name) not in (None, False) for name in _OF_TEACHERS) else None
    method = found.get(METHOD) or (_SCRIPTS[named[1]] if named else taught)
    if method is not None:
        return _of_trl(found, str(method), ())
    for each, keys in _OF_METHODS.items():
        own = [name for name in keys if not (each == "grpo" and name in _SHARED and _WHOLE in found)]
        told = next((name for name in own if found.get(name) not in (None, False)), None)
        if told is not None:
            said = _named_elsewhere(found) if told in _SHARED else None
            if said is not None:
                return _of_trl(found, said[1], (Message("{} names {}, so this method is assumed", *said),))
            return _of_trl(found, each, (Message("{} is a key of {}, so this method is assumed", told, each.upper()),))
    return {}, ()


_SHARED = ("beta", "max_prompt_length", "max_completion_length")
"""Keys of several methods."""
_WHOLE = "max_length"
"""Of a prompt with what answers it, which pairs have (trl, dpo_config.py, orpo_config.py) and GRPO's samples do not."""
_NAMES = ("hub_model_id", "output_dir", "run_name")
_NAMED = re.compile(r"(?:^|[\W_])(kto|orpo|cpo|simpo)(?=$|[\W_])")


def _named_elsewhere(found: Mapping[str, Any]) -> tuple[str, str] | None:
    """A key whose name of the run names a method, and that method."""
    for key in _NAMES:
        named = _NAMED.search(str(found.get(key, "")).lower())
        if named is not None:
            return key, named[1]
    return None


def _of_trl(found: Mapping[str, Any], method: str, notes: tuple[str, ...]) -> Told:
    plain: dict[str, Any] = {}
    if is_set(found.get("use_liger_kernel")) and method in ("dpo", "grpo"):
        plain["*loss"] = "fused-linear"
    if method == _RLOO:
        found, method = {"beta": _RLOO_BETA, **found}, "grpo"
        notes = (*notes, "RLOO's update has the tensors of GRPO's, and is counted as one")
    plain[METHOD] = method
    if is_set(found.get("precompute_ref_log_probs")):
        plain[REFERENCE] = "precomputed"
    if method == "distill":
        return _taught(found, plain, notes)
    if method != "grpo":
        return plain, notes
    sleeps = is_set(found.get("vllm_enable_sleep_mode"))
    more, said = _TRL.told(found, adapted=adapts(found), sleeps=sleeps)
    prompt, answer = _tokens(found.get("max_prompt_length"), _PROMPT), more[COMPLETION]
    given = () if "max_prompt_length" in found else (Message("prompts of {} tokens are assumed", prompt),)
    open_ones = [each for each in (prompt, answer) if is_open(each)]
    whole = found.get("max_length", open_ones[0]) if open_ones else prompt + answer
    return {**plain, **more, "max_length": whole}, (*notes, *given, *said)


def _taught(found: Mapping[str, Any], plain: dict[str, Any], notes: tuple[str, ...]) -> Told:
    """GKD's frozen teacher, whose logits and the model's are compared in fp32 (trl, experimental/gkd)."""
    if is_set(found.get("use_liger_kernel")):
        message = "with GKD, Liger's loss is not supported yet; without it, all logits are counted"
        raise UnsupportedError.of_value("use_liger_kernel", found["use_liger_kernel"], message)
    told = {**plain, FRAMEWORK: "trl", TEACHER: found.get(TEACHER)}
    said = ("the loss is counted over all tokens, although the trainer leaves out prompts",
            "only the update is counted, not generation")  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}, (*notes, *said)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grpo:
    """GRPO in a loop's words, and what its absent keys mean."""

    below: str = ""
    """Where its keys are."""
    beta: float = 0.0
    """The weight of the distance from a reference; without one, there is no such model."""
    mode: str | None = None
    share: float = 0.9

    def told(self, found: Mapping[str, Any], *, adapted: bool, sleeps: bool) -> Told:
        """The tokens of a completion, the reference, and what an inference engine keeps during the update."""
        given = {key: found.get(f"{self.below}{key}") for key in _CONSUMED}
        plain: dict[str, Any] = {COMPLETION: _tokens(given["max_completion_length"], 512)}
        if _number(given["beta"], self.beta) and not adapted:
            plain[REFERENCE] = "copy"
        mode = self.mode if given["vllm_mode"] is None else given["vllm_mode"]
        if not is_set(given["use_vllm"]) or mode != "colocate" or sleeps:
            return plain, ("only the update is counted, not generation",)
        share = _number(given["vllm_gpu_memory_utilization"], self.share)
        return {**plain, SHARE: share}, (Message("vLLM keeps {} of the GPU during the update", share),)


_GRPO_BETA = 0.04
"""The usual weight of a reference (DeepSeekMath, section 4.2); TRL's and Unsloth's defaults are 0 and 0.001."""
_TRL, _SWIFT = _Grpo(mode="colocate", share=0.3), _Grpo(beta=_GRPO_BETA)
_AXOLOTL = _Grpo(below="trl.")
_STAGES = ("dpo", "kto", "rm", "ppo")
_PREFERENCES: Mapping[str, str] = {
    "sigmoid": "dpo", "hinge": "dpo", "ipo": "dpo", "kto_pair": "dpo", "orpo": "orpo", "simpo": "simpo",
}  # fmt: skip
FACTORY_KEYS = ("pref_loss", "pref_beta", "pref_ftx", "ref_model", "reward_model", "reward_model_type", "ppo_*",
                "max_new_tokens")  # fmt: skip


def of_factory_method(found: Mapping[str, Any]) -> Told:
    """LLaMA-Factory's stages: preference losses without a reference, and value heads on whole models."""
    stage = str(found.get("stage", "sft"))
    if stage in ("sft", "pt"):
        return {}, ()
    if stage not in _STAGES:
        raise _refuse("stage", stage, ("sft", "pt", *_STAGES))
    plain: dict[str, Any] = {FRAMEWORK: "llama-factory"}
    if stage == "dpo":
        loss = str(found.get("pref_loss", "sigmoid"))
        if loss not in _PREFERENCES:
            raise _refuse("pref_loss", loss, _PREFERENCES)
        plain[METHOD] = _PREFERENCES[loss]
    else:
        plain[METHOD] = "reward" if stage == "rm" else stage
    if found.get("ref_model") and plain[METHOD] in ("dpo", "kto", "ppo"):
        plain[REFERENCE] = "copy"
    return _of_ppo(found, plain) if stage == "ppo" else (plain, ())


def _of_ppo(found: Mapping[str, Any], plain: dict[str, Any]) -> Told:
    """LLaMA-Factory's PPO: a prompt and its answer are a sequence, and a whole reward model stays on the GPU.

    Source: LLaMA-Factory 0.9.6, hparams/finetuning_args.py (`reward_model_type`), hparams/generating_args.py
    (`max_new_tokens`), data/processor/unsupervised.py (prompts of up to `cutoff_len` tokens).
    """
    prompt, answer = int(_number(found.get("cutoff_len"), 2048)), int(_number(found.get("max_new_tokens"), 1024))
    notes = [
        Message("a sequence is a prompt of cutoff_len {} and an answer of max_new_tokens {} tokens", prompt, answer),
        "only the update is counted, not generation",
    ]
    plain["cutoff_len"] = prompt + answer
    if found.get("reward_model_type", "lora") == "full":
        plain[REWARDS] = True
        notes.append("the reward model stays on the GPU, and is counted as large as the model")
    return plain, tuple(notes)


_TYPES: Mapping[str, str] = {
    "dpo": "dpo", "kto": "kto", "orpo": "orpo", "cpo": "cpo", "simpo": "simpo", "rm": "reward", "grpo": "grpo",
}  # fmt: skip
SWIFT_KEYS = (*_CONSUMED, "sleep_level", "ref_model", "vllm_max_model_len", "offload_model", "offload_optimizer",
              "reward_model", "reward_model_plugin", "teacher_model", "teacher_deepspeed", "offload_teacher_model",
              "lmbda", "seq_kd", "response_length", "max_new_tokens", "gkd_logits_topk", "sft_alpha")  # fmt: skip


_RANKED: Mapping[str, str] = {
    "embedding": "each row is counted as two sequences: the anchor and one positive",
    "reranker": "each row is counted as two sequences: the query and one document",
    "generative_reranker": "each row is counted as two sequences: the query and one document",
}
"""Tasks of models that compare texts, of which a step has pairs and a result for each (ms-swift 4.5, model/patcher.py,
`patch_output_normalizer`; model/register.py, `_patch_generative_reranker`: two logits at the last token)."""


def of_labels(found: Mapping[str, Any]) -> tuple[str, ...]:
    """A note on a head of several outputs (model/register.py: `AutoModelForSequenceClassification`)."""
    labels = found.get("num_labels", 1)
    return () if labels == 1 else (Message("num_labels: {} outputs of the head are counted as one", labels),)


_SAMPLES = "num_generations"


def _by_samples(found: Mapping[str, Any]) -> Told:
    """GRPO by a key that no other method has, in a file whose command names it."""
    plain, notes = of_swift_method({**found, "rlhf_type": "grpo"})
    return plain, (Message("{} is a key of {}, so this method is assumed", _SAMPLES, "GRPO"), *notes)


def of_swift_method(found: Mapping[str, Any]) -> Told:
    """ms-swift's `rlhf_type`, which is dpo for `swift rlhf` where none is said.

    Raises UnsupportedError for PPO.
    """
    program, task = str(found.get("", "")), str(found.get("task_type", "causal_lm"))
    if task == "seq_cls" and "rlhf_type" not in found and "rlhf" not in program:
        return {METHOD: CLASSIFIES}, of_labels(found)
    if task not in ("causal_lm", "seq_cls"):
        if task not in _RANKED:
            raise _refuse("task_type", task, ("causal_lm", "seq_cls", *_RANKED))
        return {METHOD: "reward"}, (
            Message("task_type: {}: {}; for more, raise the micro-batch size", task, _RANKED[task]),
        )
    kind = found.get("rlhf_type", "dpo" if "rlhf" in program else None)
    if kind is None:
        return _by_samples(found) if not program and _SAMPLES in found else ({}, ())
    if kind not in _TYPES:
        if kind == "gkd":
            return _of_swift_gkd(found)
        if kind == "ppo":
            message = Message("its loss is not supported yet; the closest is {}", "--method ppo")
            raise UnsupportedError.of_value("rlhf_type", kind, message)
        raise _refuse("rlhf_type", kind, _TYPES)
    plain: dict[str, Any] = {METHOD: _TYPES[str(kind)]}
    adapted = found.get("tuner_type", found.get("train_type", "lora")) != "full"
    if is_set(found.get("precompute_ref_log_probs")):
        plain[REFERENCE] = "precomputed"
    elif found.get("ref_model") and kind in ("dpo", "kto"):
        plain[REFERENCE] = "copy"
    return _of_swift_grpo(found, plain, adapted=adapted) if kind == "grpo" else (plain, ())


def _of_swift_grpo(found: Mapping[str, Any], plain: dict[str, Any], *, adapted: bool) -> Told:
    """Its answers, its rollout engine, and Liger's loss (ms-swift, rlhf_trainers/grpo_trainer.py)."""
    if is_set(found.get("use_liger_kernel")):
        plain["*loss"] = "fused-linear"
    said = found.get("max_length")
    prompt = int(said) if isinstance(said, int) else _PROMPT
    more, notes = _SWIFT.told(found, adapted=adapted, sleeps=int(_number(found.get("sleep_level"), 0)) > 0)
    given = () if isinstance(said, int) else (Message("prompts of {} tokens are assumed", prompt),)
    return {**plain, **more, "max_length": prompt + more[COMPLETION]}, (*given, *notes)


_NO_TEACHER = "a teacher that is the model itself, or behind a server, is not supported yet"


def _of_swift_gkd(found: Mapping[str, Any]) -> Told:
    """Distillation from a frozen teacher, of answers that the model generates itself unless `lmbda` is 0.

    Source: ms-swift 4.5, rlhf_trainers/gkd_trainer.py, arguments/rlhf_args.py (`lmbda` 0.5, `max_completion_length`).
    """
    teacher = found.get("teacher_model")
    if not teacher or teacher == found.get("model"):
        raise UnsupportedError("teacher_model", _NO_TEACHER)
    if is_set(found.get("use_liger_kernel")):
        message = "with GKD, Liger's loss is not supported yet; without it, all logits are counted"
        raise UnsupportedError.of_value("use_liger_kernel", found["use_liger_kernel"], message)
    if is_set(found.get("offload_teacher_model")):
        raise UnsupportedError.of_value("offload_teacher_model", True, "a teacher in host memory is not supported yet")
    plain: dict[str, Any] = {METHOD: "distill", "*framework": "ms-swift", "*teacher": teacher}
    notes: tuple[str, ...] = ("the loss is counted over all tokens, although the trainer leaves out prompts",)
    if found.get("lmbda", 0.5):
        answer = next((found[name] for name in _ANSWERS if name in found), 512)
        prompt = _tokens(found.get("max_length"), _PROMPT)
        whole = prompt if is_open(prompt) else prompt + _tokens(answer, 512)
        plain["max_length"] = whole
        notes = (*notes, "only the update is counted, not generation")
    shards = found.get("deepspeed")
    if found.get("teacher_deepspeed", shards) != shards:
        notes = (*notes, "teacher_deepspeed: the teacher is counted as sharded as the model is")
    return plain, notes


_ANSWERS = ("response_length", "max_new_tokens", "max_completion_length")
_RL: Mapping[str, str] = {
    "dpo": "dpo", "ipo": "dpo", "kto": "kto", "orpo": "orpo", "simpo": "simpo", "grpo": "grpo", "gdpo": "grpo",
}  # fmt: skip
AXOLOTL_KEYS = ("trl.beta", "trl.max_completion_length", "trl.use_vllm", "trl.vllm_mode", "trl.num_generations",
                "trl.vllm_enable_sleep_mode", "trl.sync_ref_model", "trl.vllm_gpu_memory_utilization", "reward_model",
                "precompute_ref_log_probs", "rl_beta", "trl.vllm_server_host", "trl.vllm_server_port",
                "trl.vllm_server_timeout")  # fmt: skip


def of_axolotl_method(found: Mapping[str, Any]) -> Told:
    """axolotl's `rl`, whose keys for TRL are below `trl`, and its reward models.

    Raises UnsupportedError for methods of its own.
    """
    if is_set(found.get("reward_model")):
        return {METHOD: "reward"}, ()
    kind = found.get("rl")
    if not kind:
        return {}, ()
    if kind not in _RL:
        raise _refuse("rl", kind, _RL)
    plain: dict[str, Any] = {METHOD: _RL[str(kind)]}
    if is_set(found.get("precompute_ref_log_probs")):
        plain[REFERENCE] = "precomputed"
    if plain[METHOD] != "grpo":
        return plain, ()
    share = found.get("trl.vllm_gpu_memory_utilization", found.get("vllm.gpu_memory_utilization"))
    sleeps = is_set(found.get("trl.vllm_enable_sleep_mode"))
    engine = {**found, "trl.vllm_gpu_memory_utilization": share}
    more, notes = _AXOLOTL.told(engine, adapted=bool(found.get("adapter")), sleeps=sleeps)
    whole = int(_number(found.get("sequence_len"), 512))
    return {**plain, **more, "sequence_len": max(whole, more[COMPLETION] + 1)}, notes


_ANSWER, _COMPLETIONS = 1024, 256
"""LLaMA-Factory's `max_new_tokens`, and TRL's `max_completion_length`."""
_WRITTEN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "llama-factory": {
        **{name: {"stage": name} for name in ("dpo", "kto", "ppo")},
        **{name: {"stage": "dpo", "pref_loss": name} for name in ("orpo", "simpo")},
        "reward": {"stage": "rm"},
    },
    "axolotl": {
        **{name: {"rl": name} for name in ("dpo", "orpo", "simpo")},
        "kto": {"rl": "kto", "remove_unused_columns": False},  # utils/schemas/validation.py, `check_kto_config`
        "reward": {"reward_model": True},
    },
    "ms-swift": {"classify": {"task_type": "seq_cls"}},
    "trainer": {
        "dpo": {"beta": 0.1},
        "kto": {"desirable_weight": 1.0},
        "grpo": {"num_generations": 8, "max_length": None},
        "reward": {"center_rewards_coefficient": 0.01},
        "cpo": {"cpo_alpha": 1.0},
        "simpo": {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": 0.5},
        "orpo": {"beta": 0.1, "output_dir": "orpo"},  # its config has no key of its own
    },
}
"""Keys of methods by tool, where the method alone gives them; `of_axolotl_method` and others read them."""


_REWARDS: Mapping[str, str] = {
    "full": "saves/reward",
    "lora": "saves/reward",
    "api": "http://localhost:8000/v1/score",
}
"""What names a reward model of each type, without which no PPO starts; only adapters have one of adapters
(LLaMA-Factory 0.9.5, hparams/finetuning_args.py, `__post_init__`)."""


def written(tool: str) -> Callable[[Config], Mapping[str, Any]]:
    """Return what writes the keys of a config's method and of its towers."""
    of_towers = keys_of_towers(tool)
    return lambda config: {**of_towers(config), **keys_within(tool, config), **keys_of_method(tool, config)}


def keys_of_method(tool: str, config: Config) -> Mapping[str, Any]:
    """Return the keys that say a config's method to a tool; none where it has none for it."""
    name, length = config[Training.method.name], config[Training.sequence_length]
    keys = dict(_WRITTEN[tool].get(name or "", {}))
    if name == "ppo" and keys and length is not None:
        answer = min(_ANSWER, length // 2)
        keys |= {"cutoff_len": length - answer, "max_new_tokens": answer}
        adapted = "lora" if config[Training.adapter.type] else "api"
        kind = "full" if config[Training.method.reward_model] else adapted
        keys |= {"reward_model": _REWARDS[kind], "reward_model_type": kind}
    if tool == "trainer" and name == "grpo" and length is not None:
        answer = config[Training.method.completion_length] or min(_COMPLETIONS, length - 1)
        keys |= {"max_prompt_length": length - answer, "max_completion_length": answer}
        keys |= {"beta": _GRPO_BETA if config[Training.method.reference] == "copy" else 0.0}
    copied = config[Training.method.reference] == "copy" and isinstance(config.model, str)
    if tool == "llama-factory" and keys and copied:
        keys["ref_model"] = config.model
    return keys
