"""How towers are counted that no row describes: sizes of a file, and numbers of parameters by shape."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.weights import Weight

Config = Mapping[str, object]


def whole(value: object, default: int = 0) -> int:
    """Return a size that a file gives, or the default of its class."""
    return value if type(value) is int and 0 < value < 1 << 31 else default


def within(config: object, *names: str) -> object:
    """Return what a key of a part of a configuration says."""
    for name in names:
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def part(name: str, *counts: int) -> Weight:
    """Return one part of a tower, of which only the number of its parameters matters."""
    return Weight(name, ((sum(counts),),), "tower")


def matrix(outer: int, inner: int, bias: int = 1) -> int:
    """Return a matrix with its bias."""
    return outer * inner + bias * outer


def norms(count: int, width: int) -> int:
    """Layer norms with weight and bias."""
    return count * 2 * width


def blocks(count: int, width: int, wide: int) -> int:
    """Layers of a vision transformer: attention and a plain feed-forward layer with biases, two layer norms."""
    return count * (4 * matrix(width, width) + matrix(wide, width) + matrix(width, wide) + norms(2, width))


def pooling(width: int, keys: int, queries: int, *, projects: bool) -> int:
    """Learned queries that attend to what a tower sees (`Resampler`), with fixed positions that checkpoints hold."""
    attends = 4 * matrix(width, width) + norms(2, width) + matrix(width, keys, 0)
    return 2 * queries * width + attends + (norms(1, width) + width * width) * projects
