"""Servers of published checkpoints: what repositories quantize, what proposes tokens, and what vLLM refuses at start."""

import pytest

from memcore import Config, estimate
from memcore.config.engine import release
from memcore.errors import ConfigError, UnsupportedError
from memcore.networks.catalog import find_model, named
from memcore.questions.accuracy import accuracy
from memcore.serving.checkpoint import own_cache, own_format
from memcore.serving.predictions import predicted
from memcore.serving.speculation import speculation, speculative_entries
from memcore.serving.weights import Storage

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes


def serve(model, *, engine="vllm", inference=None, gpus=1, accelerator="h100-sxm-80gb", **options):
    """The estimate of a server."""
    return estimate(
        Config.from_dict(
            {
                "model": model,
                "inference": inference or {},
                "engine": {"type": engine, **options},
                "hardware": {"accelerator": accelerator, "num_gpus": gpus},
            }
        )
    )


def loaded(found):
    """The weights that the server reports."""
    return predicted(found, "weights", total=False)


@pytest.mark.parametrize(
    ("name", "base", "kind"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B-Instruct", "fp8-channel"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen/Qwen3-30B-A3B-Instruct-2507", "fp8-block"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-70B-Instruct", "awq"),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", "Qwen/Qwen3-30B-A3B", "gptq"),
        ("nvidia/Qwen3-8B-FP4", "Qwen/Qwen3-8B", "nvfp4"),
        ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "meta-llama/Llama-3.3-70B-Instruct", "nf4"),
        ("Intel/Qwen3-8B-int4-AutoRound", "Qwen/Qwen3-8B", "int4"),
        ("RedHatAI/Qwen3-8B-quantized.w4a16", "Qwen/Qwen3-8B", "int4"),
        ("unsloth/Qwen3-8B-GGUF", "Qwen/Qwen3-8B", "gguf"),
        ("NousResearch/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B", None),
    ],
)
def test_names_of_repositories(name, base, kind):
    """A quantized or re-uploaded repository stands for a model of the catalog and a format."""
    found = named(name)
    assert (found.base, found.format) == (base, kind)


def test_a_name_is_an_assumption():
    """What a name is taken for is said, and an unknown one is refused as before."""
    found = serve("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic")
    said = {each.path: (each.value, each.reason) for each in found.assumptions}
    assert said["model"] == ("meta-llama/Llama-3.1-8B-Instruct", "the same network, by the repository's name")
    assert said["inference.quantization"] == ("fp8-channel", "by the repository's name")
    assert (
        loaded(found).expected
        == loaded(serve("llama-3.1-8b-instruct", inference={"quantization": "fp8-channel"})).expected
    )
    with pytest.raises(ConfigError, match="not one of the"):
        serve("somebody/nothing-known-AWQ")


LINEAR = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"}}
FLOAT = {"num_bits": 8, "type": "float", "strategy": "channel"}


@pytest.mark.parametrize(
    ("config", "kind", "module", "expected"),
    [
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": LINEAR}, "ignore": ["lm_head", "re:.*self_attn.*"]},
            "attention", "model.layers.0.self_attn.qkv_proj", None,
        ),
        (
            {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
             "config_groups": {"a": LINEAR, "b": {"targets": ["re:.*self_attn.*"], "weights": FLOAT, "input_activations": {}}}},
            "attention", "model.layers.0.self_attn.o_proj", "fp8-channel",
        ),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
                "model.layers.0.mlp.experts.3.up_proj": {"quant_algo": "NVFP4"},
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}}},
            "routed-expert", "model.language_model.layers.0.mlp.experts.gate_up_proj", "nvfp4",
        ),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}}},
            "attention", "model.layers.1.self_attn.q_proj", None,
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "ignore": ["model.layers.0.*"]},
            "feed-forward", "model.layers.1.mlp.down_proj", "int4",
        ),
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*self_attn.*": {}}},
            "attention", "model.layers.1.self_attn.o_proj", None,
        ),
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down_proj.*": {"bits": 8}}},
            "feed-forward", "model.layers.1.mlp.down_proj", "w8a16",
        ),
        (
            {"quant_method": "auto-round", "bits": 4, "extra_config": {"model.layers.1.mlp.down_proj": {"bits": 16}}},
            "feed-forward", "model.layers.1.mlp.down_proj", None,
        ),
        (
            {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["linear_attn"]},
            "linear-attention", "model.language_model.layers.3.linear_attn.out_proj", None,
        ),
        ({"quant_method": "torchao", "quant_type": "Float8WeightOnlyConfig"}, "attention", "a.self_attn.o_proj", "fp8"),
    ],
)  # fmt: skip
def test_what_a_checkpoint_quantizes(config, kind, module, expected):
    """Each module has the format that the checkpoint's own description gives it."""
    stored = own_format({"quantization_config": config})
    found = stored.format_of(kind, [module])
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("ranks", "accelerator", "settings", "logged"),
    [
        (2, "h200-nvl-141gb", {"version": "0.23.0", "max_num_batched_tokens": 8192}, 74.08),
        (2, "h200-nvl-141gb", {"version": "0.23.0", "max_num_batched_tokens": 16384}, 74.35),
        (8, "h100-sxm-80gb", {"version": "0.31.1", "enable_expert_parallel": True}, 19.79),
    ],
)
def test_deepseek_v4_in_logs_of_vllm(ranks, accelerator, settings, logged):
    """Experts in MXFP4, compressors in 16 bits, queries and outputs sharded; until 0.27 a step's streams for a draft."""
    found = serve("deepseek-v4-flash", gpus=ranks, accelerator=accelerator, **settings)
    assert loaded(found).expected / 2**30 == pytest.approx(logged, rel=0.007)


