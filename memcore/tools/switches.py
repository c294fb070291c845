"""Keys that are true or false, and the words for it that transformers' parser of arguments takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SWITCHES = frozenset({
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "activation_offloading",
    "accumulate_allreduce_grads_in_fp32", "apply_query_key_layer_scaling", "apply_rope_fusion",
    "attention_softmax_in_fp32", "bf16", "bias_activation_fusion", "bnb_4bit_use_double_quant",
    "calculate_per_token_loss", "cross_entropy_loss_fusion", "deterministic_mode", "disable_gradient_checkpointing",
    "double_quant", "double_quantization", "enable_activation_checkpointing", "enable_liger_kernel", "flash_attn_2",
    "fp16", "fp8", "fp8_param_gather", "freeze_aligner", "freeze_language_model", "freeze_llm",
    "freeze_multi_modal_projector", "freeze_vision_tower", "freeze_vit", "galore_layerwise",
    "gradient_accumulation_fusion", "gradient_checkpointing", "gradient_checkpointing_use_reentrant",
    "load_in_4bit", "load_in_8bit", "lora_enable", "masked_softmax_fusion", "moe_enable_deepep", "moe_grouped_gemm",
    "moe_layer_recompute", "moe_pad_expert_input_to_capacity", "moe_permute_fusion", "moe_router_pre_softmax",
    "moe_shared_expert_overlap", "neat_packing", "offload_model", "offload_optimizer", "optimizer_cpu_offload",
    "overlap_grad_reduce", "overlap_param_gather", "overlap_param_gather_with_optimizer_step", "packing",
    "padding_free", "pure_bf16", "q_lora", "qlora", "sequence_parallel", "tf32", "torch_compile", "tp_comm_overlap",
    "train_mm_proj_only", "tune_mm_mlp_adapter", "use_4bit", "use_4bit_quantization", "use_8bit_quantization",
    "use_adam_mini", "use_apollo", "use_asft_loss", "use_badam", "use_bnb_nested_quant", "use_distributed_optimizer",
    "use_dora", "use_flash_attention", "use_flash_attention_2", "use_flash_attn", "use_galore", "use_hyper_parallel",
    "use_kt", "use_liger", "use_liger_kernel", "use_llama_pro", "use_lora", "use_mca", "use_megatron_bridge",
    "use_megatron_fsdp", "use_muon", "use_nested_quant", "use_peft", "use_peft_lora", "use_precision_aware_optimizer",
    "use_qlora", "use_ray", "use_reentrant", "use_reentrant_gc", "use_rslora", "use_unsloth", "use_unsloth_gc",
    "use_vllm",
})  # fmt: skip
"""Keys of transformers, TRL, ms-swift and LLaMA-Factory on which memory depends, and those of widespread scripts."""
_WORDS: Mapping[object, bool] = {
    **dict.fromkeys(("yes", "true", "t", "y", "1", 1), True),
    **dict.fromkeys(("no", "false", "f", "n", "0", 0), False),
}
"""transformers, hf_argparser.py (`string_to_bool`)."""


def switched(switches: frozenset[str], name: str, value: Any) -> Any:
    """Return a value, as true or false if its key is a switch.

    >>> switched(SWITCHES, "packing", 1), switched(SWITCHES, "--use-peft", "no"), switched(SWITCHES, "seed", 1)
    (True, False, 1)
    """
    if name.lstrip("-").replace("-", "_") not in switches or not isinstance(value, str | int):
        return value
    return _WORDS.get(value.lower() if isinstance(value, str) else value, value)
