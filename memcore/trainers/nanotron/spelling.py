"""Settings as nanotron spells them.

Source: nanotron, config/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trainers.nanotron.settings import NanotronSettings
from memcore.trainers.pytorch.spelling import ALLOCATOR, EVERYWHERE, TORCHRUN

_NANOTRON: Mapping[str, object] = {
    **EVERYWHERE,
    Training.activation_checkpointing.policy: {
        "full": "parallelism.recompute_layer: true",
        "none": "parallelism.recompute_layer: false",
    },
    Training.micro_batch_size: "tokens.micro_batch_size: {}",
    Training.gradient_accumulation_steps: "tokens.batch_accumulation_per_replica: {}",
    Training.sequence_length: "tokens.sequence_length: {}",
    Hardware.num_gpus: "parallelism.dp for {} GPUs",
    EngineSettings.zero_stage: "optimizer.zero_stage: {}",
    NanotronSettings.tp_mode: "parallelism.tp_mode: {}",
    Parallelism.tensor_parallel_size: "parallelism.tp: {}",
    Parallelism.pipeline_parallel_size: "parallelism.pp: {}",
}
SPELLING: Mapping[str, Mapping[str, object]] = {"nanotron": _NANOTRON}
"""By dialect and path: a text with the value in it, or a text for each value."""
_NANOTRON_NAMES: Mapping[str, str] = {
    **ALLOCATOR,
    **TORCHRUN,
    "model": "model.model_config",
    EngineSettings.type: "run_train.py",
    Training.precision: "model.dtype",
    Training.gradient_clipping: "optimizer.clip_grad",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"nanotron": _NANOTRON_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
