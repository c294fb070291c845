"""The file of a model's towers and projector (mmproj), which llama.cpp loads next to the text model.

Its tensors lie whole on the first GPU, however layers are split. What encoding a picture takes is not counted.

Sources: llama.cpp, conversion/base.py (`MmprojModel.tensor_force_quant`, `prepare_tensors`), tools/mtmd/clip.cpp
(`clip_model_loader::load_tensors`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from memcore.memory.ledger import Entry
from memcore.networks.network import SEEING, Model
from memcore.networks.weights import Weight
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes
from memcore.serving.weights import CATEGORY

HALF, FULL = "F16", "F32"


def has_towers(model: Model) -> bool:
    """Return whether a model sees or hears."""
    return next(_weights(model), None) is not None


def projector(model: Model, name: str) -> Entry:
    """Return what a file of type `name` takes on the GPU."""
    held = sum(times * _bytes(model, weight, name.upper()) for weight, times in _weights(model))
    source = "llama.cpp, conversion/base.py, MmprojModel"
    text = "towers and projector: vectors and positions in F32, convolutions in F16 or F32"
    return Entry(title=f"mmproj: {name}", category=CATEGORY, each=held, text=text, source=source)


def _weights(model: Model) -> Iterator[tuple[Weight, int]]:
    for tower, repeats in zip(model.network.towers, model.tower_repeats, strict=True):
        for pattern, times in zip(tower.runs, repeats, strict=True):
            yield from ((weight, times) for layer in pattern for weight in layer.weights())
        yield from ((weight, 1) for weight in tower.outer_weights)
    yield from ((weight, 1) for weight in model.network.embedding_and_head.others if weight.kind in SEEING)


def _bytes(model: Model, weight: Weight, name: str) -> int:
    """Return bytes of one tensor, or of a whole tower that is only counted; rows that blocks do not divide are F16."""
    shape = tuple(model.size(axis) for axis in weight.axes)
    if "." not in weight.name:
        shape = (shape[0] // _COUNTED, _COUNTED)
    if len(shape) == 1 or "position" in weight.name or "pos_emb" in weight.name:
        name = FULL
    elif len(shape) > _MATRIX:
        name = HALF if name == HALF else FULL
    elif shape[-1] % BLOCK_TYPES[name].elements:
        name = HALF
    return row_bytes(name, shape[-1]) * prod(shape[:-1])


_MATRIX = 2
_COUNTED = 32
"""Elements of a row where only their number is known: a block of Q8_0."""
