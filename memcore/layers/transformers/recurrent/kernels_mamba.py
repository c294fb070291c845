"""mamba-ssm 2.3 (state-spaces/mamba), mamba_ssm/ops/selective_scan_interface.py: `SelectiveScanFn`, `MambaInnerFn`.

What the compiled scan allocates is in csrc/selective_scan/selective_scan.cpp. Local variables live as long here as
they do there.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers.transformers.recurrent.kernels_convolution import parameter_gradients
from memcore.networks.parts import SpecialMixer
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, contiguous, like, new, only
from memcore.tensors.tensor import Parameter, Tape, Tensor

_CHANNELS: Shape = ("b", "D", "s")
_WIDE_FIRST = (1, 0, 2)
"""The order in memory of a product with a weight, seen as (b, channels, s)."""
_INTERMEDIATES: Shape = ("b", "D", Quotient(("s",), 2048), 2, "N")
"""What the scan keeps for every 2048 tokens."""


def selective_scan(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor, gate: Tensor, bias: Tensor
) -> Tensor:
    """`selective_scan_fn` over (b, channels, s); what has its tokens not innermost is copied and kept."""
    tape, inputs = x.tape, [x, dt, a, b, c, skip, gate, bias]
    x, dt, b, c, gate = (_tokens_last(each) for each in (x, dt, b, c, gate))
    out_z, out = like(gate, "scan"), like(dt, "scan")
    intermediates = new(tape, _INTERMEDIATES, "fp32", "scan_states")
    if tracked(*inputs):
        saved = save(tape, x, dt, a, b, c, skip, gate, bias, intermediates, out)
        attach([out_z], inputs, saved, _scan_backward)
    return out_z


def _tokens_last(x: Tensor) -> Tensor:
    return x.detach() if x.order[-1] == len(x.shape) - 1 else contiguous(x.detach())


def _scan_backward(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    x, dt, a, b, c, skip, gate, bias, *_ = saved
    copy = _tokens_last(only(gradients))
    for_gate = like(gate, "scan_backward")
    found = _scan_gradients(x, dt, a, b, c, skip, bias)
    del copy
    gradients.clear()
    return [*found[:-1], for_gate, found[-1]]


def _scan_gradients(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor, bias: Tensor
) -> list[Gradient]:
    """`selective_scan_bwd`: gradients of B and C are added up in fp32, then cast."""
    for_x, for_dt, for_a = (like(each, "scan_backward") for each in (x, dt, a))
    sums = [like(each, "scan_backward", "fp32") for each in (b, c)]
    for_skip, for_bias = like(skip, "scan_backward"), like(bias, "scan_backward")
    casts = [each if b.dtype == "fp32" else like(each, "to", b.dtype) for each in sums]
    del sums
    return [for_x, for_dt, for_a, *casts, for_skip, for_bias]


@dataclass(frozen=True, slots=True)
class _Inner:
    """`MambaInnerFn`: what the forward and the backward pass share."""

    tape: Tape
    part: SpecialMixer
    weights: Mapping[str, Parameter]
    dtype: str

    def make(self, shape: Shape, rule: str = "scan", dtype: str | None = None) -> Tensor:
        """Return a tensor in logical order."""
        return new(self.tape, shape, dtype or self.dtype, rule)

    def weight(self, name: str) -> Parameter:
        """Return a parameter by its name in the module."""
        return self.weights[f"{self.part.module}.{name}"]

    def get(self, name: str) -> Parameter | None:
        """Return the parameter if it exists."""
        return self.weights.get(f"{self.part.module}.{name}")

    def product(self) -> Tensor:
        """Return a weight times transposed rows, seen as (b, channels, s)."""
        return new(self.tape, _CHANNELS, self.dtype, "matmul", order=_WIDE_FIRST)

    def time_steps(self) -> Tensor:
        """Return the product with the time step's weight, and its norm (Falcon-Mamba)."""
        delta = [self.product()]
        return self.normed(delta, ("b", "s", "D"), _CHANNELS)

    def normed(self, given: list[Tensor], rows: Shape, shape: Shape) -> Tensor:
        """`rms_norm_forward` of rows, and back into its shape (Falcon-Mamba); what is given goes with its copy."""
        if "plain-normed" not in self.part.options:
            return given.pop()
        copy = self.make(rows, "clone")
        given.clear()
        out = self.make(rows)
        self.make(rows[:-1], "norm_statistics", "fp32")
        del copy
        result = self.make(shape, "clone")
        del out
        return result


