"""What PyTorch's own engines can be searched for."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trace.searching import BY_OPERATION, FULL, NONE, SCHEDULE, SCHEDULES, Kind, Row, and_with
from memcore.trainers.pytorch.resolve import resolve
from memcore.trainers.pytorch.settings import TorchSettings

_ENGINE, _RESHARD = EngineSettings.type, TorchSettings.reshard_after_forward
_LAYERS, _VIRTUAL = Training.implementation, Parallelism.virtual_pipeline_parallel_size
_WHOLE = Row(divides=frozenset(), policies=(NONE, BY_OPERATION, FULL), resolve=resolve, sharded="nothing")
_PLAIN = tuple(
    and_with(and_with(policy, _ENGINE, "fsdp"), _RESHARD, value, resharded=value)
    for policy in (NONE, BY_OPERATION, FULL)
    for value in (False, True)
)
_ON_HOST = tuple(and_with(each, TorchSettings.cpu_offload, True, offloaded=True) for each in _PLAIN if each.resharded)
_SCHEDULED = tuple(
    and_with(
        and_with(each, SCHEDULE, name, schedule=name), _VIRTUAL, 2 if name == "interleaved-1f1b" else None, chunks=2
    )
    for each in _PLAIN
    for name in SCHEDULES
    if name != "1f1b" and not each.resharded
)
_FSDP = (*_PLAIN, *_ON_HOST, *_SCHEDULED)
_DIVIDES = frozenset({"tensor", "stages", "context", "experts", "shards"})
ROWS: Mapping[str, Row] = {
    "none": _WHOLE,
    "ddp": _WHOLE,
    "fsdp": Row(divides=_DIVIDES, policies=_FSDP, resolve=resolve),
    "fsdp-transformers": Row(divides=frozenset({"tensor", "shards"}), policies=_FSDP, resolve=resolve),
}
"""By the value of `engine.type`; transformers' layers have no pipeline and no context parallelism of their own."""
KINDS = (
    Kind(title="torchtitan", settings={_ENGINE: "fsdp", _LAYERS: "torchtitan"}, usual={}),
    Kind(title="FSDP", settings={_ENGINE: "fsdp", _LAYERS: "transformers"}, usual={}, row="fsdp-transformers"),
    Kind(title="one GPU", settings={_ENGINE: "none", _LAYERS: "transformers"}, usual={}, alone=True),
)
"""DDP is looked at where it is named."""
