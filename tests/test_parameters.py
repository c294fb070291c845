"""Parameter counts of public checkpoints: exact, tensor by tensor."""

import json

import pytest
from conftest import truth

from memcore.errors import ConfigError
from memcore.model.catalog import catalog, find_model, nickname
from memcore.model.read import read_model

CHECKPOINTS = truth("checkpoints")

TINY = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}


def test_a_tiny_llama_by_hand():
    """Every matrix of a Llama with hidden size 8, two heads of width 4, one key head and 16 hidden units."""
    attention = 8 * 8 + 4 * 8 + 4 * 8 + 8 * 8  # queries, keys, values, output
    feed_forward = 3 * 8 * 16
    layer = attention + feed_forward + 2 * 8  # and two norms
    assert read_model(TINY).parameters == 32 * 8 + 2 * layer + 8 + 32 * 8


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"tie_word_embeddings": True}, -32 * 8),
        ({"attention_bias": True}, 2 * (8 + 4 + 4 + 8)),
        ({"mlp_bias": True}, 2 * (16 + 16 + 8)),
        ({"num_key_value_heads": 2}, 2 * 2 * 4 * 8),
        ({"num_key_value_heads": None}, 2 * 2 * 4 * 8),
        ({"head_dim": 8}, 2 * (2 * 8 * 8 + 2 * 4 * 8)),
        ({"num_hidden_layers": 3}, 192 + 384 + 16),
        ({"vocab_size": 33}, 2 * 8),
        ({"max_position_embeddings": 128}, 0),
    ],
    ids=str,
)
def test_what_each_key_adds(change, difference):
    """A key changes the count by what its tensors hold; null means the same as leaving it out."""
    assert read_model({**TINY, **change}).parameters - read_model(TINY).parameters == difference


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_exact(name):
    """The count and every tensor's name and shape, layer by layer, are those of the published checkpoint."""
    expected = CHECKPOINTS[name]
    model = read_model(expected["config"])
    assert model.parameters == expected["parameters"]
    found = {}
    for layer, count in model.layers:
        tensors = frozenset((w.name, tuple(model.size(axis) for axis in w.axes)) for w in layer.weights())
        found[tensors] = found.get(tensors, 0) + count
    wanted = {}
    for group in expected["layers"]:
        tensors = frozenset((tensor, tuple(shape)) for tensor, shape in group["tensors"])
        wanted[tensors] = wanted.get(tensors, 0) + group["count"]
    assert found == wanted
    ends = {(w.name, tuple(model.size(axis) for axis in w.axes)) for w in model.network.ends.weights()}
    assert ends == {(tensor, tuple(shape)) for tensor, shape in expected["ends"]}


@pytest.mark.parametrize("hub_id", catalog())
def test_the_catalog_keeps_its_word(hub_id):
    """Each entry's count is what its config describes, under its hub id, in any case, and under its short name."""
    entry = catalog()[hub_id]
    assert find_model(hub_id).parameters == entry["parameters"]
    assert find_model(nickname(hub_id)) is find_model(hub_id.upper())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "lama"}, "model.model_type: found 'lama'; known families: gemma2, gpt2, gpt_neox, llama, mistral, "
         "phi, qwen2, qwen3 (did you mean 'llama'?)"),
        ({"hidden_size": "8"}, "model.hidden_size: expected a positive integer, found '8'"),
        ({"hidden_size": 0}, "model.hidden_size: expected a positive integer, found 0"),
        ({"num_attention_heads": 3}, "model.num_attention_heads: 3 does not divide the hidden size 8, and head_dim is absent"),
        ({"num_key_value_heads": 3, "num_attention_heads": 4, "head_dim": 2},
         "model.num_key_value_heads: 3 does not divide the 4 attention heads"),
        ({"hidden_act": "silly"}, "model.hidden_act: found 'silly'; known: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, "
         "swish (did you mean 'silu'?)"),
        ({"tie_word_embeddings": "no"}, "model.tie_word_embeddings: expected true or false, found 'no'"),
        ({"num_hidden_layers": True}, "model.num_hidden_layers: expected a positive integer, found True"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_wrong_config_json_is_named(change, message):
    """The message names the key, what was found and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_model({**TINY, **change})
    assert str(caught.value) == message


def test_a_model_must_be_json():
    """What no JSON file can hold is refused."""
    with pytest.raises(ConfigError, match="not the content of a JSON file"):
        find_model({"model_type": "llama", "hidden_size": object()})


def test_families_use_their_own_key_names():
    """GPT-2 names the same sizes differently, and messages use the file's names."""
    with pytest.raises(ConfigError, match="model.n_embd"):
        read_model({"model_type": "gpt2", "n_embd": -1})
