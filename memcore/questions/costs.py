"""What a layout costs: a roofline that ranks layouts, with the range that published step times had around it.

A step of training takes, on one GPU,

    seconds = (max(computing, data + context) + tensor + expert + pipeline + host) × (1 + bubble) + update

- `computing`: matrix products and attention, three times the forward pass (the backward pass has two products for each
  of the forward pass's, one where weights are frozen), once more for what checkpoints compute again, over the peak rate
  times what products and attention reach of it; where micro-batches are small, products take the time to read the
  parameters in every pass and to add up their gradients; and what elementwise kernels read and write.
- `data`: all-gathers of parameters and reduce-scatters or all-reduces of gradients; `context`: keys and values that
  ranks of one sequence pass on. Both are assumed to be hidden behind computing as far as that takes longer.
- `tensor`: four collectives for each layer and pass, which wait for each other; `expert`: the hidden states of each
  token on their way to each of its experts and back; `pipeline`: hidden states sent on.
- `host`: what offloading moves over the link to the host, and the optimizer's step there, which its memory limits.
- `update`: the optimizer's step, which reads and writes parameters, gradients and states once.
- `bubble`: (stages - 1) / (micro-batches × chunks of a stage), as in 1F1B and GPipe; a part of it where a schedule
  splits the backward pass (`IDLE`).

A group of ranks communicates over the fast links if it fits into their domain, else over the network ports of all its
ranks in a node. Ranks are placed
as torchtitan does: tensor parallel innermost, then context, then data, the pipeline outermost. Every input stands in
`Roofline` and can be replaced; costs are compared with each other only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from memcore import registry
from memcore.config.training import Training
from memcore.dtypes import ITEMSIZE
from memcore.errors import ConfigError, Problem, nearest
from memcore.hardware import BY_ID, CUDNN_SHARES, FLASH_SHARES, GIGA, PRODUCT_SHARES, TERA
from memcore.messages import Message, joined
from memcore.networks.network import Model
from memcore.networks.parts import Attention, Experts, LatentAttention
from memcore.symbols import measure
from memcore.trace.job import Job
from memcore.trace.schedules import BOTH_WAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The rates that the cost model assumes for one GPU, in bytes and operations per second; defaults: an H100.

    [The cost model](costs.md) has the formulas and the source of each value.
    """

    flops: float = 989e12
    """Dense matrix products in 16 bits, operations per second."""
    flops_efficiency: float = 0.59
    """Fraction of `flops` that large products reach, as a mean of measured shapes."""
    attention_efficiency: float = 0.33
    """Fraction of `flops` that FlashAttention-2 reaches in long sequences, forward and backward passes together."""
    memory: float = 3350e9
    """Bandwidth of the GPU's memory, bytes per second."""
    memory_efficiency: float = 0.7
    """Fraction of `memory` that kernels reach (assumed)."""
    link: float = 450e9
    """Bandwidth of the fast links between the GPUs of a node, bytes per second in one direction."""
    domain: int = 8
    """GPUs that the fast links connect."""
    network: float = 50e9
    """Bandwidth between nodes, bytes per second in one direction (assumed: one 400 Gb/s port per GPU)."""
    communication_efficiency: float = 0.7
    """Fraction of a link's bandwidth that collectives reach (assumed)."""
    communication_units: float = 0.15
    """Fraction of the GPU's multiprocessors that a collective takes while it overlaps with computing."""
    collective_latency: float = 24e-6
    """Seconds that a collective takes whatever its size, and `rank_latency` for each further rank."""
    rank_latency: float = 8.5e-6
    """Seconds that each further rank adds to a collective."""
    kernel_latency: float = 10e-6
    """Seconds that a memory-bound kernel takes whatever its size (assumed)."""
    host: float = 25e9
    """Bandwidth to the host, bytes per second in one direction (assumed: PCIe 4.0 × 16)."""
    host_memory: float = 40e9
    """Bandwidth of host memory per GPU, bytes per second (assumed: eight DDR5 channels for four GPUs)."""

    def adjusted(self, **given: float) -> Roofline:
        """Return a copy with other rates.

        Raises:
            ConfigError: If a name is unknown or a value is not above 0.
        """
        known = [each.name for each in fields(self)]
        problems = [
            Problem(
                name,
                Message("found {!r}; inputs: {}; above 0", value, joined(", ", known)),
                nearest(name, known),
            )
            for name, value in given.items()
            if name not in known or not value > 0
        ]
        if problems:
            raise ConfigError(problems)
        return replace(self, **given)  # type: ignore[arg-type]


