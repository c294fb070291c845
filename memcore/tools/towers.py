"""Which towers and projectors of a model learn: each tool's own keys for it, and what it does without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError, UnsupportedError
from memcore.networks.adapters import ALL, linear_names, outside_names
from memcore.networks.catalog import find_model
from memcore.networks.nearest import only_counted, outside_layers, seeing
from memcore.networks.network import LANGUAGE_MODEL, SEEING
from memcore.records import dataclass
from memcore.tools.launchers import is_set
from memcore.tools.targets import targets

TRAINABLE = "*trainable"
TOWER, PROJECTOR = ("tower",), ("projector",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freezes:
    """A tool's keys that leave parts of a model as they are."""

    parts: Mapping[str, tuple[str, ...]]
    """What each key freezes."""
    language: str = ""
    """The key that freezes the language model."""
    unless: tuple[str, ...] = ()
    """Keys of parts that are frozen where nothing is said."""
    trains: bool = False
    """The keys name the trainable parts, not the frozen ones."""
    within: str = ""
    """Names that a projector has to have within, to be frozen together with the tower."""
    source: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Return all of its keys."""
        return (*self.parts, *((self.language,) if self.language else ()))


FREEZES: Mapping[str, Freezes] = {
    "llama-factory": Freezes(
        parts={"freeze_vision_tower": TOWER, "freeze_multi_modal_projector": PROJECTOR},
        language="freeze_language_model",
        unless=("freeze_vision_tower", "freeze_multi_modal_projector"),
        source="LLaMA-Factory 0.9.6, hparams/finetuning_args.py, model/model_utils/visual.py",
    ),
    "ms-swift": Freezes(
        parts={"freeze_vit": TOWER, "freeze_aligner": PROJECTOR},
        language="freeze_llm",
        unless=("freeze_vit", "freeze_aligner"),
        source="ms-swift 4.5, arguments/tuner_args.py",
    ),
    "axolotl": Freezes(
        parts={"freeze_mm_modules": SEEING}, source="axolotl 0.18, utils/freeze.py (`freeze_mm_modules`)"
    ),
    "verl": Freezes(
        parts={"actor_rollout_ref.actor.freeze_vision_tower": SEEING},
        source="verl 0.8.0.dev, workers/fsdp_workers.py (`get_vl_model_vision_tower`: `visual`, with its merger)",
    ),
    "openrlhf": Freezes(
        parts={"--actor.freeze_visual_encoder": SEEING},
        source="OpenRLHF 0.11.0, models/actor.py: all but `language_model` and `lm_head`",
    ),
    "nemo-automodel": Freezes(
        parts={"freeze_config.freeze_vision_tower": SEEING},
        language="freeze_config.freeze_language_model",
        unless=("freeze_config.freeze_vision_tower",),
        within="vision|visual|image_encoder",
        source="NeMo Automodel 0.5, components/utils/model_utils.py (`apply_parameter_freezing`)",
    ),
    "prime-rl": Freezes(
        parts={"model.vlm.freeze_vision_encoder": SEEING},
        unless=("model.vlm.freeze_vision_encoder",),
        source="prime-rl 0.8.0, trainer/model.py (`freeze_vision_encoder`, of text alone too)",
    ),
    "qwen-vl": Freezes(
        parts={"tune_mm_vision": TOWER, "tune_mm_mlp": PROJECTOR},
        language="tune_mm_llm",
        unless=("tune_mm_vision", "tune_mm_mlp", "tune_mm_llm"),
        trains=True,
        source="QwenLM/Qwen2.5-VL, qwen-vl-finetune/qwenvl/train/{argument,train_qwen}.py (`set_model`)",
    ),
    "qwen-vl-series": Freezes(
        parts={"freeze_vision_tower": TOWER, "freeze_merger": PROJECTOR},
        language="freeze_llm",
        source="2U1/Qwen-VL-Series-Finetune, src/params.py, src/train/train_cls.py",
    ),
    "internvl": Freezes(
        parts={"freeze_backbone": TOWER, "freeze_mlp": PROJECTOR},
        language="freeze_llm",
        source="OpenGVLab/InternVL, internvl_chat/internvl/train/internvl_chat_finetune.py",
    ),
}
"""By tool, and by widespread script."""
_SCRIPTS = ("qwen-vl", "qwen-vl-series", "internvl")
_ONLY_TOWERS = "training only the towers is not supported yet"


def trained_parts(tool: str, keys: dict[str, Any], model: object) -> dict[str, Any]:
    """Return what of a model with towers a full fine-tune trains, under `*trainable`; empty where all of it does.

    The keys that say so are taken out of `keys`. Raises UnsupportedError where the language model is frozen.
    """
    row = FREEZES[tool]
    left = _frozen(tool, keys, model)
    if row.within and not stands_within(model, row.within):
        left -= {*PROJECTOR}
    return {TRAINABLE: [LANGUAGE_MODEL, *(part for part in reversed(SEEING) if part not in left)]} if left else {}


def adapted_parts(tool: str, keys: dict[str, Any], model: object) -> dict[str, Any]:
    """Return which parts have adapters, under `*trainable`, where it is more than the language model.

    The keys that say so are taken out of `keys`. Raises UnsupportedError where the language model is frozen.
    Sources: LLaMA-Factory 0.9.6, model/model_utils/misc.py (`find_all_linear_modules`), visual.py
    (`patch_target_modules`); ms-swift 4.5, model/utils.py (`get_multimodal_target_regex`).
    """
    left = _frozen(tool, keys, model)
    opened = [part for part in SEEING if part not in left] if sees(model) else []
    return {TRAINABLE: [LANGUAGE_MODEL, *opened]} if opened else {}


def reached(key: str, named: object, model: object) -> dict[str, Any]:
    """Return the parts that PEFT finds linear layers of by the names of layers with adapters, under `*trainable`.

    Nothing where these stand in the language model alone, as those of a pattern within it do: all linear layers of it
    are those that `key` has without a pattern. Source: peft 0.21, tuners/tuners_utils.py
    (`check_target_module_exists`: the ends of names; `_maybe_include_all_linear_layers`).
    """
    if not named or not isinstance(model, str) or not sees(model):
        return {}
    listed, network = targets(named), find_model(model).network
    names = {*listed} if isinstance(listed, list) else set()
    if any(each in str(named) for each in ("language_model", network.path)):
        return {key: ALL} if names == {*linear_names(network)[:-1]} else {}
    found = [part for part in SEEING if listed == ALL or names & {*outside_names(network, (part,))}]
    return {TRAINABLE: [LANGUAGE_MODEL, *found]} if found and not only_counted(network) else {}


def keys_within(tool: str, config: Config) -> dict[str, Any]:
    """Return the key of the layers with adapters as a pattern, where names would reach towers too."""
    given, kind = config.get(Training.adapter.target_modules) or ALL, config.get(Training.adapter.type)
    towers = {*SEEING} & {*(config.get(Training.trainable) or ())}
    if kind is None or towers or tool not in _BY_PEFT or not reached("", given, config.model):
        return {}
    network = find_model(config.model).network
    names = linear_names(network)[:-1] if given == ALL else given
    pattern = rf"{network.path}\..*\.({'|'.join(names)})"
    return {"lora_target_linear": None, "lora_target_modules": pattern if tool == "axolotl" else [pattern]}


_BY_PEFT = ("axolotl", "trainer")
"""Tools that hand names to PEFT as they are."""


def _frozen(tool: str, keys: dict[str, Any], model: object) -> set[str]:
    """Return the parts next to the language model that a tool's keys freeze, and take these keys out of `keys`."""
    row = FREEZES[tool]
    frozen = {key: row.trains != is_set(keys.pop(key, _absent(row, key))) for key in row.keys}
    if not sees(model):
        return set()
    if frozen.get(row.language):
        raise UnsupportedError.of_value(row.language, not row.trains, _ONLY_TOWERS)
    return {part for key, parts in row.parts.items() if frozen[key] for part in parts}


