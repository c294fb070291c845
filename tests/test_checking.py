"""`memcore check`: the gate of pull requests, and what runs it there."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memcore.faces.cli import main
from memcore.formats.yaml import read_yaml

ROOT = Path(__file__).parent.parent
SMALL = {"model": "gpt2", "training": {"sequence_length": 512}}
LARGE = {"model": "llama-3.1-70b", "training": {"sequence_length": 512}}
SERVER = {"model": "llama-3.1-8b", "engine": {"type": "vllm"}, "inference": {"max_model_len": 8192}}
CARD = ("--accelerator", "rtx-4090")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Configs in the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, config in {"small.json": SMALL, "large.json": LARGE, "server.json": SERVER}.items():
        Path(name).write_text(json.dumps(config))
    Path("wrong.yaml").write_text("colour: blue\n")


CHECKED = {
    "all fit": (["small.json", "server.json", *CARD], 0, ["ok", "ok"]),
    "one does not": (["small.json", "large.json", *CARD], 1, ["ok", "fail"]),
    "one cannot be read": (["large.json", "wrong.yaml", "small.json", *CARD], 2, ["fail", "error", "ok"]),
    "no GPU is named": (["small.json"], 2, ["error"]),
    "little is left free": (["small.json", *CARD, "--headroom", "95"], 1, ["fail"]),
    "flags alone": (["--model", "gpt2", "--seq", "512", *CARD], 0, ["ok"]),
    "a missing file": (["nothing.json", *CARD], 2, ["error"]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_each_config_has_a_line_and_the_worst_decides(files, capsys, name):
    arguments, status, wanted = CHECKED[name]
    assert main(["check", *arguments, "--json"]) == status
    assert [each["status"] for each in json.loads(capsys.readouterr().out)] == wanted
    assert main(["check", *arguments]) == status
    lines = [each for each in capsys.readouterr().out.splitlines() if not each.startswith(" ")]
    assert [each.split()[0].lower() for each in lines] == wanted


def test_what_does_not_fit_leads_to_plans(files, capsys):
    assert main(["check", "large.json", *CARD]) == 1
    assert "`memcore plan` with the same file and flags" in capsys.readouterr().out


WORDED = {
    '{"model": "gpt2"': "ERROR  said.json: is not JSON: line 1, column 17",
    '{"model": "gpt2", "training": {"sequence_length": 0, "micro_batch_size": 0}}': "       training.micro_batch_size: ",
}


@pytest.mark.parametrize("written", WORDED)
def test_a_line_names_its_file_once_and_problems_stand_below_each_other(files, capsys, written):
    Path("said.json").write_text(written)
    assert main(["check", "said.json", *CARD]) == 2
    printed = capsys.readouterr().out
    assert WORDED[written] in printed
    assert printed.count("said.json") == 1


def test_files_together_are_one_job(files, capsys):
    Path("ds.json").write_text('{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1}')
    assert main(["check", "small.json", "ds.json", "--gpus", "2", *CARD]) == 2
    assert "add --together" in capsys.readouterr().out
    assert main(["check", "ds.json", "--gpus", "2", *CARD]) == 2
    assert "together" not in capsys.readouterr().out
    assert main(["check", "small.json", "ds.json", "--together", "--gpus", "2", *CARD, "--json"]) == 0
    assert [each["file"] for each in json.loads(capsys.readouterr().out)] == ["small.json ds.json"]


def test_a_job_on_the_edge_fails_only_if_strict(files, capsys):
    """Between the ends of its range."""
    main(["check", "small.json", *CARD, "--json"])
    read = json.loads(capsys.readouterr().out)[0]
    edge = (read["device_bytes"] + read["high_bytes"]) / 2 / 2**30
    flags = ["check", "small.json", "--gpu-memory", f"{edge:.3f}"]
    assert main(flags) == 0
    assert main([*flags, "--strict"]) == 1
    assert "The upper end of the range does not fit." in capsys.readouterr().out


def test_annotations_cannot_be_forged(files, capsys):
    """A file's name and an error are data of the workflow command, whatever is in them."""
    name = "a:b,c%\n::error::forged.json"
    Path(name).write_text("{")
    assert main(["check", name, *CARD, "--format", "github"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("::error file=a%3Ab%2Cc%25%0A%3A%3Aerror%3A%3Aforged.json,title=memcore::")
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize("percent", ["100", "-1", "much"])
def test_a_headroom_is_a_percentage(files, percent):
    assert main(["check", "small.json", f"--headroom={percent}", *CARD]) == 2


@pytest.mark.machine
def test_the_action_runs_it(files, tmp_path):
    """The very command of action.yml, in a shell, on a config that fits and on one that does not."""
    action = read_yaml((ROOT / "action.yml").read_text(encoding="utf-8"))
    step = action["runs"]["steps"][0]
    assert step["env"].keys() == {"FILES", "FLAGS", "PACKAGE"}
    command = step["run"].replace("python3", shlex.quote(sys.executable))
    for name, status in (("small.json", 0), ("large.json", 1)):
        given = {"FILES": name, "FLAGS": shlex.join(CARD), "PACKAGE": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", command], env={**os.environ, **given}, cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == status, done.stderr


@pytest.mark.machine
def test_the_hook_runs_it():
    (hook,) = read_yaml((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == "memcore check"


def test_a_key_that_is_ignored_is_said_of_its_file(files, capsys):
    """A misspelled key passes with a note: programs find it with the file, people behind the file's name."""
    Path("typo.yaml").write_text(
        "base_model: gpt2\nadapter: lora\nlora_rr: 16\nlora_target_linear: true\nsequence_len: 512\n"
    )
    note = "lora_rr is not recognized and was ignored; did you mean lora_r?"
    assert main(["check", "small.json", "typo.yaml", "--gpu", "4090", "--json"]) == 0
    said = capsys.readouterr()
    small, typo = json.loads(said.out)
    assert small["notes"] == []
    assert note in typo["notes"]
    assert f"note: typo.yaml: {note}" in said.err
    assert main(["check", "typo.yaml", "--gpu", "4090"]) == 0
    assert f"note: {note}" in capsys.readouterr().err
