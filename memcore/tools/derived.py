"""Settings that no key of a file names, but several together give: GPUs, micro-batches, chunks of stages."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from memcore import limits, registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.formats.tool import Tool
from memcore.messages import Message, joined

_MODEL_RANKS = tuple(f"parallelism.{name}_parallel_size" for name in ("tensor", "pipeline", "context", "ulysses"))
_SEVERAL = frozenset({"ddp", "fsdp", "deepspeed", "megatron", "megatron-fsdp", "megatron-deepspeed", "nanotron"})
_GPUS, _SHARE = Hardware.num_gpus, Training.gradient_accumulation_steps
_DATA, _EACH = Parallelism.data_parallel_size, Training.micro_batch_size


def derived(
    tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any], gpus: int | None
) -> Iterator[tuple[str, str, Any]]:
    """Keys with what follows from them; `gpus` is what is known from elsewhere.

    Raises ConfigError for numbers that do not fit together.
    """
    world = gpus or _count(flat.get(_GPUS)) or _started(tool, found, flat)
    if world and not flat.get(_GPUS) and all(name in found for name in tool.world) and tool.world:
        yield tool.world[0], _GPUS, world
    if world is None:
        world = _sharing(tool, found, flat)
        if world is not None:
            yield tool.batch, _GPUS, world
    each = _shared(tool, found, flat, world)
    if each is not None:
        yield tool.batch, _EACH, each
        flat = {**flat, _EACH: each}
    steps = _accumulated(tool, found, flat, world)
    if steps is not None:
        yield tool.batch, _SHARE, steps
    chunks = _chunks(tool, found, flat)
    if chunks is not None:
        yield tool.per_chunk, Parallelism.virtual_pipeline_parallel_size, chunks


def unread(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any], gpus: int | None) -> Iterator[str]:
    """Yield what to say of keys that would have given something, and of GPUs that nobody has counted."""
    sizes = {_GPUS, _DATA}
    if gpus is None and not sizes & set(flat) and flat.get(EngineSettings.type, tool.engines[0]) in _SEVERAL:
        yield "the number of GPUs is not given; set it with --gpus"
    started = None if gpus else _product(found, tool.world)
    if started and _GPUS not in flat:
        yield Message(
            "{} is {}, which is not divisible by the group sizes: ignored", joined(" × ", tool.world), started
        )
    if _count(found.get(tool.batch)) and (_SHARE not in flat or (tool.shares_batch and _EACH not in flat)):
        yield Message("{} is ignored: converting it to micro-batches needs the number of GPUs", tool.batch)


def _started(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any]) -> int | None:
    """The GPUs that a command starts; None if its groups do not divide them, as where nodes are set elsewhere."""
    world = _product(found, tool.world)
    return world if world and _ranks(flat, world) else None


def _sharing(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any]) -> int | None:
    """The GPUs that a whole step's sequences are for, where a file says those of a GPU and its micro-batches too."""
    whole, each, steps = _count(found.get(tool.batch)), _count(flat.get(_EACH)), _count(flat.get(_SHARE))
    if whole is None or each is None or steps is None or whole % (each * steps):
        return None
    world = whole // (each * steps)
    for path in _MODEL_RANKS:
        world *= _count(flat.get(path)) or 1
    return world


def _product(found: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the product of some keys; None if one is missing."""
    total = 1
    for name in names:
        each = _count(found.get(name))
        if each is None:
            return None
        total *= each
    return total if names else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _ranks(flat: Mapping[str, Any], world: int) -> int | None:
    """Return the data-parallel ranks of a number of GPUs, or None if the GPUs cannot be divided like that."""
    model = 1
    for path in _MODEL_RANKS:
        model *= _count(flat.get(path)) or 1
    return world // model if world % model == 0 else None


def _shared(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any], world: int | None) -> int | None:
    """The sequences of a micro-batch, from those of a whole step, which is one micro-batch where nothing else is said.

    Source: DeepSpeed, runtime/config.py, `_set_batch_related_parameters`.
    """
    whole, ranks = _count(found.get(tool.batch)), _ranks(flat, world) if world else None
    if whole is None or ranks is None:
        return None
    said = _count(flat.get(_EACH))
    if tool.cuts_batch and said and said * ranks > whole:
        return max(1, whole // ranks)
    if not tool.shares_batch or flat.get(_EACH):
        return None
    return max(1, whole // (ranks * (_count(flat.get(_SHARE)) or 1)))


def _accumulated(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any], world: int | None) -> int | None:
    """Micro-batches of one data-parallel rank, from the sequences of a whole step."""
    whole, ranks = _count(found.get(tool.batch)), _ranks(flat, world) if world else None
    if whole is None or ranks is None or flat.get(_SHARE):
        return None
    each = _count(flat.get(_EACH)) or 1
    if whole % (ranks if tool.cuts_batch else each * ranks):
        raise ConfigError.at(
            tool.batch,
            "found {}, which {} data-parallel ranks with {} sequences each do not divide",
            whole,
            ranks,
            each,
        )
    return -(-whole // (each * ranks))


def _chunks(tool: Tool, found: Mapping[str, Any], flat: Mapping[str, Any]) -> int | None:
    """Chunks of a pipeline stage, from the layers of each."""
    layers = next((_count(found.get(key)) for key, ours in tool.dimensions.items() if ours == "num_layers"), None)
    each, stages = _count(found.get(tool.per_chunk)), _count(flat.get(Parallelism.pipeline_parallel_size))
    if each is None or layers is None or stages is None:
        return None
    if layers % (each * stages):
        raise ConfigError.at(
            tool.per_chunk, "found {}, which times {} stages does not divide the {} layers", each, stages, layers
        )
    return layers // (each * stages)


def gpus_of(config: Config) -> int | None:
    """The GPUs of a job: as many as it says, else as its groups have; None for neither, or more than a job takes.

    Sequences are shared within the ranks of tensor parallelism where answers are served (vllm, config/parallel.py:
    `decode_context_parallel_size`).
    """
    flat = _sizes(config)
    product = flat[_DATA] or 1
    for path in _MODEL_RANKS:
        product *= flat[path] or 1
    given: int | None = flat[_GPUS]
    return given or (product if 1 < product <= limits.GPUS else None)


def data_ranks(config: Config) -> int | None:
    """Ranks that work on different sequences; None where GPUs are not known, or not shared out evenly."""
    flat, gpus = _sizes(config), gpus_of(config)
    ranks: int | None = flat[_DATA]
    return ranks or (None if gpus is None else _ranks(flat, gpus))


def whole_batch(config: Config, groups: Container[str]) -> int | None:
    """Return the sequences of a step on all GPUs of a job, which is one GPU where nothing is said.

    `groups` are sizes that a tool divides its GPUs by; ranks of other groups have sequences of their own. None where
    nobody says the micro-batches, or GPUs are not shared out evenly.
    """
    flat, steps = _sizes(config), config.get(_SHARE)
    ranks = _ranks({path: size for path, size in flat.items() if path in groups}, gpus_of(config) or 1)
    return (config.get(_EACH) or 1) * steps * ranks if steps and ranks else None


def _sizes(config: Config) -> dict[str, Any]:
    served = dict.fromkeys(_MODEL_RANKS[2:]) if config.get(EngineSettings.type) in registry.SERVERS else {}
    return {path: config.get(path) for path in (*_MODEL_RANKS, _DATA, _GPUS)} | served
