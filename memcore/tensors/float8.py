"""Matrix products in float8 as torchao computes them: operands are cast for each product, and stay in high precision.

Source: torchao/float8/float8_linear.py (`matmul_with_hp_or_float8_args`), float8_utils.py and mx_formats/mx_linear.py:
the forward pass saves the input and the weight in high precision; forward and both backward products cast them.
"""

from __future__ import annotations

from memcore.symbols import Shape
from memcore.tensors.basics import new
from memcore.tensors.selection import selectable
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Tape


def cast(tape: Tape, dtype: str, *shapes: Shape) -> list[Storage | None]:
    """Operands of a product in float8, one after the other, from tensors of a dtype."""
    if tape.float8 is None:
        return []
    return [_cast(tape, dtype, shape) for shape in shapes]


def _cast(tape: Tape, dtype: str, shape: Shape) -> Storage | None:
    """`tensor_to_amax` and `hp_tensor_and_scale_to_float8`: upcast, scaled, clamped in fp32 where nothing fuses it."""
    if tape.float8 is not None and not tape.float8.fused:
        if tape.float8.recipe != "mxfp8":
            selectable(tape, "abs", lambda: [new(tape, shape, dtype, "float8_cast")])
        upcast = new(tape, shape, "fp32", "float8_cast")
        scaled = new(tape, shape, "fp32", "float8_cast")
        del upcast
        clamped = new(tape, shape, "fp32", "float8_cast")
        del scaled
        out = new(tape, shape, "fp8", "float8_operand")
        del clamped
        return out.storage
    return new(tape, shape, "fp8", "float8_operand").storage


def gathered_cast(tape: Tape) -> bool:
    """Return whether weights are in float8 when they arrive."""
    return tape.float8 is not None and tape.float8.gathers
