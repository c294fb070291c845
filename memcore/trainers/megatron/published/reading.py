"""What published formulas read of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.networks.catalog import catalog, find_model
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention
from memcore.symbols import measure, product, round_up
from memcore.trainers.megatron.networks.placement import predicting
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.settings import MegatronSettings

_PADDED = 128
"""What Megatron-LM pads the vocabulary to a multiple of, for each tensor-parallel rank."""


def arguments_of(config: Config | Mapping[str, object]) -> MegatronArguments:
    """Return the formulas' arguments of a job.

    Megatron-LM pads the vocabulary; Megatron Bridge only where `should_pad_vocab` says so, which is off by default.
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    source = described.model if isinstance(described.model, Mapping) else {}
    network = _network(find_model(described.model), source)
    tensor = _given(described, Parallelism.tensor_parallel_size) or 1
    if source.get("model_type") == "megatron":
        multiple = int(source.get("make_vocab_size_divisible_by") or _PADDED) * tensor  # type: ignore[call-overload]
        network["vocab_size"] = round_up(network["vocab_size"], multiple)
    return MegatronArguments(**network, **_layout(described, tensor))


def _given(config: Config, path: str) -> Any:
    return config.get(path) if path in SETTINGS else None


def _layout(config: Config, tensor: int) -> dict[str, Any]:
    """Return what the formulas read of a job's training and parallelism."""
    names = "pipeline", "context", "expert"
    stages, contexts, experts = (_given(config, f"parallelism.{name}_parallel_size") or 1 for name in names)
    chunks = _given(config, Parallelism.virtual_pipeline_parallel_size) or 1
    ranks = _given(config, Parallelism.data_parallel_size)
    ranks = ranks or max((_given(config, Hardware.num_gpus) or 1) // (tensor * stages * contexts), 1)
    policy = _given(config, Training.activation_checkpointing.policy)
    first, last = _uneven(_given(config, Parallelism.pipeline_layout), stages)
    return {
        "seq_length": _given(config, Training.sequence_length) or min(find_model(config.model).sizes["P"], 4096),
        "micro_batch_size": _given(config, Training.micro_batch_size) or 1,
        "tensor_model_parallel_size": tensor,
        "pipeline_model_parallel_size": stages,
        "virtual_pipeline_model_parallel_size": chunks if chunks > 1 else None,
        "context_parallel_size": contexts,
        "expert_model_parallel_size": experts,
        "expert_tensor_parallel_size": _given(config, Parallelism.expert_tensor_parallel_size) or tensor,
        "data_parallel_size": ranks,
        "num_layers_in_first_pipeline_stage": first,
        "num_layers_in_last_pipeline_stage": last,
        "use_distributed_optimizer": bool(_given(config, MegatronSettings.distributed_optimizer)),
        "sequence_parallel": bool(_given(config, Parallelism.sequence_parallel)),
        "recompute_granularity": None if policy == "none" else policy,
    }


def _uneven(layout: object, stages: int) -> tuple[int | None, int | None]:
    """Return the first and the last stage's layers where only they differ, which is all that the formulas know."""
    if not isinstance(layout, (list, tuple)) or len(layout) != stages or stages < 2 or len(set(layout)) == 1:
        return None, None
    return (layout[0], layout[-1]) if len(set(layout[1:-1])) <= 1 else (None, None)


def _network(model: Model, source: Mapping[str, object]) -> dict[str, Any]:
    """Return what the formulas read of a network."""
    layers = [layer for run, times in zip(model.network.runs, model.repeats, strict=True) for layer in run * times]
    layers = layers[: len(layers) - predicting(model)]
    ffns = [layer.feed_forward for layer in layers]
    dense = next((ffn for ffn in ffns if isinstance(ffn, FeedForward)), None)
    routed = next((ffn for ffn in ffns if isinstance(ffn, Experts)), None)
    hidden, embedding_and_head = model.sizes["h"], model.network.embedding_and_head
    found: dict[str, Any] = {
        "num_layers": len(layers),
        "hidden_size": hidden,
        "vocab_size": model.sizes["V"],
        "share_embeddings_and_output_weights": embedding_and_head.tied,
        "normalization": "RMSNorm" if layers[0].norms and layers[0].norms[0].kind.startswith("rms") else "LayerNorm",
        "mtp_num_layers": _further(model, source),
        **_attention(model, layers),
    }
    activation = dense.activation if dense else routed.activation if routed else ""
    gated = (dense.gate is not None or dense.fused) if dense else routed is not None and routed.gated
    found["gated_linear_unit"] = gated and activation in ("silu", "swish")
    found["add_bias_linear"] = dense is not None and dense.up.bias
    width = None if dense is None else product(dense.down.inner, model.sizes)
    if routed is not None:
        found |= _experts(model, routed, ffns)
        width = width or found["moe_ffn_hidden_size"]
    stated = _config(model, source).get("intermediate_size") if dense is None else None
    return {**found, "ffn_hidden_size": (stated if isinstance(stated, int) else width) or 4 * hidden}


def _config(model: Model, source: Mapping[str, object]) -> Mapping[str, object]:
    """Return the content of the model's config.json, as far as it is known."""
    return source or catalog().get(model.name, {}).get("config", {})


def _further(model: Model, source: Mapping[str, object]) -> int:
    """Layers that predict further tokens, which Megatron trains and transformers does not build."""
    config = _config(model, source)
    names = ("mtp_num_layers", "num_nextn_predict_layers", "mtp_num_hidden_layers")
    return next((found for found in map(config.get, names) if isinstance(found, int)), 0)


def _attention(model: Model, layers: list[Layer]) -> dict[str, Any]:
    mixers = [layer.mixer for layer in layers]
    if not all(isinstance(mixer, Attention | LatentAttention) for mixer in mixers):
        raise UnsupportedError(
            "model", "the published formulas cover attention only; {} also has other mixers", model.name
        )
    mixer, sizes = mixers[0], model.sizes
    if isinstance(mixer, LatentAttention):
        rotated = measure(mixer.heads.rotated, sizes)
        return {
            "num_attention_heads": measure(mixer.heads.query, sizes),
            "kv_channels": rotated,
            "multi_latent_attention": True,
            "q_lora_rank": measure(mixer.queries[0].outer[0], sizes) if len(mixer.queries) > 1 else None,
            "kv_lora_rank": product(mixer.latent_norm.width, sizes),
            "qk_head_dim": measure(mixer.heads.width, sizes) - rotated,
            "qk_pos_emb_head_dim": rotated,
            "v_head_dim": measure(mixer.heads.value, sizes),
        }
    if not isinstance(mixer, Attention):
        raise TypeError(mixer)
    heads = mixer.heads
    return {
        "num_attention_heads": measure(heads.query, sizes),
        "num_query_groups": measure(heads.key, sizes),
        "kv_channels": measure(heads.width, sizes),
    }


def _experts(model: Model, routed: Experts, ffns: list[Any]) -> dict[str, Any]:
    sizes = model.sizes
    matrices = [weight for weight in routed.experts if len(weight.axes) > 2 or len(routed.experts) == 3]
    source = product(routed.latent[0].outer, sizes) if routed.latent else sizes["h"]
    count = measure(routed.router.outer[0], sizes)
    each = sum(product(weight.shape, sizes) for weight in matrices) // (count * source)
    shared = routed.shared
    return {
        "num_moe_experts": count,
        "moe_layers": tuple(isinstance(ffn, Experts) for ffn in ffns),
        "moe_ffn_hidden_size": each // (3 if routed.gated else 2),
        "moe_router_topk": measure(routed.routed, sizes),
        "moe_shared_expert_intermediate_size": None if shared is None else product(shared.down.inner, sizes),
        "moe_shared_expert_gate": routed.shared_gate is not None,
        "moe_latent_size": source if routed.latent else None,
    }
