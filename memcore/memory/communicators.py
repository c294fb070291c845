"""What NCCL's communicators take on a GPU, from who exchanges what with whom.

Source: NCCL 2.30. transport/p2p.cc: the buffers of the three protocols (4 MiB, 120·640·8·8 B and 8·512·8·16 B) lie at
one or the other end of a connection, each end in pages of 2 MiB: 12 MiB for what a rank sends to and receives from one
peer over one channel. enqueue.cc (`runtimeConn`): connections are opened when an algorithm first uses them.
graph/search.cc, graph/connect.cc, graph/paths.cc (`ncclTopoGetNchannels`): how many channels. PyTorch opens a
communicator for each process group of several ranks when it first exchanges something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memcore.hardware import Accelerator, Overhead
from memcore.records import dataclass
from memcore.symbols import round_up
from memcore.units import MiB

PAIR = 12 * MiB
"""Of one peer and channel, both directions."""
_LINK: Mapping[int, int] = {10: 100}
"""GB/s of one NVLink, both directions, by major compute capability."""
_LINK_OTHERS = 50
_RINGS: Mapping[int, int] = {10: 16}
"""Rings that the search ends with at most, by major compute capability (graph/search.cc, `sm90SpeedArrayIntra`)."""
_RINGS_OTHERS = 12
_ACROSS = 16
"""Channels of collectives between nodes with eight adapters, and of GPUs that are not NVIDIA's."""
_UNLINKED = 4
"""Channels over PCIe (twice the two rings that are found)."""
_REMOTE = 2
"""Channels to each peer where one is on another node."""
_SHARP: Mapping[int, int] = {9: 16, 10: 32}
"""Channels over a switch that sums, by major compute capability (transport/nvls.cc)."""
_SHARED = 2 * MiB
"""Of such a channel for each rank of the node: eight chunks of 128 KiB each way."""
_HEADS = 32
"""Ranks that a channel over the switch has at most (device.h, `NCCL_MAX_NVLS_ARITY`)."""
_FEWEST = 3
"""Ranks of a node from which on the switch sums (`ncclNvlsInit`)."""


