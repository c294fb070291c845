"""Seconds of a server: of a step that gives each user a token, and to the first token of a prompt, as ranges.

    device = max(read / bandwidth, products, tiles) + cached / bandwidth + layers × (launches + 2 collectives)
    step   = max(device, the host's launches) + what the host's layers read / the host's bandwidth
    mixed  = step + (users - 1) × (products + attention + collectives of a prompt) / tokens of an answer
    first  = max(products + attention + collectives, step) + handling

- `read`: weights of the fullest rank but for tables that are looked up; of routed experts the share that the tokens of
  a step choose, each at random: 1 - (1 - chosen / all) ^ users.
- Groups of data-parallel attention read experts for the tokens of all groups, which gather them for every layer and
  give each group its own back.
- `cached`: keys and values of all sequences of a replica at the length that is asked for; recurrent states are read and
  written.
- `products`: of the tokens, over the rate that large products reach (`memcore.questions.roofline.Roofline`); `tiles`:
  what tiles of 64 rows take, with 16 and 8 bits, 128 operations for each four-bit byte: an H20's products bind so.
- `mixed`: while a user gets an answer, every other one's prompt is read once, in steps that decode, too (vllm,
  v1/core/sched/scheduler.py, which fills a step's tokens with prompts after those that decode).
- `launches`, the share of the bandwidth that is reached, and what the host takes to launch kernels where no CUDA graphs
  do, are the server's own (`memcore.serving.job.Pace`).

tests/test_serving_speed.py says how far each published source is off. Where no source tells, `pace_unknown` says why.
"""

from __future__ import annotations

from memcore.hardware import Accelerator
from memcore.i18n.page import say
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.questions.costs import Range
from memcore.questions.roofline import Roofline, roofline_for
from memcore.questions.work import work_of
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.job import Pace, Reads

STEP_SPREAD = (0.75, 1.45)
"""Of published steps nine in ten are inside these multiples of what is expected."""
BOARD_SPREAD = (0.75, 1.8)
"""The same where GPUs sum over PCIe, of which boards give a GPU 4 to 16 lanes."""
LAUNCH_SPREAD = (0.4, 2.2)
"""The same of kernels that the host starts one by one: hosts differ by that much."""
GROUPS_SPREAD = (0.5, 2.2)
"""The same of data-parallel attention within a node (assumed: no published rate of it is known)."""
HOST_SPREAD = (0.6, 1.7)
"""The same of weights that the host reads: `Roofline.host_memory` stands for two channels of DDR4 as of DDR5."""
FIRST_SPREAD = (0.6, 2.2)
"""The same of first tokens: what else a server does at that moment is rarely said."""
_HANDLING = 10e-3
"""Seconds until a request is scheduled and its first token is on its way, as short prompts have it."""
_NODE = 8
"""GPUs that reach each other over the links that are counted."""
_NEAR = 12e-6
"""Seconds of a sum of few bytes over fast links, in a server's own kernel (assumed); over others NCCL's."""
_FORWARD = 0.6
"""Share of the peak that attention's forward pass reaches in long prompts (arXiv 2307.08691 and 2407.08608, figure 5
of both)."""
_UNTILED = 8
"""Compute capability up to which no published rate shows tiles."""
_UNREAD = ("cos_sin", "visual", "vision", "audio_tower", "embed_positions")


@dataclass(frozen=True, slots=True)
class ServingSpeed:
    """Seconds, each low, expected and high."""

    users: int
    length: int
    """Tokens of each of them."""
    step: Range
    """Between two tokens of a user, while no prompt is read."""
    mixed: Range | None
    """Between two tokens of a user, on average, while the others' prompts are read in between: as many as there are
    users while each gets one answer. None: lengths of prompts and answers are not given."""
    first: Range | None
    """To the first token of a prompt of this length, alone, of which nothing is cached; None: no source tells."""

    @property
    def tokens(self) -> Range:
        """Return the tokens per second that a user gets."""
        return _inverse(self.step)

    @property
    def mixed_tokens(self) -> Range | None:
        """Return the same while prompts are read in between."""
        return None if self.mixed is None else _inverse(self.mixed)


def _inverse(seconds: Range) -> Range:
    low, expected, high = seconds
    return 1 / high, 1 / expected, 1 / low


