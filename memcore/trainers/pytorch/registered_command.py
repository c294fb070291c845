"""The command of a job in torchtitan's config registry: a function's name, and the keys that it overrides.

Files, which torchtitan no longer reads since February 2026 (9810191), have no loss in chunks; functions have had one
since May 2026 (d57df09).

Source: torchtitan of August 2026 (b5bcd76), config/configs.py (`TrainingConfig`, `ParallelismConfig`,
`CompileConfig`), config/manager.py, models/*/config_registry.py, distributed/activation_checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.networks.catalog import full_name
from memcore.trainers.pytorch.flavors import FLAVORS
from memcore.trainers.pytorch.registered import LOSS, REGISTRY, of_launch

_MODE, _OPTION = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
_LENGTH, _BATCH, _WHOLE = "training.seq_len", "training.local_batch_size", "training.global_batch_size"
_TENSOR = "parallelism.tensor_parallel_degree"
_FLAGS = (
    "training.dtype", "training.mixed_precision_param", "training.enable_cpu_offload",
    "compile.enable", "compile.components", _TENSOR, "parallelism.context_parallel_degree",
    "parallelism.expert_parallel_degree", "parallelism.data_parallel_shard_degree",
    "parallelism.data_parallel_replicate_degree", "parallelism.fsdp_reshard_after_forward",
)  # fmt: skip
"""Keys of files that the command has too; a pipeline's micro-batches are counted otherwise there."""
_TOKENS, _LONGEST = "training.num_tokens_per_microbatch_per_dp_rank", "training.max_context_length"
_IN_STEP = "training.num_tokens_per_train_step"
_USUAL: Mapping[str, Any] = {_LENGTH: 2048, _BATCH: 8, _MODE: "selective"}
"""What files leave out where it is the default; functions have others."""


def _changeable(row: Mapping[str, Any]) -> bool:
    """Whether a function sets nothing that flags cannot take back, such as float8 layers."""
    kept = (name for name in row if name.startswith(("compile.", "model.conv", "parallelism.")))
    return str(row.get(LOSS)).startswith("chunked") and all(name == _TENSOR for name in kept)


FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    name: {"--module": row["model.name"], "--config": function}
    for function, row in REGISTRY.items()
    if _changeable(row)
    for name, flavor in FLAVORS.items()
    if all(row[key] == value for key, value in flavor.items())
}
"""The module and the function of models whose loss runs in chunks."""


def knows(config: Config) -> bool:
    """Return whether torchtitan has a config for a model whose loss runs in chunks."""
    return isinstance(config.model, str) and full_name(config.model) in FUNCTIONS


def placed(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a file's keys as the command's flags, which count tokens instead of sequences.

    The word that chooses checkpoints stands behind the last flag: it is a subcommand, behind which tyro takes no flags
    of other sections.
    """
    flags = {name: value for name, value in words.items() if name.startswith("--")}
    flags |= {f"--{name}": words[name] for name in _FLAGS if words.get(name, False) is not False}
    flags.setdefault(f"--{_TENSOR}", 1)
    length, batch, mode = (words.get(name, usual) for name, usual in _USUAL.items())
    flags[f"--{_TOKENS}"] = length * batch
    if _WHOLE in words:
        flags[f"--{_IN_STEP}"] = length * words[_WHOLE]
    chosen = [f"activation-checkpoint:{mode}"] if mode in ("none", "full", "selective") else []
    return {**flags, f"--{_LONGEST}": [length, *chosen]}


def keys(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a command's keys as files have them; selective checkpoints are those of operations."""
    read = dict(of_launch(found) or {})
    return {**read, _OPTION: "op"} if read.get(_MODE) == "selective" else read
