"""Each kind of input, and what is checked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from fuzzing import corpus, faces, jobs, pages, pairs, texts, trips
from fuzzing.fault_injection import inject_fault
from fuzzing.jobs import put
from fuzzing.trees import damaged
from memcore.hardware import ACCELERATORS
from memcore.questions.solving import SOLVABLE
from memcore.tools import TOOLS


@dataclass(frozen=True, slots=True)
class Target:
    """What is tried."""

    make: Callable[[Random], Any]
    """An input, as JSON holds it."""
    check: Callable[[Any], None]
    """Raises MemcoreError for what is refused; any other exception is a failure."""
    weight: int = 1
    """How often it is tried."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input."""

    target: str
    given: Any


def case_of(seed: int, only: str | None = None) -> Case:
    """The input of a seed, which is the same on every machine."""
    rng = Random(seed)  # noqa: S311 - nothing is secret
    drawn = rng.choices(list(TARGETS), [each.weight for each in TARGETS.values()])[0]
    name = only or drawn
    return Case(name, TARGETS[name].make(rng))


def _advice(rng: Random) -> Any:
    return {"config": jobs.job(rng, most=4), "ladder": rng.random() < 0.5}


SOLVED = (
    "training.micro_batch_size", "training.sequence_length", "hardware.num_gpus", "model.layers",
    "hardware.accelerator", "hardware.gpu_memory_gb", "inference.max_model_len", "inference.batch_size",
)  # fmt: skip
"""What people solve for, twice as often as all else together; of the other task only by chance."""


