"""The graph that llama.cpp reserves, on its devices: which takes which node, and what their compute buffers take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.servers.llamacpp.caches import attentions, cache_rows, cache_type, slides, state_rows
from memcore.servers.llamacpp.ggml.allocator import Reserved
from memcore.servers.llamacpp.ggml.fusion import kept
from memcore.servers.llamacpp.ggml.scheduler import Device, Scheduler
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.gguf_tensors import norm_names
from memcore.servers.llamacpp.graph import Batch, Builder, Cache
from memcore.servers.llamacpp.model import build
from memcore.servers.llamacpp.plan import HOST, Layout
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes
from memcore.symbols import round_up


def compute_buffers(plan: Layout) -> Mapping[str, Reserved]:
    """Each device's compute buffer."""
    flags, release = plan.flags, plan.release
    tokens = round_up(plan.micro_batch, flags.sequences)
    outputs = min(plan.micro_batch, flags.outputs or min(flags.batch, plan.context))
    batch = Batch(tokens, outputs, flags.sequences, plan.streams, plan.flash, release)
    caches, states = _caches(plan), _states(plan)
    every = range(len(plan.layers))
    layers = every if states and len(every) <= DEEPEST else counted(_kinds(plan, caches, states))
    names = {index: norm_names(plan.model, plan.layers[index]) for index in layers}
    graph = build(Builder(plan.model, batch, _weights(plan, layers), caches, states, names), layers)
    backend = plan.backend
    size = (cuda_bytes if release.unpacks_in_place else weight_bytes) if backend.pads else _plain_bytes
    devices = [
        *(Device(name, backend.alignment, size, lambda node: True, _worth_moving) for name in plan.gpus),
        _host(),
    ]
    parallel = (
        len(plan.gpus) > 1
        and plan.all_on_gpus
        and flags.split == "layer"
        and not flags.cache_on_host
        and not (flags.overrides or flags.host_experts)
    )
    return Scheduler(devices, parallel=parallel, offload=flags.offload).buffers(
        graph, kept if release.fuses_experts and backend.fuses else None
    )


def _weights(plan: Layout, layers: Collection[int]) -> Mapping[str, Tensor]:
    """Leaves of the weights outside the layers and of some layers, by name."""
    found = {}
    wanted = set(layers)
    for tensor, device in plan.placed():
        if _layer_in(tensor.name) not in {None, *wanted}:
            continue
        leaf = Tensor(tensor.type, tensor.shape[::-1])
        leaf.name, leaf.place, leaf.weight = tensor.name, device, True
        found[tensor.name] = leaf
        if tensor.name.startswith("rope_"):
            found.update({f"blk.{layer}.rope_factors": leaf for layer in layers if plan.layer_device(layer) == device})
    found.setdefault("output.weight", found["token_embd.weight"])
    return found


def _layer_in(name: str) -> int | None:
    """Return the number of the layer that a tensor belongs to, from its name."""
    return int(name.split(".", 2)[1]) if name.startswith("blk.") else None


DEEPEST = 128
"""Layers up to which all are in the graph of a model with states: Mamba's leave other free blocks for longer.

Of 1,350 random jobs, with states or without, none took other bytes when alike layers were counted.
"""
PERIODS, CYCLE = 8, 12
"""How often alike layers stand at least in a graph that counts them, and a number of layers after which the free blocks
between layers are the same again: with Aya 23 they take turns from layer to layer."""
LONGEST = 12
"""Layers of a pattern that is looked for."""


def counted(kinds: Sequence[object]) -> list[int]:
    """Return the layers of a model's graph: of a repeated pattern `PERIODS` and a few, and always the last layer.

    Between two layers the allocator's free blocks depend on the layers before, and soon on their kinds alone.

    >>> counted("a" + 100 * "b" + "c")[-3:]
    [15, 16, 101]
    """
    found: list[int] = []
    place, end = 0, len(kinds) - 1
    while place < end:
        for length in range(1, LONGEST + 1):
            after = place + length
            while after < end and kinds[after] == kinds[after - length]:
                after += 1
            whole = (after - place) // length
            if whole > PERIODS:
                kept = PERIODS + (whole - PERIODS) % CYCLE
                found += range(place, place + kept * length)
                place += whole * length
                break
        else:
            found.append(place)
            place += 1
    return [*found, end]


def _kinds(plan: Layout, caches: Mapping[int, Cache], states: Mapping[int, tuple[Tensor, Tensor]]) -> list[object]:
    """Return what the graph sees of each layer: its parts, weights, cache and states, and where they lie."""
    weights: dict[int | None, list[object]] = {}
    for tensor, device in plan.placed():
        index = _layer_in(tensor.name)
        name = tensor.name.split(".", 2)[-1]
        weights.setdefault(index, []).append((name, tensor.type, tensor.shape, device))
    found: list[object] = []
    numbers: dict[object, int] = {}
    own: set[int] = set()
    for index, layer in enumerate(plan.layers):
        cache = caches.get(index)
        stored = () if cache is None else (cache.cells, cache.sliding, cache.width, id(cache) in own,
                                           *map(_leaf, (cache.keys, cache.values)))  # fmt: skip
        own.add(id(cache))
        kind = (id(layer), plan.layer_device(index), tuple(weights.get(index, ())), stored,
                tuple(map(_leaf, states.get(index, ()))))  # fmt: skip
        found.append(numbers.setdefault(kind, len(numbers)))
    return found


def _leaf(tensor: Tensor | None) -> object:
    return None if tensor is None else (tensor.type, tensor.ne, tensor.place)


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
    if plan.flags.expanded and isinstance(part, LatentAttention):
        keys, values = (plan.model.size((part.heads.query, axis)) for axis in (part.heads.width, part.heads.value))
    elif values and not plan.flash:
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
    """Return the width of a head, if it is the same in all layers with such a cache."""
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


def _plain_bytes(tensor: Tensor) -> int:
    return tensor.bytes


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
        end = round_up(end, 128) + keys.elements * 2
    same = values.view is keys.view and values.offset == keys.offset
    if values.type != "F16" and not same:
        end = round_up(end, 128) + values.elements * 2
    return end - size


def _worth_moving(node: Tensor) -> bool:
    """Return whether the GPU computes an operation with weights of the host: on 32 rows and more."""
    if node.op == "GET_ROWS":
        return False
    rows = (
        node.ne[1] if node.op == "MUL_MAT" else node.ne[2] if node.op in {"MUL_MAT_ID", "ROPE"} else prod(node.ne[1:])
    )
    return rows >= 32
