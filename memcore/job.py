"""From a config to a job: defaults filled in, contradictions refused, sizes given to symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memcore.config.settings import SETTINGS, Config
from memcore.engines import ENGINES
from memcore.engines.base import Engine
from memcore.errors import ConfigError, Problem, UnsupportedError
from memcore.hardware import Accelerator, find_accelerator
from memcore.layers import IMPLEMENTATIONS, LayerCode
from memcore.model.catalog import find_model
from memcore.model.network import Layer, Model, Network
from memcore.optimizers import OPTIMIZERS, Implementation, Optimizer
from memcore.step.recipe import HEAD, TAIL, Loss, Precision, Recipe, Sharding
from memcore.units import GiB


@dataclass(frozen=True, slots=True)
class Assumption:
    """A setting that the config leaves open, and what was taken instead."""

    path: str
    value: object
    reason: str
    notable: bool
    """A user should look at it; the rest is what the engine does by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A config with nothing left open."""

    config: Config
    model: Model
    engine: Engine
    recipe: Recipe
    sizes: Mapping[str, int]
    """The value of every symbol, the numbers of repeated layers included."""
    optimizer: Optimizer
    implementation: Implementation
    micro_batches: int
    clips: bool
    num_gpus: int
    accelerator: Accelerator | None
    capacity: int | None
    """Bytes of one GPU that a job can use."""
    assumptions: tuple[Assumption, ...]


class _Defaults:
    """Reads settings, and notes what was taken where one is absent."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.assumptions: list[Assumption] = []
        self.problems: list[Problem] = []

    def given(self, path: str) -> Any:
        """The value of a setting, or None."""
        return self._config.get(path)

    def take(self, path: str, default: Any, reason: str | None = None) -> Any:
        """The value of a setting, else a default, which is noted; a reason makes it notable."""
        value = self.given(path)
        if value is not None:
            return value
        self.assumptions.append(Assumption(path, default, reason or "the engine's default", reason is not None))
        return default

    def refuse(self, path: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(path, message))


def resolve(config: Config, *, fake: bool = False) -> Job:
    """Fill in what the config leaves open.

    Raises ConfigError for contradictions, and UnsupportedError for what is understood but not modelled. `fake`
    describes the same step on fake tensors, as simulations run it.
    """
    read = _Defaults(config)
    model = find_model(config.model)
    _refuse_unmodelled(read)
    engine = ENGINES[_engine_name(read)]
    _refuse_foreign(read, engine)
    num_gpus, shards = _ranks(read, engine)
    sequence = read.take("training.sequence_length", min(model.sizes["P"], 4096), "the model's maximum, at most 4096")
    if model.network.ends.positions is not None and sequence > model.sizes["P"]:
        message = f"found {sequence}; {model.name} has {model.sizes['P']} learned positions"
        read.refuse("training.sequence_length", message)
    micro_batch = read.take("training.micro_batch_size", 1, "one sequence")
    micro_batches = read.take("training.gradient_accumulation_steps", 1)
    keeps = read.take("training.zero_grad", "set-to-none") == "keep"
    optimizer, implementation = _optimizer(read)
    sizes = {
        **model.sizes,
        "b": micro_batch,
        "s": sequence,
        "z": shards,
        **{f"run {run}": repeats - HEAD - TAIL for run, repeats in enumerate(model.repeats)},
    }
    recipe = _recipe(read, model, engine, sizes, micro_batches, num_gpus, keeps=keeps, fake=fake)
    accelerator, capacity = _capacity(read)
    if read.problems:
        raise ConfigError(read.problems)
    return Job(
        config=config,
        model=model,
        engine=engine,
        recipe=recipe,
        sizes=sizes,
        optimizer=optimizer,
        implementation=implementation,
        micro_batches=micro_batches,
        clips=read.take("training.gradient_clipping", True),
        num_gpus=num_gpus,
        accelerator=accelerator,
        capacity=capacity,
        assumptions=tuple(each for each in read.assumptions if _concerns(each.path, engine)),
    )


def _concerns(path: str, engine: Engine) -> bool:
    engines = SETTINGS[path].engines
    return engines is None or engine.name in engines


_NOT_MODELLED = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")


def _refuse_unmodelled(read: _Defaults) -> None:
    for name in _NOT_MODELLED:
        size = read.given(f"parallelism.{name}")
        if size is not None and size > 1:
            raise UnsupportedError(f"parallelism.{name}", f"found {size}; only 1 is modelled yet")
    if read.given("training.activation_checkpointing.use_reentrant"):
        message = "reentrant checkpoints are not modelled yet; allowed: false"
        raise UnsupportedError("training.activation_checkpointing.use_reentrant", message)
    if read.given("training.compile"):
        raise UnsupportedError("training.compile", "compiled blocks are not modelled yet; allowed: false")


