"""Fine-grained activation offloading of Megatron-Core: what leaves the GPU, when it is back, and what the host holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memcore import estimate
from memcore.errors import ConfigError
from memcore.tensors.tensor import Tape

LAYERS, TOKENS, HIDDEN = 8, 4096, 1024
TENSOR = 2 * TOKENS * HIDDEN
"""Bytes of one activation of all tokens, in bf16: four times the smallest tensor that leaves."""
JOB = {
    "model": {
        "model_type": "megatron",
        "architecture": "gpt",
        "num_layers": LAYERS,
        "hidden_size": HIDDEN,
        "num_attention_heads": 16,
        "max_position_embeddings": TOKENS,
        "vocab_size": 1024,
    },
    "training": {"sequence_length": TOKENS, "attention": "cudnn", "dropout": {"hidden": 0, "attention": 0}},
    "engine": {"type": "megatron"},
}
EXPERTS = {
    "num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 2048, "swiglu": True, "disable_bias_linear": True,
}  # fmt: skip


def offloading(*modules, model=None, training=None, **engine):
    """The job with some modules offloaded."""
    more = {"fine_grained_activation_offloading": True, "offload_modules": list(modules)} if modules else {}
    return {
        **JOB,
        "model": {**JOB["model"], **(model or {})},
        "training": {**JOB["training"], **(training or {})},
        "engine": {**JOB["engine"], **more, **engine},
    }


def forward_end(job):
    """Bytes when the forward pass through the layers is over, and bytes on the host."""
    rank = estimate(job).ranks[0]
    last = [moment for moment in rank.moments if moment.phase == "forward"][-1]
    return last.end, sum(entry.bytes for entry in rank.host)


@pytest.mark.parametrize(
    ("modules", "model", "left", "hosted"),
    [
        # Queries, keys and values leave; the core's result stays, as the projection keeps it too.
        (["core_attn"], {}, 3, 4),
        # It leaves with the core and once more with the projection, whose input it is.
        (["core_attn", "attn_proj"], {}, 4, 5),
        # The norm's result leaves; its input is the residual, which the layer has until it ends: both are on the host.
        (["qkv_linear"], {}, 2, 2),
        # Two rows for each token, each a hidden state: the first product's input.
        (["expert_fc1"], {**EXPERTS}, 2, 2),
        # The first product's result, gate and up projection: rows of twice 2048.
        (["moe_act"], {**EXPERTS}, 8, 8),
        # The residual, which the norm has kept.
        (["mlp_norm"], {**EXPERTS}, 1, 1),
    ],
)
def test_what_leaves(modules, model, left, hosted):
    """Of every layer but the last one, in activations of all tokens; the host has room for all of them."""
    engine = {"moe_grouped_gemm": True}
    end, nothing = forward_end(offloading(model=model, **engine))
    after, host = forward_end(offloading(*modules, model=model, **engine))
    assert nothing == 0
    assert (end - after) / TENSOR == (LAYERS - 1) * left
    assert host / TENSOR == LAYERS * hosted


def test_what_is_freed_by_force_is_freed_once():
    """Its memory goes when it leaves for the host, and not again with the last reference; nothing remembers it."""
    tape = Tape()
    tape.enter("forward", "a layer")
    storage = tape.allocate(("s",), "bf16", "empty")
    storage.release()
    assert tape.events == [0, ~0]
    nowhere = storage._tape
    del storage
    assert tape.events == [0, ~0]
    assert nowhere.events == []


def test_small_tensors_stay():
    """Tensors of fewer elements than asked for are not touched."""
    plain = forward_end(offloading())
    assert forward_end(offloading("core_attn", min_offloaded_tensor_size=TOKENS * HIDDEN + 1)) == plain
    assert forward_end(offloading("core_attn", min_offloaded_tensor_size=TOKENS * HIDDEN)) < plain


def test_earlier_stages_have_everything_on_the_host():
    """Micro-batches whose backward pass is not next keep no group, not even the last one."""
    stages = {"parallelism": {"pipeline_parallel_size": 2}}
    accumulated = {"gradient_accumulation_steps": 8}
    plain = estimate({**offloading(training=accumulated), **stages}).ranks[0]
    found = estimate({**offloading("core_attn", training=accumulated), **stages}).ranks[0]
    last = [[moment for moment in rank.moments if moment.phase == "forward"][-1].end for rank in (plain, found)]
    # Two micro-batches of four layers: all of the second's groups are gone; of the first's the last one is back, as
    # copies of what it had kept, the core's result among them, which the projection keeps on the GPU as well.
    assert (last[0] - last[1]) / TENSOR == 2 * 4 * 3 - 4
    assert sum(entry.bytes for entry in found.host) == 2 * 4 * 4 * TENSOR


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"modules": ["attn_proj"]}, "without 'core_attn'"),
        ({"modules": ["mlp"]}, "found 'mlp'"),
        ({"modules": ["core_attn"], "training": {"implementation": "megatron-local"}}, "transformer-engine"),
        ({"modules": ["core_attn"], "training": {"activation_checkpointing": "full"}}, "full recomputation"),
        ({"modules": [], "engine": {"offload_modules": ["core_attn"]}}, "needs engine.fine_grained"),
        ({"modules": ["core_attn"], "model": {"architecture": "bert"}}, "BERT and T5"),
    ],
)
def test_contradictions_are_named(changes, match):
    """As Megatron's own configuration refuses them."""
    given = dict(changes)
    with pytest.raises(ConfigError, match=match):
        estimate(offloading(*given.pop("modules"), **given.pop("engine", {}), **given))


@settings(max_examples=10, deadline=None)
@given(
    modules=st.sets(st.sampled_from(["attn_norm", "qkv_linear", "core_attn", "mlp_norm", "expert_fc1", "moe_act"]), min_size=1),
    stages=st.sampled_from([1, 2]),
    recompute=st.sampled_from([[], ["layernorm"], ["moe_act", "mla_up_proj"]]),
    latent=st.booleans(),
)  # fmt: skip
def test_nothing_is_lost(modules, stages, recompute, latent):
    """After a step everything is free again, and every peak is the sum of its ledger."""
    model = {**EXPERTS, **({"multi_latent_attention": True, "kv_lora_rank": 512} if latent else {})}
    training = {"gradient_accumulation_steps": 4}
    if recompute:
        training["activation_checkpointing"] = {"policy": "selective", "modules": recompute}
    job = {
        **offloading(*modules, model=model, training=training, moe_grouped_gemm=True),
        "parallelism": {"pipeline_parallel_size": stages},
    }
    ranks = estimate(job).ranks
    assert len(ranks) == stages
    for rank in ranks:
        assert all(recorded.moments[-1].end == 0 for recorded in rank.recorded)
        assert sum(entry.bytes for entry in rank.ledger(rank.peak).entries) == rank.peak.peak
