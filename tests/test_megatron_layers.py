"""What Megatron-Core's layers keep for their backward pass, worked by hand, and peaks that its own tests measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memcore import estimate
from memcore.errors import ConfigError
from memcore.networks.parts import SpecialMixer
from memcore.networks.read import read_model
from memcore.networks.share import padded, shared
from memcore.networks.stages import stage_of
from memcore.symbols import product, split_over
from memcore.tensors.autograd import attach, backward
from memcore.tensors.basics import new
from memcore.trace.code import code_of
from memcore.trace.engine import Runtime, precision
from memcore.trace.program import Program
from memcore.trace.recipe import Loss, Recipe, Sharding
from memcore.trace.step import Batch, Step
from memcore.trainers.megatron.networks.converted import as_megatron
from memcore.trainers.megatron.step_plan import Experts, MegatronPlan, Recompute

GPT = {
    "model_type": "megatron",
    "architecture": "gpt",
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "max_position_embeddings": 32,
    "vocab_size": 1000,
}
LLAMA = GPT | {
    "position_embedding_type": "rope",
    "normalization": "RMSNorm",
    "swiglu": True,
    "ffn_hidden_size": 192,
    "num_query_groups": 2,
    "disable_bias_linear": True,
}
PLAN = MegatronPlan(
    keeps_head_dummy=True,
    keeps_exchanged=True,
    tensor=False,
    sequence=False,
    context=None,
    recompute=None,
    fuses_weight_gradients=False,
    loss="unfused",
    experts=None,
    fp8=None,
    softmax_fp32=False,
    softmax_fusion=True,
    activation_fusion=True,
    rope_fusion=True,
    deterministic=False,
    masked=False,
)
B, S, H, A, D = 2, 32, 64, 8, 8


class DistributedDataParallel(Runtime):
    """Gradients go to buffers that stay."""

    def parameter(self, weight):
        """They leave nothing behind."""
        found = super().parameter(weight)
        found.bucketed = True
        return found


def recorded(config, plan=PLAN, kernel="cudnn", ranks=1, dropout=0.0, implementation="transformer-engine", batch=B):
    """The moments of one micro-batch of a network on one of several tensor-parallel ranks."""
    model = shared(as_megatron(read_model(config)))
    network = model.network
    layers = tuple(
        tuple(replace(layer, dropout=dropout, mixer=replace(layer.mixer, dropout=dropout)) for layer in run)
        for run in network.runs
    )
    network = replace(
        network, runs=layers, embedding_and_head=replace(network.embedding_and_head, embedding_dropout=dropout)
    )
    sizes = {**model.sizes, "b": batch, "s": model.sizes["P"], "cp": 1, "tp": ranks, "ep": 1, "etp": ranks}
    sizes["V"] = padded(sizes["V"], sizes["vd"], ranks)
    sizes["nr"] = batch * sizes["s"] * sizes.get("e", 0)
    recipe = Recipe(
        network=network,
        repeats=model.repeats,
        implementation=implementation,
        attention=kernel,
        padded=False,
        windowed=False,
        precision=precision("bf16"),
        loss=Loss(kind="vocab-parallel", shifts_labels=False),
        sharding=Sharding(engine="none"),
        checkpoints=None,
        micro_batches=1,
        keeps_gradients=False,
        units=frozenset(["b"] if batch == 1 else []),
        plans=(plan,),
    )
    step = Step(recipe, DistributedDataParallel)
    step.record(code_of(implementation).forward, lambda step: {})
    return Program(step.tape).moments(sizes)


def kept(*arguments, **options):
    """Bytes that one layer keeps, rounded up as the allocator does."""
    forward = [moment for moment in recorded(*arguments, **options) if moment.phase == "forward"]
    layers = [moment for moment in forward if moment.place.count(".") == 2]
    return layers[2].end - layers[1].end


TOKENS = B * S
STATISTIC = 512
"""Of 64 tokens in fp32, rounded up from 256 bytes."""
KEPT = [
    # LayerNorm's input and result twice, q, k and v in one, attention's result, 4h before and after GELU, statistics
    # of 4 norms, of attention, and the state of random numbers.
    (GPT, {}, {}, TOKENS * 2 * (4 * H + 3 * H + H + 8 * H) + 4 * STATISTIC + TOKENS * A * 4 + 512),
    # Keys and values of 2 heads, copied; three matrices of 192; RMSNorm has one statistic.
    (LLAMA, {}, {}, TOKENS * 2 * (4 * H + H + 2 * 2 * D + H + 3 * 192) + 2 * STATISTIC + TOKENS * A * 4 + 512),
    # flash-attn copies to (b, s, …) and back, unless there is one sequence.
    (GPT, {}, {"kernel": "flash"}, TOKENS * 2 * (17 * H + 8 * H) + 4 * STATISTIC + TOKENS * A * 4 + 1024 - TOKENS * 2 * 8 * H),
    # Dropout of both branches: a byte for each element.
    (GPT, {}, {"dropout": 0.1}, TOKENS * (32 * H + 2 * H) + 4 * STATISTIC + TOKENS * A * 4 + 512),
    # All scores: probabilities, what dropout leaves of them and its mask, 5·a·s².
    (GPT, {}, {"kernel": "math", "dropout": 0.1}, TOKENS * 34 * H + 4 * STATISTIC + 5 * B * A * S * S),
    (GPT, {}, {"implementation": "megatron-local", "kernel": "math"}, TOKENS * 32 * H + 4 * STATISTIC + 2 * B * A * S * S),
    # Two ranks: norms and residuals are whole without sequence parallelism.
    (GPT, {"tensor": True}, {"ranks": 2}, TOKENS * (8 + 12) * H + 4 * STATISTIC + TOKENS * A * 2 + 512),
    (GPT, {"tensor": True, "sequence": True}, {"ranks": 2}, TOKENS * 16 * H + 4 * STATISTIC + TOKENS * A * 2 + 512),
]  # fmt: skip
"""Network, changes of the plan, how it runs, and bytes."""


@pytest.mark.parametrize(("config", "changes", "options", "expected"), KEPT)
def test_a_layer_keeps(config, changes, options, expected):
    """From one layer to the next."""
    assert kept(config, replace(PLAN, **changes), **options) == expected


MIXTRAL = LLAMA | {"num_experts": 4, "moe_ffn_hidden_size": 192, "moe_router_topk": 2, "moe_router_dtype": "fp32"}
LATENT = LLAMA | {
    "num_query_groups": 8,
    "multi_latent_attention": True,
    "q_lora_rank": 48,
    "kv_lora_rank": 32,
    "qk_head_dim": 16,
    "qk_pos_emb_head_dim": 8,
    "v_head_dim": 16,
    "qk_layernorm": True,
}
ROUTED = Experts(
    dispatcher="alltoall",
    parallel=False,
    tensor=False,
    grouped=True,
    permute_fusion=True,
    router_fusion=False,
    balancing="none",
    pre_softmax=False,
    padded=False,
)
ATTENTION = TOKENS * 2 * (2 * H + H + 2 * 2 * D + H) + STATISTIC + TOKENS * A * 4 + 512
"""Of LLAMA's layer: its norm, q, k, v, result and statistics."""
ROUTER = TOKENS * 2 * (8 + 4) + TOKENS * 4 * (4 * 2 * 2 + 4)
"""Indices and scores of two experts of a token; row map of 2 · 4 int32 for each, made twice, and probabilities."""


