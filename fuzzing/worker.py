"""A process that tries inputs one after another, each with at most five seconds of a core and a gibibyte.

It reads cases from standard input and writes outcomes to standard output, both as lines of JSON. An alarm of the
process's own time ends what takes too long where Python looks at signals; elsewhere the kernel ends the process.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb, format_exception
from types import TracebackType
from typing import Any

from fuzzing.answers import BrokenError, refusal
from fuzzing.faces import CrashError
from fuzzing.targets import TARGETS
from memcore.errors import MemcoreError

SECONDS, BYTES = 5.0, 2**30
"""Of the processor, where the command line says nothing else, and of memory beyond what a worker starts with."""
GRACE = 1.0
"""Seconds from the alarm to the end of the process."""
SHOWN = 1500
"""Characters of a failure that are told."""
ROOT = Path(__file__).parents[1]


class OverLimitError(BaseException):
    """An input takes too long; no handler of memcore's can take it for its own."""


def main() -> None:
    """Try what comes in until nothing does."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    cases, outcomes = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdin, sys.stdout = io.StringIO(), io.StringIO()
    _limit_memory()
    signal.signal(signal.SIGPROF, _alarm)
    for line in cases:
        case = json.loads(line)
        outcomes.write(json.dumps(tried(case["target"], case["given"], seconds)) + "\n")
        outcomes.flush()


def tried(target: str, given: Any, seconds: float = SECONDS) -> dict[str, Any]:
    """Return what comes of an input.

    Answered, refused or a kind of failure, with its place and the time that it took.
    """
    start = time.process_time()
    kind, place, message = "answered", "", ""
    try:
        with _limited(seconds):
            TARGETS[target].check(given)
    except OverLimitError as error:
        kind, place, message = "over time", _way(error.__traceback__), f"beyond {seconds:g} s"
    except MemoryError as error:
        kind, place, message = "over memory", _way(error.__traceback__), f"beyond {BYTES / 2**30:g} GiB"
    except MemcoreError as error:
        kind, place, message = _refused(error)
    except BrokenError as error:
        kind, place, message = "broken", str(error).partition(":")[0][:80], str(error)
    except CrashError as error:
        kind, place, message = "crash", str(error).rpartition("(")[2].partition(":")[0], str(error)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is a failure
        kind, place = "crash", f"{type(error).__name__} in {_place(error.__traceback__)}"
        message = "".join(format_exception(error, limit=-4))
    return {"kind": kind, "place": place, "message": message[-SHOWN:], "seconds": time.process_time() - start}


def _refused(error: MemcoreError) -> tuple[str, str, str]:
    try:
        return "refused", "", refusal(error)[:200]
    except BrokenError as broken:
        return "broken", f"a refusal in {_place(error.__traceback__)}", str(broken)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """An alarm after the allowed time, again and again; and the kernel's own a little later."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds + GRACE) + 1, most))
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _alarm(number: int, frame: object) -> None:
    raise OverLimitError


def _limit_memory() -> None:
    """The address space may grow by so much."""
    held = Path("/proc/self/statm")
    now = int(held.read_text().split()[0]) * resource.getpagesize() if held.exists() else 0
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, resource.RLIM_INFINITY))


def _place(trace: TracebackType | None) -> str:
    """The innermost function of memcore, or of what checks it."""
    return next(reversed(_functions(trace)), "")


def _way(trace: TracebackType | None) -> str:
    """The outermost functions: where an alarm finds the innermost one is chance."""
    return " > ".join(_functions(trace)[:OUTERMOST])


OUTERMOST = 3
"""Functions that tell what took too long."""


def _functions(trace: TracebackType | None) -> list[str]:
    """The functions of memcore on the way to an exception; where there are none, those of what checks it."""
    frames = [(Path(each.filename), each.name) for each in extract_tb(trace) if each.filename != __file__]
    ours = [(path.relative_to(ROOT), name) for path, name in frames if path.is_relative_to(ROOT)]
    inside = [each for each in ours if each[0].parts[0] == "memcore"] or ours
    return [f"{path}:{name}" for path, name in inside]


if __name__ == "__main__":
    main()