def test_deepseek_v4_packs_its_cache_unasked():
    """As if fp8 had been asked for; 16 bits have to be."""
    settings = {"gpus": 8, "accelerator": "h100-sxm-80gb", "version": "0.31.1", "kv_cache_memory_bytes": 47 << 30}
    unasked, packed, plain = (
        serve("deepseek-v4-flash", inference={"max_model_len": 262144, **asked}, **settings).pool.tokens
        for asked in ({}, {"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "bf16"})
    )
    assert unasked == packed > 1.5 * plain


@pytest.mark.parametrize(
    ("settings", "held", "logged"),
    [
        ({"accelerator": "h200-sxm-141gb", "version": "0.29.0", "enable_prefix_caching": True}, 81.79, 7_228_559),
        ({"accelerator": "h100-sxm-80gb", "version": "0.31.1", "enable_prefix_caching": False}, 28.73, 2_618_281),
    ],
)
def test_pooled_keys_next_to_states_in_logs_of_vllm(settings, held, logged):
    """GLM-5.3-Flash: a slot of a block holds the vectors of a layer, or a state; its indexer has a key for four tokens."""
    length = 131072 if settings["enable_prefix_caching"] else 262144
    found = serve(
        "zai-org/GLM-5.3-Flash",
        inference={"max_model_len": length, "images_per_sequence": 0},
        gpus=8,
        kv_cache_memory_bytes=round(held * 2**30),
        **settings,
    )
    assert found.pool.tokens == pytest.approx(logged, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("Qwen/Qwen3.5-0.8B", 873_438_784),
        ("Qwen/Qwen3.5-4B", 4_659_865_088),
        ("Qwen/Qwen3.5-9B", 9_653_104_368),
        ("Qwen/Qwen3.5-27B", 27_781_427_952),
    ],
)
def test_whole_repositories(name, published):
    """Language model, tower and the layer that predicts a further token are what the repository counts."""
    model = find_model(name)
    proposing = speculation("mtp", 1, model, {}, None)
    storage = Storage(dtype="bf16", sizes={**model.sizes, "TP": 1, "EP": 1, "ETP": 1}, category="draft model")
    further = sum(each.bytes for each in speculative_entries(proposing, model, storage)) // 2
    assert model.parameters + further == pytest.approx(published, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "name", "expected"),
    [
        ("qwen3.6-27b", "nvfp4", (19.0e9, 31e9)),
        ("qwen3.6-35b-a3b", "awq", (20e9, 26e9)),
        ("qwen3-235b-a22b", "awq", (118e9, 155e9)),
    ],
)
def test_a_bare_format_has_the_range_of_its_recipes(model, name, expected):
    """Where a format's name is all that is known, the range covers what repositories of the family differ by."""
    found = serve(model, inference={"quantization": name}, accelerator="b300")
    bounds = loaded(found)
    assert expected[0] < bounds.low < bounds.expected <= bounds.high < expected[1]
    assert any("repositories of this family quantize different" in each.reason for each in found.assumptions)
    assert not serve("llama-3.1-8b", inference={"quantization": name}).recipes


@pytest.mark.parametrize(
    ("model", "method", "expected"),
    [
        ("qwen3.6-27b", None, 849_000_000),
        ("qwen3.6-35b-a3b", "mtp", 1_691_000_000),
        ("llama-3.1-8b", "eagle", 503_000_000),
        ("llama-3.1-8b", "eagle3", 799_000_000),
        # A mixture's head is a dense layer all the same.
        ("qwen3-30b-a3b", "eagle3", 2 * (2048 * (2 * 4096 + 2 * 512) + 3 * 6144 * 2048 + 3 * 2048**2 + 32000 * 2048)),
        ("llama-3.1-8b", "medusa", 3 * 2 * (4096 * 4096 + 128256 * 4096)),
        # Five layers of Qwen3 with what joins five hidden states; eight dense ones for a mixture.
        ("qwen3-8b", "dflash", 2 * (5 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 12288 * 4096) + 5 * 4096**2)),
        # No gate and heads of 128: 3.22 GiB in a start of vLLM.
        ("qwen3.6-27b", "dflash", 2 * (5 * (5120 * (2 * 4096 + 2 * 1024) + 3 * 17408 * 5120) + 5 * 5120**2)),
        ("qwen3-30b-a3b", "dflash", 2 * (8 * (2048 * (2 * 4096 + 2 * 512) + 3 * 6144 * 2048) + 5 * 2048**2)),
        ("llama-3.1-8b", None, 0),
    ],
)
def test_what_proposes_tokens(model, method, expected):
    """Its weights come on top; lookup in the prompt has none."""
    settings = {"num_speculative_tokens": 3, **({"speculative_method": method} if method else {})}
    more = serve(model, inference=settings).ledger.sum("draft model")
    assert more == pytest.approx(expected, rel=0.01)


