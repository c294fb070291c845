"""Settings as DeepSpeed spells them.

Source: DeepSpeed's config JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.pytorch.spelling import TORCH, TRAINER

_DEEPSPEED: Mapping[str, object] = {
    **TRAINER,
    EngineSettings.zero_stage: '"zero_optimization": {{"stage": {}}}',
    DeepSpeedSettings.offload_optimizer: {"cpu": '"zero_optimization": {"offload_optimizer": {"device": "cpu"}}'},
    DeepSpeedSettings.offload_param: {"cpu": '"zero_optimization": {"offload_param": {"device": "cpu"}}'},
    Training.micro_batch_size: '"train_micro_batch_size_per_gpu": {}',
    Training.gradient_accumulation_steps: '"gradient_accumulation_steps": {}',
}
SPELLING: Mapping[str, Mapping[str, object]] = {"deepspeed": _DEEPSPEED}
"""By dialect and path: a text with the value in it, or a text for each value."""
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
