"""Searching layouts: exact totals, bounds that are sound, recommendations that pass `estimate`, executors and records."""

import json
import os
import pickle
import random
import re
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from memcore import ConfigError, MemcoreError, estimate, search
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.faces.cli import main
from memcore.faces.render.search import flags_of, search_data, search_text
from memcore.questions.costs import cost_of
from memcore.questions.dividing import plan_of, traffic_of
from memcore.questions.searching import tasks
from memcore.questions.searching.found import TIE, order, pareto
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.peaks import Fixed, Peaks
from memcore.questions.searching.questions import questions_of
from memcore.questions.searching.records import csv_line, json_line, recorded
from memcore.questions.searching.search import HEADROOM
from memcore.questions.searching.spaces import Tried, sent, sequences_of, space_of
from memcore.questions.searching.tasks import Task, growths_of, perform
from memcore.questions.searching.totals import Totals
from memcore.trace.record import program_of
from memcore.trainers.pytorch.resolve import resolve

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

ROOT = Path(__file__).parent.parent
DENSE = {
    "model": "llama-3.1-8b",
    "training": {"sequence_length": 8192, "implementation": "torchtitan"},
    "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
}
PAIR = {**DENSE, "hardware": {"num_gpus": 2, "accelerator": "h200-sxm-141gb"}}
SPARSE = {
    "model": "deepseek-v2-lite",
    "training": {"sequence_length": 4096, "implementation": "torchtitan"},
    "parallelism": {"expert_parallel_size": 4},
    "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
}
TRANSFORMERS = {
    "model": "qwen2.5-0.5b",
    "training": {"sequence_length": 2048},
    "hardware": {"num_gpus": 4, "accelerator": "l4"},
}
MEGATRON = {
    "model": "llama-3.1-8b",
    "training": {"sequence_length": 8192},
    "engine": {"type": "megatron", "distributed_optimizer": True},
    "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
}
DEEPSPEED = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 4096},
    "engine": {"type": "deepspeed", "zero_stage": 2},
    "hardware": {"num_gpus": 4, "accelerator": "l40s"},
}
NANOTRON = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 2048},
    "engine": {"type": "nanotron"},
    "hardware": {"num_gpus": 4, "accelerator": "h100-sxm-80gb"},
}
JOBS = {
    "nanotron": NANOTRON,
    "deepspeed": DEEPSPEED,
    "dense": DENSE,
    "sparse": SPARSE,
    "transformers": TRANSFORMERS,
    "megatron": MEGATRON,
}


def space(job):
    """The config and the layouts of a job's cluster, those that a search has of its layers."""
    config = Config.from_dict(job)
    found = estimate(config).job
    row = "fsdp-transformers" if found.recipe.implementation == "transformers" else None
    return config, space_of(config, found, found.num_gpus, row=row)


@pytest.mark.parametrize("job", [DENSE, SPARSE, TRANSFORMERS], ids=["dense", "sparse", "transformers"])
def test_totals_are_those_of_estimate(job, monkeypatch):
    """A random sample of layouts, each measured until programs are reduced, and by `estimate` on its own."""
    monkeypatch.setattr("memcore.questions.searching.totals.FEW", 1)
    config, where = space(job)
    layouts = list(where.layouts())
    sample = random.Random(7).sample(layouts, min(24, len(layouts)))
    totals = Totals(config, where)
    sums = 0
    for each in sample:
        for _ in range(3):
            found = totals.total(each)
        try:
            wanted = estimate(config_of(config, each, where.policies)).allocated.expected
        except MemcoreError:
            assert isinstance(found, MemcoreError)
        else:
            assert found == wanted, each
            sums += 1
    assert sums > len(sample) / 2


ROUTED = {
    "model": "mixtral-8x7b-v0.1",
    "training": {"sequence_length": 4096},
    "engine": {"type": "megatron", "grad_reduce_in_bf16": True},
    "hardware": {"num_gpus": 16, "accelerator": "h100-sxm-80gb"},
}


