"""Derive what every `model_type` is made of, prove it on configurations it has not seen, and write it down.

.venv-validation/bin/python -m deriver [TYPE or CLASS ...] [--cache FOLDER] [--again] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import inspect
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from deriver import building, caches, deriving, heads, sampling
from deriver.samples import Sample, Samples, defaults, gather, several, sizes, take
from deriver.starts import BY_WORD, CLASSES, CONDITIONS, LABELLED, STARTS, start_of
from deriver.written import WRITTEN
from memcore.errors import MemcoreError
from memcore.networks import derived, derived_model, formulas
from memcore.networks.families import ALIASES, FAMILIES
from memcore.networks.families.multimodal import COMPOSITES

ROUNDS = 6
SECONDS = 150
RESTRICTIONS = 6
PROOFS = 30
TARGET = Path(__file__).parents[1] / "memcore/data/derived.json"


class NotProved(Exception):
    """Some configurations are not read right."""


def row_of(model_type: str, name: str, start: building.Flat, seconds: int) -> dict[str, Any]:
    """The row of a class, proved: of all its keys, else of sizes, else of its defaults; each is given so long."""
    said = []
    if name in WRITTEN:
        return _written_row(model_type, name, start)
    for choose in (gather, sizes, defaults):
        try:
            with building.limit(seconds, building.TooLong):
                return _labelled(name, _proved_row(choose(model_type, name, start)))
        except building.TooLong:
            said.append(f"{choose.__name__}: takes too long")
        except Exception as error:  # transformers raises everything
            said.append(f"{choose.__name__}: {type(error).__name__}: {error}"[:700])
    raise NotProved("; ".join(said))


def _written_row(model_type: str, name: str, start: building.Flat) -> dict[str, Any]:
    """A row that was written by hand, in whole or in part, proved."""
    samples = sizes(model_type, name, start)
    whole = "tensors" in WRITTEN[name]
    found = _row(defaults(model_type, name, start), model_type, {})[0] if whole else _proved_row(samples)
    row = {**found, **WRITTEN[name]}
    unseen = [*samples.found, *several(samples, PROOFS), *_whole(samples)]
    unseen = [each for each in unseen if all(each.given.get(key, only) == only for key, only in row["fixed"].items())]
    wrong = [sample.given for sample in unseen if not _right(row, name, sample)]
    if wrong:
        raise NotProved(f"{len(wrong)} of {len(unseen)} configurations, among them {wrong[0]}"[:700])
    return {**row, "proofs": len(unseen)}


def _labelled(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """The same with the head that more labels have."""
    head = LABELLED.get(name, ())
    names = {each for each, *_ in head}
    kept = [each for each in row["tensors"] if each[0] not in names]
    asked = {key for _, when, *_ in head if when for key in formulas.names(when)}
    fixed = {key: value for key, value in row["fixed"].items() if key not in asked}
    return {**row, "tensors": [*kept, *map(list, head)], "fixed": fixed} if head else row


def _by_word(row: dict[str, Any], values: building.Flat) -> dict[str, Any]:
    """The same with as many of some modules as a list has words."""
    known, start, key = BY_WORD.get(row["type"], ("", "", ""))
    if not known:
        return row
    tensors = [[name.replace(known, f"{start}.*."), *rest] for name, *rest in row["tensors"]]
    lists = {name.partition(known)[0] + start: f"len({key})" for name, *_ in row["tensors"] if known in name}
    absent = {**row["absent"], key: values[key]}
    return {**row, "tensors": tensors, "lists": {**row["lists"], **lists}, "absent": absent}


def _proved_row(samples: Samples) -> dict[str, Any]:
    """The row of a class, proved; keys for which no formula was found may only have their default."""
    name, moved = samples.name, deriving.moved(samples)
    fixed = {key: samples.base.values.get(key) for key in samples.rigid if key not in moved} if samples.base else {}
    wrong = ""
    for _ in range(RESTRICTIONS):
        row, wrong, blamed, bad = _proved(samples, name, fixed)
        if row is not None:
            return row
        key = _culprit(samples, blamed, bad)
        if key is None:
            break
        samples.restrict(key)
        fixed[key] = samples.base.values.get(key) if samples.base else None
    raise NotProved(wrong[:600])


def _proved(
    samples: Samples, name: str, fixed: dict[str, Any]
) -> tuple[dict[str, Any] | None, str, list[Sample], set[deriving.Path]]:
    """A row that reads unseen configurations right; else why there is none, some that it reads wrong, what is bad."""
    wrong, failing, bad = "", [], set()
    for _ in range(ROUNDS):
        row, problems, bad = _row(samples, samples.model_type, fixed)
        unseen = [*several(samples, PROOFS), *_whole(samples)]
        failing = [sample for sample in unseen if not _right(row, name, sample)]
        if not failing and not problems:
            return {**row, "proofs": len(unseen)}, "", [], set()
        wrong = "; ".join(problems) or f"{len(failing)} of {len(unseen)} unseen configurations"
        if problems:
            # More examples are no easier.
            break
        samples.found += failing
        samples.rows.clear()
    return None, wrong, failing, bad


def _culprit(samples: Samples, failing: list[Sample], bad: set[deriving.Path]) -> str | None:
    """The key without which the most is understood: fewest tensors remain without a formula."""
    candidates = [key for key in samples.varied if key in samples.effective and not sampling.LAYERS.fullmatch(key)]
    blamed = deriving.outlines(bad)
    near = [key for key in candidates if any(each.startswith(blamed) for each in samples.effective[key])]
    candidates = near or candidates
    best: tuple[int, int, str] | None = None
    for key in candidates:
        kept = samples.without(key)
        if len(kept.found) < 8:
            continue
        problems = len(deriving.derive(kept, bad or None).problems)
        spared = sum(key in sample.given for sample in failing)
        rank = (problems, -spared, key)
        best = rank if best is None or rank < best else best
    return best[2] if best else None


def _row(
    samples: Samples, model_type: str, fixed: dict[str, Any]
) -> tuple[dict[str, Any], list[str], set[deriving.Path]]:
    found = deriving.derive(samples)
    absent = deriving.rules(samples, found.used, found)
    row = {
        "type": model_type,
        "names": samples.names,
        "absent": absent,
        "words": _words(samples, set(absent)),
        "fixed": fixed,
        "lists": found.lists,
        "tensors": found.tensors,
        "inner": found.inner,
        **({"tied": found.tied} if found.tied else {}),
        **({"ignored": ignored} if (ignored := sorted(samples.ignored & {*absent})) else {}),
        "auto": [],
        "head": samples.name != building.base_name(model_type),
    }
    return row, found.problems, found.bad


def _words(samples: Samples, used: set[str]) -> dict[str, list[str]]:
    """Words that were seen of keys that take words."""
    found: dict[str, set[str]] = {}
    for sample in samples.found:
        for key in used:
            value = sample.values.get(key)
            for each in value if isinstance(value, list) else (value,):
                if isinstance(each, str):
                    found.setdefault(key, set()).add(each)
    return {key: sorted(each) for key, each in sorted(found.items())}


def _whole(samples: Samples) -> list[Sample]:
    """The defaults of the class, in full."""
    try:
        return [take(samples.model_type, samples.start, samples.name)]
    except Exception:
        return []


def _right(row: dict[str, Any], name: str, sample: Sample) -> bool:
    """Whether the row yields a network's tensors, from the file as it is saved and from the keys that were given."""
    plain = {**row, "inner": []}
    table = {"types": {}, "classes": {name: plain}, "heads": {}}
    derived.row_of.cache_clear()
    before, derived.derived = derived.derived, lambda: table  # type: ignore[assignment]
    try:
        nested = building.nest(sample.given)
        # A configuration without one of its parts is refused.
        whole = all(isinstance(nested.get(each.partition(".")[0]), dict) for each in row["absent"] if "." in each)
        for config in (sample.saved, nested) if whole else (sample.saved,):
            found = {
                f"{each.stack}.{each.layer}.{each.name}" if each.stack else each.name: each.shape or (1,)
                for each in derived.tensors(config, name)
            }
            if found != {key: shape or (1,) for key, shape in sample.tensors.items()}:
                return False
            keys = derived.Keys(config, row)
            inner = {
                place: (cls, where)
                for place, when, where, cls in row["inner"]
                if not when or derived.evaluate(when, keys)
            }
            if inner != sample.inner or set(derived.tied(row, keys)) != sample.tied:
                return False
    except MemcoreError:
        return False
    finally:
        derived.derived = before
        derived.row_of.cache_clear()
    return True


