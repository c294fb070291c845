"""Files that are one: those that a file names in its `defaults`, and one whose keys a command overrides.

Sources: Hydra 1.3, docs/advanced/defaults_list.md (groups are packages; a file's own keys come last, or where `_self_`
stands; `override`), `# @package _global_`; NeMo RL, nemo_rl/utils/config.py (`load_config_with_inheritance`: `defaults`
is a file, or several, below this one).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from memcore.errors import ConfigError
from memcore.formats.containers import commands
from memcore.formats.normalized import interpolated
from memcore.formats.readers import as_file, flat, of_command, read_command, read_file, script_of, spoken_in, started
from memcore.formats.shell import FILE
from memcore.formats.writing import nested
from memcore.formats.yaml import read_yaml
from memcore.messages import joined
from memcore.records import dataclass
from memcore.registry import launches
from memcore.tools.vocabulary import class_of

_DEFAULTS, _SELF = "defaults", "_self_"
_HARMLESS = frozenset({"callbacks", "logger", "loggers", "paths", "hydra", "extras", "debug", "hparams_search"})
"""Groups of Lightning's and Hydra's own, of which memory knows nothing."""
_GLOBAL = re.compile(r"^#\s*@package\s+_global_\s*$", re.MULTILINE)
_NAMES = re.compile(
    r"(?<![\w./-])-{0,2}config(?:[-_](?:name|file))?(?:=|\s+)[\"']?(?!-)([\w./-]+)"
    r"|\b(?:llamafactory[.-]cli train|(?:axolotl|axolotl\.cli\.)(?: ?train)|\w+\.py)\s+([\w./-]+\.ya?ml)(?!\S)"
    r"|\bCONFIG_FILE=[\"']?(?:\$\{CONFIG_FILE:?-)?[\"']?([\w./-]+\.toml)|--job[.]config_file[= ]([\w./-]+\.toml)"
    r"|\bautomodel\b[^\n]{0,120}?\s-c\s+([\w./-]+\.ya?ml)|\b(?:automodel|nemo_automodel\.cli\.app)\s+([\w./-]+\.ya?ml)"
)
"""How a command names the file whose keys it overrides."""
_IN_A_FILE = re.compile(
    r"\baxolotl\b|\btorchtitan\b|run_train\.sh|\btune run\b|\b(?:nemo_)?automodel\b|\brun_train\.py\b|\blitgpt\b"
    r"|composer\b"
)
"""Programs that have all of their settings in a file."""
_SERVES = re.compile(r"\bvllm\sserve\b|vllm\.entrypoints|sglang\.launch_server|\bsglang\sserve\b")
"""Servers whose flags go before those of their file (vllm, utils/argparse_utils.py, `_pull_args_from_config`; sglang,
srt/server_args_config_parser.py, `merge_config_with_args`)."""
_SCRIPT, _ITS_FILE = re.compile(r"\.py\b|\btrl\s\w"), re.compile(r"--config[ =]|\s[\w./$-]+\.ya?ml")
"""A script, and a file with the keys of its flags (transformers, hf_argparser.py; trl, `TrlParser`)."""
_KEY = re.compile(r"^[\w*\"'-]+\s*:", re.MULTILINE)
_TABLE = re.compile(r"^\[\w[\w.]*\]\s*$", re.MULTILINE)
_LAUNCHES = "distributed_type"
"""A key of accelerate's files, which stand for themselves."""
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Composed:
    """Texts that are one file."""

    members: tuple[int, ...]
    """Their numbers, the one that names the others last."""
    keys: Mapping[str, Any]
    """What they say together, dotted."""


