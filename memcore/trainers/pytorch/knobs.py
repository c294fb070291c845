"""What PyTorch's own engines offer to a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.config.engine import EngineSettings
from memcore.config.knobs import Knob, Method, Settings, Way
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.networks.adapters import mixer_names
from memcore.trace.changes import Change, Changes
from memcore.trace.job import Job
from memcore.trainers.pytorch.flavors import FLAVORS
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.titan_module import name_of

_AC = Training.activation_checkpointing
_CLEARED: Settings = dict.fromkeys((_AC.mode, _AC.every, _AC.method, _AC.num_layers, _AC.modules))
NOTHING = Knob(
    title="No checkpointing",
    to={},
    why="nothing is computed twice",
    source="pytorch 2.9, torch/utils/checkpoint.py",
)
BY_OPERATION = Knob(
    title="Selective checkpointing",
    to={**_CLEARED, _AC.policy: "selective", _AC.mode: "op", Training.activation_memory_budget: None},
    when={_AC.policy: (None, "none")},
    why="every second matrix product and cheap operations are recomputed, attention is not",
    source="torchtitan, distributed/activation_checkpoint.py; pytorch 2.9, torch/utils/checkpoint.py",
)
FULL = Knob(
    title="Full checkpointing",
    to={**_CLEARED, _AC.policy: "full", Training.activation_memory_budget: None},
    when={_AC.policy: (None, "none", "selective")},
    why="each layer saves only its input; "
    "the forward pass runs twice: a third more compute, half more if the weights are frozen",
    source="pytorch 2.9, torch/utils/checkpoint.py; transformers 4.57, modeling_layers.py",
)
DEGREES = (NOTHING, BY_OPERATION, FULL)
PLAIN_DEGREES = (NOTHING, FULL)
"""transformers' Trainer checkpoints whole layers or none (training_args.py, gradient_checkpointing)."""
_TYPE, _LAYERS = EngineSettings.type, Training.implementation
_TO_HOST = Knob(
    title="FSDP's CPU offload",
    to={TorchSettings.cpu_offload: True},
    when={TorchSettings.cpu_offload: (None, False)},
    why="shards, gradients and optimizer states stay on the host, and the CPU runs the step",
    source="pytorch 2.9, distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy",
)
_SAVED_TO_HOST = Knob(
    title="Checkpoints on the host",
    to={**FULL.to, Training.offload.activations: "cpu"},
    when={Training.offload.activations: (None,)},
    why="each layer saves only its input, which waits in the host's memory for the backward pass",
    source="trl, models/activation_offloading.py; torchtune, training/_activation_offloading.py",
)
_EXPERTS = Knob(
    title="Experts quantized too",
    to={TorchSettings.quantize_moe_experts: True},
    why="transformers 5 stacks experts in one tensor, which bitsandbytes leaves in 16 bits otherwise",
    source="axolotl, docs/expert_quantization.qmd",
)


def _where_chunks_are(job: Job) -> Settings | None:
    """Nothing more, where torchtitan reads a function; files have no loss in chunks, functions since May 2026."""
    return None if name_of(job.config) is None else {}


