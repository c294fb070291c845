"""CUDA graphs of Megatron-Core: their inputs, their pool, the capture, and what stays reserved."""

import pytest

from memcore import estimate
from memcore.errors import ConfigError
from memcore.trainers.megatron.captured import CAPTURE

LAYERS, TOKENS, HIDDEN, HEADS = 8, 1024, 512, 8
TENSOR = 2 * TOKENS * HIDDEN
"""Bytes of one activation of all tokens, in bf16."""
LAYER = 16 * TENSOR + 4 * 4 * TOKENS + 4 * HEADS * TOKENS + 512
"""What a layer keeps behind its input: both norms' results (2) and statistics, queries, keys and values (3), the core's
result (1), its logarithms and random state, the sum behind attention (1), the first product's result (4), its activation
(4), and the layer's result (1)."""
JOB = {
    "model": {
        "model_type": "megatron",
        "architecture": "gpt",
        "num_layers": LAYERS,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": TOKENS,
        "vocab_size": 1024,
    },
    "training": {
        "sequence_length": TOKENS,
        "attention": "cudnn",
        "dropout": {"hidden": 0, "attention": 0},
        "gradient_accumulation_steps": 8,
    },
    "engine": {"type": "megatron", "expandable_segments": True},
    "hardware": {"accelerator": "h100-sxm-80gb"},
}
EXPERTS = {"num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 512}


def job(impl=None, *modules, stages=1, model=None, training=None, **engine):
    """The job with graphs of some modules."""
    more = {} if impl is None else {"cuda_graph_impl": impl}
    more |= {"cuda_graph_modules": list(modules)} if modules else {}
    return {
        **JOB,
        "model": {**JOB["model"], **(model or {})},
        "training": {**JOB["training"], **(training or {})},
        "engine": {**JOB["engine"], **more, **engine},
        "parallelism": {"pipeline_parallel_size": stages},
    }


@pytest.mark.parametrize(("stages", "flying"), [(1, 8), (2, 8)])
def test_inputs_stay(stages, flying):
    """TransformerEngine's graphs have an input and a mask for each layer in flight; gradients of outputs are one."""
    plain, found = (estimate(job(impl, stages=stages)).ranks[0] for impl in (None, "transformer_engine"))
    assert found.between_steps - plain.between_steps == flying * (TENSOR + TOKENS**2) + TENSOR


@pytest.mark.parametrize(("stages", "flying"), [(1, 8), (2, 8)])
def test_the_pool_holds_everything_in_flight(stages, flying):
    """When the last forward pass has been captured it has all layers in flight."""
    rank = estimate(job("transformer_engine", stages=stages)).ranks[0]
    inside, outside = rank._pooled.recorded[0], rank._replaying.recorded[0]
    assert inside.kept * stages == flying * LAYER
    assert rank.pool > flying * LAYER
    if stages > 1:
        # Beside the graphs the first stage keeps tokens and labels: neither the data loader's mask nor its layers.
        assert outside.kept == 2 * 8 * TOKENS


def test_the_capture_is_a_moment():
    """It counts as allocated; afterwards the pool is free for PyTorch, and reserved."""
    rank = estimate(job("transformer_engine", cuda_graph_warmup_steps=0)).ranks[0]
    assert rank.moments[0].place == CAPTURE
    assert rank.moments[0].peak == rank.persistent.before_step - rank.persistent.states + rank.pool + sum(
        entry.bytes for entry in rank._inputs
    )
    assert sum(entry.bytes for entry in rank.ledger(rank.moments[0]).entries) == rank.moments[0].peak
    assert rank.reserved >= rank._replaying.peak.peak + rank.pool
    assert rank.most_reserved == max(rank.reserved, rank.moments[0].peak + rank.pool)


def test_steps_before_the_capture_are_like_any_other():
    """With steps before it the peak is at least that of a job without graphs."""
    plain, found = (estimate(job(impl)).ranks[0] for impl in (None, "transformer_engine"))
    assert found.peak.peak >= plain.peak.peak
    assert [moment.peak for moment in found.moments[1:]] == [moment.peak for moment in plain.moments]


def test_graphs_of_a_whole_step_double_it():
    """Pools of steps before and the graph's own stand beside each other."""
    plain, found = (estimate(job(impl)).ranks[0] for impl in (None, "full_iteration"))
    flying = max(moment.peak for moment in plain.moments if moment.segment is not None)
    assert found.pool == flying - plain.persistent.before_step
    assert found.reserved == plain.reserved + found.pool


@pytest.mark.parametrize("impl", ["local", "transformer_engine"])
@pytest.mark.parametrize("modules", [("attn",), ("attn", "moe_router", "moe_preprocess"), ("moe_router",)])
@pytest.mark.parametrize("stages", [1, 2])
def test_parts_of_a_layer(impl, modules, stages):
    """What is in graphs and what is not are together what a step keeps, with results that both know."""
    model = {**EXPERTS, "moe_layer_freq": [0] * 2 + [1] * 6}
    plain, found = (estimate(job(*each, stages=stages, model=model)).ranks[0] for each in ((), (impl, *modules)))
    inside, outside = found._pooled.recorded[0], found._replaying.recorded[0]
    assert inside.moments[-1].end == outside.moments[-1].end == 0
    both, whole = inside.kept + outside.kept, plain.recorded[0].kept
    assert 0 < inside.kept < whole
    assert whole - LAYERS * 2 * TENSOR <= both <= whole + LAYERS * 2 * TENSOR
    assert found.reserved > plain.peak.peak


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"impl": "transformer_engine", "modules": ["attention"]}, "found 'attention'"),
        ({"impl": "transformer_engine", "modules": ["moe_preprocess"]}, "without 'moe_router'"),
        ({"impl": None, "modules": ["attn"]}, "needs engine.cuda_graph_impl"),
        ({"impl": "full_iteration", "modules": ["attn"]}, "whole iteration takes no modules"),
        ({"impl": "local", "modules": [], "training": {"activation_checkpointing": "full"}}, "full recomputation"),
        ({"impl": "transformer_engine", "modules": [], "model": EXPERTS}, "moe_pad_expert_input_to_capacity"),
    ],
)
def test_contradictions_are_named(given, match):
    """As Megatron's own configuration refuses them."""
    more = dict(given)
    with pytest.raises(ConfigError, match=match):
        estimate(job(more.pop("impl"), *more.pop("modules"), **more))
