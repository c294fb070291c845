"""mamba-ssm 2.3 (state-spaces/mamba): `MambaSplitConv1dScanCombinedFn` in mamba_ssm/ops/triton/ssd_combined.py.

One autograd node from the projected inputs to the mixer's result: it keeps its input and the scan's output, and
computes the rest again. Local variables live as long here as they do there. Where a size depends on how many
multiprocessors a GPU has, it is that of an H100.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers.transformers.recurrent.kernels_convolution import parameter_gradients
from memcore.networks.parts import SpecialMixer
from memcore.networks.recurrences import MULTIPROCESSORS
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape, Smaller, split_over
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, new
from memcore.tensors.tensor import Parameter, Tape, Tensor

CHUNKS = Quotient(("s",), "q")
"""Chunks of a sequence; the last one may be padded."""

_TOKENS: Shape = ("b", "H", CHUNKS, "q")
_STATES: Shape = ("b", CHUNKS, "H", "W", "N")
_FINAL: Shape = ("b", "H", "W", "N")
_HEADS: Shape = ("b", "s", "H", "W")
_SPLITS = Quotient(("hg",), Smaller(Quotient(("b", CHUNKS, "H"), MULTIPROCESSORS), "hg"))
"""Parts into which heads of a group are split, so that all multiprocessors have work (`nsplits`)."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What the forward and the backward pass share."""

    tape: Tape
    part: SpecialMixer
    weights: Mapping[str, Parameter]
    dtype: str
    shared: bool = False
    """Tensor-parallel ranks have a part of the heads and groups each."""

    def make(self, shape: Shape, dtype: str | None = None, rule: str = "scan") -> Tensor:
        if self.shared:
            shape = tuple(split_over(axis) if axis in _PER_RANK else axis for axis in shape)
        return new(self.tape, shape, dtype or self.dtype, rule)

    @property
    def projects(self) -> bool:
        """The kernel includes the output projection, and runs it again in its backward pass."""
        return self.weight("out_proj.weight") is not None

    def weight(self, name: str) -> Parameter | None:
        return self.weights.get(f"{self.part.module}.{name}")

    def has(self, option: str) -> bool:
        return option in self.part.options

    def convolved(self) -> Tensor:
        """`causal_conv1d_fwd_function`, over a copy if the rows of its input are not aligned."""
        copy = self.strided(("b", "s", "X"))
        out = self.make(("b", "s", "X"), rule="causal_convolution")
        del copy
        return out

    def strided(self, shape: Shape) -> Tensor | None:
        """`ensure_stride` copies a slice of the projection unless its rows are multiples of 8 elements."""
        return None if self.has("aligned") else self.make(shape, rule="clone")


_PER_RANK = ("H", "D", "X", "I", "G")


def split_conv1d_scan(
    projected: Tensor, rates: Tensor, part: SpecialMixer, weights: Mapping[str, Parameter], *, shared: bool = False
) -> Tensor:
    """`mamba_split_conv1d_scan_combined`: convolution, scan, gate, norm and output projection, if it is given one."""
    kernel = _Kernel(projected.tape, part, weights, projected.dtype, shared)
    names = ("conv1d.weight", "conv1d.bias", "dt_bias", "D", "norm.weight", "out_proj.weight", "out_proj.bias")
    parameters = {name: kernel.weight(name) for name in names}
    inputs = [each for each in (projected, rates, *parameters.values()) if each is not None]
    xbc = kernel.convolved()
    scanned = _scan(kernel, gated=not kernel.has("normed"))
    out_x, rstd = scanned[-1], None
    if kernel.has("normed"):
        out = kernel.make(("b", "s", "D"), rule="gated_norm")
        rstd = kernel.make(("b", "s", "G"), "fp32", "norm_statistics")
    else:
        out = scanned[-2]
    projection = parameters["out_proj.weight"]
    cast = None if projection is None else autocast(projection.detach())
    result = out if projection is None else kernel.make(("b", "s", "h"), rule="linear")
    del out, xbc, scanned
    if tracked(*inputs):
        saved = save(kernel.tape, projected, rates, out_x, rstd, cast, *parameters.values())
        attach(
            [result], inputs, saved, _Backward(kernel, tuple(name for name in names if parameters[name] is not None))
        )
    return result


def _scan(kernel: _Kernel, *, gated: bool) -> list[Tensor]:
    """`_mamba_chunk_scan_combined_fwd`; the last is the output before the gate, the one before it the result."""
    steps = [kernel.make(_TOKENS, "fp32", "scan_decay") for _ in range(2)]
    states = kernel.make(_STATES, "fp32", "scan_states")
    passed = kernel.make(_STATES, rule="scan_states")
    final = kernel.make(_FINAL, "fp32", "scan_states")
    del states
    scores = kernel.make(_SCORES, "fp32", "scan_scores")
    out = kernel.make(_HEADS)
    before = kernel.make(_HEADS) if gated else out
    del scores
    return [*steps, passed, final, out, before]


_SCORES: Shape = ("b", CHUNKS, "G", "q", "q")


