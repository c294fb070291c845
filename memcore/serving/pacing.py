"""How fast a server's steps are, compared with what memory and matrix products allow; each server states its rates."""

from __future__ import annotations

from collections.abc import Callable

from memcore.records import dataclass
from memcore.serving.job import ServingJob

_STACKED = frozenset({"8.0", "9.0", "10.0", "10.3"})
"""Compute capabilities of GPUs with stacked memory (HBM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What published rates of a server say of all of its steps."""

    share: float
    """Of the bandwidth of GDDR memory that a step reaches while it reads weights and cached tokens."""
    stacked: float
    """The same for stacked memory."""
    layer: float
    """Seconds of a layer's kernels beyond what they read, on GPUs of capability 8.9 and later."""
    former: float
    """The same before them."""
    unpacking: float = 0.0
    """Further seconds of a layer before 8.9 whose weights have four bits."""
    rows: bool = False
    """Products of few tokens take what a tile of 64 rows takes, where a GPU's products are slow for its memory."""
    prompts: bool = False
    """Published rates cover prompts, too."""
    latent: bool = False
    """They cover steps of latent attention, from Hopper on; not first tokens, which took 2 to 10 times as long."""
    covers: Callable[[ServingJob], bool] = lambda _job: True
    """Return whether published rates say anything of a job."""

    def share_of(self, capability: str) -> float:
        """Return the share of the memory's bandwidth."""
        return self.stacked if capability in _STACKED else self.share
