"""Parts of a layer that no code describes: their matrices, one after the other in the order of the file.

Each reads the layer's hidden states behind a norm, or what the matrices before it made, and what lies between two
products is one tensor. What that leaves out, and what it has too much, is measured: `memcore/memory/doubts.py`.
"""

from __future__ import annotations

import re

from memcore.layers.transformers.context import Weights, project
from memcore.layers.transformers.norms import norm
from memcore.networks.parts import Extra
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Shape
from memcore.tensors.grouped import batched_mm
from memcore.tensors.mixing import mixed
from memcore.tensors.operations import add, learned
from memcore.tensors.tensor import Tensor

_LEADS_OUT = re.compile(
    r"(^|[._])(o|out|output|down|post|wo|fc2|w2|dense2|c_proj|linear2|back)(_?proj|_?linear)?(\.|$)"
)
"""Names of matrices that lead out of a part."""
_EXPERT = re.compile(r"(?:^|[._])experts?[._](\d+)[._]")
_SHARED = re.compile(r"shared")


def run_rest(hidden_states: Tensor, weights: Weights, extra: Extra, norms: list[Norm]) -> Tensor:
    """Return what is left of a layer; `norms` are those that no part has taken yet."""
    x = _normed(hidden_states, weights, norms)
    between: list[Tensor] = []
    for part in extra.linears:
        if _skipped(part, extra):
            continue
        leads_out = _leads_out(part, extra.width)
        source = _source(x, between, part.inner, extra.width, leads_out=leads_out)
        out = project(source, weights, part)
        if leads_out:
            hidden_states, between = add(hidden_states, out), []
            x = _normed(hidden_states, weights, norms)
        else:
            between.append(out)
    for weight in extra.parameters:
        if _stacked(weight):
            between.append(_experts(x, between, weights[weight.name], weight, extra))
        elif len(weight.axes) == 3:
            between.append(mixed(between or [x], weight.axes[0]))
    if between:
        hidden_states = add(hidden_states, mixed(between, extra.width))
    for parameter in extra.weights():
        if parameter.kind != "adapter":
            hidden_states = learned(hidden_states, weights[parameter.name])
    return hidden_states


def _leads_out(part: Linear, width: Shape) -> bool:
    """Return whether a matrix's result joins the residual stream."""
    return part.outer == width and (part.inner != width or _LEADS_OUT.search(part.name) is not None)


def _normed(x: Tensor, weights: Weights, norms: list[Norm]) -> Tensor:
    return norm(x, weights, norms.pop(0)) if norms else x


def _skipped(part: Linear, extra: Extra) -> bool:
    """Return whether a matrix is of an expert that stands for others: the first has the rows of a token."""
    found = _EXPERT.search(part.name)
    return found is not None and bool(extra.routed) and int(found[1]) > 0


def _source(x: Tensor, between: list[Tensor], inner: Shape, width: Shape, *, leads_out: bool) -> Tensor:
    """Return what a matrix reads."""
    if inner == width and not leads_out:
        return x
    same = [each for each in between if each.shape[-len(inner) :] == inner]
    read = between if leads_out or not same else same
    return mixed(read or [x], inner)


def _stacked(weight: Weight) -> bool:
    """Return whether a parameter has a matrix for each of many experts."""
    return len(weight.axes) == 3 and weight.kind in ("routed-expert", "shared-expert")


def _experts(x: Tensor, between: list[Tensor], matrices: Tensor, weight: Weight, extra: Extra) -> Tensor:
    """The rows of the experts that each token has; a matrix reads the layer's width, or what an expert has made."""
    many, first, last = weight.axes
    rows: Shape = many if _SHARED.search(weight.name) or not extra.routed else (extra.routed,)
    made = [each for each in between if len(each.shape) > len(x.shape) and each.shape[-2] == rows[0]]
    inner, outer = (first, last) if (first == extra.width) != bool(made) else (last, first)
    source = mixed(made or [x], (*rows, *inner))
    for each in made:
        between.remove(each)
    return batched_mm(source, matrices, outer)
