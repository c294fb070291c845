"""Towers that no code describes line by line: how long what they read is, for the nearest parts to run over.

Sources: patches and positions are those of the towers' own tensors; 30 seconds of sound are 1,500 positions
(transformers 5.23, models/whisper, `max_source_positions`), which the audio towers of Qwen and Voxtral keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from memcore.messages import Message
from memcore.networks.network import SEEING, Model, Network, Tower
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Weight
from memcore.symbols import Shape

_SOUND = re.compile(r"audio|speech")
_PICTURE = re.compile(r"vision|visual|image|img|vpm|vit")
_SECONDS = 1500
"""Positions of 30 seconds of sound."""
_SIDE = 1024
"""Pixels along the side of an image of towers that take any size: half of Qwen2.5-VL's usual largest."""
_PATCH = 14


def outside_layers(network: Network) -> tuple[Weight, ...]:
    """Return parameters of towers and projectors that stand outside of the towers' layers."""
    of_towers = (weight for tower in network.towers for weight in tower.outer_weights)
    return (*of_towers, *(weight for weight in network.embedding_and_head.others if weight.kind in SEEING))


def seeing(network: Network) -> bool:
    """Return whether a network has towers or projectors."""
    return bool(network.towers or outside_layers(network))


def only_counted(network: Network) -> tuple[Weight, ...]:
    """Return what stands for a whole tower: nothing but the number of its parameters is known."""
    return tuple(
        weight for weight in network.embedding_and_head.others if weight.kind == "tower" and "." not in weight.name
    )


def positions_seen(network: Network) -> int | None:
    """Positions of what reads images or sounds alone, as its table of them says; None where it takes any length."""
    around = network.embedding_and_head
    tables = [weight.shape[:-1] for weight in around.others if weight.kind == "position" and len(weight.axes) > 1]
    sizes = [prod(each for each in table if isinstance(each, int)) for table in tables]
    return min(sizes, default=None)


def width(tower: Tower | Network) -> Shape | None:
    """Return the width of a stack's hidden states, None where its layers have several, or do not show it."""
    found = {
        part.down.outer if isinstance(part, FeedForward) else part.output.outer
        for run in tower.runs
        for layer in run
        for part in (*layer.mixers, *layer.ffns)
        if isinstance(part, Attention | FeedForward)
    }
    return found.pop() if len(found) == 1 else None


def positions(tower: int) -> str:
    """The symbol of how many positions of an image or a sound a tower runs over."""
    return Message("positions of tower {}", tower)


def rows(model: Model, sequence: int, side: int) -> tuple[int, ...]:
    """Values of these symbols, tower by tower; `side`: the image's pixels, 0 where the job does not say."""
    return tuple(_rows(model, tower, sequence, side) for tower in model.network.towers)


def _rows(model: Model, tower: Tower, sequence: int, side: int) -> int:
    near = list(_near(model.network, tower.path))
    patch = min((axis for weight in near if (axis := _patch(weight))), default=0)
    known = [model.size(weight.shape[:-1]) for weight in near if "pos" in weight.name and len(weight.axes) > 1]
    if _SOUND.search(tower.path):
        return min(known, default=_SECONDS)
    if not _PICTURE.search(tower.path):
        return sequence
    if side or not known:
        return ((side or _SIDE) // (patch or _PATCH)) ** 2
    return min(known)


def _patch(weight: Weight) -> int:
    """Return the side of a patch, of the convolution that reads patches."""
    last = weight.shape[-1]
    return last if "patch" in weight.name and len(weight.axes) > 3 and isinstance(last, int) and 1 < last < 65 else 0


def _near(network: Network, path: str) -> Iterator[Weight]:
    """Yield parameters outside the layers of the smallest module around them that has positions or reads patches."""
    found = outside_layers(network)
    while path := path.rpartition(".")[0]:
        inside = [weight for weight in found if weight.name.startswith(f"{path}.")]
        if any("pos" in weight.name or "patch" in weight.name for weight in inside):
            yield from inside
            return
