"""Answers in Python and in notebooks: a line, plain data, rows for a table, pictures."""

import json
import re
from base64 import b64decode
from xml.etree import ElementTree

import pytest

import memcore
from memcore.faces.cli import main

JOBS = {
    "training": {"model": "gpt2", "training": {"sequence_length": 1024}, "hardware": {"accelerator": "t4"}},
    "a server": {"model": "llama-3.1-8b", "engine": {"type": "vllm"}, "hardware": {"accelerator": "h100-sxm-80gb"}},
    "generate": {"model": "gpt2", "engine": {"type": "transformers"}, "inference": {"batch_size": 2}},
}


@pytest.fixture(params=JOBS.values(), ids=JOBS)
def config(request):
    """A job."""
    return request.param


def test_the_line_is_the_verdict():
    """A line says what the answer is, not all that it is made of."""
    found = repr(memcore.estimate(JOBS["training"]))
    assert found.startswith("<Estimate: openai-community/gpt2 on one GPU: Fits")
    assert "\n" not in found


def test_data_are_those_of_the_command_line(config, tmp_path, capsys):
    """`to_dict` is what `--json` prints, but for what became of a file's keys."""
    path = tmp_path / "job.json"
    path.write_text(json.dumps(config))
    main(["estimate", str(path), "--json"])
    printed = json.loads(capsys.readouterr().out)
    plain = memcore.estimate(config).to_dict()
    assert printed.keys() - plain.keys() == {"read", "of_no_account", "left_out", "assumed"}
    assert plain == {key: printed[key] for key in plain}


def test_rows_are_flat_and_add_up(config):
    """A table takes them as they are: no list, no dict inside; the largest first."""
    found = memcore.estimate(config)
    rows = found.rows()
    assert sum(row["bytes"] for row in rows) == found.ledger.total
    assert [value for row in rows for value in row.values() if not isinstance(value, (str, int))] == []
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)


def test_pictures_are_images(config):
    """Each is an image of its own: well-formed, without scripts, and without styles that reach the notebook."""
    found = memcore.estimate(config)._repr_html_()
    pictures = re.findall(
        r'<img alt="[^"<>]+" style="[^"]+" width="900" src="data:image/svg\+xml;base64,([^"]+)">', found
    )
    assert pictures
    assert found.count("<") == len(pictures)
    for each in pictures:
        drawn = b64decode(each).decode()
        assert ElementTree.fromstring(drawn).tag.endswith("svg")
        assert "<script" not in drawn


def test_plans_advice_and_solutions_print_as_on_the_command_line():
    """In a notebook they are a line, and `print` shows what the commands print."""
    job = {"model": "gpt2", "training": {"sequence_length": 512}, "hardware": {"accelerator": "t4"}}
    planned, advised, solved = memcore.plan(job, keep=1), memcore.advise(job), memcore.solve(job, "batch")
    assert repr(planned) == f"<Planned: {planned.plans[0].title}>"
    assert repr(planned.plans[0]).startswith("<Proposal: one GPU")
    assert "Plan 1: " in str(planned)
    assert "What saves memory" in str(advised)
    assert str(solved).startswith("Micro-batch size: ")
    assert all(len(repr(each)) < 400 for each in (planned, advised, solved))
