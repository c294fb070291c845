"""The walks of docs/architecture.md: each is applied to a copy of the package, and its command is run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memcore import estimate

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "docs" / "architecture.md"
PAGE = SOURCE.read_text(encoding="utf-8") if SOURCE.exists() else ""  # only tests are in the browser's Python
WALKS = {
    found[1]: found[0]
    for found in re.finditer(r"### … (an? [^\n]*)\n.*?(?=\n### |\Z)", PAGE, re.DOTALL)
    if "```diff" in found[0]
}
DIFF = re.compile(r"```diff (\S+)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"```(?:json|text) (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```sh\nmemcore (.*?)\n```\n\nprints `([^`]+)`", re.DOTALL)
MOST = {
    "an accelerator": 1,
    "an optimizer": 2,
    "a model family": 2,
    "a vLLM flag": 2,
    "a trainer": 1,
    "a server": 1,
    "a tool's file format": 1,
    "an operation of PyTorch": 2,
}
"""Files of the package that each opens."""

pytestmark = pytest.mark.machine


def applied(text, diff):
    """A file with a diff: unmarked lines are its context, which stands in the file as it is; all of a new one is added."""
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] != "+")
    after = "\n".join(line[1:] for line in lines if line[:1] != "-")
    if not text and not before:
        return f"{after}\n"
    assert text.count(before) == 1, f"the context stands {text.count(before)} times in the file: {before}"
    return text.replace(before, after)


def walked(name, place, without=(), run=None):
    """The package with what a walk adds, but for some files; what its command then does, and what it should say."""
    shutil.copytree(ROOT / "memcore", place / "memcore", ignore=shutil.ignore_patterns("__pycache__"))
    for path, diff in DIFF.findall(WALKS[name]):
        if path not in without:
            file = place / path
            file.parent.mkdir(exist_ok=True)
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            file.write_text(applied(before, diff), encoding="utf-8")
    for path, text in FILE.findall(WALKS[name]):
        (place / path).write_text(text, encoding="utf-8")
    command, said = COMMAND.search(WALKS[name]).groups()
    done = subprocess.run(
        [sys.executable, "-m", "memcore", *(run or command).split()],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, said


OWN = {"model_type": "llama", "vocab_size": 264, "hidden_size": 72, "num_hidden_layers": 5, "num_attention_heads": 3}
"""A network whose step no other test has recorded."""


def calls(run):
    """Which module calls which function of another while something runs; those that a test calls have no caller."""
    found = set()

    def follow(frame, event, _):
        caller = frame.f_back
        while caller and not caller.f_globals.get("__name__", "").startswith("memcore."):
            caller = caller.f_back
        if event == "call":
            by = caller.f_globals["__name__"] if caller else ""
            found.add((by, frame.f_globals.get("__name__", ""), frame.f_code.co_name))

    sys.setprofile(follow)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_one_estimate_is_followed_in_fourteen_files():
    """Each file of the table is called by one above it, and the function that is named runs."""
    rows = re.findall(r"^\| `memcore/(\S+)\.py` \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert 10 < len(rows) <= 14

    def run():
        found = estimate({"model": OWN, "engine": {"type": "fsdp"}, "hardware": {"num_gpus": 2}})
        assert found.device.expected > found.ledger.total

    found = calls(run)
    names = [f"memcore.{path.replace('/', '.')}" for path, _ in rows]
    for number, (name, (_, function)) in enumerate(zip(names, rows, strict=True)):
        assert any(called == name and code == function for _, called, code in found) or not number, (name, function)
        assert any(caller in names[:number] and called == name for caller, called, _ in found) or not number, name


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_works_as_written(name, tmp_path):
    """No more files that exist are opened than are promised, and the command prints what the page says."""
    opened = {path for path, _ in DIFF.findall(WALKS[name]) if (ROOT / path).exists()}
    assert 1 <= len(opened) <= MOST[name]
    done, said = walked(name, tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert " ".join(said.split()) in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (name, path)
        for name in ("a trainer", "a server")
        for path, _ in DIFF.findall(WALKS.get(name, ""))
        if not (ROOT / path).exists() and path.endswith(("costs.py", "knobs.py", "changes.py", "spelling.py"))
    ],
)
def test_what_a_walk_forgets_is_named(name, path, tmp_path):
    """A module without its row is said in one line, by its file."""
    run = "advise --model gpt2 --engine example --gpus 2 --seq 128" if path.endswith("costs.py") else None
    done, _ = walked(name, tmp_path, (path,), run)
    assert done.returncode == 2
    assert f"{path} has no row 'example'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_there_are_walks():
    """For everything that is added often."""
    assert set(WALKS) == set(MOST)
