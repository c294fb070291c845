"""torchtitan's config registries: modules whose functions make the configs that its files held before.

A command names a function, `--module llama3 --config llama3_8b`, and overrides its keys.

Source: torchtitan of August 2026 (b5bcd76), models/*/config_registry.py, trainer.py (`Trainer.Config`),
config/configs.py, config/manager.py (`--module`, `--config`), run_train.sh, components/loss.py (`ChunkedLossWrapper`),
distributed/activation_checkpoint.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.builders import FUNCTION, built
from memcore.formats.normalized import GPUS, PER_NODE
from memcore.formats.readers import flat, read_file, started
from memcore.formats.shell import ENVIRONMENT, FILE
from memcore.messages import Message, joined

TELLS = "Trainer.Config("
REFUSED, LOSS, ROOM = "*refused", "*loss", "*room"
_MODEL = re.compile(r"^from\s\.model\simport\s(\w{1,80}?)Model\b", re.MULTILINE)
_NAMES: Mapping[str, str] = {"DeepSeekV3": "deepseek_v3", "GptOss": "gpt_oss", "Qwen35": "qwen3_5"}
_STARTS: Mapping[str, str] = {"deepseek": "deepseek_v3", "gpt": "gpt_oss", "qwen35": "qwen3_5", "sft": "llama3"}
"""Families by what the names of functions begin with, where that is another word."""
_CHECKPOINTS: Mapping[str, str] = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "memory_budget"}
_OPTIONS: Mapping[str, str] = {"SelectiveAC": "op"}
"""What classes checkpoint that say no option (distributed/activation_checkpoint.py: by operations alone)."""
_CONVERTERS: Mapping[str, str] = {"Float8LinearConverter": "float8"}
_TOKENS, _LENGTH = "training.num_tokens_per_microbatch_per_dp_rank", "training.max_context_length"
_SEQUENCE, _BATCH, _MODE = "training.seq_len", "training.local_batch_size", "activation_checkpoint.mode"
_SENDS, _BUDGET = "parallelism.expert_parallel_comm_backend", "activation_checkpoint.memory_budget"
_OPTION = "activation_checkpoint.selective_ac_option"
_COUNT, _STAGES = "parallelism.num_pp_microbatches", "parallelism.pipeline_parallel_degree"
_EACH = "parallelism.pipeline_parallel_microbatch_size"
_STEP, _WHOLE = "training.num_tokens_per_train_step", "training.global_batch_size"
_KEPT = ("training", "parallelism", "compile", "checkpoint", "validation")
CHUNKS = 8
"""Parts of a loss where nothing is said (components/loss.py, `ChunkedLossWrapper.Config`)."""


def configs(code: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each config of a registry by its function's name, with the keys of torchtitan's files."""
    model = _MODEL.search(code)
    for name, config in built(code).items():
        if not name.startswith("_") and str(config.get(FUNCTION, "")).endswith(TELLS.rstrip("(")):
            first = name.split("_")[0]
            family = _NAMES.get(model[1], model[1].lower()) if model else _STARTS.get(first, first)
            yield name, _keys(config, family)


def _keys(config: Mapping[str, Any], family: str) -> dict[str, Any]:
    sections = {section: config[section] for section in _KEPT if isinstance(config.get(section), dict)}
    keys = {name: value for name, value in flat(sections).items() if not name.endswith(FUNCTION)}
    spec = config.get("model_spec")
    if isinstance(spec, dict):
        keys |= {"model.name": family, "model.flavor": spec.get("0", spec.get("flavor"))}
        keys |= _converted(spec.get("converters"))
        if "moe_comm_backend" in spec:
            keys |= {_SENDS: spec["moe_comm_backend"], ROOM: spec.get("non_blocking_capacity_factor")}
    keys = _by_tokens(keys)
    checkpoints = config.get("activation_checkpoint")
    if isinstance(checkpoints, dict):
        kind = str(checkpoints.get(FUNCTION, "")).partition(".")[0]
        keys |= {_MODE: checkpoints.get("mode", _CHECKPOINTS.get(kind, kind))}
        keys |= {_OPTION: checkpoints.get("selective_ac_option", _OPTIONS.get(kind))}
        keys |= {_BUDGET: checkpoints["memory_budget"]} if "memory_budget" in checkpoints else {}
    elif checkpoints is None and "activation_checkpoint" in config:
        keys[_MODE] = "none"
    loss = config.get("loss")
    if isinstance(loss, dict) and str(loss.get(FUNCTION)).startswith("ChunkedLoss"):
        keys[LOSS] = f"chunked:{loss.get('num_chunks', CHUNKS)}"
    return {name: value for name, value in keys.items() if value is not None}


