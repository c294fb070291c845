"""Which layers have an adapter and which ranks it has there, as values of settings: PEFT's lists and patterns.

Source: peft 0.21, utils/other.py (`get_pattern_key`), tuners/tuners_utils.py (`check_target_module_exists`).
"""

from __future__ import annotations

import re

from memcore import limits
from memcore.config.kinds import JsonSchema, Plain
from memcore.messages import Message
from memcore.records import dataclass
from memcore.units import ranges, shown

_END = rf"[\w-]{{1,{limits.NAME_LENGTH}}}(?:\.[\w-]{{1,{limits.NAME_LENGTH}}}){{0,15}}"
_ENTRY = re.compile(rf"{_END}=[1-9][0-9]{{0,5}}")
_LAYER = r"[0-9]{1,4}"
_LONGEST = 2**17
"""Characters of all entries: a rank for each matrix of 100 layers takes a third of it."""


@dataclass(frozen=True, slots=True)
class Ranks(Plain):
    """Ranks by the ends of the names of modules, as text.

    >>> Ranks().parse("q_proj=4, layers.0.self_attn.k_proj=16")
    'q_proj=4,layers.0.self_attn.k_proj=16'
    """

    def check(self, value: object) -> str:
        """Return the entries with one comma between them; the first name that a module ends with decides."""
        entries = value.split(",") if isinstance(value, str) and len(value) <= _LONGEST else []
        named = [each.strip() for each in entries]
        if not named or not all(map(_ENTRY.fullmatch, named)):
            raise ValueError(Message("expected ranks by module, such as {}, found {}", "q_proj=4", shown(value)))
        return ",".join(named)

    def parse(self, text: str) -> str:
        """Return what was typed, checked."""
        return self.check(text)

    def schema(self) -> JsonSchema:
        """Return a string of entries."""
        return {"type": "string", "maxLength": _LONGEST, "pattern": "="}


def ranks_of(text: str | None) -> dict[str, int]:
    """Return the ranks that entries stand for.

    >>> ranks_of("q_proj=4,mlp.up_proj=8"), ranks_of(None)
    ({'q_proj': 4, 'mlp.up_proj': 8}, {})
    """
    parts = (each.rpartition("=") for each in text.split(",")) if text else ()
    return {name: int(rank) for name, _, rank in parts}


@dataclass(frozen=True, slots=True)
class LayerNumbers:
    """Numbers of layers from 0, as text with ranges.

    >>> LayerNumbers().parse("24-26, 31"), LayerNumbers().spell([24, 25, 26, 31])
    ([24, 25, 26, 31], '24-26,31')
    """

    def check(self, value: object) -> list[int]:
        """Return the numbers in order; one alone is a list of one."""
        listed = value if isinstance(value, (list, tuple)) else [value]
        if not listed or not all(map(_is_layer, listed)):
            raise ValueError(Message("expected layer numbers, found {}", shown(value)))
        limits.few(listed)
        return sorted(set(listed))

    def parse(self, text: str) -> list[int]:
        """Return the numbers that a text lists, with ranges."""
        runs = [re.fullmatch(rf"({_LAYER})(?:-({_LAYER}))?", each.strip()) for each in text.split(",") if each.strip()]
        if not all(runs):
            return self.check(text)
        return self.check([at for run in runs if run for at in range(int(run[1]), int(run[2] or run[1]) + 1)])

    def spell(self, value: object) -> str:
        """Return the numbers as text, runs as ranges."""
        return ranges(self.check(value))

    def schema(self) -> JsonSchema:
        """Return its JSON Schema."""
        number = {"type": "integer", "minimum": 0, "maximum": 9999}
        return {"anyOf": [number, {"type": "array", "items": number, "minItems": 1, "maxItems": limits.LIST_LENGTH}]}


def _is_layer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**4
