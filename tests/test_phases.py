"""A job from loading to resuming, and beliefs about memory that do not hold. Bytes worked out by hand."""

from __future__ import annotations

import json

import pytest

import memcore
from memcore.faces.cli import main
from memcore.memory.host_phases import host_phases
from memcore.memory.phases import phases

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
}
ATTENTION, FFN = 2 * 1024 * 1024 + 2 * 256 * 1024, 3 * 2816 * 1024
PARAMETERS = 2 * 32000 * 1024 + 8 * (ATTENTION + FFN + 2 * 1024) + 1024


def rank(gpus=1, engine=None, parallelism=None, **training):
    """One of the ranks."""
    config = {"model": MODEL, "training": {"sequence_length": 512, **training}, "parallelism": parallelism or {}}
    return memcore.estimate(config | {"engine": engine or {}, "hardware": {"num_gpus": gpus}}).ranks[0]


def found(*arguments, **training):
    """The phases by name."""
    return {each.name: each for each in phases(rank(*arguments, **training))}


def test_out_of_memory_at_the_second_step_is_no_leak():
    """Adam's states come with the end of the first step: eight bytes for each fp32 parameter."""
    each = found(precision="fp32", sequence_length=2048, micro_batch_size=4)
    assert each["step"].bytes - each["first_step"].bytes == pytest.approx(8 * PARAMETERS, rel=1e-3)
    assert each["resume"].bytes == each["step"].bytes
    assert each["load"].bytes == pytest.approx(4 * PARAMETERS, rel=1e-3)


def test_an_evaluation_keeps_logits_and_no_activations():
    """Beyond parameters and states the logits: 2 bytes in bf16, 4 as the loss sees them, 4 of log-probabilities."""
    each = found(precision="bf16")
    base = 2 * PARAMETERS * 3
    assert each["evaluation"].bytes - base >= 10 * 512 * 32000
    assert each["evaluation"].bytes < each["step"].bytes
    assert "31.2 MiB" in each["evaluation"].because or "0.03 GiB" in each["evaluation"].because


@pytest.mark.parametrize(
    ("engine", "training", "loading", "steps", "saving"),
    [
        ({"type": "ddp"}, {}, 8 * 4 * PARAMETERS, 0, 4 * PARAMETERS),  # every process loads the whole model
        ({"type": "fsdp"}, {}, 4 * PARAMETERS, 0, 4 * PARAMETERS),  # one of a node does; rank 0 gathers what is saved
        ({"type": "fsdp"}, {"implementation": "torchtitan"}, 0, 0, 4 * PARAMETERS),  # built without memory
        # Shards of parameters and gradients from the start, Adam's two states with the first step: of 8 of 16 ranks.
        (
            {"type": "fsdp"},
            {"offload": {"parameters": "cpu"}},
            4 * PARAMETERS + 8 * PARAMETERS // 2,
            16 * PARAMETERS // 2,
            4 * PARAMETERS + 16 * PARAMETERS // 2,
        ),
    ],
    ids=["ddp", "fsdp", "torchtitan", "offloaded"],
)
def test_a_node_needs_host_memory_too(engine, training, loading, steps, saving):
    """Of two nodes with eight processes each, the first one: fp32, four bytes a parameter."""
    each = {phase.name: phase for phase in host_phases(rank(16, engine, precision="fp32", **training))}
    assert [each[name].bytes for name in ("load", "step", "save")] == [loading, steps, saving]
    assert each["step"].each * 8 == steps


def test_saving_a_full_state_dict_gathers():
    """FSDP2 gathers one parameter at a time, FSDP1 a unit; without shards tensors are copied as they are."""
    second, first = (found(2, {"type": "fsdp", "version": each}, precision="fp32")["save"] for each in (2, 1))
    between = [rank(2, {"type": "fsdp", "version": each}, precision="fp32").between_steps for each in (2, 1)]
    assert second.bytes - between[0] == 4 * 32000 * 1024
    assert first.bytes - between[1] == 4 * (2 * 32000 * 1024 + 1024)
    alone = rank(precision="fp32")
    assert {each.name: each.bytes for each in phases(alone)}["save"] == alone.between_steps


def test_a_matrix_is_whole_before_it_is_quantized():
    """Loading in four bits needs the largest matrix in bf16 beside what it becomes."""
    settings = {"precision": "bf16", "adapter": "lora", "quantization": "nf4"}
    one = rank(**settings)
    assert {each.name: each.bytes for each in phases(one)}["load"] - one.after_init == 2 * 2816 * 1024


