"""Vision towers beside Megatron-Core's decoders: where their parameters are, and what images leave behind."""

from __future__ import annotations

import pytest

from memcore import estimate
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.networks.catalog import find_model
from memcore.symbols import product
from memcore.trainers.megatron.networks.converted import as_megatron
from memcore.trainers.megatron.networks.towers import towers_of

TEXT = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 4096,
}  # fmt: skip
VISION = {
    "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2, "in_channels": 3,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 128,
}  # fmt: skip
QWEN2_5 = {
    "model_type": "qwen2_5_vl",
    "text_config": {"model_type": "qwen2_5_vl_text", **TEXT},
    "vision_config": {**VISION, "patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]},
    "tie_word_embeddings": False,
}
QWEN3 = {
    "model_type": "qwen3_vl",
    "text_config": {"model_type": "qwen3_vl_text", **TEXT, "head_dim": 32},
    "vision_config": {**VISION, "patch_size": 16, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
    "tie_word_embeddings": False,
}
LAYER = 16384 + 8192 + 32768 + 16384 + 2 * 128
"""Of two tensor-parallel ranks: queries, keys and values (8·32/2 by 128), projection, both halves of gate and up, down
and norms; biases and the heads' norms come on top."""
STAGE = 512 * 128 + 2 * LAYER
"""The first of two stages: half of the embedding, and two layers."""
BLOCK = 12288 + 192 + 4096 + 64 + 3 * 64 * 96 + 2 * 96 + 64 + 2 * 64
"""qkv, projection, gate, up and down with their biases, two norms."""
WHOLE = 2 * BLOCK + 64 * 3 * 2 * 14 * 14 + 64 + 256 * 256 + 256 + 128 * 256 + 128
"""Blocks, the convolution over patches, and the merger: norm, 4·64 to as many, and to the decoder's width."""
HALVES = 12288 // 2 + 96 + 2048 + 64 + 2 * 64 * 96 // 2 + 48 + 64 + 2 * 128
"""The same with two matrices in a feed-forward layer and norms with biases, of two ranks."""
MERGER = 256 * 256 // 2 + 128 + 128 * 256 // 2 + 128
DIVIDED = 2 * HALVES + 64 * 3 * 2 * 16 * 16 + 64 + 16 * 64 + 2 * MERGER + 2 * 64 + 2 * 256
"""Blocks; convolution, its bias and learned positions, which all ranks have; two mergers behind norms of 64 and 256."""


def job(model, **settings):
    """Two stages of two tensor-parallel ranks, unless said otherwise; `section__name` sets something."""
    found = {
        "model": model,
        "training": {"sequence_length": 64, "micro_batch_size": 1, "images_per_sequence": 0},
        "parallelism": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 1},
        "engine": {"type": "megatron"},
        "hardware": {},
    }
    for key, value in settings.items():
        section, name = key.split("__")
        found[section][name] = value
    return estimate(found)


def elements(rank, rule):
    """Elements of all entries of a rule at the peak."""
    entries = (entry for entry in rank.ledger(rank.peak).entries if entry.rule == rule)
    return sum(entry.copies * product(entry.shape, rank.job.sizes) for entry in entries)


@pytest.mark.parametrize(
    ("model", "first", "framework"),
    [
        # transformers' own module on every rank of the first stage, and biases of queries, keys and values.
        (QWEN2_5, STAGE + 2 * 128 + WHOLE, None),
        (QWEN2_5, STAGE + 2 * 128 + WHOLE, "megatron-bridge"),
        # Layers of Megatron-Core, whose matrices the two ranks share; a norm of 32 for queries and one for keys.
        (QWEN3, STAGE + 2 * 2 * 32 + DIVIDED, "megatron-bridge"),
    ],
)
def test_the_first_stage_has_the_tower(model, first, framework):
    """Parameters, their gradients in fp32, master weights and two moments; the second stage has none of it."""
    found = job(model, engine__framework=framework)
    for rule in ("parameter", "main_gradient", "master_weight", "moment_1", "moment_2"):
        assert elements(found.ranks[0], rule) == first
        # Two layers like those, half of the head, and the final norm.
        assert elements(found.ranks[1], rule) == first - (WHOLE if model is QWEN2_5 else DIVIDED) + 128


def test_parameters_are_those_of_the_checkpoint():
    """What is fused holds what was separate."""
    for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-30B-A3B-Instruct"):
        model = find_model(name)
        assert as_megatron(model, towers_of("Megatron Bridge")).parameters == model.parameters


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        # Where features are put among words; with DeepStack where they are added once more, besides.
        ("OpenGVLab/InternVL3-1B-hf", 512),
        (QWEN2_5, 512),
        (QWEN3, 2 * 512),
    ],
)
def test_a_frozen_tower_leaves_masks(model, kept):
    """ms-swift has transformers' towers for all families."""
    settings = {"training__sequence_length": 512, "engine__framework": "ms-swift"}
    image = {"training__images_per_sequence": 1}
    image |= {} if isinstance(model, str) else {"training__image_size": 112}
    without, seen = (job(model, **settings, **more).ranks for more in ({}, image))
    assert seen[0].recorded[0].kept - without[0].recorded[0].kept == kept


