"""The one schema: every setting, declared once, as a field of a frozen dataclass.

Command-line flags, the page's form, the URL, validation, the JSON Schema and the reference page are derived from these
fields. To add a setting, declare it here (or in `training.py`) and write the rule that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from memcore.config.bounded import check
from memcore.trainers.deepspeed.settings import DEEPSPEED, DeepSpeedFlags
from memcore.config.hardware import Hardware
from memcore.config.imported import imported
from memcore.serving.inference import SERVERS, Inference
from memcore.config.kinds import Choice, Flag, FlagOrCount, Integer, ModelName, Text, Version
from memcore.config.load import from_plain, get, replaced, to_plain
from memcore.trainers.megatron.settings import MEGATRON
from memcore.trainers.nanotron.settings import NANOTRON
from memcore.config.pipelines import Layout
from memcore.config.schema import Setting, section, setting, settings_of
from memcore.config.training import Training

_FSDP = ("fsdp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How ranks divide the work."""

    data_parallel_size: int | None = setting(
        Integer(unit="GPUs"),
        "Data parallel",
        "Ranks that work on different sequences.",
        flag="dp",
        engines=("ddp", "fsdp", *DEEPSPEED, *MEGATRON, *NANOTRON, "vllm", "sglang"),
        default="all GPUs; 1 for servers",
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
        Integer(unit="GPUs"), "Tensor parallel", "Ranks that share every layer.", flag="tp", default="1", advanced=True
    )
    sequence_parallel: bool | None = setting(
        Flag(),
        "Sequence parallel",
        "Tensor-parallel ranks share the sequence between attention and feed-forward layers.",
        flag="sequence-parallel",
        default="true with tensor parallelism",
        advanced=True,
    )
    loss_parallel: bool | None = setting(
        Flag(),
        "Loss parallel",
        "Tensor-parallel ranks compute the loss on their part of the vocabulary.",
        flag="loss-parallel",
        default="true with torchtitan's layers",
        advanced=True,
    )
    pipeline_parallel_size: int | None = setting(
        Integer(unit="stages"),
        "Pipeline parallel",
        "Stages of consecutive layers, each on GPUs of its own; micro-batches pass through them.",
        flag="pp",
        engines=("none", "fsdp", *MEGATRON, "megatron-deepspeed", *NANOTRON, *SERVERS),
        default="1",
        advanced=True,
    )
    virtual_pipeline_parallel_size: int | None = setting(
        Integer(unit="chunks"),
        "Virtual stages",
        "Chunks of layers that each pipeline rank has, far apart in the model.",
        flag="vpp",
        engines=("none", "fsdp", *MEGATRON),
        default="1; 2 with PyTorch's interleaved-1f1b, zbv and dualpipev",
        advanced=True,
    )
    pipeline_layout: str | list[int] | None = setting(
        Layout(),
        "Pipeline layout",
        "Layers of each stage (and virtual stage), or Megatron's text such as Et*3|(tt|)*29m|L.",
        flag="pp-layout",
        engines=("none", "fsdp", *MEGATRON),
        default="even; torchtitan counts embedding and head as a layer each",
        advanced=True,
    )
    pipeline_schedule: str | None = setting(
        Choice(
            ("1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zbv", "dualpipev", "dualpipe"),
            {
                "1f1b": "a backward pass after every forward pass once the pipeline is full",
                "gpipe": "all forward passes before all backward passes",
                "interleaved-1f1b": "1F1B with several chunks of layers on each rank",
                "zb-h1": "backward passes for inputs and for weights apart (PyTorch's InterleavedZeroBubble)",
                "zbv": "the same, with two stages on each rank, there and back",
                "dualpipev": "two stages on each rank, there and back, forward and backward passes overlapped",
                "dualpipe": "DeepSeek's DualPipe: a rank has a stage of either direction, and each stage is twice",
            },
        ),
        "Pipeline schedule",
        "The order of forward and backward passes on a stage.",
        flag="schedule",
        engines=("none", "fsdp", *MEGATRON, "megatron-deepspeed", *NANOTRON),
        default="1f1b",
        advanced=True,
    )
    expert_parallel_size: int | None = setting(
        Integer(unit="GPUs"),
        "Expert parallel",
        "Ranks among which routed experts are divided; they are taken from those of data and context parallelism.",
        flag="ep",
        engines=(*_FSDP, *MEGATRON, "megatron-deepspeed"),
        default="1",
        advanced=True,
    )
    expert_tensor_parallel_size: int | None = setting(
        Integer(unit="GPUs"),
        "Expert tensor parallel",
        "Ranks that share each routed expert's matrices; torchtitan has given it up, so that only 1 is modelled there.",
        flag="etp",
        engines=(*_FSDP, *MEGATRON),
        default="1",
        advanced=True,
    )
    context_parallel_size: int | None = setting(
        Integer(unit="GPUs"), "Context parallel", "Ranks that share a sequence.", flag="cp", default="1", advanced=True
    )
    ulysses_parallel_size: int | None = setting(
        Integer(unit="GPUs"),
        "Ulysses",
        "Ranks that share a sequence, and in attention its heads instead (DeepSpeed-Ulysses).",
        flag="ulysses",
        engines=DEEPSPEED,
        default="1",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(DeepSpeedFlags):
    """Who runs the step, or serves."""

    type: str | None = setting(
        Choice(
            ("none", "ddp", "fsdp", *DEEPSPEED, *MEGATRON, *NANOTRON, *SERVERS),
            {
                "none": "one GPU",
                "megatron": "Megatron-Core: tensor, pipeline, context and expert parallelism",
                "megatron-fsdp": "the same with parameters sharded by Megatron-FSDP",
                "ddp": "DistributedDataParallel: a full copy on every GPU",
                "fsdp": "FSDP2: fully sharded",
                "deepspeed": "DeepSpeed: ZeRO stages 0 to 3, on the GPU or offloaded",
                "megatron-deepspeed": "Megatron-DeepSpeed: tensor parallelism or Ulysses under ZeRO",
                "nanotron": "nanotron: tensor, pipeline and data parallelism with ZeRO-1",
                "transformers": "serving with generate() of transformers, or a script like it",
                "vllm": "serving with vLLM",
                "sglang": "serving with SGLang",
                "tensorrt-llm": "serving with TensorRT-LLM",
                "llama.cpp": "serving a GGUF file with llama.cpp",
            },
        ),
        "Engine",
        "Who shares out the work: DDP replicates everything, FSDP shards parameters, gradients and optimizer.",
        flag="engine",
        default="none on one GPU, fsdp on several",
    )
    version: int | str | None = setting(
        Version(),
        "Engine version",
        "FSDP: 2 is FSDP2. Servers: their release, such as 0.19.0, by which defaults and budgets differ.",
        engines=(*_FSDP, *SERVERS),
        flag="engine-version",
        default="2 for FSDP; the newest release that is known",
        advanced=True,
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
        "Autocast",
        "The forward pass runs under torch.autocast; over FSDP in addition to its policy, as accelerate does.",
        flag="autocast",
        engines=("none", "ddp", "fsdp"),
        default="by the precision preset",
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
    pipeline_runtime: str | None = setting(
        Choice(
            ("torch", "ideal"),
            {
                "torch": "torch.distributed.pipelining, with receive buffers for all micro-batches",
                "ideal": "a schedule that keeps no more than the micro-batches in flight need",
            },
        ),
        "Pipeline runtime",
        "Who runs the schedule of a pipeline.",
        flag="pipeline-runtime",
        engines=("none", "fsdp"),
        default="torch",
        advanced=True,
    )
    return_outputs: bool | None = setting(
        Flag(),
        "Return outputs",
        "The last stage of a pipeline keeps the logits of all micro-batches until the next step.",
        flag="return-outputs",
        engines=("none", "fsdp"),
        default="true, as in torch.distributed.pipelining; false with torchtitan's layers",
        advanced=True,
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
        Text(),
        "Framework",
        "Who drives the engine. A loop of one's own (peft, accelerate, lit-gpt) holds the model's outputs through the "
        "backward pass; LitGPT and torchtune keep no embedding's moments in 32 bits; TRL loads in fp32.",
        flag="framework",
        default="transformers' Trainer",
        advanced=True,
    )
    framework_version: str | None = setting(
        Text(),
        "Framework version",
        "Its version or commit: transformers 4 loads in fp32, and torchtitan's layers and losses changed.",
        flag="framework-version",
        advanced=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One description of one job. Absent settings are what the engine does by default."""

    model: str | Mapping[str, object] = setting(
        ModelName(),
        "Model",
        "A model of the catalog by its id or hub id, or the content of a Hugging Face config.json.",
        flag="model",
        required=True,
    )
    training: Training = section(Training)
    inference: Inference = section(Inference)
    parallelism: Parallelism = section(Parallelism)
    engine: Engine = section(Engine)
    hardware: Hardware = section(Hardware)

    @classmethod
    def from_dict(cls, data: object) -> Config:
        """A config from what a JSON file holds.

        >>> Config.from_dict({"model": "gpt2", "training": {"batch_size": 8}}).training.micro_batch_size
        8

        Raises ConfigError with every problem found: unknown keys, wrong types, values that are not allowed.
        """
        check(data)
        return from_plain(cls, imported(data).config if isinstance(data, Mapping) else data)

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary; what is absent is left out."""
        return to_plain(self)

    def get(self, path: str) -> Any:
        """The value of a setting by its path, or None where it is absent."""
        return get(self, path)

    def replaced(self, path: str, value: Any) -> Config:
        """A copy with one setting changed; None makes it absent.

        Raises ConfigError if the value is not allowed.
        """
        return replaced(self, path, value)


SETTINGS: Mapping[str, Setting] = dict(settings_of(Config))
"""Every setting by its path, such as `training.sequence_length`."""
_VALUES = attrgetter(*SETTINGS)


def values_of(config: Config) -> dict[str, Any]:
    """The value of every setting by its path, None where it is absent."""
    return dict(zip(SETTINGS, _VALUES(config), strict=True))
