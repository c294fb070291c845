"""Qwen3-VL's vision transformer of Megatron-Core's layers, as Megatron Bridge has it.

Sources: Megatron-Bridge, models/qwen_vl/modelling_qwen3_vl/{vision_model,transformer_block,attention,rope,utils}.py and
transformer_config.py (`get_vision_model_config`): no sequence parallelism, no FP8, no fused weight gradients, biases or
activations; tensor-parallel ranks share matrices. Images lie one after the other in one row, (patches, 1, …).
"""

from __future__ import annotations

from dataclasses import replace

from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Quotient
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import contiguous, new, only, permute, to
from memcore.tensors.images import convolution, divided, rejoined, viewed
from memcore.tensors.operations import ACTIVATIONS, add, embedding, mul
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trace.step import Slot, Step
from memcore.trainers.megatron.layers.attention import LayerContext, heads_of, heads_split, projected, rotated
from memcore.trainers.megatron.layers.core_attention import Core, cudnn, flash_kernel
from memcore.trainers.megatron.layers.feed_forward import feed_forward
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import Weights, linear, norm_linear
from memcore.trainers.megatron.layers.recompute import recomputes, run_again
from memcore.trainers.megatron.step_plan import MegatronPlan, Recompute

_ROOT = "model.visual"
_RULE = "vision_positions"


def plan_of_tower(how: MegatronPlan) -> MegatronPlan:
    """Return how its layers run, where the decoder's run so."""
    recompute = how.recompute
    if recompute is not None and recompute.granularity == "selective":
        recompute = Recompute(granularity="selective", modules=frozenset({"core_attn"}))
    return replace(
        how,
        sequence=False,
        context=None,
        recompute=recompute,
        fuses_weight_gradients=False,
        fp8=None,
        activation_fusion=False,
        gate_fusion=False,
        rope_fusion=False,
        offload=None,
        graphs=None,
    )


