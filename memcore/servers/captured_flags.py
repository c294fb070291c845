"""What SGLang's command line says of CUDA graphs, under the names that releases have given it.

Sources: sglang, srt/server_args.py of 0.5.6, 0.5.9, 0.5.12 and 0.5.15, srt/arg_groups/cuda_graph_hook.py of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.untrusted import parse_json

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
_CONFIG = "--cuda-graph-config"
"""All of them at once, in JSON or as a mapping; what it says counts first (`parse_cuda_graph_config`)."""
_KEYS = {
    "tc_compiler": "--cuda-graph-tc-compiler", "max_context_size": "--cuda-graph-prefill-max-context",
}  # fmt: skip
"""Keys in it whose flag does not name the phase last."""
FLAGS = (_CONFIG, *_LISTED, *_LISTED_PROMPTS, *_LONGEST, *_PROMPTS, _DECODING)
"""Flags that are read together with others."""


def captured(normalized: dict[str, Any]) -> dict[str, Any]:
    """Return the flags with one name for each thing that they say.

    >>> captured({"--cuda-graph-bs": [1, 2, 8], "--disable-piecewise-cuda-graph": True})
    {'--cuda-graph-max-bs-decode': 8, '*sizes': 3, '--cuda-graph-backend-prefill': 'disabled'}
    >>> captured({"--cuda-graph-config": '{"decode": {"max_bs": 64}, "prefill": {"backend": "disabled"}}'})
    {'--cuda-graph-max-bs-decode': 64, '--cuda-graph-backend-prefill': 'disabled'}
    """
    found = _spread(dict(normalized))
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


def _spread(found: dict[str, Any]) -> dict[str, Any]:
    """Take the flag of all phases apart into the flags of each; what is no mapping of mappings stays, to be refused."""
    given = found.get(_CONFIG)
    try:
        phases = parse_json(given) if isinstance(given, str) else given
    except ValueError:
        return found
    if not isinstance(phases, Mapping) or not all(isinstance(said, Mapping) for said in phases.values()):
        return found
    del found[_CONFIG]
    for phase, said in phases.items():
        for key, value in said.items():
            found[_KEYS.get(key, f"--cuda-graph-{str(key).replace('_', '-')}-{phase}")] = value
    return found


def _sizes(found: dict[str, Any], names: tuple[str, ...]) -> list[int]:
    """Take a list, or one number, out of the flags; what is no number stays, to be refused."""
    for name in names:
        given = found.get(name)
        numbers = [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, int)]
        if numbers:
            del found[name]
            return numbers
    return []
