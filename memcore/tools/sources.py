"""Whatever describes a job: a config, a model's config.json, another calculator's file, another tool's."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.imported import imported as of_calculator
from memcore.config.settings import SETTINGS
from memcore.formats.readers import parsed
from memcore.messages import Message
from memcore.tools.convert import imported
from memcore.untrusted import MARK

_SECTIONS = {path.partition(".")[0] for path in SETTINGS}


def read_source(
    text: str, name: str = "the file", gpus: int | None = None
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """What a text says, as `Config.from_dict` takes it, and notes on what was assumed or left out.

    `gpus` is their number, where the text does not say it.

    Raises ConfigError for a text that cannot be read, or that no known tool wrote.
    """
    text = text.removeprefix(MARK)
    if text.lstrip().startswith("{") or name.endswith(".json"):
        notes: list[str] = []
        found = parsed(text, name, notes)
        if "model" not in found and "model_type" in found:
            return {"model": found}, tuple(notes)
        if "model" in found or not found.keys() - _SECTIONS:
            read = of_calculator(found)
            return read.config, (*notes, *read.notes)
    other = imported(text, gpus)
    assumed = (Message("{} is {!r}: the default of {}", path, value, other.tool.title) for path, value in other.assumed)
    unknown = (Message("{} is not understood, and left out", key) for key in other.unknown)
    return other.config, (Message("read as a file of {}", other.tool.title), *assumed, *other.notes, *unknown)
