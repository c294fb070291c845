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
from memcore.tensors.basics import like, new, only
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


def pointwise(x: Tensor, *others: Tensor) -> Tensor:
    """A function of several inputs in one kernel, shaped like the first: keeps all; its backward pass yields theirs."""
    inputs = [x, *others]
    saved = save(x.tape, *inputs) if tracked(*inputs) else []
    out = like(x, "fused_product")
    if saved:
        attach([out], inputs, saved, lambda g, s: [like(each, "fused_product_backward") for each in s])
    return out


def activated(x: Tensor) -> Tensor:
    """act(x) in one kernel, however many operations it is written in."""
    saved = save(x.tape, x) if tracked(x) else []
    out = like(x, "fused_product")
    if saved:
        attach([out], [x], saved, lambda g, s: [like(only(g), "fused_product_backward")])
    return out


def rotated(x: Tensor) -> Tensor:
    """Return a rotation in one kernel: its table is there anyway."""
    (out,) = selectable(x.tape, "rotary", lambda: [like(x, "fused_product")])
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), "fused_product_backward")])
    return out


def gated_halves(both: Tensor) -> Tensor:
    """act(gate) · up in one kernel, where one matrix yields both: their gradients are one tensor, too."""
    needs = tracked(both)
    saved = save(both.tape, both) if needs else []
    out = new(both.tape, (*both.shape[:2], both.shape[-1]), both.dtype, "fused_product")
    out.fused = True
    if needs:
        attach([out], [both], saved, lambda g, s: [like(s[0], "fused_product_backward")])
    return out


def residual(x: Tensor, y: Tensor, normed: Tensor | None = None) -> Tensor:
    """Return a sum that kernels add up again from its terms: under autocast the second is half as large as the sum.

    Where `y` is the norm of something, that is there anyway for the norm's backward pass.
    """
    out = add(x, y)
    if x.tape.compiled and tracked(out) and (normed is not None or x.tape.autocast):
        out.terms = (x, normed or y)
    return out


def obstacles(network: Network) -> list[str]:
    """Name what a network has that is not supported in compiled blocks of transformers."""
    return list(dict.fromkeys(each for layer in network.kinds for each in _of_layer(layer)))


def _of_layer(layer: Layer) -> Iterator[str]:
    mixer, ffn = layer.mixer, layer.feed_forward
    plain = isinstance(mixer, Attention) and mixer.variant == "attention" and len(mixer.inputs) in (1, 3)
    if not plain or not isinstance(mixer, Attention) or mixer.rotary not in _ROTATIONS or mixer.gated or mixer.softcap:
        yield "mixers other than attention over heads"
    elif mixer.sinks is not None or mixer.biased or mixer.norm_place not in _NORM_PLACES:
        yield "attention with sinks, distance biases or its own norms"
    if not isinstance(ffn, FeedForward) or ffn.activation_weights or ffn.gating != "plain":
        yield "feed-forward layers other than dense ones"
    if layer.residual not in _RESIDUALS or layer.second_mixer or layer.second_feed_forward or layer.extra:
        yield Message("layers connected as {!r}", layer.residual)
    yield from (Message("{!r} norms", norm.kind) for norm in layer.norms if norm.kind not in NORMS | {"layer"})


NORMS = frozenset({"rms", "rms-offset", "rms-after"})
"""Norms that become one kernel, which keeps its input and a statistic of each row."""
_ROTATIONS = frozenset({"none", "full", "full-fp32", "partial-each"})
_NORM_PLACES = frozenset({"head", "after", "projected", "row"})
_RESIDUALS = frozenset({"sequential", "sequential-dropped", "sequential-kept", "sandwich", "norms-after"})


@contextmanager
def unread(tape: Tape) -> Iterator[None]:
    """Inside, a selective checkpoint keeps nothing: the backward pass does not read a sum's terms."""
    before = tape.select
    if before is None:
        yield
        return
    with tape.selecting(lambda operation, make: before("unread", make)):
        yield
