"""Failures on purpose, so that tests see that each kind of failure is found."""

from __future__ import annotations

import time
from itertools import repeat
from typing import Any

from fuzzing.answers import expect
from memcore.errors import ConfigError, Problem


def inject_fault(given: Any) -> None:
    """Fail in the way that is asked for."""
    way = given.get("way")
    if way == "crash":
        raise KeyError(way)
    if way == "refuse":
        raise ConfigError([Problem("way", "found 'refuse'; leave it out")])
    if way == "silent":
        raise ConfigError([])
    expect(way != "break", "this must hold")
    if way == "fill":
        _fill()
    while way == "hang":
        pass
    if way == "stick":  # in C, where no signal of Python arrives
        max(repeat(0))
    if way == "die":
        import os  # noqa: PLC0415

        os.abort()
    if way == "sleep":
        time.sleep(10**6)


def _fill() -> None:
    held = []
    while True:
        held.append(bytes(2**24))