_ROWS: Shape = ("b", "s", "N")
_INPUTS: Shape = ("b", 1, "N", "s")
_NAMES = ("conv1d.weight", "conv1d.bias", "x_proj.weight", "dt_proj.weight", "out_proj.weight", "out_proj.bias")


def mamba_inner(
    projected: Tensor, a: Tensor, skip: Tensor, bias: Tensor, part: SpecialMixer, weights: Mapping[str, Parameter]
) -> Tensor:
    """`mamba_inner_fn`: convolution, projections, scan and output projection; convolved inputs are computed again."""
    inner = _Inner(projected.tape, part, weights, projected.dtype)
    parameters = [each for each in map(inner.get, _NAMES) if each is not None]
    inputs = [projected, *parameters, a, skip, bias]
    casts = [autocast(inner.weight(f"{name}_proj.weight").detach()) for name in ("x", "dt", "out")]
    xz = contiguous(projected.detach())
    convolved = inner.make(_CHANNELS, "causal_convolution")
    rows = inner.make(("b", "s", "D"), "clone")
    x_dbl = inner.make(("b", "s", "x"), "linear")
    del rows
    delta = [inner.product()]
    b, c = [inner.make(_INPUTS, "clone")], [inner.make(_INPUTS, "clone")]
    b, c = [inner.normed(b, _ROWS, _INPUTS)], [inner.normed(c, _ROWS, _INPUTS)]
    delta = [inner.normed(delta, ("b", "s", "D"), _CHANNELS)]
    out_z, out = inner.make(_CHANNELS), like(delta[0], "scan")
    intermediates = inner.make(_INTERMEDIATES, "scan_states", "fp32")
    del convolved, delta
    saved = save(inner.tape, xz, x_dbl, a, *b, *c, skip, bias, intermediates, out, *casts, *parameters)
    rows = inner.make(("b", "s", "D"), "clone")
    result = inner.make(("b", "s", "h"), "linear")
    del rows, out_z
    if tracked(*inputs):
        attach([result], inputs, saved, _InnerBackward(inner))
    return result


class _InnerBackward:
    """`MambaInnerFn.backward`."""

    __slots__ = ("_inner",)

    def __init__(self, inner: _Inner) -> None:
        self._inner = inner

    def __call__(self, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        inner = self._inner
        xz, x_dbl, a, b, c, skip, bias, _, out = saved[:9]
        convolved = inner.make(_CHANNELS, "causal_convolution")
        delta = inner.time_steps()
        b, c = (inner.normed([each], _ROWS, _INPUTS) for each in (b, c))
        for_xz = like(xz, "scan_backward")
        upstream = inner.product()
        out_z = like(out, "scan")
        for_x, for_delta, for_a, for_b, for_c, for_skip, for_bias = _scan_gradients(
            convolved, delta, a, b, c, skip, bias
        )
        found: dict[str, Gradient] = {}
        turned = _wide_first(out_z)
        found["out_proj.weight"] = inner.make(("h", "D"), "weight_gradient")
        del turned
        if inner.get("out_proj.bias") is not None:
            found["out_proj.bias"] = inner.make((), "sum")
        for_x_dbl = like(x_dbl, "scan_backward")
        parts = [for_b, for_c]
        del for_b, for_c
        for _ in range(2):
            copy = inner.make(_ROWS, "clone")
            parts.pop(0)
            del copy
        for_delta = _wide_first(for_delta)
        found["dt_proj.weight"] = inner.make(("D", "R"), "bmm")
        inner.make(("b", "s", "R"), "bmm")
        for_x = _wide_first(for_x)
        rows = inner.make(("b", "s", "D"), "clone")
        found["x_proj.weight"] = inner.make(("x", "D"), "bmm")
        del rows
        both = parameter_gradients(inner.tape, inner.weight("conv1d.weight"), inner.get("conv1d.bias"))
        found["conv1d.weight"] = both[0]
        if len(both) > 1:
            found["conv1d.bias"] = both[1]
        del convolved, delta, b, c, upstream, out_z, for_x, for_delta, for_x_dbl
        gradients.clear()
        return [for_xz, *(found[name] for name in _NAMES if name in found), for_a, for_skip, for_bias]


def _wide_first(x: Gradient) -> Gradient:
    """(b, channels, s) with channels outermost in memory, copied unless it lies like that."""
    if x is None or x.order == _WIDE_FIRST:
        return x
    return new(x.tape, x.shape, x.dtype, "clone", order=_WIDE_FIRST)
