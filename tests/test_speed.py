"""Step times against published runs, by kind: the error that is written down, and what is inside the range."""

import json
from collections import defaultdict
from contextlib import suppress
from statistics import fmean

import pytest
from conftest import TRUTH, timed, truth

from memcore import Config, ConfigError, UnsupportedError, estimate
from memcore.hardware import ACCELERATORS, FLASH_SHARES
from memcore.questions.accuracy import SPEEDS
from memcore.questions.costs import cost_of, seconds_of
from memcore.questions.roofline import roofline_for, roofline_of
from memcore.questions.scans import SCANS
from memcore.symbols import measure, product

pytestmark = pytest.mark.machine
CASES = [
    each for name in ("speed", "fresh", "winter_speed", "late_speed", "baseline_speed", "spring_speed", "plan_speed", "planb_speed", "planc_speed", "step1_speed") for each in truth(name) if each["measured"]["quantity"] in SPEEDS
]  # fmt: skip
ERRORS = {
    "autumn, dense": 0.09,
    "autumn, experts": 0.11,
    "autumn, lora": 0.11,
    "baselines, dense": 0.15,
    "baselines, dense, LoRA": 0.16,
    "baselines, experts": 0.21,
    "baselines, experts, LoRA": 0.29,
    "baselines, fp8": 0.52,
    "broad, dense": 0.18,
    "broad, fp8": 0.13,
    "broad, fsdp": 0.10,
    "broad, moe": 0.12,
    "IBM": 0.02,
    "Llama 3 paper": 0.15,
    "Megatron Bridge": 0.07,
    "Megatron Bridge, sinks": 0.26,
    "Megatron Bridge, Nemotron 3": 0.15,
    "Megatron Bridge FP8": 0.18,
    "Megatron Bridge FP8, 2026": 0.10,
    "Megatron Bridge FP8, 2026, experts": 0.13,
    "Narayanan 2021": 0.04,
    "NeMo AutoModel, 2026": 0.06,
    "NeMo AutoModel, 2026, experts": 0.13,
    "NeMo Automodel": 0.25,
    "Nemotron-4 340B": 0.07,
    "SimuMax B200": 0.07,
    "Unsloth": 0.20,
    "late, dense": 0.07,
    "late, lora": 0.10,
    "late, moe": 0.15,
    "llm-foundry, long sequences": 0.23,
    "llm-foundry, one node": 0.12,
    "llm-foundry, several nodes": 0.14,
    "recipes, dense": 0.06,
    "recipes, fp8": 0.06,
    "recipes, fsdp": 0.12,
    "recipes, lora": 0.09,
    "recipes, moe": 0.19,
    "spring, dense": 0.05,
    "spring, lora": 0.20,
    "spring, tuning": 0.18,
    "torchtitan, 2025": 0.10,
    "torchtitan, 2025, experts": 0.24,
    "torchtitan, 500 W": 0.15,
    "winter, fp8": 0.07,
    "winter, moe": 0.13,
    "winter, nanoGPT": 0.20,
    "winter, torchtune": 0.05,
}
"""Mean absolute error of each kind, rounded up.

NeMo Automodel's runs are described as Megatron's, whose recomputation and pipeline differ; DeepEP, which sends each token
once to a rank, may overlap with what computes. Megatron Bridge captures layers in CUDA graphs, which its cases before 26.08 do not
say; their dispatchers, and those graphs, are those of its recipes (src/megatron/bridge/perf_recipes). Forty runs of
25.11 to 26.04.01 were written down later than the others and predicted once: dense ones were 9, those with experts 18 %
off, Qwen3-30B's up to a third too fast, whose host waits in every layer for how many tokens each expert gets, which is
expected since. llm-foundry's long sequences ran with the first
version of fused attention; the cases name none. Of the FP8 runs one has experts of width 768 and takes twice as long as
expected: later releases of the same recipe take half the time. torchtitan's H100s may draw 500 W instead of 700 and read
2.4 instead of 3.35 TB/s; rings of context parallelism are slower than expected. The runs of 2025 and 2026 were written down
before they were predicted: torchtitan's with tensor parallelism and without compilation take 15 to 23 % longer than
expected, and float8 scaled by rows was 22 % slower: its
casts look along both axes of what every rank gathers, which is expected since. Unsloth's is of a T4, whose clock falls.
Twenty-four further runs of three sources were written down before they were predicted,
and are as they came: 23 of them are expressible. Eighteen of Megatron Bridge's archive were written down after those:
dense ones were 15, those with LoRA 11, those with experts 20 % off, and 15 were inside the range; DeepSeek-V3 predicts a
further token in all of Megatron Bridge's runs, whose layer and logits are on the last stage: described since.
Seventy-three of 2025 and 2026 were
written down after those (prime-rl's baselines, ms-swift's scripts, torchtitan's notes). As they came, dense ones were 27,
those with LoRA 26, those with experts 19, those with both 44 and the one in FP8 72 % off, and 55 were inside the range:
FlashAttention-3 counted as 2, FlashAttention-2 on a B200, which runs Ampere's instructions, as twice as fast as it is, and
an H20, whose products limit all kernels, as an H100. Now 64 are inside. Not explained: prime-rl's experts on B200s take 2
to 5 times as long as expected with 16k tokens; 16 A800s with ms-swift twice; short steps of reinforcement learning wait
for a head that asks after every 2,048 words whether a target is among them. ms-swift packs documents, whose lengths are
not known: attention between them is counted. Sixteen of NeMo 24.12
on H100s in FP8 were written down after those: as they came, dense ones were 9, fine-tuning 18 and LoRA 32 % off, and 12
of 15 were inside the range; one names a model that is in no catalog. Frozen parameters were gathered and their gradients
summed, and what they read was transposed as for gradients of weights: without that LoRA is 17 % off, and 14 are inside.
Thirty-five of KempnerForge, IBM's
compiled FSDP, Qwen3's experts on H800s and Qwen's LoRA on an A100 were written down after those: as they came, dense ones
were 8.5 % off (all 20 inside the range), those with experts 43 (2 of 6) and LoRA 17 (1 of 9). The head of a pipeline's last
rank was counted by its operations, though layers with experts take longer for theirs: 32 stages of Qwen3-235B were
expected to take 1.5 to 1.8 times as long as they do. Elementwise kernels reach more of an A100's memory than seven
tenths. With both, four kinds are a little further off than they were (Nemotron's 7 instead of 4 %).
The table of fine-tuning names no chunks of a stage, which may be why those with a pipeline are expected to be slower.
nanoGPT's is of a release of 2022 without compilation. Of NeMo AutoModel's two gpt-oss runs, expressible since its attention
is, the one on 8 GPUs is 29 % too fast; why is not known. Megatron Bridge's five, too, are 0 to 36 % too fast. Gradients that only the last micro-batch reduces
(get_sync_ctx) make its runs with experts faster still: 21 % off instead of 16, though the code says so.
Sixty-one of torchtitan, torchao, IBM, NeMo 25.02 to 25.07, Megatron Bridge, Megatron's MoE model zoo and others were
written down after those: as they came, FSDP on 8 to 512 GPUs was 9.0 % off, FP8 14.8, those with experts 31, and 43 of 50
were inside the range; seven were described again, since their first description was refused, and are predicted once (a
340B on B200s and BLOOM's, 75 and 27 % off). What a config of
NeMo leaves open was read as Megatron-LM's defaults: nothing overlapped and tokens went to all ranks; gradients summed in
bf16 and parameters gathered in FP8 counted in 4 and 2 bytes; experts behind a latent space were sent whole hidden states;
an MI300X reaches 0.51 of its peak. With that, 7.2, 14, 14 and 49 of 60. BLOOM's host waits for every kernel
(CUDA_LAUNCH_BLOCKING) and sends over Omni-Path, which no setting says. TinyLlama's fused kernels are described since, as are
attention before it was fused, and the two further tokens that Nemotron 3 Super predicts. SmolLM3's figure is of a run of
weeks. The machines of torchao's H100s may draw 500 W, as torchtitan's, which is not said.
Forty-two of DGX Cloud's recipes, llm-foundry and others were written down after those. Before what follows was known,
dense ones were 2.9, those with FSDP 13.5, FP8 7.1 and experts 14 % off, and 36 inside the range. It was found in others:
TransformerEngine sends next to products that are divided for it (`tp_comm_overlap`, which recipes set and no case said);
Megatron weighs squared ReLU's results in fp32 in kernels of their own; checkpoints end before a layer's last product, and
do not contain the head; what products take beyond their operations is no shorter in 8 bits. With that, 8.0, 8.9,
4.3, 13 and 39: dense ones had been right by two errors. In these it showed that divided products have fewer rows: 5.5, 8.9,
4.7, 13 and 39. Ten more were written down then and predicted once: FP8 5, experts 29, FSDP 22 and LoRA 8 % off, 7 inside. Not
explained: products in 16 bits on H100s without tensor parallelism, 7 to 10 % too fast; DeepSeek-V3 in NeMo 25.04, 28 % too
fast on 512 H100s and three times on 128 GB200s, where Megatron Bridge takes a fifth of its time; Nemotron 3 Ultra, 21.
llm-foundry's MPT is described as GPT-2, whose activation function is eight kernels where MPT's is one."""


