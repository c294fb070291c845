"""Reading settings with defaults: what a config leaves open is filled in and noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.kinds import Taken
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting, ValueT
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import Problem, nearest
from memcore.messages import Message, filled, joined
from memcore.records import dataclass
from memcore.registry import LOOPS

WITH_OWN_LAYERS_ABSENT = (
    Training.loss_shift,
    Training.compute_dtype,
    Training.use_cache,
    Training.packed_sequences,
    Training.liger_kernels,
    Training.tiled_mlp,
    Training.compile,
    Training.compile_loss,
    Training.trainable,
    Training.offload.optimizer,
    Training.offload.parameters,
    Training.offload.activations,
    Training.quantization,
    Training.adapter.type,
    Parallelism.loss_parallel,
)
"""Settings that no engine with layers of its own has, as nanotron and Megatron-DeepSpeed."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A setting that the config leaves open, and what was taken instead."""

    path: str
    value: object
    reason: str
    notable: bool
    """A user should look at it; the rest is what the engine does by default."""


def value_of(config: Config, assumptions: Iterable[Assumption], path: str) -> Any:
    """Return what a job has of a setting: given, or taken instead; None where it has none."""
    given = config.get(path)
    return given if given is not None else next((each.value for each in assumptions if each.path == path), None)


class Defaults:
    """Reads settings, and notes what was taken where one is absent."""

    def __init__(self, config: Config) -> None:
        self._values = config.values
        self.assumptions: list[Assumption] = [*_taken(config)]
        self.problems: list[Problem] = []
        self.former_releases: list[str] = []
        """Releases of the training loop whose defaults move much memory, where the config does not name one."""

    def given(self, of: Setting[ValueT]) -> ValueT | None:
        """Return the value of a setting, or None."""
        return self._values.get(of)

    def take(self, of: Setting[ValueT], default: ValueT, reason: str | None = None) -> ValueT:
        """Return the value of a setting, else a default, which is noted; a reason makes it notable."""
        value = self.given(of)
        if value is not None:
            return value
        self.assumptions.append(Assumption(of, default, reason or "the engine's default", reason is not None))
        return default

    def refuse(self, path: str, said: str, *values: object) -> None:
        """Note a problem: a sentence, or the template of one and its values."""
        self.problems.append(Problem(path, filled(said, values)))

    def refuse_uneven(self, path: str, ranks: int, model: str, shared: Mapping[str, int]) -> None:
        """Note sizes that ranks cannot split equally, and numbers of ranks that can and divide the GPUs.

        That the number of GPUs or the sequence does not suit these ranks follows from it, and is not said too.
        """
        wrong = [Message("{} ({})", name, size) for name, size in shared.items() if size % ranks]
        if wrong:
            gpus, most = self.given(Hardware.num_gpus) or 0, gcd(*shared.values())
            able = [each for each in range(1, most + 1) if most % each == 0]
            able = [each for each in able if gpus % each == 0] if gcd(gpus, most) > 1 else able
            if gpus % ranks:
                self.forget(Hardware.num_gpus)
            said = "found {}, which does not divide {}'s {}; allowed: {}"
            self.refuse(path, said, ranks, model, joined(", ", wrong), joined(", ", map(str, able)))

    def forget(self, path: str) -> None:
        """Drop the problems of a setting, which follow from another's."""
        self.problems = [each for each in self.problems if each.path != path]

    def is_refused(self, path: str) -> bool:
        """Return whether a setting has a problem already."""
        return any(each.path == path for each in self.problems)

    def refuse_foreign(self, engine: str) -> None:
        """Note settings of other engines and an unknown training loop: nothing that is given is silently ignored."""
        loop = self.given(EngineSettings.framework)
        if loop is not None and loop not in LOOPS:
            message = Message("found {!r}; known: {}; leave it out for a loop of your own", loop, joined(", ", LOOPS))
            self.problems.append(Problem(EngineSettings.framework, message, nearest(loop, LOOPS)))
        for path, engines in _of_others(engine):
            value = self._values.get(path)
            if value is not None and not (value == 1 and path.startswith("parallelism.")):
                self.refuse(path, "applies to engine.type {}, found engine.type {!r}", joined(", ", engines), engine)

    def refuse_all(self, paths: Iterable[Setting[Any]], engine: str) -> None:
        """Note settings that an engine does not have, where they ask for something."""
        for path in paths:
            value = self.given(path)
            if value is True or value not in (None, False, 0, 1):
                self.refuse(path, "found {!r}, which is not supported yet with {}; leave it out", value, engine)


def _taken(config: Config) -> Iterator[Assumption]:
    """Yield what was taken for another word, an ambiguous name or an absent setting, and what it brings."""
    for path, value in config.values.items():
        if isinstance(value, Taken):
            yield Assumption(path, str(value), value.reason, notable=True)
            for other, brought in value.brings.items():
                if config.get(other) == brought:
                    yield Assumption(other, brought, value.reason, notable=True)


@lru_cache(maxsize=64)
def _of_others(engine: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return settings that an engine does not have, with the engines that do."""
    found = ((path, setting.engines) for path, setting in SETTINGS.items())
    return tuple((path, engines) for path, engines in found if engines is not None and engine not in engines)
