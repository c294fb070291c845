"""How a job divides the work of a step, as the cost model takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from memcore import registry
from memcore.dtypes import ITEMSIZE
from memcore.memory.pipeline import stages_of_rank
from memcore.questions.work import beside_of, dispatch_of, recomputed, stops_early
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.schedules import BOTH_WAYS
from memcore.trace.traffic import USUAL_DISPATCH, Behind, Dispatch, Traffic

Layers = tuple[float, float]
"""Layers of a pipeline's fullest rank, and of the last, which has the head, over the mean."""

UPDATED = 38.0
"""`Plan.updated` of Adam in mixed precision."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job divides the work."""

    gpus: int
    tensor: int
    stages: int
    context: int
    shards: int
    """Ranks over which parameters are sharded."""
    replicas: int
    """Copies of them, whose gradients are summed."""
    micro_batch: int
    micro_batches: int
    products_again: float = 0.0
    """Share of the layers' products that checkpoints compute again."""
    stops_early: bool = False
    """But for each layer's last product."""
    attention_again: float = 0.0
    """The same for attention."""
    gathers: int = 0
    """All-gathers of all parameters in a step."""
    reduces: int = 1
    """Reductions of all gradients in a step."""
    computes: int = 2
    """Bytes of an element that is sent."""
    brings: int = 2
    """Bytes of an element of a parameter that is gathered."""
    sums: int = 4
    """Bytes of an element of a gradient that is summed."""
    offloaded: bool = False
    """Parameters and gradients are moved from and to the host."""
    frozen_from_host: float = 0.0
    """Bytes of a frozen parameter that each gathering brings from the host; 0: it stays on the GPU."""
    chunks: int = 1
    """Model chunks of a stage."""
    idle: float = 1.0
    """The pipeline's bubble as a share of that of 1F1B."""
    experts: int = 1
    """Ranks among which routed experts are divided."""
    behind: tuple[Behind, Behind] = ("all", "all")
    """What may hide all-gathers and reductions."""
    messages: tuple[float, float] = (0.0, 0.0)
    """Elements of one all-gather and of one reduction; 0: those of a layer."""
    layers: Layers = (1.0, 1.0)
    """Of the pipeline's ranks."""
    regrouped: float = 0.0
    """As `Traffic.regrouped`."""
    pieces: tuple[float, ...] = ()
    """Where products run in pieces next to collectives of tensor parallelism, their parameters, over all layers: what
    mixers read, what they write, and the same of feed-forward layers."""
    sums_in_pieces: bool = False
    """Gradients of what several products read are summed over ranks next to products, too."""
    all_reduces: bool = False
    """As `Traffic.all_reduces`."""

    updates: bool = False
    """As `Traffic.updates`."""
    narrow_gathers: bool = False
    """Tensor parallelism gathers in 8 bits what it reduces in 16."""

    @property
    def scattered(self) -> int:
        """Return ranks that share the sums of gradients."""
        return 1 if self.all_reduces else self.shards

    @property
    def copies(self) -> int:
        """Return ranks among which the same sums are added up."""
        return self.shards * self.replicas // self.scattered

    dispatch: Dispatch = USUAL_DISPATCH
    """How tokens reach their experts."""
    divides_experts: int = 1
    """Ranks that divide each expert; those of expert parallelism are so far apart."""
    sends_behind: bool = False
    """Stages compute while hidden states are sent on."""
    updated: float = UPDATED
    """Bytes that the optimizer's step reads and writes for a parameter: Adam's in mixed precision. fp32 gradient,
    parameter and both moments are read, the latter three written, the 16-bit parameter written; before it gradients are
    read for their norm, and after it they are filled with zeros (apex, csrc/multi_tensor_adam.cu; Megatron-LM,
    optimizer/clip_grads.py)."""
    updating: float = 0.0
    """Seconds that the optimizer's kernels take for an element at least."""
    stepping: float = 0.0
    """Seconds that the host waits between parameters in the optimizer's step."""


IDLE: Mapping[str, float] = {"zb-h1": 1 / 3, "zbv": 0.0, "dualpipev": 2 / 3}
"""Bubbles of schedules as shares of 1F1B's over their chunks, where a backward pass takes twice a forward pass: Qi et
al., arXiv 2401.10241, table 2, and DeepSeek-AI, arXiv 2412.19437, table 2 (a chunk of a V is half of a stage)."""


def _turns(job: Job) -> tuple[int, float]:
    """Model chunks of a pipeline's rank, and its schedule's bubble as a share of 1F1B's over them.

    DualPipe's is as long as that of DualPipeV on half of the ranks, with chunks of twice the size (the same table).
    """
    if job.schedule == BOTH_WAYS:
        return 1, IDLE["dualpipev"] * (job.stages / 2 - 1) / (job.stages - 1)
    return job.stages_each, IDLE.get(job.schedule, 1.0)


