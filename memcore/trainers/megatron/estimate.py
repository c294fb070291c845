"""From a config to the answer: all stages of a job of Megatron-Core."""

from __future__ import annotations

from memcore.config.settings import Config
from memcore.memory.estimate import Estimate
from memcore.messages import Message
from memcore.trainers.megatron.captured import CapturedRank, Parts
from memcore.trainers.megatron.persistent import MegatronPersistent
from memcore.trainers.megatron.rank import MegatronRank, Recorded
from memcore.trainers.megatron.resolve import resolve, stage_jobs


def estimate(config: Config, *, fake: bool = False) -> Estimate:
    """Return every class of ranks: one for each pipeline stage."""
    whole = resolve(config)
    each, others, parts = whole.num_gpus // whole.stages, dict[int, Recorded](), dict[int, Parts]()
    name = "the GPU" if each == 1 else Message("all {} GPUs", each)
    held: dict[tuple[int, ...], MegatronPersistent] = {}
    ranks: list[MegatronRank] = []
    for job in stage_jobs(whole):
        keeps = held.setdefault(tuple(map(id, job.chunks)), MegatronPersistent(job))
        title = name if whole.stages == 1 else Message("stage {}", job.stage)
        if job.capture is None:
            ranks.append(MegatronRank(title, each, job, keeps, others))
        else:
            ranks.append(CapturedRank(title, each, job, keeps, others, job.capture, parts))
    return Estimate(whole, tuple(ranks))
