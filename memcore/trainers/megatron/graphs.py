"""CUDA graphs of a stage: which settings ask for them, and what their pool and their inputs take.

Sources: Megatron-LM, core/transformer/{transformer_config,cuda_graphs}.py and core/full_cuda_graph.py;
TransformerEngine, pytorch/graph.py; pytorch, c10/cuda/CUDACachingAllocator.cpp: a pool of graphs takes nothing from
other pools; what graphs have freed counts as free, and stays reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.config.defaults import Defaults
from memcore.config.schema import Setting
from memcore.messages import joined
from memcore.networks.parts import Experts as Routed
from memcore.records import dataclass
from memcore.trace.recipe import Recipe
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import Graphs, MegatronPlan, Recompute

MODULES = ("attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba")
"""What `cuda_graph_modules` may name."""

_IMPL, _WARM = MegatronSettings.cuda_graph_impl, MegatronSettings.cuda_graph_warmup_steps
_NAMES = (MegatronSettings.cuda_graph_modules, MegatronSettings.cuda_graph_scope)
"""The list under its name of today, and under that of before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """How a job captures its graphs."""

    impl: str
    """local, transformer_engine or full_iteration."""
    warm: int
    """Steps without graphs before."""
    graphs: Graphs


def capture_of(read: Defaults, recipe: Recipe) -> Capture | None:
    """Return what a job asks for; None: no graphs."""
    impl = str(read.given(_IMPL) or "none")
    names = _modules(read)
    if impl == "none":
        for path in (*_NAMES, _WARM):
            if read.given(path) is not None:
                read.refuse(path, "needs {}", _IMPL)
        return None
    if names == ["full_iteration"] and impl == "local":
        impl, names = "full_iteration", []
    names = [] if names in (["full"], ["full_iteration"]) else names
    for name in names:
        if name not in MODULES:
            read.refuse(_given(read), "found {!r}; allowed: {}", name, joined(", ", MODULES))
    _check(read, recipe, impl, names)
    graphs = Graphs(modules=frozenset(names), own_inputs=impl == "transformer_engine")
    return Capture(impl=impl, warm=read.take(_WARM, 3), graphs=graphs)


def _given(read: Defaults) -> Setting[str | list[str]]:
    return next((path for path in _NAMES if read.given(path) is not None), _NAMES[0])


def _modules(read: Defaults) -> list[str]:
    given: str | Sequence[str] | None = read.given(_given(read))
    return given.split(",") if isinstance(given, str) else list(given or ())


def _check(read: Defaults, recipe: Recipe, impl: str, names: Sequence[str]) -> None:
    """Contradictions of `TransformerConfig.__post_init__`."""
    plan = recipe.plan(MegatronPlan)
    recompute = (plan.recompute if plan is not None else None) or Recompute(granularity="none")
    path = _given(read)
    if impl == "full_iteration" and names:
        read.refuse(path, "found modules; a CUDA graph of the whole iteration takes no modules")
    if recompute.granularity == "full" and impl != "full_iteration":
        read.refuse(_IMPL, "found {!r} with full recomputation; allowed: {}", impl, "full_iteration")
    if "moe_preprocess" in names and "moe_router" not in names:
        read.refuse(path, "found 'moe_preprocess' without 'moe_router'")
    if "moe_router" in names and ("moe" in names or "moe" in recompute.modules):
        read.refuse(path, "found 'moe_router', but the whole MoE layer is captured or recomputed")
    experts = (
        plan.experts
        if plan is not None and any(isinstance(layer.feed_forward, Routed) for layer in recipe.network.kinds)
        else None
    )
    if experts is not None and not experts.padded and (not names or "moe" in names) and impl != "full_iteration":
        read.refuse(path, "CUDA graphs of whole MoE layers need engine.moe_pad_expert_input_to_capacity")
    if plan is not None and plan.offload is not None:
        read.refuse(_IMPL, "found {!r} with fine-grained activation offloading, which is not supported yet", impl)
    if recipe.network.embedding_and_head.start not in ("megatron-gpt", "megatron-hybrid"):
        read.refuse(_IMPL, "found {!r}; supported only for Megatron-Core's GPT and hybrid models", impl)
