"""NeMo 2's command line, `nemo llm finetune|pretrain`: the recipe of a model, and what a job overrides of it.

Source: NVIDIA/NeMo 2.6, collections/llm/recipes/, lightning/pytorch/strategies/megatron_strategy.py (the arguments of
`MegatronStrategy`); NeMo-Run, run/cli/cli_parser.py (values are Python's literals).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pkgutil import get_data
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.networks.catalog import full_name
from memcore.tools.derived import gpus_of
from memcore.trainers.megatron.bridge_files import placed as in_sections

ADAPTED = {"lora": "lora", "dora": "dora"}
_LINEAR = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]
_NODE, _RANK = 8, 32
_STRATEGY = frozenset((
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
    "context_parallel_size", "sequence_parallel", "expert_model_parallel_size", "expert_tensor_parallel_size",
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
))  # fmt: skip
"""Fields that the strategy has, and not the model's config."""
_RECIPES: Mapping[str, Any] = {
    **{f"trainer.strategy.{name}": 1 for name in sorted(_STRATEGY) if name.endswith("_size")},
    **{f"trainer.strategy.{name}": False for name in sorted(_STRATEGY) if not name.endswith("_size")},
    "trainer.strategy.virtual_pipeline_model_parallel_size": None,
    "trainer.strategy.num_layers_in_first_pipeline_stage": None,
    "trainer.strategy.num_layers_in_last_pipeline_stage": None,
    "trainer.strategy.ddp.overlap_grad_reduce": False, "trainer.strategy.ddp.overlap_param_gather": False,
    "trainer.strategy.ddp.use_distributed_optimizer": None, "trainer.strategy.fsdp": None,
    "trainer.plugins.grad_reduce_in_fp32": True, "trainer.plugins.fp8": None,
    "model.config.cross_entropy_loss_fusion": False, "model.config.tp_comm_overlap": False,
    "model.config.recompute_granularity": None, "model.config.recompute_method": None,
    "model.config.recompute_num_layers": None, "model.config.recompute_modules": None,
    "optim.config.use_distributed_optimizer": False, "optim.config.use_precision_aware_optimizer": False,
    "optim.config.main_grads_dtype": "torch.float32", "optim.config.main_params_dtype": "torch.float32",
    "optim.config.exp_avg_dtype": "torch.float32", "optim.config.exp_avg_sq_dtype": "torch.float32",
}  # fmt: skip
"""What recipes set, and the values that say nothing of it."""
_ALWAYS = (
    "trainer.strategy.ddp.overlap_grad_reduce", "trainer.strategy.ddp.overlap_param_gather",
    "model.config.cross_entropy_loss_fusion", "optim.config.use_distributed_optimizer",
)  # fmt: skip
"""What is on where neither a recipe nor a command says it."""
CALLBACKS = "trainer.callbacks"


def placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron-LM's words as keys of a recipe; those that would make another network of it are left out."""
    keys: dict[str, Any] = {}
    for name, value in in_sections(words).items():
        section, _, field = name.partition(".")
        last = field.removesuffix("._target_")
        if field.endswith("._call_") or name.startswith("*"):
            continue
        if last in ("micro_batch_size", "global_batch_size"):
            keys[f"data.{last}"] = value
        elif last == "use_megatron_fsdp":
            keys |= {"trainer.strategy.fsdp": "megatron"} if value else {}
        elif last == "grad_reduce_in_fp32":
            keys["trainer.plugins.grad_reduce_in_fp32"] = value
        elif section in _SECTIONS:
            sections = _SECTIONS.values() if last in _OF_BOTH else [_SECTIONS[section]]
            keys |= {f"{start}{last}": value for start in sections}
        elif section == "model":
            keys[f"{'trainer.strategy.' if last in _STRATEGY else 'model.config.'}{last}"] = value
    return {name: value for name, value in keys.items() if not name.startswith("model.config.") or _runs(name)}


