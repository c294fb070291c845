"""Python scripts and notebooks of transformers, TRL, PEFT, Unsloth and servers: what their calls say, in a tool's keys.

Sources: transformers 5.23, training_args.py, utils/quantization_config.py (`BitsAndBytesConfig`: fp4 where no type is
said); trl 1.16, trainer/sft_config.py; peft 0.21, tuners/lora/config.py; unsloth 2026.7, models/loader.py
(`from_pretrained`: 4 bits unless `full_finetuning`, `load_in_8bit` or `load_in_16bit`), models/llama.py
(`get_peft_model`: rank 16, seven matrices, `use_gradient_checkpointing="unsloth"`; nothing after
`full_finetuning=True`), models/loader_utils.py
(`get_model_name`: the repository in 16 bits where 4 are not asked for); vllm, entrypoints/llm.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore import registry
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.environment import environment
from memcore.formats.normalized import AUTOCAST, GPUS, PREPARED
from memcore.formats.objects import STARTED, options
from memcore.formats.python import CUTS, FREEZES, PARSED, Call, Change, calls, followed
from memcore.formats.readers import SeveralJobs, flat
from memcore.formats.shell import ENVIRONMENT, OUTSIDE
from memcore.formats.writing import nested
from memcore.limits import NESTING
from memcore.messages import Message, joined
from memcore.tools.adapted import checkpointed, of_adapters
from memcore.tools.altered import of_arguments, of_model, optimizer_of, with_changes
from memcore.tools.frozen import trained_of
from memcore.tools.generating import of_generation, refuse_others
from memcore.tools.loads import (
    ARGUMENT_CLASSES,
    BITS,
    CLASSES,
    LEARNT,
    NOT_OF_MODEL,
    OF_LOOP,
    OTHERS,
    PREPARES,
    TAKEN_AS,
    TRAINERS,
    UNSLOTH,
    before_training,
    compares,
    loads_model,
    loads_unread,
    named_with_bits,
    of_loads,
    role_of,
    single_call,
    taken,
    trained_lines,
)
from memcore.tools.methods import METHOD, REFERENCE, adapts, of_labels
from memcore.tools.plain_loops import NOTE, lightning, of_loop, reads
from memcore.tools.unread import changes_unread

SERVED = tuple(each for tool in registry.tools() for each in tool.served)
"""What loads models to serve them."""
_OF_RAY, _RAY, _LIBRARY, _ENGINE = "LLMConfig", "ray.serve.llm", "vllm", "LLM"

_EACH = "per_device_train_batch_size"

_TRAIN = (*ARGUMENT_CLASSES, *LEARNT, *OTHERS, *TRAINERS)
Script = tuple[dict[str, Any], tuple[str, ...]]


def of_script(code: str) -> tuple[str, dict[str, Any], tuple[str, ...]] | None:
    """The syntax and keys of the tool that a script drives, and notes; None for a script of nothing that is known.

    Raises UnsupportedError for other methods than supervised ones, and ConfigError for several jobs.
    """
    found, changes = followed(code, role_of)
    found = with_changes(found, changes, (*ARGUMENT_CLASSES, *LEARNT))
    around = {name: value for name, value in options().items() if name.startswith(ENVIRONMENT)}
    around |= {f"{ENVIRONMENT}{name}": value for name, value in environment(code).items()}
    prepares = any(each.name == "get_peft_model" and each.of in UNSLOTH for each in found)
    trains = lightning(found) is None and any(each.name in _TRAIN for each in found)
    serves = list(_serving(code, found))
    if prepares or (trains and not (serves and not any(each.name in TRAINERS for each in found))):
        if STARTED in options():
            return _of_training(_decided(*_training(found, changes)), around)
        jobs = _jobs(found)
        read = [_of_training(_training(each, changes), around) for _, each in jobs]
        if len(jobs) > 1:
            syntaxes, keys, notes = zip(*read, strict=True)
            raise SeveralJobs(keys, [title for title, _ in jobs], syntaxes, notes)
        return read[0]
    if serves:
        keys, notes = [{**each, **around} for each, _ in serves], [each for _, each in serves]
        if len(serves) > 1:
            raise SeveralJobs(keys, [str(each[""]) for each in keys], ["argv"] * len(keys), notes)
        return "argv", keys[0], notes[0]
    looped = of_loop(found)
    if looped:
        end = next(each.line for each in looped if each.name == "Trainer")
        left = [each for each in changes if each.line <= end and each.to not in reads(looped)]
        keys, notes = _training(looped, left)
        return _of_training((keys, (NOTE, *notes)), around)
    refuse_others(found)
    generates = of_generation(found, changes)
    return None if generates is None else ("argv", {**generates[0], **around}, generates[1])


def _of_training(script: Script, around: Mapping[str, Any]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Return the syntax of the tool that has a trainer's keys, and the keys with the environment of their script."""
    keys, notes = script
    return "python" if keys.get("use_unsloth") is True else "yaml", {**keys, **around}, notes


