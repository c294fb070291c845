"""Models that are described by Megatron-LM's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.network import Model
from memcore.networks.reader import Reader
from memcore.trainers.megatron.networks.arguments import read_arguments

READERS: Mapping[str, Callable[[Reader], Model]] = {"megatron": read_arguments}
"""By `model_type`."""
