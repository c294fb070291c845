"""The measuring tool: on the CPU, where real tensors and fake ones hold the same bytes, and the suite that it runs on GPUs."""

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import truth

from memcore.config.kinds import Choice, Counted
from memcore.config.settings import SETTINGS
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.hardware import ACCELERATORS
from memcore.questions.accuracy import accuracy
from memcore.units import GiB
from validation import design, devices, fake_cuda, files
from validation.cases import Phase, Run, cases_of
from validation.plan import Generation, Plan, Refused, plan

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parent.parent
OWN = ROOT / ".venv-validation" / "bin" / "python"


SUITE = json.loads(design.SUITE.read_text(encoding="utf-8"))
TINY = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1111,
    "tie_word_embeddings": False,
    "max_position_embeddings": 512,
}


def job(**training):
    """A tiny job."""
    hardware = training.pop("hardware", {})
    settings = {"sequence_length": 128, "micro_batch_size": 2, "precision": "bf16", **training}
    return {"model": TINY, "training": settings, "engine": {"type": "none"}, "hardware": hardware}


JOBS = {
    "plain": job(),
    "fp32": job(precision="fp32", optimizer={"name": "adamw", "implementation": "foreach"}),
    "autocast": job(precision="bf16-autocast"),
    "checkpoints": job(activation_checkpointing="full", optimizer="sgd"),
    "selective": job(activation_checkpointing={"policy": "selective", "mode": "op"}),
    "accumulated": job(gradient_accumulation_steps=2, zero_grad="keep"),
    "chunked": job(loss="chunked:4"),
    "eager": job(attention="math", attention_mask="padded"),
    "titan": job(implementation="torchtitan"),
    "lora": job(adapter={"type": "lora", "rank": 4}),
    "adafactor": job(optimizer="adafactor"),
    "kept": job(outputs_kept=True, use_cache=True, gradient_clipping=False),
    "too-large": {**job(hardware={"gpu_memory_gb": 0.1}), "model": {**TINY, "vocab_size": 250_000}},
}


SPREAD = {
    "fsdp": {"engine": {"type": "fsdp"}, "parallelism": {"data_parallel_size": 4}},
    "fsdp-kept": {
        "engine": {"type": "fsdp", "reshard_after_forward": False, "wrap": "torchtitan"},
        "parallelism": {"data_parallel_size": 8, "data_parallel_shard_size": 4},
    },
    "ddp": {"engine": {"type": "ddp"}, "parallelism": {"data_parallel_size": 4}},
    "tensors": {"engine": {"type": "none"}, "parallelism": {"tensor_parallel_size": 2}},
    "both": {"engine": {"type": "fsdp"}, "parallelism": {"data_parallel_size": 2, "tensor_parallel_size": 2}},
    "pipeline": {"engine": {"type": "none"}, "parallelism": {"pipeline_parallel_size": 3}},
    "ideal": {"engine": {"type": "none", "pipeline_runtime": "ideal"}, "parallelism": {"pipeline_parallel_size": 3}},
}
"""Layouts over several ranks."""


def spread(name):
    """A tiny job in a layout; every size divides."""
    training = {"sequence_length": 128, "micro_batch_size": 2, "optimizer": "adamw", "loss_shift": "labels-preshifted"}
    return {"model": {**TINY, "vocab_size": 1112}, "training": training, **SPREAD[name]}


IN_TURN = """
import sys
from importlib import import_module
statuses = [import_module(module).main(arguments) for module, *arguments in map(str.split, sys.argv[1:])]
sys.exit(max(statuses))
"""
"""Runs several parts of the tool in one process, since importing PyTorch takes longer than most of what they do."""


@pytest.fixture(scope="session")
def tool(tmp_path_factory):
    """Runs parts of the tool in the environment that has PyTorch: the cases that each writes, and what is said."""
    python = sys.executable if find_spec("torch") and find_spec("transformers") else OWN
    if not Path(python).exists():
        pytest.skip("PyTorch is not installed: `build.py test` puts it into .venv-validation where it can be had")

    def run(*parts, ranks=1):
        commands, written = [], []
        for module, cases, *arguments in parts:
            folder = tmp_path_factory.mktemp(module.replace(".", "-"))
            given = folder / "given.json"
            given.write_text(json.dumps(cases))
            written.append(folder / "written.json")
            commands.append([module, str(given), "--out", str(written[-1]), *arguments])
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        one = [*(launcher if ranks > 1 else []), "-m", *commands[0]]
        command = [str(python), *(one if len(parts) == 1 else ["-c", IN_TURN, *map(" ".join, commands)])]
        # With more threads than free cores, OpenMP busy-waits, which slows down whatever tests run at the same time.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        return *(json.loads(each.read_text()) for each in written), done.stderr

    return run


