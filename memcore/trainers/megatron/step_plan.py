"""What Megatron-Core was told, as far as it decides which tensors come and go."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """What runs again in the backward pass."""

    granularity: str
    """full or selective."""
    method: str = "uniform"
    """Of full recomputation: `uniform`, groups of `layers` each; `block`, the first `layers` of a chunk."""
    layers: int = 1
    divided: bool = False
    """Tensor-parallel ranks keep a part of each input."""
    modules: frozenset[str] = frozenset()
    """Of selective recomputation: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """How routed experts run."""

    dispatcher: str
    """allgather, alltoall, deepep or hybridep."""
    parallel: bool
    """Experts are on several ranks."""
    tensor: bool
    """Each expert's matrices are too."""
    grouped: bool
    permute_fusion: bool
    router_fusion: bool
    balancing: str
    pre_softmax: bool
    padded: bool
    """Every expert computes as many tokens as its capacity."""
    squared_relu_fusion: bool = False
    """Squared ReLU and the rows' weights are one kernel."""
    chosen: int = 0
    """Experts of a token, where their number decides whose code runs (DeepSpeed's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Which modules' saved tensors go to the host."""

    modules: frozenset[str]
    """attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act."""
    least: int
    """Elements of the smallest tensor that goes."""
    sizes: tuple[tuple[str, int], ...]
    """The values of symbols, by which that is decided."""
    stays: bool = True
    """The last group of each module stays: the backward pass of this pass is the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """Which parts of layers run in CUDA graphs."""

    modules: frozenset[str]
    """attn, mlp, moe, moe_router, moe_preprocess, mamba; none: whole layers."""
    own_inputs: bool
    """Inputs of graphs are tensors outside of their pool (TransformerEngine's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronPlan:
    """How its layers run on one rank.

    What stays from step to step is no part of a recording: the dummies that stand for fused weight gradients, the
    buffer in which the head gathers its input and unfused local attention its scores, workspaces, gradient buffers.
    A slot that is `checkpointed` is recomputed in full. Sizes in symbols: `s` is the sequence of a context-parallel
    rank, `tp`, `cp`, `ep`, `etp` are numbers of ranks, and `nr` are the rows that a rank's experts receive.
    """

    tensor: bool
    """Matrices are shared by several ranks."""
    sequence: bool
    """They have a part of the sequence each outside of them."""
    context: str | None
    """How context-parallel ranks exchange keys and values; None: there is one."""
    keeps_exchanged: bool
    """Attention keeps its result as it was before heads were exchanged for tokens (TransformerEngine since 2.8)."""
    recompute: Recompute | None
    fuses_weight_gradients: bool
    """Matrix products add weight gradients to the gradient buffer; autograd sees a dummy that stays."""
    keeps_head_dummy: bool
    """So does the output head's (since core 0.14)."""
    loss: str
    """unfused, native or te."""
    experts: Experts | None
    fp8: str | None
    """The recipe of FP8 products."""
    softmax_fp32: bool
    softmax_fusion: bool
    activation_fusion: bool
    rope_fusion: bool
    deterministic: bool
    masked: bool
    """The data loader makes an attention mask."""
    gate_fusion: bool = True
    """SwiGLU is one kernel, where GELU need not be (argument_utils.py: `bias_activation_fusion`)."""
    defers_head_gradient: bool = False
    releases_outside_layers: bool = False
    """Megatron-FSDP gives back after each step what it gathered outside the layers (core 0.14 to 0.17)."""
    images: str | None = None
    """Whose model for text and images it is, which embeds tokens in a way of its own: `bridge` or `swift`."""
    offload: Offload | None = None
    graphs: Graphs | None = None
