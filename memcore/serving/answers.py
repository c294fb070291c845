"""Questions about a server: how long, how many, on how few GPUs, in which format, with which utilization.

Every answer is an estimate of a changed config, or is read off the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from memcore import registry
from memcore.config.devices import node_of, whole
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.hardware import alike
from memcore.records import dataclass
from memcore.serving.devices import has
from memcore.serving.estimate import ServingEstimate, estimate
from memcore.serving.formats import ANY, FORMATS
from memcore.serving.inference import Inference
from memcore.serving.job import resolve, server_of

MOST_USERS = 65536
"""Beyond it nobody asks."""


def longest_context(found: ServingEstimate, users: int) -> int | None:
    """Return the longest sequence of which `users` fit at the same time, or None if no accelerator is named."""
    most = _most(found)
    if found.pool is not None:
        return found.pool.longest(users, most)
    if found.capacity is None:
        return None
    return _search(lambda length: _headroom(_resized(found.job.config, length, users)), most)


def _most(found: ServingEstimate) -> int:
    """No longer than the model was made for, unless the config says so and the server takes it."""
    return (
        found.job.model.sizes["P"]
        if found.refused is not None
        else max(found.job.model.sizes["P"], found.job.basics.max_model_len)
    )


def _search(headroom: Callable[[int], int | None], limit: int) -> int:
    """Return the largest number up to a limit that leaves no less than nothing, 0 if 1 does not.

    What is left falls along something like a line, so that the next guess is where one through two numbers crosses
    zero; every third guess is the middle, in case it does not.
    """
    found = {number: headroom(number) for number in (1, limit)}
    if _falls_short(found[1]) or not _falls_short(found[limit]):
        return 0 if _falls_short(found[1]) else limit
    low, high, turn = 1, limit, 0
    while high - low > 1:
        turn += 1
        above, below = found[low], found[high]
        guess = (low + high) // 2
        if turn % 3 and above is not None and below is not None and above > below:
            guess = low + (high - low) * above // (above - below) + (turn % 3 == 2)  # from either side
        guess = min(max(guess, low + 1), high - 1)
        found[guess] = headroom(guess)
        if _falls_short(found[guess]):
            high = guess
        else:
            low = guess
    return low


def _falls_short(left: int | None) -> bool:
    return left is None or left < 0


def _resized(config: Config, length: int, users: int) -> Config:
    output = min(config[Inference.output_length] or 128, max(length - 1, 1))
    return config.changed(
        {
            Inference.batch_size: users,
            Inference.output_length: output,
            Inference.prompt_length: max(length - output, 1),
            Inference.max_model_len: max(length, output + 1),
            Inference.mean_length: None,
        }
    )


def _headroom(config: Config) -> int | None:
    """Return bytes that are left, or are missing at least; None for what is refused."""
    try:
        job = resolve(config)
        if job.server.least and job.capacity is not None and (least := job.server.least(job)) > job.capacity:
            return job.capacity - least
        return estimate(config).headroom
    except MemcoreError:
        return None


def _fits(config: Config) -> bool:
    return not _falls_short(_headroom(config))


def most_users(found: ServingEstimate, length: int) -> int | None:
    """Return how many sequences of `length` tokens fit at the same time."""
    if found.refused is not None and found.capacity is not None:
        return 0
    if found.pool is not None:
        return found.pool.users(length)
    if found.capacity is None:
        return None
    return _search(lambda users: _headroom(_resized(found.job.config, length, users)), MOST_USERS)


def fewest_gpus(found: ServingEstimate) -> int | None:
    """The fewest GPUs that serve what is asked with one copy of the model; None if no power of two up to 64 does."""
    return _fewest(found.job.config) if found.capacity is not None else None


def _fewest(config: Config) -> int | None:
    for gpus in (1, 2, 4, 8, 16, 32, 64):
        if _fits(_on(config, gpus)):
            return gpus
    return None


def _on(config: Config, gpus: int) -> Config:
    """Return every matrix shared in a node, stages across nodes (vllm, docs/serving/parallelism_scaling.md)."""
    server = server_of(config[EngineSettings.type] or registry.USUAL_SERVER)
    if server.splits:
        return config.replaced(Hardware.num_gpus, gpus)
    tensor = min(gpus, node_of(config)) if "pipeline" in server.parallel else gpus
    others = (Parallelism.data_parallel_size, Parallelism.context_parallel_size)
    return config.changed(
        {
            **dict.fromkeys(others),
            Hardware.num_gpus: gpus,
            Parallelism.tensor_parallel_size: tensor,
            Parallelism.pipeline_parallel_size: gpus // tensor if gpus > tensor else None,
        }
    )


@dataclass(frozen=True, slots=True)
class GpusNeeded:
    """A row: an accelerator, and how many of them it takes."""

    id: str
    name: str
    gpus: int | None


def gpus_needed(found: ServingEstimate) -> list[GpusNeeded]:
    """Return how many of each accelerator that can stand for the job's serve what is asked."""
    rows = []
    for each in alike(found.job.accelerator):
        config = found.job.config.changed(whole(each.id))
        rows.append(GpusNeeded(each.id, each.name, _fewest(config)))
    return rows


