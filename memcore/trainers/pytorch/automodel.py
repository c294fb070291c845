"""NeMo Automodel's recipes, whose model, optimizer and loss are named by `_target_`."""

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
from memcore.formats.normalized import GPUS, MODEL, Normalized
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import full_name
from memcore.tools.derived import data_ranks
from memcore.tools.own_keys import DISPATCHER
from memcore.tools.towers import FREEZES, TRAINABLE, keys_of_towers, sees, trained_parts
from memcore.trainers.pytorch.automodel_optimizers import KEYS, read_optimizer, written_optimizer
from memcore.trainers.pytorch.settings import TorchSettings

_RECIPES = ("TrainFinetuneRecipeForNextTokenPrediction", "FinetuneRecipeForVLM", "FinetuneRecipeForNextTokenPrediction",
            "BenchmarkingRecipeForNextTokenPrediction")  # fmt: skip
_TAUGHT = ("KnowledgeDistillationRecipeForNextTokenPrediction", "KnowledgeDistillationRecipeForVLM")
"""Recipes with a teacher, next to the first two of the others."""
_MODELS = ("NeMoAutoModelForCausalLM", "NeMoAutoModelForImageTextToText", "NeMoAutoModelForMultimodalLM")
_ENGINE, _VERSION, _FRAMEWORK = "*engine", "*version", "*framework"
_PRECISION, _LOSS, _SHIFT = "*precision", "*loss", "*shift"
_ADAPTER, _TARGETS, _BITS, _LENGTH, _PACKED = "*adapter", "*targets", "*bits", "*length", "*packed"
_POLICY, _SHARDS, _CLIPS = "*policy", "*shards", "*clips"
_METHOD, _TEACHER = "*method", "*teacher"
_RESHARDS, _STORED, _NO_SYNC = "*reshards", "*stored", "*no_sync"
_DEFERS = "distributed.defer_fsdp_grad_sync"
_STRATEGIES: Mapping[str, tuple[str, int | None]] = {"fsdp2": ("fsdp", 2), "ddp": ("ddp", None)}
_DTYPES: Mapping[str, str] = {
    "auto": "bf16", "bf16": "bf16", "bfloat16": "bf16", "fp32": "fp32", "float32": "fp32", "fp16": "fp16",
    "float16": "fp16",
}  # fmt: skip
"""Dtypes of weights; a published checkpoint's own is taken to be bf16."""
_LOSSES: Mapping[str, str] = {
    "MaskedCrossEntropy": "cross-entropy-fp32", "FusedLinearCrossEntropy": "cut-cross-entropy",
}  # fmt: skip
_DISPATCHERS: Mapping[str, str] = {"deepep": "deepep", "uccl_ep": "deepep", "hybridep": "hybridep"}
"""How tokens reach experts that ranks share (components/models/common/utils.py, `BackendConfig.dispatcher`). UCCL-EP
has DeepEP's interface."""
_RANKS_EACH = "distributed.tp_size"
_PIPELINED, _ROUNDS = "distributed.pipeline.pp_microbatch_size", "*rounds"
_BATCH, _STEP = "step_scheduler.local_batch_size", "step_scheduler.global_batch_size"
_OFF = (None, False, "none", "None", "null", 0)
_LENGTHS = (
    "dataset.seq_length",
    "dataset.seq_len",
    "dataset.max_seq_length",
    "dataset.block_size",
    "dataloader.collate_fn.max_length",
)
_UNCUT = re.compile(r"\.(?:agent_chat|chat_dataset|column_mapped\w*|squad|xlam)\.")
"""Data sets that cut samples only where they are told to (components/datasets/llm/*.py, `truncation`; agent_chat.py
warns that `seq_length` has no effect otherwise)."""
_PACKS = ("packed_sequence.packed_sequence_size", "packed_sequence.pack_size")
_CLASS = re.compile(r"\bmodels\.(\w+)\.\w+\.\w+Config$")
"""`transformers.models.qwen3_moe.configuration_qwen3_moe.Qwen3MoeConfig`, with its model_type."""


