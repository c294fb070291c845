"""Engines: what each keeps, gathers and buffers. One file for each; they all answer `base.Engine`'s questions.

Beside them stand the formulas that others have published for the same engines.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trainers.pytorch import ddp, fsdp, fsdp1, single
from memcore.trainers.deepspeed import zero as deepspeed
from memcore.trainers.megatron import engine as megatron
from memcore.trainers.nanotron import engine as nanotron
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trace.engine import Engine
from memcore.trainers.deepspeed.estimators import estimate_zero2_model_states_mem_needs, estimate_zero3_model_states_mem_needs, estimate_zero_model_states
from memcore.trainers.megatron.published.report import FORMULAS, TheoreticalMemory, compute_activation_memory, compute_activation_memory_without_sp, compute_weight_and_optimizer_memory, report_theoretical_memory

__all__ = (
    "ENGINES",
    "FORMULAS",
    "Engine",
    "MegatronArguments",
    "TheoreticalMemory",
    "compute_activation_memory",
    "compute_activation_memory_without_sp",
    "compute_weight_and_optimizer_memory",
    "estimate_zero2_model_states_mem_needs",
    "estimate_zero3_model_states_mem_needs",
    "estimate_zero_model_states",
    "report_theoretical_memory",
)

_ALL = (single.ENGINE, ddp.ENGINE, fsdp.ENGINE, fsdp1.ENGINE, megatron.ENGINE, megatron.SHARDED, nanotron.ENGINE)
_ZERO = (deepspeed.ENGINE, deepspeed.STAGE_3, deepspeed.OFFLOADED, *deepspeed.MEGATRON)
ENGINES: Mapping[str, Engine] = {each.key or each.name: each for each in (*_ALL, *_ZERO)}
"""Engines by the value of `engine.type`; `fsdp1` is version 1 of `fsdp`, `deepspeed3` is ZeRO-3."""
