"""GGUF files: bytes of every file type, against llama-quantize."""

from math import prod

import pytest
from conftest import truth

from memcore.errors import ConfigError
from memcore.networks.catalog import find_model
from memcore.networks.read import read_model
from memcore.servers.llamacpp.gguf import file_type_of, gguf_file
from memcore.servers.llamacpp.gguf_tensors import gguf_tensors
from memcore.serving.gguf_mixes import FALLBACK, FILE_TYPES, RULES, Place
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes, tensor_bytes

pytestmark = pytest.mark.machine  # tables of sizes: arithmetic that Pyodide does alike

TRUTH = truth("gguf")

TINY = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def sizes_of(model, file_types, **how):
    """Bytes of all tensors in files of several types."""
    return {each: sum(tensor.bytes for tensor in gguf_file(model, each, **how)) for each in file_types}


@pytest.mark.parametrize("name", TRUTH["files"])
def test_every_file_type_to_the_byte(name):
    """Eleven models in 24 file types, quantized without an importance matrix."""
    assert sizes_of(find_model(name), TRUTH["files"][name]) == TRUTH["files"][name]


@pytest.mark.parametrize("name", TRUTH["imatrix"])
def test_every_file_type_with_an_importance_matrix(name):
    """With a matrix, some mixes spend fewer bits on the first feed-forward layers."""
    expected = TRUTH["imatrix"][name]
    assert sizes_of(find_model(name), expected, imatrix=True) == expected


@pytest.mark.parametrize("name", TRUTH["dry_runs"])
def test_other_families_to_the_byte(name):
    """What `llama-quantize --dry-run` says of files with the tensors that llama.cpp's converter describes."""
    sizes = dict(zip(TRUTH["dry_run_types"], TRUTH["dry_runs"][name], strict=True))
    expected = {each: size for each, size in sizes.items() if size}
    assert sizes_of(find_model(name), expected) == expected


