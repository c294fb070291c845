"""nanotron's Llama, line by line: sequences first, fused matrices, FlashAttention on packed rows, a loss in fp32.

Source: huggingface/nanotron, models/llama.py and nn/layer_norm.py; flash-attn, ops/triton/layer_norm.py,
layers/rotary.py (rotations in place) and flash_attn_interface.py (FlashAttnVarlenFunc).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.layers.transformers.context import Weights, leaf
from memcore.layers.transformers.norms import norm
from memcore.networks.network import EmbeddingAndHead, Network
from memcore.networks.parts import Attention
from memcore.symbols import half
from memcore.tensors.autograd import Gradient, attach, save
from memcore.tensors.basics import cat, clone, contiguous, new, only, permute, split, to, unmerged, view
from memcore.tensors.slices import unsqueeze
from memcore.tensors.tensor import Tensor
from memcore.trace.code import LayerCode
from memcore.trace.recipe import Buffer
from memcore.trace.step import Batch, Slot, Step
from memcore.trainers.nanotron.engine import plan_of
from memcore.trainers.nanotron.packed_layers import packed_attention
from memcore.trainers.nanotron.parallel import column_linear, embedded, masked_mean, row_linear, sharded_cross_entropy
from memcore.trainers.nanotron.shared_layers import decoder_layer, rms_norm, rotated, workspaces
from memcore.trainers.nanotron.step_plan import NanotronPlan


def check(network: Network) -> None:
    """Networks are converted before, and refused there."""


def buffers(network: Network) -> Sequence[Buffer]:
    """Each layer's rotary module caches cosines and sines in the compute dtype."""
    return [
        Buffer(
            rule="rotary_table",
            module=f"{network.path}.*.attn.flash_rotary_embedding",
            shape=("s", half("d")),
            dtype="bf16",
            layer=layer,
        )
        for layer in network.kinds
        if getattr(layer.mixer, "rotary", "none") != "none"
        for _ in range(2)
    ]


