"""Attention masks as transformers makes them (`masking_utils.py`)."""

from __future__ import annotations

from memcore.eager.basics import elementwise, new
from memcore.eager.tape import Tape
from memcore.eager.tensor import Tensor
from memcore.model.network import Layer
from memcore.step.step import Batch, Step
from memcore.symbols import Shape


def attention_masks(step: Step, batch: Batch, dtype: str) -> dict[str, Tensor | None]:
    """One mask for the layers that see everything and one for those that see a window or chunks, where needed."""
    kinds = {mask_of(layer) for layer in step.recipe.network.kinds}
    return {kind: _mask(step, batch, dtype, sliding=kind != "full") for kind in sorted(kinds)}


def mask_of(layer: Layer) -> str:
    """Which tokens a layer sees: full, sliding or chunked."""
    return next((mixer.mask for mixer in layer.mixers), "full")


def _mask(step: Step, batch: Batch, dtype: str, *, sliding: bool) -> Tensor | None:
    """The attention mask as `masking_utils.py` makes it.

    SDPA needs none for a causal layer without padding, unless the sequence is as long as the layer's window; flash
    attention never does; eager attention always adds one in the scores' dtype.
    """
    tape, kernel = step.tape, step.recipe.attention
    if kernel == "flash":
        return None
    if kernel != "math" and batch.mask is None and not (sliding and step.recipe.windowed):
        return None
    allowed = _allowed(tape, batch, sliding=sliding)
    return new(tape, ("b", 1, "s", "s"), dtype, "attention_mask") if kernel == "math" else allowed


def _allowed(tape: Tape, batch: Batch, *, sliding: bool) -> Tensor:
    """Where attention is allowed, `sdpa_mask`: the conditions are combined two at a time."""
    square: Shape = (1, 1, "s", "s")
    if not sliding and batch.mask is None:
        return new(tape, square, "bool", "attention_mask")
    conditions = [square, square] if sliding else [square]
    allowed = elementwise("attention_mask", new(tape, conditions[0], "bool", "attention_mask"))
    for shape in conditions[1:]:
        allowed = elementwise("attention_mask", allowed, new(tape, shape, "bool", "attention_mask"))
    if batch.mask is not None:
        padding = new(tape, ("b", 1, 1, "s"), "bool", "attention_mask")
        allowed = elementwise("attention_mask", allowed, padding)
    return allowed
