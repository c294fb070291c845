"""What a start of vLLM sets: the settings that were given, and the release's defaults.

Source: vllm, engine/arg_utils.py (get_batch_defaults), v1/core/sched, model_executor/models/registry.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings, release
from memcore.config.schema import Setting
from memcore.messages import joined
from memcore.networks.network import Model
from memcore.networks.parts import SpecialMixer
from memcore.networks.read import headless
from memcore.servers.vllm import supported
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.platforms import connected, sliding
from memcore.servers.vllm.settings import VllmSettings
from memcore.servers.vllm.stacks import block_of, on_stack, stack_of
from memcore.servers.vllm.versions import NEWEST, Facts, Runner, facts, former, latest_runner, second_runner
from memcore.serving.checkpoint import Stored, text_config
from memcore.serving.formats import FORMATS
from memcore.serving.inference import Inference
from memcore.serving.job import Basics
from memcore.serving.settings import ServerSettings
from memcore.units import GiB

_VIDEO = 32 * (70 + 2 + 6)
"""Frames of Gemma 4's longest video, each of 70 tokens between two, with about 6 that say when it is
(vllm, model_executor/models/gemma4_mm.py, get_mm_max_tokens_per_item)."""


_EXPANDS = (0, 9, 2)
_BOTH = (0, 8), (0, 11)
_BITSANDBYTES = frozenset({"nf4", "nf4-double"})


def keeps(read: Defaults, stored: Stored) -> Stored:
    """Return how weights are kept: scales of bitsandbytes stay quantized before 0.9.2, and are whole since.

    Source: vllm, model_executor/model_loader/bitsandbytes_loader.py (dequantize_dq, not in 0.9.1; compress_statistics).
    """
    if not stored.format.name.startswith("nf4"):
        return stored
    version = read.given(EngineSettings.version)
    nested = version is not None and release(version) < _EXPANDS
    kept = replace(FORMATS["nf4-double" if nested else "nf4"], covers=stored.format.covers)
    if kept.name != stored.format.name:
        reason = "quantized scales are kept before vLLM 0.9.2" if nested else "vLLM undoes what quantizes scales"
        read.assumptions.append(Assumption("model.quantization_config", kept.name, reason, True))
    return replace(stored, format=kept)


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that vLLM does not have.
    """
    family = basics.model.network.family
    last = supported.UNTIL.get(family)
    newest = "the newest release that memcore knows" if last is None else "the last release that has this family"
    version = read.take(EngineSettings.version, last or NEWEST, newest)
    supported.check(basics.model, version)
    found = facts(version)
    loras = read.given(Inference.max_loras) or 0
    number = release(version)
    found = on_stack(read, basics, _engine(read, basics, found, number, loras), number)
    tokens, sequences = _batches(read, basics, found)
    block = block_of(basics, 64 if "lk" in basics.model.sizes else 16)
    images = read.given(Inference.images_per_sequence) != 0
    item = _largest_item(basics) if images and found.whole_items else 0
    tokens = max(tokens, item if found.steps_for_items else 0, _uncut(basics))
    utilization = read.take(VllmSettings.gpu_memory_utilization, found.utilization)
    chosen = _inference_or_engine(read, Inference.max_num_seqs, ServerSettings.max_num_seqs, min(sequences, tokens))
    if found.shortest_steps:
        tokens = min(tokens, chosen * basics.max_model_len)
    kept = read.given(VllmSettings.kv_offloading_size) or 0
    connector = read.given(VllmSettings.kv_connector) or ("offloading" if kept else None)
    alone = _chunked(basics) and found.since < (0, 20)
    disabled = read.take(VllmSettings.disable_hybrid_kv_cache_manager, alone or connected(found, connector))
    _check_connector(read, basics, found, connector)
    reuses = read.take(VllmSettings.enable_prefix_caching, found.hybrids_reuse_prefixes or not _recurrent(basics))
    return Options(
        facts=found,
        runner=_runner(read, version, basics) if stack_of(basics).second_runner else None,
        utilization=utilization,
        cache_bytes=read.given(VllmSettings.kv_cache_memory_bytes),
        tokens=read.take(VllmSettings.max_num_batched_tokens, tokens),
        sequences=chosen,
        block_size=_inference_or_engine(read, Inference.block_size, ServerSettings.block_size, block),
        pooling=_pools(basics),
        eager=read.take(VllmSettings.enforce_eager, False),
        hybrid=not disabled and stack_of(basics).windows,
        images=images,
        encodes=images and not read.given(VllmSettings.skip_mm_profiling),
        videos=read.given(VllmSettings.videos_per_sequence) != 0,
        pixels=read.given(VllmSettings.max_pixels),
        most_images=read.given(Inference.images_per_sequence),
        item=item,
        compiled=read.given(VllmSettings.compile_cache),
        graph_mode=read.given(VllmSettings.cudagraph_mode),
        largest_graph=read.given(VllmSettings.max_cudagraph_capture_size),
        loras=loras,
        lora_rank=_lora_rank(read),
        on_host=int((read.given(VllmSettings.cpu_offload_gb) or 0) * GiB),
        kv_on_host=int(kept * GiB),
        connector=connector,
        backend=read.given(VllmSettings.all2all_backend),
        experts=read.given(VllmSettings.moe_backend) or "auto",
        # One for the state, one for each proposed token, and the last one before it where prefixes are reused
        # (vllm, v1/kv_cache_interface.py, MambaSpec.max_memory_usage_bytes).
        states=1 + reuses + (basics.speculation.tokens if basics.speculation else 0),
    )


