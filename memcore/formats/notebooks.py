"""The cells of Jupyter notebooks."""

from __future__ import annotations

from collections.abc import Iterator


def code_cells(notebook: object) -> Iterator[str]:
    r"""Yield the text of each code cell of a notebook that was read as JSON.

    >>> list(code_cells({"cells": [{"cell_type": "code", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "markdown"}]}))
    ['a = 1\nb = 2']
    """
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", "")
            yield "".join(map(str, source)) if isinstance(source, list) else str(source)
