"""Every rule by which something is in memory: what it is in words, and where that can be checked.

Blocks of a tape, buffers and persistent tensors name their rule; `Entry` and the reference page show the row. Versions
are PyTorch 2.13 and transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore import registry
from memcore.rules.fine_tuning import FINE_TUNING
from memcore.rules.rule import Rule
from memcore.rules.zero import ZERO

_FORMULAS = "pytorch, tools/autograd/derivatives.yaml"
_ENGINE = "pytorch, torch/csrc/autograd/engine.cpp"
_COLLECTIVES = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"
_GROUP = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py"
_SHARDED = "pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py"
_FLASH = "pytorch, aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp"
_EFFICIENT = "pytorch, aten/src/ATen/native/transformers/cuda/attention_backward.cu"
_MATH = "pytorch, aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math"
_MANUAL = "pytorch, torch/csrc/autograd/FunctionsManual.cpp"
_REDUCED = "value_selecting_reduction_backward"
_INDEXING = "pytorch, aten/src/ATen/native/cuda/Indexing.cu"
_MOE = "transformers, integrations/moe.py"
_MIXER = "transformers, models/phimoe/modeling_phimoe.py, sparsemixer"
_MASKS = "transformers, src/transformers/masking_utils.py"
_ROPE = "transformers, modeling_rope_utils.py; torchtitan, models/common/rope.py"
_CONV1D = "causal-conv1d, causal_conv1d/causal_conv1d_interface.py"
_SSD = "mamba-ssm, mamba_ssm/ops/triton/ssd_combined.py"
_FLA_NORM = "flash-linear-attention, fla/modules/norm/fused_norm_gate.py"
_MAMBA_NORM = "mamba-ssm, mamba_ssm/ops/triton/layernorm_gated.py"
_FLA = "flash-linear-attention, fla/ops/gated_delta_rule/chunk.py and fla/ops/kda/chunk.py"
_PARTITIONER = "pytorch, torch/_functorch/partitioners.py"
_DISPATCH = "torchtitan, torchtitan/models/common/token_dispatcher.py"
_DEEPEP = "torchtitan, torchtitan/distributed/deepep/deepep.py; DeepEP, deep_ep/buffers/elastic.py"
_FUNCTIONAL = "pytorch, torch/distributed/_functional_collectives.py"
_MASK_PARTIAL = "pytorch, torch/distributed/tensor/placement_types.py, _MaskPartial"
_LOSS_PARALLEL = "pytorch, torch/distributed/tensor/parallel/loss.py"
_LOSS = "pytorch, aten/src/ATen/native/LossNLL.cpp and SoftMax.cpp"


_MEGATRON = "Megatron-LM, core/tensor_parallel"
_EXPERTS = "Megatron-LM, core/transformer/moe"
_FUSIONS = "Megatron-LM, core/fusions"
_LIGER = "liger_kernel/ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward"

_RING = "pytorch, torch/distributed/tensor/experimental/_context_parallel/_attention.py"
_ULYSSES = "deepspeed, runtime/sequence_parallel/ulysses_sp.py and sequence/layer.py"

RULES: Mapping[str, Rule] = {
    **{name: rule for module in registry.engine_modules("rules") for name, rule in module.RULES.items()},
    **ZERO,
    **FINE_TUNING,
    # What is there from the start to the end of the job.
    "parameter": Rule("parameter", "the model's config.json", "parameters"),
    "exp_avg": Rule("Adam's first moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "exp_avg_sq": Rule("Adam's second moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "step_count": Rule(
        "step count, one block per parameter", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"
    ),
    "momentum_buffer": Rule("momentum", "pytorch, torch/optim/sgd.py and rmsprop.py", "optimizer states"),
    "max_exp_avg_sq": Rule("AMSGrad's largest second moment", "pytorch, torch/optim/adam.py", "optimizer states"),
    "exp_inf": Rule("Adamax's infinity norm", "pytorch, torch/optim/adamax.py", "optimizer states"),
    "square_avg": Rule("running average of squared gradients", "pytorch, torch/optim/rmsprop.py", "optimizer states"),
    "acc_delta": Rule(
        "Adadelta's running average of squared updates", "pytorch, torch/optim/adadelta.py", "optimizer states"
    ),
    "sum_of_squares": Rule("Adagrad's sum of squares", "pytorch, torch/optim/adagrad.py", "optimizer states"),
    "averaged": Rule("averaged parameters", "pytorch, torch/optim/asgd.py", "optimizer states"),
    "row_var": Rule("Adafactor's row means of squares", "pytorch, torch/optim/_adafactor.py", "optimizer states"),
    "col_var": Rule("Adafactor's column means of squares", "pytorch, torch/optim/_adafactor.py", "optimizer states"),
    "quantized_moment": Rule(
        "8-bit moment", "bitsandbytes, bitsandbytes/optim/optimizer.py, init_state", "optimizer states"
    ),
    "block_scales": Rule(
        "per-block scales of a moment",
        "bitsandbytes, bitsandbytes/optim/optimizer.py, init_state",
        "optimizer states",
    ),
    "master_copy": Rule(
        "the optimizer's copy of the parameters, or the bits that bf16 lacks",
        "TransformerEngine, pytorch/optimizers/fused_adam.py; flashoptim, optimizers.py",
        "optimizer states",
    ),
    "quantization_map": Rule(
        "8-bit quantization map, shared by all parameters",
        "bitsandbytes, bitsandbytes/optim/optimizer.py, fill_qmap",
        "optimizer states",
    ),
    "ddp_buckets": Rule(
        "DDP's flat copy of all gradients", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "communication"
    ),
    "gradient_buckets": Rule(
        "gradients as views of DDP's buckets", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "gradients"
    ),
    "rotary_frequencies": Rule("rotary frequencies", _ROPE, "buffers"),
    "rotary_table": Rule("complex rotary table for all positions", _ROPE, "buffers"),
    "constant": Rule("constants of a recurrent mixer", "transformers, modeling_*.py, __init__ of the mixer", "buffers"),
    "causal_buffer": Rule(
        "causal mask for the longest sequence",
        "transformers, models/gpt2, gpt_neo, gpt_neox and gpt_bigcode",
        "buffers",
    ),
    "last_state": Rule(
        "recurrent state kept until the next step",
        "transformers, models/recurrent_gemma: RecurrentGemmaRglru.forward",
        "buffers",
    ),
    "activation_constant": Rule("constant of an activation function", "transformers, activations.py", "buffers"),
    "layer_scale": Rule("scale of a layer", "transformers, models/gemma3n and gemma4", "buffers"),
    "embedding_scale": Rule("scale of the embedding", "transformers, models/gemma2/modeling_gemma2.py", "buffers"),
    "cublas_workspace": Rule(
        "cuBLAS workspace", "pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp, getChosenWorkspaceSize", "buffers"
    ),
    "cublaslt_workspace": Rule(
        "cuBLASLt workspace", "pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp, _parseChosenWorkspaceSize", "buffers"
    ),
    # Inputs of a step.
    "inputs": Rule("token ids, labels or padding mask", "the trainer", "buffers"),
    "received_activation": Rule(
        "hidden states received from the previous stage",
        "pytorch, torch/distributed/pipelining/stage.py",
        "activations",
    ),
    "receive_buffer": Rule(
        "receive buffers for all micro-batches",
        "pytorch, torch/distributed/pipelining/stage.py, _setup_forward_recv_info",
        "communication",
    ),
    "returned_output": Rule(
        "outputs of other micro-batches, or all outputs merged",
        "pytorch, torch/distributed/pipelining/schedules.py, return_outputs",
        "logits and loss",
    ),
    "received_gradient": Rule(
        "gradient received from the next stage", "pytorch, torch/distributed/pipelining/stage.py", "temporaries"
    ),
    "position_ids": Rule("position ids", "transformers, modeling_*.py, Model.forward"),
    "rotary": Rule("rotary cosines and sines, or rotated heads", _ROPE),
    "rotary_backward": Rule("gradient of the rotary embedding", _ROPE),
    "pixels": Rule("preprocessed images", "transformers, image_processing_*.py", "buffers"),
    "unfold_backward": Rule("patch gradients folded back onto the image grid", "aten/src/ATen/native/cuda/Col2Im.cu"),
    "unfold": Rule("pixels unfolded into patches", "aten/src/ATen/native/cuda/Im2Col.cu"),
    "convolution": Rule("patch embeddings", f"{_FORMULAS}: convolution"),
    "convolution_backward": Rule("gradients of a convolution's parameters", f"{_FORMULAS}: convolution"),
    "stack": Rule("stacked gradients of a list of tensors", "pytorch, FunctionsManual.cpp: unbind_backward"),
    "placeholder_mask": Rule("mask of image placeholder tokens", "transformers, modeling_*.py, get_placeholder_mask"),
    "masked_scatter": Rule("token embeddings with image features merged in", f"{_FORMULAS}: masked_scatter"),
    "mask_prefix_sum": Rule(
        "prefix sum of the mask", "pytorch, aten/src/ATen/native/cuda/IndexKernel.cpp: masked_scatter__cuda"
    ),
    "masked_select": Rule("gradient of the image features", "pytorch, FunctionsManual.cpp: masked_scatter_backward"),
    "nonzero": Rule("indices of nonzero elements", "pytorch, aten/src/ATen/native/cuda/Nonzero.cu"),
    "index_put_backward": Rule("gradient with overwritten rows zeroed", f"{_FORMULAS}: index_put_"),
    "average_pool": Rule("average-pooled patches", f"{_FORMULAS}: avg_pool2d"),
    "average_pool_backward": Rule("gradient of average pooling", f"{_FORMULAS}: avg_pool2d"),
    "vision_positions": Rule("row and column positions of patches", "transformers, vision_utils.py"),
    "attention_mask": Rule("attention mask", _MASKS),
    "logical_not": Rule("inverted mask", "pytorch, aten/src/ATen/native/transformers/sdp_utils_cpp.h"),
    "attention_bias": Rule("attention mask as an additive bias", "pytorch, sdp_utils_cpp.h and attention.cpp"),
    "causal_mask": Rule("causal mask of the math kernel", _MATH),
    # Elementwise operations: what each saves follows from its derivative.
    "compare": Rule("result of a comparison", "pytorch, aten/src/ATen/native/BinaryOps.cpp"),
    "eye": Rule("identity matrix", "pytorch, aten/src/ATen/native/TensorFactories.cpp"),
    "log_backward": Rule("gradient of a logarithm", f"{_FORMULAS}: log"),
    "add": Rule("sum", f"{_FORMULAS}: add"),
    "fft": Rule("Fourier transform", f"{_FORMULAS}: _fft_c2c"),
    "sin": Rule("sine", f"{_FORMULAS}: sin"),
    "cos": Rule("cosine", f"{_FORMULAS}: cos"),
    "einsum": Rule("sum of products over shared axes", "pytorch, aten/src/ATen/native/Linear.cpp: einsum"),
    "addcmul": Rule("sum with a product", f"{_FORMULAS}: addcmul"),
    "sub": Rule("difference", f"{_FORMULAS}: sub"),
    "floor": Rule("rounded-down value", f"{_FORMULAS}: floor"),
    "log": Rule("logarithm", f"{_FORMULAS}: log"),
    "mixed": Rule(
        "result of a part that memcore approximates",
        "the shapes of the part's matrices; kernels save what they read (derivatives.yaml)",
    ),
    "mixed_backward": Rule("gradient of a part that memcore approximates", "the shapes of the part's matrices"),
    "mul": Rule("elementwise product", f"{_FORMULAS}: mul"),
    "mul_backward": Rule("gradient of an elementwise product", f"{_FORMULAS}: mul"),
    "div": Rule("quotient", f"{_FORMULAS}: div"),
    "div_backward": Rule("gradient of a quotient", f"{_FORMULAS}: div"),
    "sub_backward": Rule("gradient of a subtraction", f"{_FORMULAS}: rsub"),
    "neg": Rule("negated half of the head (rotary)", f"{_FORMULAS}: neg"),
    "neg_backward": Rule("gradient of a negation", f"{_FORMULAS}: neg"),
    "pow": Rule("power", f"{_FORMULAS}: pow"),
    "pow_backward": Rule("gradient of a power, with its temporaries", "pytorch, FunctionsManual.cpp: pow_backward"),
    "sqrt": Rule("square root", f"{_FORMULAS}: sqrt"),
    "sqrt_backward": Rule("gradient of a square root, with a temporary", f"{_FORMULAS}: sqrt"),
    "rsqrt": Rule("reciprocal square root", f"{_FORMULAS}: rsqrt"),
    "rsqrt_backward": Rule("gradient of a reciprocal square root, with its temporaries", f"{_FORMULAS}: rsqrt"),
    "tanh": Rule("hyperbolic tangent", f"{_FORMULAS}: tanh"),
    "tanh_backward": Rule("gradient of tanh", f"{_FORMULAS}: tanh"),
    "relu": Rule("ReLU", f"{_FORMULAS}: relu"),
    "relu_backward": Rule("gradient of ReLU", f"{_FORMULAS}: relu"),
    "silu": Rule("SiLU", f"{_FORMULAS}: silu"),
    "silu_backward": Rule("gradient of SiLU", f"{_FORMULAS}: silu"),
    "clamp": Rule("clamped values", f"{_FORMULAS}: clamp"),
    "clamp_backward": Rule("gradient of clamp, with its temporaries", "pytorch, FunctionsManual.cpp: clamp_backward"),
    "masked_fill": Rule("masked-fill result", f"{_FORMULAS}: masked_fill"),
    "masked_fill_backward": Rule("gradient of masked_fill", f"{_FORMULAS}: masked_fill"),
    "where": Rule("elementwise choice between two tensors (where)", f"{_FORMULAS}: where"),
    "where_backward": Rule("gradient of where", f"{_FORMULAS}: where"),
    "index": Rule("indexed elements", f"{_FORMULAS}: index"),
    "index_backward": Rule(
        "gradient of an indexing operation, at the input's full shape", "pytorch, FunctionsManual.cpp: index_backward"
    ),
    "alibi": Rule("ALiBi bias of the attention scores", "transformers, models/{bloom,falcon,mpt}: build_*alibi_tensor"),
    "sigmoid": Rule("sigmoid", f"{_FORMULAS}: sigmoid"),
    "sigmoid_backward": Rule("gradient of sigmoid", f"{_FORMULAS}: sigmoid"),
    "greater": Rule("mask of values greater than zero", "pytorch, torch.gt"),
    "expm1": Rule("exponential minus one (expm1)", f"{_FORMULAS}: expm1"),
    "expm1_backward": Rule("gradient of an exponential, with its temporary", f"{_FORMULAS}: expm1"),
    "minimum": Rule("elementwise minimum", f"{_FORMULAS}: minimum"),
    "minimum_backward": Rule("gradient of an elementwise minimum, with its temporaries", f"{_FORMULAS}: minimum"),
    "gelu": Rule("GELU", f"{_FORMULAS}: gelu"),
    "gelu_backward": Rule("gradient of GELU", f"{_FORMULAS}: gelu"),
    "dropout": Rule("dropout output", f"{_FORMULAS}: native_dropout"),
    "dropout_mask": Rule("dropout mask, one byte per element", f"{_FORMULAS}: native_dropout"),
    "dropout_backward": Rule("gradient of dropout", f"{_FORMULAS}: native_dropout"),
    "to": Rule("copy in another dtype", f"{_FORMULAS}: _to_copy"),
    "topk": Rule("top-k values and indices", f"{_FORMULAS}: topk"),
    "topk_backward": Rule("gradient of top-k, at the input's full shape", f"{_MANUAL}: {_REDUCED}"),
    "max": Rule("maximum and its index", f"{_FORMULAS}: max"),
    "gather": Rule("gathered elements", f"{_FORMULAS}: gather"),
    "gather_backward": Rule(
        "gradient of an indexing operation, at the input's full shape", f"{_MANUAL}: gather_backward"
    ),
    "scatter": Rule("scatter result", f"{_FORMULAS}: scatter"),
    "scatter_backward": Rule("gradient of scatter", f"{_FORMULAS}: scatter"),
    "index_workspace": Rule("sorted indices for an embedding gradient", f"{_INDEXING}: index_put_with_sort_kernel"),
    "sum": Rule("sum over an axis", f"{_FORMULAS}: sum"),
    "sum_backward": Rule("gradient of a sum, at the input's full shape", f"{_FORMULAS}: sum"),
    "clone": Rule("contiguous copy", f"{_FORMULAS}: clone"),
    "cat": Rule("concatenation", f"{_FORMULAS}: cat"),
    "tile_results": Rule("results of other tiles", "deepspeed, runtime/sequence_parallel/ulysses_sp.py: TiledMLP"),
    "slice_backward": Rule(
        "gradient of a slice, at the input's full shape", "pytorch, FunctionsManual.cpp: slice_backward"
    ),
    "expand_backward": Rule("gradient summed over an expanded axis", f"{_FORMULAS}: expand"),
    "empty": Rule("uninitialized tensor", "pytorch, torch.empty"),
    "zeros": Rule("zeros", "pytorch, torch.zeros"),
    "ones": Rule("ones", "pytorch, torch.ones"),
    "copy_slices": Rule(
        "gradient of an in-place slice assignment", "pytorch, torch/csrc/autograd/functions/tensor.cpp: CopySlices"
    ),
    "as_strided_backward": Rule(
        "gradient of a view modified in place", "pytorch, FunctionsManual.cpp: as_strided_backward"
    ),
    "pad": Rule("padded copy", "pytorch, aten/src/ATen/native/PadNd.cpp"),
    "pad_backward": Rule("gradient of padding", "pytorch, FunctionsManual.cpp: constant_pad_nd_backward"),
    "sum_to_size": Rule("gradient summed to the broadcast tensor's shape", f"{_ENGINE}: validate_outputs"),
    "gradient_sum": Rule("sum of two gradients", "pytorch, torch/csrc/autograd/input_buffer.cpp"),
    "backward_seed": Rule("gradient of the loss", _ENGINE),
    # Reductions and normalization.
    "mean": Rule("mean over the hidden dimension", f"{_FORMULAS}: mean"),
    "mean_backward": Rule("gradient of a mean, at the input's full shape", f"{_FORMULAS}: mean"),
    "std": Rule("standard deviation over the last dimension", f"{_FORMULAS}: std"),
    "std_backward": Rule("gradient of a standard deviation, with its temporaries", "pytorch, FunctionsManual.cpp"),
    "repeat": Rule("repeated tensor", f"{_FORMULAS}: repeat"),
    "layer_norm": Rule("LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "layer_norm_backward": Rule("gradients of LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "rms_norm": Rule("RMSNorm in one kernel", f"{_FORMULAS}: _fused_rms_norm"),
    "rms_norm_backward": Rule("gradients of RMSNorm", f"{_FORMULAS}: _fused_rms_norm"),
    "norm_statistics": Rule("saved statistics of a norm, fp32", f"{_FORMULAS}: native_layer_norm, _fused_rms_norm"),
    # Routed experts.
    "routing_buffer": Rule("buffer of a router", "transformers, modeling_*.py", "buffers"),
    "sort": Rule("sorted expert of each row, with its original position", f"{_MOE}: grouped_mm_experts_forward"),
    "floor_divide": Rule("token of each row", f"{_MOE}: grouped_mm_experts_forward"),
    "histc": Rule("rows of each expert", f"{_MOE}: grouped_mm_experts_forward"),
    "arange": Rule("range of indices", f"{_MOE}: grouped_mm_experts_forward"),
    "grouped_mm": Rule("grouped matrix product over experts", f"{_FORMULAS}: _grouped_mm"),
    "one_hot": Rule("one-hot expert assignment", "transformers, models/dbrx, DbrxExperts"),
    "index_select": Rule("gradient of index_add or index_put", f"{_FORMULAS}: index_add, index_copy"),
    "norm": Rule("sum of absolute weights", f"{_FORMULAS}: linalg_vector_norm"),
    "norm_backward": Rule("gradient of a norm, with its temporary", f"{_MANUAL}: norm_backward"),
    "abs": Rule("absolute values", _MIXER),
    "exponential": Rule("exponentially distributed random numbers", _MIXER),
    "equal": Rule("equality mask of two index tensors", _MIXER),
    "logical_or": Rule("logical or of two masks", _MIXER),
    "random": Rule("random numbers", "transformers, modeling_*.py"),
    # Matrix products and the embedding.
    "linear": Rule("linear layer output", f"{_FORMULAS}: linear, addmm, mm"),
    "input_gradient": Rule("gradient of a linear layer's input", f"{_FORMULAS}: mm"),
    "weight_gradient": Rule("gradient of a weight", f"{_FORMULAS}: mm"),
    "matmul": Rule("batched matrix product", f"{_FORMULAS}: bmm"),
    "matmul_backward": Rule("gradient of a batched product", f"{_FORMULAS}: bmm"),
    "embedding": Rule("token embeddings", f"{_FORMULAS}: embedding"),
    "embedding_backward": Rule("dense embedding gradient", f"{_FORMULAS}: embedding"),
    # Attention.
    "repeat_kv": Rule("keys or values repeated for every query head", "transformers, integrations/sdpa_attention.py"),
    "repeat_kv_backward": Rule("gradient summed over each group's query heads", f"{_FORMULAS}: expand"),
    "softmax": Rule("attention weights", f"{_FORMULAS}: _softmax"),
    "softmax_product": Rule("softmax backward: gradient times output", "pytorch, aten/src/ATen/native/cuda/SoftMax.cu"),
    "softmax_backward": Rule("gradient of the scores", f"{_FORMULAS}: _softmax"),
    "flash_attention": Rule("flash attention output", _FLASH),
    "efficient_attention": Rule("memory-efficient attention output", _EFFICIENT),
    "cudnn_attention": Rule("cuDNN attention output", f"{_FORMULAS}: _scaled_dot_product_cudnn_attention"),
    "logsumexp": Rule("log-sum-exp of each row of scores, fp32", _FLASH),
    "random_state": Rule("random-generator state (seed and offset)", _FLASH),
    "attention_backward": Rule("gradients of queries, keys and values", _FLASH),
    "flash_softmax_sum": Rule("per-row statistics of flash attention's backward pass", f"{_FLASH}: mha_bwd"),
    "flash_query_accumulator": Rule("fp32 accumulator of the query gradient", f"{_FLASH}: mha_bwd"),
    "flash_expanded_gradient": Rule("gradients of keys and values for every query head", f"{_FLASH}: mha_bwd"),
    "efficient_delta": Rule("per-row statistics of the backward pass", _EFFICIENT),
    "efficient_query_accumulator": Rule("fp32 accumulator of the query gradient", _EFFICIENT),
    # Recurrent mixers.
    "exp": Rule("exponential", f"{_FORMULAS}: exp"),
    "exp_backward": Rule("gradient of an exponential", f"{_FORMULAS}: exp"),
    "softplus": Rule("softplus", f"{_FORMULAS}: softplus"),
    "softplus_backward": Rule("gradient of softplus", f"{_FORMULAS}: softplus"),
    "triangle": Rule("triangular mask", "pytorch, torch.tril"),
    "cumsum": Rule("cumulative sum", f"{_FORMULAS}: cumsum"),
    "cumsum_backward": Rule("gradient of a cumulative sum, with its temporaries", "pytorch, FunctionsManual.cpp"),
    "cumsum_input": Rule("contiguous copy for the scan", "pytorch, aten/src/ATen/native/cuda/ScanUtils.cuh: scan_dim"),
    "select_backward": Rule(
        "gradient of a selection, at the input's full shape", "pytorch, FunctionsManual.cpp: select_backward"
    ),
    "repeat_interleave": Rule("tensor repeated for every head of a group", "pytorch, aten/src/ATen/native/Repeat.cpp"),
    "repeat_interleave_backward": Rule("gradient summed over the repeated heads", f"{_FORMULAS}: index_select"),
    "bmm": Rule("batched product (einsum)", "pytorch, aten/src/ATen/native/Linear.cpp: sumproduct_pair"),
    "bmm_backward": Rule("gradient of a batched product (einsum)", f"{_FORMULAS}: bmm"),
    "solve": Rule("solution of linear systems and LU factors", f"{_FORMULAS}: _linalg_solve_ex"),
    "solve_backward": Rule("gradient of linear systems", f"{_FORMULAS}: _linalg_solve_ex"),
    "solve_triangular": Rule("solution of triangular systems", f"{_FORMULAS}: linalg_solve_triangular"),
    "solve_triangular_backward": Rule(
        "gradients of triangular systems, with temporaries",
        "pytorch, FunctionsManual.cpp: linalg_solve_triangular_backward",
    ),
    "convolution_input": Rule("contiguous copy for a convolution", "pytorch, aten/src/ATen/native/Convolution.cpp"),
    "causal_convolution": Rule("causal-conv1d output", f"{_CONV1D}: CausalConv1dFn"),
    "causal_convolution_backward": Rule("gradients of causal-conv1d", f"{_CONV1D}: CausalConv1dFn"),
    "scan": Rule("fused scan output", f"{_SSD} and selective_scan.cpp"),
    "scan_decay": Rule("time steps and decays of a fused scan, fp32", _SSD),
    "scan_states": Rule("states of a fused scan", f"{_SSD} and selective_scan.cpp"),
    "scan_scores": Rule("intra-chunk products, fp32", _SSD),
    "scan_backward": Rule("gradients of a fused scan, with its temporaries", f"{_SSD} and selective_scan.cpp"),
    "gated_norm": Rule("gated norm after a fused scan or rule", f"{_MAMBA_NORM}; {_FLA_NORM}"),
    "gated_norm_backward": Rule("gradients of a fused gated norm", f"{_FLA_NORM}: layer_norm_gated_bwd"),
    "delta_rule": Rule("fused delta rule output", _FLA),
    "delta_norm": Rule("normalized queries and keys of the fused delta rule", "fla/modules/l2norm.py: l2norm_fwd"),
    "delta_decay": Rule("cumulative decays within chunks, fp32", _FLA),
    "delta_chunk": Rule("matrix per chunk and head", _FLA),
    "delta_values": Rule("updated values and keys within chunks", _FLA),
    "delta_states": Rule("states of the fused delta rule", _FLA),
    "delta_backward": Rule("gradients of the fused delta rule, with its temporaries", _FLA),
    # Losses.
    "ring_merge": Rule("temporaries for merging ring-attention outputs", _RING),
    "ring_gradient": Rule("gradient accumulator of ring attention", _RING),
    "all_to_all_output": Rule("key and value gradients received from the next rank", _RING, "communication"),
    "fused_loss": Rule("loss", _LIGER),
    "fused_loss_rows": Rule("per-row loss", _LIGER, "logits and loss"),
    "fused_loss_logits": Rule("logits of one chunk", _LIGER, "logits and loss"),
    "fused_loss_gradient": Rule("gradient computed by the loss in the forward pass", _LIGER, "logits and loss"),
    "log_softmax": Rule("log-probabilities", _LOSS),
    "log_softmax_backward": Rule("gradient of the logits", _LOSS),
    "nll_loss": Rule("loss", _LOSS),
    "nll_loss_backward": Rule("gradient of the log-probabilities", _LOSS),
    # FSDP2.
    "tensor_all_gather": Rule("tensor gathered from all tensor-parallel ranks", _FUNCTIONAL, "communication"),
    "tensor_reduce_scatter": Rule("reduce-scatter output over tensor-parallel ranks", _FUNCTIONAL),
    "tensor_all_reduce": Rule("all-reduce output over tensor-parallel ranks", _FUNCTIONAL),
    "shard_mask": Rule("mask of tokens outside this rank's vocabulary shard, or without a target", _MASK_PARTIAL),
    "masked_indices": Rule("token ids relative to this rank's vocabulary shard", _MASK_PARTIAL),
    "amax": Rule("largest logit per row", _LOSS_PARALLEL),
    "flex_attention": Rule("attention output", "pytorch, torch/_inductor/kernel/flex/flex_attention.py"),
    "flex_delta": Rule(
        "per-row statistics for the backward pass", "pytorch, torch/_inductor/kernel/flex/flex_attention.py"
    ),
    "collected_gradient": Rule(
        "hidden-state gradient, collected chunk by chunk", "torchtitan, torchtitan/components/loss.py, GradAccumulator"
    ),
    "fused_product": Rule("matrix product and activation in one compiled kernel", _PARTITIONER),
    "fused_product_backward": Rule("gradient of a product and activation in one compiled kernel", _PARTITIONER),
    "fp8_operand": Rule(
        "FP8 copy of a product's input", "TransformerEngine, pytorch/module/{linear,layernorm_linear,grouped_linear}.py"
    ),
    "float8_operand": Rule("float8 operand of a matrix product", "torchao, torchao/float8/float8_linear.py"),
    "float8_cast": Rule("fp32 copy of an operand before its cast to float8", "torchao, torchao/float8/float8_utils.py"),
    "ulysses_all_to_all": Rule("Ulysses all-to-all output (tokens for heads, or back)", _ULYSSES, "communication"),
    "gathered_positions": Rule("position ids of the whole sequence", _ULYSSES),
    "all_to_all": Rule("token rows received from other ranks (dispatch or combine)", _DISPATCH),
    "expert_dispatch": Rule(
        "tokens (or gradients) dispatched from other ranks, once per rank", _DEEPEP, "communication"
    ),
    "expert_combine": Rule("expert outputs (or gradients) combined per token", _DEEPEP),
    "received_indices": Rule("local expert index of each received token", _DEEPEP),
    "dispatch_handle": Rule("dispatch handle, needed to combine the results", _DEEPEP),
    "routing_map": Rule("routing map (experts of each token) and scores", f"{_DISPATCH}; deep_ep/hybrid_ep_buffer.py"),
    "eq": Rule("equality mask", "pytorch, torch.eq"),
    "ne": Rule("inequality mask", "pytorch, torch.ne"),
    "row_segments": Rule("rank and expert of each row", _DISPATCH),
    "scatter_add": Rule("sum of each token's expert outputs", "torchtitan, torchtitan/ops/scatter_add.py"),
    "all_gather_input": Rule("this rank's shards, cast for the all-gather", _COLLECTIVES, "communication"),
    "all_gather_output": Rule("all-gather output of an FSDP unit", _COLLECTIVES, "communication"),
    "unsharded_parameter": Rule("gathered parameter", _SHARDED, "communication"),
    "copied_shards": Rule("gathered parameter in rank order, before it is rearranged", _COLLECTIVES),
    "resharded_parameter": Rule("parameter resharded to a smaller group of ranks", _SHARDED, "communication"),
    "reduce_scatter_input": Rule("reduce-scatter input of an FSDP unit's gradients", _COLLECTIVES, "communication"),
    "reduce_scatter_output": Rule("reduce-scatter output before casting", _COLLECTIVES, "communication"),
    "sharded_gradient": Rule("this rank's gradient shard", _COLLECTIVES, "gradients"),
    "accumulated_gradient": Rule("unsharded gradient, accumulated in the reduce dtype", _GROUP, "gradients"),
    # Megatron-Core.
    "megatron_all_gather": Rule(
        "tokens gathered from all tensor-parallel ranks", f"{_MEGATRON}/mappings.py", "communication"
    ),
    "megatron_reduce_scatter": Rule("this rank's tokens after reduce-scatter", f"{_MEGATRON}/mappings.py"),
    "bias_dropout_add": Rule("residual stream after bias, dropout and add", f"{_FUSIONS}/fused_bias_dropout.py"),
    "fused_activation": Rule("fused bias and activation", f"{_FUSIONS}/fused_bias_gelu.py and fused_bias_swiglu.py"),
    "expert_all_gather": Rule("tokens gathered from the expert-parallel ranks", f"{_EXPERTS}/token_dispatcher.py"),
    "expert_all_to_all": Rule("all-to-all output of token rows", f"{_EXPERTS}/token_dispatcher.py"),
    "row_map": Rule("row map of the permutation", "TransformerEngine, pytorch/permutation.py"),
    "permute_rows": Rule("token rows sorted by expert", f"{_EXPERTS}/moe_utils.py: permute"),
    "permute_rows_backward": Rule("gradient of the permutation, summed per token", f"{_EXPERTS}/moe_utils.py: permute"),
    "unpermute_rows": Rule("expert outputs summed per token", f"{_EXPERTS}/moe_utils.py: unpermute"),
    "unpermute_rows_backward": Rule("gradient of each expert row", f"{_EXPERTS}/moe_utils.py: unpermute"),
    "sort_chunks": Rule("rows sorted by local expert", f"{_EXPERTS}/moe_utils.py: sort_chunks_by_idxs"),
    "fused_activation_backward": Rule("gradient of fused bias and activation", f"{_FUSIONS}/fused_bias_gelu.py"),
    # The end of a step.
    "gradient_norm": Rule("norms of gradients", "pytorch, torch/nn/utils/clip_grad.py", "temporaries"),
    "optimizer_temporary": Rule("temporaries of the optimizer's step", "pytorch, torch/optim", "temporaries"),
}
"""Rows by name."""
