"""How far a setting goes: its largest or smallest value with which a job still fits.

Every answer is found by estimating: the value fits, and the next one does not, or is not allowed. The search is a
generator that stops after every estimate, so that somebody else may have a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import ceil
from typing import TypeVar

from memcore import registry
from memcore.config.devices import node_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.kinds import Integer, Number
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, Problem, nearest
from memcore.estimation import estimate, is_serving
from memcore.hardware import alike, find_accelerator
from memcore.memory.estimate import Estimate
from memcore.messages import Message
from memcore.networks.catalog import content_of
from memcore.questions.advising.mild import mild
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.job import server_of
from memcore.tools.names import setting_called

ACCELERATOR = Hardware.accelerator
SMALLEST = (
    ACCELERATOR, Hardware.num_gpus, Hardware.gpu_memory_gb, "parallelism.", Training.offload.optimizer_fraction,
)  # fmt: skip
"""Settings of which people want as little as possible; of all others, as much as fits."""
LAYERS = "model.layers"
"""No setting, but the number of layers in the model's config.json."""
SOLVABLE = (
    *(path for path, each in SETTINGS.items() if isinstance(each.kind, Integer | Number) or path == ACCELERATOR),
    LAYERS,
)
USUAL = "seq, batch, users, context, gpus, tp, accelerator, adapter-rank, layers"
"""What people solve for; errors and help name it."""
WORDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("users", "batch"), (Training.micro_batch_size, Inference.batch_size)),
    **dict.fromkeys(("context", "sequence", "seq"), (Training.sequence_length, Inference.max_model_len)),
}
"""What people call a setting, in addition to its path and its flag: of a training job, and of a server."""
LIMIT = 2**30
"""Nothing is tried beyond it."""

LARGEST_PART = 16
"""The same of settings that are counted in hundredths."""
DENSE = 2**9
"""As many values are tried one by one."""

