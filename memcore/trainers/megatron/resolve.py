"""From a config to a job of Megatron-Core, and to what each pipeline stage runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby
from math import ceil

from memcore.config.defaults import Defaults
from memcore.config.devices import device_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.hardware import Accelerator, Overhead, find_accelerator
from memcore.memory.communicators import Extent, opened
from memcore.messages import joined
from memcore.networks.catalog import find_model
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, FeedForward, Mixer, SpecialMixer
from memcore.networks.regrouping import changed_at_ends
from memcore.networks.share import padded, shared
from memcore.networks.stages import cut
from memcore.optimizers.table import OPTIMIZERS
from memcore.records import dataclass
from memcore.symbols import measure, product
from memcore.trace.engine import Engine, engine_of
from memcore.trace.job import Job
from memcore.trace.pictures import pictures, tower_repeats
from memcore.trace.recipe import HEAD, TAIL, Checkpoints, Loss, Pipeline, Precision, Recipe, Sharding
from memcore.trace.step import run_name
from memcore.trainers.megatron.adapters import learning_model
from memcore.trainers.megatron.bridge import with_recipe
from memcore.trainers.megatron.demands import refuse_unmet
from memcore.trainers.megatron.graphs import Capture, capture_of
from memcore.trainers.megatron.images import image_symbols, kernel_of, with_images
from memcore.trainers.megatron.layers.core_attention import KERNELS
from memcore.trainers.megatron.layout import chunks_of
from memcore.trainers.megatron.networks.converted import as_megatron, predicting_too
from memcore.trainers.megatron.networks.parts import ENCODER, PREDICTION
from memcore.trainers.megatron.networks.placement import Layout, LayoutError, further_tokens, parts_of, predicting
from memcore.trainers.megatron.networks.towers import embedder, towers_of
from memcore.trainers.megatron.offloading import offload_of
from memcore.trainers.megatron.plan import plan_of, usual_kernel
from memcore.trainers.megatron.ranks import Ranks, ranks_of
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.states import States, states_of
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.pytorch.recipes import unit_axes, with_dropout
from memcore.trainers.pytorch.synonyms import understood

EXPERTS = Parallelism.expert_parallel_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkJob:
    """What one chunk of a stage runs."""

    share: Model
    """What a rank has of its layers and ends."""
    recipe: Recipe
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronJob(Job):
    """A config with nothing left open, for one pipeline stage."""

    ranks: Ranks
    states: States
    layout: Layout
    stage: int
    group: int
    """Micro-batches that pass through a chunk before the next one's turn."""
    chunks: tuple[ChunkJob, ...]
    """Those of this stage."""
    capture: Capture | None = None
    """Its CUDA graphs."""
    worst_imbalance: float | None = None
    """Of the experts' load, where a job leaves it open: all tokens of a group choose the experts of one rank."""


_PRECISIONS = ("fp32", "bf16-mixed", "fp16-mixed", "fp8-mixed")


