"""Settings of what learns: the optimizer, and adapters beside frozen weights."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.kinds import Choice, Flag, Integer, Names, Number
from memcore.config.schema import Section, setting
from memcore.dtypes import FLOATING
from memcore.messages import Message
from memcore.optimizers.table import OPTIMIZERS

_STORED = Message(
    "is not a dtype for trainable parameters; for low-bit frozen weights use training.quantization, "
    "and for FP8 matrix products use training.precision 'fp8-mixed'; allowed: {}",
    "fp32, bf16, fp16",
)
_FEW_BITS = ("int8", "int4", "nf4", "mxfp4", "nvfp4")
TF32: Mapping[str, str] = {"tf32": "fp32"}
"""Tensor cores read 19 bits of each number; in memory it has 32."""
DTYPE = Choice(FLOATING, impossible=dict.fromkeys(("fp8", "mxfp8", *_FEW_BITS), _STORED), also=TF32)
"""A dtype that parameters can have."""
COMPUTE = Choice(
    (*FLOATING, "fp8", "mxfp8"),
    {"fp8": "matrix products in FP8: the precision fp8-mixed", "mxfp8": "the same in blocks of 32"},
    impossible=dict.fromkeys(_FEW_BITS, f"{_STORED}, fp8, mxfp8"),
    also=TF32,
)
"""A dtype that layers can compute in."""
MASTER = Choice(
    ("none", "fp32"),
    {"none": "the optimizer reads the parameters themselves", "fp32": "it has a copy in fp32"},
    impossible=dict.fromkeys(
        ("bf16", "fp16", "fp8", "mxfp8", *_FEW_BITS),
        Message(
            "is not a supported dtype for master copies; Megatron's precision-aware optimizer has "
            "engine.main_params_dtype; allowed: {}",
            "none, fp32",
        ),
    ),
    also=TF32,
)
"""A dtype of the optimizer's own copy of the parameters."""
_SPARSE = (
    "raises an error at its first step (torch/optim/sparse_adam.py): it takes sparse gradients, which only "
    "nn.Embedding(sparse=True) makes, and all parameters of these models have dense ones; adam, adamw-8bit and "
    "paged-adamw-8bit take those"
)


class Optimizer(Section, path="training.optimizer", shorthand="name"):
    """The optimizer; in a file also just its name."""

    name = setting(
        Choice(
            tuple(name for name in OPTIMIZERS if not (name.endswith("-momentum") or "@" in name)),
            impossible=dict.fromkeys(("sparse-adam", "sparseadam"), _SPARSE),
        ),
        "Optimizer",
        "Adam keeps two numbers for each parameter, SGD none, or one with momentum; 8 bits take a quarter of fp32.",
        flag="optimizer",
        common=True,
        default="adamw",
    )
    implementation = setting(
        Choice(
            ("fused", "foreach", "for-loop", "bitsandbytes", "torchao", "distributed-shampoo"),
            {
                "fused": "one kernel, no temporaries",
                "foreach": "lists of tensors: a temporary as large as all parameters of this rank",
                "for-loop": "one parameter at a time",
                "bitsandbytes": "a kernel of bitsandbytes, in place",
                "torchao": "a compiled kernel of torchao for each parameter",
                "distributed-shampoo": "Meta's Shampoo and SOAP, on tiles of what a rank has",
            },
        ),
        "Implementation",
        "How the step is computed; it decides the memory that the step itself needs.",
        flag="optimizer-implementation",
        default="fused, as in the Hugging Face Trainer and torchtitan; foreach for SGD, as in torch.optim",
        advanced=True,
    )
    state_dtype = setting(
        DTYPE,
        "State dtype",
        "The dtype of Adam's moments; PyTorch keeps them like the parameters, its fused kernel also in bf16.",
        flag="state-dtype",
        default="the parameters'",
        advanced=True,
    )
    rank = setting(
        Integer(),
        "Rank of gradients",
        "GaLore and APOLLO: dimensions to which gradients are projected; moments are kept of the projection.",
        flag="optimizer-rank",
        default="128 for GaLore, 256 for APOLLO, 1 for APOLLO-Mini",
        advanced=True,
    )
    momentum = setting(
        Number(0, 1),
        "Momentum",
        "SGD and RMSprop: above zero it keeps one number for each parameter.",
        flag="momentum",
        default="0",
        advanced=True,
    )


