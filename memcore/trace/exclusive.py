"""Recording while other threads sleep, and Python does not look for garbage.

A tape sees a tensor go when Python counts its last reference down. A thread that looks at the frames of others, as
sampling profilers do, holds what is in them for a moment, and what is freed late looks like memory that a step needs.
Nothing on a tape is garbage before it goes: to look for some again and again takes longer than the recording itself.
"""

from __future__ import annotations

import _thread
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_FOREVER = 3600.0
"""Seconds; far longer than any recording."""


@contextmanager
def exclusively() -> Iterator[bool]:
    """Let nothing else run meanwhile, as far as that can be; yields whether there is no other thread."""
    looked = gc.isenabled()
    gc.disable()
    try:
        with _alone() as alone:
            yield alone
    finally:
        if looked:
            gc.enable()


@contextmanager
def _alone() -> Iterator[bool]:
    """Let no other thread run; yields whether there is none.

    A thread that waits for the interpreter asks for it after the interval that held when its wait began. So all get
    a turn after the interval has changed, and from then on they wait until the recording is over.
    """
    interval = sys.getswitchinterval()
    if _thread._count() == 0:  # noqa: SLF001
        yield True
        return
    sys.setswitchinterval(_FOREVER)
    try:
        time.sleep(2 * min(interval, 0.005))
        yield False
    finally:
        sys.setswitchinterval(interval)
