"""Small jobs computed by hand, byte for byte: what these tests spell out is what the package knows about a step."""

import pytest

from memcore import estimate
from memcore.trace.program import aligned

B, S, H, A, K, D, F, V = 2, 256, 64, 4, 2, 16, 192, 1024
T = B * S
LLAMA = {
    "model_type": "llama",
    "hidden_size": H,
    "num_hidden_layers": 6,
    "num_attention_heads": A,
    "num_key_value_heads": K,
    "intermediate_size": F,
    "vocab_size": V,
    "max_position_embeddings": 4096,
}
MATRICES = {"q": A * D * H, "k": K * D * H, "v": K * D * H, "o": H * A * D, "gate": F * H, "up": F * H, "down": H * F}


def job(*, layers=6, engine="none", gpus=1, **training):
    """A tiny Llama in bf16 with plain settings."""
    settings = {"sequence_length": S, "micro_batch_size": B, "precision": "bf16", "optimizer": "adamw", **training}
    return estimate(
        {
            "model": {**LLAMA, "num_hidden_layers": layers},
            "training": settings,
            "engine": {"type": engine},
            "hardware": {"num_gpus": gpus, "accelerator": "a100-sxm-80gb"},
        }
    )


def layer_bytes(itemsize, shards=1):
    """A layer's parameters as blocks of the caching allocator: its matrices and two norms."""
    rows = {"q": A * D, "k": K * D, "v": K * D, "o": H, "gate": F, "up": F, "down": H}
    matrices = sum(
        aligned(-(-rows[name] // shards) * (size // rows[name]) * itemsize) for name, size in MATRICES.items()
    )
    return matrices + 2 * aligned(-(-H // shards) * itemsize)


def model_bytes(itemsize, layers=6, shards=1):
    """All parameters: embedding, layers, final norm and head."""
    ends = 2 * aligned(-(-V // shards) * H * itemsize) + aligned(-(-H // shards) * itemsize)
    return layers * layer_bytes(itemsize, shards) + ends


TENSORS = 6 * 9 + 3


def test_parameters_after_init():
    """Before the first step there are the parameters, rounded up to 512 B each, and two tables of rotary frequencies."""
    assert job().rank.after_init == model_bytes(2) + 2 * 512


@pytest.mark.parametrize(
    ("optimizer", "copies", "counts"),
    [
        ({"name": "adamw", "implementation": "fused"}, 2, TENSORS * 512),
        ({"name": "adamw", "implementation": "foreach"}, 2, 0),
        ({"name": "sgd"}, 0, 0),
        ({"name": "sgd", "momentum": 0.9}, 1, 0),
    ],
    ids=str,
)
def test_optimizer_states(optimizer, copies, counts):
    """Adam keeps two tensors like each parameter, SGD none or one; fused Adam also a step count for each on the GPU."""
    assert job(optimizer=optimizer).rank.persistent.states == copies * model_bytes(2) + counts


@pytest.mark.parametrize(
    ("implementation", "extra"),
    [
        ("fused", 0),
        ("foreach", model_bytes(2)),  # the square roots of all second moments at once
        # Root and denominator of the head, and the denominator of the norm before it, whose variable is still there.
        ("for-loop", 2 * aligned(V * H * 2) + aligned(H * 2)),
    ],
)
def test_the_optimizer_step(implementation, extra):
    """The step happens on top of parameters, states and gradients; how it is computed decides what else it needs."""
    found = job(optimizer={"name": "adamw", "implementation": implementation})
    keeps = found.rank.persistent
    assert found.rank.peak_of("optimizer_step") == keeps.before_step + model_bytes(2) + extra


def saved_by_a_layer():
    """What one bf16 Llama layer of transformers keeps for its backward pass with flash attention."""
    norm = 4 * T * H + 4 * T + 2 * T * H  # its input in fp32, the reciprocal roots, the result before the weight
    attention_input = 2 * T * H  # once for queries, keys and values together
    heads = 2 * T * A * D + 2 * 2 * T * K * D  # queries, keys, values as the kernel sees them
    kernel = 2 * T * A * D + 4 * B * A * S + 2 * 512  # its result, log-sum-exp, and two random states
    feed_forward_input = 2 * T * H
    feed_forward = 4 * 2 * T * F  # gate, its activation, up, and their product
    return 2 * norm + attention_input + heads + kernel + feed_forward_input + feed_forward


def kept_at_the_loss(found):
    """Activations that exist when the gradient of the loss is computed."""
    return found.ledger.by_category["activations"]


def test_activations_of_a_layer():
    """One more layer keeps exactly what its saved tensors hold."""
    assert kept_at_the_loss(job(layers=9)) - kept_at_the_loss(job(layers=8)) == saved_by_a_layer()


def test_checkpointing_keeps_the_input_of_a_layer():
    """With full checkpointing one more layer keeps its input, and the rest comes back in its backward pass."""
    more, fewer = (job(layers=n, activation_checkpointing="full") for n in (9, 8))
    assert kept_at_the_loss(more) - kept_at_the_loss(fewer) == 2 * T * H
    moment = max((m for m in more.moments if m.phase == "backward"), key=lambda m: m.peak)
    recomputed = more.rank.ledger(moment).by_category["recomputation"]
    assert saved_by_a_layer() - T * H * 8 <= recomputed <= saved_by_a_layer() + T * H * 8


@pytest.mark.parametrize(
    ("loss", "bytes_per_logit"),
    [
        ("cross-entropy-fp32", 4 + 4 + 4),  # log-probabilities, their gradient, the gradient of the logits
        ("cross-entropy", 2 + 2 + 2),
    ],
)
def test_the_loss(loss, bytes_per_logit):
    """At the peak of the loss there are three tensors of logits; the logits themselves are gone."""
    found = job(loss=loss)
    assert found.peak.phase == "loss"
    logits = [entry for entry in found.ledger.of("logits and loss") if "V" in entry.shape]
    assert sum(entry.bytes for entry in logits) == bytes_per_logit * T * V


def test_kept_outputs_keep_the_logits():
    """A trainer that holds on to the model's outputs holds the bf16 logits through the backward pass."""
    assert job(outputs_kept=True).peak.peak - job().peak.peak == 2 * T * V


def test_math_attention_is_quadratic():
    """Eager attention keeps the weights in bf16 and in fp32, and the mask is as large as one head's scores."""
    eager, flash = (job(layers=n, attention=a) for n, a in ((9, "math"), (9, "flash")))
    fewer = job(layers=8, attention="math"), job(layers=8, attention="flash")
    difference = (kept_at_the_loss(eager) - kept_at_the_loss(fewer[0])) - (
        kept_at_the_loss(flash) - kept_at_the_loss(fewer[1])
    )
    weights = (4 + 2) * B * A * S * S
    repeated = 2 * 2 * T * (A - K) * D  # keys and values once for every query head instead of once for every key head
    kernel = 4 * B * A * S + 2 * 512  # flash attention's statistics
    assert difference == weights + repeated - kernel


def test_ddp_adds_flat_buckets():
    """DDP holds one flat copy of all gradients, whatever the number of ranks."""
    alone, shared = job(), job(engine="ddp", gpus=4)
    total = sum(MATRICES.values()) * 6 + (2 * 6 + 1) * H + 2 * V * H
    assert shared.rank.after_init - alone.rank.after_init == aligned(2 * total)
    assert shared.peak.peak == job(engine="ddp", gpus=64).peak.peak


def test_ddp_with_bucket_views_adds_nothing_at_the_end():
    """As views of the buckets gradients need no memory of their own, so the buckets take their place."""
    config = job(engine="ddp", gpus=4).job.config
    views = estimate(config.replaced("engine.gradient_as_bucket_view", True))
    alone = job()
    gradients = alone.rank.end_of_backward - alone.rank.persistent.before_step
    assert views.rank.end_of_backward - alone.rank.end_of_backward < gradients * 0.05


def fsdp(gpus=4, **training):
    """The same model under FSDP with fp32 shards, computed in bf16."""
    return job(engine="fsdp", gpus=gpus, precision="bf16-mixed", **training)


def test_fsdp_shards_parameters_and_states():
    """Each rank keeps rows of every parameter in fp32, rounded up, and as much twice for Adam."""
    found = fsdp(optimizer={"name": "adamw", "implementation": "foreach"})
    assert found.rank.persistent.parameters == model_bytes(4, shards=4)
    assert found.rank.persistent.states == 2 * model_bytes(4, shards=4)


def test_fsdp_gradients_are_sharded_when_the_backward_pass_ends():
    """What is left is one rank's part of each unit's gradients in fp32, in one flat block for each unit."""
    found = fsdp(layers=6)
    unit = (sum(MATRICES.values()) + 2 * H) // 4 * 4
    root = (2 * V * H + H) // 4 * 4
    assert found.rank.end_of_backward - found.rank.persistent.before_step == 6 * aligned(unit) + aligned(root)


def test_fsdp_gathers_the_root_and_one_layer_ahead():
    """In the forward pass the root is gathered, and a layer's copied-out parameters beside the flat all-gather."""
    found = fsdp(layers=6)
    moment = next(m for m in found.moments if m.phase == "forward" and m.repeats > 1)
    gathered = found.rank.ledger(moment).of("communication")
    root = sum(e.bytes for e in gathered if e.rule == "unsharded_parameter" and not e.module.startswith("model.layers"))
    layer = sum(e.bytes for e in gathered if e.rule == "unsharded_parameter" and e.module.startswith("model.layers"))
    assert root == 2 * aligned(2 * V * H) + aligned(2 * H)
    assert layer == layer_bytes(2)


def test_hybrid_sharding_shards_less():
    """With shard groups of two, parameters and states are divided by two, not by four."""
    config = fsdp().job.config.replaced("parallelism.data_parallel_shard_size", 2)
    assert estimate(config).rank.persistent.parameters == model_bytes(4, shards=2)


def test_cpu_offload_leaves_no_states_on_the_gpu():
    """Shards, gradients and optimizer live on the host; between steps only buffers and workspaces stay."""
    found = estimate(fsdp().job.config.replaced("engine.cpu_offload", True))
    keeps = found.rank.persistent
    assert keeps.before_step == keeps.buffers + keeps.workspaces
    assert found.rank.end_of_backward == keeps.before_step


def test_gradient_accumulation_meets_gradients():
    """From the second micro-batch on the gradients are there during the forward pass and the loss."""
    once, often = job(), job(gradient_accumulation_steps=4)
    assert often.peak.peak - once.peak.peak == model_bytes(2)
    assert often.peak.peak == job(gradient_accumulation_steps=16).peak.peak


def test_kept_gradients_meet_every_micro_batch():
    """With zero_grad(set_to_none=False) gradients are there in every later step, but not in the first."""
    kept = job(zero_grad="keep")
    assert kept.peak.peak - job().peak.peak == model_bytes(2)
    assert kept.rank.first_step == job().rank.first_step
    assert kept.rank.between_steps - job().rank.between_steps == model_bytes(2)


def test_the_first_step_has_no_states_until_its_end():
    """Out of memory at step two: the first step misses the optimizer's states while the loss peaks."""
    found = job(optimizer={"name": "adamw", "implementation": "fused"})
    assert found.peak.peak - found.rank.first_step == found.rank.persistent.states


def test_autocast_keeps_fp32_and_casts():
    """fp32 parameters under autocast: 4-byte states, and a cached bf16 copy of every matrix in the forward pass."""
    found = job(precision="bf16-autocast")
    assert found.rank.persistent.parameters == model_bytes(4)
    moment = next(m for m in found.moments if m.place == "head and loss")
    casts = [e for e in found.rank.ledger(moment).entries if e.rule == "to" and e.module.endswith("_proj")]
    weights = sum(e.bytes for e in casts if set(e.shape) & {"f", "a", "k"} and "s" not in e.shape)
    assert weights == 6 * sum(aligned(2 * size) for size in MATRICES.values())


def test_workspaces_are_for_two_threads():
    """cuBLAS takes a workspace in the thread of the forward pass and in that of the backward pass (8320 KiB on A100)."""
    assert job().rank.persistent.workspaces == 2 * (8320 * 1024 + 2**20)
