"""Operations: what each allocates, what it saves for the backward pass, and what its backward formula allocates.

Saved tensors and formulas are those of PyTorch 2.13 (tools/autograd/derivatives.yaml, FunctionsManual.cpp); a result's
physical order follows its operands as in TensorIterator. The order of allocations inside an operation is PyTorch's
too, because a peak depends on it.
"""

from __future__ import annotations

from memcore.eager.autograd import Gradient, attach, save, tracked
from memcore.eager.basics import autocast, clone, elementwise, in_order, like, new, only, to
from memcore.eager.tensor import Parameter, Tensor

# Elementwise.


def add(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two tensors; saves nothing."""
    out = elementwise("add", x, y)
    if tracked(x, y):
        attach([out], [x, y], [], lambda g, s: [g[0], g[0]])
    return out


def add_scalar(x: Tensor) -> Tensor:
    """The sum with a number; saves nothing."""
    out = like(x, "add")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def mul(x: Tensor, y: Tensor) -> Tensor:
    """The product of elements; a factor is saved if the other one needs a gradient."""
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, x if y_needs else None, y if x_needs else None)
    out = elementwise("mul", x, y)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_y = elementwise("mul_backward", only(gradients), saved[0]) if y_needs else None
        for_x = elementwise("mul_backward", only(gradients), saved[-1]) if x_needs else None
        return [for_x, for_y]

    if x_needs or y_needs:
        attach([out], [x, y], saved, apply)
    return out


def scale(x: Tensor, rule: str = "mul") -> Tensor:
    """A multiple of x, x over a number, or -x: saves nothing."""
    out = like(x, rule)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), f"{rule}_backward")])
    return out


def power(x: Tensor) -> Tensor:
    """A power of x; saves x, and its gradient needs two temporaries of x's size. Autocast runs it in fp32."""
    x = to(x, "fp32") if x.tape.autocast else x
    return _unary("pow", x, saves_input=True, temporaries=2)


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x); saves its result, and its gradient needs two temporaries."""
    return _unary("rsqrt", x, saves_input=False, temporaries=2)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of x; saves its result."""
    return _unary("tanh", x, saves_input=False)


def relu(x: Tensor) -> Tensor:
    """max(x, 0); saves its result."""
    return _unary("relu", x, saves_input=False)


def silu(x: Tensor) -> Tensor:
    """SiLU; saves x. Fake tensors have no kernel for its gradient and spell it out in five temporaries."""
    return _unary("silu", x, saves_input=True, temporaries=5 if x.tape.fake else 0)


def gelu(x: Tensor) -> Tensor:
    """GELU in one kernel, exact or with tanh; saves x."""
    return _unary("gelu", x, saves_input=True)


def _unary(rule: str, x: Tensor, *, saves_input: bool, temporaries: int = 0) -> Tensor:
    needs = tracked(x)
    saved = save(x.tape, x) if needs and saves_input else []
    out = like(x, rule)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        held = [like(saved[0], f"{rule}_backward") for _ in range(temporaries)]
        result = like(only(gradients), f"{rule}_backward")
        del held
        return [result]

    if needs:
        attach([out], [x], saved or save(x.tape, out), apply)
    return out


