"""The arguments and calls of TGI.

Source: text-generation-inference, launcher/src/main.rs.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.servers.tgi.settings import TgiSettings

_TGI_NAMES: Mapping[str, str] = {
    "model": "--model-id",
    EngineSettings.type: "text-generation-launcher",
    EngineSettings.version: "text-generation-inference:",
    Hardware.num_gpus: "--num-shard",
    TgiSettings.cuda_graph_max_batch: "--cuda-graphs",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"tgi": _TGI_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
