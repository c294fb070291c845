"""Settings of the optimizer, and of adapters next to frozen weights."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.adapted_layers import LayerNumbers, Ranks
from memcore.config.kinds import Choice, Flag, Integer, ModelName, Names, Number
from memcore.config.schema import Section, setting
from memcore.dtypes import FLOATING
from memcore.messages import Message
from memcore.networks.adapter_kinds import ADAPTER_KINDS
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
    {"fp8": "FP8 matrix products (the preset fp8-mixed)", "mxfp8": "MXFP8: FP8 matrix products scaled in blocks of 32"},
    impossible=dict.fromkeys(_FEW_BITS, f"{_STORED}, fp8, mxfp8"),
    also=TF32,
)
"""A dtype that layers can compute in."""
MASTER = Choice(
    ("none", "fp32", "int16", "int8"),
    {
        "none": "no master weights: the optimizer updates the parameters directly",
        "fp32": "fp32 master weights",
        "int16": "the 16 bits of fp32 that a bf16 parameter lacks",
        "int8": "8 of the bits of fp32 that a bf16 parameter lacks",
    },
    impossible=dict.fromkeys(
        ("bf16", "fp16", "fp8", "mxfp8", *(bits for bits in _FEW_BITS if bits != "int8")),
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
    "raises an error at its first step (torch/optim/sparse_adam.py): it needs sparse gradients, "
    "which only nn.Embedding(sparse=True) produces, but all gradients of these models are dense; use "
    "adam, adamw-8bit or paged-adamw-8bit"
)


class Optimizer(Section, path="training.optimizer", shorthand="name"):
    """The optimizer; in a file also just its name."""

    name = setting(
        Choice(
            tuple(name for name in OPTIMIZERS if not (name.endswith("-momentum") or "@" in name)),
            impossible=dict.fromkeys(("sparse-adam", "sparseadam"), _SPARSE),
        ),
        "Optimizer",
        "Adam keeps two states per parameter; SGD keeps none, or one with momentum. 8-bit states take a "
        "quarter of fp32 states.",
        flag="optimizer",
        common=True,
        default="adamw",
    )
    implementation = setting(
        Choice(
            (
                "fused",
                "foreach",
                "for-loop",
                "bitsandbytes",
                "torchao",
                "distributed-shampoo",
                "transformers",
                "transformer-engine",
                "flashoptim",
            ),
            {
                "fused": "one kernel, no temporaries",
                "foreach": "multi-tensor operations with a temporary the size of this rank's parameters",
                "for-loop": "one parameter at a time",
                "bitsandbytes": "bitsandbytes kernel, in place",
                "torchao": "torchao: one compiled kernel per parameter",
                "transformers": "transformers' own Adafactor, the Trainer's choice, or its AdamW of earlier releases",
                "distributed-shampoo": "Meta's Distributed Shampoo and SOAP, on blocks of each rank's parameters",
                "transformer-engine": "TransformerEngine's FusedAdam: fp32 moments, with master weights if asked for",
                "flashoptim": "Databricks' FlashOptim: moments in 8 bits, with 8 or 16 more bits of each weight",
            },
        ),
        "Implementation",
        "Implementation of the optimizer step; it determines how much temporary memory the step needs.",
        flag="optimizer-implementation",
        default="fused, as in the Hugging Face Trainer and torchtitan; foreach for SGD, as in torch.optim",
        advanced=True,
    )
    state_dtype = setting(
        DTYPE,
        "State dtype",
        "Dtype of Adam's moments. PyTorch uses the parameters' dtype; its fused kernel also supports bf16.",
        flag="state-dtype",
        default="the parameters' dtype",
        advanced=True,
    )
    rank = setting(
        Integer(),
        "Projection rank",
        "GaLore and APOLLO: rank to which gradients are projected before the moments are computed.",
        flag="optimizer-rank",
        default="128 for GaLore, 256 for APOLLO, 1 for APOLLO-Mini",
        advanced=True,
    )
    momentum = setting(
        Number(0, 1),
        "Momentum",
        "SGD and RMSprop: above zero, one momentum value is kept per parameter.",
        flag="momentum",
        default="0",
        advanced=True,
    )


_QLORA = "is lora with --frozen-weights nf4 (training.quantization)"


class Adapter(Section, path="training.adapter", shorthand="type"):
    """Small trainable matrices next to frozen weights; in a file also just its type."""

    type = setting(
        Choice(
            tuple(ADAPTER_KINDS),
            {name: kind.meaning for name, kind in ADAPTER_KINDS.items()},
            impossible={"qlora": _QLORA},
        ),
        "Adapter",
        "Adapter to train. All other parameters are frozen: no gradients, no optimizer states.",
        flag="adapter",
        common=True,
        default="none",
    )
    rank = setting(
        Integer(),
        "Rank",
        "Rank of the adapter's two matrices.",
        flag="adapter-rank",
        common=True,
        aliases=("r",),
        default="8, as in PEFT; 32 with Megatron, as in Megatron Bridge",
    )
    target_modules = setting(
        Names(),
        "Targets",
        "Linear layers that get an adapter, by the last part of their names; `all-linear` means all but "
        "the output head.",
        flag="adapter-targets",
        default=(
            "all-linear; with engine.framework peft, transformers, trl or accelerate, PEFT's default for the family"
        ),
        advanced=True,
    )
    modules_to_save = setting(
        Names(),
        "Modules to save",
        "Modules trained in full next to the adapters: the embedding (`embed_tokens`) or the head "
        "(`lm_head`). PEFT trains a copy and keeps the frozen original.",
        flag="adapter-saved",
        default="none",
        advanced=True,
    )
    target_parameters = setting(
        Names(),
        "Adapted experts",
        "Stacked expert matrices that get LoRA, such as `gate_up_proj`. Each forward pass creates and "
        "keeps copies of them.",
        flag="adapter-experts",
        default="none",
        advanced=True,
    )
    rank_pattern = setting(
        Ranks(),
        "Ranks by module",
        "Ranks of single modules, by the ends of their names (`q_proj=4`, `layers.0.self_attn.k_proj=16`); the first "
        "that fits decides.",
        flag="adapter-ranks",
        default="the same rank everywhere",
        advanced=True,
    )
    layers_to_transform = setting(
        LayerNumbers(),
        "Adapted layers",
        "Numbers of the layers that get an adapter, from 0 (`24-31`).",
        flag="adapter-layers",
        default="all",
        advanced=True,
    )
    use_rslora = setting(
        Flag(),
        "Rank-stabilized",
        "Scale LoRA's output by the square root of the rank (rsLoRA); no effect on memory.",
        flag="adapter-rslora",
        advanced=True,
    )
    decompose_factor = setting(
        Integer(),
        "Factor",
        "LoKr: width of the first matrix, if it divides the layer's width.",
        flag="adapter-factor",
        default="near the square root of the width, as in PEFT",
        advanced=True,
    )
    block_size = setting(
        Integer(),
        "Block size",
        "OFT and BOFT: size of the rotation blocks (`oft_block_size`, `boft_block_size`); C3A: of the circulant ones.",
        flag="adapter-block",
        default="32 for OFT without a rank, 4 for BOFT, 256 for C3A, as in PEFT",
        advanced=True,
    )
    num_trainable_tokens = setting(
        Integer(unit="tokens"),
        "Trained tokens",
        "Number of trainable embedding rows (PEFT's `token_indices`).",
        flag="adapter-rows",
        default="2, for the tokens that begin and end a sequence",
        advanced=True,
    )
    u = setting(
        Integer(),
        "Values per layer",
        "TinyLoRA: trainable values per layer.",
        flag="adapter-projections",
        default="64, as in PEFT",
        advanced=True,
    )
    n_frequency = setting(
        Integer(),
        "Frequencies",
        "FourierFT: Fourier coefficients trained per layer.",
        flag="adapter-frequencies",
        default="1000, as in PEFT",
        advanced=True,
    )
    init_r = setting(
        Integer(),
        "Initial rank",
        "AdaLoRA: initial rank.",
        flag="adapter-init-rank",
        default="12, as in PEFT",
        advanced=True,
    )
    num_virtual_tokens = setting(
        Integer(unit="tokens"),
        "Virtual tokens",
        "Virtual tokens added by the adapter.",
        flag="adapter-tokens",
        default="10 inside the layers, as in LitGPT; 20 prepended to the sequence",
        advanced=True,
    )
    dtype = setting(
        DTYPE,
        "Adapter dtype",
        "Dtype of the adapter. PEFT uses fp32 next to half-precision weights; TRL casts adapters of "
        "quantized models to bf16.",
        flag="adapter-dtype",
        default="fp32, as in PEFT",
        advanced=True,
    )
    dropout = setting(
        Number(0, 1),
        "Adapter dropout",
        "Adapter dropout. Above zero, every target layer saves its dropped-out input and a mask.",
        flag="adapter-dropout",
        default="0",
        advanced=True,
    )


_DEVICES: Mapping[str, str] = {"cpu": "on the host", "nvme": "on NVMe (DeepSpeed ZeRO-3)"}


class Offload(Section, path="training.offload"):
    """What is kept on the host."""

    optimizer = setting(
        Choice(("cpu", "nvme"), _DEVICES),
        "Offloaded optimizer",
        "Keep optimizer states and run the step on the host (Megatron's HybridDeviceOptimizer, torchao's "
        "CPUOffloadOptimizer, DeepSpeed's offload_optimizer).",
        flag="offload-optimizer",
        default="none",
        advanced=True,
    )
    optimizer_fraction = setting(
        Number(0, 1),
        "Offloaded fraction",
        "Fraction of the parameters whose optimizer states are on the host.",
        flag="offload-fraction",
        default="1",
        advanced=True,
    )
    parameters = setting(
        Choice(("cpu", "nvme"), _DEVICES),
        "Offloaded parameters",
        "Keep parameters on the host. FSDP's CPU offload moves shards, gradients and optimizer; DeepSpeed "
        "ZeRO-3's offload_param moves parameters.",
        flag="offload-parameters",
        default="none",
        advanced=True,
    )
    activations = setting(
        Choice(("cpu",)),
        "Offloaded activations",
        "Move activations saved for the backward pass to the host and back (torchtune, TRL, save_on_cpu).",
        flag="offload-activations",
        default="none",
    )


class Method(Section, path="training.method", shorthand="name"):
    """What a step learns from; in a file also just its name."""

    name = setting(
        Choice(
            ("sft", "dpo", "kto", "orpo", "cpo", "simpo", "reward", "classify", "grpo", "ppo", "distill"),
            {
                "sft": "next-token prediction on given sequences",
                "dpo": "pairs of a chosen and a rejected answer, against a reference model",
                "kto": "answers labeled good or bad, against a reference model",
                "orpo": "pairs without a reference model, plus the chosen answer's cross-entropy",
                "cpo": "pairs without a reference model, plus the chosen answer's cross-entropy",
                "simpo": "pairs without a reference model",
                "reward": "pairs, with a head that has one output instead of logits",
                "classify": "labels of whole sequences, with a head of one output instead of logits",
                "grpo": "generated answers with advantages: only the update step, not generation",
                "distill": "given sequences, with a frozen teacher's token probabilities as targets",
                "ppo": "generated answers, and a value head on the model: only the update step, not generation",
            },
            impossible={
                "lora": "is an adapter: use --adapter lora",
                "qlora": "is two settings: use --adapter lora --frozen-weights nf4",
                "full": "is every method without an adapter: leave it out",
            },
        ),
        "Method",
        "Training objective. Pairwise methods run both sequences of a pair at once, so the micro-batch "
        "size counts pairs.",
        flag="method",
        engines=("none", "ddp", "fsdp", "deepspeed", "megatron"),
        default="sft",
    )
    reference = setting(
        Choice(
            ("copy", "adapter", "precomputed"),
            {
                "copy": "a frozen copy of the model",
                "adapter": "the model without its adapter",
                "precomputed": "computed before training",
            },
        ),
        "Reference model",
        "Where log-probabilities of the reference model come from.",
        flag="reference-model",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="adapter if an adapter is trained, otherwise copy",
        advanced=True,
    )
    completion_length = setting(
        Integer(unit="tokens"),
        "Completion length",
        "Tokens per generated answer; GRPO computes logits only for these.",
        flag="completion-length",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="256, as in TRL, at most the sequence length",
        advanced=True,
    )
    rollout_share = setting(
        Number(0, 1),
        "Rollout engine's memory",
        "Fraction of GPU memory that the colocated rollout engine keeps during the update (vLLM's "
        "gpu_memory_utilization, if it does not sleep).",
        flag="rollout-share",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="0",
        advanced=True,
    )
    teacher = setting(
        ModelName(),
        "Teacher",
        "Frozen model whose logits the trained one learns from; it has the same vocabulary.",
        flag="teacher",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        advanced=True,
    )
    reward_model = setting(
        Flag(),
        "Reward model on the GPU",
        "A frozen reward model as large as the model stays on the GPU during the update (PPO).",
        flag="reward-model",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="false",
        advanced=True,
    )
    critic = setting(
        Flag(),
        "Critic on the GPU",
        "A critic as large as the model keeps its parameters and optimizer states on the GPU during the update "
        "(PPO; verl without critic offloading).",
        flag="critic",
        engines=("none", "ddp", "fsdp", "deepspeed", "megatron"),
        default="false",
        advanced=True,
    )

    entropy = setting(
        Flag(),
        "Entropy bonus",
        "The entropy of each generated token is part of the loss, so its gradient covers all logits (GRPO under "
        "verl and OpenRLHF).",
        flag="entropy-bonus",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="false",
        advanced=True,
    )


class Dropout(Section, path="training.dropout"):
    """Dropout probabilities while training."""

    hidden = setting(
        Number(0, 1),
        "Hidden dropout",
        "Dropout probability of the residual branches; above zero, a mask of one byte per element is saved.",
        flag="hidden-dropout",
        default="what the model's config.json says",
        advanced=True,
    )
    attention = setting(
        Number(0, 1),
        "Attention dropout",
        "Dropout probability of attention weights; only eager attention saves a mask for it.",
        flag="attention-dropout",
        default="what the model's config.json says",
        advanced=True,
    )