def resolve(config: Config) -> MegatronJob:
    """Fill in what the config leaves open, for all stages together.

    Raises ConfigError for contradictions, and UnsupportedError for what is valid but not supported yet.
    """
    found = find_model(config.model)
    config, noted = with_recipe(config, found.name)
    config, read = understood(config)
    read.assumptions += noted
    engine = engine_of(str(read.given(EngineSettings.type)))
    read.refuse_foreign(engine.name)
    refuse_unmet(read)
    model = as_megatron(found, towers_of(read.given(EngineSettings.framework)))
    model = _with_precise_layers(read, _with_further_tokens(read, with_dropout(read, model)))
    ranks = ranks_of(read)
    layout = chunks_of(read, model, ranks)
    sizes = _sizes(read, model, ranks)
    precision = str(read.take(Training.precision, engine.default_preset, "Megatron's usual choice"))
    if precision not in _PRECISIONS:
        read.refuse(Training.precision, "found {!r}; with {}: {}", precision, "Megatron", joined(", ", _PRECISIONS))
        precision = engine.default_preset
    states = states_of(read, precision)
    model = learning_model(read, model, states.parameter, images="ni" in sizes)
    sizes = {**sizes, "ra": model.sizes["ra"]} if "ra" in model.sizes else sizes
    recipe = _with_offload(read, _recipe(read, model, engine, ranks, sizes, engine.presets[precision]), sizes)
    capture = capture_of(read, recipe)
    accelerator, capacity = device_of(read)
    micro_batches = read.take(Training.gradient_accumulation_steps, ranks.pipeline)
    group = read.take(MegatronSettings.microbatch_group_size_per_virtual_pipeline_stage, ranks.pipeline)
    if read.problems:
        raise ConfigError(read.problems)
    optimizer = OPTIMIZERS[str(read.given(Training.optimizer.name) or "adam")]
    return MegatronJob(
        config=config,
        model=model,
        share=model,
        engine=engine,
        recipe=recipe,
        sizes=sizes,
        optimizer=optimizer,
        implementation=optimizer.implementations[optimizer.default],
        micro_batches=micro_batches,
        stages=ranks.pipeline,
        stages_each=len(layout[0]),
        schedule="1f1b" if len(layout[0]) == 1 else "interleaved-1f1b",
        clips=bool(read.take(Training.gradient_clipping, True)),
        num_gpus=ranks.total,
        nccl=_nccl(config, recipe, ranks, accelerator),
        accelerator=accelerator,
        capacity=capacity,
        assumptions=tuple(read.assumptions),
        ranks=ranks,
        states=states,
        layout=layout,
        stage=0,
        group=group,
        chunks=(),
        capture=capture,
        worst_imbalance=_worst_imbalance(read, sizes),
    )


def _nccl(config: Config, recipe: Recipe, ranks: Ranks, accelerator: Accelerator | None) -> Overhead:
    """Return what communicators take outside of the allocator."""
    plan = recipe.plan(MegatronPlan)
    alltoall = plan is not None and plan.experts is not None and plan.experts.dispatcher == "alltoall"
    extent = Extent(ranks.total, ranks.pipeline, accelerator, config[Hardware.gpus_per_node])
    return opened(ranks.communicators(extent, alltoall=alltoall), extent)


def stage_jobs(job: MegatronJob) -> Iterator[MegatronJob]:
    """Yield the job of every pipeline stage."""
    made: dict[Model, ChunkJob] = {}
    parts = parts_of(shared(job.model), job.layout)
    for stage, (chunks, shares) in enumerate(zip(job.layout, parts, strict=True)):
        for share in shares:
            if share not in made:
                made[share] = _chunk_job(job, share)
        found = tuple(map(made.__getitem__, shares))
        share, recipe, sizes = found[0].share, found[0].recipe, found[0].sizes
        model = _beginning(share, chunks[0].start)
        yield replace(job, model=model, share=share, recipe=recipe, sizes=sizes, stage=stage, chunks=found)


@lru_cache(maxsize=512)
def _beginning(model: Model, layer: int) -> Model:
    """Return a part of a model as that which begins at another layer."""
    return replace(model, first_layer=layer)


def _chunk_job(job: MegatronJob, share: Model) -> ChunkJob:
    """Return a chunk of a rank's part of the whole model."""
    plan = job.recipe.plan(MegatronPlan)
    recompute = None if plan is None else plan.recompute
    checkpoints = None
    if recompute is not None and recompute.granularity == "full":
        share, skipped = _recomputed(share, recompute.method, recompute.layers)
        grouped = recompute.method == "uniform" and recompute.layers > 1
        checkpoints = Checkpoints(
            early_stop=False, selection=None, skipped=skipped, around_patterns=grouped, divided=recompute.divided
        )
    recipe = replace(
        job.recipe,
        network=share.network,
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in share.repeats),
        tower_repeats=tower_repeats(share),
        pictures=pictures(share, job.sizes, kernel_of(None if plan is None else plan.images, job.recipe.attention)),
        checkpoints=checkpoints,
    )
    runs = {run_name(run): repeats - HEAD - TAIL for run, repeats in enumerate(share.repeats)}
    return ChunkJob(share=share, recipe=recipe, sizes={**job.sizes, **runs})


