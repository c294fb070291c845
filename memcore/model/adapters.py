"""Adapters: low-rank matrices beside frozen ones, as PEFT adds them.

Source: peft/tuners/lora/layer.py and peft/tuners/tuners_utils.py (`_maybe_include_all_linear_layers`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from memcore.model.network import Model, Network
from memcore.model.weights import Linear, Weight
from memcore.symbols import Shape

ALL = "all-linear"
"""Every linear layer but the output head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What is added to linear layers."""

    kind: str = "lora"
    """A kind of `memcore.model.weights.Linear.adapter_kind`."""
    rank: int
    targets: Collection[str]
    """Last parts of the names of linear layers, or `all-linear`."""
    dtype: str
    """Of the added matrices; PEFT makes them fp32 beside half-precision weights."""
    dropout: float = 0.0
    frozen: bool = False
    """The first matrix of each does not learn (LoRA-FA)."""


_FEEDS = ("down_proj", "fc2", "dense_4h_to_h", "w2")
"""Linear layers whose input IA3 scales (peft/utils/constants.py, `TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD…`)."""


def shared_matrices(model: Model) -> tuple[tuple[str, Shape, str], ...]:
    """VeRA's two matrices, which all layers share: as large as the largest of them needs, with names and dtypes."""
    linears = [each for layer in model.network.kinds for each in _linears(layer) if each.adapter_kind == "vera"]
    if not linears:
        return ()
    inner = max(model.size(each.inner) for each in linears)
    outer = max(model.size(each.outer) for each in linears)
    dtype = linears[0].adapter_dtype or "fp32"
    return ("vera_A", ("ra", inner), dtype), ("vera_B", (outer, "ra"), dtype)


def adapted(model: Model, adapter: Adapter) -> Model:
    """The same model with everything frozen but the adapters that it gets."""
    network = model.network
    runs = tuple(tuple(_adapted(layer, adapter) for layer in run) for run in network.runs)
    changed = replace(network, runs=runs, adapted=True)
    return replace(model, network=changed, sizes={**model.sizes, "ra": adapter.rank})


def linear_names(network: Network) -> list[str]:
    """The last parts of the names of all linear layers in the decoder's layers."""
    found: dict[str, None] = {}
    for layer in network.kinds:
        for each in _linears(layer):
            found[each.name.rpartition(".")[2]] = None
    return list(found)


def _linears(part: Any) -> list[Linear]:
    if isinstance(part, Linear):
        return [part]
    if isinstance(part, tuple):
        return [each for item in part for each in _linears(item)]
    if is_dataclass(part) and not isinstance(part, Weight):
        return [each for item in fields(part) for each in _linears(getattr(part, item.name))]
    return []


def _adapted(part: Any, adapter: Adapter) -> Any:
    """The part with every targeted linear layer replaced."""
    if isinstance(part, Linear):
        name = part.name.rpartition(".")[2]
        if ALL not in adapter.targets and name not in adapter.targets:
            return part
        kind = "ia3-input" if adapter.kind == "ia3" and name in _FEEDS else adapter.kind
        part = replace(part, adapter_dtype=adapter.dtype, adapter_dropout=adapter.dropout)
        return replace(part, adapter_kind=kind, adapter_frozen=adapter.frozen)
    if isinstance(part, tuple):
        return tuple(_adapted(item, adapter) for item in part)
    if is_dataclass(part) and not isinstance(part, (Weight, type)):
        changed: Mapping[str, Any] = {
            item.name: _adapted(getattr(part, item.name), adapter) for item in fields(part) if item.init
        }
        return replace(part, **changed)
    return part


def trainable(model: Model) -> int:
    """Parameters that the optimizer sees."""
    every = model.tensors
    return sum(model.size(weight.shape) * count for weight, _, count in every if learns(weight, model.network))


def learns(weight: Weight, network: Network) -> bool:
    """Whether a parameter gets a gradient."""
    if network.trainable is not None:
        return weight.trainable and bool({weight.kind, *weight.name.split(".")} & set(network.trainable))
    return weight.trainable and (weight.kind == "adapter" or not network.adapted)
