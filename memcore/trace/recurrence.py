"""How recurrent mixers run in a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.networks.network import Model
from memcore.networks.parts import Experts, SpecialMixer
from memcore.symbols import measure
from memcore.tensors.loops import LOOP
from memcore.trace.recipe import Buffer, Recurrence

_WITHOUT_KERNELS = ("lightning", "recurrent-gemma")
"""Variants whose code is always PyTorch's."""


def is_recurrent(model: Model) -> bool:
    """Return whether a model has recurrent mixers."""
    return bool(_mixers(model))


def recurrence(
    kernels: str, model: Model, sizes: Mapping[str, int], stored: str, *, fuses_norm: bool = False
) -> Recurrence:
    """Return how a model's recurrent mixers run with these kernels, given sizes and the dtype of stored parameters."""
    mixers = _mixers(model)
    looping = [mixer for mixer in mixers if kernels == "fallback" or mixer.variant in _WITHOUT_KERNELS]
    loops = [1, *(measure(mixer.trips, sizes) for mixer in looping)]
    even = all(sizes["s"] % measure(mixer.chunk, sizes) == 0 for mixer in mixers)
    trips, fuses = min(max(loops), LOOP), fuses_norm and kernels == "fused"
    return Recurrence(kernels=kernels, fuses_norm=fuses, trips=trips, even=even, stored=stored)


def constants(model: Model, stored: str) -> Iterator[Buffer]:
    """Buffers of the recurrent mixers and routers of all layers."""
    for layer in model.network.kinds:
        for mixer in layer.mixers:
            for each in mixer.constants if isinstance(mixer, SpecialMixer) else ():
                module = f"{model.network.path}.*.{each.name}"
                yield Buffer(rule="constant", module=module, shape=each.shape, dtype=stored, layer=layer)
            if isinstance(mixer, SpecialMixer) and mixer.variant == "recurrent-gemma":
                module = f"{model.network.path}.*.{mixer.module}.rg_lru"
                yield Buffer(rule="last_state", module=module, shape=("b", "D"), dtype="fp32", layer=layer)
        for ffn in layer.ffns:
            for held in ffn.buffers if isinstance(ffn, Experts) else ():
                module, dtype = f"{model.network.path}.*.{held.name}", held.dtype or stored
                yield Buffer(rule="routing_buffer", module=module, shape=held.shape, dtype=dtype, layer=layer)


def _mixers(model: Model) -> list[SpecialMixer]:
    return [mixer for layer in model.network.kinds for mixer in layer.mixers if isinstance(mixer, SpecialMixer)]