def test_methods_that_are_not_there():
    """Layers that a family lacks are refused, and so is a draft without a model."""
    with pytest.raises(UnsupportedError, match="multi-token-prediction layers of llama are not supported yet"):
        serve("llama-3.1-8b", inference={"speculative_method": "mtp"})
    with pytest.raises(UnsupportedError, match="found dflash, which is not supported yet with TensorRT-LLM"):
        serve("llama-3.1-8b", engine="tensorrt-llm", inference={"speculative_method": "dflash"})
    with pytest.raises(
        UnsupportedError, match="found eagle3, which is not supported yet with llama.cpp; allowed: draft"
    ):
        serve("llama-3.1-8b", engine="llama.cpp", inference={"speculative_method": "eagle3"})
    with pytest.raises(ConfigError, match="name a model"):
        serve("llama-3.1-8b", inference={"speculative_method": "draft"})


@pytest.mark.parametrize(
    ("tokens", "reuses", "held", "expected"),
    [(2, True, 52183852646, 1394129), (2, False, 52183852646, 1418305)],
)
def test_states_of_proposed_tokens(tokens, reuses, held, expected):
    """Each proposed token has a block of states, and the last one before it where prefixes are reused."""
    found = serve(
        "qwen3.6-27b",
        inference={"max_model_len": 262144, "kv_cache_dtype": "fp8", "num_speculative_tokens": tokens},
        version="0.24.0",
        kv_cache_memory_bytes=held,
        enable_prefix_caching=reuses,
    )
    assert found.pool.tokens == expected


def test_tokens_of_one_group_before_0_20_2():
    """The log of Qwen3.5-9B: 407 blocks of 528 tokens in four groups."""
    settings = {"inference": {"max_model_len": 4096}, "accelerator": "rtx-5090", "kv_cache_memory_bytes": 7043746365}
    assert serve("qwen3.5-9b", version="0.20.1", **settings).pool.tokens == 53328
    assert serve("qwen3.5-9b", version="0.20.2", **settings).pool.tokens > 100_000


@pytest.mark.parametrize(
    ("settings", "quoted", "change"),
    [
        ({"model": "llama-3.1-70b"}, "No available memory for the cache blocks", "a smaller weight format"),
        (
            {"model": "qwen3-32b", "inference": {"max_model_len": 131072}},
            "To serve at least one request with the model's max seq len (131072)", "max_model_len ",
        ),
        (
            {"model": "qwen3.6-27b", "inference": {"max_model_len": 8192}, "gpu_memory_utilization": 0.8},
            "exceeds available Mamba cache blocks", "max_num_seqs ",
        ),
        (
            {"model": "llama-3.1-8b", "gpu_memory_utilization": 0.999},
            "on startup is less than desired GPU memory utilization (0.999", "gpu_memory_utilization 0.9",
        ),
        (
            {"model": "qwen3.6-27b", "inference": {"max_model_len": 8192, "quantization": "fp8-block", "max_num_seqs": 512},
             "accelerator": "rtx-pro-6000", "gpu_memory_utilization": 0.5, "version": "0.26.0"},
            "exceeds available Mamba cache blocks", "starts",
        ),
        (
            {"model": "google/gemma-4-26B-A4B-it", "inference": {"max_model_len": 16384, "quantization": "fp8"},
             "accelerator": "l40s", "version": "0.21.0"},
            "max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens (2048)", "it starts with max_num_batched_tokens 2496",
        ),
    ],
)  # fmt: skip
def test_what_vllm_refuses(settings, quoted, change):
    """It is said in vLLM's words, with the smallest change that starts, and it does not fit."""
    found = serve(**settings)
    refused = [note for note in found.notes if quoted in note]
    assert refused
    assert change in refused[0]
    assert not found.fits


def test_the_change_that_is_named_starts():
    """`max_model_len` and `max_num_seqs` as named are the largest that start."""
    found = serve("qwen3-32b", inference={"max_model_len": 131072}, allow_longer=True)
    (note,) = [note for note in found.notes if "To serve" in note]
    longest = int(note.rpartition("max_model_len ")[2].split()[0])
    assert serve("qwen3-32b", inference={"max_model_len": longest}).fits
    assert not serve("qwen3-32b", inference={"max_model_len": longest + 2048}).fits


