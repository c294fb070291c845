"""Who feeds workers: an outcome for every input, also where the process did not survive it."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType

from fuzzing.targets import Case
from fuzzing.worker import GRACE, ROOT, SECONDS

FRESH = 1000
"""Inputs for a worker: what it remembers of them counts as its memory."""
PATIENCE = 120.0
"""Seconds by the clock after which a worker is ended that takes no time of the processor."""
FAILURES = frozenset({"crash", "broken", "over time", "over memory"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an input."""

    kind: str
    """answered, refused, crash, broken, over time or over memory."""
    place: str
    message: str
    seconds: float

    @property
    def failed(self) -> bool:
        """Return whether something has to be mended."""
        return self.kind in FAILURES

    @property
    def signature(self) -> tuple[str, str]:
        """Return what tells one defect from another."""
        return self.kind, self.place


class Runner:
    """A worker, started again when it is used up or dead."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._left = 0

    def __enter__(self) -> Runner:  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def outcome(self, case: Case) -> Outcome:
        """Try one input."""
        process = self._process
        if process is None or self._left <= 0:
            self.stop()
            process = self._process = _started(self.seconds)
            self._left = FRESH
        self._left -= 1
        started = time.monotonic()
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker without pipes")
        stdin.write(json.dumps({"target": case.target, "given": case.given}) + "\n")
        stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(stdout, selectors.EVENT_READ)
            line = stdout.readline() if waiting.select(PATIENCE) else ""
        if line:
            return Outcome(**json.loads(line))
        return self._died(process, time.monotonic() - started)

    def _died(self, process: subprocess.Popen[str], seconds: float) -> Outcome:
        if seconds >= PATIENCE:
            process.kill()
        code = process.wait()
        self.stop()
        if seconds >= PATIENCE:
            return Outcome("over time", "waiting", f"no outcome after {seconds:.0f} s", seconds)
        if code in _OVER_TIME:
            return Outcome("over time", "outside Python", f"beyond {self.seconds + GRACE:g} s", seconds)
        return Outcome("crash", f"process ended with {code}", "", seconds)

    def stop(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.kill()
            process.wait()


_OVER_TIME = (-24, 152)
"""Ended by SIGXCPU."""


def _started(seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fuzzing.worker", str(seconds)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )


def fresh(case: Case) -> Outcome:
    """Return what comes of an input in a process that has seen no other."""
    with Runner() as runner:
        return runner.outcome(case)
