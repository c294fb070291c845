"""Networks of one class under many configurations: what they are made of, by the keys that differ."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from typing import Any

from deriver import building, sampling
from deriver.building import Flat
from deriver.starts import HIDING, LEFT

SINGLE = 5
"""Other values tried for each key alone."""
INNER = (
    *("hidden_size", "d_model", "intermediate_size", "vocab_size", "embed_dim", "image_size", "patch_size"),
    "tie_word_embeddings",
)
"""Keys of a model within another that are varied there; all others are when that model is derived."""
BETWEEN = re.compile(
    r"merge|out_|output_dim|project|downsample|shuffle|scale_factor|query|num_image|pool|qformer|norm_output"
)
"""Keys that may decide what is between the two are varied as well, and keys that the composite's source names."""


@dataclass
class Sample:
    """One configuration and its network."""

    given: Flat
    values: Flat
    """Every key's value as the configuration class leaves it."""
    tensors: dict[str, tuple[int, ...]]
    inner: dict[str, tuple[str, str]]
    tied: set[str]
    """Parameters of models within it that are another's."""
    saved: dict[str, Any]
    formulas: dict[str, tuple[str, ...]]
    """Of tensors' axes, as the code computes them for this configuration."""
    lengths: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Of lists, by what stands before the number."""


@dataclass
class Samples:
    """Those of one class."""

    model_type: str
    name: str
    rng: random.Random
    start: Flat = field(default_factory=dict)
    """Keys without which there is no network."""
    defaults: Flat = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Other names of keys."""
    declared: list[str] = field(default_factory=list)
    """Keys of the class; others follow from them."""
    base: Sample | None = None
    found: list[Sample] = field(default_factory=list)
    varied: dict[str, list[Any]] = field(default_factory=dict)
    """Keys with values that a network can be built with."""
    effective: dict[str, set[str]] = field(default_factory=dict)
    """Keys that change something, with the tensors that they change, numbers in names replaced."""
    rigid: list[str] = field(default_factory=list)
    """Keys no other value of which could be built."""
    overwritten: set[str] | None = None
    rows: dict[Any, Any] = field(default_factory=dict)
    """Examples that were prepared before."""

    def stated(self, sample: Sample, key: str) -> bool:
        """Whether a configuration gives a key, by one of its names."""
        if key in self.ignored:
            return False
        others = (other for other, own in self.names.items() if own == key)
        return any(sample.given.get(each) is not None for each in (key, *others))

    @property
    def ignored(self) -> set[str]:
        """Keys whose value follows from others whatever the file says."""
        if self.overwritten is None:
            given: dict[str, list[bool]] = {}
            for sample in self.found:
                for key, value in sample.given.items():
                    if isinstance(value, int) and key in sample.values:
                        given.setdefault(key, []).append(sample.values[key] != value)
            self.overwritten = {key for key, each in given.items() if sum(each) > len(each) / 2 and len(each) > 2}
        return self.overwritten

    def without(self, key: str) -> Samples:
        """Those that leave a key as it is."""
        kept = [each for each in self.found if key not in each.given or each is self.base]
        varied = {name: values for name, values in self.varied.items() if name != key}
        effective = {name: changed for name, changed in self.effective.items() if name != key}
        return replace(self, found=kept, varied=varied, effective=effective, rows={})

    def restrict(self, key: str) -> None:
        """Leave a key as it is from now on."""
        kept = self.without(key)
        self.found, self.varied, self.effective, self.rows = kept.found, kept.varied, kept.effective, {}


def take(model_type: str, given: Flat, name: str) -> Sample:
    """One configuration's network."""
    config = building.make_config(model_type, given)
    asked = building.asked(name)
    values = {**asked, **{key: given[key] for key in asked if key in given}, **building.fields(config)}
    saved = json.loads(config.to_json_string(use_diff=True))
    try:
        model = building.traced(name, config, 20)
    except Exception:  # numbers with formulas are not taken everywhere
        model = building.build(name, building.make_config(model_type, given), 20)
    return Sample(given, values, *building.tensors(model), saved, building.formulas(model))