@pytest.mark.parametrize(
    ("version", "model", "method", "counted", "copied"),
    [
        ("0.21.0", "qwen3-8b", None, True, True),
        ("0.22.0", "qwen3-8b", None, False, False),
        ("0.22.0", "llama-3.1-8b", None, True, True),
        ("0.24.0", "llama-3.1-8b", None, False, False),
        ("0.24.0", "llama-3.1-8b", "ngram", True, True),
        ("0.24.0", "llama-3.1-8b", "eagle3", False, False),
        ("0.24.0", "gemma-3-1b-it", None, True, True),
        ("0.25.0", "gemma-3-1b-it", None, False, False),
        ("0.28.0", "qwen3.6-27b", None, True, True),
        ("0.28.0", "qwen3-30b-a3b", None, True, True),
        ("0.29.0", "qwen3-30b-a3b", None, True, False),
        ("0.33.0", "qwen3-30b-a3b", None, True, True),
    ],
)
def test_the_second_model_runner(version, model, method, counted, copied):
    """Which networks a release runs with it: before 0.29 it reserves nothing for graphs, before 0.33 nothing for top-k."""
    inference = {
        "max_model_len": 4096,
        **({"speculative_method": method, "num_speculative_tokens": 2} if method else {}),
    }
    found = serve(model, version=version, inference=inference)
    said = [note for note in found.notes if "second model runner" in note]
    assert bool(said) != counted
    logits = sum(each.bytes for each in found.ledger.entries if each.title == "probabilities and random numbers")
    assert bool(logits) == copied
    kept = sum(each.bytes for each in found.ledger.entries if each.title == "counts of generated tokens")
    second = not counted or release(version) >= (0, 29)
    assert kept == (1024 * found.job.sizes["V"] * 4 if second else 0)


@pytest.mark.parametrize(("version", "graphs"), [("0.8.5", 67), ("0.9.2", 67), ("0.10.1", 19), ("0.12.0", 19 + 11)])
def test_graphs_of_former_releases(version, graphs):
    """Sizes in steps of 8 to 512, from 0.10 on to twice `max_num_seqs`; whole graphs beside them since 0.12."""
    found = serve("llama-3.1-8b", version=version, inference={"max_num_seqs": 64})
    (entry,) = [each for each in found.ledger.entries if each.title == "captured graphs"]
    assert entry.text.startswith(f"{graphs} captured sizes: ")


@pytest.mark.parametrize(
    ("model", "tables"),
    [
        ("gemma-3-4b-it", {131072 * 256 * 2, 8 * 131072 * 256 * 2}),
        ("gemma-3-1b-it", {32768 * 256 * 2}),
        ({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 512,
          "intermediate_size": 128, "max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}},
         {4 * 4096 * 32 * 2}),
        ({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 512,
          "intermediate_size": 128, "max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": 4.0}},
         {4096 * 32 * 2}),
    ],
)  # fmt: skip
def test_tables_of_stretched_positions(model, tables):
    """Linear scaling keeps cosines of all positions times its factor, for layers that are scaled."""
    found = serve(model)
    assert {each.each for each in found.ledger.entries if each.title == "cosines and sines"} == tables


def test_a_verdict_holds_for_every_repository_of_a_format():
    """1,024 sequences need as many blocks of Qwen's 27B in fp8; repositories that leave more in 16 bits have fewer."""
    settings = {"inference": {"quantization": "fp8-block"}, "accelerator": "rtx-pro-6000", "version": "0.25.0"}
    settings["gpu_memory_utilization"] = 0.9
    found = serve("qwen3.6-27b", **settings)
    assert found.pool.capacity > 1024 > found.pool.capacity_low
    assert not found.fits
    assert any("repositories of this format differ" in note for note in found.notes)
    assert serve("qwen3.6-27b", **{**settings, "max_num_seqs": 512}).fits
    named = serve("llama-3.1-8b", inference={"quantization": "fp8"})
    assert named.fits
    assert not named.recipes


@pytest.mark.parametrize(
    ("model", "version", "tokens", "logged"),
    [
        # Positions in time, height and width: cosines of four times as many; buffers for three inner layers' features.
        ("Qwen/Qwen3.5-9B", "0.19.0", 8192, 17.66),
        ("Qwen/Qwen3.5-4B", "0.22.0", 2048, 8.61),
        ("Qwen/Qwen3-VL-8B-Instruct", "0.19.0", 8192, 16.78),
        ("Qwen/Qwen3.6-27B", "0.29.0", 8192, 51.1),
        ("google/gemma-4-E4B-it", "0.22.1", 2048, 15.18),
        # nvidia's mixed checkpoint has its head in NVFP4, llm-compressor's linear attention in 16 bits. The log is of
        # 0.23.1 with expandable segments, whose blocks are split as before 0.21.
        ("nvidia/Qwen3.6-27B-NVFP4", "0.20.2", 8192, 19.78),
        ("RedHatAI/Qwen3.6-35B-A3B-NVFP4", "0.19.2", 8192, 21.88),
    ],
)
def test_weights_in_logs_of_vllm(model, version, tokens, logged):
    """`Model loading took … GiB`, as public logs have it."""
    found = serve(model, version=version, max_num_batched_tokens=tokens, accelerator="rtx-pro-6000")
    assert loaded(found).expected / 2**30 == pytest.approx(logged, abs=0.04)


