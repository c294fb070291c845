"""Classes and functions of Python that load what a server serves, as the server's own tables name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from memcore.formats.python import Call
from memcore.formats.readers import flat
from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A class or function of Python that does what a command does."""

    names: tuple[str, ...]
    """What it is called."""
    method: str = ""
    """The method of such a class that is called; empty for the class or the function itself."""
    library: str
    """The word by which a script is known to use it."""
    program: str
    """The command's program."""
    places: tuple[str, ...]
    """Its arguments without a keyword; the first names the model."""
    key: str = "*"
    """The flag of the model; `*` where it follows the program."""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Classes of configs among its arguments, whose own arguments are the command's too, and flags that each means."""
    mappings: tuple[str, ...] = ()
    """Arguments that are mappings of further ones."""
    ignored: tuple[str, ...] = ()
    """Arguments that no flag says, and memory does not depend on."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Flags whose names are others than the arguments'."""
    negates: bool = True
    """Whether `--no-` and a flag's name says no; else a flag that is not there does."""
    arguments: Callable[[Mapping[str, Any], Sequence[Call]], Mapping[str, Any]] | None = None
    """Returns the arguments as flags, where a table isn't enough, from them and from all calls of the script."""

    def is_called(self, call: Call) -> bool:
        """Return whether a call is one of it that says which model it loads."""
        named = call.of if self.method and call.name == self.method else "" if self.method else call.name
        return named in self.names and bool(call.arguments or call.first)

    def as_command(self, call: Call, found: Sequence[Call]) -> dict[str, Any]:
        """Return the keys of the command that does what a call does; `found` are the script's calls."""
        given = dict(zip(self.places, call.places, strict=False))
        parts = [each for each in found if each.name in self.parts]
        for each in (call, *parts):
            for name, value in each.arguments.items():
                given |= value if name in self.mappings and isinstance(value, Mapping) else {name: value}
        given = {name: value for name, value in given.items() if name not in self.ignored}
        if self.arguments is not None:
            return {"": self.program, **self.arguments(given, found)}
        keys = {"": self.program, self.key: given.pop(self.places[0], None)}
        keys |= {name: value for each in parts for name, value in self.parts[each.name].items()}
        return keys | {name: value for each in flat(given).items() for name, value in self._flags(*each)}

    def _flags(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Return the flag that an argument is; none for one that is not given."""
        option, dot, inside = name.partition(".")
        flag = self.renamed.get(name, f"--{option.replace('_', '-')}{dot}{inside}")
        if not isinstance(value, bool):
            return [] if value is None else [(flag, value)]
        if value:
            return [(flag, True)]
        return [(f"--no-{flag[2:]}", True)] if self.negates else []
