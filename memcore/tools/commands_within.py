r"""The commands that notebooks and Python scripts start: lines of a shell in cells, and what is handed to a process.

Sources: IPython 9, core/inputtransformer2.py (`!`, `%%bash`; names of Python in braces or behind a dollar); Python,
Lib/subprocess.py and Lib/os.py; sglang, utils.py (`launch_server_cmd`, `execute_shell_command`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from memcore.errors import MemcoreError
from memcore.formats.as_shell import of_notebook
from memcore.formats.expressions import is_open
from memcore.formats.python import calls

_STARTS = re.compile(r"(?:^|[\"\\n])[ \t]*(?:!|%%(?:bash|sh|shell|script)\b)")
"""How a shell command begins in a cell of a notebook."""
_RUNS = frozenset({
    "Popen", "run", "call", "check_call", "check_output", "system", "getoutput", "create_subprocess_shell",
    "launch_server_cmd", "execute_shell_command",
})  # fmt: skip
"""Functions that start a command: a text, or its words."""
_RUN = re.compile(rf"\b(?:{'|'.join(sorted(_RUNS))})\(")
_BRACED = re.compile(r"(?<![$\w{])\{(\w{1,80})\}(?!\})")
"""A name of Python in a command of a notebook."""
_NAME = re.compile(r"\$\{?([A-Za-z_]\w{0,80})")
_SHEBANG = "#!/bin/sh"


def starts_commands(text: str, code: str | None) -> bool:
    """Return whether a notebook or a script of Python, `code`, may start commands."""
    cells = text.lstrip().startswith("{") and _STARTS.search(text) is not None
    return cells or (code is not None and _RUN.search(code) is not None)


def commands_within(text: str, code: str | None) -> str:
    r"""Return a script of the commands that a notebook or a script of Python starts; empty without any.

    >>> code = "import subprocess\nM = 'org/m'\nsubprocess.Popen(['vllm', 'serve', M, '--port', '80'])"
    >>> print(commands_within(code, code))
    #!/bin/sh
    vllm serve org/m --port 80
    """
    shell = of_notebook(text) if text.lstrip().startswith("{") else ""
    lines = [] if shell in ("", text) else [_BRACED.sub(r"${\1}", shell).removeprefix(f"{_SHEBANG}\n")]
    if code is not None:
        lines += _handed(code)
        names = sorted({name for each in lines for name in _NAME.findall(each)})
        lines = [*_assigned(code, names), *lines]
    return "\n".join([_SHEBANG, *lines]) if lines else ""


def _handed(code: str) -> Iterator[str]:
    """Yield the commands that functions are handed, as a shell writes them."""
    try:
        found = calls(code) if _RUN.search(code) else []
    except MemcoreError:
        return
    for each in found:
        said = each.arguments.get("args", each.arguments.get("cmd", each.first))
        if each.name not in _RUNS:
            continue
        if isinstance(said, list) and said and all(isinstance(word, str | int | float) for word in said):
            yield " ".join(_word(word) for word in said)
        elif isinstance(said, str) and not is_open(said):
            yield said.strip()


def _word(value: str | float) -> str:
    """Return a word of a command; one that nobody knows as a variable."""
    return f"${{{value[1:]}}}" if isinstance(value, str) and is_open(value) else quote(str(value))


def _assigned(code: str, names: Sequence[str]) -> Iterator[str]:
    """Yield assignments of the names that a script gives plain values, as a shell writes them."""
    try:
        told = calls(f"{code}\n_({', '.join(f'{name}={name}' for name in names)})")[-1].arguments if names else {}
    except MemcoreError:
        return
    for name, value in told.items():
        if isinstance(value, str | int | float) and not is_open(value):
            yield f"{name}={quote(str(value))}"
