"""Routed experts as torchtitan keeps them: three tensors of all experts, which expert parallelism and FSDP divide.

Source: torchtitan/models/common/moe.py (`GroupedExperts`) and torchtitan/distributed/fsdp.py: routed experts are
sharded over the ranks that have the same experts (`efsdp`), by experts, or, where there are more ranks than experts, by
the experts' second axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from memcore.networks.network import Layer, Model, Network, with_layers
from memcore.networks.parts import Experts
from memcore.networks.weights import Norm, Weight
from memcore.symbols import Axis, Shape, split_over

RANKS, SHARDS, ROWS, ARRIVED = "ep", "ze", "er", "et"
"""Symbols: ranks among which experts are divided, ranks that share the same experts, rows that a rank's experts see,
tokens that these are of."""
FUSED_GATE = "fused-gate"
"""An option of experts: gate, up and the scores of rows meet in one kernel, whatever else is compiled."""
INTERLEAVED = "gpt_oss"
"""The variant whose experts have one matrix of gate and up, in every other column, and biases."""


def experts_of(network: Network) -> Iterator[Experts]:
    """Yield the sparse feed-forward layers of a network."""
    for layer in network.kinds:
        yield from (ffn for ffn in layer.ffns if isinstance(ffn, Experts))


def separated(model: Model, *, fused: bool = False) -> Model:
    """Split the experts' matrices into separate gate, down and up tensors; `fused`: their activation is one kernel."""
    options = frozenset({FUSED_GATE} if fused else ())
    return _changed(model, lambda part: replace(_separate(part), options=_separate(part).options | options))


def spelled_out(model: Model, *, casts_first: bool = False) -> Model:
    """Spell norms out as several operations, as PyTorch ran them before it had a kernel."""

    def composed(norm: Norm) -> Norm:
        return replace(norm, fused=False, casts_first=casts_first)

    embedding_and_head = model.network.embedding_and_head
    final = None if embedding_and_head.final_norm is None else composed(embedding_and_head.final_norm)
    network = with_layers(model.network, lambda layer: replace(layer, norms=tuple(map(composed, layer.norms))))
    return replace(model, network=replace(network, embedding_and_head=replace(embedding_and_head, final_norm=final)))


def divided(model: Model, *, crowded: bool) -> Model:
    """Return what one rank of expert parallelism has; `crowded`: there are more ranks than experts."""
    return _changed(model, lambda part: _divide(part, crowded=crowded))


def cut_crosswise(model: Model) -> Model:
    """Without expert parallelism, experts that more ranks share than there are experts are cut along another axis."""
    return _changed(model, _cut)


def _changed(model: Model, change: Callable[[Experts], Experts]) -> Model:
    def changed(layer: Layer) -> Layer:
        ffn = layer.feed_forward
        return replace(layer, feed_forward=change(ffn)) if isinstance(ffn, Experts) else layer

    return replace(model, network=with_layers(model.network, changed))


def _separate(part: Experts) -> Experts:
    many, chosen = part.router.outer, part.experts[0]
    name = chosen.name.rpartition(".")[0]
    inner = _width(part)
    if part.variant == INTERLEAVED:
        return replace(part, experts=_interleaved(part), options=part.options | {"normalized"})
    width = part.latent[0].outer if part.latent else part.router.inner
    wide = {"w1": (many, inner, width), "w2": (many, width, inner)}
    if part.gated:
        wide["w3"] = (many, inner, width)
    experts = tuple(
        Weight(f"{name}.{matrix}", axes, chosen.kind, split="inner" if matrix == "w2" else "outer")
        for matrix, axes in wide.items()
    )
    return replace(part, experts=experts, correction=None)


def _interleaved(part: Experts) -> tuple[Weight, ...]:
    """Return two matrices and their biases (torchtitan/models/gpt_oss/moe.py, `GptOssGroupedExperts`)."""
    many, chosen = part.router.outer, part.experts[0]
    name, inner = chosen.name.rpartition(".")[0], _width(part)
    axes: dict[str, tuple[Shape, ...]] = {
        "mlp1_weight": (many, (2, *inner), ("h",)),
        "mlp1_bias": (many, (2, *inner)),
        "mlp2_weight": (many, ("h",), inner),
        "mlp2_bias": (many, ("h",)),
    }
    return tuple(Weight(f"{name}.{matrix}", each, chosen.kind) for matrix, each in axes.items())


def _width(part: Experts) -> tuple[Axis, ...]:
    """The experts' own width: the axis of a matrix (biases lack it) that is neither experts nor what they are given."""
    given = (part.router.outer, part.router.inner, *(linear.outer for linear in part.latent))
    down = next((weight for weight in reversed(part.experts) if len(weight.axes) > 2), part.experts[-1])
    return next((axes for axes in down.axes if axes not in given), ("m",))


def _divide(part: Experts, *, crowded: bool) -> Experts:
    experts = tuple(
        replace(
            weight, axes=((split_over(weight.axes[0][0], RANKS),), *weight.axes[1:]), ranks=SHARDS, cut=int(crowded)
        )
        for weight in part.experts
    )
    return replace(part, experts=experts)


def _cut(part: Experts) -> Experts:
    return replace(part, experts=tuple(replace(weight, cut=1) for weight in part.experts))
