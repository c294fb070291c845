"""What published formulas say about a job, beside memcore's own answer, and why the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, Problem, UnsupportedError
from memcore.estimation import estimate_training, is_serving
from memcore.memory.estimate import Estimate
from memcore.networks.catalog import catalog, find_model
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention
from memcore.symbols import measure, product
from memcore.trainers.deepspeed.estimators import ModelStates, estimate_zero_model_states
from memcore.trainers.megatron.networks.placement import predicting
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.report import FORMULAS, TheoreticalMemory, report_theoretical_memory
from memcore.trainers.megatron.settings import MegatronSettings

_PADDED = 128
"""What Megatron-LM pads the vocabulary to a multiple of, for each tensor-parallel rank."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one formula says, in bytes, and why memcore says something else."""

    name: str
    title: str
    memory: TheoreticalMemory
    assumptions: tuple[str, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Formulas beside memcore."""

    arguments: MegatronArguments
    micro_batches: int
    answers: tuple[Answer, ...]
    deepspeed: tuple[ModelStates, ...]
    """What DeepSpeed's estimators say."""
    estimate: Estimate | None
    refused: str
    """Why memcore has no answer of its own."""

    @property
    def held(self) -> int | None:
        """Bytes between steps on the worst rank: memcore's weights, gradients and optimizer."""
        return None if self.estimate is None else self.estimate.rank.between_steps


def compare(config: Config | Mapping[str, object]) -> Comparison:
    """Every formula's answer for a job, and memcore's where it has one.

    Raises ConfigError for servers and for what cannot be understood, and UnsupportedError for networks that the
    formulas do not know.

    >>> compare({"model": "llama-3.1-8b", "parallelism": {"tensor_parallel_size": 8}}).answers[0].memory
    TheoreticalMemory(weight_and_optimizer=18068686848.0, activation=None)
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    if is_serving(described):
        engine = described[EngineSettings.type]
        path, found = (EngineSettings.type, f"found {engine}; ") if engine else ("inference", "")
        raise ConfigError([Problem(path, f"{found}the published formulas are of training only")])
    arguments = arguments_of(described)
    micro_batches = described[Training.gradient_accumulation_steps] or 1
    answers = tuple(_answer(name, arguments, micro_batches) for name in FORMULAS)
    gpus, node = described[Hardware.num_gpus] or 1, described[Hardware.gpus_per_node] or 8
    model = find_model(described.model)
    deepspeed = estimate_zero_model_states(model, min(gpus, node), max(gpus // node, 1))
    try:
        own = estimate_training(described)
    except MemcoreError as error:
        return Comparison(arguments, micro_batches, answers, deepspeed, None, str(error))
    return Comparison(arguments, micro_batches, answers, deepspeed, own, "")


def _answer(name: str, arguments: MegatronArguments, micro_batches: int) -> Answer:
    row = FORMULAS[name]
    memory = report_theoretical_memory(arguments, micro_batches, name)
    reasons = tuple(each.text for each in _DIFFERENCES if name in each.formulas and each.applies(arguments))
    return Answer(name, row.title, memory, row.assumptions, reasons)


def arguments_of(config: Config | Mapping[str, object], *, pads_vocabulary: bool | None = None) -> MegatronArguments:
    """The formulas' arguments of a job.

    `pads_vocabulary` is Megatron Bridge's `should_pad_vocab`, off there by default; Megatron-LM always pads, which None
    does for networks that are given by Megatron's arguments.
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    source = described.model if isinstance(described.model, Mapping) else {}
    network = _network(find_model(described.model), source)
    tensor = _given(described, Parallelism.tensor_parallel_size) or 1
    pads = source.get("model_type") == "megatron" if pads_vocabulary is None else pads_vocabulary
    if pads:
        multiple = int(source.get("make_vocab_size_divisible_by") or _PADDED) * tensor  # type: ignore[call-overload]
        network["vocab_size"] = -(-network["vocab_size"] // multiple) * multiple
    return MegatronArguments(**network, **_layout(described, tensor))


def _given(config: Config, path: str) -> Any:
    return config.get(path) if path in SETTINGS else None


def _layout(config: Config, tensor: int) -> dict[str, Any]:
    """What the formulas read of a job's training and parallelism."""
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
    """The first and the last stage's layers where only they differ, which is all that the formulas know."""
    if not isinstance(layout, (list, tuple)) or len(layout) != stages or stages < 2 or len(set(layout)) == 1:
        return None, None
    return (layout[0], layout[-1]) if len(set(layout[1:-1])) <= 1 else (None, None)


def _network(model: Model, source: Mapping[str, object]) -> dict[str, Any]:
    """What the formulas read of a network."""
    layers = [layer for run, times in zip(model.network.runs, model.repeats, strict=True) for layer in run * times]
    layers = layers[: len(layers) - predicting(model)]
    feeds = [layer.feed_forward for layer in layers]
    dense = next((feed for feed in feeds if isinstance(feed, FeedForward)), None)
    routed = next((feed for feed in feeds if isinstance(feed, Experts)), None)
    hidden, ends = model.sizes["h"], model.network.ends
    found: dict[str, Any] = {
        "num_layers": len(layers),
        "hidden_size": hidden,
        "vocab_size": model.sizes["V"],
        "share_embeddings_and_output_weights": ends.tied,
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
        found |= _experts(model, routed, feeds)
        width = width or found["moe_ffn_hidden_size"]
    stated = _config(model, source).get("intermediate_size") if dense is None else None
    return {**found, "ffn_hidden_size": (stated if isinstance(stated, int) else width) or 4 * hidden}


def _config(model: Model, source: Mapping[str, object]) -> Mapping[str, object]:
    """The content of the model's config.json, as far as it is known."""
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
            "model", f"the published formulas know attention only, and {model.name} has other mixers"
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


def _experts(model: Model, routed: Experts, feeds: list[Any]) -> dict[str, Any]:
    sizes = model.sizes
    matrices = [weight for weight in routed.experts if len(weight.axes) > 2 or len(routed.experts) == 3]
    source = product(routed.latent[0].outer, sizes) if routed.latent else sizes["h"]
    count = measure(routed.router.outer[0], sizes)
    each = sum(product(weight.shape, sizes) for weight in matrices) // (count * source)
    shared = routed.shared
    return {
        "num_moe_experts": count,
        "moe_layers": tuple(isinstance(feed, Experts) for feed in feeds),
        "moe_ffn_hidden_size": each // (3 if routed.gated else 2),
        "moe_router_topk": measure(routed.routed, sizes),
        "moe_shared_expert_intermediate_size": None if shared is None else product(shared.down.inner, sizes),
        "moe_shared_expert_gate": routed.shared_gate is not None,
        "moe_latent_size": source if routed.latent else None,
    }


@dataclass(frozen=True, slots=True)
class _Difference:
    """A reason why a formula says something else than what is allocated."""

    text: str
    applies: Callable[[MegatronArguments], bool]
    formulas: tuple[str, ...] = tuple(FORMULAS)


_BRIDGE = ("megatron-bridge", "megatron-bridge-2025")


def _differences() -> Iterator[_Difference]:
    yield _Difference(
        "a gated feed-forward layer keeps 6·f bytes of a token, of which the formula counts 4·f",
        lambda of: of.gated_linear_unit,
    )
    yield _Difference(
        "keys and values of fewer heads are smaller than the formula's activations, which know no groups",
        lambda of: of.key_heads < of.num_attention_heads,
    )
    yield _Difference(
        "18·h and 4·f are those of a network of 2022 with dropout; memcore counts each tensor that the layers save",
        lambda of: True,
    )
    yield _Difference(
        "the logits, 2 to 6 bytes for each word, are on the last stage, which the formula never looks at",
        lambda of: of.pipeline_model_parallel_size > 1,
    )
    yield _Difference(
        "full recomputation keeps one input for each layer; the formula takes everything", _is_full, ("megatron-lm",)
    )
    yield _Difference("no activations are reported for such a job", lambda of: not _is_selective(of), _BRIDGE)
    yield _Difference(
        "norms and routers are on every tensor-parallel rank; the formula divides them",
        lambda of: of.tensor_model_parallel_size > 1,
        _BRIDGE,
    )
    yield _Difference("routers are not counted", lambda of: bool(of.num_moe_experts), _BRIDGE)
    yield _Difference(
        "every layer is taken to have all experts, of the dense width and on every expert-parallel rank",
        lambda of: bool(of.num_moe_experts),
        ("megatron-bridge-2025",),
    )
    yield _Difference(
        "latent attention is counted as attention with whole matrices", lambda of: of.multi_latent_attention, _BRIDGE
    )
    yield _Difference(
        "tokens sent to experts, their copies and the router's probabilities are not counted",
        lambda of: bool(of.num_moe_experts),
    )
    yield _Difference(
        "context-parallel ranks share the optimizer too, and each has its part of the sequence",
        lambda of: of.context_parallel_size > 1,
        ("megatron-bridge-2025", "megatron-lm"),
    )
    yield _Difference(
        "parameters are taken as bf16 with fp32 gradients and states; padding of buffers, dummy gradients of fused "
        "accumulation, the embedding's dense gradient and workspaces are left out",
        lambda of: True,
    )


def _is_full(of: MegatronArguments) -> bool:
    return of.recompute_granularity == "full"


def _is_selective(of: MegatronArguments) -> bool:
    return of.sequence_parallel and of.recompute_granularity == "selective"


_DIFFERENCES = tuple(_differences())
