"""Python modules whose functions make configs, and torchtitan's registries of them."""

import pytest

from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.builders import built
from memcore.tools import imported

REGISTRY = """\
from torchtitan.trainer import Trainer
from . import model_registry
from .model import Llama3Model


def llama3_8b() -> Trainer.Config:
    model_spec = model_registry("8B")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 4096, max_context_length=4096, steps=1000
        ),
        activation_checkpoint=FullAC.Config(),
        checkpoint=CheckpointManager.Config(interval=500),
    )


def llama3_8b_tp() -> Trainer.Config:
    config = llama3_8b()
    config.parallelism.tensor_parallel_degree = 4
    config.compile = CompileConfig(enable=True, components=["model"])
    return config


def llama3_8b_mxfp8() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec = model_registry("8B", converters=[MXFP8LinearConverter.Config()])
    return config
"""


def test_each_function_is_a_job():
    with pytest.raises(ConfigError, match="3 commands for 3 jobs.*2: llama3_8b_tp"):
        imported(REGISTRY)
    config = imported(REGISTRY, 8, 1).config
    assert config["model"] == "meta-llama/Llama-3.1-8B"
    assert config["training"]["sequence_length"] == 4096
    assert config["training"]["micro_batch_size"] == 2
    assert config["training"]["loss"] == "chunked:8"
    assert config["training"]["activation_checkpointing"] == {"policy": "full"}


def test_what_is_assigned_later_holds():
    first, second = imported(REGISTRY, 8, 1).config, imported(REGISTRY, 8, 2).config
    assert "parallelism" not in first
    assert second["parallelism"]["tensor_parallel_size"] == 4
    assert second["training"]["compile"] is True


def test_layers_that_are_replaced_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="MXFP8LinearConverter"):
        imported(REGISTRY, 8, 3)


def test_a_module_without_such_functions_makes_nothing():
    assert built("x = 1") == {}
    assert built("def f(") == {}
    assert built("def f():\n  return f()") == {}
    assert built("def f():\n  return g(a.b, -1)") == {"f": {"()": "g", "0": "$a.b", "1": "$EXPRESSION"}}
