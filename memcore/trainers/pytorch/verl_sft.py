"""verl's supervised fine-tuning: its trainer of today, and that of FSDP which it had until 0.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import GPUS, Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message
from memcore.trainers.pytorch import verl
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.verl import VERL

_WORDS = tuple(each for each in VERL.keys if each.name.startswith("*") and each.path != Training.sequence_length)
_STRATEGIES: Mapping[str, int] = {"fsdp": 1, "fsdp2": 2}
_DTYPES: Mapping[str, str] = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp32": "fp32",
}  # fmt: skip
_ENGINE = "engine."
_MIXED, _OVERRIDES, _TARGETS = f"{_ENGINE}mixed_precision.", "model.override_config.", "model.target_modules"
_EACH, _BATCH, _LENGTH, _TOKENS = (
    "data.micro_batch_size_per_gpu", "data.train_batch_size", "data.max_length", "data.max_token_len_per_gpu",
)  # fmt: skip
_ULYSSES, _MODULE = "engine.ulysses_sequence_parallel_size", "optim.optimizer_impl"
_DEFAULTS: Mapping[str, Any] = {_EACH: 4, _LENGTH: 1024, _TOKENS: 8192, _BATCH: 256, _ULYSSES: 1}
"""trainer/config/sft_trainer_engine.yaml and engine/fsdp.yaml."""
_OTHERS: Mapping[str, str] = {
    "engine.qat.enable": "quantization-aware training is not supported yet with this tool",
    "model.mtp.enable": "layers that predict further tokens are not supported yet with this tool",
    "model.tiled_mlp.enabled": "tiled feed-forward layers are not supported yet with this tool",
    "model.lora_adapter_path": "an adapter from a file is not supported yet; describe it with model.lora_rank",
}
_READ = (
    *_OTHERS, "engine.strategy", "engine.model_dtype", f"{_OVERRIDES}attn_implementation", "model.use_remove_padding",
    "model.use_fused_kernels", "model.enable_gradient_checkpointing", "model.lora_rank", "data.use_dynamic_bsz",
)  # fmt: skip
"""Keys that are read together with others, or whose values are words of their own."""
_OF_MEGATRON = ("engine.tensor_model_parallel_size", "engine.pipeline_model_parallel_size", "engine.use_mbridge")


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run in plain words: fp32 weights that compute in bf16, and micro-batches of packed tokens.

    Source: verl 0.9.1, trainer/sft_trainer.py, trainer/config/sft_trainer_engine.yaml, workers/engine/fsdp/
    transformer_impl.py, workers/engine/utils.py (`prepare_micro_batches`), workers/config/model.py (FlashAttention).
    """
    _refuse_others(found)
    computes = _DTYPES.get(str(found.get(f"{_MIXED}param_dtype", "bf16")), "bf16")
    fp32 = _DTYPES.get(str(found.get("engine.model_dtype", "fp32"))) == "fp32"
    kept = found.get("model.enable_gradient_checkpointing", True) is False
    normalized: dict[str, Any] = {
        **{name: value for name, value in found.items() if name not in _READ and not name.startswith(_MIXED)},
        verl.FRAMEWORK: "verl", verl.ENGINE: "fsdp",
        verl.VERSION: _STRATEGIES[str(found.get("engine.strategy", "fsdp"))],
        verl.REDUCED: _DTYPES.get(str(found.get(f"{_MIXED}reduce_dtype", "fp32")), "fp32"),
        verl.PRECISION: f"{computes}-mixed" if fp32 else computes,
        verl.ATTENTION: str(found.get(f"{_OVERRIDES}attn_implementation", "flash_attention_2")),
        verl.PACKED: found.get("model.use_remove_padding", True) is not False,
        verl.POLICY: "none" if kept else "full", verl.REENTRANT: None if kept else False,
        verl.LOSS: "fused-linear" if found.get("model.use_fused_kernels") is True else None,
    }  # fmt: skip
    if "trainer.n_gpus_per_node" in found and GPUS not in found:
        verl.gpus(normalized)
    for name, usual in (("engine.fsdp_size", -1), (_MODULE, "torch.optim")):
        if normalized.get(name) == usual:
            del normalized[name]
    if normalized[verl.VERSION] == 2:
        normalized.pop(f"{_ENGINE}use_orig_params", None)  # FSDP1's alone
    rank = found.get("model.lora_rank", 0)
    adapted = isinstance(rank, int) and rank > 0
    normalized |= {verl.ADAPTER: "lora", verl.RANK: rank} if adapted else {}
    normalized[_TARGETS] = found.get(_TARGETS, "all-linear") if adapted else None
    told = {name: found.get(name, value) for name, value in _DEFAULTS.items()}
    if found.get("data.use_dynamic_bsz", True) is not False:
        notes = _packed(normalized, told)
    else:
        notes = ()
        normalized |= {
            verl.BATCH: told[_EACH],
            _LENGTH: told[_LENGTH],
            _BATCH: found.get(_BATCH, _usual(normalized.get(GPUS), told[_EACH])),
        }
    return {name: value for name, value in normalized.items() if value is not None}, notes


