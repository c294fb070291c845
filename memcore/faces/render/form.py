"""The page's form, derived from the schema: one control for each setting, named by its path.

Three fields come first: the task, the model and the GPUs. The rest stands in groups that unfold, with what people
rarely touch one level deeper. Only settings that the engine has are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice, Flag, Integer, Listed, ModelName, Number
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS
from memcore.faces.render.applying import applies
from memcore.i18n.page import explanation, label, named, say, translated
from memcore.networks.catalog import catalog, nickname
from memcore.questions.solving import SMALLEST, SOLVABLE
from memcore.registry import SERVERS

QUICK = ("model", Hardware.accelerator, Hardware.num_gpus)
"""The fields of the first answer, beside the task."""
GROUPS: Mapping[str, str] = {
    "Training": "training.",
    "Inference": "inference.",
    "Engine": "engine.",
    "Parallelism": "parallelism.",
    "Hardware": "hardware.",
}
"""Groups, with the paths that they hold."""
OPEN = ("Training", "Inference", "Engine")
"""Groups that are unfolded at first."""
LISTED = 14
"""Settings with more choices than this are typed with completion."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the form shows, as text by path."""

    given: Mapping[str, str]
    defaults: Mapping[str, str]
    """What is taken for settings that are absent."""
    engine: str
    task: str = "full"
    tasks: Mapping[str, str] | None = None
    """Titles of tasks by name."""
    pasted: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    """How the engine's tool spells each setting."""


def form(values: Values) -> str:
    """The three first fields and all groups."""
    first = "".join(_field(path, values) for path in QUICK)
    quick = f'<fieldset class="card quick"><legend>{escape(say("quick"))}</legend>{_task(values)}{first}</fieldset>'
    groups = "".join(_group(title, prefix, values) for title, prefix in GROUPS.items())
    reset = f'<p><button type="button" data-do="reset">{escape(say("reset"))}</button></p>'
    return f"{quick}{_pasted(values)}{groups}{reset}"


def _task(values: Values) -> str:
    if values.tasks is None:
        return ""
    options = "".join(
        f'<option value="{escape(name)}"{" selected" if name == values.task else ""}>{escape(title)}</option>'
        for name, title in values.tasks.items()
    )
    return (
        f'<div class="field"><label for="task">{escape(say("task"))}</label>'
        f'<select id="task" data-change="task" aria-describedby="task-hint">{options}</select>'
        f'<p class="hint" id="task-hint">{escape(say("task-help"))}</p></div>'
    )


def _group(title: str, prefix: str, values: Values) -> str:
    paths = [path for path in SETTINGS if path.startswith(prefix) and path not in QUICK]
    basic = "".join(_field(path, values) for path in paths if not SETTINGS[path].advanced)
    rare = [path for path in paths if SETTINGS[path].advanced]
    name = say(f"group-{title}")
    if rare:
        inner = "".join(_field(path, values) for path in rare)
        more = "" if any(_shown(path, values) for path in rare) else " hidden"
        summary = escape(say("more", group=name))
        basic += f'<details class="more" id="group-more-{title}"{more}><summary>{summary}</summary>{inner}</details>'
    hidden = "" if any(_shown(path, values) for path in paths) else " hidden"
    opened = " open" if title in OPEN else ""
    return (
        f'<details class="group card" id="group-{title}"{opened}{hidden}><summary>{escape(name)}</summary>'
        f"{basic}</details>"
    )


def _shown(path: str, values: Values) -> bool:
    given = values.given
    return is_shown(path, values.engine, given.get(path, "")) and applies(path, values.engine, given, values.defaults)


def is_of_task(path: str, engine: str) -> bool:
    """Whether a setting belongs to the task of an engine: training, or serving."""
    section = path.partition(".")[0]
    return section not in {"training", "inference"} or (section == "inference") == (engine in SERVERS)


def is_shown(path: str, engine: str, text: str) -> bool:
    """Whether a setting is shown: it belongs to the task, and the engine has it or it has a value."""
    engines = SETTINGS[path].engines
    return is_of_task(path, engine) and (engines is None or engine in engines or bool(text))


def _pasted(values: Values) -> str:
    opened = " open" if values.pasted else ""
    return (
        f'<details id="paste" class="card"{opened}><summary>{escape(say("pasted-summary"))}</summary>'
        f'<div class="field"><label for="model-json">{escape(say("pasted-label"))}</label>'
        '<textarea id="model-json" name="model-json" rows="6" spellcheck="false" '
        f'aria-describedby="model-json-hint model-json-error">{escape(values.pasted)}</textarea>'
        f'<p class="hint" id="model-json-hint">{escape(say("pasted-hint"))}</p>'
        '<p class="error" id="model-json-error"></p></div>'
        f'<div class="field"><label for="file">{escape(say("pasted-file"))}</label>'
        '<input id="file" type="file" accept=".json"></div></details>'
    )


