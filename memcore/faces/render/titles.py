"""Models and GPUs by the names that people know them under: `Llama 3.1 8B` for `llama-3.1-8b`, `RTX 4090 · 24 GB`.

The page shows these; links, files and the command line keep ids. Every title stands for one id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from memcore.config.hardware import Hardware
from memcore.config.kinds import ModelName
from memcore.config.settings import SETTINGS
from memcore.hardware import ACCELERATORS, Accelerator
from memcore.networks.catalog import catalog, nickname

MODELS = tuple(path for path, setting in SETTINGS.items() if isinstance(setting.kind, ModelName))
"""Settings that name a model."""
_SPELLED = {
    "bloom": "BLOOM", "bloomz": "BLOOMZ", "codegemma": "CodeGemma", "dbrx": "DBRX", "deepseek": "DeepSeek",
    "distilgpt2": "DistilGPT-2", "glm": "GLM", "gpt2": "GPT-2", "llava": "LLaVA", "llm": "LLM", "medgemma": "MedGemma",
    "mpt": "MPT", "opt": "OPT", "paligemma": "PaliGemma", "paligemma2": "PaliGemma 2",
    "recurrentgemma": "RecurrentGemma", "stablelm": "StableLM", "starcoder": "StarCoder", "starcoder2": "StarCoder2",
    "starcoderbase": "StarCoderBase", "xl": "XL",
}  # fmt: skip
"""Words of ids as their makers write them."""
_SIZE = re.compile(r"\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bkm]|a\d+(?:\.\d+)?[bm]")
_AS_IS = ("gpt-oss", "gpt-neox", "gpt-j", "gpt-neo")
"""Names that keep their hyphen."""


def titled(path: str, text: str) -> str:
    """Return a setting's text as the page shows it: ids by their titles, everything else as it is.

    >>> titled("model", "llama-2-7b-hf"), titled("hardware.accelerator", "h100-sxm-80gb"), titled("model", "my-model")
    ('Llama 2 7B', 'H100 SXM · 80 GB', 'my-model')
    """
    return titles(path).get(text, text)


def untitled(path: str, text: str) -> str:
    """Return the text that a title stands for; everything else as it is."""
    return _ids(path).get(text, text)


def titles(path: str) -> Mapping[str, str]:
    """Titles by id of a setting that names a model or an accelerator; empty for any other."""
    if path in MODELS:
        return _models()
    return _accelerators() if path == Hardware.accelerator else {}


def model_title(name: str) -> str:
    """Return a model by its hub id or nickname; a name that the catalog does not have as it is."""
    return titled("model", nickname(name)) if nickname(name) in _models() else name


@cache
def _ids(path: str) -> Mapping[str, str]:
    return {title: each for each, title in titles(path).items()}


@cache
def _models() -> Mapping[str, str]:
    found = {nickname(hub_id): _model(hub_id.rpartition("/")[2].removesuffix("-hf")) for hub_id in catalog()}
    counts = Counter(found.values())
    return {each: title if counts[title] == 1 else _model(each) for each, title in found.items()}


def _model(name: str) -> str:
    name = re.sub(r"(?<=\d)_(?=\d)", ".", name.removeprefix("Meta-"))
    whole = next((each for each in _AS_IS if name.lower().startswith(f"{each}-")), "")
    words = [word for word in re.split("[-_]", name[len(whole) :]) if word]
    spelled = (_word(each, first=not (whole or number)) for number, each in enumerate(words))
    return " ".join([whole, *spelled]) if whole else " ".join(spelled)


def _word(word: str, *, first: bool) -> str:
    if word.lower() in _SPELLED:
        return _SPELLED[word.lower()]
    if _SIZE.fullmatch(word.lower()):
        return word.upper().replace("X", "x")
    plain = re.match(r"v\d", word) or len(word) < 3 or not word.islower()
    return word if plain and not first else f"{word[0].upper()}{word[1:]}"


@cache
def _accelerators() -> Mapping[str, str]:
    return {each.id: accelerator_title(each) for each in ACCELERATORS}


def accelerator_title(each: Accelerator) -> str:
    """Return the name of a GPU with its memory."""
    name = re.sub(r"^(?:NVIDIA|AMD|Intel|Huawei|Google) |[- ]?\d{1,6}GB$", "", each.name)
    name = re.sub(r"SXM\d", "SXM", name).replace("-", " ")
    return f"{name} · {each.nominal_gb} GB"
