"""Python modules whose functions make configs: what each of them returns, without running it.

A config is a mapping; one that a class or function makes has its name under `()` and its arguments under their own
names, those without one under their numbers. What is not a literal is `$` and its name.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from memcore.limits import NESTING

FUNCTION, ON = "()", "(on)"
"""The keys of the name of what makes a value, and of what it is called on where that is called too."""
_LONGEST, _FUNCTIONS, _LARGEST = 2**20, 400, 2**53
_SUMS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def built(code: str) -> dict[str, dict[str, Any]]:
    r"""Return what the functions of a module return, by their names, for those that return a mapping.

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


_MAIN = "__name__ == '__main__'"


def handed_over(code: str, makers: tuple[str, ...]) -> list[dict[str, Any]]:
    r"""Values that functions named so make, as a script hands them to what is not its own; else all that it makes.

    Of a condition that nobody can answer, what its branches leave different is `$` and the condition.

    >>> handed_over("r = llm.a.recipe(n=2)\nr.b.c = 3\nwith E() as e:\n  e.add(r)", ("recipe",))
    [{'()': 'llm.a.recipe', 'n': 2, 'b': {'c': 3}}]
    """
    try:
        body = ast.parse(code).body if len(code) <= _LONGEST else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    known = {node.name: node for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.FunctionDef)}
    script = _Script(known, _of_command_line(body), {})
    script.makers, script.given = makers, []
    script.run(body, 0)
    if script.given:
        return _different(script.given)
    made = [*script.names.values()]
    for name in list(known)[:_FUNCTIONS]:
        function = _Script(known, {**script.shared, **script.names}, {})
        function.makers, function.given = makers, []
        made += [function.result(name, 0), *function.given]
    return _different([each for each in made if script.makes(each)])


