"""Where DeepSeek-V4's residual streams begin and end (`DeepseekV4Model`, `DeepseekV4HyperHead`)."""

from __future__ import annotations

from memcore.layers.transformers.angles import half_table
from memcore.layers.transformers.embeddings import LayerInputs, arange, embed
from memcore.layers.transformers.hyper import collapsed_streams
from memcore.layers.transformers.masks import mask_for
from memcore.layers.transformers.norms import unweighted_norm
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.basics import clone, to
from memcore.tensors.operations import add, add_scalar, linear, mul
from memcore.tensors.slices import expand, reshape, unsqueeze
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step


def start_streams(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """The embeddings once for each stream, one mask for all layers, and tables for compressed and for other layers."""
    tape = step.tape
    inputs_embeds = embed(step, batch.tokens)
    position_ids = arange(step)
    causal_mask = mask_for(step, batch, inputs_embeds.dtype, "sliding")
    hidden_states = clone(expand(unsqueeze(inputs_embeds, 2), 2, "hc"))
    main = half_table(tape, inputs_embeds.dtype, "r")
    compress = half_table(tape, inputs_embeds.dtype, "r")
    masks = {"full": causal_mask, "sliding": causal_mask}
    return hidden_states, LayerInputs(position_ids, masks, {"main": (*compress, *main)}, kept=(inputs_embeds,))


def end_streams(step: Step, x: Tensor, start: LayerInputs) -> Tensor:
    """`DeepseekV4HyperHead`: the streams become one."""
    weights, name = step.weights, "model.hc_head.hc"
    with x.tape.module("hc_head"):
        flat = unweighted_norm(to(reshape(x, x.shape), "fp32"), "input_norm", axes=2)
        mixes = linear(flat, to(weights[f"{name}_fn"], "fp32"))
        scale, base = weights[f"{name}_scale"], weights[f"{name}_base"]
        pre = add_scalar(sigmoid(add(mul(mixes, to(scale, "fp32")), to(base, "fp32"))))
        return collapsed_streams(pre, x)
