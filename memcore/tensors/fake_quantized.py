"""Quantization-aware training: linear layers whose inputs and weights are rounded, and stay in high precision.

Source: torchao 0.8 to 0.10, quantization/qat/linear.py (`FakeQuantizedLinear.forward`), qat/utils.py
(`_GenericFakeQuantize`: a mask of what was not clamped is kept), quantization/quant_primitives.py
(`fake_quantize_affine_cachemask`): scales are in fp32, and so is what is multiplied with them.
"""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import identity, like, new, only, to
from memcore.tensors.tensor import Parameter, Tensor


def rounded_linear(x: Tensor, weight: Parameter) -> Tensor:
    """`F.linear` of an input rounded to int8 for each token, and of a weight rounded to int4 in groups."""
    tape, batch, shape = x.tape, len(x.shape) - len(weight.inner), x.shape
    given, matrix = _rounded_input(x), _rounded(weight)
    needs, learns, dtype = tracked(given), tracked(matrix), given.dtype
    saved = save(tape, given if learns else None, matrix if needs else None)
    out = new(tape, (*shape[:batch], *weight.outer), dtype, "linear")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_weight = new(tape, weight.shape, dtype, "weight_gradient") if learns else None
        return [new(tape, shape, dtype, "input_gradient") if needs else None, for_weight]

    if needs or learns:
        attach([out], [given, identity(matrix)], saved, apply)
    return out


def _rounded_input(x: Tensor) -> Tensor:
    """`_fake_quantize_per_token`: in fp32, and cast back."""
    return to(_rounded(to(x, "fp32")), x.dtype)


def _rounded(x: Tensor) -> Tensor:
    """`_GenericFakeQuantize.apply`, whose gradient is that of the result times a mask."""
    with x.tape.no_grad():
        q = _chain(x, ("fp32", "fp32", "fp32", "fp32"))
        out = _chain(q, ("int32", "int32", x.dtype, "fp32", *(() if x.dtype == "fp32" else (x.dtype,))))
        below, above = (like(q, "fake_quantization_mask", "bool") for _ in range(2))
        mask = like(q, "fake_quantization_mask", "bool")
        del below, above, q
    if tracked(x):
        attach([out], [x], save(x.tape, mask), lambda g, s: [like(only(g), "mul_backward")])
    return out


def _chain(x: Tensor, dtypes: tuple[str, ...]) -> Tensor:
    """Pointwise operations one after the other, each of which has a result of its own."""
    for dtype in dtypes:
        x = like(x, "fake_quantization", dtype)
    return x
