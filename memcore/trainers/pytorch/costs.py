"""What PyTorch's engines send in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.trace.job import Job
from memcore.trace.traffic import USUAL_DISPATCH, Dispatch, Traffic
from memcore.trainers.pytorch.frameworks import runs_transformer_engine
from memcore.trainers.pytorch.settings import TorchSettings


def _fsdp(job: Job) -> Traffic:
    """Each micro-batch gathers for its forward pass, and again for its backward pass if it has let go.

    Stages of a pipeline reduce once, and gather once if they keep what they have (torchtitan, pipeline_llama).
    """
    sharding, count = job.recipe.sharding, job.micro_batches
    again = 2 if sharding.reshard_after_forward is not False else 1
    if job.stages > 1:
        return Traffic(job.sizes["z"], count * again if again > 1 else 1, 1, reduces_behind="one")
    if sharding.syncs_every_micro_batch:
        return Traffic(job.sizes["z"], count * again, count)
    return Traffic(job.sizes["z"], count * again, 1, reduces_behind="one")


def _ddp(job: Job) -> Traffic:
    """Nothing is sharded; gradients are summed during the backward pass, or next to the last one."""
    if job.recipe.sharding.syncs_every_micro_batch:
        return Traffic(1, 0, job.micro_batches, reduced=_BUCKET)
    return Traffic(1, 0, 1, reduces_behind="one", reduced=_BUCKET)


def _regrouping(job: Job, traffic: Traffic) -> Traffic:
    """Sequences are divided along the second axis: what is gathered or reduced along the first is copied by parts.

    Source: torch/distributed/_functional_collectives.py (`all_gather_tensor`, `reduce_scatter_tensor`: chunk and cat).
    """
    whole = job.config.get(Parallelism.sequence_parallel) is False
    return traffic._replace(regrouped=0.0 if whole else 2.0)


def in_pieces(job: Job) -> bool:
    """Return whether products run in pieces next to tensor parallelism's collectives (a pass of the compiler).

    Source: torchtitan/distributed/tensor_parallel.py, maybe_enable_async_tp.
    """
    asked = job.config.get(TorchSettings.enable_async_tensor_parallel)
    return bool(asked) and job.recipe.compiled and job.config.get(Parallelism.sequence_parallel) is not False


def casts(job: Job) -> float | None:
    """Bytes of torchao's casts to 8 bits for each element that products read; None where TransformerEngine casts.

    Inputs and gradients are cast as they are and transposed. With one scale for a tensor kernels look for its largest
    element (2 bytes), cast it (3) and transpose what was cast (2). With a scale for each row they look and cast along
    both axes, the other axis at 0.65 instead of 2.2 TB/s on an H100 (pytorch issue 149982); that results are scaled
    after products of the backward pass is taken to be fused with what adds them up. Source: torchao, float8/config.py
    (`from_recipe_name`), float8/float8_linear.py, float8/float8_ops.py (`addmm_float8_unwrapped`).
    """
    if runs_transformer_engine(job.config[EngineSettings.framework]):
        return None
    return 5 + 5 * 2.2 / 0.65 if job.config[EngineSettings.fp8_recipe] == "rowwise" else 7.0


def narrow_gathers(job: Job) -> bool:
    """Return whether tensor parallelism gathers in 8 bits: with one scale per tensor, inputs are cast before.

    Source: torchtitan, models/llama3/infra/parallelize.py (`Float8ColwiseParallel`, `PrepareFloat8ModuleInput`);
    torchao, float8/float8_tensor_parallel.py.
    """
    narrow = str(job.config[Training.precision]).startswith("fp8") and casts(job) is not None
    return narrow and job.config.get(EngineSettings.fp8_recipe) in (None, "tensorwise")


_BUCKET = 25 * 2**20 / 4
"""Elements of a bucket of DistributedDataParallel with gradients in fp32 (bucket_cap_mb)."""
TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "none": lambda job: _regrouping(job, Traffic(1, 0, 0)),
    "ddp": _ddp,
    "fsdp": lambda job: _regrouping(job, _fsdp(job)),
    "fsdp1": _fsdp,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""


_PASSES = 3
"""How many times as much a step of several kernels moves as one in a single kernel: 21 tensors are read or written
instead of 7 (torch/optim/adamw.py, `_multi_tensor_adamw`, and `_fused_adamw`)."""


def updated(job: Job) -> float:
    """Return bytes that the optimizer's step reads and writes for a parameter, and before it clipping.

    A fused kernel reads the gradient once, and reads and writes the parameter and its states. Clipping reads gradients
    for their norm, and scales them (torch/nn/utils/clip_grad.py).
    """
    size, how = int(ITEMSIZE[job.recipe.precision.parameter]), job.implementation
    states = how.states if how.states is not None else job.optimizer.states
    kept = sum(int(ITEMSIZE[each.dtype]) if each.dtype else size for each in states if each.of == "like")
    passes = _PASSES if how.temporaries or how.own or how.times or how.matrix else 1
    return passes * (3 * size + 2 * kept) + (3 * size if job.config[Training.gradient_clipping] else 0)


DISPATCHERS: Mapping[str, Dispatch] = {
    "alltoall": USUAL_DISPATCH,
    "allgather": Dispatch("all", 4.0),
    "deepep": Dispatch("ranks", 2.0, 2.0),
    "hybridep": Dispatch("ranks", 2.0),
}
"""By the dispatcher: what is sent, and what kernels move besides. All-to-all: rows are sorted before they are sent and
when they have arrived, and back: six times read or written (Megatron-LM, transformer/moe/token_dispatcher.py: permute,
sort_chunks_by_idxs). An all-gather: sorted once, and back.
DeepEP: what has arrived is sorted by expert, and summed by token on the way back (fused_a2a.py, moe_utils.py: permute).
HybridEP does both itself (fused_a2a.py, dispatch_with_permute)."""


_TITAN = 21.0
"""The same for torchtitan's own kernels with an all-to-all, none of them fused: gathered (2), joined with a row of
zeros (2), sorted by expert (2) and back (2), weighed in fp32 (10) and added up (3). Source: torchtitan/models/moe.py,
MoE.forward; distributed/expert_parallel.py, expert_parallel."""


def dispatch(job: Job) -> Dispatch:
    """How tokens reach their experts."""
    given = str(job.config.get(TorchSettings.moe_token_dispatcher))
    found = DISPATCHERS.get(given if job.recipe.dispatcher == "local" else job.recipe.dispatcher, USUAL_DISPATCH)
    own = job.recipe.implementation == "torchtitan" and not fuses(job)
    return found._replace(moves=_TITAN) if own and found == USUAL_DISPATCH else found


def fuses(job: Job) -> bool:
    """Return whether norms, rotations and activations are fused.

    NeMo AutoModel's own networks run TransformerEngine's kernels, those of transformers Liger's. Source:
    nemo_automodel/components/models/common/utils.py (BackendConfig; norms as in examples/llm_benchmark);
    nemo_automodel/_transformers/auto_model.py (`use_liger_kernel`, True by default).
    """
    return runs_transformer_engine(job.config[EngineSettings.framework])
