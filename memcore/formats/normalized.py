"""Keys of ours for what several keys of a file mean together, where a table of the tool's words alone cannot say it.

They begin with `*`, and the tables name them; what is not understood keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

GPUS = "*gpus"
"""The key of the processes that a launcher starts."""
PER_NODE = "*per_node"
"""The key of those on each of several nodes."""
Normalized = tuple[Mapping[str, Any], tuple[str, ...]]
"""What a file says with such keys in the place of its own, and notes on that."""
ENGINE, VERSION, RESHARD, OFFLOAD, CHECKPOINTS = "*engine", "*version", "*reshard", "*offload", "*checkpoints"
STAGE, OPTIMIZER, PARAMETERS, RANKS, MODEL = "*stage", "*optimizer", "*parameters", "*ranks", "*"
_INNER = re.compile(r"\$\{([\w.]{1,80})\}")


def filled(found: Mapping[str, Any], value: object) -> object:
    """A value that another key of the file gives, as OmegaConf writes it.

    >>> filled({"a.b": 2}, "${a.b}")
    2
    """
    inner = _INNER.fullmatch(value) if isinstance(value, str) else None
    return found.get(inner[1], value) if inner else value
