"""Plans of training jobs: methods, ways to run, divisions and degrees of checkpointing, composed and estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from math import log

from memcore.config.defaults import value_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import TIERS, Knob, Method, Way
from memcore.config.training import Training
from memcore.memory.estimate import Estimate
from memcore.messages import Message
from memcore.questions.advising.changes import CHANGES, applicable
from memcore.questions.costs import USUAL_SPREAD
from memcore.questions.planning.bench import FEW, Bench, SpentError, at_last, fits_a_node, gathered, larger, usable_of
from memcore.questions.planning.divisions import Asked, Division, divisions
from memcore.questions.planning.rows import METHODS
from memcore.questions.planning.ways import has_code, ways_of
from memcore.questions.solving import Pieces
from memcore.records import dataclass
from memcore.trace.changes import Change
from memcore.trace.job import Job

_FITTING = 3
"""Divisions that fit, of which the fastest is looked for, where the result is the same."""
_FAR = 1.5
"""How much longer a step must take with headroom before a faster one without is worth a look."""
_ALIKE = 1.05
"""Steps whose times differ by no more are about as fast."""
_ORDER = tuple(TIERS)
_LESS = frozenset(("work", "hardware"))
"""Tiers that are no choice on the hardware and for the work that was asked for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete config with its estimate, and the rows that it is made of."""

    tier: str
    way: Way
    division: Division
    knobs: tuple[Knob, ...]
    found: Estimate
    seconds: float
    """Of a step of the whole job."""
    safe: bool
    asked: Asked
    method: int = 0
    """Its place in `METHODS`."""
    bold: bool = False
    """It leaves less headroom than is safe, and is far faster than what is."""
    spills: bool = False
    """What it offloads is more than a host with such GPUs usually has."""

    @property
    def outcome(self) -> tuple[object, ...]:
        """Return what another candidate that is the same job in other words has in common with it."""
        device, asked = self.found.device, self.asked
        held = device.low, device.expected, device.high, self.found.job.accelerator
        return self.tier, self.way.title, self.division, asked.gpus, asked.length, self.seconds, held

    @property
    def strains(self) -> bool:
        """Return whether matrices are split across GPUs that no fast links join.

        transformers, docs/source/en/perf_train_gpu_many.md: without NVLink or NVSwitch tensor parallelism is the slower
        choice; vLLM, docs/serving/parallelism_scaling.md, says the same of L40S.
        """
        accelerator = self.found.job.accelerator
        return self.division.tensor > 1 and accelerator is not None and not accelerator.speed.link

    def beats(self, other: Candidate) -> bool:
        """Return whether it gives up less than another on the same hardware, is as fast and leaves as much free.

        Of methods of one tier the earlier gives up less. What another frees counts if it is more than the range of the
        estimate.
        """
        worse = self.safe < other.safe or self.strains > other.strains or self.spills > other.spills
        if worse or "hardware" in (self.tier, other.tier):
            return False
        mine, others = ((_ORDER.index(each.tier), each.method) for each in (self, other))
        less = mine < others or (mine == others and self.safe and not (other.safe or other.bold))
        mine_held = self.found.device.low if self.safe else self.found.device.expected
        frees = other.found.device.expected < mine_held
        return less and self.seconds <= _ALIKE * other.seconds and not frees

    def rank(self, fastest: float) -> tuple[object, ...]:
        """What is safe comes first, what gives up least, what is fastest; ties go to the simpler division.

        What needs more of its host than this usually has is as doubtful as what is not safe.

        Whatever may fit on the GPUs that are there stands before more or larger ones, and of these the fewest.

        Matrices that are split across GPUs without fast links come after quantized weights.

        Methods whose steps take about as long as the fastest of the tier, so that the cost model cannot tell them
        apart, stand in an expert's order.
        """
        order = round(self.seconds, 6) if self.safe else self.found.device.high
        further = self.tier == "hardware"
        pace = int(log(self.seconds / fastest) / log(USUAL_SPREAD[1])) if self.safe else 0
        pace = self.asked.gpus if further else pace
        tier = _ORDER.index("quantized" if self.strains and self.tier in ("states", "method") else self.tier)
        doubtful, late = self.spills + (not self.safe and not self.bold), self.strains or self.bold
        return further, doubtful, tier, late, pace, self.method, order, self.division.dimensions


def _ranked(found: Sequence[Candidate]) -> list[Candidate]:
    """Best first; what gives up more than another, takes as long and frees nothing is no choice.

    Nor is a second method that changes nothing of a job, as adapters at all linear layers where only attention has any.
    """
    found = _with_far_faster(list({each.outcome: each for each in reversed(found)}.values())[::-1])
    usual = [each for each in found if not each.bold]
    fastest = {tier: min(each.seconds for each in usual if each.tier == tier) for tier in {each.tier for each in usual}}
    return sorted(
        (each for each in found if not any(other.beats(each) for other in found)),
        key=lambda each: each.rank(fastest.get(each.tier, each.seconds)),
    )


def _with_far_faster(found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates; those with less headroom that are far faster than every safe one are marked as bold."""
    safe = min((each.seconds for each in found if each.safe and each.tier not in _LESS), default=0.0)
    return [
        replace(each, bold=True) if not each.safe and each.tier not in _LESS and each.seconds * _FAR < safe else each
        for each in found
    ]


