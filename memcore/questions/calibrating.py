"""The rates of a user's own machine: those with which the cost model gives the step times that logs of runs state."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.errors import ConfigError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.messages import joined
from memcore.questions.costs import Cost, Range, cost_of, seconds_of
from memcore.questions.roofline import Roofline, roofline_for
from memcore.records import dataclass
from memcore.trace.job import Job

COMPUTING = ("flops_efficiency", "narrow_efficiency", "attention_efficiency")
"""The rates that are set, all by one factor: how fast products are differs most between machines."""
LEAST = 0.02
"""No run reaches less of what is expected: what is slower waits for something that the cost model does not know."""
_HALVINGS = 40
_NUMBER = r"([0-9][0-9,]{0,15}(?:\.[0-9]{1,9})?)"


Seconds = Callable[[float, Job, Cost], float]
"""Seconds of the whole job's step, from a number of a log."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A number that a tool prints after each step."""

    tool: str
    pattern: re.Pattern[str]
    seconds: Seconds
    source: str


def _seconds(number: float, job: Job, price: Cost) -> float:
    return number


def _milliseconds(number: float, job: Job, price: Cost) -> float:
    return number / 1000


def _steps(number: float, job: Job, price: Cost) -> float:
    return 1 / number


def _tokens(number: float, job: Job, price: Cost) -> float:
    """Of tokens that each GPU has a share of, in a second."""
    return price.tokens / (number * price.gpus)


def _sequences(number: float, job: Job, price: Cost) -> float:
    return price.tokens / (job.sizes["s"] * job.sizes["cp"]) / number


_PROGRESS = r"[0-9]/[0-9]{1,9} \[[0-9:]{4,12}<[0-9:]{4,12}, {1,4}"
_TIMES = r"time_per_iteration_ms: "
METERS = tuple(
    Meter(tool, re.compile(before + _NUMBER + after), seconds, source)
    for tool, before, after, seconds, source in (
        ("Megatron-LM", r"time\sper\siteration\s\(ms\):\s", "", _milliseconds, "megatron/training/training.py"),
        ("Megatron Bridge", r"Step Time ?: ", "s", _seconds, "megatron/bridge/training/utils/train_utils.py"),
        ("NeMo", r"train_step_timing\sin\ss[=:]\s?", "", _seconds, "nemo/utils/exp_manager.py, TimingCallback"),
        ("nanotron", _TIMES, r"K\b", _seconds, "nanotron/trainer.py, train_step_logs"),
        ("nanotron", _TIMES, r"(?![K0-9.,])", _milliseconds, "nanotron/trainer.py, train_step_logs"),
        ("torchtitan", r"\btps: ", "", _tokens, "torchtitan/components/metrics.py"),
        ("torchtune", r"tokens_per_second_per_gpu: ?", "", _tokens, "torchtune, recipes/*.py"),
        ("DeepSpeed", r"CurrSamplesPerSec=", "", _sequences, "deepspeed/utils/timer.py, ThroughputTimer"),
        (
            "Trainer",
            r"['\"]train_steps_per_second['\"]: ['\"]?",
            "",
            _steps,
            "transformers/trainer_utils.py",
        ),
        ("Trainer", _PROGRESS, "s/it", _seconds, "tqdm"),
        ("Trainer", _PROGRESS, "it/s", _steps, "tqdm"),
    )
)
"""The first that a log has counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The step time of one log."""

    tool: str
    steps: int
    """How many numbers the log has."""
    seconds: float
    """Their median, without the first of three and more: it warms up."""
    source: str
    """Where the tool prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Rates for a machine; `calibrate` returns it."""

    timed: tuple[Timed, ...]
    """What each log states."""
    before: Range
    """The predicted seconds of a step: low end, expected, high end."""
    after: float
    """The same, expected, with the rates."""
    rates: Mapping[str, float]
    """Inputs of the cost model by name, as `Roofline.adjusted` and `--assume` take them."""
    roofline: Roofline
    """The cost model's inputs with these rates."""
    bounded: bool
    """True if the logs are faster or slower than any share of the GPU's peak explains."""

    @property
    def measured(self) -> float:
        """Return the seconds of a step in the median of the logs."""
        return median(each.seconds for each in self.timed)


def calibrate(config: Config | Mapping[str, object], logs: Sequence[str]) -> Calibration:
    """Fit the rates of the cost model to the step times in the logs of a training job.

    One factor changes the shares of the GPU's peak that products and attention reach; bandwidths stay as they are.

    Args:
        config: The training job that was run, as in `estimate`.
        logs: The text of one or more logs of that job.

    Returns:
        A `Calibration`; `roofline` goes to `search` and `plan`.

    Raises:
        ConfigError: If a log states no step time, if the config is a server's, and as in `estimate`.
        UnsupportedError: As in `estimate`.

    Sources: the lines of each tool are in `METERS`; step times follow [the cost model](costs.md).

    Examples:
        >>> job = {"model": "gpt2", "training": {"sequence_length": 1024, "micro_batch_size": 8}}
        >>> found = calibrate(job, ["iteration 10 | elapsed time per iteration (ms): 300.0 |"])
        >>> found.measured, round(found.after, 3), sorted(found.rates)[0]
        (0.3, 0.3, 'attention_efficiency')
    """
    asked = config if isinstance(config, Config) else Config.from_dict(config)
    found = estimate(asked)
    if not isinstance(found, Estimate):
        raise ConfigError.at(EngineSettings.type, "servers have no training steps: give the config of a training job")
    usual = roofline_for(asked)
    price = cost_of(found.job, usual)
    timed = tuple(_timed(text, number, found.job, price) for number, text in enumerate(logs, 1))
    goal = median(each.seconds for each in timed)
    factor, bounded = _factor(found.job, usual, goal)
    rates = {name: round(getattr(usual, name) * factor, 4) for name in COMPUTING}
    roofline = usual.adjusted(**rates)
    return Calibration(
        timed=timed, before=seconds_of(price), after=cost_of(found.job, roofline).seconds, rates=rates,
        roofline=roofline, bounded=bounded,
    )  # fmt: skip


def _timed(text: str, number: int, job: Job, price: Cost) -> Timed:
    for meter in METERS:
        numbers = [float(each[1].replace(",", "")) for each in meter.pattern.finditer(text)]
        found = [meter.seconds(each, job, price) for each in numbers if each > 0]
        if found:
            steady = found[1:] if len(found) > 2 else found
            return Timed(tool=meter.tool, steps=len(found), seconds=median(steady), source=meter.source)
    tools = joined(", ", dict.fromkeys(each.tool for each in METERS))
    message = "log {} has no step time that memcore can read (it reads logs of {})"
    raise ConfigError.at("LOG", message, number, tools)


def _factor(job: Job, usual: Roofline, goal: float) -> tuple[float, bool]:
    """Return what the efficiencies are multiplied with, and whether it is at a bound."""

    def seconds(factor: float) -> float:
        return cost_of(job, usual.adjusted(**{name: getattr(usual, name) * factor for name in COMPUTING})).seconds

    low, high = LEAST, 1 / max(usual.flops_efficiency, usual.narrow_efficiency)
    if seconds(high) >= goal:
        return high, True
    if seconds(low) <= goal:
        return low, True
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if seconds(middle) < goal else (middle, high)
    return (low + high) / 2, False
