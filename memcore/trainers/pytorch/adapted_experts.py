"""What PEFT does to targets of models with routed experts.

With transformers 5 the experts' matrices are stacked, and routers are modules of their own: neither is an `nn.Linear`.
PEFT turns the names that they had in transformers 4, and `all-linear`, into parameters that get LoRA, by the family.

Source: peft/utils/transformers_weight_conversion.py (`_convert_peft_config_moe`, PEFT 0.21) and
transformers/conversion_mapping.py (`_MODEL_TO_CONVERSION_PATTERN`, 5.23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.config.defaults import Defaults
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import joined
from memcore.networks.adapters import ALL, around, linear_names
from memcore.networks.network import Model
from memcore.networks.separate_experts import experts_of
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.trainers.pytorch.transformers_releases import STARTS_NEW, before

_MIXTRAL = {"gate": "gate.weight", "w1": "gate_up_proj", "w3": "gate_up_proj", "w2": "down_proj"}
_QWEN = {
    "gate": "gate.weight",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "down_proj": "down_proj",
}
_LIKE_QWEN = (
    "afmoe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5_moe", "glm4_moe", "glm4_moe_lite",
    "glm_moe_dsa", "glm4v_moe", "longcat_flash", "solar_open", "mellum", "qwen3_moe", "qwen3_omni_moe",
    "qwen3_omni_moe_thinker", "qwen3_omni_moe_text", "qwen3_next", "hunyuan_v1_moe", "flex_olmo", "olmoe", "exaone_moe",
    "cohere2_moe",
)  # fmt: skip
CONVERTED: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("mixtral", "minimax", "minimax_m2"), _MIXTRAL),
    **dict.fromkeys(_LIKE_QWEN, _QWEN),
}
"""By the family: the names that matrices had in transformers 4, and the parameters that hold them now."""
_FUSED = "gate_up_proj"
"""What holds two matrices: its adapter has twice the rank."""


def names_of(value: object) -> Sequence[str]:
    """Return a name, or several."""
    return [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]


def converted(
    read: Defaults, model: Model, kind: str, targets: Sequence[str], parameters: Sequence[str]
) -> tuple[Sequence[str], Sequence[str], tuple[str, ...]]:
    """Linear layers and parameters that get LoRA, and the parameters whose adapters have twice the rank."""
    network, path = model.network, Training.adapter.target_modules
    table = CONVERTED.get(network.family, {})
    if (
        kind not in ("lora", "dora")
        or not list(experts_of(network))
        or layer_code(read) not in ("transformers", "liger")
    ):
        return targets, parameters, ()
    every = [each for each in linear_names(network) if each != around(network)[1]] if table and ALL in targets else ()
    named = {*targets, *every, *(table if ALL in targets else ())} - ({ALL} if every else set())
    fitting = [each for each in table if each in named]
    if before(read, STARTS_NEW) and (fitting or ALL in targets):
        message = (
            "transformers 4 has one nn.Linear per expert, for which adapters are not supported yet; name other modules"
        )
        raise UnsupportedError(path, message)
    if not fitting:
        return targets, parameters, ()
    halves = [each for each, holder in table.items() if holder == _FUSED]
    missing = [each for each in halves if each not in named]
    if 0 < len(missing) < len(halves):
        read.refuse(path, "{} holds {}; PEFT adapts both or neither", _FUSED, joined(" and ", halves))
    _refuse_at_experts(read, kind, path)
    found = dict.fromkeys((*parameters, *(table[each] for each in fitting)))
    if read.given(Training.adapter.target_parameters) is None:
        read.take(Training.adapter.target_parameters, ", ".join(found), "as PEFT 0.21 does with transformers 5")
    doubled = () if missing else (_FUSED,)
    return [each for each in (*targets, *every) if each in named and each not in table], [*found], doubled


def _refuse_at_experts(read: Defaults, kind: str, path: str) -> None:
    if kind != "lora" or bool(read.given(Training.adapter.dropout)):
        read.refuse(
            path, "includes routed experts, for which PEFT's lora.ParamWrapper supports only LoRA without dropout"
        )


def expert_targets(read: Defaults, model: Model, kind: str) -> Sequence[str]:
    """Return the stacked matrices of experts that get adapters (PEFT's `target_parameters`)."""
    path = Training.adapter.target_parameters
    names = [name.rpartition(".")[2] for name in names_of(read.given(path) or ())]
    if not names:
        return ()
    known = {matrix.rpartition(".")[2] for each in experts_of(model.network) for matrix in each.stacked}
    for unknown in [each for each in names if each not in known]:
        read.refuse(path, "found {!r}; expert matrices: {}", unknown, joined(", ", sorted(known)) or "none")
    _refuse_at_experts(read, kind, path)
    if layer_code(read) not in ("transformers", "liger"):  # Liger's kernels leave routed experts as they are
        raise UnsupportedError(path, "supported only with transformers' layers, found {!r}", layer_code(read))
    return names
