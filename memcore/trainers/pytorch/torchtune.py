"""torchtune's configs, whose model, optimizer and loss are components named by their builders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.normalized import ENGINE, GPUS, MODEL, Normalized, filled
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import full_name
from memcore.symbols import round_up
from memcore.tools.derived import gpus_of
from memcore.tools.methods import METHOD
from memcore.trainers.pytorch.settings import TorchSettings

RECIPE = "*recipe"
_NAME, _ADAPTER, _TARGETS, _BITS, _OPTIMIZER, _HOW, _LOSS, _FRAMEWORK = (
    "*version",
    "*adapter",
    "*targets",
    "*bits",
    "*optimizer_name",
    "*implementation",
    "*loss",
    "*framework",
)
_CLIPS, _POLICY, _EVERY, _ROUNDS, _TEACHER = "*clips", "*policy", "*every", "*rounds", "*teacher"
_QUANTIZERS = ("Int8DynActInt4WeightQATQuantizer", "Int8DynActInt4WeightQATQuantizerModuleSwap")
_SIZES = {
    "llama2": ("meta-llama/Llama-2-{}-hf", "7b 13b 70b"),
    "code_llama2": ("codellama/CodeLlama-{}-hf", "7b 13b 34b"),
    "llama3": ("meta-llama/Meta-Llama-3-{}", "8B 70B"),
    "llama3_1": ("meta-llama/Llama-3.1-{}", "8B 70B 405B"),
    "llama3_2": ("meta-llama/Llama-3.2-{}", "1B 3B"),
    "llama3_2_vision": ("meta-llama/Llama-3.2-{}-Vision", "11B 90B"),
    "llama3_3": ("meta-llama/Llama-3.3-{}-Instruct", "70B"),
    "gemma": ("google/gemma-{}", "2b 7b"),
    "gemma2": ("google/gemma-2-{}", "2b 9b 27b"),
    "mistral": ("mistralai/Mistral-{}-v0.1", "7B"),
    "phi3_mini": ("microsoft/Phi-3-mini-4k-instruct", ""),
    "phi4": ("microsoft/phi-4", "14b"),
    "qwen2": ("Qwen/Qwen2-{}", "0.5B 1.5B 7B"),
    "qwen2_5": ("Qwen/Qwen2.5-{}", "0.5B 1.5B 3B 7B 14B 32B 72B"),
    "qwen3": ("Qwen/Qwen3-{}", "0.6B 1.7B 4B 8B 14B 32B"),
    "llama4_scout": ("meta-llama/Llama-4-Scout-17B-16E", "17b_16e"),
    "llama4_maverick": ("meta-llama/Llama-4-Maverick-17B-128E", "17b_128e"),
}
MODELS: Mapping[str, str] = {
    "_".join(filter(None, (name, size.lower().replace(".", "_")))): hub_id.format(size)
    for name, (hub_id, sizes) in _SIZES.items()
    for size in sizes.split() or [""]
}
"""Hub ids by the builder of torchtune that makes them (torchtune/models/*/_model_builders.py)."""
_BY_SIZES = ("llama2", "llama3", "llama3_1", "mistral")
"""Builders of Llamas that take the network's sizes (torchtune/models/*/_component_builders.py)."""
_DIMENSIONS: Mapping[str, str] = {
    "vocab_size": "vocab_size", "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads", "embed_dim": "hidden_size", "max_seq_len": "max_position_embeddings",
    "intermediate_dim": "intermediate_size",
}  # fmt: skip
_NO_SIZES = ("model.norm_eps", "model.attn_dropout", "model.rope_base", "model.scale_factor")
_PLACES: Mapping[str, str] = {"output_proj": "o_proj"}
_TOGETHER: Mapping[str, str] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
}  # fmt: skip
"""Matrices of Phi that transformers has as one."""
_OPTIMIZERS: Mapping[str, tuple[str, str | None]] = {
    "torch.optim.AdamW": ("adamw", None), "torch.optim.Adam": ("adam", None), "torch.optim.SGD": ("sgd", None),
    "torch.optim.Adafactor": ("adafactor", None),
    "bitsandbytes.optim.PagedAdamW8bit": ("paged-adamw-8bit", "bitsandbytes"),
    "bitsandbytes.optim.PagedAdamW": ("paged-adamw", "bitsandbytes"),
    "bitsandbytes.optim.AdamW8bit": ("adamw-8bit", "bitsandbytes"),
    **{f"torchao.{place}.AdamW{bits}bit": (f"adamw-{bits}bit", "torchao")
       for place in ("optim", "prototype.low_bit_optim") for bits in (8, 4)},
}  # fmt: skip
_LOSSES: Mapping[str, str] = {
    "LinearCrossEntropyLoss": "chunked:8", "CEWithChunkedOutputLoss": "chunked:8",
    "CrossEntropyLoss": "cross-entropy-fp32",
}  # fmt: skip
"""Both of torchtune's own work in 8 chunks (modules/loss/cross_entropy_loss.py, `num_output_chunks`)."""
_PREFERENCES: Mapping[str, str] = {"DPOLoss": "dpo", "RSOLoss": "dpo", "SimPOLoss": "simpo"}
"""Losses of pairs (rlhf/loss/dpo.py); what a model is compared with is itself without its adapter, or a copy."""
_TUNED = "torchtune is supported for full fine-tuning and LoRA"
_QUANTIZED = (
    "fake quantization is supported for Int8DynActInt4WeightQATQuantizer; without quantizer, the run is estimated "
    "without fake quantization"
)
_REFUSED: Mapping[str, str] = {
    "ref_policy": _TUNED, "reward_and_value_model": _TUNED, "enable_fp8_training": _TUNED, "generations": _TUNED,
}  # fmt: skip
"""Parts that no answer has, and what to do without them."""
_GENERATES = "this recipe generates text instead of training"
_USES: Mapping[str, str] = {
    "tasks": "this recipe evaluates a model instead of training", "prompt": _GENERATES, "max_new_tokens": _GENERATES,
}  # fmt: skip
"""Keys of recipes that do not train, and what those do (recipes/eleuther_eval.py, dev/generate_v2.py, generate.py)."""
_READ_BY: Mapping[str, str] = {"quantizer": "qat", "teacher_model": "knowledge_distillation", "kd_": "knowledge_dis"}
"""Keys that only recipes of such names read (recipes/*.py): the others run as if they were not there."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a config of torchtune in plain words.

    Weights, gradients and states have the recipe's dtype, adapters too; recipes for several GPUs shard with FSDP2.
    Sources: torchtune 0.6.1, recipes/*.py, torchtune/training/_distributed.py, models/*/_component_builders.py.
    """
    normalized: dict[str, Any] = {name: filled(found, value) for name, value in found.items()}
    recipe = str(normalized.pop(RECIPE, ""))
    _trains(normalized)
    kept = _without_unread(normalized, recipe)
    notes: list[str] = [
        Message("{}: not read by the recipe {}, so it has no effect", name, recipe)
        for name in sorted(normalized.keys() - kept.keys())
    ]
    normalized = kept
    _model(normalized, notes)
    _optimizer(normalized)
    loss = str(normalized.get("loss._component_", "")).rpartition(".")[2]
    if loss and loss not in (*_LOSSES, *_PREFERENCES):
        every = joined(", ", (*_LOSSES, *_PREFERENCES))
        raise UnsupportedError("loss._component_", "found {!r}; supported here: {}", loss, every)
    if loss:
        normalized |= {_LOSS: _in_parts(normalized, _LOSSES[loss])} if loss in _LOSSES else {METHOD: _PREFERENCES[loss]}
    _taught(normalized)
    _rounded(normalized)
    normalized[_CLIPS] = normalized.pop("clip_grad_norm", None) is not None
    _selective(normalized)
    keyed = any((key.endswith("_parallel_dim") and value != 1) or "fsdp" in key for key, value in found.items())
    several = "distributed" in recipe or keyed
    if several or found.get(GPUS, 1) != 1:
        normalized |= {ENGINE: "fsdp", _NAME: 2}
    elif recipe:
        normalized.setdefault(GPUS, 1)
    else:
        notes.append("the recipe is not named: a single-device recipe is assumed")
    if normalized.get("data_parallel_shard_dim") == -1:
        del normalized["data_parallel_shard_dim"]
    if normalized.get("tokenizer.max_seq_len") is None:
        notes.append(
            "tokenizer.max_seq_len is not set, so the sequence length depends on the data; set the length with --seq"
        )
    return {_FRAMEWORK: "torchtune", **normalized}, tuple(notes)


