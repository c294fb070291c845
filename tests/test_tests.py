"""Tests that can fail: each asserts something that no empty list takes away."""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import IN_PYODIDE

TESTS = Path(__file__).parent
FILES = sorted(TESTS.glob("test_*.py"))
VIEWS = {"items", "keys", "values"}
"""Methods that leave as many elements as there are."""
PAIRS = {"enumerate", "zip", "product", "sorted", "reversed", "list", "tuple", "set", "map"}
"""Functions that leave elements where all their lists have some."""
CHECKS = ("raises", "assert", "check", "expect", "to_")
"""What the names of functions begin with that fail by themselves."""


class Assertions(ast.NodeVisitor):
    """Which assertions of a function are certain to run, and which only run for the elements of something computed."""

    def __init__(self, filled):
        self.filled = filled
        self.sure, self.unsure = [], []
        self.depth = 0

    def visit_For(self, node):
        """A loop: its body runs as often as there are elements."""
        computed = not is_filled(node.iter, self.filled)
        self.depth += computed
        for each in node.body:
            self.visit(each)
        self.depth -= computed
        for each in node.orelse:
            self.visit(each)

    def visit_Assert(self, node):
        """An assertion; `all` holds of nothing, too."""
        parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        for_all = all(
            isinstance(each, ast.Call)
            and name_of(each) == "all"
            and isinstance(each.args[0], ast.GeneratorExp)
            and not all(is_filled(part.iter, self.filled) for part in each.args[0].generators)
            for each in parts
        )
        (self.unsure if self.depth or for_all else self.sure).append(node.lineno)

    def visit_Call(self, node):
        """A function that fails by itself."""
        if name_of(node).startswith(CHECKS):
            (self.unsure if self.depth else self.sure).append(node.lineno)
        self.generic_visit(node)


def name_of(call: ast.Call) -> str:
    """What is called."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def is_filled(node, filled):
    """Whether a list has elements for certain: it is written out, or a constant, or made of one."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(each, ast.Starred) or is_filled(each.value, filled) for each in elements)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name):
            return name in filled
        case ast.Call(func=ast.Attribute(value=value, attr=attribute), args=[]) if attribute in VIEWS:
            return is_filled(value, filled)
        case ast.Call(func=ast.Name(id="range"), args=arguments):
            return not any(isinstance(part, ast.Call) for each in arguments for part in ast.walk(each))
        case ast.Call(func=ast.Name(id="map"), args=[_, *lists]) | ast.Call(args=lists) if name_of(node) in PAIRS:
            return all(is_filled(each, filled) for each in lists)
    return False


def filled_names(tree):
    """Names of lists that are written out, and of constants that are imported."""
    found = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if each.name.isupper()
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_filled(node.value, found):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def unsure(text):
    """The tests of a file all of whose assertions may never run, with the lines of these."""
    tree = ast.parse(text)
    filled = filled_names(tree)
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            assertions = Assertions(filled)
            for each in node.body:
                assertions.visit(each)
            if assertions.unsure and not assertions.sure:
                found[node.name] = assertions.unsure
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_something_is_asserted_whatever_is_found(path):
    """A test that asserts of each element of a computed list also asserts that there are some."""
    assert unsure(path.read_text(encoding="utf-8")) == {}


def test_what_runs_inside_pyodide_is_there():
    """A file that is renamed is renamed in that list, too; one that needs the machine is not in it."""
    names = {path.stem.removeprefix("test_"): path.read_text(encoding="utf-8") for path in FILES}
    assert set(IN_PYODIDE) <= set(names)
    assert [name for name in IN_PYODIDE if re.search(r"(?m)^pytestmark = pytest\.mark\.machine$", names[name])] == []


KINDS: Mapping[str, tuple[str, Sequence[int]]] = {
    "a loop over what is computed": ("for each in found():\n  assert each", [2]),
    "all of what is computed": ("assert all(each for each in found())", [1]),
    "twice all": ("assert all(each for each in found()) and all(each for each in others())", [1]),
    "a loop over what may be filtered": ("for each in [one for one in (1, 2) if one > 2]:\n  assert each", [2]),
    "a view of what is computed": ("for each in found().values():\n  assert each", [2]),
    "as many as were counted": ("for each in range(len(found())):\n  assert each", [2]),
    "a call that fails by itself": ("for each in found():\n  check(each)", [2]),
    "an empty list": ("many = []\nfor each in many:\n  assert each", [3]),
    "and that there are some": ("many = found()\nassert many\nfor each in many:\n  assert each", []),
    "that and all of them at once": ("assert many and all(each for each in many)", []),
    "what is written out": ("for each in (1, 2):\n  assert each", []),
    "a list that is written out before": ("many = [1, 2]\nassert all(each for each in many)", []),
    "some that are written out, and others": ("many = [1, *found()]\nfor each in many:\n  assert each", []),
    "a loop within a filled one": ("for each in range(3):\n  for other in found(each):\n    assert other", [3]),
}


@pytest.mark.parametrize(("body", "lines"), KINDS.values(), ids=KINDS)
def test_what_counts_as_an_assertion_that_may_never_run(body, lines):
    """The rule by examples."""
    text = "def test_it():\n" + "\n".join(f"  {line}" for line in body.splitlines())
    assert unsure(text) == ({"test_it": [line + 1 for line in lines]} if lines else {})
