"""Typed access to one `config.json` under the names of its family; collects problems, and symbols with their values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pkgutil import get_data
from typing import Any, cast

from memcore import limits
from memcore.errors import ConfigError, Problem
from memcore.messages import Message, filled, joined
from memcore.units import approximate, shown


@lru_cache(maxsize=1)
def classes() -> Mapping[str, Mapping[str, Mapping[str, object]]]:
    """For every configuration class its own `names` of keys, and its `defaults`; written by `catalog/classes.py`."""
    # get_data also reads from a wheel that has not been unpacked.
    found: Mapping[str, Any] = json.loads(get_data("memcore", "data/classes.json") or b"{}")
    return found


class Reader:
    """One (sub-)configuration."""

    def __init__(
        self,
        config: Mapping[str, object],
        model_type: str,
        keys: Mapping[str, str] | None = None,
        parent: Reader | None = None,
        path: str = "model",
    ) -> None:
        row = classes().get(model_type, {})
        self.config = config
        self.layer: int | None = None
        """The layer that is being read, for keys that list a value for each."""
        self.path = path
        self._names = {**cast("Mapping[str, str]", row.get("names", {})), **(keys or {})}
        self._defaults = row.get("defaults", {})
        self.floors = bool(row.get("floors"))
        """Whether the width of heads that do not divide the hidden size is rounded down."""
        self.problems: list[Problem] = [] if parent is None else parent.problems
        self.sizes: dict[str, int] = {} if parent is None else parent.sizes
        """The value of every symbol."""

    def sub(self, key: str, model_type: str, keys: Mapping[str, str] | None = None) -> Reader:
        """Return a nested configuration; what the file leaves out has the defaults of its class."""
        nested = self.config.get(key)
        if nested is not None and not isinstance(nested, Mapping):
            self.refuse(key, "expected an object, found {!r}", nested)
        found = nested if isinstance(nested, Mapping) else {}
        kind = found.get("model_type")
        # Published files of Qwen's vision-language models name the whole there, or a sibling of it.
        whole = kind == self.config.get("model_type") or f"{kind}_vision" in classes()
        own = isinstance(kind, str) and kind in classes() and not whole
        named = str(kind) if own else model_type
        return Reader(found, named, keys, self, f"{self.path}.{key}")

    def symbol(self, name: str, value: int) -> str:
        """Return a symbol of this value: `name`, with a prime where the plain one already stands for another value."""
        while self.sizes.setdefault(name, value) != value:
            name += "′"
        return name

    def has(self, name: str) -> bool:
        """Return whether the file or the class gives a key a value."""
        return self.value(name) is not None

    def states(self, name: str) -> bool:
        """Return whether the file itself gives a key a value."""
        return self.config.get(self._names.get(name, name), self.config.get(name)) is not None

    def value(self, name: str) -> object:
        """Return the value of a canonical key: the file's, or the class default. A list may give one for each layer."""
        found = self._lookup(name)
        if isinstance(found, (list, tuple)) and self.layer is not None and self.layer < len(found):
            return found[self.layer]
        return found

    def usual(self, name: str) -> object:
        """Return what the class has by default for a canonical key."""
        return self._defaults.get(self._names.get(name, name), self._defaults.get(name))

    def listed(self, name: str) -> Sequence[object] | None:
        """Return a key that lists something for each layer, or None."""
        found = self._lookup(name)
        return found if isinstance(found, (list, tuple)) else None

    def places(self, name: str) -> Sequence[int] | None:
        """Return a key that lists layers by their numbers, or None."""
        found = self.listed(name)
        if found is None or all(type(each) is int for each in found):
            return cast("Sequence[int] | None", found)
        self.refuse(name, "expected a list of layer numbers, found {!r:.80}", found)
        return ()

    def _lookup(self, name: str) -> object:
        own = self._names.get(name, name)
        for source in (self.config, self._defaults):
            for key in (own, name):
                found: object = source
                above = self.path
                for part in key.split("."):
                    if source is self.config and not isinstance(found, Mapping | None):
                        self._note(Problem(above, Message("expected an object, found {!r:.80}", found)))
                    found = found.get(part) if isinstance(found, Mapping) else None
                    above += f".{part}"
                if found is not None or (source is self.config and key in source):
                    return found  # null in a file overrides the default, as in Python
        return None

    @property
    def lists(self) -> Sequence[Sequence[object]]:
        """Return what the file gives as a list of numbers."""
        found = (value for value in self.config.values() if isinstance(value, list))
        return [value for value in found if all(type(each) is int for each in value)]

    def key(self, name: str) -> str:
        """Return the file's own name of a canonical key."""
        own = self._names.get(name, name)
        return name if name in self.config and own not in self.config else own

    def integer(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer of at least `least`, and of no more than any machine has; `default` where the key has none."""
        found = self.value(name)
        if found is None and default is not None:
            return default
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool) or found < least:
            wanted = "a positive integer" if least == 1 else Message("an integer of at least {}", least)
            self.refuse(name, "expected {}, found {}", wanted, shown(found))
            return max(default or 0, least)
        most = limits.of_model(name)
        if found > most:
            self.refuse(name, "expected an integer of at most {}, found {}", most, approximate(found))
            return least
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number of at least zero."""
        found = self.value(name)
        if found is None and default is not None:
            return default
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= limits.INTEGER:
            self.refuse(name, "expected a number from {} to {}, found {}", 0, limits.INTEGER, shown(found))
            return 0.0
        return float(found)

    def flag(self, name: str | bool, *, default: bool = False) -> bool:
        """True or false: what a key says, or what a row of the families fixes."""
        if isinstance(name, bool):
            return name
        found = self.value(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.refuse(name, "expected true or false, found {!r}", found)
        return bool(found)

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return one of some words."""
        found = self.value(name)
        if found not in allowed:
            self.refuse(name, "found {!r}; allowed: {}", found, joined(", ", allowed))
            return allowed[0]
        return str(found)

    def refuse(self, name: str, said: str, *values: object, suggestion: str | None = None) -> None:
        """Note a problem with a key, once: a sentence, or the template of one and its values."""
        self._note(Problem(f"{self.path}.{self.key(name)}", filled(said, values), suggestion))

    def _note(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def check(self) -> None:
        """Raise ConfigError if there are problems: what follows would only repeat them."""
        if self.problems:
            raise ConfigError(self.problems)
