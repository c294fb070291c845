"""The page of every `--json`: JSON Schemas, found from what the commands print, and what each key means."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from json_meanings import MEANINGS

from memcore.faces.cli import COMMANDS, main

TRAINING = "--model llama-3.1-8b --gpus 8 --accelerator h100-sxm-80gb --seq 4096"
MOE = "--model qwen3-30b-a3b --gpus 8 --accelerator h100-sxm-80gb --seq 2048 --checkpointing full"
OPEN = "--model gpt2 --seq 512"
SERVER = "--model llama-3.1-8b --engine vllm --accelerator h100-sxm-80gb --max-len 8192"
FULL = "--model llama-3.1-70b --engine vllm --accelerator l40s --batch 50"
SCRIPT = "--model gpt2 --engine transformers --prompt 100 --output 20"
UNKNOWN = f"{SCRIPT} --accelerator t4"
"""A server of which no published rates are known."""
LLAMACPP = "--model llama-3.1-8b --engine llama.cpp --accelerator rtx-4090 --max-len 4096"
SGLANG = "--model llama-3.1-8b --engine sglang --accelerator h100-sxm-80gb --max-len 4096"
FAILED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.21 GiB.\n71.3 GiB\n"
FILE = "base_model: gpt2\nsequence_len: 512\nmicro_batch_size: 2\nlearning_rate: 2e-5\neot_tokens: [x]\n"
LOG = "step: 10  memory: 2.50GiB(3.16%)\n"
STEPS = "iteration 10 | elapsed time per iteration (ms): 300.0 |\n"
MEASURED = {
    "cases": [
        {
            "id": f"example {quantity}", "config": {"model": "gpt2", "training": {"sequence_length": 512}, **more},
            "measured": {"quantity": quantity, **value, "rank": 0, "moment": "peak"},
            "source": {"kind": "hardware", "title": "example", "where": "example"}, "confidence": "medium",
        }
        for quantity, value, more in (
            ("max_allocated", {"bytes": 2**31}, {}),
            ("device_used", {"bytes": 2**31}, {}),
            ("fits", {"value": False}, {"hardware": {"accelerator": "t4"}}),
            ("max_allocated", {"bytes": 2**31}, {"engine": {"type": "ddp"}}),
        )
    ]
}  # fmt: skip
RUNS: Mapping[str, Sequence[str]] = {
    "estimate": ("train.yaml", TRAINING, MOE, OPEN, SERVER, FULL, SCRIPT, UNKNOWN, LLAMACPP, SGLANG),
    "quick": ("8b --gpus 8",),
    "explain": (OPEN, MOE, SERVER, SCRIPT),
    "plan": (f"{TRAINING} --adapter lora --tokens 1B --price 2", SERVER),
    "advise": (f"{OPEN} --accelerator t4 --ladder", SERVER, OPEN),
    "solve": (
        f"{OPEN} --accelerator t4 --for seq",
        f"{SERVER} --for max-len",
        f"{OPEN} --for accelerator",
        "--model llama-3.1-70b --seq 1024 --accelerator t4 --for micro-batch",
        "--model llama-3.1-8b --adapter lora --seq 1024 --accelerator rtx-4090 --for micro-batch",
    ),
    "search": ("--model llama-3.2-1b --gpus 2 --accelerator h100-sxm-80gb --seq 2048", f"{OPEN} --gpus 2"),
    "calibrate": ("job.json steps.log",),
    "reconcile": ("job.json train.log", "job.json failed.log"),
    "check": (f"{OPEN} --accelerator t4", "--model gpt2 --seq 0"),
    "validate": (OPEN,),
    "url": (OPEN,),
    "convert": (OPEN,),
    "accuracy": ("measured.json",),
    "formulas": ("--model llama-3.1-8b --engine megatron --tp 8 --gpus 8",),
    "model": ("gpt2", "qwen3-30b-a3b", "Qwen/Qwen2.5-7B-Instruct-AWQ"),
    "models": ("gpt2", "flan-t5-base"),
    "gpus": (SERVER, "--model llama-3.1-405b --engine vllm --max-len 4096", TRAINING),
    "hardware": ("",),
}
"""What is run to see what a command prints."""


def printed(name: str) -> Iterator[Any]:
    """Run a command on its examples and yield what it prints."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("job.json").write_text(json.dumps({"model": "gpt2", "training": {"sequence_length": 512}}))
        Path("train.yaml").write_text(FILE)
        Path("train.log").write_text(LOG)
        Path("steps.log").write_text(STEPS)
        Path("failed.log").write_text(FAILED)
        Path("measured.json").write_text(json.dumps(MEASURED))
        for line in RUNS[name]:
            said, notes = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(notes):
                main([name, *line.split(), "--json"])
            yield json.loads(said.getvalue())


