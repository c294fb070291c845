"""What a layout costs: a roofline that ranks layouts, with the range that published step times had around it.

A step of training takes, on one GPU,

    busy    = max(computing, hidden) + tensor + expert + pipeline + host, or what the host takes to start its kernels
    seconds = busy × (slowest + bubble) + waited + update

- `computing`: matrix products, three times the forward pass (the backward pass has two products for each of the forward
  pass's, one where weights are frozen), once more for what checkpoints compute again, over the peak rate times what
  products of their size reach of it; where micro-batches are small, products take the time to read the parameters in
  every pass and to add up their gradients; attention, whose backward pass computes the scores once more; and what
  elementwise kernels read and write, each of which takes some time whatever its size.
- `hidden`: communication during which every pass computes: keys and values that ranks of one sequence pass on, and with
  FSDP parameters and gradients. What an engine sends once a step is `waited` for, as far as a forward or backward
  pass of one micro-batch does not hide it, or wholly (`memcore.trace.traffic`).
- `tensor`: four collectives for each layer and pass, which wait for each other, and copies of what DTensor gathers or
  reduces along another axis than the first; `expert`: the hidden states of each
  token on their way to its experts and back, as the job's dispatcher sends them; `pipeline`: hidden states sent on.
  Where an engine sends either while it computes they are part of what is `hidden`.
- `host`: what offloading moves over the link to the host, and the optimizer's step there, which its memory limits.
- `update`: the optimizer's step, which reads and writes parameters, gradients and states once.
- `slowest`: the time of the pipeline's slowest rank over the mean: it has a layer more, or is the last with the head,
  whose large product takes less time for its operations than layers with experts do.
- `bubble`: (stages - 1) / (micro-batches × chunks of a stage), as in 1F1B and GPipe; a part of it where a schedule
  splits the backward pass (`IDLE`).

A group of ranks communicates over the fast links if it fits into their domain, else over the network ports of all its
ranks in a node. Ranks are placed as torchtitan does: tensor parallel innermost, then context, then data, the pipeline
outermost. Every input stands in `Roofline` and can be replaced.
"""

from __future__ import annotations

from dataclasses import replace
from math import log2

from memcore.hardware import TERA, VECTOR_SHARE, VECTOR_TFLOPS
from memcore.questions.dividing import Plan, plan_of
from memcore.questions.roofline import Roofline
from memcore.questions.work import ATTENTION, Work, composes, in_fp32, ranks_of_token, work_for, work_of
from memcore.records import dataclass
from memcore.trace.job import Job

Range = tuple[float, float, float]
"""The low end, the expected value and the high end."""


USUAL_SPREAD = (1.15, 1.15)
"""Of ten published step times nine are within these factors of what is expected and of what `seconds_of` adds."""
EAGER_SPREAD = (1.1, 1.7)
"""The same of one GPU whose kernels nothing fuses: they are as many and as slow as a library makes them. Read off 63 of
125 step times on an H100, so that nine in ten of theirs lie within; of the other 62 as many do
(validation/measured/)."""


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
    attending: float
    """Of the step's seconds, those of attention."""
    hidden: float
    """Seconds of data and context communication, which computing may hide."""
    exposed: float
    """Seconds of what it does not."""
    update: float
    """Seconds of the optimizer's step on the GPU."""
    seconds: float
    spread: tuple[float, float] = USUAL_SPREAD
    """By which factors the step may take less and more time than expected."""

    @property
    def per_token(self) -> float:
        """GPU-seconds for each token: what layouts are ranked by."""
        return self.seconds * self.gpus / self.tokens


