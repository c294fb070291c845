"""How far a setting goes: the value fits, the next does not, and both are real estimates."""

import pytest

from memcore import ConfigError, MemcoreError, estimate, solve
from memcore.config.settings import Config
from memcore.faces.cli import main
from memcore.faces.render.solution import solution_data, solution_text
from memcore.hardware import find_accelerator
from memcore.networks.catalog import content_of
from memcore.questions.weighing import gpus_to_train

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

GPUS = {"num_gpus": 8, "accelerator": "h100-sxm-80gb"}
DENSE = {
    "model": "llama-3.2-1b",
    "training": {"activation_checkpointing": "full", "sequence_length": 8192},
    "engine": {"type": "fsdp"},
    "hardware": GPUS,
}
LARGE = {**DENSE, "model": "llama-3.1-8b"}
SERVER = {"model": "llama-3.1-8b", "engine": {"type": "vllm"}, "hardware": {"accelerator": "h100-sxm-80gb"}}
AT_HOME = {"model": "gpt2", "engine": {"type": "llama.cpp"}, "hardware": {"accelerator": "rtx-4090"}}
LARGEST = [
    (DENSE, "training.micro_batch_size"),
    (DENSE, "training.sequence_length"),
    (SERVER, "inference.max_model_len"),
]
SMALLEST = [
    (LARGE, "hardware.num_gpus"),
    (LARGE, "hardware.accelerator"),
    (SERVER, "hardware.accelerator"),
]


def fits(config, path, value):
    """Whether a job fits with another value."""
    return estimate(Config.from_dict(config).replaced(path, value)).fits


@pytest.mark.parametrize(("config", "path"), LARGEST, ids=lambda each: each if isinstance(each, str) else "")
def test_the_largest_value_fits_and_the_next_does_not(config, path):
    """The boundary is where estimates say it is."""
    found = solve(config, path)
    assert found.beyond == found.value + found.step
    assert fits(config, path, found.value)
    assert not fits(config, path, found.beyond)


@pytest.mark.parametrize(("config", "path"), SMALLEST, ids=lambda each: each if isinstance(each, str) else "")
def test_the_smallest_value_fits_and_the_one_before_does_not(config, path):
    """Fewest GPUs, in whole nodes beyond one, and the smallest accelerator that does what the job needs."""
    found = solve(config, path)
    assert path != "hardware.num_gpus" or found.value in (1, 2, 4) or found.value % 8 == 0
    assert path != "hardware.accelerator" or find_accelerator(found.value).has_bf16
    assert fits(config, path, found.value)
    assert not fits(config, path, found.beyond)


@pytest.mark.parametrize(
    ("config", "path", "smallest"),
    [
        (SERVER, "engine.gpu_memory_utilization", False),
        (SERVER, "engine.gpu_memory_utilization", True),
        (LARGE, "hardware.gpu_memory_gb", None),
    ],
)
def test_parts_and_sizes_are_solved_too(config, path, smallest):
    """Hundredths of the GPU that a server may use, and the GiB that a job needs."""
    found = solve(config, path, smallest=smallest)
    assert fits(config, path, found.value)
    assert not fits(config, path, found.beyond)
    assert abs(found.value - found.beyond) == pytest.approx(0.01 if "engine" in path else 1)


def test_a_refused_value_is_a_limit():
    """Learned positions end before the memory does, and the answer says so."""
    found = solve({"model": "gpt2", "hardware": {"accelerator": "h100-sxm-80gb"}}, "training.sequence_length")
    assert (found.value, found.beyond) == (1024, 1025)
    assert isinstance(found.limit, MemcoreError)
    assert "1024 learned positions" in str(found.limit)


def test_values_are_as_far_apart_as_they_must_be():
    """Context parallelism divides a sequence among twice as many parts as it has ranks."""
    training = {**DENSE["training"], "implementation": "torchtitan"}
    job = {**LARGE, "training": training, "parallelism": {"context_parallel_size": 4}}
    found = solve(job, "training.sequence_length")
    assert found.step == 8
    assert found.value % 8 == 0


def test_nothing_fits():
    """A model that is too large for one GPU does not fit with any micro-batch."""
    job = {"model": "llama-3.1-70b", "hardware": {"accelerator": "rtx-4090"}}
    found = solve(job, "micro-batch")
    assert (found.value, found.found, found.beyond) == (None, None, 1)
    assert not found.limit.fits


