"""Tables of rotations: what `RotaryEmbedding.forward` computes in fp32 for every position."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.symbols import Axis, Shape, half
from memcore.tensors.basics import cat, like, new, to
from memcore.tensors.tensor import Tape, Tensor


def cosines_and_sines(tape: Tape, dtype: str, width: Axis) -> tuple[Tensor, ...]:
    """Each angle twice, for both halves of what is rotated."""
    with tape.module("rotary_emb"), tape.no_grad():
        freqs = _frequencies(tape, width)
        emb = cat([freqs, freqs], ("s", width))
        cos = _scaled(like(emb, "rotary"))
        sin = _scaled(like(emb, "rotary"))
        return to(cos, dtype), to(sin, dtype)


def half_table(tape: Tape, dtype: str, width: Axis, rows: Shape = ("s",)) -> tuple[Tensor, ...]:
    """gpt-oss, DeepSeek-V4: one angle for both of a pair."""
    with tape.module("rotary_emb"), tape.no_grad():
        freqs = _frequencies(tape, width, rows)
        cos = _scaled(like(freqs, "rotary"))
        sin = _scaled(like(freqs, "rotary"))
        return to(cos, dtype), to(sin, dtype)


def _frequencies(tape: Tape, width: Axis, rows: Shape = ("s",)) -> Tensor:
    positions = new(tape, rows, "fp32", "rotary")
    freqs = new(tape, (*rows, half(width)), "fp32", "rotary")
    del positions
    return freqs


def _complex_table(tape: Tape, dtype: str, width: Axis) -> tuple[Tensor, ...]:
    """Rotations as complex numbers (DeepSeek-V2, Llama 4), written with the elements of both their parts."""
    with tape.module("rotary_emb"), tape.no_grad():
        freqs = _frequencies(tape, width)
        freqs_cis = _polar(freqs, width)
        return (_scaled(freqs_cis),)


def _polar(freqs: Tensor, width: Axis) -> Tensor:
    ones = like(freqs, "rotary")
    out = new(freqs.tape, ("s", width), "fp32", "rotary")
    del ones
    return out


def _scaled(x: Tensor) -> Tensor:
    return like(x, "rotary")


def _interleaved_table(tape: Tape, dtype: str, width: Axis) -> tuple[Tensor, ...]:
    """Qwen3-VL: frequencies of height and width are written over some of those of time."""
    return _grid_table(tape, dtype, width, lambda freq: freq)


def _section_table(tape: Tape, dtype: str, width: Axis) -> tuple[Tensor, ...]:
    """Qwen2-VL: sections of the frequencies of time, height and width."""
    return _grid_table(tape, dtype, width, lambda freq: new(tape, ("b", "s", half(width)), "fp32", "cat"))


def _grid_table(tape: Tape, dtype: str, width: Axis, compose: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Every token has a position in time, height and width."""

    def recomposed(freq: Tensor) -> Tensor:
        freq = compose(freq)
        return cat([freq, freq], ("b", "s", width))

    with tape.module("rotary_emb"), tape.no_grad():
        freqs = _frequencies(tape, width, (3, "b", "s"))
        cos = _scaled(like(freqs, "rotary"))
        sin = _scaled(like(freqs, "rotary"))
        sin = recomposed(sin)
        cos = recomposed(cos)
        return to(cos, dtype), to(sin, dtype)


TABLES: Mapping[str, Callable[[Tape, str, Axis], tuple[Tensor, ...]]] = {
    "complex": _complex_table,
    "chunked": half_table,
    "grids-interleaved": _interleaved_table,
    "grids-sections": _section_table,
}
"""By the rotation, or by `Attention.grids`."""
