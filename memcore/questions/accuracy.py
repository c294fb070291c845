"""Predictions against measured cases: how far off, for which engine, quantity and kind of source.

A case that the package cannot express is counted as such, with the reason, never skipped in silence. Simulated cases
are steps on fake tensors without libraries, those of a CPU have none either, and both are predicted as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, isfinite
from statistics import correlation, fmean, median
from typing import Any

from memcore.columns import table
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.i18n.page import complaint, say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.rank import outside_allocator
from memcore.memory.readings import Reading
from memcore.messages import Message
from memcore.questions.costs import Cost, cost_of, seconds_of
from memcore.questions.roofline import Roofline, roofline_for
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.predictions import predicted
from memcore.units import format_bytes, format_count

OK, NOT_EXPRESSIBLE = "ok", "not_expressible"

_PREDICTIONS: Mapping[tuple[str, str], Callable[[Estimate], int]] = {
    ("max_allocated", "peak"): lambda found: found.peak.peak,
    ("max_allocated", "first_step"): lambda found: found.rank.first_step,
    ("max_allocated", "optimizer_step"): lambda found: found.rank.peak_of("optimizer_step"),
    ("allocated", "after_init"): lambda found: found.rank.after_init,
    ("allocated", "end_of_forward"): lambda found: found.rank.end_of_forward,
    ("allocated", "end_of_backward"): lambda found: found.rank.end_of_backward,
    ("allocated", "steady"): lambda found: found.rank.between_steps,
    ("max_reserved", "peak"): lambda found: found.reserved.expected,
    ("device_used", "peak"): lambda found: found.device.expected,
    ("device_used", "after_init"): lambda found: (
        found.rank.after_init + sum(each.overhead.expected for each in outside_allocator(found.rank))
    ),
    ("fits", "peak"): lambda found: int(bool(found.fits)),
    ("weights", "after_init"): lambda found: found.rank.persistent.parameters,
}
"""What is predicted for a quantity at a moment."""

_WITHOUT_LIBRARIES = frozenset({"simulated", "cpu"})
"""Kinds of sources in which no GPU's libraries take memory."""

_READINGS: Mapping[str, Callable[[Estimate], Reading]] = {
    "max_allocated": lambda found: found.allocated,
    "max_reserved": lambda found: found.reserved,
    "device_used": lambda found: found.device,
}
"""Quantities that are readings, which have a range."""


_LOGGED: Mapping[str, str] = {"nanotron": "max_reserved"}
"""What an engine's log counts, for cases that only assume a quantity.

nanotron's benchmark writes the peaks of allocated and of reserved memory in its third step, but has reset both when the
passes ended (trainer.py, training_step; logging.py, log_memory): what grows with the micro-batch is what is reserved.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case with its prediction."""

    id: str
    kind: str
    """hardware or simulated."""
    engine: str
    quantity: str
    moment: str
    measured: float | None
    predicted: float | None = None
    reason: str | None = None
    """Why there is no prediction."""
    measured_phase: str | None = None
    predicted_phase: str | None = None
    regime: str = ""
    """The kind of job, as the case names it."""
    stated: str = ""
    """The quantity that the case assumes, where the engine's log counts another."""
    range: tuple[float, float] | None = None
    """The least and the most that the reading says, where the quantity is one of the three readings or a speed."""
    confidence: str = ""
    """How far the case is to be trusted, as it says itself."""
    capacity: int | None = None
    """The memory of a GPU."""
    layouts: str = ""
    """For speeds: the model, its sequences and GPUs, which layouts that are compared have in common."""
    pace: tuple[float, float] | None = None
    """For speeds: predicted and measured seconds for each token of a step."""

    @property
    def verdict(self) -> str | None:
        """`right`, `unsafe` if it ended in out of memory though it was predicted to fit, else `too careful`.

        `close` where the other answer was right and the prediction said that it may be.
        """
        if self.quantity != "fits" or self.predicted is None or self.measured is None:
            return None
        if bool(self.predicted) == bool(self.measured):
            return "right"
        if self.range is not None:
            return "close"
        return "unsafe" if self.predicted else "too careful"

    @property
    def inside(self) -> bool | None:
        """Return whether what was measured is in the stated range."""
        if self.range is None or self.measured is None or self.quantity == "fits":
            return None
        return self.range[0] <= self.measured <= self.range[1]

    @property
    def status(self) -> str:
        """Return whether there is a prediction."""
        return OK if self.predicted is not None else NOT_EXPRESSIBLE

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured."""
        if self.predicted is None or not self.measured:
            return None
        return (self.predicted - self.measured) / self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Errors of cases of one kind, engine and quantity, as shares of what was measured."""

    kind: str
    engine: str
    quantity: str
    cases: int
    median: float
    mean: float
    p90: float
    p95: float
    worst: float
    inside: float | None
    """The share of cases whose measured value is in the stated range; None where no reading has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How well layouts of one model on the same GPUs are told apart."""

    layouts_of: str
    """The model with its parameters, the tokens of a sequence, and the GPUs."""
    layouts: int
    spearman: float | None
    """The correlation of predicted and measured ranks, from -1 to 1; None where all of either are alike."""
    regret: float
    """How much longer the layout that is predicted to be fastest takes than the one that is: 0.1 is 10 %."""