def cost(work: Work, plan: Plan, roofline: Roofline) -> Cost:
    """Return what a step of a plan costs."""
    tensor, context, stages = plan.tensor, plan.context, plan.stages
    sequences = plan.gpus // (tensor * stages) // context * plan.micro_batch * plan.micro_batches
    each, part = sequences / plan.gpus, (work.parameters - work.routed) / (tensor * stages)
    again = each * (work.products * _again(work, plan) + work.attention * plan.attention_again)
    passes_of = 2 if work.frozen else 3
    flops = each * (passes_of * work.products + 3 * work.attention) + again
    local = plan.micro_batch * work.sequence // context
    passes = plan.micro_batches * work.layers / stages
    size = plan.computes
    shared = _shared(tensor)
    collectives = 3 if plan.narrow_gathers else 4  # two of the four gather
    tensor_bytes = passes * (2 + plan.products_again) * collectives * local * work.hidden * size * shared
    turned = work.keys / tensor / stages * local * size * (context - 1)
    context_bytes = plan.micro_batches * (3 + plan.attention_again) * turned
    own = work.routed / (tensor * stages * plan.experts)
    sent = part * _shared(plan.shards) + own * _shared(max(plan.shards // plan.experts, 1))
    part, learned, updated = part + own, work.learned, work.learned if plan.updates else 1.0
    gathered = sent * plan.brings * plan.gathers * updated
    reduced = sent * learned * plan.sums * plan.reduces * (not plan.all_reduces)
    travels = plan.micro_batches * work.sparse / stages * local / tensor * work.routed_width * size
    sent_away, dispatching = _dispatched(work, plan, roofline)
    travels *= 2 * (2 + plan.products_again)
    expert_bytes, dispatching = travels * sent_away, travels * dispatching
    spread = 2 * part * learned / plan.scattered * plan.sums * _shared(plan.copies) * plan.reduces
    pipeline_bytes = 2.0 * plan.micro_batches * plan.chunks * local * work.hidden * size / tensor if stages > 1 else 0.0
    kept, host_bytes = _hosted(plan, part / plan.shards, learned)
    update = 0.0 if work.frozen or plan.offloaded else _update(plan, part / plan.shards, roofline)
    read = plan.micro_batches * part * (size * (2 + plan.products_again) + 2 * plan.sums * learned)
    attending = _attending(work, plan, roofline, each)
    computing = _computing(work, plan, roofline, each, read) + attending + _scanning(work, plan, roofline, each)
    turning = context_bytes / _rate(roofline, tensor * context, tensor)
    gathering, summing = _sending(
        plan, roofline, (part * updated, part * learned), passes / plan.micro_batches, gathered, reduced, spread
    )  # fmt: skip
    hidden, waited = _behind(plan, computing, turning, gathering, summing)
    sending = pipeline_bytes / _rate(roofline, plan.gpus, roofline.domain)
    hidden += plan.dispatch.hidden * dispatching + plan.sends_behind * sending
    exposed = (not plan.dispatch.hidden) * dispatching + (not plan.sends_behind) * sending
    copied = plan.regrouped * tensor_bytes / shared if tensor > 1 else 0.0
    exposed += _waiting(work, plan, roofline, tensor_bytes / _rate(roofline, tensor)) + copied / _kernels(roofline)
    exposed += host_bytes / roofline.host + kept * _STEP / roofline.host_memory
    bubble = plan.idle * (stages - 1) / (plan.micro_batches * plan.chunks)
    exposed += _latency(roofline, plan, passes, bool(work.routed)) + _held(work, plan, roofline, each, dispatching)
    computing += roofline.communication_units * min(hidden, computing)
    launching = _launching(work, plan, passes)
    busy = max(max(computing, hidden) + exposed, launching)
    longer = bubble + _slowest(plan, min(_ending(work, roofline, each) / busy, 1.0))
    seconds = busy * longer + waited + update
    moved = (gathered + reduced + spread, context_bytes, tensor_bytes, expert_bytes, pipeline_bytes, host_bytes)
    parts = computing, attending * longer, hidden, exposed + waited, update
    return Cost(plan.gpus, sequences * work.sequence, flops, again, bubble, *moved, *parts, seconds)


def _again(work: Work, plan: Plan) -> float:
    """Return the share of the products that run again: no checkpoint has the head; a last product may not be needed."""
    outside = work.head + work.last * plan.stops_early
    return plan.products_again * (1 - outside / work.products)


def _hosted(plan: Plan, part: float, learned: float) -> tuple[float, float]:
    """Return elements of a rank that the host updates, and bytes between both for them and for what is frozen."""
    kept = part * learned if plan.offloaded else 0.0
    frozen = part * (1 - learned) * plan.frozen_from_host * plan.gathers
    return kept, kept * (4 * plan.gathers + 4 * plan.reduces) + frozen


def _ending(work: Work, roofline: Roofline, each: float) -> float:
    """Seconds of head and loss, which the last rank has; `_elementwise` counts 16 bytes of a loss for each word."""
    products = (2 if work.frozen else 3) * work.head / (roofline.flops * roofline.flops_efficiency)
    return each * (products + 3 * 8 * work.head / work.hidden / _kernels(roofline))


def _slowest(plan: Plan, ending: float) -> float:
    """Time of the pipeline's slowest rank over the mean, of which head and loss have a share."""
    if plan.stages == 1:
        return 1.0
    fullest, last = plan.layers
    return max(fullest * (1 - ending), last * (1 - ending) + ending * plan.stages)


def _waiting(work: Work, plan: Plan, roofline: Roofline, sending: float) -> float:
    """Return seconds that products wait for collectives of tensor parallelism.

    In pieces (torch/_inductor/fx_passes/micro_pipeline_tp.py) all but one of as many as there are ranks is sent while
    others are computed, as far as that takes as long: what is gathered for products, and what is reduced after one.
    In the backward pass that is what is gathered for the last product of a part; gradients of what several products
    read are added up first, so that their sum waits, unless it is sent next to the products of weights' gradients.
    """
    if not plan.pieces:
        return sending
    reached = _reached(work, roofline)
    tokens = plan.micro_batch * work.sequence / plan.context * plan.micro_batches / (plan.tensor * plan.stages)
    forward, each = 1 + plan.products_again, sending / 4 / (2 + plan.products_again)
    hidden = [min(each, 2 * parameters * tokens / reached) for parameters in plan.pieces]
    backward = hidden if plan.sums_in_pieces else hidden[1::2]
    return sending - _shared(plan.tensor) * (forward * sum(hidden) + sum(backward))


def _update(plan: Plan, part: float, roofline: Roofline) -> float:
    """Return seconds of the optimizer's step on a rank that updates `part` parameters."""
    return part * max(plan.updated / _kernels(roofline), plan.updating) + plan.stepping


def _sending(
    plan: Plan,
    roofline: Roofline,
    parameters: tuple[float, float],
    layers: float,
    gathered: float,
    reduced: float,
    spread: float,
) -> tuple[float, float]:
    """Return seconds that the all-gathers and the reductions of a step take.

    `parameters`: of a rank's parameters before sharding, how many are gathered, and how many have gradients to reduce.
    `gathered`, `reduced` and `spread` are bytes: all-gathered, reduced over shards, and over copies.

    Each collective also takes the latency of a ring or, over copies, of a tree over nodes, whatever its size.
    """
    ranks = plan.shards * plan.replicas
    far = _rate(roofline, plan.tensor * plan.shards, plan.tensor)
    gathering, summing = gathered / far, reduced / far
    reductions = _messages(parameters[1], layers, plan.messages[1]) * plan.reduces
    if plan.shards > 1:
        ring = _ring(roofline, plan.shards, plan.tensor * plan.shards)
        gathering += _messages(parameters[0], layers, plan.messages[0]) * plan.gathers * ring
        summing += reductions * ring * (not plan.all_reduces)
    if plan.copies > 1:
        nodes = max(plan.tensor * ranks / roofline.domain, 1)
        hop = roofline.collective_latency + roofline.hop_latency
        tree = roofline.collective_latency + 2 * log2(nodes) * hop + roofline.rank_latency * (roofline.domain - 1)
        summing += spread / _rate(roofline, plan.tensor * ranks, plan.tensor * plan.scattered)
        summing += reductions * tree
    return gathering, summing


def _launching(work: Work, plan: Plan, passes: float) -> float:
    """Return seconds that the host takes to start a step's kernels, and to pass micro-batches on."""
    routed = work.sparse / plan.stages * work.launched_expert / plan.experts
    passed = work.passed * plan.tensor if plan.stages > 1 else 0.0
    again = 1 + plan.products_again / 3
    return (passes * work.launched + plan.micro_batches * routed) * again + plan.micro_batches * passed


def _messages(parameters: float, layers: float, elements: float) -> float:
    """Return how many collectives send the parameters of a rank's layers."""
    return max(parameters / elements, 1.0) if elements else layers + 1


def _behind(plan: Plan, computing: float, turning: float, gathering: float, summing: float) -> tuple[float, float]:
    """Return seconds of communication that every pass may hide, and of that which is waited for once a step.

    What is sent once next to a single micro-batch is hidden as far as its forward or backward pass takes as long.
    """
    hidden, waited = turning, 0.0
    forward = computing / plan.micro_batches / (3 + plan.products_again)
    for seconds, behind, room in (
        (gathering, plan.behind[0], forward),
        (summing, plan.behind[1], computing / plan.micro_batches - forward),
    ):
        if behind == "all":
            hidden += seconds
        else:
            waited += max(seconds - room, 0.0) if behind == "one" else seconds
    return hidden, waited


_STEP = 28
"""Bytes that Adam reads and writes for a parameter on the host: fp32 parameter, gradient and both moments read, all but
the gradient written."""


def _kernels(roofline: Roofline) -> float:
    """Return bytes per second that kernels read and write."""
    return roofline.memory * roofline.memory_efficiency


_ROUTING = 6
"""Further kernels of a layer with routed experts: scores and their choice, and tokens sorted by expert, by rank and
back (Megatron-LM, transformer/moe/)."""
_KERNELS = 6
"""Memory-bound kernels of a layer's forward pass, if each is fused: two norms, two residual sums, the rotation of
queries and keys, and the activation function (Megatron-LM, fusions/)."""


_SHORTEST = 3e-6
"""Seconds that a kernel of a few microseconds' work keeps the GPU busy, from one launch to the next (assumed)."""


def _latency(roofline: Roofline, plan: Plan, passes: float, routed: bool) -> float:
    """Seconds that collectives wait for each other whatever their size; those of tensor and expert parallelism wait."""
    turns = passes * (2 + plan.products_again)
    ring = _ring(roofline, plan.tensor, plan.tensor)
    ring -= roofline.rank_latency * max(plan.tensor - roofline.domain, 0)  # those of other nodes count as hops
    total = turns * 4 * ring if plan.tensor > 1 else 0.0
    return total + (turns * 2 * 2 * roofline.collective_latency if routed and plan.experts > 1 else 0.0)


def _ring(roofline: Roofline, ranks: int, reach: int) -> float:
    """Return seconds of a ring of some ranks, the last of which is `reach` GPUs away, whatever is sent."""
    over_nodes = roofline.hop_latency if reach > roofline.domain else 0.0
    return roofline.collective_latency + roofline.rank_latency * (ranks - 1) + over_nodes * (ranks - 1)


def _shared(ranks: int) -> float:
    """Return what a rank sends of a tensor that `ranks` gather or reduce."""
    return (ranks - 1) / ranks


def _computing(work: Work, plan: Plan, roofline: Roofline, each: float, read: float) -> float:
    """Return seconds of products and elementwise kernels; products wait for their weights at least."""
    passes = (2 if work.frozen else 3) + _again(work, plan)
    reached, memory = roofline.flops * roofline.flops_efficiency, _kernels(roofline)
    faster = _faster(work, roofline)
    products = each * work.products * passes / reached * (faster + _EDGE * _narrow(work, plan))
    products += each * work.expert_products * passes * faster / reached * _grouped(work, plan, roofline)
    products += each * work.unaligned * passes * (1 / min(reached, _UNALIGNED) - 1 / reached)
    elementwise = each * (work.elementwise + plan.tensor * work.gathered) * (3 + plan.products_again) / memory
    layer, routing = (_SHORTEST if part in work.captured else roofline.kernel_latency for part in ("layer", "routing"))
    kernels = (_KERNELS * work.layers * layer + _ROUTING * work.sparse * routing) / plan.stages
    if work.kernels:
        kernels = work.kernels * _SHORTEST
    elementwise += plan.micro_batches * kernels * (3 + plan.products_again)
    return max(products, read / memory) + elementwise


def _reached(work: Work, roofline: Roofline) -> float:
    """Operations per second of products, in 16 bits or narrower."""
    return roofline.flops * roofline.flops_efficiency / _faster(work, roofline)


def _faster(work: Work, roofline: Roofline) -> float:
    """Return seconds of products over those in 16 bits."""
    return 1 - work.narrow * (1 - roofline.flops_efficiency / (2 * roofline.narrow_efficiency))


def _attending(work: Work, plan: Plan, roofline: Roofline, each: float) -> float:
    """Return seconds of attention."""
    operations = each * work.attention * (ATTENTION + plan.attention_again) * (1 + _SHORT / work.sequence)
    return operations / (roofline.flops * roofline.attention_efficiency * work.kernel)


def _scanning(work: Work, plan: Plan, roofline: Roofline, each: float) -> float:
    """Return seconds of chunked scans, which run again where whole layers do: their attention and their products."""
    forward, backward = work.scanned
    again = min(plan.products_again, plan.attention_again)
    return each * (forward * (1 + again) + backward) / (roofline.memory * roofline.scan_efficiency)


_SHORT = 350
"""Attention of s tokens reaches s / (s + 350) of its rate in long sequences. arXiv 2407.08608, figures 5 and 6: causal
forward passes of FlashAttention-2 with heads of 128 reach 191, 260, 298, 319, 333, 335 TFLOP/s with 512 to 16k tokens,
cuDNN's 315, 410, 484, 518, 529, 539; both are within 4 % of this."""
_EDGE = 120
"""A product of m × n × k takes 1 + 120 · (1/m + 1/n + 1/k) times as long as a large one: of 183 products on an A100 and
514 on a B200 a line through one over the dimensions explains all but 5 and 10 %, with 160 and 80
(MooreThreads/SimuMax, configs/system, matmul). In 8 bits the operations are faster, and this is not (assumed: pipelines
are filled, and results written in 16 bits)."""
_GROUPED = 1.2

_UNALIGNED = 1.2e14
"""Operations per second at most of products whose rows are no multiple of 16 bytes, which kernels load element by
element; a GPU that does not reach as much with other products is not slowed. Two steps on an H100 give a rate each:
with it, GPT-2's head (50,257 words, compiled blocks) and Granite's (49,155) take the 6.9 and 15.4 ms that are missing
otherwise, at 117 and 133 TFLOP/s (validation/measured/: compile-gpt2, family-granite-2b-8-b4s1024). No A100 is
measured: nanoGPT's author says that 50,304 instead of 50,257 words make it about 25 % faster, without the GPU or the
step's time (note of February 2023). Of a token's 857 MFLOP the head has 27 % there; on an A100 whose padded steps reach
40 to 60 % of its peak, that is a rate of 87 to 111 TFLOP/s. NVIDIA's matrix multiplication background, section 4.1,
says to pad."""


def _narrow(work: Work, plan: Plan) -> float:
    """The mean over products, by operations, of the sum of one over each of their three dimensions.

    In pieces there are as many products as ranks of tensor parallelism, each with its part of the tokens: all of the
    forward pass, and of the backward pass those that need what is gathered.
    """
    widths = work.inner + work.outer * plan.tensor
    pieces = 1.0
    if plan.pieces:
        forward = 1 + plan.products_again
        share = (forward + sum(plan.pieces[1::2]) / sum(plan.pieces)) / (2 + forward)
        pieces += (plan.tensor - 1) * share
    return 2 * work.sequence * widths / work.products + pieces * plan.context / (plan.micro_batch * work.sequence)


def _grouped(work: Work, plan: Plan, roofline: Roofline) -> float:
    """Return how much longer products of an expert take than if it had many tokens: weights are read for few of them.

    `balance` is the operations that a GPU computes while it reads a byte. Measured products of groups with N tokens
    for each expert take 1 + c · balance / N times as long as large ones, c = 1.1 on an A100 (616 and 1,232 tokens) and
    1.3 on a B200 (128 to 2,460 tokens): MooreThreads/SimuMax, configs/system, group_matmul.
    """
    if not work.density:
        return 0.0
    tokens = plan.micro_batch * work.sequence // plan.context / plan.tensor * plan.experts * work.density
    return _GROUPED * roofline.flops * roofline.flops_efficiency / _kernels(roofline) / max(tokens, 1.0)


def _held(work: Work, plan: Plan, roofline: Roofline, each: float, dispatching: float) -> float:
    """Return seconds that a GPU waits for kernels of experts in forward passes, where hosts count their tokens first.

    Hosts cannot run ahead then: what takes them longer than the GPU is waited for, whatever the rest of a layer takes.
    """
    if not work.counted or plan.dispatch.hidden:
        return 0.0
    passes = 1 + plan.products_again
    launches = work.sparse / plan.stages * (work.launched_expert / plan.experts + work.counted)
    reached = _reached(work, roofline)
    products = each * work.expert_products * passes / reached * (1 + _grouped(work, plan, roofline))
    sent = dispatching * passes / (1 + passes)
    return max(plan.micro_batches * launches * passes / 3 - products - sent, 0.0)


def _rate(roofline: Roofline, reach: int, stride: int = 1) -> float:
    """Return bytes per second between ranks of which the last is `reach` GPUs away, and neighbours are `stride` apart.

    Rings over several nodes leave each node through the ports of all its ranks (NCCL, graph/search.cc: channels use
    different NICs), so that a group with a whole node has the ports of a whole node.
    """
    if reach <= roofline.domain:
        return roofline.link * roofline.communication_efficiency
    ports = max(roofline.domain // stride, 1)
    return min(roofline.link, roofline.network * ports) * roofline.communication_efficiency


def _dispatched(work: Work, plan: Plan, roofline: Roofline) -> tuple[float, float]:
    """Return how many times a token leaves its rank on its way to a layer's experts, and seconds for each byte of it.

    Each rank sends what leaves the node through its own port. A library that sends a token once to each rank sends it
    once to each node, whose ranks pass it on (deepseek-ai/DeepEP, csrc/kernels/internode.cu); all-to-all sends it to
    each of its experts, and an all-gather to everyone (Megatron-LM, transformer/moe/token_dispatcher.py).
    """
    if plan.experts == 1 or not work.sparse:
        return 0.0, 0.0
    ranks, chosen = plan.experts, work.chosen / work.sparse
    near = min(ranks, max(roofline.domain // plan.divides_experts, 1))
    nodes = ranks / near
    copies = {"experts": chosen, "ranks": ranks_of_token(ranks, chosen), "all": ranks}[plan.dispatch.copies]
    visited = {"experts": chosen, "ranks": ranks_of_token(nodes, chosen), "all": nodes}[plan.dispatch.copies]
    leaving, far = copies * _shared(ranks), visited * (nodes - 1) / nodes
    within = leaving - (far if plan.dispatch.copies == "experts" else 0.0)
    return leaving, max(far / roofline.network, within / roofline.link) / roofline.communication_efficiency


def rates_of(job: Job, roofline: Roofline) -> Roofline:
    """Return the rates at which a job computes: products in fp32 run without tensor cores."""
    if not in_fp32(job):
        return roofline
    named = job.accelerator.id if job.accelerator else ""
    rate = VECTOR_TFLOPS[named] * TERA if named in VECTOR_TFLOPS else VECTOR_SHARE * roofline.flops
    return replace(roofline, flops=min(rate, roofline.flops))


def cost_of(job: Job, roofline: Roofline) -> Cost:
    """Return what a step of a job costs."""
    roofline = rates_of(job, roofline)
    found = cost(work_for(job, job.sizes["s"] * job.sizes["cp"]), plan_of(job), roofline)
    return replace(found, spread=EAGER_SPREAD) if job.num_gpus == 1 and composes(job) else found


def least_of(job: Job, roofline: Roofline) -> float:
    """Return seconds of a step's matrix products, traffic and update alone, without recording the step."""
    work = replace(
        work_of(job.model, job.sizes["s"] * job.sizes["cp"]), elementwise=0.0, attention=0.0, scanned=(0.0, 0.0)
    )
    return cost(work, plan_of(job), rates_of(job, roofline)).seconds


def seconds_of(price: Cost) -> Range:
    """Return seconds of a step: the low end, what is expected, and the high end.

    Attention takes twice as long with FlashAttention's first version, and five eighths with its third (arXiv
    2307.08691, figure 5; arXiv 2407.08608, figure 5): a job rarely says which it has. Half of what is waited for may
    be hidden where an engine is told to.
    """
    less, more = price.spread
    low = price.seconds / less - 3 / 8 * price.attending - price.exposed / 2
    return max(low, price.seconds / 2), price.seconds, price.seconds * more + price.attending
