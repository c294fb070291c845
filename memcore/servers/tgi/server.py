"""Text Generation Inference: a warmup prefill, then all that a fraction of the GPU leaves for the cache.

Source: text-generation-inference 3.3 (db931fc), server/text_generation_server/models/flash_causal_lm.py (`warmup`),
models/globals.py (TGI_WIGGLE_ROOM 0.9, block sizes), utils/import_utils.py (`get_cuda_free_memory`);
launcher/src/main.rs (`resolve_attention`, `compute_optimal`, `max_batch_prefill_tokens`, graphs);
backends/v3/src/lib.rs (`NotEnoughMemory`); the same files of every release from 1.4.1. Before 3.0 the cache got a part
of what the warmup left, not what it left of a part; the warmup asked for the likelihoods of all its tokens, 4096 of a
prompt and 50 more (router/client/src/client.rs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings, release
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.records import dataclass
from memcore.servers.paged import Held, blocks_of, held, pool, with_cache
from memcore.servers.tgi import supported
from memcore.servers.tgi.settings import TgiSettings
from memcore.servers.vllm.paging import Pages, page
from memcore.serving.budget import Budget, of_stages
from memcore.serving.changes import PAGED, Share, fewer_tokens, larger_share
from memcore.serving.entries import observed, tensor
from memcore.serving.formats import BYTES
from memcore.serving.inference import Inference
from memcore.serving.job import Basics, Server, ServingJob
from memcore.serving.outside_allocator import context_and_nccl
from memcore.serving.profile import Step, expert_workspace, sampling, widest
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.stages import Stage, merged_stages
from memcore.units import GiB, MiB

_WARMUP = "text-generation-inference, models/flash_causal_lm.py, warmup"
_LAUNCHER = "text-generation-inference, launcher/src/main.rs"
_ROOMS: tuple[tuple[tuple[int, ...], float], ...] = (
    ((3, 3), 0.9), ((3, 1), 0.93), ((3,), 0.95), ((2, 4), 0.9), ((1, 4, 1), 0.95), ((0,), 1.0),
)  # fmt: skip
"""Of the fraction from a release on, before 3.0 of what is left of it (globals.py, `TGI_WIGGLE_ROOM`)."""
_LINES, _FLASHINFERS = (3,), (2, 3)
"""The first releases that size the cache by a line, and that attend with FlashInfer."""
_LONGEST, _EDGE = 4096, 50
"""Before 3.0: tokens of a prompt and its answer by default, and those that the warmup prefills besides a prompt."""
_SPEEDS: Mapping[str, int] = {
    "rtx-4090": 82, "t4": 65, "l4": 121, "l40": 181, "l40s": 363, "a10g": 125, "a40": 149, "a100-sxm-80gb": 312,
    "a100-sxm-40gb": 312, "a100-pcie-80gb": 312, "h100-sxm-80gb": 900, "h100-nvl-94gb": 900, "h200-sxm-141gb": 989,
}  # fmt: skip
"""TFLOPs of the cards that the launcher knows, by our ids (`ComputeType.f16_flop`)."""
_USUAL: Mapping[str, int] = {"qwen2_vl": 10_000, "qwen2_5_vl": 10_000, "gemma3": 8000}
"""Tokens of the warmup where the card is none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """TGI's own settings."""

    fraction: float
    prefill: int
    graphs: int
    block: int
    asked: int | None
    """The longest sequence, if it is given."""
    room: float
    lined: bool
    """The cache gets what is left of a line, not a part of what is left."""


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that the server does not have.
    """
    supported.check(basics.model.network.family)
    asked = read.given(Inference.max_model_len)
    prefill = read.given(TgiSettings.max_batch_prefill_tokens)
    version = _version(read.given(EngineSettings.version))
    if prefill is None:
        reason = "the launcher's rule, from the GPU's and the model's FLOPs"
        usual = _prefill(basics) if version >= _LINES else min(_LONGEST, basics.sizes["P"]) - 1 + _EDGE
        prefill = read.take(TgiSettings.max_batch_prefill_tokens, usual, reason)
    eight_bits = basics.stored is not None and basics.stored.format.name == "int8"
    return Options(
        fraction=read.take(TgiSettings.cuda_memory_fraction, 1.0),
        prefill=prefill,
        graphs=read.take(TgiSettings.cuda_graph_max_batch, 0 if eight_bits else 32),
        block=_block(basics) if version >= _FLASHINFERS else _PAGED,
        asked=asked,
        room=next(room for first, room in _ROOMS if version >= first),
        lined=version >= _LINES,
    )


def _version(value: object) -> tuple[int, ...]:
    """Return the release; the newest where none is given.

    >>> _version("2.0.4"), _version(None) > (3, 3)
    ((2, 0, 4), True)
    """
    return release(value) if isinstance(value, str) else _NEWEST


def _prefill(basics: Basics) -> int:
    """Return tokens of the warmup: as many as keep the card busy for a second, no more than the model's positions."""
    name = basics.accelerator.id if basics.accelerator else ""
    sizes, family = basics.sizes, basics.model.network.family
    default = _USUAL.get(family, 4096)
    if name in _SPEEDS and {"h", "a", "d"} <= sizes.keys():
        width = sizes["a"] * sizes["d"]
        attention = 2 * sizes["h"] * (3 * width + 2 * sizes.get("k", sizes["a"]) * sizes["d"])
        each = attention + 2 * 3 * sizes["h"] * sizes.get("f", 4 * sizes["h"])
        optimal = _SPEEDS[name] * 10**12 * basics.layout.tensor // (each * basics.model.num_layers)
        default = optimal if optimal > 100 else default
    return int(min(default, sizes["P"]))


