"""DeepSpeed's own estimators, against the numbers that DeepSpeed's documentation prints for them and by hand."""

import pytest

from memcore.networks.catalog import find_model
from memcore.trainers.deepspeed.estimators import (
    estimate_zero2_model_states_mem_needs,
    estimate_zero3_model_states_mem_needs,
    estimate_zero_model_states,
    model_to_params,
)

T5_3B, LARGEST = 2_851_598_336, 32_899_072
"""t5-3b, the model of DeepSpeed's documentation, with rounded sizes that it prints as 2851M and 32M."""
DOCUMENTED = [
    # Offload of optimizer and parameters, zero.Init: GB of CPU and GPU as printed there, for 8 GPUs.
    (True, True, True, "71.71", "0.12"),
    (True, True, False, "127.48", "0.12"),
    (True, False, True, "63.74", "0.79"),
    (True, False, False, "127.48", "0.79"),
    (False, False, True, "1.47", "6.10"),
    (False, False, False, "127.48", "6.10"),
]
BY_HAND = [
    # Arguments of ZeRO-2's estimator, host and GPU: P·max(4N, 16)·1.5 and 2P; P·4·gpus·1.5 and 2P + 18P/N.
    ((1_000_003, 1, 1, True), 24_000_072, 2_000_006),
    ((1_000_003, 8, 4, True), 192_000_576, 2_000_006),
    ((1_000_003, 8, 4, False), 48_000_144, 2_000_006 + 562_501),
    ((1_000_003, 1, 1, False, 1.0), 4_000_012, 20_000_060),
]


@pytest.mark.parametrize(("optimizer", "params", "init", "cpu", "gpu"), DOCUMENTED)
def test_documented_report(optimizer, params, init, cpu, gpu):
    """docs/code-docs/source/memory.rst."""
    found = estimate_zero3_model_states_mem_needs(T5_3B, LARGEST, 8, 1, optimizer, params, init)
    assert [f"{each / 2**30:.2f}" for each in found[:2]] == [cpu, gpu]
    assert found[2] == 4 * LARGEST


@pytest.mark.parametrize(("arguments", "cpu", "gpu"), BY_HAND)
def test_zero2_by_hand(arguments, cpu, gpu):
    """Both answers are rounded down, the GPU's term by term."""
    assert estimate_zero2_model_states_mem_needs(*arguments) == (cpu, gpu)


def test_nodes_share_what_is_offloaded():
    """With zero.Init the host's part is 18 or 16 bytes over the nodes; without, each process first has all of it."""
    arguments = {"total_params": 1000, "largest_layer_params": 10, "num_gpus_per_node": 8, "num_nodes": 4}
    assert estimate_zero3_model_states_mem_needs(**arguments) == (6750, 40, 40)
    assert estimate_zero3_model_states_mem_needs(**arguments, zero_init=False) == (48_000, 40, 40)
    assert estimate_zero3_model_states_mem_needs(**arguments, cpu_offload_params=False) == (6000, 40 + 62, 40)
    assert estimate_zero3_model_states_mem_needs(**arguments, cpu_offload=False) == (480, 40 + 562, 40)


def test_a_model_s_largest_module():
    """Parameters that one module owns itself; Mixtral's experts are one, GPT-2's tied head counts once."""
    gpt2 = find_model("gpt2")
    assert model_to_params(gpt2) == (124_439_808, 50257 * 768)
    qwen = find_model("Qwen/Qwen1.5-MoE-A2.7B")
    assert model_to_params(qwen)[1] == 60 * 3 * 2048 * 1408
    deepseek = find_model("deepseek-ai/DeepSeek-V3")
    assert model_to_params(deepseek)[1] == 256 * 3 * 7168 * 2048


def test_all_lines_of_a_report():
    """The order in which DeepSpeed prints them; without offload ZeRO-3 needs less of a GPU than ZeRO-2."""
    lines = estimate_zero_model_states(find_model("gpt2"), num_gpus_per_node=8)
    assert [(each.stage, each.offload_optimizer, each.offload_param, each.zero_init) for each in lines] == [
        (2, True, False, None),
        (2, False, False, None),
        (3, True, True, True),
        (3, True, True, False),
        (3, True, False, True),
        (3, True, False, False),
        (3, False, False, True),
        (3, False, False, False),
    ]
    assert lines[1].gpu == 2 * 124_439_808 + 18 * 124_439_808 // 8
    assert lines[-1].gpu == 4 * 50257 * 768 + 18 * 124_439_808 // 8
