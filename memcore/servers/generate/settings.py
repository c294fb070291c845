"""What scripts around generate() take of the settings that engines have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.serving.settings import NOT_SERVED, UNDIVIDED

SECTIONS = ()
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "transformers": (Parallelism.pipeline_parallel_size, EngineSettings.version)
}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {"transformers": (*NOT_SERVED, *UNDIVIDED)}
"""Settings that every engine could have, but this one refuses whatever their value."""