def forward(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the loss of one micro-batch; of a pipeline's stage, what it sends to the next."""
    embedding_and_head = step.recipe.network.embedding_and_head
    received = embedding_and_head.finish in ("cast", "loss", "cast loss")
    sharded_logits = batch.tokens if received else _model(step, batch.tokens)
    if embedding_and_head.finish == "cast":
        return to(sharded_logits, "fp32"), None
    if embedding_and_head.finish == "logits" or not (embedding_and_head.predicts or received):
        return sharded_logits, None
    if received:
        step.loss_begins(sharded_logits)
        sharded_logits = to(sharded_logits, "fp32")
    labels, swapped = batch.labels, (batch.labels.shape[1], batch.labels.shape[0])
    packed = plan_of(step.recipe).packed
    label_ids = view(labels, swapped) if packed else new(step.tape, swapped, "int64", "clone")
    loss = sharded_cross_entropy(sharded_logits, label_ids)
    return masked_mean(loss, step.tape), None


def _model(step: Step, tokens: Tensor) -> Tensor:
    """`forward_with_hidden_states`: fp32 logits, of a stage without the loss those of the head or hidden states."""
    embedding_and_head, plan = step.recipe.network.embedding_and_head, plan_of(step.recipe)
    hidden_states = step.enter("root", tokens)
    if embedding_and_head.reads_tokens:
        hidden_states = _embed(step, hidden_states, embedding_and_head, plan)

    def run(slot: Slot, x: Tensor) -> Tensor:
        kinds = (norm, packed_attention) if plan.packed else (rms_norm, _attention)
        return decoder_layer(x, slot.weights, slot.layer, plan, *kinds)

    for slot in step.slots:
        hidden_states = step.layer(slot, run, hidden_states)
    step.after_layers()
    if embedding_and_head.final_norm is not None:
        hidden_states = rms_norm(hidden_states, step.weights, embedding_and_head.final_norm)
    if not embedding_and_head.predicts:
        return hidden_states
    step.loss_begins(hidden_states)
    with step.tape.module(embedding_and_head.head.name):
        sharded_logits = column_linear(hidden_states, step.weights[f"{embedding_and_head.head.name}.weight"], plan)
    if plan.packed or embedding_and_head.finish == "logits":
        return sharded_logits
    return to(sharded_logits, "fp32")


def _embed(step: Step, tokens: Tensor, embedding_and_head: EmbeddingAndHead, plan: NanotronPlan) -> Tensor:
    with step.tape.at(embedding_and_head.embedding.name.removesuffix(".weight")):
        input_ids = view(tokens, (tokens.shape[1], tokens.shape[0])) if plan.packed else permute(tokens, 1, 0)
        found = embedded(input_ids, step.weights[embedding_and_head.embedding.name], plan)
        step.embedded(found)
        return found


def _attention(x: Tensor, weights: Weights, part: Attention, plan: NanotronPlan) -> Tensor:
    with x.tape.module(part.module):
        with x.tape.module(leaf(part.inputs[0].name)):
            qkv_states = column_linear(x, weights[f"{part.inputs[0].name}.weight"], plan)
        states = _grouped(qkv_states, part) if part.grouped else _query_key_value(qkv_states)
        attention_output = _forward_training(*states)
        del states
        with x.tape.module(leaf(part.output.name)):
            return row_linear(attention_output, weights[f"{part.output.name}.weight"], plan)


def _query_key_value(qkv_states: Tensor) -> list[Tensor]:
    """Queries, keys and values as parts of one copy (3, b, s, a, d)."""
    states = contiguous(permute(unmerged(qkv_states, 2), 2, 1, 0, 3, 4))
    return split(states, states.shape[1:])


def _grouped(qkv_states: Tensor, part: Attention) -> list[Tensor]:
    """Return a copy (b, s, heads, d) each."""
    heads = part.heads
    counts = (heads.query, heads.key, heads.key)
    tokens, batch = qkv_states.shape[:2]
    tape, full, dtype = qkv_states.tape, qkv_states.shape, qkv_states.dtype
    parts = [view(qkv_states, (tokens, batch, count, heads.width), cut=2) for count in counts]
    attach(parts, [qkv_states], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return [contiguous(permute(each, 1, 0, 2, 3)) for each in parts]


def _forward_training(query_states: Tensor, key_states: Tensor, value_states: Tensor) -> Tensor:
    """Rotations are in place: of queries in what they are a part of, of keys in a copy with the values."""
    rows = key_states.shape
    key_value_states = cat([unsqueeze(key_states, 0), unsqueeze(value_states, 0)], (2, *rows))
    key_value_states = contiguous(permute(key_value_states, 1, 2, 0, 3, 4))
    query_states = rotated(query_states)
    key_states, value_states = _halves(rotated(key_value_states))
    del key_value_states
    attention_output = varlen_attention(query_states, key_states, value_states)
    return permute(unmerged(attention_output, 2), 1, 0, 2, 3)


def _halves(x: Tensor) -> list[Tensor]:
    """Keys and values as slices; their gradients are put together in one."""
    tape, full, dtype = x.tape, x.shape, x.dtype
    shape = (*full[:2], *full[3:])
    parts = [view(x, shape, cut=2) for _ in range(2)]
    attach(parts, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return parts


def varlen_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`FlashAttnVarlenFunc` on rows of all sequences; keeps q, k, v, its result and a number for each row."""
    tape = query.tape
    lengths = [new(tape, ("b",), "int32", "sequence_lengths") for _ in range(2)]
    saved = save(tape, query, key, value)
    out = new(tape, query.shape, query.dtype, "flash_attention")
    logsumexp = new(tape, query.shape[:3], "fp32", "logsumexp")
    state = new(tape, (2,), "int64", "random_state")
    saved += save(tape, out, logsumexp, *lengths, state)
    del logsumexp, state, lengths
    shared = key.shape != query.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        if not only(gradients).mergeable(0, 2):
            gradients[0] = clone(only(gradients))
        return _gradients(saved, shared=shared)

    attach([out], [query, key, value], saved, apply)
    return out


def _gradients(saved: list[Tensor], *, shared: bool) -> list[Gradient]:
    """Gradients in fresh tensors; fp32 workspaces have 128 rows more for a sequence (flash_api.cpp, mha_varlen_bwd)."""
    query, key, value = saved[:3]
    tape = query.tape
    found: list[Gradient] = [new(tape, each.shape, each.dtype, "attention_backward") for each in (query, key, value)]
    workspaces(query, shared=shared)
    return found


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "nanotron": LayerCode(
        name="nanotron",
        title="nanotron",
        forward=forward,
        check=check,
        has_sdpa=lambda network: False,
        kernels=lambda network: ("flash",),
        computes_loss=False,
        has_cache=False,
        default_wrap="layer",
        buffers=buffers,
    ),
}
"""By the value of `training.implementation`."""
