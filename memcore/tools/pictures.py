"""What scripts of transformers' Trainer say of pictures, towers and Unsloth."""

from __future__ import annotations

from typing import Any

from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.network import LANGUAGE_MODEL
from memcore.tools.launchers import is_set
from memcore.tools.towers import TOWER, TRAINABLE, reached, sees

IMPLEMENTATION, EXPANDABLE = "*implementation", "*expandable_segments"
_OFF = (False, "false", "False", "no", None, 0, "0")


def unprepared(normalized: dict[str, Any], notes: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the length of sequences that the trainer does not cut: the data's, which Unsloth's collator cuts.

    Source: unsloth_zoo 2026.7, vision_utils.py (`UnslothVisionDataCollator`: `max_seq_length` of the model).
    """
    if normalized.get(IMPLEMENTATION) == "unsloth" and isinstance(normalized.get("max_length"), int):
        note = "dataset_kwargs.skip_prepare_dataset: sequences are as long as the data's, up to max_length"
        return normalized, (*notes, note)
    normalized = {**normalized, "max_length": "$max_length"}
    normalized.pop("max_seq_length", None)
    return normalized, (*notes, "dataset_kwargs.skip_prepare_dataset: sequences are as long as the data's")


def with_unsloth(normalized: dict[str, Any]) -> None:
    """Unsloth's layers, and its checkpoints, whose inputs of layers are in host memory.

    Importing it makes segments expandable (unsloth 2024.3 to 2025.10, __init__.py; since then unsloth_zoo's).
    """
    if normalized.get("gradient_checkpointing") == "unsloth":
        normalized |= {"gradient_checkpointing": True, "activation_offloading": True}
    if is_set(normalized.get("use_unsloth")):
        normalized |= {IMPLEMENTATION: "unsloth", EXPANDABLE: True}


def on_towers(normalized: dict[str, Any], named: object) -> tuple[Message, ...]:
    """Say that the tower has adapters too, where a script's own key or the layers that it has `named` ask for them.

    Notes say what else trains in full.

    Sources: unsloth 2026.7, models/vision.py (`get_peft_regex`); 2U1/Qwen-VL-Series-Finetune, src/params.py
    (`vision_lora`). Raises UnsupportedError for keys that give the tower's adapters a rank of their own.
    """
    own = next((name for name in _OF_OWN_RANK if normalized.get(name) not in _OFF), None)
    if own is not None:
        message = "adapters of another rank on the tower are not supported yet; leave it out to run without it"
        raise UnsupportedError.of_value(own, normalized[own], message)
    model, adapted = normalized.get("model_name_or_path"), is_set(normalized.get("use_peft"))
    if adapted and not {*_TOO, *_FREEZING} & set(normalized):
        normalized |= reached(_TARGETS, named or normalized.get(_TARGETS), model)
        return ()
    asked = [is_set(normalized.pop(name, False)) for name in _TOO]
    if any(asked) and sees(model):
        normalized[TRAINABLE] = [LANGUAGE_MODEL, *TOWER]
    opened = [name for name in _FREEZING if adapted and normalized.get(name) in _OFF[:3]]
    message = "{}: trains in full next to the adapters, which is not counted"
    return (Message(message, joined(", ", opened)),) if opened else ()


_TARGETS = "lora_target_modules"
_FREEZING = ("freeze_vision_tower", "freeze_merger", "freeze_projector")
"""Parts that 2U1's scripts train as they are, without adapters of their own (src/train/train_sft.py)."""
_TOO = ("finetune_vision_layers", "vision_lora")
_OF_OWN_RANK = ("use_backbone_lora", "tower_lora")
"""Keys of widespread scripts (InternVL, internvl_chat_finetune.py)."""