@dataclass(frozen=True, slots=True)
class Frame:
    """A job with a way and a method, to be divided."""

    asked: Asked
    way: Way
    method: Method
    rows: tuple[Knob, ...]
    """Rows of the method, as they apply to the job."""
    transfer: Knob | None = None
    extra: tuple[Knob, ...] = ()
    tier: str = ""

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Return rows that it applies, but for free ones and degrees."""
        return (*self.extra, *self.rows, *((self.transfer,) if self.transfer else ()))


@dataclass
class Tries:
    """What came of the divisions of a frame."""

    found: list[Candidate] = field(default_factory=list)
    """The safe ones."""
    free: tuple[Knob, ...] | None = None
    """What costs nothing in them."""
    failed: list[tuple[float, Division]] = field(default_factory=list)
    """Those that are not safe, with the share of a GPU's memory that they need."""
    close: list[tuple[Division, Estimate]] = field(default_factory=list)
    """Of these, those whose tensors fit."""
    passed: list[tuple[float, Division]] = field(default_factory=list)
    """Those that were not tried, with the least share that they need."""
    rivals: Sequence[Candidate] = ()
    """Safe plans that give up less."""

    def fails(self, division: Division, room: float) -> bool:
        """Return whether a failed division shows that this one needs more than `room`, a fraction of memory."""
        bound = max((need / other.gain(division) for need, other in self.failed), default=0.0)
        self.passed += [(bound, division)] if bound > 1 else []
        return bound > room


