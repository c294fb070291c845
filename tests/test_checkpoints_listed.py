"""A checkpoint's index and header: whose tensors they list, said as an assumption, and what they are checked for."""

import json
import struct
from dataclasses import replace

import pytest

from memcore import estimate
from memcore.errors import ConfigError
from memcore.faces.cli import main
from memcore.formats.gguf import TYPES
from memcore.networks.catalog import catalog, find_model
from memcore.servers.llamacpp.gguf import gguf_file
from memcore.tools.checkpoints import checkpoint_of, nearest_of_catalog
from memcore.tools.sources import Source, read_sources, source_of

LAYERS = 28
NAMES = {f"model.layers.{at}.mlp.up_proj.weight": "model-00001-of-00002.safetensors" for at in range(LAYERS)}
NAMES |= {"model.visual.blocks.40.norm1.weight": "model-00002-of-00002.safetensors"}
PARAMETERS = catalog()["Qwen/Qwen3-0.6B"]["parameters"]


def index(**metadata):
    """An index whose tensors' names are of Qwen3-0.6B's layers."""
    return json.dumps({"metadata": metadata, "weight_map": NAMES})


@pytest.mark.parametrize(
    "said",
    [
        {"total_size": 2 * PARAMETERS},
        {"total_size": 4.0 * PARAMETERS},
        {"total_size": 2 * PARAMETERS + 4096},
        {"total_parameters": PARAMETERS, "total_size": 1},
    ],
)
def test_an_index_is_of_a_model(said):
    config, notes = read_sources([Source("model.safetensors.index.json", index(**said))])
    assert config == {"model": "Qwen/Qwen3-0.6B"}
    assert "which is assumed" in notes[0]


@pytest.mark.parametrize("said", [{}, {"total_size": 0}, {"total_size": 3 * PARAMETERS}, {"total_size": "many"}])
def test_tensors_of_nobody_are_asked_about(said):
    with pytest.raises(ConfigError, match="lists 29 tensors of .* add its config.json"):
        read_sources([Source("model.safetensors.index.json", index(**said))])
    config, notes = read_sources([Source("model.safetensors.index.json", index(**said))], given=["model"])
    assert config == {}
    assert notes[0].startswith("lists 29 tensors")


def test_the_number_of_layers_counts():
    wrong = index(total_size=2 * PARAMETERS).replace("layers.27.", "layers.30.")
    assert nearest_of_catalog(checkpoint_of(json.loads(wrong))) is None


HEADER = {
    "__metadata__": {"format": "pt"},
    "model.embed_tokens.weight": {"dtype": "BF16", "shape": [PARAMETERS - LAYERS, 1], "data_offsets": [0, 0]},
    **{f"model.layers.{at}.n": {"dtype": "F32", "shape": [1], "data_offsets": [0, 0]} for at in range(LAYERS)},
}


def test_a_header_has_exact_bytes():
    found = checkpoint_of(HEADER)
    assert found.parameters == PARAMETERS
    assert found.bytes == 2 * (PARAMETERS - LAYERS) + 4 * LAYERS
    assert found.dtypes == {"BF16": 2 * (PARAMETERS - LAYERS), "F32": 4 * LAYERS}
    assert nearest_of_catalog(found)[0] == "Qwen/Qwen3-0.6B"


def test_only_the_header_of_a_file_is_read(tmp_path, capsys):
    text = json.dumps(HEADER).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"\xff" * 64)
    assert main(["estimate", str(file), "--seq", "512", "--json"]) == 0
    file.write_bytes(b"\xff" * 64)
    assert main(["estimate", str(file)]) == 2
    assert "is not a safetensors file" in capsys.readouterr().err
    file.write_bytes(b"\xff" * 8 + b"{}")
    assert main(["estimate", str(file)]) == 2
    assert "has a header longer than" in capsys.readouterr().err


@pytest.mark.parametrize("found", [{}, {"a": {"dtype": "BF16"}}, {"weight_map": []}, {"a": 1}])
def test_other_objects_are_no_checkpoints(found):
    assert checkpoint_of(found) is None