_FLASHINFER = (64, 128, 256)
"""Widths of heads that it has kernels for."""
_PAGED, _FLASH = 16, 256
_NEWEST = (3, 3, 7)


def _block(basics: Basics) -> int:
    """Return tokens of a block: those of FlashInfer, flash decoding, or paged attention on GPUs before Ampere."""
    major = (basics.accelerator.major if basics.accelerator else None) or 9
    if basics.sizes.get("d") in _FLASHINFER and basics.model.network.family not in ("falcon", "deepseek_v2"):
        return 1
    return _FLASH if major >= 8 else _PAGED


def budget(job: ServingJob) -> Budget:
    """Return what each rank holds."""
    chosen = job.chosen(Options)
    groups = merged_stages(job.model, 1, job.basics.stored)
    found = [_rank(job, chosen, stage) for stage, *_ in groups]
    blocks = blocks_of(found)
    later = list(_graphs(chosen))
    line = None if job.capacity is None else int(_line(job, chosen))
    return Budget(
        ranks=of_stages(groups, [with_cache(job, each, blocks, _WARMUP, later) for each in found]),
        pool=pool(job, found, blocks, starts_with=chosen.asked or 1),
        line=line,
        line_title=Message("{:g} times cuda_memory_fraction {:g}", chosen.room if chosen.lined else 1, chosen.fraction),
        notes=tuple(_notes(job, chosen, found, blocks)),
    )


def _line(job: ServingJob, chosen: Options) -> float:
    """Up to where the server plans."""
    return (chosen.room if chosen.lined else 1) * chosen.fraction * (job.capacity or 0)


def _rank(job: ServingJob, chosen: Options, stage: Stage) -> Held:
    sizes = {**job.basics.sizes, "T": chosen.prefill, "R": _prompts(job, chosen), "C": chosen.prefill}
    stored = job.basics.stored
    step = Step(
        model=job.model, dtype=job.basics.dtype, sizes=sizes, sampler=8, format=stored.format if stored else None
    )
    last = sampling(step) if chosen.lined else likelihoods(step)
    peak = max([widest(step, stage), last], key=lambda each: sum(entry.bytes for entry in each))
    entries = [
        *rank_weights(job, stage),
        *expert_workspace(step, stage),
        *peak,
        *_workspaces(chosen),
        *context_and_nccl(job.accelerator, job.num_gpus),
    ]
    pages = Pages(
        block_size=chosen.block, max_model_len=job.basics.max_model_len, in_flight=chosen.prefill, hybrid=False
    )
    paging, line = page(cached_layers(job, stage), pages), _line(job, chosen)
    if chosen.lined:
        return held(job, entries, paging, line)
    warm = _prompts(job, chosen) * ceil(_longest(job, chosen) / chosen.block) * paging.block
    return held(job, entries, paging, line + warm * (1 / chosen.room - 1), chosen.room)  # those of the warmup are free