@dataclass
class Trainings:
    """A search for plans of one job."""

    asked: Asked
    bench: Bench
    tiers: Sequence[str]
    tried: dict[str, list[Estimate]] = field(default_factory=dict)
    """What was tried and is not safe on the GPUs that the job has, by the tier of the method, or of the transfer."""
    elsewhere: list[Estimate] = field(default_factory=list)
    """The same on the hardware that was tried last."""
    full: bool = False
    """All weights are to be trained: no method with adapters is a choice."""
    trains_all: bool = False
    """A plan that gives up little trains all weights."""

    @property
    def leanest(self) -> Estimate | None:
        """Of what was tried, the estimate that needs least."""
        return self.bench.leanest([each for tried in self.tried.values() for each in tried])

    def candidates(self) -> Iterator[list[Candidate] | None]:
        """Yield everything found, best first, after every tier and in the end; None after every estimate.

        What is safe of a tier stands before whatever later ones find. What takes less work or more hardware is found
        only where nothing else fits.
        """
        found: list[Candidate] = []
        try:
            for tier in self.tiers:
                if tier == "transfer" and (yield from self._is_settled(found)):
                    continue
                yield from gathered(found, self._of_tier(tier, tuple(found)))
                yield _ranked(found)
            if sum(each.safe for each in _ranked(found)) < FEW:
                yield from gathered(found, self._roomier(_ranked(found)))
        except SpentError:
            pass
        most = _LAST if found else 3 * _LAST
        methods = [
            method for method in ("same", "quantized") if method == "same" or (not found and method in self.tiers)
        ]
        if not any(each.safe and each.tier in ("same", "states") for each in found):
            for method in methods:
                yield from at_last(self.bench, found, self._larger(method), most)
                yield from at_last(self.bench, found, self._more_hardware(method), most)
        if not any(each.safe and each.tier not in _LESS for each in found):
            yield from at_last(self.bench, found, self._less_work(), most)
        for method in methods:
            if not found:
                yield from at_last(self.bench, found, self._more_of_larger(method), most)
        yield _ranked(found)

    def _is_settled(self, found: Sequence[Candidate]) -> Pieces[bool]:
        """Return whether nothing needs the host: there is a choice without it, or the job needs little of its GPUs."""
        if not any(each.tier == "same" and each.safe for each in found):
            return False
        asked = yield from self.bench.at(self.asked.config)
        small = isinstance(asked, Estimate) and 2 * asked.allocated.expected < (asked.capacity or 0)
        return small or sum(each.safe for each in _ranked(found)) >= FEW

    def _roomier(self, found: Sequence[Candidate]) -> Iterator[Candidate | None]:
        """Yield the best plans with as much checkpointing as there is: what that frees is good for longer sequences."""
        for each in found[:FEW]:
            degrees = each.way.degrees
            if not each.safe or not degrees or degrees[-1] in each.knobs:
                continue
            given = each.asked.config
            if any(given.get(path) not in values for path, values in degrees[-1].when.items()):
                continue
            again = yield from self.bench.with_(each.found.job.config, degrees[-1].to)
            if isinstance(again, Estimate):
                knobs = (*(knob for knob in each.knobs if knob not in degrees), degrees[-1])
                seconds, safe = self.bench.cost(again).seconds, self.bench.safe(again)
                yield replace(each, knobs=knobs, found=again, seconds=seconds, safe=safe)

    def _of_tier(self, tier: str, earlier: Sequence[Candidate]) -> Iterator[Candidate | None]:
        """Several divisions where the result is the same; of other methods what the first way gives that is a choice.

        Where nothing fits on the GPUs alone, quantized weights may go to the host too.
        """
        spare = not any(each.safe for each in earlier)
        job = yield from self._job()
        done: set[int] = set()
        loops: set[tuple[int, object]] = set()
        safe = False
        more: list[set[str]] = []
        for frame in self._frames(tier, job, spare=spare):
            if (tier != "same" and id(frame.method) in done) or (frame.method.narrow and (safe or not spare)):
                continue
            loop = (id(frame.method), frame.way.settings.get(EngineSettings.type))
            titles = {each.title for each in frame.rows}
            if loop in loops or any(titles < each for each in more):
                continue  # another loop of the same engine has a plan; or more changes were not enough
            found = yield from self._divided(frame, 1 if done or tier != "same" else _FITTING, earlier)
            yield from found
            safe |= any(each.safe for each in found)
            more += [titles] if frame.method.narrow else []
            if EngineSettings.framework in frame.way.settings and any(each.safe for each in found):
                loops.add(loop)
            if any(each.safe and not any(other.beats(each) for other in earlier) for each in found):
                done.add(id(frame.method))
                self.trains_all |= tier != "same" and not any(Training.adapter.type in each.to for each in frame.knobs)

    def _frames(self, tier: str, job: Job, *, spare: bool) -> Iterator[Frame]:
        moved = ("same", "quantized") if spare and "quantized" in self.tiers else ("same",)
        for method in METHODS:
            wanted = method.tier in (moved if tier == "transfer" else (tier,)) and not (
                method.spare and self.trains_all
            )
            moves = tier == "transfer"
            rows = _rows_of(method, job, self.asked.gpus) if wanted and not (moves and method.near) else None
            if rows is None or self._trains_less(rows) or (tier in ("states", "method") and self._is_hopeless(job)):
                continue
            for way in ways_of(self.asked, spare=moves):
                if not has_code(way, self.asked.config, _merged(rows)):
                    continue
                if moves:
                    said = {**self.asked.config.values, **_merged(rows)}
                    useful = (each for each in way.transfers if _agrees(each, said))
                    yield from (Frame(self.asked, way, method, rows, each, tier=tier) for each in useful)
                else:
                    yield Frame(self.asked, way, method, rows, tier=tier)

    def _is_hopeless(self, job: Job) -> bool:
        """Return whether all GPUs together hold less than the weights alone take in 16 bits."""
        whole = job.config[Training.quantization] is None
        return whole and job.capacity is not None and 2 * job.model.parameters > job.capacity * self.asked.gpus

    def _job(self) -> Pieces[Job]:
        found = yield from self.bench.at(self.asked.config)
        assert isinstance(found, Estimate)  # noqa: S101 - whoever asks has estimated it
        return found.job

    def _divided(self, frame: Frame, enough: int, earlier: Sequence[Candidate] = ()) -> Pieces[list[Candidate]]:
        """Return the best degree of each of the first divisions that are safe; else some that fit as expected.

        `earlier` are plans that give up less.
        """
        tries = Tries(rivals=[each for each in earlier if each.safe])
        with suppress(SpentError):  # what was found by then is kept; who asks for more hears of it
            yield from self._tried(frame, enough, tries)
            yield from self._leanest_of(frame, tries)
        if tries.found or tries.free is None:
            return self._with_bold(frame, tries) if tries.found else []
        tight = ((division, lean) for division, lean in tries.close if self.bench.holds(lean))
        knobs = (*tries.free, frame.way.degrees[-1])
        return [self._candidate(frame, division, knobs, lean) for division, lean in islice(tight, _FITTING)]

    def _with_bold(self, frame: Frame, tries: Tries) -> list[Candidate]:
        """Return the safe divisions; the last gives way to one with less headroom whose steps take far less time."""
        safe = sorted(tries.found, key=lambda each: each.seconds)
        if frame.tier == "same" and tries.free is not None:
            fast = [each for each in tries.close if self.bench.cost(each[1]).seconds * _FAR < safe[0].seconds]
            division, lean = min(fast, key=lambda each: self.bench.cost(each[1]).seconds, default=(None, None))
            if division is not None and lean is not None and self.bench.holds(lean):
                knobs = (*tries.free, frame.way.degrees[-1])
                bold = replace(self._candidate(frame, division, knobs, lean), bold=True)
                return [*safe[: _FITTING - 1], bold]
        return tries.found

    def _tried(self, frame: Frame, enough: int, tries: Tries) -> Pieces[None]:
        """Try divisions until enough are found."""
        last, refused = self.bench.count + _EACH_FRAME, 0
        for division in divisions(frame.asked, frame.way):
            spent = self.bench.count > last or refused > _REFUSED
            # on other hardware one division is enough: once one fits tightly, only a safe one is better
            room = 1 - self.bench.headroom if frame.extra and tries.close else 1.0
            if spent or self._is_idle(frame, division, tries.close) or tries.fails(division, room):
                continue
            if tries.free is None:
                tries.free = yield from self._free(frame, division)
            if tries.free is None:
                refused += 1
                continue
            lean = yield from self._lean(frame, division, tries.free)
            if lean is None or (yield from self._is_beaten(frame, division, tries, lean)):
                continue
            if frame.transfer is not None and not fits_a_node(lean):
                tries.passed.clear()  # whatever divides the job, a node holds as much
                return
            best = yield from self._best(frame, division, tries, lean)
            if best is not None and len(tries.found) >= enough + _LIGHTER * self._may_lighten(frame, best):
                return

    def _is_beaten(self, frame: Frame, division: Division, tries: Tries, lean: Estimate) -> Pieces[bool]:
        """Return, without recording a step, whether a plan that gives up less beats this division anyway.

        What stays from step to step is no less than all that the other plan needs, and the fastest degree is no faster.
        """
        least = max(rank.least for rank in lean.ranks)
        rivals = [each for each in tries.rivals if not each.strains and each.found.device.low <= least]
        if not rivals:
            return False
        micro_batch = max(frame.asked.micro_batch, 1)
        fast = yield from self._degree(frame, division, tries.free or (), frame.way.degrees[0], micro_batch)
        seconds = 0.0 if fast is None else self.bench.fastest(fast)
        return any(each.seconds <= _ALIKE * seconds for each in rivals)

    def _lean(self, frame: Frame, division: Division, free: tuple[Knob, ...]) -> Pieces[Estimate | None]:
        """The estimate with most checkpointing: of the micro-batch as asked for if that has room, else of one sequence.

        Steps of several micro-batches take longer to record. Of other hardware the least is looked for.
        """
        if division.stages == 1 and frame.asked.micro_batch > 1 and not frame.extra:
            whole = yield from self._degree(frame, division, free, frame.way.degrees[-1], frame.asked.micro_batch)
            if whole is not None and self.bench.roomy(whole):
                return whole
        return (yield from self._degree(frame, division, free, frame.way.degrees[-1], 1))

    def _best(self, frame: Frame, division: Division, tries: Tries, lean: Estimate) -> Pieces[Candidate | None]:
        """Return the fastest degree of a division that is safe; None, and why, is kept too."""
        need, free = self.bench.need(lean) / max(lean.capacity or 0, 1), tries.free or ()
        best = (yield from self._fastest(frame, division, free)) if need <= 1 - self.bench.headroom else None
        if best is not None:
            tries.found.append(best)
            return best
        self._remember(frame, lean)
        tries.failed.append((need, division))
        tries.close += [(division, lean)] if need <= 1 else []
        return None

    def _leanest_of(self, frame: Frame, tries: Tries) -> Pieces[None]:
        """Where nothing fits, remember the division that may need least of those that were passed over."""
        if tries.free is None or tries.found or tries.close or not tries.passed:
            return
        bound, division = min(tries.passed, key=lambda each: each[0])
        if bound < min(need for need, _ in tries.failed):
            lean = yield from self._degree(frame, division, tries.free, frame.way.degrees[-1], 1)
            if lean is not None:
                self._remember(frame, lean)

    def _may_lighten(self, frame: Frame, best: Candidate) -> bool:
        """Return whether more stages over nodes may save the recomputation that a plan with experts needs."""
        asked = frame.asked
        heavy = frame.way.degrees[-1] in best.knobs
        return heavy and frame.tier == "same" and asked.experts > 1 and asked.gpus > asked.node

    def _is_idle(self, frame: Frame, division: Division, close: Sequence[tuple[Division, Estimate]]) -> bool:
        """Whether a pipeline is one too many: more hardware is a choice, and without stages the job just fits on it."""
        if not frame.extra or division.stages == 1:
            return False
        return any(other.stages == 1 and self.bench.holds(lean) for other, lean in close)

    def _remember(self, frame: Frame, lean: Estimate) -> None:
        """Keep what was tried on the GPUs that the job has, and on those that are tried now."""
        tier = frame.method.tier if frame.transfer is None else frame.tier
        (self.elsewhere if frame.extra else self.tried.setdefault(tier, [])).append(lean)

    def _needs(self, tried: Sequence[Estimate]) -> int:
        """Return the least memory of tensors among some estimates; 0 if there are none."""
        least = self.bench.leanest(tried)
        return 0 if least is None else least.allocated.expected

    def _free(self, frame: Frame, division: Division) -> Pieces[tuple[Knob, ...] | None]:
        """Return everything that costs nothing, with what engines need for a method; None if a frame is refused."""
        config, settings = frame.asked.config, self._settings(frame, division, 1)
        for needed in _needed(frame):
            plain = yield from self.bench.with_(config, {**settings, **_merged(needed)})
            if isinstance(plain, Estimate):
                break
        else:
            return None
        free = (*needed, *_free_of(plain.job, frame.way))
        if (yield from self.bench.with_(plain.job.config, _merged(free))) is not None:
            return free
        kept: tuple[Knob, ...] = needed
        for knob in free[len(needed) :]:
            if (yield from self.bench.with_(plain.job.config, _merged((*kept, knob)))) is not None:
                kept = (*kept, knob)
        return kept

    def _settings(self, frame: Frame, division: Division, size: int) -> dict[str, object]:
        """Return all that a frame sets in a division, but for what is free and for checkpointing."""
        return {
            **frame.way.settings,
            **frame.asked.settings(division, size, frame.way),
            **_merged(frame.knobs),
        }

    def _degree(
        self, frame: Frame, division: Division, free: tuple[Knob, ...], degree: Knob, size: int
    ) -> Pieces[Estimate | None]:
        """Return the estimate with a degree of checkpointing and a micro-batch."""
        given = {path: (frame.asked.config.get(path),) for path in degree.when}
        applies = all(given[path][0] in values for path, values in degree.when.items())
        suited = _merged(_suited(free, division))
        changes = {**self._settings(frame, division, size), **suited, **(degree.to if applies else {})}
        found = yield from self.bench.with_(frame.asked.config, changes)
        return found if isinstance(found, Estimate) else None

    def _fastest(self, frame: Frame, division: Division, free: tuple[Knob, ...]) -> Pieces[Candidate | None]:
        """Return the fastest degree of checkpointing and micro-batch that is safe.

        Of those whose tensors leave the headroom the fastest mostly is; only where it is not, all others are asked.
        """
        for able in (self.bench.roomy, self.bench.safe):
            found = yield from self._able(frame, division, free, able)
            if not found:
                return None
            _, degree, best = min(found, key=lambda each: (self.bench.cost(each[-1]).per_token, -each[0]))
            if self.bench.safe(best):
                return self._candidate(frame, division, (*free, degree), best)
        return None

    def _able(
        self, frame: Frame, division: Division, free: tuple[Knob, ...], able: Callable[[Estimate], bool]
    ) -> Pieces[list[tuple[int, Knob, Estimate]]]:
        """Micro-batches and degrees of checkpointing that are able to run.

        Without stages larger micro-batches and less that is computed twice are never slower and never need less memory:
        what is able makes slower ones needless, and what is not makes larger ones so.
        """
        kept: list[tuple[int, Knob, Estimate]] = []
        fails: set[str] = set()
        for size in sorted({frame.asked.micro_batch, 1}):
            for degree in frame.way.degrees:
                if division.stages == 1 and (degree.title in fails or any(size == each for each, *_ in kept)):
                    continue
                if division.stages == 1 and degree is frame.way.degrees[-1] and size < frame.asked.micro_batch:
                    whole = yield from self._degree(frame, division, free, degree, frame.asked.micro_batch)
                    if whole is not None and able(whole):
                        continue
                found = yield from self._degree(frame, division, free, degree, size)
                if found is None or not able(found):
                    fails.add(degree.title)
                elif not any(each is found for *_, each in kept):
                    kept.append((size, degree, found))
        return kept

    def _candidate(self, frame: Frame, division: Division, knobs: tuple[Knob, ...], found: Estimate) -> Candidate:
        """Return a config with the rows that it is made of."""
        rows = (*(each for each in _suited(knobs, division) if each.to), *frame.knobs)
        seconds, safe = self.bench.cost(found).seconds, self.bench.safe(found)
        place, spills = METHODS.index(frame.method), frame.transfer is not None and self.bench.spills(found)
        return Candidate(
            frame.tier, frame.way, division, rows, found, seconds, safe, frame.asked, place, spills=spills
        )  # fmt: skip

    def _more_hardware(self, method: str) -> Iterator[Candidate | None]:
        """Yield the least GPUs of the same kind on which the job fits with a method."""
        job = yield from self._job()
        yield from self._more_of(None, job.capacity or 1, method)

    def _more_of_larger(self, method: str) -> Iterator[Candidate | None]:
        """Yield the least GPUs of the largest kind."""
        job = yield from self._job()
        knob = max(larger(job.capacity or 0, job.accelerator), key=usable_of, default=None)
        if knob is not None:
            yield from self._more_of(knob, usable_of(knob), method)

    def _more_of(self, kind: Knob | None, capacity: int, method: str) -> Iterator[Candidate | None]:
        gpus, need = self.asked.gpus, self._needs(self.tried.get(method, ()))
        tight: Candidate | None = None
        for more in (self.asked.gpus * 2**power for power in range(1, _DOUBLINGS)):
            if (more % self.asked.node and more > self.asked.node) or need * gpus > capacity * more:
                continue  # n times the GPUs need at least an n-th each
            knob = Knob(
                title=Message("{} GPUs", more) if kind is None else Message("{} × {}", more, kind.title),
                to={**({} if kind is None else kind.to), Hardware.num_gpus: more},
                why="more hardware",
                source="hardware/num_gpus",
            )
            found = yield from self._first(self.asked.on(more), (knob,), "hardware", method)
            if found is not None and found.safe:
                yield found
                return
            if tight is not None:
                break  # twice as many GPUs as those on which it just fits are the last that are tried
            tight = found
            gpus, need = (more, self._needs(self.elsewhere)) if self.elsewhere else (gpus, need)
        yield tight

    def _larger(self, method: str) -> Iterator[Candidate | None]:
        """Yield the smallest larger GPU on which the job fits with a method."""
        job = yield from self._job()
        need = self._needs(self.tried.get(method, ()))
        for knob in larger(max(job.capacity or 0, need), job.accelerator):
            if need > usable_of(knob):
                continue  # a larger one needs about as much
            found = yield from self._first(self.asked, (knob,), "hardware", method)
            if found is not None and found.safe:
                yield found
                return
            need = self._needs(self.elsewhere) or need

    def _less_work(self) -> Iterator[Candidate | None]:
        """Yield the longest sequence, halved as often as it takes, that fits with a method that the goal allows."""
        length = self.asked.length // 2
        while length >= _SHORTEST:
            knob = Knob(
                title=Message("Sequences of {:,} tokens", length),
                to={Training.sequence_length: length},
                why="activations grow with the sequence",
                quality="the model sees less context",
                source="training/sequence_length",
            )
            for tier in self.tiers:
                found = yield from self._first(self.asked, (knob,), "work", tier)
                if found is not None and found.safe:
                    yield found
                    return
            length //= 2

    def _first(
        self, asked: Asked, extra: tuple[Knob, ...], tier: str, method: str = "same"
    ) -> Pieces[Candidate | None]:
        """Return the first candidate of any way with some further changes; for less work, one that is safe."""
        job = yield from self._job()
        self.elsewhere.clear()
        for frame in self._frames_for(asked, job, extra, tier, method):
            found = yield from self._divided(frame, 1)
            if found and (tier != "work" or found[0].safe):
                return found[0]
        return None

    def _frames_for(self, asked: Asked, job: Job, extra: tuple[Knob, ...], tier: str, method: str) -> Iterator[Frame]:
        """Yield a job with further changes in every way and method of a tier; of the host's, quantized weights too."""
        moves = method == "transfer"
        for each in METHODS:
            wanted = each.tier in (("same", "quantized") if moves else (method,)) and not (moves and each.near)
            rows = _rows_of(each, job, asked.gpus) if wanted else None
            if rows is None or self._trains_less(rows):
                continue
            for way in ways_of(asked, spare=moves):
                if has_code(way, asked.config, _merged(rows)):
                    said = {**asked.config.values, **_merged(rows)}
                    transfers = [knob for knob in way.transfers if _agrees(knob, said)] if moves else [None]
                    yield from (Frame(asked, way, each, rows, knob, extra, tier) for knob in transfers)

    def _trains_less(self, rows: Sequence[Knob]) -> bool:
        """Return whether rows train adapters where all weights are to be trained."""
        return self.full and any(Training.adapter.type in each.to for each in rows)


