r"""What a Python script does to the objects that it keeps: parts that it sets, methods it calls, whom it hands them to.

Nothing is run: statements are followed in their order, both branches of a condition, and functions of the script where
they are called. What happens after the last training is left out.

>>> makes = lambda name, of: {"load": "model", "Trainer": "trainer"}.get(name, "")
>>> code = "m = load()\nm.a.b = 1\nfor p in m.parts():\n    p.halve()\nf(m)\nt = Trainer(m)\nt.train()\nm.c = 2"
>>> [" ".join((each.how, *each.path, each.to)) for each in touches(ast.parse(code), makes)]
['sets a b ', 'calls parts ', 'calls parts [] halve ', 'hands f', 'hands Trainer']
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from memcore.formats.objects import alive, dead, last
from memcore.limits import NESTING
from memcore.records import dataclass

SETS, DELETES, CALLS, HANDS, OVERRIDES = "sets", "deletes", "calls", "hands", "overrides"
MODEL, ARGUMENTS, TRAINER, LIBRARY = "model", "args", "trainer", "library"
"""Roles: of what is trained, of how, of what trains, whose `train` ends what matters, and of what is imported."""
ANY = "*"
"""A part whose name nobody knows."""
EACH = "[]"
"""An item whose key is no text."""
_SAME = frozenset({"to", "half", "float", "bfloat16", "cuda", "cpu", "eval", "train", "requires_grad_", "copy"})
"""Methods that give back their object."""
_SETTERS = {"setattr": SETS, "delattr": DELETES}
_PASSED = frozenset({"enumerate", "list", "reversed", "tqdm"})
"""Functions that give the items of what they are handed."""
_TEXT = 90
"""Letters of a statement that are shown."""


class Kept(NamedTuple):
    """An object that a script keeps, or a part of one."""

    role: str
    line: int
    """Of the call that makes the whole object; 0 for one that comes from elsewhere."""
    path: tuple[str, ...] = ()
    """Attributes, methods and items (`[]`) from the whole object to this part."""
    place: int = -1
    """Where it stands in each item of a list of several values."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that a script does to such an object or a part of it, before its last training."""

    how: str
    """`SETS` or `DELETES` a part, `CALLS` a method, `HANDS` it to a function, or `OVERRIDES` a method of its class."""
    role: str
    path: tuple[str, ...]
    """With the part that is set or deleted, or the method that is called."""
    line: int
    text: str
    """The statement, shortened."""
    made: int
    """The line of the call that makes the whole object; 0 for one that comes from elsewhere."""
    to: str
    """The last name of the function that the object is handed to; else empty."""


@dataclass(frozen=True, slots=True)
class Touch(Deed):
    """A deed as the script has it."""

    node: ast.AST
    """The call, the assignment or the deletion."""
    value: ast.expr | None = None
    """What a part is set to."""


def touches(tree: ast.Module, makes: Callable[[str, str], str], never: Collection[int] = frozenset()) -> list[Touch]:
    """Return what a script does to objects before its last training, in the order in which it does so.

    Args:
        tree: The script.
        makes: The role of what a call makes, by the function's last name and what it is called on; empty for none.
        never: Nodes that never run, by their `id`.
    """
    walk = _Walk(makes=makes, never=never)
    for node in alive(tree, 0):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            walk.functions.setdefault(node.name, node)
        elif isinstance(node, ast.Call) and walk.made(node) == TRAINER:
            walk.given |= dict(_given(node))
    walk.block(tree.body, 0)
    for function in walk.functions.values():
        if id(function) not in walk.entered:
            walk.enter(function, {}, 0)
    return walk.found[: walk.trained] if walk.trained is not None else walk.found


