"""Routed experts and the expert that sees every token.

Source: Megatron-LM, core/transformer/moe/{moe_layer,experts,shared_experts}.py; TransformerEngine,
transformer_engine/pytorch/module/grouped_linear.py.
"""

from __future__ import annotations

from memcore.networks.parts import Experts
from memcore.symbols import Shape
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import cat, like, new, only, to
from memcore.tensors.operations import ACTIVATIONS, add, mul
from memcore.tensors.operations import linear as plain_linear
from memcore.tensors.running import clamp
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.adapters import adapted_rows
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.dispatch import DISPATCHERS, ROWS
from memcore.trainers.megatron.layers.feed_forward import feed_forward
from memcore.trainers.megatron.layers.fused import COMPILED, halves
from memcore.trainers.megatron.layers.graphs import leave
from memcore.trainers.megatron.layers.linear import Weights, linear, lowered, lowered_gradient
from memcore.trainers.megatron.layers.offloading import opened
from memcore.trainers.megatron.layers.recompute import discarded, recomputes, run_again
from memcore.trainers.megatron.layers.routing import route
from memcore.trainers.megatron.step_plan import Experts as Plan
from memcore.trainers.megatron.step_plan import MegatronPlan


def experts(x: Tensor, part: Experts, weights: Weights, around: LayerContext) -> Tensor:
    """`MoELayer.forward`."""
    plan = around.how.experts
    if plan is None:
        raise TypeError(around.how)

    def forward(x: Tensor) -> Tensor:
        return _layer(x, part, weights, around, plan)

    return run_again(forward, x) if recomputes(around.how, "moe") else forward(x)


def _layer(x: Tensor, part: Experts, weights: Weights, around: LayerContext, plan: Plan) -> Tensor:
    with x.tape.module(part.module):
        shared = shared_result(x, part, weights, around)
        with x.tape.module("router"):
            probabilities, routed = route(x, weights[f"{part.router.name}.weight"], part, plan)

        if around.how.graphs is not None and "moe_router" in around.how.graphs.modules:
            x, probabilities, routed = (leave(each) for each in (x, probabilities, routed))
            shared = shared if shared is None else leave(shared)

        def run(rows: Tensor, scale: Tensor) -> Tensor:
            return run_rows(rows, scale, part, weights, around, plan)

        x = linear(x, part.latent[0], weights, around.how) if part.latent else x
        out = DISPATCHERS[plan.dispatcher](x, probabilities, routed, part, plan, run)
        del x, probabilities, routed
        out = linear(out, part.latent[1], weights, around.how) if part.latent else out
        return out if shared is None else add(out, shared)


def shared_result(x: Tensor, part: Experts, weights: Weights, around: LayerContext) -> Tensor | None:
    """Return what the expert that sees every token makes of them, if there is one."""
    shared = part.shared
    if shared is None:
        return None

    def forward(x: Tensor) -> Tensor:
        out, _ = feed_forward(x, shared, None, weights, around)
        return out

    out = run_again(forward, x) if recomputes(around.how, "shared_experts") else forward(x)
    if part.shared_gate is not None:
        out = mul(out, sigmoid(plain_linear(x, weights[f"{part.shared_gate.name}.weight"])))
    return out


def run_rows(rows: Tensor, scale: Tensor, part: Experts, weights: Weights, around: LayerContext, plan: Plan) -> Tensor:
    """Return two products with the matrices of each row's expert; the weights are applied between them."""
    how, offloads = around.how, around.offloads if plan.grouped else None
    up, down = (weights[each.name] for each in part.experts if each.name.endswith("weight"))
    adapters = {each.name.rpartition(".lora_")[0]: _matrices(part, each.name, weights) for each in part.adapters}

    def product(x: Tensor, weight: Parameter) -> Tensor:
        out = _product(x, weight, how, plan)
        matrices = adapters.get(weight.name.removesuffix(".weight"))
        return out if matrices is None else adapted_rows(out, x, _rows(x), matrices, how)

    with rows.tape.module("experts"):
        first, between = opened(offloads, "expert_fc1"), opened(offloads, "moe_act")
        rows = first.start(rows)
        with first:
            y = product(rows, up)
        first.commit(rows)
        y = between.start(y)

        def act(y: Tensor, scale: Tensor) -> Tensor:
            return _activated(y, scale, part, how, plan)

        def finish(y: Tensor) -> Tensor:
            return product(y, down)

        if recomputes(how, "moe_act"):
            out = discarded(act, finish, y, scale, within=between)
        else:
            with between:
                acted = act(y, scale)
            out = finish(acted)
            del acted
        between.commit(y)
        del y
        bias = next((each.name for each in part.experts if each.name.endswith("linear_fc2.bias")), None)
        out = _biased(out, weights[bias], scale) if bias is not None and plan.grouped else out
        return out if plan.grouped else cat([out], out.shape)  # the experts' results one after the other