@lru_cache(maxsize=64)
def _recomputed(model: Model, method: str, layers: int) -> tuple[Model, frozenset[tuple[int, int]]]:
    """Return a chunk's model, and the positions in its runs that are not recomputed.

    `uniform`: none, and each repetition of a run has the `layers` that are recomputed together. `block`: all behind the
    first `layers`.
    """
    if method == "uniform":
        return (_in_groups(model, layers) if layers > 1 else model), frozenset()
    count = model.num_layers
    first, rest = list(cut(model, 0, min(layers, count))), list(cut(model, min(layers, count), count))
    runs = tuple(pattern for pattern, _ in (*first, *rest))
    kept = ((len(first) + run, position) for run, (pattern, _) in enumerate(rest) for position in range(len(pattern)))
    network = replace(model.network, runs=runs)
    return replace(model, network=network, repeats=tuple(times for _, times in (*first, *rest))), frozenset(kept)


def _with_further_tokens(read: Defaults, model: Model) -> Model:
    """The model with the layers for further tokens that only a pipeline layout names, as of a checkpoint's family."""
    layout = read.given(Parallelism.pipeline_layout)
    if not isinstance(layout, str) or predicting(model):
        return model
    try:
        tokens = further_tokens(layout)
    except LayoutError as error:
        raise ConfigError.at(Parallelism.pipeline_layout, "found {!r:.80}; {}", layout, str(error)) from None
    return predicting_too(model, tokens) if tokens else model


def _with_precise_layers(read: Defaults, model: Model) -> Model:
    """The model with first and last layers that compute in 16 bits (core/fp8_utils.py, `is_first_last_bf16_layer`).

    Layers for further tokens have no number, and compute in 8 bits (multi_token_prediction.py).
    """
    path = MegatronSettings.first_last_layers_bf16
    if not read.given(path) or read.given(Training.precision) != "fp8-mixed":
        return model
    if read.given(EngineSettings.fp8_recipe) in (None, "delayed"):
        read.refuse(
            path, "delayed scaling runs all layers in FP8, which another {} need not", EngineSettings.fp8_recipe
        )
    first = int(read.take(MegatronSettings.num_layers_at_start_in_bf16, 1, "Megatron's default"))
    last = int(read.take(MegatronSettings.num_layers_at_end_in_bf16, 1, "Megatron's default"))
    further = predicting(model)
    return changed_at_ends(model, first, last + further, _precise)


def _precise(layer: Layer) -> Layer:
    return layer if layer.residual == PREDICTION else replace(layer, precise=True)


def _in_groups(model: Model, layers: int) -> Model:
    """Return the same layers with a given number in each repetition of a run; the last may have fewer.

    Raises ConfigError for layers that predict further tokens (multi_token_prediction.py asserts as much).
    """
    if predicting(model):
        raise ConfigError.at(
            Training.activation_checkpointing.num_layers,
            "found {}; Megatron allows only 1 with multi-token-prediction layers",
            layers,
        )
    every = (pattern * repeats for pattern, repeats in zip(model.network.runs, model.repeats, strict=True))
    apart = groupby(chain.from_iterable(every), lambda layer: layer.residual == ENCODER)
    stacks = [tuple(stack) for _, stack in apart]
    groups = [stack[start : start + layers] for stack in stacks for start in range(0, len(stack), layers)]
    found = [(group, len(list(same))) for group, same in groupby(groups)]
    network = replace(model.network, runs=tuple(group for group, _ in found))
    return replace(model, network=network, repeats=tuple(times for _, times in found))


