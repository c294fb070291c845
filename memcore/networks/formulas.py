"""Formulas of a configuration's keys, as `memcore/data/derived.json` holds them: a small part of Python's expressions.

>>> evaluate("hidden_size // heads * 2 if fused else 3", {"hidden_size": 8, "heads": 2, "fused": True})
8
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import ceil, isfinite
from typing import Any, TypeAlias

Values: TypeAlias = Mapping[str, Any]
Formula: TypeAlias = Callable[[Values], Any]


def _in(one: Any, other: Any) -> bool:
    """Older files write a list of words as one: `c2p|p2c` (transformers, DebertaConfig)."""
    return one in other.split("|") if isinstance(other, str) else isinstance(other, (list, tuple)) and one in other


_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda one, other: one ** min(other, 64),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: lambda one, other: None not in (one, other) and one < other,
    ast.Gt: lambda one, other: None not in (one, other) and one > other,
    ast.LtE: lambda one, other: None not in (one, other) and one <= other,
    ast.GtE: lambda one, other: None not in (one, other) and one >= other,
    ast.In: _in,
    ast.Is: operator.is_,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "int": lambda value: int(value) if isfinite(value) else 0,
    "index": lambda values, value: values.index(value) if value in values else -1,
    "len": len,
    "sum": sum,
    "ceil": lambda value: ceil(value) if isfinite(value) else 0,
    "round": lambda value: round(value) if isfinite(value) else 0,
    "min": min,
    "max": max,
}


def evaluate(text: str, values: Values) -> Any:
    """Return the value of a formula; a name without a value is None.

    Raises TypeError, ValueError or ZeroDivisionError where the values do not allow it.
    """
    return formula(text)(values)


@lru_cache(maxsize=16384)
def formula(text: str) -> Formula:
    """Return a formula, ready to be evaluated."""
    return _formula(ast.parse(text, mode="eval").body)


@lru_cache(maxsize=16384)
def names(text: str) -> frozenset[str]:
    """Return the keys that a formula reads."""
    return frozenset(_names(ast.parse(text, mode="eval").body))


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        return [ast.unparse(node)]
    if isinstance(node, ast.Call):
        return [name for each in node.args for name in _names(each)]
    return [name for each in ast.iter_child_nodes(node) for name in _names(each)]


def _formula(node: ast.AST) -> Formula:
    """Return the function that a node of the expression stands for."""
    if isinstance(node, ast.Constant):
        constant = node.value
        return lambda values: constant
    if isinstance(node, ast.Name | ast.Attribute):
        name = ast.unparse(node)
        return lambda values: values.get(name)
    if isinstance(node, ast.BinOp):
        return _binary(_BINARY[type(node.op)], node.left, node.right)
    if isinstance(node, ast.Compare):
        return _binary(_BINARY[type(node.ops[0])], node.left, node.comparators[0])
    return _special(node)


def _binary(function: Callable[[Any, Any], Any], left: ast.AST, right: ast.AST) -> Formula:
    one, other = _formula(left), _formula(right)
    return lambda values: function(one(values), other(values))


def _special(node: ast.AST) -> Formula:
    if isinstance(node, ast.BoolOp):
        first, *rest = map(_formula, node.values)
        stops = isinstance(node.op, ast.Or)
        for each in rest:
            first = _joined(first, each, stops)
        return first
    if isinstance(node, ast.UnaryOp):
        inner = _formula(node.operand)
        return (lambda values: not inner(values)) if isinstance(node.op, ast.Not) else lambda values: -inner(values)
    if isinstance(node, ast.IfExp):
        test, yes, no = _formula(node.test), _formula(node.body), _formula(node.orelse)
        return lambda values: yes(values) if test(values) else no(values)
    if isinstance(node, ast.Subscript):
        return _binary(_item, node.value, node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function, arguments = _CALLS[node.func.id], [_formula(each) for each in node.args]
        return lambda values: function(*(each(values) for each in arguments))
    raise ValueError(ast.dump(node))


def _joined(one: Formula, other: Formula, stops: bool) -> Formula:
    def found(values: Values) -> Any:
        value = one(values)
        return value if bool(value) is stops else other(values)

    return found


def _item(values: Any, place: Any) -> Any:
    """Return an element of a list; None beyond its end, or where there is no list."""
    if not isinstance(values, (list, tuple)) or not isinstance(place, int) or not -1 <= place < len(values):
        return None
    return values[place] if values else None
