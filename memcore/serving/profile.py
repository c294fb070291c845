"""The most that a step of a server needs: the widest moment of a forward pass, or the sampler's logits.

vLLM measures it before it sizes the cache, with as many tokens and sequences as one step may have. Between attention
kernels the model is compiled: what a piece reads lives as long as the piece, and inductor writes each result once.
Sources: vllm, v1/worker/gpu_model_runner.py (profile_run, _dummy_run, _dummy_sampler_run), v1/sample/sampler.py,
model_executor/layers/fused_moe; pytorch, torch/_inductor/codegen/wrapper.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

from memcore.memory.ledger import Entry
from memcore.messages import Message
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention, SpecialMixer
from memcore.records import dataclass
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES, Format
from memcore.serving.slots import EXPERT_TENSOR, TENSOR, sharded
from memcore.serving.stages import Stage
from memcore.symbols import Quotient, Shape, Total, product

ACTIVATIONS, WORKSPACES = "activations", "workspaces"
FLUSHED = "buffer for flushing the L2 cache"
_RUNNER = "vllm, v1/worker/gpu_model_runner.py"
_SAMPLER = "vllm, v1/sample/sampler.py and ops/topk_topp_sampler.py"
_PIECE = "vllm, compilation/backends.py; inductor's wrapper"
_FLASHINFER = "flashinfer, cutlass_fused_moe_kernels.cuh"
_CUTLASS = "vllm, model_executor/layers/fused_moe/experts/cutlass_moe.py, run_cutlass_moe_fp4"
_MOE = "vllm, model_executor/layers/fused_moe/fused_moe.py, workspace_shapes"

_SCALED_ROWS, _SCALED_TOGETHER = 163_840, 64
"""Rows of an expert that VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE allows, and elements whose four scales are one integer."""

TOKENS, ROWS, WIDEST_CONTEXT, CHUNK, HEADS = "T", "R", "C", "Tc", "ak"
"""Symbols: tokens of a step, sequences of a step, tokens of the latent workspace, tokens that experts take at once,
heads for which a kernel is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step computes, and in which form."""

    model: Model
    dtype: str
    sizes: Mapping[str, int]
    """The model's, the layout's, and `T`, `R`, `C`."""
    sampler: int
    """Bytes for each logit beyond the logits and their fp32 copy."""
    copies_logits: bool = True
    """There is such a copy."""
    format: Format | None = None
    allocates_in_experts: bool = False
    """Kernels of experts allocate their buffers while they run; else the server keeps them as a workspace."""
    sorts_in_experts: bool = False
    """They are vLLM's of CUTLASS: rows are sorted by expert, and results put back, in tensors of their own."""
    chunk: int = 0
    """Tokens for which each layer of experts allocates buffers at once, before these were kept; 0: they are."""
    gathered: int = 1
    """Ranks whose tokens experts see: a rank's own, or those of all data-parallel ranks."""
    benchmark: int = 0
    """Bytes of the buffer that clears the cache while kernels are chosen."""
    scores: int = 0
    """Bytes that stand for the scores of an indexer."""


def sampling(step: Step) -> list[Entry]:
    """Return when every sequence of a step is sampled."""
    size, sizes = BYTES[step.dtype], step.sizes
    logits: Shape = (ROWS, "V")
    found = [
        tensor("hidden states of all tokens", ACTIVATIONS, (TOKENS, "h"), size, sizes, _RUNNER),
        tensor("hidden states of last tokens", ACTIVATIONS, (ROWS, "h"), size, sizes, _RUNNER, copies=2),
        tensor("logits", ACTIVATIONS, logits, size, sizes, _SAMPLER),
    ]
    if step.dtype != "fp32" and step.copies_logits:
        found.append(tensor("logits in fp32", ACTIVATIONS, logits, 4, sizes, _SAMPLER))
    what = "probabilities and random numbers" if step.sampler == 8 else "sorted logits, indices and sorting buffers"
    found.append(tensor(what, ACTIVATIONS, logits, step.sampler, sizes, _SAMPLER))
    return found


