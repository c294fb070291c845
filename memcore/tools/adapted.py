"""The adapter that a script puts around its model: by a config of PEFT's, or by Unsloth's function.

Sources: peft 0.21, tuners/*/config.py; unsloth 2026.7, models/llama.py (`get_peft_model`: rank 16, seven matrices,
`use_gradient_checkpointing="unsloth"`; nothing after `full_finetuning=True`), models/vision.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.normalized import PREPARED
from memcore.formats.python import Call
from memcore.formats.readers import flat
from memcore.messages import Message, joined
from memcore.networks.usual_targets import LLAMA_LINEARS, targets_of_peft
from memcore.tools.accounts import accounted
from memcore.tools.loads import BROUGHT, UNSLOTH, before_training, checkpoints, single_call, taken
from memcore.tools.peft import KINDS_BY_CLASS, NOT_SUPPORTED, PEFT, PLACES, in_places, of_config

_LORA: Mapping[str, str] = {
    "r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "target_modules": "lora_target_modules",
    "target_parameters": "lora_target_parameters", "modules_to_save": "lora_modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
_CHECKPOINTS = "use_gradient_checkpointing"
_OF_FAST = (_CHECKPOINTS, "random_state", "max_seq_length", "inference_mode", "base_model_name_or_path")
"""Arguments of Unsloth's function that are read elsewhere, or that memory does not depend on."""
LORA = "LoraConfig"
_PEFT: Mapping[str, object] = {"lora_r": 8, "lora_dropout": 0.0}
"""What `LoraConfig` takes where nothing is said (peft/tuners/lora/config.py)."""
_FAST: Mapping[str, object] = {"r": 16, "target_modules": list(LLAMA_LINEARS), "lora_alpha": 16, "lora_dropout": 0}
_ALL_LINEAR = re.compile(r"^\$(?:find|get)\w{0,40}linear", re.IGNORECASE)
"""What a function is called that lists the linear layers (artidoro/qlora, qlora.py: `find_all_linear_names`)."""
_OF_FAMILY = re.compile(r"\$TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING\.(\w+)")
"""A row of PEFT's own table (peft/utils/constants.py)."""
_PARTS = ("finetune_vision_layers", "finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules")


