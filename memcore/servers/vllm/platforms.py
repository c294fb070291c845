"""What of vLLM lies elsewhere: weights and cached blocks on the host, experts on other ranks, what drafts keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.families.counted import HEAD, PLACED
from memcore.networks.parts import Attention
from memcore.servers.vllm.experts import shares_experts
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.versions import Facts
from memcore.serving import counted_towers
from memcore.serving.all_to_all import NEAR, deep_ep, flashinfer, low_latency_bytes, one_sided_bytes, two_sided_bytes
from memcore.serving.devices import has
from memcore.serving.encoder import shown
from memcore.serving.entries import observed, tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import Basics, ServingJob
from memcore.serving.profile import ACTIVATIONS, WORKSPACES
from memcore.serving.server_weights import cached_layers
from memcore.serving.slots import TENSOR, sharded
from memcore.serving.stages import Stage
from memcore.serving.weights import Storage, weight_entries
from memcore.units import GiB, MiB, format_bytes

_GROUPED = (0, 22)
"""Since then connectors say whether they know groups of layers; before, any of them turned groups off."""


def connected(found: Facts, connector: str | None) -> bool:
    """Return whether a connector makes all layers cache the full context: LMCache's has only one kind of blocks.

    Source: vllm, config/vllm.py (`kv_transfer_config`) of 0.19.1, 0.21, 0.22.1; kv_connector/v1/lmcache_connector.py.
    """
    return connector is not None and (found.since < _GROUPED or connector == "lmcache")


def sliding(basics: Basics) -> bool:
    """Return whether some layers see only a window; a config may name one that no layer has (`use_sliding_window`)."""
    return any(mixer.mask == "sliding" for layer, _ in basics.model.layers for mixer in layer.mixers)


VIEWS = (0, 8, 3)
"""Since then GPUs read such weights where they are; before, a layer's were copied while it ran."""
_UVA = "vllm, model_executor/offloader/uva.py; model_executor/models/utils.py before 0.17"


def _layer_weights(job: ServingJob, stage: Stage) -> Iterator[list[Entry]]:
    """Yield the parameters of each layer, in the order in which they are loaded."""
    basics = job.basics
    storage = Storage(dtype=basics.dtype, stored=basics.stored, sizes=basics.sizes)
    for number, layer in enumerate(stage.layers, stage.first_layer):
        yield list(weight_entries(job.model, Stage(1, 3, number, (layer,)), storage, towers=False))


_SHOWN = int(0.06 * GiB)
"""What AMD's GPUs show beyond a checkpoint's tensors, in six starts of four releases: kernels that are loaded."""
_MADE_AT_ONCE = 2
"""How often matrices of a layer may be there while its format is made: as they come, and what becomes of them."""


