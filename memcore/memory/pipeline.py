"""A job's pipeline: what each stage has, and how many micro-batches are in flight on it.

Source: torch/distributed/pipelining/schedules.py (`Schedule1F1B`, `ScheduleGPipe`; others: `memcore.trace.schedules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from memcore.networks.network import Model
from memcore.networks.regrouping import counted_anew, skipped
from memcore.networks.stages import joined
from memcore.trace.job import Job
from memcore.trace.looped import TURNS, in_flight
from memcore.trace.pipelined import IN_FLIGHT, MICRO_BATCHES, UNRECORDED
from memcore.trace.recipe import HEAD, TAIL, Recipe
from memcore.trace.schedules import BOTH_WAYS, LOOPED, V_SHAPED, enough, facing, fullest
from memcore.trace.step import run_name

COUNTED = 3
"""Micro-batches in flight that are recorded one by one; with more, the last of these stands for the rest."""

_WARM: Mapping[str, Callable[[int, int, int], int]] = {
    "1f1b": lambda number, stages, count: min(stages - number - 1, count),
    "gpipe": lambda number, stages, count: count,
}
"""By schedule: forward passes of a stage before its first backward pass, of `count` micro-batches."""


def stage_jobs(job: Job) -> Iterator[Job]:
    """Return the job of each stage, in order; of a job without a pipeline, the job itself."""
    return (stage_job(job, number) for number in range(job.stages))


def stage_job(job: Job, number: int) -> Job:
    """Return the job of one stage, or of a rank with several; of a job without a pipeline, the job itself."""
    plan = job.recipe.pipeline
    if plan is None:
        return job
    if job.schedule in LOOPED:
        return _rank_job(job, number)
    warm = _WARM[job.schedule](number, job.stages, job.micro_batches)
    more = max(warm - COUNTED, 0)
    runs = min(job.micro_batches - more, warm - more + 2)
    computed = replace(job.share, network=job.recipe.network)
    model, share, computed = (job.staged(each, number, job.stages) for each in (job.model, job.share, computed))
    checkpoints = job.recipe.checkpoints
    if checkpoints is not None and checkpoints.every > 1:
        # torchtitan and PyTorch's wrappers count the layers that a process has (`_layer_sac_count`).
        model, share, computed = (counted_anew(each, checkpoints.every) for each in (model, share, computed))
        checkpoints = replace(checkpoints, skipped=skipped(model, checkpoints.every))
    recipe = replace(
        job.recipe,
        network=computed.network,
        checkpoints=checkpoints,
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in model.repeats),
        pipeline=replace(
            plan,
            warm=warm - more,
            stands=more > 0,
            runs=runs,
            skips=runs + more < job.micro_batches,
            waits=job.engine.waits(job.model, number, job.stages),
        ),
    )
    runs_of_layers = {run_name(run): repeats - HEAD - TAIL for run, repeats in enumerate(model.repeats)}
    counts = {IN_FLIGHT: more, MICRO_BATCHES: job.micro_batches, UNRECORDED: job.micro_batches - runs - more}
    sizes = {**job.sizes, **runs_of_layers, **counts}
    sizes |= job.engine.stage_sizes(share, sizes)
    return replace(job, model=model, share=share, recipe=recipe, sizes=sizes)


def stages_of_rank(job: Job, rank: int) -> tuple[int, ...]:
    """Return the numbers of a rank's stages: every n-th, in a V there and back, or those of both directions."""
    if job.schedule == BOTH_WAYS:
        return facing(rank, job.stages)
    if job.schedule in V_SHAPED:
        return rank, 2 * job.stages - 1 - rank
    return tuple(rank + job.stages * chunk for chunk in range(job.stages_each))


def _rank_job(job: Job, rank: int) -> Job:
    """Return the job of a rank that has several stages."""
    numbers, both = stages_of_rank(job, rank), job.schedule == BOTH_WAYS
    total = job.stages if both else job.stages * job.stages_each
    count = job.micro_batches // 2 if both else job.micro_batches  # on each stage of the rank
    models = [job.staged(job.model, number, total) for number in numbers]
    shares = [job.staged(job.share, number, total) for number in numbers]
    networks = replace(job.share, network=job.recipe.network)
    listed = enough(job.stages, job.micro_batches)
    actions = LOOPED[job.schedule](rank, job.stages, job.stages_each, listed)
    waiting = fullest(actions, [model.num_layers for model in models])
    recipes = list(_recipes(job, models, [job.staged(networks, number, total) for number in numbers]))
    plan = job.recipe.pipeline
    if plan is None:
        raise TypeError(job)
    recorded = TURNS + waiting[-1]
    plan = replace(plan, skips=recorded < count)
    others = tuple(replace(recipe, pipeline=plan) for recipe in recipes[1:])
    pipeline = replace(plan, others=others, waiting=tuple(min(count, 2) for count in waiting))
    whole = joined(models)
    sizes = {run_name(run): repeats - HEAD - TAIL for run, repeats in enumerate(whole.repeats)}
    sizes |= {in_flight(chunk): count - 1 for chunk, count in enumerate(waiting)}
    sizes |= {MICRO_BATCHES: count, UNRECORDED: count - recorded}
    recipe = replace(recipes[0], pipeline=pipeline)
    return replace(job, model=whole, share=joined(shares), recipe=recipe, sizes={**job.sizes, **sizes})


def _recipes(job: Job, models: list[Model], networks: list[Model]) -> Iterator[Recipe]:
    """Yield the recipe of each stage of a rank."""
    first = 0
    for model, stage in zip(models, networks, strict=True):
        repeats = tuple(min(times, HEAD + TAIL + 1) for times in model.repeats)
        yield replace(job.recipe, network=stage.network, repeats=repeats, first_run=first)
        first += len(repeats)
