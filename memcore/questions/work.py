"""What a model has to compute and to communicate in a step, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from memcore import registry
from memcore.config.training import Training
from memcore.hardware import PERMUTING, USUAL, USUAL_SHARE, attention_share
from memcore.networks.adapters import trainable
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, LatentAttention
from memcore.networks.weights import linears_of
from memcore.questions import scans, unrecorded
from memcore.questions.kernels import kernels_of
from memcore.records import dataclass
from memcore.symbols import measure
from memcore.trace.job import Job
from memcore.trace.traffic import USUAL_DISPATCH, Dispatch


@dataclass(frozen=True, slots=True)
class Work:
    """What a model has to compute and to communicate, whatever the layout."""

    products: float
    """Operations of the forward pass of one sequence in matrix products with parameters."""
    attention: float
    """Its operations in attention."""
    parameters: int
    layers: float
    """Pairs of a mixer and a feed-forward layer, as most layers are; a layer of one of them counts half."""
    hidden: int
    keys: int
    """Elements of keys and values of a token, over all layers."""
    sequence: int
    routed: int = 0
    """Of the parameters, those of routed experts."""
    chosen: int = 0
    """Experts of a token, over all layers."""
    routed_width: float = 0.0
    """Elements of a token that are sent to each of its experts: the hidden size, or that of a smaller latent space."""
    elementwise: float = 0.0
    """Bytes that kernels other than products and attention read and write in the forward pass of a sequence."""
    gathered: float = 0.0
    """The same of kernels that every rank of tensor parallelism runs on all that it gathers."""
    scanned: tuple[float, float] = (0.0, 0.0)
    """Bytes that chunked scans read and write for a sequence in a forward and in a backward pass."""
    head: float = 0.0
    """Of `products`, those of the head."""
    last: float = 0.0
    """Of `products`, those that end layers: nothing in a layer saves their results."""
    unaligned: float = 0.0
    """Of `products`, those whose rows are no multiple of 16 bytes: the head's with an odd number of words."""
    frozen: bool = False
    """Weights are frozen but for adapters: the backward pass computes no gradients of them."""
    learned: float = 1.0
    """Parameters that learn over all: the others' gradients are neither kept nor summed."""
    narrow: float = 0.0
    """Share of the products that run in 8 bits, at twice the rate: all but the head's."""
    kernel: float = 1.0
    """How much faster its attention kernel is than FlashAttention-2 on the same GPU."""
    expert_products: float = 0.0
    """Of `products`, those of routed experts."""
    density: float = 0.0
    """Share of the experts that a token chooses."""
    inner: float = 0.0
    """Widths between the products of layers, all together: those that tensor parallelism divides."""
    sparse: int = 0
    """Layers with routed experts."""
    launched: float = 0.0
    """Seconds that the host takes to start a layer's kernels, forward and backward passes together."""
    passed: float = 0.0
    """Seconds that hosts wait where a micro-batch passes between stages, for each tensor-parallel rank."""
    launched_expert: float = 0.0
    """The same for those of all experts of a layer, if one rank had them."""
    kernels: float = 0.0
    """A third of the kernels of a micro-batch's forward and backward pass, where nothing fuses them."""
    outer: float = 0.0
    """Widths that products of layers read from the residual stream or write to it, all together."""
    counted: float = 0.0
    """Seconds that the host takes to start what moves tokens to a layer's experts and back once it knows how many each
    expert has, in both passes; 0: no host waits for that."""
    captured: frozenset[str] = frozenset()
    """Which kernels run in CUDA graphs: those of a `layer`, of `routing`, of `experts`."""


def work_of(model: Model, sequence: int) -> Work:
    """Return what one sequence of a model takes."""
    return _work(_Known(model), sequence)


@dataclass(frozen=True, slots=True)
class _Known:
    model: Model

    def __hash__(self) -> int:
        return hash((self.model.network, self.model.repeats))


