"""The command line, as a program: what it prints and its exit status."""

import io
import json
import math
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from conftest import truth

from memcore.config.settings import SETTINGS
from memcore.faces.cli import main
from memcore.faces.page.presets import presets

EXAMPLE = presets()["8b-8xh100"].config

pytestmark = pytest.mark.machine
FLAGS = [
    "--model",
    "llama-3.1-8b",
    "--gpus",
    "8",
    "--accelerator",
    "h100-sxm-80gb",
    "--engine",
    "fsdp",
    "--seq",
    "8k",
    "--checkpointing",
    "full",
]


def memcore(*arguments, stdin=""):
    """Run the command in this process and return its status and what it prints: one of its own takes as long to start."""
    printed, said, given = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(printed), redirect_stderr(said):
        patched.setattr(sys, "stdin", given)
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as end:
            status = end.code
    return status, printed.getvalue(), said.getvalue()


STARTED = {
    "an answer": (["validate", "gpt2", "--seq", "512", "--json"], ""),
    "a job that does not fit": (["estimate", "--model", "llama-3.1-8b", "--accelerator", "t4"], ""),
    "standard input": (["validate", "-", "--json"], '{"model": "gpt2", "trainin": 1}'),
    "a mistake": (["validate", "#v1&model=gpt2&foo=1"], ""),
    "help": (["estimate", "--help"], ""),
    "nothing": ([], ""),
}


@pytest.mark.parametrize(("arguments", "stdin"), STARTED.values(), ids=STARTED)
def test_the_program_is_the_command(arguments, stdin):
    """`python -m memcore` prints, says and returns what the command does in this process."""
    command = [sys.executable, "-m", "memcore", *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8"
    )
    assert (done.returncode, done.stdout, done.stderr) == memcore(*arguments, stdin=stdin)


def test_a_model_of_the_catalog_stands_for_a_config():
    """By its id or its hub id, with flags on top."""
    flags = ["--seq", "512", "--json"]
    answers = [memcore("validate", name, *flags) for name in ("gpt2", "openai-community/gpt2")]
    named = [memcore("validate", "--model", name, *flags) for name in ("gpt2", "openai-community/gpt2")]
    assert answers == named
    assert {status for status, _, _ in answers} == {0}


def test_a_command_is_read_as_it_is_typed():
    """One argument may be the command that starts the job; a name of several words stays a name."""
    typed = memcore("validate", "vllm serve openai-community/gpt2 --max-num-seqs 4", "--json")
    read = memcore("validate", "-", "--json", stdin="vllm serve openai-community/gpt2 --max-num-seqs 4")
    assert typed[:2] == read[:2]
    assert json.loads(typed[1])["config"]["engine"]["type"] == "vllm"
    assert memcore("validate", "llama3 8b instruct")[0] == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["llama-3.1-8b", "--seq", "4096", "--accelerator", "rtx-4090"], "LoRA on all linear layers"),
        (["qwen3-30b-a3b", "--engine", "vllm", "--gpus", "2", "--accelerator", "rtx-4090"], "weights in fp8"),
        (["llama-3.1-405b", "--engine", "sglang", "--gpus", "8", "--accelerator", "t4"], "each GPU has 14.6 GiB"),
    ],
)
def test_what_does_not_fit_ends_with_what_does(flags, said):
    """Three plans at most, after the limit where none fits as asked; JSON has the answer alone."""
    status, out, _ = memcore("estimate", "--model", *flags)
    found, _, plans = out.partition("What fits (`memcore plan`")
    assert status == 1
    assert said in " ".join(out[out.index("\nAssumed") :].split())
    assert 1 <= len(re.findall(r"^ +[\d.]+ [GM]iB  ", plans, re.MULTILINE)) <= 3
    assert "Assumed" in found
    assert "What fits" not in memcore("estimate", "--model", *flags, "--json")[1]


