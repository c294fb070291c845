"""Names of re-uploaded and quantized repositories: what trains and serves behind them, and how it is said."""

import pytest
from conftest import truth

from memcore import Config, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.networks.catalog import find_model, for_serving, identified, known, named, search
from memcore.serving.published import as_published

NAMES = [
    ("NousResearch/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B", None, ""),
    ("NousResearch/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf", None, ""),
    ("casperhansen/llama-3-70b-fp16", "meta-llama/Meta-Llama-3-70B", None, ""),
    ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "Qwen/Qwen3-8B", "nf4", "nf4-double"),
    ("unsloth/llama-3-8b-Instruct-bnb-4bit", "meta-llama/Meta-Llama-3-8B-Instruct", "nf4", "nf4-double"),
    ("unsloth/gpt-oss-20b-BF16", "openai/gpt-oss-20b", "bf16", ""),
    ("unsloth/Llama-3.3-70B-Instruct-GGUF", "meta-llama/Llama-3.3-70B-Instruct", "gguf", None),
    ("TheBloke/Llama-2-13B-chat-GPTQ", "meta-llama/Llama-2-13b-chat-hf", "gptq", "gptq"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct", "gptq", "gptq"),
    ("Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B", "awq", "gptq"),
    ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B", "fp8-block", "fp8"),
    ("RedHatAI/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B", "fp8-channel", None),
    ("llama3-8b", "meta-llama/Meta-Llama-3-8B", None, ""),
    ("llama2-7b", "meta-llama/Llama-2-7b-hf", None, ""),
    ("OpenRLHF/Llama-3-8b-sft-mixture", "meta-llama/Meta-Llama-3-8B", None, ""),
    ("alignment-handbook/zephyr-7b-sft-full", "HuggingFaceH4/zephyr-7b-beta", None, ""),
    ("HuggingFaceTB/SmolLM3-3B-checkpoints", "HuggingFaceTB/SmolLM3-3B", None, ""),
    ("open-r1/Qwen2.5-Math-7B-RoPE-300k", "Qwen/Qwen2.5-Math-7B", None, ""),
    ("bartowski/mistralai_Mistral-Small-3.2-24B-Instruct-2506-GGUF", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "gguf", None),
    ("google/gemma-3-27b-it-qat-q4_0-gguf", "google/gemma-3-27b-it", "gguf", None),
    ("google/gemma-3-12b-it-qat-q4_0-unquantized", "google/gemma-3-12b-it", "bf16", ""),
    ("hugging-quants/Llama-3.2-1B-Instruct-Q8_0-GGUF", "meta-llama/Llama-3.2-1B-Instruct", "gguf", None),
    ("ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g", "google/gemma-3-27b-it", "gptq", "gptq"),
    ("gaunernst/gemma-3-27b-it-int4-awq", "google/gemma-3-27b-it", "awq", "gptq"),
    ("amd/DeepSeek-R1-MXFP4-Preview", "deepseek-ai/DeepSeek-R1", "mxfp4", None),
    ("cyankiwi/GLM-4.6-AWQ-8bit", "zai-org/GLM-4.6", "w8a16", None),
    ("deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek-ai/DeepSeek-V3.1", None, ""),
    ("unsloth/Nemotron-3-Nano-30B-A3B", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", None, ""),
    ("openai/gpt-oss-safeguard-20b", "openai/gpt-oss-20b", None, ""),
    ("deepseek-ai/deepseek-coder-6.7b-instruct", "deepseek-ai/deepseek-coder-6.7b-base", None, ""),
]  # fmt: skip


SIZES = truth("modelsb_ids")
TYPED = truth("models1_ids")
"""Repositories with their network, their format, and the size of their files in three digits or more."""


def test_files_of_repositories_have_the_size_that_cards_and_listings_say():
    """MLX's are refused by the name of their network; `older` says why a file has other types than it would today."""
    differing = {}
    for name, row in SIZES.items():
        if row["format"] == "mlx":
            with pytest.raises(ConfigError, match=f"its model is {row['base']}"):
                identified(name)
        elif "tinyllama" not in name:
            stored, size = as_published(name)
            assert stored == row["format"]
            assert find_model(name).parameters == find_model(row["base"]).parameters
            if size != pytest.approx(row["bytes"], rel=0.01):
                differing[name] = row["older"]
    assert list(differing) == ["TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF:Q4_K_M"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bartowski/Qwen2.5-7B-Instruct-GGUF:Q6_K_L", "q6_k"),
        ("hf.co/unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "q4_k_m"),
        ("hugging-quants/Llama-3.2-1B-Instruct-Q8_0-GGUF", "q8_0"),
    ],
)
def test_a_name_says_the_type_of_a_gguf_file(name, said):
    """llama.cpp serves it; other servers are refused by the type."""
    job = {"model": name, "engine": {"type": "llama.cpp"}}
    assert {each.path: each.value for each in estimate(job).assumptions}["inference.quantization"] == said
    with pytest.raises(UnsupportedError, match="GGUF files are not supported yet with vLLM"):
        estimate({"model": name, "engine": {"type": "vllm"}})


@pytest.mark.parametrize(("name", "base", "stored", "frozen"), NAMES)
def test_a_name_says_model_and_recipe(name, base, stored, frozen):
    found = named(name)
    assert (found.base, found.format, found.frozen) == (base, stored, frozen)
    assert find_model(name) == find_model(base)


@pytest.mark.parametrize(
    "name",
    [
        "moonshotai/Kimi-K9-Thinking",
        "somebody/llama-of-mine",
        "mistral-small",
        "Qwen/Qwen9-8B-AWQ",
        "klue/roberta-base",
    ],
)
def test_what_may_have_another_shape_is_asked_for(name):
    assert named(name) is None
    with pytest.raises(ConfigError, match="not one of the"):
        find_model(name)


@pytest.mark.parametrize(
    ("name", "base", "others"),
    [
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1", ["v0.1"]),
        ("mistral-7b", "mistralai/Mistral-7B-v0.3", ["v0.1", "Instruct-v0.3", "Instruct-v0.2", "Instruct-v0.1"]),
        ("llama3.1:8b", "meta-llama/Llama-3.1-8B", ["Instruct"]),
        ("gemma3-27b", "google/gemma-3-27b-pt", ["it"]),
        ("command-a", "CohereForAI/c4ai-command-a-03-2025", []),
        ("llama-3.2-90b", "meta-llama/Llama-3.2-90B-Vision-Instruct", []),
        ("internvl2.5-8b", "OpenGVLab/InternVL2_5-8B", []),
    ],
)
def test_short_names_mean_what_is_as_large(name, base, others):
    found = identified(name)
    assert found.base == base
    assert [each.partition("-7B-")[2] or each.rpartition("-")[2] for each in found.others] == others
    said = {each.path: each for each in trained(name).assumptions}["model"]
    assert (said.value, said.notable) == (base, True)
    assert ("others: " in said.reason) == bool(others)


def _meant(name, base):
    """What a name stands for; that of a repository of MLX's is refused, and the model that it is of is named."""
    try:
        found = identified(name)
    except ConfigError as error:
        return {"base": base if base in str(error) else str(error), "format": "mlx"}
    return {"base": found.base, "format": found.format}


def test_names_as_people_type_them():
    """Re-uploads, quantized copies, Ollama's tags and nicknames."""
    assert {name: _meant(name, wanted["base"]) for name, wanted in TYPED.items()} == TYPED


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("gemma 3 27b", "google/gemma-3-27b-it"),
        ("smollm3", "HuggingFaceTB/SmolLM3-3B"),
        ("llama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct"),
        ("qwen2.5-7b", "Qwen/Qwen2.5-7B"),
    ],
)
def test_a_server_gets_the_one_that_answers(name, base):
    """A short name may mean a base model and one that follows instructions; a repository's own name means itself."""
    assert for_serving(identified(name)).base == base


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("deepseek-r1:70b", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
        ("deepseek-r1:7b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
        ("phi4:14b", "microsoft/phi-4"),
        ("mistral-nemo:12b", "mistralai/Mistral-Nemo-Base-2407"),
        ("qwen2.5-coder:7b-instruct-q4_K_M", "Qwen/Qwen2.5-Coder-7B-Instruct"),
        ("llama3.1:70b-instruct-q4_0", "meta-llama/Llama-3.1-70B-Instruct"),
        ("google/gemma-3-12b", "google/gemma-3-12b-pt"),
        ("qwen/qwen3-coder-30b", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
        ("meta-llama/llama-3.3-70b-instruct:free", "meta-llama/Llama-3.3-70B-Instruct"),
        ("z-ai/glm-4.5-air:free", "zai-org/GLM-4.5-Air"),
        ("deepseek/deepseek-chat-v3.1", "deepseek-ai/DeepSeek-V3.1"),
        ("mistralai/mistral-small-3.2-24b-instruct", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
        ("cohere/command-a", "CohereForAI/c4ai-command-a-03-2025"),
        ("llama3 8b instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("llama3-1-8b", "meta-llama/Llama-3.1-8B"),
        ("yi 34b chat", "01-ai/Yi-34B"),
    ],
)
def test_names_as_other_tools_write_them(name, base):
    """Ollama's tags, OpenRouter's and LM Studio's ids, words with blanks; of sizes that a model's own name lacks."""
    assert identified(name).base == base
    assert known(name)


@pytest.mark.parametrize("name", ["phi4:3b", "somebody/phi-4:free-form", "google/qwen3-8b-x", "mistral-nemo:30b"])
def test_names_of_other_makers_and_sizes_are_no_models(name):
    assert not known(name)


@pytest.mark.parametrize(
    "name", ["llama3", "qwen3", "mixtral", "phi-3", "mistral-small", "qwen3-8", "somebody/mixtral-8x7b-rp"]
)
def test_short_names_of_several_sizes_ask(name):
    with pytest.raises(ConfigError, match="not one of the"):
        identified(name)


@pytest.mark.parametrize("name", ["mlx-community/Qwen3-8B-4bit", "lmstudio-community/Qwen3-8B-MLX-4bit"])
def test_weights_that_only_mlx_loads_are_refused_with_their_model(name):
    with pytest.raises(ConfigError, match="only MLX loads; its model is Qwen/Qwen3-8B"):
        find_model(name)


def trained(model, **training):
    """The estimate of a LoRA job."""
    said = {"sequence_length": 512, "adapter": {"type": "lora"}, **training}
    return estimate(Config.from_dict({"model": model, "training": said}))


def test_training_has_the_format_of_the_name_and_says_so():
    found = trained("unsloth/Qwen3-0.6B-unsloth-bnb-4bit")
    plain = trained("Qwen/Qwen3-0.6B", quantization="nf4-double")
    assert found.peak.peak == plain.peak.peak != trained("Qwen/Qwen3-0.6B").peak.peak
    said = {each.path: each for each in found.assumptions}
    assert said["model"].value == "Qwen/Qwen3-0.6B"
    assert said["model"].notable
    assert "leaves some layers in 16 bits" in said["training.quantization"].reason


def test_what_the_config_says_comes_before_the_name():
    found = trained("unsloth/Qwen3-0.6B-bnb-4bit", quantization="int8")
    assert found.peak.peak == trained("Qwen/Qwen3-0.6B", quantization="int8").peak.peak


def test_formats_that_are_not_trained_are_refused_with_the_base():
    with pytest.raises(ConfigError, match="training is supported from Qwen/Qwen3-0.6B"):
        trained("unsloth/Qwen3-0.6B-GGUF")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B-AWQ", "Qwen/Qwen3-0.6B-GPTQ-Int4"])
def test_adapters_learn_next_to_four_bits_in_groups(name):
    assert trained(name).peak.peak == trained("Qwen/Qwen3-0.6B", quantization="gptq").peak.peak


def test_quantized_weights_are_not_trained_themselves():
    with pytest.raises(ConfigError, match="frozen"):
        estimate(Config.from_dict({"model": "unsloth/Qwen3-0.6B-bnb-4bit", "training": {"sequence_length": 512}}))


def test_models_by_licence():
    """Only models whose licence a source names; how many have none is said on the command line."""
    found = search("qwen3 >100b license:Apache-2.0")
    assert "Qwen/Qwen3-235B-A22B" in found
    assert {entry["licence"] for entry in found.values()} == {"apache-2.0"}
    assert not search("licence:none-such")
    assert search("qwen3 >100b apache") == search("qwen3 >100b licence:apache-2.0")
    assert "google/gemma-2-27b" not in search("7b")
    assert {*search("seq2seq <100m")} >= {"google/flan-t5-small", "openai/whisper-base"}
