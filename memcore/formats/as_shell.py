"""Texts that hold commands in another form than a shell's: batch files of Windows, units of systemd, Dockerfiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memcore.errors import MemcoreError
from memcore.formats.containers import commands, program_of
from memcore.formats.notebooks import code_cells
from memcore.untrusted import parse_json

_SET = re.compile(r"^[ \t]*@?set[ \t]+\"?(\w{1,80})=([^\"\r\n]*)\"?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_REMARK = re.compile(r"^[ \t]*@?(?:rem\b|::|echo\b|title\b|pause\b|cd\b)[^\n]*$", re.MULTILINE | re.IGNORECASE)
_HELD = re.compile(r"%(\w{1,80})%")
_SHEBANG, _EXPORTS = "#!/bin/sh", "export "


def of_batch(text: str) -> str:
    r"""Return a batch file of Windows as a shell writes it; other texts as they are.

    >>> print(of_batch("set M=C:\\x.gguf\nllama-server.exe -m %M%"))
    M='C:/x.gguf'
    llama-server.exe -m ${M}
    """
    if not (_SET.search(text) and _HELD.search(text)):
        return text
    plain = _REMARK.sub("", text.replace("\\", "/"))
    return _HELD.sub(r"${\1}", _SET.sub(r"\1='\2'", plain))


_UNIT = re.compile(r"^\[Service\][ \t]*$", re.MULTILINE)
_STARTED = re.compile(r"^(ExecStart|Environment)=[@:+!-]*((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)


def of_unit(text: str) -> str:
    r"""Return the command that a unit of systemd starts, as a shell's script; other texts as they are.

    >>> print(of_unit("[Service]\nEnvironment=A=1\nExecStart=/bin/llama-server -m x.gguf\n"))
    #!/bin/sh
    export A=1
    /bin/llama-server -m x.gguf
    """
    if not _UNIT.search(text):
        return text
    said = [(name, value) for name, value in _STARTED.findall(text) if value]
    lines = [_EXPORTS * (name == "Environment") + value for name, value in said]
    return "\n".join([_SHEBANG, *lines])


_WRITES = re.compile(r"%%writefile[ \t]+(?!-a)(\S{1,200})[ \t]*\n")
_SHELL_CELL = re.compile(r"%%(?:bash|sh|shell)\b[^\n]*\n")
_BANG = re.compile(r"^[ \t]*!((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_ENDS = "END_OF_CELL"


def of_notebook(text: str) -> str:
    r"""Return the shell script of a notebook's commands and of the files its cells write; other texts as they are.

    >>> print(of_notebook('{"cells": [{"cell_type": "code", "source": ["!vllm serve org/m"]}]}'))
    #!/bin/sh
    vllm serve org/m
    """
    try:
        notebook = parse_json(text)
    except (ValueError, RecursionError):
        return text
    lines: list[str] = []
    for cell in code_cells(notebook):
        file, script = _WRITES.match(cell), _SHELL_CELL.match(cell)
        if file is not None:
            lines.append(f"cat > {file[1]} <<'{_ENDS}'\n{cell[file.end() :].rstrip()}\n{_ENDS}")
        elif script is not None:
            lines.append(cell[script.end() :])
        else:
            lines += _BANG.findall(cell)
    return "\n".join([_SHEBANG, *lines]) if lines else text


_DOCKERFILE = re.compile(r"(?:[ \t]*(?:#[^\n]*|ARG[ \t][^\n]*)?\n)*FROM[ \t]+\S", re.IGNORECASE)
_INSTRUCTION = re.compile(
    r"^[ \t]*(FROM|ARG|ENV|ENTRYPOINT|CMD)[ \t]+((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
_SERVER = re.compile(
    r"\b(?:vllm|sglang|llama-server|llama-cli|text-generation-launcher|trtllm-serve|lmdeploy|ollama)\b"
)
_PAIR = re.compile(r"(?<!\w)(\w{1,80})=(\"[^\"]*\"|'[^']*'|\S*)|(?<!\w)(\w{1,80})[ \t]+(\S[^\n]*)")


def of_dockerfile(text: str) -> str:
    r"""Return the command of a Dockerfile whose image serves a model, as a shell's script; other texts as they are.

    Source: Docker's reference of Dockerfiles (the last `CMD` and `ENTRYPOINT` of the last stage hold).

    >>> print(of_dockerfile('FROM vllm/vllm-openai:v0.10.0\nENV A=1\nCMD ["--model", "org/m"]\n'))
    #!/bin/sh
    export A=1
    SERVER_RELEASE=v0.10.0 vllm serve "--model" "org/m"
    """
    if not _DOCKERFILE.match(text):
        return text
    image, exports = "", []
    runs: dict[str, object] = {}
    for name, value in _INSTRUCTION.findall(text):
        plain = " ".join(value.replace("\\\n", " ").split())
        if name.upper() == "FROM":
            image, runs = next(word for word in plain.split() if not word.startswith("--")), {}
        elif name.upper() in ("ARG", "ENV"):
            exports += [f"{_EXPORTS}{each}" for each in _set(plain)]
        else:
            runs["command" if name.upper() == "CMD" else "entrypoint"] = _words(plain)
    try:
        serves = bool(runs) and (program_of(image) or _SERVER.search(str(runs)))
    except MemcoreError:
        serves = False
    script = commands({"services": {"image": {"image": image, **runs}}}) if serves else None
    return text if script is None else "\n".join([_SHEBANG, *exports, script])


def _words(plain: str) -> object:
    """Return what an instruction runs: a list of words, or a line of a shell."""
    if not plain.startswith("["):
        return plain
    try:
        return parse_json(plain)
    except ValueError:
        return plain


def _set(plain: str) -> Iterator[str]:
    """Assignments of `ENV A=1 B=2`, `ENV A 1` and `ARG A=1`."""
    for name, value, other, rest in _PAIR.findall(plain):
        yield f"{name}={value}" if name else f'{other}="{rest}"'
