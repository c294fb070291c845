"""Networks that were derived from transformers: their tensors, by the formulas of `memcore/data/derived.json`.

`python -m deriver` writes that file; it is read only for a `model_type` that has no row among the families.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pkgutil import get_data
from typing import Any, NamedTuple

from memcore import limits
from memcore.errors import ConfigError
from memcore.messages import joined
from memcore.networks.formulas import evaluate, names
from memcore.units import approximate, shown

_INDICES = ("i", "j", "k")
_HEADS = re.compile(r"(num_)?(attention_|key_value_|kv_)?heads|n_heads?(_kv)?")
"""Keys of attention's heads, of which there is at least one."""
_NUMBERED = re.compile(r"_\.(\d)")


class Tensor(NamedTuple):
    """One parameter tensor of a configuration's network."""

    stack: str
    """The list of layers that it belongs to: `model.layers`; empty outside of layers."""
    layer: int
    name: str
    """Within its layer, or in full."""
    shape: tuple[int, ...]


@lru_cache(maxsize=1)
def derived() -> Mapping[str, Mapping[str, Any]]:
    """Rows by class, and the class of each `model_type`; written by the deriver."""
    found: Mapping[str, Mapping[str, Any]] = json.loads(get_data("memcore", "data/derived.json") or b"{}")
    return found


@lru_cache(maxsize=32)
def row_of(name: object) -> Mapping[str, Any] | None:
    """Return the row of a class: its own, or that of one that it is like, without some tensors and with its own."""
    table = derived()
    if not isinstance(name, str):
        return None
    row, head = table["classes"].get(name), table["heads"].get(name)
    if row is not None or head is None:
        return row
    like, without = table["classes"][head["like"]], tuple(head["without"])
    kept = [each for each in like["tensors"] if not each[0].startswith(without)]
    return {
        **like,
        "tensors": [*kept, *head["tensors"]],
        "absent": {**like["absent"], **head["absent"]},
        "cache": like.get("cache", _usual_cache(head["type"])),
    }


def _usual_cache(model_type: str) -> Any:
    """Return what is known of the cache of a type's usual class; its others have the same layers."""
    table = derived()
    return table["classes"].get(table["types"].get(model_type, {}).get("class"), {}).get("cache")


def cache_of(row: Mapping[str, Any]) -> Any:
    """Return what is known of a class's cache."""
    return row.get("cache", _usual_cache(row["type"]))


def first_class(config: Mapping[str, Any]) -> str:
    """Return the first class that a configuration names, empty where it names none."""
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def completed(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """A configuration with the parts that it leaves out, as its class in transformers has them, and which those are."""
    model_type = config.get("model_type")
    usual = derived()["parts"].get(model_type, {}) if isinstance(model_type, str) else {}
    return _completed(config, usual, "")


def _completed(config: Mapping[str, Any], usual: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], list[str]]:
    found, added = dict(config), []
    for name, part in usual.items():
        given = config.get(name)
        if given is None:
            found[name] = part
            added.append(f"{path}{name}")
        elif isinstance(given, Mapping) and given.get("model_type") in (None, part["model_type"]):
            inside = {key: each for key, each in part.items() if isinstance(each, Mapping) and "model_type" in each}
            found[name], more = _completed(given, inside, f"{path}{name}.")
            added += more
    return found, added


