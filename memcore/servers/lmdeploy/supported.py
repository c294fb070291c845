"""Which networks LMDeploy runs: those of TurboMind and of its PyTorch engine.

Sources: lmdeploy 0.16 (1263d5c), turbomind/supported_models.py (`SUPPORTED_ARCHS`), pytorch/models/module_map.py
(`MODULE_MAP`; the engine raises for other classes) and vl/model (`MultiModalityCausalLM`, `MolmoForCausalLM`, which
give TurboMind the decoder alone).
"""

from __future__ import annotations

from memcore.servers import registries

TURBOMIND = frozenset((
    *("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe", "qwen3_5", "qwen3_5_moe", "internvl"),
    *("internvl_chat", "interns1", "llama", "internlm2", "internlm3", "glm4_moe_lite", "gpt_oss", "mixtral"),
))  # fmt: skip
"""By `model_type`."""
PYTORCH = frozenset((
    *("internlm", "qwen", "baichuan", "starcoder2", "mllama", "llama4", "chatglm", "chatglm-6b", "glm4", "glm4v"),
    *("glm4_moe", "glm_moe_dsa", "mistral", "gemma", "gemma2", "gemma3", "gemma3_text", "deepseek", "deepseek_v2"),
    *("deepseek_v3", "deepseek_v32", "deepseek_v4", "deepseek_vl_v2", "hy_v3", "llava", "llava_next", "qwen3_vl"),
    *("qwen3_vl_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_omni_moe", "qwen3_omni_moe_thinker", "phi3"),
    *("cogvlm", "phi3_v", "phimoe", "minicpm", "minicpm3", "minicpmv", "qwen3_next", "sdar", "sdar_moe"),
))  # fmt: skip


def check(family: str) -> None:
    """Refuse a network that neither engine has.

    Raises UnsupportedError.
    """
    registries.check("LMDeploy", {*TURBOMIND, *PYTORCH}, family)