def _trains(normalized: Mapping[str, Any]) -> None:
    """Raise an error for configs of recipes that only use a model, which have no optimizer."""
    if "optimizer._component_" in normalized:
        return
    for name, value in normalized.items():
        use = _USES.get(name.partition(".")[0])
        if use is not None:
            raise UnsupportedError.of_value(name, value, use)
    name = "quantizer._component_"
    if name in normalized and "dataset._component_" not in normalized:
        raise UnsupportedError.of_value(
            name, normalized[name], "this recipe quantizes a checkpoint instead of training"
        )


def _in_parts(normalized: dict[str, Any], loss: str) -> str:
    """Return the loss with as many chunks as the recipe says, where it is computed in chunks."""
    parts = normalized.pop("loss.num_output_chunks", None)
    kind = loss.partition(":")[0]
    return f"{kind}:{parts}" if parts is not None and kind != loss else loss


def _optimizer(normalized: dict[str, Any]) -> None:
    """The optimizer's name, and whose kernels update the parameters.

    Recipes build it with the config's own arguments (`config.instantiate`), so PyTorch's default holds for others: all
    parameters at once (torch/optim/optimizer.py, `_default_to_fused_or_foreach`).
    """
    optimizer = normalized.pop("optimizer._component_", None)
    said = {name: normalized.pop(f"optimizer.{name}", None) for name in ("fused", "foreach")}
    if optimizer is None:
        return
    if optimizer not in _OPTIMIZERS:
        raise UnsupportedError(
            "optimizer._component_", "found {!r}; supported here: {}", str(optimizer), joined(", ", _OPTIMIZERS)
        )
    normalized[_OPTIMIZER], how = _OPTIMIZERS[optimizer]
    plain = "fused" if said["fused"] is True else "for-loop" if said["foreach"] is False else "foreach"
    normalized[_HOW] = how or plain


