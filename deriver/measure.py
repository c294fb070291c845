"""How memcore reads every `model_type`, against the real network: exact, warned, silently wrong, refused or crashed.

    .venv-validation/bin/python -m deriver.measure [--cache FOLDER] [--only PREFIX] [--show OUTCOME] [--classes]
        [--seed WORD]

For each type it takes the defaults of its class and random variants, each as transformers saves it, and the defaults
as `{"model_type": …}` alone. Another seed draws other variants. With `--classes` it takes every class that an auto
class of transformers has for the type, with few layers and three labels.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deriver import building, sampling
from deriver.starts import STARTS
from memcore.networks.families import ALIASES, FAMILIES
from memcore.networks.families.multimodal import COMPOSITES

VARIANTS = 2
TRIES = 12


def truth(model_type: str, cache: Path, seed: str) -> dict[str, Any]:
    """The real parameters of a type's defaults and of random variants; kept in a file."""
    file = cache / f"{model_type}.{seed}.json"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_measure(model_type, seed)), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def _measure(model_type: str, seed: str) -> dict[str, Any]:
    rng = random.Random(f"{seed} {model_type}")
    name = building.class_name(model_type)
    try:
        default = building.make_config(model_type, STARTS.get(model_type, {}))
        found = {"class": name, "default": _case(name, default), "variants": []}
        flat = building.fields(default)
    except Exception as error:  # transformers raises everything
        return {"class": name, "failed": repr(error)[:300]}
    for _ in range(TRIES):
        if len(found["variants"]) == VARIANTS:
            break
        changes = _changes(name, flat, STARTS.get(model_type, {}), rng)
        try:
            config = building.make_config(model_type, changes)
            case = _case(name, config) if _runs(building.fields(config)) else None
        except Exception:
            continue
        if case is not None:
            found["variants"].append({**case, "changes": changes})
    return found


def _runs(values: dict[str, Any]) -> bool:
    """Return whether key heads divide the heads; otherwise a network can be built, but no step of it runs."""
    for key, keys in values.items():
        heads = values.get(key.replace("key_value_heads", "attention_heads"))
        if key.endswith("num_key_value_heads") and type(keys) is type(heads) is int and (keys < 1 or heads % keys):
            return False
    return True


