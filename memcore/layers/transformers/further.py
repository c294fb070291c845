"""C3A, DeLoRA, GraLoRA, HiRA and PVeRA next to linear layers (PEFT 0.21: peft/tuners/*/layer.py, c3a/utils.py).

Local variables live as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers.transformers.computed import by_dense, product
from memcore.networks.weights import Linear
from memcore.symbols import Shape
from memcore.tensors.arithmetic import add_in_place, divide
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, like, new, to, view
from memcore.tensors.operations import add, dropout, linear, matmul, mul, scale
from memcore.tensors.reshaping import pieces
from memcore.tensors.running import clamp, exp
from memcore.tensors.tensor import Parameter, Tape, Tensor

Weights = Mapping[str, Parameter]


def c3a(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """Circulant blocks in fp32, multiplied by after a Fourier transform; the sum is added in place."""
    dtype, kernel = result[0].dtype, weights[part.adapter_name("c3a_kernel")]
    x = scale(_convolved(to(x, "fp32"), kernel, part), "div")
    return add_in_place(result.pop(), to(x, dtype))


def _convolved(x: Tensor, kernel: Parameter, part: Linear) -> Tensor:
    """`BlockCircularConvolution`: keeps the input; a complex number has two of fp32."""
    tape, batch = x.tape, x.shape[: len(x.shape) - len(part.inner)]
    inner, outer = (*batch, *part.inner), (*batch, *part.outer)
    needs = tracked(x)
    saved = save(tape, x, kernel) if tracked(kernel) else []
    transformed, of_kernel = _fft(tape, inner), _fft(tape, kernel.shape)
    multiplied = _multiplied(tape, (inner, kernel.shape), outer)
    del transformed, of_kernel
    out = view(_fft(tape, outer, from_real=False), outer)
    del multiplied

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        of_gradient = _fft(tape, outer)
        of_kernel = _fft(tape, kernel.shape)
        multiplied = _multiplied(tape, (outer, kernel.shape), inner)
        del of_kernel
        for_input = view(_fft(tape, inner, from_real=False), inner)
        del multiplied
        of_input = _fft(tape, inner)
        multiplied = _multiplied(tape, (outer, inner), kernel.shape)
        del of_input
        strided = _fft(tape, kernel.shape, from_real=False)
        del multiplied, of_gradient
        for_kernel = new(tape, kernel.shape, "fp32", "clone")  # AccumulateGrad keeps what is contiguous
        del strided
        return [for_input if needs else None, for_kernel]

    if saved:
        attach([out], [x, kernel], saved, apply)
    return out


def _fft(tape: Tape, shape: Shape, *, from_real: bool = True) -> Tensor:
    """`torch.fft`'s results, over a complex copy of what is real."""
    given = new(tape, (2, *shape), "fp32", "to") if from_real else None
    out = new(tape, (2, *shape), "fp32", "fft")
    del given
    return out


def _multiplied(tape: Tape, factors: tuple[Shape, Shape], shape: Shape) -> Tensor:
    """`torch.einsum` over blocks: a batch of products for each frequency, whose factors are copied into its order."""
    copies = [new(tape, (2, *each), "fp32", "clone") for each in factors]
    out = new(tape, (2, *shape), "fp32", "bmm")
    del copies
    return out


def delora(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """Low-rank matrices of bounded length, next to the columns' norms: the scaled input is kept for the first."""
    tape, dtype = x.tape, result[0].dtype
    down, up, bound = (weights[part.adapter_name(f"delora_{each}")] for each in ("A", "B", "lambda"))
    add_out = like(result[0], "zeros")
    norms = Parameter(tape, "delora_w_norm", (), part.inner, part.adapter_dtype or "fp32", trainable=False)
    h = linear(mul(dropout(x, part.adapter_dropout), norms), down)
    lengths = [clamp(_length(each, down.outer), bounds=1) for each in (down, up)]
    scaling = divide(scale(bound, "div"), mul(*lengths))
    h = mul(h, scaling)
    h = linear(h, up)
    added = add_in_place(add_out, h)
    out = add(result.pop(), to(added, dtype))
    del h, scaling, lengths
    return out


def _length(matrix: Parameter, rank: Shape) -> Tensor:
    """`norm` over one axis: keeps both; the gradient takes a temporary of the matrix's size."""
    tape = matrix.tape
    out = new(tape, rank, matrix.dtype, "norm")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        scaled = like(saved[0], "norm_backward")
        found = like(saved[0], "norm_backward")
        del scaled
        return [found]

    if tracked(matrix):
        attach([out], [matrix], save(tape, matrix, out), apply)
    return out


def gralora(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """Low-rank matrices for each block of the input, whose parts go to every block of the output."""
    dtype, batch = result[0].dtype, x.shape[: len(x.shape) - len(part.inner)]
    down, up = (weights[part.adapter_name(f"gralora_{each}")] for each in "AB")
    (many, _, rank) = down.shape
    x = dropout(to(x, down.dtype), part.adapter_dropout)
    parts = clone(_of_blocks(x, down, (*batch, many, rank)))
    output = clone(_of_blocks(parts, up, (*batch, *part.outer)))
    added = scale(to(output, dtype))
    out = add_in_place(result.pop(), added)
    del added, output
    return out


def _of_blocks(x: Tensor, weight: Parameter, shape: Shape) -> Tensor:
    """`torch.einsum`: a product for each block; keeps both."""
    tape, needs = x.tape, tracked(x)
    saved = save(tape, x, weight if needs else None) if tracked(weight) else []
    out = new(tape, shape, x.dtype, "bmm")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_weight = new(tape, weight.shape, weight.dtype, "bmm_backward")
        return [like(saved[0], "bmm_backward") if needs else None, for_weight]

    if saved:
        attach([out], [x, weight], saved, apply)
    return out


def hira(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """Return the frozen matrix times a low-rank one, element by element, as a dense matrix, which is kept."""
    dtype = result[0].dtype
    down, up = (weights[part.adapter_name(f"hira_{each}")] for each in "AB")
    prod = matmul(up, down)
    x = dropout(to(x, down.dtype), part.adapter_dropout)
    added = by_dense(x, mul(weights[f"{part.name}.weight"], prod), part)
    out = to(add(result.pop(), added), dtype)
    del prod, added
    return out


def pvera(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """A mean and a variance of each token between frozen matrices that all layers share, of which a sample is taken."""
    dtype = result[0].dtype
    lambda_b, lambda_d = (weights[part.adapter_name(f"pvera_lambda_{each}")] for each in "bd")
    frozen, (both,) = lambda_d.dtype, lambda_d.shape
    x = to(x, frozen)
    first = Tensor(x.tape, None, (both, *part.inner), frozen)
    scaled = mul(lambda_d, product(dropout(x, part.adapter_dropout), first, (both,), len(part.inner)))
    mu, logvar = pieces(scaled, len(scaled.shape) - 1, (("ra",), ("ra",)))
    del scaled
    second = Tensor(x.tape, None, (*part.outer, "ra"), frozen)
    added = mul(lambda_b, product(_sampled(mu, logvar), second, part.outer, 1))
    return to(add(result.pop(), added), dtype)


def _sampled(mu: Tensor, logvar: Tensor) -> Tensor:
    """`_reparametrize`: noise times a deviation, which both are kept, and a mean."""
    if mu.tape.evaluating:
        return mu
    std = exp(scale(logvar))
    return add(mu, mul(like(std, "random"), std))
