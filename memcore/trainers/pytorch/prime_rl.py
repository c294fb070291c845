"""prime-rl's files: its trainer of reinforcement learning and its supervised one, on FSDP2.

Sources: prime-rl 0.8.0, packages/prime-rl-configs/src/prime_rl/configs/{rl,sft,trainer}.py, utils/validation.py
(`propagate_shared_fields`: the trainer's own keys come before those that all processes share); src/prime_rl/trainer/
model.py (`setup_fsdp`: products in bf16, weights in `optimization_dtype`), parallel_dims.py (`resolve_ep`),
optim.py, sft/train.py (micro-batches of a step).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, MODEL, Normalized
from memcore.formats.tool import Key, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import find_model
from memcore.networks.usual_targets import LLAMA_LINEARS
from memcore.tools.towers import FREEZES, TRAINABLE, trained_parts
from memcore.trainers.pytorch.settings import TorchSettings

_RELEASE = "0.8.0"
_TRAINER = "trainer."
_LENGTH, _MICRO, _STEPS, _SHARDS, _COPIES = "*length", "*micro", "*steps", "*shards", "model.dp_replicate"
_PRECISION, _REDUCED, _CLIPS, _POLICY, _OFFLOADED = "*precision", "*reduced", "*clips", "*policy", "*offloaded"
_STATES, _COMPILED, _LOSS, _ATTENTION, _FLASH = "*states", "*compiled", "*loss", "*attention", "*flash"
_ADAPTER, _RANK, _PLACES, _EXPERTS, _RING, _ULYSSES = "*adapter", "*rank", "*places", "*experts", "*ring", "*ulysses"
_FRAMEWORK, _VERSION, _OPTIMIZER, _EXCHANGE = "*framework", "*release", "*optimizer", "*exchange"
_OFF = (None, False, "None", "none")
"""How a file switches a section off that its class has on."""
_USUAL: Mapping[str, Any] = {
    "model.name": "Qwen/Qwen3-0.6B", "model.seq_len": 2048, "model.ac": True, "model.ac.mode": "full",
    "model.ac.freq": 1, "model.ac_offloading": True, "model.ac_offloading.max_inflight_activations": 5,
    "model.optim_cpu_offload": True, "model.compile": True, "model.attn": "auto", "model.ep": "auto", "model.cp": 1,
    "model.cp_style": "ring", "model.impl": "auto", "model.optimization_dtype": "float32", _COPIES: 1,
    "model.reduce_dtype": "float32", "model.fused_lm_head_token_chunk_size": 1024, "model.ep_comm_backend": "torch",
    "optim.type": "adamw", "optim.max_norm": 1.0,
    "data.seq_len": 128, "data.batch_size": 128, "data.micro_batch_size": 1,
    "deployment.type": "single_node", "deployment.num_train_gpus": 1, "deployment.num_train_nodes": 2,
    "deployment.gpus_per_node": 8,
}  # fmt: skip
"""What its classes take where a file says nothing."""
_COUNTS = ("model.seq_len", "model.cp", _COPIES, "data.seq_len", "data.batch_size", "data.micro_batch_size",
           "deployment.num_train_gpus", "deployment.num_train_nodes", "deployment.gpus_per_node")  # fmt: skip
_PLACES_OF_LORA = (*LLAMA_LINEARS, "experts")
"""What LoRA adapts where nothing is said; two layers of Nemotron-H follow."""
_DTYPES: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16"}
_KERNELS: Mapping[str, int | None] = {
    "auto": None, "flash_attention_2": 2, "flash_attention_3": 3, "flash_attention_4": None,
}  # fmt: skip
_OPTIMIZERS: Mapping[str, str] = {"adamw": "adamw", "sgd": "sgd", "muon": "muon"}
_MOST_EXPERT_RANKS = 8
_SUPERVISED = ("data.seq_len", "data.batch_size", "data.micro_batch_size", "data.name", "data.type")
"""Keys that only the supervised trainer has."""
_LORA = "model.lora"


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return what the trainer of a run does; processes that generate have GPUs of their own."""
    if "model" in found:
        raise ConfigError.at("model", "found {!r}: this file only evaluates with prime-rl, which trains nothing",
                             found["model"])  # fmt: skip
    reinforces = any(name.startswith((_TRAINER, "orchestrator.")) for name in found)
    said = {name: value for name, value in found.items() if not name.startswith(_TRAINER)}
    own = {name.removeprefix(_TRAINER): value for name, value in found.items() if name.startswith(_TRAINER)}
    shared = {"model.seq_len": said["seq_len"]} if "seq_len" in said else {}
    read = {**_USUAL, **shared, **said, **own}
    for name in _COUNTS:
        if type(read[name]) is not int or read[name] < 1:
            raise ConfigError.at(name, "expected a whole number of at least {}, found {!r}", 1, read[name])
    notes = [Message("where the file says nothing, prime-rl {}'s defaults hold", _RELEASE)]
    plain: dict[str, Any] = {
        MODEL: read["model.name"], _FRAMEWORK: "prime-rl", _VERSION: _RELEASE, ENGINE: "fsdp",
        _COMPILED: read["model.compile"] not in _OFF, _CLIPS: read["optim.max_norm"] not in _OFF,
    }  # fmt: skip
    _of_gpus(read, found, plain)
    supervised = not reinforces and not found.keys().isdisjoint(_SUPERVISED)
    notes += _of_batches(read, plain, supervised=supervised)
    notes += _of_ranks(read, plain)
    _of_dtypes(read, plain)
    notes += _of_saving(read, plain)
    notes += _of_head(read, plain, supervised=supervised)
    _of_layers(read, plain)
    rest = {name: value for name, value in found.items() if name.removeprefix(_TRAINER) not in _READ}
    return {**rest, **{name: value for name, value in plain.items() if value is not None}}, tuple(notes)


