"""LitGPT's configs: one for each of its scripts, told apart by their keys.

Sources: litgpt 0.5 of June 2026, finetune/lora.py, finetune/full.py and pretrain.py (`setup`: strategies, precision,
`lm_head_chunk_size=128`), args.py (`TrainArgs`), lora.py (`lora_query` and its like), utils.py
(`get_default_supported_precision`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, MODEL, Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.networks.catalog import full_name
from memcore.tools.derived import gpus_of
from memcore.tools.loops import LOSS, PRECISION

_NAME, _ADAPTER, _TARGETS, _DTYPE, _CLIPS = "*version", "*adapter", "*targets", "*adapter_dtype", "*clips"
_OUTPUTS, _COMPILES = "*outputs", "*compiles"
_OPTIMIZER, _HOW, _FRAMEWORK, _CHECKPOINTS = "*optimizer_name", "*implementation", "*framework", "*checkpoints"
_PLACES: Mapping[str, tuple[str, ...]] = {
    "lora_query": ("q_proj",), "lora_key": ("k_proj",), "lora_value": ("v_proj",), "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"), "lora_head": ("lm_head",),
}  # fmt: skip
_USUAL: Mapping[str, bool] = {"lora_query": True, "lora_value": True}
_PRECISIONS: Mapping[str, str] = {
    "bf16-true": "bf16", "16-true": "fp16", "32-true": "fp32", "bf16-mixed": "bf16-mixed", "16-mixed": "fp16-mixed",
}  # fmt: skip
_CLASSES: Mapping[str, str] = {
    "torch.optim.AdamW": "adamw", "AdamW": "adamw", "torch.optim.Adam": "adam", "Adam": "adam",
    "torch.optim.SGD": "sgd", "SGD": "sgd", "bitsandbytes.optim.PagedAdamW": "paged-adamw",
    "bitsandbytes.optim.AdamW8bit": "adamw-8bit", "bitsandbytes.optim.PagedAdamW8bit": "paged-adamw-8bit",
}  # fmt: skip
_CHUNK = 128
"""Tokens whose logits are made at once where adapters learn; a full fine-tune makes all of them."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    found = _told(found)
    normalized = {_FRAMEWORK: "lit-gpt", _OUTPUTS: True, **found}  # `logits` lives until the backward pass is done
    name = found.get("checkpoint_dir", found.get("model_name"))
    if isinstance(name, str):
        normalized[MODEL] = "/".join(name.rstrip("/").split("/")[-2:])
    for each in ("checkpoint_dir", "model_name"):
        normalized.pop(each, None)
    adapted = any(each.startswith("lora_") for each in found)
    pretrains = "checkpoint_dir" not in found
    said = str(normalized.pop("precision", None) or "bf16-mixed")
    normalized[PRECISION] = _PRECISIONS.get(said, said)
    notes: list[str] = []
    if adapted:
        normalized |= {_ADAPTER: "lora", _TARGETS: _targets(normalized), "lora_r": found.get("lora_r", 8)}
        normalized |= {_DTYPE: _PRECISIONS[said]} if said.endswith("-true") else {}
    _spread(normalized, adapted, pretrains)
    _optimizer(normalized)
    length = found.get("train.max_seq_length")
    normalized |= {_COMPILES: True} if pretrains else {_CLIPS: False}
    if not adapted:
        normalized[LOSS] = "cross-entropy-fp32"
    elif isinstance(length, int):
        normalized[LOSS] = f"chunked:{-(-length // _CHUNK)}"
    if not isinstance(length, int):
        notes.append(
            "train.max_seq_length is not set, so the sequence length depends on the data; set the length with --seq"
        )
    normalized.setdefault("train.micro_batch_size", 1 if not pretrains else 4)
    return normalized, tuple(notes)


_COMMAND = re.compile(r"\blitgpt\s(finetune|pretrain)[_\s]?(lora|full|adapter_v2|adapter)?")


