"""Rules of fine-tuning: quantized weights, adapters, FSDP1, offloading, further optimizers. Rows of `RULES`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.rules.rule import Rule

_OFFLOADED = "pytorch, CPUOffloadPolicy; torchao, optim/cpu_offload.py; bitsandbytes, get_paged"
_BNB = "bitsandbytes, bitsandbytes/functional.py, quantize_4bit"

_CUT = "cut_cross_entropy, cut_cross_entropy/cce.py and cce_backward.py"

FINE_TUNING: Mapping[str, Rule] = {
    "quantization_scales": Rule(
        "absolute maximum of each block of a quantized weight, or scale of each row",
        "bitsandbytes, bitsandbytes/functional.py, quantize_4bit and int8_vectorwise_quant",
        "parameters",
    ),
    "nested_scales": Rule("absolute maximum of each 256 quantized maxima", _BNB, "parameters"),
    "quantization_code": Rule("what each value of a quantized tensor stands for", _BNB, "parameters"),
    "quantization_offset": Rule("mean of the maxima, subtracted before they were quantized", _BNB, "parameters"),
    "dequantized_weight": Rule(
        "quantized weight as numbers, for one product", "bitsandbytes, bitsandbytes/autograd/_functions.py"
    ),
    "dequantized_scales": Rule("quantized maxima as numbers, for one product", _BNB),
    "quantized_rows": Rule(
        "rows in 8 bits with a scale each", "bitsandbytes, backends/cuda/ops.py, int8_vectorwise_quant"
    ),
    "int8_product": Rule("product of 8-bit matrices", "bitsandbytes, backends/cuda/ops.py, int8_linear_matmul"),
    "flat_gradient": Rule(
        "gradients of a unit in one tensor",
        "pytorch, torch/csrc/autograd/FunctionsManual.cpp, split_with_sizes_backward",
    ),
    "conv1d": Rule("grouped convolution over tokens", "lit_gpt, lit_gpt/lora.py, LoRAQKVLinear.conv1d"),
    "conv1d_backward": Rule(
        "gradient of a grouped convolution", "pytorch, tools/autograd/derivatives.yaml, convolution"
    ),
    "index_copy": Rule("rows put into a copy of zeros", "lit_gpt, lit_gpt/lora.py, LoRAQKVLinear.zero_pad"),
    "offloaded_activation": Rule(
        "saved tensor, back from the host", "torchtune, torchtune/training/_activation_offloading.py"
    ),
    "shared_adapter": Rule("frozen matrix that all adapters share", "peft, tuners/vera/model.py", "buffers"),
    "cut_loss": Rule("loss", _CUT),
    "cut_loss_rows": Rule("a number for each token, such as the sum of its exponentials", _CUT, "logits and loss"),
    "cut_loss_words": Rule("a number for each word of the vocabulary", _CUT, "logits and loss"),
    "cut_loss_locks": Rule("locks of blocks that several programs add to", _CUT, "logits and loss"),
    "block_diagonal": Rule("blocks along a diagonal", "peft, tuners/boft/layer.py, Linear.forward"),
    "frozen_adapter": Rule(
        "part of an adapter that does not learn", "peft, tuners/tinylora/layer.py and tuners/oft/layer.py", "buffers"
    ),
    "liger_rms_norm": Rule("RMSNorm in one kernel", "liger_kernel/ops/rms_norm.py"),
    "liger_rms_norm_backward": Rule("gradient of its weight", "liger_kernel/ops/rms_norm.py"),
    "liger_gate": Rule("gated activation in one kernel", "liger_kernel/ops/swiglu.py"),
    "host_parameter": Rule("parameter on the host, pinned", _OFFLOADED, "parameters"),
    "host_gradient": Rule("gradient on the host, pinned", _OFFLOADED, "gradients"),
    "host_state": Rule("optimizer state on the host", _OFFLOADED, "optimizer states"),
    "host_activation": Rule("saved tensors on the host", "torchtune, _activation_offloading.py", "activations"),
    "update_norm": Rule("norm of an update", "bitsandbytes, optim/optimizer.py, max_unorm", "optimizer states"),
    "schedule_free_z": Rule("Schedule-Free's second sequence", "schedule_free, schedulefree", "optimizer states"),
    "exp_avg_var": Rule("squared difference to the mean", "pytorch_optimizer, adabelief.py", "optimizer states"),
    "mean_square": Rule("mean square of a block's gradients", "adam_mini, adam_mini.py", "optimizer states"),
    "preconditioner": Rule(
        "sum of outer products of an axis",
        "pytorch_optimizer, shampoo.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "preconditioner_root": Rule(
        "its inverse root",
        "pytorch_optimizer, shampoo.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "triangle_indices": Rule(
        "rows and columns of a packed square's elements, for each side that occurs",
        "facebookresearch/optimizers, shampoo_utils.py (_get_triu_indices)",
        "optimizer states",
    ),
    "eigenbasis": Rule(
        "its eigenvectors",
        "pytorch_optimizer, soap.py; facebookresearch/optimizers, shampoo_preconditioner_list.py",
        "optimizer states",
    ),
    "projection": Rule("projection of a gradient", "galore_torch, galore_projector.py", "optimizer states"),
    "muon_update": Rule("Nesterov's update", "pytorch, torch/optim/_muon.py", "temporaries"),
    "newton_schulz": Rule("Newton-Schulz iteration in bf16", "pytorch, torch/optim/_muon.py", "temporaries"),
}