_USUAL = "h100-sxm-80gb"
"""What an accelerator that is not named counts as."""


def roofline_of(accelerator: str | None, gpus_per_node: int | None = None) -> Roofline:
    """Return the rates of an accelerator in the catalog, those of an H100 if none is named."""
    row = BY_ID.get(accelerator or _USUAL)
    if row is None:
        return Roofline()
    speed, usual = row.speed, BY_ID[_USUAL].speed.matmul
    domain = min(speed.domain, gpus_per_node) if gpus_per_node else speed.domain
    link = speed.link / 2 * GIGA if speed.link else Roofline().host
    return Roofline(
        flops=speed.tflops * TERA,
        flops_efficiency=PRODUCT_SHARES.get(row.capability, _SHAPES) * (speed.matmul or usual or 1),
        attention_efficiency=FLASH_SHARES.get(row.capability, FLASH_SHARES["8.0"]),
        memory=speed.memory * GIGA,
        link=link,
        domain=max(domain, 1),
    )


_SHAPES = sum(set(PRODUCT_SHARES.values())) / len(set(PRODUCT_SHARES.values()))
"""The mean of what is known of other accelerators, where the share of usual shapes is not."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a model has to compute and to communicate, whatever the layout."""

    products: float
    """Operations of the forward pass of one sequence in matrix products with parameters."""
    attention: float
    """Its operations in attention."""
    parameters: int
    layers: int
    hidden: int
    keys: int
    """Elements of keys and values of a token, over all layers."""
    sequence: int
    routed: int = 0
    """Of the parameters, those of routed experts."""
    chosen: int = 0
    """Experts of a token, over all layers."""
    elementwise: float = 0.0
    """Bytes that kernels other than products and attention read and write in the forward pass of a sequence."""
    frozen: bool = False
    """Weights are frozen but for adapters: the backward pass computes no gradients of them."""
    narrow: float = 0.0
    """Share of the products that run in 8 bits, at twice the rate: all but the head's."""
    kernel: float = 1.0
    """How much faster its attention kernel is than FlashAttention-2 on the same GPU."""
    expert_products: float = 0.0
    """Of `products`, those of routed experts."""
    density: float = 0.0
    """Share of the experts that a token chooses."""


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
    """Share of the forward pass's products that checkpoints compute again."""
    attention_again: float = 0.0
    """The same for attention."""
    gathers: int = 0
    """All-gathers of all parameters in a step."""
    reduces: int = 1
    """Reductions of all gradients in a step."""
    computes: int = 2
    """Bytes of an element that is gathered or sent."""
    sums: int = 4
    """Bytes of an element of a gradient that is summed."""
    offloaded: bool = False
    """Parameters and gradients are moved from and to the host."""
    chunks: int = 1
    """Model chunks of a stage."""
    idle: float = 1.0
    """The pipeline's bubble as a share of that of 1F1B."""
    experts: int = 1
    """Ranks among which routed experts are divided."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one GPU does in a step: bytes that it sends, operations, and seconds by the roofline."""

    gpus: int
    tokens: int
    """Of the whole job's step."""
    flops: float
    again: float
    """Of these, what checkpoints compute again."""
    bubble: float
    """Time lost in the pipeline over the time it is full."""
    data: float
    context: float
    tensor: float
    expert: float
    pipeline: float
    host: float
    """Bytes of each kind."""
    computing: float
    hidden: float
    """Seconds of data and context communication, which computing may hide."""
    exposed: float
    """Seconds of what it does not."""
    update: float
    """Seconds of the optimizer's step on the GPU."""
    seconds: float

    @property
    def per_token(self) -> float:
        """GPU-seconds for each token: what layouts are ranked by."""
        return self.seconds * self.gpus / self.tokens


