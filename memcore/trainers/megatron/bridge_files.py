"""Megatron Bridge's `run_config.yaml`, and its recipes: modules whose functions make such configs.

Source: Megatron Bridge of August 2026, training/config.py (`ConfigContainer`), training/mixed_precision.py,
recipes/common.py, models/gpt_provider.py, peft/lora.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.builders import FUNCTION, ON, built
from memcore.formats.normalized import GPUS, MODEL, Normalized
from memcore.formats.readers import flat
from memcore.formats.shell import OUTSIDE
from memcore.formats.tool import Key, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import catalog, full_name, known
from memcore.trainers.megatron.networks.adapted import USUAL
from memcore.trainers.megatron.networks.described import of_all
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.swift import ADAPTED, ADAPTER, ARGUMENTS, DROPOUT, MEGATRON_SWIFT, RANK, TARGETS

TELLS = "ConfigContainer"
_SECTIONS = ("model", "ddp", "optimizer", "train")
_FRAMEWORK, _PRECISION, _LENGTH, _RECIPE, _REDUCED = "*framework", "*precision", "*length", "*fp8_recipe", "*reduced"
_PRESETS: Mapping[str, str | None] = {
    "bf16_mixed": None, "bf16_with_fp8_delayed_scaling_mixed": "delayed",
    "bf16_with_fp8_current_scaling_mixed": "tensorwise", "bf16_with_mxfp8_mixed": "mxfp8",
    "bf16_with_fp8_subchannel_scaling_mixed": "blockwise",
}  # fmt: skip
"""Presets of precision and their recipes of FP8 (training/mixed_precision.py)."""
_NAMES = (
    "num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups kv_channels normalization vocab_size "
    "position_embedding_type rotary_percent make_vocab_size_divisible_by moe_ffn_hidden_size moe_layer_freq "
    "moe_router_topk moe_router_dtype moe_router_score_function moe_shared_expert_intermediate_size kv_lora_rank "
    "q_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim mtp_num_layers add_qkv_bias qk_layernorm "
    "multi_latent_attention moe_router_enable_expert_bias num_experts disable_bias_linear swiglu "
    "untie_embeddings_and_output_weights apply_layernorm_1p max_position_embeddings"
)
_DIMENSIONS: Mapping[str, str] = {name: name for name in _NAMES.split()}
_RENAMED: Mapping[str, str] = {
    "num_moe_experts": "num_experts", "seq_length": "max_position_embeddings", "gated_linear_unit": "swiglu",
    "layernorm_zero_centered_gamma": "apply_layernorm_1p",
    "microbatch_group_size_per_vp_stage": "microbatch_group_size_per_virtual_pipeline_stage",
    "overlap_p2p_comm_warmup_flush": "overlap_p2p_communication_warmup_flush",
}  # fmt: skip
_REVERSED: Mapping[str, str] = {
    "add_bias_linear": "disable_bias_linear",
    "share_embeddings_and_output_weights": "untie_embeddings_and_output_weights",
}
"""Fields of the model's provider that arguments say the other way round."""
_PROGRAM = "run_recipe.py"
_ADAPTERS: Mapping[str, str] = {"peft": "LoRA", "lora": "LoRA", "dora": "DoRA"}
_DTYPES: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "fp8"}
_HUB = "from_hf_pretrained"
_COMMON: Mapping[str, Mapping[str, Any]] = {
    "_pretrain_common": {"train.micro_batch_size": 2, "train.global_batch_size": 32, "dataset.seq_length": 4096},
    "_sft_common_vlm": {"train.micro_batch_size": 1, "dataset.seq_length": 4096},
    "_peft_common_vlm": {"train.micro_batch_size": 1, "dataset.seq_length": 4096},
    "_sft_common": {"train.micro_batch_size": 1, "train.global_batch_size": 128, "dataset.seq_length": 2048},
    "_peft_common": {"train.micro_batch_size": 1, "train.global_batch_size": 128, "dataset.seq_length": 2048},
}
"""What recipes start from (recipes/common.py)."""
_MODULE = "*module"
"""The key of the function of a module that makes a config."""


