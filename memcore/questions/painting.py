"""Which values of a setting fit, along the steps of a slider: each twice the one before.

The allocated memory is found for every step, which is cheap; the allocator is asked only where that decides, and where
more of a setting needs more, only where the answer changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.memory.estimate import Estimate
from memcore.questions.describe import level
from memcore.questions.describe_serving import serving_level
from memcore.questions.solving import SMALLEST, Found, Pieces, Tries
from memcore.serving.inference import Inference

TRACKS: Mapping[str, range] = {
    Hardware.num_gpus: range(10),
    Training.sequence_length: range(8, 18),
    Training.micro_batch_size: range(8),
    Training.adapter.rank: range(9),
    Inference.batch_size: range(11),
    Inference.max_model_len: range(9, 18),
}
"""The powers of two that a slider offers of a setting."""
PAINTED = {"fits": "fits", "tight": "tight", "over": "no", "no": "no"}
"""How a verdict is painted. A value that the job cannot have is `refused`."""


def painted(config: Config, path: str) -> Pieces[list[str]]:
    """Return what each step of a slider is painted as. Raises ConfigError where no capacity is known."""
    tries = Tries(config, path)
    steps = [2**power for power in TRACKS[path]]
    for value in steps:
        yield from tries.at(value)
    found = [tries.known[value] for value in steps]
    if all(isinstance(each, MemcoreError) for each in found):
        yield from tries.refuse(steps[0])
    marks = ["refused" if isinstance(each, MemcoreError) else "no" for each in found]
    # The steps that may fit, from the one that needs least.
    order = [number for number, each in enumerate(found) if _may_fit(each)]
    if path.startswith(SMALLEST):
        order.reverse()

    def mark(at: int) -> Pieces[str]:
        number = order[at]
        if marks[number] == "no":
            each = found[number]
            marks[number] = "no" if isinstance(each, MemcoreError) else PAINTED[_level(each)]
            yield
        return marks[number]

    if not _grows([found[number] for number in order]):
        for at in range(len(order)):
            yield from mark(at)
        return marks
    fitting = yield from _leading(mark, 0, len(order), ("fits",))
    tight = yield from _leading(mark, fitting, len(order), ("fits", "tight"))
    for at, number in enumerate(order):
        marks[number] = "fits" if at < fitting else "tight" if at < tight else "no"
    return marks


def _leading(mark: Callable[[int], Pieces[str]], low: int, high: int, wanted: Sequence[str]) -> Pieces[int]:
    """Return how many come before the first that is not painted as wanted."""
    while low < high:
        middle = (low + high) // 2
        if (yield from mark(middle)) in wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _may_fit(found: Found | MemcoreError) -> bool:
    """Return whether the allocated memory leaves it open."""
    if isinstance(found, MemcoreError):
        return False
    return not isinstance(found, Estimate) or found.allocated.expected <= (found.capacity or 0)


def _grows(found: Sequence[Found | MemcoreError]) -> bool:
    """Return whether each of some estimates of training needs as much as the one before, or more."""
    sizes = [each.allocated.expected for each in found if isinstance(each, Estimate)]
    return len(sizes) == len(found) and sizes == sorted(sizes)


def _level(found: Found) -> str:
    if isinstance(found, Estimate):
        return level(found.device.low, found.device.expected, found.device.high, found.capacity or 0)
    return serving_level(found)