_DOUBLINGS, _SHORTEST = 11, 512
_LAST, _EACH_FRAME = 40, 32
"""Estimates for the last resorts, whatever was spent before, and for one frame."""
_LIGHTER = 2
"""Further divisions that are looked at where all that fit compute layers twice."""
_REFUSED = 4
"""Divisions in which a way may refuse a method before it is taken to refuse it in all."""


def _merged(knobs: Sequence[Knob]) -> dict[str, object]:
    """Return what several changes set together; later ones win."""
    return {path: value for knob in knobs for path, value in knob.to.items()}


def _needed(frame: Frame) -> Iterator[tuple[Knob, ...]]:
    """Yield what a method may need besides its own rows, what frees most first.

    Quantized experts have no adapters (axolotl, docs/expert_quantization.qmd: `lora_target_linear` is not compatible).
    """
    experts, rows = frame.way.experts, _merged(frame.rows)
    everywhere = rows.get(Training.adapter.target_modules, frame.asked.config[Training.adapter.target_modules])
    if experts is not None and frame.asked.experts > 1 and Training.quantization in rows and everywhere != "all-linear":
        yield (experts,)
    for more in frame.method.alternatives:
        yield (Knob(title="", to=more, why="", source=""),) if more else ()


def _suited(knobs: Sequence[Knob], division: Division) -> tuple[Knob, ...]:
    """Return the rows that say something in a division."""

    def is_divided(by: str) -> bool:
        return bool(getattr(division, by) > 1)

    return tuple(
        each
        for each in knobs
        if (not each.needs or is_divided(each.needs)) and not (each.unless and is_divided(each.unless))
    )


