"""Every key that a tool has, over all releases that were harvested, and what each is to memory.

`data/keys/*.txt` has a line for each key with its class. `python -m harvest` adds the keys of a new release.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from pkgutil import get_data

from memcore.errors import nearest

_SHORT = 8
"""Letters of keys that are like others by chance."""
MAPPED, LEFT_OUT, REFUSED, NEW = "=", "~", "!", "?"
OF_NO_ACCOUNT: Mapping[str, str] = {
    "l": "learning rate, schedule or seed: no effect on tensor sizes",
    "d": "data and tokenization before batching",
    "o": "logs, checkpoints on disk, and profiles",
    "e": "evaluation and generation between steps, or sampling of single tokens",
    "h": "hosts, processes and request arrival",
    "a": "which allocator hands out memory, not how much of it",
}
"""Classes of keys that memory does not depend on, and why."""
CLASSES = {
    MAPPED: "read, directly or together with other keys",
    LEFT_OUT: "may affect memory but is not supported yet: ignored, with a note that names it",
    REFUSED: "changes the job but is not supported yet: an error that names the key, unless it is off",
    **OF_NO_ACCOUNT,
}


@lru_cache(maxsize=32)
def table(name: str) -> Mapping[str, str]:
    """Return the keys of a table with their classes.

    >>> table("transformers")["optim"]
    '='
    """
    text = (get_data("memcore", f"data/keys/{name}.txt") or b"").decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines())


@lru_cache(maxsize=32)
def vocabulary(tables: tuple[str, ...]) -> Mapping[str, str]:
    """Return the keys of several tables; the first that has a key decides."""
    found: dict[str, str] = {}
    for name in reversed(tables):
        found |= table(name)
    return found


@lru_cache(maxsize=32)
def sections(tables: tuple[str, ...]) -> frozenset[str]:
    """Return the dotted names of all sections of several tables."""
    parts = [each.split(".") for each in vocabulary(tables)]
    return frozenset(".".join(each[:deep]) for each in parts for deep in range(1, len(each)))


_TRACKERS = ("wandb_", "swanlab_", "mlflow_", "comet_")
"""How keys begin that scripts and forks add for where runs are logged."""


def class_of(tables: tuple[str, ...], key: str) -> str | None:
    """Return the class of a key, of what it is called below its section, or of its section.

    None if the tool has no such key, nor one that is nearly spelled so in that section.
    """
    known = vocabulary(tables)
    bare = key.rpartition(".")[2]
    above = key.partition(".")[0]
    flag = f"--{bare.replace('_', '-')}"
    names = (key, key.replace("_", "-") if key.startswith("--") else key, bare, bare.removeprefix("fsdp_"), flag)
    found = next((known[name] for name in names if name in known), None)
    if found is None and above in known and slip_in(tables, key) is None:
        found = known[above]
    return "o" if found is None and bare.lstrip("-").startswith(_TRACKERS) else found


@lru_cache(maxsize=512)
def slip_in(tables: tuple[str, ...], key: str) -> str | None:
    """Return the key of the same section, with an effect on memory, that a key is a slip of the fingers from.

    >>> slip_in(("nemo-automodel",), "step_scheduler.local_batchsize")
    'step_scheduler.local_batch_size'
    """
    above, _, bare = key.rpartition(".")
    counted = (name for name, found in vocabulary(tables).items() if found not in OF_NO_ACCOUNT)
    siblings = [name.rpartition(".")[2] for name in counted if above and name.rpartition(".")[0] == above]
    near = next(iter(difflib.get_close_matches(bare, siblings, n=1, cutoff=_SLIP)), None)
    return None if near is None else f"{above}.{near}"


_SLIP = 0.88
"""Likeness of a word to the one that was meant."""


_NOT = "--no-"
"""How a command line turns a switch off that it has (`argparse.BooleanOptionalAction`)."""


def class_of_off(tables: tuple[str, ...], flag: str) -> str | None:
    """Return the class of a switch that a flag turns off; None for another flag."""
    return class_of(tables, f"--{flag.removeprefix(_NOT)}") if flag.startswith(_NOT) else None


@lru_cache(maxsize=512)
def unabbreviated(tables: tuple[str, ...], flag: str) -> str:
    """The only flag that begins with what stands there, whose words may be separated by underscores; else the same.

    Source: CPython, Lib/argparse.py, `_get_option_tuples`.
    """
    plain = flag.replace("_", "-")
    if not flag.startswith("--") or is_flag(tables, plain):
        return flag
    found = [each for each in vocabulary(tables) if each.startswith(plain)]
    return found[0] if len(found) == 1 else flag


def is_flag(tables: tuple[str, ...], flag: str) -> bool:
    """Return whether a program has a flag, or a switch that it turns off."""
    return bool(class_of(tables, flag) or class_of_off(tables, flag))


def nearest_key(tables: tuple[str, ...], key: str, closely: bool = False) -> str | None:
    """Return the real key that is most like one; `closely` only where memory may depend on a slip of the fingers."""
    if closely:
        if len(key) < _SHORT:
            return None
        return slip_in(tables, key) or _like(tables, key, 0.9)
    return nearest(key, vocabulary(tables))


def similar_key(tables: tuple[str, ...], key: str) -> str | None:
    """Return the real key that somebody may have meant, where memory may depend on it.

    >>> similar_key(("axolotl",), "adaptor")
    'adapter'
    """
    return _like(tables, key, 0.8)


def _like(tables: tuple[str, ...], key: str, likeness: float) -> str | None:
    counted = [name for name, found in vocabulary(tables).items() if found not in OF_NO_ACCOUNT]
    return next(iter(difflib.get_close_matches(key, counted, n=1, cutoff=likeness)), None)
