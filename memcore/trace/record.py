"""From a recipe to a program, once for each recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
from typing import Protocol, TypeVar

from memcore.trace.code import LayerCode, code_of
from memcore.trace.engine import engine_of
from memcore.trace.exclusive import exclusively
from memcore.trace.looped import record_rank
from memcore.trace.pipelined import record_stage
from memcore.trace.program import Program
from memcore.trace.recipe import Recipe
from memcore.trace.repeated import First, first_of, repeated
from memcore.trace.step import Step, turns


class _Recording(Protocol):
    """What is recorded."""

    @property
    def events(self) -> tuple[int, ...]:
        """Return what comes and goes."""


_Recorded = TypeVar("_Recorded", bound=_Recording)


class StoppedError(Exception):
    """A recording ended after its first forward pass."""


_enough: ContextVar[Callable[[Program], bool] | None] = ContextVar("enough", default=None)


@contextmanager
def stopping(enough: Callable[[Program], bool]) -> Iterator[None]:
    """Meanwhile end recordings whose first forward pass is enough to know: two thirds of a step come after it.

    They raise StoppedError, and nothing of them is kept.
    """
    before = _enough.set(enough)
    try:
        yield
    finally:
        _enough.reset(before)


def _look(step: Step, enough: Callable[[Program], bool]) -> None:
    """End a recording if what there is of it is enough; its segment that is open is not looked at."""
    if enough(Program(step.tape)):
        raise StoppedError


@lru_cache(maxsize=512)
def program_of(recipe: Recipe) -> Program:
    """Record a step and compile its tape."""
    if recipe.pipeline is None and engine_of(recipe.sharding.engine).runtime.uniform(recipe):
        first = first_micro_batch(replace(recipe, micro_batches=1, keeps_gradients=False))
        tape = repeated(first, turns(recipe))
        if tape is not None:
            return Program(tape)
    return _surely(partial(recorded, recipe))


@lru_cache(maxsize=128)
def first_micro_batch(recipe: Recipe) -> First:
    """Record a step of one micro-batch, with where each gradient would go if there were one to add it to."""

    def record() -> First:
        step, code = _begun(recipe)
        step.tape.handed = []
        _run(step, code)
        return first_of(step.tape)

    return _surely(record)


@lru_cache(maxsize=512)
def forward_of(recipe: Recipe) -> Program:
    """Record the forward pass of a first micro-batch alone, with everything that it keeps for the backward pass."""

    def record() -> Program:
        step, code = _begun(recipe)
        kept = step.ahead(code.forward, code.inputs)
        program = Program(step.tape)
        del kept  # what autograd holds for the backward pass is alive where the tape ends
        return program

    return _surely(record)


@lru_cache(maxsize=512)
def evaluation_of(recipe: Recipe) -> Program:
    """Record a forward pass without gradients."""

    def record() -> Program:
        step, code = _begun(recipe)
        step.evaluate(code.forward, code.inputs)
        return Program(step.tape)

    return _surely(record)


def recorded(recipe: Recipe) -> Program:
    """Record every micro-batch of a step."""
    step, code = _begun(recipe)
    if recipe.pipeline is None:
        _run(step, code)
        return Program(step.tape)
    kept: object
    if recipe.pipeline.waiting:
        runtime = engine_of(recipe.sharding.engine).runtime
        steps = [step, *(Step(other, runtime, step.tape) for other in recipe.pipeline.others)]
        kept = record_rank(steps, code.forward, recipe.pipeline)
    else:
        kept = record_stage(step, code.forward, recipe.pipeline)
    program = Program(step.tape)
    del kept  # the tape ends before what the schedule still holds goes
    return program


def _begun(recipe: Recipe) -> tuple[Step, LayerCode]:
    """Return a step of which nothing is recorded yet, and the code of its layers."""
    return Step(recipe, engine_of(recipe.sharding.engine).runtime), code_of(recipe.implementation)


def _run(step: Step, code: LayerCode) -> None:
    """Record a step; one that is looked at after its first forward pass may end there (`stopping`)."""
    enough = _enough.get()
    step.passed = None if enough is None else partial(_look, step, enough)
    step.record(code.forward, code.inputs)


def _surely(record: Callable[[], _Recorded]) -> _Recorded:
    """Record a step; with other threads running, until two recordings agree."""
    with exclusively() as alone:
        found, sure = record(), alone
        while not sure:
            again = record()
            found, sure = again, again.events == found.events
        return found
