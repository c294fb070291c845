"""NeMo 2's recipes: scripts that change one, and the command line `nemo llm finetune|pretrain`.

`data/nemo.json` has what each recipe sets, read from its source by `python -m harvest.nemo`. Source: NVIDIA/NeMo 2.6,
collections/llm/recipes/, collections/llm/gpt/model/base.py (`GPTConfig`: the fused loss is on),
lightning/pytorch/strategies/megatron_strategy.py (the precision plugin's `grad_reduce_in_fp32` and the optimizer's
`use_distributed_optimizer` hold for DistributedDataParallel), collections/llm/gpt/data/fine_tuning.py (2,048 tokens,
micro-batches of 4, 8 sequences in a step where a data module says nothing), collections/llm/peft/lora.py (rank 32).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.builders import FUNCTION, handed_over
from memcore.formats.normalized import GPUS, MODEL, PER_NODE, Normalized
from memcore.formats.shell import OUTSIDE
from memcore.formats.tool import Key, Tool
from memcore.messages import Message, joined
from memcore.trainers.megatron.bridge_files import BRIDGE, of_bridge
from memcore.trainers.megatron.nemo_command import (
    ADAPTED,
    CALLBACKS,
    OF_MODEL,
    otherwise,
    placed,
    recipe_of,
    recipes,
    written,
)
from memcore.trainers.megatron.networks.adapted import ALL, USUAL
from memcore.trainers.megatron.networks.described import of_all
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.swift import unevenly

TELLS = "nemo.collections"
_RECIPE, _PACKED, _RULED = "*nemo", "*packed", "*reduced"
_MAKERS = ("finetune_recipe", "pretrain_recipe")
_COMMAND = "nemo", "llm"
_PROGRAMS = tuple(" ".join((*_COMMAND, each)) for each in ("finetune", "pretrain"))
_ARGUMENTS: Mapping[str, str] = {
    "num_nodes": "trainer.num_nodes", "num_gpus_per_node": "trainer.devices", "seq_length": "data.seq_length",
    "global_batch_size": "data.global_batch_size", "micro_batch_size": "data.micro_batch_size",
    "precision": "trainer.plugins.precision",
    "tensor_parallelism": "trainer.strategy.tensor_model_parallel_size",
    "pipeline_parallelism": "trainer.strategy.pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": "trainer.strategy.virtual_pipeline_model_parallel_size",
    "context_parallelism": "trainer.strategy.context_parallel_size",
    "sequence_parallelism": "trainer.strategy.sequence_parallel",
    "expert_parallelism": "trainer.strategy.expert_model_parallel_size",
}  # fmt: skip
"""Arguments of a recipe's function, and the keys that they set."""
_SECTIONS = ("trainer", "data", "model", "optim", "peft")
_SWITCHES = ("packed_sequence", "performance_mode")
_CHOOSING = ("peft_scheme", *_SWITCHES)
_MODULE_DEFAULTS: Mapping[str, Any] = {
    "data.seq_length": 2048, "data.micro_batch_size": 4, "data.global_batch_size": 8,
}  # fmt: skip
_PRECISIONS: Mapping[str, Mapping[str, Any]] = {
    "bf16_mixed": {"precision": "bf16-mixed"},
    "bf16_with_fp8_mixed": {"fp8": "hybrid", "fp8_recipe": "delayed"},
    "bf16_with_fp8_current_scaling_mixed": {"fp8": "hybrid", "fp8_recipe": "tensorwise"},
    "bf16_with_mxfp8_mixed": {"fp8": "hybrid", "fp8_recipe": "mxfp8"},
    "bf16_with_fp8_subchannel_scaling_mixed": {"fp8": "hybrid", "fp8_recipe": "blockwise"},
}  # fmt: skip
"""Functions of recipes/precision/mixed_precision.py."""
_FP8: Mapping[str, str] = {
    "delayed": "bf16_with_fp8_delayed_scaling_mixed", "tensorwise": "bf16_with_fp8_current_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed", "blockwise": "bf16_with_fp8_subchannel_scaling_mixed",
}  # fmt: skip
_STAGES: Mapping[str, str] = {
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
}