def configs(code: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each recipe of a module by its function's name, with the keys of a `run_config.yaml`."""
    for name, config in built(code).items():
        model = config.get("model")
        if name.startswith("_") or not isinstance(model, dict):
            continue
        made = model.pop(ON, {})
        hub = made.get("0") if isinstance(made, dict) and str(made.get(FUNCTION)).endswith(_HUB) else None
        keys = {key: value for key, value in flat(config).items() if not key.endswith(FUNCTION)}
        base = str(config.get(FUNCTION, ""))
        if "_peft" in base or isinstance(config.get("peft"), dict):
            keys.setdefault("peft.dim", 32)
        open_ones = next((row for start, row in _COMMON.items() if base.startswith(start)), {})
        yield name, {_MODULE: name, **open_ones, **keys, **({MODEL: hub} if hub else {})}


_LENGTH_IN_NAME = re.compile(r"_(\d{1,4})k(?:_|$)")
"""Thousands of tokens in a recipe's name, as in `qwen3_600m_sft_yarn_128k_config`."""
_RECIPE_NAME = re.compile(r"^(.+?)(?:_fsdp)?_(pretrain|sft|peft|lora|dora)(?:_.*)?(?:_config)?$")
"""A recipe's function: the model, and what it starts from (recipes/common.py)."""
_SHORT: Mapping[str, str] = {
    "ms": "train.train_iters", "gb": "train.global_batch_size", "mb": "train.micro_batch_size",
    "sl": "dataset.seq_length", "tp": "model.tensor_model_parallel_size", "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size", "vp": "model.virtual_pipeline_model_parallel_size",
    "ep": "model.expert_model_parallel_size", "etp": "model.expert_tensor_parallel_size",
}  # fmt: skip
"""Options of scripts/training/run_recipe.py, which override keys of the recipe."""
_LONG: Mapping[str, str] = {each.rpartition(".")[2]: each for each in _SHORT.values()}


def _of_hub(model: str) -> str:
    """Return the hub's spelling of a model that a recipe is called after: `qwen35_vl_35b_a3b` is Qwen3.5-35B-A3B."""
    plain = re.sub(r"-(\d)00m\b", r"-0.\1b", model.replace("_", "-"))
    pointed = re.sub(r"(?<=[a-z])(\d)(\d)(?=-)", r"\1.\2", plain)
    spelled = [each for name in (plain, pointed) for each in (name, name.replace("-vl-", "-"))]
    return next((each for each in spelled if known(each)), plain)


_SIZES = re.compile(r"(?<!\d)\d+b(?:-a\d+b)?", re.IGNORECASE)


def _of_one_size(name: str) -> str:
    """Return the shortest hub id with a name in it, where all that have it are of one size; else the name."""
    found = sorted((each for each in catalog() if f"-{name}-" in each.lower()), key=len)
    sizes = {tuple(_SIZES.findall(each.lower().partition(name)[2])) for each in found}
    return found[0] if len(sizes) == 1 and name.count("-") > 1 else name


def _recipe(found: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what a command of run_recipe.py overrides, on what the recipe's name says; other configs as they are."""
    said = next((found[name] for name in ("recipe", "model") if isinstance(found.get(name), str)), None)
    if said is None or _PROGRAM not in str(found.get("", "")):
        return dict(found), ()
    named = _RECIPE_NAME.match(said)
    model, mode = (named[1], named[2]) if named else (said, "pretrain")
    mode = str(found.get("mode", mode))
    base = "_peft_common" if mode in _ADAPTERS else f"_{mode}_common"
    plain = {_MODULE: said, MODEL: model if OUTSIDE.search(model) else _of_hub(model), **_COMMON.get(base, {})}
    long = _LENGTH_IN_NAME.search(said)
    plain |= {_DATA_LENGTH: int(long[1]) * 1024} if long else {}
    plain |= (
        {"peft.dim": 32, "peft._target_": f"megatron.bridge.peft.lora.{_ADAPTERS[mode]}"} if mode in _ADAPTERS else {}
    )
    for name, value in found.items():
        listed = isinstance(value, str) and re.fullmatch(r"\[[\w.,\s]*\]", value)
        plain[{**_SHORT, **_LONG}.get(name, name)] = re.findall(r"[\w.]+", value) if listed else value
    for name in ("recipe", "model", "mode", "step_func", "step-func", "dataset", ""):
        plain.pop(name, None)
    unknown = Message("{}: the recipe's own settings are unknown; memcore read only what the command overrides", said)
    return plain, (unknown, *_own_length(found))


_MODEL_LENGTH, _DATA_LENGTH = "model.seq_length", "dataset.seq_length"


def _own_length(found: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return a note on the model's length, which the program sets to that of the recipe's dataset.

    Source: Megatron Bridge 0.7, scripts/training/recipe_runner.py (`sync_model_dataset_sequence_length`).
    """
    given = {_DATA_LENGTH, "dataset.sequence_length", "seq_length", "sl"} & found.keys()
    if _MODEL_LENGTH not in found or given:
        return ()
    said = "{}: {} has no effect, as the dataset of the recipe keeps its own length; set {}"
    return (Message(said, _MODEL_LENGTH, found[_MODEL_LENGTH], _DATA_LENGTH),)


def of_bridge(found: Mapping[str, Any]) -> Normalized:
    """Return a config of Megatron Bridge in Megatron-LM's words."""
    found, notes = _recipe(found)
    plain: dict[str, Any] = {_FRAMEWORK: "megatron-bridge"}
    for name, value in found.items():
        key = name.removesuffix("._target_") if str(value).startswith("torch.") else name
        section, _, last = key.partition(".")
        said = _argument(last, value) if section in _SECTIONS and "." not in last else {}
        plain |= said if said.keys() <= _KNOWN and said else {key: value}
    _idle(plain)
    _precision(plain)
    plain[_LENGTH] = plain.pop("dataset.seq_length", plain.pop("dataset.sequence_length", None))
    plain.setdefault(MODEL, plain.pop("model.hf_model_id", None))
    trained, named = found.get(_PRETRAINED), plain[MODEL]
    short = notes and isinstance(named, str) and not known(named)  # a recipe's name may leave out the size
    if isinstance(trained, str) and "hidden_size" not in plain:
        folder = trained.rstrip("/").rpartition("/")[2]
        plain[MODEL] = trained if not named or (short and known(folder)) else named
        spelled = _of_hub(folder)
        if plain[MODEL] == trained and not known(folder) and known(spelled):
            plain[MODEL] = spelled
            notes = (*notes, Message("{} is assumed to be {}, from the folder's name", trained, spelled))
    if notes and isinstance(plain[MODEL], str) and not known(plain[MODEL]):
        plain[MODEL] = _of_one_size(plain[MODEL])
    _adapter(plain)
    if plain[MODEL]:
        plain = {name: value for name, value in plain.items() if name not in _DIMENSIONS}
    kept = {name: value for name, value in plain.items() if value is not None and value != "none"}
    return kept, notes


_PRETRAINED = "checkpoint.pretrained_checkpoint"
"""A folder that is called after the model, where the recipe's code makes the network."""


def _idle(plain: dict[str, Any]) -> None:
    """Leave out what says how something is done that is not done."""
    if plain.get("use_megatron_fsdp") is not True:
        plain.pop("data_parallel_sharding_strategy", None)
    if plain.get("cuda_graph_impl") in (None, "none"):
        for name in [name for name in plain if name.startswith("cuda_graph_")]:
            del plain[name]
    if not plain.get("recompute_granularity"):
        for name in [name for name in plain if name.startswith("recompute_")]:
            del plain[name]
    if plain.get("fine_grained_activation_offloading") is not True:
        plain.pop("offload_modules", None)


def _argument(name: str, value: Any) -> dict[str, Any]:
    """Return a field of a section as Megatron-LM's argument."""
    if name == "clip_grad":
        return {} if value else {name: 0}
    if name in _REVERSED:
        return {_REVERSED[name]: value is False}
    if name == "grad_reduce_in_fp32":
        return {_REDUCED: value is False}
    if isinstance(value, str) and name.endswith("_dtype"):
        value = _DTYPES.get(value.lstrip("$").rpartition(".")[2], value)
    return {_RENAMED.get(name, name): value}


_PRECISE = {
    f"mixed_precision.{setting.rpartition('.')[2]}": setting
    for setting in (
        MegatronSettings.first_last_layers_bf16,
        MegatronSettings.num_layers_at_start_in_bf16,
        MegatronSettings.num_layers_at_end_in_bf16,
    )
}
"""Which layers stay in bf16."""


def _precision(plain: dict[str, Any]) -> None:
    """A preset's name, or its fields."""
    said = plain.pop("mixed_precision", "bf16_mixed")
    recipe = plain.pop("mixed_precision.fp8_recipe", None) if plain.get("mixed_precision.fp8") else None
    if isinstance(said, str) and not said.startswith("$"):
        if said not in _PRESETS:
            message = Message("supported: {}", joined(", ", _PRESETS))
            raise UnsupportedError("mixed_precision", "found {!r}; {}", said, message)
        recipe = _PRESETS[said] or recipe
    if plain.pop("mixed_precision.grad_reduce_in_fp32", True) is False:
        plain[_REDUCED] = True
    plain[_PRECISION], plain[_RECIPE] = ("fp8-mixed" if recipe else "bf16-mixed"), recipe
    for name in [name for name in plain if name.startswith("mixed_precision.")]:
        value = plain.pop(name)
        if name in _PRECISE:
            plain[name] = value


def _adapter(plain: dict[str, Any]) -> None:
    """LoRA on the four kinds of linear layers."""
    given = {name.partition(".")[2]: plain.pop(name) for name in [*plain] if name.startswith("peft.")}
    if plain.pop("peft", None) is None and not given:
        return
    kind = str(given.get("_target_", "LoRA")).rpartition(".")[2]
    if kind not in ("LoRA", "DoRA"):
        raise UnsupportedError("peft._target_", "found {!r}; {}", kind, "supported: LoRA, DoRA")
    targets = given.get("target_modules")
    if isinstance(targets, list) and set(targets) != {*USUAL}:
        raise UnsupportedError.of_value("peft.target_modules", targets, "adapters on all linear layers "
                               "are supported")  # fmt: skip
    plain |= {ADAPTER: kind.lower(), RANK: given.get("dim", 32), TARGETS: of_all(plain[MODEL], USUAL),
              DROPOUT: given.get("dropout", 0.0)}  # fmt: skip


_OF_DDP_NAMES = (
    "use_distributed_optimizer overlap_grad_reduce overlap_param_gather fp8_param_gather use_megatron_fsdp "
    "num_distributed_optimizer_instances data_parallel_sharding_strategy outer_dp_sharding_strategy"
)
_OF_DDP = frozenset(_OF_DDP_NAMES.split())
_OF_OPTIMIZER_NAMES = (
    "optimizer optimizer_offload_fraction optimizer_cpu_offload use_precision_aware_optimizer main_grads_dtype "
    "main_params_dtype exp_avg_dtype exp_avg_sq_dtype overlap_param_gather_with_optimizer_step clip_grad"
)
_OF_OPTIMIZER = frozenset(_OF_OPTIMIZER_NAMES.split())
_OF_TRAIN = frozenset(("micro_batch_size", "global_batch_size"))
"""Sections of fields that are not the model's: DistributedDataParallelConfig and OptimizerConfig of Megatron-Core 0.16,
TrainingConfig of Megatron Bridge 0.3."""
_APART = (
    "lora_rank", "lora_dropout", "target_modules", "fp8_recipe", "fp8_format", MODEL,
    "torch_dtype", "packing", "tuner_type", "freeze_vit", "freeze_aligner", "accumulate_allreduce_grads_in_fp32",
)  # fmt: skip
"""Words that `_written` has sections for, or presets, and ms-swift's own."""
_FIELDS = {argument: field for field, argument in _RENAMED.items()}
_TURNED = {argument: field for field, argument in _REVERSED.items()}
_ADAPTED = ("lora", "dora")


def section_of(name: str) -> str:
    """Return the section that a field of Megatron-Core's configs stands in."""
    rows = {"ddp": _OF_DDP, "optimizer": _OF_OPTIMIZER, "train": _OF_TRAIN}
    return next((section for section, names in rows.items() if name in names), "model")


def placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron-LM's words in the sections of a `run_config.yaml`; a dtype is written as its class."""
    keys: dict[str, Any] = {}
    for name, value in words.items():
        if name in _APART:
            continue
        if name in (_REDUCED, "grad_reduce_in_bf16"):
            keys["ddp.grad_reduce_in_fp32"] = not value
        elif name in _TURNED:
            keys[f"model.{_TURNED[name]}"] = not value
        elif name.endswith("_dtype") and value in _DTYPES.values():
            dtype = next(theirs for theirs, ours in _DTYPES.items() if ours == value)
            place = f"{section_of(name)}.{name}"
            keys |= {f"{place}._target_": f"torch.{dtype}", f"{place}._call_": False}
        else:
            keys[f"{section_of(name)}.{_FIELDS.get(name, name)}"] = value
    return keys


def _written(config: Config) -> dict[str, Any]:
    """Return the model's id, the preset of precision, the length that model and data set share, and the adapter."""
    presets = {recipe: name for name, recipe in _PRESETS.items()}
    recipe = config[EngineSettings.fp8_recipe] or "delayed" if config[Training.precision] == "fp8-mixed" else None
    keys: dict[str, Any] = {"mixed_precision": presets.get(recipe, presets[None])}
    if isinstance(config.model, str):
        keys["model.hf_model_id"] = full_name(config.model)
    length, kind = config[Training.sequence_length], config[Training.adapter.type]
    keys |= {_DATA_LENGTH: length} if length else {}
    if length and isinstance(config.model, str):
        keys[_MODEL_LENGTH] = length
    if kind in _ADAPTED:
        keys |= {
            "peft._target_": f"megatron.bridge.peft.{kind}.{_ADAPTERS[kind]}",
            "peft.dim": config[Training.adapter.rank] or _RANK, "peft.dropout": config[Training.adapter.dropout] or 0.0,
            "peft.target_modules": sorted(USUAL),
        }  # fmt: skip
    return keys


_RANK = 32
"""The rank of its adapters where nothing is said (peft/lora.py)."""
_KNOWN = {
    *(each.name for each in MEGATRON_SWIFT.keys), *(name for each in MEGATRON_SWIFT.meanings for name in each.keys),
    *_DIMENSIONS, "global_batch_size", "transformer_impl", "virtual_pipeline_model_parallel_size", _REDUCED,
}  # fmt: skip
"""Arguments of Megatron-LM that are read here too."""
BRIDGE = Tool(
    name="megatron-bridge",
    title="Megatron Bridge",
    syntax="yaml",
    engines=("megatron", "megatron-fsdp"),
    tells=(_MODULE, "model.tensor_model_parallel_size", "ddp.use_distributed_optimizer", "model.num_moe_experts"),
    model=MODEL,
    prefixes=(_PROGRAM,),
    dimensions=_DIMENSIONS,
    family="megatron",
    normalized=of_bridge,
    batch="global_batch_size",
    keys=(
        *ARGUMENTS,
        Key(path=Training.micro_batch_size, name="micro_batch_size"),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.precision, name=_PRECISION),
        *ADAPTED,
        Key(path=Training.implementation, name="transformer_impl",
            values={"transformer-engine": "transformer_engine", "megatron-local": "local"}),
        Key(path=EngineSettings.fp8_recipe, name=_RECIPE),
        *(Key(path=path, name=name) for name, path in _PRECISE.items()),
        Key(path=MegatronSettings.grad_reduce_in_bf16, name=_REDUCED),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
    ),
    meanings=MEGATRON_SWIFT.meanings,
    settles=("model*", "ddp*", "optimizer*", "train*", "mixed_precision*", "peft*", "dataset.seq*"),
    vocabulary=("megatron-bridge", "megatron"),
    ignored=("dataset.*", "scheduler.*", "logger.*", "tokenizer.*", "checkpoint.*", "rng.*", "rerun_state_machine.*",
             "profiling.*", "validation.*", "dist.*", "straggler.*", "nvrx_straggler.*", "ft.*", "inprocess_restart.*",
             "tensor_inspect.*", "env_vars*", "optimizer.clip_grad", "ddp.check_for_nan_in_grad", "_target_",
             "ddp.average_in_collective", "model.pipeline_dtype", "model.moe_hybridep_num_sms", "*._target_",
             "*._call_"),
    needs={EngineSettings.framework: "megatron-bridge"},
    always={"tensor_model_parallel_size": 1},
    launch="torchrun --nproc_per_node {each} --nnodes {nodes} train.py --config-file {file}",
    placed=placed,
    written=_written,
    adapters=_ADAPTED,
    unsaid=dict.fromkeys((
        Training.precision, Training.micro_batch_size, Training.gradient_accumulation_steps, Training.sequence_length,
        Training.adapter.rank, Training.adapter.dropout, Training.adapter.target_modules, EngineSettings.fp8_recipe,
    )),
    source="Megatron Bridge, training/config.py",
)  # fmt: skip
TOOLS = (BRIDGE,)
MODULES = {TELLS: configs}