@dataclass(frozen=True, slots=True)
class Communicator:
    """A process group of several ranks."""

    name: str
    ranks: int
    rings: bool = False
    """It gathers and scatters, or sums much at once."""
    trees: bool = False
    """It sums little at once."""
    peers: int = 0
    """Ranks of the same node that a rank sends to one by one."""
    remote: int = 0
    """Ranks of other nodes that it does so with."""
    apart: int = 1
    """How many of the job's ranks further its next one is."""

    def bytes(self, accelerator: Accelerator | None, near: int) -> int:
        """Return the buffers of its connections; collectives share those that a ring and a tree both have.

        `near`: GPUs of a node.
        """
        across = self.ranks * self.apart > near
        channels = _channels(accelerator, across=across)
        around = min(self.ranks - 1, self.rings + self.trees, 2)
        few = across or self.remote or channels <= _UNLINKED
        each = _REMOTE if few else 1 << (channels - 1).bit_length()
        pairs = channels * around + each * (self.peers + self.remote)
        return PAIR * pairs + self._summed(accelerator, near)

    def _summed(self, accelerator: Accelerator | None, near: int) -> int:
        """Return the buffers for NVLink SHARP, which sums and gathers in the switch."""
        ranks = min(self.ranks, near // self.apart)
        if accelerator is None or not accelerator.speed.link or not self.rings or ranks < _FEWEST:
            return 0
        return _SHARED * _SHARP.get(accelerator.major or 0, 0) * min(ranks, _HEADS)


def _channels(accelerator: Accelerator | None, *, across: bool) -> int:
    """Return the channels of collectives: two for each ring, which go over as many links of NVLink.

    Public logs have 24 for an A100 and an H100, 16 for an H800 and 32 for a B200, each of nodes of eight.
    """
    if accelerator is None or accelerator.major is None:
        return _ACROSS
    if not accelerator.speed.link:
        return _UNLINKED
    links = int(accelerator.speed.link / _LINK.get(accelerator.major, _LINK_OTHERS))
    found = 2 * min(links, _RINGS.get(accelerator.major, _RINGS_OTHERS))
    return min(found, _ACROSS) if across else found


def node(accelerator: Accelerator | None, gpus_per_node: int | None) -> int:
    """GPUs that reach each other without a network."""
    usual = 8 if accelerator is None else max(accelerator.speed.domain, 8)
    return min(usual, gpus_per_node) if gpus_per_node else usual


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a job reaches."""

    ranks: int
    """Its GPUs."""
    stages: int
    """Of them in a row of a pipeline."""
    accelerator: Accelerator | None
    gpus_per_node: int | None

    @property
    def near(self) -> int:
        """Return the GPUs that need no network between them."""
        return node(self.accelerator, self.gpus_per_node)

    def in_a_row(self, width: int) -> Communicator:
        """Return the pipeline's group, where a stage is `width` ranks, which lie next to each other."""
        neighbours = min(self.stages - 1, 2)
        near = neighbours if width < self.near else 0
        return Communicator("pipeline", self.stages, peers=near, remote=neighbours - near)

    def to_all(self, name: str, ranks: int) -> Communicator:
        """Return a group whose ranks send to each other one by one."""
        peers = min(ranks, self.near) - 1
        return Communicator(name, ranks, peers=peers, remote=ranks - 1 - peers)


def groups_of_mesh(sizes: Mapping[str, int], extent: Extent) -> tuple[Communicator, ...]:
    """Return the groups of a device mesh: what shards or replicates, and what has parts of layers.

    Source: torch/distributed/device_mesh.py: a dimension that is the whole world has the default group.
    """
    tensor, contexts = sizes.get("tp", 1), sizes.get("cp", 1)
    data = extent.ranks // (tensor * extent.stages)
    return (
        Communicator("world", extent.ranks if extent.ranks > data else 1, trees=True),
        Communicator("data", data, rings=True, trees=True, apart=tensor),
        Communicator("tensor", tensor, rings=True, trees=True),
        Communicator("context", contexts, peers=min(contexts - 1, 2)),
        extent.in_a_row(data * tensor),
        extent.to_all("experts", sizes.get("ep", 1)),
    )


def opened(groups: Iterable[Communicator], extent: Extent) -> Overhead:
    """Return all of them together; at most twice as many channels and connections are opened."""
    expected = sum(group.bytes(extent.accelerator, extent.near) for group in groups if group.ranks > 1)
    return Overhead(expected // 2, expected, 2 * expected, "NCCL 2.30: peers, channels and buffers")


def deep_ep(tokens: int, hidden: int, chosen: int, ranks: int, near: int) -> int:
    """Return bytes of the buffer through which DeepEP sends tokens of bf16; `near` ranks reach each other over NVLink.

    Source: DeepEP 2, csrc/elastic/buffer.hpp (`calculate_buffer_size`): room for what all ranks may send, on the way
    to experts or back, whichever is more; a token is its hidden state and 4-byte numbers of the experts it chose.

    >>> deep_ep(4096, 2048, 6, 8, 8)  # 8 ranks × 4096 tokens × (4096 B + 80 B), in pages of 2 MiB
    138412032
    """
    far, near = -(-ranks // near), min(ranks, near)
    there = round_up(2 * hidden, _LINE) + round_up(8 * chosen + 4 * (chosen + 1), _LINE)
    back = round_up(2 * hidden, _LINE) + round_up(8 * chosen, _LINE)
    if far == 1:
        size = tokens * max(there * ranks, back * min(ranks, chosen))
    else:
        queues = far * (tokens + _CHANNELS)
        sent = there * (ranks * tokens + tokens + queues)
        size = max(sent, back * ((min(near, chosen) * far + min(far, chosen)) * tokens + queues))
    return round_up(size, _PAGE)


def hybrid_ep(tokens: int, hidden: int, experts: int, ranks: int, near: int, shared: bool) -> int:
    """Bytes of the buffers through which HybridEP sends tokens of bf16 and brings them back; `experts` are a rank's.

    Source: DeepEP's branch hybrid-ep, csrc/hybrid_ep/buffer/intranode.cu and internode.cu (`allocate_dispatch_buffers`,
    `allocate_combine_buffers`): room for the tokens of all ranks, each with 4-byte probabilities of the experts that a
    domain of NVLink holds and with scales, which both ways may share; between domains a rank's own tokens for each
    other one, twice on the way back.

    >>> hybrid_ep(4096, 7168, 4, 64, 64, shared=True)  # 64 ranks × 4096 tokens × (14336 B + 1024 B + 224 B)
    4085252096
    """
    far, near = -(-ranks // near), min(ranks, near)
    token, scales = 2 * hidden + 4 * experts * near, 4 * (hidden // _SCALED)
    return tokens * (ranks * (token * (1 if shared else 2) + scales) + (far - 1) * (3 * token + scales))


_SCALED = 128
"""Values of a hidden state with one scale."""
_LINE = 32
"""Bytes that parts of a token are aligned to."""
_PAGE = 2 * MiB
_CHANNELS = 8 * 160
"""Tokens of room in addition to those of a rank (`kNumMaxChannels`: 8 for each of 160 multiprocessors)."""
