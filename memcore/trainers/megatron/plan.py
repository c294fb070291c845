"""What decides which tensors come and go, from the settings of a Megatron job; what is not modelled is refused."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.errors import UnsupportedError
from memcore.config.defaults import Assumption, Defaults
from memcore.trainers.megatron.ranks import Ranks
from memcore.trainers.megatron.told import Experts, MegatronPlan, Recompute

MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
"""What selective recomputation may name."""

_UNMODELLED: Mapping[str, tuple[object, ...]] = {
    "training.adapter.type": ("lora",),
    "training.adapter.num_virtual_tokens": (),
    "training.adapter.init_r": (),
    "training.quantization": (),
    "training.compile": (False,),
    "training.compile_loss": (False,),
    "training.activation_memory_budget": (1,),
    "training.attention_mask": ("none",),
    "training.use_cache": (False,),
    "training.zero_grad": ("set-to-none",),
}
"""Settings with the values that are modelled."""
_OF_TIME = ("engine.delay_wgrad_compute", "engine.moe_shared_expert_overlap")
"""Settings that only say when something runs; how much longer tensors live for it is not modelled."""


def plan_of(read: Defaults, ranks: Ranks, kernel: str) -> MegatronPlan:
    """How the layers run.

    Raises UnsupportedError for what is not modelled.
    """
    for path, allowed in _UNMODELLED.items():
        value = read.given(path)
        if value is not None and value not in allowed:
            also = f"; allowed: {allowed[0]}" if allowed else "; leave it out"
            raise UnsupportedError(path, f"found {value!r}, which is not modelled with Megatron yet{also}")
    for path in filter(read.given, _OF_TIME):
        reason = "counted as if it were off: how much longer tensors live is not modelled"
        read.assumptions.append(Assumption(path, True, reason, notable=True))
    scaled = bool(read.given("engine.apply_query_key_layer_scaling"))
    return MegatronPlan(
        tensor=ranks.tensor > 1,
        sequence=ranks.sequence,
        context=None if ranks.context == 1 else str(read.take("engine.cp_comm_type", "p2p")),
        recompute=_recompute(read, ranks),
        fuses_weight_gradients=bool(read.take("engine.gradient_accumulation_fusion", True)),
        loss=_loss(read),
        experts=_experts(read, ranks),
        fp8=_fp8(read),
        softmax_fp32=scaled or bool(read.given("engine.attention_softmax_in_fp32")),
        softmax_fusion=not read.given("engine.no_masked_softmax_fusion"),
        activation_fusion=not read.given("engine.no_bias_gelu_fusion"),
        gate_fusion=not read.given("engine.no_bias_swiglu_fusion"),
        rope_fusion=not read.given("engine.no_rope_fusion"),
        deterministic=bool(read.given("engine.deterministic_mode")),
        masked=not read.given("engine.no_create_attention_mask_in_dataloader"),
        defers_head_gradient=bool(read.given("engine.defer_embedding_wgrad_compute")),
    )


def usual_kernel(read: Defaults, major: int | None, *, local: bool, windowed: bool) -> tuple[str, str]:
    """Whose attention runs where a job leaves it open, and why; `major`: of the GPU's compute capability.

    TransformerEngine prefers cuDNN's kernel from Hopper on. With dropout that has no windows, and on Blackwell no
    deterministic backward pass. Source: dot_product_attention/utils.py (get_attention_backend), fused_attn.cpp.
    """
    if local:
        return "math", "Megatron-Core's own attention"
    dropped = bool(read.given("training.dropout.attention"))
    exact = bool(read.given("engine.deterministic_mode"))
    if major is None or major < 9 or (dropped and (windowed or (exact and major > 9))):
        return "flash", "TransformerEngine's usual choice"
    return "cudnn", "TransformerEngine's choice from Hopper on"


def _fp8(read: Defaults) -> str | None:
    if read.given("training.precision") != "fp8-mixed":
        for path in ("engine.fp8_format", "engine.fp8_param_gather"):
            if read.given(path):
                read.refuse(path, f"found {read.given(path)!r}; needs training.precision 'fp8-mixed'")
        return None
    return str(read.take("engine.fp8_recipe", "delayed", "Megatron's default"))


def _loss(read: Defaults) -> str:
    if not read.given("engine.cross_entropy_loss_fusion"):
        if read.given("engine.cross_entropy_fusion_impl") == "te":
            read.refuse("engine.cross_entropy_fusion_impl", "needs engine.cross_entropy_loss_fusion")
        return "unfused"
    return str(read.take("engine.cross_entropy_fusion_impl", "native"))


def _experts(read: Defaults, ranks: Ranks) -> Experts:
    dispatcher = str(read.take("engine.moe_token_dispatcher", "allgather"))
    if dispatcher == "flex":
        dispatcher = str(read.take("engine.moe_flex_dispatcher_backend", "deepep"))
    return Experts(
        dispatcher=dispatcher,
        parallel=ranks.expert > 1,
        tensor=ranks.expert_tensor > 1,
        grouped=bool(read.given("engine.moe_grouped_gemm")),
        permute_fusion=bool(read.given("engine.moe_permute_fusion")),
        router_fusion=bool(read.given("engine.moe_router_fusion")),
        balancing=str(read.take("engine.moe_router_load_balancing_type", "aux_loss")),
        pre_softmax=bool(read.given("engine.moe_router_pre_softmax")),
        padded=bool(read.given("engine.moe_pad_expert_input_to_capacity")),
        squared_relu_fusion=bool(read.given("engine.use_fused_weighted_squared_relu")),
    )


def _recompute(read: Defaults, ranks: Ranks) -> Recompute | None:
    path = "training.activation_checkpointing"
    policy = read.take(f"{path}.policy", "none")
    divided = bool(read.given("engine.distribute_saved_activations"))
    if divided and (policy != "full" or ranks.tensor == 1 or ranks.sequence):
        needs = "full recomputation and tensor parallelism without sequence parallelism"
        read.refuse("engine.distribute_saved_activations", f"found true; needs {needs}")
    for name in ("mode", "every", "use_reentrant", "entry"):
        if read.given(f"{path}.{name}") is not None:
            read.refuse(f"{path}.{name}", "is not Megatron's; allowed: method, num_layers, modules")
    if policy == "none":
        return None
    if policy == "full":
        method, layers = read.take(f"{path}.method", "uniform"), read.take(f"{path}.num_layers", 1)
        return Recompute(granularity="full", method=method, layers=layers, divided=divided)
    given = read.take(f"{path}.modules", "core_attn", "Megatron's default")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in MODULES:
            read.refuse(f"{path}.modules", f"found {name!r}; allowed: {', '.join(MODULES)}")
    return Recompute(granularity="selective", modules=frozenset(names))
