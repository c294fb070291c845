"""What NCCL's communicators take on a GPU, from who exchanges what with whom.

Source: NCCL 2.30. transport/p2p.cc: the buffers of the three protocols (4 MiB, 120·640·8·8 B and 8·512·8·16 B) lie at
one or the other end of a connection, each end in pages of 2 MiB: 12 MiB for what a rank sends to and receives from one
peer over one channel. enqueue.cc (`runtimeConn`): connections are opened when an algorithm first uses them.
graph/connect.cc, graph/paths.cc: how many channels; 24 and 16 are what public logs of A100 and H100 nodes show.
PyTorch opens a communicator for each process group of several ranks when it first exchanges something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memcore.hardware import Accelerator, Overhead
from memcore.records import dataclass
from memcore.symbols import round_up
from memcore.units import MiB

PAIR = 12 * MiB
"""Of one peer and channel, both directions."""
_LINKED: Mapping[int, int] = {7: 12, 8: 24}
"""Channels of collectives over NVLink, by major compute capability."""
_LINKED_OTHERS = 16
_UNLINKED = 4
"""Channels over PCIe (twice the two rings that are found)."""
_REMOTE = 2
"""Channels to a peer on another node."""


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

    def bytes(self, accelerator: Accelerator | None) -> int:
        """Buffers of its connections; collectives share those that a ring and a tree both have."""
        channels = _channels(accelerator)
        around = min(self.ranks - 1, self.rings + self.trees, 2)
        each = 1 << (channels - 1).bit_length() if channels > _UNLINKED else _REMOTE
        return PAIR * (channels * around + each * self.peers + _REMOTE * self.remote)


def _channels(accelerator: Accelerator | None) -> int:
    if accelerator is None:
        return _LINKED_OTHERS
    if not accelerator.speed.link:
        return _UNLINKED
    return _LINKED.get(accelerator.major or 0, _LINKED_OTHERS)


def node(accelerator: Accelerator | None, gpus_per_node: int | None) -> int:
    """GPUs that reach each other without a network."""
    usual = 8 if accelerator is None else max(accelerator.speed.domain, 8)
    return min(usual, gpus_per_node) if gpus_per_node else usual


def opened(groups: Iterable[Communicator], accelerator: Accelerator | None) -> Overhead:
    """Return all of them together; at most twice as many channels and connections are opened."""
    expected = sum(group.bytes(accelerator) for group in groups if group.ranks > 1)
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
