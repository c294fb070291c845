"""`config.json` files as they were published, against the published number of parameters; servers and adapters answer.

`from` is the public repository and the path that hold a file, verbatim; a row with `recalled` instead has keys of a file
that was not found again. `by` says what the number is: `index` the total of the weight map beside the file (less buffers,
and parts in fp32 counted once), `transformers` what its class builds of the file, `code` what the checkpoint's own code
or vLLM's makes of it, `card` what the makers publish, with layers that predict several tokens where a file has them.
That of InternVL3 is its converted checkpoint's. `figure` says where a number by `card` was read: of a checkpoint that has
the head which transformers would tie, and keeps apart when both are loaded.
"""

import json
from pathlib import Path

import pytest

from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate_serving, estimate_training
from memcore.networks.catalog import find_model
from memcore.networks.families.remote import own_family
from memcore.networks.read import read_model
from memcore.servers.vllm.supported import ABSENT, TWO_STACKS
from memcore.serving.encoder import shown

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

FILES = [
    Path(__file__).parent / f"truth/{name}.json"
    for name in (
        "published",
        "modelsa_published",
        "modelsb_published",
        "modelb_published",
        "models1_published",
        "models1_second_published",
        "models2_published",
    )
]
PUBLISHED = {name: row for file in FILES for name, row in json.loads(file.read_text(encoding="utf-8")).items()}
UNTRAINED = {
    "arctic": "layers connected as 'arctic'",
    "bailing_hybrid": "mixer 'lightning-gated'",
    "csm": "frames of several codes",
    "deepseek_v41": "mixer 'deepseek_v41'",
    "encodec": "no linear layers",
    "funnel": "scores for positions and segments",
    "glm5_next": "recurrent layers that memcore does not know",
    "kimi_k3": "kimi-k3",
    "qwen4_exp": "recurrent layers that memcore does not know",
    "resnet": "no linear layers",
    "rwkv": "recurrent layers that memcore does not know",
    "segformer": "layers of several widths",
    "squeezebert": "no linear layers",
    "swinv2": "layers of several widths",
    "xlnet": "scores for positions and segments",
    "xlstm": "recurrent layers that memcore does not know",
}
"""Types that are refused for training by the part that lacks."""
UNSERVED = {*ABSENT, *TWO_STACKS}
"""Types that vLLM does not have."""
UNCACHED = {
    "deepseek_v41": "layers that read the compressed keys of an earlier layer are not supported yet",
    "qwen4_exp": "this family's KV cache is not supported yet",
}
"""Types whose caches are not known."""
UNTYPED = {"CogVLMVideoForCausalLM": "cogvlm_video", "UMT5ForConditionalGeneration": "umt5"}
"""Files without a type, whose class says it."""


MISTYPED = {"MiniMaxM2ForCausalLM": "minimax_m2"}
"""Files with another's type, whose class says theirs."""


def _kind(config):
    named = config["architectures"][0] if "architectures" in config else ""
    return MISTYPED.get(named) or own_family(config) or config.get("model_type") or UNTYPED.get(named, named)


def _method(config):
    return (config.get("quantization_config") or {}).get("quant_method")


