"""The JSON Schema of the config, from the declarations of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memcore.config.schema import Section, Setting, within
from memcore.config.settings import MODEL, SECTIONS


def json_schema() -> dict[str, Any]:
    """Return the schema of a config file; `null` means the same as leaving a key out."""
    sections: dict[str, list[type[Section]]] = {}
    for each in SECTIONS:
        sections.setdefault(each.path, []).append(each)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "memcore config",
        "description": "One description of one training or serving job.",
        "type": "object",
        "properties": {MODEL: _setting(MODEL), **{path: _section(parts) for path, parts in sections.items()}},
        "additionalProperties": False,
        "required": [MODEL],
    }


def _section(parts: Sequence[type[Section]]) -> dict[str, Any]:
    """Return a section, which several declare together, or in its place its one setting with a short form."""
    allowed: list[dict[str, Any]] = [_object(parts), {"type": "null"}]
    short = next((getattr(each, each.shorthand) for each in parts if each.shorthand), None)
    if short is not None:
        allowed.insert(0, short.kind.schema())
    return {"anyOf": allowed}


def _object(parts: Sequence[type[Section]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for declared in (each for part in parts for each in vars(part).values()):
        if isinstance(declared, Setting):
            properties |= {name: _setting(declared) for name in (declared.name, *declared.aliases)}
    for inner in (inner for part in parts for inner in within(part)):
        properties[inner.path.rpartition(".")[2]] = _section([inner])
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _setting(setting: Setting[Any]) -> dict[str, Any]:
    default = f" Default: {setting.default}." if setting.default else ""
    allowed = setting.kind.schema()
    if not setting.required:
        allowed = {"anyOf": [allowed, {"type": "null"}]}
    return {"title": setting.label, "description": f"{setting.help}{default}", **allowed}
