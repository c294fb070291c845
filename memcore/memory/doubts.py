"""Why a run may need more or less than expected: what a config leaves open, and what no config says.

Each doubt has a share of the reading below and above what is expected. The shares are such that nine of ten published
runs lie within: they were read off the runs of tests/truth (hardware.json, runs.json, megatron.json, nanotron.json),
by what their configs leave open, with the 65 jobs of FMS Acceleration's benchmark (fms.json) in view: how many lie
within is no blind figure (tests/test_ranges.py holds it). Those of the order of allocations rest on the events of 64
training loops on an H100 (tests/truth/h100.json): the replayed allocator served them with 3 % more or less in nine of
ten, 6 % at most, and within 0.1 % where segments expand. It does not know where the driver puts segments, and among
equal blocks the lowest address is taken. Doubts are taken to be independent: the root of the sum of their squares is a
reading's range.

On one GPU whose segments do not expand, none of 197 readings of five sources was below a range whose share of this was
5.5 %; with 4 % five are, and of the two sources of most 88 and 94 % lie within.

Where a release is named it decides which attention kernel runs: without that doubt 93 % of 61 readings of the device
on an H100 lie within, and 90 % of 49 of other sources.

A loop that pads to the longest sequence of a batch rarely sees one as long as the limit: of ten runs of PEFT's method
comparison nine take at most 12 % less, and of eleven others that were written down later ten do.

Where no two batches are of the same length, the allocator keeps what was right for earlier ones: of 15 peaks that
Unsloth's notebooks print, 13 reserve at most 25 % more than a step of the longest sequences, and of 28 that were
written down later 13 lie within (their sequences are not known at all).

Where a loop only configures Megatron-Core, less hangs on its release: five peaks that Megatron Bridge's recipes give of
Nemotron Lightning and Super are at most 9.9 % above what is counted. With that share twelve of Moonlight, Qwen3 and
Nemotron Nano lie within, and four of eight whose jobs are poorly stated.

Of jobs with collectives on streams of their own and segments that do not expand, the share above is such that 88 % of
52 readings of ten sources lie within. Read off nine of the sources, so that as many of theirs do, it has 87 % of the
tenth's within, all ten taken in turn. Where segments expand, 89 % of 97 readings above 8 GiB of jobs whose ranks have
whole layers lie within, with a share read off the other sources too; where ranks have parts of layers, of their
sequences or of their experts, tensors of changing sizes are exchanged, and 28 of 34 do, as with a share read off the
others. Of 17 readings below 8 GiB, most of models for debugging, 11 do.

Few jobs of several GPUs whose ranks have whole layers reserve less than is expected: with 2 % of the order of
allocations below, 4 of 157 readings of medium or high confidence are below their range (5 % are allowed, which
holds whichever of the 26 sources is left out), where 2 were with 7 and 8 %. Where ranks have parts, 10 of 114 readings
of reserved memory are below with the wide share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.memory.rank import Rank
from memcore.networks.adapters import learns
from memcore.networks.nearest import only_counted, positions, width
from memcore.networks.network import Layer
from memcore.networks.recognized import RESIDUAL, UNCACHED
from memcore.records import dataclass
from memcore.trace.code import code_of

Share = tuple[float, float]
"""Of what is expected: so much less, and so much more."""
NOTHING: Share = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A row of the table."""

    title: str
    applies: Callable[[Rank], bool] = lambda rank: True
    tensors: Share = NOTHING
    """Of allocated memory, and so of what is reserved for them."""
    held: Share = NOTHING
    """Of reserved bytes alone."""
    settled_by: str = ""
    """The setting that settles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A doubt about one reading, in bytes."""

    title: str
    low: int
    """So much less it may be."""
    high: int
    """So much more."""
    settled_by: str = ""
    """The setting that settles it, if one does."""


def _open(rank: Rank, path: Setting[str]) -> bool:
    """The config says nothing of a setting, and a loop of the user's choice drives models that compute their loss."""
    return rank.job.config[path] is None and code_of(rank.job.recipe.implementation).has_cache


def _of_any_release(rank: Rank, hangs: str) -> bool:
    """Return whether a config names a loop without its release, on which so much hangs."""
    named, release = rank.job.config[EngineSettings.framework], rank.job.config[EngineSettings.framework_version]
    return named is not None and release is None and rank.job.recipe.release == hangs


def _picks_kernel(rank: Rank) -> bool:
    """Nothing says which attention kernel runs: neither the config nor the release, which has one by default."""
    release = rank.job.config[EngineSettings.framework_version]
    return release is None and rank.job.recipe.release != "nothing" and _open(rank, Training.attention)


def _expands(rank: Rank) -> bool:
    return bool(rank.job.config[EngineSettings.expandable_segments])


def _varies(rank: Rank) -> bool:
    return code_of(rank.job.recipe.implementation).pads and not rank.job.config[Training.packed_sequences]


def _alone(rank: Rank) -> bool:
    """Return whether the job has one GPU, as those whose allocations were replayed event by event."""
    return rank.job.num_gpus == 1


