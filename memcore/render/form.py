"""The page's form, derived from the schema: one control for each setting, named by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from memcore.config.inference import SERVERS
from memcore.config.kinds import Choice, Flag, Integer, Listed, ModelName, Number
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS
from memcore.model.catalog import catalog, nickname

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Model": ("model",),
    "Hardware": ("hardware.",),
    "Engine": ("engine.", "parallelism."),
    "Training": ("training.",),
    "Inference": ("inference.",),
}
"""Fieldsets, with the paths that they hold."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the form shows, as text by path."""

    given: Mapping[str, str]
    defaults: Mapping[str, str]
    """What is taken for settings that are absent."""
    engine: str


def form(values: Values) -> str:
    """All fieldsets."""
    return "".join(_fieldset(title, prefixes, values) for title, prefixes in GROUPS.items())


def _fieldset(title: str, prefixes: tuple[str, ...], values: Values) -> str:
    paths = [path for prefix in prefixes for path in SETTINGS if path.startswith(prefix)]
    basic = "".join(_field(path, values) for path in paths if not SETTINGS[path].advanced)
    advanced = "".join(_field(path, values) for path in paths if SETTINGS[path].advanced)
    more = f"<details><summary>More {escape(title.lower())} settings</summary>{advanced}</details>" if advanced else ""
    pasted = _PASTED if title == "Model" else ""
    hidden = "" if any(is_shown(path, values.engine, values.given.get(path, "")) for path in paths) else " hidden"
    return f"<fieldset{hidden}><legend>{escape(title)}</legend>{basic}{pasted}{more}</fieldset>"


def is_of_task(path: str, engine: str) -> bool:
    """Whether a setting belongs to the task of an engine: training, or serving."""
    section = path.partition(".")[0]
    return section not in ("training", "inference") or (section == "inference") == (engine in SERVERS)


def is_shown(path: str, engine: str, text: str) -> bool:
    """Whether a setting is shown: it belongs to the task, and the engine has it or it has a value."""
    engines = SETTINGS[path].engines
    return is_of_task(path, engine) and (engines is None or engine in engines or bool(text))


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


def _field(path: str, values: Values) -> str:
    name, setting = identifier(path), SETTINGS[path]
    engines = f' data-engines="{" ".join(setting.engines)}"' if setting.engines else ""
    if not is_shown(path, values.engine, values.given.get(path, "")):
        engines += " hidden"
    default = f" Default: {setting.default}." if setting.default else ""
    return (
        f'<div class="field"{engines}><label for="{name}">{escape(setting.label)}{_unit(setting)}</label>'
        f"{_control(path, values)}"
        f'<p class="hint" id="{name}-hint">{escape(setting.help)}{escape(default)}</p>'
        f'<p class="error" id="{name}-error"></p></div>'
    )


def _unit(setting: Setting) -> str:
    unit = getattr(setting.kind, "unit", "")
    return f' <span class="unit">({escape(unit)})</span>' if unit else ""


def default_option(default: str) -> str:
    """What a choice shows that leaves the setting absent."""
    return f"default: {default}" if default else "not set"


def _control(path: str, values: Values) -> str:
    name, setting = identifier(path), SETTINGS[path]
    text, default = values.given.get(path, ""), values.defaults.get(path, "")
    common = f'id="{name}" name="{path}" aria-describedby="{name}-hint {name}-error"'
    options = list(_options(setting))
    if options:
        chosen = "".join(
            f'<option value="{escape(value)}"{" selected" if value == text else ""}>{escape(label)}</option>'
            for value, label in [("", default_option(default)), *options]
        )
        return f"<select {common}>{chosen}</select>"
    listed = ' list="models" autocapitalize="none" spellcheck="false"' if isinstance(setting.kind, ModelName) else ""
    mode = ' inputmode="numeric"' if isinstance(setting.kind, (Integer, Number)) else ""
    models = _models() if path == "model" else ""
    shown = f'value="{escape(text)}" placeholder="{escape(default)}" autocomplete="off"'
    return f"<input {common} {shown}{listed}{mode}>{models}"


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