def passing(step: Step) -> list[Entry]:
    """After the forward pass of a stage that does not sample: what goes on to the next one."""
    size = BYTES[step.dtype]
    return [tensor("hidden states and residual", ACTIVATIONS, (TOKENS, "h"), size, step.sizes, _RUNNER, copies=2)]


def pooling(step: Step) -> list[Entry]:
    """When prompts are pooled: each request's last token, and its vector in fp32 before and after normalization.

    Sources: vllm, v1/worker/gpu_model_runner.py, `_dummy_pooler_run`; config/model.py, `head_dtype`.
    """
    return [
        tensor("hidden states of all tokens", ACTIVATIONS, (TOKENS, "h"), BYTES[step.dtype], step.sizes, _RUNNER),
        tensor("hidden states of last tokens", ACTIVATIONS, (ROWS, "h"), BYTES[step.dtype], step.sizes, _RUNNER),
        tensor("embeddings in fp32", ACTIVATIONS, (ROWS, "h"), 4, step.sizes, _RUNNER, copies=2),
    ]


def widest(step: Step, stage: Stage) -> list[Entry]:
    """Return the widest moment of the forward pass of a stage."""
    moments = [moment for layer in stage.kinds for moment in _moments(step, layer)]
    return max(moments, key=lambda entries: sum(entry.bytes for entry in entries), default=[])


def _moments(step: Step, layer: Layer) -> Iterator[list[Entry]]:
    stream = [
        tensor("residual stream, before and after attention", ACTIVATIONS, (TOKENS, "h"), BYTES[step.dtype], step.sizes,
               _PIECE, copies=2),
    ]  # fmt: skip
    for mixer in layer.mixers:
        if isinstance(mixer, Attention) and not mixer.borrowed:
            yield [*stream, *_attention(step, mixer)]
        if isinstance(mixer, LatentAttention):
            yield [*stream, *_latent(step, mixer)]
        if compresses(mixer) and HEADS in step.sizes:
            yield _compressed(step, mixer)
    read = [entry for mixer in layer.mixers[:1] for entry in _read(step, mixer)]
    for ffn in layer.ffns:
        dense = ffn.shared if isinstance(ffn, Experts) else ffn
        if isinstance(ffn, Experts):
            yield from ([*stream, *read, *_routed(step, ffn), *inside] for inside in _inside(step, ffn))
        if dense is not None:
            yield [*stream, *read, *_dense(step, dense)]


def _read(step: Step, mixer: object) -> list[Entry]:
    """Attention's result, which the piece after it reads."""
    if not isinstance(mixer, (Attention, LatentAttention)):
        return []
    shape = (TOKENS, *sharded((mixer.heads.query, mixer.heads.value), TENSOR))
    return [tensor("attention output", ACTIVATIONS, shape, BYTES[step.dtype], step.sizes, _PIECE)]


def _attention(step: Step, mixer: Attention) -> list[Entry]:
    size, sizes, heads = BYTES[step.dtype], step.sizes, mixer.heads
    query: Shape = (TOKENS, *sharded((heads.query, heads.width), TENSOR))
    key: Shape = (TOKENS, *sharded((heads.key, heads.width), TENSOR))
    together: Shape = (Total("queries, keys and values", (query, key, key)),)
    return [
        tensor("queries, keys and values", ACTIVATIONS, together, size, sizes, _PIECE),
        tensor("rotated queries", ACTIVATIONS, query, size, sizes, _PIECE),
        tensor("rotated keys", ACTIVATIONS, key, size, sizes, _PIECE),
        tensor("attention output", ACTIVATIONS, query, size, sizes, _PIECE),
    ]


def _latent(step: Step, mixer: LatentAttention) -> list[Entry]:
    """Prefill expands the latent vectors; a workspace stands for the longest context that is expanded at once.

    Sparse attention expands none, and has scores where a layer's own indexer chooses tokens.
    """
    size, sizes = BYTES[step.dtype], step.sizes
    heads: Shape = (Quotient((mixer.heads.query,), TENSOR),)
    source = "vllm, model_executor/layers/attention/mla_attention.py"
    found = [
        tensor("queries", ACTIVATIONS, (TOKENS, *heads, mixer.heads.width), size, sizes, source, copies=2),
        tensor("attention output", ACTIVATIONS, (TOKENS, *heads, mixer.heads.value), size, sizes, source),
    ]
    if not mixer.indexer and not mixer.reuses:
        found.append(tensor("expanded context", ACTIVATIONS, (WIDEST_CONTEXT, *heads, "u"), size, sizes, source))
    elif mixer.indexer:
        found += _scores(step)
    return found


