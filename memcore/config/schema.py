"""What a setting is, and the sections in which settings are declared.

A setting is its path, such as `training.sequence_length`: a text that carries what is known about it. It is declared
once, as an attribute of a section, and named by that attribute everywhere else: a misspelled one is a type error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from memcore.config.kinds import Kind

ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)


class Setting(str, Generic[ValueT_co]):  # noqa: SLOT000 - it carries what is known about it
    """One setting; as a text, its path in a config."""

    kind: Kind[ValueT_co]
    label: str
    help: str
    flag: str
    """Short name on the command line and in links."""
    former: str
    """Short name in links that were written in the past; empty for most."""
    aliases: tuple[str, ...]
    """Other keys that files use for it."""
    engines: tuple[str, ...] | None
    """Engines it applies to; None is all. Of what engines have in common, those that take it say so (`TAKES`)."""
    default: str
    """What a missing key means, for people."""
    required: bool
    advanced: bool
    """Shown only on demand."""
    common: bool
    """Among the flags that the command line's help shows first."""

    def at(self, path: str) -> Setting[ValueT_co]:
        """Return the setting with its path."""
        placed: Setting[ValueT_co] = Setting(path)
        vars(placed).update(vars(self))
        return placed

    @property
    def name(self) -> str:
        """Return its key within its section."""
        return self.rpartition(".")[2]

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Between processes a setting travels as its path."""
        return str, (str(self),)

    def __copy__(self) -> Setting[ValueT_co]:
        return self

    def __deepcopy__(self, memo: Any) -> Setting[ValueT_co]:
        return self


def setting(
    kind: Kind[ValueT],
    label: str,
    help: str,  # noqa: A002
    *,
    flag: str,
    former: str = "",
    aliases: tuple[str, ...] = (),
    engines: tuple[str, ...] | None = None,
    default: str = "",
    required: bool = False,
    advanced: bool = False,
    common: bool = False,
) -> Setting[ValueT]:
    """Declare a setting; its section gives it its path."""
    declared: Setting[ValueT] = Setting()
    declared.kind, declared.label, declared.help, declared.flag = kind, label, help, flag
    declared.former, declared.aliases, declared.engines = former, aliases, engines
    declared.default = default or getattr(kind, "absent", "")
    declared.required, declared.advanced, declared.common = required, advanced, common
    return declared


class Section:
    """Settings below one path. A section within another is an attribute of it."""

    path: ClassVar[str]
    shorthand: ClassVar[str | None]
    """The setting that a value given for the whole section stands for."""

    def __init_subclass__(cls, path: str, shorthand: str | None = None, engines: tuple[str, ...] | None = None) -> None:
        """Give each setting its path, and `engines` to those that name none themselves."""
        cls.path, cls.shorthand = path, shorthand
        for name, declared in list(vars(cls).items()):
            if isinstance(declared, Setting):
                placed = declared.at(f"{path}.{name}")
                placed.engines = engines if placed.engines is None else placed.engines
                setattr(cls, name, placed)


def settings_of(section: type[Section]) -> Iterator[Setting[Any]]:
    """Yield every setting of a section and of those within it, in the order of their declaration."""
    for declared in vars(section).values():
        if isinstance(declared, Setting):
            yield declared
        elif isinstance(declared, type) and issubclass(declared, Section):
            yield from settings_of(declared)


def within(section: type[Section]) -> Iterator[type[Section]]:
    """Return the sections that are attributes of a section."""
    return (each for each in vars(section).values() if isinstance(each, type) and issubclass(each, Section))
