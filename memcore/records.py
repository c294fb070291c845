"""Dataclasses that are quick to define: `dataclass`, as the standard library's.

Before Python 3.13, `dataclasses` compiles six methods of a frozen class one by one, which took two fifths of the
time in which a command starts. Here only `__init__` is compiled; the other methods are the same for all classes.
For type checkers and for `fields`, `replace` and `asdict` the classes are those of the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_Method = Callable[..., Any]


def _define(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True,
    repr: bool = True,  # noqa: A002 - the standard library's name
) -> Any:  # fmt: skip
    """Make a class a dataclass; every field is a parameter of it."""
    if cls is None:
        return lambda given: _define(given, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, repr=repr)
    own = set(cls.__dict__)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    fields = dataclasses.fields(made)
    methods: dict[str, _Method | None] = {"__init__": _init(made, fields, frozen=frozen, slots=slots)}
    if repr:
        methods["__repr__"] = _repr
    if eq:
        values = _values(tuple(each.name for each in fields if each.compare))
        methods |= {"__eq__": _eq(values), "__hash__": _hash(values) if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _define


def _init(cls: type, fields: tuple[Field[Any], ...], *, frozen: bool, slots: bool) -> _Method:
    """Compile `__init__`, which stores its arguments as the class stores attributes."""
    names: dict[str, Any] = {"__name__": cls.__module__, "missing": MISSING, "set": object.__setattr__}
    required: list[str] = []
    optional: list[str] = []
    keywords = ["*"]
    lines = []
    for number, each in enumerate(fields):
        value = each.name
        parameter = each.name
        if each.default is not MISSING:
            names[f"default{number}"] = each.default
            parameter += f"=default{number}"
        elif each.default_factory is not MISSING:
            names[f"make{number}"] = each.default_factory
            parameter += "=missing"
            value = f"make{number}() if {value} is missing else {value}"
        (keywords if each.kw_only else optional if "=" in parameter else required).append(parameter)
        if not frozen:
            lines.append(f"self.{each.name} = {value}")
        elif slots:
            names[f"set{number}"] = getattr(cls, each.name).__set__
            lines.append(f"set{number}(self, {value})")
        else:
            lines.append(f"set(self, {each.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *required, *optional, *(keywords if len(keywords) > 1 else ())])
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({parameters}):\n {body}", names)  # noqa: S102 - names of fields, as the standard library does
    made: _Method = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    return made


def _values(names: tuple[str, ...]) -> _Method:
    """Return a function that gives what an instance is compared by."""
    return attrgetter(*names) if names else lambda _: ()


def _eq(values: _Method) -> _Method:
    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(values: _Method) -> _Method:
    def hashed(self: object) -> int:
        return hash(values(self))

    return hashed


def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
