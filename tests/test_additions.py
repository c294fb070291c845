"""The walks of docs/architecture.md: each is applied to a copy of the package, and its command is run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "docs" / "architecture.md"
PAGE = SOURCE.read_text(encoding="utf-8") if SOURCE.exists() else ""  # only tests are in the browser's Python
WALKS = {
    found[1]: found[0]
    for found in re.finditer(r"### … (an? [^\n]*)\n.*?(?=\n### |\Z)", PAGE, re.DOTALL)
    if "```diff" in found[0]
}
DIFF = re.compile(r"```diff (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```sh\nmemcore (.*?)\n```\n\nprints `([^`]+)`", re.DOTALL)

pytestmark = pytest.mark.machine


def applied(text, diff):
    """A file with a diff: unmarked lines are its context, which stands in the file as it is."""
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] != "+")
    after = "\n".join(line[1:] for line in lines if line[:1] != "-")
    assert text.count(before) == 1, f"the context stands {text.count(before)} times in the file: {before}"
    return text.replace(before, after)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_works_as_written(name, tmp_path):
    """At most two files are touched, and the command prints what the page says."""
    shutil.copytree(ROOT / "memcore", tmp_path / "memcore", ignore=shutil.ignore_patterns("__pycache__"))
    diffs = DIFF.findall(WALKS[name])
    assert 1 <= len(diffs) <= 2
    for path, diff in diffs:
        file = tmp_path / path
        file.write_text(applied(file.read_text(encoding="utf-8"), diff), encoding="utf-8")
    command, said = COMMAND.search(WALKS[name]).groups()
    done = subprocess.run(
        [sys.executable, "-m", "memcore", *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert said in done.stdout


def test_there_are_walks():
    """For an accelerator, an optimizer, a family and a server's flag."""
    assert set(WALKS) == {"an accelerator", "an optimizer", "a model family", "a vLLM flag"}
