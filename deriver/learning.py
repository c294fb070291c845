"""From examples to formulas: the simplest expression of keys that yields every number, or says when a tensor exists.

An example is a row of values by name; expressions are those that `memcore.networks.formulas` evaluates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from memcore.networks.formulas import evaluate

Row = dict[str, Any]
Vector = Any
_SMALL = 1024
SECONDS = 6.0
"""Of CPU time that a number is looked for, however busy the machine is."""
_until = [0.0]
SOME, MANY, MANY_CONDITIONS = 40, 24, 30


class Rows:
    """Examples of one tensor, with what can be said of them."""

    def __init__(self, rows: Sequence[Row], keys: Sequence[str], indices: Sequence[str]) -> None:
        self.rows = rows
        self.all = (1 << len(rows)) - 1
        self.indices = indices
        self.keys = keys
        self.columns = {key: [row[key] for row in rows] for key in (*keys, *indices)}
        self._numbers: list[tuple[str, list[int | None]]] | None = None
        self._atoms: list[tuple[str, int]] | None = None
        self.fits: dict[Any, str | None] = {}
        """Expressions that were looked for before."""

    def of(self, mask: int) -> list[int]:
        """The numbers of the examples in a set."""
        return [place for place in range(len(self.rows)) if mask >> place & 1]

    @property
    def numbers(self) -> list[tuple[str, list[int | None]]]:
        """Integers that examples have, by expression."""
        if self._numbers is None:
            self._numbers = list(self._integers())
        return self._numbers

    def _integers(self) -> Iterator[tuple[str, list[int | None]]]:
        plain, floats = [], []
        for key, column in self.columns.items():
            if any(type(each) is int for each in column) or any(type(each) is float for each in column):
                found = [int(each) if type(each) in (int, float) and each == int(each) else None for each in column]
                if any(each is not None for each in found):
                    plain.append((key, found))
            if any(type(each) is float for each in column):
                floats.append((key, column))
        yield from plain
        for key, column in self.columns.items():
            if any(isinstance(each, list) for each in column):
                yield from self._of_list(key)
        for key, ratios in floats:
            for other, values in plain:
                pairs = zip(values, ratios, strict=True)
                yield (
                    f"int({other} * {key})",
                    [None if a is None or not isinstance(r, (int, float)) else int(a * r) for a, r in pairs],
                )
        for index in self.indices:
            yield f"2 ** {index}", [2**value for value in self.columns[index]]

    def _of_list(self, key: str) -> Iterator[tuple[str, list[int | None]]]:
        indexed = [f"{key}[{index}]" for index in self.indices] + [f"{key}[{index} - 1]" for index in self.indices]
        for text in (f"len({key})", f"{key}[0]", f"{key}[1]", f"{key}[2]", f"{key}[-1]", f"sum({key})", *indexed):
            found = [self._value(text, row) for row in self.rows]
            if any(each is not None for each in found):
                yield text, found

    @staticmethod
    def _value(text: str, row: Row) -> int | None:
        try:
            found = evaluate(text, row)
        except (TypeError, ValueError, ZeroDivisionError):
            return None
        return found if type(found) is int else None

    @property
    def atoms(self) -> list[tuple[str, int]]:
        """Conditions with the examples for which they hold, the simplest first; each set of examples once."""
        if self._atoms is None:
            seen: dict[int, str] = {}
            for text, holds in self._conditions():
                mask = _mask(holds)
                if mask not in (0, self.all) and mask not in seen and self.all & ~mask not in seen:
                    seen[mask] = text
            self._atoms = [(text, mask) for mask, text in seen.items()]
        return self._atoms

    def _conditions(self) -> Iterator[tuple[str, Sequence[bool]]]:
        for key in self.keys:
            column = self.columns[key]
            if any(not each for each in column):
                yield key, [bool(each) for each in column]
            if any(each is None for each in column):
                yield f"{key} is None", [each is None for each in column]
            for word in sorted({each for each in column if isinstance(each, str)}):
                yield f"{key} == {word!r}", [each == word for each in column]
        yield from self._placed()
        integers = self._columns()
        for key, (values, known) in integers.items():
            for most in (0, 1, 2):
                yield f"{key} > {most}", known & (values > most)
            yield f"{key} == -1", known & (values == -1)
        for one, other in combinations(integers, 2):
            (values, known), (others, given) = integers[one], integers[other]
            both = known & given
            yield f"{one} == {other}", both & (values == others)
            yield f"{one} > {other}", both & (values > others)

    def _columns(self) -> dict[str, tuple[Vector, Vector]]:
        """Keys with integers: those, and which examples have one."""
        found = {}
        for key in self.keys:
            known = np.array([type(each) is int for each in self.columns[key]], dtype=bool)
            if known.any():
                values = [each if type(each) is int else 0 for each in self.columns[key]]
                found[key] = np.array(values, dtype=np.int64), known
        return found

    def _placed(self) -> Iterator[tuple[str, Sequence[bool]]]:
        columns = self._columns()
        for index in self.indices:
            places = np.array(self.columns[index], dtype=np.int64)
            yield f"{index} == 0", places == 0
            for number in range(2, 9):
                yield f"{index} % {number} == 0", places % number == 0
                yield f"({index} + 1) % {number} == 0", (places + 1) % number == 0
            for number in range(1, 5):
                yield f"{index} < {number}", places < number
            for key in sorted(self.keys, key=lambda each: "types" not in each):
                if any(isinstance(each, list) for each in self.columns[key]):
                    yield from self._listed(index, key)
            for key, (values, known) in columns.items():
                whole = known & (values != 0)
                divisor = np.where(whole, values, 1)
                yield f"{index} < {key}", known & (places < values)
                yield f"{index} == {key} - 1", known & (places == values - 1)
                yield f"{index} == {key}", known & (places == values)
                yield f"{index} % {key} == 0", whole & (places % divisor == 0)
                yield f"({index} + 1) % {key} == 0", whole & ((places + 1) % divisor == 0)
                yield f"{index} % {key} == 1", whole & (places % divisor == 1)
                yield f"{index} < {key} // 2", known & (places < values // 2)
                for other, (others, given) in columns.items():
                    if other != key:
                        yield f"{index} < {key} - {other}", known & given & (places < values - others)
                        yield f"{index} % {key} == {other}", whole & given & (places % divisor == others)
                    if other != key and key.endswith("layers") and other.endswith("layers"):
                        steps = np.where(whole & given & (others > 0), values // np.maximum(others, 1), 0)
                        step = np.maximum(steps, 1)
                        for rest in (0, 1):
                            text = f"{index} % ({key} // {other}) == {rest}"
                            yield text, (steps > 0) & (places % step == rest)
                        yield f"{key} // {other} == 1", steps == 1

    def _listed(self, index: str, key: str) -> Iterator[tuple[str, Sequence[bool]]]:
        here = f"{key}[{index}]"
        found = [self._any(here, row) for row in self.rows]
        for word in sorted({each for each in found if isinstance(each, str)}):
            yield f"{here} == {word!r}", [each == word for each in found]
        if any(type(each) in (int, bool) for each in found):
            yield here, [bool(each) for each in found]
        yield f"{index} in {key}", [self._holds(f"{index} in {key}", row) for row in self.rows]
        before, last = f"{key}[{index}] == {key}[{index} - 1]", f"{index} == len({key}) - 1"
        for text in (last, before):
            yield text, [self._holds(text, row) for row in self.rows]

    @staticmethod
    def _any(text: str, row: Row) -> Any:
        try:
            return evaluate(text, row)
        except (TypeError, ValueError, ZeroDivisionError):
            return None

    @classmethod
    def _holds(cls, text: str, row: Row) -> bool:
        return bool(cls._any(text, row))


def _mask(holds: Sequence[bool]) -> int:
    """A set of examples as the bits of a number."""
    packed = np.packbits(np.asarray(holds, dtype=bool), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def condition(rows: Rows, wanted: int, within: int | None = None, depth: int = 3) -> str | None:
    """Return the condition for something: `True`, one condition or several joined; None if no short one fits."""
    within = rows.all if within is None else within
    for most in range(depth + 1):
        found = _condition(rows, wanted & within, within, most)
        if found is not None:
            return found
    return None


def _condition(rows: Rows, wanted: int, within: int, depth: int) -> str | None:
    if time.process_time() > _until[0]:
        return None
    if wanted == within:
        return "True"
    if not wanted:
        return "False"
    if depth == 0:
        return None
    for text, mask in rows.atoms:
        if mask & within == wanted:
            return text
        if within & ~mask == wanted:
            return f"not ({text})"
    if depth == 1:
        return None
    for text, mask in rows.atoms:
        inside, outside = mask & within, within & ~mask
        if not inside or not outside:
            continue
        for side, other, name in ((inside, outside, text), (outside, inside, f"not ({text})")):
            if not wanted & other:
                found = _condition(rows, wanted & side, side, depth - 1)
                if found is not None:
                    return f"({name}) and ({found})"
            if wanted & other == other:
                found = _condition(rows, wanted & side, side, depth - 1)
                if found is not None:
                    return f"not ({name}) or ({found})"
    if depth >= 3 and len(rows.atoms) < 120:
        for text, mask in rows.atoms:
            inside, outside = mask & within, within & ~mask
            if inside and outside:
                one = _condition(rows, wanted & inside, inside, 1)
                two = one and _condition(rows, wanted & outside, outside, 1)
                if two is not None and one is not None:
                    return f"({one}) if ({text}) else ({two})"
    return None


def start() -> None:
    """Look for the next number for a while."""
    _until[0] = time.process_time() + SECONDS


def number(rows: Rows, targets: Sequence[int], *, splits: bool = True) -> str | None:
    """An expression for a number that examples have, perhaps one on each side of a condition."""
    for depth, composed in ((1, False), (1, True), (2, False)) if splits else ((0, False), (0, True)):
        if depth == 1 and composed and len(rows.atoms) > MANY_CONDITIONS:
            continue
        found = _split(rows, targets, rows.all, depth, composed)
        if found is not None:
            return found
    return None


def _split(rows: Rows, targets: Sequence[int], within: int, depth: int, composed: bool) -> str | None:
    if depth == 0:
        return _fit(rows, targets, within, composed)
    for text, mask in rows.atoms:
        inside, outside = mask & within, within & ~mask
        if not inside or not outside:
            continue
        small, large = sorted((inside, outside), key=int.bit_count)
        one = _fit(rows, targets, small, composed)
        if one is None:
            continue
        two = _fit(rows, targets, large, composed)
        if two is None and depth > 1:
            two = _split(rows, targets, large, depth - 1, composed)
        if two is not None:
            yes, no = (one, two) if small == inside else (two, one)
            return f"({yes}) if ({text}) else ({no})"
    return None


def _fit(rows: Rows, targets: Sequence[int], within: int, composed: bool) -> str | None:
    """One expression for all examples of a set; it is looked for on some of them."""
    key = (within, composed, tuple(targets))
    if time.process_time() > _until[0]:
        return None
    if key not in rows.fits:
        rows.fits[key] = _looked_for(rows, targets, rows.of(within), composed)
    return rows.fits[key]


def _looked_for(rows: Rows, targets: Sequence[int], places: list[int], composed: bool) -> str | None:
    some = places[:: max(1, len(places) // SOME)]
    found = _search(rows, targets, some, composed)
    if found is None or len(some) == len(places):
        return found
    if all(_value(found, rows.rows[place]) == targets[place] for place in places):
        return found
    other = [place for place in places if _value(found, rows.rows[place]) != targets[place]]
    return _search(rows, targets, sorted({*some, *other[:SOME]}), composed, places)


def _search(
    rows: Rows, targets: Sequence[int], places: list[int], composed: bool, proof: list[int] | None = None
) -> str | None:
    target = np.array([targets[place] for place in places], dtype=np.int64)
    found = _simple(rows, target, places, composed)
    if found is None or proof is None:
        return found
    return found if all(_value(found, rows.rows[place]) == targets[place] for place in proof) else None


def _value(text: str, row: Row) -> Any:
    try:
        return evaluate(text, row)
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def _simple(rows: Rows, target: Vector, places: list[int], composed: bool) -> str | None:
    if (target == target[0]).all():
        return str(target[0])
    known = []
    for text, column in rows.numbers:
        values = [column[place] for place in places]
        if any(each is None for each in values):
            continue
        vector = np.array(values, dtype=np.int64)
        if (vector == target).all():
            return text
        if (vector != vector[0]).any() or len(known) < 12:
            known.append((text, vector))
    known = known[:MANY]
    return _composed(target, known) if composed else _product(target, _factors(known), 3)


def _composed(target: Vector, known: list[tuple[str, Vector]]) -> str | None:
    if (target <= 0).any():
        known = known[:20]
    quotients = list(_quotients(known))
    for text, vector in quotients:
        if (vector == target).all():
            return text
    factors = _factors(known)
    found = _product(target, [*factors, *_factors(quotients)], 2)
    if found is not None:
        return found
    terms = [*known, *_pairs(known), *quotients]
    index = {vector.tobytes(): text for text, vector in reversed(terms)}
    for text, vector in terms:
        rest = target - vector
        if (rest == rest[0]).all():
            return f"{text} + {rest[0]}" if rest[0] > 0 else f"{text} - {-rest[0]}"
        other = index.get(rest.tobytes())
        if other is not None:
            return f"{text} + {other}"
    for text, vector in [*known, *quotients[:200]]:
        for factor in (1, -1, 2):
            rest = target - factor * vector
            if (rest > 0).all():
                found = index.get(rest.tobytes()) or _product(rest, factors, 2)
                if found is not None:
                    sign = "-" if factor < 0 else "+"
                    return f"{found} {sign} {text}" if abs(factor) == 1 else f"{found} + {factor} * {text}"
    return None


def _factors(known: list[tuple[str, Vector]]) -> list[tuple[str, Vector]]:
    """Those that can be factors."""
    return [(text, vector) for text, vector in known if vector.min() > 0 and vector.min() != vector.max()]


def _product(target: Vector, known: list[tuple[str, Vector]], depth: int) -> str | None:
    if target.min() == target.max():
        return str(target[0]) if 0 < target[0] <= _SMALL else None
    if depth == 0:
        return None
    wanted, first = target.tobytes(), int(target[0])
    for text, vector in known:
        if int(vector[0]) == first and vector.tobytes() == wanted:
            return _factor(text)
    for text, vector in known:
        if first % int(vector[0]) or (target % vector).any():
            continue
        found = _product(target // vector, known, depth - 1)
        if found is not None:
            return _factor(text) if found == "1" else f"{_factor(text)} * {found}"
    return None


def _factor(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith(("int(", "(")) else text


def _quotients(known: list[tuple[str, Vector]]) -> Iterator[tuple[str, Vector]]:
    for text, vector in known:
        for other, divisor in known:
            if other != text and (divisor > 0).all() and (vector >= divisor).any():
                yield f"({text} // {other})", vector // divisor
                yield f"(-(-{text} // {other}))", -(-vector // divisor)
        for divisor in (2, 3, 4, 8, 16, 32):
            yield f"({text} // {divisor})", vector // divisor
            yield f"(-(-{text} // {divisor}))", -(-vector // divisor)
        for multiple in (8, 16, 32, 64, 128, 256):
            yield f"(-(-{text} // {multiple}) * {multiple})", -(-vector // multiple) * multiple
        for multiple in (64, 128, 256):
            yield (
                f"(-(-(2 * {text} // 3) // {multiple}) * {multiple})",
                -(-(2 * vector // 3) // multiple) * multiple,
            )
            yield (
                f"(-(-(8 * {text} // 3) // {multiple}) * {multiple})",
                -(-(8 * vector // 3) // multiple) * multiple,
            )


def _pairs(known: list[tuple[str, Vector]]) -> Iterator[tuple[str, Vector]]:
    for number_, (text, vector) in enumerate(known):
        for factor in (2, 3, 4):
            yield f"{factor} * {_factor(text)}", factor * vector
        for other, another in known[number_:]:
            yield f"{_factor(text)} * {_factor(other)}", vector * another
            yield f"2 * {_factor(text)} * {_factor(other)}", 2 * vector * another
