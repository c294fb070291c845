"""What DeepSpeed's own estimators answer, for comparison with memcore.

Source: deepspeed/runtime/zero/stage_1_and_2.py (estimate_zero2_model_states_mem_needs) and stage3.py
(estimate_zero3_model_states_mem_needs, model_to_params), as of DeepSpeed 0.19.6. They count 2 bytes for a 16-bit
parameter, 2 and 4 for its gradient, 4 for its fp32 copy and 8 for Adam's states, and leave out activations, the
buckets that gradients are reduced in, parameters that are gathered besides the largest layer, the allocator and CUDA
itself. `additional_buffer_factor` is their guess for buffers on the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from memcore.networks.network import Model
from memcore.networks.weights import Weight
from memcore.records import dataclass


def estimate_zero2_model_states_mem_needs(
    total_params: int,
    num_gpus_per_node: int = 1,
    num_nodes: int = 1,
    cpu_offload: bool = True,
    additional_buffer_factor: float = 1.5,
) -> tuple[int, int]:
    """Return bytes of a node's host memory and of one GPU for parameters, gradients and optimizer states under ZeRO-2.

    >>> estimate_zero2_model_states_mem_needs(2_851_000_000, num_gpus_per_node=8, cpu_offload=False)
    (136848000000, 12116750000)
    """
    total_gpus = num_nodes * num_gpus_per_node
    if cpu_offload:
        gpu: float = 2 * total_params
        cpu = total_params * max(4 * total_gpus, 16) * additional_buffer_factor
    else:
        gpu = 2 * total_params + int(18 * total_params / total_gpus)
        cpu = total_params * 4 * num_gpus_per_node * additional_buffer_factor
    return int(cpu), int(gpu)


def estimate_zero3_model_states_mem_needs(
    total_params: int,
    largest_layer_params: int,
    num_gpus_per_node: int = 1,
    num_nodes: int = 1,
    cpu_offload: bool = True,
    cpu_offload_params: bool = True,
    zero_init: bool = True,
    additional_buffer_factor: float = 1.5,
) -> tuple[int, int, int]:
    """Return bytes of a node's host memory, of one GPU, and of the largest layer gathered, under ZeRO-3.

    `largest_layer_params`: the most that one module owns itself. `zero_init`: the model was made under
    `deepspeed.zero.Init`, so that no process ever had all of it.

    >>> estimate_zero3_model_states_mem_needs(2_851_000_000, 32_000_000, num_gpus_per_node=8)
    (76977000000, 128000000, 128000000)
    """
    total_gpus = num_nodes * num_gpus_per_node
    share = 1 / num_nodes
    largest = 4 * largest_layer_params
    held = 0 if not cpu_offload else 18 if cpu_offload_params else 16
    """Bytes for each parameter on the hosts of all nodes."""
    if not cpu_offload:
        gpu = largest + int(18 * total_params / total_gpus)
    elif cpu_offload_params:
        gpu = largest
    else:
        gpu = largest + int(2 * total_params / total_gpus)
    if held and zero_init:
        cpu = total_params * held * share * additional_buffer_factor
    elif held:
        cpu = total_params * max(4 * num_gpus_per_node, held * share) * additional_buffer_factor
    elif zero_init:
        cpu = largest_layer_params * 4 * num_gpus_per_node * additional_buffer_factor
    else:
        cpu = total_params * 4 * num_gpus_per_node * additional_buffer_factor
    return int(cpu), int(gpu), largest


def model_to_params(model: Model) -> tuple[int, int]:
    """Return all parameters of a model, shared ones once, and the most that one module owns itself (recurse=False)."""
    stacks = [layer.weights() for layer, _ in model.layers]
    stacks += [layer.weights() for tower in model.network.towers for run in tower.runs for layer in run]
    stacks += [tower.outer_weights for tower in model.network.towers]
    stacks.append(model.network.embedding_and_head.weights())
    return model.parameters, max(_owned(model, weights) for weights in stacks)


def _owned(model: Model, weights: Sequence[Weight]) -> int:
    """Return the most that one module of a layer, or of what is outside the layers, has itself."""
    owned: Counter[str] = Counter()
    for weight in weights:
        owned[weight.name.rpartition(".")[0]] += model.size(weight.shape)
    return max(owned.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStates:
    """One line of DeepSpeed's report; bytes."""

    stage: int
    cpu: int
    """Of one node's host memory."""
    gpu: int
    offload_optimizer: bool
    offload_param: bool
    zero_init: bool | None
    """None for ZeRO-2, where it makes no difference."""


def estimate_zero_model_states(
    model: Model, num_gpus_per_node: int = 1, num_nodes: int = 1, additional_buffer_factor: float = 1.5
) -> tuple[ModelStates, ...]:
    """All lines that `estimate_zero2_…_all_live` and `estimate_zero3_…_all_live` print for a model, in their order."""
    total, largest = model_to_params(model)
    return (
        *_zero2(total, num_gpus_per_node, num_nodes, additional_buffer_factor),
        *_zero3(total, largest, num_gpus_per_node, num_nodes, additional_buffer_factor),
    )


def _zero2(total: int, gpus: int, nodes: int, factor: float) -> Iterator[ModelStates]:
    for offload in (True, False):
        cpu, gpu = estimate_zero2_model_states_mem_needs(total, gpus, nodes, offload, factor)
        yield ModelStates(stage=2, cpu=cpu, gpu=gpu, offload_optimizer=offload, offload_param=False, zero_init=None)


def _zero3(total: int, largest: int, gpus: int, nodes: int, factor: float) -> Iterator[ModelStates]:
    for optimizer, params in ((True, True), (True, False), (False, False)):
        for made_sharded in (True, False):
            cpu, gpu, _ = estimate_zero3_model_states_mem_needs(
                total, largest, gpus, nodes, optimizer, params, made_sharded, factor
            )
            yield ModelStates(
                stage=3,
                cpu=cpu,
                gpu=gpu,
                offload_optimizer=optimizer,
                offload_param=params,
                zero_init=made_sharded,
            )