@pytest.mark.parametrize(
    ("config", "setting", "titles", "value"),
    [
        # One change is enough, and which one is said with its flag
        (
            {"model": "llama-3.1-8b", "training": {"sequence_length": 1024, "adapter": {"type": "lora", "rank": 8}},
             "hardware": {"accelerator": "rtx-4090"}},
            "micro-batch", ("Full activation checkpointing",), 4,
        ),
        # Two are needed together, and none that is not
        (
            {"model": "qwen3-8b", "training": {"sequence_length": 8192, "adapter": {"type": "lora", "rank": 8}},
             "hardware": {"accelerator": "rtx-3090"}},
            "micro-batch", ("Fused linear loss", "Full activation checkpointing"), 1,
        ),
        (
            {"model": "llama-3.1-70b", "engine": "vllm", "inference": {"max_model_len": 8192},
             "hardware": {"num_gpus": 2, "accelerator": "h100-sxm-80gb"}},
            "users", ("No more sequences per step than needed",), 2,
        ),
        # Weights alone are too large
        ({"model": "llama-3.1-70b", "hardware": {"accelerator": "rtx-4090"}}, "micro-batch", None, None),
    ],
)  # fmt: skip
def test_a_change_that_lets_a_value_fit_is_said(config, setting, titles, value):
    """What keeps the result is tried; with it the value fits, and the next does not."""
    found = solve(config, setting)
    assert found.value is None
    if titles is None:
        assert found.remedy is None
        return
    assert (found.remedy.titles, found.remedy.solution.value) == (titles, value)
    with_them = estimate(Config.from_dict(config).changed({**found.remedy.changes, found.setting: value}))
    assert with_them.fits
    assert not found.remedy.solution.limit.fits
    assert f"{value} is the largest that fits" in " ".join(solution_text(found).split())
    assert solution_data(found)["remedy"]["value"] == value


SEVENTY = {"model": "llama-3.1-70b", "hardware": {"num_gpus": 8, "accelerator": "rtx-4090"}}
NOTHING_FITS = {
    "GPUs, whose shares end before what is exchanged among them does": ({**SEVENTY}, "gpus", 2048),
    "GPUs that share nothing": ({**SEVENTY, "engine": {"type": "ddp"}}, "gpus", 1),
    "the most that is divided": ({**SEVENTY}, "tp", 8),
    "the fastest of the largest accelerators": ({**SEVENTY, "hardware": {"num_gpus": 1}}, "accelerator", "mi355x"),
    "the shortest sequence": ({**SEVENTY, "engine": {"type": "ddp"}}, "seq", 1),
    "a server's GPUs": ({"model": "llama-3.1-405b", "engine": {"type": "vllm"}, "hardware": {"accelerator": "t4"}},
                        "gpus", 128),
}  # fmt: skip


@pytest.mark.parametrize(("config", "setting", "closest"), NOTHING_FITS.values(), ids=NOTHING_FITS)
def test_where_nothing_fits_the_closest_is_shown(config, setting, closest):
    """No answer is of a value that nobody has: of those that were tried, the one that misses least."""
    found = solve(config, setting)
    assert (found.value, found.beyond) == (None, closest)
    text = solution_text(found)
    assert "no value fits" in text
    vain = "More GPUs do not lessen what each needs. With 1:"
    assert (vain if (setting, closest) == ("gpus", 1) else f"With {closest}, which comes closest:") in text


@pytest.mark.parametrize(
    ("config", "setting", "said"),
    [
        (DENSE, "seqlen", "did you mean"),
        (DENSE, "training.optimizer", "allowed: "),
        ({**DENSE, "hardware": {"num_gpus": 8}}, "seq", "needed to decide what fits"),
        ({**DENSE, "engine": {"type": "ddpp"}}, "seq", "did you mean 'ddp'"),
    ],
)
def test_what_cannot_be_solved_is_refused(config, setting, said):
    """Errors name the setting, and what would do."""
    with pytest.raises(ConfigError, match=said):
        solve(config, setting)


@pytest.mark.parametrize(
    ("config", "word", "path"),
    [
        (DENSE, "batch", "training.micro_batch_size"),
        (DENSE, "context", "training.sequence_length"),
        (SERVER, "batch", "inference.batch_size"),
        (SERVER, "seq", "inference.max_model_len"),
        (AT_HOME, "layers", "engine.n_gpu_layers"),
    ],
)
def test_words_mean_what_the_job_has(config, word, path):
    """A batch is one of training or of requests; all layers and the head are as many as llama.cpp offloads."""
    found = solve(config, word)
    assert found.setting == path
    assert path != "engine.n_gpu_layers" or (found.value, found.beyond) == (13, None)


def test_layers_and_ranks_of_adapters():
    """How deep a model can be, and how wide its adapters: no setting of the first kind exists, but a key of its file."""
    job = {
        "model": "llama-3.2-1b",
        "training": {"sequence_length": 2048, "adapter": {"type": "lora", "rank": 8}},
        "hardware": {"accelerator": "l4"},
    }
    deepest = solve(job, "layers")
    assert deepest.value > 16
    assert (deepest.found.job.model.num_layers, deepest.limit.job.model.num_layers) == (
        deepest.value,
        deepest.value + 1,
    )
    assert (deepest.found.fits, deepest.limit.fits) == (True, False)
    widest = solve(job, "training.adapter.rank")
    assert (widest.found.fits, widest.limit.fits) == (True, False)