def rows(width):
    """Bytes of two rows of bf16 for each token."""
    return TOKENS * 2 * 2 * width


SPARSE = [
    # The second norm's input and result, the rows given to experts, gate and up projection, what the second matrix is
    # given, and a weight in fp32 for each row.
    ((), TOKENS * 2 * 2 * H + STATISTIC + rows(H) + rows(3 * 192) + TOKENS * 2 * 4),
    # What the second matrix is given is computed again.
    (("moe_act",), TOKENS * 2 * 2 * H + STATISTIC + rows(H) + rows(2 * 192) + TOKENS * 2 * 4),
    # So is what the norm makes.
    (("moe_act", "layernorm"), TOKENS * 2 * H + rows(H) + rows(2 * 192) + TOKENS * 2 * 4),
    # Everything but the norm.
    (("moe",), TOKENS * 2 * 2 * H + STATISTIC),
]


@pytest.mark.parametrize(("modules", "expected"), SPARSE)
def test_a_sparse_layer_keeps(modules, expected):
    """With what selective recomputation leaves; the router's scores are a few bytes for each expert."""
    recompute = Recompute(granularity="selective", modules=frozenset(modules))
    found = kept(MIXTRAL, replace(PLAN, experts=ROUTED, recompute=recompute)) - ATTENTION - expected
    router = 0 if "moe" in modules else ROUTER
    assert 0 <= found <= router


