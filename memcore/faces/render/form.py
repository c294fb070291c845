"""The page's form, derived from the schema: one control for each setting, named by its path.

A sentence comes first, whose words in between are controls: the task, the model, the GPUs, the length and the number of
sequences. Everything else stands in a panel, in groups that unfold, with what people rarely touch one level deeper.
Only settings that the engine has are shown. A page that opens holds the sentence and the settings that are in sight for
its job; the rest of the panel comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from html import escape
from string import Formatter
from typing import Any

from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice, Flag, Integer, Kind, Listed, ModelName, Number
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.faces.render.applying import applies
from memcore.faces.render.titles import titled, titles
from memcore.faces.render.tracks import slider
from memcore.i18n.page import explanation, label, named, say, translated, unit_name
from memcore.networks.catalog import catalog, nickname
from memcore.questions.painting import TRACKS
from memcore.questions.solving import SMALLEST, SOLVABLE
from memcore.records import dataclass
from memcore.registry import SERVERS
from memcore.serving.inference import Inference

SENTENCE: Mapping[str, str] = {
    "model": "model",
    "gpus": Hardware.num_gpus,
    "gpu": Hardware.accelerator,
    "tokens": Training.sequence_length,
    "batch": Training.micro_batch_size,
    "rank": Training.adapter.rank,
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
SIZES: Sequence[str] = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
    "num_local_experts",
    "num_experts_per_tok",
)
"""Keys of a config.json that have a field each; the page writes the file from them."""
LISTED = 16
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
    key_settings: str = ""
    """Markup of the line next to the panel's button."""


def form(values: Values, whole: bool = True) -> str:
    """Return the sentence, and the panel with everything else, of which only what is in sight if not `whole`."""
    said = "".join(
        f'<p class="error" id="{identifier(path)}-error"></p><p class="solved" id="{identifier(path)}-note"></p>'
        for path in QUICK
    )
    reset = f'<p><button type="button" data-do="reset">{escape(say("reset"))}</button></p>'
    title = escape(say("settings"))
    return (
        f'<div id="sentence" role="group" aria-label="{escape(say("quick"))}">{_sentence(values)}</div>'
        f'<div id="said">{said}</div><p id="gist">{values.key_settings}</p>'
        f'<details id="settings"><summary>{title}</summary>'
        f'<div id="panel" role="group" aria-label="{title}">{_finder()}'
        f'{_pasted(values)}<div id="groups">{groups(values, whole)}</div>{reset}</div></details>'
    )


def groups(values: Values, whole: bool = True) -> str:
    """Return the groups of the panel, and the lists that typing is completed from."""
    shown = [path for path in SETTINGS if path not in QUICK and (whole or _at_first(path, values))]
    lists = "".join(_completion(kind) for kind in _completions()) if whole else ""
    return "".join(_group(title, prefix, shown, values) for title, prefix in GROUPS.items()) + lists


def _at_first(path: str, values: Values) -> bool:
    """Return whether a setting is in sight as soon as the panel is opened, or has a value."""
    return bool(values.given.get(path)) or (not SETTINGS[path].advanced and _shown(path, values))


def _sentence(values: Values) -> str:
    """Return the sentence of the language: parts that are shown as long as one of their controls is.

    A control that is alone in its part stays in one line with the words around it.
    """
    parts = []
    for part in say("sentence").split("|"):
        inside, controls = [], 0
        for words, name, *_ in Formatter().parse(part):
            inside.append(f"<span>{escape(words)}</span>" if words.strip() else "")
            if name:
                controls += 1
                inside.append(_task(values) if name == "task" else _slot(SENTENCE[name], values))
        alone = " alone" if controls == 1 else ""
        parts.append(f'<span class="part-of{alone}">{"".join(inside)}</span>')
    return "".join(parts)


