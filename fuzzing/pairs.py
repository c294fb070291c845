"""Two jobs, and what is known of their answers: more work never needs less, more sharing never needs more."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from fuzzing.answers import Found, answered, expect, normalized, said
from fuzzing.jobs import put, value_at
from memcore.errors import UnsupportedError

WORK = ("training.micro_batch_size", "training.sequence_length", "training.gradient_accumulation_steps")
"""More of it never needs less."""


def of_pair(given: Any) -> None:
    """Two answers in the order that their difference asks for."""
    base, name = normalized(given["config"]), given["pair"]
    for path, value in given["changes"].items():
        if value_at(base, path) != value_at(given["config"], path) or (ORDERED[name] and value_at(base, path) is None):
            raise UnsupportedError(path, "does not go with the rest: what is more than the default is not known")
        if name == "more ranks" and value <= value_at(base, path):
            raise UnsupportedError(path, "is not more")
    if name == "frozen" and _casts_again(base):
        raise UnsupportedError(
            "training.trainable", "a frozen head is cast again for each chunk, and every cast is kept"
        )
    changed = copy.deepcopy(base)
    for path, value in given["changes"].items():
        put(changed, path, value)
    before, after = answered(base), answered(changed)
    needed, then = MEASURES[name](before), MEASURES[name](after)
    if name == "more ranks":  # what is gathered is padded to whole rows for each rank (FSDP2 pads dimension 0)
        needed += max(0, _gathered(after) - _gathered(before))
    more = name == "more work"
    what = f"{name} on {before.job.engine.name}: with {given['changes']}, {needed} bytes become {then}"
    expect(then >= needed if more else then <= needed, what)


def _casts_again(config: Any) -> bool:
    """Autocast keeps one cast of a weight only if it is trained (ATen/autocast_mode.cpp, cached_cast)."""
    autocast = value_at(config, "training.precision") == "bf16-autocast"
    return autocast and value_at(config, "engine.lm_head_chunk_size") is not None


def _allocated(found: Found) -> int:
    return found.allocated.expected


def _gathered(found: Found) -> int:
    return sum(row["bytes"] for row in found.rows() if row["category"] == "communication")


def _kept(found: Found) -> int:
    """Bytes of the rank that holds most when its forward pass ends."""
    end = said(found).get("end_of_forward_bytes")
    if end is None:
        raise UnsupportedError("engine.type", "has no single end of its forward pass")
    return int(end)


MEASURES: Mapping[str, Callable[[Found], int]] = {
    "more work": _allocated,
    "more ranks": _allocated,
    "checkpointing": _kept,
    "frozen": _allocated,
}
"""What is compared of two answers."""

ORDERED: Mapping[str, bool] = {"more work": True, "more ranks": True, "checkpointing": False, "frozen": False}
"""Whether a pair's second value is more than the first, which must then be written in the config."""
