"""Where llama.cpp puts layers, weights and caches, from its flags.

Source: `llama_model::load_tensors` and the constructor of `llama_context` in llama.cpp 0.5.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate

from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.records import dataclass
from memcore.servers.llamacpp.caches import WINDOWED, slides
from memcore.servers.llamacpp.gguf import FileTensor
from memcore.servers.llamacpp.gguf_tensors import layers_in_order
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes
from memcore.symbols import round_up

HOST = "CPU"
EVERY = 1 << 30
"""More layers than any model has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What llama.cpp is told, by its options."""

    context: int = 4096
    """`-c`: tokens of all sequences together; 0: as many as the model was trained on."""
    batch: int = 2048
    """`-b`"""
    micro_batch: int = 512
    """`-ub`"""
    sequences: int = 1
    """`-np`"""
    unified: bool = False
    """`-kvu`: sequences share one cache."""
    flash: bool | None = None
    """`-fa`; None: where the GPU has a kernel for it."""
    keys: str = "F16"
    """`-ctk`"""
    values: str = "F16"
    """`-ctv`"""
    gpus: int = 1
    gpu_layers: int = EVERY
    """`-ngl`: the output counts as one more layer, which before 2026 is there only with all the others."""
    before: int = 0
    behind: int = 0
    """Layers of the same file that other contexts compute, before and behind these; `-ngl` and `-ts` count them."""
    split: str = "layer"
    """`-sm`: none, layer, row."""
    shares: tuple[float, ...] = ()
    """`-ts`; by default the GPUs' free memory, which is taken to be equal."""
    overrides: tuple[tuple[str, str], ...] = ()
    """`-ot`: patterns of tensor names, and the device that takes them."""
    host_experts: int = 0
    """`--n-cpu-moe`: layers, from the first, whose experts stay on the host; `--cpu-moe`: all of them."""
    cache_on_host: bool = False
    """`-nkvo`"""
    full_windows: bool = False
    """`--swa-full`"""
    outputs: int | None = None
    """Tokens of a batch whose logits can be asked for; None: all of them. llama-server asks for one of each slot."""
    checkpoints: int = 0
    """Copies of each sequence's recurrent states besides the states themselves."""
    window_memory: int = 0
    """Tokens of each sequence that a sliding window keeps, where that is more than it sees."""
    release: str = "2026"
    """A row of `RELEASES`."""
    backend: str = "cuda"
    """A row of `BACKENDS`."""
    latent_values: bool = False
    """Latent vectors are kept as values, too."""
    expanded: bool = False
    """Latent attention caches keys and values of every head (`-mla 0` of ik_llama.cpp)."""
    mapped: bool = False
    """GPU and host share one memory, and the file is mapped once for both: a GPU's buffer is what lies between its
    first tensor and its last, and `output.weight` is the first of a file that llama-quantize wrote."""
    offload: bool = True
    """Large products with weights of the host run on the GPU (`--no-op-offload` turns it off)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """How backends differ in what they reserve."""

    alignment: int
    """Of tensors in a buffer."""
    pads: bool = True
    """Quantized rows are read in steps of 512 elements, and flash attention unpacks caches behind its result."""
    fuses: bool = True
    """Experts are chosen and summed by fused kernels, whose operands are kept (`ggml.fusion`)."""


BACKENDS: Mapping[str, Backend] = {
    "cuda": Backend(alignment=128),
    "vulkan": Backend(alignment=16, pads=False, fuses=False),
}
"""CUDA's, which ROCm shares, and Vulkan's.

Sources: ggml/src/ggml-cuda/ggml-cuda.cu; ggml/src/ggml-vulkan/ggml-vulkan.cpp (`get_alloc_size` of its buffers is
`ggml_nbytes`, the alignment is the driver's minStorageBufferOffsetAlignment, 16 with NVIDIA's). 428.07 MiB of
Gemma 4 26B-A4B with b9849, as without fused experts; the newest build keeps operands of some fusions, too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How releases differ in what they reserve."""

    fuses_experts: bool = True
    """CUDA fuses the choice and the sum of experts, and keeps their operands (`ggml.fusion`)."""
    rotates_caches: bool = True
    """Rows of quantized caches are multiplied by a Hadamard matrix."""
    unpacks_in_place: bool = True
    """Flash attention unpacks quantized caches behind its result; before, in a pool of CUDA's."""
    half_mask: bool = True
    """The mask comes in fp16; before, in fp32, and was cast on the device."""
    takes_embeddings: bool = True
    """There is always an input for embeddings besides that for tokens."""
    fuses_norms: bool = False
    """A norm and its weight are one operation with a result of its own."""
    fuses_gates: bool = False
    """Up projection, gate and activation of experts are one operation (`-fmoe`)."""
    outputs_by_slots: bool = True
    """llama-server asks for the logits of one token of each slot, and of those that a draft proposes for it; before,
    room for those of all tokens was reserved."""
    drafts_together: bool = True
    """One context drafts for all slots; before, each slot had a context of its own with its cache and its buffers."""
    output_first: bool = True
    """The output is the first that goes to the GPUs; before, the last."""
    gates_at_once: bool = True
    """A gate's activation and its product are one operation with a result of its own; before, two in place."""
    tables_with_output: bool = False
    """Embeddings of each layer (Gemma 3n, 4) lie with the output, where its device reads rows of their type; since
    then, with the token embedding on the host."""


