"""YAML, as far as configs are written in it; nothing is executed, and reading takes time in proportion to the text.

Blocks and flow collections over any lines, plain and quoted scalars, blocks of text, comments, anchors, aliases and
merge keys, YAML's own tags, one document. Refused, with the line: other tags, keys that are no text or number, further
documents, and a key twice with different values. Keys are texts as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from memcore.formats.cursor import COMPLEX, PLAIN, QUOTED, Cursor
from memcore.limits import NESTING
from memcore.messages import Message
from memcore.records import dataclass

_DIRECTIVE = re.compile(r"%[^\n]*")
_DASH = re.compile(r"-(?![^ \t\n])")
_COLON = re.compile(r"[ \t]*:(?![^ \t\n])")
_PROPERTIES = re.compile(r"(?:[&!][\w./!<>:-]*[ \t]+){0,2}")
_NAME = re.compile(r"[&*]([\w./-]+)(?![^ \t\n,\]}])")
_TAG = re.compile(r"!(?:<[^ \t\n>]*>|[^ \t\n,\[\]{}]*)")
_CLOSING = {"[": "]", "{": "}"}
_TYPES: Mapping[str, type] = {
    "!!str": str,
    "!!int": int,
    "!!float": float,
    "!!bool": bool,
    "!!null": type(None),
    "!!seq": list,
    "!!map": dict,
}
"""YAML's own tags, and what they promise."""
_OF_COMPOSE = ("!override", "!reset")
"""Tags of compose files, which say what becomes of a value in the file before (compose-spec, 13-merge.md)."""
_MERGE = "<<"
_ALIASED = 2**17
"""Values that aliases may repeat in all: some lines of aliases of aliases are billions of values."""


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A value that aliases repeat: it is shared, not copied."""

    value: Any
    size: int
    """Values in it, itself among them."""
    height: int
    """Collections inside each other."""


@dataclass(slots=True)
class _Pairs:
    """A mapping while it is read."""

    own: dict[str, Any] = field(default_factory=dict)
    merged: dict[str, Any] = field(default_factory=dict)


def read_yaml(text: str, notes: list[str] | None = None) -> Any:
    r"""Return the content of a document; `notes` takes what there is to say about it.

    >>> read_yaml("a: 1\nb:\n  - x\n  - y: [2, 3e8]\n")
    {'a': 1, 'b': ['x', {'y': [2, 300000000.0]}]}

    Raises ConfigError with the line of what is not understood.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return _Reader(plain, notes=[] if notes is None else notes, strict=notes is None).document()


