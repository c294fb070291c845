"""Kinds of settings: what values they take, and how those are written as text, in JSON and in forms.

`check` takes a value from JSON, `parse` takes text (a command line, a form, a URL); both raise ValueError saying what
is allowed. `spell` is the inverse of `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, Self, TypeVar

from memcore import limits
from memcore.config.deflated import DEFLATED, deflated, inflated
from memcore.errors import meaning, nearest
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.units import SIZE, GiB, approximate, parse_bytes, parse_count, shown
from memcore.untrusted import with_limits

JsonSchema = dict[str, object]
KindT_co = TypeVar("KindT_co", covariant=True)


class Choices(ValueError):
    """Not one of the allowed words; `suggestion` is the nearest of them."""

    def __init__(self, found: object, allowed: tuple[str, ...]) -> None:
        super().__init__(Message("found {}; allowed: {}", shown(found), joined(", ", allowed)))
        self.suggestion = nearest(found, allowed) if isinstance(found, str) else None


class Unlisted(Choices):
    """Not in a catalog."""

    def __init__(
        self, found: object, catalog: str, known: Iterable[str], meant: Sequence[str] = (), otherwise: str = ""
    ) -> None:
        names = tuple(known)
        several = Message("; it may be {}", joined(", ", meant[:6])) if len(meant) > 1 else otherwise
        ValueError.__init__(
            self,
            Message("found {}, which is not one of {} known {}{}", shown(found), len(names), catalog, several),
        )
        self.suggestion = nearest(found, names) if isinstance(found, str) else None


class Kind(Protocol[KindT_co]):
    """What a setting's values are."""

    def check(self, value: object) -> KindT_co:
        """Return the value, if it is allowed."""

    def parse(self, text: str) -> KindT_co:
        """Return the value that a text stands for."""

    def spell(self, value: object) -> str:
        """Return a value as text."""

    def schema(self) -> JsonSchema:
        """Return its JSON Schema."""


class Plain:
    """A kind whose values are written as they are."""

    __slots__ = ()

    def spell(self, value: object) -> str:
        return str(value)


