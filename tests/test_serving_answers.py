"""Questions about servers: fits, longest context, users, GPUs, formats, utilization, sleeping; and errors in configs."""

import json

import pytest
from conftest import predicted, truth
from test_serving_servers import serve

from memcore import Config, ConfigError, UnsupportedError, estimate
from memcore.estimation import is_serving
from memcore.questions.accuracy import Report
from memcore.questions.describe_serving import serving_verdict
from memcore.serving import answers
from memcore.serving.presets import PRESETS, question_parts


def test_what_fits_fits_in_every_answer():
    """The longest context for N users fits them, and one block more does not; users at a length fit at that length."""
    found = serve(version="0.19.0")
    pool = found.pool
    for users in (1, 4, 16):
        longest = answers.longest_context(found, users)
        assert users * pool.needed(longest) <= pool.capacity
        assert longest == 131_072 or users * pool.needed(longest + 16) > pool.capacity
    count = answers.most_users(found, 4096)
    assert count * pool.needed(4096) <= pool.capacity < (count + 1) * pool.needed(4096)


def test_users_that_fit_for_certain():
    """The low end of the range: as many as fit whatever is right, and one more may not."""
    found = serve(inference={"max_model_len": 8192})
    count, sure = found.pool.users(8192), found.pool.certain_users(8192)
    assert 0 < sure < count
    for users, certain in ((sure, True), (sure + 1, False)):
        asked = serve(inference={"max_model_len": 8192, "batch_size": users})
        assert (asked.fits, asked.certain) == (True, certain)
    said = serving_verdict(found).reason
    assert said.endswith(f"room for {count} sequences of 8,192 tokens ({sure} for certain).")


def test_more_is_never_easier():
    """Longer sequences leave room for fewer users."""
    points = answers.curve(serve("gpt-oss-20b"))
    assert [point.users for point in points] == sorted((point.users for point in points), reverse=True)
    assert points[-1].length == 131_072


def test_the_verdict_follows_what_is_asked():
    """A model that leaves no room does not fit, nor do more users than the pool holds."""
    assert serve("llama-3.1-70b").fits is False
    roomy = serve(inference={"max_model_len": 8192, "batch_size": 10})
    crowded = serve(inference={"max_model_len": 8192, "batch_size": 1000})
    relaxed = serve(inference={"max_model_len": 8192, "batch_size": 1000, "mean_length": 256})
    assert (roomy.fits, crowded.fits, relaxed.fits) == (True, False, True)
    assert crowded.headroom == crowded.spare < 0


@pytest.mark.parametrize(
    ("model", "length", "gpus", "chosen"),
    [
        ("llama-3.1-8b", 131072, 1, "bf16"),
        ("llama-3.1-70b", 32768, 4, "nvfp4"),
        ("llama-3.1-70b", 131072, 4, None),
    ],
)
def test_gpus_and_formats(model, length, gpus, chosen):
    """70B takes four H100s in bf16; one holds its 4-bit weights, but not next to a whole context of 40 GiB."""
    found = serve(model, inference={"max_model_len": length})
    assert answers.fewest_gpus(found) == gpus
    assert answers.largest_format(found) == chosen


def test_gpus_of_every_kind():
    """Every accelerator of the catalog gets an answer; a larger GPU never takes more of them."""
    rows = {
        each.id: each.gpus for each in answers.gpus_needed(serve("llama-3.1-70b", inference={"max_model_len": 8192}))
    }
    assert len(rows) > 30
    assert rows["b200"] == 1
    assert rows["h100-sxm-80gb"] >= rows["h200-sxm-141gb"]


def test_two_nodes_have_stages():
    """A cache of 100 GiB for 50 users of 8 heads is not on each node again: 16 GPUs of 24 GB, 8 of each stage."""
    found = serve("qwen3-32b", inference={"max_model_len": 8192, "batch_size": 50}, hardware={"accelerator": "a30"})
    assert answers.fewest_gpus(found) == 16
    rows = {each.id: each.gpus for each in answers.gpus_needed(found)}
    assert rows["rtx-3090"] == rows["rtx-4090"] == 16


@pytest.mark.parametrize(
    ("engine", "model", "accelerator", "chosen", "multiplies"),
    [
        ("vllm", "qwen3-14b", "rtx-4090", "fp8", True),
        ("vllm", "qwen3-14b", "a30", "fp8", False),  # Marlin's kernels unpack it
        ("tensorrt-llm", "qwen3-14b", "a30", "int8", True),  # which has none
        ("vllm", "qwen3-32b", "rtx-5090", "nvfp4", True),
        ("vllm", "qwen3-30b-a3b", "rtx-4090", "nvfp4", False),
    ],
)
def test_the_gpu_has_kernels_for_the_format(engine, model, accelerator, chosen, multiplies):
    """What is only stored in a format is said to be; TensorRT-LLM does not load what the GPU does not multiply in."""
    found = serve(model, engine, {"max_model_len": 4096}, {"accelerator": accelerator})
    name = answers.largest_format(found)
    assert (name, answers.multiplies(found, name)) == (chosen, multiplies)


