"""DeepSeek-V4's compressors: one key for several tokens, and the indexer that chooses among compressed keys.

Source: `models/deepseek_v4`; local variables live as long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.angles import half_table
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotations import rotate_half
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Norm
from memcore.symbols import Axis, Quotient, Shifted, Smaller
from memcore.tensors.arithmetic import total
from memcore.tensors.basics import autocast, cat, like, narrow, new, permute, to, view
from memcore.tensors.indexing import topk
from memcore.tensors.operations import add, linear, matmul, mul, relu, scale, softmax
from memcore.tensors.reshaping import select
from memcore.tensors.running import masked_fill
from memcore.tensors.slices import expand, reshape, squeeze, unsqueeze, write
from memcore.tensors.tensor import Tape, Tensor


def heavily(
    hidden_states: Tensor, q_residual: Tensor, weights: Weights, part: SpecialMixer, context: Context
) -> tuple[Tensor, Tensor]:
    """`DeepseekV4HCACompressor`: compressed keys, and a bias that hides those of the future."""
    tape, name = hidden_states.tape, f"{part.module}.compressor"
    rate, windows = _rate(part)
    with tape.module("compressor"):
        kv = project_to(hidden_states, weights, f"{name}.kv_proj")
        gate = project_to(hidden_states, weights, f"{name}.gate_proj")
        chunk_kv = _windowed(kv, rate, windows)
        chunk_gate = add(_windowed(gate, rate, windows), weights[f"{name}.position_bias"])
        compressed = _normed(_pooled(chunk_kv, chunk_gate), weights, name)
        compressed, *_tables = _placed(compressed)
        compressed_kv = unsqueeze(compressed, 1)
        entry_indices = new(tape, (windows,), "int64", "position_ids")
        causal_threshold = _threshold(tape)
        block_bias = new(tape, ("b", 1, "s", windows), compressed_kv.dtype, "zeros")
        block_bias = masked_fill(block_bias, new(tape, (1, 1, "s", windows), "bool", "attention_mask"))
        del entry_indices, causal_threshold
        return compressed_kv, block_bias


def sparsely(
    hidden_states: Tensor, q_residual: Tensor, weights: Weights, part: SpecialMixer, context: Context
) -> tuple[Tensor, Tensor]:
    """`DeepseekV4CSACompressor`: overlapping windows, and a bias that hides what the indexer does not choose."""
    tape, name = hidden_states.tape, f"{part.module}.compressor"
    rate, windows = _rate(part)
    with tape.module("compressor"):
        compressed, *_kept = _overlapping(hidden_states, weights, name, rate, windows)
        compressed_kv = unsqueeze(compressed, 1)
        top_k_indices = _indexer(hidden_states, q_residual, weights, f"{name}.indexer", rate, windows)
        valid = like(top_k_indices, "attention_mask", "bool")
        safe_indices = _safe(valid, top_k_indices)
        block_bias = new(tape, ("b", 1, "s", Shifted(windows, 1, 1)), compressed_kv.dtype, "attention_bias")
        del safe_indices
        return compressed_kv, narrow(block_bias, 3, windows)


COMPRESSORS = {False: heavily, True: sparsely}
"""By whether an indexer chooses."""


def project_to(x: Tensor, weights: Weights, name: str) -> Tensor:
    """Return a linear layer, by name."""
    with x.tape.module(name.rpartition(".")[2]):
        return linear(x, weights[f"{name}.weight"])


def rotate_tail(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the last elements of (b, heads, s, d), pairs of neighbours, in fp32."""
    cos = like_pairs(cos)
    sin = like_pairs(sin)
    nope, rope = narrow(x, 3, Shifted(x.shape[3], -1, "r")), narrow(x, 3, "r")
    rotated = to(add(mul(to(rope, "fp32"), cos), mul(to(rotate_half(rope), "fp32"), sin)), x.dtype)
    return cat([nope, rotated], x.shape)


def like_pairs(table: Tensor) -> Tensor:
    """Each angle for both of a pair."""
    return new(table.tape, (*table.shape[:-1], "r"), table.dtype, "rotary")


def _rate(part: SpecialMixer) -> tuple[Axis, Axis]:
    """Return tokens that become one, and how many such windows there are."""
    bias = next(weight for weight in part.parameters if weight.name.endswith("compressor.position_bias"))
    rate = bias.axes[0][0]
    return rate, Quotient(("s",), rate)


def _windowed(x: Tensor, rate: Axis, windows: Axis) -> Tensor:
    """Return tokens by window; a slice of all of them comes first."""
    return reshape(x, (x.shape[0], windows, rate, *x.shape[2:]))


def _pooled(chunk_kv: Tensor, chunk_gate: Tensor) -> Tensor:
    """Return a window's tokens, weighted by their gates."""
    return total(mul(chunk_kv, to(softmax(chunk_gate, "fp32"), chunk_kv.dtype)), 2)