def _streams(rank: Rank) -> bool:
    """Collectives have streams, and so pools, of their own."""
    return len({block.pool for block in rank.program.blocks}) > 1


_SPLITTING = (
    Parallelism.tensor_parallel_size,
    Parallelism.context_parallel_size,
    Parallelism.expert_parallel_size,
    Parallelism.pipeline_parallel_size,
)
"""With any of these, each rank holds parts of layers, of sequences or of experts."""


def _is_split(rank: Rank) -> bool:
    return any((rank.job.config[path] or 1) > 1 for path in _SPLITTING)


DOUBTS = (
    Doubt(title="releases of libraries", tensors=(0.03, 0.04)),
    Doubt(
        title="the framework's release",
        applies=lambda rank: _of_any_release(rank, "much"),
        tensors=(0.13, 0.18),
        held=(0.0, 0.15),
        settled_by=EngineSettings.framework_version,
    ),
    Doubt(
        title="the framework's release",
        applies=lambda rank: _of_any_release(rank, "little"),
        tensors=(0.03, 0.1),
        held=(0.0, 0.15),
        settled_by=EngineSettings.framework_version,
    ),
    Doubt(
        title="the training loop",
        applies=lambda rank: _open(rank, EngineSettings.framework),
        tensors=(0.04, 0.07),
        settled_by=EngineSettings.framework,
    ),
    Doubt(
        title="the attention kernel",
        applies=_picks_kernel,
        tensors=(0.02, 0.05),
        settled_by=Training.attention,
    ),
    Doubt(
        title="how long the longest padded sequence is",
        applies=lambda rank: rank.job.recipe.padded and rank.job.config[EngineSettings.framework] is not None,
        tensors=(0.12, 0.0),
    ),
    Doubt(title="batches of different lengths", applies=_varies, held=(0.0, 0.3), settled_by=Training.packed_sequences),
    Doubt(title="compiled kernels", applies=lambda rank: rank.job.recipe.compiled, tensors=(0.03, 0.05)),
    Doubt(
        title="the order of allocations",
        applies=lambda rank: not _expands(rank) and _alone(rank),
        held=(0.04, 0.06),
        settled_by=EngineSettings.expandable_segments,
    ),
    Doubt(
        title="the order of allocations",
        applies=lambda rank: not _expands(rank) and not _alone(rank) and not _is_split(rank),
        held=(0.02, 0.08),
        settled_by=EngineSettings.expandable_segments,
    ),
    Doubt(
        title="the order of allocations",
        applies=lambda rank: not _expands(rank) and _is_split(rank),
        held=(0.08, 0.08),
        settled_by=EngineSettings.expandable_segments,
    ),
    Doubt(
        title="rounding of expandable segments",
        applies=lambda rank: _expands(rank) and _alone(rank),
        held=(0.04, 0.04),
    ),
    Doubt(
        title="rounding of expandable segments",
        applies=lambda rank: _expands(rank) and not _alone(rank) and not _is_split(rank),
        held=(0.02, 0.06),
    ),
    Doubt(
        title="rounding of expandable segments",
        applies=lambda rank: _expands(rank) and _is_split(rank),
        held=(0.07, 0.06),
    ),
    Doubt(
        title="pools of several streams",
        applies=lambda rank: _streams(rank) and _expands(rank) and not _is_split(rank),
        held=(0.0, 0.09),
    ),
    Doubt(
        title="pools of several streams",
        applies=lambda rank: _streams(rank) and _expands(rank) and _is_split(rank),
        held=(0.0, 0.14),
    ),
    Doubt(
        title="pools of several streams",
        applies=lambda rank: _streams(rank) and not _expands(rank),
        held=(0.0, 0.18),
        settled_by=EngineSettings.expandable_segments,
    ),
)
"""What applies to a job."""


NEAREST: Share = (0.15, 0.8)
"""Shares of the activations of layers that are not written line by line: the least and the most of simulated steps of
derived decoders and encoders (0.99 to 1.80 times the predicted activations; deriver/). Of 16 that were compared again,
with four layers, the peak of 14 is within 3 % of the prediction; those of BitNet and Doge are 4 and 11 % above. Of four
steps of ALBERT (tests/truth/nearest.json) three have peaks of 1.03 to 1.18 times the prediction; the one under autocast
has 0.88 times, which is explained only in part."""


REST: Share = (0.5, 1.0)
"""The same where a part is not recognized by its tensors, or its cache is another one: its matrices stand for it
(`memcore/layers/transformers/nearest.py`). Simulated steps of 16 types, of a few layers, have 0.81 to 1.19 times the
predicted activations under LoRA; full fine-tunes of masked language models, whose loss stays in 16 bits, 0.58 times
(tests/truth/nearest.json)."""


UPCAST = 16.0
"""As many times more than 16 bits take of activations, where kernels compute in fp32: six notebooks of Unsloth on a
T4, with Gemma 3 and 4, have 0.9 to 15.4 times more, with sequences whose length is not known."""


