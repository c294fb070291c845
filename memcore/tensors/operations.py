"""Operations: what each allocates, what it saves for the backward pass, and what its backward formula allocates.

Saved tensors and formulas are those of PyTorch 2.13 (tools/autograd/derivatives.yaml, FunctionsManual.cpp); a result's
physical order follows its operands as in TensorIterator. The order of allocations inside an operation is PyTorch's
too, because a peak depends on it.
"""

from __future__ import annotations

from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, clone, elementwise, identity, in_order, like, new, only, to, view
from memcore.tensors.float8 import cast, gathered_cast
from memcore.tensors.quantized import quantized_linear
from memcore.tensors.selection import selectable
from memcore.tensors.slices import expand
from memcore.tensors.tensor import Parameter, Tensor

# Elementwise.


def add(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of two tensors; saves nothing."""
    out = elementwise("add", x, y)
    if tracked(x, y):
        attach([out], [x, y], [], lambda g, s: [g[0], g[0]])
    return out


def learned(x: Tensor, parameter: Tensor) -> Tensor:
    """What follows a use of a parameter of which no more is known than that it learns: its gradient has its size."""
    out = view(x, x.shape, x.order, x.cut)
    if tracked(x, parameter):
        needs = tracked(parameter)
        attach([out], [x, parameter], [], lambda g, s: [g[0], like(parameter, "mul_backward") if needs else None])
    return out


def sub(x: Tensor, y: Tensor) -> Tensor:
    """The difference of two tensors; saves nothing, but the gradient of what was subtracted is a tensor of its own."""
    out = elementwise("sub", x, y)
    if tracked(x, y):
        y_needs = tracked(y)
        attach([out], [x, y], [], lambda g, s: [g[0], like(only(g), "neg_backward") if y_needs else None])
    return out


def add_scalar(x: Tensor) -> Tensor:
    """Return the sum with a number; saves nothing."""
    out = like(x, "add")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def mul(x: Tensor, y: Tensor) -> Tensor:
    """Return the product of elements; a factor is saved if the other one needs a gradient."""
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
    """Return a multiple of x, x over a number, or -x: saves nothing."""
    out = like(x, rule)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), f"{rule}_backward")])
    return out


def power(x: Tensor) -> Tensor:
    """Return a power of x; saves x, and its gradient needs two temporaries of x's size. Autocast runs it in fp32."""
    x = to(x, "fp32") if x.tape.autocast else x
    return _unary("pow", x, saves_input=True, temporaries=2)


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x); saves its result, and its gradient needs two temporaries."""
    return _unary("rsqrt", x, saves_input=False, temporaries=2)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root of x; saves its result, and its gradient needs a temporary."""
    return _unary("sqrt", x, saves_input=False, temporaries=1)


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent of x; saves its result."""
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


def gelu_fast(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(c x (1 + 0.044715 x x))), spelled out in Python (transformers/activations.py)."""
    inner = mul(scale(x), add_scalar(mul(scale(x), x)))
    return mul(scale(x), add_scalar(tanh(inner)))


def gelu_bloom(x: Tensor) -> Tensor:
    """Bloom's function for autograd: it saves x, and its backward pass is Python too (models/bloom, GeLUFunction)."""
    with x.tape.no_grad():
        out = mul(scale(x), add_scalar(tanh(mul(scale(x), add_scalar(mul(scale(x), x))))))
    if tracked(x):
        attach([out], [x], save(x.tape, x), lambda g, s: [_gelu_bloom_backward(only(g), s[0])])
    return out


def _gelu_bloom_backward(g: Tensor, x: Tensor) -> Tensor:
    tanh_out = tanh(mul(scale(x), add_scalar(mul(scale(x), x))))
    slope = mul(scale(x), mul(add_scalar(mul(tanh_out, tanh_out)), add_scalar(mul(scale(x), x))))
    ff = add(slope, scale(add_scalar(tanh_out)))
    del slope
    return mul(ff, g)


def relu2(x: Tensor) -> Tensor:
    """relu(x)², spelled out in Python (transformers/activations.py)."""
    return power(relu(x))


def gelu_quick(x: Tensor) -> Tensor:
    """x · sigmoid(1.702 x), spelled out in Python (transformers/activations.py)."""
    return mul(x, sigmoid(scale(x)))


ACTIVATIONS = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_pytorch_tanh": gelu,
    "gelu_new": gelu_new,
    "relu": relu,
    "relu2": relu2,
    "gelu_fast": gelu_fast,
    "quick_gelu": gelu_quick,
    "gelu_bloom": gelu_bloom,
    "xielu": relu2,
}
"""Activation functions by the name that a config.json gives them."""