MIXED = {
    "model": "deepseek-v2-lite",
    "training": {"sequence_length": 4096},
    "engine": {"type": "megatron", "distributed_optimizer": True},
    "hardware": {"num_gpus": 12, "accelerator": "h100-sxm-80gb"},
}
"""A dense layer among layers of experts: stages have unlike layers."""


def test_bounds_are_below_totals():
    """What a search rules out by a bound, it rules out rightly."""
    for job in (*JOBS.values(), ROUTED, MIXED):
        config = Config.from_dict(job)
        question = questions_of(config, None, None, None, None, Tried(micro_batches=(1, 2)))[0][0]
        layouts = list(question.space.layouts())
        growths = growths_of(question.text, question.space)
        sample = random.Random(3).sample(layouts, min(8, len(layouts)))
        sums = 0
        for each in sample:
            try:
                divided = question.space.divided(each)
                found = estimate(config_of(question.config, each, question.space.policies, divided))
            except MemcoreError:
                continue
            total = found.allocated.expected
            assert question.least(each) <= total
            growth = growths.growth(each)
            assert question.least(each, growth) <= total
            assert growths.least(each) <= total
            assert growth is None or question.staged(each, growth, growths.parts(each)) <= total
            sums += 1
        assert sums > len(sample) / 2


BOUNDED = {
    "ends on some stages": (SPARSE, {}),
    "layers of two kinds": (DENSE, {"model": "gemma-2-2b", "training.implementation": "transformers"}),
    "8-bit states": (PAIR, {"training.optimizer.name": "adamw-8bit", "training.implementation": "transformers"}),
    "gradients that never meet": (PAIR, {"engine.optimizer_in_bwd": True}),
    "frozen weights": (PAIR, {"training.adapter.type": "lora", "training.implementation": "transformers"}),
    "copies": ({**TRANSFORMERS, "engine": {"type": "ddp"}}, {"training.precision": "bf16"}),
}


@pytest.mark.parametrize(("job", "changes"), BOUNDED.values(), ids=BOUNDED)
def test_states_and_gradients_are_below_totals(job, changes):
    """What a search rules out without recording a step, it rules out rightly; the bound is most of a total of states."""
    config = Config.from_dict(job)
    for path, value in changes.items():
        config = config.replaced(path, value)
    question = questions_of(config, None, None, None, None, Tried(micro_batches=(1,)))[0][0]
    totals = Totals(question.config, question.space)
    layouts = list(question.space.layouts())
    pairs = [
        (totals.least(each), totals.total(each)) for each in random.Random(5).sample(layouts, min(10, len(layouts)))
    ]
    sums = [(least, total) for least, total in pairs if isinstance(total, int)]
    assert sums
    assert all(0 < least <= total for least, total in sums)
    assert all(least == 0 for least, total in pairs if not isinstance(total, int))


def test_what_is_too_large_is_refused_without_recording_a_step(monkeypatch):
    """Parameters, states and gradients of 16 billion parameters: no stage of any pipeline is recorded for them."""
    monkeypatch.setattr("memcore.questions.searching.totals.program_of", None)
    *_, last = search(SPARSE | {"hardware": {"num_gpus": 8, "accelerator": "t4"}})
    assert last.total > 500
    assert (last.measured, last.best) == (0, ())
    assert last.pruned + last.refused == last.total


