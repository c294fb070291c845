"""What nanotron can be searched for, where a config names it."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.trace.searching import FULL, NONE, Row, and_with

_POLICIES = tuple(
    and_with(and_with(policy, EngineSettings.type, "nanotron"), EngineSettings.zero_stage, stage)
    for policy in (NONE, FULL)
    for stage in (0, 1)
)
ROWS: Mapping[str, Row] = {
    "nanotron": Row(divides=frozenset({"tensor", "stages"}), policies=_POLICIES, sharded="states"),
}
KINDS = ()
