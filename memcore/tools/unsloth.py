"""Unsloth's jobs: scripts that load a model with its classes and give it to a trainer of TRL's.

Sources: unsloth 2026.7, models/loader.py (`FastLanguageModel.from_pretrained`), models/llama.py (`get_peft_model`);
trl 1.16, trainer/sft_trainer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.formats.code import Code, as_call
from memcore.formats.normalized import FRAMEWORK, Normalized
from memcore.formats.writing import nested
from memcore.networks.usual_targets import LLAMA_LINEARS
from memcore.tools.fine_tuning import TRAINER
from memcore.tools.loads import LEARNT
from memcore.tools.loops import of_trainer

_LOADS: Mapping[str, str] = {"model_name_or_path": "model_name", "max_length": "max_seq_length"}
_ADAPTS: Mapping[str, str] = {
    "lora_r": "r", "lora_dropout": "lora_dropout", "lora_target_modules": "target_modules",
    "lora_target_parameters": "target_parameters", "lora_modules_to_save": "modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
_ELSEWHERE = (
    *_LOADS, *_ADAPTS, "use_peft", "use_unsloth", "dtype", "torch_dtype", "load_in_4bit", "load_in_8bit",
    "use_bnb_nested_quant", "bnb_4bit_quant_type", "attn_implementation", "gradient_checkpointing",
    "activation_offloading",
)  # fmt: skip
"""Keys that are arguments of Unsloth's functions, or that these decide."""
_RANK = 16
_PAIRS = ("dpo", "orpo", "cpo", "reward")
_DATA: Mapping[str, str] = {
    "kto": "trl-lib/kto-mix-14k", "grpo": "trl-lib/DeepMath-103K", **dict.fromkeys(_PAIRS, "trl-lib/hh-rlhf"),
}  # fmt: skip
"""Data sets of the shape that a method takes (trl, examples/)."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    normalized, notes = of_trainer(found)
    return {**normalized, FRAMEWORK: "unsloth"}, notes


def _code(config: Config, keys: Mapping[str, Any]) -> str:
    """A script, whose trainer is the method's; Unsloth is imported before what it patches."""
    method = config[Training.method.name]
    kind = next((each.removesuffix("Config") for each, name in LEARNT.items() if name == method), "SFT")
    adapted = keys.get("use_peft") is True
    saves = "unsloth" if keys.get("activation_offloading") is True else keys.get("gradient_checkpointing") is True
    own = _arguments(keys) | _learns(config)
    trained = {"model": Code("model"), "args": as_call(f"{kind}Config", own, 1),
               "train_dataset": Code("dataset"), "processing_class": Code("tokenizer")}  # fmt: skip
    trained |= {"reward_funcs": Code("[lambda completions, **_: [0.0] * len(completions)]")} if kind == "GRPO" else {}
    loads = _loaded(keys, adapted=adapted) | ({} if adapted else {"use_gradient_checkpointing": saves})
    adapts = f"model = {as_call('FastLanguageModel.get_peft_model', _adapted(keys, saves), 0)}\n" if adapted else ""
    adapts = adapts.replace("get_peft_model(\n", "get_peft_model(\n    model,\n")
    data = _DATA.get(str(method), "trl-lib/Capybara")
    return (
        "\nfrom unsloth import FastLanguageModel\n\nimport torch\nfrom datasets import load_dataset\n"
        f"from trl import {kind}Config, {kind}Trainer\n\n"
        f"model, tokenizer = {as_call('FastLanguageModel.from_pretrained', loads)}\n{adapts}"
        f'dataset = load_dataset("{data}", split="train")\n'
        f"trainer = {as_call(f'{kind}Trainer', trained)}\ntrainer.train()\n"
    )


def _loaded(keys: Mapping[str, Any], *, adapted: bool) -> dict[str, Any]:
    """The arguments that load a model: in 4 or 8 bits, or in a dtype."""
    four, eight = keys.get("load_in_4bit") is True, keys.get("load_in_8bit") is True
    dtype = str(keys.get("dtype", keys.get("torch_dtype", "bfloat16"))).removeprefix("torch.")
    loads = {theirs: keys[ours] for ours, theirs in _LOADS.items() if ours in keys}
    loads |= {"dtype": Code(f"torch.{dtype}"), "load_in_4bit": four}
    return loads | ({"load_in_8bit": True} if eight else {}) | ({} if adapted else {"full_finetuning": True})


def _adapted(keys: Mapping[str, Any], saves: object) -> dict[str, Any]:
    given = {theirs: keys[ours] for ours, theirs in _ADAPTS.items() if ours in keys}
    rank = given.get("r", _RANK)
    return {"r": rank, "lora_alpha": rank, **given, "use_gradient_checkpointing": saves}


def _listed(targets: Any) -> Any:
    """Return the names of linear layers for all of them: a list is what it takes."""
    return list(LLAMA_LINEARS) if targets == "all-linear" else targets


def _learns(config: Config) -> dict[str, Any]:
    """The method's own arguments: a reference that was asked before, and the tokens of prompts and completions."""
    method, whole = config[Training.method.name], config[Training.sequence_length]
    answer = config[Training.method.completion_length]
    if method == "grpo" and isinstance(answer, int) and isinstance(whole, int) and whole > answer:
        return {"max_prompt_length": whole - answer, "max_completion_length": answer}
    asked = method == "dpo" and config[Training.method.reference] == "precomputed"
    return {"precompute_ref_log_probs": True} if asked else {}


_UNSAID: Mapping[str, object] = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "optim": "adamw_torch_fused",
}  # fmt: skip
"""Defaults of transformers', in whose place Unsloth has its own (unsloth 2026.7, models/rl.py)."""


def _arguments(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What is the trainer's own."""
    own = {name: value for name, value in keys.items() if name not in _ELSEWHERE}
    return {"output_dir": "outputs", **_UNSAID, **nested(own)}


UNSLOTH = replace(
    TRAINER,
    name="unsloth",
    title="Unsloth's scripts",
    syntax="python",
    engines=("none", "ddp"),
    needs={EngineSettings.framework: "unsloth"},
    keys=tuple(
        replace(key, spelled=_listed) if key.path == Training.adapter.target_modules else key for key in TRAINER.keys
    ),
    implementations=("unsloth",),
    tells=("use_unsloth=True",),
    launch="torchrun --nnodes {nodes} --nproc_per_node {each} {file}",
    normalized=_normalized,
    code=_code,
    unsaid={
        **TRAINER.unsaid,
        Training.implementation: "unsloth",
        EngineSettings.expandable_segments: True,
        Training.method.completion_length: None,
        Training.method.reference: None,
    },
    source="unsloth, models/loader.py and models/llama.py",
)
