"""Words of the config format that stand for settings of an engine: what they are taken for, and where they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.estimation import estimate

SMALL = {"sequence_length": 256, "precision": "bf16-mixed"}
ZERO_3 = {"type": "deepspeed", "zero_stage": 3}


def job(engine: dict[str, Any] | None = None, gpus: int = 2, **training: Any) -> dict[str, Any]:
    """A job of GPT-2."""
    return {
        "model": "gpt2",
        "training": {**SMALL, **training},
        "engine": engine or {"type": "none"},
        "hardware": {"num_gpus": gpus if engine else 1},
    }


def peak(config: dict[str, Any]) -> int:
    """Of the worst rank."""
    return estimate(config).peak.peak  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (job(compute_dtype="tf32", precision="fp32"), job(precision="fp32")),
        (job(parameter_dtype="tf32"), job(parameter_dtype="fp32")),
        (job({"type": "megatron"}, compute_dtype="fp8"), job({"type": "megatron"}, precision="fp8-mixed")),
        (
            job({"type": "megatron"}, compute_dtype="mxfp8"),
            job({"type": "megatron", "fp8_recipe": "mxfp8"}, precision="fp8-mixed"),
        ),
        (job({"type": "megatron"}, parameter_dtype="bf16", compute_dtype="bf16"), job({"type": "megatron"})),
        (job({"type": "megatron"}, master_dtype="fp32"), job({"type": "megatron"})),
        (job(ZERO_3, master_dtype="fp32"), job(ZERO_3)),
        (job(ZERO_3, offload={"optimizer": "nvme"}), job({**ZERO_3, "offload_optimizer": "nvme"})),
        (
            job(ZERO_3, offload={"optimizer": "cpu", "parameters": "nvme"}),
            job({**ZERO_3, "offload_optimizer": "cpu", "offload_param": "nvme"}),
        ),
    ],
)
def test_other_words(said: dict[str, Any], meant: dict[str, Any]) -> None:
    assert peak(said) == peak(meant)
    assert peak(said) != 0


@pytest.mark.parametrize(
    ("config", "path", "reason"),
    [
        (job(offload={"optimizer": "nvme"}), "training.offload.optimizer", "ZeRO-3"),
        (job({"type": "fsdp"}, offload={"parameters": "nvme"}), "training.offload.parameters", "ZeRO-3"),
        (
            job({**ZERO_3, "offload_optimizer": "cpu"}, offload={"optimizer": "nvme"}),
            "training.offload.optimizer",
            "must agree",
        ),
        (job({"type": "megatron"}, master_dtype="none"), "training.master_dtype", "'fp32'"),
        (job(ZERO_3, master_dtype="none"), "training.master_dtype", "fp32 copy"),
        (job(master_dtype="fp32"), "training.master_dtype", "allowed: none"),
        (job(compute_dtype="int4"), "training.compute_dtype", "allowed: fp32, bf16, fp16, fp8, mxfp8"),
        (job(precision="fp32", compute_dtype="fp8"), "training.compute_dtype", "fp8-mixed"),
        (job({"type": "megatron"}, attention="efficient"), "training.attention", "flash, cudnn, math"),
        (
            job({"type": "megatron"}, optimizer={"name": "adam", "implementation": "foreach"}),
            "training.optimizer.implementation",
            "fused",
        ),
        (job({"type": "megatron"}, optimizer={"name": "adam", "momentum": 0.9}), "training.optimizer.momentum", "sgd"),
    ],
)
def test_refused_by_name(config: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(MemcoreError) as found:
        estimate(config)
    assert f"{path}: " in str(found.value)
    assert reason in str(found.value)


def test_what_was_taken_is_said() -> None:
    found = estimate(job(ZERO_3, offload={"optimizer": "cpu"}))
    assert ("engine.offload_optimizer", "cpu") in [(each.path, each.value) for each in found.assumptions]


def test_tf32_is_fp32_in_memory() -> None:
    given = Config.from_dict({"model": "gpt2", "training": {"compute_dtype": "tf32"}})
    assert given[Training.compute_dtype] == "fp32"
