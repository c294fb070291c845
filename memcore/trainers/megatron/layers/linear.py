"""Linear layers: TransformerEngine's, and Megatron-Core's own, with what tensor-parallel ranks exchange.

Sources: TransformerEngine, transformer_engine/pytorch/module/{linear,layernorm_linear,base}.py; Megatron-LM,
core/tensor_parallel/{layers,mappings}.py. Under sequence parallelism a rank has a part of the tokens between layers:
products with sharded matrices gather them and scatter what they return.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.weights import Linear, Norm
from memcore.symbols import Shape, split_over, whole
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only, view
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.adapters import adapted
from memcore.trainers.megatron.step_plan import MegatronPlan

Weights = Mapping[str, Parameter]


def lowered(x: Tensor, part: Linear | None, how: MegatronPlan) -> Tensor:
    """What a product keeps of its input: in FP8 a quantized copy, but x itself where core attention keeps it anyway.

    Sources: TransformerEngine, pytorch/module/linear.py (`saved_inputmat`; rows and columns are quantized, and the rows
    go after the product); Megatron-LM, core/transformer/attention.py (`set_save_original_input(self.linear_proj)`),
    which delayed scaling does not support.
    """
    if how.fp8 is None or (part is not None and part.adapter_dtype is not None):
        return x
    if part is not None and part.name.endswith("linear_proj") and how.fp8 != "delayed":
        return x
    return new(x.tape, x.shape, "fp8", "fp8_operand")


def lowered_gradient(gradient: Tensor, how: MegatronPlan) -> list[Tensor]:
    """Return the rows and the columns of a gradient in FP8, as long as both products take."""
    copies = 0 if how.fp8 is None else 2
    return [new(gradient.tape, gradient.shape, "fp8", "fp8_operand") for _ in range(copies)]


def gathered(x: Tensor) -> Tensor:
    """Return all ranks' tokens in one tensor."""
    return new(x.tape, (whole(x.shape[0]), *x.shape[1:]), x.dtype, "megatron_all_gather")


def scattered(x: Tensor) -> Tensor:
    """This rank's tokens of a sum over ranks."""
    return new(x.tape, (split_over(x.shape[0]), *x.shape[1:]), x.dtype, "megatron_reduce_scatter")


def clear(x: Tensor) -> None:
    """`clear_tensor_data`: the memory goes, unless something else refers to it."""
    x.storage = None


def parameters(weights: Weights, part: Linear) -> tuple[Parameter, Parameter | None]:
    """Return a linear layer's matrix and bias."""
    return weights[f"{part.name}.weight"], weights.get(f"{part.name}.bias")


def _result(x: Tensor, weight: Parameter, shape: Shape | None = None, dtype: str | None = None) -> Tensor:
    """Return the product; x ends in the axes that the matrix sums over."""
    rows = (shape or x.shape)[: len(x.shape) - len(weight.inner)]
    return new(x.tape, (*rows, *weight.outer), dtype or x.dtype, "linear")


def _weight_gradients(dtype: str, weight: Parameter, bias: Parameter | None, how: MegatronPlan) -> list[Gradient]:
    """None where the product adds to the main gradient itself."""
    tape = weight.tape
    learns = weight.requires_grad and not how.fuses_weight_gradients
    found: list[Gradient] = [new(tape, weight.shape, dtype, "weight_gradient") if learns else None]
    if bias is not None:
        found.append(new(tape, bias.shape, dtype, "weight_gradient") if bias.requires_grad else None)
    return found


def _with_adapter(out: Tensor, x: Tensor, part: Linear, weights: Weights, how: MegatronPlan) -> Tensor:
    """Return the result, with what the layer's adapter makes of x."""
    if part.adapter_dtype is None:
        return out
    first, second = (weights[part.adapter_name(matrix)] for matrix in ("lora_A", "lora_B"))
    return adapted(out, x, part, (first, second), how)


