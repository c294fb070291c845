"""llama.cpp's buffers: weights, caches and compute, against llama.cpp itself and published logs."""

import pytest
from conftest import truth

from memcore import Config, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.networks.catalog import find_model
from memcore.networks.read import read_model
from memcore.servers.llamacpp.buffers import Plan, gaps, llamacpp_buffers
from memcore.servers.llamacpp.caches import cache_type
from memcore.servers.llamacpp.ggml.allocator import Buffer
from memcore.servers.llamacpp.ggml.graph import Graph, apply, leaf, mul_mat
from memcore.servers.llamacpp.ggml.scheduler import Device, Scheduler
from memcore.servers.llamacpp.gguf import gguf_file
from memcore.servers.llamacpp.plan import Flags
from memcore.servers.llamacpp.projector import projector
from memcore.units import MiB

TRUTH = truth("gguf")

TINY = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 4096,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


def flags(given):
    """Flags of a row of the truth."""
    given = {**given, "overrides": tuple(tuple(each) for each in given.get("overrides", ()))}
    return Flags(**given)


def by_device(model, kind, chosen):
    """Bytes of each device: model, caches and states, compute."""
    places = {"model": 0, "cache": 1, "state": 1, "compute": 2}
    found = {}
    for entry in llamacpp_buffers(model, gguf_file(model, kind), chosen):
        if entry.kind in places:
            found.setdefault(entry.device, [0, 0, 0])[places[entry.kind]] += entry.bytes
    return found


def label(row):
    return " ".join([row[0], *(f"{key}={value}" for key, value in row[1].items())])


@pytest.mark.parametrize("row", TRUTH["buffers"], ids=label)
def test_llama_cpp_plans_the_same_buffers(row):
    """Model, cache and compute buffers of every device, as llama.cpp itself plans them: to a kilobyte in a thousand."""
    name, given, expected = row
    found = by_device(find_model(name), "BF16", flags(given))
    assert expected
    for device, sizes in expected.items():
        weights, caches, compute = found.get(device, [0, 0, 0])
        assert abs(weights - sizes[0]) <= 1024
        assert caches == sizes[1]
        assert compute == pytest.approx(sizes[2], rel=1e-3)


@pytest.mark.parametrize("row", TRUTH["logs"], ids=label)
def test_published_logs(row):
    """Compute buffers of releases of 2025 and of ik_llama.cpp, as their logs print them."""
    name, given, expected = row
    found = by_device(find_model(name), "Q4_K_M", flags(given))
    assert expected
    for device, size in expected.items():
        assert found[device][2] / 2**20 == pytest.approx(size, rel=2e-3)


@pytest.mark.parametrize(
    ("model", "build", "settings", "logged"),
    [
        # A quantized cache, the mask in fp32 on the device, and no room for what flash attention unpacks.
        ("Qwen/Qwen3.6-27B", 9200, {"max_model_len": 200192, "kv_cache_dtype": "q8_0"}, 654.78),
        # Room for the logits of all tokens of a micro-batch, and since June 2026 of one.
        ("meta-llama/Llama-3.2-3B-Instruct", 8500, {"max_model_len": 2048}, 284.9),
        ("Qwen/Qwen3-4B", None, {"max_model_len": 8192}, 85.01),
    ],
)
def test_compute_buffers_by_build(model, build, settings, logged):
    """`CUDA0 compute buffer size`, as public logs of llama-server have it."""
    engine = {"type": "llama.cpp", **({"version": build} if build else {})}
    found = estimate(
        Config.from_dict(
            {"model": model, "inference": settings, "engine": engine, "hardware": {"accelerator": "rtx-5090"}}
        )
    )
    assert found.ledger.sum("activations") / 2**20 == pytest.approx(logged, rel=0.025)


def test_weights_of_a_published_file():
    """GLM-4-32B in IQ4_XS with an importance matrix: 16303.48 MiB on the GPU, 471.75 MiB on the host."""
    model = find_model("THUDM/GLM-4-32B-0414")
    plan = Plan(model, gguf_file(model, "IQ4_XS", imatrix=True), Flags())
    found = {entry.device: round(entry.bytes / 2**20, 2) for entry in plan.model_entries()}
    assert found == {"CUDA0": 16303.48, "CPU": 471.75}