def _engine_name(read: _Defaults) -> str:
    several = max(read.given(path) or 1 for path in ("hardware.num_gpus", "parallelism.data_parallel_size")) > 1
    reason = "several GPUs" if several else "one GPU"
    name: str = read.take("engine.type", "fsdp" if several else "none", reason)
    return name


def _refuse_foreign(read: _Defaults, engine: Engine) -> None:
    """Settings of other engines are errors: nothing that is given is silently ignored."""
    for path, setting in SETTINGS.items():
        value = read.given(path)
        if value is None or setting.engines is None or _concerns(path, engine):
            continue
        if path.startswith("parallelism.") and value == 1:
            continue
        engines = " and ".join(setting.engines)
        read.refuse(path, f"applies to engine.type {engines}, found engine.type {engine.name!r}")


def _ranks(read: _Defaults, engine: Engine) -> tuple[int, int]:
    """GPUs of the job, and over how many FSDP shards."""
    given = read.given("hardware.num_gpus")
    data = read.given("parallelism.data_parallel_size")
    if given is not None and data is not None and given != data:
        read.refuse(
            "parallelism.data_parallel_size", f"found {data}, but hardware.num_gpus is {given}; they must agree"
        )
    total = given or data or read.take("hardware.num_gpus", 1, "one GPU")
    if not engine.distributed and total > 1:
        read.refuse("engine.type", f"'none' runs on one GPU, found hardware.num_gpus {total}; allowed: ddp, fsdp")
    shards = read.take("parallelism.data_parallel_shard_size", total)
    if total % shards:
        read.refuse(
            "parallelism.data_parallel_shard_size",
            f"found {shards}, which does not divide the {total} data-parallel ranks",
        )
    reshard = read.given("engine.reshard_after_forward")
    if isinstance(reshard, int) and not isinstance(reshard, bool) and (shards % reshard or reshard == shards):
        read.refuse(
            "engine.reshard_after_forward", f"found {reshard}; a number must divide the {shards} ranks of a shard group"
        )
    return total, shards


def _optimizer(read: _Defaults) -> tuple[Optimizer, Implementation]:
    name = read.take("training.optimizer.name", "adamw", "the usual optimizer for language models")
    momentum = read.given("training.optimizer.momentum")
    if momentum is not None and name != "sgd":
        read.refuse("training.optimizer.momentum", f"applies to sgd, found {name!r}")
    row = OPTIMIZERS["sgd-momentum" if name == "sgd" and momentum else name]
    reason = "the Hugging Face Trainer's and torchtitan's choice" if row.default == "fused" else "torch.optim's choice"
    chosen = read.take("training.optimizer.implementation", row.default, reason)
    return row, row.implementations[chosen]


def _precision(read: _Defaults, engine: Engine) -> Precision:
    reason = "its mixed-precision policy" if engine.default_preset.endswith("mixed") else "the checkpoint's dtype"
    preset = engine.presets[read.take("training.precision", engine.default_preset, reason)]
    stored = read.given("training.parameter_dtype") or preset.parameter
    compute = read.given("training.compute_dtype")
    if preset.autocast and compute and compute != stored:
        preset = replace(preset, autocast=compute)
        compute = None
    compute = compute or (preset.compute if preset.compute != preset.parameter else stored)
    if engine.name != "fsdp" and compute != stored:
        read.refuse(
            "training.compute_dtype",
            f"found {compute!r} with parameters in {stored!r}; only FSDP and autocast compute in another dtype",
        )
    gradient = read.given("training.gradient_dtype")
    if gradient is not None and gradient != stored:
        read.refuse(
            "training.gradient_dtype", f"found {gradient!r}; PyTorch's gradients have the parameter dtype {stored!r}"
        )
    reduce = read.given("training.reduce_dtype")
    if reduce is None:
        reduce = preset.reduce if preset.reduce != preset.compute else compute
    autocast = compute if read.given("engine.autocast") else preset.autocast
    return Precision(parameter=stored, compute=compute, reduce=reduce, autocast=autocast)


def _loss(read: _Defaults, code: LayerCode) -> Loss:
    kind = read.take("training.loss", "cross-entropy-fp32")
    word, _, chunks = kind.partition(":")
    shift = read.take("training.loss_shift", "model" if code.computes_loss else "labels-preshifted")
    if shift == "model" and not code.computes_loss:
        read.refuse("training.loss_shift", f"{code.title} leaves the loss to the trainer; allowed: labels-preshifted")
    if word == "chunked" and shift != "model":
        read.refuse(
            "training.loss", "chunked is modelled inside the model only; allowed: cross-entropy-fp32, cross-entropy"
        )
    return Loss(
        kind=word,
        chunks=int(chunks or 1),
        shifts_labels=shift == "model",
        keeps_outputs=read.take("training.outputs_kept", False),
    )