def shown_loading(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """What a device shows beyond weights once they are loaded, where vLLM subtracts that instead of what is allocated.

    Blocks that are free again count, too, as loading does not return them: 2.4 GiB of Qwen3-Coder-Next-FP8 on an
    MI300X, where a layer has 1.6 (vllm 0.11 to 0.19, platforms/rocm.py, get_current_memory_usage).
    """
    if not chosen.facts.shows_loading:
        return []
    largest = max((sum(entry.bytes for entry in entries) for entries in _layer_weights(job, stage)), default=0)
    makes = job.basics.stored is not None or job.basics.model.has_experts
    bounds = Range(0, _SHOWN, _SHOWN + _MADE_AT_ONCE * makes * largest)
    text = "observed 0.06 GiB; more where formats are made of what is loaded"
    return [observed("kernels and free blocks while loading", "weights", bounds, _SEEN, text)]


_SEEN = "vllm, platforms/rocm.py, get_current_memory_usage"


_EIGHT_BITS, _BLOCK = (8, 9), 128
"""Compute capability from which GPUs multiply in fp8, and rows of a block that have one scale."""
_MARLIN = "vllm, model_executor/layers/quantization/utils/marlin_utils_fp8.py"


def scaled_by_row(basics: Basics, weights: Sequence[Entry]) -> list[Entry]:
    """Scales of blocks of fp8 once more for each of a block's rows, in 16 bits, as Marlin has them on older GPUs.

    34.71 GiB are loaded of Qwen3.5-35B-A3B-FP8 on an A100, and 34.22 on a GPU that has fp8.
    """
    if basics.accelerator is None or basics.accelerator.stack != "cuda" or has(basics.accelerator, _EIGHT_BITS):
        return [*weights]
    return [
        replace(
            entry,
            shape=(*entry.shape, _BLOCK),
            each=entry.each // _FP32 * _BLOCK * _BF16,
            source=_MARLIN,
        )
        if entry.title.split() == ["fp8-block", "scales"] and entry.shape is not None
        else entry
        for entry in weights
    ]


_FP32, _BF16 = 4, 2


def offloaded(job: ServingJob, chosen: Options, stage: Stage, weights: Sequence[Entry]) -> tuple[list[Entry], int]:
    """Return what stays on the GPU of `weights`, and the bytes that stay on the host.

    Parameters of one layer after the other, from the first, until there are as many bytes as asked for. What kernels
    make of quantized matrices after loading may be on the GPU again.
    """
    if not chosen.on_host:
        return [*weights], 0
    path, found = job.model.network.path, 0
    on_host: Counter[object] = Counter()
    for entry in (entry for entries in _layer_weights(job, stage) for entry in entries):
        if found < chosen.on_host:
            found += entry.bytes
            on_host[_place(entry, path)] += entry.copies
    kept = []
    for entry in weights:
        key = _place(entry, path)
        fewer = min(on_host[key], entry.copies) if entry.range is None else 0
        on_host[key] -= fewer
        if entry.copies > fewer:
            kept.append(replace(entry, copies=entry.copies - fewer))
    moved = sum(entry.bytes for entry in weights) - sum(entry.bytes for entry in kept)
    if found and job.basics.stored is not None:
        text = "parameters of layers, from the first, until cpu_offload_gb is reached"
        kept.append(observed("weights that stay on the host", "weights", Range(moved - found, 0, moved), _UVA, text))
    return kept, moved


def _place(entry: Entry, path: str) -> object:
    """Return what equal entries of two layers of a model have in common."""
    _, _, name = entry.module.removeprefix(f"{path}.").partition(".")
    return entry.title, entry.category, entry.shape, entry.each, name


def copied(job: ServingJob, stage: Stage) -> Entry:
    """Return the parameters of a layer on the host, on the GPU while it runs (`functional_call`)."""
    each = max((sum(entry.bytes for entry in entries) for entries in _layer_weights(job, stage)), default=0)
    title = "a layer's weights, copied from the host"
    return Entry(title=title, category=ACTIVATIONS, each=each, text="the largest layer", source=_UVA)


_CHUNK = 256
"""Tokens of LMCache's chunks (lmcache, v1/config.py, `chunk_size`)."""


def connecting(job: ServingJob, chosen: Options, stage: Stage) -> list[Entry]:
    """Return what a connector has on the GPU; those of vLLM itself copy blocks where they are."""
    if chosen.connector != "lmcache":
        return []
    parts = [part for layer in cached_layers(job, stage) for part in layer if part.kind != "state"]
    sizes, source = {"chunk": _CHUNK, "token": sum(part.bytes for part in parts)}, "lmcache, v1/gpu_connector.py"
    return [tensor("chunk that LMCache copies through", WORKSPACES, ("chunk", "token"), 1, sizes, source)]


_ALL_TO_ALL = "vllm, distributed/device_communicators/all2all.py; deepseek-ai/DeepEP, csrc/legacy/config.hpp"
_DEEP_EP = 1024 * MiB
"""VLLM_DEEPEP_BUFFER_SIZE_MB."""
_DECODED = 256
"""Tokens of a rank's chunk before 0.20 (VLLM_MOE_DP_CHUNK_SIZE); since, those of a step."""


def exchanged(job: ServingJob, chosen: Options) -> list[Entry]:
    """Buffers of all-to-all, which are there before profiling (`prepare_communication_buffer_for_model`)."""
    sizes, backend = job.basics.sizes, chosen.backend
    if not shares_experts(job):
        return []
    if backend == "deepep_high_throughput":
        return deep_ep(_DEEP_EP, _DEEP_EP if sizes["EP"] > NEAR else 0, _ALL_TO_ALL)
    if backend == "deepep_low_latency":
        tokens = _DECODED if chosen.facts.since < (0, 20) else chosen.tokens
        return deep_ep(_DEEP_EP, low_latency_bytes(tokens, sizes["h"], sizes["E"]), _ALL_TO_ALL)
    if backend == "flashinfer_nvlink_one_sided":
        sent = _sent(job, sizes["h"])
        return flashinfer(one_sided_bytes(chosen.tokens, sizes["h"], sizes["e"], sizes["EP"], sent=sent), _NVLINK)
    if backend == "flashinfer_nvlink_two_sided":
        return flashinfer(two_sided_bytes(sizes["EP"]), _NVLINK)
    return []


_NVLINK = "vllm, distributed/device_communicators/all2all.py; flashinfer, comm/trtllm_moe_alltoall.py"
_UNKNOWN = frozenset({"pplx", "mori_high_throughput", "mori_low_latency", "nixl_ep"})
"""Backends whose buffers no source that was read gives."""


def _sent(job: ServingJob, hidden: int) -> int:
    """Return bytes of a token on its way: in the experts' format, with its scales."""
    stored = job.basics.stored
    form = stored.format_of("routed-expert", ()) if stored is not None else None
    if form is not None and form.name == "nvfp4":
        return hidden // 2 + hidden // 16
    return hidden + hidden // 32 if form is not None and form.name == "mxfp8" else 2 * hidden


UNSEEN = 4 * GiB
"""What such a tower may take: as much as dots.ocr's, which is known."""


def unseen_tower(job: ServingJob, chosen: Options) -> bool:
    """Return whether profiling encodes images with a tower of which only the weights are known."""
    model, runner = job.basics.model, chosen.runner
    encodes = chosen.encodes and (runner is None or runner.images)
    known = model.images or shown(model, {}, 1) or counted_towers.known(job.basics.raw)
    return bool(encodes and model.parameters_by_kind.get("tower") and not known)


_PLACED_UNTIL, _TIED = (0, 19), (0, 16)
"""The first release without PaddleOCR-VL's positions, and the first that asks transformers whether its head is tied."""


def loaded_besides(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield what vLLM loads of a checkpoint that transformers leaves out: PaddleOCR-VL's own head and positions.

    1.89 GiB in a log of 0.11.2 are all of these (read in 0.11.2, 0.13, 0.16 to 0.19, 0.22 and 0.33).
    """
    extras, source = job.basics.model.published_extras, "vllm, model_executor/models/paddleocr_vl.py"
    if PLACED not in extras or not stage.embeds:
        return
    each = BYTES[job.basics.dtype]
    head = int(extras.get(HEAD, 0) * each) // job.basics.layout.tensor
    text = "parameters × 2 B"
    yield observed(HEAD, "weights", Range(0 if chosen.facts.since >= _TIED else head, head, head), source, text)
    if chosen.facts.since < _PLACED_UNTIL and chosen.images:
        places = int(extras[PLACED] * each)
        yield observed(PLACED, "weights", Range(places, places, places), source, text)


def projections(basics: Basics) -> list[Entry]:
    """Return what makes keys and values in DFlash's layers, once more as one matrix (`_build_context_kv_buffers`)."""
    proposing = basics.speculation
    parts = proposing.layer.mixers if proposing is not None and proposing.layer is not None else ()
    source = "vllm, model_executor/models/qwen3_dflash.py"
    found = []
    for part in parts:
        if proposing is not None and isinstance(part, Attention):
            rows = (part.heads.width, part.heads.value)
            for width in rows:
                shape = (*sharded((part.heads.key, width), TENSOR), "h")
                title, size = "keys' and values' projections of the draft, as one", BYTES[basics.dtype]
                found.append(tensor(title, WORKSPACES, shape, size, basics.sizes, source, copies=proposing.layers))
    return found


def elsewhere(job: ServingJob, chosen: Options) -> Iterator[str]:
    """Yield what lies in the host's memory, and what has no effect."""
    if chosen.on_host:
        # PyTorch pins tensors in powers of two (vllm-project/vllm#56410: 1.87 times as much).
        said = "{} of each GPU's weights stay in host memory; pinned there, they take up to twice as much"
        yield Message(said, format_bytes(chosen.on_host))
    if chosen.kv_on_host:
        said = "offloaded blocks take {} of host memory; the cache on the GPU stays as large"
        yield Message(said, format_bytes(chosen.kv_on_host))
    if chosen.connector is not None and not chosen.hybrid and sliding(job.basics):
        yield "with this connector vLLM caches the full context in all layers"
    if chosen.backend is not None and not shares_experts(job):
        yield "all2all_backend needs no memory without data and expert parallelism"
    elif chosen.backend in _UNKNOWN:
        yield Message("the size of {}'s buffers is unknown, so they are not counted", chosen.backend)
    if unseen_tower(job, chosen):
        said = "how much this model's tower needs to profile an image is unknown: up to {} less for the cache"
        yield Message(said, format_bytes(UNSEEN))
