"""Registries without a way around them: what a server does not list, it does not load."""

from __future__ import annotations

from collections.abc import Collection

from memcore import registry
from memcore.errors import UnsupportedError


def check(title: str, listed: Collection[str], family: str) -> None:
    """Refuse a network that a server's registry does not have; a trainer's own types are of no registry.

    Raises UnsupportedError.
    """
    if family not in listed and family not in registry.MODEL_TYPES:
        raise UnsupportedError("model.model_type", "{} does not support {!r}; allowed: other servers", title, family)
