"""Numbers that know how they came about: the formula of every tensor's axis, as the code itself computes it.

Keys of a configuration are replaced by integers and floats that carry their name. What transformers computes of them
carries a formula, and a tensor that is made remembers the formulas of its axes.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedConfig

AXES = "_formulas"
"""The attribute of a tensor that holds the formulas of its axes."""


def text_of(value: Any) -> str:
    """The formula of a number."""
    return value.text if isinstance(value, (Integer, Float)) else repr(value)


def _inside(value: Any) -> str:
    found = text_of(value)
    return f"({found})" if " " in found and not (found.startswith("(") and found.endswith(")")) else found


def _number(value: Any, text: str) -> Any:
    """A number with a formula; other values as they are."""
    if type(value) is int:
        return Integer(value, text)
    return Float(value, text) if type(value) is float else value


def _plain(value: Any) -> Any:
    if isinstance(value, Integer):
        return builtins.int(value)
    return float(value) if isinstance(value, Float) else value


def _operation(function: Callable[..., Any], sign: str, *, turned: bool = False) -> Callable[[Any, Any], Any]:
    def found(self: Any, other: Any, *_: Any) -> Any:
        if not isinstance(other, (builtins.int, float)):
            return NotImplemented
        one, two = (other, self) if turned else (self, other)
        if not turned and sign in ("*", "//") and type(other) is builtins.int and other == 1:
            return self
        return _number(function(_plain(one), _plain(two)), f"({_inside(one)} {sign} {_inside(two)})")

    return found


class _Traced:
    """What integers and floats with formulas have in common."""

    text: str

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return _number(-_plain(self), f"(-{_inside(self)})")


for _name, _sign in (
    ("add", "+"),
    ("sub", "-"),
    ("mul", "*"),
    ("floordiv", "//"),
    ("mod", "%"),
    ("truediv", "/"),
    ("pow", "**"),
):
    _function = getattr(operator, _name)
    setattr(_Traced, f"__{_name}__", _operation(_function, _sign))
    setattr(_Traced, f"__r{_name}__", _operation(_function, _sign, turned=True))


class Integer(_Traced, int):
    """An integer with its formula."""

    def __new__(cls, value: int, text: str) -> Integer:  # noqa: PYI034 - Self needs 3.11
        """An integer that carries a text."""
        found = super().__new__(cls, value)
        found.text = text
        return found


class Float(_Traced, float):
    """A float with its formula."""

    def __new__(cls, value: float, text: str) -> Float:  # noqa: PYI034 - Self needs 3.11
        """A float that carries a text."""
        found = super().__new__(cls, value)
        found.text = text
        return found


class _Kind(type):
    """Instances of `int` are those of the built-in one."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, builtins.int)


class _Int(metaclass=_Kind):
    """`int` within a module that is traced."""

    def __new__(cls, value: Any = 0, *more: Any) -> Any:
        """The integer, with a formula if the number has one."""
        if isinstance(value, Integer):
            return value
        found = builtins.int(value, *more)
        return Integer(found, f"int({value.text})") if isinstance(value, Float) else found


def _call(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def found(*values: Any, **more: Any) -> Any:
        result = function(*map(_plain, values), **more) if values and not more else function(*values, **more)
        known = any(isinstance(each, _Traced) for each in values)
        return _number(result, f"{name}({', '.join(map(text_of, values))})") if known else result

    return found


_MATH = SimpleNamespace(
    **{
        **vars(math),
        "ceil": _call(math.ceil, "ceil"),
        "floor": _call(math.floor, "int"),
        "sqrt": lambda value: Float(math.sqrt(value), f"{_inside(value)} ** 0.5"),
    }
)
_SHADOWS = {"int": _Int, "max": _call(max, "max"), "min": _call(min, "min"), "round": _call(round, "round")}


@contextlib.contextmanager
def shadowed(*modules: str) -> Iterator[None]:
    """Built-in functions within these modules keep formulas."""
    before = []
    for name in set(modules):
        own = vars(sys.modules[name])
        shadows = {**_SHADOWS, **({"math": _MATH} if own.get("math") is math else {})}
        before.append((own, {each: own[each] for each in shadows if each in own}, shadows))
        own.update(shadows)
    try:
        yield
    finally:
        for own, kept, shadows in before:
            for each in shadows:
                del own[each]
            own.update(kept)


def named(config: Any, path: str = "") -> None:
    """Replace the numbers of a configuration by those that carry their key."""
    values = config if isinstance(config, dict) else vars(config)
    for key, value in list(values.items()):
        if isinstance(value, (PreTrainedConfig, dict)):
            named(value, f"{path}{key}.")
        elif isinstance(key, str) and key.isidentifier() and not key.startswith("_"):
            values[key] = with_name(value, f"{path}{key}")


def with_name(value: Any, name: str) -> Any:
    """A value of a key, its numbers with the key as their formula."""
    if isinstance(value, (list, tuple)):
        return type(value)(with_name(each, f"{name}[{place}]") for place, each in enumerate(value))
    return _number(_plain(value), name)


class Recording(TorchFunctionMode):
    """Tensors remember the formulas of their axes."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make the tensor; note the formulas of its size."""
        sizes = _sizes(args, kwargs or {})
        found = function(*_exact(args), **{key: _exact(value) for key, value in (kwargs or {}).items()})
        if isinstance(found, torch.Tensor):
            if sizes is not None and tuple(map(_plain, sizes)) == tuple(found.shape):
                setattr(found, AXES, tuple(map(text_of, sizes)))
            elif not hasattr(found, AXES):
                _inherit(found, args)
        return found


def _sizes(args: Any, kwargs: Any) -> tuple[Any, ...] | None:
    """The size that a function is given."""
    sizes = kwargs.get("size", args)
    if len(sizes) and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    if not all(isinstance(each, builtins.int) for each in sizes) or not sizes:
        return None
    return tuple(sizes)


def _exact(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_exact(each) for each in value)
    return _plain(value)


def _inherit(found: torch.Tensor, args: Any) -> None:
    """A tensor of the same size as one that it is computed from."""
    for each in args:
        if isinstance(each, torch.Tensor) and hasattr(each, AXES) and each.shape == found.shape:
            setattr(found, AXES, getattr(each, AXES))
            return


@contextlib.contextmanager
def parameters() -> Iterator[None]:
    """Parameters have the formulas of the tensors that they are made of."""
    before = nn.Parameter.__new__

    def make(cls: Any, data: Any = None, *more: Any, **others: Any) -> Any:
        found = before(cls, data, *more, **others)
        if hasattr(data, AXES):
            setattr(found, AXES, getattr(data, AXES))
        return found

    nn.Parameter.__new__ = make  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.Parameter.__new__ = before  # type: ignore[method-assign]
