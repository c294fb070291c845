"""Python modules whose functions make configs, and torchtitan's registries of them."""

import pytest

from memcore import estimate
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


def test_lengths_that_nobody_knows_are_asked_for():
    with pytest.raises(ConfigError, match="3 commands"):
        imported(REGISTRY.replace("max_context_length=4096", "max_context_length=LENGTH"))
    found = imported(REGISTRY.replace("max_context_length=4096", "max_context_length=LENGTH"), 8, 1)
    assert found.config["training"]["sequence_length"] == "$LENGTH"


def test_a_module_without_such_functions_makes_nothing():
    assert built("x = 1") == {}
    assert built("def f(") == {}
    assert built("def f():\n  return f()") == {}
    made = {"()": "g", "0": "$a.b", "1": -1, "2": "$EXPRESSION"}
    assert built("def f():\n  return g(a.b, -1, ~1)") == {"f": made}


RECIPES = """\
from megatron.bridge.training.config import ConfigContainer

LONG: int = 16384


def tiny_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.2-1B").get_model_config()
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.recompute_granularity = None
    cfg.dataset.seq_length = LONG
    cfg.train.micro_batch_size = 1
    cfg.optimizer.use_precision_aware_optimizer = True
    cfg.optimizer.exp_avg_dtype = torch.bfloat16
    cfg.ddp.overlap_grad_reduce = True
    return cfg


def tiny_peft_config(peft_scheme: str = "lora") -> ConfigContainer:
    hf_path = "meta-llama/Llama-3.2-1B"
    cfg = _peft_common()
    cfg.model = AutoBridge.from_hf_pretrained(hf_path).get_model_config()
    cfg.peft = default_peft_config(peft_scheme)
    cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"
    return cfg
"""
RUN = """\
_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  num_layers: 4
  hidden_size: 256
  ffn_hidden_size: 512
  num_attention_heads: 4
  num_query_groups: 2
  vocab_size: 32000
  seq_length: 2048
  gated_linear_unit: true
  add_bias_linear: false
  share_embeddings_and_output_weights: false
  normalization: RMSNorm
  position_embedding_type: rope
  tensor_model_parallel_size: 2
train: {micro_batch_size: 2, global_batch_size: 32, train_iters: 10}
ddp: {use_distributed_optimizer: true, grad_reduce_in_fp32: false}
optimizer:
  optimizer: adam
  main_grads_dtype: {_target_: torch.bfloat16, _call_: false}
  use_precision_aware_optimizer: true
dataset: {seq_length: 2048}
mixed_precision: bf16_mixed
"""


def test_recipes_of_megatron_bridge():
    first, second = imported(RECIPES, 8, 1).config, imported(RECIPES, 8, 2).config
    assert first["model"] == second["model"] == "meta-llama/Llama-3.2-1B"
    assert first["training"] == {**first["training"], "sequence_length": 16384, "micro_batch_size": 1}
    assert first["parallelism"] == {"tensor_parallel_size": 2, "sequence_parallel": True}
    assert first["engine"]["exp_avg_dtype"] == "bf16"
    assert second["training"]["adapter"]["type"] == "lora"
    assert second["training"]["precision"] == "fp8-mixed"
    assert second["engine"]["fp8_recipe"] == "tensorwise"


def test_a_run_config_of_megatron_bridge():
    config = imported(RUN, 8).config
    model = config["model"]
    assert (model["model_type"], model["swiglu"], model["disable_bias_linear"]) == ("megatron", True, True)
    assert model["untie_embeddings_and_output_weights"] is True
    assert config["engine"]["distributed_optimizer"] is True
    assert config["engine"]["grad_reduce_in_bf16"] is True
    assert config["engine"]["main_grads_dtype"] == "bf16"
    assert config["training"]["gradient_accumulation_steps"] == 4
    assert estimate({**config, "hardware": {"num_gpus": 8}}).allocated.expected > 0