def _scores(step: Step) -> list[Entry]:
    if not step.scores:
        return []
    text, source = "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB", "vllm, model_executor/layers/sparse_attn_indexer.py"
    return [Entry(title="scores of the indexer", category=ACTIVATIONS, each=step.scores, text=text, source=source)]


def compresses(mixer: object) -> TypeGuard[SpecialMixer]:
    """Return whether a layer is DeepSeek-V4's, with a window and compressed keys."""
    return isinstance(mixer, SpecialMixer) and mixer.variant == "deepseek_v4"


def _compressed(step: Step, mixer: SpecialMixer) -> list[Entry]:
    """Kernels take as many heads as they are written for; four streams stand for the one residual of others."""
    size, sizes, source = BYTES[step.dtype], step.sizes, "vllm, models/deepseek_v4/attention.py"
    return [
        tensor("residual streams", ACTIVATIONS, (TOKENS, "hc", "h"), size, sizes, source),
        tensor("attention input", ACTIVATIONS, (TOKENS, "h"), size, sizes, source),
        tensor("queries and attention output of the kernel's heads", ACTIVATIONS, (TOKENS, HEADS, "d"), size, sizes,
               source, copies=2),
        *(_scores(step) if "sparse" in mixer.options else ()),
    ]  # fmt: skip


def gates(step: Step, stage: Stage) -> int:
    """Return the bytes of the largest gate and up of a stage's dense layers."""
    ffns = [ffn.shared if isinstance(ffn, Experts) else ffn for layer in stage.kinds for ffn in layer.ffns]
    return max((_gate_and_up(step, ffn).bytes for ffn in ffns if ffn is not None), default=0)


def _gate_and_up(step: Step, ffn: FeedForward) -> Entry:
    parts = [part for part in (ffn.gate, ffn.up) if part is not None]
    outer = tuple((TOKENS, *sharded(part.outer, TENSOR)) for part in parts)
    shape: Shape = outer[0] if len(outer) == 1 else (Total("gate and up", outer),)
    return tensor("gate and up", ACTIVATIONS, shape, BYTES[step.dtype], step.sizes, _PIECE)


def _dense(step: Step, ffn: FeedForward) -> list[Entry]:
    size, sizes = BYTES[step.dtype], step.sizes
    down = (TOKENS, *sharded(ffn.down.inner, TENSOR))
    found = [
        _gate_and_up(step, ffn),
        tensor("activated gate times up", ACTIVATIONS, down, size, sizes, _PIECE),
    ]
    quantized = step.format.activations if step.format and ffn.kind in step.format.covers else None
    if quantized is not None:
        source = "vllm, _custom_ops.py: outputs of quantizing kernels are allocated ahead"
        found.append(tensor("quantized activated gate times up", ACTIVATIONS, down, quantized, sizes, source))
        found.append(tensor("quantized layer input", ACTIVATIONS, (TOKENS, *ffn.up.inner), quantized, sizes, source))
    elif step.benchmark:
        found.append(
            Entry(
                title=FLUSHED,
                category=ACTIVATIONS,
                each=step.benchmark,
                text="size of the cache",
                because="inductor autotunes its kernels in the profiling run",
                source="pytorch, torch/_inductor/runtime/benchmarking.py",
            )
        )
    return found


def _routed(step: Step, ffn: Experts) -> list[Entry]:
    size, sizes = BYTES[step.dtype], step.sizes
    return [
        tensor("router logits", ACTIVATIONS, (TOKENS, "E"), 4, sizes, _MOE, copies=2 * step.gathered),
        tensor("the experts' sum", ACTIVATIONS, (TOKENS, "h"), size, sizes, _MOE, copies=2 * step.gathered),
    ]


