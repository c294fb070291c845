"""What Megatron-Core can be searched for."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.trace.job import Job
from memcore.trace.searching import NONE, Kind, Policy, Row, and_with, checkpointing
from memcore.trainers.megatron.resolve import MegatronJob
from memcore.trainers.megatron.settings import MegatronSettings

_ENGINE, _VIRTUAL = EngineSettings.type, Parallelism.virtual_pipeline_parallel_size
_WHOLLY = Policy(settings=checkpointing("full", method="uniform", num_layers=1), again=(1.0, 1.0))
_SELECTIVE = Policy(settings=checkpointing("selective"), again=(0.0, 1.0), keeps=(1, 1, 2, 0))
_NARROW = tuple(
    and_with(and_with(policy, _ENGINE, "megatron"), _VIRTUAL, chunks if chunks > 1 else None, chunks=chunks)
    for policy in (NONE, _SELECTIVE, _WHOLLY)
    for chunks in (1, 2, 4, 8)
)
_POLICIES = (*_NARROW, *(and_with(each, Parallelism.expert_tensor_parallel_size, 1, wide=True) for each in _NARROW))


def _parameter_bytes(job: Job) -> int | None:
    """Of a parameter, and of its gradient where states alone are shared."""
    if not isinstance(job, MegatronJob) or job.states.shares_parameters:
        return None
    kept = int(ITEMSIZE[job.states.parameter])
    return kept if job.states.shares_gradients else kept + int(ITEMSIZE[job.states.gradient])


def _state_bytes(job: Job) -> int:
    """Of master weights and moments, shared or not; nothing is said of those on the host."""
    if not isinstance(job, MegatronJob) or job.states.offloaded:
        return 0
    master = (job.states.master,) if job.states.master is not None else ()
    return int(sum(ITEMSIZE[dtype] for dtype in (*master, *job.states.moments)))


def _counted(config: Config) -> int:
    ends = (
        MegatronSettings.account_for_embedding_in_pipeline_split,
        MegatronSettings.account_for_loss_in_pipeline_split,
    )
    return sum(bool(config.get(path)) for path in ends)


ROWS: Mapping[str, Row] = {
    "megatron": Row(
        divides=frozenset({"tensor", "stages", "context", "experts"}),
        policies=_POLICIES,
        sharded="states",
        parameter_bytes=_parameter_bytes,
        state_bytes=_state_bytes,
        uneven=True,
        counted=_counted,
    ),
}
KINDS = (
    Kind(
        title="Megatron",
        settings={_ENGINE: "megatron", Training.implementation: "transformer-engine"},
        usual={
            MegatronSettings.distributed_optimizer: True,
            MegatronSettings.overlap_grad_reduce: True,
            MegatronSettings.overlap_param_gather: True,
            Parallelism.sequence_parallel: True,
        },
        whole=True,
    ),
)
"""With what Megatron's recipes switch on and its defaults do not."""