def test_a_value_that_does_not_exist_ends_with_what_fits():
    """No micro-batch fits without checkpointing; with it one does."""
    flags = ("solve", "--model", "qwen3-8b", "--adapter", "lora", "--accelerator", "3090", "--for", "batch")
    status, out, _ = memcore(*flags, "--seq", "2048")
    assert status == 1
    assert "no value fits" in out
    assert "full checkpointing" in out.partition("What fits (`memcore plan`")[2]


@pytest.fixture
def job(tmp_path):
    """The example job as a file."""
    path = tmp_path / "job.json"
    path.write_text(json.dumps(EXAMPLE))
    return path


OF_FILES = {"read", "of_no_account", "left_out", "assumed"}
"""What is said of files alone."""


def test_one_answer_from_flags_file_stdin_and_link(job):
    """The same job gives the same bytes, however it is given."""
    fragment = memcore("url", job)[1].strip()
    answers = [
        memcore("estimate", *FLAGS, "--json"),
        memcore("estimate", job, "--json"),
        memcore("estimate", "-", "--json", stdin=job.read_text()),
        memcore("estimate", f"https://example.org/memcore/{fragment}", "--json"),
        memcore("estimate", fragment, "--json"),
    ]
    assert {status for status, _, _ in answers} == {0}
    printed = [json.loads(out) for _, out, _ in answers]
    assert [answer.keys() & OF_FILES for answer in printed] == [set(), OF_FILES, OF_FILES, set(), set()]
    found, *others = [{key: value for key, value in answer.items() if key not in OF_FILES} for answer in printed]
    assert others == [found] * 4
    assert found["fits"] is True
    assert found["allocated_bytes"] == 29_680_748_032
    assert found["allocated_bytes"] == sum(found["breakdown"].values()) == found["peak"]["bytes"]


def test_flags_come_on_top_of_a_file(job):
    """A flag changes one setting of a file."""
    status, out, _ = memcore("estimate", job, "--seq", "16k", "--json")
    assert json.loads(out)["config"]["training"]["sequence_length"] == 16384
    assert status == 0


def test_a_config_json_is_a_model(tmp_path):
    """`--model` takes a config.json, and a config.json is a config of its own."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 64}))
    bare, flagged = (json.loads(memcore("estimate", *line, "--json")[1]) for line in ([path], ["--model", path]))
    assert {key: value for key, value in bare.items() if key not in OF_FILES} == flagged
    assert {row["path"] for row in bare["read"]} >= {"model.n_layer", "model.n_embd"}
    assert bare["fits"] is None


def test_what_a_file_says_wrong_is_told_by_its_key(tmp_path):
    """An error of the estimate names the file's key and its line, or the tool whose default it is; a flag holds alone."""
    path = tmp_path / "lora.yaml"
    path.write_text("base_model: gpt2\nsequence_len: 64\nmicro_batch_size: 1\ncontext_parallel_size: 3\n")
    status, _, said = memcore("estimate", path, "--gpus", 3)
    assert status == 2
    assert "parallelism.context_parallel_size: found 3" in said
    assert f"said by context_parallel_size in {path}, line 4" in said
    assert "said by" not in memcore("estimate", path, "--gpus", 4, "--cp", 2)[2]


def test_the_report_in_words(job):
    """Verdict first, then the peak by category, the readings, the step and what was assumed."""
    status, out, _ = memcore("estimate", job)
    assert status == 0
    lines = out.splitlines()
    title, said, *_ = (" ".join(each.split()) for each in out.split("\n\n"))
    assert title.startswith("meta-llama/Llama-3.1-8B (8,030,261,248 parameters) · FSDP2 on 8 × NVIDIA H100-SXM5-80GB")
    assert said.startswith("Fits. Each of the 8 GPUs needs ")
    assert " Memory peaks while computing the gradient of the loss" in said
    assert max(map(len, lines)) <= 80
    for heading in ("At the peak", "Readings", "One step", "Assumed"):
        assert heading in lines
    assert "logits and loss" in out
    assert "torch.cuda.max_memory_allocated" in out


def test_a_job_that_does_not_fit_fails():
    """Exit status 1 is a gate for scripts."""
    status, out, _ = memcore("estimate", "--model", "llama-3.1-8b", "--accelerator", "t4")
    assert status == 1
    assert "Does not fit. The GPU needs " in out