def test_reduced_programs_keep_their_peak():
    """The few moments that are left give the same maximum as all, for any sizes."""
    job = resolve(Config.from_dict(DENSE).replaced("training.micro_batch_size", 2))
    program = program_of(job.recipe)
    varying = {"b": 1, "s": 128, "z": 1}
    peaks = Peaks(program, Fixed({k: v for k, v in job.sizes.items() if k not in varying}, varying))
    assert len(peaks.candidates) < len(program.events) / 5
    for b, s, z, run in [(2, 128, 1, 1), (3, 8192, 8, 12), (16, 1024, 3, 40)]:
        sizes = {**job.sizes, "b": b, "s": s, "z": z, "run 0": run}
        each = [amount.bytes(sizes) for amount in peaks.amounts]
        weights = each + [size * (run - 1) for size in each]
        highest = max(sum(map(int.__mul__, counts, weights)) for counts in peaks.candidates)
        assert highest == max(moment.peak for moment in program.moments(sizes))


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_what_is_recommended_passes_estimate(job):
    """Every layout that is recommended fits, with the bytes that are said, on as many GPUs and for the same step."""
    config = Config.from_dict(job)
    *_, last = search(config, keep=2, micro_batches=(1,))
    assert last.done
    assert last.seen == last.total
    assert last.best
    tokens = {each.cost.tokens for each in last.best}
    assert len(tokens) == 1
    for each in last.best:
        found = estimate(each.config(config))
        assert found.fits
        assert found.job.num_gpus == each.gpus
        assert (found.allocated.expected, found.device.expected) == (each.allocated, each.device)
    places = [order(each, HEADROOM) for each in last.best]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("method", "engine"), [("dpo", {"type": "fsdp"}), ("orpo", {"type": "deepspeed", "zero_stage": 3})]
)
def test_a_step_has_as_many_pairs_as_before(method, engine):
    """Each layout's step compares what the job's does: 4 GPUs with 2 x 2 pairs, and tokens of both of each."""
    training = {"method": method, "sequence_length": 1024, "micro_batch_size": 2, "gradient_accumulation_steps": 2}
    job = {
        "model": "qwen3-0.6b",
        "training": training,
        "engine": engine,
        "hardware": {"num_gpus": 4, "accelerator": "h100-sxm-80gb"},
    }
    config = Config.from_dict(job)
    *_, last = search(config, every=True, micro_batches=(1, 2, 4))
    assert len(last.best) > 10
    for each in last.best:
        alone = estimate(each.config(config))
        assert sequences_of(alone.job) == 16
        assert each.cost.tokens == 16 * alone.job.compared * 1024
        assert each.allocated == alone.allocated.expected


def test_without_a_capacity_nothing_is_said_to_fit():
    """Layouts are listed by cost alone, and the heading says so."""
    config = Config.from_dict(
        {"model": "qwen3-0.6b", "training": {"sequence_length": 1024}, "hardware": {"num_gpus": 2}}
    )
    *_, last = search(config, keep=1, micro_batches=(1,))
    assert last.best[0].fits is None
    text = search_text(last, config)
    assert "What fits" not in text
    assert "name an accelerator" in text


def test_nothing_cheaper_fits():
    """Of all layouts that fit, the first is the cheapest: the search passes over nothing that it should not."""
    config, where = space(TRANSFORMERS)
    *_, last = search(config, keep=1, micro_batches=(1, 2))
    *_, every = search(config, every=True, micro_batches=(1, 2))
    assert every.measured + every.refused == every.total
    assert len(every.best) > len(last.best) > 0
    assert min(each.cost.per_token for each in every.best) == last.best[0].cost.per_token
    assert where.sequences == 4


BOUNDS_BITE = {
    "pipelines": {
        "model": "llama-3.1-8b",
        "training": {"sequence_length": 4096, "implementation": "torchtitan"},
        "hardware": {"num_gpus": 4, "accelerator": "l40s"},
    },
    "copies of states": {
        "model": "qwen2.5-0.5b",
        "training": {"sequence_length": 2048, "precision": "fp32"},
        "hardware": {"num_gpus": 2, "gpu_memory_gb": 10},
    },
}


@pytest.mark.parametrize("job", BOUNDS_BITE.values(), ids=BOUNDS_BITE)
def test_bounds_change_nothing_that_is_found(job):
    """Where bounds rule most layouts out, the cheapest that fit are those of a sweep without bounds."""
    *_, last = search(job, keep=3, micro_batches=(1,))
    *_, every = search(job, every=True, micro_batches=(1,))
    assert last.pruned > last.total / 4
    assert 0 < len(every.best) < every.measured
    prices = [each.cost.per_token for each in every.best][: len(last.best)]
    assert [each.cost.per_token for each in last.best[:3]] == prices[:3]


