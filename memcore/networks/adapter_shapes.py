"""Adapters of PEFT whose tensors have shapes that follow from numbers: factors of widths, blocks, projections.

Sources: peft/tuners/lokr/layer.py (`update_layer`, `factorization`), oft/layer.py (`update_layer`,
`adjust_oft_parameters`), and `update_layer` in boft, c3a, delora, gralora, hira, pvera, tinylora, fourierft,
randlora and road.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt

from memcore.networks.weights import Linear
from memcore.records import dataclass
from memcore.symbols import Shape, product

Axes = Mapping[str, tuple[Shape, ...]]
"""Names of tensors and their axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What decides the shapes of an adapter next to a linear layer."""

    inner: int
    outer: int
    rank: int
    factor: int = -1
    """LoKr's `decompose_factor`."""
    block: int = 0
    """The side of OFT's and BOFT's blocks; 0: by the rank; the length of C3A's."""
    projections: int = 0
    """TinyLoRA's `u`."""
    frequencies: int = 0
    """FourierFT's `n_frequency`."""


def factorization(dimension: int, factor: int = -1) -> tuple[int, int]:
    """Two factors of a number: the given one if it divides it, else the largest up to it and the root, and the rest."""
    if factor > 0 and dimension % factor == 0:
        return factor, dimension // factor
    most = min(isqrt(dimension), dimension if factor == -1 else factor)
    small = max(each for each in range(1, most + 1) if dimension % each == 0)
    return small, dimension // small


def _lokr(numbers: Numbers) -> Axes:
    """Return two matrices whose Kronecker product is the weight's; the second is a product if that is smaller."""
    inner, outer = (factorization(each, numbers.factor) for each in (numbers.inner, numbers.outer))
    first: Axes = {"lokr_w1": ((outer[0],), (inner[0],))}
    if numbers.rank >= max(outer[1], inner[1]) / 2:
        return {**first, "lokr_w2": ((outer[1],), (inner[1],))}
    return {**first, "lokr_w2_a": ((outer[1],), (numbers.rank,)), "lokr_w2_b": ((numbers.rank,), (inner[1],))}


def _divisor(width: int, wanted: int) -> int:
    """Return the nearest divisor of a width, the smaller one of two."""
    if wanted >= width:
        return width
    return min((each for each in range(1, width + 1) if width % each == 0), key=lambda each: (abs(each - wanted), each))


def _oft(numbers: Numbers) -> Axes:
    """Return the upper triangles of as many skew-symmetric blocks as the input has."""
    side = _divisor(numbers.inner, numbers.block) if numbers.block else 0
    side = side or numbers.inner // _divisor(numbers.inner, numbers.rank)
    return {"oft_R": ((numbers.inner // side,), (side * (side - 1) // 2,))}


def _boft(numbers: Numbers) -> Axes:
    """Blocks, one factor of them (more need PEFT's CUDA extension), and a factor for each row."""
    return {
        "boft_R": ((1,), (numbers.inner // numbers.block,), (numbers.block,), (numbers.block,)),
        "boft_s": ((numbers.outer,), (1,)),
    }


def _c3a(numbers: Numbers) -> Axes:
    """Return a vector for each pair of blocks of the output and the input, which stands for a circulant matrix."""
    return {"c3a_kernel": ((numbers.outer // numbers.block,), (numbers.inner // numbers.block,), (numbers.block,))}


def _delora(numbers: Numbers) -> Axes:
    """Return two low-rank matrices, and how long their product may be."""
    return {
        "delora_A": ((numbers.rank,), (numbers.inner,)),
        "delora_B": ((numbers.outer,), (numbers.rank,)),
        "delora_lambda": ((1,),),
    }


GRALORA_BLOCKS = 2
"""GraLoRA's `gralora_k`: into as many blocks it cuts rows and columns of the matrix."""


def _gralora(numbers: Numbers) -> Axes:
    """Return two low-rank matrices for each block of the input, and for each of the output."""
    many, rank = GRALORA_BLOCKS, (numbers.rank,)
    return {
        "gralora_A": ((many,), (numbers.inner // many,), rank),
        "gralora_B": ((many,), rank, (numbers.outer // many,)),
    }


def _hira(numbers: Numbers) -> Axes:
    """Return two low-rank matrices."""
    return {"hira_A": ((numbers.rank,), (numbers.inner,)), "hira_B": ((numbers.outer,), (numbers.rank,))}


def _pvera(numbers: Numbers) -> Axes:
    """Return a factor for each row, and two for each of the rank: of a mean and of a variance."""
    return {"pvera_lambda_b": ((numbers.outer,),), "pvera_lambda_d": ((2 * numbers.rank,),)}


def _tinylora(numbers: Numbers) -> Axes:
    """Return a vector: how much of each projection."""
    return {"tinylora_v": ((numbers.projections,),)}


def _fourierft(numbers: Numbers) -> Axes:
    """Coefficients of a transform."""
    return {"fourierft_spectrum": ((numbers.frequencies,),)}


def bases(inner: int, outer: int, rank: int) -> int:
    """RandLoRA's products of a rank that together have the full one."""
    return -(-min(inner, outer) // rank)


def _randlora(numbers: Numbers) -> Axes:
    """Scales of each product, and of the narrower side of each."""
    count = bases(numbers.inner, numbers.outer, numbers.rank)
    return {
        "randlora_lambda": ((numbers.rank,), (count,)),
        "randlora_gamma": ((count,), (min(numbers.inner, numbers.outer),)),
    }


def _road(numbers: Numbers) -> Axes:
    """Return an angle and a factor for each pair of elements (`road_1`)."""
    return {"road_theta": ((numbers.outer // 2,),), "road_alpha": ((numbers.outer // 2,),)}


SHAPES: Mapping[str, Callable[[Numbers], Axes]] = {
    "lokr": _lokr,
    "oft": _oft,
    "boft": _boft,
    "c3a": _c3a,
    "delora": _delora,
    "gralora": _gralora,
    "hira": _hira,
    "pvera": _pvera,
    "tinylora": _tinylora,
    "fourierft": _fourierft,
    "randlora": _randlora,
    "randlora-output": _randlora,
    "road": _road,
}
"""By the kind of adapter."""


def tensors(kind: str, numbers: Numbers) -> tuple[tuple[str, tuple[Shape, ...]], ...]:
    """Names and axes of what an adapter adds to a linear layer."""
    return tuple(SHAPES[kind](numbers).items())


def frozen_tensors(part: Linear, sizes: Mapping[str, int]) -> tuple[tuple[str, Shape, str], ...]:
    """Return the frozen tensors of an adapter next to a linear layer: names, shapes and dtypes.

    TinyLoRA has singular vectors and projections, OFT the indices of a triangle, DeLoRA the norms of the matrix's
    columns.
    """
    name, dtype = part.name, part.adapter_dtype or "fp32"
    if part.adapter_kind == "delora":
        return ((f"{name}.delora_w_norm", part.inner, dtype),)
    if part.adapter_kind == "tinylora":
        rank = min(sizes["ra"], product(part.inner, sizes), product(part.outer, sizes))
        ((_, (projections,)),) = part.adapter_axes
        return (
            (f"{name}.tinylora_A", (rank, *part.inner), dtype),
            (f"{name}.tinylora_B", (*part.outer, rank), dtype),
            (f"{name}.tinylora_P", (*projections, rank, rank), "fp32"),
        )
    if part.adapter_kind == "oft":
        ((_, (_, elements)),) = part.adapter_axes
        return tuple((f"{name}.oft_R.{each}", elements, "int64") for each in ("rows", "cols"))
    return ()
