"""Engines: what each keeps, gathers and buffers. One file for each; they all answer `base.Engine`'s questions."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.engines import ddp, fsdp, single
from memcore.engines.base import Engine
from memcore.engines.deepspeed_estimators import (
    estimate_zero2_model_states_mem_needs,
    estimate_zero3_model_states_mem_needs,
    estimate_zero_model_states,
)

__all__ = (
    "ENGINES",
    "Engine",
    "estimate_zero2_model_states_mem_needs",
    "estimate_zero3_model_states_mem_needs",
    "estimate_zero_model_states",
)

ENGINES: Mapping[str, Engine] = {each.name: each for each in (single.ENGINE, ddp.ENGINE, fsdp.ENGINE)}
"""Engines by the value of `engine.type`."""
