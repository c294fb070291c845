"""The pages of docs/ are true: their commands print what stands there, their Python runs, their links lead somewhere."""

import json
import re
import shlex
from pathlib import Path

import pytest

from memcore.faces.cli import main

pytestmark = pytest.mark.machine
DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = tuple(sorted(f"tutorials/{path.stem}" for path in (DOCS / "tutorials").glob("*.md")))
PAGES = ("index", "start", "tutorials", *TUTORIALS, "how-to", "faq", "concepts", "api")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [
    (page, number, kind, text)
    for page in PAGES
    for number, (kind, text) in enumerate(FENCE.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")))
]
TITLED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
FILES = {
    "job.json": json.dumps({"model": "gpt2", "training": {"sequence_length": 512}}),
    "train.log": "step: 10  memory: 2.50GiB(3.16%)",
    "train.yaml": "model_name_or_path: gpt2\nper_device_train_batch_size: 1\nmax_length: 512\ndeepspeed: ds_config.json\n",
    "ds_config.json": '{"zero_optimization": {"stage": 2}}',
    "train.sh": "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 --vocab-size 50304 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --bf16",
}


def of(kind):
    """The blocks of a kind, each with its page and place."""
    found = [pytest.param(page, text, id=f"{page}-{number}") for page, number, each, text in BLOCKS if each == kind]
    assert found
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def save_files(page):
    """Save the files that a page shows, under the names that it gives them."""
    for name, content in TITLED.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        Path(name).write_text(content, encoding="utf-8")


@pytest.mark.parametrize(("page", "block"), of("console"))
def test_commands_print_what_is_shown(page, block, capsys):
    """`...` stands for what is left out: a line of its own for lines, at a line's end for the rest of the line."""
    save_files(page)
    command, *shown = block.splitlines()
    name, *arguments = shlex.split(command.removeprefix("$ "))
    assert name == "memcore"
    assert main(arguments) in {0, 1}
    pattern = ""
    for line in shown:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(line).replace(re.escape("..."), ".*") + r"\n"
    assert re.fullmatch(pattern, capsys.readouterr().out.rstrip("\n") + "\n")


@pytest.mark.parametrize(("page", "block"), of("sh"))
def test_commands_run(page, block, capsys):
    save_files(page)
    commands = block.splitlines()
    assert commands
    for command in commands:
        name, *arguments = shlex.split(command, comments=True)
        assert name == "memcore"
        assert main(arguments) in {0, 1}, capsys.readouterr().err


@pytest.mark.parametrize(("page", "block"), of("python"))
def test_python_runs(page, block):
    names = {}
    exec(compile(block, "docs", "exec"), names)  # noqa: S102 - the pages are the project's own
    assert "memcore" in names


def test_links_lead_somewhere():
    pages = [DOCS / f"{page}.md" for page in PAGES]
    targets = [
        page.parent / each for page in pages for each in re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8"))
    ]
    assert targets
    assert [each for each in targets if not each.exists()] == []


FEATURES = [line for line in (DOCS / "ux.md").read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
TESTED = re.compile(r"(test_\w+\.py): (`test_\w+`(?:, `test_\w+`)*)")


@pytest.mark.parametrize("line", FEATURES, ids=range(len(FEATURES)))
def test_every_feature_of_the_page_names_its_tests(line):
    """The tests that ux.md names beside a feature are in the file that it names."""
    named = [(path, name) for path, names in TESTED.findall(line) for name in re.findall(r"`(test_\w+)`", names)]
    assert named
    for path, name in named:
        assert f"\ndef {name}(" in (DOCS.parent / "tests" / path).read_text(encoding="utf-8")