def _check_connector(read: Defaults, basics: Basics, found: Facts, connector: str | None) -> None:
    if _recurrent(basics) and connected(found, connector):
        said = 'found {!r}, with which vLLM does not start: "failed to convert the KV cache specs to one unified type"'
        read.refuse(VllmSettings.kv_connector, said, connector)


def _engine(read: Defaults, basics: Basics, found: Facts, version: tuple[int, ...], loras: int) -> Facts:
    """Return the former engine's facts, where a release falls back to it."""
    told = read.given(VllmSettings.use_v1)
    if told is not None and not _BOTH[0] <= version < _BOTH[1]:
        read.refuse(VllmSettings.use_v1, "found {!r}; vLLM has both engines from 0.8 to 0.10 alone; leave it out", told)
    falls = any(holds for until, holds in _in_former(read, basics, loras) if version < until)
    return former(found) if found.server_batches and (falls if told is None else not told) else found


def _in_former(read: Defaults, basics: Basics, loras: int) -> Iterator[tuple[tuple[int, ...], bool]]:
    """What the former engine runs, with the first release of which that is no longer so.

    Source: vllm, engine/arg_utils.py of 0.8.0 to 0.10.2, _is_v1_supported_oracle. A cache in fp8 needs FlashAttention 3
    (attention/utils/fa_utils.py, flash_attn_supports_fp8), from 0.10 on a B200 has it, too.
    """
    accelerator = basics.accelerator
    form = basics.stored.format.name if basics.stored is not None else ""
    offloads = bool(read.given(VllmSettings.cpu_offload_gb))
    yield (0, 8, 3), offloads or loras > 0 or basics.layout.pipeline > 1 or form in _BITSANDBYTES
    yield (0, 9), accelerator is not None and accelerator.stack == "rocm"
    method = basics.speculation.method if basics.speculation else None
    yield (0, 9), method == "mtp"
    yield (0, 10), method == "draft"
    yield (0, 9, 2), basics.dtype == "fp32" or _pools(basics)
    yield (0, 10, 2), _recurrent(basics) or (accelerator is not None and not accelerator.has_bf16)
    if basics.cache_dtype == "fp8" and accelerator is not None and accelerator.version is not None:
        yield (0, 10), accelerator.version != (9, 0)
        yield (0, 11), accelerator.version not in ((9, 0), (10, 0))


def loads(read: Defaults, model: Model) -> Model:
    """Return the model as a runner takes it (vllm, model_executor/models/adapters.py, `_create_pooling_model_cls`)."""
    runner = read.given(VllmSettings.runner)
    if runner == "pooling":
        return headless(model)
    if runner == "generate" and not model.network.embedding_and_head.predicts:
        said = "found {!r}, but the class that config.json names has no head for words; leave it out"
        read.refuse(VllmSettings.runner, said, runner)
    return model