def test_the_command_line_shows_phases_and_host_memory(capsys):
    """In the summary and in JSON."""
    arguments = [
        "estimate",
        "--model",
        "gpt2",
        "--engine",
        "fsdp",
        "--gpus",
        "2",
        "--cpu-offload",
        "true",
        "--seq",
        "128",
    ]
    main(arguments)
    shown = capsys.readouterr().out
    assert "From start to end" in shown
    assert "Kept by each process" in shown
    main([*arguments, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in data["phases"]] == ["load", "first_step", "step", "evaluation", "save", "resume"]
    held = 4 * 4 * 124439808 / 2
    assert data["host_bytes"] == pytest.approx(held, rel=1e-3)


# Beliefs that do not hold.


def test_full_fine_tuning_needs_sixteen_bytes_for_each_parameter():
    """Belief: a 7B model in fp16 takes 14 GB, so 16 GB train it. Weights, gradients and two moments, in fp32: 16."""
    kept = rank(precision="fp32").end_of_backward
    assert kept == pytest.approx(16 * PARAMETERS, rel=0.02)


def test_lora_keeps_weights_and_activations():
    """Belief: LoRA trains 0.1%, so it needs 0.1%. Weights stay, and most activations."""
    full, lora = rank(precision="bf16"), rank(precision="bf16", adapter={"type": "lora", "dtype": "bf16"})
    assert lora.persistent.parameters > full.persistent.parameters
    activations = [each.end_of_forward - each.persistent.before_step for each in (full, lora)]
    assert activations[1] > 0.6 * activations[0]


def test_qlora_is_more_than_four_bits_for_each_parameter():
    """Belief: 4 bits × parameters. Embedding, head and norms stay in bf16, and each 64 numbers have a maximum."""
    one = rank(precision="bf16", adapter={"type": "lora", "rank": 1, "dtype": "bf16"}, quantization="nf4")
    linear = 8 * (ATTENTION + FFN)
    expected = linear // 2 + linear // 16 + 2 * (PARAMETERS - linear)
    assert one.after_init == pytest.approx(expected, rel=0.01)
    assert one.after_init > 1.8 * PARAMETERS / 2


def test_checkpointing_leaves_states_and_logits():
    """Belief: gradient checkpointing halves memory. Parameters, states and the peak of the loss stay."""
    none, full = rank(precision="bf16"), rank(precision="bf16", activation_checkpointing="full")
    assert none.persistent.before_step == full.persistent.before_step
    loss = [each.peak_of("loss") - each.end_of_forward for each in (none, full)]
    assert loss[0] == loss[1]


def test_ddp_replicates_everything():
    """Belief: DDP on four GPUs needs a quarter. Each holds all of it, and communication buckets besides."""
    alone = rank(precision="bf16", engine={"type": "none"})
    four = rank(4, {"type": "ddp"}, precision="bf16")
    assert four.peak.peak >= alone.peak.peak


def test_sharding_parameters_does_not_split_activations():
    """Belief: ZeRO-3 splits activations. FSDP over 2 or 8 ranks keeps the same for each token of a rank."""
    kept = []
    for gpus in (2, 8):
        one = rank(gpus, {"type": "fsdp"}, precision="bf16", sequence_length=2048)
        entries = one.ledger(max(one.moments, key=lambda each: each.peak)).by_category
        kept.append(entries["activations"])
    assert kept[0] == kept[1]


def test_accumulation_without_communication_keeps_whole_gradients():
    """Belief: accumulating gradients reduces memory. With no_sync every rank keeps all of them, unsharded."""
    settings = {"precision": "bf16-mixed", "gradient_accumulation_steps": 4}
    synced = rank(4, {"type": "fsdp"}, **settings)
    without = rank(4, {"type": "fsdp", "no_sync": True}, **settings)
    assert without.peak.peak - synced.peak.peak > 2 * PARAMETERS


def test_long_contexts_are_not_free_with_flash_attention():
    """Belief: 128k tokens are free. Checkpoints, logits and one layer grow with the length."""
    short, long = (
        rank(precision="bf16", activation_checkpointing="full", attention="flash", sequence_length=each)
        for each in (2048, 16384)
    )
    growth = (long.peak.peak - long.persistent.before_step) / (short.peak.peak - short.persistent.before_step)
    assert growth == pytest.approx(8, rel=0.1)


def test_eight_bit_adam_shrinks_only_states():
    """Belief: 8-bit Adam halves memory. Of fp32 it saves three quarters of the states, and nothing else."""
    usual = rank(precision="fp32")
    small = rank(precision="fp32", optimizer="adamw-8bit", engine={"type": "none", "framework": "torchtune"})
    assert small.persistent.states == pytest.approx(usual.persistent.states * 2.03 / 8, rel=0.02)
    assert small.persistent.parameters == usual.persistent.parameters


def test_bf16_autocast_keeps_fp32_weights():
    """Belief: bf16=True halves weights. Under autocast they stay in fp32; in bf16 there is no fp32 copy."""
    assert rank(precision="bf16-mixed").persistent.parameters == rank(precision="fp32").persistent.parameters
    assert 2 * rank(precision="bf16").persistent.parameters == rank(precision="fp32").persistent.parameters


def test_offloading_is_not_free():
    """Belief: offload is free. What leaves the GPU is on the host: parameters, gradients and two moments."""
    one = rank(2, {"type": "fsdp", "cpu_offload": True}, precision="fp32")
    assert sum(entry.bytes for entry in one.host) == pytest.approx(16 * PARAMETERS / 2, rel=0.01)


def test_experts_are_all_in_memory():
    """Belief: a mixture with few active parameters needs few. All experts are held, and trained."""
    held = memcore.estimate({"model": "qwen3-30b-a3b", "training": {"sequence_length": 512}}).ranks[0]
    model = held.job.model
    assert model.active_parameters < model.parameters / 8
    assert held.persistent.parameters == pytest.approx(2 * model.parameters, rel=0.01)


def test_tensor_parallelism_does_not_divide_everything():
    """Belief: TP=4 divides everything by 4. Norms' inputs and the logits are whole without the parallelism of theirs."""
    alone = rank(precision="bf16", implementation="torchtitan", attention="flash", sequence_length=2048)
    kept, logits = {}, {}
    for parallel in (False, True):
        how = {"tensor_parallel_size": 4, "sequence_parallel": parallel, "loss_parallel": parallel}
        one = rank(
            4, parallelism=how, precision="bf16", implementation="torchtitan", attention="flash", sequence_length=2048
        )
        kept[parallel] = one.end_of_forward - one.persistent.before_step
        logits[parallel] = one.peak_of("loss") - one.end_of_forward
        assert one.persistent.parameters > alone.persistent.parameters / 4
    whole = alone.end_of_forward - alone.persistent.before_step
    assert kept[False] > 0.4 * whole > 1.2 * kept[True]
    assert logits[False] > 2 * logits[True]


def test_the_first_stage_of_a_pipeline_holds_as_much_as_no_pipeline():
    """Belief: PP=4 divides activations by 4. Of 4 stages the first has a quarter of the layers, for 4 micro-batches."""
    settings = {"precision": "bf16", "gradient_accumulation_steps": 8, "sequence_length": 2048}
    alone = rank(precision="bf16", sequence_length=2048)
    first = rank(4, {"type": "none"}, {"pipeline_parallel_size": 4}, **settings)
    kept = [
        sum(entry.bytes for entry in each.ledger(moment).of("activations") if "layers" in entry.module)
        for each in (alone, first)
        for moment in [max(each.moments, key=lambda one: one.peak)]
    ]
    assert kept[1] == pytest.approx(kept[0], rel=0.1)


@pytest.mark.parametrize(("accelerator", "context"), [("h100-sxm-80gb", 765), ("v100-sxm2-16gb", 350), ("t4", 141)])
def test_drivers_show_more_than_tensors_need(accelerator, context):
    """Belief: nvidia-smi shows what tensors need. It adds what the allocator holds besides, and the CUDA context."""
    found = memcore.estimate({"model": MODEL, "hardware": {"accelerator": accelerator}})
    assert found.allocated.expected < found.reserved.expected
    assert found.device.expected - found.reserved.expected == context * 2**20


def test_an_80_gb_gpu_has_less_than_80_gib():
    """Belief: an H100 with 80 GB has 80 GiB. Jobs can use 79.1 GiB of it."""
    found = memcore.estimate({"model": MODEL, "hardware": {"accelerator": "h100-sxm-80gb"}})
    assert found.capacity == pytest.approx(79.1 * 2**30, rel=1e-3)