UNKNOWN = {
    **dict.fromkeys(
        (f"google/gemma-4-{size}-it-assistant" for size in ("26B-A4B", "31B", "E2B", "E4B")),
        "found 'gemma4_assistant', a family of transformers",
    ),
    **dict.fromkeys(
        (f"KamilaMila/FastVLM-{size}" for size in ("0.5B", "1.5B", "7B")), "found 'fast_vlm', a family of transformers"
    ),
    "ModernVBERT/modernvbert": "found no architectures; counted as ModernVBertForMaskedLM",
    "Qwen/Qwen3Guard-Stream-8B": "found 'Qwen3ForGuardModel', whose head is not counted",
    "microsoft/VibeVoice-1.5B": "found acoustic_tokenizer_config, decoder_config, semantic_tokenizer_config, which its",
    "XHToken/Spark-X2.5-4B": "family 'spark2_5' is unknown, so its keys were read as Llama's",
    "suno/bark-small": "found 'bark', a family of transformers",
    "facebook/detr-resnet-50 (fractures)": "found 'detr', a family of transformers",
    "JasonCZH4/bumblebee": "family 'bumblebee' is unknown, so its keys were read as Llama's",
    "OpenMOSS/MOSS-TTS-Nano": "unknown family 'moss_tts_nano'",
    "microsoft/Multilingual-MiniLM-L12-H384 (no class)": "found no architectures; counted as BertForMaskedLM",
    "MCG-NJU/videomae-base": "found 'videomae', a family of transformers",
    "depth-anything/Depth-Anything-V2-Small-hf": "found 'depth_anything', a family of transformers",
    "facebook/data2vec-vision-base": "found 'data2vec-vision', a family of transformers",
    "google/bert2bert_L-24_wmt_en_de": "add_cross_attention: found True",
    "facebook/esmfold_v1": "esmfold_config: found",
    "facebook/flava-full": "found 'flava', a family of transformers",
    "facebook/mms-tts-eng": "found 'vits', a family of transformers",
    "facebook/sam-vit-base": "found 'sam', a family of transformers",
    "microsoft/Phi-4-mini-flash-reasoning": "it has parts that Llama does not have: mb_per_layer",
    "kakaobrain/align-base": "found 'align', a family of transformers",
    "nvidia/groupvit-gcc-yfcc": "found 'groupvit', a family of transformers",
    "suno/bark": "found 'bark', a family of transformers",
    "facebook/wav2vec2-xls-r-1b-en-to-15": "add_final_layer_norm",
}
"""Files that do not say enough: what is said of them instead."""
OTHERS = {
    "facebook/hf-seamless-m4t-medium": "'SeamlessM4TModel', counted as SeamlessM4TForTextToText",
    "facebook/seamless-m4t-v2-large": "'SeamlessM4Tv2Model', counted as SeamlessM4Tv2ForTextToText",
    "google/rembert": "found no architectures; counted as RemBertForMaskedLM",
    "ModernVBERT/bimodernvbert": "'BiModernVBert', counted as ModernVBertForMaskedLM",
    "facebook/hf-seamless-m4t-large": "'SeamlessM4TModel', counted as SeamlessM4TForTextToText",
    "google/switch-c-2048": "num_sparse_decoder_layers says 15, but decoder_sparse_step makes 0 layers sparse",
    "google/switch-xxl-128": "num_sparse_encoder_layers says 12, but encoder_sparse_step makes 24 layers sparse",
}
"""Files of a class that is not known, or of one that they do not say, which is counted in its place; and those whose
keys contradict each other."""
KINDS = {
    _kind(row["config"]): name
    for name, row in sorted(PUBLISHED.items(), key=lambda row: _method(row[1]["config"]) is not None)[::-1]
    if name not in UNKNOWN and "quantization" not in row["config"] and _method(row["config"]) != "bitnet"
}
"""A file of each type, one that is not quantized if there is one; none of which MLX has quantized, or is read by
transformers alone."""


def test_parameters_are_the_published_ones():
    """With or without what a checkpoint holds besides, which the model names."""
    models = {
        name: find_model(PUBLISHED[name]["config"])
        for name in sorted(PUBLISHED.keys() - UNKNOWN.keys() - OTHERS.keys())
    }
    further = {name: (0, *(extras := each.published_extras.values()), sum(extras)) for name, each in models.items()}
    left = {name: PUBLISHED[name]["parameters"] - each.parameters for name, each in models.items()}
    assert len(left) > 1000
    assert {name: count for name, count in left.items() if count not in further[name]} == {}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_file_leaves_open_is_said(name):
    """A type or a class that it does not give; what is counted then is within one percent."""
    try:
        model = read_model(PUBLISHED[name]["config"])
    except ConfigError as error:
        assert UNKNOWN[name] in str(error)
        return
    assert UNKNOWN[name] in str(model.warnings[0])
    assert model.parameters == pytest.approx(PUBLISHED[name]["parameters"], rel=0.01)


@pytest.mark.parametrize("name", OTHERS)
def test_the_class_that_is_counted_is_said(name):
    """Its count is not that of the file's class."""
    model = read_model(PUBLISHED[name]["config"])
    assert OTHERS[name] in str(model.warnings[0])
    assert model.parameters != PUBLISHED[name]["parameters"]


@pytest.mark.parametrize("name", [name for kind, name in KINDS.items() if kind not in UNSERVED | UNCACHED.keys()])
def test_vllm_is_answered(name):
    """Weights and cache on as many GPUs as share its heads."""
    ranks = PUBLISHED[name].get("ranks", 4)
    job = {"model": PUBLISHED[name]["config"], "engine": {"type": "vllm"}}
    job = {**job, "hardware": {"accelerator": "b200", "num_gpus": ranks}}
    job["parallelism"] = {"tensor_parallel_size": ranks}
    assert estimate_serving(job).budget


