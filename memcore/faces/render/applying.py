"""Which settings of the form say something about a job: those that nothing else of it rules out.

A setting that a job's engine refuses whatever its value, or that waits for another setting, is put away until that
changes; one that has a value is always shown, so that it can be seen to be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.memory.estimate import Estimate
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.servers.sglang.settings import SglangSettings
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.settings import ServerSettings
from memcore.trace.recurrence import is_recurrent
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.settings import TorchSettings

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
_TRAINED = Need(Training.activation_checkpointing.policy, ("full", "selective"))
_SELECTIVE = Need(Training.activation_checkpointing.policy, ("selective",))
_ADAPTED = Need(Training.adapter.type, (ANY,))
_STAGED = Need(Parallelism.pipeline_parallel_size, (SEVERAL,))
_SHARDED = Need(Parallelism.tensor_parallel_size, (SEVERAL,))
_ROUTED = Need(EXPERTS, (ANY,))
_ZERO_3 = Need(DeepSpeedSettings.zero_stage, ("3",))
_IN_FP8 = Need(Training.precision, ("fp8-mixed",))
_FIRST_FSDP = Need(EngineSettings.version, ("1",))
_GRAPHED = Need(MegatronSettings.cuda_graph_impl, (ANY,))
_OFFLOADED = Need(MegatronSettings.fine_grained_activation_offloading, ("true",))
_PROMPTED = ("prefix-tuning", "prompt-tuning", "p-tuning")
_RANKED = ("lora", "rslora", "dora", "adalora", "vera", "loha", "lokr", "oft", "tinylora", "miss")
_TARGETED = (*_RANKED, "boft", "ia3")

NEEDS: Mapping[str, Need] = {
    Training.quantization: _ADAPTED,
    Training.adapter.rank: Need(Training.adapter.type, _RANKED),
    Training.adapter.target_modules: Need(Training.adapter.type, (*_TARGETED, "ln-tuning")),
    Training.adapter.modules_to_save: Need(Training.adapter.type, _TARGETED),
    Training.adapter.target_parameters: Need(EXPERTS, (ANY,)),
    Training.adapter.use_rslora: Need(Training.adapter.type, ("lora", "rslora", "dora")),
    Training.adapter.decompose_factor: Need(Training.adapter.type, ("lokr",)),
    Training.adapter.block_size: Need(Training.adapter.type, ("oft", "boft")),
    Training.adapter.num_trainable_tokens: Need(Training.adapter.type, ("trainable-tokens",)),
    Training.adapter.u: Need(Training.adapter.type, ("tinylora",)),
    Training.adapter.init_r: Need(Training.adapter.type, ("adalora",)),
    Training.adapter.num_virtual_tokens: Need(Training.adapter.type, _PROMPTED),
    Training.adapter.dtype: _ADAPTED,
    Training.adapter.dropout: Need(Training.adapter.type, (*_TARGETED, "ln-tuning")),
    Training.optimizer.rank: Need(Training.optimizer.name, ("galore", "galore-8bit", "apollo", "apollo-mini")),
    Training.optimizer.momentum: Need(Training.optimizer.name, ("rmsprop", "sgd")),
    Training.offload.optimizer_fraction: Need(Training.offload.optimizer, (ANY,)),
    Training.activation_checkpointing.mode: _SELECTIVE,
    Training.activation_checkpointing.every: _SELECTIVE,
    Training.activation_checkpointing.method: _TRAINED,
    Training.activation_checkpointing.num_layers: _TRAINED,
    Training.activation_checkpointing.modules: _SELECTIVE,
    Training.activation_checkpointing.early_stop: _TRAINED,
    Training.activation_checkpointing.use_reentrant: _TRAINED,
    Training.activation_checkpointing.entry: _TRAINED,
    Training.kernels: Need(RECURRENT, (ANY,)),
    Training.activation_memory_budget: Need(Training.compile, ("true",)),
    Inference.num_speculative_tokens: Need(Inference.draft_model, (ANY,)),
    Inference.max_lora_rank: Need(Inference.max_loras, (ANY,)),
    Parallelism.sequence_parallel: _SHARDED,
    Parallelism.loss_parallel: _SHARDED,
    Parallelism.virtual_pipeline_parallel_size: _STAGED,
    Parallelism.pipeline_layout: _STAGED,
    Parallelism.pipeline_schedule: _STAGED,
    Parallelism.expert_parallel_size: _ROUTED,
    Parallelism.expert_tensor_parallel_size: _ROUTED,
    TorchSettings.moe_token_dispatcher: _ROUTED,
    EngineSettings.moe_load_imbalance: _ROUTED,
    MegatronSettings.moe_flex_dispatcher_backend: _ROUTED,
    MegatronSettings.moe_expert_capacity_factor: _ROUTED,
    MegatronSettings.moe_pad_expert_input_to_capacity: _ROUTED,
    MegatronSettings.moe_grouped_gemm: _ROUTED,
    MegatronSettings.moe_permute_fusion: _ROUTED,
    MegatronSettings.moe_router_fusion: _ROUTED,
    MegatronSettings.moe_router_load_balancing_type: _ROUTED,
    MegatronSettings.moe_router_pre_softmax: _ROUTED,
    MegatronSettings.moe_shared_expert_overlap: _ROUTED,
    MegatronSettings.overlap_moe_expert_parallel_comm: _ROUTED,
    ServerSettings.enable_expert_parallel: _ROUTED,
    LlamaCppSettings.n_cpu_moe: _ROUTED,
    TorchSettings.pipeline_runtime: _STAGED,
    TorchSettings.return_outputs: _STAGED,
    MegatronSettings.account_for_embedding_in_pipeline_split: _STAGED,
    MegatronSettings.account_for_loss_in_pipeline_split: _STAGED,
    MegatronSettings.microbatch_group_size_per_virtual_pipeline_stage: _STAGED,
    MegatronSettings.overlap_p2p_communication_warmup_flush: _STAGED,
    MegatronSettings.cp_comm_type: Need(Parallelism.context_parallel_size, (SEVERAL,)),
    MegatronSettings.num_distributed_optimizer_instances: Need(MegatronSettings.distributed_optimizer, ("true",)),
    MegatronSettings.wgrad_deferral_limit: Need(MegatronSettings.defer_embedding_wgrad_compute, ("true",)),
    MegatronSettings.fp8_format: _IN_FP8,
    MegatronSettings.fp8_recipe: _IN_FP8,
    MegatronSettings.fp8_param_gather: _IN_FP8,
    MegatronSettings.first_last_layers_bf16: _IN_FP8,
    TorchSettings.enable_fsdp_float8_all_gather: _IN_FP8,
    MegatronSettings.offload_modules: _OFFLOADED,
    MegatronSettings.min_offloaded_tensor_size: _OFFLOADED,
    MegatronSettings.cuda_graph_scope: _GRAPHED,
    MegatronSettings.cuda_graph_modules: _GRAPHED,
    MegatronSettings.cuda_graph_warmup_steps: _GRAPHED,
    TorchSettings.use_orig_params: _FIRST_FSDP,
    TorchSettings.limit_all_gathers: _FIRST_FSDP,
    TorchSettings.backward_prefetch: _FIRST_FSDP,
    DeepSpeedSettings.offload_optimizer: Need(DeepSpeedSettings.zero_stage, ("1", "2", "3")),
    DeepSpeedSettings.offload_param: _ZERO_3,
    DeepSpeedSettings.sub_group_size: _ZERO_3,
    DeepSpeedSettings.stage3_prefetch_bucket_size: _ZERO_3,
    DeepSpeedSettings.stage3_max_live_parameters: _ZERO_3,
    DeepSpeedSettings.stage3_max_reuse_distance: _ZERO_3,
    DeepSpeedSettings.stage3_param_persistence_threshold: _ZERO_3,
    DeepSpeedSettings.zero_hpz_partition_size: _ZERO_3,
    DeepSpeedSettings.mics_shard_size: _ZERO_3,
    DeepSpeedSettings.zero_quantized_weights: _ZERO_3,
    DeepSpeedSettings.zero_quantized_gradients: _ZERO_3,
}
"""The one other setting that each of these waits for."""

_CHOICES_OF_CHECKPOINTS = (Training.activation_checkpointing.mode, Training.activation_checkpointing.every)
_MEGATRON = (
    *_CHOICES_OF_CHECKPOINTS, Training.activation_checkpointing.early_stop,
    Training.activation_checkpointing.use_reentrant, Training.activation_checkpointing.entry,
    Training.activation_memory_budget,
)  # fmt: skip
_ZERO = (
    Training.zero_grad, Training.offload.optimizer, Training.offload.parameters,
    Parallelism.context_parallel_size,
)  # fmt: skip
_SERVED = (Parallelism.sequence_parallel, Parallelism.loss_parallel)
_ALONE = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
)  # fmt: skip
REFUSED: Mapping[str, tuple[str, ...]] = {
    "none": (Parallelism.context_parallel_size,),
    "ddp": (Parallelism.tensor_parallel_size, Parallelism.context_parallel_size),
    "fsdp": (Parallelism.expert_tensor_parallel_size,),
    "deepspeed": (*_ZERO, Parallelism.tensor_parallel_size),
    "megatron-deepspeed": (
        *_ZERO, Training.parameter_dtype, Training.compute_dtype, Training.adapter.type, Training.loss_shift,
    ),
    "megatron": _MEGATRON,
    "megatron-fsdp": _MEGATRON,
    "nanotron": (
        *_CHOICES_OF_CHECKPOINTS, Training.compute_dtype, Training.adapter.type, Training.zero_grad,
        Training.implementation, Training.loss_shift, Training.dropout.hidden, Training.dropout.attention,
        Training.activation_memory_budget, Parallelism.context_parallel_size,
    ),
    "transformers": (*_SERVED, *_ALONE),
    "vllm": _SERVED,
    "sglang": (*_SERVED, Parallelism.context_parallel_size, SglangSettings.enable_dp_attention),
    "tensorrt-llm": (*_SERVED, Parallelism.context_parallel_size),
    "llama.cpp": (*_SERVED, *_ALONE),
}  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value, by engine; ZeRO's offloading has
keys of its own."""
SAID_ELSEWHERE = (ServerSettings.max_num_seqs, ServerSettings.block_size, ServerSettings.quantization)
"""Settings that a file may have in two places: the form has one of them, unless a file used this one."""
_OF_IMAGES = (Training.images_per_sequence, Training.image_size)


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
