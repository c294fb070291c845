"""nanotron, from its settings to the recipe of a step and a rank's share of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.defaults import WITH_OWN_LAYERS_ABSENT, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.memory.communicators import Communicator, Extent
from memcore.messages import joined
from memcore.networks.glossary import SYMBOLS
from memcore.networks.network import Model
from memcore.symbols import Axis, measure, split_over
from memcore.trace.engine import Engine
from memcore.trace.recipe import HEAD, TAIL, Checkpoints, Loss, Pipeline, Precision, Recipe, Sharding
from memcore.trainers.nanotron.network import check, converted, is_qwen2, split_axes
from memcore.trainers.nanotron.settings import NanotronSettings
from memcore.trainers.nanotron.step_plan import NanotronPlan
from memcore.trainers.pytorch.extension import Extension
from memcore.trainers.pytorch.layout import STAGES
from memcore.trainers.pytorch.settings import TorchSettings

_TENSOR = Parallelism.tensor_parallel_size
_SEQUENCE = Parallelism.sequence_parallel
SORTED = 3072
"""Tokens whose gradients are added to an embedding's without sorting (Embedding.cu, embedding_dense_backward_cuda)."""
_ONLY: Mapping[Setting[Any], object] = {
    Training.implementation: "nanotron",
    Training.parameter_dtype: "bf16",
    Training.attention: "flash",
    Training.loss: "vocab-parallel",
    Training.attention_mask: "none",
    Training.zero_grad: "set-to-none",
    TorchSettings.pipeline_runtime: "nanotron",
}
"""Settings that nanotron leaves no choice of."""
_ABSENT = (
    *WITH_OWN_LAYERS_ABSENT,
    Training.dropout.hidden,
    Training.dropout.attention,
)
"""Settings of other engines."""
_AMONG: Mapping[Setting[Any], tuple[str, ...]] = {
    Training.optimizer.name: ("adamw", "sgd"),
    Parallelism.pipeline_schedule: ("1f1b", "gpipe"),
}
"""What its configs name (helpers.py, `init_optimizer_and_grad_accumulator`); 1F1B and `afab` (parallel/
pipeline_parallel/engine.py)."""
_ACCUMULATED = ((Training.gradient_dtype, "fp32", "bf16"), (Training.master_dtype, "fp32", "none"))
"""What is said of gradients and of the copy that the optimizer updates, with accumulation in fp32 and without."""


def nanotron_job(
    read: Defaults,
    model: Model,
    engine: Engine,
    sizes: Mapping[str, int],
    micro_batches: int,
    checkpoints: Checkpoints | None,
) -> tuple[Model, Recipe]:
    """Return what one rank has of the model, and the recipe of its step."""
    packed = _packed(read, model)
    check(model, packed=packed)
    _refuse(read, model, sizes, micro_batches)
    share = converted(model, sizes["tp"])
    precision, fp32 = _precision(read, engine)
    checkpointed = read.given(Training.activation_checkpointing.policy) or "none"
    if checkpointed == "selective":
        read.refuse(
            Training.activation_checkpointing.policy,
            "found {!r}; supported with nanotron: {}",
            "selective",
            "none, full",
        )
    return share, Recipe(
        network=share.network,
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in share.repeats),
        implementation="nanotron",
        attention="flash",
        padded=False,
        windowed=False,
        precision=precision,
        loss=Loss(kind="vocab-parallel", shifts_labels=False),
        sharding=Sharding(engine=engine.name, gathers=sizes["z"] > 1),
        checkpoints=checkpoints,
        micro_batches=2 if micro_batches > 1 else 1,
        keeps_gradients=False,
        units=frozenset(_units(sizes)),
        plans=(_plan(read, sizes, fp32, ties=model.network.embedding_and_head.tied, packed=packed),),
        pipeline=_pipeline(read),
    )


def _groups(recipe: Recipe, sizes: Mapping[str, int], extent: Extent) -> tuple[Communicator, ...]:
    """Return the groups that exchange something on the GPU.

    Source: parallel/context.py (groups; a stage's ranks lie next to each other), parallel/tied_parameters.py (every
    rank gathers who ties what; gradients of what is tied are summed), optim/clip_grads.py (norms of gradients are
    summed in a replica), trainer.py (gradients and losses are summed over replicas).
    """
    tensor, data, plan = sizes["tp"], sizes["z"], recipe.plan(NanotronPlan)
    ties = plan is not None and plan.ties
    return (
        Communicator("barriers", extent.ranks, trees=True),
        Communicator("world", extent.ranks, rings=True),
        Communicator("tensor", tensor, rings=True, trees=True),
        Communicator("data", data, rings=True, trees=True, apart=tensor),
        Communicator("norms of gradients", tensor * extent.stages, trees=True),
        extent.in_a_row(tensor * data),
        Communicator("tied embeddings", 2 if ties and extent.stages > 1 else 1, rings=True),
    )


