"""What PyTorch's own engines offer to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Settings, Way
from memcore.config.training import Training
from memcore.trainers.pytorch.settings import TorchSettings

_AC = Training.activation_checkpointing
_CLEARED: Settings = dict.fromkeys((_AC.mode, _AC.every, _AC.method, _AC.num_layers, _AC.modules))
NOTHING = Knob(
    title="No checkpointing",
    to={},
    why="nothing is computed twice",
    source="pytorch 2.9, torch/utils/checkpoint.py",
)
BY_OPERATION = Knob(
    title="Selective checkpointing",
    to={**_CLEARED, _AC.policy: "selective", _AC.mode: "op", Training.activation_memory_budget: None},
    when={_AC.policy: (None, "none")},
    why="every second matrix product and the cheap operations run again, attention does not",
    source="torchtitan, distributed/activation_checkpoint.py; pytorch 2.9, torch/utils/checkpoint.py",
)
FULL = Knob(
    title="Full checkpointing",
    to={**_CLEARED, _AC.policy: "full", Training.activation_memory_budget: None},
    when={_AC.policy: (None, "none", "selective")},
    why="each layer keeps its input alone; the forward pass runs again, about a third more arithmetic",
    source="pytorch 2.9, torch/utils/checkpoint.py; transformers 4.57, modeling_layers.py",
)
DEGREES = (NOTHING, BY_OPERATION, FULL)
PLAIN_DEGREES = (NOTHING, FULL)
"""transformers' Trainer checkpoints whole layers or none (training_args.py, gradient_checkpointing)."""
_TYPE, _LAYERS = EngineSettings.type, Training.implementation
_TO_HOST = Knob(
    title="FSDP's CPU offload",
    to={TorchSettings.cpu_offload: True},
    when={TorchSettings.cpu_offload: (None, False)},
    why="shards, gradients and optimizer stay on the host, whose processors run the optimizer",
    source="pytorch 2.9, distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy",
)
WAYS: Mapping[str, tuple[Way, ...]] = {
    "none": (Way(title="one GPU", settings={_TYPE: "none"}, degrees=PLAIN_DEGREES, alone=True),),
    "ddp": (Way(title="DDP", settings={_TYPE: "ddp"}, degrees=PLAIN_DEGREES, alone=False, named=True),),
    "fsdp": (
        Way(
            title="FSDP",
            settings={_TYPE: "fsdp", _LAYERS: "transformers"},
            divides=frozenset({"replicas"}),
            degrees=PLAIN_DEGREES,
            transfers=(_TO_HOST,),
            alone=False,
        ),
        Way(
            title="torchtitan",
            settings={_TYPE: "fsdp", _LAYERS: "torchtitan"},
            divides=frozenset({"tensor", "stages", "context", "experts", "replicas"}),
            degrees=DEGREES,
            transfers=(_TO_HOST,),
            alone=False,
        ),
    ),
}
"""By the value of `engine.type`."""
NEXT: Mapping[str, tuple[str, ...]] = {"none": ("fsdp",), "ddp": ("fsdp",)}
"""Engines that users of one move on to when a job outgrows it."""
