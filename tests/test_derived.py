"""Networks that were derived from transformers, against the real ones: `deriver/measure.py` built them on the meta device."""

import json
from pathlib import Path

import pytest

from memcore.errors import ConfigError, UnsupportedError
from memcore.networks.catalog import catalog
from memcore.networks.derived import derived
from memcore.networks.formulas import evaluate, names
from memcore.networks.read import read_model

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

SAME_NAME_WITHIN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
TRUTH = json.loads((Path(__file__).parent / "truth/derived.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TRUTH, ids=lambda case: case["config"]["model_type"])
def test_parameters_are_the_real_ones(case):
    """As transformers saves the configuration, of defaults and of variants that the deriver never saw."""
    assert read_model(case["config"]).parameters == case["parameters"]


@pytest.mark.parametrize(
    ("model_type", "parameters"),
    [("glm4_moe", 103_481_200_640), ("iquestcoder", 39_794_283_520)],
)
def test_the_defaults_of_a_class(model_type, parameters):
    """Heads of GLM-4.5 are rounded down where they do not divide the hidden size; IQuest-Coder is a Llama."""
    assert read_model({"model_type": model_type}).parameters == parameters


@pytest.mark.parametrize(
    ("model_type", "parameters", "part"),
    [
        ("llava", 7_062_902_784, "vision_config"),
        ("voxtral", 4_676_271_104, "audio_config"),
        ("mistral3", 23_340_272_640, "text_config"),
        ("qwen2_5_vl", 75_789_228_800, "text_config"),
        ("musicgen", 470_291_938, "decoder"),
    ],
)
def test_parts_that_a_file_leaves_out(model_type, parameters, part):
    """They are those of the class's defaults, which the model says."""
    model = read_model({"model_type": model_type})
    assert model.parameters == parameters
    assert any(part in str(warning) for warning in model.warnings)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hidden_size // heads * 2", 16),
        ("-(-hidden_size // 3)", 22),
        ("(3) if (fused) else (4)", 4),
        ("not (fused) and (heads > 7)", True),
        ("layer_types[i] == 'full'", True),
        ("layer_types[9] is None", True),
        ("len(layer_types) + 2 ** i", 4),
        ("i in layer_types", False),
        ("text_config.vocab_size", 5),
        ("int(hidden_size * ratio)", 96),
    ],
)
def test_formulas(text, value):
    """What formulas may contain."""
    values = {"hidden_size": 64, "heads": 8, "fused": False, "layer_types": ["sliding", "full"], "i": 1, "ratio": 1.5}
    assert evaluate(text, {**values, "text_config.vocab_size": 5}) == value


def test_names_of_a_formula():
    """Keys with dots are one name."""
    assert names("text_config.vocab_size * len(layer_types) + i") == {"text_config.vocab_size", "layer_types", "i"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "bert", "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"model_type": "bert", "hidden_size": "wide"}, "hidden_size"),
        ({"model_type": "t5", "feed_forward_proj": "gated-tanh"}, "feed_forward_proj"),
        ({"model_type": "aya_vision"}, "text_config"),
        ({"model_type": "vits"}, "model_type"),
    ],
)
def test_what_formulas_do_not_cover_is_refused(config, said):
    """By the key."""
    with pytest.raises(ConfigError, match=said):
        read_model(config)


LLAMA = {
    "model_type": "acme",
    "hidden_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 1024,
    "vocab_size": 1000,
}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"type_vocab_size": 2}, "type_vocab_size"),
        ({"num_hidden_groups": 1}, "num_hidden_groups"),
        ({"embedding_size": 128}, "embedding_size"),
        ({"pooler_fc_size": 768}, "pooler_fc_size"),
        ({"architectures": ["AcmeForMaskedLM"]}, "architectures"),
    ],
)
def test_unknown_families_are_refused_by_a_key_that_llama_lacks(more, said):
    """They came out with a warning, up to 1,520 % wrong."""
    with pytest.raises(ConfigError, match=said):
        read_model({**LLAMA, **more})


def test_a_plain_unknown_family_is_still_read_as_llama():
    """An embedding as wide as the layers says nothing against it."""
    model = read_model({**LLAMA, "embedding_size": 512, "architectures": ["AcmeForCausalLM"]})
    assert model.warnings


def test_every_row_can_be_read():
    """Its formulas, and the rows of models within it."""
    table = derived()
    assert len(table["classes"]) > 60
    for row in table["classes"].values():
        texts = [*row["lists"].values(), *(text for each in row["tensors"] for text in each[1:] if text)]
        assert all(names(text) is not None for text in texts)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "add_cross_attention": True},
        {"model_type": "opt", "layer_norm_elementwise_affine": False},
        {"model_type": "deepseek_v4", "mlp_bias": True},
        {"model_type": "deepseek_v4", "n_shared_experts": 2},
    ],
    ids=lambda config: config["model_type"],
)
def test_keys_that_change_a_network_and_have_no_row_are_refused(config):
    """They changed nothing, without a word."""
    with pytest.raises(ConfigError, match=list(config)[1]):
        read_model(config)


@pytest.mark.parametrize("family", ["nemotron_h", "kimi_linear"])
def test_heads_that_transformers_never_ties(family):
    """It ignores the key for these families."""
    tied, apart = (read_model({"model_type": family, "tie_word_embeddings": each}).parameters for each in (True, False))
    assert tied == apart


def test_a_derived_encoder_caches_nothing_that_is_known():
    """Servers refuse it by name."""
    from memcore.networks.recognized import UNCACHED
    from memcore.serving.cache import kept

    layer = read_model({"model_type": "bert"}).layers[0][0]
    assert layer.extra is not None
    assert layer.extra.variant == UNCACHED
    with pytest.raises(UnsupportedError):
        kept(layer, None)


PUBLISHED = [
    (name, entry["config"]) for name, entry in catalog().items() if entry["config"]["model_type"] in SAME_NAME_WITHIN
]


@pytest.mark.parametrize(("name", "config"), PUBLISHED, ids=[name for name, _ in PUBLISHED])
def test_a_tower_under_the_name_of_the_whole(name, config):
    """Files as Qwen publishes them have `qwen3_vl` in `vision_config`; they were refused."""
    vision = {**config.get("vision_config", {}), "model_type": config["model_type"]}
    assert read_model({**config, "vision_config": vision}).parameters == read_model(config).parameters


def test_a_derived_decoder_is_answered_for_serving():
    """Its cache is that of the real cache object: two vectors of 20 heads of 128 for each of 24 layers."""
    model = read_model({"model_type": "helium"})
    assert model.cached_elements == 2 * 20 * 128 * 24
    assert model.sizes["P"] == 4096
