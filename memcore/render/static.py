"""What a build puts into the page: the form and the answer for the example, colours, and the JSON Schema."""

from __future__ import annotations

from html import escape
from typing import Any

import memcore
from memcore.config.json_schema import json_schema
from memcore.config.texts import to_texts
from memcore.estimation import estimate_training
from memcore.render import html
from memcore.render.form import Values, form
from memcore.render.page import defaults, example
from memcore.render.svg import COLOURS, STRIP_COLOURS


def parts() -> dict[str, Any]:
    """Everything by name."""
    config = example()
    found = estimate_training(config)
    attributes = " ".join(f'{name}="{escape(value)}"' for name, value in html.attributes(found).items())
    return {
        "sections": {
            **html.sections(found),
            "verdict-attributes": attributes,
            "form": form(Values(to_texts(config), defaults(found), found.job.engine.name)),
            "version": memcore.__version__,
        },
        "colours": colours(),
        "schema": json_schema(),
    }


def colours() -> str:
    """A style rule for each category of memory, on a light and on a dark ground."""
    every = {**COLOURS, **STRIP_COLOURS}
    light = "\n".join(f".{name} {{ --colour: {colour}; }}" for name, (colour, _) in every.items())
    dark = "\n".join(f".{name} {{ --colour: {colour}; }}" for name, (_, colour) in every.items())
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