TIGHT = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 8192},
    "hardware": {"num_gpus": 2, "accelerator": "rtx-4090"},
}
"""A job some of whose layouts fit, some do not, and some do not by a little."""
OUTSIZED = {**TIGHT, "model": "llama-3.1-70b"}
UNNAMED = {**TIGHT, "hardware": {"num_gpus": 2}}


@pytest.mark.parametrize(
    ("job", "verdicts"),
    [(TIGHT, {True, False}), (OUTSIZED, {False}), (UNNAMED, {None})],
    ids=["tight", "too large", "no accelerator"],
)
def test_every_layout_is_answered_as_estimate_answers_it(job, verdicts):
    """A sweep leaves nothing open: bytes and verdicts are those of `estimate`, and what fits is what it lists."""
    config = Config.from_dict(job)
    steps = list(search(config, every=True, micro_batches=(1, 2)))
    found = [each for step in steps for each in step.new]
    last = steps[-1]
    assert len(found) == last.measured > 20
    assert {each.fits for each in found} == verdicts
    for each in found:
        alone = estimate(each.config(config))
        assert (each.allocated, each.fits) == (alone.allocated.expected, alone.fits), each
        assert each.device is None or each.device == alone.device.expected
    assert {each.key for each in last.best} == {each.key for each in found if each.fits is not False}
    places = [order(each, HEADROOM) for each in last.best]
    assert places == sorted(places)


def test_a_layout_that_estimate_refuses_is_refused():
    """32 stages of 32 layers: torchtitan counts the ends as layers, so that the last would have none."""
    config = Config.from_dict(DENSE)
    question = questions_of(config, [32], None, 32, None, Tried(micro_batches=(1,)))[0][0]
    totals = Totals(config, question.space)
    deep = {each.stages: each for each in question.space.layouts() if each.tensor == each.context == 1}
    assert isinstance(totals.total(deep[16]), int)
    assert "would leave a stage empty" in str(totals.total(deep[32]))
    with pytest.raises(ConfigError, match="would leave a stage empty"):
        estimate(config_of(config, deep[32], question.space.policies))


def test_progress_streams_and_can_be_stopped():
    """Progress comes after every measurement, and nothing happens after the last look."""
    run = search(DENSE, keep=2)
    first, *some = islice(run, 4)
    assert (first.seen, first.done) == (0, False)
    assert [each.measured for each in some] == [1, 2, 3]
    run.close()


def test_a_large_search_shows_a_layout_before_it_lists_all():
    """The first progress of a job on many GPUs has a layout that fits with headroom, before any is counted."""
    job = {
        "model": "llama-3.1-405b",
        "engine": {"type": "megatron"},
        "training": {"sequence_length": 8192},
        "hardware": {"num_gpus": 1024, "accelerator": "h100-sxm-80gb"},
    }
    run = search(job, sequences=1024)
    first, second = next(run), next(run)
    run.close()
    assert (first.total, first.seen, len(first.best)) == (0, 0, 1)
    assert first.best[0].leaves(HEADROOM)
    assert estimate(first.best[0].config(Config.from_dict(job))).allocated.expected == first.best[0].allocated
    assert (second.seen, second.best) == (0, ())
    assert second.total > 1000


def test_several_clusters():
    """How many of which GPU: fewer GPUs and other accelerators compete, and the front names both."""
    *_, last = search(
        DENSE, gpus=[2, 4], accelerators=["h200-sxm-141gb", "h100-sxm-80gb"], sequences=8, keep=4, micro_batches=(1,)
    )
    assert {each.gpus for each in last.best} <= {2, 4}
    assert {each.accelerator for each in last.front} <= {"h200-sxm-141gb", "h100-sxm-80gb"}
    assert tuple(pareto(last.best)) == last.front


def outcome(progress):
    """What a search found, for comparison."""
    return {each.key: each.allocated for each in progress.new}


def swept(**more):
    """Everything that a sweep measures."""
    found = {}
    for progress in search(TRANSFORMERS, every=True, micro_batches=(1,), **more):
        found |= outcome(progress)
    return found