FRESH = {
    "torchtitan": "torchtitan, 2025",
    "Trainy": "torchtitan, 2025",
    "NeMo AutoModel": "NeMo AutoModel, 2026",
    "Megatron Bridge": "Megatron Bridge FP8, 2026",
    "Unsloth": "Unsloth",
}


BATCHES = {
    "base": "baselines",
    "late": "late",
    "spring": "spring",
    "planb": "broad",
    "plan": "autumn",
    "step1": "recipes",
    "winter": "winter",
}


def kind_of(case):
    """The source, and whether a network is part of it."""
    named = case["id"].partition("-")[0]
    if named == "planc":
        return "Megatron Bridge, Nemotron 3"
    if named in BATCHES:
        own = {("spring", "sft"): "tuning", ("winter", "torchtune"): "torchtune", ("winter", "nanogpt"): "nanoGPT"}
        kinds = [kind for (batch, word), kind in own.items() if batch == named and f"-{word}-" in case["id"]]
        return f"{BATCHES[named]}, {kinds[0] if kinds else case['regime']}"
    if isinstance(case["source"], dict):
        found = next(name for name in FRESH if case["source"]["title"].startswith(name))
        kinds = case["config"]["parallelism"]
        return f"{FRESH[found]}{', experts' if 'expert_parallel_size' in kinds else ''}"
    if case["source"] != "llm-foundry":
        return f"{case['source']}, sinks" if "gpt-oss" in case["id"] else case["source"]
    if case["config"]["training"]["sequence_length"] > 8192:
        return "llm-foundry, long sequences"
    return f"llm-foundry, {'one node' if case['config']['hardware']['num_gpus'] <= 8 else 'several nodes'}"


