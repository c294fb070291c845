"""What DeepSpeed's estimators say about a job."""

from __future__ import annotations

from dataclasses import asdict

from memcore.config.devices import node_of
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.memory.published import FormulaResult, Published
from memcore.messages import Message
from memcore.networks.catalog import find_model
from memcore.trainers.deepspeed.estimators import ModelStates, estimate_zero_model_states


def published(config: Config) -> Published:
    """Return every line of their reports as data; as answers, those that do not repeat another with `zero.Init`."""
    gpus, node = config[Hardware.num_gpus] or 1, node_of(config)
    lines = estimate_zero_model_states(find_model(config.model), min(gpus, node), max(gpus // node, 1))
    return Published(
        data={"deepspeed": [asdict(each) for each in lines]},
        answers=tuple(
            FormulaResult(title=_title(each), weight_and_optimizer=each.gpu)
            for each in lines
            if each.zero_init is not False
        ),
        note="DeepSpeed's estimators leave out activations, buckets and gathered parameters",
    )


def _title(line: ModelStates) -> str:
    if not line.offload_optimizer:
        return f"DeepSpeed ZeRO-{line.stage}"
    offloaded = "parameters and optimizer" if line.offload_param else "the optimizer"
    return Message("DeepSpeed ZeRO-{}, {} offloaded", line.stage, offloaded)
