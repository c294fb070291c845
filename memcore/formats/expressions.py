"""What expressions of Python scripts give where their parts are known; what nobody knows stands as `$name`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from memcore.formats.conditions import COMPARISONS

OPERATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
COMPARED: Mapping[type, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}


def takes(function: ast.FunctionDef, node: ast.Call) -> bool:
    """Return whether a call may be of a function of the script: of a method, if it has all the names that it gives."""
    names = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    method = "self" in names
    return isinstance(node.func, ast.Attribute) == method and (
        not method or all(each.arg in names for each in node.keywords)
    )


def item_of(of: object, key: object) -> Any:
    """Return an item of a mapping or a list; NotImplemented for one that is not there."""
    if isinstance(of, dict) and isinstance(key, str):
        return of.get(key, NotImplemented)
    whole = isinstance(of, list) and isinstance(key, int) and -len(of) <= key < len(of)
    return of[key] if whole else NotImplemented  # type: ignore[index]


def item_or(of: object, arguments: Sequence[Any]) -> Any:
    """Return what `get` of a mapping gives; NotImplemented where it is not known.

    >>> item_or({"a": 1}, ["a"]), item_or({"a": 1}, ["b", 2])
    (1, 2)
    """
    known = isinstance(of, dict) and arguments and isinstance(arguments[0], str) and not is_open(arguments[0])
    return of.get(*arguments[:2]) if known else NotImplemented  # type: ignore[attr-defined]


def plainly(name: str, value: object) -> ast.expr:
    """Return a plain value as an expression, and for another one a call that nobody knows the result of."""
    plain = isinstance(value, str | int | float) and not is_open(value)
    return ast.Constant(value) if plain else ast.Call(ast.Name(name), [], [])  # type: ignore[arg-type]


def of_method(of: object, name: str, values: Sequence[Any]) -> Any:
    """Return what a method of a text or `get` of a mapping gives."""
    if name == "get":
        return item_or(of, values)
    plain = all(isinstance(each, str) and not is_open(each) for each in (of, *values))
    return getattr(of, name)(*values) if plain and (name != "split" or values != [""]) else NotImplemented


BUILTINS: Mapping[str, Callable[..., Any]] = {
    "int": int, "str": str, "float": float, "len": len, "min": min, "max": max, "range": range, "list": list,
    "tuple": list, "sorted": sorted, "set": set,
}  # fmt: skip
"""Functions of Python's own that are run on known values."""
_MOST = 1024
"""Items of a list that is written out."""


def of_builtin(name: str, values: Sequence[Any]) -> Any:
    """Return what a function of Python's own gives; NotImplemented where it is not known.

    >>> of_builtin("range", [24, 28]), of_builtin("int", ["8"]), of_builtin("range", ["$LAYERS"])
    ([24, 25, 26, 27], 8, NotImplemented)
    """
    items = [part for each in values for part in (each if isinstance(each, list) else [each])]
    if not values or any(not isinstance(each, int | float | str) or is_open(each) for each in items):
        return NotImplemented
    try:
        found = BUILTINS[name](*values)
        many = isinstance(found, range | set | list)
        return found if not many else sorted(found) if isinstance(found, set) else list(found[:_MOST])
    except (ValueError, TypeError, OverflowError):
        return NotImplemented


def turns(node: ast.ListComp, items: object) -> list[ast.expr] | None:
    """Return what a comprehension writes for each item, with the item in its place; None where it is not known."""
    (loop, *others), of = node.generators, node.generators[0].target
    plain = isinstance(items, list) and len(items) <= _MOST and not any(map(is_open, items))
    if not plain or others or loop.ifs or not isinstance(of, ast.Name):
        return None
    return [_Given(of.id, each).visit(deepcopy(node.elt)) for each in items]  # type: ignore[attr-defined]


class _Given(ast.NodeTransformer):
    """Puts a value where a name stands."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.given = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the value for the name, and another name as it is."""
        known = ast.Constant(self.given)  # type: ignore[arg-type]
        return ast.copy_location(known, node) if node.id == self.name else node


def path_of(parts: Sequence[Any]) -> Any:
    """A path of several parts, below `.` where nobody knows the folder; NotImplemented for other values.

    >>> path_of(["$ROOT", "models", "Qwen3-8B"])
    './models/Qwen3-8B'
    """
    texts = ["." if is_open(parts[0]) and len(parts) > 1 else parts[0], *parts[1:]]
    if not all(isinstance(each, str) and not is_open(each) for each in texts):
        return NotImplemented
    return "/".join(each.rstrip("/") for each in texts)


def size(value: object, most: int = 4096) -> int:
    """The parts of a value; not counted to the end if they are too many."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    total = 1
    for each in parts:
        total += size(each, most - total)
        if total > most:
            return total
    return total


def names_it(node: ast.expr, name: str) -> bool:
    """Return whether an expression has a name in it."""
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def asks(test: ast.expr, handed: Collection[str]) -> bool:
    """Whether a condition is an option itself, handed over to a function or not, or that it is not set."""
    inner = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    return isinstance(inner, ast.Attribute) or (isinstance(inner, ast.Name) and inner.id in handed)


def is_open(value: object) -> bool:
    """Return whether a value is one that nobody knows."""
    return isinstance(value, str) and value.startswith("$")