def test_layers_that_are_listed_are_not_counted():
    """Nothing is said about models whose layers are of kinds that their file names one by one."""
    with pytest.raises(ConfigError, match="one by one"):
        solve({"model": {**content_of("gpt2"), "layer_types": ["full_attention"] * 12}}, "layers")


def test_what_people_call_a_setting():
    """Users of a server, and the context of each, beside the settings' own names."""
    server = {
        "model": "gpt2",
        "engine": {"type": "vllm"},
        "inference": {"max_model_len": 512},
        "hardware": {"accelerator": "t4"},
    }
    assert solve(server, "users").setting == "inference.batch_size"
    assert solve(server, "users").value == solve(server, "--batch").value


SMALL = {
    "model": {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 704, "vocab_size": 4096,
    },
    "hardware": {"num_gpus": 1, "accelerator": "mi300x"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("hardware", "setting", "value"),
    [({}, "hardware.gpu_memory_gb", 10_000), (SMALL["hardware"], "model.layers", 2048)],
)
def test_what_fits_without_end_ends_where_values_do(hardware, setting, value):
    """Also where the first value does not fit and more of it helps."""
    model = {**SMALL["model"], "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192}
    job = SMALL if hardware else {"model": model}
    found = solve(job, setting, smallest=False)
    assert found.value == value
    assert found.beyond == value + 1
    assert isinstance(found.limit, MemcoreError)


@pytest.mark.parametrize(("engine", "least"), [("sglang", 90_000), ("tgi", 100_000), ("lmdeploy", 180_000)])
def test_a_context_has_to_fit_the_cache(engine, least):
    """Also where a server starts without room for it, and where short ones need more (TGI's warm-up)."""
    hardware = {"num_gpus": 1, "accelerator": "a100-sxm-80gb"}
    served = {"type": engine, **({"allow_longer": True} if engine == "sglang" else {})}
    found = solve({"model": "qwen3-30b-a3b", "engine": served, "hardware": hardware}, "context")
    assert least <= found.value < least + 10_000
    assert found.found.fits
    assert found.found.pool.tokens >= found.value
    assert not found.limit.fits


def test_gpus_of_every_kind_for_a_training_job(capsys):
    """The fewest of each kind fit and half of them do not; a larger GPU never takes more, and hours are the step's."""
    rows = {each.id: each for each in gpus_to_train(estimate(LARGE))}
    assert len(rows) > 30
    assert rows["h100-sxm-80gb"].gpus >= rows["h200-sxm-141gb"].gpus
    for kind in ("h100-sxm-80gb", "a100-sxm-40gb", "l40s"):
        each, gpus = rows[kind], {"accelerator": kind}
        fits = estimate({**LARGE, "hardware": {**gpus, "num_gpus": each.gpus}})
        assert fits.fits
        assert not estimate({**LARGE, "hardware": {**gpus, "num_gpus": max(each.gpus // 2, 2)}}).fits or each.gpus <= 2
        tokens = each.gpus * 8192
        assert each.gpu_hours[1] == pytest.approx(each.seconds[1] * 1e9 / tokens * each.gpus / 3600)
        assert each.nodes == -(-each.gpus // 8)
    prices = {"h100-sxm-80gb": 2.5, "h200-sxm-141gb": 5.0}
    cheapest = gpus_to_train(estimate(LARGE), 10**10, prices)
    assert [each.id for each in cheapest] == sorted(prices, key=lambda kind: prices[kind] * rows[kind].gpu_hours[1])
    for each in cheapest:
        assert each.money[1] == pytest.approx(10 * prices[each.id] * rows[each.id].gpu_hours[1])
    job = ["--model", "llama-3.1-8b", "--seq", "8192", "--checkpointing", "full", "--engine", "fsdp"]
    priced = [f"--price={kind}={price}" for kind, price in prices.items()]
    assert main(["gpus", *job, "--tokens", "10B", *priced]) == 0
    shown = capsys.readouterr().out.splitlines()[-len(cheapest) :]
    for line, each in zip(shown, cheapest, strict=True):
        assert line.startswith(each.id)
        assert line.endswith(f"{each.money[1]:,.0f}")


def test_what_a_server_refuses_is_in_every_face():
    """The longest sequence is the model's own maximum, though the cache has room for more; what follows is refused."""
    found = solve(
        {"model": "qwen3-8b", "engine": "vllm", "hardware": {"accelerator": "h100-sxm-80gb"}}, "inference.max_model_len"
    )
    assert found.value == 40960
    asks = {"model": "qwen3-0.6b", "engine": "llama.cpp", "hardware": {"accelerator": "h100-sxm-80gb"}}
    warned = solve(asks, "inference.max_model_len")  # llama.cpp goes on after a warning
    assert (warned.value, "was trained for 40,960 tokens" in str(warned.limit)) == (40960, True)
    assert solution_data(found)["estimate"]["warnings"] == []
    assert "beyond the model's own maximum" in solution_text(found)
