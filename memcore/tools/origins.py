"""What became of every key of a file, and where every value came from.

A key's settings are those that change if the key is taken out and the file is read again, so that keys which mean
something together each have their share. A key that changes none says nothing that holds without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from memcore.config.imported import imported as of_calculator
from memcore.errors import MemcoreError
from memcore.formats.normalized import GPUS, MODEL, PER_NODE
from memcore.formats.readers import flat, parsed
from memcore.formats.shell import ENVIRONMENT, variables_given
from memcore.formats.writing import nested
from memcore.messages import Message
from memcore.records import dataclass
from memcore.tools.convert import Imported, of_keys
from memcore.tools.launchers import ElsewhereError
from memcore.tools.sources import Source, read_part, whole_files
from memcore.tools.vocabulary import OF_NO_ACCOUNT, class_of, class_of_off
from memcore.untrusted import MARK

_MOST = 400
"""Keys of a file that are each taken out; of more, those that are a setting by themselves are listed alone."""
_SAME = "read, and changes nothing: the job is the same without it"
_OFF = "off, unset or left to the tool"
_LEFT_OUT = "may affect memory but is not supported yet: ignored"
_UNKNOWN = "is not recognized and was ignored"


@dataclass(frozen=True, slots=True)
class Read:
    """A key that became a setting."""

    file: str
    key: str
    line: int | None
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Unread:
    """A key that became none, and why."""

    file: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Assumed:
    """A value that no file says, and whose it is."""

    path: str
    value: Any
    because: str


@dataclass(frozen=True, slots=True)
class Origins:
    """Where all values of a job came from, and what became of all keys."""

    read: tuple[Read, ...] = ()
    of_no_account: tuple[Unread, ...] = ()
    left_out: tuple[Unread, ...] = ()
    """Keys that may change memory, and are said to be left out."""
    assumed: tuple[Assumed, ...] = ()

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Plain lists, as `--json` prints them."""
        parts: Mapping[str, Sequence[Read | Unread | Assumed]] = {
            "read": self.read,
            "of_no_account": self.of_no_account,
            "left_out": self.left_out,
            "assumed": self.assumed,
        }
        return {name: [asdict(each) for each in listed] for name, listed in parts.items()}


