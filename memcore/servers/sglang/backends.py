"""What each kind of attention keeps in SGLang: pages of its size, a workspace, and tables that captured graphs read.

Sources: sglang, srt/layers/attention/*_backend.py (`__init__`, `init_cuda_graph_state`); srt/server_args.py, later
srt/arg_groups/model_override_base.py (get_default_attn_backend), model_overrides and overrides.py
(`_mla_backend_page_constraints`); read in 0.4.6, 0.4.9, 0.5.4, 0.5.6, 0.5.9, 0.5.12, 0.5.15, 0.5.18 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.hardware import BLACKWELL, HOPPER
from memcore.memory.ledger import Entry
from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention, Mixer
from memcore.records import dataclass
from memcore.servers.sglang.compressed import FAMILY, PAGE
from memcore.servers.sglang.requests import WORD
from memcore.serving.entries import tensor
from memcore.serving.job import Basics, ServingJob
from memcore.serving.profile import WORKSPACES
from memcore.serving.stages import Stage
from memcore.symbols import product
from memcore.units import MiB

FA3, FLASHINFER, _FLASHINFER_LATENT, _TRITON = "fa3", "flashinfer", "flashinfer-latent", "triton"
_TRTLLM, TRTLLM_LATENT, AITER, SPARSE, _COMPRESSED = "trtllm_mha", "trtllm_mla", "aiter", "dsa", "dsv4"
AUTO, _OTHER_NAMES = "auto", {"nsa": SPARSE, "compressed": _COMPRESSED, "tokenspeed_mla": "cutedsl_mla"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Bytes for each position of a captured request's context, and what is there for every step."""

    entry: int = 0
    """Of a table; 0 for none, or for small ones of pages of 64 tokens."""
    mask: int = 0
    """For each token that is checked."""
    checked: bool = False
    """Each token that is checked has numbers of its own."""
    paged: bool = False
    """There is a number for each page."""
    pages: tuple[int, ...] = ()
    """Sizes of a page that it takes, the last of which is taken instead of others; none: all."""
    workspace: int = 0
    """MiB."""


_KINDS: Mapping[str, _Kind] = {
    FA3: _Kind(entry=4, paged=True),
    "fa4": _Kind(entry=4, paged=True, pages=(128,)),
    FLASHINFER: _Kind(entry=4, mask=1, checked=True, workspace=384),
    _FLASHINFER_LATENT: _Kind(entry=4, workspace=384),
    _TRITON: _Kind(entry=8, mask=1, checked=True),
    _TRTLLM: _Kind(pages=(16, 32, 128, 64), workspace=512),
    TRTLLM_LATENT: _Kind(pages=(32, 64), workspace=150),
    "cutedsl_mla": _Kind(pages=(32, 64), workspace=150),
    "cutlass_mla": _Kind(pages=(128,)),
    "flashmla": _Kind(pages=(64,)),
    "hpc_ops": _Kind(pages=(64,)),
    AITER: _Kind(entry=4, mask=1),
    SPARSE: _Kind(entry=4, checked=True),
}
_WIDER: Mapping[str, int] = dict.fromkeys(("qwen2", "qwen3", "mimo", "qwen3_vl", "qwen3_vl_moe"), 512)
"""MiB of FlashInfer's workspace for types of models that need more (flashinfer_backend.py)."""
_LATENT_ON_BLACKWELL = frozenset({"deepseek_v3", "kimi_vl"})
"""Families with latent attention that get TensorRT-LLM's kernels on Blackwell (model_overrides/deepseek_v2.py)."""
_UNASKED = (0, 5, 9)
"""The first release read that gives other models those of TensorRT-LLM on Blackwell; 0.5.6 has FlashInfer's."""
_ONE = (0, 5)
"""The first release whose FlashAttention has a second table only where tokens are drafted."""
_OF_STEP = 4
"""FlashAttention's tables where tokens are drafted: for decoding, drafting, checking and extending."""
_NARROW = (0, 5, 15)
"""The first release read in which sparse attention on NVIDIA's GPUs does without where no tokens are drafted."""
_QUICK = 4
"""Tokens of DeepSeek-V4 that become one key of its indexer, which scores each in fp32 (dsv4/indexer.py)."""
_SPLITS = 8
"""Parts of a context in Triton's kernels (--triton-attention-num-kv-splits), whose results are in fp32."""
_PARTITION = 256
"""Positions of a part of a context in AITER's kernels, whose results are in fp32 for every request that may run."""


def attends(model: Model, basics: Basics, told: str, number: tuple[int, ...]) -> str | None:
    """Return the kind of attention, which `told` names or leaves to the GPU and the model; None if no layer has any."""
    mixers = [mixer for layer, _ in model.layers for mixer in layer.mixers]
    latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    if told != AUTO:
        return _FLASHINFER_LATENT if told == FLASHINFER and latent else _OTHER_NAMES.get(told, told)
    if basics.accelerator is None:
        return None
    if model.network.family == FAMILY:
        return _COMPRESSED
    if any(isinstance(mixer, LatentAttention) and mixer.indexer for mixer in mixers):
        return SPARSE
    if not any(isinstance(mixer, (Attention, LatentAttention)) for mixer in mixers):
        return None
    major = basics.accelerator.major
    if major == HOPPER:
        return FA3
    if major == BLACKWELL and latent:
        return TRTLLM_LATENT if model.network.family in _LATENT_ON_BLACKWELL else _FLASHINFER_LATENT
    if major == BLACKWELL:
        return _TRTLLM if number >= _UNASKED else FLASHINFER
    if basics.accelerator.stack == "rocm":
        return AITER
    return _TRITON if latent or any(map(_apart, mixers)) else FLASHINFER


