"""Networks that were derived from transformers, against the real ones: `deriver/measure.py` built them on the meta device."""

import json
from pathlib import Path

import pytest

import memcore
from memcore import Config, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate_serving, estimate_training
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


CLASSES = json.loads((Path(__file__).parent / "truth/classes.json").read_text(encoding="utf-8"))
"""Every class that an auto class of transformers has for a type, with three labels (`deriver/measure.py --classes`)."""


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case["config"]["model_type"])
def test_every_class_that_a_file_may_name(case):
    """Poolers, heads for labels and answers, or none: with a head for words, files of embeddings read as too large."""
    config = {**case["config"], "id2label": {str(label): "" for label in range(3)}}
    found = {name: read_model({**config, "architectures": [name]}).parameters for name in case["parameters"]}
    assert found == case["parameters"]


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
        ({"model_type": "glm4v", "vision_config": {"num_heads": ""}}, "vision_config.num_heads: expected a positive"),
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


def test_layers_that_are_not_recognized_have_a_cache_that_is_not_known():
    """Servers say that they do not support it; training, that each token leaves a state."""
    from memcore.networks.recognized import UNCACHED
    from memcore.serving.cache import cache_specs

    layer = read_model({"model_type": "rwkv"}).layers[0][0]
    assert layer.extra is not None
    assert layer.extra.variant == UNCACHED
    with pytest.raises(UnsupportedError):
        cache_specs(layer, None)
    with pytest.raises(UnsupportedError, match="recurrent layers"):
        estimate_training({"model": {"model_type": "rwkv"}})


@pytest.mark.parametrize(
    ("model_type", "layers"),
    [
        ("hrm_text", 16),
        ("inkling2_text", 48),
        ("olmo_hybrid", 32),
        ("reformer", 6),
        ("switch_transformers", 24),
        ("zamba", 76),
    ],
)
def test_layers_that_are_spelled_out(model_type, layers):
    """A row without formulas of lengths has layers all the same; such types had none, which no question answered."""
    assert read_model({"model_type": model_type}).num_layers == layers


@pytest.mark.parametrize(
    ("model_type", "attention", "mixers"),
    [
        ("bert", "attention.self", 1),
        ("t5", "layer.0.SelfAttention", 1),
        ("whisper", "self_attn", 1),
        ("codegen", "attn", 1),
        ("youtu", "self_attn", 1),
    ],
)
def test_layers_are_recognized_by_their_tensors(model_type, attention, mixers):
    """Encoders, encoders with decoders, fused matrices, latent vectors; a layer that is known by its parts trains."""
    model = read_model({"model_type": model_type})
    assert model.layers[0][0].mixers[0].module == attention
    found = estimate_training({"model": {"model_type": model_type}, "training": {"adapter": "lora"}})
    assert found.allocated.high > 1.1 * found.allocated.expected
    assert "layers that memcore approximates" in str(found.allocated.range_because)


