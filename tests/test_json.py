"""The JSON Schemas of the documentation hold for what commands print about other jobs than those they were found from."""

import json
import sys
from pathlib import Path

import pytest

from memcore.faces.cli import COMMANDS, main

pytestmark = pytest.mark.machine
DOCS = Path(__file__).parent.parent / "docs"
SCHEMAS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((DOCS / "schemas").glob("*.json"))
}
JOBS = (
    "estimate --model deepseek-v2-lite --gpus 8 --seq 1024 --engine megatron --ep 8 --accelerator l40s",
    "estimate --model llama-3.1-8b --adapter lora --frozen-weights nf4 --seq 512 --grad-accum 4 --accelerator rtx-4090",
    "estimate --model llama-3.2-1b --engine deepspeed --zero-stage 3 --gpus 4 --seq 512",
    "estimate --model qwen3-0.6b --engine transformers --batch 4 --prompt 64 --output 8 --accelerator t4",
    "estimate --model qwen3-30b-a3b --engine sglang --tp 2 --accelerator a100-sxm-80gb",
    "estimate --model qwen3-8b --engine llama.cpp --accelerator t4",
    "quick 1.5b",
    "explain --model qwen3-0.6b --engine ddp --gpus 2 --seq 256 --at backward",
    "explain --model qwen3-0.6b --engine vllm --accelerator t4",
    "plan --model llama-3.1-405b --accelerator t4 --gpus 1 --seq 1024",
    "advise --model llama-3.2-1b --seq 2048",
    "solve --model llama-3.1-405b --seq 512 --for seq --accelerator t4",
    "solve --model qwen3-0.6b --seq 512 --for accelerator",
    "search --model qwen3-0.6b --gpus 4 --seq 512",
    "reconcile job.json train.log",
    "check --model llama-3.1-8b --accelerator t4 --seq 8192",
    "check --model gpt2 --tp 0",
    "convert --model llama-3.1-8b --engine vllm --accelerator h100-sxm-80gb",
    "accuracy measured.json",
    "formulas --model llama-3.2-1b --seq 512",
    "formulas --model gpt2 --engine megatron --tp 2 --gpus 2",
    "model deepseek-v3",
    "models qwen3",
    "gpus --model qwen3-32b --engine vllm --max-len 2048",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a job, a log and measured cases."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps({"model": "gpt2", "hardware": {"accelerator": "t4"}}))
    (tmp_path / "train.log").write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.21 GiB. 71.3 GiB\n"
    )
    cases = json.loads((DOCS.parent / "tests" / "truth" / "hardware.json").read_text(encoding="utf-8"))
    rows = cases["cases"] if isinstance(cases, dict) else cases
    (tmp_path / "measured.json").write_text(json.dumps({"cases": rows[:12]}))


@pytest.mark.parametrize("line", JOBS)
def test_schemas_hold_for_other_jobs(line, folder, capsys):
    """Every key is in the schema, of the type that it says."""
    import jsonschema

    name = line.split()[0]
    assert main([*line.split(), "--json"]) in {0, 1, 2}
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    errors = [
        f"{each.json_path}: {each.message[:200]}"
        for each in jsonschema.Draft202012Validator(SCHEMAS[name]).iter_errors(found)
    ]
    assert errors == []


def test_every_command_has_a_schema():
    """But that which prints scripts; each key of each schema is explained."""
    assert set(SCHEMAS) == set(COMMANDS) - {"completion"}

    def keys(found):
        for name, inner in found.get("properties", {}).items():
            yield name, inner
            yield from keys(inner)
        for more in ("items", "additionalProperties"):
            yield from keys(found[more]) if isinstance(found.get(more), dict) else ()

    every = [each for found in SCHEMAS.values() for each in keys(found)]
    assert len(every) > 300
    assert [name for name, inner in every if not inner.get("description")] == []


def test_no_meaning_is_left_over(monkeypatch):
    """Every row of the table of meanings explains some key."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from json_meanings import MEANINGS

    said = "\n".join(json.dumps(found, ensure_ascii=False) for found in SCHEMAS.values())
    assert MEANINGS
    assert [key for key, text in MEANINGS.items() if json.dumps(text, ensure_ascii=False) not in said] == []
