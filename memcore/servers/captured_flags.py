"""What SGLang's command line says of CUDA graphs, under the names that releases have given it.

Sources: sglang, srt/server_args.py of 0.5.6, 0.5.9, 0.5.12 and 0.5.15, srt/arg_groups/cuda_graph_hook.py of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIZES, DECODING = "*sizes", "--disable-decode-cuda-graph"
PROMPTS, LONGEST = "--cuda-graph-backend-prefill", "--cuda-graph-max-bs-prefill"
"""The names of 0.5.15 for what all releases' flags come to: whether prompts are captured, and how long ones."""
KINDS = {True: "breakable", False: "disabled"}
LARGEST = ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs")
_LISTED = ("--cuda-graph-bs-decode", "--cuda-graph-bs")
_LISTED_PROMPTS = ("--cuda-graph-bs-prefill", "--piecewise-cuda-graph-tokens")
_LONGEST = (LONGEST, "--piecewise-cuda-graph-max-tokens")
_PROMPTS: Mapping[str, bool] = {
    "--disable-prefill-cuda-graph": False, "--disable-piecewise-cuda-graph": False,
    "--enable-piecewise-cuda-graph": True, "--enforce-piecewise-cuda-graph": True,
}  # fmt: skip
_DECODING = "--cuda-graph-backend-decode"
FLAGS = (*_LISTED, *_LISTED_PROMPTS, *_LONGEST, *_PROMPTS, _DECODING)
"""Flags that are read together with others."""


def captured(normalized: dict[str, Any]) -> dict[str, Any]:
    """Return the flags with one name for each thing that they say.

    >>> captured({"--cuda-graph-bs": [1, 2, 8], "--disable-piecewise-cuda-graph": True})
    {'--cuda-graph-max-bs-decode': 8, '*sizes': 3, '--cuda-graph-backend-prefill': 'disabled'}
    """
    found = dict(normalized)
    prompts, decoding = found.pop(PROMPTS, None), found.pop(_DECODING, None)
    sizes = _sizes(found, _LISTED)
    if sizes:
        found |= {LARGEST[0]: max(sizes), SIZES: len(sizes)}
    for name, captures in _PROMPTS.items():
        if found.pop(name, False) is True:
            found[PROMPTS] = KINDS[captures]
    if prompts is not None:
        found[PROMPTS] = KINDS[prompts != KINDS[False]]
    if decoding == KINDS[False]:
        found[DECODING] = True
    lengths = _sizes(found, _LISTED_PROMPTS) or _sizes(found, _LONGEST)
    return {**found, LONGEST: max(lengths)} if lengths else found


def _sizes(found: dict[str, Any], names: tuple[str, ...]) -> list[int]:
    """Take a list, or one number, out of the flags; what is no number stays, to be refused."""
    for name in names:
        given = found.get(name)
        numbers = [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, int)]
        if numbers:
            del found[name]
            return numbers
    return []
