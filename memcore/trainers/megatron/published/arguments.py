"""What published formulas read of a job, by Megatron's names."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronArguments:
    """Arguments of Megatron-LM and of Megatron Bridge's model and training configurations; sizes are whole."""

    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    kv_channels: int
    """Width of a head."""
    vocab_size: int
    """As it is built, padded or not."""
    seq_length: int
    micro_batch_size: int = 1
    num_query_groups: int | None = None
    """Key heads; None: as many as query heads."""
    gated_linear_unit: bool = False
    """SwiGLU."""
    share_embeddings_and_output_weights: bool = True
    normalization: str = "LayerNorm"
    add_bias_linear: bool = True
    num_moe_experts: int | None = None
    moe_layers: tuple[bool, ...] = ()
    """For each layer whether it has experts (`moe_layer_freq`, spelled out); empty: all of them."""
    moe_ffn_hidden_size: int | None = None
    moe_router_topk: int = 1
    moe_shared_expert_intermediate_size: int | None = None
    moe_shared_expert_gate: bool = False
    moe_latent_size: int | None = None
    mtp_num_layers: int = 0
    multi_latent_attention: bool = False
    q_lora_rank: int | None = None
    kv_lora_rank: int = 0
    qk_head_dim: int = 0
    qk_pos_emb_head_dim: int = 0
    v_head_dim: int = 0
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    virtual_pipeline_model_parallel_size: int | None = None
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    num_layers_in_first_pipeline_stage: int | None = None
    num_layers_in_last_pipeline_stage: int | None = None
    use_distributed_optimizer: bool = False
    sequence_parallel: bool = False
    recompute_granularity: str | None = None
    """full, selective or None."""

    @property
    def routed(self) -> tuple[bool, ...]:
        """For each layer whether it has experts; layers that predict further tokens are like the last one."""
        found = (self.moe_layers or (True,) * self.num_layers) if self.num_moe_experts else (False,) * self.num_layers
        return (*found, *(found[-1],) * self.mtp_num_layers)

    @property
    def key_heads(self) -> int:
        """`num_query_groups`, filled in."""
        return self.num_query_groups or self.num_attention_heads

    @property
    def expert_width(self) -> int:
        """`moe_ffn_hidden_size`, filled in."""
        return self.ffn_hidden_size if self.moe_ffn_hidden_size is None else self.moe_ffn_hidden_size

    @property
    def shared_width(self) -> int:
        """`moe_shared_expert_intermediate_size`, filled in."""
        return self.moe_shared_expert_intermediate_size or 0
