r"""Objects that hold a Python script's settings: dataclasses that a command line fills, and classes of its own.

>>> import ast
>>> found = Objects()
>>> found.find(ast.parse("class Config:\n    rank = 16\n    batch = 4\nconfig = Config(batch=8)"))
>>> ast.dump(found.attribute("config", "rank")), ast.dump(found.attribute("config", "batch"))
('Constant(value=16)', 'Constant(value=8)')
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from types import MappingProxyType
from typing import Any

from memcore.limits import NESTING
from memcore.records import dataclass

_PARSERS = frozenset({"HfArgumentParser", "TrlParser", "H4ArgumentParser"})
"""What fills classes from a command line, in their order (transformers, hf_argparser.py; trl, scripts/utils.py)."""
_FILLS = frozenset({"cli", "parse", "parse_args"})
"""Functions of tyro, simple_parsing and draccus that do so for the class that they are given."""
_READS = frozenset({"parse_args", "parse_known_args"})
"""What reads a command line without a class (argparse)."""
STARTED = "*started"
"""The option that says that a script is started with these, and takes its settings from them for the most part."""
_GIVEN: ContextVar[Mapping[str, Any]] = ContextVar("options_given", default=MappingProxyType({}))


@contextmanager
def options_given(given: Mapping[str, Any]) -> Iterator[None]:
    """While this lasts, scripts find these options on their command lines, by name and without dashes."""
    before = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(before)


def options() -> Mapping[str, Any]:
    """Return those options."""
    return _GIVEN.get()


def constant(value: object) -> ast.expr:
    """Return a value of a command line as an expression.

    >>> ast.unparse(constant(["q_proj", 2]))
    "['q_proj', 2]"
    """
    return ast.List([constant(each) for each in value]) if isinstance(value, list) else ast.Constant(value)  # type: ignore[arg-type]


@dataclass
class Objects:
    """Attributes of the classes that a script defines for its settings, and which names stand for such objects."""

    fields: dict[str, dict[str, ast.expr]] = field(default_factory=dict)
    """Default values of the attributes of each class."""
    kinds: dict[str, str] = field(default_factory=dict)
    """The class of each name; empty for a name that stands for objects of several classes."""
    made: dict[str, list[ast.Call]] = field(default_factory=dict)
    """Where objects of a class are made."""
    changed: set[tuple[str, str]] = field(default_factory=set)
    """Attributes of names that are set later on."""
    parsed: list[str] = field(default_factory=list)
    """The classes that a command line fills, in the order of a parser of Hugging Face's."""
    filled: set[str] = field(default_factory=set)
    """The classes that any command line fills."""
    namespaces: set[str] = field(default_factory=set)
    """Names of what argparse has read."""
    bases: dict[str, str] = field(default_factory=dict)
    """The first base of each class that the script defines, and the original names of renamed imports."""
    attributes: dict[tuple[str, str], list[ast.expr]] = field(default_factory=dict)
    """What a script sets attributes of names to, as of a `ConfigDict` or a tokenizer."""
    given: dict[int, str] = field(default_factory=dict)
    """The name that a call's result is assigned to, by the `id` of the call."""

    def find(self, tree: ast.Module) -> None:
        """Record the classes and objects of a script."""
        nodes = list(alive(tree, 0))
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.ImportFrom):
                self.bases |= {
                    each.asname: each.name for each in node.names if each.asname and not each.name.endswith(each.asname)
                }
            elif isinstance(node, ast.Call) and last(node.func) in _PARSERS and node.args:
                several = node.args[0].elts if isinstance(node.args[0], ast.Tuple | ast.List) else [node.args[0]]
                self.parsed = [last(each) for each in several]
                self.filled |= {*self.parsed}
        for node in nodes:
            if isinstance(node, ast.Call):
                self._makes(node)
            elif isinstance(node, ast.arg | ast.AnnAssign) and isinstance(node.annotation, ast.Name | ast.Constant):
                said = node.annotation
                name = node.arg if isinstance(node, ast.arg) else last(node.target)
                self._is(name, said.id if isinstance(said, ast.Name) else str(said.value))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assigned(target, node.value)

    def _makes(self, node: ast.Call) -> None:
        """Record a call that makes an object of one of the classes, of what argparse has read if it says so."""
        name = last(node.func)
        if name in self.fields and _of_namespace(node):
            self.filled.add(name)
        elif name in self.fields:
            self.made.setdefault(name, []).append(node)

    def base(self, name: str) -> str:
        """Return what a library calls a class that a script imports by another name or derives from it.

        A model that a script derives from transformers' base of all models keeps its name, which says what it is for.
        """
        seen: list[str] = []
        while name in self.bases and name not in seen and not self.bases[name].endswith("PreTrainedModel"):
            seen.append(name)
            name = self.bases[name]
        return name

    def _class(self, node: ast.ClassDef) -> None:
        if node.bases and last(node.bases[0]):
            self.bases[node.name] = last(node.bases[0])
        found = self.fields.setdefault(node.name, {})
        for base in node.bases:
            found |= self.fields.get(last(base), {})
        for each in node.body:
            if isinstance(each, ast.AnnAssign | ast.Assign) and each.value is not None:
                targets = [each.target] if isinstance(each, ast.AnnAssign) else each.targets
                found |= {last(target): value for target in targets if (value := _default(each.value)) is not None}
            elif isinstance(each, ast.FunctionDef):
                self._method(each, node.name)

    def _method(self, node: ast.FunctionDef, name: str) -> None:
        """What `__init__` gives an object, which other methods may change."""
        arguments = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        given = {each.arg: said for each, said in zip(arguments, node.args.defaults, strict=True)}
        for each in node.body:
            if not isinstance(each, ast.Assign):
                continue
            for target in each.targets:
                if not (isinstance(target, ast.Attribute) and last(target.value) == "self"):
                    continue
                if node.name == "__init__" and target.attr not in self.fields[name]:
                    plain = isinstance(each.value, ast.Name)
                    self.fields[name][target.attr] = given.get(last(each.value), each.value) if plain else each.value
                else:
                    self.changed.add((name, target.attr))

    def _is(self, name: str, kind: str) -> None:
        if kind in self.fields:
            self.kinds[name] = kind if self.kinds.get(name, kind) == kind else ""

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(value, ast.Call):
            self.given[id(value)] = last(target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target)
        if isinstance(target, ast.Attribute) and last(target.value) != "self":
            self.changed.add((last(target.value), target.attr))
            self.attributes.setdefault((last(target.value), target.attr), []).append(value)
        at = 0
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            at = value.slice.value if isinstance(value.slice.value, int) else 0
            value = value.value
        if not isinstance(value, ast.Call):
            return
        called = last(value.func)
        if called.startswith("parse_") and self.parsed:
            targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            for each, kind in zip(targets, self.parsed[at:], strict=False):
                self._is(last(each), kind)
        elif called in _FILLS and value.args:
            self._is(last(target), last(value.args[0]))
            self.filled.add(last(value.args[0]))
        elif called in _READS:
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            self.namespaces.add(last(first))
        else:
            self._is(last(target), called)

    def attribute(self, name: str, attribute: str) -> ast.expr | None:
        """Return what gives an attribute of a name its value; None where nobody knows."""
        kind = name if name in self.fields else self.kinds.get(name, "")
        owners = [each for each, found in self.fields.items() if attribute in found] if name == "self" else ()
        kind = owners[0] if len(owners) == 1 else kind
        others = {each for each, other in self.kinds.items() if other == kind} | {kind, name}
        if kind in self.filled and attribute in options():
            return constant(options()[attribute])
        if not kind and name not in self.namespaces and len(self.attributes.get((name, attribute), ())) == 1:
            return self.attributes[name, attribute][0]
        if not kind or any((each, attribute) in self.changed for each in others):
            return None
        made = [call for call in self.made.get(kind, []) if not _copies(call, others)]
        said = [each.value for call in made for each in call.keywords if each.arg == attribute]
        if any(call.args or any(each.arg is None for each in call.keywords) for call in made) or len(said) > 1:
            return None
        if said:
            return said[0] if len(made) == 1 else None
        found = self.fields[kind].get(attribute)
        given = {each.arg for call in made for each in call.keywords}
        names = () if found is None else (each.id for each in ast.walk(found) if isinstance(each, ast.Name))
        return None if given.intersection(names) else found


