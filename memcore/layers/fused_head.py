"""Fused heads: log-probabilities from hidden states, a part of the logits at a time, so that all never exist at once.

TRL's go tile by tile of tokens and words: trl 1.16, kernels/chunked_logprob.py (`ChunkedLogProbFunction`: a tile has at
most 4,096 tokens; gradients are added up in fp32) and trainer/utils.py (`add_fused_lm_head`: rows whose labels count
are copied; 32,768 words a tile). prime-rl's have some words of all tokens at a time, or of some, in plain PyTorch:
src/prime_rl/trainer/models/layers/lm_head.py of January 2026 (`_ChunkedLogProbEntropyFn`) and of March
(`_SequenceChunkedLogProbEntropyFn`).
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import in_order, like, new, to
from memcore.tensors.images import rows_at
from memcore.tensors.tensor import Parameter, Tensor

_TOKENS, _WORDS = 4096, 32768
_ROWS, _COLUMNS, _PART, _CHUNK = "lt", "lv", "lr", "lw"
"""Symbols for the tokens and the words of a tile, and of a chunk."""
_RECORDED = 3
"""Chunks that stand for all of them: a first one, and others after another."""
_STATISTICS = 7
"""Numbers of each token in fp32 while tiles are folded in: maximum, sums, the target's logit and so on."""


def tile_sizes(rows: int, vocabulary: int, tokens: int | None, words: int) -> Mapping[str, int]:
    """Return the tokens and the words of a tile, and of a chunk, which has all tokens unless some are given."""
    return {
        _ROWS: min(rows, _TOKENS),
        _COLUMNS: min(vocabulary, _WORDS),
        _PART: min(rows, tokens or rows),
        _CHUNK: min(vocabulary, words),
    }


def log_probabilities(hidden: Tensor, weight: Parameter) -> Tensor:
    """The targets' log-probabilities; keeps the copied rows and two numbers of each, and makes each tile again."""
    tape, rows = hidden.tape, hidden.shape[:-1]
    x = rows_at(hidden, new(tape, rows, "bool", "fused_head_rows"), rows)
    dtype = tape.autocast or x.dtype
    targets = new(tape, rows, "int64", "fused_head_rows")
    statistics = [new(tape, rows, "fp32", "fused_head_rows") for _ in range(_STATISTICS)]
    _tile(x, weight, dtype)
    kept = [new(tape, rows, "fp32", "fused_head_rows") for _ in range(2)]
    out = new(tape, rows, "fp32", "fused_head_rows")
    del statistics
    needs = tracked(weight)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_x = like(saved[0], "input_gradient", "fp32")
        for_weight = new(tape, weight.shape, "fp32", "weight_gradient") if needs else None
        _tile(saved[0], weight, dtype)
        found = to(for_x, saved[0].dtype)
        del for_x
        return [found, None if for_weight is None else to(for_weight, weight.dtype)]

    if tracked(x, weight):
        attach([out], [x, weight], save(tape, x, weight, targets, *kept), apply)
    return out


def folded_log_probabilities(hidden: Tensor, weight: Parameter, *, whole: bool = True) -> Tensor:
    """Return the targets' log-probabilities from chunks of words, of all tokens at a time (`whole`) or of some.

    The backward pass computes the chunks again. The head's gradient is computed even if it is not needed: the function
    returns it in any case.
    """
    tape, rows = hidden.tape, hidden.shape[:-1]
    x = hidden if hidden.contiguous else in_order([hidden])
    heat = new(tape, rows, "fp32", "fused_head_rows")
    some: Shape = rows if whole else (_PART,)
    if whole:
        statistics = [new(tape, rows, "fp32", "fused_head_rows") for _ in range(4)]
        _fold(x, some)
        norm = new(tape, rows, "fp32", "fused_head_rows")
        out, entropy = (new(tape, rows, "fp32", "fused_head_rows") for _ in range(2))
    else:
        out, entropy, norm = (new(tape, rows, "fp32", "fused_head_rows") for _ in range(3))
        statistics = [new(tape, some, "fp32", "fused_head_rows") for _ in range(4)]
        _fold(x, some)
    del statistics

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_x, for_weight = like(saved[0], "input_gradient"), new(tape, weight.shape, saved[0].dtype, "weight_gradient")
        _unfold(saved[0], weight, some)
        return [for_x, for_weight if tracked(weight) else None]

    if tracked(x, weight):
        attach([out, entropy], [x, weight], save(tape, x, weight, heat, norm), apply)
    return out


def _fold(x: Tensor, rows: Shape) -> None:
    """Record the chunks' logits in the forward pass.

    A name keeps its tensor until the next chunk's takes its place, as in the original. `_unfold` begins alike: a
    common function would return both at once and free the former ones later.
    """
    for _ in range(_RECORDED):
        logits = _chunk(x, rows, x.dtype)
        upcast = _chunk(x, rows)
        scaled = _chunk(x, rows)
        del upcast
        shifted = _chunk(x, rows)
        powers = _chunk(x, rows)
        del shifted
        products = _chunk(x, rows)
        del products, powers
    del logits, scaled


def _unfold(x: Tensor, weight: Parameter, rows: Shape) -> None:
    """Record the chunks' logits in the backward pass, with their probabilities and gradients."""
    for _ in range(_RECORDED):
        logits = _chunk(x, rows, x.dtype)
        upcast = _chunk(x, rows)
        scaled = _chunk(x, rows)
        del upcast
        shifted = _chunk(x, rows)
        probabilities = _chunk(x, rows)
        del shifted
        found = _chunk(x, rows)
        found = _chunk(x, rows)  # chained through the temperature
        half = _chunk(x, rows, x.dtype)
        part = new(x.tape, (*rows, *weight.inner), x.dtype, "input_gradient")
        del half, part
        half = _chunk(x, rows, x.dtype)
        part = new(x.tape, (_CHUNK, *weight.inner), x.dtype, "weight_gradient")
        del half
    del logits, scaled, probabilities, found, part


def _chunk(x: Tensor, rows: Shape, dtype: str = "fp32") -> Tensor:
    """Logits of these tokens and some words, or what is computed of them."""
    return new(x.tape, (*rows, _CHUNK), dtype, "fused_head_chunk")


def _tile(x: Tensor, weight: Parameter, dtype: str) -> None:
    """Logits of a tile, and copies of its rows and words in the dtype of the product."""
    tile: Shape = (_ROWS, _COLUMNS)
    parts = [new(x.tape, tile, dtype, "fused_head_tile")]
    parts += [new(x.tape, (_ROWS, *weight.inner), dtype, "to")] if x.dtype != dtype else []
    parts += [new(x.tape, (_COLUMNS, *weight.inner), dtype, "to")] if weight.dtype != dtype else []
    del parts
