"""What the free room of a job that fits is good for: more of what people want, each by itself, and sure to fit."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.config.defaults import value_of
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.estimation import changed
from memcore.limits import SEQUENCES
from memcore.questions.solving import Found, solve_by_piece
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference

POLICY = Training.activation_checkpointing.policy
TRAINED = (POLICY, Training.micro_batch_size, Training.sequence_length, Hardware.num_gpus)
SERVED = (Inference.batch_size, Inference.max_model_len)
"""Settings in which people want more, or less, of what they have: the largest that fits, or the fewest GPUs."""
LESS: tuple[str, ...] = ("full", "selective", "none")
"""Policies of checkpointing; each computes less twice than the one before, and keeps more."""
LENGTHS = (Training.sequence_length, Inference.max_model_len)
ROUND = 1024
"""Lengths of more than two of it are rounded down to its multiples, where those fit."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """One setting with another value, with which the job still fits, whatever end of its range is right."""

    path: str
    value: int | str
    found: Found


def headroom(config: Config, found: Found) -> Iterator[Headroom | None]:
    """Yield what else fits, each by itself; None after every estimate. The job has to fit."""
    for path in SERVED if isinstance(found, ServingEstimate) else TRAINED:
        now = _now(found, path)
        try:
            if path == POLICY:
                yield from _less_checkpointing(config, now)
            elif isinstance(now, int) and not (path == Hardware.num_gpus and now == 1):
                yield from _solved(config, path, now, found.job.model.sizes.get("P") if path in LENGTHS else None)
        except MemcoreError:  # not a setting of this job
            continue


def _now(found: Found, path: str) -> object:
    """Return what a job has: given, or assumed."""
    if path == Inference.batch_size and isinstance(found, ServingEstimate):
        return found.users
    return value_of(found.job.config, found.assumptions, path)


def _less_checkpointing(config: Config, now: object) -> Iterator[Headroom | None]:
    """Yield the policy that computes least twice."""
    for policy in reversed(LESS[LESS.index(str(now)) + 1 :] if now in LESS else ()):
        then = _fitting(config, POLICY, policy)
        yield Headroom(POLICY, policy, then) if then is not None else None
        if then is not None:
            return


def _solved(config: Config, path: str, now: int, most: int | None) -> Iterator[Headroom | None]:
    """Yield the value that `solve` finds; of a length at most the positions that the model was made for."""
    if most is not None and now >= most:
        return
    for solution in solve_by_piece(config, path, certain=True):
        if solution is None:
            yield None
        elif isinstance(solution.value, int) and solution.found is not None and (most or solution.beyond):
            value, then = solution.value, solution.found
            rounded = min(value, most or value)
            rounded = rounded if path not in LENGTHS or rounded < 2 * ROUND else rounded // ROUND * ROUND
            if rounded != value and (less := _fitting(config, path, rounded)) is not None:
                value, then = rounded, less
            if value < now if solution.smallest else now < value < SEQUENCES:  # more than any server takes is no limit
                yield Headroom(path, value, then)


def _fitting(config: Config, path: str, value: int | str) -> Found | None:
    """Return the estimate with another value, if it is allowed and fits with its whole range."""
    found = changed(config, {path: value})
    return found if found is not None and found.fits and found.certain else None
