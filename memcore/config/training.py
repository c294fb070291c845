"""Settings of what one rank computes in a step."""

from __future__ import annotations

from memcore.config.kinds import Choice, Counted, Flag, FlagOrCount, Integer, Names, Number
from memcore.config.learning import COMPUTE, DTYPE, MASTER, Adapter, Dropout, Method, Offload, Optimizer
from memcore.config.schema import Section, setting
from memcore.networks.quantized import REFUSED, STORAGES, TITLES, UNMODELLED


class Checkpointing(Section, path="training.activation_checkpointing", shorthand="policy"):
    """Activation checkpointing; in a file also just its policy."""

    policy = setting(
        Choice(
            ("none", "full", "selective"),
            {
                "none": "save everything the backward pass needs",
                "full": "save each layer's input and recompute the rest",
                "selective": "also save the results of some operations, or checkpoint only some layers",
            },
        ),
        "Activation checkpointing",
        "Full checkpointing saves only each layer's input and recomputes the layer in the backward pass.",
        flag="checkpointing",
        common=True,
        default="none",
    )
    mode = setting(
        Choice(
            ("op", "layer", "part"),
            {
                "op": "also save attention outputs and every second matrix product, as torchtitan does",
                "layer": "checkpoint only every n-th layer",
                "part": "checkpoint norms, attention and feed-forward layers on their own, as accelerate 1.8 to 1.14 "
                "does with FSDP 2",
            },
        ),
        "Selective mode",
        "What selective checkpointing selects: operations, layers or parts of layers.",
        flag="checkpoint-mode",
        default="op, or layer if `every` is set",
        advanced=True,
    )
    every = setting(
        Integer(unit="layers"),
        "Checkpoint period",
        "Checkpoint every n-th layer in full and the others not at all.",
        flag="checkpoint-every",
        default="2, as in torchtitan",
        advanced=True,
    )
    method = setting(
        Choice(
            ("uniform", "block"),
            {
                "uniform": "checkpoint groups of layers of equal size",
                "block": "checkpoint the first layers of each pipeline chunk",
            },
        ),
        "Recomputation method",
        "Which layers Megatron recomputes in full.",
        flag="recompute-method",
        default="uniform",
        advanced=True,
    )
    num_layers = setting(
        Integer(unit="layers"),
        "Recomputed layers",
        "Layers per group (uniform) or per pipeline chunk (block).",
        flag="recompute-layers",
        default="1",
        advanced=True,
    )
    modules = setting(
        Names(),
        "Recomputed modules",
        "Modules that Megatron recomputes selectively: core_attn, moe_act, layernorm, mla_up_proj, mlp, "
        "moe, shared_experts.",
        flag="recompute-modules",
        default="core_attn",
        advanced=True,
    )
    early_stop = setting(
        Flag(),
        "Early stop",
        "Stop recomputing a layer as soon as everything its backward pass needs exists again.",
        flag="early-stop",
        default="true, as in torch.utils.checkpoint",
        advanced=True,
    )
    use_reentrant = setting(
        Flag(),
        "Reentrant checkpoints",
        "Reentrant form of torch.utils.checkpoint: builds no graph in the forward pass and recomputes the "
        "whole layer in the backward pass.",
        flag="reentrant",
        advanced=True,
    )
    entry = setting(
        Choice(
            ("checkpoint_wrapper", "gradient_checkpointing_enable"),
            {
                "checkpoint_wrapper": "PyTorch's checkpoint_wrapper around each layer",
                "gradient_checkpointing_enable": "transformers' gradient_checkpointing_enable()",
            },
        ),
        "Checkpoint entry",
        "How checkpointing is enabled; both ways save the same tensors.",
        flag="checkpoint-entry",
        default="checkpoint_wrapper",
        advanced=True,
    )


