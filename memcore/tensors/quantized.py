"""Products with frozen matrices that are stored in few bits, as bitsandbytes and transformers compute them.

Sources: bitsandbytes/nn/modules.py (`Linear4bit.forward`, `Linear8bitLt.forward`), bitsandbytes/autograd/_functions.py
(`MatMul4Bit`, `MatMul8bitLt`) and bitsandbytes/backends/cuda/ops.py: with more than 1536 rows the matrix is dequantized
for the product, and always once more for the gradient. LLM.int8() counts no outlier columns, which depend on data.
fp8: transformers/integrations/finegrained_fp8.py (`FP8LinearFunction`, `_dequantize_fp8_weight`), by its Triton kernel,
which quantizes rows as it reads them. GPTQ: gptqmodel/nn_modules/triton_utils/dequant.py (`QuantLinearFunction`), which
dequantizes the matrix for the product and once more for the gradient; GPTQ's other kernels have no backward pass, or
compute the same in more steps.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.symbols import Quotient, Shape
from memcore.tensors.autograd import Gradient, SavedTensor, attach, memory_of, tracked
from memcore.tensors.basics import in_order, like, new, only, to
from memcore.tensors.modes import Quantization
from memcore.tensors.tensor import Parameter, Tensor


def quantized_linear(x: Tensor, weight: Parameter, how: Quantization, bias: Tensor | None) -> Tensor:
    """A linear layer over a quantized matrix; fp8 and four bits save neither the input nor a copy of the matrix."""
    if how.floating:
        return _in_fp8(x, weight, bias)
    if how.bits == 8:
        return _in_8_bits(x, weight, bias)
    if how.grouped:
        return _in_groups(x, weight, how, bias)
    given = x.dtype
    return to(_in_4_bits(to(x, how.compute), weight, how, bias), given)


def quantized_experts(x: Tensor, weight: Parameter, how: Quantization, outer: Shape) -> Tensor:
    """Return rows times the quantized matrices of their experts, one expert after the other (transformers 4's loops).

    However tokens spread over the experts, the results together are as large; one expert's matrix is dequantized at a
    time, counted at the size of all that the product reads of it.
    """
    tape, shape, given = x.tape, x.shape, x.dtype
    one = weight.shape[len(weight.outer) :]
    matrix = new(tape, one, how.compute, "dequantized_weight")
    rows = to(x, how.compute)
    out = new(tape, (*shape[:-1], *outer), how.compute, "linear")
    del matrix, rows

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        in_order(gradients)
        matrix = new(tape, one, how.compute, "dequantized_weight")
        found = new(tape, shape, how.compute, "input_gradient")
        del matrix
        return [to(found, given)]

    return _attached(out, x, None, apply)


def _in_4_bits(x: Tensor, weight: Parameter, how: Quantization, bias: Tensor | None) -> Tensor:
    tape, dtype, shape = x.tape, x.dtype, x.shape
    batch = len(shape) - len(weight.inner)
    maxima = _maxima(x, weight, how, kept=False)
    matrix = new(tape, weight.shape, how.stored if how.early else dtype, "dequantized_weight")
    matrix = to(matrix, dtype)
    out = new(tape, (*shape[:batch], *weight.outer), dtype, "linear")
    del maxima, matrix

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        maxima = _maxima(gradient, weight, how, kept=True)
        matrix = new(tape, weight.shape, how.stored, "dequantized_weight")
        del maxima
        matrix = to(matrix, gradient.dtype)
        return [new(tape, shape, gradient.dtype, "input_gradient")]

    return _attached(out, x, bias, apply, *([x] if how.early else []))


def dequantized(weight: Parameter, dtype: str) -> Tensor | None:
    """Return a matrix in few bits as it was, for a product; others are there."""
    if weight.quantization is None:
        return None
    scales = (
        []
        if not weight.quantization.double
        else [new(weight.tape, (Quotient(weight.shape, 64),), "fp32", "dequantized_scales")]
    )
    found = new(weight.tape, weight.shape, dtype, "dequantized_weight")
    del scales
    return found


def whole(weight: Parameter, dtype: str) -> Tensor:
    """Return the matrices of all experts as a product takes them: eight bits as `restored`, others at once."""
    if weight.quantization is not None and weight.quantization.bits == 8:
        return restored(weight, dtype)
    return dequantized(weight, dtype) or weight


def restored(weight: Parameter, dtype: str) -> Tensor:
    """Return the whole matrix in a dtype, as PEFT asks for it (`dequantize_module_weight`, then `to`).

    Four bits come back in the dtype that they had; eight are multiplied by rows' maxima and by a number, in fp32.
    """
    how = weight.quantization
    if how is None:
        raise TypeError(weight)
    if how.bits == 8:
        scaled = new(weight.tape, weight.shape, "fp32", "dequantized_weight")
        found: Tensor | None = new(weight.tape, weight.shape, "fp32", "dequantized_weight")
        del scaled
    else:
        found = dequantized(weight, how.stored)
    return to(only([found]), dtype)


def _attached(
    out: Tensor,
    x: Tensor,
    bias: Tensor | None,
    apply: Callable[[list[Gradient], list[Tensor]], list[Gradient]],
    *held: Tensor,
) -> Tensor:
    """Return a node that holds tensors in attributes of its own, of which no checkpoint knows (`ctx.tensors`)."""
    if tracked(x):
        attach([out], [x], [SavedTensor(memory_of(each)) for each in held], apply)
    if bias is not None and tracked(bias):
        raise ValueError("the bias of a quantized layer is frozen")
    return out


def _maxima(x: Tensor, weight: Parameter, how: Quantization, *, kept: bool) -> list[Tensor]:
    """Return the maxima of blocks in fp32, if they are quantized themselves; added in place for the gradient."""
    if not how.double:
        return []
    shape: Shape = (Quotient(weight.shape, 64),)
    return [new(x.tape, shape, "fp32", "dequantized_scales") for _ in range(1 if kept else 2)]


def _in_fp8(x: Tensor, weight: Parameter, bias: Tensor | None) -> Tensor:
    """Rows are quantized in the kernel; for the gradient the matrix is cast and multiplied in place by its scales.

    These are cast too, and repeated for the rows of their blocks.
    """
    tape, dtype, shape = x.tape, x.dtype, x.shape
    batch = len(shape) - len(weight.inner)
    out = new(tape, (*shape[:batch], *weight.outer), dtype, "linear")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        blocks: Shape = (Quotient(weight.inner, 128),)
        scales = new(tape, (Quotient(weight.outer, 128), *blocks), gradient.dtype, "dequantized_scales")
        matrix = new(tape, weight.shape, gradient.dtype, "dequantized_weight")
        repeated = new(tape, (*weight.outer, *blocks), gradient.dtype, "dequantized_scales")
        del scales, repeated
        found = new(tape, shape, gradient.dtype, "input_gradient")
        del matrix
        return [found]

    return _attached(out, x, bias, apply)


def _in_groups(x: Tensor, weight: Parameter, how: Quantization, bias: Tensor | None) -> Tensor:
    """GPTQ: only the integers are kept for the gradient, and nobody holds on to x."""
    tape, given, shape = x.tape, x.dtype, x.shape
    batch = len(shape) - len(weight.inner)
    matrix = new(tape, weight.shape, how.compute, "dequantized_weight")
    rows = to(x, how.compute)
    out = new(tape, (*shape[:batch], *weight.outer), how.compute, "linear")
    del matrix, rows
    if bias is not None:
        out = like(out, "add")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        in_order(gradients)
        matrix = new(tape, weight.shape, how.compute, "dequantized_weight")
        found = new(tape, shape, how.compute, "input_gradient")
        del matrix
        return [to(found, given)]

    return _attached(out, x, bias, apply)


def _in_8_bits(x: Tensor, weight: Parameter, bias: Tensor | None) -> Tensor:
    """LLM.int8(): rows of x in 8 bits, a product in 32, scaled to fp16; x itself is kept."""
    tape, dtype, shape = x.tape, x.dtype, x.shape
    batch = len(shape) - len(weight.inner)
    rows, result = shape[:batch], (*shape[:batch], *weight.outer)
    half = to(x.detach(), "fp16")
    scales = new(tape, rows, "fp32", "quantized_rows")
    quantized = new(tape, shape, "int8", "quantized_rows")
    del half
    product = new(tape, result, "int32", "int8_product")
    out = new(tape, result, "fp16", "linear")
    del product, quantized, scales
    if dtype != "fp16":
        out = new(tape, result, dtype, "to")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        in_order(gradients)
        matrix = new(tape, weight.shape, dtype, "dequantized_weight")
        found = new(tape, shape, dtype, "input_gradient")
        del matrix
        return [found]

    return _attached(out, x, bias, apply, x)
