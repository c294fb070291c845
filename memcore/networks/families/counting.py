"""What counts the towers that no row describes: sizes that a file gives, and numbers of parameters by shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from memcore.errors import ConfigError
from memcore.networks.derived import Tensor, tensors
from memcore.networks.weights import Weight
from memcore.units import shown

Config = Mapping[str, object]


def unsupported(key: str, found: object, only: object) -> ConfigError:
    """Return the error for a key whose value is not the only one that is supported."""
    return ConfigError.at(
        f"model.{key}", "found {}, but only {} is supported for this family", shown(found), shown(only)
    )


def check_only(config: Config, supported: Config, path: str = "") -> None:
    """Raise ConfigError for the first key whose value is not the only one that is supported."""
    for key, only in supported.items():
        if config.get(key) != only:
            raise unsupported(f"{path}{key}", config.get(key), only)


def whole(value: object, default: int = 0) -> int:
    """Return a size that a file gives, or the default of its class."""
    return value if type(value) is int and 0 < value < 1 << 31 else default


def within(config: object, *names: str) -> object:
    """Return the value at a path of keys; None where there is none."""
    for name in names:
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def part(name: str, *counts: int) -> Weight:
    """Return a part of a tower as one weight: only the number of its parameters matters."""
    return Weight(name, ((sum(counts),),), "tower")


def matrix(outer: int, inner: int, bias: int = 1) -> int:
    """Count the parameters of a matrix and of its bias."""
    return outer * inner + bias * outer


def norms(count: int, width: int) -> int:
    """Count the parameters of layer norms with weight and bias."""
    return count * 2 * width


def blocks(count: int, width: int, wide: int) -> int:
    """Count a vision transformer's layers: attention and a plain feed-forward layer with biases, two layer norms."""
    return count * (4 * matrix(width, width) + matrix(wide, width) + matrix(width, wide) + norms(2, width))


def pooling(width: int, keys: int, queries: int, *, projects: bool) -> int:
    """Count a resampler: learned queries that attend to a tower's results, with fixed positions that are stored."""
    attends = 4 * matrix(width, width) + norms(2, width) + matrix(width, keys, 0)
    return 2 * queries * width + attends + (norms(1, width) + width * width) * projects


def size_of(found: Iterable[Tensor]) -> int:
    """Count the parameters in tensors."""
    return sum(prod(each.shape) for each in found)


def derived_size(config: Config, name: str, path: str) -> int:
    """Count the parameters of a class of transformers; `path` is where its configuration stands."""
    return size_of(tensors(config, name, path))
