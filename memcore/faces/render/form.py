"""The page's form, derived from the schema: one control for each setting, named by its path.

A sentence comes first, whose words in between are controls: the task, the model, the GPUs, the length and the number of
sequences. Everything else stands in a panel, in groups that unfold, with what people rarely touch one level deeper.
Only settings that the engine has are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from string import Formatter
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice, Flag, Integer, Listed, ModelName, Number
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.faces.render.applying import applies
from memcore.i18n.page import explanation, label, named, say, translated
from memcore.networks.catalog import catalog, nickname
from memcore.questions.solving import SMALLEST, SOLVABLE
from memcore.registry import SERVERS
from memcore.serving.inference import Inference

SENTENCE: Mapping[str, str] = {
    "model": "model",
    "gpus": Hardware.num_gpus,
    "gpu": Hardware.accelerator,
    "tokens": Training.sequence_length,
    "batch": Training.micro_batch_size,
    "users": Inference.batch_size,
    "length": Inference.max_model_len,
}
"""The settings of the sentence next to the task, by their place in its text."""
QUICK = tuple(SENTENCE.values())
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
    origins: Mapping[str, str] = field(default_factory=dict)
    """Who gave each setting its value, where that is not the user."""


def form(values: Values) -> str:
    """The sentence, and the panel with everything else."""
    said = "".join(
        f'<p class="error" id="{identifier(path)}-error"></p><p class="solved" id="{identifier(path)}-note"></p>'
        for path in QUICK
    )
    groups = "".join(_group(title, prefix, values) for title, prefix in GROUPS.items())
    reset = f'<p><button type="button" data-do="reset">{escape(say("reset"))}</button></p>'
    title = escape(say("settings"))
    return (
        f'<div id="sentence" role="group" aria-label="{escape(say("quick"))}">{_sentence(values)}</div>'
        f'<div id="said">{said}</div><details id="settings"><summary>{title}</summary>'
        f'<div id="panel" role="group" aria-label="{title}">{_finder()}{groups}{_pasted(values)}{reset}'
        "</div></details>"
    )


def _sentence(values: Values) -> str:
    """The sentence of the language: parts that are shown as long as one of their controls is."""
    parts = []
    for part in say("sentence").split("|"):
        inside = []
        for words, name, *_ in Formatter().parse(part):
            inside.append(f"<span>{escape(words)}</span>" if words.strip() else "")
            if name:
                inside.append(_task(values) if name == "task" else _slot(SENTENCE[name], values))
        parts.append(f'<span class="part-of">{"".join(inside)}</span>')
    return "".join(parts)


def _slot(path: str, values: Values) -> str:
    """A control within the sentence."""
    name, title = identifier(path), label(path, SETTINGS[path].label)
    hidden = "" if _shown(path, values) else " hidden"
    origin = _origin_of(path, values)
    most = "" if path == Hardware.num_gpus else _most(path, title)
    return (
        f'<span class="field slot" data-origin="{origin}"{hidden}><label class="unseen" for="{name}">{escape(title)}'
        f"</label>{_control(path, values)}{most}{_origin(path, title, origin)}"
        f'<span class="hint" id="{name}-hint">{_hint(path, values)}</span></span>'
    )


def _finder() -> str:
    found = escape(say("find"))
    close = escape(say("close"))
    return (
        f'<div class="row"><input type="search" id="find" data-find="" aria-label="{found}" placeholder="{found}" '
        f'autocapitalize="none" spellcheck="false"><button type="button" id="settings-close">{close}</button></div>'
        '<p id="found" class="note" role="status"></p>'
    )


def _task(values: Values) -> str:
    if values.tasks is None:
        return ""
    options = "".join(
        f'<option value="{escape(name)}"{" selected" if name == values.task else ""}>{escape(title)}</option>'
        for name, title in values.tasks.items()
    )
    return (
        f'<span class="field slot"><label class="unseen" for="task">{escape(say("task"))}</label>'
        f'<select id="task" data-change="task">{options}</select></span>'
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
    origin = _origin_of(path, values)
    title = label(path, setting.label)
    return (
        f'<div class="field" data-origin="{origin}"{hidden}><label for="{name}">{escape(title)}{_unit(setting)}</label>'
        f"{_origin(path, title, origin)}"
        f'<div class="control">{_control(path, values)}{_most(path, title)}</div>'
        f'<p class="error" id="{name}-error"></p><p class="solved" id="{name}-note"></p>'
        f'<p class="hint" id="{name}-hint">{_hint(path, values)}</p></div>'
    )


def _hint(path: str, values: Values) -> str:
    setting = SETTINGS[path]
    default = say("default-is", value=named(setting.default)) if setting.default else ""
    return (
        f"{escape(explanation(path, setting.help))}{escape(default)} "
        f'<code id="{identifier(path)}-flag">{escape(values.flags.get(path, ""))}</code>'
    )


def _origin_of(path: str, values: Values) -> str:
    return values.origins.get(path, "yours") if values.given.get(path) else "default"


def _origin(path: str, title: str, origin: str) -> str:
    """Whose value a field has, as a button that takes it back."""
    if path == "model":
        return ""
    hidden, whose = (" hidden", "yours") if origin == "default" else ("", origin)
    return (
        f'<button type="button" class="origin" id="{identifier(path)}-origin" data-do="set" data-path="{path}" '
        f'data-value=""{hidden}><span>{escape(say(f"origin-{whose}"))}</span> ✕'
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