def _different(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in values:
        if each not in found:
            found.append(each)
    return found


def _of_command_line(body: list[ast.stmt]) -> dict[str, Any]:
    """Return what the arguments of a script are where its command line says nothing (`argparse`)."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.Module(body, [])):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        flag, default = node.args[-1], next((each.value for each in node.keywords if each.arg == "default"), None)
        if node.func.attr == "add_argument" and isinstance(flag, ast.Constant) and isinstance(default, ast.Constant):
            found[f"args.{str(flag.value).lstrip('-').replace('-', '_')}"] = default.value
    return found


class _Function:
    """One function, whose names are being given their values."""

    def __init__(self, known: Mapping[str, ast.FunctionDef], shared: Mapping[str, Any], names: dict[str, Any]) -> None:
        self.known, self.shared, self.names = known, shared, names

    def of(self, names: dict[str, Any]) -> _Function:
        """Another function of the module, with its arguments."""
        return _Function(self.known, self.shared, names)

    def result(self, name: str, deep: int) -> Any:
        """Return what a function of the module returns."""
        if deep > NESTING:
            return f"${name}"
        given = self.known[name].args
        for argument, default in zip(given.args[len(given.args) - len(given.defaults) :], given.defaults, strict=True):
            self.names.setdefault(argument.arg, self.value(default, deep))
        returned = self.run(self.known[name].body, deep)
        return returned[0] if returned else None

    def run(self, body: list[ast.stmt], deep: int) -> list[Any]:
        """Go through statements; what is returned is in a list."""
        for each in body:
            if isinstance(each, ast.Return):
                return [None if each.value is None else self.value(each.value, deep)]
            self.step(each, deep)
        return []

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
        """Return what an expression is."""
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
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value if isinstance(node.operand.value, int | float) else "$EXPRESSION"
        return f"${ast.unparse(node)[:40]}" if isinstance(node, ast.Attribute) else "$EXPRESSION"

    def call(self, node: ast.Call, deep: int) -> Any:
        """Return what a function of the module returns, or the name and the arguments of another."""
        name = ast.unparse(node.func)
        plain = {str(number): self.value(each, deep) for number, each in enumerate(node.args)}
        named = {each.arg: self.value(each.value, deep) for each in node.keywords if each.arg is not None}
        if name in self.known:
            arguments = dict(zip((each.arg for each in self.known[name].args.args), plain.values(), strict=False))
            return deepcopy(self.of({**arguments, **named}).result(name, deep))
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        on = {ON: self.value(inner, deep)} if isinstance(inner, ast.Call) else {}
        return {FUNCTION: name, **on, **plain, **named}


class _Script(_Function):
    """A script or one of its functions, statement by statement."""

    makers: tuple[str, ...] = ()
    given: list[Any]

    def of(self, names: dict[str, Any]) -> _Script:
        """Another function, which sees the names of the script."""
        plain = {name: value for name, value in self.names.items() if not isinstance(value, dict)}
        return self._like({**self.shared, **plain}, names)

    def _like(self, shared: Mapping[str, Any], names: dict[str, Any]) -> _Script:
        other = _Script(self.known, shared, names)
        other.makers, other.given = self.makers, self.given
        return other

    def makes(self, value: Any) -> bool:
        """Return whether a value is made by one of the functions that are looked for."""
        return isinstance(value, dict) and str(value.get(FUNCTION)).rpartition(".")[2] in self.makers

    def run(self, body: list[ast.stmt], deep: int) -> list[Any]:
        """Go through statements; what is returned is in a list."""
        for each in body:
            if isinstance(each, ast.Return):
                return [None if each.value is None else self.value(each.value, deep)]
            returned: list[Any] = []
            if isinstance(each, ast.Expr):
                self.value(each.value, deep)
            elif isinstance(each, ast.If):
                returned = self.choose(each, deep + 1)
            elif isinstance(each, ast.With | ast.For | ast.Try):
                returned = self.run(each.body, deep + 1) if deep <= NESTING else []
            else:
                self.step(each, deep)
            if returned:
                return returned
        return []

    def choose(self, node: ast.If, deep: int) -> list[Any]:
        """Take the branch of a condition; of one that nobody can answer, both."""
        asked = self.value(node.test, deep)
        if ast.unparse(node.test) == _MAIN or asked is True:
            return self.run(node.body, deep)
        if deep > NESTING:
            return []
        if asked is False or asked is None:
            return self.run(node.orelse, deep)
        other = self._like(self.shared, deepcopy(self.names))
        first, second = self.run(node.body, deep), other.run(node.orelse, deep)
        label = f"${re.sub(_NO_LETTER, '_', ast.unparse(node.test))[:60]}"
        self.names |= {name: _both(self.names.get(name), other.names.get(name), label)
                       for name in {**self.names, **other.names}}  # fmt: skip
        return [_both(first[0], second[0], label)] if first and second else []

    def value(self, node: ast.expr, deep: int) -> Any:
        """Return what an expression is, comparisons and fields of values included."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is | ast.In):
            left, right = self.value(node.left, deep + 1), self.value(node.comparators[0], deep + 1)
            if _OPEN not in repr(left) and _OPEN not in repr(right) and deep <= NESTING:
                fits = right == left if not isinstance(node.ops[0], ast.In) else None
                return (
                    left in right if fits is None and isinstance(right, list) else fits if fits is not None else "$IN"
                )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            asked = self.value(node.operand, deep + 1)
            return not asked if isinstance(asked, bool | None) else "$NOT"
        if isinstance(node, ast.Attribute):
            place = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
            place = self.value(node.value, deep + 1) if isinstance(node.value, ast.Attribute) else place
            if isinstance(place, dict) and node.attr in place:
                return place[node.attr]
            if isinstance(node.value, ast.Name) and "arg" in node.value.id:
                return self.shared.get(f"args.{node.attr}", f"${node.attr}")
            return f"${ast.unparse(node)[:_SAID]}"
        return super().value(node, deep)

    def call(self, node: ast.Call, deep: int) -> Any:
        """Return what a call makes; what it is given by the script is noted where it is not the script's own."""
        made = super().call(node, deep)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LONGER and len(node.args) == 1:
            self.append(node.func.value, made["0"], all_of=node.func.attr == "extend")
        if ast.unparse(node.func) not in self.known and isinstance(made, dict):
            parts = [part for each in made.values() for part in (each if isinstance(each, list) else [each])]
            self.given += [each for each in parts if self.makes(each)]
        return made

    def append(self, target: ast.expr, value: Any, *, all_of: bool) -> None:
        """Make a list longer, as in `recipe.trainer.callbacks.append(value)`."""
        before = self.value(target, 0)
        more = value if all_of and isinstance(value, list) else [value]
        self.assign(target, [*(before if isinstance(before, list) else []), *more])


_LONGER = ("append", "extend")
_OPEN, _SAID = "'$", 200
_NO_LETTER = re.compile(r"\W+")


def _both(first: Any, second: Any, label: str) -> Any:
    """Return what two branches leave: the same value, or the name of the condition."""
    fields = [each for each in (first, second) if isinstance(each, dict) and FUNCTION not in each]
    if len(fields) == 1 and None in (first, second):
        first, second = fields[0], {}
    if isinstance(first, dict) and isinstance(second, dict) and first.get(FUNCTION) == second.get(FUNCTION):
        return {name: _both(first.get(name), second.get(name), label) for name in {**first, **second}}
    return first if first == second else label
