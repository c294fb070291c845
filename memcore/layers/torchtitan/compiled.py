"""What `torch.compile` makes of a block: pointwise operations are one kernel, and results that nobody reads go.

Source: torch/_functorch/partitioners.py (`min_cut_rematerialization_partition`, `default_partition`): fusible
operations are computed again from what stays anyway; selective checkpoints mark what must stay, of what the backward
pass reads. That is a block's set of saved tensors. How the compiler orders its kernels, and so the temporaries of a
block, is taken from eager execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memcore.eager.autograd import attach, save, tracked
from memcore.eager.basics import like, only
from memcore.eager.tape import Tape
from memcore.eager.tensor import Tensor


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """act(gate) · up in one kernel: keeps both; its backward pass yields both gradients."""
    needs = tracked(gate, up)
    saved = save(gate.tape, gate, up) if needs else []
    out = like(up, "fused_product")
    if needs:
        attach([out], [gate, up], saved, lambda g, s: [like(only(g), "fused_product_backward") for _ in range(2)])
    return out


@contextmanager
def unread(tape: Tape) -> Iterator[None]:
    """Inside, a selective checkpoint keeps nothing: the backward pass does not read a sum's terms."""
    before = tape.select
    if before is None:
        yield
        return
    with tape.selecting(lambda operation, make: before("unread", make)):
        yield