def norm_linear(
    x: Tensor, norm: Norm, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True
) -> Tensor:
    """`LayerNormLinear`, sharded by columns: keeps the norm's input, result and statistics.

    The tokens that the product gathers go at once, and are gathered again in the backward pass.
    """
    x = contiguous(x)
    tape, shards = x.tape, how.sequence and part.split == "outer"
    weight, bias = parameters(weights, part)
    bias = bias if biased else None
    affine = [weights[each.name] for each in norm.weights()]
    inputs = [x, *affine, weight, *([] if bias is None else [bias])]
    saved = save(tape, x) if tracked(*inputs) else []
    normed = new(tape, x.shape, x.dtype, "layer_norm")
    statistics = [new(tape, x.shape[:-1], "fp32", "norm_statistics") for _ in range(1 + (norm.kind == "layer"))]
    operand = lowered(normed, part, how)
    total = gathered(operand) if shards else operand
    shape, dtype, learns = total.shape, normed.dtype, weight.requires_grad
    out = _result(total, weight, dtype=dtype)
    # An adapter is given what the product is given, gathered (`return_layernorm_output_gathered`).
    returned = [] if part.adapter_dtype is None else [view(total, shape)]
    del total
    if tracked(*inputs):
        saved += [*(save(tape, operand) if learns else ()), *save(tape, *statistics)]
        x_shape = x.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            normed = saved[1] if learns else None
            total = normed if normed is None or not shards else gathered(normed)
            quantized = lowered_gradient(only(gradients[:1]), how)
            full = new(tape, shape, dtype, "input_gradient")
            gradient = scattered(full) if shards else full
            made = _weight_gradients(dtype, weight, bias, how)
            del total, quantized
            if normed is not None:
                clear(normed)
            if not shards and len(gradients) > 1 and gradients[1] is not None:
                gradient = like(full, "add")
            found: list[Gradient] = [new(tape, x_shape, gradient.dtype, "layer_norm_backward")]
            found += [new(tape, each.shape, gradient.dtype, "layer_norm_backward") for each in affine]
            del gradient, full
            return [*found, *made]

        attach([out, *returned], inputs, saved, apply)
    del normed, operand
    return _with_adapter(out, returned.pop(), part, weights, how) if returned else out


def linear(x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True) -> Tensor:
    """TransformerEngine's `Linear`: sharded by columns, by rows, or on every rank; keeps its input."""
    tape = x.tape
    gathers, sums = how.sequence and part.split == "outer", how.sequence and part.split == "inner"
    weight, bias = parameters(weights, part)
    bias = bias if biased else None
    inputs = [weight, x, *([] if bias is None else [bias])]
    needs, learns = tracked(*inputs), weight.requires_grad
    operand = lowered(x, part, how)
    saved = save(tape, operand) if needs and learns else []
    total = gathered(operand) if gathers else operand
    shape = total.shape
    out = _result(total, weight, dtype=x.dtype)
    del total, operand
    if sums:
        out = scattered(out)
    if needs:
        x_shape, x_needs = x.shape, tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = gathered(only(gradients)) if sums else only(gradients)
            total = None if not learns else gathered(saved[0]) if gathers else saved[0]
            quantized = [] if sums else lowered_gradient(gradient, how)
            result = None
            if x_needs:
                full = new(tape, shape, gradient.dtype, "input_gradient")
                result = scattered(full) if gathers else view(full, x_shape)
            matrix, *rest = _weight_gradients(gradient.dtype, weight, bias, how)
            del total, quantized
            return [matrix, result, *rest]

        attach([out], inputs, saved, apply)
    return _with_adapter(out, parts_to_all(x) if gathers and part.adapter_dtype else x, part, weights, how)


def local_linear(x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True) -> Tensor:
    """`LinearWithGradAccumulationAndAsyncCommunication`: gathers into a buffer that all layers share and that stays."""
    tape, gathers = x.tape, how.sequence and part.split == "outer"
    weight, bias = parameters(weights, part)
    bias = bias if biased else None
    inputs = [x, weight, *([] if bias is None else [bias])]
    needs = tracked(*inputs)
    saved = save(tape, x) if needs and weight.requires_grad else []
    shape = (whole(x.shape[0]), *x.shape[1:]) if gathers else x.shape
    out = _result(x, weight, shape)
    if needs:
        x_shape, x_needs = x.shape, tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            full = new(tape, shape, only(gradients).dtype, "input_gradient") if x_needs else None
            result = full if full is None else scattered(full) if gathers else view(full, x_shape)
            return [result, *_weight_gradients(only(gradients).dtype, weight, bias, how)]

        attach([out], inputs, saved, apply)
    if part.split == "inner":
        return out
    return _with_adapter(out, parts_to_all(x) if gathers and part.adapter_dtype else x, part, weights, how)


def local_row_linear(x: Tensor, part: Linear, weights: Weights, how: MegatronPlan, *, biased: bool = True) -> Tensor:
    """`RowParallelLinear`: the sum over ranks is a node of its own."""
    out = local_linear(x, part, weights, how, biased=biased)
    return _with_adapter(sum_to_parts(out) if how.sequence else out, x, part, weights, how)


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
