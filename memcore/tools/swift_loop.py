"""What the keys of ms-swift mean together: the loop around transformers' Trainer, as its releases have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import ENGINE, FRAMEWORK, GPUS, PER_NODE, Normalized
from memcore.messages import Message, joined
from memcore.tools.launchers import DEVICES, launched, visible
from memcore.tools.loops import DEFAULTS, PRECISION, SHARDED, attention_kernel, linear_alone, with_trainer_liger
from memcore.tools.methods import METHOD, SWIFT_KEYS, of_swift_method
from memcore.tools.own_keys import SWIFT_PROJECTS, with_projections
from memcore.tools.sharding import SEVERAL, sharded
from memcore.tools.swift_releases import of_two
from memcore.tools.targets import targets
from memcore.tools.towers import adapted_parts, trained_parts

_USUAL = DEFAULTS["ms-swift"]
_ZERO_FILES: Mapping[str, tuple[int, bool]] = {
    "zero0": (0, False), "zero1": (1, False), "zero2": (2, False), "zero3": (3, False),
    "zero2_offload": (2, True), "zero3_offload": (3, True),
}  # fmt: skip
"""ms-swift's own DeepSpeed files (swift/config/*.json), and whether the optimizer is in host memory."""


def _check_trains(found: Mapping[str, Any]) -> None:
    """Raise an error for other commands, tasks and methods."""
    program = str(found.get("", ""))
    if re.search(r"\b(infer|deploy|export|eval|app|sample|merge-lora|rollout)\b", program):
        raise ConfigError.at(
            "the command", "found {:.60}, which does not train; supported: `swift sft` or `swift pt`", program
        )
    kind = found.get("tuner_type", found.get("train_type", "lora"))
    if kind != "full" and kind not in _TUNERS:
        raise UnsupportedError.of_value("tuner_type", kind, Message("supported: {}", joined(", ", (*_TUNERS, "full"))))
    for name, usual in _BUTTERFLIES.items():
        if kind == "boft" and found.get(name, usual) != usual:
            raise UnsupportedError.of_value(name, found[name], Message("supported: {}", usual))


_TUNERS: Mapping[str, Mapping[str, tuple[str, object]]] = {
    "lora": {name: (name, _USUAL[name]) for name in ("lora_rank", "lora_dropout")},
    "adalora": {"adalora_init_r": ("*init_r", 12), "lora_dropout": ("lora_dropout", _USUAL["lora_dropout"])},
    "boft": {"boft_block_size": ("*block_size", 4)},
    "bone": {"reft_rank": ("lora_rank", 4)},
}
"""ms-swift's tuners, each with its keys: what they are here, and their defaults (ms-swift 4.6,
pipelines/train/tuner.py: Bone, which is MiSS, takes ReFT's rank; arguments/tuner_args.py)."""
_BUTTERFLIES: Mapping[str, int] = {"boft_block_num": 0, "boft_n_butterfly_factor": 1}
_OF_TUNERS = frozenset(("tuner_type", *_BUTTERFLIES, *(name for each in _TUNERS.values() for name in each)))
"""Keys of some tuners alone, and the one that names the tuner."""


def _of_tuner(kind: str, plain: Mapping[str, Any]) -> Normalized:
    """Return the keys of one tuner; those of others have no effect."""
    own = _TUNERS[kind]
    left = {name: value for name, value in plain.items() if kind == "lora" or name not in _OF_TUNERS}
    given = {here: plain.get(name, usual) for name, (here, usual) in own.items()}
    if kind != "lora":
        given["*adapter"] = _MISS.get(kind, kind)
    foreign = [name for name in plain if name not in left and name not in own and name != "tuner_type"]
    notes = (Message("{} has no effect with tuner_type {}", joined(", ", foreign), kind),) if foreign else ()
    return {"target_modules": "all-linear", **left, **given}, notes


_MISS = {"bone": "miss"}
"""PEFT's later name (tuners/miss)."""


def _refuse_spread_layers(found: Mapping[str, Any]) -> None:
    """Raise an error for processes of several GPUs, over which layers are spread (`get_default_device_map`: auto)."""
    devices, processes = str(found.get(DEVICES, "")), found.get(PER_NODE, found.get(GPUS, 1))
    seen = visible(found)
    launched_elsewhere = {"accelerate", "launch"} <= {*str(found.get("")).split()}  # by default, a process for each GPU
    if launched_elsewhere or found.get("deepspeed") is not None:
        return
    if isinstance(processes, int) and seen > processes:
        message = "layers are spread over the GPUs of a process, which is not supported yet; set NPROC_PER_NODE to {}"
        raise UnsupportedError.of_value("CUDA_VISIBLE_DEVICES", devices, Message(message, seen))


