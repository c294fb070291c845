"""Texts with mistakes in them: files of other tools, logs, links and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from urllib.parse import quote

from fuzzing import corpus
from fuzzing.jobs import any_job, value
from fuzzing.trees import damaged
from fuzzing.values import WRONG
from memcore.config.deflated import DEFLATED, deflated
from memcore.config.settings import SETTINGS

LONGEST = 200_000
"""Characters of a text."""
PIECES = (
    "\n", "\n\n", "\t", "  ", "#", "# ", '"', "'", "\\", "\\\n", "$", "${", "$(", "`", "{", "}", "[", "]", "(", ")",
    ":", ": ", "- ", "-", "--", "=", ",", "|", ">", "&", "&&", ";", "*", "!", "%", "@", "\x00", "\ufeff", "\r\n",
    "\u2028", "\x1b[31m", "🦙", "null", "~", "[]", "{}",
    "<<EOF\n", "if true; then\n", "fi\n", "- |\n", "'''", '"""', "9" * 400, "9" * 5000, "1e999", "e",
)  # fmt: skip
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def file(rng: Random) -> str:
    """Another tool's file, a config or a config.json, with mistakes."""
    if rng.random() < 0.3:
        tree = any_job(rng) if rng.random() < 0.5 else damaged(rng.choice(corpus.published()), rng)
        return broken(json.dumps(tree, indent=rng.choice([None, 2])), rng)
    return broken(rng.choice(corpus.files()), rng)


def log(rng: Random) -> str:
    """Lines that engines print, with mistakes."""
    lines = rng.choices(corpus.logs(), k=rng.randrange(1, 8))
    return broken("\n".join(lines), rng)


def link(rng: Random) -> str:
    """A link of a job, with mistakes."""
    tree = any_job(rng)
    parts = [f"{SETTINGS[path].flag}={quote(text, errors='replace')}" for path, text in spelled(tree)]
    rng.shuffle(parts)
    found = "&".join(["#v1", *parts])
    return broken(found, rng) if rng.random() < 0.6 else found


def spelled(tree: Any) -> list[tuple[str, str]]:
    """The settings of a job as texts by path, whatever their values."""
    found = []
    for path in SETTINGS:
        here = tree
        for name in path.split("."):
            here = here.get(name) if isinstance(here, dict) else None
        if here is not None:
            found.append((path, _text(here)))
    return found


def arguments(rng: Random) -> list[str]:
    """Flags of the command line with their values."""
    found: list[str] = []
    for path in rng.sample(list(SETTINGS), rng.randrange(8)):
        given = value(SETTINGS[path].kind, rng)
        flag = f"--{SETTINGS[path].flag}"
        found += [f"{flag}={_text(given)}"] if rng.random() < 0.3 else [flag, _text(given)]
    return found if any(each.startswith("--model") for each in found) else ["--model", "gpt2", *found]


def _text(found: Any) -> str:
    if isinstance(found, dict):
        return deflated(found) if found else DEFLATED
    if isinstance(found, bool):
        return str(found).lower()
    return ",".join(map(_text, found)) if isinstance(found, list) else str(found)


def broken(text: str, rng: Random) -> str:
    """A text with up to four mistakes, or none."""
    for _ in range(rng.randrange(5)):
        text = rng.choice(MISTAKES)(text, rng)[:LONGEST]
    return text


def _cut(text: str, rng: Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _leave_out(text: str, rng: Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.choice([1, 1, 3, 20]) :]


def _insert(text: str, rng: Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + rng.choice(PIECES) * rng.choice([1, 1, 1, 2, 40, 2000]) + text[start:]


def _other_letter(text: str, rng: Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + chr(rng.choice([rng.randrange(128), rng.randrange(0x110000)])) + text[start + 1 :]


def _lines(text: str, rng: Random) -> str:
    """Lines left out, twice, elsewhere, joined, or indented."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    chosen = rng.randrange(5)
    if chosen == 0:
        del lines[at]
    elif chosen == 1:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif chosen == 2:
        lines[at : at + 2] = [" ".join(lines[at : at + 2])]
    elif chosen == 3:
        lines[at] = rng.choice([" ", "  ", "\t"]) * rng.randrange(1, 6) + lines[at]
    else:
        lines[at] = lines[at].strip()
    return "\n".join(lines)


def _other_number(text: str, rng: Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    chosen = rng.choice(found)
    number = rng.choice(["0", "-1", "1e30", "9" * 400, "", "0x10", "1_000", "1.5", str(2**53), "nan", "7B", "None"])
    return text[: chosen.start()] + number + text[chosen.end() :]


def _other_word(text: str, rng: Random) -> str:
    found = list(re.finditer(r"[^\s:=,&]+", text))
    if not found:
        return text
    chosen = rng.choice(found)
    return text[: chosen.start()] + _text(rng.choice(WRONG)) + text[chosen.end() :]


def _many(text: str, rng: Random) -> str:
    """A piece of it again and again."""
    start = rng.randrange(len(text) + 1)
    piece = text[start : start + rng.choice([1, 2, 10, 100, 1000])]
    return text[:start] + piece * rng.choice([2, 10, 1000]) + text[start:]


def _nest(text: str, rng: Random) -> str:
    opening, closing = rng.choice(["[]", "{}", "()", ('{"a":', "}"), ("- ", ""), ("$(", ")"), ("a:\n ", "")])
    count = rng.choice([1, 10, 100, 3000])
    return opening * count + text + closing * count


def _splice(text: str, rng: Random) -> str:
    other = rng.choice(rng.choice([corpus.files(), corpus.logs()]))
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other)) :]


def _marked(text: str, rng: Random) -> str:
    """With a byte order mark, ends of lines of other systems, or spaces around."""
    return rng.choice(["\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), f"\n\n  {text}\n\n"])


MISTAKES: Sequence[Callable[[str, Random], str]] = (
    _cut, _leave_out, _insert, _insert, _other_letter, _lines, _lines, _lines, _other_number, _other_number,
    _other_word, _other_word, _many, _nest, _splice, _marked,
)  # fmt: skip
