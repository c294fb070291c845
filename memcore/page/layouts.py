"""Every way to split a training job over its GPUs, tried one after another by real estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import product

from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.costs import cost_of, roofline_of
from memcore.errors import ConfigError, MemcoreError, Problem
from memcore.estimation import Estimate, estimate
from memcore.page.answering import config_of, form_of
from memcore.page.session import Message, Patch, Session
from memcore.render.layouts import Layout, layouts_html
from memcore.words import say

TENSOR = (1, 2, 4, 8)
STAGES = (1, 2, 4, 8)
SEQUENCES = (1, 2, 4, 8)
CHECKPOINTS = ("full", "selective", "none")
"""What is tried of each; tensor parallelism stays within a node of eight."""
SHOWN = 40
"""Rows of the table."""


@dataclass
class Sweep:
    """How far a search is."""

    total: int
    tried: int = 0
    found: list[Layout] = field(default_factory=list)

    @property
    def best(self) -> list[Layout]:
        """What fits, cheapest first."""
        return sorted(self.found, key=lambda each: each.per_token)


def candidates(config: Config, gpus: int) -> list[tuple[int, int, str, int]]:
    """Tensor, stages, checkpointing and sequences of a micro-batch: short pipelines and what needs least first."""
    return [
        (tensor, stages, checkpoints, sequences)
        for stages, tensor, checkpoints in product(STAGES, TENSOR, CHECKPOINTS)
        if gpus % (tensor * stages) == 0
        for sequences in SEQUENCES
    ]


def sweep(config: Config) -> Iterator[Sweep]:
    """Try all layouts; after each, how far it is.

    What does not fit with few sequences is not tried with more, nor without full checkpointing.

    Raises ConfigError for a server, and whatever `estimate` raises for the config itself.
    """
    first = estimate(config)
    if not isinstance(first, Estimate):
        raise ConfigError([Problem("engine.type", "layouts are searched for training; found a server")])
    if first.capacity is None:
        raise ConfigError([Problem("hardware.accelerator", "name one, so that it is known what fits")])
    job = first.job
    tokens = job.micro_batches * job.sizes["b"]
    found = Sweep(len(candidates(config, job.num_gpus)))
    full: set[tuple[int, int, str]] = set()
    for tensor, stages, checkpoints, sequences in candidates(config, job.num_gpus):
        key = (tensor, stages, checkpoints)
        found.tried += 1
        if key not in full and (tensor, stages, "full" if sequences == 1 else checkpoints) not in full:
            layout = _tried(_with(config, (*key, sequences), max(tokens // sequences, stages)), key, sequences)
            if layout is None:
                full.add(key)
            else:
                found.found.append(layout)
        yield found


def _with(config: Config, layout: tuple[int, int, str, int], micro_batches: int) -> dict[str, object]:
    tensor, stages, checkpoints, sequences = layout
    changes: dict[str, object] = {
        "parallelism.tensor_parallel_size": tensor,
        "parallelism.pipeline_parallel_size": stages,
        "training.micro_batch_size": sequences,
        "training.gradient_accumulation_steps": micro_batches,
    }
    plain = config.to_dict()
    plain.setdefault("training", {})["activation_checkpointing"] = checkpoints
    for path, value in changes.items():
        section, _, name = path.partition(".")
        plain.setdefault(section, {})[name] = value
    for name in ("data_parallel_size", "data_parallel_shard_size"):
        plain["parallelism"].pop(name, None)
    return plain


def _tried(plain: dict[str, object], key: tuple[int, int, str], sequences: int) -> Layout | None:
    """A layout that fits; None if it does not, or is not possible."""
    try:
        config = Config.from_dict(plain)
        found = estimate(config)
    except MemcoreError:
        return None
    if not isinstance(found, Estimate) or found.capacity is None or found.allocated.expected > found.capacity:
        return None
    if not found.fits:
        return None
    roofline = roofline_of(config.hardware.accelerator, config.hardware.gpus_per_node)
    tensor, stages, checkpoints = key
    return Layout(
        tensor=tensor,
        stages=stages,
        data=found.job.num_gpus // tensor // stages,
        checkpoints=checkpoints,
        sequences=sequences,
        device=found.device.expected,
        capacity=found.capacity,
        per_token=cost_of(found.job, roofline).per_token,
        link=f"#{encode_fragment(config)}",
    )


def search(session: Session, message: Message) -> Iterator[Patch]:
    """Search the layouts of the job, with progress, and results as they come."""
    shown = 0
    last = Sweep(0)
    yield {"progress": 0, "html": {"search": "", "search-status": escape(say("working"))}}
    try:
        for last in sweep(config_of(form_of(message["texts"]))):
            patch: Patch = {"progress": last.tried / last.total, "html": {"search-status": _status(last, "running")}}
            if len(last.found) > shown and (shown < 3 or last.tried % 8 == 0):
                shown = len(last.found)
                patch["html"]["search"] = layouts_html(last.best[:SHOWN])
            session.searched = last
            yield patch
    except MemcoreError as error:
        yield {"progress": None, "html": {"search": f"<p>{escape(str(error))}</p>", "search-status": ""}}
        return
    table = layouts_html(last.best[:SHOWN]) if last.found else f"<p>{escape(say('search-none'))}</p>"
    yield {"progress": None, "html": {"search": table, "search-status": _status(last, "done")}}


def cancel(session: Session, message: Message) -> Iterator[Patch]:
    """Stop the search; what was found stays."""
    last = session.searched
    if isinstance(last, Sweep):
        table = layouts_html(last.best[:SHOWN])
        yield {"progress": None, "html": {"search": table, "search-status": _status(last, "cancelled")}}
    else:
        yield {"progress": None}


def _status(found: Sweep, state: str) -> str:
    return escape(say(f"search-{state}", count=found.tried, fitting=len(found.found)))
