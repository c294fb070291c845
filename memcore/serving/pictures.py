"""The image with the most tokens that vLLM's profiling shows to towers of which only the weights have rows.

Sources: vllm 0.33, model_executor/models (`get_image_size_with_most_features` and the dummy images of `idefics3`,
`lfm2_vl`, `aya_vision` and `aria`) and transformers 5.23, whose image processors say what a `config.json` does not:
Idefics3 and SmolVLM cut an image into four tiles along a side (`size`, `max_image_size`), Aya Vision into twelve at
most (`max_patches`: three along a side of a square), and each adds the image as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.images import Images

Raw = Mapping[str, object]


def _size(found: object, key: str, usual: int) -> int:
    value = found.get(key) if isinstance(found, Mapping) else None
    return value if type(value) is int and 0 < value < 1 << 16 else usual


def _idefics(raw: Raw) -> Images:
    vision = raw.get("vision_config")
    side, patch = _size(vision, "image_size", 224), _size(vision, "patch_size", 32)
    merge = _size(raw, "scale_factor", 2)
    return Images(side=side, patch=patch, tokens=(side // patch // merge) ** 2, resizes="to tiles", most=4)


def _lfm2(raw: Raw) -> Images:
    """Return an image that is just not cut: as many tokens as one tile has."""
    patch, merge = _size(raw, "encoder_patch_size", 16), _size(raw, "downsample_factor", 2)
    side = int((_size(raw, "max_image_tokens", 256) * (patch * merge) ** 2) ** 0.5)
    return Images(side=side, patch=patch, merge=merge)


def _aya(raw: Raw) -> Images:
    vision = raw.get("vision_config")
    merge = _size(raw, "downsample_factor", 2)
    side, patch = _size(vision, "image_size", 384), _size(vision, "patch_size", 14)
    return Images(side=side, patch=patch, tokens=(side // patch // merge) ** 2, resizes="to tiles", most=3)


def _aria(raw: Raw) -> Images:
    """Of 4,900 patches, 256 queries make as many tokens (`projector_patch_to_query_dict`)."""
    queries = raw.get("projector_patch_to_query_dict")
    counts = queries.values() if isinstance(queries, Mapping) else ()
    tokens = max((each for each in counts if type(each) is int), default=256)
    return Images(side=980, patch=_size(raw.get("vision_config"), "patch_size", 14), tokens=max(tokens, 1))


def _minicpm(raw: Raw) -> Images:
    side, queries = _size(raw, "image_size", 448), _size(raw, "query_num", 64)
    return Images(side=side, patch=_size(raw.get("vision_config"), "patch_size", 14), tokens=queries * _slices(raw))


def _slices(raw: Raw) -> int:
    """Frames of a video, which has more tokens than slices of an image; before 2.6 slices and the image as a whole."""
    return _FRAMES if str(raw.get("version")) in _FILMING else 1 + _size(raw, "max_slice_num", 9)


def _hunyuan(raw: Raw) -> Images:
    """Return an image of 512 by 8,192 pixels, with a token more for each row and two around it (hunyuan_vision.py)."""
    vision = raw.get("vision_config")
    patch, merge = _size(vision, "patch_size", 16), _size(vision, "spatial_merge_size", 2)
    along, down = 512 // patch // merge, 8192 // patch // merge
    return Images(side=2048, patch=patch, merge=merge, tokens=down * (along + 1) + 2)


_FILMING, _FRAMES = frozenset({"2.6", "4.0", "4.5"}), 16
"""Versions of MiniCPM-V that take videos, and frames of one (minicpmv.py, `_MAX_FRAMES_PER_VIDEO`; 0.13 to 0.26)."""

PICTURES: Mapping[str, Callable[[Raw], Images]] = {
    "idefics3": _idefics,
    "smolvlm": _idefics,
    "lfm2_vl": _lfm2,
    "aya_vision": _aya,
    "aria": _aria,
    "minicpmv": _minicpm,
    "hunyuan_vl": _hunyuan,
}
"""By the family of the network."""
SLICES: Mapping[str, Callable[[Raw], int]] = {"minicpmv": _slices}
"""Tiles of the largest image, where they are not counted along a side."""
