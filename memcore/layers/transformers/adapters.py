"""Adapters next to linear layers, as PEFT computes them (peft/tuners/*/layer.py, `forward`).

Each adds to the result of the layer, in the dtype of its own parameters, and casts the sum back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.computed import SCALED_LAST, by_dense, fourierft, randlora, road
from memcore.layers.transformers.further import c3a, delora, gralora, hira, pvera
from memcore.layers.transformers.orthogonal import rotated, scaled_rows, turned
from memcore.networks.weights import Linear
from memcore.symbols import Shape
from memcore.tensors.arithmetic import add_in_place
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, like, new, only, to, view
from memcore.tensors.operations import add, dropout, linear, matmul, mul, scale
from memcore.tensors.quantized import restored
from memcore.tensors.tensor import Parameter, Tensor

Weights = Mapping[str, Parameter]
Result = list[Tensor]
"""The layer's result, which goes as soon as it is taken."""
Adapt = Callable[[Tensor, Result, Weights, Linear], Tensor]
"""An input, the layer's result, all weights and the layer, to the result with the adapter."""
Prepare = Callable[[Tensor, Weights, Linear], tuple[Tensor, ...]]
"""An input, all weights and the layer, to what goes in, and what the module holds until it ends."""


def _scaled_input(x: Tensor, weights: Weights, part: Linear) -> tuple[Tensor, ...]:
    """IA3 before a feed-forward layer's last matrix: the input scaled in the dtype of the vector."""
    vector = weights[part.adapter_name("ia3_l")]
    factor = scale(vector)
    return (to(mul(to(x, vector.dtype), factor), x.dtype),)


