"""What a script changes in a model and in its trainer's arguments after it has made them and before it trains.

Sources: transformers 5.23, training_args.py (`set_training` and its like set what is not said, too), trainer.py
(`optimizers`), modeling_utils.py (`from_pretrained`); peft 0.21, utils/other.py (`prepare_model_for_kbit_training`
casts to fp32 whatever is not quantized, of any model, and turns checkpoints on for one with few bits); bitsandbytes
0.49, optim/; liger_kernel 0.6, transformers/monkey_patch.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore.formats.python import Call, Change
from memcore.formats.tracked import ANY, ARGUMENTS, CALLS, HANDS, MODEL, SETS
from memcore.tools.peft import KINDS_BY_CLASS

_CASTS: Mapping[str, str] = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}
_DTYPES = frozenset({"float16", "half", "bfloat16", "float32", "float"})
_LIGER = "apply_liger_kernel_to_"
_KERNELS = ("rope", "swiglu", "rms_norm", "fused_linear_cross_entropy")
OPTIMIZERS: Mapping[str, str] = {
    "AdamW": "adamw_torch", "Adam": "adamw_torch", "AdamW8bit": "adamw_8bit", "Adam8bit": "adamw_8bit",
    "PagedAdamW": "paged_adamw_32bit", "PagedAdamW32bit": "paged_adamw_32bit", "PagedAdamW8bit": "paged_adamw_8bit",
    "Adafactor": "adafactor", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Lion8bit": "lion_8bit",
    "PagedLion8bit": "paged_lion_8bit",
}  # fmt: skip
"""The Trainer's names of optimizers, by the classes with the same states."""


_SETTERS: Mapping[str, Mapping[str, tuple[str, object]]] = {
    "set_training": {
        "batch_size": ("per_device_train_batch_size", 8),
        "gradient_accumulation_steps": ("gradient_accumulation_steps", 1),
        "gradient_checkpointing": ("gradient_checkpointing", False),
    },
    "set_optimizer": {"name": ("optim", "adamw_torch"), "args": ("optim_args", None)},
    "set_dataloader": {
        "train_batch_size": ("per_device_train_batch_size", 8), "auto_find_batch_size": ("auto_find_batch_size", False),
    },
}  # fmt: skip
"""Arguments of methods that set several others, which these are, and what they are set to where nothing is said."""
_ALSO: Mapping[str, str] = {"activation_checkpointing": "gradient_checkpointing"}
_FIRST: Mapping[str, str] = {"set_optimizer": "name", "set_dataloader": "train_batch_size"}
CONFIGS: Mapping[str, str] = {**dict.fromkeys(KINDS_BY_CLASS, "adapter"), "BitsAndBytesConfig": "bits"}
"""Classes of further objects whose attributes count, and their roles."""


def with_changes(found: Sequence[Call], changes: Iterable[Change], arguments: Collection[str]) -> list[Call]:
    """Return the calls; those that make the arguments of a trainer, or one of `CONFIGS`, have what is set later."""
    made = {each.line: each for each in found if each.name in arguments}
    after: dict[int, dict[str, Any]] = {}
    for change in changes:
        only = next(iter(made)) if len(made) == 1 and change.role == ARGUMENTS else 0
        after.setdefault(change.made or only, {}).update(_sets(change))
    told = (*arguments, *CONFIGS)
    return [
        replace(each, arguments={**each.arguments, **after.get(each.line, {})}) if each.name in told else each
        for each in found
    ]


def of_arguments(changes: Iterable[Change]) -> dict[str, Any]:
    """Return what is set on arguments that come from elsewhere, as from a command line."""
    keys: dict[str, Any] = {}
    for change in changes:
        if change.role == ARGUMENTS and not change.made:
            keys |= _sets(change)
    return keys


def _sets(change: Change) -> dict[str, Any]:
    """Return the attributes of an object of arguments that are set, by an assignment or by a method."""
    name = change.path[-1] if change.path else ""
    if change.how == SETS and len(change.path) == 1 and name != ANY:
        return dict(change.arguments)
    if change.how == HANDS and change.to == "replace":
        return dict(change.arguments)
    if change.how != CALLS or name not in _SETTERS:
        return {}
    first = {_FIRST[name]: change.first} if name in _FIRST and change.first is not None else {}
    given = {
        _ALSO.get(each, each): value for each, value in (first | dict(change.arguments)).items() if value is not None
    }
    return {key: given.get(each, unsaid) for each, (key, unsaid) in _SETTERS[name].items()}


def is_read(change: Change) -> bool:
    """Return whether a change is one of those that are read here."""
    if change.role == MODEL:
        return bool(_of_change(change))
    return change.role in (ARGUMENTS, *CONFIGS.values()) and bool(_sets(change))


def of_model(before: Iterable[Call], changes: Iterable[Change]) -> dict[str, Any]:
    """Return the keys for changes to the model: casts, compiling, kernels."""
    keys: dict[str, Any] = {}
    taken: set[int] = set()
    for change in changes:
        if change.role == MODEL and change.how == HANDS and change.to.endswith("Trainer"):
            taken.add(change.made)
        copied = change.how == HANDS and change.made in taken  # the trainer keeps the model that it was given
        keys |= _of_change(change) if change.role == MODEL and not copied else {}
    for each in before:
        if each.name.startswith(_LIGER) or (each.name == "from_pretrained" and each.of.startswith("AutoLiger")):
            keys["use_liger_kernel"] = True
            keys |= {f"liger_kernel_config.{name}": each.arguments[name] for name in _KERNELS if name in each.arguments}
    return keys


def _of_change(change: Change) -> dict[str, Any]:
    """Return the keys for a change to the model as a whole; none for one that is not read."""
    if change.how == HANDS and not change.path and change.to == "compile":
        return {"torch_compile": True}
    if change.how != CALLS or len(change.path) != 1:
        return {}
    dtype = _cast(change)
    if change.path == (_ATTENTION,) and isinstance(change.first, str) and not change.first.startswith("$"):
        return {"attn_implementation": change.first}
    return {"torch_compile": True} if change.path == ("compile",) else {"dtype": dtype} if dtype else {}


_ATTENTION = "set_attn_implementation"


def _cast(change: Change) -> str | None:
    """Return the dtype to which a method casts an object."""
    name = change.path[-1] if change.path else ""
    said = change.arguments.get("dtype", change.first) if name == "to" else None
    return _CASTS.get(name) or (str(said) if said in _DTYPES else None)


def optimizer_of(trainer: Call) -> dict[str, Any]:
    """Return the key for the optimizer that a trainer is given; `$optim` for an unknown one."""
    given = trainer.arguments.get("optimizers")
    first = given[0] if isinstance(given, list) and given else given
    if first is None:
        return {}
    return {"optim": OPTIMIZERS.get(str(first).lstrip("$"), "$optim")}