def traffic_of(job: Job) -> Traffic:
    """Return what the job's engine sends for parameters and gradients."""
    found: Callable[[Job], Traffic] = registry.own(job.engine.name, "costs", "TRAFFIC", job.recipe.sharding.engine)
    return found(job)


def plan_of(job: Job) -> Plan:
    """Return how a job divides the work."""
    recipe, sizes = job.recipe, job.sizes
    ranks = job.num_gpus // (job.stages * sizes["tp"])
    traffic, computes = traffic_of(job), recipe.precision.autocast or recipe.precision.compute
    products, attention = recomputed(job)
    chunks, idle = _turns(job)
    return Plan(
        gpus=job.num_gpus,
        tensor=sizes["tp"],
        stages=job.stages,
        context=sizes["cp"],
        shards=traffic.shards,
        replicas=ranks // traffic.shards,
        micro_batch=sizes["b"],
        micro_batches=job.micro_batches,
        products_again=products,
        attention_again=attention,
        stops_early=stops_early(job),
        gathers=traffic.gathers,
        reduces=traffic.reduces,
        computes=int(ITEMSIZE[computes]),
        brings=int(ITEMSIZE[traffic.gathered_as or computes]),
        sums=int(ITEMSIZE[traffic.summed_as or recipe.precision.reduce]),
        offloaded=job.engine.offloads(recipe),
        frozen_from_host=_stored(job) if recipe.sharding.offloaded else 0.0,
        chunks=chunks if job.stages > 1 else 1,
        idle=idle,
        experts=sizes.get("ep", 1),
        behind=(traffic.gathers_behind, traffic.reduces_behind),
        messages=(traffic.gathered, traffic.reduced),
        layers=layers_of_ranks(job),
        regrouped=traffic.regrouped,
        pieces=beside_of(job.model) if _asked(job, "in_pieces") else (),
        sums_in_pieces=_asked(job, "sums_in_pieces"),
        all_reduces=traffic.all_reduces,
        updates=traffic.updates,
        narrow_gathers=_asked(job, "narrow_gathers"),
        dispatch=dispatch_of(job),
        divides_experts=sizes.get("etp", 1),
        sends_behind=job.stages > 1 and _asked(job, "sends_behind"),
        updated=_updated(job),
        updating=job.implementation.seconds,
        stepping=job.implementation.waits * sum(count for _, _, count in job.share.tensors) / job.stages,
    )


def _stored(job: Job) -> float:
    """Bytes of a frozen parameter."""
    quantization = job.recipe.quantization
    return float(ITEMSIZE[job.recipe.precision.parameter]) if quantization is None else quantization.bits / 8


def usual_of(job: Job) -> Plan:
    """The plan of a job for what no layout changes: as if it had one stage, interleaved if there were several."""
    found = plan_of(job)
    return replace(
        found,
        stepping=found.stepping * job.stages,
        sends_behind=hasattr(registry.engine_module(job.engine.name, "costs"), "sends_behind"),
        divides_experts=1 if "etp" in job.sizes else 0,
    )


def _asked(job: Job, name: str) -> bool:
    """Return what the engine's module says of a job; False if it says nothing."""
    own: Callable[[Job], bool] | None = getattr(registry.engine_module(job.engine.name, "costs"), name, None)
    return own is not None and own(job)


def _updated(job: Job) -> float:
    own: Callable[[Job], float] | None = getattr(registry.engine_module(job.engine.name, "costs"), "updated", None)
    return UPDATED if own is None else own(job)


def layers_of_ranks(job: Job) -> Layers:
    """Return layers of the ranks of a job's pipeline."""
    if job.stages == 1:
        return 1.0, 1.0
    own = getattr(registry.engine_module(job.engine.name, "costs"), "layers_of_ranks", _layers_of_ranks)
    return over_mean(tuple(own(job)))


def over_mean(layers: Sequence[int]) -> Layers:
    """Return the layers of the fullest and of the last rank over the mean."""
    mean = sum(layers) / len(layers)
    return max(layers) / mean, layers[-1] / mean


def _layers_of_ranks(job: Job) -> Iterator[int]:
    total = job.stages if job.schedule == BOTH_WAYS else job.stages * job.stages_each
    counts = [job.staged(job.model, number, total).num_layers for number in range(total)]
    for rank in range(job.stages):
        yield sum(counts[number] for number in stages_of_rank(job, rank))