def _prompts(job: ServingJob, chosen: Options) -> int:
    """Prompts of the warmup, each as long as one may be."""
    return ceil(chosen.prefill / max(_longest(job, chosen) - 1, 1))


def _longest(job: ServingJob, chosen: Options) -> int:
    longest = chosen.asked or job.basics.max_model_len
    return longest if chosen.lined or chosen.asked else min(longest, _LONGEST)


def likelihoods(step: Step) -> list[Entry]:
    """Return the logits of all tokens of a prefill, and their logarithms."""
    size, sizes = BYTES[step.dtype], step.sizes
    return [
        tensor("hidden states of all tokens", "activations", ("C", "h"), size, sizes, _WARMUP),
        tensor("logits and their log_softmax", "activations", ("C", "V"), size, sizes, _WARMUP, copies=2),
    ]


def _workspaces(chosen: Options) -> Iterator[Entry]:
    if chosen.block == 1:
        source = "text-generation-inference, layers/attention/flashinfer.py, get_workspace"
        yield tensor("FlashInfer's workspace", "workspaces", ("bytes",), 1, {"bytes": 128 * MiB}, source)
    bounds = Range(0, GiB // 4, int(1.5 * GiB)) if chosen.lined else Range(GiB // 4, int(1.5 * GiB), int(2.5 * GiB))
    yield observed(
        "what the warmup leaves", "workspaces", bounds, _WARMUP, "cached by PyTorch's allocator",
        "everything the allocator holds counts as used; no source says how much it rounds up",
    )  # fmt: skip


def _graphs(chosen: Options) -> Iterator[Entry]:
    """Captured behind the cache, in the tenth that is left free."""
    count = len([size for size in (1, 2, 4, 8, 16, 32) if size <= chosen.graphs])
    if count:
        bounds = Range(count * 8 * MiB, count * 50 * MiB, count * 200 * MiB)
        text = Message("{} CUDA graphs, in the part of the GPU that TGI leaves free", count)
        yield observed("captured graphs", "CUDA graphs", bounds, _LAUNCHER, text, "no source states their size")


def _notes(job: ServingJob, chosen: Options, found: list[Held], blocks: int | None) -> Iterator[str]:
    """Yield what TGI refuses when it starts, and what it shortens."""
    what = "TGI leaves {:g} % of the GPU free (TGI_WIGGLE_ROOM={:g}) and captures graphs in it"
    if not chosen.lined:
        what = "TGI leaves {:g} % of what the warmup leaves free (TGI_WIGGLE_ROOM={:g}) and captures graphs in it"
    if chosen.room < 1:
        yield Message(what, 100 * (1 - chosen.room), chosen.room)
    rank = found[0]
    if blocks is None or rank.available is None:
        return
    tokens = blocks * chosen.block
    if rank.available <= 0:
        yield Message(
            'TGI refuses: "Not enough memory to handle {} prefill tokens. You need to decrease '
            '`--max-batch-prefill-tokens`"; it starts with fewer prefill tokens, a smaller weight format or more '
            "GPUs",
            chosen.prefill,
        )
    elif chosen.asked is not None and tokens < chosen.asked:
        yield Message(
            'TGI refuses: "Not enough memory to handle `max_total_tokens={}`. You should decrease it"; it '
            "starts with at most {:,} tokens",
            chosen.asked, tokens,
        )  # fmt: skip
    elif tokens < job.basics.max_model_len:
        yield Message("TGI starts, but accepts requests of at most {:,} tokens", tokens)


SERVER = Server(
    name="tgi",
    title="TGI",
    options=options,
    budget=budget,
    oldest=(7, 5),  # server/text_generation_server/layers/attention/cuda.py: kernels for sm75, and from sm80 on
    amd=("gfx90a", "gfx942"),  # Dockerfile_amd of 3.3.7, PYTORCH_ROCM_ARCH
    parallel=frozenset({"tensor"}),
    formats=("bf16", "fp8", "int8", "nf4", "awq", "gptq"),
    described=(Fraction(6, 1000), Fraction(2, 100)),
    shortens=True,
    shows="torch.cuda.memory_reserved",
    changes=(
        larger_share(Share(TgiSettings.cuda_memory_fraction)),
        fewer_tokens(TgiSettings.max_batch_prefill_tokens),
        *PAGED,
    ),
)