def _of_gpus(read: Mapping[str, Any], found: Mapping[str, Any], plain: dict[str, Any]) -> None:
    """The trainer's GPUs, which whoever asks may say otherwise."""
    each, nodes = read["deployment.gpus_per_node"], read["deployment.num_train_nodes"]
    several = read["deployment.type"] == "multi_node"
    plain[GPUS] = found.get(GPUS, each * nodes if several else read["deployment.num_train_gpus"])
    group = read.get("deployment.nodes_per_fsdp_group")
    copies = nodes // group if several and isinstance(group, int) and group else read[_COPIES]
    if isinstance(plain[GPUS], int) and copies > 1:
        plain[_SHARDS] = plain[GPUS] // copies


def _of_batches(read: Mapping[str, Any], plain: dict[str, Any], *, supervised: bool) -> list[Any]:
    """Sequences, or rows into which answers are packed, and how many a rank takes in a step."""
    if not supervised:
        plain |= {_LENGTH: read["model.seq_len"], _MICRO: 1, _STEPS: 2}
        return ["answers are packed to rows of seq_len tokens, of which a rank is taken to have several in a step"]
    each, ranks = read["data.micro_batch_size"], plain[GPUS] if isinstance(plain[GPUS], int) else 1
    total = read["data.batch_size"] * read["model.cp"]
    if total % (ranks * each):
        said = "found {}, which is not a multiple of {} GPUs times micro_batch_size {}"
        raise ConfigError.at("data.batch_size", said, total, ranks, each)
    plain |= {_LENGTH: read["data.seq_len"], _MICRO: each, _STEPS: total // (ranks * each)}
    return []


def _of_ranks(read: Mapping[str, Any], plain: dict[str, Any]) -> list[Any]:
    """Ranks that share a sequence, or experts."""
    ring = read["model.cp_style"] == "ring"
    plain[_RING if ring else _ULYSSES] = read["model.cp"] if read["model.cp"] != 1 else None
    ranks, gpus = read["model.ep"], plain.get(_SHARDS) or plain[GPUS]
    gpus = gpus if isinstance(gpus, int) else 1
    if not _routes(plain[MODEL]):
        return []
    if ranks == "auto":
        ranks = 1 if read["model.impl"] == "hf" else min(gpus, _MOST_EXPERT_RANKS)
    plain |= {_EXPERTS: ranks, _EXCHANGE: "deepep" if read["model.ep_comm_backend"] == "deepep" else None}
    own = read["model.impl"] != "hf"
    return ["prime-rl's own experts are counted as those of transformers"] if own else []


def _routes(name: object) -> bool:
    """Return whether a model of the catalog has routed experts."""
    try:
        return isinstance(name, str) and find_model(name).has_experts
    except MemcoreError:
        return False


def _of_dtypes(read: Mapping[str, Any], plain: dict[str, Any]) -> None:
    """Dtypes of weights and of reduced gradients, where optimizer states are, and the optimizer."""
    stored, reduced = read["model.optimization_dtype"], str(read["model.reduce_dtype"])
    plain |= {_PRECISION: "bf16-mixed" if stored == "float32" else "bf16", _REDUCED: _DTYPES.get(reduced, reduced)}
    name = str(read["optim.type"])
    if name not in _OPTIMIZERS:
        raise UnsupportedError.of_value("optim.type", name, Message("supported: {}", joined(", ", _OPTIMIZERS)))
    plain[_OPTIMIZER] = _OPTIMIZERS[name]
    on_host = read["model.optim_cpu_offload"] is True and read.get("model.fsdp_cpu_offload") is not True
    plain[_STATES] = "cpu" if on_host else None


def _of_saving(read: Mapping[str, Any], plain: dict[str, Any]) -> list[Any]:
    """What is saved for the backward pass, and where; offloading switches checkpoints on."""
    offloads = read["model.ac_offloading"] not in _OFF
    saves = read["model.ac"] not in _OFF or offloads
    mode, every = read["model.ac.mode"], read["model.ac.freq"]
    if saves and mode != "full":
        raise UnsupportedError.of_value("model.ac.mode", mode, Message("supported: {}", "full"))
    if saves and every != 1:
        raise UnsupportedError.of_value("model.ac.freq", every, Message("supported: {}", 1))
    plain |= {_POLICY: "full" if saves else "none", _OFFLOADED: "cpu" if offloads else None}
    ahead = read["model.ac_offloading.max_inflight_activations"]
    usual = _USUAL["model.ac_offloading.max_inflight_activations"]
    said = "model.ac_offloading.max_inflight_activations: {} tensors on their way are counted, as prime-rl usually has"
    return [Message(said, usual)] if offloads and ahead != usual else []


def _of_head(read: Mapping[str, Any], plain: dict[str, Any], *, supervised: bool) -> list[Any]:
    """The head, which makes no logits unless that is switched off."""
    chunk = read["model.fused_lm_head_token_chunk_size"]
    if chunk == "disabled":
        plain[_LOSS] = "cross-entropy"
        said = "model.fused_lm_head_token_chunk_size: the loss of logits is counted as a cross-entropy"
        return [] if supervised else [said]
    plain[_LOSS] = "fused-head"
    usual = _USUAL["model.fused_lm_head_token_chunk_size"]
    said = "model.fused_lm_head_token_chunk_size: {} tokens at a time are counted, the default of prime-rl {}"
    return [Message(said, usual, _RELEASE)] if chunk not in (usual, "auto") else []


def _of_layers(read: Mapping[str, Any], plain: dict[str, Any]) -> None:
    """Attention, adapters, and what of a model with towers trains."""
    kernel = str(read["model.attn"])
    if kernel not in _KERNELS and kernel not in ("sdpa", "eager"):
        raise UnsupportedError.of_value("model.attn", kernel, Message("supported: {}", joined(", ", _KERNELS)))
    plain |= {_ATTENTION: {"sdpa": "sdpa", "eager": "math"}.get(kernel, "flash"), _FLASH: _KERNELS.get(kernel)}
    if read.get(_LORA, any(name.startswith(f"{_LORA}.") for name in read)) in _OFF:
        keys = {name: value for name, value in read.items() if name in FREEZES["prime-rl"].keys}
        plain |= trained_parts("prime-rl", keys, plain[MODEL])
        return
    said = read.get(f"{_LORA}.target_modules", [*_PLACES_OF_LORA])
    places = said if isinstance(said, list) else [said]
    if "experts" in places and _routes(plain[MODEL]):
        message = "adapters of routed experts are not supported yet; leave experts out"
        raise UnsupportedError.of_value(f"{_LORA}.target_modules", "experts", message)
    places = [each for each in places if each != "experts"]
    plain |= {_ADAPTER: "lora", _RANK: read.get(f"{_LORA}.rank", 16), _PLACES: places}


_READ = (*_USUAL, "seq_len", "model.fsdp_cpu_offload", _LORA, f"{_LORA}.rank", f"{_LORA}.target_modules", "model.vlm",
         "model.ac.targets", "deployment.nodes_per_fsdp_group", *FREEZES["prime-rl"].keys)  # fmt: skip
PRIME_RL = Tool(
    name="prime-rl",
    title="prime-rl",
    syntax="toml",
    engines=("fsdp",),
    implementations=("transformers",),
    tells=("orchestrator", "trainer.model", "trainer.optim", "optim.lr", "optim.type", "data.seq_len",
           "deployment.num_train_gpus", "eval.source"),
    read_only=True,
    model=MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name=_MICRO),
        Key(path=Training.gradient_accumulation_steps, name=_STEPS),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.reduce_dtype, name=_REDUCED),
        Key(path=Training.optimizer.name, name=_OPTIMIZER),
        Key(path=Training.optimizer.momentum, name="optim.momentum", also=("trainer.optim.momentum",)),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.compile, name=_COMPILED),
        Key(path=Training.loss, name=_LOSS),
        Key(path=Training.attention, name=_ATTENTION),
        Key(path=Training.flash_version, name=_FLASH),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY),
        Key(path=Training.offload.activations, name=_OFFLOADED),
        Key(path=Training.offload.optimizer, name=_STATES),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.rank, name=_RANK),
        Key(path=Training.adapter.target_modules, name=_PLACES),
        Key(path=Training.adapter.dropout, name=f"{_LORA}.dropout", also=(f"{_TRAINER}{_LORA}.dropout",)),
        Key(path=Training.adapter.modules_to_save, name=f"{_LORA}.modules_to_save",
            also=(f"{_TRAINER}{_LORA}.modules_to_save",)),
        Key(path=TorchSettings.reshard_after_forward, name="model.reshard_after_forward",
            also=("trainer.model.reshard_after_forward",)),
        Key(path=TorchSettings.cpu_offload, name="model.fsdp_cpu_offload", also=("trainer.model.fsdp_cpu_offload",)),
        Key(path=TorchSettings.moe_token_dispatcher, name=_EXCHANGE),
        Key(path=Parallelism.data_parallel_shard_size, name=_SHARDS),
        Key(path=Parallelism.expert_parallel_size, name=_EXPERTS),
        Key(path=Parallelism.context_parallel_size, name=_RING),
        Key(path=Parallelism.ulysses_parallel_size, name=_ULYSSES),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=EngineSettings.framework_version, name=_VERSION),
    ),
    normalized=_normalized,
    settles=("model", "optim", "trainer.model", "trainer.optim", *_READ, *(f"{_TRAINER}{name}" for name in _READ)),
    ignored=("orchestrator.*", "inference.*", "teacher_inference.*", "eval.*", "val.*", "env_vars.*",
             "trainer.env_vars.*", "monitors.*", "slurm.*", "renderer.*"),
    vocabulary=("prime-rl",),
    closed=True,
    source="prime-rl, configs/{rl,sft,trainer}.py",
)  # fmt: skip