def test_explain_shows_symbols_numbers_and_source(job):
    """Every line of the breakdown: its formula, the same with numbers, and where the rule can be checked."""
    status, out, _ = memcore("explain", job)
    assert status == 0
    assert "  V  128,256  vocabulary size" in out
    assert "      b·s·V × 4 B\n      1·8,192·128,256 × 4 B = 4,202,692,608 B\n" in out
    found = json.loads(memcore("explain", job, "--json")[1])
    assert found["bytes"] == sum(entry["bytes"] for entry in found["entries"])
    for entry in found["entries"]:
        assert entry["formula"]
        assert f"= {entry['bytes']:,} B" in entry["numbers"]
        assert entry["source"]
        assert entry["why"]
    assert {symbol for entry in found["entries"] for symbol in ("h", "s") if f"·{symbol}" in entry["formula"]} <= set(
        found["symbols"]
    )


def test_explain_any_phase(job):
    """`--at` explains the highest moment of a phase."""
    found = json.loads(memcore("explain", job, "--at", "optimizer_step", "--json")[1])
    assert found["moment"]["phase"] == "optimizer_step"
    assert "gradients" in found["breakdown"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["estimate"], "error: model: is required, as in `memcore estimate --model qwen3-8b --adapter lora --accelerator l4`\n"),
        (["estimate", "missing.json"], "error: missing.json: No such file or directory\n"),
        (["estimate", "--model", "gpt2", "--seq", "1x"], "error: --seq: expected a whole number such as 8192, 8k or 7B, "
         "found '1x'\n"),
        (["validate", "#v1&model=gpt2&foo=1"], "error: link: foo: unknown key; a newer memcore may know it\n"),
        (["validate", "--model", "gpt2", "--engine", "fsdp", "--engine-version", "3"], "error: --engine-version: found 3; allowed: 1, 2\n"),
        (["accuracy", "missing.json"], "error: missing.json: No such file or directory\n"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_input_is_status_two(arguments, message):
    """Wrong input is said on standard error, in one line for each problem."""
    status, out, errors = memcore(*arguments)
    assert (status, out, errors) == (2, "", message)


def test_bad_input_as_json():
    """With --json problems are data too."""
    status, out, _ = memcore("validate", "-", "--json", stdin='{"model": "gpt2", "trainin": 1}')
    assert status == 2
    assert json.loads(out) == {"problems": [{"path": "trainin", "message": "unknown key", "suggestion": "training"}]}


def test_validate(job):
    """A valid config is said to be valid, with how much is assumed."""
    status, out, _ = memcore("validate", job)
    assert status == 0
    assert out.startswith("valid: 6 settings given, ")


@pytest.mark.parametrize("listing", ["models", "hardware"])
def test_catalogs(listing):
    """Both catalogs print as a table and as JSON, GPUs by place; what a line has no room for stands below it, indented."""
    rows = json.loads(memcore(listing, "--json")[1])
    listed = memcore(listing)[1].partition("\nSources")[0].splitlines()
    assert max(map(len, listed)) <= 80
    headings = {"hardware": 5}.get(listing, 0)
    assert sum(line[:1] not in ("", " ") for line in listed) == len(rows) + 1 + headings
    assert all(row["id"] in "\n".join(listed).lower() for row in rows)


def test_accelerators_that_match_every_word():
    """As `memcore models` does it."""
    found = [row["id"] for row in json.loads(memcore("hardware", "A100", "sxm", "--json")[1])]
    assert found == ["a100-sxm-40gb", "a100-sxm-80gb"]
    assert memcore("hardware", "3090")[1].splitlines()[1].startswith("rtx-3090 ")


def test_a_model():
    """What a model is made of, from the catalog or a config.json, as tables and as JSON."""
    status, out, _ = memcore("model", "deepseek-v3")
    assert status == 0
    for text in ("671,026,404,352 parameters", "3-60", "active per token", "37,552,282,624", "35,136"):
        assert text in out
    for name, value in {"hidden size": "7,168", "number of layers": "61", "vocabulary": "129,280"}.items():
        assert re.search(rf"{name} +{value}\n", out)
    assert re.search(r"weights as published, in fp8-block +641\.3 GiB\n", out)  # 688,586,727,753 bytes in its index
    assert re.search(r"weights as published, in awq +5\.19 GiB\n", memcore("model", "Qwen/Qwen2.5-7B-Instruct-AWQ")[1])
    found = json.loads(memcore("model", "-", "--json", stdin='{"model_type": "gpt2"}')[1])
    assert (found["parameters"], found["active_parameters"]) == (124_439_808, 124_439_808)
    assert (found["kv_elements_per_token"], found["state_elements_per_sequence"]) == (2 * 12 * 768, 0)
    assert (found["hidden_size"], found["num_layers"], found["attention_heads"]) == (768, 12, [[12, 12]])
    assert (found["vocabulary"], found["context"], found["weights_bytes"]["bf16"]) == (50257, 1024, 2 * 124_439_808)
    assert sum(math.prod(each["shape"]) * each["count"] for each in found["tensors"]) == found["parameters"]
    assert {"name": "transformer.h.*.attn.c_attn.weight", "layers": "0-11", "count": 12}.items() <= found["tensors"][
        0
    ].items()


def test_the_catalog_is_searched():
    """`memcore models` lists what matches every word of a query, and the families."""
    rows = json.loads(memcore("models", "deepseek_v3", ">600b", "--json")[1])
    assert ("deepseek-v3", "deepseek-ai/DeepSeek-V3") in {(row["id"], row["hub_id"]) for row in rows}
    assert all(row["parameters"] > 600e9 for row in rows)
    assert "nemotron_h" in memcore("models", "--families")[1].split()
    assert memcore("model", "deepseek-v33")[0] == 2


def test_accuracy(tmp_path):
    """Predicted against measured, per case and in sum; tests of the truth have all of them."""
    cases = tmp_path / "simulated.json"
    cases.write_text(json.dumps(truth("simulated")[::20]))
    status, out, _ = memcore("accuracy", cases)
    assert status == 0
    assert "\nSimulated\ncases  median" in out
    found = json.loads(memcore("accuracy", cases, "--json")[1])
    assert set(found) == {"cases", "summary"}


def test_help_shows_what_people_use_and_everything_on_demand():
    """`--help` is two screens with the usual flags; `--help-all` lists each setting's flag with its help."""
    short = memcore("estimate", "--help")[1]
    assert len(short.splitlines()) <= 60
    assert re.search(r"--seq TOKENS +Sequence length \(default: the model's maximum\)", short)
    assert "--bucket-cap" not in short
    whole = memcore("estimate", "--help-all")[1]
    assert [setting.flag for setting in SETTINGS.values() if f"--{setting.flag} " not in whole] == []
    assert "Tokens per sequence. (default: the model's maximum, at most 4096)" in " ".join(whole.split())
    assert memcore("--version")[1].startswith("memcore 0.")


def test_without_a_command_it_is_said_how_to_begin():
    """`memcore` alone shows commands that work, and exits with 0."""
    status, out, _ = memcore()
    assert status == 0
    assert "memcore estimate --model llama-3.1-8b" in out


def test_solving_on_the_command_line(job):
    """`solve` names the value, what it leaves and what binds; exit status 1 says that nothing fits."""
    status, out, _ = memcore("solve", job, "--for", "micro-batch", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["estimate"]["fits"] is True
    assert found["limit"]["fits"] is False
    assert found["beyond"] == found["value"] + 1
    status, out, _ = memcore("solve", job, "--for", "micro-batch")
    assert f"{found['value']} is the largest that fits" in out
    assert memcore("solve", "--model", "llama-3.1-70b", "--accelerator", "rtx-4090", "--for", "seq")[0] == 1
    status, _, err = memcore("solve", job, "--for", "joy")
    assert status == 2
    assert "allowed: seq" in err