class Adapter(Section, path="training.adapter", shorthand="type"):
    """Small trainable matrices beside frozen weights; in a file also just its type."""

    type = setting(
        Choice(
            (
                *(
                    "lora",
                    "rslora",
                    "dora",
                    "adalora",
                    "vera",
                    "loha",
                    "lokr",
                    "oft",
                    "boft",
                    "tinylora",
                    "miss",
                    "ia3",
                ),
                *("ln-tuning", "trainable-tokens", "prefix-tuning", "prompt-tuning", "p-tuning"),
                *("llama-adapter", "llama-adapter-v2"),
            ),
            {
                "lora": "two low-rank matrices beside each targeted linear layer",
                "rslora": "the same, scaled by the root of the rank",
                "dora": "the same with a magnitude for each row; the whole weight is made in every forward pass",
                "adalora": "three factors, whose ranks are cut while training",
                "vera": "two vectors for each layer, around frozen matrices that all share",
                "loha": "the elements' product of two low-rank matrices, made dense",
                "lokr": "the Kronecker product of two matrices, made dense",
                "oft": "blocks of the input are turned",
                "boft": "the whole input is turned by a matrix of blocks",
                "tinylora": "a vector for each layer between frozen singular vectors",
                "miss": "one matrix over sums of groups of elements",
                "ia3": "a factor for each row, or for each element of the input of a feed-forward layer's last matrix",
                "ln-tuning": "the norms",
                "trainable-tokens": "rows of the embedding",
                "prefix-tuning": "learned keys and values before every layer's own",
                "prompt-tuning": "learned tokens before the sequence",
                "p-tuning": "the same, made by a small network",
                "llama-adapter": "learned tokens that attention sees too, with a gate (LitGPT)",
                "llama-adapter-v2": "the same, with a factor and a bias for each matrix, and trained norms (LitGPT)",
            },
        ),
        "Adapter",
        "Everything but the adapter is frozen: no gradients and no optimizer states for it.",
        flag="adapter",
        common=True,
        default="none",
    )
    rank = setting(
        Integer(),
        "Rank",
        "Width between the two matrices of an adapter.",
        flag="adapter-rank",
        common=True,
        aliases=("r",),
        default="8, as in PEFT; 32 with Megatron, as in Megatron Bridge",
    )
    target_modules = setting(
        Names(),
        "Targets",
        "Linear layers that get an adapter, by the last part of their names, or `all-linear`: all but the output head.",
        flag="adapter-targets",
        default="all-linear; PEFT's for the family where engine.framework is peft, transformers, trl or accelerate",
        advanced=True,
    )
    modules_to_save = setting(
        Names(),
        "Trained copies",
        "Modules that learn as a whole beside the adapters, in a copy: the embedding (`embed_tokens`), the head "
        "(`lm_head`). Their frozen originals stay.",
        flag="adapter-saved",
        default="none",
        advanced=True,
    )
    target_parameters = setting(
        Names(),
        "Adapted experts",
        "Stacked matrices of routed experts that get LoRA, such as `gate_up_proj`; every forward pass makes and keeps "
        "copies of them.",
        flag="adapter-experts",
        default="none",
        advanced=True,
    )
    use_rslora = setting(
        Flag(),
        "Rank-stabilized",
        "LoRA's product is scaled by the root of the rank (rsLoRA), which takes no memory.",
        flag="adapter-rslora",
        default="false",
        advanced=True,
    )
    decompose_factor = setting(
        Integer(),
        "Factor",
        "LoKr: width of the first matrix, if it divides the layer's width.",
        flag="adapter-factor",
        default="near the root of the width, as in PEFT",
        advanced=True,
    )
    block_size = setting(
        Integer(),
        "Block size",
        "OFT and BOFT: the side of the blocks that turn the input (`oft_block_size`, `boft_block_size`).",
        flag="adapter-block",
        default="32 for OFT without a rank, 4 for BOFT, as in PEFT",
        advanced=True,
    )
    num_trainable_tokens = setting(
        Integer(unit="tokens"),
        "Trained tokens",
        "Rows of the embedding that learn (PEFT's `token_indices`).",
        flag="adapter-rows",
        default="2: the tokens that begin and end a sequence",
        advanced=True,
    )
    u = setting(
        Integer(),
        "Projections",
        "TinyLoRA: trainable numbers of each layer.",
        flag="adapter-projections",
        default="64, as in PEFT",
        advanced=True,
    )
    init_r = setting(
        Integer(),
        "Initial rank",
        "AdaLoRA begins with this rank.",
        flag="adapter-init-rank",
        default="12, as in PEFT",
        advanced=True,
    )
    num_virtual_tokens = setting(
        Integer(unit="tokens"),
        "Learned tokens",
        "Tokens that an adapter adds.",
        flag="adapter-tokens",
        default="10, as in LitGPT; 20 before the sequence",
        advanced=True,
    )
    dtype = setting(
        DTYPE,
        "Adapter dtype",
        "PEFT makes adapters fp32 beside half-precision weights; TRL casts those of quantized models to bf16.",
        flag="adapter-dtype",
        default="fp32, as in PEFT",
        advanced=True,
    )
    dropout = setting(
        Number(0, 1),
        "Adapter dropout",
        "Above zero every target keeps its own input and a mask.",
        flag="adapter-dropout",
        default="0",
        advanced=True,
    )


