"""The config in a URL fragment: readable, versioned, and reversible.

`#v1&model=llama-3.1-8b&engine=fsdp&gpus=8&seq=8192`: the settings that are given, by their short names. A model that
is not from the catalog is its config.json, deflated and in base64. Whatever comes from a URL is hostile until checked.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from memcore.config.kinds import Choices
from memcore.config.load import config_from_dict, get_setting
from memcore.config.settings import SETTINGS, Config, flag_of
from memcore.errors import ConfigError, Problem, nearest

VERSION = "v1"
LONGEST = 65536
"""Characters of a fragment that are read at most."""
LARGEST = 2**20
"""Bytes that a deflated model may grow to."""
_DEFLATED = "deflate:"
_SAFE = ":-._~"


def encode_fragment(config: Config) -> str:
    """The fragment of a config, without the `#`."""
    parts = [VERSION, f"model={_spell_model(config.model)}"]
    for path, each in SETTINGS.items():
        value = get_setting(config, path)
        if value is not None:
            parts.append(f"{flag_of(path)}={quote(each.kind.spell(value), safe=_SAFE)}")
    return "&".join(parts)


def decode_fragment(text: str) -> Config:
    """The config of a fragment, or of a whole URL with one.

    Raises ConfigError naming every part that cannot be understood.
    """
    version, *parts = text.rpartition("#")[2].split("&")
    if len(text) > LONGEST:
        raise ConfigError([Problem("link", f"longer than {LONGEST} characters")])
    if version != VERSION:
        raise ConfigError([Problem("link", f"found version {version[:20]!r}; this page reads {VERSION!r}")])
    paths = {flag_of(path): path for path in SETTINGS}
    data: dict[str, Any] = {}
    problems: list[Problem] = []
    for part in filter(None, parts):
        name, _, spelled = part.partition("=")
        try:
            if name == "model":
                data["model"] = _parse_model(unquote(spelled, errors="strict"))
            elif name in paths:
                _put(data, paths[name], SETTINGS[paths[name]].kind.parse(unquote(spelled, errors="strict")))
            else:
                problems.append(Problem(f"link: {name[:40]}", "unknown key", nearest(name, [*paths, "model"])))
        except ValueError as error:
            suggestion = error.suggestion if isinstance(error, Choices) else None
            problems.append(Problem(paths.get(name, name), str(error), suggestion))
    if problems:
        raise ConfigError(problems)
    return config_from_dict(data)


def _put(data: dict[str, Any], path: str, value: object) -> None:
    *sections, name = path.split(".")
    for each in sections:
        data = data.setdefault(each, {})
    data[name] = value


def _spell_model(model: str | Mapping[str, object]) -> str:
    if isinstance(model, str):
        return quote(model, safe=_SAFE + "/")
    packed = zlib.compress(json.dumps(dict(model), separators=(",", ":"), sort_keys=True).encode(), 9)
    return _DEFLATED + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _parse_model(text: str) -> str | dict[str, object]:
    if not text.startswith(_DEFLATED):
        return text
    packed = text.removeprefix(_DEFLATED)
    try:
        inflate = zlib.decompressobj()
        raw = inflate.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), LARGEST)
        found = json.loads(raw)
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        raise ValueError("the model in the link is damaged") from None
    if not isinstance(found, dict) or not inflate.eof:
        raise ValueError("the model in the link is damaged")
    return found
