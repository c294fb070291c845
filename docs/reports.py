"""Truth cases predicted once for all processes of a run: the accuracy page and the tests ask for the same."""

from __future__ import annotations

import fcntl
import json
import pickle
from functools import cache
from hashlib import sha256
from pathlib import Path

from memcore.questions.accuracy import SPEEDS, Result, accuracy

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "truth"
KEPT = ROOT / "build" / "reports"


RATES = frozenset(
    {"all_tokens_per_second", "output_tokens_per_second", "generated_per_second", "seconds_per_token", "ttft"}
)
"""What published rates of servers are: tests/test_serving_speed.py compares them, docs/costs.md shows how far off they
are."""


@cache
def results(name: str, folder: Path = TRUTH) -> tuple[Result, ...]:
    """Every case of memory of a truth file, predicted.

    They are kept below build/ by a digest of the file and of all that memcore consists of. Whoever asks while they are
    worked out waits for them.
    """
    truth = (folder / f"{name}.json").read_bytes()
    KEPT.mkdir(parents=True, exist_ok=True)
    place = KEPT / f"{name}-{_digest(truth)}.pickle"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            cases = [each for each in json.loads(truth) if each["measured"]["quantity"] not in SPEEDS.keys() | RATES]
            place.write_bytes(pickle.dumps(tuple(accuracy(cases).results)))
        found: tuple[Result, ...] = pickle.loads(place.read_bytes())  # noqa: S301 - written above
    return found


def _digest(truth: bytes) -> str:
    return sha256(truth + _memcore()).hexdigest()[:16]


@cache
def _memcore() -> bytes:
    found = sha256()
    for path in sorted((ROOT / "memcore").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
    return found.digest()
