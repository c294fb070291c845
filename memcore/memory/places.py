"""The moments of a step in words: its phases, and which layers a place of the timeline stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from memcore.networks.network import Model
from memcore.trace.recipe import HEAD, TAIL

PHASES: Mapping[str, str] = {
    "forward": "forward pass",
    "loss": "loss",
    "backward": "backward pass",
    "gradient_clipping": "gradient clipping",
    "optimizer_step": "optimizer step",
}
"""Phases of a step in order, in words."""

_LAYER = re.compile(r"(?:(\d+):)?(\d+)\.(\d+)\.(\d+)")


class Layers(NamedTuple):
    """Which layers a place of the timeline stands for: one, all from the first to the last, or each `step` from it."""

    kind: str
    """Whose they are, such as `vision `; empty for the decoder's."""
    first: int
    last: int
    step: int = 1


def place(name: str, model: Model) -> str:
    """Return a place of the timeline in words: `layer 0`, `layers 2 to 29`."""
    found = layers_of(name, model)
    if found is None:
        return name
    kind, first, last, step = found
    if first == last:
        return f"{kind}layer {first}"
    return f"{kind}layers {first} to {last}" if step == 1 else f"{kind}layers {first}, {first + step} … {last}"


def layers_of(name: str, model: Model) -> Layers | None:
    """Return the layers of a place; None for another place."""
    match = _LAYER.fullmatch(name)
    if match is None:
        return None
    tower, *numbers = match.groups()
    run, repetition, position = map(int, numbers)
    stack = model.network if tower is None else model.network.towers[int(tower)]
    runs = list(zip(stack.runs, model.repeats if tower is None else model.tower_repeats[int(tower)], strict=True))
    start = model.first_layer + sum(len(pattern) * repeats for pattern, repeats in runs[:run])
    start = model.starts[run] if model.starts and tower is None else start
    width, repeats = len(runs[run][0]), runs[run][1]
    learns = tower is None or run <= max(model.network.towers[int(tower)].taps)
    first, last = _repetitions(repetition, repeats) if learns else (repetition, repetition)
    low, high = (start + width * each + position for each in (first, last))
    kind = "" if tower is None else "vision " if len(model.network.towers) == 1 else f"vision {tower} "
    return Layers(kind, low, high, width)


def _repetitions(recorded: int, repeats: int) -> tuple[int, int]:
    """Return the first and the last repetition that a recorded one stands for."""
    if recorded < HEAD or repeats <= HEAD + TAIL:
        return recorded, recorded
    if recorded == HEAD:
        return HEAD, repeats - TAIL - 1
    actual = repeats - (HEAD + TAIL + 1) + recorded
    return actual, actual
