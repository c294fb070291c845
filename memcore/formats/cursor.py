"""A cursor in a text of YAML: past gaps, over scalars, and what is said where it finds something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from memcore.errors import ConfigError
from memcore.formats.scalars import block, double_quoted, folding, resolved, single_quoted
from memcore.messages import Message
from memcore.records import dataclass

_GAP = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:#[^\n]*)?")
_LINE_GAP = re.compile(r"[ \t]*\n(?:[ \t]*\n)*[ \t]*")
_MARKER = re.compile(r"(?:---|\.\.\.)(?![^ \t\n])")
_HEADER = re.compile(r"([|>])(?:([-+]?)([1-9]?)|([1-9])([-+]))[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_FIRST = r"[^-?:,\[\]{}#&*!|>'\"%@` \t\n]"
_BODY = r"[^ \t\n:#]*(?:(?::(?=[^ \t\n])|(?<![ \t\n])#|[ \t]+(?=[^ \t\n#]))[^ \t\n:#]*)*"
PLAIN = re.compile(rf"(?:{_FIRST}|[-?:](?=[^ \t\n])){_BODY}")
_MORE = re.compile(_BODY)
_FLOW_BODY = (
    r"[^ \t\n:#,\[\]{}]*(?:(?::(?=[^ \t\n,\[\]{}])|(?<![ \t\n])#|[ \t]+(?=[^ \t\n#,\[\]{}]))[^ \t\n:#,\[\]{}]*)*"
)
_FLOW_PLAIN = re.compile(rf"(?:{_FIRST}|-(?=[^ \t\n])|[?:](?=[^ \t\n,\[\]{{}}])){_FLOW_BODY}")
_FLOW_MORE = re.compile(_FLOW_BODY)
QUOTED: Mapping[str, re.Pattern[str]] = {
    '"': re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL),
    "'": re.compile(r"'([^']*(?:''[^']*)*)'"),
}
COMPLEX = "has a complex key, which is not supported"
_INNER_MARKER = re.compile(r"\n(?:---|\.\.\.)(?![^ \t\n])")


@dataclass
class Cursor:
    """Where a reader is."""

    text: str
    at: int = 0
    line: int = 0
    """Where the line of the cursor begins."""
    fresh: bool = True
    """Whether nothing but spaces stands before the cursor on its line."""

    def skip(self) -> None:
        """Past spaces, comments and ends of lines."""
        gap = _GAP.match(self.text, self.at)
        self.to(gap.end() if gap else self.at)

    def to(self, end: int) -> None:
        """Past a gap."""
        start, self.at = self.at, end
        newline = self.text.rfind("\n", start, end)
        if newline >= 0:
            self.line, self.fresh = newline + 1, True

    def take(self, end: int) -> None:
        """Past something that is no gap."""
        self.at, self.fresh = end, False

    def letter(self) -> str:
        """Return what is here; nothing at the end."""
        return self.text[self.at : self.at + 1]

    def marked(self) -> bool:
        """Return whether a document begins or ends here."""
        return self.at == self.line and _MARKER.match(self.text, self.at) is not None

    def ended(self) -> bool:
        """Return whether the document ends here."""
        return self.at >= len(self.text) or self.marked()

    def column(self) -> int:
        """Return how far from its line's beginning the cursor is."""
        if "\t" in self.text[self.line : self.at]:
            self.refuse("is indented with a tab; YAML takes only spaces")
        return self.at - self.line

    def refuse(self, why: str, at: int | None = None) -> NoReturn:
        """Raise what is wrong, with the line; by itself that of the cursor."""
        here = min(self.at if at is None else at, len(self.text.rstrip()))
        number = self.text.count("\n", 0, here)
        found = self.text[self.text.rfind("\n", 0, here) + 1 :].partition("\n")[0]
        raise ConfigError.at(Message("line {}", number + 1), "found {!r}, which {}", found.strip()[:60], why)

    def misplaced(self) -> str:
        """Return why there should be nothing at the cursor."""
        if self.fresh:
            return "is indented differently from its neighbours"
        return Message("has text after its end: {!r}", self.text[self.at : self.at + 200].partition(chr(10))[0][:20])

    def scalar(self, parent: int | None, tag: str) -> tuple[Any, str]:
        """Return a scalar right of column `parent`, None within brackets, and its text."""
        quoted = QUOTED.get(self.letter())
        text = self._plain(parent) if quoted is None else self._quote(quoted)
        if quoted is not None or tag in ("!!str", "!"):
            return text, text
        try:
            return resolved(text), text
        except ValueError as error:
            self.refuse(Message("is too long: {}", str(error)))

    def _plain(self, parent: int | None) -> str:
        first, more = (_FLOW_PLAIN, _FLOW_MORE) if parent is None else (PLAIN, _MORE)
        match = first.match(self.text, self.at)
        if match is None:
            begun = Message("has {!r} at the start of a value: quote such values", self.letter())
            self.refuse(COMPLEX if self.letter() == "?" else begun)
        parts: list[str] = []
        while match is not None and match[0]:
            self.take(match.end())
            if parent is not None and self.letter() == ":":
                self.refuse(self._misplaced_key(len(parts)))
            gap = _LINE_GAP.match(self.text, self.at)
            parts.append(match[0])
            if gap is None or not self._continues(gap.end(), parent):
                break
            parts.append(folding(gap[0]))
            self.to(gap.end())
            match = more.match(self.text, self.at)
        return "".join(parts).rstrip(" \t\n")

    @staticmethod
    def _misplaced_key(before: int) -> str:
        """Say why a text, after a number of lines, should have no colon."""
        return (
            "is indented differently from its neighbours"
            if before
            else "has a second colon: quote values that contain `: `"
        )

    def _continues(self, at: int, parent: int | None) -> bool:
        """Return whether a plain text goes on in another line, with what is there."""
        line = self.text.rfind("\n", self.at, at) + 1
        if self.text[at : at + 1] in ("", "#") or _MARKER.match(self.text, line):
            return False
        if parent is not None and "\t" in self.text[line:at]:
            self.refuse("is indented with a tab; YAML takes only spaces", at)
        return parent is None or at - line > parent

    def _quote(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None or _INNER_MARKER.search(match[0]):
            self.refuse(Message("lacks its closing {}", self.letter()))
        text = self.unquoted(match)
        self.take(match.end())
        return text

    def unquoted(self, match: re.Match[str]) -> str:
        """Return the text of a scalar in one piece."""
        if match[0][0] not in QUOTED:
            return match[0].rstrip(" \t")
        try:
            return (double_quoted if match[0][0] == '"' else single_quoted)(match[1])
        except ValueError as error:
            self.refuse(str(error))

    def text_block(self, parent: int) -> str:
        """Return a block of text behind `|` or `>`."""
        header = _HEADER.match(self.text, self.at)
        if header is None:
            self.refuse("starts a text block but continues on the same line")
        least, given = max(parent + 1, 1), header[3] or header[4]
        indent = least + int(given) - 1 if given else 0
        rows: list[str] = []
        at = header.end()
        while at < len(self.text):
            end = self.text.find("\n", at)
            row = self.text[at : end if end >= 0 else len(self.text)]
            column = len(row) - len(row.lstrip(" "))
            if column < len(row):
                indent = indent or max(least, column)
                if column < indent:
                    break
            rows.append(row[indent:] if indent else "")
            at += len(row) + 1
        ended = at <= len(self.text)
        if rows and not rows[-1] and not ended:
            rows.pop()
            ended = True
        self.at = self.line = min(at, len(self.text))
        self.fresh = True
        return block(rows, folded=header[1] == ">", chomping=header[2] or header[5] or "", ended=ended)
