"""Whether configs fit, one line each: the gate of a pull request."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from memcore.config.hardware import Hardware
from memcore.config.load import REQUIRED
from memcore.errors import ConfigError, MemcoreError, problems_of
from memcore.estimation import estimate_serving, estimate_training, is_serving
from memcore.faces.cli.command import BAD_INPUT, DOES_NOT_FIT, FITS, Command, print_json, share
from memcore.faces.cli.describing import APART, add_config, config_of
from memcore.i18n.page import complaint, say
from memcore.memory.estimate import Estimate
from memcore.messages import Message
from memcore.questions.describe import verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.estimate import ServingEstimate

OK, FAILED, ERROR = "ok", "fail", "error"
_STATUS = {OK: FITS, FAILED: DOES_NOT_FIT, ERROR: BAD_INPUT}


class Checked(NamedTuple):
    """What is said of one config."""

    name: str
    status: str
    """One of ok, fail and error."""
    said: str
    """The verdict, or what is wrong with the file."""
    expected: int | None = None
    """Bytes on the fullest GPU."""
    high: int | None = None
    """The safe end of their range."""
    capacity: int | None = None
    """Bytes of a GPU that a job can use."""
    notes: tuple[str, ...] = ()
    """How its files were read: defaults of their tool, keys that were ignored."""

    def to_dict(self) -> dict[str, object]:
        """A plain dictionary."""
        read = {"device_bytes": self.expected, "high_bytes": self.high, "capacity_bytes": self.capacity}
        return {"file": self.name, "status": self.status, "message": self.said, **read, "notes": list(self.notes)}


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument(
        "--together", action="store_true", help="the files describe one job (default: one job per file)"
    )
    parser.add_argument("--strict", action="store_true", help="fail too if only part of the range fits")
    parser.add_argument(
        "--headroom", type=share, default=0.0, metavar="FRACTION",
        help="fraction of each GPU that must stay free (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "github"), default="text", help="github: annotations of a pull request"
    )


def _check(options: argparse.Namespace) -> int:
    files: list[str] = options.config
    if not files and options.model is None:
        raise ConfigError.at("CONFIG", "name one file at least, or describe a job by flags")
    groups = [files] if options.together or not files else [[each] for each in files]
    found = [_one(group, options) for group in groups]
    if options.json:
        print_json([each.to_dict() for each in found])
    elif options.format == "github":
        print(*(_annotation(each) for each in found), sep="\n")
    else:
        print(*_lines(found), sep="\n")
    return max(_STATUS[each.status] for each in found)


def _one(files: Sequence[str], options: argparse.Namespace) -> Checked:
    """One job. What is wrong with its files is said of it alone, and the others are checked all the same."""
    name = " ".join(files) or str(options.model)
    asked = argparse.Namespace(**{**vars(options), "config": list(files), APART: len(options.config) > 1})
    try:
        config = config_of(asked)
        if config[Hardware.accelerator] is None and config[Hardware.gpu_memory_gb] is None:
            raise ConfigError.at(Hardware.accelerator, "no GPU to check against; name one with --accelerator")
        found = estimate_serving(config) if is_serving(config) else estimate_training(config)
    except MemcoreError as error:
        said = complaint(_unnamed(error, name))
        part = len(options.config) > len(files) and any(each.message == REQUIRED for each in problems_of(error))
        return Checked(name, ERROR, f"{said}\n{say('cli-check-together')}" if part else said)
    return _judged(name, found, options)._replace(notes=asked.notes)


def _unnamed(error: MemcoreError, name: str) -> MemcoreError:
    """Return what is wrong with a file without its name, which begins the line."""
    if not isinstance(error, ConfigError):
        return error
    return ConfigError([replace(each, path=_behind(name, each.path)) for each in error.problems])


def _behind(name: str, path: str) -> str:
    """Return the place in a file, without the file's name."""
    if isinstance(path, Message) and path.values[0] == name:
        return str(path.values[-1])
    return "" if path == name else path


def _judged(name: str, found: Estimate | ServingEstimate, options: argparse.Namespace) -> Checked:
    said = serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)
    read = (found.device.expected, found.device.high, found.capacity)
    wanted = (found.capacity or 0) * options.headroom
    if not found.fits:
        return Checked(name, FAILED, said.headline, *read)
    if (found.headroom or 0) < wanted:
        little = say("cli-little-left", share=f"{100 * options.headroom:g}")
        return Checked(name, FAILED, say("two-sentences", first=said.headline, second=little), *read)
    if options.strict and not found.certain:
        upper = say("cli-upper-end")
        return Checked(name, FAILED, say("two-sentences", first=said.headline, second=upper), *read)
    return Checked(name, OK, said.headline, *read)


def _lines(found: Sequence[Checked]) -> Iterator[str]:
    for each in found:
        said = [*each.said.split("\n"), *([say("cli-check-plan")] if each.status == FAILED else [])]
        yield f"{each.status.upper() if each.status != OK else OK:5}  {each.name}: {said[0]}"
        yield from (f"       {line}" for line in said[1:])


def _annotation(found: Checked) -> str:
    """A workflow command of GitHub Actions (actions/toolkit, packages/core/src/command.ts, which escapes like this)."""
    kind = "notice" if found.status == OK else "error"
    name = _escaped(found.name).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} file={name},title=memcore::{_escaped(found.said)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


COMMANDS: Mapping[str, Command] = {"check": Command(_options, _check)}
