"""A job's pipeline: what each stage has, and how many micro-batches are in flight on it.

Source: torch/distributed/pipelining/schedules.py (`Schedule1F1B`, `ScheduleGPipe`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from memcore.job import Job
from memcore.step.pipelined import IN_FLIGHT, MICRO_BATCHES, UNRECORDED
from memcore.step.recipe import HEAD, TAIL
from memcore.step.step import run_name

COUNTED = 3
"""Micro-batches in flight that are recorded one by one; with more, the last of these stands for the rest."""

_WARM: Mapping[str, Callable[[int, int, int], int]] = {
    "1f1b": lambda number, stages, count: min(stages - number - 1, count),
    "gpipe": lambda number, stages, count: count,
}
"""By schedule: forward passes of a stage before its first backward pass, of `count` micro-batches."""


def stage_jobs(job: Job) -> Iterator[Job]:
    """The job of each stage, in order; of a job without a pipeline, the job itself."""
    plan = job.recipe.pipeline
    if plan is None:
        yield job
        return
    for number in range(job.stages):
        warm = _WARM[job.schedule](number, job.stages, job.micro_batches)
        more = max(warm - COUNTED, 0)
        runs = min(job.micro_batches - more, warm - more + 2)
        model, share = (job.engine.stage(each, number, job.stages) for each in (job.model, job.share))
        network = job.engine.stage(replace(job.share, network=job.recipe.network), number, job.stages).network
        recipe = replace(
            job.recipe,
            network=network,
            repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in model.repeats),
            pipeline=replace(plan, warm=warm - more, stands=more > 0, runs=runs, skips=runs + more < job.micro_batches),
        )
        runs_of_layers = {run_name(run): repeats - HEAD - TAIL for run, repeats in enumerate(model.repeats)}
        counts = {IN_FLIGHT: more, MICRO_BATCHES: job.micro_batches, UNRECORDED: job.micro_batches - runs - more}
        yield replace(job, model=model, share=share, recipe=recipe, sizes={**job.sizes, **runs_of_layers, **counts})
