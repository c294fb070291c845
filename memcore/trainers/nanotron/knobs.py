"""What nanotron offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Way
from memcore.trainers.pytorch.knobs import PLAIN_DEGREES

_ZERO = Knob(
    title="ZeRO-1",
    to={EngineSettings.zero_stage: 1},
    when={EngineSettings.zero_stage: (None, 0)},
    why="data-parallel ranks shard the optimizer states and exchange the same number of bytes",
    source="nanotron, src/nanotron/optim/zero.py",
)
WAYS: Mapping[str, tuple[Way, ...]] = {
    "nanotron": (
        Way(
            title="nanotron",
            settings={EngineSettings.type: "nanotron"},
            free=(_ZERO,),
            divides=frozenset({"tensor", "stages"}),
            degrees=PLAIN_DEGREES,
            named=True,
        ),
    ),
}
NEXT: Mapping[str, tuple[str, ...]] = {}
"""Engines that users of one move on to when a job outgrows it."""
