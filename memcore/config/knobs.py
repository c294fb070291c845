"""What an engine offers to a plan, in its module `knobs`: ways to run a job, and changes that only it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from memcore.records import dataclass

Settings = Mapping[str, object]
"""Settings by path; None leaves one out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One change of a job: what it sets, when it applies, why it helps, and where that is written."""

    title: str
    to: Settings
    when: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """It applies where settings, given or assumed, have one of these values."""
    needs: str = ""
    """It says something only where a job is divided so: `tensor`, `stages` … ; empty: always."""
    unless: str = ""
    """It says nothing where a job is divided so; empty: always."""
    alone: bool = False
    """It runs on one GPU only: ranks cannot shard what it sets."""
    why: str
    made: Callable[[Any], Settings | None] | None = None
    """What it sets besides, of a job; None: it does not apply."""
    quality: str = ""
    """What it may cost in quality; empty: the result of the job is the same."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to run a training job: an engine with its layers."""

    title: str
    settings: Settings
    """Engine and layers."""
    free: tuple[Knob, ...] = ()
    """Switches that experts turn on because they cost nothing."""
    divides: frozenset[str] = frozenset()
    """Ways to divide a job besides data parallelism: tensor, stages, context, sequence, experts, replicas."""
    degrees: tuple[Knob, ...] = ()
    """Degrees of checkpointing, from the cheapest on; each takes more time than the one before."""
    transfers: tuple[Knob, ...] = ()
    """Degrees of offloading to the host, from the fastest on."""
    uneven: Callable[[int, int], Settings] | None = None
    """Settings that divide layers among stages that do not divide them evenly; None: the engine does so itself."""
    alone: bool | None = None
    """True: on one GPU only; False: on several only."""
    named: bool = False
    """It is tried only where the config names its engine."""
    spare: bool = False
    """Where the config leaves its engine open, it is tried for what it offloads to the host only."""
    only: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Settings of which it has code for these values alone: no job or method with another is tried."""
    models: frozenset[str] | None = None
    """The models that it has code for, by hub id; None: all."""
    experts: Knob | None = None
    """What quantizes routed experts too, where a method quantizes frozen weights; None: nothing does."""
    flat: bool = False
    """It shards a layer as one flat tensor, and so is tried where ranks outnumber experts that are stacked in one."""


TIERS: Mapping[str, str] = {
    "same": "the same result",
    "states": "optimizer states in lower precision",
    "method": "a different training method",
    "quantized": "weights in lower precision",
    "transfer": "traffic between GPU and host",
    "work": "a smaller job",
    "hardware": "more hardware",
}
"""What a plan gives up, from the least on: an expert tries them in this order."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to train, as one or more changes made together."""

    tier: str
    """A key of `TIERS`."""
    knobs: tuple[Knob, ...]
    alternatives: tuple[Mapping[str, object], ...] = ({},)
    """Settings that engines need with it; the first that the engine takes is used."""
    spare: bool = False
    """Only where all weights cannot be trained with less given up."""
    near: bool = False
    """Only where weights stay on the GPU: on the host those of fewer bits serve as well."""
    narrow: bool = False
    """It trains less, or frees little: only where no plan with less given up, and no other of its tier, is safe."""