def _normed(x: Tensor, weights: Weights, name: str) -> Tensor:
    return norm(x, weights, Norm(f"{name}.kv_norm", "rms-after"))


def _placed(compressed: Tensor) -> tuple[Tensor, ...]:
    """Compressed keys, rotated to the places of their windows, and what the module holds besides."""
    tape, (batch, windows, _) = compressed.tape, compressed.shape
    positions = new(tape, (windows,), "int64", "position_ids")
    positions = like(like(positions, "position_ids"), "position_ids")
    cos, sin = half_table(tape, compressed.dtype, "r", (batch, windows))
    rotated = squeeze(rotate_tail(unsqueeze(compressed, 1), _for_all_heads(cos), _for_all_heads(sin)), 1)
    return rotated, positions, cos, sin


def _for_all_heads(table: Tensor) -> Tensor:
    return view(table, (table.shape[0], 1, *table.shape[1:]))


def _overlapping(hidden_states: Tensor, weights: Weights, name: str, rate: Axis, windows: Axis) -> tuple[Tensor, ...]:
    """Return keys compressed from a window and the one before it, and what is kept with them."""
    tape = hidden_states.tape
    kv = project_to(hidden_states, weights, f"{name}.kv_proj")
    gate = project_to(hidden_states, weights, f"{name}.gate_proj")
    chunk_kv = _windowed(kv, rate, windows)
    chunk_gate = add(_windowed(gate, rate, windows), weights[f"{name}.position_bias"])
    shape = (*chunk_kv.shape[:2], Shifted(rate, 1, rate), chunk_kv.shape[4])
    new_kv = new(tape, shape, chunk_kv.dtype, "zeros")
    new_gate = new(tape, shape, chunk_gate.dtype, "zeros")
    write(new_kv, select(chunk_kv, 3))
    write(new_gate, select(chunk_gate, 3))
    write(new_kv, _before(chunk_kv))
    write(new_gate, _before(chunk_gate))
    compressed = _normed(_pooled(new_kv, new_gate), weights, name)
    return *_placed(compressed), kv, gate, chunk_gate, new_kv, new_gate


def _before(chunks: Tensor) -> Tensor:
    """Return what each window has of the one before it."""
    return select(narrow(chunks, 1, Shifted(chunks.shape[1], -1, 1)), 3)


def _threshold(tape: Tape) -> Tensor:
    """Return how many compressed keys each query may see."""
    return like(new(tape, (1, "s"), "int64", "position_ids"), "position_ids")


def _indexer(
    hidden_states: Tensor, q_residual: Tensor, weights: Weights, name: str, rate: Axis, windows: Axis
) -> Tensor:
    """`DeepseekV4Indexer`: the compressed keys with the highest scores. Nothing learns from what it chooses."""
    tape = hidden_states.tape
    with tape.module("indexer"):
        compressed_kv, *_kept = _overlapping(hidden_states, weights, name, rate, windows)
        cos_q, sin_q = half_table(tape, hidden_states.dtype, "r")
        q = permute(project_to(q_residual, weights, f"{name}.q_b_proj"), 0, 2, 1, 3)
        q = permute(rotate_tail(q, cos_q, sin_q), 0, 2, 1, 3)
        index_scores = _scores(q, compressed_kv, hidden_states, weights, f"{name}.scorer")
        causal_threshold = _threshold(tape)
        entry_indices = new(tape, (windows,), "int64", "position_ids")
        future_mask = new(tape, (1, "s", windows), "bool", "attention_mask")
        index_scores = masked_fill(index_scores, future_mask)
        top_k_indices = _chosen(index_scores, windows)
        invalid = like(top_k_indices, "attention_mask", "bool")
        del causal_threshold, entry_indices
        return _safe(invalid, top_k_indices)


def _scores(q: Tensor, compressed_kv: Tensor, hidden_states: Tensor, weights: Weights, name: str) -> Tensor:
    """`DeepseekV4IndexerScorer`: keys are copied for every query."""
    with q.tape.module("scorer"):
        scores = _products(q, compressed_kv)
        scores = scale(relu(scores))
        token_weights = scale(to(project_to(hidden_states, weights, f"{name}.weights_proj"), "fp32"))
        return total(mul(scores, unsqueeze(token_weights, 3)), 2)


def _products(q: Tensor, compressed_kv: Tensor) -> Tensor:
    q, keys = to(q, "fp32"), unsqueeze(to(permute(compressed_kv, 0, 2, 1), "fp32"), 1)
    return matmul(q, expand(autocast(keys), 1, "s"))


def _chosen(index_scores: Tensor, windows: Axis) -> Tensor:
    _values, indices = topk(index_scores, Smaller("ti", windows))
    return indices


def _safe(condition: Tensor, indices: Tensor) -> Tensor:
    """Indices with a number in place of some."""
    others = like(indices, "attention_mask")
    out = like(indices, "attention_mask")
    del others
    return out
