"""What other classes of a type have in place of a derived class's head: tensors that they lack, and their own.

Each is compared with a derived class under the same configurations, and proved on others that were not used.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import Any, NamedTuple

from deriver import building, sampling
from deriver.starts import STARTS
from memcore.networks.families import ALIASES, FAMILIES
from memcore.networks.families.multimodal import COMPOSITES
from memcore.networks.formulas import evaluate, names

LABELS = {"num_labels": 3}
PROOFS, TRIES, NEEDED, TOGETHER = 12, 30, 3, 3
SIZES = re.compile(rf"{sampling.SIZES.pattern}|num_labels|num_codevector\w*|.*_?(dim|hidden|size)\w*")


class NotAlike(Exception):
    """A class is not another with other tensors outside of its layers."""


class Built(NamedTuple):
    """A network's tensors without the prefix of its base model, those that are one under each of their names."""

    own: dict[str, tuple[int, ...]]
    groups: list[tuple[set[str], tuple[int, ...]]]
    inner: set[tuple[str, str, str]]
    formulas: dict[str, tuple[str, ...]]
    spelled: dict[str, str]


def _built(name: str, model_type: str, given: building.Flat, *, traced: bool = False) -> Built:
    config = building.make_config(model_type, given)
    model = building.build(name, config, 30) if not traced else building.traced(name, config, 30)
    prefix = f"{type(model).base_model_prefix}."
    own, inner, _ = building.tensors(model)
    groups: dict[int, tuple[set[str], tuple[int, ...]]] = {}
    for each, tensor in model.named_parameters(remove_duplicate=False):
        short = each.removeprefix(prefix)
        groups.setdefault(id(tensor), (set(), tuple(tensor.shape) or (1,)))[0].add(short)
    return Built(
        {each.removeprefix(prefix): shape or (1,) for each, shape in own.items()},
        list(groups.values()),
        {(place.removeprefix(prefix), where, cls) for place, (cls, where) in inner.items()},
        {each.removeprefix(prefix): text for each, text in building.formulas(model).items()} if traced else {},
        {each.removeprefix(prefix): each for each in own},
    )


def _plain_pattern(pattern: str, prefix: str) -> str:
    return pattern.removeprefix(f"{prefix}.")


