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
        "Data-parallel size: ranks that process different sequences.",
        flag="dp",
        common=True,
        default="all GPUs; 1 for servers",
    )
    data_parallel_shard_size = setting(
        Integer(unit="GPUs"),
        "Shard group",
        "Ranks over which FSDP shards; fewer than all gives hybrid sharding (HSDP).",
        flag="dp-shard",
        default="all data-parallel ranks",
    )
    tensor_parallel_size = setting(
        Integer(unit="GPUs"),
        "Tensor parallel",
        "Tensor-parallel size: ranks over which every layer is split.",
        flag="tp",
        common=True,
        default="1",
        advanced=True,
    )
    sequence_parallel = setting(
        Flag(),
        "Sequence parallel",
        "Split the sequence over tensor-parallel ranks outside attention and feed-forward layers.",
        flag="sequence-parallel",
        default="true with tensor parallelism",
        advanced=True,
    )
    loss_parallel = setting(
        Flag(),
        "Loss parallel",
        "Compute the loss on vocabulary-parallel logits, without gathering them.",
        flag="loss-parallel",
        default="true with torchtitan's layers",
        advanced=True,
    )
    pipeline_parallel_size = setting(
        Integer(unit="stages"),
        "Pipeline parallel",
        "Pipeline-parallel size: stages of consecutive layers, each on its own GPUs.",
        flag="pp",
        common=True,
        default="1",
        advanced=True,
    )
    virtual_pipeline_parallel_size = setting(
        Integer(unit="chunks"),
        "Virtual stages",
        "Virtual stages (layer chunks) per pipeline rank.",
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
                "1f1b": "1F1B: alternate forward and backward passes once the pipeline is full",
                "gpipe": "GPipe: all forward passes before all backward passes",
                "interleaved-1f1b": "interleaved 1F1B with several virtual stages per rank",
                "zb-h1": "zero bubble: separate input and weight backward passes (PyTorch's InterleavedZeroBubble)",
                "zbv": "zero bubble with two stages per rank in a V shape",
                "dualpipev": "two stages per rank in a V shape, forward and backward passes overlapped",
                "dualpipe": "DeepSeek's DualPipe: each rank holds a stage per direction, so each stage exists twice",
            },
        ),
        "Pipeline schedule",
        "Order of forward and backward passes on each stage.",
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
        "Ranks over which each routed expert's matrices are split. torchtitan has removed it: only 1 is "
        "supported there.",
        flag="etp",
        default="1",
        advanced=True,
    )
    context_parallel_size = setting(
        Integer(unit="GPUs"),
        "Context parallel",
        "Context-parallel size: ranks over which each sequence is split.",
        flag="cp",
        default="1",
        advanced=True,
    )
    ulysses_parallel_size = setting(
        Integer(unit="GPUs"),
        "Ulysses",
        "DeepSpeed-Ulysses size: ranks that split the sequence and, inside attention, the heads.",
        flag="ulysses",
        default="1",
        advanced=True,
    )