def ratio_of(case):
    """What is expected over what was measured, and whether that is inside the range."""
    measured = case["measured"]
    job = estimate(case["config"]).job
    roofline = roofline_for(job.config)
    found = cost_of(job, roofline)
    seconds = measured["value"]
    if measured["quantity"] == "mfu":
        seconds = (found.flops - found.again) / (roofline.flops * seconds)
    if measured["quantity"] == "tokens_per_second_per_gpu":
        seconds = found.tokens / found.gpus / seconds
    low, expected, high = seconds_of(found)
    return expected / seconds, low <= seconds <= high


@pytest.fixture(scope="module")
def ratios():
    """Ratios by kind; what cannot be expressed is left out, and counted."""
    found, refused = defaultdict(list), 0
    for case in CASES:
        try:
            each = ratio_of(case)
        except (ConfigError, UnsupportedError):
            refused += 1
            continue
        found[kind_of(case)].append(each)
    assert refused == 4
    return found


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_those_written_down(ratios, kind):
    """The mean error of a kind is no more than is said, and not much less: a better model says so here."""
    error = fmean(abs(ratio - 1) for ratio, _ in ratios[kind])
    assert ERRORS[kind] - 0.05 <= error <= ERRORS[kind]


def test_eight_of_ten_are_inside_the_range(ratios):
    """The range is as wide as it needs to be, and no wider."""
    assert set(ratios) == set(ERRORS)
    every = [each for kind in ratios.values() for each in kind]
    assert len(every) > 90
    inside = sum(within for _, within in every) / len(every)
    assert 0.8 <= inside <= 0.96


