"""The text of a file that somebody names: of a folder the file that describes it, of a checkpoint its header."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from memcore.errors import ConfigError, Problem
from memcore.limits import FILE_BYTES
from memcore.messages import Message, joined


def content(source: str, *, strict: bool = True) -> str:
    """The text of a file, or of standard input for `-`; with `strict`, one that is not text or too long is refused."""
    try:
        held = sys.stdin.read() if source == "-" else _held(source, FILE_BYTES + strict)
    except IsADirectoryError:
        raise ConfigError.at(source, Message("is a directory without {}", joined(" or ", DESCRIBING))) from None
    except FileNotFoundError:
        raise ConfigError([Problem(source, "No such file or directory", _like(source))]) from None
    except (OSError, UnicodeError) as error:  # a name may hold what no name of a file can
        raise ConfigError.at(source, getattr(error, "strerror", None) or "cannot be read") from None
    return _some(source, held if isinstance(held, str) else _decoded(source, held, strict=strict))


def _held(source: str, most: int) -> str | bytes:
    """Return the header of a checkpoint, or the bytes of another file, `most` of them."""
    with open(described(source), "rb") as file:  # noqa: PTH123 - without pathlib the start is shorter
        if file.peek(len(_POINTER)).startswith(_POINTER):
            raise ConfigError.at(source, "is a Git LFS pointer, not the file itself; run `git lfs pull`")
        return header_of(source, file) if source.endswith(tuple(HEADERS)) else file.read(most)


def _decoded(source: str, held: bytes, *, strict: bool) -> str:
    """Return bytes of a file as text."""
    if len(held) > FILE_BYTES:
        raise ConfigError.at(source, "is longer than {:,} bytes; name a config, not weights or data", FILE_BYTES)
    wide = held.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in held[:64]
    if wide and strict:
        raise ConfigError.at(source, "the text is in UTF-16, not in UTF-8: save it again as UTF-8")
    try:
        return held.decode("utf-16" if wide else "utf-8-sig", errors="strict" if strict else "replace")
    except UnicodeDecodeError as error:
        if b"\0" in held[:_LOOKED_AT]:
            raise ConfigError.at(source, "is not text") from None
        line, byte = held.count(b"\n", 0, error.start) + 1, held[error.start]
        said = Message("line {}: byte {:#x} is not UTF-8: save the text again as UTF-8", line, byte)
        raise ConfigError.at(source, said) from None


_POINTER = b"version https://git-lfs"
"""How the file begins that stands in the place of a large one (git-lfs, docs/spec.md)."""
_NEIGHBOURS = 1000
"""Files of a directory that are compared with the name of one that is missing."""


def _like(source: str) -> str | None:
    """Return the file next to a missing one that has almost its name."""
    from difflib import get_close_matches  # noqa: PLC0415 - most files are there
    from itertools import islice  # noqa: PLC0415

    folder, name = os.path.split(source)
    try:
        with os.scandir(folder or ".") as files:
            near = get_close_matches(name, [each.name for each in islice(files, _NEIGHBOURS)], n=1, cutoff=0.8)
    except OSError:
        return None
    return os.path.join(folder, near[0]) if near else None  # noqa: PTH118 - as above


_LOOKED_AT = 4096
"""Bytes at the start of a file that are searched for a zero byte, which no text in UTF-8 has."""


def _some(source: str, text: str) -> str:
    if not text.strip():
        raise ConfigError.at(source, "is empty")
    return text


DESCRIBING = ("config.json", "adapter_config.json")
"""Files that say what a directory holds: a model, or an adapter."""


def described(source: str) -> str:
    """Return the file that describes what a directory holds; another path as it is.

    >>> described("train.yaml")
    'train.yaml'
    """
    inside = (f"{source.rstrip('/')}/{each}" for each in DESCRIBING) if os.path.isdir(source) else ()  # noqa: PTH112
    return next((each for each in inside if os.path.exists(each)), source)  # noqa: PTH110 - as above


def header_of(source: str, file: BinaryIO) -> str:
    """Return the header of a checkpoint as JSON, by how its name ends; no more of the file is read."""
    return next(read for ending, read in HEADERS.items() if source.endswith(ending))(source, file)


def _of_gguf(source: str, file: BinaryIO) -> str:
    """Return the header of a GGUF file as JSON under `gguf`."""
    from memcore.formats import gguf  # noqa: PLC0415 - without it the start is shorter

    held = b""
    for most in gguf.STEPS:
        held += file.read(most - len(held))
        if not held.startswith(gguf.MAGIC):
            raise ConfigError.at(source, "is not a GGUF file")
        try:
            return json.dumps({"gguf": gguf.header(held)})
        except gguf.ShortError as error:
            if len(held) < most or most == gguf.LONGEST:
                raise ConfigError.at(source, "is not a whole GGUF file: {}", str(error)) from None
        except ValueError as error:
            raise ConfigError.at(source, "is not a whole GGUF file: {}", str(error)) from None
    raise AssertionError  # the last step ends in an answer or an error


def _of_safetensors(source: str, file: BinaryIO) -> str:
    """Return the header of a safetensors file: its length in eight bytes, and JSON (safetensors/src/tensor.rs)."""
    length, first = int.from_bytes(file.read(8), "little"), file.read(1)
    if first != b"{":
        raise ConfigError.at(source, "is not a safetensors file")
    if length > FILE_BYTES:
        raise ConfigError.at(source, Message("has a header longer than {:,} bytes", FILE_BYTES))
    try:
        return (first + file.read(length - 1)).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError.at(source, "is not a safetensors file") from None


HEADERS: Mapping[str, Callable[[str, BinaryIO], str]] = {".safetensors": _of_safetensors, ".gguf": _of_gguf}
"""Readers of checkpoints by how their names end."""
