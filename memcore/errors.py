"""Errors that an input can cause.

MemcoreError                 every error that a user can cause
├── ConfigError              a config that cannot be understood; carries all problems at once
└── UnsupportedError         a valid config that is not supported yet
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from memcore.messages import Message, filled
from memcore.records import dataclass

LONGEST = 3000
"""Characters of a message: lists of everything that is known are shorter."""
LONGEST_PATH = 500
"""Of its path: keys of somebody's file may be of any length."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a config: its place, the value found and the values allowed."""

    path: str
    """The key's path in the config, like `training.sequence_length`."""
    message: str
    """The value found, the values allowed and the fix."""
    suggestion: str | None = None
    """The nearest valid name or value."""
    hub_id: str = ""
    """The id by which the model hub may know a model that the catalog does not have."""

    def __post_init__(self) -> None:
        """Cut what quotes a long value of somebody's file."""
        if len(self.message) > LONGEST:
            object.__setattr__(self, "message", f"{self.message[:LONGEST]} …")

    def __str__(self) -> str:
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        path = self.path if len(self.path) <= LONGEST_PATH else f"{self.path[:LONGEST_PATH]} …"
        return f"{path}: {self.message}{hint}" if path else f"{self.message}{hint}"


LISTED = 50
"""Problems that are told one by one: a file of something else has thousands."""


class MemcoreError(ValueError):
    """The base of every error that an input can cause; a `ValueError`."""


class ConfigError(MemcoreError):
    """Raised for a config that cannot be understood: unknown keys, wrong types, values out of range, contradictions.

    `problems` lists them all, each with its path, a message and the nearest valid name.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = (Problem("", Message("and {} more", len(problems) - LISTED)),) if len(problems) > LISTED else ()
        self.problems = (*problems[:LISTED], *more)
        super().__init__("\n".join(str(problem) for problem in problems))

    @classmethod
    def at(cls, path: str, said: str, *values: object) -> ConfigError:
        """Build the error of one problem from a sentence, or from a template and its values."""
        return cls([Problem(path, filled(said, values))])

    def within(self, name: str) -> ConfigError:
        """Return the error of a file by its name, where readers, which know no names, say where they stopped."""
        return ConfigError([replace(each, path=_placed(name, each.path)) for each in self.problems])


_WHOLE, _LINE = "the file", re.compile(r"line \d+")
"""How readers say where they stopped."""


def _placed(name: str, path: str) -> str:
    """Return the place of a problem with its file: `train.yaml: line 3`; keys of a config stay as they are."""
    if path == _WHOLE:
        return name
    return Message("{}: {}", name, path) if _LINE.fullmatch(path) else path


class UnsupportedError(MemcoreError):
    """Raised for a valid config that is not supported yet; memcore never approximates it silently.

    `problem` has the path of the setting and a message that names the closest supported value.
    """

    def __init__(self, path: str, said: str, *values: object) -> None:
        self.problem = Problem(path, filled(said, values))
        super().__init__(str(self.problem))

    @classmethod
    def of_value(cls, path: str, value: object, why: str) -> UnsupportedError:
        """Build the error of a value in a tool's file: what was found, and what is supported."""
        return cls(path, "found {!r:.80}; {}", value, why)


def problems_of(error: MemcoreError) -> tuple[Problem, ...]:
    """The problems that an error carries."""
    if isinstance(error, ConfigError):
        return error.problems
    return (error.problem,) if isinstance(error, UnsupportedError) else (Problem("", str(error)),)


_BRANDS = frozenset({
    *("nvidia", "amd", "intel", "apple", "geforce", "tesla", "radeon", "instinct"),
    *("gpu", "card", "generation", "graphics"),
})  # fmt: skip
"""Words around a GPU's name that tell no GPU from another."""
_MARKS = re.compile(r"\((?:r|tm|c)\)")
"""Of names that are registered."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that says the same in more words, or else looks most like `name`, or else contains it first."""
    from difflib import get_close_matches  # noqa: PLC0415 - most inputs have no mistake

    names, wanted = list(known), name.strip().lower()
    meant = meaning(wanted, names)
    if meant:
        return meant[0]
    found = get_close_matches(wanted, names, n=1, cutoff=0.6)
    if found:
        return found[0]
    return next((each for each in names if wanted and wanted in each), None)


def meaning(name: str, known: Iterable[str] | Mapping[str, Sequence[str]]) -> list[str]:
    """The known names that `name` may stand for: those that it spells, else begins, else that have its words.

    One word may also be the last of a name: "4090" is no laptop's.

    Words and numbers must stand in the order of `name`; brands tell nothing. Names that begin like it come first, then
    short ones. A mapping gives the spellings of each name.

    >>> meaning("A100-80GB", ["a10", "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-80gb"])
    ['a100-sxm-80gb', 'a100-pcie-80gb']
    >>> meaning("GeForce 4090", ["rtx-4090", "rtx-4090-laptop"])
    ['rtx-4090']
    """
    wanted = _telling(name)
    spellings = known if isinstance(known, Mapping) else {each: (each,) for each in known}
    for is_meant in (_spells, _is_an_end, _is_within) if wanted else ():
        found = [each for each, having in spellings.items() if any(is_meant(wanted, one) for one in having)]
        if found:
            words = {each: _words(spellings[each][0]) for each in found}
            return sorted(found, key=lambda each: (words[each][: len(wanted)] != wanted, len(words[each])))
    return []


def _spells(wanted: tuple[str, ...], name: str) -> bool:
    return wanted == _telling(name)


def _is_an_end(wanted: tuple[str, ...], name: str) -> bool:
    words = _words(name)
    return wanted == words[: len(wanted)] or wanted == words[-1:]


def _is_within(wanted: tuple[str, ...], name: str) -> bool:
    rest = iter(_words(name))
    return all(each in rest for each in wanted)


@lru_cache(maxsize=8192)
def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]+|[0-9]+", _MARKS.sub("", name.lower())))


@lru_cache(maxsize=8192)
def _telling(name: str) -> tuple[str, ...]:
    """The words of a name without brands."""
    return tuple(word for word in _words(name) if word not in _BRANDS)
