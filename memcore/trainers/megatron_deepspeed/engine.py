"""Megatron-DeepSpeed's engines: ZeRO's stages around Megatron-LM's layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memcore.symbols import Axis, Shape, split_over
from memcore.trace.engine import Engine
from memcore.trace.recipe import Buffer, Recipe
from memcore.trainers.deepspeed import engine as deepspeed
from memcore.trainers.deepspeed.engine import Weights, buffers
from memcore.trainers.megatron.step_plan import MegatronPlan


def _buffers(weights: Weights, recipe: Recipe) -> Sequence[Buffer]:
    """Return what ZeRO keeps, and the buffer in which Megatron's matrix products gather sequences or put scores."""
    found, plan = list(buffers(weights, recipe)), recipe.plan(MegatronPlan)
    dtype = recipe.precision.compute
    if plan is not None and plan.sequence:
        found.append(Buffer(rule="gather_buffer", module="mpu", shape=("s", "b", "h"), dtype=dtype))
    found += _of_pipeline(recipe)
    heads = next(mixer.heads for layer in recipe.network.kinds for mixer in layer.mixers if hasattr(mixer, "heads"))
    if recipe.attention == "math":
        shape: Shape = ("b", heads.query, "s", "s")
        found.append(Buffer(rule="score_buffer", module="mpu", shape=shape, dtype=dtype))
    return found


def _of_pipeline(recipe: Recipe) -> Iterator[Buffer]:
    """Yield what a stage receives in, and the mask that all micro-batches share, whether attention takes it or not."""
    plan, embedding_and_head = recipe.plan(MegatronPlan), recipe.network.embedding_and_head
    if recipe.pipeline is None or plan is None:
        return
    tokens: Axis = split_over("s") if plan.tensor else "s"
    if plan.sequence:
        tokens = split_over(tokens)
    for rule, there in (
        ("received_activation", not embedding_and_head.reads_tokens),
        ("received_gradient", not embedding_and_head.predicts),
    ):
        if there:
            yield Buffer(rule=rule, module="pipeline", shape=(tokens, "b", "h"), dtype=recipe.precision.compute)
    yield Buffer(rule="causal_mask", module="attn_mask", shape=("sq", "sq"), dtype="bool")


def _megatron(engine: Engine) -> Engine:
    """Return the engine under Megatron-DeepSpeed's training loop."""
    key = f"megatron-{engine.key}" if engine.key else ""
    return replace(engine, name="megatron-deepspeed", title="Megatron-DeepSpeed", key=key, buffers=_buffers)


ENGINES: Mapping[str, Engine] = {each.key or each.name: each for each in map(_megatron, deepspeed.ENGINES.values())}
