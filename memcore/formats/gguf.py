"""The header of a GGUF file: its scalar keys, and the names and shapes of its tensors by type.

Source: ggml, docs/gguf.md; gguf-py 0.19, gguf/constants.py (`GGMLQuantizationType`, `GGUFValueType`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from memcore.records import dataclass

MAGIC = b"GGUF"
LONGEST = 2**26
"""Bytes of a header that are read: vocabularies of 262,144 tokens with their merges take about 15 million."""
STEPS = (2**20, 2**22, 2**24, LONGEST)
"""Bytes after which a header may be complete: most vocabularies take from 4 to 16 million."""
TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
_SCALARS: Mapping[int, str] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_MOST = 2**20
"""The most keys or tensors of a header; llama.cpp's own files have a hundred keys and some thousand tensors."""
_TEXT = 2**16
"""Bytes that are kept of a name or a text; longer texts are chat templates."""


class ShortError(ValueError):
    """Raised where bytes end before the header does."""


def header(held: bytes) -> dict[str, Any]:
    """Return a file's keys by name, and `tensors`: for each type the tensors' names, with shapes such as `4096x128`.

    Raises ValueError for bytes that are no such header, and ShortError for a part of one.
    """
    reader = _Reader(held, len(MAGIC))
    version = reader.number("I")
    if not 2 <= version <= 3:  # one of the other byte order has its number in the last byte
        raise ValueError("its version is not supported")
    tensors, keys = reader.count(), reader.count()
    found: dict[str, Any] = {}
    for _ in range(keys):
        name = reader.text()
        value = reader.value(reader.number("I"))
        if value is not None:
            found[name] = value
    shapes: dict[str, dict[str, str]] = {}
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.number("Q") for _ in range(min(reader.number("I"), 8))]
        kind = reader.number("I")
        reader.number("Q")
        shapes.setdefault(TYPES.get(kind, str(kind)), {})[name] = "x".join(map(str, reversed(shape)))
    return {**found, "tensors": shapes}


@dataclass
class _Reader:
    """Reads values one after another. Raises ShortError where the bytes end."""

    held: bytes
    at: int

    def number(self, kind: str) -> Any:
        """Read a number of `struct`'s kind."""
        size = struct.calcsize(kind)
        self._skip(size)
        return struct.unpack_from(f"<{kind}", self.held, self.at - size)[0]

    def count(self) -> int:
        """Read how many keys or tensors there are."""
        found = int(self.number("Q"))
        if found > _MOST:
            raise ValueError("it has too many entries")
        return found

    def text(self) -> str:
        """Read a string, of which a long one is cut short."""
        size = int(self.number("Q"))
        self._skip(size)
        return self.held[self.at - size : self.at - size + min(size, _TEXT)].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Read a value of a kind; None for a list, which is skipped."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, many = self.number("I"), int(self.number("Q"))
            if inner in _SCALARS:
                self._skip(many * struct.calcsize(f"<{_SCALARS[inner]}"))
            elif inner == _STRING:
                for _ in range(many):
                    self._skip(int(self.number("Q")))
            else:
                raise ValueError("it has a value of an unknown type")
            return None
        if kind not in _SCALARS:
            raise ValueError("it has a value of an unknown type")
        return self.number(_SCALARS[kind])

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.held):
            raise ShortError("it ends early")