def _jobs(found: Sequence[Call]) -> list[tuple[str, list[Call]]]:
    """Return the title and the calls of each job of a script: one for each trainer that has its own arguments."""
    configs = [each for each in found if each.name in (*ARGUMENT_CLASSES, *LEARNT) and each.arguments]
    trainers = [each for each in found if each.name in TRAINERS]
    several = _by_models(found, trainers)
    if several:
        return several
    alike = all((each.name, each.arguments) == (configs[0].name, configs[0].arguments) for each in configs)
    if alike or len(configs) > len(trainers):
        return [("", list(found))]
    if len(configs) < len(trainers):
        return _by_nearest(found, configs, trainers)
    pairs = list(zip(*(sorted(each, key=lambda call: call.line) for each in (configs, trainers)), strict=True))
    apart = {id(each) for pair in pairs for each in pair}
    others = [each for each in found if id(each) not in apart]
    return [(f"{config.name}:{config.line}", [*others, config, trainer]) for config, trainer in pairs]


def _by_models(found: Sequence[Call], trainers: Sequence[Call]) -> list[tuple[str, list[Call]]]:
    """Return the jobs of a script that loads a model for each of its trainers, one after another; none of another."""
    ends = sorted(each.line for each in trainers)
    places = [bisect_left(ends, each.line) for each in found]
    models = {at: each.first for each, at in zip(found, places, strict=True) if loads_model(each) and at < len(ends)}
    if len(models) != len(ends) or len({str(each) for each in models.values()}) < 2:
        return []
    made = [each.name in _MADE or loads_model(each) for each in found]
    parts = [
        [each for each, own, at in zip(found, made, places, strict=True) if at == number or not own]
        for number in range(len(ends))
    ]
    return [(f"{models[number]}:{ends[number]}", part) for number, part in enumerate(parts)]


def _by_nearest(
    found: Sequence[Call], configs: Sequence[Call], trainers: Sequence[Call]
) -> list[tuple[str, list[Call]]]:
    """Return the jobs of a script some of whose trainers share arguments: each takes what stands next above it."""
    loads = [each for each in found if loads_model(each)]
    apart = {id(each) for each in (*configs, *loads, *trainers)}
    others = [each for each in found if id(each) not in apart]
    jobs = []
    for trainer in trainers:
        above = [[each for each in several if each.line <= trainer.line][-1:] for several in (configs, loads)]
        jobs.append((f"{trainer.name}:{trainer.line}", sorted([*others, *above[0], *above[1], trainer], key=_line)))
    return jobs


def _line(call: Call) -> int:
    return call.line


def _decided(keys: Mapping[str, Any], notes: tuple[str, ...]) -> Script:
    """The keys without those that only the running script makes of its options."""
    left = {name for name, value in keys.items() if isinstance(value, str) and OUTSIDE.search(value)}
    more = [Message("what the script makes of its options is not read: {}", joined(", ", sorted(left)))] if left else []
    return {name: value for name, value in keys.items() if name not in left}, (*notes, *more)