def _last(target: object) -> str:
    return str(target).rpartition(".")[2]


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a recipe of Automodel in plain words.

    Weights have the checkpoint's dtype, in which the optimizer keeps its states too; FSDP2 computes in bf16.
    Source: NeMo Automodel 0.5 (August 2026), components/distributed/config.py (`FSDP2Config`), recipes/_dist_utils.py,
    recipes/llm/train_ft.py, _transformers/auto_model.py, components/_peft/lora.py, components/loss/*.py,
    components/training/step_scheduler.py.
    """
    without = "fp8." if found.get("fp8.enabled") in _OFF else None  # what its section says is of no account then
    normalized: dict[str, Any] = {
        **{name: value for name, value in found.items() if without is None or not name.startswith(without)},
        _FRAMEWORK: "nemo-automodel",
    }
    notes: list[str] = []
    recipe = _last(found.get("recipe", _RECIPES[0]))
    if recipe not in (*_RECIPES, *_TAUGHT):
        known = joined(", ", (*_RECIPES, *_TAUGHT))
        raise UnsupportedError.of_value("recipe", found["recipe"], Message("supported: {}", known))
    if recipe in _TAUGHT:
        _teacher(normalized, notes)
    _model(normalized, notes)
    _shards(normalized, notes)
    dtype = _last(normalized.pop("model.torch_dtype", "auto")).lower()
    if dtype not in _DTYPES:
        raise UnsupportedError.of_value("model.torch_dtype", dtype, Message("supported: {}", joined(", ", _DTYPES)))
    fp32 = _DTYPES[dtype] == "fp32"
    normalized[_PRECISION] = "bf16-mixed" if fp32 and normalized[_ENGINE] == "fsdp" else _DTYPES[dtype]
    _float8(normalized, notes, _DTYPES[dtype])
    _loss(normalized)
    read_optimizer(normalized)
    _adapter(normalized, notes)
    if _ADAPTER not in normalized and any(name.startswith("freeze_config") for name in found):
        normalized |= trained_parts("nemo-automodel", normalized, normalized.get(MODEL))
    _lengths(normalized, notes)
    _checkpoints(normalized, notes)
    normalized[_CLIPS] = normalized.pop("clip_grad_norm.max_norm", 1.0) not in _OFF
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


_TEACHES: Mapping[str, Any] = {
    "separate_meshes": False, "offload_teacher_model": False, "kd_loss_fn.chunk_size": 0,
    "kd_loss_fn.fp32_upcast": True,
}  # fmt: skip


def _teacher(normalized: dict[str, Any], notes: list[str]) -> None:
    """A frozen teacher, and weights in fp32 where nothing is said and PyTorch's optimizer trains all of them.

    Source: recipes/llm/kd.py (`_build_teacher_model`: shared out as the model is; `setup`),
    components/optim/precision_warnings.py (`resolve_storage_dtype`), components/loss/kd_loss.py.
    """
    for name, usual in _TEACHES.items():
        given = normalized.pop(name, usual)
        if given != usual:
            raise UnsupportedError.of_value(name, given, Message("supported: {}", str(usual).lower()))
    for name in ("teacher_model._target_", "kd_loss_fn._target_"):
        normalized.pop(name, None)
    name = normalized.pop("teacher_model.pretrained_model_name_or_path", None)
    if not isinstance(name, str):
        raise UnsupportedError("teacher_model", "names no checkpoint; supported: {}", "pretrained_model_name_or_path")
    normalized |= {_METHOD: "distill", _TEACHER: name}
    dtype = normalized.pop("teacher_model.torch_dtype", "auto")
    if normalized.get("kd_ratio") in (1, 1.0):
        notes.append("kd_ratio is 1: the cross-entropy, which is then left out, is counted all the same")
    own = str(normalized.get("optimizer._target_", "torch.optim.AdamW")).startswith("torch.optim")
    adapted = any(each.startswith("peft") for each in normalized)
    if own and not adapted and normalized.get("model.torch_dtype", "auto") == "auto":
        normalized["model.torch_dtype"] = "float32"
    stored = (_DTYPES.get(_last(each).lower()) for each in (dtype, normalized.get("model.torch_dtype", "auto")))
    if len({*stored}) > 1:
        notes.append(
            "the teacher is counted in the dtype of the model's weights, which teacher_model.torch_dtype is not"
        )


def _model(normalized: dict[str, Any], notes: list[str]) -> None:
    """The model by its name, or by the class and keys of its config."""
    target = str(normalized.pop("model._target_", None))
    if not any(name in target for name in _MODELS):
        raise UnsupportedError.of_value("model._target_", target, Message("supported: {}", joined(", ", _MODELS)))
    name = normalized.pop("model.pretrained_model_name_or_path", None)
    name = normalized.pop("model.config.pretrained_model_name_or_path", name)
    name = name or normalized.pop("model.config", None)
    if isinstance(name, str):
        normalized[MODEL] = name
        if "model.use_liger_kernel" not in normalized:
            notes.append(
                "model.use_liger_kernel is not given: families without Automodel's own code get Liger's kernels, which "
                "are not counted; set them with --implementation liger"
            )
        return
    kind = _CLASS.search(str(normalized.pop("model.config._target_", "")))
    if kind is not None:
        start = "model.config."
        keys = {key.removeprefix(start): normalized.pop(key) for key in [*normalized] if key.startswith(start)}
        normalized[MODEL] = {"model_type": kind[1], **keys}


def _shards(normalized: dict[str, Any], notes: list[str]) -> None:
    """The engine, and how ranks share the model."""
    start = "distributed."
    strategy = str(normalized.pop(f"{start}strategy", "fsdp2"))
    if strategy not in _STRATEGIES:
        raise UnsupportedError.of_value(
            f"{start}strategy", strategy, Message("supported: {}", joined(", ", _STRATEGIES))
        )
    normalized[_ENGINE], normalized[_VERSION] = _STRATEGIES[strategy]
    for name in ("dp_size", "dp_replicate_size", "tp_size", "cp_size", "pp_size", "ep_size"):
        if normalized.get(f"{start}{name}") in _OFF:
            normalized.pop(f"{start}{name}", None)
    sizes = [normalized.get(f"{start}{name}", 1) for name in ("tp_size", "cp_size", "pp_size", "ep_size")]
    if normalized.get(f"{start}dp_size", normalized.get(GPUS)) == 1 and all(size == 1 for size in sizes):
        normalized[_ENGINE], normalized[_VERSION] = (
            "none",
            None,
        )  # a world of one is not sharded (fsdp2.py, `parallelize`)
    if normalized.get(_RANKS_EACH, 1) != 1:  # components/distributed/config.py (`FSDP2Config.sequence_parallel`)
        normalized.setdefault(f"{start}sequence_parallel", False)
    _stages(normalized)
    _experts(normalized, notes)
    _deferred(normalized, notes)
    copies = normalized.pop(f"{start}dp_replicate_size", 1)
    ranks = normalized.get(f"{start}dp_size")
    if copies != 1 and isinstance(ranks, int) and isinstance(copies, int) and ranks % copies == 0:
        normalized[_SHARDS] = ranks // copies
    elif copies != 1:
        notes.append(Message("distributed.dp_replicate_size is {}: set the number of sharding ranks with --dp-shard",
                             copies))  # fmt: skip


def _deferred(normalized: dict[str, Any], notes: list[str]) -> None:
    """Whether gradients stay unsharded until the last micro-batch, which nothing says with DDP or on one rank.

    Source: components/distributed/utils.py (`get_sync_ctx`: DDP always waits), components/moe/fsdp_mixin.py
    (`patched_backward_maybe_with_nosync`: since 0.5 a pipeline's stages reduce after each micro-batch if told to).
    """
    deferred = normalized.pop(_DEFERS, None)
    if not isinstance(deferred, bool) or normalized[_ENGINE] != "fsdp":
        return
    normalized[_NO_SYNC] = deferred
    if not deferred and normalized.get("distributed.pp_size", 1) != 1:
        notes.append(
            "distributed.defer_fsdp_grad_sync is false: in a pipeline, gradients are counted unsharded until the last "
            "micro-batch all the same, which overestimates"
        )


def _stages(normalized: dict[str, Any]) -> None:
    """The sequences of a stage's micro-batch, into which those of a rank are split.

    Source: components/distributed/pipelining/config.py (`PipelineConfig.pp_microbatch_size`: 1), autopipeline.py
    (`pp_batch_size` is the local batch, which it divides).
    """
    each = normalized.pop("autopipeline.pp_microbatch_size", 1)
    each = normalized.pop(_PIPELINED, each)
    if normalized.get("distributed.pp_size", 1) == 1:
        return
    batch = normalized.get(_BATCH, 1)
    if isinstance(batch, int) and isinstance(each, int) and each > 0:
        if batch % each:
            raise UnsupportedError.of_value(_PIPELINED, each, Message("it does not divide {} {}", _BATCH, batch))
        normalized[_BATCH] = each
        if not isinstance(normalized.get(_STEP), int):
            normalized[_ROUNDS] = batch // each


def _experts(normalized: dict[str, Any], notes: list[str]) -> None:
    """Where ranks share experts: the dispatcher, and whether parameters stay gathered after the forward pass.

    Source: components/models/common/utils.py (`BackendConfig`: DeepEP where it is installed), _transformers/
    infrastructure.py (what `distributed` says of resharding goes before `distributed.moe`).
    """
    own = normalized.pop("distributed.moe.reshard_after_forward", None)
    normalized[_RESHARDS] = normalized.pop("distributed.reshard_after_forward", None)
    given = normalized.pop("model.backend.dispatcher", None)
    if "distributed.ep_size" not in normalized:
        return
    normalized[_RESHARDS] = own if normalized[_RESHARDS] is None else normalized[_RESHARDS]
    if normalized["distributed.ep_size"] == 1:  # no rank sends rows to another
        return
    normalized[DISPATCHER] = _DISPATCHERS.get(str(given or "deepep"))
    if normalized[DISPATCHER] is None:
        notes.append(
            Message(
                "model.backend.dispatcher is {}: counted as all-to-all with one row per token and expert",
                given,
            )
        )


def _float8(normalized: dict[str, Any], notes: list[str], stored: str) -> None:
    """Products of linear layers in float8, whose weights keep the checkpoint's dtype.

    Source: components/quantization/fp8.py (`apply_fp8_to_model`: tensorwise where no recipe is named, whatever is in
    `filter_fqns` left out), components/models/common/utils.py (`TEFp8Config`).
    """
    engine = normalized.get("model.backend.te_fp8.recipe", normalized.get("model.backend.te_fp8"))
    if engine is not None:
        raise UnsupportedError.of_value(
            "model.backend.te_fp8",
            engine,
            "FP8 weights and inputs that TransformerEngine saves are not supported yet; without it, bf16 is counted",
        )
    if normalized.pop("fp8.enabled", None) in _OFF:
        return
    if any(name.startswith("peft") for name in normalized):
        raise UnsupportedError.of_value(
            "fp8.enabled", True, "with peft, float8 products are not supported yet; leave one of them out"
        )
    normalized |= {_STORED: stored, _PRECISION: "fp8-mixed"}
    if normalized.get("fp8.recipe_name") == "rowwise_with_gw_hp":
        normalized["fp8.recipe_name"] = "rowwise"
        notes.append("fp8.recipe_name rowwise_with_gw_hp: gradients of weights are counted as float8 products too")
    left = normalized.pop("fp8.filter_fqns", None)
    listed = [str(each) for each in left] if isinstance(left, list) else []
    if "lm_head" not in listed:
        notes.append("fp8.filter_fqns does not list lm_head: its float8 product is not counted")
    others = [each for each in listed if each != "lm_head"]
    if others:
        notes.append(Message("fp8.filter_fqns: {} are counted as float8 products too", joined(", ", others)))


def _loss(normalized: dict[str, Any]) -> None:
    """The loss, which is computed outside of the model."""
    target = normalized.pop("loss_fn._target_", "MaskedCrossEntropy")
    loss = _last(target)
    if loss not in _LOSSES:
        raise UnsupportedError.of_value("loss_fn._target_", target, Message("supported: {}", joined(", ", _LOSSES)))
    upcast = normalized.pop("loss_fn.fp32_upcast", True)
    normalized[_LOSS] = "cross-entropy" if loss == "MaskedCrossEntropy" and upcast is False else _LOSSES[loss]
    if loss == "MaskedCrossEntropy":
        normalized[_SHIFT] = "labels-preshifted"


def _adapter(normalized: dict[str, Any], notes: list[str]) -> None:
    """LoRA, and quantized weights under it."""
    start = "peft."
    given = {name for name in normalized if name.startswith(start)}
    if given and _last(normalized.pop(f"{start}_target_", "PeftConfig")) != "PeftConfig":
        raise UnsupportedError.of_value(f"{start}_target_", "", "supported: PeftConfig")
    if given:
        normalized[_ADAPTER] = "dora" if normalized.pop(f"{start}use_dora", False) is True else "lora"
        normalized.setdefault(f"{start}dim", 8)
        normalized[_TARGETS] = _targets(normalized.pop(f"{start}target_modules", []))
        if normalized.pop(f"{start}match_all_linear", False) is True:
            normalized[_TARGETS] = "all-linear"
        left = normalized.pop(f"{start}exclude_modules", None)
        listed = left if isinstance(left, list) else [left] if left else []
        if [
            each
            for each in listed
            if not re.search("lm_head|vision|visual|image_encoder|audio|router|gate$", str(each))
        ]:
            notes.append(
                Message(
                    "peft.exclude_modules: memcore also counts adapters on {}, which overestimates",
                    joined(", ", listed),
                )
            )
    if normalized.pop("quantization.load_in_4bit", False) is True:
        double = normalized.pop("quantization.bnb_4bit_use_double_quant", False) is True
        kind = str(normalized.pop("quantization.bnb_4bit_quant_type", "nf4"))
        normalized[_BITS] = f"{kind}-double" if double else kind
    elif normalized.pop("quantization.load_in_8bit", False) is True:
        normalized[_BITS] = "int8"


def _targets(found: object) -> object:
    """Names of layers from patterns such as `*_proj` and `*.q_proj`; a pattern of many names is all linear layers."""
    listed = [str(each) for each in found] if isinstance(found, list) else [str(found)]
    ends = [each.rpartition(".")[2].lstrip("*") for each in listed]
    if not listed or any(each in ("", "_proj", "proj") for each in ends):
        return "all-linear"
    return list(dict.fromkeys(ends))


def _lengths(normalized: dict[str, Any], notes: list[str]) -> None:
    """Tokens of a sequence, where packing or the data set says it."""
    packed = next(
        (normalized.pop(name) for name in _PACKS if normalized.get(name) not in _OFF), 0
    )  # components/datasets/llm/neat_packing.py
    if packed not in _OFF:
        normalized |= {_LENGTH: packed, _PACKED: True}
        return
    normalized[_LENGTH] = next((normalized[name] for name in _LENGTHS if normalized.get(name) not in _OFF), None)
    chats, cuts = _UNCUT.search(str(normalized.get("dataset._target_"))), normalized.get("dataset.truncation")
    if chats and normalized.get("dataset.seq_length") is not None and cuts in (*_OFF, "do_not_truncate"):
        notes.append(
            "dataset.truncation is off, so samples longer than dataset.seq_length are not cut: the longest one "
            "decides; set its length with --seq"
        )
    if normalized[_LENGTH] is None:
        notes.append("no sequence length is given, so it depends on the data; set the length with --seq")


def _checkpoints(normalized: dict[str, Any], notes: list[str]) -> None:
    """Checkpoints of whole layers where experts are shared out, else of attention, norms and feed-forward layers apart.

    Source: components/distributed/activation_checkpointing.py, `apply_submodule_checkpointing`; components/moe/
    parallelizer.py, `apply_ac`.
    """
    earlier = normalized.pop("parallelizer.activation_checkpointing", False)  # before distributed had it
    said = normalized.pop("distributed.activation_checkpointing", earlier)
    if said in (True, "full"):
        normalized[_POLICY] = "full"
        if "distributed.ep_size" not in normalized:
            notes.append(
                "attention, norms and feed-forward layers are checkpointed separately, keeping up to four inputs per "
                "layer: counted as whole layers, which keep one"
            )
    elif said == "selective":
        normalized[_POLICY] = "selective"
    elif said not in _OFF:
        raise UnsupportedError.of_value(
            "distributed.activation_checkpointing", said, "supported: true, false, 'full' and 'selective'"
        )


_PACKAGE = "nemo_automodel"
_ALWAYS: Mapping[str, Any] = {
    "dist_env.backend": "nccl", "dist_env.timeout_minutes": 5,
    "dataset._target_": f"{_PACKAGE}.components.datasets.llm.squad.make_squad_dataset",
    "dataset.dataset_name": "rajpurkar/squad", "dataset.split": "train", "dataset.truncation": True,
    "dataloader._target_": "torchdata.stateful_dataloader.StatefulDataLoader",
    "dataloader.collate_fn": f"{_PACKAGE}.components.datasets.utils.default_collater",
}  # fmt: skip
"""What a recipe reads besides (docs/guides/llm/finetune.md)."""
_IMAGES: Mapping[str, Any] = {
    "dataset._target_": f"{_PACKAGE}.components.datasets.vlm.datasets.make_cord_v2_dataset",
    "dataset.path_or_dataset": "naver-clova-ix/cord-v2", "dataset.split": "train",
    "dataloader._target_": "torchdata.stateful_dataloader.StatefulDataLoader",
}  # fmt: skip
_ADAPTED = ("lora", "dora")
_FREEZES = keys_of_towers("nemo-automodel")


def _written(config: Config) -> dict[str, Any]:
    """Return the sections of a recipe: model, ranks, loss, optimizer, adapter and lengths."""
    pictures = sees(config.model)
    said = config[Training.method.teacher]
    teacher = said if isinstance(said, str) else None
    keys: dict[str, Any] = {
        "recipe": (_TAUGHT if teacher else _RECIPES)[1 if pictures else 0],
        **(_IMAGES if pictures else _ALWAYS),
        "model._target_": f"{_PACKAGE}.{_MODELS[1 if pictures else 0]}.from_pretrained",
        "clip_grad_norm.max_norm": 1.0,
    }
    if isinstance(config.model, str):
        keys["model.pretrained_model_name_or_path"] = full_name(config.model)
    if config[Training.implementation] != "liger":
        keys["model.use_liger_kernel"] = False
    if teacher:
        keys |= {
            "teacher_model._target_": keys["model._target_"],
            "teacher_model.pretrained_model_name_or_path": full_name(teacher),
            "kd_loss_fn._target_": f"{_PACKAGE}.components.loss.kd_loss.KDLoss",
        }  # fmt: skip
    length = config[Training.sequence_length]
    if length:
        keys |= {"dataset.seq_length": length}
        keys |= {"packed_sequence.packed_sequence_size": length} if config[Training.packed_sequences] else {}
    return {**keys, **_dtypes(config), **_ranks(config), **_losses(config), **written_optimizer(config),
            **_adapted(config), **_FREEZES(config)}  # fmt: skip


def _dtypes(config: Config) -> dict[str, Any]:
    """Return the dtype of the weights, in which the optimizer keeps its states, and float8 products."""
    precision, sharded = config[Training.precision], config[EngineSettings.type] == "fsdp"
    kept = {"bf16-mixed": "fp32" if sharded else "bf16", "fp8-mixed": config[Training.parameter_dtype] or "fp32"}
    word = {"fp32": "float32", "fp16": "float16"}.get(kept.get(str(precision), str(precision)), "bfloat16")
    keys: dict[str, Any] = {"model.torch_dtype": word}
    if precision == "fp8-mixed" and config[Training.adapter.type] not in _ADAPTED:
        keys |= {"fp8.enabled": True, "fp8.filter_fqns": ["lm_head"]}
    return keys


def _ranks(config: Config) -> dict[str, Any]:
    """How ranks share the model, and what FSDP and checkpoints keep."""
    start, engine = "distributed.", config[EngineSettings.type] or "none"
    keys: dict[str, Any] = {f"{start}strategy": "ddp" if engine == "ddp" else "fsdp2"}
    ranks, shards = data_ranks(config), config[Parallelism.data_parallel_shard_size]
    if engine == "none":
        keys[f"{start}dp_size"] = 1
    elif ranks and shards and ranks > shards and ranks % shards == 0:
        keys |= {f"{start}dp_size": ranks, f"{start}dp_replicate_size": ranks // shards}
    stages = config[Parallelism.pipeline_parallel_size] or 1
    if stages > 1:
        each = config[Training.micro_batch_size] or 1
        keys |= {_PIPELINED: each, _BATCH: each * (config[Training.gradient_accumulation_steps] or stages)}
    if stages > 1 and config[Parallelism.pipeline_schedule] is None:
        keys[f"{start}pipeline.pp_schedule"] = "1f1b"
    reshards = config[TorchSettings.reshard_after_forward]
    keys |= {f"{start}reshard_after_forward": reshards} if isinstance(reshards, bool) else {}
    waits = config[TorchSettings.no_sync]
    keys |= {_DEFERS: waits} if isinstance(waits, bool) and engine == "fsdp" else {}
    dispatcher = {ours: theirs for theirs, ours in reversed([*_DISPATCHERS.items()])}.get(
        str(config[TorchSettings.moe_token_dispatcher])
    )
    if dispatcher and (config[Parallelism.expert_parallel_size] or 1) > 1:
        keys["model.backend.dispatcher"] = dispatcher
    policy = config[Training.activation_checkpointing.policy]
    said: Mapping[str, Any] = {"full": True, "selective": "selective"}
    keys |= {f"{start}activation_checkpointing": said[str(policy)]} if str(policy) in said else {}
    return keys


def _losses(config: Config) -> dict[str, Any]:
    """Return the loss."""
    loss = config[Training.loss]
    fused = loss == "cut-cross-entropy"
    module = "linear_ce.FusedLinearCrossEntropy" if fused else "masked_ce.MaskedCrossEntropy"
    keys: dict[str, Any] = {"loss_fn._target_": f"{_PACKAGE}.components.loss.{module}"}
    keys |= {"loss_fn.fp32_upcast": False} if loss == "cross-entropy" else {}
    return keys


def _adapted(config: Config) -> dict[str, Any]:
    """LoRA with the names of its layers, and 4 or 8 bits under it."""
    kind, places = config[Training.adapter.type], config[Training.adapter.target_modules]
    if kind not in _ADAPTED:
        return {}
    rank = config[Training.adapter.rank] or 8
    keys: dict[str, Any] = {
        "peft._target_": f"{_PACKAGE}.components._peft.lora.PeftConfig", "peft.dim": rank, "peft.alpha": 2 * rank,
        "peft.use_dora": kind == "dora",
    }  # fmt: skip
    if places in (None, "all-linear"):
        keys["peft.match_all_linear"] = True
    else:
        listed = places if isinstance(places, list) else [places]
        keys["peft.target_modules"] = [f"*.{each}" for each in listed]
    word, _, double = str(config[Training.quantization]).partition("-")
    if word in ("nf4", "fp4"):
        keys |= {"quantization.load_in_4bit": True, "quantization.bnb_4bit_quant_type": word,
                 "quantization.bnb_4bit_use_double_quant": bool(double),
                 "quantization.bnb_4bit_compute_dtype": "bfloat16"}  # fmt: skip
    elif word == "int8":
        keys["quantization.load_in_8bit"] = True
    return keys


AUTOMODEL = Tool(
    name="nemo-automodel",
    title="NeMo Automodel",
    syntax="yaml",
    engines=("fsdp", "ddp", "none"),
    tells=("step_scheduler", "model._target_"),
    model=MODEL,
    keys=(
        Key(path=Training.micro_batch_size, name=_BATCH),
        Key(path=Training.gradient_accumulation_steps, name=_ROUNDS),
        Key(path=Training.compile, name="compile.enabled"),
        Key(path=Training.adapter.rank, name="peft.dim"),
        Key(path=Training.adapter.dropout, name="peft.dropout"),
        Key(path=Training.attention, name="model.attn_implementation",
            values={"flash": "flash_attention_2", "sdpa": "sdpa", "math": "eager", "flex": "flex_attention"}),
        Key(path=Parallelism.data_parallel_size, name="distributed.dp_size"),
        Key(path=Parallelism.tensor_parallel_size, name="distributed.tp_size"),
        Key(path=Parallelism.context_parallel_size, name="distributed.cp_size"),
        Key(path=Parallelism.pipeline_parallel_size, name="distributed.pp_size"),
        Key(path=Parallelism.expert_parallel_size, name="distributed.ep_size"),
        Key(path=Parallelism.sequence_parallel, name="distributed.sequence_parallel"),
        Key(path=Parallelism.data_parallel_shard_size, name=_SHARDS),
        Key(path=Parallelism.pipeline_schedule, name="distributed.pipeline.pp_schedule",
            values={"1f1b": "1f1b", "gpipe": "gpipe", "interleaved-1f1b": "interleaved1f1b", "zbv": "ZBVZeroBubble"}),
        Key(path=TorchSettings.reshard_after_forward, name=_RESHARDS),
        Key(path=TorchSettings.no_sync, name=_NO_SYNC),
        Key(path=TorchSettings.moe_token_dispatcher, name=DISPATCHER),
        Key(path=TorchSettings.enable_async_tensor_parallel, name="distributed.enable_async_tensor_parallel"),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=EngineSettings.type, name=_ENGINE),
        Key(path=EngineSettings.version, name=_VERSION),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.parameter_dtype, name=_STORED),
        Key(path=EngineSettings.fp8_recipe, name="fp8.recipe_name"),
        Key(path=TorchSettings.enable_fsdp_float8_all_gather, name="fp8.enable_fsdp_float8_all_gather"),
        Key(path=Training.trainable, name=TRAINABLE),
        Key(path=Training.gradient_clipping, name=_CLIPS),
        Key(path=Training.loss, name=_LOSS),
        Key(path=Training.loss_shift, name=_SHIFT),
        *KEYS,
        Key(path=Training.method.name, name=_METHOD),
        Key(path=Training.method.teacher, name=_TEACHER),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.target_modules, name=_TARGETS),
        Key(path=Training.quantization, name=_BITS),
        Key(path=Training.sequence_length, name=_LENGTH),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.activation_checkpointing.policy, name=_POLICY),
    ),
    meanings=(
        Meaning(sets={Training.implementation: "liger"}, keys={"model.use_liger_kernel": True}),
        Meaning(sets={TorchSettings.cpu_offload: True},
                keys={"distributed.offload_policy._target_": "torch.distributed.fsdp.CPUOffloadPolicy"}),
    ),
    normalized=_normalized,
    settles=("recipe", "model.*", "teacher_model*", "separate_meshes", "offload_teacher_model", "kd_loss_fn*",
             "distributed.strategy", "distributed.dp_*", "distributed.activation_checkpointing",
             "distributed.reshard_after_forward", _DEFERS, "distributed.moe.*", "parallelizer.activation_checkpointing",
             "loss_fn*", "optimizer*", "peft*", "fp8.enabled", "fp8.filter_fqns", "quantization*", "packed_sequence*",
             "clip_grad_norm*", *FREEZES["nemo-automodel"].keys, *_LENGTHS, _PIPELINED,
             "autopipeline.pp_microbatch_size", _BATCH),
    batch=_STEP,
    defaults={Training.micro_batch_size: 1},
    vocabulary=("nemo-automodel",),
    ignored=("dataset.*", "validation_dataset*", "dataloader.*", "validation_dataloader.*", "dist_env.*", "rng.*",
             "checkpoint.*", "wandb.*", "mlflow.*", "comet.*", "ci.*", "lr_scheduler.*", "step_scheduler.*",
             "benchmark.*", "processor.*", "tokenizer.*", "optimizer.lr", "optimizer.betas", "optimizer.eps",
             "optimizer.weight_decay", "peft.alpha", "peft.use_triton", "peft.dropout_position", "peft.lora_A_init",
             "packed_sequence.*", "model.trust_remote_code", "seed", "slurm.*", "auto_resume*", "*.name_or_path",
             "kd_ratio", "kd_loss_fn.temperature", "kd_loss_fn.ignore_index", "teacher_model.trust_remote_code"),
    needs={EngineSettings.framework: "nemo-automodel"},
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} -m nemo_automodel.cli.app {file}",
    written=_written,
    adapters=_ADAPTED,
    only_with={
        EngineSettings.fp8_recipe: {Training.precision: "fp8-mixed"},
        TorchSettings.enable_fsdp_float8_all_gather: {Training.precision: "fp8-mixed"},
    },
    unsaid={
        **dict.fromkeys((
            Training.precision, Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps,
            Training.sequence_length, Training.loss, Training.loss_shift, Training.gradient_clipping,
            Training.optimizer.name, Training.adapter.rank, Training.adapter.target_modules, EngineSettings.version,
            TorchSettings.moe_token_dispatcher,
        )),
        Training.optimizer.implementation: "foreach",
        TorchSettings.no_sync: True,
        Training.outputs_kept: True,
        Training.activation_checkpointing.policy: "none",
        Training.packed_sequences: False,
        Parallelism.sequence_parallel: False,
    },
    source="NeMo Automodel, recipes/ and components/",
)  # fmt: skip