def _refuse_unequal(read: Defaults, model: Model, ranks: Ranks) -> None:
    """Refuse heads and widths that tensor-parallel ranks cannot split equally, and experts that a model lacks.

    Source: transformer/transformer_config.py, __post_init__; tensor_parallel/utils.py, divide; ssm/mamba_mixer.py.
    """
    path, ranks_of_tensors, sizes = Parallelism.tensor_parallel_size, ranks.tensor, model.sizes
    shared: dict[str, int] = {}
    for layer in model.network.kinds:
        for mixer in layer.mixers:
            shared |= _shared_heads(mixer, sizes, ranks_of_tensors)
        if isinstance(layer.feed_forward, FeedForward):
            shared["feed-forward columns"] = product(layer.feed_forward.down.inner, sizes)
    read.refuse_uneven(path, ranks_of_tensors, model.name, shared)
    if ranks.expert > 1 and "E" not in sizes:
        read.refuse(EXPERTS, "found {}; {} has no routed experts; allowed: {}", ranks.expert, model.name, 1)


def _shared_heads(mixer: Mixer, sizes: Mapping[str, int], ranks: int) -> Mapping[str, int]:
    """Return the heads of a mixer that tensor-parallel ranks split, by what they are."""
    if isinstance(mixer, SpecialMixer):
        if mixer.variant == "megatron-gated-delta":
            return {"key heads of linear attention": sizes["A"], "value heads of linear attention": sizes["B"]}
        return {"Mamba heads": sizes["H"], "Mamba groups": sizes["G"]}
    keys = measure(mixer.heads.key, sizes)
    found = {"attention heads": measure(mixer.heads.query, sizes)}
    return {**found, "key-value heads": keys} if isinstance(mixer, Attention) and ranks % keys else found


