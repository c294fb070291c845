"""Published formulas, against the numbers of their own tests and sums worked by hand from their text."""

import pytest

import memcore
from memcore.faces.cli import main
from memcore.questions.formulas import compare
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.reading import arguments_of
from memcore.trainers.megatron.published.report import (
    FORMULAS,
    TheoreticalMemory,
    report_theoretical_memory,
)

TINY = {
    "num_layers": 4,
    "hidden_size": 16,
    "seq_length": 8,
    "ffn_hidden_size": 64,
    "num_attention_heads": 4,
    "kv_channels": 4,
    "vocab_size": 32,
    "micro_batch_size": 2,
    "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 2,
    "data_parallel_size": 4,
    "use_distributed_optimizer": True,
    "sequence_parallel": True,
    "recompute_granularity": "selective",
}
UNEVEN = {
    "num_layers": 8,
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 4,
    "num_layers_in_first_pipeline_stage": 1,
    "num_layers_in_last_pipeline_stage": 3,
    "share_embeddings_and_output_weights": False,
}
ROUTED = {
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 2,
    "num_moe_experts": 8,
    "moe_layers": (True, False, True, False),
    "moe_ffn_hidden_size": 32,
    "expert_model_parallel_size": 4,
    "data_parallel_size": 8,
}
LATENT = {
    "pipeline_model_parallel_size": 1,
    "num_moe_experts": 4,
    "moe_layers": (False, True, False, True),
    "moe_ffn_hidden_size": 32,
    "moe_shared_expert_intermediate_size": 8,
    "moe_latent_size": 4,
    "mtp_num_layers": 1,
}
SOME = {"num_moe_experts": 2, "moe_layers": (False, True, False, False, True, False, True, True)}
BRIDGE = [
    # Of tests/unit_tests/training/utils/test_theoretical_memory_utils.py, or by hand where its tests stop before bytes.
    ({}, 30_600),  # 3400 · 9
    (UNEVEN, 89_568),  # 9952 · 9
    (UNEVEN | SOME | {"moe_ffn_hidden_size": 32}, 5856 * 9 + 4096 * 9),
    (ROUTED, 30_348 + 30_720),
    (LATENT, 5616 * 9 + 3072 * (6 + 12 / 8)),
    ({"num_query_groups": 2, "use_distributed_optimizer": False}, 18 * 3144),
    ({"gated_linear_unit": True}, 9 * (3400 + 4 * 16 * 64 // 4)),
]
"""Arguments beside those of TINY, and bytes."""


TINY_NETWORK = {
    **{name: TINY[name] for name in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads")},
    "model_type": "megatron",
    "vocab_size": 32,
    "max_position_embeddings": 8,
}
"""The same in the words of Megatron-LM."""


def arguments(**more):
    return MegatronArguments(**{**TINY, **more})


@pytest.mark.parametrize(("more", "expected"), BRIDGE)
def test_weights_and_optimizer(more, expected):
    """Dense, uneven, routed, latent and grouped networks."""
    assert report_theoretical_memory(arguments(**more)).weight_and_optimizer == expected


def test_activations_of_the_first_stage():
    """18·h + 4·f for each token and layer, its inputs, and what pipelines make of them."""
    each = 8 * 2 * 16 * (18 + 4 * 64 / 16) * 4 + 8 * 8 * 2 * 2 + 8 * 2 * 16 * 2
    assert each == 35_584
    activations = FORMULAS["megatron-bridge"].activations
    assert activations(arguments(), 4) == each / 2
    assert activations(arguments(), 1) == each / 4
    assert activations(arguments(), None) == each / 2
    assert activations(arguments(virtual_pipeline_model_parallel_size=2), 4) == 22_240
    alone = arguments(pipeline_model_parallel_size=1, context_parallel_size=2)
    assert activations(alone, 1) == 9568


def test_megatron_lm_has_a_formula_for_other_jobs():
    """h·(10 + 24/t) for each token and layer, the logits, and 5% on top; its report takes it for any other job."""
    alone = arguments(pipeline_model_parallel_size=1, sequence_parallel=False, data_parallel_size=2)
    tokens = 8 * 2
    expected = tokens * 16 * (10 + 12) * 4 + 8 * tokens + tokens * 16 + 2 * (tokens * 32 / 2 + tokens * 16)
    assert FORMULAS["megatron-lm"].without_sequence_parallelism(alone, None) == expected * 1.05
    assert report_theoretical_memory(alone, formula="megatron-lm").activation == expected * 1.05
    assert report_theoretical_memory(alone).activation is None
    layers = 4 * (2 * 16 * 16 * 2 + 2 * 16 * 64)
    states = (layers + 16 * 32) / 2 + 4 * 64 + 32
    assert report_theoretical_memory(alone, formula="megatron-lm").weight_and_optimizer == states * 12


def test_layouts_that_do_not_add_up():
    """Bridge refuses stages that do not have all layers."""
    with pytest.raises(memcore.ConfigError, match="expected 8 in total"):
        report_theoretical_memory(arguments(**UNEVEN | {"num_layers_in_last_pipeline_stage": 2}))


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_config_is_arguments(formula):
    """Llama 3.1 8B: 8·10⁹ parameters at 18 bytes; Megatron-LM keeps norms whole and gives them one vector each."""
    job = {"model": "llama-3.1-8b", "training": {"sequence_length": 8192}, "parallelism": {"tensor_parallel_size": 8}}
    norms = 65 * 4096
    parameters = 8_030_261_248 - norms
    expected = {"megatron-lm": parameters / 8 + norms}.get(formula, (parameters + 2 * norms) / 8)
    assert report_theoretical_memory(job, formula=formula).weight_and_optimizer == pytest.approx(
        expected * 18, abs=1e-3
    )


def test_what_is_read_of_experts():
    """Qwen3's experts are all of its layers; its own intermediate size is what earlier formulas count."""
    found = arguments_of({"model": "qwen3-30b-a3b"})
    assert (found.num_moe_experts, found.moe_router_topk, found.moe_ffn_hidden_size) == (128, 8, 768)
    assert (found.ffn_hidden_size, found.num_query_groups, found.kv_channels) == (6144, 4, 128)
    found = arguments_of({"model": "deepseek-ai/DeepSeek-V3"})
    assert found.moe_layers == (False,) * 3 + (True,) * 58
    assert (found.q_lora_rank, found.kv_lora_rank, found.qk_head_dim, found.v_head_dim) == (1536, 512, 128, 128)
    with pytest.raises(memcore.UnsupportedError, match="other mixers"):
        arguments_of({"model": "nvidia/NVIDIA-Nemotron-Nano-9B-v2"})


def test_layers_that_predict_further_tokens_are_not_counted_twice():
    """Megatron's networks have them among their layers, the formulas beside them."""
    network = {
        **TINY_NETWORK,
        "num_experts": 4,
        "moe_layer_freq": [0, 1, 0, 1],
        "moe_ffn_hidden_size": 32,
        "mtp_num_layers": 1,
    }
    found = arguments_of({"model": network, "training": {"sequence_length": 8}})
    assert (found.num_layers, found.mtp_num_layers) == (4, 1)
    assert found.routed == (False, True, False, True, True)


def test_padded_vocabulary():
    """Megatron-LM pads; Bridge only where it is asked to."""
    network = {**TINY_NETWORK, "vocab_size": 50_257}
    assert arguments_of({"model": "gpt2", "parallelism": {"tensor_parallel_size": 2}}).vocab_size == 50_257
    assert arguments_of({"model": network, "parallelism": {"tensor_parallel_size": 2}}).vocab_size == 50_432


def test_reasons_follow_the_job():
    """Each reason is given where it applies."""
    grouped = "ignores grouped-query attention"

    def reasons(model):
        return str([each.differences for each in compare({"model": model}).answers])

    assert grouped in reasons("llama-3.1-8b")
    assert grouped not in reasons("gpt2")


LLAMA = {"model": "llama-3.1-8b", "hardware": {"num_gpus": 8}}
"""8,030,261,248 parameters, 32 layers of width 4,096."""
CALCULATED = [
    ({"engine": {"type": "fsdp"}}, 8192, {"activation_checkpointing": "full"}, 23717918146.56),
    ({"engine": {"type": "deepspeed", "zero_stage": 3}}, 8192, {"activation_checkpointing": "full"}, 26528509583.36),
    ({"engine": {"type": "deepspeed", "zero_stage": 2}}, 8192, {"micro_batch_size": 2}, 77367861657.6),
    (
        {"engine": {"type": "ddp"}},
        4096,
        {"activation_checkpointing": "selective", "optimizer": "adamw-8bit"},
        66064218193.92,
    ),
    (
        {
            "engine": {"type": "megatron"},
            "hardware": {"num_gpus": 16},
            "parallelism": {
                "tensor_parallel_size": 4,
                "pipeline_parallel_size": 2,
                "sequence_parallel": True,
            },
        },
        4096,
        {},
        38867376537.6,
    ),
    (
        {"model": "qwen3-30b-a3b", "engine": {"type": "fsdp"}},
        4096,
        {"activation_checkpointing": "full"},
        73339304214.528,
    ),
]
"""What gpu-mem-calculator (2f345d1) printed for the same job: bytes for each GPU."""


@pytest.mark.parametrize(("more", "tokens", "training", "total"), CALCULATED)
def test_gpu_mem_calculator(more, tokens, training, total):
    """To the byte, in each of its engines; its lines make up its total."""
    said = compare({**LLAMA, **more, "training": {"sequence_length": tokens, **training}}).answers
    found = next(each for each in said if each.title.startswith("gpu-mem-calculator"))
    assert found.total == pytest.approx(total, rel=1e-12)
    assert sum(each.size for each in found.terms) == pytest.approx(total, rel=1e-12)
    assert all(each.formula and each.reason for each in found.terms)


def test_the_meta_device_script():
    """Its README's own example, phi-2 with a batch of 4: 5.18, 5.18, 10.36, 11.25, 0.24 and 0.04 GiB."""
    job = {"model": "microsoft/phi-2", "training": {"sequence_length": 2048, "micro_batch_size": 4}}
    found = next(each for each in compare(job).answers if each.title.startswith("meta-device script"))
    assert [round(each.size / 2**30, 2) for each in found.terms] == [5.18, 5.18, 10.36, 11.25, 0.24, 0.04]
    assert round(found.total / 2**30, 2) == 32.24
    full = compare({**job, "training": {**job["training"], "activation_checkpointing": "full"}})
    lines = next(each for each in full.answers if each.title == found.title).terms
    assert lines[3].size == pytest.approx(0.3 * found.terms[3].size)
    assert lines[3].formula == "b·s·L·(5·h + f)·w·0.3"


@pytest.mark.parametrize("parallelism", [{}, {"tensor_parallel_size": 2, "data_parallel_size": 1}])
def test_fewer_ranks_than_experts_need(parallelism):
    """memcore refuses such a layout; the formulas of Megatron-LM, which would divide by zero, take one copy."""
    job = {
        "model": "qwen3-30b-a3b",
        "parallelism": {"expert_parallel_size": 8, **parallelism},
        "engine": {"type": "megatron", "distributed_optimizer": True},
    }
    found = compare(job)
    assert "must divide the GPUs of a pipeline stage" in found.refused
    assert all(each.weight_and_optimizer > 0 for each in found.answers)


@pytest.mark.parametrize(
    ("activation", "said"),
    [
        (None, "weight and optimizer=130560.00 MB"),
        (2.25 * 2**20, "weight and optimizer=130560.00 MB, activation=2.25 MB, total=130562.25 MB"),
    ],
)
def test_the_report_is_the_line_that_the_tools_print(activation, said):
    """As `report_theoretical_memory` prints it in Megatron-LM and, for jobs without activations, in Megatron Bridge."""
    assert str(TheoreticalMemory(127.5 * 2**30, activation)) == f"Theoretical memory footprints: {said}"


def test_the_command(capsys):
    """`memcore formulas` prints all of them beside memcore's own answer."""
    assert main(["formulas", "--model", "llama-3.1-8b", "--gpus", "8", "--seq", "4096"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Megatron Bridge until May 2026" in shown
    assert "DeepSpeed ZeRO-3, parameters and optimizer offloaded" in shown
    assert "Why memcore's numbers differ" in shown


@pytest.mark.parametrize("config", [{"engine": {"type": "vllm"}}, {"inference": {"max_model_len": 512}}])
def test_servers_have_no_such_formula(config):
    """They are all of training."""
    with pytest.raises(memcore.ConfigError, match="the published formulas are of training only"):
        compare({"model": "gpt2", **config})
