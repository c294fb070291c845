"""Liger's kernels: what a layer keeps for each token, worked out from what each kernel saves."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import UnsupportedError

H, F, A, K, D = 1024, 2816, 16, 4, 64
MODEL = {
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": F,
    "num_attention_heads": A,
    "num_key_value_heads": K,
    "vocab_size": 4096,
}
TOKENS = 1024


def kept(implementation, layers):
    """Bytes at the end of the forward pass."""
    training = {"sequence_length": TOKENS, "precision": "bf16", "implementation": implementation}
    rank = memcore.estimate({"model": {**MODEL, "num_hidden_layers": layers}, "training": training}).ranks[0]
    return rank.end_of_forward - rank.persistent.before_step


@pytest.mark.parametrize(
    ("implementation", "each"),
    [
        ("transformers", 16 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 8 * F),
        ("liger", 8 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 6 * F),
    ],
)
def test_what_a_layer_keeps(implementation, each):
    """A norm its input and its result instead of three more; the gate and the product instead of a result between."""
    assert (kept(implementation, 6) - kept(implementation, 5)) / TOKENS == pytest.approx(each, rel=1e-3)


def test_families_that_liger_does_not_patch():
    """Its kernels need Llama's kind of layer."""
    with pytest.raises(UnsupportedError, match="Liger's kernels need"):
        memcore.estimate({"model": "gpt2", "training": {"implementation": "liger"}})


def test_a_compiled_chunked_loss_upcasts_nothing():
    """torchtune compiles chunks of the loss, which keep logits in bf16 instead of log-probabilities in fp32."""
    peaks = []
    for framework in ("torchtune", "transformers"):
        training = {"sequence_length": TOKENS, "precision": "bf16", "loss": "chunked:8", "compile": True}
        engine = {"type": "none", "framework": framework}
        config = {"model": {**MODEL, "num_hidden_layers": 2}, "training": training, "engine": engine}
        peaks.append(memcore.estimate(config).ranks[0].end_of_forward)
    assert peaks[1] - peaks[0] == pytest.approx(2 * 4096 * TOKENS, rel=0.01)
