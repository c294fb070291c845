"""The Python API as its page shows it: every public name is documented, with its arguments, errors, units and sources."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest
from test_chinese import BANNED

import memcore
from memcore.memory.ledger import Entry, Ledger
from memcore.memory.readings import Reading
from memcore.serving.estimate import ServingEstimate

pytestmark = pytest.mark.machine
NAMES = sorted(set(memcore.__all__) - {"__version__"})
OBJECTS = {name: getattr(memcore, name) for name in NAMES}
FUNCTIONS = {name: each for name, each in OBJECTS.items() if inspect.isfunction(each)}
CLASSES = {name: each for name, each in OBJECTS.items() if inspect.isclass(each)}
CLASSES |= {each.__name__: each for each in (Reading, Ledger, Entry, ServingEstimate)}
ERRORS = {name for name, each in CLASSES.items() if issubclass(each, Exception)}
NOUNS = re.compile(r"What |The same|How |Whether |Of |Those |Both|All three")
"""What the summary of a function never begins with: it says what the function does or returns."""


def members(each):
    """The public methods and properties of a class that memcore itself defines, with their docstrings."""
    found = {}
    for name, value in vars(each).items():
        value = getattr(value, "func", getattr(value, "fget", getattr(value, "__func__", value)))  # noqa: PLW2901
        if not name.startswith("_") and inspect.isfunction(value):
            found[name] = inspect.getdoc(value)
    return found


def fields(each):
    """The annotated attributes of a class, and whether a string behind each documents it."""
    lines = inspect.getsource(each).splitlines()
    found = {}
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        attribute = re.match(r"    (?!_)(\w+): ", line)
        if attribute:
            found[attribute[1]] = after.startswith('    """')
    return found


def docstrings():
    """Every docstring of memcore, those of attributes too, without what they quote as code."""
    for path in sorted(Path(memcore.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{path.name}:{node.lineno}", re.sub(r"`[^`]*`", "", node.value.value)


def test_docstrings_are_plain():
    """No docstring has a phrase that reads as translated."""
    texts = dict(docstrings())
    assert len(texts) > 3000
    assert [place for place, text in texts.items() if BANNED.search(text)] == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_say_what_they_take_return_and_raise(name):
    text, parameters = inspect.getdoc(FUNCTIONS[name]), inspect.signature(FUNCTIONS[name]).parameters
    described = text.partition("Args:")[2].partition("\n\n")[0]
    assert [each for each in parameters if f"    {each}: " not in described] == []
    assert "Returns:" in text or "yields" in text.partition("\n")[0]
    assert "Raises:\n    ConfigError: " in text
    assert "\nSources: " in text
    assert "\nExamples:\n    >>> " in text
    assert not NOUNS.match(text)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_classes_document_every_attribute(name):
    each = CLASSES[name]
    texts = {"": inspect.getdoc(each), **members(each)}
    assert all(texts.values())
    assert [member for member, text in texts.items() if member and NOUNS.match(text)] == []
    assert [member for member, text in texts.items() if BANNED.search(text)] == []
    if name not in {*ERRORS, "ServingEstimate", "Ledger", "Entry"}:
        documented = fields(each)
        assert documented or texts
        assert [field for field, described in documented.items() if not described] == []


def test_the_page_lists_every_name():
    """docs/api.md names all that `memcore` exports."""
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: memcore\.(\w+)$", page, re.MULTILINE))
    assert set(NAMES) - named == set()
    assert len(named) >= 20


@pytest.mark.parametrize("job", [{"model": "gpt2"}, {"model": "gpt2", "engine": {"type": "vllm"}}])
def test_an_answer_is_pickled_as_its_job(job):
    """Pools of processes send answers; rules are code, which is not sent."""
    found = memcore.estimate(job)
    assert len(pickle.dumps(found)) < 4000
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()  # noqa: S301 - of this very process
