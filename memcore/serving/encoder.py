"""What profiling with images needs: pixels, the tower's widest layer, and its results.

Sources: vllm, multimodal/encoder_budget.py (as many of the largest images as a step's tokens allow, and one at least)
and v1/worker/gpu_model_runner.py, profile_run: pixels and results stay until the end of profiling.
"""

from __future__ import annotations

from dataclasses import dataclass

from memcore.memory.ledger import Entry
from memcore.messages import Message
from memcore.networks.images import Images
from memcore.networks.network import Model
from memcore.networks.parts import Attention, FeedForward
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.profile import ACTIVATIONS
from memcore.symbols import Quotient, half

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


def kept_images(model: Model, dtype: str, budget: int) -> list[Entry]:
    """Pixels and results of the images that profiling encodes."""
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
    return [
        *tables,
        tensor("pixels", ACTIVATIONS, ("images", "nx", 3, "px", "px"), size, sizes, _SOURCE, copies=frames),
        tensor("image tokens", ACTIVATIONS, ("images", "nm", "h"), size, sizes, _SOURCE),
    ]


def encoding(model: Model, dtype: str, budget: int, ranks: int) -> list[Entry]:
    """The tower's widest layer, which runs before the language model.

    Ranks share its matrices as they share the language model's (`mm_encoder_tp_mode`: weights).
    """
    if model.images is None or not model.network.towers:
        return []
    image, count = largest_image(model.images), images_at_once(model.images, budget)
    patches = (image.side // model.images.patch) ** 2
    sizes = {**model.sizes, "images": count, "nx": image.tiles, "np": patches, "TP": ranks}
    size, tokens = BYTES[dtype], ("images", "nx", "np")
    layer = model.network.towers[-1].runs[0][0]
    hidden = next((mixer.output.outer for mixer in layer.mixers if isinstance(mixer, Attention)), ("ht",))
    found = [tensor("residual stream of the tower", ACTIVATIONS, (*tokens, *hidden), size, sizes, _SOURCE, copies=2)]
    for feed in layer.feeds:
        if isinstance(feed, FeedForward):
            copies = 2 if feed.gate is None else 3
            found.append(
                tensor(
                    "feed-forward of the tower",
                    ACTIVATIONS,
                    (*tokens, Quotient(feed.down.inner, "TP")),
                    size,
                    sizes,
                    _SOURCE,
                    copies=copies,
                )
            )
    return found
