"""Scripts with a training loop of their own, as the calls of transformers' Trainer with the same settings.

Sources: torch 2.12, utils/data/dataloader.py (`DataLoader`: one text where no size is said), amp/autocast_mode.py (fp16
where no dtype is said), distributed/fsdp/fully_sharded_data_parallel.py (`FULL_SHARD` where no strategy is said; one
unit without a policy); accelerate 1.15, accelerator.py (`Accelerator`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore.formats.normalized import GPUS
from memcore.formats.python import STEPS, Call
from memcore.tools.altered import OPTIMIZERS
from memcore.tools.loads import loads_model

NOTE = "the script has a training loop of its own: read as the Trainer's; what its loss allocates is not read"
_SECOND, _POLICIES = "fully_shard", ("MixedPrecision", "MixedPrecisionPolicy")
WRAPS = ("FSDP", "FullyShardedDataParallel", _SECOND)
"""Functions of PyTorch's that shard a model."""
_MAKES_ENGINE, _CLIPS, _CONFIG = "initialize", "clip_grad_norm", "deepspeed"
"""DeepSpeed's function, what clips gradients, and the Trainer's argument that is DeepSpeed's config."""
_HALVES: Mapping[object, str] = {"bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16"}


def of_loop(found: Sequence[Call]) -> list[Call]:
    """Return the calls of a script with those of a trainer for its own loop; none for a script without one."""
    given = lightning(found)
    ends = [each.line for each in found if each.name == ("backward" if given is None else _FITS)]
    before = [each for each in found if ends and each.line <= ends[-1] and each is not given]
    steps = [OPTIMIZERS[each.name] for each in before if each.name in OPTIMIZERS]
    split = _deepspeed(before)
    if not (steps or split) or not any(map(loads_model, before)):
        return []
    told, left = ({}, {}) if given is None else _of_lightning(given)
    arguments = {**_batch(before), **_updates(found), **_precision(before), **_sharded(before), **told}
    arguments |= {"optim": steps[-1], **split} if steps else split
    clips = "gradient_clipping" in split.get(_CONFIG, ()) or any(each.name.startswith(_CLIPS) for each in before)
    if not clips and _CLIPPED not in told:
        arguments[_CLIPPED] = 0
    cast = None if given is None else _CASTS.get(given.arguments.get("precision"))
    if cast is not None:
        before = [
            replace(each, arguments={**each.arguments, "torch_dtype": cast}) if loads_model(each) else each
            for each in before
        ]
    trained = [Call("TrainingArguments", "", ends[-1], arguments), Call("Trainer", "", ends[-1], left)]
    return [*before, *trained, *(each for each in found if each.line > ends[-1])]


def lightning(found: Sequence[Call]) -> Call | None:
    """Return the call that makes Lightning's trainer, which is handed its model by `fit`; None in other scripts."""
    fits = any(each.name == _FITS and each.of for each in found)
    plain = [each for each in found if each.name == "Trainer" and not each.places and not {*each.arguments} & {*_OURS}]
    return plain[0] if fits and plain else None