class Training(Section, path="training"):
    """What one rank computes in a step."""

    sequence_length = setting(
        Integer(unit="tokens"),
        "Sequence length",
        "Tokens per sequence.",
        flag="seq",
        common=True,
        default="the model's maximum, at most 4096",
    )
    images_per_sequence = setting(
        Integer(0, unit="images"),
        "Images",
        "Images per sequence, for a model with a vision tower; image tokens count toward the sequence "
        "length. With no images the tower does not run, so its parameters get no gradients or optimizer "
        "states (Megatron allocates them anyway).",
        flag="images",
        default="1 for a model with a vision tower",
    )
    image_size = setting(
        Integer(unit="pixels"),
        "Image size",
        "Side length of a square image, in pixels.",
        flag="image-size",
        default="the tower's native size; 1024 for towers that take any size (Qwen-VL), rounded to whole tokens",
        advanced=True,
    )
    micro_batch_size = setting(
        Integer(unit="sequences"),
        "Micro-batch size",
        "Sequences per forward pass on one GPU.",
        flag="micro-batch",
        common=True,
        aliases=("batch_size",),
        default="1",
    )
    gradient_accumulation_steps = setting(
        Integer(unit="micro-batches"),
        "Gradient accumulation",
        "Micro-batches per optimizer step on one GPU. From the second micro-batch on, gradients are already allocated.",
        flag="grad-accum",
        common=True,
        default="1",
    )
    precision = setting(
        Choice(
            ("fp32", "tf32", "bf16", "fp16", "bf16-mixed", "fp16-mixed", "fp8-mixed", "bf16-autocast"),
            {
                "fp32": "everything in fp32",
                "tf32": "same memory as fp32; tensor cores use 19 bits of each value",
                "bf16": "parameters, gradients and optimizer states in bf16, no fp32 copy",
                "fp16": "parameters, gradients and optimizer states in fp16",
                "bf16-mixed": "fp32 parameters, bf16 compute (FSDP's mixed-precision policy, otherwise autocast)",
                "fp16-mixed": "fp32 parameters, fp16 compute (FSDP's mixed-precision policy, otherwise autocast)",
                "fp8-mixed": "matrix products in FP8",
                "bf16-autocast": "fp32 parameters under torch.autocast: fp32 residual stream, cached bf16 weights",
            },
        ),
        "Precision",
        "Preset for the dtypes below, as the engine applies it.",
        flag="precision",
        common=True,
        default="bf16-mixed with FSDP; otherwise bf16, the checkpoint's dtype, as in transformers 5",
    )
    parameter_dtype = setting(
        DTYPE,
        "Parameter dtype",
        "Dtype of the parameters that the optimizer updates.",
        flag="parameter-dtype",
        default="set by the preset",
        advanced=True,
    )
    compute_dtype = setting(
        COMPUTE,
        "Compute dtype",
        "Dtype in which layers compute and FSDP all-gathers parameters. For FP8 choose the preset fp8-mixed.",
        flag="compute-dtype",
        default="set by the preset",
        advanced=True,
    )
    gradient_dtype = setting(
        DTYPE,
        "Gradient dtype",
        "Dtype of the gradients that the optimizer reads; in PyTorch, the parameters' dtype.",
        flag="gradient-dtype",
        default="the parameter dtype",
        advanced=True,
    )
    reduce_dtype = setting(
        DTYPE,
        "Reduce dtype",
        "Dtype in which FSDP reduces gradients across ranks.",
        flag="reduce-dtype",
        default="fp32 with a mixed preset, otherwise the compute dtype",
        advanced=True,
    )
    master_dtype = setting(
        MASTER,
        "Master copy",
        "Separate copy of the parameters for the optimizer (master weights), or the bits that they lack; PyTorch's "
        "own optimizers keep none.",
        flag="master-dtype",
        default="the engine's",
        advanced=True,
    )
    method = Method
    optimizer = Optimizer
    adapter = Adapter
    offload = Offload
    quantization = setting(
        Choice(tuple(STORAGES), TITLES, UNMODELLED, REFUSED),
        "Frozen weights",
        "Storage format of frozen linear layers next to an adapter: bitsandbytes (QLoRA) or transformers' fp8.",
        flag="frozen-weights",
        former="quantization",
        common=True,
        default="none: weights in the parameter dtype",
    )
    fake_quantization = setting(
        Choice(("int8-int4",), {"int8-int4": "torchao: inputs in int8 for each token, weights in int4 in groups"}),
        "Fake quantization",
        "Quantization-aware training: linear layers round inputs and weights in each forward pass, and keep masks.",
        flag="qat",
        engines=("none", "ddp", "fsdp"),
        default="none",
        advanced=True,
    )
    trainable = setting(
        Names(),
        "Trainable parts",
        "Parameters to train, by parts of their names such as `mlp`, `norm` or `lm_head`; the rest is frozen. "
        "`language-model` freezes towers and projectors; add `projector` or `tower` to train these too.",
        flag="trainable",
        default="all",
        advanced=True,
    )
    gradient_clipping = setting(
        Flag(),
        "Gradient clipping",
        "Clip gradients by their global norm; needs one number per parameter tensor and scales in place.",
        flag="clip",
        default="true",
        advanced=True,
    )
    zero_grad = setting(
        Choice(
            ("set-to-none", "keep"),
            {"set-to-none": "freed after each optimizer step", "keep": "set to zero and kept between steps"},
        ),
        "Zeroing gradients",
        "Whether gradients are freed or kept between steps.",
        flag="zero-grad",
        default="set-to-none",
        advanced=True,
    )
    activation_checkpointing = Checkpointing
    implementation = setting(
        Choice(
            ("transformers", "liger", "unsloth", "torchtitan", "lit-gpt", "transformer-engine", "megatron-local"),
            {
                "transformers": "Hugging Face transformers 5.23",
                "liger": "transformers with Liger kernels for norms, gated activations and rotary embeddings",
                "unsloth": "Unsloth's fused LoRA functions and Triton kernels",
                "torchtitan": "torchtitan's Llama, Qwen3 and DeepSeek-V3 implementations",
                "lit-gpt": "LitGPT (October 2023): fused QKV projection, output head in chunks",
                "transformer-engine": "Megatron-Core with TransformerEngine",
                "megatron-local": "Megatron-Core with its own modules",
            },
        ),
        "Layer code",
        "Implementation of the layers; it determines which tensors are saved for the backward pass.",
        flag="implementation",
        default="transformers, or the framework's own; torchtitan with expert parallelism; Megatron's with Megatron",
    )
    liger_kernels = setting(
        Names(),
        "Liger's kernels",
        "Which of Liger's kernels replace transformers' code: rope, rms_norm, swiglu. Without swiglu, "
        "feed-forward layers keep their intermediate results, often the largest tensors of a layer. FMS "
        "Acceleration uses rope and rms_norm.",
        flag="liger-kernels",
        default="all three",
        advanced=True,
    )
    tiled_mlp = setting(
        FlagOrCount(),
        "Tiled MLP",
        "Run feed-forward layers in tiles along the sequence and recompute each tile in the backward "
        "pass, as ArcticTraining (ALST), axolotl and Unsloth do for very long sequences. A number sets "
        "the number of tiles.",
        flag="tiled-mlp",
        default="false; if true, tiles of hidden_size tokens, or the framework's default",
        advanced=True,
    )
    attention = setting(
        Choice(
            ("sdpa", "flash", "efficient", "cudnn", "math", "flex"),
            {
                "sdpa": "PyTorch chooses: flash if possible, then memory-efficient, then math",
                "flash": "FlashAttention 2",
                "efficient": "SDPA's memory-efficient kernel",
                "cudnn": "SDPA's cuDNN kernel",
                "flex": "compiled FlexAttention in torchtitan's layers",
                "math": "eager attention: saves all scores, quadratic in sequence length",
            },
        ),
        "Attention kernel",
        "Attention kernel; it determines what attention saves.",
        flag="attention",
        default="sdpa; math if the family has no SDPA in transformers (Gemma 2)",
    )
    flash_version = setting(
        Integer(2, 3),
        "FlashAttention's version",
        "Version of the flash kernel: 3 is faster on Hopper. It changes the time of a step, not its memory.",
        flag="flash-version",
        default="2",
        advanced=True,
    )
    attention_mask = setting(
        Choice(
            ("none", "padded"),
            {"none": "no padding: sequences are full or packed", "padded": "padded batches with a mask"},
        ),
        "Attention mask",
        "Whether batches are padded. A padding mask rules out SDPA's flash kernel, and keys and values are "
        "copied for every query head.",
        flag="attention-mask",
        default="none",
        advanced=True,
    )
    packed_sequences = setting(
        Flag(),
        "Packed sequences",
        "Pack several documents into each sequence, without attention between them: flash attention takes "
        "lengths, other kernels a mask.",
        flag="packed",
        advanced=True,
    )
    kernels = setting(
        Choice(
            ("fused", "fallback"),
            {
                "fused": "fused kernels of mamba-ssm, causal-conv1d and flash-linear-attention",
                "fallback": "transformers' plain PyTorch code, used if those packages are not installed",
            },
        ),
        "Recurrent kernels",
        "Kernels of recurrent mixers such as Mamba or linear attention; the fallback needs many times more memory.",
        flag="kernels",
        default="fused",
        advanced=True,
    )
    loss = setting(
        Counted(
            (
                "cross-entropy-fp32",
                "cross-entropy",
                "fused-linear",
                "cut-cross-entropy",
                "fused-head",
                "vocab-parallel",
            ),
            "chunked",
            {
                "cross-entropy-fp32": "logits upcast to fp32",
                "cross-entropy": "logits kept in the compute dtype",
                "chunked:N": "logits upcast to fp32 in N chunks of the sequence",
                "vocab-parallel": "vocabulary-parallel loss on each rank's vocabulary shard (Megatron, nanotron)",
                "fused-linear": "Liger's fused linear cross-entropy: head, loss and gradients chunk by chunk",
                "cut-cross-entropy": "Apple's Cut Cross-Entropy (used by Unsloth): never stores the logits",
                "fused-head": "TRL's or prime-rl's fused head: log-probabilities part by part, never the logits",
            },
        ),
        "Loss",
        "Implementation of the loss. Logits and cross-entropy are often the peak: 10 to 14 bytes per token "
        "and vocabulary entry.",
        flag="loss",
        common=True,
        default="cross-entropy-fp32, as in transformers",
    )
    loss_shift = setting(
        Choice(
            ("model", "labels-preshifted"),
            {
                "model": "the model computes the loss",
                "labels-preshifted": "the trainer computes the loss outside the model",
            },
        ),
        "Label shift",
        "Where labels are shifted and the loss is computed. If inside the model, FSDP's last gathered "
        "parameters are still allocated then.",
        flag="loss-shift",
        default="model; labels-preshifted with torchtitan's layers",
        advanced=True,
    )
    outputs_kept = setting(
        Flag(),
        "Outputs kept",
        "The trainer holds the model's output, including the logits, through the backward pass.",
        flag="outputs-kept",
        advanced=True,
    )
    compile = setting(
        Flag(),
        "torch.compile",
        "Compile every block with torch.compile.",
        flag="compile",
        advanced=True,
    )
    activation_memory_budget = setting(
        Number(0, 1),
        "Activation memory budget",
        "Fraction of its activations that a compiled block may save; the compiler recomputes the rest, "
        "cheapest first. 0 saves only the block's input.",
        flag="activation-memory-budget",
        default="1: everything the compiler would save; 0.5 in torchtitan's memory_budget mode",
        advanced=True,
    )
    compile_loss = setting(
        Flag(),
        "Compiled loss",
        "Compile the loss too: it then saves the logits without upcasting them.",
        flag="compile-loss",
        default="as this framework version does if blocks are compiled, otherwise false",
        advanced=True,
    )
    dropout = Dropout
    use_cache = setting(
        Flag(),
        "KV cache in training",
        "Hugging Face's use_cache is left on during training: keys and values are copied into an unused cache.",
        flag="use-cache",
        advanced=True,
    )
