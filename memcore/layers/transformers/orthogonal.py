"""Adapters of PEFT that turn the input of a linear layer (peft/tuners/oft/layer.py, boft/layer.py)."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.weights import Linear
from memcore.symbols import Shape
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import like, new, only, permute, to, view
from memcore.tensors.contractions import bmm, einsum, solve
from memcore.tensors.operations import add, add_scalar, mul, scale, sub
from memcore.tensors.slices import reshape
from memcore.tensors.tensor import Parameter, Tensor

Weights = Mapping[str, Parameter]


def rotated(x: Tensor, weights: Weights, part: Linear) -> tuple[Tensor, ...]:
    """OFT: blocks of the input, each turned by a matrix of its own, in the dtype of the adapter."""
    weight = weights[part.adapter_name("oft_R")]
    return (_turned(to(x, weight.dtype), weight, part),)


def _turned(x: Tensor, weight: Parameter, part: Linear) -> Tensor:
    """`OFTRotationModule.forward`."""
    blocks, elements = weight.shape
    size = _side(int(str(elements)))
    orth_rotate = _cayley(weight, int(str(blocks)), size)
    batch = x.shape[: len(x.shape) - len(part.inner)]
    x_reshaped = reshape(x, (*batch, blocks, size))
    names = "ab"[: len(batch)]
    x_rotated_reshaped = einsum(f"{names}rk,rkc->{names}rc", x_reshaped, orth_rotate)
    return reshape(x_rotated_reshaped, x.shape)


def turned(x: Tensor, weights: Weights, part: Linear) -> tuple[Tensor, ...]:
    """BOFT: the whole input times one matrix, which every forward pass makes of its blocks (`Linear.forward`).

    The permutation, which is the identity for one factor, is on the host and copied in the dtype of the input.
    """
    blocks, tape, dtype = weights[part.adapter_name("boft_R")], x.tape, x.dtype
    groups = ((), part.inner, part.inner, part.inner)
    eye = new(tape, (*part.inner, *part.inner), dtype, "eye")
    whole = _block_diagonal(_orthogonal(blocks), part.inner)
    permutation = new(tape, whole.shape, dtype, "to")
    diagonal = to(whole, dtype)
    del whole
    product = bmm(permutation, bmm(diagonal, permutation, groups), groups)
    product = _only(product)
    rotation = bmm(product, eye, groups)
    del eye, permutation
    batch = x.shape[: len(x.shape) - len(part.inner)]
    return bmm(x, rotation, ((), batch, part.inner, part.inner)), rotation, diagonal, product


def _orthogonal(blocks: Parameter) -> Tensor:
    """Return the Cayley transform of each block, in fp32 (`cayley_batch`)."""
    shape = blocks.shape[1:]
    data = reshape(blocks, shape)
    skew = scale(sub(data, permute(data, 0, 2, 1)))
    system = add_scalar(skew)
    return solve(system, scale(skew, "neg"))


def _block_diagonal(blocks: Tensor, width: Shape) -> Tensor:
    """`torch.block_diag(*torch.unbind(blocks))`."""
    tape, shape, dtype = blocks.tape, blocks.shape, blocks.dtype
    out = new(tape, (*width, *width), dtype, "block_diagonal")
    attach([out], [blocks], [], lambda g, s: [new(tape, shape, dtype, "stack")])
    return out


def _only(x: Tensor) -> Tensor:
    """Return the only element of a leading axis; its gradient is put into zeros."""
    tape, shape = x.tape, x.shape
    out = view(x, shape)
    attach([out], [x], [], lambda g, s: [new(tape, shape, only(g).dtype, "slice_backward")])
    return out


def scaled_rows(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """BOFT's factor for each row of the result, without its bias."""
    dtype, tape, bias = result[0].dtype, x.tape, weights.get(f"{part.name}.bias")
    rows = weights[part.adapter_name("boft_s")]
    ones = new(tape, rows.shape, dtype, "ones")
    factor = reshape(mul(rows, ones), part.outer)
    if bias is None:
        return to(mul(result.pop(), factor), dtype)
    return to(add(mul(sub(result.pop(), bias), factor), bias), dtype)


def _side(elements: int) -> int:
    """Return the side of a matrix whose upper triangle has `elements` elements."""
    return next(side for side in range(1, elements + 2) if side * (side - 1) // 2 == elements)


def _cayley(weight: Parameter, blocks: int, size: int) -> Tensor:
    """Return the Cayley transform as a Neumann series of five terms (`_cayley_batch`)."""
    tape, dtype = weight.tape, weight.dtype
    q_skew = _skew_symmetric(weight, blocks, size)
    eye = new(tape, (size, size), dtype, "eye")
    rotation = new(tape, (blocks, size, size), dtype, "repeat")
    del eye
    rotation = _plus(rotation, q_skew, scaled=True)
    groups = ((blocks,), (size,), (size,), (size,))
    q_squared = bmm(q_skew, q_skew, groups)
    rotation = _plus(rotation, q_squared, scaled=True)
    q_power = bmm(q_squared, q_skew, groups)
    rotation = _plus(rotation, q_power, scaled=True)
    q_power = bmm(q_power, q_skew, groups)
    return _plus(rotation, q_power, scaled=False)


def _skew_symmetric(weight: Parameter, blocks: int, size: int) -> Tensor:
    """Return the triangle put into zeros, less its transpose."""
    tape, shape = weight.tape, weight.shape
    zeros = new(tape, (blocks, size, size), weight.dtype, "zeros")
    matrix = view(zeros, zeros.shape)
    del zeros
    indices = save(tape, *(Tensor(tape, None, shape[1:], "int64") for _ in range(2)))
    attach([matrix], [weight], indices, lambda g, s: [new(tape, shape, only(g).dtype, "index")])
    return sub(matrix, permute(matrix, 0, 2, 1))


def _plus(x: Tensor, y: Tensor, *, scaled: bool) -> Tensor:
    """`x.add_(y, alpha)`."""
    out = view(x, x.shape)
    if tracked(x, y):
        attach([out], [x, y], [], lambda g, s: [g[0], like(only(g), "mul_backward") if scaled else g[0]])
    return out