def _slot(path: str, values: Values) -> str:
    """Return a control within the sentence."""
    name, title = identifier(path), label(path, SETTINGS[path].label)
    hidden = "" if _shown(path, values) else " hidden"
    origin = _origin_of(path, values)
    most = "" if path in (Hardware.num_gpus, Training.adapter.rank) else _most(path, title)
    control, hint = _control(path, values), f'<span class="hint" id="{name}-hint">{_hint(path, values)}</span>'
    if path in TRACKS:
        text = values.given.get(path) or values.defaults.get(path, "")
        pulled = slider(path, name, title, text, hint)
        less, more = (_nudge(path, title, key, by, sign) for key, by, sign in (("lower", -1, "−"), ("raise", 1, "+")))
        control = f'<span class="number">{less}{control}{more}<span class="paint strip"></span>{pulled}</span>'
        hint = ""
    return (
        f'<span class="field slot" data-origin="{origin}"{hidden}><label class="unseen" for="{name}">{escape(title)}'
        f"</label>{control}{most}{_origin(path, title, origin)}{hint}</span>"
    )


def _nudge(path: str, title: str, key: str, by: int, sign: str) -> str:
    """Return a button that steps a number; in the field itself the arrow keys do, so that Tab passes it by."""
    name = escape(say(key, name=title))
    return (
        f'<button type="button" class="nudge" data-nudge="{by}" data-path="{path}" tabindex="-1" aria-label="{name}">'
        f"{sign}</button>"
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


def _group(title: str, prefix: str, shown: Sequence[str], values: Values) -> str:
    paths = [path for path in shown if path.startswith(prefix)]
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
    """Return whether a setting belongs to the task of an engine: training, or serving."""
    section = path.partition(".")[0]
    return section not in {"training", "inference"} or (section == "inference") == (engine in SERVERS)


def is_shown(path: str, engine: str, text: str) -> bool:
    """Return whether a setting is shown: it belongs to the task, and the engine has it or it has a value."""
    engines = SETTINGS[path].engines
    return is_of_task(path, engine) and (engines is None or engine in engines or bool(text))


def _pasted(values: Values) -> str:
    opened = " open" if values.pasted else ""
    return (
        f'<details id="paste" class="card"{opened}><summary>{escape(say("pasted-summary"))}</summary>'
        f'<div id="sizes" role="group" aria-label="{escape(say("sizes"))}">{"".join(map(_size, SIZES))}</div>'
        f'<p class="note">{escape(say("sizes-note"))}</p>'
        f'<div class="field"><label for="model-json">{escape(say("pasted-label"))}</label>'
        '<textarea id="model-json" name="model-json" rows="6" spellcheck="false" '
        f'aria-describedby="model-json-hint model-json-error">{escape(values.pasted)}</textarea>'
        f'<p class="hint" id="model-json-hint">{escape(say("pasted-hint"))}</p>'
        '<p class="error" id="model-json-error"></p></div>'
        f'<div class="field"><label for="file">{escape(say("pasted-file"))}</label>'
        '<input id="file" type="file" accept=".json"></div></details>'
    )


def _size(key: str) -> str:
    return (
        f'<label for="size-{key}">{escape(say(f"size-{key}"))}</label>'
        f'<input id="size-{key}" data-size="{key}" inputmode="numeric" autocomplete="off">'
    )


def identifier(path: str) -> str:
    """Return the element id of a setting's control."""
    return f"field-{path.replace('.', '-')}"


def field_link(path: str) -> str:
    """A setting by its label and path, as a button that leads to its field; of anything else, what it is called."""
    if path not in SETTINGS:
        return f"<code>{escape(translated(path))}</code>"
    title = escape(label(path, SETTINGS[path].label))
    named = f'<button type="button" class="link" data-go="{identifier(path)}">{title}</button>'
    return named if title.lower() == path else f"{named} <code>{escape(path)}</code>"


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
    default += f" {say('quick-hint')}" if path == "model" else ""
    return (
        f"{escape(explanation(path, setting.help))}{escape(default)} "
        f'<code id="{identifier(path)}-flag">{escape(values.flags.get(path, ""))}</code>'
    )


def _origin_of(path: str, values: Values) -> str:
    return values.origins.get(path, "yours") if values.given.get(path) else "default"


def _origin(path: str, title: str, origin: str) -> str:
    """Return whose value a field has, as a button that takes it back."""
    if path == "model":
        return ""
    hidden, whose = (" hidden", "yours") if origin == "default" else ("", origin)
    return (
        f'<button type="button" class="origin" id="{identifier(path)}-origin" data-do="set" data-path="{path}" '
        f'data-value=""{hidden}><span>{escape(say(f"origin-{whose}"))}</span> ✕'
        f'<span class="unseen"> {escape(say("reset-one", name=title))}</span></button>'
    )


def _most(path: str, title: str) -> str:
    """Return the button that finds how far a number goes."""
    if path not in SOLVABLE or not isinstance(SETTINGS[path].kind, Integer | Number):
        return ""
    key = "min" if path.startswith(SMALLEST) else "max"
    described = escape(say(f"{key}-of", name=title))
    return (
        f'<button type="button" class="max" data-do="solve" data-path="{path}" aria-label="{described}" '
        f'title="{escape(say(key))}">{escape(say(f"{key}-short"))}</button>'
    )


def _unit(setting: Setting[Any]) -> str:
    unit = getattr(setting.kind, "unit", "")
    return f' <span class="unit">{escape(say("unit-in", unit=unit_name(unit)))}</span>' if unit else ""


def default_option(default: str) -> str:
    """Return what a choice shows that leaves the setting absent."""
    return say("default", value=default) if default else say("unset")


def _control(path: str, values: Values) -> str:
    name, setting = identifier(path), SETTINGS[path]
    text, default = titled(path, values.given.get(path, "")), values.defaults.get(path, "")
    common = f'id="{name}" name="{path}" aria-describedby="{name}-hint {name}-error"'
    if is_select(path):
        chosen = "".join(
            f'<option value="{escape(value)}"{" selected" if value == text else ""}>{escape(title)}</option>'
            for value, title in [("", default_option(default)), *_options(setting.kind)]
        )
        return f"<select {common}>{chosen}</select>"
    listed = mode = ""
    if setting.kind in _completions():
        listed = f' list="{_list_of(setting.kind)}" autocapitalize="none" spellcheck="false"'
    if isinstance(setting.kind, (Integer, Number)):
        mode = ' spellcheck="false"' + (' data-step=""' if isinstance(setting.kind, Integer) else "")
    shown = f'value="{escape(text)}" placeholder="{escape(default)}" autocomplete="off"'
    return f"<input {common} {shown}{listed}{mode}>"


@cache
def _completions() -> list[Kind[Any]]:
    """Return the kinds of settings that are typed with completion, each once."""
    found: list[Kind[Any]] = []
    for path, setting in SETTINGS.items():
        if not is_select(path) and setting.kind not in found and any(_options(setting.kind)):
            found.append(setting.kind)
    return found


def _list_of(kind: Kind[Any]) -> str:
    return f"list-{_completions().index(kind)}"


def _completion(kind: Kind[Any]) -> str:
    options = (f'<option value="{escape(value)}">{escape(title)}</option>' for value, title in _named(kind))
    return f'<datalist id="{_list_of(kind)}">{"".join(options)}</datalist>'


def _named(kind: Kind[Any]) -> Iterator[tuple[str, str]]:
    """The texts that a list offers: titles of models and accelerators with their ids, of others values with titles."""
    path = next(path for path, setting in SETTINGS.items() if setting.kind == kind)
    known = titles(path)
    yield from ((known.get(value, value), value if value in known else title) for value, title in _options(kind))


@cache
def is_select(path: str) -> bool:
    """Return whether a setting is chosen from a short list, rather than typed."""
    return 0 < len(list(_options(SETTINGS[path].kind))) <= LISTED


def _options(kind: Kind[Any]) -> Iterator[tuple[str, str]]:
    """Yield the values that are offered for a setting, with what to show for them."""
    if isinstance(kind, Flag):
        yield from (("true", say("yes")), ("false", say("no")))
    elif isinstance(kind, Choice):
        yield from ((value, _described(value, kind.meanings)) for value in kind.options)
    elif isinstance(kind, Listed):
        yield from ((value, translated(title)) for value, title in kind.titles.items())
    elif isinstance(kind, ModelName):
        yield from ((nickname(hub_id), hub_id) for hub_id in catalog())


def _described(value: str, meanings: Mapping[str, str]) -> str:
    return f"{value}: {translated(meanings[value])}" if value in meanings else value
