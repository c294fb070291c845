"""What published formulas say about a job, next to memcore's own answer, and why the two differ."""

from __future__ import annotations

from collections.abc import Mapping

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate_training, is_serving
from memcore.i18n.page import complaint
from memcore.memory.estimate import Estimate
from memcore.memory.published import FormulaResult, Published
from memcore.messages import Message
from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Formulas compared with memcore."""

    published: tuple[Published, ...]
    """By tool; those that name what they assume first."""
    estimate: Estimate | None
    refused: str
    """Why memcore has no answer of its own."""

    @property
    def answers(self) -> tuple[FormulaResult, ...]:
        """Of all formulas."""
        return tuple(each for tool in self.published for each in tool.answers)

    @property
    def held(self) -> int | None:
        """Return bytes between steps on the worst rank: memcore's weights, gradients and optimizer."""
        return None if self.estimate is None else self.estimate.rank.between_steps


def compare(config: Config | Mapping[str, object]) -> Comparison:
    """Return every formula's answer for a job, and memcore's where it has one.

    Raises ConfigError for servers and for what cannot be understood, and UnsupportedError for networks that the
    formulas do not know.

    >>> compare({"model": "llama-3.1-8b", "parallelism": {"tensor_parallel_size": 8}}).answers[0].weight_and_optimizer
    18068686848.0
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    if is_serving(described):
        engine = described[EngineSettings.type]
        if engine:
            raise ConfigError.at(
                EngineSettings.type, Message("found {!s}; the published formulas are of training only", engine)
            )
        raise ConfigError.at("inference", "the published formulas are of training only")
    tools: list[Published] = [module.published(described) for module in registry.engine_modules("formulas")]
    published = tuple(sorted(tools, key=lambda tool: not any(each.assumptions for each in tool.answers)))
    try:
        own = estimate_training(described)
    except MemcoreError as error:
        return Comparison(published, None, complaint(error))
    return Comparison(published, own, "")
