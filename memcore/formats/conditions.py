"""What conditions and arithmetic of shell scripts give, where their words are known."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

_OPERATIONS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
COMPARISONS: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FLAG = re.compile(r"--?[A-Za-z]")
FLAGS = re.compile(r"(?:^|\s)--[A-Za-z]")
WORD = 80
"""Letters of a word and of a pattern that are compared."""
_DIGITS = 18
"""Of a number that is compared."""


def outcome(condition: list[str]) -> bool | None:
    """Return whether comparisons hold, of words that are known; None for another question.

    >>> [outcome(each.split()) for each in ("[ a = b ] || [ 2 -gt 1 ]", "! -f x", "[[ llama-70b == *70b* ]]")]
    [True, None, True]
    """
    for sign, decides in (("||", True), ("&&", False)):
        if sign in condition:
            at = condition.index(sign)
            found = outcome(condition[:at]), outcome(condition[at + 1 :])
            return decides if decides in found else None if None in found else not decides
    inner = [each for each in condition if each not in ("[", "[[", "]", "]]", "then")]
    if inner[:1] == ["!"]:
        found_otherwise = _compared(inner[1:])
        return None if found_otherwise is None else not found_otherwise
    return _compared(inner)


def _compared(inner: list[str]) -> bool | None:
    if len(inner) == 2 and inner[0] in ("-n", "-z"):
        return bool(inner[1]) == (inner[0] == "-n")
    if len(inner) != 3:
        return None
    first, sign, second = inner
    if sign in ("=", "==", "!="):
        return (
            fnmatchcase(first[:WORD], second[:WORD]) == (sign != "!=")
            if "*" in second
            else ((first == second) == (sign != "!="))
        )
    whole = first.lstrip("-").isdecimal() and second.lstrip("-").isdecimal()
    return _COMPARED[sign](int(first[:_DIGITS]), int(second[:_DIGITS])) if whole and sign in _COMPARED else None


def chosen(text: str) -> str:
    """Return a choice as Python writes it.

    >>> chosen("8 > 2 ? 8 : 2")
    '(8 )if(8 > 2 )else( 2)'
    """
    asked, mark, rest = text.partition("?")
    if not mark or asked.count("(") != asked.count(")"):
        return text
    taken, _, other = rest.partition(":")
    return f"({taken.lstrip()})if({asked})else({chosen(other)})"


def calculated(node: ast.expr) -> int:
    """Return what an expression gives. Raises ValueError for one that gives no integer."""
    if isinstance(node, ast.IfExp):
        return calculated(node.body if calculated(node.test) else node.orelse)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        return int(COMPARISONS[type(node.ops[0])](calculated(node.left), calculated(node.comparators[0])))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        found = _OPERATIONS[type(node.op)](calculated(node.left), calculated(node.right))
        if abs(found) < 2**63:
            return found
    raise ValueError("not an integer")


def either(name: str, values: list[str | None]) -> str:
    """Return one text for a variable's possible values: its name, or for flags all of them, with it where they differ.

    A model's local folder and its repository, of which a script takes the one that exists, count as the repository.

    >>> either("A", ["--tp 2 --bf16", "--tp 4"])
    '--tp $A --bf16'
    """
    texts = [each for each in values if each]
    if len({each.rstrip("/").rpartition("/")[2] for each in texts}) == 1 and len(texts) == len(values):
        return min(texts, key=lambda each: each.count("/"))
    if not any(FLAGS.search(each) for each in texts):
        return f"${name}"
    flags: dict[str, list[str]] = {}
    for text in texts:
        given: dict[str, list[str]] = {}
        flag = ""
        for word in text.split():
            if FLAG.match(word):
                flag = word
                given[flag] = []
            elif flag:
                given[flag].append(word)
        for flag, found in given.items():
            flags[flag] = found if flags.get(flag, found) == found else [f"${name}"]
    return " ".join(word for flag, found in flags.items() for word in (flag, *found))
