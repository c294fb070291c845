"""Scripts as people share them: variables from outside, conditions on them, and flags in a file without their dashes."""

import pytest

from memcore.errors import MemcoreError
from memcore.formats.shell import words
from memcore.tools import imported
from memcore.tools.sources import Source, read_sources

LENGTH, USERS, TOKENS = "inference.max_model_len", "inference.max_num_seqs", "engine.max_num_batched_tokens"
TENSOR, CACHE = "parallelism.tensor_parallel_size", "inference.kv_cache_dtype"
SHARED = """#!/usr/bin/env bash
source "$(dirname "$0")/../benchmark_lib.sh"
OFFLINE=()
if [[ -n "$SLURM_JOB_ID" ]]; then
  OFFLINE=(env HF_HUB_OFFLINE=1)
fi
if [ "${DP_ATTENTION}" = "true" ]; then
  PARALLEL_ARGS="--tensor-parallel-size=1 --data-parallel-size=$TP --enable-expert-parallel"
elif [ "$EP_SIZE" -gt 1 ]; then
  PARALLEL_ARGS="--tensor-parallel-size=$TP --enable-expert-parallel"
else
  PARALLEL_ARGS="--tensor-parallel-size=$TP"
fi
SEQS=$(( CONC > 16 ? CONC : 16 ))
declare -A STEPS=(["1024:8"]=2)
vllm serve $MODEL $PARALLEL_ARGS --kv-cache-dtype "fp8" "${OFFLINE[@]}" --max-model-len $MAX_MODEL_LEN \\
  --max-num-seqs $SEQS --max-num-batched-tokens "$((ISL * 2 ))" --no-enable-flashinfer-autotune
python3 - <<'PYEOF'
import json
PYEOF
"""
"""In the manner of public benchmarks of servers."""


def value_at(config, path):
    section, _, name = path.partition(".")
    return config.get(section, {}).get(name)


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        ({"EP_SIZE": "1", "CONC": "4"}, {TENSOR: 8, USERS: 16, "engine.enable_expert_parallel": None}),
        ({"EP_SIZE": "8", "CONC": "64"}, {TENSOR: 8, USERS: 64, "engine.enable_expert_parallel": True}),
        ({"EP_SIZE": "1", "CONC": "4", "DP_ATTENTION": "true"}, {TENSOR: 1, "parallelism.data_parallel_size": 8}),
    ],
)
def test_variables_come_from_the_environment(outside, expected):
    """Conditions, choices and sums are worked out with them; an empty array is no word, and Python inside is no script."""
    given = {"MODEL": "Qwen/Qwen3-8B", "TP": "8", "ISL": "1024", "MAX_MODEL_LEN": "4096", **outside}
    config, _ = read_sources([Source("a.sh", SHARED)], variables=given)
    assert config["model"] == "Qwen/Qwen3-8B"
    expected = {LENGTH: 4096, TOKENS: 2048, CACHE: "fp8", **expected}
    assert {path: value_at(config, path) for path in expected} == expected


def test_what_is_not_given_is_asked_for():
    with pytest.raises(MemcoreError) as raised:
        read_sources([Source("a.sh", SHARED)], variables={"MODEL": "Qwen/Qwen3-8B", "CONC": "4", "ISL": "1024"})
    assert "found $TP, which the script does not set; give it with --tp, or its variables with --set" in str(
        raised.value
    )
    with pytest.raises(MemcoreError, match="found .mtp, which the script does not set; set it with --set"):
        imported('vllm serve gpt2 --speculative-config "{\\"num_speculative_tokens\\": $mtp}"')


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("N=9; a $(( N > 8 ? N : 8 ))", ["a", "9"]),
        ("N=9; a $(( N * 3 / 2 > 16 ? N * 3 / 2 : 16 ))", ["a", "16"]),
        ("a $(( 1 > 2 ? 1 : 2 > 1 ? 3 : 4 ))", ["a", "3"]),
        ("a $(( 2 ** 3 ? ))", ["a", "$CALCULATED"]),
        ('X=; if [ -z "$X" ]; then a 1; else a 2; fi', ["a", "1"]),
        ("N=3; if [ $N -le 2 ]; then a 1; elif [ $N -ge 3 ]; then a 2; else a 3; fi", ["a", "2"]),
        ("a ${MAP[$K]:-3}", ["a", "3"]),
        ('E=(); a "${E[@]}" b', ["a", "b"]),
    ],
)
def test_what_a_shell_works_out(script, expected):
    assert [each for each in words(script) if each != ";"] == expected


@pytest.mark.parametrize(
    ("flag", "became"),
    [
        ("--no-enable-flashinfer-autotune", "left_out"),
        ("--no-async-scheduling", "left_out"),
        ("--no-enable-log-requests", "of_no_account"),
    ],
)
def test_switches_are_turned_off(flag, became):
    """As argparse writes it, also where memcore has no setting for the switch."""
    assert flag in getattr(imported(f"vllm serve gpt2 {flag}").accounts, became)


FILE = """kv-cache-dtype: fp8
no-enable-prefix-caching: true
max-num-batched-tokens: 8192
speculative-config: '{"model": "nvidia/gpt-oss-120b-Eagle3-v3", "num_speculative_tokens": 7, "method": "eagle3"}'
"""
"""vllm-project/recipes, OpenAI/GPT-OSS_EAGLE3_Blackwell.yaml, in part."""


def test_a_file_of_flags():
    """`vllm serve --config`: the flags without their dashes; with a key that the server has not, it is no such file."""
    found = imported(FILE)
    assert found.tool.title == "vLLM"
    expected = {
        CACHE: "fp8",
        TOKENS: 8192,
        "engine.enable_prefix_caching": False,
        "inference.num_speculative_tokens": 7,
    }
    assert {path: value_at(found.config, path) for path in expected} == expected
    with pytest.raises(MemcoreError, match="does not match any supported tool"):
        imported(f"{FILE}volume: 3\n")


@pytest.mark.parametrize(
    ("given", "model", "weights"),
    [
        ("-m /models/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B", "q4_k_m"),
        ("-m 'C:\\models\\Qwen3-8B-Q8_0-00001-of-00002.gguf'", "Qwen/Qwen3-8B", "q8_0"),
        ("--model ./Meta-Llama-3.1-8B-Instruct.IQ4_XS.gguf", "meta-llama/Llama-3.1-8B-Instruct", "iq4_xs"),
        ("-m Qwen3-8B-UD-Q4_K_XL.gguf", "Qwen/Qwen3-8B", "q4_k_m"),
        ("-hf unsloth/Qwen3-8B-GGUF:UD-Q2_K_XL", "unsloth/Qwen3-8B-GGUF", "q2_k"),
        ("-m somebody-s-own-7b-Q6_K.gguf", None, "q6_k"),
    ],
)
def test_the_name_of_a_file_says_model_and_format(given, model, weights):
    """And a note says that it was taken by its name, or that such files differ from what llama-quantize makes."""
    found = imported(f"llama-server {given} -ngl 99")
    assert found.config.get("model") == model
    assert value_at(found.config, "inference.quantization") == weights
    by_name = any("from its name" in note for note in found.notes)
    assert by_name == (model is not None and "-hf" not in given)
    assert any("keep some tensors in wider types" in note for note in found.notes) == ("_XL" in given)
