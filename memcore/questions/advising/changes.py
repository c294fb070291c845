"""Changes that save memory: one row for each knob, from the harmless to those that change the job.

A row says which settings it changes and from which values; what engine and model cannot do is refused by `estimate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trace.job import Job
from memcore.trainers.deepspeed.settings import DEEPSPEED, DeepSpeedSettings
from memcore.trainers.pytorch.settings import TorchSettings

Changes = Mapping[str, object]

KINDS: Mapping[str, str] = {
    "free": "costs nothing",
    "communication": "more communication",
    "compute": "more arithmetic",
    "latency": "slower steps",
    "transfer": "traffic with the host",
    "precision": "lower precision",
    "method": "another method of training",
    "gpus": "more GPUs",
    "job": "another job",
}
"""Classes of cost, from the harmless on."""

RISKS = ("precision", "method", "gpus", "job")
"""Classes whose price is not time alone."""

_AC, _BUDGET = "training.activation_checkpointing", Training.activation_memory_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row."""

    title: str
    kind: str
    """A key of `KINDS`."""
    note: str = ""
    """Why it is of this kind, where numbers do not say so."""
    to: Changes | None = None
    """Settings as they become; None leaves one out."""
    when: Mapping[str, tuple[object, ...]] | None = None
    """It applies where settings have one of these values."""
    made: Callable[[Job], Iterator[Changes]] | None = None
    """The same where it depends on the job."""
    engines: tuple[str, ...] | None = None
    """None: all that take the settings."""
    ladder: bool = True
    """It is a rung of the standard ladder."""


def _fewer_at_once(job: Job) -> Iterator[Changes]:
    """Half the sequences in twice as many micro-batches: the same step."""
    micro_batch = job.sizes["b"]
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


_SIZED = (Parallelism.data_parallel_size, Parallelism.data_parallel_shard_size)