_SECTIONS: Mapping[str, str] = {"ddp": "trainer.strategy.ddp.", "optimizer": "optim.config."}
_OF_BOTH = ("use_distributed_optimizer",)
OF_MODEL = (
    "recompute_", "cross_entropy_", "mtp_loss", "attention_backend", "seq_length", "tp_comm", "moe_permute",
    "moe_token_dispatcher", "moe_grouped", "cpu_offloading", "gradient_accumulation", "apply_rope", "masked_softmax",
    "bias_", "enable_cuda_graph", "external_cuda", "fp8", "deallocate", "hidden_dropout", "attention_dropout",
    "mtp_num_layers", "use_te_rng", "distribute_saved", "make_vocab",
)  # fmt: skip
"""Fields of a model's config that say how it is run; others make another network of it."""


def _runs(name: str) -> bool:
    return name.removeprefix("model.config.").startswith(OF_MODEL)


@lru_cache(maxsize=1)
def recipes() -> Mapping[str, Any]:
    """Return what each recipe sets, by name; what most of them share is under the empty one."""
    found: Mapping[str, Any] = json.loads(get_data("memcore", "data/nemo.json") or b"{}")
    return found


@lru_cache(maxsize=1)
def _by_model() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, row in recipes().items():
        if name and "hub" in row:
            found.setdefault(full_name(row["hub"]), name)
    return found


def recipe_of(config: Config) -> tuple[str, str] | None:
    """Return the recipe of a config's model, and which of its kinds the job is; None for a model without one."""
    name = _by_model().get(full_name(config.model)) if isinstance(config.model, str) else None
    row = recipes().get(name or "-", {})
    whole = "pretrain" if "pretrain" in row else "none"
    variant = "lora" if config.get(Training.adapter.type) in ADAPTED else whole
    return (name, variant) if name is not None and variant in row else None


def written(config: Config) -> dict[str, Any]:
    """Return the recipe of a config's model, and what the job overrides of its trainer, data and adapter."""
    found = recipe_of(config)
    if found is None:
        return {}
    (name, variant), given = found, config.get
    kind = given(Training.adapter.type)
    scheme = {"lora": f'(peft_scheme="{kind}")', "none": '(peft_scheme="none")'}.get(variant, "")
    gpus, most = gpus_of(config) or 1, given(Hardware.gpus_per_node) or _NODE
    node = max(size for size in range(1, min(most, gpus) + 1) if gpus % size == 0)
    return {
        "*architecture": "pretrain" if variant == "pretrain" else None,
        "--factory": f"{name}{scheme}",
        "-y": True,
        "trainer.devices": node,
        "trainer.num_nodes": gpus // node,
        **_data(config),
        **_adapter(config),
        **_precision(config),
        **({CALLBACKS: None} if "overlap.tp_comm_overlap" in recipes()[name][variant] else {}),
    }


def otherwise(config: Config) -> dict[str, Any]:
    """Return what a recipe sets, as it is where a job says nothing of it."""
    found = recipe_of(config)
    if found is None:
        return {}
    name, variant = found
    said = {*recipes()[""][variant], *recipes()[name][variant], *_ALWAYS}
    return {key: value for key, value in _RECIPES.items() if key in said}


def _data(config: Config) -> dict[str, Any]:
    length = config[Training.sequence_length]
    if not length:
        return {}
    packed = {"data.packed_sequence_specs.packed_sequence_size": length} if config[Training.packed_sequences] else {}
    return {"data.seq_length": length, "model.config.seq_length": length, **packed}


def _adapter(config: Config) -> dict[str, Any]:
    if config[Training.adapter.type] not in ADAPTED:
        return {}
    targets = config[Training.adapter.target_modules]
    return {
        "peft.dim": config[Training.adapter.rank] or _RANK,
        "peft.dropout": config[Training.adapter.dropout] or 0.0,
        "peft.target_modules": targets if isinstance(targets, list) else _LINEAR,
    }


def _precision(config: Config) -> dict[str, Any]:
    if config[Training.precision] != "fp8-mixed":
        return {}
    start = "trainer.plugins."
    return {
        f"{start}fp8": "hybrid", f"{start}fp8_recipe": config[EngineSettings.fp8_recipe] or "delayed",
        f"{start}fp8_param_gather": True,
    }  # fmt: skip
