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
    "fp32_gradients": Rule("gradients accumulated in fp32 over micro-batches", _ACCUMULATOR, "gradients"),
    "master_parameter": Rule("fp32 copy of the parameters for the optimizer", _ACCUMULATOR, "optimizer states"),
    "gathered_parameters": Rule(
        "flat parameter copies for the all-gather, plus NCCL's own",
        "nanotron, distributed.py, all_gather_coalesced; pytorch, ProcessGroupNCCL.cpp, newLikeFlat",
        "communication",
    ),
    "gather_buffer": Rule("persistent buffer for gathered sequences", f"{_PARALLEL}, MemoryBuffer", "communication"),
    "gathered_sequence": Rule("sequence gathered from all ranks", _PARALLEL),
    "scattered_sequence": Rule("this rank's part of the reduce-scattered sequence", _PARALLEL),
    "scattered_gradient": Rule("this rank's part of an input's gradient", _PARALLEL),
    "sequence_lengths": Rule("start offsets of packed sequences", "flash-attn, flash_attn_interface.py"),
    "embedding_sums": Rule(
        "gradient sums per repeated token, fp32", "pytorch, aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu"
    ),
    "argmax": Rule("position of the largest logit", _PARALLEL),
    # DeepSpeed.
    "bf16_partition": Rule("bf16 copy of this rank's parameter partition", _STAGES, "optimizer states"),
    "fp32_partition": Rule("fp32 copy of this rank's parameter partition", _STAGES, "optimizer states"),
    "partitioned_gradients": Rule("gradients of this rank's parameter partition", _STAGES, "gradients"),
    "accumulated_gradients": Rule(
        "gradients accumulated in fp32 over micro-batches", "deepspeed, runtime/bf16_optimizer.py", "gradients"
    ),
    "partitioned_activation": Rule(
        "this rank's part of a checkpointed input", f"{_CHECKPOINTING}: partition_activations"
    ),
    "gathered_activation": Rule(
        "gathered checkpointed input", f"{_CHECKPOINTING}: gather_partitioned_activations", "communication"
    ),
    "quantized_parameter": Rule(
        "qwZ: gathered int8 parameters and their dequantized copy",
        "deepspeed, runtime/zero/partition_parameters.py: _all_gather_coalesced, _all_gather_sequential, CUDAQuantizer",
        "communication",
    ),
    "quantized_gradient": Rule(
        "qgZ: int4 gradient before and after each exchange, and the sum",
        "deepspeed, runtime/comm/coalesced_collectives.py: all_to_all_quant_reduce",
        "communication",
    ),
    "reduce_bucket": Rule("bucket for gradients, reduced when full", f"{_STAGES}: setup_buckets", "communication"),
    "fp64_gradient": Rule(
        "gradients cast to fp64 for their norm", "deepspeed, runtime/zero/stage3.py: _constant_buffered_norm2"
    ),
    "reduced_copy": Rule(
        "copy of a gradient bucket for its reduction",
        "deepspeed, runtime/zero/stage_1_and_2.py: allreduce_bucket; runtime/comm/coalesced_collectives.py",
        "communication",
    ),
    "gathered_parameter": Rule(
        "gathered parameters: current module, prefetched and soon to be reused",
        "deepspeed, runtime/zero/partitioned_param_coordinator.py",
        "communication",
    ),
    "kept_parameters": Rule(
        "small parameters that stay gathered", "deepspeed, runtime/zero/parameter_offload.py", "parameters"
    ),
    "secondary_partition": Rule(
        "hpZ: secondary parameter partition", "deepspeed, runtime/zero/partition_parameters.py", "parameters"
    ),
    "offload_buffer": Rule("staging buffer for offloading the largest gradient", _STAGES, "communication"),
    "fp32_gradient": Rule("gradients cast to fp32 for the optimizer", f"{_STAGES}: step", "temporaries"),
    "flat_gradient": Rule("gradients made flat for the optimizer", f"{_STAGES}: step", "temporaries"),
    "flat_parameters": Rule("16-bit copy of the updated parameters", _STAGES, "parameters"),
    "swap_buffer": Rule(
        "staging buffers for states and parameters on NVMe",
        "deepspeed, runtime/swap_tensor/partitioned_param_swapper.py",
        "buffers",
    ),
}
"""Rows by name."""
