"""Rules of nanotron and DeepSpeed: rows of `memcore.rules.table.RULES`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.rules.rule import Rule

_ACCUMULATOR = "nanotron, optim/gradient_accumulator.py, FP32GradientAccumulator"
_STAGES = "deepspeed, runtime/zero/stage_1_and_2.py and stage3.py"
_CHECKPOINTING = "deepspeed, runtime/activation_checkpointing/checkpointing.py"
_PARALLEL = "nanotron, parallel/tensor_parallel/functional.py"

ZERO: Mapping[str, Rule] = {
    # nanotron.
    "fp32_gradients": Rule("gradients of all micro-batches, summed in fp32", _ACCUMULATOR, "gradients"),
    "master_parameter": Rule("fp32 copy of the parameters for the optimizer", _ACCUMULATOR, "optimizer states"),
    "gathered_parameters": Rule(
        "flat copies of the parameters for their all-gather, and NCCL's of those",
        "nanotron, distributed.py, all_gather_coalesced; pytorch, ProcessGroupNCCL.cpp, newLikeFlat",
        "communication",
    ),
    "gather_buffer": Rule("buffer for gathered sequences that stays", f"{_PARALLEL}, MemoryBuffer", "communication"),
    "gathered_sequence": Rule("all ranks' parts of a sequence", _PARALLEL),
    "scattered_sequence": Rule("this rank's part of a sequence of the sum over ranks", _PARALLEL),
    "scattered_gradient": Rule("this rank's part of an input's gradient", _PARALLEL),
    "sequence_lengths": Rule("where sequences begin in packed rows", "flash-attn, flash_attn_interface.py"),
    "embedding_sums": Rule(
        "sums of the gradients of equal words, fp32", "pytorch, aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu"
    ),
    "argmax": Rule("position of the largest logit", _PARALLEL),
    # DeepSpeed.
    "fp32_partition": Rule("fp32 copy of the parameters that this rank updates", _STAGES, "optimizer states"),
    "partitioned_gradients": Rule("gradients of the parameters that this rank updates", _STAGES, "gradients"),
    "accumulated_gradients": Rule(
        "gradients of all micro-batches, summed in fp32", "deepspeed, runtime/bf16_optimizer.py", "gradients"
    ),
    "partitioned_activation": Rule(
        "this rank's part of a checkpoint's input", f"{_CHECKPOINTING}: partition_activations"
    ),
    "gathered_activation": Rule(
        "a checkpoint's input, gathered", f"{_CHECKPOINTING}: gather_partitioned_activations", "communication"
    ),
    "quantized_parameter": Rule(
        "qwZ: gathered parameters in int8, and what they become before they are copied out",
        "deepspeed, runtime/zero/partition_parameters.py: _all_gather_coalesced, _all_gather_sequential, CUDAQuantizer",
        "communication",
    ),
    "quantized_gradient": Rule(
        "qgZ: a gradient in int4 before and after its exchanges, and the sum",
        "deepspeed, runtime/comm/coalesced_collectives.py: all_to_all_quant_reduce",
        "communication",
    ),
    "reduce_bucket": Rule("bucket for gradients, reduced when full", f"{_STAGES}: setup_buckets", "communication"),
    "reduced_copy": Rule(
        "a bucket's gradients, copied for their reduction",
        "deepspeed, runtime/zero/stage_1_and_2.py: allreduce_bucket; runtime/comm/coalesced_collectives.py",
        "communication",
    ),
    "gathered_parameter": Rule(
        "gathered parameters: the module at hand, what is fetched ahead, what is used again soon",
        "deepspeed, runtime/zero/partitioned_param_coordinator.py",
        "communication",
    ),
    "kept_parameters": Rule(
        "small parameters that stay gathered", "deepspeed, runtime/zero/parameter_offload.py", "parameters"
    ),
    "secondary_partition": Rule(
        "hpZ: secondary part of the parameters", "deepspeed, runtime/zero/partition_parameters.py", "parameters"
    ),
    "offload_buffer": Rule("buffer for the largest gradient on its way to the host", _STAGES, "communication"),
    "fp32_gradient": Rule("gradients cast to fp32 for the optimizer", f"{_STAGES}: step", "temporaries"),
    "flat_gradient": Rule("gradients made flat for the optimizer", f"{_STAGES}: step", "temporaries"),
    "flat_parameters": Rule("16-bit copy of what the optimizer has updated", _STAGES, "parameters"),
    "swap_buffer": Rule(
        "buffers through which states and parameters on a disk pass",
        "deepspeed, runtime/swap_tensor/partitioned_param_swapper.py",
        "buffers",
    ),
}
"""Rows by name."""
