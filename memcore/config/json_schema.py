"""The JSON Schema of the config, from the one schema."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from memcore.config.schema import Setting
from memcore.config.settings import Config


def json_schema() -> dict[str, Any]:
    """The schema of a config file; `null` means the same as leaving a key out."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "memcore config",
        "description": "One description of one training or serving job.",
        **_object(Config),
    }


def _object(cls: type) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    for each in fields(cls):
        setting: Setting | None = each.metadata.get("setting")
        if setting is None:
            properties[each.name] = _section(each.metadata["of"], each.metadata["shorthand"])
            continue
        properties |= {name: _setting(setting) for name in (each.name, *setting.aliases)}
        if setting.required:
            required.append(each.name)
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _section(cls: type, shorthand: str | None) -> dict[str, Any]:
    """A section, or in its place its one setting with a short form."""
    allowed = [_object(cls), {"type": "null"}]
    if shorthand:
        short: Setting = next(each.metadata["setting"] for each in fields(cls) if each.name == shorthand)
        allowed.insert(0, short.kind.schema())
    return {"anyOf": allowed}


def _setting(setting: Setting) -> dict[str, Any]:
    default = f" Default: {setting.default}." if setting.default else ""
    allowed = setting.kind.schema()
    if not setting.required:
        allowed = {"anyOf": [allowed, {"type": "null"}]}
    return {"title": setting.label, "description": f"{setting.help}{default}", **allowed}
