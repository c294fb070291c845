"""What DeepSpeed can be searched for, where a config names it."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.trace.searching import FULL, NONE, Row, and_with
from memcore.trainers.deepspeed.costs import searched
from memcore.trainers.deepspeed.settings import DeepSpeedSettings

_ENGINE, _STAGE = EngineSettings.type, EngineSettings.zero_stage
_OPTIMIZER = DeepSpeedSettings.offload_optimizer
_STAGES = tuple(
    and_with(and_with(policy, _ENGINE, "deepspeed"), _STAGE, stage, resharded=stage == 3)
    for policy in (NONE, FULL)
    for stage in (1, 2, 3)
)
_POLICIES = (
    *_STAGES,
    *(and_with(each, _OPTIMIZER, "cpu", offloaded=True) for each in _STAGES),
)
ROWS: Mapping[str, Row] = {"deepspeed": Row(divides=frozenset(), policies=_POLICIES, sends=searched)}
KINDS = ()
