"""ms-swift before 3.0, whose keys have other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.normalized import Normalized
from memcore.messages import Message
from memcore.networks.catalog import known
from memcore.tools.launchers import is_set

_NAMES: Mapping[str, str] = {
    "sft_type": "tuner_type", "model_id_or_path": "model", "batch_size": "per_device_train_batch_size",
    "lora_dropout_p": "lora_dropout", "lora_target_modules": "target_modules",
    "lora_modules_to_save": "modules_to_save", "deepspeed_config_path": "deepspeed",
    "ref_model_id_or_path": "ref_model", "use_liger": "use_liger_kernel",
}  # fmt: skip
"""What keys are called since 3.0 (ms-swift 2.6, llm/utils/argument.py; 3.0, docs/ReleaseNote3.0.md)."""
_OLD = (*_NAMES, "quantization_bit", "lora_lr_ratio", "train_dataset_sample", "check_dataset_strategy", "template_type",
        "use_flash_attn")  # fmt: skip
TWO_KEYS = (*_NAMES, "quantization_bit", "dtype", "use_flash_attn")
"""Keys that are read by the names of today."""
_DTYPES: Mapping[str, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_FILES: Mapping[str, str] = {
    "default-zero2": "zero2", "default-zero3": "zero3", "zero2-offload": "zero2_offload",
    "zero3-offload": "zero3_offload",
}  # fmt: skip
"""Its own DeepSpeed files."""
_ATTENTION = ("q_proj", "k_proj", "v_proj")
_PROGRAM = re.compile(r"(?:\bswift |/cli/|\bllm_)(dpo|orpo|simpo|kto|cpo|rlhf)\b")
OLD_PROGRAMS = tuple(f"llm_{each}.py" for each in ("sft", "pt", "dpo", "orpo", "simpo", "rlhf"))
"""Scripts of its examples, which do what `swift sft` and others do."""


def of_two(found: Mapping[str, Any]) -> Normalized:
    """Return keys of release 2 by the names of today, and notes; a later release's as they are.

    Sources: ms-swift 2.6, llm/utils/argument.py (`SftArguments`: sequences of 2,048 tokens; `RLHFArguments`;
    `__post_init__`: the DeepSpeed files), llm/utils/model.py (`LoRATM`), cli/main.py (`swift dpo` and others).
    """
    if not any(name in found for name in _OLD):
        return found, ()
    plain = {_NAMES.get(name, name): value for name, value in found.items()}
    plain.setdefault("max_length", 2048)
    if "model" not in plain and isinstance(plain.get("model_type"), str):
        spelled = re.sub(r"(\d)half\b", r"\1.5", plain["model_type"])
        plain |= {"model": spelled} if known(spelled) else {}
    dtype = plain.pop("dtype", None)
    if dtype in _DTYPES:
        plain["torch_dtype"] = _DTYPES[dtype]
    bits = plain.pop("quantization_bit", 0)
    if bits in (4, 8):
        plain |= {"quant_method": plain.get("quant_method", "bnb"), "quant_bits": bits}
    if is_set(plain.pop("use_flash_attn", False)):
        plain["attn_impl"] = "flash_attn"
    if plain.get("ref_model_type") and "ref_model" not in plain:
        plain["ref_model"] = plain["ref_model_type"]
    method = _PROGRAM.search(str(plain.get("", "")))
    if method and method[1] != "rlhf":
        plain.setdefault("rlhf_type", method[1])
    plain["deepspeed"] = _FILES.get(str(plain.get("deepspeed")), plain.get("deepspeed"))
    notes = _targets(plain)
    return {name: value for name, value in plain.items() if value is not None}, notes


def _targets(plain: dict[str, Any]) -> tuple[Message, ...]:
    """Put names of layers in the place of the words for several, and return what there is to say about that."""
    if plain.get("tuner_type", "lora") != "lora":
        return ()
    said = plain.get("target_modules", "DEFAULT")
    words = said.replace(",", " ").split() if isinstance(said, str) else [str(each) for each in said]
    if "EMBEDDING" in words:
        raise UnsupportedError.of_value(
            "lora_target_modules", "EMBEDDING", "supported: ALL, DEFAULT and names of layers"
        )
    usual = {"DEFAULT", "AUTO"} & set(words)
    named = [each for each in words if each not in usual]
    plain["target_modules"] = "all-linear" if "ALL" in words else [*(_ATTENTION if usual else ()), *named]
    if "ALL" in words or not usual:
        return ()
    return (Message("lora_target_modules: DEFAULT is {}, as for models like Llama", ", ".join(_ATTENTION)),)
