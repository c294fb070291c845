"""Sizes and counts as people write them, and bytes as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log10

from memcore.limits import whole
from memcore.messages import Message

KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

_BYTE_UNITS = {
    "b": 1,
    "kb": KB,
    "mb": MB,
    "gb": GB,
    "tb": TB,
    "kib": KiB,
    "mib": MiB,
    "gib": GiB,
    "tib": TiB,
}
_COUNT_UNITS = {"": 1, "k": 2**10, "m": 2**20, "b": 10**9, "t": 10**12}
_DIGITS = "[0-9]+(?:[_,][0-9]{3})*(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
SIZE = rf"^\s*{_DIGITS}\s*(?:(?:[kKmMgGtT][iI]?)?[bB])?\s*$"
"""A number with or without a unit of bytes, as a pattern of JSON Schema has it."""
_NUMBER = re.compile(rf"\s*(-?{_DIGITS})\s*([a-z]*)\s*", re.IGNORECASE)
_PRODUCT = re.compile(r"[x×*]")


def parse_bytes(text: str) -> int:
    """Bytes from a number with a unit, such as `80GiB` or `80 GB`.

    >>> parse_bytes("80GiB"), parse_bytes("1.5 GB")
    (85899345920, 1500000000)

    Raises ValueError if it is not one.
    """
    number, unit = _split(text) or (0, "")
    factor = _BYTE_UNITS.get(unit)
    if factor is None:
        raise ValueError(Message("expected a number with a unit such as 80GiB or 80GB, found {!r:.80}", text))
    return _whole(number * factor, text)


def parse_count(text: str) -> int:
    """A whole number, as `8192`, `8k` and `1M` (times 1024 and 1024²), `1.5e9`, `7B` (times 10⁹) or `128x1024`.

    >>> parse_count("8k"), parse_count("128x1024"), parse_count("7B"), parse_count("1.5e9")
    (8192, 131072, 7000000000, 1500000000)

    Raises ValueError if it is not one.
    """
    total = 1
    for factor in _PRODUCT.split(text):
        number, unit = _split(factor) or (0, "?")
        if unit not in _COUNT_UNITS:
            raise ValueError(Message("expected a whole number such as 8192, 8k or 7B, found {!r:.80}", text))
        total *= _whole(number * _COUNT_UNITS[unit], text)
    return total


def _split(text: str) -> tuple[float, str] | None:
    """A number and its unit in lower case."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits = match[1].replace("_", "").replace(",", "")
    return (float(digits) if re.search(r"[.eE]", digits) else whole(digits)), match[2].lower()


def _whole(value: float, text: str) -> int:
    if value == float("inf") or value != int(value):
        raise ValueError(Message("expected a whole number, found {!r:.80}", text))
    return int(value)


def format_bytes(value: int) -> str:
    """Bytes for reading: GiB with two decimals below ten, else one; smaller units below a hundredth.

    >>> format_bytes(3 * GiB), format_bytes(80 * GiB), format_bytes(5 * MiB), format_bytes(512)
    ('3.00 GiB', '80.0 GiB', '5.0 MiB', '512 B')
    """
    size = abs(value)
    if size >= 10 * GiB:
        return f"{value / GiB:,.1f} GiB"
    if size >= GiB / 100:
        return f"{value / GiB:.2f} GiB"
    if size >= MiB / 10:
        return f"{value / MiB:.1f} MiB"
    return f"{value / KiB:.1f} KiB" if size >= KiB else f"{value} B"


def approximate(value: float) -> str:
    """A number in six digits, however many it has.

    >>> approximate(2**70), approximate(-(10**400))
    ('1.18059e+21', '-1e+400')
    """
    try:
        return f"{value:.6g}"
    except OverflowError:  # an integer beyond any float
        power = int(log10(abs(value)))
        return f"{int(value) // 10 ** (power - 5) / 10**5:.6g}e+{power}"


def shown(value: object) -> str:
    """A value as a message quotes it: up to 80 characters, and of longer numbers six digits.

    >>> shown("8k"), shown(-(10**400)), shown([10**5000])
    ("'8k'", '-1e+400', 'list(…)')
    """
    if isinstance(value, int) and abs(value) >= 10**40:
        return approximate(value)
    try:
        return f"{value!r:.80}"
    except ValueError:  # Python writes no integers of more than 4300 digits
        return f"{type(value).__name__}(…)"


def format_parameters(value: int) -> str:
    """A number of parameters for reading: `8.03 B`, `124 M`.

    >>> format_parameters(8_030_261_248), format_parameters(124_439_808), format_parameters(999_885_952)
    ('8.03 B', '124 M', '1.00 B')
    """
    # What three digits round up to the next unit has that unit.
    factor, unit = next((each for each in ((10**12, "T"), (10**9, "B")) if value >= 0.9995 * each[0]), (10**6, "M"))
    return f"{value / factor:#.3g}".rstrip(".") + f" {unit}"


def format_tokens(value: int) -> str:
    """A number of tokens as people say it from a billion on, and in digits below.

    >>> format_tokens(15 * 10**12), format_tokens(300 * 10**9), format_tokens(5_000_000)
    ('15T', '300B', '5,000,000')
    """
    factor, unit = (10**12, "T") if value >= 10**12 else (10**9, "B")
    return f"{value / factor:g}{unit}" if value >= factor else format_count(value)


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as ranges: `0-2,7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, each)) for each in found)


def format_count(value: int) -> str:
    """A count with thousands separated: `8,030,261,248`."""
    return f"{value:,}"
