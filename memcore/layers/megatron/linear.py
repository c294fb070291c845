"""Linear layers: TransformerEngine's, and Megatron-Core's own, with what tensor-parallel ranks exchange.

Sources: TransformerEngine, transformer_engine/pytorch/module/{linear,layernorm_linear,base}.py; Megatron-LM,
core/tensor_parallel/{layers,mappings}.py. Under sequence parallelism a rank has a part of the tokens between layers:
products with sharded matrices gather them and scatter what they return.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.eager.autograd import Gradient, attach, save, tracked
from memcore.eager.basics import new, only, view
from memcore.eager.tensor import Parameter, Tensor
from memcore.model.weights import Linear, Norm
from memcore.step.megatron import MegatronPlan
from memcore.symbols import Shape, split_over, whole

Weights = Mapping[str, Parameter]


def gathered(x: Tensor) -> Tensor:
    """All ranks' tokens in one tensor."""
    return new(x.tape, (whole(x.shape[0]), *x.shape[1:]), x.dtype, "megatron_all_gather")


def scattered(x: Tensor) -> Tensor:
    """This rank's tokens of a sum over ranks."""
    return new(x.tape, (split_over(x.shape[0]), *x.shape[1:]), x.dtype, "megatron_reduce_scatter")


def clear(x: Tensor) -> None:
    """`clear_tensor_data`: the memory goes, unless something else refers to it."""
    x.storage = None


def parameters(weights: Weights, part: Linear) -> tuple[Parameter, Parameter | None]:
    """A linear layer's matrix and bias."""
    return weights[f"{part.name}.weight"], weights.get(f"{part.name}.bias")


def _result(x: Tensor, weight: Parameter, shape: Shape | None = None) -> Tensor:
    """The product; x ends in the axes that the matrix sums over."""
    rows = (shape or x.shape)[: len(x.shape) - len(weight.inner)]
    return new(x.tape, (*rows, *weight.outer), x.dtype, "linear")


def _weight_gradients(x: Tensor, weight: Parameter, bias: Parameter | None, how: MegatronPlan) -> list[Gradient]:
    """None where the product adds to the main gradient itself."""
    tape = x.tape
    learns = weight.requires_grad and not how.fuses_weight_gradients
    found: list[Gradient] = [new(tape, weight.shape, x.dtype, "weight_gradient") if learns else None]
    if bias is not None:
        found.append(new(tape, bias.shape, x.dtype, "weight_gradient") if bias.requires_grad else None)
    return found


def norm_linear(
    x: Tensor, norm: Norm, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True
) -> Tensor:
    """`LayerNormLinear`, sharded by columns: keeps the norm's input, result and statistics.

    The tokens that the product gathers go at once, and are gathered again in the backward pass.
    """
    tape, shards = x.tape, how.sequence and part.split == "outer"
    weight, bias = parameters(weights, part)
    bias = bias if biased else None
    affine = [weights[each.name] for each in norm.weights()]
    inputs = [x, *affine, weight, *([] if bias is None else [bias])]
    saved = save(tape, x) if tracked(*inputs) else []
    normed = new(tape, x.shape, x.dtype, "layer_norm")
    statistics = [new(tape, x.shape[:-1], "fp32", "norm_statistics") for _ in range(1 + (norm.kind == "layer"))]
    total = gathered(normed) if shards else normed
    out = _result(total, weight)
    del total
    if tracked(*inputs):
        saved += save(tape, normed, *statistics)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            normed = saved[1]
            total = gathered(normed) if shards else normed
            full = new(tape, total.shape, total.dtype, "input_gradient")
            gradient = scattered(full) if shards else full
            made = _weight_gradients(total, weight, bias, how)
            del total
            clear(normed)
            found: list[Gradient] = [new(tape, x_shape, gradient.dtype, "layer_norm_backward")]
            found += [new(tape, each.shape, gradient.dtype, "layer_norm_backward") for each in affine]
            del gradient, full
            return [*found, *made]

        x_shape = x.shape
        attach([out], inputs, saved, apply)
    return out


def linear(x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True) -> Tensor:
    """TransformerEngine's `Linear`: sharded by columns, by rows, or on every rank; keeps its input."""
    tape = x.tape
    gathers, sums = how.sequence and part.split == "outer", how.sequence and part.split == "inner"
    weight, bias = parameters(weights, part)
    bias = bias if biased else None
    inputs = [weight, x, *([] if bias is None else [bias])]
    needs = tracked(*inputs)
    saved = save(tape, x) if needs else []
    total = gathered(x) if gathers else x
    out = _result(total, weight)
    del total
    if sums:
        out = scattered(out)
    if needs:
        x_shape, x_needs = x.shape, tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = gathered(only(gradients)) if sums else only(gradients)
            total = gathered(saved[0]) if gathers else saved[0]
            result = None
            if x_needs:
                full = new(tape, total.shape, gradient.dtype, "input_gradient")
                result = scattered(full) if gathers else view(full, x_shape)
            matrix, *rest = _weight_gradients(total, weight, bias, how)
            return [matrix, result, *rest]

        attach([out], inputs, saved, apply)
    return out


def local_linear(
    x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True, owner: Parameter | None = None
) -> Tensor:
    """`LinearWithGradAccumulationAndAsyncCommunication`: gathers into a buffer that all layers share and that stays.

    `owner`: the parameter, where the layer is given another module's.
    """
    tape, gathers = x.tape, how.sequence and part.split == "outer"
    weight, bias = (owner, None) if owner is not None else parameters(weights, part)
    bias = bias if biased else None
    inputs = [x, weight, *([] if bias is None else [bias])]
    needs = tracked(*inputs)
    saved = save(tape, x) if needs else []
    shape = (whole(x.shape[0]), *x.shape[1:]) if gathers else x.shape
    out = _result(x, weight, shape)
    if needs:
        x_shape, x_needs = x.shape, tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            full = new(tape, shape, only(gradients).dtype, "input_gradient") if x_needs else None
            result = full if full is None else scattered(full) if gathers else view(full, x_shape)
            return [result, *_weight_gradients(saved[0], weight, bias, how)]

        attach([out], inputs, saved, apply)
    return out


def local_row_linear(x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True) -> Tensor:
    """`RowParallelLinear`: the sum over ranks is a node of its own."""
    out = local_linear(x, part, weights, how, biased=biased)
    return sum_to_parts(out) if how.sequence else out


def sum_to_parts(x: Tensor) -> Tensor:
    """`reduce_scatter_to_sequence_parallel_region`."""
    out = scattered(x)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [gathered(only(g))])
    return out


def parts_to_all(x: Tensor) -> Tensor:
    """`gather_from_sequence_parallel_region`."""
    out = gathered(x)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [scattered(only(g))])
    return out


def part_of(x: Tensor, axis: int = 0) -> Tensor:
    """`scatter_to_sequence_parallel_region`: a view of this rank's tokens; the gradient is gathered."""
    out = view(x, (*x.shape[:axis], split_over(x.shape[axis]), *x.shape[axis + 1 :]), x.order)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [gathered(only(g))])
    return out
