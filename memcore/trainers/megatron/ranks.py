"""How many ranks share what: from the parallel sizes of a config to numbers, contradictions refused.

Source: Megatron-LM, core/parallel_state.py (`initialize_model_parallel`). Expert parallelism subdivides the ranks of a
pipeline stage: tensor × context × data = expert tensor × expert × expert data.
"""

from __future__ import annotations

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.memory.communicators import Communicator, Extent
from memcore.messages import Message
from memcore.records import dataclass
from memcore.trainers.megatron.settings import MegatronSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Sizes of parallel groups."""

    tensor: int
    pipeline: int
    context: int
    data: int
    expert: int
    expert_tensor: int
    instances: int
    """Copies of the distributed optimizer."""
    sequence: bool
    """Tensor-parallel ranks share the sequence outside of matrices."""

    @property
    def total(self) -> int:
        """GPUs of the job."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def dense(self) -> int:
        """Ranks that share the optimizer of everything but experts."""
        return self.data * self.context // self.instances

    @property
    def expert_data(self) -> int:
        """Ranks that have the same part of the same experts."""
        return self.total // (self.pipeline * self.expert * self.expert_tensor)

    def communicators(self, extent: Extent, *, alltoall: bool) -> tuple[Communicator, ...]:
        """Return the groups that exchange something on the GPU.

        Source: optimizer/__init__.py (`grad_stats_parallel_group`), distributed/param_and_grad_buffer.py,
        moe/token_dispatcher.py, p2p_communication.py.
        """
        width = self.tensor * self.context * self.data
        near_experts = max(min(self.expert, extent.near // self.expert_tensor), 1) - 1
        return (
            Communicator("world", self.total, trees=True),
            Communicator("data", self.data * self.context, rings=True, trees=True, apart=self.tensor),
            Communicator("tensor", self.tensor, rings=True, trees=True),
            Communicator("context", self.context, peers=min(self.context - 1, 2)),
            extent.in_a_row(width),
            Communicator("norms of gradients", self.total, trees=True),
            Communicator(
                "experts", self.expert, rings=not alltoall, peers=near_experts * alltoall,
                remote=(self.expert - 1 - near_experts) * alltoall,
            ),
            Communicator("counts of tokens", self.expert * self.expert_tensor if self.expert > 1 else 1, rings=True),
            Communicator("data of experts", self.expert_data if self.experts_apart else 1, rings=True),
        )  # fmt: skip

    @property
    def experts_apart(self) -> bool:
        """Return whether experts have gradient buffers and optimizer shards of their own."""
        return self.expert > 1 or self.expert_tensor != self.tensor


def ranks_of(read: Defaults) -> Ranks:
    """Return the parallel groups of a job."""
    sizes = Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size
    tensor, pipeline, context = (read.given(setting) or 1 for setting in sizes)
    each, given = tensor * pipeline * context, read.given(Hardware.num_gpus)
    data = read.given(Parallelism.data_parallel_size)
    if data is None:
        data = max((given or each) // each, 1)
    if given is not None and given != data * each:
        found = Message("found {}, but tensor × pipeline × context × data parallel ranks are {}", given, data * each)
        read.refuse(Hardware.num_gpus, "{}; they must agree", found)
    expert = read.given(Parallelism.expert_parallel_size) or 1
    here = tensor * context * data
    fits = here % (expert * tensor) == 0 or here % expert != 0
    reason = (
        None if fits else Message("{} × {} does not divide the GPUs of a pipeline stage ({})", expert, tensor, here)
    )
    wide = read.take(Parallelism.expert_tensor_parallel_size, tensor if fits else 1, reason)
    if here % (expert * wide):
        uneven = Parallelism.expert_parallel_size if here % expert else Parallelism.expert_tensor_parallel_size
        read.refuse(uneven, "found {} × {}, which must divide the GPUs of a pipeline stage ({})", expert, wide, here)
    name = MegatronSettings.num_distributed_optimizer_instances
    instances = read.take(name, 1)
    if (data * context) % instances:
        read.refuse(
            name, "found {}, which does not divide the {} data- and context-parallel ranks", instances, data * context
        )
    if (
        instances > 1
        and read.given(EngineSettings.type) == "megatron"
        and not read.given(MegatronSettings.distributed_optimizer)
    ):
        read.refuse(name, "found {}; needs {}", instances, MegatronSettings.distributed_optimizer)
    return Ranks(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        data=data,
        expert=expert,
        expert_tensor=wide,
        instances=instances,
        sequence=_sequence(read, tensor),
    )


def _sequence(read: Defaults, tensor: int) -> bool:
    path = Parallelism.sequence_parallel
    if tensor == 1:
        return False
    return bool(read.take(path, False, "Megatron-LM's default; most recipes switch it on"))
