"""TRL's fused head: log-probabilities from hidden states, tile by tile of tokens and words, so that logits never exist.

Source: trl 1.16, kernels/chunked_logprob.py (`ChunkedLogProbFunction`: a tile has at most 4,096 tokens; gradients are
added up in fp32) and trainer/utils.py (`add_fused_lm_head`: rows whose labels count are copied; 32,768 words a tile).
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, to
from memcore.tensors.images import rows_at
from memcore.tensors.tensor import Parameter, Tensor

_TOKENS, _WORDS = 4096, 32768
_ROWS, _COLUMNS = "lt", "lv"
"""Symbols for the tokens and the words of a tile."""
_STATISTICS = 7
"""Numbers of each token in fp32 while tiles are folded in: maximum, sums, the target's logit and so on."""


def tile_sizes(rows: int, vocabulary: int) -> Mapping[str, int]:
    """Return the tokens and the words of a tile."""
    return {_ROWS: min(rows, _TOKENS), _COLUMNS: min(vocabulary, _WORDS)}


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


def _tile(x: Tensor, weight: Parameter, dtype: str) -> None:
    """Logits of a tile, and copies of its rows and words in the dtype of the product."""
    tile: Shape = (_ROWS, _COLUMNS)
    parts = [new(x.tape, tile, dtype, "fused_head_tile")]
    parts += [new(x.tape, (_ROWS, *weight.inner), dtype, "to")] if x.dtype != dtype else []
    parts += [new(x.tape, (_COLUMNS, *weight.inner), dtype, "to")] if weight.dtype != dtype else []
    del parts
