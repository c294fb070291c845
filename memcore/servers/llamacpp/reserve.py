"""The graph that llama.cpp reserves, on its devices: which takes which node, and what their compute buffers take."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.servers.llamacpp.caches import attentions, cache_rows, cache_type, slides, state_rows
from memcore.servers.llamacpp.ggml.fusion import kept
from memcore.servers.llamacpp.ggml.scheduler import Device, Scheduler
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.gguf_tensors import norm_names
from memcore.servers.llamacpp.graph import Batch, Builder, Cache
from memcore.servers.llamacpp.model import build
from memcore.servers.llamacpp.plan import HOST, Layout
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes


def compute_buffers(plan: Layout) -> Mapping[str, int]:
    """Bytes of each device's compute buffer."""
    flags, release = plan.flags, plan.release
    tokens = -(-plan.micro_batch // flags.sequences) * flags.sequences
    outputs = min(plan.micro_batch, flags.outputs or min(flags.batch, plan.context))
    batch = Batch(tokens, outputs, flags.sequences, plan.streams, plan.flash, release)
    names = {index: norm_names(plan.model, layer) for index, layer in enumerate(plan.layers)}
    graph = build(Builder(plan.model, batch, _weights(plan), _caches(plan), _states(plan), names))
    size = cuda_bytes if release.unpacks_in_place else weight_bytes
    devices = [*(Device(name, 128, size, lambda node: True, _worth_moving) for name in plan.gpus), _host()]
    parallel = (
        len(plan.gpus) > 1
        and flags.gpu_layers > len(plan.layers)
        and flags.split == "layer"
        and not flags.cache_on_host
        and not (flags.overrides or flags.host_experts)
    )
    return Scheduler(devices, parallel=parallel, offload=flags.offload).buffers(
        graph, kept if release.fuses_experts else None
    )


def _weights(plan: Layout) -> Mapping[str, Tensor]:
    found = {}
    for tensor, device in plan.placed():
        leaf = Tensor(tensor.type, tensor.shape[::-1])
        leaf.name, leaf.place, leaf.weight = tensor.name, device, True
        found[tensor.name] = leaf
        if tensor.name.startswith("rope_"):
            layers = (layer for layer in range(len(plan.layers)) if plan.layer_device(layer) == device)
            found.update({f"blk.{layer}.rope_factors": leaf for layer in layers})
    found.setdefault("output.weight", found["token_embd.weight"])
    return found


def _caches(plan: Layout) -> Mapping[int, Cache]:
    found: dict[int, Cache] = {}
    last: dict[bool, int] = {}
    for index, layer in enumerate(plan.layers):
        for part in layer.mixers:
            if not isinstance(part, (Attention, LatentAttention)):
                continue
            sliding = slides(plan.model, layer)
            if isinstance(part, Attention) and part.shares_cache:
                found[index] = found[last[sliding]]
                continue
            last[sliding] = index
            found[index] = _cache(plan, part, layer, plan.cache_device(index))
    return found


def _cache(plan: Layout, part: Attention | LatentAttention, layer: Layer, device: str) -> Cache:
    keys, values = cache_rows(plan.model, part)
    if values and not plan.flash:
        values = max(cache_rows(plan.model, each)[1] for each in attentions(plan.model))
    cells, sliding = plan.layer_cells(layer), slides(plan.model, layer)
    stored = Tensor(cache_type(plan.flags.keys), (keys, cells, plan.streams))
    stored.place = device
    shown = Tensor(cache_type(plan.flags.values), (values, cells, plan.streams)) if values else None
    if shown is not None:
        shown.place = device
    mixes = plan.release.rotates_caches and isinstance(part, Attention)
    width = _shared_width(plan, sliding=sliding) if mixes else 0
    return Cache(stored, shown, cells, sliding, width)


def _shared_width(plan: Layout, *, sliding: bool) -> int:
    """The width of a head, if it is the same in all layers with such a cache."""
    widths = {
        plan.model.size((axis,))
        for layer, _ in plan.model.layers
        for part in layer.mixers
        if isinstance(part, Attention) and slides(plan.model, layer) == sliding
        for axis in (part.heads.width, part.heads.value)
    }
    return widths.pop() if len(widths) == 1 else 0


def _states(plan: Layout) -> Mapping[int, tuple[Tensor, Tensor]]:
    found = {}
    for index, layer in enumerate(plan.layers):
        for part in layer.mixers:
            if isinstance(part, SpecialMixer):
                both = [Tensor("F32", (row, max(1, plan.flags.sequences))) for row in state_rows(plan.model, part)]
                for each in both:
                    each.place = plan.cache_device(index)
                found[index] = (both[0], both[1])
    return found


def _host() -> Device:
    return Device(HOST, 32, lambda tensor: tensor.bytes, lambda node: True)


def weight_bytes(tensor: Tensor) -> int:
    """Return what a tensor takes in CUDA's buffers: quantized rows are read in steps of 512 elements."""
    rest = tensor.ne[0] % 512
    more = row_bytes(tensor.type, 512 - rest) if BLOCK_TYPES[tensor.type].quantized and rest else 0
    return tensor.bytes + more


def cuda_bytes(tensor: Tensor) -> int:
    """Return the bytes in CUDA's buffers, including what flash attention unpacks."""
    size = weight_bytes(tensor)
    return size + (_unpacked(tensor, size) if tensor.op == "FLASH_ATTN_EXT" else 0)


def _unpacked(tensor: Tensor, size: int) -> int:
    """Keys and values of another type than fp16 are unpacked behind the result."""
    end = size
    keys, values = tensor.src[1], tensor.src[2]
    if keys.type != "F16":
        end = -(-end // 128) * 128 + keys.elements * 2
    same = values.view is keys.view and values.offset == keys.offset
    if values.type != "F16" and not same:
        end = -(-end // 128) * 128 + values.elements * 2
    return end - size


def _worth_moving(node: Tensor) -> bool:
    """Operations on 32 rows and more are computed by the GPU even with weights of the host."""
    if node.op == "GET_ROWS":
        return False
    rows = (
        node.ne[1] if node.op == "MUL_MAT" else node.ne[2] if node.op in {"MUL_MAT_ID", "ROPE"} else prod(node.ne[1:])
    )
    return rows >= 32
