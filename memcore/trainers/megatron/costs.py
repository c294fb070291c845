"""What Megatron-Core sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf

from memcore.config.engine import EngineSettings
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Experts, LatentAttention
from memcore.networks.weights import linears_of
from memcore.symbols import measure
from memcore.trace.job import Job
from memcore.trace.traffic import Behind, Dispatch, Traffic
from memcore.trainers.megatron.resolve import MegatronJob
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.pytorch.costs import DISPATCHERS


def _megatron(job: Job) -> Traffic:
    """Gradients are summed once; with the distributed optimizer parameters are gathered after the step.

    Frozen parameters are in no buffer (core/distributed/distributed_data_parallel.py: `if not param.requires_grad`).
    Both wait for the last backward pass and for the optimizer, unless `--overlap-grad-reduce` and
    `--overlap-param-gather` are set (core/distributed/distributed_data_parallel_config.py: False by default).
    Megatron-FSDP's last strategies reduce in every micro-batch, and gather for every pass.
    """
    count, strategy = job.micro_batches, job.config.get(MegatronSettings.data_parallel_sharding_strategy)
    often = {"optim": (1, 1), "optim_grads": (1, count), "optim_grads_params": (2 * count, count)}.get(strategy)
    if often is not None:
        return Traffic(job.sizes["z"], *often)
    gathers: Behind = "one" if job.config.get(MegatronSettings.overlap_param_gather) else "nothing"
    reduces: Behind = "one" if job.config.get(MegatronSettings.overlap_grad_reduce) else "nothing"
    shards = job.sizes["z"] if job.config.get(MegatronSettings.distributed_optimizer) else 1
    bucket = max(_BUCKET, 1e6 * shards) if gathers == "one" or reduces == "one" else inf
    return Traffic(shards, int(shards > 1), 1, gathers, reduces, bucket, bucket, updates=True)


def _gathered(job: Job) -> str:
    """Return the dtype in which updated parameters are gathered, if it is not that of products.

    Parameters in MXFP8 are gathered in 16 bits, since their scales along the other axis are not known
    (core/distributed/param_and_grad_buffer.py, `reuse_grad_buf_for_mxfp8_param_ag`).
    """
    narrow = job.config.get(MegatronSettings.fp8_param_gather) and job.config[EngineSettings.fp8_recipe] != "mxfp8"
    return "fp8" if narrow else ""


def _in_dtypes(job: Job) -> Traffic:
    """Gradients are summed in the dtype of their buffer, and parameters gathered in theirs."""
    summed = job.states.gradient if isinstance(job, MegatronJob) else ""
    return _megatron(job)._replace(gathered_as=_gathered(job), summed_as=summed)


TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "megatron": _in_dtypes,
    "megatron-fsdp": _in_dtypes,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
_BUCKET = 40e6
"""Elements of a bucket of gradients where they are reduced during the backward pass; otherwise there is one for all
(core/distributed/distributed_data_parallel.py: max(40,000,000, 1,000,000 for each rank))."""


def sends_behind(job: Job) -> bool:
    """Return whether stages compute while they send: interleaved ones do, unless `--no-overlap-p2p-communication`.

    Source: training/arguments.py, `overlap_p2p_comm`.
    """
    return job.stages_each > 1


STOPS_EARLY = False
"""Checkpoints run all of a layer again (core/tensor_parallel/random.py, `CheckpointFunction`)."""


def in_pieces(job: Job) -> bool:
    """Return whether tensor parallelism sends while products run, in pieces or next to gradients of weights.

    Source: TransformerEngine, pytorch/module/base.py (`initialize_ub`: by default gathers and sums are split into
    pieces next to products, and sums of gradients are sent next to gradients of weights, `bulk_wgrad`).
    """
    return bool(job.config.get(MegatronSettings.tp_comm_overlap))


sums_in_pieces = in_pieces


def fuses(job: Job) -> bool:
    """Return whether norms, rotations and activations are fused: always (Megatron-LM, fusions/)."""
    return True


_WEIGHED = 50
"""Bytes for each element that experts' activation functions give, where the router's weights, in fp32, are multiplied
in kernels of their own, beyond the 6 of a fused one. Forward: squared (4), weighed (6), cast back (6); backward: cast
(6), times the weights (8), cast (6), times the results (10), summed (4), and the function's own (6). Source:
core/transformer/moe/experts.py, `bias_act_func`; core/activations.py, `squared_relu`."""


def weighed(job: Job) -> float:
    """Return bytes that the router's weights move for a token: squared ReLU is fused with them only where asked."""
    if job.config.get(MegatronSettings.use_fused_weighted_squared_relu):
        return 0.0
    model, elements = job.model, 0.0
    for layer, times in model.layers:
        for ffn in layer.ffns:
            if isinstance(ffn, Experts) and ffn.activation == "relu2" and not ffn.gated:
                down = model.size(ffn.experts[-1].shape) / model.sizes["E"] / measure(ffn.reads, model.sizes)
                elements += times * model.sizes[ffn.routed] * down
    return _WEIGHED * elements