@pytest.mark.parametrize(
    ("model", "logged"), [("nvidia/Gemma-4-26B-A4B-NVFP4", 17.89), ("nvidia/Gemma-4-31B-IT-NVFP4", 31.04)]
)
def test_attention_of_nvidias_gemma_has_16_bits(model, logged):
    """In the mixture, dense layers too."""
    found = serve(model, version="0.20.2", accelerator="rtx-pro-6000")
    assert loaded(found).expected / 2**30 == pytest.approx(logged, rel=0.007)


@pytest.mark.parametrize(
    ("model", "version", "accelerator", "ranks", "logged"),
    [
        ("nvidia/GLM-5.2-NVFP4", "0.26.0", "b200", 4, 106.69),
        ("cyankiwi/Qwen3-Next-80B-A3B-Instruct-AWQ-4bit", "0.13.0", "l40s", 2, 22.53),
        ("cyankiwi/Mistral-Small-4-119B-2603-AWQ-4bit", "0.19.0", "l40s", 2, 33.94),
    ],
)
def test_mixtures_of_which_experts_alone_are_quantized(model, version, accelerator, ranks, logged):
    """By who made them and how they attend; attention, dense layers and shared experts have 16 bits."""
    inference = {"max_model_len": 4096}
    found = serve(model, version=version, inference=inference, gpus=ranks, accelerator=accelerator)
    assert loaded(found).expected / 2**30 == pytest.approx(logged, rel=0.02)


def test_rotations_of_three_directions_began_with_videos():
    """Before Qwen2.5-VL came, in 0.7.2, the tables were those of other rotations."""
    before, after = (
        sum(
            each.bytes
            for each in serve("Qwen/Qwen2.5-VL-7B-Instruct", version=version).ledger.entries
            if each.title == "cosines and sines"
        )
        for version in ("0.7.0", "0.7.2")
    )
    assert after == 4 * before > 0


def test_tokens_of_the_cache_in_logs_of_vllm():
    """`GPU KV cache size` but for what graphs are estimated at: pixels are there twice, as a video of one moment."""
    settings = {"gpu_memory_utilization": 0.5, "max_num_batched_tokens": 2048, "enable_prefix_caching": False}
    found = serve(
        "Qwen/Qwen3.5-4B", version="0.22.0", inference={"max_model_len": 1024, "max_num_seqs": 128},
        accelerator="rtx-a6000", **settings,
    )  # fmt: skip
    assert found.pool.tokens == pytest.approx(163225, rel=0.015)


def test_graphs_are_profiled_with_a_cache():
    """A network with states needs a block for each captured sequence before its cache is sized; eager does not."""
    settings = {"inference": {"max_model_len": 8192, "quantization": "fp8-block"}, "accelerator": "rtx-5090"}
    found = serve("qwen3.6-27b", version="0.26.0", **settings)
    assert any("CUDA out of memory" in note for note in found.notes)
    assert not any("CUDA out of memory" in note for note in serve("qwen3.6-27b", enforce_eager=True, **settings).notes)


def test_verdicts_are_counted():
    """A verdict is right, unsafe or too careful, whatever was measured."""
    job = {"model": "gpt2", "engine": {"type": "vllm"}, "hardware": {"accelerator": "t4", "num_gpus": 1}}
    cases = [
        {"id": str(value), "config": job, "measured": {"quantity": "fits", "value": value, "rank": "max"}}
        for value in (True, False)
    ]
    assert accuracy(cases).verdicts() == [("vllm", "right", 1), ("vllm", "unsafe", 1)]


def test_verdicts_that_are_close_are_counted_apart():
    """The range of the cache holds both answers: 0.30 of 80 GB in a release that counts other processes, too."""
    job = {
        "model": "qwen2.5-vl-3b-instruct",
        "engine": {"type": "vllm", "version": "0.8.5", "gpu_memory_utilization": 0.3},
        "hardware": {"accelerator": "a100-sxm-80gb", "num_gpus": 1},
    }
    cases = [
        {"id": str(value), "config": job, "measured": {"quantity": "fits", "value": value, "rank": "max"}}
        for value in (True, False)
    ]
    assert accuracy(cases).verdicts() == [("vllm", "close", 1), ("vllm", "right", 1)]
    assert [each.inside for each in accuracy(cases).results] == [None, None]


def activations(found):
    """Bytes of the widest moment."""
    return found.ledger.sum("activations")


