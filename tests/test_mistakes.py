"""What people get wrong on the command line: each mistake is named, with what is allowed, and ends with status 2."""

import json
import math
import shlex

import pytest

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.config.url import decode_fragment
from memcore.errors import ConfigError, MemcoreError, UnsupportedError, meaning, nearest
from memcore.estimation import estimate
from memcore.faces.cli import answers, main
from memcore.faces.render.page import EXAMPLE
from memcore.networks.catalog import content_of, find_model
from memcore.tools import imported
from memcore.tools.sources import read_source
from memcore.trainers.nanotron.settings import NanotronSettings


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A config, the log of its run, and files that are neither, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(EXAMPLE))
    (tmp_path / "run.log").write_text("step 1 max memory allocated: 29.68 GiB\n")
    (tmp_path / "null.json").write_text("null")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "bytes.json").write_bytes(bytes(range(256)))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "open.json").write_text('{"model": "gpt2", "training": {}')
    (tmp_path / "comma.json").write_text('{"model": "gpt2"\n"training": {}}')
    (tmp_path / "comment.json").write_text('{"model": "gpt2", // small\n"training": {}}')
    (tmp_path / "page.json").write_text("<!DOCTYPE html>")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "config.json").write_text("<!DOCTYPE html>")
    (tmp_path / "pointer.gguf").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "zero.safetensors").write_bytes(bytes(64))
    (tmp_path / "tab.yaml").write_text("base_model: gpt2\n\tadapter: lora\n")
    return tmp_path