def qwen3_tower(step: Step, how: MegatronPlan, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
    """`Qwen3VLVisionModel.forward`: merged patches for the decoder, and for each of its first layers."""
    around = LayerContext(plan_of_tower(how), step.recipe.attention, False, None)
    with step.tape.at(_ROOT):
        step.begin("vision embedding")
        x = _patches(step, pixels)
        x = add(x, _positions(step))
        angles = _angles(step.tape)
        x = step.ended(viewed(x, ("nq", 1, "ht")), "vision embedding")
        x, deep = _layers(step, x, angles, around)
        step.begin("projector")
        x = _merged(step, x, "merger", around)
        return rejoined(divided(x, "cat"), ("mq", "h")), deep


def _layers(step: Step, x: Tensor, angles: Tensor, around: LayerContext) -> tuple[Tensor, list[Tensor]]:
    """Blocks; results of some are merged on their own, where blocks are recomputed in a checkpoint of their own."""
    last = len(step.recipe.network.towers[0].taps) - 1
    deep: list[Tensor] = []

    def run(slot: Slot, x: Tensor, angles: Tensor) -> Tensor:
        return _block(x, slot, angles, around)

    for number, slots in enumerate(step.towers[0]):
        x = step.layers(slots, run, x, angles)
        if number in step.recipe.network.towers[0].taps and len(deep) < last:
            step.begin("projector")
            name = f"deepstack_merger_list.{len(deep)}"

            def merged(x: Tensor, name: str = name) -> Tensor:
                return _merged(step, x, name, around, after=True)

            again = around.how.recompute is not None and around.how.recompute.granularity == "full"
            deep.append(step.ended(run_again(merged, x) if again else merged(x), "projector"))
    return x, deep


def _block(x: Tensor, slot: Slot, angles: Tensor, around: LayerContext) -> Tensor:
    """`TransformerLayer.forward`; what is added to the input is not fused, and there is no dropout."""
    mixer, ffn, (first, second) = slot.layer.mixer, slot.layer.feed_forward, slot.layer.norms
    if not isinstance(mixer, Attention) or not isinstance(ffn, FeedForward):
        raise TypeError(slot.layer)
    x = _added(x, *_attention(x, mixer, first, slot.weights, angles, around))
    return _added(x, *feed_forward(x, ffn, second, slot.weights, around))


def _added(x: Tensor, y: Tensor, bias: Parameter | None) -> Tensor:
    return add(x, y if bias is None else add(y, bias))


def _attention(
    x: Tensor, part: Attention, before: Norm, weights: Weights, angles: Tensor, around: LayerContext
) -> tuple[Tensor, Parameter | None]:
    """`Qwen3VLSelfAttention.forward`: heads are turned in fp32."""
    with x.tape.module(part.module):
        query, key, value = heads_split(norm_linear(x, before, part.inputs[0], weights, around.how), part)
        query, key = (
            to(rotated(to(each, "fp32"), part.heads.rotated, around.how, angles), each.dtype) for each in (query, key)
        )
        out = _core(query, key, value, part, around)
        del query, key, value
        return projected(out, part.output, weights, around), weights.get(f"{part.output.name}.bias")


def _core(query: Tensor, key: Tensor, value: Tensor, part: Attention, around: LayerContext) -> Tensor:
    """`TEDotProductAttention` over images of different lengths: kernels take rows as they lie."""
    given = Core(around.how, heads_of(part), 0.0, None, packed=False)
    with query.tape.module("core_attention"):
        query, key, value = (contiguous(each) for each in (query, key, value))

        def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            if around.kernel == "cudnn":
                return cudnn(query, key, value, given)
            query, key, value = (permute(each, 1, 2, 0, 3) for each in (query, key, value))
            return permute(flash_kernel(query, key, value, given), 2, 0, 1, 3)

        return run_again(run, query, key, value) if recomputes(around.how, "core_attn") else run(query, key, value)


def _merged(step: Step, x: Tensor, name: str, around: LayerContext, *, after: bool = False) -> Tensor:
    """`Qwen3VLVisionPatchMerger.forward`, with its norm before or after patches are put side by side."""
    module = f"{_ROOT}.{name}"
    width = "mt" if after else "ht"
    with step.tape.at(module):
        x = viewed(x, ("mq", "mt")) if after else x
        x = norm(x, Norm(f"{module}.norm", "layer", (width,), bias=True), step.weights)
        x = x if after else viewed(x, ("mq", "mt"))
        first, second = (Linear(f"{module}.linear_{each}", ("mt",), ("mt",), True) for each in ("fc1", "fc2"))
        x = linear(x, replace(first, split="outer"), step.weights, around.how)
        x = ACTIVATIONS["gelu"](x)
        return linear(x, replace(second, split="inner"), step.weights, around.how)


def _patches(step: Step, pixels: Tensor) -> Tensor:
    """`Qwen3VLVisionPatchEmbed.forward`."""
    name = f"{_ROOT}.patch_embed.proj"
    with step.tape.at(name):
        return convolution(pixels, step.weights[f"{name}.weight"], step.weights.get(f"{name}.bias"), ("nq",), 1)


def _positions(step: Step) -> Tensor:
    """`fast_pos_embed_interpolate`: four neighbours of each patch, weighted; indices and weights come from the host."""
    name = f"{_ROOT}.pos_embed"
    with step.tape.at(name):
        weight = step.weights[f"{name}.weight"]
        indices = new(step.tape, (4, "nq"), "int64", _RULE)
        weights = new(step.tape, (4, "nq", 1), weight.dtype, _RULE)
        return _in_merged_order(_summed(mul(embedding(indices, weight), weights)))


def _summed(x: Tensor) -> Tensor:
    """`x[0] + x[1] + x[2] + x[3]`: gradients of the parts are put into zeros, and added up one by one."""
    tape, full = x.tape, x.shape
    out = new(tape, full[1:], x.dtype, "add")
    for _ in range(2):
        out = new(tape, full[1:], x.dtype, "add")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        total = new(tape, full, only(gradients).dtype, "select_backward")
        for _ in range(3):
            part = new(tape, full, total.dtype, "select_backward")
            total = new(tape, full, total.dtype, "add")
            del part
        return [total]

    if tracked(x):
        attach([out], [x], [], apply)
    return out


def _in_merged_order(x: Tensor) -> Tensor:
    """Image by image repeated for each frame and put in the order of merged patches, then all of them together."""
    tape, shape = x.tape, x.shape
    repeated = new(tape, ("np", *shape[1:]), x.dtype, "repeat")
    permuted = new(tape, shape, x.dtype, "clone")
    del repeated
    out = new(tape, shape, x.dtype, "cat")
    del permuted

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        permuted = new(tape, shape, only(gradients).dtype, "clone")
        found = new(tape, shape, permuted.dtype, "cat")
        del permuted
        return [found]

    if tracked(x):
        attach([out], [x], [], apply)
    return out


def _angles(tape: Tape) -> Tensor:
    """`rot_pos_emb`: rows and columns of patches look up their angles, which stand twice for each head."""
    quarter = Quotient(("dt",), 4)
    table = new(tape, ("gp", quarter), "fp32", "rotary")
    places = new(tape, ("nq", 2), "int64", _RULE)
    found = new(tape, ("nq", 2, quarter), "fp32", "rotary")
    del table, places
    out = new(tape, ("nq", 1, 1, "dt"), "fp32", "repeat")
    del found
    return out
