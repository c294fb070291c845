"""Whatever text comes in is read in time proportional to its length, and refused in words where it is not read."""

import ast
import importlib
import json
import random
import re
import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memcore
from memcore.config.url import decode_fragment
from memcore.errors import LISTED, ConfigError, MemcoreError
from memcore.faces.page.exchanging import understood
from memcore.faces.render.page import Form
from memcore.formats.readers import read_command, read_file
from memcore.formats.scalars import resolved
from memcore.formats.yaml import read_yaml
from memcore.i18n.sentences import in_chinese
from memcore.patterns import Pattern
from memcore.questions.reconciling.lines import LINES
from memcore.questions.reconciling.logs import LARGEST, sightings
from memcore.serving.checkpoint import own_format
from memcore.tools import imported
from memcore.tools.sources import read_source
from memcore.untrusted import parse_json

yaml = pytest.importorskip("yaml")

LENGTH = 100_000


def seconds(done, *arguments):
    """Processor time until something is read or refused; the best of three where it took long: others use the machine too."""
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        with suppress(MemcoreError, ValueError):
            done(*arguments)
        best = min(best, time.process_time() - begun)
        if best < 0.5:  # the least that a test asks for
            break
    return best


HOSTILE = {
    "escaped quotes": (parse_json, '{"a":"', '\\"', ""),
    "open quotes": (parse_json, "{", '"', "\\"),
    "empty lines before a key": (read_file, "", "#\n\n", "--flag"),
    "empty lines": (read_file, "", "\n", "x"),
    "spaces before a table": (read_file, "a = 1\n", " \n", "[b"),
    "parts of a name in TOML": (read_file, "[a]\n", "a.", "b = 1"),
    "quoted parts of a name in TOML": (read_file, '[a]\n" "', '." "', " = 1"),
    "assignments in one command": (read_command, "", "a=1 ", ""),
    "conditions": (read_command, "", "if x\n", "a\n" * 20_000),
    "what a variable adds": (read_command, "", "a+=xx;", ""),
    "defaults inside defaults": (read_command, "", "${a:-", "}" * 20_000),
    "brackets of an array": (read_command, "a=( " + "x" * LENGTH + "!= ", "(", ""),
    "items": (read_yaml, "a:\n", "- 1\n", ""),
    "mappings in a list": (read_yaml, "a:\n", "- b: 1\n  c: x y\n", ""),
    "items in brackets": (read_yaml, "a: [", "1, ", "2]"),
    "open quotes in YAML": (read_yaml, "a: ", "'b\n", ""),
    "spaces in YAML": (read_yaml, "a: 'b", " ", "x"),
    "anchors": (read_yaml, "a: ", "&b ", ""),
    "words": (read_yaml, "a: b", " b", ":"),
    "unknown flags of a link": (decode_fragment, "v1", "&sequences", "=1"),
    "quotes in a message": (in_chinese, "", "\\'", ""),
    "openings of a picture": (lambda text: understood(text, Form({}, "")), "", "<metadata>", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name):
    """What once took the square of the time, or twice as long with every line."""
    read, before, again, after = HOSTILE[name]
    length = LENGTH if read is not decode_fragment else 60_000
    assert seconds(read, before + again * (length // len(again)) + after) < 1


def test_unknown_keys_are_not_told_by_the_thousand():
    """The first ones, with a suggestion, and how many more there are."""
    settings = {f"sequence_{number}": 1 for number in range(20_000)}
    assert seconds(memcore.Config.from_dict, {"model": "gpt2", "training": settings}) < 1
    with pytest.raises(ConfigError) as caught:
        memcore.Config.from_dict({"model": "gpt2", "training": settings})
    assert len(caught.value.problems) == LISTED + 1
    assert caught.value.problems[0].suggestion
    assert str(caught.value.problems[-1]) == f"and {20_000 - LISTED} more"


def long_log(line):
    return "\n".join(f"{line} {number}" for number in range(LARGEST // len(line)))[:LARGEST]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("INFO 2024-01-01 12:00:00 request finished, prompt tokens: 12, throughput 12.3 tokens/s", 0),
        ("step: 10  \x1b[32mloss:  4.02  \x1b[36mmemory: 42.12GiB(53.20%)  \x1b[34mtps: 7,000", 1),
        ("MA 14.96 GB         Max_MA 15.1 GB         CA 15.3 GB         Max_CA 15 GB ", 4),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity", 2),
        ("about 71.5 GiB of 80 GB", 8),
        ("", 0),
    ],
)
def test_long_logs(line, named):
    """As much of a log as is read takes a fraction of a second here, and less than three in a browser."""
    text = long_log(line) if line else "\n" * LARGEST
    assert len(sightings(text)) == named
    assert seconds(sightings.__wrapped__, text) < 1


def test_lines_with_the_same_numbers_count_each():
    """The first line that states the highest value, and how many state the quantity."""
    lines = ["memory: 2.00GiB(1%)", "x", "memory: 3.00GiB(1%)", "memory: 2.00GiB(1%)", "memory: 3.00GiB(1%)"]
    for end in ("\n", "\r\n", "\r"):
        (found,) = sightings(end.join(lines))
        assert (found.stated, found.line, found.times) == ("3.00 GiB", 3, 4)


# Regular expressions

ROOT = Path(memcore.__file__).parent
ANCHORED = {"match", "fullmatch"}
METHODS = {*ANCHORED, "search", "sub", "subn", "findall", "finditer", "split"}


def held(value):
    """The patterns in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from held(each) if not isinstance(each, dict) else ()


def every_pattern():
    """All regular expressions of the package, by module and name, and the methods that are called on them."""
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source:
            continue
        calls = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
        ]
        used = {}
        for call in calls:
            owner = call.func.value
            if isinstance(owner, ast.Name) and owner.id == "re" and isinstance(call.args[0], ast.Constant):
                yield f"{path.name}:{call.lineno}", re.compile(call.args[0].value), {call.func.attr}
            used.setdefault(owner.id if isinstance(owner, ast.Name) else "", set()).add(call.func.attr)
        module = importlib.import_module(
            ".".join(("memcore", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        )
        for name, value in vars(module).items():
            for each in held(value):
                yield f"{path.name}:{name}", each, used.get(name, ANCHORED)


def pumps(pattern):
    """What may be repeated before a pattern: its own letters and words, and what it is made of."""
    literals = [each for each in re.split(r"[\\\[\](){}*+?|^$]+", pattern) if len(each) > 1]
    letters = list(dict.fromkeys([*pattern[:24], *"a1 _-.,:#'\"\\\n\t=[{(|&*"]))
    special = [each for each in letters if not each.isalnum()][:14]
    return [*letters, *literals, *(f"{each}>" for each in literals), *(a + b for a in special for b in special)]


@pytest.mark.machine
def test_regular_expressions_take_linear_time():
    """None goes back over what it has read: 3,000 letters take far less than their square would."""
    found = [*every_pattern(), *((f"line {each.hint}", each.text, {"search"}) for each in LINES)]
    assert len(found) > 120
    unique = {(each.pattern, *methods): (name, each, methods) for name, each, methods in found}
    slow = [(name, each.pattern, way) for name, each, methods in unique.values() for way in slow_ways(each, methods)]
    assert slow == []


@pytest.mark.machine
@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?:\s*(?:#[^\n]*)?\n)*\s*[\w.]+:(?:\s|$)", "match"),
        (r'"(?:[^"\\]|\\.)*"', "sub"),
        (r"<metadata[^>]*>(.*?)</metadata>", "search"),
        (r"[ \t]+$", "search"),
        (r"(a|a)*b", "fullmatch"),
    ],
)
def test_regular_expressions_that_do_not(pattern, method):
    """What the test above is for."""
    assert slow_ways(re.compile(pattern), {method})


def slow_ways(pattern, methods):
    """What is repeated, and how a pattern is matched against it, where that takes long; the first such."""
    ways = (
        (way, pump)
        for pump in pumps(pattern.pattern)
        for way in {method if method in ANCHORED else "search" for method in methods}
        for size in (22, 3000)
        if _takes_long(getattr(pattern, way), pump * (size // min(len(pump), 2)))
    )
    return list(islice(ways, 1))


def _takes_long(method, text):
    """Whether texts with several endings together take longer than one letter after the other does, at best.

    What takes ten times as long is not tried again.
    """
    limit = max(0.01, 2e-6 * len(text))
    for _ in range(4):
        begun = time.process_time()
        for each in (text, f"{text}\0"):
            method(each)
        taken = time.process_time() - begun
        if not limit <= taken < 10 * limit:
            return taken >= limit
    return True


# Patterns of others


def some_pattern(rng, deep=0):
    parts = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.random()
        if kind < 0.25 and deep < 3:
            other = f"|{some_pattern(rng, deep + 1)}" if rng.random() < 0.5 else ""
            atom = f"{rng.choice(['(', '(?:'])}{some_pattern(rng, deep + 1)}{other})"
        elif kind < 0.32:
            parts.append(rng.choice("^$"))
            continue
        else:
            atom = rng.choice(["a", "b", ".", r"\.", r"\d", "[ab]", "[^a]", "1", r"\w", "_"])
        parts.append(atom + rng.choice(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "{0}", "{1,}"]))
    return "".join(parts)


def test_patterns_are_pythons():
    """They match what `re` matches."""
    rng, compared = random.Random(7), 0
    for _ in range(3000):
        text = (f"(?!{some_pattern(rng, 2)})" if rng.random() < 0.1 else "") + some_pattern(rng)
        with suppress(re.error):
            theirs, ours = re.compile(text), Pattern(text)
            for _ in range(4):
                name = "".join(rng.choice("ab.1_") for _ in range(rng.randrange(7)))
                assert ours.match(name) == (theirs.match(name) is not None), (text, name)
                compared += 1
    assert compared > 8000


@pytest.mark.parametrize("text", ["(a|a)" * 60 + "b", "(a*)*b", "(a+)+$", ".*" * 30 + "b", "(a?){60}" + "a" * 60])
def test_hostile_patterns(text):
    """Whatever is tried, names are compared at once."""
    assert seconds(Pattern(text).match, "a" * 200) < 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a", "the pattern '\\(a' has an unclosed bracket"),
        ("a)", "has an unmatched closing bracket"),
        ("*", "repeats nothing"),
        (r"(a)\1", "which is not supported"),
        ("a{999}{999}", "is longer than 2000 letters with its repetitions"),
    ],
)
def test_patterns_that_are_not_read(text, message):
    """In words, with the key."""
    method = {"quant_method": "compressed-tensors", "ignore": [f"re:{text}"], "format": "float-quantized"}
    stored = own_format({"quantization_config": method})
    with pytest.raises(ConfigError, match=f"model.quantization_config: .*{message}"):
        stored.leaves("model.layers.0")


# JSON and TOML


@pytest.mark.parametrize("read", [read_file, read_source, imported])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": 1, "b": 2}}', "^a.b: appears twice with different values: 1 and 2$"),
        ('{"a": [{"b": 1, "b": [2]}]}', "^a.0.b: appears twice with different values: 1 and \\[2\\]$"),
        ("[" * 10 + "a: 1", "lacks its"),
        ('{"a": ' + "[" * 100_000, "nested more than 64 levels deep"),
        ('{"a": ' + "1" * 5000 + "}", "a number of at most 300 digits, found 5000"),
        (r'{"a": "\ud800"}', "half of a surrogate pair"),
        ("\ufffd\ufffd{\0", "in UTF-16, not in UTF-8"),
        ("a:\n" + "".join(f"{' ' * number}a:\n" for number in range(1000)), "nested more than 64 levels deep"),
        ("a: " + "[" * 1000, "nested more than 64 levels deep"),
        ("a: " + "1" * 5000, "line 1: found .* at most 300 digits, found 5000"),
        ("[a]\nb = " + "[" * 1000, "64 levels deep"),
        ("[a]\n" + "a." * 1000 + "b = 1", "64 levels deep"),
        ("[a]\nb = " + "1" * 5000, "at most 300 digits, found 5000"),
        ("[a]\nb = 1\nb = 2", "is not TOML: Cannot overwrite"),
    ],
    ids=lambda each: each[:24] if isinstance(each, str) else None,
)
def test_what_is_not_read(read, text, message):
    """Said with the key or the line, whatever would have come out of a parser."""
    if text.startswith("[a]\n") and sys.version_info < (3, 11):
        message = "needs Python 3.11"
    with pytest.raises(ConfigError, match=message):
        read(text)


def test_limits_that_transformers_saved_as_infinity():
    """They are read, and are JSON in what memcore writes; any other infinity is no JSON."""
    text = '{"model_type": "mamba2", "time_step_limit": [0.0, Infinity]}'
    spelled = {"model_type": "mamba2", "time_step_limit": [0.0, {"__float__": "Infinity"}]}
    assert parse_json(text) == spelled
    given = {"model_type": "mamba2", "time_step_limit": [0.0, float("inf")]}
    for model in (given, {"model_type": "x", "text_config": given}):
        json.dumps(memcore.Config.from_dict({"model": model}).to_dict(), allow_nan=False)
    for other in ('{"time_step_limit": [Infinity, 1]}', '{"a": Infinity}', '{"time_step_limit": [NaN, Infinity]}'):
        with pytest.raises(ValueError, match="not a JSON number"):
            parse_json(other)


def test_keys_that_are_there_again():
    """With the same value they are read, and said; with a note for each."""
    notes = []
    assert parse_json('{"a": {"b": 1, "b": 1, "c": 2}}', notes) == {"a": {"b": 1, "c": 2}}
    assert notes == ["a.b appears twice with the same value"]
    text = '{"model": "gpt2", "training": {"sequence_length": 8, "sequence_length": 8}}'
    assert read_source(text)[1] == ("training.sequence_length appears twice with the same value",)
    found = imported("per_device_train_batch_size: 2\nmodel_name_or_path: gpt2\nper_device_train_batch_size: 2\n")
    assert "per_device_train_batch_size appears twice with the same value" in found.notes


@pytest.mark.parametrize(
    "text",
    [
        '{"train_micro_batch_size_per_gpu": 2}',
        "per_device_train_batch_size: 2\n",
        "vllm serve gpt2 --tensor-parallel-size 2",
        "[training]\nlocal_batch_size = 2\n",
    ],
)
def test_byte_order_marks(text):
    """Some editors put one before a text; it says nothing."""
    if text.startswith("[") and sys.version_info < (3, 11):
        pytest.skip("TOML needs Python 3.11")
    assert read_file(f"\ufeff{text}") == read_file(text)
    assert read_source(f"\ufeff{text}") == read_source(text)


@pytest.mark.machine
def test_files_in_utf_16(tmp_path):
    """A config is refused in words, with or without letters beyond ASCII."""
    from memcore.faces.cli import main

    file = tmp_path / "job.json"
    file.write_text(json.dumps({"model": "gpt2"}), encoding="utf-16")
    assert main(["estimate", str(file)]) == 2
    file.write_text(json.dumps({"model": "gpt2", "training": {"sequence_length": 8}}), encoding="utf-8-sig")
    assert main(["estimate", str(file), "--accelerator", "t4"]) == 0


# YAML

YAML = {
    "lists over several lines": ("a: [1, 2,\n  3, # c\n  4]\nb: {c: d,\n e: [f,\n g]}", {"a": [1, 2, 3, 4], "b": {"c": "d", "e": ["f", "g"]}}),
    "a list below its key": ("a:\n  [b,\n  c]\n", {"a": ["b", "c"]}),
    "blocks of text in lists": ("- |\n  a\n   b\n\n- >-\n  c\n  d\n\n  e\n- f", ["a\n b\n", "c d\ne", "f"]),
    "ends of blocks": ("a: |+\n  b\n\nc: |-\n  d\ne: |2\n   f\n", {"a": "b\n\n", "c": "d", "e": " f\n"}),
    "anchors and aliases": ("a: &x [1, &y b]\nc: *x\nd: *y", {"a": [1, "b"], "c": [1, "b"], "d": "b"}),
    "merge keys": ("a: &x {b: 1, c: 2}\nd: &y {c: 3}\ne:\n  <<: [*x, *y]\n  b: 4", {"a": {"b": 1, "c": 2}, "d": {"c": 3}, "e": {"b": 4, "c": 2}}),
    "quotes over several lines": ("a: \"b\n  c\n\n  d \\\n  e\"\nf: 'it''s\n  g'", {"a": "b c\nd e", "f": "it's g"}),
    "escapes": (r'a: "\x41\u00e9\U0001F600\t\\\/\"\e"', {"a": 'A\u00e9\U0001f600\t\\/"\x1b'}),
    "plain text over several lines": ("a: b\n  c\n\n  d\ne: f", {"a": "b c\nd", "e": "f"}),
    "comments everywhere": ("# a\nb: # c\n  # d\n  - e # f\n # g\n  - h#i\n# j", {"b": ["e", "h#i"]}),
    "carriage returns": ("a: 1\r\nb:\r- c\r\n", {"a": 1, "b": ["c"]}),
    "a byte order mark": ("\ufeffa: 1", {"a": 1}),
    "one document": ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
    "lists in lists": ("- - a\n  - b\n- \n  - c\n-   d: e\n    f:\n    - g\n", [["a", "b"], ["c"], {"d": "e", "f": ["g"]}]),
    "keys": ("\"a b\": 1\n'c': 2\nd e : 3\n1: 4\nf.g-h/i: 5", {"a b": 1, "c": 2, "d e": 3, "1": 4, "f.g-h/i": 5}),
    "pairs in a list": ('[a: 1, {b}, "c":2]', [{"a": 1}, {"b": None}, {"c": 2}]),
    "colons and hashes": ("a: http://b:80/c#d\ne: f::g\nh: '#'\ni: org/m:q4", {"a": "http://b:80/c#d", "e": "f::g", "h": "#", "i": "org/m:q4"}),
    "tags of YAML itself": ("a: !!str 1\nb: !!float 2\nc: !!seq [d]\ne: ! 3", {"a": "1", "b": 2.0, "c": ["d"], "e": "3"}),
    "a tab behind a colon": ("a:\t1\nb: 2\t# c", {"a": 1, "b": 2}),
    "nothing": ("# a\n\n", None),
    "numbers": ("[0x1F, 0o17, 017, 0b11, 1_000, 1e5, -1.5E-3, .5, +3, 08, 1:30, 2024-01-01]", [31, 15, 15, 3, 1000, 1e5, -1.5e-3, 0.5, 3, "08", "1:30", "2024-01-01"]),
    "words": ("[yes, No, ON, off, ~, null, yEs, y, .inf, -.INF]", [True, False, True, False, None, None, "yEs", "y", float("inf"), float("-inf")]),
}  # fmt: skip


@pytest.mark.parametrize("name", YAML)
def test_yaml(name):
    """What files of configs are written with."""
    text, value = YAML[name]
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1", "line 2: found 'b: 1', which is indented with a tab"),
        ("a: 1\n---\nb: 2", "line 3: found 'b: 2', which starts a second document"),
        ("a: 1\n\n  b: 2", "line 3: found 'b: 2', which is indented differently from its neighbours"),
        ("a: 'b\nc: d", "line 1: found \"a: 'b\", which lacks its closing '"),
        ("a: [b\nc, d", r"line 1: found 'a: \[b', which lacks its \]"),
        ("a: [b\nc: d]", r"line 2: found 'c: d\]', which has ':' where a comma or \] belongs"),
        ("a: b: c", "line 1: found 'a: b: c', which has a second colon"),
        ("a: @b", "which has '@' at the start of a value"),
        ("? a\n: b", "line 1: found '. a', which has a complex key"),
        ("a: {[b]: c}", "which has a key that is neither a string nor a number"),
        ("a: *b", "line 1: found 'a: .b', which refers to an anchor that is not defined before it"),
        ("a: &b [*b]", "refers to an anchor that is not"),
        ("<<: [1]", "line 1: found '<<: .1.', which merges something that is not a mapping"),
        ("a: !!int b", "which is not what its tag !!int says"),
        ("a: !include b", "which has the tag !include, which is not supported"),
        ('a: "\\q"', r"has the escape \\q, which YAML does not know"),
        ('a: "\\ud800"', "has the escape \\\\ud800, which is not a character"),
        ("a: | b\n  c", "starts a text block but continues on the same line"),
        ("a: 'b' c", "line 1: .* which has text after its end: 'c'"),
        ("a: 1\nb", "line 2: found 'b', which is not `key: value`"),
        ("a: 1\nb: 2\na: 3", "line 3: found 'a: 3', which appears twice with different values"),
    ],
)
def test_yaml_that_is_not_read(text, message):
    """The line, what is there, and what is wrong with it."""
    with pytest.raises(ConfigError, match=message):
        read_yaml(text)


def test_aliases_of_aliases():
    """Values are shared, so that few lines are little memory; and so many are refused, or so deep ones."""
    found = read_yaml("a: &a {b: 1}\nc: *a\nd: [*a]")
    assert found["c"] is found["a"]
    assert found["d"][0] is found["a"]
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ConfigError, match="line 6: .* expands aliases to more than 131072 values"):
        read_yaml("\n".join(rows))
    chain = ["a0: &a0 x", *(f"a{n}: &a{n} {{b: *a{n - 1}}}" for n in range(1, 200))]
    with pytest.raises(ConfigError, match="nested more than 64 levels deep"):
        read_yaml("\n".join(chain))


def reference(node):
    """What a document means by PyYAML's parser, with our scalars and keys as they are written."""
    if isinstance(node, yaml.ScalarNode):
        return resolved(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [reference(each) for each in node.value]
    own, merged = {}, {}
    for key, value in node.value:
        held = reference(value)
        if not isinstance(key, yaml.ScalarNode) or own.get(key.value, held) != held:
            raise yaml.YAMLError
        if key.value == "<<":
            for each in reversed(held if isinstance(held, list) else [held]):
                if not isinstance(each, dict):
                    raise yaml.YAMLError
                merged |= each
        else:
            own[key.value] = held
    return {**merged, **own}


LEAVES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=30) | st.floats(allow_nan=False)
KEYS = st.text(min_size=1, max_size=12).filter(lambda key: key != "<<")
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    TREES,
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([20, 80]),
    st.booleans(),
)
def test_what_pyyaml_writes(tree, flow, style, width, wide):
    """In every style, with lines broken where they get long."""
    text = yaml.safe_dump(
        {"a": tree}, default_flow_style=flow, default_style=style, width=width, allow_unicode=wide, sort_keys=False
    )
    try:
        expected = reference(yaml.compose(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError):
        return  # PyYAML cannot read what it writes of some letters
    if all(each not in text for each in "\x85\u2028\u2029!?"):  # ends of lines in YAML 1.1; tags, and complex keys
        assert read_yaml(text) == expected


CORPUS = (
    """
# c
base: &base
  a: 1   # x
  b: [1, 2,
     3, "x y",
     'it''s']
job:
  <<: *base
  b: |
    line 1
      line 2

    line 3
  c: >-
    folded text
    goes on

    para
list:
- a
- b: 1
  c: "quoted
    over lines \\
    here\\u00e9"
-
  - x
  - - y
    - z
- {a: 1, b: {c: [d, e]}, "f": null}
multi: plain text
  goes on
  here
empty:
url: http://x.y/z:80#frag
""",
    """---
model:
  name: "a"
  path: 'b'
train:
    lr: 3.0e-4
    on: yes
    list:
    - 1
    - |
      block
      in list
    - >
      folded
    -   k: v
        w: v
other: ~
...
""",
    "a: [x, y: 1, {z}]\nb: {k: v,\n   l: [1,\n   2], # c\n m: n}\nc:\n  [q_proj,\n  k_proj]\n'sq key': 2\n",
    "- a\n- b\n-\n  c: d\n  e:\n  - f\n  -  g: h\n     i: j\n",
    "key: &anc\n  x: 1\nz: &s text\ny: *s\nw: [*s, *anc]\n",
    "a: |2-\n    x\n   y\nb: >+\n  t\n\n\n   more\n  u\n\nc: d\n",
)
SNIPPETS = [*"ab: \n-[]{},#'\"|>1", "  ", "\n  ", "- ", ": ", "\n- ", "\n\n", "---\n", "# c\n", "''", "\t", "|\n", ">-\n", "x: y\n", "null"]  # fmt: skip


def changed(rng, text):
    """A text with some letters or lines put in, taken out or moved."""
    lines = text.split("\n")
    if rng.random() < 0.5:
        start = rng.randrange(len(lines))
        text = "\n".join(lines[start : start + rng.randrange(2, 9)])
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(SNIPPETS) + text[at + rng.choice([0, 0, 1, 3]) :]
    return text


def test_what_pyyaml_reads():
    """Of files with something changed in them, all that PyYAML reads is read, and means the same."""
    rng, same, refused = random.Random(3), 0, 0
    for _ in range(2500):
        text = changed(rng, rng.choice(CORPUS))
        try:
            expected = reference(yaml.compose(text, Loader=yaml.SafeLoader) or yaml.ScalarNode("", "", style=None))
        except yaml.YAMLError:
            with suppress(ConfigError):
                read_yaml(text)
            refused += 1
            continue
        if not re.search(r"^\s*[|>]", text, re.MULTILINE):  # PyYAML takes a block that stands as far left as its dash
            assert read_yaml(text) == expected, text
            same += 1
    assert same > 300
    assert refused > 300


SCALARS = st.from_regex(r"[-+]?(0[xob]?)?[0-9][0-9_]{0,4}\.?[0-9_]{0,3}([eE][-+]?[0-9]{1,2})?", fullmatch=True)


@given(SCALARS | st.sampled_from(["yes", "Null", "TRUE", "~", ".NaN", ".Inf", "off", "oFF", "1.5", "1.e+3", "x"]))
def test_scalars_are_pyyamls(text):
    """But for floats without a point, numbers by sixties, and YAML 1.2's octal ones."""
    if not text or re.fullmatch(r"[-+]?[0-9_]*(\.[0-9_]*)?[eE][0-9+-]+|[-+]?0o.*|[-+]?\.?_.*|.*_", text):
        return
    expected = yaml.safe_load(text) if ":" not in text else text
    assert repr(resolved(text)) == repr(expected) or resolved(text) == expected
