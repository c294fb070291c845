"""What a script does to its model, its trainer and their arguments that is not read: notes that name the line.

Whatever is not known to be read or to be of no account to memory is said. Sources: transformers 5.23,
modeling_utils.py, trainer.py, training_args.py; peft 0.21, peft_model.py; torch 2.12, nn/modules/module.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from memcore.formats.python import FREEZES, Call, Change
from memcore.formats.tracked import ARGUMENTS, CALLS, EACH, HANDS, LIBRARY, MODEL, OVERRIDES, SETS, TRAINER
from memcore.messages import Message, joined
from memcore.tools.altered import is_read

_OF_TEXTS = ("startswith", "endswith", "split", "replace", "lower", "strip", "join", "format", "count", "find", "get",
             "items", "keys", "values")  # fmt: skip
_OF_TENSORS = (
    "numel",
    "size",
    "dim",
    "item",
    "element_size",
    "type",
    "detach",
    "clone",
    "sum",
    "mean",
    "norm",
    "tolist",
)
_OF_MODELS = (
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
    "named_buffers", "num_parameters", "get_memory_footprint", "print_trainable_parameters", "state_dict",
    "get_nb_trainable_parameters", "load_state_dict", "eval", "train", "cuda", "cpu", "save_pretrained", "push_to_hub",
    "generate", "get_input_embeddings", "get_output_embeddings", "get_submodule", "get_parameter", "tie_weights",
    "enable_input_require_grads", "add_model_tags", "can_generate", "merge_and_unload", "unload", "set_adapter",
    "from_pretrained", "get_base_model", "get_decoder", "get_encoder", "init_weights", "post_init", "to_dict",
    "to_json_string", "to_diff_dict", "create_or_update_model_card", "register_for_auto_class",
    "gradient_checkpointing_enable", "gradient_checkpointing_disable", "add_adapter", "enable_adapters",
)  # fmt: skip
"""Methods that change nothing, as far as memory goes, and those that are read elsewhere."""
_OF_TRAINERS = (
    "train", "fit", "evaluate", "predict", "save_model", "save_state", "add_callback", "remove_callback",
    "pop_callback",
    "log", "log_metrics", "save_metrics", "push_to_hub", "create_model_card", "get_train_dataloader",
    "get_eval_dataloader", "is_world_process_zero", "is_local_process_zero", "print", "wait_for_everyone",
)  # fmt: skip
_OF_ARGUMENTS = (
    "to_dict", "to_json_string", "to_sanitized_dict", "get_process_log_level", "get_warmup_steps", "main_process_first",
    "set_evaluate", "set_testing", "set_save", "set_logging", "set_push_to_hub", "set_lr_scheduler",
)  # fmt: skip
_METHODS = frozenset({*_OF_TEXTS, *_OF_TENSORS, *_OF_MODELS, *_OF_TRAINERS, *_OF_ARGUMENTS})
_FILLS = re.compile(r"[a-z]_$")
"""What fills tensors in their place is named so; their size stays (torch/nn/init.py)."""
_FUNCTIONS = frozenset({
    "pprint", "len", "str", "repr", "type", "id", "isinstance", "issubclass", "hasattr", "getattr", "callable",
    "dir", "vars", "list", "iter", "next", "sum", "any", "all", "min", "max", "sorted", "enumerate", "zip", "map",
    "filter", "set", "tuple", "dict", "bool", "info", "debug", "warning", "warn", "error", "pformat", "asdict",
    "display", "pipeline", "watch", "tqdm", "get_peft_model", "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training", "from_pretrained", "for_training", "for_inference", "prepare",
    "setup_chat_format", "clone_chat_template",  # a few special tokens (trl, models/utils.py)
    "DistributedDataParallel", "DDP", "DataParallel", "accumulate", "train_on_responses_only", "append", "join",
    "format", "deepcopy", "__get__", "set_peft_model_state_dict", "state_dict_type",
})  # fmt: skip
_KINDS = re.compile(
    r"^(?:print|count|save|push|eval|test|generate|log|show|get|is|has|Data[Cc]ollator|summar|plot|predict|chat|infer)"
    r"|infer|Trainer$|Callback$|Streamer$|summary$|Collator\w{0,40}$"
)
"""Functions by what their names say that they do: print, count, save, evaluate, and the like."""
_VALUES = frozenset({
    "parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "device", "dtype", "num_parameters",
    "generate", "data", "weight", "bias", "shape", "name_or_path", "generation_config", "peft_config", "hf_device_map",
    "get_memory_footprint", "train_dataset", "eval_dataset", "tokenizer", "processing_class",
})  # fmt: skip
"""Parts that no function changes the size of when it is handed them."""
_FILLED = frozenset({"hf_device_map", "generation_config", "state_dict", "train_dataset", "eval_dataset", "tokenizer"})
"""Parts whose own parts may be set to anything."""
_PARTS = re.compile(
    r"^(?:generation_config|model_tags|warnings_issued|is_parallelizable|model_parallel|name_or_path|tokenizer"
    r"|label_names|can_return_loss|data_collator|train_dataset|eval_dataset|processing_class|compute_metrics"
    r"|callback_handler|state)\b|\bconfig\.(?:use_cache|pretraining_tp|\w{1,40}_token_id|num_labels|\w{0,40}2\w{1,40}"
    r"|forced_\w{1,40}|suppress_tokens|begin_suppress_tokens|tokenizer_class|_name_or_path|architectures"
    r"|task_specific_params|keys_to_ignore\w{0,40}|max_length|min_length|max_new_tokens|num_beams|early_stopping"
    r"|no_repeat_ngram_size|length_penalty|return_dict|torch_dtype|name_or_path|chat_template|rope_scaling\w{0,40})$"
    r"|^distributed_state\b"
    r"|^(?:use_cache|pretraining_tp|\w{1,40}_token_id|state_dict)$"
)
"""Parts that may be set to anything: keys of configs that generation and files have, and the trainer's data."""
_METHODS_OF_CLASSES = re.compile(
    r"^(?:__init__|get_\w+_dataloader|_get_\w+_sampler|evaluate|evaluation_loop|prediction_step|predict|log\w*|_?save\w*"
    r"|push_to_hub|create_scheduler|store_metrics|_prepare_dataset|tokenize_row|_set_signature_columns\w*|__repr__)$"
)
"""Methods of a trainer's or a model's class that a script may have its own of."""
_LIBRARIES = frozenset({"transformers", "trl", "peft", "torch", "accelerate", "bitsandbytes", "unsloth", "flash_attn"})
_OF_NOTEBOOKS = ("google", "IPython", "matplotlib", "wandb")
_SWITCHES = frozenset({"backends", "_dynamo", "_inductor", "utils", "logging", "manual_seed"})
_PATCHES = re.compile(
    r"^(?:replace|patch|monkey|convert|swap|enable|disable)_|_patch$|monkey_?patch|^set_(?:default_dtype"
    r"|default_tensor_type|per_process_memory_fraction)$"
)
"""Functions of others that change what a library does, by their names."""


