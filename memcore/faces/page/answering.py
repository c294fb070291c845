"""From a form, a link or a preset to an answer on the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.kinds import Taken
from memcore.config.settings import MODEL, SETTINGS, Config
from memcore.config.texts import from_texts
from memcore.config.url import Link, encode_fragment, read_fragment
from memcore.errors import ConfigError, MemcoreError, Problem, problems_of
from memcore.estimation import estimate, is_serving
from memcore.faces.goals.names import meanings, written
from memcore.faces.goals.tasks import TASKS, task_of, with_task
from memcore.faces.page.comparing import comparison, share_with, together_note
from memcore.faces.page.examples import (
    after_edit,
    example_note,
    example_of,
    origin,
    record_example,
    restarted,
    without_example,
)
from memcore.faces.page.explaining import explained
from memcore.faces.page.fixing import repaired
from memcore.faces.page.origins import origins_note
from memcore.faces.page.reconciling import against
from memcore.faces.page.session import Found, Message, Patch, Session
from memcore.faces.render import html, page
from memcore.faces.render.applying import applies
from memcore.faces.render.cards import LEVELS, waiting
from memcore.faces.render.curve import curve_options
from memcore.faces.render.form import default_option, is_of_task, is_select, is_shown
from memcore.faces.render.key_settings import key_settings
from memcore.faces.render.page import Form
from memcore.faces.render.social import subject
from memcore.faces.render.titles import titled, untitled
from memcore.i18n.page import complaint, say, translated
from memcore.networks.catalog import for_serving, identified, nickname
from memcore.tools import shown_names

TIMES = 12
"""How often to practise: browsers keep the code that they have compiled for the next visit once it is a megabyte, which
took more than three times and at most twelve."""
REPAIRED = 3
"""How many problems a repair is looked for."""
PASTED = "model-json"
"""The name of the field with a config.json."""


def form_of(texts: Mapping[str, Any]) -> Form:
    """Return the form that a message carries; unknown names are ignored."""
    known = {path: untitled(path, str(text)) for path, text in texts.items() if path in SETTINGS and text}
    pasted = str(texts.get(PASTED) or "")
    if known.get("model", "").lstrip().startswith("{"):
        pasted = known.pop("model")
    return Form(known, pasted)


def values_of(form: Form) -> dict[str, str]:
    """Return the values of the fields, as the page sets them: models and accelerators by the names that people know."""
    return {**{path: titled(path, text) for path, text in form.texts.items()}, PASTED: form.pasted}


def fill_form(session: Session, form: Form, message: Message, typed: Mapping[str, str] | None = None) -> Patch:
    """The fields are to show a form, a field that is being typed as it is, and what was typed after the message."""
    after = values_of(form) | dict(typed or {})
    session.fills.append((message.get("texts") or values_of(session.form), after))
    return {"values": after, "fills": len(session.fills), "edits": message.get("edits")}


def answer_form(session: Session, form: Form, message: Message) -> Iterator[Patch]:
    """Answer a form: allocated memory first, then the rest; or problems, with the last answer left in place."""
    before, session.form = task_of(session.form.texts), form
    try:
        config = config_of(form)
        fragment = encode_fragment(config)
        found = session.recent.get(fragment) or estimate(config)
        stages = page.stages(found, session.rank_of(found))
        first = next(stages)
    except MemcoreError as error:
        if task_of(form.texts) != before:
            yield _sentence_of(session, form)
        yield problem_patch(session, problems_of(error))
        last = session.found
        if last is not None and session.unfinished:
            yield from rest_of_answer(session, last, page.stages(last, session.rank_of(last)))
        yield from fixes(session, form, problems_of(error))
        return
    session.config, session.found, session.unfinished = config, found, True
    session.fragment = fragment
    session.remember(fragment, found)
    engine = found.job.engine.name
    yield {
        "stale": False,
        "answered": False,
        "html": {"problems": "", "example-note": _from_whom(session), "subject": escape(subject(found)), **first},
        "hidden": {"problems": True, **session.earlier},
        "attributes": page.attributes_with(first, found),
        "fields": field_patches(session, engine, page.defaults(found)),
        "fragment": session.link,
        "entry": message.get("entry"),
        "task": task_of(form.texts),
    }
    yield from rest_of_answer(session, found, stages)


def _sentence_of(session: Session, form: Form) -> Patch:
    """Return the words of a task whose job has no answer yet."""
    engine = form.texts.get(EngineSettings.type, registry.USUAL_TRAINER)
    return {"task": task_of(form.texts), "fields": field_patches(session, engine, {})}


def _from_whom(session: Session) -> str:
    """Return what the page says of values that an example or a file has given."""
    return f"{example_note(session)}{origins_note(session)}".strip()


def rest_of_answer(session: Session, found: Found, stages: Iterator[dict[str, str]]) -> Iterator[Patch]:
    """The stages of an answer, the verdict with its attributes, and what else on the page is about it."""
    for stage in stages:
        attributes = page.attributes_with(stage, found)
        yield {"html": stage, **({"attributes": attributes} if attributes else {})}
    yield {"html": {"curve-setting": curve_options(found.job.engine.name), "gist": key_settings(found)}}
    if session.part:
        yield {"html": explained(found, session.part)}
    if session.pins:
        yield {"html": {"compare": comparison(session), "together-note": together_note(session)}}
    if session.log:
        yield {"html": {"reconciled": against(session)}}
    session.unfinished = False
    helps = LEVELS.get(page.attributes(found)["data-level"])
    if helps is not None and session.shows_plans is not None and helps is not session.shows_plans:
        session.shows_plans = helps
        yield {"html": waiting(page.attributes(found)["data-level"])}
    yield {"answered": True}


def practise(session: Session, message: Message) -> Iterator[Patch]:
    """Answer the job again for nobody: browsers compile code while it runs, so that a first edit finds it compiled."""
    before, config = session.message_counts.get("answer"), session.config
    for job in (config,) * TIMES if config is not None else ():
        for _ in page.stages(estimate(job)):
            yield {}
            if session.message_counts.get("answer") != before:
                return


def config_of(form: Form) -> Config:
    """Return the config that a form describes.

    Raises ConfigError naming everything that cannot be understood.
    """
    base = {"model": page.parsed(form.pasted)} if form.pasted.strip() else None
    texts = {**form.texts, "model": ""} if base else written(form.texts)
    engine = texts.get(EngineSettings.type, "")
    return from_texts({path: text for path, text in texts.items() if is_of_task(path, engine)}, base)


def problem_patch(session: Session, problems: tuple[Problem, ...]) -> Patch:
    """Problems next to their fields and above the answer."""
    texts = session.form.texts
    errors = {each.path: field_error(each, texts.get(each.path, "")) for each in problems if each.path in SETTINGS}
    known = session.fields
    fields: dict[str, Patch] = {path: {"error": ""} for path, shown in known.items() if shown.get("error")}
    fields |= {path: {"error": markup, "note": ""} for path, markup in errors.items()}  # the note is of another value
    pasted = [each for each in problems if each.path.startswith("model") and each.path not in SETTINGS]
    fields[PASTED] = {"error": escape(complaint(ConfigError(pasted[:1])))}
    for path, patch in fields.items():
        known.setdefault(path, {}).update(patch)
    return {
        "stale": True,
        "html": {"problems": html.problems(problems)},
        "hidden": {"problems": False},
        "fields": fields,
    }


def fixes(session: Session, form: Form, problems: tuple[Problem, ...]) -> Iterator[Patch]:
    """Yield what would repair refused settings: found by trying, one after the other."""
    for problem in problems[:REPAIRED]:
        if problem.path not in SETTINGS or problem.path == "model" or problem.suggestion:
            continue
        try:
            config = config_of(form)
        except MemcoreError:  # something cannot be read at all
            return
        for found in repaired(config, problem):
            if found is not None:
                markup = field_error(found)
                session.fields.setdefault(problem.path, {})["error"] = markup
                yield {"fields": {problem.path: {"error": markup}}}
            else:
                yield {}


def field_error(problem: Problem, text: str = "") -> str:
    """Return what is wrong with a field of this text, and buttons that fix it."""
    meant = meanings(problem.path, text)
    if len(meant) > 1:
        choices = " ".join(_fix(problem.path, each, titled(problem.path, each)) for each in meant)
        return f"{escape(say('which-of', text=text[:80]))} {choices}"
    fixes = []
    if problem.suggestion:
        fixes.append(_fix(problem.path, problem.suggestion, say("use", value=titled(problem.path, problem.suggestion))))
    if problem.hub_id:
        fixes.append(
            f'<button type="button" class="fix" data-hub="{escape(problem.hub_id)}">{escape(say("hub-ask"))}</button>'
        )
    if problem.path != "model":
        fixes.append(_fix(problem.path, "", say("clear")))
    return f"{escape(say('stop', text=translated(problem.message)))} {' '.join(fixes)}"


def _fix(path: str, value: str, text: str) -> str:
    return (
        f'<button type="button" class="fix" data-do="set" data-path="{escape(path)}" data-value="{escape(value)}">'
        f"{escape(text)}</button>"
    )


def _taken(config: Config) -> Iterator[tuple[str, str]]:
    """Yield what a short name was taken for, by its setting, with a button for each other meaning."""
    short: dict[str, tuple[str, Iterable[str]]] = {
        path: (value, value.others)
        for path, value in config.values.items()
        if isinstance(value, Taken) and value.others
    }
    if isinstance(config.model, str) and (found := identified(config.model)).others:
        found = for_serving(found) if is_serving(config) else found
        short["model"] = nickname(found.base), map(nickname, found.others)
    for path, (value, others) in short.items():
        buttons = " ".join(_fix(path, each, titled(path, each)) for each in others)
        yield path, f'<span class="note">{escape(say("taken-as", value=titled(path, value)))}</span> {buttons}'


def field_patches(session: Session, engine: str, defaults: Mapping[str, str]) -> dict[str, Patch]:
    """Return what changed of the fields: which apply, what is taken for empty ones, whose value it is."""
    patches = {PASTED: {"error": ""}}
    called = shown_names(session.config, engine) if session.config else {}
    taken = dict(_taken(session.config)) if session.config else {}
    for path in SETTINGS:
        text, default = session.form.texts.get(path, ""), defaults.get(path, "")
        now: Patch = {
            "hidden": not (is_shown(path, engine, text) and applies(path, engine, session.form.texts, defaults)),
            "default": default_option(default) if is_select(path) else default,
            "origin": origin(session, path),
            "flag": called.get(path, ""),
            "error": "",
            "note": taken.get(path, ""),
        }
        before = session.fields.get(path, {})
        if before != now:
            patches[path] = {key: value for key, value in now.items() if before.get(key) != value}
            session.fields[path] = now
    return patches


def edit(session: Session, message: Message) -> Iterator[Patch]:
    """A field was edited; if the job is another now, what came from an example is taken back.

    A model's name and a config.json replace each other: the later one counts.
    """
    given, path = form_of(message["texts"]), str(message.get("path") or "")
    if path == MODEL and given.texts.get(MODEL):
        given = Form(given.texts)
    elif path == PASTED and given.pasted.strip():
        given = Form({**given.texts, MODEL: ""}, given.pasted)
    form = after_edit(session, given, path)
    if form != given or form.pasted != str(message["texts"].get(PASTED) or ""):
        typed = {path: str(message["texts"][path])} if path in form.texts else {}
        yield fill_form(session, form, message, typed)
    yield from answer_form(session, form, message)


def load(session: Session, form: Form, message: Message, text: str = "") -> Iterator[Patch]:
    """Fill the form and answer it."""
    yield {**fill_form(session, form, message), **({"say": text} if text else {})}
    yield from answer_form(session, form, message)


def open_link(session: Session, message: Message) -> Iterator[Patch]:
    """A link was opened: whatever of it cannot be understood is said, and the rest applies."""
    link = str(message.get("link") or "")
    found = read_fragment(link) if link.strip("#") else None
    yield from share_with(session, found.others if found else ())
    if found is None:
        record_example(session, page.fill(page.example()), "opening")
        yield from load(session, page.fill(page.example()), message)
        return
    if found.config is None:
        yield _link_patch(session, found, link)
        return
    record_example(session, page.fill(found.config), example_of(found.config))
    yield from load(session, page.fill(found.config), message)
    if found.problems:
        patch = _link_patch(session, found, link)
        patch["html"]["problems"] += f"<p>{escape(say('rest-applied'))}</p>"
        yield {**patch, "stale": False}


def _link_patch(session: Session, found: Link, link: str) -> Patch:
    """Return what is wrong with a link, and a button for a newer version of the page that may know it."""
    patch = problem_patch(session, found.problems)
    if found.newer:
        button = f'<button type="button" data-renew="{escape(link)}">{escape(say("reload"))}</button>'
        patch["html"]["problems"] += f"<p>{button}</p>"
    return patch


def choose_task(session: Session, message: Message) -> Iterator[Patch]:
    """A task was chosen."""
    form = form_of(message["texts"])
    if message.get("value") in TASKS:
        form = restarted(session, form, str(message["value"]))
    yield from load(session, form, message)


def reset(session: Session, message: Message) -> Iterator[Patch]:
    """Everything but the model, the kind of GPU and the task is taken back to what the task begins with."""
    form = form_of(message["texts"])
    texts = {path: text for path, text in form.texts.items() if path in ("model", Hardware.accelerator)}
    texts[Hardware.num_gpus] = "1"
    fresh = with_task(texts, task_of(form.texts))
    record_example(session, Form({}), "")
    session.from_task = {path: text for path, text in fresh.items() if path not in texts}
    yield from load(session, Form(fresh, form.pasted), message, say("reset-done"))


def drop(session: Session, message: Message) -> Iterator[Patch]:
    """Take what is left of an example out of the form."""
    yield from load(session, without_example(session, form_of(message["texts"])), message)


def set_field(session: Session, message: Message) -> Iterator[Patch]:
    """A button sets one field: a fix, or the most that fits."""
    form = form_of(message["texts"])
    if message.get("path") in SETTINGS:
        texts = {**form.texts, str(message["path"]): str(message.get("value") or "")}
        form = Form({path: text for path, text in texts.items() if text}, form.pasted)
        form = after_edit(session, form, str(message["path"]))
    yield from load(session, form, message)


def propose(session: Session, message: Message) -> Iterator[Patch]:
    """A button loads a whole config: a suggestion, a layout that was found, or a pinned one."""
    config = session.proposals.get(str(message.get("key")))
    if config is not None:
        record_example(session, Form({}), "")
        yield from load(session, page.fill(config), message, say("applied"))
