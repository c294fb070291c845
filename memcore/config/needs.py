"""Which settings wait for another one: without it they say nothing about a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting, settings_of
from memcore.config.training import Training
from memcore.networks.adapter_kinds import kinds_with
from memcore.records import dataclass

EXPERTS, RECURRENT, TOWERS = "model.experts", "model.recurrent", "model.towers"
"""What a model has, in addition to the settings taken: names that are no paths."""
SEVERAL, ANY = "2 or more", "given"
"""In place of values: any number above 1, and anything but absent or none."""


@dataclass(frozen=True, slots=True)
class Need:
    """What another setting must be."""

    path: str
    values: tuple[str, ...]

    def is_met(self, found: str) -> bool:
        """Return whether a value of the other setting, as text, is such."""
        if self.values == (SEVERAL,):
            return found.isdecimal() and int(found) > 1
        if self.values == (ANY,):
            return found not in {"", "none", "false"}
        return found in self.values


_TRAINED = Need(Training.activation_checkpointing.policy, ("full", "selective"))
_SELECTIVE = Need(Training.activation_checkpointing.policy, ("selective",))
_ADAPTED = Need(Training.adapter.type, (ANY,))
OF_ADAPTERS: dict[Setting[Any], Need] = {
    each: Need(Training.adapter.type, kinds_with(each.name))
    for each in settings_of(Training.adapter)
    if each != Training.adapter.type
}
"""Settings of adapters, and the kinds that have each."""
STAGED = Need(Parallelism.pipeline_parallel_size, (SEVERAL,))
ROUTED = Need(EXPERTS, (ANY,))
STATEFUL = Need(RECURRENT, (ANY,))
SEEING = Need(TOWERS, (ANY,))
IN_FP8 = Need(Training.precision, ("fp8-mixed",))
_SHARDED = Need(Parallelism.tensor_parallel_size, (SEVERAL,))

NEEDS: Mapping[str, Need] = {
    Training.method.reference: Need(Training.method.name, ("dpo", "kto", "grpo", "ppo")),
    Training.method.completion_length: Need(Training.method.name, ("grpo",)),
    Training.method.rollout_share: Need(Training.method.name, ("grpo",)),
    Training.method.teacher: Need(Training.method.name, ("distill",)),
    Training.method.reward_model: Need(Training.method.name, ("grpo", "ppo")),
    Training.quantization: _ADAPTED,
    **{str(path): need for path, need in OF_ADAPTERS.items()},
    Training.adapter.target_parameters: Need(EXPERTS, (ANY,)),
    Training.optimizer.rank: Need(Training.optimizer.name, ("galore", "galore-8bit", "apollo", "apollo-mini")),
    Training.optimizer.momentum: Need(Training.optimizer.name, ("rmsprop", "sgd")),
    Training.offload.optimizer_fraction: Need(Training.offload.optimizer, (ANY,)),
    Training.activation_checkpointing.mode: _SELECTIVE,
    Training.activation_checkpointing.every: _SELECTIVE,
    Training.activation_checkpointing.method: _TRAINED,
    Training.activation_checkpointing.num_layers: _TRAINED,
    Training.activation_checkpointing.modules: _SELECTIVE,
    Training.activation_checkpointing.early_stop: _TRAINED,
    Training.activation_checkpointing.use_reentrant: _TRAINED,
    Training.activation_checkpointing.entry: _TRAINED,
    Training.kernels: STATEFUL,
    Training.liger_kernels: Need(Training.implementation, ("liger",)),
    Training.activation_memory_budget: Need(Training.compile, ("true",)),
    Parallelism.sequence_parallel: _SHARDED,
    Parallelism.loss_parallel: _SHARDED,
    Parallelism.virtual_pipeline_parallel_size: STAGED,
    Parallelism.pipeline_layout: STAGED,
    Parallelism.pipeline_schedule: STAGED,
    Parallelism.expert_parallel_size: ROUTED,
    Parallelism.expert_tensor_parallel_size: ROUTED,
    EngineSettings.moe_load_imbalance: ROUTED,
}
"""The one other setting that each of these waits for; an engine's settings have theirs in its module `settings`."""
