"""Megatron-DeepSpeed's GPT: Megatron-LM's modules of 2023, FlashAttention on packed rows, Ulysses. Tensors: (s, b, …).

Source: Megatron-DeepSpeed, megatron/model/{gpt_model,language_model,transformer,rotary_pos_embedding}.py,
megatron/core/tensor_parallel/{layers,cross_entropy}.py, megatron/core/sequence_parallel/cross_entropy.py and
pretrain_gpt.py; apex, normalization/fused_layer_norm.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from memcore.config.engine import EngineSettings
from memcore.errors import UnsupportedError
from memcore.layers.ulysses import WHOLE, local_heads, to_heads, to_tokens
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, Experts, FeedForward
from memcore.records import dataclass
from memcore.symbols import split_over
from memcore.tensors.attention import Heads, repeat_kv
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only, permute, to, view
from memcore.tensors.operations import add, mul
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.code import LayerCode
from memcore.trace.recipe import Buffer
from memcore.trace.step import Batch, Slot, Step
from memcore.trace.ulysses import Ulysses
from memcore.trainers.megatron.layers.attention import heads_of, rotated_half
from memcore.trainers.megatron.layers.core_attention import Core, local
from memcore.trainers.megatron.layers.embedding import embedded
from memcore.trainers.megatron.layers.fused import bias_dropout_add, bias_gelu, norm, spelled_out
from memcore.trainers.megatron.layers.heads import mean_of, plan
from memcore.trainers.megatron.layers.linear import Weights, local_linear, local_row_linear
from memcore.trainers.megatron.layers.losses import reduced
from memcore.trainers.megatron.layers.recompute import recomputes, run_again
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.megatron_deepspeed.experts import experts
from memcore.trainers.nanotron.layers import varlen_attention


@dataclass(frozen=True, slots=True)
class LayerContext:
    """What every layer is given besides its input."""

    how: MegatronPlan
    kernel: str
    angles: tuple[Tensor, ...]
    """Cosines and sines of all positions."""
    mask: Tensor | None
    ulysses: Ulysses | None


def check(network: Network) -> None:
    """Refuse networks whose layers are not supported yet.

    Raises UnsupportedError.
    """
    for layer in network.kinds:
        if not (isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, FeedForward | Experts)):
            message = "'megatron-deepspeed' is supported only for multi-head attention and feed-forward layers"
            raise UnsupportedError(EngineSettings.type, message)
        if isinstance(layer.feed_forward, Experts) and not _is_plain(layer.feed_forward):
            message = "'megatron-deepspeed' supports only softmax routing, without groups, biases or shared experts"
            raise UnsupportedError(EngineSettings.type, message)
        if layer.mixer.query_norm is not None or layer.mixer.mask != "full":
            message = "'megatron-deepspeed' has no query and key norms and no sliding windows"
            raise UnsupportedError(EngineSettings.type, message)


def _is_plain(ffn: Experts) -> bool:
    """Return whether `deepspeed.moe` can express experts."""
    more = ffn.shared, ffn.shared_gate, ffn.groups, ffn.correction, ffn.table, ffn.latent, ffn.routing
    biased = any(weight.name.endswith("bias") for weight in ffn.experts)
    return not any(more) and not biased and ffn.options == {"softmax-scores"} and not ffn.adapters


def buffers(network: Network) -> Sequence[Buffer]:
    """Cosines and sines, which a module caches in the layers' dtype from the first use on."""
    mixer = next(layer.mixer for layer in network.kinds)
    if not isinstance(mixer, Attention) or mixer.rotary == "none":
        return []
    shape = (WHOLE, mixer.heads.rotated)
    return [Buffer(rule="rotary_table", module="rotary_pos_emb", shape=shape, dtype="bf16") for _ in range(2)]


