"""What an engine sends in a step for parameters and gradients, and what it computes in the meantime."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Behind: TypeAlias = Literal["all", "one", "nothing"]
"""What hides a kind of collective: every pass of the step; one micro-batch's, the last backward pass or the first
forward pass; or nothing, where the engine waits."""


class Traffic(NamedTuple):
    """Over how many ranks parameters or states are sharded, how often a step gathers and reduces, and behind what."""

    shards: int
    gathers: int
    reduces: int
    gathers_behind: Behind = "all"
    reduces_behind: Behind = "all"
    gathered: float = 0
    """Elements that one all-gather brings; 0: those of a layer."""
    reduced: float = 0
    """Elements that one reduction takes; 0: those of a layer."""
