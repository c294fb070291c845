"""What plans change and leave, how they are ordered and shown; test_planned_recipes.py has jobs of published recipes."""

import json
from dataclasses import replace

import pytest
from test_planned_recipes import ADAPTER, AGAIN, FORMAT, FULL, LORA, NF4, OPTIMIZER, PRE, gpus, serve, train

from memcore import ConfigError, MemcoreError, estimate, plan
from memcore.config.settings import Config
from memcore.config.texts import from_texts
from memcore.faces.cli import main
from memcore.faces.goals.sentences import asks_for_models
from memcore.faces.render.cards import heading, plan_cards
from memcore.faces.render.page import EXAMPLE
from memcore.faces.render.plans import plans_data, plans_text
from memcore.hardware import BY_ID
from memcore.i18n.page import say
from memcore.questions.planning.bench import larger
from memcore.questions.planning.fitting import fitting
from memcore.questions.planning.rows import METHODS
from memcore.tools import TOOLS, exported, imported
from memcore.units import GiB

pytestmark = pytest.mark.machine


def test_there_is_a_choice():
    """The page's example has three safe plans, of which each frees more than the one before; 8-bit weights free nothing."""
    found = [each for each in plan(EXAMPLE).plans if each.safe]
    assert [each.tier for each in found] == ["same", "quantized", "transfer"]
    assert found[0].headroom < found[1].headroom < found[2].headroom


def test_without_a_plan_the_limit_and_the_least_are_said():
    """What binds is named, with the hardware and the work that would do."""
    found = plan(train("llama-3.1-405b", 8192, gpus(1, "t4")), quality="same")
    assert "needs" in found.none_because
    assert {each.tier for each in found.plans} <= {"hardware", "work"}


@pytest.mark.parametrize(
    ("job", "least", "tiers"),
    [
        (serve("llama-3.1-70b", 8192, gpus(1), batch_size=20), 2, {"quantized", "hardware"}),
        (serve("qwen3-32b", 32768, gpus(2, "rtx-4090"), "sglang", batch_size=16), 2, {"work", "hardware"}),
        (serve("llama-3.1-405b", 8192, gpus(1, "t4")), 1, {"hardware"}),
        (serve("llama-3.1-8b", 131072, gpus(1, "l4"), "tensorrt-llm", batch_size=64), 2, {"work", "hardware"}),
        (train("llama-3.1-405b", 4096, gpus(1, "t4")), 1, {"hardware"}),
        (train("deepseek-v3", 4096, gpus(8)), 1, {"hardware"}),
    ],
)
def test_there_is_always_a_way(job, least, tiers):
    """A server has a choice; what cannot fit at all gets the least hardware or the largest job that does."""
    found = plan(job, keep=4)
    assert len(found.plans) >= least
    assert {each.tier for each in found.plans} == tiers
    assert len({each.title for each in found.plans} | {str(each.config.values) for each in found.plans}) >= least
    assert (found.none_because is None) == any(each.tier not in ("work", "hardware") for each in found.plans)
    assert all(each.fits for each in found.plans)


@pytest.mark.parametrize(
    ("job", "options", "title"),
    [
        # Eight ranks hold a layer's shards; stages that keep gathered parameters say nothing of divisions without any
        (train("llama-3.1-405b", 4096, gpus(64, "t4")), {"quality": "same"}, "torchtitan, TP8, chunked loss, full checkpointing, FSDP's CPU offload"),
        # As many GPUs as the best division needs, not as the undivided model would
        (train("llama-3.1-405b", 4096, gpus(16, "t4"), "megatron", micro_batch_size=1), PRE, "1024 GPUs"),
        (train("llama-3.1-70b", 4096, gpus(8, "t4"), "megatron"), PRE, "NVIDIA B200-SXM-180GB"),
    ],
)  # fmt: skip
def test_what_fits_is_found(job, options, title):
    """A division that fits is found whatever simpler ones need, and what needs least is what the limit is said of."""
    found = plan(job, **options)
    assert any(title in each.title for each in found.plans), [each.title for each in found.plans]
    if found.none_because is not None:
        assert "needs 2," not in found.none_because  # the undivided model's


