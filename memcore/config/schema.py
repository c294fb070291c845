"""What a setting is: a field of a frozen dataclass, with everything that is known about it besides its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from memcore.config.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting."""

    kind: Kind
    label: str
    help: str
    flag: str
    """Short name on the command line and in URLs."""
    aliases: tuple[str, ...] = ()
    """Other keys that files use for it."""
    engines: tuple[str, ...] | None = None
    """Engines it applies to; None is all."""
    default: str = ""
    """What a missing key means, for people."""
    required: bool = False
    advanced: bool = False
    """Shown only on demand."""


def setting(kind: Kind, label: str, help: str, **more: Any) -> Any:  # noqa: A002
    """A field that is a setting; absent by default, unless it is required."""
    metadata = {"setting": Setting(kind=kind, label=label, help=help, **more)}
    return field(metadata=metadata) if more.get("required") else field(default=None, metadata=metadata)


def section(of: type, shorthand: str | None = None) -> Any:
    """A field that is a section with settings of its own; in a file, `shorthand` may stand for the whole section."""
    return field(default_factory=of, metadata={"of": of, "shorthand": shorthand})


def settings_of(cls: type, path: str = "") -> Iterator[tuple[str, Setting]]:
    """Every setting below a section, with its path."""
    for each in fields(cls):
        here = f"{path}.{each.name}" if path else each.name
        if "setting" in each.metadata:
            yield here, each.metadata["setting"]
        else:
            yield from settings_of(each.metadata["of"], here)