def serving_speed(found: ServingEstimate) -> ServingSpeed | None:
    """Return how fast a server is with the users and the length that are asked for; None where no source tells."""
    pace = found.job.server.speed
    if pace is None or not found.fits or _unknown(found, pace):
        return None
    replicas = found.pool.replicas if found.pool else 1
    users, length = -(-found.users // replicas), found.asked_length
    step, first, mixed = _step(found, pace, users, length), None, None
    prompt, answer = (found.job.config[key] for key in (Inference.prompt_length, Inference.output_length))
    if pace.prompts and users > 1 and prompt and answer:
        others = _spread((users - 1) * _prompt(found, prompt) / answer, STEP_SPREAD)
        mixed = _added(step, others)
    if (pace.prompts or _prompts(found) is not None) and not _is_latent(found):
        alone = max(_prompt(found, length), _step(found, pace, 1, length)[1])
        first = _spread(alone + _HANDLING, FIRST_SPREAD)
    return ServingSpeed(found.users, length, step, mixed, first)


def pace_unknown(found: ServingEstimate) -> str | None:
    """Return why nothing is said of a server's speed; None where something is, or where it does not fit."""
    if not found.fits:
        return None
    pace = found.job.server.speed
    key = "pace-unknown-server" if pace is None else _unknown(found, pace)
    return say(key, server=found.job.server.title) if key else None


def _spread(seconds: float, factors: tuple[float, float]) -> Range:
    return seconds * factors[0], seconds, seconds * factors[1]


def _added(one: Range, other: Range) -> Range:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _is_latent(found: ServingEstimate) -> bool:
    """Return whether a layer attends to latent vectors."""
    return "lk" in found.job.basics.sizes


def _unknown(found: ServingEstimate, pace: Pace) -> str | None:
    """Return the key of a sentence on what published rates do not cover: the GPU, the layout or the network."""
    job, basics = found.job, found.job.basics
    row, layout = job.accelerator, basics.layout
    told = row is not None and row.version is not None and row.version >= pace.oldest
    if row is None or not row.speed.memory or not (told or {row.capability, row.stack} & pace.others.keys()):
        return "pace-unknown-gpu"
    if not job.model.network.embedding_and_head.predicts:
        return "pace-unknown-tokens"
    if basics.speculation or basics.draft:
        return "pace-unknown-speculation"
    shared = layout.data == _groups(found) and job.num_gpus <= _NODE
    if layout.pipeline > 1 or layout.context > 1 or (layout.data > 1 and job.model.has_experts and not shared):
        return "pace-unknown-layout"
    return _unknown_mixer(found, pace) or pace.uncovered(job)


def _groups(found: ServingEstimate) -> int:
    """Return how many groups of ranks have requests of their own, and experts together."""
    layout = found.job.basics.layout
    return (layout.experts or layout.tensor) // layout.tensor


def _unknown_mixer(found: ServingEstimate, pace: Pace) -> str | None:
    """Return the same of its mixers."""
    version = found.job.accelerator.version if found.job.accelerator else None
    latent = pace.latent is not None and (version is None or version[0] >= pace.latent)
    for mixer in (mixer for layer, _ in found.job.model.layers for mixer in layer.mixers):
        if isinstance(mixer, LatentAttention):
            if not latent or mixer.indexer or mixer.reuses:
                return "pace-unknown-latent"
        elif not isinstance(mixer, Attention) and pace.recurrent is None:
            return "pace-unknown-recurrent"
    return None


def _narrow(found: ServingEstimate) -> int:
    """Bits of a weight: 16, 8 or 4."""
    stored = found.job.basics.stored
    size = 2 if stored is None else float(stored.format.itemsize)
    return 16 if size > 1.2 else 8 if size > 0.8 else 4


def _is_late(row: Accelerator) -> bool:
    """Return whether a GPU multiplies in fp8, which Ada was the first to do."""
    return row.version is not None and row.version >= (8, 9)


def _reads(found: ServingEstimate) -> Reads:
    """Return the bytes of weights that a token passes on the fullest rank."""
    entries = found.ledger.of("weights", "adapters")
    named = [entry for entry in entries if entry.module] or list(entries)
    has_head = any("lm_head" in entry.module for entry in named)
    device = experts = 0.0
    for entry in named:
        if any(part in entry.module for part in _UNREAD) or ("embed_tokens" in entry.module and has_head):
            continue
        if "experts" in entry.module.split("."):
            experts += entry.bytes
        else:
            device += entry.bytes
    return Reads(device, experts)


def _step(found: ServingEstimate, pace: Pace, users: int, length: int) -> Range:
    """Return seconds of a step of `users` sequences of `length` tokens each."""
    job, row = found.job, found.job.accelerator
    assert row is not None  # noqa: S101 - `_unknown` has seen it
    rates, bits, late, kernels = roofline_for(job.config), _narrow(found), _is_late(row), pace.on(row)
    bandwidth, rate = kernels.share * rates.memory, rates.flops * rates.flops_efficiency
    reads, work = (pace.reads(job) if pace.reads else _reads(found)), work_of(job.model, 1)
    chosen = 1 - (1 - work.density) ** (users * _groups(found)) if work.density else 1.0
    read = reads.device + chosen * reads.experts
    products = work.products * users / job.basics.layout.tensor / rate / (2 if bits == 8 and late else 1)
    tiles = read * (120 if bits == 4 else 64) / rate if pace.rows and (row.major or 0) > _UNTILED else 0.0
    cached = users * _cached(found, length) / bandwidth
    layers = job.model.num_layers
    launches = layers * (kernels.layer + (kernels.unpacking if bits == 4 else 0)) + work.sparse * kernels.experts
    launches += _count(found, LatentAttention) * kernels.latent + _count(found, SpecialMixer) * kernels.recurrent
    device = max(read / bandwidth, products, tiles) + cached + launches + 2 * layers * _sum(found, rates, users)
    away = (reads.host + chosen * reads.host_experts) / rates.host_memory
    bound = zip(_spread(device, _factors(found, pace, rates)), _spread(pace.launching(job), LAUNCH_SPREAD), strict=True)
    low, expected, high = map(max, bound)
    return _added((low, expected, high), _spread(away, HOST_SPREAD))


def _factors(found: ServingEstimate, pace: Pace, rates: Roofline) -> tuple[float, float]:
    """Return the multiples of what is expected between which published steps of a job's kind are."""
    over_boards = found.job.basics.layout.tensor > 1 and rates.link <= rates.host
    low, high = BOARD_SPREAD if over_boards else STEP_SPREAD
    if _groups(found) > 1:
        low, high = min(low, GROUPS_SPREAD[0]), max(high, GROUPS_SPREAD[1])
    if pace.recurrent is not None and _count(found, SpecialMixer):
        low, high = min(low, pace.recurrent[0]), max(high, pace.recurrent[1])
    return low, high


def _count(found: ServingEstimate, kind: type) -> int:
    """Return the layers with a mixer of a kind; short convolutions take no longer than what surrounds them."""
    return sum(
        count
        for layer, count in found.job.model.layers
        if any(isinstance(mixer, kind) and getattr(mixer, "variant", "") != "short-conv" for mixer in layer.mixers)
    )


def _cached(found: ServingEstimate, length: int) -> float:
    """Return bytes of a sequence's keys, values and states on the rank with most of them.

    Without a pool GPUs have layers in turn: what all of them cache is read.
    """
    if found.pool is not None:
        return found.pool.needed(length) * found.pool.bytes_each
    kept = [(rank.ledger, rank.count) for rank in found.ranks]
    cached = sum(ledger.sum("KV cache") * count for ledger, count in kept)
    states = sum(ledger.sum("recurrent states") * count for ledger, count in kept)
    return (cached * min(length / found.job.basics.max_model_len, 1) + 2 * states) / found.users


def _sum(found: ServingEstimate, rates: Roofline, tokens: int) -> float:
    """Return seconds in which ranks sum the hidden states of some tokens of each group, or gather all groups'."""
    groups = _groups(found)
    ranks, tokens = found.job.basics.layout.tensor * groups, tokens * groups
    if ranks == 1:
        return 0.0
    near = rates.link > rates.host
    latency = _NEAR if near else rates.collective_latency + rates.rank_latency * (ranks - 2)
    size = 2 * tokens * found.job.model.sizes["h"]
    return latency + 2 * (ranks - 1) / ranks * size / (rates.link * rates.communication_efficiency)


def _prompts(found: ServingEstimate) -> float | None:
    """Return the share of the peak that a server's prompts reach on a GPU, where published rates of its own say so."""
    pace, row = found.job.server.speed, found.job.accelerator
    return pace.on(row).prompts if pace is not None and row is not None else None


def _prompt(found: ServingEstimate, length: int) -> float:
    """Return seconds in which a prompt is read."""
    job, rates = found.job, roofline_for(found.job.config)
    ranks, work = job.basics.layout.tensor, work_of(job.model, length)
    narrow = _narrow(found) == 8 and job.accelerator is not None and _is_late(job.accelerator)
    share = _prompts(found) or rates.flops_efficiency
    rate = 2 * rates.flops * rates.narrow_efficiency if narrow else rates.flops * share
    products = (work.products - work.head) / rate / ranks
    attention = work.attention / (rates.flops * _FORWARD) / ranks
    scans = work.scanned[0] / (rates.memory * rates.scan_efficiency) / ranks
    return products + attention + scans + 2 * job.model.num_layers * _sum(found, rates, length)
