"""Plans of servers: formats of weights and caches, steps, ranks, layers on the host, composed and estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from memcore import registry
from memcore.config.defaults import value_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import TIERS, Knob
from memcore.config.settings import Config
from memcore.dtypes import FLOATING
from memcore.messages import Message
from memcore.questions.advising.server_changes import made
from memcore.questions.planning.bench import FEW, Bench, SpentError, at_last, gathered, larger, usable_of
from memcore.questions.planning.server_layouts import division_of, layouts, replicas
from memcore.questions.roofline import Roofline
from memcore.questions.solving import Pieces
from memcore.records import dataclass
from memcore.serving.changes import Becomes, ServerChange
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.job import server_of
from memcore.serving.quantized import LIKE_AWQ, repository

_ORDER = tuple(TIERS)
_SHORTEST, _MOST_RANKS = 512, 64
_LEANER = 8
"""How much more a cache may hold with other formats: half the bytes for each token, and room that weights leave."""
_LAST = 80
"""Further estimates while more hardware is looked for; three times as many if nothing fits."""


_FEW_USERS = 4
"""Users whom layers on the host serve at most: llama.cpp's published rates with them are of no more."""
_NODE = 8
"""GPUs of a node, as a larger GPU is rented where one is too few."""
_Start = tuple[tuple[Knob, ...], ServingEstimate]
"""A layout as a change, and the server in it."""
_Found = tuple[ServingEstimate, tuple[Knob, ...]]
"""A server, and the changes that lead to it."""


@dataclass(frozen=True, slots=True)
class Served:
    """A complete config of a server with its estimate, and the rows that it is made of.

    Formats of fewer bits do less harm than what slows every step: vLLM's recipes name an FP8 checkpoint before they
    turn CUDA graphs off.
    """

    tier: str
    knobs: tuple[Knob, ...]
    found: ServingEstimate
    harm: int
    last: bool = False
    """Its weights have so few bits that layers on the host come first."""

    @property
    def division(self) -> str:
        """Return how it is divided among GPUs."""
        return division_of(self.found.job.basics.layout)