_CHUNKED = Knob(
    title="Chunked loss",
    to={Training.loss: "chunked:8"},
    when={Training.loss: (None, "cross-entropy-fp32", "cross-entropy")},
    why="head and loss run over an eighth of the sequence at a time, so the logits never exist in full",
    unless="stages",
    made=_where_chunks_are,
    source="torchtitan, components/loss.py, ChunkedLossWrapper",
)
_TITAN: Mapping[str, tuple[object, ...]] = {
    Training.quantization: (None,),
    Training.adapter.type: (None,),
    Training.optimizer.name: (None, "adamw", "adam"),
    TorchSettings.optimizer_in_bwd: (None, False),
}
"""What torchtitan's files and commands can say.

Adapters are chosen in Python (components/lora.py); only releases of 2025 stepped in the backward pass
(components/optimizer.py).
"""
_SCALES = Knob(
    title="Doubly quantized weights",
    to={Training.quantization: "nf4-double"},
    when={Training.quantization: ("nf4",)},
    why="Unsloth quantizes the scales of NF4's blocks too",
    source="unsloth, models/llama.py, bnb_4bit_use_double_quant",
)
_UNSLOTH: Mapping[str, tuple[object, ...]] = {
    Training.adapter.type: ("lora", "rslora"),
    Training.quantization: (None, "nf4", "nf4-double"),
    Training.method.name: (None, "sft"),
}
"""What Unsloth is for: adapters, whose kernels it has (unsloth, kernels/fast_lora.py); full training runs as in TRL."""
WAYS: Mapping[str, tuple[Way, ...]] = {
    "none": (
        Way(
            title="one GPU",
            settings={_TYPE: "none"},
            degrees=PLAIN_DEGREES,
            transfers=(_SAVED_TO_HOST,),
            experts=_EXPERTS,
            alone=True,
        ),
        Way(
            title="Unsloth",
            settings={_TYPE: "none", _LAYERS: "unsloth", EngineSettings.framework: "unsloth"},
            free=(_SCALES,),
            degrees=PLAIN_DEGREES,
            transfers=(_SAVED_TO_HOST,),
            only=_UNSLOTH,
            alone=True,
        ),
    ),
    "ddp": (Way(title="DDP", settings={_TYPE: "ddp"}, degrees=PLAIN_DEGREES, alone=False, named=True),),
    "fsdp": (
        Way(
            title="FSDP",
            settings={_TYPE: "fsdp", _LAYERS: "transformers"},
            divides=frozenset({"replicas"}),
            degrees=PLAIN_DEGREES,
            transfers=(_TO_HOST,),
            alone=False,
        ),
        Way(
            title="torchtitan",
            settings={_TYPE: "fsdp", _LAYERS: "torchtitan"},
            free=(_CHUNKED,),
            divides=frozenset({"tensor", "stages", "context", "experts", "replicas"}),
            degrees=DEGREES,
            transfers=(_TO_HOST,),
            only=_TITAN,
            models=frozenset(FLAVORS),
            alone=False,
        ),
    ),
}
"""By the value of `engine.type`."""
NEXT: Mapping[str, tuple[str, ...]] = {"none": ("fsdp",), "ddp": ("fsdp",)}
"""Engines that users of one move on to when a job outgrows it."""


def _all_shards(job: Job) -> Iterator[Changes]:
    """Yield one group of ranks that shards instead of several."""
    ranks = job.num_gpus // (job.stages * job.sizes["tp"])
    if 1 <= job.sizes["z"] < ranks:
        yield {Parallelism.data_parallel_shard_size: ranks}


