"""The arguments and calls of LMDeploy.

Source: lmdeploy, cli/serve.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware

_LMDEPLOY_NAMES: Mapping[str, str] = {
    "model": "lmdeploy serve api_server",
    EngineSettings.type: "lmdeploy serve api_server",
    EngineSettings.version: "pip install lmdeploy==",
    Hardware.num_gpus: "--tp",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"lmdeploy": _LMDEPLOY_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