def _matches(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", r"\d+"))


def _configurations(model_type: str, name: str) -> Iterator[building.Flat]:
    """The defaults with few layers and three labels, then other sizes until each key has had another value."""
    start = STARTS.get(model_type, {})
    flat = building.fields(building.make_config(model_type, start))
    whole = {**start, **building.kinds(model_type, flat), **LABELS}
    shrunk = {**whole, **sampling.shrunk(flat)}
    try:
        building.build(name, building.make_config(model_type, shrunk), 30)
    except Exception:  # transformers raises everything
        shrunk = whole
    yield shrunk
    rng = random.Random(f"heads {name}")
    keys = [key for key in flat if SIZES.fullmatch(key) and not sampling.NO_MATTER.fullmatch(key)]
    left: list[str] = []
    for _ in range(TRIES):
        left = left or rng.sample(keys, len(keys))
        chosen, left = left[:TOGETHER], left[TOGETHER:]
        found = {**shrunk, "num_labels": rng.choice((1, 2, 5, 9))}
        for key in chosen:
            found[key] = rng.choice(sampling.values(name, key, flat[key], rng))
        yield found


def head(model_type: str, name: str, like: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a class has other than a derived one of its type.

    Raises NotAlike.
    """
    prefix = building.find(like).base_model_prefix
    pairs: list[tuple[building.Flat, Built, Built]] = []
    for given in _configurations(model_type, name):
        try:
            pairs.append((given, _built(like, model_type, given), _built(name, model_type, given)))
        except Exception:  # transformers raises everything
            if not pairs:
                raise NotAlike("its defaults build no network") from None
            continue
        if len(pairs) > PROOFS:
            break
    if len(pairs) < NEEDED:
        raise NotAlike("too few configurations build a network")
    without = _without(row, prefix, pairs)
    added = _added(pairs)
    tensors = [*_formulas(model_type, name, added, pairs), *_switched(model_type, name, like, pairs)]
    used = sorted({each for _, *texts in tensors for text in texts if text for each in names(text)})
    flat = building.fields(building.make_config(model_type, STARTS.get(model_type, {})))
    values = {**flat, "num_labels": 2}
    return {
        "type": model_type,
        "like": like,
        "without": _prefixes(without, [pattern for pattern, *_ in row["tensors"]]),
        "tensors": tensors,
        "absent": {key: values[key] for key in used if key not in row["absent"]},
    }


def _switched(
    model_type: str, name: str, like: str, pairs: list[tuple[building.Flat, Built, Built]]
) -> Iterator[list[str]]:
    """Tensors that are there where a flag is on that the class itself asks, as `use_weighted_layer_sum`."""
    plain = {*_added(pairs)}
    flat = building.fields(building.make_config(model_type, STARTS.get(model_type, {})))
    asked = re.findall(r"config\.(\w+)", inspect.getsource(building.find(name).__init__))
    for flag in dict.fromkeys(each for each in asked if flat.get(each) is False):
        on = []
        for given, _, _ in pairs:
            changed = {**given, flag: True}
            try:
                on.append((changed, _built(like, model_type, changed), _built(name, model_type, changed)))
            except Exception:  # transformers raises everything
                continue
        if len(on) < NEEDED:
            continue
        found = {*_added(on)}
        if plain - found:
            raise NotAlike(f"{flag} takes away {sorted(plain - found)[:2]}")
        for each, _, *axes in _formulas(model_type, name, sorted(found - plain), on):
            yield [each, flag, *axes]


def _without(row: Mapping[str, Any], prefix: str, pairs: list[tuple[building.Flat, Built, Built]]) -> list[str]:
    """Patterns of the derived class that the other lacks."""
    found = []
    for pattern, *_ in row["tensors"]:
        wanted = _matches(_plain_pattern(pattern, prefix))
        there, lacks = 0, 0
        for _, one, other in pairs:
            known = {each: shape for group, shape in other.groups for each in group}
            for each, shape in one.own.items():
                if wanted.fullmatch(each):
                    there += each in known
                    lacks += each not in known
                    if each in known and known[each] != shape:
                        raise NotAlike(f"{each} has another shape")
        if there and lacks:
            raise NotAlike(f"{pattern} is there at times")
        if lacks:
            found.append(pattern)
    for _, one, other in pairs:
        if one.inner != other.inner:
            raise NotAlike(f"other models within it: {sorted(one.inner ^ other.inner)[:2]}")
    return found


def _prefixes(without: Sequence[str], every: Sequence[str]) -> list[str]:
    """The shortest starts of names that these have and no other has."""
    kept = [each for each in every if each not in without]
    found: list[str] = []
    for name in without:
        parts = name.split(".")
        starts = [*(".".join(parts[:place]) + "." for place in range(1, len(parts))), name]
        start = next((each for each in starts if not any(other.startswith(each) for other in kept)), None)
        if start is None:
            raise NotAlike(f"{name} is the start of another name")
        found.append(start)
    return list(dict.fromkeys(found))


def _added(pairs: list[tuple[building.Flat, Built, Built]]) -> list[str]:
    """Tensors that the derived class lacks, in every configuration."""
    every: list[set[str]] = []
    for _, one, other in pairs:
        inner = tuple(f"{place}." for place, _, _ in one.inner)
        fresh = set()
        for group, _ in other.groups:
            if not group & {*one.own} and not any(each.startswith(inner) for each in group if inner):
                fresh.add(next((each for each in sorted(group) if each in other.own), min(group)))
        every.append(fresh)
    if any(each != every[0] for each in every):
        raise NotAlike(f"{sorted(set.union(*every) - set.intersection(*every))[:2]} is there at times")
    return sorted(every[0])


def _formulas(
    model_type: str, name: str, added: list[str], pairs: list[tuple[building.Flat, Built, Built]]
) -> list[list[str]]:
    """The tensors with their axes as formulas that hold for every configuration."""
    given, _, first = pairs[0]
    try:
        texts = _built(name, model_type, given, traced=True).formulas if added else {}
    except Exception:  # numbers with formulas are not taken everywhere
        texts = {}
    values = [building.fields(building.make_config(model_type, each)) | _labels(each) for each, _, _ in pairs]
    source = inspect.getsource(inspect.getmodule(building.find(name)))
    said = {*re.findall(r"config\.(\w+)", source), *LABELS}
    asked = [key for key in values[0] if key.rpartition(".")[2] in said]
    found = []
    for each in added:
        shapes = [dict(_shapes(other))[each] for _, _, other in pairs]
        axes = []
        for place, size in enumerate(shapes[0]):
            text = texts[each][place] if each in texts and len(texts[each]) == len(shapes[0]) else None
            wanted = [shape[place] for shape in shapes]
            axes.append(_formula(each, size, text, wanted, values, asked))
        found.append([first.spelled.get(each, each), "", *axes])
    return found


def _labels(given: building.Flat) -> building.Flat:
    return {"num_labels": given["num_labels"]}


def _shapes(built: Built) -> Iterator[tuple[str, tuple[int, ...]]]:
    for group, shape in built.groups:
        for each in group:
            yield each, shape


def _formula(
    name: str, size: int, text: str | None, wanted: list[int], values: list[building.Flat], asked: Collection[str]
) -> str:
    """The code's own formula, a constant, or what has the size everywhere: a key, a product or a quotient of two.

    Keys are those that the class's module asks for.
    """
    numbers = {key: value for key, value in values[0].items() if type(value) is int and value > 0 and key in asked}
    varied = [key for key in sorted(numbers, key=_plainly) if len({each.get(key) for each in values}) > 1]
    keys = [key for key in dict.fromkeys((*varied, *numbers)) if numbers[key] == size]
    pairs = sorted(product(varied, numbers), key=lambda pair: _alike(*pair), reverse=True)
    products = [f"({one} * {other})" for one, other in pairs if numbers[one] * numbers[other] == size]
    quotients = [f"({one} // {other})" for one, other in pairs if numbers[one] == size * numbers[other]]
    plain = ("1",) if {*wanted} == {1} else ()
    for choice in (*((text,) if text else ()), *plain, *keys, *products, *quotients, str(size)):
        try:
            if [evaluate(choice, each) for each in values] == wanted:
                return choice
        except Exception:  # a formula of names that are no keys
            continue
    raise NotAlike(f"{name}: no formula of {wanted}")


def _alike(one: str, other: str) -> tuple[int, int]:
    """How many words two names have in common, and how many characters at their start."""
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return len({*one.split("_")} & {*other.split("_")}), start


def _plainly(key: str) -> tuple[bool, int, str]:
    return ("hidden_size" not in key and "d_model" not in key and key != "num_labels", len(key), key)


def heads(
    types: Sequence[str], table: Mapping[str, Any], known: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Every class without a row of its own of every derived type, or why it has none."""
    for model_type, kinds in table["types"].items():
        if model_type not in types or model_type in {*FAMILIES, *COMPOSITES, *ALIASES}:
            continue
        rows = {name: row for name, row in table["classes"].items() if row["type"] == model_type}
        likes = list(dict.fromkeys(each for each in (kinds.get("class"), kinds.get("base"), *rows) if each in rows))
        for name in building.classes(model_type):
            if name in rows or name in known or not likes:
                continue
            said = []
            for like in likes[:4]:
                try:
                    yield name, head(model_type, name, like, rows[like])
                    break
                except Exception as error:  # transformers raises everything
                    said.append(f"{like}: {type(error).__name__} {error}"[:150])
            else:
                yield name, "; ".join(said)
