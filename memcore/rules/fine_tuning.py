"""Rules of fine-tuning: quantized weights, adapters, FSDP1, offloading, further optimizers. Rows of `RULES`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.rules.rule import Rule

_OFFLOADED = "pytorch, CPUOffloadPolicy; torchao, optim/cpu_offload.py; bitsandbytes, get_paged"
_BNB = "bitsandbytes, bitsandbytes/functional.py, quantize_4bit"

_GPTQ = "gptqmodel, nn_modules/qlinear/__init__.py, BaseQuantLinear (register_buffer)"
_HEAD = "trl, kernels/chunked_logprob.py: ChunkedLogProbFunction"
_CUT = "cut_cross_entropy, cut_cross_entropy/cce.py and cce_backward.py"

FINE_TUNING: Mapping[str, Rule] = {
    "quantization_scales": Rule(
        "per-block absolute maxima (or per-row scales) of a quantized weight",
        "bitsandbytes, bitsandbytes/functional.py, quantize_4bit and int8_vectorwise_quant",
        "parameters",
    ),
    "reference_parameter": Rule(
        "parameter of the frozen reference model",
        "trl, trainer/dpo_trainer.py: create_model_from_path; ms-swift, megatron/trainers/rlhf_mixin.py",
        "parameters",
    ),
    "fake_quantization": Rule("rounded input or weight", "torchao, quantization/quant_primitives.py"),
    "fake_quantization_mask": Rule("mask of what rounding did not clamp", "torchao, quantization/qat/utils.py"),
    "teacher_parameter": Rule(
        "parameters of the frozen teacher", "torchtune, recipes/knowledge_distillation_distributed.py", "parameters"
    ),
    "teacher_forward": Rule(
        "largest moment of the teacher's forward pass", "torchtune, recipes/knowledge_distillation_distributed.py"
    ),
    "reward_parameter": Rule(
        "parameter of the frozen reward model",
        "LLaMA-Factory, train/trainer_utils.py: create_reward_model",
        "parameters",
    ),
    "nested_scales": Rule("second-level scales, one per 256 quantized maxima", _BNB, "parameters"),
    "quantization_code": Rule("code book of a quantized tensor", _BNB, "parameters"),
    "quantization_offset": Rule("offset subtracted from the maxima before quantization", _BNB, "parameters"),
    "group_scales": Rule("scales of GPTQ's groups", _GPTQ, "parameters"),
    "group_zeros": Rule("zero points of GPTQ's groups", _GPTQ, "parameters"),
    "group_index": Rule("quantization group of each input", _GPTQ, "parameters"),
    "dequantized_weight": Rule(
        "weight dequantized for one matrix product", "bitsandbytes, bitsandbytes/autograd/_functions.py"
    ),
    "dequantized_scales": Rule("scales dequantized for one matrix product", _BNB),
    "quantized_rows": Rule(
        "int8 rows with one scale each", "bitsandbytes, backends/cuda/ops.py, int8_vectorwise_quant"
    ),
    "int8_product": Rule("int8 matrix product", "bitsandbytes, backends/cuda/ops.py, int8_linear_matmul"),
    "flat_gradient": Rule(
        "flattened gradients of an FSDP unit",
        "pytorch, torch/csrc/autograd/FunctionsManual.cpp, split_with_sizes_backward",
    ),
    "conv1d": Rule("grouped 1-D convolution over tokens", "lit_gpt, lit_gpt/lora.py, LoRAQKVLinear.conv1d"),
    "conv1d_backward": Rule(
        "gradient of a grouped convolution", "pytorch, tools/autograd/derivatives.yaml, convolution"
    ),
    "index_copy": Rule("rows copied into a zero tensor", "lit_gpt, lit_gpt/lora.py, LoRAQKVLinear.zero_pad"),
    "offloaded_activation": Rule(
        "saved tensor reloaded from the host", "torchtune, torchtune/training/_activation_offloading.py"
    ),
    "shared_adapter": Rule("frozen matrix shared by all adapters", "peft, tuners/*vera/model.py", "buffers"),
    "fused_head_rows": Rule("per-token values such as the log-sum-exp", _HEAD, "logits and loss"),
    "fused_head_tile": Rule("logits of one tile (tokens × vocabulary)", _HEAD, "logits and loss"),
    "fused_head_chunk": Rule(
        "logits of some words, and what is computed of them",
        "prime-rl, src/prime_rl/trainer/models/layers/lm_head.py: _ChunkedLogProbEntropyFn",
        "logits and loss",
    ),
    "cut_loss": Rule("loss", _CUT),
    "cut_loss_rows": Rule("per-token values such as the log-sum-exp", _CUT, "logits and loss"),
    "cut_loss_words": Rule("one value per vocabulary entry", _CUT, "logits and loss"),
    "cut_loss_locks": Rule("locks for blocks that several Triton programs accumulate into", _CUT, "logits and loss"),
    "block_diagonal": Rule("block-diagonal matrix", "peft, tuners/boft/layer.py, Linear.forward"),
    "frozen_adapter": Rule("frozen part of an adapter", "peft, tuners/{tinylora,oft,delora}/layer.py", "buffers"),
    "liger_rms_norm": Rule("RMSNorm in one kernel", "liger_kernel/ops/rms_norm.py"),
    "liger_rms_norm_backward": Rule("gradient of the RMSNorm weight", "liger_kernel/ops/rms_norm.py"),
    "liger_gate": Rule("gated activation in one kernel", "liger_kernel/ops/swiglu.py"),
    "host_parameter": Rule("parameter in pinned host memory", _OFFLOADED, "parameters"),
    "host_gradient": Rule("gradient in pinned host memory", _OFFLOADED, "gradients"),
    "host_state": Rule("optimizer state on the host", _OFFLOADED, "optimizer states"),
    "host_activation": Rule("saved tensors on the host", "torchtune, _activation_offloading.py", "activations"),
    "update_norm": Rule("norm of an update", "bitsandbytes, optim/optimizer.py, max_unorm", "optimizer states"),
    "schedule_free_z": Rule("Schedule-Free's second sequence", "schedule_free, schedulefree", "optimizer states"),
    "exp_avg_var": Rule("squared deviation from the mean", "pytorch_optimizer, adabelief.py", "optimizer states"),
    "mean_square": Rule("mean square of a block's gradients", "adam_mini, adam_mini.py", "optimizer states"),
    "preconditioner": Rule(
        "preconditioner: sum of outer products along an axis",
        "pytorch_optimizer, shampoo.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "preconditioner_root": Rule(
        "inverse root of a preconditioner",
        "pytorch_optimizer, shampoo.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "triangle_indices": Rule(
        "row and column indices of a packed triangle, one set per size",
        "facebookresearch/optimizers, shampoo_utils.py (_get_triu_indices)",
        "optimizer states",
    ),
    "eigenbasis": Rule(
        "eigenvectors of a preconditioner",
        "pytorch_optimizer, soap.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "projection": Rule("projection of a gradient", "galore_torch, galore_projector.py", "optimizer states"),
    "muon_update": Rule("Nesterov update", "pytorch, torch/optim/_muon.py", "temporaries"),
    "newton_schulz": Rule("Newton-Schulz iteration in bf16", "pytorch, torch/optim/_muon.py", "temporaries"),
}
