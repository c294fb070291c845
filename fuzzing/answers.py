"""An answer, and what must hold for every one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memcore.errors import MemcoreError, problems_of
from memcore.estimation import estimate
from memcore.faces.render import data
from memcore.faces.render.serving_data import serving_summary_data
from memcore.memory.estimate import Estimate
from memcore.serving.estimate import ServingEstimate

Found = Estimate | ServingEstimate


class BrokenError(Exception):
    """Something that must hold does not."""


def expect(holds: object, what: str) -> None:
    """Raise BrokenError unless something holds."""
    if not holds:
        raise BrokenError(what)


def normalized(config: Any) -> Any:
    """A config without what is refused: settings are left out as long as that helps, as a user would.

    Random settings seldom go together; what is left of them is answered more often. Raises the refusal that cannot be
    settled so.
    """
    for _ in range(TRIES):
        try:
            estimate(config)
        except MemcoreError as error:
            refusal(error)
            less = _without(config, [each.path for each in problems_of(error)])
            if less is None:
                raise
            config = less
        else:
            return config
    return config


TRIES = 8
"""Refusals of one config that are settled."""


def _without(config: Any, paths: list[str]) -> Any:
    """A config without the settings at some paths; None if it has none of them."""
    changed = False
    for path in paths:
        config, left_out = _left_out(config, path.split("."))
        changed = changed or left_out
    return config if changed else None


def _left_out(tree: Any, names: list[str]) -> tuple[Any, bool]:
    name, *rest = names
    if not isinstance(tree, dict) or name not in tree or name == "model":
        return tree, False
    if rest and isinstance(tree[name], dict):
        inner, changed = _left_out(tree[name], rest)
        return {**tree, name: inner}, changed
    return {key: value for key, value in tree.items() if key != name}, True


def answered(config: object) -> Found:
    """The estimate of a config, whose numbers agree with each other.

    Raises MemcoreError for what is refused, and BrokenError.
    """
    found = estimate(config)  # type: ignore[arg-type]
    for each in found.readings:
        expect(
            0 <= each.low <= each.expected <= each.high,
            f"a range: {each.name} is {each.low}, {each.expected}, {each.high}",
        )
        expect(all(type(end) is int for end in (each.low, each.expected, each.high)), f"no whole bytes: {each.name}")
    expected = [each.expected for each in found.readings]
    expect(expected == sorted(expected), f"not in order: allocated, reserved and device are {expected}")
    expect(all(entry.bytes >= 0 for entry in found.ledger.entries), "an entry of the ledger is negative")
    if isinstance(found, Estimate):
        expect(found.ledger.total == found.peak.peak, "the ledger is not what is allocated at the peak")
        expect(found.peak.peak == max(each.peak for each in found.moments), "the peak is not the highest moment")
    return found


def said(found: Found) -> dict[str, Any]:
    """Return what `memcore estimate --json` prints; it must be JSON by the standard, without NaN."""
    summary = serving_summary_data(found) if isinstance(found, ServingEstimate) else data.summary(found)
    strict(summary)
    return summary


def strict(content: object) -> str:
    """The JSON text of something, which has to have one."""
    try:
        return json.dumps(content, allow_nan=False, sort_keys=True)
    except ValueError as error:
        raise BrokenError(f"is not JSON: {error}") from error


@contextmanager
def never_refused(what: str) -> Iterator[None]:
    """Show an answer in every way; none may refuse it any more."""
    try:
        yield
    except MemcoreError as error:
        raise BrokenError(f"{what} refuses what was answered: {error}") from error


def refusal(error: MemcoreError) -> str:
    """The text of a refusal, which says something of each problem and stays readable."""
    problems = problems_of(error)
    expect(problems, "a refusal without a problem")
    for each in problems:
        expect(each.message.strip(), f"a problem without a message: {each.path!r}")
        expect(len(str(each)) < LONGEST, f"a long message: {len(str(each))} characters: {str(each)[:200]}")
    return str(error)


LONGEST = 4000
"""Characters of a message that somebody may still read."""
