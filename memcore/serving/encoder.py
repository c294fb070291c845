"""What profiling with images needs: pixels, the tower's widest layer, and its results.

Sources: vllm, multimodal/encoder_budget.py (as many of the largest images as a step's tokens allow, and one at least)
and v1/worker/gpu_model_runner.py, profile_run: pixels and results stay until the end of profiling. Towers of Qwen's
models run eagerly, so that what a layer's functions name lives until they return (model_executor/models/qwen3_vl.py,
qwen2_5_vl.py; read in 0.19 and 0.27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from memcore.memory.ledger import Entry
from memcore.messages import Message
from memcore.networks.images import Images
from memcore.networks.network import Model
from memcore.networks.parts import Attention, FeedForward
from memcore.records import dataclass
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.profile import ACTIVATIONS
from memcore.symbols import Quotient, Shape, half

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


def largest_image(images: Images) -> Largest:
    """Tiles, their side in pixels, and tokens of all of them."""
    if images.resizes == "near":
        along = int((_LARGEST_TOKENS) ** 0.5) * images.merge * images.patch
        return Largest(1, along, _LARGEST_TOKENS)
    side = images.side * (images.most if images.resizes == "to tiles" else 1)
    found = images.sizes(side)
    return Largest(found["nx"] if images.resizes != "to tiles" else images.tiles(side), found["px"], found["nm"])


def images_at_once(images: Images, budget: int) -> int:
    """Images that one step may encode."""
    return max(budget // max(largest_image(images).tokens, 1), 1)


_ROTATED: Mapping[str, int] = {"qwen3_vl": 1, "qwen2_5_vl": 0}
"""Towers whose attention stacks queries and keys to rotate both at once, and how many copies of the hidden states their
forward pass keeps in addition to the layers': the interpolated positions are one (Qwen3_VisionTransformer.forward)."""
_QWEN = "vllm, model_executor/models/qwen2_5_vl.py, Qwen2_5_VisionAttention.forward"


def kept_images(model: Model, dtype: str, budget: int, *, encoded: bool = True) -> list[Entry]:
    """Pixels of the images that profiling encodes and, once they are encoded, the results.

    Inner layers of Qwen3-VL's tower have results, too, not just the last one (`deepstack_visual_indexes`).
    """
    if model.images is None or not model.network.towers:
        return []
    image, count = largest_image(model.images), images_at_once(model.images, budget)
    sizes = {**model.sizes, "images": count, "nx": image.tiles, "px": image.side, "nm": image.tokens}
    size, frames = BYTES[dtype], _FRAMES if model.images.resizes == "near" else 1
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
    ]
    levels = [len(tower.taps) for tower in model.network.towers if tower.variant in _ROTATED]
    copies = max(levels, default=1) - (not encoded and bool(levels))
    tokens = tensor("image tokens", ACTIVATIONS, ("images", "nm", "h"), size, sizes, _SOURCE, copies=copies)
    return [
        *tables,
        tensor("pixels", ACTIVATIONS, ("images", "nx", 3, "px", "px"), size, sizes, _SOURCE, copies=frames),
        *([tokens] if copies else []),
    ]


def encoding(model: Model, dtype: str, budget: int, ranks: int) -> list[Entry]:
    """The tower's widest layer, which runs before the language model.

    Ranks share its matrices as they share the language model's (`mm_encoder_tp_mode`: weights).
    """
    if model.images is None or not model.network.towers:
        return []
    pixels = kept_images(model, dtype, budget, encoded=False)
    if model.network.towers[-1].variant in _ROTATED:
        moments = _rotating(model, model.images, BYTES[dtype], budget, ranks)
        return [*pixels, *max(moments, key=lambda entries: sum(entry.bytes for entry in entries))]
    return [*pixels, *_feeding(model, model.images, dtype, budget, ranks)]


def _patches(model: Model, images: Images, budget: int, ranks: int) -> tuple[Mapping[str, int], Shape]:
    """Sizes, and the shape of all patches of all images."""
    image, count = largest_image(images), images_at_once(images, budget)
    patches = (image.side // images.patch) ** 2
    return {**model.sizes, "images": count, "nx": image.tiles, "np": patches, "TP": ranks}, ("images", "nx", "np")


def _rotating(model: Model, images: Images, size: Fraction | int, budget: int, ranks: int) -> Iterator[list[Entry]]:
    """Attention and feed-forward layer of Qwen's towers.

    The layer's input and its norm live as long as both; in the feed-forward layer the sum after attention, too.
    Attention holds the joint queries, keys and values, the stacked queries and keys and the rotated ones until it has
    returned; what ranks have projected is summed into another tensor (distributed/device_communicators/pynccl.py).
    """
    tower = model.network.towers[-1]
    sizes, tokens = _patches(model, images, budget, ranks)
    kept, summed = _ROTATED[tower.variant], ranks > 1
    layer = tower.runs[0][0]

    def hidden(copies: int) -> Entry:
        return tensor("hidden states of the tower", ACTIVATIONS, (*tokens, "ht"), size, sizes, _QWEN, copies=copies)

    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            own = (*tokens, Quotient((mixer.heads.query, mixer.heads.width), "TP"))
            yield [
                hidden(3 + kept + summed),
                tensor("queries, keys and values of the tower", ACTIVATIONS, own, size, sizes, _QWEN, copies=3),
                tensor("stacked and rotated queries and keys", ACTIVATIONS, own, size, sizes, _QWEN, copies=4),
                tensor("attention output of the tower", ACTIVATIONS, own, size, sizes, _QWEN),
            ]
    for ffn in layer.ffns:
        if isinstance(ffn, FeedForward):
            wide = (*tokens, Quotient(ffn.down.inner, "TP"))
            title, copies = "feed-forward of the tower", 2 if ffn.gate is None else 3
            yield [hidden(3 + kept), tensor(title, ACTIVATIONS, wide, size, sizes, _SOURCE, copies=copies)]


def _feeding(model: Model, images: Images, dtype: str, budget: int, ranks: int) -> list[Entry]:
    """The feed-forward layer of other towers, between two residual streams."""
    size = BYTES[dtype]
    sizes, tokens = _patches(model, images, budget, ranks)
    layer = model.network.towers[-1].runs[0][0]
    hidden = next((mixer.output.outer for mixer in layer.mixers if isinstance(mixer, Attention)), ("ht",))
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
