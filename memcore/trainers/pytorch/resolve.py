"""From a config to a job: defaults filled in, contradictions refused, sizes given to symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.devices import device_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, UnsupportedError
from memcore.layers.fused_head import tile_sizes
from memcore.layers.fused_loss import chunk_sizes
from memcore.layers.torchtitan.llama4 import as_titan
from memcore.memory.communicators import Extent
from memcore.messages import Message, joined
from memcore.networks.adapter_kinds import ADAPTER_KINDS, SEQUENCE
from memcore.networks.catalog import find_model
from memcore.networks.nearest import seeing
from memcore.networks.network import Model
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.tensor_parallel import parallelized
from memcore.trace.code import LayerCode, code_of
from memcore.trace.engine import Engine, engine_of
from memcore.trace.job import Job
from memcore.trace.pictures import image_sizes
from memcore.trace.recipe import HEAD, TAIL
from memcore.trace.step import run_name
from memcore.trainers.pytorch.checkpointing import checkpointing
from memcore.trainers.pytorch.engine import VERSIONS
from memcore.trainers.pytorch.expert_parallel import (
    as_kept,
    expert_ranks,
    expert_share,
    expert_sizes,
    layer_code,
    with_mixers,
    worst_imbalance,
)
from memcore.trainers.pytorch.extension import Extension, extension_of
from memcore.trainers.pytorch.frameworks import head_chunk
from memcore.trainers.pytorch.frozen import undated
from memcore.trainers.pytorch.layout import (
    STAGES,
    context_ranks,
    gpus_and_shards,
    partition,
    pipeline_stages,
    stages_in_all,
    unscheduled,
)
from memcore.trainers.pytorch.learning import learning_model
from memcore.trainers.pytorch.methods import completion, sequences, with_objective
from memcore.trainers.pytorch.optimizing import optimizer_of
from memcore.trainers.pytorch.recipes import recipe_of, tiles_of
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.synonyms import understood
from memcore.trainers.pytorch.teaching import teacher_sizes
from memcore.trainers.pytorch.tensor_parallel import tensor_parallel, tensor_ranks
from memcore.trainers.pytorch.unsloth_releases import rows_at_once


def resolve(config: Config, *, fake: bool = False) -> Job:
    """Fill in what the config leaves open.

    Raises ConfigError for contradictions, and UnsupportedError for what is valid but not supported yet. `fake`
    describes the same step on fake tensors, as simulations run it.
    """
    config, read = with_mixers(*understood(config))
    engine = _engine(read)
    extension = extension_of(read)
    model = extension.convert(learning_model(read, _as_run(read, config), engine))
    model = undated(read, unscheduled(read, model, engine), engine)
    model, checkpoints = checkpointing(read, model, shards=engine.shards)
    _refuse_foreign(read, engine, model)
    num_gpus, shards = gpus_and_shards(read, engine)
    contexts, tensors = context_ranks(read, engine), tensor_ranks(read)
    experts, model = expert_ranks(read, engine, model, shards * tensors), as_kept(read, model)
    sequence, micro_batch = _sequence(read, model), read.take(Training.micro_batch_size, 1, "one sequence")
    images, side = images_of(read, model, sequence, code_of(layer_code(read)))
    micro_batches = read.take(Training.gradient_accumulation_steps, read.given(STAGES) or 1)
    stages, schedule, chunks = pipeline_stages(read, model, engine, micro_batches)
    shares = partition(read, model, engine, stages_in_all(stages, schedule, chunks), fake=fake)
    keeps, (accelerator, capacity) = _keeps_gradients(read, engine, extension), device_of(read)
    optimizer, implementation = optimizer_of(read, engine, fake=fake)
    near = model if code_of(layer_code(read)).sees(model.network) else replace(model, images=None)
    sizes = _sizes(near, sequences(read, micro_batch), sequence, contexts, tensors, shards, images, side)
    sizes |= expert_sizes(read, experts, shards * tensors, sizes) | completion(read, sequence)
    sizes |= _tiled(read, model, capacity, sizes)
    if extension.job is not None:
        share, recipe = extension.job(read, model, engine, sizes, micro_batches, checkpoints)
        sizes |= {"V": share.sizes["V"]}
    else:
        tensor = tensor_parallel(read, engine, model, sizes["s"])
        share = _share(read, model, experts, shards, tensors if tensor is not None else 1)
        step = (read, share, engine, sizes, micro_batches, num_gpus // (stages * tensors), checkpoints, tensor)
        recipe = with_objective(read, model, engine, recipe_of(*step, keeps=keeps, fake=fake))
    sizes |= teacher_sizes(read, config, sizes, resolve)
    recipe, sizes = extension.partition(read, engine, share, recipe, sizes)
    if read.problems:
        raise ConfigError(read.problems)
    if recipe.former_releases:
        reason = Message("the newest release; defaults were others until {}", joined(", ", recipe.former_releases))
        read.take(EngineSettings.framework_version, "newest", reason)
    return Job(
        config=config, model=model, share=share, engine=engine, recipe=recipe, sizes=sizes,
        optimizer=optimizer,
        implementation=implementation,
        micro_batches=micro_batches,
        stages=stages,
        schedule=schedule,
        stages_each=chunks,
        partition=shares,
        worst_imbalance=worst_imbalance(read, experts, sizes),
        clips=read.take(Training.gradient_clipping, recipe.steps_in_backward is None),
        num_gpus=num_gpus,
        nccl=extension.nccl(recipe, sizes, Extent(num_gpus, stages, accelerator, config[Hardware.gpus_per_node])),
        accelerator=accelerator,
        capacity=capacity,
        assumptions=tuple(each for each in read.assumptions if _concerns(each.path, engine)),
    )  # fmt: skip


def _tiled(read: Defaults, model: Model, capacity: int | None, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the rows and columns that feed-forward layers, heads and losses take at a time."""
    rows = sizes["b"] * sizes["s"]
    chunks = tile_sizes(rows, sizes["V"], *head_chunk(read))
    return {**tiles_of(read, sizes), **chunks, **rows_at_once(read, model, capacity, rows)}