_DIVERGENCES: Mapping[str, bool] = {"ForwardKLLoss": False, "ForwardKLWithChunkedOutputLoss": True}
"""Losses of a teacher's logits, and whether they are computed in chunks as the other loss is."""


def _published(builder: str) -> str | None:
    """Return the checkpoint of a builder's shapes; `base` and `instruct` have the same."""
    return MODELS.get(builder) or MODELS.get(re.sub(r"_(base|instruct)$", "", builder))


def _taught(normalized: dict[str, Any]) -> None:
    """A frozen teacher and the loss of its logits (recipes/knowledge_distillation_*.py)."""
    found = {name: normalized.pop(name) for name in [*normalized] if name.startswith(("teacher_model.", "kd_"))}
    if "teacher_model._component_" not in found:
        return
    builder = str(found["teacher_model._component_"]).rpartition(".")[2]
    hub_id = _published(builder)
    if hub_id is None:
        known = joined(", ", MODELS)
        raise UnsupportedError("teacher_model._component_", "found {!r}; known builders: {}", builder, known)
    chunked = str(normalized.get(_LOSS)).startswith("chunked")
    usual = next(name for name, parts in _DIVERGENCES.items() if parts is chunked)
    divergence = str(found.get("kd_loss._component_", usual)).rpartition(".")[2]
    if _DIVERGENCES.get(divergence) is not chunked:
        pairs = ("ForwardKLLoss", "CrossEntropyLoss", "ForwardKLWithChunkedOutputLoss", "CEWithChunkedOutputLoss")
        message = Message("supported: {} with loss {}, {} with loss {}", *pairs)
        raise UnsupportedError.of_value("kd_loss._component_", divergence, message)
    normalized |= {METHOD: "distill", _TEACHER: hub_id}


def _rounded(normalized: dict[str, Any]) -> None:
    """A quantizer of quantization-aware training, whose fake quantization is counted from the first step on."""
    found = {name: normalized.pop(name) for name in [*normalized] if name.startswith("quantizer")}
    component = str(found.get("quantizer._component_", "")).rpartition(".")[2]
    if not component:
        return
    if component not in _QUANTIZERS:
        raise UnsupportedError.of_value("quantizer._component_", component, _QUANTIZED)
    normalized[_ROUNDS] = "int8-int4"


def _selective(normalized: dict[str, Any]) -> None:
    """Checkpoints of some layers, which the recipe for full fine-tuning on several GPUs makes where not all have them.

    Source: torchtune 0.6.1, recipes/full_finetune_distributed.py (`ac_mode`, `ac_option`),
    training/activations.py (`apply_selective_activation_checkpointing`: every N-th layer).
    """
    mode, option = normalized.pop("ac_mode", None), normalized.pop("ac_option", None)
    if mode is None or normalized.get("enable_activation_checkpointing") is True:
        return
    if mode == "full":
        normalized["enable_activation_checkpointing"] = True
        return
    if mode != "selective" or not isinstance(option, int):
        raise UnsupportedError.of_value("ac_option", option, "supported: a whole number N, for every N-th layer")
    normalized |= {_POLICY: "selective", _EVERY: option}


