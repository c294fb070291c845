"""A job from its start to its end: loading, the first step, every later step, evaluation, saving, resuming.

Each is a moment with its peak, because a job can run out of memory in any of them: at the second step when the
optimizer's states are there, in an evaluation that keeps logits, when a checkpoint gathers, after it is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.dtypes import ITEMSIZE
from memcore.memory.loading import largest_quantized, loaded, reads_ahead
from memcore.memory.rank import Rank
from memcore.messages import Message
from memcore.records import dataclass
from memcore.symbols import product
from memcore.trace.job import Job
from memcore.trace.program import aligned
from memcore.trace.record import evaluation_of
from memcore.units import format_bytes


@dataclass(frozen=True, slots=True)
class Phase:
    """One of them."""

    name: str
    """load, first_step, step, evaluation, save or resume."""
    title: str
    bytes: int
    """The most that is in tensors on the GPU."""
    because: str
    source: str


def phases(rank: Rank) -> tuple[Phase, ...]:
    """Return the phases of a job on one rank."""
    return tuple(_phases(rank))


def _phases(rank: Rank) -> Iterator[Phase]:
    job = rank.job
    yield _loading(rank)
    late = 0 if job.optimizer.from_start else rank.persistent.states
    yield Phase(
        "first_step",
        "First step",
        rank.first_step,
        Message("the optimizer states ({}) are created at its end", format_bytes(late))
        if late
        else "as every later step",
        "torch/optim: states are made when a parameter is first updated",
    )
    yield Phase(
        "step", "Every later step", rank.peak.peak, "optimizer states are already allocated", "the recorded step"
    )
    if not job.engine.native or job.recipe.pipeline is not None:
        return
    yield _evaluation(rank)
    yield _saving(rank)
    yield Phase(
        "resume",
        "First step after resuming",
        max(rank.peak.peak, rank.first_step),
        "states come from the checkpoint, so it needs as much as a later step",
        "torch/optim/optimizer.py, load_state_dict",
    )


def _loading(rank: Rank) -> Phase:
    """Return the model on its way to the GPU, where it may be quantized."""
    job = rank.job
    size, because, source = loaded(job, rank.after_init), "parameters and buffers", "the model's parameters"
    if largest_quantized(job):
        because, source = "one matrix before it is quantized", "transformers, integrations/bitsandbytes.py"
    if reads_ahead(job):
        because, source = (
            "matrices that threads read ahead of their quantization",
            "transformers, core_model_loading.py",
        )
    return Phase("load", "Loading", size, because, source)


def _evaluation(rank: Rank) -> Phase:
    """Return a forward pass without gradients, whose logits a trainer keeps for its metrics."""
    job = rank.job
    moments = evaluation_of(job.recipe).moments(job.sizes, rank.between_steps)
    sizes = job.sizes
    dtype = job.recipe.precision.autocast or job.recipe.precision.compute
    logits = aligned(sizes["b"] * sizes["s"] * sizes["V"] * ITEMSIZE[dtype])
    return Phase(
        "evaluation",
        "Evaluation",
        max(moment.peak for moment in moments),
        Message("a batch of the same size; each further batch whose logits are kept adds {}", format_bytes(logits)),
        "transformers, trainer.py, evaluation_loop: kept on the GPU without eval_accumulation_steps",
    )


def _saving(rank: Rank) -> Phase:
    """Return a full state dict: of FSDP's shards one parameter, or one flat one, is gathered at a time."""
    job = rank.job
    gathered = _largest(job) if job.engine.shards and job.sizes["z"] > 1 else 0
    if gathered and job.engine.flat:
        gathered = max(product((axis,), job.sizes) for axis in _units(job)) * ITEMSIZE[job.recipe.precision.parameter]
    return Phase(
        "save",
        "Saving a full state dict",
        rank.between_steps + gathered,
        "parameters are gathered one at a time and copied to the host"
        if gathered
        else "tensors are copied to the host as they are",
        "torch/distributed/checkpoint/state_dict.py, full_state_dict with cpu_offload",
    )


def _units(job: Job) -> Iterator[int]:
    """Yield elements of each flat parameter."""
    for layer, _ in job.share.layers:
        yield sum(product(weight.stored_shape, job.sizes) for weight in layer.weights())
    yield sum(product(weight.stored_shape, job.sizes) for weight in job.share.network.embedding_and_head.weights())


def _largest(job: Job) -> int:
    """Return bytes of the largest parameter as a whole."""
    stored = job.recipe.precision.parameter
    found = (product(w.stored_shape, job.sizes) * ITEMSIZE[w.dtype or stored] for w, _, _ in job.share.tensors)
    return max(found, default=0)
