"""How a script loads the model that it trains, and the names of the classes that load, train and tell.

Sources: transformers 5.23, utils/quantization_config.py (`BitsAndBytesConfig`: fp4 where no type is said),
modeling_utils.py; unsloth 2026.7, models/loader.py (`from_pretrained`: 4 bits unless `full_finetuning`, `load_in_8bit`
or `load_in_16bit`), models/loader_utils.py (`get_model_name`: the repository in 16 bits where 4 are not asked for).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import FROZEN
from memcore.formats.python import Call, Change
from memcore.formats.tracked import ARGUMENTS, HANDS, MODEL, TRAINER
from memcore.messages import Message, joined
from memcore.networks.named import DYNAMIC
from memcore.tools.altered import CONFIGS
from memcore.tools.configured import CONFIG, Configured, configured, type_of
from memcore.tools.methods import CLASSIFIES, METHOD
from memcore.tools.unread import arguments_unread

ARGUMENT_CLASSES = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "UnslothTrainingArguments")
_METHODS = ("PPO", "BCO", "XPO", "OnlineDPO", "Nash")
OTHERS = frozenset(f"{method}{kind}" for method in _METHODS for kind in ("Config", "Trainer", "MDConfig"))
LEARNT: Mapping[str, str] = {
    f"{name}Config": method
    for name, method in (("DPO", "dpo"), ("GRPO", "grpo"), ("RLOO", "rloo"), ("KTO", "kto"), ("ORPO", "orpo"),
                         ("CPO", "cpo"), ("Reward", "reward"), ("GKD", "distill"))
}  # fmt: skip
"""TRL's configs of other methods, which say what the loop is."""
TRAINERS = (
    "SFTTrainer", "Trainer", "Seq2SeqTrainer", "UnslothTrainer",
    *(name.replace("Config", "Trainer") for name in LEARNT),
)  # fmt: skip
UNSLOTH = ("FastLanguageModel", "FastModel", "FastVisionModel")
BROUGHT = ("PeftModel", "PeftModelForCausalLM", "AutoPeftModelForCausalLM", "AutoPeftModel")
"""PEFT's classes that load an adapter, which trains further if they are asked to."""
_FOUR_BITS = re.compile(r"(?:-unsloth)?-bnb-4bit$", re.IGNORECASE)
OF_LOOP = ("max_seq_length", "packing", "max_length", "max_prompt_length", "max_completion_length", "beta")
PREPARES = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")
"""PEFT's function by its name, and by that until release 0.10."""
CLASSES = re.compile(
    r"^AutoModel|^(?!DataCollator).*(?:LMHeadModel|For(?:CausalLM|ConditionalGeneration|(?:Sequence|Token)Classification))$"
)
"""Classes of transformers whose models are trained."""
_LABELS = re.compile(r"For(?:Sequence|Token)Classification$")
_OTHER_BITS = frozenset(
    f"{name}Config" for name in ("Aqlm", "AutoRound", "Awq", "BitNetQuant", "Eetq", "FbgemmFp8", "FineGrainedFP8",
                                 "FPQuant", "GPTQ", "Higgs", "Hqq", "Mxfp4", "Quanto", "SpQR", "TorchAo", "Vptq")
)  # fmt: skip
"""transformers' configs of other kinds of weights than bitsandbytes' (utils/quantization_config.py)."""
_BY_NAME = ("AwqConfig", "GPTQConfig")
"""Those of them that may also say how to compute with a repository's quantized weights."""
_LOADED_AS = {"_attn_implementation": "attn_implementation"}
"""Other names of arguments that `from_pretrained` passes on to the config (transformers 4, configuration_utils.py)."""
_DTYPES, BITS = ("torch_dtype", "dtype"), ("load_in_4bit", "load_in_8bit")
_LOADED = (*_DTYPES, *BITS, "attn_implementation", "use_flash_attention_2")


def trained_lines(changes: Iterable[Change]) -> set[int]:
    """Return the lines of the calls that load what trainers are handed first: the models that they train."""
    handed: dict[int, int] = {}
    for change in changes:
        if change.how == HANDS and change.role == MODEL and change.to in TRAINERS:
            handed.setdefault(change.line, change.made)
    return {*handed.values()}


