"""Changes that save memory: one row for each knob, from the harmless to those that change the job.

A row says which settings it changes and from which values; what engine and model cannot do is refused by `estimate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memcore import registry
from memcore.config.defaults import value_of
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trace.changes import RUNGS, Change, Changes
from memcore.trace.job import Job

_BUDGET = Training.activation_memory_budget


def _fewer_at_once(job: Job) -> Iterator[Changes]:
    """Half the sequences in twice as many micro-batches: the same step."""
    micro_batch = job.micro_batch
    if micro_batch % 2 == 0:
        yield {
            Training.micro_batch_size: micro_batch // 2,
            Training.gradient_accumulation_steps: job.micro_batches * 2,
        }


def _doubled(path: str, symbol: str | None) -> Callable[[Job], Iterator[Changes]]:
    """Twice the ranks of a kind on the same GPUs; half the data-parallel ranks take twice the micro-batches."""

    def made(job: Job) -> Iterator[Changes]:
        size = job.stages if symbol is None else job.sizes[symbol]
        ranks = job.num_gpus // (job.stages * job.sizes["tp"] * job.sizes["cp"])
        if ranks % 2 == 0:
            accumulation: Changes = {Training.gradient_accumulation_steps: job.micro_batches * 2}
            left_out: Changes = {each: None for each in _SIZED if job.config.get(each) is not None}
            yield {path: size * 2, **accumulation, **left_out}

    return made


_FUSED = (None, "sft", "dpo", "grpo")
"""Methods whose trainers have a fused loss: those of TRL that take `use_liger_kernel` (trl, trainer/dpo_trainer.py,
grpo_trainer.py); the losses of ORPO, SimPO and CPO need logits (experimental/orpo, experimental/cpo)."""
_SIZED = (Parallelism.data_parallel_size, Parallelism.data_parallel_shard_size)


def _more_gpus(job: Job) -> Iterator[Changes]:
    """Twice the GPUs, and half the micro-batches where there are several."""
    count = job.micro_batches
    fewer: Changes = {Training.gradient_accumulation_steps: count // 2} if count % 2 == 0 else {}
    left_out: Changes = {each: None for each in _SIZED if job.config.get(each) is not None}
    if job.engine.distributed:
        yield {Hardware.num_gpus: job.num_gpus * 2, **fewer, **left_out}


def _shorter(job: Job) -> Iterator[Changes]:
    """Half the sequence."""
    length = job.sizes["s"] * job.sizes["cp"]
    if length % 2 == 0:
        yield {Training.sequence_length: length // 2}


def _in_four_bits(job: Job) -> Iterator[Changes]:
    """Store the frozen weights under an adapter in NF4."""
    if job.config[Training.adapter.type] is not None:
        yield {Training.quantization: "nf4"}


_COMMON: tuple[Change, ...] = (
    Change(
        title="Expandable segments",
        rung="switches",
        kind="free",
        note="the allocator grows its segments instead of leaving gaps; tensors stay as they are",
        to={EngineSettings.expandable_segments: True},
        when={EngineSettings.expandable_segments: (None, False)},
    ),
    Change(
        title="Free the model's outputs before the backward pass",
        rung="switches",
        kind="free",
        note="the training step does not need them",
        to={Training.outputs_kept: False},
        when={Training.outputs_kept: (True,)},
    ),
    Change(
        title="No KV cache while training",
        rung="switches",
        kind="free",
        note="training never reads it",
        to={Training.use_cache: False},
        when={Training.use_cache: (True,)},
    ),
    Change(
        title="Free gradients after each step",
        rung="switches",
        kind="free",
        note="the next backward pass recreates them",
        to={Training.zero_grad: "set-to-none"},
        when={Training.zero_grad: ("keep",)},
    ),
    Change(
        title="Fused optimizer",
        rung="switches",
        kind="free",
        note="one kernel instead of lists of temporaries",
        to={Training.optimizer.implementation: "fused"},
        when={Training.optimizer.implementation: ("foreach", "for-loop")},
    ),
    Change(
        title="Flash attention instead of stored scores",
        rung="kernels",
        kind="free",
        note="the kernel is faster too",
        to={Training.attention: "flash"},
        when={Training.attention: ("math",)},
    ),
    Change(
        title="Packed sequences instead of padded ones",
        rung="kernels",
        kind="free",
        note="the flash kernel takes no padding mask; padding is not computed either",
        to={Training.attention_mask: "none"},
        when={Training.attention_mask: ("padded",)},
    ),
    Change(
        title="Fused recurrent kernels",
        rung="kernels",
        kind="free",
        note="the kernels are faster too",
        to={Training.kernels: "fused"},
        when={Training.kernels: ("fallback",)},
    ),
    Change(
        title="Parallel loss",
        rung="kernels",
        kind="free",
        note="ranks exchange a maximum and a sum per token instead of logits",
        to={Parallelism.loss_parallel: True},
        when={Parallelism.loss_parallel: (False,)},
    ),
    Change(
        title="Fused linear loss",
        rung="kernels",
        kind="free",
        note="the output head and the loss run chunk by chunk; Liger's kernel is about as fast",
        to={Training.loss: "fused-linear"},
        when={
            Training.loss: ("cross-entropy-fp32", "cross-entropy"),
            Training.method.name: _FUSED,
        },
    ),
    Change(
        title="Loss without an fp32 copy of the logits",
        rung="kernels",
        kind="precision",
        note="the softmax still sums in fp32, but its inputs and results are rounded",
        to={Training.loss: "cross-entropy"},
        when={Training.loss: ("cross-entropy-fp32",)},
        ladder=False,
    ),
    Change(
        title="Half the micro-batch, twice the accumulation", rung="batch", kind="communication", made=_fewer_at_once
    ),
    Change(
        title="Half the saved activations of compiled blocks",
        rung="selective",
        kind="compute",
        to={_BUDGET: 0.5},
        when={Training.compile: (True,), Training.activation_checkpointing.policy: ("none",), _BUDGET: (None, 1)},
        ladder=False,
    ),
    Change(
        title="Selective checkpointing of operations",
        rung="selective",
        kind="compute",
        to={
            Training.activation_checkpointing.policy: "selective",
            Training.activation_checkpointing.mode: "op",
            Training.activation_checkpointing.every: None,
            _BUDGET: None,
        },
        when={Training.activation_checkpointing.policy: ("none",)},
    ),
    Change(
        title="Checkpoint every second layer",
        rung="selective",
        kind="compute",
        to={
            Training.activation_checkpointing.policy: "selective",
            Training.activation_checkpointing.mode: "layer",
            Training.activation_checkpointing.every: 2,
        },
        when={Training.activation_checkpointing.policy: ("none",)},
        ladder=False,
    ),
    Change(
        title="Full activation checkpointing",
        rung="recomputed",
        kind="compute",
        to={
            Training.activation_checkpointing.policy: "full",
            Training.activation_checkpointing.mode: None,
            Training.activation_checkpointing.every: None,
            _BUDGET: None,
        },
        when={Training.activation_checkpointing.policy: (None, "none", "selective")},
    ),
    Change(
        title="Twice the tensor parallelism",
        rung="division",
        kind="communication",
        made=_doubled(Parallelism.tensor_parallel_size, "tp"),
    ),
    Change(
        title="Twice the context parallelism",
        rung="division",
        kind="communication",
        made=_doubled(Parallelism.context_parallel_size, "cp"),
        ladder=False,
    ),
    Change(
        title="Twice the pipeline stages",
        rung="division",
        kind="communication",
        made=_doubled(Parallelism.pipeline_parallel_size, None),
        when={EngineSettings.version: (None, 2)},
        ladder=False,
    ),
    Change(
        title="Shard optimizer states over data-parallel ranks",
        rung="elsewhere",
        kind="communication",
        to={EngineSettings.zero_stage: 1},
        when={EngineSettings.zero_stage: (None, 0)},
        engines=EngineSettings.zero_stage.engines,
    ),
    Change(
        title="Everything in bf16, no fp32 parameters",
        rung="parameters",
        kind="precision",
        note="small updates are lost to rounding unless the optimizer compensates",
        to={Training.precision: "bf16"},
        when={
            Training.precision: ("fp32", "tf32", "bf16-mixed", "bf16-autocast"),
            Training.parameter_dtype: (None,),
        },
        ladder=False,
    ),
    Change(
        title="Frozen weights in NF4 (QLoRA)",
        rung="parameters",
        kind="precision",
        note="weights are rounded to 4 bits; arXiv 2305.14314 reports the same scores as 16-bit LoRA",
        made=_in_four_bits,
        when={Training.quantization: (None,), Training.trainable: (None, "all")},
    ),
    Change(
        title="LoRA of rank 16 on all linear layers",
        rung="method",
        kind="method",
        note="only small matrices are trained; only these have gradients and optimizer states",
        to={
            Training.adapter.type: "lora",
            Training.adapter.rank: 16,
            Training.adapter.target_modules: "all-linear",
        },
        when={Training.adapter.type: (None,)},
        ladder=False,
    ),
    Change(
        title="Twice the GPUs",
        rung="gpus",
        kind="gpus",
        note="more hardware for the same step",
        made=_more_gpus,
        ladder=False,
    ),
    Change(
        title="Sequences half as long",
        rung="job",
        kind="job",
        note="the model sees less context",
        made=_shorter,
        ladder=False,
    ),
)
"""Of every trainer's jobs."""
_OWN = (row for module in registry.engine_modules("knobs") for row in getattr(module, "CHANGES", ()))
CHANGES: tuple[Change, ...] = tuple(sorted((*_COMMON, *_OWN), key=lambda each: RUNGS.index(each.rung)))
"""In order of harm, in which the ladder climbs them."""


def applicable(change: Change, job: Job) -> Iterator[Changes]:
    """Yield what a row changes of a job, if it applies at all."""
    if change.engines is not None and job.engine.name not in change.engines:
        return
    for path, values in (change.when or {}).items():
        if value_of(job.config, job.assumptions, path) not in values:
            return
    if change.to is not None:
        yield change.to
    if change.made is not None:
        yield from change.made(job)
