"""What Megatron-DeepSpeed offers to a plan: its own ZeRO, as its config says it."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Way
from memcore.trainers.pytorch.knobs import PLAIN_DEGREES

WAYS: Mapping[str, tuple[Way, ...]] = {
    "megatron-deepspeed": (
        Way(
            title="Megatron-DeepSpeed",
            settings={EngineSettings.type: "megatron-deepspeed"},
            divides=frozenset({"tensor", "sequence"}),
            degrees=PLAIN_DEGREES,
            named=True,
        ),
    ),
}
NEXT: Mapping[str, tuple[str, ...]] = {}
"""Engines that users of one move on to when a job outgrows it."""