@dataclass(frozen=True, slots=True)
class Report:
    """All cases."""

    results: tuple[Result, ...]

    def groups(self) -> list[Group]:
        """Absolute errors by kind, engine and quantity, and over everything of a kind."""
        return self._grouped(
            lambda each: (
                (each.kind, each.engine, f"{each.quantity} at {each.moment}"),
                (each.kind, "all", "all"),
            )
        )

    def regimes(self) -> list[Group]:
        """Absolute errors by the kind of job."""
        return self._grouped(lambda each: ((each.kind, each.regime or each.engine, "all"),))

    def jobs(self, names: Mapping[str, str]) -> list[Group]:
        """Absolute errors of measured cases, by the name of their regime."""
        return self._grouped(
            lambda each: (
                ((each.kind, names[each.regime or each.engine], "all"),)
                if each.kind == "hardware" and (each.regime or each.engine) in names and each.quantity != "fits"
                else ()
            )
        )

    def confidences(self, engines: Collection[str]) -> list[Group]:
        """Absolute errors by engine and by how far cases are to be trusted; verdicts apart."""
        return self._grouped(
            lambda each: (
                ((each.engine, each.confidence, "all"), ("all", each.confidence, "all"))
                if each.engine in engines and each.quantity != "fits"
                else ()
            )
        )

    def quantities(self, engines: Collection[str]) -> list[Group]:
        """Absolute errors by engine and what is read; verdicts apart."""
        return self._grouped(
            lambda each: (
                ((each.engine, each.quantity, "all"),) if each.engine in engines and each.quantity != "fits" else ()
            )
        )

    def verdicts(self) -> list[tuple[str, str, int]]:
        """By engine: how many verdicts are right, close, unsafe or too careful."""
        found = Counter((each.engine, each.verdict) for each in self.results if each.verdict is not None)
        return [(engine, verdict or "", count) for (engine, verdict), count in sorted(found.items())]

    def _grouped(self, keys: Callable[[Result], Iterable[tuple[str, str, str]]]) -> list[Group]:
        sorted_into: dict[tuple[str, str, str], list[Result]] = {}
        for result in self.results:
            if result.error is not None:
                for key in keys(result):
                    sorted_into.setdefault(key, []).append(result)
        return [_group(*key, results) for key, results in sorted(sorted_into.items())]

    def rankings(self) -> list[Ranking]:
        """Return how well layouts are told apart, for each model that three of them or more were timed of."""
        found: dict[str, list[tuple[float, float]]] = {}
        for each in self.results:
            if each.pace is not None:
                found.setdefault(each.layouts, []).append(each.pace)
        return [_ranking(name, paces) for name, paces in sorted(found.items()) if len(paces) >= _RANKED]

    def reasons(self) -> list[tuple[str, int]]:
        """Why cases have no prediction, the most frequent reason first."""
        return Counter(result.reason for result in self.results if result.reason is not None).most_common()

    def phases(self) -> tuple[int, int]:
        """Of the cases that name the peak's phase, how many are predicted right, and how many there are."""
        named = [result for result in self.results if result.measured_phase and result.predicted_phase]
        return sum(result.measured_phase == result.predicted_phase for result in named), len(named)

    def to_dict(self) -> dict[str, Any]:
        """Return what `memcore accuracy --json` prints."""
        right, named = self.phases()
        done = [result for result in self.results if result.status == OK]
        return {
            "cases": [_plain(result) for result in self.results],
            "summary": {
                "cases": len(self.results),
                "ok": len(done),
                "not_expressible": len(self.results) - len(done),
                "phase_right": right,
                "phase_named": named,
                "groups": [{name: getattr(each, name) for name in Group.__slots__} for each in self.groups()],
                "regimes": [{name: getattr(each, name) for name in Group.__slots__} for each in self.regimes()],
                "rank_correlation": [
                    {name: getattr(each, name) for name in Ranking.__slots__} for each in self.rankings()
                ],
                "reasons": [{"reason": reason, "cases": count} for reason, count in self.reasons()],
            },
        }

    def to_text(self) -> str:
        """Return what `memcore accuracy` prints."""
        head = (say("accuracy-measured"), say("accuracy-predicted"), say("accuracy-error-of"), say("accuracy-case"))
        lines = table([head, *_rows(self.results)], right=(0, 1, 2))
        groups = self.groups()
        for kind in dict.fromkeys(each.kind for each in groups):
            title = say(f"accuracy-{kind}") if kind in _KINDS else kind
            lines += ["", title, *_table_of([each for each in groups if each.kind == kind])]
        lines += _ranked(self.rankings())
        right, named = self.phases()
        if named:
            lines += ["", say("accuracy-phase-right", right=right, named=named)]
        unpredicted = sum(count for _, count in self.reasons())
        if unpredicted:
            lines += ["", say("accuracy-unpredicted-cases", count=unpredicted, cases=len(self.results))]
        lines += [f"  {count:4d}  {translated(reason)}" for reason, count in self.reasons()]
        return "\n".join(lines) + "\n"