def _attention(read: _Defaults, model: Model, code: LayerCode, precision: Precision) -> str:
    supported = code.has_sdpa(model.network)
    reason = None if supported else f"{code.title} has no SDPA for {model.network.family}"
    kernel = str(read.take("training.attention", "sdpa" if supported else "math", reason))
    if kernel == "sdpa" and not supported:
        kernel = "flash"
        read.assumptions.append(
            Assumption("training.attention", kernel, f"{reason}: its soft cap needs flash attention", notable=True)
        )
    compute = precision.autocast or precision.compute
    if kernel in ("flash", "cudnn") and compute == "fp32":
        read.refuse("training.attention", f"{kernel!r} has no fp32 kernel; allowed: sdpa, efficient, math")
    return kernel


def _recipe(
    read: _Defaults,
    model: Model,
    engine: Engine,
    sizes: Mapping[str, int],
    micro_batches: int,
    num_gpus: int,
    *,
    keeps: bool,
    fake: bool,
) -> Recipe:
    implementation = read.take("training.implementation", "transformers")
    code = IMPLEMENTATIONS[implementation]
    code.check(model.network)
    precision = _precision(read, engine)
    kernel = _attention(read, model, code, precision)
    padded = read.take("training.attention_mask", "none") == "padded"
    if padded and kernel in ("flash", "cudnn"):
        read.refuse(
            "training.attention_mask", f"'padded' with attention {kernel!r} is not modelled; allowed: sdpa, math"
        )
    return Recipe(
        network=_with_dropout(read, model),
        repeats=tuple(min(repeats, HEAD + TAIL + 1) for repeats in model.repeats),
        implementation=implementation,
        attention=kernel,
        padded=padded,
        windowed=model.window is not None and sizes["s"] >= model.window,
        precision=precision,
        loss=_loss(read, code),
        sharding=_sharding(read, engine, code, sizes["z"], num_gpus),
        checkpointed=read.take("training.activation_checkpointing.policy", "none") == "full",
        early_stop=read.take("training.activation_checkpointing.early_stop", True),
        micro_batches=2 if micro_batches > 1 else 1,
        keeps_gradients=keeps,
        units=frozenset(name for name, size in sizes.items() if size == 1 and name.rstrip("′") in _AXES),
        use_cache=_use_cache(read, code),
        fake=fake,
    )


_AXES = frozenset({"b", "s", "a", "k", "e", "E"})
"""Sizes that shapes have as axes of their own, where an axis of one element changes what must be copied."""


def _use_cache(read: _Defaults, code: LayerCode) -> bool:
    used = bool(read.take("training.use_cache", False))
    if used and not code.has_cache:
        read.refuse("training.use_cache", f"{code.title} has no KV cache in training; allowed: false")
    if used and read.given("training.activation_checkpointing.policy") == "full":
        read.refuse("training.use_cache", "found true; transformers turns the cache off under checkpointing")
    return used


def _with_dropout(read: _Defaults, model: Model) -> Network:
    """The network with the dropout probabilities of the job instead of the model's."""
    hidden, attention = read.given("training.dropout.hidden"), read.given("training.dropout.attention")
    if hidden is None and attention is None:
        return model.network

    def changed(layer: Layer) -> Layer:
        scores = layer.mixer
        if attention is not None and scores is not None:
            scores = replace(scores, dropout=float(attention))
        return replace(layer, mixer=scores, dropout=layer.dropout if hidden is None else float(hidden))

    ends = model.network.ends if hidden is None else replace(model.network.ends, embedding_dropout=float(hidden))
    runs = tuple(tuple(changed(layer) for layer in run) for run in model.network.runs)
    return replace(model.network, runs=runs, ends=ends)


def _sharding(read: _Defaults, engine: Engine, code: LayerCode, shards: int, num_gpus: int) -> Sharding:
    return Sharding(
        engine=engine.name,
        wrap=read.take("engine.wrap", code.default_wrap),
        reshard_after_forward=read.take("engine.reshard_after_forward", True),
        root_reshards=read.take("engine.root_reshard_after_forward", False),
        replicated=shards < num_gpus,
        offloaded=read.take("engine.cpu_offload", False),
        syncs_every_micro_batch=not read.take("engine.no_sync", False),
        gathers=shards > 1,
        bucket_views=read.take("engine.gradient_as_bucket_view", False),
    )


def _capacity(read: _Defaults) -> tuple[Accelerator | None, int | None]:
    """The accelerator, and the bytes of it that a job can use."""
    given = read.given("hardware.accelerator")
    accelerator = find_accelerator(given) if given is not None else None
    memory = read.given("hardware.gpu_memory_gb")
    if memory is not None:
        return accelerator, int(memory * GiB)
    return accelerator, accelerator.usable if accelerator else None
