"""Classes of `memcore.records` behave as those of the standard library's dataclasses."""

import dataclasses
import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from memcore import records

WAYS = (
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {},
    {"frozen": True, "eq": False, "repr": False},
)


def classes(dataclass, ways):
    """A class and one that inherits from it."""

    @dataclass(**ways)
    class Base:
        name: str
        shape: tuple[int, ...] = (1, 2)

    @dataclass(**ways)
    class Derived(Base):
        notes: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=3, repr=False)
        last: int = field(default=4, kw_only=True)

    return Base, Derived


def told(make):
    """What a call gives, or the error it raises."""
    try:
        return make()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_as_the_standard_library(ways):
    ours, theirs = classes(records.dataclass, ways), classes(dataclasses.dataclass, ways)
    for mine, its in zip(ours, theirs, strict=True):
        assert [each.name for each in fields(mine)] == [each.name for each in fields(its)]
        assert mine.__match_args__ == its.__match_args__
        for call in (
            lambda cls: repr(cls("a")) if ways.get("repr", True) else "",
            lambda cls: cls(),
            lambda cls: cls("a", (3,), unknown=1),
            lambda cls: cls("a") == cls("a", (1, 2)),
            lambda cls: cls("a") == cls("b"),
            lambda cls: cls("a") == 1,
            lambda cls: hash(cls("a")) == hash(cls("a")),
            lambda cls: replace(cls("a"), name="b").name,
            lambda cls: dataclasses.asdict(cls("a")),
            lambda cls: deepcopy(cls("a")).shape,
            lambda cls: setattr(cls("a"), "name", "b"),
            lambda cls: delattr(cls("a"), "name"),
            lambda cls: "name" in vars(cls("a")),
        ):
            assert told(lambda cls=mine, call=call: call(cls)) == told(lambda cls=its, call=call: call(cls))
    assert ours[1]("a").notes is not ours[1]("a").notes
    assert ours[1]("a") != ours[0]("a")


@records.dataclass(frozen=True, slots=True)
class Kept:
    """A class that other processes are sent."""

    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("negative")


def test_instances_travel_and_stay_as_they_are():
    kept = Kept(3)
    assert pickle.loads(pickle.dumps(kept)) == kept  # noqa: S301 - our own bytes
    with pytest.raises(FrozenInstanceError):
        kept.number = 4
    with pytest.raises(ValueError, match="negative"):
        Kept(-1)