def _inside(step: Step, ffn: Experts) -> Iterator[list[Entry]]:
    """Yield what kernels of experts allocate while they run; FlashInfer's have what is narrower in the same buffers.

    vLLM's of CUTLASS have scales of NVFP4 for as many rows as VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE says and each of a
    token's experts, whatever the step: 0.22 GiB of graphs of Gemma 4's mixture (_custom_ops.py,
    scaled_fp4_experts_quant; read in 0.19 to 0.26). They are gone when results are put back.
    """
    size, sizes = BYTES[step.dtype], step.sizes
    if step.sorts_in_experts:
        rows: Shape = (TOKENS, ffn.routed, ffn.reads)
        title = "experts' rows, sorted, and their results, put back and weighted"
        yield [tensor(title, ACTIVATIONS, rows, size, sizes, _CUTLASS, copies=3)]
        scales: Shape = (_SCALED_ROWS, ffn.routed, Quotient((ffn.reads,), _SCALED_TOGETHER))
        yield [
            tensor("experts' rows, sorted", ACTIVATIONS, rows, size, sizes, _CUTLASS),
            tensor("experts' rows in NVFP4", ACTIVATIONS, rows, Fraction(1, 2), sizes, _CUTLASS),
            tensor("scales of experts' rows", ACTIVATIONS, scales, 4, sizes, _CUTLASS),
        ]
    elif step.chunk:
        yield list(_former_buffers(step, ffn))
    elif step.allocates_in_experts:
        yield [replace(entry, category=ACTIVATIONS, source=_FLASHINFER) for entry in _buffers(step, ffn)]
    else:
        yield []


def expert_workspace(step: Step, stage: Stage) -> list[Entry]:
    """Two buffers for all tokens and their experts: for the input or the activated product, and for gate and up."""
    ffns = dict.fromkeys(ffn for layer in stage.kinds for ffn in layer.ffns if isinstance(ffn, Experts))
    return largest([entry for ffn in ffns for entry in _buffers(step, ffn)], 2)


def _buffers(step: Step, ffn: Experts) -> Iterator[Entry]:
    tokens: Shape = (TOKENS, ffn.routed)
    own: Shape = sharded(("m",), EXPERT_TENSOR)
    wide: Shape = (2 if ffn.gated else 1, *own)
    read: Shape = (ffn.reads,)
    widths: tuple[tuple[str, tuple[Shape, ...]], ...] = (
        ("input or product", (own, read)),
        ("gate and up", (wide, read)),
    )
    if step.sorts_in_experts:
        # `N` of workspace_shapes is the width of gate and up together.
        widths = (("input or product", (wide,)), ("gate and up", ((2, *wide), read)))
    for title, each in widths:
        shape = (*tokens, *max(each, key=lambda width: product(width, step.sizes)))
        text = Message("experts' workspace: {}", title)
        yield tensor(text, WORKSPACES, shape, BYTES[step.dtype], step.sizes, _MOE, copies=step.gathered)


def _former_buffers(step: Step, ffn: Experts) -> Iterator[Entry]:
    """Gate and up or results, whichever are wider, and the product (fused_experts_impl, fused_marlin_moe of 0.12).

    Where 8 bits are multiplied, what is quantized of the input and of the product stays next to them.
    """
    tokens: Shape = (CHUNK, ffn.routed)
    own: Shape = sharded(("m",), EXPERT_TENSOR)
    quantized = step.format.activations if step.format and "routed-expert" in step.format.covers else None
    if quantized is not None:
        for title, rows in (("quantized input", (CHUNK, ffn.reads)), ("quantized product", (*tokens, *own))):
            yield tensor(Message("experts' workspace: {}", title), ACTIVATIONS, rows, quantized, step.sizes, _MOE)
    wide = max(((2 if ffn.gated else 1, *own), (ffn.reads,)), key=lambda width: product(width, step.sizes))
    for title, width in (("gate and up", wide), ("input or product", own)):
        text = Message("experts' workspace: {}", title)
        yield tensor(text, ACTIVATIONS, (*tokens, *width), BYTES[step.dtype], step.sizes, _MOE)


def largest(entries: Sequence[Entry], count: int) -> list[Entry]:
    """Return the largest of some entries: kinds of layers share one workspace."""
    return sorted(entries, key=lambda entry: -entry.bytes)[:count]
