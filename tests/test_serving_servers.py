"""Budgets of servers: vLLM's identity and its releases, SGLang's fraction, TensorRT-LLM's rest, and generation by hand."""

from types import SimpleNamespace

import pytest

from memcore import Config, estimate
from memcore.config.texts import from_texts
from memcore.errors import ConfigError
from memcore.servers.sglang.phases import finds_attention
from memcore.servers.sglang.windows import pooled
from memcore.servers.vllm.graphs import captured
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.versions import facts, second_runner
from memcore.serving.cache import CacheSpec
from memcore.serving.server_weights import cached_layers
from memcore.serving.stages import stages
from memcore.units import GiB, MiB

H100 = {"accelerator": "h100-sxm-80gb"}


def serve(model="llama-3.1-8b", engine="vllm", inference=None, hardware=H100, parallelism=None, **flags):
    """An estimate of a server."""
    return estimate(
        {
            "model": model,
            "engine": {"type": engine, **flags},
            "inference": inference or {},
            "hardware": hardware,
            "parallelism": parallelism or {},
        }
    )


def test_the_budget_of_vllm():
    """Utilization times the GPU is weights, profiling, libraries and what the cache gets; graphs come on top in 0.19."""
    found = serve(version="0.19.0", gpu_memory_utilization=0.95)
    inside = [entry for entry in found.ledger.entries if entry.category not in ("KV cache", "CUDA graphs")]
    before = [entry for entry in inside if entry.title in ("CUDA context and kernels", "NCCL buffers")]
    used = sum(entry.bytes for entry in inside) - sum(entry.bytes for entry in before)
    assert used + found.rank.available == found.budget.line
    blocks = found.pool.capacity
    assert found.ledger.sum("KV cache") == blocks * found.pool.bytes_each
    assert 0 <= found.rank.available - found.ledger.sum("KV cache") < found.pool.bytes_each
    assert found.pool.tokens == blocks * 16


def test_the_sampler_by_hand():
    """Logits of 1024 sequences: 2 bytes, 4 in fp32, 4 of probabilities and 4 of random numbers, beside hidden states."""
    found = serve(version="0.19.0")
    logits = 1024 * 128_256 * (2 + 4 + 8)
    hidden = 8192 * 4096 * 2 + 2 * 1024 * 4096 * 2
    assert found.ledger.sum("activations") == logits + hidden
    rows = 132 * 128_256 * 4
    assert found.ledger.sum("workspaces") == rows + 32 * MiB + MiB


def test_a_pooling_model_has_no_head_and_is_not_sampled():
    """Without Qwen3-8B's head of 151,936 times 4096 values, logits, and penalties' counts; the widest layer remains."""
    whole, pooled = (serve("qwen3-8b", runner=each) for each in (None, "pooling"))
    heads = [[entry.bytes for entry in each.ledger.entries if "lm_head" in entry.module] for each in (whole, pooled)]
    assert heads == [[151_936 * 4096 * 2], []]
    titles = {entry.title for entry in pooled.ledger.entries}
    assert "counts of generated tokens" in {entry.title for entry in whole.ledger.entries} - titles
    assert not titles & {"logits", "mask of prompt tokens", "logits rows for the top-k kernel"}
    assert pooled.rank.available > whole.rank.available
    with pytest.raises(ConfigError, match="no head for words"):
        serve("bge-m3", runner="generate")


@pytest.mark.parametrize(("causal", "rows"), [(True, 8192), (False, 32768)])
def test_prompts_that_see_themselves_whole_are_not_cut(causal, rows):
    """A step has room for the longest prompt of an embedding model whose `is_causal` is false."""
    config = {"model_type": "qwen2", "architectures": ["Qwen2Model"], "hidden_size": 3584, "intermediate_size": 18944,
              "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 151646,
              "max_position_embeddings": 32768, "tie_word_embeddings": False, "is_causal": causal}  # fmt: skip
    found = serve(config, inference={"max_num_seqs": 64})
    (stream,) = [each for each in found.ledger.entries if each.title.startswith("residual stream, before and after")]
    assert stream.bytes == 2 * rows * 3584 * 2


def test_glm_profiles_a_video():
    """8,192 tokens have room for four frames of 1,708 pixels: 2 × 122² patches, whose feed-forward layer is the widest."""
    options = {
        "version": "0.17.1",
        "gpu_memory_utilization": 0.18,
        "max_num_batched_tokens": 8192,
        "enforce_eager": True,
    }
    found = serve("glm-ocr", inference={"max_model_len": 8192, "max_num_seqs": 2}, **options)
    patches, tokens = 2 * 122**2, 2 * 61**2
    expected = {
        "pixels": 2 * 2 * 3 * 1708**2 * 2,
        "image tokens": tokens * 1536 * 2,
        "hidden states of the tower": patches * 2 * 1024 * 2,
        "feed-forward of the tower": patches * 3 * 4096 * 2,
    }
    sizes = {entry.title: entry.bytes for entry in found.ledger.entries if entry.category == "activations"}
    assert sizes == expected
    assert not any("tower" in str(note) for note in found.budget.notes)


def test_sorting_needed_more():
    """Before 0.17 top-k and top-p sorted all logits: 38 bytes for each instead of 14."""
    old, new = (serve(version=each).ledger.sum("activations") for each in ("0.16.0", "0.17.0"))
    assert old - new == 1024 * 128_256 * 24


@pytest.mark.parametrize(
    ("version", "utilization", "inside", "concurrency"),
    [
        ("0.9.2", 0.90, False, False),
        ("0.19.0", 0.90, False, False),
        ("0.20.0", 0.92, True, False),
        ("0.21.0", 0.92, True, True),
    ],
)
def test_releases(version, utilization, inside, concurrency):
    """Defaults and rules follow the release."""
    found = facts(version)
    assert (found.utilization, found.graphs_inside, found.tokens_by_concurrency) == (utilization, inside, concurrency)
    estimated = serve(version=version)
    assert estimated.budget.line == pytest.approx(79.097 * GiB * utilization, rel=1e-9)
    context = next(entry.bytes for entry in estimated.ledger.entries if entry.title == "CUDA context and kernels")
    taken = estimated.rank.graphs_estimated.expected if inside else 0
    beside = context + estimated.ledger.sum("CUDA graphs") - taken
    assert estimated.device.expected - estimated.budget.line == pytest.approx(beside, rel=0.005)


def test_experts_keep_their_workspace():
    """Two buffers for 8192 tokens and their 4 experts stay in memory: the input, and gate and up."""
    found = serve("qwen1.5-moe-a2.7b", version="0.19.0")
    tokens = 8192 * 4
    own = [entry.bytes for entry in found.ledger.entries if "experts' workspace" in entry.title]
    assert sorted(own) == [tokens * 2048 * 2, tokens * 2 * 1408 * 2]


def test_experts_allocated_buffers_while_they_ran():
    """Before 0.13: gate and up or results in one, the product in another, for 16,384 tokens at once."""
    found = serve("qwen3-30b-a3b", version="0.12.0", inference={"max_num_seqs": 8}, max_num_batched_tokens=20000)
    own = [entry for entry in found.ledger.entries if "experts' workspace" in entry.title]
    assert {entry.category for entry in own} == {"activations"}
    assert sorted(entry.bytes for entry in own) == [16384 * 8 * 768 * 2, 16384 * 8 * 2048 * 2]


@pytest.mark.parametrize(
    ("version", "kept", "running"),
    [("0.20.2", 2816 + 1408, 3 * 2816), ("0.21.0", 2 * 2816, 0), ("0.22.0", 0, 2 * 2816)],
)
def test_kernels_of_gelu_experts_in_nvfp4(version, kept, running):
    """vLLM's CUTLASS kernels copy rows and results, Marlin's have a workspace alone, FlashInfer's bring their own."""
    found = serve(
        "RedHatAI/gemma-4-26B-A4B-it-NVFP4",
        version=version,
        max_num_batched_tokens=16384,
        hardware={"accelerator": "rtx-5090"},
    )
    rows = [
        each for each in found.ledger.entries if str(each.title).startswith(("experts' workspace", "experts' rows"))
    ]
    kinds = {each: sum(row.bytes for row in rows if row.category == each) for each in ("workspaces", "activations")}
    assert kinds == {"workspaces": 16384 * 8 * 2 * kept, "activations": 16384 * 8 * 2 * running}


def test_the_forward_pass_can_be_wider():
    """A small vocabulary: gate, up and their product beside the residual stream and attention's result."""
    found = serve("codellama-7b-hf", version="0.19.0")
    ffn = 3 * 8192 * 11_008 * 2
    stream = 3 * 8192 * 4096 * 2
    assert found.ledger.sum("activations") == ffn + stream + 50 * MiB


def test_tensor_parallel_ranks_share_matrices():
    """Matrices and tables are halved, norms are not, and latent caches are not either."""
    one, two = (
        serve("deepseek-v2-lite", parallelism={"tensor_parallel_size": each}, version="0.19.0") for each in (1, 2)
    )
    assert two.pool.bytes_each == one.pool.bytes_each
    assert 0.5 < two.ledger.sum("weights") / one.ledger.sum("weights") < 0.53


def test_a_pipeline_is_as_long_as_its_shortest_pool():
    """Tokens are those of the stage with the least room; the first one logs what it has itself."""
    found = serve(parallelism={"pipeline_parallel_size": 2}, version="0.19.0")
    first, last = found.ranks
    assert first.available > last.available
    assert found.pool.capacity == last.available // (16 * 65_536)
    assert {rank.ledger.sum("KV cache") for rank in found.ranks} == {found.pool.capacity * 16 * 65_536}


def test_experts_are_shared_out_whole():
    """With expert parallelism each rank has a quarter of the experts, not a quarter of each: as many bytes."""
    apart = serve("qwen3-30b-a3b", parallelism={"tensor_parallel_size": 4}, version="0.19.0")
    whole = serve(
        "qwen3-30b-a3b", parallelism={"tensor_parallel_size": 4}, version="0.19.0", enable_expert_parallel=True
    )

    def experts(found):
        return sum(entry.bytes for entry in found.ledger.entries if "experts." in entry.module)

    assert experts(apart) == experts(whole) > 0


