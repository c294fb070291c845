"""The model that a script makes of a config which it writes or changes itself, or cuts to fewer layers.

Sources: transformers 5.23, configuration_utils.py (`from_pretrained` takes keys of the config as arguments),
models/auto/configuration_auto.py (`for_model`), modeling_utils.py (`from_pretrained(config=)`,
`resize_token_embeddings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from memcore.errors import MemcoreError
from memcore.formats.expressions import is_open
from memcore.formats.python import CUTS, Call, Change
from memcore.formats.tracked import DELETES, MODEL, SETS
from memcore.messages import Message
from memcore.networks.catalog import content_of, identified
from memcore.networks.families import FAMILIES
from memcore.networks.unknown import ALIASES
from memcore.records import dataclass

CONFIG = "config"
"""The role of a config, and the argument by which a model takes it."""
_CLASS = re.compile(r"(\w+)Config$")
_FIRST, _LOADS, _FOR_MODEL = "pretrained_model_name_or_path", "from_pretrained", "for_model"
_PARTS = ("text_config", "llm_config")
_SIZES = frozenset(name for names in ALIASES.values() for name in names)
_DEPTH = ALIASES["num_hidden_layers"]
_LAYERS = frozenset({"layers", "h", "layer", "blocks", "block"})
"""What transformers' models call the list of their layers (modeling_*.py)."""
_TOWERS = re.compile(r"vision|visual|audio|image|^encoder$")
_RESIZES = "resize_token_embeddings"
_DECIDED = frozenset({"vocab_size"})
"""Sizes that scripts take of their tokenizers; the config's own is close."""
_NO_SIZES = frozenset(
    {"model_type", _FIRST, "architectures", "torch_dtype", "dtype", "use_cache", "quantization_config"}
)
"""Arguments of configs that no network depends on, and those that are read elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A model as a script makes it."""

    model: Any
    """The name of its repository, or the content of its config.json; None where nobody knows it."""
    base: Any
    """The name of the repository that the config is of, or the type of the network."""
    lines: frozenset[int] = frozenset()
    """Those whose changes are in the model."""
    arguments: frozenset[str] = frozenset()
    """Those of the call that loads it or its config which are in the model."""
    notes: tuple[Message, ...] = ()


@lru_cache(maxsize=1)
def _types() -> Mapping[str, str]:
    """Types of networks by the first part of their config's class in small letters (configuration_*.py)."""
    return {re.sub(r"[_.-]", "", each): each for each in FAMILIES}


def type_of(name: str) -> str | None:
    """Return the type of the network that a class of transformers' configs describes; None for another class.

    >>> type_of("GPT2Config"), type_of("Qwen2MoeConfig"), type_of("LoraConfig")
    ('gpt2', 'qwen2_moe', None)
    """
    found = _CLASS.fullmatch(name)
    return None if found is None else _types().get(found[1].lower())


def makes_config(call: Call) -> bool:
    """Return whether a call makes or loads the config of a model."""
    return call.of.endswith("Config") if call.name in (_LOADS, _FOR_MODEL) else bool(type_of(call.name))


def configured(load: Call, found: Sequence[Call], changes: Iterable[Change] = ()) -> Configured:
    """Return the model that a call loads or makes, as the script describes and changes it; `found` are its calls."""
    changes = [*changes]
    config = _config_of(load, found)
    named = load.arguments.get(_FIRST, load.first) if load.name == _LOADS else _named_by(config)
    content = _content(named, config)
    said, lines = _said(load, config, content, changes)
    open_ones = {name for name, value in said.items() if is_open(value) and (name in _DECIDED or name not in _SIZES)}
    known = {name: value for name, value in said.items() if name not in open_ones}
    whole: Mapping[str, Any] = {**content, **known} if content else {}
    for line, fewer in _cuts(changes, whole):
        whole = fewer
        lines.add(line)
    notes = [
        Message("line {}: not read of {}: {}", config.line, config.name, name)
        for name in sorted(open_ones & _SIZES)
        if config is not None and config.name != _LOADS
    ]
    kept = {} if named is None else {"_name_or_path": named}  # as transformers keeps it
    changed = {**kept, **whole} if whole and (whole != content or named is None) else None
    return Configured(
        model=changed or named,
        base=named or whole.get("model_type"),
        lines=frozenset(lines if changed else ()),
        arguments=frozenset(known if content else ()),
        notes=tuple(notes),
    )