_DEVICES: Mapping[str, str] = {"cpu": "on the host", "nvme": "on a disk (DeepSpeed's ZeRO-3)"}


class Offload(Section, path="training.offload"):
    """What is kept on the host."""

    optimizer = setting(
        Choice(("cpu", "nvme"), _DEVICES),
        "Offloaded optimizer",
        "Optimizer states, and the step itself, on the host (Megatron's HybridDeviceOptimizer, torchao's "
        "CPUOffloadOptimizer, DeepSpeed's offload_optimizer).",
        flag="offload-optimizer",
        default="none",
        advanced=True,
    )
    optimizer_fraction = setting(
        Number(0, 1),
        "Offloaded share",
        "The share of parameters whose optimizer is on the host.",
        flag="offload-fraction",
        default="1",
        advanced=True,
    )
    parameters = setting(
        Choice(("cpu", "nvme"), _DEVICES),
        "Offloaded parameters",
        "FSDP keeps shards, gradients and optimizer on the host: the same as its CPU offload. DeepSpeed's ZeRO-3 keeps "
        "the parameters there: its offload_param.",
        flag="offload-parameters",
        default="none",
        advanced=True,
    )
    activations = setting(
        Choice(("cpu",)),
        "Offloaded activations",
        "What layers save for the backward pass goes to the host and comes back (torchtune, TRL, save_on_cpu).",
        flag="offload-activations",
        default="none",
    )


class Dropout(Section, path="training.dropout"):
    """Dropout probabilities while training."""

    hidden = setting(
        Number(0, 1),
        "Hidden dropout",
        "Probability of dropping elements of the residual branches; above zero a mask of one byte per element is kept.",
        flag="hidden-dropout",
        default="what the model's config.json says",
        advanced=True,
    )
    attention = setting(
        Number(0, 1),
        "Attention dropout",
        "Probability of dropping attention weights; only eager attention keeps a mask for it.",
        flag="attention-dropout",
        default="what the model's config.json says",
        advanced=True,
    )
