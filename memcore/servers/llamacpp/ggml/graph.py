"""The operations of ggml: what tensor each yields, and the order in which a graph computes them.

Source: `ggml/src/ggml.c` of ggml 0.25. An operation appends nothing to the graph by itself: `expand` does so for a
result and what it depends on (`ggml_build_forward_expand`).
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.servers.llamacpp.ggml.tensor import Tensor, contiguous_strides


class Graph:
    """Nodes in the order of computation, and leaves."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leaves: list[Tensor] = []
        self._seen: set[int] = set()

    def expand(self, *results: Tensor) -> None:
        """Append results with everything they depend on, each once, operands first from left to right."""
        for result in results:
            stack: list[tuple[Tensor, int]] = [(result, 0)]
            if id(result) in self._seen:
                continue
            self._seen.add(id(result))
            while stack:
                node, place = stack.pop()
                if place < len(node.src):
                    stack.append((node, place + 1))
                    source = node.src[place]
                    if id(source) not in self._seen:
                        self._seen.add(id(source))
                        stack.append((source, 0))
                else:
                    (self.leaves if node.op == "NONE" else self.nodes).append(node)


def leaf(kind: str, *ne: int, name: str = "", is_input: bool = False) -> Tensor:
    """Return a tensor that nothing computes."""
    found = Tensor(kind, ne)
    found.name, found.input = name, is_input
    return found


def apply(op: str, tensor: Tensor, *others: Tensor | None) -> Tensor:
    """Return a result like the first operand: sums, products, activations, norms, rotations, softmax."""
    return Tensor(tensor.type, tensor.ne, op, (tensor, *others))


def view(
    tensor: Tensor, ne: Sequence[int], nb: Sequence[int] | None = None, offset: int = 0, op: str = "VIEW"
) -> Tensor:
    """Part of a tensor; `nb`: the strides of its axes from the second on."""
    found = Tensor(tensor.type, ne, op, (tensor,), tensor)
    if nb is not None:
        strides = (tensor.nb[0], *nb)
        while len(strides) < 4:
            strides = (*strides, strides[-1] * found.ne[len(strides) - 1])
        found.nb = strides
    found.offset = tensor.offset + offset
    return found


def reshape(tensor: Tensor, *ne: int) -> Tensor:
    """Return the elements with other axes."""
    return view(tensor, ne, op="RESHAPE")


def permute(tensor: Tensor, *axes: int) -> Tensor:
    """Axis i of the operand becomes axis `axes[i]`."""
    found = view(tensor, tensor.ne, op="PERMUTE")
    ne, nb = [0] * 4, [0] * 4
    for source, target in enumerate(axes):
        ne[target], nb[target] = tensor.ne[source], tensor.nb[source]
    found.ne, found.nb = tuple(ne), tuple(nb)
    return found


def transpose(tensor: Tensor) -> Tensor:
    """Swap the first two axes."""
    found = permute(tensor, 1, 0, 2, 3)
    found.op = "TRANSPOSE"
    return found


def cont(tensor: Tensor, *ne: int) -> Tensor:
    """Return a copy without gaps, with other axes if given."""
    return Tensor(tensor.type, ne or tensor.ne, "CONT", (tensor,))


def cast(tensor: Tensor, kind: str) -> Tensor:
    """Return a copy in another type (`ggml_cast`)."""
    return Tensor(kind, tensor.ne, "CPY", (tensor,))


def mul_mat(matrix: Tensor, tensor: Tensor) -> Tensor:
    """Rows of the tensor times rows of the matrix."""
    return Tensor("F32", (matrix.ne[1], *tensor.ne[1:]), "MUL_MAT", (matrix, tensor))


def mul_mat_id(experts: Tensor, tensor: Tensor, ids: Tensor) -> Tensor:
    """Return every token's rows times the matrices of its experts."""
    return Tensor("F32", (experts.ne[1], ids.ne[0], tensor.ne[2]), "MUL_MAT_ID", (experts, tensor, ids))


def gated(op: str, tensor: Tensor, up: Tensor | None = None) -> Tensor:
    """Return an activation times an up projection: another tensor's, or the second half of each row (`ggml_glu`)."""
    width = tensor.ne[0] if up is not None else tensor.ne[0] // 2
    return Tensor(tensor.type, (width, *tensor.ne[1:]), op, (tensor, up))


def get_rows(tensor: Tensor, ids: Tensor) -> Tensor:
    """Rows by number."""
    kind = "I32" if tensor.type == "I32" else "F32"
    return Tensor(kind, (tensor.ne[0], *ids.ne[:3]), "GET_ROWS", (tensor, ids))


def set_rows(tensor: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Writes rows into a tensor."""
    found = Tensor(tensor.type, tensor.ne, "SET_ROWS", (rows, ids, tensor), tensor)
    found.nb, found.offset = tensor.nb, tensor.offset
    return found


def copy(tensor: Tensor, target: Tensor) -> Tensor:
    """Writes a tensor into another."""
    found = Tensor(target.type, target.ne, "CPY", (tensor, target), target)
    found.nb, found.offset = target.nb, target.offset
    return found


def scale_inplace(tensor: Tensor) -> Tensor:
    """Return a tensor scaled in its own memory (`ggml_scale_inplace`)."""
    found = view(tensor, tensor.ne, op="SCALE")
    found.nb = tensor.nb
    return found


def flash_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, sinks: Tensor | None = None) -> Tensor:
    """Softmax attention in one kernel; heads come second in its result."""
    return Tensor("F32", (v.ne[0], q.ne[2], q.ne[1], q.ne[3]), "FLASH_ATTN_EXT", (q, k, v, mask, sinks))


def top(tensor: Tensor, count: int) -> Tensor:
    """Numbers of the largest elements of each row: a full sort, of which the first are shown."""
    order = Tensor("I32", tensor.ne, "ARGSORT", (tensor,))
    return view(order, (count, *tensor.ne[1:]), order.nb[1:])


def sum_rows(tensor: Tensor) -> Tensor:
    """Sums of rows."""
    return Tensor(tensor.type, (1, *tensor.ne[1:]), "SUM_ROWS", (tensor,))


def concat(first: Tensor, second: Tensor) -> Tensor:
    """Concatenate two tensors along their first axis."""
    return Tensor(first.type, (first.ne[0] + second.ne[0], *first.ne[1:]), "CONCAT", (first, second))


def shaped(op: str, ne: Sequence[int], *operands: Tensor | None) -> Tensor:
    """Return the fp32 result of an operation with a shape of its own."""
    return Tensor("F32", ne, op, operands)


def strides(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides that it would have without gaps."""
    return contiguous_strides(tensor.type, tensor.ne)
