"""The pace of SGLang's steps, as published rates have it.

Qwen3's models on an H20 (QwenLM/Qwen3, docs/source/getting_started/speed_benchmark.md).
"""

from __future__ import annotations

from memcore.serving.pacing import Pace

SPEED = Pace(share=0.85, stacked=0.85, layer=75e-6, former=110e-6, unpacking=30e-6, rows=True, prompts=True)