Value = int | float | str
Found = Estimate | ServingEstimate
T = TypeVar("T")
U = TypeVar("U")
Pieces = Generator[None, None, T]
"""Work that stops after every estimate, and what comes of it in the end."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The largest or smallest value that fits, and the next one, which does not; `solve` returns it."""

    setting: str
    """The path of the setting."""
    smallest: bool
    """True if the smallest value was asked for, False for the largest."""
    value: Value | None
    """The value, or None if no value fits."""
    found: Found | None
    """The estimate with that value."""
    step: int = 1
    """The distance between allowed values."""
    beyond: Value | None = None
    """The nearest value that is rejected or does not fit; if none fits, the closest one; None if there is no limit."""
    limit: Found | MemcoreError | None = None
    """The estimate with `beyond`, which does not fit, or the error that rejects it."""
    remedy: Remedy | None = None
    """Where no value fits, changes that keep the result and let one fit; None if there are none."""
    certain: Value | None = None
    """The accelerator that fits with the whole range of the estimate, where `value` fits as expected only."""

    def __repr__(self) -> str:
        """Return the value in a line."""
        return f"<{type(self).__name__}: {self.setting} = {self.value}>"

    def __str__(self) -> str:
        """Return what `memcore solve` prints."""
        return str(registry.face().text_of(self))


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes that keep the result of a job of which no value of a setting fits, and how far the setting then goes."""

    titles: tuple[str, ...]
    """The changes in a few words: one, or all that are needed together."""
    changes: Mapping[str, object]
    """The settings that they change, by path."""
    solution: Solution
    """The largest or smallest value that fits with them."""


def solve(config: Config | Mapping[str, object], setting: str, *, smallest: bool | None = None) -> Solution:
    """Find the largest or smallest value of a setting with which the job fits.

    The answer is exact if memory only grows, or only shrinks, with the value.

    Args:
        config: A training job or a server with an accelerator, as in `estimate`.
        setting: The path of a setting, such as `training.micro_batch_size`, or its flag; `layers` for model depth.
        smallest: False for the largest value, True for the smallest; by default the useful one: the largest sequence
            length, the fewest GPUs.

    Returns:
        A `Solution` with the value and the estimates on both sides of the limit.

    Raises:
        ConfigError: If the config is wrong whatever the value, or names no accelerator.
        UnsupportedError: As in `estimate`.

    Sources: both sides of the limit have passed `estimate`.

    Examples:
        >>> job = {"model": "llama-3.1-8b", "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"}}
        >>> found = solve(job, "training.micro_batch_size")
        >>> found.value, found.beyond, found.found.fits, found.limit.fits
        (1, 2, True, False)
    """
    *_, last = remedied_by_piece(config, setting, smallest=smallest)
    assert last is not None  # noqa: S101 - only what comes before the last is
    return last


def remedied_by_piece(
    config: Config | Mapping[str, object], setting: str, *, smallest: bool | None = None
) -> Iterator[Solution | None]:
    """Yield None after every estimate, and last the result of `solve`."""
    described = config if isinstance(config, Config) else Config.from_dict(config)
    found = yield from _solved(described, setting, smallest=smallest)
    yield found if found.value is not None else replace(found, remedy=(yield from _remedy(described, found)))


def _remedy(config: Config, found: Solution) -> Pieces[Remedy | None]:
    """Return the first change that keeps the result and lets a value fit; else several that do so only together."""
    value, limit = found.beyond, found.limit
    if value is None or limit is None or isinstance(limit, MemcoreError):
        return None
    rows = [row for row in mild(limit) if found.setting not in row[1]]
    chosen = yield from _next(lambda row: _helps(config, found.setting, value, [row]), rows, None)
    helping = rows if chosen is None else [chosen]
    if chosen is None:
        if not (yield from _helps(config, found.setting, value, rows)):
            return None
        for row in rows:
            fewer = [each for each in helping if each is not row]
            helping = fewer if (yield from _helps(config, found.setting, value, fewer)) else helping
    changes = _together(helping)
    solution = yield from _solved(config.changed(changes), found.setting, smallest=found.smallest)
    return Remedy(tuple(title for title, _ in helping), changes, solution)


_Row = tuple[str, Mapping[str, object]]
"""A change in a few words, and what it sets."""


def _together(rows: Sequence[_Row]) -> Mapping[str, object]:
    """Return what several changes set; of those that set the same, the first counts."""
    return {path: to for _, changes in reversed(rows) for path, to in changes.items()}


def _helps(config: Config, path: str, value: Value, rows: Sequence[_Row]) -> Pieces[bool]:
    """Return whether a value fits with some changes; what stays from step to step may show at once that it does not."""
    try:
        then = estimate(_changed(config.changed(_together(rows)), path, value))
    except MemcoreError:
        return False
    yield
    least = 0 if isinstance(then, ServingEstimate) else max(rank.least for rank in then.ranks)
    return least <= (then.capacity or 0) and bool(then.fits)


def solve_by_piece(
    config: Config | Mapping[str, object], setting: str, *, smallest: bool | None = None, certain: bool = False
) -> Iterator[Solution | None]:
    """Yield None after every estimate, and last how far a setting goes; `certain`: the whole range has to fit."""
    described = config if isinstance(config, Config) else Config.from_dict(config)
    yield (yield from _solved(described, setting, smallest=smallest, certain=certain))


def _solved(config: Config, setting: str, *, smallest: bool | None, certain: bool = False) -> Pieces[Solution]:
    path = _path(setting, config)
    least = path.startswith(SMALLEST) if smallest is None else smallest
    if path == LAYERS:
        with_layers(config, 1)
    tries = Tries(_held(config, path), path, certain=certain)
    if path == ACCELERATOR:
        return (yield from _accelerator(tries, smallest=least))
    if path == Hardware.num_gpus and least:
        return (yield from _gpus(tries))
    if isinstance(kind := SETTINGS[path].kind if path in SETTINGS else None, Number) and not kind.unit:
        return (yield from _part(tries, kind, smallest=least))
    return (yield from (_smallest(tries) if least else _largest(tries)))


def _held(config: Config, path: str) -> Config:
    """Return a config whose longest sequence has to fit, also on a server that starts without room for it."""
    engine = config[EngineSettings.type]
    if engine is None or engine not in registry.SERVERS or config[Inference.batch_size] is not None:
        return config
    wanted = path == Inference.max_model_len and server_of(engine).shortens
    return config.changed({Inference.batch_size: 1}) if wanted else config


def _path(setting: str, config: Config) -> str:
    serving, engine = is_serving(config), config[EngineSettings.type]
    own = {} if engine is None else getattr(registry.engine_module(engine, "settings"), "SOLVED", {})
    words = {word: paths[serving] for word, paths in WORDS.items()} | own
    by_flag = {flag_of(path): path for path in SOLVABLE} | words
    path = by_flag.get(setting.removeprefix("--"), setting)
    path = path if path in SOLVABLE else setting_called(setting) or setting
    if path not in SOLVABLE:
        message = Message("found {!r}; allowed: {}, or any other flag that takes a number", setting, USUAL)
        raise ConfigError([Problem("setting", message, nearest(setting, [*SOLVABLE, *by_flag]))])
    return path


def flag_of(path: str) -> str:
    """Return what is solved for, as the command line spells it."""
    return "layers" if path == LAYERS else SETTINGS[path].flag


def label_of(path: str) -> str:
    """Return the setting's label."""
    return "Layers" if path == LAYERS else SETTINGS[path].label


