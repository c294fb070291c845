"""Low-rank adapters next to Megatron-Core's linear layers, whose own matrices are frozen.

Source: Megatron-Bridge, src/megatron/bridge/peft/{lora_layers,adapter_wrapper,utils}.py. `ParallelLinearAdapter` is two
of Megatron-Core's linear layers: next to a matrix sharded by columns the first one gathers what its ranks have of the
low rank; next to one sharded by rows the second one gathers all of its result, of which a rank keeps its tokens.
"""

from __future__ import annotations

from memcore.networks.weights import Linear
from memcore.symbols import Shape, split_over
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, view
from memcore.tensors.operations import add, dropout
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.step_plan import MegatronPlan


def adapted(out: Tensor, x: Tensor, part: Linear, matrices: tuple[Parameter, Parameter], how: MegatronPlan) -> Tensor:
    """Return the result of a frozen linear layer and of the adapter next to it; x: all tokens that the adapter sees."""
    with out.tape.module("adapter"):
        x, rows = dropout(x, part.adapter_dropout), x.shape[: len(x.shape) - len(part.inner)]
        whole: tuple[Shape, Shape] = (*rows, "ra"), (*rows, *part.outer)
        shards = how.tensor and part.split != "inner", how.tensor and part.split != "outer"
        low = product(x, matrices[0], (*rows, *matrices[0].outer) if shards[0] else whole[0], how)
        if shards[0]:
            low = _side_by_side(low, whole[0])
        high = product(low, matrices[1], (*rows, *matrices[1].outer) if shards[1] else whole[1], how)
        del low
        if shards[1]:
            high = _side_by_side(high, whole[1])
            if how.sequence and part.split == "inner":
                high = _own_tokens(high)
        high = _scaled(high)
        return add(out, high)


def adapted_rows(
    out: Tensor, x: Tensor, rows: Shape, matrices: tuple[Parameter, Parameter], how: MegatronPlan
) -> Tensor:
    """Add adapters for rows that experts receive: one for all experts, or one for each."""
    with out.tape.module("adapter"):
        low = product(x, matrices[0], (*rows, "ra"), how)
        high = product(low, matrices[1], out.shape, how)
        del low
        return add(out, _scaled(high))


def product(x: Tensor, weight: Parameter, shape: Shape, how: MegatronPlan) -> Tensor:
    """Return a product with one of an adapter's matrices: keeps its input."""
    tape, own = x.tape, x.shape
    out = new(tape, shape, x.dtype, "linear")
    if tracked(x, weight):
        needs = tracked(x)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = only(gradients).dtype
            result = new(tape, own, dtype, "input_gradient") if needs else None
            learns = weight.requires_grad and not how.fuses_weight_gradients
            return [result, new(tape, weight.shape, dtype, "weight_gradient") if learns else None]

        attach([out], [x, weight], save(tape, x), apply)
    return out


def _side_by_side(x: Tensor, shape: Shape) -> Tensor:
    """`gather_from_tensor_model_parallel_region`: what all ranks have, and the same in order."""
    tape, own = x.tape, x.shape
    stacked = new(tape, shape, x.dtype, "megatron_all_gather")
    out = new(tape, shape, x.dtype, "cat")
    del stacked
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, own, only(g).dtype, "clone")])
    return out


def _own_tokens(x: Tensor) -> Tensor:
    """`scatter_to_sequence_parallel_region`: a view; its gradient is gathered."""
    tape, full = x.tape, x.shape
    out = view(x, (split_over(full[0]), *full[1:]))
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "megatron_all_gather")])
    return out


def _scaled(x: Tensor) -> Tensor:
    """Times a number."""
    out = like(x, "mul")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [like(only(g), "mul_backward")])
    return out