@lru_cache(maxsize=64)
def _work(known: _Known, sequence: int) -> Work:
    model = known.model
    sizes, embedding_and_head = {**model.sizes, "tp": 1}, model.network.embedding_and_head
    looked_up = 0 if embedding_and_head.tied else model.size(embedding_and_head.embedding.shape)
    positions = model.size(embedding_and_head.positions.shape) if embedding_and_head.positions is not None else 0
    operations = keys = 0.0
    routed = chosen = sparse = 0
    active = carried = last = 0.0
    for layer, count in model.layers:
        last += count * _ending(model, layer)
        for mixer in layer.mixers:
            if isinstance(mixer, Attention | LatentAttention):
                heads = mixer.heads
                width = measure(heads.width, sizes) + measure(heads.value, sizes)
                seen = min(sequence, model.window or sequence) if mixer.mask != "full" else sequence
                operations += count * 2 * seen * measure(heads.query, sizes) * width / (1 if seen < sequence else 2)
                keys += count * measure(heads.key, sizes) * width
        for ffn in layer.ffns:
            if isinstance(ffn, Experts):
                routed += count * sum(model.size(weight.shape) for weight in ffn.experts)
                chosen += count * sizes[ffn.routed]
                carried += count * sizes[ffn.routed] * measure(ffn.reads, sizes)
                sparse += count
                active += count * sum(model.size(w.shape) for w in ffn.experts) * sizes[ffn.routed] / sizes["E"]
    columns = max(model.active_parameters - looked_up - positions - sizes["V"] * sizes["h"], 0) / sizes["h"]
    # For each further token that a layer predicts the head makes logits of its own (Megatron-LM, transformer/
    # multi_token_prediction.py, process_mtp_loss).
    predicted = sum(count * layer.extra.predicts for layer, count in model.layers if layer.extra is not None)
    head = 2.0 * sizes["V"] * sizes["h"] * sequence
    forward, backward = scans.moved(model, scans.SCANS)
    return Work(
        products=2.0 * (model.active_parameters - looked_up - positions) * sequence + predicted * head,
        attention=operations * sequence,
        parameters=model.parameters,
        layers=_pairs(model),
        hidden=sizes["h"],
        keys=int(keys),
        sequence=sequence,
        routed=routed,
        chosen=chosen,
        routed_width=carried / chosen if chosen else 0.0,
        elementwise=float(sequence * _elementwise(model)),
        scanned=(sequence * forward, sequence * backward),
        inner=columns,
        outer=4 * _pairs(model) * sizes["h"],
        head=(1 + predicted) * head,
        last=2.0 * last * sequence,
        frozen=model.network.adapted,
        learned=trainable(model) / model.parameters,
        sparse=sparse,
        expert_products=2.0 * active * sequence,
        density=active / routed if routed else 0.0,
    )


def _ending(model: Model, layer: Layer) -> int:
    """Return parameters of a layer's last product; 0 where experts end it, or an adapter that saves what it reads."""
    parts = [*layer.mixers, *layer.ffns]
    if not parts or isinstance(parts[-1], Experts):
        return 0
    found = [each for each in linears_of(parts[-1]) if each.outer == ("h",) and each.adapter_dtype is None]
    return sum(model.size(each.inner) * model.size(each.outer) for each in found)


def beside_of(model: Model) -> tuple[float, ...]:
    """Return parameters of products that read what tensor parallelism gathers, and of those whose results it reduces.

    Over all layers: of mixers, then of feed-forward layers but for routed experts.
    """
    found = [0.0] * 4
    for layer, count in model.layers:
        parts = [(0, each) for each in layer.mixers] + [(2, each) for each in layer.ffns]
        for place, part in parts:
            for each in () if isinstance(part, Experts) else linears_of(part):
                writes = each.outer == ("h",)
                found[place + writes] += count * model.size(each.inner) * model.size(each.outer)
    return tuple(found)


def _elementwise(model: Model) -> float:
    """Bytes that a token makes elementwise kernels read and write in a forward pass, with activations in 16 bits.

    For each pair of a mixer and a feed-forward layer two norms and two residual sums read or write ten hidden states.
    What products make is read once more by rotations and activation functions, as many elements as the products have
    columns: parameters over the hidden size. The loss writes the logits, casts them to fp32, and writes their
    gradient: 16 bytes for each word.
    The hidden state of a token is written once for each of its experts, sorted by expert, and the same on the way back:
    six times read or written (Megatron-LM, transformer/moe/token_dispatcher.py: permute, sort_chunks_by_idxs).
    """
    sizes = model.sizes
    head = sizes["V"] * sizes["h"]
    columns = max(model.active_parameters - 2 * head, 0) / sizes["h"]
    carried = sum(
        count * sizes[ffn.routed] * measure(ffn.reads, sizes)
        for layer, count in model.layers
        for ffn in layer.ffns
        if isinstance(ffn, Experts)
    )
    return 2 * (10 * _pairs(model) * sizes["h"] + _MOVES * carried + columns) + 16 * sizes["V"]


def _pairs(model: Model) -> float:
    return sum(count * (bool(layer.mixers) + bool(layer.ffns)) for layer, count in model.layers) / 2