def work(todo: list[tuple[str, str]], cache: Path, *, again: bool, seconds: int) -> dict[str, dict[str, Any]]:
    """Derive classes, each for so long, and those of models within them that the written file lacks."""
    known = json.loads(TARGET.read_text(encoding="utf-8"))["classes"] if TARGET.exists() else {}
    found: dict[str, dict[str, Any]] = {}
    seen = set()
    starts: dict[str, building.Flat] = {}
    while todo:
        model_type, name = todo.pop(0)
        if name in seen:
            continue
        seen.add(name)
        file = cache / f"{name}.json"
        if again or not file.exists():
            started = time.time()
            try:
                row = row_of(model_type, name, starts.get(name, start_of(name, model_type)), seconds)
            except NotProved as error:
                row = {"type": model_type, "failed": str(error)}
            row["seconds"] = round(time.time() - started, 1)
            file.write_text(json.dumps(row), encoding="utf-8")
            sys.stdout.write(f"{name}: {row.get('failed', 'proved')} in {row['seconds']} s\n")
            sys.stdout.flush()
        found[name] = json.loads(file.read_text(encoding="utf-8"))
        for _, _, path, cls in found[name].get("inner", ()):
            whole = building.make_config(model_type, starts.get(name, start_of(name, model_type)))
            building.find(name)
            inner = building.type_within(whole, path, cls)
            if inner and (again or not (cache / f"{cls}.json").exists()):
                starts.setdefault(cls, STARTS.get(inner) or _within(whole, path, cls))
            if inner and (again or cls not in known):
                todo.insert(0, (inner, cls))
    return found


