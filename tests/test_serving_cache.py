"""Caches: bytes of tokens and states by hand, blocks and groups of vLLM, and room for users."""

import pytest

from memcore.networks.catalog import find_model
from memcore.servers.vllm.compressed import compressed, kernel_heads
from memcore.servers.vllm.paging import Pages, grain, page
from memcore.serving.cache import CACHE_TYPES, CacheSpec, Caching, cache_specs, per_token
from memcore.serving.stages import Layout, stages, vllm_partition


def caching(model, cache="bf16", tensor=1, **more):
    """How a server caches a model."""
    fields = {"state_dtype": "bf16", "window": model.window or 0, "chunk": 8192, **more}
    sizes = {**model.sizes, **Layout(tensor=tensor).symbols}
    return Caching(type=CACHE_TYPES[cache], dtype="bf16", sizes=sizes, **fields)


@pytest.mark.parametrize(
    ("name", "cache", "tensor", "expected"),
    [
        ("llama-2-7b-hf", "bf16", 1, 2 * 32 * 32 * 128 * 2),
        ("llama-3.1-8b", "bf16", 1, 2 * 32 * 8 * 128 * 2),
        ("llama-3.1-8b", "fp32", 1, 2 * 32 * 8 * 128 * 4),
        ("llama-3.1-8b", "fp8", 1, 2 * 32 * 8 * 128),
        ("llama-3.1-8b", "int8", 1, 2 * 32 * 8 * (128 + 4)),
        ("llama-3.1-8b", "int4", 1, 2 * 32 * 8 * (64 + 4)),
        ("llama-3.1-8b", "q8_0", 1, 2 * 32 * 8 * 128 * 34 // 32),
        ("llama-3.1-8b", "q4_0", 1, 2 * 32 * 8 * 128 * 18 // 32),
        ("llama-3.1-8b", "bf16", 4, 2 * 32 * 2 * 128 * 2),
        ("llama-3.1-8b", "bf16", 8, 2 * 32 * 1 * 128 * 2),
        ("llama-3.1-8b", "bf16", 16, 2 * 32 * 1 * 128 * 2),
        ("qwen3-30b-a3b", "bf16", 1, 49_152 * 2),
        ("deepseek-v3", "bf16", 1, 35_136 * 2),
        ("deepseek-v3", "bf16", 8, 35_136 * 2),
        ("deepseek-v3", "fp8_ds_mla", 8, 61 * 656),
        ("deepseek-v2-lite", "bf16", 1, 15_552 * 2),
        ("falcon-40b", "bf16", 1, 61_440 * 2),
        ("gpt2", "fp32", 1, 2 * 12 * 768 * 4),
    ],
)
def test_bytes_of_a_token(name, cache, tensor, expected):
    """Two for each key head and its width; one latent vector that every rank holds; a rank has one head at least."""
    model = find_model(name)
    assert per_token(model, caching(model, cache, tensor)) == expected


def test_indexers_cache_too():
    """DeepSeek's sparse attention keeps an fp8 key of 128 and a scale beside the latent vector."""
    model = find_model("deepseek-v3.2-exp")
    assert per_token(model, caching(model)) == 61 * (576 * 2 + 132)


def test_an_indexer_that_pools_has_a_key_for_several_tokens():
    """GLM-5.3-Flash: 132 bytes for four tokens in 11 of 45 layers, whose latent vectors have no rotated part."""
    model = find_model("glm-5.3-flash")
    assert per_token(model, caching(model)) == 11 * (512 * 2 + 132 // 4)


def test_indexers_next_to_heads_cache_too():
    """MiniMax-M3's keep a key of 128 in 16 bits in 57 of 60 layers, whole on every rank."""
    model = find_model("minimax-m3")
    assert per_token(model, caching(model, "bf16", 2)) == 60 * 2 * 2 * 128 * 2 + 57 * 128 * 2


def per_sequence(model, caching):
    """Bytes of the recurrent states of one sequence."""
    layers = [(cache_specs(layer, caching), count) for layer, count in model.layers]
    return sum(count * each.bytes for own, count in layers for each in own if each.kind == "state")


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("mamba-130m-hf", 1, 24 * 1536 * (16 + 3) * 2),
        ("mamba-130m-hf", 2, 24 * 768 * (16 + 3) * 2),
        ("qwen3-next-80b-a3b-instruct", 1, 36 * (32 * 128 * 128 + (2 * 2048 + 4096) * 3) * 2),
        ("kimi-linear-48b-a3b-base", 1, 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2)),
    ],
)
def test_bytes_of_a_state(name, tensor, expected):
    """Convolutions keep all but one of the tokens that they see; Kimi's states are in fp32."""
    model = find_model(name)
    assert per_sequence(model, caching(model, tensor=tensor)) == expected