def dropout(x: Tensor, probability: float) -> Tensor:
    """Dropout; saves a mask of one byte per element, and does nothing at probability zero or in evaluation."""
    if not probability or x.tape.evaluating:
        return x
    out, mask = like(x, "dropout"), like(x, "dropout_mask", "bool")
    if tracked(x):
        attach([out], [x], save(x.tape, mask), lambda g, s: [like(only(g), "dropout_backward")])
    return out


# Reductions and normalization.


def mean(x: Tensor, axes: int = 1) -> Tensor:
    """Mean over the last axes, kept with size one."""
    out = new(x.tape, (*x.shape[:-axes], *(1,) * axes), x.dtype, "mean")
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach([out], [x], [], lambda g, s: [new(tape, full, dtype, "mean_backward")])
    return out


def softmax(x: Tensor, dtype: str | None = None) -> Tensor:
    """Softmax over the last axis, in `dtype` if given; saves its result.

    Only fp16 is upcast inside the CUDA kernel; bf16 makes an fp32 copy first (aten/src/ATen/native/SoftMax.cpp).
    """
    if x.tape.autocast and dtype is None:
        dtype = "fp32"
    converted = to(x, dtype) if dtype is not None and x.dtype != "fp16" else x
    before = converted.dtype
    out = like(converted, "softmax", dtype)
    if tracked(converted):
        attach([out], [converted], save(x.tape, out), lambda g, s: [softmax_gradient(only(g), before)])
    return out


