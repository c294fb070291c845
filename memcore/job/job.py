"""From a config to a job: defaults filled in, contradictions refused, sizes given to symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memcore.config.deepspeed import DEEPSPEED
from memcore.config.settings import SETTINGS, Config
from memcore.dtypes import FLOATING
from memcore.engines import ENGINES
from memcore.engines.base import Engine
from memcore.errors import ConfigError, Problem, UnsupportedError
from memcore.hardware import Accelerator, Overhead, communicators, find_accelerator
from memcore.job.checkpointing import checkpointing
from memcore.job.deepspeed import with_zero, zero_engine
from memcore.job.defaults import Assumption, Defaults
from memcore.job.expert_parallel import as_kept, expert_ranks, expert_share, expert_sizes, layer_code, worst_imbalance
from memcore.job.frameworks import framework_of
from memcore.job.frozen import usual_preset
from memcore.job.layout import STAGES, context_ranks, gpus_and_shards, partition, pipeline_stages, stages_in_all
from memcore.job.learning import PREPENDED, learning_model
from memcore.job.megatron_deepspeed import converted, megatron_deepspeed_job
from memcore.job.nanotron import nanotron_job
from memcore.job.recipes import recipe_of
from memcore.job.synonyms import understood
from memcore.job.tensor_parallel import tensor_parallel, tensor_ranks
from memcore.layers import IMPLEMENTATIONS, LayerCode
from memcore.layers.fused_loss import chunk_sizes
from memcore.model.catalog import find_model
from memcore.model.network import Model
from memcore.model.parts import Attention, FeedForward
from memcore.model.stages import Partition, stage_of
from memcore.model.tensor_parallel import parallelized
from memcore.optimizers.states import Implementation, Optimizer
from memcore.optimizers.table import OPTIMIZERS
from memcore.step.pictures import image_sizes
from memcore.step.recipe import HEAD, TAIL, Recipe
from memcore.step.step import run_name
from memcore.units import GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A config with nothing left open."""

    config: Config
    model: Model
    share: Model
    """What a tensor-parallel rank has of it."""
    engine: Engine
    recipe: Recipe
    sizes: Mapping[str, int]
    """The value of every symbol, the numbers of repeated layers included."""
    optimizer: Optimizer
    implementation: Implementation
    micro_batches: int
    stages: int
    """Ranks of the pipeline; 1 without one."""
    schedule: str
    """Of the pipeline: 1f1b, gpipe, or a row of `LOOPED`."""
    stages_each: int = 1
    """Stages on each rank of the pipeline."""
    partition: Partition | None = None
    """How layers are shared among stages, where that is not the engine's to say."""
    clips: bool
    worst_imbalance: float | None = None
    """Of the experts' load, where a job leaves it open: all tokens choose the experts of one rank."""
    num_gpus: int
    accelerator: Accelerator | None
    capacity: int | None
    """Bytes of one GPU that a job can use."""
    assumptions: tuple[Assumption, ...]

    @property
    def nccl(self) -> Overhead:
        """What communicators take outside of the allocator."""
        return communicators(self.engine.communicators)

    def staged(self, model: Model, number: int, stages: int) -> Model:
        """The part of a model that a stage has."""
        if self.partition is None:
            return self.engine.stage(model, number, stages)
        return stage_of(model, number, stages, self.partition)