NEAREST = json.loads((Path(__file__).parent / "truth/nearest.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NEAREST)
def test_simulated_steps_of_parts_that_are_not_recognized(name):
    """Allocated peaks of real steps on fake tensors (`validation/simulate.py`), of a few layers, are in the range."""
    row = NEAREST[name]
    if "refused" in row:
        with pytest.raises(UnsupportedError, match=row["refused"]):
            estimate_training(row["config"])
        return
    found = estimate_training(row["config"]).allocated
    assert found.low <= row["allocated"] <= found.high


def test_one_set_of_weights_that_runs_often():
    """ALBERT keeps the activations of every run, and its weights and their gradients once."""
    config = {**NEAREST["albert large batch"]["config"]}
    once, often = (
        estimate_training({**config, "model": {**config["model"], "num_hidden_layers": layers}}).allocated.expected
        for layers in (1, 12)
    )
    assert read_model({**config["model"], "num_hidden_layers": 1}).parameters == read_model(config["model"]).parameters
    assert often - once > 11 * 8 * 512 * 3072 * 2


@pytest.mark.parametrize(
    ("model_type", "lacks"),
    [
        ("bailing_hybrid", "recurrent layers"),
        ("xlnet", "positions and segments"),
        ("funnel", "positions and segments"),
        ("hrm_text", "one set of weights that runs as several layers"),
        ("segformer", "layers of several widths"),
    ],
)
def test_parts_that_nothing_is_near_to_are_refused(model_type, lacks):
    """Simulated steps have three times the activations and more, or there is no loss over tokens."""
    with pytest.raises(UnsupportedError, match=lacks):
        estimate_training({"model": {"model_type": model_type}})


SIGNALS = {
    "wav2vec2": ((2, 200), 645.0),
    "wavlm": ((2, 200), 656.7),
    "hubert": ((2, 200), 645.0),
    "data2vec-audio": ((2, 200), 679.6),
    "unispeech": ((2, 200), 645.0),
    "wav2vec2-conformer": ((2, 200), 820.9),
    "wav2vec2-bert": ((2, 200), 736.0),
    "dinov2": ((8, 200), 416.8),
    "beit": ((8, 200), 356.6),
    "vit": ((8, 200), 355.8),
}
"""Megabytes of two layers in fp32 with samples and positions of each: parameters, Adam's states, and what autograd keeps
for the backward pass on the CPU (`torch.autograd.graph.saved_tensors_hooks`)."""


@pytest.mark.parametrize("model_type", SIGNALS)
def test_what_reads_images_or_sounds_alone(model_type):
    """The peak is at least what lies between forward and backward pass, and not a fifth more."""
    (samples, positions), least = SIGNALS[model_type]
    training = {"precision": "fp32", "micro_batch_size": samples, "sequence_length": positions}
    model = {"model_type": model_type, "num_hidden_layers": 2}
    found = estimate_training({"model": model, "training": training}).allocated
    assert 0.98 * least < found.expected / 1e6 < 1.15 * least


OLMO_HYBRID = {
    "the defaults": ({}, 128, 59_038_208),
    "fewer key heads": (
        {"linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32},
        128,
        47_702_528,
    ),
    "no rotation": ({"rope_parameters": {"rope_type": "default", "rope_theta": None}}, 192, 83_302_400),
}
"""Keys, tokens and the allocated peak of a step of four layers on fake tensors (`validation/simulate.py`)."""


@pytest.mark.parametrize("name", OLMO_HYBRID)
def test_olmo_hybrid_to_the_byte(name):
    """Qwen3-Next's rule with a projection for each input, and attention whose norms come after."""
    keys, tokens, peak = OLMO_HYBRID[name]
    model = {
        "model_type": "olmo_hybrid",
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 704,
        "vocab_size": 4096,
        "max_position_embeddings": 2048,
        **keys,
    }
    training = {"sequence_length": tokens, "micro_batch_size": 2, "precision": "bf16", "optimizer": "sgd"}
    job = {"model": model, "training": {**training, "attention": "math", "kernels": "fallback"}}
    assert estimate(Config.from_dict({**job, "engine": {"type": "none"}}), fake=True).rank.peak.peak == peak


def test_adapters_keep_what_the_convolutions_over_samples_make():
    """347.5 MB of wav2vec2 are kept for a PEFT adapter of 8 dimensions, where 363.0 MB are for all parameters."""
    sizes = {"precision": "fp32", "micro_batch_size": 2, "sequence_length": 200}
    model = {"model_type": "wav2vec2", "num_hidden_layers": 2}
    adapted = estimate_training({"model": model, "training": {**sizes, "adapter": "lora"}}).allocated.expected
    frozen = 4 * read_model(model).parameters
    assert abs(adapted - frozen - 347.5e6) < 0.05 * 347.5e6


_DECODES = {"model_type": "bert", "architectures": ["BertLMHeadModel"], "is_decoder": True}


@pytest.mark.parametrize(
    ("config", "elements"),
    [
        ({"model_type": "longcat_flash"}, 28 * 2 * (512 + 64)),
        (_DECODES, 12 * 2 * 768),
        ({**_DECODES, "is_decoder": False}, 0),
    ],
)
def test_what_a_token_adds_to_the_cache(config, elements):
    """LongCat-Flash has two attentions in each of 28 layers (vllm 0.33, models/longcat_flash.py).

    BERT caches only where it generates, then what the real cache object of transformers 5.23 holds.
    """
    assert read_model(config).cached_elements == elements


@pytest.mark.parametrize(
    ("server", "model_type", "said"),
    [
        *(("vllm", each, "vLLM does not support") for each in ("cpmant", "prophetnet", "reformer", "rwkv", "yoso")),
        *(
            ("sglang", each, "SGLang does not support")
            for each in ("bloom", "layoutlmv3", "markuplm", "t5gemma", "yoso")
        ),
        *(("llama.cpp", each, "no architecture for") for each in ("electra", "opt", "xlnet", "zamba2")),
        ("llama.cpp", "resnet", "not supported yet with llama.cpp"),
        *(("tgi", each, "TGI does not support") for each in ("modernbert", "qwen3_vl", "smollm3", "wav2vec2")),
        *(("lmdeploy", each, "LMDeploy does not support") for each in ("bert", "falcon", "olmo2", "t5", "zamba2")),
        *(("tensorrt-llm", each, "TensorRT-LLM does not support") for each in ("olmo2", "modernbert", "rwkv", "xlnet")),
    ],
)
def test_what_servers_do_not_have(server, model_type, said):
    """Neither their registry nor, where there is one, their Transformers backend."""
    job = {"model": {"model_type": model_type}, "engine": {"type": server}, "hardware": {"accelerator": "b200"}}
    with pytest.raises(UnsupportedError, match=said):
        estimate_serving(job)


LABELLED = {"id2label": {"0": "bad", "1": "fair", "2": "good"}}


@pytest.mark.parametrize(
    ("model_type", "architecture", "others"),
    [
        ("llama", "LlamaForSequenceClassification", 3 * 4096 - 32000 * 4096),
        ("llama", "LlamaModel", -32000 * 4096),
        ("bert", "BertForSequenceClassification", 768 * 768 + 768 + 3 * 769 - (768 * 768 + 768 + 2 * 768 + 30522)),
        ("bert", "BertModel", 768 * 768 + 768 - (768 * 768 + 768 + 2 * 768 + 30522)),
    ],
)
def test_the_class_that_a_file_names_decides_the_head(model_type, architecture, others):
    """Labels instead of words, or none; a pooler is part of the class."""
    whole = {"model_type": model_type, **LABELLED}
    found = read_model({**whole, "architectures": [architecture]})
    assert found.parameters - read_model(whole).parameters == others
    assert not found.network.embedding_and_head.predicts


def test_a_t5_that_says_so_has_a_head_of_its_own():
    """Its class ties it whatever the file says, and checkpoints of T5 1.1 hold it."""
    tied, apart = (read_model({"model_type": "t5", "tie_word_embeddings": each}).parameters for each in (True, False))
    assert apart - tied == 32128 * 512
    assert read_model({"model_type": "t5", "num_layers": 9}).num_layers == 18


def test_a_size_that_nothing_reads_is_said():
    """Unless it is another name of one that is read."""
    said = read_model({"model_type": "bert", "router_width": 100}).warnings
    assert any("router_width" in str(each) for each in said)
    assert not any("n_embd" in str(each) for each in read_model({"model_type": "bert", "n_embd": 768}).warnings)


def test_keys_of_the_language_model_that_stand_on_top():
    """As GLM-4.1V was published."""
    flat = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 1024}
    found = read_model({"model_type": "glm4v", **flat, "vision_config": {"out_hidden_size": 512}})
    assert found.num_layers == 2


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


def test_every_parameter_of_a_derived_layer_gets_a_gradient():
    """Aria's experts lie the other way round; what is in no part of a layer learns, too (simulated: 20,368,944,640)."""
    case = next(each for each in TRUTH if each["config"]["model_type"] == "aria_text")
    config = {**case["config"], "hidden_size": 4096, "intermediate_size": 4096, "num_hidden_layers": 4}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 32, "moe_num_experts": 8, "vocab_size": 32000}
    config |= {"head_dim": 128, "moe_num_shared_experts": 2, "moe_topk": 2, "tie_word_embeddings": False}
    found = estimate_training({"model": config, "training": {"sequence_length": 512, "micro_batch_size": 4}})
    assert found.allocated.expected == pytest.approx(20_368_944_640, rel=0.002)


def test_matrices_stand_for_parts_that_are_not_recognized():
    """LongCat's experts are not recognized; every matrix gets its gradient, and the range is wider."""
    case = next(each for each in TRUTH if each["config"]["model_type"] == "longcat_flash")
    found = estimate_training({"model": case["config"], "training": {"adapter": "lora", "sequence_length": 256}})
    assert "layers that memcore approximates" in str(found.allocated.range_because)
    persistent = estimate_training({"model": case["config"], "training": {"sequence_length": 64}}).rank.persistent
    assert persistent.states == pytest.approx(2 * persistent.parameters, rel=0.002)


@pytest.mark.parametrize("name", ["openai/whisper-large-v3", "google-t5/t5-base", "facebook/bart-large-cnn"])
def test_decoders_that_attend_to_an_encoder_learn(name):
    """Only layers that attend to images are skipped without one: AdamW keeps two states for every parameter."""
    cache_specs = estimate_training({"model": name, "training": {"sequence_length": 256}}).rank.persistent
    assert cache_specs.states == pytest.approx(2 * cache_specs.parameters, rel=0.002)


TOWERS_THAT_LEARN = [
    "zai-org/GLM-4.1V-9B-Thinking",
    "Qwen/Qwen2-Audio-7B",
    "rednote-hilab/dots.ocr",
    "openbmb/MiniCPM-V-4",
]


def states_of(name, **training):
    """What one GPU keeps in a full fine-tune, and what its gradients need."""
    cache_specs = estimate_training({"model": name, "training": {"sequence_length": 512, **training}})
    found = cache_specs.rank.persistent
    return cache_specs, found.states, sum(each.size * each.learning for each in found.stored)


@pytest.mark.parametrize("name", TOWERS_THAT_LEARN)
def test_towers_that_no_code_describes_learn(name):
    """Every parameter has a gradient and two states; at the optimizer step all of them are there."""
    found, states, gradients = states_of(name)
    cache_specs = found.rank.persistent
    assert states == pytest.approx(2 * cache_specs.parameters, rel=0.001)
    assert gradients == cache_specs.parameters
    assert found.allocated.expected >= cache_specs.parameters + states + gradients


@pytest.mark.parametrize("name", TOWERS_THAT_LEARN)
def test_without_images_or_frozen_towers_keep_nothing(name):
    """Text alone gives towers no gradient, nor does freezing them; the projector may still learn."""
    _, states, gradients = states_of(name, images_per_sequence=0)
    _, frozen, of_language = states_of(name, trainable=["language-model"])
    assert (states, gradients) == (frozen, of_language)
    assert states < states_of(name)[1]
    projected = states_of(name, trainable=["language-model", "projector"])[1]
    assert frozen <= projected < states_of(name)[1]


def test_towers_that_are_only_counted_widen_the_range():
    """Of dots.ocr's tower only the number of parameters is known: its activations are part of the upper end."""
    whole, frozen = (
        states_of("rednote-hilab/dots.ocr")[0],
        states_of("rednote-hilab/dots.ocr", trainable=["language-model"])[0],
    )
    above = [found.allocated.high / found.allocated.expected for found in (whole, frozen)]
    assert above[0] > above[1] + 0.2


@pytest.mark.parametrize(
    ("model", "parts", "said"),
    [
        ("gpt2", ["language-model"], "has no towers"),
        ("rednote-hilab/dots.ocr", ["language-model", "mlp"], "allowed: tower, projector"),
    ],
)
def test_what_language_model_goes_with(model, parts, said):
    """Towers and projectors alone."""
    with pytest.raises(ConfigError, match=said):
        states_of(model, trainable=parts)


@pytest.mark.parametrize("model_type", ["mamba", "bamba", "fnet"])
def test_a_server_without_attention_heads(model_type):
    """FlashInfer, which vLLM chooses on Blackwell, has no workspace where no layer attends."""
    job = {"model": {"model_type": model_type}, "engine": {"type": "vllm"}}
    assert estimate_serving({**job, "hardware": {"accelerator": "b200"}}).budget


def test_families_by_hand_read_none_of_it():
    """Two megabytes of rows that most jobs have no use for: neither a catalog's id nor a file of such a family asks for them."""
    derived.cache_clear()
    for hub_id in (
        "Qwen/Qwen3-30B-A3B",
        "google/gemma-3-1b-it",
        "deepseek-ai/DeepSeek-V3",
        "openai/gpt-oss-20b",
    ):
        assert read_model(catalog()[hub_id]["config"]).parameters > 10**8
    for engine in ("fsdp", "vllm", "sglang", "llama.cpp"):
        memcore.estimate(
            {"model": "qwen3-8b", "engine": {"type": engine}, "hardware": {"accelerator": "h100-sxm-80gb"}}
        )
    assert derived.cache_info().currsize == 0
