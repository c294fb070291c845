"""Settings as the tool behind a config spells them, from the modules of engines that are named `spelling`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore import registry
from memcore.messages import Message


def _dialects() -> Mapping[str, Mapping[str, object]]:
    """Merge the words of trainers and servers: one tool may have different settings in both."""
    found: dict[str, dict[str, object]] = {}
    for module in registry.engine_modules("spelling"):
        for dialect, words in getattr(module, "SPELLING", {}).items():
            found.setdefault(dialect, {}).update(words)
    return found


DIALECTS = _dialects()
"""By tool and path: a text with the value in it, or a text for each value."""


def dialect_of(engine: str, implementation: str | None) -> str:
    """Return the tool whose words a config's settings have."""
    if engine in DIALECTS and engine != "transformers":
        return engine
    return "torchtitan" if implementation == "torchtitan" else "transformers"


def native(dialect: str, changes: Mapping[str, object]) -> Iterator[str]:
    """Changed settings in a tool's own words; those without a word of their own are part of another's."""
    known = dialect in DIALECTS
    words: Mapping[str, object] = DIALECTS[dialect] if known else registry.own(dialect, "spelling", "SPELLING")
    for path, value in changes.items():
        found = words.get(path)
        if isinstance(found, str) and value is not None:
            yield Message(found, value)
        elif isinstance(found, Mapping) and value in found:
            yield found[value]
