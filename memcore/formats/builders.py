"""Python modules whose functions make configs: what each of them returns, without running it.

A config is a mapping; one that a class or function makes has its name under `()` and its arguments under their own
names, those without one under their numbers. What is not a literal is `$` and its name.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from memcore.limits import NESTING

CALLED, ON = "()", "(on)"
"""The keys of the name of what makes a value, and of what it is called on where that is called too."""
_LONGEST, _FUNCTIONS, _LARGEST = 2**20, 400, 2**53
_SUMS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def built(code: str) -> dict[str, dict[str, Any]]:
    r"""What the functions of a module return, by their names, for those that return a mapping.

    >>> built("def f():\n  c = C(a=D.Config('x', n=2 * 3))\n  c.b.d = 1\n  return c")
    {'f': {'()': 'C', 'a': {'()': 'D.Config', '0': 'x', 'n': 6}, 'b': {'d': 1}}}
    """
    try:
        body = ast.parse(code).body if len(code) <= _LONGEST else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    known = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    module = _Function(known, {}, {})
    for each in body:
        module.step(each, 0)
    shared = {name: value for name, value in module.names.items() if isinstance(value, int | float | str)}
    found: dict[str, dict[str, Any]] = {}
    for name in list(known)[:_FUNCTIONS]:
        value = _Function(known, shared, {}).result(name, 0)
        if isinstance(value, dict):
            found[name] = value
    return found


class _Function:
    """One function, whose names are being given their values."""

    def __init__(self, known: Mapping[str, ast.FunctionDef], shared: Mapping[str, Any], names: dict[str, Any]) -> None:
        self.known, self.shared, self.names = known, shared, names

    def result(self, name: str, deep: int) -> Any:
        """What a function of the module returns."""
        if deep > NESTING:
            return f"${name}"
        given = self.known[name].args
        for argument, default in zip(given.args[len(given.args) - len(given.defaults) :], given.defaults, strict=True):
            self.names.setdefault(argument.arg, self.value(default, deep))
        for each in self.known[name].body:
            if isinstance(each, ast.Return):
                return None if each.value is None else self.value(each.value, deep)
            self.step(each, deep)
        return None

    def step(self, statement: ast.stmt, deep: int) -> None:
        """What a statement assigns."""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self.assign(statement.targets[0], self.value(statement.value, deep))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self.assign(statement.target, self.value(statement.value, deep))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a name, or an attribute of what it stands for, a value."""
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        path: list[str] = []
        while isinstance(target, ast.Attribute):
            path.insert(0, target.attr)
            target = target.value
        place = self.names.get(target.id) if isinstance(target, ast.Name) else None
        for each in path[:-1]:
            if not isinstance(place, dict):
                return
            if not isinstance(place.get(each), dict):
                place[each] = {}
            place = place[each]
        if isinstance(place, dict) and path:
            place[path[-1]] = value

    def value(self, node: ast.expr, deep: int) -> Any:
        """What an expression is."""
        if deep > NESTING:
            return "$NESTED"
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(each, deep + 1) for each in node.elts]
        if isinstance(node, ast.Name):
            return self.names.get(node.id, self.shared.get(node.id, f"${node.id}"))
        if isinstance(node, ast.Call):
            return self.call(node, deep + 1)
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            left, right = self.value(node.left, deep + 1), self.value(node.right, deep + 1)
            if all(isinstance(each, int) and 0 < abs(each) < _LARGEST for each in (left, right)):
                return _SUMS[type(node.op)](left, right)
        return f"${ast.unparse(node)[:40]}" if isinstance(node, ast.Attribute) else "$EXPRESSION"

    def call(self, node: ast.Call, deep: int) -> Any:
        """What a function of the module returns, or the name and the arguments of another."""
        name = ast.unparse(node.func)
        plain = {str(number): self.value(each, deep) for number, each in enumerate(node.args)}
        named = {each.arg: self.value(each.value, deep) for each in node.keywords if each.arg is not None}
        if name in self.known:
            arguments = dict(zip((each.arg for each in self.known[name].args.args), plain.values(), strict=False))
            return deepcopy(_Function(self.known, self.shared, {**arguments, **named}).result(name, deep))
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        on = {ON: self.value(inner, deep)} if isinstance(inner, ast.Call) else {}
        return {CALLED: name, **on, **plain, **named}
