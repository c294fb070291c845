"""Settings of how ranks divide the work."""

from __future__ import annotations

from memcore.config.kinds import Choice, Flag, Integer
from memcore.config.pipelines import Layout
from memcore.config.schema import Section, setting


class Parallelism(Section, path="parallelism"):
    """How ranks divide the work."""

    data_parallel_size = setting(
        Integer(unit="GPUs"),
        "Data parallel",
        "Ranks that work on different sequences.",
        flag="dp",
        common=True,
        default="all GPUs; 1 for servers",
    )
    data_parallel_shard_size = setting(
        Integer(unit="GPUs"),
        "Shard group",
        "Ranks over which FSDP shards; fewer than all means hybrid sharding with replicas (HSDP).",
        flag="dp-shard",
        default="all data-parallel ranks",
    )
    tensor_parallel_size = setting(
        Integer(unit="GPUs"),
        "Tensor parallel",
        "Ranks that share every layer.",
        flag="tp",
        common=True,
        default="1",
        advanced=True,
    )
    sequence_parallel = setting(
        Flag(),
        "Sequence parallel",
        "Tensor-parallel ranks share the sequence between attention and feed-forward layers.",
        flag="sequence-parallel",
        default="true with tensor parallelism",
        advanced=True,
    )
    loss_parallel = setting(
        Flag(),
        "Loss parallel",
        "Tensor-parallel ranks compute the loss on their part of the vocabulary.",
        flag="loss-parallel",
        default="true with torchtitan's layers",
        advanced=True,
    )
    pipeline_parallel_size = setting(
        Integer(unit="stages"),
        "Pipeline parallel",
        "Stages of consecutive layers, each on GPUs of its own; micro-batches pass through them.",
        flag="pp",
        common=True,
        default="1",
        advanced=True,
    )
    virtual_pipeline_parallel_size = setting(
        Integer(unit="chunks"),
        "Virtual stages",
        "Chunks of layers that each pipeline rank has, far apart in the model.",
        flag="vpp",
        default="1; 2 with PyTorch's interleaved-1f1b, zbv and dualpipev",
        advanced=True,
    )
    pipeline_layout = setting(
        Layout(),
        "Pipeline layout",
        "Layers of each stage (and virtual stage), or Megatron's text such as Et*3|(tt|)*29m|L.",
        flag="pp-layout",
        default="even; torchtitan counts embedding and head as a layer each",
        advanced=True,
    )
    pipeline_schedule = setting(
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
        default="1f1b",
        advanced=True,
    )
    expert_parallel_size = setting(
        Integer(unit="GPUs"),
        "Expert parallel",
        "Expert-parallel size. These ranks come out of the data- and context-parallel ranks.",
        flag="ep",
        default="1",
        advanced=True,
    )
    expert_tensor_parallel_size = setting(
        Integer(unit="GPUs"),
        "Expert tensor parallel",
        "Ranks that share each routed expert's matrices; torchtitan has given it up, so that only 1 is modelled there.",
        flag="etp",
        default="1",
        advanced=True,
    )
    context_parallel_size = setting(
        Integer(unit="GPUs"), "Context parallel", "Ranks that share a sequence.", flag="cp", default="1", advanced=True
    )
    ulysses_parallel_size = setting(
        Integer(unit="GPUs"),
        "Ulysses",
        "Ranks that share a sequence, and in attention its heads instead (DeepSpeed-Ulysses).",
        flag="ulysses",
        default="1",
        advanced=True,
    )
