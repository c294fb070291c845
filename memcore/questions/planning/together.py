"""Plans for several servers on the same GPUs: the formats and shares of the GPU with which all of them fit at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import ceil

from memcore import registry
from memcore.config.defaults import value_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate
from memcore.messages import Message, joined
from memcore.questions.advising.server_changes import made
from memcore.questions.planning.bench import larger
from memcore.questions.planning.plan import Proposal
from memcore.questions.planning.server_layouts import layouts
from memcore.questions.planning.serving import as_stored, is_cache, is_weights, knob_of
from memcore.questions.sharing import Found, Shared, on_one_gpu
from memcore.records import dataclass
from memcore.serving.answers import utilization
from memcore.serving.changes import Certain, ServerChange
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes

KEEP = 3
"""Plans that are kept: as asked, and with fewer bits."""
_HUNDREDTHS = 6
"""How many hundredths more of a GPU are tried than a server is expected to need."""


@dataclass(frozen=True)
class Together:
    """Jobs that fit on the same GPUs at once, each with what it changes."""

    shared: Shared
    """What the jobs need together."""
    jobs: tuple[Proposal, ...]
    """One of each job, in the order given; `exports` of each is its command."""
    gives_up: str
    """A key of `memcore.config.knobs.TIERS`."""

    @property
    def title(self) -> str:
        """Return the plan in a few words: what changes, by job."""
        return joined("; ", (f"{each.found.job.model.name}: {each.title}" for each in self.jobs))

    @property
    def safe(self) -> bool:
        """Return whether all of the range fits."""
        return self.shared.high <= (self.shared.capacity or 0)


@dataclass(frozen=True)
class PlannedTogether:
    """The plans for several jobs, best first; `plan_together` returns it."""

    asked: Shared
    """The jobs as they were given."""
    plans: tuple[Together, ...]
    """The plans, best first."""
    none_because: str | None
    """What limits the jobs, if they fit together on no GPUs like those given; else None."""

    def __repr__(self) -> str:
        """Return what the plans are called; `print` shows them whole."""
        return f"<{type(self).__name__}: {'; '.join(each.title for each in self.plans)}>"

    def __str__(self) -> str:
        """Return what `memcore plan --with` prints."""
        return str(registry.face().text_of(self))


def plan_together(*configs: Config | Mapping[str, object], keep: int = KEEP, taken: int = 0) -> PlannedTogether:
    """Compose configs for jobs that run on the same GPUs at the same time, best first.

    A server that fills a fraction of the GPU gets the least with which it holds its sequences, and its part of what is
    left over. Training jobs stay as they are.

    Args:
        configs: The jobs, as in `share`.
        keep: The number of plans to return.
        taken: Bytes of each GPU that other processes hold, as nvidia-smi shows them.

    Returns:
        A `PlannedTogether`; `none_because` says what limits the jobs where they need other GPUs.

    Raises:
        ConfigError: If no job names a GPU, if the jobs name different ones, and as in `estimate`.
        UnsupportedError: As in `estimate`.

    Sources: every job of a plan has passed `estimate`. vllm, docs/configuration/engine_args.md,
    `--gpu-memory-utilization`: two instances on one GPU are given a half each.

    Examples:
        >>> servers = [{"model": name, "engine": {"type": "vllm"}, "inference": {"max_model_len": 4096},
        ...             "hardware": {"accelerator": "l40s"}} for name in ("qwen3-4b", "qwen3-1.7b")]
        >>> [each.safe for each in plan_together(*servers).plans][:1]
        [True]
    """
    read = on_one_gpu([each if isinstance(each, Config) else Config.from_dict(each) for each in configs])
    asked = Shared(tuple(estimate(each) for each in read), taken)
    if asked.capacity is None:
        message = "a plan needs a GPU model; name one with --accelerator, or set --gpu-memory"
        raise ConfigError.at(Hardware.accelerator, message)
    variants = [[*_variants(each)] for each in asked.found]
    found = [*_apart(asked), *_distinct(_plans(asked, variants), keep)][:keep]
    if found:
        return PlannedTogether(asked, tuple(found), None)
    smallest = [
        min((each.needs for each in every), default=job.device.expected)
        for every, job in zip(variants, asked.found, strict=True)
    ]
    because = Message(
        "each GPU has {}, but the smallest variants tried need {} together",
        format_bytes(asked.capacity), format_bytes(sum(smallest)),
    )  # fmt: skip
    return PlannedTogether(asked, tuple(_on_larger(asked)), because)


def on_the_rest(config: Config, taken: int) -> Config | None:
    """Return a job on a GPU that has what other processes leave; None for a server that is given a fraction of all."""
    found = estimate(config)
    if found.capacity is None or (isinstance(found, ServingEstimate) and _share_of(found)):
        return None
    return config.changed({Hardware.gpu_memory_gb: max(found.capacity - taken, 2**28) / 2**30, Hardware.mig: None})


def _apart(asked: Shared) -> Iterator[Together]:
    """Yield every job on GPUs of its own, where there are enough for all."""
    gpus = max(each.job.config.get(Hardware.num_gpus) or each.job.num_gpus for each in asked.found)
    apiece = gpus // len(asked.found)
    if len(asked.found) < 2 or not apiece:
        return
    title = "A GPU of its own" if apiece == 1 else Message("{} GPUs of its own", apiece)
    knob = Knob(title=title, to={Hardware.num_gpus: apiece}, why="no job takes memory or time of another", source="own")
    moved = [_estimated(each.job.config.changed(_fewer(each.job.config, apiece))) for each in asked.found]
    alone = [_divided(each) if isinstance(each, ServingEstimate) else each for each in moved if each is not None]
    if len(alone) == len(moved) and all(each.device.high <= (asked.capacity or 0) and _serves(each) for each in alone):
        jobs = (
            Proposal(_way_of(found), "", "same", first, found, (knob,), None, None, safe=True)
            for first, found in zip(asked.found, alone, strict=True)
        )
        yield Together(Shared(tuple(alone), asked.taken, apart=True), tuple(jobs), "same")


def _fewer(config: Config, gpus: int) -> dict[str, object]:
    """Return what puts a job on some GPUs, however it was divided."""
    sizes = dict.fromkeys(path for path in config.values if path.startswith("parallelism."))
    return {**sizes, Hardware.num_gpus: gpus}


def _serves(found: Found) -> bool:
    """Return whether a server certainly holds its sequences; True for training."""
    return not isinstance(found, ServingEstimate) or (bool(found.fits) and _holds(found))


def _distinct(plans: Iterator[Together], keep: int) -> Iterator[Together]:
    """Yield the first plans of each kind of loss."""
    kinds: set[tuple[str, ...]] = set()
    for each in plans:
        kind = tuple(job.quality for job in each.jobs)
        if kind not in kinds:
            kinds.add(kind)
            yield each
        if len(kinds) == keep:
            return


@dataclass(frozen=True)
class _Variant:
    """A job with some changes, that takes as little of the GPU as it can."""

    first: Found
    """The job as it is asked for."""
    found: Found
    knobs: tuple[Knob, ...]
    level: int
    """How much it gives up: the place of its formats among those of the server."""

    @cached_property
    def needs(self) -> int:
        """Return the bytes of a GPU that it takes at most."""
        return self.found.device.high

    def proposal(self, found: Found, tier: str) -> Proposal:
        """Return the variant as a plan of its job; `found` has its part of what is left over."""
        return Proposal(
            _way_of(found), "", tier, self.first, found, (*self.knobs, *_part_of(found)), None, None, safe=True
        )


def _way_of(found: Found) -> str:
    """Return what runs a job, in the words of plans."""
    if isinstance(found, ServingEstimate):
        return found.job.title
    engine = value_of(found.job.config, found.assumptions, EngineSettings.type) or "none"
    return str(registry.own(str(engine), "knobs", "WAYS")[0].title)


def _plans(asked: Shared, variants: Sequence[Sequence[_Variant]], *, larger: bool = False) -> Iterator[Together]:
    """Yield combinations of the jobs' variants that fit, those first that give up least; `larger`: on other GPUs."""
    capacity = asked.capacity or 0
    combined = sorted(product(*variants), key=lambda chosen: (sum(each.level for each in chosen), -_largest(chosen)))
    for chosen in combined:
        if sum(each.needs for each in chosen) <= capacity:
            tier = "hardware" if larger else "quantized" if any(each.level for each in chosen) else "same"
            yield _spread(chosen, asked, tier)


