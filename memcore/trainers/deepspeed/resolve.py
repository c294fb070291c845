"""DeepSpeed, from its settings to what ZeRO does and the sizes that it works with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import Problem
from memcore.memory.communicators import Communicator, Extent, groups_of_mesh
from memcore.messages import Message
from memcore.networks.adapters import learns
from memcore.networks.network import Model
from memcore.symbols import product
from memcore.trace.engine import Engine
from memcore.trace.recipe import Precision, Recipe
from memcore.trainers.deepspeed.estimators import model_to_params
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.deepspeed.step_plan import ZeroPlan
from memcore.trainers.pytorch.extension import Extension
from memcore.trainers.pytorch.frameworks import framework_of

_STAGE, _OPTIMIZER, _PARAM = (
    EngineSettings.zero_stage,
    DeepSpeedSettings.offload_optimizer,
    DeepSpeedSettings.offload_param,
)
_ONLY_3 = (
    DeepSpeedSettings.sub_group_size,
    DeepSpeedSettings.stage3_prefetch_bucket_size,
    DeepSpeedSettings.stage3_max_live_parameters,
    DeepSpeedSettings.stage3_max_reuse_distance,
    DeepSpeedSettings.stage3_param_persistence_threshold,
    DeepSpeedSettings.zero_hpz_partition_size,
    DeepSpeedSettings.mics_shard_size,
    DeepSpeedSettings.zero_quantized_weights,
    DeepSpeedSettings.zero_quantized_gradients,
    DeepSpeedSettings.bf16_master_weights_and_grads,
)
_OFFLOADED: Mapping[str, str] = {Training.offload.optimizer: _OPTIMIZER, Training.offload.parameters: _PARAM}
"""Where the format says what is on the host, and where DeepSpeed does."""
_SWAPPED = 5 * 100_000_000
"""Elements of buffers through which parameters on a disk pass (offload_param's buffer_count and buffer_size)."""


def offloaded(config: Config, problems: list[Problem]) -> Mapping[str, object]:
    """ZeRO's own settings for what is offloaded."""
    found: dict[str, object] = {}
    for path, own in _OFFLOADED.items():
        device = config.get(path)
        if device is None:
            continue
        if config.get(own) not in (None, device):
            problems.append(
                Problem(
                    path,
                    Message("found {!r}, but {} is {!r}; they must agree", device, own, config.get(own)),
                )
            )
        found |= {own: device, path: None}
    return found


def zero_engine(read: Defaults) -> str:
    """Return the key of the engine: what it keeps of a parameter depends on the stage."""
    name = str(read.given(EngineSettings.type))
    if read.given(_STAGE) != 3:
        return name
    return f"{name}3" if (read.given(_PARAM) or "none") == "none" else f"{name}3-offload"


_STAGES: Mapping[str, int] = {"openrlhf": 2}
"""Stages that training loops run where nothing is said (openrlhf/cli/train_sft.py, `--ds.zero_stage`)."""


def zero_plan(read: Defaults, precision: Precision) -> ZeroPlan:
    """Return what ZeRO does."""
    framework = read.given(EngineSettings.framework)
    usual = _STAGES.get(str(framework))
    reason = "DeepSpeed's default: no ZeRO" if usual is None else Message("{}'s default", framework)
    stage = int(read.take(_STAGE, usual or 0, reason))
    optimizer, parameters = read.take(_OPTIMIZER, "none"), read.take(_PARAM, "none")
    if optimizer != "none" and stage == 0:
        read.refuse(_OPTIMIZER, "found {!r}; needs {} 1, 2 or 3", optimizer, _STAGE)
    if optimizer == "nvme" and stage < 3:
        read.refuse(_OPTIMIZER, "found {!r}; needs {}; allowed: {}", "nvme", "engine.zero_stage 3", "none, cpu")
    if parameters != "none" and stage < 3:
        read.refuse(_PARAM, "found {!r}; needs {} 3, found {}", parameters, _STAGE, stage)
    if parameters != "none" and read.given(Training.quantization) is not None:
        message = "found {!r}; quantized weights take more GPU memory offloaded, not less; use {!r}"
        read.refuse(_PARAM, message, parameters, "none")  # peft, docs/source/accelerate/deepspeed.md, Caveats
    for path in _ONLY_3 if stage < 3 else ():
        if read.given(path) is not None:
            read.refuse(path, "applies to {} 3, found {}", _STAGE, stage)
    if not read.take(DeepSpeedSettings.contiguous_gradients, True) and optimizer == "none" and stage:
        read.refuse(
            DeepSpeedSettings.contiguous_gradients, "found {}, which is not supported yet; allowed: {}", "false", "true"
        )
    return ZeroPlan(
        stage=stage,
        offloads_optimizer=optimizer,
        offloads_parameters=parameters,
        overlaps=bool(read.take(DeepSpeedSettings.overlap_comm, stage == 3)) and stage < 3,
        secondary=stage == 3 and read.take(DeepSpeedSettings.zero_hpz_partition_size, 1) > 1,
        quantized_weights=stage == 3 and bool(read.take(DeepSpeedSettings.zero_quantized_weights, False)),
        quantized_gradients=stage == 3 and bool(read.take(DeepSpeedSettings.zero_quantized_gradients, False)),
        fp32_gradients=(fp32 := _fp32_gradients(read, stage, precision)) and stage == 1,
        fp32_partitions=fp32 and stage == 3,
        upcasts_reduction=_upcasts_reduction(read, precision),
        copies=_copies(read, optimizer, precision),
    )


def _copies(read: Defaults, optimizer: str, precision: Precision) -> str:
    """Return the dtype of the optimizer's copy of the parameters.

    `bf16_master_weights_and_grads` makes it bf16 (deepspeed, zero/stage3.py, `_configure_master_weights`). It is one
    still: `_create_fp32_partitions` compares the tensor's device with a name, which are never equal.
    """
    path = DeepSpeedSettings.bf16_master_weights_and_grads
    if not read.given(path):
        return "fp32"
    if precision.parameter != "bf16" or optimizer != "none":
        read.refuse(path, "supported only with {} and the optimizer on the GPU", "training.precision 'bf16-mixed'")
    return "bf16"


def _upcasts_reduction(read: Defaults, precision: Precision) -> bool:
    """Return whether gradients are cast to fp32 to be reduced.

    Source: deepspeed, runtime/engine.py (`_configure_distributed_model`): with sequence-parallel ranks
    `seq_parallel_communication_data_type` replaces `communication_data_type`; runtime/constants.py: fp32 by default.
    """
    if (read.given(Parallelism.ulysses_parallel_size) or 1) == 1:
        return False
    wanted = read.take(DeepSpeedSettings.seq_parallel_communication_data_type, "fp32")
    return bool(wanted == "fp32") and precision.parameter != "fp32"


def _fp32_gradients(read: Defaults, stage: int, precision: Precision) -> bool:
    """Return whether gradients accumulate in another dtype than the model's.

    `BF16_Optimizer` takes those of stage 1 (runtime/engine.py, `_do_optimizer_sanity_check`), and stage 3 has a flat
    buffer of that dtype (zero/stage3.py, `grad_partitions_flat_buffer`). Stage 2 adds gradients up as they come,
    whatever it is told (zero/stage_1_and_2.py, `get_all_grad_tensors`).
    """
    path = Training.gradient_dtype
    given = read.given(path)
    if given is None or given == precision.parameter:
        return False
    if (given, precision.parameter) != ("fp32", "bf16") or not stage or read.given(_OPTIMIZER) not in (None, "none"):
        read.refuse(path, "found {!r}; supported only as fp32, with bf16, {} 1 to 3 and no offloading", given, _STAGE)
    return True


def _partitioned(
    read: Defaults, engine: Engine, model: Model, recipe: Recipe, sizes: Mapping[str, int]
) -> tuple[Recipe, dict[str, int]]:
    """Return the recipe and the sizes of a job with DeepSpeed, whose checkpoints may be on the host."""
    path, checkpoints = DeepSpeedSettings.cpu_checkpointing, recipe.checkpoints
    hosts = framework_of(read).hosts_checkpoints and read.given(Training.offload.activations) is not None
    if read.take(path, False) or hosts:
        if checkpoints is None:
            read.refuse(path, "found {}; needs training.activation_checkpointing 'full'", "true")
        else:
            kept = replace(checkpoints, reentrant=True, inputs_learn=True, hosted=True)
            recipe = replace(recipe, checkpoints=kept)
    return with_zero(read, engine, model, recipe, sizes)


def with_zero(
    read: Defaults, engine: Engine, model: Model, recipe: Recipe, sizes: Mapping[str, int]
) -> tuple[Recipe, dict[str, int]]:
    """Return the recipe and the sizes of a job with DeepSpeed."""
    ranks, plan = zero_ranks(read, sizes["z"]), zero_plan(read, recipe.precision)
    node = int(read.take(Hardware.gpus_per_node, 8)) if plan.quantized_gradients else 1
    if plan.quantized_gradients and sizes["z"] * sizes["tp"] <= node:
        plan = replace(plan, quantized_gradients=False)  # within a node gradients are reduced as they are
    found = {**sizes, "z": ranks, **zero_sizes(read, model, sizes, ranks)}
    return recipe.planned(plan), {**found, **_quantized(found, plan, recipe.precision, node)}


def _quantized(sizes: Mapping[str, int], plan: ZeroPlan, precision: Precision, node: int) -> Mapping[str, int]:
    """Return the bytes that ZeRO++ needs in addition to what is gathered, and to reduce the largest parameter.

    A parameter comes in int8, becomes fp16, and with bf16 is cast once more; what is fetched ahead is int8 and becomes
    flat fp16 before it is copied out. Gradients are int4 before and after each of two exchanges, within nodes and
    between them, and fp16 at the end.
    """
    largest, found = sizes["zx"], dict[str, int]()
    if plan.quantized_weights:
        alone = largest * (5 if precision.compute == "bf16" else 3)
        found["zq"] = max(sizes["za"], alone - 2 * sizes["zm"])
    if plan.quantized_gradients:
        found["zy"] = largest + 3 * -(-largest // node)
    return found


def groups(recipe: Recipe, sizes: Mapping[str, int], extent: Extent) -> Sequence[Communicator]:
    """Return the groups that exchange something: Ulysses sends to each of its ranks, ZeRO clones the world's group.

    Source: deepspeed/utils/groups.py (`_clone_world_group`, `_get_sequence_parallel_group`,
    `_get_sequence_data_parallel_group`), sequence/layer.py (`all_to_all_single`).
    """
    if recipe.ulysses is None:
        return Communicator("barriers", extent.ranks, trees=True), *groups_of_mesh(sizes, extent)
    return Communicator("data", sizes["z"], rings=True, trees=True), extent.to_all("sequence", sizes["cp"])


def zero_ranks(read: Defaults, ranks: int) -> int:
    """Ranks that share: all, or those of a MiCS group."""
    path = DeepSpeedSettings.mics_shard_size
    shards = int(read.given(path) or ranks)
    if ranks % shards:
        read.refuse(path, "found {}, which does not divide the {} data-parallel ranks", shards, ranks)
    return shards


def _buckets(read: Defaults, width: int) -> tuple[int, int, int]:
    """Return elements that are reduced at once and fetched ahead, and of parameters that stay.

    Sources: deepspeed, runtime/zero/config.py; transformers, integrations/deepspeed.py (`trainer_config_finalize`).
    """
    usual: tuple[int, int, int] = (500_000_000, 50_000_000, 100_000)
    reason = None
    if read.take(DeepSpeedSettings.hidden_size_buckets, False):
        usual, reason = (width * width, int(0.9 * width * width), 10 * width), "transformers' Trainer fills in auto"
    bucket = int(read.take(DeepSpeedSettings.reduce_bucket_size, usual[0], reason))
    threshold = int(read.take(DeepSpeedSettings.stage3_param_persistence_threshold, usual[2], reason))
    prefetched = int(read.take(DeepSpeedSettings.stage3_prefetch_bucket_size, usual[1], reason))
    return bucket, prefetched, threshold


def zero_sizes(read: Defaults, model: Model, sizes: Mapping[str, int], ranks: int) -> Mapping[str, int]:
    """Return the numbers of elements that ZeRO works with, by symbol (`ZeroPlan`)."""
    bucket, prefetched, threshold = _buckets(read, sizes["h"])
    read.take(DeepSpeedSettings.allgather_bucket_size, 500_000_000)
    live = int(read.take(DeepSpeedSettings.stage3_max_live_parameters, 1_000_000_000))
    reuse = int(read.take(DeepSpeedSettings.stage3_max_reuse_distance, 1_000_000_000))
    group = int(read.take(DeepSpeedSettings.sub_group_size, 1_000_000_000))
    counted = [(product(weight.shape, sizes), count, weight) for weight, _, count in model.tensors]
    total, largest = model_to_params(replace(model, sizes=sizes))
    learned = sum(size * count for size, count, weight in counted if learns(weight, model.network))
    kept = sum(size * count for size, count, _ in counted if size <= threshold)
    ahead = min(prefetched, max(live - largest, 0))
    passing = min(total - kept, largest + 2 * ahead)  # what is fetched together is copied out of one flat buffer
    return {
        "zp": learned,
        "zr": bucket,
        "zf": min(bucket, learned),
        "zx": max((size for size, _, _ in counted), default=0),
        "zk": kept,
        "zm": passing,
        "za": min(ahead, max(total - kept - largest, 0)),
        "zl": min(total - kept, max(passing, reuse // 2)),
        "zg": min(group, -(-learned // ranks)),
        "zh": int(read.given(DeepSpeedSettings.zero_hpz_partition_size) or 1),
        "zs": _SWAPPED,
    }


def _masters(config: Config) -> Iterator[Problem]:
    """Yield whether there is a separate copy of the parameters in fp32.

    Source: deepspeed/runtime/zero/stage_1_and_2.py and stage3.py (`.clone().float()`), fp16/fused_optimizer.py.
    """
    wanted = config[Training.master_dtype]
    halves = config[Training.precision] not in ("fp32", "tf32")
    if wanted is not None and (wanted == "fp32") != (halves or (config[_STAGE] or 0) > 0):
        has = "an fp32 copy" if wanted == "none" else "no copy of fp32 parameters without ZeRO"
        yield Problem(
            Training.master_dtype, Message("found {!r}; DeepSpeed's optimizer has {} here; leave it out", wanted, has)
        )


EXTENSION = Extension(
    variant=zero_engine,
    restated=offloaded,
    disk=True,
    problems=_masters,
    partition=_partitioned,
    partitions=True,
    groups=groups,
)
"""DeepSpeed: PyTorch's layers under ZeRO."""
