"""Megatron-LM's YAML (`--yaml-cfg`): its arguments in sections, by the names of Megatron-Core's configs.

Source: Megatron-LM, megatron/training/yaml_arguments.py (`core_transformer_config_from_yaml`), examples/gpt3/
gpt_config.yaml; megatron/training/arguments.py (`core_transformer_config_from_args`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key
from memcore.tools.vocabulary import is_flag
from memcore.trainers.megatron.files import MEGATRON, arguments
from memcore.trainers.megatron.networks.described import described, numbers

_RENAMED: Mapping[str, str] = {
    "num_moe_experts": "num_experts", "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
    "layernorm_zero_centered_gamma": "apply_layernorm_1p", "fp8": "fp8_format",
    "microbatch_group_size_per_vp_stage": "microbatch_group_size_per_virtual_pipeline_stage",
    "overlap_p2p_comm_warmup_flush": "overlap_p2p_communication_warmup_flush",
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
_GROUPED = "--group-query-attention"
_OFF = (None, False, "", 0, "null")


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return the file's keys as flags; a key that no flag has keeps its name."""
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
    if "--num-query-groups" in flags:  # a field of its config, which has no switch for it
        flags[_GROUPED] = True
    return arguments(flags)


_PARALLEL_NAMES = (
    "bf16 fp16 tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size sequence_parallel "
    "virtual_pipeline_model_parallel_size expert_model_parallel_size expert_tensor_parallel_size deterministic_mode "
    "gradient_accumulation_fusion cross_entropy_loss_fusion cross_entropy_fusion_impl tp_comm_overlap "
    "overlap_moe_expert_parallel_comm overlap_p2p_comm_warmup_flush microbatch_group_size_per_vp_stage "
    "delay_wgrad_compute defer_embedding_wgrad_compute wgrad_deferral_limit"
)
_PARALLEL = frozenset(_PARALLEL_NAMES.split())
"""Fields of ModelParallelConfig (megatron/core/model_parallel_config.py, Megatron-Core 0.16)."""
_TOP_NAMES = (
    "micro_batch_size global_batch_size seq_length max_position_embeddings vocab_size make_vocab_size_divisible_by "
    "position_embedding_type rotary_percent optimizer optimizer_cpu_offload optimizer_offload_fraction "
    "use_precision_aware_optimizer main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype clip_grad "
    "use_distributed_optimizer overlap_grad_reduce overlap_param_gather fp8_param_gather use_megatron_fsdp "
    "overlap_param_gather_with_optimizer_step num_distributed_optimizer_instances data_parallel_sharding_strategy "
    "outer_dp_sharding_strategy accumulate_allreduce_grads_in_fp32 grad_reduce_in_bf16 "
    "untie_embeddings_and_output_weights spec"
)
_TOP = frozenset(_TOP_NAMES.split())
"""Arguments that stand above the sections, as none of the two configs has them."""
_FIELDS = {argument: field for field, argument in _RENAMED.items()}
_SWITCHES = {flag: field for field, flag in reversed([*_ON.items()])}
_FUNCTIONS = {flag: name for name, flag in _ACTIVATIONS.items()}


def _placed(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron-LM's flags in the sections of its YAML."""
    keys: dict[str, Any] = {}
    for flag, value in flags.items():
        plain = flag.removeprefix("--").replace("-", "_")
        name = _FIELDS.get(plain, plain)
        if flag == _GROUPED or flag.startswith("*"):
            continue
        if flag in _FUNCTIONS:
            keys |= {"language_model.activation_func": _FUNCTIONS[flag]} if value else {}
        elif flag in _SWITCHES:
            keys[f"{_section(_SWITCHES[flag])}{_SWITCHES[flag]}"] = not value
        else:
            keys[f"{_section(name)}{name}"] = value
    return keys


def _section(name: str) -> str:
    return "" if name in _TOP else "model_parallel." if name in _PARALLEL else "language_model."


_NUMBERS: Mapping[str, str] = {"norm_epsilon": "language_model.layernorm_epsilon", "rotary_base": "rotary_base"}


def _beside(config: Config) -> dict[str, Any]:
    """Numbers of a model by name that change no size."""
    given = numbers(config) if described(config) is not None else {}
    return {_NUMBERS[name]: value for name, value in given.items() if name in _NUMBERS}


MEGATRON_YAML = replace(
    MEGATRON,
    name="megatron-yaml",
    family="megatron",
    title="Megatron-LM's YAML",
    syntax="yaml",
    program="",
    launch="torchrun --nproc_per_node {each} --nnodes {nodes} pretrain_gpt.py --yaml-cfg {file}",
    scripts={},
    prefixes=(),
    tells=("language_model.num_layers", "model_parallel.tensor_model_parallel_size"),
    normalized=_normalized,
    keys=(
        *(each for each in MEGATRON.keys if each.path != Hardware.gpus_per_node),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    world=(),
    alongside={"--fp8-format": ("--bf16", True)},
    always={"--tensor-model-parallel-size": 1},
    placed=_placed,
    written=_beside,
    source="Megatron-LM, megatron/training/yaml_arguments.py",
)

TOOLS = (MEGATRON_YAML,)
