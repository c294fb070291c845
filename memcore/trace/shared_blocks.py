"""Blocks of parameters that several layers use: the first layers own one each, later ones use them again in turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memcore.networks.network import Layer
from memcore.tensors.tensor import Parameter
from memcore.trace.recipe import HEAD

_BLOCK = "shared_transformer."
_ADAPTER = re.compile(r"(.*_adapter_list)\.(\d+)\.(\d)\.weight")


class SharedBlocks:
    """The blocks of a network, as far as its layers have been made."""

    def __init__(self) -> None:
        self._blocks: list[Mapping[str, Parameter]] = []
        self._uses = 0
        """Of runs that are complete."""

    def weights(
        self, pattern: Sequence[Layer], repetition: int, position: int, own: Mapping[str, Parameter]
    ) -> Mapping[str, Parameter]:
        """Return the parameters that a layer uses: its own, and those of a block with the adapters for this use."""
        if not pattern[position].uses_shared_block:
            return own
        use = self._uses + repetition * _count(pattern) + _count(pattern[:position])
        block: Mapping[str, Parameter] = {name: each for name, each in own.items() if name.startswith(_BLOCK)}
        if block:
            self._blocks.append(block)
        else:
            block = self._blocks[use % len(self._blocks)]
            for name, each in block.items():
                each.shared = not _ADAPTER.match(name)
        return {**own, **{name: each for name, each in block.items() if not _ADAPTER.match(name)}, **_of(block, use)}

    def complete(self, pattern: Sequence[Layer], repetitions: int) -> None:
        """A run ends."""
        self._uses += repetitions * _count(pattern)


def _of(block: Mapping[str, Parameter], use: int) -> Mapping[str, Parameter]:
    """Return the adapters of a use, without its number."""
    found: dict[str, Parameter] = {}
    for name, each in block.items():
        match = _ADAPTER.match(name)
        if match is not None and int(match[2]) == use:
            found[f"{match[1]}.{match[3]}.weight"] = each
    return found


def _count(layers: Sequence[Layer]) -> int:
    return sum(layer.uses_shared_block for layer in layers)


def repetition(index: int, recorded: int, count: int) -> int:
    """Return which of a run's repetitions is recorded at this index; the one that stands for several is their first."""
    return index if index <= HEAD else count - recorded + index
