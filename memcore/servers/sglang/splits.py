"""What FlashAttention 3 keeps while it merges the parts into which it splits a sequence's keys.

A captured graph has room for as many parts as one long sequence alone would be split into, for each of its sequences:
7.1 GiB of 512 sequences of DeepSeek-V3 whose ranks have all 128 heads (sglang, issue 11086 says 7). Sources:
Dao-AILab/flash-attention, hopper/flash_api.cpp (`get_num_splits`, `out_accum`) and hopper/heuristics.h
(`num_splits_heuristic`), hopper/tile_size.h; sglang, srt/layers/attention/flashattention_backend.py.
"""

from __future__ import annotations

from memcore.hardware import HOPPER
from memcore.networks.parts import Attention, LatentAttention, Mixer
from memcore.serving.devices import device_of
from memcore.serving.job import ServingJob
from memcore.serving.stages import Stage
from memcore.symbols import product

_SINCE = (0, 4, 6)
"""The first release that was read to choose it on Hopper unasked."""
_MOST, _SHARE, _FEW = 128, 0.85, 4
"""Parts at most, the share of the best occupancy that is enough, and blocks of keys that are not split."""
_QUERIES, _LATENT_QUERIES, _KEYS = 128, 64, 128
"""Rows of queries in a tile, with latent vectors fewer, and keys (tile_size.h; heads of 128)."""


def splits(tiles: int, multiprocessors: int, blocks: int) -> int:
    """Return into how many parts keys are split where `tiles` tiles of queries read them.

    >>> splits(1, 132, 1280), splits(2, 132, 1280), splits(120, 132, 1280)
    (109, 57, 1)
    """
    if tiles >= 0.8 * multiprocessors or blocks <= _FEW:
        return 1
    most = min(_MOST, multiprocessors, blocks)
    waves = [tiles * each / multiprocessors for each in range(1, most + 1)]
    found = [each / -(-each // 1) for each in waves]
    return next(number for number, each in enumerate(found, 1) if each >= _SHARE * max(found))


def accumulators(job: ServingJob, stage: Stage, sequences: int, number: tuple[int, ...]) -> int:
    """Return bytes of the parts' results in fp32, of the widest layer."""
    accelerator = job.accelerator
    if accelerator is None or accelerator.major != HOPPER or number < _SINCE:
        return 0
    return max((_each(job, mixer) for layer in stage.kinds for mixer in layer.mixers), default=0) * sequences


def _each(job: ServingJob, mixer: Mixer) -> int:
    """Return bytes of a sequence; sinks, sparse attention and windows have other kernels or few blocks."""
    sizes, ranks = job.basics.sizes, job.basics.layout.tensor
    if isinstance(mixer, LatentAttention) and not mixer.indexer and not mixer.reuses:
        heads, keys, width = product((mixer.heads.query,), sizes) // ranks, 1, sizes["lk"]
        rows = _LATENT_QUERIES
    elif isinstance(mixer, Attention) and mixer.sinks is None and mixer.mask == "full":
        heads = -(-product((mixer.heads.query,), sizes) // ranks)
        keys = -(-product((mixer.heads.key,), sizes) // ranks)
        width, rows = product((mixer.heads.value,), sizes), _QUERIES
    else:
        return 0
    tiles = keys * -(-max(heads // keys, 1) // rows)
    count = splits(tiles, device_of(job.accelerator).multiprocessors, -(-job.basics.max_model_len // _KEYS))
    return 4 * count * heads * width if count > 1 else 0
