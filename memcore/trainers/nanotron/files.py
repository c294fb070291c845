"""nanotron's YAML files.

Source: huggingface/nanotron, config/config.py, parallelism_config.py and models_config.py: the keys of their classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError, UnsupportedError
from memcore.formats.normalized import Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import content_of, find_model
from memcore.networks.network import Model
from memcore.symbols import round_up
from memcore.trainers.nanotron.settings import NanotronSettings

_DIMENSIONS = (
    "hidden_size num_hidden_layers num_attention_heads num_key_value_heads intermediate_size vocab_size "
    "max_position_embeddings tie_word_embeddings hidden_act"
)

_CONFIG = "model.model_config."
_WORDS, _MULTIPLE = f"{_CONFIG}vocab_size", "model.make_vocab_size_divisible_by"
_OTHERS: Mapping[str, str] = {
    "is_starcoder2_config": "its StarCoder2 has different layers",
    "is_mamba_config": "its Mamba has different layers",
    "moe_config": "its experts have different layers",
    "z_loss_enabled": "a loss with that term keeps more tensors",
}
"""Keys of a model_config that ask for other code than its Llama's (models/llama.py), and why that matters."""


_QWEN2, _BIASED, _PERIOD = f"{_CONFIG}is_qwen2_config", f"{_CONFIG}attention_bias", f"{_CONFIG}no_rope_layer"
_KIND, _EVERY = "*model_type", "*no_rope_layer"
_ONLY: Mapping[str, tuple[object, ...]] = {
    "_fused_rms_norm": (True,),
    "_use_qkv_packed": (True,),
    "_attn_implementation": ("flash_attention_2", "sdpa", "flex_attention"),
}
"""Values with which the layers of its Qwen2 are known; of attention all run FlashAttention's packed kernel."""


