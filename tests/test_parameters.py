"""Parameter counts of public checkpoints: exact, tensor by tensor."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import truth

from memcore import estimate
from memcore.errors import ConfigError
from memcore.networks.catalog import catalog, find_model, nickname, search
from memcore.networks.placement import placement
from memcore.networks.read import known_families, read_model
from memcore.networks.table import layer_rows, ranges
from memcore.tensors.operations import ACTIVATIONS

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
    ("family", "whole", "text", "tied"),
    [
        ("llava", None, True, True),  # files before transformers 5 say it for the language model
        ("qwen2_5_vl", None, True, True),
        ("qwen3_vl", None, True, False),  # whose class never looked there
        ("mllama", None, None, False),  # its class has no such field
        ("mllama", None, True, False),
        ("mistral3", None, False, True),
        ("gemma3", False, True, False),
    ],
)
def test_who_says_that_a_head_is_tied(family, whole, text, tied):
    """The whole configuration does, and its class if it does not; that of the language model in few families."""
    config = {"model_type": family, "text_config": {"tie_word_embeddings": text} if text is not None else {}}
    assert (
        read_model(
            {**config, **({"tie_word_embeddings": whole} if whole is not None else {})}
        ).network.embedding_and_head.tied
        is tied
    )


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


def tensors(model):
    """Every tensor of a model with its shape, and how many there are."""
    found = Counter()
    for weight, name, count in model.tensors:
        found[name, tuple(model.size(axis) for axis in weight.axes)] += count
    return found


def expected_tensors(checkpoint):
    """The same of a checkpoint's truth."""
    found = Counter({(name, tuple(shape)): 1 for name, shape in checkpoint["ends"]})
    for group in checkpoint["layers"]:
        for name, shape in group["tensors"]:
            found[f"{group['path']}.*.{name}", tuple(shape)] += group["count"]
    return found


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_exact(name):
    """The count and every tensor's name and shape, layer by layer, are those of the published checkpoint."""
    expected = CHECKPOINTS[name]
    model = read_model(expected["config"])
    assert model.parameters == expected["parameters"]
    assert tensors(model) == expected_tensors(expected)
    assert model.active_parameters == expected["active"]
    assert sum(model.parameters_by_kind.values()) == model.parameters


@pytest.mark.parametrize("name", [name for name, each in CHECKPOINTS.items() if "cached" in each])
def test_caches_are_exact(name):
    """Elements of the KV cache for each token, and of recurrent states for each sequence."""
    model = read_model(CHECKPOINTS[name]["config"])
    assert model.cached_elements == CHECKPOINTS[name]["cached"]
    assert model.state_elements == CHECKPOINTS[name]["state"]


def test_every_kind_of_mixer_and_feed_forward_is_among_them():
    """The checkpoints above cover dense, sparse, latent, windowed, recurrent, per-layer and multimodal networks."""
    words = {row.mixer.split(",")[0] for each in CHECKPOINTS.values() for row in layer_rows(read_model(each["config"]))}
    assert words >= {
        "multi-head attention", "grouped-query attention", "multi-query attention", "cross attention",
        "latent attention", "compressed attention", "gated delta rule", "Kimi delta attention", "lightning attention",
        "Mamba", "Mamba 2", "real-gated linear recurrence", "short convolution",
    }  # fmt: skip


DEEPSEEK = CHECKPOINTS["deepseek-ai/DeepSeek-V3"]["config"]
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("name", "more", "published"),
    [
        ("deepseek-ai/DeepSeek-V3", {"num_nextn_predict_layers": 1, "quantization_config": BLOCKS}, 684_531_386_000),
        ("MiniMaxAI/MiniMax-M2", {"quantization_config": BLOCKS}, 228_703_644_928),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {}, 81_324_862_720),
        ("zai-org/GLM-4.5-Air", {"num_nextn_predict_layers": 1}, 110_468_824_832),
    ],
)
def test_what_published_sizes_count_in_addition(name, more, published):
    """Prediction layers, router biases and block scales explain the size that a hub shows, to the element."""
    model = read_model({**CHECKPOINTS[name]["config"], **more})
    assert model.parameters + sum(model.published_extras.values()) == published


