"""Predictions against steps of real PyTorch: simulated ones on fake tensors, and jobs measured on GPUs."""

import json
from pathlib import Path

import pytest
from conftest import predicted, truth

from memcore import Config, estimate
from memcore.questions.accuracy import Report, accuracy, of_stage

pytestmark = pytest.mark.machine  # a thousand cases take minutes inside Pyodide, where test_tapes shows the same

ROOT = Path(__file__).parent.parent
SIMULATED, HARDWARE = truth("simulated"), truth("hardware")
MISLABELLED = {"sim-fsdp2-prec-llama-3.1-8b-s4096b1-fp32-full-dp-shard8-loss-ce-fp32"}
"""Labelled `loss` because of the softmax that peaks, but it is the softmax of attention, in the backward pass."""
UNLABELLED = "loss-parallel-True"
"""The gradient of a loss over a divided vocabulary is made by code of DTensor, which the simulation takes for no module."""


@pytest.fixture(scope="module")
def simulated():
    """Results of the simulated cases by their id."""
    return {each.id: each for each in predicted("simulated")}


@pytest.mark.parametrize("name", [case["id"] for case in SIMULATED])
def test_simulated_bytes(name, simulated):
    """Every simulated quantity is expressed, and right to a ten-thousandth."""
    assert abs(simulated[name].error) < 1e-4


@pytest.mark.parametrize("name", [case["id"] for case in SIMULATED if case["measured"].get("phase")])
def test_the_peak_is_in_the_right_phase(name, simulated):
    """The peak is named as the simulation names it."""
    result = simulated[name]
    expected = "backward" if result.id in MISLABELLED else result.measured_phase
    if UNLABELLED in result.id and result.predicted_phase == "loss":
        expected = {"backward": "loss"}.get(expected, expected)
    assert result.predicted_phase == expected


def test_the_simulated_cases_are_not_skipped(simulated):
    """All simulated cases are expressed."""
    assert simulated.keys() == {case["id"] for case in SIMULATED}
    assert len(simulated) == len(SIMULATED)
    for result in simulated.values():
        assert not result.reason


RESERVED = [
    (
        case["id"],
        case["config"],
        case["measured"]["rank"],
        case["measured"]["components"]["reserved_by_an_allocator_model"],
    )
    for case in SIMULATED
    if case["measured"].get("components") and case["measured"].get("moment", "peak") == "peak"
]


@pytest.mark.parametrize(("case", "config", "rank", "expected"), RESERVED, ids=[case for case, *_ in RESERVED])
def test_reserved_memory(case, config, rank, expected):
    """What the caching allocator reserves, against an independent model of it: to three percent, mostly exactly.

    A pipeline's last stage that returns its outputs is replayed with two micro-batches of all: to five percent.
    """
    found = of_stage(estimate(Config.from_dict(config), fake=True), rank).reserved
    assert found.expected == pytest.approx(expected, rel=0.05 if "sim-pp-torch-" in case and "pp4.3" in case else 0.03)
    assert found.low <= expected * 1.001
    assert expected <= found.high


def test_hardware_cases_are_reported():
    """Published measurements are compared or refused with a reason; how far off they are stands in docs/accuracy.md."""
    report = Report(tuple(predicted("hardware")))
    done = [result for result in report.results if result.error is not None]
    assert len(done) >= 6
    assert len(done) + sum(count for _, count in report.reasons()) == len(HARDWARE)


def test_the_report_has_the_agreed_form():
    """`memcore accuracy --json`: cases with id, predicted, measured, error, status and reason, and a summary."""
    case = next(case for case in SIMULATED if case["measured"]["moment"] == "peak")
    cases = [case, {"id": "odd", "config": {"model": "gpt2", "training": {}}, "measured": {"quantity": "joy"}}, 7]
    report = json.loads(json.dumps(accuracy(cases).to_dict()))
    first, odd, number = report["cases"]
    assert {"id", "predicted", "measured", "error", "status", "reason"} <= set(first)
    assert first["status"] == "ok"
    assert first["error"] == (first["predicted"] - first["measured"]) / first["measured"]
    assert odd["status"] == number["status"] == "not_expressible"
    assert odd["reason"] == "joy at peak is not predicted"
    assert report["summary"]["not_expressible"] == 2


LOOPS = ("l1-full-b2s2048", "l1-autocast-ckpt-b4s2048", "m8-foreach-b1s256", "m8-qlora-kbit-ckpt-b4s1024", "m8-dora16-b2s1024",
         "l1-sgd-b1s512", "q06-full-b4s2048", "trl-sft-lora-l1-b8s1024", "trl-dpo-lora-l1-b4s512", "trl-grpo-l1-b8p128c128")  # fmt: skip


def test_loops_on_an_h100():
    """Allocated memory of measured training loops, to a thousandth."""
    wanted = {f"h100-{prefix}{name}" for name in LOOPS for prefix in ("", "x-")}
    found = predicted("h100", lambda case: case["id"] in wanted)
    assert len(found) == len(LOOPS)
    assert [each.id for each in found if abs(each.error) > 1e-3] == []


def test_fresh_runs():
    """Runs of 2025 and 2026, written down before they were predicted: bytes of those whose jobs are stated."""
    found = predicted("fresh", lambda case: case["confidence"] != "low" and "bytes" in case["measured"])
    assert not [each.id for each in found if each.error is None]
    errors = sorted(abs(each.error) for each in found)
    assert len(errors) == 6
    assert errors[2] < 0.083
    assert errors[-1] < 0.103


def test_answers_of_other_tools_are_of_known_runs():
    """`benchmarks/peers.py` has asked them; the page says how far off they are."""
    peers = json.loads((ROOT / "tests" / "truth" / "peers.json").read_text(encoding="utf-8"))
    known = {each["id"] for name in ("hardware", "megatron", "runs", "fms", "h100", "fresh") for each in truth(name)}
    assert {each["id"] for each in peers["runs"]} <= known
    assert all(len(commit) == 40 for commit in peers["commits"].values())
    assert {tool for each in peers["runs"] for tool in each["said"]} == {
        *peers["commits"],
        "Megatron-LM",
        "Megatron Bridge",
    }
