"""Which modules offload what they keep, from the settings; contradictions are those of `TransformerConfig`.

Source: Megatron-LM, core/transformer/transformer_config.py (`__post_init__`) and training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.defaults import Defaults
from memcore.messages import joined
from memcore.trace.recipe import Recipe
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan, Offload, Recompute

OFFLOADED = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act")
"""What `offload_modules` may name."""

_SWITCH, _NAMES = MegatronSettings.fine_grained_activation_offloading, MegatronSettings.offload_modules
_LEAST = MegatronSettings.min_offloaded_tensor_size
_OF_EXPERTS = frozenset(("expert_fc1", "moe_act"))


def offload_of(read: Defaults, recipe: Recipe, sizes: Mapping[str, int]) -> Offload | None:
    """Return what goes to the host; None: nothing."""
    if not read.given(_SWITCH):
        for setting in (_NAMES, _LEAST):
            if read.given(setting) is not None:
                read.refuse(setting, "needs {}", _SWITCH)
        return None
    names = _names(read)
    least = read.take(_LEAST, 1024 * 1024)
    _check(read, recipe, names)
    return Offload(modules=names, least=least, sizes=tuple(sorted(sizes.items())))


def _names(read: Defaults) -> frozenset[str]:
    given = read.given(_NAMES)
    names = [given] if isinstance(given, str) else list(given or ())
    for name in names or ("none",):
        if name not in OFFLOADED:
            read.refuse(_NAMES, "found {!r}; allowed: {}", name, joined(", ", OFFLOADED))
    if "attn_proj" in names and "core_attn" not in names:
        read.refuse(_NAMES, "found 'attn_proj' without 'core_attn', whose result it takes")
    return frozenset(names)


def _check(read: Defaults, recipe: Recipe, names: frozenset[str]) -> None:
    plan = recipe.plan(MegatronPlan)
    found = None if plan is None else plan.recompute
    recompute = found or Recompute(granularity="none")
    if recipe.network.embedding_and_head.start not in ("megatron-gpt", "megatron-hybrid"):
        read.refuse(_SWITCH, "found {}; Megatron-Core supports it in GPT and hybrid models, not in BERT and T5", "true")
    if recipe.implementation != "transformer-engine":
        needed = "training.implementation 'transformer-engine'"
        read.refuse(_SWITCH, "found {}; needs {}, not {!r}", "true", needed, recipe.implementation)
    if recompute.granularity == "full":
        read.refuse(_SWITCH, "found {}; full recomputation keeps no activations inside a layer", "true")
    if read.given(MegatronSettings.use_transformer_engine_op_fuser) and _OF_EXPERTS & names:
        read.refuse(_NAMES, "found expert modules that engine.use_transformer_engine_op_fuser merges into one")
    if "moe" in recompute.modules and _OF_EXPERTS & names:
        read.refuse(_NAMES, "found expert modules that training.activation_checkpointing recomputes as a whole")