def test_the_cache_by_hand():
    """Two heads of 64, keys and values in fp16, for each of 4096 cells and four layers."""
    model = read_model(TINY)
    tensors = gguf_file(model, "F16")
    size = sum(entry.bytes for entry in Plan(model, tensors, Flags(context=4096)).cache_entries())
    assert size == 2 * 4 * 4096 * 2 * 64 * 2
    size = sum(e.bytes for e in Plan(model, tensors, Flags(context=4096, keys="q8_0")).cache_entries())
    # 34 bytes for 32 elements; what fills the last row up to 512 elements comes on top
    assert size == 4 * 4096 * (128 * 34 // 32 + 128 * 2) + 4 * 512
    plan = Plan(model, tensors, Flags(context=5000, sequences=3))
    assert (plan.context, plan.cells, plan.streams) == (3 * 1792, 1792, 3)
    assert Plan(model, tensors, Flags(context=0)).cells == 8192


def test_windows_and_latents():
    """Sliding layers hold their window and a micro-batch; latent attention one row for keys and values."""
    gemma = find_model("gemma-3-4b-it")
    plan = Plan(gemma, gguf_file(gemma, "Q8_0"), Flags(context=32768))
    assert {plan.layer_cells(layer) for layer in plan.layers} == {32768, 1024 + 512}
    names = {entry.name: entry.bytes for entry in plan.cache_entries()}
    assert names == {"sliding window": 29 * 1536 * 2 * 1024 * 2, "full context": 5 * 32768 * 2 * 1024 * 2}
    deepseek = find_model("deepseek-r1")
    plan = Plan(deepseek, gguf_file(deepseek, "Q4_K_M"), Flags(context=2048))
    assert sum(entry.bytes for entry in plan.cache_entries()) == 61 * 2048 * 576 * 2


@pytest.mark.parametrize(
    ("model", "build", "more", "numbers"),
    [
        # Every head's keys of 192 and values of 128: older builds, and files that are older than newer builds.
        ("deepseek-v2-lite", None, {}, 27 * 16 * (192 + 128)),
        ("deepseek-v2-lite", 7342, {"mla": 1}, 27 * (576 + 512)),
        ("deepseek-r1", 4900, {}, 61 * 128 * (192 + 128)),
        ("deepseek-r1", 5200, {}, 61 * (576 + 512)),
        ("deepseek-r1", 5200, {"mla": 0}, 61 * 128 * (192 + 128)),
        ("deepseek-r1", None, {}, 61 * 576),
        ("deepseek-r1", None, {"fork": "ik_llama.cpp"}, 61 * 576),
    ],
)
def test_latent_vectors_by_build_and_file(model, build, more, numbers):
    """Heads' keys and values until April 2025, then latent vectors twice, and since January 2026 once.

    A log of build 7342 has 4,320 MiB for 8 sequences of 2,048 tokens of DeepSeek-Coder-V2-Lite.
    """
    engine = {"type": "llama.cpp", **more, **({} if build is None else {"version": build})}
    config = {
        "model": model,
        "engine": engine,
        "inference": {"max_model_len": 2048, "batch_size": 8},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 8},
    }
    found = estimate(Config.from_dict(config))
    entries = [entry for rank in found.ranks for entry in rank.ledger.entries if entry.category == "KV cache"]
    assert sum(entry.bytes for entry in entries) == 8 * 2048 * numbers * 2


def test_layers_on_devices():
    """The last layers go to GPUs, shared among them; the output counts as one more, the embedding stays on the host."""
    model = read_model(TINY)
    tensors = gguf_file(model, "F16")
    plan = Plan(model, tensors, Flags(gpu_layers=3))
    assert [plan.layer_device(layer) for layer in range(5)] == ["CPU", "CPU", "CUDA0", "CUDA0", "CUDA0"]
    plan = Plan(model, tensors, Flags(gpus=2))
    assert [plan.layer_device(layer) for layer in range(5)] == ["CUDA0", "CUDA0", "CUDA0", "CUDA1", "CUDA1"]
    plan = Plan(model, tensors, Flags(gpus=2, shares=(1, 4)))
    assert [plan.layer_device(layer) for layer in range(5)] == ["CUDA0", "CUDA1", "CUDA1", "CUDA1", "CUDA1"]
    assert plan.tensor_device("token_embd.weight") == "CPU"
    assert plan.tensor_device("output.weight") == "CUDA1"
    plan = Plan(model, tensors, Flags(gpus=0))
    assert {plan.layer_device(layer) for layer in range(5)} == {"CPU"}


