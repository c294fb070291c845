"""The arguments and calls of DeepSpeed.

Source: DeepSpeed's config JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.pytorch.tool_names import TORCH

_DEEPSPEED_NAMES: Mapping[str, str] = {
    **TORCH,
    Hardware.num_gpus: "deepspeed --num_nodes",
    Hardware.gpus_per_node: "deepspeed --num_gpus",
    EngineSettings.type: "deepspeed.initialize",
    DeepSpeedSettings.zero_init: "deepspeed.zero.Init",
    Training.gradient_clipping: "gradient_clipping",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"deepspeed": _DEEPSPEED_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
