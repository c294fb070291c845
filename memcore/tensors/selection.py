"""Selective checkpoints: results of some operations are kept, so that the second run need not compute them.

Follows torch/utils/checkpoint.py (`create_selective_checkpoint_contexts`): a policy decides for each operation of the
first run whether its result is kept; in the second run what was kept takes its place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from memcore.records import dataclass
from memcore.tensors.tensor import Tape, Tensor

Make: TypeAlias = Callable[[], Sequence[Tensor]]
"""Runs an operation: allocates its results."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A policy: of which operations the results are kept. The names are those given to `selectable`."""

    always: frozenset[str]
    alternate: frozenset[str] = frozenset()
    """Of these every second result, beginning with the first."""
    chosen: frozenset[tuple[str, int]] | None = None
    """Single results: an operation, and how often it ran before. None: there is no memory budget that chose any."""

    def keeps(self, operation: str, before: int) -> bool:
        """Return whether to keep the result of an operation, given how often it ran before."""
        alternate = operation in self.alternate and not before % 2
        return operation in self.always or alternate or (operation, before) in (self.chosen or ())


TORCHTITAN = Selection(frozenset({"sdpa", "reduce_scatter", "all_to_all"}), frozenset({"mm"}))
"""torchtitan's selective checkpointing by operation (models/llama3/infra/parallelize.py, `_get_custom_policy`):
attention in PyTorch's kernels, what ranks have scattered or sent, and every second matrix product that is not
batched and has no bias."""


class Selected:
    """What one checkpointed call keeps besides its inputs."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._results: dict[str, deque[list[Tensor] | None]] = defaultdict(deque)
        self._counts: dict[str, int] = defaultdict(int)

    def keep(self, operation: str, make: Make) -> Sequence[Tensor]:
        """The first run."""
        results = make()
        kept = self._selection.keeps(operation, self._counts[operation])
        self._counts[operation] += 1
        self._results[operation].append([result.detach() for result in results] if kept else None)
        return results

    def recall(self, operation: str, make: Make) -> Sequence[Tensor]:
        """The second run."""
        kept = self._results[operation].popleft()
        return make() if kept is None else kept


def selectable(tape: Tape, operation: str, make: Make) -> Sequence[Tensor]:
    """Run an operation whose results a selective checkpoint may keep."""
    return tape.select(operation, make) if tape.select is not None else make()
