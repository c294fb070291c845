"""What DeepSpeed offers to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Settings, Way
from memcore.config.training import Training
from memcore.messages import Message
from memcore.networks.adapter_kinds import ADAPTER_KINDS
from memcore.trace.changes import Change
from memcore.trainers.deepspeed.settings import DEEPSPEED, DeepSpeedSettings
from memcore.trainers.pytorch.knobs import PLAIN_DEGREES

_STAGE, _OPTIMIZER, _PARAMETERS = (
    EngineSettings.zero_stage, DeepSpeedSettings.offload_optimizer, DeepSpeedSettings.offload_param,
)  # fmt: skip
_OPTIMIZER_TO_HOST = Knob(
    title="Optimizer on the host",
    to={_OPTIMIZER: "cpu"},
    when={_OPTIMIZER: (None, "none"), Training.adapter.type: (None,)},  # an adapter's states are small
    why="optimizer states stay on the host, and the CPU runs the step",
    source="DeepSpeed 0.17, runtime/zero/offload_config.py and ops/adam/cpu_adam.py",
)
_ALL_TO_HOST = Knob(
    title="Optimizer and parameters on the host",
    to={_STAGE: 3, _OPTIMIZER: "cpu", _PARAMETERS: "cpu"},
    when={_PARAMETERS: (None, "none")},
    why="the GPU holds only the layers in use; the rest comes over PCIe",
    source="DeepSpeed 0.17, runtime/zero/offload_config.py; arXiv 2104.07857",
)
_REENTRANT = Knob(
    title="Reentrant checkpoints",
    to={Training.activation_checkpointing.use_reentrant: True},
    when={Training.activation_checkpointing.use_reentrant: (None, False), Training.adapter.type: tuple(ADAPTER_KINDS)},
    why="frozen parameters are empty again when layers run again, which other checkpoints take for an error",
    source="transformers, issue 47254; DeepSpeed, pull request 8148, after 0.19.2; "
    "peft, examples/sft/run_peft_qlora_deepspeed_stage3.sh",
)
_TRANSFERS = (_OPTIMIZER_TO_HOST, _ALL_TO_HOST)
WAYS: Mapping[str, tuple[Way, ...]] = {
    "deepspeed": (
        Way(
            title="DeepSpeed ZeRO-2",
            settings={EngineSettings.type: "deepspeed", _STAGE: 2},
            degrees=PLAIN_DEGREES,
            transfers=(_OPTIMIZER_TO_HOST,),
            spare=True,
        ),
        Way(
            title="DeepSpeed ZeRO-3",
            settings={EngineSettings.type: "deepspeed", _STAGE: 3},
            free=(_REENTRANT,),
            divides=frozenset({"sequence"}),
            degrees=PLAIN_DEGREES,
            transfers=_TRANSFERS,
            spare=True,
            flat=True,
        ),
    ),
}
NEXT: Mapping[str, tuple[str, ...]] = {}
"""Engines that users of one move on to when a job outgrows it."""
CHANGES: tuple[Change, ...] = (
    Change(
        title="Shard gradients too",
        rung="elsewhere",
        kind="communication",
        to={EngineSettings.zero_stage: 2},
        when={EngineSettings.zero_stage: (1,)},
        engines=DEEPSPEED,
    ),
    Change(
        title="Shard parameters too",
        rung="elsewhere",
        kind="communication",
        to={EngineSettings.zero_stage: 3},
        when={EngineSettings.zero_stage: (1, 2)},
        engines=DEEPSPEED,
    ),
    Change(
        title="Offload the optimizer to the host",
        rung="elsewhere",
        kind="transfer",
        to={DeepSpeedSettings.offload_optimizer: "cpu"},
        when={EngineSettings.zero_stage: (1, 2, 3), DeepSpeedSettings.offload_optimizer: (None, "none")},
        engines=DEEPSPEED,
    ),
)
"""Changes that save memory, which no other trainer has."""
TAKEN: Mapping[str, tuple[Settings, Message]] = dict.fromkeys(
    DEEPSPEED, ({_STAGE: 2}, Message("ZeRO stage {}, nothing offloaded", 2))
)
"""By engine, the settings that a job of a given size alone is taken to have, and how that is said."""
