"""The pace of SGLang's steps, as published rates have it.

Qwen3's models on an H20 (QwenLM/Qwen3, docs/source/getting_started/speed_benchmark.md). DeepSeek-R1 on H200s, B200s and
B300s takes as long as the same formula says (SemiAnalysisAI/InferenceX, pull requests 3173, 3175, 3183 and 3363).
"""

from __future__ import annotations

from memcore.serving.pacing import Pace

SPEED = Pace(
    share=0.85, stacked=0.85, layer=75e-6, former=110e-6, unpacking=30e-6, rows=True, prompts=True, latent=True
)
