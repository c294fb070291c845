"""Learned positions on a grid, resampled to the grid of each image (vision_utils.py, for Qwen3-VL)."""

from __future__ import annotations

from memcore.tensors.arithmetic import total
from memcore.tensors.basics import new
from memcore.tensors.operations import embedding, mul
from memcore.tensors.tensor import Tape, Tensor
from memcore.trace.step import Step

_RULE = "vision_positions"


def taps_and_weights(step: Step) -> tuple[Tensor, Tensor]:
    """`get_vision_interpolation_indices_and_weights`: four neighbours of each patch, and how much each counts."""
    tape = step.tape
    heights, widths, starts = (_repeated(tape) for _ in range(3))
    within = _within(tape)
    blocks_w = _ints(tape)
    in_col = _ints(tape)
    in_row = _second_of_two(tape)
    block_col = _second_of_two(tape)
    block_row = _second_of_two(tape)
    row = _second_of_two(tape)
    col = _second_of_two(tape)
    h_taps, h_weights = _along_axis(tape)
    w_taps, w_weights = _along_axis(tape)
    product = new(tape, ("nq", 2, 1), "int64", _RULE)
    indices = new(tape, ("nq", 4), "int64", _RULE)
    del product
    weights = new(tape, ("nq", 4), "fp32", _RULE)
    del heights, widths, starts, within, blocks_w, in_col, in_row, block_col, block_row, row, col
    del h_taps, h_weights, w_taps, w_weights
    return indices, weights


def _repeated(tape: Tape) -> Tensor:
    """`torch.repeat_interleave`: a value for each patch, taken by index."""
    index = None if tape.fake else _ints(tape)
    out = _ints(tape)
    del index
    return out


def _ints(tape: Tape, *more: int) -> Tensor:
    return new(tape, ("nq", *more), "int64", _RULE)


def _floats(tape: Tape, *more: int) -> Tensor:
    return new(tape, ("nq", *more), "fp32", _RULE)


def _second_of_two(tape: Tape) -> Tensor:
    """Return an expression over a temporary."""
    first = _ints(tape)
    out = _ints(tape)
    del first
    return out


def _within(tape: Tape) -> Tensor:
    """`(arange - starts) % (heights * widths)`."""
    arange = _ints(tape)
    shifted = _ints(tape)
    del arange
    area = _ints(tape)
    out = _ints(tape)
    del shifted, area
    return out


def _along_axis(tape: Tape) -> tuple[Tensor, Tensor]:
    """`_interpolation_axis_taps_weights`, aligned at the corners and bilinear."""
    index = _floats(tape)
    src = _source(tape)
    floor = _floats(tape)
    whole = _ints(tape)
    raw_taps = _ints(tape, 2)
    del whole
    taps = _ints(tape, 2)
    offset = _floats(tape)
    difference = _floats(tape, 2)
    del offset
    distance = _floats(tape, 2)
    del difference
    left = _floats(tape, 2)
    weights = _floats(tape, 2)
    del left, index, src, floor, raw_taps, distance
    return taps, weights


def _source(tape: Tape) -> Tensor:
    """`index * (side - 1) / clamp(size - 1, min=1)`."""
    scaled = _floats(tape)
    reduced = _ints(tape)
    size = _ints(tape)
    del reduced
    out = _floats(tape)
    del scaled, size
    return out


def interpolated(step: Step, name: str, indices: Tensor, weights: Tensor) -> Tensor:
    """`(pos_embed(indices) * weights[:, :, None]).sum(1)`, in fp32."""
    return total(_weighted(step, name, indices, weights), 1)


def _weighted(step: Step, name: str, indices: Tensor, weights: Tensor) -> Tensor:
    with step.tape.at(name):
        found = embedding(indices, step.weights[f"{name}.weight"])
    return mul(found, _for_channels(weights))


def _for_channels(weights: Tensor) -> Tensor:
    return Tensor(weights.tape, weights.storage, (*weights.shape, 1), weights.dtype)
