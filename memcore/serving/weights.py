"""The weights of one rank: every tensor in its format, and what the allocator adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from memcore.memory.ledger import Entry
from memcore.messages import Message
from memcore.networks.network import SEEING, Model
from memcore.records import dataclass
from memcore.serving.blocks import block
from memcore.serving.checkpoint import Stored
from memcore.serving.entries import simplified, tensor
from memcore.serving.formats import BYTES, Format
from memcore.serving.slots import TENSOR, Slot, first_slots, last_slots, layer_slots
from memcore.serving.stages import Stage
from memcore.serving.tower_slots import tower_slots
from memcore.symbols import Shape, Total, product, spell
from memcore.units import ranges

CATEGORY = "weights"
_PLAIN = "the model's config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How weights are stored."""

    dtype: str
    """Of everything that is not quantized."""
    stored: Stored | None = None
    sizes: Mapping[str, int]
    """The model's, and those of the layout."""
    category: str = CATEGORY
    others: Mapping[str, int] = field(default_factory=dict)
    """Kinds of tensors that are split over another number of ranks than attention is."""
    as_stored: bool = False
    """Tensors are as the checkpoint has them: not merged, vocabulary tables not padded."""

    def sizes_of(self, slot: Slot) -> Mapping[str, int]:
        """Return the sizes by which a slot is split."""
        ranks = self.others.get(slot.kind)
        return self.sizes if ranks is None else {**self.sizes, TENSOR: ranks}


def weight_entries(model: Model, stage: Stage, storage: Storage, *, towers: bool = True) -> Iterator[Entry]:
    """Everything that one rank of a stage keeps of a model's weights; `towers`: those of images and sound, too."""
    path = model.network.path
    if stage.embeds:
        for slot, name, count in tower_slots(model) if towers else ():
            yield from _entries(slot, {name: count}, storage)
        for slot in first_slots(model.network.embedding_and_head, padded=not storage.as_stored):
            if towers or slot.kind not in SEEING:
                yield from _entries(slot, {"": 1}, storage)
    for layer, numbers in stage.kinds.items():
        for slot in layer_slots(layer, merged=not storage.as_stored):
            yield from _layered(slot, path, numbers, storage)
    if stage.samples:
        for slot in last_slots(
            model.network.embedding_and_head, shares_embedding=stage.embeds, padded=not storage.as_stored
        ):
            yield from _entries(slot, {"": 1}, storage)


def _layered(slot: Slot, path: str, numbers: tuple[int, ...], storage: Storage) -> Iterator[Entry]:
    """Yield a slot of layers of one kind, of which the checkpoint may store some differently."""
    named = frozenset() if storage.stored is None else storage.stored.numbers
    by_format: dict[int, tuple[Format | None, list[int]]] = {}
    unnamed: tuple[Format | None, list[int]] | None = None
    for number in numbers:
        if unnamed is not None and named is not None and number not in named:
            unnamed[1].append(number)
            continue
        chosen = _format(slot, f"{path}.{number}.", storage)
        same = by_format.setdefault(id(chosen), (chosen, []))
        same[1].append(number)
        if named is not None and number not in named:
            unnamed = same
    for chosen, found in by_format.values():
        yield from _stored(slot, f"{path}.{ranges(tuple(found))}.", len(found), storage, chosen)


def _entries(slot: Slot, places: Mapping[str, int], storage: Storage) -> Iterator[Entry]:
    for prefix, count in places.items():
        yield from _stored(slot, prefix, count, storage, _format(slot, prefix, storage))


def _format(slot: Slot, prefix: str, storage: Storage) -> Format | None:
    """Return how a matrix is stored; None: in the model's dtype."""
    if storage.stored is None or not slot.is_matrix:
        return None
    modules = [f"{prefix}{member}" for member in slot.members]
    for module in tuple(modules):
        head, experts, name = module.partition(".experts.")
        if experts:
            # Patterns name single experts with matrices of their own.
            modules.append(f"{head}.experts.0.{'down_proj' if 'down' in name else 'up_proj'}")
    return storage.stored.format_of(slot.kind, modules)


def _stored(slot: Slot, prefix: str, count: int, storage: Storage, chosen: Format | None) -> Iterator[Entry]:
    sizes, name = storage.sizes_of(slot), f"{prefix}{slot.name}"
    shape = (*slot.leading, *_rows(slot, sizes), *slot.columns)
    if chosen is None:
        title = "matrix" if slot.is_matrix else "vector"
        yield tensor(title, storage.category, shape, BYTES[storage.dtype], sizes, _PLAIN, module=name, copies=count)
        return
    many = product(slot.leading, sizes)
    rows, columns = sum(product(part, sizes) for part in slot.rows), product(slot.columns, sizes)
    for title, elements, itemsize in chosen.stored(rows, columns):
        own: Shape = shape if title == "weight" else (many * elements,)
        fields = {"module": name, "copies": count, "because": Message("stored as {}", chosen.title)}
        yield tensor(
            chosen.name if title == "weight" else Message("{} {}", chosen.name, title),
            storage.category,
            own,
            itemsize,
            sizes,
            chosen.source,
            **fields,
        )


def _rows(slot: Slot, sizes: Mapping[str, int]) -> Shape:
    """Return the rows of all merged parts."""
    parts = tuple(simplified(part, sizes) for part in slot.rows)
    return parts[0] if len(parts) == 1 else (Total(f"({' + '.join(map(spell, parts))})", parts),)


_REMAINDERS = "segments are multiples of 2 MiB, and remainders of at most 1 MiB stay with their tensor"
_WHOLE = "segments are multiples of 2 MiB; from 20 MiB on none is split, below up to 1 MiB stays with a tensor"


def unsplit(entries: list[Entry], category: str = CATEGORY, whole: int | None = None) -> Entry:
    """Return what the allocator's blocks are larger than the tensors in them; `whole`: those that are not split."""
    more = sum((block(entry.each, whole) - entry.each) * entry.copies for entry in entries if entry.range is None)
    return Entry(
        title="unsplit segment ends (allocator rounding)",
        category=category,
        each=more,
        text="Σ (block - tensor)",
        because=_REMAINDERS if whole is None else _WHOLE,
        source="pytorch, c10/cuda/CUDACachingAllocator.cpp",
    )


def tables(rows: int, width: int, dtype: str, copies: int, source: str) -> Entry:
    """Cosines and sines for every position, which servers compute once."""
    return tensor(
        "cosines and sines", CATEGORY, (rows, width), BYTES[dtype], {}, source,
        module="rotary_emb.cos_sin_cache", copies=copies,
    )  # fmt: skip