DENSE = TOKENS * 2 * (2 * H + 3 * 192) + STATISTIC
"""Of LLAMA's layer: its second norm and three matrices."""
COMPRESSED = [
    # The norm's input and result, both latent vectors and their norms, q, k and v of 8 heads, the result, statistics.
    ((), 2 * H + 2 * 48 + 2 * 32 + 8 * (24 + 24 + 16 + 16), 3),
    # The latent vectors as they come out of their matrices, and what all heads share of the key; the result.
    (("mla_up_proj",), 2 * H + 48 + 40 + 8 * 16, 1),
]


GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": H, "num_hidden_layers": 4, "num_attention_heads": A, "head_dim": D,
    "num_key_value_heads": 2, "intermediate_size": 192, "num_local_experts": 4, "num_experts_per_tok": 2,
    "vocab_size": 1000, "max_position_embeddings": S, "tie_word_embeddings": False,
}  # fmt: skip


def test_clamped_gates_and_sinks():
    """gpt-oss: gates clamped in another tensor, next to what they are clamped from; flash-attn has no learned sinks."""
    clamped = replace(PLAN, experts=ROUTED)
    found = kept(GPT_OSS, clamped) - ATTENTION - SPARSE[0][1] - rows(2 * 192)
    assert 0 <= found <= ROUTER
    assert kept(GPT_OSS, clamped, kernel="flash") == kept(GPT_OSS, clamped)
    job = {"model": GPT_OSS, "engine": "megatron", "parallelism": {"context_parallel_size": 2},
           "training": {"sequence_length": S}, "hardware": {"num_gpus": 2}}  # fmt: skip
    with pytest.raises(ConfigError, match="found 'p2p'; TransformerEngine has no attention with learned sinks"):
        estimate(job)
    assert estimate({**job, "engine": {"type": "megatron", "cp_comm_type": "a2a"}})


def test_squared_relu_and_weights_in_one_kernel():
    """Its result before the weights, of two experts for each token, is not kept."""
    network = {key: value for key, value in MIXTRAL.items() if key != "swiglu"} | {"squared_relu": True}
    fused = kept(network, replace(PLAN, experts=replace(ROUTED, squared_relu_fusion=True)))
    assert kept(network, replace(PLAN, experts=ROUTED)) - fused == TOKENS * 2 * 192 * 2


def test_each_activation_has_a_switch_of_its_own():
    """SwiGLU by operations keeps the activated gate; GELU's switch leaves it alone."""
    whole, other, apart = (
        kept(LLAMA, replace(PLAN, **more)) for more in ({}, {"activation_fusion": False}, {"gate_fusion": False})
    )
    assert whole == other
    assert apart - whole == TOKENS * 2 * 192


def test_experts_in_a_latent_width():
    """Tokens are sent and computed in it: rows of 16 instead of 64, and what the matrix behind them is given."""
    plain, narrow = (kept(MIXTRAL | more, replace(PLAN, experts=ROUTED)) for more in ({}, {"moe_latent_size": 16}))
    assert plain - narrow == rows(H) - rows(16) - TOKENS * 2 * 16


@pytest.mark.parametrize(("modules", "width", "statistics"), COMPRESSED)
def test_latent_attention_keeps(modules, width, statistics):
    """Queries, keys and values are written anew; recomputed, they leave nothing."""
    recompute = Recompute(granularity="selective", modules=frozenset(modules))
    found = kept(LATENT, replace(PLAN, recompute=recompute, rope_fusion=False)) - DENSE
    assert found - TOKENS * 2 * width - TOKENS * A * 4 - statistics * STATISTIC in range(3 * 1024)


LOGITS = [("unfused", 6), ("native", 10), ("te", 2)]
"""Bytes for each word and token while the loss is computed."""


@pytest.mark.parametrize(("loss", "each"), LOGITS)
def test_losses(loss, each):
    """The unfused loss upcasts, compiled functions copy once more, TransformerEngine's kernel writes over the logits."""
    moments = recorded(GPT, replace(PLAN, loss=loss))
    before = next(moment for moment in moments if moment.place == "final norm").end
    peak = next(moment for moment in moments if moment.place == "head and loss").peak
    words = TOKENS * 1024
    assert each * words <= peak - before < (each + 0.5) * words


def recomputed(method, layers, vocabulary):
    """The peak of 8 layers, and its phase."""
    checkpointing = {"policy": "full", "method": method, "num_layers": layers}
    training = {"sequence_length": 1024, "activation_checkpointing": checkpointing}
    network = LLAMA | {"num_layers": 8, "vocab_size": vocabulary, "max_position_embeddings": 1024}
    found = estimate({"model": network, "training": training, "engine": {"type": "megatron"}})
    return found.allocated.expected, found.peak.phase


