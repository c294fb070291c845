"""Variables of the environment that a Python script sets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memcore.formats.expressions import is_open
from memcore.formats.notebooks import tree_of
from memcore.formats.objects import alive, last, settle
from memcore.formats.python import LONGEST, Known
from memcore.formats.scopes import Scopes

_PUT = ("setdefault", "putenv")


def environment(code: str) -> dict[str, str]:
    r"""Variables of the environment that a script sets to texts that are known.

    >>> environment("import os\nos.environ['A'] = 'b:' + 'c'\nos.environ.setdefault('A', 'd')")
    {'A': 'b:c'}
    """
    found: dict[str, str] = {}
    if len(code) > LONGEST or ("environ" not in code and "putenv" not in code):
        return found
    try:
        tree = tree_of(code)
        settle(tree)
        known = Known(tree, Scopes(tree))
        for node in alive(tree, 0):
            for name, value, more in _set_in(node):
                said = known.value(name, 0), known.value(value, 0)
                if all(isinstance(each, str) and not is_open(each) for each in said) and not (
                    more and said[0] in found
                ):
                    found[said[0]] = said[1]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    return found


def _set_in(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """Names and values that a statement puts into the environment, and whether only where nothing is there."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and last(target.value) == "environ":
                yield target.slice, node.value, False
    elif isinstance(node, ast.Call) and last(node.func) in _PUT and len(node.args) == 2:
        yield node.args[0], node.args[1], last(node.func) == "setdefault"
    elif isinstance(node, ast.Call) and last(node.func) == "update" and "environ" in ast.dump(node.func):
        for each in node.args:
            if isinstance(each, ast.Dict):
                yield from ((name, value, False) for name, value in zip(each.keys, each.values, strict=True) if name)
