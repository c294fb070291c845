"""What nanotron was told, as far as it decides which tensors come and go."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NanotronPlan:
    """How its layers run on one rank. Sizes in symbols: `s` tokens of a sequence, `tp` and `z` numbers of ranks."""

    tensor: bool
    """Matrices are shared by several ranks."""
    scatters: bool
    """Outside of them each rank has a part of the sequence (`tp_mode: REDUCE_SCATTER`)."""
    overlaps: bool
    """Collectives overlap with matrix products, in functions of its own (`tp_linear_async_communication`)."""
    gathers_again: bool
    """The backward pass gathers what products saved of a sequence (`tp_recompute_allgather`)."""
    fp32_gradients: bool
    """Gradients accumulate in a flat fp32 buffer, and the optimizer updates an fp32 copy of the parameters."""
    sorts: bool
    """Whether micro-batches have enough tokens for the embedding's backward pass to sort them."""
    ties: bool
    """The first stage's embedding is the last one's head too."""
    packed: bool = False
    """Its Qwen2 runs: queries, keys and values stay parts of one product (models/qwen.py)."""
    zero_stage: int
    """1: data-parallel ranks share the optimizer."""
