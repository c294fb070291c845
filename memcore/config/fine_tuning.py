"""Settings of engines that matter for fine-tuning: FSDP1, LitGPT and PEFT."""

from __future__ import annotations

from dataclasses import dataclass

from memcore.config.kinds import Choice, Flag, Integer
from memcore.config.schema import setting
from memcore.serving.settings import ServerFlags

_FSDP = ("fsdp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuning(ServerFlags):
    """A part of the engine's settings."""

    use_orig_params: bool | None = setting(
        Flag(),
        "Original parameters",
        "FSDP1: frozen and trained parameters may share a unit; the frozen ones then need gradients too.",
        flag="use-orig-params",
        engines=_FSDP,
        default="false, as in FullyShardedDataParallel; true with LitGPT",
        advanced=True,
    )
    limit_all_gathers: bool | None = setting(
        Flag(),
        "Limit all-gathers",
        "FSDP1: at most two units are gathered ahead.",
        flag="limit-all-gathers",
        engines=_FSDP,
        default="true",
        advanced=True,
    )
    backward_prefetch: str | None = setting(
        Choice(
            ("pre", "none"),
            {
                "pre": "the next unit is gathered before the one at hand runs",
                "none": "each unit is gathered when it runs",
            },
        ),
        "Backward prefetch",
        "FSDP1: when the next unit of the backward pass is gathered.",
        flag="backward-prefetch",
        engines=_FSDP,
        default="pre",
        advanced=True,
    )
    lm_head_chunk_size: int | None = setting(
        Integer(unit="tokens"),
        "Logits chunk",
        "LitGPT: the output head runs over so many tokens of the sequence at a time.",
        flag="lm-head-chunk",
        engines=("none", "ddp", "fsdp"),
        default="by training.loss",
        advanced=True,
    )
    prepare_model_for_kbit_training: bool | None = setting(
        Flag(),
        "Prepared for k bits",
        "PEFT's prepare_model_for_kbit_training: everything that is not quantized is cast to fp32.",
        flag="prepare-kbit",
        engines=("none", "ddp", "fsdp"),
        default="false",
        advanced=True,
    )
    optimizer_in_bwd: bool | None = setting(
        Flag(),
        "Optimizer in backward",
        "The optimizer steps as soon as a gradient is there, and lets go of it.",
        flag="optimizer-in-backward",
        engines=("none", "fsdp"),
        default="false",
        advanced=True,
    )