@dataclass(slots=True)
class _Composition:
    texts: Sequence[tuple[str, str]]
    contents: Sequence[Mapping[str, Any] | None]
    chosen: Mapping[str, object] = field(default_factory=dict)
    """What another file has chosen for a group."""
    members: list[int] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def whole(self, at: int, deep: int = 0) -> dict[str, Any]:
        """Return the content of a text with what its defaults name below it.

        Raises ConfigError for files that name each other.
        """
        own = dict(self.contents[at] or {})
        listed = own.pop(_DEFAULTS, None)
        parts: list[dict[str, Any]] = []
        placed = False
        for entry in listed if isinstance(listed, list) else [listed] if listed else []:
            placed |= entry == _SELF
            parts += [own] if entry == _SELF else list(self._of_entry(entry, at, deep))
        self.members.append(at)
        merged: dict[str, Any] = {}
        for part in parts if placed else [*parts, own]:
            merged = _merged(merged, part)
        return merged

    def check(self, at: int) -> None:
        """Raise ConfigError, naming them, for files that a text's defaults name and that are not there."""
        if self.missing:
            listed = joined(", ", self.missing)
            raise ConfigError.at(self.texts[at][0], "defaults lists files that were not given: {}; add them", listed)

    def _of_entry(self, entry: object, at: int, deep: int) -> Iterator[dict[str, Any]]:
        if deep > _DEEPEST:
            raise ConfigError.at(self.texts[at][0], "nested more than {} levels deep", _DEEPEST)
        for path, package in self._files_of(entry):
            found = self.find(path, at)
            if found is None:
                self.missing.append(path)
                continue
            content = self.whole(found, deep + 1)
            inside = "" if _GLOBAL.search(self.texts[found][1]) else package
            for part in reversed(inside.split(".") if inside else ()):
                content = {part: content}
            yield content

    def _files_of(self, entry: object) -> Iterator[tuple[str, str]]:
        """Yield the files that an entry names, and where their keys belong."""
        if isinstance(entry, str):
            named = str(PurePosixPath(entry).with_suffix("")) if entry.endswith((".yaml", ".yml")) else entry
            above = "" if named.startswith(".") or entry != named else named.rpartition("/")[0]
            yield named.lstrip("./"), above.strip("/").replace("/", ".")
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            group, _, package = re.sub(r"^(?:optional|override)\s+", "", str(key)).lstrip("/").partition("@")
            choice = self.chosen.get(group, value)
            if str(key).startswith("override") or group.partition("/")[0] in _HARMLESS:
                continue
            for name in choice if isinstance(choice, list) else [] if choice in (None, "null") else [choice]:
                yield f"{group}/{name}", "" if package == "_global_" else package or group.replace("/", ".")

    def find(self, path: str, at: int) -> int | None:
        """Return the text of which a name ends so; of a file without its folder, the name alone."""
        stems = [PurePosixPath(name.replace("\\", "/")).with_suffix("").as_posix() for name, _ in self.texts]
        others = [number for number, content in enumerate(self.contents) if content is not None and number != at]
        for ends in (path, PurePosixPath(path).name):
            for number in others:
                if stems[number] == ends or stems[number].endswith(f"/{ends}"):
                    return number
        return None


def _reads_a_file(line: str) -> bool:
    """Return whether a line starts a script and names a file of its flags."""
    script = _SCRIPT.search(line)
    return script is not None and _ITS_FILE.search(line, script.end()) is not None


def composed(texts: Sequence[tuple[str, str]]) -> list[Composed]:
    """Those of several texts, by name and content, that are one file together; empty where each stands for itself.

    Raises ConfigError for a file that names others of which some are there and some are not.
    """
    if len(texts) < 2:
        return []
    contents = [_content(text) for _, text in texts]
    found = list(_commanded(texts, contents))
    taken = {number for each in found for number in each.members}
    chosen = _chosen(contents)
    for at, content in enumerate(contents):
        if at in taken or content is None or _DEFAULTS not in content or _overrides(content):
            continue
        whole = _composition(texts, contents, at, chosen)
        if whole is not None:
            found.append(whole)
            taken |= {*whole.members}
    inner = {number for each in found for number in each.members[:-1]}
    return [each for each in found if each.members[-1] not in inner]


def _composition(
    texts: Sequence[tuple[str, str]],
    contents: Sequence[Mapping[str, Any] | None],
    at: int,
    chosen: Mapping[str, object],
) -> Composed | None:
    """Return a file with those that it names, and with the experiments that choose others; None if none is there."""
    composition = _Composition(texts, contents, chosen)
    whole = composition.whole(at)
    experiments = [number for number, each in enumerate(contents) if each is not None and _overrides(each)]
    if not [*composition.members[:-1], *experiments]:
        return None
    composition.check(at)
    for number in experiments:
        whole = _merged(whole, {key: value for key, value in (contents[number] or {}).items() if key != _DEFAULTS})
    members = dict.fromkeys([*composition.members[:-1], *experiments, at])
    return Composed(tuple(members), interpolated(flat(whole)))


def _overrides(content: Mapping[str, Any]) -> bool:
    """Return whether a file chooses other files in the place of another one's, as Hydra's experiments do."""
    listed = content.get(_DEFAULTS)
    return isinstance(listed, list) and any(
        str(key).startswith("override ") for each in listed if isinstance(each, Mapping) for key in each
    )


