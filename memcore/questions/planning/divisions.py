"""How a job may be divided among GPUs, the simplest ways first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from math import inf, prod
from typing import NamedTuple

from memcore.config.devices import node_of
from memcore.config.hardware import Hardware
from memcore.config.knobs import Settings, Way
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.questions.searching.spaces import sequences_of
from memcore.records import dataclass
from memcore.trace.job import Job

LONG = 16384
"""Tokens from which on ranks divide a sequence: published recipes turn context parallelism on for longer ones only
(Llama 3, arXiv 2407.21783, table 4: none at 8,192 tokens, 16 ranks at 131,072)."""


_SLICE = 2048
"""Tokens that each rank of a sequence has at least; published recipes leave it 8,192 (the same table)."""


class Division(NamedTuple):
    """Sizes of groups of ranks; data parallelism has the rest."""

    tensor: int = 1
    stages: int = 1
    context: int = 1
    sequence: int = 1
    experts: int = 1
    shards: int = 0
    """Ranks over which parameters are sharded; 0: all that there are."""

    @property
    def width(self) -> int:
        """GPUs that work on the same sequence."""
        return self.tensor * self.stages * self.context * self.sequence

    @property
    def factor(self) -> int:
        """Return ranks that hold different parts of a model or of a sequence."""
        return self.width * self.experts

    def gain(self, other: Division) -> float:
        """Return the most by which another division can need less: in proportion to every group that is larger there.

        Fewer stages may need less by any factor: a stage keeps what several micro-batches need at once, and parameters
        that were gathered (pytorch 2.9, distributed/pipelining/schedules.py, with FSDP).
        """
        if (self.shards and not other.shards) or other.stages < self.stages:
            return inf
        return prod([max(1.0, theirs / ours) for ours, theirs in zip(self[:5], other[:5], strict=True)])

    @property
    def dimensions(self) -> int:
        """Return how many kinds of parallelism it combines."""
        return sum(size > 1 for size in self)

    @property
    def title(self) -> str:
        """Return the division as engineers write it: TP8 PP9."""
        names = ("TP", "PP", "CP", "SP", "EP", "HSDP")
        return " ".join(f"{name}{size}" for name, size in zip(names, self, strict=True) if size > 1)


_PATHS = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
    Parallelism.ulysses_parallel_size, Parallelism.expert_parallel_size, Parallelism.data_parallel_shard_size,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """The job that is asked for, whatever divides it."""

    config: Config
    gpus: int
    node: int
    sequences: int
    """Of a step of the whole job."""
    micro_batch: int
    length: int
    layers: int
    heads: int
    experts: int

    def on(self, gpus: int) -> Asked:
        """Put the job on another number of GPUs."""
        return replace(self, gpus=gpus)

    def settings(self, division: Division, micro_batch: int, way: Way) -> Settings:
        """Return the settings of a division, of which each step has the same sequences."""
        ranks = max(self.gpus // division.width, 1)
        found: dict[str, object] = {
            path: size if size > 1 else None for path, size in zip(_PATHS, division, strict=True)
        }
        if way.uneven is not None and division.stages > 1:
            found.update(way.uneven(self.layers, division.stages))
        return {
            **found,
            Parallelism.data_parallel_size: None,
            Hardware.num_gpus: self.gpus,
            Training.micro_batch_size: micro_batch,
            Training.gradient_accumulation_steps: -(-self.sequences // (ranks * micro_batch)),
        }


def asked_of(config: Config, job: Job) -> Asked:
    """Return what a job asks for."""
    sizes = job.model.sizes
    return Asked(
        config=config,
        gpus=job.num_gpus,
        node=node_of(config),
        sequences=sequences_of(job),
        micro_batch=job.micro_batch,
        length=job.sizes["s"] * job.sizes["cp"],
        layers=job.model.num_layers,
        heads=sizes.get("a", sizes["h"]),
        experts=sizes.get("E", 1),
    )


def own_division(config: Config) -> Division:
    """Return the division that a config names."""
    given = [config.get(path) for path in _PATHS]
    return Division(*(size or least for size, least in zip(given, Division(), strict=True)))


def divisions(asked: Asked, way: Way) -> list[Division]:
    """Divisions that a way has: its own first, then by how far they reach, the simplest first."""
    if asked.gpus == 1:
        return [Division()]
    own, found = own_division(asked.config), [Division(), *_replicated(asked, way), *_divided(asked, way)]
    length_first = asked.length >= LONG

    def simplicity(each: Division) -> tuple[object, ...]:
        kinds = (each.context, each.tensor) if length_first else (each.tensor, each.context)
        far = each.experts > asked.node
        rest = each.factor, each.dimensions, each.stages, tuple(-size for size in kinds)
        return length_first and _is_long(asked, each), _reach(each, asked.node), far, *rest

    mine = [own] if own.dimensions and asked.gpus % own.width == 0 else []
    rest = sorted({each for each in found if each not in mine}, key=simplicity)
    return [*mine, *_few(rest, asked.node)]


def _is_long(asked: Asked, each: Division) -> bool:
    """Return whether a rank has more of a sequence than published recipes leave it, and others could take a part."""
    wanted = min(-(-asked.length // LONG), asked.gpus)
    return each.context * each.sequence * each.tensor < wanted


_EACH = 4
"""Divisions of the same reach that are looked at."""


def _reach(each: Division, node: int) -> int:
    """Ranks that work on one sequence, and nodes over which experts are divided: those in a node share its fast links.

    Source: Megatron-LM, core/transformer/moe/README.md, guidelines 2 to 4 (expert and tensor parallelism within
    NVLink, pipelines over nodes, expert rather than tensor parallelism for experts).
    """
    return each.width * max(each.experts // node, 1)


def _few(rest: list[Division], node: int) -> Iterator[Division]:
    """Of each reach the simplest, and the one without large groups: what a job of many thousand GPUs needs.

    Stages over nodes with experts in one node or several are among them: Megatron Bridge trains Qwen3-235B on 64 GPUs
    and DeepSeek-V3 on 256 with PP8 EP8, the former on 256 with PP8 EP32 (perf_recipes/).
    """
    for _, group in groupby(rest, key=lambda each: _reach(each, node)):
        alike = list(group)
        usual = [each for each in alike if _like_recipes(each, node)]
        alike = [each for each in alike if each not in usual]
        yield from (*usual, *alike[: _EACH - 1])
        if len(alike) >= _EACH:
            yield min(alike[_EACH - 1 :], key=lambda each: max(each[:5]))


def _like_recipes(each: Division, node: int) -> bool:
    """Return whether experts are divided in whole nodes, in several only between stages, and nothing else is."""
    if each.experts < node or (each.experts > node and each.stages == 1):
        return False
    return each.dimensions == 1 + (each.stages > 1)


def _replicated(asked: Asked, way: Way) -> Iterator[Division]:
    """Yield parameters sharded within a node, and replicas of it (HSDP)."""
    if "replicas" in way.divides and asked.gpus > asked.node and asked.gpus % asked.node == 0:
        yield Division(shards=asked.node)


def _divided(asked: Asked, way: Way) -> Iterator[Division]:
    for tensor in _sizes(asked, way, "tensor", min(asked.node, asked.heads)):
        for stages in _stages(asked, way, tensor):
            longest = asked.length // _SLICE if asked.length >= LONG else 1
            for context in _sizes(asked, way, "context", longest):
                for sequence in _sizes(asked, way, "sequence", min(asked.heads, longest)):
                    width = tensor * stages * context * sequence
                    if asked.gpus % width == 0:
                        ranks = asked.gpus // (tensor * stages)
                        for experts in _sizes(asked, way, "experts", min(asked.experts, ranks)):
                            if asked.experts % experts == 0 and ranks % experts == 0:
                                yield Division(tensor, stages, context, sequence, experts)


def _sizes(asked: Asked, way: Way, name: str, most: int) -> Iterator[int]:
    size = 1
    while size <= max(most, 1):
        if asked.gpus % size == 0 and (size == 1 or name in way.divides):
            yield size
        size *= 2


def _stages(asked: Asked, way: Way, tensor: int) -> Iterator[int]:
    """Pipelines cross nodes: within one, other divisions send less time idle."""
    yield 1
    if "stages" in way.divides and asked.gpus > asked.node:
        ranks = asked.gpus // tensor
        yield from (size for size in range(2, min(asked.layers, ranks, 128) + 1) if ranks % size == 0)
