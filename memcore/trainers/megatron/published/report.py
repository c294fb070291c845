"""What published formulas say: Megatron Bridge's and Megatron-LM's theoretical memory, to the byte.

They answer three questions: weights and optimizer on the most loaded shard, activations of the first stage, and a
report of both. `memcore formulas` compares them with memcore; nothing else uses them.

Sources: Megatron Bridge, training/utils/theoretical_memory_utils.py (067f987df, August 2026, and 0cef174b2, September
2025, before its estimates knew routed experts), and Megatron-LM, training/theoretical_memory_usage.py (d98e8a64d).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.config.settings import Config
from memcore.messages import Message
from memcore.records import dataclass
from memcore.trainers.megatron.published import bridge, earlier
from memcore.trainers.megatron.published import megatron_lm as megatron
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.reading import arguments_of
from memcore.units import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One tool's formulas; both take the arguments, the second also the number of micro-batches."""

    title: str
    weights: Callable[[MegatronArguments], float]
    activations: Callable[[MegatronArguments, int | None], float]
    without_sequence_parallelism: Callable[[MegatronArguments, int | None], float] | None
    """For jobs without sequence parallelism or selective recomputation; None: the tool then reports no activations."""
    assumptions: tuple[str, ...]
    """What the tool says that it assumes."""


_STATES = (
    "Adam takes 18 bytes per parameter; with the distributed optimizer 6, plus 12 split over the data-parallel ranks"
)
_SELECTIVE = "activations are 18·h + 4·f bytes per token and layer (sequence parallelism, selective recomputation)"

FORMULAS: Mapping[str, Formula] = {
    "megatron-bridge": Formula(
        title="Megatron Bridge",
        weights=bridge.weights,
        activations=bridge.activations,
        without_sequence_parallelism=None,
        assumptions=(
            "allocator overhead, workspaces and CUDA graphs are left out",
            _STATES,
            "embeddings are on the first and last stages; an untied output head counts only without a pipeline",
            "expert- and expert-tensor-parallel ranks split routed experts, expert-data-parallel ranks their states",
            Message("{}; no full recomputation, offloading, expert imbalance or dispatcher buffers", _SELECTIVE),
        ),
    ),
    "megatron-bridge-2025": Formula(
        title="Megatron Bridge until May 2026",
        weights=earlier.weights,
        activations=megatron.activations,
        without_sequence_parallelism=None,
        assumptions=(
            _STATES,
            "every layer has all experts at the dense width, split over tensor-parallel ranks only",
            _SELECTIVE,
        ),
    ),
    "megatron-lm": Formula(
        title="Megatron-LM",
        weights=megatron.weights,
        activations=megatron.activations,
        without_sequence_parallelism=megatron.activations_without_sequence_parallelism,
        assumptions=(
            _STATES,
            "the most loaded shard has 1/p of the layers, all multi-token-prediction layers, and an embedding",
            Message("{}; any other job takes h·(10 + 24/t), plus 5%", _SELECTIVE),
        ),
    ),
}
"""By name."""


@dataclass(frozen=True, slots=True)
class TheoreticalMemory:
    """A report of both, in bytes."""

    weight_and_optimizer: float
    activation: float | None
    """None where the tool reports none."""

    @property
    def total(self) -> float:
        """Their sum."""
        return self.weight_and_optimizer + (self.activation or 0.0)

    def __str__(self) -> str:
        """Return the line that both tools print (their `report_theoretical_memory`); a megabyte is 2**20 bytes."""
        held = f"weight and optimizer={self.weight_and_optimizer / MiB:.2f} MB"
        if self.activation is None:
            return f"Theoretical memory footprints: {held}"
        rest = f"activation={self.activation / MiB:.2f} MB, total={self.total / MiB:.2f} MB"
        return f"Theoretical memory footprints: {held}, {rest}"


def report_theoretical_memory(
    job: MegatronArguments | Config | Mapping[str, object],
    num_microbatches: int | None = None,
    formula: str = "megatron-bridge",
) -> TheoreticalMemory:
    """Return both, where the tool has a formula for the activations of such a job.

    `print` shows the line that the tool prints.
    """
    row, arguments = FORMULAS[formula], job if isinstance(job, MegatronArguments) else arguments_of(job)
    fits = arguments.sequence_parallel and arguments.recompute_granularity == "selective"
    activations = row.activations if fits else row.without_sequence_parallelism
    found = None if activations is None else activations(arguments, num_microbatches)
    return TheoreticalMemory(row.weights(arguments), found)
