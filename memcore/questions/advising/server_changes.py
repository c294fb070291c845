"""Changes that make room in a server: its rows, and what each makes of a server's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from memcore.config.defaults import value_of
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.estimation import changed
from memcore.serving.answers import utilization
from memcore.serving.changes import Becomes, Certain, ForUsers, Halved, ServerChange, Share, Utilization
from memcore.serving.devices import has
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.trace.changes import Changes


def made(row: ServerChange, found: ServingEstimate) -> Iterator[Changes]:
    """Yield what a row makes of a server's settings: nothing where it does not apply."""
    if not has(found.job.accelerator, row.capability):
        return
    match row.how:
        case Becomes(to, unless):
            yield from _become(found, to, unless or {path: (value,) for path, value in to.items()})
        case Halved(path, least):
            value = value_of(found.job.config, found.assumptions, path)
            if isinstance(value, int) and value // 2 >= least:
                yield {path: value // 2}
        case ForUsers(path):
            value, pool = value_of(found.job.config, found.assumptions, path), found.pool
            held = pool.users(found.asked_length) if pool is not None else None
            users = found.job.basics.batch or max(held or 0, 1)
            if not (isinstance(value, int) and value <= users):
                yield {path: users}
        case Share(path):
            yield from _share(found, path)
        case Utilization(path):
            yield from _utilized(found, path)
        case Certain(path):
            yield from _certain(found, path)
        case _:
            job = found.job
            yield {
                Parallelism.tensor_parallel_size: job.basics.layout.tensor * 2,
                Hardware.num_gpus: job.num_gpus * 2,
            }


def _become(found: ServingEstimate, changes: Changes, unless: Mapping[str, tuple[object, ...]]) -> Iterator[Changes]:
    own = [each.value for each in found.assumptions if each.path == "model.quantization_config"]
    given = {path: [value_of(found.job.config, found.assumptions, path)] for path in unless}
    if found.job.config[Inference.quantization] is None and Inference.quantization in given:
        given[Inference.quantization] += own  # as the checkpoint is published
    if not any(each in values for path, values in unless.items() for each in given[path]):
        yield changes


def _share(found: ServingEstimate, path: str) -> Iterator[Changes]:
    now = value_of(found.job.config, found.assumptions, path)
    if found.capacity is None or found.device.high > found.capacity:
        return
    # A larger share holds more: halve until the largest that stays below the capacity is left.
    low, high = int(100 * now) + 1 if isinstance(now, float) else 60, 98
    while low <= high:
        middle = (low + high) // 2
        if _exceeds(found, {path: middle / 100}):
            high = middle - 1
        else:
            low = middle + 1
    if isinstance(now, float) and high / 100 <= now:
        return
    if _starts(found, {path: high / 100}):
        yield {path: high / 100}


def _exceeds(found: ServingEstimate, changes: Changes) -> bool:
    """Return whether a server with changes holds more than the GPU has.

    Not where it is refused, as with too small a share.
    """
    then = changed(found.job.config, changes)
    return then is not None and then.capacity is not None and then.device.high > then.capacity


def _starts(found: ServingEstimate, changes: Changes) -> bool:
    then = changed(found.job.config, changes)
    return then is not None and then.capacity is not None and then.device.high <= then.capacity


def _utilized(found: ServingEstimate, path: str) -> Iterator[Changes]:
    most = utilization(found)
    now = value_of(found.job.config, found.assumptions, path)
    if most is None or not isinstance(now, float):
        return
    if int(100 * most.most) / 100 > now:
        yield {path: int(100 * most.most) / 100}
    elif not found.fits and now < ceil(100 * most.least) / 100 < 1:
        yield {path: ceil(100 * most.least) / 100}


def _certain(found: ServingEstimate, path: str) -> Iterator[Changes]:
    most, now = utilization(found), value_of(found.job.config, found.assumptions, path)
    if most is not None and isinstance(now, float) and most.least <= int(100 * most.most) / 100 < now:
        yield {path: int(100 * most.most) / 100}
