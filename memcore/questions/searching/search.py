"""The layouts of a cluster: all that are valid, those that fit, and the cheapest of them.

Layouts are looked at from the cheapest by the cost model on. One that a bound says cannot fit is passed over, and
so is, once enough were found, one that leaves hardly more headroom than a cheaper one. What is left is measured, and
what is recommended has passed `estimate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from heapq import heapify, heappop, heappush
from itertools import islice

from memcore.config.settings import Config
from memcore.errors import ConfigError, Problem, nearest
from memcore.messages import Message, joined
from memcore.questions.costs import Cost
from memcore.questions.roofline import Roofline
from memcore.questions.searching.found import Found, Key, Measured, Progress, Tally, order
from memcore.questions.searching.layouts import Layout
from memcore.questions.searching.questions import Question, questions_of
from memcore.questions.searching.spaces import Space, Tried
from memcore.questions.searching.tasks import Outcome, Task, growths_of, perform, performed
from memcore.trace.searching import SCHEDULES

HEADROOM = 0.1
"""The share of a GPU that recommended layouts leave free: nearly full GPUs run slower, and ranges reach above."""
KEEP = 4
"""Layouts that a search recommends, if as many fit."""
DEAR = 1.25
"""The cost relative to the cheapest above which no layout is tried, once enough were found."""
PATIENCE = 20
"""Layouts in a row that are measured and recommended no longer, before a search for more headroom ends."""
MANY = 256
"""GPUs from which on a first layout is looked for before all are listed, which takes seconds there."""
AHEAD = 8
"""Layouts that are measured for it at most."""
NOTICEABLE = 5
"""Beyond these a layout is recommended if it leaves this part of the capacity more than all cheaper ones."""


def search(
    config: Config | Mapping[str, object],
    *,
    gpus: Sequence[int] | None = None,
    accelerators: Sequence[str] | None = None,
    sequences: int | None = None,
    roofline: Roofline | None = None,
    keep: int = KEEP,
    every: bool = False,
    micro_batches: Sequence[int] = (1, 2, 4, 8),
    schedules: Sequence[str] = ("1f1b",),
    offload: bool = False,
    executor: Executor | None = None,
    known: Mapping[Key, Measured] | None = None,
    headroom: float = HEADROOM,
) -> Iterator[Progress]:
    """Search the parallel layouts of a training job that fit, cheapest first; yields `Progress`.

    Args:
        config: A training job. Its parallel sizes, micro-batches, checkpointing and policies vary.
        gpus: Numbers of GPUs to try; by default the config's.
        accelerators: Accelerators to try; by default the config's.
        sequences: Sequences of a step, the same for all layouts; by default the config's.
        roofline: Rates for the cost; by default the accelerator's.
        keep: Layouts to recommend.
        every: Measure every layout instead of the promising ones.
        micro_batches: Micro-batch sizes to try.
        schedules: Pipeline schedules to try with PyTorch.
        offload: Also try parameters or the optimizer on the host.
        executor: Distributes the estimates of `every` over processes or machines.
        known: Results that need no new estimate (`memcore.questions.searching.records`).
        headroom: The share of each GPU that stays free, from 0 to below 1; if no layout leaves it, those that fit.

    Raises:
        ConfigError: For a server or an engine that cannot be searched yet, and as in `estimate`.

    Sources: layouts have passed `estimate`; their order follows [the cost model](costs.md).

    Examples:
        >>> job = {"model": "llama-3.2-1b", "hardware": {"num_gpus": 2, "accelerator": "h100-sxm-80gb"}}
        >>> *_, last = search(job, keep=1)
        >>> last.best[0].fits, last.best[0].layout.gpus
        (True, 2)
    """
    base = config if isinstance(config, Config) else Config.from_dict(config)
    if not 0 <= headroom < 1:
        raise ConfigError.at("headroom", "found {!r}; allowed: a fraction from 0 to below 1, such as 0.1", headroom)
    tried = _tried(micro_batches, schedules, offload=offload)
    questions, left_out = questions_of(base, gpus, accelerators, sequences, roofline, tried)
    pool = executor if every else None
    yield from _searched(questions, left_out, known or {}, pool, keep=keep, every=every, headroom=headroom)


def _searched(
    questions: Sequence[Question],
    left_out: Mapping[str, str],
    known: Mapping[Key, Measured],
    executor: Executor | None,
    *,
    keep: int,
    every: bool,
    headroom: float,
) -> Iterator[Progress]:
    """Price all layouts that may fit, measure what may be among the best, and yield the progress."""
    if not every and all(each.ceiling is not None and each.space.gpus >= MANY for each in questions):
        yield from _ahead(questions, left_out, headroom)
    total, possible = 0, []
    for number, question in enumerate(questions):
        for layout in question.space.layouts():
            total += 1
            least = 0 if every else question.least(layout)
            if every or _may_fit(question, layout, least):
                possible.append((number, layout, least))
    tally = Tally(total, left_out, headroom=headroom)
    yield tally.progress(done=False)
    tally.pruned = total - len(possible)
    prices: Prices = {}
    if every:
        tasks = _sweep(questions, [(number, layout) for number, layout, _ in possible], tally, known)
    else:
        tasks = _candidates(questions, possible, prices, tally, known, keep)
    for task, (answers, works) in performed(tasks, executor):
        question = questions[task.number]
        question.works.learn(works)
        for layout, answer in zip(task.layouts, answers, strict=True):
            price = prices.get((task.number, layout)) or question.cost(layout)
            found = _note(tally, question, layout, price, answer)
            tally.new += [found] if found is not None else []
        yield tally.progress(done=False)
    tally.best = tally.best if every else _shortened(tally.roomy or tally.best, keep, headroom)
    yield tally.progress(done=True)


def _ahead(questions: Sequence[Question], left_out: Mapping[str, str], headroom: float) -> Iterator[Progress]:
    """Yield the cheapest that fits of a few lean layouts, before all are listed and priced.

    The search that follows knows nothing of it, so that it finds what it would find without.
    """
    lean = [
        (question.roughly(layout).per_token, number, layout)
        for number, question in enumerate(questions)
        for layout in filter(None, map(question.space.leanest, question.space.prefixes()))
        if question.least(layout) <= (question.ceiling or 0) / 2  # a lower bound: buffers and passes need room, too
    ]
    for _, number, layout in sorted(lean)[:AHEAD]:
        question = questions[number]
        task = Task(number, question.text, question.space, (layout,), question.ceiling, hurried=True)
        tally = Tally(0, left_out, headroom=headroom)
        found = _note(tally, question, layout, question.cost(layout), perform(task)[0][0])
        question.failed.clear()
        if found is not None and found.fits and found.leaves(headroom):
            yield Progress(0, 0, 0, 0, 0, {}, left_out, (), (found,), done=False)
            return


def _tried(micro_batches: Sequence[int], schedules: Sequence[str], *, offload: bool) -> Tried:
    unknown = [each for each in schedules if each not in SCHEDULES]
    if unknown:
        message = Message("found {!r}; allowed: {}", unknown[0], joined(", ", SCHEDULES))
        raise ConfigError([Problem("schedules", message, nearest(unknown[0], SCHEDULES))])
    return Tried(micro_batches=tuple(micro_batches), schedules=tuple(schedules), offload=offload)


Possible = tuple[int, Layout, int]
"""The number of a question, one of its layouts, and the least that this needs."""
Prices = dict[tuple[int, Layout], Cost]
"""By the number of a question and a layout, what that costs."""


TOGETHER = 64
"""Layouts of a task at most: enough that recording their steps takes longer than sending them."""


def _sweep(
    questions: Sequence[Question],
    layouts: Iterable[tuple[int, Layout]],
    tally: Tally,
    known: Mapping[Key, Measured],
) -> Iterator[Task]:
    """Yield every layout, those together that may share recorded steps, so that few are recorded by two workers.

    Steps differ in what is computed again, and in the stages; other sizes are symbols of most of them.
    """
    together: dict[tuple[int, int, int], list[Layout]] = {}
    for number, layout in layouts:
        question = questions[number]
        answer = known.get(question.key(layout))
        if answer is None or (answer[2] is None and question.ceiling is not None):
            together.setdefault((number, layout.policy, layout.stages), []).append(layout)
        else:
            _note(tally, question, layout, question.cost(layout), answer)
    for (number, *_), alike in sorted(together.items(), key=lambda pair: -len(pair[1])):
        question, rest = questions[number], iter(alike)
        while part := tuple(islice(rest, TOGETHER)):
            yield Task(number, question.text, question.space, part, question.ceiling, works=not question.exact)


def _candidates(
    questions: Sequence[Question],
    possible: Iterable[Possible],
    prices: Prices,
    tally: Tally,
    known: Mapping[Key, Measured],
    keep: int,
) -> Iterator[Task]:
    """Yield what must be measured, decided as late as possible: what was found until then prunes the rest."""
    for number, layout, price in _cheapest_first(questions, possible, prices, tally, keep):
        question = questions[number]
        if question.key(layout) in known:
            _note(tally, question, layout, price, known[question.key(layout)])
        else:
            margin = _needed(question, layout, tally, keep)
            yield Task(number, question.text, question.space, (layout,), question.ceiling, margin, hurried=True)


def _cheapest_first(
    questions: Sequence[Question], possible: Iterable[Possible], prices: Prices, tally: Tally, keep: int
) -> Iterator[tuple[int, Layout, Cost]]:
    """Yield layouts by their costs but for those that are beaten, which `prices` keeps.

    Where a step has to be recorded for it, a layout is priced when no other costs less than it does at least.
    """
    waiting: list[tuple[float, int, Layout, int, Cost, bool]] = []
    for number, layout, need in possible:
        question = questions[number]
        price = question.cheapest(layout)
        waiting.append((price.per_token, need, layout, number, price, question.exact))
    heapify(waiting)
    while waiting:
        _, need, layout, number, price, exact = heappop(waiting)
        question = questions[number]
        if _is_beaten(question, layout, price, tally, keep):
            tally.pruned += 1
        elif exact:
            prices[number, layout] = price
            yield number, layout, price
        else:
            price = question.cost(layout)
            heappush(waiting, (price.per_token, need, layout, number, price, True))


def _may_fit(question: Question, layout: Layout, least: int) -> bool:
    """Return whether a layout is worth its price: a bound does not say that it cannot fit.

    Several sequences that are shared among ranks are passed over: half of both are as many tokens, and less traffic.
    """
    if question.ceiling is None:
        return True
    if layout.context > 1 and layout.micro_batch > 1 and layout.micro_batch in question.space.micro_batches[1:]:
        return False
    return least <= question.ceiling


def _is_beaten(question: Question, layout: Layout, price: Cost, tally: Tally, keep: int) -> bool:
    """Return whether a layout cannot fit, or is dearer than enough others and cannot leave more than one of them.

    Where nobody knows what fits, the cheapest are as good as any.
    """
    if question.ceiling is None:
        return len(tally.best) >= keep
    enough = len(tally.roomy) >= keep
    if enough and (tally.idle >= PATIENCE or price.per_token > DEAR * tally.cheapest):
        return True
    left = question.ceiling - question.least(layout)
    if any(_needs_no_less(layout, each, question.space) for each in question.failed.get(layout[:4], ())):
        return True
    needed = _needed(question, layout, tally, keep)
    if left < needed:
        return True
    layers = growths_of(question.text, question.space)
    growth = layers.growth(layout)
    if question.ceiling - question.least(layout, growth) < needed:
        return True
    if question.ceiling - layers.least(layout) < needed:
        return True
    return growth is not None and question.ceiling - question.staged(layout, growth, layers.parts(layout)) < needed


def _needed(question: Question, layout: Layout, tally: Tally, keep: int) -> int:
    """The headroom that makes a layout worth a look: once enough were found, noticeably more than a cheaper one's."""
    if len(tally.roomy) < keep or question.capacity is None:
        return 0
    most = max((most for gpus, most in tally.most.items() if gpus <= layout.gpus), default=0)
    return most + question.capacity // NOTICEABLE