CARDS = {"h100-sxm-80gb": "nvidia-h100-80gb-hbm3", "h200-sxm-141gb": "nvidia-h200"}


@pytest.fixture(scope="module")
def own():
    """Expected over measured seconds of the suite's steps on one GPU, and whether they are inside the range."""
    found = defaultdict(dict)
    for card, name in CARDS.items():
        for case in timed(name):
            with suppress(UnsupportedError):
                if not case["id"].startswith("h100-"):
                    found[card][case["id"]] = ratio_of(case)
    return found


def test_steps_of_the_suite(own):
    """On one GPU, where kernels and their launches are all there is; a host that starts them slowly shows in small ones.

    What is far off has Python loops of its own: Qwen3.5's recurrence without kernels, losses and optimizers in chunks.
    Steps with an odd number of words took up to 38 % longer before their head's products were known to be unaligned.
    The H200's steps were predicted before they ran.
    """
    assert {card: len(each) for card, each in own.items()} == {"h100-sxm-80gb": 114, "h200-sxm-141gb": 34}
    off = {card: sorted(abs(ratio - 1) for ratio, _ in each.values()) for card, each in own.items()}
    assert 0.08 < fmean(off["h100-sxm-80gb"]) < 0.16
    assert fmean(off["h200-sxm-141gb"]) < 0.11
    assert off["h200-sxm-141gb"][17] < 0.06
    families = [
        abs(ratio - 1)
        for name, (ratio, _) in own["h100-sxm-80gb"].items()
        if name.startswith(("family", "shape", "checkpoint"))
    ]
    assert len(families) == 67
    assert sorted(families)[33] < 0.09
    assert fmean(inside for each in own.values() for _, inside in each.values()) > 0.66


def test_shares_are_of_known_accelerators():
    """Each measured share is below its accelerator's peak."""
    measured = [each.speed.matmul for each in ACCELERATORS if each.speed.matmul is not None]
    assert len(measured) >= 7
    assert all(0 < share < 1 for share in (*measured, *FLASH_SHARES.values()))


def test_frozen_parameters_come_from_the_host():
    """FSDP's offload brings every layer twice, in the bytes that it is stored in."""
    config = {
        "model": "qwen3-0.6b",
        "training": {"sequence_length": 512, "precision": "bf16", "adapter": {"type": "lora"}},
        "engine": {"type": "fsdp", "cpu_offload": True},
        "hardware": {"accelerator": "rtx-a6000", "num_gpus": 2},
    }
    job = estimate(config).job
    price = cost_of(job, roofline_for(job.config))
    assert price.host == pytest.approx(job.model.parameters / 2 * 2 * 2, rel=0.05)


@pytest.mark.parametrize(
    ("state", "sizes", "accelerator", "tokens", "backward", "milliseconds", "off"),
    [
        (("H", "W", "N"), {"H": 128, "W": 64, "N": 128, "G": 1, "q": 256}, "h100-sxm-80gb", 8192, False, 0.649, 0.05),
        (("H", "W", "N"), {"H": 128, "W": 64, "N": 128, "G": 1, "q": 256}, "h100-sxm-80gb", 2**18, False, 24.24, 0.15),
        (("B", "dk", "dv"), {"B": 96, "dk": 128, "dv": 128}, "gb200", 8192, True, 4.738, 0.05),
        (("B", "dk", "dv"), {"B": 64, "dk": 128, "dv": 128}, "gb200", 16384, True, 5.964, 0.05),
        (("B", "dk", "dv"), {"B": 32, "dk": 256, "dv": 256}, "gb200", 16384, True, 8.644, 0.2),
    ],
)
def test_scans_take_as_long_as_published(state, sizes, accelerator, tokens, backward, milliseconds, off):
    """vLLM's pull request 27299 (forward passes of mamba-ssm's kernels), flash-linear-attention's README (both passes)."""
    rates = roofline_of(accelerator)
    moved = sum(
        (ahead + back * backward) * product(axes, sizes) / measure(over, sizes)
        for axes, over, ahead, back in SCANS[state]
    )
    expected = 1000 * tokens * moved / (rates.memory * rates.scan_efficiency)
    assert expected == pytest.approx(milliseconds, rel=off)


