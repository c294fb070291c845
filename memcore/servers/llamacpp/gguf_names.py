"""Names of GGUF tensors for parameters that are known by their names alone.

Source: `gguf-py/gguf/tensor_mapping.py` and `conversion/*.py` of llama.cpp. What is missing keeps its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from memcore.symbols import Shape

Parts: TypeAlias = tuple[tuple[str, Shape | None], ...]
"""What a tensor is cut into along its first axis, with the rows of each; None: the rest."""

NORMS: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "attention_layernorm": "attn_norm",
    "temporal_pre_norm": "attn_norm",
    "operator_norm": "attn_norm",
    "norm_1": "attn_norm",
    "ln_1": "attn_norm",
    "ln_attn": "attn_norm",
    "norm": "attn_norm",
    "ln_mlp": "attn_norm_2",
    "norm_2": "attn_output_norm",
    "ln_2": "ffn_norm",
    "feedforward_layernorm": "ffn_norm",
    "channel_pre_norm": "ffn_norm",
    "pre_ff_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_attention_layernorm": "ffn_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "post_mlp_layernorm": "post_ffw_norm",
}
"""Norms of a layer by the last part of their name."""

AFTER_ATTENTION = frozenset(
    {"seed_oss", "glm4_moe", "solar_open", "gpt_oss", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}
)
"""Families whose `post_attention_layernorm` GGUF calls `post_attention_norm`, though it stands before the feed-forward
layer."""

_SSM: Mapping[str, str | Parts] = {
    "in_proj.weight": "ssm_in.weight",
    "conv1d.weight": "ssm_conv1d.weight",
    "conv1d.bias": "ssm_conv1d.bias",
    "x_proj.weight": "ssm_x.weight",
    "dt_proj.weight": "ssm_dt.weight",
    "dt_proj.bias": "ssm_dt.bias",
    "dt_bias": "ssm_dt.bias",
    "A_log": "ssm_a",
    "D": "ssm_d",
    "norm.weight": "ssm_norm.weight",
    "out_proj.weight": "ssm_out.weight",
    "dt_layernorm.weight": "ssm_dt_norm.weight",
    "b_layernorm.weight": "ssm_b_norm.weight",
    "c_layernorm.weight": "ssm_c_norm.weight",
}

MIXERS: Mapping[str, Mapping[str, str | Parts]] = {
    "mamba": _SSM,
    "mamba2": _SSM,
    "gated-delta": {
        **_SSM,
        "in_proj_qkvz.weight": (("attn_qkv.weight", None), ("attn_gate.weight", ("B", "dv"))),
        "in_proj_ba.weight": "ssm_ba.weight",
        "in_proj_qkv.weight": "attn_qkv.weight",
        "in_proj_z.weight": "attn_gate.weight",
        "in_proj_b.weight": "ssm_beta.weight",
        "in_proj_a.weight": "ssm_alpha.weight",
    },
    "kimi-delta": {
        "q_proj.weight": "attn_q.weight",
        "k_proj.weight": "attn_k.weight",
        "v_proj.weight": "attn_v.weight",
        "conv1d.weight": tuple((f"ssm_conv1d_{each}.weight", ("B", "dk")) for each in "qkv"),
        "dt_bias": "ssm_dt.bias",
        "A_log": "ssm_a",
        "f_a_proj.weight": "ssm_f_a.weight",
        "f_b_proj.weight": "ssm_f_b.weight",
        "b_proj.weight": "ssm_beta.weight",
        "g_a_proj.weight": "ssm_g_a.weight",
        "g_b_proj.weight": "ssm_g_b.weight",
        "o_norm.weight": "ssm_norm.weight",
        "o_proj.weight": "attn_output.weight",
    },
    "short-conv": {
        "conv.weight": "shortconv.conv.weight",
        "in_proj.weight": "shortconv.in_proj.weight",
        "out_proj.weight": "shortconv.out_proj.weight",
    },
    "lightning": {
        "norm.weight": "attn_out_norm.weight",
        "qkv_proj.weight": "attn_qkv.weight",
        "out_proj.weight": "attn_output.weight",
        "output_gate.weight": "attn_gate.weight",
    },
    "deepseek_v4": {
        "sinks": "attn_sinks.weight",
        "q_a_proj.weight": "attn_q_a.weight",
        "q_a_norm.weight": "attn_q_a_norm.weight",
        "q_b_proj.weight": "attn_q_b.weight",
        "kv_proj.weight": "attn_kv.weight",
        "kv_norm.weight": "attn_kv_norm.weight",
        "o_a_proj.weight": "attn_output_a.weight",
        "o_b_proj.weight": "attn_output_b.weight",
    },
}
"""Parameters of special mixers, by variant and by what follows the module's name."""

OTHERS: Mapping[str, str] = {
    "indexer.wq_b.weight": "indexer.attn_q_b.weight",
    "indexer.wk.weight": "indexer.attn_k.weight",
    "indexer.weights_proj.weight": "indexer.proj.weight",
    "indexer.k_norm.weight": "indexer.k_norm.weight",
    "indexer.k_norm.bias": "indexer.k_norm.bias",
    "gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "altup.correct_output_scale": "altup_correct_scale.weight",
    "altup.correction_coefs.weight": "altup_correct_coef.weight",
    "altup.prediction_coefs.weight": "altup_predict_coef.weight",
    "altup.modality_router.weight": "altup_router.weight",
    "altup.router_norm.weight": "altup_router_norm.weight",
    "laurel.linear_left.weight": "laurel_l.weight",
    "laurel.linear_right.weight": "laurel_r.weight",
    "laurel.post_laurel_norm.weight": "laurel_post_norm.weight",
    "per_layer_input_gate.weight": "inp_gate.weight",
    "per_layer_projection.weight": "proj.weight",
    "post_per_layer_input_norm.weight": "post_norm.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
    "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight",
}
"""Other parameters of a layer, by the end of their name."""

ENDS: Mapping[str, str] = {
    "embed_tokens_per_layer": "per_layer_token_embd.weight",
    "per_layer_model_projection": "per_layer_model_proj.weight",
    "per_layer_projection_norm": "per_layer_proj_norm.weight",
    "altup_projections": "altup_proj.weight",
    "altup_unembed_projections": "altup_unembd_proj.weight",
}
"""Parameters outside the layers; those that are numbered are stacked into one tensor."""