def _whole(value: object) -> object:
    """Return a number without a fraction as an integer, as JSON Schema has it, and as files write it: 5e8."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Integer(Plain):
    """A whole number; as text also `8k`, `1.5e9` or `7B`, and of bytes `20GiB`."""

    minimum: int = 1
    maximum: int = 0
    """By default the limit of its unit."""
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.maximum:
            object.__setattr__(self, "maximum", limits.BY_UNIT.get(self.unit, limits.INTEGER))

    def check(self, value: object) -> int:
        value = _whole(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(Message("expected a whole number, found {}", shown(value)))
        if value < self.minimum:
            raise ValueError(
                Message("expected a whole number of at least {}, found {}", self.minimum, approximate(value))
            )
        if value > self.maximum:
            raise ValueError(
                Message("expected a whole number of at most {}, found {}", self.maximum, approximate(value))
            )
        return value

    def parse(self, text: str) -> int:
        sized = self.unit == "bytes" and text.strip()[-2:].lower() in {"ib", "kb", "mb", "gb", "tb"}
        return self.check(parse_bytes(text) if sized else parse_count(text))

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Number(Plain):
    """A number within bounds; of GiB also a text with a unit, `80GiB` or `80 GB`, and of parts of one `90%`."""

    minimum: float = 0.0
    maximum: float = 1e6
    unit: str = ""

    def check(self, value: object) -> float:
        if self.unit == "GiB" and isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(Message("expected {}, found {}", self._expected, shown(value)))
        if not self.minimum <= value <= self.maximum:
            raise ValueError(
                Message("expected a number from {:g} to {:g}, found {}", self.minimum, self.maximum, shown(value))
            )
        return value

    def parse(self, text: str) -> float:
        given = text.strip()
        try:
            if self.unit == "GiB" and given[-1:].lower() == "b":
                number = parse_bytes(given) / GiB
            elif self.maximum == 1 and given.endswith("%"):
                number = float(given[:-1]) / 100
            else:
                number = float(given)
        except (ValueError, OverflowError):
            raise ValueError(Message("expected {}, found {!r:.80}", self._expected, text)) from None
        return self.check(int(number) if number.is_integer() else number)

    def schema(self) -> JsonSchema:
        number: JsonSchema = {"type": "number", "minimum": self.minimum, "maximum": self.maximum}
        if self.unit != "GiB":
            return number
        return {"anyOf": [number, {"type": "string", "pattern": SIZE}]}

    @property
    def _expected(self) -> str:
        return "a number, or a size such as 80GiB" if self.unit == "GiB" else "a number"


SWITCHED: Mapping[str, bool] = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
"""What people write for true and false."""


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    absent = "false"
    """What a missing one means, where its setting says nothing else."""

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(Message("expected true or false, found {}", shown(value)))
        return value

    def parse(self, text: str) -> bool:
        if text.lower() not in SWITCHED:
            raise Choices(text, ("true", "false"))
        return SWITCHED[text.lower()]

    def spell(self, value: object) -> str:
        return "true" if value else "false"

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


class Taken(str):
    """A value that was not given as such: another word, an ambiguous name or another setting stands for it.

    >>> Taken("llama.cpp", "Ollama runs it", brings={"engine.fork": "ollama"}).brings
    {'engine.fork': 'ollama'}
    """

    __slots__ = ("brings", "is_implied", "others", "reason")

    def __new__(
        cls,
        value: str,
        reason: str = "",
        *,
        brings: Mapping[str, str] | None = None,
        others: Sequence[str] = (),
        is_implied: bool = False,
    ) -> Self:
        """Build a value with why it is taken.

        Args:
            value: The value.
            reason: Why it is taken, as the user is told.
            brings: Further settings that the given word stands for, by path.
            others: Other values that the given name may mean.
            is_implied: Whether nothing was given and another setting decides, which decides again if it changes.
        """
        found = super().__new__(cls, value)
        found.reason, found.brings, found.others, found.is_implied = reason, brings or {}, others, is_implied
        return found

    reason: str
    brings: Mapping[str, str]
    others: Sequence[str]
    is_implied: bool


@dataclass(frozen=True, slots=True)
class Choice(Plain):
    """One of several words."""

    options: tuple[str, ...]
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What each option means, for forms and the reference."""
    planned: tuple[str, ...] = ()
    """Words that are known but name nothing that is supported yet."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Words that are known, and why they stand for nothing."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Other words for an option, which may say more (`Taken`)."""

    def check(self, value: object) -> str:
        if isinstance(value, str):
            value = self.also.get(value, value)
        if isinstance(value, str) and value in self.impossible:
            raise ValueError(Message("found {!r}, which {}", value, self.impossible[value]))
        if value in self.planned:
            raise ValueError(Message("{!r} is not supported yet; allowed: {}", value, joined(", ", self.options)))
        if value not in self.options:
            raise Choices(value, self.options)
        return value

    def parse(self, text: str) -> str:
        """In any case of letters, as people type."""
        given = text.strip()
        return self.check(next((each for each in self.options if each.lower() == given.lower()), given.lower()))

    def schema(self) -> JsonSchema:
        return {"enum": [*self.options, *self.also]}


@dataclass(frozen=True, slots=True)
class Counted(Plain):
    """One of several words, or a prefix with a count, such as `chunked:8`."""

    options: tuple[str, ...]
    prefix: str
    meanings: Mapping[str, str] = field(default_factory=dict)

    def check(self, value: object) -> str:
        if value in self.options:
            return value
        allowed = (*self.options, f"{self.prefix}:N")
        if not isinstance(value, str):
            raise Choices(value, allowed)
        head, colon, count = value.partition(":")
        if head != self.prefix or not colon or not _COUNTED.fullmatch(count):
            raise Choices(value, allowed)
        return value

    def parse(self, text: str) -> str:
        return self.check(text.strip().lower())

    def schema(self) -> JsonSchema:
        return {
            "anyOf": [
                {"enum": list(self.options)},
                {"type": "string", "pattern": f"^{self.prefix}:(?:{_COUNTED.pattern})$"},
            ]
        }


