"""The element types of GGUF files: how many elements a block holds, and in how many bytes.

Sources: `ggml/src/ggml-common.h` and `gguf-py/gguf/constants.py` (`GGML_QUANT_SIZES`) of llama.cpp (ggml 0.25);
`ggml.c` (`type_traits`) of ik_llama.cpp at 8337e4c for the types that only that fork has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class BlockType:
    """How elements are stored. A row of a tensor is a whole number of blocks."""

    elements: int
    """Of a block."""
    bytes: int
    """Of a block: its quants, scales and minima."""
    row_bytes: int = 0
    """What precedes every row: a scale for all its blocks."""
    fork: bool = False
    """Only ik_llama.cpp reads it."""

    @property
    def bits(self) -> float:
        """Bits of an element, rows' headers aside."""
        return 8 * self.bytes / self.elements

    @property
    def quantized(self) -> bool:
        """Elements share a scale (`ggml_is_quantized`)."""
        return self.elements > 1


def _fork(elements: int, size: int, row_bytes: int = 0) -> BlockType:
    return BlockType(elements, size, row_bytes, fork=True)


BLOCK_TYPES: Mapping[str, BlockType] = {
    "F32": BlockType(1, 4),
    "F16": BlockType(1, 2),
    "BF16": BlockType(1, 2),
    "F64": BlockType(1, 8),
    "I8": BlockType(1, 1),
    "I16": BlockType(1, 2),
    "I32": BlockType(1, 4),
    "I64": BlockType(1, 8),
    # An fp16 scale (and minimum) for 32 elements
    "Q4_0": BlockType(32, 2 + 16),
    "Q4_1": BlockType(32, 2 + 2 + 16),
    "Q5_0": BlockType(32, 2 + 4 + 16),
    "Q5_1": BlockType(32, 2 + 2 + 4 + 16),
    "Q8_0": BlockType(32, 2 + 32),
    "Q8_1": BlockType(32, 2 + 2 + 32),
    "IQ4_NL": BlockType(32, 2 + 16),
    "Q1_0": BlockType(128, 2 + 16),
    "Q2_0": BlockType(64, 2 + 16),
    # Super-blocks of 256 whose parts have scales of a few bits
    "Q2_K": BlockType(256, 2 + 2 + 16 + 64),
    "Q3_K": BlockType(256, 2 + 64 + 32 + 12),
    "Q4_K": BlockType(256, 2 + 2 + 128 + 12),
    "Q5_K": BlockType(256, 2 + 2 + 128 + 32 + 12),
    "Q6_K": BlockType(256, 2 + 128 + 64 + 16),
    "Q8_K": BlockType(256, 4 + 256 + 32),
    # Rows of a code book
    "IQ1_S": BlockType(256, 2 + 32 + 16),
    "IQ1_M": BlockType(256, 32 + 16 + 8),
    "IQ2_XXS": BlockType(256, 2 + 64),
    "IQ2_XS": BlockType(256, 2 + 64 + 8),
    "IQ2_S": BlockType(256, 2 + 64 + 16),
    "IQ3_XXS": BlockType(256, 2 + 64 + 32),
    "IQ3_S": BlockType(256, 2 + 64 + 32 + 8 + 4),
    "IQ4_XS": BlockType(256, 2 + 2 + 128 + 4),
    # Ternary
    "TQ1_0": BlockType(256, 2 + 4 * 13),
    "TQ2_0": BlockType(256, 2 + 64),
    # Floats of 4 bits: an E8M0 scale for 32, or an E4M3 scale for 16
    "MXFP4": BlockType(32, 1 + 16),
    "NVFP4": BlockType(64, 4 + 32),
    # ik_llama.cpp
    "Q6_0": _fork(32, 2 + 8 + 16),
    "Q8_KV": _fork(32, 32, 8),
    "IQ1_BN": _fork(64, 13, 2),
    "IQ2_BN": _fork(64, 16, 4),
    "IQ1_KT": _fork(256, 56, 4),
    "IQ2_KT": _fork(256, 68, 4),
    "IQ3_KT": _fork(256, 100, 4),
    "IQ4_KT": _fork(256, 128, 4),
    "IQ2_K": _fork(256, 76),
    "IQ2_KS": _fork(256, 70, 2),
    "IQ2_KL": _fork(256, 86, 2),
    "IQ3_K": _fork(256, 110),
    "IQ3_KS": _fork(256, 102, 2),
    "IQ4_K": _fork(256, 144),
    "IQ4_KS": _fork(256, 136, 4),
    "IQ4_KSS": _fork(256, 128, 4),
    "IQ5_K": _fork(256, 176),
    "IQ5_KS": _fork(256, 168, 4),
    "IQ6_K": _fork(256, 212),
    # Rows of four, eight or sixteen interleaved: as large as the type that they repack, with two exceptions
    "IQ1_S_R4": _fork(32, 6, 2),
    "IQ1_M_R4": _fork(32, 7, 2),
    "Q8_K_R8": _fork(256, 258),
    "Q8_KV_R8": _fork(32, 32, 4),
    **{
        name: _fork(elements, size, row)
        for name, elements, size, row in (
            ("Q4_0_R8", 32, 18, 0), ("Q5_0_R4", 32, 22, 0), ("Q6_0_R4", 32, 26, 0), ("Q8_0_R8", 32, 34, 0),
            ("Q2_K_R4", 256, 84, 0), ("Q3_K_R4", 256, 110, 0), ("Q4_K_R4", 256, 144, 0), ("Q5_K_R4", 256, 176, 0),
            ("Q6_K_R4", 256, 210, 0), ("IQ2_XXS_R4", 256, 66, 0), ("IQ2_XS_R4", 256, 74, 0), ("IQ2_S_R4", 256, 82, 0),
            ("IQ3_XXS_R4", 256, 98, 0), ("IQ3_S_R4", 256, 110, 0), ("IQ4_NL_R4", 32, 18, 0), ("IQ4_XS_R8", 256, 136, 0),
            ("IQ2_BN_R4", 64, 16, 4), ("IQ2_K_R4", 256, 76, 0), ("IQ3_K_R4", 256, 110, 0), ("IQ4_K_R4", 256, 144, 0),
            ("IQ5_K_R4", 256, 176, 0), ("IQ4_KS_R4", 256, 136, 4), ("IQ5_KS_R4", 256, 168, 4), ("MXFP4_R8", 32, 17, 0),
            ("BF16_R16", 1, 2, 0),
        )
    },
}  # fmt: skip
"""Every type by the name that llama.cpp prints for it."""


def row_bytes(name: str, elements: int) -> int:
    """Return bytes of one row of a tensor (`ggml_row_size`).

    >>> row_bytes("Q4_K", 4096)
    2304
    """
    kind = BLOCK_TYPES[name]
    if elements % kind.elements:
        raise ValueError(f"a row of {elements} elements is no whole number of {name} blocks of {kind.elements}")
    return kind.row_bytes + elements // kind.elements * kind.bytes


def tensor_bytes(name: str, shape: Sequence[int]) -> int:
    """Return bytes of a tensor whose last axis is a row.

    >>> tensor_bytes("Q6_K", (128256, 4096))
    430940160
    """
    return prod(shape[:-1]) * row_bytes(name, shape[-1])
