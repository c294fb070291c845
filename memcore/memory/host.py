"""Host memory: what one process keeps there, such as offloaded shards, states and activations.

Sources: torch/distributed/fsdp/_fully_shard/_fsdp_api.py (CPUOffloadPolicy: pinned shards and gradients, the optimizer
on the host), torchao/optim/cpu_offload.py (a pinned copy of each parameter and gradient next to the states),
bitsandbytes/functional.py (`get_paged`), torchtune/training/_activation_offloading.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.dtypes import ITEMSIZE
from memcore.memory.ledger import Entry, entry_of
from memcore.networks.adapters import learns
from memcore.networks.weights import Weight
from memcore.symbols import Shape, product
from memcore.trace.job import Job
from memcore.trace.record import program_of

ALWAYS = "during the whole job"
_FROM_FIRST_STEP = "allocated in the first optimizer step and kept"


def host_entries(job: Job) -> Iterator[Entry]:
    """Yield what one process of a job keeps in host memory."""
    weights = [(weight, count) for weight, _, count in job.share.tensors]
    for buffer in job.engine.host(weights, job.recipe):
        yield _entry(job, buffer.rule, buffer.module, buffer.shape, buffer.dtype, 1, ALWAYS)
    sharding, optimizer = job.recipe.sharding, job.optimizer
    if job.engine.native:
        for weight, path, count in job.share.tensors:
            yield from _hosted(job, weight, path, count, parameters=sharding.offloaded or optimizer.on_host)
    checkpoints = job.recipe.checkpoints
    if job.recipe.offloads_activations or (checkpoints is not None and checkpoints.hosted):
        program = program_of(job.recipe)
        size = program.allocated("offloaded_activation", job.sizes)
        yield _entry(job, "host_activation", "", (size // 2,), "bf16", 1, "from forward to backward pass")


def _hosted(job: Job, weight: Weight, path: str, count: int, *, parameters: bool) -> Iterator[Entry]:
    """Yield a parameter's part, gradient and states, as far as they are on the host."""
    axes = job.engine.stored(weight)
    shape = tuple(symbol for axis in axes for symbol in axis)
    dtype = weight.dtype or job.recipe.precision.parameter
    learned = learns(weight, job.share.network)
    if job.recipe.sharding.offloaded or (parameters and learned):
        yield _entry(job, "host_parameter", path, shape, dtype, count, ALWAYS)
    if not learned:
        return
    if parameters:
        yield _entry(job, "host_gradient", path, shape, dtype, count, ALWAYS)
    states = [(found, own) for _, found, own in job.optimizer.states_of(axes, job.sizes, weight.kind, weight.name)]
    hosted = list(job.optimizer.hosted_of(axes, job.sizes, weight.kind, weight.name))
    for found, own in hosted + (states if job.recipe.sharding.offloaded or job.optimizer.fetched else []):
        yield _entry(job, "host_state", path, found, own or dtype, count, _FROM_FIRST_STEP)


def _entry(job: Job, rule: str, module: str, shape: Shape, dtype: str, copies: int, lifetime: str) -> Entry:
    return entry_of(rule, module, shape, dtype, copies, product(shape, job.sizes) * ITEMSIZE[dtype], lifetime)
