"""Activation memory budgets: which results of a compiled block stay, and which the backward pass computes again.

A block's results are listed here as PyTorch's compiler sees them; `partitioner.py` chooses among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Linear
from memcore.symbols import Axis, Rounded, Shape, measure, product
from memcore.tensors.selection import Selection
from memcore.trace.recipe import Checkpoints, Recipe
from memcore.trainers.pytorch.checkpointing import BUDGET
from memcore.trainers.pytorch.partitioner import CHEAP, COSTLY, UNLISTED, Name, Result, kept

_HALF = ("bf16", "fp16")
_EXACT = 1 << 24
"""Up to here fp32 counts single operations."""
_RANDOM_STATE = {"flash": 24, "efficient": 16, "cudnn": 16}
"""Bytes of the random state that attention kernels return; flash attention's has three numbers."""


def with_budget(read: Defaults, recipe: Recipe, sizes: Mapping[str, int]) -> Recipe:
    """A recipe whose blocks keep what a budget leaves, if there is one; without, all that the compiler would keep."""
    budget = read.given(BUDGET)
    if budget is None or not recipe.compiled:
        return recipe
    if recipe.checkpoints is not None:
        read.refuse(BUDGET, "found {} together with activation checkpointing; needs policy 'none'", budget)
        return recipe
    if budget == 1:
        return recipe
    if found := list(dict.fromkeys(_obstacles(read, recipe))):
        raise UnsupportedError(
            BUDGET, "found {}; not supported yet with {}; allowed: {}", budget, joined(", ", found), 1
        )
    chosen = {_chosen(layer, recipe, sizes, budget) for layer in recipe.network.kinds}
    if len(chosen) > 1:
        raise UnsupportedError(
            BUDGET, "found {}; supported only if all layers have the same shape; allowed: {}", budget, 1
        )
    selection = Selection(frozenset(), chosen=chosen.pop())
    return replace(recipe, checkpoints=Checkpoints(early_stop=True, selection=selection, skipped=frozenset()))


def _obstacles(read: Defaults, recipe: Recipe) -> Iterator[str]:
    """Yield what a block has whose graph is not written down here."""
    yield from (each for layer in recipe.network.kinds for each in _of_layer(layer))
    yield from (name for name, found in _around(read, recipe).items() if found)
    if _kernel(recipe) not in _RANDOM_STATE:
        yield Message("attention {!r}", recipe.attention)


def _around(read: Defaults, recipe: Recipe) -> Mapping[str, bool]:
    # With DTensors a graph has process groups as inputs, whose size PyTorch 2.13 refuses to compute (`_size_of`).
    weights = [weight for layer in recipe.network.kinds for weight in layer.weights()]
    return {
        "tensor parallelism": recipe.tensor is not None,
        "context parallelism": recipe.ring_turns > 0 or recipe.ulysses is not None,
        "MXFP8": recipe.float8 is not None and recipe.float8.recipe == "mxfp8",
        "masks of attention": recipe.padded or bool(read.given(Training.packed_sequences)),
        "adapters or frozen layers": recipe.network.adapted or not all(weight.trainable for weight in weights),
        "offloaded activations": recipe.offloads_activations,
        "a KV cache": recipe.use_cache,
        "towers": bool(recipe.network.towers),
    }


def _of_layer(layer: Layer) -> Iterator[str]:
    ffn = layer.feed_forward
    if isinstance(layer.mixer, Attention):
        yield from _of_attention(layer.mixer)
    else:
        yield "latent attention"
    if not isinstance(ffn, FeedForward):
        yield "routed experts"
    elif ffn.gate is None:
        yield "feed-forward layers without a gate"
    if layer.dropout:
        yield "dropout"
    if layer.residual != "sequential":
        yield Message("layers connected as {!r}", layer.residual)


def _of_attention(mixer: Attention) -> Iterator[str]:
    if mixer.mask != "full":
        yield "masks of attention"
    if mixer.norm_place != "head" and mixer.query_norm is not None:
        yield "norms after the rotation"
    if mixer.heads.wide or mixer.heads.unaligned:
        yield "attention heads that kernels pad or reject"
    if mixer.dropout:
        yield "dropout"
    if len(mixer.inputs) != 3:
        yield "one matrix for queries, keys and values"


def _kernel(recipe: Recipe) -> str:
    """The kernel of attention. transformers' `flash` is that of the package flash_attn, which compilers do not see."""
    if recipe.attention == "sdpa":
        if _dtype(recipe) in _HALF:
            return "flash"
        mixers = [layer.mixer for layer in recipe.network.kinds]
        return "math" if any(isinstance(each, Attention) and each.grouped for each in mixers) else "efficient"
    if recipe.implementation == "transformers" and recipe.attention == "flash":
        return "flash_attn"
    return recipe.attention


def _dtype(recipe: Recipe) -> str:
    """Return what products return."""
    return recipe.precision.autocast or recipe.precision.compute


def _chosen(layer: Layer, recipe: Recipe, sizes: Mapping[str, int], budget: float) -> frozenset[Name]:
    results, unread = block_results(layer, recipe, sizes)
    chosen = kept(results, unread, budget)
    if recipe.float8 is not None and 0 < sum(each.runtime for each in results if each.name in chosen) < _EXACT:
        # Scales of float8, a single operation each in the knapsack, would count next to so little.
        raise UnsupportedError(
            BUDGET,
            "found {}, too small to keep any matrix product; not supported yet with float8; must be 0 or more",
            budget,
        )
    return chosen