class Keys(Mapping[str, Any]):
    """The values of a configuration's keys: what the file says, or what an absent key means."""

    def __init__(self, config: Mapping[str, Any], row: Mapping[str, Any], path: str = "model") -> None:
        self.config, self.row, self.path = config, row, path
        self.more: Mapping[str, int] = {}
        """Numbers of layers."""
        self._known: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.row["absent"])

    def __len__(self) -> int:
        return len(self.row["absent"])

    def __getitem__(self, name: str) -> Any:
        if name in self.more:
            return self.more[name]
        if name not in self._known:
            self._known[name] = self._value(name)
        return self._known[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a key; None where it has none."""
        return self[name]

    def stated(self, name: str) -> Any:
        """Return what the file itself says."""
        if name in self.row.get("ignored", ()):
            return None
        if name == "num_labels" and isinstance(labels := self.config.get("id2label"), Mapping):
            return len(labels)
        for key in (name, *(other for other, own in self.row["names"].items() if own == name)):
            found: Any = self.config
            for part in key.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                return found
        return None

    def _value(self, name: str) -> Any:
        found = self.stated(name)
        if found is None:
            found = self._of_part(name)
        if found is not None:
            return self._checked(name, found)
        rule = self.row["absent"].get(name)
        if not isinstance(rule, list) or not rule or rule[0] not in ("=", "list"):
            return rule
        if rule[0] == "=":
            return evaluate(rule[1], self)
        length = self._checked(name, evaluate(rule[1], self))
        before, found = self.more, []
        for place in range(length or 0):
            self.more = {"i": place}
            found.append(evaluate(rule[2], self))
        self.more = before
        return found

    def _of_part(self, name: str) -> Any:
        """What a key of a model within means, where that is of another type than usual and calls it otherwise."""
        part, _, key = name.rpartition(".")
        usual = next((cls for _, _, where, cls in self.row["inner"] if where == part), None)
        config = self.stated(part) if part and part in self.row["auto"] else None
        if usual is None or not isinstance(config, Mapping) or not isinstance(config.get("model_type"), str):
            return None
        table = derived()
        kinds = table["types"].get(config["model_type"], {})
        row = row_of(kinds.get("class") or kinds.get("base"))
        if row is None or row["type"] == (row_of(usual) or {}).get("type"):
            return None
        return Keys(config, row, f"{self.path}.{part}")[row["names"].get(key, key)]

    def _checked(self, name: str, value: Any) -> Any:
        """Refuse what no network has."""
        last = name.rpartition(".")[2]
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, int) and not isinstance(each, bool) and abs(each) > limits.of_model(last):
                self.refuse(
                    name, "expected an integer of at most {}, found {}", limits.of_model(last), approximate(each)
                )
            if each == 0 and type(each) is int and _HEADS.fullmatch(last):
                self.refuse(name, "expected {}, found {}", "a positive integer", each)
            words = self.row["words"].get(name)
            if words is not None and isinstance(each, str) and each not in words:
                self.refuse(name, "found {}; allowed: {}", shown(each), joined(", ", words))
        return value

    def refuse(self, name: str, said: str, *values: object) -> None:
        """Raise a problem with a key: a sentence, or the template of one and its values."""
        raise ConfigError.at(f"{self.path}.{name}", said, *values)

    def check(self) -> None:
        """Refuse a part that is missing, and values of keys for which no formula was found."""
        for name in sorted({name.rpartition(".")[0] for name in self.row["absent"]} - {""}):
            if not isinstance(self.stated(name), Mapping):
                self.refuse(name, "missing; add the part of the configuration that has this name")
        for name in self.row["words"].keys() - self.row["absent"].keys():
            self._checked(name, self.stated(name))
        for name, only in self.row["fixed"].items():
            found = self.stated(name)
            # A flag that its class leaves at None is the same as one that is off.
            if found is not None and found != only and (found is not False or only is not None):
                self.refuse(name, "found {}, but only {} is supported for this family", shown(found), shown(only))


def tensors(config: Mapping[str, Any], name: str, path: str = "model", prefix: str = "") -> Iterator[Tensor]:
    """Yield every parameter of a class of transformers under a configuration.

    Raises ConfigError for what its formulas do not cover.
    """
    row = row_of(name)
    if row is None:
        raise ConfigError.at(path, "found {}, which is not supported in this family yet", name)
    keys = Keys(config, row, path)
    keys.check()
    try:
        yield from _own(row, keys, prefix)
        for place, when, inner, cls in row["inner"]:
            if not when or evaluate(when, keys):
                found = keys.stated(inner)
                if not isinstance(found, Mapping):
                    keys.refuse(inner, "expected an object, found {}", shown(found))
                within = f"{path}.{inner}"
                chosen = _class(found, cls, within) if inner in row["auto"] else cls
                others = {f"{prefix}{each}" for each in tied(row, keys)}
                inside = tensors(found, chosen, within, f"{prefix}{place}.")
                yield from (each for each in inside if each.stack or each.name not in others)
    except ConfigError:
        raise
    except (TypeError, ValueError, ZeroDivisionError, RecursionError):
        raise ConfigError.at(path, "the values of these keys contradict each other: {}", _blamed(row)) from None


def tied(row: Mapping[str, Any], keys: Keys) -> list[str]:
    """Return parameters of models within it that are another's, where the whole's keys decide."""
    return [name for name, when in row.get("tied", ()) if not when or evaluate(when, keys)]


def _blamed(row: Mapping[str, Any]) -> str:
    return ", ".join(sorted(row["absent"]))


PUBLISHED = {"exaone4_5_text": "exaone4", "granite_speech_qformer": "blip_2_qformer"}
"""Types in published files, and what transformers takes them for (LGAI-EXAONE/EXAONE-4.5-33B,
ibm-granite/granite-speech-3.2-8b)."""


def _class(config: Mapping[str, Any], usual: str, path: str) -> str:
    """The class of a model within another that takes any: that of its `model_type`, which may be another than usual."""
    table, model_type = derived(), config.get("model_type")
    model_type = PUBLISHED.get(model_type, model_type) if isinstance(model_type, str) else model_type
    row = row_of(usual)
    if row is not None and model_type in (None, row["type"]):
        return usual
    kinds = table["types"].get(model_type, {}) if isinstance(model_type, str) else {}
    # What predicts words after an encoder is no encoder with a decoder itself, and has cross-attention.
    wanted = "causal" if path.endswith(".decoder") else "class" if row is not None and row["head"] else "base"
    found = kinds.get(wanted)
    if found is None:
        raise ConfigError.at(
            f"{path}.model_type", "found {}, which is not supported in this family yet", shown(model_type)
        )
    return str(found)


def _own(row: Mapping[str, Any], keys: Keys, prefix: str) -> Iterator[Tensor]:
    """Yield the parameters of the class itself."""
    lengths: dict[tuple[str, tuple[int, ...]], int] = {}

    def length(path: str, numbers: tuple[int, ...]) -> int:
        if (path, numbers) not in lengths:
            lengths[path, numbers] = _integer(row["lists"][path], keys, numbers)
        return lengths[path, numbers]

    for pattern, when, *axes in row["tensors"]:
        parts = pattern.split(".")
        stars = [place for place, part in enumerate(parts) if part == "*"]
        paths = [".".join(parts[:place]) for place in stars]
        fixed = _constant(keys, when, axes)
        for numbers in _places(paths, length):
            shape = fixed if fixed is not None else _shape(keys, when, axes, numbers)
            if shape:
                named = list(parts)
                for place, number in zip(stars, numbers, strict=True):
                    named[place] = str(number)
                yield _tensor(prefix, named, stars if row["lists"] else _spelled(parts), shape)


def _tensor(prefix: str, parts: Sequence[str], stars: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of a name; `experts.expert_.0` is `experts.expert_0`."""
    if not stars:
        return Tensor("", 0, prefix + ".".join(parts), shape)
    first = stars[0]
    name = _NUMBERED.sub(r"_\1", ".".join(parts[first + 1 :]))
    return Tensor(prefix + ".".join(parts[:first]), int(parts[first]), name, shape)


def _spelled(parts: Sequence[str]) -> list[int]:
    """Return the place of a layer's number in a tensor's name, where a row has no formulas of lengths."""
    return [place for place, part in enumerate(parts[:-1]) if place and part.isdecimal()][:1]


def _places(paths: Sequence[str], length: Any) -> Iterator[tuple[int, ...]]:
    """Yield every place of a tensor in lists, one inside the other."""
    found: list[tuple[int, ...]] = [()]
    for path in paths:
        found = [(*each, number) for each in found for number in range(length(path, each))]
    yield from found


def _constant(keys: Keys, when: str, axes: Sequence[str]) -> tuple[int, ...] | None:
    """Return a shape that is the same everywhere, empty where the tensor is absent; None where its place matters."""
    if any(name in _INDICES for text in (when, *axes) if text for name in names(text)):
        return None
    return _shape(keys, when, axes, ())


def _shape(keys: Keys, when: str, axes: Sequence[str], numbers: Sequence[int]) -> tuple[int, ...]:
    keys.more = dict(zip(_INDICES, numbers, strict=False))
    there = not when or evaluate(when, keys)
    return tuple(_integer(axis, keys, numbers) for axis in axes) or (1,) if there else ()


def _integer(text: str, keys: Keys, numbers: Sequence[int]) -> int:
    """Return a size; ValueError where it is none."""
    keys.more = dict(zip(_INDICES, numbers, strict=False))
    found = evaluate(text, keys)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= limits.INTEGER:
        raise ValueError(text)
    return found


__all__ = ["Tensor", "derived", "row_of", "tensors"]