def decides(code: str) -> bool:
    """Return whether a script makes the arguments of its trainer or server itself."""
    makes = {*ARGUMENT_CLASSES, *LEARNT, *(name for each in SERVED if each.library in code for name in each.names)}
    return any(each.name in makes and (each.arguments or each.hidden) for each in calls(code))


_TARGETS_OF = ("_target_", "class_path")
_OF_HYDRA = frozenset({"_partial_", "_recursive_", "_convert_", "_args_", *_TARGETS_OF})
_MADE = frozenset({*ARGUMENT_CLASSES, *LEARNT, *OTHERS, *TRAINERS, "LoraConfig", "BitsAndBytesConfig", "ModelConfig"})

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
    if not any(each.name in (*ARGUMENT_CLASSES, *LEARNT, *OTHERS, *TRAINERS) for each in made):
        return None
    keys, notes = _training(made)
    if not any(each.name in (*ARGUMENT_CLASSES[2:], *LEARNT, "SFTTrainer", "UnslothTrainer") for each in made):
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
    if (name in _MADE and not namesake) or (name == "from_pretrained" and CLASSES.search(of)):
        yield Call(name, of, 0, {name: _plain(each) for name, each in plain.items()})
    for each in plain.values():
        yield from _instances(each, deep + 1)


def _plain(value: Any) -> Any:
    """A dtype by its own name, as calls have it."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


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


def _serving(code: str, found: Sequence[Call]) -> Iterator[Script]:
    """Yield what loads a model to serve it, as commands do so, and notes; the same command once."""
    said: list[dict[str, Any]] = []
    for each in found:
        deployed = each.name == _OF_RAY and _RAY in code
        call, text = (replace(_deployed(each), name=_ENGINE), _LIBRARY) if deployed else (each, code)
        served = next((one for one in SERVED if one.library in text and one.is_called(call)), None)
        keys = {} if served is None else served.as_command(call, found)
        if keys and keys not in said:
            said.append(keys)
            yield keys, tuple(_hidden([call]))


def _training(found: Sequence[Call], changes: Sequence[Change] = ()) -> Script:
    """Keys of TRL's files."""
    other = next((each for each in found if each.name in OTHERS), None)
    if other is not None:
        raise UnsupportedError(other.name, "found in line {}; this method is not supported yet", other.line)
    told: list[Call] = []
    arguments = [each for each in found if each.name in (*ARGUMENT_CLASSES, *LEARNT)]
    arguments = [each for each in arguments if each.arguments] or arguments
    keys = _of_trainers(found, arguments, told)
    trained = trained_lines(changes)
    model, made = of_loads(found, told, changes, named="model_name_or_path" in keys)
    base = model.get("model_name_or_path", keys.get("model_name_or_path"))
    adapter, said = of_adapters(found, told, base)
    learns = {METHOD: keys[METHOD]} if METHOD in keys else {}  # a trainer's own, whatever its model's class
    keys |= {**adapter, **model, **_shorter({**keys, **adapter}, model), **learns}
    keys |= _of_casts(found, keys, changes)
    keys = keys if arguments else {**_of_fields(found), **keys, **of_arguments(changes)}
    keys = {**keys, **_of_model_config(found, told)}
    plain = arguments[0].name in ARGUMENT_CLASSES[:2] if arguments else "gradient_checkpointing" in keys
    if plain and {call.name for call in found} & {*TRAINERS} <= {"Trainer", "Seq2SeqTrainer"}:
        keys.setdefault("max_length", _truncated(found))
    keys |= _launched(found)
    cut = _cut_before(found, keys)
    keys |= {} if cut is None else {"max_length": cut}
    if not arguments and not any(call.name in TRAINERS for call in found):
        keys[_EACH] = f"${_EACH}"  # the trainer is in another script
    elif not any(each.arguments for each in arguments) and STARTED not in options() and not keys.get("use_unsloth"):
        keys.setdefault(_EACH, 8)  # a trainer with nothing but defaults (transformers, training_args.py)
    adapted = adapts(keys)
    parts = {} if adapted else trained_of(changes, base)
    keys |= parts or {}
    left = [each for each in changes if made is None or each.line not in made.lines]
    more: tuple[str, ...] = (
        *said, *(() if adapted or parts else _frozen(found)), *loads_unread(found, trained, made),
        *of_labels({"num_labels": keys.pop("num_labels", 1)}), *_of_the_run(found, told),
        *changes_unread(left, adapted=_adapted(found) if adapted else None,
                        grows=any(each.name == "add_tokens" for each in found)),
    )  # fmt: skip
    if made is not None:
        keys["model_name_or_path"] = made.model
    if cut is not None:
        more = (*more, Message("texts are cut to {} tokens before the trainer gets them", cut))
    if any(each.of in UNSLOTH and each.arguments.get("fast_inference") is True for each in found):
        keys["use_vllm"] = False
        more = (*more, "fast_inference: vLLM's cache is not counted")
    if keys.get("use_unsloth") is True and arguments and arguments[0].name not in ARGUMENT_CLASSES[:2]:
        keys = _as_unsloth(keys)
    return {name: value for name, value in keys.items() if value is not None}, (*_hidden(told), *more)


