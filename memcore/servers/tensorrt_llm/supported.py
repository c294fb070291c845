"""Which networks TensorRT-LLM runs: those of its PyTorch backend, and those that engines were built of.

Sources: TensorRT-LLM, tensorrt_llm/_torch/models/_arch_index.py (065ff9e, `MODEL_ARCH_TO_MODULE`) and modeling_auto.py
(`from_config`, which raises "Unknown architecture" for all others); tensorrt_llm/models/__init__.py (02267d3,
`MODEL_MAP`) of releases that build engines.
"""

from __future__ import annotations

from memcore.servers import registries

PYTORCH = frozenset((
    *("afmoe", "bart", "bert", "cohere2", "nemotron-nas", "deepseek_v3", "deepseek_v32", "deepseek_v4", "exaone4"),
    *("exaone4_5", "exaone_moe", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gemma4_unified"),
    *("gemma4_unified_text", "glm4_moe", "glm_moe_dsa", "gpt_oss", "hyperclovax_vlm", "hunyuan_v1_dense"),
    *("hunyuan_v1_moe", "kimi_k25", "kimi_vl", "kimi_k3_text", "kimi_linear", "laguna", "llama", "llama4"),
    *("llama4_text", "llava_next", "mbart", "minicpmv4_6", "minimax_m2", "minimax_m3_vl", "minimax_m3_vl_text"),
    *("mistral", "mistral3", "ministral3", "mistral4", "mixtral", "mllama", "nemotron", "nemotron_h"),
    *("nemotron_h_omni", "phi3", "phi4_multimodal", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3"),
    *("qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_5_text"),
    *("qwen3_5_moe_text", "seed_oss", "siglip_vision_model", "clip_vision_model", "pixtral", "starcoder2"),
    *("step3p5", "step3p7", "t5", "whisper", "cosmos3_omni"),
))  # fmt: skip
ENGINES = frozenset((
    *("gpt2", "gpt_bigcode", "fuyu", "kosmos-2", "opt", "bloom", "falcon", "phi", "phi3_v", "phi3small", "phimoe"),
    *("mamba", "mamba2", "gpt_neox", "gptj", "mpt", "chatglm", "chatglm-6b", "llava", "exaone", "internlm"),
    *("internlm2", "granite", "granitemoe", "baichuan", "gemma", "gemma2", "qwen", "dbrx", "recurrent_gemma"),
    *("deepseek", "deepseek_v2", "cohere", "roberta", "cogvlm"),
))  # fmt: skip


def check(family: str) -> None:
    """Refuse a network that TensorRT-LLM has in neither way.

    Raises UnsupportedError.
    """
    registries.check("TensorRT-LLM", {*PYTORCH, *ENGINES}, family)