def _of_lightning(trainer: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what Lightning's trainer is told, as the Trainer's arguments, and what is not read of it.

    Source: lightning 2.6, pytorch/trainer/trainer.py and connectors/accelerator_connector.py (`precision`).
    """
    keys = {_LIGHTNING[name]: value for name, value in trainer.arguments.items() if name in _LIGHTNING}
    precision = trainer.arguments.get("precision")
    keys |= {_PRECISIONS[precision]: True} if precision in _PRECISIONS else {}
    devices = trainer.arguments.get("devices")
    keys |= {GPUS: devices} if type(devices) is int and devices > 0 else {}
    left = {name: value for name, value in trainer.arguments.items() if name in _MATTER and value not in _HARMLESS}
    known = precision in (*_PRECISIONS, *_CASTS, None, 32, "32", "32-true")
    return keys, left | ({} if known else {"precision": precision})


_FITS, _OURS = "fit", ("model", "args", "train_dataset")
_CLIPPED = "max_grad_norm"
_LIGHTNING: Mapping[str, str] = {
    "accumulate_grad_batches": "gradient_accumulation_steps", "gradient_clip_val": _CLIPPED,
}  # fmt: skip
_PRECISIONS: Mapping[object, str] = {16: "fp16", "16": "fp16", "16-mixed": "fp16", "bf16": "bf16", "bf16-mixed": "bf16"}
_CASTS: Mapping[object, str] = {"bf16-true": "bfloat16", "16-true": "float16"}
"""Precisions in which the whole model is (lightning, pytorch/plugins/precision/half.py)."""
_MATTER, _HARMLESS = ("strategy", "plugins"), ("auto", "ddp", None)


def reads(looped: Sequence[Call]) -> tuple[str, ...]:
    """Return the functions that are read of those that such a loop hands its model to."""
    split = any(_CONFIG in each.arguments for each in looped if each.name == "TrainingArguments")
    return (*WRAPS, _MAKES_ENGINE) if split else WRAPS


def _deepspeed(before: Sequence[Call]) -> dict[str, Any]:
    """Return the Trainer's arguments for what DeepSpeed's engine is made with; none without it.

    Source: deepspeed 0.18, __init__.py (`initialize`: `config`, earlier `config_params`), runtime/config.py.
    """
    made = next((each for each in before if each.name == _MAKES_ENGINE and "model" in each.arguments), None)
    if made is None:
        return {}
    config = made.arguments.get("config", made.arguments.get("config_params"))
    if not isinstance(config, Mapping):
        return {_CONFIG: config} if isinstance(config, str) else {}
    keys = {ours: config[theirs] for theirs, ours in _BATCHES.items() if theirs in config}
    keys |= {name: True for name in ("bf16", "fp16") if _in(config, name, "enabled") is True}
    named = _in(config, "optimizer", "type")
    keys |= {} if named is None else {"optim": OPTIMIZERS.get(str(named), "$optim")}
    rest = {name: value for name, value in config.items() if name not in (*_BATCHES, "bf16", "fp16", "optimizer")}
    return {**keys, _CONFIG: rest}


_BATCHES: Mapping[str, str] = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}


def _in(config: Mapping[str, Any], section: str, key: str) -> object:
    """Return a key of a section; None without either."""
    inner = config.get(section)
    return inner.get(key) if isinstance(inner, Mapping) else None


def _batch(before: Sequence[Call]) -> dict[str, Any]:
    """Return the texts of a batch, by the loader that shuffles, else by the first."""
    loaders = [each for each in before if each.name == "DataLoader" and "batch_sampler" not in each.arguments]
    shuffled = [each for each in loaders if each.arguments.get("shuffle") is True]
    name = "per_device_train_batch_size"
    return {name: next((each.arguments.get("batch_size", 1) for each in (*shuffled, *loaders)), f"${name}")}


def _updates(found: Sequence[Call]) -> dict[str, Any]:
    """Return the batches of an update, as accelerate is told or the loop counts them."""
    steps = "gradient_accumulation_steps"
    several = [
        each.arguments[steps] for each in found if each.name in ("Accelerator", STEPS) and steps in each.arguments
    ]
    return {steps: several[-1]} if several else {}


def _halved(before: Sequence[Call]) -> bool:
    """Return whether the weights are loaded in 16 bits, which FSDP's policies of precision leave as they are."""
    loads = [each for each in before if loads_model(each)]
    return any(each.arguments.get(name) in _HALVES for each in loads for name in ("dtype", "torch_dtype"))


def _sharded(before: Sequence[Call]) -> dict[str, Any]:
    """Return how FSDP shards the model; nothing without it."""
    wraps = next((each for each in before if each.name in WRAPS and each.first is not None), None)
    if wraps is None:
        return {}
    given = {name: value for name, value in wraps.arguments.items() if value is not None}
    keys: dict[str, Any] = {"fsdp_config.offload_params": "cpu_offload" in given or "offload_policy" in given}
    if wraps.name == _SECOND:
        return {
            **keys,
            "fsdp_config.version": 2,
            "fsdp_config.reshard_after_forward": given.get("reshard_after_forward"),
        }
    keys["fsdp_config.sharding_strategy"] = str(given.get("sharding_strategy", "FULL_SHARD")).lstrip("$")
    return keys if "auto_wrap_policy" in given else {**keys, "fsdp_config.auto_wrap_policy": "NO_WRAP"}


def _precision(before: Sequence[Call]) -> dict[str, Any]:
    """Return whether the forward pass runs in 16 bits, by accelerate or under autocast."""
    for each in before:
        if each.name == "Accelerator":
            said = each.arguments.get("mixed_precision", "fp16" if each.arguments.get("fp16") is True else "no")
        elif each.name == "autocast":
            said = each.arguments.get("dtype", "fp16")
        elif each.name in _POLICIES and not _halved(before):
            said = each.arguments.get("param_dtype", "no")
        else:
            continue
        if str(said).startswith("$"):
            return {"bf16": said}
        if said in _HALVES:
            return {_HALVES[said]: True}
    return {}
