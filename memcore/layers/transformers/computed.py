"""Adapters of PEFT that every forward pass computes a matrix or factors for: FourierFT, RandLoRA and RoAd.

Sources: peft/tuners/fourierft/layer.py (`get_delta_weight`), randlora/layer.py (`get_scaled_bases`, `UniqueBaseGrad`),
road/layer.py (`_prepare_cols`, `_apply_road`). Local variables live as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.weights import Linear
from memcore.symbols import Shape, half
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, to, view
from memcore.tensors.operations import add, dropout, mul, scale
from memcore.tensors.tensor import Parameter, Tensor

Weights = Mapping[str, Parameter]
SCALED_LAST = "randlora-output"
"""The kind of RandLoRA next to layers whose result is narrower than their input: its second matrix is scaled."""


def by_dense(x: Tensor, weight: Tensor, part: Linear) -> Tensor:
    """`F.linear` by a computed matrix: keeps both."""
    return product(x, weight, part.outer, len(part.inner))


def product(x: Tensor, weight: Tensor, outer: Shape, inner: int) -> Tensor:
    """`F.linear` by a computed matrix, or by a frozen one that is there, over the last `inner` axes."""
    tape, dtype, batch = x.tape, x.dtype, len(x.shape) - inner
    needs, learns, shape, whole = tracked(x), tracked(weight), x.shape, weight.shape
    saved = save(tape, x if learns else None, weight if needs else None)
    out = new(tape, (*shape[:batch], *outer), dtype, "linear")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_weight = new(tape, whole, dtype, "weight_gradient") if learns else None
        return [new(tape, shape, dtype, "input_gradient") if needs else None, for_weight]

    if needs or learns:
        attach([out], [x, weight], saved, apply)
    return out


def fourierft(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """FourierFT: the inverse transform of a few coefficients, a dense matrix that is kept."""
    dtype = x.dtype
    delta_w = _transformed(weights[part.adapter_name("fourierft_spectrum")], (*part.outer, *part.inner))
    x = to(x, delta_w.dtype)
    out = add(result.pop(), by_dense(x, delta_w, part))
    return to(out, dtype)


def _transformed(spectrum: Parameter, shape: Shape) -> Tensor:
    """`get_delta_weight`: coefficients are put into zeros by places that come from the host."""
    tape, count = spectrum.tape, spectrum.shape
    indices = new(tape, (2, *count), "int64", "to")
    zeros = new(tape, shape, "fp32", "zeros")
    dense = view(zeros, shape)
    attach([dense], [spectrum], save(tape, indices), lambda g, s: [new(tape, count, "fp32", "index")])
    del zeros, indices
    as_complex = new(tape, (2, *shape), "fp32", "to")
    transformed = new(tape, (2, *shape), "fp32", "fft")
    del as_complex

    whole = transformed.shape
    attach([transformed], [dense], [], lambda g, s: [view(new(tape, whole, "fp32", "fft"), shape)])
    real = view(transformed, shape)
    attach([real], [transformed], [], lambda g, s: [new(tape, whole, "fp32", "select_backward")])
    delta = scale(real)
    del transformed, real, dense
    return delta


def randlora(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """RandLoRA: two random matrices of full rank that all layers share, the smaller one scaled for each layer."""
    dtype, tape = x.dtype, x.tape
    factors = [weights[part.adapter_name(f"randlora_{each}")] for each in ("lambda", "gamma")]
    (rank, bases), (_, least) = (each.shape for each in factors)
    kept: Shape = (rank, bases)
    scaled = _scaled_bases(factors, (rank, bases, least))
    last = part.adapter_kind == SCALED_LAST
    frozen = Tensor(tape, None, (*kept, *part.inner) if last else (*part.outer, *kept), factors[0].dtype)
    x = dropout(to(x, frozen.dtype), part.adapter_dropout)
    first = product(x, frozen if last else scaled, kept, len(part.inner))
    second = product(first, scaled if last else frozen, part.outer, len(kept))
    del first
    added = scale(second)
    del second
    out = add(result.pop(), added)
    del added
    return to(out, dtype)


def _scaled_bases(factors: list[Parameter], shape: Shape) -> Tensor:
    """`UniqueBaseGrad`: keeps the factors; their gradients are sums over the products' other axes."""
    tape, dtype = factors[0].tape, factors[0].dtype
    saved = save(tape, *factors)
    first = new(tape, shape, dtype, "mul")
    out = new(tape, shape, dtype, "mul")
    del first

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found: list[Gradient] = []
        for each in saved:
            contracted = new(tape, shape, dtype, "mul")
            found.append(like(each, "einsum"))
            del contracted
        return found

    attach([out], factors, saved, apply)
    return out


def road(x: Tensor, result: list[Tensor], weights: Weights, part: Linear) -> Tensor:
    """RoAd: pairs of elements of the result, half a group apart, each turned and scaled."""
    dtype = result[0].dtype
    theta, alpha = (weights[part.adapter_name(f"road_{each}")] for each in ("theta", "alpha"))
    given = to(result.pop(), theta.dtype)
    angles, factors = (_twice(each, part.outer) for each in (theta, alpha))
    cosine, sine = _trigonometric(angles), _trigonometric(angles)
    first_col, second_col = mul(factors, cosine), mul(factors, sine)
    del angles, factors, cosine, sine
    turned = _rotated_half(given)
    out = add(mul(given, first_col), mul(turned, second_col))
    del turned, given, first_col, second_col
    return to(out, dtype)


def _twice(x: Parameter, outer: Shape) -> Tensor:
    """`repeat_interleave(2)`: a copy, whose gradient is summed."""
    tape, shape = x.tape, x.shape
    out = new(tape, outer, x.dtype, "repeat_interleave")
    attach([out], [x], [], lambda g, s: [new(tape, shape, only(g).dtype, "sum")])
    return out


def _trigonometric(x: Tensor) -> Tensor:
    """Return a cosine or a sine: keeps x."""
    out = like(x, "cos")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        other = like(saved[0], "sin")
        found = like(other, "mul_backward")
        del other
        return [found]

    attach([out], [x], save(x.tape, x), apply)
    return out


def _rotated_half(x: Tensor) -> Tensor:
    """`torch.stack((-x2, x1), dim=1)` of the halves of each group."""
    tape, shape = x.tape, x.shape
    last = half(shape[-1])
    negated = new(tape, (*shape[:-1], last), x.dtype, "neg")
    out = new(tape, shape, x.dtype, "stack")
    del negated
    if tracked(x):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = only(gradients).dtype
            negated = new(tape, (*shape[:-1], last), dtype, "neg_backward")
            first = new(tape, shape, dtype, "select_backward")
            del negated
            second = new(tape, shape, dtype, "select_backward")
            gradients.clear()
            found = new(tape, shape, dtype, "add")
            del first, second
            return [found]

        attach([out], [x], [], apply)
    return out