def _free_of(job: Job, way: Way) -> Iterator[Knob]:
    """Yield rows that cost nothing and apply to a job."""
    own = [each for each in (_row_of(knob, job) for knob in way.free) if each is not None]
    yield from own
    for row in CHANGES:
        new = row.kind == "free" and _merged(own).keys().isdisjoint(row.to or ()) and not _is_lost_on(row, job)
        for changes in applicable(row, job) if new else ():
            yield Knob(title=row.title, to=changes, why=row.note, source="")


def _is_lost_on(row: Change, job: Job) -> bool:
    """Return whether a fused loss takes more than it saves: it holds the head's gradient from the forward pass on.

    Two bytes a weight (liger_kernel, ops/fused_linear_cross_entropy.py, `grad_weight`) against twelve a logit: in
    16 bits and in fp32, each with its gradient (transformers, loss/loss_utils.py).
    """
    trains_head = job.config[Training.adapter.type] is None
    tokens, width = job.sizes["b"] * job.sizes["s"], job.sizes["h"]
    return Training.loss in (row.to or ()) and trains_head and 12 * tokens < 2 * width


def _rows_of(method: Method, job: Job, gpus: int) -> tuple[Knob, ...] | None:
    """Return the rows of a method with all that they set of a job on some GPUs; None if one of them does not apply."""
    found = [_row_of(knob, job) if gpus == 1 or not knob.alone else None for knob in method.knobs]
    rows = tuple(each for each in found if each is not None)
    return rows if len(rows) == len(found) else None


def _row_of(knob: Knob, job: Job) -> Knob | None:
    """Return a row with all that it sets of a job; None if it does not apply."""
    own = {} if knob.made is None else knob.made(job)
    if own is None or not _applies(knob, job):
        return None
    return replace(knob, to={**knob.to, **own}) if own else knob


def _agrees(knob: Knob, said: Mapping[str, object]) -> bool:
    """Return whether a row applies next to what a job and its method say."""
    return all(said.get(path) in values for path, values in knob.when.items())


def _applies(knob: Knob, job: Job) -> bool:
    return all(value_of(job.config, job.assumptions, path) in values for path, values in knob.when.items())
