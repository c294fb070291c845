"""Jobs that share GPUs: their processes add up, and nobody is asked twice which GPU it is."""

import json

import pytest

from memcore import ConfigError, estimate, share
from memcore.faces.cli import main

TRAIN = {"model": "gpt2", "training": {"sequence_length": 512}, "hardware": {"accelerator": "t4"}}
GENERATE = {"model": "gpt2", "engine": {"type": "transformers"}, "inference": {"max_model_len": 512}}
SERVE = {"model": "gpt2", "engine": {"type": "vllm"}, "inference": {"max_model_len": 512}}


@pytest.mark.parametrize(
    ("others", "fits"), [((), True), ((GENERATE,), True), ((TRAIN, GENERATE), True), ((SERVE,), False)]
)
def test_processes_add_up(others, fits):
    """Low, expected and high ends are sums; the GPU of one is that of all."""
    found = share(TRAIN, *others)
    alone = [estimate({**each, "hardware": TRAIN["hardware"]}).device for each in (TRAIN, *others)]
    assert (found.low, found.expected, found.high) == tuple(
        sum(getattr(each, end) for each in alone) for end in ("low", "expected", "high")
    )
    assert found.fits is fits
    assert found.headroom == found.capacity - found.expected
    assert found.left_for(found.found[0]) == found.capacity - found.expected + alone[0].expected


def test_without_a_gpu_nobody_knows():
    """There are sums, and no verdict."""
    found = share(GENERATE, GENERATE)
    assert (found.fits, found.headroom, found.capacity) == (None, None, None)


def test_a_slice_is_shared_too():
    """A MIG profile of one job is that of the others."""
    hardware = {"accelerator": "a100-sxm-40gb", "mig": "3g.20gb"}
    assert share({**TRAIN, "hardware": hardware}, GENERATE).capacity < 20 * 2**30


def test_different_gpus_are_refused():
    """Jobs on different GPUs share none."""
    with pytest.raises(ConfigError, match="t4 and l4"):
        share(TRAIN, {**TRAIN, "hardware": {"accelerator": "l4"}})


def test_the_command_line(tmp_path, capsys):
    """A line for each job and their sum; what a server may still take where it is too much."""
    file = tmp_path / "train.json"
    file.write_text(json.dumps(TRAIN))
    server = tmp_path / "serve.json"
    server.write_text(json.dumps(SERVE))
    assert main(["estimate", str(file), "--with", "gpt2"]) == 0
    assert "together" in capsys.readouterr().out
    assert main(["estimate", str(file), "--with", str(server)]) == 1
    assert "would be left for" in capsys.readouterr().out
    assert main(["estimate", str(file), "--with", str(server), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["device_bytes"] == sum(each["device_bytes"] for each in found["jobs"])
    assert found["fits"] is False