def _needs_no_less(layout: Layout, other: Layout, space: Space) -> bool:
    """Return whether a layout surely holds at least as much as another: with more sequences at once, or fewer shards.

    Gradients that wait for a second micro-batch are more, so that only a layout that has them too compares with one
    that has them; what stays gathered is more than what is freed.
    """
    same = layout[:4] == other[:4] and layout.micro_batch >= other.micro_batch and layout.shards <= other.shards
    waits = layout.micro_batches > 1 or other.micro_batches == 1
    if not (same and waits):
        return False
    mine, its = space.row.policies[layout.policy], space.row.policies[other.policy]
    return mine == its or (space.keeps_like(layout.policy) == other.policy and not mine.resharded)


def _note(tally: Tally, question: Question, layout: Layout, price: Cost, answer: Outcome) -> Found | None:
    """Count an answer; what was found, if the layout can be and all of it was asked."""
    if isinstance(answer, str):
        tally.refuse(answer)
        return None
    tally.measured += 1
    if isinstance(answer, int):
        tally.idle += 1
        question.failed.setdefault(layout[:4], []).append(layout)
        return None
    found = question.found(layout, price, answer)
    tally.idle = 0 if found.fits else tally.idle + 1
    if found.fits or question.capacity is None:
        tally.keep(found)
    elif found.fits is False:
        question.failed.setdefault(layout[:4], []).append(layout)
    return found


def _shortened(best: Sequence[Found], keep: int, headroom: float) -> list[Found]:
    """Return the cheapest, and those dearer ones that leave more headroom or take fewer GPUs than all cheaper ones."""
    ordered = sorted(best, key=lambda each: order(each, headroom))
    found = ordered[:keep]
    for each in ordered[keep:]:
        if all((each.headroom or 0) > (other.headroom or 0) or each.gpus < other.gpus for other in found):
            found.append(each)
    return found
