"""From networks to a row of data: tensors with shapes as formulas, which layers repeat, what an absent key means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from deriver import learning
from deriver.learning import Rows
from deriver.samples import INNER, Sample, Samples
from memcore.networks.formulas import evaluate, names

Path = tuple[str, ...]
"""The parts of a name, with a star for numbers that count."""
INDICES = ("i", "j", "k")


class NotUnderstood(Exception):
    """No formula was found."""


@dataclass
class Derived:
    """What was found of one class."""

    lists: dict[str, str] = field(default_factory=dict)
    tensors: list[list[str]] = field(default_factory=list)
    inner: list[list[str]] = field(default_factory=list)
    tied: list[list[str]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    bad: set[Path] = field(default_factory=set)
    """What has no formula: tensors, lists."""


def derive(samples: Samples, only: set[Path] | None = None) -> Derived:
    """The row of a class, or a part of it."""
    found = Derived()
    stars = _stars(samples)
    lists: dict[Path, str] = {}
    for path in sorted(stars, key=len):
        if only is not None and path not in only:
            continue
        lists[path] = _count(samples, path, found)
    found.lists = {_joined(path): text for path, text in lists.items()}
    for path, places in _grouped(samples, stars).items():
        if only is not None and path not in only:
            continue
        _tensor(samples, path, places, found)
    for path in dict.fromkeys(each for sample in samples.found for each in sample.inner):
        _inner(samples, path, found)
    for name in sorted({each for sample in samples.found for each in sample.tied}):
        _tied(samples, name, found)
    for text in (
        *found.lists.values(),
        *(each for row in (*found.tensors, *found.inner, *found.tied) for each in row[1:]),
    ):
        if text:
            found.used |= names(text) - set(INDICES)
    return found


@lru_cache(maxsize=1 << 18)
def _split(name: str) -> Path:
    """The parts of a name; `expert_0` is a list, too."""
    return tuple(re.sub(r"_(\d+)(?=\.|$)", r"_.\1", name).split("."))


def _joined(path: Path) -> str:
    return re.sub(r"_\.(\d)", r"_\1", ".".join(path))


def _stars(samples: Samples) -> set[Path]:
    """Lists of modules that are longer in some networks than in others, numbers before them replaced."""
    found: set[Path] = set()
    while True:
        lengths: dict[Path, set[int]] = {}
        for sample in samples.found:
            for before, length in _lengths(sample).items():
                lengths.setdefault(_starred(before, found), set()).add(length)
        more = {path for path, each in lengths.items() if len(each) > 1} - found
        if not more:
            return found
        shortest = min(map(len, more))
        found |= {path for path in more if len(path) == shortest}


def _starred(parts: Path, stars: set[Path]) -> Path:
    """A name with stars for the numbers of such lists."""
    found: list[str] = []
    for part in parts:
        found.append("*" if part.isdigit() and tuple(found) in stars else part)
    return tuple(found)


def _numbers(parts: Path, general: Path) -> tuple[int, ...]:
    return tuple(int(part) for part, each in zip(parts, general, strict=True) if each == "*")


Place = tuple[int, tuple[int, ...]]
"""The number of a network, and those in a name."""
Places = dict[Place, tuple[int, ...]]
"""Shapes by the number of the network and those in the name."""


def _grouped(samples: Samples, stars: set[Path]) -> dict[Path, Places]:
    found: dict[Path, Places] = {}
    for number, sample in enumerate(samples.found):
        for name, shape in sample.tensors.items():
            parts = _split(name)
            general = _starred(parts, stars)
            found.setdefault(general, {})[number, _numbers(parts, general)] = shape
    return found


def _places(samples: Samples, path: Path) -> list[tuple[int, tuple[int, ...]]]:
    """Every place in every network where a tensor of this name could be."""
    stars = [place for place, part in enumerate(path) if part == "*"]
    found = []
    for number, sample in enumerate(samples.found):
        seen = {
            before: length
            for before, length in _lengths(sample).items()
            if len(before) in stars and _fits(before, path[: len(before)])
        }
        found += [(number, each) for each in _combinations(path, (), seen)]
    return found


def _lengths(sample: Sample) -> dict[Path, int]:
    """Return how long every list of a network is, by what stands before the number; found once."""
    if not sample.lengths:
        for name in sample.tensors:
            parts = _split(name)
            for place, part in enumerate(parts):
                if part.isdigit():
                    before = parts[:place]
                    sample.lengths[before] = max(sample.lengths.get(before, 0), int(part) + 1)
    return sample.lengths


def _fits(parts: Path, path: Path) -> bool:
    return all(one == "*" or one == other for one, other in zip(path, parts, strict=True))


def _combinations(path: Path, start: Path, seen: dict[Path, int]) -> list[tuple[int, ...]]:
    place = len(start)
    while place < len(path) and path[place] != "*":
        place += 1
    if place == len(path):
        return [()]
    here = (*start, *path[len(start) : place])
    found = []
    for number in range(seen.get(here, 0)):
        found += [(number, *rest) for rest in _combinations(path, (*here, str(number)), seen)]
    return found


def _keys(samples: Samples, outline: str) -> list[list[str]]:
    """Keys to look at: those that change this tensor, then all that change anything."""
    near = [key for key, changed in samples.effective.items() if outline in changed and key in samples.declared]
    # What the configuration class makes of absent keys matters as much as the keys themselves.
    follows = moved(samples)
    every = [key for key in samples.declared if key in samples.effective or key in follows]
    related = [key for key in every if key in near or key in follows]
    every_varied = [key for key in samples.declared if key in samples.varied or key in follows]
    wide = [key for key in every_varied if key in every or key.rpartition(".")[2] in INNER]
    return [near, related, every, wide, every_varied]


def moved(samples: Samples) -> set[str]:
    """Keys whose value follows from others where the file gives none."""
    known = samples.rows.get("moved")
    if known is None or known[0] != len(samples.found):
        known = samples.rows["moved"] = len(samples.found), _moved(samples)
    return known[1]


def _moved(samples: Samples) -> set[str]:
    return {
        key
        for sample in samples.found
        for key, value in sample.values.items()
        if not samples.stated(sample, key) and samples.defaults.get(key) != value
    }


def _stated(samples: Samples, key: str) -> list[list[str]]:
    """Keys that an absent one may follow from: those that follow from nothing, then those before it."""
    follows = moved(samples)
    plain = [each for each in samples.declared if each in samples.varied and each not in follows]
    path = key.rpartition(".")[0]
    near = [each for each in plain if each.rpartition(".")[0] == path]
    others = [each for each in samples.declared if each in follows and each != key and each < key]
    return [near, plain, [*plain, *others]]


def _outline(path: Path) -> str:
    return _joined(tuple("0" if each == "*" or each.isdigit() else each for each in path))


def outlines(paths: set[Path]) -> tuple[str, ...]:
    """Return how tensors and lists are named where keys change them."""
    return tuple(map(_outline, paths))


def _first(samples: Samples, outline: str, places: list[Place], ask: Any) -> Any:
    """The first answer, with few keys or with more."""
    tried: list[list[str]] = []
    depth = len(places[0][1]) if places else 0
    for keys in _stated(samples, outline[1:]) if outline.startswith("=") else _keys(samples, outline):
        if keys not in tried:
            tried.append(keys)
            found = ask(_rows(samples, tuple(keys), tuple(places), depth))
            if found is not None:
                return found
    return None


def _rows(samples: Samples, keys: tuple[str, ...], places: tuple[Place, ...], depth: int) -> Rows:
    """The examples at these places; made once."""
    known = samples.rows.get((keys, places))
    if known is None:
        indices = INDICES[:depth]
        rows = [
            {**{key: samples.found[number].values.get(key) for key in keys}, **dict(zip(indices, numbers, strict=True))}
            for number, numbers in places
        ]
        known = samples.rows[keys, places] = Rows(rows, keys, indices)
    return known


def _number(samples: Samples, outline: str, targets: dict[Place, int]) -> str | None:
    """A formula for numbers at places, without the place if that decides nothing."""
    alike: dict[Place, set[int]] = {}
    for (number, _), value in targets.items():
        alike.setdefault((number, ()), set()).add(value)
    same = all(len(each) == 1 for each in alike.values())
    learning.start()
    for splits in (False, True):
        found: Any = None
        if same:
            values = [min(each) for each in alike.values()]
            found = _first(
                samples, outline, list(alike), lambda rows, v=values, s=splits: learning.number(rows, v, splits=s)
            )
        if found is None and len(alike) != len(targets):
            values = list(targets.values())
            found = _first(
                samples, outline, list(targets), lambda rows, v=values, s=splits: learning.number(rows, v, splits=s)
            )
        if found is not None:
            return str(found)
    return None


def _condition(samples: Samples, outline: str, holds: dict[Place, bool]) -> str | None:
    """A condition that holds at some places; what exists at the same places has the same."""
    key = ("when", outline[:1] == "=", tuple(holds.items()))
    if key not in samples.rows:
        samples.rows[key] = _sought(samples, outline, holds)
    found: str | None = samples.rows[key]
    return found


def _sought(samples: Samples, outline: str, holds: dict[Place, bool]) -> str | None:
    alike: dict[Place, set[bool]] = {}
    for (number, _), value in holds.items():
        alike.setdefault((number, ()), set()).add(value)
    found: Any = None
    learning.start()
    if all(len(each) == 1 for each in alike.values()):
        mask = sum(1 << place for place, each in enumerate(alike.values()) if True in each)
        found = _first(samples, outline, list(alike), lambda rows: learning.condition(rows, mask))
    if found is None and len(alike) != len(holds):
        mask = sum(1 << place for place, each in enumerate(holds.values()) if each)
        found = _first(samples, outline, list(holds), lambda rows: learning.condition(rows, mask))
    return found


def _count(samples: Samples, path: Path, found: Derived) -> str:
    """Return how long a list is."""
    depth = path.count("*")
    targets: dict[Place, int] = {}
    for number, numbers in _places(samples, path) if depth else [(n, ()) for n in range(len(samples.found))]:
        length = 0
        for name in samples.found[number].tensors:
            parts = _split(name)
            here, rest = parts[: len(path)], parts[len(path) :]
            if rest and rest[0].isdigit() and _fits(here, path) and _numbers(here, path) == numbers:
                length = max(length, int(rest[0]) + 1)
        targets[number, numbers] = length
    inside = {each for changed in samples.effective.values() for each in changed if each.startswith(_outline(path))}
    for outline in (*sorted(inside)[:1], ""):
        text = _number(samples, outline, targets)
        if text is not None:
            return text
    found.problems.append(f"length of {_joined(path)}")
    found.bad.add(path)
    return "0"


def _tensor(samples: Samples, path: Path, places: Places, found: Derived) -> None:
    outline = _outline(path)
    when = _condition(samples, outline, {each: each in places for each in _places(samples, path)})
    if when is None:
        found.problems.append(f"when {_joined(path)} exists")
        found.bad.add(path)
        when = "True"
    if len({len(shape) for shape in places.values()}) > 1:
        found.problems.append(f"axes of {_joined(path)}")
        found.bad.add(path)
        return
    axes = []
    for axis in range(len(next(iter(places.values())))):
        targets = {each: shape[axis] for each, shape in places.items()}
        text = _computed(samples, path, axis, targets) or _number(samples, outline, targets)
        if text is None:
            found.problems.append(f"axis {axis} of {_joined(path)}")
            found.bad.add(path)
            text = "0"
        axes.append(text)
    found.tensors.append([_joined(path), "" if when == "True" else when, *axes])


def _computed(samples: Samples, path: Path, axis: int, targets: dict[Place, int]) -> str | None:
    """The formula by which the code computes a size; where it has several, with the condition that chooses."""
    groups: dict[str, list[Place]] = {}
    for number, numbers in targets:
        known = samples.found[number].formulas.get(_name(path, numbers))
        if known is None:
            return None
        groups.setdefault(re.sub(r"\[\d+\]", "[#]", known[axis]), []).append((number, numbers))
    formulas: dict[str, set[Place]] = {}
    for outline, places in groups.items():
        for text, own in _filled(samples, outline, places, targets):
            formulas.setdefault(text, set()).update(own)
    if {place for own in formulas.values() for place in own} != {*targets}:
        return None
    right = {text: {place for place in targets if _holds(samples, text, place, targets)} for text in formulas}
    return _chosen(samples, _outline(path), right, {*targets})


def _name(path: Path, numbers: tuple[int, ...]) -> str:
    rest = iter(numbers)
    return _joined(tuple(str(next(rest)) if part == "*" else part for part in path))


def _filled(
    samples: Samples, outline: str, places: list[Place], targets: dict[Place, int]
) -> list[tuple[str, set[Place]]]:
    """Formulas with indices, as few as are right everywhere, and where they are."""
    holes, near = outline.count("[#]"), INDICES[: len(places[0][1])]
    choices = [f"{each}{step}" for each in near for step in ("", " - 1", " + 1")] + ["-1", "0", "1", "2", "3"]
    choices += [f"len(KEY) - {each}{step}" for each in near for step in (" - 1", "", " - 2")]
    found, left = [], {*places}
    options = [_indexed(outline, numbers) for numbers in product(choices, repeat=holes)] if holes <= 2 else []
    while left and len(found) < 4:
        best, most = "", set()
        for text in options:
            own = {place for place in left if _holds(samples, text, place, targets)}
            if len(own) > len(most):
                best, most = text, own
            if len(most) == len(left):
                break
        if not most:
            break
        found.append((best, most))
        left -= most
    return found


def _indexed(outline: str, numbers: tuple[str, ...]) -> str:
    """A formula with these indices in place of its holes."""
    for number in numbers:
        found = re.search(r"([\w.]+)\[#\]", outline)
        assert found is not None
        outline = f"{outline[: found.end(1)]}[{number.replace('KEY', found[1])}]{outline[found.end() :]}"
    return outline


def _values(samples: Samples, place: Place) -> dict[str, Any]:
    number, numbers = place
    return {**samples.found[number].values, **dict(zip(INDICES, numbers, strict=False))}


def _true(samples: Samples, text: str, place: Place) -> bool:
    try:
        return bool(evaluate(text, _values(samples, place)))
    except (TypeError, ValueError, ZeroDivisionError):
        return False


def _holds(samples: Samples, text: str, place: Place, targets: dict[Place, int]) -> bool:
    """Return whether a formula yields the size at a place."""
    try:
        found = evaluate(text, _values(samples, place))
    except (TypeError, ValueError, ZeroDivisionError, KeyError):
        return False
    return bool(found == targets[place])


def _chosen(samples: Samples, near: str, right: dict[str, set[Place]], places: set[Place]) -> str | None:
    """One formula of several, by the condition that tells where each is right."""
    right = {text: own & places for text, own in right.items() if own & places}
    order = sorted(right, key=lambda text: -len(right[text]))[:6]
    if order and right[order[0]] == places:
        return order[0]
    for text in order:
        others = {each: own for each, own in right.items() if each != text}
        elsewhere = set().union(*others.values()) if others else set()
        if right[text] | elsewhere != places:
            continue
        matters = {place: place in right[text] for place in places if not (place in right[text] and place in elsewhere)}
        when = _condition(samples, near, matters)
        if when is None:
            continue
        rest = {place for place in places if not _true(samples, when, place)}
        other = _chosen(samples, near, others, rest) if len(rest) < len(places) else None
        if other is not None:
            return f"({text}) if ({when}) else ({other})"
    return None


def _inner(samples: Samples, path: str, found: Derived) -> None:
    holds: dict[Place, bool] = {(n, ()): path in sample.inner for n, sample in enumerate(samples.found)}
    when = _condition(samples, "", holds)
    if when is None:
        found.problems.append(f"when {path} exists")
    sources = {sample.inner[path] for sample in samples.found if path in sample.inner}
    if len(sources) > 1:
        found.problems.append(f"class of {path}")
    name, config = min(sources)
    found.inner.append([path, "" if when in ("True", None) else when, config, name])


def _tied(samples: Samples, name: str, found: Derived) -> None:
    """Find when a parameter of an inner model is tied to another."""
    there = {(n, ()): name in sample.tied for n, sample in enumerate(samples.found) if _has(sample, name)}
    when = _condition(samples, "=", there)
    if when is None:
        found.problems.append(f"when {name} is tied")
    found.tied.append([name, "" if when in ("True", None) else when])


def _has(sample: Sample, name: str) -> bool:
    return any(name.startswith(f"{path}.") for path in sample.inner)


def rules(samples: Samples, used: set[str], found: Derived) -> dict[str, Any]:
    """Return what an absent key means: a value, a formula, or the length and the elements of a list."""
    meaning: dict[str, Any] = {}
    todo, done = sorted(used), set()
    while todo:
        key = todo.pop()
        if key in done:
            continue
        done.add(key)
        rule = _rule(samples, key, found)
        if rule is not None:
            meaning[key] = rule
        for text in rule if isinstance(rule, list) and rule and rule[0] in ("=", "list") else ():
            todo += sorted(names(text) - set(INDICES)) if text not in ("=", "list") else []
    return meaning


def _rule(samples: Samples, key: str, found: Derived) -> Any:
    above = key.rpartition(".")[0]
    absent = [
        n
        for n, sample in enumerate(samples.found)
        if not samples.stated(sample, key) and (not above or any(each.startswith(f"{above}.") for each in sample.given))
    ]
    values = [samples.found[n].values.get(key) for n in absent]
    if not values or all(each == values[0] for each in values):
        return values[0] if values else samples.defaults.get(key)
    if all(type(each) is int for each in values):
        text = _number(samples, f"={key}", {(n, ()): each for n, each in zip(absent, values, strict=True)})
        if text is not None:
            return ["=", text]
    if any(isinstance(each, list) for each in values) and all(isinstance(each, list | None) for each in values):
        # Where it is None, nothing asks for it.
        absent = [n for n, each in zip(absent, values, strict=True) if each is not None]
        values = [each for each in values if each is not None]
        texts = [*found.lists.values(), *(text for each in (*found.tensors, *found.inner) for text in each[1:])]
        indexed = any(f"{key}[" in text or f" in {key}" in text or f"sum({key}" in text for text in texts)
        rule = _list_rule(samples, f"={key}", absent, values, indexed)
        if rule is not None:
            return rule
    found.problems.append(f"what an absent {key} means")
    return None


def _list_rule(samples: Samples, near: str, absent: list[int], values: list[Any], indexed: bool) -> Any:
    """The length of an absent list and its elements, which do not matter where no formula reads one."""
    length = _number(samples, near, {(n, ()): len(each) for n, each in zip(absent, values, strict=True)})
    elements = {(n, (i,)): item for n, each in zip(absent, values, strict=True) for i, item in enumerate(each)}
    if length is None or not elements:
        return None
    kinds = sorted({repr(each) for each in elements.values()})
    if all(type(each) is int for each in elements.values()) and len(kinds) > 3:
        text = _number(samples, near, elements)
        return ["list", length, text] if text is not None else None if indexed else ["list", length, "None"]
    text = kinds[0]
    for kind in kinds[1:]:
        when = _condition(samples, near, {place: repr(each) == kind for place, each in elements.items()})
        if when is None:
            return None if indexed else ["list", length, "None"]
        text = f"{kind} if ({when}) else ({text})"
    return ["list", length, text]
