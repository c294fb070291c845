"""A line on the terminal for commands that take longer than a second; scripts and pipes never see it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TextIO

from memcore.columns import columns
from memcore.i18n.page import say

AFTER, EVERY = 1.0, 0.5
"""Seconds before the line appears, and between its updates."""


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """Show on standard error how long a command has worked, until it prints something or ends.

    Nothing is shown without a terminal, without timers (Windows) and outside of the main thread.
    """
    if not sys.stderr.isatty() or not hasattr(signal, "setitimer"):
        yield
        return
    line = _Line(name, sys.stderr)
    try:
        before = signal.signal(signal.SIGALRM, line.update)
    except ValueError:  # another thread
        yield
        return
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Announced(each, line) for each in streams)
    signal.setitimer(signal.ITIMER_REAL, AFTER, EVERY)
    try:
        yield
    finally:
        line.end()
        signal.signal(signal.SIGALRM, before)
        sys.stdout, sys.stderr = streams


class _Line:
    """The line, and whether it stands there."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self.stream, self.start, self.shown = name, stream, monotonic(), 0

    def update(self, *_: object) -> None:
        """Write the line again, with the seconds so far."""
        text = say("cli-working", name=self.name, seconds=f"{monotonic() - self.start:.0f}")
        self.shown = columns(text)
        print(f"\r{text}", end="", file=self.stream, flush=True)

    def end(self) -> None:
        """Stop the timer and clear the line."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.shown:
            print("\r" + " " * self.shown + "\r", end="", file=self.stream, flush=True)
            self.shown = 0


class _Announced:
    """A stream that clears the line before it writes."""

    def __init__(self, stream: TextIO, line: _Line) -> None:
        self.stream, self.line = stream, line

    def write(self, text: str) -> int:
        """Clear the line, then write."""
        self.line.end()
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
