"""Digests of whole answers, to prove that a change of the code's structure changes no answer.

    python tests/freeze.py write FILE [--jobs N]    freeze every truth case and N random jobs (5,000)
    python tests/freeze.py check FILE               what answers otherwise than when the file was written
    python tests/freeze.py sample FILE              renew the sample in tests/truth/frozen.json from such a file

An answer is frozen as two digests: of its bytes (every class of ranks, moment, ledger line and reading, or what the
server's pool holds), and of its words (assumptions, reasons, formulas, or why it is refused). A change of structure keeps
both; a change of wording keeps the first. Jobs are stored beside their digests, so that they outlive changes of the schema.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import memcore  # noqa: E402
from memcore.config.settings import SETTINGS  # noqa: E402
from memcore.errors import MemcoreError  # noqa: E402

TRUTH = ROOT / "tests" / "truth"
SAMPLE = TRUTH / "frozen.json"
CASES = ("simulated", "hardware", "megatron", "nanotron", "inference", "serving", "runs")
"""Truth files whose rows have a config; the simulated ones ran on fake tensors."""
SERVERS = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers")
TRAINERS = ("none", "ddp", "fsdp", "deepspeed", "megatron-deepspeed", "megatron", "megatron-fsdp", "nanotron")
SIZES = {"sequence_length": (16, 4096), "micro_batch_size": (1, 4), "gradient_accumulation_steps": (1, 8)}
"""Bounds for settings whose whole range would make most jobs absurd."""

Row = dict[str, Any]


def digest(value: object) -> str:
    """Sixteen letters that stand for a value of plain types."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def frozen(job: Row, *, fake: bool = False) -> list[str]:
    """The digests of a job's bytes and of its words."""
    try:
        found = memcore.estimate(job, fake=fake)
        values, words = _served(found) if hasattr(found, "pool") else _trained(found)
    except MemcoreError as error:
        return ["refused", digest(str(error))]
    except Exception as error:  # noqa: BLE001 - a crash is frozen too: a move neither mends nor moves it
        return ["crashed", type(error).__name__]
    return [digest(values), digest([words, _assumed(found)])]


def _assumed(found: Any) -> list[object]:
    return [[each.path, each.value, each.reason, each.notable] for each in found.assumptions]


def _readings(found: Any) -> tuple[list[object], list[object]]:
    values = [[each.name, each.low, each.expected, each.high] for each in found.readings]
    return [values, found.fits, found.certain, found.headroom, found.capacity], [
        each.range_because for each in found.readings
    ]


def _trained(found: Any) -> tuple[object, object]:
    """Of every class of ranks: its moments, and the ledgers of its peak and of the highest moment of each phase."""
    values, words = _readings(found)
    for rank in found.ranks:
        moments = [[m.phase, m.place, m.peak, m.end, m.first, m.repeats, list(m.turn)] for m in rank.moments]
        highest = {m.phase: m for m in sorted(rank.moments, key=lambda each: each.peak)}
        entries = [entry for phase in sorted(highest) for entry in rank.ledger(highest[phase]).entries]
        entries += [*rank.initial.entries, *rank.host]
        values.append([rank.name, rank.count, moments, rank.reserved, rank.most_reserved, rank.least_reserved,
                       rank.first_step, rank.after_init])  # fmt: skip
        values.append([[e.rule, e.category, e.module, e.dtype, e.copies, e.each] for e in entries])
        words.append([[e.title, e.source, e.numbers(rank.job.sizes), e.formula, e.why] for e in entries])
    return values, words


def _served(found: Any) -> tuple[object, object]:
    """Of every class of ranks: its ledger and what is left for the cache; and what the pool takes."""
    values, words = _readings(found)
    for rank in found.ranks:
        values.append([rank.name, rank.count, rank.available, list(rank.uncertain), list(rank.spread)])
        values.append(
            [[e.category, e.module, str(e.itemsize), e.copies, e.low, e.bytes, e.high] for e in rank.ledger.entries]
        )
        words.append([[e.title, e.source, e.formula, e.numbers(), e.why] for e in rank.ledger.entries])
    pool, budget = found.pool, found.budget
    if pool is not None:
        values.append(
            [
                pool.capacity,
                pool.capacity_low,
                pool.capacity_high,
                pool.unit,
                pool.tokens,
                pool.bytes_each,
                pool.replicas,
            ]
        )
        values.append([pool.needed(tokens) for tokens in (1, 100, 4096, 100_000)])
    values.append([budget.line, None if budget.host is None else [[e.title, e.bytes] for e in budget.host.entries]])
    return values, [words, found.notes, budget.line_title, sorted(budget.inside)]