def work_for(job: Job, sequence: int) -> Work:
    """Return what one sequence of a job takes, with its precision and its attention kernel."""
    work, model, sizes = work_of(job.model, sequence), job.model, job.sizes
    unaligned = work.head if sizes.get("V", 0) % 8 and not in_fp32(job) else 0.0
    accelerator, version = job.accelerator or USUAL, job.config[Training.flash_version] or 2
    flash = attention_share("sdpa", version, accelerator)
    kernel = attention_share(job.recipe.attention, version, accelerator) / flash
    elementwise, narrow, gathered = work.elementwise, 0.0, 0.0
    elementwise += 2 * sequence * work.routed_width * (_moved(job, work) - _MOVES * work.chosen)
    elementwise += sequence * _weighed(job) / 3
    if composes(job) and job.stages == 1:
        recorded, passes = kernels_of(job), 3 + recomputed(job)[0]
        elementwise = recorded.bytes * job.sizes["tp"] * job.sizes["cp"] / job.sizes["b"] / passes
        work = replace(work, kernels=recorded.count / passes)
    else:
        elementwise += sequence * sum(scans.moved(model, scans.AROUND)) / 3
        elementwise += unrecorded.layers(job, sequence) if composes(job) else 0.0
        elementwise *= 2 if in_fp32(job) else 1
        elementwise += unrecorded.adapters(job)[0] + unrecorded.dequantized(job)
        if job.recipe.attention == "math":
            elementwise += work.attention / _width(model) * _SCORE_BYTES
    if job.recipe.recurrence.kernels != "fused":
        work = replace(work, scanned=(0.0, 0.0))
    if job.recipe.attention == "math":
        # Plain products, which do not skip what the causal mask hides, and whose scores are kept.
        kernel = USUAL_SHARE / flash / 2 * ATTENTION / 3
    if str(job.config[Training.precision]).startswith("fp8"):
        narrow = max(1 - work.head / work.products, 0.0)
        own = _casts(job)
        if own is None:
            cast = _CAST_BYTES * (_CAST_ONCE if work.frozen else 1)
            elementwise += work.products * narrow / 2 / sizes["h"] * cast
        else:
            elementwise += sequence * work.inner * own / 3
            gathered = sequence * work.outer * own / 3
    return _with_launches(
        job,
        replace(work, narrow=narrow, kernel=kernel, elementwise=elementwise, gathered=gathered, unaligned=unaligned),
    )


def _casts(job: Job) -> float | None:
    """Bytes of casts to 8 bits for each element that products read, in a step, where the job's engine says so."""
    own: Callable[[Job], float | None] | None = getattr(registry.engine_module(job.engine.name, "costs"), "casts", None)
    return None if own is None else own(job)


def _weighed(job: Job) -> float:
    """Bytes that the router's weights move for a token in a step beyond a fused kernel's, where the engine says so."""
    own: Callable[[Job], float] | None = getattr(registry.engine_module(job.engine.name, "costs"), "weighed", None)
    return 0.0 if own is None else own(job)


def composes(job: Job) -> bool:
    """Return whether what a layer does between its products takes several kernels, which nothing fuses."""
    fused = getattr(registry.engine_module(job.engine.name, "costs"), "fuses", None)
    return not (job.recipe.compiled or job.recipe.liger >= _LIGER or (fused is not None and fused(job)))


def in_fp32(job: Job) -> bool:
    """Return whether products are computed in fp32."""
    return job.recipe.precision.compute == "fp32" and not job.recipe.precision.autocast


def dispatch_of(job: Job) -> Dispatch:
    """Return how the job's engine sends tokens to experts."""
    own = getattr(registry.engine_module(job.engine.name, "costs"), "dispatch", None)
    found: Dispatch = USUAL_DISPATCH if own is None else own(job)
    return found


def ranks_of_token(ranks: float, chosen: float) -> float:
    """Return how many of the ranks have one of a token's experts, which are chosen at random."""
    found: float = ranks * (1 - (1 - 1 / ranks) ** chosen)
    return found


def _moved(job: Job, work: Work) -> float:
    """Hidden states that kernels read or write for a token on its way to its experts and back, over all layers."""
    if not work.sparse:
        return 0.0
    found, chosen = dispatch_of(job), work.chosen / work.sparse
    ranks = ranks_of_token(job.sizes.get("ep", 1), chosen)
    slower = PERMUTING.get((job.accelerator or USUAL).capability, 1.0)
    return work.sparse * (found.moves * chosen + found.moves_of_ranks * ranks) * slower


_MOVES = USUAL_DISPATCH.moves