def _by_tokens(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with sequences of a micro-batch and of a step, where tokens and the longest context are given."""
    length, tokens = keys.get(_LENGTH), keys.get(_TOKENS)
    left = {name: value for name, value in keys.items() if name not in (_LENGTH, _TOKENS, _STEP)}
    step = keys.get(_STEP, -1)
    length = left.get(_SEQUENCE) if length is None else length
    if length is not None:
        left[_SEQUENCE] = length
    count = left.pop(_COUNT, 1)
    if isinstance(length, int) and length > 0 and (_LENGTH in keys or tokens is not None):
        each = max(1, (tokens if isinstance(tokens, int) else length) // length)
        left[_BATCH] = each
        if left.get(_STAGES, 1) != 1 and isinstance(count, int):
            left |= {_BATCH: each * count, _EACH: each}
    if isinstance(length, int) and length > 0 and isinstance(step, int) and step > 0:
        left[_WHOLE] = max(1, step // length)
    return left


def _converted(found: object) -> dict[str, Any]:
    """Layers that are replaced: float8's in the words of files, others by their names."""
    names = [str(each.get(FUNCTION, "")).partition(".")[0] for each in found if isinstance(each, dict)] if isinstance(
        found, list
    ) else []  # fmt: skip
    strange = [name for name in names if name not in _CONVERTERS]
    if strange:
        return {REFUSED: strange[0]}
    return {"model.converters": [_CONVERTERS[name] for name in names]} if names else {}


def _row(family: str, flavor: str, length: int, batch: int, mode: str, **more: Any) -> dict[str, Any]:
    """Return the keys of a function: sections stand before two underscores."""
    return {
        "model.name": family, "model.flavor": flavor, _SEQUENCE: length, _BATCH: batch, _MODE: mode,
        LOSS: f"chunked:{CHUNKS}", **{name.replace("__", "."): value for name, value in more.items()},
    }  # fmt: skip


_COMPILED: Mapping[str, Any] = {"compile__enable": True, "compile__components": ["loss"]}
_INTERLEAVED: Mapping[str, Any] = {"parallelism__pipeline_parallel_schedule": "Interleaved1F1B", **_COMPILED}
REGISTRY: Mapping[str, Mapping[str, Any]] = {
    "llama3_8b": _row("llama3", "8B", 8192, 1, "selective"),
    "llama3_70b": _row("llama3", "70B", 8192, 8, "full", parallelism__tensor_parallel_degree=8),
    "llama3_405b": {
        **_row("llama3", "405B", 8192, 2, "full", parallelism__tensor_parallel_degree=8, compile__enable=True),
        "model.converters": ["float8"], "parallelism.enable_async_tensor_parallel": True,
    },
    "qwen3_0_6b": _row("qwen3", "0.6B", 4096, 4, "selective"),
    "qwen3_1_7b": _row("qwen3", "1.7B", 4096, 4, "selective"),
    "qwen3_14b": _row("qwen3", "14B", 4096, 4, "full"),
    "qwen3_32b": _row("qwen3", "32B", 4096, 2, "full"),
    "qwen3_30b_a3b": _row("qwen3", "30B-A3B", 4096, 2, "full"),
    "sft_qwen3_8b_math": _row("qwen3", "8B", 2048, 1, "selective"),
    "deepseek_v3_16b": _row("deepseek_v3", "16B", 4096, 4, "selective", parallelism__expert_parallel_degree=8,
                            **_INTERLEAVED),
    "deepseek_v3_16b_hybridep": {
        **_row("deepseek_v3", "16B", 4096, 4, "selective", parallelism__expert_parallel_degree=8, **_INTERLEAVED),
        _SENDS: "hybridep",
        ROOM: 1.0,
    },
    "deepseek_v3_671b": _row("deepseek_v3", "671B", 4096, 4, "selective", parallelism__expert_parallel_degree=2,
                             **_INTERLEAVED),
}  # fmt: skip
"""Functions of models/{llama3,qwen3,deepseek_v3}/config_registry.py by their names, whose models are supported."""
_PROGRAM, _FILE_KEY = "torchtitan.train", "job.config_file"
_SCRIPT = "run_train.sh"
_OF_ALL = 8
"""Processes of a node where nothing is said (run_train.sh, `NGPU`)."""
_AS_SECTIONS: Mapping[str, str] = {f"activation-checkpoint:{kind}": kind for kind in ("none", "full", "selective")}
"""Words of a command that choose a kind of checkpoints (tyro's subcommands, distributed/activation_checkpoint.py)."""


def of_launch(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the keys of the config that a command of torchtitan names, with those that it overrides; None for others.

    Raises ConfigError for a command that names a file, and UnsupportedError for a function that is not known.
    """
    program = f"{found.get('', '')} {found.get('*', '')} {found.get('-m', '')}"
    named = found.get("--config", found.get(f"{ENVIRONMENT}CONFIG"))
    by_file = found.get("--job.config_file", found.get(f"{ENVIRONMENT}CONFIG_FILE"))
    if _PROGRAM not in program and (_SCRIPT not in program or (named, by_file) == (None, None)):
        return None
    text = found.get(f"{FILE}{str(by_file).rpartition('/')[2]}")
    if isinstance(text, str):
        keys = read_file(text)[1]
        return {**keys, **_overridden(found, keys), **_processes(found), "": _PROGRAM}
    if by_file is not None:
        message = "its settings are in another file, which it only names: {}; pass that file"
        raise ConfigError.at("the command", message, by_file)
    row = REGISTRY.get(str(named))
    if row is None:
        key = "--config" if "--config" in found else "CONFIG"
        message = Message("pass the config_registry.py that has it, or one of {}", joined(", ", REGISTRY))
        raise UnsupportedError.of_value(key, named, message)
    return {**row, **_by_tokens(_overridden(found, row)), **_processes(found), "": _PROGRAM}


def _overridden(found: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that flags override, and the kind of checkpoints that a word chooses."""
    dotted = {name.removeprefix("--").replace("-", "_"): value for name, value in found.items() if "." in name}
    keys = {name: _plain(value) for name, value in dotted.items() if not name.startswith("*")}
    words = str(found.get("", "")).split() + [str(each) for value in found.values() for each in _several(value)]
    chosen = [_AS_SECTIONS[word] for word in words if word in _AS_SECTIONS]
    keys |= {_MODE: chosen[-1]} if chosen else {}
    own = {name: value for name, value in keys.items() if name != _FILE_KEY}
    counted = not own.keys().isdisjoint((_TOKENS, _STEP))
    return {_LENGTH: row.get(_SEQUENCE), **own} if counted and _LENGTH not in own else own


def _plain(value: Any) -> Any:
    """Return the value of a flag without words behind it that choose a section's kind."""
    left = [each for each in _several(value) if each not in _AS_SECTIONS]
    return left[0] if len(left) == 1 else left or True


def _several(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _processes(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the GPUs of a command, which are those of its launcher or of its script, and the variables around it."""
    around = {name: value for name, value in found.items() if name.startswith(ENVIRONMENT)}
    if _SCRIPT in str(found.get("", "")):
        return {**around, GPUS: found.get(f"{ENVIRONMENT}NGPU", _OF_ALL)}
    counts = started(found)
    return {**around, **{name: count for name, count in counts.items() if name in (GPUS, PER_NODE)}}