def work_of(model: Model, sequence: int) -> Work:
    """What one sequence of a model takes."""
    return _work(_Known(model), sequence)


@dataclass(frozen=True, slots=True)
class _Known:
    model: Model

    def __hash__(self) -> int:
        return hash((self.model.network, self.model.repeats))


@lru_cache(maxsize=64)
def _work(known: _Known, sequence: int) -> Work:
    model = known.model
    sizes, ends = {**model.sizes, "tp": 1}, model.network.ends
    looked_up = 0 if ends.tied else model.size(ends.embedding.shape)
    positions = model.size(ends.positions.shape) if ends.positions is not None else 0
    operations = keys = 0.0
    routed = chosen = 0
    active = 0.0
    for layer, count in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention | LatentAttention):
                heads = mixer.heads
                width = measure(heads.width, sizes) + measure(heads.value, sizes)
                seen = min(sequence, model.window or sequence) if mixer.mask != "full" else sequence
                operations += count * 2 * seen * measure(heads.query, sizes) * width / (1 if seen < sequence else 2)
                keys += count * measure(heads.key, sizes) * width
        for feed in layer.feeds:
            if isinstance(feed, Experts):
                routed += count * sum(model.size(weight.shape) for weight in feed.experts)
                chosen += count * sizes[feed.routed]
                active += count * sum(model.size(w.shape) for w in feed.experts) * sizes[feed.routed] / sizes["E"]
    return Work(
        products=2.0 * (model.active_parameters - looked_up - positions) * sequence,
        attention=operations * sequence,
        parameters=model.parameters,
        layers=model.num_layers,
        hidden=sizes["h"],
        keys=int(keys),
        sequence=sequence,
        routed=routed,
        chosen=chosen,
        elementwise=float(sequence * _elementwise(model)),
        frozen=model.network.adapted,
        expert_products=2.0 * active * sequence,
        density=active / routed if routed else 0.0,
    )


def _elementwise(model: Model) -> float:
    """Bytes that a token makes elementwise kernels read and write in a forward pass, with activations in 16 bits.

    In each layer two norms and two residual sums read or write ten hidden states. What products make is read once more
    by rotations and activation functions, as many elements as the products have columns: parameters over the hidden
    size. The loss writes the logits, casts them to fp32, and writes their gradient: 16 bytes for each word.
    The hidden state of a token is written once for each of its experts, sorted by expert, and the same on the way back:
    six times read or written (Megatron-LM, transformer/moe/token_dispatcher.py: permute, sort_chunks_by_idxs).
    """
    sizes = model.sizes
    head = sizes["V"] * sizes["h"]
    columns = max(model.active_parameters - 2 * head, 0) / sizes["h"]
    chosen = sum(
        count * sizes[feed.routed] for layer, count in model.layers for feed in layer.feeds if isinstance(feed, Experts)
    )
    return 2 * ((10 * model.num_layers + 6 * chosen) * sizes["h"] + columns) + 16 * sizes["V"]


def work_for(job: Job, sequence: int) -> Work:
    """What one sequence of a job takes, with its precision and its attention kernel."""
    work, model, sizes = work_of(job.model, sequence), job.model, job.model.sizes
    capability = job.accelerator.capability if job.accelerator else BY_ID[_USUAL].capability
    flash = FLASH_SHARES.get(capability, FLASH_SHARES["8.0"])
    kernel = CUDNN_SHARES.get(capability, flash) / flash if job.recipe.attention == "cudnn" else 1.0
    elementwise, narrow = work.elementwise, 0.0
    own = getattr(registry.room(job.engine.name, "costs"), "HIDDEN_BYTES", _EAGER_BYTES)
    if not job.recipe.compiled:
        elementwise += (own - _FUSED_BYTES) * sequence * work.hidden * work.layers
    if job.recipe.attention == "math":
        elementwise += work.attention / _width(model) * _SCORE_BYTES
        kernel = _SHAPES / flash / 2  # plain products, which do not skip what the causal mask hides
    if str(job.config[Training.precision]).startswith("fp8"):
        head = 2.0 * sizes["V"] * sizes["h"] * sequence
        narrow = max(1 - head / work.products, 0.0)
        elementwise += work.products * narrow / 2 / sizes["h"] * _CAST_BYTES
    return replace(work, narrow=narrow, kernel=kernel, elementwise=elementwise)


