"""Positions of tokens in three dimensions (Qwen-VL): time, rows and columns."""

from __future__ import annotations

from memcore.tensors.basics import new
from memcore.tensors.loops import iterations
from memcore.tensors.tensor import Tape, Tensor
from memcore.trace.recipe import Pictures
from memcore.trace.step import Step

_RULE = "position_ids"


def multimodal_positions(step: Step) -> Tensor:
    """`get_rope_index`: text counts on, images have a grid of positions; sequence after sequence."""
    tape, pictures = step.tape, step.recipe.pictures
    if pictures is None:
        raise TypeError(step.recipe)
    position_ids = new(tape, (3, "b", "s"), "int64", _RULE)
    llm_positions = None
    for _ in iterations(tape, "b", pictures.sequences):
        llm_pos_ids_list = _pieces(tape, pictures)
        llm_positions = new(tape, (3, "s"), "int64", _RULE)
    del llm_pos_ids_list, llm_positions
    return position_ids


def _pieces(tape: Tape, pictures: Pictures) -> list[Tensor]:
    found = []
    for _ in iterations(tape, "ni", pictures.each):
        found.append(_plus(new(tape, ("xt",), "int64", _RULE)))
        found.append(new(tape, (3, "nm"), "int64", _RULE))
    found.append(_plus(new(tape, ("xt",), "int64", _RULE)))
    return found


def _plus(positions: Tensor) -> Tensor:
    """Shifted positions, for each of the three dimensions."""
    return new(positions.tape, (3, *positions.shape), "int64", _RULE)
