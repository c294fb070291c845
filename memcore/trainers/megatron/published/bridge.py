"""Megatron Bridge's formulas (067f987df); sums and products in its order, so that not a bit differs."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.config.parallelism import Parallelism
from memcore.errors import ConfigError
from memcore.records import dataclass
from memcore.trainers.megatron.published.arguments import MegatronArguments


@dataclass(frozen=True, slots=True)
class _Counts:
    """Parameters: what tensor-parallel ranks split, and routed experts, for each layer; and the rest."""

    dense: tuple[float, ...]
    routed: tuple[float, ...]
    final_norm: int
    embedding: int


def weights(of: MegatronArguments) -> float:
    """Weights, gradients and optimizer states on the most loaded shard."""
    counts, stages = _counts(of), _stages(of)
    tensor, pipeline = of.tensor_model_parallel_size, of.pipeline_model_parallel_size
    experts = of.expert_model_parallel_size * of.expert_tensor_parallel_size
    if stages is None:
        own = (sum(counts.dense) + counts.final_norm) / (pipeline * tensor)
        dense = own + _embeddings(of, counts.embedding)
        routed = sum(counts.routed) / (pipeline * of.expert_model_parallel_size * of.expert_tensor_parallel_size)
    else:
        dense = max(_dense_by_stage(of, counts, stages)) / tensor
        routed = max(_by_stage(of, counts.routed, stages)) / experts
    found = 0 + dense * _bytes(of, of.data_parallel_size * of.context_parallel_size)
    if sum(counts.routed) > 0:
        ranks = of.data_parallel_size * tensor * of.context_parallel_size // max(1, experts)
        found += routed * _bytes(of, max(1, ranks))
    return found


def _counts(of: MegatronArguments) -> _Counts:
    hidden = of.hidden_size
    matrices = 3.0 if of.gated_linear_unit else 2.0
    ratio = of.kv_channels * of.num_attention_heads / hidden
    attention = 2 * hidden * hidden * ((1 + (of.key_heads / of.num_attention_heads)) * ratio)
    norms = 4 * hidden
    ffn = matrices * hidden * of.ffn_hidden_size
    shared = matrices * hidden * of.shared_width
    source = hidden if of.moe_latent_size is None else of.moe_latent_size
    around = 0 if of.moe_latent_size is None else 2 * hidden * of.moe_latent_size
    routed = matrices * source * of.expert_width * (of.num_moe_experts or 0)
    return _Counts(
        dense=tuple(attention + norms + (shared + around if each else ffn) for each in of.routed),
        routed=tuple(routed if each else 0.0 for each in of.routed),
        final_norm=2 * hidden,
        embedding=hidden * of.vocab_size,
    )


def _embeddings(of: MegatronArguments, embedding: int) -> float:
    found = embedding / of.tensor_model_parallel_size
    if not of.share_embeddings_and_output_weights and of.pipeline_model_parallel_size == 1:
        found += embedding / of.tensor_model_parallel_size
    return found


def _bytes(of: MegatronArguments, ranks: int) -> float:
    """Return bytes of a parameter, its gradient, its master copy and its moments."""
    return 6.0 + (12.0 / max(1, ranks)) if of.use_distributed_optimizer else 18.0


def _stages(of: MegatronArguments) -> list[list[int]] | None:
    """Return the layers of each stage where the first or the last has another number of them."""
    first, last = of.num_layers_in_first_pipeline_stage, of.num_layers_in_last_pipeline_stage
    if first is None and last is None:
        return None
    count = of.pipeline_model_parallel_size
    ends = [each for each in (first, last) if each is not None]
    rest, middle = of.num_layers - sum(ends), count - len(ends)
    chunks = of.virtual_pipeline_model_parallel_size or 1
    found = [rest // middle if middle else 0] * count
    if first is not None:
        found[0] = first
    if last is not None:
        found[-1] = last
    if count < 2 or sum(found) != of.num_layers or any(each < 1 or each % chunks for each in found):
        raise ConfigError.at(
            Parallelism.pipeline_layout,
            "found {} layers, expected {} in total, in {} equal chunks per stage",
            found,
            of.num_layers,
            chunks,
        )
    layers: list[list[int]] = [[] for _ in found]
    start = 0
    for _ in range(chunks):
        for stage, each in enumerate(found):
            layers[stage] += range(start, start + each // chunks)
            start += each // chunks
    return layers


def _by_stage(of: MegatronArguments, each: Sequence[float], stages: list[list[int]]) -> list[float]:
    found = [sum(each[layer] for layer in layers) for layers in stages]
    found[-1] += sum(each[of.num_layers :])
    return found


def _dense_by_stage(of: MegatronArguments, counts: _Counts, stages: list[list[int]]) -> list[float]:
    found = _by_stage(of, counts.dense, stages)
    found[-1] += counts.final_norm
    found[0] += counts.embedding
    found[-1] += counts.embedding
    return found


def activations(of: MegatronArguments, micro_batches: int | None) -> float:
    """Activations of the first stage: 18·h + 4·f for each token and layer, f averaged over kinds of layers."""
    layers, hidden = of.routed, of.hidden_size
    wide = sum(layers) * ((of.expert_width * of.moe_router_topk) + of.shared_width) if any(layers) else 0.0
    ratio = ((len(layers) - sum(layers)) * of.ffn_hidden_size + wide) / (len(layers) * hidden)
    found = of.seq_length * of.micro_batch_size * hidden * (18 + (4 * ratio))
    found *= len(layers)
    return scheduled(of, found, micro_batches) / (of.tensor_model_parallel_size * of.context_parallel_size)


def in_flight(of: MegatronArguments, found: float, micro_batches: int | None) -> float:
    """With the inputs of micro-batches in flight, as many as the schedule has of them."""
    stages, chunks = of.pipeline_model_parallel_size, of.virtual_pipeline_model_parallel_size
    found += 8 * of.seq_length * of.micro_batch_size * stages
    found += of.seq_length * of.micro_batch_size * of.hidden_size * stages
    if chunks is not None:
        return found * (1 + ((stages - 1) / (stages * chunks)))
    if stages > 1 and micro_batches is not None:
        found *= min(1, micro_batches / stages)
    return found


def scheduled(of: MegatronArguments, found: float, micro_batches: int | None) -> float:
    """Return the activations in flight, and without a pipeline the logits and the loss."""
    found = in_flight(of, found, micro_batches)
    if of.pipeline_model_parallel_size == 1:
        head = 1 + (of.vocab_size / of.hidden_size)
        found += of.seq_length * of.micro_batch_size * of.hidden_size * 4 * head
    return found