def test_a_projector_alone_learns():
    """As in Megatron Bridge's pre-training recipes: the rest has parameters only, on all stages."""
    image = {"training__images_per_sequence": 1, "training__image_size": 112}
    first, last = job(QWEN2_5, training__trainable=["projector"], **image).ranks
    assert elements(first, "parameter") == STAGE + 2 * 128 + WHOLE
    for rule in ("main_gradient", "master_weight", "moment_1"):
        assert elements(first, rule) == WHOLE - 2 * BLOCK - 64 * 3 * 2 * 14 * 14
        assert elements(last, rule) == 0
    with pytest.raises(ConfigError, match="a text-only step uses no trainable parameters"):
        job(QWEN2_5, training__trainable=["projector"])


def test_ms_swift_freezes_towers():
    """Their parameters alone are there; all that an optimizer needs is there for the rest."""
    found = job(QWEN2_5, engine__framework="ms-swift")
    assert elements(found.ranks[0], "parameter") == STAGE + 2 * 128 + WHOLE
    assert elements(found.ranks[0], "moment_1") == STAGE + 2 * 128
    named = job(QWEN2_5, engine__framework="ms-swift", training__trainable="all")
    assert elements(named.ranks[0], "moment_1") == STAGE + 2 * 128 + WHOLE


WINDOWS = 4 * (2048 + 512 + 2 * 512)
"""Results, log-sum-exps and random states of four windows of 16 patches."""
FULL = 8192 + 1024 + 2 * 512
"""The same of all 64 at once."""
NORM = 16384 + 512 + 2 * 8192
"""In fp32, its reciprocal root, back in bf16, times the weight."""
KEPT = (
    64 * 3 * 2 * 14 * 14 * 2
    + 2 * 64 * 16 * 4
    + 2 * (2 * NORM + 24576 + 2 * 8192 + 8192 + 4 * 12288)
    + (WINDOWS + FULL)
    + (NORM + 2 * 8192)
    + 512
)
"""Of an image of 64 patches of 64 numbers: pixels in bf16; cosines and sines in fp32; blocks: norms, qkv, turned queries
and keys, attention's result joined, gate, its activation, up and their product; attention; merger; the mask."""


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, KEPT),
        ({"engine__framework": "ms-swift", "training__trainable": "all", "training__attention": "cudnn"}, None),
        # A frozen tower leaves what the decoder is given, which it is given without images too, and the mask.
        ({"engine__framework": "ms-swift"}, 512),
        # Transformers' module knows nothing of Megatron's recomputation; the decoder keeps its inputs alone.
        ({"training__activation_checkpointing": {"policy": "full"}}, KEPT),
        ({"parallelism__sequence_parallel": True}, KEPT),
    ],
)
def test_what_an_image_leaves(settings, kept):
    """Bytes from the forward to the backward pass, beside those of text alone."""
    image = {"training__images_per_sequence": 1, "training__image_size": 112}
    if kept is None:
        with pytest.raises(UnsupportedError, match="checkpoints"):
            job(QWEN2_5, **image, **settings)
        return
    without, seen = (job(QWEN2_5, **settings, **more).ranks for more in ({}, image))
    assert seen[0].recorded[0].kept - without[0].recorded[0].kept == kept
    assert seen[1].recorded[0].kept == without[1].recorded[0].kept


