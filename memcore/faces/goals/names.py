"""Models and GPUs as people write them: `qwen3 8b`, `GeForce RTX 4090`, `H100 80GB`, an address of the model hub.

A name that can mean one thing only is taken; of one that can mean several, these are offered as buttons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from memcore.config.hardware import Hardware
from memcore.errors import meaning
from memcore.faces.goals.phrases import HUB
from memcore.faces.render.titles import titles
from memcore.hardware import SPELLINGS
from memcore.networks.catalog import bases_first, catalog, models_meant, named, nickname, of_size
from memcore.questions.planning.fitting import WELL_KNOWN

MOST = 8
"""Choices that are offered."""
_HUB = re.compile(HUB)


def written(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of a form with catalog ids in place of names that can mean one thing only.

    >>> written({"model": "Llama 3.1 8B", "hardware.accelerator": "4090 24 GB"})
    {'model': 'llama-3.1-8b', 'hardware.accelerator': 'rtx-4090'}
    """
    found = dict(texts)
    for path in ("model", Hardware.accelerator):
        meant = meanings(path, found.get(path, ""))
        if len(meant) == 1:
            found[path] = meant[0]
    return found


def meanings(path: str, text: str) -> tuple[str, ...]:
    """The ids that a name may mean, the likeliest first; none for an empty text or another setting.

    >>> meanings("model", "llama3")[:3]
    ('llama-3.1-8b', 'llama-3.1-405b', 'llama-3.1-70b')
    """
    known, name = _known().get(path, {}), text.strip().lower()
    if name in known:
        return (name,)
    if path != "model":
        return tuple(meaning(name, known)[:MOST])
    return tuple((of_size(name) or bases_first(meaning(_HUB.sub(r"\1", name), known)))[:MOST])


def well_known_first(name: str) -> Sequence[str]:
    """Return the models that a size or a part of a name may mean, those that people name most before the others.

    >>> well_known_first("32b")[0], well_known_first("llama 70b")[0]
    ('qwen3-32b', 'llama-3.3-70b-instruct')
    """
    usual, written_so = {nickname(each) for each in WELL_KNOWN}, name.strip().lower()
    return sorted(of_size(written_so) or models_meant(written_so), key=lambda each: each not in usual)


_TUNED = re.compile(r"-(?:(it|instruct|chat)|pt|base|thinking)(?![a-z])", re.IGNORECASE)
"""How names say what a model was trained for; the group: to follow instructions."""


def as_served(name: str) -> str:
    """Return the model that a name means to who serves it: of one that it leaves open, the tuned version.

    >>> as_served("gemma 3 27b"), as_served("gemma-3-27b-pt"), as_served("llama-3.1-8b")
    ('gemma-3-27b-it', 'gemma-3-27b-pt', 'llama-3.1-8b')
    """
    found = named(name)
    if found is None or not found.others:
        return name
    same = (each for each in found.others if _TUNED.sub("", each) == _TUNED.sub("", found.base))
    return next((nickname(each) for each in same if (tuned := _TUNED.search(each)) and tuned[1]), name)


def is_model(name: str) -> bool:
    """Return whether a name may stand for a model of the catalog, without saying which: far faster than `meanings`.

    >>> is_model("Qwen3 8B"), is_model("8B on a 3090")
    (True, False)
    """
    wanted = _WORD.findall(name.lower())
    rare = min((_names_by_word().get(word, ()) for word in wanted), key=len, default=())
    return any(all(word in rest for word in wanted) for each in rare for rest in [iter(each)])


_WORD = re.compile(r"[a-z]+|[0-9]+")


@cache
def _names_by_word() -> Mapping[str, Sequence[Sequence[str]]]:
    """Return the words of every way to write a model by each word in it."""
    found: dict[str, list[Sequence[str]]] = {}
    for spellings in _known()["model"].values():
        for words in map(_WORD.findall, map(str.lower, spellings)):
            for word in {*words}:
                found.setdefault(word, []).append(words)
    return found


@cache
def _known() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Every id by its setting, with the ways to write it."""
    return {
        "model": {name: (name, hub_id, titles("model")[name]) for hub_id in catalog() for name in (nickname(hub_id),)},
        Hardware.accelerator: SPELLINGS,
    }