def _refuse(read: Defaults, model: Model, sizes: Mapping[str, int], micro_batches: int) -> None:
    for path, only in _ONLY.items():
        value = read.given(path)
        if value is not None and value != only:
            read.refuse(path, "found {!r}; nanotron supports only {!r}", value, only)
    for path, among in _AMONG.items():
        value = read.given(path)
        if value not in (None, *among):
            read.refuse(path, "found {!r}; supported with nanotron: {}", value, joined(", ", among))
    read.refuse_all(_ABSENT, "nanotron")
    ranks = sizes["tp"]
    shared = {SYMBOLS.get(str(axis), str(axis)): measure(axis, sizes) for axis in split_axes(model)}
    read.refuse_uneven(_TENSOR, ranks, model.name, shared)
    if ranks > 1 and read.given(Parallelism.loss_parallel) is False:
        read.refuse(Parallelism.loss_parallel, "found {}; nanotron's ranks each hold part of the logits", "false")
    stages = read.given(STAGES) or 1
    if micro_batches < stages - 1:
        path = Training.gradient_accumulation_steps
        read.refuse(path, "found {}; nanotron's pipeline needs at least {} micro-batches", micro_batches, stages - 1)


def _precision(read: Defaults, engine: Engine) -> tuple[Precision, bool]:
    """Return the dtypes, and whether gradients accumulate in fp32."""
    usual = "bf16" if read.given(NanotronSettings.accumulate_grad_in_fp32) is False else engine.default_preset
    preset = read.take(Training.precision, usual, "as in nanotron's recipes")
    if preset not in engine.presets:
        read.refuse(Training.precision, "found {!r}; with {}: {}", preset, "nanotron", joined(", ", engine.presets))
        preset = engine.default_preset
    precision = engine.presets[preset]
    fp32 = bool(read.take(NanotronSettings.accumulate_grad_in_fp32, preset.endswith("mixed")))
    if fp32 != preset.endswith("mixed"):
        wanted = "bf16-mixed" if fp32 else "bf16"
        read.refuse(Training.precision, "found {!r}; accumulate_grad_in_fp32 {} means {!r}", preset, fp32, wanted)
    for path, with_it, without in _ACCUMULATED:
        value = read.given(path)
        if value is not None and value != (with_it if fp32 else without):
            read.refuse(path, "found {!r}; accumulate_grad_in_fp32 decides it, here {}", value, fp32)
    return precision, fp32


def _packed(read: Defaults, model: Model) -> bool:
    """Return whether nanotron's Qwen2 runs."""
    given = read.given(NanotronSettings.model_class)
    found = given == "qwen2" if given is not None else is_qwen2(model)
    stages = read.given(STAGES) or 1
    if found and stages > 1:
        read.refuse(STAGES, "found {}; pipelines of nanotron's Qwen2 are not supported yet; allowed: {}", stages, 1)
    return found


def _plan(read: Defaults, sizes: Mapping[str, int], fp32: bool, *, ties: bool, packed: bool) -> NanotronPlan:
    tensor = sizes["tp"] > 1
    by_sequence = read.given(_SEQUENCE)
    mode = read.take(NanotronSettings.tp_mode, "REDUCE_SCATTER" if by_sequence else "ALL_REDUCE")
    scatters = mode == "REDUCE_SCATTER"
    if tensor and by_sequence is not None and by_sequence != scatters:
        read.refuse(_SEQUENCE, "found {}; engine.tp_mode is {!r}", by_sequence, mode)
    if tensor and scatters and sizes["s"] % sizes["tp"]:
        read.refuse(Training.sequence_length, "found {}, which is not divisible by {} ranks", sizes["s"], sizes["tp"])
    stage = read.take(EngineSettings.zero_stage, 0)
    if stage > 1:
        read.refuse(EngineSettings.zero_stage, "found {}; nanotron supports 0 and 1", stage)
    usual = scatters if tensor else read.given(NanotronSettings.tp_mode) != "ALL_REDUCE"
    overlaps = bool(read.take(NanotronSettings.tp_linear_async_communication, usual, "as in nanotron's recipes"))
    if overlaps and not scatters and tensor:
        read.refuse(
            NanotronSettings.tp_linear_async_communication,
            "found {}; nanotron's row-parallel matrices need tp_mode 'REDUCE_SCATTER'",
            "true",
        )
    return NanotronPlan(
        tensor=tensor,
        scatters=tensor and scatters,
        overlaps=overlaps,
        gathers_again=bool(read.take(NanotronSettings.tp_recompute_allgather, True)),
        fp32_gradients=fp32,
        sorts=sizes["b"] * sizes["s"] > SORTED,
        ties=ties,
        packed=packed,
        zero_stage=stage,
    )


def _pipeline(read: Defaults) -> Pipeline | None:
    if (read.given(STAGES) or 1) == 1:
        return None
    return Pipeline(warm=0, stands=False, runs=0, skips=False, runtime="nanotron", returns_outputs=False)


_AXES = ("b", "s", "a", "k")
"""Sizes that shapes have as axes of their own, where an axis of one element changes what must be copied."""


def _units(sizes: Mapping[str, int]) -> list[Axis]:
    found: list[Axis] = [name for name in _AXES if sizes.get(name) == 1]
    return found + [split_over(name) for name in _AXES if sizes.get(name) == sizes["tp"]]


EXTENSION = Extension(job=nanotron_job, groups=_groups, offers={Training.loss: ("vocab-parallel",)}, ties_stages=True)
"""nanotron: layers, pipelines and ZeRO of its own."""