def _copies(call: ast.Call, names: Collection[str]) -> bool:
    """Return whether an object is made of the attributes of another of its class."""
    values = [each.value for each in call.keywords]
    return any(isinstance(each, ast.Attribute) and last(each.value) in names for each in values)


def _of_namespace(call: ast.Call) -> bool:
    """Return whether an object is made of what argparse has read: `Config(**vars(parser.parse_args()))`."""
    several = [each.value for each in call.keywords if each.arg is None]
    inner = (last(each.func) for value in several for each in ast.walk(value) if isinstance(each, ast.Call))
    return len(several) == 1 and not call.args and "vars" in inner


def _default(value: ast.expr) -> ast.expr | None:
    """The value that an attribute begins with: `field(default=4)` and pydantic's `Field(4)` are 4."""
    if not (isinstance(value, ast.Call) and last(value.func) in ("field", "Field")):
        return value
    said = {each.arg: each.value for each in value.keywords}
    made = said.get("default_factory")
    inner = made.body if isinstance(made, ast.Lambda) else None
    return said.get("default", value.args[0] if value.args else inner)


def alive(node: ast.AST, deep: int) -> Iterator[ast.AST]:
    """Yield a node and what is below it, without branches that never run."""
    if deep > NESTING * 4:
        raise ValueError
    yield node
    left = dead(node)
    for child in ast.iter_child_nodes(node):
        if child not in left:
            yield from alive(child, deep + 1)