def test_experts_on_the_host():
    """`--n-cpu-moe 2` leaves the experts of two layers there, as `-ot` with the same pattern does."""
    model = find_model("qwen3-30b-a3b")
    tensors = gguf_file(model, "Q4_K_M")
    plan = Plan(model, tensors, Flags(host_experts=2))
    assert plan.tensor_device("blk.1.ffn_up_exps.weight") == "CPU"
    assert plan.tensor_device("blk.2.ffn_up_exps.weight") == plan.tensor_device("blk.1.attn_q.weight") == "CUDA0"
    everything = Plan(model, tensors, Flags(overrides=(("exps", "CPU"),)))
    same = Plan(model, tensors, Flags(host_experts=48))
    assert list(everything.model_entries()) == list(same.model_entries())


def test_rows_split_between_gpus():
    """Matrices are shared row by row, in steps of 128; both GPUs together hold what one did."""
    model = read_model(TINY)
    tensors = gguf_file(model, "Q8_0")
    plan = Plan(model, tensors, Flags(gpus=2, split="row"))
    assert list(plan.split_rows(1000)) == [("CUDA0", 384), ("CUDA1", 616)]
    both = sum(entry.bytes for entry in plan.model_entries())
    assert both == sum(entry.bytes for entry in Plan(model, tensors, Flags()).model_entries())


def test_what_the_output_and_fewer_logits_take():
    """Logits of every token of a micro-batch are most of the buffer; llama-server asks for one of each slot."""
    model = read_model({**TINY, "vocab_size": 131072})
    tensors = gguf_file(model, "F16")
    plan = Plan(model, tensors, Flags(sequences=2, context=2048))
    assert plan.output_entry().bytes == 131072 * 2 * 4
    whole = {entry.device: entry.bytes for entry in plan.compute_entries()}
    fewer = Plan(model, tensors, Flags(sequences=2, context=2048, outputs=2)).compute_entries()
    assert whole["CUDA0"] > 512 * 131072 * 4 > 10 * {entry.device: entry.bytes for entry in fewer}["CUDA0"]


def test_flash_attention_where_the_gpu_has_a_kernel():
    """Heads of 64 have one, of 48 have none; without it scores and an fp32 mask are stored."""
    tensors = gguf_file(read_model(TINY), "F16")
    assert Plan(read_model(TINY), tensors, Flags()).flash
    odd = read_model({**TINY, "head_dim": 48})
    assert not Plan(odd, gguf_file(odd, "F16"), Flags()).flash


def test_names_of_cache_types():
    """Any spelling; what is none is refused."""
    assert (cache_type("fp16"), cache_type("q8_0")) == ("F16", "Q8_0")
    with pytest.raises(ValueError, match="q9"):
        cache_type("q9")


def test_gaps_are_named():
    """What llama.cpp computes and this does not follow."""
    assert gaps(find_model("llama-3.1-8b")) == ()
    assert gaps(find_model("deepseek-v3.2")) == ("the indexer of sparse attention",)


def test_the_best_fitting_block_is_taken():
    """Freed blocks merge; the smallest that is large enough is taken, else the buffer grows."""
    buffer = Buffer(128)
    first, second, third = buffer.take(100), buffer.take(1000), buffer.take(300)
    assert (first, second, third, buffer.size) == (0, 128, 1152, 1536)
    buffer.give(second, 1000)
    assert (buffer.take(600), buffer.take(300), buffer.size) == (128, 768, 1536)
    assert buffer.take(500) == 1536


