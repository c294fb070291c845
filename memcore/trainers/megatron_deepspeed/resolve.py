"""Megatron-DeepSpeed, from its settings to the recipe of a step and a rank's share of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from memcore.config.defaults import WITH_OWN_LAYERS_ABSENT, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import joined
from memcore.networks.adapters import learns
from memcore.networks.glossary import SYMBOLS
from memcore.networks.network import Model
from memcore.networks.parts import Attention
from memcore.networks.separate_experts import experts_of
from memcore.networks.share import padded, shared
from memcore.symbols import product
from memcore.trace.engine import Engine
from memcore.trace.recipe import HEAD, TAIL, Checkpoints, Loss, Pipeline, Recipe, Sharding
from memcore.trace.ulysses import Ulysses
from memcore.trainers.deepspeed.engine import plan_of, shared_by
from memcore.trainers.deepspeed.resolve import groups, offloaded, with_zero, zero_engine
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.megatron.networks.converted import as_megatron
from memcore.trainers.megatron.step_plan import Experts, MegatronPlan, Recompute
from memcore.trainers.megatron_deepspeed.layers import check
from memcore.trainers.pytorch.extension import Extension
from memcore.trainers.pytorch.layout import STAGES, ULYSSES, ulysses_ranks
from memcore.trainers.pytorch.recipes import unit_axes, with_dropout

NAME = "megatron-deepspeed"
_TENSOR = Parallelism.tensor_parallel_size
_CONTIGUOUS = DeepSpeedSettings.contiguous_memory_optimization
_SEQUENCE = Parallelism.sequence_parallel
_ONLY: Mapping[Setting[Any], tuple[object, ...]] = {
    Training.implementation: ("megatron-local",),
    Training.loss: ("vocab-parallel",),
    Training.attention_mask: ("none",),
    Training.zero_grad: ("set-to-none",),
    Training.activation_checkpointing.modules: ("core_attn", ["core_attn"], ("core_attn",)),
    Training.activation_checkpointing.method: ("uniform",),
    Training.activation_checkpointing.num_layers: (1,),
}
"""Settings without a choice, or whose other values are not supported yet."""
_ABSENT = (
    *WITH_OWN_LAYERS_ABSENT,
    Training.activation_checkpointing.every,
    Training.activation_checkpointing.mode,
    Training.parameter_dtype,
    Training.images_per_sequence,
)
"""Settings of other engines."""


def converted(model: Model) -> Model:
    """Return the model with Megatron's matrices.

    Raises UnsupportedError for what Megatron-DeepSpeed has no counterpart of.
    """
    found = as_megatron(model)
    check(found.network)
    return found


def megatron_deepspeed_job(
    read: Defaults,
    model: Model,
    engine: Engine,
    sizes: Mapping[str, int],
    micro_batches: int,
    checkpoints: Checkpoints | None,
) -> tuple[Model, Recipe]:
    """Return what one rank has of the model, and the recipe of its step."""
    _refuse(read, model, sizes)
    sharded = bool(read.take(_SEQUENCE, False, "Megatron-DeepSpeed's default")) and sizes["tp"] > 1
    whole = replace(model, sizes={**model.sizes, "V": padded(model.sizes["V"], model.sizes["vd"], sizes["tp"])})
    share = shared(with_dropout(read, whole))
    preset = read.take(Training.precision, engine.default_preset)
    if preset not in engine.presets:
        read.refuse(Training.precision, "found {!r}; with {}: {}", preset, engine.title, joined(", ", engine.presets))
    precision = engine.presets.get(preset, engine.presets[engine.default_preset])
    return share, Recipe(
        network=share.network,
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in share.repeats),
        implementation=NAME,
        attention=_kernel(read),
        padded=False,
        windowed=False,
        precision=precision,
        loss=Loss(kind="vocab-parallel", shifts_labels=False),
        sharding=Sharding(engine=engine.key or engine.name, gathers=sizes["z"] > 1),
        checkpoints=_checkpoints(read, checkpoints, sharded=sharded),
        micro_batches=2 if micro_batches > 1 else 1,
        keeps_gradients=False,
        units=frozenset(unit_axes(sizes)),
        ulysses=_ulysses(read, model, sizes),
        pipeline=_pipeline(read),
        plans=(_plan(read, model, sizes, sharded=sharded),),
    )


def _checkpoints(read: Defaults, checkpoints: Checkpoints | None, *, sharded: bool) -> Checkpoints | None:
    """`deepspeed.checkpointing`: layers run again as a whole.

    Contiguous buffers are one for each layer, made when the first is filled, and freed one by one: what is held
    when the backward pass begins is the same (checkpointing.py: `partition_activations`, `CheckpointFunction`).
    """
    parts, host = DeepSpeedSettings.partition_activations, DeepSpeedSettings.cpu_checkpointing
    if read.given(_CONTIGUOUS) and not read.given(parts):
        read.refuse(_CONTIGUOUS, "found {}; needs {}", "true", parts)
    if checkpoints is None or _selects(read):
        for path in (parts, host):
            if read.given(path):
                read.refuse(path, "found {}; needs training.activation_checkpointing 'full'", "true")
        return None
    partitioned = bool(read.take(parts, False))
    if partitioned and sharded:
        read.refuse(parts, "found {}; with {} each rank already holds only part of the sequence", "true", _SEQUENCE)
    hosted = bool(read.take(host, False))
    return replace(checkpoints, reentrant=True, inputs_learn=True, partitioned=partitioned, hosted=hosted)


def _selects(read: Defaults) -> bool:
    """Return whether selective recomputation covers the core of attention: where it is not FlashAttention."""
    return bool(read.given(Training.activation_checkpointing.policy) == "selective")


def _kernel(read: Defaults) -> str:
    kernel = str(read.take(Training.attention, "flash", "--use-flash-attn-v2"))
    if kernel not in ("flash", "math"):
        read.refuse(Training.attention, "found {!r}; Megatron-DeepSpeed supports flash and math", kernel)
    return kernel


def _refuse(read: Defaults, model: Model, sizes: Mapping[str, int]) -> None:
    for path, allowed in _ONLY.items():
        value = read.given(path)
        if value is not None and value not in allowed:
            names = ", ".join(map(str, allowed))
            read.refuse(
                path, "found {!r}, which is not supported yet with {}; allowed: {}", value, "Megatron-DeepSpeed", names
            )
    read.refuse_all(_ABSENT, "Megatron-DeepSpeed")
    if any(experts_of(model.network)):
        _refuse_experts(read, sizes)
    ranks = sizes["tp"]
    read.refuse_uneven(_TENSOR, ranks, model.name, {SYMBOLS.get(each, each): sizes[each] for each in _divided(model)})
    if sizes["s"] % ranks and read.given(_SEQUENCE) and not read.is_refused(_TENSOR):
        read.refuse(Training.sequence_length, "found {}, which is not divisible by {} ranks", sizes["s"], ranks)


def _refuse_experts(read: Defaults, sizes: Mapping[str, int]) -> None:
    """Refuse what experts are not supported with.

    Raises UnsupportedError.
    """
    for path in (_TENSOR, STAGES, ULYSSES):
        if (read.given(path) or 1) > 1:
            raise UnsupportedError(
                path,
                "found {} with routed experts, which is not supported yet with Megatron-DeepSpeed",
                read.given(path),
            )
    if read.given(EngineSettings.zero_stage) == 3:
        read.refuse(EngineSettings.zero_stage, "found {}; DeepSpeed's mixture of experts supports 0, 1 and 2", 3)
    if sizes["e"] > sizes["E"]:
        read.refuse("model", "each token is routed to {} of {} experts", sizes["e"], sizes["E"])


def _divided(model: Model) -> Iterator[str]:
    """Sizes that tensor-parallel ranks divide."""
    for layer in model.network.kinds:
        if isinstance(layer.mixer, Attention):
            yield from dict.fromkeys((str(layer.mixer.heads.query), str(layer.mixer.heads.key)))
        for ffn in layer.ffns:
            yield str(ffn.down.inner[-1]) if hasattr(ffn, "down") else "h"


def _pipeline(read: Defaults) -> Pipeline | None:
    """`PipelineEngine`, which takes ZeRO-1 at most."""
    stages = read.given(STAGES) or 1
    if stages == 1:
        return None
    if (read.given(EngineSettings.zero_stage) or 0) > 1:
        read.refuse(
            EngineSettings.zero_stage,
            "found {}; DeepSpeed's pipelines support 0 and 1",
            read.given(EngineSettings.zero_stage),
        )
    for path in (ULYSSES, DeepSpeedSettings.cpu_checkpointing, DeepSpeedSettings.partition_activations, _CONTIGUOUS):
        value = read.given(path)
        if value is True or value not in (None, False, 1):
            raise UnsupportedError(
                path, "found {}, which is not supported yet in DeepSpeed's pipelines; leave it out", value
            )
    schedule = read.given(Parallelism.pipeline_schedule)
    if schedule not in (None, "1f1b"):
        read.refuse(Parallelism.pipeline_schedule, "found {!r}; DeepSpeed uses 1f1b", schedule)
    return Pipeline(warm=0, stands=False, runs=0, skips=False, runtime="deepspeed", returns_outputs=False)


def _ulysses(read: Defaults, model: Model, sizes: Mapping[str, int]) -> Ulysses | None:
    """`ParallelAttention` asserts as much.

    Raises UnsupportedError if combined with tensor parallelism.
    """
    ranks = ulysses_ranks(read)
    if ranks == 1:
        return None
    if sizes["tp"] > 1:
        raise UnsupportedError(
            ULYSSES,
            "found {} with {} {}; Megatron-DeepSpeed supports one or the other: set one of them to 1",
            ranks,
            _TENSOR,
            sizes["tp"],
        )
    own = next(layer.mixer for layer in model.network.kinds if isinstance(layer.mixer, Attention))
    query = sizes[str(own.heads.query)]
    if query % ranks:
        read.refuse(ULYSSES, "found {}, which does not divide {}'s {} heads", ranks, model.name, query)
    if own.grouped:
        read.refuse(ULYSSES, "found {}; Megatron-DeepSpeed's Ulysses needs as many key heads as query heads", ranks)
    if read.given(Training.attention) == "math":
        read.refuse(Training.attention, "found {!r}; Ulysses supports {}", "math", "flash")
    return Ulysses()


def _plan(read: Defaults, model: Model, sizes: Mapping[str, int], *, sharded: bool) -> MegatronPlan:
    """Return what its matrices do: gradients are PyTorch's own, summed and reduced by DeepSpeed."""
    return MegatronPlan(
        tensor=sizes["tp"] > 1,
        sequence=sharded,
        context=None,
        recompute=Recompute(granularity="selective", modules=frozenset({"core_attn"})) if _selects(read) else None,
        keeps_head_dummy=False,
        keeps_exchanged=False,
        fuses_weight_gradients=False,
        loss="unfused",
        experts=_experts(sizes) if any(experts_of(model.network)) else None,
        fp8=None,
        softmax_fp32=False,
        softmax_fusion=True,
        activation_fusion=True,
        rope_fusion=False,
        deterministic=False,
        masked=False,
    )


