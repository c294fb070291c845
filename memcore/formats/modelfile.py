"""Ollama's Modelfiles: instructions with their arguments, some of several lines.

Source: ollama, parser/parser.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.formats.values import number

_INSTRUCTIONS = frozenset({
    "from", "parameter", "template", "system", "adapter", "license", "message", "renderer", "parser", "requires",
    "draft",
})  # fmt: skip
_LINE = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+(\S[^\n]*)")
_QUOTES = '"""'


def instructions(text: str) -> list[tuple[str, str]] | None:
    r"""Return the instructions of a Modelfile with their arguments; None for another text, such as a Dockerfile.

    >>> instructions("# mine\nFROM qwen3:8b\nPARAMETER num_ctx 4096\nSYSTEM \"\"\"You\nFROM here\"\"\"\n")
    [('from', 'qwen3:8b'), ('parameter', 'num_ctx 4096'), ('system', 'You\nFROM here')]
    >>> instructions("FROM python:3.12\nRUN pip install vllm\n")
    """
    found: list[tuple[str, str]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        matched = _LINE.fullmatch(line)
        if matched is None or matched[1].lower() not in _INSTRUCTIONS:
            return None
        name, value = matched[1].lower(), matched[2].strip()
        if value.startswith(_QUOTES):
            parts = [value[len(_QUOTES) :]]
            while _QUOTES not in parts[-1] and (more := next(lines, None)) is not None:
                parts.append(more)
            value = "\n".join(parts).partition(_QUOTES)[0]
        found.append((name, value.strip('"') if value.count('"') == 2 else value))
    return found if any(name == "from" for name, _ in found) else None


def of_modelfile(text: str) -> dict[str, Any] | None:
    r"""Return the parameters of a Modelfile, with the model under `*`; None for another text.

    >>> of_modelfile("FROM qwen3:8b\nPARAMETER num_ctx 4096\nTEMPLATE x")
    {'': 'ollama run', '*': 'qwen3:8b', 'num_ctx': 4096}
    """
    lines = instructions(text)
    if lines is None:
        return None
    found: dict[str, Any] = {"": "ollama run"}
    for name, value in lines:
        key, _, rest = value.partition(" ")
        if name == "from":
            found[PROJECTOR if _PROJECTS.search(value) else "*"] = value
        elif name == "parameter":
            found[key] = number(rest.strip())
        elif name in _WEIGHTS:
            found[name] = value
    return found


_HERE = re.compile(r"[Mm]odelfile\S{0,40}[ \t]{0,8}<<-?[ \t]{0,8}[\"']?(\w{1,40})[\"']?[ \t]*\n")
_ASSIGNED = re.compile(r"^[ \t]*(?:export )?(\w{1,80})=[\"']?([^\s\"'$]{1,200})[\"']?[ \t]*$", re.MULTILINE)
_HELD = re.compile(r"\$\{(\w{1,80})\}")


def modelfile_in(text: str) -> Mapping[str, Any] | None:
    r"""Return the Modelfile that a text is, or that a script in it writes; None for another text.

    >>> modelfile_in("Q=Q8_0\ncat > Modelfile <<EOF\nFROM ./m-${Q}.gguf\nEOF\n")
    {'': 'ollama run', '*': './m-Q8_0.gguf'}
    """
    begins = _HERE.search(text)
    ends = re.compile(rf"^[ \t]*{begins[1]}[ \t]*$", re.MULTILINE).search(text, begins.end()) if begins else None
    if not begins or not ends:
        return of_modelfile(text)
    given = dict(_ASSIGNED.findall(text[: begins.start()]))
    return of_modelfile(_HELD.sub(lambda each: given.get(each[1], each[0]), text[begins.end() : ends.start()]))


PROJECTOR, _PROJECTS = "mmproj", re.compile(r"(?:^|[/_.-])mmproj[^/]*\.gguf$", re.IGNORECASE)
"""The file of a model's towers, which a second `FROM` names (ollama, server/create.go: its architecture is clip)."""
_WEIGHTS = ("adapter", "draft")
"""Instructions that load more than the model."""


def as_modelfile(content: Mapping[str, Any]) -> str:
    r"""Return a Modelfile of a model, under `*`, and of parameters; Ollama takes none without a model.

    >>> as_modelfile({"*": "qwen3:8b", "num_ctx": 4096})
    'FROM qwen3:8b\nPARAMETER num_ctx 4096\n'
    """
    lines = [f"FROM {content.get('*', './model.gguf')}"]
    lines += [f"PARAMETER {name} {value}" for name, value in content.items() if name != "*"]
    return "\n".join(lines) + "\n"