@pytest.mark.parametrize(
    ("inference", "accelerator", "pieces", "whole"),
    [
        ({}, "h100-sxm-80gb", 51, 51),
        ({"max_num_seqs": 256}, "h100-sxm-80gb", 51, 35),
        ({"max_num_seqs": 2}, "h100-sxm-80gb", 3, 2),
        ({}, "b200", 83, 83),
        # As logs have it: PIECEWISE=3 (largest=16), FULL=2 (largest=8), and PIECEWISE=41 (largest=384), FULL=25 (largest=192)
        ({"max_num_seqs": 2, "speculative_method": "ngram", "num_speculative_tokens": 3}, "h100-sxm-80gb", 3, 2),
        ({"max_num_seqs": 48, "speculative_method": "ngram", "num_speculative_tokens": 3}, "b200", 41, 25),
        # PIECEWISE=5 (largest=16): a cache in fp8 on an RTX 3090
        (
            {"max_num_seqs": 2, "speculative_method": "ngram", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"},
            "rtx-3090", 5, 0,
        ),
    ],
)  # fmt: skip
def test_graphs_that_are_captured(inference, accelerator, pieces, whole):
    """1, 2, 4, multiples of 8 and from 256 of 16; piece by piece for all, and whole up to `max_num_seqs`.

    With proposed tokens sizes are multiples of what a sequence has in a step. A layer has 8 kernels between attention
    and the next one's, and two in it. Since 0.29 pieces are captured while the step is profiled, where whole graphs are.
    """
    found = serve("llama-3.1-8b", inference=inference, accelerator=accelerator)
    titles = ("captured graphs", "graphs of the profiled step, kept by the driver")
    entries = [each for title in titles for each in found.ledger.entries if each.title == title]
    captured = [(0, whole), (pieces, 0)] if whole else [(pieces, 0)]
    assert len(entries) == len(captured)
    of_graph, of_kernel = (106, 0.32) if accelerator == "b200" else (90, 12.8)
    for entry, (of_pieces, of_whole) in zip(entries, captured, strict=True):
        graphs, kernels = 33 * of_pieces + of_whole, 32 * (8 * of_pieces + 10 * of_whole)
        said = f"{graphs:,} graphs × {of_graph} KiB + {kernels:,} kernels × {of_kernel} KiB"
        assert entry.text == f"{of_pieces + of_whole} captured sizes: {said}"
        assert entry.bytes == int((graphs * of_graph + kernels * of_kernel) * 1024)


@pytest.mark.parametrize(
    ("model", "accelerator", "settings", "size"),
    [
        # Debug lines of 0.19 on H100: 262, 228, 522 and 134 MiB for the first whole graph, of which this is the tensor
        ("llama-3.1-8b", "h100-sxm-80gb", {}, 32 * 512 * 32 * 128 * 4),
        ("qwen2.5-7b-instruct", "h100-sxm-80gb", {}, 32 * 512 * 28 * 128 * 4),
        ("deepseek-v2-lite-chat", "h100-sxm-80gb", {}, 32 * 512 * 16 * 512 * 4),
        ("gemma-2-2b-it", "h100-sxm-80gb", {}, 32 * 512 * 8 * 256 * 4),
        # 4 and 8 MiB in all: images that see themselves whole, and sinks
        ("gemma-3-4b-it", "h100-sxm-80gb", {}, 0),
        ("gpt-oss-20b", "h100-sxm-80gb", {}, 0),
        # Few sequences, chunked attention without whole graphs, other kernels
        ("llama-3.1-8b", "h100-sxm-80gb", {"max_num_seqs": 4}, 32 * 4 * 32 * 128 * 4),
        ("llama-4-scout-17b-16e-instruct", "h100-sxm-80gb", {}, 0),
        ("llama-3.1-8b", "rtx-4090", {}, 0),
    ],
)
def test_attention_in_whole_graphs_keeps_partial_results(model, accelerator, settings, size):
    """FlashAttention 3 reads 32 parts of each sequence while graphs are captured, and writes each part's result in fp32."""
    inference = {"max_model_len": 4096, **settings}
    found = serve(model, version="0.19.0", accelerator=accelerator, inference=inference)
    kept = [each.bytes for each in found.ledger.entries if each.title == "partial results of attention in whole graphs"]
    assert kept == ([size] if size else [])


@pytest.mark.parametrize(
    ("model", "version", "accelerator", "settings", "graphs"),
    [
        # Logs: 67 + 67 of a network with recurrent states, before others have two modes (0.11); 83 sizes of gpt-oss
        ("qwen3-next-80b-a3b-instruct", "0.10.2", "h200-sxm-141gb", {}, 67 + 67),
        ("qwen3-8b", "0.10.2", "h200-sxm-141gb", {}, 67),
        ("qwen3-8b", "0.11.0", "h200-sxm-141gb", {}, 67 + 67),
        ("gpt-oss-20b", "0.19.0", "h100-sxm-80gb", {}, 83 + 83),
        ("qwen3-8b", "0.20.0", "h100-sxm-80gb", {"max_cudagraph_capture_size": 1}, 1 + 1),
    ],
)
def test_graphs_by_release_and_network(model, version, accelerator, settings, graphs):
    """FULL_AND_PIECEWISE since 0.11, with recurrent states since 0.10."""
    found = serve(model, version=version, accelerator=accelerator, inference={"max_model_len": 4096}, **settings)
    (entry,) = [each for each in found.ledger.entries if each.title == "captured graphs"]
    assert entry.text.startswith(f"{graphs} captured sizes: ")


@pytest.mark.parametrize(("model", "while_captured"), [("qwen3-8b", False), ("qwen3-next-80b-a3b-instruct", True)])
def test_flashinfers_workspace_is_taken_before_graphs_are_captured(model, while_captured):
    """An fp8 cache on a B200 is read by FlashInfer: 394 MiB, before the first whole graph since it is warmed up.

    That is since 0.10.2, and not next to recurrent layers (model_executor/warmup/kernel_warmup.py).
    """
    inference = {"kv_cache_dtype": "fp8", "max_model_len": 4096}
    found = serve(model, version="0.20.0", accelerator="b200", inference=inference)
    (entry,) = [each for each in found.ledger.entries if each.title == "workspace of FlashInfer's attention"]
    assert (entry.category == "CUDA graphs", entry.bytes) == (while_captured, 394 * 2**20)


@pytest.mark.parametrize(
    ("version", "tokens", "size"),
    [("0.20.0", 16384, 394 * 2**20), ("0.27.1", 4096, 394 * 2**20), ("0.27.1", 8192, 8192 * 32 * 128 * 16)],
)
def test_flashinfers_workspace_grows_with_the_step(version, tokens, size):
    """16 bytes for each token and element of its queries since 0.26, but no less than before."""
    inference = {"kv_cache_dtype": "fp8", "max_model_len": 4096}
    found = serve(
        "qwen3-8b", version=version, accelerator="rtx-5090", inference=inference, max_num_batched_tokens=tokens
    )
    (entry,) = [each for each in found.ledger.entries if each.title == "workspace of FlashInfer's attention"]
    assert entry.bytes == size


def test_towers_are_not_loaded_where_no_image_is_allowed():
    """Qwen3.5-35B-A3B in 16 bits: 64.69 GiB in a log without images; ranks share the tower's layers while profiling."""
    inference = {"max_model_len": 4096, "images_per_sequence": 0}
    found = serve("Qwen/Qwen3.5-35B-A3B", version="0.20.0", accelerator="rtx-pro-6000", inference=inference)
    assert found.ledger.sum("weights") == pytest.approx(64.69 * 2**30, rel=1e-3)
    one, two = (
        serve(
            "Qwen/Qwen3.6-27B", version="0.20.0", accelerator="h200-sxm-141gb", gpus=gpus,
            inference={"max_model_len": 4096, "max_num_seqs": 2}, max_num_batched_tokens=2048,
        )
        for gpus in (1, 2)
    )  # fmt: skip
    tower = [
        sum(each.bytes for each in found.ledger.entries if each.title == "stacked and rotated queries and keys")
        for found in (one, two)
    ]
    assert tower[0] == 2 * tower[1] > 2**29


def test_cyankiwis_repositories_are_int4_in_groups_of_32():
    """Whatever their name says: 7.55 GiB in a log of Qwen3.5-9B-AWQ-4bit without its tower."""
    inference = {"max_model_len": 65536, "max_num_seqs": 2, "images_per_sequence": 0}
    found = serve("cyankiwi/Qwen3.5-9B-AWQ-4bit", version="0.31.0", accelerator="rtx-5090", inference=inference)
    assert found.ledger.sum("weights") == pytest.approx(7.55 * 2**30, rel=2e-3)


def test_a_cache_is_in_fp8_where_the_checkpoint_has_scales_for_it():
    """`kv_cache_scheme` of a config.json, and repositories that are known to have one."""
    found = serve("unsloth/Qwen3.8-27B-NVFP4", version="0.27.1", accelerator="rtx-5090", enforce_eager=True)
    assert found.job.basics.cache_dtype == "fp8"
    assert own_cache({"quantization_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}}) == "fp8"
    assert own_cache({"quantization_config": {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}}) is None


@pytest.mark.parametrize(
    ("version", "inference", "tokens"),
    [
        ("0.5.3", {"max_model_len": 65536}, 65536),
        ("0.6.3", {"max_model_len": 65536}, 512),
        ("0.7.3", {"max_model_len": 65536}, 2048),
        ("0.7.3", {"max_model_len": 16384}, 16384),
        ("0.7.3", {"max_model_len": 65536, "max_loras": 2}, 65536),
        ("0.8.2", {"max_model_len": 65536}, 8192),
        ("0.8.2", {"max_model_len": 65536, "max_loras": 2}, 65536),
        ("0.8.3", {"max_model_len": 65536, "max_loras": 2}, 8192),
    ],
)
def test_tokens_of_a_step_by_release(version, inference, tokens):
    """Chunks of long prompts in 0.6 and 0.7, and the former engine for LoRA in the first 0.8."""
    assert serve("llama-3.1-8b", inference=inference, version=version).job.options.tokens == tokens


def test_chunks_of_a_model_that_uses_no_window():
    """A config may name a window that no layer has: DeepSeek's 14B on Qwen2.5 was profiled with 2,048 tokens."""
    found = serve("DeepSeek-R1-Distill-Qwen-14B", version="0.7.2", inference={"max_model_len": 65536})
    assert found.job.options.tokens == 2048


def test_sglang_takes_what_it_has_room_for():
    """It starts with less than the longest sequence needs, and says how much a request may have."""
    found = serve("qwen3-32b", engine="sglang", inference={"max_model_len": 131072}, allow_longer=True)
    assert found.fits
    assert found.asked_length == found.pool.tokens < 131072
    assert any("accepts requests of at most" in note for note in found.notes)
    refused = serve("llama-3.1-70b", engine="sglang")
    assert not refused.fits
    assert any("Not enough memory" in note for note in refused.notes)


def test_sglang_reports_the_target_apart():
    """Weights in its log are without what proposes tokens, which the memory holds all the same."""
    plain = serve("qwen3.6-27b", engine="sglang", accelerator="b300")
    more = serve("qwen3.6-27b", engine="sglang", accelerator="b300", inference={"num_speculative_tokens": 3})
    assert loaded(more).expected == loaded(plain).expected
    assert more.ledger.sum("draft model") > 800_000_000


def test_a_unified_cache_is_as_long_as_one_sequence():
    """llama.cpp with -kvu: one cache of `-c` cells for all sequences."""

    def cache(unified):
        options = {"kv_unified": unified, "cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": True}
        settings = {"batch_size": 2, "max_model_len": 32768, "quantization": "q4_k_m"}
        return serve("qwen3.5-9b", engine="llama.cpp", inference=settings, **options).ledger.sum("KV cache")

    assert cache(True) == 570425344
    assert cache(False) == 2 * cache(True)


@pytest.mark.parametrize(("build", "expected"), [(5700, 564), (6500, 258.5)])
def test_builds_of_early_2025_have_one_cache(build, expected):
    """Four sequences of 2,048 cells: without flash attention scores of 8,192 cells are wider than the logits."""
    options = {"n_batch": 2048, "n_ubatch": 512, "flash_attn": False, "version": build}
    settings = {"batch_size": 4, "max_model_len": 2048, "quantization": "q4_k_m"}
    found = serve("llama-3.1-8b", engine="llama.cpp", inference=settings, **options)
    assert found.ledger.sum("KV cache") == 2**30
    assert found.ledger.sum("activations") == pytest.approx(expected * 2**20, rel=1e-4)


def test_an_unknown_release_has_both_formulas():
    """Tokens of a network with states are what either formula says, where no release is named."""
    settings = {"inference": {"max_model_len": 4096}, "accelerator": "rtx-5090"}
    bounds = predicted(serve("qwen3.5-9b", **settings), "kv_cache_tokens", total=False)
    former = predicted(serve("qwen3.5-9b", version="0.20.1", **settings), "kv_cache_tokens", total=False)
    assert bounds.low < former.expected < bounds.expected


@pytest.mark.parametrize(("accelerator", "expected"), [("a100-sxm-80gb", 141_557_760), ("h100-sxm-80gb", 0)])
def test_marlin_brings_a_workspace(accelerator, expected):
    """gpt-oss before Hopper: 2,048 tokens × 4 experts × (hidden + gate and up) in 16 bits."""
    found = serve("gpt-oss-20b", accelerator=accelerator, version="0.19.0", inference={"max_model_len": 8192})
    assert sum(each.bytes for each in found.ledger.entries if "experts' workspace" in each.title) == expected


@pytest.mark.parametrize(
    ("version", "accelerator", "gpus", "fraction"),
    [
        ("0.4.3", "a100-sxm-80gb", 4, 0.85),
        ("0.4.3", "a100-sxm-80gb", 1, 0.88),
        ("0.4.10", "rtx-4090", 1, 0.877),
        ("0.5.2", "a100-sxm-80gb", 2, 0.867),
    ],
)
def test_sglangs_fraction_before_it_followed_from_the_chunk(version, accelerator, gpus, fraction):
    """By the number of ranks before 0.4.7, by the GPU's memory before 0.5.3 (server_args.py)."""
    found = serve("qwen3-8b", engine="sglang", version=version, accelerator=accelerator, gpus=gpus)
    assert found.budget.line_title == f"mem_fraction_static {fraction:g}"


@pytest.mark.parametrize(
    ("version", "gpus", "drafts", "reserved"),
    [
        ("0.5.4", 1, None, 3072 + 128 + 2 * 16),
        ("0.5.9", 1, None, 3072 + 128 + 2 * 24),
        ("0.5.9", 4, None, 3072 + 512 + 2 * 80),
        ("0.5.9", 1, "eagle3", 3072 + 128 + 2 * 24 + 2048),
        ("0.5.13", 1, None, 3072 + 128 + 2 * 24 + 8 * 42),
        ("0.5.13", 1, "eagle3", 3072 + 128 + 2 * 24 + 4096),
        ("0.5.13", 1, "ngram", 3072 + 128 + 2 * 24),
        ("0.5.19", 1, None, 3072 + 128 + 2 * 24 + 8 * 42),
        ("0.5.20", 1, None, 6144 + 128 + 2 * 48 + 8 * 50),
    ],
)
def test_sglangs_fraction_of_small_gpus(version, gpus, drafts, reserved):
    """Chunks, graphs of decoding and of prompts, ranks and drafts, of 23.51 GiB (server_args.py, memory_hook.py)."""
    inference = {"speculative_method": drafts, "num_speculative_tokens": 3} if drafts else {}
    found = serve(
        "llama-3.1-8b", engine="sglang", version=version, accelerator="rtx-4090", gpus=gpus, inference=inference
    )
    total = found.job.capacity / 2**20
    assert found.budget.line_title == f"mem_fraction_static {1 - (512 + reserved) / total:.3g}"