def _more_gpus(job: Job) -> Iterator[Changes]:
    """Twice the GPUs, and half the micro-batches where there are several."""
    count = job.micro_batches
    fewer: Changes = {Training.gradient_accumulation_steps: count // 2} if count % 2 == 0 else {}
    left_out: Changes = {each: None for each in _SIZED if job.config.get(each) is not None}
    if job.engine.distributed:
        yield {Hardware.num_gpus: job.num_gpus * 2, **fewer, **left_out}


def _all_shards(job: Job) -> Iterator[Changes]:
    """One group of ranks that shards instead of several."""
    ranks = job.num_gpus // (job.stages * job.sizes["tp"])
    if 1 <= job.sizes["z"] < ranks and job.engine.name == "fsdp":
        yield {Parallelism.data_parallel_shard_size: ranks}


def _shorter(job: Job) -> Iterator[Changes]:
    """Half the sequence."""
    length = job.sizes["s"] * job.sizes["cp"]
    if length % 2 == 0:
        yield {Training.sequence_length: length // 2}


CHANGES: tuple[Change, ...] = (
    Change(
        title="Expandable segments",
        kind="free",
        note="the allocator grows its segments instead of leaving gaps; tensors stay as they are",
        to={EngineSettings.expandable_segments: True},
        when={EngineSettings.expandable_segments: (None, False)},
    ),
    Change(
        title="Free the model's outputs before the backward pass",
        kind="free",
        note="nobody reads them",
        to={Training.outputs_kept: False},
        when={Training.outputs_kept: (True,)},
    ),
    Change(
        title="No KV cache while training",
        kind="free",
        note="nobody reads it",
        to={Training.use_cache: False},
        when={Training.use_cache: (True,)},
    ),
    Change(
        title="Free gradients after each step",
        kind="free",
        note="the next backward pass recreates them",
        to={Training.zero_grad: "set-to-none"},
        when={Training.zero_grad: ("keep",)},
    ),
    Change(
        title="Fused optimizer",
        kind="free",
        note="one kernel instead of lists of temporaries",
        to={Training.optimizer.implementation: "fused"},
        when={Training.optimizer.implementation: ("foreach", "for-loop")},
    ),
    Change(
        title="Gradients as views of DDP's buckets",
        kind="free",
        note="one copy of the gradients instead of two",
        to={TorchSettings.gradient_as_bucket_view: True},
        when={TorchSettings.gradient_as_bucket_view: (None, False)},
        engines=("ddp",),
    ),
    Change(
        title="Flash attention instead of all scores",
        kind="free",
        note="the kernel is faster too",
        to={Training.attention: "flash"},
        when={Training.attention: ("math",)},
    ),
    Change(
        title="Packed sequences instead of padded ones",
        kind="free",
        note="the flash kernel takes no padding mask; padding is not computed either",
        to={Training.attention_mask: "none"},
        when={Training.attention_mask: ("padded",)},
    ),
    Change(
        title="Fused recurrent kernels",
        kind="free",
        note="the kernels are faster too",
        to={Training.kernels: "fused"},
        when={Training.kernels: ("fallback",)},
    ),
    Change(
        title="Parallel loss",
        kind="free",
        note="ranks exchange a maximum and a sum for each token instead of logits",
        to={Parallelism.loss_parallel: True},
        when={Parallelism.loss_parallel: (False,)},
    ),
    Change(
        title="Fused linear loss",
        kind="free",
        note="the head's product runs in pieces; Liger's kernel is about as fast",
        to={Training.loss: "fused-linear"},
        when={Training.loss: ("cross-entropy-fp32", "cross-entropy")},
    ),
    Change(
        title="Loss without an fp32 copy of the logits",
        kind="precision",
        note="the softmax still sums in fp32, its inputs and results are rounded",
        to={Training.loss: "cross-entropy"},
        when={Training.loss: ("cross-entropy-fp32",)},
        ladder=False,
    ),
    Change(title="Half the micro-batch, twice the accumulation", kind="communication", made=_fewer_at_once),
    Change(
        title="FSDP instead of DDP",
        kind="communication",
        to={EngineSettings.type: "fsdp"},
        when={EngineSettings.type: ("ddp",)},
    ),
    Change(
        title="Free parameters between forward and backward pass",
        kind="communication",
        to={TorchSettings.reshard_after_forward: True},
        when={TorchSettings.reshard_after_forward: (False,)},
        engines=("fsdp",),
    ),
    Change(
        title="Free the root's parameters after the forward pass",
        kind="communication",
        note="embedding, final norm and head are gathered once more",
        to={TorchSettings.root_reshard_after_forward: True},
        when={
            TorchSettings.root_reshard_after_forward: (None, False),
            TorchSettings.wrap: ("layer", "torchtitan-2024"),
        },
        engines=("fsdp",),
    ),
    Change(
        title="Sequence parallel",
        kind="free",
        note="tensor-parallel ranks gather and scatter instead of all-reducing, as many bytes",
        to={Parallelism.sequence_parallel: True},
        when={Parallelism.sequence_parallel: (False,)},
        engines=("megatron",),
    ),
    Change(
        title="Reduce gradients after every micro-batch",
        kind="communication",
        to={TorchSettings.no_sync: False},
        when={TorchSettings.no_sync: (True,)},
    ),
    Change(title="Shard over all data-parallel ranks", kind="communication", made=_all_shards),
    Change(
        title="Half of the activations of compiled blocks",
        kind="compute",
        to={_BUDGET: 0.5},
        when={Training.compile: (True,), Training.activation_checkpointing.policy: ("none",), _BUDGET: (None, 1)},
        ladder=False,
    ),
    Change(
        title="Selective checkpointing of operations",
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
        title="Selective recomputation of attention",
        kind="compute",
        to={Training.activation_checkpointing.policy: "selective"},
        when={Training.activation_checkpointing.policy: (None, "none")},
        engines=("megatron",),
    ),
    Change(
        title="Full activation checkpointing",
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
        kind="communication",
        made=_doubled(Parallelism.tensor_parallel_size, "tp"),
    ),
    Change(
        title="Twice the context parallelism",
        kind="communication",
        made=_doubled(Parallelism.context_parallel_size, "cp"),
        ladder=False,
    ),
    Change(
        title="Twice the pipeline stages",
        kind="communication",
        made=_doubled(Parallelism.pipeline_parallel_size, None),
        when={EngineSettings.version: (None, 2)},
        ladder=False,
    ),
    Change(
        title="Offload parameters, gradients and optimizer to the host",
        kind="transfer",
        to={TorchSettings.cpu_offload: True},
        when={TorchSettings.cpu_offload: (None, False)},
        engines=("fsdp",),
    ),
    Change(
        title="Share the optimizer among data-parallel ranks",
        kind="communication",
        to={DeepSpeedSettings.zero_stage: 1},
        when={DeepSpeedSettings.zero_stage: (None, 0)},
        engines=(*DEEPSPEED, "nanotron"),
    ),
    Change(
        title="Share gradients too",
        kind="communication",
        to={DeepSpeedSettings.zero_stage: 2},
        when={DeepSpeedSettings.zero_stage: (1,)},
        engines=DEEPSPEED,
    ),
    Change(
        title="Share parameters too",
        kind="communication",
        to={DeepSpeedSettings.zero_stage: 3},
        when={DeepSpeedSettings.zero_stage: (1, 2)},
        engines=DEEPSPEED,
    ),
    Change(
        title="Offload the optimizer to the host",
        kind="transfer",
        to={DeepSpeedSettings.offload_optimizer: "cpu"},
        when={DeepSpeedSettings.zero_stage: (1, 2, 3), DeepSpeedSettings.offload_optimizer: (None, "none")},
        engines=DEEPSPEED,
    ),
    Change(
        title="Reduce gradients in bf16",
        kind="precision",
        note="sums over ranks are rounded to 8 bits of mantissa",
        to={Training.reduce_dtype: "bf16"},
        when={Training.precision: ("bf16-mixed",), Training.reduce_dtype: (None, "fp32")},
        engines=("fsdp",),
        ladder=False,
    ),
    Change(
        title="AdamW with states in 8 bits",
        kind="precision",
        note="moments are rounded in blocks of 256",
        to={Training.optimizer.name: "adamw-8bit", Training.optimizer.implementation: None},
        when={Training.optimizer.name: ("adamw", "adam")},
        engines=("none", "ddp"),
    ),
    Change(
        title="Adafactor",
        kind="precision",
        note="a matrix's second moment is the product of two vectors, and there is no first moment",
        to={Training.optimizer.name: "adafactor", Training.optimizer.implementation: None},
        when={Training.optimizer.name: ("adamw", "adam")},
        engines=("none", "ddp"),
        ladder=False,
    ),
    Change(
        title="Everything in bf16, no fp32 parameters",
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
        title="LoRA of rank 16 on all linear layers",
        kind="method",
        note="only small matrices learn; gradients and optimizer states exist for them alone",
        to={
            Training.adapter.type: "lora",
            Training.adapter.rank: 16,
            Training.adapter.target_modules: "all-linear",
        },
        when={Training.adapter.type: (None,)},
        ladder=False,
    ),
    Change(title="Twice the GPUs", kind="gpus", note="more hardware for the same step", made=_more_gpus, ladder=False),
    Change(title="Sequences half as long", kind="job", note="the model sees less context", made=_shorter, ladder=False),
)
"""In order of harm, in which the ladder climbs them."""


def settings_of(job: Job, path: str) -> object:
    """A setting's value: given, or what was taken instead."""
    given = job.config.get(path)
    if given is not None:
        return given
    return next((each.value for each in job.assumptions if each.path == path), None)


def applicable(change: Change, job: Job) -> Iterator[Changes]:
    """What a row changes of a job, if it applies at all."""
    if change.engines is not None and job.engine.name not in change.engines:
        return
    for path, values in (change.when or {}).items():
        if settings_of(job, path) not in values:
            return
    if change.to is not None:
        yield change.to
    if change.made is not None:
        yield from change.made(job)
