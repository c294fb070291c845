"""Further elementwise operations: what each allocates, what it saves, and what its backward formula allocates.

Sources as in `operations.py`. An operation in place gives a new tensor over the same memory.
"""

from __future__ import annotations

from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import elementwise, like, new, only, to, view
from memcore.tensors.running import clamp_backward
from memcore.tensors.tensor import Tensor


def clamp_(x: Tensor) -> Tensor:
    """Clamp in place; what was there before is copied for the backward pass."""
    needs = tracked(x)
    saved = save(x.tape, like(x, "clone")) if needs else []
    out = view(x, x.shape, x.order, x.cut)
    if needs:
        attach([out], [x], saved, lambda g, s: [clamp_backward(only(g), s[0])])
    return out


def scale_(x: Tensor, rule: str = "mul") -> Tensor:
    """Multiply by a number, or divide by it, in place."""
    out = view(x, x.shape, x.order, x.cut)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), f"{rule}_backward")])
    return out


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x or y, in memory like the condition, which it saves. A gradient is chosen against a zero."""
    needs = [tracked(x), tracked(y)]
    saved = save(x.tape, condition) if any(needs) else []
    out = elementwise("where", condition, x, y)
    if any(needs):
        attach([out], [x, y], saved, lambda g, s: [_chosen(s[0], only(g)) if each else None for each in needs])
    return out


def _chosen(condition: Tensor, gradient: Tensor) -> Tensor:
    zero = new(gradient.tape, (), gradient.dtype, "zeros")
    result = elementwise("where_backward", condition, gradient)
    del zero  # derivatives.yaml, where: `where(condition, grad, 0)`, whose 0 is a tensor
    return result


def expm1(x: Tensor) -> Tensor:
    """e^x - 1; saves its result. Autocast runs it in fp32."""
    converted = to(x, "fp32") if x.tape.autocast else x
    out = like(converted, "expm1")
    if tracked(x):
        attach([out], [converted], save(x.tape, out), lambda g, s: [_through_exponential(only(g), s[0])])
    return out


def _through_exponential(gradient: Tensor, result: Tensor) -> Tensor:
    raised = like(result, "expm1_backward")
    found = like(gradient, "expm1_backward")
    del raised  # derivatives.yaml, expm1: `grad * (result + 1)`
    return found


def minimum(x: Tensor) -> Tensor:
    """Return the smaller of x and a constant, both of which it saves."""
    needs = tracked(x)
    saved = save(x.tape, x) if needs else []
    out = like(x, "minimum")
    if needs:
        attach([out], [x], saved, lambda g, s: [_smaller(only(g), s[0])])
    return out


def _smaller(gradient: Tensor, x: Tensor) -> Tensor:
    """Half of the gradient where both are equal, none where x is greater."""
    halved = like(gradient, "minimum_backward")
    equal = like(x, "minimum_backward", "bool")
    result = like(gradient, "minimum_backward")
    greater = like(x, "minimum_backward", "bool")
    del greater, equal, halved
    return result
