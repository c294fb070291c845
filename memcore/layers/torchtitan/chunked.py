"""torchtitan's chunked loss: head, loss and their backward pass for a part of the tokens at a time.

Source: torchtitan/components/loss.py (`ChunkedLossWrapper`, `GradAccumulator`, `_DecoderOutputGradientBackProp`): the
head stays gathered meanwhile, its gradient adds up unsharded and is reduced after the last part; the gradient of the
hidden states is collected in fp32.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.layers.losses import causal_lm_loss
from memcore.symbols import Quotient, Shape
from memcore.tensors.autograd import Gradient, attach, backward, save
from memcore.tensors.basics import like, new, to, view
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step

RECORDED = 3
"""Parts that are recorded at most: the first, one that finds gradients of the head, and the last. All others look like
the second."""


def chunked_loss(step: Step, hidden_states: Tensor, labels: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the loss, from which a backward pass goes on with the collected gradient."""
    chunks = step.recipe.loss.chunks
    shape: Shape = (1, Quotient(hidden_states.shape[:2], chunks), *hidden_states.shape[2:])
    collected = like(hidden_states, "collected_gradient", "fp32")
    parts = min(chunks, RECORDED)
    for number in range(parts):
        _run(step, _leaf(hidden_states, shape), view(labels, shape[:2]), head)
        step.runtime.chunk_ended(last=number == parts - 1)
    gradient = to(collected.detach(), hidden_states.dtype)
    del collected
    return _bridge(hidden_states, gradient)


def _run(step: Step, hidden_states: Tensor, labels: Tensor, head: Callable[[Tensor], Tensor]) -> None:
    """Head, loss and backward pass of one part; the gradient is copied into its place and goes."""
    step.tape.enter("loss", "chunk of the loss")
    logits = head(hidden_states)
    loss = causal_lm_loss(logits, labels, step.recipe.loss.of_a_chunk)
    del logits
    backward(loss)


def _leaf(hidden_states: Tensor, shape: Shape) -> Tensor:
    """Return a part of the hidden states outside their graph, whose gradient is freed once copied."""
    part = view(hidden_states, shape)
    attach([part], [], [], lambda gradients, saved: [])
    return part


def _bridge(hidden_states: Tensor, gradient: Tensor) -> Tensor:
    """Return the loss, whose backward pass hands on what was collected."""
    tape = hidden_states.tape
    saved = save(tape, gradient)
    loss = new(tape, (), "fp32", "nll_loss")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        return [saved[0]]

    attach([loss], [hidden_states], saved, apply)
    return loss
