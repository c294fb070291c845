"""What is said to a user: a template with values, and finished English to everyone who only shows it.

Whoever refuses, warns or assumes says it in English; nobody there knows of languages. Faces that speak another one look
the template up (`memcore.i18n.sentences`). A text without values is its own template and stays a plain `str`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class Message(str):
    """A finished English sentence that remembers what it is made of.

    >>> Message("found {!r}; allowed: {}", "none", joined(", ", ("ddp", "fsdp")))
    "found 'none'; allowed: ddp, fsdp"
    """

    __slots__ = ("template", "values")
    template: str
    """The sentence with braces for its values, as for `str.format`: what tables of other languages have."""
    values: tuple[object, ...]
    """Texts, numbers, and messages within this one."""

    def __new__(cls, template: str, /, *values: object) -> Message:  # noqa: PYI034 - Self needs 3.11
        """Say a template with its values."""
        said = super().__new__(cls, template.format(*values))
        said.template, said.values = template, values
        return said

    def __getnewargs__(self) -> tuple[object, ...]:  # type: ignore[override]
        """Return what a copy is made of."""
        return self.template, *self.values

    def __str__(self) -> str:
        """Itself, so that an error that carries a message gives it back."""
        return self


def filled(said: str, values: tuple[object, ...]) -> str:
    """A sentence, which is the template of one where there are values."""
    return Message(said, *values) if values else said


def joined(joint: str, parts: Iterable[str]) -> Message:
    """Words or sentences with a joint between them, like `joint.join(parts)`.

    >>> joined(" and ", ("ddp", "fsdp")).template
    '{} and {}'
    """
    values = tuple(parts)
    return Message(joint.join("{}" for _ in values), *values)


_NAMES = frozenset({"Adafactor", "Apple", "Intel", "Jetson", "Liger", "Megatron", "Muon", "Quadro", "Radeon", "Tesla"})
_CAPITALIZED = re.compile(r"(?:A(?= )|[A-Z][a-z]+)(?![\w'.])")


def within(title: str) -> str:
    """Return a title as it stands within a sentence; names keep their capital.

    >>> within("Full checkpointing"), within("A larger batch"), within("LoRA on attention only"), within("Adafactor")
    ('full checkpointing', 'a larger batch', 'LoRA on attention only', 'Adafactor')
    """
    found = _CAPITALIZED.match(title)
    return title if found is None or found[0] in _NAMES else title[0].lower() + title[1:]


def listed(joint: str, titles: Iterable[str]) -> str:
    """Return titles as one, with a joint between them.

    >>> listed(", ", ("FSDP", "Full checkpointing"))
    'FSDP, full checkpointing'
    """
    first, *rest = [*titles] or [""]
    return joint.join((first, *map(within, rest)))