def test_data_parallel_ranks_have_pools_of_their_own():
    """Two replicas take twice as many users."""
    one, two = (serve(parallelism={"data_parallel_size": each}, version="0.19.0") for each in (1, 2))
    assert two.job.num_gpus == 2
    assert one.pool.users(8192) == one.pool.capacity // 512
    assert two.pool.users(8192) == 2 * (two.pool.capacity // 512)


def test_a_cache_of_a_given_size():
    """`kv_cache_memory_bytes` replaces what is left."""
    found = serve(version="0.19.0", kv_cache_memory_bytes=16 * 131_072 * 100)
    assert found.pool.capacity == 100
    assert found.budget.line is None


def test_adapters_have_slots():
    """Two slots of rank 16: A and B of every matrix of attention and feed-forward layers."""
    plain, slots = (serve("gpt2", inference=each, version="0.19.0") for each in ({}, {"max_loras": 2}))
    pairs = 12 * (3 * 768 + 3 * 768 + (768 + 768) + (768 + 3072) + (3072 + 768))
    assert slots.ledger.sum("adapters") == 2 * 16 * 2 * pairs
    assert plain.ledger.sum("adapters") == 0


@pytest.mark.parametrize(
    ("model", "version", "words"),
    [
        ("qwen3-4b", "0.27.1", 3 * 151_936 + 2 * 2560),
        ("llama-3.1-8b", "0.27.1", 2 * 128_256 + 2 * 4096),
        ("llama-3.1-8b", "0.8.2", 2 * (128_256 + 256) + 2 * 4096),
        ("qwen3-4b", "0.15.1", 0),
        ("mistral-7b-v0.3", "0.15.1", 0),
        ("mistral-7b-v0.3", "0.14.1", 2 * (32_768) + 2 * 4096),
    ],
)
def test_adapters_of_the_vocabulary(model, version, words):
    """Where the class names them, embedding and head have slots; a tied head is an embedding, too."""
    found = serve(model, inference={"max_loras": 1, "max_lora_rank": 16}, version=version)
    rows = [each for each in found.ledger.entries if each.module in ("embedding", "output head")]
    assert sum(each.bytes for each in rows if each.category == "adapters") == 2 * 16 * words


@pytest.mark.parametrize(("version", "pairs"), [("0.11.0", 0), ("0.11.1", 2 * 2048 + 2 * 768 + 768 + 2048)])
def test_adapters_of_experts(version, pairs):
    """Since 0.11.1 every expert has slots of its own."""
    found = serve("qwen3-30b-a3b", inference={"max_loras": 1, "max_lora_rank": 16}, version=version)
    rows = [each for each in found.ledger.entries if each.category == "adapters" and "experts" in (each.module or "")]
    assert sum(each.bytes for each in rows) == 2 * 16 * 48 * 128 * pairs


@pytest.mark.parametrize(
    ("modules", "pairs"),
    [
        (["q_proj", "v_proj"], 32 * (3 * 4096 + 4096 + 2 * 1024)),
        ("o_proj", 32 * 2 * 4096),
        ("all", 32 * (3 * 4096 + 4096 + 2 * 1024 + 2 * 4096 + 2 * 4096 + 3 * 14_336 + 4096) + 2 * 128_256 + 2 * 4096),
    ],
)
def test_adapters_of_sglang(modules, pairs):
    """Slots are there before the pool is sized, which loses as much; one of three projections has room for all."""
    plain = serve(engine="sglang")
    found = serve(engine="sglang", inference={"max_loras": 8, "max_lora_rank": 64}, lora_target_modules=modules)
    slots = found.ledger.sum("adapters")
    assert slots == 8 * 64 * 2 * pairs
    assert plain.ledger.sum("KV cache") - found.ledger.sum("KV cache") == pytest.approx(slots, abs=131_072)


@pytest.mark.parametrize(
    ("card", "told", "page", "kept"),
    [
        ("b200", {}, 64, 512),
        ("b200", {"attention_backend": "fa4"}, 128, 0),
        ("h100-sxm-80gb", {}, 1, 0),
        ("h100-sxm-80gb", {"attention_backend": "flashinfer"}, 1, 384),
        ("rtx-4090", {}, 1, 384),
        ("rtx-4090", {"attention_backend": "triton"}, 1, 0),
    ],
)
def test_attention_of_sglang(card, told, page, kept):
    """By GPU, or as it is told: pages of its size, and MiB of a workspace outside the static fraction."""
    found = serve("llama-3.2-1b", "sglang", hardware={"accelerator": card}, **told)
    assert found.job.options.page == page
    assert sum(each.bytes for each in found.ledger.entries if each.title == "workspace of attention") == kept * MiB
    assert found.pool.tokens % page == 0


@pytest.mark.parametrize(
    ("accelerator", "version", "size"),
    [
        ("h100-sxm-80gb", "0.19.0", 0.15),
        ("l40s", "0.19.0", 0.03),
        ("rtx-3090", "0.19.0", 0.03),
        ("h100-sxm-80gb", "0.20.0", 0.25),
        ("l40s", "0.20.0", 0.13),
    ],
)
def test_kernels_loaded_while_profiling(accelerator, version, size):
    """FlashAttention 3's are Hopper's alone."""
    found = serve("llama-3.2-1b", version=version, hardware={"accelerator": accelerator})
    title = "kernels and communicators loaded while profiling"
    assert [each.bytes for each in found.ledger.entries if each.title == title] == [int(size * GiB)]


@pytest.mark.parametrize(("version", "rest"), [("0.20.2", 0.875), ("0.21.0", 0.875 + 28 * (1.5 + 1.75))])
def test_blocks_of_weights_are_not_split(version, rest):
    """Since 0.21 those of 20 MiB and more: gate and up projection have 52.5 MiB in 54, the down projection 26.25 in 28."""
    found = serve("Qwen/Qwen2.5-1.5B-Instruct", version=version)
    rows = [each.bytes for each in found.ledger.entries if each.title.startswith("unsplit")]
    assert rows == [pytest.approx(rest * MiB, rel=0.01)]


@pytest.mark.parametrize(
    ("version", "accelerator", "said"),
    [("0.23.0", "rtx-pro-6000", True), ("0.24.0", "rtx-pro-6000", False), ("0.23.0", "h200-sxm-141gb", False)],
)
def test_a_release_without_attention_for_a_gpu(version, accelerator, said):
    """Until 0.23 DeepSeek-V4's sparse attention supports compute capabilities 9 and 10 alone."""
    layout = {"parallelism": {"tensor_parallel_size": 4}, "inference": {"max_model_len": 8192}}
    hardware = {"accelerator": accelerator, "num_gpus": 4}
    found = serve("deepseek-ai/DeepSeek-V4-Flash", version=version, hardware=hardware, **layout)
    assert any("has no attention for compute capability 12" in str(each) for each in found.notes) == said


@pytest.mark.parametrize(
    ("version", "owner", "device"),
    [
        ("0.13.0", "models's", "device ("),
        ("0.21.0", "models's", "device cuda:0 ("),
        ("0.22.0", "model's", "device cuda:0 ("),
    ],
)
def test_words_of_a_refusal_are_the_releases(version, owner, device):
    """Source: v1/core/kv_cache_utils.py, v1/worker/gpu_worker.py and v1/worker/utils.py of these releases."""
    found = serve("qwen3-32b", version=version, inference={"max_model_len": 131_072}, gpu_memory_utilization=0.9)
    assert any(f"at least one request with the {owner} max seq len (131072), (32.0" in each for each in found.notes)
    full = serve(version=version, inference={"max_model_len": 8192}, gpu_memory_utilization=0.999)
    assert any(
        f'vLLM refuses: "Free memory on {device}' in each or f"on device {device}" in each for each in full.notes
    )


@pytest.mark.parametrize(
    ("engine", "model", "path", "taken"),
    [
        ("llama.cpp", "qwen3-8b", "engine.n_cpu_moe", False),
        ("llama.cpp", "qwen3-30b-a3b", "engine.n_cpu_moe", True),
        ("sglang", "qwen3-8b", "engine.mamba_full_memory_ratio", False),
        ("sglang", "Qwen/Qwen3.5-9B", "engine.mamba_full_memory_ratio", True),
    ],
)
def test_nothing_is_assumed_of_what_a_model_lacks(engine, model, path, taken):
    assert (path in {each.path for each in serve(model, engine).assumptions}) == taken


def test_expandable_segments_have_no_ends():
    """Their blocks are split to 512 bytes: on two 5090s a start of vLLM 0.26 prints 14.28 GiB of an FP8 Qwen3.8 27B."""
    two = {"hardware": {"accelerator": "rtx-5090", "num_gpus": 2}, "parallelism": {"tensor_parallel_size": 2}}
    found = serve("Qwen/Qwen3.8-27B-FP8", version="0.26.1", expandable_segments=True, **two)
    assert not [each.title for each in found.ledger.entries if each.title.startswith("unsplit")]
    assert found.ledger.sum("weights") == pytest.approx(14.28 * GiB, rel=0.0005)


def test_a_draft_model_comes_on_top():
    """Its weights, and its layers in every block of the pool."""
    found = serve(inference={"draft_model": "llama-3.2-1b"}, version="0.19.0")
    assert found.ledger.sum("draft model") > 2 * 1_235_814_400
    assert found.pool.bytes_each == 16 * (131_072 + 2 * 16 * 8 * 64 * 2)


def test_a_draft_model_that_is_not_known():
    with pytest.raises(ConfigError) as raised:
        serve(inference={"draft_model": "/m/gemma-4-31b-it-assistant"})
    assert [each.path for each in raised.value.problems] == ["inference.draft_model"]


def _deep_ep(found):
    return next((entry for entry in found.ledger.entries if entry.title == "DeepEP buffers"), None)


LAYER = 2 * (4096 * 6144 + 4096**2 + 3 * 14336 * 4096 + 2 * 4096)


@pytest.mark.parametrize(
    ("asked", "less"),
    [
        # Nine layers, then parameters of the tenth until there are 4 GiB: all but its norms.
        (4, 9 * LAYER + LAYER - 2 * 2 * 4096),
        (1e-6, 2 * 4096 * 6144),  # one parameter at least
        (100, 32 * LAYER),  # embeddings and the head stay
    ],
)
def test_weights_on_the_host(asked, less):
    """Whole parameters of one layer after the other; what they leave goes to the cache."""
    plain, moved = serve(), serve(cpu_offload_gb=asked)
    assert plain.ledger.sum("weights") - moved.ledger.sum("weights") == less
    assert moved.pool.capacity - plain.pool.capacity == pytest.approx(less / plain.pool.bytes_each, abs=1)
    assert any("of each GPU's weights stay in host memory" in note for note in moved.budget.notes)
    assert serve(kv_offloading_size=16).pool.capacity == plain.pool.capacity


def test_weights_on_the_host_before_0_8_3():
    """A layer's weights are on the GPU while it runs."""
    rows = [serve(version="0.7.3", **each).ledger.sum("activations") for each in ({}, {"cpu_offload_gb": 4})]
    assert rows[1] - rows[0] == LAYER


@pytest.mark.parametrize(
    ("version", "connector", "windows"),
    [("0.21.0", None, True), ("0.21.0", "nixl", False), ("0.22.1", "offloading", True), ("0.22.1", "lmcache", False)],
)
def test_connectors_and_windows(version, connector, windows):
    """Connectors that know one kind of blocks make sliding layers cache everything; LMCache copies through a chunk."""
    given = {"kv_connector": connector} if connector else {}
    found = serve("google/gemma-3-27b-it", version=version, inference={"max_model_len": 32768}, **given)
    whole = serve("google/gemma-3-27b-it", version=version, inference={"max_model_len": 32768},
                  disable_hybrid_kv_cache_manager=True)  # fmt: skip
    needed, most = (each.pool.needed(32768) * each.pool.bytes_each for each in (found, whole))
    assert (needed < most) is windows
    chunk = [entry.bytes for entry in found.ledger.entries if entry.title == "chunk that LMCache copies through"]
    assert chunk == ([256 * 62 * 2 * 16 * 128 * 2] if connector == "lmcache" else [])


def test_connectors_and_states():
    """LMCache's does not start with recurrent layers."""
    with pytest.raises(ConfigError, match="failed to convert the KV cache specs to one unified type"):
        serve("qwen3.6-27b", kv_connector="lmcache")


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, None),
        ({"all2all_backend": "allgather_reducescatter"}, None),
        ({"all2all_backend": "deepep_high_throughput"}, (1024 + 32) * 2**20),
        # Two send and two receive buffers of 128 experts × 256 tokens, in a heap that grows by 512 MiB.
        ({"all2all_backend": "deepep_low_latency", "version": "0.19.0"}, (1024 + 32 + 1024) * 2**20),
        ({"all2all_backend": "deepep_low_latency", "max_num_batched_tokens": 512}, (1024 + 32 + 1536) * 2**20),
        ({"all2all_backend": "deepep_low_latency", "enable_expert_parallel": False}, None),
    ],
)
def test_buffers_of_all_to_all(options, size):
    """DeepEP's are there before the cache is sized, with data and expert parallelism alone."""
    config = {
        "model": "qwen3-30b-a3b",
        "engine": {"type": "vllm", "enable_expert_parallel": True, **options},
        "parallelism": {"data_parallel_size": 2},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 2},
    }
    found = _deep_ep(estimate(Config.from_dict(config)))
    assert (found and found.bytes) == size