def _with_launches(job: Job, work: Work) -> Work:
    """Return the work with the seconds that the host takes to start kernels."""
    module = registry.engine_module(job.engine.name, "costs")
    own = getattr(module, "layer_launched", None)
    kernels = 3 * work.kernels / work.layers
    if not kernels:
        kernels = _LAUNCHES + _LAUNCHES_ROUTED * work.sparse / work.layers + unrecorded.adapters(job)[1]
    each = _LAUNCHES_EXPERT * (3 if work.narrow else 1) * job.model.sizes.get("E", 0)
    captured: frozenset[str] = module.captured(job) if hasattr(module, "captured") else frozenset()
    if captured:
        kernels -= _LAUNCHES if "layer" in captured else 0
        kernels -= _LAUNCHES_ROUTED * work.sparse / work.layers * len(captured & {"routing", "experts"}) / 2
        each = 0 if "experts" in captured else each
    waits = getattr(module, "COUNTS", False) and "experts" not in captured
    return replace(
        work,
        captured=captured,
        counted=_LAUNCHES_ROUTED / 2 * _LAUNCH if waits and work.sparse else 0.0,
        launched=own(job) if own is not None else kernels * _LAUNCH * (_COMPILED if job.recipe.compiled else 1),
        launched_expert=each * _LAUNCH,
        passed=getattr(module, "PASSED", 0.0),
    )


def _width(model: Model) -> float:
    """Operations of attention for each score, as `work_of` counts them: half of the products under a causal mask."""
    found = [
        measure(mixer.heads.width, model.sizes) + measure(mixer.heads.value, model.sizes)
        for layer, _ in model.layers
        for mixer in layer.mixers
        if isinstance(mixer, Attention | LatentAttention)
    ]
    return max(found, default=1)


_LAUNCH = 20e-6
"""Seconds of the host for a kernel in PyTorch's eager mode, Python and autograd included: a step of Llama 3.2 1B with
256 tokens and SGD in one kernel takes 42.6 ms next to an H100, of which its kernels move data for 10, so that each of
16 layers takes 2 (validation/measured/, optimizer-sgd-fused)."""
_COMPILED = 0.3
"""Of a layer's kernels, those that are left where blocks are compiled: products, attention and what lies between."""
_LAUNCHES, _LAUNCHES_ROUTED, _LAUNCHES_EXPERT = 100, 150, 6
"""Kernels of a layer's forward and backward pass, those that routed experts add, and products of one expert: two in the
forward pass, four in the backward pass; in 8 bits each has two inputs to be cast."""
_LIGER = frozenset({"rms_norm", "rope", "swiglu"})
"""Kernels of Liger that fuse what a layer does between its products."""
_SCORE_BYTES = 12
"""Bytes for each score without a fused kernel, in 16 bits: written by the first product, read and written by the mask
and by the softmax, read by the second product (transformers, models/llama/modeling_llama.py,
eager_attention_forward)."""
_CAST_BYTES = 8 / 3
"""Bytes for each element that a product in 8 bits reads, a mean of three passes: an input of the forward pass and a
gradient of the backward pass are read in 16 bits and written in 8, as they are and transposed, since Hopper multiplies
in 8 bits along rows alone (TransformerEngine, pytorch/module/linear.py)."""
_CAST_ONCE = 3 / 4
"""The same without what is transposed, which gradients of weights alone read (`backward_needs_input`, which asks
`weight.requires_grad`)."""


ATTENTION = 3.5
"""Forward passes that attention's forward and backward pass take: fused kernels compute the scores once more, five
products instead of four (arXiv 2307.08691, section 3.1)."""


def recomputed(job: Job) -> tuple[float, float]:
    """Return the shares of the layers' products and of their attention that checkpoints compute again.

    torchtitan's selective policy keeps every second product and attention; an engine whose modules are chosen says so.
    """
    own = getattr(registry.engine_module(job.engine.name, "costs"), "recomputed", None)
    if own is not None:
        said: tuple[float, float] = own(job)
        return said
    if job.recipe.checkpoints is None:
        return _BY_POLICY.get(str(job.config[Training.activation_checkpointing.policy]), (0.0, 0.0))
    recipe, checkpoints = job.recipe, job.recipe.checkpoints
    share = 1 - len(checkpoints.skipped) / sum(len(run) for run in recipe.network.runs)
    if checkpoints.selection is None:
        return share, share
    if checkpoints.selection.chosen is None:
        return share / 2, 0.0
    again: tuple[float, float] = registry.engine_module(job.engine.name, "budgets").computed_again(recipe, job.sizes)
    return again


def stops_early(job: Job) -> bool:
    """Return whether checkpoints end as soon as what a layer saves exists again, before its last product.

    Source: torch/utils/checkpoint.py, `_StopRecomputationError`: inputs are saved before a product runs.
    """
    checkpoints = job.recipe.checkpoints
    if checkpoints is None:
        own: bool = getattr(registry.engine_module(job.engine.name, "costs"), "STOPS_EARLY", True)
        return own and not job.config[Training.activation_checkpointing.use_reentrant]
    budget = checkpoints.selection is not None and checkpoints.selection.chosen is not None
    return checkpoints.early_stop and not checkpoints.reentrant and not budget


_BY_POLICY: Mapping[str, tuple[float, float]] = {"full": (1.0, 1.0), "selective": (0.0, 1.0)}
