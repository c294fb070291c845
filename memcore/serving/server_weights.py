"""Weights as servers keep them: merged and sharded, with tables of cosines and repacked experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import isfinite

from memcore.config.engine import EngineSettings
from memcore.memory.ledger import Entry, Range
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.networks.parts import Experts, LatentAttention, SpecialMixer
from memcore.networks.published import UNUSED
from memcore.networks.table import layer_order
from memcore.serving.cache import CacheSpec, cache_specs
from memcore.serving.checkpoint import Raw, Stored, text_config
from memcore.serving.entries import observed, tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import ServingJob
from memcore.serving.slots import TENSOR, layer_slots
from memcore.serving.speculation import speculative_entries
from memcore.serving.stages import Layout, Stage, stages
from memcore.serving.weights import CATEGORY, Storage, unsplit, weight_entries
from memcore.symbols import Quotient, measure, product, round_up

_ROPE = "vllm, model_executor/layers/rotary_embedding/base.py"
_MLA = "vllm, model_executor/layers/attention/mla_attention.py, process_weights_after_loading"


def rank_weights(
    job: ServingJob,
    stage: Stage,
    *,
    blocks: bool = True,
    whole: int | None = None,
    tables: str | None = None,
    stretched: bool = True,
    directions: int = 1,
    deep: int = 0,
    tile: int = 64,
    towers: bool = True,
    products: bool = False,
    packs: Packs | None = None,
) -> list[Entry]:
    """Return what loading takes.

    `blocks`: as PyTorch's allocator counts it, which splits blocks of expandable segments to 512 bytes; `whole`: the
    size from which these are not split; `tables`: the dtype of cosines and sines, `stretched`: whether
    scaled positions make them longer; `directions`: how many times longer
    these are where positions have three directions; `deep`: tokens of buffers for what inner layers of a tower see;
    `tile`: bytes in which Triton's kernels for Hopper swizzle a row of MXFP4, 0 where Marlin runs; `towers`: whether
    towers are loaded; `products`: whether latent attention keeps products of its matrices; `packs`: how the server's
    own kernels pad experts in MXFP4.
    """
    basics = job.basics
    entries = list(_loaded(basics.model, stage.count, stage.number, basics.dtype, basics.stored, basics.layout, towers))
    if basics.stored is not None and basics.stored.format.name == "mxfp4":
        kept = (each for each in entries if "mxfp4" not in each.title or ".experts." not in each.module)
        entries = [*kept, *_mxfp4(job, stage, tile, packs)]
    times = directions if _in_three_directions(job) else 1
    entries += _tables(job, stage, tables or basics.dtype, times, stretched=stretched)
    entries += _deep(job, stage, deep) if towers else []
    entries += _absorbed(job, stage)
    entries += _multiplied(job, stage) if products else []
    if blocks and not job.config[EngineSettings.expandable_segments]:
        entries.append(unsplit(entries, whole=whole))
    return [*entries, *_unused(job, stage), *_draft(job, stage)]


@lru_cache(maxsize=128)
def _loaded(
    model: Model,
    count: int,
    number: int,
    dtype: str,
    stored: Stored | None,
    layout: Layout,
    towers: bool,
) -> tuple[Entry, ...]:
    """Return the weights of one stage of `count`; lengths, users and caches do not change them."""
    stage = next(each for each in stages(model, count) if each.number == number)
    storage = Storage(dtype=dtype, stored=stored, sizes={**model.sizes, **layout.symbols}, others=dict(layout.others))
    return tuple(weight_entries(model, stage, storage, towers=towers))


def _unused(job: ServingJob, stage: Stage) -> Iterator[Entry]:
    """Keys and values that checkpoints hold for layers that use another's: vLLM 0.33 leaves them out, 0.22 did not."""
    basics = job.basics
    count = basics.model.published_extras.get(UNUSED, 0) if stage.embeds else 0
    if count:
        size = int(count * BYTES[basics.dtype]) // basics.layout.tensor
        source = "vllm, model_executor/models/gemma4.py"
        yield observed(
            UNUSED, CATEGORY, Range(0, size, size), source, "parameters × 2 B", "newer releases leave them out"
        )


def _draft(job: ServingJob, stage: Stage) -> list[Entry]:
    """Return the draft model, whole on the last stage, sharded like the model that checks its tokens."""
    drafting, proposing = job.basics.drafting(), job.basics.speculation
    others = dict(job.basics.layout.others)
    if not stage.samples:
        return []
    if drafting is None:
        if proposing is None:
            return []
        stored = job.basics.stored if proposing.quantized else None
        storage = Storage(
            dtype=job.basics.dtype, stored=stored, sizes=job.basics.sizes, others=others, category="draft model"
        )
        return list(speculative_entries(proposing, job.model, storage))
    (whole,) = stages(drafting.model, 1)
    storage = Storage(dtype=drafting.dtype, sizes=drafting.sizes, others=others, category="draft model")
    entries = list(weight_entries(drafting.model, whole, storage))
    return entries if job.config[EngineSettings.expandable_segments] else [*entries, unsplit(entries, "draft model")]


