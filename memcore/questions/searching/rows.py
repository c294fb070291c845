"""What each engine can be searched for: one row for each, with what it divides and its policies.

What `resolve` refuses is no candidate; a new engine joins by a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.questions.searching.layouts import Settings
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.pytorch.settings import TorchSettings

SCHEDULES = ("1f1b", "interleaved-1f1b", "zbv", "dualpipev")
"""Of pipelines whose stages run in PyTorch."""
SCHEDULE = Parallelism.pipeline_schedule
_AC = "training.activation_checkpointing"
_CLEARED: Settings = dict.fromkeys(
    (
        Training.activation_checkpointing.mode,
        Training.activation_checkpointing.every,
        Training.activation_checkpointing.method,
        Training.activation_checkpointing.num_layers,
        Training.activation_checkpointing.modules,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Settings beside sizes, what they compute again and send, and what each layer keeps at least."""

    settings: Settings
    again: tuple[float, float] = (0.0, 0.0)
    """Shares of the forward pass's products and attention that run twice."""
    resharded: bool = True
    """Parameters are freed between forward and backward pass."""
    offloaded: bool = False
    chunks: int = 1
    """Model chunks of a pipeline's stage."""
    schedule: str = "1f1b"
    """Of a pipeline; others than this are looked at where they are asked for."""
    wide: bool = False
    """Experts are not divided by tensor parallelism, which ranks of their own hold instead."""
    keeps: tuple[int, int, int, int] = (1, 0, 0, 0)
    """Elements that a layer surely keeps for each token: hidden sizes, queries, keys or values, feed-forward widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an engine can be searched for."""

    divides: frozenset[str]
    """Of tensor, stages, context, experts, shards."""
    policies: tuple[Policy, ...]
    shared: bool = False
    """Layouts share recorded steps (`memcore.questions.searching.totals`); else each is estimated on its own."""
    sharded: str = "parameters"
    """What data-parallel ranks share: parameters, or optimizer states, or nothing."""


def _checkpointing(policy: str, **more: object) -> Settings:
    return {
        **_CLEARED,
        Training.activation_checkpointing.policy: policy,
        **{f"{_AC}.{name}": value for name, value in more.items()},
    }


_FULL = Policy(settings=_checkpointing("full"), again=(1.0, 1.0))
_NONE = Policy(settings=_checkpointing("none"), keeps=(1, 2, 2, 1))
_BY_OPERATION = Policy(settings=_checkpointing("selective", mode="op"), again=(0.5, 0.0), keeps=(1, 1, 0, 0))


def _with(policy: Policy, path: str, value: object, **more: object) -> Policy:
    """A policy with one more setting."""
    changed = {name: getattr(policy, name) for name in _TRAITS}
    return Policy(settings={**policy.settings, path: value}, **{**changed, **more})


_TRAITS = ("again", "resharded", "offloaded", "chunks", "keeps", "schedule", "wide")


_ENGINE, _RESHARD = EngineSettings.type, TorchSettings.reshard_after_forward
_VIRTUAL = Parallelism.virtual_pipeline_parallel_size
_PLAIN = tuple(
    _with(_with(policy, _ENGINE, "fsdp"), _RESHARD, value, resharded=value)
    for policy in (_NONE, _BY_OPERATION, _FULL)
    for value in (False, True)
)
_ON_HOST = tuple(_with(each, TorchSettings.cpu_offload, True, offloaded=True) for each in _PLAIN if each.resharded)
_SCHEDULED = tuple(
    _with(_with(each, SCHEDULE, name, schedule=name), _VIRTUAL, 2 if name == "interleaved-1f1b" else None, chunks=2)
    for each in _PLAIN
    for name in SCHEDULES
    if name != "1f1b" and not each.resharded
)
_FSDP = (*_PLAIN, *_ON_HOST, *_SCHEDULED)
_MEGATRON_FULL = Policy(settings=_checkpointing("full", method="uniform", num_layers=1), again=(1.0, 1.0))
_MEGATRON_SELECTIVE = Policy(settings=_checkpointing("selective"), again=(0.0, 1.0), keeps=(1, 1, 2, 0))
_NARROW = tuple(
    _with(_with(policy, _ENGINE, "megatron"), _VIRTUAL, chunks if chunks > 1 else None, chunks=chunks)
    for policy in (_NONE, _MEGATRON_SELECTIVE, _MEGATRON_FULL)
    for chunks in (1, 2, 4, 8)
)
_MEGATRON = (*_NARROW, *(_with(each, Parallelism.expert_tensor_parallel_size, 1, wide=True) for each in _NARROW))
_NANOTRON = tuple(
    _with(_with(policy, _ENGINE, "nanotron"), DeepSpeedSettings.zero_stage, stage)
    for policy in (_NONE, _FULL)
    for stage in (0, 1)
)

_STAGES = tuple(
    _with(_with(policy, _ENGINE, "deepspeed"), DeepSpeedSettings.zero_stage, stage, resharded=stage == 3)
    for policy in (_NONE, _FULL)
    for stage in (1, 2, 3)
)
_DEEPSPEED = (*_STAGES, *(_with(each, DeepSpeedSettings.offload_optimizer, "cpu", offloaded=True) for each in _STAGES))

ROWS: Mapping[str, Row] = {
    "none": Row(divides=frozenset(), policies=(_NONE, _BY_OPERATION, _FULL), shared=True, sharded="nothing"),
    "ddp": Row(divides=frozenset(), policies=(_NONE, _BY_OPERATION, _FULL), shared=True, sharded="nothing"),
    "fsdp": Row(divides=frozenset({"tensor", "stages", "context", "experts", "shards"}), policies=_FSDP, shared=True),
    "fsdp-transformers": Row(divides=frozenset({"tensor", "shards"}), policies=_FSDP, shared=True),
    "deepspeed": Row(divides=frozenset(), policies=_DEEPSPEED),
    "megatron": Row(
        divides=frozenset({"tensor", "stages", "context", "experts"}), policies=_MEGATRON, sharded="states"
    ),
    "nanotron": Row(divides=frozenset({"tensor", "stages"}), policies=_NANOTRON, sharded="states"),
}
"""By the value of `engine.type`; transformers' layers have no pipeline and no context parallelism of their own."""
