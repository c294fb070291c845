"""Changes that make room in a server: one row for each knob, from the harmless to those that change what is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.errors import MemcoreError
from memcore.estimation import estimate_serving
from memcore.questions.advising.changes import Changes
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.servers.sglang.settings import SglangSettings
from memcore.servers.tensorrt_llm.settings import TensorRtSettings
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.answers import utilization
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.job import ServingJob

Made = Callable[[ServingEstimate], Iterator[Changes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """A row."""

    title: str
    kind: str
    """A key of `memcore.questions.advising.changes.KINDS`."""
    note: str
    servers: tuple[str, ...]
    made: Made
    ladder: bool = True
    """It is a rung of the standard ladder."""


def setting_of(job: ServingJob, path: str) -> object:
    """A setting's value: given, or what was taken instead."""
    given = job.config.get(path)
    if given is not None:
        return given
    return next((each.value for each in job.assumptions if each.path == path), None)


def _become(changes: Changes, unless: Mapping[str, tuple[object, ...]] | None = None) -> Made:
    """Settings as they become, unless they have one of some values already."""

    def made(found: ServingEstimate) -> Iterator[Changes]:
        blocked = unless or {path: (value,) for path, value in changes.items()}
        if not any(setting_of(found.job, path) in values for path, values in blocked.items()):
            yield changes

    return made