def cached_layers(job: ServingJob, stage: Stage) -> list[Sequence[CacheSpec]]:
    """Return what each layer of a stage keeps, the draft model's layers behind those of the last stage."""
    caching = job.basics.caching()
    of_kind = {key: cache_specs(layer, caching) for key, layer in {id(layer): layer for layer in stage.layers}.items()}
    found: list[Sequence[CacheSpec]] = [of_kind[id(layer)] for layer in stage.layers]
    drafting, proposing = job.basics.drafting(), job.basics.speculation
    if proposing is not None and proposing.layer is not None and stage.samples:
        found += [cache_specs(proposing.layer, caching)] * proposing.layers
    if drafting is not None and stage.samples:
        caching = drafting.caching()
        found += [cache_specs(layer, caching) for layer in layer_order(drafting.model)]
    return found


_THREE = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
"""Families, by how they begin, whose positions are time, height and width; other files have `mrope_section`."""


def _in_three_directions(job: ServingJob) -> bool:
    text = text_config(job.basics.raw)
    sections = [text.get("rope_scaling"), text.get("rope_parameters")]
    return job.model.network.family.startswith(_THREE) or any(
        isinstance(each, Mapping) and "mrope_section" in each for each in sections
    )


def _deep(job: ServingJob, stage: Stage, tokens: int) -> Iterator[Entry]:
    """Buffers of a step's tokens.

    What inner layers of a tower add to the first layers (Qwen3-VL), and what each layer embeds itself (Gemma 3n, 4).
    """
    raw, basics = job.basics.raw, job.basics
    vision, width = raw.get("vision_config"), text_config(raw).get("hidden_size_per_layer_input")
    levels = vision.get("deepstack_visual_indexes") if isinstance(vision, Mapping) else None
    if not tokens or not stage.embeds:
        return
    size = BYTES[basics.dtype]
    if isinstance(levels, Sequence) and levels:
        sizes, source = {**basics.sizes, "T": tokens}, "vllm, model_executor/models/qwen3_vl.py"
        yield tensor("deepstack_input_embeds", CATEGORY, ("T", "h"), size, sizes, source, copies=len(levels))
    if isinstance(width, int) and width > 0:
        sizes = {"T": tokens, "layers": basics.model.num_layers, "width": width}
        source = "vllm, model_executor/models/gemma4_mm.py"
        yield tensor("per_layer_embeddings", CATEGORY, ("T", "layers", "width"), size, sizes, source)


def _tables(job: ServingJob, stage: Stage, dtype: str, times: int, *, stretched: bool) -> Iterator[Entry]:
    """Cosines and sines of every position, one table for each kind of rotation."""
    basics = job.basics
    positions = times * max(basics.model.sizes["P"], basics.max_model_len)
    found: dict[str, tuple[int, str]] = {}
    for layer in stage.kinds:
        for mixer in layer.mixers:
            if isinstance(mixer, SpecialMixer):
                if mixer.table:
                    found[mixer.table] = basics.sizes["r"], "fp32"
            elif mixer.rotary != "none":
                found[mixer.table] = measure(mixer.heads.rotated, basics.sizes), dtype
    for table, (width, own) in found.items():
        sizes = {"P": int(positions * (_stretch(basics.raw, table) if stretched else 1)), "r": width}
        name = f"rotary_emb.cos_sin_cache ({table})"
        yield tensor("cosines and sines", CATEGORY, ("P", "r"), BYTES[own], sizes, _ROPE, module=name)


_STRETCHED = ("linear", "dynamic")
"""Scalings whose tables are longer by their factor (vllm, rotary_embedding/linear_scaling_rope.py and
dynamic_ntk_scaling_rope.py); others keep the positions that the model names."""


def _stretch(raw: Raw, table: str) -> float:
    """Return how many times longer a table of rotations is than the model's positions."""
    text = text_config(raw)
    found = text.get("rope_scaling") or text.get("rope_parameters")
    if isinstance(found, Mapping) and isinstance(found.get(f"{table}_attention"), Mapping):
        found = found[f"{table}_attention"]
    elif table == "sliding":
        return 1  # layers with windows have rotations of their own, which are not scaled (Gemma 3)
    if not isinstance(found, Mapping) or found.get("rope_type", found.get("type")) not in _STRETCHED:
        return 1
    factor = found.get("factor")
    return max(float(factor), 1) if isinstance(factor, (int, float)) and isfinite(factor) else 1


