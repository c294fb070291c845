"""Settings of PyTorch's own engines, as PyTorch, torchtitan, LitGPT and PEFT name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, FlagOrCount, Integer
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training

_FSDP = ("fsdp",)


class TorchSettings(Section, path="engine"):
    """What PyTorch's engines can be told besides the job itself."""

    reshard_after_forward = setting(
        FlagOrCount(),
        "Reshard after forward",
        "Whether parameters are freed between forward and backward; a number reshards to groups of that many ranks.",
        flag="reshard",
        engines=_FSDP,
        default="true",
    )
    root_reshard_after_forward = setting(
        Flag(),
        "Reshard the root",
        "Whether the root's parameters (embedding, final norm, head) are freed after the forward pass too.",
        flag="root-reshard",
        engines=_FSDP,
        default="false, as fully_shard does for the root",
        advanced=True,
    )
    wrap = setting(
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
    cpu_offload = setting(
        Flag(),
        "CPU offload",
        "FSDP keeps shards, gradients and optimizer on the host.",
        flag="cpu-offload",
        engines=_FSDP,
        default="false",
    )
    no_sync = setting(
        Flag(),
        "Accumulate without communication",
        "Only the last micro-batch reduces gradients; until then FSDP keeps them unsharded on every GPU.",
        flag="no-sync",
        engines=("ddp", "fsdp"),
        default="false",
        advanced=True,
    )
    autocast = setting(
        Flag(),
        "Autocast",
        "The forward pass runs under torch.autocast; over FSDP in addition to its policy, as accelerate does.",
        flag="autocast",
        engines=("none", "ddp", "fsdp"),
        default="by the precision preset",
        advanced=True,
    )
    gradient_as_bucket_view = setting(
        Flag(),
        "Gradients as bucket views",
        "DDP's gradients share memory with its communication buckets.",
        flag="bucket-view",
        engines=("ddp",),
        default="false, as in DistributedDataParallel",
    )
    pipeline_runtime = setting(
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
    return_outputs = setting(
        Flag(),
        "Return outputs",
        "The last stage of a pipeline keeps the logits of all micro-batches until the next step.",
        flag="return-outputs",
        engines=("none", "fsdp"),
        default="true, as in torch.distributed.pipelining; false with torchtitan's layers",
        advanced=True,
    )
    bucket_cap_mb = setting(
        Integer(unit="MiB"),
        "Bucket size",
        "Size of DDP's communication buckets. Together they hold all gradients, whatever their size.",
        flag="bucket-cap",
        engines=("ddp",),
        default="25",
        advanced=True,
    )
    static_graph = setting(
        Flag(),
        "Static graph",
        "DDP is told that the graph never changes; memory is the same.",
        flag="static-graph",
        engines=("ddp",),
        default="false",
        advanced=True,
    )
    moe_token_dispatcher = setting(
        Choice(
            ("alltoall", "allgather", "flex", "deepep", "hybridep"),
            {
                "alltoall": "one row for each token and expert, sent by all-to-all",
                "allgather": "every rank gets all tokens (Megatron)",
                "flex": "DeepEP's or HybridEP's kernels (Megatron)",
                "deepep": "DeepEP's kernels: a token is sent once to each rank (torchtitan)",
                "hybridep": "HybridEP's kernels, which sort rows too (torchtitan)",
            },
        ),
        "Token dispatcher",
        "How rows go to the ranks of their experts and back.",
        flag="moe-token-dispatcher",
        engines=(*_FSDP, "megatron", "megatron-fsdp"),
        default="alltoall; allgather with Megatron",
        advanced=True,
    )
    enable_fsdp_float8_all_gather = setting(
        Flag(),
        "Gather in float8",
        "FSDP casts weights before the all-gather: gathered ones take one byte.",
        flag="float8-all-gather",
        engines=_FSDP,
        default="false",
        advanced=True,
    )
    enable_async_tensor_parallel = setting(
        Flag(),
        "Asynchronous tensor parallel",
        "Products begin before all parts have arrived; their workspace in symmetric memory is outside the allocator.",
        flag="async-tp",
        engines=_FSDP,
        default="false",
        advanced=True,
    )
    use_orig_params = setting(
        Flag(),
        "Original parameters",
        "FSDP1: frozen and trained parameters may share a unit; the frozen ones then need gradients too.",
        flag="use-orig-params",
        engines=_FSDP,
        default="false, as in FullyShardedDataParallel; true with LitGPT",
        advanced=True,
    )
    limit_all_gathers = setting(
        Flag(),
        "Limit all-gathers",
        "FSDP1: at most two units are gathered ahead.",
        flag="limit-all-gathers",
        engines=_FSDP,
        default="true",
        advanced=True,
    )
    backward_prefetch = setting(
        Choice(
            ("pre", "none"),
            {
                "pre": "the next unit is gathered before the one at hand runs",
                "none": "each unit is gathered when it runs",
            },
        ),
        "Backward prefetch",
        "FSDP1: when the next unit of the backward pass is gathered.",
        flag="backward-prefetch",
        engines=_FSDP,
        default="pre",
        advanced=True,
    )
    lm_head_chunk_size = setting(
        Integer(unit="tokens"),
        "Logits chunk",
        "LitGPT: tokens of the sequence that the output head processes at a time.",
        flag="lm-head-chunk",
        engines=("none", "ddp", "fsdp"),
        default="by training.loss",
        advanced=True,
    )
    prepare_model_for_kbit_training = setting(
        Flag(),
        "Prepared for k bits",
        "PEFT's prepare_model_for_kbit_training: everything that is not quantized is cast to fp32.",
        flag="prepare-kbit",
        engines=("none", "ddp", "fsdp"),
        default="false",
        advanced=True,
    )
    optimizer_in_bwd = setting(
        Flag(),
        "Optimizer in backward",
        "The optimizer steps as soon as a gradient is there, and lets go of it.",
        flag="optimizer-in-backward",
        engines=("none", "fsdp"),
        default="false",
        advanced=True,
    )


SECTIONS = (TorchSettings,)
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "fsdp": (
        EngineSettings.moe_load_imbalance,
        Training.reduce_dtype,
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.parameters,
        Training.offload.activations,
        Parallelism.data_parallel_size,
        Parallelism.data_parallel_shard_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.virtual_pipeline_parallel_size,
        Parallelism.pipeline_layout,
        Parallelism.pipeline_schedule,
        Parallelism.expert_parallel_size,
        Parallelism.expert_tensor_parallel_size,
        EngineSettings.version,
    ),
    "none": (
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.activations,
        Parallelism.pipeline_parallel_size,
        Parallelism.virtual_pipeline_parallel_size,
        Parallelism.pipeline_layout,
        Parallelism.pipeline_schedule,
    ),
    "ddp": (
        Training.adapter.target_parameters,
        Training.offload.optimizer,
        Training.offload.activations,
        Parallelism.data_parallel_size,
    ),
}
"""What of the settings that engines have in common each of these takes."""