@pytest.mark.parametrize(
    ("job", "options", "divisions"),
    [
        # MLA's cache is the same on all ranks of tensor parallelism: ranks get users of their own instead, but experts
        # compute the tokens of all of them, so that eight leave less for the cache than four
        (
            serve("deepseek-v3", 16384, gpus(8, "h200-sxm-141gb"), batch_size=100, quantization="fp8"),
            {},
            {"TP2 DP4 EP"},
        ),
        (serve("llama-3.1-405b", 131072, gpus(16), batch_size=16), {}, {"TP8 PP2"}),
        (serve("llama-3.1-8b", 8192, gpus(4), batch_size=16), {}, {"TP4", "DP4"}),
        # Llama 3's third stage has 131,072 tokens on 16,384 GPUs (arXiv 2407.21783, table 4)
        (train("llama-3.1-405b", 131072, gpus(16384), "megatron"), PRE, {"TP8 PP8 CP16"}),
    ],
)
def test_layouts_are_those_of_recipes(job, options, divisions):
    """Servers and trainers are divided as their recipes divide them, and fit on the GPUs that there are."""
    found = [each for each in plan(job, **options).plans if each.tier not in ("hardware", "work")]
    assert divisions <= {each.division for each in found if each.safe}


def test_what_a_full_cache_holds_is_said():
    """A server that starts is not said to be too large: the cache of 1,024 long sequences is."""
    found = plan(serve("deepseek-v3", 16384, gpus(8, "h200-sxm-141gb"), "sglang", batch_size=1024))
    assert "of 1024 sequences of 16,384 tokens" in found.none_because
    assert {each.tier for each in found.plans} == {"work", "hardware"}


