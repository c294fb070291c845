"""What an example or a task has put into the form, apart from what the user has set.

Another task, another model or a single GPU is another job: what came from the example is dropped, what the user has
set stays, and the rest starts from the task's own values. What stays of an example is listed next to the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape

from memcore.config.hardware import Hardware
from memcore.config.settings import SETTINGS, Config
from memcore.config.url import encode_fragment
from memcore.faces.goals.names import meanings
from memcore.faces.goals.tasks import TASKS, task_of, with_task
from memcore.faces.page.presets import presets
from memcore.faces.page.session import Session
from memcore.faces.render.page import EXAMPLE, Form
from memcore.faces.render.titles import titled
from memcore.i18n.page import label, say

KEPT = ("model", Hardware.accelerator)
"""What stays of an example when the job is another: without it there is no answer, and the page shows it first."""


@cache
def _titles() -> Mapping[str, str]:
    """Return the names of presets by the link of their job."""
    return {encode_fragment(Config.from_dict(each.config)): each.name for each in presets().values()}


def example_of(config: Config) -> str:
    """Return the name of the example that a config is, or an empty text."""
    if config == Config.from_dict(EXAMPLE):
        return "opening"
    return _titles().get(encode_fragment(config), "")


def record_example(session: Session, form: Form, name: str) -> None:
    """An example fills the form; without a name, the whole form is the user's."""
    session.example, session.from_task = name, {}
    session.from_example = dict(form.texts) if name else {}


def after_edit(session: Session, form: Form, touched: str = "") -> Form:
    """The form after an edit: what the user changed is the user's; of another job, what came from an example goes."""
    before = dict(session.from_example)
    _own(session, form, touched)
    is_another = any(path in before and _is_another(path, before[path], form.texts.get(path, "")) for path in _DECIDE)
    return restarted(session, form, task_of(form.texts)) if is_another or (before and form.pasted) else form


_DECIDE = ("model", Hardware.num_gpus)


def _is_another(path: str, before: str, now: str) -> bool:
    if path == "model":
        meant = meanings(path, now)
        return len(meant) == 1 and meant != meanings(path, before)
    return now in {"", "1"} and before not in {"", "1"}


def _own(session: Session, form: Form, touched: str) -> None:
    for given in (session.from_example, session.from_task):
        for path in [path for path, text in given.items() if path == touched or form.texts.get(path, "") != text]:
            del given[path]


def restarted(session: Session, form: Form, task: str) -> Form:
    """Return the job from the task's own values, with what the user has set."""
    _own(session, form, "")
    stays = (*KEPT, Hardware.num_gpus)
    own = {
        path: text
        for path, text in form.texts.items()
        if path not in session.from_task and (path not in session.from_example or path in stays)
    }
    texts = with_task(own, task, frozenset(own))
    session.from_example = {
        path: text for path, text in session.from_example.items() if path in stays and texts.get(path) == text
    }
    session.from_task = {path: text for path, text in texts.items() if path not in own}
    return Form(texts, form.pasted)


def without_example(session: Session, form: Form) -> Form:
    """Return the form without what is left of an example."""
    _own(session, form, "")
    texts = {path: text for path, text in form.texts.items() if path in KEPT or path not in session.from_example}
    kept = Form(texts, form.pasted)
    session.from_example = {path: session.from_example[path] for path in KEPT if path in session.from_example}
    return restarted(session, kept, task_of(form.texts))


def origin(session: Session, path: str) -> str:
    """Return who gave a field its text: `example`, `file`, `task` or `yours`; `default` if it has none."""
    text = session.form.texts.get(path, "")
    if not text:
        return "default"
    for name, given in (("example", session.from_example), ("file", session.from_file), ("task", session.from_task)):
        if given.get(path) == text:
            return name
    return "yours"


def of_file(session: Session) -> bool:
    """Return whether one of the values is still that of an imported file."""
    return any(origin(session, path) == "file" for path in session.from_file)


def left(session: Session) -> dict[str, str]:
    """Settings of an example that are still in force, as text by path: neither the first ones nor the task's own."""
    texts = session.form.texts
    task = TASKS[task_of(texts)]
    usual = {**task.begins, **task.values}
    return {
        path: text
        for path, text in session.from_example.items()
        if path in SETTINGS and path not in KEPT and texts.get(path) == text and usual.get(path) != text and text != "1"
    }


def example_note(session: Session) -> str:
    """Return what the page says about an example next to the verdict, with a button that drops what is left of it."""
    found, texts = left(session), session.form.texts
    is_whole = bool(session.from_example) and session.from_example.items() == texts.items()
    if not is_whole and not found:
        return ""
    named = f"{escape(say('example-is', title=_title(session.example)))} " if is_whole else ""
    if not found:
        return named.strip()
    key = "example-sets" if is_whole else "example-left"
    said = escape(say(key, settings=_listed(found)))
    return f'{named}{said} <button type="button" class="link" data-do="drop">{escape(say("example-drop"))}</button>'


def _title(name: str) -> str:
    return presets()[name].title if name in presets() else say("example-opening")


def _listed(found: Mapping[str, str]) -> str:
    return say("and-comma").join(
        f"{label(path, SETTINGS[path].label)} {titled(path, text)}" for path, text in found.items()
    )