def block_results(layer: Layer, recipe: Recipe, sizes: Mapping[str, int]) -> tuple[list[Result], int]:
    """A block's results, in the order of its graph, and bytes of its inputs that the backward pass does not read."""
    mixer, ffn = layer.mixer, layer.feed_forward
    if not isinstance(mixer, Attention) or not isinstance(ffn, FeedForward) or ffn.gate is None:
        raise TypeError(layer)
    block = _Block(_dtype(recipe), sizes, keeps_fused=recipe.float8 is None or recipe.float8.keeps_fused)
    heads = mixer.heads
    block.norm(layer.norms[0].width)
    for linear, count, head_norm in zip(
        mixer.inputs, (heads.query, heads.key, heads.key), (mixer.query_norm, mixer.key_norm, None), strict=True
    ):
        block.linear(linear)
        if head_norm is not None:
            block.statistics(count)
            block.add("rotary", (count, heads.width), UNLISTED)
    if mixer.repeats_heads:
        # What is kept then are copies, larger by so much; computed again, they are made of what the matrices return.
        copies = 2 * (product((heads.query, heads.width), sizes) - product((heads.key, heads.width), sizes))
        block.add("repeat_kv", (copies,), CHEAP)
    block.attention(mixer, _kernel(recipe))
    block.linear(mixer.output)
    block.norm(layer.norms[1].width)
    block.linear(ffn.gate)
    block.linear(ffn.up)
    block.fused("fused_product", ffn.up.outer)
    linears = (*mixer.inputs, mixer.output, ffn.gate, ffn.up, ffn.down)
    if recipe.float8 is not None and recipe.float8.recipe == "tensorwise" and not recipe.float8.gathers:
        block.scales(len(linears))
    if recipe.precision.autocast is not None:
        block.casts(linears)
    return block.results, sum(product(each.outer, sizes) for each in linears if each.bias) * block.item


class _Block:
    """Collects the results of a block."""

    def __init__(self, dtype: str, sizes: Mapping[str, int], *, keeps_fused: bool) -> None:
        self._keeps_fused = keeps_fused
        self.item = int(ITEMSIZE[dtype])
        self.results: list[Result] = []
        self._sizes = sizes
        self._tokens = sizes["b"] * sizes["s"]
        self._counts: Counter[str] = Counter()

    def add(self, operation: str, axes: Shape, cost: int, runtime: int = 1) -> None:
        """A result with these axes for each token, in the compute dtype."""
        self._put(operation, self._tokens * product(axes, self._sizes) * self.item, cost, runtime)

    def _put(self, operation: str, size: int, cost: int, runtime: int = 1, instead: int = 0) -> None:
        self.results.append(Result((operation, self._counts[operation]), size, cost, runtime, instead))
        self._counts[operation] += 1

    def norm(self, width: Shape) -> None:
        """A norm: a statistic of each row, and its result."""
        self.statistics(1)
        self.fused("norm", width)

    def fused(self, operation: str, axes: Shape) -> None:
        """A pointwise result that products read; float8's do so through casts, where it need not be in memory."""
        if self._keeps_fused:
            self.add(operation, axes, CHEAP)

    def statistics(self, rows: Axis) -> None:
        """Statistics of a norm: the mean of squares is a reduction, and its result in fp32."""
        self._put("norm_statistics", self._tokens * measure(rows, self._sizes) * 4, COSTLY)

    def scales(self, count: int) -> None:
        """The largest element of each weight, and the scale made of it: all that an unlimited budget keeps of casts."""
        for _ in range(count):
            self._put("scale", self.item + 4, CHEAP)

    def casts(self, parts: Sequence[Linear]) -> None:
        """Autocast's copies of the matrices, which the backward pass reads instead of them."""
        for part in parts:
            elements = product((*part.outer, *part.inner), self._sizes)
            self._put("weight_cast", elements * self.item, CHEAP, instead=elements * 4)

    def linear(self, part: Linear) -> None:
        """A matrix product."""
        runtime = 2 * self._tokens * product((*part.outer, *part.inner), self._sizes)
        self.add("addmm" if part.bias else "mm", part.outer, COSTLY, runtime)

    def attention(self, part: Attention, kernel: str) -> None:
        """Attention: its result, a statistic of each row, and the random state. cuDNN's is not known to be costly."""
        heads, sizes, length = part.heads, self._sizes, self._sizes["s"]
        rows = Rounded(length, 32) if kernel == "efficient" else length
        elements = self._tokens * product((heads.query, heads.value), sizes)
        size = elements * self.item + sizes["b"] * product((heads.query, rows), sizes) * 4 + _RANDOM_STATE[kernel]
        runtime = 2 * self._tokens * length * measure(heads.query, sizes)
        runtime *= measure(heads.width, sizes) + measure(heads.value, sizes)
        self._put("sdpa", size, UNLISTED if kernel == "cudnn" else COSTLY, runtime)


def computed_again(recipe: Recipe, sizes: Mapping[str, int]) -> tuple[float, float]:
    """The shares of the forward pass's matrix products and of its attention that a budget has computed again."""
    selection = None if recipe.checkpoints is None else recipe.checkpoints.selection
    if selection is None or selection.chosen is None:
        return 0.0, 0.0
    # A budget's layers have one shape.
    results, _ = block_results(recipe.network.kinds[0], recipe, sizes)
    again = Counter[bool]()
    for each in results:
        again[each.name not in selection.chosen] += each.runtime * (each.name[0] in ("mm", "addmm"))
    return again[True] / again.total(), float(("sdpa", 0) not in selection.chosen)