def test_a_mixture_of_experts_by_hand():
    """Four experts of width 4 of which a token sees two: gate, up and down of each, and a router."""
    config = {**TINY, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 4}
    model = read_model(config)
    experts = 4 * 3 * 8 * 4
    assert model.parameters - read_model({**TINY, "intermediate_size": 4}).parameters == 2 * (
        experts + 4 * 8 - 3 * 8 * 4
    )
    assert model.parameters - model.active_parameters == 2 * experts // 2


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.mlp.experts.gate_up_proj", (1, 0, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.mlp.experts.down_proj", (2, 0, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.self_attn.kv_a_proj_with_mqa.weight", (None, None, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.self_attn.kv_b_proj.weight", (0, None, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.self_attn.o_proj.weight", (1, None, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.layers.*.input_layernorm.weight", (None, None, "layer")),
        ("deepseek-ai/DeepSeek-V3", "model.embed_tokens.weight", (0, None, "first")),
        ("deepseek-ai/DeepSeek-V3", "lm_head.weight", (0, None, "last")),
        ("openai/gpt-oss-20b", "model.layers.*.mlp.experts.gate_up_proj", (2, 0, "layer")),
        ("google/gemma-2-2b", "model.embed_tokens.weight", (0, None, "first and last")),
        ("openai-community/gpt2-xl", "transformer.h.*.attn.c_attn.weight", (1, None, "layer")),
        ("openai-community/gpt2-xl", "transformer.h.*.attn.c_proj.weight", (0, None, "layer")),
    ],
)
def test_where_parallelism_puts_a_tensor(name, tensor, expected):
    """The axis that tensor and expert parallelism shard, and the pipeline stage that holds it."""
    model = read_model(CHECKPOINTS[name]["config"])
    weight = next(weight for weight, full, _ in model.tensors if full == tensor)
    placed = placement(weight, tensor, model.network)
    assert (placed.tensor, placed.expert, placed.pipeline) == expected


def test_layers_are_runs_of_equal_layers():
    """Which layers are of one kind, in words."""
    rows = layer_rows(read_model(DEEPSEEK))
    assert [(row.layers, row.count) for row in rows] == [("0-2", 3), ("3-60", 58)]
    assert rows[1].ffn == "8 of 256 experts of 2048 and 2048 shared"
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


UNKNOWN = {**TINY, "model_type": "brand-new"}


def test_an_unknown_family_is_read_like_llama_with_a_warning():
    """Its keys decide; what they leave open widens the range of the estimate."""
    model = read_model({key: value for key, value in UNKNOWN.items() if key != "tie_word_embeddings"})
    assert model.parameters == read_model(TINY).parameters
    assert "'brand-new' is unknown" in model.warnings[0]
    assert [read_model(other).parameters for other in model.alternatives] == [
        read_model({**TINY, "model_type": "arcee"}).parameters,
        read_model({**TINY, "tie_word_embeddings": True}).parameters,
        read_model({**TINY, "model_type": "arcee", "tie_word_embeddings": True}).parameters,
    ]
    job = {"training": {"sequence_length": 64}, "hardware": {"accelerator": "a100-sxm-80gb"}}
    known, unknown = estimate({"model": TINY, **job}), estimate({"model": UNKNOWN, **job})
    assert unknown.allocated.expected == known.allocated.expected
    assert unknown.device.low <= known.device.low
    assert unknown.device.high >= known.device.high
    assert "several networks" in unknown.device.range_because


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None, "vocab_size": None}, "missing hidden_size, vocab_size"),
        ({"num_experts": 8}, "it has parts that Llama does not have: num_experts"),
        ({"kv_lora_rank": 512, "ssm_cfg": {"a": 1}}, "it has parts that Llama does not have: kv_lora_rank, ssm_cfg"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "it has parts that Llama does not have: layer_types"),
        ({"vision_config": {}}, "it has parts that Llama does not have: vision_config"),
    ],
    ids=str,
)
def test_what_is_not_like_llama_is_refused(change, message):
    """Nothing is silently treated as dense: the keys that were missed, or that tell of other parts, are named."""
    with pytest.raises(ConfigError) as caught:
        read_model({**UNKNOWN, **change})
    assert message in str(caught.value)


def test_composites_may_have_the_language_model_on_top():
    """Older files of Qwen2-VL list the language model's keys beside the tower's."""
    nested = CHECKPOINTS["Qwen/Qwen2-VL-2B-Instruct"]["config"]
    text = {key: value for key, value in nested["text_config"].items() if key != "model_type"}
    flat = {key: value for key, value in nested.items() if key != "text_config"}
    assert read_model({**flat, **text}).parameters == read_model(nested).parameters


