"""Completion scripts: their words are those of the parsers, and bash completes with them."""

import shutil
import subprocess

import pytest

from memcore.faces.cli import COMMANDS, main
from memcore.faces.cli.completing import SHELLS, words


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script for bash, as a file."""
    path = tmp_path_factory.mktemp("completion") / "memcore.bash"
    path.write_text("\n".join(SHELLS["bash"]()), encoding="utf-8")
    return path


@pytest.mark.machine
@pytest.mark.skipif(shutil.which("bash") is None, reason="runs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["memcore", "est"], {"estimate"}),
        (["memcore", "comp"], {"completion"}),
        (["memcore", "--ver"], {"--version"}),
        (["memcore", "estimate", "--accelerator", "rtx-409"], {"rtx-4090"}),
        (["memcore", "estimate", "--model", "llama-3.1-8"], {"llama-3.1-8b"}),
        (["memcore", "estimate", "--engine", "fsdp"], {"fsdp"}),
        (["memcore", "explain", "--at", "forw"], {"forward"}),
        (["memcore", "estimate", "--acc"], {"--accelerator"}),
        (["memcore", "hardware", "--js"], {"--json"}),
        (["memcore", "estimate", "--no-such"], set()),
    ],
)
def test_bash_completes(script, line, expected):
    """A word begun at the end of a line, by bash itself."""
    typed = " ".join(f"'{each}'" for each in line)
    program = f'. "$1"; COMP_WORDS=({typed}); COMP_CWORD={len(line) - 1}; _memcore; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", program, "bash", script], capture_output=True, text=True, check=True, timeout=60
    )
    found = set(done.stdout.split())
    assert done.stderr == ""
    assert all(each.startswith(line[-1]) for each in found)
    assert found >= expected
    assert bool(found) == bool(expected)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_flag_is_in_the_script(shell, capsys):
    """From the table of commands and their parsers."""
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert list(COMMANDS)
    for name in COMMANDS:
        assert name in printed
        missing = [flag for flag in words(name) if (flag if shell != "fish" else flag.lstrip("-")) not in printed]
        assert missing == []


def test_another_shell_is_refused(capsys):
    """With those that there are."""
    assert main(["completion", "tcsh"]) == 2
    said = capsys.readouterr().err
    assert [name for name in ("bash", "zsh", "fish") if name not in said] == []