def of_adapters(found: Sequence[Call], told: list[Call], base: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys of the adapter next to a model, `base` by its name, and notes; none for a model without one."""
    other = next((each for each in found if each.name in NOT_SUPPORTED), None)
    if other is not None:
        message = "found in line {}; this method is not supported yet; describe the adapter with {}"
        raise UnsupportedError(other.name, message, other.line, "training.adapter")
    fast = _of_fast(found)
    plain = [each for each in found if each.name in KINDS_BY_CLASS and taken(found, each.name)]
    _raise_elsewhere(found, [*fast, *plain])
    keys: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if plain and not fast:
        call = single_call(plain)
        told.append(call)
        keys, notes = _of_call(call, call.arguments) if call.name == LORA else _of_other(call, base)
    elif fast:
        call = single_call(fast)
        told.append(call)
        given = _trained_whole({**_FAST, **_targets(call), **call.arguments})
        keys, notes = _of_call(call, given)
        keys = {**checkpoints(given.get(_CHECKPOINTS, "unsloth")), **keys}
    enabled = next((each for each in found if each.name == "gradient_checkpointing_enable"), None)
    keys |= checkpointed(enabled)
    if keys and not fast and _prepares(found):
        keys[PREPARED] = True
    return keys, notes


def _of_fast(found: Sequence[Call]) -> list[Call]:
    """Return the calls of Unsloth's function that put an adapter around a model."""
    whole = any(each.of in UNSLOTH and each.arguments.get("full_finetuning") is True for each in found)
    fast = [each for each in found if each.name == "get_peft_model" and each.of in UNSLOTH and not whole]
    return before_training(found, fast) or fast


def _raise_elsewhere(found: Sequence[Call], known: Sequence[Call]) -> None:
    """Raise UnsupportedError for an adapter whose config is in another file, or of a class that is not known."""
    made = next((each for each in found if each.name == "get_peft_model" and each.of not in UNSLOTH), None)
    if made is not None and not known and not any(each.name == "get_peft_config" for each in found):
        message = "its config in line {} is not known; describe the adapter with {}"
        raise UnsupportedError(made.name, message, made.line, "training.adapter")
    before = before_training(found)
    brought = next((each for each in before if each.of in BROUGHT and each.arguments.get("is_trainable") is True), None)
    is_new = made is not None and any(each.name in KINDS_BY_CLASS for each in known)
    if brought is not None and not is_new and not any(each.name == "merge_and_unload" for each in before):
        message = "its adapter in line {} is in another file: describe the adapter with {}"
        raise UnsupportedError(brought.of, message, brought.line, "training.adapter")


def _of_other(call: Call, base: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys of another method of PEFT's than LoRA."""
    keys, rest, notes = of_config(call.name, flat(call.arguments), base)
    return keys, (*notes, *_left(call, rest))


def _left(call: Call, rest: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return a note on arguments that are not read and that memory may depend on."""
    sorted_out = accounted(PEFT, rest)
    left = (*sorted_out.left_out, *sorted_out.unknown)
    listed = joined(", ", sorted(left))
    return (Message("line {}: not read of {}: {}", call.line, call.name, listed),) if left else ()


_ENDS = ("embed_tokens", "lm_head")


def _trained_whole(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Unsloth's arguments with embeddings and head among what trains whole, where they are called targets.

    Source: unsloth 2026.7, models/llama.py (`get_peft_model`: `train_embed_tokens`, `train_lm_head`).
    """
    targets = given["target_modules"]
    ends = [each for each in _ENDS if isinstance(targets, list) and each in targets]
    if not ends:
        return dict(given)
    kept = given.get("modules_to_save") or []
    rest = [each for each in targets if each not in ends]
    return {**given, "target_modules": rest, "modules_to_save": [*kept, *(each for each in ends if each not in kept)]}


def checkpointed(call: Call | None) -> dict[str, Any]:
    """Return the keys of activation checkpoints as a call turns them on, if one does."""
    if call is None:
        return {}
    how = call.arguments.get("gradient_checkpointing_kwargs")
    said = flat(how, "gradient_checkpointing_kwargs") if isinstance(how, Mapping) else {}
    return {"gradient_checkpointing": True, **said}


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
    targets = "all-linear" if attention and ffns else list(LLAMA_LINEARS[:4] if attention else LLAMA_LINEARS[4:])
    return {_PARTS[0]: True, "target_modules": targets} if call.of == "FastVisionModel" else {"target_modules": targets}


def _of_call(call: Call, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return LoRA's arguments by TRL's names, and a note on those that are not read."""
    if given.get(_PARTS[1], True) is False:
        raise UnsupportedError(_PARTS[1], "found {!r}; supported: {!r}", False, True)
    named = {_LORA[name]: value for name, value in given.items() if name in _LORA}
    told = {name: given[name] for name in ("target_modules", *PLACES) if given.get(name) is not None}
    named |= {_LORA.get(name, name): value for name, value in in_places(told).items()}
    known = (*_LORA, *_PARTS, *_OF_FAST, *PLACES)
    notes = _left(call, {name: value for name, value in given.items() if name not in known})
    listed = str(given.get("target_modules"))
    if (table := _OF_FAMILY.fullmatch(listed)) is not None:
        named["lora_target_modules"] = list(targets_of_peft(table[1]))
    if _ALL_LINEAR.search(listed):
        message = Message(
            "line {}: {} names the layers with adapters: all linear ones are assumed", call.line, listed[1:]
        )
        named["lora_target_modules"], notes = "all-linear", (message, *notes)
    towers = {_PARTS[0]: True} if given.get(_PARTS[0]) is True else {}
    return {"use_peft": True, **_PEFT, **named, **towers}, notes