def test_which_utilization_to_set():
    """With the least that works the sequences asked for fit exactly; with a little less they do not."""
    found = serve(version="0.19.0", inference={"max_model_len": 8192, "batch_size": 16})
    share = answers.utilization(found)
    config = found.job.config
    assert estimate(config.replaced("engine.gpu_memory_utilization", share.least)).fits
    assert not estimate(config.replaced("engine.gpu_memory_utilization", share.least - 0.003)).fits
    most = estimate(config.replaced("engine.gpu_memory_utilization", share.most))
    assert most.device.high <= most.capacity


def test_sleeping_for_training():
    """Asleep a server keeps graphs, workspaces and the context; waking up for weights brings these back first."""
    awake, first, second, weights = answers.sleep_phases(serve(version="0.19.0", inference={"sleep_level": 1}))
    assert first.held == second.held < weights.held < awake.held
    assert weights.held - first.held == serve(version="0.19.0").ledger.sum("weights")


def test_the_usual_exercise():
    """phi-2 in bf16, one sequence of 2048 tokens: weights, embeddings, cache, inputs and temporaries add up."""
    found = estimate(PRESETS["single-gpu-inference"])
    parts = {part.name: part.bytes for part in question_parts(found)}
    assert parts["embeddings and head"] == 2 * 51_200 * 2560 * 2 + 51_200 * 2
    assert parts["input data"] == 2 * 2047 * 8
    assert sum(parts.values()) == found.ledger.total
    without = estimate(Config.from_dict(PRESETS["single-gpu-inference"]).replaced("inference.use_cache", False))
    assert "KV cache" not in {part.name for part in question_parts(without)}
    assert found.fits


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"training": {"sequence_length": 128}, "inference": {"batch_size": 1}},
            "training.sequence_length: a config describes training or inference, not both; leave it out, "
            "or inference.batch_size",
        ),
        (
            {"engine": {"type": "fsdp"}, "inference": {"batch_size": 1}},
            "inference.batch_size: a config describes training or inference, not both; leave one out, "
            "or name a server as engine.type",
        ),
        (
            {"engine": {"type": "sglang", "gpu_memory_utilization": 0.9}},
            "engine.gpu_memory_utilization: applies to engine.type vllm, found engine.type 'sglang'",
        ),
        (
            {"engine": {"type": "vllm"}, "parallelism": {"tensor_parallel_size": 3}},
            "parallelism.tensor_parallel_size: found 3, which does not divide the 32 heads; allowed: 1, 2, 4, 8, 16, 32",
        ),
        (
            {"engine": {"type": "vllm"}, "parallelism": {"tensor_parallel_size": 2}, "hardware": {"num_gpus": 3}},
            "hardware.num_gpus: found 3, but the parallel sizes need 2",
        ),
        (
            {"engine": {"type": "vllm"}, "inference": {"max_model_len": 100, "prompt_length": 90, "output_length": 20}},
            "inference.max_model_len: found 100; prompt and output are 110 tokens",
        ),
        (
            {"engine": {"type": "vllm", "max_num_seqs": 8}, "inference": {"max_num_seqs": 16}},
            "engine.max_num_seqs: found 8, but inference.max_num_seqs is 16; they must agree",
        ),
        (
            {"inference": {"quantization": "fp9"}},
            "inference.quantization: found 'fp9', which is not one of",
        ),
        ({"inference": {"user_count": 3}}, "inference.user_count: unknown key"),
        (
            {"engine": {"type": "llama.cpp"}, "inference": {"quantization": "awq"}},
            "inference.quantization: found 'awq'; llama.cpp reads GGUF types:",
        ),
        (
            {"engine": {"type": "llama.cpp"}, "inference": {"kv_cache_dtype": "fp8"}},
            "inference.kv_cache_dtype: found 'fp8'; llama.cpp caches in f32, f16, bf16",
        ),
    ],
)
def test_contradictions(config, message):
    """What contradicts itself is refused by its path, with what was found and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        estimate({"model": "llama-3.1-8b", **config})
    assert str(caught.value).startswith(message)


def test_parallelism_that_a_server_lacks():
    """Pipelines of llama.cpp are not silently ignored."""
    with pytest.raises(UnsupportedError, match="found 2; not supported yet with llama.cpp"):
        estimate({"model": "gpt2", "engine": {"type": "llama.cpp"}, "parallelism": {"pipeline_parallel_size": 2}})


def test_what_a_server_is():
    """A config is of a server if its engine is one, or if it says something about inference."""
    assert is_serving(Config.from_dict({"model": "gpt2", "engine": {"type": "vllm"}}))
    assert is_serving(Config.from_dict({"model": "gpt2", "inference": {"batch_size": 1}}))
    assert not is_serving(Config.from_dict({"model": "gpt2"}))


CASES = truth("inference")
OLD = {"vllm-2031-l2-70b", "vllm-2031-l2-7b", "vllm-21348-qwen3-235b", "vllm-6746-405b-fp8"}
"""Cases that do not say their release, or a checkpoint's own list of what is quantized, or are of 2023."""


