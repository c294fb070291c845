"""What single loops have of their own: GaLore's switches, Firefly's arguments, the two lengths of a pair."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.normalized import ENGINE, FRAMEWORK, GPUS, IN_BACKWARD, VERSION
from memcore.messages import Message
from memcore.tools.launchers import is_set
from memcore.tools.methods import METHOD

WIDTH, DISPATCHER = "*optimizer_rank", "*dispatcher"
_SHARDS, _EXPERTS = "dp_shard_size", "expert_parallel_size"
_RANKS = (_SHARDS, "dp_replicate_size", "tensor_parallel_size", "context_parallel_size", _EXPERTS)


def of_axolotl_ranks(found: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """axolotl's keys with the number of GPUs, which is the product of all groups, and how ranks share experts.

    Without shards, only experts are divided, and all else is whole on each rank. Source: axolotl 0.18,
    utils/distributed.py (`build_parallelism_config`), integrations/expert_parallel/{plugin,shard,experts_fn}.py.
    """
    notes: tuple[str, ...] = ()
    experts = found.get(_EXPERTS) or 1
    if isinstance(experts, int) and experts > 1:
        if found.get("adapter"):
            message = "with adapter, expert parallelism is not supported yet; leave one of them out"
            raise UnsupportedError.of_value(_EXPERTS, experts, message)
        alone = {ENGINE: "fsdp", VERSION: 2, _SHARDS: 1} if _SHARDS not in found else {}
        found = {**alone, **found, DISPATCHER: "deepep", FRAMEWORK: "axolotl"}
        notes = ("layers are counted as torchtitan's, whose tokens DeepEP sends to experts as axolotl's plugin does",)
    sizes = [found.get(name) or 1 for name in _RANKS]
    if not isinstance(found.get(_SHARDS), int) or GPUS in found or not all(isinstance(each, int) for each in sizes):
        return found, notes
    return {**found, GPUS: math.prod(sizes)}, notes


ROUNDED: Mapping[str, str] = {"qat.activation_dtype": "int8", "qat.weight_dtype": "int4"}
"""axolotl's keys for the dtypes to which inputs and weights are rounded in each forward pass."""