def _of_sizes(normalized: dict[str, Any]) -> dict[str, Any]:
    """Return a Llama by its sizes; feed-forward layers are two thirds of four times the width by default.

    Source: torchtune, modules/common_utils.py, `scale_hidden_dim_for_mlp` (a multiple of 256).
    """
    sizes = {
        ours: normalized.pop(f"model.{name}") for name, ours in _DIMENSIONS.items() if f"model.{name}" in normalized
    }
    for name in _NO_SIZES:
        normalized.pop(name, None)
    width = sizes.get("hidden_size")
    if "intermediate_size" not in sizes and isinstance(width, int):
        sizes["intermediate_size"] = round_up(int(2 * 4 * width / 3), 256)
    return {"model_type": "llama", **sizes}


def _without_unread(normalized: dict[str, Any], recipe: str) -> dict[str, Any]:
    """The keys that a recipe of this name reads; all, if it is not named. Raises UnsupportedError for refused ones."""
    others = [begins for begins, part in _READ_BY.items() if recipe and part not in recipe]
    read = {name: value for name, value in normalized.items() if not name.startswith(tuple(others))}
    for name, value in read.items():
        lacking = _REFUSED.get(name.partition(".")[0])
        if lacking is not None and value is not False:
            raise UnsupportedError.of_value(name, value, lacking)
    return read


def _model(normalized: dict[str, Any], notes: list[str]) -> None:
    """The model, and the adapter that its builder adds."""
    builder = str(normalized.pop("model._component_", "")).rpartition(".")[2]
    if not builder:
        return
    bare = re.sub(r"^q?lora_", "", builder)
    notes += _parts(normalized, bare)
    hub_id = _published(bare)
    if hub_id is None and bare not in _BY_SIZES:
        every = joined(", ", (*MODELS, *_BY_SIZES))
        raise UnsupportedError("model._component_", "found {!r}; known builders: {}", builder, every)
    normalized[MODEL] = hub_id or _of_sizes(normalized)
    if bare == builder:
        return
    places = [_PLACES.get(each, each) for each in normalized.pop("model.lora_attn_modules", _DEFAULT)]
    if normalized.pop("model.apply_lora_to_mlp", False) is True:
        places += _FEED_FORWARD
    if normalized.pop("model.apply_lora_to_output", False) is True:
        places.append("lm_head")
    if bare.startswith(("phi3", "phi4")):
        together = list(dict.fromkeys(_TOGETHER.get(each, each) for each in places))
        notes.append(Message("adapters of {} are counted as those of {}, one matrix in transformers",
                             joined(", ", places), joined(", ", together)))  # fmt: skip
        places = together
    normalized |= {_ADAPTER: "dora" if normalized.pop("model.use_dora", False) is True else "lora", _TARGETS: places}
    if builder.startswith("qlora_"):
        normalized[_BITS] = "nf4-double"
        notes.append("torchao's NF4 with 8-bit scales is counted as bitsandbytes' NF4 with double quantization")


_SEEING = "llama3_2_vision"
"""The module whose builders freeze the decoder where nothing is said (its _model_builders.py)."""


def _parts(normalized: dict[str, Any], builder: str) -> list[Message]:
    """Notes on the parts of a model with a tower that a builder trains; a decoder that learns has adapters."""
    said = {
        name: str(normalized.pop(f"model.{name}_trainable", "")).lower() for name in ("decoder", "encoder", "fusion")
    }
    if not any(said.values()) and not builder.startswith(_SEEING):
        return []
    if said["decoder"] != "lora":
        message = "only a decoder with adapters ('lora') is supported; describe the job with flags otherwise"
        raise UnsupportedError.of_value("model.decoder_trainable", said["decoder"] or "frozen", message)
    others = [f"model.{name}_trainable" for name in ("encoder", "fusion") if said[name] != "frozen"]
    return [Message("{}: adapters outside the decoder are not counted", joined(", ", others))] if others else []


def _of_builders(text: str) -> dict[str, int]:
    """Builders and the numbers behind them."""
    words = text.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