def of_loads(
    found: Sequence[Call], told: list[Call], changes: Sequence[Change], *, named: bool, generates: bool = False
) -> tuple[dict[str, Any], Configured | None]:
    """The model that is trained, how its weights are loaded, and its config; `named`: the trainer loads it by its name.

    What is loaded after the trainer is for inference, unless nothing is loaded before it. What is left of a model with
    few bits is never loaded in fp32 unasked (transformers 4: float16, quantizers/quantizer_bnb_4bit.py; 5:
    `dtype="auto"`); another model is (transformers 4, modeling_utils.py).
    """
    fast = [each for each in found if each.name == "from_pretrained" and each.of in UNSLOTH]
    if fast:
        told.append(fast[0])
        whole = fast[0].arguments.get("full_finetuning") is True
        adapted = any(each.name == "get_peft_model" for each in found) and not whole
        stored = fast[0].arguments.get("use_gradient_checkpointing", "unsloth")
        return {**({} if adapted else checkpoints(stored)), **_of_unsloth(fast[0])}, None
    scope = before_training(found)
    if not named and not any(map(loads_model, scope)):
        scope = [*found]
    loads = _trained_first(scope, trained_lines(changes))
    keys: dict[str, Any] = {}
    model = configured(loads[0], found, changes) if loads else None
    if model is not None:
        told.append(loads[0])
        given = loads[0].arguments
        given = {_LOADED_AS.get(name, name): value for name, value in given.items()}
        keys = {name: given[name] for name in _LOADED if name in given}
        keys["model_name_or_path"] = model.base
        if not named and all(_LABELS.search(each.of) for each in loads):
            keys |= {METHOD: CLASSIFIES, "num_labels": given.get("num_labels", 2)}
    bits = [each for each in scope if each.name == "BitsAndBytesConfig" and taken(found, each.name)]
    other = None if generates else other_bits(scope, keys)
    if other is not None and not bits:
        keys[FROZEN] = _stored(other)
    told_bits = [single_call(bits).arguments] if bits else [each.arguments for each in loads[:1]]
    for given in told_bits:
        keys |= {name: given[name] for name in BITS if name in given}
        if given.get("load_in_4bit"):
            keys["bnb_4bit_quant_type"] = given.get("bnb_4bit_quant_type", "fp4")
            keys["use_bnb_nested_quant"] = given.get("bnb_4bit_use_double_quant", False)
    if loads and not any(keys.get(name) for name in _DTYPES):
        few = any(keys.get(name) for name in (*BITS, FROZEN)) or named_with_bits(keys)
        keys["dtype"] = "auto" if few else "float32"
    return keys, model


def other_bits(scope: Sequence[Call], keys: Mapping[str, Any]) -> Call | None:
    """Return the call that makes a config of weights of another kind than bitsandbytes'."""
    others = _OTHER_BITS - {*_BY_NAME} if named_with_bits(keys) else _OTHER_BITS
    made = (each for each in scope if each.name in others and each.arguments.get("dequantize") is not True)
    return next(made, None)


_STORED: Mapping[tuple[str, int], str] = {
    ("FineGrainedFP8Config", 8): "fp8", ("GPTQConfig", 4): "gptq", ("AwqConfig", 4): "gptq",
}  # fmt: skip
"""Configs with their bits, and the storage of frozen weights that each makes; AWQ's tensors are GPTQ's."""
_BITS = re.compile(r"(?:\$?\w{0,16}?(?:int|float))?([48])(?:\D.{0,60})?", re.IGNORECASE)
"""A number of bits, or the name of a type or of torchao's config with it."""
_NEAREST: Mapping[int, str] = {4: "nf4", 8: "int8"}
_USUAL_BITS: Mapping[str, int] = {"FineGrainedFP8Config": 8, "EetqConfig": 8, "FbgemmFp8Config": 8, "QuantoConfig": 8}


def _stored(call: Call) -> str:
    """Return the storage of frozen weights that a config makes.

    Raises UnsupportedError for another kind, with the nearest that is supported.
    """
    said = (_BITS.fullmatch(str(each)) for each in (*call.places, *call.arguments.values()))
    bits = next((int(each[1]) for each in said if each), _USUAL_BITS.get(call.name, 4))
    if (call.name, bits) in _STORED:
        return _STORED[call.name, bits]
    message = "found in line {}; this value is not supported yet; leave it out and give the nearest, {} {}"
    raise UnsupportedError(call.name, message, call.line, "--frozen-weights", _NEAREST[bits])


TAKEN_AS: Mapping[str, str] = {"LoraConfig": "peft_config", "BitsAndBytesConfig": "quantization_config"}
"""Configs, and the argument by which trainers and loaders take each."""


def taken(found: Sequence[Call], config: str) -> bool:
    """Return whether something in a script may take a config of this class; true for one without its trainer."""
    name = TAKEN_AS.get(config, TAKEN_AS["LoraConfig"])
    puts = ("get_peft_model", "add_adapter", "get_peft_config") if name == "peft_config" else ()
    trains = any(each.name in TRAINERS and each.line for each in found)  # files of objects have no lines
    if not trains or any(each.name in puts for each in found):
        return True
    for each in found:
        values = [
            each.arguments.get(name),
            *(said.get(name) for said in each.arguments.values() if isinstance(said, dict)),
        ]
        if any(value is not None for value in values) or (each.hidden and each.name in (*TRAINERS, "from_pretrained")):
            return True
    return False


