"""Checkpoints on the page: headers of weights and files next to a config.json, dropped or fetched from the hub."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import BytesIO

from memcore.config.hardware import Hardware
from memcore.config.settings import MODEL, Config
from memcore.errors import ConfigError, MemcoreError
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render import page
from memcore.faces.render.page import Form
from memcore.formats.content import header_of
from memcore.formats.readers import parsed
from memcore.i18n.page import complaint
from memcore.tools.quantization_files import quantization_in
from memcore.tools.repositories import ENDPOINT, file_address, listed, listing_address, place_of, wanted
from memcore.tools.sources import Source, read_sources

_BYTES = "base64,"
"""What precedes the bytes of a GGUF file, which the page sends as a data URL."""
_WIDE = re.compile(r"\ufffd{2}[^\ufffd]")
"""How the mark of a text in UTF-16, of which readers say more, is decoded; pictures begin with more such bytes."""
_TOLD_BY = ('"weight_map"', '"data_offsets"', '{"gguf"')


def text_of(name: str, text: str) -> str:
    """Return a file's text; of the bytes of a GGUF file its header.

    Raises ConfigError for what is not text, and as `header_of` does.
    """
    if "\0" in text and not _WIDE.match(text):
        raise ConfigError.at(name, "is not text; pictures have a job only if this page saved them")
    if not name.endswith(".gguf") or not text.startswith("data:"):
        return text
    try:
        held = base64.b64decode(text.partition(_BYTES)[2], validate=True)
    except binascii.Error:
        raise ConfigError.at(name, "is not a GGUF file") from None
    return header_of(name, BytesIO(held))


def is_of_checkpoint(text: str) -> bool:
    """Return whether a text lists tensors, or says how they are quantized."""
    return text.lstrip().startswith("{") and (any(key in text for key in _TOLD_BY) or quantization_in(text) is not None)


def of_checkpoint(sources: Sequence[Source], form: Form) -> tuple[Form, Sequence[str]]:
    """Return the form with the model that files of a checkpoint describe together, and notes.

    Raises ConfigError as `read_sources` does.
    """
    config, notes = read_sources(sources)
    model = config.get(MODEL)
    if config.keys() - {MODEL}:
        kept = {path: text for path, text in form.texts.items() if path == Hardware.accelerator}
        filled = page.fill(Config.from_dict(config))
        return Form({**kept, **filled.texts}, filled.pasted), notes
    if isinstance(model, Mapping):
        return Form({**form.texts, MODEL: ""}, json.dumps(model, indent=2)), notes
    return Form({**form.texts, MODEL: str(model)}), notes


def ask_hub(session: Session, message: Message) -> Iterator[Patch]:
    """Return where the page finds what describes a model: the list of its files, and with the list these files."""
    try:
        place = place_of(str(message.get("id") or ""))
        if "listing" not in message:
            yield {"hub": {"id": message["id"], "listing": listing_address(ENDPOINT, place)}}
            return
        names, commit = listed(parsed(str(message["listing"]), place.id), place)
        exact = place._replace(revision=commit)
        files = [{"name": each, "address": file_address(ENDPOINT, exact, each)} for each in wanted(place, names)]
        yield {"hub": {"id": place.id, "files": files}}
    except MemcoreError as error:
        yield {"html": {"import-error": escape(complaint(error))}}
