r"""Which value a name has at a line of a Python script: of its function or of the module, after the statements before.

>>> import ast
>>> code = "n = 1\nif big:\n    n = 2\ndef f(a, b=3):\n    n = 4\n    if b == 3:\n        n = 5\n    return n\nf(6)"
>>> scopes = Scopes(ast.parse(code))
>>> [ast.unparse(scopes.value_at("n", line, lambda *_: test)) for line, test in ((9, True), (9, False), (8, True))]
['2', '1', '5']
>>> scopes.value_at("n", 9, lambda *_: None) is None
True
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from memcore.formats.expressions import names_it
from memcore.formats.objects import alive, dead, last

Function = ast.FunctionDef | ast.AsyncFunctionDef
Decides = Callable[[ast.expr, ast.expr | None], bool | None]
"""Whether a condition holds while the name has a value; None where nobody knows."""
_OPENS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Scopes:
    """The functions of a script, their parameters and what calls hand over to them."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._functions: list[Function] = []
        self._calls: dict[str, list[ast.Call]] = {}
        for node in alive(tree, 0):
            if isinstance(node, Function):
                self._functions.append(node)
            elif isinstance(node, ast.Call):
                self._calls.setdefault(last(node.func), []).append(node)

    def value_at(self, name: str, line: int, decides: Decides) -> ast.expr | None:
        """Return the expression that gave a name its value before a line; None where that is not one."""
        for function in self._around(line):
            given = _is_parameter(function, name)
            if given or _gives(function.body, name):
                first = self._handed(function, name) if given else None
                return _Walk(name, line, decides).after(function.body, first)
        return _Walk(name, 0 if self._around(line) else line, decides).after(self._tree.body, None)

    def returned(self, call: ast.Call) -> ast.expr | None:
        """Return the expression that a function of the script gives back, if there is only one of that name."""
        named = [each for each in self._functions if isinstance(call.func, ast.Name) and each.name == call.func.id]
        if len(named) != 1 or any(isinstance(each, ast.Yield) for each in ast.walk(named[0])):
            return None
        said = [each.value for each in _within(named[0].body) if isinstance(each, ast.Return)]
        return said[0] if len(said) == 1 else None

    def _around(self, line: int) -> list[Function]:
        """Return the functions that a line is in, the innermost first."""
        inside = [each for each in self._functions if each.lineno < line <= (each.end_lineno or line)]
        return sorted(inside, key=lambda each: -each.lineno)

    def _handed(self, function: Function, name: str) -> ast.expr | None:
        """Return what every call hands over for a parameter; its default, if no call says anything."""
        places = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        places = places[1:] if places[:1] == ["self"] else places
        said: list[ast.expr] = []
        for call in self._calls.get(function.name, ()):
            named = {each.arg: each.value for each in call.keywords}
            if name not in named and any(_unpacks(each) for each in call.keywords):
                return None
            at = places.index(name) if name in places else len(call.args)
            value = named.get(name, call.args[at] if at < len(call.args) else _default(function, name))
            said += [] if value is None else [value]
        said = said or [each for each in [_default(function, name)] if each is not None]
        return said[0] if len({ast.dump(each) for each in said}) == 1 else None


class _Walk:
    """Follows the statements that give one name its value."""

    def __init__(self, name: str, line: int, decides: Decides) -> None:
        self.name, self.line, self.decides = name, line, decides
        self.open = False

    def after(self, body: Sequence[ast.stmt], value: ast.expr | None) -> ast.expr | None:
        """Return the value after the statements of a body that stand before the line; None where nobody knows."""
        found = self._block(body, value)
        return None if self.open else found

    def _block(self, body: Sequence[ast.stmt], value: ast.expr | None) -> ast.expr | None:
        for node in body:
            if self.line and node.lineno >= self.line:
                break
            if not isinstance(node, _OPENS):
                value = self._statement(node, value)
        return value

    def _statement(self, node: ast.stmt, value: ast.expr | None) -> ast.expr | None:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=self.name)], value=given)
                | ast.AnnAssign(target=ast.Name(id=self.name), value=ast.expr() as given)
            ):
                self.open = names_it(given, self.name)
                return given
            case ast.Assign(targets=[ast.Tuple(elts=several)], value=given) if _gives([node], self.name):
                names = [each.id if isinstance(each, ast.Name) else "" for each in several]
                self.open = self.name not in names or "" in names
                return None if self.open else part_of(given, names.index(self.name), len(several))
            case ast.If() if _gives([node], self.name):
                return self._branches(node, value)
            case ast.With() | ast.Try():
                value = self._block(node.body, value)
                rest = getattr(node, "orelse", []) + getattr(node, "finalbody", [])
                return self._block(rest, value)
            case _:
                self.open = self.open or _gives([node], self.name)
        return value

    def _branches(self, node: ast.If, value: ast.expr | None) -> ast.expr | None:
        """Return the value after the branch that runs, or after both where these agree."""
        inside = self.line and node.lineno < self.line <= (node.end_lineno or self.line)
        for body in (node.body, node.orelse) if inside else ():
            if body and body[0].lineno <= self.line <= (body[-1].end_lineno or self.line):
                return self._block(body, value)
        runs = None if self.open else self.decides(node.test, value)
        if runs is not None:
            return self._block(node.body if runs else node.orelse, value)
        both = [self._block(each, value) for each in (node.body, node.orelse)]
        self.open = self.open or len({None if each is None else ast.dump(each) for each in both}) > 1
        return both[0]


def _unpacks(argument: ast.keyword) -> bool:
    """Return whether an argument hands over a mapping, which isn't what a command line says."""
    return argument.arg is None and "vars" not in {last(each.func) for each in ast.walk(argument.value)
                                                   if isinstance(each, ast.Call)}  # fmt: skip


def part_of(value: ast.expr, at: int, count: int) -> ast.expr:
    """Return one of `count` values that names are given together."""
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return value.elts[at]
    return ast.copy_location(ast.Subscript(value, ast.Constant(at), ast.Load()), value)


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of statements that run, without those of functions and classes in them."""
    for node in body:
        if isinstance(node, _OPENS):
            continue
        yield node
        never = dead(node)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, ())
            yield from _within(inner if isinstance(inner, list) and inner is not never else ())
        yield from (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def _gives(body: Sequence[ast.stmt], name: str) -> bool:
    """Return whether statements give a name a value, in whatever way."""
    for node in _within(body):
        inner = [node] if isinstance(node, ast.expr) else [*getattr(node, "targets", []), getattr(node, "target", None)]
        inner += [each.optional_vars for each in getattr(node, "items", ())]
        for each in inner:
            for part in ast.walk(each) if each is not None else ():
                if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store):
                    return True
    return False


def _is_parameter(function: Function, name: str) -> bool:
    """Return whether a name is one of a function's parameters."""
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(each.arg == name for each in every)


def _default(function: Function, name: str) -> ast.expr | None:
    """Return the default of a parameter."""
    of = function.args
    places = [*of.posonlyargs, *of.args]
    found = {
        **{each.arg: value for each, value in zip(places[len(places) - len(of.defaults) :], of.defaults, strict=True)},
        **{each.arg: value for each, value in zip(of.kwonlyargs, of.kw_defaults, strict=True)},
    }
    return found.get(name)