def _of_trainers(found: Sequence[Call], arguments: Sequence[Call], told: list[Call]) -> dict[str, Any]:
    """Return the keys of the trainers and of their arguments, which `arguments` make."""
    keys: dict[str, Any] = {}
    if arguments:
        told.append(single_call(arguments))
        keys |= _of_arguments(told[0])
    elif STARTED not in options():
        keys |= _by_default(found)
    for call in found:
        if call.name in TRAINERS:
            told.append(call)
            keys |= _of_trainer(call)
            method = LEARNT.get(call.name.replace("Trainer", "Config"))
            if method is not None:
                keys = {**_unadapted(), METHOD: method, **keys}
    return keys


def _shorter(keys: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shorter length of a trainer's and of Unsloth's model's (unsloth 2026.7, models/rl.py)."""
    said = [each["max_length"] for each in (keys, model) if isinstance(each.get("max_length"), int)]
    return {"max_length": min(said)} if len(said) > 1 else {}


def _by_default(found: Sequence[Call]) -> dict[str, Any]:
    """Return the arguments of a trainer that is given none, and `$` for the batch of one whose arguments nobody knows.

    Each of TRL's trainers then makes its own config (trl 1.16, trainer/sft_trainer.py).
    """
    trainer = next((each for each in found if each.name in TRAINERS), None)
    if trainer is None or trainer.arguments.get("args") is not None or trainer.hidden or len(trainer.places) > 1:
        return {} if trainer is None else {_EACH: f"${_EACH}"}
    config = trainer.name.replace("Trainer", "Config")
    known = config if config in (*LEARNT, *ARGUMENT_CLASSES) else ARGUMENT_CLASSES[0]
    return _of_arguments(Call(known, "", trainer.line, {}))


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


_DECIDE = ("LoraConfig", "BitsAndBytesConfig", "get_peft_model", "gradient_checkpointing_enable", *PREPARES)


def _of_the_run(found: Sequence[Call], told: Sequence[Call]) -> Iterator[Message]:
    """Yield notes on configs that nothing takes, and on calls that count although only the run decides on them."""
    loads = [each for each in told if each.name in ("from_pretrained", "from_config")]
    for name in TAKEN_AS:
        idle = [each for each in found if each.name == name and not taken(found, name)]
        yield from (Message("line {}: not read: {}", each.line, joined("", (name, "()"))) for each in idle)
    for each in (*loads, *(each for each in before_training(found) if each.name in _DECIDE)):
        if each.maybe and (each.name not in TAKEN_AS or taken(found, each.name)):
            yield Message("line {}: only the run decides on {}: it is counted", each.line, each.name)


def _adapted(found: Sequence[Call]) -> int:
    """Return the line in which an adapter is put around the model: by a function, or by the trainer."""
    puts = ("get_peft_model", "add_adapter", *TRAINERS)
    return next((each.line for each in found if each.name in puts), 0)


def _frozen(found: Sequence[Call]) -> tuple[str, ...]:
    """Note parameters that a script freezes before a full fine-tune."""
    lines = [each.line for each in before_training(found) if each.name == FREEZES and each.first not in (True, None)]
    if not lines:
        return ()
    return (Message("line {}: parameters that it freezes are counted as trained; name what trains with {}",
                    lines[0], Training.trainable),)  # fmt: skip


def _unadapted() -> dict[str, Any]:
    """No adapter, unless a command line decides that."""
    return {} if STARTED in options() else {"use_peft": False}


def _truncated(found: Sequence[Call]) -> object:
    """The length to which a script's tokenizer cuts its texts; else they are as long as the data's.

    None, which is the model's own, where they are padded to the longest that the tokenizer has.
    """
    given = [each for each in found if each.arguments.get("truncation", False) not in (False, None)]
    given = [each for each in given if _LABELS not in each.arguments] or given
    known = [each for each in given if isinstance(each.arguments.get("max_length"), int)]
    told = [each for each in known if each.name != CUTS] or known
    lengths = {each.arguments["max_length"] for each in told}
    padded = any(each.arguments.get("padding") == "max_length" for each in given)
    if padded and not any("max_length" in each.arguments for each in given):
        return None
    return lengths.pop() if len(lengths) == 1 else "$max_length"


_LABELS = "text_target"
"""The argument by which a tokenizer is handed what a decoder should say."""


_OF_TEXTS = ("SFTTrainer", "UnslothTrainer")
"""Trainers that tokenize texts, and take what is tokenized already as it is (trl 1.16, trainer/sft_trainer.py)."""


def _launched(found: Sequence[Call]) -> dict[str, Any]:
    """Return the GPUs of the processes that a notebook starts its training in (accelerate, launchers.py)."""
    started = next((each for each in found if each.name == "notebook_launcher"), None)
    count = None if started is None else started.arguments.get("num_processes")
    return {GPUS: count} if type(count) is int and count > 0 else {}


def _cut_before(found: Sequence[Call], keys: Mapping[str, Any]) -> int | None:
    """Return the length to which a script cuts tokens itself, where that is shorter than its trainer does.

    What a tokenizer makes tensors of goes to the model by another way than a trainer's data set.
    """
    if not any(each.name in _OF_TEXTS for each in found):
        return None
    before = before_training(found)
    length = _truncated([each for each in before if "return_tensors" not in each.arguments])
    longest = keys.get("max_length", keys.get("max_seq_length", _BY_DEFAULT))
    shorter = isinstance(length, int) and (not isinstance(longest, int) or length < longest)
    return length if isinstance(length, int) and shorter else None


_BY_DEFAULT = 1024
"""`SFTConfig.max_length` (trl 1.16, trainer/sft_config.py)."""


def _hidden(told: Sequence[Call]) -> Iterator[str]:
    for call in told:
        for name in call.hidden:
            yield Message(
                "line {}: arguments of {} are in {}, which is not a literal: ignored", call.line, call.name, name
            )


def _of_arguments(call: Call) -> dict[str, Any]:
    """The arguments of the loop; TRL's class has other defaults than transformers'."""
    loads = _mapping(call.arguments.get(_INIT))
    keys = flat({name: value for name, value in call.arguments.items() if not loads or name != _INIT})
    keys |= _loaded_by(call)
    if call.name in (*LEARNT, "SFTConfig") and call.arguments.get("max_length", 0) is None:
        keys["max_length"] = "$max_length"  # as long as the data's
    halved = {} if "bf16" in keys or "fp16" in keys else {AUTOCAST: True}
    if call.name in LEARNT:
        return {"use_peft": False, METHOD: LEARNT[call.name], **halved, **keys}
    if call.name == "SFTConfig":
        return {"use_peft": False, **halved, **keys}
    return {"gradient_checkpointing": False, **({} if keys.get("fp16") else {"bf16": False}), **keys}


_INIT = "model_init_kwargs"


def _loaded_by(call: Call) -> dict[str, Any]:
    """Return how TRL loads the model that it knows by its name, which its trainers were told in earlier releases."""
    loads = _mapping(call.arguments.get(_INIT))
    return {name: value for name, value in loads.items() if name not in NOT_OF_MODEL}


_OF_FIELDS = (
    "optim", _EACH, "gradient_accumulation_steps", "gradient_checkpointing", "bf16", "fp16", "max_length",
    "model_max_length", "max_seq_length", "fsdp", "deepspeed", "torch_compile", "use_liger_kernel",
)  # fmt: skip


def _of_fields(found: Sequence[Call]) -> dict[str, Any]:
    """Return what a class of arguments of the script's own sets where a command line says nothing."""
    parsed = [each for each in found if each.name == PARSED and each.of in (*ARGUMENT_CLASSES, *LEARNT)]
    given = {name: value for each in parsed for name, value in each.arguments.items() if name in _OF_FIELDS}
    return {name: value for name, value in given.items() if value is not None and name not in options()}


def _of_trainer(call: Call) -> dict[str, Any]:
    """Return what the trainer itself is told: in TRL's earlier releases lengths, and the model by its name."""
    keys = {name: call.arguments[name] for name in OF_LOOP if name in call.arguments}
    keys |= flat(_mapping(call.arguments.get("dataset_kwargs")), "dataset_kwargs") | _loaded_by(call)
    model = call.arguments.get("model", call.first)
    if isinstance(model, str) and not model.startswith("$"):
        keys["model_name_or_path"] = model
    teacher = call.arguments.get("teacher_model")
    if isinstance(teacher, str) and not teacher.startswith("$"):
        keys["teacher_model_name_or_path"] = teacher
    if compares(call):
        keys[REFERENCE] = "copy"
    return keys | optimizer_of(call)


def _of_model_config(found: Sequence[Call], told: list[Call]) -> dict[str, Any]:
    """TRL's `ModelConfig`, as far as its functions make something of it: the adapter, and how weights are stored."""
    configs = [each for each in found if each.name == "ModelConfig" and "model_name_or_path" in each.arguments]
    if not configs or any(each.name in ("LoraConfig", "from_pretrained") and each.of != "AutoTokenizer"
                          for each in found):  # fmt: skip
        return {}
    call, made = single_call(configs), {each.name for each in found}
    told.append(call)
    keys = {"model_name_or_path": call.arguments["model_name_or_path"]}
    if "get_peft_config" in made and call.arguments.get("use_peft") is True:
        keys |= {name: value for name, value in call.arguments.items() if name.startswith(("lora_", "use_"))}
    if "get_quantization_config" in made:
        keys |= {name: value for name, value in call.arguments.items() if name.startswith(("load_in_", "bnb_"))}
    return keys


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _of_casts(found: Sequence[Call], keys: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Return the keys for what a script does to its model before it trains: PEFT's preparation, casts, kernels."""
    before = before_training(found)
    more = of_model(before, changes)
    few = any(keys.get(name) is True for name in BITS) or named_with_bits(keys)
    prepared = next((each for each in before if each.name in PREPARES), None)
    if prepared is not None and keys.get("use_unsloth") is not True:
        more |= {PREPARED: True} if few else {"dtype": "float32", "torch_dtype": None}
        if few and prepared.arguments.get("use_gradient_checkpointing", True):
            more |= checkpointed(prepared)
    return {**more, "torch_dtype": None} if "dtype" in more else more
