"""torchtitan's jobs as it has read them since February 23, 2026 (9810191): a function of Python that makes a config.

Sources: torchtitan of August 2026 (b5bcd76), config/README.md, config/configs.py, models/*/config_registry.py,
components/loss.py, distributed/activation_checkpoint.py, components/quantization/float8.py; of June 2026,
config/configs.py (`local_batch_size`, `seq_len` and `global_batch_size`, until 73aed7f of August 20, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.formats.code import Code, as_call
from memcore.networks.catalog import full_name
from memcore.trainers.pytorch.flavors import FLAVORS
from memcore.trainers.pytorch.torchtitan_commits import COUNTS_SEQUENCES, READS_FILES, is_among

_CHECKPOINTS: Mapping[str, str] = {"full": "FullAC", "selective": "SelectiveAC", "memory_budget": "MemoryBudgetAC"}
_REGISTERED = ("llama3", "qwen3", "deepseek_v3")
"""Families that its newest version has (models/), of those whose flavors are known; Llama 4 is in 0.2.2."""
_SEQUENCE, _BATCH, _WHOLE = "training.seq_len", "training.local_batch_size", "training.global_batch_size"
_MODE, _BUDGET = "activation_checkpoint.mode", "activation_checkpoint.memory_budget"
_SENDS = "parallelism.expert_parallel_comm_backend"
_ASYNC = "parallelism.enable_async_tensor_parallel"
_PIPED = "parallelism.pipeline_parallel_microbatch_size"
_GONE = (_SENDS, _ASYNC, "parallelism.expert_tensor_parallel_degree", "parallelism.disable_loss_parallel")
_LENGTH, _EACH = 2048, 8
"""What files mean where they say nothing (0.2.2, config/job_config.py)."""


def reads_files(config: Config) -> bool:
    """Return whether the version that a job names, or the last that has its model, reads TOML."""
    engine = EngineSettings
    return is_among(config[engine.framework] or "torchtitan", config[engine.framework_version], READS_FILES)


def function_of(keys: Mapping[str, Any]) -> str | None:
    """Return the name of the function; None for a model that the newest version does not have."""
    family, flavor = keys.get("model.name"), str(keys.get("model.flavor") or "")
    plain = "".join(each if each.isalnum() else "_" for each in flavor.lower())
    return f"{family}_{plain}" if family in _REGISTERED and plain else None


def module_of(config: Config, keys: Mapping[str, Any]) -> str:
    """Return the module of a job by the keys of its file; nothing where a file is what torchtitan reads."""
    name = function_of(keys)
    if name is None or reads_files(config):
        return ""
    loss, chunks = _loss(config)
    float8 = bool(keys.get("model.converters"))
    checkpoints = _CHECKPOINTS.get(str(keys.get(_MODE, "selective")))
    budget = {"memory_budget": keys[_BUDGET]} if checkpoints == "MemoryBudgetAC" and _BUDGET in keys else {}
    made = {
        "loss": chunks or loss,
        "model_spec": Code("model_spec"),
        "optimizer": Code("default_adamw(lr=0.0003)"),
        "training": as_call("TrainingConfig", _training(config, keys), 2),
        "parallelism": as_call("ParallelismConfig", _parallel(config, keys), 2),
        "activation_checkpoint": as_call(f"{checkpoints}.Config", budget, 2) if checkpoints else None,
        "compile": as_call("CompileConfig", _compiled(keys), 2),
    }
    lines = [
        "", *_imports(str(keys["model.name"]), checkpoints, float8=float8, chunked=bool(chunks)), "", "",
        f"def {name}() -> Trainer.Config:",
        f"    model_spec = {as_call('model_registry', _spec(keys, float8=float8), 1)}",
        f"    return {as_call('Trainer.Config', made, 1)}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _imports(family: str, checkpoints: str | None, *, float8: bool, chunked: bool) -> list[str]:
    losses = "ChunkedLossWrapper, CrossEntropyLoss" if chunked else "CrossEntropyLoss"
    named = [
        f"from torchtitan.components.loss import {losses}",
        "from torchtitan.components.optimizer import default_adamw",
        "from torchtitan.components.quantization import Float8LinearConverter" if float8 else "",
        "from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig",
        f"from torchtitan.distributed.activation_checkpoint import {checkpoints}" if checkpoints else "",
        "from torchtitan.models.common.config_utils import decoder_vocab_size",
        f"from torchtitan.models.{family} import model_registry",
        "from torchtitan.trainer import Trainer",
    ]
    return [each for each in named if each]


def _loss(config: Config) -> tuple[Code, Code | None]:
    """Return the loss, and what wraps it where it is in chunks."""
    vocabulary = {"global_vocab_size": Code("decoder_vocab_size(model_spec)")}
    word, _, chunks = str(config[Training.loss]).partition(":")
    if word != "chunked" or not chunks.isdecimal():
        return as_call("CrossEntropyLoss.Config", vocabulary, 2), None
    loss = as_call("CrossEntropyLoss.Config", vocabulary, 3)
    return loss, as_call("ChunkedLossWrapper.Config", {"num_chunks": int(chunks), "loss_fn": loss}, 2)


def _training(config: Config, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of a micro-batch and of a step, in tokens or, for earlier versions, in sequences; and dtypes."""
    length, each, whole = keys.get(_SEQUENCE, _LENGTH), keys.get(_BATCH, _EACH), keys.get(_WHOLE)
    others = {name: value for name, value in _below(keys, "training.").items()
              if name not in ("seq_len", "local_batch_size", "global_batch_size")}  # fmt: skip
    if _counts_sequences(config):
        sizes = {"local_batch_size": each, "global_batch_size": whole, "seq_len": length}
    else:
        sizes = {
            "num_tokens_per_microbatch_per_dp_rank": keys.get(_PIPED, each) * length,
            "num_tokens_per_train_step": whole * length if isinstance(whole, int) and whole > 0 else None,
            "max_context_length": length, "disable_cuda_graphs": True,
        }  # fmt: skip
    return {**{name: value for name, value in sizes.items() if value is not None}, **others}