def _as_run(read: Defaults, config: Config) -> Model:
    """Return the model as the layers that run have it."""
    found = find_model(config.model)
    return as_titan(found) if layer_code(read) == "torchtitan" else found


def _share(read: Defaults, model: Model, experts: int, shards: int, tensors: int) -> Model:
    """What one rank has of the layers: tensor-parallel ranks share the experts too, unless these have ranks apart."""
    alone = model if tensors == 1 else parallelized(model, experts=experts == 1)
    return expert_share(read, alone, experts, shards * (tensors if experts > 1 else 1))


def _keeps_gradients(read: Defaults, engine: Engine, extension: Extension) -> bool:
    """Return whether gradients are zeroed in place; DeepSpeed's engine frees them itself (`_take_model_step`)."""
    path = Training.zero_grad
    keeps = bool(read.take(path, "set-to-none") == "keep")
    if keeps and extension.partitions:
        read.refuse(
            path, "found {!r}; {} sets gradients to None itself; allowed: {}", "keep", engine.title, "set-to-none"
        )
    return keeps


def _sizes(
    model: Model, batch: int, sequence: int, contexts: int, tensors: int, shards: int, images: int, side: int
) -> dict[str, int]:
    """Return the value of every symbol."""
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
    """Return tokens of a sequence, with those that an adapter puts before it."""
    path, most = Training.sequence_length, model.sizes["P"]
    sequence: int = read.take(path, min(most, 4096), "the model's maximum, at most 4096")
    if model.network.embedding_and_head.positions is not None and sequence > most:
        read.refuse(path, "found {}; {} has {} learned positions", sequence, model.name, most)
    kind = ADAPTER_KINDS.get(read.given(Training.adapter.type) or "")
    return sequence + (model.sizes["va"] if kind and kind.attached_to == SEQUENCE else 0)


def _sharing(model: Model) -> Iterator[Attention | FeedForward]:
    """Parts whose parameters may be those of another layer."""
    for layer in model.network.kinds:
        yield from (part for part in (*layer.mixers, *layer.ffns) if isinstance(part, Attention | FeedForward))