def _sizes(read: Defaults, model: Model, ranks: Ranks) -> dict[str, int]:
    """Return the value of every symbol that all chunks have in common; what ranks cannot split is refused."""
    _refuse_unequal(read, model, ranks)
    most = model.sizes["P"]
    sequence = read.take(Training.sequence_length, min(most, 4096), "the model's maximum, at most 4096")
    if model.network.embedding_and_head.positions is not None and sequence > most:
        read.refuse(Training.sequence_length, "found {}; {} has {} learned positions", sequence, model.name, most)
    parts = 2 * ranks.context if ranks.context > 1 else 1
    split = parts * (ranks.tensor if ranks.sequence else 1)
    if sequence % split and not read.is_refused(Parallelism.tensor_parallel_size):
        read.refuse(Training.sequence_length, "found {}, which is not divisible by the ranks that split it", sequence)
    batch = read.take(Training.micro_batch_size, 1, "one sequence")
    sizes = {
        **model.sizes,
        "V": padded(model.sizes["V"], model.sizes["vd"], ranks.tensor),
        "b": batch,
        "s": sequence // ranks.context,
        "cp": ranks.context,
        "tp": ranks.tensor,
        "ep": ranks.expert,
        "etp": ranks.expert_tensor,
        "z": ranks.dense,
        "ze": max(ranks.expert_data // ranks.instances, 1),
        "zo": ranks.dense * ranks.instances,
        "zoe": ranks.expert_data,
    }
    sizes |= image_symbols(read, model, ranks, implementation_of(read), batch, sequence)
    sizes["nr"] = _rows(read, model, ranks, sizes)
    return sizes


def _rows(read: Defaults, model: Model, ranks: Ranks, sizes: Mapping[str, int]) -> int:
    """Rows that the experts of a rank compute: an even share, times the imbalance."""
    if "E" not in sizes:
        return 0
    if sizes["E"] % ranks.expert:
        read.refuse(EXPERTS, "found {}, which does not divide {}'s {} experts", ranks.expert, model.name, sizes["E"])
    tokens = sizes["b"] * sizes["s"] * ranks.expert_tensor // (ranks.tensor if ranks.sequence else 1)
    picks = tokens * sizes["e"]
    factor = read.given(EngineSettings.moe_expert_capacity_factor)
    if factor is not None and read.given(MegatronSettings.moe_pad_expert_input_to_capacity):
        each = ceil(tokens * sizes["e"] / ranks.expert_tensor / sizes["E"] * float(factor))
        return each * sizes["E"] * ranks.expert_tensor
    load = float(read.take(EngineSettings.moe_load_imbalance, 1.0, "experts evenly loaded"))
    return ceil(picks * (load if factor is None else min(load, max(float(factor), 1.0))))


def _worst_imbalance(read: Defaults, sizes: Mapping[str, int]) -> float | None:
    """Every token can choose as many experts of one rank as there are, or as it chooses at all."""
    if "E" not in sizes or read.given(EngineSettings.moe_load_imbalance) is not None:
        return None
    if read.given(MegatronSettings.moe_pad_expert_input_to_capacity):
        return None
    worst = sizes["ep"] * min(sizes["e"], sizes["E"] // sizes["ep"]) / sizes["e"]
    factor = read.given(EngineSettings.moe_expert_capacity_factor)
    return worst if factor is None else max(1.0, min(worst, float(factor)))


def _recipe(
    read: Defaults,
    model: Model,
    engine: Engine,
    ranks: Ranks,
    sizes: Mapping[str, int],
    precision: Precision,
) -> Recipe:
    """Return the recipe of a stage, before its layers are known."""
    implementation = implementation_of(read)
    local = implementation == "megatron-local"
    windowed = model.window is not None and sizes["s"] * sizes["cp"] >= model.window
    given = read.given(Hardware.accelerator)
    accelerator = find_accelerator(given) if given is not None else None
    major = (
        accelerator.major
        if accelerator is not None and model.network.embedding_and_head.start != "megatron-t5"
        else None
    )
    kernel = str(read.take(Training.attention, *usual_kernel(read, major, local=local, windowed=windowed)))
    kernels = ("math",) if local else tuple(KERNELS)
    if kernel not in kernels:
        read.refuse(Training.attention, "found {!r}; with {}: {}", kernel, implementation, joined(", ", kernels))
        kernel = kernels[0]
    loss = read.take(Training.loss, "vocab-parallel")
    if loss != "vocab-parallel":
        read.refuse(Training.loss, "found {!r}; Megatron uses 'vocab-parallel'", loss)
    return Recipe(
        network=model.network,
        repeats=(),
        implementation=implementation,
        attention=kernel,
        padded=False,
        release="little",  # layers, loss and optimizer are those of Megatron-Core, which loops only configure
        windowed=windowed,
        precision=precision,
        loss=Loss(kind="vocab-parallel", shifts_labels=False),
        sharding=Sharding(engine=engine.name),
        checkpoints=None,
        micro_batches=1,
        keeps_gradients=False,
        units=frozenset(unit_axes(sizes)),
        pipeline=Pipeline(warm=0, stands=False, runs=1, skips=False, runtime="megatron", returns_outputs=False),
        plans=(
            with_images(
                plan_of(read, ranks, kernel, model.network),
                embedder(read.given(EngineSettings.framework), model.network),
            ),
        ),
    )


def _with_offload(read: Defaults, recipe: Recipe, sizes: Mapping[str, int]) -> Recipe:
    """Return the recipe with what goes to the host."""
    offload = offload_of(read, recipe, sizes)
    plan = recipe.plan(MegatronPlan)
    if offload is None or plan is None:
        return recipe
    return recipe.planned(replace(plan, offload=offload))


def implementation_of(read: Defaults) -> str:
    """Return whose layers run."""
    asked = {"local": "megatron-local", "transformer_engine": "transformer-engine"}
    told = asked.get(str(read.given(MegatronSettings.transformer_impl)))
    found: str = read.take(Training.implementation, told or "transformer-engine")
    if found not in asked.values():
        read.refuse(
            Training.implementation, "found {!r}; with {}: {}", found, "Megatron", "transformer-engine, megatron-local"
        )
    elif told is not None and told != found:
        read.refuse(MegatronSettings.transformer_impl, "contradicts training.implementation {!r}", found)
    if read.given(MegatronSettings.use_transformer_engine_op_fuser) and found == "megatron-local":
        read.refuse(
            MegatronSettings.use_transformer_engine_op_fuser, "needs {}", "training.implementation 'transformer-engine'"
        )
    return found
