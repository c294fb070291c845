"""Architecture families: how a Hugging Face `config.json` describes a network.

A family is a row of `FAMILIES`. Names of tensors are those of the checkpoint; defaults are those of the family's
configuration class in transformers 5.23 (an absent key means the class default). `read.py` interprets the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one `model_type` names and wires its parts."""

    defaults: Mapping[str, object]
    """Class defaults of the keys that decide sizes and parts, under their canonical names."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Canonical name -> this family's own name of a key."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """What the family's code decides, whatever the file says."""
    path: str = "model.layers"
    embedding: str = "model.embed_tokens"
    positions: str | None = None
    final_norm: str = "model.norm"
    head: str = "lm_head"
    head_bias: bool = False
    norm: str = "rms"
    norm_bias: bool = False
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    residual: str = "sequential"
    attention: str = "self_attn"
    query_key_value: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    """Three matrices, or a single fused one."""
    fused_per_head: bool = False
    output: str = "o_proj"
    query_key_norms: tuple[str, str] | None = None
    rotary: str = "full"
    """none, full, partial or partial-kept (see `network.Attention`)."""
    softmax_fp32: bool = True
    feed_forward: str = "mlp"
    gate: str | None = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    transposed: bool = False
    """Matrices are stored as (in, out)."""
    embedding_scaled: bool = False
    sliding: str = "never"
    """Which layers see only a window: never, all, `listed` (layer_types, else from max_window_layers on), or
    `alternate` (layer_types, else every other layer from the first)."""
    sdpa: bool = True
    """Whether transformers runs this family with SDPA; if not, it falls back to eager attention."""


_LLAMA: Mapping[str, object] = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "head_dim": None,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "output_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "embedding_dropout": 0.0,
    "sliding_window": None,
    "partial_rotary_factor": 1.0,
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(defaults=_LLAMA, keys={"output_bias": "attention_bias"}),
    "mistral": Family(
        defaults={
            **_LLAMA,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "max_position_embeddings": 131072,
            "sliding_window": 4096,
        },
        fixed={"attention_bias": False, "output_bias": False, "mlp_bias": False},
        sliding="all",
    ),
    "qwen2": Family(
        defaults={
            **_LLAMA,
            "num_key_value_heads": 32,
            "intermediate_size": 22016,
            "vocab_size": 151936,
            "max_position_embeddings": 32768,
            "use_sliding_window": False,
            "max_window_layers": 28,
        },
        fixed={"attention_bias": True, "output_bias": False, "mlp_bias": False},
        sliding="listed",
    ),
    "qwen3": Family(
        defaults={
            **_LLAMA,
            "num_key_value_heads": 32,
            "head_dim": 128,
            "intermediate_size": 22016,
            "vocab_size": 151936,
            "max_position_embeddings": 32768,
            "use_sliding_window": False,
            "max_window_layers": 28,
        },
        keys={"output_bias": "attention_bias"},
        fixed={"mlp_bias": False},
        query_key_norms=("q_norm", "k_norm"),
        sliding="listed",
    ),
    "gemma2": Family(
        defaults={
            **_LLAMA,
            "hidden_size": 2304,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "intermediate_size": 9216,
            "vocab_size": 256000,
            "max_position_embeddings": 8192,
            "hidden_act": "gelu_pytorch_tanh",
            "tie_word_embeddings": True,
            "sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        keys={"hidden_act": "hidden_activation", "output_bias": "attention_bias"},
        fixed={"mlp_bias": False},
        norm="rms-offset",
        norms=(
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ),
        residual="sandwich",
        embedding_scaled=True,
        sliding="alternate",
        sdpa=False,
    ),
    "gpt2": Family(
        defaults={
            **_LLAMA,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": None,
            "vocab_size": 50257,
            "max_position_embeddings": 1024,
            "hidden_act": "gelu_new",
            "tie_word_embeddings": True,
            "attention_dropout": 0.1,
            "hidden_dropout": 0.1,
            "embedding_dropout": 0.1,
        },
        keys={
            "hidden_size": "n_embd",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "intermediate_size": "n_inner",
            "max_position_embeddings": "n_positions",
            "hidden_act": "activation_function",
            "attention_dropout": "attn_pdrop",
            "hidden_dropout": "resid_pdrop",
            "embedding_dropout": "embd_pdrop",
        },
        fixed={"num_key_value_heads": None, "attention_bias": True, "output_bias": True, "mlp_bias": True},
        path="transformer.h",
        embedding="transformer.wte",
        positions="transformer.wpe",
        final_norm="transformer.ln_f",
        norm="layer",
        norm_bias=True,
        norms=("ln_1", "ln_2"),
        residual="sequential-kept",
        attention="attn",
        query_key_value=("c_attn",),
        output="c_proj",
        rotary="none",
        softmax_fp32=False,
        gate=None,
        up="c_fc",
        down="c_proj",
        transposed=True,
    ),
    "gpt_neox": Family(
        defaults={
            **_LLAMA,
            "hidden_size": 6144,
            "num_hidden_layers": 44,
            "num_attention_heads": 64,
            "intermediate_size": 24576,
            "vocab_size": 50432,
            "hidden_act": "gelu",
            "attention_bias": True,
            "output_bias": True,
            "partial_rotary_factor": 0.25,
            "use_parallel_residual": True,
        },
        keys={
            "partial_rotary_factor": "rotary_pct",
            "output_bias": "attention_bias",
            "embedding_dropout": "hidden_dropout",
        },
        fixed={"num_key_value_heads": None, "mlp_bias": True},
        path="gpt_neox.layers",
        embedding="gpt_neox.embed_in",
        final_norm="gpt_neox.final_layer_norm",
        norm="layer",
        norm_bias=True,
        residual="parallel",
        rotary="partial",
        attention="attention",
        query_key_value=("query_key_value",),
        fused_per_head=True,
        output="dense",
        gate=None,
        up="dense_h_to_4h",
        down="dense_4h_to_h",
    ),
    "phi": Family(
        defaults={
            **_LLAMA,
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "intermediate_size": 8192,
            "vocab_size": 51200,
            "hidden_act": "gelu_new",
            "partial_rotary_factor": 0.5,
            "qk_layernorm": False,
        },
        keys={"hidden_dropout": "resid_pdrop", "embedding_dropout": "embd_pdrop"},
        fixed={"attention_bias": True, "output_bias": True, "mlp_bias": True},
        final_norm="model.final_layernorm",
        head_bias=True,
        norm="layer",
        norm_bias=True,
        norms=("input_layernorm",),
        residual="parallel-shared",
        rotary="partial-kept",
        output="dense",
        query_key_norms=("q_layernorm", "k_layernorm"),
        gate=None,
        up="fc1",
        down="fc2",
    ),
}
"""Rows by `model_type`."""