@cache
def rows_here():
    """What one process measures, row by row."""
    return [each for progress in search(TRANSFORMERS, every=True, micro_batches=(1,)) for each in progress.new]


def swept_here():
    """The same, for comparison."""
    return {each.key: each.allocated for each in rows_here()}


def test_what_is_tried_where_it_is_asked_for():
    """Pipelines whose ranks take turns among stages, and parameters on the host: totals are those of `estimate`."""
    config = Config.from_dict(DENSE)
    tried = Tried(micro_batches=(1,), schedules=("interleaved-1f1b", "zbv"), offload=True)
    question = questions_of(config, None, None, 16, None, tried)[0][0]
    policies = question.space.row.policies
    layouts = {
        (policies[each.policy].schedule, policies[each.policy].offloaded): each
        for each in question.space.layouts()
        if each.stages <= 2 and each.tensor == 1
    }
    assert {("interleaved-1f1b", False), ("zbv", False), ("1f1b", True)} <= set(layouts)
    totals = Totals(config, question.space)
    for each in layouts.values():
        found = estimate(config_of(config, each, question.space.policies)).allocated.expected
        assert totals.total(each) == found
        assert question.least(each, totals.growth(each)) <= found
    assert all(each.stages == 1 or policies[each.policy].schedule != "1f1b" for each in question.space.layouts())
    with pytest.raises(ConfigError, match="schedules"):
        next(search(DENSE, schedules=["zbw"]))


def test_a_named_schedule_is_kept():
    """A config with ZBV is searched with it."""
    named = {**DENSE, "parallelism": {"pipeline_schedule": "zbv"}}
    question = questions_of(Config.from_dict(named), None, None, 16, None, Tried())[0][0]
    policies = question.space.row.policies
    assert {policies[each.policy].schedule for each in question.space.layouts() if each.stages > 1} == {"zbv"}


def test_a_named_schedule_is_never_exchanged():
    """GPipe is estimated, but no row searches it: the answer would be another pipeline's."""
    with pytest.raises(ConfigError, match="pipeline_schedule: found 'gpipe'; only 1f1b, "):
        list(search({**DENSE, "engine": {"type": "fsdp"}, "parallelism": {"pipeline_schedule": "gpipe"}}))


OPEN = {
    "model": "llama-3.1-8b",
    "training": {"sequence_length": 8192},
    "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
}


def engines(config):
    """What a search of a config looks at, and the layers of each."""
    questions, _ = questions_of(Config.from_dict(config), None, None, None, None, Tried(micro_batches=(1,)))
    return {each.title: each.config[Training.implementation] for each in questions}


def test_engines_that_are_left_open():
    """Several engines compete where none is named, each result says which one it is; what is named is kept."""
    named = {"torchtitan": "torchtitan", "Megatron": "transformer-engine", "FSDP": "transformers"}
    assert engines(OPEN) == named
    assert engines(OPEN | {"engine": {"type": "fsdp"}}) == {k: v for k, v in named.items() if k != "Megatron"}
    assert engines(OPEN | {"engine": {"type": "megatron"}}) == {"megatron": None}
    layers = {"sequence_length": 8192, "implementation": "transformers"}
    assert engines(OPEN | {"training": layers}) == {"FSDP": "transformers"}
    assert engines(OPEN | {"hardware": {"num_gpus": 1}}) == {"one GPU": "transformers"}
    assert engines(OPEN | {"engine": {"type": "fsdp", "framework": "torchtune"}}) == {"fsdp": None}


def test_an_open_search_says_how_to_run_what_it_finds():
    """Every result passes `estimate` with the engine that it names, in that engine's words."""
    config = Config.from_dict(OPEN)
    *_, last = search(config, keep=2, micro_batches=(1,))
    assert last.best
    for each in last.best:
        found = estimate(each.config(config))
        assert found.fits
        assert (found.allocated.expected, found.job.engine.name) == (each.allocated, each.policy["engine.type"])
        sizes = " ".join(flags_of(each, config))
        assert ("--global-batch-size 8" in sizes) == (each.engine == "Megatron")
    text = search_text(last, config)
    assert all(each.engine in text for each in last.best)


