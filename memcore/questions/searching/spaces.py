"""Which layouts there are: the rules of models and networks of GPUs that they obey, and bounds of what they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from memcore.config.devices import node_of
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.errors import ConfigError
from memcore.messages import joined
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts
from memcore.networks.stages import layers_of
from memcore.questions.dividing import IDLE, Layers, Plan, over_mean
from memcore.questions.searching.kinds import ROWS
from memcore.questions.searching.layouts import Layout, Settings
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.searching import SCHEDULE, SCHEDULES, Policy, Row
from memcore.trace.traffic import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What is tried of settings that could have any value, and what only where it is asked for."""

    micro_batches: tuple[int, ...] = (1, 2, 4, 8)
    schedules: tuple[str, ...] = ("1f1b",)
    """Schedules of pipelines whose layers run in PyTorch; every rank of a looped one is a recording of its own."""
    offload: bool = False
    """Policies that keep parameters or the optimizer on the host."""


@dataclass(frozen=True, slots=True)
class Space:
    """Every layout of a job on some GPUs."""

    engine: str
    """A key of `ROWS`."""
    gpus: int
    sequences: int
    """Of a step of the whole job, which all layouts share; pairs of them where a method compares two."""
    node: int
    """GPUs in a node, within which tensor parallelism stays."""
    layers: int
    """Layers that stages share, with embedding and loss where these count as one each."""
    counted: int
    """How many of these two do."""
    heads: int
    experts: int
    sequence: int
    tried: Tried
    compared: int = 1
    """Sequences of a pair, if the micro-batch counts pairs."""

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """Micro-batch sizes that are tried."""
        return self.tried.micro_batches

    @property
    def row(self) -> Row:
        """Return what the engine can be searched for."""
        return ROWS[self.engine]

    @property
    def policies(self) -> list[Settings]:
        """Return the settings of each policy."""
        return [each.settings for each in self.row.policies]

    def keeps_like(self, policy: int) -> int:
        """Return the policy that keeps the same of each layer, and no gathered parameters."""
        mine = self.row.policies[policy]
        alike = (
            number
            for number, each in enumerate(self.row.policies)
            if (each.keeps, each.again, each.wide) == (mine.keeps, mine.again, mine.wide) and each.resharded
        )
        return next(alike)

    def points(self, tensor: int, experts: int) -> Iterator[Layout]:
        """Yield one layout for all sizes that come with a tensor and expert division."""
        seen = set()
        for prefix in self.prefixes():
            if (prefix[0], prefix[3]) == (tensor, experts):
                for each in self.block(prefix):
                    key = each.context, each.shards, each.micro_batch
                    if key not in seen:
                        seen.add(key)
                        yield each

    def prefixes(self) -> Iterator[tuple[int, int, int, int]]:
        """Tensor, pipeline, context and expert divisions."""
        for tensor in self._sizes("tensor", min(self.node, self.gpus)):
            for stages in self._stages(tensor):
                for context in self._sizes("context", self.gpus // (tensor * stages)):
                    if self.sequence % (2 * context * tensor) == 0 or context * tensor == 1:
                        ranks = self.gpus // (tensor * stages)
                        most = min(self.experts, ranks) if "experts" in self.row.divides else 1
                        for experts in powers(max(most, 1)):
                            if ranks % experts == 0 and self.experts % experts == 0:
                                yield tensor, stages, context, experts

    def _sizes(self, name: str, most: int) -> Iterator[int]:
        if name not in self.row.divides:
            yield 1
            return
        for size in powers(most):
            if self.gpus % size == 0 and (name != "tensor" or self.heads % size == 0):
                yield size

    def _stages(self, tensor: int) -> Iterator[int]:
        most = min(self.layers, self.gpus // tensor, self.sequences) if "stages" in self.row.divides else 1
        for stages in range(1, most + 1):
            even = stages & (stages - 1) == 0 or self.layers % stages == 0
            if even and self.gpus % (tensor * stages) == 0:
                yield stages

    def block(self, prefix: tuple[int, int, int, int]) -> Iterator[Layout]:
        """Yield all layouts that begin so."""
        for shards, replicas, micro_batch, micro_batches, number in self._endings(prefix):
            yield Layout(*prefix, shards, replicas, micro_batch, micro_batches, number)

    def leanest(self, prefix: tuple[int, int, int, int]) -> Layout | None:
        """Of layouts that begin so one that needs little: few tokens at once, most computed again, widely sharded."""
        again = [each.again if each.resharded and each.chunks == 1 else (-1.0, 0.0) for each in self.row.policies]
        found = min(
            self._endings(prefix),
            key=lambda each: (each[2], [-share for share in again[each[4]]], -each[0]),
            default=None,
        )
        return None if found is None else Layout(*prefix, *found)

    def _endings(self, prefix: tuple[int, int, int, int]) -> Iterator[tuple[int, int, int, int, int]]:
        """Shards, replicas, sequences and number of micro-batches, and policy of layouts that begin so."""
        tensor, stages, context, experts = prefix
        ranks = self.gpus // (tensor * stages)
        if ranks % context:
            return
        data, groups = ranks // context, [(each, ranks // each) for each in self._shards(ranks, context, experts)]
        for micro_batch in self.micro_batches:
            micro_batches, rest = divmod(self.sequences, data * micro_batch)
            if rest or micro_batches < stages:
                continue
            for number, policy in enumerate(self.row.policies):
                if self._has(policy, tensor, stages, experts, micro_batches):
                    for shards, replicas in groups:
                        yield shards, replicas, micro_batch, micro_batches, number

    def _has(self, policy: Policy, tensor: int, stages: int, experts: int, micro_batches: int) -> bool:
        """Return whether a policy is one of this division."""
        if policy.schedule != "1f1b" and policy.schedule not in self.tried.schedules:
            return False
        if policy.schedule == "1f1b" and stages > 1 and "1f1b" not in self.tried.schedules:
            return False
        if (policy.offloaded and not self.tried.offload) or (policy.wide and (tensor == 1 or experts == 1)):
            return False
        if policy.chunks == 1:
            return True
        parts = stages * policy.chunks
        fits = self.layers % parts == 0 or (self.lists and self.layers >= parts)
        return stages > 1 and fits and micro_batches % stages == 0

    @property
    def lists(self) -> bool:
        """Return whether a layout may list how many layers each stage has."""
        return self.row.uneven and not self.counted

    def divided(self, layout: Layout) -> Settings:
        """Return the setting that lists layers of stages, where they do not all have the same."""
        if not self.lists:
            return {}
        parts = layout.stages * self.row.policies[layout.policy].chunks
        shares = None if self.layers % parts == 0 else list(layers_of(self.layers, parts))
        return {Parallelism.pipeline_layout: shares}

    def _shards(self, ranks: int, context: int, experts: int) -> Iterator[int]:
        """Shard groups: all ranks, or whole nodes and more of them."""
        if "shards" not in self.row.divides or ranks == 1:
            yield 1 if self.row.sharded == "nothing" else ranks
            return
        for shards in powers(ranks):
            least = max(min(self.node, ranks), context, experts)
            if shards >= least and shards % context == 0 and shards % experts == 0 and ranks % shards == 0:
                yield shards
        if ranks & (ranks - 1):
            yield ranks

    def layouts(self) -> Iterator[Layout]:
        """Yield all of them."""
        for prefix in self.prefixes():
            yield from self.block(prefix)


def powers(most: int) -> Iterator[int]:
    """Powers of two up to a number."""
    size = 1
    while size <= most:
        yield size
        size *= 2


def space_of(
    config: Config,
    job: Job,
    gpus: int,
    sequences: int | None = None,
    tried: Tried | None = None,
    row: str | None = None,
) -> Space:
    """Return the space of a config's engine on some GPUs; `row` names another key of `ROWS`.

    Raises ConfigError for an engine without a row.
    """
    engine = row or job.engine.name
    if engine not in ROWS:
        raise ConfigError.at(
            EngineSettings.type,
            "searching layouts of {!r} is not supported yet; engines: {}",
            engine,
            joined(", ", ROWS),
        )
    sizes, ends = job.model.sizes, ROWS[engine].counted
    counted = 0 if ends is None else ends(config)
    return Space(
        engine=engine,
        gpus=gpus,
        sequences=sequences or sequences_of(job),
        node=node_of(config),
        layers=job.model.num_layers + counted,
        counted=counted,
        heads=sizes.get("a", sizes["h"]),
        experts=sizes.get("E", 1),
        sequence=job.sizes["s"] * job.sizes["cp"],
        tried=_named(config, tried or Tried()),
        compared=job.compared,
    )


def _named(config: Config, tried: Tried) -> Tried:
    """A schedule that the config names is kept; ConfigError if layouts are not searched with it."""
    named = config[Parallelism.pipeline_schedule]
    if named is None:
        return tried
    if named not in SCHEDULES:
        raise ConfigError.at(
            SCHEDULE,
            "found {!r}; only {} can be searched: leave it out, or set one of them",
            named,
            joined(", ", SCHEDULES),
        )
    return replace(tried, schedules=(named,))


def sequences_of(job: Job) -> int:
    """Sequences of a step of the whole job; pairs of them where a method compares two."""
    data = job.num_gpus // (job.stages * job.sizes["tp"] * job.sizes["cp"])
    return data * job.micro_batch * job.micro_batches


def sent(space: Space, layout: Layout, job: Job, usual: Traffic) -> Traffic:
    """Return what the engine sends in a step of a layout of a job, which sends `usual` as it stands."""
    policy, count = space.row.policies[layout.policy], layout.micro_batches
    if space.row.sends is not None:
        return space.row.sends(job, policy.settings, layout.shards, count)
    if space.row.sharded != "parameters":
        return usual._replace(gathers=int(space.row.sharded != "nothing"), reduces=1)
    if layout.stages == 1:
        return usual._replace(gathers=count * (1 + policy.resharded), reduces=count)
    return usual._replace(gathers=2 * count if policy.resharded else 1, reduces=1, reduces_behind="one")


def plan(space: Space, layout: Layout, usual: Plan, traffic: Traffic, layers: Layers) -> Plan:
    """Return what the cost model takes of a layout.

    `usual`: the plan of the job that is searched, for what no layout changes; `traffic`: what the layout sends;
    `layers`: those of the pipeline's ranks.
    """
    policy, count = space.row.policies[layout.policy], layout.micro_batches
    return Plan(
        gpus=layout.gpus,
        tensor=layout.tensor,
        stages=layout.stages,
        context=layout.context,
        shards=layout.shards,
        replicas=layout.replicas,
        micro_batch=layout.micro_batch * space.compared,
        micro_batches=count,
        products_again=policy.again[0],
        attention_again=policy.again[1],
        stops_early=usual.stops_early,
        gathers=traffic.gathers,
        reduces=traffic.reduces,
        computes=usual.computes,
        brings=usual.brings,
        sums=usual.sums,
        offloaded=policy.offloaded,
        chunks=policy.chunks,
        idle=IDLE.get(policy.schedule, 1.0),
        experts=layout.experts,
        behind=(traffic.gathers_behind, traffic.reduces_behind),
        messages=(traffic.gathered, traffic.reduced),
        layers=layers,
        regrouped=traffic.regrouped,
        pieces=usual.pieces,
        sums_in_pieces=usual.sums_in_pieces,
        all_reduces=traffic.all_reduces,
        narrow_gathers=usual.narrow_gathers,
        dispatch=usual.dispatch,
        divides_experts=divides_experts(space, layout, usual),
        sends_behind=usual.sends_behind and layout.stages > 1 and policy.chunks > 1,
        updated=usual.updated,
        updating=usual.updating,
        stepping=usual.stepping / layout.stages,
    )


def divides_experts(space: Space, layout: Layout, usual: Plan) -> int:
    """Ranks that divide each expert: as many as divide the other layers, if an engine divides experts and they fit."""
    if not usual.divides_experts or layout.experts == 1:
        return 1
    given = space.row.policies[layout.policy].settings.get(Parallelism.expert_tensor_parallel_size)
    fits = layout.gpus // layout.stages % (layout.experts * layout.tensor) == 0
    return int(str(given)) if given else layout.tensor if fits else 1


Shared: TypeAlias = Callable[[int, int], Layers]
"""Layers of a pipeline's ranks, by the number of stages and of chunks in each."""


def shared_evenly(layers: int, counted: int) -> Shared:
    """Of ranks that share layers as evenly as they can, the ends counting as layers where they do."""

    @cache
    def found(stages: int, chunks: int) -> Layers:
        if stages == 1:
            return 1.0, 1.0
        shares = layers_of(layers, stages * chunks) if not counted else ends_of(layers, stages * chunks, counted)
        return over_mean([sum(shares[rank::stages]) for rank in range(stages)])

    return found


def ends_of(layers: int, stages: int, counted: int) -> tuple[int, ...]:
    """Return layers of each stage where `layers` counts the last end, or both, as one each."""
    shares = list(layers_of(layers, stages))
    shares[-1] -= 1
    shares[0] -= counted > 1
    return tuple(shares)


class Part(NamedTuple):
    """What a stage of a pipeline has, whatever its micro-batches are."""

    number: int
    kept: int
    """Bytes between steps, of the shards of one rank."""
    layers: int
    dense: int
    """Parameters of its layers, as in `Floor`."""
    routed: int


@dataclass(frozen=True, slots=True)
class Floor:
    """A number of bytes below which no layout can be: parameters, and what each layer keeps for each token."""

    dense: int
    """Parameters of the layers, those of routed experts left out."""
    routed: int
    """Parameters of routed experts, which expert parallelism divides."""
    parameter: int
    """Bytes that are there for each parameter at least; where states alone are shared, of it and of its gradient."""
    hidden: int
    queries: int
    keys: int
    width: int
    layers: int
    uniform: bool
    """All layers are alike."""
    gathered: int
    """Bytes of a parameter that was gathered and not freed."""
    summed: int
    """Bytes of a gradient that a pipeline's stage keeps whole until its last micro-batch."""
    states: int = 0
    """Bytes of optimizer states for each parameter that data-parallel ranks share, where they share these alone."""
    each_layer: tuple[tuple[int, int], ...] = ()
    """Parameters of each layer: those of routed experts apart, as `dense` and `routed`."""
    logits: int = 0
    """Bytes of each token when the loss's gradient comes: log-probabilities and their gradient, in fp32."""

    def bytes(self, space: Space, layout: Layout, growth: int | None = None) -> int:
        """Below this the highest stage of a layout cannot be.

        `growth`: bytes that a layer surely keeps of one sequence, where a recorded step says it.
        """
        tensor, stages, row = layout.tensor, layout.stages, space.row
        shards = layout.shards if row.sharded == "parameters" else 1
        layers = self.layers // stages
        parameters = self.dense // (tensor * shards) + self.routed // (tensor * max(shards, layout.experts))
        policy = row.policies[layout.policy]
        one, two, three, four = policy.keeps
        kept = one * self.hidden + two * self.queries + three * self.keys + four * self.width
        tokens = layout.micro_batch * space.compared * space.sequence // layout.context
        each = tokens * kept * _SIZE // tensor if growth is None else layout.micro_batch * growth
        # Schedules that split the backward pass have fewer micro-batches in flight than stages.
        flying = min(stages, layout.micro_batches) if policy.schedule in ("1f1b", "interleaved-1f1b") else 1
        activations = flying * layers * each
        whole = self._whole(space, layout) * (self.dense + self.routed // layout.experts) // tensor
        if policy.offloaded:
            return activations if stages == 1 or self.uniform else layers * each
        loss = tokens * self.logits // tensor if stages == 1 else 0
        states = self.states * (self.dense + self.routed) // (tensor * layout.shards)
        if stages > 1 and not self.uniform and space.lists and policy.schedule == "1f1b":
            ranks = _shares(self.each_layer, stages, policy.chunks)[:2]
            return max(
                (dense + routed // layout.experts) // tensor * self.parameter
                + self.states * (dense + routed) // (tensor * layout.shards)
                + max(flying - number, 1) * count * each
                for number, (count, dense, routed) in enumerate(ranks)
            )
        if stages > 1 and not self.uniform:
            # Some stage has no less than the mean of parameters and states, whichever layers it has.
            return max(layers * each, (parameters * self.parameter + states) // stages)
        return (parameters * self.parameter + whole + states) * layers // self.layers + activations + loss

    def staged(self, space: Space, layout: Layout, growth: int, parts: Iterable[Part], divided: int) -> int:
        """Return a lower bound on the bytes of the highest of some stages, before the first backward pass and after it.

        Earlier stages have more micro-batches in flight. Gradients of a pipeline stay whole from the first backward
        pass to the last; parameters stay gathered where a policy says so. `divided`: ranks that split an expert.
        """
        policy = space.row.policies[layout.policy]
        gathers = layout.shards > 1 and not policy.offloaded and space.row.sharded == "parameters"
        gathered = self.gathered if gathers and not policy.resharded else 0
        whole = gathered + (self.summed if gathers and layout.stages > 1 and layout.micro_batches > 1 else 0)
        highest = 0
        for number, kept, layers, dense, routed in parts:
            parameters = dense // layout.tensor + routed // (layout.experts * divided)
            flying = max(min(layout.stages - number, layout.micro_batches), 1)
            again = flying if layout.micro_batches > flying else flying - 1
            each = layers * layout.micro_batch * growth
            forward, backward = gathered * parameters + flying * each, whole * parameters + again * each
            highest = max(highest, kept + max(forward, backward))
        return highest

    def _whole(self, space: Space, layout: Layout) -> int:
        """Return bytes for each parameter of a layer that data-parallel ranks do not share for a while."""
        if space.row.sharded != "parameters" or layout.shards == 1:
            return 0
        kept = 0 if space.row.policies[layout.policy].resharded else self.gathered
        return kept + (self.summed if layout.micro_batches > layout.stages > 1 else 0)


_SIZE = 2
"""Bytes of an element that a layer keeps, at least."""


@lru_cache(maxsize=1024)
def _shares(layers: tuple[tuple[int, int], ...], stages: int, chunks: int) -> tuple[tuple[int, int, int], ...]:
    """Layers of each rank of a pipeline, and their parameters, where chunks share layers as evenly as they can."""
    edges = [0, *accumulate(layers_of(len(layers), stages * chunks))]
    found = []
    for rank in range(stages):
        mine = [each for part in range(rank, stages * chunks, stages) for each in layers[edges[part] : edges[part + 1]]]
        found.append((len(mine), sum(dense for dense, _ in mine), sum(routed for _, routed in mine)))
    return tuple(found)


def floor_of(job: Job) -> Floor:
    """Return what the layouts of a job cannot be below: every layer keeps its input, without checkpoints more."""
    model, sizes = job.model, job.model.sizes
    routed = sum(
        count * sum(model.size(weight.shape) for weight in ffn.experts)
        for layer, count in model.layers
        for ffn in layer.ffns
        if isinstance(ffn, Experts)
    )
    layers = sum(count * sum(model.size(weight.shape) for weight in layer.weights()) for layer, count in model.layers)
    uniform = len(model.network.kinds) == 1
    plain = uniform and not routed and all(isinstance(each, Attention) for each in model.network.kinds[0].mixers)
    named = plain and {"a", "k", "d", "f"} <= set(sizes)
    frozen, row = model.network.adapted or job.recipe.sharding.offloaded, ROWS[job.engine.name]
    return Floor(
        dense=layers - routed,
        routed=routed,
        each_layer=parts_of_layers(model),
        parameter=_bytes_of_parameter(job),
        states=0 if row.state_bytes is None else row.state_bytes(job),
        hidden=sizes["h"],
        queries=sizes["a"] * sizes["d"] if named else 0,
        keys=sizes["k"] * sizes["d"] if named else 0,
        width=sizes["f"] if named else 0,
        layers=model.num_layers,
        uniform=uniform,
        gathered=0 if frozen else int(ITEMSIZE[job.recipe.precision.compute]),
        summed=0 if frozen else int(ITEMSIZE[job.recipe.precision.reduce]),
        logits=8 * sizes["V"] if job.recipe.loss.kind == "cross-entropy-fp32" and row.shared else 0,
    )


def parts_of_layers(model: Model) -> tuple[tuple[int, int], ...]:
    """Return parameters of each layer in order: all but those of routed experts, and these."""
    runs = zip(model.network.runs, model.repeats, strict=True)
    return tuple(_apart(model, layer) for run, times in runs for layer in run * times)


@lru_cache(maxsize=256)
def _apart(model: Model, layer: Layer) -> tuple[int, int]:
    """Return parameters of a layer: all but those of routed experts, and these."""
    routed = sum(model.size(weight.shape) for ffn in layer.ffns if isinstance(ffn, Experts) for weight in ffn.experts)
    return sum(model.size(weight.shape) for weight in layer.weights()) - routed, routed


def _bytes_of_parameter(job: Job) -> int:
    """Of a parameter and of states that are like it; of what is frozen, elsewhere or in few bits nothing is said."""
    if job.model.network.adapted or job.recipe.sharding.offloaded:
        return 0
    row = ROWS[job.engine.name]
    own = None if row.parameter_bytes is None else row.parameter_bytes(job)
    if own is not None:
        return own
    if not row.shared:
        return 1 if "fp8" in str(job.config[Training.precision]) else 4
    like = sum(state.of == "like" and state.dtype is None for state in job.optimizer.states)
    return int(ITEMSIZE[job.recipe.precision.parameter]) * (1 + like)