def test_a_tiny_llama_by_hand():
    """Q8_0: 34 bytes for 32 elements of every matrix, four for every element of a norm."""
    model = read_model(TINY)
    layer = 256 * 256 * 2 + 2 * 128 * 256 + 3 * 256 * 512
    matrices = 2 * 1024 * 256 + 8 * layer
    norms = (8 * 2 + 1) * 256 * 4
    assert sizes_of(model, ("Q8_0", "F16")) == {"Q8_0": matrices * 34 // 32 + norms, "F16": matrices * 2 + norms}


def test_more_bits_by_hand():
    """Of eight layers Q4_K_M gives values and down projections of the first, the last and every third more bits."""
    types = {tensor.name: tensor.type for tensor in gguf_file(read_model(TINY), "Q4_K_M")}
    downs = [types[f"blk.{layer}.ffn_down.weight"] for layer in range(8)]
    assert downs == ["Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q6_K"]
    assert [types[f"blk.{layer}.attn_v.weight"] for layer in range(8)] == downs
    assert types["output.weight"] == "Q6_K"
    assert {types[name] for name in ("token_embd.weight", "blk.0.attn_q.weight")} == {"Q4_K"}
    assert types["blk.0.attn_norm.weight"] == types["output_norm.weight"] == "F32"


def test_rows_that_are_no_whole_number_of_blocks():
    """Rows of 288 are nine blocks of 32 and no block of 256: Q4_K becomes Q5_0, and Q6_K becomes Q8_0."""
    model = read_model({**TINY, "hidden_size": 288, "num_attention_heads": 3, "num_key_value_heads": 3})
    types = {tensor.name: tensor.type for tensor in gguf_file(model, "Q4_K_M")}
    assert types["blk.1.attn_q.weight"] == "Q5_0"
    assert types["blk.1.ffn_down.weight"] == "Q4_K"
    assert types["blk.0.attn_v.weight"] == types["output.weight"] == "Q8_0"
    odd = read_model({**TINY, "intermediate_size": 500})
    assert {tensor.type for tensor in gguf_file(odd, "Q4_K_M") if "ffn_down" in tensor.name} == {"F16"}


def test_a_tied_head_is_the_embedding():
    """It is quantized like a head, and stored once."""
    tensors = gguf_file(read_model({**TINY, "tie_word_embeddings": True}), "Q4_K_M")
    assert [each.type for each in tensors if each.name.startswith(("token_embd.", "output."))] == ["Q6_K"]


@pytest.mark.parametrize(
    ("name", "tensor", "shape", "fixed"),
    [
        ("mixtral-8x7b-v0.1", "blk.0.ffn_gate_exps.weight", (8, 14336, 4096), None),
        ("mixtral-8x7b-v0.1", "blk.31.ffn_down_exps.weight", (8, 4096, 14336), None),
        ("mixtral-8x7b-v0.1", "blk.0.ffn_gate_inp.weight", (8, 4096), "F32"),
        ("deepseek-r1", "blk.0.attn_k_b.weight", (128, 512, 128), None),
        ("deepseek-r1", "blk.60.attn_v_b.weight", (128, 128, 512), None),
        ("deepseek-r1", "blk.3.exp_probs_b.bias", (256,), "F32"),
        ("gpt-oss-20b", "blk.0.ffn_up_exps.weight", (32, 2880, 2880), "MXFP4"),
        ("gpt-oss-20b", "blk.0.attn_sinks.weight", (64,), "F32"),
        ("llama-3.1-8b", "rope_freqs.weight", (64,), "F32"),
        ("distilgpt2", "position_embd.weight", (1024, 768), "F32"),
        ("phi-3-mini-128k-instruct", "blk.0.attn_qkv.weight", (9216, 3072), None),
        ("qwen3-next-80b-a3b-instruct", "blk.0.attn_gate.weight", (4096, 2048), None),
        ("granite-4.0-h-1b", "blk.0.ffn_gate.weight", (4096, 1536), None),
        ("kimi-linear-48b-a3b-base", "blk.0.ssm_conv1d_q.weight", (4096, 4), "F32"),
    ],
)
def test_what_the_converter_makes_of_tensors(name, tensor, shape, fixed):
    """Experts merged by matrix, latent expansions and fused projections split, tables in F32."""
    found = {each.name: each for each in gguf_tensors(find_model(name))}
    assert (found[tensor].shape, found[tensor].fixed) == (shape, fixed)


def test_towers_and_llama_3_without_scaling():
    """Vision towers go to another file; Llama 3 has no factors of frequencies, Llama 3.1 has."""
    assert not any("vision" in tensor.name for tensor in gguf_tensors(find_model("gemma-3-4b-it")))
    assert not any(tensor.name.startswith("rope") for tensor in gguf_tensors(find_model("meta-llama-3-8b")))
    plain = read_model({**TINY, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})
    assert [tensor.shape for tensor in gguf_tensors(plain) if tensor.name.startswith("rope")] == [(32,)]


def test_overrides_and_pure():
    """A tensor's type can be named by a part of its name; a pure file has no mix."""
    model = read_model(TINY)
    types = {t.name: t.type for t in gguf_file(model, "Q4_K_M", overrides={"ffn_down": "Q8_0", "output.weight": "F16"})}
    assert types["blk.1.ffn_down.weight"] == "Q8_0"
    assert types["output.weight"] == "F16"
    assert {tensor.type for tensor in gguf_file(model, "Q4_K_M", pure=True)} == {"F32", "Q4_K"}


def test_names_of_file_types():
    """Any spelling, and a suggestion for what is not one."""
    assert file_type_of("q4_k") == "Q4_K_M"
    assert file_type_of("iq4-xs") == "IQ4_XS"
    with pytest.raises(ConfigError, match="q4_k_x"):
        file_type_of("q4_k_x")


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        ("Q4_0", 4.5),
        ("Q8_0", 8.5),
        ("Q6_K", 6.5625),
        ("IQ2_XXS", 2.0625),
        ("TQ1_0", 1.6875),
        ("MXFP4", 4.25),
        ("NVFP4", 4.5),
    ],
)
def test_bits_of_types(kind, bits):
    """Scales and minima are part of what an element takes."""
    assert BLOCK_TYPES[kind].bits == bits


def test_sizes_of_rows_and_tensors():
    """A row is whole blocks; some of the fork's types begin each row with a scale."""
    assert row_bytes("Q4_0", 64) == 36
    assert row_bytes("IQ4_KS", 256) == 4 + 136
    assert tensor_bytes("Q8_0", (3, 2, 32)) == 6 * 34
    with pytest.raises(ValueError, match="whole number"):
        row_bytes("Q4_K", 100)


def test_bits_per_weight():
    """Llama 3.1 8B as llama.cpp's README lists it."""
    tensors = gguf_file(find_model("llama-3.1-8b"), "Q4_K_M")
    bits, elements = 8 * sum(each.bytes for each in tensors), sum(prod(each.shape) for each in tensors)
    assert round(bits / elements, 4) == 4.8944


def test_the_table_of_mixes():
    """Every row names file types and types that exist, and fallbacks have smaller blocks."""
    for rule in RULES:
        assert rule.file_types <= set(FILE_TYPES)
        assert rule.type in BLOCK_TYPES
    assert all(BLOCK_TYPES[there].elements < BLOCK_TYPES[here].elements for here, there in FALLBACK.items())
    first = Place("down", 0, 0, 32, 4, 0, seventy=False, falcon=False, imatrix=False)
    assert all(rule.holds(each, first) in {True, False} for rule in RULES for each in rule.file_types)