def _flat(config: dict[str, Any], path: str = "") -> building.Flat:
    """Keys with dots."""
    found: building.Flat = {}
    for key, value in config.items():
        found.update(_flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value})
    return found


def _within(config: Any, path: str, name: str) -> building.Flat:
    """What a configuration gives a model within it, where that model's own defaults describe no network."""
    inner = reduce(getattr, path.split("."), config)
    known = _flat(json.loads(inner.to_json_string(use_diff=True)))
    given = {key: value for key, value in known.items() if key in building.own(inner)}
    plain = {key: value for key, value in given.items() if not isinstance(value, list)}
    # The whole may set keys that its part does not declare.
    source = sampling.literals(name)
    asked = (key for key in known if f"config.{key.rpartition('.')[2]}" in source and key not in given)
    more = {key: known[key] for key in asked if not isinstance(known[key], list)}
    for choice in ({}, plain, given, {**plain, **more}, {**given, **more}):
        with contextlib.suppress(Exception):  # transformers raises everything
            building.build(name, building.make_config(inner.model_type, choice))
            return choice
    return {}


SHOWN = (
    *derived_model.HEADS,
    *derived_model.CHOSEN,
    *derived_model.WINDOW,
    *derived_model.LENGTHS,
    *derived_model.VOCABULARY,
)
"""Keys that memcore reads besides those in formulas."""