def of_two_ranks():
    """Layouts of two ranks in fp32, which a CPU runs as a GPU does."""
    jobs = {f"two-{name}": spread(name) for name in ("fsdp", "ddp", "tensors")}
    for name, each in jobs.items():
        each["training"]["precision"] = "fp32"
        each["parallelism"] = {"tensor_parallel_size" if name == "two-tensors" else "data_parallel_size": 2}
    return jobs


TWO = of_two_ranks()
LENGTHS = {"batch_size": 2, "prompt_length": 64, "output_length": 4, "weight_dtype": "bf16"}
GENERATED = {"model": TINY, "inference": LENGTHS, "engine": {"type": "transformers"}}
UNKNOWN = job(optimizer="adamw-8bit", precision="fp8-mixed")


@pytest.fixture(scope="session")
def on_both(tool):
    """Tiny jobs on real tensors and on fake ones without CUDA: cases of both, and what is refused."""
    real = named({**JOBS, **TWO, "generated": GENERATED, "unknown": UNKNOWN})
    fake = named({**JOBS, **TWO})
    return tool(("validation.measure", real, "--device", "cpu"), ("validation.simulate", fake, "--device", "cpu"))


@pytest.fixture(scope="session")
def measured(on_both):
    """What is measured on real tensors: cases, and what is refused, which is all that is said."""
    return on_both[0], on_both[2]


@pytest.fixture(scope="session")
def on_cpu(measured):
    """Tiny jobs on real tensors."""
    return of(JOBS, measured[0])


@pytest.fixture(scope="session")
def imitated(on_both):
    """The same jobs, and those of two ranks, on fake tensors."""
    return on_both[1]


def of(jobs, cases):
    """Cases of some of the jobs."""
    return [each for each in cases if each["id"].partition("@")[0] in jobs]


def named(jobs):
    """Jobs as cases with ids."""
    return [{"id": name, "config": each} for name, each in jobs.items()]


def test_cases_say_whose_loop_ran(on_cpu):
    """The tool's own loop, which is nobody's Trainer; and where they come from."""
    assert {each["config"]["engine"]["framework"] for each in on_cpu} == {"memcore"}
    assert {each["source"]["kind"] for each in on_cpu} == {"cpu"}
    assert all("torch " in each["source"]["measured_at"] for each in on_cpu)


def bytes_of(cases):
    """Bytes by id, without what the configs and the sources say."""
    return {each["id"]: each["measured"] for each in cases}


def test_real_and_fake_tensors_hold_the_same(imitated, on_cpu):
    """Every moment of every tiny job is the same on the CPU, on real tensors and on fake ones."""
    assert bytes_of(of(JOBS, imitated)) == bytes_of(on_cpu)
    assert len(bytes_of(on_cpu)) == 1 + 7 * (len(JOBS) - 1)


def test_several_ranks_hold_what_one_of_a_fake_group_holds(tool, imitated, measured):
    """FSDP, DDP and tensor parallelism: two processes under torchrun, and a simulation of one of them, to the byte."""
    found, _ = tool(("validation.measure", named(TWO), "--device", "cpu"), ranks=2)
    assert bytes_of(found) == bytes_of(of(TWO, imitated))
    assert len(found) == 7 * len(TWO)
    alone, errors = measured
    assert of(TWO, alone) == []
    assert errors.count("2 ranks are needed, 1 run; start them with torchrun") == len(TWO)


def test_out_of_memory_is_an_outcome(on_cpu):
    """A job that is too large for the memory that there is does not fail: it does not fit, and memcore says so too."""
    case = next(each for each in on_cpu if each["id"] == "too-large")
    assert case["measured"] == {"quantity": "fits", "value": False, "moment": "peak", "rank": "max"}
    (result,) = accuracy([case]).results
    assert (result.measured, result.predicted) == (0, 0)
    larger = {**case, "config": {**JOBS["too-large"], "hardware": {"gpu_memory_gb": 24}}}
    assert accuracy([larger]).results[0].predicted == 1


