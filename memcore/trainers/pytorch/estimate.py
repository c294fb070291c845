"""From a config to the answer, for engines whose jobs run PyTorch's own step."""

from __future__ import annotations

from memcore.config.settings import MODEL, Config
from memcore.memory.estimate import Estimate
from memcore.memory.rank import ranks_of
from memcore.trainers.pytorch.resolve import resolve


def estimate(config: Config, *, fake: bool = False) -> Estimate:
    """Return every class of ranks, and the same for other networks that the model may stand for."""
    job = resolve(config, fake=fake)
    others = (estimate(config.replaced(MODEL, other), fake=fake) for other in job.model.alternatives)
    return Estimate(job, ranks_of(job), tuple(others))
