"""Which settings of the form say something about a job: those that nothing else of it rules out.

A setting that a job's engine refuses whatever its value, or that waits for another setting, is put away until that
changes; one that has a value is always shown, so that it can be seen to be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memcore.estimation import Estimate
from memcore.serving.estimate import ServingEstimate
from memcore.trace.recurrence import is_recurrent

EXPERTS, RECURRENT = "model.experts", "model.recurrent"
"""What a model has, beside the settings that were taken: names that are no paths."""
SEVERAL, ANY = "2 or more", "given"
"""In place of values: any number above 1, and anything but absent or none."""


@dataclass(frozen=True, slots=True)
class Need:
    """What another setting must be."""

    path: str
    values: tuple[str, ...]

    def is_met(self, found: str) -> bool:
        """Whether a value of the other setting, as text, is such."""
        if self.values == (SEVERAL,):
            return found.isdecimal() and int(found) > 1
        if self.values == (ANY,):
            return found not in {"", "none", "false"}
        return found in self.values


_AC, _ADAPTER = "training.activation_checkpointing", "training.adapter"
_TRAINED = Need(f"{_AC}.policy", ("full", "selective"))
_SELECTIVE = Need(f"{_AC}.policy", ("selective",))
_ADAPTED = Need(f"{_ADAPTER}.type", (ANY,))
_STAGED = Need("parallelism.pipeline_parallel_size", (SEVERAL,))
_SHARDED = Need("parallelism.tensor_parallel_size", (SEVERAL,))
_ROUTED = Need(EXPERTS, (ANY,))
_ZERO_3 = Need("engine.zero_stage", ("3",))
_IN_FP8 = Need("training.precision", ("fp8-mixed",))
_FIRST_FSDP = Need("engine.version", ("1",))
_GRAPHED = Need("engine.cuda_graph_impl", (ANY,))
_OFFLOADED = Need("engine.fine_grained_activation_offloading", ("true",))
_PROMPTED = ("prefix-tuning", "prompt-tuning", "p-tuning")
_RANKED = ("lora", "rslora", "dora", "adalora", "vera", "loha", "lokr", "oft", "tinylora", "miss")
_TARGETED = (*_RANKED, "boft", "ia3")

NEEDS: Mapping[str, Need] = {
    "training.quantization": _ADAPTED,
    f"{_ADAPTER}.rank": Need(f"{_ADAPTER}.type", _RANKED),
    f"{_ADAPTER}.target_modules": Need(f"{_ADAPTER}.type", (*_TARGETED, "ln-tuning")),
    f"{_ADAPTER}.modules_to_save": Need(f"{_ADAPTER}.type", _TARGETED),
    f"{_ADAPTER}.target_parameters": Need(EXPERTS, (ANY,)),
    f"{_ADAPTER}.use_rslora": Need(f"{_ADAPTER}.type", ("lora", "rslora", "dora")),
    f"{_ADAPTER}.decompose_factor": Need(f"{_ADAPTER}.type", ("lokr",)),
    f"{_ADAPTER}.block_size": Need(f"{_ADAPTER}.type", ("oft", "boft")),
    f"{_ADAPTER}.num_trainable_tokens": Need(f"{_ADAPTER}.type", ("trainable-tokens",)),
    f"{_ADAPTER}.u": Need(f"{_ADAPTER}.type", ("tinylora",)),
    f"{_ADAPTER}.init_r": Need(f"{_ADAPTER}.type", ("adalora",)),
    f"{_ADAPTER}.num_virtual_tokens": Need(f"{_ADAPTER}.type", _PROMPTED),
    f"{_ADAPTER}.dtype": _ADAPTED,
    f"{_ADAPTER}.dropout": Need(f"{_ADAPTER}.type", (*_TARGETED, "ln-tuning")),
    "training.optimizer.rank": Need("training.optimizer.name", ("galore", "galore-8bit", "apollo", "apollo-mini")),
    "training.optimizer.momentum": Need("training.optimizer.name", ("rmsprop", "sgd")),
    "training.offload.optimizer_fraction": Need("training.offload.optimizer", (ANY,)),
    f"{_AC}.mode": _SELECTIVE,
    f"{_AC}.every": _SELECTIVE,
    f"{_AC}.method": _TRAINED,
    f"{_AC}.num_layers": _TRAINED,
    f"{_AC}.modules": _SELECTIVE,
    f"{_AC}.early_stop": _TRAINED,
    f"{_AC}.use_reentrant": _TRAINED,
    f"{_AC}.entry": _TRAINED,
    "training.kernels": Need(RECURRENT, (ANY,)),
    "training.activation_memory_budget": Need("training.compile", ("true",)),
    "inference.num_speculative_tokens": Need("inference.draft_model", (ANY,)),
    "inference.max_lora_rank": Need("inference.max_loras", (ANY,)),
    "parallelism.sequence_parallel": _SHARDED,
    "parallelism.loss_parallel": _SHARDED,
    "parallelism.virtual_pipeline_parallel_size": _STAGED,
    "parallelism.pipeline_layout": _STAGED,
    "parallelism.pipeline_schedule": _STAGED,
    "parallelism.expert_parallel_size": _ROUTED,
    "parallelism.expert_tensor_parallel_size": _ROUTED,
    "engine.moe_token_dispatcher": _ROUTED,
    "engine.moe_load_imbalance": _ROUTED,
    "engine.moe_flex_dispatcher_backend": _ROUTED,
    "engine.moe_expert_capacity_factor": _ROUTED,
    "engine.moe_pad_expert_input_to_capacity": _ROUTED,
    "engine.moe_grouped_gemm": _ROUTED,
    "engine.moe_permute_fusion": _ROUTED,
    "engine.moe_router_fusion": _ROUTED,
    "engine.moe_router_load_balancing_type": _ROUTED,
    "engine.moe_router_pre_softmax": _ROUTED,
    "engine.moe_shared_expert_overlap": _ROUTED,
    "engine.overlap_moe_expert_parallel_comm": _ROUTED,
    "engine.enable_expert_parallel": _ROUTED,
    "engine.n_cpu_moe": _ROUTED,
    "engine.pipeline_runtime": _STAGED,
    "engine.return_outputs": _STAGED,
    "engine.account_for_embedding_in_pipeline_split": _STAGED,
    "engine.account_for_loss_in_pipeline_split": _STAGED,
    "engine.microbatch_group_size_per_virtual_pipeline_stage": _STAGED,
    "engine.overlap_p2p_communication_warmup_flush": _STAGED,
    "engine.cp_comm_type": Need("parallelism.context_parallel_size", (SEVERAL,)),
    "engine.num_distributed_optimizer_instances": Need("engine.distributed_optimizer", ("true",)),
    "engine.wgrad_deferral_limit": Need("engine.defer_embedding_wgrad_compute", ("true",)),
    "engine.fp8_format": _IN_FP8,
    "engine.fp8_recipe": _IN_FP8,
    "engine.fp8_param_gather": _IN_FP8,
    "engine.first_last_layers_bf16": _IN_FP8,
    "engine.enable_fsdp_float8_all_gather": _IN_FP8,
    "engine.offload_modules": _OFFLOADED,
    "engine.min_offloaded_tensor_size": _OFFLOADED,
    "engine.cuda_graph_scope": _GRAPHED,
    "engine.cuda_graph_modules": _GRAPHED,
    "engine.cuda_graph_warmup_steps": _GRAPHED,
    "engine.use_orig_params": _FIRST_FSDP,
    "engine.limit_all_gathers": _FIRST_FSDP,
    "engine.backward_prefetch": _FIRST_FSDP,
    "engine.offload_optimizer": Need("engine.zero_stage", ("1", "2", "3")),
    "engine.offload_param": _ZERO_3,
    "engine.sub_group_size": _ZERO_3,
    "engine.stage3_prefetch_bucket_size": _ZERO_3,
    "engine.stage3_max_live_parameters": _ZERO_3,
    "engine.stage3_max_reuse_distance": _ZERO_3,
    "engine.stage3_param_persistence_threshold": _ZERO_3,
    "engine.zero_hpz_partition_size": _ZERO_3,
    "engine.mics_shard_size": _ZERO_3,
    "engine.zero_quantized_weights": _ZERO_3,
    "engine.zero_quantized_gradients": _ZERO_3,
}
"""The one other setting that each of these waits for."""

_CHOICES_OF_CHECKPOINTS = (f"{_AC}.mode", f"{_AC}.every")
_MEGATRON = (
    *_CHOICES_OF_CHECKPOINTS, f"{_AC}.early_stop", f"{_AC}.use_reentrant", f"{_AC}.entry",
    "training.activation_memory_budget",
)  # fmt: skip
_ZERO = (
    "training.zero_grad", "training.offload.optimizer", "training.offload.parameters",
    "parallelism.context_parallel_size",
)  # fmt: skip
_SERVED = ("parallelism.sequence_parallel", "parallelism.loss_parallel")
_ALONE = (
    "parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size", "parallelism.context_parallel_size",
)  # fmt: skip
REFUSED: Mapping[str, tuple[str, ...]] = {
    "none": ("parallelism.context_parallel_size",),
    "ddp": ("parallelism.tensor_parallel_size", "parallelism.context_parallel_size"),
    "fsdp": ("parallelism.expert_tensor_parallel_size",),
    "deepspeed": (*_ZERO, "parallelism.tensor_parallel_size"),
    "megatron-deepspeed": (
        *_ZERO, "training.parameter_dtype", "training.compute_dtype", "training.adapter.type", "training.loss_shift",
    ),
    "megatron": _MEGATRON,
    "megatron-fsdp": _MEGATRON,
    "nanotron": (
        *_CHOICES_OF_CHECKPOINTS, "training.compute_dtype", "training.adapter.type", "training.zero_grad",
        "training.implementation", "training.loss_shift", "training.dropout.hidden", "training.dropout.attention",
        "training.activation_memory_budget", "parallelism.context_parallel_size",
    ),
    "transformers": (*_SERVED, *_ALONE),
    "vllm": _SERVED,
    "sglang": (*_SERVED, "parallelism.context_parallel_size", "engine.enable_dp_attention"),
    "tensorrt-llm": (*_SERVED, "parallelism.context_parallel_size"),
    "llama.cpp": (*_SERVED, *_ALONE),
}  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value, by engine; ZeRO's offloading has
keys of its own."""
SAID_ELSEWHERE = ("engine.max_num_seqs", "engine.block_size", "engine.quantization")
"""Settings that a file may have in two places: the form has one of them, unless a file used this one."""
_OF_IMAGES = ("training.images_per_sequence", "training.image_size")


def applies(path: str, engine: str, given: Mapping[str, str], taken: Mapping[str, str]) -> bool:
    """Whether a setting says something about the job with these values, given and taken for absent ones.

    A model that sees has a default for its images.
    """
    if given.get(path):
        return True
    if path in SAID_ELSEWHERE or path in REFUSED.get(engine, ()) or (path in _OF_IMAGES and path not in taken):
        return False
    need = NEEDS.get(path)
    return need is None or need.is_met(given.get(need.path) or taken.get(need.path, ""))


def traits(found: Estimate | ServingEstimate) -> dict[str, str]:
    """What a job's model has that settings wait for."""
    model = found.job.model
    has = {EXPERTS: "E" in model.sizes, RECURRENT: is_recurrent(model)}
    return {name: "true" for name, is_so in has.items() if is_so}