def test_layers_recomputed_together_keep_one_input():
    """The loss, where it needs the most memory, sees the input of each group of layers."""
    least, _ = recomputed("uniform", 8, 64000)
    for layers, inputs in {1: 8, 2: 4, 3: 3, 4: 2}.items():
        assert recomputed("uniform", layers, 64000) == (least + (inputs - 1) * 1024 * H * 2, "loss")


def test_layers_recomputed_together_exist_together():
    """The last group's backward pass has the activations of its layers and the inputs of all groups."""
    own = 1024 * H * 2
    layer = recomputed("block", 1, 100)[0] - recomputed("block", 2, 100)[0] + own
    two, four, eight = (recomputed("uniform", layers, 100)[0] for layers in (2, 4, 8))
    assert four - two == 2 * layer - 2 * own
    assert eight - four == pytest.approx(4 * layer - own, abs=512)


def test_weight_gradients_are_added_where_they_belong():
    """Without fused accumulation the tied matrix's gradient waits for the embedding's, beside that of the last layer."""
    apart, fused = (_backward_peak(replace(PLAN, fuses_weight_gradients=fused)) for fused in (False, True))
    assert apart - fused == 1024 * H * 2 + 4 * H * H * 2 - 512


def _backward_peak(plan):
    return max(moment.peak for moment in recorded(GPT, plan) if moment.phase == "backward")


MEASURED = [
    # 12 layers of 512, 8 heads, 1024 tokens in 4 sequences, dropout, two stages: what the last one adds to the bytes
    # between steps, in MiB, on A100 and H100 (Megatron-LM's functional tests).
    ({}, {"tensor": True, "masked": True, "deterministic": True}, "math", 2, 1347.60),
    ({}, {"tensor": True, "masked": True, "loss": "native"}, "cudnn", 2, 1262.05),
    ({"position_embedding_type": "rope"}, {"masked": True, "deterministic": True}, "math", 1, 2559.66),
    ({"position_embedding_type": "rope"}, {"masked": True, "deterministic": True}, "cudnn", 1, 1600.95),
    ({"position_embedding_type": "rope"}, {"masked": True, "rope_fusion": False}, "math", 1, 2562.66),
]


@pytest.mark.parametrize(("config", "changes", "kernel", "ranks", "measured"), MEASURED)
def test_measured_peaks(config, changes, kernel, ranks, measured):
    """Within 0.1%."""
    whole = {"num_layers": 12, "hidden_size": 512, "max_position_embeddings": 1024, "vocab_size": 50257}
    model = read_model(GPT | whole | config)
    one = stage_of(model, 1, 2)
    found = _last_stage(one, replace(PLAN, **changes), kernel, ranks)
    assert found / 2**20 == pytest.approx(measured, rel=1e-3)


def _last_stage(model, plan, kernel, ranks):
    """The peak of a stage that is given hidden states."""
    model = shared(model)
    sizes = {**model.sizes, "b": 4, "s": 1024, "cp": 1, "tp": ranks, "ep": 1, "etp": ranks, "mb": 1, "mu": 0}
    sizes["V"] = padded(sizes["V"], sizes["vd"], ranks)
    network = replace(model.network, embedding_and_head=replace(model.network.embedding_and_head, tied=False))
    recipe = Recipe(
        network=network,
        repeats=(5,),
        implementation="transformer-engine",
        attention=kernel,
        padded=False,
        windowed=False,
        precision=precision("bf16"),
        loss=Loss(kind="vocab-parallel", shifts_labels=False),
        sharding=Sharding(engine="none"),
        checkpoints=None,
        micro_batches=1,
        keeps_gradients=False,
        units=frozenset(),
        plans=(plan,),
    )
    step = Step(recipe, DistributedDataParallel)
    step.tape.enter("forward", "inputs")
    tokens = new(step.tape, ("b", "s"), "int64", "inputs")
    labels = new(step.tape, ("b", "s"), "int64", "inputs")
    hidden = new(step.tape, (split_over("s") if plan.sequence else "s", "b", "h"), "bf16", "received_activation")
    attach([hidden], [], [], lambda g, s: [])
    loss, _ = code_of("transformer-engine").forward(step, Batch(hidden, labels, None, {}))
    step.tape.enter("loss", "gradient of the loss")
    backward(loss)
    step.tape.finish()
    del tokens
    sizes["run 0"] = model.repeats[0] - 4
    return max(moment.peak for moment in Program(step.tape).moments(sizes))