_COUNTED = re.compile("[1-9][0-9]{0,2}|10[01][0-9]|102[0-4]")
"""From 1 to 1024."""


@dataclass(frozen=True, slots=True)
class FlagOrCount:
    """true, false, or a number of at least two."""

    def check(self, value: object) -> bool | int:
        value = _whole(value)
        if isinstance(value, bool):
            return value
        if not isinstance(value, int) or value < 2:
            raise ValueError(Message("expected true, false or a number of at least 2, found {}", shown(value)))
        if value > limits.GPUS:
            raise ValueError(Message("expected a number of at most {}, found {}", limits.GPUS, approximate(value)))
        return value

    def parse(self, text: str) -> bool | int:
        counted = text.isdecimal() and text not in SWITCHED
        return self.check(parse_count(text)) if counted else Flag().parse(text)

    def spell(self, value: object) -> str:
        return Flag().spell(value) if isinstance(value, bool) else str(value)

    def schema(self) -> JsonSchema:
        return {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 2, "maximum": limits.GPUS}]}


@dataclass(frozen=True, slots=True)
class Version(Plain):
    """A release, such as 0.19.0, or a whole number; as a number it is kept as one."""

    def check(self, value: object) -> int | str:
        value = _whole(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return Integer(0).check(value)
        if isinstance(value, str) and _RELEASE.fullmatch(value):
            return int(value) if value.isdigit() else value
        raise ValueError(Message("expected a release such as 0.19.0 or a whole number, found {}", shown(value)))

    def parse(self, text: str) -> int | str:
        return self.check(text.strip())

    def schema(self) -> JsonSchema:
        return {"anyOf": [Integer(0).schema(), {"type": "string", "pattern": f"^{_RELEASE.pattern}$"}]}


_RELEASE = re.compile(r"v?[0-9]{1,6}(?:\.[0-9a-z]{1,12}){0,5}")


@dataclass(frozen=True, slots=True)
class Names:
    """One name, or a list of them; as text separated by commas."""

    def check(self, value: object) -> str | list[str]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not names or not all(map(self._is_name, names)):
            raise ValueError(Message("expected a name or a list of names, found {}", shown(value)))
        limits.few(names)
        return names[0] if len(names) == 1 else list(names)

    def parse(self, text: str) -> str | list[str]:
        names = [each.strip() for each in text.split(",")]
        return self.check(names[0] if len(names) == 1 else names)

    def spell(self, value: object) -> str:
        return value if isinstance(value, str) else ",".join(str(each) for each in value)  # type: ignore[attr-defined]

    def schema(self) -> JsonSchema:
        name = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
        return {"anyOf": [name, {"type": "array", "items": name, "minItems": 1, "maxItems": limits.LIST_LENGTH}]}

    @staticmethod
    def _is_name(value: object) -> bool:
        return isinstance(value, str) and _NAME.fullmatch(value) is not None


_NAME = re.compile(rf"[\w.-]{{1,{limits.NAME_LENGTH}}}")


def _no_usual(meant: Sequence[str]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Listed(Plain):
    """A row of a catalog by its id; too many to list in a message."""

    catalog: str
    titles: Mapping[str, str]
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """How else people write each; what can mean one row only is taken."""
    usual: Callable[[Sequence[str]], str | None] = _no_usual
    """Which of several rows a short name usually means; None if there is no such row."""
    otherwise: str = ""
    """What to do about a name that is not in the catalog."""

    def check(self, value: object) -> str:
        if isinstance(value, str) and value in self.titles:
            return value
        meant = meaning(value, self.spellings) if isinstance(value, str) else []
        if len(meant) == 1:
            return meant[0]
        usual = self.usual(meant)
        if usual is None:
            raise Unlisted(value, self.catalog, self.titles, meant, self.otherwise)
        others = tuple(each for each in meant if each != usual)
        reason = Message("the usual meaning of this name; others: {}", joined(", ", others))
        return Taken(usual, reason, others=others)

    def parse(self, text: str) -> str:
        return self.check(text.strip().lower())

    def schema(self) -> JsonSchema:
        return {"enum": list(self.titles)}


def encodable(text: str) -> str:
    """Return a text that links and files can carry: half of a surrogate pair has no encoding."""
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise ValueError("found a lone surrogate (half a character), which no file can contain")
    return text


def _without_infinity(model: Mapping[str, object]) -> Mapping[str, object]:
    """Return a config.json that JSON can hold: its infinite limits are spelled as transformers does."""
    found: dict[str, object] = {}
    for name, each in (("", model), *((name, model.get(name)) for name in ("text_config", "llm_config"))):
        if isinstance(each, Mapping) and (spelled := with_limits(each)) is not each:
            found |= {name: spelled} if name else spelled
    return {**model, **found} if found else model


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model: a name, or the content of a config.json, which as text is deflated and in base64."""

    def check(self, value: object) -> str | Mapping[str, object]:
        if not isinstance(value, (str, Mapping)) or not value:
            raise ValueError(
                Message("expected a catalog id, a hub id or the content of a config.json, found {}", shown(value))
            )
        return encodable(value) if isinstance(value, str) else _without_infinity(value)

    def parse(self, text: str) -> str | Mapping[str, object]:
        return self.check(inflated(text) if text.startswith(DEFLATED) else text.strip())

    def spell(self, value: object) -> str:
        return deflated(value) if isinstance(value, Mapping) else str(value)

    def schema(self) -> JsonSchema:
        return {"type": ["string", "object"], "minLength": 1, "minProperties": 1}


@dataclass(frozen=True, slots=True)
class Text(Plain):
    """Any short text that memory does not depend on."""

    def check(self, value: object) -> str:
        if not isinstance(value, str) or len(value) > limits.TEXT_LENGTH:
            raise ValueError(
                Message("expected a string of at most {} characters, found {}", limits.TEXT_LENGTH, shown(value))
            )
        if not value.strip():
            raise ValueError("found an empty string; leave the key out, or give null")
        return encodable(value)

    def parse(self, text: str) -> str:
        return self.check(text)

    def schema(self) -> JsonSchema:
        return {"type": "string", "maxLength": limits.TEXT_LENGTH, "pattern": r"\S"}


@dataclass(frozen=True, slots=True)
class Called(Text):
    """A name that others choose; one that is known is written in one way, whatever the spelling."""

    known: Callable[[str], str]
    """Returns the one spelling of a name."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Names of something else, and why they stand for nothing."""

    def check(self, value: object) -> str:
        """Return the name as it is known."""
        found = self.known(Text.check(self, value))
        if found.lower() in self.impossible:
            raise ValueError(Message("found {!r}, which {}", found, self.impossible[found.lower()]))
        return found


@dataclass(frozen=True, slots=True)
class Proportions(Plain):
    """How something is divided: numbers, not all of them zero, with commas or slashes between them.

    >>> Proportions().check("3/1.50"), Proportions().parse("17, 13")
    ('3,1.5', '17,13')
    """

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(_SHARES, value):
            raise ValueError(Message("expected numbers with commas between them, such as 3,1, found {}", shown(value)))
        return ",".join(f"{float(each):.9f}".rstrip("0").rstrip(".") for each in re.split("[,/]", value))

    def parse(self, text: str) -> str:
        return self.check(re.sub(r"\s", "", text))

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^{_SHARES}$"}


_SHARE = r"[0-9]{1,9}(\.[0-9]{1,9})?"
_SHARES = rf"(?=.*[1-9]){_SHARE}([,/]{_SHARE}){{0,{limits.LIST_LENGTH - 1}}}"
