"""What `torch.compile` makes of a block: pointwise operations are one kernel, and unused results are dropped.

Source: torch/_functorch/partitioners.py (`min_cut_rematerialization_partition`, `default_partition`): fusible
operations are computed again from what stays anyway; selective checkpoints mark what must stay, of what the backward
pass reads, and a memory budget decides about costlier ones (`partitioner.py`). That is a block's set of saved
tensors. How the compiler orders its kernels, and so the temporaries of a block, is taken from eager execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memcore.messages import Message
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, FeedForward
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import like, only
from memcore.tensors.operations import add
from memcore.tensors.selection import selectable
from memcore.tensors.tensor import Tape, Tensor


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """act(gate) · up in one kernel: keeps both; its backward pass yields both gradients."""
    needs = tracked(gate, up)
    saved = save(gate.tape, gate, up) if needs else []
    out = like(up, "fused_product")
    out.fused = True
    if needs:
        attach([out], [gate, up], saved, lambda g, s: [like(only(g), "fused_product_backward") for _ in range(2)])
    return out


def rotated(x: Tensor) -> Tensor:
    """A rotation in one kernel: its table is there anyway."""
    (out,) = selectable(x.tape, "rotary", lambda: [like(x, "fused_product")])
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), "fused_product_backward")])
    return out


def residual(x: Tensor, y: Tensor) -> Tensor:
    """A sum that kernels add up again from its terms: under autocast the second is half as large as the sum."""
    out = add(x, y)
    if x.tape.compiled and x.tape.autocast and tracked(out):
        out.terms = (x, y)
    return out


def obstacles(network: Network) -> list[str]:
    """Name what a network has that is not supported in compiled blocks of transformers."""
    return list(dict.fromkeys(each for layer in network.kinds for each in _of_layer(layer)))


def _of_layer(layer: Layer) -> Iterator[str]:
    mixer, ffn = layer.mixer, layer.feed_forward
    plain = isinstance(mixer, Attention) and mixer.variant == "attention" and len(mixer.inputs) == 3
    if not plain or not isinstance(mixer, Attention) or mixer.rotary != "full" or mixer.gated or mixer.softcap:
        yield "mixers other than attention with rotary embeddings"
    elif mixer.sinks is not None or mixer.biased or mixer.norm_place not in ("head", "after"):
        yield "attention with sinks, distance biases or its own norms"
    if not isinstance(ffn, FeedForward) or ffn.gate is None or ffn.fused or ffn.gating != "plain":
        yield "feed-forward layers other than gated ones with three matrices"
    if layer.residual != "sequential" or layer.second_mixer or layer.second_feed_forward or layer.extra:
        yield Message("layers connected as {!r}", layer.residual)
    yield from (Message("{!r} norms", norm.kind) for norm in layer.norms if norm.kind != "rms")


@contextmanager
def unread(tape: Tape) -> Iterator[None]:
    """Inside, a selective checkpoint keeps nothing: the backward pass does not read a sum's terms."""
    before = tape.select
    if before is None:
        yield
        return
    with tape.selecting(lambda operation, make: before("unread", make)):
        yield
