"""The arguments and calls of nanotron.

Source: nanotron, config/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.trainers.pytorch.tool_names import ALLOCATOR, TORCHRUN

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
