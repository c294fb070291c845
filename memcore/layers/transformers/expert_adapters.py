"""LoRA next to the stacked matrices of experts, as PEFT computes it (peft/tuners/lora/layer.py, `ParamWrapper`).

The product of both factors is added to a copy of the matrices of all experts in every forward pass, which the grouped
product keeps for the backward pass. Registering the parametrization calls it once before. Matrices that are quantized
when they are loaded have another parametrization, which makes them whole each time (axolotl, monkeypatch/moe_quant.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memcore.networks.parts import Experts
from memcore.networks.weights import Linear, Weight
from memcore.symbols import Shape
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import in_order, permute, to, view
from memcore.tensors.contractions import baddbmm
from memcore.tensors.operations import add, matmul, scale
from memcore.tensors.quantized import whole
from memcore.tensors.tensor import Parameter, Tensor


class Folded:
    """Factors in the matrices' dtype, and what they are added to."""

    def __init__(self, matrices: Parameter, factors: tuple[Parameter, Parameter], *, transposed: bool) -> None:
        first, second = (_reshaped(each) for each in factors)
        many = len(matrices.outer)
        ranks = factors[0].outer[many:]
        rank = len(ranks)
        wide = len(second.shape) - many - rank
        narrow = len(first.shape) - many - rank
        # (out, rank, experts) to (experts, out, rank); the first is (experts, rank, in).
        second = permute(second, *range(wide + rank, wide + rank + many), *range(wide + rank))
        groups = [first.shape[:many], second.shape[many:-rank], ranks, first.shape[many + rank :]]
        left, right = second, first
        if transposed:
            places = range(many + rank, many + rank + narrow)
            left = permute(first, *range(many), *places, *range(many, many + rank))
            right = permute(second, *range(many), *range(many + wide, many + wide + rank), *range(many, many + wide))
            groups[1], groups[3] = groups[3], groups[1]
        self._matrices = matrices
        how = matrices.quantization
        self._dtype = matrices.dtype if how is None else how.stored
        self._left, self._right = (to(each, self._dtype) for each in (left, right))
        self._groups: Sequence[Shape] = groups

    def __call__(self) -> Tensor:
        """Return the matrices with what the adapter adds; autocast is off."""
        with self._matrices.tape.autocasting(None):
            matrices = whole(self._matrices, self._dtype)
            return baddbmm(matrices, self._left, self._right, self._groups, scaled=True)


def folding(weights: Mapping[str, Parameter], part: Experts) -> Callable[[Weight], Tensor]:
    """Return the matrices of experts as a product takes them; what is made of them is kept until all are done."""
    made: dict[str, Folded] = {}
    held: list[Tensor] = []
    adapted = {each.name.rpartition(".lora_")[0] for each in part.adapters}
    for name in reversed([each for each in part.stacked if each in adapted]):
        first, second = (weights[f"{name}.lora_{matrix}.default.weight"] for matrix in "AB")
        made[name] = Folded(weights[name], (first, second), transposed=part.transposes)
        made[name]()

    def folded(weight: Weight) -> Tensor:
        if weight.name not in made:
            return weights[weight.name]
        held.append(made[weight.name]())
        return held[-1]

    return folded


def with_router(weights: Mapping[str, Tensor], part: Linear) -> Mapping[str, Tensor]:
    """Return the weights where the router's is what its adapter makes of it (`Linear.get_delta_weight`).

    The sum is made once where the parametrization is registered, and once for the forward pass, which keeps it.
    """
    if part.module != "own" or part.adapter_dtype is None:
        return weights
    name = f"{part.name}.weight"
    down, up = (weights[part.adapter_name(each)] for each in ("lora_A", "lora_B"))
    delta = to(scale(matmul(up, down)), weights[name].dtype)
    add(weights[name], delta)
    return {**weights, name: add(weights[name], delta)}


def _reshaped(factor: Parameter) -> Tensor:
    """Return a view of it, whose gradient is copied where it does not lie in order."""
    out = view(factor, factor.shape)
    if tracked(factor):
        attach([out], [factor], [], lambda g, s: [in_order(g)])
    return out
