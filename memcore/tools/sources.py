"""Whatever describes a job: a config, a model's config.json, another calculator's file, another tool's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memcore.config.imported import imported as of_calculator
from memcore.config.settings import SETTINGS
from memcore.errors import ConfigError, Problem
from memcore.formats.readers import flat, parsed
from memcore.formats.shell import OUTSIDE
from memcore.formats.writing import nested
from memcore.messages import Message, joined
from memcore.tools.convert import Imported, imported
from memcore.untrusted import MARK

_SECTIONS = {path.partition(".")[0] for path in SETTINGS}


def read_source(
    text: str, name: str = "the file", gpus: int | None = None, given: Collection[str] = ()
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """What a text says, as `Config.from_dict` takes it, and notes on what was assumed or left out.

    `gpus` is their number, where the text does not say it, and `given` are the settings that something else says.

    Raises ConfigError for a text that cannot be read, that no known tool wrote, or that leaves values to variables
    which it does not set.
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
    config = _without(other, given)
    assumed = (Message("{} is {!r}: the default of {}", path, value, other.tool.title) for path, value in other.assumed)
    left_out = (
        Message("{} may affect memory but is not supported yet: left out", key) for key in other.accounts.left_out
    )
    unknown = (Message("{} is not understood, and left out", key) for key in other.accounts.unknown)
    silent = (
        [Message("no effect on memory: {}", joined(", ", other.accounts.of_no_account))]
        if other.accounts.of_no_account
        else []
    )
    return config, (
        Message("read as a file of {}", other.tool.title), *assumed, *other.notes, *left_out, *unknown, *silent,
    )  # fmt: skip


def _without(read: Imported, given: Collection[str]) -> Mapping[str, object]:
    """The config without what is given elsewhere. Raises ConfigError for other values that a script does not set."""
    config = flat(read.config)
    keys = {path: key for key, path in read.read}
    open_ones = {path: value for path, value in config.items() if isinstance(value, str) and OUTSIDE.search(value)}
    wanted = {path: value for path, value in open_ones.items() if path not in given}
    if wanted:
        raise ConfigError(
            [
                Problem(
                    keys.get(path, path),
                    Message("found {}, which the script does not set; give it with --{}", value, _flag(path)),
                )
                for path, value in wanted.items()
            ]
        )
    return (
        nested({path: value for path, value in config.items() if path not in open_ones}) if open_ones else read.config
    )


def _flag(path: str) -> str:
    return SETTINGS[path].flag if path in SETTINGS else path