def identifier(path: str) -> str:
    """The element id of a setting's control."""
    return f"field-{path.replace('.', '-')}"


def field_link(path: str) -> str:
    """A setting by its label and path, as a button that leads to its field; of anything else, what it is called."""
    if path not in SETTINGS:
        return f"<code>{escape(translated(path))}</code>"
    title = escape(label(path, SETTINGS[path].label))
    return (
        f'<button type="button" class="link" data-go="{identifier(path)}">{title}</button> <code>{escape(path)}</code>'
    )


def _field(path: str, values: Values) -> str:
    name, setting = identifier(path), SETTINGS[path]
    hidden = "" if _shown(path, values) else " hidden"
    default = say("default-is", value=named(setting.default)) if setting.default else ""
    origin = "yours" if values.given.get(path) else "default"
    title = label(path, setting.label)
    return (
        f'<div class="field" data-origin="{origin}"{hidden}><label for="{name}">{escape(title)}{_unit(setting)}</label>'
        f"{_origin(path, title, origin)}"
        f'<div class="control">{_control(path, values)}{_most(path, title)}</div>'
        f'<p class="error" id="{name}-error"></p><p class="solved" id="{name}-note"></p>'
        f'<p class="hint" id="{name}-hint">{escape(explanation(path, setting.help))}{escape(default)} '
        f'<code id="{name}-flag">{escape(values.flags.get(path, ""))}</code></p></div>'
    )


def _origin(path: str, title: str, origin: str) -> str:
    """Whose value a field has, as a button that takes it back."""
    if path == "model":
        return ""
    hidden = " hidden" if origin == "default" else ""
    return (
        f'<button type="button" class="origin" id="{identifier(path)}-origin" data-do="set" data-path="{path}" '
        f'data-value=""{hidden}><span>{escape(say("origin-yours"))}</span> ✕'
        f'<span class="unseen"> {escape(say("reset-one", name=title))}</span></button>'
    )


def _most(path: str, title: str) -> str:
    """The button that finds how far a number goes."""
    if path not in SOLVABLE or not isinstance(SETTINGS[path].kind, Integer | Number):
        return ""
    key = "min" if path.startswith(SMALLEST) else "max"
    described = escape(say(f"{key}-of", name=title))
    return (
        f'<button type="button" class="max" data-do="solve" data-path="{path}" aria-label="{described}" '
        f'title="{escape(say(key))}">{key}</button>'
    )


def _unit(setting: Setting[Any]) -> str:
    unit = getattr(setting.kind, "unit", "")
    return f' <span class="unit">({escape(unit)})</span>' if unit else ""


def default_option(default: str) -> str:
    """What a choice shows that leaves the setting absent."""
    return say("default", value=default) if default else say("unset")


def _control(path: str, values: Values) -> str:
    name, setting = identifier(path), SETTINGS[path]
    text, default = values.given.get(path, ""), values.defaults.get(path, "")
    common = f'id="{name}" name="{path}" aria-describedby="{name}-hint {name}-error"'
    options = list(_options(setting))
    if is_select(path):
        chosen = "".join(
            f'<option value="{escape(value)}"{" selected" if value == text else ""}>{escape(title)}</option>'
            for value, title in [("", default_option(default)), *options]
        )
        return f"<select {common}>{chosen}</select>"
    listed = mode = completion = ""
    if isinstance(setting.kind, ModelName):
        options = [(nickname(hub_id), hub_id) for hub_id in catalog()]
    if options:
        listed = f' list="{name}-list" autocapitalize="none" spellcheck="false"'
        completion = f'<datalist id="{name}-list">{"".join(_option(*each) for each in options)}</datalist>'
    if isinstance(setting.kind, (Integer, Number)):
        mode = ' spellcheck="false"' + (' data-step=""' if isinstance(setting.kind, Integer) else "")
    shown = f'value="{escape(text)}" placeholder="{escape(default)}" autocomplete="off"'
    return f"<input {common} {shown}{listed}{mode}>{completion}"


def _option(value: str, title: str) -> str:
    return f'<option value="{escape(value)}">{escape(title)}</option>'


@cache
def is_select(path: str) -> bool:
    """Whether a setting is chosen from a short list, rather than typed."""
    return 0 < len(list(_options(SETTINGS[path]))) <= LISTED


def _options(setting: Setting[Any]) -> Iterator[tuple[str, str]]:
    """The values of a setting that has few, with what to show for them."""
    kind = setting.kind
    if isinstance(kind, Flag):
        yield from (("true", say("yes")), ("false", say("no")))
    elif isinstance(kind, Choice):
        yield from ((value, _described(value, kind.meanings)) for value in kind.options)
    elif isinstance(kind, Listed):
        yield from ((value, translated(title)) for value, title in kind.titles.items())


def _described(value: str, meanings: Mapping[str, str]) -> str:
    return f"{value}: {translated(meanings[value])}" if value in meanings else value