@pytest.mark.parametrize(
    ("mode", "size"),
    [
        # Ten channels, four ranks, chunks of 256 tokens of 2048 × 2 B with where they come from, experts and scales.
        ("normal", 10 * 4 * (5 * 4 + 256 * (4096 + 8 + 128 * 12 + 512)) + 32 * 2**20),
        ("low_latency", (512 + 32) * 2**20),
    ],
)
def test_buffers_of_deep_ep_in_sglang(mode, size):
    config = {
        "model": "qwen3-30b-a3b",
        "engine": {"type": "sglang", "enable_expert_parallel": True, "moe_a2a_backend": "deepep", "deepep_mode": mode},
        "parallelism": {"tensor_parallel_size": 4},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 4},
    }
    found = _deep_ep(estimate(Config.from_dict(config)))
    assert abs(found.bytes - size) < 128
    with pytest.raises(ConfigError, match="which needs engine.enable_expert_parallel true") as raised:
        estimate(Config.from_dict(config).replaced("engine.enable_expert_parallel", False))
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize(
    ("kernels", "kept"),
    [
        ("auto", []),
        ("flashinfer_trtllm", []),
        ("flashinfer_cutlass", [16384 * 2048 * 2]),
        ("triton", [16384 * 8 * 2048 * 2] * 2),
        ("marlin", [16384 * 8 * 2048 * 2] * 2),
        # Sorted rows: gate and up are as wide as 2 × 768 numbers, and twice that.
        ("cutlass", [16384 * 8 * 1536 * 2, 16384 * 8 * 3072 * 2]),
    ],
)
def test_kernels_of_experts_in_vllm(kernels, kept):
    """What is kept of 16,384 tokens and 8 experts each, in NVFP4 on a B200; more of it leaves fewer blocks."""
    config = {
        "model": "qwen3-30b-a3b",
        "inference": {"quantization": "nvfp4"},
        "engine": {"version": "0.22.0", "moe_backend": kernels, "max_num_batched_tokens": 16384},
        "hardware": {"accelerator": "b200"},
    }
    found = estimate(Config.from_dict(config))
    titles = [(entry.bytes, str(entry.title)) for entry in found.ledger.entries]
    assert sorted(size for size, title in titles if title.startswith("experts' ")) == kept
    plain = estimate(Config.from_dict(config).replaced("engine.moe_backend", "auto"))
    assert (found.pool.capacity < plain.pool.capacity) == bool(kept)


def test_marlin_runs_mxfp4_with_a_workspace():
    """The usual kernels of Hopper bring none."""
    engine = {"type": "vllm", "version": "0.22.0"}
    config = {"model": "gpt-oss-20b", "engine": engine, "hardware": {"accelerator": "h100-sxm-80gb"}}
    usual = Config.from_dict(config)
    marlin = usual.replaced("engine.moe_backend", "marlin")
    assert estimate(usual).pool.capacity > estimate(marlin).pool.capacity


def test_kernels_of_experts_leave_sglangs_pool():
    """They are freed after each step, outside the static fraction."""
    usual = _on_sglang("qwen3-30b-a3b", {}, "b200")
    other = _on_sglang("qwen3-30b-a3b", {"moe_runner_backend": "flashinfer_cutlass"}, "b200")
    assert usual.pool.capacity == other.pool.capacity
    assert usual.device.expected != other.device.expected


def _on_sglang(model, engine, accelerator="mi355x", gpus=1, **inference):
    config = {
        "model": model,
        "engine": {"type": "sglang", **engine},
        "parallelism": {"tensor_parallel_size": gpus},
        "inference": inference,
        "hardware": {"accelerator": accelerator, "num_gpus": gpus},
    }
    return estimate(Config.from_dict(config))


@pytest.mark.parametrize(
    ("model", "version", "ratio", "size"),
    [
        ("deepseek-v4-pro", "0.5.13", 0.15, 32_781),
        ("deepseek-v4-pro", "0.5.15", 0.15, 13_735),
        ("deepseek-v4-flash", "0.5.21", None, 7_705),
    ],
)
def test_bytes_of_a_compressed_token_in_sglang(model, version, ratio, size):
    """As three logs state them: what a token takes of all pools of DeepSeek-V4."""
    given = {} if ratio is None else {"swa_full_tokens_ratio": ratio}
    found = _on_sglang(model, {"version": version, **given}, gpus=8)
    assert found.pool.bytes_each == size
    pools = sum(entry.bytes for entry in found.ledger.entries if entry.category == "KV cache")
    states = sum(entry.bytes for entry in found.ledger.entries if entry.title.endswith("of requests"))
    assert (pools - states) / found.pool.tokens == pytest.approx(size, rel=1e-3)
    assert found.ledger.sum("recurrent states") == 0
    assert bool(states) == (version != "0.5.13")


def test_the_pool_of_tensorrt_llm_has_a_range():
    """What is derived of activations may not be there, and kernels may take up to 2 GiB; it shares out 90 %."""
    config = {
        "model": "qwen3-8b",
        "engine": {"type": "tensorrt-llm"},
        "inference": {"max_model_len": 8192},
        "hardware": {"accelerator": "h100-sxm-80gb"},
    }
    found = estimate(Config.from_dict(config))
    pool, activations = found.pool, found.ledger.sum("activations")
    assert 0.9 * 1.5 * 2**30 < (pool.capacity - pool.capacity_low) * pool.bytes_each < 2 * 2**30
    assert 0.9 * activations < (pool.capacity_high - pool.capacity) * pool.bytes_each < activations + 2**30


def test_eager_starts_of_several_ranks_open_fewer_buffers():
    """0.85 GiB, not 2.1: fusing all-reduce with norms belongs to what is compiled."""
    config = {
        "model": "glm-5",
        "engine": {"version": "0.19.1", "enforce_eager": True},
        "inference": {"quantization": "fp8", "max_model_len": 8192},
        "parallelism": {"tensor_parallel_size": 8},
        "hardware": {"accelerator": "h200-sxm-141gb", "num_gpus": 8},
    }
    eager = Config.from_dict(config)
    [less], [more] = (
        [entry for entry in estimate(each).ledger.entries if entry.title.endswith("loaded while profiling")]
        for each in (eager, eager.replaced("engine.enforce_eager", False))
    )
    assert (less.bytes, more.bytes) == (int(0.85 * 2**30), int(2.1 * 2**30))


