"""Adapters beside linear layers, as PEFT computes them (peft/tuners/*/layer.py, `forward`).

Each adds to the result of the layer, in the dtype of its own parameters, and casts the sum back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.eager.autograd import Gradient, attach, save, tracked
from memcore.eager.basics import like, new, only, to, view
from memcore.eager.operations import add, dropout, linear, mul, scale
from memcore.eager.tensor import Parameter, Tensor
from memcore.model.weights import Linear

Weights = Mapping[str, Parameter]
Adapt = Callable[[Tensor, Tensor, Weights, Linear], Tensor]
"""An input, the layer's result, all weights and the layer, to the result with the adapter."""


def scaled_input(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """IA3 before a feed-forward layer's last matrix: the input scaled in the dtype of the vector."""
    vector = weights[part.adapter_name("ia3_l")]
    return to(mul(to(x, vector.dtype), scale(vector)), x.dtype)


def _ia3(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    return to(mul(result, scale(weights[part.adapter_name("ia3_l")])), result.dtype)


def _vera(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Slices of two frozen matrices that all layers share, with a trained vector after each."""
    lambda_b, lambda_d = (weights[part.adapter_name(f"vera_lambda_{each}")] for each in "bd")
    frozen = lambda_d.dtype
    first = Parameter(x.tape, "vera_A", lambda_d.outer, part.inner, frozen, trainable=False)
    second = Parameter(x.tape, "vera_B", part.outer, lambda_d.outer, frozen, trainable=False)
    x = dropout(to(x, frozen), part.adapter_dropout)
    added = mul(lambda_b, linear(mul(lambda_d, linear(x, first)), second))
    return to(add(result, added), result.dtype)


def _adalora(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Three factors; the sum is added in place."""
    down, middle, up = (weights[part.adapter_name(f"lora_{each}")] for each in "AEB")
    x = dropout(to(x, down.dtype), part.adapter_dropout)
    added = scale(scale(linear(linear(x, mul(down, middle)), up)), "div")
    out = view(result, result.shape, result.order)
    if tracked(result, added):
        attach([out], [result, added], [], lambda g, s: [g[0], g[0]])
    return out


def _dora(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Magnitudes and directions: each forward pass makes the whole weight for its norms, which get no gradient."""
    down, up, magnitude = (weights[part.adapter_name(each)] for each in ("lora_A", "lora_B", "lora_magnitude_vector"))
    base, tape = weights[f"{part.name}.weight"], x.tape
    drops = bool(part.adapter_dropout) and not tape.evaluating
    x = dropout(to(x, down.dtype), part.adapter_dropout)
    eye = new(tape, (*part.inner, *part.inner), down.dtype, "eye")
    lora_weight = linear(linear(eye, down), up)
    del eye
    weight = None if base.dtype == x.dtype else new(tape, base.shape, x.dtype, "to")
    with tape.no_grad():
        factor = scale(lora_weight)
        total = like(factor, "add")
        del factor
        norms = new(tape, part.outer, x.dtype, "norm")
        del total
    mag_norm_scale = scale(magnitude, "div")
    lora_result = linear(linear(x, down), up)
    base_result = new(tape, result.shape, x.dtype, "linear") if drops else result
    added = add(mul(_less_one(mag_norm_scale), base_result), scale(mul(mag_norm_scale, lora_result)))
    out = to(add(result, added), result.dtype)
    del weight, lora_weight, norms
    return out


def _less_one(x: Tensor) -> Tensor:
    out = like(x, "sub")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def _loha(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """The elements' product of two products (`HadaWeight`) as a dense matrix, which is kept."""
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
    return to(add(result, _by_dense(to(x, dtype), dense, part)), result.dtype)


def _by_dense(x: Tensor, weight: Tensor, part: Linear) -> Tensor:
    """`F.linear` by a computed matrix: keeps both."""
    tape, dtype, batch = x.tape, x.dtype, len(x.shape) - len(part.inner)
    needs, shape, whole = tracked(x), x.shape, weight.shape
    saved = save(tape, x, weight if needs else None)
    out = new(tape, (*shape[:batch], *part.outer), dtype, "linear")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_weight = new(tape, whole, dtype, "weight_gradient")
        return [new(tape, shape, dtype, "input_gradient") if needs else None, for_weight]

    attach([out], [x, weight], saved, apply)
    return out


def _miss(x: Tensor, result: Tensor, weights: Weights, part: Linear) -> Tensor:
    """Sums over groups of elements times one matrix."""
    block = weights[part.adapter_name("miss_block")]
    tape = x.tape
    x = dropout(to(x, block.dtype), part.adapter_dropout)
    before, batch = x.shape, len(x.shape) - len(part.inner)
    summed = new(tape, (*before[:batch], *block.inner), x.dtype, "sum")
    if tracked(x):
        attach([summed], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "sum_backward")])
    return to(add(result, linear(summed, block)), result.dtype)


ADAPTERS: Mapping[str, Adapt] = {
    "ia3": _ia3,
    "vera": _vera,
    "adalora": _adalora,
    "dora": _dora,
    "loha": _loha,
    "miss": _miss,
}
"""By `Linear.adapter_kind`; low-rank matrices alone are in `context`."""
