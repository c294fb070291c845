"""Random inputs of every kind are answered or refused, quickly and within little memory; so is all that ever was not.

`python build.py fuzz` tries new ones for as long as one likes.
"""

import json
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from fuzzing.__main__ import KEPT, kept, run, shrunk, told
from fuzzing.runner import Runner, fresh
from fuzzing.shrinking import smallest
from fuzzing.targets import TARGETS, Case, case_of
from fuzzing.values import extreme, right, wrong
from memcore.config.settings import SETTINGS

pytestmark = pytest.mark.machine
TRIED = {name: max(3, 2 * target.weight) for name, target in TARGETS.items() if target.weight}
"""Inputs of each kind in the tests."""
ANSWERED = {
    "job",
    "explain",
    "pictures",
    "exports",
    "command",
    "advise",
    "solve",
    "search",
    "pair",
    "log",
    "page",
    "model",
}
"""Of these at least a quarter is answered: what is refused at once tests little."""


@pytest.fixture(scope="module")
def runner():
    """One worker for all."""
    with Runner() as running:
        yield running


@pytest.mark.parametrize("name", TRIED)
def test_random_inputs(runner, name):
    """The first inputs of each kind, which are the same in every run."""
    outcomes = {seed: runner.outcome(case_of(seed, name)) for seed in range(TRIED[name])}
    failed = {seed: each for seed, each in outcomes.items() if each.failed}
    assert not failed, f"try `python -m fuzzing --only {name} --seed {min(failed)} --count 1`: {failed[min(failed)]}"
    kinds = Counter(each.kind for each in outcomes.values())
    assert kinds.total() == TRIED[name] > 0
    assert kinds["answered"] >= (TRIED[name] / 4 if name in ANSWERED else 1)


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_failures(runner, path):
    """What failed once is mended."""
    content = json.loads(path.read_text(encoding="utf-8"))
    outcome = runner.outcome(Case(content["target"], content["given"]))
    assert not outcome.failed, f"{outcome.kind} in {outcome.place}: {outcome.message}"


def test_failures_are_kept():
    """Where the test above looks."""
    assert list(KEPT.glob("*.json"))


FAULTS = {
    "crash": ("crash", "KeyError in fuzzing/fault_injection.py:inject_fault"),
    "break": ("broken", "this must hold"),
    "silent": ("broken", "a refusal in fuzzing/fault_injection.py:inject_fault"),
    "refuse": ("refused", ""),
    "hang": ("over time", "fuzzing/fault_injection.py:inject_fault"),
    "stick": ("over time", "outside Python"),
    "fill": ("over memory", "fuzzing/fault_injection.py:inject_fault > fuzzing/fault_injection.py:_fill"),
    "die": ("crash", "process ended with -6"),
    None: ("answered", ""),
}


def test_each_kind_of_failure_is_found():
    """Crashes, hangs inside and outside Python, memory, dead processes; afterwards others are tried as before."""
    with Runner(seconds=1) as running:
        found = {way: running.outcome(Case("fault", {"way": way})) for way in FAULTS}
    assert {way: each.signature for way, each in found.items()} == FAULTS
    assert {way for way, each in found.items() if each.failed} == set(FAULTS) - {"refuse", None}
    assert found["hang"].seconds < 2


def test_a_failure_becomes_small_and_is_kept(tmp_path):
    """Keys, lines, items and letters that do not matter are gone."""
    given = {"way": "crash", "more": {"of": ["it"] * 40}, "lines": "a\nb\nc"}
    case = Case("fault", given)
    outcome = fresh(case)
    less = shrunk(case, outcome)
    assert less == {"way": "crash"}
    path = kept(7, Case("fault", less), outcome, tmp_path)
    assert json.loads(path.read_text()) == {
        "target": "fault",
        "given": less,
        "found": "crash in KeyError in fuzzing/fault_injection.py:inject_fault",
        "seed": 7,
    }


def test_what_becomes_small():
    """Of texts the lines and letters, of numbers their size, of trees the branches."""

    def fails(each):
        return "x" in json.dumps(each)

    assert smallest({"a": [1, {"b": "1\n2x3\n4"}], "c": 10**9}, fails, lambda: True) == {"a": [{"b": "x"}]}
    assert smallest("one\ntwo x\nthree", fails, lambda: True) == "x"
    assert smallest([5, 6, 7], lambda each: len(each) > 1, lambda: True) == [0, 0]


def test_a_seed_is_an_input():
    """The same one always, another for another seed; every kind of input is drawn."""
    assert [case_of(seed) for seed in range(50)] == [case_of(seed) for seed in range(50)]
    drawn = Counter(case_of(seed).target for seed in range(2000))
    assert set(drawn) == set(TRIED)
    texts = {json.dumps(case_of(seed, "job").given) for seed in range(50)}
    assert len(texts) == 50


def test_a_run_tells_what_it_tried(tmp_path, capsys):
    """Two workers share the seeds; a run without failures keeps nothing and says how often each kind was answered."""
    report = run(range(20), 2, 60, "quick", tmp_path)
    assert sum(report.counts.values()) == 20
    assert (report.failures, list(tmp_path.iterdir())) == ({}, [])
    heading, row = told(report).splitlines()
    assert heading.split() == ["inputs", "answered", "refused", "failed", "longest", "seed"]
    assert row.split()[:2] == ["quick", "20"]
    assert int(row.split()[2]) + int(row.split()[3]) == 20


def test_every_setting_has_values():
    """Right ones, extremes of what is allowed, and wrong ones; most right ones are taken."""
    rng, taken = Random(0), Counter()
    for setting in SETTINGS.values():
        for make in (right, extreme, lambda kind, rng: wrong(rng)):
            with suppress(ValueError):
                setting.kind.check(make(setting.kind, rng))
                taken[make.__name__] += 1
    assert taken["right"] > 0.95 * len(SETTINGS) > taken["<lambda>"]
