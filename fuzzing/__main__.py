"""Run long: `python build.py fuzz [minutes]`. Every failure is kept as the smallest input that shows it."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.corpus import TESTS
from fuzzing.runner import Outcome, Runner, fresh
from fuzzing.shrinking import smallest
from fuzzing.targets import TARGETS, Case, case_of

KEPT = TESTS / "fuzzing_kept"
"""Inputs that failed once; tests/test_fuzzing.py tries each again."""
SHRINKING, OVERHEAD = 15.0, 0.002
"""Seconds of a core that are spent on one failure, about."""
DEEP = 20_000
"""Calls inside each other while inputs are made: some are nested a thousand deep. Workers have Python's own limit."""
TOLD = 30.0
"""Seconds between two words of how it goes."""


@dataclass
class Report:
    """What a run found."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Inputs by target and kind of outcome."""
    failures: dict[tuple[str, ...], tuple[int, Case, Outcome]] = field(default_factory=dict)
    """The first of each defect, with its seed."""
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Seconds and the seed, by target."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seed: int, case: Case, outcome: Outcome) -> bool:
        """Count an outcome, and tell whether it is a defect that was not seen yet."""
        with self.lock:
            self.counts[case.target, outcome.kind] += 1
            self.slowest[case.target] = max(self.slowest.get(case.target, (0.0, 0)), (outcome.seconds, seed))
            key = outcome.signature
            if not outcome.failed or key in self.failures:
                return False
            self.failures[key] = seed, case, outcome
            return True


def run(seeds: range | itertools.count[int], workers: int, seconds: float, only: str | None, into: Path) -> Report:
    """Try the inputs of these seeds until they or the time are used up."""
    report, until = Report(), time.monotonic() + seconds
    ahead = iter(seeds)

    def work(number: int) -> None:
        with Runner() as runner:
            while time.monotonic() < until:
                with report.lock:
                    seed = next(ahead, None)
                if seed is None:
                    return
                case = case_of(seed, only)
                outcome = runner.outcome(case)
                if report.note(seed, case, outcome):
                    _settle(seed, case, outcome, into)

    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(work, number) for number in range(workers)]
        _follow(report, [each.done for each in running])
        for each in running:
            each.result()
    return report


def _follow(report: Report, done: list) -> None:  # type: ignore[type-arg]
    told = time.monotonic()
    while not all(each() for each in done):
        time.sleep(0.2)
        if time.monotonic() - told > TOLD:
            told = time.monotonic()
            print(f"{sum(report.counts.values()):,} inputs, {len(report.failures)} defects", flush=True)


def _settle(seed: int, case: Case, outcome: Outcome, into: Path) -> None:
    """Make a failure small, say it, and keep it."""
    again = fresh(case)
    if not again.failed:
        print(f"\nseed {seed}, {case.target}: {outcome.kind} in {outcome.place}, but not alone", flush=True)
        return
    given = shrunk(case, again)
    print(f"\nseed {seed}, {case.target}: {again.kind} in {again.place}", flush=True)
    print(json.dumps(given)[:2000])
    print(again.message.rstrip(), flush=True)
    print(f"kept as {kept(seed, Case(case.target, given), again, into)}", flush=True)


def shrunk(case: Case, outcome: Outcome) -> Any:
    """The smallest input that is known to fail like this one."""
    spent = 0.0
    with Runner() as runner:

        def fails(given: Any) -> bool:
            nonlocal spent
            found = runner.outcome(Case(case.target, given))
            spent += found.seconds + OVERHEAD
            return found.signature == outcome.signature

        return smallest(case.given, fails, lambda: spent < SHRINKING)


def kept(seed: int, case: Case, outcome: Outcome, into: Path) -> Path:
    """The file of a failure; one for each defect."""
    name = hashlib.sha256("\n".join((case.target, *outcome.signature)).encode()).hexdigest()[:10]
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{case.target}-{name}.json"
    content = {"target": case.target, "given": case.given, "found": f"{outcome.kind} in {outcome.place}", "seed": seed}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def told(report: Report) -> str:
    """A table: inputs, answered, refused, failed and the longest time of each target."""
    lines = [f"{'':12}{'inputs':>9}{'answered':>10}{'refused':>9}{'failed':>8}{'longest':>9}  seed"]
    for name in TARGETS:
        by_kind = {kind: count for (target, kind), count in report.counts.items() if target == name}
        every = sum(by_kind.values())
        if every:
            answered, refused = (by_kind.get(kind, 0) for kind in ("answered", "refused"))
            seconds, seed = report.slowest[name]
            rest = f"{answered:>10,}{refused:>9,}{every - answered - refused:>8,}{seconds:>8.2f}s  {seed}"
            lines.append(f"{name:12}{every:>9,}{rest}")
    return "\n".join(lines)


def main() -> int:
    """Fuzz for some minutes; the status is 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="build.py fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("minutes", nargs="?", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="of the first input (default: by the clock)")
    parser.add_argument("--count", type=int, help="number of inputs to try")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)"
    )
    parser.add_argument("--only", choices=list(TARGETS), help="one kind of input")
    parser.add_argument(
        "--into", type=Path, default=KEPT, help="where failures are kept (default: where the tests look)"
    )
    options = parser.parse_args()
    sys.setrecursionlimit(DEEP)
    first = time.time_ns() // 10**6 if options.seed is None else options.seed
    print(f"first seed {first}", flush=True)
    seeds = itertools.count(first) if options.count is None else range(first, first + options.count)
    report = run(seeds, options.workers, 60 * options.minutes, options.only, options.into)
    print(f"\n{told(report)}\n{len(report.failures)} defects")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