def vtrain(row):
    """A job of vTrain's validation as Megatron-LM ran it: every layer recomputed, softmax without a fused kernel."""
    gpus, batch, micro, hidden, heads, layers, length, tensor, data, stages, _ = row
    config = {
        "model": {
            "model_type": "megatron",
            "architecture": "gpt",
            "num_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "ffn_hidden_size": 4 * hidden,
            "vocab_size": 51200,
            "max_position_embeddings": length,
            "position_embedding_type": "learned_absolute",
        },
        "training": {
            "sequence_length": length,
            "micro_batch_size": micro,
            "gradient_accumulation_steps": batch // (data * micro),
            "activation_checkpointing": {"policy": "full", "method": "uniform", "num_layers": 1},
            "attention": "math",
        },
        "parallelism": {"tensor_parallel_size": tensor, "pipeline_parallel_size": stages},
        "engine": {"type": "megatron", "distributed_optimizer": False},
        "hardware": {"accelerator": "a100-sxm-80gb", "num_gpus": gpus},
    }
    job = estimate(config).job
    return cost_of(job, roofline_for(job.config).adjusted(network=12.5e9)).seconds


VTRAIN = json.loads((TRUTH / "vtrain.json").read_text(encoding="utf-8"))


def test_layouts_of_several_nodes():
    """vTrain's 109 runs of four models on 64 to 512 GPUs: their times, and the layout that is expected to be fastest."""
    models = defaultdict(list)
    for row in VTRAIN["several_nodes"]:
        models[row[3]].append((vtrain(row), row[-1]))
    every = [each for runs in models.values() for each in runs]
    assert len(every) == 109
    assert 0.05 < fmean(abs(expected / measured - 1) for expected, measured in every) < 0.08
    regrets = [min(runs)[1] / min(measured for _, measured in runs) - 1 for runs in models.values()]
    assert fmean(regrets) < 0.02
    assert max(regrets) < 0.05


def test_small_models_on_one_node():
    """Sixty of its runs on one node, steps of 0.1 to 1.5 s: 16 % off when they were first predicted, 5 % too fast now."""
    ratios = [vtrain(row) / row[-1] for row in VTRAIN["one_node"]]
    assert len(ratios) == 60
    assert 0.11 < fmean(abs(ratio - 1) for ratio in ratios) < 0.165
    assert fmean(ratios) == pytest.approx(0.95, abs=0.01)


def nanotron(row):
    """Expected and measured seconds of a run of nanotron's sweep."""
    name, nodes, data, stages, tensor, size, count, zero, pace = row
    config = {
        "model": NANOTRON[name],
        "training": {"sequence_length": 4096, "micro_batch_size": size, "gradient_accumulation_steps": count},
        "parallelism": {"tensor_parallel_size": tensor, "pipeline_parallel_size": stages, "data_parallel_size": data},
        "engine": {"type": "nanotron", "zero_stage": zero},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 8 * nodes},
    }
    job = estimate(config).job
    price = cost_of(job, roofline_for(job.config).adjusted(hop_latency=52e-6))
    return price.seconds, price.tokens / price.gpus / pace


NANOTRON = {each["config"]["model"]["_name"].split("/")[1]: each["config"]["model"] for each in truth("nanotron")}