def _apart(mixer: Mixer) -> bool:
    """Return whether FlashInfer cannot attend: with sinks, or heads beyond 256."""
    return isinstance(mixer, Attention) and (mixer.sinks is not None or bool(mixer.heads.wide))


def page_of(kind: str | None, given: int) -> int:
    """Return tokens of a page: those that are asked for, if the kernels can.

    >>> page_of("trtllm_mha", 1), page_of("trtllm_mla", 32), page_of("fa3", 1), page_of("dsv4", 1)
    (64, 32, 1, 256)
    """
    if kind == _COMPRESSED:
        return PAGE
    pages = _KINDS.get(kind or "", _Kind()).pages
    return given if not pages or given in pages else pages[-1]


def workspace(job: ServingJob, kind: str | None, requests: int) -> Iterator[Entry]:
    """Yield what attention allocates before graphs are captured; `requests`: how many may run at once."""
    sizes, basics = job.basics.sizes, job.basics
    title, source = "workspace of attention", "sglang, srt/layers/attention/*_backend.py"
    mixers = list(_mixers(job.model))
    # Where windows slide another kernel attends, without parts (`use_triton_unified_attention`).
    if kind == AITER and "lk" not in sizes and all(mixer.mask != "sliding" for mixer in mixers):
        heads = max((_heads(job, mixer) * (product((mixer.heads.value,), sizes) + 2) for mixer in mixers), default=0)
        shape = {"requests": requests, "parts": -(-basics.max_model_len // _PARTITION), "heads": heads}
        yield tensor(title, WORKSPACES, ("requests", "parts", "heads"), WORD, shape, source)
        return
    found = _KINDS.get(kind or "", _Kind()).workspace
    if kind == FLASHINFER:
        found = _WIDER.get(str(basics.raw.get("model_type")), found)
    if found:
        yield tensor(title, WORKSPACES, (found * MiB,), 1, {}, source)


def _mixers(model: Model) -> Iterator[Attention]:
    return (mixer for layer, _ in model.layers for mixer in layer.mixers if isinstance(mixer, Attention))


def _heads(job: ServingJob, mixer: Attention | LatentAttention) -> int:
    """Return query heads of a rank."""
    return -(-product((mixer.heads.query,), job.basics.sizes) // job.basics.layout.tensor)


def tables(job: ServingJob, stage: Stage, kind: str | None, requests: int, page: int, number: tuple[int, ...]) -> int:
    """Return bytes of the tables that captured graphs of attention read; `requests`: those of the largest graph."""
    basics = job.basics
    mixers = [each for layer in stage.kinds for each in layer.mixers if isinstance(each, (Attention, LatentAttention))]
    drafted = basics.speculation.tokens if basics.speculation is not None else 0
    checked = requests * (drafted + 1)
    scores = checked * basics.max_model_len * WORD
    if kind == _COMPRESSED:
        return scores // _QUICK
    if kind == SPARSE and number >= _NARROW and not drafted and basics.accelerator and basics.accelerator.major:
        return scores
    table, steps = _KINDS.get(kind or "", _Kind()), _steps(basics)
    if not mixers or not table.entry:
        return 0
    length = -(-basics.max_model_len // (page if table.paged else 1))
    rows = (checked if table.checked else requests) * _copies(kind, mixers, drafted, number)
    rows += steps * requests * (_OF_STEP if table.paged else 1)
    found = rows * length * table.entry + checked * length * table.mask
    found += scores if kind == SPARSE else 0
    return found + (_parts(job, mixers, checked) if kind == _TRITON else 0)


def _steps(basics: Basics) -> int:
    """Return how often a draft is run for what is proposed at once, each time with tables of its own."""
    found = basics.speculation
    if found is None or found.method == "ngram":
        return 0
    return 1 if found.method == "dflash" else found.tokens


def _copies(kind: str | None, mixers: list[Attention | LatentAttention], drafted: int, number: tuple[int, ...]) -> int:
    """Return tables of the target: of FlashAttention four where tokens are drafted, of FlashInfer two with windows."""
    masks = {mixer.mask for mixer in mixers}
    if kind in (FA3, "fa4"):
        return (_OF_STEP if drafted else 1 + (number < _ONE)) + ("sliding" in masks) + ("chunked" in masks)
    return 1 + ("sliding" in masks if kind == FLASHINFER else 0)


def _parts(job: ServingJob, mixers: list[Attention | LatentAttention], tokens: int) -> int:
    """Return bytes of the results of a context's parts and their logarithms, of the widest layer."""
    sizes, found = job.basics.sizes, 0
    for mixer in mixers:
        width = sizes["lk"] if isinstance(mixer, LatentAttention) else product((mixer.heads.value,), sizes)
        found = max(found, _heads(job, mixer) * (width + 1))
    return found * tokens * _SPLITS * WORD