def gather(model_type: str, name: str, start: Flat, count: int = 45) -> Samples:
    """Vary each key alone, then several together."""
    found = Samples(model_type, name, random.Random(f"derive {name}"), start)
    config = building.make_config(model_type, start)
    found.defaults, found.names = building.fields(config), building.other_names(config)
    asked = building.asked(name)
    found.defaults = {**asked, **found.defaults}
    found.declared = sorted((building.own(config) | {*asked}) & {*found.defaults})
    shrunk = {
        **start,
        **HIDING.get(model_type, {}),
        **building.kinds(model_type, found.defaults),
        **sampling.shrunk(found.defaults, building.follows(config)),
    }
    try:
        found.base = take(model_type, shrunk, name)
    except Exception:
        shrunk = dict(start)
        found.base = take(model_type, shrunk, name)
    found.found.append(found.base)
    left = LEFT.get(name, ())
    for key in _keys(found):
        if key not in left:
            _alone(found, key, shrunk)
    found.rigid += left
    found.found += several(found, count)
    return found


def sizes(model_type: str, name: str, start: Flat) -> Samples:
    """Vary sizes alone; other keys that change something are rigid."""
    found = gather(model_type, name, start, 0)
    for key in [key for key in found.effective if not sampling.SIZES.fullmatch(key)]:
        found.restrict(key)
        found.rigid.append(key)
    found.found += several(found, 45)
    return found


def defaults(model_type: str, name: str, start: Flat) -> Samples:
    """The defaults of the class alone; all keys that change something, or may, are rigid."""
    config = building.make_config(model_type, start)
    found = Samples(model_type, name, random.Random(f"derive {name}"), start)
    found.defaults, found.names = building.fields(config), building.other_names(config)
    found.declared = sorted(building.own(config) & {*found.defaults})
    found.base = take(model_type, dict(start), name)
    found.found.append(found.base)
    inner = {f"{path}." for _, path in found.base.inner.values()}
    keys = [key for key in found.declared if not any(key.startswith(each) for each in inner)]
    found.rigid = [key for key in keys if not sampling.NO_MATTER.fullmatch(key)]
    return found


def _keys(samples: Samples) -> list[str]:
    assert samples.base is not None
    inner = {f"{path}." for _, path in samples.base.inner.values()}
    source = sampling.literals(samples.name)
    keys = []
    for key in samples.defaults:
        if sampling.NO_MATTER.fullmatch(key) or key not in samples.declared:
            continue
        last = key.rpartition(".")[2]
        within = any(key.startswith(each) for each in inner)
        named = re.search(rf"\b{re.escape(key)}\b", source) is not None
        if not within or named or last in INNER or BETWEEN.search(last) or sampling.LAYERS.fullmatch(key):
            keys.append(key)
    return keys


def _outline(sample: Sample) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, shape in sample.tensors.items():
        found.setdefault("".join("0" if each.isdigit() else each for each in name), []).append(shape)
    return {**found, **{f"{path}@{cls}": where for path, (cls, where) in sample.inner.items()}, "=": sample.tied}


def _alone(samples: Samples, key: str, shrunk: Flat) -> None:
    """Other values for one key."""
    assert samples.base is not None
    now = samples.base.values.get(key)
    choices = sampling.values(samples.name, key, now, samples.rng)
    others = [each for each in choices if each != now][:SINGLE]
    built = []
    before = _outline(samples.base)
    for value in others:
        try:
            sample = take(samples.model_type, {**shrunk, key: value}, samples.name)
        except Exception:
            continue
        built.append(value)
        after = _outline(sample)
        if after != before or sample.values != {**samples.base.values, key: value}:
            changed = {each for each in {*before, *after} if before.get(each) != after.get(each)}
            samples.effective.setdefault(key, set()).update(changed)
            samples.found.append(sample)
    if built:
        samples.varied[key] = [now, *built]
    elif others:
        samples.rigid.append(key)


def several(samples: Samples, count: int) -> list[Sample]:
    """Networks with several keys varied at once."""
    assert samples.base is not None
    effective = [key for key in samples.varied if key in samples.effective]
    silent = [key for key in samples.varied if key not in samples.effective]
    found: list[Sample] = []
    for attempt in range(4 * count) if samples.varied else ():
        if len(found) == count:
            break
        chance = (0.7, 0.5, 0.3, 0.15)[attempt % 4]
        given = dict(samples.base.given)
        for key in effective:
            if samples.rng.random() < chance:
                given[key] = samples.rng.choice(samples.varied[key])
        for key in samples.rng.sample(silent, min(len(silent), 2)):
            given[key] = samples.rng.choice(samples.varied[key])
        try:
            found.append(take(samples.model_type, given, samples.name))
        except Exception:
            continue
    return found
