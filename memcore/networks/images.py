"""What an image becomes: tiles and patches for the tower, tokens for the decoder.

Sources: the image processors and processors of transformers 5.23 (`models/*/image_processing_*.py`, `processing_*.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.records import dataclass


def _whole_and_tiles(tiles: int) -> int:
    """Several tiles are preceded by the whole image as one more."""
    return tiles * tiles + (tiles > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """How a model's processor cuts images, and how its projector merges patches."""

    side: int
    """Pixels along one side of an image, or of a tile of it."""
    patch: int
    merge: int = 1
    """Patches along one side of a token."""
    tokens: int | None = None
    """Tokens of an image, where their number is fixed."""
    extra: int = 0
    """Tokens besides those of patches, such as one for the class."""
    resizes: str = "always"
    """`always`: every image becomes one of this side; `to tiles`: or several of them; `near`, `up`: sides are only
    rounded to whole tokens."""
    default: int | None = None
    """Pixels along one side of an image, where the job does not say and `side` does not either."""
    most: int = 1
    """Tiles along one side, at most; with `up`, `side` is the largest."""
    window: int = 0
    """Patches along one side of an attention window; 0: there are none."""

    @property
    def usual(self) -> int:
        """Pixels along one side of an image, where the job does not say."""
        return self.default or self.side

    @property
    def allowed(self) -> tuple[int, int | None]:
        """Return the least and the largest side that a job may ask for."""
        if self.resizes == "always":
            return self.side, self.side
        return (1, self.side if self.resizes == "up" else None)

    def sizes(self, side: int) -> Mapping[str, int]:
        """Values of the symbols that depend on an image's side."""
        tiles = self.tiles(side) if self.resizes == "to tiles" else 1
        step = self.patch * self.merge
        rounded = _ROUNDING.get(self.resizes)
        side = self.side if rounded is None else max(rounded(side / step), 1) * step
        grid = side // self.patch
        tokens = self.tokens if self.tokens is not None else (grid // self.merge) ** 2 + self.extra
        return {"nx": tiles, "px": side, "gp": grid, "np": grid * grid, "nm": tiles * tokens, **self._windows(grid)}

    def tiles(self, side: int) -> int:
        """Tiles of an image, the whole image as one more included."""
        along = min(-(-side // self.side), self.most)
        return _whole_and_tiles(along)

    def _windows(self, grid: int) -> Mapping[str, int]:
        """Whole windows, those cut at an edge and those cut at the corner: how many, and their patches."""
        if not self.window:
            return {}
        whole, rest = divmod(grid, self.window)
        return {
            "nw": whole * whole,
            "ne": 2 * whole if rest else 0,
            "pw": self.window * self.window,
            "pe": self.window * rest,
            "pc": rest * rest,
        }


_ROUNDING: Mapping[str, Callable[[float], int]] = {"near": round, "up": lambda tokens: -int(-tokens // 1)}
