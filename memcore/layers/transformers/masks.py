"""Attention masks as transformers makes them (`masking_utils.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from memcore.networks.adapters import has_prefix
from memcore.networks.network import Layer
from memcore.networks.parts import Attention
from memcore.symbols import Shape, Shifted
from memcore.tensors.basics import elementwise, like, new
from memcore.tensors.tensor import Tape, Tensor
from memcore.trace.step import Batch, Step

_SQUARE: Shape = (1, 1, "s", "s")
_RULE = "attention_mask"

_FULL_FIRST = ("full", "sliding", "chunked", "indexed").index
"""The order in which models make their masks."""

Condition = Callable[[Tape], Tensor]
"""Where attention is allowed, as far as one condition goes."""


def attention_masks(step: Step, batch: Batch, dtype: str, *, always: bool = False) -> dict[str, Tensor | None]:
    """Return one mask for each kind of layer: those that see everything, a window or chunks.

    There is none where none is needed, but for families that `always` make one (Falcon).
    """
    layers = step.recipe.network.kinds
    mixers = [mixer for layer in layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    both_ways = any(mixer.bidirectional for mixer in mixers)
    order = sorted({mask_of(layer) for layer in layers}, key=_FULL_FIRST)
    return {kind: _mask(step, batch, dtype, kind, both_ways=both_ways, always=always) for kind in order}


def mask_for(step: Step, batch: Batch, dtype: str, kind: str) -> Tensor | None:
    """Return the mask of one kind of layer."""
    return _mask(step, batch, dtype, kind, both_ways=False, always=False)


def unused_masks(step: Step, batch: Batch, dtype: str, used: Collection[str]) -> dict[str, Tensor | None]:
    """Masks that Qwen2-MoE makes though no layer uses them; its unused window is 0, which every sequence exceeds."""
    kinds = [kind for kind in ("full", "sliding") if kind not in used]
    return {kind: _mask(step, batch, dtype, kind, both_ways=False, always=kind == "sliding") for kind in kinds}


def mask_of(layer: Layer) -> str:
    """Return which tokens a layer sees: full, sliding, chunked or indexed."""
    return next((mixer.mask for mixer in layer.mixers), "full")


def _mask(step: Step, batch: Batch, dtype: str, kind: str, *, both_ways: bool, always: bool) -> Tensor | None:
    """Return the attention mask as `masking_utils.py` makes it.

    SDPA needs none for a causal layer without padding, unless the sequence is as long as the layer's window, or an
    indexer needs one, or heads are shared under it; flash attention never does, nor does FlexAttention, whose mask is
    of blocks; eager attention always adds one in the scores' dtype.
    """
    tape, kernel, sliding = step.tape, step.recipe.attention, kind in _CONDITIONS
    if kernel in ("flash", "flex"):
        return None
    prefixed = any(has_prefix(mixer) for layer in step.recipe.network.kinds for mixer in layer.mixers)
    if prefixed:
        return _behind_prefix(tape, batch, None if kernel != "math" else dtype)
    always = always or step.recipe.heads_as.grouped
    needed = always or both_ways or batch.mask is not None or (sliding and step.recipe.windowed) or kind == "indexed"
    if kernel != "math" and not needed:
        return None
    allowed = _allowed(tape, batch, kind, both_ways=both_ways)
    return new(tape, ("b", 1, "s", "s"), dtype, _RULE) if kernel == "math" else allowed


def _behind_prefix(tape: Tape, batch: Batch, dtype: str | None) -> Tensor:
    """Causal behind learned keys: there are more keys than queries, so that every kernel is given a mask."""
    keys = Shifted("va", 1, "s")
    allowed = new(tape, (1, 1, "s", keys), "bool", _RULE)
    if batch.mask is not None:
        allowed = elementwise(_RULE, allowed, new(tape, ("b", 1, 1, keys), "bool", _RULE))
    if dtype is not None:
        return new(tape, ("b", 1, "s", keys), dtype, _RULE)
    spread = 0 if batch.mask is None else None
    return Tensor(tape, allowed.storage, ("b", 1, "s", keys), "bool", order=allowed.order, spread=spread)


def _allowed(tape: Tape, batch: Batch, kind: str, *, both_ways: bool) -> Tensor:
    """Return where attention is allowed, `sdpa_mask`.

    Conditions are merged two at a time, then expanded to the batch.
    """
    local = _CONDITIONS.get(kind)
    condition = _merged(local, _causal) if local else _causal
    if both_ways:
        condition = _merged(condition, _distance if local else _everything)
    if batch.mask is not None:
        condition = _merged(condition, _padding)
    indices = _indices(tape)
    allowed = condition(tape)
    del indices
    spread = 0 if allowed.shape[0] == 1 else None
    return Tensor(tape, allowed.storage, ("b", *allowed.shape[1:]), "bool", order=allowed.order, spread=spread)


def _indices(tape: Tape) -> list[Tensor]:
    """`arange` over sequences, heads, queries and keys; to the last two an offset is added."""
    found = [new(tape, (size,), "int64", _RULE) for size in ("b", 1)]
    return found + [like(new(tape, ("s",), "int64", _RULE), _RULE) for _ in range(2)]


def _merged(*conditions: Condition) -> Condition:
    """`and_masks` and `or_masks` start from a single element."""

    def merged(tape: Tape) -> Tensor:
        result = new(tape, (), "bool", _RULE)
        for condition in conditions:
            result = elementwise(_RULE, result, condition(tape))
        return result

    return merged


def _causal(tape: Tape) -> Tensor:
    return new(tape, _SQUARE, "bool", _RULE)


def _window(tape: Tape) -> Tensor:
    first = new(tape, ("s",), "int64", _RULE)
    allowed = new(tape, _SQUARE, "bool", _RULE)
    del first
    return allowed


def _distance(tape: Tape) -> Tensor:
    """Return a window in both directions, from the distance between tokens."""
    distance = new(tape, _SQUARE, "int64", _RULE)
    distance = like(distance, _RULE)
    return like(distance, _RULE, "bool")


def _everything(tape: Tape) -> Tensor:
    return new(tape, (), "bool", _RULE)


def _padding(tape: Tape) -> Tensor:
    return new(tape, ("b", 1, 1, "s"), "bool", _RULE)


def _chunk(tape: Tape) -> Tensor:
    """Return whether two tokens are in the same chunk, counted from where padding ends."""
    key = _chunk_of(tape, ("b", 1, 1, "s"))
    query = _chunk_of(tape, ("b", 1, "s", 1))
    allowed = new(tape, ("b", 1, "s", "s"), "bool", _RULE)
    del key, query
    return allowed


def _chunk_of(tape: Tape, shape: Shape) -> Tensor:
    place = new(tape, shape, "int64", _RULE)
    return like(place, _RULE)


_CONDITIONS: Mapping[str, Condition] = {"sliding": _window, "chunked": _chunk}
"""Which tokens layers see that do not see all before them."""
