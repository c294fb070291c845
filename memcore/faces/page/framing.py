"""The page's frame: its texts in a language, the list of presets, and the map of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.url import decode_fragment, encode_fragment, read_fragment
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.goals.tasks import task_of, titles
from memcore.faces.page.answering import answer_form, fill_form, form_of, load, open_link
from memcore.faces.page.comparing import share_with
from memcore.faces.page.examples import after_edit, origin, record_example
from memcore.faces.page.next_steps import ways
from memcore.faces.page.presets import presets
from memcore.faces.page.reconciling import reading_options
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.form import Values, form
from memcore.faces.render.markup import html_table
from memcore.faces.render.page import Form, example, fill
from memcore.i18n import page as words
from memcore.i18n.page import say

_KEPT: dict[str, tuple[Session, tuple[Patch, ...]]] = {}
"""What was said when the page opened with nothing but the example, by language, and the session after that."""


_BUILT = {"html", "fields", "attributes", "hidden", "stale"}
"""What a build has put into the page for the example, in its own language (`static`): it need not be said again."""


def keep_openings() -> None:
    """Answer the example in every language, for pages that open with it."""
    for code in words.LANGUAGES:
        session = Session()
        patches = tuple(session.steps("answer", start, {"language": code}))
        for _ in session.steps("ways", ways, {}):
            pass
        _KEPT[code] = session, (_beyond_the_page(patches),) if code == Session.language else patches


def _beyond_the_page(patches: Iterable[Patch]) -> Patch:
    """Return what the page does not show by itself."""
    return {kind: content for patch in patches for kind, content in patch.items() if kind not in _BUILT}


def start(session: Session, message: Message) -> Iterator[Patch]:
    """The page has opened: its link, what was typed meanwhile, or the example."""
    session.language = str(message.get("language") or "en")
    yield {}  # the next step speaks it
    if message.get("again"):
        yield {"live": True}
        recall(session, str(message.get("link") or ""))
        return
    if not message.get("link") and not message.get("texts") and session.language in _KEPT:
        kept, patches = _KEPT[session.language]
        session.resume(kept)
        yield from patches
        return
    try:
        yield from _opened(session, message)
    except MemcoreError as error:  # in the middle of an answer: what is typed next is answered all the same
        yield {"say": str(error)}
    yield {"live": True}


def recall(session: Session, link: str) -> None:
    """Restore what the page shows after Python was restarted; without a link there is no answer."""
    if link:
        session.config = decode_fragment(link)
        for _ in share_with(session, read_fragment(link).others):
            pass
        session.fragment, session.found = encode_fragment(session.config), estimate(session.config)


def _opened(session: Session, message: Message) -> Iterator[Patch]:
    """The answer that the page opens with, in its language."""
    link, texts = message.get("link", ""), message.get("texts")
    if session.language != "en":
        yield from in_language(session, form_of(texts) if texts else fill(example()), message)
    if texts and not link:
        record_example(session, fill(example()), "opening")
        yield from load(session, after_edit(session, form_of(texts)), message)
        return
    yield from open_link(session, {**message, "entry": None})
    if texts:
        record_example(session, fill(example()), "")
        yield from load(session, form_of(texts), {**message, "entry": None})


def switch_language(session: Session, message: Message) -> Iterator[Patch]:
    """Another language was chosen: every text, the form, and the answer again."""
    if message.get("language") in words.LANGUAGES:
        session.language = str(message["language"])
        session.recent.clear()
    yield {}  # the next step speaks it
    current = form_of(message["texts"])
    yield from in_language(session, current, message)
    yield from answer_form(session, current, {"entry": None})


def in_language(session: Session, current: Form, message: Message) -> Iterator[Patch]:
    """The frame in the language that is spoken."""
    engine = (
        session.found.job.engine.name
        if session.found
        else current.texts.get(EngineSettings.type, registry.USUAL_TRAINER)
    )
    origins = {path: origin(session, path) for path in current.texts}
    values = Values(current.texts, {}, engine, task_of(current.texts), titles(), current.pasted, origins=origins)
    session.fields.clear()
    yield {
        "words": words.every(),
        "language": session.language,
        "html": {"config": form(values), **frame()},
    }
    yield fill_form(session, current, message)


def frame() -> dict[str, str]:
    """Return what does not depend on the answer, by element id."""
    return {"presets-list": preset_list(), "help-body": key_map(), "log-reading": reading_options()}


def preset_list() -> str:
    """Return every preset as a button."""
    items = (
        f'<li><button type="button" data-do="preset" data-close="presets" data-name="{each.name}">{escape(each.title)}'
        "</button></li>"
        for each in presets().values()
    )
    return f'<ul class="choices">{"".join(items)}</ul>'


KEYS = {
    "?": "key-help",
    "/": "key-model",
    "u, Ctrl Z": "undo",
    "r, Ctrl Y": "redo",
    "p": "presets",
    "i": "import",
    "x": "export",
    "s": "copy",
    "c": "pin",
    "e": "key-explain",
    "a": "change-button",
    "f": "search-button",
    "l": "reconcile",
    "← →": "key-part",
    "↑ ↓": "key-step",
    "Enter, + −": "key-moment",
    "Esc": "close",
}
"""Keys, and the text that says what each does."""


def key_map() -> str:
    """Return the keys and what they do."""
    rows = [(f"<kbd>{escape(key)}</kbd>", escape(say(does))) for key, does in KEYS.items()]
    return html_table(say("help"), (say("key"), say("does")), rows)


def say_word(session: Session, message: Message) -> Iterator[Patch]:
    """Say a text of the table."""
    if message.get("key") in words.WORDS:
        yield {"say": say(str(message["key"]))}
