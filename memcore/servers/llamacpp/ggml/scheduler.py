"""Which device computes a node, what it needs copied for that, and the buffers that follow.

Source: `ggml_backend_sched_split_graph` in `ggml/src/ggml-backend.cpp` of ggml 0.25. The last device is the host.
Operations run where their weights are; their neighbours join them, GPUs first. Where a run of nodes needs a tensor of
another device, a copy of it is allocated when the run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from memcore.records import dataclass
from memcore.servers.llamacpp.ggml.allocator import Allocator, Reserved
from memcore.servers.llamacpp.ggml.graph import Graph
from memcore.servers.llamacpp.ggml.tensor import Tensor

VIEWS = frozenset({"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"})
COPIES = 4
"""Of inputs when several GPUs work on different micro-batches at once (`GGML_SCHED_MAX_COPIES`)."""

Node = tuple[Tensor, str]


@dataclass(frozen=True, slots=True)
class Device:
    """A device with a backend."""

    name: str
    alignment: int
    size_of: Callable[[Tensor], int]
    """What a tensor takes in its buffers."""
    supports: Callable[[Tensor], bool]
    """The operations that it can compute."""
    offloads: Callable[[Tensor], bool] = lambda node: False
    """Operations that it takes over although the weights lie on the host."""


@dataclass(slots=True)
class _Split:
    device: str
    nodes: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)


class Scheduler:
    """Assigns the nodes of one graph to devices."""

    def __init__(self, devices: Sequence[Device], *, parallel: bool = False, offload: bool = True) -> None:
        self.devices = devices
        self.names = [device.name for device in devices]
        self.host = self.names[-1]
        self.copies = COPIES if parallel else 1
        self.offload = offload
        self._by_name = {device.name: device for device in devices}
        self._device: dict[int, str] = {}
        self._copied: dict[tuple[int, str], list[Tensor]] = {}

    def buffers(
        self, graph: Graph, dependencies: Callable[[list[Tensor]], Dependencies] | None = None
    ) -> Mapping[str, Reserved]:
        """Each device's compute buffer; `dependencies`: what a GPU keeps until a later node."""
        self._assign(graph)
        splits = self._split(graph)
        nodes = self._nodes(splits, dependencies)
        leaves = self._leaves(graph, splits)
        alignments = {device.name: device.alignment for device in self.devices}
        return Allocator(alignments, lambda tensor, name: self._by_name[name].size_of(tensor)).run(nodes, leaves)

    def device_of(self, tensor: Tensor) -> str | None:
        """Return where a tensor of the graph is, after `buffers`."""
        return self._device.get(id(tensor))

    def _assign(self, graph: Graph) -> None:
        for tensor in [*graph.leaves, *graph.nodes]:
            found = self._fixed(tensor)
            if found is not None:
                self._device[id(tensor)] = found
        real = [node for node in graph.nodes if node.op not in VIEWS]
        for order in (real, real[::-1]):
            self._spread(order, skips_host=True)
        for order in (real, real[::-1]):
            self._spread(order, skips_host=False)
        for node in real:
            if id(node) not in self._device:
                self._device[id(node)] = self._most_inputs(node)
        for node in graph.nodes:
            self._inherit(node)

    def _fixed(self, tensor: Tensor) -> str | None:
        """Return where a tensor must be: its buffer, its weight's, or the host for inputs."""
        if tensor.pinned is not None:
            return tensor.pinned
        place = tensor.view.place if tensor.view is not None else tensor.place
        if place is not None:
            return self._holder(place, tensor)
        if tensor.input:
            return self.host
        if tensor.op in {"ROPE", "FLASH_ATTN_EXT"}:
            return None
        weight = next((source for source in tensor.src if source.weight), None)
        if weight is None or weight.place is None:
            return None
        home = self._holder(weight.place, tensor)
        if self.offload and home == self.host:
            for device in self.devices[:-1]:
                if device.supports(tensor) and device.offloads(tensor):
                    return device.name
        return home

    def _holder(self, place: str, tensor: Tensor) -> str | None:
        """Return the device of a buffer, if it can compute the node."""
        return place if self._by_name[place].supports(tensor) else None

    def _spread(self, nodes: Sequence[Tensor], *, skips_host: bool) -> None:
        current: str | None = None
        for node in nodes:
            found = self._device.get(id(node))
            if found is not None:
                current = None if skips_host and found == self.host else found
            elif current is not None and self._by_name[current].supports(node):
                self._device[id(node)] = current

    def _most_inputs(self, node: Tensor) -> str:
        able = [name for name in self.names if self._by_name[name].supports(node)]

        def held(name: str) -> int:
            return sum(self._home(source) == name for source in node.src)

        return max(able, key=lambda name: (held(name), -self.names.index(name)))

    def _home(self, tensor: Tensor) -> str | None:
        """Return the device whose memory holds a tensor."""
        owner = tensor.view if tensor.view is not None else tensor
        return owner.place or self._device.get(id(tensor)) or self._device.get(id(owner))

    def _inherit(self, node: Tensor) -> None:
        """Assign what has no backend to that of the tensor it views, or of the node that needs it."""
        if node.view is not None and id(node) not in self._device and id(node.view) in self._device:
            self._device[id(node)] = self._device[id(node.view)]
        for source in node.src:
            if id(source) not in self._device:
                shown = self._device.get(id(source.view)) if source.view is not None else self._device.get(id(node))
                if shown is not None:
                    self._device[id(source)] = shown
        if id(node) not in self._device:
            self._device[id(node)] = next(name for name in self.names if self._by_name[name].supports(node))

    def _split(self, graph: Graph) -> list[_Split]:
        first = next(node for node in graph.nodes if node.op not in VIEWS)
        splits = [_Split(self._device[id(first)])]
        for node in graph.nodes:
            if node.op not in VIEWS:
                device = self._device[id(node)]
                split = splits[-1]
                if device != split.device or (split.inputs and self._foreign_weight(node, device)):
                    splits.append(_Split(device))
                self._copy_inputs(node, splits[-1])
            splits[-1].nodes.append(node)
        return splits

    def _foreign_weight(self, node: Tensor, device: str) -> bool:
        """Return whether a weight must be copied; such a node begins a new run, which frees the former one's memory."""
        return any(source.weight and source.place != device for source in node.src)

    def _copy_inputs(self, node: Tensor, split: _Split) -> None:
        for place, source in enumerate(node.src):
            if self._device[id(source)] == split.device or self._home(source) == split.device:
                continue
            key = (id(source), split.device)
            if key not in self._copied:
                self._copied[key] = [self._copy(source) for _ in range(self.copies)]
                split.inputs.append(source)
            node.src[place] = self._copied[key][0]

    def _copy(self, tensor: Tensor) -> Tensor:
        found = Tensor(tensor.type, tensor.ne)
        found.nb = tensor.nb
        found.name = tensor.name
        found.input = found.output = self.copies > 1
        return found

    def _nodes(
        self, splits: Sequence[_Split], dependencies: Callable[[list[Tensor]], Dependencies] | None
    ) -> list[Node]:
        found: list[Node] = []
        for split in splits:
            for tensor in split.inputs:
                # the original must live until the copy is made
                held = Tensor(tensor.type, tensor.ne, src=(tensor,), view=tensor)
                found.append((held, self._device[id(tensor)]))
                found.append((self._copied[id(tensor), split.device][0], split.device))
            kept = dependencies(split.nodes) if dependencies and split.device != self.host else {}
            for node in split.nodes:
                found.append((node, self._device[id(node)]))
                if id(node) in kept:
                    tensors = kept[id(node)]
                    found.append((Tensor("F32", (1,), src=tensors, view=tensors[0]), split.device))
        return found

    def _leaves(self, graph: Graph, splits: Sequence[_Split]) -> list[Node]:
        """Copies of inputs come first, so that every micro-batch in flight has its own."""
        found: list[Node] = []
        if self.copies > 1:
            for tensor in (each for each in graph.leaves if each.input):
                tensor.output = True
                found += [(tensor, self._device[id(tensor)])]
                found += [(self._copy(tensor), self._device[id(tensor)]) for _ in range(self.copies - 1)]
            for split in splits:
                for tensor in split.inputs:
                    found += [(each, split.device) for each in self._copied[id(tensor), split.device]]
        return found + [(tensor, self._device.get(id(tensor), self.host)) for tensor in graph.leaves]


Dependencies = Mapping[int, list[Tensor]]
"""For a node (by identity) the tensors that must live until it is computed."""