def _usual(world: object, each: object) -> int | None:
    """Return the default sequences of a step, if the GPUs divide them."""
    whole: int = _DEFAULTS[_BATCH]
    fits = isinstance(world, int) and isinstance(each, int) and world * each > 0 and whole % (world * each) == 0
    return whole if fits else None


def _refuse_others(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for other engines than FSDP, and for what changes the network."""
    for name, why in _OTHERS.items():
        if found.get(name):
            raise UnsupportedError.of_value(name, found[name], why)
    other = next((name for name in _OF_MEGATRON if name in found), None)
    strategy = str(found.get("engine.strategy", "fsdp"))
    if other is not None or strategy not in _STRATEGIES:
        name = other or "engine.strategy"
        raise UnsupportedError.of_value(name, found[name], "supported: fsdp, fsdp2")


def _packed(normalized: dict[str, Any], told: Mapping[str, Any]) -> tuple[str, ...]:
    """Sequences up to a number of tokens, on the ranks that share them; a step has as many as sequences can be long."""
    tokens, ranks, longest, whole = told[_TOKENS], told[_ULYSSES], told[_LENGTH], told[_BATCH]
    normalized.pop(_BATCH, None)
    normalized |= {verl.BATCH: 1, verl.PACKED: True}
    if isinstance(tokens, int) and isinstance(ranks, int):
        normalized[_LENGTH] = tokens * ranks
    world = normalized.get(GPUS)
    if all(isinstance(size, int) and size > 0 for size in (tokens, ranks, longest, whole, world)):
        normalized[verl.STEPS] = max(1, -(-whole * ranks * longest // (world * tokens * ranks)))
    return (Message("sequences are packed up to {} tokens: counted as one sequence", _TOKENS),)


def _written(config: Config) -> dict[str, Any]:
    """FSDP's version, dtypes, padding and LoRA's rank; on each GPU a micro-batch of sequences, not of tokens."""
    given = config.get
    rank = given(Training.adapter.rank) or verl.LORA if given(Training.adapter.type) == "lora" else 0
    precision = str(given(Training.precision) or "bf16-mixed")
    computes = precision.removesuffix("-mixed")
    keys = {
        "data.use_dynamic_bsz": False, _EACH: given(Training.micro_batch_size) or 1, "data.truncation": "right",
        "engine.strategy": "fsdp" if given(EngineSettings.version) == 1 else "fsdp2",
        "engine.model_dtype": "fp32" if precision.endswith("-mixed") else "bf16",
        f"{_MIXED}param_dtype": computes if computes in ("bf16", "fp16") else "bf16",
        f"{_MIXED}reduce_dtype": given(Training.reduce_dtype) or verl.usual_reduction(config),
        "model.enable_gradient_checkpointing": given(Training.activation_checkpointing.policy) != "none",
        "model.use_remove_padding": given(Training.packed_sequences) is True,
        "model.use_fused_kernels": given(Training.loss) == "fused-linear",
        f"{_OVERRIDES}attn_implementation": verl.KERNELS.get(str(given(Training.attention))),
        "model.lora_rank": rank, "model.lora_alpha": 2 * rank if rank else None,
    }  # fmt: skip
    return {name: value for name, value in keys.items() if value is not None}


VERL_SFT = Tool(
    name="verl-sft",
    title="verl's supervised fine-tuning",
    syntax="yaml",
    engines=("fsdp",),
    implementations=("transformers", "liger"),
    tells=("engine.strategy", "engine.model_dtype", "engine.ulysses_sequence_parallel_size", "engine.fsdp_size",
           _TOKENS, "model.use_remove_padding"),
    model="model.path",
    keys=(
        *_WORDS,
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.adapter.target_modules, name=_TARGETS),
        Key(path=Training.optimizer.implementation, name=_MODULE, values=verl.MODULES),
        Key(path=Parallelism.ulysses_parallel_size, name=_ULYSSES),
        Key(path=Parallelism.data_parallel_shard_size, name="engine.fsdp_size"),
        Key(path=TorchSettings.reshard_after_forward, name=f"{_ENGINE}reshard_after_forward"),
        Key(path=TorchSettings.cpu_offload, name="engine.offload_policy"),
        Key(path=TorchSettings.no_sync, name="engine.use_no_sync_for_gradient_accumulation"),
        Key(path=TorchSettings.use_orig_params, name=f"{_ENGINE}use_orig_params"),
    ),
    meanings=(
        Meaning(sets={Training.implementation: "liger"}, keys={"model.use_liger": True}),
        Meaning(sets={Training.offload.activations: "cpu"}, keys={"model.enable_activation_offload": True}),
        *(
            Meaning(sets={Training.optimizer.name: ours}, keys={"optim.optimizer": theirs})
            for theirs, ours in verl.OPTIMIZERS.items()
        ),
    ),
    normalized=_normalized,
    settles=(*_READ, f"{_MIXED}*", _EACH, _TOKENS, _BATCH, "trainer.n_gpus_per_node", "trainer.nnodes"),
    batch=_BATCH,
    vocabulary=("verl-sft",),
    ignored=("data.*", "trainer.*", "checkpoint.*", "profiler.*", "config-*", "hydra*", "defaults", f"{_MIXED}*",
             *_READ),
    always={"hydra.searchpath": ["pkg://verl.trainer.config"], "defaults": ["sft_trainer_engine", "_self_"]},
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} -m verl.trainer.sft_trainer --config-path=$PWD "
           "--config-name={file}",
    needs={EngineSettings.framework: "verl"},
    written=_written,
    adapters=("lora",),
    unsaid=dict.fromkeys(verl.MADE_PLAIN),
    source="verl, trainer/config/sft_trainer_engine.yaml",
)  # fmt: skip


_FORMER_BATCH = 4
"""Sequences of a micro-batch where nothing is said."""


def _former(found: Mapping[str, Any]) -> Normalized:
    """verl's supervised fine-tuning: fp32 weights under FSDP2, bf16 compute, attention by FlashAttention.

    Source: verl 0.8.0.dev, trainer/fsdp_sft_trainer.py, trainer/config/sft_trainer.yaml; in January 2025
    `data.micro_batch_size` was of all GPUs (`_normalize_config_bsz`).
    """
    normalized: dict[str, Any] = {
        **found,
        verl.FRAMEWORK: "verl",
        verl.ENGINE: "fsdp",
        verl.ATTENTION: "flash_attention_2",
        verl.REDUCED: "fp32",
    }
    strategy = str(normalized.pop("model.strategy", "fsdp2"))
    normalized[verl.VERSION] = 2 if strategy == "fsdp2" else 1
    if normalized[verl.VERSION] == 1 and normalized.get("model.fsdp_config.offload_params") is not True:
        normalized.pop("model.fsdp_config.cpu_offload", None)  # CPUOffload(offload_params=False)
    fp32 = str(normalized.pop("model.fsdp_config.model_dtype", "fp32")) in ("fp32", "float32")
    normalized[verl.PRECISION] = "bf16-mixed" if fp32 else "bf16"
    if "trainer.n_gpus_per_node" in found and GPUS not in found:
        verl.gpus(normalized)
    kept = normalized.pop("model.enable_gradient_checkpointing", True)
    normalized |= {verl.POLICY: "full", verl.REENTRANT: False} if kept is not False else {verl.POLICY: "none"}
    former, ranks = normalized.pop("data.micro_batch_size", None), found.get("ulysses_sequence_parallel_size", 1)
    world = normalized.get(GPUS)
    shared = isinstance(former, int) and isinstance(world, int) and isinstance(ranks, int)
    usual = max(1, former * ranks // world) if shared and former and world else _FORMER_BATCH
    normalized[verl.BATCH] = normalized.pop("data.micro_batch_size_per_gpu", None) or usual
    normalized = {"data.max_length": 1024, "data.train_batch_size": 256, **normalized}
    normalized[verl.PACKED] = normalized.pop("use_remove_padding", False) is True
    rank = normalized.pop("model.lora_rank", 0)
    if isinstance(rank, int) and rank > 0:
        normalized |= {verl.ADAPTER: "lora", verl.RANK: rank}
        normalized.setdefault("model.target_modules", "all-linear")
    else:
        normalized.pop("model.target_modules", None)
    return normalized, ()


FORMER = Tool(
    name="verl-sft-fsdp",
    title="verl's former supervised fine-tuning",
    syntax="yaml",
    engines=("fsdp",),
    implementations=("transformers", "liger"),
    tells=("model.partial_pretrain", "model.fsdp_config.model_dtype"),
    model="model.partial_pretrain",
    keys=(
        *_WORDS,
        Key(path=Training.sequence_length, name="data.max_length"),
        Key(path=Training.adapter.target_modules, name="model.target_modules"),
        Key(path=Parallelism.ulysses_parallel_size, name="ulysses_sequence_parallel_size"),
        Key(path=TorchSettings.cpu_offload, name="model.fsdp_config.cpu_offload"),
    ),
    meanings=(Meaning(sets={Training.implementation: "liger"}, keys={"model.use_liger": True}),),
    normalized=_former,
    settles=("model.*", "data.micro_batch_size_per_gpu", "data.micro_batch_size", "trainer.n*", "use_remove_padding"),
    batch="data.train_batch_size",
    vocabulary=("verl-sft",),
    ignored=("data.*", "trainer.*", "optim.*", "model.trust_remote_code", "model.lora_alpha", "model.external_lib",
             "model.use_shm", "model.fsdp_config.wrap_policy*", "config-*",
             "hydra*", "defaults"),
    read_only=True,
    source="verl, trainer/config/sft_trainer.yaml",
)  # fmt: skip