def test_deepseek_v4_predicts_tokens():
    """Its further layer has a window alone; with it every state is kept twice."""
    plain = _on_sglang("deepseek-v4-flash", {"version": "0.5.11"}, gpus=4)
    more = _on_sglang("deepseek-v4-flash", {"version": "0.5.11"}, gpus=4, speculative_method="mtp")
    assert 25_900 < more.pool.bytes_each < 26_100
    assert 15_800 < plain.pool.bytes_each < 15_960
    assert more.job.basics.speculation.layer.mixers[0].mask == "sliding"


def test_aiter_takes_its_part_of_the_static_fraction():
    """85 % are left where sequences are long; other GPUs, and latent heads that it does not have, keep all."""
    engine = {"version": "0.5.17", "mem_fraction_static": 0.8}

    def tokens(model="qwen3-8b", accelerator="mi355x", gpus=1, length=40960):
        return _on_sglang(model, engine, accelerator, gpus, max_model_len=length)

    assert "mem_fraction_static 0.68" in tokens().budget.line_title
    assert any("85 %" in str(note) for note in tokens().notes)
    for kept in (
        tokens(length=8192),
        tokens(accelerator="b200"),
        tokens("deepseek-v3.2", gpus=8),
        tokens("gpt-oss-20b"),
    ):
        assert "mem_fraction_static 0.8" in kept.budget.line_title
    assert "0.68" in tokens("deepseek-r1", gpus=8).budget.line_title
    assert "mem_fraction_static 0.8" in tokens("deepseek-r1", gpus=4).budget.line_title


