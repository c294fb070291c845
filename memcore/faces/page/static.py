"""What a build puts into the page: the form and the answer for the example, texts, colours, and the JSON Schema."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from memcore.config.json_schema import json_schema
from memcore.config.texts import to_texts
from memcore.config.url import encode_fragment
from memcore.estimation import estimate_training
from memcore.faces.goals.tasks import task_of, titles
from memcore.faces.page.examples import example_note, record_example
from memcore.faces.page.framing import frame
from memcore.faces.page.next_steps import ways_of
from memcore.faces.page.session import Session
from memcore.faces.render import html
from memcore.faces.render.curve import curve_options
from memcore.faces.render.form import Values, form, groups
from memcore.faces.render.key_settings import key_settings
from memcore.faces.render.page import defaults, example, fill, sections
from memcore.faces.render.social import subject
from memcore.faces.render.svg import COLOURS, STRIP_COLOURS
from memcore.i18n import page as words
from memcore.i18n.waiting import WORDS_OF_WAITING
from memcore.rules.versions import AS_OF
from memcore.tools import shown_names
from memcore.version import __version__


def parts() -> dict[str, Any]:
    """Return everything by name."""
    config = example()
    found = estimate_training(config)
    texts = to_texts(config)
    engine = found.job.engine.name
    session = Session()
    record_example(session, fill(config), "opening")
    session.form = fill(config)
    origins = dict.fromkeys(texts, "example")
    called = shown_names(config, engine)
    values = Values(texts, defaults(found), engine, task_of(texts), titles(), "", called, origins, key_settings(found))
    attributes = " ".join(f'{name}="{escape(value)}"' for name, value in html.attributes(found).items())
    return {
        "sections": {
            **sections(found),
            **frame(),
            **ways_of(config, found),
            **{f"t:{key}": escape(text) for key, text in words.every().items()},
            "words": escape(json.dumps(words.every(), ensure_ascii=False)),
            "waiting": escape(json.dumps(waiting(), ensure_ascii=False)),
            "fragment": escape(encode_fragment(config)),
            "help": frame()["help-body"],
            "curve-settings": curve_options(engine),
            "verdict-attributes": attributes,
            "form": form(values, whole=False),
            "example-note": example_note(session),
            "subject": escape(subject(found)),
            "version": __version__,
            "rules": escape("; ".join(f"{name} {version}" for name, version in AS_OF.items())),
        },
        "settings": groups(values),
        "colours": colours(),
        "schema": json_schema(),
    }


def waiting() -> dict[str, dict[str, str]]:
    """Return what the page says before Python runs, or if it never does, in every language."""
    texts: dict[str, dict[str, str]] = {}
    for code in words.LANGUAGES:
        with words.speaking(code):
            texts[code] = {key.removeprefix("wait-"): words.say(key) for key in WORDS_OF_WAITING}
    return texts


def colours() -> str:
    """Return the colour of each category of memory, on a light and on a dark ground."""
    every = {**COLOURS, **STRIP_COLOURS}
    rules = (f".{name} {{ --colour: light-dark({light}, {dark}); }}" for name, (light, dark) in every.items())
    return "\n" + "\n".join(rules) + "\n"
