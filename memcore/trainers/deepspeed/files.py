"""DeepSpeed's files, and what training loops and accelerate say of ZeRO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.formats.normalized import OPTIMIZER, PARAMETERS, STAGE, Normalized
from memcore.formats.tool import Key, Meaning, Share, Tool
from memcore.messages import Message, joined
from memcore.trainers.deepspeed.open_instruct import OPEN_INSTRUCT
from memcore.trainers.deepspeed.openrlhf import OPENRLHF
from memcore.trainers.deepspeed.settings import DeepSpeedSettings

_OWN_CHECKPOINTS = tuple(
    f"activation_checkpointing.{name}"
    for name in ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization")
)
_SECTION = "zero_optimization"
BY_WIDTH = "*by_width"
WIDTHS: Mapping[str, int] = {
    "reduce_bucket_size": 500_000_000,
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
}
"""Sizes that transformers' Trainer makes of the model's width where a file says `auto`, and DeepSpeed's own."""
_OF_STAGE_3 = (
    "sub_group_size", "offload_param.device", "zero_hpz_partition_size",
    *(f"{before}{name}" for before in ("stage3_", "") for name in (
        "prefetch_bucket_size", "param_persistence_threshold", "max_live_parameters", "max_reuse_distance"
    )),
)  # fmt: skip
"""Keys that only stage 3 reads (runtime/zero/config.py)."""
_DEPRECATED: Mapping[str, tuple[str, object]] = {
    _SECTION: (f"{_SECTION}.stage", 1),
    f"{_SECTION}.cpu_offload": (f"{_SECTION}.offload_optimizer.device", "cpu"),
    f"{_SECTION}.cpu_offload_param": (f"{_SECTION}.offload_param.device", "cpu"),
}
"""DeepSpeed's older keys that are true or false, and what they are today (runtime/zero/config.py)."""


_TORCH = "optimizer.params.torch_adam"
_OF_STEP = (
    "lr", "weight_decay", "betas", "eps", "eps_inside_sqrt", "bias_correction", "adam_w_mode", "adamw_mode",
    "set_grad_none", "max_coeff", "min_coeff", "nesterov", "dampening", "muon_lr", "adam_lr", "ns_method",
    "freeze_step", "cuda_aware", "comm_backend_name", "coeff_beta", "factor_max", "factor_min", "factor_threshold",
    "var_freeze_step", "var_update_scaler", "local_step_scaler", "local_step_clipper",
)  # fmt: skip
"""Arguments of optimizers that memory does not depend on.

Source: deepspeed, ops/{adam,lamb,lion,adagrad}, runtime/fp16/onebit and runtime/zero/muon; torch.optim.SGD.
"""
_AUTOTP = "tensor_parallel.autotp_size"
_NO_AUTOTP = (_AUTOTP, 0)
"""Its default (runtime/tensor_parallel/config.py)."""


def automatic(found: Mapping[str, Any]) -> Normalized:
    """DeepSpeed's files for the Trainer leave the precision to it, and nobody but Megatron calls its checkpoints."""
    normalized = {name: value for name, value in found.items() if (name, value) != _NO_AUTOTP}
    notes: list[str] = []
    for name, (today, value) in _DEPRECATED.items():
        if normalized.get(name) is not None and normalized.pop(name) is True:
            normalized.setdefault(today, value)
    idle = [name for name in _OF_STAGE_3 if f"{_SECTION}.{name}" in found]
    if normalized.get(f"{_SECTION}.stage") in (0, 1, 2) and idle:
        for name in idle:
            normalized.pop(f"{_SECTION}.{name}")
        notes.append(Message("{}: only for stage 3, no effect", joined(", ", idle)))
    left = [name for name in WIDTHS if normalized.get(f"{_SECTION}.{name}") == "auto"]
    if left:
        normalized[BY_WIDTH] = True
        for name in WIDTHS:
            if name in left:
                del normalized[f"{_SECTION}.{name}"]
            elif normalized.get(f"{_SECTION}.stage") == 3 or not name.startswith("stage3"):
                normalized.setdefault(f"{_SECTION}.{name}", WIDTHS[name])
        notes.append(Message("{}: auto, which the Trainer derives from the hidden size", joined(", ", left)))
    if found.get("bf16.enabled") == "auto" and found.get("fp16.enabled") is not True:
        normalized["bf16.enabled"] = True
        notes.append("bf16.enabled is 'auto': the trainer decides, bf16 is assumed")
    unused = [name for name in _OWN_CHECKPOINTS if normalized.pop(name, False)]
    notes += [Message("{} is ignored: only Megatron-DeepSpeed calls deepspeed.checkpointing", name) for name in unused]
    return normalized, tuple(notes)