def text_of(path: str, value: Value) -> str:
    """Return a value as text."""
    return str(value) if path == LAYERS else SETTINGS[path].kind.spell(value)


def _changed(config: Config, path: str, value: Value) -> Config:
    if path == ACCELERATOR:
        return config.changed({path: value, Hardware.mig: None})
    gpus, copies = config[Hardware.num_gpus], Parallelism.data_parallel_size
    if path == Parallelism.tensor_parallel_size and gpus and is_serving(config) and config[copies] is None:
        return config.changed({path: value, copies: max(gpus // int(value), 1)})  # those that are left are copies
    return with_layers(config, int(value)) if path == LAYERS else config.replaced(path, value)


def with_layers(config: Config, count: int) -> Config:
    """Return a config whose model has another number of layers.

    Raises ConfigError for a model whose layers are listed one by one.
    """
    content = dict(content_of(config.model))
    names = [name for name in ("num_hidden_layers", "num_layers", "n_layer", "n_layers") if name in content]
    if len(names) != 1:
        raise ConfigError.at("model", "found no key for the number of layers, only {}", names or "none")
    listed = [name for name, value in content.items() if isinstance(value, list) and len(value) == content[names[0]]]
    if listed:
        raise ConfigError.at(f"model.{listed[0]}", "lists its layers one by one, so their number cannot be varied")
    return config.replaced("model", {**content, names[0]: count})


def _check_length(found: Found, length: int) -> None:
    """Refuse sequences beyond those that a model was trained for; servers without a pool only warn of them.

    Raises ConfigError.
    """
    most = found.job.model.sizes["P"]
    if isinstance(found, ServingEstimate) and found.pool is None and length > most:
        message = Message("found {}; {} was trained for {:,} tokens", length, found.job.model.name, most)
        raise ConfigError.at(Inference.max_model_len, message)


@dataclass(frozen=True, slots=True)
class Tries:
    """Estimates of one config with other values of one setting, each made once."""

    config: Config
    path: str
    known: dict[Value, Found | MemcoreError] = field(default_factory=dict)
    certain: bool = False
    """Only what fits with its whole range counts as fitting."""

    def at(self, value: Value) -> Pieces[Found | MemcoreError]:
        """Return the estimate with a value, or why it is not allowed."""
        if value not in self.known:
            try:
                self.known[value] = self._estimated(value)
            except MemcoreError as error:
                self.known[value] = error
            yield
        return self.known[value]

    def _estimated(self, value: Value) -> Found:
        found = estimate(_changed(self.config, self.path, value))
        if found.capacity is None:
            message = "needed to decide what fits; name one with --accelerator, or set --gpu-memory"
            raise ConfigError.at(ACCELERATOR, message)
        if self.path == Inference.max_model_len:
            _check_length(found, int(value))
        return found

    def refuse(self, value: Value) -> Pieces[None]:
        """Raise the error of a value."""
        found = yield from self.at(value)
        if isinstance(found, MemcoreError):
            raise found

    def allowed(self, value: Value) -> Pieces[bool]:
        """Return whether a value is allowed, fit or not."""
        found = yield from self.at(value)
        return not isinstance(found, MemcoreError)

    def refused(self, value: Value) -> Pieces[bool]:
        """Return whether a value is not allowed."""
        return not (yield from self.allowed(value))

    def fits(self, value: Value) -> Pieces[bool]:
        """Return whether a value is allowed and the job fits with it."""
        found = yield from self.at(value)
        return not isinstance(found, MemcoreError) and bool(found.fits) and (found.certain or not self.certain)

    def fails(self, value: Value) -> Pieces[bool]:
        """Decide whether a value is not allowed, or the job does not fit with it."""
        return not (yield from self.fits(value))

    def may_fit(self, value: Value) -> Pieces[bool]:
        """Decide whether a value is allowed and no bound rules it out, which costs less than an estimate."""
        found = yield from self.at(value)
        if isinstance(found, MemcoreError):
            return False
        if not isinstance(found, Estimate) or found.capacity is None:
            return bool(found.fits)
        return found.allocated.expected <= found.capacity

    def between(self, value: Callable[[int], int], low: int, high: int) -> Pieces[int]:
        """Return where a line through the bytes at two indices reaches the capacity, to close in on both sides."""
        below = yield from self.at(value(low))
        above = yield from self.at(value(high))
        if not isinstance(below, Estimate) or not isinstance(above, Estimate) or below.capacity is None:
            return (low + high) // 2
        least, capacity = below.device.expected, below.capacity
        if above.allocated.expected <= capacity:
            most = above.device.expected
        else:
            most = above.allocated.expected * least // max(below.allocated.expected, 1)
        if most <= least:
            return (low + high) // 2
        return low + round((capacity - least) * (high - low) / (most - least))

    def solution(self, value: Value | None, beyond: Value | None, *, smallest: bool, step: int = 1) -> Pieces[Solution]:
        """Return what was found, with the estimates on both sides."""
        found = None if value is None else self.known[value]
        beyond = self._closest(beyond) if value is None else beyond
        limit = None if beyond is None else (yield from self.at(beyond))
        return Solution(
            self.path, smallest, value, None if isinstance(found, MemcoreError) else found, step, beyond, limit
        )

    def _closest(self, other: Value | None) -> Value | None:
        """Of the values that were tried, the first that misses least; the other, if all were refused."""
        missing = {value: _missing(found) for value, found in self.known.items() if not isinstance(found, MemcoreError)}
        return min(missing, key=missing.__getitem__, default=other)


def _missing(found: Found) -> int:
    """Bytes that a job is over what there is; of training those in tensors, which need no look at the allocator."""
    if isinstance(found, Estimate):
        return found.allocated.expected - (found.capacity or 0)
    return -(found.headroom or 0)


def _largest(tries: Tries) -> Pieces[Solution]:
    first, step = yield from _grid(tries)
    if (yield from tries.fails(first)):
        first = (yield from _enough(tries, first, step)) or first
        if (yield from tries.fails(first)):
            return (yield from tries.solution(None, first, smallest=False, step=step))

    reach = 1
    while (yield from tries.may_fit(first + reach * step)):
        if first + reach * step > LIMIT:
            value = yield from _enough_for_all(tries, first, first + reach * step)
            return (yield from tries.solution(value, None, smallest=False, step=step))
        reach *= 2
    if (yield from tries.refused(first + reach * step)):
        # What is allowed is cheaper to find than what fits, and may fit to its end. Most limits are powers of two.
        low = reach - 1 if (yield from tries.allowed(first + (reach - 1) * step)) else reach // 2
        allowed = yield from _last(lambda index: tries.allowed(first + index * step), low, reach)
        if (yield from tries.fits(first + allowed * step)):
            beyond = first + (allowed + 1) * step
            return (yield from tries.solution(first + allowed * step, beyond, smallest=False, step=step))
    index = yield from _crossing(tries, lambda index: first + index * step, reach)
    return (yield from tries.solution(first + index * step, first + (index + 1) * step, smallest=False, step=step))


def _enough_for_all(tries: Tries, first: int, last: int) -> Pieces[int]:
    """Return the first value beyond which memory stays the same, such as all layers; the last if it never changes."""

    def grows(value: int) -> Pieces[bool]:
        found, most = (yield from tries.at(value)), tries.known[last]
        return isinstance(found, MemcoreError) or (not isinstance(most, MemcoreError) and found.device != most.device)

    if not (yield from grows(first)):
        return last
    value = (yield from _last(grows, first, last)) + 1
    yield from tries.at(value)
    return value


def _enough(tries: Tries, first: int, step: int) -> Pieces[int | None]:
    """Return a value that fits though the first does not, of a setting of which more helps.

    Of other settings while more does not hurt: TGI warms up with as many short sequences as fill a batch.
    """
    reach, last = 1, tries.known[first]
    while first + reach * step <= LIMIT:
        value = first + reach * step
        if (yield from tries.fits(value)):
            return value
        found = yield from tries.at(value)
        if isinstance(found, MemcoreError) or isinstance(last, MemcoreError):
            return None
        if not tries.path.startswith(SMALLEST) and _missing(found) > _missing(last):
            return None
        reach, last = reach * 2, found
    return None


def _crossing(tries: Tries, value: Callable[[int], int], high: int) -> Pieces[int]:
    """Return the last index whose value fits, where that of 0 does and that of `high` does not.

    Bytes grow nearly in proportion, so that a straight line through both ends says where to look; three steps that
    leave the same end where it was are followed by one in the middle.
    """
    low, same = 0, 0
    while high - low > 1:
        guess = (low + high) // 2 if abs(same) > 2 else (yield from tries.between(value, low, high))
        guess = min(max(guess, low + 1), high - 1)
        if (yield from tries.fits(value(guess))):
            low, same = guess, max(same, 0) + 1 if abs(same) <= 2 else 0
        else:
            high, same = guess, min(same, 0) - 1 if abs(same) <= 2 else 0
    return low


def _smallest(tries: Tries) -> Pieces[Solution]:
    """The smallest allowed value that fits; refused ones, such as a division that leaves a rest, are passed over."""
    first, reached = (yield from _first(tries)), 0
    reach = first
    while (yield from tries.fails(reach)):
        reached, reach = reach, reach * 2
        if reach > LIMIT or (reach > 2**12 and (yield from tries.refused(reach))):
            return (yield from tries.solution(None, first, smallest=True))
    dense = range(reached + 1, reach)
    if len(dense) <= DENSE:
        value = yield from _next(tries.fits, dense, reach)
    else:
        value = (yield from _last(tries.fails, reached, reach)) + 1
    before = (yield from _last_allowed(tries, value - 1)) if value > first else None
    return (yield from tries.solution(value, before, smallest=True))


def _last_allowed(tries: Tries, value: int) -> Pieces[int]:
    """Return the last value that is allowed, of the next below one and those that were tried."""
    near = yield from _next(tries.allowed, range(value, max(value - DENSE, 0), -1), 0)
    allowed = (int(each) for each, found in tries.known.items() if not isinstance(found, MemcoreError))
    return near or max(each for each in allowed if each <= value)


def _gpus(tries: Tries) -> Pieces[Solution]:
    """Return the fewest GPUs of those that are usual: a power of two within a node, or whole nodes.

    Where the job's own layout allows none of these within a node, any number will do.
    """
    node = node_of(tries.config)
    inside = [2**power for power in range(node.bit_length()) if 2**power < node]
    if (yield from _next(tries.allowed, [*inside, node], None)) is None:
        return (yield from _smallest(tries))
    found, reached, reach = (yield from _next(tries.fits, inside, None)), 0, 1
    if found is None:
        while (yield from tries.fails(reach * node)):
            reached, reach = reach, reach * 2
            if reach * node > LIMIT or (reach * node > 2**12 and (yield from tries.refused(reach * node))):
                return (yield from tries.solution(None, reached * node, smallest=True))
        between = range(reached + 1, reach)
        found = yield from _next(tries.fits, (each * node for each in between[:DENSE]), reach * node)
    failed = [value for value, each in tries.known.items() if not isinstance(each, MemcoreError)]
    before = max((value for value in failed if isinstance(value, int) and value < found), default=None)
    return (yield from tries.solution(found, before, smallest=True))


def _accelerator(tries: Tries, *, smallest: bool) -> Pieces[Solution]:
    """Return the accelerator with the least or most memory; among equals, the fastest.

    Those with the software stack of the one that is named come first, else NVIDIA's. Training needs one with bf16,
    which fused attention needs too, unless the config names one without.
    """
    given = tries.config[Hardware.accelerator]
    now = find_accelerator(given) if given is not None else None
    old = is_serving(tries.config) or (now is not None and not now.has_bf16)
    kinds = [each for each in alike(now) if each.has_bf16 or old]
    stack, sign = now.stack if now else "cuda", 1 if smallest else -1
    kinds.sort(key=lambda each: (each.stack != stack, sign * each.nominal_gb, -each.speed.tflops))
    by_size = [each.id for each in kinds]
    fitting = yield from _next(tries.fits, by_size, None)
    if fitting is None:
        return (yield from tries.solution(None, by_size[-1] if smallest else by_size[0], smallest=smallest))
    place = by_size.index(fitting)
    found = yield from tries.solution(fitting, by_size[place - 1] if place else None, smallest=smallest)
    if not smallest or found.found is None or found.found.certain:
        return found
    return replace(found, certain=(yield from _next(replace(tries, certain=True).fits, by_size[place:], None)))


def _part(tries: Tries, kind: Number, *, smallest: bool) -> Pieces[Solution]:
    """Return the last hundredth that fits on the way from one that does to the end that people want."""
    hundredths = range(ceil(100 * kind.minimum), int(100 * min(kind.maximum, LARGEST_PART)) + 1)
    wanted = [number / 100 for number in (hundredths if smallest else reversed(hundredths))]
    given = tries.config.get(tries.path)
    tried = [*([given] if given in wanted else []), *wanted[:: max(5, len(wanted) // 20)]]
    fitting = yield from _next(tries.fits, tried, None)
    if fitting is None:
        if (yield from _next(tries.allowed, tried, None)) is None:
            yield from tries.refuse(tried[0])
        return (yield from tries.solution(None, wanted[0], smallest=smallest))
    start = wanted.index(fitting)
    if (yield from tries.fits(wanted[0])):
        return (yield from tries.solution(wanted[0], None, smallest=smallest))
    steps = yield from _last(lambda step: tries.fits(wanted[start - step]), 0, start)
    return (yield from tries.solution(wanted[start - steps], wanted[start - steps - 1], smallest=smallest))


def _first(tries: Tries) -> Pieces[int]:
    """Return the smallest allowed value. Raises the error of a config that is wrong with any.

    Where no power of two is allowed, as for GPUs that three stages share, it divides the value that the config has.
    """
    value = 1
    while (yield from tries.refused(value)):
        value *= 2
        if value > LIMIT:
            given = 1 if tries.path == LAYERS else tries.config.get(tries.path)
            given = given if isinstance(given, int) else 1
            yield from tries.refuse(given)
            return (yield from _next(tries.allowed, (each for each in range(1, given) if given % each == 0), given))
    return value if value == 1 else (yield from _last(tries.refused, value // 2, value)) + 1


def _grid(tries: Tries) -> Pieces[tuple[int, int]]:
    """Return the smallest allowed value, and how far the next is from it: sequences may have to be divisible."""
    first = yield from _first(tries)
    step = yield from _next(lambda step: tries.allowed(first + step), (2**power for power in range(13)), 1)
    return first, step


def _next(holds: Callable[[T], Pieces[bool]], values: Iterable[T], other: U) -> Pieces[T | U]:
    """Return the first value for which something holds, or the other."""
    for each in values:
        if (yield from holds(each)):
            return each
    return other


def _last(holds: Callable[[int], Pieces[bool]], low: int, high: int) -> Pieces[int]:
    """Return the last number for which something holds that holds at `low`, not at `high`, and changes once between."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (yield from holds(middle)) else (low, middle)
    return low