MAPS = frozenset({
    "arguments", "breakdown", "calculators", "changes", "exports", "formulas", "kv_bytes_per_token", "left_out", "parameters_by_kind", "parts",
    "published_extras", "published_weights", "rates", "reasons", "settings", "symbols",
})  # fmt: skip
"""Keys whose objects are maps: their own keys are names, not words of the format."""
CONFIGS = frozenset({"config", "asked"})
"""Keys that hold a config, which has a schema of its own."""
ANYTHING = frozenset({"value", "beyond", "from", "to"})
"""Keys whose value is that of some setting."""
KINDS: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints with `--json`."""
    listed = COMMANDS[name].summary
    found = _schema(list(printed(name)), name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"memcore {name} --json",
        "description": f"{listed[0].upper()}{listed[1:]}.",
        **found,
    }


def _schema(values: Sequence[Any], path: str) -> dict[str, Any]:
    key = path.rpartition(".")[2].removesuffix("[]")
    if path.count(".") and key in CONFIGS:
        return {"type": "object"}
    if key in ANYTHING and not any(isinstance(each, dict) for each in values):
        return {}
    found: dict[str, Any] = {}
    types = sorted({KINDS[type(each)] for each in values if type(each) in KINDS})
    if "number" in types and "integer" in types:
        types.remove("integer")
    objects, lists = (
        [each for each in values if isinstance(each, dict)],
        [each for each in values if isinstance(each, list)],
    )
    if objects:
        types.append("object")
        found |= _object(objects, path, key)
    if lists:
        types.append("array")
        items = [item for each in lists for item in each]
        found |= {"items": _schema(items, f"{path}[]")} if items else {}
    # What was null in every example may be anything else in another job.
    return {} if types == ["null"] else {"type": types[0] if len(types) == 1 else types, **found} if types else {}


def _object(objects: Sequence[Mapping[str, Any]], path: str, key: str) -> dict[str, Any]:
    if key in MAPS and path != "formulas" and not path.endswith("[]"):
        inner = [value for each in objects for value in each.values()]
        return {"additionalProperties": _schema(inner, f"{path}.*") if inner else {}}
    names = list(dict.fromkeys(name for each in objects for name in each))
    return {
        "properties": {
            name: {
                **_schema([each[name] for each in objects if name in each], f"{path}.{name}"),
                "description": meaning(f"{path}.{name}"),
            }
            for name in names
        },
        "required": [name for name in names if all(name in each for each in objects)],
        "additionalProperties": False,
    }


def meaning(path: str) -> str:
    """Return what a key means; a key without a meaning is an error."""
    if path in MEANINGS:
        return MEANINGS[path]
    return MEANINGS[path.rpartition(".")[2]]


def schemas() -> dict[str, str]:
    """Every schema as a file."""
    return {f"docs/schemas/{name}.json": json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n" for name in RUNS}


def page(files: Mapping[str, str]) -> str:
    """The page: a table of keys for each command, and a link to its schema."""
    blocks = [
        "# JSON",
        "Generated from what the commands print. With `--json` a command prints one JSON value. Sizes are bytes. A wrong input "
        'prints `{"problems": [{"path", "message", "suggestion"}]}` and exits with 2. New keys may appear in later '
        "releases; the schemas describe this one. `to_dict()` in [Python](api.md) returns what `estimate --json` prints.",
        "Configs have [a schema of their own](reference.md#settings), which the page links in its footer.",
    ]
    for name in RUNS:
        found = json.loads(files[f"docs/schemas/{name}.json"])
        rows = "\n".join(f"| `{path}` | {kind} | {said} |" for path, kind, said in _rows(found, ""))
        blocks += [
            f"## memcore {name} --json",
            f"{found['description']} [Schema](schemas/{name}.json)",
            f"| Key | Type | Meaning |\n| --- | --- | --- |\n{rows}",
        ]
    return "\n\n".join(blocks) + "\n"


def _rows(found: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    if "items" in found:
        yield from _rows(found["items"], f"{path}[]")
    for name, inner in found.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, _kind(inner), inner["description"].replace("|", "\\|")
        yield from _rows(inner, here)
    more = found.get("additionalProperties")
    if isinstance(more, dict) and "properties" in more:
        yield from _rows(more, f"{path}.*")


def _kind(found: Mapping[str, Any]) -> str:
    kinds = found.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