MISTAKES = {
    "estimate --modle llama-3.1-8b": "unrecognized argument: --modle (did you mean '--model'?)",
    "estimate llama-3.1-8b --server vllm": "(did you mean '--engine'?)",
    "estimate llama-3.1-8b --card h100": "(did you mean '--accelerator'?)",
    "estimate llama-3.1-8b --vram 24": "(did you mean '--gpu-memory'?)",
    "estimate llama-3.1-8b --zero 3": "(did you mean '--zero-stage'?)",
    "estimate llama-3.1-8b --seq-len 8k": "(did you mean '--seq'?)",
    "estimate llama-3.1-8b --dtype bf16": "(did you mean '--precision'?)",
    "estimate llama-3.1-8b --use-lora": "(did you mean '--adapter lora'?)",
    "estimate llama-3.1-8b --qlora": "(did you mean '--adapter lora --frozen-weights nf4'?)",
    "estimate llama-3.1-8b --nodes 4": "unrecognized argument: --nodes; --gpus counts the GPUs of all nodes",
    "estimate llama-3.1-8b --bits 4": "; --frozen-weights is the format of a base model under an adapter",
    "estimate llama-3.1-8b --rank 16": "(did you mean '--adapter-rank'?)",
    "plan 'LoRA on a 3090'": "found 'LoRA on a 3090', which names no model; add one, as in",
    "reconcile job.json job.json": "job.json: found no GPU memory value that memcore can read; print torch.cuda.",
    "estimate llama-3.1-8b --method lora": "found 'lora', which is an adapter: use --adapter lora",
    "estimate llama-3.1-8b --method qlora": "use --adapter lora --frozen-weights nf4",
    "estimate https://example.org/#v2;model=gpt2": "whose fragment is none of memcore's: it begins with #v1&",
    "estimate #m=gpt2": "whose fragment is none of memcore's: it begins with #v1&",
    "estimate llama-3.1-8b --acc h100": "unrecognized argument: --acc",
    "estimate": "model: is required, as in `memcore estimate --model",
    "estimate null.json": "null.json: expected a JSON object",
    "estimate empty.json": "empty.json: is empty",
    "estimate bytes.json": "bytes.json: is not text",
    "estimate folder.json": "folder.json: ",
    "estimate missing.json": "missing.json: No such file",
    "estimate job.json more": "more: No such file or directory",
    "estimate job.json --seq 1e21": "--seq: expected a whole number of at most 1073741824, found",
    "estimate job.json --seq -1": "--seq: expected a whole number of at least 1, found -1",
    "estimate job.json --max-model-len 8k --kv-cache-dtype fp8": "--kv-cache-dtype (did you mean '--kv-dtype'?)",
    "estimate job.json --lora-rank 8": "unrecognized argument: --lora-rank (did you mean '--adapter-rank'?)",
    "estimate job.json -o out.json": "unrecognized argument: -o; redirect the output, as in > FILE",
    "estimate job.json --model gpt2 --model qwen3-8b": "--model: found 'gpt2' and 'qwen3-8b'; a command takes one model",
    "estimate gpt2 qwen3-8b": "CONFIG: found 'gpt2', a model, among files; name it with --model, one model per command",
    "estimate jobs.json": "jobs.json: No such file or directory (did you mean 'job.json'?)",
    "estimate missing.yaml --fetch": "missing.yaml: No such file or directory",
    "estimate page.json": "page.json: is not JSON: the text is HTML or XML; download the file itself",
    "estimate --model page": "page/config.json: is not JSON: the text is HTML or XML",
    "model pointer.gguf": "pointer.gguf: is a Git LFS pointer, not the file itself; run `git lfs pull`",
    "model zero.safetensors": "zero.safetensors: is not a safetensors file",
    "estimate llama3": "(did you mean 'llama-3.1-8b'?)",
    "estimate --model llama-70b": "(did you mean 'llama-3.1-70b'?)",
    "estimate --model 'llama 1b'": "it may be llama-3.2-1b, ",
    "--verison": "unrecognized argument: --verison (did you mean '--version'?)",
    "--seq 4k estimate job.json": "--seq: stands before the command; write `memcore estimate --seq 4k job.json`",
    "estimate job.json --accelerator a100": "it may be a100-sxm-40gb, a100-pcie-40gb, a100-sxm-80gb, a100-pcie-80gb",
    "estimate --model qwen3-8": "it may be qwen3-8b, qwen3-8b-base",
    "solve job.json": "--for: is required, as in `memcore solve --for",
    "search job.json --counts 2,,4": "--counts: expected a whole number such as 8192, 8k or 7B, found ''",
    "search job.json --micro-batches 0": "--micro-batches: expected a whole number of at least 1, found 0",
    "search job.json --keep 0": "--keep: expected a whole number of at least 1, found 0",
    "search job.json --sequences 0": "--sequences: expected a whole number of at least 1, found 0",
    "search job.json --jobs 0": "--jobs: expected a whole number of at least 1, found 0",
    "search job.json --assume flops": "--assume: expected NAME=VALUE with a number, such as",
    "search job.json --assume flops=x": "--assume: expected NAME=VALUE with a number, found 'flops=x'",
    "search job.json --on v100": "it may be v100-sxm2-16gb, v100-sxm2-32gb",
    "search job.json --write bytes.json": "bytes.json: has rows that `memcore search` did not write",
    "search job.json --write run.log": "run.log: has rows that `memcore search` did not write",
    "reconcile": "LOG: is required, as in `memcore reconcile train.yaml train.log`",
    "reconcile job.json": "CONFIG: two files are expected",
    "reconcile job.json run.log --case none/x.json": "No such file",
    "accuracy bytes.json": "bytes.json: is not text",
    "quick 7 --gpus 0": "--gpus: expected a whole number of at least 1, found 0",
    "quick 7 --engine vllm": "--engine: found 'vllm', a server",
    "explain job.json --at noon": "--at: found 'noon'; allowed: ",
    "estimat job.json": "(did you mean 'estimate'?)",
    "job.json --seq 4k": "found 'job.json', which is a job; put a command before it, as in `memcore estimate job.json --seq 4k`",
    "'fits 8B my 4090?'": "which is a job; put a command before it, as in `memcore estimate 'fits 8B my 4090?'`",
    "estimate job.json --tensor-parallel-size 2": "(did you mean '--tp'?)",
    "estimate job.json --lora_r 16": "(did you mean '--adapter-rank'?)",
    "estimate job.json --adapter qlora": "found 'qlora', which is lora with --frozen-weights nf4",
    "estimate job.json --engine fsdp1": "found 'fsdp1', which memcore calls --engine fsdp --engine-version 1",
    "hardware nosuch": "QUERY: nothing matches 'nosuch'; `memcore hardware` lists all",
    "models nosuch": "QUERY: nothing matches 'nosuch'; `memcore models` lists all",
    "estimate job.json --accelerator rtx-9080": "; for another GPU, set GPU memory (--gpu-memory)",
    "plan job.json --headroom 110": "--headroom: found '110'; expected a fraction such as 0.1 or a percentage such as 10%",
    "estimate open.json": "open.json: is not JSON: line 1, column 33: the text ends before its last bracket is closed",
    "estimate comma.json": "line 2, column 1: expected a comma or a closing bracket",
    "estimate comment.json": "expected a key in double quotes; JSON has no comments, single quotes or trailing commas",
    "estimate tab.yaml": "tab.yaml: line 2: found 'adapter: lora', which is indented with a tab; YAML takes only spaces",
    "estimate run.log": "run.log: is a run's log, not a config; `memcore reconcile CONFIG run.log` compares it",
    "nothing": "COMMAND: found 'nothing'; allowed: ",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named(files, capsys, line):
    """In words, and with `--json` as a problem."""
    assert main(shlex.split(line)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert MISTAKES[line] in printed.err
    assert main([*shlex.split(line), "--json"]) == 2
    problem = json.loads(capsys.readouterr().out)["problems"][0]
    assert problem["message"][:20] in printed.err


@pytest.mark.parametrize(
    "line",
    [
        "reconcile job.json run.log --json",
        "reconcile job.json --json run.log",
        "reconcile --json job.json run.log",
        "reconcile --json job.json --seq 8k run.log",
        "reconcile --json job.json --packed run.log",
    ],
)
def test_options_stand_anywhere_among_files(files, capsys, line):
    """A switch without a value does not take the file after it."""
    assert main(line.split()) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["quantity"] == "max_allocated"


def test_a_switch_with_a_value_keeps_it(files, capsys):
    """Before a file, too."""
    for line in ("url --packed off job.json", "url job.json --packed=false"):
        assert main(line.split()) == 0
        assert "packed=false" in capsys.readouterr().out
    assert main(["url", "--packed", "job.json"]) == 0
    assert "packed=true" in capsys.readouterr().out


def test_a_mistake_of_memcore_does_not_look_like_a_verdict(files, capsys, monkeypatch):
    """A traceback would end with status 1: the job does not fit."""

    def broken(config):
        raise KeyError("here")

    monkeypatch.setattr(answers, "estimate_training", broken)
    assert main(["estimate", "job.json"]) == 2
    assert "a mistake in memcore, not in the input; please report it with the config. KeyError: 'here'" in (
        capsys.readouterr().err
    )


def test_sizes_beyond_any_machine_are_worked_out(capsys):
    """Addresses of the allocator do not run out."""
    assert main(["quick", "1e21", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["allocated_bytes"] > 16e21


def test_the_nearest_name_says_the_same_in_more_words():
    """Words and numbers count, not letters alone: an A10 looks like an A100, and is none."""
    assert nearest("a100", ["a10", "a100-sxm-40gb"]) == "a100-sxm-40gb"
    assert nearest("llama3", ["open_llama_3b", "llama-30b", "llama-3.1-8b"]) == "llama-3.1-8b"
    assert nearest("sequence_lenght", ["batch_size", "sequence_length"]) == "sequence_length"
    assert meaning("nothing", ["a10"]) == []


@pytest.mark.parametrize(
    "key, found, message",
    [
        (
            "num_hidden_layers",
            2**70,
            "model.num_hidden_layers: expected an integer of at most 2048, found 1.18059e+21",
        ),
        ("num_hidden_layers", 1e30, "model.num_hidden_layers: expected an integer of at most 2048, found 1e+30"),
        ("vocab_size", 2**70, "model.vocab_size: expected an integer of at most 67108864, found 1.18059e+21"),
        ("hidden_size", None, "model.hidden_size: expected a positive integer, found None"),
        ("hidden_size", "8k", "model.hidden_size: expected a positive integer, found '8k'"),
    ],
)
def test_a_number_that_no_model_has_is_refused_at_once(key, found, message):
    """Layers are read one by one: a file cannot make that take forever."""
    small = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 99,
    }
    with pytest.raises(ConfigError) as caught:
        find_model({**small, "intermediate_size": 128, key: found})
    assert message in str(caught.value)


def test_an_engine_that_is_not_a_word_is_named():
    """Whatever stands there."""
    with pytest.raises(ConfigError, match=r"engine\.type: found \[None\]; allowed: none, ddp"):
        estimate({"model": "gpt2", "training": {}, "engine": {"type": [None]}})


@pytest.mark.parametrize(
    "name, key, found, message",
    [
        ("zai-org/GLM-5.1", "q_lora_rank", None, "model.q_lora_rank: expected a positive integer, found None"),
        ("microsoft/phi-1", "partial_rotary_factor", math.inf, "partial_rotary_factor: expected a number from 0 to"),
        ("microsoft/phi-1", "rope_parameters", {"partial_rotary_factor": math.inf}, "found inf"),
        (
            "LiquidAI/LFM2-1.2B",
            "full_attn_idxs",
            [[1]],
            "full_attn_idxs: expected a list of layer numbers, found [[1]]",
        ),
        (
            "Zyphra/Zamba2-7B",
            "num_attention_heads",
            2**40,
            "model.num_attention_heads: 1099511627776 heads are too many",
        ),
        ("AntonV/mamba2-130m-hf", "conv_kernel", 1, "model.conv_kernel: expected an integer of at least 2, found 1"),
        (
            "ibm-granite/granite-4.0-h-micro",
            "shared_intermediate_size",
            0,
            "model.shared_intermediate_size: expected a",
        ),
        (
            "google/gemma-3n-E4B-it",
            "text_config",
            {**content_of("google/gemma-3n-E4B-it")["text_config"], "num_kv_shared_layers": 35},
            "model.text_config.num_kv_shared_layers: none of the 0 layers",
        ),
        ("databricks/dbrx-base", "attn_config", 7, "model.attn_config: expected an object, found 7"),
        (
            "OpenGVLab/InternVL3-1B-hf",
            "downsample_ratio",
            2,
            "model.downsample_ratio: expected a number above 0 and up to",
        ),
    ],
)
def test_a_damaged_config_json_is_refused_by_its_key(name, key, found, message):
    """Verbatim but for one key."""
    with pytest.raises(ConfigError) as caught:
        find_model({**content_of(name), key: found})
    assert message in str(caught.value)


@pytest.mark.parametrize("mode", ["reduce_scatter", "REDUCE_SCATTER"])
def test_nanotron_reads_its_mode_in_any_letters(mode):
    """It makes capitals of them."""
    found, _ = read_source(
        f"tokens:\n  batch_accumulation_per_replica: 1\nparallelism:\n  dp: 2\n  tp: 2\n  pp: 1\n  tp_mode: {mode}\n"
    )
    assert Config.from_dict({**found, "model": "gpt2"})[NanotronSettings.tp_mode] == "REDUCE_SCATTER"


MIXTRAL, LLAMA = "mistralai/Mixtral-8x7B-v0.1", "llama-3.1-8b"


@pytest.mark.parametrize(
    ("model", "engine", "sizes", "gpus", "message"),
    [
        (MIXTRAL, "fsdp", {"expert_parallel_size": 16}, 16, "expert_parallel_size: found 16, which does not divide"),
        (MIXTRAL, "megatron", {"expert_parallel_size": 16}, 16, "expert_parallel_size: found 16, which does not divide"),
        (LLAMA, "megatron", {"expert_parallel_size": 2}, 8, "expert_parallel_size: found 2; meta-llama/Llama-3.1-8B has no"),
        (LLAMA, "megatron", {"tensor_parallel_size": 3}, 3, "tensor_parallel_size: found 3, which does not divide .*attention heads .32."),
        (LLAMA, "megatron", {"tensor_parallel_size": 3}, 3, "feed-forward columns .14336."),
        (LLAMA, "fsdp", {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}, 8,
         "num_gpus: found 8, which is not a multiple of the 2 pipeline × 8 tensor-parallel ranks"),
        (LLAMA, "fsdp", {"context_parallel_size": 4, "ulysses_parallel_size": 2}, 4,
         "num_gpus: found 4, which is not a multiple of the 4 context × 2 Ulysses-parallel ranks"),
        (LLAMA, "fsdp", {"tensor_parallel_size": 4, "data_parallel_size": 4}, 8,
         "data_parallel_size: found 4 times 4 ranks of other groups, but hardware.num_gpus is 8"),
    ],
)  # fmt: skip
def test_layouts_that_do_not_add_up(model, engine, sizes, gpus, message):
    """Each is named with the setting, what was found, and what it cannot share."""
    with pytest.raises(ConfigError, match=message):
        estimate(
            {
                "model": model,
                "training": {},
                "engine": {"type": engine},
                "parallelism": sizes,
                "hardware": {"num_gpus": gpus},
            }
        )


SMALL = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 99}  # fmt: skip
DOTS = {"model_type": "dots1", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 99}
NEMOTRON = {"model_type": "nemotron_h", "hidden_size": 64, "vocab_size": 99}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 3,
    "first_k_dense_replace": 3,
    "tie_word_embeddings": False,
}
SHORT = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
HUGE, LONG = 10**400, 10**250
LINEAR = ["linear_attention", "linear_attention"]
REFUSED = [
    # What stands in a config where something else is expected
    ({"engine": "pytorch_ddp"}, "engine.type: found 'pytorch_ddp'; allowed: none, ddp"),
    ({"engine": "pytorch_ddp", "training": {"dtype": "bf16"}}, "engine.type: found 'pytorch_ddp'; allowed: none, ddp"),
    ({"engine": 5, "training": {"dtype": "bf16"}}, "engine: expected a string or an object with 'type', found a number"),
    ({"hardware": "h100-sxm-80gb", "training": {"dtype": "bf16"}}, "hardware: expected an object, found a string"),
    ({"hardware": [8], "engine": {"type": "pytorch"}}, "hardware: expected an object, found a list"),
    ({"parallelism": 1.5, "engine": {"type": "pytorch"}}, "parallelism: expected an object, found a number"),
    ({"training": "bf16", "engine": {"type": "pytorch"}}, "training: expected an object, found a string"),
    # The same in another calculator's file
    ({"training": {"dtype": []}}, "training.precision: found []; allowed: fp32"),
    ({"training": {"dtype": {"name": "bf16"}}}, "training.precision: found {'name': 'bf16'}; allowed: fp32"),
    ({"engine": {"type": "fsdp", "sharding_strategy": []}}, "engine.sharding_strategy: unknown key"),
    ({"engine": {"type": "pytorch", "zero_stage": "2"}, "parallelism": {"tensor_parallel_size": "2"}},
     "parallelism.tensor_parallel_size: expected a whole number, found '2'"),
    ({"engine": {"type": "pytorch"}, "hardware": {"num_gpus": 4}, "parallelism": {"data_parallel_size": [4]}},
     "parallelism.data_parallel_size: expected a whole number, found [4]"),
    ({"engine": {"type": "deepspeed", "sharding_strategy": None, "zero_stage": "2"},
      "parallelism": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}}, "engine.zero_stage: "),
    ({"model": {**SHORT, "moe_enabled": "yes"}}, "model.moe_enabled: expected true or false, found 'yes'"),
    ({"model": {**SHORT, "hidden_size": None, "moe_enabled": True}},
     "model: a mixture of experts needs hidden_size"),
    ({"model": {**SHORT, "hidden_size": "64", "moe_enabled": True}},
     "model.hidden_size: expected a positive integer, found '64'"),
    ({"model": {"num_parameters": "7B", "moe_enabled": True}},
     "model: a mixture of experts needs num_layers, hidden_size, num_attention_heads"),
    # Numbers that are no floats any more, or that Python does not write
    ({"training": {"sequence_length": HUGE}},
     "training.sequence_length: expected a number of at most 300 digits, found 1e+400"),
    ({"training": {"sequence_length": -(10**5000)}},
     "training.sequence_length: expected a number of at most 300 digits, found -1e+5000"),
    ({"hardware": {"gpu_memory_gb": 12 * 10**4999}}, "hardware.gpu_memory_gb: expected a number of at most 300 digits"),
    ({"training": {"precision": 10**5000}}, "training.precision: expected a number of at most 300 digits"),
    ({"training": {"trainable": [10**5000]}}, "training.trainable.0: expected a number of at most 300 digits"),
    ({"training": {"sequence_length": LONG}}, "training.sequence_length: expected a whole number of at most 1073741824"),
    ({"engine": {"type": "fsdp", "reshard_after_forward": LONG}}, "engine.reshard_after_forward: expected a"),
    ({"engine": {"type": "vllm", "version": LONG}}, "engine.version: expected a whole number of at most"),
    ({"parallelism": {"pipeline_layout": [LONG, 1]}, "engine": {"type": "megatron"}}, "parallelism.pipeline_layout: "),
    ({"engine": {"type": "pytorch", "zero_stage": LONG}, "training": {"sequence_length": 0}},
     "training.sequence_length: expected a whole number of at least 1, found 0"),
    ({"model": {"num_parameters": LONG}}, "model.num_parameters: expected at most 1e+22, found 1e+250"),
    ({"model": {**SHORT, "num_parameters": "7B", "hidden_size": LONG}},
     "model.hidden_size: expected an integer of at most 9007199254740992, found 1e+250"),
    ({"model": {**SHORT, "num_parameters": "7B", "num_attention_heads": LONG, "head_dim": LONG}},
     "model.num_attention_heads: expected an integer of at most 9007199254740992, found 1e+250"),
    ({"model": {**SHORT, "num_parameters": "7B", "num_layers": 0}},
     "model.num_hidden_layers: expected a positive integer, found 0"),
    ({"model": {"num_parameters": "7B", "vocab_size": LONG}}, "model.vocab_size: expected an integer of at most"),
    ({"model": {**SMALL, "hidden_size": LONG}}, "model.hidden_size: expected an integer of at most"),
    # Parts that do not go together
    ({"parallelism": {"tensor_parallel_size": 2, "ulysses_parallel_size": 2}, "engine": {"type": "deepspeed"}},
     "parallelism.ulysses_parallel_size: found 2 with parallelism.tensor_parallel_size 2; the two are not supported"),
    ({"model": {**DOTS, "layer_types": LINEAR}},
     "model.layer_types: found layers with linear mixers, which the family does not have; allowed: full_attention"),
    ({"model": {**DOTS, "layer_types": ["full_attention", "mamba"]}}, "model.layer_types: found layers with linear"),
    ({"model": {**DOTS, "layer_types": ["mlp", "full_attention"]}}, "model.layer_types: found 'mlp'; allowed:"),
    ({"model": {**NEMOTRON, "layers_block_type": ["hybrid", "mlp"]}}, "model.layers_block_type: found 'hybrid'; allowed:"),
    ({"model": DEEPSEEK, "training": {"implementation": "lit-gpt", "adapter": "llama-adapter"}},
     "training.implementation: LitGPT's layers need attention in every layer"),
    ({"model": "phi-2", "engine": {"type": "llama.cpp", "cache_type_k": "q6_k"}},
     "engine.cache_type_k: found 'q6_k', whose blocks of 256 elements do not divide rows of 80; allowed: f32, f16, bf16"),
    ({"model": "phi-2", "engine": {"type": "llama.cpp"}, "inference": {"kv_cache_dtype": "q8_0"}},
     "inference.kv_cache_dtype: found 'q8_0', whose blocks of 32 elements do not divide rows of 80"),
    ({"model": "llama-3.1-8b", "engine": {"type": "llama.cpp", "cache_type_v": "iq4_nl", "flash_attn": False}},
     "engine.cache_type_v: found 'iq4_nl', which needs flash attention; allowed: f32, f16, bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_what_cannot_be_is_refused_by_its_key(given, message):
    """Whatever stands there: never an error of Python."""
    with pytest.raises(MemcoreError) as caught:
        estimate({"model": SMALL, **given})
    assert message in str(caught.value)


ABSENT = [
    ({"engine": None, "training": {"dtype": "bf16"}}, {"training": {"dtype": "bf16"}}),
    ({"engine": {"type": None, "zero_stage": None}, "training": {"dtype": "bf16"}}, {"training": {"dtype": "bf16"}}),
    ({"training": None, "parallelism": None, "hardware": None, "engine": {"type": "pytorch"}},
     {"engine": {"type": "pytorch"}}),
    ({"training": {"dtype": None, "optimizer": None, "sequence_length": 64}, "engine": {"type": "pytorch_ddp"}},
     {"training": {"sequence_length": 64}, "engine": {"type": "pytorch_ddp"}}),
    ({"model": {**SHORT, "top_k": None, "moe_enabled": None, "intermediate_size": None}}, {"model": {**SHORT, "top_k": 2}}),
    ({"engine": {"type": "deepspeed", "zero_stage": None}, "training": {"dtype": "bf16"},
      "parallelism": {"tensor_parallel_size": None}}, {"engine": {"type": "deepspeed"}, "training": {"dtype": "bf16"}}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "same"), ABSENT)
def test_null_means_absent(given, same):
    """In every section, also of another calculator's file."""
    assert Config.from_dict({"model": SMALL, **given}) == Config.from_dict({"model": SMALL, **same})


def test_a_config_json_is_no_other_calculators_model():
    """Old ones have `top_k` for sampling, and its words for experts are those of others' networks."""
    model = {**SMALL, "top_k": 50, "num_experts": 4, "sliding_window": None}
    assert Config.from_dict({"model": model})[Training.precision] is None
    assert Config.from_dict({"model": model, "training": {"dtype": "bf16"}}).model == model


def test_images_smaller_than_an_attention_window():
    """Qwen2.5-VL: one window, cut at both edges."""
    peaks = [
        estimate(
            {"model": "qwen2.5-vl-3b-instruct", "training": {"sequence_length": 256, "image_size": side}}
        ).peak.peak
        for side in (28, 84, 112)
    ]
    assert 0 < peaks[0] < peaks[1] < peaks[2]


def test_numbers_of_thousands_of_digits_in_links():
    """A product is worked out before it is compared."""
    with pytest.raises(ConfigError, match=r"expected a whole number of at most 1073741824, found 1e\+320"):
        decode_fragment("v1&model=gpt2&seq=1e160x1e160")


@pytest.mark.parametrize(
    ("model", "images"),
    [
        ("google/paligemma2-3b-pt-224", None),
        ("google/paligemma2-3b-pt-224", 0),
        ("meta-llama/Llama-3.2-11B-Vision", 0),
        ("meta-llama/Llama-3.2-11B-Vision", 1),
    ],
)
def test_models_with_towers_are_answered_with_and_without_images(model, images):
    """Every reading: layers of which only some learn, and layers whose masks around images are not modelled."""
    training = {"sequence_length": 2048} | ({} if images is None else {"images_per_sequence": images})
    found = estimate({"model": model, "training": training})
    assert len(found.readings) == 3
    assert all(0 < reading.low <= reading.expected <= reading.high for reading in found.readings)


def test_images_in_a_model_whose_masks_around_them_are_not_modelled():
    """PaliGemma 2 has layers with windows: its tower runs from the nearest parts, and the range says so."""
    job = {"model": "google/paligemma2-3b-pt-224", "training": {"sequence_length": 2048, "images_per_sequence": 1}}
    allocated = estimate(job).allocated
    assert "layers that memcore approximates" in [str(each.title) for each in allocated.parts]
    assert allocated.high / allocated.expected > 1.05


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"model_type": "granite", "_name": float("nan")}, "model._name: expected a finite number, found nan"),
        ({"model_type": "gpt2", "n_embd": float("-inf")}, "model.n_embd: expected a finite number, found -inf"),
        (
            {"model_type": "glm_moe_dsa", "num_hidden_layers": 3, "indexer_types": ["full", "", "shared"]},
            "parallelism.pipeline_parallel_size: a pipeline stage cannot start with a layer that reuses the "
            "previous stage's indexer: not supported yet",
        ),
    ],
)
def test_what_no_step_can_be_made_of_is_refused(model, message):
    """Numbers that are none, and stages that would need what another stage has."""
    with pytest.raises(MemcoreError) as caught:
        estimate({"model": model, "parallelism": {"pipeline_parallel_size": 2}})
    assert str(caught.value) == message


