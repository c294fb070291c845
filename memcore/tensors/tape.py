"""The tape: what one rank allocates and frees, in order, and in which part of the step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar
from weakref import ref

from memcore.dtypes import ITEMSIZE
from memcore.records import dataclass
from memcore.symbols import Axis, Rounded, Shape, Total, spell

ALIGNMENT = 512
"""The caching allocator rounds requests up to this many bytes (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)."""

CAPTURED = "CUDA graphs"
"""The pool of what runs in CUDA graphs."""

_Things = TypeVar("_Things")
Held = dict[str | None, _Things]
"""What layers leave behind, by the name of how often they repeat."""


@dataclass(frozen=True, slots=True)
class Block:
    """One kind of allocation: what the caching allocator was asked for, and by what."""

    rule: str
    """The operation or engine rule that allocated it; a key of `memcore.rules.table.RULES`."""
    module: str
    """Dotted module path, with `*` for the index of a layer."""
    shape: Shape
    dtype: str
    phase: str
    """The phase of the step it was allocated in."""
    pool: str
    """The stream it was allocated on: the caching allocator never reuses memory across streams."""
    recomputed: bool
    """Made while a checkpointed block runs forward again."""
    number: int
    """Which of several alike in one stretch of the step."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of events of one phase of the step; `repeats` names how often it happens in a row."""

    turn: tuple[int, int]
    """Step and micro-batch, as far as steps and micro-batches differ: 0 is the first, 1 any later one."""
    phase: str
    place: str
    """What runs: a name, or `run.repetition.position` of a layer, counting the recorded repetitions."""
    start: int
    end: int
    repeats: str | None


class Storage:
    """One allocation; it is freed when the last tensor that views it goes."""

    __slots__ = ("__weakref__", "_handed", "_tape", "block", "others")

    def __init__(self, tape: Recording, block: int) -> None:
        self._tape = tape
        self.block = block
        self.others: Storage | None = None
        """As much for each of the loop's iterations that this one stands for."""
        tape.events.append(block)

    def __del__(self) -> None:
        self._tape.events.append(~self.block)

    def release(self) -> None:
        """Free it now, whatever still refers to it (`untyped_storage().resize_(0)`)."""
        self._tape.events.append(~self.block)
        self._tape = _NOWHERE

    def handed_on(self) -> Storage:
        """The same allocation as a gradient that stays: `Recording.handed` learns when all else has let go of it."""
        tape = self._tape
        if tape.handed is None or tape.watched is not None or tape.flight is not None:
            return self
        if not isinstance(self, _HandedOn):
            self.__class__ = _HandedOn
            self._handed = stays = Storage.__new__(Storage)
            stays._tape, stays.block = tape, self.block  # noqa: SLF001 - one of its own
            stays.others, self.others = self.others, None
        return self._handed


class _HandedOn(Storage):
    """An allocation that is a parameter's gradient now: it goes with that."""

    __slots__ = ()

    def __del__(self) -> None:
        tape, each = self._tape, self._handed
        if tape.handed is not None:
            tape.handed.append(Handed(len(tape.events), len(tape.segments), tape.stretch, ref(each)))


Stretch = tuple[tuple[int, int], str, int, str | None]
"""What runs: its step and micro-batch, its place, the number of events before it, and how often it repeats."""


@dataclass(frozen=True, slots=True)
class Handed:
    """When nothing but a parameter held its gradient any more: it would go here, were there one to add it to."""

    events: int
    segments: int
    """How many there were before the stretch that ran."""
    stretch: Stretch | None
    storage: ref[Storage]


class _Alike:
    """Blocks that differ in nothing but their number."""

    __slots__ = ("blocks", "next", "round")

    def __init__(self) -> None:
        self.blocks: list[int] = []
        """Their indices by number."""
        self.next = self.round = 0
        """The number of the next one, and since when they are counted."""


class _Within:
    """A module that runs for a while; entered for every node of the graph, so it is not a generator."""

    __slots__ = ("_modules", "_path")

    def __init__(self, modules: list[str], path: str) -> None:
        self._modules, self._path = modules, path

    def __enter__(self) -> None:
        self._modules.append(self._path)

    def __exit__(self, *raised: object) -> None:
        self._modules.pop()