def test_an_operation_takes_its_operands_memory():
    """y = silu(W x) + x: the product's memory is that of the activation, and of the sum."""
    x = leaf("F32", 256, 8, is_input=True)
    weight = leaf("F16", 256, 256)
    weight.place, weight.weight = "CUDA0", True
    graph = Graph()
    graph.expand(apply("ADD", apply("SILU", mul_mat(weight, x)), x))
    assert [node.op for node in graph.nodes] == ["MUL_MAT", "SILU", "ADD"]
    gpu = Device("CUDA0", 128, lambda tensor: tensor.bytes, lambda node: True)
    host = Device("CPU", 32, lambda tensor: tensor.bytes, lambda node: True)
    sizes = Scheduler([gpu, host]).buffers(graph)
    assert sizes == {"CUDA0": (2 * 256 * 8 * 4, 256 * 8 * 4), "CPU": (256 * 8 * 4, 256 * 8 * 4)}


def test_families_without_an_architecture_are_refused():
    """llama.cpp reads what its source lists; for others there is nothing to predict."""
    zamba = truth("checkpoints")["Zyphra/Zamba2-7B"]["config"]
    with pytest.raises(UnsupportedError, match=r"engine\.type: llama\.cpp has no architecture for zamba2"):
        estimate({"model": zamba, "engine": {"type": "llama.cpp"}})


def drafted(version=None, sequences=1, **engine):
    """Qwen3-8B with Qwen3-0.6B as its draft, or alone."""
    draft = {"draft_model": "qwen3-0.6b"} if engine.pop("drafts", True) else {}
    return estimate(
        Config.from_dict(
            {
                "model": "qwen3-8b",
                "inference": {"max_model_len": 8192, "batch_size": sequences, **draft},
                "engine": {"type": "llama.cpp", **({"version": version} if version else {}), **engine},
                "hardware": {"accelerator": "rtx-4090"},
            }
        )
    )


ROW = 28 * 2 * 1024
"""Elements of a token in the draft's cache: 28 layers, keys and values of eight heads of 128."""