def test_rings_without_a_kernel_are_refused_before_a_layer_is_recorded():
    """PyTorch's rings have no math kernel: that of grouped heads in fp32."""
    job = {"model": "llama-3.1-8b", "training": {"implementation": "torchtitan", "sequence_length": 4096}}
    job |= {"parallelism": {"context_parallel_size": 2}, "engine": {"type": "fsdp"}, "hardware": {"num_gpus": 8}}
    assert estimate(job).allocated.expected
    job["training"]["precision"] = "fp32"
    with pytest.raises(UnsupportedError, match=r"training.precision: context parallelism has no kernel .*bf16-mixed"):
        estimate(job)


def test_messages_that_quote_long_values_are_cut():
    """A list of ten thousand items is not told back."""
    with pytest.raises(MemcoreError, match=r"^model.tie_word_embeddings: expected true or false") as caught:
        estimate({"model": {"model_type": "llama", "tie_word_embeddings": list(range(10_000))}})
    assert len(str(caught.value)) < 3100


def test_the_curve_of_a_model_with_cross_attention_to_images_is_drawn():
    """Every block of the step has a rule: 1 minus a gate, too."""
    assert estimate({"model": "meta-llama/Llama-3.2-11B-Vision-Instruct"}).rank.profile


def test_processes_that_are_no_number_are_no_count():
    """In a file of accelerate: refused by the key where settings are read."""
    with pytest.raises(MemcoreError, match="hardware.num_gpus"):
        Config.from_dict({"model": "gpt2", **imported('distributed_type: "NO"\nnum_processes: B').config})