def check_rounding(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for quantization-aware training with other dtypes than those.

    Source: axolotl 0.18, utils/schemas/quantization.py (`QATConfig`: weights in int8 where nothing is said),
    utils/quantization.py (`prepare_model_for_qat`: torchao's `FakeQuantizedLinear`).
    """
    if not any(name.startswith("qat.") for name in found):
        return
    said = [str(found.get(name, "int8" if name == "qat.weight_dtype" else None)) for name in ROUNDED]
    if said != [*ROUNDED.values()]:
        message = "supported: activation_dtype int8 with weight_dtype int4; leave qat out to estimate without rounding"
        raise UnsupportedError.of_value("qat", " / ".join(said), message)


_PROJECTED: Mapping[str, Mapping[bool, str]] = {
    "galore": {False: "galore_adamw", True: "galore_adamw_8bit"},
    "apollo": {False: "apollo_adamw"},
}
"""Optimizers of projected gradients, with moments in 8 bits or not."""
_FACTORY_PROJECTS: Mapping[str, object] = {
    "galore_target": "all", "apollo_target": "all", "apollo_proj": "random", "apollo_proj_type": "std",
}  # fmt: skip
SWIFT_PROJECTS: Mapping[str, object] = {
    "galore_target_modules": None, "galore_with_embedding": False, "galore_quantization": False,
}  # fmt: skip
"""ms-swift's (4.5, arguments/tuner_args.py: `galore_*`; optimizers/galore/utils.py)."""


def with_projections(
    normalized: dict[str, Any], supported: Mapping[str, object] = _FACTORY_PROJECTS, rank: int = 16
) -> None:
    """GaLore's or APOLLO's optimizer on all linear layers, in the backward pass where it works layer by layer.

    `supported`: keys that have one supported value. Source: LLaMA-Factory 0.9.6, train/trainer_utils.py
    (`_create_galore_optimizer`, `_create_apollo_optimizer`), hparams/finetuning_args.py.
    """
    for name, optimizers in _PROJECTED.items():
        said = {key: normalized.pop(key) for key in [*normalized] if key.startswith(f"{name}_")}
        if not is_set(normalized.pop(f"use_{name}", False)):
            continue
        for key, usual in supported.items():
            if said.get(key, usual) != usual:
                raise UnsupportedError.of_value(key, said[key], Message("supported: {!r}", usual))
        optimizer = str(normalized.get("optim", "adamw_torch"))
        own = None if optimizer == "adafactor" else optimizers.get("8bit" in optimizer)
        if own is None:
            known = ", ".join(("adamw_torch", "adamw_8bit")[: len(optimizers)])
            raise UnsupportedError.of_value("optim", optimizer, Message("with {}, supported: {}", f"use_{name}", known))
        normalized |= {"optim": own, WIDTH: said.get(f"{name}_rank", rank)}
        if is_set(said.get(f"{name}_layerwise")):
            normalized[IN_BACKWARD] = True


_GALORE, _USUAL_WIDTH = "galore", 128


def with_width(normalized: dict[str, Any], key: str = "optim") -> None:
    """The rank of GaLore's projection, from the arguments of an optimizer; other optimizers have none.

    Sources: transformers, trainer.py (`get_optimizer_cls_and_kwargs`: `optim_args`, rank 128 where nothing is said);
    axolotl, core/builders/base.py (a mapping as well as a text).

    >>> said = {"optim": "galore_adamw", "optim_args": "rank=64, scale=0.25"}
    >>> with_width(said)
    >>> said
    {'optim': 'galore_adamw', '*optimizer_rank': 64}
    """
    said = normalized.pop("optim_args", None)
    inner = {name: normalized.pop(name) for name in [*normalized] if name.startswith("optim_args.")}
    if not str(normalized.get(key, "")).startswith(_GALORE) or WIDTH in normalized:
        return
    pairs = [each.partition("=")[::2] for each in str(said or "").replace(" ", "").split(",")]
    given = {**dict(pairs), **{name.partition(".")[2]: value for name, value in inner.items()}}
    rank = str(given.get("rank", _USUAL_WIDTH))
    if not rank.isdecimal():
        raise UnsupportedError.of_value("optim_args", said, "rank needs a whole number")
    normalized[WIDTH] = int(rank)


def of_bitsandbytes(normalized: dict[str, Any]) -> None:
    """Refuse bits of frozen weights that are not bitsandbytes' (LLaMA-Factory, hparams/model_args.py)."""
    method = normalized.pop("quantization_method", "bnb")
    if normalized.get("quantization_bit") is not None and method not in ("bnb", "bitsandbytes", None):
        raise UnsupportedError.of_value("quantization_method", method, "supported: bnb")


_LENGTHS = ("max_source_length", "max_target_length")


def of_two_lengths(
    normalized: dict[str, Any], length: str = "max_length", usual: int | None = None
) -> tuple[Message, ...]:
    """Set the length of sequences to that of a prompt with its answer, where only those two are said.

    Where one alone is said, the other is as long as `usual`, which a loop may have. Sources: MedicalGPT,
    training/{dpo,orpo}_training.py (`full_max_length`); LLaMA-Factory 0.1.8, hparams/data_args.py (512 each).

    >>> said = {"max_source_length": 1024}
    >>> of_two_lengths(said), str(of_two_lengths(said, "cutoff_len", 512)[0]), said
    ((), 'max_source_length and max_target_length: 1536 tokens together', {'cutoff_len': 1536})
    """
    said = [normalized.get(name, usual) for name in _LENGTHS]
    if length in normalized or not any(name in normalized for name in _LENGTHS):
        return ()
    if not all(isinstance(each, int) for each in said):
        return ()
    for name in _LENGTHS:
        normalized.pop(name, None)
    normalized[length] = sum(each for each in said if each is not None)
    return (Message("max_source_length and max_target_length: {} tokens together", normalized[length]),)


def of_llava(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """LLaVA's arguments, whose script adapts all linear layers of the language model, with rank 64 where none is said.

    Sources: LLaVA, llava/train/train.py (`find_all_linear_names`; `TrainingArguments`), train_mem.py; FastChat,
    fastchat/train/train_mem.py (both with FlashAttention).
    """
    if re.search(r"\btrain_mem\.py\b", str(found.get("", ""))):
        found = {"use_flash_attn": True, **found}
    if not is_set(found.get("lora_enable")):
        return found
    rank = {} if "lora_rank" in found else {"lora_r": 64}
    return {**rank, "lora_target_modules": "all-linear", **found}


PICTURE_KEYS = (
    "conv_style", "meta_path", "force_image_size", "down_sample_ratio", "drop_path_rate", "*_num_frame", "pad2square",
    "vision_select_layer", "use_data_resampling", "dynamic_image_size", "use_thumbnail", "*_dynamic_patch",
    "ps_version", "use_fast_tokenizer", "normalize_type", "num_images_expected", "max_buffer_size", "log_freq",
    "strict_mode", "replacement", "allow_overflow", "loss_reduction*", "image_*_pixels", "video_*_pixels", "fps",
    "nframes", "merger_lr", "vision_lr",
)  # fmt: skip
"""Arguments of InternVL's and of Qwen-VL-Series-Finetune's scripts on pictures and on learning rates."""


def of_internvl(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """InternVL's arguments, whose script loads bf16 weights with FlashAttention, and has checkpoints of its own.

    Source: InternVL, internvl_chat/internvl/train/internvl_chat_finetune.py (`ModelArguments`, `main`;
    `wrap_llm_lora`: attention and feed-forward layers), internvl_chat_mpo.py.
    """
    if not {"conv_style", "force_image_size"} <= set(found):
        return found
    if "mpo" in str(found.get("", "")):
        message = "losses of several kinds at once are not supported yet; the closest is --method dpo"
        raise UnsupportedError.of_value("loss_type", found.get("loss_type", "sigmoid"), message)
    told: dict[str, Any] = {
        "grad_checkpoint": True, "torch_dtype": "bfloat16", "attn_implementation": "flash_attention_2", **found,
    }  # fmt: skip
    rank = told.pop("use_llm_lora", 0)
    if rank:
        told |= {"use_peft": True, "lora_rank": rank, "lora_target_modules": "all-linear"}
    packs, tokens = is_set(told.pop("use_packed_ds", False)), told.pop("max_packed_tokens", 8192)
    return {**told, "packing": True, "max_seq_length": tokens} if packs else told


def of_qwen_vl_series(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Qwen-VL-Series-Finetune's arguments, whose scripts take FlashAttention where they are not told otherwise.

    Source: Qwen-VL-Series-Finetune, src/params.py, src/train/train_sft.py.
    """
    if "disable_flash_attn2" not in found:
        return found
    told = dict(found)
    off = is_set(told.pop("disable_flash_attn2"))
    return {"attn_implementation": "sdpa" if off else "flash_attention_2", **told}


_FIREFLY = ("train_mode", "task_type", "template_name", "train_file", "eval_file", "tokenize_num_workers")


def of_firefly(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Firefly's arguments, whose script trains QLoRA on all linear layers where nothing else is said.

    Source: Firefly, component/argument.py (`CustomizedArguments`), train.py (`load_model`, `find_all_linear_names`).
    """
    if not {"train_mode", "template_name"} & set(found) or "stage" in found:
        return found
    mode, task = found.get("train_mode", "qlora"), found.get("task_type", "sft")
    if mode not in ("full", "lora", "qlora"):
        raise UnsupportedError.of_value("train_mode", mode, "supported: full, lora, qlora")
    left = {name: value for name, value in found.items() if name not in _FIREFLY}
    left["torch_dtype"] = "float16" if is_set(found.get("fp16")) else "bfloat16"
    if task != "dpo":
        left = {name: value for name, value in left.items() if name not in ("beta", "max_prompt_length")}
    if mode == "full":
        return {name: value for name, value in left.items() if not name.startswith("lora_")}
    told = {"use_peft": True, "lora_rank": 64, "lora_dropout": 0.05, "lora_target_modules": "all-linear"}
    bits = {"load_in_4bit": True, "use_bnb_nested_quant": True} if mode == "qlora" else {}
    return {**told, **left, **bits}


_CHAT = ("data_split", "only_optimize_lora", "lora_module_name", "num_padding_at_beginning", "sft_only_data_path")
_OF_DATA = (
    "data_split", "sft_only_data_path", "data_output_path", "num_warmup_steps", "lora_module_name",
    "lora_learning_rate", "print_loss", "enable_tensorboard", "tensorboard_path", "num_padding_at_beginning",
    "eval_interval", "eval_iters", "only_optimize_lora", "lora_dim", "dtype", "add_eot_token", "local_rank",
)  # fmt: skip


def of_deepspeed_chat(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """DeepSpeed-Chat's arguments, whose LoRA is next to every linear layer below a name, the decoder's by default.

    Sources: DeepSpeedExamples, applications/DeepSpeed-Chat, dschat/utils/ds_utils.py (fp16 where nothing is said),
    dschat/utils/module/lora.py, training/step1_supervised_finetuning/main.py, training/step2_reward_model_finetuning.
    """
    if not any(name in found for name in _CHAT) or "stage" in found:
        return found
    left = {name: value for name, value in found.items() if name not in _OF_DATA}
    dtype, rank = str(found.get("dtype", "fp16")), found.get("lora_dim") or 0
    told: dict[str, Any] = {"per_device_train_batch_size": 16, "max_seq_len": 512, "zero_stage": 0, **left, dtype: True}
    if "num_padding_at_beginning" in found:
        told[METHOD] = "reward"
    if not rank:
        return told
    if not is_set(found.get("only_optimize_lora")):
        message = "what is not linear trains next to LoRA, which is not supported yet; add --only_optimize_lora"
        raise UnsupportedError.of_value("lora_dim", rank, message)
    return {**told, "use_peft": True, "lora_rank": rank, "lora_dropout": 0.0, "lora_target_modules": "all-linear"}


def of_scripts(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of widespread scripts as a Trainer's script has them."""
    for script in (of_firefly, of_llava, of_internvl, of_qwen_vl_series, of_deepspeed_chat):
        found = script(found)
    return found