def _pools(basics: Basics) -> bool:
    """Return whether prompts become embeddings, scores or classes."""
    return not basics.model.network.embedding_and_head.predicts


def _uncut(basics: Basics) -> int:
    """Return tokens of a pooling model's prompts that are not cut into chunks: those whose tokens see each other.

    Source: vllm, config/model.py, `is_chunked_prefill_supported`; engine/arg_utils.py: without chunks a step has room
    for the longest prompt. Models of the second kind are pooled by mean or first token.
    """
    masked = text_config(basics.raw).get("is_causal") is not False
    caches = any(mixer.cached or mixer.kept for layer, _ in basics.model.layers for mixer in layer.mixers)
    return basics.max_model_len if _pools(basics) and not (masked and caches) else 0


_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What slots of adapters may have (config/lora.py, `MaxLoRARanks`)."""


def _lora_rank(read: Defaults) -> int:
    rank = read.given(Inference.max_lora_rank) or 16
    if rank not in _LORA_RANKS:
        read.refuse(Inference.max_lora_rank, "found {!r}; allowed: {}", rank, joined(", ", map(str, _LORA_RANKS)))
    return rank


def _runner(read: Defaults, version: object, basics: Basics) -> Runner | None:
    """Return the second runner, where a release takes it or is told to."""
    told = read.given(VllmSettings.use_v2_model_runner)
    if told is not None:
        return latest_runner(version) if told else None
    plain = not _recurrent(basics) and not basics.model.has_experts
    method = basics.speculation.method if basics.speculation else None
    quantized = basics.stored is not None
    return second_runner(version, basics.model.network.family, plain=plain, method=method, quantized=quantized)


def _largest_item(basics: Basics) -> int:
    """Return tokens of a video, where images and videos see themselves whole."""
    network = basics.model.network
    shown = network.towers or any(weight.kind == "tower" for weight in network.embedding_and_head.others)
    return _VIDEO if shown and text_config(basics.raw).get("use_bidirectional_attention") == "vision" else 0


def _recurrent(basics: Basics) -> bool:
    """Return whether some layers keep a state instead of tokens."""
    return any(
        isinstance(mixer, SpecialMixer) and mixer.state for layer, _ in basics.model.layers for mixer in layer.mixers
    )


def _chunked(basics: Basics) -> bool:
    masked = any(mixer.mask == "chunked" for layer, _ in basics.model.layers for mixer in layer.mixers)
    return masked or bool(text_config(basics.raw).get("attention_chunk_size"))


def _inference_or_engine(read: Defaults, own: Setting[int], other: Setting[int], default: int) -> int:
    """Return a setting that files have under `inference` or under `engine`."""
    given, also = read.given(own), read.given(other)
    if given is not None and also is not None and given != also:
        read.refuse(other, "found {}, but {} is {}; they must agree", also, own, given)
    return given or also or read.take(own, default)


_UNTOLD = "gb10"
"""The GPU whose memory NVML does not tell."""


def _batches(read: Defaults, basics: Basics, found: Facts) -> tuple[int, int]:
    """Return tokens and sequences of a step, of the API server (engine/arg_utils.py, get_batch_defaults)."""
    if not found.server_batches:
        whole = basics.model.network.towers or sliding(basics) or basics.speculation or read.given(Inference.max_loras)
        # Recurrent states take no prompts in chunks there: 131,072 tokens are profiled in vllm, issue 23230.
        whole = whole or _recurrent(basics)
        chunked = found.chunk and basics.max_model_len > 32768 and not whole
        return found.chunk if chunked else max(basics.max_model_len, 2048), 256
    name = basics.accelerator.id if basics.accelerator else ""
    told = name != _UNTOLD or found.asks_cuda
    memory = (basics.capacity or 0) if told else 0
    if found.wide_tier and memory >= 160 * GiB:
        return 16384, 1024
    if memory >= 70 * GiB and "a100" not in name:
        return 8192, 1024
    return 2048, 256
