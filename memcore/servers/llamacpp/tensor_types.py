"""Types that single tensors of a GGUF file have, whatever its file type: as a setting, and read from a file's list.

Source: llama.cpp, tools/quantize/quantize.cpp (`--tensor-type`, which has a regular expression where this has layers).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from memcore.config.kinds import JsonSchema, Plain
from memcore.messages import Message
from memcore.records import dataclass
from memcore.serving.gguf_types import BLOCK_TYPES
from memcore.units import shown

Overrides = tuple[tuple[str, str], ...]
"""Parts of names of tensors between `^` and `$`, and their types; the first that a name has decides."""
_ENTRY = re.compile(
    r"(?:blk\.(\d{1,3}(?:-\d{1,3})?(?:\+\d{1,3}(?:-\d{1,3})?)*)\.)?([a-z][a-z0-9_.]{0,63})=([a-z0-9_]{1,16})", re.ASCII
)
_SUCH = "blk.0-7+9.ffn_down=q6_k"
_LAYER = re.compile(r"blk\.(\d{1,3})\.(.+)", re.ASCII)
_LONGEST = 8192
"""Characters of all entries: a type for each matrix of 100 layers takes about half."""


@dataclass(frozen=True, slots=True)
class TensorTypes(Plain):
    """Entries such as `token_embd=q8_0` and, for layers 0 to 7 and 9, `blk.0-7+9.ffn_down=q6_k`."""

    def check(self, value: object) -> str:
        """Return the entries in lower case, with one comma between them."""
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise ValueError(Message("expected a string of at most {} characters, found {}", _LONGEST, shown(value)))
        entries = [each.strip().lower() for each in value.split(",") if each.strip()]
        for each in entries:
            found = _ENTRY.fullmatch(each)
            if found is None or found[3].upper() not in BLOCK_TYPES:
                raise ValueError(Message("expected a name and a ggml type, such as {}; found {}", _SUCH, shown(each)))
        if not entries:
            raise ValueError("found an empty string; leave the key out, or give null")
        return ",".join(entries)

    def parse(self, text: str) -> str:
        """Return what was typed, checked."""
        return self.check(text)

    def schema(self) -> JsonSchema:
        """Return a string of entries."""
        return {"type": "string", "maxLength": _LONGEST, "pattern": "="}


def overrides_of(text: str) -> Overrides:
    """Return the parts of names that entries stand for.

    >>> overrides_of("output=q8_0,blk.0-1+7.ffn_down=q6_k")[1:]
    (('.output.', 'Q8_0'), ('^blk.0.ffn_down.', 'Q6_K'), ('^blk.1.ffn_down.', 'Q6_K'), ('^blk.7.ffn_down.', 'Q6_K'))
    """
    return tuple(
        (part, found[3].upper())
        for each in text.split(",")
        if (found := _ENTRY.fullmatch(each)) is not None
        for part in _parts(found[1], found[2])
    )


def _parts(layers: str | None, name: str) -> Iterator[str]:
    if layers is None:
        yield from (f"^{name}.", f".{name}.")
        return
    for run in layers.split("+"):
        first, _, last = run.partition("-")
        yield from (f"^blk.{layer}.{name}." for layer in range(int(first), int(last or first) + 1))


def entries(types: Mapping[str, str], usual: Mapping[str, str]) -> str:
    """Return the entries of matrices whose types are not the usual ones; empty where all are.

    >>> entries({"blk.0.ffn_up.weight": "Q6_K", "blk.1.ffn_up.weight": "Q4_K"}, {"blk.0.ffn_up.weight": "Q4_K"})
    'blk.0.ffn_up=q6_k'
    """
    own: dict[tuple[str, str], list[int]] = defaultdict(list)
    kinds: dict[str, set[str]] = defaultdict(set)
    for name, kind in types.items():
        layer = _LAYER.fullmatch(name.removesuffix(".weight"))
        stem = layer[2] if layer else name.removesuffix(".weight")
        kinds[stem].add(kind)
        if kind in BLOCK_TYPES and usual.get(name, kind if usual else "") != kind:
            own[stem, kind] += [int(layer[1])] if layer else []
    return ",".join(
        f"{stem if kinds[stem] == {kind} else f'blk.{_runs(layers)}.{stem}'}={kind.lower()}"
        for (stem, kind), layers in own.items()
    )


def _runs(layers: Iterable[int]) -> str:
    """Return numbers as runs.

    >>> _runs([2, 0, 1, 7])
    '0-2+7'
    """
    numbers = sorted(layers)
    begins = [numbers[0], *(each for before, each in pairwise(numbers) if each != before + 1)]
    ends = [*(before for before, each in pairwise(numbers) if each != before + 1), numbers[-1]]
    return "+".join(str(begin) if begin == end else f"{begin}-{end}" for begin, end in zip(begins, ends, strict=True))