class Recording:
    """Records blocks and events.

    `events` holds a block's index when it is allocated and the bitwise complement of the index when it is freed.
    """

    pool = "default"
    """The stream whose pool tensors are allocated from."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.events: list[int] = []
        self.segments: list[Segment] = []
        self.recomputing = False
        self.turn = (0, 0)
        """The step and the micro-batch that are running."""
        self.gradients: set[int] = set()
        """Blocks that became the gradient of a parameter."""
        self.collectives: list[tuple[int, set[int]]] = []
        """The number of events before each collective, and the blocks that it reads or writes on its own stream."""
        self.savers: dict[int, dict[str, None]] = {}
        """For a block, the rules of the operations that keep it for their backward pass."""
        self.watched: list[ref[Storage]] | None = None
        """What the iteration of a loop allocates that stands for others, while it runs."""
        self.flight: list[tuple[ref[Storage], str, str | None]] | None = None
        """What a micro-batch allocates that stands for others in flight, with the place and how often it repeats."""
        self.handed: list[Handed] | None = None
        """Gradients that stay, in the order in which all else let go of them; None: nobody asks."""
        self._alike: dict[tuple[object, ...], _Alike] = {}
        self._round = 0
        """How often blocks were renumbered."""
        self._modules, self._phase = [""], ""
        self.stretch: Stretch | None = None
        """What is running; its number of events is that before it."""

    def allocate(self, shape: Shape, dtype: str, rule: str) -> Storage:
        """Allocate a block of `shape` elements of `dtype` for the module that is running."""
        key = (rule, self._modules[-1], shape, dtype, self._phase, self.pool, self.recomputing)
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = _Alike()
        if found.round != self._round:
            found.round, found.next = self._round, 0
        number = found.next
        found.next += 1
        if number == len(found.blocks):
            found.blocks.append(len(self.blocks))
            self.blocks.append(Block(*key, number))
        storage = Storage(self, found.blocks[number])
        if self.watched is not None:
            self.watched.append(ref(storage))
        if self.flight is not None:
            self.flight.append((ref(storage), self.place, self.repeats))
        return storage

    def multiply(self, storage: Storage, times: Axis) -> None:
        """Allocate as much again `times` times, each in a block of its own, to be freed with the first."""
        block = self.blocks[storage.block]
        each = Rounded(Total(spell(block.shape), (block.shape,)), ALIGNMENT // ITEMSIZE[block.dtype])
        last = storage
        while last.others is not None:
            last = last.others
        with self.at(block.module):
            last.others = self.allocate((times, each), block.dtype, block.rule)
        self.savers[last.others.block] = self.savers.get(storage.block, {})

    @property
    def here(self) -> str:
        """Return the module that is running."""
        return self._modules[-1]

    def module(self, path: str) -> AbstractContextManager[None]:
        """Run a submodule: what is allocated inside belongs to `path` below the module that is running."""
        parent = self._modules[-1]
        return self.at(f"{parent}.{path}" if parent else path)

    def at(self, path: str) -> AbstractContextManager[None]:
        """Run on behalf of the module `path`."""
        return _Within(self._modules, path)

    @contextmanager
    def stream(self, pool: str) -> Iterator[None]:
        """Allocate from the pool of another stream."""
        before, self.pool = self.pool, pool
        try:
            yield
        finally:
            self.pool = before

    @property
    def repeats(self) -> str | None:
        """Return the name of how often the stretch that is running happens."""
        return self.stretch[3] if self.stretch is not None else None

    @property
    def place(self) -> str:
        """Return the stretch that is running."""
        return self.stretch[1] if self.stretch is not None else ""

    def let_go(self, held: Held[Any], place: str) -> None:
        """Free what layers have left behind: what one made that stands for many, as often as it repeats."""
        for repeats in list(held):
            if repeats is not None and not self.recomputing:
                self.enter(self._phase, place, repeats)
                del held[repeats]
                self.enter(self._phase, place)
        held.clear()

    def enter(self, phase: str, place: str, repeats: str | None = None) -> None:
        """End the current segment and begin the next."""
        self.finish()
        self._round += 1
        self._phase = phase
        self.stretch = (self.turn, place, len(self.events), repeats)

    @contextmanager
    def aside(self, place: str) -> Iterator[None]:
        """Open a segment of its own within the current one, which then goes on."""
        before, repeats = self.place, self.repeats
        self.enter(self._phase, place)
        yield
        self.enter(self._phase, before, repeats)

    def finish(self) -> None:
        """End the current segment; one in which nothing has happened leaves no trace."""
        if self.stretch is not None and self.stretch[2] < len(self.events):
            turn, place, start, repeats = self.stretch
            self.segments.append(Segment(turn, self._phase, place, start, len(self.events), repeats))
        self.stretch = None


class _Unread(list[int]):
    """Events of storages that are gone already."""

    def append(self, event: int) -> None:
        """Leave it out, so that nothing grows with every recording."""


_NOWHERE = Recording()
"""Where storages that were freed by force end."""
_NOWHERE.events = _Unread()
