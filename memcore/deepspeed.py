"""DeepSpeed, from its settings to what ZeRO does and the sizes that it works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.config.deepspeed import DEEPSPEED
from memcore.defaults import Defaults
from memcore.engines.base import Engine
from memcore.engines.deepspeed_estimators import model_to_params
from memcore.model.adapters import learns
from memcore.model.network import Model
from memcore.step.recipe import Recipe
from memcore.step.zero import ZeroPlan
from memcore.symbols import product

_STAGE, _OPTIMIZER, _PARAM = "engine.zero_stage", "engine.offload_optimizer", "engine.offload_param"
_ONLY_3 = (
    "engine.sub_group_size",
    "engine.stage3_prefetch_bucket_size",
    "engine.stage3_max_live_parameters",
    "engine.stage3_max_reuse_distance",
    "engine.stage3_param_persistence_threshold",
    "engine.zero_hpz_partition_size",
    "engine.mics_shard_size",
)
_SWAPPED = 5 * 100_000_000
"""Elements of buffers through which parameters on a disk pass (offload_param's buffer_count and buffer_size)."""


def zero_engine(read: Defaults) -> str:
    """The key of the engine: what it keeps of a parameter depends on the stage."""
    name = str(read.given("engine.type"))
    if read.given(_STAGE) != 3:
        return name
    return f"{name}3" if (read.given(_PARAM) or "none") == "none" else f"{name}3-offload"


def zero_plan(read: Defaults) -> ZeroPlan:
    """What ZeRO does."""
    stage = int(read.take(_STAGE, 0, "DeepSpeed's default: no ZeRO"))
    optimizer, parameters = read.take(_OPTIMIZER, "none"), read.take(_PARAM, "none")
    if optimizer != "none" and stage == 0:
        read.refuse(_OPTIMIZER, f"found {optimizer!r}; needs {_STAGE} 1, 2 or 3")
    if optimizer == "nvme" and stage < 3:
        read.refuse(_OPTIMIZER, "found 'nvme'; needs engine.zero_stage 3; allowed: none, cpu")
    if parameters != "none" and stage < 3:
        read.refuse(_PARAM, f"found {parameters!r}; needs {_STAGE} 3, found {stage}")
    for path in _ONLY_3 if stage < 3 else ():
        if read.given(path) is not None:
            read.refuse(path, f"applies to {_STAGE} 3, found {stage}")
    if not read.take("engine.contiguous_gradients", True) and optimizer == "none" and stage:
        read.refuse("engine.contiguous_gradients", "found false, which is not modelled yet; allowed: true")
    return ZeroPlan(
        stage=stage,
        offloads_optimizer=optimizer,
        offloads_parameters=parameters,
        overlaps=bool(read.take("engine.overlap_comm", stage == 3)) and stage < 3,
        secondary=stage == 3 and read.take("engine.zero_hpz_partition_size", 1) > 1,
    )


def with_zero(
    read: Defaults, engine: Engine, model: Model, recipe: Recipe, sizes: Mapping[str, int]
) -> tuple[Recipe, dict[str, int]]:
    """The recipe and the sizes of a job with DeepSpeed; those of others as they are."""
    if engine.name not in DEEPSPEED:
        return recipe, dict(sizes)
    ranks = zero_ranks(read, sizes["z"])
    return replace(recipe, zero=zero_plan(read)), {**sizes, "z": ranks, **zero_sizes(read, model, sizes, ranks)}


def zero_ranks(read: Defaults, ranks: int) -> int:
    """Ranks that share: all, or those of a MiCS group."""
    path = "engine.mics_shard_size"
    shards = int(read.given(path) or ranks)
    if ranks % shards:
        read.refuse(path, f"found {shards}, which does not divide the {ranks} data-parallel ranks")
    return shards


def zero_sizes(read: Defaults, model: Model, sizes: Mapping[str, int], ranks: int) -> Mapping[str, int]:
    """The numbers of elements that ZeRO works with, by symbol (`step.zero.ZeroPlan`)."""
    bucket = int(read.take("engine.reduce_bucket_size", 500_000_000))
    read.take("engine.allgather_bucket_size", 500_000_000)
    threshold = int(read.take("engine.stage3_param_persistence_threshold", 100_000))
    prefetched = int(read.take("engine.stage3_prefetch_bucket_size", 50_000_000))
    live = int(read.take("engine.stage3_max_live_parameters", 1_000_000_000))
    reuse = int(read.take("engine.stage3_max_reuse_distance", 1_000_000_000))
    group = int(read.take("engine.sub_group_size", 1_000_000_000))
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
        "zl": min(total - kept, max(passing, reuse // 2)),
        "zg": min(group, -(-learned // ranks)),
        "zh": int(read.given("engine.zero_hpz_partition_size") or 1),
        "zs": _SWAPPED,
    }
