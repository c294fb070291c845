"""Megatron-LM's YAML (`--yaml-cfg`): its arguments in sections, by the names of Megatron-Core's configs.

Source: Megatron-LM, megatron/training/yaml_arguments.py (`core_transformer_config_from_yaml`), examples/gpt3/
gpt_config.yaml; megatron/training/arguments.py (`core_transformer_config_from_args`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.formats.normalized import Normalized
from memcore.tools.vocabulary import is_flag
from memcore.trainers.megatron.files import MEGATRON, arguments

_RENAMED: Mapping[str, str] = {
    "num_moe_experts": "num_experts", "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "layernorm_zero_centered_gamma": "apply_layernorm_1p", "fp8": "fp8_format",
}  # fmt: skip
"""Fields of configs by the names of arguments."""
_ON: Mapping[str, str] = {
    "add_bias_linear": "--disable-bias-linear", "bias_swiglu_fusion": "--no-bias-swiglu-fusion",
    "masked_softmax_fusion": "--no-masked-softmax-fusion", "apply_rope_fusion": "--no-rope-fusion",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "bias_dropout_fusion": "--no-bias-dropout-fusion",
}  # fmt: skip
"""Switches that are on, and the flags that turn them off."""
_ACTIVATIONS: Mapping[object, str] = {"swiglu": "--swiglu", "squaredrelu": "--squared-relu"}
_INSIDE = frozenset({
    "activation_func", "apply_residual_connection_post_layernorm", "async_tensor_model_parallel_allreduce",
    "barrier_with_L1_time", "batch_p2p_comm", "batch_p2p_sync", "bert_binary_head", "bias_activation_fusion",
    "clone_scatter_output_in_embedding", "cpu_offloading_activations", "fp8_wgrad", "layernorm_epsilon",
    "perform_initialization", "scatter_gather_tensors_in_pipeline", "check_for_nan_in_loss_and_grad",
    "align_grad_reduce", "enable_one_logger",
})  # fmt: skip
"""Fields that no argument sets, which are on where nothing is said, and checks and logs of the same kind."""
_OFF = (None, False, "", 0, "null")


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """The file's keys as flags; a key that no flag has keeps its name."""
    flags: dict[str, Any] = {"": "pretrain_gpt.py"}
    for key, value in found.items():
        name = key.rpartition(".")[2]
        flag = f"--{_RENAMED.get(name, name).replace('_', '-')}"
        if name == "activation_func" and value in _ACTIVATIONS:
            flags[_ACTIVATIONS[value]] = True
        elif name in _ON:
            flags |= {_ON[name]: True} if value is False else {}
        elif key.startswith("*") or (value not in _OFF and name not in _INSIDE and not name.startswith("tp_comm_")):
            flags[flag if is_flag(MEGATRON.vocabulary, flag) else key] = value
        elif value == 0 and not isinstance(value, bool) and name.endswith("dropout"):
            flags[flag] = 0.0
    return arguments(flags)


MEGATRON_YAML = replace(
    MEGATRON,
    name="megatron-yaml",
    family="megatron",
    title="Megatron-LM's YAML",
    syntax="yaml",
    program="",
    launch="",
    scripts={},
    prefixes=(),
    tells=("language_model.num_layers", "model_parallel.tensor_model_parallel_size"),
    normalized=_normalized,
    read_only=True,
    source="Megatron-LM, megatron/training/yaml_arguments.py",
)

TOOLS = (MEGATRON_YAML,)
