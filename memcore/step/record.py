"""From a recipe to a program, once for each recipe."""

from __future__ import annotations

from functools import lru_cache

from memcore.engines import ENGINES
from memcore.layers import IMPLEMENTATIONS
from memcore.step.pipelined import record_stage
from memcore.step.recipe import Recipe
from memcore.step.step import Step
from memcore.timeline import Program


@lru_cache(maxsize=512)
def program_of(recipe: Recipe) -> Program:
    """Record a step and compile its tape."""
    step = Step(recipe, ENGINES[recipe.sharding.engine].runtime)
    code = IMPLEMENTATIONS[recipe.implementation]
    if recipe.pipeline is None:
        step.record(code.forward, code.inputs)
    else:
        kept = record_stage(step, code.forward, recipe.pipeline)
        program = Program(step.tape)
        del kept
        return program
    return Program(step.tape)
