"""What an engine does to a model: tensor parallelism, FSDP2 and DDP, as torchtitan and transformers users call them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from validation import pipeline, together
from validation.cases import Phase
from validation.models import TORCH, layers_of
from validation.plan import Layout, Plan, Refused

Styles = dict[str, ParallelStyle]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The groups of ranks of a layout."""

    data: DeviceMesh | None
    tensor: DeviceMesh | None
    stages: DeviceMesh | None


def ranks_of(layout: Layout, device: str, *, staged: bool) -> Ranks:
    """Groups over all dimensions with several ranks; `staged`: the stages of a pipeline are ranks of this job too."""
    replicas = layout.data // layout.shards if layout.engine == "fsdp" else 1
    shards = layout.shards if layout.engine == "fsdp" else 1
    sizes = {
        "stages": layout.stages if staged else 1,
        "replicas": replicas,
        "shards": shards,
        "tensor": layout.tensor,
    }
    kept = {name: size for name, size in sizes.items() if size > 1 or (name == "shards" and layout.engine == "fsdp")}
    if not kept:
        return Ranks(None, None, None)
    mesh = init_device_mesh(device, tuple(kept.values()), mesh_dim_names=tuple(kept))

    def part(*names: str) -> DeviceMesh | None:
        found = tuple(name for name in names if name in kept)
        return None if not found else mesh if len(found) == len(kept) else mesh[found if len(found) > 1 else found[0]]

    return Ranks(part("replicas", "shards"), part("tensor"), part("stages"))


class NoParallel(ParallelStyle):
    """Replicated parameters, local activations in and out, as in torchtitan."""

    def _apply(self, module: nn.Module, mesh: DeviceMesh) -> nn.Module:
        def enter(_: nn.Module, given: tuple[Any, ...], mesh: DeviceMesh) -> tuple[Any, ...]:
            return tuple(
                DTensor.from_local(each, mesh, [Replicate()], run_check=False)
                if isinstance(each, torch.Tensor) and not isinstance(each, DTensor)
                else each
                for each in given
            )

        return distribute_module(module, mesh, None, enter, lambda _, output, __: output.to_local())


def share_tensors(model: nn.Module, plan: Plan, mesh: DeviceMesh, prefix: str = "") -> None:
    """Tensor parallelism: columns and rows of matrices, sequences between them."""
    layout = plan.layout
    along = Shard(1) if layout.sequence_parallel else Replicate()
    norm: Callable[[], ParallelStyle] = SequenceParallel if layout.sequence_parallel else NoParallel
    ends, layer = (_titan if plan.implementation == "torchtitan" else _transformers)(along, norm, layout)
    present = {name: module for name, module in model.named_modules() if not isinstance(module, nn.Identity)}
    parallelize_module(model, mesh, {prefix + name: style for name, style in ends.items() if prefix + name in present})
    for each in layers_of(model)[1]:
        parallelize_module(each, mesh, dict(layer))
    if plan.implementation == "torchtitan" and layout.sequence_parallel:
        model.sequence_shards = mesh.size()


def _head(along: Any, layout: Layout) -> ParallelStyle:
    outputs = Shard(-1) if layout.loss_parallel else Replicate()
    return ColwiseParallel(input_layouts=along, output_layouts=outputs, use_local_output=not layout.loss_parallel)


def _titan(along: Any, norm: Callable[[], ParallelStyle], layout: Layout) -> tuple[Styles, Styles]:
    """torchtitan/models/llama3/infra/parallelize.py, apply_tp."""
    ends = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=along),
        "norm": norm(),
        "output": _head(along, layout),
    }
    layer = {
        "attention_norm": norm(),
        "ffn_norm": norm(),
        "attention": PrepareModuleInput(input_layouts=(along, None), desired_input_layouts=(Replicate(), None)),
        "attention.wo": RowwiseParallel(output_layouts=along),
        "feed_forward": PrepareModuleInput(input_layouts=(along,), desired_input_layouts=(Replicate(),)),
        "feed_forward.w2": RowwiseParallel(output_layouts=along),
        **{name: ColwiseParallel() for name in ("attention.wq", "attention.wk", "attention.wv")},
        **{name: ColwiseParallel() for name in ("feed_forward.w1", "feed_forward.w3")},
    }
    return ends, layer