@pytest.mark.parametrize(
    ("given", "cached"),
    [
        ({}, 8192 * ROW * 2),
        ({"cache_type_k_draft": "q8_0", "cache_type_v_draft": "q8_0"}, 8192 * ROW * 34 // 32),
        # The target's types are its own.
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 8192 * ROW * 2),
        ({"n_gpu_layers_draft": 15}, 8192 * ROW * 2 // 2),
        ({"sequences": 4}, 4 * 8192 * ROW * 2),
        ({"sequences": 4, "version": 8500}, 4 * 8192 * ROW * 2),
    ],
)
def test_the_cache_of_a_draft_model(given, cached):
    """In fp16 unless -ctkd and -ctvd say otherwise, of the layers that -ngld puts on the GPU."""
    with_draft, alone = drafted(**given), drafted(drafts=False, **_of_the_target(given))
    assert with_draft.ledger.sum("KV cache") - alone.ledger.sum("KV cache") == cached


def _of_the_target(given):
    return {name: value for name, value in given.items() if not name.endswith("_draft")}


def test_the_weights_of_a_draft_model():
    """Those of its own file, of which the embedding stays on the host."""
    model = find_model("qwen3-0.6b")
    for kind in ("Q8_0", "Q4_K_M"):
        plan = Plan(model, gguf_file(model, kind), Flags())
        on_gpu = sum(each.bytes for each in plan.model_entries() if each.device == "CUDA0")
        assert drafted(draft_quantization=kind.lower()).ledger.sum("draft model") == on_gpu
    assert drafted(n_gpu_layers_draft=0).ledger.sum("draft model") == 0
    assert drafted(drafts=False).ledger.sum("draft model") == 0


@pytest.mark.parametrize(("version", "contexts"), [(8500, 4), (None, 1)])
def test_contexts_of_a_draft_model(version, contexts):
    """Each slot has one, until one drafts for all of them (May 2026)."""
    found = drafted(version=version, sequences=4)
    own = [entry.copies for entry in found.ledger.entries if entry.module and entry.category == "activations"]
    assert own == [contexts]


def test_outputs_of_a_draft():
    """Since June 2026 logits of a slot's token and of those that are proposed for it have room on the GPU."""
    few, many = (
        estimate(
            Config.from_dict(
                {
                    "model": "qwen3-8b",
                    "inference": {"max_model_len": 8192, "batch_size": 64, "speculative_method": "ngram",
                                  "num_speculative_tokens": tokens},
                    "engine": {"type": "llama.cpp"},
                    "hardware": {"accelerator": "h100-sxm-80gb"},
                }
            )
        )
        for tokens in (1, 7)
    )  # fmt: skip
    assert many.ledger.sum("activations") > few.ledger.sum("activations")


MTP = {"model": "Qwen/Qwen3.8-27B", "inference": {"max_model_len": 8192, "quantization": "q4_k_m"}}


def test_the_layer_that_predicts():
    """Of logs: 16,084,563,968 B of weights in Q4_K_M, 263,313,408 of them the layer's; its cache and states thrice."""
    plain = estimate({**MTP, "engine": {"type": "llama.cpp"}})
    given = {**MTP["inference"], "speculative_method": "mtp", "num_speculative_tokens": 2}
    found = estimate({**MTP, "inference": given, "engine": {"type": "llama.cpp"}})
    assert plain.ranks[0].ledger.sum("weights") + found.ranks[0].ledger.sum("draft model") == 16_084_563_968
    assert found.ranks[0].ledger.sum("draft model") == 263_313_408
    assert found.ranks[0].ledger.sum("KV cache") == (512 + 32) * MiB
    assert found.ranks[0].ledger.sum("recurrent states") / MiB == pytest.approx(448.88, abs=0.01)


def test_the_layer_that_predicts_is_the_last_of_its_file():
    """Of a log with `-ts 17,13`: 4,896 MiB of cache and 361.59 of states on the first GPU, the layer on the second."""
    inference = {**MTP["inference"], "max_model_len": 262_144, "speculative_method": "mtp", "num_speculative_tokens": 3}
    engine = {"type": "llama.cpp", "cache_type_k": "q8_0", "cache_type_v": "q8_0", "tensor_split": "17/13"}
    first, second = estimate({**MTP, "inference": inference, "engine": engine, "hardware": {"num_gpus": 2}}).ranks
    assert first.ledger.sum("KV cache") == 4896 * MiB
    assert first.ledger.sum("recurrent states") / MiB == pytest.approx(361.59, abs=0.01)
    assert first.ledger.sum("draft model") == 0 < second.ledger.sum("draft model")


def test_gpus_without_a_share_hold_nothing():
    """Shares that are not given are none, and those of GPUs that are not there are left out."""
    found = estimate({**MTP, "engine": {"type": "llama.cpp", "tensor_split": "0,1"}, "hardware": {"num_gpus": 3}})
    assert [each.ledger.sum("weights") > 0 for each in found.ranks] == [False, True, False]
    with pytest.raises(ConfigError, match="expected numbers with commas"):
        Config.from_dict({**MTP, "engine": {"type": "llama.cpp", "tensor_split": "0,half"}})


def test_vulkan_keeps_no_operands_of_experts():
    """428.07 MiB of Gemma 4 26B-A4B in a log of b9849; CUDA's fused kernels keep theirs."""
    sizes = {"max_model_len": 8192, "quantization": "q4_0"}
    engine = {"type": "llama.cpp", "version": 9849, "n_ubatch": 2048}
    job = {"model": "google/gemma-4-26B-A4B", "inference": sizes}
    found = {each: estimate({**job, "engine": {**engine, "ggml_backend": each}}) for each in ("cuda", "vulkan")}
    taken = {name: each.ranks[0].ledger.sum("activations") / MiB for name, each in found.items()}
    assert taken["vulkan"] == pytest.approx(428.07, abs=0.01)
    assert taken["cuda"] > taken["vulkan"] + 100


@pytest.mark.parametrize(
    ("version", "context", "accelerator", "fits", "certain"),
    [
        (4615, 72_000, "radeon-w7900", False, True),
        (4615, 71_000, "radeon-w7900", True, False),  # Mesa allocates 3.97 GiB at once, AMD's own driver does not
        (4615, 71_000, "rtx-5090", True, True),
        (4615, 72_000, "rtx-5090", False, True),
        (6600, 72_000, "radeon-w7900", True, False),  # scores of 3.86 GiB
        (6600, 80_000, "radeon-w7900", False, True),
        (6700, 80_000, "rtx-5090", True, True),
        (7700, 80_000, "radeon-w7900", True, True),
        (None, 80_000, "radeon-w7900", True, True),
    ],
)
def test_what_vulkan_does_not_allocate_at_once(version, context, accelerator, fits, certain):
    """b4615 on an MI60 started with 71,000 tokens and failed with 72,000 (ggml-org/llama.cpp#11598)."""
    engine = {"type": "llama.cpp", "version": version, "ggml_backend": "vulkan", "flash_attn": False}
    found = estimate(
        {
            "model": "Qwen/Qwen2.5-7B-Instruct-1M",
            "inference": {"max_model_len": context, "quantization": "q8_0"},
            "engine": {key: value for key, value in engine.items() if value is not None},
            "hardware": {"accelerator": accelerator},
        }
    )
    assert (found.fits, found.certain) == (fits, certain)
    assert (found.refused is not None) == (not fits)


@pytest.mark.parametrize(
    ("version", "quantization", "host"),
    [(5908, "bf16", False), (5908, "q4_k_m", True), (8700, "q8_0", False), (8720, "q8_0", True)],
)
def test_embeddings_of_each_layer(version, quantization, host):
    """4,697,620,480 bytes of Gemma 3n E4B in 16 bits were to be on the GPU (ggml-org/llama.cpp#14698)."""
    inference = {"max_model_len": 4096, "quantization": quantization}
    engine = {"type": "llama.cpp", "version": version}
    found = estimate({"model": "google/gemma-3n-E4B-it", "inference": inference, "engine": engine})
    assert (found.budget.host.sum("weights") > 1100 * MiB) == host


@pytest.mark.parametrize(
    ("version", "model", "more", "mebibytes"),
    [
        ("0.31.0", "NousResearch/Hermes-3-Llama-3.1-8B", {"max_model_len": 32768, "quantization": "q4_0"}, 248.0),
        ("0.20.0", "meta-llama/Llama-3.2-3B-Instruct", {"max_model_len": 131072}, 408.01),
    ],
)
def test_ollama_by_release(version, model, more, mebibytes):
    """Buffers of logs: llama-server since 0.30, which asks for the logits of a slot; a mask in fp32 before."""
    layers = {"n_gpu_layers": 15} if version == "0.31.0" else {}
    engine = {"type": "llama.cpp", "fork": "ollama", "version": version, "n_batch": 512, **layers}
    found = estimate({"model": model, "inference": more, "engine": engine})
    assert found.ranks[0].ledger.sum("activations") / MiB == pytest.approx(mebibytes, abs=0.01)


@pytest.mark.parametrize(
    ("fork", "model", "more", "engine", "mebibytes"),
    [
        ("libllama", "Qwen/Qwen2.5-Coder-7B-Instruct", ("q8_0", 16_384), {"ggml_backend": "vulkan"}, 304.0),
        ("llama-cpp-python", "Qwen/Qwen3-32B", ("q4_k_m", 16_384), {}, 2136.01),
    ],
)
def test_users_of_the_library(fork, model, more, engine, mebibytes):
    """Buffers of logs: logits of a whole batch, where llama-server's are those of its slots."""
    job = {"model": model, "inference": dict(zip(("quantization", "max_model_len"), more, strict=True))}
    found = estimate({**job, "engine": {"type": "llama.cpp", "fork": fork, **engine}})
    assert found.ranks[0].ledger.sum("activations") / MiB == pytest.approx(mebibytes, abs=0.01)
    usual = estimate({**job, "engine": {"type": "llama.cpp", **engine}})
    assert usual.ranks[0].ledger.sum("activations") < found.ranks[0].ledger.sum("activations")


def test_windows_of_a_library():
    """`swa_full` is the library's default, and no tool's of llama.cpp itself."""
    job = {"model": "google/gemma-3-12b-it", "inference": {"max_model_len": 32_768}}
    found = [estimate({**job, "engine": {"type": "llama.cpp", **each}}).ranks[0].ledger.sum("KV cache")
             for each in ({"fork": "libllama"}, {"swa_full": True}, {})]  # fmt: skip
    assert found[0] == found[1] > 3 * found[2]


def test_windows_of_ollamas_engine():
    """450.0 MiB of gpt-oss 120B at 8,192 tokens: windows keep 4,096 tokens and a batch."""
    engine = {"type": "llama.cpp", "fork": "ollama", "version": "0.11.10", "n_batch": 512}
    found = estimate({"model": "openai/gpt-oss-120b", "inference": {"max_model_len": 8192}, "engine": engine})
    assert found.ranks[0].ledger.sum("KV cache") == 450 * MiB


def test_gemmas_projection_to_all_layers():
    """llama-server b9849 has 26.25 MiB of Gemma 4 E2B's on the GPU, which is not quantized; the table is Q6_K's."""
    found = {tensor.name: tensor for tensor in gguf_file(find_model("gemma-4-e2b"), "Q4_0")}
    assert found["per_layer_model_proj.weight"].bytes == 26.25 * MiB
    assert found["per_layer_token_embd.weight"].shape == (262_144, 8960)


def test_a_build_that_nobody_names():
    """It may have logits of a whole micro-batch: 511 rows of 151,936 values more than the newest build's."""
    job = {"model": "Qwen/Qwen3-8B", "inference": {"max_model_len": 4096, "quantization": "q4_k_m"},
           "hardware": {"accelerator": "rtx-4090"}}  # fmt: skip
    any_build, newest = (
        estimate({**job, "engine": {"type": "llama.cpp", **version}}) for version in ({}, {"version": 12_000})
    )
    one, other = (
        next(each for each in found.ledger.entries if each.category == "activations") for found in (any_build, newest)
    )
    assert (one.bytes, one.high - one.bytes) == (other.bytes, 511 * 151_936 * 4)
    assert other.high == other.bytes
    assert "June 2026" in one.because


def test_a_quantized_cache_of_a_build_that_nobody_names():
    """Builds before June 2026 had no room for an unpacked cache: 808 MiB with 262,144 tokens, not 1,336."""
    job = {"model": "Qwen/Qwen3.5-9B", "inference": {"max_model_len": 262_144, "quantization": "q4_k_m"}}
    cache = {"type": "llama.cpp", "flash_attn": True, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
    entries = [
        next(
            each
            for each in estimate({**job, "engine": {**cache, **more}}).ledger.entries
            if each.category == "activations"
        )
        for more in ({}, {"version": 12_000})
    ]
    assert entries[0].bytes == entries[1].bytes
    assert entries[0].low < 1.02 * 808.02 * MiB < entries[1].low
    assert "unpacked cache" in entries[0].because


def test_a_layer_that_is_loaded_unasked():
    """Builds of May to July 2026 load the layer for multi-token prediction of a file that has it, later ones do not."""
    job = {"model": "Qwen/Qwen3.8-27B", "inference": {"quantization": "q4_k_m", "max_model_len": 8192}}
    found = [
        sum(
            each.high - each.bytes
            for each in estimate({**job, "engine": engine}).ledger.entries
            if "weights" in each.category
        )
        for engine in ({"type": "llama.cpp", "version": build} for build in (9849, 11_151))
    ]
    assert found[0] == pytest.approx(250 * MiB, rel=0.4)
    assert found[1] == 0


TOWERS = {
    ("google/gemma-3-4b-it", "f16"): 851,
    ("Qwen/Qwen2.5-VL-7B-Instruct", "f16"): 1354,
    ("Qwen/Qwen2.5-VL-7B-Instruct", "q8_0"): 853,
    ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", "q8_0"): 593,
}
"""Megabytes of published mmproj files (ggml-org's repositories), with their headers."""


@pytest.mark.parametrize("file", TOWERS, ids=str)
def test_files_of_towers(file):
    model, kind = file
    assert projector(find_model(model), kind).bytes / 1e6 == pytest.approx(TOWERS[file], rel=0.005)
