"""Masks of families whose image tokens see each other in both directions (masking_utils.py, blockwise_overlay)."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.symbols import Shape
from memcore.tensors.basics import elementwise, new
from memcore.tensors.tensor import Tape, Tensor
from memcore.trace.step import Step

_RULE = "attention_mask"
_SQUARE: Shape = (1, 1, "s", "s")
_SQUARES: Shape = ("b", 1, "s", "s")


def prefix_masks(step: Step, dtype: str) -> Mapping[str, Tensor | None]:
    """PaliGemma: everything before the answer sees everything before it."""
    return {"full": _finished(step, _blocks(step.tape), dtype) if step.recipe.attention != "flash" else None}


def image_masks(step: Step, dtype: str) -> Mapping[str, Tensor | None]:
    """Gemma 3: `create_masks_for_vision_model`, where each image is a block."""
    if step.recipe.attention == "flash":
        return {"full": None, "sliding": None}
    full = _finished(step, _blocks(step.tape), dtype)
    return {"full": full, "sliding": _finished(step, _window(step.tape), dtype)}


def _finished(step: Step, allowed: Tensor, dtype: str) -> Tensor:
    """Eager attention adds it to the scores."""
    return new(step.tape, _SQUARES, dtype, _RULE) if step.recipe.attention == "math" else allowed


def _blocks(tape: Tape) -> Tensor:
    """`or_masks(causal, blockwise)`: conditions are merged two at a time."""
    result = elementwise(_RULE, new(tape, _SQUARE, "bool", _RULE))
    return elementwise(_RULE, result, _same_block(tape))


def _same_block(tape: Tape) -> Tensor:
    """`(q_group == kv_group) & (q_group >= 0)`."""
    q_group, kv_group = new(tape, ("b", 1, "s", 1), "int64", _RULE), new(tape, ("b", 1, 1, "s"), "int64", _RULE)
    out = _both(new(tape, _SQUARES, "bool", _RULE), new(tape, ("b", 1, "s", 1), "bool", _RULE))
    del q_group, kv_group
    return out


def _both(same: Tensor, inside: Tensor) -> Tensor:
    return elementwise(_RULE, same, inside)


def _window(tape: Tape) -> Tensor:
    """`and_masks(or_masks(causal, blockwise), window)`."""
    result = elementwise(_RULE, _blocks(tape))
    return elementwise(_RULE, result, _near(tape))


def _near(tape: Tape) -> Tensor:
    first = new(tape, ("s",), "int64", _RULE)
    out = new(tape, _SQUARE, "bool", _RULE)
    del first
    return out
