"""Megatron Bridge's weights until May 2026 (0cef174b2); sums and products in its order."""

from __future__ import annotations

from memcore.trainers.megatron.published.arguments import MegatronArguments


def weights(of: MegatronArguments) -> float:
    """Weights, gradients and optimizer states on the most loaded shard."""
    hidden, tensor, stages = of.hidden_size, of.tensor_model_parallel_size, of.pipeline_model_parallel_size
    ratio = of.kv_channels * of.num_attention_heads / hidden
    gated = 3 / 2 if of.gated_linear_unit else 1
    layers = (
        2
        * of.num_layers
        * hidden
        * hidden
        * (
            ((1 + (of.key_heads / of.num_attention_heads)) * ratio)
            + ((of.ffn_hidden_size / hidden) * (of.num_moe_experts or 1) * gated)
            + (2 / hidden)
            + (1 / (of.num_layers * hidden))
        )
    )
    embedding = hidden * of.vocab_size
    found = ((layers / stages) + embedding) / tensor
    if not of.share_embeddings_and_output_weights and stages == 1:
        found += embedding / tensor
    return found * (6 + (12 / of.data_parallel_size) if of.use_distributed_optimizer else 18)
