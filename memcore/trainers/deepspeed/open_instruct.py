"""open-instruct's GRPO: learners of packed answers over DeepSpeed, on other GPUs than vLLM's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import CHECKPOINTS, ENGINE, GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message
from memcore.tools.derived import gpus_of
from memcore.tools.launchers import is_set
from memcore.tools.methods import COMPLETION, METHOD, REFERENCE, SHARE
from memcore.trainers.deepspeed.settings import DeepSpeedSettings

_FRAMEWORK, _PRECISION, _WIDTH, _PACKED, _TIMES = "*framework", "*precision", "*width", "*packed", "*times"
_PACK, _SHARED, _LEARNERS = "pack_length", "vllm_gpu_memory_utilization", "num_learners_per_node"
_STAGE, _HPZ = "deepspeed_stage", "deepspeed_zpg"
_SEVERAL = 2
"""Micro-batches that stand for any number of them above one."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a command of grpo_fast.py in plain words: bf16 weights, checkpoints, FlashAttention over packed answers.

    Sources: open-instruct e6c3044aa (August 2026), open_instruct/grpo_fast.py (`PolicyTrainerRayProcess`),
    grpo_utils.py (`GRPOExperimentConfig`, `forward_for_logprobs`), data_loader.py (`StreamingDataLoaderConfig`),
    olmo_core_utils.py (`TrainingConfig`), utils.py (`get_train_ds_config`).
    """
    program = str(found.get("", ""))
    if re.search(r"open_instruct/grpo\.py\b", program):
        message = "OLMo-core's trainer is not supported yet; the closest is open_instruct/grpo_fast.py"
        raise UnsupportedError.of_value("the command", program[:60], message)
    normalized: dict[str, Any] = {
        **found,
        ENGINE: "deepspeed",
        _FRAMEWORK: "open-instruct",
        METHOD: "grpo",
        _PRECISION: "bf16-mixed",
        _WIDTH: True,
        CHECKPOINTS: "full",
        _PACKED: True,
    }
    notes: list[str] = ["only the learners' update is counted, not generation"]
    normalized.setdefault(_PACK, 512)
    normalized[COMPLETION] = normalized[_PACK]
    learners = normalized.pop(_LEARNERS, 1)
    listed = [
        each for each in (learners if isinstance(learners, list) else str(learners).split()) if str(each).isdigit()
    ]
    if listed:
        each = [int(one) for one in listed]
        normalized |= {GPUS: sum(each), **({PER_NODE: max(each)} if len(each) > 1 else {})}
    if is_set(normalized.pop("load_ref_policy", True)):
        normalized[REFERENCE] = "copy"
    share = normalized.pop(_SHARED, 0.9)
    if is_set(normalized.pop("single_gpu_mode", False)):
        normalized[SHARE] = share
        notes.append(Message("vLLM keeps {} of the GPU during the update", share))
    if normalized.setdefault(_STAGE, 0) == 3:
        normalized.setdefault(_HPZ, 8)
    else:
        normalized.pop(_HPZ, None)
    normalized[_TIMES] = _SEVERAL
    notes.append(Message("packs of a step accumulate: counted as {} micro-batches", _SEVERAL))
    if normalized[_STAGE] in (1, 2, 3) and not is_set(normalized.get("deepspeed_offload_optimizer", False)):
        normalized["*gradients"] = "fp32"
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


_NODE = 8
"""GPUs of a node where nothing is said."""


def _written(config: Config) -> dict[str, Any]:
    """Return the learners of each node, the reference, and whether vLLM runs on their GPU."""
    gpus, node = gpus_of(config) or 1, config[Hardware.gpus_per_node] or _NODE
    each = max(size for size in range(1, min(node, gpus) + 1) if gpus % size == 0)
    keys: dict[str, Any] = {
        _LEARNERS: [each] * (gpus // each),
        "load_ref_policy": config[Training.method.reference] == "copy",
    }
    share = config[Training.method.rollout_share]
    return {**keys, **({"single_gpu_mode": True, _SHARED: share} if share else {})}


OPEN_INSTRUCT = Tool(
    name="open-instruct",
    title="open-instruct",
    syntax="yaml",
    engines=("deepspeed",),
    tells=("num_learners_per_node",),
    prefixes=("open_instruct/grpo_fast.py",),
    model="model_name_or_path",
    keys=(
        Key(path=Training.micro_batch_size, name="per_device_train_batch_size"),
        Key(path=Training.sequence_length, name=_PACK),
        Key(path=Training.gradient_accumulation_steps, name=_TIMES),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.gradient_dtype, name="*gradients"),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.activation_checkpointing.policy, name=CHECKPOINTS),
        Key(path=Training.method.name, name=METHOD),
        Key(path=Training.method.reference, name=REFERENCE),
        Key(path=Training.method.completion_length, name=COMPLETION),
        Key(path=Training.method.rollout_share, name=SHARE),
        Key(path=EngineSettings.zero_stage, name=_STAGE),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=DeepSpeedSettings.hidden_size_buckets, name=_WIDTH),
        Key(path=DeepSpeedSettings.zero_hpz_partition_size, name=_HPZ),
        Key(path=Parallelism.ulysses_parallel_size, name="sequence_parallel_size"),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    meanings=(
        Meaning(sets={Training.attention: "flash"}, keys={"attn_implementation": "flash_2"}),
        Meaning(sets={Training.attention: "flash", Training.flash_version: 3}, keys={"attn_implementation": "flash_3"}),
        Meaning(sets={Training.attention: "sdpa"}, keys={"attn_implementation": "torch"}),
        Meaning(sets={Training.attention: "flash"}, keys={"attn_implementation": "flash_attention_2"}),
        Meaning(sets={Training.attention: "sdpa"}, keys={"attn_implementation": "sdpa"}),
        Meaning(sets={DeepSpeedSettings.offload_optimizer: "cpu"}, keys={"deepspeed_offload_optimizer": True}),
        Meaning(sets={DeepSpeedSettings.offload_param: "cpu"}, keys={"deepspeed_offload_param": True}),
        Meaning(sets={Training.optimizer.implementation: "foreach"}, keys={"fused_optimizer": False}),
    ),
    normalized=_normalized,
    settles=(_LEARNERS, "load_ref_policy", "single_gpu_mode", _SHARED, _HPZ),
    defaults={Training.micro_batch_size: 8, Training.attention: "flash"},
    vocabulary=("open-instruct",),
    ignored=("gradient_checkpointing", "max_token_length"),
    needs={EngineSettings.framework: "open-instruct", Training.method.name: "grpo"},
    launch="python open_instruct/grpo_fast.py {file}",
    always={"dataset_mixer_list": ["ai2-adapt-dev/rlvr_gsm8k_zs", "1.0"]},
    written=_written,
    only_with={DeepSpeedSettings.zero_hpz_partition_size: {EngineSettings.zero_stage: 3}},
    fixed=(Training.gradient_dtype,),
    unsaid=dict.fromkeys((
        Training.precision, Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps,
        Training.sequence_length, Training.gradient_dtype, Training.packed_sequences, Training.method.reference,
        Training.method.completion_length, Training.activation_checkpointing.policy, EngineSettings.zero_stage,
        DeepSpeedSettings.zero_hpz_partition_size, DeepSpeedSettings.hidden_size_buckets,
    )),
    source="open-instruct, open_instruct/grpo_fast.py",
)  # fmt: skip
