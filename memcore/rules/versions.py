"""Rules as of: the release, or the commit and its day, in which each source was read."""

from __future__ import annotations

from collections.abc import Mapping

AS_OF: Mapping[str, str] = {
    "PyTorch": "2.13.0",
    "transformers": "5.23.0",
    "PEFT": "0.21.2",
    "bitsandbytes": "95f9af3, 2026-08-19",
    "torchao": "0.19.0",
    "torchtitan": "b5bcd76, 2026-08-21",
    "DeepSpeed": "0.19.6, edaa722, 2026-08-22",
    "Megatron-LM": "core 0.20.0, d98e8a6, 2026-08-22",
    "TransformerEngine": "2.20.0.dev0, d0067d0, 2026-08-22",
    "nanotron": "2411b02, 2026-04-07",
    "DualPipe": "3da1bbe, 2025-03-10",
    "NCCL": "2.30.7, 5067397, 2026-06-11",
    "vLLM": "0.33.0",
    "SGLang": "0.5.23",
    "TensorRT-LLM": "5a211b9",
    "LitGPT": "2685705",
}
"""By the project that the source is of."""