def test_quality_and_goal_limit_methods():
    """Pre-training has no adapters; the same quality keeps the optimizer too."""
    job = train("llama-2-7b-hf", 2048, gpus(1, "rtx-4090"))
    assert all(each.config.get(ADAPTER) is None for each in plan(job, goal="pre-train").plans)
    assert {each.tier for each in plan(job, quality="same").plans} <= {"same", "transfer", "hardware", "work"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "x"}, "fine-tune, full-fine-tune, pre-train"),
        ({"quality": "x"}, "same, close, any"),
        ({"headroom": 2}, "fraction"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    """An error says what is allowed."""
    with pytest.raises(ConfigError, match=message):
        plan(train("gpt2", 1024, gpus(1)), **options)


@pytest.mark.parametrize(
    ("model", "accelerator", "offered"),
    [
        ("gpt-oss-120b", "rtx-5090", True),
        ("qwen3-32b", "rtx-3060-12gb", True),
        ("llama-3.1-405b", "h100-sxm-80gb", False),
    ],
)
def test_a_server_that_cannot_load_gets_another(model, accelerator, offered):
    """Weights too large for vLLM run with some of them on the host, where a token does not wait a second for these."""
    found = plan(serve(model, 8192, gpus(1, accelerator), "vllm", batch_size=1), keep=3)
    servers = {each.config.get("engine.type"): each for each in found.plans if each.tier != "hardware"}
    assert set(servers) == ({"llama.cpp"} if offered else set())
    assert all(each.host > 4 * GiB and "weights are stored" in each.quality for each in servers.values())


def test_a_length_that_the_server_refuses_is_said():
    """No memory helps where vLLM ends at a sequence beyond the model's own maximum; shorter ones are proposed."""
    found = plan(serve("qwen3-8b", 131072, gpus(1, "h100-sxm-80gb"), "vllm", batch_size=1))
    assert "greater than the derived max_model_len" in found.none_because
    assert {each.tier for each in found.plans} == {"work"}


def test_without_an_accelerator_nothing_is_planned():
    """The error names the setting."""
    with pytest.raises(ConfigError, match="accelerator"):
        plan({"model": "gpt2", "training": {"sequence_length": 1024}})


def test_rows_have_sources():
    """Each row says why, and where that is written."""
    rows = [knob for method in METHODS for knob in method.knobs]
    assert rows
    assert all(each.why and each.source for each in rows)


def test_faces(capsys):
    """The text names each plan; the JSON is the contract's."""
    job = ["--model", "llama-2-7b-hf", "--seq", "2048", "--accelerator", "rtx-4090", "--gpus", "1"]
    assert main(["plan", *job]) == 0
    text = capsys.readouterr().out
    assert "Plan 1: " in text
    assert main(["plan", *job, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) >= {"asked", "plans", "none_because"}
    first = data["plans"][0]
    assert set(first) >= {
        "title", "config", "changes", "fits", "device_bytes", "headroom_bytes", "step_seconds", "quality", "exports",
    }  # fmt: skip
    assert set(first["changes"][0]) == {"path", "from", "to", "why"}
    assert first["device_bytes"]["low"] <= first["device_bytes"]["expected"] <= first["device_bytes"]["high"]
    found = plan(train("llama-2-7b-hf", 2048, gpus(1, "rtx-4090")))
    assert plans_data(found)["plans"][0]["config"] == first["config"]
    assert found.plans[0].title in plans_text(found)


def test_where_a_job_may_fit_only_what_is_sure_helps():
    """The page's cards leave out plans as tight as the job; where all are tight, or the job is too large, all stay."""
    lora = {"adapter": {"type": "lora", "rank": 16}, "activation_checkpointing": "full", "sequence_length": 4096}
    found = plan(Config.from_dict({"model": "llama-3.1-8b", "training": lora, "hardware": {"accelerator": "rtx-4090"}}))
    tight = [each for each in found.plans if not each.safe]
    assert 0 < len(tight) < len(found.plans)
    for certain, some in ((True, found), (False, found), (True, replace(found, plans=tuple(tight)))):
        cards = plan_cards(some, certain=certain, done=True)
        assert cards.count('data-safe="false"') == (0 if certain and some is found else len(tight))
        assert heading(some, certain=certain) == say("ways-sure" if certain and some is found else "ways-plans")


def test_what_is_offloaded_needs_a_host(capsys):
    """A plan that offloads says how much RAM a node needs, which is what `estimate` says of its config; others do not."""
    job = ["--model", "llama-3.1-8b", "--seq", "2048", "--accelerator", "rtx-4090", "--gpus", "1"]
    assert main(["plan", *job, "--json", "--quality", "same"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    on_host = {each["title"]: each["node_host_bytes"] for each in plans}
    assert {title.endswith("on the host") for title, held in on_host.items() if held} == {True}
    for each in plans:
        kept = sum(part.bytes for part in estimate(each["config"]).rank.host)
        assert each["node_host_bytes"] == kept
    assert main(["plan", *job, "--quality", "same"]) == 0
    offloading = sum(map(bool, on_host.values()))
    text = capsys.readouterr().out
    assert text.count(" of RAM.\n") == offloading > 0
    assert text.count("--assume host_room=") == sum(held > 128 * 10**9 for held in on_host.values()) > 0
    found = plan(train("llama-3.1-8b", 2048, gpus(1, "rtx-4090")), quality="same")
    assert [each.host_room is None for each in found.plans] == [held <= 128 * 10**9 for held in on_host.values()]
    roomy = plan(train("llama-3.1-8b", 2048, gpus(1, "rtx-4090")), quality="same", rates={"host_room": 10**12})
    assert all(each.host_room is None for each in roomy.plans)
    assert plan_cards(found, certain=False, done=True).count(" of RAM on each node") == offloading


def test_days_and_money_by_hand(capsys):
    """Tokens over tokens of a step are steps; the range is the step's, and money is GPU-hours times the price."""
    job = ["--model", "llama-3.1-8b", "--seq", "4096", "--accelerator", "h100-sxm-80gb", "--gpus", "8"]
    assert main(["plan", *job, "--tokens", "1B", "--price", "2.5", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert plans
    for each in plans:
        gpus_of, budget = each["config"]["hardware"]["num_gpus"], each["budget"]
        for end in ("low", "expected", "high"):
            seconds = each["step_seconds"][end] * 10**9 / each["step_tokens"]
            assert budget["days"][end] == pytest.approx(seconds / 86400)
            assert budget["gpu_hours"][end] == pytest.approx(seconds * gpus_of / 3600)
            assert budget["money"][end] == pytest.approx(2.5 * budget["gpu_hours"][end])
            if each["config"]["hardware"]["accelerator"] == "h100-sxm-80gb":
                assert budget["kwh"][end] == pytest.approx(0.7 * budget["gpu_hours"][end])
    assert main(["plan", *job, "--tokens", "1B"]) == 0
    text = capsys.readouterr().out
    assert "1B tokens: " in text
    assert "tokens/s" in text
    for wrong in (["--price", "2"], ["--price", "-1", "--tokens", "1B"], ["--price", "much", "--tokens", "1B"]):
        assert main(["plan", *job, *wrong]) == 2
        assert "--price" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "vendor"),
    [
        (train("llama-3.1-70b", 8192, gpus(1, "mi210")), "AMD"),
        (train("llama-3.1-70b", 8192, gpus(1, "l40s")), "NVIDIA"),
        (serve("llama-3.1-70b", 8192, gpus(1, "rtx-4090"), quantization="bf16"), "NVIDIA"),
    ],
)
def test_a_larger_gpu_is_of_the_same_vendor(job, vendor):
    """Who has one vendor's GPUs runs that vendor's software."""
    now = estimate(job).job.accelerator
    found = [each.to["hardware.accelerator"] for each in larger(now.usable, now)]
    assert found
    assert {BY_ID[each].vendor for each in found} == {vendor}
    assert all(BY_ID[each].usable > now.usable for each in found)
    offered = {each.config["hardware.accelerator"] for each in plan(job, quality="same").plans}
    assert {BY_ID[each].vendor for each in offered} <= {vendor}


CHOICES = {
    "a checkpoint in fp8 already": (serve("deepseek-v3", 16384, gpus(8, "h200-sxm-141gb")), "weights in fp8"),
    "a GPU without kernels for fp8": (serve("llama-3.1-8b", 4096, gpus(1, "t4"), "tgi"), "weights in fp8"),
    "CUDA graphs that there is room for": (
        serve("gemma-3-27b-pt", 16384, gpus(2, "l40s"), batch_size=30, quantization="fp8"),
        "no CUDA graphs, half the tokens",
    ),
    "a context that one GPU holds": (serve("qwen3-30b-a3b", 16384, gpus(1, "rtx-3090"), "llama.cpp"), "2 GPUs"),
}


@pytest.mark.parametrize(("job", "never"), CHOICES.values(), ids=CHOICES)
def test_servers_have_a_choice_of_what_helps(job, never):
    """Three plans at least, no two alike, none with what the checkpoint has, its GPU lacks or nobody needs."""
    found = plan(job).plans
    titles = [each.title for each in found]
    assert len(set(titles)) == len(titles) >= 3
    path = "hardware.accelerator"
    assert not any(never in each.title for each in found if each.config.get(path) == job["hardware"]["accelerator"])


def test_a_better_format_is_the_best_that_fits():
    """Of a server whose format nobody named; a format that is named stays."""
    job = serve("qwen3-30b-a3b", 16384, gpus(1, "rtx-3090"), "llama.cpp")
    better = [each for each in plan(job).plans if each.config.get(FORMAT)]
    assert [each.config.get(FORMAT) for each in better] == ["q5_k_m"]
    assert not estimate({**job, "inference": {**job["inference"], FORMAT.split(".")[1]: "q6_k"}}).fits
    named = {**job, "inference": {**job["inference"], "quantization": "q4_k_s"}}
    assert {each.config.get(FORMAT) for each in plan(named).plans} == {"q4_k_s"}


def test_changes_say_why_and_only_what_changes():
    """No setting that spells out a default; every one with a reason of its own; no sequence parallel on one rank."""
    found = plan(train("qwen3-30b-a3b", 4096, gpus(64)), **PRE)
    megatron = next(each for each in found.plans if each.config.get("engine.type") == "megatron")
    reasons = {each.path: each.why for each in megatron.changes}
    assert "parallelism.tensor_parallel_size" not in reasons
    assert "parallelism.sequence_parallel" not in reasons
    assert reasons["parallelism.expert_parallel_size"] == "experts are distributed over GPUs"
    assert reasons["engine.type"] == "runs with Megatron-Core"
    alone = plan(train("llama-3.2-3b", 2048, gpus(1, "rtx-4090"))).plans[0]
    paths = {each.path for each in alone.changes}
    assert paths
    assert paths.isdisjoint({"engine.type", "training.micro_batch_size", "training.gradient_accumulation_steps"})


def test_checkpoints_of_long_sequences_wait_on_the_host():
    """Where QLoRA and checkpointing are not enough, what is left on one GPU is layers' inputs: 32 of 32k · 4096."""
    plans = plan(train("llama-3.1-8b", 32768, gpus(1, "rtx-4090"))).plans
    found = next(each for each in plans if str(each.config.get(NF4)).startswith("nf4"))
    assert found.config.get("training.offload.activations") == "cpu"
    assert found.host >= 32 * 32768 * 4096 * 2


def test_what_frees_less_than_the_estimate_can_tell_is_no_choice():
    """Frozen weights in int8 next to towers in bf16: slower than LoRA, and 0.2 of 19 GiB less."""
    found = plan(train("qwen2.5-vl-7b", 4096, gpus(1, "rtx-4090")))
    assert len(found.plans) >= 3
    assert not any(each.config.get(NF4) == "int8" for each in found.plans)


def test_a_terminal_says_what_a_server_is_worth():
    """Tokens per second instead of seconds per step, and what the cache holds."""
    text = plans_text(plan(serve("llama-3.1-70b", 8192, gpus(2))))
    assert any(each.endswith("tokens/s  plan") for each in text.splitlines())
    assert "room for" in text
    assert " step " not in text.partition("\n")[0]


def test_pairs_keep_their_batch():
    """A method that compares pairs has as many of them in a plan's step as in the job's."""
    job = train("mistral-7b-v0.1", 1024, gpus(8), method="dpo", micro_batch_size=4)
    asked, plans = estimate(job).job, plan(job).plans
    assert plans
    for each in plans:
        found = each.found.job
        assert found.micro_batch * found.micro_batches * found.num_gpus == 8 * asked.micro_batch * asked.micro_batches


def test_gpus_without_fast_links_do_not_split_matrices_first():
    """On two RTX 4090s QLoRA with FSDP comes first, as axolotl's recipes have it, and torchtitan has no NF4."""
    found = plan(train("qwen3-14b", 2048, gpus(2, "rtx-4090"))).plans
    assert found[0].way == "FSDP"
    assert found[0].config.get(NF4) == "nf4"
    assert not any(each.way == "torchtitan" and each.config.get(NF4) for each in found)


def test_experts_are_quantized_too():
    """Axolotl's QLoRA of GLM-4.5-Air takes 63.4 GiB (examples/glm45/README.md): attention learns, experts are in NF4."""
    first = plan(train("glm-4.5-air", 2048, gpus(1))).plans[0]
    assert first.config.get("engine.quantize_moe_experts") is True
    assert list(first.config.get("training.adapter.target_modules")) == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert 60 < first.found.device.expected / 2**30 < 70
    assert "quantize_moe_experts: true" in first.exports["axolotl"]
    assert first.left_out == ()


@pytest.mark.parametrize(
    ("job", "loops"),
    [
        (train("llama-3.1-405b", 4096, gpus(64), adapter=LORA, activation_checkpointing="full"), {"megatron-swift"}),
        (train("phi-4", 2048, gpus(1)), {"torchtune"}),
        (train("qwen2.5-32b", 65536, gpus(8)), {"ms-swift"}),
        (train("gpt-oss-20b", 2048, gpus(1, "rtx-4090"), adapter=LORA, quantization="nf4"), {"unsloth"}),
    ],
)
def test_a_plan_names_the_loop_that_runs_all_of_it(job, loops):
    """LoRA with Megatron needs a loop around it, a step in the backward pass torchtune, Ulysses ms-swift."""
    found = [each for each in plan(job).plans if loops & each.exports.keys()]
    assert found
    for each in found:
        assert each.left_out == ()
        assert estimate(each.config).device.expected == each.found.device.expected


@pytest.mark.parametrize("number", [1, 2])
def test_what_would_not_run_is_not_proposed(number):
    """Neither 4-bit weights that DeepSpeed offloads, nor what bitsandbytes has for one GPU alone on two."""
    found = plan(train("gemma-3-27b-it", 4096, gpus(number, "rtx-4090"), adapter=LORA, quantization="nf4")).plans
    assert any(each.safe for each in found)
    for each in found:
        assert each.config.get("engine.offload_param") is None
        assert number == 1 or "bnb_4bit_quant_storage" in "".join(each.exports.values())
        assert number == 1 or not str(each.config.get(OPTIMIZER)).startswith("paged")


@pytest.mark.parametrize(
    ("model", "number", "tokens"),
    [("llama-3.2-1b", 8, 2**20), ("llama-3.1-8b", 64, 2**21), ("llama-3.1-70b", 1024, 2**23)],
)
def test_pre_training_has_a_usual_batch(model, number, tokens):
    """GPT-3's and Llama 2's batches by size, at least a sequence for each GPU, and said; what a job states holds."""
    job = train(model, 8192, gpus(number))
    found = plan(job, goal="pre-train", keep=1)
    assert found.plans[0].tokens == tokens
    assert f"{tokens:,}" in str(found.assumed)
    job["training"]["micro_batch_size"] = 1
    stated = plan(job, goal="pre-train", keep=1)
    assert (stated.plans[0].tokens, stated.assumed) == (8192 * number, None)


def test_a_named_framework_loses_no_plans():
    """Axolotl's plan is the same as that of a script whose framework nobody names."""
    job = train("glm-4.5-air", 2048, gpus(1))
    titles = [plan(each).plans[0].title for each in (job, {**job, "engine": {"framework": "axolotl"}})]
    assert titles[0] == titles[1]


def test_gradients_in_bf16_spare_recomputation():
    """Megatron Bridge's recipes reduce in bf16 (perf_recipes/_common.py): Qwen3-30B-A3B on 16 computes nothing twice."""
    found = plan(train("qwen3-30b-a3b", 4096, gpus(16), "megatron", micro_batch_size=1), **PRE).plans
    same, narrow = found[0], next(each for each in found if each.tier == "states")
    assert narrow.config.get("engine.grad_reduce_in_bf16") is True
    assert same.config.get(FULL) == "full" != narrow.config.get(FULL)
    assert narrow.seconds[1] < same.seconds[1]


def test_a_far_faster_plan_may_leave_less_free():
    """PP4 EP8 fits with 8 % left; what leaves 10 % takes more than twice as long."""
    found = plan(AGAIN["106B of experts on 32"][0], **PRE).plans
    assert [each.safe for each in found[:3]] == [True, True, False]
    assert found[2].fits
    assert 1.5 * found[2].seconds[1] < min(each.seconds[1] for each in found[:2])


def test_the_fewest_bits_are_a_last_resort():
    """Below four bits only where these do not fit, after layers on the host, with what llama.cpp measured."""
    found = plan(serve("llama-3.1-70b", 8192, gpus(1, "rtx-4090"), "llama.cpp")).plans
    assert [each.tier for each in found[:2]] == ["transfer", "quantized"]
    assert found[1].config.get(FORMAT) == "iq2_xxs"
    assert "126 %" in str(found[1].quality)
    assert not any(
        str(each.config.get(FORMAT)).startswith(("iq", "q2", "q3")) for each in found if each.tier == "hardware"
    )


def test_gpus_before_ampere_have_no_ring_in_bf16():
    """Long sequences on V100s end in plans, none of which divides sequences with a kernel that the GPU lacks."""
    found = plan(train("llama-3.2-1b", 32768, gpus(8, "v100-sxm2-32gb")))
    assert found.plans
    ring = {"model": "llama-3.2-1b", "hardware": gpus(2, "t4"), "parallelism": {"context_parallel_size": 2}}
    ring["training"] = {"sequence_length": 4096, "implementation": "torchtitan"}
    with pytest.raises(MemcoreError, match="allowed: fp16-mixed"):
        estimate(ring)


@pytest.mark.parametrize(
    "job",
    [
        train("qwen3-32b", 4096, gpus(2, "rtx-4090")),
        train("qwen3-14b", 4096, gpus(1, "rtx-3060-12gb")),
        train("qwen3-30b-a3b", 4096, gpus(8)),
        train("qwen2.5-32b", 8192, gpus(8, "a100-sxm-40gb"), "deepspeed"),
    ],
)
def test_a_tool_can_say_all_of_a_plan(job):
    """No plan of these needs what its tool has no words for, but for the hardware that it runs on."""
    found = plan(job).plans
    assert found
    for each in found:
        written = each.export()
        assert written is not None
        assert [path for path in written.left_out if not path.startswith("hardware.")] == [], each.title


@pytest.mark.parametrize(
    ("job", "is_there"),
    [
        (train("llama-3.1-70b", 8192, gpus(32)), True),
        (train("qwen2.5-72b", 8192, gpus(32)), False),
        (train("llama-3.1-70b", 8192, gpus(32)) | {"training": {"adapter": "lora", "sequence_length": 8192}}, False),
        (train("llama-3.1-70b", 8192, gpus(32)) | {"training": {"optimizer": "lion", "sequence_length": 8192}}, False),
    ],
)
def test_torchtitan_runs_what_it_has_code_for(job, is_there):
    """Models of its own, without adapters, and with its optimizers."""
    assert any(each.way == "torchtitan" for each in plan(job, goal="pre-train").plans) is is_there


@pytest.mark.parametrize(("version", "loss"), [(None, "chunked:8"), ("0.2.2", None)])
def test_torchtitan_s_loss_in_chunks_needs_a_function(version, loss):
    """Files, which 0.2.2 reads, had none; where torchtitan reads a function, the plan's module has the loss."""
    job = train("llama-3.1-70b", 8192, gpus(64))
    job["engine"] = {"framework": "torchtitan", "framework_version": version} if version else {}
    plans = [(each, each.export()) for each in plan(job, goal="pre-train").plans]
    found, written = next((each, text) for each, text in plans if text.tool.name == "torchtitan")
    assert found.config.get("training.loss") == loss
    assert ("ChunkedLossWrapper" in written.text) == (loss is not None)


def test_plans_for_a_named_tool_are_run_by_it():
    """Unsloth has no optimizer that steps in the backward pass, so that no plan for it has one."""
    job = {
        "model": "qwen2.5-7b", "training": {"sequence_length": 2048, "implementation": "unsloth"},
        "engine": {"framework": "unsloth"}, "hardware": {"num_gpus": 1, "accelerator": "rtx-4090"},
    }  # fmt: skip
    found = plan(job, tool="unsloth").plans
    assert len(found) >= 3
    assert all(each.is_run_by(TOOLS["unsloth"]) and not each.config.get("engine.optimizer_in_bwd") for each in found)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("which model fits 12 GB?", {"Qwen/Qwen3-14B": "q4_k_m", "Qwen/Qwen3-8B": "q8_0"}),
        ("what can I run on a 3090?", {"Qwen/Qwen3-32B": "q4_k_m", "Qwen/Qwen3-8B": "q8_0"}),
        ("biggest LLM for one H100?", {"Qwen/Qwen3-32B": "bf16", "Qwen/Qwen3-8B": "bf16"}),
    ],
)
def test_models_that_some_gpus_run(question, expected):
    """The largest of each that fits in the format with most bits that does, with 8,192 tokens; 32B not in 12 GB."""
    hardware = from_texts({**asks_for_models(question), "model": "gpt2"})
    found = [*fitting(hardware, ("Qwen/Qwen3-32B", "Qwen/Qwen3-14B", "Qwen/Qwen3-8B"), 3)]
    formats = {each.name: each.format for each in found}
    assert expected.items() <= formats.items()
    assert ("Qwen/Qwen3-32B" in formats) == ("12 GB" not in question)
    assert all(each.length >= 8192 and each.found.fits for each in found)


@pytest.mark.parametrize(
    ("model", "form", "name"),
    [
        ("qwen3-32b", "awq", "Qwen/Qwen3-32B-AWQ"),
        ("llama-3.3-70b-instruct", "int4", "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16"),
        ("qwen3-30b-a3b", "nvfp4", "nvidia/Qwen3-30B-A3B-NVFP4"),
    ],
)
def test_a_command_names_weights_that_exist(model, form, name):
    """A server makes no weights in 4 bits: its command names a repository of them, which is estimated the same."""
    job = Config.from_dict(serve(model, 4096, gpus(1, "b200"), quantization=form))
    written = exported(job, "vllm")
    assert name in written.text
    assert "--quantization" not in written.text
    read = imported(written.text).config
    again = estimate({**read, "hardware": job.to_dict()["hardware"]})
    assert again.ledger.sum("weights") == estimate(job).ledger.sum("weights")


def test_users_limit_graphs_before_graphs_are_given_up():
    """What costs no speed comes first: sequences per step for the users there are, and a length that chats have."""
    job = serve("qwen3-32b", None, gpus(2, "rtx-4090"), quantization="awq", batch_size=10)
    found = plan(job)
    first = found.plans[0].config
    assert found.assumed is not None
    assert (first["inference.max_num_seqs"], first["inference.max_model_len"]) == (10, 8192)
    assert not any(each.config["engine.enforce_eager"] for each in found.plans[:2])
