"""Keys of ours for what several keys of a file mean together, where a table of the tool's words alone cannot say it.

They begin with `*`, and the tables name them; what is not understood keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GPUS = "*gpus"
"""The key of the processes that a launcher starts."""
PER_NODE = "*per_node"
"""The key of those on each of several nodes."""
Settled = tuple[Mapping[str, Any], tuple[str, ...]]
"""What a file says with such keys in the place of its own, and notes on that."""
ENGINE, VERSION, RESHARD, OFFLOAD, CHECKPOINTS = "*engine", "*version", "*reshard", "*offload", "*checkpoints"
STAGE, OPTIMIZER, PARAMETERS, RANKS, MODEL = "*stage", "*optimizer", "*parameters", "*ranks", "*"