def _biased(x: Tensor, bias: Parameter, scale: Tensor) -> Tensor:
    """`TEGroupedMLP._apply_bias`: each expert's rows with its bias times their weights, then all of them together."""
    tape, dtype = x.tape, "fp32" if scale.dtype == "fp32" else x.dtype
    added = like(x, "add", dtype)
    if tracked(x, bias, scale):
        before, shape, own = x.dtype, scale.shape, scale.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            weights = new(tape, shape, own, "sum_to_size")
            matrix = new(tape, bias.shape, bias.dtype, "sum_to_size") if bias.requires_grad else None
            return [to(like(only(gradients), "cat"), before), matrix, weights]

        attach([added], [x, bias, scale], save(tape, bias, scale), apply)
    out = cat([added], added.shape)
    del added
    return to(out, x.dtype)


def _product(x: Tensor, weight: Parameter, how: MegatronPlan, plan: Plan) -> Tensor:
    """`GroupedLinear`, or one expert after the other: keeps its input."""
    tape = x.tape
    rows, width = _rows(x), weight.shape[1:-1]
    inner = weight.shape[-1:]
    if tuple(x.shape[len(rows) :]) != inner and x.shape[-1] != inner[-1]:
        raise TypeError((x.shape, weight.shape))
    out = new(tape, (*rows, *width), x.dtype, "grouped_mm")
    if tracked(x, weight):
        shape, x_needs = x.shape, tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = only(gradients).dtype
            quantized = lowered_gradient(only(gradients), how)
            gradient = new(tape, shape, dtype, "input_gradient") if x_needs else None
            learns = weight.requires_grad and not how.fuses_weight_gradients
            each = weight.shape if plan.grouped else weight.shape[1:]
            matrix = new(tape, each, dtype, "weight_gradient") if learns else None
            if matrix is not None and not plan.grouped:
                # Each expert's gradient is added to the buffer before the next one's exists.
                matrix = Tensor(tape, matrix.storage, weight.shape, dtype)
            del quantized
            return [gradient, matrix]

        original = how.fp8 is not None and weight.name.endswith("linear_fc2.weight") and recomputes(how, "moe_act")
        kept = x if original else lowered(x, None, how)
        attach([out], [x, weight], save(tape, kept) if weight.requires_grad else [], apply)
    return out


def _rows(x: Tensor) -> Shape:
    """Return the axes of x that a product leaves."""
    return x.shape[: 1 if x.shape[0] == ROWS else len(x.shape) - 1]


def _matrices(part: Experts, name: str, weights: Weights) -> tuple[Parameter, Parameter]:
    """Both matrices of the adapter that one of them belongs to."""
    layer = name.rpartition(".lora_")[0]
    first, second = (weights[each.name] for each in part.adapters if each.name.startswith(f"{layer}.lora_"))
    return first, second


def _activated(x: Tensor, scale: Tensor, part: Experts, how: MegatronPlan, plan: Plan) -> Tensor:
    """The activation times each row's weight, in one kernel for SwiGLU and where that of squared ReLU was asked for."""
    x = _clamped(x) if "clamped" in part.options else x
    if part.gated and part.activation == "silu" and how.gate_fusion:
        return _weighted(x, (*x.shape[:-2], x.shape[-1]), scale)
    if part.activation == "relu2" and not part.gated and plan.squared_relu_fusion:
        return _weighted(x, x.shape, scale)
    act = COMPILED.get(part.activation, ACTIVATIONS[part.activation])
    if part.gated:
        gate, up = halves(x)
        y = mul(act(gate), up)
    else:
        y = act(x)
    return to(scaled(y, scale), x.dtype)


def _clamped(x: Tensor) -> Tensor:
    """`weighted_bias_quick_geglu_impl`: both halves, clamped, next to each other in another tensor."""
    gate, up = halves(x)
    return cat([clamp(gate, bounds=1), clamp(up)], x.shape)


def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """Rows times their weights: keeps both; in fp32 where the weights are."""
    tape, dtype = x.tape, "fp32" if scale.dtype == "fp32" else x.dtype
    out = like(x, "mul", dtype)
    if tracked(x, scale):
        before, shape, own = x.dtype, scale.shape, scale.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            product = like(only(gradients), "mul_backward")
            weights = new(tape, shape, own, "sum_to_size")
            del product
            return [to(like(only(gradients), "mul_backward"), before), weights]

        attach([out], [x, scale], save(tape, x, scale), apply)
    return out


def _weighted(x: Tensor, shape: Shape, scale: Tensor) -> Tensor:
    """`WeightedSwiGLUFunction`, `WeightedSquaredReLUFunction`: keep what the activation is given, and the weights."""
    tape = x.tape
    out = new(tape, shape, x.dtype, "fused_activation")
    if tracked(x, scale):
        own, dtype = scale.shape, scale.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [like(saved[0], "fused_activation_backward"), new(tape, own, dtype, "sum_to_size")]

        attach([out], [x, scale], save(tape, x, scale), apply)
    return out
