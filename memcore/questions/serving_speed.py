"""Seconds of a server: of a step that gives each user a token, and to the first token of a prompt, as ranges.

    step  = max(read / bandwidth, products, tiles) + cached / bandwidth + layers × (launches + 2 collectives)
    mixed = step + (users - 1) × (products + attention + collectives of a prompt) / tokens of an answer
    first = max(products + attention + collectives, step) + handling

- `read`: weights of the fullest rank but for tables that are looked up; of routed experts the share that the tokens of
  a step choose, each at random: 1 - (1 - chosen / all) ^ users.
- `cached`: keys and values of all sequences of a replica at the length that is asked for.
- `products`: of the tokens, over the rate that large products reach (`memcore.questions.roofline.Roofline`); `tiles`:
  what tiles of 64 rows take, with 16 and 8 bits, 128 operations for each four-bit byte: an H20's products bind so.
- `mixed`: while a user gets an answer, every other one's prompt is read once, in steps that decode, too (vllm,
  v1/core/sched/scheduler.py, which fills a step's tokens with prompts after those that decode).
- `launches`, and the share of the bandwidth that is reached, are the server's own (`memcore.serving.job.Pace`).

tests/test_serving_speed.py says how far each published source is off. Nothing is said where no source tells: of AMD's
GPUs and those before Ampere, pipelines, speculation, recurrent states, networks that generate no tokens (embeddings,
scores), or servers that do not fit. Of latent attention only SGLang's steps are told, from Hopper on, and not with
sparse attention: vLLM's one source, DeepSeek-R1 in four bits on eight H100s, takes 2.2 times as long as this would say.
"""

from __future__ import annotations

from memcore.hardware import Accelerator
from memcore.networks.parts import Attention, LatentAttention
from memcore.questions.costs import Range
from memcore.questions.roofline import Roofline, roofline_for
from memcore.questions.work import work_of
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.job import Pace

