"""Which layers each pipeline stage has, in chunks if the schedule is interleaved.

Source: Megatron-LM, core/transformer/transformer_block.py (`get_num_layers_to_build`),
core/transformer/pipeline_parallel_layer_layout.py. Chunk number i is virtual stage i // p of stage i mod p.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from memcore.limits import INTEGER_DIGITS, LAYOUT_PARTS, NESTING
from memcore.messages import Message, joined
from memcore.networks.network import Layer, Model
from memcore.networks.stages import cut
from memcore.trainers.megatron.networks.parts import PREDICTION
from memcore.units import approximate


class Chunk(NamedTuple):
    """A stretch of a model on one stage."""

    start: int
    """Its first layer, of those that do not predict further tokens."""
    layers: int
    embeds: bool = False
    predicts: int = 0
    """Layers that predict further tokens."""
    loss: bool = False


Layout: TypeAlias = tuple[tuple[Chunk, ...], ...]
"""The chunks of each stage, in the order in which a stage runs them."""


class LayoutError(ValueError):
    """A layout that does not fit the model or the pipeline."""


def predicting(model: Model) -> int:
    """Return how many of a model's layers, at its end, predict further tokens."""
    runs = zip(model.network.runs, model.repeats, strict=True)
    return sum(times * len(run) for run, times in runs if run[0].residual == PREDICTION)


