"""How many kernels a captured step runs: in the pieces between attention, and in attention itself.

vLLM cuts the compiled graph at attention and at what scans recurrent states (config/compilation.py, `splitting_ops`):
a graph captured piece by piece has what lies between, one captured whole has everything. Norms, rotations, activations
and quantization are one kernel each, which inductor fuses with what is elementwise before and after them.

Sources: vllm, model_executor/models and layers, v1/attention/backends; layers/fused_moe/fused_moe.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, Ffn, LatentAttention, Mixer

_REDUCED = 2
"""Sums over ranks: after attention and after the feed-forward layer."""
_ROUTING = 9
"""The router, its choice, counting and sorting tokens by expert (3), two products, the activation, the sum."""


def kernels(layer: Layer, ranks: int) -> tuple[int, int]:
    """Kernels of a layer in pieces, and those of its attention.

    >>> from memcore.networks.catalog import find_model
    >>> layer, _ = find_model("llama-3.1-8b").layers[0]
    >>> kernels(layer, 1)
    (8, 2)
    """
    between = sum(_around(mixer) for mixer in layer.mixers) + sum(_fed(ffn) for ffn in layer.ffns)
    inside = sum(_inside(mixer) for mixer in layer.mixers)
    return between + (len(layer.norms) or 2) + (_REDUCED if ranks > 1 else 0), inside


def _around(mixer: Mixer) -> int:
    """Its products and its rotation."""
    if isinstance(mixer, Attention):
        return 3 + (mixer.query_norm is not None or mixer.key_norm is not None)
    if isinstance(mixer, LatentAttention):
        return len(mixer.queries) + 4
    return 4


def _inside(mixer: Mixer) -> int:
    """Writing the cache and reading it; latent attention also expands what it reads, states have a convolution."""
    return 2 if isinstance(mixer, Attention) else 5


def _fed(ffn: Ffn) -> int:
    return sum(_ffn(ffn))


def _ffn(ffn: Ffn) -> Iterator[int]:
    if not isinstance(ffn, Experts):
        yield 3
        return
    yield _ROUTING
    if ffn.shared is not None:
        yield 4
    if ffn.shared_gate is not None:
        yield 2
