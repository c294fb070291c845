"""What one more layer surely keeps between its passes: what a recorded step says about all that are like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.networks.network import Network
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.spaces import Part, Space
from memcore.records import dataclass
from memcore.tensors.tape import ALIGNMENT
from memcore.trace.program import Program

RUN = "run "
"""What the names of the symbols begin with that count equal layers."""


def grown(program: Program, sizes: Mapping[str, int], network: Network) -> int | None:
    """Return the least that one more layer of any run adds to the end of the forward pass; None where no run says.

    A run repeats a pattern of layers, of which the mean is taken: some stage has no less than that of each.
    """
    runs = [span.repeats for span in program.spans if span.repeats is not None and span.repeats.startswith(RUN)]
    found = []
    for name in dict.fromkeys(runs):
        ends = [_forward_end(program, {**sizes, name: sizes[name] + more}) for more in (0, 1)]
        found.append(ends[1] - ends[0])
    if not found:
        return None
    return max((min(found) - ALIGNMENT * len(program.shapes)) // max(map(len, network.runs)), 0)


def _forward_end(program: Program, sizes: Mapping[str, int]) -> int:
    """Return bytes after the first forward pass, when there is no gradient yet."""
    first = program.segments[0].turn
    return next(each.end for each in reversed(program.moments(sizes)) if each.phase == "forward" and each.turn == first)


@dataclass(frozen=True)
class Growths:
    """The same of layouts that are estimated one by one, where a micro-batch is recorded alone."""

    base: Config
    space: Space
    known: dict[tuple[int, ...], int | None] = field(default_factory=dict)

    def least(self, layout: Layout) -> int:
        """Return bytes that a layout surely has besides those of `Floor`: nothing is said."""
        return 0

    def parts(self, layout: Layout) -> list[Part]:
        """Return what stages have between steps: nothing is said."""
        return []

    def growth(self, layout: Layout) -> int | None:
        """Bytes that each layer surely keeps of one sequence, from a step without a pipeline; None: it is not said.

        Blocks are rounded up; several sequences have as many blocks as one, so that their rounding is taken off.
        """
        key = layout.tensor, layout.context, layout.experts, self.space.keeps_like(layout.policy)
        if key not in self.known:
            self.known[key] = self._growth(layout, key[3])
        return self.known[key]

    def _growth(self, layout: Layout, policy: int) -> int | None:
        sizes = {"stages": 1, "replicas": 1, "micro_batch": 1, "micro_batches": 1}
        shards = max(layout.context, layout.experts)
        try:
            plain = layout._replace(**sizes, shards=shards, policy=policy)
            found = estimate(config_of(self.base, plain, self.space.policies))
        except MemcoreError:
            return None
        rank = found.ranks[0] if isinstance(found, Estimate) else None
        alone = None if rank is None else rank.micro_batch
        return None if alone is None else grown(*alone, found.job.model.network)
