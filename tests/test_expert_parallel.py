"""Routed experts in torchtitan's layers: who holds which of them, the rows that travel, and what is refused."""

from math import ceil

import pytest

from memcore import Config, estimate
from memcore.errors import MemcoreError
from memcore.layers.torchtitan.llama4 import as_titan
from memcore.memory.communicators import deep_ep, hybrid_ep
from memcore.memory.rank import outside_allocator
from memcore.networks.catalog import find_model
from memcore.tools import imported

QWEN = {
    "model_type": "qwen3_moe",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
}


def job(gpus=8, experts=4, model=None, training=None, engine=None):
    """An estimate of a small sparse model."""
    config = {
        "model": model or QWEN,
        "training": {"sequence_length": 128, "micro_batch_size": 2, "implementation": "torchtitan", **(training or {})},
        "parallelism": {"expert_parallel_size": experts},
        "engine": {"type": "fsdp", **(engine or {})},
        "hardware": {"num_gpus": gpus},
    }
    return estimate(Config.from_dict(config))


def stored(found):
    """Bytes of parameters by the last part of their name, in one layer."""
    entries = found.rank.initial.entries
    return {each.module.rpartition("experts.")[2]: each.each for each in entries if ".experts." in each.module}


@pytest.mark.parametrize(
    ("gpus", "experts", "rows"),
    [
        (8, 4, 16 // 8),  # 4 of 16 experts, shared by 2 ranks
        (8, 8, 16 // 8),  # 2 of them, shared by nobody
        (8, 1, 16 // 8),
    ],
)
def test_a_rank_holds_its_part_of_the_experts(gpus, experts, rows):
    """Three fp32 matrices of 128 x 256 for each expert, and as many experts on every rank as GPUs allow."""
    size = rows * 128 * 256 * 4
    assert stored(job(gpus, experts)) == {"w1": size, "w2": size, "w3": size}


def test_more_ranks_than_experts_cut_each_of_them():
    """32 GPUs share 16 experts: each of two ranks has half the rows of its expert's matrices."""
    found = job(32, 16)
    assert stored(found) == dict.fromkeys(("w1", "w2", "w3"), 128 * 256 * 4 // 2)
    titles = {block.rule for block in found.rank.program.blocks}
    assert "copied_shards" in titles
    assert "copied_shards" not in {block.rule for block in job(8, 4).rank.program.blocks}


def rows_sent(found):
    """Bytes of each all-to-all of a forward pass through one layer."""
    program, sizes = found.rank.program, found.job.sizes
    pairs = zip(program.blocks, program.block_sizes(sizes), strict=True)
    return [size for block, size in pairs if block.rule == "all_to_all" and block.phase == "forward"][:2]


def test_rows_travel_to_their_experts_and_back():
    """Two sequences of 128 tokens, four experts for each token, bf16 rows of 256 elements; half as many more arrive."""
    each = 2 * 128 * 4 * 256 * 2
    assert rows_sent(job()) == [each, each]
    assert rows_sent(job(engine={"moe_load_imbalance": 1.5})) == [each * 3 // 2, each]


def blocks(found, rule, phase="forward"):
    """Bytes of each allocation of a rule in a phase."""
    program = found.rank.program
    pairs = zip(program.blocks, program.block_sizes(found.job.sizes), strict=True)
    return [size for block, size in pairs if block.rule == rule and block.phase == phase]


def test_deepep_sends_a_token_once_to_each_rank():
    """Of 4 x 256 tokens, those come that chose any of 4 of 16 experts: not C(12, 4) of C(16, 4), or 495 of 1820.

    They come as bf16, with a score in fp32 for each of the 4 choices. Experts see the 256 x 4 rows of an even share.
    """
    tokens = ceil(1024 * (1820 - 495) / 1820)
    found = job(engine={"moe_token_dispatcher": "deepep"})
    assert tokens == 746
    assert blocks(found, "expert_dispatch")[:2] == [tokens * 256 * 2, 24 * 512]  # 16 B for each
    assert blocks(found, "expert_combine")[0] == 256 * 256 * 2
    assert not blocks(found, "all_to_all")
    assert blocks(found, "grouped_mm")[0] == 256 * 4 * 128 * 2


def test_hybridep_sorts_rows_itself():
    """Rows come in the order of experts, 256 x 4 of them, and no permutation of them is made."""
    found = job(engine={"moe_token_dispatcher": "hybridep"})
    assert blocks(found, "expert_dispatch")[:2] == [1024 * 256 * 2, 1024 * 4]
    assert not blocks(found, "sort")


def test_hybridep_has_room_for_rows_that_may_arrive():
    """At most 256 tokens of four ranks, four experts each: all of that is what `deepseek_v3_16b_hybridep` makes room for."""
    for factor, rows in ((1.0, 256 * 4 * 4), (0.75, 256 * 3 * 4)):
        found = job(engine={"moe_token_dispatcher": "hybridep", "non_blocking_capacity_factor": factor})
        assert blocks(found, "expert_dispatch")[:2] == [rows * 256 * 2, rows * 4]
        assert found.skewed_routing is None


def test_deepep_buffers_are_outside_the_allocator():
    """Four ranks of a node: 256 tokens of 512 B, and 32 B + 20 B + 12 B for the experts of each, in pages of 2 MiB."""
    assert 4 * 256 * (512 + 64) < 2**21
    parts = {
        each.name: each.overhead.expected
        for each in outside_allocator(job(engine={"moe_token_dispatcher": "deepep"}).rank)
    }
    assert parts["DeepEP buffers"] == 2**21
    returned = (14336 + 64) * ((8 * 4 + 4) * 4096 + 4 * (4096 + 1280))  # of four nodes, which take more than they send
    assert deep_ep(4096, 7168, 8, 32, 8) == 2**21 * ceil(returned / 2**21)


def test_hybridep_buffers_are_outside_the_allocator():
    """Four ranks' 256 tokens, each of 512 B, probabilities of experts and two scales; or that both ways."""
    found = job(engine={"moe_token_dispatcher": "hybridep"})
    parts = {each.name: each.overhead for each in outside_allocator(found.rank)}
    experts = found.rank.job.sizes["E"]
    assert parts["HybridEP buffers"].expected == 4 * 256 * (512 + 4 * experts + 8)
    assert parts["HybridEP buffers"].high == 4 * 256 * (2 * (512 + 4 * experts) + 8)
    own = 2 * 7168 + 4 * 32
    assert hybrid_ep(4096, 7168, 4, 16, 8, shared=True) == 4096 * (16 * (own + 224) + 3 * own + 224)


def test_selective_checkpoints_keep_what_deepep_sent():
    """The policy names its operations too: tokens, scores and results are not sent again."""
    engine = {"moe_token_dispatcher": "deepep"}
    found = job(engine=engine, training={"activation_checkpointing": {"policy": "selective", "mode": "op"}})
    entries = found.rank.ledger(found.rank.moments[_last_forward(found)]).entries
    kept = {each.rule for each in entries if each.rule.startswith("expert_")}
    assert kept == {"expert_dispatch", "expert_combine"}


def test_no_rank_is_given_more_than_everything():
    """With 4 ranks of 4 experts each, every token of every rank may choose 4 of them: 4 times the even share."""
    each = 2 * 128 * 4 * 256 * 2
    assert rows_sent(job(engine={"moe_load_imbalance": 100})) == [4 * each, each]


def test_without_expert_parallelism_no_row_travels():
    """Rows are put in order on the same rank."""
    assert not rows_sent(job(experts=1))


@pytest.mark.parametrize("model", [QWEN, LATENT], ids=["qwen3_moe", "deepseek_v3"])
@pytest.mark.parametrize("experts", [1, 4])
def test_all_parameters_are_on_the_ranks(model, experts):
    """Every element of the model is held by one rank, up to the rounding of blocks."""
    found = job(8, experts, model)
    together = 8 * found.rank.persistent.parameters
    exact = 4 * found.job.model.parameters
    assert exact <= together <= exact + 8 * 512 * 100


def test_selective_checkpoints_keep_what_was_sent():
    """torchtitan's policy keeps the results of both all-to-alls, and none of the experts' own products."""
    found = job(training={"activation_checkpointing": {"policy": "selective", "mode": "op"}})
    kept = {
        each.rule: each.bytes
        for each in found.rank.ledger(found.rank.moments[_last_forward(found)]).entries
        if each.rule in ("all_to_all", "grouped_mm")
    }
    assert kept == {"all_to_all": 4 * 2 * 128 * 4 * 256 * 2}


def _last_forward(found):
    places = [index for index, moment in enumerate(found.rank.moments) if moment.phase == "loss"]
    return places[-1]


def beside_tensors(experts=4, gpus=8, model=None, **training):
    """The same model under tensor parallelism, too."""
    config = {
        "model": model or LATENT,
        "training": {"sequence_length": 128, "micro_batch_size": 2, "implementation": "torchtitan", **training},
        "parallelism": {"expert_parallel_size": experts, "tensor_parallel_size": 2},
        "engine": {"type": "fsdp"},
        "hardware": {"num_gpus": gpus},
    }
    return estimate(Config.from_dict(config))


@pytest.mark.parametrize("model", [QWEN, LATENT], ids=["qwen3_moe", "deepseek_v3"])
def test_tensor_parallel_ranks_route_their_own_tokens(model):
    """Half of the tokens of 64 rows, and experts of all 8 GPUs: two ranks have the same ones of 4 times 4."""
    found = beside_tensors(model=model)
    assert rows_sent(found) == [2 * 64 * 4 * 256 * 2] * 2
    assert stored(found) == dict.fromkeys(("w1", "w2", "w3"), 4 // 2 * 128 * 256 * 4)
    assert found.job.sizes["ze"] == 2


def test_latent_spaces_are_whole_on_every_rank():
    """Matrices into them, 256 x 96 and 256 x 80, are not shared by tensor-parallel ranks; those out of them are."""
    entries = {entry.module.rpartition("self_attn.")[2]: entry.each for entry in beside_tensors().rank.initial.entries}
    sharded = 4  # by FSDP
    assert entries["q_a_proj.weight"] == 256 * 96 * 4 // sharded
    assert entries["kv_a_proj_with_mqa.weight"] == 256 * 80 * 4 // sharded
    assert entries["q_b_proj.weight"] == 96 * 8 * 48 * 4 // sharded // 2
    assert entries["o_proj.weight"] == 256 * 8 * 32 * 4 // sharded // 2


@pytest.mark.parametrize("model", [QWEN, LATENT], ids=["qwen3_moe", "deepseek_v3"])
def test_without_expert_parallelism_tensor_parallel_ranks_divide_each_expert(model):
    """torchtitan, `TensorParallel`: two ranks share the width of each of 16 experts, four shard them; all see all tokens."""
    found = beside_tensors(experts=1, model=model)
    assert stored(found) == dict.fromkeys(("w1", "w2", "w3"), 16 // 4 * 128 // 2 * 256 * 4)
    assert found.job.sizes["er"] == 2 * 128 * 4
    rules = [block.rule for block in found.rank.program.blocks if ".mlp" in block.module]
    assert {"tensor_all_gather", "tensor_reduce_scatter"} <= set(rules)
    whole = Config.from_dict({**found.job.config.to_dict(), "parallelism": {
        "tensor_parallel_size": 2, "expert_tensor_parallel_size": 2}})  # fmt: skip
    assert estimate(whole).peak.peak == found.peak.peak


def test_routed_experts_need_sequence_parallelism_with_tensor_parallelism():
    """By name."""
    config = beside_tensors().job.config.replaced("parallelism.sequence_parallel", False)
    with pytest.raises(MemcoreError, match="only with sequence parallelism"):
        estimate(config)


@pytest.mark.parametrize(
    ("name", "each", "count"),
    [("meta-llama/Llama-4-Scout-17B-16E", 16, 48), ("meta-llama/Llama-4-Maverick-17B-128E", 128, 24)],
)
def test_llama_4_of_torchtitan(name, each, count):
    """torchtitan 0.2.2, models/llama4: no norms of heads, all layers alike or each second one sparse, and no towers."""
    model = as_titan(find_model(name))
    mixture = 3 * 5120 * 8192 * (each + 1) + 5120 * each
    attention, dense = 2 * 5120 * 5120 + 2 * 5120 * 1024, 3 * 5120 * 16384
    assert model.parameters == (
        count * mixture + (48 - count) * dense + 48 * (attention + 2 * 5120) + 2 * 202048 * 5120 + 5120
    )
    assert not model.network.towers


def piped(stages=2, **engine):
    """The same model in PithTrain's pipeline, whose ranks have two stages each."""
    config = {
        "model": QWEN,
        "training": {"sequence_length": 128, "gradient_accumulation_steps": 8},
        "parallelism": {"pipeline_parallel_size": stages, "expert_parallel_size": 4},
        "engine": {"type": "fsdp", "framework": "pith-train", **engine},
        "hardware": {"num_gpus": 4 * stages},
    }
    return estimate(Config.from_dict(config))


def unsharded(rank):
    """Bytes of routed experts' gradients at the peak, by dtype."""
    found = {}
    for entry in rank.ledger(rank.peak).entries:
        if entry.category == "gradients" and ".experts" in entry.module:
            found[entry.dtype] = found.get(entry.dtype, 0) + entry.bytes
    return found


def test_delayed_gradients_of_experts_stay_in_the_compute_dtype():
    """Two layers of four experts with three matrices of 128 x 256: in bf16 where FSDP's hooks come before them."""
    elements = 2 * 4 * 3 * 128 * 256
    at_once, delayed = piped().ranks[0], piped(delay_wgrad_compute=True).ranks[0]
    assert unsharded(at_once) == {"fp32": 4 * elements}
    assert unsharded(delayed) == {"bf16": 2 * elements}
    assert delayed.peak.peak < at_once.peak.peak


def test_pithtrain_has_two_stages_on_one_rank():
    """DualPipeV runs without other ranks, too: nothing is resharded, and gradients are whole until the step ends."""
    (rank,) = piped(stages=1).ranks
    assert rank.name == "stages 0 and 1"
    kept = [entry for entry in rank.ledger(rank.peak).entries if entry.rule == "accumulated_gradient"]
    assert [(each.bytes, each.copies) for each in kept if "q_proj" in each.module] == [(4 * 256 * 256 * 4, 4)]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"experts": 3}, "parallelism.expert_parallel_size"),
        ({"gpus": 2, "experts": 4}, "parallelism.expert_parallel_size"),
        ({"training": {"implementation": "transformers"}}, "training.implementation"),
        ({"experts": 1, "engine": {"moe_load_imbalance": 2}}, "engine.moe_load_imbalance"),
        ({"experts": 1, "engine": {"moe_token_dispatcher": "deepep"}}, "engine.moe_token_dispatcher"),
        ({"engine": {"moe_token_dispatcher": "flex"}}, "engine.moe_token_dispatcher"),
        ({"engine": {"delay_wgrad_compute": True}}, "engine.delay_wgrad_compute"),
    ],
)
def test_what_cannot_be_is_refused(changes, path):
    """Experts are whole, and ranks are taken from FSDP's."""
    with pytest.raises(MemcoreError, match=path):
        job(**changes)


@pytest.mark.parametrize(
    ("model", "version", "kept"),
    [
        (LATENT, "f738a03bf45e", False),
        (LATENT, "36a4b69426f4", True),
        (QWEN, "36a4b69426f4", False),  # a list of its own until March 2026
        (QWEN, "114151a", True),
        (QWEN, None, True),
    ],
)
def test_versions_that_send_again(model, version, kept):
    """Until September 2025 torchtitan's selective checkpoints sent rows a second time in the backward pass."""
    engine = {"framework": "torchtitan", **({"framework_version": version} if version else {})}
    selective = {"activation_checkpointing": {"policy": "selective", "mode": "op"}}
    found = job(engine=engine, model=model, training=selective)
    entries = found.rank.ledger(found.rank.moments[_last_forward(found)]).entries
    assert any(each.rule == "all_to_all" for each in entries) == kept


def test_the_assumption_names_the_worst_case():
    """Four ranks of four experts each, of which every token of every rank may choose all four."""
    reasons = [each.reason for each in job().assumptions if each.path == "engine.moe_load_imbalance"]
    assert reasons == ["all ranks receive the same number of tokens for their experts; at worst it is 4"]


def test_latent_attention_in_a_ring():
    """Keys and narrower values go around together; what a turn gathers is theirs of all ranks, in bf16."""
    config = {
        "model": LATENT,
        "training": {"sequence_length": 128, "implementation": "torchtitan"},
        "parallelism": {"context_parallel_size": 2},
        "engine": {"type": "fsdp"},
        "hardware": {"num_gpus": 4},
    }
    rank = estimate(Config.from_dict(config)).rank
    sizes = rank.program.block_sizes(rank.job.sizes)
    blocks = list(zip(rank.program.blocks, sizes, strict=True))
    gathered = {size for block, size in blocks if block.rule == "all_gather_output" and "self_attn" in block.module}
    heads = LATENT["num_attention_heads"]
    widths = LATENT["qk_nope_head_dim"] + LATENT["qk_rope_head_dim"] + LATENT["v_head_dim"]
    assert gathered == {2 * 64 * heads * widths * 2}
    assert {block.rule for block, _ in blocks if block.rule.endswith("_attention")} == {"efficient_attention"}


def test_readings_reach_to_experts_chosen_as_unevenly_as_in_measured_runs():
    """A job that says how uneven its experts are chosen has no such range."""
    found, skewed = job(), job(engine={"moe_load_imbalance": 1.5})
    for own, other in zip(found.readings, skewed.readings, strict=True):
        part = own.parts[-1]
        assert (part.title, part.low) == ("how unevenly tokens are routed to experts", 0)
        assert part.high == other.expected - own.expected
        assert part.settled_by == "engine.moe_load_imbalance"
    assert skewed.skewed_routing is None
    assert job(experts=1).skewed_routing is None


@pytest.mark.parametrize(("ranks", "experts"), [(4, 0), (2, 4 * 3 * 8 * 256 * 128 * 2)])
def test_automodel_keeps_gathered_parameters_and_leaves_experts(ranks, experts):
    """Its own networks: nothing is resharded after the forward pass, and experts of one rank alone are no FSDP unit."""
    found = estimate(
        {
            "model": QWEN,
            "training": {"sequence_length": 512, "precision": "bf16", "reduce_dtype": "fp32"},
            "parallelism": {"expert_parallel_size": ranks},
            "engine": {"type": "fsdp", "framework": "nemo-automodel"},
            "hardware": {"num_gpus": 4},
        }
    )
    end = max((each for each in found.rank.moments if each.phase == "loss"), key=lambda each: each.peak)
    gathered = [each for each in found.rank.ledger(end).entries if each.rule == "unsharded_parameter"]
    of_experts = sum(each.bytes for each in gathered if ".experts" in each.module)
    assert of_experts == experts
    norms = 2 * 512  # of queries and keys: blocks are at least 512 B
    dense = 4 * ((2 * 256 * 256 + 2 * 128 * 256 + 16 * 256 + 2 * 256) * 2 + norms)
    assert sum(each.bytes for each in gathered if ".experts" not in each.module and ".layers." in each.module) == dense


def test_flavors_of_llama_4_are_read():
    """Blocks of attention are said to be counted as whole."""
    text = '[model]\nname = "llama4"\nflavor = "17bx16e_irope"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n'
    found = imported(text)
    assert found.config["model"] == "meta-llama/Llama-4-Scout-17B-16E"
    assert any("irope" in str(note) for note in found.notes)
    assert any("17bx128e" in str(note) for note in imported(text.replace("17bx16e_irope", "16B")).notes)


GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "intermediate_size": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 4,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
}


def test_experts_of_gpt_oss_have_biases():
    """torchtitan, `GptOssGroupedExperts`: gate and up are one matrix, and each of two matrices has a bias."""
    each = {"mlp1_weight": 2 * 128 * 256, "mlp1_bias": 2 * 128, "mlp2_weight": 256 * 128, "mlp2_bias": 256}
    assert stored(job(8, 4, GPT_OSS)) == {name: 2 * size * 4 for name, size in each.items()}


@pytest.mark.parametrize(
    ("attention", "engine", "rules", "weighed"),
    [
        ("flex", {}, {"sigmoid", "clamp", "addcmul", "all_to_all"}, True),
        ("cudnn", {"framework": "nemo-automodel"}, {"fused_product", "expert_dispatch"}, False),
    ],
)
def test_sinks_and_gates_of_gpt_oss(attention, engine, rules, weighed):
    """torchtitan rescales attention, runs the gate by itself and weighs results, whose router is in fp32.

    Automodel compiles the gate, which takes scores as factors, its router is in the dtype of tokens, and cuDNN takes
    sinks.
    """
    found = job(8, 4, GPT_OSS, {"attention": attention}, engine)
    every = {"sigmoid", "clamp", "addcmul", "all_to_all", "fused_product", "expert_dispatch"}
    blocks = found.rank.program.blocks
    assert {each.rule for each in blocks} & every == rules
    assert any(each.rule == "mul" and each.module.endswith("token_dispatcher") for each in blocks) is weighed
    copies = {each.shape for each in blocks if each.rule == "to" and each.module.endswith("router")}
    assert (("b", "s", "h") in copies) is weighed


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3.5-35B-A3B", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "MiniMaxAI/MiniMax-M2"]
)
def test_experts_next_to_mixers_that_torchtitan_lacks(name):
    """NeMo Automodel shares the experts of such models, too: eight ranks have an eighth of all parameters each."""
    job = {
        "model": name,
        "training": {"precision": "bf16", "sequence_length": 256, "activation_checkpointing": "full"},
        "parallelism": {"expert_parallel_size": 8},
        "engine": {"type": "fsdp", "framework": "nemo-automodel"},
        "hardware": {"num_gpus": 8, "accelerator": "h200-sxm-141gb"},
    }
    found = estimate(Config.from_dict(job))
    assert found.rank.persistent.parameters == pytest.approx(find_model(name).parameters * 2 / 8, rel=0.01)
    assert found.rank.job.recipe.implementation == "transformers"
    with pytest.raises(MemcoreError, match="torchtitan's models need"):
        estimate(Config.from_dict({**job, "engine": {"type": "fsdp"}}))