@dataclass
class _Walk:
    """Follows statements."""

    makes: Callable[[str, str], str]
    never: Collection[int]
    given: dict[str, str] = field(default_factory=dict)
    """The roles of what trainers are given, by their names: some of it comes from elsewhere."""
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    entered: dict[int, Kept | None] = field(default_factory=dict)
    """Functions that were followed, and what they return."""
    scopes: list[dict[str, Kept | None]] = field(default_factory=lambda: [{}])
    """What names stand for: of the module first, then of the functions that are followed."""
    found: list[Touch] = field(default_factory=list)
    trained: int | None = None
    """How many were found when a trainer trained last."""
    returned: Kept | None = None

    def block(self, body: Sequence[ast.stmt], deep: int) -> None:
        """Follow statements one after another."""
        for node in body:
            if id(node) not in self.never and deep < NESTING:
                self._statement(node, deep)

    def enter(self, function: ast.FunctionDef | ast.AsyncFunctionDef, given: dict[str, Kept], deep: int) -> Kept | None:
        """Follow a function once, and return what it returns."""
        if id(function) in self.entered:
            return self.entered[id(function)]
        self.entered[id(function)] = None
        arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        own: dict[str, Kept | None] = {each.arg: given.get(each.arg) for each in arguments}
        if not given:
            own = {name: Kept(self.given[name], 0) if name in self.given else None for name in own}
        before, self.returned = self.returned, None
        self.scopes.append(own)
        self.block(function.body, deep + 1)
        self.scopes.pop()
        self.entered[id(function)], self.returned = self.returned, before
        return self.entered[id(function)]

    def made(self, node: ast.Call) -> str:
        """Return the role of what a call makes."""
        return self.makes(last(node.func), last(node.func.value) if isinstance(node.func, ast.Attribute) else "")

    def _statement(self, node: ast.stmt, deep: int) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(node, ast.ClassDef):
            self._class(node, deep)
            return
        for each in ast.iter_child_nodes(node):
            inner = each.context_expr if isinstance(each, ast.withitem) else each
            if isinstance(inner, ast.expr) and not isinstance(getattr(inner, "ctx", None), ast.Store | ast.Del):
                self._look(inner, node, deep)
        self._binds(node, deep)
        never = dead(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, ())
            self.block(() if body is never else body, deep + 1)
        for case in getattr(node, "cases", ()):
            self.block(case.body, deep + 1)

    def _binds(self, node: ast.stmt, deep: int) -> None:
        """Record what a statement sets, deletes, returns or imports."""
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value, node)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                self._assign(target, value, node)
            case ast.Delete():
                for target in node.targets:
                    self._part(DELETES, target, node, None)
            case ast.Return(value=ast.expr() as value):
                first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
                self.returned = self._of(first, deep) or self.returned
            case ast.For() | ast.AsyncFor():
                self._each(node.target, node.iter, deep)
            case ast.Import() | ast.ImportFrom():
                for each in node.names:
                    self.scopes[0][each.asname or each.name.partition(".")[0]] = Kept(LIBRARY, 0, _imported(node, each))

    def _class(self, node: ast.ClassDef, deep: int) -> None:
        """Record which methods of a trainer or a model a class has of its own, and follow the rest of its body."""
        for base in node.bases:
            role = self.makes(last(base), "") or self.makes("from_pretrained", last(base))
            for each in node.body if role else ():
                if isinstance(each, ast.FunctionDef):
                    whole = f"{node.name}.{each.name}"
                    self.found.append(Touch(OVERRIDES, role, (each.name,), each.lineno, whole, 0, "", each))
        self.block([each for each in node.body if not isinstance(each, ast.FunctionDef)], deep + 1)

    def _look(self, node: ast.expr, statement: ast.stmt, deep: int) -> None:
        """Record the calls of an expression, the inner ones first."""
        if id(node) in self.never or deep > NESTING or isinstance(node, ast.Lambda):
            return
        for each in getattr(node, "generators", ()):
            self._look(each.iter, statement, deep + 1)
            self._each(each.target, each.iter, deep)
        for child in ast.iter_child_nodes(node):
            inner = child.value if isinstance(child, ast.keyword) else child
            if isinstance(inner, ast.expr):
                self._look(inner, statement, deep + 1)
        if isinstance(node, ast.Call):
            self._called(node, statement, deep)

    def _called(self, node: ast.Call, statement: ast.stmt, deep: int) -> None:
        name = last(node.func)
        of = self._of(node.func.value if isinstance(node.func, ast.Attribute) else node.func, deep)
        if of is not None:
            if of.role == TRAINER and name == "train":
                self.trained = len(self.found)
            named = isinstance(node.func, ast.Name)
            self._add(CALLS, of if named else of._replace(path=(*of.path, name)), node, statement)
        said = [*node.args, *(each.value for each in node.keywords)]
        handed = [each for value in said if (each := self._of(value, deep)) is not None and each.role != LIBRARY]
        if name in _SETTERS and isinstance(node.func, ast.Name) and handed and len(said) > 1:
            part = said[1].value if isinstance(said[1], ast.Constant) else ANY
            kept = handed[0]._replace(path=(*handed[0].path, str(part)))
            self._add(_SETTERS[name], kept, node, statement, said[2] if len(said) > 2 else None)
        elif self._function(node) is not None:
            self._of(node, deep)
        elif of is None or of.role == LIBRARY:
            for each in handed:
                self._add(HANDS, each, node, statement, to=name)

    def _function(self, node: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the script's own function that a call runs."""
        own = isinstance(node.func, ast.Name) or (
            isinstance(node.func, ast.Attribute) and last(node.func.value) == "self"
        )
        return self.functions.get(last(node.func)) if own else None

    def _add(
        self, how: str, kept: Kept, node: ast.AST, statement: ast.stmt, value: ast.expr | None = None, to: str = ""
    ) -> None:
        line = getattr(node, "lineno", statement.lineno)
        text = ast.unparse(statement if isinstance(statement, ast.Assign | ast.AugAssign | ast.Delete) else node)
        text = " ".join(text.split())
        text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
        self.found.append(Touch(how, kept.role, kept.path, line, text, kept.line, to, node, value))

    def _assign(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            several = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else []
            for at, each in enumerate(target.elts):
                self._assign(each, several[at] if several else value if at == 0 else ast.Constant(None), node)
        elif isinstance(target, ast.Name) or last(getattr(target, "value", target)) == "self":
            if not isinstance(node, ast.AugAssign):
                self._name(target, self._of(value, 0) or self._back(target, value))
        else:
            self._part(SETS, target, node, value)

    def _back(self, target: ast.expr, value: ast.expr) -> Kept | None:
        """Return the object that a name stands for, if a function is handed it and gives it back."""
        if not isinstance(value, ast.Call) or not isinstance(target, ast.Name):
            return None
        handed = (*value.args, *(each.value for each in value.keywords))
        back = any(isinstance(each, ast.Name) and each.id == target.id for each in handed)
        return self._named(target.id) if back else None

    def _name(self, target: ast.expr, kept: Kept | None) -> None:
        name = last(target)
        if kept is None and name in self.given:
            kept = Kept(self.given[name], 0)
        (self.scopes[-1] if isinstance(target, ast.Name) else self.scopes[0])[name] = kept

    def _part(self, how: str, target: ast.expr, node: ast.stmt, value: ast.expr | None) -> None:
        """Record that a part of an object is set or deleted."""
        if isinstance(target, ast.Name):
            self.scopes[-1].pop(target.id, None)
        elif isinstance(target, ast.Attribute | ast.Subscript) and (of := self._of(target.value, 0)) is not None:
            whole = self._of(target, 0)
            if whole is not None and not whole.path and value is not None and self._of(value, 0) == whole:
                return  # `trainer.model = trainer.model.half()`: what is called on it is recorded
            self._add(how, of._replace(path=(*of.path, _item(target))), node, node, value)

    def _each(self, target: ast.expr, iterated: ast.expr, deep: int) -> None:
        """Let names of a loop stand for the items of what it goes over; the last name, where each item has a name."""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        inner = iterated
        while isinstance(inner, ast.Call) and last(inner.func) in _PASSED and inner.args:
            inner = inner.args[0]
        kept = self._of(inner, deep)
        for each in names:
            if isinstance(each, ast.Name):
                one = kept is not None and each is names[kept.place if kept.place < len(names) else -1]
                item = kept._replace(path=(*kept.path, EACH), place=-1) if kept is not None and one else None
                self.scopes[-1][each.id] = item

    def _of(self, node: ast.expr, deep: int) -> Kept | None:
        """Return what an expression stands for; None for none of the objects."""
        if deep > NESTING:
            return None
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute | ast.Subscript):
            if last(node.value) == "self":
                return self.scopes[0].get(last(node))
            of = self._of(node.value, deep + 1)
            return None if of is None else _part_of(of, _item(node))
        if isinstance(node, ast.Call):
            return self._result(node, deep + 1)
        if isinstance(node, ast.IfExp):
            return self._of(node.body, deep + 1) or self._of(node.orelse, deep + 1)
        if isinstance(node, ast.BinOp):
            return self._of(node.left, deep + 1) or self._of(node.right, deep + 1)
        if isinstance(node, ast.List):
            return next((kept for each in node.elts if (kept := self._listed(each, deep + 1)) is not None), None)
        return self._of(node.value, deep + 1) if isinstance(node, ast.NamedExpr | ast.Starred | ast.Await) else None

    def _listed(self, item: ast.expr, deep: int) -> Kept | None:
        """Return the object that an item of a list is, or has at some place; the list stands for it then."""
        if not isinstance(item, ast.Tuple):
            return self._of(item, deep)
        found = ((at, self._of(each, deep)) for at, each in enumerate(item.elts))
        return next((kept._replace(place=at) for at, kept in found if kept is not None), None)

    def _named(self, name: str) -> Kept | None:
        own = self.scopes[-1]
        return own[name] if name in own else self.scopes[0].get(name)

    def _result(self, node: ast.Call, deep: int) -> Kept | None:
        """Return what a call gives: what it makes, what a method belongs to, or what a function was handed."""
        name = last(node.func)
        role = self.made(node)
        if role:
            handed = self._of(node.args[0], deep) if node.args else None
            return handed if handed is not None and handed.role == role else Kept(role, node.lineno)
        function = self._function(node)
        if function is not None:
            names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
            names = names[1:] if names[:1] == ["self"] else names
            said = [*zip(names, node.args, strict=False), *((each.arg or "", each.value) for each in node.keywords)]
            return self.enter(function, {each: kept for each, value in said if (kept := self._of(value, deep))}, deep)
        if name == "vars" and node.args:
            return self._of(node.args[0], deep)
        if name == "getattr" and (of := self._of(node.args[0], deep) if node.args else None) is not None:
            return _part_of(
                of, str(node.args[1].value) if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else ANY
            )
        of = self._of(node.func.value, deep) if isinstance(node.func, ast.Attribute) else None
        if of is not None and of.role != LIBRARY:
            return of if name in _SAME or name.startswith("set_") else _part_of(of, name)
        return None


def _imported(node: ast.Import | ast.ImportFrom, name: ast.alias) -> tuple[str, ...]:
    """Return the parts of the full name that an import gives a name."""
    if isinstance(node, ast.ImportFrom):
        return (*(node.module or "").split("."), name.name)
    return tuple(name.name.split(".")) if name.asname else (name.name.partition(".")[0],)


def _given(node: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield the names of the model and the arguments that a trainer is given, each with its role."""
    named = {each.arg: each.value for each in node.keywords if each.arg}
    for at, role in enumerate((MODEL, ARGUMENTS)):
        value = named.get(role, node.args[at] if len(node.args) > at else None)
        if isinstance(value, ast.Name | ast.Attribute):
            yield last(value), role


def _item(node: ast.expr) -> str:
    """Return the name of a part: an attribute's, or an item's if it is a text."""
    if isinstance(node, ast.Subscript):
        return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else EACH
    return last(node)


def _part_of(of: Kept, part: str) -> Kept:
    """Return a part of an object; a trainer's model and arguments are objects of their own."""
    if of.role == TRAINER and not of.path and part in ("model", "model_wrapped", "args"):
        return Kept(ARGUMENTS if part == ARGUMENTS else MODEL, 0)
    return of._replace(path=(*of.path, part))