def _experts(sizes: Mapping[str, int]) -> Experts:
    """`deepspeed.moe.layer.MoE`, whose experts are apart; three or more of a token are chosen by one code."""
    return Experts(
        dispatcher="alltoall",
        parallel=sizes["ep"] > 1,
        tensor=False,
        grouped=False,
        permute_fusion=False,
        router_fusion=False,
        balancing="aux_loss",
        pre_softmax=True,
        padded=True,
        chosen=min(sizes["e"], 3),
    )


def _partitioned(
    read: Defaults, engine: Engine, model: Model, recipe: Recipe, sizes: Mapping[str, int]
) -> tuple[Recipe, dict[str, int]]:
    """ZeRO, under which experts are shared by the ranks that have the same ones."""
    recipe, found = with_zero(read, engine, model, recipe, sizes)
    layers = recipe.plan(MegatronPlan)
    if layers is None or layers.experts is None:
        return recipe, found
    return recipe.planned(replace(plan_of(recipe), experts=True)), {**found, "zw": _own_part(model, found)}


def _own_part(share: Model, sizes: Mapping[str, int]) -> int:
    """Return elements that this rank updates: of experts it shares with fewer ranks than of others."""
    return sum(
        count * -(-product(weight.shape, sizes) // sizes[shared_by(weight)])
        for weight, _, count in share.tensors
        if learns(weight, share.network)
    )


EXTENSION = Extension(
    variant=zero_engine,
    restated=offloaded,
    disk=True,
    convert=converted,
    job=megatron_deepspeed_job,
    groups=groups,
    partition=_partitioned,
    partitions=True,
    offers={Training.loss: ("vocab-parallel",), Training.implementation: ("transformer-engine", "megatron-local")},
    capacity=True,
    start="megatron-gpt",
)
"""Megatron-DeepSpeed: Megatron's layers under ZeRO."""
