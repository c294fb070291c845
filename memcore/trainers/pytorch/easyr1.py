"""EasyR1's command lines and configs: verl's update of the actor, in words of its own.

Source: EasyR1 0.3.3.dev, verl/trainer/config.py, verl/workers/config.py; verl/workers/fsdp_workers.py (FSDP1, weights
in fp32 but for `fsdp.torch_dtype`, FlashAttention, checkpoints that are not reentrant); verl/workers/actor/dp_actor.py
(a micro-batch of dynamic batching has at most as many tokens as one of full sequences).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import Normalized
from memcore.messages import Message
from memcore.trainers.pytorch.verl import KERNEL, VERL

_ACTOR, _VERL = "worker.actor.", "actor_rollout_ref.actor."
_MODEL, _OF_VERL = f"{_ACTOR}model.", "actor_rollout_ref.model."
_NAMES: Mapping[str, str] = {
    f"{_MODEL}model_path": f"{_OF_VERL}path",
    f"{_MODEL}enable_gradient_checkpointing": f"{_OF_VERL}enable_gradient_checkpointing",
    f"{_MODEL}freeze_vision_tower": f"{_VERL}freeze_vision_tower",
    f"{_MODEL}lora.rank": f"{_OF_VERL}lora_rank",
    f"{_MODEL}lora.target_modules": f"{_OF_VERL}target_modules",
    f"{_ACTOR}global_batch_size": f"{_VERL}ppo_mini_batch_size",
    f"{_ACTOR}micro_batch_size_per_device_for_update": f"{_VERL}ppo_micro_batch_size_per_gpu",
    f"{_ACTOR}padding_free": f"{_OF_VERL}use_remove_padding",
    f"{_ACTOR}ulysses_size": f"{_VERL}ulysses_sequence_parallel_size",
    f"{_ACTOR}fsdp.fsdp_size": f"{_VERL}fsdp_config.fsdp_size",
    f"{_ACTOR}fsdp.enable_cpu_offload": f"{_VERL}fsdp_config.offload_policy",
    f"{_ACTOR}fsdp.torch_dtype": f"{_VERL}fsdp_config.model_dtype",
    f"{_ACTOR}fsdp.mp_reduce_dtype": f"{_VERL}fsdp_config.mixed_precision.reduce_dtype",
    "worker.rollout.n": "actor_rollout_ref.rollout.n",
}  # fmt: skip
"""Its keys by verl's names; those of `data`, `algorithm` and `trainer` are the same."""
_CLASSES: Mapping[str, Any] = {
    f"{_ACTOR}global_batch_size": 256, f"{_ACTOR}micro_batch_size_per_device_for_update": 4, "worker.rollout.n": 1,
    "data.max_prompt_length": 512, "data.max_response_length": 512, "algorithm.adv_estimator": "grpo",
}  # fmt: skip
"""What its classes take where neither the file nor the command says it."""
_EXAMPLE = "examples/config.yaml"
_IN_EXAMPLE: Mapping[str, Any] = {
    f"{_ACTOR}global_batch_size": 128, f"{_ACTOR}micro_batch_size_per_device_for_update": 1, "worker.rollout.n": 5,
    "data.max_prompt_length": 2048, "data.max_response_length": 2048,
    f"{_MODEL}model_path": "Qwen/Qwen2.5-7B-Instruct",
}  # fmt: skip
"""What decides memory in the file that nearly all of its commands override."""
_DTYPES = frozenset((f"{_VERL}fsdp_config.model_dtype", f"{_VERL}fsdp_config.mixed_precision.reduce_dtype"))
_BF16 = {"bf16": "bf16", "bfloat16": "bf16"}


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run in verl's words, with what its own file has where the command names that file alone."""
    notes: list[str] = []
    file = found.get("config")
    base = _CLASSES
    if isinstance(file, str) and file.endswith(_EXAMPLE):
        base = {**_CLASSES, **_IN_EXAMPLE}
        notes.append(Message("{} is not given: EasyR1 0.3's own is assumed", _EXAMPLE))
    elif file is not None:
        raise UnsupportedError("config", "found {!r}; pass that file as well", file)
    said = {**base, **found}
    full = f"{_ACTOR}fsdp.enable_full_shard"
    if said.pop(full, True) is not True:
        raise UnsupportedError(full, "found {!r}; supported: {!r}", False, True)
    optimizer = str(said.pop(f"{_ACTOR}optim.strategy", "adamw"))
    if optimizer != "adamw":
        raise UnsupportedError(f"{_ACTOR}optim.strategy", "found {!r}; supported: {}", optimizer, "adamw")
    lora = f"{_OF_VERL}target_modules"
    plain = {_NAMES.get(name, name): value for name, value in said.items()}
    if isinstance(plain.get(lora), str) and plain[lora] != "all-linear":
        plain[lora] = [each.strip() for each in plain[lora].split(",") if each.strip()]
    for dtype in _DTYPES & plain.keys():
        plain[dtype] = _BF16.get(str(plain[dtype]), "fp32")
    normalized, more = (VERL.normalized or _unchanged)(plain)
    return {**normalized, KERNEL: "fused"}, (*notes, *more)  # verl/workers/fsdp_workers.py: `fused=True`


def _unchanged(found: Mapping[str, Any]) -> Normalized:
    return found, ()


_SHARED = ("data.max_prompt_length", "data.max_response_length", "algorithm.adv_estimator", "trainer.n_gpus_per_node",
           "trainer.nnodes")  # fmt: skip
"""Keys that are verl's."""
_THEIRS = {of_verl: theirs for theirs, of_verl in _NAMES.items()} | {name: name for name in _SHARED}


def _placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """verl's keys by EasyR1's names; those that it has no name for are left out."""
    keys = {_THEIRS[name]: value for name, value in words.items() if name in _THEIRS}
    places = keys.get(f"{_MODEL}lora.target_modules")
    return {**keys, **({f"{_MODEL}lora.target_modules": ",".join(places)} if isinstance(places, list) else {})}


def _written(config: Config) -> dict[str, Any]:
    """Return what several settings give together, and answers, of which the example's file has five."""
    words = VERL.written(config) if VERL.written is not None else {}
    return {**_placed(words), "worker.rollout.n": 1}


EASYR1 = replace(
    VERL,
    name="easyr1",
    title="EasyR1",
    tells=("worker.actor", "worker.rollout"),
    normalized=_normalized,
    vocabulary=("easyr1", "verl"),
    settles=(*VERL.settles, f"{_ACTOR}*", "worker.rollout.n"),
    ignored=(*VERL.ignored, "worker.*", "algorithm.*", "data.*", "trainer.*", "config"),
    placed=_placed,
    written=_written,
    always={},
    unsaid={**VERL.unsaid, Training.optimizer.implementation: None},
    launch="python3 -m verl.trainer.main config={file}",
    source="EasyR1, verl/workers/config.py",
)
