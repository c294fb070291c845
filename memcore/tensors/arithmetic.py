"""Further elementwise operations and sums: what each saves, and what its backward formula allocates."""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import elementwise, like, new, only, promote, view
from memcore.tensors.tensor import Tensor


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)); saves its result."""
    out = like(x, "sigmoid")
    if tracked(x):
        attach([out], [x], save(x.tape, out), lambda g, s: [like(only(g), "sigmoid_backward")])
    return out


def add_buffer(x: Tensor, dtype: str) -> Tensor:
    """Return the sum with a buffer of the model, of this dtype; saves nothing."""
    out = like(x, "add", promote(x.dtype, dtype))
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def mul_buffer_(x: Tensor, dtype: str) -> Tensor:
    """`x *= buffer`, of one element and of this dtype; saves the buffer."""
    saved = save(x.tape, Tensor(x.tape, None, (), dtype)) if tracked(x) else []
    out = view(x, x.shape, x.order)
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(only(g), "mul_backward", promote(only(g).dtype, dtype))])
    return out


def add_in_place(x: Tensor, y: Tensor) -> Tensor:
    """`x += y`; saves nothing."""
    out = view(x, x.shape, x.order)
    if tracked(x, y):
        attach([out], [x, y], [], lambda g, s: [g[0], g[0]])
    return out


def divide(x: Tensor, y: Tensor) -> Tensor:
    """Return the quotient of two tensors; saves the divisor, and the dividend if the divisor needs a gradient."""
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, y, x if y_needs else None) if x_needs or y_needs else []
    out = elementwise("div", x, y)
    if x_needs or y_needs:
        attach([out], [x, y], saved, _Quotient(x_needs, y_needs))
    return out


def divide_in_place(x: Tensor, y: Tensor) -> Tensor:
    """`x /= y`; the dividend is copied first if the divisor needs a gradient."""
    x_needs, y_needs = tracked(x), tracked(y)
    original = like(x, "clone") if y_needs else None
    saved = save(x.tape, y, original) if x_needs or y_needs else []
    out = view(x, x.shape, x.order)
    if x_needs or y_needs:
        attach([out], [x, y], saved, _Quotient(x_needs, y_needs))
    return out


class _Quotient:
    """-g · ((x / y) / y) for the divisor, in four tensors, and g / y."""

    __slots__ = ("_x_needs", "_y_needs")

    def __init__(self, x_needs: bool, y_needs: bool) -> None:
        self._x_needs = x_needs
        self._y_needs = y_needs

    def __call__(self, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        for_y: Gradient = None
        if self._y_needs:
            held = [elementwise("div_backward", saved[1], saved[0]) for _ in range(2)]
            held.append(like(gradient, "div_backward"))
            for_y = elementwise("div_backward", held[2], held[1])
            del held  # FunctionsManual.cpp, `div_tensor_other_grad`: -grad * ((self / other) / other)
        for_x = elementwise("div_backward", gradient, saved[0]) if self._x_needs else None
        return [for_x, for_y]


def total(x: Tensor, axis: int = -1, *, keepdim: bool = False) -> Tensor:
    """Return the sum over one axis; its gradient is expanded without a copy. Autocast gives it in fp32."""
    axis %= len(x.shape)
    tape, full = x.tape, x.shape
    middle = (1,) if keepdim else ()
    dtype = "fp32" if tape.autocast and x.dtype in ("bf16", "fp16") else x.dtype
    out = new(tape, (*full[:axis], *middle, *full[axis + 1 :]), dtype, "sum")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        return [Tensor(tape, gradient.storage, full, gradient.dtype, spread=axis)]

    if tracked(x):
        attach([out], [x], [], apply)
    return out
