"""What libraries and modules of Megatron-Core keep once they have run, and what is there while micro-batches run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice
from math import prod

from memcore.dtypes import ITEMSIZE
from memcore.hardware import matmul_workspaces
from memcore.memory.ledger import Entry, entry_of
from memcore.networks.adapters import learns
from memcore.networks.network import Model, Network
from memcore.networks.parts import Experts
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.symbols import Products, Shape, Total, product, split_over
from memcore.trace.program import aligned
from memcore.trainers.megatron.networks.parts import PATH
from memcore.trainers.megatron.networks.towers import SEEING
from memcore.trainers.megatron.resolve import MegatronJob
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.units import MiB

_FROM_FIRST_USE = "allocated at first use and kept"
_LEFT = "until the next micro-batch is routed"
_REPLACED = "until the chunk's next micro-batch"
_DEFERRED = "from a micro-batch's backward pass until the pipeline is empty"
_PASSING = "while layers run"
_DISPATCHER = "mlp.token_dispatcher"
_AHEAD, _QUEUED = 500_000_000, 1_000_000_000
"""Elements that Megatron-FSDP gathers ahead, and whose gradients it lets wait (`suggested_communication_unit_size`)."""
_STREAMS = 4
"""Streams of grouped products, each with a workspace."""

_BUFFER_STREAMS = 3
"""Streams of user buffers, each with a workspace (`_NUM_MAX_UB_STREAMS`)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A parameter of this rank."""

    weight: Weight
    path: str
    count: int
    expert: bool
    """It is in the buffers of experts."""
    learns: bool
    """It has a gradient and optimizer states; others stay as the model's own parameters."""

    @property
    def matrix(self) -> bool:
        """Return whether it is a matrix, or one for each expert, that is neither embedding nor head."""
        return len(self.factors) == 2 and self.weight.kind not in ("embedding", "head")

    @property
    def factors(self) -> tuple[Shape, ...]:
        """Return its axes; of experts each one's."""
        return self.weight.axes[1:] if self.weight.kind == "routed-expert" else self.weight.axes

    @property
    def multiplied(self) -> bool:
        """Return whether it is a matrix with a gradient that TransformerEngine multiplies by."""
        learns = self.learns and self.weight.split is not None and len(self.factors) > 1
        return learns and self.weight.kind not in ("embedding", "head", "other", *SEEING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What chunks have of a model, before there are sizes."""

    stored: tuple[Stored, ...]
    elements: Products
    routed: tuple[tuple[Experts, int, int], ...]
    """Layers of routed experts, how many there are of each kind, and how many such chunks one after the other."""
    has_experts: bool
    learning: Mapping[bool, tuple[Total, Sequence[int]]]
    """Return trainable elements of experts with buffers of their own, and of the rest, with their key in `stored`."""
    multiplied: tuple[tuple[str, tuple[Shape, ...]], ...]
    heads: frozenset[str]
    """Paths of the output head's matrix."""
    """Paths and axes of matrices that TransformerEngine multiplies by."""
    extents: Products
    """The lengths of those axes, one matrix after the other."""


@dataclass(frozen=True)
class Workspaces:
    """Return what one rank keeps in addition to its model and optimizer."""

    job: MegatronJob

    @cached_property
    def content(self) -> Content:
        """Return what of the model the chunks have."""
        return _content(tuple(chunk.share for chunk in self.job.chunks), apart=self.job.ranks.experts_apart)

    @property
    def stored(self) -> tuple[Stored, ...]:
        """Return the parameters of all chunks."""
        return self.content.stored

    @cached_property
    def elements(self) -> Sequence[int]:
        """Return elements of each parameter."""
        return self.content.elements(self.job.sizes)

    def workspace_entries(self) -> Iterator[Entry]:
        """Yield what libraries and modules keep once they have run."""
        yield from self._matmul_workspaces()
        yield from self._own_workspaces()

    def _matmul_workspaces(self) -> Iterator[Entry]:
        """PyTorch's, for the forward and for the backward thread."""
        (rule, size), *_ = matmul_workspaces(self.job.accelerator)
        if self.job.config.get(MegatronSettings.deterministic_mode):
            size = 32 * MiB
        yield self.entry(rule, "", (size // ITEMSIZE["fp32"],), "fp32", 2, _FROM_FIRST_USE)

    def _own_workspaces(self) -> Iterator[Entry]:
        plan = self.job.recipe.plan(MegatronPlan)
        own = self.job.recipe.implementation == "transformer-engine"
        if own or self.content.routed:
            # A router multiplies by TransformerEngine whatever the layers are made of (moe_utils.py).
            major = self.job.accelerator.major if self.job.accelerator else 9
            size = 32 * MiB if major is None or major >= 9 else 4 * MiB
            grouped = plan is not None and plan.experts is not None and plan.experts.grouped
            streams = 1 + (_STREAMS if grouped and self.content.has_experts and own else 0)
            streams += _BUFFER_STREAMS if self.job.config[MegatronSettings.tp_comm_overlap] and own else 0
            yield self.entry("te_workspace", "", (size,), "uint8", streams, _FROM_FIRST_USE)
        if own and plan is not None and plan.fuses_weight_gradients:
            yield from self._dummies(plan)
        yield from self._memory_buffer()
        yield from self._stays_gathered()
        yield from self._dispatchers()

    def _dummies(self, plan: MegatronPlan) -> Iterator[Entry]:
        """Yield one for each shape of a matrix that TransformerEngine multiplies, and of the head.

        The head's own backward pass (core/tensor_parallel/layers.py) takes TransformerEngine's since core 0.14, whether
        it computes the weight's gradient or defers it.
        """
        seen: set[tuple[int, ...]] = set()
        extents = iter(self.content.extents(self.job.sizes))
        for path, axes in self.content.multiplied:
            found = tuple(islice(extents, len(axes)))
            if path in self.content.heads and not plan.keeps_head_dummy:
                continue
            if found not in seen:
                seen.add(found)
                shape, dtype = tuple(chain.from_iterable(axes)), self.job.states.parameter
                yield self.entry("dummy_gradient", path, shape, dtype, 1, _FROM_FIRST_USE, prod(found))

    def _memory_buffer(self) -> Iterator[Entry]:
        """Megatron's own buffer, as large as its largest use."""
        plan, recipe = self.job.recipe.plan(MegatronPlan), self.job.recipe
        uses: dict[str, Shape | None] = {
            "gather_buffer": ("s", "b", "h") if plan is not None and plan.sequence and self._gathers() else None,
            "score_buffer": self._scores(),
            "expert_buffer": None if plan is None else self._gathered_tokens(plan),
        }
        dtype = recipe.precision.compute
        entries = [
            self.entry(rule, "", shape, dtype, 1, _FROM_FIRST_USE) for rule, shape in uses.items() if shape is not None
        ]
        if entries:
            yield max(entries, key=lambda entry: product(entry.shape, self.job.sizes))

    @property
    def _is_local(self) -> bool:
        """Return whether layers are Megatron's own, without TransformerEngine."""
        return self.job.recipe.implementation == "megatron-local"

    def _gathers(self) -> bool:
        """Return whether a linear layer gathers the sequence; a frozen head does it for itself.

        Source: core/tensor_parallel/layers.py (`linear_with_frozen_weight`).
        """
        network = self.job.chunks[-1].share.network
        ends = network.embedding_and_head
        splits_head = ends.predicts and ends.head.split is not None
        return (self._is_local or splits_head) and any(learns(each, network) for each in ends.head.weights("head"))

    def _scores(self) -> Shape | None:
        """Return the shape of attention's scores, where it keeps them in the buffer."""
        recipe = self.job.recipe
        scored = recipe.network.kinds if self._is_local and recipe.attention == "math" else ()
        heads = (mixer.heads.query for layer in scored for mixer in layer.mixers if hasattr(mixer, "heads"))
        query = next(heads, None)
        return None if query is None else ("b", query, "s", "s")

    def _gathered_tokens(self, plan: MegatronPlan) -> Shape | None:
        """Return the shape of the tokens of all ranks that share experts, where an all-gather brings them."""
        experts = plan.experts if self.content.routed else None
        if experts is None or experts.dispatcher != "allgather" or not (experts.parallel or experts.tensor):
            return None
        sent = next(ffn.latent[0].outer if ffn.latent else ("h",) for ffn, *_ in self.content.routed)
        return ("etp", "ep", *self._tokens(plan), *sent)

    def _tokens(self, plan: MegatronPlan) -> Shape:
        """Return the tokens that a rank routes."""
        return (split_over("s") if plan.sequence else "s", "b")

    def _dispatchers(self) -> Iterator[Entry]:
        """Every layer's dispatcher refers to what the last micro-batch was routed by."""
        plan = self.job.recipe.plan(MegatronPlan)
        experts = plan.experts if plan is not None else None
        if plan is None or experts is None:
            return
        for ffn, count, chunks in self.content.routed:
            tokens, everyone, found = self._tokens(plan), ffn.router.outer, []
            if experts.dispatcher == "allgather":
                tokens, everyone = ("etp", "ep", *tokens), ffn.experts[0].axes[0]
            else:
                dtype = "fp32" if "fp32-router" in ffn.options else self.job.recipe.precision.compute
                found += [self.entry("routing_weights", _DISPATCHER, (*tokens, *everyone), dtype, count, _LEFT)]
            found += [self.entry("routing_map", _DISPATCHER, (*tokens, *everyone), "bool", count, _LEFT)]
            yield from found * chunks

    def left_entries(self) -> Iterator[Entry]:
        """Yield what is there between steps alone: in a step others take its place, which are counted as in flight."""
        yield from self._last_inputs(2 * self._receiving - self._referred, _REPLACED)
        yield from self._left_routing()

    def _left_routing(self) -> Iterator[Entry]:
        """Yield what dispatchers refer to besides, which during a step is kept for the backward pass too."""
        plan = self.job.recipe.plan(MegatronPlan)
        experts = plan.experts if plan is not None else None
        if plan is None or experts is None or experts.dispatcher not in ("allgather", "alltoall"):
            return
        for ffn, count, chunks in self.content.routed:
            tokens, everyone = self._tokens(plan), ffn.router.outer
            if experts.dispatcher == "allgather":
                tokens, everyone = ("etp", "ep", *tokens), ffn.experts[0].axes[0]
            fused = experts.permute_fusion
            shape: Shape = (*tokens, 2, *everyone) if fused else (*everyone, *tokens)
            rule, dtype = ("row_map", "int32") if fused else ("sort", "int64")
            yield from [self.entry(rule, _DISPATCHER, shape, dtype, count, _LEFT)] * chunks

    def _stays_gathered(self) -> Iterator[Entry]:
        """Yield what is gathered once: everything outside the layers."""
        for each in self.stored if self.job.states.shares_parameters else ():
            if not each.path.startswith(f"{PATH}."):
                dtype = self.job.states.parameter
                yield self.entry("fsdp_gathered", each.path, each.weight.shape, dtype, each.count, _FROM_FIRST_USE)

    @property
    def released(self) -> int:
        """Return in bytes what is gathered once but given back after each step.

        From core 0.14 to 0.17 `finish_grad_sync` resets the pipeline that gathers, and with it everything outside the
        layers; since Megatron-LM's pull request 4717 that stays (param_and_grad_buffer.py: AllGatherPipeline.reset).
        """
        plan = self.job.recipe.plan(MegatronPlan)
        resets = plan is not None and plan.releases_outside_layers
        return total(self._stays_gathered()) if resets else 0

    def receive_buffers(self) -> Iterator[Entry]:
        """Each chunk's model refers to its last input, whose gradient stays with it.

        A step's first forward pass of a chunk replaces them, so that while the last one runs only its own are there.
        Between chunks the schedule itself refers to what it received last before backward passes began.
        """
        yield from self._last_inputs(self._referred, _FROM_FIRST_USE)

    @property
    def _referred(self) -> int:
        """Inputs and gradients of them while micro-batches run (schedules.py: `input_tensor` of the warm-up)."""
        several = (
            len(self.job.chunks) > 1 and not self.job.config[MegatronSettings.overlap_p2p_communication_warmup_flush]
        )
        return min(2 + several, 2 * self._receiving)

    @cached_property
    def _receiving(self) -> int:
        """Chunks that read other stages' results."""
        return sum(not chunk.share.network.embedding_and_head.reads_tokens for chunk in self.job.chunks)

    def _last_inputs(self, copies: int, lifetime: str) -> Iterator[Entry]:
        plan = self.job.recipe.plan(MegatronPlan)
        tokens = split_over("s") if plan is not None and plan.sequence else "s"
        if copies:
            dtype = self.job.recipe.precision.compute
            yield self.entry("last_input", "", (tokens, "b", "h"), dtype, copies, lifetime)

    def deferred_entries(self) -> Iterator[Entry]:
        """Yield what earlier micro-batches have left for the head's weight gradient, when the last one runs."""
        plan = self.job.recipe.plan(MegatronPlan)
        if (
            plan is None
            or not plan.defers_head_gradient
            or not self.job.chunks[-1].share.network.embedding_and_head.predicts
        ):
            return
        limit = self.job.config[MegatronSettings.wgrad_deferral_limit] or self.job.micro_batches
        count, dtype = min(limit, self.job.micro_batches - 1), self.job.recipe.precision.compute
        tokens = split_over("s") if plan.sequence else "s"
        for shape in ((tokens, "b", "h"), ("s", "b", split_over("V"))) if count else ():
            yield self.entry("deferred_gradient", "output_layer", shape, dtype, count, _DEFERRED)

    def passing_bytes(self, phase: str) -> int:
        """Return in bytes what exists while micro-batches run."""
        return total(self.passing(phase))

    def passing(self, phase: str) -> Sequence[Entry]:
        """Return what exists while micro-batches run, in addition to their activations.

        Nothing that stays over the step.
        """
        if phase not in self._passing:
            self._passing[phase] = (*self.deferred_entries(), *self._gathered(phase))
        return self._passing[phase]

    @cached_property
    def _passing(self) -> dict[str, Sequence[Entry]]:
        return {}

    def _gathered(self, phase: str) -> Iterator[Entry]:
        """Layers that Megatron-FSDP has gathered ahead, and gradients that it has yet to scatter.

        The backward pass of the head, which belongs to the loss, already gathers the last layers. A loss in fp32 peaks
        before, when it makes the gradient of the logits: the forward pass has released its layers (`_post_forward`),
        and the head's gradient is not there yet. Layers with routed experts are still gathered then: Megatron-LM's
        golden values of one network with and without Megatron-FSDP differ by them; it is not known why.
        """
        if not self.job.states.shares_gradients:
            return
        plan = self.job.recipe.plan(MegatronPlan)
        early = phase == "loss" and plan is not None and plan.loss != "te"
        if early and not self.content.has_experts:
            return
        layers = [
            sum(product(weight.shape, self.job.sizes) for weight in layer.weights())
            for chunk in self.job.chunks
            for layer, count in chunk.share.layers
            for _ in range(count)
        ]
        others = [each for each in self.stored if not each.path.startswith(f"{PATH}.")]
        if phase == "loss":
            tied = self.job.chunks[-1].share.network.embedding_and_head.tied
            others = [each for each in others if each.weight.kind == ("embedding" if tied else "head")]
        outside_layers = sum(product(each.weight.shape, self.job.sizes) * each.count for each in others)
        states, largest = self.job.states, max(layers, default=0)
        if states.shares_parameters and layers:
            ahead = min(sum(layers), largest + _AHEAD)
            yield self.entry("fsdp_gathered", "decoder.layers", (ahead,), states.parameter, 1, _PASSING)
        if phase != "forward" and not early:
            waiting = outside_layers + (sum(layers) if phase == "backward" else 0)
            queued = min(waiting, max(_QUEUED, 2 * largest))
            yield self.entry("fsdp_gradients", "decoder.layers", (queued,), states.gradient, 1, _PASSING)

    def entry(
        self,
        rule: str,
        module: str,
        shape: Shape,
        dtype: str,
        copies: int,
        lifetime: str,
        elements: int | None = None,
    ) -> Entry:
        """Return a row of the ledger; `elements` of the shape, if they are known already."""
        size = product(shape, self.job.sizes) if elements is None else elements
        return entry_of(rule, module, shape, dtype, copies, aligned(size * ITEMSIZE[dtype]), lifetime)


@lru_cache(maxsize=256)
def _content(shares: tuple[Model, ...], *, apart: bool) -> Content:
    """Return what some chunks have; `apart`: the parameters of experts are in buffers of their own."""
    found: dict[tuple[Weight, str], int] = {}
    for share in shares:
        for weight, path, count in share.tensors:
            found[weight, path] = found.get((weight, path), 0) + count
    network = shares[0].network
    stored = tuple(
        Stored(weight, path, count, apart and _of_experts(weight), learns(weight, network))
        for (weight, path), count in found.items()
    )
    layers = (each for share in shares for each in share.layers)
    routed = [(ffn, count) for layer, count in layers for ffn in layer.ffns if isinstance(ffn, Experts)]
    chunks = [list(same) for _, same in groupby(routed, key=lambda each: (id(each[0]), each[1]))]
    learning = {
        expert: [place for place, each in enumerate(stored) if each.learns and each.expert == expert]
        for expert in (False, True)
    }
    heads = {each for share in shares for each in _heads(share.network)}
    multiplied = tuple(
        (each.path, each.factors) for each in stored if each.multiplied or (each.learns and each.weight in heads)
    )
    return Content(
        stored=stored,
        elements=Products([each.weight.shape for each in stored]),
        routed=tuple((*same[0], len(same)) for same in chunks),
        has_experts=any(each.weight.kind == "routed-expert" for each in stored),
        learning={
            expert: (Total("N", tuple((stored[place].count, *stored[place].weight.shape) for place in places)), places)
            for expert, places in learning.items()
        },
        multiplied=multiplied,
        heads=frozenset(each.path for each in stored if each.weight in heads),
        extents=Products([axis for _, axes in multiplied for axis in axes]),
    )


def _heads(network: Network) -> Iterator[Weight]:
    """Yield the output head's matrix, where there is one."""
    if network.embedding_and_head.predicts:
        yield (
            network.embedding_and_head.embedding
            if network.embedding_and_head.tied
            else next(network.embedding_and_head.head.weights("head"))
        )


def _of_experts(weight: Weight) -> bool:
    """Return whether it belongs to routed experts, as a matrix or as an adapter next to it."""
    return weight.kind == "routed-expert" or (weight.kind == "adapter" and ".experts." in weight.name)


def total(entries: Iterable[Entry]) -> int:
    """Return bytes of entries."""
    return sum([entry.each * entry.copies for entry in entries])
