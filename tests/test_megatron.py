"""Megatron-Core: its networks and where their parameters are."""

from __future__ import annotations

import pytest

from memcore.errors import ConfigError, UnsupportedError
from memcore.model.catalog import find_model
from memcore.model.megatron.converted import as_megatron
from memcore.model.megatron.share import padded, shared
from memcore.model.read import read_model
from memcore.symbols import product

GPT = {
    "model_type": "megatron",
    "architecture": "gpt",
    "num_layers": 12,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 1024,
    "vocab_size": 50257,
}
"""12 layers of 512·(12·512 + 13) parameters with their norms and biases, a tied embedding, positions, a last norm."""


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({}, 50257 * 512 + 1024 * 512 + 12 * (12 * 512**2 + 13 * 512) + 2 * 512),
        ({"position_embedding_type": "rope"}, 50257 * 512 + 12 * (12 * 512**2 + 13 * 512) + 2 * 512),
        ({"normalization": "RMSNorm", "disable_bias_linear": True}, 51281 * 512 + 12 * (12 * 512**2 + 2 * 512) + 512),
        ({"swiglu": True, "ffn_hidden_size": 1024}, 51281 * 512 + 12 * (10 * 512**2 + 2048 + 2048 + 2560) + 1024),
        ({"num_query_groups": 2}, 51281 * 512 + 12 * (10.5 * 512**2 + 11.5 * 512) + 1024),
        ({"qk_layernorm": True}, 51281 * 512 + 12 * (12 * 512**2 + 13 * 512 + 4 * 64) + 1024),
        ({"untie_embeddings_and_output_weights": True}, 101538 * 512 + 12 * (12 * 512**2 + 13 * 512) + 1024),
        (
            {"num_experts": 4, "moe_layer_freq": "([0]*3+[1]*9)"},
            51281 * 512 + 12 * (12 * 512**2 + 13 * 512) + 9 * (3 * (8 * 512**2 + 5 * 512) + 4 * 512) + 1024,
        ),
        (
            {"architecture": "bert"},
            51281 * 512 + 2 * 512 + 12 * (12 * 512**2 + 13 * 512) + 1024
            + (512**2 + 512) * 2 + 1024 + 2 * 512 + 2 + 50257,
        ),
    ],
)  # fmt: skip
def test_parameters(changes, parameters):
    """Exact counts, worked by hand."""
    assert read_model({**GPT, **changes}).parameters == parameters


@pytest.mark.parametrize(
    "name",
    ["meta-llama/Llama-3.1-405B", "deepseek-ai/DeepSeek-V3", "mistralai/Mixtral-8x22B-v0.1",
     "nvidia/Nemotron-H-8B-Base-8K", "Qwen/Qwen3-235B-A22B", "openai-community/gpt2"],
)  # fmt: skip
def test_other_families_keep_their_parameters(name):
    """Fused matrices hold what the separate ones held."""
    model = find_model(name)
    assert as_megatron(model).parameters == model.parameters


def test_what_megatron_lacks_is_refused():
    """Soft caps and norms behind the parts have no counterpart."""
    with pytest.raises(UnsupportedError, match="scaled embeddings or logits"):
        as_megatron(find_model("google/gemma-2-9b"))


def test_shares_add_up():
    """Tensor-parallel ranks have their parts of sharded matrices, and all of norms, row biases and positions."""
    model = read_model(GPT)
    one = shared(model)
    sizes = {**model.sizes, "V": padded(50257, 128, 2), "tp": 2, "ep": 1, "etp": 1}
    found = sum(count * product(weight.shape, sizes) for weight, _, count in one.tensors)
    whole = 50432 * 512 + 12 * (12 * 512**2 + 7 * 512)
    assert found == whole // 2 + 1024 * 512 + 12 * 6 * 512 + 2 * 512


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"architecture": "hybrid", "hybrid_layer_pattern": "MX"}, "model.hybrid_layer_pattern"),
        ({"num_query_groups": 3}, "model.num_query_groups"),
        ({"num_experts": 4, "moe_layer_freq": [1]}, "model.moe_layer_freq"),
        ({"normalization": "BatchNorm"}, "model.normalization"),
    ],
)
def test_contradictions_are_named(changes, path):
    """The key, what was found, what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_model({**GPT, **changes})
    assert path in {problem.path for problem in caught.value.problems}