STEP_SPREAD = (0.75, 1.45)
"""Of published steps nine in ten are inside these multiples of what is expected."""
FIRST_SPREAD = (0.6, 2.2)
"""The same of first tokens: what else a server does at that moment is rarely said."""
_HANDLING = 10e-3
"""Seconds until a request is scheduled and its first token is on its way, as short prompts have it."""
_NEAR = 12e-6
"""Seconds of a sum of few bytes over fast links, in a server's own kernel (assumed); over others NCCL's."""
_FORWARD = 0.6
"""Share of the peak that attention's forward pass reaches in long prompts (arXiv 2307.08691 and 2407.08608, figure 5
of both)."""
_UNREAD = ("cos_sin", "visual", "vision", "audio_tower", "embed_positions")
_OLDEST = 8
"""Compute capability from which published rates are known."""
_LATENT = 9
"""The same of latent attention."""


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
    if not isinstance(pace, Pace) or not found.fits or not _known(found, pace) or not pace.covers(found.job):
        return None
    replicas = found.pool.replicas if found.pool else 1
    users, length = -(-found.users // replicas), found.asked_length
    step, first, mixed = _step(found, pace, users, length), None, None
    prompt, answer = (found.job.config[key] for key in (Inference.prompt_length, Inference.output_length))
    if pace.prompts and users > 1 and prompt and answer:
        mixed = _spread(step + (users - 1) * _prompt(found, prompt) / answer, STEP_SPREAD)
    if pace.prompts and not _is_latent(found):
        first = _spread(max(_prompt(found, length), _step(found, pace, 1, length)) + _HANDLING, FIRST_SPREAD)
    return ServingSpeed(found.users, length, _spread(step, STEP_SPREAD), mixed, first)


def _spread(seconds: float, factors: tuple[float, float]) -> Range:
    return seconds * factors[0], seconds, seconds * factors[1]


def _is_latent(found: ServingEstimate) -> bool:
    """Return whether a layer attends to latent vectors."""
    return "lk" in found.job.basics.sizes


def _known(found: ServingEstimate, pace: Pace) -> bool:
    """Return whether published rates cover the GPU, the layout and the network."""
    job, basics = found.job, found.job.basics
    row, layout = job.accelerator, basics.layout
    if row is None or not row.speed.memory or not ((row.major or 0) >= _OLDEST or row.stack in pace.others):
        return False
    if not job.model.network.embedding_and_head.predicts:
        return False
    if basics.speculation or basics.draft or layout.pipeline > 1 or layout.context > 1:
        return False
    mixers = [mixer for layer, _ in job.model.layers for mixer in layer.mixers]
    if layout.data > 1 and job.model.has_experts:
        return False
    latent = pace.latent and (row.major or 0) >= _LATENT
    return bool(mixers) and all(
        isinstance(each, Attention)
        or (latent and isinstance(each, LatentAttention) and not each.indexer and not each.reuses)
        for each in mixers
    )


def _narrow(found: ServingEstimate) -> int:
    """Bits of a weight: 16, 8 or 4."""
    stored = found.job.basics.stored
    size = 2 if stored is None else float(stored.format.itemsize)
    return 16 if size > 1.2 else 8 if size > 0.8 else 4


def _is_late(row: Accelerator) -> bool:
    """Return whether a GPU multiplies in fp8, which Ada was the first to do."""
    return row.version is not None and row.version >= (8, 9)


def _read(found: ServingEstimate, users: int) -> float:
    """Return bytes of weights that a step reads."""
    entries = found.ledger.of("weights", "adapters")
    named = [entry for entry in entries if entry.module] or list(entries)
    has_head = any("lm_head" in entry.module for entry in named)
    density = work_of(found.job.model, 1).density
    chosen = 1 - (1 - density) ** users if density else 1.0
    total = 0.0
    for entry in named:
        if any(part in entry.module for part in _UNREAD) or ("embed_tokens" in entry.module and has_head):
            continue
        total += entry.bytes * (chosen if ".experts." in entry.module else 1)
    return total


def _step(found: ServingEstimate, pace: Pace, users: int, length: int) -> float:
    """Return seconds of a step of `users` sequences of `length` tokens each."""
    job, row = found.job, found.job.accelerator
    assert row is not None  # noqa: S101 - `_known` has seen it
    rates, bits, late = roofline_for(job.config), _narrow(found), _is_late(row)
    bandwidth, rate = pace.share_of(row.capability) * rates.memory, rates.flops * rates.flops_efficiency
    read, work = _read(found, users), work_of(job.model, 1)
    products = work.products * users / job.basics.layout.tensor / rate / (2 if bits == 8 and late else 1)
    tiles = read * (120 if bits == 4 else 64) / rate if pace.rows and (row.major or 0) > _OLDEST else 0.0
    cached = users * _cached(found, length) / bandwidth
    former = pace.former + (pace.unpacking if bits == 4 else 0)
    layer = pace.others.get(row.stack, pace.layer if late else former)
    layers = job.model.num_layers * (layer + 2 * _sum(found, rates, users))
    return max(read / bandwidth, products, tiles) + cached + layers


def _cached(found: ServingEstimate, length: int) -> float:
    """Return bytes of a sequence's keys and values on the rank with most of them."""
    if found.pool is not None:
        return found.pool.needed(length) * found.pool.bytes_each
    return found.ledger.sum("KV cache") / found.users * min(length / found.job.basics.max_model_len, 1)


def _sum(found: ServingEstimate, rates: Roofline, tokens: int) -> float:
    """Return seconds in which tensor-parallel ranks sum the hidden states of some tokens."""
    ranks = found.job.basics.layout.tensor
    if ranks == 1:
        return 0.0
    near = rates.link > rates.host
    latency = _NEAR if near else rates.collective_latency + rates.rank_latency * (ranks - 2)
    size = 2 * tokens * found.job.model.sizes["h"]
    return latency + 2 * (ranks - 1) / ranks * size / (rates.link * rates.communication_efficiency)


def _prompt(found: ServingEstimate, length: int) -> float:
    """Return seconds in which a prompt is read."""
    job, rates = found.job, roofline_for(found.job.config)
    ranks, work = job.basics.layout.tensor, work_of(job.model, length)
    narrow = _narrow(found) == 8 and job.accelerator is not None and _is_late(job.accelerator)
    rate = 2 * rates.flops * rates.narrow_efficiency if narrow else rates.flops * rates.flops_efficiency
    products = (work.products - work.head) / rate / ranks
    attention = work.attention / (rates.flops * _FORWARD) / ranks
    return products + attention + 2 * job.model.num_layers * _sum(found, rates, length)
