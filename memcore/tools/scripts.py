"""Python scripts and notebooks of transformers, TRL, PEFT, Unsloth and vLLM: what their calls say, in a tool's keys.

Sources: transformers 5.23, training_args.py, utils/quantization_config.py (`BitsAndBytesConfig`: fp4 where no type is
said); trl 1.16, trainer/sft_config.py; peft 0.21, tuners/lora/config.py; unsloth 2026.7, models/loader.py
(`from_pretrained`: 4 bits unless `full_finetuning`, `load_in_8bit` or `load_in_16bit`), models/llama.py
(`get_peft_model`: rank 16, seven matrices, `use_gradient_checkpointing="unsloth"`; nothing after
`full_finetuning=True`), models/loader_utils.py
(`get_model_name`: the repository in 16 bits where 4 are not asked for); vllm, entrypoints/llm.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore.config.training import Training
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import AUTOCAST, PREPARED
from memcore.formats.objects import STARTED, options
from memcore.formats.python import FREEZES, Call, Change, calls, environment, followed
from memcore.formats.readers import SeveralJobs, flat
from memcore.formats.shell import ENVIRONMENT, OUTSIDE
from memcore.formats.tracked import ARGUMENTS, MODEL, TRAINER
from memcore.formats.writing import nested
from memcore.limits import NESTING
from memcore.messages import Message, joined
from memcore.networks.named import DYNAMIC
from memcore.tools.altered import CONFIGS, of_arguments, of_model, optimizer_of, with_changes
from memcore.tools.methods import CLASSIFIES, METHOD, REFERENCE, of_labels
from memcore.tools.unread import arguments_unread, changes_unread

_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "UnslothTrainingArguments")
_METHODS = ("PPO", "RLOO", "BCO", "XPO", "OnlineDPO", "Nash")
_OTHERS = frozenset(f"{method}{kind}" for method in _METHODS for kind in ("Config", "Trainer", "MDConfig"))
LEARNT: Mapping[str, str] = {
    f"{name}Config": method
    for name, method in (("DPO", "dpo"), ("GRPO", "grpo"), ("KTO", "kto"), ("ORPO", "orpo"), ("CPO", "cpo"),
                         ("Reward", "reward"), ("GKD", "distill"))
}  # fmt: skip
"""TRL's configs of other methods, which say what the loop is."""
_TRAINERS = (
    "SFTTrainer", "Trainer", "Seq2SeqTrainer", "UnslothTrainer", *(name.replace("Config", "Trainer") for name in LEARNT),
)  # fmt: skip
_UNSLOTH = ("FastLanguageModel", "FastModel", "FastVisionModel")
_LORA: Mapping[str, str] = {
    "r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "target_modules": "lora_target_modules",
    "target_parameters": "lora_target_parameters", "modules_to_save": "lora_modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
_NO_LORA = ("bias", "task_type", "inference_mode", "init_lora_weights", "random_state", "loftq_config",
            "base_model_name_or_path", "max_seq_length")  # fmt: skip
"""Arguments of `LoraConfig` and `get_peft_model` that memory does not depend on; `bias` is looked at."""
_OF_PEFT = frozenset({
    "AdaLora", "AdaptionPrompt", "BOFT", "Bone", "CPT", "FourierFT", "HRA", "IA3", "LNTuning", "LoHa", "LoKr", "Miss",
    "OFT", "Poly", "PrefixTuning", "PromptEncoder", "PromptTuning", "RandLora", "TrainableTokens", "VBLoRA", "Vera",
    "XLora",
})  # fmt: skip
"""Classes of PEFT's other methods, without `Config`."""
_BROUGHT = ("PeftModel", "PeftModelForCausalLM", "AutoPeftModelForCausalLM", "AutoPeftModel")
"""PEFT's classes that load an adapter, which trains further if they are asked to."""
_PEFT: Mapping[str, object] = {"lora_r": 8, "lora_dropout": 0.0}
"""What `LoraConfig` takes where nothing is said (peft/tuners/lora/config.py)."""
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_FAST: Mapping[str, object] = {"r": 16, "target_modules": SEVEN, "lora_alpha": 16, "lora_dropout": 0}
_FOUR_BITS = re.compile(r"(?:-unsloth)?-bnb-4bit$", re.IGNORECASE)
_PARTS = ("finetune_vision_layers", "finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules")

_SERVERS = ("LLM", "EngineArgs", "AsyncEngineArgs")
_OF_RAY, _RAY = "LLMConfig", "ray.serve.llm"

_EACH = "per_device_train_batch_size"

Script = tuple[dict[str, Any], tuple[str, ...]]


def of_script(code: str) -> tuple[str, dict[str, Any], tuple[str, ...]] | None:
    """The syntax and keys of the tool that a script drives, and notes; None for a script of nothing that is known.

    Raises UnsupportedError for other methods than supervised ones, and ConfigError for several jobs.
    """
    found, changes = followed(code, _role)
    found = with_changes(found, changes, (*_ARGUMENTS, *LEARNT))
    around = {name: value for name, value in options().items() if name.startswith(ENVIRONMENT)}
    around |= {f"{ENVIRONMENT}{name}": value for name, value in environment(code).items()}
    prepares = any(each.name == "get_peft_model" and each.of in _UNSLOTH for each in found)
    if prepares or any(each.name in (*_ARGUMENTS, *LEARNT, *_OTHERS, *_TRAINERS) for each in found):
        if STARTED in options():
            return _of_training(_decided(*_training(found, changes)), around)
        jobs = _jobs(found)
        read = [_of_training(_training(each, changes), around) for _, each in jobs]
        if len(jobs) > 1:
            syntaxes, keys, notes = zip(*read, strict=True)
            raise SeveralJobs(keys, [title for title, _ in jobs], syntaxes, notes)
        return read[0]
    serves = [each for each in found if each.name in _SERVERS and (each.arguments or each.first)]
    deployed = [_deployed(each) for each in found if each.name == _OF_RAY and _RAY in code]
    if deployed or (serves and "vllm" in code):
        serves = deployed or serves
        keys, notes = _serving(_single_call(serves))
        return "argv", {**keys, **around}, notes
    return None


def _role(name: str, of: str) -> str:
    """Return the role of what a call makes: the model, its trainer, the arguments, or a config of either."""
    if name in (*_ARGUMENTS, *LEARNT, *_OTHERS) and not name.endswith("Trainer"):
        return ARGUMENTS
    if name in (*_TRAINERS, *_OTHERS):
        return TRAINER
    loads = name in ("from_pretrained", "from_config") and (_CLASSES.search(of) or of in (*_UNSLOTH, *_BROUGHT))
    if loads or _CLASSES.search(name) or name in ("get_peft_model", _PREPARES) or (name, of) == ("compile", "torch"):
        return MODEL
    return "config" if name == "from_pretrained" and of.endswith("Config") else CONFIGS.get(name, "")


def _of_training(script: Script, around: Mapping[str, Any]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Return the syntax of the tool that has a trainer's keys, and the keys with the environment of their script."""
    keys, notes = script
    return "python" if keys.get("use_unsloth") is True else "yaml", {**keys, **around}, notes


def _jobs(found: Sequence[Call]) -> list[tuple[str, list[Call]]]:
    """Return the title and the calls of each job of a script: one for each trainer that has its own arguments."""
    configs = [each for each in found if each.name in (*_ARGUMENTS, *LEARNT) and each.arguments]
    trainers = [each for each in found if each.name in _TRAINERS]
    several = _by_models(found, trainers)
    if several:
        return several
    alike = all((each.name, each.arguments) == (configs[0].name, configs[0].arguments) for each in configs)
    if alike or len(configs) != len(trainers):
        return [("", list(found))]
    pairs = list(zip(*(sorted(each, key=lambda call: call.line) for each in (configs, trainers)), strict=True))
    apart = {id(each) for pair in pairs for each in pair}
    others = [each for each in found if id(each) not in apart]
    return [(f"{config.name}:{config.line}", [*others, config, trainer]) for config, trainer in pairs]


def _by_models(found: Sequence[Call], trainers: Sequence[Call]) -> list[tuple[str, list[Call]]]:
    """Return the jobs of a script that loads a model for each of its trainers, one after another; none of another."""
    ends = sorted(each.line for each in trainers)
    places = [bisect_left(ends, each.line) for each in found]
    models = {at: each.first for each, at in zip(found, places, strict=True) if _loads(each) and at < len(ends)}
    if len(models) != len(ends) or len({str(each) for each in models.values()}) < 2:
        return []
    made = [each.name in _MADE or _loads(each) for each in found]
    parts = [
        [each for each, own, at in zip(found, made, places, strict=True) if at == number or not own]
        for number in range(len(ends))
    ]
    return [(f"{models[number]}:{ends[number]}", part) for number, part in enumerate(parts)]


def _decided(keys: Mapping[str, Any], notes: tuple[str, ...]) -> Script:
    """The keys without those that only the running script makes of its options."""
    left = {name for name, value in keys.items() if isinstance(value, str) and OUTSIDE.search(value)}
    more = [Message("what the script makes of its options is not read: {}", joined(", ", sorted(left)))] if left else []
    return {name: value for name, value in keys.items() if name not in left}, (*notes, *more)


def decides(code: str) -> bool:
    """Return whether a script makes the arguments of its trainer or server itself."""
    makes = {*_ARGUMENTS, *LEARNT, *(_SERVERS if "vllm" in code else ())}
    return any(each.name in makes and (each.arguments or each.hidden) for each in calls(code))


_TARGETS_OF = ("_target_", "class_path")
_OF_HYDRA = frozenset({"_partial_", "_recursive_", "_convert_", "_args_", *_TARGETS_OF})
_MADE = frozenset({*_ARGUMENTS, *LEARNT, *_OTHERS, *_TRAINERS, "LoraConfig", "BitsAndBytesConfig", "ModelConfig"})

_NAMESAKES = frozenset({"verl"})
"""Packages that have classes of such names of their own (verl 0.9.1, workers/config/reward.py: `RewardConfig`)."""


def of_instantiated(found: Mapping[str, Any]) -> Script | None:
    """The keys of a file of objects by their classes, as the calls that make them; None for another file.

    Sources: Hydra 1.3, docs/advanced/instantiate_objects/overview.md (`_target_`); jsonargparse 4,
    docs/source/index.rst (`class_path` with `init_args`), which Lightning's command line reads.
    """
    if not any(name.rpartition(".")[2] in _TARGETS_OF for name in found):
        return None
    made, others = [], {}
    for name, value in nested({name: value for name, value in found.items() if name}).items():
        here = list(_instances(value))
        made += here
        if not here:
            others[name] = value
    if not any(each.name in (*_ARGUMENTS, *LEARNT, *_OTHERS, *_TRAINERS) for each in made):
        return None
    keys, notes = _training(made)
    if not any(each.name in (*_ARGUMENTS[2:], *LEARNT, "SFTTrainer", "UnslothTrainer") for each in made):
        keys.setdefault("max_length", "$max_length")  # as long as the data's
    left = joined(", ", sorted(others))
    return keys, (*notes, *([Message("only objects of known classes are read, and not {}", left)] if others else []))


def _instances(value: object, deep: int = 0) -> Iterator[Call]:
    """The calls that make the objects below a value, if they are of a known class."""
    if not isinstance(value, Mapping) or deep > NESTING:
        return
    target = next((str(value[name]) for name in _TARGETS_OF if name in value), "")
    before, _, name = target.rpartition(".")
    given = value.get("init_args", value) if "class_path" in value else value
    plain = {name: each for name, each in _mapping(given).items() if name not in _OF_HYDRA}
    of = before.rpartition(".")[2]
    namesake = before.partition(".")[0] in _NAMESAKES
    if (name in _MADE and not namesake) or (name == "from_pretrained" and _CLASSES.search(of)):
        yield Call(name, of, 0, {name: _plain(each) for name, each in plain.items()})
    for each in plain.values():
        yield from _instances(each, deep + 1)


def _plain(value: Any) -> Any:
    """A dtype by its own name, as calls have it."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _single_call(several: Sequence[Call]) -> Call:
    """The only call, or one of several that say the same.

    Raises ConfigError for others.
    """
    first = several[0]
    if any((each.arguments, each.first) != (first.arguments, first.first) for each in several):
        listed = joined(", ", [str(each.line) for each in several])
        raise ConfigError.at(first.name, "is called with different arguments in lines {}; keep one of them", listed)
    return first


def _deployed(call: Call) -> Call:
    """Ray Serve's description of a model as vLLM's arguments, which it hands over.

    Source: ray 2.57, llm/_internal/serve/core/configs/llm_config.py (`LLMConfig`: `model_source` where it is given,
    else `model_id`; `engine_kwargs`).
    """
    loads, given = (call.arguments.get(name) for name in ("model_loading_config", "engine_kwargs"))
    named = loads if isinstance(loads, Mapping) else {}
    model = named.get("model_source") or named.get("model_id")
    source = model if isinstance(model, str) else named.get("model_id")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    hidden = call.hidden if given is None or isinstance(given, Mapping) else (*call.hidden, "engine_kwargs")
    return replace(call, arguments={"model": source, **arguments}, hidden=hidden)


def _serving(call: Call) -> Script:
    """vLLM's arguments in Python as those of its command line."""
    keys: dict[str, Any] = {"": "vllm serve"}
    given = dict(call.arguments)
    keys["*"] = given.pop("model", call.first)
    for name, value in flat(given).items():
        option, dot, inside = name.partition(".")
        flag = f"--{option.replace('_', '-')}{dot}{inside}"
        if isinstance(value, bool):
            keys[flag if value else f"--no-{flag[2:]}"] = True
        else:
            keys[flag] = value
    return keys, tuple(_hidden([call]))


def _training(found: Sequence[Call], changes: Sequence[Change] = ()) -> Script:
    """Keys of TRL's files."""
    other = next((each for each in found if each.name in _OTHERS), None)
    if other is not None:
        raise UnsupportedError(other.name, "found in line {}; this method is not supported yet", other.line)
    keys: dict[str, Any] = {}
    told: list[Call] = []
    arguments = [each for each in found if each.name in (*_ARGUMENTS, *LEARNT)]
    arguments = [each for each in arguments if each.arguments] or arguments
    if arguments:
        call = _single_call(arguments)
        told.append(call)
        keys |= _of_arguments(call)
    for call in found:
        if call.name in _TRAINERS:
            told.append(call)
            keys |= _of_trainer(call)
            method = LEARNT.get(call.name.replace("Trainer", "Config"))
            if method is not None:
                keys = {**_unadapted(), METHOD: method, **keys}
    keys |= _of_peft(found, told)
    model = _of_model(found, told, named="model_name_or_path" in keys)
    keys |= {**model, **_shorter(keys, model)}
    keys |= _of_casts(found, keys, changes)
    keys |= {} if arguments else of_arguments(changes)
    keys = {**keys, **_of_model_config(found, told)}
    if (
        arguments
        and arguments[0].name in _ARGUMENTS[:2]
        and {call.name for call in found} & {*_TRAINERS} in ({"Trainer"}, {"Seq2SeqTrainer"})
    ):
        keys.setdefault("max_length", _truncated(found))
    if not arguments and not any(call.name in _TRAINERS for call in found):
        keys[_EACH] = f"${_EACH}"  # the trainer is in another script
    more = () if keys.get("use_peft") is True else _frozen(found)
    halved = keys.get("bf16") or keys.get("fp16") or "bf16" not in keys
    more = (*more, *_unread(found, halved=bool(halved)), *of_labels({"num_labels": keys.pop("num_labels", 1)}))
    more = (*more, *changes_unread(changes, adapted=_adapted(found) if keys.get("use_peft") is True else None))
    if any(each.of in _UNSLOTH and each.arguments.get("fast_inference") is True for each in found):
        keys["use_vllm"] = False
        more = (*more, "fast_inference: vLLM's cache is not counted")
    if keys.get("use_unsloth") is True and arguments and arguments[0].name not in _ARGUMENTS[:2]:
        keys = _as_unsloth(keys)
    return {name: value for name, value in keys.items() if value is not None}, (*_hidden(told), *more)


def _shorter(keys: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shorter length of a trainer's and of Unsloth's model's (unsloth 2026.7, models/rl.py)."""
    said = [each["max_length"] for each in (keys, model) if isinstance(each.get("max_length"), int)]
    return {"max_length": min(said)} if len(said) > 1 else {}


_OF_UNSLOTH: Mapping[str, object] = {_EACH: 4, "gradient_accumulation_steps": 2, "optim": "adamw_8bit"}
_PASSES = ("steps_per_generation", "generation_batch_size")


def _as_unsloth(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with the defaults that Unsloth gives TRL's configs.

    Where a step does not hold whole groups of answers to a prompt, a micro-batch is one group.

    Source: unsloth 2026.7, models/rl.py (`replacements`, `check_num_generations`).
    """
    keys = {**_OF_UNSLOTH, **keys}
    if keys.get(METHOD) != "grpo":
        return keys
    keys = {"beta": 0.001, **keys}
    each, steps, answers = (keys.get(name, 8) for name in (_EACH, "gradient_accumulation_steps", "num_generations"))
    known = all(isinstance(number, int) and number > 0 for number in (each, steps, answers))
    if known and not any(name in keys for name in _PASSES) and each * steps % answers:
        keys[_EACH] = answers
    return keys


def _adapted(found: Sequence[Call]) -> int:
    """Return the line in which an adapter is put around the model: by a function, or by the trainer."""
    puts = ("get_peft_model", "add_adapter", *_TRAINERS)
    return next((each.line for each in found if each.name in puts), 0)


def _frozen(found: Sequence[Call]) -> tuple[str, ...]:
    """Note parameters that a script freezes before a full fine-tune."""
    lines = [each.line for each in _before_training(found) if each.name == FREEZES and each.first is False]
    if not lines:
        return ()
    return (Message("line {}: parameters that it freezes are counted as trained; name what trains with {}",
                    lines[0], Training.trainable),)  # fmt: skip


def _unadapted() -> dict[str, Any]:
    """No adapter, unless a command line decides that."""
    return {} if STARTED in options() else {"use_peft": False}


def _truncated(found: Sequence[Call]) -> object:
    """The length to which a script's tokenizer cuts its texts; else they are as long as the data's."""
    given = [each.arguments for each in found if each.arguments.get("truncation", False) not in (False, None)]
    lengths = {each["max_length"] for each in given if isinstance(each.get("max_length"), int)}
    return lengths.pop() if len(lengths) == 1 else "$max_length"


def _hidden(told: Sequence[Call]) -> Iterator[str]:
    for call in told:
        for name in call.hidden:
            yield Message(
                "line {}: arguments of {} are in {}, which is not a literal: ignored", call.line, call.name, name
            )


def _of_arguments(call: Call) -> dict[str, Any]:
    """The arguments of the loop; TRL's class has other defaults than transformers'."""
    loads = _mapping(call.arguments.get("model_init_kwargs"))
    keys = flat({name: value for name, value in call.arguments.items() if not loads or name != "model_init_kwargs"})
    keys |= {name: value for name, value in loads.items() if name not in _NOT_OF_MODEL}
    if call.name in (*LEARNT, "SFTConfig") and call.arguments.get("max_length", 0) is None:
        keys["max_length"] = "$max_length"  # as long as the data's
    halved = {} if "bf16" in keys or "fp16" in keys else {AUTOCAST: True}
    if call.name in LEARNT:
        return {"use_peft": False, METHOD: LEARNT[call.name], **halved, **keys}
    if call.name == "SFTConfig":
        return {"use_peft": False, **halved, **keys}
    return {"gradient_checkpointing": False, **({} if keys.get("fp16") else {"bf16": False}), **keys}


_COMPARES = ("dpo", "kto")
_OF_LOOP = ("max_seq_length", "packing", "max_length", "max_prompt_length", "max_completion_length", "beta")


def _of_trainer(call: Call) -> dict[str, Any]:
    """Return what the trainer itself is told: in TRL's earlier releases lengths, and the model by its name."""
    keys = {name: call.arguments[name] for name in _OF_LOOP if name in call.arguments}
    keys |= flat(_mapping(call.arguments.get("dataset_kwargs")), "dataset_kwargs")
    model = call.arguments.get("model", call.first)
    if isinstance(model, str) and not model.startswith("$"):
        keys["model_name_or_path"] = model
    teacher = call.arguments.get("teacher_model")
    if isinstance(teacher, str) and not teacher.startswith("$"):
        keys["teacher_model_name_or_path"] = teacher
    if call.arguments.get("ref_model") is not None and LEARNT.get(call.name.replace("Trainer", "Config")) in _COMPARES:
        keys[REFERENCE] = "copy"
    return keys | optimizer_of(call)


def _of_model_config(found: Sequence[Call], told: list[Call]) -> dict[str, Any]:
    """TRL's `ModelConfig`, as far as its functions make something of it: the adapter, and how weights are stored."""
    configs = [each for each in found if each.name == "ModelConfig" and "model_name_or_path" in each.arguments]
    if not configs or any(each.name in ("LoraConfig", "from_pretrained") and each.of != "AutoTokenizer"
                          for each in found):  # fmt: skip
        return {}
    call, made = _single_call(configs), {each.name for each in found}
    told.append(call)
    keys = {"model_name_or_path": call.arguments["model_name_or_path"]}
    if "get_peft_config" in made and call.arguments.get("use_peft") is True:
        keys |= {name: value for name, value in call.arguments.items() if name.startswith(("lora_", "use_"))}
    if "get_quantization_config" in made:
        keys |= {name: value for name, value in call.arguments.items() if name.startswith(("load_in_", "bnb_"))}
    return keys


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _before_training(found: Sequence[Call], several: Sequence[Call] | None = None) -> list[Call]:
    """Return those of the calls, by default of all, that come before the trainer's: what follows is inference."""
    trained = next((each.line for each in found if each.name in _TRAINERS), None)
    return [each for each in (found if several is None else several) if trained is None or each.line < trained]


def _of_peft(found: Sequence[Call], told: list[Call]) -> dict[str, Any]:
    """Adapters, by PEFT's config or Unsloth's function."""
    other = next((each for each in found if each.name.removesuffix("Config") in _OF_PEFT), None)
    if other is not None:
        message = "found in line {}; in scripts, only LoraConfig is supported: describe the adapter with {}"
        raise UnsupportedError(other.name, message, other.line, "training.adapter")
    whole = any(each.of in _UNSLOTH and each.arguments.get("full_finetuning") is True for each in found)
    fast = [each for each in found if each.name == "get_peft_model" and each.of in _UNSLOTH and not whole]
    fast = _before_training(found, fast) or fast
    plain = [each for each in found if each.name == "LoraConfig"]
    made = next((each for each in found if each.name == "get_peft_model" and each.of not in _UNSLOTH), None)
    if made is not None and not plain and not fast and not any(each.name == "get_peft_config" for each in found):
        message = (
            "its config in line {} is not known; in scripts, only LoraConfig is supported: describe the adapter with {}"
        )
        raise UnsupportedError(made.name, message, made.line, "training.adapter")
    keys: dict[str, Any] = {}
    before = _before_training(found)
    brought = next(
        (each for each in before if each.of in _BROUGHT and each.arguments.get("is_trainable") is True), None
    )
    resumes = bool(plain) and made is not None  # one that is begun anew otherwise
    if brought is not None and not resumes and not any(each.name == "merge_and_unload" for each in before):
        message = "its adapter in line {} is in another file: describe the adapter with {}"
        raise UnsupportedError(brought.of, message, brought.line, "training.adapter")
    if plain and not fast:
        call = _single_call(plain)
        told.append(call)
        keys = _lora(call.arguments)
    elif fast:
        call = _single_call(fast)
        told.append(call)
        given = {**_FAST, **_targets(call), **call.arguments}
        keys = {**_checkpoints(given.pop("use_gradient_checkpointing", "unsloth")), **_lora(given)}
    enabled = next((each for each in found if each.name == "gradient_checkpointing_enable"), None)
    keys |= _checkpointed(enabled)
    if keys and not fast and _prepares(found):
        keys[PREPARED] = True
    return keys


def _checkpointed(call: Call | None) -> dict[str, Any]:
    """Return the keys of activation checkpoints as a call turns them on, if one does."""
    if call is None:
        return {}
    how = _mapping(call.arguments.get("gradient_checkpointing_kwargs"))
    return {"gradient_checkpointing": True, **flat(how, "gradient_checkpointing_kwargs")}


_FEW_BITS = re.compile(r"[48]bit|gptq|awq|bnb|int[48]", re.IGNORECASE)
"""Parts of the names of repositories with quantized weights."""


def _named_with_bits(keys: Mapping[str, Any]) -> bool:
    """Whether the name of the model's repository says that its weights are quantized."""
    return _FEW_BITS.search(str(keys.get("model_name_or_path"))) is not None


def _of_casts(found: Sequence[Call], keys: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Return the keys for what a script does to its model before it trains: PEFT's preparation, casts, kernels."""
    before = _before_training(found)
    more = of_model(before, changes)
    few = any(keys.get(name) is True for name in _BITS) or _named_with_bits(keys)
    prepared = next((each for each in before if each.name == _PREPARES), None)
    if prepared is not None and keys.get("use_unsloth") is not True:
        more |= {PREPARED: True} if few else {"dtype": "float32", "torch_dtype": None}
        if few and prepared.arguments.get("use_gradient_checkpointing", True):
            more |= _checkpointed(prepared)
    return {**more, "torch_dtype": None} if "dtype" in more else more


_PREPARES = "prepare_model_for_kbit_training"


def _prepares(found: Sequence[Call]) -> bool:
    """Whether TRL casts what is not quantized to fp32, and leaves it there.

    It did until release 0.23, whose bf16 casts most of it back (`peft_module_casting_to_bf16`); `max_seq_length` and
    `tokenizer` were arguments of its trainer then. Source: trl 0.9.6, trainer/sft_trainer.py.
    """
    former = any(
        each.name == "SFTTrainer" and {"max_seq_length", "dataset_text_field", "packing"} & set(each.arguments)
        for each in found
    )
    return former and not any(each.arguments.get("bf16") for each in found)


def _targets(call: Call) -> Mapping[str, Any]:
    """The layers that Unsloth's models with towers adapt where they are chosen by kind: all, towers' too, if none is.

    Source: unsloth 2026.7, models/vision.py (`FastBaseModel.get_peft_model`).
    """
    given = call.arguments
    if not any(name in given for name in _PARTS) and (call.of != "FastVisionModel" or "target_modules" in given):
        return {}
    attention, ffns = (given.get(name, True) is not False for name in _PARTS[2:])
    targets = "all-linear" if attention and ffns else SEVEN[:4] if attention else SEVEN[4:]
    return {_PARTS[0]: True, "target_modules": targets} if call.of == "FastVisionModel" else {"target_modules": targets}


def _checkpoints(said: object) -> dict[str, Any]:
    """Unsloth's checkpoints, whose inputs of layers are in host memory under their own name."""
    if said == "unsloth":
        return {"gradient_checkpointing": True, "activation_offloading": True}
    return {"gradient_checkpointing": said in (True, "True", "true")}


def _lora(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of LoRA by TRL's names; what is none of them keeps its own."""
    if given.get("bias", "none") != "none":
        raise UnsupportedError("LoraConfig(bias=)", "found {!r}; supported: 'none'", given["bias"])
    if given.get(_PARTS[1], True) is False:
        raise UnsupportedError(_PARTS[1], "found {!r}; supported: {!r}", False, True)
    silent = (*_NO_LORA, *_PARTS[1:], *(() if given.get(_PARTS[0]) is True else _PARTS[:1]))
    chosen = {name: value for name, value in given.items() if name not in silent}
    named = {_LORA.get(name, name): value for name, value in chosen.items()}
    return {"use_peft": True, **_PEFT, **named}


_CLASSES = re.compile(
    r"^AutoModel|LMHeadModel$|For(?:CausalLM|ConditionalGeneration|(?:Sequence|Token)Classification)$"
)
"""Classes of transformers whose models are trained."""
_LABELS = re.compile(r"For(?:Sequence|Token)Classification$")
_OTHER_BITS = frozenset(
    f"{name}Config" for name in ("Aqlm", "AutoRound", "Awq", "BitNetQuant", "Eetq", "FbgemmFp8", "FineGrainedFP8",
                                 "FPQuant", "GPTQ", "Higgs", "Hqq", "Mxfp4", "Quanto", "SpQR", "TorchAo", "Vptq")
)  # fmt: skip
"""transformers' configs of other kinds of weights than bitsandbytes' (utils/quantization_config.py)."""
_BY_NAME = ("AwqConfig", "GPTQConfig")
"""Those of them that may also say how to compute with a repository's quantized weights."""
_LOADED_AS = {"_attn_implementation": "attn_implementation"}
"""Other names of arguments that `from_pretrained` passes on to the config (transformers 4, configuration_utils.py)."""
_DTYPES, _BITS = ("torch_dtype", "dtype"), ("load_in_4bit", "load_in_8bit")
_LOADED = (*_DTYPES, *_BITS, "attn_implementation", "use_flash_attention_2")


def _of_model(found: Sequence[Call], told: list[Call], *, named: bool) -> dict[str, Any]:
    """The model that is trained, and how its weights are loaded; `named`: the trainer loads it by its name.

    What is loaded after the trainer is for inference, unless nothing is loaded before it. What is left of a model with
    few bits is never loaded in fp32 unasked (transformers 4: float16, quantizers/quantizer_bnb_4bit.py; 5:
    `dtype="auto"`).
    """
    fast = [each for each in found if each.name == "from_pretrained" and each.of in _UNSLOTH]
    if fast:
        told.append(fast[0])
        whole = fast[0].arguments.get("full_finetuning") is True
        adapted = any(each.name == "get_peft_model" for each in found) and not whole
        stored = fast[0].arguments.get("use_gradient_checkpointing", "unsloth")
        return {**({} if adapted else _checkpoints(stored)), **_of_unsloth(fast[0])}
    scope = _before_training(found)
    if not named and not any(map(_loads, scope)):
        scope = [*found]
    loads = [each for each in scope if _loads(each)]
    keys: dict[str, Any] = {}
    if loads:
        told.append(loads[0])
        given = loads[0].arguments
        given = {_LOADED_AS.get(name, name): value for name, value in given.items()}
        keys = {name: given[name] for name in _LOADED if name in given}
        keys["model_name_or_path"] = _named_by(loads[0], found)
        if not named and all(_LABELS.search(each.of) for each in loads):
            keys |= {METHOD: CLASSIFIES, "num_labels": given.get("num_labels", 2)}
    bits = [each for each in scope if each.name == "BitsAndBytesConfig"]
    others = _OTHER_BITS - {*_BY_NAME} if _named_with_bits(keys) else _OTHER_BITS
    other = next((each for each in scope if each.name in others and each.arguments.get("dequantize") is not True), None)
    if other is not None and not bits:
        message = "found in line {}; this value is not supported yet; leave it out to count 16-bit weights"
        raise UnsupportedError(other.name, message, other.line)
    if bits:
        given = _single_call(bits).arguments
        keys |= {name: given[name] for name in _BITS if name in given}
        if given.get("load_in_4bit"):
            keys["bnb_4bit_quant_type"] = given.get("bnb_4bit_quant_type", "fp4")
            keys["use_bnb_nested_quant"] = given.get("bnb_4bit_use_double_quant", False)
    if loads and any(keys.get(name) for name in _BITS) and not any(keys.get(name) for name in _DTYPES):
        keys["dtype"] = "auto"
    return keys


def _loads(call: Call) -> bool:
    """Whether a call loads a model of transformers that may be trained, or makes one from a config."""
    made = call.name if call.first is not None else ""
    return _CLASSES.search(call.of if call.name in ("from_pretrained", "from_config") else made) is not None


def _named_by(load: Call, found: Sequence[Call]) -> Any:
    """Return the name of the model that a call loads, or whose config it takes."""
    configs = {each.into: each.first for each in found if each.name == "from_pretrained" and each.of.endswith("Config")}
    given = load.arguments.get("config", load.first)
    if load.name == "from_pretrained":
        return load.arguments.get("pretrained_model_name_or_path", load.first)
    only = next(iter(configs.values())) if len(configs) == 1 else None
    return configs.get(str(given).lstrip("$"), only)


def _unread(found: Sequence[Call], *, halved: bool) -> Iterator[Message]:
    """Yield notes on arguments of loaders and trainers that memcore does not know.

    `halved` is whether the loop computes in 16 bits.
    """
    before = _before_training(found)
    bits = any(each.name == "BitsAndBytesConfig" or each.arguments.keys() & {*_BITS} for each in before)
    for each in before:
        known = _NOT_OF_FAST if each.of in _UNSLOTH else _NOT_OF_MODEL
        if each.name == "from_pretrained" and each.of.endswith("Config"):
            yield from arguments_unread(each, _NOT_OF_MODEL)
        elif each.name == "from_pretrained" and (each.of in _UNSLOTH or _CLASSES.search(each.of)):
            yield from arguments_unread(each, (*known, *_LOADED, *_LOADED_AS))
            if halved and not (bits or each.of in _UNSLOTH or each.arguments.keys() & {*_DTYPES}):
                yield Message("line {}: it names no dtype: fp32 weights are counted, as transformers 4 loads them; "
                              "transformers 5 loads them as the checkpoint stores them", each.line)  # fmt: skip
    for each in found:
        if each.name in _TRAINERS:
            yield from arguments_unread(each, (*_NOT_OF_TRAINER, *_OF_LOOP))


_NOT_OF_TRAINER = (
    "model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class", "tokenizer", "callbacks",
    "formatting_func", "compute_metrics", "compute_loss_func", "optimizers", "preprocess_logits_for_metrics",
    "peft_config", "dataset_text_field", "dataset_num_proc", "dataset_kwargs", "ref_model", "reward_funcs",
    "reward_processing_classes", "teacher_model", "tools", "environment_factory", "rollout_func", "padding_value",
    "label_pad_token_id", "image_processor", "feature_extractor", "generate_during_eval", "neftune_noise_alpha",
)  # fmt: skip
"""Arguments of trainers that are read elsewhere, and those that memory does not depend on."""
_NOT_OF_MODEL = (
    "pretrained_model_name_or_path", "quantization_config", "device_map", "max_memory", "trust_remote_code",
    "use_cache", "cache_dir", "token", "use_auth_token", "revision", "code_revision", "low_cpu_mem_usage",
    "local_files_only", "force_download", "resume_download", "offload_folder", "offload_state_dict", "num_labels",
    "use_safetensors", "id2label", "label2id", "problem_type", "ignore_mismatched_sizes", "return_dict", "subfolder",
    "variant", "pad_token_id", "bos_token_id", "eos_token_id", "pretraining_tp",
)  # fmt: skip
"""The same for `from_pretrained`."""
_LOADED_SO = ("attn_implementation", "offload_embedding", "float32_mixed_precision", "unsloth_tiled_mlp", "text_only")
"""Arguments of Unsloth's loader that keep their names."""
_NOT_OF_FAST = (
    *_NOT_OF_MODEL, "model_name", "max_seq_length", "load_in_16bit", "load_in_fp8", "full_finetuning", "qat_scheme",
    "use_gradient_checkpointing", "fast_inference", "gpu_memory_utilization", "max_lora_rank", "random_state",
    "rope_scaling", "fix_tokenizer", "resize_model_vocab", "disable_log_stats", "auto_model", "whisper_language",
    "whisper_task", "unsloth_force_compile", "return_logits", "use_exact_model_name", "fullgraph", *_LOADED_SO,
)  # fmt: skip
"""The same for Unsloth's loader (unsloth 2026.7, models/loader.py)."""


def _of_unsloth(call: Call) -> dict[str, Any]:
    """Unsloth's loader: 4 bits unless something else is said, and 16-bit weights in the GPU's own dtype."""
    given = call.arguments
    for name in ("load_in_fp8", "qat_scheme"):
        if given.get(name) not in (None, False):
            raise UnsupportedError.of_value(
                name, given[name], "this value is not supported yet; leave it out to count 16-bit weights"
            )
    name = given.get("model_name", call.first)
    full, eight = given.get("full_finetuning") is True, given.get("load_in_8bit") is True
    four = given.get("load_in_4bit", True) is True and not (full or eight or given.get("load_in_16bit") is True)
    keys: dict[str, Any] = {"use_unsloth": True, "dtype": given.get("dtype") or "bfloat16"}
    keys |= {name: given[name] for name in _LOADED_SO if given.get(name) not in (None, False)}
    if isinstance(name, str):
        keys["model_name_or_path"] = name if four and DYNAMIC.search(name) else _FOUR_BITS.sub("", name)
    if "max_seq_length" in given:
        keys["max_length"] = given["max_seq_length"]
    if four:
        keys |= {"load_in_4bit": True, "use_bnb_nested_quant": True}
    elif eight:
        keys["load_in_8bit"] = True
    return keys
