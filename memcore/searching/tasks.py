"""The work of a search in pieces that any executor takes: small messages, and answers that are numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import Estimate, estimate
from memcore.searching.growth import Growths
from memcore.searching.layouts import Layout, config_of
from memcore.searching.spaces import Space
from memcore.searching.totals import Totals

Answer = tuple[int, int | None] | str
"""Bytes allocated and, where asked for, on the device; or why the layout cannot be."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some layouts of one config: all that a worker needs."""

    number: int
    config: str
    """As JSON, which also names it for what workers remember."""
    space: Space
    layouts: tuple[Layout, ...]
    ceiling: int | None
    """What fits below this is also measured on the device."""


def perform(task: Task) -> tuple[int, list[Answer]]:
    """The answers for a task's layouts, with its number."""
    base = _config(task.config)
    policies = task.space.policies
    totals = totals_of(task.config, task.space) if task.space.row.shared else None
    return task.number, [_answer(base, policies, totals, each, task.ceiling) for each in task.layouts]


def _answer(
    base: Config, policies: Sequence[Mapping[str, object]], totals: Totals | None, layout: Layout, ceiling: int | None
) -> Answer:
    total = None if totals is None else totals.total(layout)
    if isinstance(total, MemcoreError):
        return str(total)
    if total is not None and (ceiling is None or total > ceiling):
        return total, None
    try:
        found = estimate(config_of(base, layout, policies))
    except MemcoreError as error:
        return str(error)
    if not isinstance(found, Estimate):
        return "a server has no layouts"
    allocated = found.allocated.expected
    if ceiling is None or allocated > ceiling or found.rank.least_reserved > ceiling:
        return allocated, None
    return allocated, found.device.expected


@lru_cache(maxsize=512)
def _config(text: str) -> Config:
    return Config.from_dict(json.loads(text))


@lru_cache(maxsize=512)
def totals_of(text: str, space: Space) -> Totals:
    """What this process remembers of a config's layouts."""
    return Totals(_config(text), space)


@lru_cache(maxsize=512)
def growths_of(text: str, space: Space) -> Totals | Growths:
    """What this process knows about the layers of a config's layouts."""
    return totals_of(text, space) if space.row.shared else Growths(_config(text), space)


RETRIES = 2
"""How often a task whose worker was lost is sent again, before it is done here."""

Done = tuple[Task, list[Answer]]


def performed(tasks: Iterator[Task], executor: Executor | None, ahead: int) -> Iterator[Done]:
    """The tasks with their answers, as these come; at most `ahead` are under way at once."""
    if executor is None:
        yield from ((task, perform(task)[1]) for task in tasks)
        return
    running = Running(executor)
    try:
        for task in islice(tasks, ahead):
            yield from running.send(task)
        while running.futures:
            for future in wait(running.futures, return_when=FIRST_COMPLETED)[0]:
                yield from running.take(future)
                for task in islice(tasks, 1):
                    yield from running.send(task)
    finally:
        running.cancel()


class Running:
    """Tasks that an executor has; those that it loses are sent again, and at last done here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.futures: dict[Future[tuple[int, list[Answer]]], tuple[Task, int]] = {}

    def send(self, task: Task, tries: int = 0) -> Iterator[Done]:
        """Submit a task; a broken executor takes none, so that it is done here."""
        try:
            self.futures[self._executor.submit(perform, task)] = task, tries
        except RuntimeError:
            yield task, perform(task)[1]

    def take(self, future: Future[tuple[int, list[Answer]]]) -> Iterator[Done]:
        """What came of a task."""
        task, tries = self.futures.pop(future)
        if future.exception() is None:
            yield task, future.result()[1]
        elif tries < RETRIES:
            yield from self.send(task, tries + 1)
        else:
            yield task, perform(task)[1]

    def cancel(self) -> None:
        """What has not begun never does."""
        for future in self.futures:
            future.cancel()