def _solution(rng: Random) -> Any:
    config = jobs.job(rng, most=3)
    other = "training." if "inference" in config else "inference."
    asked = [each for each in SOLVED if not each.startswith(other)]
    return {
        "config": config,
        "setting": rng.choice([*SOLVABLE, *(each for each in asked for _ in range(2 * len(SOLVABLE) // len(asked)))]),
        "smallest": rng.choice([None, None, True, False]),
    }


def _planned(rng: Random) -> Any:
    config = jobs.job(rng, most=3)
    put(config, "hardware.accelerator", rng.choice(ACCELERATORS).id)
    options: dict[str, Any] = {}
    choices: dict[str, list[Any]] = {
        "goal": ["fine-tune", "pre-train", "x"], "quality": ["same", "close", "any"], "headroom": [0, 0.5, 1.5],
        "keep": [1, 3],
    }  # fmt: skip
    for name, values in choices.items():
        if rng.random() < 0.3:
            options[name] = rng.choice(values)
    return {"config": config, "options": options}


def _search(rng: Random) -> Any:
    options: dict[str, Any] = {}
    choices: dict[str, list[Any]] = {
        "keep": [1, 2, 8], "every": [True, False], "offload": [True], "micro_batches": [[1], [1, 2, 3], [64]],
        "sequences": [1, 8, 64, 60], "gpus": [[1], [2, 4], [8], [6]],
        "accelerators": [[rng.choice(ACCELERATORS).id]], "schedules": [["1f1b"], ["zbv", "interleaved-1f1b"], ["x"]],
    }  # fmt: skip
    for name, values in choices.items():
        if rng.random() < 0.3:
            options[name] = rng.choice(values)
    config = jobs.job(rng, SEARCHED, most=3)
    if options.get("every"):  # takes long because it looks at everything, a recorded step for each kind of layout
        config["model"] = rng.choice(corpus.networks())
        options["micro_batches"] = options.get("micro_batches", [1, 2])[:2]
        options["gpus"] = [min(each, 4) for each in options.get("gpus", [4])]
    return {"config": config, "options": options}


SEARCHED = ("none", "ddp", "fsdp", "megatron", "deepspeed", "nanotron", "vllm")


def _reconciled(rng: Random) -> Any:
    found = {"config": jobs.job(rng), "text": texts.log(rng)}
    return found if rng.random() < 0.8 else {**found, "reading": rng.choice(["max_allocated", "device_used", "x"])}


def _log(rng: Random) -> Any:
    return {"text": texts.log(rng)}


def _file(rng: Random) -> Any:
    found: dict[str, Any] = {"text": texts.file(rng)}
    if rng.random() < 0.5:
        found["gpus"] = rng.choice([1, 2, 8, 16, 1000, 3])
    return found if rng.random() < 0.8 else {**found, "name": rng.choice(["a.json", "a.yaml", "-", ""])}


def _link(rng: Random) -> Any:
    return {"link": texts.link(rng)}


COMMANDS = (
    "estimate",
    "explain",
    "advise",
    "plan",
    "solve",
    "search",
    "validate",
    "url",
    "gpus",
    "formulas",
    "convert",
)
"""Those that take a config and write no file."""


def _arguments(rng: Random) -> Any:
    name = rng.choice(COMMANDS)
    found = [name, *texts.arguments(rng)]
    if name == "solve":
        found += ["--for", rng.choice([*SOLVABLE, "users", "context", "layers", "x"])]
    if name == "convert" and rng.random() < 0.7:
        found += ["--to", rng.choice([name for name, tool in TOOLS.items() if not tool.read_only])]
    if rng.random() < 0.5:
        found.append("--json")
    return {"arguments": found}


def _size(rng: Random) -> Any:
    return {
        "size": rng.choice(["7", "7e9", "350M", "0.5", "1e21", "70B", "-1", "x", "0", "1e400", "nan", "3.5T"]),
        "gpus": rng.choice([1, 2, 8, 3, 16_384]),
        "engine": rng.choice([None, "pytorch", "ddp", "fsdp", "deepspeed", "megatron", "megatron_lm", "vllm", "x", ""]),
        "dtype": rng.choice(["bf16", "fp16", "fp32", "float32", "x"]),
        "memory": rng.choice([80, 24, 0.5, 1e9, 0, -1]),
    }


def _case(rng: Random) -> Any:
    return damaged(rng.choice(corpus.cases()), rng)


def _pair(rng: Random) -> Any:
    return rng.choice(PAIRS)(rng)


def _trained(rng: Random, engines: tuple[str, ...] = ("none", "ddp", "fsdp", "deepspeed")) -> Any:
    """A job whose attention has one kernel, whatever the sizes."""
    found = jobs.job(rng, engines, most=4)
    found["model"] = rng.choice(corpus.networks())
    put(found, "training.attention", rng.choice(["math", "flash"]))
    return found


def _more_work(rng: Random) -> Any:
    path = rng.choice(pairs.WORK)
    config = _trained(rng)
    least = 2 if "accumulation" in path else rng.choice([1, 2, 3]) if "batch" in path else 64 * rng.randrange(1, 9)
    put(config, path, least)
    return {"pair": "more work", "config": config, "changes": {path: least * rng.choice([2, 3, 4])}}


def _more_ranks(rng: Random) -> Any:
    config = _trained(rng, ("fsdp", "deepspeed"))
    config["parallelism"] = {}
    gpus = rng.choice([2, 4, 8])  # one alone gathers nothing, so that it needs no buffers
    put(config, "hardware.num_gpus", gpus)
    if config["engine"]["type"] == "deepspeed":
        put(config, "engine.zero_stage", rng.choice([1, 2, 3]))
    return {"pair": "more ranks", "config": config, "changes": {"hardware.num_gpus": gpus * 2}}


def _checkpointed(rng: Random) -> Any:
    config = _trained(rng)
    config["parallelism"] = {}  # with a pipeline another stage may hold most
    config["training"].pop("offload", None)
    put(config, "training.activation_checkpointing", {"policy": "none"})
    return {"pair": "checkpointing", "config": config, "changes": {"training.activation_checkpointing.policy": "full"}}


def _frozen(rng: Random) -> Any:
    config = _trained(rng)
    config.get("training", {}).pop("adapter", None)
    config["training"].pop("trainable", None)
    return {
        "pair": "frozen",
        "config": config,
        "changes": {"training.trainable": rng.choice(["mlp", "norm", "lm_head", "attn"])},
    }


PAIRS = (_more_work, _more_work, _more_ranks, _checkpointed, _frozen)

TARGETS: Mapping[str, Target] = {
    "job": Target(jobs.any_job, faces.of_job, 24),
    "explain": Target(jobs.job, faces.of_explanation, 4),
    "pictures": Target(jobs.job, faces.of_pictures, 4),
    "exports": Target(jobs.job, faces.of_exports, 6),
    "command": Target(jobs.any_job, faces.of_command, 6),
    "arguments": Target(_arguments, faces.of_arguments, 6),
    "advise": Target(_advice, faces.of_advice, 2),
    "solve": Target(_solution, faces.of_solution, 2),
    "plan": Target(_planned, faces.of_plan, 2),
    "search": Target(_search, faces.of_search, 2),
    "formulas": Target(jobs.any_job, faces.of_formulas, 2),
    "reconcile": Target(_reconciled, faces.of_reconciled, 3),
    "log": Target(_log, faces.of_log, 6),
    "file": Target(_file, faces.of_file, 14),
    "link": Target(_link, faces.of_link, 8),
    "model": Target(jobs.damaged_model, faces.of_model, 10),
    "quick": Target(_size, faces.of_size, 1),
    "accuracy": Target(_case, faces.of_case, 2),
    "pair": Target(_pair, pairs.of_pair, 8),
    "page": Target(pages.visit, pages.of_visit, 5),
    "trip": Target(trips.trip, trips.of_trip, 0),
    "fault": Target(lambda rng: {}, inject_fault, 0),
}
"""By name."""