@lru_cache(maxsize=1)
def _of_class() -> Mapping[str, str]:
    """Hub ids by the class of a model's config."""
    return {
        row[kind]["model.config.()"]: row["hub"]
        for row in recipes().values() for kind in ("pretrain", "none", "lora")
        if "hub" in row and "model.config.()" in row.get(kind, {})
    }  # fmt: skip


def configs(code: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each recipe that a script runs, with the keys of a `run.Partial`."""
    for made in handed_over(code, _MAKERS):
        module, _, maker = str(made.pop(FUNCTION)).rpartition(".")
        recipe = module.rpartition(".")[2]
        sections = {name: value for name, value in made.items() if isinstance(value, dict) or name in _SECTIONS}
        own = {name: value for name, value in made.items() if name not in sections}
        yield recipe, {_RECIPE: recipe, **changed(recipe, maker.partition("_")[0], own, sections)}


def changed(recipe: str, kind: str, arguments: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a recipe that is made with arguments and then changed.

    Raises UnsupportedError for an unknown one, and ConfigError for arguments whose value the script does not say.
    """
    row = recipes().get(recipe)
    if row is None:
        known = joined(", ", [name for name in recipes() if name])
        raise UnsupportedError("the recipe", "found {!r}; NeMo's recipes: {}", recipe, known)
    scheme = arguments.get("peft_scheme", row.get("scheme", "lora"))
    for name in _CHOOSING:
        if OUTSIDE.search(str(arguments.get(name, ""))):
            message = "found {}, a variable whose value the file does not give; write the value in its place"
            raise ConfigError.at(name, message, arguments[name])
    variant = "pretrain" if kind == "pretrain" else str(scheme or "none").lower()
    adapter = {"peft.()": "DoRA"} if variant == "dora" else {}
    variant = "lora" if variant == "dora" else variant
    if variant not in row:
        known = joined(", ", [each for each in row if each in ("pretrain", "lora", "none")])
        raise UnsupportedError("the recipe", "{} of {!r} is not supported; its recipes: {}", variant, recipe, known)
    others = {name: value for name, value in arguments.items() if name not in (*_ARGUMENTS, *_CHOOSING)}
    keys = {**others, **recipes()[""][variant], **row[variant], **adapter, MODEL: row.get("hub")}
    for switch in _SWITCHES:
        keys |= row.get(f"{variant}+{switch}", {}) if arguments.get(switch) in (True, "True", "true") else {}
    keys |= {_ARGUMENTS[name]: value for name, value in arguments.items() if name in _ARGUMENTS}
    if "data.packed_sequence_specs.packed_sequence_size" in keys and "seq_length" in arguments:
        keys["data.packed_sequence_specs.packed_sequence_size"] = arguments["seq_length"]
    keys = _with_sections(keys, sections)
    said = {name: _looked_up(keys, value) for name, value in keys.items()}
    return {name: value for name, value in said.items() if value is not None}


def _looked_up(keys: Mapping[str, Any], value: Any) -> Any:
    """Return a value, or that of another key, as in `seq_length=recipe.data.seq_length`."""
    return keys.get(value.partition(".")[2], value) if isinstance(value, str) and value.startswith("$") else value


def _with_sections(keys: dict[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with sections changed, or replaced as a whole."""
    for name, section in sections.items():
        if isinstance(section, dict):
            keys = _changed(keys, name, section)
            continue
        keys = {key: value for key, value in keys.items() if not key.startswith(f"{name}.")}
        if name == "peft" and isinstance(section, str) and not OUTSIDE.search(section):
            keys |= {"peft.()": section} if section.lower() != "none" else {}
        elif section is not None:
            keys[name] = section
    return keys


def _changed(keys: dict[str, Any], above: str, section: Mapping[str, Any]) -> dict[str, Any]:
    made = section.get(FUNCTION)
    if made is not None:
        keys = {key: value for key, value in keys.items() if not key.startswith(f"{above}.")}
        keys |= _MODULE_DEFAULTS if above == "data" else {}
        kind = section.get("0") if str(made).rpartition(".")[2] in ("Config", "Partial") else made
        keys[f"{above}.()"] = str(kind).rpartition(".")[2].lstrip("$")
    for name, value in section.items():
        if name == FUNCTION or (name.isdigit() and made is not None):
            continue
        key = f"{above}.{name}"
        if isinstance(value, dict):
            keys = _changed(keys, key, value)
        else:
            keys[key] = value
    return keys


def _of_command(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's recipe with what it overrides; other keys as they are."""
    program = str(found.get("", ""))
    said = found.get("factory", found.get("--factory"))
    kind = next((each.rpartition(" ")[2] for each in _PROGRAMS if each in program), None)
    if kind is None:
        return dict(found)
    if not isinstance(said, str):
        raise ConfigError.at("--factory", "is required; it names the recipe, as in --factory llama3_8b")
    name, bracket, inside = said.partition("(")
    arguments = _arguments(inside.rstrip(") ")) if bracket else {}
    overrides = {key: _value(value) for key, value in found.items() if key[:1].isalpha() and key != "factory"}
    plain = {key: value for key, value in overrides.items() if "." not in key}
    keys = changed(name.strip(), kind, {**arguments}, plain)
    keys |= {key: value for key, value in overrides.items() if "." in key}
    if not overrides.get(CALLBACKS, True):  # in place of the recipe's own
        keys.pop("overlap.tp_comm_overlap", None)
    return {_RECIPE: name.strip(), **keys}


def _value(value: Any) -> Any:
    """Return a value as NeMo-Run reads it: Python's literal, else a word."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a factory, words without quotes too."""
    found: dict[str, Any] = {}
    for each in re.split(r",(?![^\[]*\])", text):
        name, equals, value = each.partition("=")
        found[name.strip()] = _value(value.strip())
        if not equals:
            raise ConfigError.at("--factory", "found {!r}; arguments are written NAME=VALUE", each.strip())
    return found


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return a recipe in Megatron Bridge's words."""
    counted = {name: found[name] for name in (GPUS,) if name in found}
    keys = _of_command({name: value for name, value in found.items() if name != GPUS})
    plain: dict[str, Any] = {"ddp.overlap_grad_reduce": False, "ddp.overlap_param_gather": False,
                             "model.cross_entropy_loss_fusion": True}  # fmt: skip
    overlaps, notes = _callbacks(keys, keys.pop("overlap.tp_comm_overlap", None))
    if overlaps is not None:
        plain |= {"ddp.overlap_grad_reduce": True, "ddp.overlap_param_gather": True,
                  "model.tp_comm_overlap": overlaps}  # fmt: skip
    _refuse_others(keys)
    for name, value in keys.items():
        plain |= _renamed(name, value)
    plain |= _precision(keys)
    plain[MODEL] = _model(keys)
    packed = keys.get("data.packed_sequence_specs.packed_sequence_size")
    if packed is not None:
        plain |= {_PACKED: True, "dataset.seq_length": packed}
    adapter = _adapter(keys, plain[MODEL])
    normalized, _ = of_bridge({name: value for name, value in plain.items() if value is not None})
    normalized = {**normalized, **adapter, "*framework": "nemo"}
    unevenly(normalized, MODEL)
    devices, nodes = keys.get("trainer.devices", 1), keys.get("trainer.num_nodes", 1)
    if isinstance(devices, int) and isinstance(nodes, int):
        counted = {GPUS: devices * nodes, **({PER_NODE: devices} if nodes > 1 else {})}
    recipe = keys.get(_RECIPE)
    note = Message("settings that the job does not give come from NeMo's recipe {}", recipe)
    return {**normalized, **counted}, (note, *notes)


_OVERLAPS, _DROPS = "MegatronCommOverlapCallback", "MegatronTokenDropCallback"


def _callbacks(keys: dict[str, Any], overlaps: Any) -> tuple[Any, list[str]]:
    """Whether tensor parallelism overlaps, with the callbacks that a script adds, and notes on them and on the network.

    Raises UnsupportedError for one that drops tokens. Source: NeMo 2.6, lightning/pytorch/callbacks/.
    """
    listed = keys.pop("trainer.callbacks", None)
    for each in listed if isinstance(listed, list) else ():
        given = each if isinstance(each, Mapping) else {}
        config = str(given.get(FUNCTION, "")).rpartition(".")[2] in ("Config", "Partial")
        name = str(given.get("0") if config else given.get(FUNCTION)).rpartition(".")[2].lstrip("$")
        if name == _DROPS:
            raise UnsupportedError("trainer.callbacks", "found {}; dropped tokens are not supported for NeMo yet", name)
        if name == _OVERLAPS:
            overlaps = given.get("tp_comm_overlap", False)
    further = keys.get("model.config.mtp_num_layers")
    said = Message("model.config.mtp_num_layers is {}: layers that predict further tokens are not counted", further)
    return overlaps, [said] if further else []


def _refuse_others(keys: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for strategies and networks that are no recipe's."""
    for name in ("trainer.strategy", "trainer.plugins", *_SECTIONS):
        if isinstance(keys.get(name), str):
            raise UnsupportedError(name, "found {!r:.80}; memcore reads only values written in the script", keys[name])
    if keys.get("trainer.strategy.()", "MegatronStrategy") != "MegatronStrategy":
        raise UnsupportedError("trainer.strategy", "found {!r}; supported: {}", keys["trainer.strategy.()"],
                               "MegatronStrategy")  # fmt: skip
    if keys.get("trainer.strategy.fsdp") not in (None, "megatron"):
        raise UnsupportedError("trainer.strategy.fsdp", "found {!r}; supported: {}", keys["trainer.strategy.fsdp"],
                               "megatron")  # fmt: skip
    for name, value in keys.items():
        last = name.removeprefix("model.config.")
        if name.startswith("model.config.") and last != "()" and not last.startswith(OF_MODEL):
            raise UnsupportedError(name, "found {!r:.80}; it changes the recipe's network: describe the model with "
                                   "--model", value)  # fmt: skip


def _renamed(name: str, value: Any) -> dict[str, Any]:
    """Return a key of a recipe as one of Megatron Bridge."""
    last = name.rpartition(".")[2]
    if name.startswith("trainer.strategy.ddp."):
        return {} if last in ("grad_reduce_in_fp32", "()", "0") else {f"ddp.{last}": value}
    if name == "trainer.strategy.fsdp":
        return {"ddp.use_megatron_fsdp": True}
    if name.startswith("trainer.strategy."):
        return {} if last == "()" else {_STAGES[last]: value} if last in _STAGES else {f"model.{last}": value}
    if name.startswith("optim.config."):
        return {} if last == "()" else {f"optimizer.{last}": value}
    if name.startswith("model.config."):
        return {} if last in ("()", "seq_length", "mtp_num_layers") else {f"model.{last}": value}
    if name in ("data.micro_batch_size", "data.global_batch_size"):
        return {f"train.{last}": value}
    if name == "data.seq_length":
        return {"dataset.seq_length": value}
    return {} if name.startswith(("trainer.plugins.", "peft.", "data.", "*")) or name in _COUNTS else {name: value}


_COUNTS = ("trainer.devices", "trainer.num_nodes", MODEL, "hub")


_OF_PLUGIN = ("()", "precision", "params_dtype", "pipeline_dtype", "autocast_", "grad_reduce_in_fp32", "fp8_recipe",
              "fp8_margin", "fp8_amax_", "fp8_param_gather", "fp8_format", "0")  # fmt: skip
"""Fields of a precision plugin that are read, or that memory does not depend on; `fp8` alone is looked at."""


def _precision(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the precision plugin, by the function that makes it or by its fields."""
    made = keys.get("trainer.plugins.()")
    given = {name.rpartition(".")[2]: value for name, value in keys.items() if name.startswith("trainer.plugins.")}
    if made is not None and made not in (*_PRECISIONS, "MegatronMixedPrecision"):
        raise UnsupportedError("trainer.plugins", "found {!r}; supported: {}", made, joined(", ", _PRECISIONS))
    given = {**_PRECISIONS.get(str(made), {}), **given}
    if given.get("precision", "bf16-mixed") not in ("bf16-mixed", "bf16"):
        raise UnsupportedError("trainer.plugins.precision", "found {!r}; supported: {}", given["precision"],
                               "bf16-mixed")  # fmt: skip
    recipe = str(given.get("fp8_recipe", "delayed"))
    if given.get("fp8") and recipe not in _FP8:
        raise UnsupportedError("trainer.plugins.fp8_recipe", "found {!r}; supported: {}", recipe, joined(", ", _FP8))
    other = next(
        (name for name, value in given.items() if value and name != "fp8" and not name.startswith(_OF_PLUGIN)), None
    )
    if other is not None:
        message = "found {!r:.80}, which is not supported yet; leave it out to run without it"
        raise UnsupportedError(f"trainer.plugins.{other}", message, given[other])
    if given.get("fp8") and not given.get("fp8_param_gather", made in _PRECISIONS):
        raise UnsupportedError("trainer.plugins.fp8_param_gather", "found {!r}; supported: {}", False, True)
    said = {"mixed_precision": _FP8[recipe] if given.get("fp8") else "bf16_mixed"}
    return {**said, "mixed_precision.grad_reduce_in_fp32": given.get("grad_reduce_in_fp32", True) is not False}


def _model(keys: Mapping[str, Any]) -> Any:
    """Return the hub's id of the network: its config's class decides, and else the recipe."""
    made = next((keys[name] for name in ("model.config.()", "model.()") if name in keys), None)
    known = _of_class().get(str(made))
    if made is None and keys.get(MODEL) is None:
        raise ConfigError.at(
            "the file",
            "is a recipe whose model stands elsewhere; pass `nemo llm pretrain --factory NAME` with overrides",
        )
    if known is None and keys.get(MODEL) is None:
        raise UnsupportedError("model.config", "found {!r}; known classes: {}", made, joined(", ", _of_class()))
    return known or keys[MODEL]


def _adapter(keys: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """LoRA and DoRA, on the layers that are named."""
    kind = keys.get("peft.()")
    if kind is None:
        return {}
    if str(kind).lower() not in ("lora", "dora"):
        raise UnsupportedError("peft", "found {!r}; {}", kind, "supported: LoRA, DoRA")
    targets = keys.get("peft.target_modules", ALL)
    if isinstance(targets, list) and {*targets} == {*USUAL}:
        targets = of_all(model, USUAL)
    return {"*adapter": str(kind).lower(), "*rank": keys.get("peft.dim", 32), "*dropout": keys.get("peft.dropout", 0.0),
            "*targets": targets if isinstance(targets, list) else ALL}  # fmt: skip


NEMO = Tool(
    name="nemo",
    title="NeMo",
    syntax="overrides",
    program=_PROGRAMS[0],
    scripts={"pretrain": _PROGRAMS[1]},
    engines=BRIDGE.engines,
    tells=(_RECIPE,),
    model=MODEL,
    models={},
    knows=lambda config: recipe_of(config) is not None,
    needs={EngineSettings.framework: "nemo"},
    placed=placed,
    written=written,
    otherwise=otherwise,
    adapters=tuple(ADAPTED),
    unsaid=dict.fromkeys((
        *BRIDGE.unsaid, Training.packed_sequences, Parallelism.sequence_parallel,
        Parallelism.expert_tensor_parallel_size, MegatronSettings.distributed_optimizer,
        MegatronSettings.cross_entropy_loss_fusion, MegatronSettings.tp_comm_overlap,
        MegatronSettings.overlap_grad_reduce, MegatronSettings.overlap_param_gather,
    )),
    prefixes=_PROGRAMS,
    normalized=_normalized,
    batch=BRIDGE.batch,
    keys=(
        *BRIDGE.keys,
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
    ),
    meanings=BRIDGE.meanings,
    settles=BRIDGE.settles,
    vocabulary=BRIDGE.vocabulary,
    ignored=("trainer.max_*", "trainer.min_*", "trainer.limit_*", "trainer.val_*", "trainer.log*", "trainer.enable_*",
             "trainer.num_sanity_*", "trainer.callbacks*", "trainer.accelerator", "trainer.use_distributed_sampler",
             "trainer.check_val*", "trainer.accumulate_grad_batches", "trainer.profiler*", "model.ckpt_*",
             "model.save_ckpt_format", "model.gradient_as_bucket_view", "model.progress_interval", "model.tokenizer*",
             "optim.*", "log.*", "resume.*", "tokenizer*", "decoder_*", "name", "dir", "fn", "*steps", "*lr",
             "limit_*", "log_*", "val_*", "accumulate_grad_batches", "gradient_clip_val", *BRIDGE.ignored),
    source="NVIDIA/NeMo, nemo/collections/llm/recipes/",
)  # fmt: skip
TOOLS = (NEMO,)
MODULES = {TELLS: configs}