_OLD = Release(
    fuses_experts=False, rotates_caches=False, unpacks_in_place=False, half_mask=False, takes_embeddings=False,
    outputs_by_slots=False, drafts_together=False, tables_with_output=True, output_first=False,
)  # fmt: skip
_IK = replace(_OLD, fuses_norms=True, fuses_gates=True)
_EARLY = replace(_OLD, gates_at_once=False)
_SPRING = Release(unpacks_in_place=False, half_mask=False, outputs_by_slots=False, drafts_together=False)
_WINTER = replace(_SPRING, tables_with_output=True)
RELEASES: Mapping[str, Release] = {
    "2026": Release(), "spring": _SPRING, "winter": _WINTER, "2025": _OLD, "early": _EARLY, "ik": _IK,
}  # fmt: skip
"""llama.cpp by what it reserves: since June 2026, since April, before that in 2026, since July 2025, and before that;
and ik_llama.cpp of 2025.

Sources: ggml-org/llama.cpp#23764 (the mask in fp16) and #23861 (outputs), both of the end of May 2026, and #23907 (room
for unpacked caches), which was in the builds of 4 June; #22838 (one context drafts for all slots), of May 2026; #21612
(embeddings of each layer), of 8 April 2026; #18148 (the output), of December 2025; #14158 (gates),
of 29 June 2025. Ollama's own engine places the output last, too (llm/server.go, `assignLayers`).
"""
_BUILDS = ((5780, "early"), (7600, "2025"), (8710, "winter"), (9300, "spring"))
"""About the first build of July 2025, the first of 2026, about that of 8 April and, at the earliest, that of the later
changes: 9272 of 22 May had none of them (#23527)."""
_ROWS = frozenset({"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"})
"""Types whose rows CUDA's and Vulkan's kernels read (`ggml_backend_cuda_device_supports_op`, GET_ROWS)."""


def row_of(build: int | None) -> str:
    """Return the row of `RELEASES` for a build; the newest where none is given."""
    return next((row for below, row in _BUILDS if build is not None and build < below), "2026")


_EXPERTS = re.compile(r"blk\.(\d+)\.ffn_(up|down|gate|gate_up)_(ch|)exps")
"""What `--cpu-moe` means, with a layer's number."""


