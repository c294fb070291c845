"""The kind of setting that says which layers each stage of a pipeline has."""

from __future__ import annotations

import re

from memcore import limits
from memcore.config.kinds import JsonSchema
from memcore.messages import Message
from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Layers of each pipeline stage: counts, as text separated by commas, or Megatron's layout."""

    def check(self, value: object) -> str | list[int]:
        """Return the counts as a list, or Megatron's layout."""
        if isinstance(value, str) and _LAYOUT.fullmatch(value):
            counts = value.split(",")
            return [limits.whole(each) for each in counts] if all(each.isdecimal() for each in counts) else value
        if isinstance(value, (list, tuple)) and value and all(type(each) is int and each >= 0 for each in value):
            limits.few(value)
            return list(value)
        if isinstance(value, str) and len(value) > limits.LAYOUT_LENGTH:
            raise ValueError(Message("expected at most {} characters, found {}", limits.LAYOUT_LENGTH, len(value)))
        raise ValueError(
            Message("expected a list of counts, or a layout such as 'Et*3|(tt|)*29m|L', found {!r:.80}", value)
        )

    def parse(self, text: str) -> str | list[int]:
        """Parse a text."""
        return self.check(text)

    def spell(self, value: object) -> str:
        """Spell a value as text."""
        return value if isinstance(value, str) else ",".join(str(each) for each in value)  # type: ignore[attr-defined]

    def schema(self) -> JsonSchema:
        """Return its JSON Schema."""
        count = {"type": "integer", "minimum": 0}
        counts = {"type": "array", "items": count, "minItems": 1, "maxItems": limits.LIST_LENGTH}
        return {"anyOf": [{"type": "string", "pattern": f"^{_LAYOUT.pattern}$"}, counts]}


_LAYOUT = re.compile(rf"[EtmL|()*,0-9]{{1,{limits.LAYOUT_LENGTH}}}")