DEEPSPEED = Tool(
    name="deepspeed",
    title="DeepSpeed",
    syntax="json",
    engines=("deepspeed", "megatron-deepspeed"),
    tells=("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"),
    launch="deepspeed --num_nodes {nodes} --num_gpus {each} train.py --deepspeed {file}",
    keys=(
        Key(path=Training.micro_batch_size, name="train_micro_batch_size_per_gpu"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(
            path=Training.optimizer.name,
            name="optimizer.type",
            values={"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion", "adagrad": "Adagrad",
                    "lamb": "Lamb", "muon": "Muon"},
        ),
        Key(path=Training.optimizer.momentum, name="optimizer.params.momentum"),
        Key(path=Training.gradient_dtype, name="data_types.grad_accum_dtype"),
        Key(path=Parallelism.ulysses_parallel_size, name="sequence_parallel_size"),
        Key(path=Parallelism.tensor_parallel_size, name=_AUTOTP),
        Key(
            path=DeepSpeedSettings.seq_parallel_communication_data_type,
            name="seq_parallel_communication_data_type",
        ),
        Key(path=EngineSettings.zero_stage, name="zero_optimization.stage"),
        Key(path=DeepSpeedSettings.offload_optimizer, name="zero_optimization.offload_optimizer.device"),
        Key(path=DeepSpeedSettings.offload_param, name="zero_optimization.offload_param.device"),
        Key(path=DeepSpeedSettings.partition_activations, name="activation_checkpointing.partition_activations"),
        Key(path=DeepSpeedSettings.cpu_checkpointing, name="activation_checkpointing.cpu_checkpointing"),
        Key(
            path=DeepSpeedSettings.contiguous_memory_optimization,
            name="activation_checkpointing.contiguous_memory_optimization",
        ),
        Key(path=DeepSpeedSettings.hidden_size_buckets, name=BY_WIDTH),
        Key(path=DeepSpeedSettings.bf16_master_weights_and_grads, name="bf16.bf16_master_weights_and_grads"),
        *(
            Key(
                path=f"engine.{name}",
                name=f"zero_optimization.{name}",
                also=(f"zero_optimization.{name.removeprefix('stage3_')}",) if name.startswith("stage3_") else (),
            )
            for name in ("reduce_bucket_size", "allgather_bucket_size", "overlap_comm", "contiguous_gradients",
                         "sub_group_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
                         "stage3_max_live_parameters", "stage3_max_reuse_distance", "zero_hpz_partition_size",
                         "zero_quantized_weights", "zero_quantized_gradients", "mics_shard_size")
        ),
    ),
    meanings=(
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"bf16.enabled": True}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"fp16.enabled": True}),
        Meaning(
            sets={DeepSpeedSettings.hidden_size_buckets: True},
            keys={f"zero_optimization.{name}": "auto" for name in WIDTHS},
        ),
        Meaning(sets={Training.optimizer.implementation: "foreach"}, keys={_TORCH: True}),
        Meaning(sets={Training.gradient_clipping: True}, keys={"gradient_clipping": 1.0}),
        Meaning(sets={Training.gradient_clipping: False}, keys={"gradient_clipping": 0}),
    ),
    normalized=automatic,
    batch="train_batch_size",
    shares_batch=True,
    defaults={Training.precision: "fp32"},
    unsaid={
        EngineSettings.zero_stage: None,
        Training.micro_batch_size: None,
        Training.gradient_accumulation_steps: None,
        Training.gradient_clipping: False,
    },
    alongside={_TORCH: ("optimizer.type", "AdamW")},
    only_with={Training.optimizer.implementation: {Training.optimizer.name: "adamw"}},
    ignored=(*(f"optimizer.params.{name}" for name in _OF_STEP), "scheduler.*", "steps_per_print",
             "wall_clock_breakdown", "gradient_clipping", "fp16.loss_scale*", "fp16.initial_scale_power",
             "fp16.hysteresis", "fp16.min_loss_scale", "fp16.auto_cast", "bf16.bf16_optimizer_states",
             "zero_allow_untested_optimizer", "zero_optimization.stage3_gather_16bit_weights_on_model_save",
             "zero_optimization.round_robin_gradients", "zero_optimization.reduce_scatter",
             "zero_optimization.allgather_partitions", "zero_optimization.offload_optimizer.pin_memory",
             "zero_optimization.offload_param.pin_memory", "zero_optimization.offload_optimizer.nvme_path",
             "zero_optimization.offload_param.nvme_path", "zero_optimization.cpu_offload_use_pin_memory",
             "prescale_gradients", "gradient_predivide_factor",
             "zero_optimization.stage3_gather_fp16_weights_on_model_save", "wandb.*", "tensorboard.*", "csv_monitor.*",
             "flops_profiler.*", "comms_logger.*", "dump_state"),
    vocabulary=("deepspeed",),
    source="deepspeed, runtime/config.py and runtime/zero/config.py",
)  # fmt: skip

TOOLS = (OPENRLHF, OPEN_INSTRUCT, DEEPSPEED)
SHARES: Mapping[str, Share] = {
    "normalized": Share(
        keys=(
            Key(path=EngineSettings.zero_stage, name=STAGE),
            Key(path=DeepSpeedSettings.offload_optimizer, name=OPTIMIZER),
            Key(path=DeepSpeedSettings.offload_param, name=PARAMETERS),
        ),
    ),
    "loops": Share(
        keys=tuple(
            replace(key, name=f"deepspeed.{key.name}", also=tuple(f"deepspeed.{each}" for each in key.also))
            for key in DEEPSPEED.keys
            if key.name.startswith(("zero_optimization.", "data_types."))
        ),
        meanings=(
            Meaning(
                sets={EngineSettings.type: "deepspeed"},
                keys={f"deepspeed.{name}": "auto" for name in (
                    "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping",
                    "bf16.enabled", "fp16.enabled",
                )},
            ),
        ),
        unsaid={EngineSettings.zero_stage: None},
        ignored=tuple(f"deepspeed.{each}" for each in (*DEEPSPEED.ignored, "train_batch_size")),
    ),
    "accelerate": Share(
        keys=(
            Key(path=EngineSettings.zero_stage, name="deepspeed_config.zero_stage"),
            Key(path=DeepSpeedSettings.offload_optimizer, name="deepspeed_config.offload_optimizer_device"),
            Key(path=DeepSpeedSettings.offload_param, name="deepspeed_config.offload_param_device"),
        ),
        unsaid={EngineSettings.zero_stage: 2},
    ),
}  # fmt: skip
"""What tools of several engines say of ZeRO (`memcore.tools.fine_tuning`).

`deepspeed` names a file, or holds what that file would (transformers, training_args.py: `dict | str`), which leaves to
the trainer what is its own.
"""