_KINDS = ("hardware", "simulated")
"""Sources of cases that have a title."""


def _table_of(groups: Iterable[Group]) -> list[str]:
    """Errors of groups of one kind, with their heading."""
    head = [say(f"accuracy-{each}") for each in ("cases", "median")]
    head += ["p90", "p95", *(say(f"accuracy-{each}") for each in ("worst", "inside", "quantity"))]
    return table([head, *map(_cells, groups)], right=range(6))


def _cells(group: Group) -> Sequence[str]:
    errors = (group.median, group.p90, group.p95, group.worst)
    inside = "-" if group.inside is None else f"{100 * group.inside:.0f}%"
    cells = (f"{100 * error:.2f}%" for error in errors)
    everything = say("accuracy-all-cases")
    quantity = everything if group.quantity == "all" else group.quantity
    named = quantity if group.engine == "all" else say("accuracy-of-engine", engine=group.engine, quantity=quantity)
    return str(group.cases), *cells, inside, named


def _rows(results: Iterable[Result]) -> Iterator[Sequence[str]]:
    for each in results:
        spelled = _spelled(each.quantity)
        measured = "-" if each.measured is None else spelled(each.measured)
        if each.predicted is None:
            yield measured, "-", say("accuracy-unpredicted"), each.id
        else:
            error = "-" if each.error is None else f"{100 * each.error:+.3f}%"
            yield measured, spelled(each.predicted), error, each.id


SPEEDS: Mapping[str, Callable[[Cost, Roofline, float], float]] = {
    "step_seconds": lambda _, __, seconds: seconds,
    "tokens_per_second_per_gpu": lambda price, _, seconds: price.tokens / price.gpus / seconds,
    "mfu": lambda price, roofline, seconds: (price.flops - price.again) / roofline.flops / seconds,
}
"""Quantities of speed, from the seconds of a step."""
NOT_BYTES = frozenset({"kv_cache_tokens", "kv_cache_blocks", "parameters", "fits", *SPEEDS})
"""Quantities that are not bytes."""


def _spelled(quantity: str) -> Callable[[float], str]:
    """Return how a quantity is written."""
    if quantity in SPEEDS:
        return "{:.4g}".format
    return lambda value: format_count(int(value)) if quantity in NOT_BYTES else format_bytes(int(value))


def _speed(found: Estimate | ServingEstimate, quantity: str, measured: float | None) -> dict[str, Any] | None:
    """A speed of a step with its range and its pace, as `Result` has them; None for servers and other quantities."""
    if quantity not in SPEEDS or not isinstance(found, Estimate):
        return None
    roofline, job = roofline_for(found.job.config), found.job
    price, spelled = cost_of(job, roofline), SPEEDS[quantity]
    low, expected, high = (spelled(price, roofline, seconds) for seconds in seconds_of(price))
    gpu = job.accelerator.id if job.accelerator else "GPU"
    of = job.model.name, f"{job.model.parameters:,}", f"{job.sizes['s'] * job.sizes['cp']:,}", f"{job.num_gpus} × {gpu}"
    return {
        "predicted": expected,
        "range": (min(low, high), max(low, high)),
        # Each quantity is its own inverse: what makes it of seconds makes seconds of it.
        "pace": (price.seconds / price.tokens, spelled(price, roofline, measured) / price.tokens) if measured else None,
        "layouts": ", ".join(of),
    }


