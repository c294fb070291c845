"""Norms and elementwise functions that Megatron-Core fuses, or spells out where fusions are off.

Sources: Megatron-LM, core/fusions/{fused_bias_dropout,fused_bias_gelu,fused_bias_swiglu}.py and
core/transformer/mlp.py; TransformerEngine, transformer_engine/pytorch/ops/basic/{layer_norm,rmsnorm}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from memcore.networks.weights import Norm
from memcore.symbols import Axis
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only, view
from memcore.tensors.operations import ACTIVATIONS, add, mul
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.linear import clear

Backward: TypeAlias = Callable[[list[Gradient], list[Tensor], list[Parameter]], list[Gradient]]
"""A norm's gradients from those of its result, what it kept, and its parameters."""


def _norm_backward(gradients: list[Gradient], saved: list[Tensor], affine: list[Parameter]) -> list[Gradient]:
    """TransformerEngine's, which lets the input go."""
    gradient = contiguous(only(gradients))
    found: list[Gradient] = [like(saved[0], "layer_norm_backward")]
    found += [new(gradient.tape, each.shape, gradient.dtype, "layer_norm_backward") for each in affine]
    clear(saved[0])
    return found


def norm(x: Tensor, part: Norm, weights: Mapping[str, Parameter], backward: Backward = _norm_backward) -> Tensor:
    """Return a norm that is a module of its own: keeps its input, in order, and statistics."""
    tape = x.tape
    affine = [weights[each.name] for each in part.weights()]
    x = contiguous(x)
    needs = tracked(x, *affine)
    saved = save(tape, x) if needs else []
    out = like(x, "layer_norm")
    statistics = [new(tape, x.shape[:-1], "fp32", "norm_statistics") for _ in range(1 + (part.kind == "layer"))]
    if needs:
        saved += save(tape, *statistics)
        attach([out], [x, *affine], saved, lambda gradients, saved: backward(gradients, saved, affine))
    return out


def bias_dropout_add(x: Tensor, bias: Parameter | None, residual: Tensor, probability: float) -> Tensor:
    """`bias_dropout_add_fused_train`, compiled: one result, and a mask of one byte for each element."""
    tape = x.tape
    inputs = [x, residual, *([] if bias is None else [bias])]
    needs = tracked(*inputs)
    out = like(residual, "bias_dropout_add")
    mask = like(x, "dropout_mask", "bool") if probability else None
    if needs:

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = only(gradients)
            through = like(gradient, "dropout_backward") if saved else gradient
            found: list[Gradient] = [through, gradient]
            if bias is not None:
                found.append(new(tape, bias.shape, gradient.dtype, "weight_gradient"))
            return found

        attach([out], inputs, save(tape, mask), apply)
    return out


def bias_gelu(x: Tensor, bias: Parameter) -> Tensor:
    """`bias_gelu_impl`: keeps its input; the backward pass is one kernel."""
    out = like(x, "fused_activation")
    if tracked(x, bias):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = like(saved[0], "fused_activation_backward")
            return [gradient, gradient]

        attach([out], [x, bias], save(x.tape, x), apply)
    return out


def swiglu(x: Tensor, bias: Parameter | None, width: Axis) -> Tensor:
    """`bias_swiglu_impl`: keeps gate and up projection, (…, 2, width)."""
    rows = x.shape[:-2]
    out = new(x.tape, (*rows, width), x.dtype, "fused_activation")
    inputs = [x, *([] if bias is None else [bias])]
    if tracked(*inputs):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = like(saved[0], "fused_activation_backward")
            return [gradient, *([] if bias is None else [gradient])]

        attach([out], inputs, save(x.tape, x), apply)
    return out


def spelled_out(x: Tensor, bias: Parameter | None, activation: str, *, gated: bool) -> Tensor:
    """Return the activation without fusion: each step is an operation of PyTorch."""
    if bias is not None:
        x = add(x, bias)
    act = COMPILED.get(activation, ACTIVATIONS[activation])
    if not gated:
        return act(x)
    gate, up = halves(x)
    return mul(act(gate), up)


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """`torch.chunk(x, 2, -1)`: views; the gradients are concatenated."""
    shape = (*x.shape[:-2], x.shape[-1])
    first, second = (view(x, shape, cut=len(shape) - 1) for _ in range(2))
    if tracked(x):
        full, dtype, tape = x.shape, x.dtype, x.tape
        attach([first, second], [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return first, second


def _squared_relu(x: Tensor) -> Tensor:
    """`squared_relu`, compiled: keeps its input."""
    out = like(x, "fused_activation")
    if tracked(x):
        attach([out], [x], save(x.tape, x), lambda g, s: [like(s[0], "fused_activation_backward")])
    return out


COMPILED: Mapping[str, Callable[[Tensor], Tensor]] = {"relu2": _squared_relu}