def _transformers(along: Any, norm: Callable[[], ParallelStyle], layout: Layout) -> tuple[Styles, Styles]:
    """Parallelize Llama and its like in transformers."""
    ends = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=along),
        "model.norm": norm(),
        "lm_head": _head(along, layout),
    }
    hidden = {"hidden_states": along}, {"hidden_states": Replicate()}
    layer = {
        "input_layernorm": norm(),
        "post_attention_layernorm": norm(),
        "self_attn": PrepareModuleInput(input_kwarg_layouts=hidden[0], desired_input_kwarg_layouts=hidden[1]),
        "self_attn.o_proj": RowwiseParallel(output_layouts=along),
        "mlp": PrepareModuleInput(input_layouts=(along,), desired_input_layouts=(Replicate(),)),
        "mlp.down_proj": RowwiseParallel(output_layouts=along),
        **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
        **{f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")},
    }
    return ends, layer


def shard(model: Any, plan: Plan, mesh: DeviceMesh) -> None:
    """FSDP2 around each layer and the rest."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    layout, precision = plan.layout, plan.precision
    mixed = precision.compute != precision.parameters
    policy = MixedPrecisionPolicy(param_dtype=TORCH[precision.compute], reduce_dtype=TORCH[precision.reduce])
    options: dict[str, Any] = {"mesh": mesh, "mp_policy": policy if mixed else MixedPrecisionPolicy()}
    if layout.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    embedding, rest = _outside_layers(model, plan) if layout.wrap == "torchtitan" else (None, [])
    if layout.wrap == "torchtitan" and embedding is not None:
        fully_shard(embedding, **options, reshard_after_forward=layout.reshard)
    _, layers = layers_of(model)
    for number, layer in enumerate(layers):
        last = layout.wrap == "torchtitan-2024" and layout.reshard is True and number == len(layers) - 1
        fully_shard(layer, **options, reshard_after_forward=False if last else layout.reshard)
    if layout.wrap == "torchtitan" and rest:
        fully_shard(rest, **options, reshard_after_forward=False)
    fully_shard(model, **options, reshard_after_forward=layout.root_reshard)


def _outside_layers(model: Any, plan: Plan) -> tuple[Any, list[Any]]:
    """The embedding; and the final norm with the head."""
    if plan.implementation == "torchtitan":
        return model.tok_embeddings, [each for each in (model.norm, model.output) if each is not None]
    if isinstance(model, pipeline.Stage):
        raise Refused("engine.wrap: 'torchtitan' of a pipeline's stage is run with torchtitan's layers only")
    return model.get_input_embeddings(), [model.base_model.norm, model.get_output_embeddings()]


def replicate(model: nn.Module, layout: Layout, *, simulated: bool) -> Any:
    """DistributedDataParallel with its buckets."""
    net = nn.parallel.DistributedDataParallel(
        model,
        init_sync=False,
        bucket_cap_mb=layout.bucket_mb,
        gradient_as_bucket_view=layout.bucket_view,
        static_graph=layout.static_graph,
    )
    if simulated:
        # A fake all-reduce gives nothing back, the logger wants a timer of CUDA, and buckets are rebuilt after the
        # first step by the order in which values arrived: the same bytes between other borders.
        net.register_comm_hook(None, _at_once)
        net._kept_logger, net.logger = net.logger, _Silent()
        net.reducer = _Unchanged(net.reducer)
    return net


def _at_once(_: object, bucket: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


_at_once.__annotations__.clear()  # DDP takes a hook only with its own annotations, or none


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class _Unchanged:
    """A reducer whose buckets stay what they are."""

    def __init__(self, reducer: Any) -> None:
        self.__dict__["_reducer"] = reducer

    def __getattr__(self, name: str) -> Any:
        return (lambda: False) if name == "_rebuild_buckets" else getattr(self._reducer, name)


@contextmanager
def sharding_unseen(tracker: Any) -> Iterator[None]:
    """DTensor works out the shapes of results on full-size fake tensors, which no real run has."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    name = "_propagate_tensor_meta_non_cached"
    original = getattr(ShardingPropagator, name)

    def quiet(*args: Any, **kwargs: Any) -> Any:
        before, tracker.paused = tracker.paused, True
        try:
            return original(*args, **kwargs)
        finally:
            tracker.paused = before

    setattr(ShardingPropagator, name, quiet)
    try:
        yield
    finally:
        setattr(ShardingPropagator, name, original)


def group(rank: int, world: int, backend: str) -> None:
    """The process group: `fake`, where one process stands for all; else of the processes that torchrun has started.

    Raises Refused if there are more or fewer of them.
    """
    if backend != "fake":
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started != world:
            raise Refused(f"hardware.num_gpus: {world} ranks are needed, {started} run; start them with torchrun")
        if not dist.is_initialized():
            alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512"}
            for name, value in alone.items() if started == 1 else ():
                os.environ.setdefault(name, value)
            dist.init_process_group(together.NAME if backend == "gloo" else backend)
        return
    if dist.is_initialized():
        dist.destroy_process_group()
    import torch.distributed._tools.fake_collectives  # noqa: F401 - shapes of collective operations
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())


def widest(phases: list[Phase]) -> list[Phase]:
    """The phases of the rank that holds most, of all ranks that run."""
    if not dist.is_initialized() or dist.get_backend() == "fake":
        return phases
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, phases)
    return max(every, key=lambda each: max(phase.peak for phase in each))