def dead(node: ast.AST) -> Sequence[ast.AST]:
    """Return the branch of a decided condition that never runs, or the handlers of a `try`: training met no error."""
    if isinstance(node, ast.Try):
        return node.handlers
    if not (isinstance(node, ast.If) and isinstance(node.test, ast.Constant)):
        return []
    return node.orelse if node.test.value else node.body


_ROUNDS = 4
"""How often branches that do not run may settle further conditions."""


def settle(tree: ast.Module) -> None:
    r"""Decide conditions that consist of switches alone, each of which a script sets to one value.

    >>> tree = ast.parse("A = B = False\nif A or B:\n  n = 1\nelse:\n  n = 2")
    >>> settle(tree)
    >>> [ast.unparse(each) for each in alive(tree, 0) if isinstance(each, ast.Assign)]
    ['A = B = False', 'n = 2']
    """
    for _ in range(_ROUNDS):
        values = _values(tree)
        open_ = [
            each for each in alive(tree, 0) if isinstance(each, ast.If) and not isinstance(each.test, ast.Constant)
        ]
        answers = [(node, answer) for node in open_ if (answer := _answer(node.test, values)) is not None]
        for node, answer in answers:
            node.test = ast.Constant(answer)
        if not answers:
            return


def _answer(test: ast.expr, values: Mapping[str, bool]) -> bool | None:
    """Return the value of a condition on switches; None if a switch that decides it is unknown."""
    if isinstance(test, ast.Name):
        return values.get(test.id)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _answer(test.operand, values)
        return None if inner is None else not inner
    if not isinstance(test, ast.BoolOp):
        return None
    decides = isinstance(test.op, ast.Or)
    parts = [_answer(each, values) for each in test.values]
    return decides if decides in parts else None if None in parts else not decides


def _values(tree: ast.Module) -> dict[str, bool]:
    """Whether names are true that a script sets to constants, all of them alike, and nothing else ever gives."""
    found: dict[str, set[object]] = {}
    given: dict[int, object] = {}
    for node in alive(tree, 0):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            given |= {id(target): node.value.value for target in node.targets}
    for node in alive(tree, 0):
        if isinstance(node, ast.arg):
            found.setdefault(node.arg, set()).add(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, set()).add(given.get(id(node), node))
    single = {name: next(iter(values)) for name, values in found.items() if len(values) == 1}
    return {name: bool(value) for name, value in single.items() if not isinstance(value, ast.AST)}


def last(node: ast.expr) -> str:
    """The last name of what is called or read."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return last(node.func)
    return node.id if isinstance(node, ast.Name) else ""