def test_an_engine_that_cannot_do_the_job_is_named():
    """An optimizer that Megatron does not have leaves Megatron out, with the reason."""
    *_, last = search(TRANSFORMERS | {"training": {"sequence_length": 512, "optimizer": "lion"}}, keep=1)
    assert "training.optimizer.name" in last.left_out["Megatron"]
    assert "Megatron" not in {each.engine for each in last.best}


@pytest.fixture
def at_once(monkeypatch):
    """An executor gets all of the work, however little it is."""
    monkeypatch.setattr(tasks, "FIRST", 0)
    monkeypatch.setattr(tasks, "WORTH", 0)


class Counting(Executor):
    """Another executor that counts what it is given."""

    def __init__(self, other):
        self.other = other
        self.sent = 0

    def submit(self, function, /, *arguments, **named):
        """Hand it on."""
        self.sent += 1
        return self.other.submit(function, *arguments, **named)


@pytest.mark.machine
def test_processes_find_the_same(at_once):
    """A pool of processes measures what one process measures."""
    with ProcessPoolExecutor(2) as pool:
        counting = Counting(pool)
        assert swept(executor=counting) == swept_here() != {}
    assert counting.sent > 10


def test_little_work_is_done_here():
    """What takes less than processes take to start is not sent, nor is a search whose every measurement prunes."""
    tiny = {"model": "gpt2", "training": {"sequence_length": 128}, "hardware": {"num_gpus": 1, "accelerator": "t4"}}
    for job, every in [(tiny, True), (DENSE, False)]:
        executor = Unreliable(0)
        *_, last = search(job, every=every, micro_batches=(1,), executor=executor)
        assert last.best
        assert executor.sent == 0


def test_layouts_that_share_a_recording_are_sent_together(at_once):
    """Each task is all of a policy and a number of stages, so that two workers seldom record the same step."""
    executor = Unreliable(0)
    *_, last = search(PAIR, every=True, micro_batches=(1, 2), executor=executor)
    divisions = [{(each.policy, each.stages) for each in task.layouts} for task in executor.tasks]
    assert sum(len(task.layouts) for task in executor.tasks) == last.total
    assert {len(each) for each in divisions} == {1}
    assert len(set.union(*divisions)) == len(divisions) == executor.sent


