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
from memcore.faces.render.titles import titled
from memcore.formats.content import header_of
from memcore.formats.readers import parsed
from memcore.i18n.page import complaint, say, sentence, translated
from memcore.limits import INTEGER_DIGITS
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


def of_files(sources: Sequence[Source], form: Form) -> tuple[Form, str]:
    """Return the form with what files describe together, a checkpoint or a job, and what was taken of them.

    Raises ConfigError as `read_sources` does.
    """
    config, notes = read_sources(sources)
    if config.keys() - {MODEL} and Hardware.num_gpus not in _whole(form, config).values:
        config, notes = read_sources(sources, gpus_of(form))
    model = config.get(MODEL)
    if config.keys() - {MODEL}:
        after, kept = over(form, config)
        return after, f"{noted(notes)} {kept}".strip()
    if isinstance(model, Mapping):
        return Form({**form.texts, MODEL: ""}, json.dumps(model, indent=2)), noted(notes)
    return Form({**form.texts, MODEL: str(model)}), noted(notes)


def gpus_of(form: Form) -> int | None:
    """Return the number of GPUs that a form says, for files that say none."""
    gpus = form.texts.get(Hardware.num_gpus, "")
    return int(gpus) if gpus.isdecimal() and len(gpus) <= INTEGER_DIGITS else None


def over(form: Form, config: Mapping[str, object]) -> tuple[Form, str]:
    """Return the job of a file, with the form's model and accelerator where the file names none; a kept one is said."""
    after = page.fill(_whole(form, config))
    kept = form.texts.get(Hardware.accelerator)
    if kept is None or Hardware.accelerator in after.texts:
        return after, ""
    said = say("import-kept", kept=titled(Hardware.accelerator, kept))
    return Form({Hardware.accelerator: kept, **after.texts}, after.pasted), said


def _whole(form: Form, config: Mapping[str, object]) -> Config:
    own = page.parsed(form.pasted) if form.pasted.strip() else form.texts.get(MODEL)
    return Config.from_dict({MODEL: own or "llama-3.1-8b", **config})


def noted(notes: Sequence[str]) -> str:
    """Return notes as whole sentences, those that a notice has room for."""
    room, kept = LONGEST, []
    for said in (sentence(translated(each)) for each in notes):
        if len(said) <= room:
            room -= len(said)
            kept.append(said)
    return " ".join([*kept, *(("…",) if len(kept) < len(notes) else ())])


LONGEST = 300
"""Characters of notes that a notice shows; where values come from is told whole elsewhere."""


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