def resolve(config: Config, *, fake: bool = False) -> Job:
    """Fill in what the config leaves open.

    Raises ConfigError for contradictions, and UnsupportedError for what is understood but not modelled. `fake`
    describes the same step on fake tensors, as simulations run it.
    """
    config, read = understood(config)
    _refuse_megatrons(read)
    engine = _engine(read)
    model = converted(learning_model(read, find_model(config.model), engine), engine)
    model, checkpoints = checkpointing(read, model)
    _refuse_foreign(read, engine, model)
    num_gpus, shards = gpus_and_shards(read, engine)
    contexts, tensors = context_ranks(read, engine), tensor_ranks(read)
    experts, model = expert_ranks(read, engine, model, shards * tensors), as_kept(read, model)
    sequence = _sequence(read, model)
    micro_batch = read.take("training.micro_batch_size", 1, "one sequence")
    images, side = images_of(read, model, sequence, IMPLEMENTATIONS[layer_code(read)])
    micro_batches = read.take("training.gradient_accumulation_steps", read.given(STAGES) or 1)
    stages, schedule, chunks = pipeline_stages(read, model, engine, micro_batches)
    shares = partition(read, model, engine, stages_in_all(stages, schedule, chunks), fake=fake)
    keeps = read.take("training.zero_grad", "set-to-none") == "keep"
    optimizer, implementation = _optimizer(read, engine, fake=fake)
    sizes = _sizes(model, micro_batch, sequence, contexts, tensors, shards, images, side)
    sizes |= expert_sizes(read, experts, shards * tensors, sizes)
    ranks = num_gpus // (stages * tensors)
    if engine.name in _OWN_LAYERS:
        share, recipe = _OWN_LAYERS[engine.name](read, model, engine, sizes, micro_batches, checkpoints)
        sizes |= {"V": share.sizes["V"]}
    else:
        tensor = tensor_parallel(read, engine, model, sizes["s"])
        share = expert_share(read, model if tensor is None else parallelized(model), experts, shards * tensors)
        recipe = recipe_of(
            read, share, engine, sizes, micro_batches, ranks, checkpoints, tensor, keeps=keeps, fake=fake
        )
    recipe, sizes = with_zero(read, engine, share, recipe, sizes)
    accelerator, capacity = _capacity(read)
    if read.problems:
        raise ConfigError(read.problems)
    return Job(
        config=config,
        model=model,
        share=share,
        engine=engine,
        recipe=recipe,
        sizes=sizes,
        optimizer=optimizer,
        implementation=implementation,
        micro_batches=micro_batches,
        stages=stages,
        schedule=schedule,
        stages_each=chunks,
        partition=shares,
        worst_imbalance=worst_imbalance(read, experts, sizes),
        clips=read.take("training.gradient_clipping", recipe.steps_in_backward is None),
        num_gpus=num_gpus,
        accelerator=accelerator,
        capacity=capacity,
        assumptions=tuple(each for each in read.assumptions if _concerns(each.path, engine)),
    )


_OWN_LAYERS = {"nanotron": nanotron_job, "megatron-deepspeed": megatron_deepspeed_job}
"""Engines with layers of their own: what a rank has of the model, and the recipe of its step."""


def _sizes(
    model: Model, batch: int, sequence: int, contexts: int, tensors: int, shards: int, images: int, side: int
) -> dict[str, int]:
    """The value of every symbol."""
    tokens = sequence // contexts
    return {
        **model.sizes,
        "b": batch,
        "s": tokens,
        "sq": sequence,
        "cp": contexts,
        "tp": tensors,
        "z": shards,
        **{run_name(run): repeats - HEAD - TAIL for run, repeats in enumerate(model.repeats)},
        **image_sizes(model, batch, sequence, images, side),
        **chunk_sizes(batch * tokens, model.sizes["h"], model.sizes["V"]),
    }


def _sequence(read: Defaults, model: Model) -> int:
    """Tokens of a sequence, with those that an adapter puts before it."""
    path, most = "training.sequence_length", model.sizes["P"]
    sequence: int = read.take(path, min(most, 4096), "the model's maximum, at most 4096")
    if model.network.ends.positions is not None and sequence > most:
        read.refuse(path, f"found {sequence}; {model.name} has {most} learned positions")
    return sequence + (model.sizes["va"] if read.given("training.adapter.type") in PREPENDED else 0)


def _sharing(model: Model) -> Iterator[Attention | FeedForward]:
    """Parts whose parameters may be those of another layer."""
    for layer in model.network.kinds:
        yield from (part for part in (*layer.mixers, *layer.feeds) if isinstance(part, Attention | FeedForward))


def images_of(read: Defaults, model: Model, sequence: int, code: LayerCode) -> tuple[int, int]:
    """Images of a sequence, and the pixels along their sides."""
    paths = "training.images_per_sequence", "training.image_size"
    if model.images is None:
        for path in paths:
            if read.given(path):
                read.refuse(path, f"{model.name} has no vision tower; leave it out")
        return 0, 0
    if not code.sees(model.network):
        if read.given(paths[0]):
            message = f"what the towers of {model.network.family} do is not modelled yet; allowed: 0, text alone"
            raise UnsupportedError(paths[0], f"found {read.given(paths[0])}; {message}")
        return read.take(paths[0], 0, "its towers' activations are not modelled yet"), 0
    fits = read.given(paths[1]) is not None or model.images.sizes(model.images.usual)["nm"] <= sequence
    reason = (
        "one image; 0 for sequences of text alone" if fits else "text alone: an image has more tokens than a sequence"
    )
    images = read.take(paths[0], int(fits), reason)
    least, most = model.images.allowed
    why = None if least == most else "what the model is made for; its processor takes other sizes too"
    side = read.take(paths[1], model.images.usual, why)
    if side < least or (most is not None and side > most):
        made = f"every image is resized to {least}" if least == most else f"larger images are resized to {most}"
        read.refuse(paths[1], f"found {side}; {made}")
        return images, model.images.usual
    tokens = images * model.images.sizes(side)["nm"]
    if tokens > sequence:
        where = "training.sequence_length" if images == 1 else paths[0]
        read.refuse(where, f"found {sequence if images == 1 else images}; the images alone are {tokens} tokens")
    return images, side


