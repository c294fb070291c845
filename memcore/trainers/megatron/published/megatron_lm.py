"""Megatron-LM's formulas (d98e8a64d); sums and products in its order, so that not a bit differs."""

from __future__ import annotations

from memcore.records import dataclass
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.bridge import in_flight, scheduled


@dataclass(frozen=True, slots=True)
class _Layer:
    """Parameters by who shares them."""

    tensor: float
    replicated: float
    experts: float


def weights(of: MegatronArguments) -> float:
    """Weights, gradients and optimizer states on the most loaded shard."""
    stages, tensor = of.pipeline_model_parallel_size, of.tensor_model_parallel_size
    experts = of.expert_tensor_parallel_size * of.expert_model_parallel_size
    routed = sum(of.routed[: of.num_layers])
    further = of.mtp_num_layers if of.routed[-1] else 0
    block = _sum(of, of.num_layers - routed, routed, final_norm=True)
    beyond = _sum(of, of.mtp_num_layers - further, further, final_norm=False)
    embedding = of.hidden_size * of.vocab_size
    shared = ((block.tensor / stages) + beyond.tensor + embedding) / tensor
    replicated = (block.replicated / stages) + beyond.replicated
    own = ((block.experts / stages) + beyond.experts) / experts
    if not of.share_embeddings_and_output_weights and stages == 1:
        shared += embedding / tensor
    world = tensor * of.context_parallel_size * of.data_parallel_size * stages
    copies = max(world // (experts * stages), 1)  # 0 for fewer ranks than the experts need, which Megatron refuses
    return (shared + replicated) * _bytes(of, of.data_parallel_size) + own * _bytes(of, copies)


def _bytes(of: MegatronArguments, ranks: int) -> float:
    return 6 + (12 / ranks) if of.use_distributed_optimizer else 18


def _sum(of: MegatronArguments, dense: int, routed: int, *, final_norm: bool) -> _Layer:
    """Return the sum over a number of dense and routed layers."""
    hidden = of.hidden_size
    gated = 3 / 2 if of.gated_linear_unit else 1
    norm = 1 if of.normalization == "RMSNorm" else 2
    attention, norms = _attention(of, norm), 2 * hidden * norm
    ffn = 2 * hidden * of.ffn_hidden_size * gated
    shared = 2 * hidden * of.shared_width * gated
    experts = of.num_moe_experts or 0
    source = hidden if of.moe_latent_size is None else of.moe_latent_size
    width = of.expert_width if experts else 0
    around = 2 * hidden * of.moe_latent_size if experts and of.moe_latent_size is not None else 0
    router = hidden * experts + (experts if of.add_bias_linear else 0) if experts else 0
    gate = hidden if of.shared_width > 0 and of.moe_shared_expert_gate else 0
    return _Layer(
        tensor=(attention + ffn) * dense + (attention + shared) * routed,
        replicated=norms * dense + (norms + around + router + gate) * routed + (norm * hidden if final_norm else 0),
        experts=2 * source * width * experts * gated * routed,
    )


def _attention(of: MegatronArguments, norm: int) -> float:
    hidden, heads = of.hidden_size, of.num_attention_heads
    if not of.multi_latent_attention:
        ratio = of.kv_channels * heads / hidden
        return 2 * hidden * hidden * ((1 + (of.key_heads / heads)) * ratio)
    query = of.qk_head_dim + of.qk_pos_emb_head_dim
    queries = hidden * heads * query
    if of.q_lora_rank is not None:
        queries = of.q_lora_rank * (hidden + heads * query + norm)
    keys = of.kv_lora_rank * (hidden + heads * (of.qk_head_dim + of.v_head_dim) + norm)
    return queries + keys + hidden * of.qk_pos_emb_head_dim + (heads * of.v_head_dim) * hidden


def activations(of: MegatronArguments, micro_batches: int | None) -> float:
    """Activations of the first stage under sequence parallelism and selective recomputation."""
    found = (of.seq_length * of.micro_batch_size * of.hidden_size) * (18 + (4 * (of.ffn_hidden_size / of.hidden_size)))
    found *= of.num_layers
    return scheduled(of, found, micro_batches) / of.tensor_model_parallel_size


def activations_without_sequence_parallelism(of: MegatronArguments, micro_batches: int | None) -> float:
    """Activations of the first stage otherwise."""
    tensor = of.tensor_model_parallel_size
    found = of.seq_length * of.micro_batch_size * of.hidden_size * (10 + (24 / tensor)) * of.num_layers
    found = in_flight(of, found, micro_batches)
    if of.pipeline_model_parallel_size == 1:
        logits = of.seq_length * of.micro_batch_size * of.vocab_size / tensor
        found += (logits + of.seq_length * of.micro_batch_size * of.hidden_size) * 2
    return found * 1.05