CHANGES: tuple[Change, ...] = (
    Change(
        title="Gradients as views of DDP's buckets",
        rung="switches",
        kind="free",
        note="one copy of the gradients instead of two",
        to={TorchSettings.gradient_as_bucket_view: True},
        when={TorchSettings.gradient_as_bucket_view: (None, False)},
        engines=("ddp",),
    ),
    Change(
        title="FSDP instead of DDP",
        rung="sharding",
        kind="communication",
        to={EngineSettings.type: "fsdp"},
        when={EngineSettings.type: ("ddp",)},
    ),
    Change(
        title="Free parameters between forward and backward pass",
        rung="sharding",
        kind="communication",
        to={TorchSettings.reshard_after_forward: True},
        when={TorchSettings.reshard_after_forward: (False,)},
        engines=("fsdp",),
    ),
    Change(
        title="Free the root's parameters after the forward pass",
        rung="sharding",
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
        title="Reduce gradients after every micro-batch",
        rung="sharding",
        kind="communication",
        to={TorchSettings.no_sync: False},
        when={TorchSettings.no_sync: (True,)},
    ),
    Change(
        title="Shard over all data-parallel ranks",
        rung="sharding",
        kind="communication",
        made=_all_shards,
        engines=("fsdp",),
    ),
    Change(
        title="Offload parameters, gradients and optimizer to the host",
        rung="elsewhere",
        kind="transfer",
        to={TorchSettings.cpu_offload: True},
        when={TorchSettings.cpu_offload: (None, False)},
        engines=("fsdp",),
    ),
    Change(
        title="Reduce gradients in bf16",
        rung="states",
        kind="precision",
        note="sums over ranks are rounded to 8 bits of mantissa",
        to={Training.reduce_dtype: "bf16"},
        when={Training.precision: ("bf16-mixed",), Training.reduce_dtype: (None, "fp32")},
        engines=("fsdp",),
        ladder=False,
    ),
    Change(
        title="AdamW with 8-bit states",
        rung="states",
        kind="precision",
        note="both moments are quantized in blocks of 256",
        to={Training.optimizer.name: "adamw-8bit", Training.optimizer.implementation: None},
        when={Training.optimizer.name: ("adamw", "adam")},
        engines=("none", "ddp"),
    ),
    Change(
        title="Adafactor",
        rung="states",
        kind="precision",
        note="a matrix's second moment is the product of two vectors, and there is no first moment",
        to={Training.optimizer.name: "adafactor", Training.optimizer.implementation: None},
        when={Training.optimizer.name: ("adamw", "adam")},
        engines=("none", "ddp"),
        ladder=False,
    ),
)
"""Changes that save memory, which no other trainer has."""
_ADAFACTOR = Knob(
    title="Adafactor, stepped inside the backward pass",
    to={
        Training.optimizer.name: "adafactor",
        Training.optimizer.implementation: None,
        Training.precision: "bf16",
        Training.gradient_clipping: False,
        TorchSettings.optimizer_in_bwd: True,
    },
    when={Training.optimizer.name: (None, "adamw", "adam"), Training.adapter.type: (None,)},
    why="the second moment is two vectors per matrix, and each gradient is freed right after its use",
    quality="no first moment, no gradient clipping, and bf16 parameters lose small updates",
    source="arXiv 1804.04235; torchtune, training/memory.py, OptimizerInBackwardWrapper",
)
_EIGHT_BITS = Knob(
    title="AdamW with 8-bit states, stepped inside the backward pass",
    to={
        Training.optimizer.name: "adamw-8bit",
        Training.optimizer.implementation: None,
        Training.gradient_clipping: False,
        TorchSettings.optimizer_in_bwd: True,
    },
    when={Training.optimizer.name: (None, "adamw", "adam"), Training.adapter.type: (None,)},
    why="two bytes of moments per parameter, and each gradient is freed right after its use",
    quality="both moments are quantized in blocks of 256, and there is no gradient clipping",
    source="torchtune, recipes/configs/llama3_1/8B_full_single_device.yaml",
)


def _at_attention(job: Job) -> Settings | None:
    """Linear layers of attention, where experts have adapters too; None for a model without experts."""
    if "E" not in job.model.sizes:
        return None
    everywhere = job.config[Training.adapter.target_modules] in (None, "all-linear")
    return {Training.adapter.target_modules: mixer_names(job.model.network)} if everywhere else {}


_EXPERTS_TOO = Knob(
    title="Experts quantized too, LoRA on attention only",
    to=_EXPERTS.to,
    when={
        Training.adapter.type: ("lora", "rslora", "dora"),
        Training.quantization: ("nf4", "nf4-double", "fp4", "fp4-double", "int8"),
        TorchSettings.quantize_moe_experts: (None, False),
    },
    made=_at_attention,
    why=_EXPERTS.why,
    quality="experts learn nothing, and their weights are rounded like the others",
    source="axolotl, docs/expert_quantization.qmd",
)
METHODS = (
    Method("states", (_EIGHT_BITS,), spare=True),
    Method("method", (_ADAFACTOR,), spare=True),
    Method("quantized", (_EXPERTS_TOO,)),
)
"""Ways to train that need something which only these engines have."""