_FILES = _of_builders(
    "llama2_7b 2 llama2_13b 3 llama2_70b 15 code_llama2_7b 3 llama3_8b 4 llama3_70b 30 llama3_1_8b 4 llama3_1_70b 30 "
    "llama3_1_405b 191 llama3_2_1b 1 llama3_2_3b 2 llama3_3_70b 30 gemma_2b 2 gemma_7b 4 gemma2_2b 3 gemma2_9b 8 "
    "gemma2_27b 24 mistral_7b 2 phi3_mini 2 phi4_14b 6 qwen2_0_5b 1 qwen2_1_5b 1 qwen2_7b 4 qwen2_5_0_5b 1 "
    "qwen2_5_1_5b 1 qwen2_5_3b 2 qwen2_5_7b 4 qwen2_5_14b 8 qwen2_5_32b 17 qwen2_5_72b 37 qwen3_0_6b 1 qwen3_1_7b 2 "
    "qwen3_4b 3 qwen3_8b 5 qwen3_14b 8 qwen3_32b 17"
)
"""Files of the checkpoint, by builder (recipes/configs/*/*.yaml, `checkpoint_files`)."""
_BINARY = ("llama2", "code_llama2", "mistral")
"""Modules of models whose files torchtune's recipes name as PyTorch's own format."""
_VARIANTS: Mapping[str, str] = {
    **{f"qwen2_5_{size}": "base" for size in ("1_5b", "7b", "14b", "32b", "72b")},
    **{f"qwen3_{size}": "instruct" for size in ("0_6b", "1_7b", "4b", "8b", "14b")},
}
"""What ends the builder's name, where it makes several checkpoints of a size."""
_TOKENIZERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    **dict.fromkeys(("llama2", "code_llama2"), ("llama2.llama2_tokenizer", {"path": "tokenizer.model"})),
    **dict.fromkeys(("llama3", "llama3_1", "llama3_2", "llama3_3"),
                    ("llama3.llama3_tokenizer", {"path": "original/tokenizer.model"})),
    **dict.fromkeys(("gemma", "gemma2"), ("gemma.gemma_tokenizer", {"path": "tokenizer.model"})),
    "mistral": ("mistral.mistral_tokenizer", {"path": "tokenizer.model"}),
    "phi3": ("phi3.phi3_mini_tokenizer", {"path": "tokenizer.model"}),
    "phi4": ("phi4.phi4_tokenizer", {"vocab_path": "vocab.json", "merges_path": "merges.txt"}),
    **{name: (f"{name}.{name}_tokenizer", {"path": "vocab.json", "merges_file": "merges.txt"})
       for name in ("qwen2", "qwen2_5", "qwen3")},
}  # fmt: skip
"""The builder of a model's tokenizer and the files that it reads, by the module of the model's builder."""
_CHECKPOINTS: Mapping[str, str] = {
    "code_llama2": "LLAMA2", "llama3_1": "LLAMA3", "llama3_2": "LLAMA3_2", "llama3_3": "LLAMA3", "phi3": "PHI3_MINI",
    "qwen2_5": "QWEN2",
}  # fmt: skip
"""`ModelType`s of modules that are called otherwise (training/checkpointing/_utils.py)."""
_BUILDERS: Mapping[str, str] = {hub_id: name for name, hub_id in MODELS.items() if name in _FILES}
_TIED = ("gemma_2b", "gemma_7b", "gemma2_2b", "gemma2_9b", "gemma2_27b", "qwen2_0_5b", "qwen2_1_5b")
"""Builders whose adapters have no `apply_lora_to_output`: their head is the embedding."""
_PLAIN = ("llama3_1_405b",)
"""Builders whose adapters have no `use_dora`."""
_LISTED = 9
"""The most files of a checkpoint that are named one by one."""
_OUTPUT = "outputs/torchtune"
_USUAL: Mapping[str, Any] = {
    "output_dir": _OUTPUT,
    "seed": None, "shuffle": True, "epochs": 1, "max_steps_per_epoch": None, "resume_from_checkpoint": False,
    "device": "cuda", "dtype": "bf16", "batch_size": 1, "gradient_accumulation_steps": 1, "compile": False,
    "enable_activation_checkpointing": False, "enable_activation_offloading": False,
    "metric_logger._component_": "torchtune.training.metric_logging.DiskLogger",
    "metric_logger.log_dir": f"{_OUTPUT}/logs",
    "profiler._component_": "torchtune.training.setup_torch_profiler", "profiler.enabled": False,
}  # fmt: skip
"""Keys that recipes read without a default (recipes/*.py, `cfg.x`)."""
_SCHEDULE: Mapping[str, Any] = {
    "lr_scheduler._component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
    "lr_scheduler.num_warmup_steps": 100,
}
_LORA_OF = ("lora", "dora")
_ATTENTION, _FEED_FORWARD = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "down_proj", "up_proj")
_DEFAULT = ("q_proj", "v_proj")
"""Adapters' places by default, and those that one key stands for."""
_LENGTH = 4096
"""Positions of a model whose config says none."""
_GROUPS = 256
"""Weights that are rounded together (recipes/configs/llama2/7B_qat_full.yaml)."""


