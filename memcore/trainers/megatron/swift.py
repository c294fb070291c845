"""Megatron-SWIFT: ms-swift's `megatron sft`, whose arguments are Megatron-LM's with other names and defaults.

Source: ms-swift 4.5, swift/megatron/arguments/megatron_args.py (MegatronArguments, MegatronTunerMixin),
megatron_base_args.py (`seq_length` is `packing_length` or `max_length`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import MemcoreError, UnsupportedError
from memcore.formats.normalized import GPUS, PER_NODE
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.catalog import find_model
from memcore.networks.network import LANGUAGE_MODEL
from memcore.tools.switches import SWITCHES
from memcore.tools.towers import sees
from memcore.trainers.megatron.files import MEGATRON, uneven
from memcore.trainers.megatron.networks.adapted import USUAL
from memcore.trainers.megatron.settings import MegatronSettings

_ADAPTER = "*adapter"
_FRAMEWORK, _PRECISION, _PACKED, _TRAINABLE = "*framework", "*precision", "*packed", "*trainable"
_REFERENCE, _CLASSES, _SAVED = "*reference", "*classes", "*saved"
_OFF: Mapping[str, str] = {
    "masked_softmax_fusion": MegatronSettings.no_masked_softmax_fusion,
    "bias_activation_fusion": MegatronSettings.no_bias_swiglu_fusion,
    "apply_rope_fusion": MegatronSettings.no_rope_fusion,
}
"""Switches of kernels that Megatron-LM has the other way round."""


def _plain(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


_OTHERS = (
    Hardware.gpus_per_node,
    Training.sequence_length,
    Training.implementation,
    Parallelism.virtual_pipeline_parallel_size,
)
_SHARED = tuple(
    Key(path=each.path, name=_plain(each.name), values=each.values)
    for each in MEGATRON.keys
    if each.path not in _OTHERS and not each.name.startswith("--no-")
)


_ELSEWHERE = ("--bf16", "--fp16", "--spec", "--no-gradient-accumulation-fusion", "--use-flash-attn")
"""Flags that are other keys here."""


_POOLED = ("embedding", "reranker")
_RANKED = (*_POOLED, "generative_reranker")
"""Tasks that compare a text with another one; the last one does with the vocabulary's logits."""
_COMPLETION = 512
"""Tokens of a completion where nothing is said (arguments/megatron_args.py)."""
_BETA = 0.04
"""The weight of the distance from a reference model (arguments/rlhf_args.py)."""


_GENERATION = ("use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "sleep_level", "offload_model",
               "offload_optimizer", "max_completion_length")  # fmt: skip
"""How answers are generated before an update, and what leaves the GPU meanwhile."""
_SHARE = 0.9


def _notes_of_rollout_engine(found: Mapping[str, Any]) -> list[str]:
    """Return a note on an inference engine on the same GPUs that does not sleep during the update.

    Source: ms-swift 4.5, swift/megatron/arguments/megatron_args.py (`sleep_level` 0, `use_vllm`).
    """
    colocated = found.get("vllm_mode") == "colocate" and found.get("use_vllm", True) is True
    if not colocated or found.get("sleep_level", 0) != 0:
        return []
    share = found.get("vllm_gpu_memory_utilization", _SHARE)
    said = "sleep_level is 0: vLLM keeps {} of the GPU during the update, which is not counted"
    return [Message(said, share)]


def _kind(found: Mapping[str, Any]) -> object:
    return found.get("tuner_type", found.get("train_type", "full"))