BLOCK_KEPT = 2 * (8192 + 2 * 512) + 4 * 4096 + 3 * 4096 + (4096 + 3 * 512) + 2 * 6144 + 2 * 8192
"""Of 64 patches of 64 numbers, with two ranks: both norms' results and statistics; cosines and sines of queries and keys in
fp32; queries, keys and values; attention; the activation's input and result; both sums."""
MERGER_KEPT = 8192 + 2 * 512 + 2 * 4096
"""A norm's result and statistics; the activation's input and result."""
QWEN3_KEPT = 64 * 3 * 2 * 16 * 16 * 2 + (2048 + 512 + 8192) + 2 * BLOCK_KEPT + 2 * MERGER_KEPT + 512
"""Pixels in bf16; indices and weights of four neighbours, and patches with positions; blocks, mergers, the mask."""
RECOMPUTED = QWEN3_KEPT - 2 * BLOCK_KEPT - MERGER_KEPT + 8192 + 4096 + 8192 + 16 * 128 * 2
"""Blocks and the inner layer's merger keep their inputs alone, which the second block and that merger share, and the
angles; the last merger keeps its input and all else; the decoder's first layer keeps the 16 features that it adds."""


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, QWEN3_KEPT),
        # In the tower attention runs again, whatever is named: its statistics are not kept, its result is one's input.
        ({"training__activation_checkpointing": {"policy": "selective", "modules": ["mlp"]}}, QWEN3_KEPT - 2 * 1536),
        ({"training__activation_checkpointing": {"policy": "full"}}, RECOMPUTED),
        # Each context-parallel rank runs the tower over all images, and keeps the mask of its own tokens besides.
        ({"parallelism__context_parallel_size": 2}, QWEN3_KEPT + 512),
    ],
)
def test_what_an_image_leaves_in_a_shared_tower(settings, kept):
    """Bytes from the forward to the backward pass, beside those of text alone."""
    image = {"training__images_per_sequence": 1, "training__image_size": 128}
    without, seen = (job(QWEN3, **settings, **more).ranks for more in ({}, image))
    assert seen[0].recorded[0].kept - without[0].recorded[0].kept == kept
    assert seen[1].recorded[0].kept == without[1].recorded[0].kept


@pytest.mark.parametrize(
    ("model", "settings", "match"),
    [
        (QWEN3, {"parallelism__pipeline_layout": "E|tttt|L", "parallelism__pipeline_parallel_size": 3}, "first chunk"),
        (QWEN3, {"training__adapter": {"type": "lora"}}, "adapters would also reach"),
        (QWEN3, {"training__images_per_sequence": 1, "training__attention": "math"}, "vision tower"),
        (QWEN2_5, {"parallelism__context_parallel_size": 2}, "does not split sequences"),
        (
            QWEN2_5,
            {"training__images_per_sequence": 1, "parallelism__context_parallel_size": 2}
            | {"engine__framework": "ms-swift"},
            "context parallelism",
        ),
        (QWEN2_5, {"engine__cuda_graph_impl": "local"}, "CUDA graphs"),
        ("llava-hf/llava-1.5-7b-hf", {}, "towers of family 'llava'"),
    ],
)
def test_what_is_not_modelled_is_refused(model, settings, match):
    """By name."""
    with pytest.raises(MemcoreError, match=match):
        job(model, training__image_size=112, **settings)