def _halved(path: str, least: int) -> Made:
    """Half of a number, if that is not below `least`."""

    def made(found: ServingEstimate) -> Iterator[Changes]:
        value = setting_of(found.job, path)
        if isinstance(value, int) and value // 2 >= least:
            yield {path: value // 2}

    return made


def _share(path: str) -> Made:
    """A larger share of the GPU for the server: the largest with which all that it holds stays on the GPU."""

    def made(found: ServingEstimate) -> Iterator[Changes]:
        now = setting_of(found.job, path)
        if found.capacity is None or found.device.high > found.capacity:
            return
        # A larger share holds more: halve until the largest that stays below the capacity is left.
        low, high = int(100 * now) + 1 if isinstance(now, float) else 60, 98
        while low <= high:
            middle = (low + high) // 2
            if _exceeds(found, {path: middle / 100}):
                high = middle - 1
            else:
                low = middle + 1
        if isinstance(now, float) and high / 100 <= now:
            return
        if _starts(found, {path: high / 100}):
            yield {path: high / 100}

    return made


def _exceeds(found: ServingEstimate, changes: Changes) -> bool:
    """Whether a server with changes holds more than the GPU has; not where it is refused, as with too small a share."""
    then = _with(found, changes)
    return then is not None and then.capacity is not None and then.device.high > then.capacity


def _starts(found: ServingEstimate, changes: Changes) -> bool:
    then = _with(found, changes)
    return then is not None and then.capacity is not None and then.device.high <= then.capacity


def _with(found: ServingEstimate, changes: Changes) -> ServingEstimate | None:
    config = found.job.config
    try:
        for path, value in changes.items():
            config = config.replaced(path, value)
        return estimate_serving(config)
    except MemcoreError:
        return None


def _utilized(found: ServingEstimate) -> Iterator[Changes]:
    """vLLM's utilization: the most that leaves room for what is outside its budget, else the least that fits."""
    path, most = VllmSettings.gpu_memory_utilization, utilization(found)
    now = setting_of(found.job, path)
    if most is None or not isinstance(now, float):
        return
    if int(100 * most.most) / 100 > now:
        yield {path: int(100 * most.most) / 100}
    elif not found.fits and now < ceil(100 * most.least) / 100 < 1:
        yield {path: ceil(100 * most.least) / 100}


def _doubled(found: ServingEstimate) -> Iterator[Changes]:
    """Twice the ranks share each matrix, on twice the GPUs."""
    job = found.job
    yield {
        Parallelism.tensor_parallel_size: job.basics.layout.tensor * 2,
        Hardware.num_gpus: job.num_gpus * 2,
    }


def _without_draft(found: ServingEstimate) -> Iterator[Changes]:
    if found.job.config[Inference.draft_model] is not None:
        yield {Inference.draft_model: None, "inference.speculative_tokens": None}


_VLLM, _SGLANG, _TRT, _CPP = ("vllm",), ("sglang",), ("tensorrt-llm",), ("llama.cpp",)
_FORMAT, _CACHE = Inference.quantization, Inference.kv_cache_dtype
_WHOLE = "nothing else may run on the GPU; what lies outside the server's budget still has room"
_EIGHT = "weights are rounded to 8 bits, with a scale for each matrix"
_FOUR = "weights are rounded to 4 bits in groups of 128: measure what that costs on your task"
_STEPS = "prompts are computed in more and smaller steps; the first token of long ones comes later"
_TOKENS_OF_A_STEP = (
    (_VLLM, VllmSettings.max_num_batched_tokens, 512),
    (_SGLANG, SglangSettings.chunked_prefill_size, 512),
    (_TRT, TensorRtSettings.max_num_tokens, 512),
    (_CPP, LlamaCppSettings.n_ubatch, 64),
)
"""What each server calls them, and the least that is advised."""
_FEW_BITS = ("fp8", "fp8-channel", "fp8-block", "int8", "w8a16", "int4", "awq", "gptq", "nf4", "nf4-double", "mxfp4")
_GGUF_FEW = ("q8_0", "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q4_0", "q3_k_m", "q2_k")

SERVER_CHANGES: tuple[ServerChange, ...] = (
    ServerChange(title="A larger share of the GPU", kind="free", note=_WHOLE, servers=_VLLM, made=_utilized),
    *(
        ServerChange(title="A larger share of the GPU", kind="free", note=_WHOLE, servers=servers, made=_share(path))
        for servers, path in (
            (_SGLANG, SglangSettings.mem_fraction_static),
            (_TRT, TensorRtSettings.free_gpu_memory_fraction),
        )
    ),
    ServerChange(
        title="Flash attention",
        kind="free",
        note="scores are not kept, and the kernel is faster",
        servers=_CPP,
        made=_become({LlamaCppSettings.flash_attn: True}),
    ),
    ServerChange(
        title="No CUDA graphs",
        kind="latency",
        servers=_VLLM,
        note="every kernel is launched by itself, which small batches feel most",
        made=_become({VllmSettings.enforce_eager: True}),
    ),
    *(
        ServerChange(
            title="Half the tokens in a step", kind="latency", note=_STEPS, servers=servers, made=_halved(path, least)
        )
        for servers, path, least in _TOKENS_OF_A_STEP
    ),
    ServerChange(
        title="No draft model",
        kind="latency",
        note="one token for each pass of the model",
        servers=(*_VLLM, *_SGLANG, *_TRT, *_CPP),
        made=_without_draft,
    ),
    ServerChange(
        title="KV cache in fp8",
        kind="precision",
        note="keys and values are rounded to 3 bits of mantissa or fewer",
        servers=(*_VLLM, *_SGLANG, *_TRT),
        made=_become({_CACHE: "fp8"}, {_CACHE: ("fp8", "fp8_ds_mla", "int8", "int4", "nvfp4")}),
    ),
    ServerChange(
        title="KV cache in q8_0",
        kind="precision",
        note="keys and values are rounded to 8 bits in blocks of 32",
        servers=_CPP,
        made=_become(
            {
                LlamaCppSettings.cache_type_k: "q8_0",
                LlamaCppSettings.cache_type_v: "q8_0",
                LlamaCppSettings.flash_attn: True,
            },
            {LlamaCppSettings.cache_type_k: ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")},
        ),
    ),
    ServerChange(
        title="Weights in fp8",
        kind="precision",
        note=_EIGHT,
        servers=(*_VLLM, *_SGLANG, *_TRT),
        made=_become({_FORMAT: "fp8"}, {_FORMAT: _FEW_BITS}),
    ),
    ServerChange(
        title="Weights in int4 (AWQ)",
        kind="precision",
        note=_FOUR,
        servers=(*_VLLM, *_SGLANG, *_TRT),
        made=_become({_FORMAT: "awq"}, {_FORMAT: ("int4", "awq", "gptq", "nf4", "nf4-double", "mxfp4")}),
    ),
    ServerChange(
        title="Weights in NF4",
        kind="precision",
        note="weights are rounded to 4 bits in blocks of 64",
        servers=("transformers",),
        made=_become({_FORMAT: "nf4"}, {_FORMAT: ("nf4", "nf4-double", "int4", "mxfp4")}),
    ),
    ServerChange(
        title="Weights in 8 bits",
        kind="precision",
        note="weights are rounded to 8 bits",
        servers=("transformers",),
        made=_become({_FORMAT: "int8"}, {_FORMAT: _FEW_BITS}),
    ),
    ServerChange(
        title="Weights in Q8_0",
        kind="precision",
        note="weights are rounded to 8 bits in blocks of 32",
        servers=_CPP,
        made=_become({_FORMAT: "q8_0"}, {_FORMAT: _GGUF_FEW}),
    ),
    ServerChange(
        title="Weights in Q4_K_M",
        kind="precision",
        note="most matrices in 4.5 bits, some in 6.6",
        servers=_CPP,
        made=_become({_FORMAT: "q4_k_m"}, {_FORMAT: _GGUF_FEW[4:]}),
    ),
    ServerChange(
        title="Twice the GPUs, which share every matrix",
        kind="gpus",
        note="two all-reduces for each layer and token",
        servers=(*_VLLM, *_SGLANG, *_TRT),
        made=_doubled,
        ladder=False,
    ),
    ServerChange(
        title="Half as many sequences in a step",
        kind="job",
        note="more users wait for their turn",
        servers=(*_VLLM, *_SGLANG, *_TRT),
        made=_halved(Inference.max_num_seqs, 1),
        ladder=False,
    ),
    ServerChange(
        title="Sequences half as long",
        kind="job",
        note="prompt and answer together have half the tokens",
        servers=(*_VLLM, *_SGLANG, *_TRT, *_CPP),
        made=_halved(Inference.max_model_len, 512),
        ladder=False,
    ),
)
"""In order of harm, in which the ladder climbs them."""