def gelu_new(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(c (x + 0.044715 x^3))), spelled out in Python (transformers/activations.py)."""
    return mul(scale(x), add_scalar(tanh(scale(add(x, scale(power(x)))))))


def relu2(x: Tensor) -> Tensor:
    """relu(x)², spelled out in Python (transformers/activations.py)."""
    return power(relu(x))


ACTIVATIONS = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_pytorch_tanh": gelu,
    "gelu_new": gelu_new,
    "relu": relu,
    "relu2": relu2,
    "quick_gelu": gelu,
    "gelu_bloom": gelu,
    "xielu": relu2,
}
"""Activation functions by the name that a config.json gives them."""


def dropout(x: Tensor, probability: float) -> Tensor:
    """Dropout; saves a mask of one byte per element, and does nothing at probability zero."""
    if not probability:
        return x
    out, mask = like(x, "dropout"), like(x, "dropout_mask", "bool")
    if tracked(x):
        attach([out], [x], save(x.tape, mask), lambda g, s: [like(only(g), "dropout_backward")])
    return out


# Reductions and normalization.


def mean(x: Tensor) -> Tensor:
    """Mean over the last axis, kept with size one."""
    out = new(x.tape, (*x.shape[:-1], 1), x.dtype, "mean")
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach([out], [x], [], lambda g, s: [new(tape, full, dtype, "mean_backward")])
    return out


def softmax(x: Tensor, dtype: str | None = None) -> Tensor:
    """Softmax over the last axis, in `dtype` if given; saves its result.

    Only fp16 is upcast inside the CUDA kernel; bf16 makes an fp32 copy first (aten/src/ATen/native/SoftMax.cpp).
    """
    if x.tape.autocast:
        dtype = "fp32"
    if dtype is not None and x.dtype != "fp16":
        x = to(x, dtype)
    before = x.dtype
    out = like(x, "softmax", dtype)
    if tracked(x):
        attach([out], [x], save(x.tape, out), lambda g, s: [like(only(g), "softmax_backward", before)])
    return out


def layer_norm(x: Tensor, weight: Parameter, bias: Parameter | None) -> Tensor:
    """Fused LayerNorm; saves its input, and the mean and the reciprocal deviation in fp32."""
    return _fused_norm("layer_norm", x, [weight] if bias is None else [weight, bias], statistics=2)


def rms_norm(x: Tensor, weight: Parameter) -> Tensor:
    """Fused RMSNorm; saves its input, and the reciprocal root mean square in fp32."""
    return _fused_norm("rms_norm", x, [weight], statistics=1)


def _fused_norm(rule: str, x: Tensor, affine: list[Parameter], *, statistics: int) -> Tensor:
    tape = x.tape
    if tape.autocast:
        x = to(x, "fp32")
    needs = tracked(x, *affine)
    saved = save(tape, x) if needs else []
    out = like(x, rule)
    kept = [new(tape, (*x.shape[:-1], 1), "fp32", "norm_statistics") for _ in range(statistics)]
    if needs:
        results = [(each.shape, each.dtype) for each in (x, *affine)]
        attach(
            [out],
            [x, *affine],
            saved + save(tape, *kept),
            lambda g, s: [new(tape, shape, dtype, f"{rule}_backward") for shape, dtype in results],
        )
    return out


# Matrix products and the embedding.


def linear(x: Tensor, weight: Parameter, bias: Parameter | None = None, *, addmm: bool = False) -> Tensor:
    """x @ weight.T + bias; saves x if the weight trains, and the weight if x needs a gradient.

    `x` ends in the axes `weight.inner`, the result in `weight.outer`. Leading axes that a view cannot merge into
    rows are copied first, and so is the gradient. Arguments are cast from the last to the first: the bias is the
    last one of `F.linear`, and the first one of `addmm`.
    """
    tape = x.tape
    biased = bias is not None
    b = None if bias is None or addmm else autocast(bias)
    w = autocast(weight)
    x = autocast(x)
    b = autocast(bias) if bias is not None and addmm else b
    inputs = [x, w] if b is None else [x, w, b]
    batch = len(x.shape) - len(weight.inner)
    if not (x.mergeable(0, batch) and x.mergeable(batch, len(x.shape))):
        x = inputs[0] = clone(x)
    x_needs, w_needs = tracked(x), tracked(w)
    saved = save(tape, x if w_needs else None, w if x_needs else None)
    out = new(tape, (*x.shape[:batch], *weight.outer), x.dtype, "linear")
    x_shape, w_shape = x.shape, w.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = in_order(gradients)
        shapes = {"input_gradient": x_shape if x_needs else None, "weight_gradient": w_shape if w_needs else None}
        made: dict[str, Gradient] = {}
        for rule in shapes if biased else reversed(shapes):
            shape = shapes[rule]
            made[rule] = None if shape is None else new(tape, shape, gradient.dtype, rule)
        both = [made["input_gradient"], made["weight_gradient"]]
        return [*both, gradient] if biased else both

    if tracked(*inputs):
        attach([out], inputs, saved, apply)
    return out


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Batched product over the last two axes; saves both operands, copied where their batch axes do not merge."""
    y, x = autocast(y), autocast(x)
    x, y = (each if _batchable(each) else clone(each) for each in (x, y))
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, x if y_needs else None, y if x_needs else None)
    out = new(x.tape, (*x.shape[:-1], y.shape[-1]), x.dtype, "matmul")
    tape, x_shape, y_shape = x.tape, x.shape, y.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        if not _batchable(gradient):
            gradient = gradients[0] = new(tape, gradient.shape, gradient.dtype, "clone")
        for_y = new(tape, y_shape, gradient.dtype, "matmul_backward") if y_needs else None
        for_x = new(tape, x_shape, gradient.dtype, "matmul_backward") if x_needs else None
        return [for_x, for_y]

    if x_needs or y_needs:
        attach([out], [x, y], saved, apply)
    return out


def _batchable(x: Tensor) -> bool:
    return x.mergeable(0, len(x.shape) - 2)


def embedding(tokens: Tensor, weight: Parameter) -> Tensor:
    """Rows of a table; saves the int64 indices, and its gradient is dense."""
    tape = tokens.tape
    needs = tracked(weight)
    saved = save(tape, tokens) if needs else []
    out = new(tape, (*tokens.shape, *weight.inner), weight.dtype, "embedding")
    if needs:
        shape = weight.shape
        attach([out], [weight], saved, lambda g, s: [new(tape, shape, only(g).dtype, "embedding_backward")])
    return out
