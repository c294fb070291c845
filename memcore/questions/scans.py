"""What the kernels of recurrent mixers read and write: chunked scans, whose states pass from chunk to chunk in memory.

Each kernel reads its arguments once and writes its results once. What all heads of a group read is read for the group,
since their blocks run at the same time and find it in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memcore.networks.network import Model
from memcore.networks.parts import SpecialMixer
from memcore.networks.recurrences import DELTA_CHUNK
from memcore.symbols import Axis, Shape, measure

Term = tuple[Shape, Axis, float, float]
"""Elements of a token, a product of axes over an axis, and bytes of each that a forward and a backward pass move."""


def _delta(values: Axis) -> Sequence[Term]:
    """Return what the gated delta rule moves: of keys and queries, of values of this width, of states, of scores.

    fla-org/flash-linear-attention, ops/gated_delta_rule/chunk.py with norms of queries and keys in the kernel: forward
    `l2norm_fwd` twice (8 bytes of an element of a key), `chunk_gated_delta_rule_fwd_intra` (6, and values 4),
    `..._fwd_h` (4 and 4) and `chunk_fwd_o` (4 and 4); backward `recompute_w_u_fwd` (4 and 4), `..._fwd_h` (4 and 4),
    `chunk_bwd_dv_local` (4 and 4), `..._bwd_dhu` (6 and 6), `chunk_bwd_dqkwg` (10 and 6), `prepare_wy_repr_bwd` (6 and
    6), the sum of both gradients of keys (6) and `l2norm_bwd` twice (12). States of chunks are in 16 bits.
    """
    return (
        (("B", "dk"), 1, 22, 52),
        (("B", values), 1, 12, 30),
        (("B", "dk", values), DELTA_CHUNK, 4, 8),
        (("B", DELTA_CHUNK), 1, 4, 4),
    )


SCANS: Mapping[Shape, Sequence[Term]] = {
    ("H", "W", "N"): (
        (("H", "W"), 1, 6, 22),
        (("H", "W", "N"), "q", 12, 34),
        (("G", "N"), 1, 8, 54),
        (("G", "q"), 1, 8, 32),
        (("H",), 1, 26, 134),
        (("H", "q"), 32, 0, 8),
    ),
    ("B", "dk", "dv"): _delta("dv"),
    ("B", "dk", "dk"): _delta("dk"),
}
"""By the state that passes from chunk to chunk. Mamba 2: inputs, states of chunks, B and C, their scores, time steps.

state-spaces/mamba, ops/triton/ssd_combined.py: forward `_chunk_cumsum_fwd`, `_chunk_state_fwd`, `_state_passing_fwd`,
`_bmm_chunk_fwd` and `_chunk_scan_fwd`, whose states of chunks are written and read in fp32, then in 16 bits; backward
the first four again, with states in fp32, `_chunk_scan_bwd_dstates`, `_state_passing_bwd`,
`_chunk_scan_chunk_state_bwd_dx`, `_chunk_state_bwd_db`, `_chunk_scan_bwd_dC`, `_chunk_scan_bwd_dcb`, `_bmm_chunk_bwd`
twice and `_chunk_scan_bwd_ddAcs_stable`. Kimi's decays, one for each channel of a key, are not counted.
"""

AROUND: Mapping[Shape, Sequence[Term]] = {
    ("H", "W", "N"): ((("X",), 1, 4, 10), (("H", "W"), 1, 6, 10)),
    ("B", "dk", "dv"): ((("X",), 1, 4, 10), (("B", "dv"), 1, 6, 10)),
    ("B", "dk", "dk"): ((("X",), 1, 4, 10), (("B", "dk"), 1, 6, 10)),
}
"""The convolution, which runs again in the backward pass, and the gated norm (Dao-AILab/causal-conv1d;
state-spaces/mamba, ops/triton/layernorm_gated.py)."""


def moved(model: Model, kernels: Mapping[Shape, Sequence[Term]]) -> tuple[float, float]:
    """Return bytes that such kernels of all layers move for a token in a forward and in a backward pass."""
    forward = backward = 0.0
    for part, times in _recurrent(model):
        for axes, over, ahead, back in kernels.get(part.state[-1], ()):
            elements = times * model.size(axes) / measure(over, model.sizes)
            forward, backward = forward + elements * ahead, backward + elements * back
    return forward, backward


def _recurrent(model: Model) -> Iterator[tuple[SpecialMixer, int]]:
    for layer, times in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, SpecialMixer) and mixer.state:
                yield mixer, times