def _chosen(contents: Sequence[Mapping[str, Any] | None]) -> dict[str, object]:
    """By group, what files have chosen in the place of another one's choice."""
    entries = [
        each for content in contents if content is not None and _overrides(content) for each in content[_DEFAULTS]
    ]
    return {
        str(key).removeprefix("override ").strip().lstrip("/").partition("@")[0]: value
        for each in entries if isinstance(each, Mapping) for key, value in each.items()
        if str(key).startswith("override ")
    }  # fmt: skip


def _commanded(texts: Sequence[tuple[str, str]], contents: Sequence[Mapping[str, Any] | None]) -> Iterator[Composed]:
    """Commands with the file whose keys they override, or that they only name."""
    for at, (_, text) in enumerate(texts):
        if contents[at] is not None:
            continue
        composition = _Composition(texts, contents)
        spoken = spoken_in(text)
        known = (composition.find(name, at) for name in _named_in(spoken))
        base = next((each for each in known if each is not None and _LAUNCHES not in (contents[each] or {})), None)
        if base is None:
            continue
        try:
            found = read_command(script_of(text))
        except ConfigError:
            continue
        whole = flat(composition.whole(base))
        if composition.members != [base]:  # none of its defaults is here: they are the tool's own
            composition.check(base)
        keys = _said(found, spoken, whole, texts[base])
        if keys is None:
            continue
        both = {key: value for key, value in keys.items() if value is not None}
        for said in ("config", "--config", "config-name", *(() if _SERVES.search(str(both.get(""))) else ("",))):
            both.pop(said, None)  # the file is here
        yield Composed((*composition.members, at), interpolated(both))


def _said(
    found: Mapping[str, Any], spoken: str, whole: Mapping[str, Any], base: tuple[str, str]
) -> dict[str, Any] | None:
    """A file's keys below those of the command that names it, by the same names; None where flags are no keys of it."""
    syntax, keys = of_command(found)
    if _SERVES.search(str(found.get("", ""))):
        flags = {f"--{name.replace('_', '-')}": value for name, value in whole.items()}
        return {**flags, **({"--model": None} if "*" in found else {}), **keys}
    if syntax == "yaml":
        return {**whole, **keys}
    if _IN_A_FILE.search(spoken):
        return {**whole, **_of_file(found, base)}
    return {**whole, **as_file(found)} if any(_reads_a_file(line) for line in spoken.splitlines()) else None


def _named_in(spoken: str) -> Iterator[str]:
    """Files that a command names, without their endings."""
    for named in _NAMES.findall(spoken):
        yield re.sub(r"\.(?:ya?ml|toml|json)$", "", next(filter(None, named)))


def _of_file(found: Mapping[str, Any], base: tuple[str, str]) -> Mapping[str, Any]:
    """Return what a command says of a file that holds its settings: the keys that its flags override, and its GPUs."""
    name, text = base
    given = {**found, f"{FILE}{PurePosixPath(name).name}": text}
    read: Iterator[Mapping[str, Any] | None] = (read(given) for read in launches())
    launched = next((keys for keys in read if keys is not None), None)
    if launched is not None:
        return launched
    dotted = {key.removeprefix("--"): value for key, value in found.items() if "." in key and key.startswith("--")}
    plain = _plain(found) if _AXOLOTL.search(str(found)) else {}
    words = {key: value for key, value in found.items() if key[:1].isalpha()}
    return {**dotted, **plain, **words, **started(found)}


_AXOLOTL = re.compile(r"\baxolotl\b")
_NO = "no_"


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a file that flags override, with dashes or underscores in their names; what else is the launcher's.

    Source: axolotl 0.18, cli/utils/args.py (`add_options_from_config`: `--a-key`, of switches also `--no-a-key`).
    """
    named = {key.removeprefix("--").replace("-", "_"): value for key, value in found.items() if key.startswith("--")}
    known = {key: value for key, value in named.items() if class_of(("axolotl",), key)}
    off = [key.removeprefix(_NO) for key in named if key.startswith(_NO) and key not in known]
    return {**known, **{key: False for key in off if class_of(("axolotl",), key)}}


def _content(text: str) -> Mapping[str, Any] | None:
    """Return the keys of a file of YAML; None for another text."""
    try:
        if _TABLE.search(text):
            return nested(read_file(text)[1])
        found = read_yaml(text) if _KEY.search(text) else None
    except ConfigError:
        return None
    if not isinstance(found, Mapping) or commands(found) is not None:
        return None
    return {str(key): value for key, value in found.items()}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested keys of which the second ones hold."""
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        found[key] = _merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return found
