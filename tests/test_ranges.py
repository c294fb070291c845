"""Ranges of readings: their parts, which question narrows them, and how many measured runs lie within."""

from statistics import median

import pytest
from conftest import predicted, truth

from memcore.estimation import estimate
from memcore.memory.doubts import narrowing, together
from memcore.questions.accuracy import accuracy

pytestmark = pytest.mark.machine
JOB = {"model": "meta-llama/Llama-2-7b-hf", "training": {"sequence_length": 1024, "precision": "bf16"},
       "hardware": {"accelerator": "a100-sxm-80gb"}}  # fmt: skip


def job(**settings):
    """A job with more said of it."""
    sections = {name: dict(value) if isinstance(value, dict) else value for name, value in JOB.items()}
    for name, value in settings.items():
        section, key = name.split("__")
        sections.setdefault(section, {})[key] = value
    return estimate(sections)


@pytest.mark.parametrize("said", [{}, {"engine__framework": "trl"}, {"engine__expandable_segments": True}])
def test_parts_together_are_the_range(said):
    """The root of the sum of their squares."""
    readings = job(**said).readings
    assert len(readings) == 3
    for each in readings:
        low, high = together(each.parts)
        assert (each.expected - each.low, each.high - each.expected) == (low, high)
        assert all(part.title in str(each.range_because) for part in each.parts)


STATED = {"engine__framework": "transformers", "engine__framework_version": "4.48", "training__attention": "flash"}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"engine__framework": "transformers"}, "engine.framework_version"),
        ({}, "engine.framework"),
        (STATED, "engine.expandable_segments"),
        ({"engine__expandable_segments": True}, "engine.framework"),
        ({**STATED, "engine__expandable_segments": True}, None),
    ],
)
def test_the_question_that_narrows_most(said, asked):
    """Nothing is asked where everything is said."""
    found = job(**said).device
    part = narrowing(found.parts)
    assert (part.settled_by if part else None) == asked
    if part is not None:
        left = tuple(each for each in found.parts if each is not part)
        assert sum(together(left)) < found.high - found.low


LORA = {"training": {"micro_batch_size": 4, "adapter": {"type": "lora"}}}
SHARDED = {"training": {}, "engine": {"type": "fsdp"}, "hardware": {"num_gpus": 8}}
RELEASED = {"trl": (LORA, "1.6"), "transformers": (LORA, "4.57"), "axolotl": (SHARDED, "0.9")}
"""By loop, a job whose defaults moved, and the last release before."""


@pytest.mark.parametrize("loop", RELEASED)
def test_former_defaults_are_within_the_range(loop):
    """The newest release is assumed and said; what a former one needs is within, and naming one narrows most."""
    said, former = RELEASED[loop]
    training = {"sequence_length": 2048, "activation_checkpointing": "full", **said["training"]}
    found, before = (
        estimate({"model": "Qwen/Qwen3-0.6B", **said, "training": training,
                  "engine": {**said.get("engine", {}), "framework": loop, **release}})
        for release in ({}, {"framework_version": former})
    )  # fmt: skip
    assert before.device.expected > 1.05 * found.device.expected
    for newest, other in zip(found.readings, before.readings, strict=True):
        assert newest.low <= other.expected <= newest.high
    part = narrowing(found.device.parts)
    assert part is not None
    assert part.settled_by == "engine.framework_version"
    assert [str(each.value) for each in found.job.assumptions if each.path == part.settled_by] == ["newest"]


def test_what_is_stated_narrows():
    """A config that says everything has half the range of one that names a framework alone."""
    open_, stated = job(engine__framework="transformers"), job(**STATED)
    assert stated.allocated.high - stated.allocated.low < (open_.allocated.high - open_.allocated.low) / 2


def test_simulated_steps_are_exact():
    """Nothing is in doubt on fake tensors."""
    found = estimate(JOB, fake=True).allocated
    assert found.low == found.expected == found.high


def test_ranges_hold_for_a_whole_benchmark():
    """Of the jobs of FMS Acceleration's benchmark, 85 to 95 percent lie within."""
    found = predicted("fms")
    assert all(each.predicted is not None for each in found)
    for quantity, error, width in (("max_allocated", 0.006, 0.06), ("device_used", 0.045, 0.08)):
        own = [each for each in found if each.quantity == quantity]
        inside = sum(bool(each.inside) for each in own) / len(own)
        assert 0.85 <= inside <= 0.96
        assert median(abs(each.error) for each in own) < error
        assert median((each.range[1] - each.range[0]) / 2 / each.predicted for each in own) < width


def test_uneven_routing_widens_a_stage_by_its_own():
    """Once for each reading; the last stage keeps fewer micro-batches than the first."""
    case = next(each for each in truth("winter") if each["id"] == "megatron-mixtral-8x22b-release-h100")
    found = estimate(case["config"])
    routed = [part for part in found.device.parts if part.title == "how unevenly tokens are routed to experts"]
    assert len(routed) == 1
    (last,) = accuracy([case]).results
    assert last.inside
    assert last.range[1] - last.range[0] < 0.12 * last.predicted


def test_a_full_gpu_leaves_the_verdict_open():
    """Where all tensors have room, no order of allocations makes it certain that a job does not fit."""
    said = {"model": "Qwen/Qwen2.5-1.5B", "engine": {"type": "fsdp"},
            "training": {"micro_batch_size": 4, "sequence_length": 2048, "precision": "bf16-mixed"}}  # fmt: skip
    gpu = {"accelerator": "a100-sxm-80gb", "num_gpus": 4}
    found = [estimate({**said, "hardware": {**gpu, "gpu_memory_gb": room}}) for room in (41, 45, 48)]
    assert [each.fits for each in found] == [False, False, True]
    assert [each.certain for each in found] == [True, False, False]
