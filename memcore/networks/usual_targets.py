"""The linear layers that get an adapter where nobody names them: libraries' own choices by family.

Sources: peft 0.21, src/peft/utils/constants.py (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING and its relatives);
litgpt/finetune/lora.py (`lora_query` and `lora_value`); unsloth, models/llama.py (`get_peft_model`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.messages import Message

LLAMA_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Those of Llama's attention, then of its MLP: Unsloth's functions for LoRA take no others (`accepted_modules`)."""
_QUERIES_AND_VALUES = ("q_proj", "v_proj")
_FUSED = ("query_key_value",)
_LORA: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        (
            *("opt", "gptj", "gpt_neo", "llama", "mistral", "mixtral", "stablelm"),
            *("gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"),
        ),
        _QUERIES_AND_VALUES,
    ),
    **dict.fromkeys(("bloom", "gpt_neox", "falcon"), _FUSED),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), ("c_attn",)),
    "mpt": ("Wqkv",),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
_OF_KINDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "vera": {"phi": _QUERIES_AND_VALUES},
    "ia3": {
        "opt": ("q_proj", "k_proj", "fc2"),
        "gptj": ("q_proj", "v_proj", "fc_out"),
        **dict.fromkeys(("bloom", "gpt_neox", "falcon"), ("query_key_value", "dense_4h_to_h")),
        **dict.fromkeys(("llama", "mistral"), ("k_proj", "v_proj", "down_proj")),
        "phi": ("q_proj", "v_proj", "fc2"),
        **dict.fromkeys(("gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"), ("q_proj", "v_proj", "down_proj")),
        **dict.fromkeys(("gpt2", "gpt_bigcode", "gpt_neo", "mixtral", "stablelm", "mpt", "nemotron_h"), ()),
    },
    "adalora": {
        "opt": ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
        **dict.fromkeys(("falcon", "mistral", "mixtral", "stablelm", "phi", "mpt"), ()),
    },
}
"""Where kinds of adapters differ; empty: there is no choice, or by names that other layers have, too."""
_OF_PEFT = ("peft", "transformers", "trl", "accelerate")
"""Frameworks that leave the choice to PEFT."""


def targets_of_peft(family: str, kind: str = "lora") -> Sequence[str]:
    """PEFT's choice for a `model_type` and a kind of adapter; nothing where PEFT asks for names."""
    return _OF_KINDS.get(kind, {}).get(family, _LORA.get(family, ()))


def usual_targets(framework: str | None, family: str, kind: str) -> tuple[Sequence[str], str]:
    """Return a framework's choice, and why; nothing where it has none."""
    name = (framework or "").lower()
    if name == "lit-gpt":
        return _QUERIES_AND_VALUES, "LitGPT's lora_query and lora_value"
    return targets_of_peft(family, kind) if name in _OF_PEFT else (), Message("PEFT's default for {}", family)
