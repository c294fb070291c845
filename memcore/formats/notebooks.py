"""The Python of texts: of scripts, and of the cells of Jupyter notebooks."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator

from memcore.formats.assignments import spelled_out

_MAGIC = re.compile(r"^([ \t]*)[%!](?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
"""Lines of a notebook that are commands of the shell or of IPython."""
_ENV_MAGIC = re.compile(r"^([ \t]*)%(?:set_)?env[ \t]+(\w{1,80})(?:=|[ \t]+)([^\n]{1,400}?)[ \t]*$", re.MULTILINE)
"""A line of a notebook that sets a variable of the environment."""
_IMPORTS = re.compile(r"^[ \t]*(?:import|from) [a-zA-Z_]\w*", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
"""What begins code in a page of Markdown, which is none itself."""
_HEREDOC = re.compile(r"^[^#\n]*<<-?[ \t]*[\"']?[A-Z_]+[\"']?[ \t]*$", re.MULTILINE)
"""What begins a document within a script of a shell, which may be Python."""
_SHELL_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n){0,200}[ \t]*(?:set -[a-z]|export \w+=|source \S|cd [\w./$~]+\n)")
"""A statement that only a shell has, before any other."""
_SAYS = re.compile(r"from_pretrained|(?:Config|Arguments|Trainer|Args|LLM)\(")
"""What a cell has to have for the whole to be of any use without it."""


def code_cells(notebook: object) -> Iterator[str]:
    r"""Yield the text of each code cell of a notebook that was read as JSON.

    >>> list(code_cells({"cells": [{"cell_type": "code", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "markdown"}]}))
    ['a = 1\nb = 2']
    """
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", "")
            yield "".join(map(str, source)) if isinstance(source, list) else str(source)


def code_of(text: str) -> str | None:
    """The Python of a script or a notebook; None for another text."""
    start = text.lstrip()
    if start.startswith("{"):
        if '"cells"' not in start or '"cell_type"' not in start:
            return None
        try:
            notebook = json.loads(start)
        except (ValueError, RecursionError):
            return None
        return "\n".join(_cells(notebook))
    if _OF_YAML.match(text) and not _parses(text):
        return _embedded(text)
    page = of_shell(text) or ((_FENCE.search(text) or _HEREDOC.search(text)) is not None and not _parses(text))
    return text if _IMPORTS.search(text) and not page else None


_OF_YAML = re.compile(r"(?:[ \t]*(?:#[^\n]*|---[ \t]*)?\n){0,200}[\w./-]{1,80}:(?:[ \t]|\n)")
"""How a file of YAML begins."""
_FILE = re.compile(r"^([ \t]+)[\w.-]{1,80}\.py:[ \t]*\|[-+]?[ \t]*\n((?:\1[ \t]+[^\n]*\n|[ \t]*\n)+)", re.MULTILINE)
"""A script that a ConfigMap of Kubernetes holds."""


def _embedded(text: str) -> str | None:
    """Return the scripts of Python that a file of YAML holds; None for one without any."""
    found = [textwrap.dedent(body) for _, body in _FILE.findall(f"{text}\n")]
    return "\n".join(found) if found else None


def of_shell(text: str) -> bool:
    """Return whether a text without a first line that says so is a shell's script, which may hold Python."""
    return _SHELL_FIRST.match(text) is not None


def docstring_of(code: str) -> str:
    """The texts between a script's statements, which say what it is for and how it is started."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    alone = (node.value for node in body if isinstance(node, ast.Expr))
    return "\n".join(each.value for each in alone if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _cells(notebook: object) -> Iterator[str]:
    """The cells of code in Python; those in other languages, and those that are none and say nothing, are left out."""
    for cell in code_cells(notebook):
        code = _MAGIC.sub(r"\1pass", _ENV_MAGIC.sub(_assigning, cell))
        if _parses(code):
            yield code
        elif _SAYS.search(code):
            yield _without_faults(code)


_FILLED = re.compile(r"""\b[rR]?[fF]("|').*\1""")
"""An f-string, to the last such quote of its line."""
_FAULTS = 8
"""Lines of a cell that are left out, at most: those of newer Pythons, as quotes in the braces of an f-string."""


def _without_faults(code: str) -> str:
    """A cell without lines that are no Python of this release; as it is, if more than a few are none."""
    lines = code.split("\n")
    for _ in range(_FAULTS):
        at = _fault("\n".join(lines))
        if at is None:
            return "\n".join(lines)
        if not 0 <= at < len(lines) or _SAYS.search(lines[at]):
            return code
        texts = _FILLED.sub("''", lines[at])
        lines[at] = re.sub(r"\S.*", "pass", lines[at]) if texts == lines[at] else texts
    return code


def _fault(code: str) -> int | None:
    """The line that is no Python, from 0; None if all are."""
    try:
        ast.parse(code)
    except SyntaxError as error:
        return (error.lineno or 0) - 1
    except (ValueError, RecursionError, MemoryError):
        return -1
    return None


def _assigning(magic: re.Match[str]) -> str:
    """IPython's `%env NAME=value` as Python."""
    return f"{magic[1]}os.environ[{magic[2]!r}] = {magic[3]!r}"


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def tree_of(code: str) -> ast.Module:
    r"""Parse a script without a notebook's commands; what changes a name's value is spelled out as an assignment.

    >>> ast.unparse(tree_of("n += 1\na.append(2)\na.extend(b)\na.sort()"))
    'n = n + 1\na = a + [2]\na = a + b\na.sort()'

    Raises what `ast.parse` does for what is no Python.
    """
    return spelled_out(ast.parse(code if _parses(code) else _MAGIC.sub(r"\1pass", code)))