def _trained_first(scope: Sequence[Call], trained: Collection[int]) -> list[Call]:
    """Return the calls that load models, of which the first is trained."""
    return sorted(filter(loads_model, scope), key=lambda each: each.line not in trained)


def _others(loads: Sequence[Call], found: Sequence[Call]) -> list[Call]:
    """Return the calls that load other models than the first, or the same in another way.

    A model to compare with is read; Unsloth's and a trainer's own copy are not loaded here.
    """
    compared = any(each.name in TRAINERS and compares(each) for each in found)
    said = [(each.first, each.arguments) for each in loads[:1]]
    return [] if compared else [each for each in loads[1:] if (each.first, each.arguments) not in said]


def compares(trainer: Call) -> bool:
    """Return whether a trainer of pairs is handed a model to compare with (trl, trainer/dpo_trainer.py)."""
    if LEARNT.get(trainer.name.replace("Trainer", "Config")) not in ("dpo", "kto"):
        return False
    place = trainer.places[1] if len(trainer.places) > 1 else None
    return trainer.arguments.get("ref_model", place) is not None


def loads_model(call: Call) -> bool:
    """Whether a call loads a model of transformers that may be trained, or makes one from a config."""
    made = call.name if call.first is not None or CONFIG in call.arguments else ""
    return CLASSES.search(call.of if call.name in ("from_pretrained", "from_config") else made) is not None


def loads_unread(found: Sequence[Call], trained: Collection[int], model: Configured | None = None) -> Iterator[Message]:
    """Yield notes on arguments of loaders and trainers that memcore does not know, and on a dtype that none names."""
    read = () if model is None else model.arguments
    yield from () if model is None else model.notes
    before = before_training(found)
    for each in _others(_trained_first(before, trained), found):
        yield Message("line {}: not read: {}", each.line, joined(".", (each.of, each.name)) if each.of else each.name)
    bits = any(each.name == "BitsAndBytesConfig" or each.arguments.keys() & {*BITS} for each in before)
    for each in before:
        known = _NOT_OF_FAST if each.of in UNSLOTH else NOT_OF_MODEL
        if each.name == "from_pretrained" and each.of.endswith("Config"):
            yield from arguments_unread(each, (*NOT_OF_MODEL, *read))
        elif each.name == "from_pretrained" and (each.of in UNSLOTH or CLASSES.search(each.of)):
            yield from arguments_unread(each, (*known, *_LOADED, *_LOADED_AS, *read))
            if not (bits or each.of in UNSLOTH or each.arguments.keys() & {*_DTYPES}):
                yield Message("line {}: it names no dtype: fp32 weights are counted, as transformers 4 loads them; "
                              "transformers 5 loads them as the checkpoint stores them", each.line)  # fmt: skip
    for each in found:
        if each.name in TRAINERS:
            yield from arguments_unread(each, (*_NOT_OF_TRAINER, *OF_LOOP))
        elif each.name.endswith("Trainer") and {"model", "args"} <= {*each.arguments}:
            yield Message("line {}: not read: {}", each.line, joined("", (each.name, "()")))


_NOT_OF_TRAINER = (
    "model", "args", "quantization_config", "data_collator", "train_dataset", "eval_dataset", "processing_class",
    "tokenizer", "callbacks", "formatting_func", "compute_metrics", "optimizers", "preprocess_logits_for_metrics",
    "peft_config", "dataset_text_field", "dataset_num_proc", "dataset_kwargs", "ref_model", "reward_funcs",
    "reward_processing_classes", "teacher_model", "tools", "environment_factory", "rollout_func", "padding_value",
    "label_pad_token_id", "image_processor", "feature_extractor", "generate_during_eval", "neftune_noise_alpha",
    "model_init_kwargs", "max_target_length",
)  # fmt: skip
"""Arguments of trainers that are read elsewhere, and those that memory does not depend on."""
NOT_OF_MODEL = (
    "pretrained_model_name_or_path", "quantization_config", "device_map", "max_memory", "trust_remote_code",
    "use_cache", "cache_dir", "token", "use_auth_token", "revision", "code_revision", "low_cpu_mem_usage",
    "local_files_only", "force_download", "resume_download", "offload_folder", "offload_state_dict", "num_labels",
    "use_safetensors", "id2label", "label2id", "problem_type", "ignore_mismatched_sizes", "return_dict",
    "subfolder", "variant", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype",
    "pad_token_id", "bos_token_id", "eos_token_id", "pretraining_tp", "config",
)  # fmt: skip
"""The same for `from_pretrained`."""
_LOADED_SO = ("attn_implementation", "offload_embedding", "float32_mixed_precision", "unsloth_tiled_mlp", "text_only")
"""Arguments of Unsloth's loader that keep their names."""
_NOT_OF_FAST = (
    *NOT_OF_MODEL, "model_name", "max_seq_length", "load_in_16bit", "load_in_fp8", "full_finetuning", "qat_scheme",
    "use_gradient_checkpointing", "fast_inference", "gpu_memory_utilization", "max_lora_rank", "random_state",
    "rope_scaling", "fix_tokenizer", "resize_model_vocab", "disable_log_stats", "auto_model", "whisper_language",
    "whisper_task", "unsloth_force_compile", "return_logits", "use_exact_model_name", "fullgraph", *_LOADED_SO,
)  # fmt: skip
"""The same for Unsloth's loader (unsloth 2026.7, models/loader.py)."""