def _refuse_others(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for other commands, methods and tasks."""
    program = str(found.get("", ""))
    if re.search(r"\b(?:export|infer)\b", program):
        raise UnsupportedError.of_value("the command", program, "only `megatron sft` and `megatron pt` train")
    method = _method(found)
    if method not in (None, "grpo", "dpo", "kto", "rm"):
        raise UnsupportedError.of_value("rlhf_type", method, "other methods are not supported yet with Megatron-Core")
    task = found.get("task_type", "causal_lm")
    if task not in ("causal_lm", "seq_cls", *_RANKED):
        raise UnsupportedError.of_value(
            "task_type",
            task,
            "supported: causal_lm, seq_cls, embedding, reranker, generative_reranker; without it, the head of the "
            "whole vocabulary is counted, which is larger",
        )


def _method(found: Mapping[str, Any]) -> object:
    """Return what the job learns by, where that is not supervised."""
    return found.get("rlhf_type", "dpo" if "rlhf" in str(found.get("", "")) else None)


_COMPARED = ("dpo", "kto")
"""Methods that always compare with the model before training. KTO's other passes, for the reference and the divergence,
keep nothing but log-probabilities (swift/megatron/trainers/kto_trainer.py, `forward_step`)."""


def _compared(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a frozen copy of the model to compare with, where there is no adapter to switch off for that.

    Source: ms-swift 4.5, swift/megatron/trainers/rlhf_mixin.py (`setup_model_and_optimizer`).
    """
    method = _method(found)
    refers = method in _COMPARED or (method == "grpo" and found.get("beta", _BETA) != 0)
    return {_REFERENCE: True} if refers and _kind(found) == "full" else {}


def _classified(found: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the head of classes, or of rewards (arguments/rlhf_args.py: `rm` is seq_cls with one label).

    A text's embedding is what the last layer has, without a head (swift/megatron/model/gpt_bridge.py).
    """
    task = found.get("task_type")
    if task in _RANKED:
        notes.append(Message("task_type {}: texts are counted in pairs; further negatives need more", task))
    if task not in ("seq_cls", *_POOLED) and _method(found) != "rm":
        return {}
    labels = found.get("num_labels", 1)
    if labels != 1:
        notes.append(Message("num_labels: {} outputs of the head are counted as one", labels))
    return {_CLASSES: "classify"}


def _unsaved(found: Mapping[str, Any]) -> list[str]:
    """Return a note on modules that a full fine-tune does not save apart."""
    unread = found.get("modules_to_save") and _kind(found) == "full"
    return ["modules_to_save: only adapters save modules, so it has no effect"] if unread else []


def _paired(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sequences of a micro-batch of pairs; packed ones are as long as all of them together.

    Source: ms-swift 4.5, swift/megatron/trainers/dpo_trainer.py (chosen and rejected answers in one pass),
    swift/template/base.py (`encode`: lengths of both count).
    """
    each = found.get("micro_batch_size", 1)
    pairs = _method(found) in ("dpo", "rm") or found.get("task_type") in _RANKED
    if not pairs or found.get("packing") is True or not isinstance(each, int):
        return {}
    whole = found.get("global_batch_size", 16)
    return {"micro_batch_size": 2 * each, **({"global_batch_size": 2 * whole} if isinstance(whole, int) else {})}


def _normalized(found: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The arguments with ms-swift's defaults: full fine-tuning in bf16, with packed sequences where asked for."""
    found = _of_folder({name: value for name, value in _with_fields(found).items() if name not in _OF_NODES})
    _refuse_others(found)
    notes: list[str] = _unsaved(found)
    length = _length(found, notes)
    if found.get("rlhf_type") == "grpo":
        notes += ["only the update is counted, not generation",
                  "log-probabilities of vocabulary shards are counted as a supervised loss"]  # fmt: skip
        notes += _notes_of_rollout_engine(found)
        found = {name: value for name, value in found.items() if name not in _GENERATION}
    normalized = {"attention_backend": "flash", "global_batch_size": 16, **found, _FRAMEWORK: "ms-swift"}
    normalized["attention_backend"] = re.sub(r"^flash_\d$", "flash", str(normalized["attention_backend"]))
    if normalized["attention_backend"] == "auto":
        del normalized["attention_backend"]
    normalized[_PRECISION] = _precision(found)
    if normalized.get("optimizer") == "dist_muon":
        normalized |= {"optimizer": "muon", "use_distributed_optimizer": True}
    normalized["max_length"] = length
    if found.get("packing") is True:
        normalized[_PACKED] = True
    else:
        notes.append("sequences are not packed: each is counted with max_length tokens, and shorter ones need less")
    if normalized["max_length"] is None:
        notes.append("max_length is not given: the model's longest sequence")
    if _method(found) in _COMPARED:
        notes.append("log-probabilities of vocabulary shards are counted as a supervised loss")
    normalized |= {**_paired(found), **_compared(found), **_classified(found, notes)}
    normalized |= {**_adapter(found), **_towers(found), **_dequantized(found, notes)}
    for name, path in _OFF.items():
        if found.get(name) is not None:
            normalized[f"*{path}"] = not found[name]
    if found.get("moe_enable_deepep") is True:
        normalized["moe_flex_dispatcher_backend"] = "deepep"
    unevenly(normalized, "model")
    return {name: value for name, value in normalized.items() if value is not None}, tuple(notes)


_EXTRA = "megatron_extra_kwargs"
_INNER: Mapping[str, str] = {
    "microbatch_group_size_per_virtual_pipeline_stage": "microbatch_group_size_per_vp_stage",
    "overlap_p2p_communication_warmup_flush": "overlap_p2p_comm_warmup_flush",
    **{name: name for name in (
        "attention_dropout", "hidden_dropout", "cuda_graph_impl", "cuda_graph_modules", "cuda_graph_scope",
        "cuda_graph_warmup_steps", "defer_embedding_wgrad_compute", "delay_wgrad_compute", "deterministic_mode",
        "distribute_saved_activations", "fine_grained_activation_offloading", "first_last_layers_bf16",
        "min_offloaded_tensor_size", "moe_flex_dispatcher_backend", "moe_router_fusion", "moe_router_pre_softmax",
        "offload_modules", "overlap_moe_expert_parallel_comm", "use_fused_weighted_squared_relu",
        "use_transformer_engine_op_fuser", "wgrad_deferral_limit",
    )},
}  # fmt: skip
"""Arguments that ms-swift 4.6 has none for, and the fields of Megatron-Core's config that they are; it passes those on
(swift/megatron/model/utils.py: `kwargs.update(args.megatron_extra_kwargs)`)."""
_FORMER = ("grad_reduce_in_bf16", "num_distributed_optimizer_instances", "outer_dp_sharding_strategy",
           "recompute_activations")  # fmt: skip
"""Arguments of earlier releases that are no fields of that config."""


def _with_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the fields of Megatron-Core's config that are passed on, as a mapping or as JSON."""
    plain, said = dict(found), found.get(_EXTRA)
    if isinstance(said, str):
        with suppress(ValueError):
            fields = json.loads(said)
            plain |= {f"{_EXTRA}.{name}": value for name, value in fields.items()} if isinstance(fields, dict) else {}
            del plain[_EXTRA]
    for name, field in _INNER.items():
        if f"{_EXTRA}.{field}" in plain:
            plain[name] = plain.pop(f"{_EXTRA}.{field}")
    return plain


def _placed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, and those that there are none for as fields."""
    kept = {name: value for name, value in words.items() if name not in _FORMER}
    return {f"{_EXTRA}.{_INNER[name]}" if name in _INNER else name: value for name, value in kept.items()}


_OF_NODES = ("nnodes", "node_rank", "master_addr", "master_port")
"""What the launcher takes from the environment (swift/cli/main.py), counted with the processes."""


def _of_folder(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with the model that a converted checkpoint's folder is called after, where no other is named."""
    folder = next((found[name] for name in ("mcore_model", "load") if isinstance(found.get(name), str)), None)
    if folder is None or "model" in found:
        return found
    return {**found, "model": re.sub(r"[-_](?:mcore|megatron)/?$", "", folder, flags=re.IGNORECASE)}


def _length(found: Mapping[str, Any], notes: list[str]) -> object:
    """Return the tokens of a sequence; of GRPO those of a prompt with its completion.

    Half of a KTO pack is mismatched answers, which make a pass of their own (`_kto_encode`,
    `_kto_data_collator` of swift/template/base.py; apo_zero_unpaired has none).
    """
    said = found.get("packing_length", found.get("max_length"))
    mismatched = found.get("calculate_KL", found.get("loss_type") != "apo_zero_unpaired")
    if _method(found) == "kto" and found.get("packing") is True and mismatched and isinstance(said, int):
        notes.append("packed answers and mismatched ones make passes of their own: half of max_length is counted")
        return said // 2
    if found.get("rlhf_type") != "grpo" or not isinstance(said, int):
        return said
    return said + int(found.get("max_completion_length", _COMPLETION))


def _dequantized(found: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The model whose published weights are in FP8, which mcore-bridge makes those of the job (`Fp8Dequantizer`)."""
    model = str(found.get("model", ""))
    if not model.endswith("-FP8"):
        return {}
    notes.append("model: FP8 weights are converted to the job's precision when they are loaded")
    return {"model": model.removesuffix("-FP8")}


def _precision(found: Mapping[str, Any]) -> str:
    """Return the checkpoint's dtype, which is taken to be bf16, where nothing is said."""
    half = found.get("fp16") is True or found.get("torch_dtype") == "float16"
    return "fp8-mixed" if found.get("fp8_format") else "fp16-mixed" if half else "bf16-mixed"


def _adapter(found: Mapping[str, Any]) -> dict[str, Any]:
    """LoRA on all linear layers, where it is asked for."""
    kind = _kind(found)
    if kind not in ("full", "lora"):
        raise UnsupportedError.of_value("tuner_type", kind, "supported: 'lora' and 'full'")
    if kind == "full":
        return {}
    targets = found.get("target_modules", "all-linear")
    listed = targets if isinstance(targets, list) else [targets]
    return {
        _ADAPTER: "lora",
        "lora_rank": found.get("lora_rank", 8),
        "lora_dropout": found.get("lora_dropout", 0.05),
        "target_modules": "all-linear" if "all-linear" in listed else listed,
        **_saved(found),
    }


_MODULES = ("word_embeddings", "output_layer")


def _saved(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what PEFT trains copies of, whose frozen originals stay (utils/utils.py, `get_modules_to_save`)."""
    said = found.get("modules_to_save", [])
    listed = [str(each).rpartition(".")[2] for each in (said if isinstance(said, list) else str(said).split())]
    names = list(dict.fromkeys("word_embeddings" if each == "all-embedding" else each for each in listed))
    unknown = [each for each in names if each not in _MODULES]
    if unknown:
        raise UnsupportedError.of_value("modules_to_save", unknown[0], Message("supported: {}", joined(", ", _MODULES)))
    return {_SAVED: names, "modules_to_save": None} if names else {}


def _towers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model with towers trains, if more than the language model; nothing where towers are frozen."""
    parts = (("freeze_vit", "tower"), ("freeze_aligner", "projector"))
    learn = [part for key, part in parts if found.get(key) is False]
    if found.get("freeze_llm") is True:
        raise UnsupportedError.of_value("freeze_llm", True, "training only the towers is not supported yet")
    if len(learn) == 1 and _kind(found) == "full" and sees(found.get("model")):
        return {_TRAINABLE: [LANGUAGE_MODEL, *learn]}
    return {_TRAINABLE: "all"} if len(learn) > 1 else {}


def unevenly(normalized: dict[str, Any], model: str) -> None:
    """Set the layers of each stage where the first or the last has its own number; `model` is the model's key."""
    names = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
    if not any(name in normalized for name in names):
        return
    try:
        layers = find_model(str(normalized.get(model))).num_layers
    except MemcoreError:
        return
    given = {f"--{name.replace('_', '-')}": normalized[name] for name in names if name in normalized}
    stages = normalized.get("pipeline_model_parallel_size", 1)
    found = uneven({"--num-layers": layers, "--pipeline-model-parallel-size": stages, **given})
    if found:
        normalized["pipeline_model_parallel_layout"] = next(iter(found.values()))


MEGATRON_SWIFT = Tool(
    name="megatron-swift",
    title="Megatron-SWIFT",
    syntax="yaml",
    engines=("megatron", "megatron-fsdp"),
    tells=("mcore_model", "load_safetensors", "save_safetensors!base_model!model_name_or_path"),
    prefixes=tuple(
        f"{start}{each}"
        for start in ("megatron ", "swift/cli/_megatron/")
        for each in ("sft", "pt", "rlhf", "export")
    ),
    model="model",
    normalized=_normalized,
    placed=_placed,
    written=lambda config: {"task_type": "seq_cls"} if config[Training.method.name] == "classify" else {},
    batch="global_batch_size",
    per_chunk="num_layers_per_virtual_pipeline_stage",
    keys=(
        *_SHARED,
        Key(path=Training.sequence_length, name="max_length"),
        Key(path=Training.precision, name=_PRECISION),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.trainable, name=_TRAINABLE),
        Key(path=MegatronSettings.reference_model, name=_REFERENCE),
        Key(path=Training.method.name, name=_CLASSES),
        Key(path=Training.adapter.modules_to_save, name=_SAVED),
        Key(path=Training.adapter.type, name=_ADAPTER),
        Key(path=Training.adapter.rank, name="lora_rank"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="target_modules"),
        Key(path=Parallelism.virtual_pipeline_parallel_size, name="virtual_pipeline_model_parallel_size"),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        *(Key(path=path, name=f"*{path}") for path in _OFF.values()),
    ),
    launch="NNODES={nodes} NPROC_PER_NODE={each} megatron sft --config {file}",
    always={"save_safetensors": True},
    meanings=(
        Meaning(sets={Training.precision: "bf16-mixed"}, keys={"torch_dtype": "bfloat16"}),
        Meaning(sets={Training.precision: "fp16-mixed"}, keys={"torch_dtype": "float16"}),
        Meaning(sets={Training.packed_sequences: True}, keys={"packing": True}),
        Meaning(sets={Training.trainable: "all"}, keys={"freeze_vit": False, "freeze_aligner": False}),
        Meaning(sets={Training.adapter.type: "lora"}, keys={"tuner_type": "lora"}),
        *(
            Meaning(sets={path: ours}, keys={name: not ours})
            for name, path in _OFF.items() for ours in (True, False)
        ),
        *(
            Meaning(sets=each.sets, keys={_plain(name): value for name, value in each.keys.items()})
            for each in MEGATRON.meanings
            if not {*_ELSEWHERE} & {*each.keys}
        ),
        Meaning(
            sets={MegatronSettings.gradient_accumulation_fusion: False}, keys={"gradient_accumulation_fusion": False}
        ),
    ),
    defaults={Training.micro_batch_size: 1, Training.activation_checkpointing.policy: "selective"},
    switches=SWITCHES,
    settles=("rlhf_type", "calculate_KL", "task_type", "tuner_type", "train_type", "bf16", "fp16", "torch_dtype",
             "packing", "packing_length", "modules_to_save",
             "num_labels", "lora_rank", "lora_dropout", "target_modules", "moe_enable_deepep", "padding_free",
             "freeze_llm", "freeze_vit", "freeze_aligner", "decoder_*_pipeline_num_layers", *_GENERATION,
             *_OFF),
    vocabulary=("megatron-swift", "ms-swift"),
    ignored=("ENV.*",),
    closed=True,
    needs={EngineSettings.framework: "ms-swift"},
    unsaid={
        **dict.fromkeys((Training.attention, Training.micro_batch_size, Training.gradient_accumulation_steps)),
        MegatronSettings.no_create_attention_mask_in_dataloader: True,
    },
    source="ms-swift, swift/megatron/arguments/",
)  # fmt: skip

ARGUMENTS = tuple(
    each for each in MEGATRON_SWIFT.keys
    if each.name not in ("micro_batch_size", "max_length") and not each.name.startswith("*")
)  # fmt: skip
"""Arguments of Megatron-LM that files of other tools have too, whatever they call a batch and its length."""


def _whole(targets: Any) -> Any:
    """Return all linear layers by their word, where each is listed by its name."""
    return "all-linear" if isinstance(targets, list) and {*targets} == {*USUAL} else targets


ADAPTER, RANK, TARGETS, DROPOUT = _ADAPTER, "*rank", "*targets", "*dropout"
ADAPTED = (
    Key(path=Training.adapter.type, name=ADAPTER),
    Key(path=Training.adapter.rank, name=RANK),
    Key(path=Training.adapter.target_modules, name=TARGETS, spelled=_whole),
    Key(path=Training.adapter.dropout, name=DROPOUT),
)
"""What the adapters of such files are read into."""
TOOLS = (MEGATRON_SWIFT,)