def _width(model: Model) -> float:
    """Operations of attention for each score, as `work_of` counts them: half of the products under a causal mask."""
    found = [
        measure(mixer.heads.width, model.sizes) + measure(mixer.heads.value, model.sizes)
        for layer, _ in model.layers
        for mixer in layer.mixers
        if isinstance(mixer, Attention | LatentAttention)
    ]
    return max(found, default=1)


_FUSED_BYTES, _EAGER_BYTES = 20, 84
"""Bytes for each element of the residual stream that a layer's kernels move in a forward pass. Fused: two norms and two
sums, ten elements in 16 bits. Eager: two norms that cast to fp32, compute and cast back (40), two sums (12), queries,
keys, values and the attention's output made contiguous (16), and an activation function of four times the width (16):
transformers, models/gpt2/modeling_gpt2.py; PyTorch, autocast_mode.cpp, fp32 list. A trainer whose kernels are fused
says so in its room: `HIDDEN_BYTES`."""
_SCORE_BYTES = 12
"""Bytes for each score without a fused kernel, in 16 bits: written by the first product, read and written by the mask
and by the softmax, read by the second product (transformers, models/llama/modeling_llama.py,
eager_attention_forward)."""
_CAST_BYTES = 8 / 3
"""Bytes for each element that a product in 8 bits reads, a mean of three passes: an input of the forward pass and a
gradient of the backward pass are read in 16 bits and written in 8, as they are and transposed, since Hopper multiplies
in 8 bits along rows alone (TransformerEngine, pytorch/module/linear.py)."""


