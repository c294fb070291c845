"""A layer of a sequence's tokens that runs tile by tile: forward without a graph, and again for each tile's gradient.

Source: deepspeed, runtime/sequence_parallel/ulysses_sp.py (`TiledMLP`, which ArcticTraining and axolotl use) and
unsloth_zoo/tiled_mlp.py (`TiledMLP`). What is kept is the input. Gradients of the layer's parameters add up over the
tiles and are handed to the engine with the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memcore.symbols import Quotient, Shape, Shifted
from memcore.tensors.autograd import Gradient, SavedTensor, attach, backward, save, tracked
from memcore.tensors.basics import in_order, like, new, view
from memcore.tensors.reentrant import leaf_of
from memcore.tensors.tensor import Parameter, Tensor

TILES = "tm"
"""The symbol for the number of tiles."""
RECORDED = 2
"""Tiles that are recorded at most: a first one, and one whose gradients are added to those of others."""


def tile_sizes(tokens: int, tiles: int | None, tokens_each: int) -> dict[str, int]:
    """Return the number of tiles: as many as asked for, or enough that none has more tokens than that."""
    return {TILES: min(tiles or -(-tokens // tokens_each), tokens)}


def tiled(function: Callable[[Tensor], Tensor], x: Tensor, weights: Sequence[Parameter], *, written: bool) -> Tensor:
    """Run `function` on each tile of `x`. Results are `written` into one tensor, else joined when all are there."""
    tape, autocast, where = x.tape, x.tape.autocast, x.tape.here
    batch, length, *rest = x.shape
    size = Quotient((length,), TILES)
    tile: Shape = (batch, size, *rest)
    alone, cut = tape.tiles == 1, None if tape.tiles == 1 else 1

    def part(whole: Tensor) -> Tensor:
        return view(whole, tile, whole.order, cut)

    with tape.no_grad():
        if written:
            first = function(part(x))
            out = new(tape, x.shape, first.dtype, "empty")
            del first
            for _ in range(tape.tiles - 1):
                function(part(x))
        else:
            others: Shape = (batch, Shifted(length, -1, size), *rest)
            before = None if alone else new(tape, others, x.dtype, "tile_results")
            last = function(part(x))
            out = new(tape, x.shape, last.dtype, "cat")
            del before, last

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient, kept = in_order(gradients), saved[0]
        result = like(kept, "zeros")
        buckets = [weight for weight in weights if weight.bucketed]
        for number in range(tape.tiles):
            for weight in buckets:  # a gradient is ready with the last tile (`ds_grad_is_ready`)
                weight.bucketed = number == tape.tiles - 1
            leaf = leaf_of(part(kept))
            leaf.grad = part(result)
            modes = tape.grad_enabled, tape.recomputing
            tape.grad_enabled = tape.recomputing = True
            try:
                with tape.at(where), tape.packing(SavedTensor), tape.autocasting(autocast):
                    output = function(leaf)
            finally:
                tape.grad_enabled, tape.recomputing = modes
            backward(output, part(gradient))
            del output, leaf
        for weight in buckets:
            weight.grad = None
        return [result]

    if tracked(x):
        attach([out], [x], save(tape, x), apply)
    return out
