"""LMDeploy: a share of what is free after loading is the cache; buffers of a step have to fit into the rest.

Source: lmdeploy 0.16, src/turbomind/turbomind.cc (`CreateEngine`: `cache_ratio` of cudaMemGetInfo's free bytes, the
least of all ranks), lmdeploy/messages.py (defaults), turbomind/supported_models.py; for the engine in PyTorch
lmdeploy/pytorch/engine/executor/base.py (`_get_runtime_size`, `_update_num_gpu_blocks`) and cache_engine.py;
lmdeploy/utils.py (`get_max_batch_size`). Before 0.2.2 the share was of the whole GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from memcore.config.defaults import Defaults
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.records import dataclass
from memcore.servers.lmdeploy import supported
from memcore.servers.lmdeploy.settings import LmdeploySettings
from memcore.servers.paged import Held, blocks_of, held, pool, with_cache
from memcore.servers.vllm.paging import Pages, page
from memcore.serving.budget import Budget, of_stages
from memcore.serving.changes import PAGED, Share, fewer_tokens, larger_share
from memcore.serving.entries import observed, tensor
from memcore.serving.inference import Inference
from memcore.serving.job import Basics, Server, ServingJob, most_sequences
from memcore.serving.outside_allocator import CATEGORY, context_and_nccl
from memcore.serving.profile import Step, expert_workspace, sampling, widest
from memcore.serving.server_weights import cached_layers, rank_weights
from memcore.serving.settings import ServerSettings
from memcore.serving.stages import Stage, merged_stages
from memcore.units import GiB

_ENGINE = "lmdeploy, src/turbomind/turbomind.cc, CreateEngine"
_EXECUTOR = "lmdeploy, pytorch/engine/executor/base.py"
_SEQUENCES: Mapping[str, int] = {"a100": 384, "a800": 384, "h100": 1024, "h800": 1024, "h200": 1024}
"""Sequences of a step, by how an accelerator's id begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """LMDeploy's own settings."""

    share: float
    tokens: int
    sequences: int
    block: int
    turbomind: bool


def options(read: Defaults, basics: Basics) -> Options:
    """Read and default them.

    Raises UnsupportedError for a family that the server does not have.
    """
    supported.check(basics.model.network.family)
    own = basics.model.network.family in supported.TURBOMIND
    reason = "it has this model" if own else "TurboMind does not have this model"
    if basics.accelerator is not None and basics.accelerator.stack != "cuda":  # setup.py builds it for CUDA alone
        own, reason = False, "TurboMind has kernels for NVIDIA's GPUs"
    backend = read.take(LmdeploySettings.backend, "turbomind" if own else "pytorch", reason)
    name = basics.accelerator.id if basics.accelerator else "h100"
    usual = next((count for begins, count in _SEQUENCES.items() if name.startswith(begins)), 128)
    given = most_sequences(read)
    return Options(
        share=read.take(LmdeploySettings.cache_max_entry_count, 0.8),
        tokens=read.take(LmdeploySettings.max_prefill_token_num, 8192),
        sequences=given or read.take(Inference.max_num_seqs, usual, "from LMDeploy's table of GPUs"),
        block=read.given(Inference.block_size) or read.given(ServerSettings.block_size) or 64,
        turbomind=backend == "turbomind",
    )


def budget(job: ServingJob) -> Budget:
    """Return what each rank holds."""
    chosen = job.chosen(Options)
    groups = merged_stages(job.model, 1, job.basics.stored)
    found, later = [], []
    for stage, *_ in groups:
        step = list(_running(job, chosen, stage))
        later.append(step)
        found.append(_rank(job, chosen, stage))
    blocks = blocks_of(found)
    ranks = [with_cache(job, each, blocks, _ENGINE, step) for each, step in zip(found, later, strict=True)]
    return Budget(
        ranks=of_stages(groups, ranks),
        pool=pool(job, found, blocks),
        line_title=Message("cache_max_entry_count {:g} of what is free after loading", chosen.share),
        notes=tuple(_notes(job, found, blocks)),
    )


_BEFORE = Range(0, int(1.1 * GiB), 3 * GiB)
"""Beyond weights and context: Qwen3-8B in 0.17 leaves 62.0 GiB free of 79.2, InternVL2.5-8B in April 2025 60.7 GiB."""


def _rank(job: ServingJob, chosen: Options, stage: Stage) -> Held:
    """What is there when free memory is read: weights; the engine in PyTorch sets logits of a step apart as well."""
    entries = [*rank_weights(job, stage), *context_and_nccl(job.accelerator, job.num_gpus)]
    if chosen.turbomind:
        text = "observed 1.1 GiB in one start and 3.0 GiB in one with images"
        entries.append(observed("what the engine takes before it reads free memory", CATEGORY, _BEFORE, _ENGINE, text))
    line = job.capacity or 0
    if not chosen.turbomind:
        reserved = (chosen.tokens + 2 * chosen.sequences) * job.basics.sizes["V"] * 2  # _get_runtime_size
        line -= reserved
    pages = Pages(
        block_size=chosen.block, max_model_len=job.basics.max_model_len, in_flight=chosen.tokens, hybrid=False
    )
    return held(job, entries, page(cached_layers(job, stage), pages), line, chosen.share)


def _running(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield what a step takes of the rest."""
    sequences = min(chosen.sequences, chosen.tokens)
    sizes = {**job.basics.sizes, "T": chosen.tokens, "R": sequences, "C": chosen.tokens}
    stored = job.basics.stored
    step = Step(
        model=job.model, dtype=job.basics.dtype, sizes=sizes, sampler=8, format=stored.format if stored else None
    )
    yield from expert_workspace(step, stage)
    yield from max([widest(step, stage), sampling(step)], key=lambda each: sum(entry.bytes for entry in each))
    bounds = Range(0, GiB // 2, 2 * GiB)
    if chosen.turbomind:
        source, text = _ENGINE, "buffers of the engine, tuned kernels"
    else:
        source, text = _EXECUTOR, "CUDA graphs, and rounding by PyTorch's allocator"
    yield observed("workspaces and CUDA graphs", "workspaces", bounds, source, text, "no source states their size")
    if job.basics.layout.tensor > 1 and chosen.turbomind:
        sizes = {"T": chosen.tokens, "h": job.basics.sizes["h"]}
        yield tensor("buffers of all-reduce", "workspaces", ("T", "h"), 2, sizes, _ENGINE)


def _notes(job: ServingJob, found: list[Held], blocks: int | None) -> Iterator[str]:
    """Yield what LMDeploy refuses when it starts, and what it shortens."""
    yield ("a step's buffers must fit into what the cache leaves free; a smaller cache_max_entry_count makes room")
    if blocks is None:
        return
    paging = max((each.paging for each in found), key=lambda each: each.block)
    if paging.groups and blocks <= _LEAST:
        yield (
            'LMDeploy refuses: "No enough gpu memory for kv cache."; it starts with a smaller weight format '
            "or more GPUs"
        )
    elif paging.groups and paging.needed(job.basics.max_model_len) > blocks:
        tokens = int(blocks / max(paging.needed(job.basics.max_model_len), 1) * job.basics.max_model_len)
        yield Message("LMDeploy starts, but accepts sessions of at most {:,} tokens", tokens)


_LEAST = 2
"""Blocks with which it does not start (`_get_num_gpu_blocks`)."""
SERVER = Server(
    name="lmdeploy",
    title="LMDeploy",
    options=options,
    budget=budget,
    oldest=(7, 0),  # docs/en/get_started/installation.md; CMakeLists.txt, CMAKE_CUDA_ARCHITECTURES: from sm70 on
    parallel=frozenset({"tensor"}),
    formats=("bf16", "fp8", "awq", "gptq", "int4", "mxfp4"),
    described=(Fraction(6, 1000), Fraction(2, 100)),
    shortens=True,
    shows="nvidia-smi",
    changes=(
        larger_share(Share(LmdeploySettings.cache_max_entry_count)),
        fewer_tokens(LmdeploySettings.max_prefill_token_num),
        *PAGED,
    ),
)