def largest_format(found: ServingEstimate) -> str | None:
    """Return the format with most bits that fits; None if none does."""
    if found.capacity is None:
        return None
    for name in found.job.server.formats:
        form = FORMATS.get(name)
        least = ANY if form is None else form.loaded if found.job.server.unpacks else form.multiplied
        if not has(found.job.accelerator, least):
            continue
        config = found.job.config.replaced(Inference.quantization, name)
        if _fits(config):
            return name
    return None


def multiplies(found: ServingEstimate, name: str) -> bool:
    """Return whether the GPU multiplies in a format; otherwise weights are unpacked, and products are in 16 bits."""
    form = FORMATS.get(name)
    return form is None or has(found.job.accelerator, form.multiplied)


@dataclass(frozen=True, slots=True)
class Utilization:
    """Which `gpu_memory_utilization` to set."""

    least: float
    """With less, the sequences asked for do not fit."""
    most: float
    """With more, what lies outside the budget no longer fits."""


def utilization(found: ServingEstimate) -> Utilization | None:
    """Return the range of utilizations that work; None for other servers, or without an accelerator."""
    pool = found.pool
    if (
        found.refused is not None
        or not found.job.server.asks_for_a_share
        or found.capacity is None
        or pool is None
        or found.budget.line is None
    ):
        return None
    outside = _outside_budget(found)
    kept = found.device.expected - (pool.capacity or 0) * pool.bytes_each - outside
    least = ceil(1000 * (kept + found.needed * pool.bytes_each) / found.capacity) / 1000
    most = int(1000 * (found.capacity - outside - found.rank.spread[1]) / found.capacity) / 1000
    return Utilization(least=least, most=min(most, 1.0))


def _outside_budget(found: ServingEstimate) -> int:
    """Return bytes outside the budget line."""
    pool = found.pool
    taken = (pool.capacity or 0) * pool.bytes_each if pool else 0
    room = found.rank.available or 0
    return found.device.expected + (room - taken) - (found.budget.line or 0)


@dataclass(frozen=True, slots=True)
class SleepPhase:
    """What one GPU holds while a server sleeps, so that another job can have it."""

    name: str
    held: int
    free: int | None
    why: str


def sleep_phases(found: ServingEstimate) -> list[SleepPhase]:
    """Awake, and at the two sleep levels of vLLM, for jobs that train and generate on the same GPUs.

    Source: vllm, v1/worker/gpu_worker.py, sleep: level 1 moves weights to the host and drops the cache, level 2 drops
    both; graphs, workspaces and the context stay. Training sleeps meanwhile, or runs in what is free.
    """
    if not found.job.server.sleeps:
        return []
    ledger, capacity = found.ledger, found.capacity
    stays = ledger.total - ledger.sum("weights", "adapters", "draft model", "KV cache", "activations")

    def phase(name: str, held: int, why: str) -> SleepPhase:
        return SleepPhase(name, held, None if capacity is None else capacity - held, why)

    return [
        phase("generating", ledger.total, "the server keeps its whole budget"),
        phase("asleep, level 1", stays, "weights move to host memory, and the cache is dropped"),
        phase("asleep, level 2", stays, "weights and cache are dropped; new weights are loaded on waking up"),
        phase(
            "awake for weights only",
            stays + ledger.sum("weights", "adapters"),
            "new weights are copied in before the cache is back",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """Users that fit at a length."""

    length: int
    users: int


def curve(found: ServingEstimate) -> list[Point]:
    """Users by context length, at lengths that double."""
    return list(_curve(found))


def _curve(found: ServingEstimate) -> Iterator[Point]:
    if found.pool is None or found.pool.capacity is None:
        return
    length, most = 256, _most(found)
    while length < most:
        yield Point(length, found.pool.users(length) or 0)
        length *= 2
    yield Point(most, found.pool.users(most) or 0)
