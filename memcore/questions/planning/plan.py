"""Plans: complete configs that fit the given hardware, best first; if there is none, what limits the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType

from memcore import registry
from memcore.config.hardware import Hardware
from memcore.config.knobs import TIERS, Knob, Settings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import MODEL, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, Problem, nearest
from memcore.formats.tool import Tool
from memcore.hardware import BOARD_WATTS
from memcore.memory.estimate import Estimate
from memcore.messages import Message, joined, listed
from memcore.questions.costs import Range, seconds_of
from memcore.questions.describe import when
from memcore.questions.planning.bench import FEW, HEADROOM, Bench, Found, hosted
from memcore.questions.planning.budget import Budget, budget_of
from memcore.questions.planning.divisions import asked_of
from memcore.questions.planning.rows import FULL, GOALS, QUALITIES
from memcore.questions.planning.serving import Served, Servings
from memcore.questions.planning.training import Candidate, Trainings
from memcore.questions.planning.usual import with_batch, with_usual_batch, with_usual_length
from memcore.questions.roofline import roofline_for
from memcore.questions.serving_speed import ServingSpeed, pace_unknown, serving_speed
from memcore.questions.solving import Pieces
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import usual_length
from memcore.tools import TOOLS, Exported, exported, loops_of, tools_of
from memcore.units import format_bytes

KEEP, MOST = 6, 90
"""Plans that are shown, and estimates that are made for them: about 10 ms each."""


@dataclass(frozen=True, slots=True)
class Step:
    """One setting that a plan changes, with the reason."""

    path: str
    before: object
    after: object
    why: str


@dataclass(frozen=True)
class Proposal:
    """A complete config that fits, with what it changes and what that costs."""

    way: str
    """What runs it: an engine with its layers, or a server."""
    division: str
    """How it is divided among GPUs, as engineers write it: `TP8 PP9`."""
    tier: str
    """What the plan gives up, a key of `memcore.config.knobs.TIERS`: nothing, precision, work, hardware …"""
    first: Found
    """The estimate of the job as it is asked for."""
    found: Found
    """The estimate of the plan."""
    knobs: tuple[Knob, ...]
    """The changes that the plan is made of."""
    seconds: Range | None
    """The time of a step in seconds: low, expected, high (roofline estimate); None if unknown."""
    tokens: int | None
    """The tokens of a step of the whole job; None for a server."""
    safe: bool
    """True if the whole range fits with headroom, False if only the expected value fits."""
    host_room: float | None = None
    """Bytes of its host's memory, where that usually has less than the plan offloads; None: it has as much."""
    mfu: float | None = None
    """Model FLOPS utilization: operations that the model needs over what the GPU could do; None for a server."""

    def __repr__(self) -> str:
        """Return what the plan is called, and the memory that it needs."""
        return f"<{type(self).__name__}: {self.title}: {format_bytes(self.found.device.expected)}>"

    @property
    def title(self) -> str:
        """Return the plan in a few words."""
        return listed(", ", self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return what a plan is called by: what runs it, how it is divided, and changes that cost something.

        Where none does, all changes.
        """
        named = [knob.title for knob in self.knobs if knob.source] or [knob.title for knob in self.knobs]
        return tuple(each for each in (self.way, self.division, *named) if each)

    @property
    def asked(self) -> Config:
        """Return the config of the job as asked for."""
        return self.first.job.config

    @cached_property
    def moves(self) -> tuple[str, ...]:
        """Return the changes from the job as asked for, a few words each, the costliest first."""
        taken = {each.path: each.value for each in self.first.assumptions}
        paths = {each.path for each in self.changes if each.after != taken.get(each.path, each.before)}
        knobs = [each for each in self.knobs if each.title and not paths.isdisjoint(each.to)]
        knobs.sort(key=lambda each: (not each.quality, not any(path.startswith("hardware.") for path in each.to)))
        rest = paths.difference(*(each.to for each in knobs))
        divided = any(path.startswith("parallelism.") for path in rest)
        way = self.way if any(path.startswith(("engine.", Training.implementation)) for path in rest) else ""
        free = [each.title for each in knobs if not each.source]
        batch = Training.micro_batch_size
        smaller = [Message("micro-batch {}", self.config.get(batch))] if batch in rest else []
        moves = (*(each.title for each in knobs if each.source), way, self.division if divided else "", *smaller, *free)
        return tuple(each for each in moves if each)

    @property
    def config(self) -> Config:
        """Return the complete config."""
        return self.found.job.config

    def budget(self, tokens: int, price: float | None = None) -> Budget | None:
        """Return what training on a number of tokens takes, at a price for each GPU-hour; None for a server."""
        if self.seconds is None or self.tokens is None:
            return None
        job = self.found.job
        known = job.accelerator if job.config[Hardware.mig] is None else None
        watts = BOARD_WATTS.get(known.id) if known else None
        return budget_of(self.seconds, self.tokens, job.num_gpus, tokens, price, watts)

    @cached_property
    def speed(self) -> ServingSpeed | None:
        """Return how fast a server is; None for training, and where no source tells."""
        return serving_speed(self.found) if isinstance(self.found, ServingEstimate) else None

    @property
    def why_no_speed(self) -> str | None:
        """Return why nothing is said of a server's speed; None for training, and where something is."""
        return pace_unknown(self.found) if isinstance(self.found, ServingEstimate) else None

    @property
    def fits(self) -> bool:
        """Return whether the expected value fits."""
        return bool(self.found.fits)

    @property
    def headroom(self) -> int:
        """Return the free bytes of each GPU."""
        return (self.found.capacity or 0) - self.found.device.expected

    @property
    def host(self) -> int:
        """Return the bytes of a node's own memory that hold what a plan keeps there."""
        return hosted(self.found)

    @property
    def quality(self) -> str:
        """Return what the plan may cost in model quality."""
        notes = list(dict.fromkeys(each.quality for each in self.knobs if each.quality))
        return joined("; ", notes) if notes else "the same result as the job you asked for"

    @cached_property
    def changes(self) -> tuple[Step, ...]:
        """Return every setting that differs from the job asked for, with the reason.

        Not one that spells out what the job has by default, unless it divides the job among GPUs.
        """
        before, after = self.asked.values, self.config.values
        taken = {each.path: each.value for each in self.first.assumptions if not each.path.startswith("parallelism.")}
        reasons = {path: knob for knob in self.knobs for path in knob.to}
        return tuple(
            Step(path, before.get(path), after.get(path), _why(path, reasons, self.way))
            for path in sorted({*before, *after})
            if before.get(path) != after.get(path) and after.get(path) != before.get(path, taken.get(path, _NOTHING))
        )

    @cached_property
    def exports(self) -> Mapping[str, str]:
        """Return the plan as the file or command line of its tool, by the tool's name; empty if no format covers it."""
        found = self._own
        return {} if found is None else {found.tool.name: found.text}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the settings of the plan that `exports` does not set, each with the reason."""
        return () if self._own is None else self._own.reasons

    @cached_property
    def _own(self) -> Exported | None:
        return self.export()

    def export(self, brought: Tool | None = None) -> Exported | None:
        """Return the plan as its tool's text, and what is not in the text; None if no format covers it.

        `brought` is the tool whose file the job came in, which is written again where it runs the plan. Where nobody
        named a tool, or that one does not have the plan's method, it is the first of those whose text says most of it.
        """
        found = self._exported(brought)
        return found if brought is None or self._is_said_by(brought, found) else self._own

    @cached_property
    def is_said(self) -> bool:
        """Return whether a tool's text says all of the plan, but for the hardware that it runs on."""
        return self._own is not None and not self.unsaid

    @property
    def unsaid(self) -> frozenset[str]:
        """Return the settings that the tool's text does not say, but for the hardware."""
        own = self._own
        if own is None:
            return frozenset()
        return frozenset(each for each in own.left_out if not each.startswith("hardware.")).difference(own.wanted)

    @property
    def spare(self) -> frozenset[str]:
        """Return settings of changes that cost nothing, without which the job is the same and needs more memory."""
        return frozenset(path for knob in self.knobs if not knob.source for path in knob.to)

    def is_run_by(self, tool: Tool) -> bool:
        """Return whether a tool has the plan's engine and method, so that its file says them."""
        return self._is_said_by(tool, self._exported(tool))

    def _is_said_by(self, tool: Tool, found: Exported | None) -> bool:
        method = {path for knob in self.knobs if knob.quality for path in knob.to}
        return found is not None and found.tool == tool and method.isdisjoint(found.silent)

    def _exported(self, brought: Tool | None) -> Exported | None:
        taken = {each.path: each.value for each in self.found.assumptions}
        given = (path for path in self.asked.values if path.startswith(("training.", "engine.", "parallelism.")))
        told = {MODEL, *given, *(each.path for each in self.changes)}
        best: Exported | None = None
        least: tuple[int, int] | None = None
        for tool in tools_of(self.config, brought):
            with suppress(MemcoreError):
                found = exported(self.config, tool.name, taken)
                lost = [each for each in zip(found.left_out, found.reasons, strict=True) if each[0] in told]
                left, reasons = tuple(path for path, _ in lost), tuple(why for _, why in lost)
                loses = len(set(left) - self.spare), len(left)
                if least is None or loses < least:
                    best, least = replace(found, left_out=left, reasons=reasons), loses
            if least is not None and not least[1]:
                break
        return best


_NOTHING = object()
_REASONS: Mapping[str, str] = {
    Training.micro_batch_size: "keeps the global batch size on this number of GPUs",
    Training.gradient_accumulation_steps: "keeps the global batch size on this number of GPUs",
    Parallelism.tensor_parallel_size: "each matrix is split across GPUs of a node",
    Parallelism.pipeline_parallel_size: "each GPU holds a part of the layers",
    Parallelism.pipeline_layout: "the stages cannot all have the same number of layers",
    Parallelism.context_parallel_size: "each sequence is split across GPUs",
    Parallelism.expert_parallel_size: "experts are distributed over GPUs",
}
"""Why a plan sets what none of its rows sets."""


def _why(path: str, reasons: Mapping[str, Knob], way: str) -> str:
    if path in reasons and reasons[path].why:
        return Message("{}: {}", reasons[path].title, reasons[path].why)
    if path in _REASONS:
        return _REASONS[path]
    if path.startswith("parallelism."):
        return "how the job is divided among the GPUs"
    return Message("runs with {}", way)


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans for a job, best first; `plan` returns it."""

    asked: Config
    """The config that `plan` was given."""
    found: Found
    """The estimate of that config."""
    plans: tuple[Proposal, ...]
    """The plans, best first."""
    none_because: str | None
    """What limits the job, if no plan keeps both the work and the hardware; else None."""
    estimates: int
    """The number of estimates made."""
    assumed: str | None = None
    """What the plans take for granted of a job that leaves it open: its global batch, a length; None: nothing."""

    def __repr__(self) -> str:
        """Return what the plans are called; `print` shows them whole."""
        return f"<{type(self).__name__}: {'; '.join(each.title for each in self.plans)}>"

    def __str__(self) -> str:
        """Return what `memcore plan` prints."""
        return str(registry.face().text_of(self))


def plan(
    config: Config | Mapping[str, object],
    *,
    goal: str = "fine-tune",
    quality: str = "any",
    headroom: float = HEADROOM,
    keep: int = KEEP,
    rates: Mapping[str, float] = MappingProxyType({}),
    tool: str | None = None,
    batch_tokens: int | None = None,
) -> Planned:
    """Compose complete configs for a job that fit the hardware it names, best first.

    Plans that do less work appear only if nothing else fits, plans that need more hardware only if there is no choice.

    Args:
        config: A training job or a server with an accelerator, as in `estimate`.
        goal: A key of `memcore.questions.planning.rows.GOALS`; servers ignore it.
        quality: A key of `QUALITIES` in the same module: how much precision a plan may give up.
        headroom: The fraction of GPU memory that safe plans leave free, from 0 to below 1.
        keep: The number of plans to return.
        rates: Inputs of [the cost model](costs.md) by name, such as those that `calibrate` finds.
        tool: The tool that is to run the plans, by its name: methods that it does not have are left out.
        batch_tokens: The tokens of an optimizer step of the whole training job; None: as the config says.

    Returns:
        A `Planned`; `plans` may be empty, and `none_because` then names the limit.

    Raises:
        ConfigError: If the config names no accelerator and no `hardware.gpu_memory_gb`, and as in `estimate`.
        UnsupportedError: As in `estimate`.

    Sources: every plan has passed `estimate`; step times follow [the cost model](costs.md).

    Examples:
        >>> job = {"model": "llama-2-7b-hf", "training": {"sequence_length": 2048},
        ...        "hardware": {"accelerator": "rtx-4090", "num_gpus": 1}}
        >>> [each.fits for each in plan(job).plans[:2]]
        [True, True]
    """
    *_, last = plan_by_piece(
        config,
        goal=goal,
        quality=quality,
        headroom=headroom,
        keep=keep,
        rates=rates,
        tool=tool,
        batch_tokens=batch_tokens,
    )
    assert last is not None  # noqa: S101 - only what comes before the last is
    return last


def plan_by_piece(
    config: Config | Mapping[str, object],
    *,
    goal: str = "fine-tune",
    quality: str = "any",
    headroom: float = HEADROOM,
    keep: int = KEEP,
    rates: Mapping[str, float] = MappingProxyType({}),
    tool: str | None = None,
    batch_tokens: int | None = None,
) -> Iterator[Planned | None]:
    """Yield what `plan` finds, last.

    Before it None after every estimate, and in between plans that no later one beats.
    """
    asked = config if isinstance(config, Config) else Config.from_dict(config)
    tiers = _tiers(goal, quality)
    if not 0 <= headroom < 1:
        raise ConfigError.at("headroom", "found {!r}; allowed: a fraction from 0 to below 1, such as 0.1", headroom)
    roofline_for(asked).adjusted(**rates)
    bench = Bench(MOST, headroom, rates=rates)
    found = yield from bench.at(asked)
    if isinstance(found, MemcoreError):
        raise found
    if not _OF_HOSTS.issuperset(rates) and isinstance(found, ServingEstimate):
        raise ConfigError.at("rates", "servers have no training steps, so the cost model's rates do not apply")
    if found.capacity is None:
        message = "a plan needs a GPU model; name one with --accelerator, or set --gpu-memory"
        raise ConfigError.at(Hardware.accelerator, message)
    if isinstance(found, ServingEstimate):
        usual = yield from bench.at(with_usual_length(asked, found))
        found = usual if isinstance(usual, ServingEstimate) else found
    search, assumed = _search(asked, found, bench, tiers, goal, batch_tokens)
    chosen: tuple[Proposal, ...] = ()
    known: dict[int, Proposal] = {}
    for candidates in search.candidates():
        if candidates is None:
            yield None
            continue
        proposals = map(partial(_proposal, found, bench), candidates)
        chosen = _chosen(proposals, TOOLS.get(tool or ""), keep)
        is_said = tool is not None or isinstance(found, ServingEstimate)
        if not is_said:
            chosen = yield from _said(chosen, bench, known)
        first = tuple(each for each in chosen if each.safe and each.host_room is None and (is_said or each.is_said))
        if len(first) == keep:
            break
        yield Planned(asked, found, first, None, bench.count, assumed)
    kept = [each for each in chosen if each.tier not in ("work", "hardware")]
    because = None if kept else _because(search.leanest or found)
    yield Planned(asked, found, chosen, because, bench.count, assumed)


_OF_HOSTS = frozenset(("host_room",))
"""Inputs of the cost model that say something of servers, too."""


def _search(
    asked: Config, found: Found, bench: Bench, tiers: Sequence[str], goal: str, batch_tokens: int | None
) -> tuple[Servings | Trainings, str | None]:
    """Return what looks for plans, and what it assumes."""
    if isinstance(found, ServingEstimate):
        if batch_tokens is not None:
            raise ConfigError.at("batch_tokens", "for training jobs only; a server has no optimizer steps")
        shorter = found.job.config
        return Servings(shorter, found, bench, tiers), None if shorter == asked else usual_length()
    job, assumed = asked_of(asked, found.job), None
    if batch_tokens is not None:
        job, assumed = with_batch(job, batch_tokens)
    elif goal == "pre-train":
        job, assumed = with_usual_batch(job, found.job.model.parameters)
    return Trainings(job, bench, tiers, full=goal == FULL), assumed


def _tiers(goal: str, quality: str) -> tuple[str, ...]:
    for name, given, allowed in (("goal", goal, GOALS), ("quality", quality, QUALITIES)):
        if given not in allowed:
            message = Message("found {!r}; allowed: {}", given, joined(", ", allowed))
            raise ConfigError([Problem(name, message, nearest(given, allowed))])
    return tuple(each for each in TIERS if each in GOALS[goal] and each in QUALITIES[quality])


def _proposal(first: Found, bench: Bench, each: Candidate | Served) -> Proposal:
    """Return a candidate as a plan."""
    roofline = bench.roofline(each.found)
    if isinstance(each, Served):
        server, room = each.found.job.title, roofline.host_room if bench.spills(each.found) else None
        return Proposal(
            server, each.division, each.tier, first, each.found, each.knobs, None, None, bench.safe(each.found), room
        )  # fmt: skip
    price = bench.cost(each.found)
    return Proposal(
        each.way.title, each.division.title, each.tier, first, each.found, each.knobs,
        seconds_of(price), price.tokens, each.safe, roofline.host_room if each.spills else None,
        (price.flops - price.again) / roofline.flops / price.seconds,
    )  # fmt: skip


def _chosen(proposals: Iterable[Proposal], tool: Tool | None, keep: int) -> tuple[Proposal, ...]:
    """Return the best that differ: those that a tool runs, others only where these are few."""
    if tool is None:
        return tuple(_different(proposals, keep))
    every = list(proposals)
    own = _different((each for each in every if each.is_run_by(tool)), keep)
    named = {id(each) for each in own}
    more = _different((each for each in every if id(each) not in named), keep) if len(own) < FEW else []
    return (*own, *more)[:keep]


def _said(chosen: Sequence[Proposal], bench: Bench, known: dict[int, Proposal]) -> Pieces[tuple[Proposal, ...]]:
    """Return plans as a tool runs them; those that no tool's text says only where there are few others, as the last.

    Before these stand those that are safe no more where a training loop is named; then comes other hardware.

    `known`: what came of plans that were chosen before, by the identity of their estimate.
    """
    for each in chosen:
        if id(each.found) not in known:
            known[id(each.found)] = yield from _in_a_loop(each, bench)
    pairs = [(known[id(each.found)], each.safe) for each in chosen]
    pairs.sort(key=lambda pair: (pair[0].tier in ("work", "hardware"), not pair[0].is_said, pair[1] > pair[0].safe))
    said = sum(each.is_said for each, _ in pairs)
    return tuple(each for each, _ in pairs if each.is_said or said < FEW)


def _in_a_loop(each: Proposal, bench: Bench) -> Pieces[Proposal]:
    """Return a plan as the first tool runs all of it: one that needs no name, or a training loop that nobody named.

    A loop has defaults of its own. What costs nothing is left to a tool that has no word for it.
    """
    if each.is_said:
        return each
    for loop in (None, *loops_of(each.config)):
        again = each if loop is None else (yield from _with(each, loop.needs, loop.title, bench))
        if again is not None and again.is_said:
            return again
        if again is not None and again.unsaid <= each.spare:
            left = {path: each.asked.get(path) for path in again.unsaid}
            for changes in (*([_LIGER] if Training.loss in left else []), left):
                other = yield from _with(again, changes, again.way, bench)
                if other is not None and other.is_said:
                    return other
    return each


_LIGER: Settings = {Training.implementation: "liger"}
"""All of Liger's kernels, where a tool has its fused loss with the others alone (ms-swift, `use_liger_kernel`)."""


def _with(each: Proposal, changes: Mapping[str, object], way: str, bench: Bench) -> Pieces[Proposal | None]:
    """Return a plan with some changes; None if it is refused or does not fit."""
    bench.most = max(bench.most, bench.count + 1)
    found = yield from bench.with_(each.config, changes)
    if not isinstance(found, Estimate) or not bench.holds(found):
        return None
    cost, safe = bench.cost(found), bench.safe(found)
    knobs = tuple(knob for knob in each.knobs if changes.keys().isdisjoint(knob.to))
    return replace(each, way=way, found=found, knobs=knobs, seconds=seconds_of(cost), tokens=cost.tokens, safe=safe)


_HARDWARE = frozenset({Hardware.num_gpus, Hardware.accelerator})


def _different(proposals: Iterable[Proposal], keep: int) -> list[Proposal]:
    """The best first; of those that differ in a division alone a few, of each method the best.

    Where these are few, others of the same methods are kept as well: another tool, or more checkpointing.
    """
    counts: dict[object, int] = {}
    kept: list[tuple[int, Proposal]] = []
    left: list[tuple[int, Proposal]] = []
    for place, each in enumerate(proposals):
        if kept and len(kept) >= keep:
            break
        names = tuple(knob.title for knob in each.knobs if knob.quality or not _HARDWARE.isdisjoint(knob.to))
        key = each.tier, names if each.tier != "same" else ()
        counts[key] = counts.get(key, 0) + 1
        alike = counts[key] > (3 if each.tier == "same" else 1)
        (left if alike else kept).append((place, each))
    few = min(FEW, keep) - sum(each.safe and each.tier != "hardware" for _, each in kept)
    spare = [each for each in left if each[1].tier != "hardware"]
    return [each for _, each in sorted([*kept, *spare[: max(few, 0)]], key=lambda pair: pair[0])][:keep]


def _because(leanest: Found) -> str:
    """Return what binds, with the least that was needed."""
    capacity, parts = format_bytes(leanest.capacity or 0), leanest.ledger.by_category
    largest = max(parts, key=lambda name: parts[name])
    if isinstance(leanest, ServingEstimate):
        if leanest.refused is not None:
            return leanest.refused
        leanest = min(leanest.recipes or (leanest,), key=lambda each: each.headroom or 0)
        pool, length = leanest.pool, leanest.asked_length
        if pool is not None and pool.capacity is not None and leanest.device.expected <= (leanest.capacity or 0):
            if leanest.users == 1:
                message = "each GPU has {}, and the largest cache of any config does not hold a sequence of {:,} tokens"
                return Message(message, capacity, length)
            return Message(
                "each GPU has {}, and the config with the largest cache holds only {} of {} sequences of {:,} tokens",
                capacity,
                pool.users(length) or 0,
                leanest.users,
                length,
            )
        return Message(
            "each GPU has {}, but the smallest server config tried needs {}, most of it {} ({})",
            capacity,
            format_bytes(leanest.device.expected),
            largest,
            format_bytes(parts[largest]),
        )
    return Message(
        "each GPU has {}, but the smallest variant tried needs {}; its peak is in the {}, the largest part {} ({})",
        capacity,
        format_bytes(leanest.device.expected),
        when(leanest.peak, leanest),
        largest,
        format_bytes(parts[largest]),
    )
