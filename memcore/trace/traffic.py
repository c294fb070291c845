"""What an engine sends in a step for parameters, gradients and experts, and what it computes in the meantime."""

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
    regrouped: float = 0.0
    """How often kernels read or write the whole hidden states before or after a collective of tensor parallelism."""
    updates: bool = False
    """What is gathered is what the optimizer has updated: frozen parameters are not."""
    all_reduces: bool = False
    """Every rank gets the sums of all gradients, though each needs those of its shards alone."""
    gathered_as: str = ""
    """Dtype of what is gathered; empty: that in which products are computed."""
    summed_as: str = ""
    """Dtype in which gradients are summed; empty: the one that the precision says."""


class Dispatch(NamedTuple):
    """How tokens reach their experts' ranks and come back."""

    copies: Literal["experts", "ranks", "all"] = "experts"
    """A token is sent to each of its experts, once to each rank that has some of them, or to all ranks."""
    moves: float = 6.0
    """How often kernels read or write a token's hidden state for each of its experts, forth and back."""
    moves_of_ranks: float = 0.0
    """The same for each rank that it is sent to."""
    hidden: bool = False
    """Passes of other micro-batches run meanwhile."""


USUAL_DISPATCH = Dispatch()
"""All-to-all."""
