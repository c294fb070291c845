"""The options that a Python script gives its own command line."""

from __future__ import annotations

import ast

from memcore.formats.objects import Objects, alive, last

_LONGEST = 2**20
"""Characters of a script that is read."""


def declared(code: str) -> frozenset[str]:
    r"""Return the options by name, of argparse and of the script's own classes that a command line fills.

    >>> sorted(declared("class A:\n    rank: int\n    size: int = 2\np = HfArgumentParser((A, TrainingArguments))"))
    ['rank', 'size']
    >>> sorted(declared("p.add_argument('--lora-r', type=int)"))
    ['lora_r']
    """
    if len(code) > _LONGEST:
        return frozenset()
    objects, found = Objects(), set[str]()
    try:
        tree = ast.parse(code)
        objects.find(tree)
        for node in alive(tree, 0):
            if isinstance(node, ast.ClassDef) and node.name in objects.filled:
                found |= {last(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
            elif isinstance(node, ast.Call) and last(node.func) == "add_argument":
                found |= {each.value.lstrip("-").replace("-", "_") for each in node.args
                          if isinstance(each, ast.Constant) and isinstance(each.value, str)}  # fmt: skip
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(found)


def parses(code: str) -> bool:
    """Return whether a script takes configs of a library from its command line, with or without options of its own."""
    return any(f"{name}(" in code for name in ("HfArgumentParser", "TrlParser", "H4ArgumentParser"))
