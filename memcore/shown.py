"""What every answer can do for whoever holds it in Python or in a notebook.

The words and pictures are those of the faces, which are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """An answer that shows itself."""

    def to_dict(self) -> dict[str, Any]:
        """Return what `memcore estimate --json` prints: plain data; sizes are bytes."""
        found: dict[str, Any] = _face().data_of(self)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the tensors at the peak, the largest first, one flat dict for each: `pandas.DataFrame(found.rows())`.

        `bytes` counts all copies; `formula` is in symbols, `numbers` has their values.
        """
        found: list[dict[str, Any]] = _face().rows_of(self)
        return found

    def __repr__(self) -> str:
        """Return the verdict in a line."""
        return f"<{type(self).__name__}: {_face().line_of(self)}>"

    def _repr_html_(self) -> str:
        """Return verdict, memory bar and timeline as pictures for a notebook, without scripts."""
        return str(_face().html_of(self))


def _face() -> Any:
    return import_module("memcore.faces.notebook")
