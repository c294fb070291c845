"""All stages of a job of Megatron-Core."""

from __future__ import annotations

from memcore.config.settings import Config
from memcore.trainers.megatron.captured import CapturedRank, Parts
from memcore.trainers.megatron.persistent import MegatronPersistent
from memcore.trainers.megatron.rank import MegatronRank, Recorded
from memcore.trainers.megatron.resolve import MegatronJob, resolve, stage_jobs


def stages_of(config: Config) -> tuple[MegatronJob, tuple[MegatronRank, ...]]:
    """A job of Megatron-Core, and every class of its ranks: one for each pipeline stage."""
    whole = resolve(config)
    each, others, parts = whole.num_gpus // whole.stages, dict[int, Recorded](), dict[int, Parts]()
    name = "the GPU" if each == 1 else f"all {each} GPUs"
    held: dict[tuple[int, ...], MegatronPersistent] = {}
    ranks = []
    for job in stage_jobs(whole):
        keeps = held.setdefault(tuple(map(id, job.chunks)), MegatronPersistent(job))
        title = name if whole.stages == 1 else f"stage {job.stage}"
        if job.capture is None:
            ranks.append(MegatronRank(title, each, job, keeps, others))
        else:
            ranks.append(CapturedRank(title, each, job, keeps, others, job.capture, parts))
    return whole, tuple(ranks)
