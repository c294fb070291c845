"""Where parallelism puts a parameter: sharded along which axis, replicated, on which stage.

Sources: Megatron-LM (`core/tensor_parallel/layers.py`, `core/transformer/moe/experts.py`) and the `base_model_tp_plan`
of transformers' configurations: columns of the first matrix of a pair, rows of the second, vocabulary tables by rows.
"""

from __future__ import annotations

from memcore.networks.network import Network
from memcore.networks.weights import Weight
from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """How one tensor is placed."""

    tensor: int | None
    """The axis that tensor parallelism shards; None: every rank holds all of it."""
    expert: int | None
    """The axis that expert parallelism shards; None: it is not a routed expert's."""
    pipeline: str
    """Which stages hold it: that of its layer, the first, the last, or both."""


def placement(weight: Weight, name: str, network: Network) -> Placement:
    """Return the placement of a parameter, given its full name."""
    return Placement(_tensor_axis(weight), 0 if weight.kind == "routed-expert" else None, _stage(name, network))


def _tensor_axis(weight: Weight) -> int | None:
    if weight.kind == "routed-expert":
        # The experts' own width, wherever it stands; (E·m, h) has it in the first axis with the experts.
        return next((axis for axis, symbols in enumerate(weight.axes) if "m" in symbols and len(weight.axes) > 1), None)
    if weight.kind in ("embedding", "head"):
        return 0
    if weight.split is None:
        return None
    last = len(weight.axes) - 1
    return last if (weight.split == "inner") != weight.transposed else 0


def _stage(name: str, network: Network) -> str:
    embedding_and_head = network.embedding_and_head
    if name.startswith(f"{network.path}.*."):
        return "layer"
    if name.startswith(
        (f"{embedding_and_head.final_norm.name}.", f"{embedding_and_head.head.name}.")
        if embedding_and_head.final_norm
        else embedding_and_head.head.name
    ):
        return "last"
    return "first and last" if embedding_and_head.tied and name == embedding_and_head.embedding.name else "first"
