"""Networks that Ollama ran in its own engine, on ggml: what differs there from llama.cpp's.

It reserves logits for a token of each sequence, and keeps copies of recurrent states to go back to. Others are run by
llama.cpp's code, as is gpt-oss in a log of 0.30; no release between 0.24 and that was read.

Sources: ollama 0.24, fs/ggml/ggml.go (`OllamaEngineRequired`), runner/ollamarunner/runner.go (`reserveWorstCaseGraph`:
`batch.Outputs`), kvcache/recurrent.go (`DefaultCheckpointCount`, 32 at first).
"""

from __future__ import annotations

from memcore.config.engine import release

_FAMILIES = frozenset({
    "deepseek_v2", "deepseek_v3", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text",
    "glm4_moe_lite", "gpt_oss", "lfm2", "lfm2_moe", "llama4", "mistral3", "nemotron_h", "olmo3", "qwen2_5_vl", "qwen3",
    "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe",
})  # fmt: skip
_FIRST, _LATER = (0, 12), (0, 30)
CHECKPOINTS = 24
"""Copies of each sequence's states: 1.1 GiB on a GPU with 20 layers of Qwen3-Coder-Next and 1.5 on the host with 28,
with 32,768 tokens, of which those are 0.8 and 1.1."""


def runs(version: object, family: str) -> bool:
    """Return whether Ollama's own engine runs a network in a release; not where no release is given.

    >>> runs("0.20.2", "qwen3_next"), runs("0.20.2", "qwen2"), runs("0.30.0", "gpt_oss"), runs(None, "gpt_oss")
    (True, False, False, False)
    """
    return isinstance(version, str) and _FIRST <= release(version) < _LATER and family in _FAMILIES
