"""What Megatron-LM's own script refuses to start with: settings that want another one.

Source: Megatron-LM, training/arguments.py (`validate_args`). Frameworks around Megatron-Core check for themselves, or
turn off what cannot run (Megatron Bridge: training/comm_overlap.py).
"""

from __future__ import annotations

from typing import Any

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.records import dataclass
from memcore.trainers.megatron.plan import before
from memcore.trainers.megatron.settings import MegatronSettings


@dataclass(frozen=True, slots=True)
class Demand:
    """A setting that only runs with another one."""

    of: Setting[Any]
    wanted: Setting[Any]
    since: tuple[int, int] = (0, 0)
    """The first Megatron-Core that asks for it."""
    engines: tuple[str, ...] = ("megatron", "megatron-fsdp")


DEMANDS = (
    Demand(Training.offload.optimizer, MegatronSettings.precision_aware_optimizer, since=(0, 12)),
    Demand(MegatronSettings.overlap_param_gather, MegatronSettings.overlap_grad_reduce, since=(0, 9)),
    Demand(MegatronSettings.overlap_param_gather, MegatronSettings.distributed_optimizer, engines=("megatron",)),
    Demand(
        MegatronSettings.overlap_param_gather_with_optimizer_step, MegatronSettings.overlap_param_gather, since=(0, 9)
    ),
    Demand(
        MegatronSettings.overlap_param_gather_with_optimizer_step,
        Parallelism.virtual_pipeline_parallel_size,
        since=(0, 9),
    ),
    Demand(MegatronSettings.tp_comm_overlap, Parallelism.sequence_parallel),
)
_TE_LOSS = (0, 19)
"""The first Megatron-Core whose script refuses TransformerEngine's loss (#5115)."""


def refuse_unmet(read: Defaults) -> None:
    """Refuse what `validate_args` does, where no framework stands between it and the job."""
    if read.given(EngineSettings.framework) is not None:
        return
    engine = str(read.given(EngineSettings.type))
    for each in DEMANDS:
        met = read.given(each.wanted) or not read.given(each.of)
        if not met and engine in each.engines and not before(read, each.since):
            read.refuse(each.of, "found {!r}; needs {}", read.given(each.of), each.wanted)
    fused = read.given(MegatronSettings.cross_entropy_loss_fusion)
    named = read.given(EngineSettings.version) is not None and not before(read, _TE_LOSS)
    if fused and named and read.given(MegatronSettings.cross_entropy_fusion_impl) == "te":
        said = "found {!r}; Megatron-LM's script refuses it from 0.19 on; use 'native'"
        read.refuse(MegatronSettings.cross_entropy_fusion_impl, said, "te")
