"""What the kernels of a recorded step read and write, and how many there are: the tape knows every tensor they make."""

from __future__ import annotations

from functools import lru_cache

from memcore.questions.scans import SCANS, moved
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.recipe import Recipe
from memcore.trace.record import program_of


@dataclass(frozen=True, slots=True)
class Kernels:
    """Of one micro-batch on one rank, forward and backward passes together."""

    bytes: float
    """What kernels other than products and attention read and write."""
    count: int
    """Kernels of any kind."""


MOVED = 2.8
"""Bytes that such kernels read and write for each byte that they allocate. Counted on fake tensors for the layers of 21
families of transformers, where each kernel reads its inputs and writes its results: 2.5 to 3.7, in the median 2.8
(`python -m validation.kernels`). Gradients that are summed in place are not on the tape, so it is more than the 2.5 of
the kernels that are."""

PRODUCTS = frozenset(
    (
        "linear", "input_gradient", "weight_gradient", "matmul", "matmul_backward", "fused_product",
        "fused_product_backward", "softmax_product", "convolution", "convolution_backward", "flash_attention",
        "attention_backward", "flash_query_accumulator", "efficient_query_accumulator", "flash_expanded_gradient",
        "scattered_gradient", "grouped_mm",
    )
)  # fmt: skip
"""Rules whose blocks products and attention kernels write: their time is that of their operations."""
_SCANS = frozenset(
    (
        "scan", "scan_decay", "scan_states", "scan_scores", "scan_backward",
        "delta_rule", "delta_chunk", "delta_decay", "delta_states", "delta_values", "delta_backward",
    )
)  # fmt: skip
"""Rules of blocks that chunked scans write: their time is counted by what each of them reads (`questions.scans`)."""
NO_KERNELS = frozenset(("inputs", "random_state", "empty", "placeholder_mask", "dispatch_handle", "graph_input"))
"""Rules whose blocks no kernel of a pass writes."""


@lru_cache(maxsize=256)
def _blocks(recipe: Recipe, others: frozenset[str]) -> tuple[tuple[str | None, tuple[int, ...], int], ...]:
    """For each stretch of the last micro-batch its repeats, the blocks that no other kernels write, and all kernels."""
    program = program_of(recipe)
    turn, found = program.segments[-1].turn, []
    for segment in program.segments:
        if segment.turn != turn or segment.phase not in ("forward", "loss", "backward"):
            continue
        made = [
            event
            for event in program.events[segment.start : segment.end]
            if event >= 0 and event not in program.communicated and program.blocks[event].rule not in NO_KERNELS
        ]
        moving = tuple(program.kinds[each] for each in made if program.blocks[each].rule not in others)
        found.append((segment.repeats, moving, len(made)))
    return tuple(found)


def kernels_of(job: Job) -> Kernels:
    """Count what a job's recorded step moves."""
    sizes = program_of(job.recipe).sizes(job.sizes)
    written = count = 0
    others = (
        PRODUCTS | _SCANS if any(moved(job.model, SCANS)) and job.recipe.recurrence.kernels == "fused" else PRODUCTS
    )
    for repeats, blocks, made in _blocks(job.recipe, others):
        times = 1 if repeats is None else job.sizes[repeats]
        written += times * sum(sizes[each] for each in blocks)
        count += times * made
    return Kernels(MOVED * written, count)
