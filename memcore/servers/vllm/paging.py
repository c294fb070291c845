"""vLLM's paged cache: groups of layers, blocks, and how many of them a sequence needs.

Layers that cache alike form groups of equal size that draw blocks from one pool, so that a block holds as many bytes in
each group. Source: vllm, v1/core/kv_cache_utils.py and v1/kv_cache_interface.py; for layers with states
model_executor/models/config.py, HybridAttentionMambaModelConfig.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm

from memcore.records import dataclass
from memcore.serving.cache import CacheSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """How layers of one kind page: tokens in a block, and bytes of a block in one layer."""

    kind: str
    block_size: int
    page: int
    window: int = 0
    states: int = 1
    """Blocks of recurrent states that a sequence has."""

    def blocks(self, length: int, in_flight: int) -> int:
        """Return the blocks of a sequence of `length` tokens, of which `in_flight` may be computed in one step."""
        if self.kind == "state":
            return self.states
        if self.kind == "sliding":
            # The window may begin inside a block.
            return _cdiv(min(self.window - 1 + in_flight, length), self.block_size) + 1
        if self.kind == "chunked":
            length = min(self.window + in_flight, length)
        return _cdiv(length, self.block_size)


def _cdiv(size: int, step: int) -> int:
    """Divide and round up (vLLM's `cdiv`)."""
    return -(-size // step)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table."""

    spec: Spec
    layers: int
    share: Fraction = Fraction(1)
    """How many blocks of the first group one of its blocks counts for in a log, where widths differ."""


@dataclass(frozen=True)
class Paging:
    """The groups of a model on one pipeline stage."""

    groups: tuple[Group, ...]
    block: int
    """Bytes of one block over all layers that share it."""
    in_flight: int
    tokens: int = 0
    """Tokens of a block, where groups differ and one of them speaks for all."""

    def needed(self, length: int) -> int:
        """Return the blocks of a sequence of a number of tokens."""
        return sum(group.spec.blocks(length, self.in_flight) for group in self.groups)

    def logged(self, length: int) -> int:
        """Blocks of a sequence as a log counts them: all bytes, in blocks of the first group."""
        return ceil(sum(group.share * group.spec.blocks(length, self.in_flight) for group in self.groups))

    def count(self, available: int) -> int:
        """Return the blocks that fit into a number of bytes."""
        return max(available, 0) // self.block if self.block else 0

    @cached_property
    def block_size(self) -> int:
        """Return tokens of the smallest block that grows with a sequence."""
        return self.tokens or min((group.spec.block_size for group in self.groups), default=1)

    def bytes_of(self, length: int) -> int:
        """Return bytes that a sequence takes."""
        return self.needed(length) * self.block


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """How a server pages."""

    block_size: int
    max_model_len: int
    in_flight: int
    """Tokens that one step may compute."""
    hybrid: bool = True
    """Windows and chunks free what is out of sight."""
    states: int = 1
    """Blocks of recurrent states that a sequence has."""
    alignment: int = 16
    """The tokens that a block must be a multiple of in layers next to recurrent states."""
    keys_alone: bool = False
    """A block's keys alone are as large as a state, as Ascend's tensors are contiguous (vllm-ascend, patch/platform/
    patch_mamba_config.py); what belongs to the convolution is added to every page."""


_GRAIN_BY_BLOCKS, _WIDE_LATENTS = (0, 20), (0, 28)
"""Releases in which these rules were seen first (vllm, platforms/interface.py, `_align_hybrid_block_size`)."""


def grain(since: tuple[int, ...], block_size: int, *, latent: bool) -> int:
    """Return the tokens that a block next to recurrent states is a multiple of: a kernel's, and what is asked for."""
    least = 16 if not latent else 64 if since < _WIDE_LATENTS else 128
    return max(least, block_size) if since >= _GRAIN_BY_BLOCKS else least


def page(layers: Sequence[Sequence[CacheSpec]], pages: Pages) -> Paging:
    """Groups for layers, given what each keeps."""
    each = [part for layer in layers for part in layer]
    if not each:
        return Paging((), 0, pages.in_flight)
    specs = _specs(each, pages)
    if any(part.kind == "state" for part in each) and any(part.pool > 1 for part in each):
        return _slots(list(zip(each, specs, strict=True)), pages)
    counts = Counter(specs)
    if len(counts) == 1:
        return _alone(counts, pages)
    kinds = {spec.kind for spec in counts}
    windows = {spec.window for spec in counts}
    if len(kinds) == 1 and len(windows) == 1 and len({spec.block_size for spec in counts}) == 1:
        return _uniform(counts, pages)
    return _grouped(_unified(counts), pages)


def _specs(each: Sequence[CacheSpec], pages: Pages) -> list[Spec]:
    """Return a spec for each layer; with recurrent states, blocks grow until they hold one."""
    tokens = [part for part in each if part.kind != "state"]
    states = [part for part in each if part.kind == "state"]
    # Windows are treated as full attention only beside layers that attend to everything.
    merges = not pages.hybrid and any(part.kind in ("full", "latent") for part in tokens)
    block_size, padded = pages.block_size, 0
    if tokens and states:
        widest, largest = max(part.bytes for part in tokens), max(part.bytes for part in states)
        if pages.keys_alone:
            # A state is a multiple of a block's keys but for the small part of its convolution.
            block_size = pages.alignment * max(1, round(2 * largest / (pages.alignment * widest)))
            padded = block_size * widest + max(0, largest - block_size * widest // 2)
        else:
            block_size = max(block_size, pages.alignment * _cdiv(largest, pages.alignment * widest))
            padded = block_size * widest
    found = []
    for part in each:
        if part.kind == "state":
            found.append(
                Spec(kind="state", block_size=pages.max_model_len, page=padded or part.bytes, states=pages.states)
            )
            continue
        kind = "full" if part.kind == "latent" else part.kind
        if merges:
            kind = "full"
        window = part.window if kind != "full" else 0
        size = padded if pages.keys_alone and padded else block_size * part.bytes
        found.append(Spec(kind=kind, block_size=block_size, page=size, window=window))
    return found


def _alone(counts: Counter[Spec], pages: Pages) -> Paging:
    ((spec, layers),) = counts.items()
    return Paging((Group(spec, layers),), spec.page * layers, pages.in_flight)


def _uniform(counts: Counter[Spec], pages: Pages) -> Paging:
    """Equal needs for tokens, but different widths: one group in which every layer has a page of its own size."""
    block = sum(spec.page * layers for spec, layers in counts.items())
    return Paging((Group(next(iter(counts)), sum(counts.values())),), block, pages.in_flight)


def _slots(each: Sequence[tuple[CacheSpec, Spec]], pages: Pages) -> Paging:
    """Return pages of latent vectors and an indexer's pooled keys next to recurrent states, each kind of its own size.

    A block has a slot for the vectors of each layer, which one layer's state fills as well, and one for its keys; the
    tokens of a pool that is not full yet have one of the latter. Source: vllm, v1/core/kv_cache_utils.py (0.28.1,
    Glm5Next); the numbers of blocks of its logs follow, 11,802 in 81.79 GiB and 4,145 in 28.73.
    """
    tokens = [spec for _, spec in each if spec.kind != "state"]
    states = [spec for _, spec in each if spec.kind == "state"]
    layers = sum(part.pool == 1 for part, spec in each if spec.kind != "state")
    groups = [Group(tokens[0], layers), *(Group(states[0], layers) for _ in range(_cdiv(len(states), layers)))]
    tail = replace(states[0], states=1)
    return Paging((*groups, Group(tail, layers)), sum(spec.page for spec in tokens), pages.in_flight)


def _unified(counts: Counter[Spec]) -> Counter[Spec]:
    """Pages of one size: layers that need less for a token get longer blocks."""
    largest = max(spec.page for spec in counts)
    if any(largest % spec.page for spec in counts):
        largest = lcm(*(spec.page for spec in counts))
    found: Counter[Spec] = Counter()
    for spec, layers in counts.items():
        longer = replace(spec, page=largest, block_size=spec.block_size * (largest // spec.page))
        found[longer if spec.kind != "state" else replace(spec, page=largest)] += layers
    return found


def _grouped(counts: Counter[Spec], pages: Pages) -> Paging:
    """Groups as large as the rarest kind of layer, or as the most frequent where these differ little."""
    least, most = min(counts.values()), max(counts.values())
    size = most if most < 1.5 * least else least
    groups: list[Group] = []
    for spec, layers in counts.items():
        many = _cdiv(layers, size)
        groups += [Group(spec, _cdiv(layers - number, many)) for number in range(many)]
    largest = max(group.layers for group in groups)
    return Paging(tuple(groups), groups[0].spec.page * largest, pages.in_flight)