def _absorbed(job: ServingJob, stage: Stage) -> Iterator[Entry]:
    """Latent attention multiplies with parts of kv_b_proj; quantized ones are copied in the model's dtype."""
    basics = job.basics
    if basics.stored is None or "attention" not in basics.stored.format.covers:
        return
    for layer, numbers in stage.kinds.items():
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention):
                slots = [slot for slot in layer_slots(layer) if slot.members == (mixer.expand.name,)]
                shape = (*slots[0].rows[0], *slots[0].columns)
                yield tensor(
                    "kv_b_proj in the model's dtype", CATEGORY, shape, BYTES[basics.dtype], basics.sizes, _MLA,
                    copies=len(numbers),
                )  # fmt: skip


def _multiplied(job: ServingJob, stage: Stage) -> Iterator[Entry]:
    """Queries times the keys' expansion, the rotated part of queries, and the values' expansion times the output.

    As quantized as what they are made of: W_Q_UK and W_UV_O; W_QR is not.
    """
    basics = job.basics
    size = basics.stored.format.itemsize if basics.stored is not None else BYTES[basics.dtype]
    source = "vllm 0.7.1, attention/backends/mla/utils.py, process_weights_after_loading"
    for layer, numbers in stage.kinds.items():
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention):
                heads, inner = Quotient((mixer.heads.query,), TENSOR), mixer.queries[-1].inner
                for title, shape, itemsize in (
                    ("queries times the keys' expansion", (*inner, heads, "lk"), size),
                    ("rotated part of queries", (*inner, heads, mixer.heads.rotated), BYTES[basics.dtype]),
                    ("the values' expansion times the output", (heads, "lk", *mixer.output.outer), size),
                ):
                    yield tensor(title, CATEGORY, shape, itemsize, basics.sizes, source, copies=len(numbers))


def _mxfp4(job: ServingJob, stage: Stage, tile: int, packs: Packs | None) -> Iterator[Entry]:
    """Experts repacked for the kernels of the GPU's architecture, which pad them."""
    basics, sizes = job.basics, job.basics.sizes
    major = basics.accelerator.major if basics.accelerator else 9
    for layer, numbers in stage.kinds.items():
        for ffn in layer.ffns:
            if isinstance(ffn, Experts):
                many = product((sizes["E"],), sizes) // sizes["EP"]
                wide, hidden = -(-sizes["m"] // sizes["ETP"]), product((ffn.reads,), sizes)
                packed = packs or (_PACKED.get(major or 9, _padded) if tile else _padded)
                for title, shape in packed(many, round_up(wide, 32), hidden, tile):
                    yield tensor(
                        Message("{} {}", "mxfp4", title), CATEGORY, shape, Fraction(1), sizes,
                        "vllm, model_executor/layers/fused_moe/oracle/mxfp4.py; triton_kernels, layout_details",
                        copies=len(numbers), module="experts",
                    )  # fmt: skip


Packed = Iterator[tuple[str, tuple[int, ...]]]
"""Titles and shapes, in bytes."""
Packs = Callable[[int, int, int, int], Packed]
"""From experts, their width, the hidden size and a tile to what they are packed to."""


def _part(name: str, what: str) -> Message:
    return Message("{}: {}", name, what)


def _hopper(many: int, wide: int, hidden: int, tile: int) -> Packed:
    """Triton kernels: widths in 64, values swizzled in tiles of 64 × `tile` bytes, scales in tiles of 256 × 2.

    The checkpoint's own scales stay in addition to the swizzled ones, and biases are kept in fp32.
    """
    wide = round_up(wide, 64)
    for name, rows, columns in (("gate and up", 2 * wide, hidden), ("down", hidden, wide)):
        yield _part(name, "weight"), (many, round_up(rows, 64), round_up(columns // 2, tile))
        yield _part(name, "swizzled scales"), (many, round_up(rows, 256), round_up(columns // 32, 2))
        yield _part(name, "scales"), (many, rows, columns // 32)
        yield _part(name, "bias"), (many, rows, 2)


def _padded(many: int, wide: int, hidden: int, _tile: int) -> Packed:
    """Marlin pads to 128 × 256, before Hopper and without Triton's kernels; TensorRT-LLM's (Blackwell) to 256 × 256."""
    return evenly_packed(many, (round_up(wide, 128), round_up(hidden, 256)))


def _blackwell(many: int, wide: int, hidden: int, _tile: int) -> Packed:
    return evenly_packed(many, (round_up(wide, 256), round_up(hidden, 256)))


def evenly_packed(many: int, first: tuple[int, int], second: tuple[int, int] | None = None) -> Packed:
    """Values and scales; `first` is the width and the hidden size of gate and up, `second` the other way of down."""
    wide, hidden = first
    for name, rows, columns in (("gate and up", 2 * wide, hidden), ("down", *(second or (hidden, wide)))):
        yield _part(name, "weight"), (many, rows, columns // 2)
        yield _part(name, "scales"), (many, rows, columns // 32)


_PACKED = {9: _hopper, 10: _blackwell}