def _config_of(load: Call, found: Sequence[Call]) -> Call | None:
    """Return the call that makes the config which a model is loaded with or made of."""
    given = load.arguments.get(CONFIG, None if load.name == _LOADS else load.first)
    if not isinstance(given, str):
        return None
    made = [each for each in found if makes_config(each) and each.line <= load.line]
    name = given.lstrip("$")
    same = [each for each in made if each.into == name] or [each for each in made if name in (each.name, each.of)]
    return same[-1] if same else made[0] if len(made) == 1 else None


def _named_by(config: Call | None) -> Any:
    """Return the name of the repository whose config a call loads."""
    loads = config is not None and config.name == _LOADS
    return config.arguments.get(_FIRST, config.first) if config is not None and loads else None


def _content(named: Any, config: Call | None) -> Mapping[str, Any]:
    """Return what is known of a config before the script says something: a repository's, or the type of a class."""
    if named is None and config is not None:
        kind = config.arguments.get("model_type", config.first) if config.name == _FOR_MODEL else type_of(config.name)
        return {"model_type": kind} if kind in FAMILIES else {}
    try:
        return content_of(named) if isinstance(named, str) and identified(named).format is None else {}
    except MemcoreError:
        return {}


def _said(
    load: Call, config: Call | None, content: Mapping[str, Any], changes: Iterable[Change]
) -> tuple[dict[str, Any], set[int]]:
    """Return the keys of the config that a script sets, and the lines that set them after it is made."""
    call, lines = load if config is None else config, set[int]()
    made = config is not None and config.name != _LOADS
    said = {name: value for name, value in call.arguments.items() if made or name in _SIZES or name in content}
    for each in changes:
        later = (each.role == CONFIG and each.how == SETS and len(each.path) == 1
                 and config is not None and each.made in (config.line, 0))  # fmt: skip
        resized = each.role == MODEL and each.path == (_RESIZES,) and isinstance(each.first, int)
        if later and (each.path[0] in _SIZES or each.path[0] in content):
            said |= each.arguments
            lines.add(each.line)
        elif resized:
            said["vocab_size"] = each.first
            lines.add(each.line)
    return {name: value for name, value in said.items() if name not in _NO_SIZES and value is not None}, lines


def _cuts(changes: Iterable[Change], content: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the line of each cut of the list of layers, and the config of what is left."""
    for each in changes:
        cut = each.arguments.get(CUTS)
        path = each.path[:-1] if each.how == DELETES else each.path
        if each.role != MODEL or cut is None or path[-1:] == () or path[-1] not in _LAYERS:
            continue
        if any(map(_TOWERS.search, path)) and path[-2:] != ("encoder", "layer"):
            continue
        inner = next((name for name in _PARTS if isinstance(content.get(name), Mapping)), None)
        part = content[inner] if inner else content
        depth = next((name for name in _DEPTH if isinstance(part.get(name), int)), None)
        if depth is None:
            continue
        kept = range(part[depth])[slice(*cut)]
        left = [at for at in range(part[depth]) if at not in kept] if each.how == DELETES else [*kept]
        fewer = {name: _of_layers(value, part[depth], left) for name, value in part.items()} | {depth: len(left)}
        content = {**content, inner: fewer} if inner else fewer
        yield each.line, content


def _of_layers(value: Any, depth: int, left: Sequence[int]) -> Any:
    """Return a list with an item for each layer without those that are cut."""
    return [value[at] for at in left] if isinstance(value, list) and len(value) == depth else value
