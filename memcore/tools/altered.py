"""What a script changes in a model and in its trainer's arguments after it has made them and before it trains.

Sources: transformers 5.23, training_args.py, trainer.py (`optimizers`), modeling_utils.py (`from_pretrained`); peft
0.21, utils/other.py (`prepare_model_for_kbit_training` casts to fp32 whatever is not quantized, of any model, and turns
checkpoints on for one with few bits); bitsandbytes 0.49, optim/; liger_kernel 0.6, transformers/monkey_patch.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore.formats.python import SETS, Call
from memcore.messages import Message, joined

_CASTS: Mapping[str, str] = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}
_DTYPES = frozenset({"float16", "half", "bfloat16", "float32", "float"})
_LIGER = "apply_liger_kernel_to_"
_KERNELS = ("rope", "swiglu", "rms_norm", "fused_linear_cross_entropy")
_OPTIMIZERS: Mapping[str, str] = {
    "AdamW": "adamw_torch", "Adam": "adamw_torch", "AdamW8bit": "adamw_8bit", "Adam8bit": "adamw_8bit",
    "PagedAdamW": "paged_adamw_32bit", "PagedAdamW32bit": "paged_adamw_32bit", "PagedAdamW8bit": "paged_adamw_8bit",
    "Adafactor": "adafactor", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Lion8bit": "lion_8bit",
    "PagedLion8bit": "paged_lion_8bit",
}  # fmt: skip
"""The Trainer's names of optimizers, by the classes with the same states."""


def with_changes(found: Sequence[Call], made: Collection[str]) -> list[Call]:
    """Return the calls; those that make an object named in `made` also have what is set on the object later."""
    return [_changed(each, found) if each.name in made and each.into else each for each in found]


def _changed(call: Call, found: Iterable[Call]) -> Call:
    arguments = dict(call.arguments)
    for each in found:
        sets = each.name == SETS and each.of == call.into
        copies = each.name == "replace" and each.arguments and each.first in (f"${call.into}", f"${call.name}")
        if each.line > call.line and (sets or copies):
            arguments |= each.arguments
    return replace(call, arguments=arguments)


def of_model(before: Iterable[Call], names: Collection[str]) -> dict[str, Any]:
    """Return the keys for changes to the model under any of these names: casts, compiling, kernels."""
    keys: dict[str, Any] = {}
    for each in before:
        own = each.of in names
        dtype = _CASTS.get(each.name) or _dtype(each)
        if own and dtype:
            keys["dtype"] = dtype
        elif each.name == "compile" and (own or each.of == "torch"):
            keys["torch_compile"] = True
        elif each.name.startswith(_LIGER) or (each.name == "from_pretrained" and each.of.startswith("AutoLiger")):
            keys["use_liger_kernel"] = True
            keys |= {f"liger_kernel_config.{name}": each.arguments[name] for name in _KERNELS if name in each.arguments}
    return keys


def _dtype(call: Call) -> str | None:
    said = call.arguments.get("dtype", call.first) if call.name == "to" else None
    return str(said) if said in _DTYPES else None


def optimizer_of(trainer: Call) -> dict[str, Any]:
    """Return the key for the optimizer that a trainer is given; `$optim` for an unknown one."""
    given = trainer.arguments.get("optimizers")
    first = given[0] if isinstance(given, list) and given else given
    if first is None:
        return {}
    return {"optim": _OPTIMIZERS.get(str(first).lstrip("$"), "$optim")}


def unread(call: Call, known: Collection[str]) -> Iterator[Message]:
    """Yield a note on arguments that are not among those that are known."""
    left = sorted(name for name, value in call.arguments.items() if name not in known and value is not None)
    if left:
        yield Message("line {}: not read of {}: {}", call.line, call.name, joined(", ", left))
