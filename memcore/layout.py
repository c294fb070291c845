"""How ranks divide the work: from the parallel sizes of a config to numbers, contradictions refused."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.defaults import Defaults
from memcore.eager.ring import TURNS
from memcore.engines.base import Engine
from memcore.errors import UnsupportedError
from memcore.layers import LayerCode
from memcore.model.network import Model
from memcore.step.recipe import Pipeline
from memcore.tensor_parallel import tensor_ranks


def context_ranks(read: Defaults, engine: Engine) -> int:
    """Ranks that share a sequence."""
    path = "parallelism.context_parallel_size"
    contexts: int = read.given(path) or 1
    if contexts > 1 and engine.name != "fsdp":
        read.refuse(path, f"found {contexts}; modelled with engine.type 'fsdp' only, found {engine.name!r}")
    sequence = read.given("training.sequence_length")
    if sequence is not None and sequence % (2 * contexts) and contexts > 1:
        read.refuse("training.sequence_length", f"found {sequence}, which twice {contexts} ranks cannot share equally")
    return contexts


def ring(read: Defaults, implementation: str, kernel: str, sizes: Mapping[str, int]) -> int:
    """How many turns of ring attention are recorded."""
    contexts = sizes["cp"]
    if contexts == 1:
        return 0
    path = "parallelism.context_parallel_size"
    if implementation != "torchtitan" or kernel not in ("sdpa", "flash"):
        read.refuse(path, f"found {contexts}; modelled for torchtitan's layers with attention 'sdpa' or 'flash' only")
    return min(contexts, TURNS)


def gpus_and_shards(read: Defaults, engine: Engine) -> tuple[int, int]:
    """GPUs of the job, and over how many FSDP shards."""
    given = read.given("hardware.num_gpus")
    contexts = read.given("parallelism.context_parallel_size") or 1
    stages = read.given("parallelism.pipeline_parallel_size") or 1
    data = read.given("parallelism.data_parallel_size")
    tensors = tensor_ranks(read)
    data = None if data is None else data * contexts * stages * tensors
    if given is not None and data is not None and given != data:
        read.refuse(
            "parallelism.data_parallel_size", f"found {data}, but hardware.num_gpus is {given}; they must agree"
        )
    least = stages * tensors
    total = given or data or read.take("hardware.num_gpus", least, "one GPU" if least == 1 else "one for each part")
    if total % stages:
        read.refuse("hardware.num_gpus", f"found {total}, which {stages} stages cannot share equally")
    elif total // stages % tensors:
        read.refuse("hardware.num_gpus", f"found {total}, which groups of {tensors} tensor-parallel ranks cannot share")
    ranks = max(total // least, 1)
    if not engine.distributed and tensors > 1 and ranks > 1:
        read.refuse("engine.type", f"'none' runs one group of tensor-parallel GPUs, found {ranks}; allowed: fsdp")
    elif not engine.distributed and ranks > 1:
        read.refuse("engine.type", f"'none' runs on one GPU, found hardware.num_gpus {total}; allowed: ddp, fsdp")
    shards = read.take("parallelism.data_parallel_shard_size", ranks)
    if ranks % shards:
        read.refuse(
            "parallelism.data_parallel_shard_size",
            f"found {shards}, which does not divide the {ranks} data-parallel ranks",
        )
    reshard = read.given("engine.reshard_after_forward")
    if isinstance(reshard, int) and not isinstance(reshard, bool) and (shards % reshard or reshard == shards):
        read.refuse(
            "engine.reshard_after_forward", f"found {reshard}; a number must divide the {shards} ranks of a shard group"
        )
    return total, shards


STAGES = "parallelism.pipeline_parallel_size"


def pipeline_stages(read: Defaults, model: Model, engine: Engine) -> tuple[int, str]:
    """The stages of the pipeline, and its schedule."""
    path = STAGES
    stages: int = read.given(path) or 1
    schedule = "1f1b"
    if stages == 1:
        return stages, schedule
    schedule = read.take("parallelism.pipeline_schedule", schedule, "as in torchtitan")
    if engine.name == "ddp":
        read.refuse(path, f"found {stages}; modelled with engine.type 'none' or 'fsdp', found 'ddp'")
    if stages > model.num_layers:
        read.refuse(path, f"found {stages}; {model.name} has {model.num_layers} layers")
    ends = model.network.ends
    if (ends.tied and engine.name != "nanotron") or ends.start != "decoder" or model.network.towers:
        what = "a tied head" if ends.tied else "towers" if model.network.towers else "such a beginning"
        raise UnsupportedError(path, f"found {stages}; {model.name} has {what}, which is not modelled in a pipeline")
    return stages, schedule


def pipeline_plan(read: Defaults, code: LayerCode) -> Pipeline | None:
    """How the pipeline runs, as far as all stages share it."""
    if (read.given(STAGES) or 1) == 1:
        for name in ("pipeline_runtime", "return_outputs"):
            if read.given(f"engine.{name}") is not None:
                read.refuse(f"engine.{name}", f"needs {STAGES} of 2 or more")
        return None
    runtime = read.take("engine.pipeline_runtime", "torch", "PyTorch's own")
    returns = read.take("engine.return_outputs", code.computes_loss, "PyTorch's default; torchtitan asks for none")
    return Pipeline(warm=0, stands=False, runs=0, skips=False, runtime=runtime, returns_outputs=returns)
