"""Slices of GPUs: what a job has of one, and which there are."""

import pytest

from memcore import Config, ConfigError, estimate, solve
from memcore.config.devices import SLICES
from memcore.hardware import BY_ID
from memcore.questions.roofline import roofline_for
from memcore.units import GiB

LORA = {"model": "qwen3-0.6b", "training": {"sequence_length": 1024, "adapter": {"type": "lora", "rank": 8}}}
SERVER = {"model": "qwen3-0.6b", "engine": {"type": "vllm"}, "inference": {"max_model_len": 4096}}


def on(job, accelerator="a100-sxm-80gb", mig="1g.10gb", **more):
    """The job on a slice."""
    return {**job, "hardware": {"accelerator": accelerator, "mig": mig, **more}}


@pytest.mark.parametrize("job", [LORA, SERVER, {"model": "qwen3-0.6b", "engine": {"type": "megatron"}}])
def test_a_slice_has_its_own_memory(job):
    found = estimate(on(job))
    assert found.capacity == int(9.5 * GiB)
    assert found.job.accelerator.name.endswith(" MIG 1g.10gb")
    assert estimate(on(job, gpu_memory_gb=9)).capacity == 9 * GiB


def test_slices_are_slower():
    whole, part = (roofline_for(Config.from_dict(on(LORA, mig=mig))) for mig in ("7g.80gb", "1g.10gb"))
    assert (part.flops, part.memory) == (pytest.approx(whole.flops / 7), pytest.approx(whole.memory / 8))


@pytest.mark.parametrize("accelerator", SLICES)
def test_profiles_lie_within_their_gpu(accelerator):
    """What has more of a GPU has more memory, and none more than its part but for rounding."""
    whole = BY_ID[accelerator].usable
    sizes = [estimate(on(LORA, accelerator, mig)).capacity for mig in SLICES[accelerator]]
    assert len(sizes) == 6
    assert sizes == sorted(sizes)
    parts = [own.eighths / 8 for own in SLICES[accelerator].values()]
    assert all(size <= 1.005 * whole * part for size, part in zip(sizes, parts, strict=True))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (on(LORA, mig="1g.5gb"), "hardware.mig: found '1g.5gb'; profiles of this accelerator: 1g.10gb, 1g.20gb"),
        (on(LORA, "rtx-4090"), "hardware.mig: found '1g.10gb'; accelerators with profiles: a100-sxm-40gb"),
        (on(LORA, num_gpus=2), "hardware.num_gpus: GPU slices cannot communicate with each other"),
    ],
)
def test_refused(job, message):
    with pytest.raises(ConfigError) as caught:
        estimate(job)
    assert message in str(caught.value)


def test_another_accelerator_is_a_whole_one():
    job = on({**LORA, "model": "llama-3.1-8b"})
    assert not estimate(job).fits
    assert solve(job, "hardware.accelerator").found.fits