def _concerns(path: str, engine: Engine) -> bool:
    engines = SETTINGS[path].engines
    return engines is None or engine.name in engines


_MEGATRONS = {
    "training.loss": ("vocab-parallel",),
    "training.implementation": ("transformer-engine", "megatron-local"),
    "engine.moe_token_dispatcher": ("allgather", "flex"),
}
"""Values that only Megatron-Core has; the loss is nanotron's too."""


def _refuse_megatrons(read: Defaults) -> None:
    name = read.given("engine.type")
    own = {"nanotron": ("training.loss",), "megatron-deepspeed": ("training.loss", "training.implementation")}
    for path, values in _MEGATRONS.items():
        if read.given(path) in values and path not in own.get(name, ()):
            raise ConfigError([Problem(path, f"found {read.given(path)!r}; needs engine.type 'megatron'")])


def _engine_name(read: Defaults) -> str:
    given, data = read.given("hardware.num_gpus") or 1, read.given("parallelism.data_parallel_size") or 1
    several = max(given // tensor_ranks(read), data) > 1
    reason = "several GPUs" if several else "one GPU"
    name: str = read.take("engine.type", "fsdp" if several else "none", reason)
    return name


def _engine(read: Defaults) -> Engine:
    name, version = _engine_name(read), read.given("engine.version")
    if version is not None and (name != "fsdp" or version not in (1, 2)):
        allowed = "1, 2" if name == "fsdp" else f"engine.type {name!r} has no versions; leave it out"
        read.refuse("engine.version", f"found {version!r}; allowed: {allowed}")
    key = "fsdp1" if name == "fsdp" and version == 1 else name
    if name in DEEPSPEED:
        key = zero_engine(read)
    engine = ENGINES[key]
    first, second = ("use_orig_params", "limit_all_gathers", "backward_prefetch"), ("reshard_after_forward",)
    for key in (*(first if not engine.key else (*second, "root_reshard_after_forward")),):
        if name == "fsdp" and read.given(f"engine.{key}") is not None:
            read.refuse(f"engine.{key}", f"applies to engine.version {2 if engine.key else 1}")
    if read.given("engine.limit_all_gathers") is False:
        message = "how far ahead of the GPU all-gathers are issued is not modelled; allowed: true"
        raise UnsupportedError("engine.limit_all_gathers", message)
    return engine


def _refuse_foreign(read: Defaults, engine: Engine, model: Model) -> None:
    """Settings of other engines are errors: nothing that is given is silently ignored."""
    if engine.name == "fsdp" and any(part.borrowed for part in _sharing(model)):
        read.refuse("engine.type", f"fully_shard takes no parameters that several layers use, as in {model.name}")
    for path, setting in SETTINGS.items():
        value = read.given(path)
        if value is None or setting.engines is None or _concerns(path, engine):
            continue
        if path.startswith("parallelism.") and value == 1:
            continue
        engines = " and ".join(setting.engines)
        read.refuse(path, f"applies to engine.type {engines}, found engine.type {engine.name!r}")


def _optimizer(read: Defaults, engine: Engine, *, fake: bool) -> tuple[Optimizer, Implementation]:
    name = read.take("training.optimizer.name", "adamw", "the usual optimizer for language models")
    momentum = read.given("training.optimizer.momentum")
    with_momentum = [row.removesuffix("-momentum") for row in OPTIMIZERS if row.endswith("-momentum")]
    if momentum is not None and name not in with_momentum:
        read.refuse("training.optimizer.momentum", f"applies to {' and '.join(with_momentum)}, found {name!r}")
    named = f"{name}-momentum" if name in with_momentum and momentum else name
    row = OPTIMIZERS.get(f"{named}@{read.given('training.optimizer.implementation')}", OPTIMIZERS[named])
    reason = "the Hugging Face Trainer's and torchtitan's choice" if row.default == "fused" else "its library's choice"
    usual, reason = framework_of(read).step or row.default, "its own choice" if framework_of(read).step else reason
    chosen = read.take(
        "training.optimizer.implementation", usual if usual in row.implementations else row.default, reason
    )
    if chosen not in row.implementations:
        others = (each.rpartition("@")[2] for each in OPTIMIZERS if each.startswith(f"{named}@"))
        allowed = ", ".join((*row.implementations, *others))
        read.refuse("training.optimizer.implementation", f"found {chosen!r}; {row.title} has {allowed}")
    how = row.implementations.get(chosen, row.implementations[row.default])
    _refuse_sharded(read, engine, row, how)
    _refuse_half(read, engine, row)
    row = _with_rank(read, engine, row)
    # A simulated step is nobody's Trainer.
    exempts = not fake and chosen == "bitsandbytes" and row.maps > 0 and framework_of(read).exempts_embeddings
    row = replace(
        _with_states(read, engine, row, how, chosen), exempts_embeddings=exempts, stacks=framework_of(read).stacks
    )
    if read.given("training.offload.optimizer") is None or read.given("engine.type") in ("megatron", "megatron-fsdp"):
        # What has stepped in the backward pass needs nothing at the end of it.
        return row, Implementation(step_on_device=how.step_on_device) if read.given("engine.optimizer_in_bwd") else how
    if read.given("engine.optimizer_in_bwd"):
        read.refuse("training.offload.optimizer", "the step on the host comes after the backward pass")
    return replace(row, on_host=True, maps=0), Implementation()


def _refuse_sharded(read: Defaults, engine: Engine, row: Optimizer, how: Implementation) -> None:
    """An error where an engine shards what the step needs whole: FSDP2's DTensors gather for Muon alone."""
    muons = how.matrix and (engine.name in DEEPSPEED or engine.key)
    if (row.whole or muons) and engine.name in ("fsdp", *DEEPSPEED):
        found = f"found {read.given('training.optimizer.name')!r}; its step needs whole matrices"
        message = (
            f"{found}, which {engine.name} shards; engine.type ddp keeps them whole, and muon gathers them (FSDP2)"
        )
        raise UnsupportedError("training.optimizer.name", message)


def _refuse_half(read: Defaults, engine: Engine, row: Optimizer) -> None:
    """An error where factorizations are asked of half-precision matrices, which PyTorch has none for."""
    if any(state.of == "side" for state in row.states) and "fp32" not in _learned(read, engine):
        found = " and ".join(sorted(_learned(read, engine)))
        message = (
            f"found {row.title} for parameters in {found}; it factorizes matrices in fp32; bf16-mixed keeps them so"
        )
        raise UnsupportedError("training.optimizer.name", message)


def _with_rank(read: Defaults, engine: Engine, row: Optimizer) -> Optimizer:
    """The row with the rank of its projections; GaLore keeps a slice of all singular vectors in fp32, else a copy."""
    path = "training.optimizer.rank"
    if not row.rank:
        if read.given(path) is not None:
            read.refuse(path, f"{row.title} projects no gradients; leave it out")
        return row
    kept = "square" if "fp32" in _learned(read, engine) else "thin"
    states = tuple(replace(state, of=kept) if state.of == "basis" else state for state in row.states)
    return replace(row, rank=read.take(path, row.rank, "its library's usual rank"), states=states)


def _with_states(read: Defaults, engine: Engine, row: Optimizer, how: Implementation, chosen: str) -> Optimizer:
    """The row with the states of an implementation, in the dtype that a config asks for."""
    path = "training.optimizer.state_dtype"
    row = row if how.states is None else replace(row, states=how.states)
    dtype = read.given(path)
    if dtype is None:
        return row
    own = [state.dtype for state in row.states if state.dtype is not None]
    if own and own != [dtype] * len(own):
        read.refuse(path, f"found {dtype!r}; {row.title} keeps {own[0]}")
    if chosen != "fused" and not own and dtype not in _learned(read, engine):
        kept = " and ".join(sorted(_learned(read, engine)))
        read.refuse(path, f"found {dtype!r}; {row.title} ({chosen}) keeps states like the parameters, in {kept}")
    return replace(row, states=tuple(replace(state, dtype=dtype) for state in row.states))


def _learned(read: Defaults, engine: Engine) -> set[str]:
    """The dtypes that learned parameters can have."""
    if read.given("training.adapter.type") is not None:
        return {read.given("training.adapter.dtype") or "fp32"}
    preset = read.given("training.precision") or usual_preset(read, engine)[0]
    found = read.given("training.parameter_dtype") or preset
    return {found if found in FLOATING else "fp32"}


def _capacity(read: Defaults) -> tuple[Accelerator | None, int | None]:
    """The accelerator, and the bytes of it that a job can use."""
    given = read.given("hardware.accelerator")
    accelerator = find_accelerator(given) if given is not None else None
    memory = read.given("hardware.gpu_memory_gb")
    if memory is not None:
        return accelerator, int(memory * GiB)
    return accelerator, accelerator.usable if accelerator else None
