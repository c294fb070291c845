"""What published formulas read of a job, by Megatron's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from memcore.errors import ConfigError


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


def of_container(container: Any) -> MegatronArguments:
    """What Megatron Bridge's formulas read of its `ConfigContainer`, or of anything with the same attributes.

    Absent ones, and None, are what its formulas take them for (067f987df).
    """
    model = container.model
    found = {field.name: getattr(model, field.name, None) for field in fields(MegatronArguments)}
    found |= {
        "micro_batch_size": container.train.micro_batch_size,
        "use_distributed_optimizer": bool(getattr(container.optimizer, "use_distributed_optimizer", False)),
        "data_parallel_size": getattr(container, "data_parallel_size", None),
        "vocab_size": _vocabulary(model),
        "gated_linear_unit": bool(found["gated_linear_unit"]) and _named(model, "activation_func") == "silu",
        "moe_layers": tuple(_moe_layers(model)) if found["num_moe_experts"] else (),
    }
    if found["moe_router_topk"] is None:
        found["moe_router_topk"] = getattr(model, "num_experts_routed_to", None)
    return MegatronArguments(**{name: value for name, value in found.items() if value is not None})


def _named(model: Any, name: str) -> str:
    return getattr(getattr(model, name, None), "__name__", "")


def _vocabulary(model: Any) -> int:
    size: int = model.vocab_size
    if not getattr(model, "should_pad_vocab", True):
        return size
    multiple: int = model.make_vocab_size_divisible_by * model.tensor_model_parallel_size
    return -(-size // multiple) * multiple


def _moe_layers(model: Any) -> Iterator[bool]:
    """Return `moe_layer_freq` for each layer: every n-th from the first, or one by one."""
    frequency, count = getattr(model, "moe_layer_freq", 1), model.num_layers
    if isinstance(frequency, int) and frequency > 0:
        return (layer % frequency == 0 for layer in range(count))
    if isinstance(frequency, Sequence) and not isinstance(frequency, str) and len(frequency) == count:
        return map(bool, frequency)
    raise ConfigError.at(
        "model.moe_layer_freq",
        "found {!r}; it is a positive integer, or a list with one of 0 and 1 for each of {} layers",
        frequency,
        count,
    )