def cost(work: Work, plan: Plan, roofline: Roofline) -> Cost:
    """What a step of a plan costs."""
    tensor, context, stages = plan.tensor, plan.context, plan.stages
    ranks = plan.gpus // (tensor * stages)
    sequences = ranks // context * plan.micro_batch * plan.micro_batches
    each = sequences / plan.gpus
    again = each * (work.products * plan.products_again + work.attention * plan.attention_again)
    passes_of = 2 if work.frozen else 3
    flops = each * (passes_of * work.products + 3 * work.attention) + again
    local = plan.micro_batch * work.sequence // context
    passes = plan.micro_batches * work.layers / stages
    size = plan.computes
    shared = _shared(tensor)
    tensor_bytes = passes * (2 + plan.products_again) * 4 * local * work.hidden * size * shared
    turned = work.keys / tensor / stages * local * size * (context - 1)
    context_bytes = plan.micro_batches * (3 + plan.attention_again) * turned
    part = (work.parameters - work.routed) / (tensor * stages)
    own = work.routed / (tensor * stages * plan.experts)
    sent = part * _shared(plan.shards) + own * _shared(max(plan.shards // plan.experts, 1))
    data_bytes = sent * (size * plan.gathers + plan.sums * plan.reduces)
    part += own
    travels = plan.micro_batches * work.chosen / stages * local / tensor * work.hidden * size
    expert_bytes = travels * 2 * (2 + plan.products_again) * _shared(plan.experts)
    spread = 2 * part / plan.shards * plan.sums * _shared(plan.replicas) * plan.reduces
    pipeline_bytes = 2.0 * plan.micro_batches * plan.chunks * local * work.hidden * size / tensor if stages > 1 else 0.0
    kept = part / plan.shards if plan.offloaded else 0.0
    update = 0.0 if work.frozen or plan.offloaded else part / plan.shards * _UPDATE / _kernels(roofline)
    host_bytes = kept * (4 * plan.gathers + 4 * plan.reduces)
    far_data = _rate(roofline, tensor * plan.shards, tensor)
    read = plan.micro_batches * part * (size * (2 + plan.products_again) + 2 * plan.sums)
    computing = _computing(work, plan, roofline, each, read)
    computing += roofline.kernel_latency * passes * _KERNELS * (3 + plan.products_again)
    hidden = context_bytes / _rate(roofline, tensor * context, tensor) + data_bytes / far_data
    hidden += spread / _rate(roofline, tensor * ranks, tensor * plan.shards)
    exposed = tensor_bytes / _rate(roofline, tensor) + expert_bytes * _all_to_all(roofline, plan)
    exposed += pipeline_bytes / (roofline.network * roofline.communication_efficiency)
    exposed += host_bytes / roofline.host + kept * _STEP / roofline.host_memory
    bubble = plan.idle * (stages - 1) / (plan.micro_batches * plan.chunks)
    exposed += _latency(roofline, plan, passes, bool(work.routed))
    computing += roofline.communication_units * min(hidden, computing)
    seconds = (max(computing, hidden) + exposed) * (1 + bubble) + update
    tokens = sequences * work.sequence
    moved = (data_bytes + spread, context_bytes, tensor_bytes, expert_bytes, pipeline_bytes, host_bytes)
    return Cost(plan.gpus, tokens, flops, again, bubble, *moved, computing, hidden, exposed, update, seconds)


_STEP = 28
"""Bytes that Adam reads and writes for a parameter on the host: fp32 parameter, gradient and both moments read, all but
the gradient written."""


_UPDATE = 38
"""Bytes that Adam's step reads and writes on the GPU for a parameter in mixed precision: fp32 gradient, parameter and
both moments read, the latter three written, the 16-bit parameter written; before it gradients are read for their norm,
and after it they are filled with zeros (apex, csrc/multi_tensor_adam.cu; Megatron-LM, optimizer/clip_grads.py)."""


def _kernels(roofline: Roofline) -> float:
    """Bytes per second that kernels read and write."""
    return roofline.memory * roofline.memory_efficiency


_KERNELS = 6
"""Memory-bound kernels of a layer's forward pass, if each is fused: two norms, two residual sums, the rotation of
queries and keys, and the activation function (Megatron-LM, fusions/)."""


def _latency(roofline: Roofline, plan: Plan, passes: float, routed: bool) -> float:
    """Seconds that collectives wait for each other whatever their size; those of tensor and expert parallelism wait."""
    turns = passes * (2 + plan.products_again)
    ring = roofline.collective_latency + roofline.rank_latency * (min(plan.tensor, roofline.domain) - 1)
    total = turns * 4 * ring if plan.tensor > 1 else 0.0
    return total + (turns * 2 * 2 * roofline.collective_latency if routed and plan.experts > 1 else 0.0)


def _shared(ranks: int) -> float:
    """What a rank sends of a tensor that `ranks` gather or reduce."""
    return (ranks - 1) / ranks


def _computing(work: Work, plan: Plan, roofline: Roofline, each: float, read: float) -> float:
    """Seconds of products, attention and elementwise kernels; products wait for their weights at least."""
    passes = (2 if work.frozen else 3) + plan.products_again
    reached, memory = roofline.flops * roofline.flops_efficiency, _kernels(roofline)
    faster = 1 - work.narrow / 2
    products = each * work.products * passes * faster / reached
    products += each * work.expert_products * passes * faster / reached * _grouped(work, plan, reached / memory)
    sequence = work.sequence / (1 + _SHORT / work.sequence)
    attention = each * work.attention * (3 + plan.attention_again) * work.sequence / sequence
    attention /= roofline.flops * roofline.attention_efficiency * work.kernel
    return max(products, read / memory) + attention + each * work.elementwise * (3 + plan.products_again) / memory


_SHORT = 350
"""Attention of s tokens reaches s / (s + 350) of its rate in long sequences. arXiv 2407.08608, figures 5 and 6: causal
forward passes of FlashAttention-2 with heads of 128 reach 191, 260, 298, 319, 333, 335 TFLOP/s with 512 to 16k tokens,
cuDNN's 315, 410, 484, 518, 529, 539; both are within 4 % of this."""
_GROUPED = 1.2


def _grouped(work: Work, plan: Plan, balance: float) -> float:
    """How much longer products of an expert take than if it had many tokens: weights are read for few of them.

    `balance` is the operations that a GPU computes while it reads a byte. Measured products of groups with N tokens
    for each expert take 1 + c · balance / N times as long as large ones, c = 1.1 on an A100 (616 and 1,232 tokens) and
    1.3 on a B200 (128 to 2,460 tokens): MooreThreads/SimuMax, configs/system, group_matmul.
    """
    if not work.density:
        return 0.0
    tokens = plan.micro_batch * work.sequence // plan.context / plan.tensor * plan.experts * work.density
    return _GROUPED * balance / max(tokens, 1.0)


def _rate(roofline: Roofline, reach: int, stride: int = 1) -> float:
    """Bytes per second between ranks of which the last is `reach` GPUs away, and neighbours are `stride` apart.

    Rings over several nodes leave each node through the ports of all its ranks (NCCL, graph/search.cc: channels use
    different NICs), so that a group with a whole node has the ports of a whole node.
    """
    if reach <= roofline.domain:
        return roofline.link * roofline.communication_efficiency
    ports = max(roofline.domain // stride, 1)
    return min(roofline.link, roofline.network * ports) * roofline.communication_efficiency


def _all_to_all(roofline: Roofline, plan: Plan) -> float:
    """Seconds for each byte that goes to experts: each rank sends what leaves the node through its own port."""
    if plan.experts == 1:
        return 0.0
    near = min(plan.experts, max(roofline.domain // plan.tensor, 1))
    away = (plan.experts - near) / (plan.experts - 1)
    return max(away / roofline.network, (1 - away) / roofline.link) / roofline.communication_efficiency


def cost_of(job: Job, roofline: Roofline) -> Cost:
    """What a step of a job costs."""
    return cost(work_for(job, job.sizes["s"] * job.sizes["cp"]), plan_of(job), roofline)


SPREAD = 1.32
"""Of ten published step times of tests/truth/speed.json eight are within this factor of what is expected."""


def seconds_of(price: Cost) -> tuple[float, float, float]:
    """Seconds of a step: the low end, what is expected, and the high end."""
    return price.seconds / SPREAD, price.seconds, price.seconds * SPREAD


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


def _traffic(job: Job) -> tuple[int, int, int]:
    """Over how many ranks parameters or states are sharded, how often a step gathers, and how often it reduces."""
    found: Callable[[Job], tuple[int, int, int]] = registry.own(
        job.engine.name, "costs", "TRAFFIC", job.recipe.sharding.engine
    )
    return found(job)


def plan_of(job: Job) -> Plan:
    """How a job divides the work."""
    recipe, sizes = job.recipe, job.sizes
    ranks = job.num_gpus // (job.stages * sizes["tp"])
    shards, gathers, reduces = _traffic(job)
    products, attention = recomputed(job)
    chunks, idle = _turns(job)
    return Plan(
        gpus=job.num_gpus,
        tensor=sizes["tp"],
        stages=job.stages,
        context=sizes["cp"],
        shards=shards,
        replicas=ranks // shards,
        micro_batch=sizes["b"],
        micro_batches=job.micro_batches,
        products_again=products,
        attention_again=attention,
        gathers=gathers,
        reduces=reduces,
        computes=int(ITEMSIZE[recipe.precision.autocast or recipe.precision.compute]),
        sums=int(ITEMSIZE[recipe.precision.reduce]),
        offloaded=job.engine.offloads(recipe),
        chunks=chunks if job.stages > 1 else 1,
        idle=idle,
        experts=sizes.get("ep", 1),
    )


def recomputed(job: Job) -> tuple[float, float]:
    """The shares of the forward pass's products and of its attention that checkpoints compute again.

    torchtitan's selective policy keeps every second product and attention, Megatron's all products.
    """
    if job.recipe.checkpoints is None:
        return _BY_POLICY.get(str(job.config[Training.activation_checkpointing.policy]), (0.0, 0.0))
    recipe, checkpoints = job.recipe, job.recipe.checkpoints
    share = 1 - len(checkpoints.skipped) / sum(len(run) for run in recipe.network.runs)
    if checkpoints.selection is None:
        return share, share
    if checkpoints.selection.chosen is None:
        return share / 2, 0.0
    again: tuple[float, float] = registry.room(job.engine.name, "budgets").computed_again(recipe, job.sizes)
    return again


_BY_POLICY: Mapping[str, tuple[float, float]] = {"full": (1.0, 1.0), "selective": (0.0, 1.0)}