def even(count: int, chunks: int, *, embedding: bool, loss: bool) -> list[int]:
    """Layers of each chunk; embedding and loss may each stand for a layer.

    Raises LayoutError where the chunks cannot split them equally.
    """
    total = count + embedding + loss
    if total % chunks:
        also = [name for name, given in (("embedding", embedding), ("loss", loss)) if given]
        counted = joined("", (Message(" with the {}", name) for name in also))
        raise LayoutError(Message("{} layers{} cannot be split evenly into {} chunks", total, counted, chunks))
    found = [total // chunks] * chunks
    found[0] -= embedding
    found[-1] -= loss
    return found


@lru_cache(maxsize=64)
def even_chunks(model: Model, counts: tuple[int, ...]) -> Sequence[Chunk]:
    """Return chunks with a given number of layers each: the embedding in the first, the rest in the last."""
    further = predicting(model)
    if sum(counts) != model.num_layers - further:
        raise LayoutError(Message("{} layers, but {} has {}", sum(counts), model.name, model.num_layers - further))
    last, found, start = len(counts) - 1, [], 0
    for number, count in enumerate(counts):
        is_last = number == last
        found.append(
            Chunk(
                start=start,
                layers=count,
                embeds=number == 0,
                predicts=further if is_last else 0,
                loss=is_last,
            )
        )
        start += count
    return found


@lru_cache(maxsize=64)
def laid_out(model: Model, text: str, depth: int = 1) -> Sequence[Chunk]:
    """Return the chunks of Megatron's layout, such as `Et*3|(tt|)*29m|L`; `depth` layers predict each further token."""
    found, start = [], 0
    for part in _expanded(text).split("|"):
        count = part.count("t")
        found.append(
            Chunk(start=start, layers=count, embeds="E" in part, predicts=depth * part.count("m"), loss="L" in part)
        )
        start += count
    further = predicting(model)
    if start != model.num_layers - further:
        raise LayoutError(Message("{} layers, but {} has {}", start, model.name, model.num_layers - further))
    if sum(chunk.predicts for chunk in found) != further:
        raise LayoutError(
            Message("{} multi-token-prediction layers, expected {}", sum(chunk.predicts for chunk in found), further)
        )
    if not found[0].embeds or not found[-1].loss or sum(chunk.embeds + chunk.loss for chunk in found) != 2:
        raise LayoutError("the first chunk must have exactly one E, and the last exactly one L")
    return found


def further_tokens(text: str) -> int:
    """Return how many further tokens a layout predicts."""
    return _expanded(text).count("m")


def _expanded(text: str) -> str:
    """Return a layout with its repetitions spelled out."""
    bare = text.replace(",", "")
    for _ in range(NESTING):
        bare, before = _multiplied(_BRACKETS, bare), bare
        if bare == before:
            break
    if "(" in bare:
        raise LayoutError("its brackets do not match")
    bare = _multiplied(_SIGN, bare)
    if set(bare) - set("EtmL|"):
        raise LayoutError("expected E, t, m, L and |, with repetitions such as t*3 or (tt|)*4")
    return bare


_BRACKETS, _SIGN = re.compile(r"\(([^()]*)\)(?:\*(\d+))?"), re.compile(r"([EtmL|])\*(\d+)")
"""What is repeated, and how often."""


def _multiplied(repeated: re.Pattern[str], text: str) -> str:
    """A layout with some repetitions spelled out. Raises LayoutError before it is longer than any real one."""
    length = len(text) + sum(len(match[1]) * _times(match) for match in repeated.finditer(text))
    if length > LAYOUT_PARTS:
        raise LayoutError(
            Message("expected at most {} layers and stage boundaries, found {}", LAYOUT_PARTS, approximate(length))
        )
    return repeated.sub(lambda match: match[1] * _times(match), text)


def _times(match: re.Match[str]) -> int:
    """Return how often; of more digits than are read, what is beyond any limit."""
    return 1 if match[2] is None else int(match[2][:INTEGER_DIGITS])


def cut_of(model: Model, chunk: Chunk) -> list[tuple[tuple[Layer, ...], int]]:
    """The runs of layers of a chunk."""
    found = list(_repeated(cut(model, chunk.start, chunk.start + chunk.layers)))
    if chunk.predicts:
        whole = model.num_layers - predicting(model)
        found += list(cut(model, whole, whole + chunk.predicts))
    return found


@lru_cache(maxsize=64)
def parts_of(model: Model, layout: Layout) -> tuple[tuple[Model, ...], ...]:
    """Return the part of a model that each chunk of each stage has; equal ones are the same, wherever they begin."""
    made: dict[object, Model] = {}
    return tuple(tuple(_part_of(model, chunk, made) for chunk in chunks) for chunks in layout)


def _part_of(model: Model, chunk: Chunk, made: dict[object, Model]) -> Model:
    cuts = cut_of(model, chunk)
    key = tuple((tuple(map(id, pattern)), times) for pattern, times in cuts), *chunk[2:]
    if key not in made:
        made[key] = _made_of(model, chunk, cuts)
    return made[key]


def _made_of(model: Model, chunk: Chunk, found: Sequence[tuple[tuple[Layer, ...], int]]) -> Model:
    """Return the part of a model that a chunk has, given its runs of layers."""
    embedding_and_head = model.network.embedding_and_head
    early = "embedding.", "encoder."
    others = tuple(
        weight
        for weight in embedding_and_head.others
        if (chunk.embeds if weight.name.startswith(early) else chunk.loss)
    )
    if chunk.predicts and not chunk.embeds:
        others += (replace(embedding_and_head.embedding, name="mtp.embedding.word_embeddings.weight"),)
    around = replace(
        embedding_and_head,
        reads_tokens=chunk.embeds,
        predicts=chunk.loss,
        tied=embedding_and_head.tied and chunk.embeds and chunk.loss,
        positions=embedding_and_head.positions if chunk.embeds else None,
        final_norm=embedding_and_head.final_norm if chunk.loss else None,
        others=others,
    )
    towers, seen = (model.network.towers, model.tower_repeats) if chunk.embeds else ((), ())
    network = replace(
        model.network, embedding_and_head=around, runs=tuple(pattern for pattern, _ in found), towers=towers
    )
    repeats = tuple(times for _, times in found)
    return replace(model, network=network, repeats=repeats, tower_repeats=seen, first_layer=chunk.start)


def _repeated(found: Iterator[tuple[tuple[Layer, ...], int]]) -> Iterator[tuple[tuple[Layer, ...], int]]:
    """Neighbouring runs of the same pattern as one."""
    last: tuple[tuple[Layer, ...], int] | None = None
    for pattern, times in found:
        if last is not None and last[0] == pattern:
            last = pattern, last[1] + times
            continue
        if last is not None:
            yield last
        last = pattern, times
    if last is not None:
        yield last
