"""Files that lie in a model's folder next to its config.json, and say nothing about memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

from memcore.errors import ConfigError

_COMPANIONS = frozenset({
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "preprocessor_config.json", "processor_config.json", "chat_template.json",
})  # fmt: skip
"""Source: transformers 4.57, utils/__init__.py (`GENERATION_CONFIG_NAME` and others), tokenization_utils_base.py."""

T = TypeVar("T")


def apart(names: Sequence[str], files: Sequence[T]) -> tuple[list[T], list[str]]:
    """Return the files that may describe a job, and the names of those that only come with a model.

    >>> apart(["config.json", "model/tokenizer_config.json"], [1, 2])
    ([1], ['tokenizer_config.json'])

    Raises ConfigError where all of them only come with a model.
    """
    plain = [PurePath(name).name for name in names]
    kept = [each for name, each in zip(plain, files, strict=True) if name not in _COMPANIONS]
    silent = [name for name in plain if name in _COMPANIONS]
    if silent and not kept:
        raise ConfigError.at(silent[0], "has no effect on memory; add the config.json of the same folder")
    return kept, silent