def _written(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with what an absent key means that memcore also shows; a class's start is not what its files leave out."""
    given = STARTS.get(row["type"], {})
    values = building.fields(building.make_config(row["type"], given))
    row = _by_word(row, values)
    asked = {key for text in CONDITIONS.get(row["type"], {}).values() for key in formulas.names(text)}
    shown = {key: value for key, value in values.items() if key.rpartition(".")[2] in SHOWN or key in asked}
    shown = {key: value for key, value in shown.items() if value is not None}
    kept = {key: value for key, value in row.items() if key not in ("seconds", "proofs")}
    kinds = CONFIG_MAPPING[row["type"]].sub_configs
    auto = sorted(name for name, kind in kinds.items() if kind is AutoConfig)
    names, others = building.older(row["type"], given)
    kept["names"] = {**names, **kept["names"]}
    fixed = _by_own_names({**dict.fromkeys(others), **_of_layers(row, values), **kept["fixed"]}, kept["names"], values)
    kept["fixed"] = {key: value for key, value in fixed.items() if key not in asked}
    if _ties_always(row["type"], given):
        kept["unties"] = True
    kept["tensors"] = [
        [name, next((text for part, text in known.items() if re.fullmatch(part, name)), when), *axes]
        for known in (CONDITIONS.get(row["type"], {}),)
        for name, when, *axes in row["tensors"]
    ]
    inside = tuple(f"{path}." for _, _, path, _ in row["inner"])
    outside = {key: value for key, value in values.items() if not key.startswith(inside)}
    kept["words"] = {**_kinds_of_layers(outside, {*row["absent"]}), **kept["words"]}
    absent = {**shown, **row["absent"]}
    absent |= {key: values.get(key) for key in CLASSES.get(name, {}) if key in absent}
    return {**kept, "auto": auto, "absent": absent}


def _kinds_of_layers(values: building.Flat, used: set[str]) -> dict[str, list[str]]:
    """Words of lists that no formula reads and that say what layers' feed-forward is: another is another network."""
    lists = {key: value for key, value in values.items() if key.rpartition(".")[2] == "mlp_layer_types"}
    return {key: sorted({*value}) for key, value in lists.items() if isinstance(value, list) and key not in used}


def _of_layers(row: dict[str, Any], values: building.Flat) -> building.Flat:
    """The number of layers, which may be no other where no formula says how long a list is."""
    return {key: values[key] for key in ("num_hidden_layers",) if key in values and not row["lists"]}


def _by_own_names(fixed: building.Flat, names: Mapping[str, str], values: building.Flat) -> building.Flat:
    """Return keys of which one value is described under the names that their class has for them."""
    return {names.get(key, key): values.get(names[key]) if key in names else each for key, each in fixed.items()}


def _ties_always(model_type: str, given: building.Flat) -> bool:
    """Whether the class of an encoder and decoder ties the head whatever a file says."""
    try:
        config = building.make_config(model_type, {**given, "tie_word_embeddings": False})
    except Exception:  # transformers raises everything
        return False
    return bool(config.is_encoder_decoder and config.tie_word_embeddings)


def write_file(rows: dict[str, dict[str, Any]], further: dict[str, dict[str, Any]] | None = None) -> None:
    """Write the data that memcore reads: rows that were derived now, and those that the file has of other classes.

    `further` are those of classes that differ from a derived one in their heads.
    """
    known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    proved = {name: row for name, row in rows.items() if "failed" not in row}
    others = {**known.get("heads", {}), **(further or {})}
    found = {**known.get("classes", {}), **{name: _written(name, row) for name, row in proved.items()}}
    classes = {name: {**row, "fixed": _deciding(row["fixed"])} for name, row in sorted(found.items())}
    types: dict[str, dict[str, str]] = {}
    for name, row in classes.items():
        kind = types.setdefault(row["type"], {})
        if name == building.base_name(row["type"]):
            kind["base"] = name
        if name == building.class_name(row["type"]):
            kind["class"] = name
        if name == building.causal_name(row["type"]):
            kind["causal"] = name
    others = {name: row for name, row in sorted(others.items()) if name not in classes}
    TARGET.write_text(_text(types, classes, others), encoding="utf-8")
    derived.derived.cache_clear()
    derived.row_of.cache_clear()
    for name, row in classes.items():
        if name in proved and name in (types[row["type"]].get("class"), derived_model.HEADED.get(row["type"])):
            row["cache"] = caches.proved(row["type"], name)
    TARGET.write_text(_text(types, classes, others), encoding="utf-8")


def _deciding(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys without a size in them."""
    return {key: value for key, value in fixed.items() if not sampling.HARMLESS.fullmatch(key)}


def _lines(rows: dict[str, dict[str, Any]]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in rows.items())


def _text(
    types: dict[str, dict[str, str]], classes: dict[str, dict[str, Any]], further: dict[str, dict[str, Any]]
) -> str:
    """The file, one class a line."""
    known = {*types, *FAMILIES, *COMPOSITES, *ALIASES}
    uses = {name: building.use(name) for name in sorted({*CONFIG_MAPPING, *building.types()} - known)}
    others = {name: use for name, use in uses.items() if use is not None}
    lines = [
        f'"others": {json.dumps(others, separators=(",", ":"))},\n"parts": {_parts()},\n"keys": {_keys(classes)},',
        f'"types": {json.dumps(dict(sorted(types.items())), separators=(",", ":"))}',
    ]
    tables = (f'"{name}": {{\n{_lines(rows)}\n}}' for name, rows in (("heads", further), ("classes", classes)))
    return "{\n" + lines[0] + "\n" + ",\n".join((lines[1], *tables)) + "}\n"


def _part(config: Any) -> dict[str, Any]:
    """What its sub-configurations are where a file has none, as far as that is other than their own defaults."""
    found: dict[str, Any] = {}
    for name, value in sorted(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            plain = json.loads(value.to_json_string(use_diff=True))
            try:
                usual = json.loads(type(value)().to_json_string(use_diff=True))
            except Exception:  # some have no defaults
                usual = {}
            other = {key: each for key, each in plain.items() if key not in usual or usual[key] != each}
            kept = {key: each for key, each in other.items() if not sampling.NO_MATTER.fullmatch(key)}
            kept.pop("transformers_version", None)
            # A size that follows from others may do so differently with these.
            with contextlib.suppress(Exception):
                again = json.loads(type(value)(**kept).to_json_string(use_diff=True))
                kept.update({key: each for key, each in plain.items() if key in usual and again.get(key) != each})
            found[name] = {**kept, **_part(value), "model_type": value.model_type}
    return found


def _parts() -> str:
    """What parts that a file leaves out are, by type, where the class describes a network by itself."""
    found = {}
    for model_type in sorted({*building.types()} - {*STARTS}):
        with contextlib.suppress(Exception):  # some classes have no defaults
            found[model_type] = _part(building.make_config(model_type, {}))
    return json.dumps({key: each for key, each in found.items() if each}, separators=(",", ":"))


def _keys(classes: Mapping[str, Mapping[str, Any]]) -> str:
    """The keys that the configuration class of each type declares, and those that every class has."""
    found = {}
    for model_type in sorted({row["type"] for row in classes.values()} & {*CONFIG_MAPPING}):
        kind = CONFIG_MAPPING[model_type]
        names = {each.name for each in dataclasses.fields(kind)} | {*kind.attribute_map}
        with contextlib.suppress(Exception):  # some classes have no defaults
            names |= {*vars(kind())}
        asked = set(re.findall(r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)[\"']", inspect.getsource(kind)))
        found[model_type] = " ".join(sorted(each for each in names | asked if not each.startswith("_")))
    return json.dumps(found, separators=(",", ":"))


def _heads(types: Sequence[str], *, write: bool) -> int:
    """Derive the heads of these types' classes, or of all."""
    table = json.loads(TARGET.read_text(encoding="utf-8"))
    found = {}
    for name, row in heads.heads(types or tuple(table["types"]), table):
        if isinstance(row, str):
            sys.stdout.write(f"{name}: {row}\n")
        else:
            found[name] = row
    sys.stdout.write(f"{len(found)} classes have a head of their own\n")
    if write:
        write_file({}, found)
    return 0


def main(arguments: list[str]) -> int:
    """Derive and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--cache", type=Path, default=building.CACHES / "rows")
    parser.add_argument("--rest", action="store_true", help="then all others")
    parser.add_argument("--again", action="store_true", help="also what is cached")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each class")
    parser.add_argument("--base", action="store_true", help="the classes of AutoModel too")
    parser.add_argument(
        "--heads", action="store_true", help="only classes that differ from derived ones in their heads"
    )
    parser.add_argument("--write", action="store_true", help="write memcore/data/derived.json")
    wanted = parser.parse_args(arguments)
    wanted.cache.mkdir(parents=True, exist_ok=True)
    building.quiet()
    if wanted.heads:
        return _heads(wanted.types, write=wanted.write)
    known = {*FAMILIES, *COMPOSITES, *ALIASES}
    names = [*wanted.types, *sorted({*building.types()} - {*wanted.types}, key=lambda each: (each in known, each))]
    names = wanted.types if wanted.types and not wanted.rest else names
    todo = [(kind, each) if (kind := building.type_of(each)) else (each, building.class_name(each)) for each in names]
    if wanted.base:
        todo += [(each, name) for each, _ in list(todo) if (name := building.base_name(each))]
    rows = work(todo, wanted.cache, again=wanted.again, seconds=wanted.seconds)
    failed = [name for name, row in rows.items() if "failed" in row]
    sys.stdout.write(f"{len(rows) - len(failed)} of {len(rows)} classes proved; not: {', '.join(failed)}\n")
    if wanted.write:
        write_file(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