def test_a_directory_is_the_model_that_it_holds(files, capsys):
    """As transformers takes it; one without a config names what it lacks."""
    (files / "model").mkdir()
    (files / "model" / "config.json").write_text(json.dumps(content_of("gpt2")), encoding="utf-8")
    for line in ("estimate model", "estimate --model model/", "model model"):
        assert main(line.split()) == 0
    assert main(["estimate", "folder.json"]) == 2
    assert "folder.json: is a directory without config.json or adapter_config.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gpus", "allowed"), [(None, "1, 2, 4, 8"), (3, "1, 2, 4, 8"), (12, "1, 2, 4"), (8, "1, 2, 4, 8")]
)
@pytest.mark.parametrize("engine", ["fsdp", "megatron", "nanotron", "megatron-deepspeed"])
def test_ranks_that_do_not_divide_a_model_end_in_those_that_do(engine, gpus, allowed):
    """One error: that GPUs and sequences do not suit these ranks follows from it."""
    hardware = {} if gpus is None else {"num_gpus": gpus}
    job = {"model": "llama-3.1-8b", "engine": {"type": engine}, "hardware": hardware}
    with pytest.raises(ConfigError) as caught:
        estimate({**job, "parallelism": {"tensor_parallel_size": 3}})
    assert [each.path for each in caught.value.problems] == ["parallelism.tensor_parallel_size"]
    assert str(caught.value).endswith(f"; allowed: {allowed}")
