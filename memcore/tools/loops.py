"""What the keys of axolotl, LLaMA-Factory and TRL mean together: the loops around transformers' Trainer.

Each reads its own keys to plain ones that begin with `*`, or to those of its table; what is not understood stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.formats.normalized import AUTOCAST, ENGINE, FRAMEWORK, GPUS, PREPARED, VERSION, Normalized
from memcore.messages import Message
from memcore.networks.adapters import around, linear_names
from memcore.networks.catalog import find_model
from memcore.networks.separate_experts import experts_of
from memcore.tools.launchers import factory_started, factory_trains, is_set, launched, on_ray
from memcore.tools.methods import (
    AXOLOTL_KEYS,
    CLASSIFIES,
    FACTORY_KEYS,
    METHOD,
    TRL_KEYS,
    adapts,
    of_axolotl_method,
    of_factory_method,
    of_trl_method,
)
from memcore.tools.own_keys import (
    check_rounding,
    of_axolotl_ranks,
    of_bitsandbytes,
    of_scripts,
    of_two_lengths,
    with_projections,
    with_width,
)
from memcore.tools.pictures import IMPLEMENTATION, on_towers, unprepared, with_unsloth
from memcore.tools.sharding import SEVERAL, of_packing, of_trl, sharded
from memcore.tools.targets import targets
from memcore.tools.towers import FREEZES, TRAINABLE, adapted_parts, reached, trained_by_script, trained_parts

PRECISION, REENTRANT = "*precision", "*reentrant"
OFFLOADED, LOSS, LIGER = "*offloaded", "*loss", "*liger_kernels"
SHARDED = ("fsdp", "deepspeed")
_FALSE = (False, "false", "False", "no", None)


def _frozen(tool: str) -> Mapping[str, bool]:
    """Keys of towers and projectors, which are frozen where nothing is said."""
    return dict.fromkeys(FREEZES[tool].unless, True)


DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "axolotl": {"bf16": "auto"},
    "llama-factory": {"use_reentrant_gc": True, **_frozen("llama-factory")},
    "llama-factory-v1": {"enable_activation_checkpointing": True, "bf16": True, "cp_size": 1, "cp_mode": "ulysses"},
    "ms-swift": {"gradient_checkpointing": True, "lora_rank": 8, "lora_dropout": 0.05, **_frozen("ms-swift")},
    "trl": {
        "SFTConfig.max_length": 1024,
        "SFTConfig.gradient_checkpointing": True,
        "ModelConfig.lora_r": 16,
        "ModelConfig.lora_dropout": 0.05,
    },
}
"""What absent keys mean in the newest release of each table that was harvested (`harvest/tables/`)."""
_TRL = {key.partition(".")[2]: value for key, value in DEFAULTS["trl"].items()}
_OF_ADAPTER = ("lora_r", "lora_dropout")


def linear_alone(model: object) -> list[str]:
    """The linear layers of a model with routed experts, whose stacked matrices are none; empty for other models.

    axolotl, LLaMA-Factory and ms-swift name all `nn.Linear` themselves before PEFT sees them, and transformers 5 stacks
    the matrices of experts (axolotl 0.18, loaders/adapter.py, `find_all_linear_names`; LLaMA-Factory 0.9.6,
    model/model_utils/misc.py, `find_all_linear_modules`; ms-swift 4.5, utils/torch_utils.py, `find_all_linears`).
    """
    try:
        network = find_model(model).network if isinstance(model, str) else None
    except MemcoreError:
        return []
    if network is None or not any(True for _ in experts_of(network)):
        return []
    head = around(network)[1]
    return [each for each in linear_names(network) if each != head]


def attention_kernel(normalized: dict[str, Any], key: str) -> None:
    """The kernel of attention by the name that transformers has for it; packages of FlashAttention keep the same."""
    said = str(normalized.get(key, ""))
    if re.search(r"flash[_-]?attn|flash[_-]attention", said):
        normalized[key] = f"flash_attention_{3 if re.search(r'(attn|attention)[_-]?3', said) else 2}"


def _bf16(found: Mapping[str, Any]) -> bool:
    """Return whether axolotl computes in bf16, which it does where nothing is said (config.py: `bf16` is "auto")."""
    said = next((found[name] for name in ("bf16", "bfloat16") if name in found), None)
    if said is None and any(is_set(found.get(name)) for name in ("fp16", "float16", "float32")):
        return False
    return (DEFAULTS["axolotl"]["bf16"] if said is None else said) not in _FALSE


def of_axolotl(found: Mapping[str, Any]) -> Normalized:
    """axolotl's keys: weights have the dtype of the job, 4 bits are quantized twice, checkpoints are reentrant.

    Sources: axolotl 0.18, utils/config/__init__.py (`torch_dtype`, `gradient_checkpointing_kwargs`), loaders/model.py
    (`bnb_4bit_use_double_quant`), utils/schemas/validation.py (`offload` of checkpoints), utils/schemas/config.py,
    monkeypatch/accelerate/fsdp2.py (parameters keep their dtype, where accelerate's own function would upcast them).
    """
    method, learnt = of_axolotl_method(found)
    found, shared = of_axolotl_ranks(on_ray(found) if is_set(found.get("use_ray")) else found)
    plain, notes = sharded(found)
    kept = {name: value for name, value in plain.items() if name not in AXOLOTL_KEYS}
    normalized, said = {**kept, **method}, [*shared, *notes, *learnt]
    spread = normalized.get(ENGINE) in SHARDED and str(normalized.get(VERSION)) != "2"  # fsdp2_prepare_model
    if _bf16(found):
        normalized[PRECISION] = "bf16-mixed" if spread else "bf16"
    elif any(is_set(found.get(name)) for name in ("fp16", "float16")):
        normalized[PRECISION] = "fp16-mixed" if spread else "fp16"
    else:
        normalized[PRECISION] = "fp32"
    for name in ("bf16", "bfloat16", "fp16", "float16", "float32"):
        normalized.pop(name, None)
    if is_set(found.get("load_in_4bit")):
        normalized.setdefault("bnb_config_kwargs.bnb_4bit_use_double_quant", True)
    _axolotl_checkpoints(normalized)
    whole, each = found.get("batch_size"), found.get("micro_batch_size") or 1
    if isinstance(whole, int) and isinstance(each, int) and not found.get("gradient_accumulation_steps"):
        normalized["gradient_accumulation_steps"] = max(1, whole // each)
    for name, kernel in _KERNELS.items():
        if is_set(normalized.pop(name, None)):
            normalized.setdefault("attn_implementation", kernel)
    attention_kernel(normalized, "attn_implementation")
    _axolotl_plugins(normalized)
    with_width(normalized, "optimizer")
    check_rounding(normalized)
    if normalized.get("unfrozen_parameters"):
        normalized[TRAINABLE] = _parts(normalized.pop("unfrozen_parameters"))
    elif found.get("adapter") is None:
        normalized |= trained_parts("axolotl", normalized, found.get("base_model"))
    _axolotl_targets(normalized, found)
    return {FRAMEWORK: "axolotl", **normalized}, tuple(said)


_TARGETS = "lora_target_modules"


def _axolotl_targets(normalized: dict[str, Any], found: Mapping[str, Any]) -> None:
    """The layers with adapters; where linear layers are not all that the model multiplies with, they are named."""
    model = found.get("base_model")
    named = found.get(_TARGETS) or (is_set(found.get("lora_target_linear")) and "all-linear")
    normalized |= reached(_TARGETS, named, model) if found.get("adapter") else {}
    if "lora_target_modules" in normalized:
        normalized["lora_target_modules"] = targets(normalized["lora_target_modules"])
    if normalized.get("lora_target_modules") == "all-linear":
        del normalized["lora_target_modules"]
        normalized["lora_target_linear"] = True
    names = linear_alone(model) if normalized.get("lora_target_linear") is True else []
    if names:
        listed = normalized.get("lora_target_modules")
        del normalized["lora_target_linear"]
        normalized["lora_target_modules"] = list(dict.fromkeys([*(listed if isinstance(listed, list) else ()), *names]))


_KERNELS: Mapping[str, str] = {
    "xformers_attention": "xformers", "flex_attention": "flex_attention", "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa", "eager_attention": "eager", "s2_attention": "flash_attention_2",
}  # fmt: skip
"""axolotl's former switches, and what they are today, the first that is on (utils/schemas/enums.py)."""


def _parts(patterns: object) -> list[str]:
    """The parts of names that learn, from patterns that are names; others are refused. A whole text model is all."""
    listed = patterns if isinstance(patterns, list) else [patterns]
    plain = [str(each).replace("\\", "").strip("^$.*+") for each in listed]
    names = [each.removesuffix(".weight").removesuffix(".bias") for each in plain]
    if not all(re.fullmatch(r"[A-Za-z_][\w.]*", name) for name in names):
        raise UnsupportedError.of_value(
            "unfrozen_parameters", patterns, "patterns are supported only if they are plain module names"
        )
    parts = list(dict.fromkeys(name.rstrip(".").rpartition(".")[2] for name in names))
    return ["all"] if "language_model" in parts else parts


_OFFLOADING = ("offload", "unsloth", "offload_disk", "legacy", "disk", "hidden_states")


def _axolotl_checkpoints(normalized: dict[str, Any]) -> None:
    """Checkpoints, and the inputs of layers that go to host memory with them."""
    said, offloads = normalized.get("gradient_checkpointing"), normalized.get("activation_offloading")
    if said in _OFFLOADING or offloads in _OFFLOADING or is_set(offloads):
        normalized["gradient_checkpointing"] = True
        normalized["activation_offloading"] = True
    reentrant = "gradient_checkpointing_kwargs.use_reentrant"
    if normalized.get("gradient_checkpointing") is True and reentrant not in normalized:
        normalized[REENTRANT] = not is_set(normalized.get("activation_offloading"))


_LIGER = {
    "liger_rope": "rope",
    "liger_rms_norm": "rms_norm",
    "liger_glu_activation": "swiglu",
    "liger_swiglu": "swiglu",
}
"""axolotl's keys of Liger's kernels, by Liger's own names."""


def _with_liger(normalized: dict[str, Any], kernels: Iterable[str]) -> None:
    """Layers with these of Liger's kernels; nothing more is said if it is all of them."""
    some = sorted(kernels)
    if some:
        normalized[IMPLEMENTATION] = "liger"
    if some and len(some) < len({*_LIGER.values()}):
        normalized[LIGER] = some


def _axolotl_plugins(normalized: dict[str, Any]) -> None:
    """Plugins that replace kernels: Liger's, and the loss without logits."""
    listed = normalized.pop("plugins", None)
    plugins = " ".join(map(str, listed)) if isinstance(listed, list) else str(listed or "")
    liger = "liger" in plugins.lower()
    fused = is_set(normalized.pop("liger_fused_linear_cross_entropy", False)) and liger
    kernels = {ours for name, ours in _LIGER.items() if is_set(normalized.pop(name, False)) and liger}
    if "CutCrossEntropy" in plugins and normalized.pop("cut_cross_entropy", True) is not False:
        normalized[LOSS] = "cut-cross-entropy"
    elif fused:
        normalized[LOSS] = "fused-linear"
    if kernels:
        normalized.setdefault(LOSS, "cross-entropy-fp32")
    _with_liger(normalized, kernels)
    left = [each for each in listed or [] if not re.search("liger|CutCrossEntropy", str(each), re.IGNORECASE)]
    if left:
        normalized["plugins"] = left


def of_factory(found: Mapping[str, Any]) -> Normalized:
    """LLaMA-Factory's keys. It trains LoRA on all linear layers where nothing is said.

    An adapter's base has the dtype of the job, and what a full fine-tune trains is cast to fp32; checkpoints are
    reentrant. Sources: LLaMA-Factory 0.9.6, hparams/finetuning_args.py, hparams/model_args.py (`use_reentrant_gc`),
    model/adapter.py (`init_adapter`), hparams/parser.py (`compute_dtype`), model/patcher.py.
    """
    factory_trains(found)
    found, first = launched(on_ray(factory_started(found)))
    method, learnt = of_factory_method(found)
    kind = found.get("finetuning_type", "lora")
    plain, notes = sharded({name: value for name, value in found.items() if not method or name not in FACTORY_KEYS})
    normalized = {"finetuning_type": "lora", **plain, **method}
    notes = (*first, *notes, *learnt, *of_two_lengths(normalized, "cutoff_len", 512))
    if kind == "full":
        del normalized["finetuning_type"]
        normalized |= trained_parts("llama-factory", normalized, found.get("model_name_or_path"))
    elif kind == "lora":
        normalized = {"lora_target": "all", **normalized}
    else:  # blocks of 32 where no rank is said (hparams/finetuning_args.py)
        normalized = {name: value for name, value in normalized.items() if not name.startswith("lora_")}
        rank = normalized.pop("oft_rank", 0)
        normalized = {"oft_target": "all", **normalized, **({"lora_rank": rank} if rank else {})}
    if kind != "full":
        normalized |= adapted_parts("llama-factory", normalized, found.get("model_name_or_path"))
    with_projections(normalized)
    with_width(normalized)
    of_bitsandbytes(normalized)
    normalized[PRECISION] = _factory_precision(normalized, kind)
    with_trainer_liger(normalized, "enable_liger_kernel", fuses=not method)
    if not is_set(found.get("disable_gradient_checkpointing")):
        normalized.setdefault("use_reentrant_gc", DEFAULTS["llama-factory"]["use_reentrant_gc"])
    if is_set(found.get("use_unsloth_gc")):
        normalized |= {OFFLOADED: "cpu"}
    for name in ("lora_target", "oft_target"):
        if name in normalized and normalized[name] != "all":
            normalized[name] = targets(normalized[name])
        elif name in normalized and (names := linear_alone(found.get("model_name_or_path"))):
            normalized[name] = names
    return {FRAMEWORK: "llama-factory", **normalized}, notes


def _factory_precision(normalized: dict[str, Any], kind: object) -> str:
    """The precision of the weights: an adapter's base in the dtype of the job, what is trained itself in fp32."""
    word = next((name for name in ("bf16", "fp16") if is_set(normalized.pop(name, False))), None)
    if is_set(normalized.pop("pure_bf16", False)):
        return "bf16"
    if kind == "full":
        return f"{word}-mixed" if word else "fp32"
    return f"{word or 'bf16'}-mixed" if normalized.get(ENGINE) in SHARDED else word or "bf16"


_OF_PREFERENCES = ("pref_loss", "pref_beta", "pref_ftx", "simpo_gamma", "dpo_label_smoothing", "ld_alpha")
"""What only v1/trainers/dpo_trainer.py reads."""
_SUPERVISED = (
    "only the command names the method; `llamafactory-cli sft` is assumed, while `dpo` and `rm` take more memory"
)


def of_factory_v1(found: Mapping[str, Any]) -> Normalized:
    """LLaMA-Factory's second generation: a full fine-tune unless `peft_config` says otherwise.

    Weights are loaded in the checkpoint's dtype, and checkpoints are not reentrant.
    Sources: LLaMA-Factory 0.9.6.dev0, v1/config/*.py, v1/core/model_engine.py (`dtype="auto"`),
    v1/core/base_trainer.py, v1/plugins/model_plugins/peft.py, v1/plugins/trainer_plugins/distributed/fsdp2.py.
    """
    if "peft_config.export_dir" in found:
        message = "is a file that merges an adapter, not a training job"
        raise ConfigError.at("peft_config.export_dir", message)
    preferring = next((name for name in _OF_PREFERENCES if name in found), None)
    if preferring is not None:
        message = "only `llamafactory-cli dpo` reads it: packing a pair into one sequence is not supported yet"
        raise UnsupportedError.of_value(preferring, found[preferring], message)
    normalized = {**DEFAULTS["llama-factory-v1"], **found}
    notes = (_SUPERVISED, *_backend(normalized))
    kind = normalized.pop("peft_config.name", None)
    if kind not in (None, "lora"):
        raise UnsupportedError.of_value(
            "peft_config.name", kind, "supported: 'lora', or leave it out for full fine-tuning"
        )
    if kind == "lora":
        normalized = {"*adapter": "lora", "peft_config.r": 8, "peft_config.target_modules": "all", **normalized}
        normalized["peft_config.target_modules"] = targets(normalized["peft_config.target_modules"])
    if normalized.pop("quant_config.name", None) in ("bnb", "auto"):
        bits = normalized.pop("quant_config.quantization_bit", 4)
        double = normalized.pop("quant_config.double_quantization", True)
        word = str(normalized.pop("quant_config.quantization_type", "nf4"))
        normalized["*bits"] = "int8" if bits == 8 else f"{word}-double" if double is not False else word
    mode = normalized.pop("cp_mode")
    if normalized["cp_size"] != 1 and mode != "ulysses":
        raise UnsupportedError.of_value("cp_mode", mode, "supported: 'ulysses'")
    if normalized.pop("kernel_config.name", None) == "liger_kernel":
        normalized[IMPLEMENTATION] = "liger"
    optimizer = normalized.pop("optim_config.name", None)
    if optimizer is not None:
        normalized["*optimizer_name"] = optimizer
    return normalized, notes


def _backend(normalized: dict[str, Any]) -> tuple[str, ...]:
    """Return how GPUs share the work, and the precision that follows; notes on it."""
    backend, bf16 = normalized.pop("dist_config.name", None), normalized.pop("bf16")
    normalized[PRECISION] = "bf16"
    if backend == "fsdp2":
        normalized |= {
            ENGINE: "fsdp",
            "*version": 2,
            "*reshard": normalized.pop("dist_config.reshard_after_forward", True),
        }
        if normalized.pop("dist_config.offload_params", False) is True:
            normalized["*offload"] = True
    elif backend == "deepspeed":
        plain, notes = sharded({"deepspeed": normalized.pop("dist_config.config_file", "")})
        normalized |= {**plain, PRECISION: "bf16-mixed" if bf16 is True else "fp32"}
        return notes
    elif backend is not None:
        raise UnsupportedError.of_value("dist_config.name", backend, "supported: 'fsdp2' and 'deepspeed'")
    elif normalized.get(GPUS, 1) != 1:
        normalized[ENGINE] = "ddp"  # v1/core/base_trainer.py, `_shard_model`
        return (SEVERAL,)
    return ()


_OF_TRL = ("dataset_name", "use_peft", "max_length", "max_seq_length", "packing", "padding_free", "assistant_only_loss",
           "completion_only_loss", "dataset_text_field", "dataset_num_proc", "eos_token", "dataset_mixer")  # fmt: skip
_ALIASES: Mapping[str, str] = {
    "use_peft_lora": "use_peft", "lora_enable": "use_peft", "use_4bit_quantization": "load_in_4bit",
    "use_8bit_quantization": "load_in_8bit", "use_nested_quant": "use_bnb_nested_quant", "use_4bit": "load_in_4bit",
    "model_max_length": "max_length", "max_seq_len": "max_length", "use_lora": "use_peft", "lora_rank": "lora_r",
    "block_size": "max_length", "model_id": "model_name_or_path", "model_name": "model_name_or_path",
    "base_model_name_or_path": "model_name_or_path", "grad_checkpoint": "gradient_checkpointing",
    "gradient_checkpointing_use_reentrant": "gradient_checkpointing_kwargs.use_reentrant",
    "use_reentrant": "gradient_checkpointing_kwargs.use_reentrant", "load_in_bits": "bits",
    "use_liger": "use_liger_kernel",
    "double_quant": "use_bnb_nested_quant", **dict.fromkeys(("target_modules", "lora_modules"), "lora_target_modules"),
    "quant_type": "bnb_4bit_quant_type", "source_max_len": "max_source_length", "target_max_len": "max_target_length",
}  # fmt: skip
"""Names in widespread scripts (peft, examples/sft/train.py; LLaVA, train/train.py; open-instruct; qlora)."""


_NOT_OF_TRL = ("block_size", "do_train", "max_source_length", "preprocessing_num_workers", "max_train_samples",
               "dataset_mixer_list", "use_slow_tokenizer", "checkpointing_steps", "reduce_loss")  # fmt: skip
"""Keys of transformers' own example scripts and of open-instruct's, which TRL's have not."""
_PRECISIONS = ("bf16", "fp16", "dtype", "torch_dtype", "load_in_4bit", "load_in_8bit")


def _renamed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of widespread scripts by TRL's names."""
    renamed = {
        name if _ALIASES.get(name) in found else _ALIASES.get(name, name): value for name, value in found.items()
    }
    if _always_adapts(found):
        renamed |= _always_adapted(found)
    frozen = [is_set(renamed.pop(name, False)) for name in ("q_lora", "qlora")]
    if any(frozen):
        renamed["load_in_4bit"] = True
    if "quant_bit" in renamed:  # LMFlow, args.py
        renamed.setdefault("use_bnb_nested_quant", True)
    bits = renamed.pop("quant_bit", 4)
    if is_set(renamed.pop("use_qlora", False)):
        renamed |= {"use_peft": True, "load_in_8bit" if bits == _EIGHT else "load_in_4bit": True}
    if renamed.get("bits") in (4, 8):
        renamed |= {f"load_in_{renamed.pop('bits')}bit": True}
    flash = [is_set(renamed.pop(name, False)) for name in _FLASH]
    if any(flash):
        renamed["attn_implementation"] = "flash_attention_2"
    if isinstance(renamed.get("lora_target_modules"), str | list):
        renamed["lora_target_modules"] = targets(renamed["lora_target_modules"])
    return renamed


_EIGHT = 8
_FLASH = ("use_flash_attn", "use_flash_attention_2", "use_flash_attention", "flash_attn")
"""What scripts of their own call a switch of FlashAttention."""
_RANK = "rank"
"""What scripts of their own call an adapter's rank, which nothing else of a Trainer's has."""
_OF_ADAPTED = ("trainable", "modules_to_save", "load_in_kbits")
_SWITCHES = {"use_peft", "use_lora", "use_peft_lora", "lora_enable", "use_qlora"}
"""Keys of scripts that adapt where they are asked to."""


def _always_adapts(found: Mapping[str, Any]) -> bool:
    """Whether a script adapts without being asked to: by the key of its rank, its own name, or its frozen weights."""
    frozen = any(is_set(found.get(name)) for name in ("load_in_4bit", "load_in_8bit", "use_4bit"))
    named = "lora_r" in found and (frozen or re.search(r"lora\w{0,40}\.py", str(found.get("", ""))) is not None)
    return ("lora_rank" in found or named) and not _SWITCHES & set(found)


def _always_adapted(found: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of scripts that know nothing but LoRA (Chinese-LLaMA-Alpaca-3, scripts/training/run_clm_*_with_peft.py)."""
    listed = {"trainable": "lora_target_modules", "modules_to_save": "lora_modules_to_save"}
    told: dict[str, Any] = {"use_peft": True}
    for name, ours in listed.items():
        if isinstance(found.get(name), str):
            told[ours] = [each.strip() for each in found[name].split(",")]
    if found.get("load_in_kbits") in (4, 8):
        told[f"load_in_{found['load_in_kbits']}bit"] = True
    return told


def _zero_dtype(normalized: dict[str, Any], of_trl: bool) -> None:
    """Leave out the dtype of loading where the engine casts the weights: with bf16 said, or TRL's default.

    DeepSpeed does, and accelerate for FSDP where they are trained (accelerate 1.15, accelerator.py, `prepare_model`;
    utils/fsdp_utils.py, `fsdp2_prepare_model`: fp32 for what requires a gradient).
    """
    said = [name for name in ("torch_dtype", "dtype") if str(normalized.get(name)).endswith("bfloat16")]
    casts = normalized.get(ENGINE) == "deepspeed" or (normalized.get(ENGINE) == "fsdp" and not adapts(normalized))
    if not casts or not is_set(normalized.get("bf16", of_trl and bool(said))):
        return
    for name in ("torch_dtype", "dtype"):
        normalized.pop(name, None)
    normalized["bf16"] = True


def _stored_dtype(normalized: dict[str, Any]) -> bool:
    """Return whether weights keep the dtype of the checkpoint ("auto"), which then decides the precision.

    Engines that shard cast the weights themselves. Also sets AUTOCAST where the loop runs the weights under autocast.
    """
    halved = normalized.pop(AUTOCAST, False) or any(is_set(normalized.get(name)) for name in ("bf16", "fp16"))
    stored = _as_stored(normalized)
    if halved and _autocasts(normalized, stored):
        normalized[AUTOCAST] = True
    return stored


def _as_stored(normalized: dict[str, Any]) -> bool:
    names = [name for name in ("dtype", "torch_dtype") if str(normalized.get(name)) == "auto"]
    for name in names:
        del normalized[name]
    if not names or normalized.get(ENGINE) in SHARDED or PREPARED in normalized:
        return False
    for name in ("bf16", "fp16"):
        normalized.pop(name, None)
    return True


def _autocasts(normalized: Mapping[str, Any], stored: bool) -> bool:
    """Return whether weights in 16 bits run under autocast in a way that changes memory: PEFT's adapters are fp32.

    Source: accelerate 1.12, accelerator.py (`prepare_model`: `model.forward = autocast_context(model.forward)`).
    """
    dtype = str(normalized.get("dtype", normalized.get("torch_dtype"))).removeprefix("torch.")
    if is_set(normalized.get("use_unsloth")) or normalized.get(ENGINE) in SHARDED:
        return False
    return adapts(normalized) and (stored or dtype in ("bfloat16", "float16"))


def _of_releases(found: Mapping[str, Any], normalized: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what another release of transformers makes of weights for which no dtype is given.

    Engines that shard cast the weights themselves. Source: transformers/modeling_utils.py, `from_pretrained` (4.57:
    `torch.get_default_dtype()`; 5: `dtype="auto"`).
    """
    said = any(name in found for name in _LOADED) or PRECISION in normalized
    if said or "model_name_or_path" not in found or normalized.get(ENGINE) in SHARDED:
        return ()
    if any(is_set(normalized.get(name)) for name in ("bf16", "fp16")):
        return (Message("no dtype is given: weights are counted in fp32, as transformers 4 loads them; transformers 5 "
                        "keeps the checkpoint's dtype, which dtype: auto says"),)  # fmt: skip
    return (Message("no dtype is given: weights are counted in the checkpoint's, as transformers 5 loads them; "
                    "transformers 4 loads them in fp32: --precision fp32"),)  # fmt: skip


_LOADED = tuple(name for name in _PRECISIONS if name not in ("bf16", "fp16"))
"""Keys that say in which dtype weights are loaded."""


def _plain_dtype(normalized: dict[str, Any]) -> None:
    """fp32 weights, which autocast computes with in 16 bits where a key says so."""
    dtypes = {str(normalized.get(name)).removeprefix("torch.") for name in ("dtype", "torch_dtype")}
    if "float32" in dtypes and normalized.get("tf32") is not True:
        for name in ("dtype", "torch_dtype"):
            normalized.pop(name, None)
        if not any(is_set(normalized.get(name)) for name in ("bf16", "fp16")):
            normalized[PRECISION] = "fp32"


def with_trainer_liger(normalized: dict[str, Any], name: str = "use_liger_kernel", *, fuses: bool = True) -> None:
    """Liger's kernels with the fused loss, but for what `liger_kernel_config` leaves out.

    `fuses` is whether the model computes the loss: methods that need logits have their own.
    Source: transformers, integrations/liger.py (`apply_liger_kernel`); liger_kernel 0.6, transformers/monkey_patch.py
    (`fused_linear_cross_entropy=True`); LLaMA-Factory 0.9.6, model/model_utils/liger_kernel.py (`require_logits`).
    """
    start, fused = "liger_kernel_config.", "fused_linear_cross_entropy"
    known = {fused, "swiglu", "rope", "rms_norm"}
    said = {each: normalized.pop(start + each) for each in sorted(known) if start + each in normalized}
    if not is_set(normalized.get(name)):
        return
    del normalized[name]
    if fuses:
        normalized.setdefault(LOSS, "cross-entropy-fp32" if said.get(fused, True) in _FALSE else "fused-linear")
    _with_liger(normalized, (each for each in known - {fused} if said.get(each, True) not in _FALSE))


def _prepared(normalized: dict[str, Any]) -> None:
    """Leave out that PEFT casts to fp32 where nothing is quantized; ZeRO has one dtype for all.

    Where it does, a loop in 16 bits is under autocast, whatever the model was loaded in.
    """
    frozen = any(is_set(normalized.get(name)) for name in ("load_in_4bit", "load_in_8bit"))
    if not frozen or normalized.get(ENGINE) == "deepspeed":
        normalized.pop(PREPARED, None)
    elif PREPARED in normalized and any(is_set(normalized.get(name)) for name in ("bf16", "fp16", AUTOCAST)):
        for name in ("dtype", "torch_dtype"):
            normalized.pop(name, None)
        normalized.setdefault("bf16", not is_set(normalized.get("fp16")))


_SCRIPT = re.compile(r"(?<![\w-])[\w-]+\.py\b")


def _of_own(found: Mapping[str, Any]) -> tuple[Message, ...]:
    """Note that a script is only named, if its name says that it adapts and its arguments do not."""
    scripts = _SCRIPT.findall(str(found.get("", "")))
    named = next((each for each in scripts if "lora" in each or "peft" in each), None)
    said = any(name.startswith(("lora", "use_peft", "use_lora", "use_qlora")) for name in found)
    if named is None or said or _always_adapts(found):
        return ()
    return (Message("{} is not read, and adapters and few bits that it sets by itself are not counted; describe them "
                    "with {} and {}", named, Training.adapter.type, Training.quantization),)  # fmt: skip


def of_trainer(found: Mapping[str, Any]) -> Normalized:
    """Files and commands of scripts that drive transformers' Trainer: TRL's, and people's own.

    TRL's SFT has checkpoints, bf16 and 1,024 tokens where nothing is said (trl 1.16, trainer/base_config.py,
    trainer/sft_config.py), and so have its other methods.
    """
    found = of_scripts({"lora_rank" if name == _RANK else name: value for name, value in found.items()})
    method, learnt = of_trl_method(found)
    own, first = launched(found)
    normalized, notes = of_trl(_renamed(own))
    normalized, notes = dict(normalized), (*first, *notes, *learnt, *_of_own(found))
    _prepared(normalized)
    if _always_adapts(found):
        normalized = {name: value for name, value in normalized.items() if name not in _OF_ADAPTED}
        given = "lora_rank" if "lora_rank" in found else "lora_r"
        notes = (*notes, Message("{} is given, but nothing turns the adapter on: an adapter is assumed", given))
    if method:
        normalized = {name: value for name, value in normalized.items() if name not in TRL_KEYS} | method
    attention_kernel(normalized, "attn_implementation")
    if method or "source_max_len" in found:
        notes = (*notes, *of_two_lengths(normalized))
    notes = (*notes, *on_towers(normalized, found.get("lora_target_modules")), *of_packing(normalized))
    with_trainer_liger(normalized, fuses=not method)
    with_width(normalized)
    with_unsloth(normalized)
    if not adapts(normalized) and not any(is_set(normalized.get(name)) for name in _SWITCHES):
        normalized |= trained_by_script(normalized, normalized.get("model_name_or_path"))
    if is_set(found.get("tune_mm_mlp_adapter")):
        raise UnsupportedError.of_value("tune_mm_mlp_adapter", True, "training only the towers is not supported yet")
    if is_set(normalized.pop("dataset_kwargs.skip_prepare_dataset", False)):
        normalized, notes = unprepared(normalized, notes)
    if normalized.get("spectrum_config_path"):
        raise UnsupportedError.of_value("spectrum_config_path", normalized["spectrum_config_path"],
                      "the trainable layers are listed in another file; name them with --trainable")  # fmt: skip
    other = "use_peft" not in found and any(name in found for name in _NOT_OF_TRL)
    learns = method and method.get(METHOD) != CLASSIFIES
    of_trl_alone = bool(learns) or (not other and any(name in found for name in _OF_TRL))
    _zero_dtype(normalized, of_trl_alone)
    stored = _stored_dtype(normalized)
    _plain_dtype(normalized)
    if not of_trl_alone:
        return normalized, (*notes, *_of_releases(found, normalized))
    return _as_trl(normalized, stored=stored), notes


def _as_trl(normalized: dict[str, Any], *, stored: bool) -> dict[str, Any]:
    """Return the keys with TRL's defaults; where Unsloth runs, its layers are another loop's."""
    said = any(name in normalized for name in _PRECISIONS) or normalized.get(ENGINE) in SHARDED
    if stored or not said:
        normalized[PRECISION] = "bf16" if stored else "bf16-autocast"
    own = {} if is_set(normalized.get("use_unsloth")) else {FRAMEWORK: "trl"}
    adapted = is_set(normalized.get("use_peft"))
    usual = {name: value for name, value in _TRL.items() if adapted or name not in _OF_ADAPTER}
    return {**own, **usual, **normalized}