def _of_unsloth(call: Call) -> dict[str, Any]:
    """Unsloth's loader: 4 bits unless something else is said, and 16-bit weights in the GPU's own dtype."""
    given = call.arguments
    for name in ("load_in_fp8", "qat_scheme"):
        if given.get(name) not in (None, False):
            raise UnsupportedError.of_value(
                name, given[name], "this value is not supported yet; leave it out to count 16-bit weights"
            )
    name = given.get("model_name", call.first)
    full, eight = given.get("full_finetuning") is True, given.get("load_in_8bit") is True
    four = given.get("load_in_4bit", True) is True and not (full or eight or given.get("load_in_16bit") is True)
    keys: dict[str, Any] = {"use_unsloth": True, "dtype": given.get("dtype") or "bfloat16"}
    keys |= {name: given[name] for name in _LOADED_SO if given.get(name) not in (None, False)}
    if isinstance(name, str):
        keys["model_name_or_path"] = name if four and DYNAMIC.search(name) else _FOUR_BITS.sub("", name)
    if "max_seq_length" in given:
        keys["max_length"] = given["max_seq_length"]
    if four:
        keys |= {"load_in_4bit": True, "use_bnb_nested_quant": True}
    elif eight:
        keys["load_in_8bit"] = True
    return keys


def single_call(several: Sequence[Call]) -> Call:
    """The only call, or one of several that say the same.

    Raises ConfigError for others.
    """
    first = several[0]
    if any((each.arguments, each.first) != (first.arguments, first.first) for each in several):
        listed = joined(", ", [str(each.line) for each in several])
        raise ConfigError.at(first.name, "is called with different arguments in lines {}; keep one of them", listed)
    return first


def before_training(found: Sequence[Call], several: Sequence[Call] | None = None) -> list[Call]:
    """Return those of the calls, by default of all, that come before the trainer's: what follows is inference."""
    trained = next((each.line for each in found if each.name in TRAINERS), None)
    return [each for each in (found if several is None else several) if trained is None or each.line < trained]


_FEW_BITS = re.compile(r"[48]bit|gptq|awq|bnb|int[48]", re.IGNORECASE)
"""Parts of the names of repositories with quantized weights."""


def named_with_bits(keys: Mapping[str, Any]) -> bool:
    """Whether the name of the model's repository says that its weights are quantized."""
    return _FEW_BITS.search(str(keys.get("model_name_or_path"))) is not None


def checkpoints(said: object) -> dict[str, Any]:
    """Unsloth's checkpoints, whose inputs of layers are in host memory under their own name."""
    if said == "unsloth":
        return {"gradient_checkpointing": True, "activation_offloading": True}
    return {"gradient_checkpointing": said in (True, "True", "true")}


def role_of(name: str, of: str) -> str:
    """Return the role of what a call makes: the model, its trainer, the arguments, or a config of either."""
    if name in (*ARGUMENT_CLASSES, *LEARNT, *OTHERS) and not name.endswith("Trainer"):
        return ARGUMENTS
    if name in (*TRAINERS, *OTHERS):
        return TRAINER
    loads = name in ("from_pretrained", "from_config") and (CLASSES.search(of) or of in (*UNSLOTH, *BROUGHT))
    if loads or CLASSES.search(name) or name in ("get_peft_model", *PREPARES) or (name, of) == ("compile", "torch"):
        return MODEL
    if type_of(name) is not None or (name in ("from_pretrained", "for_model") and of.endswith("Config")):
        return CONFIG
    return CONFIGS.get(name, "")
