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
    **{name: rule for room in registry.rooms("rules") for name, rule in room.RULES.items()},
    **ZERO,
    **FINE_TUNING,
    # What is there from the start to the end of the job.
    "parameter": Rule("parameter", "the model's config.json", "parameters"),
    "exp_avg": Rule("Adam's first moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "exp_avg_sq": Rule("Adam's second moment", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"),
    "step_count": Rule(
        "step count, one block for each parameter", "pytorch, torch/optim/adam.py, _init_group", "optimizer states"
    ),
    "momentum_buffer": Rule("momentum", "pytorch, torch/optim/sgd.py and rmsprop.py", "optimizer states"),
    "max_exp_avg_sq": Rule("AMSGrad's largest second moment", "pytorch, torch/optim/adam.py", "optimizer states"),
    "exp_inf": Rule("Adamax's infinity norm", "pytorch, torch/optim/adamax.py", "optimizer states"),
    "square_avg": Rule("average of squared gradients", "pytorch, torch/optim/rmsprop.py", "optimizer states"),
    "acc_delta": Rule("Adadelta's average of squared updates", "pytorch, torch/optim/adadelta.py", "optimizer states"),
    "sum_of_squares": Rule("Adagrad's sum of squares", "pytorch, torch/optim/adagrad.py", "optimizer states"),
    "averaged": Rule("average of parameters", "pytorch, torch/optim/asgd.py", "optimizer states"),
    "row_var": Rule("Adafactor's row means of squares", "pytorch, torch/optim/_adafactor.py", "optimizer states"),
    "col_var": Rule("Adafactor's column means of squares", "pytorch, torch/optim/_adafactor.py", "optimizer states"),
    "quantized_moment": Rule(
        "moment in 8 bits", "bitsandbytes, bitsandbytes/optim/optimizer.py, init_state", "optimizer states"
    ),
    "block_scales": Rule(
        "scale of each block of a moment",
        "bitsandbytes, bitsandbytes/optim/optimizer.py, init_state",
        "optimizer states",
    ),
    "quantization_map": Rule(
        "map from 8 bits to numbers, shared by all parameters",
        "bitsandbytes, bitsandbytes/optim/optimizer.py, fill_qmap",
        "optimizer states",
    ),
    "ddp_buckets": Rule(
        "DDP's flat copy of all gradients", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "communication"
    ),
    "gradient_buckets": Rule(
        "gradients, as views of DDP's buckets", "pytorch, torch/csrc/distributed/c10d/reducer.cpp", "gradients"
    ),
    "rotary_frequencies": Rule("rotary frequencies", _ROPE, "buffers"),
    "rotary_table": Rule("rotations of all positions, complex", _ROPE, "buffers"),
    "constant": Rule("constants of a recurrent mixer", "transformers, modeling_*.py, __init__ of the mixer", "buffers"),
    "causal_buffer": Rule(
        "lower triangle for the longest sequence", "transformers, models/gpt_neo and gpt_bigcode", "buffers"
    ),
    "last_state": Rule(
        "state that a recurrent module keeps until the next step",
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
        "hidden states from the stage before", "pytorch, torch/distributed/pipelining/stage.py", "activations"
    ),
    "receive_buffer": Rule(
        "buffers for what other stages send, of all micro-batches",
        "pytorch, torch/distributed/pipelining/stage.py, _setup_forward_recv_info",
        "communication",
    ),
    "returned_output": Rule(
        "outputs of other micro-batches, or all of them in one",
        "pytorch, torch/distributed/pipelining/schedules.py, return_outputs",
        "logits and loss",
    ),
    "received_gradient": Rule(
        "gradient from the stage after", "pytorch, torch/distributed/pipelining/stage.py", "temporaries"
    ),
    "position_ids": Rule("position ids", "transformers, modeling_*.py, Model.forward"),
    "rotary": Rule("rotary cosines and sines, or rotated heads", _ROPE),
    "rotary_backward": Rule("gradient through the rotation", _ROPE),
    "pixels": Rule("images as the processor makes them", "transformers, image_processing_*.py", "buffers"),
    "unfold_backward": Rule("gradient of patches, put back on their grid", "aten/src/ATen/native/cuda/Col2Im.cu"),
    "unfold": Rule("pixels patch by patch", "aten/src/ATen/native/cuda/Im2Col.cu"),
    "convolution": Rule("embedded patches", f"{_FORMULAS}: convolution"),
    "convolution_backward": Rule("gradients of a convolution's parameters", f"{_FORMULAS}: convolution"),
    "stack": Rule("gradients of a list of tensors, stacked", "pytorch, FunctionsManual.cpp: unbind_backward"),
    "placeholder_mask": Rule("where tokens stand for images", "transformers, modeling_*.py, get_placeholder_mask"),
    "masked_scatter": Rule("embedded tokens with features of images among them", f"{_FORMULAS}: masked_scatter"),
    "mask_prefix_sum": Rule(
        "place of each element of the mask", "pytorch, aten/src/ATen/native/cuda/IndexKernel.cpp: masked_scatter__cuda"
    ),
    "masked_select": Rule("gradient of the images' features", "pytorch, FunctionsManual.cpp: masked_scatter_backward"),
    "nonzero": Rule("indices of what is not zero", "pytorch, aten/src/ATen/native/cuda/Nonzero.cu"),
    "index_put_backward": Rule("gradient with zeros where rows were written", f"{_FORMULAS}: index_put_"),
    "average_pool": Rule("patches pooled on their grid", f"{_FORMULAS}: avg_pool2d"),
    "average_pool_backward": Rule("gradient of a pool", f"{_FORMULAS}: avg_pool2d"),
    "vision_positions": Rule("rows and columns of patches", "transformers, vision_utils.py"),
    "attention_mask": Rule("attention mask", _MASKS),
    "logical_not": Rule("inverted mask", "pytorch, aten/src/ATen/native/transformers/sdp_utils_cpp.h"),
    "attention_bias": Rule("mask as a bias of the scores", "pytorch, sdp_utils_cpp.h and attention.cpp"),
    "causal_mask": Rule("causal mask of the math kernel", _MATH),
    # Elementwise operations: what each saves follows from its derivative.
    "compare": Rule("comparison", "pytorch, aten/src/ATen/native/BinaryOps.cpp"),
    "eye": Rule("identity matrix", "pytorch, aten/src/ATen/native/TensorFactories.cpp"),
    "log_backward": Rule("gradient of a logarithm", f"{_FORMULAS}: log"),
    "add": Rule("sum", f"{_FORMULAS}: add"),
    "sub": Rule("difference", f"{_FORMULAS}: sub"),
    "floor": Rule("number rounded down", f"{_FORMULAS}: floor"),
    "log": Rule("logarithm", f"{_FORMULAS}: log"),
    "mul": Rule("product of elements", f"{_FORMULAS}: mul"),
    "mul_backward": Rule("gradient of a factor", f"{_FORMULAS}: mul"),
    "div": Rule("quotient", f"{_FORMULAS}: div"),
    "div_backward": Rule("gradient of a quotient", f"{_FORMULAS}: div"),
    "sub_backward": Rule("gradient of what is subtracted from a number", f"{_FORMULAS}: rsub"),
    "neg": Rule("negated half of a head", f"{_FORMULAS}: neg"),
    "neg_backward": Rule("gradient of a negation", f"{_FORMULAS}: neg"),
    "pow": Rule("power", f"{_FORMULAS}: pow"),
    "pow_backward": Rule("gradient of a power, with its temporaries", "pytorch, FunctionsManual.cpp: pow_backward"),
    "sqrt": Rule("square root", f"{_FORMULAS}: sqrt"),
    "sqrt_backward": Rule("gradient of the square root, with a temporary", f"{_FORMULAS}: sqrt"),
    "rsqrt": Rule("reciprocal root", f"{_FORMULAS}: rsqrt"),
    "rsqrt_backward": Rule("gradient of a reciprocal root, with its temporaries", f"{_FORMULAS}: rsqrt"),
    "tanh": Rule("hyperbolic tangent", f"{_FORMULAS}: tanh"),
    "tanh_backward": Rule("gradient of tanh", f"{_FORMULAS}: tanh"),
    "relu": Rule("ReLU", f"{_FORMULAS}: relu"),
    "relu_backward": Rule("gradient of ReLU", f"{_FORMULAS}: relu"),
    "silu": Rule("SiLU", f"{_FORMULAS}: silu"),
    "silu_backward": Rule("gradient of SiLU", f"{_FORMULAS}: silu"),
    "clamp": Rule("number within bounds", f"{_FORMULAS}: clamp"),
    "clamp_backward": Rule(
        "gradient within bounds, with its temporaries", "pytorch, FunctionsManual.cpp: clamp_backward"
    ),
    "masked_fill": Rule("tensor with some elements replaced", f"{_FORMULAS}: masked_fill"),
    "masked_fill_backward": Rule("gradient where nothing was replaced", f"{_FORMULAS}: masked_fill"),
    "where": Rule("choice between two tensors", f"{_FORMULAS}: where"),
    "where_backward": Rule("gradient of what was chosen", f"{_FORMULAS}: where"),
    "index": Rule("elements chosen by a list", f"{_FORMULAS}: index"),
    "index_backward": Rule("gradient of chosen elements, in full size", "pytorch, FunctionsManual.cpp: index_backward"),
    "alibi": Rule("bias of the scores by distance", "transformers, models/{bloom,falcon,mpt}: build_*alibi_tensor"),
    "sigmoid": Rule("sigmoid", f"{_FORMULAS}: sigmoid"),
    "sigmoid_backward": Rule("gradient of sigmoid", f"{_FORMULAS}: sigmoid"),
    "greater": Rule("comparison with zero", "pytorch, torch.gt"),
    "expm1": Rule("exponential minus one", f"{_FORMULAS}: expm1"),
    "expm1_backward": Rule("gradient of an exponential, with its temporary", f"{_FORMULAS}: expm1"),
    "minimum": Rule("smaller of two numbers", f"{_FORMULAS}: minimum"),
    "minimum_backward": Rule("gradient of the smaller number, with its temporaries", f"{_FORMULAS}: minimum"),
    "gelu": Rule("GELU", f"{_FORMULAS}: gelu"),
    "gelu_backward": Rule("gradient of GELU", f"{_FORMULAS}: gelu"),
    "dropout": Rule("result of dropout", f"{_FORMULAS}: native_dropout"),
    "dropout_mask": Rule("mask of dropout, one byte per element", f"{_FORMULAS}: native_dropout"),
    "dropout_backward": Rule("gradient through dropout", f"{_FORMULAS}: native_dropout"),
    "to": Rule("copy in another dtype", f"{_FORMULAS}: _to_copy"),
    "topk": Rule("the largest elements, and their indices", f"{_FORMULAS}: topk"),
    "topk_backward": Rule("gradient of the largest elements, in full size", f"{_MANUAL}: {_REDUCED}"),
    "max": Rule("the largest element, and its index", f"{_FORMULAS}: max"),
    "gather": Rule("elements chosen by index", f"{_FORMULAS}: gather"),
    "gather_backward": Rule("gradient of chosen elements, in full size", f"{_MANUAL}: gather_backward"),
    "scatter": Rule("tensor with some elements written", f"{_FORMULAS}: scatter"),
    "scatter_backward": Rule("gradient where nothing was written", f"{_FORMULAS}: scatter"),
    "index_workspace": Rule("sorted indices of a gradient", f"{_INDEXING}: index_put_with_sort_kernel"),
    "sum": Rule("sum over an axis", f"{_FORMULAS}: sum"),
    "sum_backward": Rule("gradient of a sum, in full size", f"{_FORMULAS}: sum"),
    "clone": Rule("copy in another order of axes", f"{_FORMULAS}: clone"),
    "cat": Rule("concatenation", f"{_FORMULAS}: cat"),
    "slice_backward": Rule("gradient of a slice, in full size", "pytorch, FunctionsManual.cpp: slice_backward"),
    "expand_backward": Rule("gradient summed over an expanded axis", f"{_FORMULAS}: expand"),
    "empty": Rule("tensor to be filled", "pytorch, torch.empty"),
    "zeros": Rule("zeros", "pytorch, torch.zeros"),
    "ones": Rule("ones", "pytorch, torch.ones"),
    "copy_slices": Rule(
        "gradient of what was written into a slice", "pytorch, torch/csrc/autograd/functions/tensor.cpp: CopySlices"
    ),
    "as_strided_backward": Rule(
        "gradient of a view that was altered in place", "pytorch, FunctionsManual.cpp: as_strided_backward"
    ),
    "pad": Rule("padded copy", "pytorch, aten/src/ATen/native/PadNd.cpp"),
    "pad_backward": Rule("gradient without the padding", "pytorch, FunctionsManual.cpp: constant_pad_nd_backward"),
    "sum_to_size": Rule("gradient summed to its tensor's shape", f"{_ENGINE}: validate_outputs"),
    "gradient_sum": Rule("sum of two gradients", "pytorch, torch/csrc/autograd/input_buffer.cpp"),
    "backward_seed": Rule("gradient of the loss", _ENGINE),
    # Reductions and normalization.
    "mean": Rule("mean over the hidden axis", f"{_FORMULAS}: mean"),
    "mean_backward": Rule("gradient of a mean, in full size", f"{_FORMULAS}: mean"),
    "std": Rule("standard deviation over the last axis", f"{_FORMULAS}: std"),
    "std_backward": Rule("gradient of a standard deviation, with its temporaries", "pytorch, FunctionsManual.cpp"),
    "repeat": Rule("copies along a new axis", f"{_FORMULAS}: repeat"),
    "layer_norm": Rule("LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "layer_norm_backward": Rule("gradients of LayerNorm", f"{_FORMULAS}: native_layer_norm"),
    "rms_norm": Rule("RMSNorm in one kernel", f"{_FORMULAS}: _fused_rms_norm"),
    "rms_norm_backward": Rule("gradients of RMSNorm", f"{_FORMULAS}: _fused_rms_norm"),
    "norm_statistics": Rule("statistics of a norm, fp32", f"{_FORMULAS}: native_layer_norm, _fused_rms_norm"),
    # Routed experts.
    "routing_buffer": Rule("buffer of a router", "transformers, modeling_*.py", "buffers"),
    "sort": Rule("expert of each row, sorted, and where the row was", f"{_MOE}: grouped_mm_experts_forward"),
    "floor_divide": Rule("token of each row", f"{_MOE}: grouped_mm_experts_forward"),
    "histc": Rule("rows of each expert", f"{_MOE}: grouped_mm_experts_forward"),
    "arange": Rule("numbers in order", f"{_MOE}: grouped_mm_experts_forward"),
    "grouped_mm": Rule("each row times the matrix of its expert", f"{_FORMULAS}: _grouped_mm"),
    "one_hot": Rule("which of its experts is which, one-hot", "transformers, models/dbrx, DbrxExperts"),
    "index_select": Rule("gradient of rows put or added by index", f"{_FORMULAS}: index_add, index_copy"),
    "norm": Rule("sum of absolute weights", f"{_FORMULAS}: linalg_vector_norm"),
    "norm_backward": Rule("gradient of a norm, with its temporary", f"{_MANUAL}: norm_backward"),
    "abs": Rule("absolute logits", _MIXER),
    "exponential": Rule("random numbers of an exponential distribution", _MIXER),
    "equal": Rule("whether two indices are one", _MIXER),
    "logical_or": Rule("whether one of two conditions holds", _MIXER),
    "random": Rule("random numbers", "transformers, modeling_*.py"),
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
    "softmax_product": Rule("gradient times result", "pytorch, aten/src/ATen/native/cuda/SoftMax.cu"),
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
    # Recurrent mixers.
    "exp": Rule("exponential", f"{_FORMULAS}: exp"),
    "exp_backward": Rule("gradient of an exponential", f"{_FORMULAS}: exp"),
    "softplus": Rule("softplus", f"{_FORMULAS}: softplus"),
    "softplus_backward": Rule("gradient of softplus", f"{_FORMULAS}: softplus"),
    "triangle": Rule("triangular mask", "pytorch, torch.tril"),
    "cumsum": Rule("running sums", f"{_FORMULAS}: cumsum"),
    "cumsum_backward": Rule("gradient of running sums, with its temporaries", "pytorch, FunctionsManual.cpp"),
    "cumsum_input": Rule("contiguous copy for the scan", "pytorch, aten/src/ATen/native/cuda/ScanUtils.cuh: scan_dim"),
    "select_backward": Rule("gradient of one index, in full size", "pytorch, FunctionsManual.cpp: select_backward"),
    "repeat_interleave": Rule("copies for every head of a group", "pytorch, aten/src/ATen/native/Repeat.cpp"),
    "repeat_interleave_backward": Rule("gradient summed over such copies", f"{_FORMULAS}: index_select"),
    "bmm": Rule("product over chosen axes", "pytorch, aten/src/ATen/native/Linear.cpp: sumproduct_pair"),
    "bmm_backward": Rule("gradient of a product over chosen axes", f"{_FORMULAS}: bmm"),
    "solve": Rule("solution of systems, and their factors", f"{_FORMULAS}: _linalg_solve_ex"),
    "solve_backward": Rule("gradient of systems", f"{_FORMULAS}: _linalg_solve_ex"),
    "solve_triangular": Rule("solution of triangular systems", f"{_FORMULAS}: linalg_solve_triangular"),
    "solve_triangular_backward": Rule(
        "gradients of triangular systems, with temporaries",
        "pytorch, FunctionsManual.cpp: linalg_solve_triangular_backward",
    ),
    "convolution_input": Rule("contiguous copy for a convolution", "pytorch, aten/src/ATen/native/Convolution.cpp"),
    "causal_convolution": Rule("result of causal-conv1d", f"{_CONV1D}: CausalConv1dFn"),
    "causal_convolution_backward": Rule("gradients of causal-conv1d", f"{_CONV1D}: CausalConv1dFn"),
    "scan": Rule("result of a fused scan", f"{_SSD} and selective_scan.cpp"),
    "scan_decay": Rule("time steps and decays of a fused scan, fp32", _SSD),
    "scan_states": Rule("states of a fused scan", f"{_SSD} and selective_scan.cpp"),
    "scan_scores": Rule("products within chunks, fp32", _SSD),
    "scan_backward": Rule("gradients of a fused scan, with its temporaries", f"{_SSD} and selective_scan.cpp"),
    "gated_norm": Rule("gated norm of a fused scan", "mamba-ssm, mamba_ssm/ops/triton/layernorm_gated.py"),
    "delta_rule": Rule("result of the fused delta rule", _FLA),
    "delta_norm": Rule("normalized queries and keys of the fused delta rule", "fla/modules/l2norm.py: l2norm_fwd"),
    "delta_decay": Rule("sums of decays within chunks, fp32", _FLA),
    "delta_chunk": Rule("a matrix for each chunk and head", _FLA),
    "delta_values": Rule("new values and keys within chunks", _FLA),
    "delta_states": Rule("states of the fused delta rule", _FLA),
    "delta_backward": Rule("gradients of the fused delta rule, with its temporaries", _FLA),
    # Losses.
    "ring_merge": Rule("merging results of ring attention", _RING),
    "ring_gradient": Rule("sum of gradients of ring attention", _RING),
    "all_to_all_output": Rule("gradients of keys and values from the next rank", _RING, "communication"),
    "fused_loss": Rule("loss", _LIGER),
    "fused_loss_rows": Rule("loss of each row", _LIGER, "logits and loss"),
    "fused_loss_logits": Rule("logits of a chunk of rows", _LIGER, "logits and loss"),
    "fused_loss_gradient": Rule("gradient that the loss makes in the forward pass", _LIGER, "logits and loss"),
    "log_softmax": Rule("log-probabilities", _LOSS),
    "log_softmax_backward": Rule("gradient of the logits", _LOSS),
    "nll_loss": Rule("loss", _LOSS),
    "nll_loss_backward": Rule("gradient of the log-probabilities", _LOSS),
    # FSDP2.
    "tensor_all_gather": Rule("all tensor-parallel ranks' parts", _FUNCTIONAL, "communication"),
    "tensor_reduce_scatter": Rule("this rank's part of a sum over tensor-parallel ranks", _FUNCTIONAL),
    "tensor_all_reduce": Rule("sum over tensor-parallel ranks", _FUNCTIONAL),
    "shard_mask": Rule("words outside this rank's part of the vocabulary, or no target", _MASK_PARTIAL),
    "masked_indices": Rule("words counted from the first of this rank's part", _MASK_PARTIAL),
    "amax": Rule("largest logit of each row", _LOSS_PARALLEL),
    "flex_attention": Rule("result of attention", "pytorch, torch/_inductor/kernel/flex/flex_attention.py"),
    "flex_delta": Rule(
        "a number of each row for its gradient", "pytorch, torch/_inductor/kernel/flex/flex_attention.py"
    ),
    "collected_gradient": Rule(
        "gradient of the hidden states, part by part", "torchtitan, torchtitan/components/loss.py, GradAccumulator"
    ),
    "fused_product": Rule("a product and its activation in one compiled kernel", _PARTITIONER),
    "fused_product_backward": Rule("gradient of a product in one compiled kernel", _PARTITIONER),
    "float8_operand": Rule("operand of a product in float8", "torchao, torchao/float8/float8_linear.py"),
    "float8_cast": Rule("operand on its way to float8, in fp32", "torchao, torchao/float8/float8_utils.py"),
    "ulysses_all_to_all": Rule("heads of all ranks' tokens, or tokens of all heads", _ULYSSES, "communication"),
    "gathered_positions": Rule("position ids of the whole sequence", _ULYSSES),
    "all_to_all": Rule("rows from other ranks, for this rank's experts or back from theirs", _DISPATCH),
    "expert_dispatch": Rule("tokens from other ranks, once for each rank; or gradients", _DEEPEP, "communication"),
    "expert_combine": Rule("results of all ranks' experts, or gradients, added up for each token", _DEEPEP),
    "received_indices": Rule("which of this rank's experts each token is for", _DEEPEP),
    "dispatch_handle": Rule("where tokens came from and went, for the way back", _DEEPEP),
    "routing_map": Rule("which experts each token chose, and the scores", f"{_DISPATCH}; deep_ep/hybrid_ep_buffer.py"),
    "eq": Rule("where two are equal", "pytorch, torch.eq"),
    "ne": Rule("where two differ", "pytorch, torch.ne"),
    "row_segments": Rule("which rank and expert each row belongs to", _DISPATCH),
    "scatter_add": Rule("sum over the experts of each token", "torchtitan, torchtitan/ops/scatter_add.py"),
    "all_gather_input": Rule("this rank's shards, cast for the all-gather", _COLLECTIVES, "communication"),
    "all_gather_output": Rule("a unit's parameters as the all-gather leaves them", _COLLECTIVES, "communication"),
    "unsharded_parameter": Rule("gathered parameter", _SHARDED, "communication"),
    "copied_shards": Rule("gathered parameter in the order of ranks, which are put side by side", _COLLECTIVES),
    "resharded_parameter": Rule("part of a parameter kept for a smaller group of ranks", _SHARDED, "communication"),
    "reduce_scatter_input": Rule("a unit's gradients, copied for the reduce-scatter", _COLLECTIVES, "communication"),
    "reduce_scatter_output": Rule("reduced gradients before they are cast", _COLLECTIVES, "communication"),
    "sharded_gradient": Rule("this rank's part of a unit's gradients", _COLLECTIVES, "gradients"),
    "accumulated_gradient": Rule("unsharded gradient, accumulated in the reduce dtype", _GROUP, "gradients"),
    # Megatron-Core.
    "megatron_all_gather": Rule("all tensor-parallel ranks' tokens", f"{_MEGATRON}/mappings.py", "communication"),
    "megatron_reduce_scatter": Rule("this rank's tokens of a sum over ranks", f"{_MEGATRON}/mappings.py"),
    "bias_dropout_add": Rule("residual stream: sum with what dropout leaves", f"{_FUSIONS}/fused_bias_dropout.py"),
    "fused_activation": Rule("activation with its bias", f"{_FUSIONS}/fused_bias_gelu.py and fused_bias_swiglu.py"),
    "expert_all_gather": Rule("tokens of all ranks that share experts", f"{_EXPERTS}/token_dispatcher.py"),
    "expert_all_to_all": Rule("rows sent to the ranks of their experts, or back", f"{_EXPERTS}/token_dispatcher.py"),
    "row_map": Rule("where each row comes from, and goes", "TransformerEngine, pytorch/permutation.py"),
    "permute_rows": Rule("rows of tokens, sorted by expert", f"{_EXPERTS}/moe_utils.py: permute"),
    "permute_rows_backward": Rule("gradient summed over a token's rows", f"{_EXPERTS}/moe_utils.py: permute"),
    "unpermute_rows": Rule("sum of each token's rows", f"{_EXPERTS}/moe_utils.py: unpermute"),
    "unpermute_rows_backward": Rule("gradient of each row", f"{_EXPERTS}/moe_utils.py: unpermute"),
    "sort_chunks": Rule("rows sorted by local expert", f"{_EXPERTS}/moe_utils.py: sort_chunks_by_idxs"),
    "fused_activation_backward": Rule("gradient of an activation with its bias", f"{_FUSIONS}/fused_bias_gelu.py"),
    # The end of a step.
    "gradient_norm": Rule("norms of gradients", "pytorch, torch/nn/utils/clip_grad.py", "temporaries"),
    "optimizer_temporary": Rule("temporaries of the optimizer's step", "pytorch, torch/optim", "temporaries"),
}
"""Rows by name."""