def returned(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Return the result as it is, where an adapter has changed the input."""
    return result.pop()


def _ia3(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    dtype = result[0].dtype
    return to(mul(result.pop(), scale(weights[part.adapter_name("ia3_l")])), dtype)


def _vera(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Slices of two frozen matrices that all layers share, with a trained vector after each."""
    lambda_b, lambda_d = (weights[part.adapter_name(f"vera_lambda_{each}")] for each in "bd")
    frozen, dtype = lambda_d.dtype, result[0].dtype
    first = Parameter(x.tape, "vera_A", lambda_d.outer, part.inner, frozen, trainable=False)
    second = Parameter(x.tape, "vera_B", part.outer, lambda_d.outer, frozen, trainable=False)
    x = dropout(to(x, frozen), part.adapter_dropout)
    return to(add(result.pop(), mul(lambda_b, linear(mul(lambda_d, linear(x, first)), second))), dtype)


def _adalora(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Three factors; the sum is added in place."""
    down, middle, up = (weights[part.adapter_name(f"lora_{each}")] for each in "AEB")
    x = dropout(to(x, down.dtype), part.adapter_dropout)
    added = scale(scale(linear(linear(x, mul(down, middle)), up)), "div")
    return add_in_place(result.pop(), added)


def _dora(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Magnitudes and directions: each forward pass makes the whole weight for its norms, which get no gradient.

    Next to a quantized layer (peft/tuners/lora/bnb.py) four bits clone the result, and autocast casts instead of PEFT.
    """
    down, up, magnitude = (weights[part.adapter_name(each)] for each in ("lora_A", "lora_B", "lora_magnitude_vector"))
    base, tape = weights[f"{part.name}.weight"], x.tape
    how = base.quantization
    if how is not None and how.bits == 4:
        result.append(clone(result.pop()))
    before, converts = result[0], how is None or tape.autocast is None
    drops = bool(part.adapter_dropout) and not tape.evaluating
    given = to(x, down.dtype) if converts else x  # the module's variable, until it returns
    x = dropout(given, part.adapter_dropout)
    eye = new(tape, (*part.inner, *part.inner), down.dtype, "eye")
    lora_weight = linear(linear(eye, down), up)
    del eye
    lora_weight = to(lora_weight, x.dtype)
    weight = restored(base, x.dtype) if how is not None else None
    if how is None and base.dtype != x.dtype:
        weight = new(tape, base.shape, x.dtype, "to")
    with tape.no_grad():
        factor = scale(lora_weight)
        total = like(factor, "add")
        del factor
        norms = new(tape, part.outer, x.dtype, "norm")
        del total
    mag_norm_scale = _over(magnitude, norms)
    lora_result = linear(linear(x, down), up)
    base_result = _product(x, base, weight, part) if drops else before
    added = add(mul(_less_one(mag_norm_scale), base_result), scale(mul(mag_norm_scale, lora_result)))
    dtype = before.dtype
    del before, base_result
    del weight, lora_weight, norms
    out = add(result.pop(), added)
    out = to(out, dtype) if converts else out
    del given
    return out


def _product(x: Tensor, base: Parameter, made: Tensor | None, part: Linear) -> Tensor:
    """Return what the frozen matrix makes of a dropped-out input; one that was made for it is kept for the gradient."""
    if made is None:
        return linear(x, base)
    tape, before = x.tape, x
    x = to(x, tape.autocast or x.dtype)
    weight = to(made, x.dtype)
    saved = save(tape, weight) if tracked(x) else []
    batch = len(x.shape) - len(part.inner)
    out = new(tape, (*x.shape[:batch], *part.outer), x.dtype, "linear")
    shape, dtype = before.shape, x.dtype
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [new(tape, shape, dtype, "input_gradient")])
    return out


def _over(magnitude: Parameter, norms: Tensor) -> Tensor:
    """Magnitudes by norms that get no gradient, and are kept."""
    saved = save(magnitude.tape, norms)
    out = like(magnitude, "div")
    attach([out], [magnitude], saved, lambda g, s: [like(only(g), "div_backward")])
    return out


def _less_one(x: Tensor) -> Tensor:
    out = like(x, "sub")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def _added(delta: Callable[[Tensor, Weights, Linear], Tensor]) -> Adapt:
    """Return an adapter whose product with a computed matrix is added to the result."""

    def adapt(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
        dtype = result[0].dtype
        return to(add(result.pop(), delta(x, weights, part)), dtype)

    return adapt


def _loha(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Return the elements' product of two products (`HadaWeight`) as a dense matrix, which is kept."""
    factors = [weights[part.adapter_name(f"hada_w{each}")] for each in ("1_a", "1_b", "2_a", "2_b")]
    tape, dtype = x.tape, factors[0].dtype
    shape = (*part.outer, *part.inner)
    saved = save(tape, *factors)
    first, second = (new(tape, shape, dtype, "matmul") for _ in range(2))
    product = new(tape, shape, dtype, "mul")
    del first, second
    diff = Parameter(tape, "diff_weight", part.outer, part.inner, dtype, trainable=False)
    diff.storage = new(tape, shape, dtype, "mul").storage
    del product

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        scaled = like(only(gradients), "mul_backward")
        found: list[Gradient] = []
        for _ in range(2):
            other = new(tape, shape, dtype, "matmul")
            temp = like(scaled, "mul_backward")
            del other
            pair = [new(tape, each.shape, dtype, "weight_gradient") for each in factors[len(found) : len(found) + 2]]
            found += pair
            del temp
        return found

    dense = view(diff, (*part.outer, *part.inner))
    attach([dense], factors, saved, apply)
    return by_dense(to(x, dtype), dense, part)


def _miss(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Sums over groups of elements times one matrix."""
    block = weights[part.adapter_name("miss_block")]
    tape = x.tape
    x = dropout(to(x, block.dtype), part.adapter_dropout)
    before, batch = x.shape, len(x.shape) - len(part.inner)
    summed = new(tape, (*before[:batch], *block.inner), x.dtype, "sum")
    if tracked(x):
        attach([summed], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "sum_backward")])
    dtype = result[0].dtype
    return to(add(result.pop(), linear(summed, block)), dtype)


def _lokr(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Return a Kronecker product (`get_delta_weight`), scaled, as a dense matrix, which is kept."""
    first = weights[part.adapter_name("lokr_w1")]
    second: Tensor | None = weights.get(part.adapter_name("lokr_w2"))
    if second is None:
        second = matmul(*(weights[part.adapter_name(f"lokr_w2_{each}")] for each in "ab"))
    weight = scale(_kron(first, second, (*part.outer, *part.inner)))
    return by_dense(to(x, weight.dtype), weight, part)


def _kron(x: Tensor, y: Tensor, shape: Shape) -> Tensor:
    """`torch.kron`: the elements' product of both, broadcast to four axes, and a view of it."""
    tape, dtype = x.tape, x.dtype
    saved = save(tape, x, y)
    out = new(tape, shape, dtype, "mul")
    attach([out], [x, y], saved, lambda g, s: [like(only(g), "mul_backward") for _ in s])
    return out


def _tinylora(x: Tensor, result: Result, weights: Weights, part: Linear) -> Tensor:
    """Return a small matrix, made of frozen projections, between frozen singular vectors."""
    tape, vector, dtype = x.tape, weights[part.adapter_name("tinylora_v")], result[0].dtype
    rank: Shape = ("ra",)
    kept = part.adapter_dtype or "fp32"
    first = Parameter(tape, "tinylora_A", rank, part.inner, kept, trainable=False)
    second = Parameter(tape, "tinylora_B", part.outer, rank, kept, trainable=False)
    matrix = _projected(vector)
    x = to(dropout(x, part.adapter_dropout), kept)
    delta = linear(linear(linear(x, first), matrix), second)
    out = to(add(result.pop(), delta), dtype)
    del matrix, delta
    return out


def _projected(vector: Parameter) -> Tensor:
    """Return the sum of projections, each times an element of the vector (`_compute_R`)."""
    tape, shape = vector.tape, vector.shape
    saved = save(tape, Tensor(tape, None, (*shape, "ra", "ra"), vector.dtype))
    out = new(tape, ("ra", "ra"), vector.dtype, "bmm")
    attach([out], [vector], saved, lambda g, s: [new(tape, shape, only(g).dtype, "bmm_backward")])
    return out


ADAPTERS: Mapping[str, Adapt] = {
    "ia3": _ia3,
    "vera": _vera,
    "adalora": _adalora,
    "dora": _dora,
    "loha": _added(_loha),
    "miss": _miss,
    "lokr": _added(_lokr),
    "tinylora": _tinylora,
    "fourierft": fourierft,
    "randlora": randlora,
    SCALED_LAST: randlora,
    "road": road,
    "c3a": c3a,
    "delora": delora,
    "gralora": gralora,
    "hira": hira,
    "pvera": pvera,
    "ia3-input": returned,
    "oft": returned,
    "boft": scaled_rows,
}
"""By `Linear.adapter_kind`; low-rank matrices alone are in `context`."""
PREPARES: Mapping[str, Prepare] = {"ia3-input": _scaled_input, "oft": rotated, "boft": turned}
"""By `Linear.adapter_kind`: what changes the input instead."""
