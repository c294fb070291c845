"""The config in a URL fragment: readable, versioned, and reversible.

`#v1&model=llama-3.1-8b&engine=fsdp&gpus=8&seq=8192`: the settings that are given, by their short names. A model that
is not from the catalog is its config.json, deflated and in base64. Whatever comes from a URL is hostile until checked.

Links are for ever: tests/truth/links.json holds one of every spelling, and names that settings no longer have are
their `former` ones. A version that older ones would misread gets another `VERSION`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, unquote

from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import FLAGS, from_texts, to_texts
from memcore.errors import LISTED, ConfigError, Problem, nearest
from memcore.limits import LINK_LENGTH
from memcore.messages import Message
from memcore.records import dataclass

VERSION = "v1"
PARTS = 500
"""Settings in it: more than there are."""
LINK = re.compile(r"^v[0-9]+&|#v[0-9]+(?:&|$)")
"""Where a text is a link, of whatever version."""
FORMER: Mapping[str, str] = {each.former: path for path, each in SETTINGS.items() if each.former}
"""Settings by short names that they had in the past. A name that another setting has now means that one, unless it
refuses the value."""
_SAFE = ":-._~/"
WITH = "with"
"""The part of a link that is the link of another job on the same GPUs."""
SHARING = 5
"""Other jobs on the same GPUs at most."""
EMBED = "embed"
"""The last part of a link whose page shows one live picture, for a frame in another page."""
_VIEW = re.compile(rf"view=\w+|{EMBED}")
"""Which part of the answer a page showed; no setting."""
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
"""A percent sign that escapes nothing."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a fragment says."""

    config: Config | None
    """The config of everything that is understood; None where that has no model."""
    problems: tuple[Problem, ...]
    newer: bool
    """Whether a newer memcore may understand more of it."""
    others: tuple[Config, ...] = ()
    """Other jobs on the same GPUs."""


def encode_fragment(config: Config, others: Iterable[Config] = ()) -> str:
    """Return the fragment of a config, without the `#`, and of other jobs on the same GPUs.

    >>> encode_fragment(Config.from_dict({"model": "gpt2", "training": {"sequence_length": 1024}}))
    'v1&model=gpt2&seq=1024'
    >>> encode_fragment(Config.from_dict({"model": "gpt2"}), [Config.from_dict({"model": "gpt2-xl"})])
    'v1&model=gpt2&with=v1%26model%3Dgpt2-xl'
    """
    parts = [(SETTINGS[path].flag, text) for path, text in to_texts(config).items()]
    parts += [(WITH, encode_fragment(each)) for each in others]
    return "&".join([VERSION, *(f"{name}={quote(text, safe=_SAFE)}" for name, text in parts)])


def decode_fragment(text: str) -> Config:
    """Return the config of a fragment, or of a whole URL with one, alone where other jobs run on the same GPUs.

    Raises ConfigError naming every part that cannot be understood.
    """
    found = read_fragment(text)
    if found.config is None or found.problems:
        raise ConfigError(found.problems)
    return found.config


def read_fragment(text: str) -> Link:
    """Return what a fragment says, or that of a whole URL with one.

    Its config, and every part that cannot be understood.
    """
    if len(text) > LINK_LENGTH:
        return Link(None, (Problem("link", Message("longer than {} characters", LINK_LENGTH)),), newer=False)
    version, *parts = text.rpartition("#")[2].split("&")
    if version != VERSION:
        newer = re.fullmatch("v[0-9]{1,9}", version) is not None and int(version[1:]) > int(VERSION[1:])
        return Link(None, (_other_version(version, newer=newer),), newer)
    if len(parts) > PARTS:
        return Link(
            None,
            (Problem("link", Message("found {} settings; expected at most {}", len(parts), PARTS)),),
            newer=False,
        )
    added = [part for part in parts if part.startswith(f"{WITH}=")]
    texts, problems, newer = _texts(part for part in parts if part and part not in added and not _VIEW.fullmatch(part))
    others, refused_others = _others(added)
    problems += refused_others
    try:
        config: Config | None = from_texts(texts)
    except ConfigError as error:
        problems += error.problems
        refused = {each.path for each in error.problems}
        config = _understood({path: each for path, each in texts.items() if path not in refused})
    return Link(config, tuple(problems), newer, others)


def _others(parts: Sequence[str]) -> tuple[tuple[Config, ...], list[Problem]]:
    """Jobs on the same GPUs, and what is wrong with them."""
    where = Message("link: {}", WITH)
    if len(parts) > SHARING:
        return (), [Problem(where, Message("found {} jobs; expected at most {}", len(parts), SHARING))]
    found, problems = [], []
    for part in parts:
        try:
            text = _unescaped(part.partition("=")[2])
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        if f"&{WITH}=" in text:
            problems.append(Problem(where, "already names other jobs; name all of them in one link"))
            continue
        read = read_fragment(text)
        problems += [Problem(where, each.message, each.suggestion) for each in read.problems]
        if read.config is not None:
            found.append(read.config)
    return tuple(found), problems


def _other_version(version: str, *, newer: bool) -> Problem:
    if newer:
        mend = Message("this memcore is older and reads {!r}: reload the page or update it", VERSION)
    else:
        mend = Message("expected {!r}; copy the whole link", VERSION)
    return Problem("link", Message("found version {!r}; {}", version[:20], mend))


def _texts(parts: Iterable[str]) -> tuple[dict[str, str], list[Problem], bool]:
    """Texts by path, what is wrong with the others, and whether a newer memcore may know one of them."""
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    newer = False
    for name, given, spelled in (part.partition("=") for part in parts):
        where = Message("link: {}", name[:40])
        try:
            text = _unescaped(spelled)
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        path = _path(name, text)
        if not given:
            problems.append(Problem(where, "has no value; the link may be cut off: copy it again"))
        elif path is None:
            newer = True
            suggested = nearest(name[:40], FLAGS) if len(problems) < LISTED else None
            problems.append(Problem(where, "unknown key; a newer memcore may know it", suggested))
        elif path in texts:
            problems.append(Problem(where, "given twice"))
        else:
            texts[path] = text
    return texts, problems, newer


def _unescaped(spelled: str) -> str:
    damaged = _ESCAPE.search(spelled)
    if damaged:
        raise ValueError(
            Message("found {!r}; expected % and two hexadecimal digits, and %25 for a percent sign", damaged[0])
        )
    try:
        return unquote(spelled, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("its percent escapes are not UTF-8; the link may be cut off: copy it again") from None


def _path(name: str, text: str) -> str | None:
    """Return the path of the setting that a name stands for, or stood for in the past."""
    now, former = FLAGS.get(name), FORMER.get(name)
    if now is None or former is None or _takes(now, text) or not _takes(former, text):
        return now or former
    return former


def _takes(path: str, text: str) -> bool:
    try:
        SETTINGS[path].kind.parse(text)
    except ValueError:
        return False
    return True


def _understood(texts: Mapping[str, str]) -> Config | None:
    try:
        return from_texts(texts)
    except ConfigError:
        return None
