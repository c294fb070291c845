"""`--fetch`: the files that describe a model come from the hub, as if they had been passed by name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memcore.config.url import LINK
from memcore.errors import ConfigError
from memcore.messages import Message

if TYPE_CHECKING:
    from memcore.tools.fetching import Fetched
    from memcore.tools.sources import Source


def add_fetch(parser: argparse.ArgumentParser, *, whole: bool) -> None:
    """Add the flags; `--revision` is in the help if `whole`."""
    parser.add_argument("--fetch", action="store_true", help="ask the hub for the model's config and headers")
    said = "with --fetch: a branch, a tag or a commit (default: main)"
    parser.add_argument("--revision", metavar="NAME", help=said if whole else argparse.SUPPRESS)


def asked(name: str, revision: str | None) -> Fetched:
    """Return what the hub says of a model. Raises ConfigError as `tools.fetching.fetched` does."""
    from memcore.tools.fetching import fetched  # noqa: PLC0415 - only --fetch needs a network

    return fetched(name, revision=revision)


def needs_fetch(options: argparse.Namespace) -> None:
    """Raise ConfigError for flags that mean nothing without `--fetch`."""
    for flag in ("revision", "save"):
        if getattr(options, flag, None) is not None and not options.fetch:
            raise ConfigError.at(f"--{flag}", "needs --fetch")


def with_fetched(
    given: Sequence[str],
    model: str | None,
    revision: str | None,
    read: Callable[[Sequence[str]], list[Source]],
    named_in: Callable[[Sequence[Source]], object],
) -> tuple[list[Source], tuple[Message, ...]]:
    """Return the hub's files of a job's model followed by the files that are given, and notes on the hub's.

    The model is that of the flag, else the first word if it is no file, else the one that the files name.
    Raises ConfigError if there is none, and as `asked` does.
    """
    files = [*given]
    if model is None and files and _may_be_id(files[0]):
        model = files.pop(0)
    sources = read(files) if files else []
    named = model if model is not None else named_in(sources) if sources else None
    if not isinstance(named, str):
        raise ConfigError.at("--fetch", "needs the id of a model: alone, with --model, or in a file that names it")
    found = asked(named, revision)
    return [*found.sources, *sources], found.notes


def _may_be_id(word: str) -> bool:
    """Return whether a word is neither a file, nor a link of memcore's, nor a command."""
    path = word.partition("#")[0]
    named = word != "-" and len(word.split()) == 1 and not LINK.search(word)
    return named and not looks_like_a_file(word) and not Path(path).exists()


_ENDING = re.compile(r"(?:^|/)\.|\.[A-Za-z]{1,8}(?:#\d+)?$")


def looks_like_a_file(word: str) -> bool:
    """Return whether a word looks like the path of a file, as no model's name does."""
    return _ENDING.search(word) is not None
