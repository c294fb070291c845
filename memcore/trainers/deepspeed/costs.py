"""What ZeRO sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Settings
from memcore.trace.job import Job
from memcore.trace.traffic import Behind, Traffic
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.deepspeed.step_plan import ZeroPlan


def sent(stage: int, ranks: int, count: int, *, overlaps: bool) -> Traffic:
    """Stage 2 reduces in every micro-batch, stage 1 once; stage 3 gathers for each forward and backward pass.

    Below stage 3 gradients are reduced during the backward pass where `overlap_comm` is set, and parameters are
    gathered after the step (DeepSpeed, runtime/zero/stage_1_and_2.py: reduce_ipg_grads, all_gather_dp_groups).
    """
    if stage == 3:
        return Traffic(ranks, 2 * count, count)
    if stage == 2:
        return Traffic(ranks, 1, count, "nothing", "all" if overlaps else "nothing", _BUCKET, _BUCKET, updates=True)
    behind: Behind = "one" if overlaps else "nothing"
    return Traffic(ranks if stage else 1, min(stage, 1), 1, "nothing", behind, _BUCKET, _BUCKET, updates=True)


def zero(job: Job) -> Traffic:
    """Return what a job sends."""
    plan, ranks = job.recipe.plan(ZeroPlan), job.sizes["z"]
    if plan is None:
        return sent(0, ranks, job.micro_batches, overlaps=False)
    return sent(plan.stage, ranks, job.micro_batches, overlaps=plan.overlaps)


def searched(job: Job, settings: Settings, ranks: int, count: int) -> Traffic:
    """Return what a layout of a job with a policy's stage sends, on a number of ranks in a number of micro-batches."""
    overlaps = bool(job.config[DeepSpeedSettings.overlap_comm])
    return sent(int(str(settings[EngineSettings.zero_stage])), ranks, count, overlaps=overlaps)


_BUCKET = 5e8
"""Elements of a bucket (runtime/zero/config.py: reduce_bucket_size, allgather_bucket_size)."""
TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {f"deepspeed{stage}": zero for stage in ("", "3", "3-offload")}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
