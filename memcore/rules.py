"""Every rule by which something is in memory: what it is in words, and where that can be checked.

Blocks of a tape, buffers and persistent tensors name their rule; `Entry` and the reference page show the row. Versions
are PyTorch 2.13 and transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_FORMULAS = "pytorch, tools/autograd/derivatives.yaml"
_ENGINE = "pytorch, torch/csrc/autograd/engine.cpp"
_COLLECTIVES = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"
_GROUP = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py"
_SHARDED = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py"
_FLASH = "pytorch, aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp"
_EFFICIENT = "pytorch, aten/src/ATen/native/transformers/cuda/attention_backward.cu"
_MATH = "pytorch, aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math"
_MASKS = "transformers, src/transformers/masking_utils.py"
_ROPE = "transformers, modeling_rope_utils.py; torchtitan, models/common/rope.py"
_LOSS = "pytorch, aten/src/ATen/native/LossNLL.cpp and SoftMax.cpp"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row."""

    title: str
    """What the memory holds, in a few words."""
    source: str
    category: str | None = None
    """Its category; None where its lifetime decides."""


RULES: Mapping[str, Rule] = {
    # What is there from the start to the end of the job.
    "parameter": Rule("parameter", "the model's config.json", "parameters"),
    "exp_avg": Rule("Adam's first moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "exp_avg_sq": Rule("Adam's second moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "step_count": Rule(
        "step count, one block for each parameter", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"
    ),
    "momentum_buffer": Rule("SGD's momentum", "pytorch, torch/optim/sgd.py", "optimizer states"),
    "ddp_buckets": Rule(
        "DDP's flat copy of all gradients", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "communication"
    ),
    "gradient_buckets": Rule(
        "gradients, as views of DDP's buckets", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "gradients"
    ),
    "rotary_frequencies": Rule("rotary frequencies", _ROPE, "buffers"),
    "rotary_table": Rule("rotations of all positions, complex", _ROPE, "buffers"),
    "embedding_scale": Rule("scale of the embedding", "transformers, models/gemma2/modeling_gemma2.py", "buffers"),
    "cublas_workspace": Rule(
        "cuBLAS workspace", "pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp, getChosenWorkspaceSize", "buffers"
    ),
    "cublaslt_workspace": Rule(
        "cuBLASLt workspace", "pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp, _parseChosenWorkspaceSize", "buffers"
    ),
    # Inputs of a step.
    "inputs": Rule("token ids, labels or padding mask", "the trainer", "buffers"),
    "position_ids": Rule("position ids", "transformers, modeling_*.py, Model.forward"),
    "rotary": Rule("rotary cosines and sines, or rotated heads", _ROPE),
    "rotary_backward": Rule("gradient through the rotation", _ROPE),
    "attention_mask": Rule("attention mask", _MASKS),
    "logical_not": Rule("inverted mask", "pytorch, aten/src/ATen/native/transformers/sdp_utils_cpp.h"),
    "attention_bias": Rule("mask as a bias of the scores", "pytorch, sdp_utils_cpp.h and attention.cpp"),
    "causal_mask": Rule("causal mask of the math kernel", _MATH),
    # Elementwise operations: what each saves follows from its derivative.
    "add": Rule("sum", f"{_FORMULAS}: add"),
    "mul": Rule("product of elements", f"{_FORMULAS}: mul"),
    "mul_backward": Rule("gradient of a factor", f"{_FORMULAS}: mul"),
    "div": Rule("quotient", f"{_FORMULAS}: div"),
    "div_backward": Rule("gradient of a quotient", f"{_FORMULAS}: div"),
    "neg": Rule("negated half of a head", f"{_FORMULAS}: neg"),
    "neg_backward": Rule("gradient of a negation", f"{_FORMULAS}: neg"),
    "pow": Rule("power", f"{_FORMULAS}: pow"),
    "pow_backward": Rule("gradient of a power, with its temporaries", "pytorch, FunctionsManual.cpp: pow_backward"),
    "rsqrt": Rule("reciprocal root", f"{_FORMULAS}: rsqrt"),
    "rsqrt_backward": Rule("gradient of a reciprocal root, with its temporaries", f"{_FORMULAS}: rsqrt"),
    "tanh": Rule("hyperbolic tangent", f"{_FORMULAS}: tanh"),
    "tanh_backward": Rule("gradient of tanh", f"{_FORMULAS}: tanh"),
    "relu": Rule("ReLU", f"{_FORMULAS}: relu"),
    "relu_backward": Rule("gradient of ReLU", f"{_FORMULAS}: relu"),
    "silu": Rule("SiLU", f"{_FORMULAS}: silu"),
    "silu_backward": Rule("gradient of SiLU", f"{_FORMULAS}: silu"),
    "gelu": Rule("GELU", f"{_FORMULAS}: gelu"),
    "gelu_backward": Rule("gradient of GELU", f"{_FORMULAS}: gelu"),
    "dropout": Rule("result of dropout", f"{_FORMULAS}: native_dropout"),
    "dropout_mask": Rule("mask of dropout, one byte per element", f"{_FORMULAS}: native_dropout"),
    "dropout_backward": Rule("gradient through dropout", f"{_FORMULAS}: native_dropout"),
    "to": Rule("copy in another dtype", f"{_FORMULAS}: _to_copy"),
    "clone": Rule("copy in another order of axes", f"{_FORMULAS}: clone"),
    "cat": Rule("concatenation", f"{_FORMULAS}: cat"),
    "slice_backward": Rule("gradient of a slice, in full size", "pytorch, FunctionsManual.cpp: slice_backward"),
    "pad": Rule("padded copy", "pytorch, aten/src/ATen/native/PadNd.cpp"),
    "sum_to_size": Rule("gradient summed to its tensor's shape", f"{_ENGINE}: validate_outputs"),
    "gradient_sum": Rule("sum of two gradients", "pytorch, torch/csrc/autograd/input_buffer.cpp"),
    "backward_seed": Rule("gradient of the loss", _ENGINE),
    # Reductions and normalization.
    "mean": Rule("mean over the hidden axis", f"{_FORMULAS}: mean"),
    "mean_backward": Rule("gradient of a mean, in full size", f"{_FORMULAS}: mean"),
    "layer_norm": Rule("LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "layer_norm_backward": Rule("gradients of LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "rms_norm": Rule("RMSNorm in one kernel", f"{_FORMULAS}: _fused_rms_norm"),
    "rms_norm_backward": Rule("gradients of RMSNorm", f"{_FORMULAS}: _fused_rms_norm"),
    "norm_statistics": Rule("statistics of a norm, fp32", f"{_FORMULAS}: native_layer_norm, _fused_rms_norm"),
    # Matrix products and the embedding.
    "linear": Rule("result of a linear layer", f"{_FORMULAS}: linear, addmm, mm"),
    "input_gradient": Rule("gradient of a linear layer's input", f"{_FORMULAS}: mm"),
    "weight_gradient": Rule("gradient of a weight", f"{_FORMULAS}: mm"),
    "matmul": Rule("batched matrix product", f"{_FORMULAS}: bmm"),
    "matmul_backward": Rule("gradient of a batched product", f"{_FORMULAS}: bmm"),
    "embedding": Rule("embedded tokens", f"{_FORMULAS}: embedding"),
    "embedding_backward": Rule("gradient of an embedding, dense", f"{_FORMULAS}: embedding"),
    # Attention.
    "repeat_kv": Rule("keys or values copied for every query head", "transformers, integrations/sdpa_attention.py"),
    "repeat_kv_backward": Rule("gradient summed over a group's query heads", f"{_FORMULAS}: expand"),
    "softmax": Rule("attention weights", f"{_FORMULAS}: _softmax"),
    "softmax_backward": Rule("gradient of the scores", f"{_FORMULAS}: _softmax"),
    "flash_attention": Rule("result of flash attention", _FLASH),
    "efficient_attention": Rule("result of memory-efficient attention", _EFFICIENT),
    "cudnn_attention": Rule("result of cuDNN attention", f"{_FORMULAS}: _scaled_dot_product_cudnn_attention"),
    "logsumexp": Rule("log-sum-exp of each row of scores, fp32", _FLASH),
    "random_state": Rule("state of the random generator", _FLASH),
    "attention_backward": Rule("gradients of queries, keys and values", _FLASH),
    "flash_softmax_sum": Rule("row statistic of flash attention's backward pass", f"{_FLASH}: mha_bwd"),
    "flash_query_accumulator": Rule("fp32 gradient of the queries", f"{_FLASH}: mha_bwd"),
    "flash_expanded_gradient": Rule("gradients of keys and values for every query head", f"{_FLASH}: mha_bwd"),
    "efficient_delta": Rule("row statistic of the backward pass", _EFFICIENT),
    "efficient_query_accumulator": Rule("fp32 gradient of the queries", _EFFICIENT),
    # Losses.
    "log_softmax": Rule("log-probabilities", _LOSS),
    "log_softmax_backward": Rule("gradient of the logits", _LOSS),
    "nll_loss": Rule("loss", _LOSS),
    "nll_loss_backward": Rule("gradient of the log-probabilities", _LOSS),
    # FSDP2.
    "all_gather_input": Rule("this rank's shards, cast for the all-gather", _COLLECTIVES, "communication"),
    "all_gather_output": Rule("a unit's parameters as the all-gather leaves them", _COLLECTIVES, "communication"),
    "unsharded_parameter": Rule("gathered parameter", _SHARDED, "communication"),
    "resharded_parameter": Rule("part of a parameter kept for a smaller group of ranks", _SHARDED, "communication"),
    "reduce_scatter_input": Rule("a unit's gradients, copied for the reduce-scatter", _COLLECTIVES, "communication"),
    "reduce_scatter_output": Rule("reduced gradients before they are cast", _COLLECTIVES, "communication"),
    "sharded_gradient": Rule("this rank's part of a unit's gradients", _COLLECTIVES, "gradients"),
    "accumulated_gradient": Rule("unsharded gradient, accumulated in the reduce dtype", _GROUP, "gradients"),
    # The end of a step.
    "gradient_norm": Rule("norms of gradients", "pytorch, torch/nn/utils/clip_grad.py", "temporaries"),
    "optimizer_temporary": Rule("temporaries of the optimizer's step", "pytorch, torch/optim", "temporaries"),
}
"""Rows by name."""