_RANKED = 3
"""Layouts of a model whose order says something."""


def _ranking(name: str, paces: Sequence[tuple[float, float]]) -> Ranking:
    """Return how the order that is predicted compares with the measured one."""
    predicted_ranks, measured_ranks = (_ranks([each[side] for each in paces]) for side in (0, 1))
    alike = len(set(predicted_ranks)) == 1 or len(set(measured_ranks)) == 1
    chosen = min(paces, key=lambda each: each[0])[1]
    return Ranking(
        layouts_of=name,
        layouts=len(paces),
        spearman=None if alike else correlation(predicted_ranks, measured_ranks),
        regret=chosen / min(measured for _, measured in paces) - 1,
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(each) + (ordered.count(each) - 1) / 2 for each in values]


def _ranked(rankings: Sequence[Ranking]) -> list[str]:
    """Return lines that say how well layouts are told apart."""
    rows = [tuple(say(f"accuracy-{each}") for each in ("layouts", "spearman", "regret", "layouts-of"))]
    for each in rankings:
        ranked = "-" if each.spearman is None else f"{each.spearman:.2f}"
        rows.append((str(each.layouts), ranked, f"{100 * each.regret:.1f}%", each.layouts_of))
    return ["", *table(rows, right=(0, 1, 2))] if rankings else []


def _plain(result: Result) -> dict[str, Any]:
    return {
        "id": result.id,
        "predicted": result.predicted,
        "measured": result.measured,
        "error": result.error,
        "status": result.status,
        "reason": result.reason,
        "kind": result.kind,
        "engine": result.engine,
        "quantity": result.quantity,
        "moment": result.moment,
        "stated_quantity": result.stated or result.quantity,
        "regime": result.regime,
        "confidence": result.confidence,
        "verdict": result.verdict,
        "low": result.range[0] if result.range else None,
        "high": result.range[1] if result.range else None,
        "inside": result.inside,
        "predicted_phase": result.predicted_phase,
        "measured_phase": result.measured_phase,
    }


