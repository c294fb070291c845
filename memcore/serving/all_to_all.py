"""Buffers through which ranks that share experts send tokens to each other.

Sources: deepseek-ai/DeepEP, csrc/legacy/config.hpp (`Config`, `LowLatencyLayout`), csrc/legacy/buffer.hpp (workspace),
deep_ep/buffers/legacy.py (`get_dispatch_config`, `get_combine_config`, NVSHMEM_CUMEM_GRANULARITY); flashinfer,
comm/trtllm_moe_alltoall.py (moe_a2a_get_workspace_size_per_rank) and include/flashinfer/comm/trtllm_alltoall.cuh
(getMoeCommWorkspaceSize).
"""

from __future__ import annotations

from memcore.memory.ledger import Entry, Range
from memcore.serving.entries import observed
from memcore.symbols import round_up
from memcore.units import MiB

NEAR = 8
"""Ranks that reach each other over NVLink (LEGACY_NUM_MAX_NVL_PEERS)."""
_CHANNELS = 20 // 2
"""Two multiprocessors each (`Buffer.num_sms`)."""
_WORKSPACE = 32 * MiB
"""LEGACY_NUM_WORKSPACE_BYTES."""
_HEAP = 512 * MiB
"""In which NVSHMEM's heap grows (NVSHMEM_CUMEM_GRANULARITY)."""
_META, _TOP_K, _SCALES = 8, 128, 128
"""Bytes of where a token comes from (`SourceMeta`), and the most experts and scales that a token may have."""
_BESIDE = _META + _TOP_K * (8 + 4) + _SCALES * 4
_CHUNKS = (
    (8, 256, 132), (16, 288, 140), (64, 288, 128), (96, 480, 132), (128, 560, 132), (160, 720, 132),
)  # fmt: skip
"""Up to how many ranks, and tokens of a chunk that arrives over NVLink and over RDMA, the latter rounded up to the
chunks that are sent; the larger of dispatch and combine."""


def low_latency_bytes(tokens: int, hidden: int, experts: int) -> int:
    """Return `get_low_latency_rdma_size_hint`: two send and two receive buffers with a message for each expert.

    >>> low_latency_bytes(128, 7168, 256) // 2**20
    1820
    """
    scales = hidden // 128
    dispatched = 16 + max(2 * hidden, hidden + 4 * scales)
    combined = 4 * scales + 2 * hidden
    sent = max(tokens * dispatched, experts * tokens * combined)
    received = experts * tokens * max(dispatched, combined)
    signals = round_up(4 * experts, 128)
    return ((2 * (sent + received + signals) + 128) // 128) * 128


def near_bytes(hidden: int, ranks: int) -> int:
    """Return `get_nvl_buffer_size_hint` of tokens in 16 bits.

    >>> near_bytes(7168, 8) // 2**20
    320
    """
    far, near = max(ranks // NEAR, 1), min(ranks, NEAR)
    chunk = _CHANNELS * near * _chunks(ranks)[0]
    found = _CHANNELS * near * (2 * far + 3) * 4 + chunk * (2 * hidden + _BESIDE)
    return round_up(found, 128)


def far_bytes(hidden: int, ranks: int) -> int:
    """Return `get_rdma_buffer_size_hint` of tokens in 16 bits; nothing within a node."""
    if ranks <= NEAR:
        return 0
    far = ranks // NEAR
    tokens = _chunks(ranks)[1]
    found = _CHANNELS * far * ((2 * NEAR + 2) * 2 * 4 + 2 * tokens * (2 * hidden + _BESIDE + 16))
    return round_up(found, 128)


def _chunks(ranks: int) -> tuple[int, int]:
    return next((row[1:] for row in _CHUNKS if ranks <= row[0]), _CHUNKS[-1][1:])


def deep_ep(near: int, far: int, source: str) -> list[Entry]:
    """DeepEP's buffers of one rank: over NVLink, over RDMA, and its workspace; NVSHMEM rounds its heap up."""
    fixed = near + _WORKSPACE
    heap = round_up(far, _HEAP)
    bounds = Range(fixed + far, fixed + heap, fixed + heap + (_HEAP if far else 0))
    text = "NVLink buffer + RDMA buffer in NVSHMEM's heap + workspace"
    return [observed("DeepEP buffers", "outside the allocator", bounds, source, text)]


_ALIGNED = 128
_ID_AND_WEIGHT = 8
"""Bytes of an expert's number and of its weight, which go with a token."""
_QUEUE, _QUEUES = 8 * 256 * 1024, 8
"""Bytes of a queue (RECV_FIFO_TOTAL_BYTES), and how many each pair of ranks has (CHANNEL_COUNT)."""


def one_sided_bytes(tokens: int, hidden: int, chosen: int, ranks: int, *, sent: int) -> int:
    """Return `moe_a2a_get_workspace_size_per_rank`; `sent`: bytes of a token's hidden states on the way to experts.

    >>> one_sided_bytes(8192, 7168, 8, 8, sent=7168 // 2 + 7168 // 16) // 2**20
    1152
    """
    there, back = sent + chosen * _ID_AND_WEIGHT, 2 * hidden
    return sum(round_up(ranks * tokens * each, _ALIGNED) for each in (there, back))


def flashinfer(size: int, source: str) -> list[Entry]:
    """Return a rank's part of memory that all ranks map, which is taken in pages."""
    bounds = Range(size, size, round_up(size, _HEAP))
    text = "slots for the tokens of all ranks, or queues"
    return [observed("FlashInfer's all-to-all workspace", "outside the allocator", bounds, source, text)]


def two_sided_bytes(ranks: int) -> int:
    """Return `getMoeCommWorkspaceSize`: queues for every other rank.

    >>> two_sided_bytes(8) // 2**20
    128
    """
    return _QUEUE * _QUEUES * ranks
