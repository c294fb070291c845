"""llama.cpp's buffers: weights, caches, compute and output, on every device.

Source: llama.cpp 0.5 (ggml 0.25), `src/llama-model.cpp`, `llama-kv-cache*.cpp`, `llama-memory-recurrent.cpp` and
`llama-context.cpp`. Compute buffers are those of the graph that llama.cpp reserves at start-up, placed as ggml places
it (`memcore.servers.llamacpp.ggml`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from memcore.messages import Message
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.records import dataclass
from memcore.servers.llamacpp.caches import (
    attentions,
    cache_bytes,
    cache_rows,
    indexer_row,
    slides,
    state_rows,
)
from memcore.servers.llamacpp.gguf import FileTensor
from memcore.servers.llamacpp.plan import HOST, Flags, Layout, buffer_bytes
from memcore.servers.llamacpp.reserve import compute_buffers
from memcore.servers.llamacpp.states import supported


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer, or a part of one."""

    device: str
    kind: str
    """model, cache, state, compute, output."""
    name: str
    bytes: int
    formula: str
    source: str
    largest: int = 0
    """Bytes of the largest tensor in a compute buffer."""


def llamacpp_buffers(model: Model, tensors: Sequence[FileTensor], flags: Flags) -> tuple[Buffer, ...]:
    """Return every buffer of a model whose file holds these tensors.

    >>> from memcore.networks.catalog import find_model
    >>> from memcore.servers.llamacpp.gguf import gguf_file
    >>> model = find_model("llama-3.1-8b")
    >>> [(each.kind, each.bytes >> 20) for each in llamacpp_buffers(model, gguf_file(model, "Q4_K_M"), Flags())]
    [('model', 281), ('model', 4403), ('cache', 512), ('compute', 258), ('compute', 20), ('output', 0)]
    """
    plan = Plan(model, tensors, flags)
    return (*plan.model_entries(), *plan.cache_entries(), *plan.compute_entries(), plan.output_entry())


def gaps(model: Model) -> tuple[str, ...]:
    """Return what compute buffers leave out, because llama.cpp's graph of it is not followed here."""
    found: list[str] = []
    for layer, _ in model.layers:
        for part in layer.mixers:
            if isinstance(part, SpecialMixer) and not supported(part.variant):
                found.append(Message("{} mixers", part.variant))
            if isinstance(part, LatentAttention) and part.indexer:
                found.append("the indexer of sparse attention")
        if layer.extra is not None:
            found.append(Message("{}'s additional layer parts", layer.extra.variant))
    return tuple(dict.fromkeys(found))


class Plan(Layout):
    """How large everything is."""

    def model_entries(self) -> Iterator[Buffer]:
        """Yield the weights of each device, aligned as in its buffer."""
        totals: Counter[str] = Counter()
        for tensor, device in self.placed():
            rows = device != HOST and self.flags.split == "row" and len(self.gpus) > 1
            if rows and len(tensor.shape) == 2 and tensor.shape[0] > 1:
                for gpu, count in self.split_rows(tensor.shape[0]):
                    part = FileTensor(tensor.name, (count, tensor.shape[1]), tensor.type)
                    totals[gpu] += buffer_bytes(part, gpu, self.backend) if count else 0
            else:
                totals[device] += buffer_bytes(tensor, device, self.backend)
        formula = "Σ tensors, each padded to 128 B on a GPU, to 32 B on the host"
        if self.flags.mapped and (output := self.layer_device(len(self.layers))) != HOST:
            totals[output] = sum(buffer_bytes(tensor, HOST, self.backend) for tensor in self.tensors)
        for device, size in totals.items():
            yield Buffer(device, "model", "weights", size, formula, "llama_model::load_tensors")

    def cache_entries(self) -> Iterator[Buffer]:
        """Keys and values, and recurrent states, of each device."""
        totals: Counter[tuple[str, str, str]] = Counter()
        for index, layer in enumerate(self.layers):
            for kind, name, size in self.layer_cache(layer):
                totals[self.cache_device(index), kind, name] += size
        for (device, kind, name), size in totals.items():
            yield Buffer(device, kind, name, size, CACHE_FORMULAS[kind], "llama_kv_cache, llama_memory_recurrent")

    def layer_cache(self, layer: Layer) -> Iterator[tuple[str, str, int]]:
        """Yield what a layer keeps: kind, name and bytes."""
        for part in layer.mixers:
            if isinstance(part, SpecialMixer):
                slots = max(1, self.flags.sequences) * (1 + self.flags.checkpoints)
                size = sum(state_rows(self.model, part)) * 4 * slots
                yield "state", "recurrent states", size
            elif isinstance(part, LatentAttention):
                yield from self._latent_cache(part, layer)
            elif not part.shares_cache and not part.crosses:
                yield "cache", *self._keys_and_values(part, layer)

    def _latent_cache(self, part: LatentAttention, layer: Layer) -> Iterator[tuple[str, str, int]]:
        rows = self.layer_cells(layer) * self.streams
        size = cache_bytes(self.flags.keys, cache_rows(self.model, part)[0], rows)
        if self.flags.latent_values:
            size += cache_bytes(self.flags.values, self.model.size(part.expand.inner), rows)
        yield "cache", "full context", size
        if part.indexer:
            yield "cache", "indexer", cache_bytes(self.flags.keys, indexer_row(self.model, part), rows)

    def _keys_and_values(self, part: Attention, layer: Layer) -> tuple[str, int]:
        rows = self.layer_cells(layer) * self.streams
        keys, values = cache_rows(self.model, part)
        if not self.flash:
            # transposed values of all layers have the same length
            values = max(cache_rows(self.model, each)[1] for each in attentions(self.model))
        size = cache_bytes(self.flags.keys, keys, rows) + cache_bytes(self.flags.values, values, rows)
        return "sliding window" if slides(self.model, layer) else "full context", size

    def compute_entries(self) -> Iterator[Buffer]:
        """Yield the buffers of intermediate results."""
        formula = "peak of the reserved graph, as ggml-alloc places it"
        for device, found in compute_buffers(self).items():
            if found.bytes:
                source = "llama_context::sched_reserve"
                yield Buffer(device, "compute", "intermediate results", found.bytes, formula, source, found.largest)

    def output_entry(self) -> Buffer:
        """Logits for the caller, on the host."""
        size = self.model.sizes["V"] * max(self.flags.sequences, 1) * 4
        return Buffer(HOST, "output", "logits", size, "V · sequences · 4 B", "llama_context::output_reserve")


CACHE_FORMULAS: Mapping[str, str] = {
    "cache": "Σ layers (row of keys + row of values) · cells · streams",
    "state": "Σ layers (convolution + state) · 4 B · sequences",
}
