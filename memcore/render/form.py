"""The page's form, derived from the schema: one control for each setting, named by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from memcore.config.kinds import Choice, Flag, Integer, Listed, ModelName, Number
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS
from memcore.model.catalog import catalog, nickname

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Model": ("model",),
    "Hardware": ("hardware.",),
    "Engine": ("engine.", "parallelism."),
    "Training": ("training.",),
}
"""Fieldsets, with the paths that they hold."""


def form(texts: Mapping[str, str]) -> str:
    """All fieldsets, with the values of a config as text by path."""
    return "".join(_fieldset(title, prefixes, texts) for title, prefixes in GROUPS.items())


def _fieldset(title: str, prefixes: tuple[str, ...], texts: Mapping[str, str]) -> str:
    chosen = {path: setting for path, setting in SETTINGS.items() if path.startswith(prefixes)}
    basic = "".join(_field(path, each, texts) for path, each in chosen.items() if not each.advanced)
    advanced = "".join(_field(path, each, texts) for path, each in chosen.items() if each.advanced)
    more = f"<details><summary>More {escape(title.lower())} settings</summary>{advanced}</details>" if advanced else ""
    pasted = _PASTED if title == "Model" else ""
    return f"<fieldset><legend>{escape(title)}</legend>{basic}{pasted}{more}</fieldset>"


_PASTED = (
    '<details id="paste"><summary>Paste or drop a config.json</summary>'
    '<div class="field"><label for="model-json">config.json</label>'
    '<textarea id="model-json" rows="6" spellcheck="false" aria-describedby="model-json-hint model-json-error">'
    "</textarea>"
    '<p class="hint" id="model-json-hint">A Hugging Face config.json, or a whole memcore config. '
    "While it is here it replaces the model above.</p>"
    '<p class="error" id="model-json-error"></p></div>'
    '<div class="field"><label for="file">Or choose a file</label><input id="file" type="file" accept=".json"></div>'
    "</details>"
)


def identifier(path: str) -> str:
    """The element id of a setting's control."""
    return f"field-{path.replace('.', '-')}"


def _field(path: str, setting: Setting, texts: Mapping[str, str]) -> str:
    name = identifier(path)
    engines = f' data-engines="{" ".join(setting.engines)}"' if setting.engines else ""
    default = f" Default: {setting.default}." if setting.default else ""
    return (
        f'<div class="field"{engines}><label for="{name}">{escape(setting.label)}{_unit(setting)}</label>'
        f"{_control(path, setting, texts.get(path, ''))}"
        f'<p class="hint" id="{name}-hint">{escape(setting.help)}{escape(default)}</p>'
        f'<p class="error" id="{name}-error"></p></div>'
    )


def _unit(setting: Setting) -> str:
    unit = getattr(setting.kind, "unit", "")
    return f' <span class="unit">({escape(unit)})</span>' if unit else ""


def _control(path: str, setting: Setting, text: str) -> str:
    name = identifier(path)
    common = f'id="{name}" name="{path}" aria-describedby="{name}-hint {name}-error"'
    options = list(_options(setting))
    if options:
        chosen = "".join(
            f'<option value="{escape(value)}"{" selected" if value == text else ""}>{escape(label)}</option>'
            for value, label in [("", "default" if path != "hardware.accelerator" else "none"), *options]
        )
        return f"<select {common}>{chosen}</select>"
    listed = ' list="models" autocapitalize="none" spellcheck="false"' if isinstance(setting.kind, ModelName) else ""
    mode = ' inputmode="numeric"' if isinstance(setting.kind, (Integer, Number)) else ""
    return f'<input {common} value="{escape(text)}" autocomplete="off"{listed}{mode}>{_models() if listed else ""}'


def _options(setting: Setting) -> Iterator[tuple[str, str]]:
    """The values of a setting that has few, with what to show for them."""
    kind = setting.kind
    if isinstance(kind, Flag):
        yield from (("true", "yes"), ("false", "no"))
    elif isinstance(kind, Choice):
        yield from ((value, _described(value, kind.meanings)) for value in kind.options)
    elif isinstance(kind, Listed):
        yield from kind.titles.items()


def _described(value: str, meanings: Mapping[str, str]) -> str:
    return f"{value}: {meanings[value]}" if value in meanings else value


def _models() -> str:
    options = "".join(f'<option value="{escape(nickname(hub_id))}">{escape(hub_id)}</option>' for hub_id in catalog())
    return f'<datalist id="models">{options}</datalist>'
