"""Low-rank adapters of a Megatron model, each rank's part of them.

Source: Megatron-Bridge, src/megatron/bridge/peft/{lora,utils}.py: next to a matrix that is sharded by columns the first
factor is sharded over the low rank and the second one as the matrix is; next to one sharded by rows the first one is
sharded as the matrix is, and the second one by columns; next to one that every rank has, both are sharded by columns.
The experts of a rank share one adapter (`share_expert_adapters`), or have one each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from memcore.networks.network import Model, with_layers
from memcore.networks.parts import Experts
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Axis, Quotient, Shape, split_over

ALL = "all-linear"
USUAL = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
"""What Megatron-Bridge adapts where nothing is said."""
_LEFT_OUT = ("router", "gate")
"""Small layers that `all-linear` leaves out."""
_RANK: Axis = "ra"


def targets_of(model: Model) -> tuple[str, ...]:
    """Return the last parts of the names of linear layers."""
    found: dict[str, None] = {}
    for layer in model.network.kinds:
        for each in _linears(layer):
            found[each] = None
    return tuple(found)


@lru_cache(maxsize=64)
def adapted(model: Model, targets: tuple[str, ...], rank: int, dtype: str, dropout: float, *, each: bool) -> Model:
    """The model with everything frozen but the adapters that it gets; `each` expert one, or all of a rank the same."""
    network = with_layers(model.network, lambda layer: _adapted(layer, targets, dtype, dropout, each))
    whole = {"ra": rank, "tp": 1, "ep": 1, "etp": 1}
    return replace(model, network=replace(network, adapted=True), sizes={**model.sizes, **whole})


def _last(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


def _linears(part: Any) -> Iterator[str]:
    if isinstance(part, Linear):
        if _last(part.name) not in _LEFT_OUT:
            yield _last(part.name)
    elif isinstance(part, tuple):
        for item in part:
            yield from _linears(item)
    elif is_dataclass(part) and not isinstance(part, (Weight, Norm, type)):
        for item in fields(part):
            yield from _linears(getattr(part, item.name))
        if isinstance(part, Experts):
            yield from (_last(weight.name) for weight in part.experts if weight.name.endswith(".weight"))


def _adapted(part: Any, targets: Collection[str], dtype: str, dropout: float, each: bool) -> Any:
    if isinstance(part, Linear):
        return _linear(part, dtype, dropout) if _wanted(part.name, targets) else part
    if isinstance(part, tuple):
        return tuple(_adapted(item, targets, dtype, dropout, each) for item in part)
    if not is_dataclass(part) or isinstance(part, (Weight, Norm, type)):
        return part
    changed = {item.name: _adapted(getattr(part, item.name), targets, dtype, dropout, each) for item in fields(part)}
    if isinstance(part, Experts):
        matrices = [weight for weight in part.experts if weight.name.endswith(".weight")]
        wanted = [weight for weight in matrices if _wanted(weight.name, targets)]
        changed["adapters"] = tuple(factor for weight in wanted for factor in _factors(weight, dtype, each))
    return replace(part, **changed)


def _wanted(name: str, targets: Collection[str]) -> bool:
    last = _last(name)
    return last not in _LEFT_OUT and (ALL in targets or last in targets)


def _linear(part: Linear, dtype: str, dropout: float) -> Linear:
    narrow = part.split == "inner"
    outer = part.outer if part.split == "outer" else (Quotient(part.outer, "tp"),)
    return replace(
        part,
        adapter_dtype=dtype,
        adapter_dropout=dropout,
        adapter_ranks=_RANK if narrow else split_over(_RANK),
        adapter_outer=None if part.split == "outer" else outer,
    )


def _factors(weight: Weight, dtype: str, each: bool) -> Iterator[Weight]:
    """Yield an adapter next to the matrices of all experts of a rank."""
    many, outer, inner = weight.axes
    layer = weight.name.removesuffix(".weight")
    front: tuple[Shape, ...] = ((split_over(many[0], "ep"),),) if each else ()
    across = weight.split == "outer"
    ranks: Shape = (split_over(_RANK, "etp") if across else _RANK,)
    narrow: Shape = inner if across else (Quotient(inner, "etp"),)
    wide: Shape = (Quotient(outer, "etp"),)
    yield Weight(f"{layer}.lora_A.default.weight", (*front, ranks, narrow), "adapter", dtype=dtype)
    yield Weight(f"{layer}.lora_B.default.weight", (*front, wide, (_RANK,)), "adapter", dtype=dtype)