def _largest(chosen: Sequence[_Variant]) -> int:
    """Return the bytes of the largest job that gives something up: formats help it most."""
    return max((each.first.device.expected for each in chosen if each.level), default=0)


def _variants(job: Found, extra: tuple[Knob, ...] = ()) -> Iterator[_Variant]:
    """Yield a job as it is, with each format of weights, and with a smaller cache."""
    if not isinstance(job, ServingEstimate):
        yield _Variant(job, job, extra, 0)
        return
    base = _divided(job)
    rows = [row for row in base.job.server.changes if is_weights(row) and not row.spare]
    caches = [row for row in base.job.server.changes if is_cache(row)]
    for level, chosen in enumerate([(), *((row,) for row in rows), (*rows[-1:], *caches[:1])]):
        found = _with_rows(base, chosen)
        least = None if found is None else _least(found[0])
        if found is not None and least is not None:
            yield _Variant(job, least, (*extra, *found[1]), level)


def _divided(job: ServingEstimate) -> ServingEstimate:
    """Return a server on all of its GPUs."""
    config, gpus = job.job.config, job.job.num_gpus
    wanted = config.get(Hardware.num_gpus) or 1
    if wanted == gpus == 1 or config.below("parallelism"):
        return job
    for knob in layouts(config, job, wanted):
        found = _estimated(config.changed(knob.to))
        if isinstance(found, ServingEstimate):
            return found
    return job