def _changes(name: str, flat: dict[str, Any], start: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Other values for a few keys."""
    keys = [key for key in flat if not sampling.NO_MATTER.fullmatch(key)]
    chosen = rng.sample(keys, min(len(keys), rng.randint(2, 5)))
    found = {**start, **sampling.shrunk(flat)}
    for key in chosen:
        found[key] = rng.choice(sampling.values(name, key, flat[key], rng))
    return found


def _one_key(model_type: str, cache: Path) -> dict[str, Any]:
    """The real parameters with one key changed at a time; kept in a file."""
    file = cache / f"{model_type}.keys.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    rng, name = random.Random(f"keys {model_type}"), building.class_name(model_type)
    flat = building.fields(building.make_config(model_type, STARTS.get(model_type, {})))
    shrunk, found = {**STARTS.get(model_type, {}), **sampling.shrunk(flat)}, []
    for key in flat:
        if sampling.NO_MATTER.fullmatch(key):
            continue
        others = [each for each in sampling.values(name, key, flat[key], rng) if each != flat[key]]
        for value in rng.sample(others, min(2, len(others))):
            changes = {**shrunk, key: value}
            try:
                case = _case(name, building.make_config(model_type, changes))
            except Exception:
                continue
            found.append({**case, "changes": {key: value}})
    file.write_text(json.dumps({"variants": found}), encoding="utf-8")
    return {"variants": found}


LABELS = {"num_labels": 3}


def _classes(model_type: str, cache: Path) -> list[dict[str, Any]]:
    """The real parameters of every class of a type, with few layers; kept in a file."""
    file = cache / f"{model_type}.classes.json"
    if file.exists():
        return list(json.loads(file.read_text(encoding="utf-8")))
    start = STARTS.get(model_type, {})
    found = []
    for name in building.classes(model_type):
        try:
            flat = building.fields(building.make_config(model_type, start))
            config = building.make_config(model_type, {**start, **sampling.shrunk(flat), **LABELS})
            found.append({"class": name, **_case(name, config)})
        except Exception as error:  # transformers raises everything
            found.append({"class": name, "failed": repr(error)[:200]})
    file.write_text(json.dumps(found), encoding="utf-8")
    return found


def _written(model_type: str) -> dict[str, Any]:
    """What a file with few layers and three labels says."""
    start = STARTS.get(model_type, {})
    flat = building.fields(building.make_config(model_type, start))
    labels = {str(number): f"LABEL_{number}" for number in range(LABELS["num_labels"])}
    return {**building.nest({**start, **sampling.shrunk(flat)}), "model_type": model_type, "id2label": labels}


def by_class(only: str, cache: Path, show: str, kept: Path | None) -> int:
    """Print how every class that a file may name is read; keep cases that are exact."""
    counts: Counter[str] = Counter()
    lines = []
    for model_type in building.types():
        exact: dict[str, int] = {}
        for case in _classes(model_type, cache) if model_type.startswith(only) else ():
            found, text = (
                ("transformers fails", case["failed"])
                if "failed" in case
                else outcome(case["config"], case["parameters"])
            )
            counts[found] += 1
            if show and show in found:
                sys.stdout.write(f"{model_type} {case['class']}: {found} {text}\n")
            if kept and found.startswith("exact"):
                short = {**_written(model_type), "architectures": [case["class"]]}
                if outcome(short, case["parameters"])[0].startswith("exact"):
                    exact[case["class"]] = case["parameters"]
        if exact:
            row = {"config": {key: value for key, value in _written(model_type).items() if key != "id2label"}}
            lines.append(json.dumps({**row, "parameters": exact}))
    if kept:
        kept.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    sys.stdout.write("classes: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()) + "\n")
    return 0


def _case(name: str, config: Any) -> dict[str, Any]:
    saved = json.loads(config.to_json_string(use_diff=True))
    model = building.build(name, config, 120)
    return {
        "config": {**saved, "architectures": [name.partition("@")[0]]},
        "parameters": sum(each.numel() for each in model.parameters()),
    }


def outcome(config: dict[str, Any], parameters: int) -> tuple[str, str]:
    """Return how memcore reads a config."""
    from memcore.errors import MemcoreError
    from memcore.networks.read import read_model

    try:
        model = read_model(config)
    except MemcoreError as error:
        return "refused", str(error)[:400]
    except Exception as error:
        return "crash", repr(error)[:400]
    if parameters - model.parameters in (0, sum(model.published_extras.values())):
        return "exact with a warning" if model.warnings else "exact", ""
    text = f"{model.parameters} instead of {parameters} ({model.parameters / parameters - 1:+.2%})"
    return ("wrong with a warning" if model.warnings else "silently wrong"), text


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=building.CACHES / "measure")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", default="measure", help="word that random variants follow from")
    parser.add_argument("--show", default="")
    parser.add_argument("--keys", action="store_true", help="variants with one key changed at a time")
    parser.add_argument("--classes", action="store_true", help="every class of a type, by the name that a file gives")
    parser.add_argument("--truth", type=Path, help="where to write cases of derived types that are exact")
    wanted = parser.parse_args(arguments)
    kept: list[str] = []
    building.quiet()
    if wanted.classes:
        wanted.cache.mkdir(parents=True, exist_ok=True)
        return by_class(wanted.only, wanted.cache, wanted.show, wanted.truth)
    by_hand = {*FAMILIES, *COMPOSITES, *ALIASES}
    counts: dict[str, Counter[str]] = {"defaults": Counter(), "alone": Counter(), "variants": Counter()}
    for model_type in building.types():
        if not model_type.startswith(wanted.only):
            continue
        real = truth(model_type, wanted.cache, wanted.seed)
        if "failed" in real:
            counts["defaults"]["transformers fails"] += 1
            continue
        default = real["default"]
        if wanted.keys:
            real = {**real, **_one_key(model_type, wanted.cache)}
        cases = [("defaults", default)]
        if model_type not in STARTS:  # the class's own defaults make no network
            cases.append(("alone", {**default, "config": {"model_type": model_type}}))
        for kind, case in [*cases, *(("variants", each) for each in real["variants"])]:
            found, text = outcome(case["config"], case["parameters"])
            counts[kind][found] += 1
            if found == "exact" and kind != "alone" and model_type not in by_hand:
                kept.append(json.dumps({"config": case["config"], "parameters": case["parameters"]}, sort_keys=True))
            if wanted.show and wanted.show in found:
                sys.stdout.write(f"{model_type} {kind}: {found} {text} {json.dumps(case.get('changes', {}))[:200]}\n")
    if wanted.truth:
        wanted.truth.write_text("[\n" + ",\n".join(kept) + "\n]\n", encoding="utf-8")
    for kind, found in counts.items():
        sys.stdout.write(f"{kind}: " + ", ".join(f"{count} {name}" for name, count in found.most_common()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
