"""What runs a network that a server does not have."""

from __future__ import annotations

from memcore.messages import Message
from memcore.networks.network import Model
from memcore.serving.cache import caches


def elsewhere(model: Model) -> Message:
    """Say whether transformers' `generate` serves a network."""
    if all(caches(layer) for layer, _ in model.layers):
        return Message("engine.type transformers serves it")
    return Message("transformers runs it, but its cache is not supported yet")