def _of_qwen2(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the network of a config of nanotron's Qwen2: biases of Qwen2's, or SmolLM3's layers without positions.

    Source: nanotron, models/qwen.py and models_config.py (`Qwen2Config`): without biases and with positions everywhere
    where nothing else is said.
    """
    if found.get(_QWEN2) is not True:
        return dict(found)
    for name, allowed in _ONLY.items():
        value = found.get(f"{_CONFIG}{name}") or allowed[0]
        if found.get(f"{_CONFIG}{name}") is False or value not in allowed:
            raise UnsupportedError(
                f"{_CONFIG}{name}",
                "found {!r}; supported here: {}",
                found[f"{_CONFIG}{name}"],
                joined(", ", [str(each).lower() for each in allowed]),
            )
    biased, period = found.get(_BIASED) is True, found.get(_PERIOD) or 0
    if biased and period:
        raise UnsupportedError.of_value(
            _BIASED, True, "biases and layers without positions together are not supported yet; leave it out"
        )
    return {**found, **({_KIND: "qwen2"} if biased else {_KIND: "smollm3", _EVERY: period} if period else {})}


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Refuse other networks, and pad the vocabulary (helpers.py, `_vocab_size_with_padding`)."""
    for name, value in found.items():
        asked = name.removeprefix(_CONFIG).split(".")[0]
        if name.startswith(_CONFIG) and asked in _OTHERS and value not in (None, False):
            message = "found {!r}; only nanotron's Llama and Qwen2 are supported: {}"
            raise UnsupportedError(f"{_CONFIG}{asked}", message, value, _OTHERS[asked])
    found = _of_qwen2(found)
    words, multiple = found.get(_WORDS), found.get(_MULTIPLE)
    if not isinstance(words, int) or not isinstance(multiple, int) or multiple <= 1:
        return found, ()
    multiple *= found.get("parallelism.tp") or 1
    padded = round_up(words, multiple)
    note = Message("{} is {:,}: padded from {:,} to a multiple of {} × tp", _WORDS, padded, words, _MULTIPLE)
    return {**found, _WORDS: padded}, (note,)


_KINDS = ("llama", "qwen2", "smollm3")
_PERIODIC = "no_rope_layer_interval"


def _described(config: Config) -> dict[str, Any] | None:
    """Return the network of a model of its Llama or its Qwen2, of another family only with the same layers."""
    try:
        model = find_model(config.model)
        content = {"model_type": "llama", **content_of(config.model)}
    except MemcoreError:
        return None
    kind = content["model_type"] if content["model_type"] in _KINDS else "llama"
    own = {"model_type": kind, **{name: content[name] for name in _DIMENSIONS.split() if content.get(name) is not None}}
    if kind == "smollm3":
        own[_PERIODIC] = content.get(_PERIODIC)
    return own if _describes_all(model, own) else None


def _describes_all(model: Model, own: Mapping[str, Any]) -> bool:
    """Return whether a config of nanotron's keys alone describes all of a network."""
    try:
        again = find_model({name: value for name, value in own.items() if value is not None})
    except MemcoreError:
        return False
    used = {name: size for name, size in again.sizes.items() if name != "P"}
    alike = (model.network.runs, model.repeats, model.network.embedding_and_head, model.network.towers)
    return alike == (again.network.runs, again.repeats, again.network.embedding_and_head, again.network.towers) and all(
        model.sizes.get(name) == size for name, size in used.items()
    )


def _written(config: Config) -> dict[str, Any]:
    """Return the network of nanotron's Qwen2, as its config says it."""
    model = _described(config) or {}
    if model.get("model_type") not in ("qwen2", "smollm3"):
        return {}
    own = {_BIASED: True} if model["model_type"] == "qwen2" else {_PERIOD: model[_PERIODIC]}
    return {_QWEN2: True, **{f"{_CONFIG}{name}": model[name] for name in _DIMENSIONS.split() if name in model}, **own}


NANOTRON = Tool(
    name="nanotron",
    title="nanotron",
    syntax="yaml",
    engines=("nanotron",),
    tells=("model.model_config", "tokens.batch_accumulation_per_replica"),
    family="llama",
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} run_train.py --config-file {file}",
    dimensions={
        _KIND: "model_type", _EVERY: _PERIODIC,
        **{f"model.model_config.{name}": name for name in _DIMENSIONS.split()},
    },
    described=_described,
    normalized=_normalized,
    written=_written,
    keys=(
        Key(path=Training.parameter_dtype, name="model.dtype", values={"bf16": "bfloat16"}),
        Key(path=Training.micro_batch_size, name="tokens.micro_batch_size"),
        Key(path=Training.sequence_length, name="tokens.sequence_length"),
        Key(path=Training.gradient_accumulation_steps, name="tokens.batch_accumulation_per_replica"),
        Key(
            path=Training.optimizer.name,
            name="optimizer.optimizer_factory.name",
            values={"adamw": "adamW", "sgd": "sgd"},
        ),
        Key(
            path=Training.optimizer.implementation,
            name="optimizer.optimizer_factory.torch_adam_is_fused",
            also=("optimizer.torch_adam_is_fused",),
            values={"fused": True, "foreach": False},
        ),
        Key(
            path=Training.activation_checkpointing.policy,
            name="parallelism.recompute_layer",
            values={"full": True, "none": False},
        ),
        Key(path=Parallelism.data_parallel_size, name="parallelism.dp"),
        Key(path=Parallelism.tensor_parallel_size, name="parallelism.tp"),
        Key(path=Parallelism.pipeline_parallel_size, name="parallelism.pp"),
        Key(path=Parallelism.context_parallel_size, name=Parallelism.context_parallel_size),
        Key(path=Parallelism.expert_parallel_size, name=Parallelism.expert_parallel_size),
        Key(
            path=Parallelism.pipeline_schedule,
            name="parallelism.pp_engine",
            values={"1f1b": "1f1b", "gpipe": "afab"},
        ),
        Key(path=NanotronSettings.tp_mode, name="parallelism.tp_mode", in_capitals=True),
        Key(path=NanotronSettings.tp_linear_async_communication, name="parallelism.tp_linear_async_communication"),
        Key(path=NanotronSettings.tp_recompute_allgather, name="parallelism.tp_recompute_allgather"),
        Key(path=EngineSettings.zero_stage, name="optimizer.zero_stage"),
        Key(path=NanotronSettings.accumulate_grad_in_fp32, name="optimizer.accumulate_grad_in_fp32"),
    ),
    meanings=(Meaning(sets={NanotronSettings.model_class: "qwen2"}, keys={_QWEN2: True}),),
    defaults={
        NanotronSettings.tp_linear_async_communication: False,
        NanotronSettings.tp_mode: "ALL_REDUCE",
        Parallelism.pipeline_schedule: "gpipe",
    },
    implied={
        Training.precision: {
            "bf16-mixed": {NanotronSettings.accumulate_grad_in_fp32: True},
            "bf16": {NanotronSettings.accumulate_grad_in_fp32: False},
        }
    },
    unsaid={
        Parallelism.data_parallel_size: None,
        Parallelism.tensor_parallel_size: None,
        Parallelism.pipeline_parallel_size: None,
        Training.micro_batch_size: None,
        Training.sequence_length: None,
        Training.gradient_accumulation_steps: None,
        Training.optimizer.name: None,
        Training.optimizer.implementation: None,
        EngineSettings.zero_stage: None,
        NanotronSettings.accumulate_grad_in_fp32: None,
    },
    ignored=("checkpoints*", "data_stages*", "general*", "lighteval*", "logging*", "metrics_logging*", "profiler*",
             "tokenizer*", "s3_upload*", "model.dtype", "model.init_method*", "model.ddp_bucket_cap_mb", _MULTIPLE,
             *(f"{_CONFIG}{name}" for name in _OTHERS),
             *(f"{_CONFIG}{name}" for name in (
                 "bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "is_llama_config",
                 "pretraining_tp", "no_rope_layer", "_fused_*", "_use_*", "flex_attention_mask", "sliding_window_size",
                 "log_attn_probs", "ring_attn_heads_k_stride", "is_qwen2_config", "rms_norm_eps", "rope_*",
                 "use_cache", "z_loss_coefficient", "attention_bias",
                 "_attn_implementation",  # its Llama has no biases, and both have one attention, whatever these say
             )),
             "optimizer.clip_grad", "optimizer.weight_decay*", "optimizer.learning_rate_scheduler*",
             "optimizer.optimizer_factory.adam_*", "tokens.train_steps", "tokens.val_check_interval", "tokens.limit_*"),
    vocabulary=("nanotron",),
    source="nanotron, config/config.py, parallelism_config.py and models_config.py",
)  # fmt: skip
TOOLS = (NANOTRON,)