@pytest.mark.skipif(fake_cuda.COMPILER is None, reason="simulating CUDA without CUDA needs a C++ compiler")
def test_simulated_steps_are_predicted_and_reproduce_the_truth(tool):
    """On fake CUDA tensors: tiny jobs as memcore predicts them, and a sample of the simulated truth, to the byte."""
    tiny = {name: each for name, each in JOBS.items() if name != "too-large"}
    sample = [case for case in truth("simulated") if case["id"].partition("@")[0] in SAMPLE]
    whole = [case for case in sample if "same_run_as" not in case]
    assert len(whole) == len(SAMPLE)
    tiny |= {name: spread(name) for name in SPREAD} | {
        "eight": job(optimizer="adamw-8bit"),
        "fused": job(loss="fused-linear"),
    }
    found, errors = tool(("validation.simulate", [*named(tiny), *whole]))
    assert "refused" not in errors
    measured = bytes_of(found)
    for case in sample:
        assert measured[case["id"]]["bytes"] == case["measured"]["bytes"], case["id"]
    report = accuracy([each for each in found if not each["id"].startswith("sim-")])
    off = {each.id: each.measured - each.predicted for each in report.results if each.error != 0}
    assert off == KNOWN
    assert len(report.results) == 7 * (len(tiny) - 2) + 6 * 3 * 2  # two pipelines of three stages


KNOWN = {
    # memcore does not list the small tensors of foreach Adafactor's step: means of rows and columns, and norms.
    "adafactor@optimizer_step": 8192,
}
"""Where memcore is off, in bytes, and why."""
SAMPLE = {
    "sim-single-pythia-160m-s2048b16-bf16-none",
    "sim-prec-opt-qwen3-0.6b-s2048b4-amp-bf16-none-clip-None",
}
"""Simulated cases of different kinds that take seconds."""


def test_a_generation_is_measured(measured):
    """Weights, and the peak of a prompt and its continuation; memcore knows the weights to the byte."""
    peak, weights = (each["measured"] for each in of(["generated"], measured[0]))
    assert peak["bytes"] > weights["bytes"]
    parameters = 2 * 1111 * 256 + 3 * (256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 640 + 2 * 256) + 256
    assert 0 < weights["bytes"] - 2 * parameters < 4096  # the rotary table, and blocks of 512 bytes


def test_what_cannot_be_run_is_refused_by_name(measured):
    """Nothing that is given is ignored."""
    with pytest.raises(Refused, match=r"training\.dropout\.hidden: found 0\.5"):
        plan(job(dropout={"hidden": 0.5}))
    with pytest.raises(Refused, match=r"training\.attention: found 'magic'; allowed: sdpa"):
        plan(job(attention="magic"))
    with pytest.raises(Refused, match="context_parallel_size"):
        plan({**job(), "parallelism": {"context_parallel_size": 2}})
    cases, errors = measured
    assert of(["unknown"], cases) == []
    refused = [line for line in errors.splitlines() if line.startswith("refused: ")]
    assert len(refused) == len(TWO) + 1
    assert refused[-1].startswith("refused: training.precision: found 'fp8-mixed'")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("[1]", "neither a config nor a case"),
        ('[{"config": 7}]', "neither"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path, content, said):
    """What is wrong with which file, and nothing is run."""
    name = tmp_path / "job.json"
    if content is not None:
        name.write_text(content)
    with pytest.raises(Refused, match=rf"job\.json: .*{said}"):
        list(files.read_configs([str(name)]))


def test_cases_of_a_cpu_are_predicted_without_libraries(on_cpu):
    """No workspace of a GPU's library is in the way: weights to the byte, the rest up to what kernels of a CPU keep."""
    report = accuracy(each for each in on_cpu if each["id"].startswith(("plain", "fp32", "lora")))
    errors = {each.moment: abs(each.error) for each in report.results}
    assert errors["after_init"] == errors["steady"] == 0
    assert max(abs(each.error) for each in report.results) < 0.1


def test_the_suite_is_what_the_design_says():
    """`python -m validation.design` writes it; ids are unique, and every config can be run by the tool."""
    assert list(design.suite()) == SUITE
    assert max(Counter(each["id"] for each in SUITE).values()) == 1
    assert len(SUITE) >= 150
    for each in SUITE:
        assert isinstance(plan(each["config"]), Generation if each["id"].startswith("generate-") else Plan)
    assert {each["id"].partition("-")[0] for each in SUITE[: len(design.TERMS)]} == set(design.TERMS)


def test_the_suite_is_estimated():
    """Every config is estimated; none is refused."""
    cases = [{**each, "measured": {"quantity": "max_allocated", "bytes": GiB}} for each in SUITE]
    report = accuracy(cases)
    assert {each.id: each.reason for each in report.results if each.reason is not None} == {}
    assert all(each.predicted for each in report.results)


def test_the_suite_covers_every_term():
    """Every value of every setting of a step on one GPU occurs, unless the tool refuses it by name or it is the default."""
    given = Counter()
    for each in SUITE:
        for path, value in flat({"training": each["config"].get("training", {})}):
            given[path, str(value).partition(":")[0]] += 1
    uncovered = set()
    for path, setting in SETTINGS.items():
        if not path.startswith("training.") or path.endswith("dtype") or not isinstance(setting.kind, Choice | Counted):
            continue  # dtypes are set by the preset of precision
        for option in setting.kind.options:
            if not given[path, option] and runs(path, option):
                uncovered.add((path, option))
    assert uncovered == {
        ("training.activation_checkpointing.mode", "layer"),  # `every` says so
        ("training.kernels", "fused"),  # where its packages are, other configs do
        *((path, default) for path, default in DEFAULTS.items() if not given[path, default]),
    }


