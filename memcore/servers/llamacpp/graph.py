"""What llama.cpp's graphs are built of: weights, inputs, norms, caches, and attention to them.

Source: `src/llama-graph.cpp` and `src/models/*.cpp` of llama.cpp 0.5. Axes are in ggml's order, row first.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.networks.weights import Norm
from memcore.records import dataclass
from memcore.servers.llamacpp.ggml.graph import (
    Graph,
    apply,
    cast,
    cont,
    flash_attention,
    get_rows,
    leaf,
    mul_mat,
    permute,
    reshape,
    set_rows,
    transpose,
    view,
)
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.plan import Release
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes

SELECTS_LATE = frozenset(
    {
        "gemma4",
        "gemma4_text",
        "gpt_oss",
        "nemotron_h",
        "hy_v3",
        "qwen3_next",
        "qwen3_5",
        "qwen3_5_text",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
    }
)
"""Families whose last layer runs for every token, and not only for those whose logits are wanted."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What the graph is built for."""

    tokens: int
    """Of the micro-batch."""
    outputs: int
    """Tokens whose logits are computed."""
    sequences: int
    streams: int
    """Caches of their own: one for each sequence unless they share one."""
    flash: bool
    release: Release


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys and values of one layer."""

    keys: Tensor
    values: Tensor | None
    """None: part of the keys (latent attention)."""
    cells: int
    sliding: bool
    width: int = 0
    """Of a head, where all layers with such a cache have the same."""


class Builder:
    """Builds the graph of one model."""

    def __init__(
        self,
        model: Model,
        batch: Batch,
        weights: Mapping[str, Tensor],
        caches: Mapping[int, Cache],
        states: Mapping[int, tuple[Tensor, Tensor]],
        names: Mapping[int, list[str]],
    ) -> None:
        self.model = model
        self.batch = batch
        self.weights = weights
        self.caches = caches
        self.names = names
        self.states = states
        self.graph = Graph()
        self.block = ""
        """`blk.3.` while layer 3 is built."""
        self.inputs: dict[str, Tensor] = {}
        self.windowed = any(each.sliding for each in caches.values())
        """Some layers see a window."""

    def weight(self, name: str) -> Tensor:
        """Return a weight of the current layer, or one outside the layers."""
        return self.weights[f"{self.block}{name}"]

    def optional(self, name: str) -> Tensor | None:
        """Return the tensor if there is one."""
        return self.weights.get(f"{self.block}{name}")

    def input(self, name: str, kind: str, *ne: int) -> Tensor:
        """Return an input, made when it is first asked for."""
        if name not in self.inputs:
            self.inputs[name] = leaf(kind, *ne, name=name, is_input=True)
        return self.inputs[name]

    def size(self, *axes: object) -> int:
        """Return the value of a product of symbols."""
        return self.model.size(axes)  # type: ignore[arg-type]

    def linear(self, name: str, tensor: Tensor) -> Tensor:
        """Return a product with a weight, and its bias."""
        found = mul_mat(self.weight(f"{name}.weight"), tensor)
        bias = self.optional(f"{name}.bias")
        return found if bias is None else apply("ADD", found, bias)

    def norm(self, norm: Norm | None, name: str, tensor: Tensor) -> Tensor:
        """Return a norm with its weight and bias, or nothing."""
        if norm is None:
            return tensor
        if self.batch.release.fuses_norms and self.optional(f"{name}.weight") is not None:
            return apply("FUSED_NORM", tensor, self.weight(f"{name}.weight"), self.optional(f"{name}.bias"))
        found = apply("NORM" if norm.kind.startswith("layer") else "RMS_NORM", tensor)
        for op, part in (("MUL", "weight"), ("ADD", "bias")):
            factor = self.optional(f"{name}.{part}")
            if factor is not None:
                found = apply(op, found, factor)
        return found

    def positions(self) -> Tensor:
        """Return the position of every token."""
        many = 4 if self.model.network.family in {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"} else 1
        return self.input("inp_pos", "I32", self.batch.tokens * many)

    def selected(self, tensor: Tensor) -> Tensor:
        """Return the rows of the tokens whose logits are wanted."""
        return get_rows(tensor, self.input("out_ids", "I32", self.batch.outputs))

    def rotate(self, tensor: Tensor, part: Attention | LatentAttention) -> Tensor:
        """Rotary positions."""
        if part.rotary == "none":
            return tensor
        return apply("ROPE", tensor, self.positions(), self.optional("rope_factors"))

    def mask(self, cache: Cache) -> Tensor:
        """Return which cells each token sees."""
        streams = self.batch.streams
        casts = self.batch.flash and not self.batch.release.half_mask
        kind = "F16" if self.batch.flash and not casts else "F32"
        name = "attn_inp_kq_mask_swa" if cache.sliding else "attn_inp_kq_mask"
        found = self.input(name, kind, cache.cells, self.batch.tokens // streams, 1, streams)
        return self.inputs.setdefault(f"{name}_cast", cast(found, "F16")) if casts else found

    def cell_numbers(self, cache: Cache, part: str, count: int) -> Tensor:
        """Return where new keys or values go."""
        return self.input(f"{part}_idxs{'_swa' if cache.sliding else ''}", "I64", count)

    def mixed_up(self, tensor: Tensor, cache: Cache, place: int) -> Tensor:
        """Rows times a Hadamard matrix, so that a quantized cache loses less. Place 2: values and what they become."""
        stored = cache.values if place == 2 else cache.keys
        if stored is None or not BLOCK_TYPES[stored.type].quantized or not cache.width or cache.width % 64:
            return tensor
        size = 64
        while place < 2 and cache.width % (2 * size) == 0:
            size *= 2
        name = f"attn_inp_{'v' if place == 2 else 'k'}_rot{'_swa' if cache.sliding else ''}"
        matrix = self.input(name, "F32", size, size)
        rows = tensor.elements // size
        flat = reshape(tensor, size, rows) if tensor.contiguous else cont(tensor, size, rows)
        return reshape(mul_mat(matrix, flat), *tensor.ne)

    def store(self, cache: Cache, keys: Tensor, values: Tensor | None) -> None:
        """Write the batch's keys and values into the cache."""
        tokens = self.batch.tokens
        width = keys.ne[0] * keys.ne[1]
        target = reshape(cache.keys, width, cache.keys.ne[1] * cache.keys.ne[2]) if cache.keys.ne[2] > 1 else cache.keys
        rows = view(keys, (width, tokens), (keys.nb[2],))
        self.graph.expand(set_rows(target, rows, self.cell_numbers(cache, "k", tokens)))
        if values is None or cache.values is None:
            return
        width = values.ne[0] * values.ne[1]
        stored = cache.values
        if self.batch.flash:
            if stored.ne[2] > 1:
                stored = reshape(stored, width, stored.ne[1] * stored.ne[2])
            rows = view(values, (width, tokens), (values.nb[2],))
            self.graph.expand(set_rows(stored, rows, self.cell_numbers(cache, "v", tokens)))
            return
        flat = reshape(values, width, tokens) if values.contiguous else cont(values, width, tokens)
        if width < stored.ne[0]:
            padded = Tensor(flat.type, (stored.ne[0], tokens), "PAD", (flat,))
            flat = padded
        single = reshape(flat, 1, flat.elements)
        numbers = self.cell_numbers(cache, "v", flat.elements)
        self.graph.expand(set_rows(reshape(stored, 1, stored.elements), single, numbers))

    def cached_keys(self, cache: Cache, width: int) -> Tensor:
        """Return all keys of the cache, head by head."""
        keys, streams = cache.keys, cache.keys.ne[2]
        row = keys.ne[0]
        each = row_bytes(keys.type, row)
        return view(keys, (width, row // width, cache.cells, streams),
                    (row_bytes(keys.type, width), each, each * keys.ne[1]))  # fmt: skip

    def cached_values(self, cache: Cache, width: int) -> Tensor:
        """Return all values of the cache; without flash attention they are stored transposed."""
        values = cache.values
        assert values is not None  # noqa: S101
        row, cells, streams = values.ne[0], values.ne[1], values.ne[2]
        if self.batch.flash:
            each = row_bytes(values.type, row)
            return view(values, (width, row // width, cache.cells, streams),
                        (row_bytes(values.type, width), each, each * cells))  # fmt: skip
        column = row_bytes(values.type, cells)
        return view(values, (cache.cells, row // width, width, streams), (column * width, column, column * row))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor,
        *,
        part: Attention | LatentAttention,
        expand: Tensor | None = None,
    ) -> Tensor:
        """Attention of a batch to the cache (`build_attn_mha`)."""
        transposed = v.nb[1] > v.nb[2]
        streams = k.ne[3]
        each = q.ne[2] // streams
        q = view(q, (q.ne[0], q.ne[1], each, streams), (q.nb[1], q.nb[2], q.nb[2] * each))
        q, k, v = (permute(tensor, 0, 2, 1, 3) for tensor in (q, k, v))
        sinks = self.optional("attn_sinks.weight")
        if self.batch.flash:
            if transposed:
                v = transpose(v)
            found = flash_attention(q, k, v, mask, sinks)
            if expand is not None:
                found = mul_mat(expand, permute(found, 0, 2, 1, 3))
                found = cont(permute(found, 0, 2, 1, 3))
            found = reshape(found, found.ne[0] * found.ne[1], found.ne[2] * found.ne[3])
        else:
            scores = mul_mat(k, q)
            if part.softcap:
                scores = apply("SCALE", apply("TANH", apply("SCALE", scores)))
            scores = apply("SOFT_MAX", scores, mask, sinks)
            if not transposed:
                v = cont(transpose(v))
            found = mul_mat(v, scores)
            if expand is not None:
                found = mul_mat(expand, found)
            found = permute(found, 0, 2, 1, 3)
            found = cont(found, found.ne[0] * found.ne[1], found.ne[2] * found.ne[3])
        self.graph.expand(found)
        return found