@pytest.mark.parametrize("inner", ["moe_act", "shared_experts"])
def test_what_a_checkpoint_within_another_keeps(inner):
    """A recomputed layer of experts keeps its input, whatever is recomputed within it."""
    job = {
        "model": {
            "model_type": "megatron", "architecture": "gpt", "num_layers": 4, "hidden_size": 256,
            "num_attention_heads": 4, "max_position_embeddings": 512, "vocab_size": 1024, "num_experts": 4,
            "moe_ffn_hidden_size": 256, "moe_shared_expert_intermediate_size": 256, "swiglu": True,
            "disable_bias_linear": True,
        },
        "training": {"sequence_length": 512},
        "parallelism": {"pipeline_parallel_size": 2},
        "engine": {"type": "megatron", "moe_grouped_gemm": True},
    }  # fmt: skip
    kept = []
    for modules in (["moe"], ["moe", inner]):
        job["training"]["activation_checkpointing"] = {"policy": "selective", "modules": modules}
        kept.append(estimate(job).ranks[0].recorded[0].kept)
    assert kept[0] == kept[1]


QWEN_3_5 = {
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 192,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "vocab_size": 1000,
    "max_position_embeddings": 32,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("ranks", "layer", "expected"),
    [
        # `in_proj` of 2·2·16 + 2·4·16 + 2·4 rows, a convolution of 128 channels, a decay and a bias for each head.
        (1, "linear_attn", 64 * (128 + 64 + 8) + 128 * 4 + 4 + 4 + 16 + 64 * 64),
        (2, "linear_attn", 64 * (128 + 64 + 8) // 2 + 128 * 4 // 2 + 2 + 2 + 16 + 64 * 64 // 2),
        # Queries, gates, keys and values in one matrix: 4 + 4 + 2 + 2 heads of 16; norms of queries and keys.
        (1, "attention", 64 * 12 * 16 + 64 * 64 + 2 * 16),
    ],
)
def test_parameters_of_gated_mixers(ranks, layer, expected):
    """`GatedDeltaNet.__init__`, and `SelfAttention` with `attention_output_gate`."""
    model = shared(as_megatron(read_model(QWEN_3_5)))
    sizes = {**model.sizes, "tp": ranks}
    kinds = {isinstance(each.mixer, SpecialMixer): each.mixer for each in model.network.kinds}
    mixer = kinds[layer == "linear_attn"]
    assert sum(product(weight.shape, sizes) for weight in mixer.weights()) == expected


def test_a_gated_delta_net_keeps():
    """From one layer to the next.

    Of each token: both norms' inputs and results, all of `in_proj`'s result, normalized queries and keys, both again for
    four heads, values, gates, the rule's result, its norm, and the gated product for `out_proj`; and the feed-forward
    layer. In fp32 lengths of keys, a sum of the decay and a statistic for each value head; beta; and a row of 64 for each.
    """
    widths = 4 * 64 + 200 + 2 * 32 + 2 * 64 + 64 + 64 + 3 * 64 + 3 * 192
    assert kept(QWEN_3_5) == TOKENS * (2 * widths + 3 * 4 * 4 + 4 * 2 + 4 * 64 * 2) + 2 * STATISTIC


GEMMA_4 = {
    "model_type": "gemma4_text",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "head_dim": 16,
    "global_head_dim": 32,
    "attention_k_eq_v": True,
    "intermediate_size": 96,
    "enable_moe_block": True,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "final_logit_softcapping": 30.0,
    "layer_types": ["sliding_attention", "full_attention"],
    "vocab_size": 1000,
    "max_position_embeddings": 32,
}


@pytest.mark.parametrize(
    ("layer", "queries", "keys", "width"),
    [(0, 4, 2, 16), (1, 4, 1, 32)],  # full attention: rows for values too, though keys are taken for them
)
def test_a_sparse_layer_of_gemma_4(layer, queries, keys, width):
    """Megatron Bridge, `gemma4_block_spec`: seven norms, two of heads, a router with two scales, and a shared expert."""
    model = as_megatron(read_model(GEMMA_4))
    attention = (queries + 2 * keys + queries) * width * 64 + 2 * width
    experts = 8 * 3 * 32 * 64 + 3 * 96 * 64 + 8 * 64 + 64 + 8
    found = list(model.network.kinds)[layer]
    assert sum(product(weight.shape, model.sizes) for weight in found.weights()) == attention + experts + 7 * 64
    assert model.network.embedding_and_head.embedding_scaled
    assert model.network.embedding_and_head.head_softcap