@pytest.mark.machine
def test_the_documented_example_runs(tmp_path):
    """The first executor of docs/costs.md, as a script, prints what stands beside it."""
    page = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    script = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "ProcessPool" in block)
    (tmp_path / "sweep.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "sweep.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == script.rpartition("  # ")[2].strip()


@pytest.mark.machine
def test_a_dask_cluster_finds_the_same(at_once):
    """Unchanged on an engine that runs already: a local cluster of Dask; `test_processes_find_the_same` has several workers."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert swept(executor=client.get_executor()) == swept_here()


class Unreliable(Executor):
    """Loses the first tasks, as a worker does that dies."""

    def __init__(self, losses):
        self.losses = losses
        self.tasks = []

    @property
    def sent(self):
        """How many tasks it was given."""
        return len(self.tasks)

    def submit(self, function, /, *arguments, **named):
        """Do it at once, or lose it."""
        self.tasks += arguments
        future = Future()
        if self.losses:
            self.losses -= 1
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(function(*arguments, **named))
        return future


def test_lost_work_is_done_again(at_once):
    """A task whose worker was lost is sent again, and at last done here."""
    for losses in (2, 50):
        executor = Unreliable(losses)
        assert swept(executor=executor) == swept_here()
        assert executor.sent > 1


def test_messages_are_small():
    """A task is the config and its layouts, its answer one or two numbers for each."""
    _, where = space(DENSE)
    layouts = tuple(islice(where.layouts(), 64))
    task = Task(0, '{"model": "gpt2"}', where, layouts, None)
    assert len(pickle.dumps(task)) < 64 * 64
    answers = perform(Task(0, '{"model":"llama-3.2-1b"}', where, layouts[:2], None))
    assert len(pickle.dumps(answers)) < 400


def test_a_broken_sweep_is_resumed():
    """Rows that were written, in either format, are not measured again; a row that was cut off is."""
    rows = rows_here()
    for line in (json_line, csv_line):
        lines = ([csv_line()] if line is csv_line else []) + [line(each) for each in rows[:5]]
        lines[-1] = lines[-1][:-9]
        known = recorded(lines)
        assert known == {each.key: (each.allocated, each.device, each.fits) for each in rows[:4]}, line
    steps = list(search(TRANSFORMERS, every=True, micro_batches=(1,), known=known))
    rest = [each for step in steps for each in step.new]
    assert {each.layout for each in rest} == {each.layout for each in rows[4:]} != set()
    assert steps[-1].measured == len(rows)
    assert steps[-1].measured + steps[-1].refused == steps[-1].total
    fitting = {each.key for each in rows if each.fits}
    assert {each.key for each in steps[-1].best} == fitting != set()


def test_what_a_search_left_open_is_measured_in_a_sweep():
    """Rows of a search that asked no device say nothing of what fits; a search that goes on takes them as they are."""
    first = list(search(PAIR, keep=1))
    whole, rows = first[-1], [each for step in first for each in step.new]
    known = recorded(json_line(each) for each in rows)
    assert None in {each.fits for each in rows}
    *_, again = search(PAIR, keep=1, known=known)
    assert (again.best, again.measured, again.new) == (whole.best, whole.measured, ())
    decided = {each.key for each in rows if each.fits is not None}
    steps = list(search(PAIR, every=True, known=known))
    assert {each.key for step in steps for each in step.new}.isdisjoint(decided)
    assert steps[-1].measured == steps[-1].total > len(rows)


def test_servers_and_engines_without_a_row_are_refused():
    """A search says what it cannot look at."""
    with pytest.raises(ConfigError, match="no layouts to search"):
        next(search({"model": "gpt2", "engine": {"type": "vllm"}}))


def test_a_layout_is_a_config():
    """Sizes of 1 are left out, and the shard group where it is all ranks."""
    config = config_of(Config.from_dict(DENSE), Layout(2, 2, 1, 1, 2, 1, 1, 4, 0), ({},))
    assert config.to_dict()["parallelism"] == {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    assert (config[Hardware.num_gpus], config[Training.gradient_accumulation_steps]) == (8, 4)


def test_faces(capsys, tmp_path):
    """Terminal, JSON and picture show the same layouts; the command writes and resumes."""
    config = Config.from_dict(TRANSFORMERS)
    *_, last = search(config, keep=2, micro_batches=(1,))
    text, data = search_text(last, config), search_data(last, config)
    assert data["found"][0]["allocated"] == last.best[0].allocated
    assert "cheapest first" in text
    assert f"{last.best[0].device / 2**30:.1f}" in text.splitlines()[2].split()  # with what is free, the capacity
    output = tmp_path / "sweep.jsonl"
    command = [
        "search",
        "--model",
        "gpt2",
        "--seq",
        "512",
        "--gpus",
        "2",
        "--accelerator",
        "t4",
        "--micro-batches",
        "1",
    ]
    assert main([*command, "--every", "--write", str(output), "--json"]) == 0
    written = output.read_text().splitlines()
    best = json.loads(capsys.readouterr().out)["found"]
    assert len(best) == len(written) > 2
    assert main([*command, "--every", "--jobs", "2", "--write", str(output), "--csv"]) == 0
    assert output.read_text().splitlines() == written
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(written)


def test_headroom_comes_first_and_ties_go_to_the_simple():
    """What leaves a tenth of the GPU precedes what is cheaper and full; a share of 0 asks for the cheapest."""
    (*_, roomy), (*_, full) = (search(TIGHT, headroom=share, micro_batches=(1, 2)) for share in (HEADROOM, 0))
    assert all(each.leaves(HEADROOM) for each in roomy.best)
    assert not full.best[0].leaves(HEADROOM)
    assert full.best[0].cost.per_token < roomy.best[0].cost.per_token
    first = roomy.best[0]
    alike = replace(first, cost=replace(first.cost, seconds=first.cost.seconds * (1 - TIE / 100)))
    crooked = replace(alike, layout=first.layout._replace(context=2))
    assert min((crooked, first), key=lambda each: order(each, HEADROOM)) is first
    with pytest.raises(ConfigError, match="headroom"):
        next(search(TIGHT, headroom=1))


def test_stages_with_different_numbers_of_layers():
    """Megatron's 61 layers in 16 stages are listed; what is found is estimated alone to the same bytes, a bound below."""
    job = {
        "model": "deepseek-v3",
        "training": {"sequence_length": 4096},
        "engine": {"type": "megatron"},
        "hardware": {"num_gpus": 2048, "accelerator": "h100-sxm-80gb"},
    }
    question = questions_of(Config.from_dict(job), None, None, None, None, Tried(micro_batches=(1,)))[0][0]
    layout = next(each for each in question.space.layouts() if (each.tensor, each.stages, each.experts) == (1, 16, 8))
    assert question.space.divided(layout) == {"parallelism.pipeline_layout": [4] * 13 + [3] * 3}
    found = estimate(config_of(question.config, layout, question.space.policies, question.space.divided(layout)))
    assert question.least(layout) <= found.allocated.expected
    assert plan_of(found.job).layers == pytest.approx(question.works.layers(layout), rel=0.01)


@pytest.mark.parametrize(
    ("engine", "step"), [({"type": "deepspeed"}, 1), ({"type": "deepspeed", "overlap_comm": True}, 1), ({"type": "fsdp"}, 40),
                         ({"type": "megatron"}, 40)],
)  # fmt: skip
def test_layouts_send_what_their_engine_sends(engine, step):
    """What the cost of a layout takes as sent is what its own job sends: of DeepSpeed, by the ZeRO stage."""
    training = {"sequence_length": 4096, "gradient_accumulation_steps": 4}
    hardware = {"num_gpus": 16, "accelerator": "h100-sxm-80gb"}
    config = Config.from_dict({"model": "llama-3.1-8b", "training": training, "engine": engine, "hardware": hardware})
    question = questions_of(config, None, None, None, None, Tried())[0][0]
    compared = 0
    for layout in list(question.space.layouts())[::step]:
        try:
            job = estimate(config_of(question.config, layout, question.space.policies)).job
        except MemcoreError:
            continue
        if layout.shards == 1:
            continue  # nothing is gathered, however often
        compared += 1
        found = sent(question.space, layout, question.job, question.traffic)
        assert found._replace(shards=0) == traffic_of(job)._replace(shards=0)
    assert compared >= 6


@pytest.mark.parametrize(
    ("engine", "step"), [({}, 60), ({"type": "fsdp"}, 60), ({"type": "megatron"}, 80), ({"type": "deepspeed"}, 4), ({"type": "nanotron"}, 40)]
)  # fmt: skip
def test_layouts_cost_what_their_estimates_cost(engine, step):
    """What nothing fuses is counted as each layout divides it; stages have the layers that the engine gives them."""
    training = {"sequence_length": 4096, "gradient_accumulation_steps": 8}
    hardware = {"num_gpus": 16, "accelerator": "h100-sxm-80gb"}
    config = Config.from_dict({"model": "llama-3.2-1b", "training": training, "engine": engine, "hardware": hardware})
    compared = 0
    for question in questions_of(config, None, None, None, None, Tried())[0]:
        for layout in list(question.space.layouts())[7::step]:
            divided = question.space.divided(layout)
            try:
                job = estimate(config_of(question.config, layout, question.space.policies, divided)).job
            except MemcoreError:
                continue
            compared += 1
            own, found = cost_of(job, question.roofline), question.cost(layout)
            assert found.seconds == pytest.approx(own.seconds, rel=0.03), (question.title, layout)
            assert question.cheapest(layout).seconds <= found.seconds
    assert compared >= 3