@pytest.mark.parametrize("kind", sorted(UNSERVED & {*KINDS}))
def test_vllm_has_not_every_type(kind):
    """Its registry decides; what runs a type instead is said."""
    job = {"model": PUBLISHED[KINDS[kind]]["config"], "hardware": {"accelerator": "b200", "num_gpus": 1}}
    with pytest.raises(UnsupportedError, match=rf"vLLM does not support '{kind}'.*(serves|runs) it"):
        estimate_serving({**job, "engine": {"type": "vllm"}})


@pytest.mark.parametrize("kind", sorted(UNCACHED))
def test_caches_that_are_not_known_are_refused(kind):
    """No server is answered without them."""
    job = {"model": PUBLISHED[KINDS[kind]]["config"], "hardware": {"accelerator": "b200", "num_gpus": 1}}
    with pytest.raises(UnsupportedError, match=UNCACHED[kind]):
        estimate_serving({**job, "engine": {"type": "vllm"}})


def test_the_last_release_of_vllm_with_a_type_is_taken():
    """Qwen's first models left it after 0.23."""
    job = {"model": PUBLISHED["Qwen/Qwen-7B"]["config"], "hardware": {"accelerator": "b200", "num_gpus": 1}}
    found = estimate_serving({**job, "engine": {"type": "vllm"}})
    assert {each.path: each.value for each in found.assumptions}["engine.version"] == "0.23.0"
    with pytest.raises(UnsupportedError, match="0.23.0 is the last release of vLLM that supports 'qwen'"):
        estimate_serving({**job, "engine": {"type": "vllm", "version": "0.30"}})


@pytest.mark.parametrize("name", KINDS.values())
def test_an_adapter_is_answered(name):
    """LoRA on one GPU, or refused by the part that lacks."""
    job = {"model": PUBLISHED[name]["config"], "training": {"adapter": "lora"}}
    kind = _kind(PUBLISHED[name]["config"])
    if kind in UNTRAINED:
        with pytest.raises((ConfigError, UnsupportedError), match=UNTRAINED[kind]):
            estimate_training(job)
    else:
        assert estimate_training(job).allocated.expected > PUBLISHED[name]["parameters"]


def test_experts_in_awq_are_refused():
    """Under the type of its class, not the one that the file has."""
    job = {"model": PUBLISHED["QuantTrio/MiniMax-M2-AWQ"]["config"], "training": {"adapter": "lora"}}
    with pytest.raises(UnsupportedError, match="not supported yet for minimax_m2's experts"):
        estimate_training(job)


def test_the_decoder_of_a_derived_composite_has_its_own_row():
    """Its layers and caches are known; the tower is counted."""
    config = PUBLISHED["LiquidAI/LFM2.5-VL-1.6B"]["config"]
    whole, text = read_model(config), read_model(config["text_config"])
    assert whole.cached_elements == text.cached_elements > 0
    assert whole.state_elements == text.state_elements > 0
    assert whole.parameters_by_kind["tower"] > 400_000_000
    assert [layer for layer, _ in whole.layers] == [layer for layer, _ in text.layers]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"replace_with_linear": True}, "replace_with_linear"),
        ({"sparsify": [0.5]}, "sparsify"),
    ],
)
def test_blocks_of_another_kind_are_refused(change, said):
    """Nemotron-NAS may put a single matrix in place of a part."""
    config = PUBLISHED["nvidia/Llama-3_3-Nemotron-Super-49B-v1"]["config"]
    first, *rest = config["block_configs"]
    blocks = [{**first, "ffn": {**first["ffn"], **change}}, *rest]
    with pytest.raises(ConfigError, match=said):
        read_model({**config, "block_configs": blocks})


def test_no_server_loads_what_mlx_has_quantized():
    job = {"model": PUBLISHED["DeadByDawn101/RavenX-Sec"]["config"], "engine": {"type": "vllm"}}
    with pytest.raises(UnsupportedError, match="is MLX's, which no supported server or trainer loads"):
        estimate_serving({**job, "hardware": {"accelerator": "b200", "num_gpus": 1}})


def test_no_server_loads_bitnet():
    """`get_quantization_config` of vLLM 0.33 knows no such method; transformers trains it."""
    config = PUBLISHED["microsoft/bitnet-b1.58-2B-4T-bf16"]["config"]
    with pytest.raises(ConfigError, match="found 'bitnet'"):
        estimate_serving({"model": config, "engine": {"type": "vllm"}, "hardware": {"accelerator": "b200"}})
    assert estimate_training({"model": config, "training": {"adapter": "lora"}}).allocated.expected