def errors(engine, quantity, *, start=""):
    """Sorted absolute errors."""
    found = [
        abs(each.error)
        for each in predicted("inference")
        if (each.engine, each.quantity) == (engine, quantity) and each.id.startswith(start) and each.id not in OLD
    ]
    return sorted(found)


@pytest.mark.parametrize(
    ("engine", "quantity", "median", "most"),
    [
        ("vllm", "weights", 0.0025, 0.05),
        ("vllm", "kv_cache", 0.003, 0.16),
        ("llama.cpp", "kv_cache", 0.00001, 0.001),
        ("transformers", "max_allocated", 0.001, 0.006),
        ("sglang", "kv_cache_tokens", 0.06, 0.06),
    ],
)
def test_measured_servers(engine, quantity, median, most):
    """Start-up logs: how far off the median and the worst case are."""
    found = errors(engine, quantity)
    assert found[len(found) // 2] <= median
    assert found[-1] <= most


def test_tokens_of_start_up_logs():
    """Tokens that vLLM reports: within 3% for the median and 10% for nine of ten."""
    found = []
    for case in CASES:
        tokens = case["measured"].get("counts", {}).get("kv_cache_tokens")
        if tokens and case["id"] not in OLD:
            found.append(abs(estimate(case["config"]).pool.tokens / tokens - 1))
    found.sort()
    assert len(found) == 40
    assert found[20] < 0.003
    assert found[36] < 0.01


def test_the_identity_of_the_logs():
    """Given a log's own weights and activations, bytes for each token are right to a thousandth."""
    compared = 0
    for case in CASES:
        parts, tokens = (
            case["measured"].get("components", {}),
            case["measured"].get("counts", {}).get("kv_cache_tokens"),
        )
        if not tokens or case["id"] in OLD or case["config"]["parallelism"]["pipeline_parallel_size"] > 1:
            continue
        found = estimate(case["config"])
        blocks = parts["kv_cache"] // found.pool.bytes_each
        groups = found.pool.tokens / (found.pool.capacity * 16)
        assert blocks * groups * 16 == pytest.approx(tokens, rel=1e-3), case["id"]
        compared += 1
    assert compared > 10


def test_every_case_is_expressed():
    """No visible serving case is left out."""
    found = predicted("inference")
    assert [each.id for each in found if each.predicted is None] == []
    assert json.loads(json.dumps(Report(tuple(found)).to_dict()))["summary"]["not_expressible"] == 0


def test_lengths_beyond_the_model_are_named():
    """A server takes such a length only with scaled positions or when it is told to; else it does not start."""
    usual, beyond = serve(inference={"max_model_len": 131_072}), serve(inference={"max_model_len": 131_073})
    assert not [note for note in usual.notes if "positions" in note]
    assert [note for note in beyond.notes if "(131073) is greater than the derived max_model_len" in note]
    other = serve(engine="sglang", inference={"max_model_len": 131_073})
    assert [note for note in other.notes if "(131073) is greater than the derived context_length (131072)" in note]
    for each in (beyond, other):
        assert each.fits is False
        assert each.certain
        assert serving_verdict(each).headline.startswith("Does not start")
        assert answers.longest_context(each, 1) <= 131_072
        assert answers.utilization(each) is None
    lmdeploy = serve(engine="lmdeploy", inference={"max_model_len": 131_073})
    assert [note for note in lmdeploy.notes if "131,073 tokens exceed the 131,072 positions" in note]


@pytest.mark.parametrize(
    ("engine", "starts"),
    [
        ({"type": "vllm", "allow_longer": True}, True),
        ({"type": "vllm", "scaled_positions": 262_144}, True),
        ({"type": "vllm", "scaled_positions": 131_072}, False),
        ({"type": "sglang", "allow_longer": True}, True),
        ({"type": "sglang", "version": "0.3.4"}, True),
        ({"type": "sglang", "version": "0.4.3"}, False),
        ({"type": "sglang", "version": "0.4.6"}, True),
        ({"type": "sglang", "version": "0.5.2"}, False),
    ],
)
def test_what_lets_longer_sequences_in(engine, starts):
    """By the server's environment, its overrides of config.json, and releases of SGLang that allowed it unasked."""
    server = dict(engine)
    found = serve(engine=server.pop("type"), inference={"max_model_len": 131_073}, **server)
    assert found.fits is starts
    assert any("refuses" in note for note in found.notes) is not starts
