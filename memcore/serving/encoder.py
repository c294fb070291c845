"""What profiling with images needs: pixels, the tower's widest layer, and its results.

Sources: vllm, multimodal/encoder_budget.py (as many of the largest images as a step's tokens allow, and one at least)
and v1/worker/gpu_model_runner.py, profile_run: pixels and results stay until the end of profiling. Towers of Qwen's
models run eagerly, so that what a layer's functions name lives until they return (model_executor/models/qwen3_vl.py,
qwen2_5_vl.py, qwen2_vl.py; read in 0.19 and 0.27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isqrt

from memcore.errors import ConfigError
from memcore.memory.ledger import Entry
from memcore.messages import Message
from memcore.networks.images import Images
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, FeedForward
from memcore.records import dataclass
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.pictures import PICTURES, SLICES
from memcore.serving.profile import ACTIVATIONS
from memcore.serving.videos import FAMILIES, images_of, longest_video
from memcore.symbols import Quotient, Shape, half, product

_SOURCE = "vllm, multimodal/encoder_budget.py and v1/worker/gpu_model_runner.py, profile_run"
_LARGEST_TOKENS = 16384
"""Tokens of the largest image that Qwen's processors make (`max_pixels`)."""


_FRAMES = 2
"""How often such a processor repeats an image, which is a video of one moment to it (`temporal_patch_size`)."""
_GRIDS = {"moonvit": 512}
"""Patches along one side for which a tower keeps complex rotations of every half head."""
_TABLES = "vllm, model_executor/models/moonvit.py, Rope2DPosEmb"


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest image that a processor makes."""

    tiles: int
    side: int
    tokens: int


def largest_image(images: Images, pixels: int | None = None) -> Largest:
    """Tiles, their side in pixels, and tokens of all of them; `pixels`: the most of an image that keeps its size."""
    if images.resizes == "near":
        step = images.merge * images.patch
        along = isqrt(_LARGEST_TOKENS) if pixels is None else max(isqrt(pixels) // step, 1)
        return Largest(1, along * step, along**2)
    side = images.side * (images.most if images.resizes == "to tiles" else 1)
    found = images.sizes(side)
    return Largest(found["nx"] if images.resizes != "to tiles" else images.tiles(side), found["px"], found["nm"])


@dataclass(frozen=True, slots=True)
class Shown:
    """What profiling shows to a tower."""

    images: Images
    largest: Largest
    counted: int | None = None
    """Tokens for which it counts, where these are more than it has: those between a video's frames."""
    most: int | None = None
    """Images that all sequences of a step may have, where their number is limited."""

    def at_once(self, budget: int) -> int:
        """Images or videos that one step may encode."""
        found = max(budget // max(self.counted or self.largest.tokens, 1), 1)
        return found if self.most is None else min(found, self.most)

    def room(self, budget: int) -> int:
        """Rows of each result where it is copied into one of as many rows as all may have."""
        return max(budget, self.counted or self.largest.tokens)


_STAMPED = ("qwen3_vl",)
"""Families, by how they begin, of whose videos vLLM counted 12.5 tokens for each one in 0.11 and 0.12, for the words
between frames (model_executor/models/qwen3_vl.py, get_max_video_tokens): 153,600 of two frames, whose 12,288 are fewer
than the largest image's."""
_STAMPS = 12.5
_FILM = 3, 64
"""Such a video: squares next to each other, and tokens along one side of each."""


def shown(
    model: Model, raw: Mapping[str, object], longest: int, *, stamped: bool = False, pixels: int | None = None
) -> Shown | None:
    """Return the largest image, or the longest video where it has more tokens; None if nothing is known of either.

    `stamped`: whether tokens between a video's frames are estimated by its others; `pixels`: the most of an image.
    """
    if not model.network.towers:
        return None
    if stamped and model.images is not None and model.network.family.startswith(_STAMPED):
        squares, along = _FILM
        tokens = squares * along**2
        film = Largest(squares, along * model.images.merge * model.images.patch, tokens)
        return Shown(model.images, film, int(_STAMPS * tokens))
    if model.images is not None:
        return Shown(model.images, largest_image(model.images, pixels))
    if model.network.family in PICTURES:
        pictured = PICTURES[model.network.family](raw)
        found = largest_image(pictured)
        slices = SLICES.get(model.network.family)
        return Shown(pictured, found if slices is None else replace(found, tiles=slices(raw)))
    if model.network.family not in FAMILIES:
        return None
    images = images_of(raw)
    video = longest_video(images, longest)
    return Shown(images, Largest(video.moments, video.side, video.tokens))


def limited(seen: Shown | None, longest: int, sequences: int, images: int | None) -> Shown | None:
    """Return what is shown, with no more images than all sequences may have (encoder_budget.py, _get_max_items)."""
    if seen is None or images is None:
        return seen
    return replace(seen, most=sequences * max(min(images, longest // max(seen.largest.tokens, 1)), 1))


_ROTATED: Mapping[str, int] = {"qwen3_vl": 1, "qwen2_5_vl": 0, "qwen2_vl": 0, **dict.fromkeys(FAMILIES, 0)}
"""Towers whose attention stacks queries and keys to rotate both at once, and how many copies of the hidden states their
forward pass keeps in addition to the layers': the interpolated positions are one (Qwen3_VisionTransformer.forward)."""
_QWEN = "vllm, model_executor/models/qwen2_5_vl.py, Qwen2_5_VisionAttention.forward"


def kept_images(
    model: Model, dtype: str, budget: int, seen: Shown | None, *, encoded: bool = True, copied: bool = False
) -> list[Entry]:
    """Pixels of the images that profiling encodes and, once they are encoded, the results.

    Inner layers of Qwen3-VL's tower have results, too, not just the last one (`deepstack_visual_indexes`). `copied`:
    each result of fewer tokens than a step may encode is copied into zeros of as many, and a loop's variable keeps the
    last one (vllm 0.11.0 to 0.12, v1/worker/gpu_model_runner.py, profile_run: `expanded_outputs`).
    """
    if seen is None:
        return []
    image, count = seen.largest, seen.at_once(budget)
    sizes = {**model.sizes, "images": count, "nx": image.tiles, "px": image.side, "nm": image.tokens}
    size, frames = BYTES[dtype], _FRAMES if seen.images.resizes == "near" else 1
    tables = [
        tensor(
            Message("{}'s rotary table", tower.variant),
            ACTIVATIONS,
            (side, side, half("dt")),
            8,
            sizes,
            _TABLES,
        )
        for tower in model.network.towers
        for side in (_GRIDS.get(tower.variant, 0),)
        if "dt" in sizes
    ]
    levels = [len(tower.taps) for tower in model.network.towers if tower.variant in _ROTATED]
    copies = max(levels, default=1) - (not encoded and bool(levels))
    rows = seen.room(budget) if copied and encoded else image.tokens
    tokens = tensor(
        "image tokens", ACTIVATIONS, ("images", "nm", "h"), size, {**sizes, "nm": rows}, _SOURCE, copies=copies
    )
    last = tensor("the last image's tokens", ACTIVATIONS, ("nm", "h"), size, sizes, _SOURCE, copies=copies)
    return [
        *tables,
        tensor("pixels", ACTIVATIONS, ("images", "nx", 3, "px", "px"), size, sizes, _SOURCE, copies=frames),
        *([tokens] if copies else []),
        *([last] if rows > image.tokens else []),
    ]


_MASKED = "pixtral"
"""The tower that takes all images of a step as one sequence."""
_MASKS = "vllm, model_executor/models/pixtral.py; transformers, modeling_pixtral.py, generate_block_attention_mask"
_ALIGNED = 8
"""Elements by whose multiple rows of a mask begin (pytorch, transformers/attention.cpp, preprocess_mask)."""


def encoding(
    model: Model, dtype: str, budget: int, ranks: int, seen: Shown | None, *, masks: bool = False
) -> list[Entry]:
    """Return the tower's widest layer, which runs before the language model.

    Ranks share its matrices as they share the language model's (`mm_encoder_tp_mode`: weights). `masks`: whether a
    dense mask keeps images of one sequence apart; xformers needs none.
    """
    if seen is None:
        return []
    pixels = kept_images(model, dtype, budget, seen, encoded=False)
    if _kind(model) in _ROTATED:
        moments = _rotating(model, seen, BYTES[dtype], budget, ranks)
        return [*pixels, *max(moments, key=lambda entries: sum(entry.bytes for entry in entries))]
    fed = _feeding(model, seen, dtype, budget, ranks)
    if not masks or _kind(model) != _MASKED:
        return [*pixels, *fed]
    moments = _masked(model, seen, BYTES[dtype], budget, ranks, fed)
    return [*pixels, *max(moments, key=lambda entries: sum(entry.bytes for entry in entries))]


def _kind(model: Model) -> str:
    """Whose code a tower is: its own family's, or, where its parts were recognized, the model's."""
    variant = model.network.towers[-1].variant
    return model.network.family if variant == "derived" else variant


def _patches(model: Model, seen: Shown, budget: int, ranks: int) -> tuple[Mapping[str, int], Shape]:
    """Sizes, and the shape of all patches of all images."""
    image, count = seen.largest, seen.at_once(budget)
    patches = (image.side // seen.images.patch) ** 2
    return {**model.sizes, "images": count, "nx": image.tiles, "np": patches, "TP": ranks}, ("images", "nx", "np")


def _width(layer: Layer, sizes: Mapping[str, int]) -> Shape:
    """Return the width of the tower's residual stream.

    Raises ConfigError where a tower's attention fits none of its heads.
    """
    width = next((mixer.output.outer for mixer in layer.mixers if isinstance(mixer, Attention)), ("ht",))
    if width == ("ht",) and "ht" not in sizes:
        raise ConfigError.at(
            "model.vision_config", "the tower's attention does not match its heads; check hidden_size and num_heads"
        )
    return width


def _rotating(model: Model, seen: Shown, size: Fraction | int, budget: int, ranks: int) -> Iterator[list[Entry]]:
    """Attention and feed-forward layer of Qwen's towers.

    The layer's input and its norm live as long as both; in the feed-forward layer the sum after attention, too.
    Attention holds the joint queries, keys and values, the stacked queries and keys and the rotated ones until it has
    returned; what ranks have projected is summed into another tensor (distributed/device_communicators/pynccl.py).
    GLM's copies the values out of the joint tensor, and its second norm overwrites the sum (glm4_1v.py, glm_ocr.py).
    """
    sizes, tokens = _patches(model, seen, budget, ranks)
    kept, summed, glm = _ROTATED[_kind(model)], ranks > 1, _kind(model) in FAMILIES
    layer = model.network.towers[-1].runs[0][0]
    width = _width(layer, sizes)

    def hidden(copies: int) -> Entry:
        return tensor("hidden states of the tower", ACTIVATIONS, (*tokens, *width), size, sizes, _QWEN, copies=copies)

    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            own = (*tokens, Quotient((mixer.heads.query, mixer.heads.width), "TP"))
            yield [
                hidden(3 + kept + summed),
                tensor("queries, keys and values of the tower", ACTIVATIONS, own, size, sizes, _QWEN, copies=3 + glm),
                tensor("stacked and rotated queries and keys", ACTIVATIONS, own, size, sizes, _QWEN, copies=4),
                tensor("attention output of the tower", ACTIVATIONS, own, size, sizes, _QWEN),
            ]
    for ffn in layer.ffns:
        if isinstance(ffn, FeedForward):
            wide = (*tokens, Quotient(ffn.down.inner, "TP"))
            title, copies = "feed-forward of the tower", 2 if ffn.gate is None else 3
            yield [hidden(3 + kept - glm), tensor(title, ACTIVATIONS, wide, size, sizes, _SOURCE, copies=copies)]


def _masked(
    model: Model, seen: Shown, size: Fraction | int, budget: int, ranks: int, fed: list[Entry]
) -> Iterator[list[Entry]]:
    """Attention and feed-forward layer of Pixtral's tower, next to the mask of all patches.

    Attention copies the mask where its rows are not aligned; rotated queries and keys are tensors of their own.
    """
    sizes, patches = _patches(model, seen, budget, ranks)
    mask = tensor("mask between images", ACTIVATIONS, (*patches, *patches), size, sizes, _MASKS)
    yield [mask, *fed]
    copies = 1 if product(patches, sizes) % _ALIGNED == 0 else 2
    for mixer in model.network.towers[-1].runs[0][0].mixers:
        if isinstance(mixer, Attention):
            own = (*patches, Quotient((mixer.heads.query, mixer.heads.width), "TP"))
            yield [
                replace(mask, copies=copies),
                fed[0],
                tensor("queries, keys and values of the tower", ACTIVATIONS, own, size, sizes, _MASKS, copies=5),
                tensor("attention output of the tower", ACTIVATIONS, own, size, sizes, _MASKS),
            ]


def _feeding(model: Model, seen: Shown, dtype: str, budget: int, ranks: int) -> list[Entry]:
    """Return the feed-forward layer of other towers, between two residual streams."""
    size = BYTES[dtype]
    sizes, tokens = _patches(model, seen, budget, ranks)
    layer = model.network.towers[-1].runs[0][0]
    hidden = _width(layer, sizes)
    found = [tensor("residual stream of the tower", ACTIVATIONS, (*tokens, *hidden), size, sizes, _SOURCE, copies=2)]
    for ffn in layer.ffns:
        if isinstance(ffn, FeedForward):
            copies = 2 if ffn.gate is None else 3
            found.append(
                tensor(
                    "feed-forward of the tower",
                    ACTIVATIONS,
                    (*tokens, Quotient(ffn.down.inner, "TP")),
                    size,
                    sizes,
                    _SOURCE,
                    copies=copies,
                )
            )
    return found