def _rests(layer: Layer) -> bool:
    """Return whether matrices stand for a part of a layer, or its cache shows that its attention is another one."""
    extra = layer.extra
    lacks = not (layer.mixers and layer.ffns) or (extra is not None and (extra.width or extra.variant == UNCACHED))
    return layer.residual == RESIDUAL and bool(lacks)


def parts(rank: Rank, expected: int, *, held: bool) -> Iterator[Part]:
    """Yield the doubts about a reading of a rank; of simulated steps these are the order of allocations and layers."""
    network, pictures = rank.job.recipe.network, rank.job.recipe.pictures
    near = any(layer.residual == RESIDUAL for layer in network.kinds)
    share = 1.0 if near else _of_towers(rank) if pictures is not None else 0.0
    least, most = REST if any(map(_rests, network.kinds)) else NEAREST
    if pictures is not None and (counted := _counted(rank)):
        yield Part(title="activations of towers that are only counted", low=0, high=counted)
    if share:
        activations = share * max(expected - rank.persistent.before_step, 0)
        yield Part(
            title="layers that memcore approximates",
            low=int(least * activations),
            high=int(most * activations),
        )
    if rank.job.recipe.upcasts:
        beyond = int(UPCAST * max(expected - rank.persistent.before_step, 0))
        yield Part(title="kernels that compute in fp32", low=0, high=beyond)
    if rank.job.recipe.fake:
        if held:
            yield _ordered(rank, expected)
        return
    for doubt in DOUBTS:
        if doubt.applies(rank):
            shares = [doubt.tensors, doubt.held] if held else [doubt.tensors]
            low, high = (sum(share[side] for share in shares) for side in (0, 1))
            if low or high:
                yield Part(
                    title=doubt.title,
                    low=int(low * expected),
                    high=int(high * expected),
                    settled_by=doubt.settled_by,
                )


_PER_PATCH = 34 / 12
"""Bytes in 16 bits that a layer of a vision transformer keeps of a patch, by its width, over its parameters, by their
width's square: "Reducing Activation Recomputation in Large Transformer Models", equation 1 without scores."""
_PATCHES, _NARROW = 4096, 1024
"""Patches of an image, and a tower's width, that make for the most: 896 pixels by 14; ViT-L's."""
_KEPT = 0.1
"""The share that checkpoints keep: the input of a layer, and one layer at a time."""


def _counted(rank: Rank) -> int:
    """Return the most bytes that towers keep of which only the number of parameters is known."""
    learning = [each for each in only_counted(rank.job.share.network) if learns(each, rank.job.share.network)]
    elements = sum(rank.job.model.size(each.shape) for each in learning)
    images = rank.job.sizes.get("bi", 0)
    kept = _KEPT if rank.job.recipe.checkpoints is not None else 1.0
    return int(elements * images * kept * _PER_PATCH * _PATCHES / _NARROW)


def _of_towers(rank: Rank) -> float:
    """Return the share of hidden states that learning towers make that run from the nearest parts."""
    model, sizes = rank.job.model, rank.job.sizes
    seen = 0
    for place, (tower, repeats) in enumerate(zip(model.network.towers, model.tower_repeats, strict=True)):
        axes = width(tower)
        weights = [weight for run in tower.runs for layer in run for weight in layer.weights()]
        if axes and positions(place) in sizes and any(learns(each, rank.job.share.network) for each in weights):
            layers = sum(len(run) * times for run, times in zip(tower.runs, repeats, strict=True))
            seen += layers * sizes[positions(place)] * sizes["bi"] * model.size(axes)
    tokens = model.num_layers * sizes["b"] * sizes["s"] * sizes["h"]
    return seen / (seen + tokens) if seen else 0.0


FRAGMENTATION = 1.29
"""How much the allocator reserved over what its streams need at least, in 79 of 80 simulated jobs of the accuracy page
(in one, with little memory on the GPU, 1.54); the least was 1.02."""
REPLAY = 1.03
"""The worst ratio between the replayed allocator and the one that recorded the simulated jobs."""


def _ordered(rank: Rank, expected: int) -> Part:
    """Return what else the allocator may hold of a simulated step: from no fragmentation to the most that was seen."""
    least = rank.least_reserved
    most = max(expected * REPLAY, 0 if _expands(rank) else least * FRAGMENTATION)
    return Part(title="the order of allocations", low=max(expected - least, 0), high=max(int(most) - expected, 0))


def together(found: tuple[Part, ...]) -> tuple[int, int]:
    """Return how much less and how much more a reading may be."""
    return _root(*(each.low for each in found)), _root(*(each.high for each in found))


def _root(*sizes: int) -> int:
    return int(sqrt(sum(size * size for size in sizes)))


def narrowing(found: tuple[Part, ...]) -> Part | None:
    """Return the largest part of the setting that narrows the range most; None where no setting is left."""
    left = {
        each.settled_by: tuple(part for part in found if part.settled_by != each.settled_by)
        for each in found
        if each.settled_by
    }
    best = min(left, key=lambda setting: sum(together(left[setting])), default=None)
    asked = (each for each in found if best is not None and each.settled_by == best)
    return max(asked, key=lambda each: each.low + each.high, default=None)