class Layout:
    """Where everything lies."""

    def __init__(self, model: Model, tensors: Sequence[FileTensor], flags: Flags) -> None:
        self.model = model
        self.flags = flags
        self.tensors = tensors
        self.layers: tuple[Layer, ...] = tuple(layers_in_order(model))
        self.gpus = tuple(f"CUDA{number}" for number in range(flags.gpus))
        self.release = RELEASES[flags.release]
        self.backend = BACKENDS[flags.backend]
        self.context, self.cells = self._context()
        self.flash = uses_flash(model, flags)
        self._devices: dict[int, str] = {}
        self._patterns = [(re.compile(pattern), device) for pattern, device in flags.overrides]

    def _context(self) -> tuple[int, int]:
        """Return tokens in all, and cells of each cache."""
        flags = self.flags
        context = round_up(flags.context or self.model.sizes["P"], 256)
        if flags.unified or flags.sequences == 1:
            return context, context
        each = round_up(context // flags.sequences, 256)
        return each * flags.sequences, each

    @property
    def micro_batch(self) -> int:
        """Return tokens of a micro-batch: never more than a batch or the context."""
        return min(self.flags.micro_batch, self.flags.batch, self.context)

    @property
    def streams(self) -> int:
        """Caches of their own."""
        return 1 if self.flags.unified else self.flags.sequences

    @property
    def all_on_gpus(self) -> bool:
        """Return whether no layer of the file stays on the host, nor its output."""
        return self.flags.gpu_layers > self.flags.before + len(self.layers) + self.flags.behind

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Return what each GPU has, up to which part of the whole."""
        shares = self.flags.shares or (1.0,) * len(self.gpus)
        whole = sum(shares)
        return tuple(each / whole for each in accumulate(shares))

    def layer_device(self, layer: int) -> str:
        """Return the device of a layer; the output is the layer after the last."""
        if layer not in self._devices:
            self._devices[layer] = self._device_of(layer)
        return self._devices[layer]

    def _device_of(self, layer: int) -> str:
        own, before = len(self.layers), self.flags.before
        count = before + own + self.flags.behind
        layer = before + layer if layer < own else count
        on_gpu = min(self.flags.gpu_layers, count + 1)
        end = count + (on_gpu > count or self.release.output_first)
        first = end - on_gpu
        if not self.gpus or not first <= layer < end:
            return HOST
        if self.flags.split == "none" or len(self.gpus) == 1:
            return self.gpus[0]
        place = bisect_right(self.shares, (layer - first) / on_gpu)
        return self.gpus[min(place, len(self.gpus) - 1)]

    def cache_device(self, layer: int) -> str:
        """Return the device of a layer's cache."""
        return HOST if self.flags.cache_on_host else self.layer_device(layer)

    def tensor_device(self, name: str) -> str:
        """Return the device whose buffer holds a tensor."""
        for pattern, device in self._patterns:
            if pattern.search(name):
                return device
        experts = _EXPERTS.search(name) if self.flags.host_experts else None
        if experts is not None and int(experts[1]) < self.flags.host_experts:
            return HOST
        if name.startswith("blk."):
            return self.layer_device(int(name.split(".")[1]))
        if name.startswith(("output", "token_embd_norm", "altup", "per_layer_model_proj", "per_layer_proj_norm")):
            return self.layer_device(len(self.layers))
        return HOST

    def placed(self) -> Iterator[tuple[FileTensor, str]]:
        """Every tensor with its device; factors of rotations stand on each, a tied head is the embedding once more."""
        named = {tensor.name: tensor for tensor in self.tensors}
        repeating = dict.fromkeys(self.layer_device(layer) for layer in range(len(self.layers)))
        for tensor in self.tensors:
            if tensor.name.startswith("rope_"):
                yield from ((tensor, device) for device in repeating)
            elif tensor.name == "per_layer_token_embd.weight" and self._reads_with_output(tensor):
                yield tensor, self.layer_device(len(self.layers))
            else:
                yield tensor, self.tensor_device(tensor.name)
        if "output.weight" not in named:
            embedding = named["token_embd.weight"]
            head = FileTensor("output.weight", embedding.shape, embedding.type)
            device = self.tensor_device(head.name)
            if device != HOST:
                yield head, device

    def _reads_with_output(self, tensor: FileTensor) -> bool:
        return self.release.tables_with_output and tensor.type in _ROWS

    def layer_cells(self, layer: Layer) -> int:
        """Cells of a layer's cache, of one stream."""
        if not slides(self.model, layer) or self.flags.full_windows:
            return self.cells
        window = max(self.flags.window_memory, self.model.window or WINDOWED[self.model.network.family])
        many = self.flags.sequences if self.flags.unified else 1
        return round_up(min(self.cells, window * many + self.micro_batch), 256)

    def split_rows(self, rows: int) -> Iterator[tuple[str, int]]:
        """Rows of a matrix on each GPU when matrices are split by rows, in steps of 128."""
        before = 0
        for gpu, bound in zip(self.gpus, self.shares, strict=True):
            after = rows if gpu == self.gpus[-1] else int(rows * bound) // ROW_STEP * ROW_STEP
            yield gpu, after - before
            before = after


ROW_STEP = 128
"""The rows that CUDA's kernels for quantized matrices take at once (`get_row_rounding`)."""


def buffer_bytes(tensor: FileTensor, device: str, backend: Backend) -> int:
    """Return what a weight takes in its buffer: CUDA reads quantized rows in steps of 512 elements."""
    size = tensor.bytes
    if device == HOST:
        return round_up(size, 32)
    rest = tensor.shape[-1] % 512
    if backend.pads and BLOCK_TYPES[tensor.type].quantized and rest:
        size += row_bytes(tensor.type, 512 - rest)
    return round_up(size, backend.alignment)


_SQUARE = frozenset({40, 64, 72, 80, 96, 112, 128, 256, 512})
"""Widths of heads that CUDA's flash attention takes."""


def uses_flash(model: Model, flags: Flags) -> bool:
    """Return whether attention is fused: as told, else where CUDA has a kernel for every layer.

    Source: llama.cpp, ggml/src/ggml-cuda/fattn.cu, `ggml_cuda_get_best_fattn_kernel`.
    """
    if flags.flash is not None:
        return flags.flash
    parts = (part for layer, _ in model.layers for part in layer.mixers)
    return all(_has_kernel(model, part, expanded=flags.expanded) for part in parts if isinstance(part, _MIXERS))


_MIXERS = (Attention, LatentAttention)


def _has_kernel(model: Model, part: Attention | LatentAttention, *, expanded: bool) -> bool:
    if isinstance(part, LatentAttention) and not expanded:
        return model.size(part.expand.inner) == 512
    keys, values = model.size((part.heads.width,)), model.size((part.heads.value,))
    shared = part.heads.key if isinstance(part, Attention) else part.heads.query
    groups = model.size((part.heads.query,)) // model.size((shared,))
    if keys == 192:
        return values == 128 and groups % 8 == 0
    return keys in _SQUARE and keys == values