def _module(builder: str) -> str:
    """Return the module of a builder: `llama3_1_8b` is of `llama3_1`."""
    return max((name for name in _TOKENIZERS if builder.startswith(f"{name}_")), key=len)


def _component(builder: str, how: str = "") -> str:
    """Return the builder with its adapter in front and its checkpoint behind."""
    name = "_".join(filter(None, (builder, _VARIANTS.get(builder))))
    return f"torchtune.models.{_module(builder)}.{how}{name}"


def _checkpointer(key: str, builder: str) -> dict[str, Any]:
    """Return what loads a model from where `tune download` puts it (_cli/download.py)."""
    module, count = _module(builder), _FILES[builder]
    ending = ("pytorch_model", "bin") if module in _BINARY else ("model", "safetensors")
    form = "{}-{{}}-of-{{}}.{}".format(*ending)
    files: Any = {"filename_format": form, "max_filename": f"{count:05}"}
    if count == 1:
        files = [".".join(ending)]
    elif count <= _LISTED:
        files = [form.format(f"{each:05}", f"{count:05}") for each in range(1, count + 1)]
    listed = {"": files} if isinstance(files, list) else {f".{name}": value for name, value in files.items()}
    return {
        f"{key}._component_": "torchtune.training.FullModelHFCheckpointer",
        f"{key}.checkpoint_dir": f"/tmp/{MODELS[builder].rpartition('/')[2]}",  # noqa: S108
        **{f"{key}.checkpoint_files{name}": value for name, value in listed.items()},
        f"{key}.recipe_checkpoint": None,
        f"{key}.output_dir": _OUTPUT,
        f"{key}.model_type": _CHECKPOINTS.get(module, module.upper()),
    }


def _recipe(config: Config) -> str:
    """Return the recipe that runs a job (_recipe_registry.py)."""
    several = config[EngineSettings.type] == "fsdp" or (gpus_of(config) or 1) > 1
    adapted = config[Training.adapter.type] in _LORA_OF
    how, method = "distributed" if several else "single_device", config[Training.method.name]
    if method == "distill" and adapted:
        return f"knowledge_distillation_{how}"
    if method == "dpo" and (adapted or several):
        return f"lora_dpo_{how}" if adapted else "full_dpo_distributed"
    if config[Training.fake_quantization] and several:
        return "qat_lora_finetune_distributed" if adapted else "qat_distributed"
    return f"{'lora' if adapted else 'full'}_finetune_{how}"


def _launch(config: Config) -> str:
    """Return what starts the recipe; those for one device take no launcher's arguments (_cli/run.py)."""
    recipe = _recipe(config)
    spread = () if recipe.endswith("single_device") else ("--nnodes {nodes} --nproc_per_node {each}",)
    return " ".join(("tune run", *spread, recipe, "--config {file}"))


def _written(config: Config) -> dict[str, Any]:
    """Return the components of a recipe's config.

    Source: torchtune 0.6.1, recipes/configs/ and recipes/*.py; Qwen3 is of the commits since.
    """
    recipe, builder = _recipe(config), _BUILDERS.get(full_name(config.model) if isinstance(config.model, str) else "")
    keys: dict[str, Any] = dict(_SCHEDULE) if recipe.startswith(("lora", "know", "qat_lora", "full_dpo")) else {}
    data = "stack_exchange_paired_dataset" if "dpo" in recipe else "alpaca_cleaned_dataset"
    keys["dataset._component_"] = f"torchtune.datasets.{data}"
    if builder is not None:
        tokenizer, files = _TOKENIZERS[_module(builder)]
        folder = f"/tmp/{MODELS[builder].rpartition('/')[2]}"  # noqa: S108
        keys |= {"tokenizer._component_": f"torchtune.models.{tokenizer}",
                 **{f"tokenizer.{name}": f"{folder}/{file}" for name, file in files.items()},
                 **_checkpointer("checkpointer", builder), **_model_keys(config, builder)}  # fmt: skip
        if recipe.startswith("full_dpo"):
            keys |= _checkpointer("ref_checkpointer", builder)
    elif isinstance(config.model, Mapping):
        keys |= _sized(config.model, config[Training.sequence_length])
    keys |= _optimized(config) | _loss_keys(config, recipe)
    if recipe.startswith("qat"):
        keys |= {"quantizer._component_": f"torchtune.training.quantization.{_QUANTIZERS[0]}",
                 "quantizer.groupsize": _GROUPS}  # fmt: skip
    return keys


