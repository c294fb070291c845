"""What would repair a setting that was refused: the nearest value with which nothing is wrong with it any more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import log2

from memcore.config.kinds import Choice, Integer
from memcore.config.settings import SETTINGS, Config
from memcore.errors import MemcoreError, Problem, problems_of
from memcore.estimation import estimate

MOST = 20
"""Values that are tried for a setting."""
NEAR = 4
"""Whole numbers on either side of a refused one that are tried."""
_WORD = re.compile(r"(?<![\w.,/-])[\w.-]+(?:,\d{3})*(?![\w/-])")


def repaired(config: Config, problem: Problem) -> Iterator[Problem | None]:
    """The problem with a value that solves it, last, if there is one; None after every value that was tried before.

    Better than one that leaves another setting wrong is one that leaves none.
    """
    partly: Problem | None = None
    for value in candidates(config, problem)[:MOST]:
        wrong = _wrong(config.replaced(problem.path, value))
        solved = replace(problem, suggestion=SETTINGS[problem.path].kind.spell(value))
        if not wrong:
            yield solved
            return
        if problem.path not in wrong:
            partly = partly or solved
        yield None
    if partly is not None:
        yield partly


def candidates(config: Config, problem: Problem) -> list[int | str]:
    """Return values that may do, the most likely first: numbers that the problem names, then the nearest ones.

    >>> job = Config.from_dict({"model": "gpt2", "parallelism": {"tensor_parallel_size": 3}})
    >>> candidates(job, Problem("parallelism.tensor_parallel_size", "found 3"))[:4]
    [4, 2, 5, 6]
    """
    kind, found = SETTINGS[problem.path].kind, config.get(problem.path)
    words = [each.strip(".") for each in _WORD.findall(problem.message)]
    if isinstance(kind, Choice):
        return [each for each in words if each in kind.options and each != found]
    if not isinstance(kind, Integer) or not isinstance(found, int) or found < 1:
        return []
    said = [int(each.replace(",", "")) for each in words if each.replace(",", "").isdecimal()]
    powers = {2**power for power in range(21)}
    near = powers | {found + step for step in range(-NEAR, NEAR + 1)} if found < 2**10 else powers
    ranked = sorted((each for each in near if each > 0), key=lambda each: (abs(log2(each / found)), each))
    return [each for each in dict.fromkeys([*said, *ranked]) if each not in {found, 0}]


def _wrong(config: Config) -> set[str]:
    """Return the settings that are refused."""
    try:
        estimate(config)
    except MemcoreError as error:
        return {each.path for each in problems_of(error)}
    return set()