def changes_unread(changes: Iterable[Change], *, adapted: int | None, grows: bool) -> Iterator[Message]:
    """Yield a note on each change that is neither read nor of no account.

    Args:
        changes: What the script does to its objects.
        adapted: The line in which an adapter is put around the model; None for a model that trains as a whole.
        grows: Whether the tokenizer gets other tokens than a few special ones.
    """
    said: set[int] = set()
    for change in changes:
        if (
            change.line not in said
            and not is_read(change)
            and not (_resizes(change) and not grows)
            and _counts(change, adapted)
        ):
            said.add(change.line)
            yield Message("line {}: not read: {}", change.line, change.text)


def _counts(change: Change, adapted: int | None) -> bool:
    """Whether what a change does may change what memory a job takes."""
    name = change.path[-1] if change.path else ""
    if change.role == LIBRARY:
        return _patches(change, name)
    if FREEZES.rstrip("_") in (name, name.rstrip("_")):
        value = change.first if change.how == CALLS else change.arguments.get(name)
        return adapted is not None and (value is not False or change.line > adapted)
    if change.how == OVERRIDES:
        return not _METHODS_OF_CLASSES.search(name)
    if change.how == CALLS:
        hooks = name.startswith("register_")
        plain = not name or name in _METHODS or _FILLS.search(name) or _KINDS.search(name) or _moves(change)
        return hooks or not (plain or not _VALUES.isdisjoint(change.path[:-1]))
    if change.how == HANDS:
        part = _VALUES.isdisjoint(change.path) and (change.path[:1] != ("config",) or len(change.path) == 1)
        whole = change.role in (MODEL, TRAINER, ARGUMENTS) and (change.role != ARGUMENTS or not change.path)
        return part and whole and change.to not in _FUNCTIONS and not _KINDS.search(change.to)
    filled = not _FILLED.isdisjoint(change.path[:-1]) or (name == EACH and not _VALUES.isdisjoint(change.path))
    path = ("config", *change.path) if change.role == "config" else change.path
    return not (filled or _PARTS.search(".".join(path)))


def _resizes(change: Change) -> bool:
    """Whether a call gives the embedding a row for each token of a tokenizer, which has a few special ones more."""
    return change.path[-1:] == ("resize_token_embeddings",) and "(len(" in change.text


def _moves(change: Change) -> bool:
    """Whether a call moves its object to a device and casts nothing."""
    _, called, given = change.text.rpartition(".to(")
    said = given if called else f"{change.first} {change.arguments}"  # of a statement that is shown in part
    return change.path[-1] == "to" and not re.search(r"dtype|float|half", said)


def _patches(change: Change, name: str) -> bool:
    """Whether a library works otherwise after a change."""
    if change.how == SETS:
        return change.path[0] in _LIBRARIES and _SWITCHES.isdisjoint(change.path)
    return change.how == CALLS and change.path[0] not in _OF_NOTEBOOKS and _PATCHES.search(name) is not None


def arguments_unread(call: Call, known: Collection[str]) -> Iterator[Message]:
    """Yield a note on arguments that are not among those that are known."""
    left = sorted(name for name, value in call.arguments.items() if name not in known and value is not None)
    if left:
        yield Message("line {}: not read of {}: {}", call.line, call.name, joined(", ", left))
