"""PyTorch's caching allocator as a job's environment sets it: `PYTORCH_ALLOC_CONF` and its older names.

Sources: pytorch, c10/core/AllocatorConfig.cpp (the first of three names that is set is read; a text without an option
has its default; limits of the values), c10/cuda/CUDAAllocatorConfig.h (`backend`, `expandable_segments`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from memcore.config.engine import EngineSettings
from memcore.config.settings import SETTINGS, Config
from memcore.errors import ConfigError
from memcore.formats.shell import ENVIRONMENT, OUTSIDE

NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""In the order in which PyTorch looks for them."""
_USUAL_NAME = NAMES[1]
"""Which every release since 1.10 reads."""
PATHS = (
    EngineSettings.expandable_segments, EngineSettings.max_split_size_mb,
    EngineSettings.garbage_collection_threshold, EngineSettings.roundup_power2_divisions,
)  # fmt: skip
"""The settings that the variable has."""
_READ = tuple(path.rpartition(".")[2] for path in PATHS)
_OPTION = re.compile(r"(?:^|,)\s*(\w{1,80})\s*:\s*(\[[^\]]{0,400}\]|[^,\[\]]{1,80})")
_TRUTH: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}
_SMALLEST_SPLIT = 20
"""MiB of `kLargeBuffer`: no smaller `max_split_size_mb` is taken."""
_USUAL: Mapping[str, str] = {"backend": "native"}
_WITHOUT_MEMORY = re.compile(r"release_lock_on_\w+|pinned_\w+|throw_on_cudamalloc_oom")
"""Options that only threads, host memory and errors depend on."""


class Allocator(NamedTuple):
    """What an environment says of the allocator."""

    key: str
    """The key of the text that says it; empty if nothing does."""
    settings: Mapping[str, Any]
    """By path."""
    left_out: tuple[str, ...]
    """Options that may change memory and are not supported."""


def allocator(found: Mapping[str, Any], engine: str) -> Allocator:
    """Return what keys of a text say of the allocator of an engine's processes.

    >>> allocator({"*env.PYTORCH_ALLOC_CONF": "expandable_segments:True"}, "fsdp").settings
    {'engine.expandable_segments': True}

    Raises ConfigError for values that PyTorch rejects.
    """
    key = next((each for name in NAMES for each in found if each.rpartition(".")[2] == name), "")
    text = re.sub(r"[\"'\s]", "", str(found.get(key, "")))
    if not key or OUTSIDE.search(text):
        return Allocator(key, {}, ())
    settings: dict[str, Any] = {}
    left: list[str] = []
    for option, said in _OPTION.findall(text):
        value = _alike(said)
        path = f"engine.{option}"
        if option in _READ and not value.startswith("[") and _takes(path, engine):
            settings[path] = _read(key, option, value)
        elif _USUAL.get(option) != value and not _WITHOUT_MEMORY.fullmatch(option):
            left.append(f"{key.removeprefix(ENVIRONMENT)}={option}")
    return Allocator(key, settings, tuple(left))


_SET = re.compile(rf"\b({'|'.join(NAMES)})=(\S+)")


def said_before(command: str) -> dict[str, str]:
    """Return the allocator variables set in front of a command, by the keys that `allocator` reads.

    >>> said_before("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun train.py")
    {'*env.PYTORCH_CUDA_ALLOC_CONF': 'expandable_segments:True'}
    """
    return {f"{ENVIRONMENT}{name}": value for name, value in _SET.findall(command)}


def written(config: Config, paths: Collection[str] = PATHS) -> str:
    """Return the variable that sets some of a config's settings; empty if it has none of them.

    >>> written(Config.from_dict({"model": "gpt2", "engine": {"expandable_segments": True}}))
    'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True'
    """
    given = {path.rpartition(".")[2]: config.get(path) for path in PATHS if path in paths}
    options = [f"{option}:{value}" for option, value in given.items() if value is not None and _accepted(option, value)]
    return f"{_USUAL_NAME}={','.join(options)}" if options else ""


def _accepted(option: str, value: object) -> bool:
    """Return whether PyTorch takes a value."""
    try:
        return bool(_read(_USUAL_NAME, option, str(value)) == value)
    except ConfigError:
        return False


def _alike(value: str) -> str:
    """Return a list of divisions by size as the one number, where it is the same for all sizes: `[256:4,512:4,>:4]`."""
    numbers = {each.rpartition(":")[2] for each in value.strip("[]").split(",")}
    return numbers.pop() if value.startswith("[") and len(numbers) == 1 else value


def _takes(path: str, engine: str) -> bool:
    engines = SETTINGS[path].engines
    return engines is None or engine in engines


def _read(key: str, option: str, value: str) -> Any:
    """Return an option's value, within PyTorch's own limits."""
    name = key.removeprefix(ENVIRONMENT)
    try:
        if option == "expandable_segments":
            return _TRUTH[value.lower()]
        if option == "garbage_collection_threshold":
            return _between(float(value))
        number = int(value)
    except (KeyError, ValueError):
        raise ConfigError.at(name, "found {}:{}, which PyTorch does not accept", option, value) from None
    too_small = option == "max_split_size_mb" and number < _SMALLEST_SPLIT
    if too_small or (option == "roundup_power2_divisions" and (number < 1 or number & (number - 1))):
        raise ConfigError.at(name, "found {}:{}, which PyTorch does not accept", option, value)
    return number


def _between(number: float) -> float:
    """Return a fraction, neither 0 nor 1."""
    if not 0 < number < 1:
        raise ValueError
    return number