def test_states_in_fp32():
    """The dtype of states is the server's choice, that of convolutions is not."""
    model = find_model("mamba-130m-hf")
    half, full = (per_sequence(model, caching(model, state_dtype=each)) for each in ("bf16", "fp32"))
    assert full - half == 24 * 1536 * 16 * 2


def paged(model, stage_count=1, **pages):
    """The groups of each stage of a model."""
    own = caching(model)
    fields = {"block_size": 16, "max_model_len": 8192, "in_flight": 8192, **pages}
    return [
        page([cache_specs(layer, own) for layer in stage.layers], Pages(**fields))
        for stage in stages(model, stage_count)
    ]


def test_one_kind_of_layer_is_one_group():
    """A plain decoder has one group, and a block holds 16 tokens of all layers."""
    (found,) = paged(find_model("llama-3.1-8b"))
    assert [(group.layers, group.spec.kind) for group in found.groups] == [(32, "full")]
    assert found.block == 16 * 131_072
    assert (found.needed(1), found.needed(16), found.needed(17)) == (1, 1, 2)


def test_two_kinds_share_a_pool():
    """gpt-oss: 12 layers see everything and 12 a window of 128; a group of each."""
    (found,) = paged(find_model("gpt-oss-20b"))
    assert [(group.layers, group.spec.kind) for group in found.groups] == [(12, "sliding"), (12, "full")]
    assert found.block == 12 * 16 * 2 * 8 * 64 * 2
    # 8192 tokens everywhere, and 127 + 8192, cut at the length, in the window, which may begin inside a block.
    assert found.needed(8192) == 512 + 512 + 1
    (long,) = paged(find_model("gpt-oss-20b"), in_flight=2048, max_model_len=131_072)
    assert long.needed(131_072) == 8192 + -(-(127 + 2048) // 16) + 1


def test_groups_are_as_large_as_the_rarest_kind():
    """Gemma 3 27B: 10 layers see everything, 52 a window: one group and six, the last of which is padded."""
    (found,) = paged(find_model("gemma-3-27b-it"))
    assert sorted(group.layers for group in found.groups if group.spec.kind == "sliding") == [8, 8, 9, 9, 9, 9]
    assert [group.layers for group in found.groups if group.spec.kind == "full"] == [10]


def test_without_the_hybrid_manager_windows_cache_everything():
    """Layers with windows count as if they saw everything, and are one group with those that do."""
    (found,) = paged(find_model("gpt-oss-20b"), hybrid=False)
    assert [(group.layers, group.spec.kind) for group in found.groups] == [(24, "full")]


def test_pages_grow_until_they_hold_a_state():
    """Beside states blocks become multiples of 16 tokens, and states are padded to a page."""
    model = find_model("qwen3-next-80b-a3b-instruct")
    (found,) = paged(model)
    state = (32 * 128 * 128 + (2 * 2048 + 4096) * 3) * 2
    token = 2 * 2 * 256 * 2
    size = 16 * -(-state // (16 * token))
    pages = {group.spec.page for group in found.groups}
    assert pages == {size * token}
    assert {group.spec.block_size for group in found.groups if group.spec.kind == "full"} == {size}
    assert found.needed(1) == found.needed(size) == len(found.groups)


def test_different_widths_are_unified():
    """Kinds with other widths get longer blocks, so that a page is as large everywhere."""
    wide = CacheSpec(kind="full", bytes=4096)
    narrow = CacheSpec(kind="sliding", bytes=1024, window=128)
    found = page([[wide], [narrow]], Pages(block_size=16, max_model_len=1024, in_flight=1024))
    assert {(group.spec.kind, group.spec.block_size, group.spec.page) for group in found.groups} == {
        ("full", 16, 65_536),
        ("sliding", 64, 65_536),
    }


def test_nothing_to_cache():
    """A model without attention and states has no groups."""
    found = page([], Pages(block_size=16, max_model_len=1024, in_flight=1024))
    assert (found.groups, found.count(10**9), found.block_size) == ((), 0, 1)


@pytest.mark.parametrize(
    ("layers", "count", "expected"),
    [(32, 1, (32,)), (32, 4, (8, 8, 8, 8)), (30, 4, (7, 8, 8, 7)), (31, 4, (8, 8, 8, 7)), (61, 2, (31, 30))],
)
def test_stages_of_a_pipeline(layers, count, expected):
    """What is left over goes to stages from the last but one backwards."""
    assert vllm_partition(layers, count) == expected


FLASH = [0, 0, *(4 if number % 2 == 0 else 128 for number in range(41))]
"""DeepSeek-V4-Flash: two layers with a window alone, then tokens of 4 and of 128 become one in turns."""


@pytest.mark.parametrize(
    ("packed", "block", "needed", "logged"),
    [
        # 22 places of 64 vectors of 584 bytes, 21 of the indexer's 64 keys of 132, 20 of 2 vectors, in pages of 576 bytes
        (True, 22 * 37440 + 21 * 8640 + 20 * 1728, 1024 + 2 * 131 + 2051 + 1041, 3993),
        (False, 22 * 65536 + 21 * 8640 + 20 * 2048, 1024 + 2 * 131 + 2051 + 1041, None),
    ],
)
def test_compressed_layers_by_hand(packed, block, needed, logged):
    """A log of DeepSeek-V4-Flash has 2,175,276 tokens of 262,144 at most: 33,134 blocks, 3,993 for a sequence."""
    pages = Pages(block_size=64, max_model_len=262144, in_flight=8192)
    found = compressed(FLASH, {"head": 512, "index": 128, "window": 128}, pages, packed=packed)
    assert found.block == block
    assert found.needed(262144) == needed
    assert found.block_size == 256
    if logged is not None:
        assert found.logged(262144) == logged
        assert int(33134 / logged * 262144) == 2175276


@pytest.mark.parametrize(
    ("heads", "major", "written"), [(8, 9, 64), (65, 10, 128), (8, 12, 16), (32, 12, 32), (129, 9, 129)]
)
def test_heads_for_which_a_kernel_is_written(heads, major, written):
    """FlashMLA's take 64 or 128, FlashInfer's of an RTX PRO 6000 16 and 32 as well."""
    assert kernel_heads(heads, major) == written


@pytest.mark.parametrize(
    ("since", "asked", "latent", "tokens"),
    [
        ((0, 19), 128, False, 16),
        ((0, 20), 128, False, 128),
        ((0, 20), 16, False, 16),
        ((0, 20), 16, True, 64),
        ((0, 28), 64, True, 128),
    ],
)
def test_blocks_next_to_states_are_multiples_of_what_is_asked_for(since, asked, latent, tokens):
    """Since 0.20; a kernel of latent attention takes 64 tokens, and 128 since 0.28."""
    assert grain(since, asked, latent=latent) == tokens


def test_windows_without_compression():
    """A stage whose layers compress nothing keeps windows alone."""
    pages = Pages(block_size=64, max_model_len=262144, in_flight=8192)
    found = compressed([0, 0], {"head": 512, "index": 128, "window": 128}, pages, packed=True)
    assert found.block == 2 * 37440
    assert found.needed(262144) == 131
