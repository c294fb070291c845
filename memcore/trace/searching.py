"""What an engine can be searched for: how its divisions, its policies and its kinds of jobs are described.

A trainer that can be searched says in its module `search` what it divides (`ROWS`), and as what it is looked at where a
config leaves its engine open (`KINDS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memcore.config.knobs import Settings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.traffic import Traffic

SCHEDULES = ("1f1b", "interleaved-1f1b", "zbv", "dualpipev")
"""Of pipelines whose stages run in PyTorch."""
SCHEDULE = Parallelism.pipeline_schedule
_AC = "training.activation_checkpointing"
_CLEARED: Settings = dict.fromkeys(
    (
        Training.activation_checkpointing.mode,
        Training.activation_checkpointing.every,
        Training.activation_checkpointing.method,
        Training.activation_checkpointing.num_layers,
        Training.activation_checkpointing.modules,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Settings other than sizes, what they compute again and send, and what each layer keeps at least."""

    settings: Settings
    again: tuple[float, float] = (0.0, 0.0)
    """Shares of the forward pass's products and attention that run twice."""
    resharded: bool = True
    """Parameters are freed between forward and backward pass."""
    offloaded: bool = False
    chunks: int = 1
    """Model chunks of a pipeline's stage."""
    schedule: str = "1f1b"
    """Of a pipeline; others than this are looked at where they are asked for."""
    wide: bool = False
    """Experts are not divided by tensor parallelism, which ranks of their own hold instead."""
    keeps: tuple[int, int, int, int] = (1, 0, 0, 0)
    """Elements that a layer surely keeps for each token: hidden sizes, queries, keys or values, feed-forward widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an engine can be searched for."""

    divides: frozenset[str]
    """Of tensor, stages, context, experts, shards."""
    policies: tuple[Policy, ...]
    resolve: Callable[[Config], Job] | None = None
    """Layouts share recorded steps, whose jobs this makes; None: each layout is estimated on its own."""
    sharded: str = "parameters"
    """What data-parallel ranks share: parameters, or optimizer states, or nothing."""
    parameter_bytes: Callable[[Job], int | None] | None = None
    """Bytes that are there for each parameter at least and that data-parallel ranks do not share, where it says so."""
    state_bytes: Callable[[Job], int] | None = None
    """Bytes of optimizer states for each parameter that data-parallel ranks share, where they share these alone."""
    sends: Callable[[Job, Settings, int, int], Traffic] | None = None
    """What it sends where that follows a policy's settings: of the job that is searched, a policy's settings, ranks and
    micro-batches."""
    uneven: bool = False
    """Stages may have different numbers of layers, which a job lists."""
    counted: Callable[[Config], int] | None = None
    """Ends of the model that count as layers of a stage."""

    @property
    def shared(self) -> bool:
        """Layouts share recorded steps (`memcore.questions.searching.totals`)."""
        return self.resolve is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An engine, and whose layers it runs."""

    title: str
    settings: Settings
    usual: Settings
    """Settings that come with it where the config leaves them open."""
    row: str | None = None
    """A key of `ROWS`, if not the engine's own."""
    alone: bool = False
    """On one GPU, and there only."""
    whole: bool = False
    """Where a config names its engine, it is taken as it is, with what is usual."""


def checkpointing(policy: str, **more: object) -> Settings:
    """Return settings of a policy of checkpoints, those of others left out."""
    return {
        **_CLEARED,
        Training.activation_checkpointing.policy: policy,
        **{f"{_AC}.{name}": value for name, value in more.items()},
    }


FULL = Policy(settings=checkpointing("full"), again=(1.0, 1.0))
NONE = Policy(settings=checkpointing("none"), keeps=(1, 2, 2, 1))
BY_OPERATION = Policy(settings=checkpointing("selective", mode="op"), again=(0.5, 0.0), keeps=(1, 1, 0, 0))


def and_with(policy: Policy, path: str, value: object, **more: Any) -> Policy:
    """Return a policy with one more setting."""
    return replace(policy, settings={**policy.settings, path: value}, **more)
