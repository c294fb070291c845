"""Rates of a machine from logs: what each tool's lines mean, and that predictions then say the same."""

import json

import pytest

from memcore import ConfigError, calibrate, plan
from memcore.faces.cli import main
from memcore.questions.calibrating import COMPUTING, LEAST, METERS

JOB = {
    "model": "gpt2",
    "training": {"sequence_length": 1024, "micro_batch_size": 8, "gradient_accumulation_steps": 4},
    "hardware": {"num_gpus": 2, "accelerator": "h100-sxm-80gb"},
}
TOKENS, SEQUENCES, GPUS = 2 * 4 * 8 * 1024, 2 * 4 * 8, 2
LINES = {
    "Megatron-LM": (" iteration 5/ 100 | elapsed time per iteration (ms): 812.5 | learning rate", 0.8125),
    "Megatron Bridge": ("Step Time : 1.25s GPU utilization: 400.0MODEL_TFLOP/s/GPU", 1.25),
    "NeMo": ("| train_step_timing in s: 3.5 | consumed_samples: 64", 3.5),
    "nanotron": (
        "iteration: 3 / 10 | consumed_tokens: 4.19M | time_per_iteration_ms: 3.4K | tokens_per_sec: 1.2M",
        3.4,
    ),
    "torchtitan": ("step: 10  loss:  4.1  memory: 2.5GiB(3.1%)  tps: 16,384  tflops: 10.0", TOKENS / 16384 / GPUS),
    "torchtune": ("Step 3 | loss:1.2 tokens_per_second_per_gpu:8192.0", TOKENS / 8192 / GPUS),
    "DeepSpeed": ("RunningAvgSamplesPerSec=30.1, CurrSamplesPerSec=32.0, MemAllocated=1.0GB", SEQUENCES / 32),
    "Trainer": ("{'train_runtime': 100.0, 'train_samples_per_second': 128.0, 'train_steps_per_second': 2.0}", 0.5),
}
MORE = {
    "iteration: 1 | time_per_iteration_ms: 340 | tokens": 0.34,
    " 12%|#2        | 12/100 [00:31<03:10,  2.61s/it]": 2.61,
    " 12%|#2        | 12/100 [00:31<03:10,  4.00it/s]": 0.25,
}


def test_every_tool_has_a_line():
    assert {each.tool for each in METERS} == set(LINES)


@pytest.mark.parametrize(("line", "seconds"), [*LINES.values(), *MORE.items()])
def test_seconds_of_a_line(line, seconds):
    assert calibrate(JOB, [line]).measured == pytest.approx(seconds)


def test_the_prediction_is_what_was_measured():
    """The first step warms up; several logs count by their median."""
    log = "".join(f"elapsed time per iteration (ms): {each}\n" for each in (900.0, 400.0, 410.0, 420.0))
    found = calibrate(JOB, [log])
    assert (found.measured, found.timed[0].steps) == (0.41, 4)
    assert found.after == pytest.approx(0.41, rel=0.01)
    assert set(found.rates) == set(COMPUTING)
    assert calibrate(JOB, [log, LINES["Trainer"][0], LINES["NeMo"][0]]).measured == 0.5


@pytest.mark.parametrize(("milliseconds", "faster"), [("0.1", True), ("9000000", False)])
def test_what_no_rate_explains_is_said(milliseconds, faster):
    found = calibrate(JOB, [f"elapsed time per iteration (ms): {milliseconds}"])
    assert found.bounded
    assert (found.measured < found.after) is faster
    assert faster or found.rates["flops_efficiency"] == pytest.approx(0.803 * LEAST, abs=1e-3)


@pytest.mark.parametrize(
    ("config", "log", "message"),
    [
        (JOB, "loss 1.0", "LOG: log 1 has no step time"),
        (
            {"model": "gpt2", "engine": {"type": "vllm"}},
            LINES["NeMo"][0],
            "engine.type: servers have no training steps",
        ),
    ],
)
def test_refused(config, log, message):
    with pytest.raises(ConfigError, match=message):
        calibrate(config, [log])


def test_plans_with_these_rates():
    found = calibrate(JOB, [LINES["NeMo"][0]])
    (usual, *_), (slow, *_) = plan(JOB, keep=1).plans, plan(JOB, keep=1, rates=found.rates).plans
    assert slow.seconds[1] > 10 * usual.seconds[1]
    with pytest.raises(ConfigError, match="flops_eficiency"):
        plan(JOB, rates={"flops_eficiency": 0.5})


def test_the_command(tmp_path, capsys):
    (tmp_path / "run.log").write_text(LINES["NeMo"][0])
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    assert main(["calibrate", str(tmp_path / "job.json"), str(tmp_path / "run.log")]) == 0
    said = capsys.readouterr().out
    assert "run.log: 3.5 s per step, the median of 1 (NeMo)" in said
    flags = said.splitlines()[-1].split()
    assert main(["plan", str(tmp_path / "job.json"), "--plans", "1", *flags]) == 0