def test_layers_may_differ_in_size():
    """A list gives every layer its own width."""
    config = {"model_type": "gemma3n_text", "num_hidden_layers": 4, "num_kv_shared_layers": 0, "vocab_size": 64}
    one, other = ({**config, "intermediate_size": widths} for widths in ([32, 32, 32, 32], [32, 64, 32, 64]))
    assert read_model(other).parameters - read_model(one).parameters == 2 * 3 * 32 * 2048
    assert read_model({**config, "intermediate_size": 32}).parameters == read_model(one).parameters


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("llama-3.1-8b", {"meta-llama/Llama-3.1-8B"}),
        ("deepseek_v3 <20b", {"moonshotai/Moonlight-16B-A3B"}),
        ("GPT2-XL", {"openai-community/gpt2-xl"}),
        ("gpt-oss >100b", {"openai/gpt-oss-120b"}),
        ("no-such-model", set()),
        ("qwen2.5-vl context>=128k", {"Qwen/Qwen2.5-VL-7B-Instruct"}),
        ("bert ctx<=512", {"google-bert/bert-base-uncased"}),
        ("kimi-k3 context>1m", set()),
        ("mamba context>=1", set()),
    ],
)
def test_the_catalog_is_searched_by_id_family_and_size(query, expected):
    """Every word must match."""
    found = set(search(query))
    assert found >= expected if expected else not found


def test_the_catalog_is_large_and_generated():
    """Two hundred checkpoints and more, written by a script from the tests' truth and further configs."""
    assert len(catalog()) > 400
    assert [hub_id for hub_id in catalog() if find_model(hub_id).alternatives] == []  # none is read as a likely Llama
    root = Path(__file__).parents[1]
    script = root / "catalog/generate.py"
    if script.exists():
        assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0


def test_the_catalog_keeps_its_word():
    """Each entry's count is what its config describes, under its hub id, in any case, and under its short name."""
    off, names = [], list(catalog())
    for hub_id in names:
        model = find_model(hub_id)
        same = find_model(nickname(hub_id)) is model is find_model(hub_id.upper())
        off += [] if same and model.parameters == catalog()[hub_id]["parameters"] else [hub_id]
    assert len(names) > 1000
    assert off == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "lama", "vocab_size": None}, "model.model_type: unknown family 'lama', not among the "
         f"{len(known_families())} supported (`memcore models --families`); it cannot be read like Llama: missing "
         "vocab_size (did you mean 'llama'?)"),
        ({"hidden_size": "8"}, "model.hidden_size: expected a positive integer, found '8'"),
        ({"hidden_size": 0}, "model.hidden_size: expected a positive integer, found 0"),
        ({"num_attention_heads": 3}, "model.num_attention_heads: 3 does not divide the hidden size 8, and head_dim is absent"),
        ({"num_key_value_heads": 3, "num_attention_heads": 4, "head_dim": 2},
         "model.num_key_value_heads: 3 does not divide the 4 attention heads"),
        ({"hidden_act": "silly"}, f"model.hidden_act: found 'silly'; known: {', '.join(sorted(ACTIVATIONS))} "
         "(did you mean 'silu'?)"),
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


@pytest.mark.parametrize("size", ["124M", "1.5B", "7B", "70B", 13_000_000_000])
def test_only_a_number_of_parameters(size):
    """A network of Llama's proportions is assumed, of that size within one percent, and said."""
    model = read_model({"name": "mine", "num_parameters": size})
    wanted = size if isinstance(size, int) else float(size[:-1]) * {"M": 1e6, "B": 1e9}[size[-1]]
    assert model.parameters == pytest.approx(wanted, rel=0.01)
    assert "so Llama's proportions are assumed" in model.warnings[0]
    assert model.name == "mine"


def test_the_short_form_of_a_model():
    """A few sizes, in words of their own, are those of a Llama; what is left out is Llama 2's, and said."""
    short = {"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32}
    model = read_model({**short, "intermediate_size": 16, "max_seq_len": 64})
    assert model.parameters == read_model(TINY).parameters
    assert not model.warnings
    assert read_model(short).warnings == ("assumed like Llama 2: intermediate_size 256",)


@pytest.mark.parametrize(
    ("short", "message"),
    [
        (
            {"num_parameters": "big"},
            "model.num_parameters: expected a number of parameters such as 7B or 350M, found 'big'",
        ),
        ({"num_layers": 2}, "model: the short form needs num_parameters or hidden_size, num_attention_heads"),
        ({"num_parameters": "7B", "hiden_size": 8}, "model.hiden_size: unknown"),
    ],
)
def test_a_wrong_short_form_is_named(short, message):
    """As in every config: the key, what was found, what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_model(short)
    assert message in str(caught.value)


def test_only_xielu_learns_scalars():
    """Apertus' activation has two in each layer; another activation in its place has none."""
    config = {**TINY, "model_type": "apertus", "hidden_act": "xielu"}
    assert read_model(config).parameters - read_model({**config, "hidden_act": "relu"}).parameters == 2 * 2