def origins(
    sources: Sequence[Source],
    gpus: int | None = None,
    given: Collection[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Origins:
    """Return what became of the keys of the texts that describe a job; arguments and errors as of `read_sources`."""
    with variables_given(variables):
        parts = [_of_source(each, gpus, given) for each in whole_files(sources)]
    read = tuple(row for each in parts for row in each.read)
    said = {row.path for row in read}
    assumed = {row.path: row for each in reversed(parts) for row in each.assumed if row.path not in said}
    return Origins(
        read,
        tuple(row for each in parts for row in each.of_no_account),
        tuple(row for each in parts for row in each.left_out),
        tuple(assumed.values()),
    )


def _of_source(source: Source, gpus: int | None, given: Collection[str]) -> Origins:
    if source.launches:
        return Origins()
    try:
        config, other, notes = read_part(source, gpus, given)
    except ElsewhereError:
        return Origins()
    if other is not None:
        return _of_tool(source, other, gpus)
    return _of_config(source, config, notes)


def _of_config(source: Source, config: Mapping[str, object], notes: Sequence[str]) -> Origins:
    """Return a config of memcore's own words, of George614's, or of a model alone."""
    try:
        found = parsed(source.text.removeprefix(MARK), source.name)
    except MemcoreError:
        return Origins()
    whole = flat(of_calculator(config).config)
    if "model" not in found and "model_type" in found:
        rows = tuple(Read(source.name, key, _line(source.text, key), f"model.{key}", value)
                     for key, value in found.items())  # fmt: skip
        return Origins(rows)

    def again(keys: Mapping[str, Any]) -> Mapping[str, Any]:
        return flat(of_calculator(nested(keys)).config)

    rest = Origins(assumed=tuple(Assumed(_path_in(note), whole.get(_path_in(note)), note) for note in notes))
    return _weighed(source, flat(found), whole, again, lambda key: key, rest)


def _path_in(note: str) -> str:
    """Return the setting that a note begins with."""
    return re.split(r"[\s:]", note.removeprefix("found "), maxsplit=1)[0]


def _of_tool(source: Source, other: Imported, gpus: int | None) -> Origins:
    """Return what a tool's file says, key by key."""
    accounts, tables = other.accounts, other.tool.vocabulary

    def shown(key: str) -> str:
        return _as_written(other, key, source.text)

    silent = tuple(Unread(source.name, shown(key), _why(tables, key)) for key in accounts.of_no_account)
    left = tuple(Unread(source.name, shown(key), why)
                 for keys, why in ((accounts.left_out, _LEFT_OUT), (accounts.unknown, _UNKNOWN))
                 for key in keys)  # fmt: skip
    sorted_out = {*accounts.of_no_account, *accounts.left_out, *accounts.unknown, ""}
    keys = {key: value for key, value in other.found.items() if key not in sorted_out}

    def again(less: Mapping[str, Any]) -> Mapping[str, Any]:
        return flat(of_keys(other.tool, less, gpus).config)

    whole = flat(other.config)
    named = dict(other.read)
    dimensions = {key: f"model.{ours}" for key, ours in other.tool.dimensions.items()}
    if other.tool.model:
        dimensions[other.tool.model] = "model"

    def path_of(key: str) -> str | None:
        return named.get(key) or dimensions.get(key)

    def reread(less: Mapping[str, Any]) -> Mapping[str, Any]:
        return again({**less, **{key: other.found[key] for key in sorted_out if key in other.found}})

    found = _weighed(source, keys, whole, reread, path_of, Origins(), shown)
    said = {row.path for row in found.read}
    because = Message("the default of {}", other.tool.title)
    assumed = tuple(Assumed(path, value, because) for path, value in whole.items()
                    if path not in said and not path.startswith("model"))  # fmt: skip
    return replace(
        found, of_no_account=(*found.of_no_account, *silent), left_out=left, assumed=(*assumed, *found.assumed)
    )


def _why(tables: tuple[str, ...], key: str) -> str:
    """Return why memory does not depend on a key."""
    found = class_of(tables, key) or class_of_off(tables, key)
    return OF_NO_ACCOUNT.get(found or "", _OFF if found else "memory does not depend on it")


def _weighed(
    source: Source,
    keys: Mapping[str, Any],
    whole: Mapping[str, Any],
    again: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    path_of: Callable[[str], str | None],
    rest: Origins,
    shown: Callable[[str], str] = str,
) -> Origins:
    """Each key with the settings that differ without it."""
    decided = {key: list(_decided(keys, key, whole, again)) if len(keys) <= _MOST else [] for key in keys}
    for key, paths in decided.items():
        own = path_of(key)
        if own is not None and own not in paths and (own in whole or own.startswith("model")):
            paths.append(own)
    lone = whole.keys() - {path for paths in decided.values() for path in paths}
    for key, path in _together(keys, whole, again) if len(keys) <= _MOST else ():
        if path in lone:
            decided[key].append(path)
            lone.discard(path)
    read: list[Read] = []
    silent: list[Unread] = []
    for key, changed in decided.items():
        needed = not changed and _needed(keys, key, again)
        paths = [path for path in whole if path in lone and _names_section_of(key, path)] if needed else changed
        name = shown(key)
        if name.startswith("*"):
            continue  # no key of the text
        file, line = _place(source, name)
        read += (Read(file, name, line, path, whole.get(path, keys[key])) for path in paths)
        if not paths and not key.startswith(ENVIRONMENT):
            silent.append(Unread(source.name, name, _SAME))
    return replace(rest, read=tuple(read), of_no_account=(*silent, *rest.of_no_account))


def _decided(
    keys: Mapping[str, Any],
    key: str,
    whole: Mapping[str, Any],
    again: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Iterator[str]:
    """Settings that are others without a key, or with another value where it says what holds anyway."""
    less = {name: value for name, value in keys.items() if name != key}
    for other in (less, {**less, key: not keys[key]}):
        try:
            found = again(other)
        except MemcoreError:
            continue
        changed = [path for path in {**whole, **found} if whole.get(path) != found.get(path)]
        if changed:
            yield from changed
            return


def _together(
    keys: Mapping[str, Any], whole: Mapping[str, Any], again: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """The first key of a section, and settings that are others without the whole section: any key of it says them."""
    sections: dict[str, list[str]] = {}
    for key in keys:
        sections.setdefault(re.split(r"[._]", key)[0], []).append(key)
    for section in sections.values():
        if len(section) < 2:
            continue
        try:
            found = again({key: value for key, value in keys.items() if key not in section})
        except MemcoreError:
            continue
        yield from ((section[0], path) for path in whole if whole[path] != found.get(path))


def _needed(keys: Mapping[str, Any], key: str, again: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> bool:
    """Return whether a file without a key, or with another value of it, is none."""
    less = {name: value for name, value in keys.items() if name != key}
    return not (_reads(less, again) and _reads({**less, key: not keys[key]}, again))


def _reads(keys: Mapping[str, Any], again: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> bool:
    """Return whether these keys are a job."""
    try:
        again(keys)
    except MemcoreError:
        return False
    return True


def _names_section_of(key: str, path: str) -> bool:
    """Return whether a key's name says the section that a setting is in, as `optimizer._component_` does."""
    return not {*path.split(".")}.isdisjoint(key.split("."))


_LAUNCHERS = re.compile(r"-{0,2}(?:n_?procs?[_-]per[_-]node|num[_-]processes|num[_-]gpus)", re.IGNORECASE)


def _as_written(other: Imported, key: str, text: str) -> str:
    """Return a key as the text has it."""
    if key == MODEL:
        return "model"
    if key.startswith(ENVIRONMENT):
        return key.removeprefix(ENVIRONMENT)
    if key in (GPUS, PER_NODE):
        found = _LAUNCHERS.search(text)
        return found[0] if found else key
    dashed = f"--{key}"
    return dashed if other.tool.syntax != "argv" and dashed in text else key


def _place(source: Source, key: str) -> tuple[str, int | None]:
    """Return the file where a key stands, and its line; of several that are one, the last that has it."""
    for each in reversed(source.parts):
        line = _line(each.text, key)
        if line is not None:
            return each.name, line
    return source.name, _line(source.text, key)


def _line(text: str, key: str) -> int | None:
    """Return the line where a key stands: in one piece, or each part of a dotted one below the one before."""
    whole = re.compile(rf"(?<![\w.-]){re.escape(key)}(?![\w-])").search(text)
    if whole is not None:
        return text.count("\n", 0, whole.start()) + 1
    at = 0
    for part in key.split("."):
        edge = r"(?<![\w-])" if part.startswith("-") else r"(?<![\w.-])[\"']?"
        found = re.compile(rf"{edge}{re.escape(part)}(?![\w-])").search(text, at)
        if found is None:
            return None
        at = found.end()
    return text.count("\n", 0, at) + 1