class _Backward:
    """`MambaSplitConv1dScanCombinedFn.backward`."""

    __slots__ = ("_kernel", "_names")

    def __init__(self, kernel: _Kernel, names: tuple[str, ...]) -> None:
        self._kernel = kernel
        self._names = names

    def __call__(self, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        kernel = self._kernel
        recomputed = kernel.make(("b", "s", "D"), rule="gated_norm") if kernel.projects else None
        xbc = kernel.convolved()
        for_projected = kernel.make(("b", "s", "I"), rule="scan_backward")
        for_xbc = kernel.make(("b", "s", "X"), rule="scan_backward")
        upstream = kernel.make(("b", "s", "D"), rule="input_gradient") if kernel.projects else None
        held = [each for each in (recomputed, xbc, for_xbc, upstream) if each is not None]
        found: dict[str, Gradient] = {}
        if kernel.has("normed"):
            for_out, found["norm.weight"] = self._norm()
            held.append(for_out)
        found |= self._scan(held)
        bias = kernel.weight("out_proj.bias")
        if kernel.projects:
            found["out_proj.weight"] = kernel.make(("h", "D"), rule="weight_gradient")
        if bias is not None:
            found["out_proj.bias"] = kernel.make(("h",), rule="sum")
        copies = [kernel.strided(("b", "s", "X")) for _ in range(2)]
        convolution = kernel.weight("conv1d.weight")
        if convolution is not None:
            both = parameter_gradients(kernel.tape, convolution, kernel.weight("conv1d.bias"))
            found |= zip(("conv1d.weight", "conv1d.bias"), both, strict=False)
        del copies, held, recomputed, xbc, for_xbc, upstream
        gradients.clear()
        return [for_projected, found["rates"], *(found[name] for name in self._names)]

    def _norm(self) -> tuple[Tensor, Tensor]:
        """`_layer_norm_bwd` of layernorm_gated.py: the gradient of the weight is summed from that of groups of rows."""
        kernel = self._kernel
        weight = kernel.weight("norm.weight")
        dtype = kernel.dtype if weight is None else weight.dtype
        for_out = kernel.make(("b", "s", "D"), rule="scan_backward")
        partial = kernel.make(("nr", "D"), "fp32", "scan_backward")
        total = kernel.make(("D",), "fp32", "sum")
        cast = total if dtype == "fp32" else kernel.make(("D",), dtype, "to")
        del partial, total
        return for_out, cast

    def _scan(self, held: list[Tensor]) -> dict[str, Gradient]:
        """`_mamba_chunk_scan_combined_bwd`; what it leaves behind for its caller is appended to `held`."""
        kernel = self._kernel
        inputs = kernel.make(("b", "s", "H"), rule="clone")
        steps = [kernel.make(_TOKENS, "fp32", "scan_decay") for _ in range(2)]
        scores = kernel.make(_SCORES, "fp32", "scan_scores")
        states = kernel.make(_STATES, "fp32", "scan_states")
        passed = kernel.make(_STATES, "fp32", "scan_states")
        final = kernel.make(_FINAL, "fp32", "scan_states")
        states, for_out = passed, None
        found: dict[str, Gradient] = {}
        del passed
        if not kernel.has("normed"):
            partial = kernel.make(_PARTIAL, "fp32", "scan_backward")
            held.append(kernel.make(_HEADS, rule="scan_backward"))
            for_out = kernel.make(_HEADS, rule="scan_backward")
            found["D"] = self._summed()
            del partial
        for_states = kernel.make(_STATES, "fp32", "scan_backward")
        halves = [kernel.make(_STATES, rule="scan_backward") for _ in range(1 if kernel.dtype == "fp32" else 2)]
        blocks = kernel.make(("b", "H", CHUNKS, Quotient(("W", "N"), 64)), "fp32", "scan_backward")
        for_decays = kernel.make(("b", "H", CHUNKS), "fp32", "sum")
        del blocks, for_states
        if kernel.dtype != "fp32":
            del states
        partial = kernel.make(_PARTIAL, "fp32", "scan_backward")
        for_steps = kernel.make(_TOKENS, "fp32", "scan_backward")
        found.setdefault("D", self._summed())
        del partial
        for_next, for_b = self._grouped(("b", "s", _SPLITS, "G", "N"))
        for_previous, for_c = self._grouped(("b", "s", _SPLITS, "G", "N"))
        split = kernel.make(("b", CHUNKS, _SPLITS, "G", "q", "q"), "fp32", "scan_backward")
        for_scores = kernel.make(_SCORES, "fp32", "sum")
        del split
        reversed_sum = self._reversed_sum()
        rows = kernel.make(("b", "H", CHUNKS, Quotient(("q",), 32), "q"), "fp32", "scan_backward")
        for_rates = kernel.make(_TOKENS, "fp32", "sum")
        del rows
        both = kernel.make(_TOKENS, "fp32", "add")
        del both
        found["dt_bias"] = kernel.make(("H",), "fp32", "scan_backward")
        found["rates"] = kernel.make(("H",), "fp32", "scan_backward")
        del inputs, steps, scores, final, for_out, halves, for_decays, for_steps, for_next, for_b, for_previous, for_c
        del for_scores, reversed_sum, for_rates
        return found

    def _summed(self) -> Tensor:
        """Return the gradient of D from that of every chunk."""
        weight = self._kernel.weight("D")
        dtype = "fp32" if weight is None else weight.dtype
        total = self._kernel.make(("H",), "fp32", "sum")
        return total if dtype == "fp32" else self._kernel.make(("H",), dtype, "to")

    def _grouped(self, shape: Shape) -> tuple[Tensor, Tensor]:
        """Gradients of the decays, and of B or C, summed over the parts of a group."""
        decays = self._kernel.make(_TOKENS, "fp32", "scan_backward")
        split = self._kernel.make(shape, "fp32", "scan_backward")
        total = self._kernel.make((*shape[:2], *shape[3:]), "fp32", "sum")
        del split
        return decays, total

    def _reversed_sum(self) -> Tensor:
        turned = self._kernel.make(_TOKENS, "fp32", "cumsum_backward")
        summed = self._kernel.make(_TOKENS, "fp32", "cumsum_backward")
        del turned
        result = self._kernel.make(_TOKENS, "fp32", "cumsum_backward")
        del summed
        return result


_PARTIAL: Shape = (Quotient(("q",), 32), "b", CHUNKS, "H")
