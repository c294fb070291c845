"""Liger's fused linear cross-entropy: head, loss and their gradients in the forward pass, a few rows at a time.

Source: liger_kernel/ops/fused_linear_cross_entropy.py, `fused_linear_cross_entropy_forward`; since 0.8.5 (August 2026)
`torch.addmm(out=grad_weight)` adds a chunk's gradient of the head to the others' on GPUs of compute capability 8 and
later, where before each was computed, cast to fp32 and added. Unsloth's own loss does the same in a compiled function
for each chunk, whose logits go with it (unsloth_zoo, fused_losses/cross_entropy_loss.py, `accumulate_chunk`).
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers.losses import shifted
from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, in_order, like, new
from memcore.tensors.tensor import Parameter, Tensor

CHUNKS = 3
"""Chunks recorded at most: a first one, one after another chunk, and a last one that may be smaller."""
_CHUNK, _REST = "lc", "ll"
"""Symbols for the rows of a chunk and of the last one."""


def chunk_sizes(rows: int, hidden: int, vocabulary: int) -> Mapping[str, int]:
    """Return the rows of each chunk and of the last one: a chunk's logits are about as large as its input."""
    share = -(-rows // -(-vocabulary // hidden))
    return chunk_rows(rows, 1 << (share - 1).bit_length())


def chunk_rows(rows: int, chunk: int) -> dict[str, int]:
    """Return the rows of each chunk and of the last one, where a chunk has `chunk` rows."""
    return {_CHUNK: chunk, _REST: rows - (-(-rows // chunk) - 1) * chunk}


def chunks_recorded(rows: int, sizes: Mapping[str, int]) -> int:
    """Return how many chunks stand for all of them."""
    return min(-(-rows // sizes[_CHUNK]), CHUNKS)


def fused_linear_loss(
    hidden: Tensor, weight: Parameter, labels: Tensor, chunks: int, *, in_place: bool, apart: bool = False
) -> Tensor:
    """Return the loss; it keeps the gradients of hidden states and head, which the backward pass scales in place.

    `apart`: a chunk's logits are gone when the next one's are computed.
    """
    tape = hidden.tape
    labels = shifted(labels)
    with tape.at("loss"):
        x = in_order([hidden]) if not hidden.contiguous else hidden
        for_x = like(x, "fused_loss_gradient")
        needs = tracked(weight)
        for_weight = new(tape, weight.shape, weight.dtype, "fused_loss_gradient") if needs else None
        rows = new(tape, hidden.shape[:-1], "fp32", "fused_loss_rows")
        _run_chunks(x, weight, chunks, made=None if in_place else for_weight, apart=apart)
        loss = new(tape, (), "fp32", "fused_loss")
        del rows, labels
        results: list[Tensor] = [for_x] if for_weight is None else [for_x, for_weight]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [saved[0], saved[1] if len(saved) > 1 else None]

        attach([loss], [hidden, weight], save(tape, *results), apply)
        return loss


def _run_chunks(x: Tensor, weight: Parameter, chunks: int, made: Tensor | None, *, apart: bool) -> None:
    """Each chunk's logits are there while the next one's are computed: its variable still names them.

    Autocast casts an fp32 head for each product; the transposed one is a view, whose cast is never kept.
    """
    tape, logits = x.tape, None
    dtype = tape.autocast if tape.autocast and x.dtype == "fp32" else x.dtype
    for chunk in range(chunks):
        size: Axis = _REST if chunk == chunks - 1 else _CHUNK
        shape: Shape = (size, *weight.outer)
        if apart:
            logits = None
        cast = autocast(weight, fresh=True)
        logits = new(tape, shape, dtype, "fused_loss_logits")
        del cast
        cast = autocast(weight)
        new(tape, (size, *weight.inner), dtype, "input_gradient")
        del cast
        if made is not None:
            product = new(tape, weight.shape, dtype, "weight_gradient")
            if dtype != "fp32":
                product = like(product, "to", "fp32")
            del product
    del logits