def images_of(read: Defaults, model: Model, sequence: int, code: LayerCode) -> tuple[int, int]:
    """Images of a sequence, and the pixels along their sides."""
    paths = Training.images_per_sequence, Training.image_size
    if model.images is None and not seeing(model.network):
        for path in paths:
            if read.given(path):
                read.refuse(path, "{} has no vision tower; leave it out", model.name)
        return 0, 0
    if code.approximates and (model.images is None or not code.sees(model.network)):
        images = read.take(paths[0], int(not model.network.encodes), "one image or sound; 0 for text-only sequences")
        return images, read.given(paths[1]) or (model.images.usual if model.images is not None else 0)
    if model.images is None or not code.sees(model.network):
        if read.given(paths[0]):
            message = Message("the towers of {} are not supported yet; allowed: 0 (text only)", model.name)
            raise UnsupportedError(paths[0], "found {}; {}", read.given(paths[0]), message)
        return read.take(paths[0], 0, "its towers' activations are not counted yet"), 0
    fits = read.given(paths[1]) is not None or model.images.sizes(model.images.usual)["nm"] <= sequence
    reason = "one image; 0 for text-only sequences" if fits else "text only: an image has more tokens than a sequence"
    images = read.take(paths[0], int(fits), reason)
    least, most = model.images.allowed
    why = None if least == most else "the model's native size; its processor also accepts other sizes"
    side = read.take(paths[1], model.images.usual, why)
    if side < least or (most is not None and side > most):
        made = (
            Message("every image is resized to {}", least)
            if least == most
            else Message("larger images are resized to {}", most)
        )
        read.refuse(paths[1], "found {}; {}", side, made)
        return images, model.images.usual
    tokens = images * model.images.sizes(side)["nm"]
    if tokens > sequence:
        where = Training.sequence_length if images == 1 else paths[0]
        said = "found {}; the images alone take {} tokens, so set training.sequence_length above that"
        read.refuse(where, said, sequence if images == 1 else images, tokens)
    return images, side


def _concerns(path: str, engine: Engine) -> bool:
    engines = SETTINGS[path].engines
    return engines is None or engine.name in engines


_MEGATRONS = {
    Training.loss: ("vocab-parallel",),
    Training.implementation: ("transformer-engine", "megatron-local"),
    TorchSettings.moe_token_dispatcher: ("allgather", "flex"),
}
"""Values that only Megatron-Core has; the loss is nanotron's too."""


def _refuse_megatrons(read: Defaults) -> None:
    own = extension_of(read).offers
    for path, values in _MEGATRONS.items():
        if read.given(path) in values and read.given(path) not in own.get(path, ()):
            raise ConfigError.at(path, "found {!r}; needs {}", read.given(path), "engine.type 'megatron'")


def _engine_name(read: Defaults) -> str:
    given, data = read.given(Hardware.num_gpus) or 1, read.given(Parallelism.data_parallel_size) or 1
    several = max(given // tensor_ranks(read), data) > 1
    reason = "several GPUs" if several else "one GPU"
    name: str = read.take(EngineSettings.type, "fsdp" if several else "none", reason)
    return name


def _engine(read: Defaults) -> Engine:
    """Return the engine, once values that only another one has are refused."""
    _refuse_megatrons(read)
    name, version = _engine_name(read), read.given(EngineSettings.version)
    versions = VERSIONS.get(name, {})
    if version is not None and version not in versions:
        reason = "allowed: 1, 2" if versions else Message("engine.type {!r} has no versions; leave it out", name)
        read.refuse(EngineSettings.version, "found {!r}; {}", version, reason)
    key = versions.get(version, name)
    variant = extension_of(read).variant
    if variant is not None:
        key = variant(read)
    engine = engine_of(key)
    first = (TorchSettings.use_orig_params, TorchSettings.limit_all_gathers, TorchSettings.backward_prefetch)
    groups = (
        ()
        if isinstance(read.given(TorchSettings.reshard_after_forward), bool)
        else (TorchSettings.reshard_after_forward,)
    )
    second = (*groups, TorchSettings.root_reshard_after_forward)
    for setting in second if engine.key else first:
        if engine.shards and read.given(setting) is not None:
            read.refuse(setting, "applies to engine.version {}", 2 if engine.key else 1)
    return engine


def _refuse_foreign(read: Defaults, engine: Engine, model: Model) -> None:
    """Settings of other engines, and layers that this one cannot shard."""
    if engine.shards and any(part.borrowed for part in _sharing(model)):
        read.refuse(
            EngineSettings.type, "fully_shard cannot handle parameters shared by several layers, as in {}", model.name
        )
    read.refuse_foreign(engine.name)


EXTENSION = Extension()
"""PyTorch itself."""
