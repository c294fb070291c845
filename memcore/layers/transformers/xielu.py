"""Apertus' activation function."""

from __future__ import annotations

from memcore.tensors.basics import like
from memcore.tensors.operations import add, add_scalar, mul, scale, sub
from memcore.tensors.pointwise import expm1, minimum, where
from memcore.tensors.running import softplus
from memcore.tensors.tensor import Tensor


def xielu(x: Tensor, alpha_p: Tensor, alpha_n: Tensor) -> Tensor:
    """`XIELUActivation._xielu_python` (transformers/activations.py): its kernel needs a package that few have."""
    alpha_p = softplus(alpha_p)
    alpha_n = add_scalar(softplus(alpha_n))
    return where(
        like(x, "greater", "bool"),
        add(mul(mul(alpha_p, x), x), scale(x)),
        add(mul(sub(expm1(minimum(x)), x), alpha_n), scale(x)),
    )
