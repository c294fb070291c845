"""The one schema: every setting, declared once, as a field of a frozen dataclass.

Command-line flags, the page's form, the URL, validation, the JSON Schema and the reference page are derived from these
fields. To add a setting, declare it here and write the rule that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from memcore.config.kinds import Choice, Counted, Flag, FlagOrCount, Integer, Kind, Number, Text
from memcore.dtypes import FLOATING


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known about one setting besides its value."""

    kind: Kind
    label: str
    help: str
    flag: str | None = None
    """Short name on the command line and in URLs; by default the key with dashes."""
    aliases: tuple[str, ...] = ()
    """Other keys that files use for it."""
    engines: tuple[str, ...] | None = None
    """Engines it applies to; None is all."""
    default: str = ""
    """What a missing key means, for people."""
    advanced: bool = False
    """Shown only on demand."""


def setting(kind: Kind, label: str, help: str, **more: Any) -> Any:  # noqa: A002
    """A field that is a setting and absent by default."""
    return field(default=None, metadata={"setting": Setting(kind=kind, label=label, help=help, **more)})


def section(**metadata: Any) -> Any:
    """A field that is a section with settings of its own."""
    return field(default=None, metadata=metadata)


_DTYPE = Choice(FLOATING)
_FSDP = ("fsdp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """The optimizer; in a file also just its name."""

    name: str | None = setting(
        Choice(("adamw", "adam", "sgd")),
        "Optimizer",
        "Adam keeps two numbers for each parameter, SGD none, or one with momentum.",
        flag="optimizer",
        default="adamw",
    )
    implementation: str | None = setting(
        Choice(
            ("fused", "foreach", "for-loop"),
            {
                "fused": "one kernel, no temporaries",
                "foreach": "lists of tensors: a temporary as large as all parameters of this rank",
                "for-loop": "one parameter at a time",
            },
        ),
        "Implementation",
        "How the step is computed; it decides the memory that the step itself needs.",
        flag="optimizer-implementation",
        default="fused, as in the Hugging Face Trainer and torchtitan; foreach for SGD, as in torch.optim",
        advanced=True,
    )
    momentum: float | None = setting(
        Number(0, 1),
        "Momentum",
        "SGD only: above zero it keeps one number for each parameter.",
        flag="momentum",
        default="0",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """Activation checkpointing; in a file also just its policy."""

    policy: str | None = setting(
        Choice(
            ("none", "full"),
            {"none": "keep what the backward pass needs", "full": "keep each layer's input and compute the rest again"},
        ),
        "Activation checkpointing",
        "Full checkpointing keeps only the input of each layer and runs the layer again in the backward pass.",
        flag="checkpointing",
        default="none",
    )
    early_stop: bool | None = setting(
        Flag(),
        "Early stop",
        "The second run of a layer ends as soon as everything the backward pass needs exists again.",
        flag="early-stop",
        default="true, as in torch.utils.checkpoint",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropout:
    """Dropout probabilities while training."""

    hidden: float | None = setting(
        Number(0, 1),
        "Hidden dropout",
        "Probability of dropping elements of the residual branches; above zero a mask of one byte per element is kept.",
        flag="hidden-dropout",
        default="what the model's config.json says",
        advanced=True,
    )
    attention: float | None = setting(
        Number(0, 1),
        "Attention dropout",
        "Probability of dropping attention weights; only eager attention keeps a mask for it.",
        flag="attention-dropout",
        default="what the model's config.json says",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What one rank computes in a step."""

    sequence_length: int | None = setting(
        Integer(unit="tokens"),
        "Sequence length",
        "Tokens in a sequence.",
        flag="seq",
        default="the model's maximum, at most 4096",
    )
    micro_batch_size: int | None = setting(
        Integer(unit="sequences"),
        "Micro-batch size",
        "Sequences in one forward pass on one GPU.",
        flag="micro-batch",
        aliases=("batch_size",),
        default="1",
    )
    gradient_accumulation_steps: int | None = setting(
        Integer(unit="micro-batches"),
        "Gradient accumulation",
        "Micro-batches for each optimizer step on one GPU. From the second one on gradients are there from the start.",
        flag="grad-accum",
        default="1",
    )
    precision: str | None = setting(
        Choice(
            ("fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed", "bf16-autocast"),
            {
                "fp32": "everything in fp32",
                "bf16": "parameters, gradients and optimizer states in bf16, no fp32 copy",
                "fp16": "parameters, gradients and optimizer states in fp16",
                "bf16-mixed": "fp32 parameters, computed in bf16: by FSDP's policy, else by autocast",
                "fp16-mixed": "fp32 parameters, computed in fp16: by FSDP's policy, else by autocast",
                "bf16-autocast": "fp32 parameters under torch.autocast: fp32 residual stream, cast weights cached",
            },
        ),
        "Precision",
        "A preset of the dtypes below, set the way the engine does.",
        flag="precision",
        default="bf16-mixed with FSDP; else bf16, the checkpoint's dtype, as in transformers 5",
    )
    parameter_dtype: str | None = setting(
        _DTYPE, "Parameter dtype", "The parameters as the optimizer keeps them.", default="by the preset", advanced=True
    )
    compute_dtype: str | None = setting(
        _DTYPE,
        "Compute dtype",
        "The parameters as the layers see them; FSDP gathers in this dtype.",
        default="by the preset",
        advanced=True,
    )
    gradient_dtype: str | None = setting(
        _DTYPE,
        "Gradient dtype",
        "The gradients that the optimizer reads. In PyTorch they have the parameters' dtype.",
        default="the parameter dtype",
        advanced=True,
    )
    reduce_dtype: str | None = setting(
        _DTYPE,
        "Reduce dtype",
        "The dtype in which FSDP sums gradients over ranks.",
        engines=_FSDP,
        default="fp32 with a mixed preset, else the compute dtype",
        advanced=True,
    )
    master_dtype: str | None = setting(
        Choice(("none",)),
        "Master copy",
        "A separate copy of the parameters for the optimizer; PyTorch's engines have none.",
        default="none",
        advanced=True,
    )
    optimizer: Optimizer | None = section(of=Optimizer, shorthand="name")
    gradient_clipping: bool | None = setting(
        Flag(),
        "Gradient clipping",
        "Clip by the global norm: one number for each parameter tensor, scaled in place.",
        flag="clip",
        default="true",
        advanced=True,
    )
    zero_grad: str | None = setting(
        Choice(
            ("set-to-none", "keep"),
            {"set-to-none": "freed after each optimizer step", "keep": "set to zero and kept between steps"},
        ),
        "Zeroing gradients",
        "Whether gradients stay in memory between steps.",
        flag="zero-grad",
        default="set-to-none",
        advanced=True,
    )
    activation_checkpointing: Checkpointing | None = section(of=Checkpointing, shorthand="policy")
    implementation: str | None = setting(
        Choice(
            ("transformers", "torchtitan"),
            {"transformers": "Hugging Face transformers 5.23", "torchtitan": "torchtitan's Llama of December 2024"},
        ),
        "Layer code",
        "Whose layers run: it decides which tensors are saved for the backward pass.",
        flag="implementation",
        default="transformers",
    )
    attention: str | None = setting(
        Choice(
            ("sdpa", "flash", "efficient", "cudnn", "math"),
            {
                "sdpa": "PyTorch chooses: flash if it can, else memory-efficient, else math",
                "flash": "FlashAttention 2",
                "efficient": "the memory-efficient kernel of SDPA",
                "cudnn": "the cuDNN kernel of SDPA",
                "math": "eager attention: all scores in memory, quadratic in the sequence",
            },
        ),
        "Attention kernel",
        "What attention keeps in memory.",
        flag="attention",
        default="sdpa; math where the family has no SDPA in transformers (Gemma 2)",
    )
    attention_mask: str | None = setting(
        Choice(("none", "padded"), {"none": "sequences are full or packed", "padded": "a padding mask is passed"}),
        "Attention mask",
        "A padding mask rules out the flash kernel in SDPA, and keys and values are copied for every query head.",
        flag="attention-mask",
        default="none",
        advanced=True,
    )
    loss: str | None = setting(
        Counted(
            ("cross-entropy-fp32", "cross-entropy"),
            "chunked",
            {
                "cross-entropy-fp32": "logits upcast to fp32",
                "cross-entropy": "logits in the compute dtype",
                "chunked:N": "upcast in N chunks of the sequence",
            },
        ),
        "Loss",
        "Logits and cross-entropy are often the peak: 10 to 14 bytes for each token and word of the vocabulary.",
        flag="loss",
        default="cross-entropy-fp32, as in transformers",
    )
    loss_shift: str | None = setting(
        Choice(
            ("model", "labels-preshifted"),
            {"model": "the model computes the loss", "labels-preshifted": "the trainer computes it after the model"},
        ),
        "Label shift",
        "Who shifts the labels and computes the loss: inside the model, FSDP's last gathered parameters are there.",
        flag="loss-shift",
        default="model; labels-preshifted with torchtitan's layers",
        advanced=True,
    )
    outputs_kept: bool | None = setting(
        Flag(),
        "Outputs kept",
        "The trainer holds the model's output object, and with it the logits, through the backward pass.",
        flag="outputs-kept",
        default="false",
        advanced=True,
    )
    compile: bool | None = setting(
        Flag(), "torch.compile", "Compiled blocks; not modelled yet.", flag="compile", default="false", advanced=True
    )
    dropout: Dropout | None = section(of=Dropout)
    use_cache: bool | None = setting(
        Flag(),
        "KV cache in training",
        "Hugging Face's use_cache was left on: keys and values are copied into a cache that nobody reads.",
        flag="use-cache",
        default="false",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How ranks divide the work."""

    data_parallel_size: int | None = setting(
        Integer(unit="GPUs"),
        "Data parallel",
        "Ranks that work on different sequences.",
        flag="dp",
        engines=("ddp", "fsdp"),
        default="all GPUs",
    )
    data_parallel_shard_size: int | None = setting(
        Integer(unit="GPUs"),
        "Shard group",
        "Ranks over which FSDP shards; fewer than all means hybrid sharding with replicas (HSDP).",
        flag="dp-shard",
        engines=_FSDP,
        default="all data-parallel ranks",
    )
    tensor_parallel_size: int | None = setting(
        Integer(unit="GPUs"), "Tensor parallel", "Not modelled yet.", flag="tp", default="1", advanced=True
    )
    pipeline_parallel_size: int | None = setting(
        Integer(unit="GPUs"), "Pipeline parallel", "Not modelled yet.", flag="pp", default="1", advanced=True
    )
    context_parallel_size: int | None = setting(
        Integer(unit="GPUs"), "Context parallel", "Not modelled yet.", flag="cp", default="1", advanced=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Who runs the step."""

    type: str | None = setting(
        Choice(
            ("none", "ddp", "fsdp"),
            {
                "none": "one GPU",
                "ddp": "DistributedDataParallel: a full copy on every GPU",
                "fsdp": "FSDP2: fully sharded",
            },
        ),
        "Engine",
        "Who shares out the work: DDP replicates everything, FSDP shards parameters, gradients and optimizer.",
        flag="engine",
        default="none on one GPU, fsdp on several",
    )
    version: int | None = setting(
        Integer(2, 2), "FSDP version", "2 is FSDP2.", engines=_FSDP, flag="fsdp-version", default="2", advanced=True
    )
    reshard_after_forward: bool | int | None = setting(
        FlagOrCount(),
        "Reshard after forward",
        "Whether parameters are freed between forward and backward; a number reshards to groups of that many ranks.",
        flag="reshard",
        engines=_FSDP,
        default="true",
    )
    root_reshard_after_forward: bool | None = setting(
        Flag(),
        "Reshard the root",
        "Whether the root's parameters (embedding, final norm, head) are freed after the forward pass too.",
        flag="root-reshard",
        engines=_FSDP,
        default="false, as fully_shard does for the root",
        advanced=True,
    )
    wrap: str | None = setting(
        Choice(
            ("layer", "torchtitan", "torchtitan-2024"),
            {
                "layer": "each layer; the root holds the rest",
                "torchtitan": "embedding, each layer, and norm with head",
                "torchtitan-2024": "each layer, the last one not resharded; the root holds the rest",
            },
        ),
        "Wrapping",
        "Which parameters FSDP gathers together.",
        flag="wrap",
        engines=_FSDP,
        default="layer; torchtitan with torchtitan's layers",
        advanced=True,
    )
    cpu_offload: bool | None = setting(
        Flag(),
        "CPU offload",
        "FSDP keeps shards, gradients and optimizer on the host.",
        flag="cpu-offload",
        engines=_FSDP,
        default="false",
    )
    no_sync: bool | None = setting(
        Flag(),
        "Accumulate without communication",
        "Only the last micro-batch reduces gradients; until then FSDP keeps them unsharded on every GPU.",
        flag="no-sync",
        engines=("ddp", "fsdp"),
        default="false",
        advanced=True,
    )
    autocast: bool | None = setting(
        Flag(),
        "Autocast over FSDP",
        "The forward pass runs under torch.autocast in addition to FSDP's policy, as accelerate does.",
        flag="autocast",
        engines=_FSDP,
        default="false",
        advanced=True,
    )
    gradient_as_bucket_view: bool | None = setting(
        Flag(),
        "Gradients as bucket views",
        "DDP's gradients share memory with its communication buckets.",
        flag="bucket-view",
        engines=("ddp",),
        default="false, as in DistributedDataParallel",
    )
    bucket_cap_mb: int | None = setting(
        Integer(unit="MiB"),
        "Bucket size",
        "Size of DDP's communication buckets. Together they hold all gradients, whatever their size.",
        flag="bucket-cap",
        engines=("ddp",),
        default="25",
        advanced=True,
    )
    static_graph: bool | None = setting(
        Flag(),
        "Static graph",
        "DDP is told that the graph never changes; memory is the same.",
        flag="static-graph",
        engines=("ddp",),
        default="false",
        advanced=True,
    )
    expandable_segments: bool | None = setting(
        Flag(),
        "Expandable segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: less memory reserved and unused.",
        flag="expandable-segments",
        default="false",
    )
    framework: str | None = setting(
        Text(), "Framework", "Who drives the engine; for the record.", flag="framework", advanced=True
    )
    framework_version: str | None = setting(
        Text(), "Framework version", "Its version; for the record.", flag="framework-version", advanced=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the job runs on."""

    accelerator: str | None = setting(
        Text(),
        "Accelerator",
        "The GPU, by its id in the catalog.",
        flag="accelerator",
        default="none: no verdict whether it fits",
    )
    num_gpus: int | None = setting(
        Integer(unit="GPUs"), "GPUs", "GPUs of the whole job.", flag="gpus", default="the product of the parallel sizes"
    )
    gpus_per_node: int | None = setting(
        Integer(unit="GPUs"),
        "GPUs in a node",
        "For the record; memory does not depend on it yet.",
        flag="gpus-per-node",
        default="8",
        advanced=True,
    )
    gpu_memory_gb: float | None = setting(
        Number(0.1, 10000, unit="GiB"),
        "GPU memory",
        "Overrides the catalog's capacity, in GiB as nvidia-smi counts.",
        flag="gpu-memory",
        default="the catalog's",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One description of one job. Absent settings are what the engine does by default."""

    model: str | Mapping[str, object]
    """A catalog id, or the content of a Hugging Face `config.json`."""
    training: Training = field(default_factory=Training, metadata={"of": Training})
    parallelism: Parallelism = field(default_factory=Parallelism, metadata={"of": Parallelism})
    engine: Engine = field(default_factory=Engine, metadata={"of": Engine})
    hardware: Hardware = field(default_factory=Hardware, metadata={"of": Hardware})


def settings_of(cls: type, path: str = "") -> Iterator[tuple[str, Setting]]:
    """Every setting below a section, with its path."""
    for each in fields(cls):
        here = f"{path}.{each.name}" if path else each.name
        if "setting" in each.metadata:
            yield here, each.metadata["setting"]
        elif "of" in each.metadata:
            yield from settings_of(each.metadata["of"], here)


SETTINGS: Mapping[str, Setting] = dict(settings_of(Config))
"""Every setting by its path, such as `training.sequence_length`."""


def flag_of(path: str) -> str:
    """A setting's name on the command line and in URLs."""
    return SETTINGS[path].flag or path.rpartition(".")[2].replace("_", "-")
