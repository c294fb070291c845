"""What CUDA keeps in memory longer than needed, because it fuses operations of expert layers into one kernel.

Source: `ggml_backend_cuda_graph_optimize` of ggml 0.25: a fused kernel reads its operands when it writes its result, so
they must not share memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.servers.llamacpp.ggml.tensor import Tensor


def kept(nodes: Sequence[Tensor]) -> Mapping[int, list[Tensor]]:
    """For a node (by identity) the tensors that must live until it is computed."""
    found: dict[int, list[Tensor]] = {}

    def keep(tensor: Tensor, until: Tensor) -> None:
        held = found.setdefault(id(until), [])
        if not any(tensor is each for each in held):
            held.append(tensor)

    place = 0
    while place < len(nodes):
        length = _weighted_sum(nodes, place)
        if length:
            for tensor in nodes[place].src:
                keep(tensor, nodes[place + length - 1])
            place += length - 1
        length = _choice(nodes, place)
        if length and place + length < len(nodes):
            for node in nodes[place : place + length]:
                for tensor in (node, *node.src):
                    keep(tensor, nodes[place + length])
            place += length - 1
        place += 1
    return found


MOST = 15
"""Chosen experts that the kernel of weighted sums takes."""


def _weighted_sum(nodes: Sequence[Tensor], place: int) -> int:
    """Nodes of Σ weight · expert from here on: a product, a view of each expert, and their sum."""
    first = nodes[place]
    if first.op != "MUL" or first.type != "F32" or len(first.src) < 2:
        return 0
    experts, weights = first.src[:2]
    if experts.ne != first.ne or weights.ne != (1, *first.ne[1:]) or not 2 <= first.ne[1] <= MOST:
        return 0
    count = first.ne[1]
    wanted = ["VIEW"] * count + ["ADD"] * (count - 1)
    rest = nodes[place + 1 : place + 2 * count]
    if [node.op for node in rest] != wanted or any(node.view is not first for node in rest[:count]):
        return 0
    return 2 * count


_GATES = ("SOFT_MAX", "SIGMOID")
_SORTED = ["ARGSORT", "VIEW", "GET_ROWS"]
_NORMALIZED = ["RESHAPE", "SUM_ROWS", "CLAMP", "DIV", "RESHAPE"]


def _choice(nodes: Sequence[Tensor], place: int) -> int:
    """Nodes of the choice of experts from here on: scores, a sort, and the weights of the first."""
    if place >= len(nodes) or nodes[place].op not in _GATES or len(nodes[place].src) > 1:
        return 0
    ops = [node.op for node in nodes[place : place + 14]]
    start = ["RESHAPE", "ADD"] if ops[1:3] == ["RESHAPE", "ADD"] else ["RESHAPE"]
    length = 1 + len(start) + len(_SORTED)
    experts = nodes[place].ne[0]
    fits = (experts & (experts - 1) == 0 and experts <= 512) or experts in {288, 576}
    if ops[1:length] != start + _SORTED or not fits:
        return 0
    if ops[length : length + 5] == _NORMALIZED:
        length += 5
    return length + 1 if ops[length : length + 1] == ["SCALE"] else length
