"""What was recorded, as truth cases in the format that `memcore accuracy` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from memcore.questions.reconciling.reconcile import name_of

PACKAGES = ("torch", "transformers", "peft", "bitsandbytes", "liger-kernel", "flash-attn")
"""Packages whose versions decide memory."""
_NAMED = ("gradient_clipping", "optimizer_step")
"""Phases that are a case's own; whether a peak of the forward or backward pass is the loss's is not recorded."""
Case = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What was held while a phase of a run lasted; bytes."""

    name: str
    """`after_init`, or the step's number and the phase: `1.forward`."""
    allocated: int
    """At its end."""
    peak: int
    """In tensors."""
    reserved: int | None = None
    """By the caching allocator at most; None where there is none."""
    device: int | None = None
    """What the driver showed at its end."""

    @property
    def step(self) -> str:
        """The number of the step, or an empty text."""
        return self.name.rpartition(".")[0]

    @property
    def kind(self) -> str:
        """The phase without its step."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One config that has been run."""

    config: Mapping[str, Any]
    phases: Sequence[Phase]
    device: str
    """Its name, as the driver has it; `cpu`, or `fake cuda`."""
    kind: str
    """`hardware`, `simulated` (fake tensors), or `cpu`: real tensors, but not where memcore predicts."""
    rank: int | str = "max"
    out_of_memory: bool = False
    components: Mapping[str, int] | None = None
    """Further numbers of the same run, such as the CUDA context."""
    categories: Mapping[str, int] | None = None
    """Bytes at the peak by category, from a snapshot of the allocator."""
    seconds: float | None = None
    """Of a step, where it was timed."""


def versions() -> Mapping[str, str]:
    """Versions of what is installed here."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cases_of(run: Run) -> Iterator[Case]:
    """The quantities of a run as cases: its peak first, the others refer to it."""
    name = name_of(run.config)
    if run.out_of_memory:
        yield _case(run, name, {"quantity": "fits", "value": False, "moment": "peak"})
        return
    quantities = list(_quantities(run))
    for number, measured in enumerate(quantities):
        if number == 0:
            extra = {
                key: value for key, value in (("components", run.components), ("by_category", run.categories)) if value
            }
            yield _case(run, name, {**measured, **extra})
        else:
            suffix = (
                measured["moment"] if measured["quantity"] in {"max_allocated", "allocated"} else measured["quantity"]
            )
            yield {**_case(run, f"{name}@{suffix}", measured), "same_run_as": name}


def _case(run: Run, name: str, measured: Mapping[str, Any]) -> Case:
    stamp = ", ".join(f"{package} {number}" for package, number in versions().items())
    described = {key: value for key, value in run.config.items() if not key.startswith("_")}
    return {
        "id": name,
        "config": {**described, "engine": {**described.get("engine", {}), "framework": "memcore"}},
        "measured": {**measured, "rank": run.rank},
        "source": {"kind": run.kind, "title": f"memcore's validation suite on {run.device}", "measured_at": stamp},
        "confidence": "high",
    }


def _quantities(run: Run) -> Iterator[dict[str, Any]]:
    """The peak of a step when optimizer states exist, and what else was seen in the run."""
    if "inference" in run.config:
        yield from _of_generation(run)
        return
    steps = [each for each in run.phases if each.step]
    first, last = ([each for each in steps if each.step == number] for number in (steps[0].step, steps[-1].step))
    top = max(last, key=lambda each: each.peak)
    peak = {"quantity": "max_allocated", "bytes": top.peak, "moment": "peak"}
    yield {**peak, "phase": top.kind} if top.kind in _NAMED else peak
    yield {"quantity": "max_allocated", "bytes": max(each.peak for each in first), "moment": "first_step"}
    yield from _moments(run, last)
    reserved = [each.reserved for each in run.phases if each.reserved is not None]
    if reserved:
        yield {"quantity": "max_reserved", "bytes": max(reserved), "moment": "peak"}
    shown = [each.device for each in run.phases if each.device is not None]
    if shown:
        yield {"quantity": "device_used", "bytes": max(shown), "moment": "peak"}


def _of_generation(run: Run) -> Iterator[dict[str, Any]]:
    # Weights are what is there when the first phase ends, tokens come after it.
    start, *rest = run.phases
    yield {"quantity": "max_allocated", "bytes": max(each.peak for each in rest), "moment": "peak"}
    yield {"quantity": "weights", "bytes": start.allocated, "moment": "after_init"}
    shown = [each.device for each in rest if each.device is not None]
    if shown:
        yield {"quantity": "device_used", "bytes": max(shown), "moment": "peak"}


def _moments(run: Run, last: Sequence[Phase]) -> Iterator[dict[str, Any]]:
    """Bytes at moments of the last step."""
    start = next(each for each in run.phases if each.kind == "after_init")
    yield {"quantity": "allocated", "bytes": start.allocated, "moment": "after_init"}
    whole = (("forward", "end_of_forward"), ("backward", "end_of_backward"), ("between", "steady"))
    # A pipeline's stage takes turns: there is no end of all forward passes.
    for kind, moment in whole if run.rank == "max" else whole[1:]:
        found = [each for each in last if each.kind == kind]
        yield {"quantity": "allocated", "bytes": found[-1].allocated, "moment": moment}
    step = next(each for each in last if each.kind == "optimizer_step")
    yield {"quantity": "max_allocated", "bytes": step.peak, "moment": "optimizer_step"}