def forward(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the loss of one micro-batch, or on an earlier stage its hidden states."""
    recipe, tape, how = step.recipe, step.tape, plan(step)
    embedding_and_head = recipe.network.embedding_and_head
    loss_mask = new(tape, ("b" if embedding_and_head.predicts else 0, WHOLE), "fp32", "inputs")
    positions = new(tape, ("b" if embedding_and_head.reads_tokens else 0, WHOLE), "int64", "inputs")
    wide = _angles(step)
    angles = tuple(to(each, recipe.precision.compute) for each in wide)
    around = LayerContext(how, recipe.attention, angles, _mask(step), recipe.ulysses)
    x = step.enter("root", batch.tokens)
    if embedding_and_head.reads_tokens:
        # A rank is given its part of the tokens, and sums nothing over ranks but words.
        tokens, places = (view(each, ("b", split_over("s") if how.sequence else "s")) for each in (x, positions))
        x = step.enter("embedding", tokens)
        x = step.leave(
            "embedding", embedded(tokens, places, embedding_and_head, step.weights, replace(how, sequence=False))
        )
        step.embedded(x)

    def run(slot: Slot, x: Tensor) -> Tensor:
        return _layer(x, slot.layer, slot.weights, around)

    x = step.layers(step.slots, run, x)
    step.after_layers()
    if not embedding_and_head.predicts:
        return step.leave("root", x), None
    x = step.enter("head", x)
    if embedding_and_head.final_norm is not None:
        x = norm(x, embedding_and_head.final_norm, step.weights, _norm_backward)
    del wide
    step.loss_begins(x)
    losses = _losses(step, x, batch.labels, how)
    loss = step.leave("head", mean_of(losses, loss_mask))
    return step.leave("root", loss), None


def _angles(step: Step) -> list[Tensor]:
    """Cosines and sines in fp32, which are there while the layers run."""
    mixer = next(layer.mixer for layer in step.recipe.network.kinds)
    if not isinstance(mixer, Attention) or mixer.rotary == "none":
        return []
    shape = (WHOLE, 1, 1, mixer.heads.rotated)
    return [new(step.tape, shape, "fp32", "rotary") for _ in range(2)]


def _mask(step: Step) -> Tensor | None:
    """`get_ltor_masks_and_position_ids`: a triangle in fp32, then which pairs of tokens are hidden."""
    if step.recipe.attention != "math":
        return None
    shape = (1, 1, WHOLE, WHOLE)
    ones = new(step.tape, shape, "fp32", "causal_mask")
    triangle = like(ones, "causal_mask")
    del ones
    hidden = like(triangle, "causal_mask", "bool")
    del triangle
    return hidden


def _layer(hidden_states: Tensor, layer: Layer, weights: Weights, around: LayerContext) -> Tensor:
    """`ParallelTransformerLayer.forward`."""
    ffn = layer.feed_forward
    if not (isinstance(layer.mixer, Attention) and isinstance(ffn, FeedForward | Experts)):
        raise TypeError(layer)
    layernorm_output = norm(hidden_states, layer.norms[0], weights, _norm_backward)
    attention_output, attention_bias = _attention(layernorm_output, layer.mixer, weights, around)
    layernorm_input = bias_dropout_add(attention_output, attention_bias, hidden_states, layer.dropout)
    layernorm_output = norm(layernorm_input, layer.norms[1], weights, _norm_backward)
    mlp_output, mlp_bias = _ffn(layernorm_output, ffn, weights, around.how)
    del layernorm_output
    return bias_dropout_add(mlp_output, mlp_bias, layernorm_input, layer.dropout)


def _norm_backward(gradients: list[Gradient], saved: list[Tensor], affine: list[Parameter]) -> list[Gradient]:
    """apex's fused norms: gradients of parameters have the parameters' dtype."""
    found: list[Gradient] = [like(saved[0], "layer_norm_backward")]
    return found + [new(saved[0].tape, each.shape, each.dtype, "layer_norm_backward") for each in affine]


def _attention(x: Tensor, part: Attention, weights: Weights, around: LayerContext) -> tuple[Tensor, Parameter | None]:
    """`ParallelAttention.forward`; the fused result lives until it ends."""
    how, own = around.how, heads_of(part)
    with x.tape.module(part.module):
        mixed_x_layer = local_linear(x, part.inputs[0], weights, how)
        query_layer, key_layer, value_layer = _slices(mixed_x_layer, part)
        key_layer, value_layer = repeat_kv(key_layer, own, 2), repeat_kv(value_layer, own, 2)
        own = own.repeated()
        if around.ulysses is None:
            query_layer, key_layer = (_turned(each, around.angles) for each in (query_layer, key_layer))
        if around.kernel == "math":
            core = Core(how, own, part.dropout, around.mask, packed=False)
            run = partial(_core, core)
            if recomputes(how, "core_attn"):
                run = partial(run_again, run)
            context_layer = run(query_layer, key_layer, value_layer)
        else:
            states = (contiguous(permute(each, 1, 0, 2, 3)) for each in (query_layer, key_layer, value_layer))
            query_layer, key_layer, value_layer = states
            if around.ulysses is None:
                context_layer = varlen_attention(query_layer, key_layer, value_layer)
            else:
                context_layer = _distributed(query_layer, key_layer, value_layer, own, around)
            context_layer = contiguous(permute(context_layer, 1, 0, 2, 3))
        bias = weights.get(f"{part.output.name}.bias")
        return local_row_linear(context_layer, part.output, weights, how, biased=False), bias


def _core(core: Core, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`CoreAttention.forward`."""
    return local(query, key, value, core)


def _distributed(query: Tensor, key: Tensor, value: Tensor, heads: Heads, around: LayerContext) -> Tensor:
    """`DistributedAttention.forward`: queries and keys are turned once the whole sequence is there."""
    own = local_heads(heads, around.ulysses or Ulysses())
    query_layer, key_layer, value_layer = (to_heads(each, own.query) for each in (query, key, value))
    turns = tuple(view(each, (1, each.shape[0], 1, each.shape[3])) for each in around.angles)
    query_layer, key_layer = _turned(query_layer, turns), _turned(key_layer, turns)
    context_layer = varlen_attention(query_layer, key_layer, value_layer)
    return to_tokens(context_layer, query.shape[1], heads.query)


def _slices(mixed: Tensor, part: Attention) -> list[Tensor]:
    """Return all queries, all keys, all values; each gradient is written into zeros of the full size."""
    tape, full, heads = mixed.tape, mixed.shape, part.heads
    found = []
    for count in (heads.query, heads.key, heads.key):
        out = view(mixed, (*full[:2], count, heads.width), cut=2)
        if tracked(mixed):
            attach([out], [mixed], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
        found.append(out)
    return found


def _turned(x: Tensor, angles: tuple[Tensor, ...]) -> Tensor:
    """`apply_rotary_pos_emb`, spelled out."""
    if not angles:
        return x
    return add(mul(x, angles[0]), mul(rotated_half(x), angles[1]))


def _ffn(
    x: Tensor, part: FeedForward | Experts, weights: Weights, how: MegatronPlan
) -> tuple[Tensor, Parameter | None]:
    if isinstance(part, FeedForward):
        return _mlp(x, part, weights, how)
    if how.experts is None:
        raise TypeError(how)
    return experts(x, part, weights, how.experts), None


def _mlp(x: Tensor, part: FeedForward, weights: Weights, how: MegatronPlan) -> tuple[Tensor, Parameter | None]:
    """`ParallelMLP.forward`: only GELU and its bias are one kernel."""
    with x.tape.module(part.module):
        intermediate_parallel = local_linear(x, part.up, weights, how, biased=False)
        bias = weights.get(f"{part.up.name}.bias")
        if part.activation == "gelu" and bias is not None and not part.fused:
            intermediate_parallel = bias_gelu(intermediate_parallel, bias)
        else:
            intermediate_parallel = spelled_out(intermediate_parallel, bias, part.activation, gated=part.fused)
        out = local_row_linear(intermediate_parallel, part.down, weights, how, biased=False)
        return out, weights.get(f"{part.down.name}.bias")


def _losses(step: Step, x: Tensor, labels: Tensor, how: MegatronPlan) -> Tensor:
    """`post_language_model_processing`: the logits, and their copy in fp32, are there while the loss is computed."""
    with x.tape.at("output_layer"):
        output = local_linear(x, step.recipe.network.embedding_and_head.head, step.weights, how)
    with output.tape.at("loss"):
        targets = contiguous(permute(labels, 1, 0))
        upcast = to(output, "fp32")
        cross_entropy = _sequence_cross_entropy if step.recipe.ulysses is not None else _vocabulary_cross_entropy
        return contiguous(permute(cross_entropy(upcast, targets), 1, 0))


def _vocabulary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """`_VocabParallelCrossEntropy`: the largest logit is subtracted in a new tensor, which becomes the gradient."""
    tape = logits.tape
    with tape.no_grad():
        probabilities = like(logits, "sub")
        outside, inside, loss = reduced(probabilities, labels)
    if tracked(logits):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            update, places = like(only(gradients), "masked_indices"), like(saved[2], "arange")
            del update, places
            return [saved[0]]

        attach([loss], [logits], save(tape, probabilities, outside, inside), apply)
    return loss


def _sequence_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """`_VocabSequenceParallelCrossEntropy`: probabilities, and for a moment their logarithms; losses of all tokens."""
    tape, rows = logits.tape, logits.shape[:2]
    with tape.no_grad():
        softmax = like(logits, "softmax")
        logarithms = like(softmax, "log")
        loss = new(tape, rows, "fp32", "nll_loss")
        del logarithms
        every = new(tape, (WHOLE, rows[1]), "fp32", "all_gather_output")
        del loss
    if tracked(logits):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            places = like(saved[1], "arange")
            chosen = [new(tape, rows, "fp32", "gather") for _ in range(2)]
            del places, chosen
            return [saved[0]]

        attach([every], [logits], save(tape, softmax, labels), apply)
    return every


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "megatron-deepspeed": LayerCode(
        name="megatron-deepspeed",
        title="Megatron-DeepSpeed's layers",
        forward=forward,
        check=check,
        has_sdpa=lambda network: False,
        kernels=lambda network: ("flash", "math"),
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=buffers,
    ),
}
"""By the value of `training.implementation`."""
