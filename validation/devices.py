"""Which row of memcore's catalog a GPU is, and what it holds before anybody asks it for something."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable

from memcore.hardware import ACCELERATORS, Accelerator
from memcore.units import GiB, MiB

_FORMS = {"sxm", "sxm2", "sxm4", "pcie", "nvl"}
"""Words of an id that a driver's name may leave out."""
_TOLERANCE = 0.015
"""How far a capacity may be from the observed ones: the next larger cards are further away."""


def matching(name: str, total: int) -> str | None:
    """The catalog's id for a GPU, by the driver's name for it and its bytes; None if no row fits.

    >>> matching("NVIDIA H100 80GB HBM3", 84942979072)
    'h100-sxm-80gb'
    """
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    rows = [row for row in ACCELERATORS if _apart(row, total) < _TOLERANCE and set(_model(row)) <= words]
    best = max(rows, key=lambda row: (len(set(_model(row))), len(words & set(row.id.split("-")))), default=None)
    return best.id if best else None


def _model(row: Accelerator) -> Iterable[str]:
    """The words that every name of the card has."""
    return [word for word in row.id.split("-") if (word not in _FORMS and not word.endswith("gb")) or word == "gb10"]


def _apart(row: Accelerator, total: int) -> float:
    low, high = (each * GiB for each in row.observed_gib)
    return max(low - total, total - high, 0) / total


def in_use() -> int | None:
    """Bytes that nvidia-smi shows for the first GPU before this process uses it; None where there is no nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    first = done.stdout.partition("\n")[0].strip()
    return int(first) * MiB if done.returncode == 0 and first.isdigit() else None
