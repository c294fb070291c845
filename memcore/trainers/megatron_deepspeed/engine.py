"""Megatron-DeepSpeed's engines: ZeRO's stages around Megatron-LM's layers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.engine import Engine
from memcore.trainers.deepspeed.engine import MEGATRON

ENGINES: Mapping[str, Engine] = {each.key or each.name: each for each in MEGATRON}
