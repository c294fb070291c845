"""Jobs that share GPUs, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memcore.columns import table
from memcore.i18n.page import say
from memcore.questions.sharing import Shared
from memcore.units import format_bytes


def shared_text(found: Shared, names: Sequence[str]) -> str:
    """Return what `memcore estimate --with` prints: a line for each job, their sum, and whether that fits."""
    rows = [tuple(map(say, ("cli-needs", "cli-range", "cli-job")))]
    rows += [
        (format_bytes(each.device.expected), _range(each.device.low, each.device.high), _job(name, each.job.model.name))
        for name, each in zip(names, found.found, strict=True)
    ]
    rows.append((format_bytes(found.expected), _range(found.low, found.high), say("cli-together")))
    return "\n".join([*table(rows, right=(0,)), "", *verdict(found, names)]) + "\n"


def _job(name: str, model: str) -> str:
    return name if name == model or not model else f"{name} ({model})"


def _range(low: int, high: int) -> str:
    return say("between", low=format_bytes(low), high=format_bytes(high))


def verdict(found: Shared, names: Sequence[str]) -> Iterator[str]:
    """Yield whether the jobs fit together, and where they do not, what is left for each server."""
    if found.capacity is None or found.headroom is None:
        yield say("cli-share-unknown")
        return
    capacity, left = format_bytes(found.capacity), format_bytes(abs(found.headroom))
    level = "no" if not found.fits else "tight" if found.high > found.capacity else "apart" if found.apart else "fits"
    yield say(f"cli-share-{level}", capacity=capacity, size=left)
    for place, (room, share) in found.rooms.items():
        yield say("cli-share-left", size=format_bytes(room), name=names[place], share=f"{share:.2f}")


def shared_data(found: Shared, names: Sequence[str]) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "jobs": [
            {
                "name": name,
                "config": each.job.config.to_dict(),
                "low_bytes": each.device.low,
                "device_bytes": each.device.expected,
                "high_bytes": each.device.high,
                "left_bytes": found.left_for(each),
            }
            for name, each in zip(names, found.found, strict=True)
        ],
        "low_bytes": found.low,
        "device_bytes": found.expected,
        "high_bytes": found.high,
        "capacity_bytes": found.capacity,
        "headroom_bytes": found.headroom,
        "fits": found.fits,
    }
