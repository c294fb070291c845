"""Unsloth's functions for linear layers with LoRA: an input is kept once, and its gradient takes its place.

Source: unsloth/kernels/fast_lora.py (`LoRA_MLP`, `LoRA_QKV`, `LoRA_W`) and utils.py (`matmul_lora`): products of the
small matrices are added in place, in the dtype of the input, to which these are cast for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memcore.records import dataclass
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import in_order, like, new, view
from memcore.tensors.quantized import dequantized
from memcore.tensors.tensor import Parameter, Tensor


@dataclass(frozen=True, slots=True)
class Adapted:
    """A frozen matrix, perhaps in few bits, and the two small matrices next to it."""

    weight: Parameter
    down: Parameter
    up: Parameter


def products(x: Tensor, layers: Sequence[Adapted]) -> list[Tensor]:
    """Results of several layers over one input (`LoRA_QKV`); of a single one its gradient is a tensor of its own."""
    results = [_product(x, layer) for layer in layers]
    small = [matrix for layer in layers for matrix in (layer.down, layer.up)]
    saved = save(x.tape, *small, x)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        x, found, result = saved[-1], list[Gradient](), None
        given = [in_order([each]) for each in gradients if each is not None]
        casts = [_cast(matrix, x.dtype) for matrix in small]
        for layer, gradient in zip(layers, given, strict=True):
            found += _of_matrices(x, gradient, layer)
        for layer, gradient in zip(layers, given, strict=True):
            matrix = dequantized(layer.weight, x.dtype)
            if result is None:
                result = view(x, x.shape, x.order) if len(layers) > 1 else like(x, "input_gradient")
            del matrix
            _between(gradient, layer)
        del casts
        return [result, *found]

    if tracked(x, *small):
        attach(results, [x, *small], saved, apply)
    return results


def gated(x: Tensor, gate: Adapted, up: Adapted, down: Adapted) -> Tensor:
    """`LoRA_MLP`: input, gate and up projection are kept; their product is computed again where the gradients lie."""
    layers = (gate, up, down)
    small = [matrix for layer in layers for matrix in (layer.down, layer.up)]
    e, g = _product(x, gate), _product(x, up)
    h = like(e, "liger_gate")
    out = _product(h, down)
    del h
    saved = save(x.tape, *small, x, e, g)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        x, e, g = saved[-3:]
        gradient = in_order(gradients)
        casts = [_cast(matrix, x.dtype) for matrix in small]
        matrix = dequantized(down.weight, x.dtype)
        h = like(e, "input_gradient")
        del matrix
        _between(gradient, down)
        of_down = list(_of_matrices(h, gradient, down))
        of_up, of_gate = list(_of_matrices(x, e, up)), list(_of_matrices(x, g, gate))
        for layer in (up, gate):
            matrix = dequantized(layer.weight, x.dtype)
            del matrix
            _between(e, layer)
        del casts
        return [view(x, x.shape, x.order), *of_gate, *of_up, *of_down]

    if tracked(x, *small):
        attach([out], [x, *small], saved, apply)
    return out


def _product(x: Tensor, layer: Adapted) -> Tensor:
    """`matmul_lora`."""
    rows = x.shape[: len(x.shape) - len(layer.weight.inner)]
    matrix = dequantized(layer.weight, x.dtype)
    out = new(x.tape, (*rows, *layer.weight.outer), x.dtype, "linear")
    del matrix
    cast = _cast(layer.down, x.dtype)
    between = new(x.tape, (*rows, *layer.down.outer), x.dtype, "linear")
    cast = _cast(layer.up, x.dtype)
    del between, cast
    return out


def _cast(matrix: Parameter, dtype: str) -> Tensor | None:
    return None if matrix.dtype == dtype else new(matrix.tape, matrix.shape, dtype, "to")


def _between(gradient: Tensor, layer: Adapted) -> None:
    """A product with the second small matrix, on the way to the input's gradient, in which it is added in place."""
    rows = gradient.shape[: len(gradient.shape) - len(layer.weight.outer)]
    held = new(gradient.tape, (*rows, *layer.down.outer), gradient.dtype, "linear")
    del held


def _of_matrices(x: Tensor, gradient: Tensor, layer: Adapted) -> Iterator[Gradient]:
    """Yield gradients of the two small matrices."""
    for matrix in (layer.down, layer.up):
        made = new(matrix.tape, matrix.shape, x.dtype, "weight_gradient")
        _between(gradient, layer)
        yield made