def _ranks(values):
    """The place of each value among all."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [place for place, _ in sorted(enumerate(order), key=lambda pair: pair[1])]


def _alike(runs):
    """How alike the order of expected and of measured seconds is (Spearman)."""
    expected, measured = (_ranks(column) for column in zip(*runs, strict=True))
    off = sum((one - other) ** 2 for one, other in zip(expected, measured, strict=True))
    return 1 - 6 * off / (len(runs) * (len(runs) ** 2 - 1))


def test_layouts_of_nanotron():
    """Runs on up to 8 nodes of three models: in which order layouts come, and the first choice."""
    groups = defaultdict(list)
    for row in truth("nanotron_speed")["runs"]:
        groups[row[0], row[1]].append(nanotron(row))
    assert len(groups) == 12
    assert sum(map(len, groups.values())) == 217
    same, regrets = [], []
    for runs in groups.values():
        same.append(_alike(runs))
        regrets.append(min(runs)[1] / min(seconds for _, seconds in runs) - 1)
    assert sorted(same)[5] > 0.85
    assert fmean(regrets) < 0.03


POLLED = 8 * 0.1
"""Seconds that a slot of a pipeline takes longer where hosts ask every 0.1 s whether a message has arrived: a stage in
the middle receives twice in it and sends twice, each time two messages about shapes (nanotron, branch nouamane/bench2,
67c5ebb6, parallel/pipeline_parallel/p2p.py: _send_meta, _recv_meta)."""


def test_layouts_of_nanotron_on_many_nodes():
    """On 16 to 64 nodes a slot of a pipeline takes nothing or 0.8 s longer: the version that polls ran there as well.

    So did nearly all pipelines on 64 nodes. With what polling takes, the order of layouts is that of the measurements.
    Runs of one layout at ZeRO stages 0 and 1, which send the same, differ by up to six times on 64 nodes.
    """
    groups, excess, pipelines = defaultdict(list), [], 0
    for row in truth("nanotron_speed")["many_nodes"]:
        if row[3] > {"llama-1b": 8, "llama-3b": 16}.get(row[0], 32):
            continue  # a stage has no layer
        expected, measured = nanotron(row)
        slots = row[6] + row[3] - 1
        late = (measured - expected) / slots if row[3] > 1 else 0.0
        pipelines += row[3] > 1
        if late > POLLED / 3:
            excess.append(late)
        groups[row[0], row[1]].append((expected + (POLLED * slots if late > POLLED / 3 else 0.0), measured))
    assert len(groups) == 12
    assert 0.4 < len(excess) / pipelines < 0.6
    assert sorted(excess)[len(excess) // 2] == pytest.approx(POLLED, rel=0.1)
    assert sum(POLLED / 3 < each < POLLED / 2 for each in excess) < len(excess) / 5
    for (_, nodes), runs in groups.items():
        assert _alike(runs) > 0.85
        if nodes < 64:
            ratios = sorted(expected / measured for expected, measured in runs)
            assert 0.85 < ratios[len(ratios) // 2] < 1.15


@pytest.mark.parametrize(
    ("name", "tokens", "ratio"),
    [
        ("torchtitan-2506-70b-fsdp32-tp8-bf16-tps", 652.4, 0.929),
        ("torchtitan-2506-70b-fsdp32-tp8-tensorwise-tps", 942.4, 1.129),
        ("torchtitan-2506-8b-fsdp8-tp8-bf16-tps", 4809.4, 0.938),
        ("torchtitan-2506-8b-fsdp8-tp8-tensorwise-tps", 5570.1, 1.015),
    ],
)
def test_tensor_parallelism_in_pieces(name, tokens, ratio):
    """torchtitan's async tensor parallelism (benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md): 1.09 to 1.16 as fast."""
    case = next(each for each in CASES if each["id"] == name)
    config = {**case["config"], "engine": {**case["config"]["engine"], "enable_async_tensor_parallel": True}}
    found, within = ratio_of({"config": config, "measured": {**case["measured"], "value": tokens}})
    assert found == pytest.approx(ratio, abs=0.005)
    assert within


@pytest.mark.parametrize(
    ("name", "section", "setting", "value", "times"),
    [
        ("step1-llama31-70b-64xh100", "engine", "tp_comm_overlap", False, 1.065),
        ("planc-2606-nemotron-3-nano-8xgb200", "engine", "use_fused_weighted_squared_relu", True, 0.91),
        ("step1-mpt-13b-s2048-256xh100-80gb", "training", "activation_checkpointing.early_stop", False, 1.055),
    ],
)
def test_what_a_setting_costs(name, section, setting, value, times):
    """Sending after products instead of next to them; experts' results weighed in one kernel; layers run again to the end."""
    config = next(each for each in CASES if each["id"] == name)["config"]
    path = f"{section}.{setting}"
    changed = Config.from_dict(config).replaced(path, value)
    now, then = (
        cost_of(job, roofline_for(job.config)).seconds for job in (estimate(config).job, estimate(changed).job)
    )
    assert then / now == pytest.approx(times, abs=0.005)