def _zero(name: object) -> Normalized:
    """DeepSpeed by the name of ms-swift's own file for it, or of another file."""
    if name is None:
        return {}, ()
    if not isinstance(name, str) or name not in _ZERO_FILES:
        return sharded({"deepspeed": name})
    stage, offloads = _ZERO_FILES[name]
    plain: dict[str, Any] = {ENGINE: "deepspeed", "*stage": stage} | ({"*optimizer": "cpu"} if offloads else {})
    return plain | ({"*parameters": "cpu"} if offloads and stage == 3 else {}), ()


_BITS: Mapping[str, object] = {
    "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
}  # fmt: skip
"""What 4 bits are where nothing is said (arguments/base_args/quant_args.py)."""


def of_swift(found: Mapping[str, Any]) -> Normalized:
    """ms-swift's keys: LoRA of rank 8 on all linear layers, with reentrant checkpoints, if nothing else is said.

    Weights have `torch_dtype`, by default the checkpoint's; 16 sequences make a step.
    Sources: ms-swift 4.5, arguments/base_args/{base_args,model_args,quant_args}.py, arguments/tuner_args.py,
    trainers/arguments.py (`gradient_accumulation_steps`), trainers/mixin.py (`_fix_gradient_checkpointing`), config/.
    """
    found, renamed = of_two(found)
    _check_trains(found)
    _refuse_spread_layers(found)
    method, learnt = of_swift_method(found)
    found = {name: value for name, value in found.items() if not method or name not in SWIFT_KEYS} | method
    kind = found.get("tuner_type", found.get("train_type", "lora"))
    found, first = launched(found)
    plain, notes = sharded({name: value for name, value in found.items() if name != "deepspeed"})
    notes = (*renamed, *first, *notes, *learnt)
    normalized = {**plain, "tuner_type": kind}
    normalized.pop("train_type", None)
    more, also = _zero(found.get("deepspeed"))
    normalized |= more
    if more:
        notes = tuple(note for note in notes if note != SEVERAL)
    notes = (*notes, *also)
    for name, usual in _BITS.items():
        if name in normalized and normalized[name] == usual:
            del normalized[name]
    with_projections(normalized, SWIFT_PROJECTS, 128)
    attention_kernel(normalized, "attn_impl")
    with_trainer_liger(normalized, fuses=not method)
    dtype = str(found.get("torch_dtype", "bfloat16"))
    word = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(dtype, "bf16")
    mixed = word if word == "fp32" else f"{word}-mixed"
    spread = normalized.get(ENGINE) in SHARDED
    normalized[PRECISION] = mixed if spread else word
    for each in ("torch_dtype", "bf16", "fp16"):
        normalized.pop(each, None)
    if normalized.get("gradient_checkpointing", _USUAL["gradient_checkpointing"]) is not False:
        normalized["gradient_checkpointing"] = True
        many = (found.get(GPUS) or 1) != 1 and not spread
        normalized.setdefault("gradient_checkpointing_kwargs.use_reentrant", not many)
    if kind != "full":
        adapted, foreign = _of_tuner(str(kind), normalized)
        normalized = dict(adapted)
        normalized |= adapted_parts("ms-swift", normalized, found.get("model"))
        notes = (*notes, *foreign)
        normalized["target_modules"] = targets(normalized["target_modules"])
        if normalized["target_modules"] == "all-linear":
            normalized["target_modules"] = linear_alone(found.get("model")) or "all-linear"
    else:
        normalized = {name: value for name, value in normalized.items() if name not in ("lora_rank", "target_modules")}
        normalized |= trained_parts("ms-swift", normalized, found.get("model"))
    each_step = found.get("per_device_train_batch_size", 1)
    gpus = found.get(GPUS, 1)
    if method.get(METHOD) == "grpo":
        normalized.setdefault("gradient_accumulation_steps", 1)
    elif "gradient_accumulation_steps" not in found and isinstance(each_step, int) and isinstance(gpus, int):
        normalized["gradient_accumulation_steps"] = max(1, -(-16 // max(1, each_step * gpus)))
    return {FRAMEWORK: "ms-swift", **normalized}, notes
