"""What people get wrong on the command line: each mistake is named, with what is allowed, and ends with status 2."""

import json

import pytest

from memcore import cli
from memcore.cli import main
from memcore.errors import meaning, nearest
from memcore.render.page import EXAMPLE


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A config, the log of its run, and files that are neither, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(EXAMPLE))
    (tmp_path / "run.log").write_text("step 1 max memory allocated: 29.68 GiB\n")
    (tmp_path / "null.json").write_text("null")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "bytes.json").write_bytes(bytes(range(256)))
    (tmp_path / "folder.json").mkdir()
    return tmp_path


MISTAKES = {
    "estimate --modle llama-3.1-8b": "unrecognized arguments: --modle (did you mean '--model'?)",
    "estimate": "model: is required",
    "estimate null.json": "null.json: expected a JSON object",
    "estimate empty.json": "empty.json: is not JSON",
    "estimate bytes.json": "bytes.json: is not text",
    "estimate folder.json": "folder.json: ",
    "estimate missing.json": "missing.json: No such file",
    "estimate job.json more": "unrecognized arguments: more",
    "estimate job.json --seq 1e21": "training.sequence_length: expected a whole number of at most 9007199254740992, found",
    "estimate job.json --accelerator a100": "it may be a100-sxm-40gb, a100-pcie-40gb, a100-sxm-80gb, a100-pcie-80gb",
    "estimate --model qwen3-8": "it may be qwen3-8b, qwen3-8b-base",
    "solve job.json": "the following arguments are required: --for",
    "search job.json --counts 2,,4": "--counts: expected a whole number such as 8192, 8k or 7B, found ''",
    "search job.json --micro-batches 0": "--micro-batches: expected a whole number of at least 1, found 0",
    "search job.json --keep 0": "--keep: expected a whole number of at least 1, found 0",
    "search job.json --sequences 0": "--sequences: expected a whole number of at least 1, found 0",
    "search job.json --jobs 0": "--jobs: expected a whole number of at least 1, found 0",
    "search job.json --assume flops": "--assume: expected NAME=VALUE with a number, such as",
    "search job.json --assume flops=x": "--assume: expected NAME=VALUE with a number, found 'flops=x'",
    "search job.json --on h100": "it may be h100-sxm-80gb, h100-pcie-80gb, h100-nvl-94gb",
    "search job.json --write bytes.json": "bytes.json: has rows that no search wrote",
    "search job.json --write run.log": "run.log: has rows that no search wrote",
    "reconcile": "the following arguments are required: LOG",
    "reconcile job.json": "CONFIG: two files are expected",
    "reconcile job.json run.log --case none/x.json": "No such file",
    "accuracy bytes.json": "bytes.json: is not text",
    "quick 7 --gpus 0": "--gpus: expected a whole number of at least 1, found 0",
    "quick 7 --engine vllm": "--engine: found 'vllm', a server",
    "explain job.json --at noon": "--at: invalid choice: 'noon'",
    "nothing": "COMMAND: invalid choice: 'nothing'",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named(files, capsys, line):
    """In words, and with `--json` as a problem."""
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert MISTAKES[line] in printed.err
    assert main([*line.split(), "--json"]) == 2
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert f"{problem['path']}: {problem['message']}".removeprefix(": ")[:20] in printed.err


@pytest.mark.parametrize(
    "line",
    [
        "reconcile job.json run.log --json",
        "reconcile job.json --json run.log",
        "reconcile --json job.json run.log",
        "reconcile --json job.json --seq 8k run.log",
        "reconcile --json job.json --packed run.log",
    ],
)
def test_options_stand_anywhere_among_files(files, capsys, line):
    """A switch without a value does not take the file after it."""
    assert main(line.split()) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["quantity"] == "max_allocated"


def test_a_switch_with_a_value_keeps_it(files, capsys):
    """Before a file, too."""
    for line in ("url --packed off job.json", "url job.json --packed=false"):
        assert main(line.split()) == 0
        assert "packed=false" in capsys.readouterr().out
    assert main(["url", "--packed", "job.json"]) == 0
    assert "packed=true" in capsys.readouterr().out


def test_a_mistake_of_memcore_does_not_look_like_a_verdict(files, capsys, monkeypatch):
    """A traceback would end with status 1: the job does not fit."""

    def broken(config):
        raise KeyError("here")

    monkeypatch.setattr(cli, "estimate", broken)
    assert main(["estimate", "job.json"]) == 2
    assert "a mistake in memcore, not in the input; please report it with the config. KeyError: 'here'" in (
        capsys.readouterr().err
    )


def test_sizes_beyond_any_machine_are_worked_out(capsys):
    """Addresses of the allocator do not run out."""
    assert main(["quick", "1e30", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["allocated_bytes"] > 16e30


def test_the_nearest_name_says_the_same_in_more_words():
    """Words and numbers count, not letters alone: an A10 looks like an A100, and is none."""
    assert nearest("a100", ["a10", "a100-sxm-40gb"]) == "a100-sxm-40gb"
    assert nearest("llama3", ["open_llama_3b", "llama-30b", "llama-3.1-8b"]) == "llama-3.1-8b"
    assert nearest("sequence_lenght", ["batch_size", "sequence_length"]) == "sequence_length"
    assert meaning("nothing", ["a10"]) == []