def trained_by_script(keys: dict[str, Any], model: object) -> dict[str, Any]:
    """Return the same for the keys of the first of the widespread scripts that has one of them."""
    for each in _SCRIPTS:
        if not keys.keys().isdisjoint(FREEZES[each].keys):
            return trained_parts(each, keys, model)
    return {}


SCRIPT_KEYS = tuple(key for each in _SCRIPTS for key in FREEZES[each].keys)


def _absent(row: Freezes, key: str) -> bool:
    """Return what an absent key says."""
    return (key in row.unless) != row.trains


def stands_within(model: object, names: str) -> bool:
    """Return whether a model's projector stands within a module of such a name."""
    weights = outside_layers(find_model(model).network) if isinstance(model, str) else ()
    return any(re.search(names, weight.name) for weight in weights if weight.kind in PROJECTOR)


def keys_of_towers(tool: str) -> Callable[[Config], Mapping[str, Any]]:
    """Return the keys that say which of a model's towers and projectors are trained, or have adapters."""
    row = FREEZES[tool]

    def keys(config: Config) -> Mapping[str, Any]:
        given, adapted = config.get(Training.trainable), config.get(Training.adapter.type) is not None
        if not sees(config.model) or (adapted if given is None else LANGUAGE_MODEL not in given):
            return {}
        freezes = {key: given is not None and not {*parts} & {*given} for key, parts in row.parts.items()}
        return {key: value for key, value in freezes.items() if value != (key in row.unless)}

    return keys


def sees(model: object) -> bool:
    """Return whether a model of the catalog has towers."""
    try:
        return isinstance(model, str) and seeing(find_model(model).network)
    except MemcoreError:
        return False