def runs(path, option):
    """Whether the tool runs a job with this setting, or refuses it by name."""
    section = path.partition(".")[2].split(".")
    settings = {section[0]: option if len(section) == 1 else {section[1]: option}}
    try:
        plan(job(**settings))
    except Refused as error:
        assert str(error).startswith(path)
        return False
    return True


DEFAULTS = {
    "training.method.name": "sft",
    "training.attention": "sdpa",
    "training.attention_mask": "none",
    "training.zero_grad": "set-to-none",
    "training.loss": "cross-entropy-fp32",
    "training.loss_shift": "model",
    "training.implementation": "transformers",
    "training.activation_checkpointing.entry": "checkpoint_wrapper",
}
"""What configs need not name."""


SHORT = {"activation_checkpointing": "policy", "optimizer": "name", "adapter": "type"}


def flat(value, path=""):
    """Settings by path."""
    for key, each in value.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(each, dict):
            yield from flat(each, here)
        else:
            yield f"{here}.{SHORT[key]}" if key in SHORT else here, each


def test_the_defaults_are_those_of_memcore():
    """What the tool takes for an absent setting is what memcore assumes for it."""
    compared = 0
    for each in SUITE:
        wanted = plan(each["config"])
        if isinstance(wanted, Generation):
            continue
        defaults = wanted.defaults
        try:
            assumptions = estimate(each["config"]).assumptions
        except MemcoreError:
            continue
        for assumption in assumptions:
            if assumption.path in defaults:
                assert defaults[assumption.path] == assumption.value, (each["id"], assumption.path)
                compared += 1
    assert compared > 1000


NAMES = {
    "NVIDIA H200": ("h200-sxm-141gb", 139.8),
    "NVIDIA H100 80GB HBM3": ("h100-sxm-80gb", 79.11),
    "NVIDIA H100 PCIe": ("h100-pcie-80gb", 79.11),
    "NVIDIA A100-SXM4-80GB": ("a100-sxm-80gb", 79.25),
    "NVIDIA A100-PCIE-40GB": ("a100-pcie-40gb", 39.5),
    "NVIDIA GeForce RTX 4090": ("rtx-4090", 23.6),
    "NVIDIA RTX 6000 Ada Generation": ("rtx-6000-ada", 47.4),
    "NVIDIA RTX A6000": ("rtx-a6000", 47.5),
    "NVIDIA L4": ("l4", 22.05),
    "NVIDIA L40S": ("l40s", 44.4),
    "Tesla T4": ("t4", 14.6),
    "NVIDIA B200": ("b200", 178.35),
    "NVIDIA Something New": (None, 100.0),
}


@pytest.mark.parametrize(("name", "expected", "gib"), [(name, *each) for name, each in NAMES.items()])
def test_a_gpu_is_found_in_the_catalog(name, expected, gib):
    """By the driver's name and the capacity."""
    assert devices.matching(name, int(gib * GiB)) == expected
    assert expected is None or expected in {each.id for each in ACCELERATORS}


def test_a_run_on_a_gpu_becomes_cases():
    """Peak, first step, moments, reserved and device; the others refer to the first one's run."""
    phases = [Phase(name="after_init", allocated=10, peak=10, reserved=20, device=90)]
    for step, more in (("0", 0), ("1", 5)):
        for kind, held, peak in (("data", 11, 11), ("forward", 50, 60), ("backward", 40, 70), ("gradient_clipping", 40, 41),
                                 ("optimizer_step", 45, 80), ("zero", 30, 45), ("between", 30, 30)):  # fmt: skip
            phases.append(
                Phase(name=f"{step}.{kind}", allocated=held + more, peak=peak + more, reserved=100, device=170)
            )
    run = Run(config={"_id": "a", "model": "gpt2"}, phases=phases, device="NVIDIA H200", kind="hardware")
    cases = list(cases_of(run))
    assert {each["id"]: each["measured"]["bytes"] for each in cases} == {
        "a": 85, "a@first_step": 80, "a@after_init": 10, "a@end_of_forward": 55, "a@end_of_backward": 45,
        "a@steady": 35, "a@optimizer_step": 85, "a@max_reserved": 100, "a@device_used": 170,
    }  # fmt: skip
    assert cases[0]["measured"]["phase"] == "optimizer_step"
    assert all(each["same_run_as"] == "a" for each in cases[1:])