MODULES = json.dumps([{"idx": 0, "type": "sentence_transformers.models.Transformer"},
                      {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])  # fmt: skip
POOLING = json.dumps({"word_embedding_dimension": 8, "pooling_mode_lasttoken": True})
TINY = {"model_type": "qwen3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4}
TINY |= {"num_key_value_heads": 2, "intermediate_size": 8, "vocab_size": 32, "tie_word_embeddings": False}


@pytest.mark.parametrize("text", [MODULES, POOLING])
def test_a_model_that_is_pooled_has_no_head_for_words(text):
    """Qwen3-Embedding's config.json names a class with one; sentence-transformers and vLLM load none."""
    model = Source("config.json", json.dumps({**TINY, "architectures": ["Qwen3ForCausalLM"]}))
    config, notes = read_sources([model, Source("pooling.json", text)])
    assert config["model"]["architectures"] == ["Qwen3Model"]
    assert "read without a language-model head" in notes[0]
    whole = find_model(read_sources([model])[0]["model"])
    assert whole.parameters - find_model(config["model"]).parameters == 8 * 32


def test_a_head_for_scores_stays():
    model = {**TINY, "architectures": ["Qwen3ForSequenceClassification"]}
    config, _ = read_sources([Source("config.json", json.dumps(model)), Source("modules.json", MODULES)])
    assert config["model"]["architectures"] == model["architectures"]


def test_what_pools_a_model_is_not_the_model():
    with pytest.raises(ConfigError, match="add the config.json of the same folder"):
        read_sources([Source("1_Pooling/config.json", POOLING)])


def of_gguf(keys, tensors):
    """The header of a GGUF file as its writer has it (ggml, docs/gguf.md): texts, numbers and lists of texts."""

    def text(each):
        return struct.pack("<Q", len(each)) + each.encode()

    def value(each):
        if isinstance(each, list):
            return struct.pack("<IIQ", 9, 8, len(each)) + b"".join(map(text, each))
        return struct.pack("<I", 8) + text(each) if isinstance(each, str) else struct.pack("<II", 4, each)

    found = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    found += b"".join(text(name) + value(each) for name, each in keys.items())
    ids = {name: number for number, name in TYPES.items()}
    for each in tensors:
        found += text(each.name) + struct.pack(f"<I{len(each.shape)}Q", len(each.shape), *reversed(each.shape))
        found += struct.pack("<IQ", ids[each.type], 0)
    return found


@pytest.mark.parametrize(
    ("model", "form", "keys"),
    [
        ("Qwen/Qwen3-0.6B", ("q4_k_m", 15), {"general.name": "Qwen3 0.6B", "general.architecture": "qwen3", "qwen3.block_count": 28}),
        ("google/gemma-3-4b-it", ("q8_0", 7), {
            "general.basename": "gemma-3", "general.size_label": "4b", "general.finetune": "it",
            "general.architecture": "gemma3", "gemma3.block_count": 34}),
        ("meta-llama/Llama-3.2-3B", ("f16", 1), {
            "general.name": "My Tune", "general.architecture": "llama", "llama.block_count": 28}),
    ],
)  # fmt: skip
def test_a_gguf_file_says_its_model_and_its_format(tmp_path, model, form, keys):
    """By its name if it has such tensors, else by their number; all bytes of its tensors are those of its type."""
    tensors = gguf_file(find_model(model), form[0])
    file = tmp_path / "a.gguf"
    file.write_bytes(of_gguf({**keys, "general.file_type": form[1], "tokenizer.ggml.tokens": ["a"] * 9}, tensors))
    config, notes = read_sources([source_of(str(file))])
    assert config == {"model": model, "inference": {"quantization": form[0]}, "engine": {"type": "llama.cpp"}}
    assert f"{sum(each.bytes for each in tensors):,} bytes" in notes[0]


WIDER = {
    "token_embd.weight": "Q8_0",
    "blk.2.ffn_down.weight": "F16",
    "blk.3.ffn_down.weight": "F16",
    "blk.5.ffn_down.weight": "F16",
}


@pytest.mark.parametrize(
    ("described", "said"),
    [(False, "token_embd=q8_0,blk.2-3+5.ffn_down=f16"), (True, "attn_output=q4_k,")],
)
def test_a_gguf_files_own_types_decide(tmp_path, described, said):
    """Where they are not its file type's, as in files of mixed types, the weights take the file's bytes."""
    model = "Qwen/Qwen3-0.6B"
    tensors = [replace(each, type=WIDER.get(each.name, each.type)) for each in gguf_file(find_model(model), "Q4_K_M")]
    keys = {
        "general.name": "Mine" if described else "Qwen3 0.6B",
        "general.file_type": 15,
        "general.architecture": "qwen3",
        "qwen3.block_count": 28,
    }
    file, config = tmp_path / "a.gguf", tmp_path / "config.json"
    file.write_bytes(of_gguf(keys, tensors))
    config.write_text(json.dumps(catalog()[model]["config"]))
    read, _ = read_sources([source_of(str(each)) for each in ([config, file] if described else [file])])
    assert said in read["engine"]["tensor_types"]
    found = estimate(
        read | {"hardware": {"accelerator": "rtx-4090"}, "inference": {**read["inference"], "max_model_len": 512}}
    )
    kept = found.ledger.sum("weights") + found.budget.host.sum("weights")
    assert kept - sum(each.bytes for each in tensors) in (0, tensors[0].bytes)  # the head is the embedding, held twice


@pytest.mark.parametrize(
    ("held", "said"),
    [(b"GGUF", "it ends early"), (b"GGUF\0\0\0\3" + bytes(16), "version"), (b"\x89PNG", "is not a GGUF file")],
)
def test_what_is_no_gguf_file_says_so(tmp_path, held, said):
    file = tmp_path / "a.gguf"
    file.write_bytes(held)
    with pytest.raises(ConfigError, match=said):
        source_of(str(file))