def _sized(model: Mapping[str, Any], length: int | None) -> dict[str, Any]:
    """Return a Llama of other sizes than those that have a builder of their own."""
    usual = {"num_key_value_heads": model.get("num_attention_heads"), "max_position_embeddings": length or _LENGTH}
    sized = {**usual, **model}
    if model.get("model_type") != "llama" or any(sized.get(ours) is None for ours in _DIMENSIONS.values()):
        return {}
    sizes = {f"model.{name}": sized[ours] for name, ours in _DIMENSIONS.items()}
    return {"model._component_": "torchtune.models.llama3_1.llama3_1", **sizes}


def _model_keys(config: Config, builder: str) -> dict[str, Any]:
    """Return the model's builder, with its adapter's places."""
    kind = config[Training.adapter.type]
    if kind not in _LORA_OF:
        return {"model._component_": _component(builder)}
    places = set(_places(config[Training.adapter.target_modules]))
    fused = {name: [each for each, whole in _TOGETHER.items() if whole == name] for name in set(_TOGETHER.values())}
    if _module(builder).startswith("phi"):
        places = {part for each in places for part in fused.get(each, [each])}
    attention = [each for each in _ATTENTION if each in places]
    if not places & {*_ATTENTION, *_FEED_FORWARD, "lm_head"}:
        attention = [*_DEFAULT]
    back = {theirs: ours for ours, theirs in _PLACES.items()}
    quantized = config[Training.quantization] == "nf4-double" and not builder.startswith("qwen")
    return {
        "model._component_": _component(builder, "qlora_" if quantized else "lora_"),
        "model.lora_attn_modules": [back.get(each, each) for each in attention],
        "model.apply_lora_to_mlp": bool(places & {*_FEED_FORWARD}),
        **({} if builder in _TIED else {"model.apply_lora_to_output": "lm_head" in places}),
        "model.lora_rank": config[Training.adapter.rank] or 8,
        "model.lora_alpha": 2 * (config[Training.adapter.rank] or 8),
        **({"model.use_dora": True} if kind == "dora" and builder not in _PLAIN else {}),
    }


def _places(named: Any) -> list[str]:
    """Return the matrices with adapters next to them, one by one."""
    return (
        [*_ATTENTION, *_FEED_FORWARD]
        if named in (None, "all-linear")
        else named
        if isinstance(named, list)
        else [named]
    )


def _optimized(config: Config) -> dict[str, Any]:
    """The optimizer's class and whether its step is one kernel, the norm that clips, and checkpoints of some layers."""
    name, how = config[Training.optimizer.name] or "adamw", config[Training.optimizer.implementation]
    own = how if how in ("bitsandbytes", "torchao") else None
    classes = {parts: theirs for theirs, parts in reversed([*_OPTIMIZERS.items()])}
    found = classes.get((name, own))
    keys: dict[str, Any] = {} if found is None else {"optimizer._component_": found, "optimizer.lr": _RATE}
    if found is not None and own is None:
        keys |= {"optimizer.foreach": False} if how == "for-loop" else {} if how == "foreach" else {
            "optimizer.fused": True}  # fmt: skip
    clips = config[Training.gradient_clipping] is not False
    keys["clip_grad_norm"] = 1.0 if clips else None
    every = config[Training.activation_checkpointing.every]
    if config[Training.activation_checkpointing.policy] == "selective" and every:
        keys |= {"ac_mode": "selective", "ac_option": every}
    return keys


_RATE = 2e-5


def _loss_keys(config: Config, recipe: str) -> dict[str, Any]:
    """Return the loss, and the teacher's."""
    if "dpo" in recipe:
        return {"loss._component_": "torchtune.rlhf.loss.DPOLoss"}
    chunked = str(config[Training.loss]).startswith("chunked")
    modules = "torchtune.modules.loss"
    keys = {"loss._component_": f"{modules}.CEWithChunkedOutputLoss" if chunked else "torch.nn.CrossEntropyLoss"}
    if not recipe.startswith("knowledge"):
        return keys
    teacher = config[Training.method.teacher]
    builder = _BUILDERS.get(full_name(teacher)) if isinstance(teacher, str) else None
    divergence = next(name for name, parts in _DIVERGENCES.items() if parts is chunked)
    keys |= {"kd_loss._component_": f"{modules}.{divergence}"}
    if builder is not None:
        keys |= {"teacher_model._component_": _component(builder), **_checkpointer("teacher_checkpointer", builder)}
    return keys