@pytest.mark.parametrize(("drafted", "sent"), [({}, 2048 // 2 + 2048 // 16), ({"speculative_method": "eagle3"}, 4096)])
def test_slots_of_flashinfer_in_sglang(drafted, sent):
    """1,024 tokens of each of four ranks, on each of four, there in NVFP4 and back; EAGLE's layer sends 16 bits."""
    config = {
        "model": "qwen3-30b-a3b",
        "engine": {"type": "sglang", "enable_expert_parallel": True, "moe_a2a_backend": "flashinfer"},
        "parallelism": {"tensor_parallel_size": 4},
        "inference": drafted,
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 4},
    }
    entries = estimate(Config.from_dict(config)).ledger.entries
    [found] = [entry for entry in entries if entry.title == "FlashInfer's all-to-all workspace"]
    assert found.bytes == 4 * 4 * 1024 * (sent + 8 * 8 + 4096)


@pytest.mark.parametrize(
    ("backend", "size", "unknown"),
    [
        # Slots for 8,192 tokens of both ranks there (2,048 × 2 B, 8 experts of 8 B) and back.
        ("flashinfer_nvlink_one_sided", 2 * 8192 * (4096 + 64 + 4096), False),
        # 8 queues of 8 × 256 KiB for each rank.
        ("flashinfer_nvlink_two_sided", 2 * 8 * 8 * 256 * 1024, False),
        ("pplx", None, True),
        ("mori_low_latency", None, True),
        ("deepep_low_latency", None, False),
    ],
)
def test_flashinfers_all_to_all_and_those_that_no_source_gives(backend, size, unknown):
    """What the buffers of others take is not counted, and said."""
    config = {
        "model": "qwen3-30b-a3b",
        "engine": {"type": "vllm", "enable_expert_parallel": True, "all2all_backend": backend},
        "parallelism": {"data_parallel_size": 2},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 2},
    }
    found = estimate(Config.from_dict(config))
    kept = [each.bytes for each in found.ledger.entries if each.title == "FlashInfer's all-to-all workspace"]
    assert kept == ([size] if size else [])
    assert any(f"the size of {backend}'s buffers is unknown" in note for note in found.notes) == unknown


@pytest.mark.parametrize(
    ("version", "former"), [("0.8.5", True), ("0.10.1", True), ("0.10.2", False), ("0.14.0", False)]
)
def test_networks_with_states_ran_in_the_former_engine(version, former):
    """Until 0.10.1: it keeps states of all sequences beside its blocks, and takes whole prompts."""
    found = serve("nvidia/NVIDIA-Nemotron-Nano-9B-v2", version=version, inference={"max_model_len": 16384})
    states = [each for each in found.ledger.entries if each.title == "recurrent states of all sequences"]
    assert [each.sizes["seqs"] for each in states] == ([256] if former else [])
    assert found.job.options.tokens == (16384 if former else 8192)
    assert found.job.options.facts.server_batches != former


def test_a_tower_of_which_the_weights_alone_are_known():
    """Images are profiled, and nobody knows with what: the cache may be 4 GiB smaller, which the answer says."""
    hardware = {"accelerator": "rtx-3090", "num_gpus": 1}
    found = serve("allenai/Molmo-7B-D-0924", version="0.12.0", inference={"max_model_len": 4096}, hardware=hardware)
    assert any("how much this model's tower needs" in note for note in found.notes)
    assert (found.pool.capacity - found.pool.capacity_low) * found.pool.bytes_each > 4 * GiB
    inference = {"max_model_len": 4096, "images_per_sequence": 0}
    without = serve("allenai/Molmo-7B-D-0924", version="0.12.0", inference=inference, hardware=hardware)
    assert not any("how much this model's tower needs" in note for note in without.notes)


def test_a_tower_whose_code_says_what_it_needs():
    """dots.ocr's rotates queries and keys of 57,600 patches in fp32; pixels are in bf16."""
    inference = {"max_model_len": 8192, "max_num_seqs": 8}
    found = serve("rednote-hilab/dots.ocr", version="0.12.0", inference=inference)
    assert not any("how much this model's tower needs" in note for note in found.notes)
    rotated = [entry.bytes for entry in found.ledger.entries if entry.title.startswith("the same in fp32")]
    assert rotated == [4 * 57600 * 1536 * 4]


@pytest.mark.parametrize(
    ("model", "title", "size"),
    [
        # Three videos of 32 frames; eight of 16 in two products of all patches; eleven images
        ("google/gemma-4-E4B-it", "pixels", 96 * 630 * 768 * 2),
        ("openbmb/MiniCPM-V-2_6", "feed-forward of the tower", 2 * 8 * 16 * 1024 * 4304 * 2),
        ("deepseek-ai/DeepSeek-OCR", "pixels of whole images", 11 * 3 * 1024 * 1024 * 2),
    ],
)
def test_towers_that_their_code_describes(model, title, size):
    """What profiling shows to them with 8,192 tokens, and no doubt about 4 GiB."""
    found = serve(model, version="0.22.0", inference={"max_model_len": 8192})
    assert [entry.bytes for entry in found.ledger.entries if entry.title == title] == [size]
    assert not any("how much this model's tower needs" in note for note in found.notes)


@pytest.mark.parametrize(("version", "times"), [("0.12.0", 0), ("0.26.0", 1)])
def test_what_an_indexer_brings(version, times):
    """Keys for 40 times the longest sequence, where experts need less, and scores of all its tokens, captured and warmed up."""
    hardware = {"accelerator": "b200", "num_gpus": 8}
    found = serve(
        "deepseek-ai/DeepSeek-V3.2",
        version=version,
        inference={"max_model_len": 65536, "max_num_seqs": 256},
        hardware=hardware,
        parallelism={"tensor_parallel_size": 8},
        max_num_batched_tokens=1024,
    )
    kept = {str(entry.title): entry.bytes for entry in found.ledger.entries}
    assert kept.get("keys that the indexer gathers", 0) == times * 65536 * 40 * 132
    title = "scores of the indexer in whole graphs and in what warms them up"
    assert kept.get(title, 0) == times * 2 * 256 * 65536 * 4
    assert "expanded context" not in kept


def test_sums_over_a_network():
    """A captured sum keeps as much as one inside a machine; on GPUs with the host's memory 0.76 MiB."""

    def text(accelerator, ranks):
        hardware = {"accelerator": accelerator, "num_gpus": ranks}
        parallelism = {"tensor_parallel_size": ranks}
        found = serve("qwen2.5-72b-instruct", version="0.19.0", hardware=hardware, parallelism=parallelism)
        return next(entry.bytes for entry in found.ledger.entries if entry.title == "captured graphs")

    assert text("h100-sxm-80gb", 16) - text("h100-sxm-80gb", 8) == pytest.approx(102 * 80 * 0.2 * MiB, rel=0.01)
    assert text("gb10", 2) - text("gb10", 1) > 86 * 80 * 0.7 * MiB


@pytest.mark.parametrize(("version", "size"), [("0.13.0", 2), ("0.14.0", 1)])
def test_checkpoints_that_bring_a_cache_in_fp8(version, size):
    """ModelOpt's say so, and vLLM reads that since 0.14 (a start of 0.13.0 has 128 KiB for each token)."""
    found = serve("nvidia/Llama-3.1-8B-Instruct-FP4", version=version)
    assert found.pool.bytes_each // 16 == 32 * 2 * 8 * 128 * size


@pytest.mark.parametrize(("driver", "times"), [("535.183.01", 4.938), ("550.54.15", 1), ("580.76.05", 1)])
def test_what_a_driver_keeps_of_graphs(driver, times):
    """Before CUDA 12.4's, drivers keep 5 times as much of pieces; CUDA 13's little of kernels from Hopper on alone."""

    def kept(accelerator, **hardware):
        found = serve(version="0.9.2", hardware={"accelerator": accelerator, "num_gpus": 1, **hardware})
        return next(entry.bytes for entry in found.ledger.entries if entry.title == "captured graphs")

    usual = kept("rtx-4090")
    assert kept("rtx-4090", driver=driver) == pytest.approx(times * usual, rel=1e-3)
    assert (kept("h100-sxm-80gb", driver=driver) < usual) == driver.startswith("580")


def test_named_kernels_of_experts():
    """vLLM's own sort rows and put results back; FlashInfer's allocate what they need while they run."""

    def titles(**engine):
        hardware = {"accelerator": "rtx-5090", "num_gpus": 1}
        found = serve("nvidia/Qwen3.6-35B-A3B-NVFP4", version="0.24.0", hardware=hardware, **engine)
        return {str(entry.title) for entry in found.ledger.entries}

    sorts = "experts' rows, sorted, and their results, put back and weighted"
    assert sorts in titles(moe_backend="cutlass", max_num_batched_tokens=16384)
    assert sorts not in titles(max_num_batched_tokens=16384)


def test_images_of_profiling():
    """Pixels and tokens of as many of the largest images as a step may have."""
    found = serve("mistral-small-3.1-24b-instruct-2503", version="0.19.0")
    assert [entry.bytes for entry in found.ledger.entries if entry.title == "image tokens"] == [2 * 55 * 55 * 5120 * 2]
    without = serve("mistral-small-3.1-24b-instruct-2503", version="0.19.0", inference={"images_per_sequence": 0})
    assert not [entry for entry in without.ledger.entries if entry.title == "pixels"]


@pytest.mark.parametrize(
    ("inference", "tokens"), [({}, 8 * 31**2), ({"images_per_sequence": 1, "max_num_seqs": 5}, 5 * 31**2)]
)
def test_pixels_of_an_image(inference, tokens):
    """Smaller images, of which a step has as many as its tokens allow, and its sequences."""
    found = serve("Qwen/Qwen3-VL-8B-Instruct", version="0.19.0", max_pixels=1003520, inference=inference)
    sizes = [entry.bytes for entry in found.ledger.entries if entry.title == "image tokens"]
    assert sizes in ([4 * tokens * 4096 * 2], [3 * tokens * 4096 * 2])


@pytest.mark.parametrize(
    ("version", "tokens", "expected"),
    [("0.19.0", 8192, 24200**2 * 2), ("0.19.0", 4096, 12100**2 * 4), ("0.11.2", 8192, 0)],
)
def test_images_in_one_sequence(version, tokens, expected):
    """Without xformers a mask keeps Pixtral's images apart, and attention pads rows that are no multiple of eight."""
    found = serve(
        "mistralai/Ministral-3-8B-Instruct-2512",
        version=version,
        max_num_batched_tokens=tokens,
        inference={"max_num_seqs": 8},
    )
    assert sum(entry.bytes for entry in found.ledger.entries if entry.title == "mask between images") == expected


def test_a_video_that_counts_the_words_between_its_frames():
    """Qwen3-VL's in 0.11: results of 12,288 tokens, of four layers each, are copied into 153,600 rows; none in 0.13."""

    def rows(version, **engine):
        found = serve("Qwen/Qwen3-VL-30B-A3B-Instruct", version=version, hardware=H100, **engine)
        return [entry.bytes // (4 * 2048 * 2) for entry in found.ledger.entries if entry.title == "image tokens"]

    assert rows("0.11.0") == [153600]
    assert rows("0.11.0", videos_per_sequence=0) == [16384]
    assert rows("0.13.0") == [16384]


def test_projectors_over_ranks():
    """Qwen's mergers are split, and Gemma 3's one matrix is not."""

    def of(model, name):
        found = serve(
            model, version="0.28.0", hardware={**H100, "num_gpus": 4}, parallelism={"tensor_parallel_size": 4}
        )
        return sum(entry.bytes for entry in found.ledger.entries if name in entry.module)

    assert of("Qwen/Qwen3-VL-8B-Instruct", "visual.merger.linear_fc1.weight") == 4608 * 4608 * 2 // 4
    assert of("google/gemma-3-27b-it", "mm_input_projection_weight") == 1152 * 5376 * 2


def test_before_the_first_release_everything_counts():
    """Until 0.8 the budget held the CUDA context too."""
    found = serve("llama-2-7b-hf", version="0.2", hardware={"accelerator": "a100-sxm-80gb"})
    context = next(entry for entry in found.ledger.entries if entry.title == "CUDA context and kernels")
    graphs = found.ledger.sum("CUDA graphs")
    used = found.ledger.total - found.ledger.sum("KV cache") - graphs
    assert used + found.rank.available == found.budget.line
    assert context.bytes < used


def test_sglang_by_its_own_rule():
    """MiB that are not static: 512, 1.5 for each token of a chunk, 2 for each sequence of a graph, 8 for each prefill graph."""
    found = serve(engine="sglang")
    reserved = 512 + 1.5 * 8192 + 1024 / 8 + 2 * 256 + 8 * 58
    assert found.job.options.fraction == round(1 - reserved / int(79.097 * 1024), 3)
    free = found.capacity - found.ledger.sum("outside the allocator")
    static = found.ledger.sum("weights", "KV cache")
    assert found.budget.line - 131_072 < static <= found.budget.line == int(found.job.options.fraction * free)
    assert found.pool.tokens == found.ledger.sum("KV cache") // 131_072


@pytest.mark.parametrize(
    ("phase", "version", "reserved"),
    [
        ("prefill", "0.5.23", 512 + 1.5 * 8192 + 1024 + 1.5 * 1024 + 1024),
        ("decode", "0.5.23", 512 + 1.5 * 2048 + 1024 + 512 * 2 + 512 * 8 * 4.5 + 2048),
        ("decode", "0.5.13", 512 + 1.5 * 8192 + 1024 + 512 * 2 + 512 * 8 * 4.5),
    ],
)
def test_phases_of_sglang(phase, version, reserved):
    """Since 0.5.15 nothing is left free for the other phase; a decoding rank has no more tokens than its requests."""
    found = serve(
        "deepseek-v3",
        "sglang",
        {"max_num_seqs": 512, "max_model_len": 32768},
        parallelism={"tensor_parallel_size": 8, "data_parallel_size": 8},
        hardware={"accelerator": "h200-sxm-141gb", "num_gpus": 8},
        version=version,
        disaggregation_mode=phase,
        enable_dp_attention=True,
        enable_expert_parallel=True,
        moe_a2a_backend="deepep",
        ep_num_redundant_experts=16,
    )
    kept = max(reserved, 10 * 1024 + (2048 if phase == "decode" and version == "0.5.23" else 0))
    assert found.job.options.fraction == round(1 - kept / (found.job.capacity // MiB), 3)
    assert found.job.options.chunk == (64 if phase == "decode" else 1024)
    table = next(each for each in found.ledger.entries if "requests' tokens" in each.title)
    assert table.bytes == (64 + 1) * (32768 + 4) * 4
    buffers = next(each for each in found.ledger.entries if each.title == "DeepEP buffers")
    assert buffers.category == ("CUDA graphs" if phase == "decode" else "outside the allocator")
    own = sum(each.bytes for each in found.ledger.entries if ".mlp.experts." in str(each.module))
    copies = next(each for each in found.ledger.entries if str(each.title).startswith("copies"))
    assert copies.bytes == own // 16


@pytest.mark.parametrize(
    ("accelerator", "given", "tables"),
    [
        ("h100-sxm-80gb", {}, 4),  # FlashAttention: a number for each position
        ("h100-sxm-80gb", {"max_num_seqs": 64, "speculative_method": "eagle3", "num_speculative_tokens": 3}, 4 * 16),
        ("a100-sxm-80gb", {}, 4 + 1),  # FlashInfer: a number and a mask
        ("b200", {}, 0),
    ],
)
def test_tables_of_graphs_in_sglang(accelerator, given, tables):
    """A second context shows what each position of each of the captured requests takes."""
    graphs, sizes = [], []
    for length in (32768, 65536):
        found = _on_sglang("qwen3-8b", {"cuda_graph_max_bs": 64}, accelerator, max_model_len=length, **given)
        graphs += [each.range.expected for each in found.ledger.entries if each.title == "captured graphs"]
        sizes.append(found.job.options.graphs)
    assert set(sizes) == {64}
    assert (graphs[1] - graphs[0]) / 64 / 32768 == pytest.approx(tables, abs=0.3)


def test_sglang_has_a_pool_for_windows():
    """The other pool has 0.8 times as many tokens, and a long sequence needs few of them."""
    found = serve("gpt-oss-20b", engine="sglang")
    pools = [entry.sizes["tokens"] for entry in found.ledger.entries if "pool" in entry.title]
    assert sorted(pools) == [int(found.pool.tokens * 0.8), found.pool.tokens]
    assert found.pool.needed(100) == 125
    assert found.pool.needed(100_000) == 100_000


def test_sglang_has_a_pool_for_states():
    """States get 0.9 times what tokens get."""
    found = serve("qwen3-next-80b-a3b-instruct", engine="sglang", parallelism={"tensor_parallel_size": 4})
    tokens, states = (found.ledger.sum(each) for each in ("KV cache", "recurrent states"))
    assert states / tokens == pytest.approx(0.9, rel=0.01)


def test_tensorrt_llm_takes_what_is_left():
    """Nine tenths of what is free after weights, activations and kernels, in blocks of 32 tokens; graphs come later."""
    found = serve(engine="tensorrt-llm")
    rest = found.capacity - (found.ledger.total - found.ledger.sum("KV cache", "CUDA graphs"))
    assert found.ledger.sum("KV cache") == int(0.9 * rest) // (32 * 131_072) * (32 * 131_072)


def generate(inference, model="phi-2", **more):
    """Generation on one GPU."""
    return serve(model, engine="transformers", inference=inference, hardware={"accelerator": "rtx-4090"}, **more)


def test_generation_by_hand():
    """phi-2: weights, the cache of 2048 tokens and the copy that appends a key; without a cache only activations."""
    found = generate({"prompt_length": 1920, "output_length": 128})
    cached = 2 * 32 * 32 * 80 * 2
    assert found.ledger.sum("KV cache") in (1920 * cached, 2048 * cached + 2048 * 32 * 80 * 2)
    weights = [entry.bytes for entry in found.ledger.entries if entry.module]
    assert sum(weights) == 2 * 2_779_683_840
    without = generate({"prompt_length": 1920, "output_length": 128, "use_cache": False})
    assert without.ledger.sum("KV cache") == 0


def test_four_bits_are_unpacked_to_be_used():
    """NF4 keeps the head in bf16; the largest other matrix exists once unpacked while a prompt is computed."""
    found = generate({"prompt_length": 64, "output_length": 8, "quantization": "nf4"})
    unpacked = next(entry for entry in found.ledger.entries if entry.title == "the largest matrix, dequantized")
    assert unpacked.bytes == 2560 * 10_240 * 2
    head = next(entry for entry in found.ledger.entries if entry.module == "lm_head.weight")
    assert head.bytes == 51_200 * 2560 * 2


def test_layers_are_shared_out():
    """On two GPUs each has half of the layers; the first embeds, the last has the head."""
    found = serve(
        "phi-2", engine="transformers", inference={"prompt_length": 128}, hardware={"accelerator": "t4", "num_gpus": 2}
    )
    assert [rank.name.partition(",")[0] for rank in found.ranks] == ["GPU 0", "GPU 1"]
    one = generate({"prompt_length": 128})
    assert sum(rank.ledger.sum("weights") for rank in found.ranks) == pytest.approx(one.ledger.sum("weights"), rel=1e-3)


def test_llama_cpp_splits_layers():
    """Every GPU has its share of a file; the host keeps the embedding."""
    hardware = {"accelerator": "rtx-4090", "num_gpus": 2}
    found = serve(
        "llama-3.1-70b",
        engine="llama.cpp",
        inference={"quantization": "q4_k_m", "max_model_len": 8192},
        hardware=hardware,
    )
    assert len(found.ranks) == 2
    assert found.budget.host.sum("weights") > 0
    assert sum(rank.ledger.sum("KV cache") for rank in found.ranks) == 8192 * 2 * 80 * 8 * 128 * 2


def test_every_server_answers_without_a_gpu():
    """Without an accelerator there is no verdict, but a need."""
    for engine in ("vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"):
        found = serve(engine=engine, hardware={}, inference={"max_model_len": 4096})
        assert found.fits is None
        assert found.headroom is None
        assert found.ledger.sum("weights") > 0


def test_data_parallel_attention():
    """TensorRT-LLM's ranks then hold all but experts whole, and each has a cache of its own for its own requests."""
    h200 = {"accelerator": "h200-sxm-141gb", "num_gpus": 8}
    kept = {"parallelism": {"tensor_parallel_size": 8}, "hardware": h200, "engine": "tensorrt-llm"}
    split, whole = (serve("deepseek-ai/DeepSeek-V3", enable_attention_dp=each, **kept) for each in (False, True))
    tables = [[e.bytes for e in each.ledger.entries if e.title == "matrix"] for each in (split, whole)]
    assert max(tables[1]) == 8 * max(tables[0]) > 0
    assert whole.job.basics.sizes["EP"] == 8
    assert (split.pool.replicas, whole.pool.replicas) == (1, 8)
    assert whole.pool.bytes_each == split.pool.bytes_each  # a latent vector is not split
    assert whole.pool.users(4096) == 8 * (whole.pool.capacity // whole.pool.needed(4096))
    assert whole.pool.capacity < split.pool.capacity
    dense = serve("llama-3.1-8b", enable_attention_dp=True, **{**kept, "hardware": {**H100, "num_gpus": 8}})
    alone = serve("llama-3.1-8b", engine="tensorrt-llm")
    assert dense.ledger.sum("weights") == alone.ledger.sum("weights")


WIDE = {"engine": "sglang", "parallelism": {"tensor_parallel_size": 8, "data_parallel_size": 4}, "version": "0.5.23"}


@pytest.mark.parametrize(
    ("flags", "dense", "shared", "head"),
    [
        ({}, 8, 8, 8),
        ({"enable_dp_lm_head": True, "moe_dense_tp_size": 1}, 1, 8, 2),
        ({"enable_expert_parallel": True, "moe_a2a_backend": "deepep"}, 8, 1, 8),
    ],
)
def test_groups_of_data_parallel_attention(flags, dense, shared, head):
    """Groups of two ranks split DeepSeek-V3's attention and embedding; 8,192 tokens of a chunk are 2,048 of each."""
    found = serve(
        "deepseek-v3", **WIDE, hardware={"accelerator": "b200", "num_gpus": 8}, enable_dp_attention=True, **flags
    )

    def taken(name):
        return sum(
            each.bytes for each in found.ledger.entries if name in each.module and "scales" not in str(each.title)
        )

    assert taken("q_b_proj.weight") == 61 * 1536 * 128 * 192 // 2
    assert taken("embed_tokens") == 129_280 * 7168 * 2 // 2
    assert taken("lm_head") == 129_280 * 7168 * 2 // head
    assert taken("0-2.mlp.down_proj.weight") == 3 * 18_432 * 7168 // dense
    assert taken("shared_experts.down_proj.weight") == 58 * 2048 * 7168 // shared
    assert taken(".experts.down_proj") == 58 * 256 * 2048 * 7168 // 8
    assert (found.pool.replicas, found.pool.bytes_each) == (4, 61 * 576 * 2)
    assert found.job.options.chunk == 16384 // 4
    reserved = 512 + 1.5 * 16384 + 1024 + 512 * (2 + 4 * 4.5) + (2048 if shared == 1 else 0)
    # TensorRT-LLM's kernels attend, with which no prompts are captured.
    assert found.job.options.fraction == round(1 - reserved / (found.job.capacity // MiB), 3)


@pytest.mark.parametrize(
    ("family", "number", "major", "found"),
    [
        ("qwen3_moe", (0, 5, 23), 9, True),
        ("lfm2", (0, 5, 12), 9, False),
        ("nemotron_h", (0, 5, 18), 9, True),
        ("nemotron_h", (0, 5, 21), 12, False),
        ("nemotron_h", (0, 5, 23), 12, True),
        ("nemotron_h", (0, 5, 23), 9, False),
    ],
)
def test_layers_without_attention_leave_prompts_uncaptured(family, number, major, found):
    basics = SimpleNamespace(raw={"model_type": family}, accelerator=SimpleNamespace(major=major))
    assert finds_attention(basics, number) == found


@pytest.mark.parametrize(
    ("family", "number", "apart"),
    [
        ("gemma2", (0, 4, 10), False),
        ("gemma3_text", (0, 4, 9), False),
        ("gemma3_text", (0, 4, 10), True),
        ("gemma3_text", (0, 5, 23), False),
        ("gpt_oss", (0, 5, 6), False),
        ("gpt_oss", (0, 5, 9), True),
        ("llama4", (0, 5, 6), False),
        ("llama4", (0, 5, 9), True),
    ],
)
def test_windows_have_a_pool_of_their_own_where_they_are_listed(family, number, apart):
    kind = "chunked" if family == "llama4" else "sliding"
    layers = CacheSpec(kind="full", bytes=4096), CacheSpec(kind=kind, bytes=4096, window=512)
    kept = pooled(SimpleNamespace(raw={"model_type": family}), layers, number)
    assert ("sliding" in {each.kind for each in kept}) == apart


@pytest.mark.parametrize(
    ("accelerator", "flags", "room"),
    [
        ("h200-sxm-141gb", {}, 58 * 256 * (2 * 256 * 448 + 7168 * 16)),
        ("h200-sxm-141gb", {"version": "0.5.12"}, 0),
        ("b200", {}, 0),
        ("b200", {"moe_runner_backend": "marlin"}, 58 * 256 * (2 * 256 * 448 + 7168 * 16)),
    ],
)
def test_room_that_marlin_leaves_for_scales(accelerator, flags, room):
    """DeepSeek-R1 in NVFP4 on eight GPUs: an eighth of each of 256 experts, a scale for 16 elements."""
    hardware, ranks = {"accelerator": accelerator, "num_gpus": 8}, {"tensor_parallel_size": 8}
    found = serve("nvidia/DeepSeek-R1-0528-NVFP4-v2", "sglang", hardware=hardware, parallelism=ranks, **flags)
    assert sum(each.bytes for each in found.ledger.entries if str(each.title).startswith("unused swizzled")) == room


@pytest.mark.parametrize(
    ("flags", "more"),
    [({}, 4 * GiB), ({"symm_mem_prealloc": 6}, 6 * GiB), ({"version": "0.5.6"}, 2 * 512 * MiB)],
)
def test_symmetric_memory_ahead(flags, more):
    """FlashInfer attends to prompts and has its workspace next to FlashAttention, which has none."""
    found = serve(
        "llama-3.1-8b", "sglang", hardware={**H100, "num_gpus": 2}, parallelism={"tensor_parallel_size": 2},
        enable_symm_mem=True, prefill_attention_backend="flashinfer", **flags,
    )  # fmt: skip
    sizes = {str(each.title): each.bytes for each in found.ledger.entries if each.category == "workspaces"}
    assert (sizes["results in symmetric memory"], sizes["workspace of attention"]) == (more, 384 * MiB)


@pytest.mark.parametrize(
    ("accelerator", "version", "counted", "beyond"),
    [
        ("h200-sxm-141gb", "0.5.9", 708, 80),
        ("h200-sxm-141gb", "0.5.18", 788, 0),
        ("b200", "0.5.9", 708, 80),
        ("b200", "0.5.12", 708, 0),
        ("mi355x", "0.5.9", 708, 80),
        ("mi355x", "0.5.18", 708, 0),
    ],
)
def test_rows_of_sparse_attention_have_scales(accelerator, version, counted, beyond):
    """GLM-5's 78 layers: 576 of fp8, 132 of the indexer, and 16 of scales with 64 of positions in 16 bits."""
    hardware, ranks = {"accelerator": accelerator, "num_gpus": 8}, {"tensor_parallel_size": 8}
    cache = {"kv_cache_dtype": "fp8"}
    found = serve("zai-org/GLM-5-FP8", "sglang", cache, hardware=hardware, parallelism=ranks, version=version)
    scales = [each.bytes for each in found.ledger.entries if each.title == "scales of the token pool"]
    assert (found.pool.bytes_each, sum(scales)) == (78 * counted, 78 * beyond * found.pool.tokens)


@pytest.mark.parametrize(("version", "groups"), [("0.5.5", 8), ("0.5.6", 1)])
def test_sparse_attention_was_always_data_parallel(version, groups):
    hardware, ranks = {"accelerator": "h200-sxm-141gb", "num_gpus": 8}, {"tensor_parallel_size": 8}
    found = serve("deepseek-v3.2", "sglang", hardware=hardware, parallelism=ranks, version=version)
    assert found.pool.replicas == groups


@pytest.mark.parametrize(
    ("sizes", "flags", "said"),
    [
        ((8, 3), {}, "data_parallel_size: found 3, which must divide the tensor-parallel size"),
        ((8, 4), {"version": "0.4.1"}, "data_parallel_size: found 4, but this release needs"),
        ((8, 8), {"moe_dense_tp_size": 2}, "moe_dense_tp_size: found 2; allowed: 1, or the tensor-parallel size"),
    ],
)
def test_data_parallel_attention_that_sglang_does_not_have(sizes, flags, said):
    parallelism = dict(zip(("tensor_parallel_size", "data_parallel_size"), sizes, strict=True))
    with pytest.raises(ConfigError, match=said):
        serve("deepseek-v3", engine="sglang", hardware=H100, parallelism=parallelism, enable_dp_attention=True, **flags)


@pytest.mark.parametrize(
    ("version", "method", "second"),
    [
        ("0.23.0", "mtp", True),
        ("0.23.0", "dflash", False),
        ("0.24.0", "dflash", True),
        ("0.30.0", "draft", False),
        ("0.31.0", "draft", True),
        ("0.31.0", "ngram", False),
        ("0.32.0", "ngram", True),
        ("0.32.0", "medusa", False),
        ("0.33.0", "medusa", True),
    ],
)
def test_speculation_of_the_second_model_runner(version, method, second):
    """Each release has its own list of methods that it runs."""
    assert (second_runner(version, "qwen3", plain=True, method=method) is not None) == second


@pytest.mark.parametrize(
    ("version", "accelerator", "former"),
    [("0.8.5", "t4", True), ("0.10.1", "v100-sxm2-32gb", True), ("0.10.2", "t4", False), ("0.8.5", "a10", False)],
)
def test_gpus_before_ampere_ran_in_the_former_engine(version, accelerator, former):
    """The former engine computes the whole prompt at once, here 16,384 tokens instead of 2,048."""
    hardware = {"accelerator": accelerator}
    found = serve("qwen2.5-0.5b", inference={"max_model_len": 16384}, hardware=hardware, version=version)
    tokens = {
        entry.sizes["T"] for entry in found.ledger.entries if "T" in entry.sizes and entry.category == "activations"
    }
    assert tokens == {16384 if former else 2048}


def test_flashinfer_sampled_until_0_11_0():
    """Sorting needs 24 bytes more for each logit, which FlashInfer's sampler in vLLM's images does not."""
    room = {each: serve(version=each).rank.uncertain[1] for each in ("0.11.0", "0.11.1")}
    assert room["0.11.0"] - room["0.11.1"] > 1024 * 128_256 * 20


@pytest.mark.parametrize(("engine", "layers"), [("sglang", 42), ("vllm", 24)])
def test_layers_that_read_anothers_keys(engine, layers):
    """Gemma 4 E4B: 18 of 42 layers read another layer's keys and values; SGLang has room for their own, too."""
    found = serve("google/gemma-4-E4B-it", engine)
    assert len(cached_layers(found.job, stages(found.job.model, 1)[0])) == 42
    assert sum(bool(parts) for parts in cached_layers(found.job, stages(found.job.model, 1)[0])) == layers


def test_nothing_in_a_ledger_is_negative():
    """Weights on the host are not in it."""
    found = serve("qwen3-8b", inference={"quantization": "awq"}, cpu_offload_gb=2)
    assert min(entry.bytes for entry in found.ledger.entries) >= 0


def test_latent_attention_kept_products_of_its_matrices():
    """0.7.1 to 0.7.3: 27 layers of 16 heads, each 2048 × 512 for queries, 2048 × 64 rotated, 512 × 2048 for values."""
    old, new = (serve("deepseek-v2-lite", version=each).ledger.sum("weights") for each in ("0.7.3", "0.8.0"))
    products = 27 * 16 * (2 * 2048 * 512 + 2048 * 64) * 2
    assert abs(old - new - products) < 40 * MiB


@pytest.mark.parametrize(
    ("accelerator", "block", "since", "profiled"),
    [
        ("h100-sxm-80gb", 16, "0.20.0", True),
        ("mi300x", 16, "0.26.0", True),  # is_cuda_alike()
        ("arc-pro-b70", 16, "0.31.0", True),
        ("ascend-910b-64gb", 128, None, True),
        ("tpu-v6e", 16, None, False),
    ],
)
def test_vllm_on_other_accelerators(accelerator, block, since, profiled):
    """The block, since when graphs are in the budget, and whether a step is profiled, by accelerator."""
    versions = ("0.19.0", "0.20.0", "0.25.0", "0.26.0", "0.30.0", "0.31.0", "0.33.0")
    found = [serve("gpt2", version=each, hardware={"accelerator": accelerator}) for each in versions]
    inside = [version for version, each in zip(versions, found, strict=True) if each.job.options.facts.graphs_inside]
    assert inside == [each for each in versions if since and each >= since]
    newest = serve("qwen3-4b", hardware={"accelerator": accelerator})
    assert newest.budget.line == pytest.approx(newest.capacity * 0.92, abs=1)
    assert newest.pool.bytes_each == block * 36 * 2 * 8 * 128 * 2
    assert bool(newest.ledger.sum("activations")) == profiled


@pytest.mark.parametrize(
    ("engine", "accelerator", "model", "said"),
    [
        (
            "sglang",
            "tpu-v6e",
            "qwen3-4b",
            "on which this engine is not supported; supported: accelerators of NVIDIA, AMD",
        ),
        ("llama.cpp", "tpu-v6e", "qwen3-4b", "on which this engine is not supported"),
        (
            "vllm",
            "ascend-910b-64gb",
            "Qwen/Qwen3-8B-AWQ",
            "found awq, which vLLM does not support on accelerators of Huawei",
        ),
        ("vllm", "tpu-v6e", "deepseek-v2-lite", "latent attention is not supported yet on TPUs"),
    ],
)
def test_accelerators_that_are_refused(engine, accelerator, model, said):
    """By engine, by format and by attention."""
    with pytest.raises(ConfigError, match=said):
        serve(model, engine, hardware={"accelerator": accelerator})


@pytest.mark.parametrize(("longest", "block"), [(512, 32), (1024, 64), (2048, 128), (8192, 256), (8193, 16)])
def test_blocks_of_tpus(longest, block):
    """A sixteenth of the longest sequence, 16 beyond 8,192 tokens."""
    found = serve(
        "llama-3.1-8b", version="0.26.0", inference={"max_model_len": longest}, hardware={"accelerator": "tpu-v6e"}
    )
    each = 32 * 2 * 8 * 128 * 2
    assert found.pool.bytes_each == block * each


def test_hybrids_on_ascend():
    """A block's keys alone hold a state: 1,536 tokens of a rank of two have Qwen3.8-27B's 24 × 128 × 128 in fp32."""
    found = serve(
        "Qwen/Qwen3.8-27B",
        version="0.23.0",
        inference={"max_model_len": 32768},
        hardware={"accelerator": "ascend-910c-64gb", "num_gpus": 2},
        parallelism={"tensor_parallel_size": 2},
    )
    keys, convolution = 1536 * 2 * 256 * 2, 3 * 5120 * 2
    assert found.pool.bytes_each == 16 * (2 * keys + convolution)


def test_steps_under_way_hold_blocks_of_windows():
    """Gemma 4 31B of vllm, issue 49878: its 8,192 blocks and windows take 45.79 GiB in 0.25.1 and 70.79 in 0.26.0."""
    taken = []
    for version in ("0.25.1", "0.26.0"):
        found = serve(
            "google/gemma-4-31B-it",
            version=version,
            max_num_batched_tokens=32768,
            hardware={"accelerator": "b200"},
        )
        taken.append(found.pool.needed(262144) * found.pool.bytes_each / GiB)
    assert taken == pytest.approx([45.79, 70.79], abs=0.005)


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ({"version": "0.24.0"}, 151936 * 4096 * 2 + 2048 * 4096 * 2),
        ({"version": "0.24.0", "compile_cache": False}, 151936 * 4096 * 2 + 2048 * 4096 * 2),
        ({"version": "0.24.0", "compile_cache": True}, 0),
        ({"version": "0.24.0", "enforce_eager": True}, 0),
        ({"version": "0.18.0"}, 0),
    ],
)
def test_a_first_start_times_kernels_on_an_embedding_table(flags, more):
    """Its peak is the table and what is looked up in it; later starts, eager ones and those before 0.19 have none."""
    found = serve("qwen3-8b", inference={"max_model_len": 8192}, hardware={"accelerator": "rtx-4090"}, **flags)
    table = [entry for entry in found.ledger.entries if entry.title.startswith("first start")]
    assert bool(table) == bool(more)
    if more:
        assert found.ledger.sum("activations") == more


@pytest.mark.parametrize(
    ("mode", "pieces", "whole"),
    [
        (None, [1, 2, 4, 8, 16], [1, 2, 4, 8]),
        ("full_and_piecewise", [1, 2, 4, 8, 16], [1, 2, 4, 8]),
        ("piecewise", [1, 2, 4, 8, 16], []),
        ("full_decode_only", [], [1, 2, 4, 8]),
        ("full", [], [1, 2, 4, 8, 16]),
    ],
)
def test_which_graphs_are_captured(mode, pieces, whole):
    """Whole steps of prompts, too, where FlashAttention 3 attends."""
    given = {} if mode is None else {"cudagraph_mode": mode}
    found = serve("qwen3-4b", inference={"max_num_seqs": 8}, version="0.28.0", hardware=H100, **given)
    assert captured(found.job, found.job.chosen(Options)) == (pieces, whole)


@pytest.mark.parametrize(
    ("version", "flags", "inside"),
    [
        ("0.28.0", {}, True),
        ("0.28.0", {"estimate_cudagraphs": False}, False),
        ("0.28.0", {"cudagraph_mode": "none"}, False),
        ("0.19.0", {}, False),
        ("0.19.0", {"estimate_cudagraphs": True}, True),
        ("0.18.0", {"estimate_cudagraphs": True}, False),
    ],
)
def test_the_estimate_of_graphs_is_taken_from_the_cache(version, flags, inside):
    """By release, or as the environment says."""
    given = {"version": version, "hardware": H100}
    eager, found = (serve("gpt-oss-20b", **given, **each).rank for each in ({"enforce_eager": True}, flags))
    printed = found.graphs_estimated.expected if inside else 0
    started = found.ledger.sum("activations") - eager.ledger.sum("activations")
    assert eager.available - found.available == printed + started


def test_images_are_not_profiled_where_that_is_skipped():
    """The tower's weights stay."""
    both = [serve("qwen3.5-9b", hardware=H100, **flags) for flags in ({}, {"skip_mm_profiling": True})]
    encoded, skipped = ([each for each in found.ledger.entries if each.title == "pixels"] for found in both)
    assert encoded
    assert not skipped
    assert both[0].ledger.sum("weights") == both[1].ledger.sum("weights")
    assert both[1].rank.available > both[0].rank.available


@pytest.mark.parametrize(("accelerator", "least"), [("gb10", 0), ("rtx-5090", 1)])
def test_graphs_next_to_the_hosts_memory(accelerator, least):
    """What the host frees meanwhile may hide all of them."""
    found = serve("qwen3-8b", version="0.28.0", hardware={"accelerator": accelerator})
    low = sum(entry.low for entry in found.ledger.entries if entry.category == "CUDA graphs")
    assert (low > 0) == bool(least)


@pytest.mark.parametrize(
    ("version", "flashinfer", "bytes_each"),
    [("0.11.0", None, 38), ("0.11.0", True, 14), ("0.11.0", False, 38), ("0.16.0", True, 14), ("0.20.0", False, 14)],
)
def test_which_sampler_runs(version, flashinfer, bytes_each):
    """FlashInfer's kernels sort nothing; since 0.17 PyTorch's path does not either."""
    given = {} if flashinfer is None else {"flashinfer_sampler": flashinfer}
    found = serve("qwen3-4b", version=version, enforce_eager=True, hardware=H100, **given)
    logits = [
        entry.bytes
        for entry in found.ledger.entries
        if entry.shape and entry.shape[-1] == "V" and entry.category == "activations"
    ]
    assert sum(logits) == 1024 * 151936 * bytes_each


@pytest.mark.parametrize(("version", "accelerator", "shown"), [
    ("0.17.1", "mi300x", True), ("0.23.0", "mi300x", True), ("0.24.0", "mi300x", False), ("0.17.1", "h100-sxm-80gb", False),
])  # fmt: skip
def test_weights_on_amds_gpus_are_what_the_device_shows(version, accelerator, shown):
    """Free blocks count until 0.23, which the cache does not get; a layer's experts may be there twice."""
    found = serve("Qwen/Qwen3-Coder-Next-FP8", hardware={"accelerator": accelerator}, version=version)
    beyond = [each for each in found.ledger.entries if each.title == "kernels and free blocks while loading"]
    assert bool(beyond) == shown
    assert all(each.high - each.bytes > 3 * GiB > 20 * each.bytes for each in beyond)


@pytest.mark.parametrize(("accelerator", "loaded"), [("a100-pcie-80gb", 34.71), ("gb10", 34.22)])
def test_marlin_scales_every_row_of_fp8_blocks(accelerator, loaded):
    """Measured GiB of Qwen3.5-35B-A3B-FP8; GPUs before Ada multiply it in 16 bits, with scales of each row."""
    found = serve("Qwen/Qwen3.5-35B-A3B-FP8", hardware={"accelerator": accelerator}, version="0.19.0")
    assert found.ledger.sum("weights") / GiB == pytest.approx(loaded, rel=0.002)


@pytest.mark.parametrize(("model", "loaded"), [("Qwen/Qwen3.8-27B-FP8", 28.51), ("RedHatAI/Qwen3.8-27B-INT4", 17.71)])
def test_repositories_of_which_the_recipe_is_known(model, loaded):
    """No other recipe widens the range."""
    found = serve(model, hardware={"accelerator": "l40s"}, version="0.26.0")
    assert not found.recipes
    assert found.ledger.sum("weights") / GiB == pytest.approx(loaded, rel=0.005)


@pytest.mark.parametrize(("told", "estimates"), [(None, False), (True, False), (False, True)])
def test_which_runner_is_told(told, estimates):
    """Before 0.29 the first one alone estimates graphs; dense networks run in the second one since 0.25."""
    found = serve("qwen3-4b", version="0.26.0", **({} if told is None else {"use_v2_model_runner": told}))
    assert (found.rank.graphs_estimated is not None) == estimates


@pytest.mark.parametrize(
    ("version", "told", "accelerator", "cache", "sizes"),
    [
        ("0.8.5", {}, "rtx-4090", "bf16", 67),
        ("0.8.5", {"use_v1": False}, "rtx-4090", "bf16", 35),
        ("0.8.5", {}, "rtx-4090", "fp8", 35),
        ("0.8.5", {}, "h100-sxm-80gb", "fp8", 67),
        ("0.8.2", {"cpu_offload_gb": 1}, "rtx-4090", "bf16", 35),
        ("0.8.5", {}, "mi300x", "bf16", 35),
        ("0.9.2", {}, "mi300x", "bf16", 67),
    ],
)
def test_what_the_former_engine_runs(version, told, accelerator, cache, sizes):
    """It captures 35 sizes, the present one 67 (engine/arg_utils.py, _is_v1_supported_oracle)."""
    found = serve(
        "qwen3-0.6b",
        hardware={"accelerator": accelerator},
        version=version,
        inference={"kv_cache_dtype": cache},
        **told,
    )
    entry = next(each for each in found.ledger.entries if each.title == "captured graphs")
    assert f"{sizes} captured sizes" in str(entry.text)


@pytest.mark.parametrize("version", ["0.7.3", "0.11.0"])
def test_releases_of_one_engine(version):
    with pytest.raises(ConfigError, match="both engines"):
        serve("qwen3-0.6b", version=version, use_v1=True)


@pytest.mark.parametrize(("dtype", "each"), [("fp32", 4), ("bf16", 2)])
def test_sglang_keeps_a_state_for_each_drafted_token(dtype, each):
    """Four requests and one more have 24 layers' states for six drafted tokens and the one before.

    A state is 32 heads' of 128 times 128 values, and the last three inputs of a convolution of 8192 channels.
    """
    found = serve(
        "qwen3.5-9b",
        "sglang",
        {"max_model_len": 32_768, "max_num_seqs": 4, "speculative_method": "mtp", "num_speculative_tokens": 6},
        version="0.5.22",
        mem_fraction_static=0.85,
        mamba_ssm_dtype=dtype,
    )
    kept = {entry.title: entry.bytes for entry in found.ledger.entries}
    assert kept["states of drafts"] == 5 * 7 * 24 * (32 * 128 * 128 * each + 3 * 8192 * 2)


@pytest.mark.parametrize(("version", "less"), [("0.5.17", 0), ("0.5.18", 100 * MiB)])
def test_sglang_keeps_embedded_pictures(version, less):
    """Since 0.5.18 their cache is taken off the room for tokens (SGLANG_VLM_CACHE_SIZE_MB)."""
    found = serve("qwen3-vl-8b", "sglang", mem_fraction_static=0.8, version=version)
    free = 0.8 * (found.job.capacity - found.ledger.sum("outside the allocator"))
    assert found.rank.available == pytest.approx(free - found.ledger.sum("weights") - less, abs=1024)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ollama", {"engine.type": "llama.cpp", "engine.fork": "ollama"}),
        ("Ollama", {"engine.type": "llama.cpp", "engine.fork": "ollama"}),
        ("mlx", {"engine.type": "llama.cpp"}),
    ],
)
def test_programs_that_are_answered_as_an_engine(word, said):
    """The engine that a word stands for is an assumption; settings given next to it stay."""
    config = from_texts({"model": "Qwen/Qwen3-8B", "engine.type": word})
    assert {path: config.get(path) for path in said} == said
    told = {each.path: each.value for each in estimate(config).assumptions if each.notable}
    assert said.items() <= told.items()
    assert config.replaced("engine.fork", "mainline").get("engine.fork") == "mainline"


def test_what_drafting_layers_have_before_they_share_it():
    """SGLang sized its pools with the drafting layer's own embedding and head until 0.5.19."""
    asked = {"speculative_method": "mtp", "num_speculative_tokens": 3, "max_num_seqs": 4}
    before, since = (
        serve("Qwen/Qwen3.6-27B", "sglang", asked, version=each, mem_fraction_static=0.9, max_mamba_cache_size=20)
        for each in ("0.5.18", "0.5.19")
    )
    tables = 2 * 248320 * 5120 * 2
    assert since.rank.available - before.rank.available == tables


def test_slots_of_a_request_next_to_recurrent_states():
    """With drafts, states of tokens that are checked need a part for each request, and an extra buffer makes these fewer."""
    asked = {"speculative_method": "mtp", "num_speculative_tokens": 5, "max_num_seqs": 48}
    kept = {"version": "0.5.20", "mem_fraction_static": 0.92}
    found = {
        each: serve("Qwen/Qwen3.6-27B", "sglang", asked, mamba_radix_cache_strategy=each, **kept).ledger
        for each in ("auto", "extra_buffer", "no_buffer")
    }
    pools = {name: ledger.sum("recurrent states") for name, ledger in found.items()}
    assert pools["auto"] == pools["extra_buffer"] != pools["no_buffer"]
