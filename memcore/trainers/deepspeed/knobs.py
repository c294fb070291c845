"""What DeepSpeed offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Way
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.pytorch.knobs import PLAIN_DEGREES

_STAGE, _OPTIMIZER, _PARAMETERS = (
    DeepSpeedSettings.zero_stage, DeepSpeedSettings.offload_optimizer, DeepSpeedSettings.offload_param,
)  # fmt: skip
_OPTIMIZER_TO_HOST = Knob(
    title="Optimizer on the host",
    to={_OPTIMIZER: "cpu"},
    when={_OPTIMIZER: (None, "none")},
    why="optimizer states stay on the host, whose processors run the step",
    source="DeepSpeed 0.17, runtime/zero/offload_config.py and ops/adam/cpu_adam.py",
)
_ALL_TO_HOST = Knob(
    title="Optimizer and parameters on the host",
    to={_STAGE: 3, _OPTIMIZER: "cpu", _PARAMETERS: "cpu"},
    when={_PARAMETERS: (None, "none")},
    why="the GPU holds the layers that it works on; the rest comes over PCIe",
    source="DeepSpeed 0.17, runtime/zero/offload_config.py; arXiv 2104.07857",
)
_TRANSFERS = (_OPTIMIZER_TO_HOST, _ALL_TO_HOST)
WAYS: Mapping[str, tuple[Way, ...]] = {
    "deepspeed": (
        Way(
            title="DeepSpeed ZeRO-2",
            settings={EngineSettings.type: "deepspeed", _STAGE: 2},
            degrees=PLAIN_DEGREES,
            transfers=(_OPTIMIZER_TO_HOST,),
            spare=True,
        ),
        Way(
            title="DeepSpeed ZeRO-3",
            settings={EngineSettings.type: "deepspeed", _STAGE: 3},
            divides=frozenset({"sequence"}),
            degrees=PLAIN_DEGREES,
            transfers=_TRANSFERS,
            spare=True,
        ),
    ),
}
NEXT: Mapping[str, tuple[str, ...]] = {}
"""Engines that users of one move on to when a job outgrows it."""