@dataclass
class _Reader(Cursor):
    """Collections, anchors and tags."""

    notes: list[str] = field(default_factory=list)
    strict: bool = True
    """Refuse a key that says two things, of which YAML's readers take the latter: nobody is there to be told."""
    deep: int = 0
    aliased: int = 0
    """Values that aliases have given."""
    anchors: dict[str, _Anchored] = field(default_factory=dict)

    def document(self) -> Any:
        """Return the first document, if there is no other."""
        self.skip()
        while self.at == self.line and (directive := _DIRECTIVE.match(self.text, self.at)):
            self.take(directive.end())
            self.skip()
        if self.marked():
            self.take(self.at + 3)
        value = self._block(-1)
        self.skip()
        ended = False
        while self.marked():
            self.take(self.at + 3)
            self.skip()
            ended = True
        if self.at < len(self.text):
            self.refuse("starts a second document, but only one is supported" if ended else self.misplaced())
        return value

    # Blocks

    def _enter(self, levels: int = 1) -> None:
        self.deep += levels
        if self.deep > NESTING:
            self.refuse(Message("is nested more than {} levels deep", NESTING))

    def _block(self, parent: int, *, compact: bool = False, beside: bool = False) -> Any:
        """Return the value that stands further right than column `parent`.

        A collection begins on a line of its own, or `compact` behind a dash; a key's list may be `beside` it.
        """
        self._enter()
        self.skip()
        placed = self.fresh or compact
        if self._absent(parent, beside=beside):
            value = None
        elif placed and self._keyed() is not None:
            value = self._mapping()
        else:
            value = self._node(parent, placed=placed, beside=beside)
        self.deep -= 1
        return value

    def _absent(self, parent: int, *, beside: bool) -> bool:
        """Return whether nothing is here, or only what belongs further out."""
        if self.ended() or not self.fresh:
            return self.ended()
        column = self.column()
        return column < parent or (column == parent and not (beside and _DASH.match(self.text, self.at)))

    def _node(self, parent: int, *, placed: bool, beside: bool) -> Any:
        """Return a value with the anchor and the tag before it."""
        start = self.at
        anchor, tag = self._properties()
        if self.at != start:
            placed = self.fresh
        if self.at != start and self._absent(parent, beside=beside):
            return self._finished(anchor, tag, None)
        letter = self.letter()
        if placed and _DASH.match(self.text, self.at):
            value: Any = self._list()
        elif placed and self._keyed() is not None:
            value = self._mapping()
        elif letter in "|>":
            value = self.text_block(parent)
        elif letter in _CLOSING:
            value = self._flow()
        elif letter == "*":
            value = self._alias()
        else:
            value = self.scalar(parent, tag)[0]
        return self._finished(anchor, tag, value)

    def _mapping(self) -> dict[str, Any]:
        column, pairs = self.column(), _Pairs()
        while True:
            start = self.at
            key = self._keyed()
            if key is None:
                self.refuse(COMPLEX if self.letter() == "?" else "is not `key: value`")
            self.take(key[1])
            self._put(pairs, key[0], self._block(column, beside=True), start)
            if not self._another(column):
                return {**pairs.merged, **pairs.own}

    def _list(self) -> list[Any]:
        column, found = self.column(), []
        while True:
            self.take(self.at + 1)
            found.append(self._block(column, compact=True))
            if not self._another(column) or not _DASH.match(self.text, self.at):
                return found

    def _another(self, column: int) -> bool:
        """Return whether a collection at a column goes on."""
        self.skip()
        if self.ended():
            return False
        if not self.fresh or self.column() > column:
            self.refuse(self.misplaced())
        return self.column() == column

    def _keyed(self) -> tuple[str, int] | None:
        """Return the key in one line that is here, and where its colon ends."""
        named = _PROPERTIES.match(self.text, self.at)
        at = named.end() if named else self.at
        found = QUOTED.get(self.text[at : at + 1], PLAIN).match(self.text, at)
        colon = _COLON.match(self.text, found.end()) if found else None
        if found is None or colon is None or "\n" in found[0]:
            return None
        key = self.unquoted(found)
        anchor = _NAME.search(named[0]) if named else None
        if anchor is not None:
            self.anchors[anchor[1]] = _Anchored(key, 1, 0)
        return key, colon.end()

    def _put(self, pairs: _Pairs, key: str, value: Any, at: int) -> None:
        """A key with its value into a mapping; a merge key brings those of other mappings."""
        if key == _MERGE:
            for each in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(each, Mapping):
                    self.refuse("merges something that is not a mapping", at)
                pairs.merged |= each
        elif pairs.own.get(key) is None:
            pairs.own[key] = value  # of an empty key and another one, that has a value
        elif pairs.own[key] == value:
            self.notes.append(Message("{} appears twice with the same value", key))
        elif self.strict:
            self.refuse("appears twice with different values", at)
        else:
            self.notes.append(Message("{} appears twice with different values: the latter is used", key))
            pairs.own[key] = value

    # Anchors, aliases and tags

    def _properties(self) -> tuple[str, str]:
        """Return the anchor and the tag before a value, and the gap behind them."""
        anchor = tag = ""
        while self.letter() in ("&", "!"):
            match = (_NAME if self.letter() == "&" else _TAG).match(self.text, self.at)
            if match is None:
                self.refuse("has an anchor without a name")
            anchor, tag = (match[1], tag) if match[0][0] == "&" else (anchor, match[0])
            self.take(match.end())
            self.skip()
            if self.fresh:
                break
        if tag not in _TYPES and tag not in ("", "!", *_OF_COMPOSE):
            self.refuse(Message("has the tag {}, which is not supported", tag[:40]))
        return anchor, tag

    def _finished(self, anchor: str, tag: str, value: Any) -> Any:
        """Return a value as its tag says, kept for its aliases."""
        if tag == "!!float" and type(value) is int:
            value = float(value)
        elif tag == "!!str" and value is None:
            value = ""
        if tag in _TYPES and type(value) is not _TYPES[tag]:
            self.refuse(Message("is not what its tag {} says", tag))
        if anchor:
            self.anchors[anchor] = _anchored(value)
        return value

    def _alias(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match is None or match[1] not in self.anchors:
            self.refuse("refers to an anchor that is not defined before it")
        found = self.anchors[match[1]]
        self.aliased += found.size
        if self.aliased > _ALIASED:
            self.refuse(Message("expands aliases to more than {} values", _ALIASED))
        self._enter(found.height)
        self.deep -= found.height
        self.take(match.end())
        return found.value

    # Flow collections

    def _flow(self) -> Any:
        """Return a list or a mapping in brackets, over any lines."""
        self._enter()
        start, closing = self.at, _CLOSING[self.letter()]
        items: list[Any] = []
        pairs = _Pairs()
        self.take(start + 1)
        while self._next(start, closing) != closing:
            here = self.at
            value, key = self._flow_value()
            letter = self._next(start, closing)
            if letter == ":" and closing == "]" and self.line > here:
                self.refuse(Message("has {!r} where a comma or {} belongs", ":", closing))
            if letter == ":":
                self.take(self.at + 1)
                value = None if self._next(start, closing) in (",", closing) else self._flow_value()[0]
            if closing == "}" or letter == ":":
                if key is None:
                    self.refuse("has a key that is neither a string nor a number", here)
                inner = pairs if closing == "}" else _Pairs()
                self._put(inner, key, None if closing == "}" and letter != ":" else value, here)
                items.append({**inner.merged, **inner.own} if closing == "]" else None)
            else:
                items.append(value)
            letter = self._next(start, closing)
            if letter == ",":
                self.take(self.at + 1)
            elif letter != closing:
                self.refuse(Message("has {!r} where a comma or {} belongs", letter, closing))
        self.take(self.at + 1)
        self.deep -= 1
        return items if closing == "]" else {**pairs.merged, **pairs.own}

    def _next(self, start: int, closing: str) -> str:
        """Return the next letter of a flow collection that began at `start`."""
        self.skip()
        if self.ended():
            self.refuse(Message("lacks its {}", closing), start)
        return self.letter()

    def _flow_value(self) -> tuple[Any, str | None]:
        """Return a value within brackets, and its text as a key if it can be one."""
        start = self.at
        anchor, tag = self._properties()
        letter = self.letter()
        if self.at != start and letter in ",]}":
            return self._finished(anchor, tag, None), ""
        if letter in _CLOSING:
            return self._finished(anchor, tag, self._flow()), None
        if letter == "*":
            value = self._alias()
            return value, value if isinstance(value, str) else None
        value, text = self.scalar(None, tag)
        return self._finished(anchor, tag, value), text


def _anchored(value: Any) -> _Anchored:
    """Return a value with its size and height."""
    inner = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else None
    if inner is None:
        return _Anchored(value, 1, 0)
    parts = [_anchored(each) for each in inner]
    return _Anchored(value, 1 + sum(each.size for each in parts), 1 + max((each.height for each in parts), default=0))