_TENSOR_PLAN = {"tensor_parallel_plan._component_": "torchtune.models.llama3.base_llama_tp_plan"}
"""How matrices are split, which a recipe asks for."""
TORCHTUNE = Tool(
    name="torchtune",
    title="torchtune",
    syntax="yaml",
    engines=("none", "fsdp"),
    tells=("model._component_", "checkpointer._component_", "metric_logger._component_"),
    model=MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name="batch_size"),
        Key(path=Training.gradient_accumulation_steps, name="gradient_accumulation_steps"),
        Key(path=Training.sequence_length, name="tokenizer.max_seq_len"),
        Key(path=Training.packed_sequences, name="dataset.packed"),
        Key(path=Training.compile, name="compile"),
        Key(path=Training.adapter.rank, name="model.lora_rank"),
        Key(path=Training.adapter.dropout, name="model.lora_dropout"),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.target_modules, name=_TARGETS, spelled=_places),
        Key(path=Training.quantization, name=_BITS),
        Key(path=Training.fake_quantization, name=_ROUNDS),
        Key(path=Training.optimizer.name, name=_OPTIMIZER),
        Key(path=Training.optimizer.implementation, name=_HOW),
        Key(path=Training.loss, name=_LOSS),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY),
        Key(path=Training.activation_checkpointing.every, name=_EVERY),
        Key(path=Training.method.name, name=METHOD),
        Key(path=Training.method.teacher, name=_TEACHER),
        Key(path=TorchSettings.optimizer_in_bwd, name="optimizer_in_bwd"),
        Key(path=TorchSettings.cpu_offload, name="fsdp_cpu_offload"),
        Key(path=TorchSettings.reshard_after_forward, name="fsdp_reshard_after_forward"),
        Key(path=Parallelism.tensor_parallel_size, name="tensor_parallel_dim"),
        Key(path=Parallelism.context_parallel_size, name="context_parallel_dim"),
        Key(path=Parallelism.data_parallel_shard_size, name="data_parallel_shard_dim"),
        Key(path=EngineSettings.type, name=ENGINE),
        Key(path=EngineSettings.version, name=_NAME),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
    ),
    meanings=(
        Meaning(sets={}, keys=_TENSOR_PLAN),
        Meaning(sets={Training.precision: "bf16"}, keys={"dtype": "bf16"}),
        Meaning(sets={Training.precision: "fp32"}, keys={"dtype": "fp32"}),
        Meaning(
            sets={Training.activation_checkpointing.policy: "full"}, keys={"enable_activation_checkpointing": True}
        ),
        Meaning(sets={Training.offload.activations: "cpu"}, keys={"enable_activation_offloading": True}),
    ),
    normalized=_normalized,
    settles=("model._component_", "loss.num_output_chunks",
              "model.lora_*", "model.apply_lora_*", "model.use_dora", "model.*_trainable",
             "optimizer._component_", "optimizer.fused", "loss._component_", "clip_grad_norm", "ac_mode", "ac_option",
             "teacher_model.*", "ref_policy*", "quantizer.*", "kd_*"),
    vocabulary=("torchtune",),
    ignored=("checkpointer.*", "ref_checkpointer.*", "teacher_checkpointer.*",
             "metric_logger.*", "profiler.*", "tokenizer.*", "dataset.*",
             "dataset_val.*", "lr_scheduler.*", "optimizer.*", "loss.*", "device", "batch_size_val", "name",
             "data_parallel_replicate_dim", "model.lora_alpha", "output_dir", "*_dir"),
    copies="data_parallel_replicate_dim",
    needs={EngineSettings.framework: "torchtune"},
    always=_USUAL,
    launch_of=_launch,
    written=_written,
    adapters=_LORA_OF,
    implied={Training.loss: {"cross-entropy-fp32": {Training.method.name: "dpo"}}},
    alongside={"tensor_parallel_dim": next(iter(_TENSOR_PLAN.items()))},
    unsaid={
        **dict.fromkeys((
            Training.precision, Training.micro_batch_size, Training.gradient_accumulation_steps,
            Training.sequence_length, Training.loss, Training.optimizer.name, Training.optimizer.implementation,
            Training.adapter.target_modules, Training.adapter.rank, EngineSettings.version,
        )),
        Training.activation_checkpointing.policy: "none",
    },
    source="torchtune, recipes/",
)  # fmt: skip