@dataclass
class Servings:
    """A search for plans of one server."""

    asked: Config
    first: ServingEstimate
    bench: Bench
    tiers: Sequence[str]
    leanest: ServingEstimate | None = None
    """What has most room of what was tried on the GPUs that there are, and does not fit."""
    least_weights: int = 0
    """Bytes of all weights in the format that takes least, of what does not fit."""
    least_cache: int = 0
    """Bytes of the cache that holds what is asked, of all ranks, in the format and layout that takes least of it."""

    def candidates(self) -> Iterator[list[Served] | None]:
        """Yield everything found, best first, in the end; None after every estimate.

        More hardware is looked for until there is a choice, less work where nothing else fits.
        """
        found: list[Served] = []
        try:
            yield from gathered(found, self._composed(self.asked, ()))
            yield from gathered(found, self._replicated(found))
            if "transfer" in self.tiers:
                named = self.asked[EngineSettings.type]
                others = [each for each in registry.SERVERS if each != named]
                yield from gathered(found, self._on_host(others if named is None else (named,)))
                if named is not None and self.first.users <= _FEW_USERS and self._too_heavy(found):
                    yield from gathered(found, self._on_host(others))
            if sum(self.bench.safe(each.found) for each in found) < FEW:
                yield from gathered(found, self._others(tuple(found)))
        except SpentError:
            pass
        most = _LAST if found else 3 * _LAST
        if sum(self.bench.safe(each.found) for each in found) < FEW:
            yield from at_last(self.bench, found, self._more_hardware(), most)
        if not any(each.tier != "hardware" for each in found):
            yield from at_last(self.bench, found, self._less_work(), most)
        once = {str(sorted(each.found.job.config.values.items())): each for each in reversed(found)}
        yield sorted(once.values(), key=self._place)

    def _place(self, each: Served) -> tuple[object, ...]:
        """Whatever may fit on the GPUs that are there stands before more hardware, what is safe before what is not.

        Layers on the host are for a few users, and for hosts that have the room: else they stand behind more hardware.
        """
        waits = each.tier == "transfer" and (each.found.users > _FEW_USERS or self.bench.spills(each.found))
        safe = self.bench.safe(each.found)
        return waits, each.tier == "hardware", not safe, each.last, _ORDER.index(each.tier), each.harm

    def _composed(self, config: Config, extra: tuple[Knob, ...], tier: str = "") -> Iterator[Served | None]:
        """For each format of weights the least harmful changes with which the server takes what is asked."""
        starts = yield from self._starts(config)
        if not starts:
            return
        base = starts[0][1]
        weights = [(), *((row,) for row in _rows(base, is_weights))]
        caches = [(), tuple(_rows(base, is_cache))]
        steps = [(), tuple(_rows(base, lambda row: row.kind == "latency"))]
        if "quantized" not in self.tiers:
            weights, caches = weights[:1], caches[:1]
        fits = False
        for number, chosen in enumerate(weights):
            if chosen and chosen[0].spare and (fits or tier):
                break
            if (yield from self._is_heavy(starts, chosen)):
                continue
            tight: Served | None = None
            for step, cache in product(steps, caches):
                found = yield from self._best(starts, (*chosen, *cache, *step))
                if found is None:
                    continue
                found = yield from self._spared(found, starts, (*chosen, *cache), step)
                slows, rounds = steps.index(step), number * len(caches) + caches.index(cache)
                served = Served(
                    tier=tier or ("quantized" if chosen or cache else "same"),
                    knobs=(*extra, *found[1]),
                    found=found[0],
                    harm=slows * len(weights) * len(caches) + rounds,
                    last=any(row.spare for row in chosen),
                )
                if self.bench.safe(found[0]):
                    fits = True
                    tight = None if tight is not None and tight.tier == served.tier else tight
                    yield served
                    break
                tight = tight or served
            if tight is not None:
                yield tight

    def _spared(
        self, found: _Found, starts: Sequence[_Start], rows: Sequence[ServerChange], steps: Sequence[ServerChange]
    ) -> Pieces[_Found]:
        """Return the server without changes of its steps that safety does not need, those of the server's own first.

        All were tried at once: where they help, few of them are needed.
        """
        for row in steps:
            fewer = tuple(each for each in steps if each is not row)
            then = (yield from self._best(starts, (*rows, *fewer))) if fewer else None
            if then is not None and self.bench.safe(then[0]) >= self.bench.safe(found[0]):
                found, steps = then, fewer
        return found

    def _is_heavy(self, starts: Sequence[_Start], chosen: Sequence[ServerChange]) -> Pieces[bool]:
        """Return whether weights alone are too large in every layout, so that no smaller cache helps."""
        for _, base in starts:
            found = yield from self._climbed(base, chosen)
            if found is not None and found[0].ledger.sum("weights") <= (found[0].capacity or 0):
                return False
            if found is not None:
                self._remember(found[0])
        return True

    def _best(self, starts: Sequence[_Start], rows: Sequence[ServerChange]) -> Pieces[_Found | None]:
        """Return the first layout that is safe with some rows, else the first that fits as expected."""
        tight: _Found | None = None
        for knobs, base in starts:
            found = yield from self._climbed(base, rows)
            if found is None:
                continue
            whole = found[0], (*knobs, *found[1])
            if self.bench.safe(found[0]):
                return whole
            if self.bench.holds(found[0]):
                tight = tight or whole
            else:
                self._remember(found[0])
                self._remember_cache(found[0])
        return tight

    def _starts(self, config: Config) -> Pieces[list[_Start]]:
        """The server on all GPUs that there are: in the simplest layout, then in those with more room than all before.

        vLLM's recipes have tensor parallelism, then data-parallel attention on all ranks (vllm-project/recipes,
        strategies/single_node_tp.yaml and single_node_dep.yaml); those in between sometimes have more room than either.
        """
        plain = yield from self.bench.with_(config, {})
        if not isinstance(plain, ServingEstimate):
            return []
        gpus = config[Hardware.num_gpus] or 1
        found: list[_Start] = []
        for knob in () if gpus == 1 or config.below("parallelism") else layouts(config, plain, gpus):
            divided = yield from self.bench.with_(config, knob.to)
            if isinstance(divided, ServingEstimate):
                found.append(((knob,), divided))
        if not found:
            return [((), plain)]
        starts = found[:1]
        for each in found[1:]:
            if all(_room(each[1]) > _room(one[1]) for one in starts):
                starts.append(each)
        return starts

    def _replicated(self, found: Sequence[Served]) -> Iterator[Served | None]:
        """Yield what is safe as it was asked for, in the smallest copies that are safe too."""
        gpus = self.asked[Hardware.num_gpus] or 1
        whole = next((each for each in found if each.tier == "same" and self.bench.safe(each.found)), None)
        if whole is None or gpus == 1 or self.asked.below("parallelism"):
            return
        for knob in replicas(whole.found, gpus):
            copies = yield from self.bench.with_(whole.found.job.config, knob.to)
            if isinstance(copies, ServingEstimate) and self.bench.safe(copies):
                rest = tuple(each for each in whole.knobs if not set(each.to) & set(knob.to))
                yield Served("same", (knob, *rest), copies, whole.harm + 1)
                return

    def _others(self, found: Sequence[Served]) -> Iterator[Served | None]:
        """Yield what is safe as it was asked for in another layout, with a smaller cache, in a better format."""
        whole = next((each for each in found if each.tier == "same" and self.bench.safe(each.found)), None)
        if whole is None:
            return
        starts = yield from self._starts(self.asked)
        for knobs, base in starts[1:]:
            if self.bench.safe(base) and base.job.config != whole.found.job.config:
                yield Served("same", knobs, base, whole.harm + 1)
        if "quantized" in self.tiers:
            rows = tuple(_rows(whole.found, is_cache))
            smaller = (yield from self._climbed(whole.found, rows)) if rows else None
            if smaller is not None and self.bench.safe(smaller[0]) and _room(smaller[0]) > _room(whole.found):
                yield Served("quantized", (*whole.knobs, *smaller[1]), smaller[0], 0)
            yield from self._better(whole)

    def _better(self, whole: Served) -> Iterator[Served | None]:
        """Yield a server whose format nobody named in the one with most bits that is safe.

        Up to 8 bits: llama.cpp measures no loss with these (tools/quantize/README.md).
        """
        given = next((each for each in whole.found.assumptions if each.path == Inference.quantization), None)
        formats = whole.found.job.server.formats
        if given is None or given.value not in formats:
            return
        for name in formats[: formats.index(str(given.value))]:
            if name in FLOATING:
                continue
            found = yield from self.bench.with_(whole.found.job.config, {Inference.quantization: name})
            if isinstance(found, ServingEstimate) and self.bench.safe(found):
                knob = Knob(
                    title=Message("weights in {}", name),
                    to={Inference.quantization: name},
                    why="the most bits that fit, up to 8",
                    quality=Message("weights are stored as {}", name),
                    source="assumed",
                )
                yield Served("same", (*whole.knobs, knob), found, whole.harm + 1)
                return

    def _climbed(self, found: ServingEstimate, rows: Sequence[ServerChange]) -> Pieces[_Found | None]:
        """Return the server with some rows, and with all that costs nothing if it needs that."""
        knobs: tuple[Knob, ...] = ()
        free = tuple(_rows(found, lambda row: row.kind == "free"))
        for row in (*rows, *free):
            if row in free and self.bench.safe(found):
                break
            changes = next((as_stored(each, found) for each in made(row, found)), None)
            then = None if changes is None else (yield from self.bench.with_(found.job.config, changes))
            if changes is not None and isinstance(then, ServingEstimate):
                if row not in free or _room(then) > _room(found) or self.bench.safe(then):
                    found, knobs = then, (*knobs, knob_of(row, dict(changes)))
            elif row.kind == "precision":
                return None
        return found, knobs

    def _remember(self, found: ServingEstimate) -> None:
        weights = found.ledger.sum("weights") * found.job.basics.layout.gpus
        self.least_weights = min(weights, self.least_weights or weights)
        given = (Hardware.accelerator, Hardware.num_gpus, Inference.max_model_len, Inference.batch_size)
        asked = all(found.job.config.get(path) == self.asked.get(path) for path in given)
        if asked and (self.leanest is None or _room(found) > _room(self.leanest)):
            self.leanest = found

    def _remember_cache(self, found: ServingEstimate) -> None:
        cache = found.needed * found.pool.bytes_each * found.job.basics.layout.gpus if found.pool is not None else 0
        self.least_cache = min(cache, self.least_cache or cache)

    def _cannot_hold(self, capacity: int, gpus: int) -> bool:
        """Return whether weights and the cache, in the formats that take least, are more than some GPUs have."""
        return self.least_weights + self.least_cache > capacity * gpus

    def _on_host(self, servers: Iterable[str]) -> Iterator[Served | None]:
        """Yield the most layers on GPUs with which a server fits, of servers that keep others on the host.

        Weights have so few bits that they lose much only where others are more than the host has room for.
        """
        for server in servers:
            knob = server_of(server).on_gpu
            if knob is None:
                continue
            named = server == self.asked[EngineSettings.type]
            config = self.asked if named else self._as(server)
            base = yield from self.bench.with_(config, {})
            if not isinstance(base, ServingEstimate) or (self.bench.holds(base) and named):
                continue
            if self.bench.safe(base):
                yield Served("quantized", (_format_of(base),), base, 0)
            else:
                yield from self._formats_on_host(base, knob, named=named)

    def _formats_on_host(self, base: ServingEstimate, knob: Knob, *, named: bool) -> Iterator[Served | None]:
        """Yield each format of a server's weights with what does not fit on the host."""
        spills, server = False, base.job.server
        for number, chosen in enumerate([(), *((row,) for row in _rows(base, is_weights))]):
            few = any(row.spare for row in chosen)
            if chosen and ("quantized" not in self.tiers or (few and not spills)):
                continue
            found = yield from self._climbed(base, chosen)
            if found is None or (few and self._overflows(found[0])):
                continue
            best = (yield from self._fewest_experts(*found, server.experts_on_host)) or (
                yield from self._most_layers(*found, knob)
            )
            if best is not None and (named or _is_usable(best[0])):
                kept, spills = () if named or chosen else (_format_of(best[0]),), self.bench.spills(best[0])
                if not (few and spills):
                    yield Served("transfer", (*kept, *best[1], best[2]), best[0], -number, last=few)

    def _overflows(self, found: ServingEstimate) -> bool:
        """Return whether weights are more than the GPUs and their host have room for."""
        room = (found.capacity or 0) * found.job.num_gpus + self.bench.roofline(found).host_room
        return found.ledger.sum("weights") * found.job.num_gpus > room

    def _too_heavy(self, found: Sequence[Served]) -> bool:
        """Return whether weights alone, in the format that takes least, are more than the GPUs hold."""
        capacity = (self.first.capacity or 0) * self.first.job.num_gpus
        return self.least_weights > capacity and not any(self.bench.safe(each.found) for each in found)

    def _as(self, server: str) -> Config:
        """Return what is asked of another server: ranks and formats are its own."""
        cleared = {path: None for path in self.asked.values if path.startswith(("parallelism.", "engine."))}
        formats: dict[str, object] = {
            Inference.quantization: None,
            Inference.kv_cache_dtype: None,
            Inference.max_num_seqs: None,
        }
        return self.asked.changed({**cleared, **formats, EngineSettings.type: server})

    def _most_layers(
        self, found: ServingEstimate, knobs: tuple[Knob, ...], knob: Knob
    ) -> Pieces[tuple[ServingEstimate, tuple[Knob, ...], Knob] | None]:
        (path,) = knob.to
        best = yield from self._last_safe(found.job.config, path, range(found.job.model.num_layers + 2))
        if best is None or best.job.config.get(path) == 0:
            return None
        return best, knobs, replace(knob, to={path: best.job.config.get(path)})

    def _last_safe(self, config: Config, path: str, values: Sequence[int]) -> Pieces[ServingEstimate | None]:
        """The server with the last value that is certain to fit, of values that need more and more of the GPUs."""
        low, high, best = 0, len(values) - 1, None
        while low <= high:
            middle = (low + high + 1) // 2
            then = yield from self.bench.with_(config, {path: values[middle]})
            if isinstance(then, ServingEstimate) and self.bench.safe(then):
                best, low = then, middle + 1
            else:
                high = middle - 1
        return best

    def _fewest_experts(
        self, found: ServingEstimate, knobs: tuple[Knob, ...], knob: Knob | None
    ) -> Pieces[tuple[ServingEstimate, tuple[Knob, ...], Knob] | None]:
        """Return the experts of the fewest layers on the host with which the rest fits; None without experts."""
        if knob is None or not found.job.model.has_experts:
            return None
        (path,) = knob.to
        best = yield from self._last_safe(found.job.config, path, range(found.job.model.num_layers, 0, -1))
        return None if best is None else (best, knobs, replace(knob, to={path: best.job.config.get(path)}))

    def _more_hardware(self) -> Iterator[Served | None]:
        """The fewest GPUs of the same kind, and the smallest larger GPU; that first where a node is not enough."""
        sizes = dict.fromkeys(each for each in self.asked.values if each.startswith("parallelism."))
        if self.least_weights <= _NODE * (self.first.capacity or 0):
            yield from self._more_of_them(sizes)
            yield from self._larger_ones(sizes)
            return
        larger_one = False
        for each in self._larger_ones(sizes):
            larger_one = larger_one or each is not None
            yield each
        if not larger_one:
            yield from self._more_of_them(sizes)

    def _more_of_them(self, sizes: Mapping[str, object]) -> Iterator[Served | None]:
        gpus = max(self.asked[Hardware.num_gpus] or 1, self.first.job.num_gpus)
        while (gpus := gpus * 2) <= _MOST_RANKS:
            if self._cannot_hold(self.first.capacity or 0, gpus):
                continue
            to: dict[str, object] = {**sizes, Hardware.num_gpus: gpus}
            knob = Knob(title=Message("{} GPUs", gpus), to=to, why="more hardware", source="hardware/num_gpus")
            found = yield from _first(self._composed(self.asked.changed(to), (knob,), "hardware"))
            if found is not None and self.bench.safe(found.found):
                yield found
                return

    def _larger_ones(self, sizes: Mapping[str, object]) -> Iterator[Served | None]:
        """Yield as many larger GPUs, else a node of them."""
        capacity, asked = self.first.capacity or 0, self.first.job.num_gpus
        for count in (asked, _NODE) if asked < _NODE else (asked,):
            for knob in larger(capacity, self.first.job.accelerator):
                if self._cannot_hold(usable_of(knob), count):
                    continue
                whole = knob if count == asked else _several(knob, count, sizes)
                found = yield from _first(self._composed(self.asked.changed(whole.to), (whole,), "hardware"))
                if found is not None and self.bench.safe(found.found):
                    yield found
                    return

    def _less_work(self) -> Iterator[Served | None]:
        """Shorter sequences, then fewer of them, until the server takes them."""
        length, users = self.first.job.basics.max_model_len, self.first.users
        pool = self.first.pool
        least = self.first.needed / (_LEANER * pool.capacity) if pool and pool.capacity else 1
        work = length * users
        while length // 2 >= _SHORTEST or users > 1:
            length, users = (length // 2, users) if length // 2 >= _SHORTEST else (length, users // 2)
            if length * users * least > work:
                continue
            changes: dict[str, object] = {
                Inference.max_model_len: length, Inference.batch_size: users,
                Inference.prompt_length: None, Inference.output_length: None, Inference.mean_length: None,
            }  # fmt: skip
            knob = Knob(
                title=_sequences(users, length),
                to=changes,
                why="the cache grows with each token",
                quality="prompt and answer are shorter, or more users wait",
                source="inference/max_model_len",
            )
            for found in self._composed(self.asked.changed(changes), (knob,), "work"):
                if found is None:
                    yield None
                elif self.bench.safe(found.found):
                    yield found
                    return


def _sequences(users: int, length: int) -> str:
    if users == 1:
        return Message("A sequence of {:,} tokens", length)
    return Message("{} sequences of {:,} tokens", users, length)


def _several(knob: Knob, count: int, sizes: Mapping[str, object]) -> Knob:
    """Return a GPU, and as many of it."""
    return replace(knob, title=Message("{} × {}", count, knob.title), to={**knob.to, **sizes, Hardware.num_gpus: count})


def _room(found: ServingEstimate) -> tuple[float, int]:
    """Return how many times the cache holds what is asked for; where that says nothing, how little the server takes."""
    pool = found.pool
    ratio = (pool.capacity or 0) / max(found.needed, 1) if pool is not None else 0.0
    return max(ratio, 0.0), -found.device.expected


def _first(served: Iterator[Served | None]) -> Pieces[Served | None]:
    for each in served:
        if each is not None:
            return each
        yield
    return None


def _is_usable(found: ServingEstimate) -> bool:
    """Whether a token takes no longer than a second of reading weights from the host."""
    model, host = found.job.model, found.budget.host
    away = host.sum("weights") if host is not None else 0
    return away * model.active_parameters / model.parameters <= Roofline().host_memory


def _format_of(found: ServingEstimate) -> Knob:
    """Return the format that a server takes where none is named, as a row."""
    name = value_of(found.job.config, found.job.assumptions, Inference.quantization)
    why = "the usual format of this server's files"
    return Knob(
        title=Message("weights in {}", name),
        to={},
        why=why,
        quality=Message("weights are stored as {}", name),
        source="assumed",
    )


def _rows(found: ServingEstimate, wanted: Callable[[ServerChange], bool]) -> Iterator[ServerChange]:
    """Return rows of the server of a kind."""
    return filter(wanted, found.job.server.changes)


def is_weights(row: ServerChange) -> bool:
    """Return whether a row is another format of weights."""
    return isinstance(row.how, Becomes) and Inference.quantization in row.how.to


def is_cache(row: ServerChange) -> bool:
    """Return whether a row is another type of the cache."""
    return row.kind == "precision" and not is_weights(row)


def as_stored(changes: Mapping[str, object], found: ServingEstimate) -> Mapping[str, object]:
    """Return changes with AWQ as another format of 4 bits where repositories of the model have that alone."""
    if changes.get(Inference.quantization) != LIKE_AWQ[0]:
        return changes
    able = (each for each in LIKE_AWQ if repository(found.job.config.model, each, alike=True))
    return {**changes, Inference.quantization: next(able, LIKE_AWQ[0])}


def knob_of(row: ServerChange, changes: dict[str, object]) -> Knob:
    """Return a server's row with what it sets of a job, as a change of a plan."""
    lossy, form = row.kind in ("precision", "job"), changes.get(Inference.quantization)
    title = Message("Weights in {}", form) if form in LIKE_AWQ[1:] and is_weights(row) else row.title
    return Knob(title=title, to=changes, why=row.note, quality=row.note if lossy else "", source=row.kind)