def rows(count: int) -> Iterator[Row]:
    """Truth cases, and random jobs that are the same in every run."""
    for name in CASES:
        for case in json.loads((TRUTH / f"{name}.json").read_text(encoding="utf-8")):
            yield {"id": case["id"], "job": case["config"], "fake": name == "simulated"}
    draw = random.Random(20)
    models = _models()
    for number in range(count):
        yield {"id": f"random-{number}", "job": _random_job(draw, models), "fake": False}


def _models() -> list[object]:
    checkpoints = json.loads((TRUTH / "checkpoints.json").read_text(encoding="utf-8"))
    tapes = json.loads((TRUTH / "tapes.json").read_text(encoding="utf-8"))
    small = [case["config"]["model"] for case in tapes.values()]
    usual = ["gpt2", "llama-3.1-8b", "qwen3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "gemma-2-9b"]
    return [*usual * 8, *small, *(each["config"] for each in checkpoints.values())]


def _random_job(draw: random.Random, models: list[object]) -> Row:
    """A job of any engine with a few settings; most are answered."""
    serving = draw.random() < 0.3
    engine = draw.choice(SERVERS if serving else TRAINERS)
    job: Row = {"model": draw.choice(models), "engine": {"type": engine}, "hardware": {}}
    skip = ("training." if serving else "inference.", "model", "engine.type", "hardware.num_gpus")
    fitting = [path for path, setting in SETTINGS.items()
               if not path.startswith(skip) and (setting.engines is None or engine in setting.engines)]  # fmt: skip
    if engine != "none":
        job["hardware"]["num_gpus"] = draw.choice([1, 2, 4, 8, 8, 16, 64])
    if draw.random() < 0.6:
        job["hardware"]["accelerator"] = draw.choice(["h100-sxm-80gb", "a100-sxm-40gb", "rtx-4090", "t4"])
    if not serving:
        job["training"] = {"sequence_length": draw.choice([128, 512, 2048])}
    for path in draw.sample(fitting, draw.choice([0, 1, 1, 2, 2, 3, 4])):
        *sections, name = path.split(".")
        place = job
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                break
        else:
            place.setdefault(name, _value(draw, path, SETTINGS[path].kind.schema()))
    return job


def _value(draw: random.Random, path: str, schema: Row) -> object:
    """A value that a setting's JSON Schema allows."""
    if "anyOf" in schema:
        return _value(draw, path, draw.choice(schema["anyOf"]))
    if "enum" in schema:
        return draw.choice([each for each in schema["enum"] if each is not None])
    low, high = SIZES.get(path.rpartition(".")[2], (schema.get("minimum", 1), min(schema.get("maximum", 64), 64)))
    match schema.get("type"):
        case "boolean":
            return draw.random() < 0.5
        case "integer":
            return max(int(low), min(2 ** draw.randint(0, 6), int(high)))
        case "number":
            return round(draw.uniform(float(low), float(high)), 2)
        case "array":
            return [_value(draw, path, schema["items"])]
    return draw.choice(["all-linear", "q_proj", "0.19.0", "2", "peft", "torchtune", "trl"])


def _answered(row: Row) -> Row:
    return {**row, "frozen": frozen(row["job"], fake=row["fake"])}


def answers(given: list[Row]) -> list[Row]:
    """Rows with their digests, on all cores."""
    from concurrent.futures import ProcessPoolExecutor  # there are no processes inside Pyodide

    with ProcessPoolExecutor() as pool:
        return list(pool.map(_answered, given, chunksize=16))


def main() -> int:
    """Run a command; 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("write", "check", "sample"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--jobs", type=int, default=5000)
    options = parser.parse_args()
    if options.command == "write":
        options.file.write_text(
            "\n".join(json.dumps(row) for row in answers(list(rows(options.jobs)))), encoding="utf-8"
        )
        return 0
    known = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    if options.command == "sample":
        refused = [row for row in known if row["frozen"][0] == "refused"]
        answered = [row for row in known if row not in refused]
        lines = ",\n".join(json.dumps(row) for row in (*answered[::20], *refused[::80]))
        SAMPLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        return 0
    changed = 0
    for before, now in zip(known, answers(known), strict=True):
        what = [name for name, a, b in zip(("bytes", "words"), before["frozen"], now["frozen"], strict=True) if a != b]
        if what:
            changed += 1
            print(before["id"], *what, json.dumps(before["job"])[:300])
    print(f"{len(known)} answers, {changed} differ")
    return min(changed, 1)


if __name__ == "__main__":
    sys.exit(main())
