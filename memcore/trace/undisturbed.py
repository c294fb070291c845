"""Recording while other threads sleep.

A tape sees a tensor go when Python counts its last reference down. A thread that looks at the frames of others, as
sampling profilers do, holds what is in them for a moment, and what is freed late looks like memory that a step needs.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_FOREVER = 3600.0
"""Seconds; far longer than any recording."""


@contextmanager
def undisturbed() -> Iterator[bool]:
    """Let no other thread run meanwhile, as far as that can be; yields whether there is none.

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
