"""Weight formats: bytes of matrices by hand, of whole checkpoints, and what checkpoints say about themselves."""

from fractions import Fraction

import pytest

from memcore import Config, ConfigError, estimate
from memcore.errors import UnsupportedError
from memcore.networks.catalog import find_model
from memcore.serving.blocks import block
from memcore.serving.checkpoint import Stored, own_dtype, own_format
from memcore.serving.formats import FORMATS
from memcore.serving.stages import Layout, stages
from memcore.serving.weights import Storage, weight_entries
from memcore.units import MiB


def stored(name, rows, columns):
    """Bytes of a matrix and everything beside it."""
    return sum(count * itemsize for _, count, itemsize in FORMATS[name].stored(rows, columns))


@pytest.mark.parametrize(
    ("said", "kind", "module", "expected"),
    [
        ({}, "attention", "model.layers.0.self_attn.q_proj", 256 * 512 // 2 + 2 * (256 + 512)),
        ({"bits": 3.5}, "feed-forward", "model.layers.0.mlp.up_proj", 256 * 512 * 7 // 16 + 2 * (256 + 512)),
        ({}, "head", "lm_head", 256 * 512 * 6 // 8 + 2 * (256 + 512)),
        ({"tensor_storage": {"model.layers.1.mlp.up_proj": {"quant_format": "exl3", "bits_per_weight": 5}}},
         "feed-forward", "model.layers.1.mlp.up_proj", 256 * 512 * 5 // 8 + 2 * (256 + 512)),
        ({}, "embedding", "model.embed_tokens", None),
    ],
)  # fmt: skip
def test_trellises_of_exllama(said, kind, module, expected):
    """EXL3: as many bits as the file says, those of single modules and of the head too."""
    given = own_format({"quantization_config": {"quant_method": "exl3", "bits": 4.0, "head_bits": 6, **said}})
    found = given.format_of(kind, [module])
    assert (found and sum(count * size for _, count, size in found.stored(256, 512))) == expected


def test_who_loads_exl3():
    """The bits have to be there; servers that do not load it say so."""
    llama = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 512, "tie_word_embeddings": False,
             "quantization_config": {"quant_method": "exl3", "bits": 4, "head_bits": 6}}  # fmt: skip
    for engine in ("vllm", "sglang", "llama.cpp", "tgi"):
        with pytest.raises(
            UnsupportedError, match="found exl3, which .* does not load; TabbyAPI and ExLlamaV3 load it"
        ):
            estimate(Config.from_dict({"model": llama, "engine": {"type": engine}}))
    assert estimate(Config.from_dict({"model": llama, "engine": {"type": "transformers"}})).ledger.sum("weights")
    tied = {**llama, "tie_word_embeddings": True}
    with pytest.raises(UnsupportedError, match="EXL3 with tied embeddings"):
        estimate(Config.from_dict({"model": tied, "engine": {"type": "transformers"}}))
    with pytest.raises(ConfigError, match="expected a number from 1 to 8, found None"):
        own_format({"quantization_config": {"quant_method": "exl3"}})


@pytest.mark.parametrize(
    ("name", "rows", "columns", "expected"),
    [
        ("fp8", 256, 512, 256 * 512 + 4),
        ("fp8-channel", 256, 512, 256 * 512 + 256 * 4),
        ("fp8-block", 256, 512, 256 * 512 + 2 * 4 * 4),
        ("fp8-block", 129, 130, 129 * 130 + 2 * 2 * 4),
        ("int8", 256, 512, 256 * 512 + 256 * 4),
        ("int4", 256, 512, 256 * 512 // 2 + 256 * 4 * 2),
        ("awq", 256, 512, 256 * 512 // 2 + 256 * 4 * 2 + 256 * 4 // 2),
        ("gptq", 256, 512, 256 * 512 // 2 + 256 * 4 * 2 + 256 * 4 // 2),
        ("nf4", 256, 512, 256 * 512 // 2 + 256 * 512 // 64 * 4),
        ("nf4-double", 256, 512, 256 * 512 // 2 + 256 * 512 // 64 + 256 * 512 // (64 * 256) * 4),
        ("mxfp4", 256, 512, 256 * 512 // 2 + 256 * 512 // 32),
        ("nvfp4", 256, 512, 256 * 512 // 2 + 256 * 512 // 16 + 4),
    ],
)
def test_a_matrix_by_hand(name, rows, columns, expected):
    """A matrix takes its elements, and its scales, zero points and nested scales."""
    assert stored(name, rows, columns) == expected


def test_other_group_sizes():
    """A smaller group has more scales; one that is not positive is a whole row."""
    fine = FORMATS["awq"].with_groups(32)
    assert sum(count * size for _, count, size in fine.stored(1, 1024)) == 512 + 32 * 2 + Fraction(32, 2)
    row = FORMATS["int4"].with_groups(-1)
    assert sum(count * size for _, count, size in row.stored(4, 1024)) == 4 * 512 + 4 * 2


def checkpoint(name, chosen):
    """Bytes of a checkpoint whose matrices have a format."""
    model = find_model(name)
    (stage,) = stages(model, 1)
    held = Stored(format=FORMATS[chosen], method=chosen)
    storage = Storage(dtype="bf16", stored=held, sizes={**model.sizes, **Layout().symbols}, as_stored=True)
    return sum(entry.bytes for entry in weight_entries(model, stage, storage))


@pytest.mark.parametrize(
    ("name", "chosen", "expected", "tolerance"),
    [
        ("gpt-oss-20b", "mxfp4", 13_761_264_768, 0),
        ("gpt-oss-120b", "mxfp4", 65_248_815_744, 0),
        ("llama-2-7b-hf", "awq", 3.889e9, 2e-4),
        ("llama-3.1-8b", "awq", 5.728e9, 2e-4),
        ("llama-3.1-70b", "awq", 39.77e9, 2e-4),
        ("qwen2.5-7b", "awq", 5.571e9, 2e-4),
    ],
)
def test_whole_checkpoints(name, chosen, expected, tolerance):
    """Published files: gpt-oss to the byte, AWQ files to the digits that are published."""
    assert checkpoint(name, chosen) == pytest.approx(expected, rel=tolerance, abs=0)


def test_unquantized_weights_are_all_parameters():
    """Without a format every parameter is there once, tied heads too."""
    for name in ("gpt2", "llama-3.2-1b", "qwen3-30b-a3b", "deepseek-v2-lite", "mamba-130m-hf"):
        model = find_model(name)
        (stage,) = stages(model, 1)
        storage = Storage(dtype="bf16", sizes={**model.sizes, **Layout().symbols}, as_stored=True)
        entries = [entry for entry in weight_entries(model, stage, storage) if "correction" not in entry.module]
        assert sum(entry.bytes for entry in entries) == 2 * model.parameters


def _quark(**weight):
    """What Quark writes of one scheme for all matrices."""
    return {"quant_method": "quark", "global_quant_config": {"weight": weight}, "layer_quant_config": {}}


@pytest.mark.parametrize(
    ("config", "name", "groups"),
    [
        (_quark(dtype="fp8_e4m3", qscheme="per_tensor"), "fp8", None),
        (_quark(dtype="fp8_e4m3", qscheme="per_channel"), "fp8-channel", None),
        (_quark(dtype="fp4", qscheme="per_group", group_size=32), "mxfp4", None),
        (_quark(dtype="fp4", qscheme="per_group", group_size=16), "nvfp4", None),
        (_quark(dtype="uint4", qscheme="per_group", group_size=64, symmetric=False), "awq", 64),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", None),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", None),
        ({"quant_method": "fbgemm_fp8"}, "fp8-channel", None),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq", 64),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq", 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "w8a16", 32),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4-double", None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", None),
        ({"quant_method": "mxfp4"}, "mxfp4", None),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4", None),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}
                },
            },
            "int4",
            128,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                        "input_activations": {"num_bits": 8, "dynamic": True},
                    }
                },
            },
            "fp8-channel",
            None,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_checkpoint_says(config, name, groups):
    """`quantization_config` is read as vLLM and transformers read it."""
    found = own_format({"model_type": "llama", "quantization_config": config})
    assert found.format.name == name
    if groups:
        assert {each.columns for each in found.format.qparams if each.grouped} == {groups}


def test_an_unknown_method_is_refused():
    """A method that is not known is named, with those that are."""
    with pytest.raises(ConfigError, match=r"found 'magic'; known: fp8, fbgemm_fp8, awq"):
        own_format({"quantization_config": {"quant_method": "magic"}})
    with pytest.raises(ConfigError, match="found fp6_e3m2 per_group; known: fp8_e4m3 per_tensor"):
        own_format({"quantization_config": _quark(dtype="fp6_e3m2", qscheme="per_group")})


def test_layers_may_have_a_scheme_of_their_own():
    """Quark names them with stars; without one for all, others stay as they are."""
    own = {"*experts*": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}}}
    found = own_format({"quantization_config": {"quant_method": "quark", "layer_quant_config": own}})
    assert found.format_of("routed-expert", ["model.layers.0.mlp.experts.0.up_proj"]).name == "mxfp4"
    assert found.format_of("attention", ["model.layers.0.self_attn.q_proj"]) is None


@pytest.mark.parametrize(
    ("ignored", "module", "left"),
    [
        (("lm_head",), "lm_head", True),
        (("model.layers.0.self_attn",), "model.layers.0.self_attn.q_proj", True),
        (("model.layers.0.self_attn",), "model.layers.10.self_attn.q_proj", False),
        (("re:.*mlp.gate$",), "model.layers.3.mlp.gate", True),
        (("re:vision_tower.*",), "model.layers.3.mlp.gate", False),
        (("model.layers.*.mlp",), "model.layers.7.mlp.down_proj", True),
        (("layers.0",), "model.layers.0.mlp.down_proj", True),
    ],
)
def test_modules_that_are_left_alone(ignored, module, left):
    """Names, parts of names, patterns and wildcards."""
    assert Stored(format=FORMATS["fp8"], method="fp8", ignored=ignored).leaves(module) is left


def test_layers_that_are_left_alone():
    """A checkpoint that leaves one layer's attention alone is larger by half of its elements."""
    model = find_model("llama-3.2-1b")
    (stage,) = stages(model, 1)

    def size(*ignored):
        held = Stored(format=FORMATS["fp8-channel"], method="fp8", ignored=ignored)
        storage = Storage(dtype="bf16", stored=held, sizes={**model.sizes, **Layout().symbols}, as_stored=True)
        return sum(entry.bytes for entry in weight_entries(model, stage, storage))

    rows, columns = 2048 + 512 + 512, 2048
    attention = rows * columns + 2048 * 2048
    assert size("model.layers.3.self_attn") - size() == attention - 4 * (rows + 2048)


def test_the_dtype_of_a_checkpoint():
    """`dtype` or `torch_dtype`, on top or of the language model."""
    assert own_dtype({"torch_dtype": "float16"}) == "fp16"
    assert own_dtype({"text_config": {"dtype": "bfloat16"}}) == "bf16"
    assert own_dtype({}) is None


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, 512),
        (513, 1024),
        (3 * MiB, 3 * MiB),
        (31 * MiB + MiB // 2, 32 * MiB),
        (24 * MiB + MiB // 2, 24 * MiB + MiB // 2),
    ],
)
def test_blocks_of_the_allocator(size, expected):
    """Segments of at least 10 MiB are multiples of 2 MiB, and a rest of at most 1 MiB is not split off."""
    assert block(size) == expected