def test_modelopt_may_leave_out_its_method():
    """As ModelOpt 0.31 writes it; the producer says what it is."""
    config = {**PUBLISHED["Qwen/Qwen3-235B-A22B"]["config"]}
    config["quantization_config"] = {"quant_algo": "FP8", "producer": {"name": "modelopt", "version": "0.31.0"}}
    job = {"model": config, "engine": {"type": "vllm"}, "hardware": {"accelerator": "h200-sxm-141gb", "num_gpus": 4}}
    found = estimate_serving({**job, "parallelism": {"tensor_parallel_size": 4}})
    assert found.fits


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}, "a draft"),
        ({"model_type": "qwen3", "architectures": ["DFlashDraftModel"]}, "a draft"),
        (
            {
                "model_type": "bert",
                "architectures": ["JinaBertForMaskedLM"],
                "auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertForMaskedLM"},
            },
            "differs from transformers' 'bert'",
        ),
        ({"model_type": "internlm2", "n_embd": 4096}, "model.hidden_size: missing"),
    ],
)
def test_other_code_under_a_known_type_is_refused(config, said):
    """The class that a file names counts, and so do sizes that no class of transformers has a default for."""
    with pytest.raises(ConfigError, match=said):
        read_model(config)


def test_blocks_of_recurrent_gemma_that_have_another_name_attend():
    """transformers 5.23 reads any name but `recurrent` in `block_types` as attention; the counts are its own."""
    sizes = {"hidden_size": 256, "intermediate_size": 768, "lru_width": 256, "vocab_size": 1000}
    heads = {"num_attention_heads": 4, "num_hidden_layers": 6, "num_key_value_heads": 1}
    config = {**sizes, **heads, "model_type": "recurrent_gemma"}
    for kinds, count in ((["recurrent", "recurrent", "attention"], 3_291_904), (["linear_attention"], 3_019_520)):
        assert read_model({**config, "block_types": kinds}).parameters == count


def test_layers_of_qwen_next_in_another_order_are_refused():
    """The rows are proved for every fourth layer that attends."""
    text = {**PUBLISHED["Qwen/Qwen3.8-Flash-Next"]["config"]["text_config"], "layer_types": ["full_attention"] * 48}
    with pytest.raises(ConfigError, match=r"model.*layer_types: found"):
        read_model({**PUBLISHED["Qwen/Qwen3.8-Flash-Next"]["config"], "text_config": text})


def test_a_file_without_a_type_has_that_of_its_class():
    """MiniCPM3's first file has none."""
    whole = PUBLISHED["openbmb/MiniCPM3-4B"]["config"]
    found = read_model({key: value for key, value in whole.items() if key != "model_type"})
    assert found.parameters == read_model(whole).parameters
    assert "is taken from architectures" in str(found.warnings[0])


def test_experts_are_packed_in_the_width_that_they_read():
    """Kimi-K3's experts work in half of the decoder's width; each GPU of 16 has 256 of their padded rows."""
    job = {"model": PUBLISHED["moonshotai/Kimi-K3"]["config"], "engine": {"type": "vllm"}}
    job = {**job, "hardware": {"accelerator": "b300", "num_gpus": 16}}
    found = estimate_serving({**job, "parallelism": {"tensor_parallel_size": 16}}).budget
    shapes = {entry.shape for entry in found.ranks[0].ledger.entries if entry.module == "experts"}
    assert {(896, 512, 1792), (896, 512, 112)} <= shapes


@pytest.mark.parametrize(
    ("name", "tiles", "tokens"),
    [
        ("HuggingFaceM4/Idefics3-8B-Llama3", 17, 2873),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", 17, 1377),
        ("ibm-granite/granite-docling-258M", 17, 1088),
        ("LiquidAI/LFM2.5-VL-1.6B", 1, 256),
        ("unsloth/aya-vision-8b", 10, 1690),
        ("rhymes-ai/Aria", 1, 256),
    ],
)
def test_what_profiling_shows_to_a_tower(name, tiles, tokens):
    """The image with the most tokens, as vLLM's classes and the image processors of transformers make it."""
    config = PUBLISHED[name]["config"]
    seen = shown(read_model(config), config, 8192)
    assert (seen.largest.tiles, seen.largest.tokens) == (tiles, tokens)
    job = {"model": config, "engine": {"type": "vllm"}, "hardware": {"accelerator": "b200", "num_gpus": 1}}
    assert not [note for note in estimate_serving(job).budget.notes if "to profile an image" in str(note)]