def _counts_sequences(config: Config) -> bool:
    return is_among(config[EngineSettings.framework], config[EngineSettings.framework_version], COUNTS_SEQUENCES)


def _parallel(config: Config, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The degrees, and in a pipeline how many micro-batches a rank has, or how many sequences each of them has."""
    degrees, each = _below(keys, "parallelism."), keys.get(_PIPED)
    if each is None or _counts_sequences(config):
        return degrees
    degrees.pop(_PIPED.partition(".")[2])
    return degrees | {"num_pp_microbatches": max(keys.get(_BATCH, _EACH) // each, 1)}


def _below(keys: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {name.removeprefix(section): value for name, value in keys.items()
            if name.startswith(section) and name not in _GONE}  # fmt: skip


def _compiled(keys: Mapping[str, Any]) -> dict[str, Any]:
    together = {"enable_async_tensor_parallel": True} if keys.get(_ASYNC) is True else {}
    return _below(keys, "compile.") | together


def _spec(keys: Mapping[str, Any], *, float8: bool) -> dict[str, Any]:
    """Return the flavor, how tokens reach experts, and linear layers whose products are in float8."""
    compiles = keys.get("compile.enable") is True and "model" in keys.get("compile.components", ["model", "loss"])
    converter = as_call("Float8LinearConverter.Config",
                        {"filter_fqns": ["lm_head"], "model_compile_enabled": compiles}, 2)  # fmt: skip
    spec: dict[str, Any] = {"flavor": keys["model.flavor"]}
    spec |= {"moe_comm_backend": keys[_SENDS]} if _SENDS in keys else {}
    return spec | ({"converters": Code(f"[{converter}]")} if float8 else {})


def name_of(config: Config) -> str | None:
    """Return the name of a job's function; None where its version reads a file, or does not have the model."""
    known = FLAVORS.get(full_name(config.model), {}) if isinstance(config.model, str) else {}
    return None if reads_files(config) else function_of(known)


def launch(config: Config) -> str:
    """How a job is started: by its function, or by its file."""
    name = name_of(config)
    start = "torchrun --nnodes {nodes} --nproc_per_node {each} -m torchtitan.train"
    if name is None:
        return f"{start} --job.config_file {{file}}"
    return f"{start} --module torchtitan_job --config {name}"