def _told(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of a file that a command amounts to; what it runs on stands behind it (litgpt, __main__.py).

    Raises UnsupportedError for LLaMA-Adapter.
    """
    command = _COMMAND.search(str(found.get("", "")))
    if command is None:
        return found
    loop = command[2] or ("lora" if command[1] == "finetune" else "")
    if loop.startswith("adapter"):
        raise UnsupportedError("the command", "found {!r:.80}; supported: {}", command[0], "lora, full, pretrain")
    base = {"model_name" if command[1] == "pretrain" else "checkpoint_dir": found[MODEL]} if MODEL in found else {}
    rest = {name: value for name, value in found.items() if name != MODEL}
    return {**base, **({"lora_r": 8} if loop == "lora" else {}), **rest}


def _targets(normalized: dict[str, Any]) -> list[str]:
    """Return the layers with LoRA, by the names that their matrices have elsewhere."""
    said = {**_USUAL, **{name: normalized.pop(name) for name in _PLACES if name in normalized}}
    return [place for name, places in _PLACES.items() if said.get(name) is True for place in places]


def _spread(normalized: dict[str, Any], adapted: bool, pretrains: bool) -> None:
    """GPUs, and what shards over them: FSDP2 with LoRA, FSDP1 else; fine-tuning on several GPUs has checkpoints."""
    devices, nodes = normalized.pop("devices", 1), normalized.pop("num_nodes", 1)
    if not (isinstance(devices, int) and isinstance(nodes, int)):
        normalized[ENGINE] = "fsdp"
        return
    normalized[GPUS] = devices * nodes
    if devices * nodes > 1:
        normalized |= {ENGINE: "fsdp", _NAME: 2 if adapted else 1}
    normalized[_CHECKPOINTS] = "full" if devices * nodes > 1 and not pretrains else "none"


def _optimizer(normalized: dict[str, Any]) -> None:
    said = normalized.pop("optimizer", None) or normalized.pop("optimizer.class_path", None) or "AdamW"
    name = _CLASSES.get(str(said))
    if name is None:
        raise UnsupportedError("optimizer", "found {!r:.80}; supported: {}", said, ", ".join(_CLASSES))
    normalized[_OPTIMIZER] = name
    if "bitsandbytes" in str(said):
        normalized[_HOW] = "bitsandbytes"


_NODE = 8
"""GPUs of a node where nothing is said."""
_RATE = 2e-4


def _places(named: Any) -> list[str]:
    """Return the matrices that adapters stand next to, one by one."""
    if named in (None, "all-linear"):
        return [place for name, places in _PLACES.items() if name != "lora_head" for place in places]
    return list(named) if isinstance(named, list) else [named]


def _pretrains(config: Config) -> bool:
    """Return whether the script is the one that compiles, and clips gradients."""
    return config[Training.compile] is True and config[Training.adapter.type] is None


def _launch(config: Config) -> str:
    """Return the script of a job (litgpt, __main__.py)."""
    adapted = "finetune_lora" if config[Training.adapter.type] == "lora" else "finetune_full"
    return " ".join(("litgpt", "pretrain" if _pretrains(config) else adapted, "--config {file}"))


def _written(config: Config) -> dict[str, Any]:
    """The keys of the script's config: devices, precision, the optimizer's class, and which matrices have LoRA."""
    gpus, node = gpus_of(config) or 1, config[Hardware.gpus_per_node] or _NODE
    each = max(size for size in range(1, min(node, gpus) + 1) if gpus % size == 0)
    name = full_name(config.model) if isinstance(config.model, str) else "litgpt/model"
    pretrains = _pretrains(config)
    keys: dict[str, Any] = {"model_name": name.rpartition("/")[2]}
    if not pretrains:
        keys = {"checkpoint_dir": f"checkpoints/{name}"}
    keys |= {"devices": each, "num_nodes": gpus // each}
    precision = {ours: theirs for theirs, ours in _PRECISIONS.items()}.get(config[Training.precision] or "")
    keys |= {"precision": precision} if precision else {}
    own = "bitsandbytes" if config[Training.optimizer.implementation] == "bitsandbytes" else "torch"
    wanted = config[Training.optimizer.name] or "adamw"
    chosen = next((each for each, ours in _CLASSES.items() if ours == wanted and each.startswith(own)), None)
    keys |= {"optimizer.class_path": chosen, "optimizer.init_args.lr": _RATE} if chosen else {}
    if pretrains:
        keys |= {"train.max_norm": 1.0} if config[Training.gradient_clipping] is not False else {}
    if config[Training.adapter.type] != "lora":
        return keys
    places = _places(config[Training.adapter.target_modules])
    return {**keys, **{name: any(place in places for place in parts) for name, parts in _PLACES.items()},
            "lora_r": config[Training.adapter.rank] or 8}  # fmt: skip


LITGPT = Tool(
    name="litgpt",
    title="LitGPT",
    syntax="yaml",
    engines=("none", "fsdp"),
    prefixes=("litgpt finetune", "litgpt pretrain"),
    tells=("lora_query", "logger_name", "train.lr_warmup_steps", "train.save_interval"),
    model=MODEL,
    batch="train.global_batch_size",
    keys=(
        Key(path=Training.micro_batch_size, name="train.micro_batch_size"),
        Key(path=Training.sequence_length, name="train.max_seq_length"),
        Key(path=Training.precision, name=PRECISION),
        Key(path=Training.loss, name=LOSS),
        Key(path=Training.compile, name=_COMPILES),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.rank, name="lora_r"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name=_TARGETS, spelled=_places),
        Key(path=Training.adapter.dtype, name=_DTYPE),
        Key(path=Training.optimizer.name, name=_OPTIMIZER),
        Key(path=Training.optimizer.implementation, name=_HOW),
        Key(path=Training.activation_checkpointing.policy, name=_CHECKPOINTS),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.outputs_kept, name=_OUTPUTS),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.version, name=_NAME),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(
            path=Training.quantization,
            name="quantize",
            values={"nf4": "bnb.nf4", "nf4-double": "bnb.nf4-dq", "fp4": "bnb.fp4", "fp4-double": "bnb.fp4-dq",
                    "int8": "bnb.int8-training"},
        ),
    ),
    meanings=(Meaning(sets={Training.gradient_clipping: True}, keys={"train.max_norm": 1.0}),),
    normalized=_normalized,
    ignored=("out_dir", "resume", "data", "data.*", "eval.*", "logger_name", "log.*", "seed", "access_token",
             "lora_alpha", "train.save_interval", "train.log_interval", "train.lr_*", "train.epochs",
             "train.max_tokens", "train.max_steps", "train.max_time", "train.min_lr", "train.max_norm",
             "optimizer.init_args.*", "tokenizer_dir", "initial_checkpoint_dir", "override_max_seq_length"),
    needs={EngineSettings.framework: "lit-gpt"},
    always={"logger_name": "csv", "train.save_interval": 1000},
    launch_of=_launch,
    only_with={Training.quantization: {Training.adapter.type: "lora"}},
    written=_written,
    adapters=("lora",),
    unsaid={
        **dict.fromkeys((
            Training.precision, Training.micro_batch_size, Training.gradient_accumulation_steps,
            Training.sequence_length, Training.loss, Training.gradient_clipping, Training.optimizer.name,
            Training.adapter.target_modules, Training.adapter.rank, Training.adapter.dtype,
            Training.activation_checkpointing.policy, EngineSettings.version,
        )),
        Training.optimizer.implementation: "foreach",
    },
    source="litgpt, finetune/ and pretrain.py",
)  # fmt: skip
