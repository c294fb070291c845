"""Settings of what one rank computes in a step."""

from __future__ import annotations

from memcore.config.kinds import Choice, Counted, Flag, Integer, Names, Number
from memcore.config.learning import COMPUTE, DTYPE, MASTER, Adapter, Dropout, Offload, Optimizer
from memcore.config.schema import Section, setting
from memcore.networks.quantized import STORAGES, TITLES, UNMODELLED, UNTRAINABLE


class Checkpointing(Section, path="training.activation_checkpointing", shorthand="policy"):
    """Activation checkpointing; in a file also just its policy."""

    policy = setting(
        Choice(
            ("none", "full", "selective"),
            {
                "none": "keep what the backward pass needs",
                "full": "keep each layer's input and compute the rest again",
                "selective": "keep the results of some operations too, or checkpoint only some layers",
            },
        ),
        "Activation checkpointing",
        "Full checkpointing keeps only the input of each layer and runs the layer again in the backward pass.",
        flag="checkpointing",
        common=True,
        default="none",
    )
    mode = setting(
        Choice(
            ("op", "layer"),
            {
                "op": "keep the results of attention and of every second matrix product too, as torchtitan does",
                "layer": "checkpoint only every n-th layer",
            },
        ),
        "Selective mode",
        "What selective checkpointing selects.",
        flag="checkpoint-mode",
        default="op; layer where a period is given",
        advanced=True,
    )
    every = setting(
        Integer(unit="layers"),
        "Checkpoint period",
        "Every n-th layer is checkpointed in full, the others not at all.",
        flag="checkpoint-every",
        default="2, as in torchtitan",
        advanced=True,
    )
    method = setting(
        Choice(
            ("uniform", "block"),
            {"uniform": "groups of equally many layers", "block": "the first layers of each pipeline chunk"},
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
        "Layers of each group, or of each pipeline chunk.",
        flag="recompute-layers",
        default="1",
        advanced=True,
    )
    modules = setting(
        Names(),
        "Recomputed modules",
        "What Megatron recomputes selectively: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts.",
        flag="recompute-modules",
        default="core_attn",
        advanced=True,
    )
    early_stop = setting(
        Flag(),
        "Early stop",
        "The second run of a layer ends as soon as everything the backward pass needs exists again.",
        flag="early-stop",
        default="true, as in torch.utils.checkpoint",
        advanced=True,
    )
    use_reentrant = setting(
        Flag(),
        "Reentrant checkpoints",
        "The old form of torch.utils.checkpoint: no graph before the backward pass, and the whole layer again in it.",
        flag="reentrant",
        default="false",
        advanced=True,
    )
    entry = setting(
        Choice(
            ("checkpoint_wrapper", "gradient_checkpointing_enable"),
            {
                "checkpoint_wrapper": "PyTorch's wrapper around each layer",
                "gradient_checkpointing_enable": "the switch of transformers",
            },
        ),
        "Checkpoint entry",
        "How checkpointing is switched on; both keep the same tensors.",
        flag="checkpoint-entry",
        default="checkpoint_wrapper",
        advanced=True,
    )


class Training(Section, path="training"):
    """What one rank computes in a step."""

    sequence_length = setting(
        Integer(unit="tokens"),
        "Sequence length",
        "Tokens in a sequence.",
        flag="seq",
        common=True,
        default="the model's maximum, at most 4096",
    )
    images_per_sequence = setting(
        Integer(0, unit="images"),
        "Images",
        "Images in a sequence of a model with a vision tower; their tokens are part of the sequence's length. Without "
        "images the tower does not run: its parameters get no gradients and no optimizer states, but Megatron's have "
        "theirs all the same.",
        flag="images",
        default="1 for a model with a vision tower",
    )
    image_size = setting(
        Integer(unit="pixels"),
        "Image size",
        "Pixels along one side of a square image.",
        flag="image-size",
        default="what the tower is made for; 1024 where it takes any size (Qwen-VL), rounded to whole tokens",
        advanced=True,
    )
    micro_batch_size = setting(
        Integer(unit="sequences"),
        "Micro-batch size",
        "Sequences in one forward pass on one GPU.",
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
                "tf32": "the same in memory; tensor cores read 19 bits of each number",
                "bf16": "parameters, gradients and optimizer states in bf16, no fp32 copy",
                "fp16": "parameters, gradients and optimizer states in fp16",
                "bf16-mixed": "fp32 parameters, computed in bf16: by FSDP's policy, else by autocast",
                "fp16-mixed": "fp32 parameters, computed in fp16: by FSDP's policy, else by autocast",
                "fp8-mixed": "matrix products in FP8",
                "bf16-autocast": "fp32 parameters under torch.autocast: fp32 residual stream, cast weights cached",
            },
        ),
        "Precision",
        "A preset of the dtypes below, set the way the engine does.",
        flag="precision",
        common=True,
        default="bf16-mixed with FSDP; else bf16, the checkpoint's dtype, as in transformers 5",
    )
    parameter_dtype = setting(
        DTYPE,
        "Parameter dtype",
        "The parameters as the optimizer keeps them.",
        flag="parameter-dtype",
        default="by the preset",
        advanced=True,
    )
    compute_dtype = setting(
        COMPUTE,
        "Compute dtype",
        "The parameters as the layers see them; FSDP gathers in this dtype. FP8 is the preset fp8-mixed.",
        flag="compute-dtype",
        default="by the preset",
        advanced=True,
    )
    gradient_dtype = setting(
        DTYPE,
        "Gradient dtype",
        "The gradients that the optimizer reads. In PyTorch they have the parameters' dtype.",
        flag="gradient-dtype",
        default="the parameter dtype",
        advanced=True,
    )
    reduce_dtype = setting(
        DTYPE,
        "Reduce dtype",
        "The dtype in which FSDP sums gradients over ranks.",
        flag="reduce-dtype",
        default="fp32 with a mixed preset, else the compute dtype",
        advanced=True,
    )
    master_dtype = setting(
        MASTER,
        "Master copy",
        "A separate copy of the parameters for the optimizer; PyTorch's engines have none.",
        flag="master-dtype",
        default="the engine's",
        advanced=True,
    )
    optimizer = Optimizer
    adapter = Adapter
    offload = Offload
    quantization = setting(
        Choice(tuple(STORAGES), TITLES, UNMODELLED, UNTRAINABLE),
        "Frozen weights",
        "How frozen linear layers are stored beside an adapter: by bitsandbytes (QLoRA), or by transformers in fp8.",
        flag="frozen-weights",
        common=True,
        default="none: in the parameter dtype",
    )
    trainable = setting(
        Names(),
        "Trainable parts",
        "What learns, by parts of parameter names such as `mlp`, `norm` or `lm_head`; the rest is frozen.",
        flag="trainable",
        default="all",
        advanced=True,
    )
    gradient_clipping = setting(
        Flag(),
        "Gradient clipping",
        "Clip by the global norm: one number for each parameter tensor, scaled in place.",
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
        "Whether gradients stay in memory between steps.",
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
                "liger": "the same with Liger's kernels for norms, gates and rotations",
                "unsloth": "Unsloth's functions for LoRA, with such kernels",
                "torchtitan": "torchtitan's Llama, Qwen3 and DeepSeek-V3",
                "lit-gpt": "LitGPT of October 2023: fused queries, keys and values, a head in chunks",
                "transformer-engine": "Megatron-Core with TransformerEngine",
                "megatron-local": "Megatron-Core with its own modules",
            },
        ),
        "Layer code",
        "Whose layers run: it decides which tensors are saved for the backward pass.",
        flag="implementation",
        default="transformers, or the framework's; torchtitan with expert parallelism; Megatron's own with Megatron",
    )
    attention = setting(
        Choice(
            ("sdpa", "flash", "efficient", "cudnn", "math", "flex"),
            {
                "sdpa": "PyTorch chooses: flash if it can, else memory-efficient, else math",
                "flash": "FlashAttention 2",
                "efficient": "the memory-efficient kernel of SDPA",
                "cudnn": "the cuDNN kernel of SDPA",
                "flex": "FlexAttention, compiled, in torchtitan's layers",
                "math": "eager attention: all scores in memory, quadratic in the sequence",
            },
        ),
        "Attention kernel",
        "What attention keeps in memory.",
        flag="attention",
        default="sdpa; math where the family has no SDPA in transformers (Gemma 2)",
    )
    attention_mask = setting(
        Choice(("none", "padded"), {"none": "sequences are full or packed", "padded": "a padding mask is passed"}),
        "Attention mask",
        "A padding mask rules out the flash kernel in SDPA, and keys and values are copied for every query head.",
        flag="attention-mask",
        default="none",
        advanced=True,
    )
    packed_sequences = setting(
        Flag(),
        "Packed sequences",
        "Several documents in each sequence, each on its own: flash attention takes lengths, other kernels a mask.",
        flag="packed",
        default="false",
        advanced=True,
    )
    kernels = setting(
        Choice(
            ("fused", "fallback"),
            {
                "fused": "kernels of mamba-ssm, causal-conv1d and flash-linear-attention",
                "fallback": "transformers' own PyTorch code, which runs where those packages are absent",
            },
        ),
        "Recurrent kernels",
        "What recurrent mixers, such as Mamba or linear attention, keep in memory; the fallback needs many times more.",
        flag="kernels",
        default="fused",
        advanced=True,
    )
    loss = setting(
        Counted(
            ("cross-entropy-fp32", "cross-entropy", "fused-linear", "cut-cross-entropy", "vocab-parallel"),
            "chunked",
            {
                "cross-entropy-fp32": "logits upcast to fp32",
                "cross-entropy": "logits in the compute dtype",
                "chunked:N": "upcast in N chunks of the sequence",
                "vocab-parallel": "Megatron's and nanotron's, on each rank's part of the vocabulary",
                "fused-linear": "Liger's kernel: head, loss and gradients a few rows at a time",
                "cut-cross-entropy": "Apple's kernels, which Unsloth uses: logits are never in memory",
            },
        ),
        "Loss",
        "Logits and cross-entropy are often the peak: 10 to 14 bytes for each token and word of the vocabulary.",
        flag="loss",
        common=True,
        default="cross-entropy-fp32, as in transformers",
    )
    loss_shift = setting(
        Choice(
            ("model", "labels-preshifted"),
            {"model": "the model computes the loss", "labels-preshifted": "the trainer computes it after the model"},
        ),
        "Label shift",
        "Who shifts the labels and computes the loss: inside the model, FSDP's last gathered parameters are there.",
        flag="loss-shift",
        default="model; labels-preshifted with torchtitan's layers",
        advanced=True,
    )
    outputs_kept = setting(
        Flag(),
        "Outputs kept",
        "The trainer holds the model's output object, and with it the logits, through the backward pass.",
        flag="outputs-kept",
        default="false",
        advanced=True,
    )
    compile = setting(
        Flag(), "torch.compile", "Every block is compiled.", flag="compile", default="false", advanced=True
    )
    activation_memory_budget = setting(
        Number(0, 1),
        "Activation memory budget",
        "The share of its activations that a compiled block may keep: the compiler computes the rest again, cheapest"
        " first. 0 keeps the block's input alone.",
        flag="activation-memory-budget",
        default="1, all that the compiler would keep; 0.5 in torchtitan's mode memory_budget",
        advanced=True,
    )
    compile_loss = setting(
        Flag(),
        "Compiled loss",
        "The loss is compiled too: it keeps the logits as they are, and upcasts none of them.",
        flag="compile-loss",
        default="what the framework's version does where blocks are compiled; else false",
        advanced=True,
    )
    dropout = Dropout
    use_cache = setting(
        Flag(),
        "KV cache in training",
        "Hugging Face's use_cache was left on: keys and values are copied into a cache that nobody reads.",
        flag="use-cache",
        default="false",
        advanced=True,
    )