def softmax_gradient(gradient: Tensor, dtype: str) -> Tensor:
    """Return the gradient of the scores; CUDA's kernel reads a product of gradient and result (cuda/SoftMax.cu)."""
    result = like(gradient, "softmax_backward", dtype)
    if not gradient.tape.fake:
        like(gradient, "softmax_product")
    return result


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Fused LayerNorm; saves its input, and the mean and the reciprocal deviation in fp32."""
    return _fused_norm("layer_norm", x, [each for each in (weight, bias) if each is not None], statistics=2)


def rms_norm(x: Tensor, weight: Parameter, *, dtype: str | None = None) -> Tensor:
    """Fused RMSNorm; saves its input, and the reciprocal root mean square in fp32. Compiled, it may cast its result."""
    return _fused_norm("rms_norm", x, [weight], statistics=1, dtype=dtype)


def _fused_norm(rule: str, x: Tensor, affine: list[Tensor], *, statistics: int, dtype: str | None = None) -> Tensor:
    tape = x.tape
    if tape.autocast and dtype is None:
        x = to(x, "fp32")
    needs = tracked(x, *affine)
    saved = save(tape, *(x.terms or (x,)), *affine) if needs else []
    source = _expect_contiguous(x)
    out = new(tape, x.shape, dtype or x.dtype, rule)
    rows = (*x.shape[:-1], 1)
    kept = selectable(
        tape, "norm_statistics", lambda: [new(tape, rows, "fp32", "norm_statistics") for _ in range(statistics)]
    )
    del source  # `expect_contiguous` of the kernel's function: a copy lives until it returns
    results = [(each.shape, each.dtype) for each in (x, *affine)]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        source = _expect_contiguous(saved[0])
        found: list[Gradient] = [new(tape, *each, f"{rule}_backward") for each in results]
        if tape.fake and found[0] is not None and len(only(gradients).order) == len(found[0].order):
            # The decomposition for fake tensors follows the gradient, unless a cast has put it in order.
            found[0].order = only(gradients).order if found[0].dtype == "fp32" else found[0].order
        del source
        return found

    if needs:
        attach([out], [x, *affine], saved + save(tape, *kept), apply)
    return out


def _expect_contiguous(x: Tensor) -> Tensor:
    """Return what a kernel reads that takes rows: a copy for a moment if they lie otherwise (layer_norm_kernel.cu)."""
    return x if x.tape.fake or x.contiguous else new(x.tape, x.shape, x.dtype, "clone")


# Matrix products and the embedding.


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, addmm: bool = False, fresh: bool = False
) -> Tensor:
    """x @ weight.T + bias; saves x if the weight trains, and the weight if x needs a gradient.

    `x` ends in the axes `weight.inner`, the result in `weight.outer`; those of a computed weight are its first axis and
    the rest. Leading axes that a view cannot merge into rows are copied first, and so is the gradient. Arguments are
    cast from the last to the first: the bias is the last one of `F.linear`, and the first one of `addmm`. With `fresh`
    the weight is a view of a parameter, whose cast autocast does not keep.
    """
    tape = x.tape
    outer, inner = weight.shape[:1], weight.shape[1:]
    if isinstance(weight, Parameter):
        outer, inner = weight.outer, weight.inner
        if weight.quantization is not None:
            return quantized_linear(x, weight, weight.quantization, bias)
    biased = bias is not None
    b = None if bias is None or addmm else autocast(bias)
    w = autocast(weight, fresh=fresh)
    if isinstance(w, Parameter) and w.shared:
        w = identity(w)  # its transpose is a node of its own, which adds up gradients when the product is done
    held = x = autocast(x)  # autocast's copy lives until the call ends, even where a further copy takes its place
    b = autocast(bias) if bias is not None and addmm else b
    inputs = [x, w] if b is None else [x, w, b]
    batch = len(x.shape) - len(inner)
    if not (x.mergeable(0, batch) and x.mergeable(batch, len(x.shape))):
        if bias is not None and not addmm:
            return _add_bias(linear(x, weight), bias if b is None else b)
        x = inputs[0] = clone(held)
    if biased and not addmm and batch > 1:
        # With a bias, x is viewed as rows before the weight is transposed: its gradient comes after the weight's.
        x = inputs[0] = identity(x)
    x_needs, w_needs = tracked(x), tracked(w)
    keeps = w_needs and not (x.fused and tape.pack is None and tape.float8 and not tape.float8.keeps_fused)
    saved = save(tape, x if keeps else None, w if x_needs else None)
    stays = x_needs and tape.float8 is not None and tape.float8.keeps_weights
    saved += save(tape, new(tape, w.shape, "fp8", "float8_operand")) if stays else []
    shape, dtype = (*x.shape[:batch], *outer), x.dtype
    operands = cast(tape, x.dtype, x.shape, *(() if stays or gathered_cast(tape) else (w.shape,)))
    (out,) = selectable(tape, "addmm" if biased else "mm", lambda: [new(tape, shape, dtype, "linear")])
    del operands
    x_shape, w_shape, float8 = x.shape, w.shape, tape.float8

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = _as_rows(gradients, batch)
        shapes = {"input_gradient": x_shape if x_needs else None, "weight_gradient": w_shape if w_needs else None}
        made: dict[str, Gradient] = {}
        for rule in shapes if biased else reversed(shapes):
            shape = shapes[rule]
            with tape.multiplying(float8):
                operands = cast(tape, gradient.dtype, gradient.shape, w_shape if rule == "input_gradient" else x_shape)
            made[rule] = None if shape is None else new(tape, shape, gradient.dtype, rule)
            del operands
        both = [_seen(made["input_gradient"], view=batch > 1), _seen(made["weight_gradient"], view=True)]
        return [*both, gradient] if biased else both

    if tracked(*inputs):
        attach([out], inputs, saved, apply)
    return out


def _seen(gradient: Gradient, *, view: bool) -> Gradient:
    """Return a gradient that may be a view of the product."""
    if gradient is not None:
        gradient.viewed = view
    return gradient


def _as_rows(gradients: list[Gradient], batch: int) -> Tensor:
    """The gradient of a matrix product: a copy unless its leading axes, and those after them, can be viewed as one."""
    gradient, rank = only(gradients), len(only(gradients).shape)
    if gradient.mergeable(0, batch) and gradient.mergeable(batch, rank) and gradient.order[-1] == rank - 1:
        return gradient
    return in_order(gradients)


def _add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return what `F.linear` does where rows had to be copied: the bias is added in place (Linear.cpp)."""
    if x.tape.fake:
        return add(x, bias)
    out = view(x, x.shape, x.order)
    if tracked(x, bias):
        attach([out], [x, bias], [], lambda g, s: [g[0], g[0]])
    return out


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Batched product over the last two axes; saves both operands, copied where their batch axes do not merge."""
    given = (x, y)
    y, x = autocast(y), autocast(x)
    if len(y.shape) == 4 and y.shape[1] in (1, *y.tape.units) and x.shape[1] != y.shape[1]:
        y = expand(y, 1, x.shape[1])
    held = (x, y)  # operands and autocast's copies live until the call ends, even where further copies take their place
    x, y = (each if _batchable(each) else clone(each) for each in held)
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, x if y_needs else None, y if x_needs else None)
    out = new(x.tape, (*x.shape[:-1], y.shape[-1]), x.dtype, "matmul")
    del given
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
    """Return rows of a table; saves the int64 indices, and its gradient is dense.

    Compiled, it adds up in fp32 (torch/_decomp/decompositions.py, `embedding_dense_backward`).
    """
    tape = tokens.tape
    needs = tracked(weight)
    saved = save(tape, tokens) if needs else []
    out = new(tape, (*tokens.shape, *weight.inner), weight.dtype, "embedding")
    if needs:
        shape = weight.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = only(gradients).dtype
            summed = new(tape, shape, "fp32", "embedding_backward") if tape.whole and dtype != "fp32" else None
            found = new(tape, shape, dtype, "embedding_backward")
            del summed
            return [found]

        attach([out], [weight], saved, apply)
    return out
