"""The longest video that profiling shows to a tower whose processor counts frames.

Sources: vllm, model_executor/models/glm4_1v.py (Glm4vProcessingInfo: sides are those of a square that is as large as
sixteen frames may be; as many frames as the longest sequence has room for) and transformers 5.23,
models/glm4v/image_processing_glm4v.py, smart_resize. One video of 8,192 tokens' room is four frames of 1,708 pixels a
side, 7,442 tokens: a start of GLM-OCR in 0.17.1 profiles one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from memcore.networks.images import Images
from memcore.records import dataclass

FAMILIES = frozenset({"glm4v", "glm4v_moe", "glm_ocr"})
"""Whose processor it is."""
_MOST = 28 * 28 * 2 * 30000
"""Pixels of all frames of a video (`max_image_pixels`)."""
_SQUARE, _FRAMES = 9_999_999, 16
"""A square that is made smaller, and frames of it."""
_LONGEST = 600
"""Frames of a video (`_MAX_FRAMES_PER_VIDEO`)."""
_PAIR = 2
"""Frames that make one moment (`temporal_patch_size`)."""


@dataclass(frozen=True, slots=True)
class Video:
    """Moments of a video, of two frames each, their side in pixels, and tokens of all of them."""

    moments: int
    side: int
    tokens: int


def images_of(raw: Mapping[str, object]) -> Images:
    """How such a model cuts frames into patches."""
    vision = raw.get("vision_config")
    found = vision if isinstance(vision, Mapping) else {}
    patch, merge = (
        each if isinstance(each := found.get(key), int) and each > 0 else usual
        for key, usual in (("patch_size", 14), ("spatial_merge_size", 2))
    )
    return Images(side=_resized(_FRAMES, _SQUARE, patch * merge), patch=patch, merge=merge, resizes="near")


def longest_video(images: Images, longest: int) -> Video:
    """As long as the longest sequence allows.

    >>> longest_video(images_of({}), 8192), longest_video(images_of({}), 131072)
    (Video(moments=2, side=1708, tokens=7442), Video(moments=300, side=280, tokens=30000))
    """
    found = _video(images, _PAIR)
    for frames in range(_PAIR + 1, _LONGEST + 1):
        more = _video(images, frames)
        if more.tokens > longest:
            break
        found = more
    return found


def _video(images: Images, frames: int) -> Video:
    side = _resized(frames, images.side, images.patch * images.merge)
    moments = -(-frames // _PAIR)
    return Video(moments, side, moments * (side // (images.patch * images.merge)) ** 2)


def _resized(frames: int, side: int, factor: int) -> int:
    """Pixels along one side, in whole tokens."""
    rounded = round(side / factor) * factor
    if round(frames / _PAIR) * _PAIR * rounded * rounded <= _MOST:
        return rounded
    return max(int(side / sqrt(frames * side * side / _MOST) / factor), 1) * factor
