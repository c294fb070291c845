"""The work of a search in pieces that any executor takes: small messages, and answers that are numbers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from time import process_time

from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.questions.searching.found import Measured
from memcore.questions.searching.growth import Growths
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.spaces import Space
from memcore.questions.searching.totals import Totals
from memcore.questions.work import Work, work_for
from memcore.records import dataclass
from memcore.trace.job import Job

Outcome = Measured | int | str
"""What a layout needs, bytes of one of its stages that cannot fit, or why it cannot be."""
Alike = tuple[int, ...]
"""What layouts with the same work have in common."""
Answers = tuple[list[Outcome], Mapping[Alike, Work | None]]
"""Outcomes of a task's layouts, and the work of those that are divided alike."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some layouts of one config: all that a worker needs."""

    number: int
    config: str
    """As JSON, which also names it for what workers remember."""
    space: Space
    layouts: tuple[Layout, ...]
    ceiling: int | None
    """Allocated memory above which nothing fits; None: nobody knows."""
    margin: int = 0
    """Bytes below the ceiling within which the device is not estimated: too little would be left."""
    hurried: bool = False
    """Of what cannot fit the bytes of one stage that shows it are enough."""
    works: bool = False
    """Whether to return the work of the layouts too, as it depends on recorded steps."""

    def unasked(self, held: int) -> Measured | None:
        """Return the answer for a layout with a lower bound of its bytes, if the device need not be estimated."""
        if self.ceiling is None:
            return held, None, None
        if held <= self.ceiling - self.margin:
            return None
        return held, None, False if held > self.ceiling else None


def perform(task: Task) -> Answers:
    """Return the answers for a task's layouts."""
    base = config_from(task.config)
    policies = task.space.policies
    totals = totals_of(task.config, task.space) if task.space.row.shared else None
    outcomes = [_answer(task, base, policies, totals, each) for each in task.layouts]
    alike = {alike_of(each): each for each in task.layouts} if task.works else {}
    return outcomes, {key: work_at(task.config, task.space, each) for key, each in alike.items()}


def alike_of(layout: Layout) -> Alike:
    """Return what layouts with the same work have in common: they are divided alike."""
    return (
        *(layout.tensor, min(layout.stages, 2), layout.context, layout.experts),
        *(layout.micro_batch, min(layout.micro_batches, 2), layout.policy),
    )


def work_at(text: str, space: Space, layout: Layout) -> Work | None:
    """Return the work of a layout, from a recorded step; None if it cannot be."""
    job = job_at(text, space, layout)
    return None if job is None else work_for(job, space.sequence)


def job_at(text: str, space: Space, layout: Layout) -> Job | None:
    """Return the job of a layout; None if it cannot be."""
    if space.row.shared:
        shared = totals_of(text, space).sized(layout)
        return None if isinstance(shared, MemcoreError) else shared
    try:
        found = estimate(config_of(config_from(text), layout, space.policies, space.divided(layout)))
    except MemcoreError:
        return None
    return found.job if isinstance(found, Estimate) else None


def _answer(
    task: Task, base: Config, policies: Sequence[Mapping[str, object]], totals: Totals | None, layout: Layout
) -> Outcome:
    ceiling = task.ceiling if task.hurried else None
    total = None if totals is None else totals.total(layout, ceiling)
    if isinstance(total, MemcoreError):
        return str(total)
    if total is not None and ceiling is not None and total > ceiling:
        return total
    if total is not None and (answer := task.unasked(total)) is not None:
        return answer
    try:
        found = estimate(config_of(base, layout, policies, task.space.divided(layout)))
    except MemcoreError as error:
        return str(error)
    if not isinstance(found, Estimate):
        return "servers have no layouts to search"
    if totals is not None:
        found = replace(found, ranks=tuple(found.ranks[each] for each in totals.extremes(layout)))
    allocated = found.allocated.expected
    answer = task.unasked(allocated)
    return (allocated, found.device.expected, found.fits) if answer is None else (allocated, *answer[1:])


@lru_cache(maxsize=512)
def config_from(text: str) -> Config:
    """Return the config of a text, which this process remembers."""
    return Config.from_dict(json.loads(text))


@lru_cache(maxsize=512)
def totals_of(text: str, space: Space) -> Totals:
    """Return what this process remembers of a config's layouts."""
    return Totals(config_from(text), space)


@lru_cache(maxsize=512)
def growths_of(text: str, space: Space) -> Totals | Growths:
    """Return what this process knows about the layers of a config's layouts."""
    return totals_of(text, space) if space.row.shared else Growths(config_from(text), space)


RETRIES = 2
"""How often a task whose worker was lost is sent again, before it is done here."""

Done = tuple[Task, Answers]


AHEAD = 256
"""Tasks that are under way at once."""
FIRST = 0.2
"""Seconds of work that are done here before an executor is asked: many jobs are done by then."""
WORTH = 1.5
"""Seconds that must remain at the current pace before an executor is used: processes take a while to start."""


def performed(tasks: Iterator[Task], executor: Executor | None) -> Iterator[Done]:
    """Yield the tasks with their answers, as these come."""
    if executor is None:
        yield from ((task, perform(task)) for task in tasks)
        return
    waiting = deque(tasks)
    yield from _here(waiting)
    tasks = iter(waiting)
    running = Running(executor)
    try:
        for task in islice(tasks, AHEAD):
            yield from running.send(task)
        while running.futures:
            for future in wait(running.futures, return_when=FIRST_COMPLETED)[0]:
                yield from running.take(future)
                for task in islice(tasks, 1):
                    yield from running.send(task)
    finally:
        running.cancel()


def _here(waiting: deque[Task]) -> Iterator[Done]:
    """Yield what is done before an executor is worth its while, layout by layout, taken out of what waits."""
    began, left, done = process_time(), sum(len(task.layouts) for task in waiting), 0
    while waiting:
        spent = process_time() - began
        if spent >= FIRST and spent * left >= WORTH * done:
            return
        task = waiting.popleft()
        now, later = (replace(task, layouts=part) for part in (task.layouts[:1], task.layouts[1:]))
        if later.layouts:
            waiting.appendleft(later)
        yield now, perform(now)
        left, done = left - 1, done + 1


class Running:
    """Tasks that an executor has; those that it loses are sent again, and at last done here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.futures: dict[Future[Answers], tuple[Task, int]] = {}

    def send(self, task: Task, tries: int = 0) -> Iterator[Done]:
        """Submit a task; a broken executor takes none, so that it is done here."""
        try:
            self.futures[self._executor.submit(perform, task)] = task, tries
        except RuntimeError:
            yield task, perform(task)

    def take(self, future: Future[Answers]) -> Iterator[Done]:
        """Yield what came of a task."""
        task, tries = self.futures.pop(future)
        if future.exception() is None:
            yield task, future.result()
        elif tries < RETRIES:
            yield from self.send(task, tries + 1)
        else:
            yield task, perform(task)

    def cancel(self) -> None:
        """What has not begun never does."""
        for future in self.futures:
            future.cancel()