def _group(kind: str, engine: str, quantity: str, results: Sequence[Result]) -> Group:
    errors = sorted(abs(each.error) for each in results if each.error is not None)
    inside = [each.inside for each in results if each.inside is not None]
    return Group(
        kind=kind,
        engine=engine,
        quantity=quantity,
        cases=len(errors),
        median=median(errors),
        mean=fmean(errors),
        p90=_quantile(errors, 0.90),
        p95=_quantile(errors, 0.95),
        worst=errors[-1],
        inside=fmean(inside) if inside else None,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted numbers, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low, high = ordered[floor(place)], ordered[ceil(place)]
    return low + (high - low) * (place - floor(place))


def accuracy(cases: Iterable[object]) -> Report:
    """Predict every case."""
    jobs = _Jobs()
    return Report(tuple(_result(case, jobs) for case in cases))


class _Jobs:
    """The last job that was estimated: cases of one run follow one another, each with another moment or quantity."""

    def __init__(self) -> None:
        self._last: tuple[str, Estimate | ServingEstimate] | None = None

    def estimate(self, config: Mapping[str, Any], *, fake: bool) -> Estimate | ServingEstimate:
        """Estimate a job, unless it is the last one."""
        described = Config.from_dict(config)
        key = f"{fake} {dict(described.values)!r}"
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = key, estimate(described, fake=fake)
        return self._last[1]


def _result(case: object, jobs: _Jobs) -> Result:
    found = case if isinstance(case, Mapping) else {}
    measured, config = _section(found, "measured"), _section(found, "config")
    size = measured.get("bytes", measured.get("value"))
    shared: dict[str, Any] = {
        "id": str(found.get("id", "?")),
        "kind": str(_section(found, "source").get("kind", "hardware")),
        "engine": str(_section(config, "engine").get("type", "?")),
        "quantity": str(measured.get("quantity", "?")),
        "moment": str(measured.get("moment", "peak")),
        "measured": _number(size),
        "measured_phase": measured.get("phase"),
        "regime": str(found.get("regime", "")),
        "confidence": str(found.get("confidence", "")),
    }
    shared |= _logged(found, shared)
    try:
        estimated = jobs.estimate(config, fake=shared["kind"] in _WITHOUT_LIBRARIES)
        if shared["engine"] == "?":
            shared["engine"] = estimated.job.engine.name
        speed = _speed(estimated, shared["quantity"], shared["measured"])
        if speed is not None:
            return Result(**shared, **speed)
        known = prediction(estimated, shared["quantity"], shared["moment"], measured.get("rank"))
    except MemcoreError as error:
        return Result(**shared, reason=complaint(error).replace("\n", "; "))
    return Result(
        **shared,
        predicted=known.predicted,
        predicted_phase=known.phase,
        range=known.range,
        reason=known.reason,
        capacity=estimated.capacity,
    )


def _number(size: object) -> float | None:
    """Return what was measured: a whole number of bytes, whether something fits as 1 or 0, or a positive speed."""
    if isinstance(size, float):
        return size if isfinite(size) and size > 0 else None
    return int(size) if isinstance(size, int) else None


def _listed(value: object) -> list[object] | tuple[object, ...]:
    """Return a list as a case has it; nothing where it has something else."""
    return value if isinstance(value, (list, tuple)) else ()


def _logged(case: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    """Another quantity than the case's, if that is assumed and the engine is known to log another."""
    counted = _LOGGED.get(shared["engine"])
    if counted is None or "measured.quantity" not in _listed(case.get("assumed")) or shared["measured"] is None:
        return {}
    return {"quantity": counted, "stated": shared["quantity"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted for a quantity that somebody has measured."""

    predicted: int | None = None
    range: tuple[float, float] | None = None
    phase: str | None = None
    reason: str | None = None
    """Why there is no prediction."""
    absent: bool = False
    """Jobs of this kind have none, whatever their settings."""


def prediction(found: Estimate | ServingEstimate, quantity: str, moment: str, rank: object = "max") -> Prediction:
    """Return the prediction for a quantity at a moment; that something fits is 1, that it does not is 0.

    Raises UnsupportedError where a quantity of the job is not supported.
    """
    if isinstance(found, ServingEstimate):
        served = predicted(found, quantity, total=rank == "total")
        if served is None:
            name = found.job.engine.name
            if rank is None:
                return Prediction(reason=Message("{} is not predicted for {}", quantity, name), absent=True)
            return Prediction(reason=Message("{} (rank {}) is not predicted for {}", quantity, rank, name), absent=True)
        bounds = (served.low, served.high) if served.low < served.high else None
        return Prediction(predicted=served.expected, range=bounds)
    if quantity == "parameters":
        return Prediction(predicted=found.job.model.parameters)
    predict = _PREDICTIONS.get((quantity, moment))
    if predict is None or rank == "total":
        if rank is None:
            return Prediction(reason=Message("{} at {} is not predicted", quantity, moment), absent=True)
        return Prediction(reason=Message("{} at {} (rank {}) is not predicted", quantity, moment, rank), absent=True)
    if quantity == "fits" and found.capacity is None:
        return Prediction(reason="hardware.accelerator is needed to decide whether the job fits")
    if not _is_rank(found, rank):
        several = "all the same" if len(found.ranks) == 1 else Message("one of {} stages", len(found.ranks))
        return Prediction(
            reason=Message(
                "measured.rank: found {!r:.80}; allowed: 'max', 'min' or the number of a rank, {}", rank, several
            )
        )
    staged = of_stage(found, rank)
    if rank == "min":
        staged = min((replace(found, ranks=(each,)) for each in found.ranks), key=predict)
    return Prediction(
        predicted=predict(staged),
        range=_stated(staged, quantity, moment),
        phase=staged.peak.phase if moment == "peak" else None,
    )


def _stated(found: Estimate, quantity: str, moment: str) -> tuple[int, int] | None:
    """Return the range of a reading of the peak; from 0 to 1 where that of the device crosses the capacity."""
    if quantity == "fits":
        return None if found.certain else (0, 1)
    reading = _READINGS.get(quantity) if moment == "peak" else None
    if reading is None:
        return None
    stated = reading(found)
    return stated.low, stated.high


def _is_rank(found: Estimate, rank: object) -> bool:
    """Return whether a case's `rank` is one of the job's: ranks of a job without a pipeline are all alike."""
    if isinstance(rank, int) and not isinstance(rank, bool):
        return 0 <= rank < (len(found.ranks) if len(found.ranks) > 1 else found.job.num_gpus)
    return rank in (None, "max", "min")


def of_stage(found: Estimate, stage: object) -> Estimate:
    """Return what one stage of a pipeline holds, if a number names it; else of all ranks."""
    if isinstance(stage, int) and stage < len(found.ranks):
        return replace(found, ranks=(found.ranks[stage],))
    return found


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}
