"""What Megatron-Core offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Method, Settings, Way
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trace.changes import Change
from memcore.trainers.megatron.settings import MegatronSettings

_AC = Training.activation_checkpointing
_ARGUMENTS = "Megatron-LM, megatron/training/arguments.py"
_OTHERS: Settings = dict.fromkeys((_AC.mode, _AC.every, _AC.method, _AC.num_layers, _AC.modules))
_FREE = (
    Knob(
        title="Distributed optimizer",
        to={MegatronSettings.distributed_optimizer: True},
        when={MegatronSettings.distributed_optimizer: (None, False)},
        why="data-parallel ranks shard master weights and moments and send as many bytes as before",
        source="Megatron-LM, docs/source/api-guide/dist_optimizer.md",
    ),
    Knob(
        title="Sequence parallel",
        to={Parallelism.sequence_parallel: True},
        when={Parallelism.sequence_parallel: (None, False)},
        needs="tensor",
        why="tensor-parallel ranks also split norms and dropout; they send as many bytes as before",
        source="arXiv 2205.05198, section 4.2.2",
    ),
)
_DEGREES = (
    Knob(title="No recomputation", to={}, why="nothing is computed twice", source=_ARGUMENTS),
    Knob(
        title="Selective recomputation",
        to={**_OTHERS, _AC.policy: "selective"},
        when={_AC.policy: (None, "none")},
        why="only core attention is recomputed",
        source="arXiv 2205.05198, section 5",
    ),
    Knob(
        title="Full recomputation",
        to={**_OTHERS, _AC.policy: "full", _AC.method: "uniform", _AC.num_layers: 1},
        when={_AC.policy: (None, "none", "selective")},
        why="each layer saves only its input; "
        "the forward pass runs twice: a third more compute, half more if the weights are frozen",
        source=f"{_ARGUMENTS}, --recompute-granularity full",
    ),
)
_TO_HOST = Knob(
    title="Optimizer on the host",
    to={Training.offload.optimizer: "cpu", MegatronSettings.precision_aware_optimizer: True},
    when={Training.offload.optimizer: (None,)},
    why="master weights and moments stay on the host, and the CPU runs the step",
    source="Megatron-LM, megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py",
)


def uneven(layers: int, stages: int) -> Mapping[str, object]:
    """Settings that divide layers among stages that they do not divide evenly.

    Embedding and loss count as a layer each where that comes out even (`--account-for-embedding-in-pipeline-split`,
    Llama 3's layout of 126 layers on 16 stages); else the stages in the middle have one more.
    """
    if layers % stages == 0:
        return {}
    if (layers + 2) % stages == 0:
        paths = (
            MegatronSettings.account_for_embedding_in_pipeline_split,
            MegatronSettings.account_for_loss_in_pipeline_split,
        )
        return dict.fromkeys(paths, True)
    least, more = divmod(layers, stages)
    first = (stages - more) // 2
    return {Parallelism.pipeline_layout: [least + (first <= number < first + more) for number in range(stages)]}


_DIVIDES = frozenset({"tensor", "stages", "context", "experts"})
_CORE = Way(
    title="Megatron-Core",
    settings={EngineSettings.type: "megatron"},
    free=_FREE,
    divides=_DIVIDES,
    uneven=uneven,
    degrees=_DEGREES,
    transfers=(_TO_HOST,),
    only={Training.adapter.type: (None,)},
    alone=False,
)


def _in(framework: str, title: str) -> Way:
    """Return a training loop around Megatron-Core, whose scripts train no adapters."""
    return replace(
        _CORE,
        title=title,
        settings={**_CORE.settings, EngineSettings.framework: framework},
        only={Training.adapter.type: ("lora", "dora")},
    )


WAYS: Mapping[str, tuple[Way, ...]] = {
    "megatron": (_CORE, _in("ms-swift", "Megatron-SWIFT"), _in("megatron-bridge", "Megatron Bridge")),
    "megatron-fsdp": (
        Way(
            title="Megatron-FSDP",
            settings={
                EngineSettings.type: "megatron-fsdp",
                MegatronSettings.data_parallel_sharding_strategy: "optim_grads_params",
            },
            divides=frozenset({"tensor", "context", "experts"}),
            degrees=_DEGREES,
            named=True,
        ),
    ),
}
_NARROW_GRADIENTS = Knob(
    title="Gradients in bf16",
    to={MegatronSettings.grad_reduce_in_bf16: True},
    when={
        EngineSettings.type: ("megatron", "megatron-fsdp"),
        MegatronSettings.grad_reduce_in_bf16: (None, False),
        Training.precision: ("bf16-mixed", "fp8-mixed"),
    },
    why="gradients take two bytes per parameter instead of four, and half as many bytes are sent",
    quality="sums over micro-batches and ranks are rounded to 8 bits of mantissa",
    source="Megatron Bridge, perf_recipes/_common.py, grad_reduce_in_fp32 = False",
)
METHODS = (Method("states", (_NARROW_GRADIENTS,)),)
"""Ways to train that need something which only Megatron has."""
NEXT: Mapping[str, tuple[str, ...]] = {}
"""Engines that users of one move on to when a job outgrows it."""
CHANGES: tuple[Change, ...] = (
    Change(
        title="Sequence parallel",
        rung="sharding",
        kind="free",
        note="all-gather and reduce-scatter replace the all-reduce, with the same number of bytes",
        to={Parallelism.sequence_parallel: True},
        when={Parallelism.sequence_parallel: (False,)},
        engines=("megatron",),
    ),
    Change(
        title="Selective recomputation of attention",
        rung="selective",
        kind="compute",
        to={Training.activation_checkpointing.policy: "selective"},
        when={Training.activation_checkpointing.policy: (None, "none")},
        engines=("megatron",),
    ),
)
"""Changes that save memory, which no other trainer has."""
