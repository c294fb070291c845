"""Models and GPUs as people write them: `qwen3 8b`, `GeForce RTX 4090`, `H100 80GB`, an address of the model hub.

A name that can mean one thing only is taken; of one that can mean several, these are offered as buttons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from memcore.config.hardware import Hardware
from memcore.faces.render.titles import accelerator_title, titles
from memcore.hardware import ACCELERATORS
from memcore.networks.catalog import catalog, nickname

MOST = 8
"""Choices that are offered."""
_BRANDS = frozenset({"geforce", "tesla", "quadro", "radeon", "instinct", "gpu", "card"})
"""Words around a GPU's name that tell no GPU from another."""
_HUB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)\S*")


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


def meanings(path: str, text: str) -> Sequence[str]:
    """The ids that a name may mean, the likeliest first; none for an empty text or another setting."""
    wanted = [word for word in _words(_HUB.sub(r"\1", text.strip())) if word not in _BRANDS]
    known = _known().get(path)
    if known is None or not wanted:
        return ()
    if text.strip().lower() in known:
        return (text.strip().lower(),)
    for is_meant in (_is_it, _ends_it, _is_within):
        found = [name for name, spellings in known.items() if any(is_meant(wanted, each) for each in spellings)]
        if found:
            return tuple(sorted(found, key=lambda name: (len(name), name))[:MOST])
    return ()


@cache
def _known() -> Mapping[str, Mapping[str, Sequence[Sequence[str]]]]:
    """Every id by its setting, with the words of each way to write it."""
    return {
        "model": {
            each: [_words(each), _words(hub_id), _words(titles("model")[each])]
            for hub_id in catalog()
            for each in (nickname(hub_id),)
        },
        Hardware.accelerator: {
            each.id: [
                _words(f"{name}{size}") for name in (each.id, each.name) for size in ("", f" {each.nominal_gb}GB")
            ]
            + [_words(accelerator_title(each))]
            for each in ACCELERATORS
        },
    }


def _is_it(wanted: Sequence[str], words: Sequence[str]) -> bool:
    return list(wanted) == list(words)


def _ends_it(wanted: Sequence[str], words: Sequence[str]) -> bool:
    return list(wanted) == list(words[-len(wanted) :])


def _is_within(wanted: Sequence[str], words: Sequence[str]) -> bool:
    rest = iter(words)
    return all(each in rest for each in wanted)


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", name.lower())