def _with_rows(base: ServingEstimate, rows: Sequence[ServerChange]) -> tuple[ServingEstimate, tuple[Knob, ...]] | None:
    found, knobs = base, tuple[Knob, ...]()
    for row in rows:
        changes = next((as_stored(each, found) for each in made(row, found)), None)
        then = None if changes is None else _estimated(found.job.config.changed(changes))
        if changes is None or not isinstance(then, ServingEstimate):
            return None
        found, knobs = then, (*knobs, knob_of(row, dict(changes)))
    return found, knobs


def _least(found: ServingEstimate) -> ServingEstimate | None:
    """Return a server with the least of the GPU that certainly holds what is asked; None where it does not start."""
    path = _share_of(found)
    if path is None:
        return found if found.fits else None
    within, pool = utilization(found), found.pool
    if within is None or pool is None:
        return None
    doubt = ((pool.capacity or 0) - pool.capacity_low) * pool.bytes_each / (found.capacity or 1)
    first = ceil(100 * (within.least + doubt))
    for hundredths in range(first, first + _HUNDREDTHS):
        then = _estimated(found.job.config.replaced(path, hundredths / 100)) if hundredths < 100 else None
        if isinstance(then, ServingEstimate) and _serves(then):
            return then
    return None


def _holds(found: ServingEstimate) -> bool:
    pool = found.pool
    return pool is None or pool.capacity is None or found.needed <= (pool.capacity_low or 0)


def _share_of(found: ServingEstimate) -> str | None:
    """Return the setting by which a server is given its fraction of a GPU; None for one that takes what it needs."""
    return next((row.how.path for row in found.job.server.changes if isinstance(row.how, Certain)), None)


def _spread(chosen: Sequence[_Variant], asked: Shared, tier: str) -> Together:
    """Return a plan in which servers that fill a fraction of the GPU divide what is left over, by what they need."""
    needed, capacity = sum(each.needs for each in chosen), asked.capacity or 0
    spare = (capacity - needed) / max(needed, 1) / (asked.whole or 1)
    wanted = tuple(_more(each.found, each.needs * spare) for each in chosen)
    fits = sum(each.device.high for each in wanted) <= capacity
    found = wanted if fits else tuple(each.found for each in chosen)
    jobs = (each.proposal(then, tier) for each, then in zip(chosen, found, strict=True))
    return Together(Shared(found, asked.taken), tuple(jobs), tier)


def _part_of(found: Found) -> Iterator[Knob]:
    """Yield the fraction of the GPU that a server is given, as a change."""
    path = _share_of(found) if isinstance(found, ServingEstimate) else None
    if path is not None:
        why = "the servers divide each GPU by what they need"
        yield Knob(title="A part of each GPU", to={path: found.job.config.get(path)}, why=why, source="")


def _more(found: Found, part: float) -> Found:
    """Return a server with a further part of the GPU, in whole hundredths."""
    path = _share_of(found) if isinstance(found, ServingEstimate) else None
    if path is None:
        return found
    fraction = int(100 * (float(found.job.config.get(path) or 0) + part)) / 100
    then = _estimated(found.job.config.replaced(path, fraction))
    return then if isinstance(then, ServingEstimate) and then.fits else found


def _on_larger(asked: Shared) -> Iterator[Together]:
    """Yield the plan on the smallest larger GPU on which the jobs fit as they are asked for."""
    for knob in larger(asked.capacity or 0, asked.found[0].job.accelerator):
        moved = [_estimated(each.job.config.changed(knob.to)) for each in asked.found]
        able = [each for each in moved if each is not None]
        if len(able) < len(moved):
            continue
        variants = [[*_variants(each, (knob,))] for each in able]
        found = next(_plans(Shared(tuple(able), asked.taken), variants, larger=True), None)
        if found is not None:
            jobs = (replace(job, first=first) for job, first in zip(found.jobs, asked.found, strict=True))
            yield replace(found, jobs=tuple(jobs))
            return


def _estimated(config: Config) -> Found | None:
    try:
        return estimate(config)
    except MemcoreError:
        return None
