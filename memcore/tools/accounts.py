"""What became of the keys of a file that no setting has: none is silent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from memcore.errors import ConfigError, MemcoreError, Problem, UnsupportedError
from memcore.formats.shell import OUTSIDE
from memcore.formats.tool import Tool
from memcore.messages import Message, joined
from memcore.tools.vocabulary import (
    LEFT_OUT,
    MAPPED,
    OF_NO_ACCOUNT,
    REFUSED,
    class_of,
    class_of_off,
    nearest_key,
    sections,
    slip_in,
    vocabulary,
)

_DECLARED: ContextVar[Collection[str]] = ContextVar("declared_elsewhere", default=())
_OFF = (False, None, 0, "", "none", "None", "null", "off", "no", "false", "False", "auto", "default", -1)


@contextmanager
def declared_elsewhere(names: Collection[str]) -> Iterator[None]:
    """While this lasts, these keys are those of a script that is read by itself."""
    before = _DECLARED.set(names)
    try:
        yield
    finally:
        _DECLARED.reset(before)


class Accounts(NamedTuple):
    """Keys that became no setting."""

    of_no_account: tuple[str, ...] = ()
    """Memory does not depend on them."""
    left_out: tuple[str, ...] = ()
    """The tool has them, memory may depend on them, and they are not supported yet."""
    unknown: tuple[str, ...] = ()
    """No release of the tool has them: they are a script's own."""


def accounted(tool: Tool, rest: Mapping[str, Any]) -> Accounts:
    """Sort the keys that were not read.

    Raises UnsupportedError for a key that makes another job of it, and ConfigError for a key that the tool does not
    have and for a value that is not known.
    """
    kinds: dict[str, list[str]] = {"none": [], "left": [], "unknown": []}
    problems = []
    for name, value in rest.items():
        found = class_of(tool.vocabulary, name)
        if found is None and (turned_off := class_of_off(tool.vocabulary, name)):
            kinds["none" if turned_off in OF_NO_ACCOUNT else "left"].append(name)
            continue
        if found is None and (name in tool.settles or name in _DECLARED.get()):
            continue  # a script's own key, which was read
        if found is None:
            problems += _unknown(tool, name)
            kinds["unknown"].append(name)
        elif found in OF_NO_ACCOUNT or _off(value):
            kinds["none"].append(name)
        elif found == REFUSED:
            raise UnsupportedError(
                name, "found {!r:.80}, which is not supported yet; leave it out to run without it", value
            )
        elif found == MAPPED and any(fnmatchcase(name, each) for each in tool.settles):
            kinds["left" if "." in name else "none"].append(name)  # what is left of a section was not understood
        elif found == MAPPED and (allowed := _allowed(tool, name)) and value not in allowed:
            problems.append(Problem(name, _wrong(value, allowed)))
        else:
            kinds["left" if found in (LEFT_OUT, MAPPED) else "none"].append(name)
    if problems:
        raise ConfigError(problems)
    return Accounts(tuple(kinds["none"]), tuple(kinds["left"]), tuple(kinds["unknown"]))


_IGNORED: ContextVar[frozenset[str]] = ContextVar("ignored", default=frozenset())


def plain(name: str) -> str:
    """Return a key as a file and a command line both have it: `--max-length` is `max_length`."""
    return name.lstrip("-").replace("-", "_")


def ignore(keys: Iterable[str]) -> None:
    """From now on, read files as if they did not have these keys, nor those below them."""
    _IGNORED.set(frozenset(map(plain, keys)))


@contextmanager
def ignoring(keys: Iterable[str]) -> Iterator[None]:
    """Read files as if they did not have these keys, nor those below them, until the end of a block."""
    before = _IGNORED.set(frozenset(map(plain, keys)))
    try:
        yield
    finally:
        _IGNORED.reset(before)


def without_ignored(found: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[Message, ...]]:
    """Return the keys but those that the user wants ignored, and a note on these."""
    ignored = _IGNORED.get()
    left = [
        name for name in found if any(plain(name) == each or plain(name).startswith(f"{each}.") for each in ignored)
    ]
    if not left:
        return found, ()
    said = Message("ignored, as you asked, so the answer is for the job without it: {}", joined(", ", left))
    return {name: value for name, value in found.items() if name not in left}, (said,)


def matters(tool: Tool, before: Mapping[str, Any], name: str, after: Mapping[str, Any]) -> bool:
    """Return whether a key that is otherwise ignored has changed how other keys were read.

    `before` are the keys of a file, and `after` what they mean together.
    """
    both = all(any(fnmatchcase(name, each) for each in listed) for listed in (tool.settles, tool.ignored))
    if not both or tool.normalized is None or name not in before:
        return False
    try:
        without, _ = tool.normalized({key: value for key, value in before.items() if key != name})
    except MemcoreError:
        return True
    return {**without, name: None} != {**after, name: None}


def silenced(tool: Tool, name: str) -> bool:
    """Return whether the tool's table says that memory does not depend on a key, by its name or by a pattern.

    A pattern of a whole section says nothing of keys in it that have a class of their own.
    """
    return name in tool.ignored or (any(fnmatchcase(name, each) for each in tool.ignored) and not _counts(tool, name))


def _counts(tool: Tool, name: str) -> bool:
    """Return whether memory may depend on a key by its class, or on the one that was meant; not what is read."""
    known = vocabulary(tool.vocabulary)
    if name not in known and slip_in(tool.vocabulary, name) is not None:
        return True
    while name and name not in known:
        name = name.rpartition(".")[0]  # below a key whose value is a mapping of anything
        if name in sections(tool.vocabulary):
            return False
    own = known.get(name)
    return own in (MAPPED, LEFT_OUT, REFUSED) and not any(fnmatchcase(name, each) for each in tool.settles)


def _wrong(value: object, allowed: list[Any]) -> Message:
    """Return what is wrong with a value that is none of those that are known."""
    if isinstance(value, str) and OUTSIDE.fullmatch(value):
        return Message("found {}, a variable whose value the file does not give; write the value in its place", value)
    return Message("found {!r:.80}; supported here: {}", value, ", ".join(str(each) for each in allowed))


def _off(value: object) -> bool:
    return value in ([], {}) or any(value is each or (value == each and type(value) is type(each)) for each in _OFF)


def _unknown(tool: Tool, name: str) -> list[Problem]:
    """Return what is wrong with a key that the tool does not have; nothing where scripts add keys of their own."""
    near = nearest_key(tool.vocabulary, name, closely=not tool.closed)
    if not tool.vocabulary or not (tool.closed or near):
        return []
    said = Message("no known release of {} has this key; leave it out, or pass --ignore {}", tool.title, plain(name))
    return [Problem(name, said, near)]


def _allowed(tool: Tool, name: str) -> list[Any]:
    """Return the values that a key is read with, where they are listed."""
    return list(dict.fromkeys(
        value for meaning in tool.meanings for key, value in meaning.keys.items()
        if key == name and isinstance(value, str | int) and not isinstance(value, bool)
    ))  # fmt: skip