def dispatch(job: Job) -> Dispatch:
    """How tokens reach their experts; two micro-batches' passes may run together (`--overlap-moe-...`)."""
    plan = job.recipe.plan(MegatronPlan)
    found = DISPATCHERS["alltoall" if plan is None or plan.experts is None else plan.experts.dispatcher]
    return found._replace(hidden=bool(job.config.get(MegatronSettings.overlap_moe_expert_parallel_comm)))


COUNTS = True
"""The host learns in each forward pass how many tokens every expert has before it starts their kernels
(core/transformer/moe/experts.py, TEGroupedMLP.forward: `tokens_per_expert.tolist()`)."""


_CAPTURED: Mapping[str, tuple[str, ...]] = {
    "attn": ("layer",),
    "mlp": ("layer",),
    "mamba": ("layer",),
    "moe_router": ("routing",),
    "moe": ("layer", "routing", "experts"),
}
"""Which of a layer's kernels the host starts as one graph, by the module that is captured: those of attention and dense
feed-forward networks, those of routing, those of experts (core/transformer/cuda_graphs.py, transformer_layer.py)."""


def captured(job: Job) -> frozenset[str]:
    """Return which kernels run in CUDA graphs: of a layer, of routing, of experts; all of them without modules.

    Source: core/transformer/transformer_config.py (`cuda_graph_impl`, `cuda_graph_scope`), core/full_cuda_graph.py.
    """
    impl = job.config.get(MegatronSettings.cuda_graph_impl)
    if impl in (None, "none"):
        return frozenset()
    given = job.config.get(MegatronSettings.cuda_graph_modules) or job.config.get(MegatronSettings.cuda_graph_scope)
    names = given.split(",") if isinstance(given, str) else list(given or ())
    if impl == "full_iteration" or not names or not set(names) & set(_CAPTURED):
        return frozenset(("layer", "routing", "experts"))
    return frozenset(part for name in names for part in _CAPTURED.get(name, ()))


def recomputed(job: Job) -> tuple[float, float]:
    """Shares of the forward pass's products and of its attention that are computed again.

    Selective recomputation runs only its modules again; activation functions and norms are no products. Of full
    recomputation `block` runs the first layers of each chunk again, `uniform` all. Source:
    core/transformer/{transformer_config,transformer_block}.py, `recompute_modules`, `recompute_method`.
    """
    plan, model = job.recipe.plan(MegatronPlan), job.model
    recompute = None if plan is None else plan.recompute
    if recompute is None:
        return 0.0, 0.0
    if recompute.granularity == "full":
        share = 1.0
        if recompute.method == "block":
            share = min(recompute.layers * job.stages * job.stages_each / model.num_layers, 1.0)
        return share, share
    again = sum(times * _recomputed_parameters(model, layer, recompute.modules) for layer, times in model.layers)
    looked_up = 0 if model.network.embedding_and_head.tied else model.sizes["V"] * model.sizes["h"]
    return again / (model.active_parameters - looked_up), float("core_attn" in recompute.modules)


def _recomputed_parameters(model: Model, layer: Layer, modules: frozenset[str]) -> float:
    """Parameters of a layer's products that run again with these modules, of experts those that a token chooses."""
    parts: list[object] = []
    routed = 0.0
    for mixer in layer.mixers:
        if "mla_up_proj" in modules and isinstance(mixer, LatentAttention):
            parts += [*mixer.queries[1:], mixer.expand]
    for ffn in layer.ffns:
        if not isinstance(ffn, Experts):
            parts += [ffn] if "mlp" in modules else []
            continue
        parts += [ffn.shared] if modules & {"moe", "shared_experts"} else []
        if "moe" in modules:
            routed += sum(model.size(each.shape) for each in ffn.experts) * model.sizes[ffn.routed] / model.sizes["E"]
    return routed + _parameters(model, tuple(parts))


def _parameters(model: Model, part: object) -> int:
    """Return elements of the matrices of a part."""
    return sum(model.size(each.inner) * model.size(each.outer) for each in linears_of(part))


def layers_of_ranks(job: Job) -> Iterator[int]:
    """Decoder layers that each rank of the pipeline has."""
    if not isinstance(job, MegatronJob):
        raise TypeError(job)
    return (sum(chunk.layers + chunk.predicts for chunk in chunks) for chunks in job.layout)
