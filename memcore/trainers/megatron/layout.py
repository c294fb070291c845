"""The chunks of a job's pipeline, from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from memcore.config.defaults import Defaults
from memcore.config.parallelism import Parallelism
from memcore.config.texts import as_flags
from memcore.errors import ConfigError, UnsupportedError
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.trainers.megatron.knobs import uneven
from memcore.trainers.megatron.networks.parts import ENCODER
from memcore.trainers.megatron.networks.placement import (
    Chunk,
    Layout,
    LayoutError,
    even,
    even_chunks,
    laid_out,
    predicting,
)
from memcore.trainers.megatron.networks.towers import deep_layers
from memcore.trainers.megatron.ranks import Ranks
from memcore.trainers.megatron.settings import MegatronSettings

_LAYOUT = Parallelism.pipeline_layout
_STAGES = Parallelism.pipeline_parallel_size
_VIRTUAL = Parallelism.virtual_pipeline_parallel_size
_SCHEDULE = Parallelism.pipeline_schedule


def chunks_of(read: Defaults, model: Model, ranks: Ranks) -> Layout:
    """Return the chunks of each stage, in the order in which a stage runs them."""
    stages, virtual = ranks.pipeline, read.given(_VIRTUAL) or 1
    if virtual > 1 and stages == 1:
        read.refuse(_VIRTUAL, "found {}; needs {} above 1", virtual, _STAGES)
    if stages > 1 and any(layer.residual == ENCODER for layer in model.network.kinds):
        raise UnsupportedError(_STAGES, "found {}; pipelines are not supported yet for encoder-decoder models", stages)
    _check_schedule(read, virtual)
    try:
        found = _chunks(read, model, stages * virtual)
    except LayoutError as error:
        path = _LAYOUT if read.given(_LAYOUT) is not None else _STAGES
        fix = _evened(model, stages) if path == _STAGES and virtual == 1 else ""
        said = Message("found {!r:.80}; {}{}", read.given(path), error.args[0], fix)
        raise ConfigError.at(path, said) from None
    if len(found) % stages or (virtual > 1 and len(found) != stages * virtual):
        counted = Message("found {} chunks, expected {} for each of {} stages", len(found), virtual, stages)
        raise ConfigError.at(_LAYOUT, "found {}", counted)
    needed = deep_layers(model.network.towers)
    if found[0].layers < needed:  # modelling_qwen3_vl/model.py
        read.refuse(
            _STAGES,
            "leaves {} layers in the first chunk; intermediate vision features are needed up to layer {}",
            found[0].layers,
            needed,
        )
    return tuple(tuple(found[stage::stages]) for stage in range(stages))


def _evened(model: Model, stages: int) -> str:
    """Return what splits the layers all the same."""
    settings = uneven(model.num_layers - predicting(model), stages)
    return Message("; split them with {}", as_flags(settings)) if settings else ""


def _chunks(read: Defaults, model: Model, chunks: int) -> Sequence[Chunk]:
    given = read.given(_LAYOUT)
    if isinstance(given, str):
        return laid_out(model, given, _depth(model))
    if given is not None:
        return even_chunks(model, tuple(given))
    if model.stage_starts:
        return even_chunks(model, _own_counts(model))
    embedding = bool(read.given(MegatronSettings.account_for_embedding_in_pipeline_split))
    loss = bool(read.given(MegatronSettings.account_for_loss_in_pipeline_split))
    count = model.num_layers - predicting(model)
    return even_chunks(model, tuple(even(count, chunks, embedding=embedding, loss=loss)))


def _depth(model: Model) -> int:
    """Layers that predict one further token."""
    return max((len(run) for run in model.network.runs if run[0].extra is not None), default=1)


def _own_counts(model: Model) -> tuple[int, ...]:
    """Layers of each stage, where the model's own pattern cuts it."""
    edges = [0, *model.stage_starts, model.num_layers - predicting(model)]
    return tuple(stop - start for start, stop in pairwise(edges))


def _check_schedule(read: Defaults, virtual: int) -> None:
    usual = "interleaved-1f1b" if virtual > 1 else "1f1b"
    schedule = read.take(_SCHEDULE, usual)
    if schedule != usual:
        needs = "chunks" if virtual > 1 else "no chunks"
        read.refuse(
            _SCHEDULE, "found {!r}; with {} ({} {}) Megatron runs {!r}", schedule, needs, _VIRTUAL, virtual, usual
        )
