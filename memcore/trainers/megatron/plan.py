"""What decides which tensors come and go, from the settings of a Megatron job; what is not supported is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings, release
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.network import Network
from memcore.networks.parts import Attention
from memcore.trainers.megatron.ranks import Ranks
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import Experts, MegatronPlan, Recompute
from memcore.trainers.pytorch.settings import TorchSettings

MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
"""What selective recomputation may name."""

_UNMODELLED: Mapping[Setting[Any], tuple[object, ...]] = {
    Training.adapter.type: ("lora",),
    Training.adapter.num_virtual_tokens: (),
    Training.adapter.init_r: (),
    Training.quantization: (),
    Training.compile: (False,),
    Training.compile_loss: (False,),
    Training.activation_memory_budget: (1,),
    Training.attention_mask: ("none",),
    Training.use_cache: (False,),
    Training.liger_kernels: (),
    Training.zero_grad: ("set-to-none",),
}
"""Settings with the values that are supported."""
_OF_TIME = (EngineSettings.delay_wgrad_compute, MegatronSettings.moe_shared_expert_overlap)
"""Settings that only say when something runs; how much longer tensors live for it is not predicted."""
_OVERLAPPED = (MegatronSettings.overlap_moe_expert_parallel_comm,)
"""Without interleaving it runs a forward and a backward pass side by side, node by node: 5 GiB more in the one run that
was measured (bridge-qwen3-30b-ep16-hybridep-overlap), of which it is not known what keeps them."""


def _context(read: Defaults, ranks: Ranks, network: Network) -> str | None:
    """Return how ranks with parts of a sequence exchange keys and values.

    Source: TransformerEngine 2.8, tests/pytorch/attention/test_attention_with_cp.py: without all-to-all no backend
    takes a `softmax_type` other than vanilla.
    """
    if ranks.context == 1:
        return None
    found = str(read.take(MegatronSettings.cp_comm_type, "p2p"))
    sinks = any(isinstance(each, Attention) and each.sinks for layer in network.kinds for each in layer.mixers)
    if sinks and found != "a2a":
        message = "found {!r}; TransformerEngine has no attention with learned sinks for it; allowed: {}"
        read.refuse(MegatronSettings.cp_comm_type, message, found, "a2a")
    return found


def plan_of(read: Defaults, ranks: Ranks, kernel: str, network: Network) -> MegatronPlan:
    """Return how the layers run.

    Raises UnsupportedError for what is not supported yet.
    """
    for path, allowed in _UNMODELLED.items():
        value = read.given(path)
        if value is not None and value not in allowed:
            also = Message("; allowed: {}", allowed[0]) if allowed else "; leave it out"
            raise UnsupportedError(path, "found {!r}, which is not supported yet with Megatron{}", value, also)
    one_chunk = (read.given(Parallelism.virtual_pipeline_parallel_size) or 1) == 1
    for path in filter(read.given, (*_OF_TIME, *(_OVERLAPPED if one_chunk else ()))):
        reason = "counted as off: longer tensor lifetimes are not supported yet"
        read.assumptions.append(Assumption(path, True, reason, notable=True))
    scaled = bool(read.given(MegatronSettings.apply_query_key_layer_scaling))
    return MegatronPlan(
        tensor=ranks.tensor > 1,
        sequence=ranks.sequence,
        keeps_head_dummy=not before(read, (0, 14)),
        keeps_exchanged=not before(read, (0, 14)),
        releases_outside_layers=before(read, (0, 18)) and not before(read, (0, 14)),
        context=_context(read, ranks, network),
        recompute=_recompute(read, ranks),
        fuses_weight_gradients=bool(read.take(MegatronSettings.gradient_accumulation_fusion, True)),
        loss=_loss(read),
        experts=_experts(read, ranks),
        fp8=_fp8(read),
        softmax_fp32=scaled or bool(read.given(MegatronSettings.attention_softmax_in_fp32)),
        softmax_fusion=not read.given(MegatronSettings.no_masked_softmax_fusion),
        activation_fusion=not read.given(MegatronSettings.no_bias_gelu_fusion),
        gate_fusion=not read.given(MegatronSettings.no_bias_swiglu_fusion),
        rope_fusion=not read.given(MegatronSettings.no_rope_fusion),
        deterministic=bool(read.given(MegatronSettings.deterministic_mode)),
        masked=not read.given(MegatronSettings.no_create_attention_mask_in_dataloader),
        defers_head_gradient=bool(read.given(MegatronSettings.defer_embedding_wgrad_compute)),
    )


def before(read: Defaults, change: tuple[int, int]) -> bool:
    """Return whether a config names a Megatron-Core before a change; TransformerEngine is the newest of its time."""
    named = release(read.given(EngineSettings.version) or "")
    return len(named) >= len(change) and named < change


def usual_kernel(read: Defaults, major: int | None, *, local: bool, windowed: bool) -> tuple[str, str]:
    """Return whose attention runs where a job leaves it open, and why; `major`: of the GPU's compute capability.

    TransformerEngine prefers cuDNN's kernel from Hopper on. With dropout that has no windows, and on Blackwell no
    deterministic backward pass. Source: dot_product_attention/utils.py (get_attention_backend), fused_attn.cpp.
    """
    if local:
        return "math", "Megatron-Core's own attention"
    dropped = bool(read.given(Training.dropout.attention))
    exact = bool(read.given(MegatronSettings.deterministic_mode))
    if major is None or major < 9 or (dropped and (windowed or (exact and major > 9))):
        return "flash", "TransformerEngine's usual choice"
    return "cudnn", "TransformerEngine's choice on Hopper and later"


_RECIPES = ("delayed", "tensorwise", "blockwise", "mxfp8")
_DISPATCHERS = ("allgather", "alltoall", "flex")
"""Words of `--fp8-recipe` and `--moe-token-dispatcher-type` (training/arguments.py)."""


def _fp8(read: Defaults) -> str | None:
    if read.given(Training.precision) != "fp8-mixed":
        for path in (MegatronSettings.fp8_format, MegatronSettings.fp8_param_gather):
            if read.given(path):
                read.refuse(path, "found {!r}; needs {}", read.given(path), "training.precision 'fp8-mixed'")
        return None
    recipe = str(read.take(EngineSettings.fp8_recipe, "delayed", "Megatron's default"))
    if recipe not in _RECIPES:
        read.refuse(EngineSettings.fp8_recipe, "found {!r}; with {}: {}", recipe, "Megatron", joined(", ", _RECIPES))
    return recipe


def _loss(read: Defaults) -> str:
    if not read.given(MegatronSettings.cross_entropy_loss_fusion):
        if read.given(MegatronSettings.cross_entropy_fusion_impl) == "te":
            read.refuse(
                MegatronSettings.cross_entropy_fusion_impl, "needs {}", MegatronSettings.cross_entropy_loss_fusion
            )
        return "unfused"
    return str(read.take(MegatronSettings.cross_entropy_fusion_impl, "native"))


def _experts(read: Defaults, ranks: Ranks) -> Experts:
    path = TorchSettings.moe_token_dispatcher
    dispatcher = str(read.take(path, "allgather"))
    if dispatcher not in _DISPATCHERS:
        read.refuse(path, "found {!r}; with {}: {}", dispatcher, "Megatron", joined(", ", _DISPATCHERS))
    if dispatcher == "flex":
        dispatcher = str(read.take(MegatronSettings.moe_flex_dispatcher_backend, "deepep"))
    return Experts(
        dispatcher=dispatcher,
        parallel=ranks.expert > 1,
        tensor=ranks.expert_tensor > 1,
        grouped=bool(read.given(MegatronSettings.moe_grouped_gemm)),
        permute_fusion=bool(read.given(MegatronSettings.moe_permute_fusion)),
        router_fusion=bool(read.given(MegatronSettings.moe_router_fusion)),
        balancing=str(read.take(MegatronSettings.moe_router_load_balancing_type, "aux_loss")),
        pre_softmax=bool(read.given(MegatronSettings.moe_router_pre_softmax)),
        padded=bool(read.given(MegatronSettings.moe_pad_expert_input_to_capacity)),
        squared_relu_fusion=bool(read.given(MegatronSettings.use_fused_weighted_squared_relu)),
    )


def _recompute(read: Defaults, ranks: Ranks) -> Recompute | None:
    policy = read.take(Training.activation_checkpointing.policy, "none")
    divided = bool(read.given(MegatronSettings.distribute_saved_activations))
    if divided and (policy != "full" or ranks.tensor == 1 or ranks.sequence):
        needs = "full recomputation and tensor parallelism without sequence parallelism"
        read.refuse(MegatronSettings.distribute_saved_activations, "found {}; needs {}", "true", needs)
    own = Training.activation_checkpointing
    for each in (own.mode, own.every, own.use_reentrant, own.entry):
        if read.given(each) is not None:
            read.refuse(each, "is not Megatron's; allowed: method, num_layers, modules")
    if policy == "none":
        return None
    if policy == "full":
        method, layers = (
            read.take(Training.activation_checkpointing.method, "uniform"),
            read.take(Training.activation_checkpointing.num_layers, 1),
        )
        return Recompute(granularity="full", method=method, layers=layers, divided=divided)
    for each in (own.method, own.num_layers):
        if read.given(each) is not None:
            read.refuse(
                each, "found {!r}; needs {}", read.given(each), "training.activation_checkpointing.policy 'full'"
            )
    given = read.take(Training.activation_checkpointing.modules, "core_attn", "Megatron's default")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in MODULES:
            read.refuse(
                Training.activation_checkpointing.modules, "found {!r}; allowed: {}", name, joined(", ", MODULES)
            )
    return Recompute(granularity="selective", modules=frozenset(names))
